//! The packages that a program may use indirectly, through those that it imports.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::candidate::{Candidates, PackageCandidate};
use super::imports::{self, Imports};
use super::python::Python;
use crate::catalog::catalog;
use crate::formats::python as source;
use crate::host::Host;
use crate::parallel;

/// The packages that the program's imports import in turn, and the frameworks that their source names.
/// `None` if there is too much source to read.
pub(super) fn within_reach(
    candidates: &Candidates<'_>,
    python: &Python,
    imports: &Imports,
) -> Option<Vec<PackageCandidate>> {
    let Candidates {
        host,
        sites,
        installed,
    } = *candidates;
    let mut modules = imports::reached(host, python, installed, imports.installed.keys().cloned())?;
    let names: Vec<&String> = catalog()
        .frameworks
        .iter()
        .flat_map(|framework| &framework.modules)
        .filter(|name| {
            !modules.contains(*name) && sites.iter().any(|site| host.is_directory(&site.join(name)))
        })
        .collect();
    if !names.is_empty() {
        let files: Vec<PathBuf> = modules
            .iter()
            .flat_map(|module| sites.iter().map(move |site| site.join(module)))
            .flat_map(|module| source_files(host, &module))
            .collect();
        let named = parallel::map(&files, |file| named_in(host, file, &names));
        modules.extend(named.into_iter().flatten());
    }
    Some(candidates.possible(modules))
}

/// The source of a package, or of a module of one file.
fn source_files(host: &Host, module: &Path) -> Vec<PathBuf> {
    let mut files = host.walk(module, &|name: &OsStr| {
        matches!(
            name.as_bytes(),
            b"__pycache__" | b"tests" | b"examples" | b"_examples"
        )
    });
    files.push(module.with_added_extension("py"));
    files.retain(|file| file.extension() == Some(OsStr::new("py")));
    files
}

/// Those of `names` that a file imports anywhere, or that are a whole string in it.
fn named_in(host: &Host, file: &Path, names: &[&String]) -> BTreeSet<String> {
    let Ok(text) = host.read(file) else {
        return BTreeSet::new();
    };
    let mut found: BTreeSet<String> = names
        .iter()
        .filter(|name| memmem::find(&text, name.as_bytes()).is_some())
        .map(ToString::to_string)
        .collect();
    if !found.is_empty() {
        let read = source::read(&text);
        found.retain(|name| {
            read.imports
                .iter()
                .any(|import| import.level == 0 && import.module.split('.').next() == Some(name))
                || read.strings.iter().any(|(_, text)| text == name)
        });
    }
    found
}
