//! Environments of conda, mamba and pixi: what stands in them, and which package brought it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::known::Known;
use super::place::{Look, Place};
use super::{Fault, Origin, parts, python, survey};
use crate::formats::conda;
use crate::host::{Host, Stat};
use crate::parallel;

/// Where installers put an installation, which is an environment itself.
const IN_OPT: &[&str] = &["anaconda3", "conda", "mambaforge", "micromamba", "miniconda3", "miniforge3"];
const IN_HOME: &[&str] =
    &[".local/share/mamba", "anaconda3", "mambaforge", "micromamba", "miniconda3", "miniforge3"];

/// The environment that is in effect.
pub(super) fn active(look: &mut Look<'_>) -> Vec<Place> {
    let root = look.host.env.non_empty("CONDA_PREFIX").map(|root| look.host.absolute(Path::new(root)));
    in_environments(look, root)
}

/// Those of installations, of other people's lists and of the project.
pub(super) fn elsewhere(look: &mut Look<'_>) -> Vec<Place> {
    let mut bases: Vec<PathBuf> = IN_OPT.iter().map(|name| Path::new("/opt").join(name)).collect();
    let env = &look.host.env;
    bases.extend(
        ["CONDA_ROOT", "MAMBA_ROOT_PREFIX"].iter().filter_map(|it| env.non_empty(it)).map(PathBuf::from),
    );
    // `/opt/conda/bin/conda`
    let executable = env.non_empty("CONDA_EXE").map(Path::new);
    bases.extend(executable.and_then(|path| Some(path.parent()?.parent()?.to_owned())));
    let mut collections: Vec<PathBuf> = Vec::new();
    for variable in ["CONDA_ENVS_DIRS", "CONDA_ENVS_PATH"] {
        let value = env.non_empty(variable).and_then(|value| value.to_str()).unwrap_or_default();
        collections.extend(value.split(':').filter(|path| path.starts_with('/')).map(PathBuf::from));
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
    collections.extend(python::project_directories(look).map(|directory| directory.join(".pixi/envs")));
    collections.extend(bases.iter().map(|base| base.join("envs")));
    roots.extend(bases);
    for collection in collections {
        let names = look.children(&collection);
        roots.extend(names.into_iter().map(|name| collection.join(name)));
    }
    // One list names what another holds.
    let mut roots: Vec<PathBuf> = roots.iter().filter_map(|root| look.host.canonical(root).ok()).collect();
    roots.sort();
    roots.dedup();
    in_environments(look, roots)
}

fn in_environments(look: &mut Look<'_>, roots: impl IntoIterator<Item = PathBuf>) -> Vec<Place> {
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

/// What stands in one environment besides the packages of Python; nothing where there is no environment.
pub(super) fn environment(look: &mut Look<'_>, root: &Path) -> Vec<Place> {
    let records = root.join("conda-meta");
    let names = look.children(&records);
    if !look.host.is_directory(&records) {
        return Vec::new();
    }
    let mut places: BTreeMap<PathBuf, Place> = BTreeMap::new();
    for (below, origin) in [
        ("lib", Origin::Conda),
        ("lib/stubs", Origin::Stub),
        ("targets/sbsa-linux/lib", Origin::Conda),
        ("targets/sbsa-linux/lib/stubs", Origin::Stub),
        ("targets/x86_64-linux/lib", Origin::Conda),
        ("targets/x86_64-linux/lib/stubs", Origin::Stub),
    ] {
        let directory = root.join(below);
        places.insert(directory.clone(), Place::new(directory, origin));
    }
    let (host, known) = (look.host, &*look.known);
    let found = parallel::map(&names, |name| libraries_of(host, known, &records.join(name), name));
    for (name, record) in names.iter().zip(found) {
        let Some(record) = record else { continue };
        let libraries = match record.libraries {
            Ok(libraries) => libraries,
            Err(fault) => {
                look.warn(records.join(name), fault);
                continue;
            }
        };
        let Some((package, version, build)) = conda::package(name) else { continue };
        // As `conda list` writes it.
        let says = parts::says(format!("{package} {version} {build}"), package, version);
        for (path, _) in &libraries {
            let path = root.join(path);
            let (Some(directory), Some(file)) = (path.parent(), path.file_name().and_then(|f| f.to_str()))
            else {
                continue;
            };
            let place =
                places.entry(directory.to_owned()).or_insert_with(|| Place::new(directory, Origin::Conda));
            place
                .packaged
                .extend(parts::family_of_file(file).and_then(&says).map(|said| (file.to_owned(), said)));
        }
        if let Some(stat) = record.is_new.filter(|stat| look.known.is_settled(stat)) {
            look.known.records.insert(&stat, &libraries);
        }
    }
    places.into_values().collect()
}

/// The records of the packages with the most files have a few megabytes.
const RECORD_LIMIT: u64 = 16 << 20;

/// The libraries that one record lists.
struct Record {
    libraries: Result<Vec<(String, Option<u64>)>, Fault>,
    /// How it looks, where that was not known before.
    is_new: Option<Stat>,
}

fn libraries_of(host: &Host, known: &Known, record: &Path, name: &str) -> Option<Record> {
    conda::package(name)?;
    let stat = host.stat(record).ok()?;
    if let Some(libraries) = known.records.get(&stat) {
        return Some(Record { libraries: Ok(libraries.clone()), is_new: None });
    }
    if stat.size > RECORD_LIMIT {
        let what = format!("{} bytes are too many", stat.size);
        return Some(Record { libraries: Err(Fault::BadRecord { what }), is_new: None });
    }
    let bytes = host.read(record).ok()?;
    let is_library = |path: &str| path.rsplit('/').next().is_some_and(survey::is_of_interest);
    let files = conda::files(&bytes, &is_library);
    let libraries = files.map(|files| files.into_iter().map(|path| (path, None)).collect());
    Some(Record { libraries: libraries.map_err(|error| Fault::bad_json(&error)), is_new: Some(stat) })
}
