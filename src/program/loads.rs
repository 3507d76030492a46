//! What a Python package opens at run time, in order, as far as its profile and its shared objects tell.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::candidate::Candidate;
use super::framework;
use super::requirement::{Before, Load, Requirement, Want};
use crate::catalog::catalog;
use crate::formats::names;
use crate::host::Host;
use crate::loader::closure::Consumer;

/// First the libraries that it opens by absolute path, then its own modules, then what those open by name.
pub(super) fn of(
    host: &Host,
    candidate: &Candidate,
    consumers: &[Consumer],
    requirements: &[Requirement],
) -> Vec<Load> {
    let mut loads = by_absolute_path(host, candidate, requirements);
    let packers = packers(consumers, requirements);
    let is_opened = |consumer: &&Consumer| {
        !consumer.needed.is_empty() || packers.contains(consumer.object.path.as_path())
    };
    loads.extend(consumers.iter().filter(is_opened).map(|consumer| Load::path(&consumer.object.path)));
    let openers = openers(host, candidate);
    loads.extend(openers.iter().map(|opener| Load::path(opener)));
    for requirement in requirements.iter().filter(|requirement| requirement.named().is_some()) {
        let object = consumers.iter().find(|consumer| consumer.object.path == requirement.by.file);
        let is_linked =
            |consumer: &Consumer| consumer.needed.iter().any(|name| requirement.named() == Some(name));
        match object {
            Some(consumer) if is_linked(consumer) => {}
            Some(consumer) => loads.push(opened(requirement, Some(&consumer.object.path))),
            None if openers.is_empty() => loads.push(opened(requirement, None)),
            // Each asks for it: whoever finds it first.
            None => loads.extend(openers.iter().map(|opener| opened(requirement, Some(opener)))),
        }
    }
    loads
}

/// The files that open what stands in no file, which need not be linked against anything themselves.
fn openers(host: &Host, candidate: &Candidate) -> Vec<PathBuf> {
    let patterns = candidate.framework.map_or(&[][..], |framework| &framework.dlopened_by);
    let first = |pattern: &String| {
        let found = candidate.sites.iter().flat_map(|site| framework::expand(host, site, pattern));
        found.into_iter().find(|file| host.is_file(file))
    };
    patterns.iter().filter_map(first).collect()
}

/// The objects through which a library that was packed into the package, under a name of its own, is mapped.
fn packers<'c>(consumers: &'c [Consumer], requirements: &[Requirement]) -> HashSet<&'c Path> {
    let is_packed = |consumer: &&Consumer| {
        let asks_for_the_rest = |it: &Requirement| {
            it.by.file == consumer.object.path && matches!(it.want, Want::Exactly(_) | Want::Rest(_))
        };
        requirements.iter().any(asks_for_the_rest)
    };
    let mut found: HashSet<&Path> = HashSet::new();
    let mut news: Vec<&Consumer> = consumers.iter().filter(is_packed).collect();
    while let Some(new) = news.pop() {
        if !found.insert(&new.object.path) {
            continue;
        }
        let name = new.object.path.file_name().and_then(OsStr::to_str);
        let needs =
            |other: &&Consumer| other.object.needed.iter().any(|needed| Some(needed.as_str()) == name);
        news.extend(consumers.iter().filter(needs));
    }
    found
}

/// What it opens by its path before all else, library after library.
fn by_absolute_path(host: &Host, candidate: &Candidate, requirements: &[Requirement]) -> Vec<Load> {
    let Some(framework) = candidate.framework.filter(|framework| framework.dlopens_wheels_since.is_some())
    else {
        return Vec::new();
    };
    let mut found: Vec<(usize, PathBuf)> = Vec::new();
    let position = |family: &str| catalog().families.iter().position(|known| known.name == family);
    for requirement in requirements {
        let Some(name) = requirement.named() else { continue };
        let in_order = requirement.search_first.iter().filter(|first| first.rule == Before::AbsolutePath);
        let file = in_order.map(|first| first.directory.join(name)).find(|file| host.is_file(file));
        found.extend(position(&requirement.family).zip(file).filter(|new| !found.contains(new)));
    }
    let directories: BTreeSet<PathBuf> =
        found.iter().filter_map(|(_, file)| Some(file.parent()?.to_owned())).collect();
    for stem in &framework.dlopens_from_wheels {
        let Some(family) = catalog().family_of_stem(stem) else { continue };
        let file = directories.iter().find_map(|directory| numbered(host, directory, stem));
        // Before what depends on it.
        let at = found.iter().position(|(known, _)| Some(*known) == position(&family.name)).unwrap_or(0);
        if let Some(new) = position(&family.name).zip(file).filter(|new| !found.contains(new)) {
            found.insert(at, new);
        }
    }
    found.sort_by_key(|(position, _)| *position);
    found.iter().map(|(_, file)| Load::path(file)).collect()
}

/// The file of this stem that has a version in its name.
fn numbered(host: &Host, directory: &Path, stem: &str) -> Option<PathBuf> {
    let entries = host.list(directory).ok()?;
    let is_it = |name: &str| names::split(name).is_some_and(|(it, suffix)| it == stem && !suffix.is_empty());
    let name = entries.iter().filter_map(|entry| entry.name.to_str()).find(|name| is_it(name))?;
    Some(directory.join(name))
}

/// A name, as it is asked for by one of the package's own objects.
fn opened(requirement: &Requirement, by: Option<&Path>) -> Load {
    let name = requirement.named().unwrap_or_default().to_owned();
    Load { by: by.map(Path::to_owned), name }
}
