//! Programs other than Python that open modules for CUDA, as `profiles/places.toml` lists them.

use std::path::{Path, PathBuf};

use super::framework::expand;
use crate::catalog::catalog;
use crate::formats::names::matches_pattern;
use crate::host::Host;

/// The modules of a program that are here.
pub(super) fn modules(host: &Host, program: &Path) -> Vec<PathBuf> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let rows = catalog().places.program.iter();
    let rows = rows.filter(|row| row.names.iter().any(|known| matches_pattern(known, &name)));
    rows.flat_map(|row| &row.modules)
        .flat_map(|pattern| files(host, program, pattern))
        .collect()
}

/// The files of a pattern, from the directory of the program or from the home directory on.
fn files(host: &Host, program: &Path, pattern: &str) -> Vec<PathBuf> {
    let (from, pattern) = match pattern.strip_prefix("~/") {
        Some(rest) => (host.home(), rest),
        None => (program.parent().map(Path::to_owned), pattern),
    };
    let mut found = expand(host, &Vec::from_iter(from), pattern);
    found.retain(|file| host.is_file(file));
    found
}
