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
    let roots = scan.real(project_environments(scan));
    roots
        .iter()
        .flat_map(|root| in_environment(scan, root))
        .collect()
}

/// The site-packages directories below the root of an environment: `lib/python3.12/site-packages`.
pub(super) fn site_packages(scan: &mut ScanContext<'_>, root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen = Vec::new();
    for library in ["lib", "lib64"].map(|library| root.join(library)) {
        // One is often a link to the other.
        let id = scan.host.stat(&library).ok().map(|stat| stat.id);
        if id.is_none_or(|id| !seen.contains(&id)) {
            seen.extend(id);
            for python in pythons(scan, &library) {
                found.push(python.join("site-packages"));
            }
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
fn pythons(scan: &mut ScanContext<'_>, library: &Path) -> Vec<PathBuf> {
    let mut names = scan.children(library);
    names.retain(|name| name.starts_with("python3"));
    names.into_iter().map(|name| library.join(name)).collect()
}

fn project_environments(scan: &ScanContext<'_>) -> Vec<PathBuf> {
    let mut roots = Vec::new();
    // Relative to the project.
    let named = scan.host.env.non_empty("UV_PROJECT_ENVIRONMENT");
    for (index, directory) in project_directories(scan.host).into_iter().enumerate() {
        roots.extend(named.map(|named| directory.join(named)));
        let (environments, others): (Vec<_>, Vec<_>) = directories_in(scan, &directory)
            .into_iter()
            .partition(|child| is_environment(scan, child));
        roots.extend(environments);
        if index == 0 {
            let children = others.iter().flat_map(|other| directories_in(scan, other));
            roots.extend(
                children
                    .take(CHILDREN)
                    .filter(|child| is_environment(scan, child)),
            );
        }
    }
    roots
}

/// Watches nothing: files come and go in a project all day, and an environment that is used is watched itself.
fn directories_in(scan: &ScanContext<'_>, directory: &Path) -> Vec<PathBuf> {
    let entries = scan.host.list(directory).unwrap_or_default();
    entries
        .into_iter()
        .filter(|entry| matches!(entry.kind, FileKind::Directory | FileKind::Link))
        .filter_map(|entry| entry.name.into_string().ok())
        .filter(|name| !PRUNED.contains(&name.as_str()))
        .take(CHILDREN)
        .map(|name| directory.join(name))
        .collect()
}

fn is_environment(scan: &ScanContext<'_>, directory: &Path) -> bool {
    scan.host.is_file(&directory.join("pyvenv.cfg"))
}
