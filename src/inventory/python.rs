//! Environments of Python other than the program's: the active one and, if the whole machine is scanned, those of the
//! project, of the user, of tools and of the system.

use std::path::{Path, PathBuf};

use super::location::{ScanContext, SearchLocation, named};
use super::wheel;
use crate::host::Kind;

/// Directories with one environment in each child: the variable that moves them, the directory below it, and the
/// defaults below the home directory.
const COLLECTIONS: &[(&str, &str, &[&str])] = &[
    (
        "PIPX_HOME",
        "venvs",
        &[".local/share/pipx/venvs", ".local/pipx/venvs"],
    ),
    ("PYENV_ROOT", "versions", &[".pyenv/versions"]),
    ("UV_PYTHON_INSTALL_DIR", "", &[".local/share/uv/python"]),
    ("UV_TOOL_DIR", "", &[".local/share/uv/tools"]),
    (
        "WORKON_HOME",
        "",
        &[
            ".virtualenvs",
            ".local/share/virtualenvs",
            ".cache/pypoetry/virtualenvs",
        ],
    ),
];
/// Variables of XDG that move directories of the home directory.
const MOVED: [(&str, &str); 2] = [
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_CACHE_HOME", ".cache"),
];
/// Directories with the system's interpreters.
const SYSTEM: [&str; 4] = [
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
];
/// Python's name for the directory of its packages, and Debian's.
const PACKAGES: [&str; 2] = ["site-packages", "dist-packages"];
/// Large directories of a project that hold no environment.
const PRUNED: &[&str] = &[
    ".git",
    ".hg",
    ".mypy_cache",
    ".ruff_cache",
    "__pycache__",
    "node_modules",
    "target",
];
/// More children than any project has, unlike a directory of data.
const CHILDREN: usize = 1000;

/// The active environment.
pub(super) fn active(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let root = look.named("VIRTUAL_ENV");
    named(in_environments(look, root))
}

/// All other environments.
pub(super) fn elsewhere(look: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut roots = of_project(look);
    roots.extend(of_people(look));
    let roots = look.real(roots);
    let mut places = in_environments(look, roots);
    for site in of_system(look) {
        places.extend(wheel::in_site_packages(look, &site));
    }
    places
}

/// The site-packages directories below the root of an environment: `lib/python3.12/site-packages`.
pub(super) fn site_packages(look: &mut ScanContext<'_>, root: &Path) -> Vec<PathBuf> {
    let libraries = ["lib", "lib64"].map(|library| root.join(library));
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for library in libraries {
        // One is often a link to the other.
        let id = look.host.stat(&library).ok().map(|stat| stat.id);
        if id.is_none_or(|id| !seen.contains(&id)) {
            seen.extend(id);
            found.extend(
                pythons(look, &library)
                    .into_iter()
                    .map(|python| python.join("site-packages")),
            );
        }
    }
    found
}

pub(super) fn in_environments(
    look: &mut ScanContext<'_>,
    roots: impl IntoIterator<Item = PathBuf>,
) -> Vec<SearchLocation> {
    let mut places = Vec::new();
    for root in roots {
        for site in site_packages(look, &root) {
            places.extend(wheel::in_site_packages(look, &site));
        }
    }
    places
}

/// The current directory and those above it, up to the home directory, and never the root.
pub(super) fn project_directories(look: &ScanContext<'_>) -> impl Iterator<Item = PathBuf> + use<> {
    let home = look.host.home();
    let cwd = Some(look.host.cwd.clone()).filter(|cwd| cwd.is_absolute() && cwd.parent().is_some());
    let above = |directory: &PathBuf| {
        let parent = directory
            .parent()
            .filter(|_| home.as_ref() != Some(directory))?;
        parent.parent().is_some().then(|| parent.to_owned())
    };
    std::iter::successors(cwd, above)
        .collect::<Vec<_>>()
        .into_iter()
}

/// The directories of interpreters: `python3`, `python3.12`.
fn pythons(look: &mut ScanContext<'_>, library: &Path) -> Vec<PathBuf> {
    let names = look
        .children(library)
        .into_iter()
        .filter(|name| name.starts_with("python3"));
    names.map(|name| library.join(name)).collect()
}

fn of_project(look: &mut ScanContext<'_>) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    // Relative to the project.
    let named = look
        .host
        .env
        .non_empty("UV_PROJECT_ENVIRONMENT")
        .map(PathBuf::from);
    for (index, directory) in project_directories(look).enumerate() {
        roots.extend(named.iter().map(|named| directory.join(named)));
        let children = directories_in(look, &directory);
        let (environments, others): (Vec<_>, Vec<_>) = children
            .into_iter()
            .partition(|child| is_environment(look, child));
        roots.extend(environments);
        if index == 0 {
            let below = others
                .iter()
                .flat_map(|other| directories_in(look, other))
                .take(CHILDREN);
            roots.extend(below.filter(|child| is_environment(look, child)));
        }
    }
    roots
}

/// Watches nothing: files come and go in a project all day, and an environment that is used is watched itself.
fn directories_in(look: &ScanContext<'_>, directory: &Path) -> Vec<PathBuf> {
    let entries = look.host.list(directory).unwrap_or_default();
    let directories = entries
        .into_iter()
        .filter(|entry| matches!(entry.kind, Kind::Directory | Kind::Link));
    let names = directories.filter_map(|entry| entry.name.into_string().ok());
    let names = names
        .filter(|name| !PRUNED.contains(&name.as_str()))
        .take(CHILDREN);
    names.map(|name| directory.join(name)).collect()
}

fn is_environment(look: &ScanContext<'_>, directory: &Path) -> bool {
    look.host.is_file(&directory.join("pyvenv.cfg"))
}

/// Environments in the home directory, or in the directories that variables name.
fn of_people(look: &mut ScanContext<'_>) -> Vec<PathBuf> {
    let host = look.host;
    let home = host.home();
    let moved = |below: &str| {
        let to = MOVED.iter().find_map(|(variable, from)| {
            let to = host
                .env
                .non_empty(variable)
                .map(Path::new)
                .filter(|to| to.is_absolute())?;
            Some(to.join(below.strip_prefix(from)?.strip_prefix('/')?))
        });
        to.or_else(|| Some(home.as_ref()?.join(below)))
    };
    let mut collections: Vec<PathBuf> = Vec::new();
    for (variable, below, usual) in COLLECTIONS {
        collections.extend(look.named(variable).map(|named| named.join(below)));
        collections.extend(usual.iter().filter_map(|usual| moved(usual)));
    }
    // A user's packages are laid out like an environment.
    let user = look.named("PYTHONUSERBASE");
    let mut roots: Vec<PathBuf> = user
        .or_else(|| Some(home.as_ref()?.join(".local")))
        .into_iter()
        .collect();
    for collection in collections {
        let names = look.children(&collection);
        roots.extend(names.into_iter().map(|name| collection.join(name)));
    }
    roots
}

fn of_system(look: &mut ScanContext<'_>) -> Vec<PathBuf> {
    let pythons: Vec<PathBuf> = SYSTEM
        .iter()
        .flat_map(|library| pythons(look, Path::new(library)))
        .collect();
    look.real(
        pythons
            .iter()
            .flat_map(|python| PACKAGES.map(|name| python.join(name))),
    )
}
