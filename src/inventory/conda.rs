//! Environments of conda, mamba and pixi, and the package of each library in them.

use std::path::{Path, PathBuf};

use super::location::{ScanContext, SearchLocation, SearchLocations, named};
use super::model::Origin;
use super::warning::ReadFault;
use super::{parts, python, records};
use crate::formats::conda;

/// Directories that installers of conda create below `/opt`; each is an environment.
const IN_OPT: &[&str] = &[
    "anaconda3",
    "conda",
    "mambaforge",
    "micromamba",
    "miniconda3",
    "miniforge3",
];
/// The ones that they create below the home directory.
const IN_HOME: &[&str] = &[
    ".local/share/mamba",
    "anaconda3",
    "mambaforge",
    "micromamba",
    "miniconda3",
    "miniforge3",
];

/// In bytes. The records of the largest packages have a few megabytes.
const RECORD_LIMIT: u64 = 16 << 20;

/// The active environment.
pub(super) fn active(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let root = look.named("CONDA_PREFIX");
    named(in_environments(look, root))
}

/// Other environments: of conda's own directories, of `environments.txt` and of the project.
pub(super) fn elsewhere(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut bases: Vec<PathBuf> = IN_OPT
        .iter()
        .map(|name| Path::new("/opt").join(name))
        .collect();
    let env = &look.host.env;
    let variables = ["CONDA_ROOT", "MAMBA_ROOT_PREFIX"];
    bases.extend(
        variables
            .iter()
            .filter_map(|variable| env.non_empty(variable))
            .map(PathBuf::from),
    );
    // `/opt/conda/bin/conda`
    let executable = env.non_empty("CONDA_EXE").map(Path::new);
    bases.extend(executable.and_then(|path| Some(path.parent()?.parent()?.to_owned())));
    let mut collections: Vec<PathBuf> = Vec::new();
    for variable in ["CONDA_ENVS_DIRS", "CONDA_ENVS_PATH"] {
        let value = env
            .non_empty(variable)
            .and_then(|value| value.to_str())
            .unwrap_or_default();
        collections.extend(
            value
                .split(':')
                .filter(|path| path.starts_with('/'))
                .map(PathBuf::from),
        );
    }
    let mut roots: Vec<PathBuf> = Vec::new();
    if let Some(home) = look.host.home() {
        bases.extend(IN_HOME.iter().map(|name| home.join(name)));
        collections.push(home.join(".conda/envs"));
        let list = home.join(".conda/environments.txt");
        look.watch(&list);
        let text = look.host.read_text(&list).unwrap_or_default();
        roots.extend(conda::environments(&text).map(PathBuf::from));
    }
    collections
        .extend(python::project_directories(look).map(|directory| directory.join(".pixi/envs")));
    collections.extend(bases.iter().map(|base| base.join("envs")));
    roots.extend(bases);
    for collection in collections {
        let names = look.children(&collection);
        roots.extend(names.into_iter().map(|name| collection.join(name)));
    }
    let roots = look.real(roots);
    in_environments(look, roots)
}

fn in_environments(
    look: &mut ScanContext<'_>,
    roots: impl IntoIterator<Item = PathBuf>,
) -> Vec<SearchLocation> {
    let mut places = Vec::new();
    for root in roots {
        let own = environment(look, &root);
        if !own.is_empty() {
            places.extend(own);
            places.extend(python::in_environments(look, [root]));
        }
    }
    places
}

/// The directories of one environment, without its Python packages; empty where there is no environment.
pub(super) fn environment(look: &mut ScanContext<'_>, root: &Path) -> Vec<SearchLocation> {
    let meta = root.join("conda-meta");
    let names = look.children(&meta);
    if !look.host.is_directory(&meta) {
        return Vec::new();
    }
    let mut places = SearchLocations::default();
    for (below, origin) in [
        ("lib", Origin::Conda),
        ("lib/stubs", Origin::Stub),
        ("targets/sbsa-linux/lib", Origin::Conda),
        ("targets/sbsa-linux/lib/stubs", Origin::Stub),
        ("targets/x86_64-linux/lib", Origin::Conda),
        ("targets/x86_64-linux/lib/stubs", Origin::Stub),
    ] {
        places.insert(SearchLocation::new(root.join(below), origin));
    }
    let packages: Vec<_> = names
        .iter()
        .filter_map(|name| Some((name, conda::package(name)?)))
        .collect();
    let files: Vec<PathBuf> = packages.iter().map(|(name, _)| meta.join(name)).collect();
    let listed = records::libraries(look, &files, RECORD_LIMIT, |bytes| {
        let files = conda::files(bytes, &records::is_library)
            .map_err(|error| ReadFault::bad_json(&error))?;
        Ok(files.into_iter().map(|path| (path, None)).collect())
    });
    for ((_, (package, version, build)), libraries) in packages.into_iter().zip(listed) {
        // As `conda list` writes it.
        let says = parts::says(format!("{package} {version} {build}"), package, version);
        for (path, _) in &libraries {
            let path = root.join(path);
            let Some((place, file)) = places.of_file(&path, Origin::Conda) else {
                continue;
            };
            let said = parts::family_of_file(file).and_then(&says);
            place
                .packaged
                .extend(said.map(|said| (file.to_owned(), said)));
        }
    }
    places.all()
}
