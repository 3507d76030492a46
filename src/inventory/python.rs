//! Environments of Python: their packages, and the environments of a project.

use std::path::{Path, PathBuf};

use super::location::{ScanContext, SearchLocation};
use super::wheel;
use crate::host::{FileKind, Host};

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

/// The environments of the project.
pub(super) fn elsewhere(scan: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let roots = scan.real(of_project(scan));
    roots
        .iter()
        .flat_map(|root| in_environment(scan, root))
        .collect()
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

pub(super) fn in_environment(scan: &mut ScanContext<'_>, root: &Path) -> Vec<SearchLocation> {
    let sites = site_packages(scan, root);
    sites
        .iter()
        .flat_map(|site| wheel::in_site_packages(scan, site))
        .collect()
}

/// The current directory and those above it, up to the home directory, and never the root.
pub(super) fn project_directories(host: &Host) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    let mut next = Some(host.cwd.as_path()).filter(|cwd| cwd.is_absolute());
    while let Some(directory) = next.filter(|directory| directory.parent().is_some()) {
        directories.push(directory.to_owned());
        let is_home = host.home().is_some_and(|home| home == directory);
        next = directory.parent().filter(|_| !is_home);
    }
    directories
}

/// The directories of interpreters: `python3`, `python3.12`.
fn pythons(look: &mut ScanContext<'_>, library: &Path) -> Vec<PathBuf> {
    let names = look
        .children(library)
        .into_iter()
        .filter(|name| name.starts_with("python3"));
    names.map(|name| library.join(name)).collect()
}

fn of_project(look: &ScanContext<'_>) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    // Relative to the project.
    let named = look
        .host
        .env
        .non_empty("UV_PROJECT_ENVIRONMENT")
        .map(PathBuf::from);
    for (index, directory) in project_directories(look.host).into_iter().enumerate() {
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
        .filter(|entry| matches!(entry.kind, FileKind::Directory | FileKind::Link));
    let names = directories.filter_map(|entry| entry.name.into_string().ok());
    let names = names
        .filter(|name| !PRUNED.contains(&name.as_str()))
        .take(CHILDREN);
    names.map(|name| directory.join(name)).collect()
}

fn is_environment(look: &ScanContext<'_>, directory: &Path) -> bool {
    look.host.is_file(&directory.join("pyvenv.cfg"))
}
