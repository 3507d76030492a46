//! The libraries that a Python package opens at run time, in order, by its profile and its shared objects.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::candidate::PackageCandidate;
use super::framework;
use super::framework_records;
use crate::catalog::catalog;
use crate::formats::names;
use crate::host::Host;
use crate::loader::closure::Consumer;
use crate::requirements::{Before, LibraryRequirement, Load, Want};

/// The libraries that a package opens by absolute path, then its own modules, then the libraries that those open by
/// name.
pub(super) fn loads(
    host: &Host,
    candidate: &PackageCandidate,
    version: Option<&str>,
    consumers: &[Consumer],
    requirements: &[LibraryRequirement],
) -> Vec<Load> {
    let mut loads = by_absolute_path(host, candidate, version, requirements);
    let packers = packers(consumers, requirements);
    let named: HashSet<&Path> = requirements
        .iter()
        .filter(|r| r.named().is_some())
        .map(|r| r.by.file.as_path())
        .collect();
    // One that only opens libraries gives them its search path.
    loads.extend(
        consumers
            .iter()
            .filter(|consumer| {
                let path = consumer.object.path.as_path();
                !consumer.needed.is_empty()
                    || is_packer(consumer)
                    || packers.contains(path)
                    || named.contains(path)
            })
            .map(|consumer| Load::path(&consumer.object.path)),
    );
    // The files that open the libraries that only the profile names.
    let patterns = candidate
        .framework
        .and_then(|framework| framework.dlopened_by.as_deref())
        .unwrap_or_default();
    let openers: Vec<PathBuf> = patterns
        .iter()
        .filter_map(|pattern| {
            framework::expand(host, &candidate.sites, pattern)
                .into_iter()
                .find(|file| host.is_file(file))
        })
        .collect();
    loads.extend(openers.iter().map(|opener| Load::path(opener)));
    for requirement in requirements {
        let Some(name) = requirement.named() else {
            continue;
        };
        let object = consumers
            .iter()
            .find(|consumer| consumer.object.path == requirement.by.file);
        match object {
            Some(consumer) if consumer.needed.iter().any(|needed| name == needed) => {}
            Some(consumer) => loads.push(opened(host, requirement, Some(&consumer.object.path))),
            None if openers.is_empty() => loads.push(opened(host, requirement, None)),
            // Any of them may be the first to open it.
            None => loads.extend(
                openers
                    .iter()
                    .map(|opener| opened(host, requirement, Some(opener))),
            ),
        }
    }
    loads
}

/// True if an object is linked against an NVIDIA library that its package bundles under another name.
pub(super) fn is_packer(consumer: &Consumer) -> bool {
    consumer
        .object
        .needed
        .iter()
        .any(|name| catalog().family_of_bundled(Path::new(name)).is_some())
}

/// The libraries that were packed into the package under a name with a hash, and the objects that load them.
fn packers<'c>(
    consumers: &'c [Consumer],
    requirements: &[LibraryRequirement],
) -> HashSet<&'c Path> {
    let mut found: HashSet<&Path> = HashSet::new();
    let mut news: Vec<&Consumer> = consumers
        .iter()
        .filter(|consumer| {
            requirements.iter().any(|requirement| {
                requirement.by.file == consumer.object.path
                    && matches!(requirement.want, Want::Exactly(_) | Want::Rest(_))
            })
        })
        .collect();
    while let Some(new) = news.pop() {
        if !found.insert(&new.object.path) {
            continue;
        }
        let name = new.object.path.file_name().and_then(OsStr::to_str);
        news.extend(consumers.iter().filter(|other| {
            other
                .object
                .needed
                .iter()
                .any(|needed| Some(needed.as_str()) == name)
        }));
    }
    found
}

/// The libraries that it opens by path before all others, in the order of the families.
fn by_absolute_path(
    host: &Host,
    candidate: &PackageCandidate,
    version: Option<&str>,
    requirements: &[LibraryRequirement],
) -> Vec<Load> {
    let Some(framework) = candidate.framework else {
        return Vec::new();
    };
    let mut directories: BTreeSet<&Path> = BTreeSet::new();
    let mut found: Vec<(usize, PathBuf)> = Vec::new();
    for requirement in requirements {
        let Some(name) = requirement.named() else {
            continue;
        };
        // NVVM has no version in its file's name.
        let bare = names::split(name).map_or(name.to_owned(), |(stem, _)| format!("{stem}.so"));
        let mut file = None;
        for first in &requirement.search_first {
            if first.rule == Before::AbsolutePath {
                directories.insert(&first.directory);
                let mut files = [name, &bare]
                    .map(|name| first.directory.join(name))
                    .into_iter();
                file = file.or_else(|| files.find(|file| host.is_file(file)));
            }
        }
        if let Some(new) = position(&requirement.family).zip(file)
            && !found.contains(&new)
        {
            found.push(new);
        }
    }
    for stem in framework.dlopens_from_wheels.iter().flatten() {
        if !framework_records::opens_by_path(candidate, version, stem) {
            continue;
        }
        let family = catalog().family_of_stem(stem);
        let position = family.and_then(|family| position(&family.name));
        let file = directories
            .iter()
            .find_map(|directory| numbered(host, directory, stem));
        // Libraries that depend on it come later.
        let before = found
            .iter()
            .position(|(known, _)| Some(*known) == position)
            .unwrap_or(0);
        if let Some(new) = position.zip(file)
            && !found.contains(&new)
        {
            found.insert(before, new);
        }
    }
    found.sort_by_key(|(position, _)| *position);
    found.iter().map(|(_, file)| Load::path(file)).collect()
}

/// The place of a family in the order of the catalog.
fn position(family: &str) -> Option<usize> {
    catalog()
        .families
        .iter()
        .position(|known| known.name == family)
}

/// The file of this stem that has a version in its name.
fn numbered(host: &Host, directory: &Path, stem: &str) -> Option<PathBuf> {
    let entries = host.list(directory).ok()?;
    let mut names = entries.iter().filter_map(|entry| entry.name.to_str());
    let name = names.find(|name| {
        names::split(name).is_some_and(|(own, suffix)| own == stem && !suffix.is_empty())
    })?;
    Some(directory.join(name))
}

/// The load of a requirement by one of the package's own objects: by path if the object names an existing file.
fn opened(host: &Host, requirement: &LibraryRequirement, opener: Option<&Path>) -> Load {
    let name = requirement.named().unwrap_or_default();
    let path = requirement
        .search_first
        .iter()
        .filter(|first| first.rule == Before::AbsolutePath)
        .map(|first| first.directory.join(name))
        .find(|path| host.is_file(path));
    let opened = path.unwrap_or_else(|| PathBuf::from(name));
    Load {
        by: opener.map(Path::to_owned),
        ..Load::path(&opened)
    }
}
