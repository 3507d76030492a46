//! Groups the files of directories into installations.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory_scan::{Contents, DirectoryScan, NamedFile};
use super::evidence::{LibraryFile, LibrarySymbols};
use super::file_group::{FileGroup, main_file};
use super::installation::{Installation, Member, Origin, Problem, RpathDirectory};
use super::location::{self, ScanContext, SearchLocation};
use super::owners::{ChangedBy, Owners, WritablePath};
use super::versions;
use super::wheel;
use crate::catalog::{self, GroupedBy, catalog};
use crate::formats::names;
use crate::host::{FileId, Host, Stat};
use crate::loader::search::Tokens;
use crate::version::Version;

/// Installations, and the files of each directory by name.
#[derive(Default)]
pub(super) struct FoundInstallations {
    pub installations: Vec<Installation>,
    pub directories: BTreeMap<PathBuf, BTreeMap<String, FileId>>,
}

/// Resolves and judges paths.
struct Paths<'h> {
    host: &'h Host,
    tokens: Tokens,
    owners: Owners<'h>,
    /// Headers that were looked up, present or missing.
    headers: BTreeSet<PathBuf>,
}

/// Reads each location, and then the directories in the libraries' own search paths, which the loader searches first.
pub(super) fn find(
    scan: &mut ScanContext<'_>,
    locations: Vec<SearchLocation>,
) -> FoundInstallations {
    let mut paths = Paths::new(scan.host, scan.scope.machine);
    let mut directory_scan = DirectoryScan::default();
    let mut found = FoundInstallations::default();
    let mut locations = location::merge(scan, locations);
    while !locations.is_empty() {
        let directories = locations.keys().cloned().collect();
        for contents in directory_scan.contents_of(scan, directories) {
            let mut files = BTreeMap::new();
            for candidate in &contents.candidates {
                for name in &candidate.names {
                    files.insert(name.clone(), candidate.stat.id);
                }
            }
            let location = &locations[&contents.directory];
            found.directories.insert(contents.directory.clone(), files);
            let installations = installations_in(&mut paths, location, contents);
            found.installations.extend(installations);
        }
        let mut new = BTreeSet::new();
        for installation in &found.installations {
            for searched in installation.files.iter().flat_map(|file| &file.searched) {
                if !directory_scan.has_seen(&searched.directory) {
                    new.insert(&searched.directory);
                }
            }
        }
        let loose = new
            .into_iter()
            .map(|directory| SearchLocation::new(directory, Origin::Loose));
        locations = location::merge(scan, loose.collect());
        locations.retain(|directory, _| !directory_scan.has_seen(directory));
    }
    scan.watched.extend(paths.owners.sources());
    scan.watched.extend(paths.headers);
    let mut ranks: HashMap<&OsStr, usize> = HashMap::new();
    for (rank, directory) in found.directories.keys().enumerate() {
        ranks.insert(directory.as_os_str(), rank);
    }
    found.installations = merge_equal(found.installations, &scan.scope.site_packages, &ranks);
    found
}

/// The installations of one directory: one for each family and, where the family has several, for each SONAME.
fn installations_in(
    paths: &mut Paths<'_>,
    location: &SearchLocation,
    contents: Contents,
) -> Vec<Installation> {
    let mut groups: BTreeMap<(&str, Option<u32>, bool), Vec<NamedFile>> = BTreeMap::new();
    for candidate in contents.candidates {
        let family = candidate.file.family();
        let soname = match family.group {
            GroupedBy::Soname => catalog::soname_number(&candidate.file.soname),
            GroupedBy::Place => None,
        };
        groups
            .entry((&family.name, soname, candidate.file.renamed))
            .or_default()
            .push(candidate);
    }
    let mut installations = Vec::new();
    for ((_, soname, is_renamed), candidates) in groups {
        let origin = if is_renamed {
            Origin::Bundled
        } else {
            origin_of(location, &candidates)
        };
        let writable = writable_paths(paths, &contents.directory, &contents.stat, &candidates);
        let mut installation = assemble(paths, location, origin, soname, candidates);
        for writable in &writable {
            if writable.who == ChangedBy::Everybody {
                installation.problems.push(Problem::WorldWritable {
                    path: writable.path.clone(),
                });
            }
        }
        installation.open = writable;
        installation.open.extend(location.redirect.clone());
        installations.push(installation);
    }
    installations
}

fn assemble(
    paths: &mut Paths<'_>,
    location: &SearchLocation,
    origin: Origin,
    soname: Option<u32>,
    mut candidates: Vec<NamedFile>,
) -> Installation {
    let mut problems = second_of_one_soname(&mut candidates);
    let (records, conflicts) = wheel::settle(location, &candidates);
    problems.extend(conflicts);
    let family = candidates[0].file.family();
    let group = FileGroup {
        family,
        soname,
        candidates,
        records,
    };
    let versions = versions::determine(paths.host, &location.directory, &group);
    paths.headers.extend(versions.header);
    problems.extend(versions.problems);
    problems.extend(missing_files(&group, origin, versions.version));
    problems.extend(damaged_files(&group));
    let package = group.record().map(|record| record.package.clone());
    let cuda = strongest(&group.candidates, |file| &file.cuda)
        .or_else(|| cuda_of_package(package.as_deref()?));
    let built_for = strongest(&group.candidates, |file| &file.built_for);
    let forward_compatibility = group.main().file.forward_compatibility.clone();
    let mut files = Vec::new();
    for candidate in group.candidates {
        files.push(member(paths, &location.directory, candidate));
    }
    let mut installation = Installation {
        family: family.name.clone(),
        soname,
        version: versions.version,
        version_from: versions.source,
        shim: versions.shim,
        evidence: versions.evidence,
        cuda,
        built_for: built_for.filter(|built| cuda == Some(built.major)),
        origin,
        directory: location.directory.clone(),
        package,
        is_named: location.is_named,
        forward_compatibility,
        files,
        problems,
        ..Installation::default()
    };
    let required = family.required(soname.unwrap_or(0));
    let gpus = catalog::architectures()
        .iter()
        .map(|architecture| architecture.capability);
    installation.serves = installation.code_for(gpus, &required);
    installation
}

/// The other users who can change the files, their directory, those that links lead to, or one above.
fn writable_paths(
    paths: &mut Paths<'_>,
    directory: &Path,
    stat: &Stat,
    candidates: &[NamedFile],
) -> Vec<WritablePath> {
    let owners = &mut paths.owners;
    let mut writable = owners.writable(directory, stat);
    writable.extend(owners.replaceable(directory));
    let parents: BTreeSet<&Path> = candidates
        .iter()
        .filter_map(|candidate| candidate.path.parent())
        .collect();
    for parent in parents {
        if parent != directory {
            if let Ok(stat) = paths.host.stat(parent) {
                writable.extend(owners.writable(parent, &stat));
            }
            writable.extend(owners.replaceable(parent));
        }
    }
    for candidate in candidates {
        writable.extend(owners.writable(&candidate.path, &candidate.stat));
    }
    // One path is enough for each user or group; paths that everybody can change are all listed, to be closed one by one.
    let mut seen: Vec<ChangedBy> = Vec::new();
    writable.retain(|path| {
        let is_new = path.who.is_everybody() || !seen.contains(&path.who);
        seen.push(path.who);
        is_new
    });
    writable
}

/// Keeps the first of two files with one SONAME: it has the name that the loader opens. The second is a problem unless
/// it is an equal build: wheels have these instead of links.
fn second_of_one_soname(candidates: &mut Vec<NamedFile>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut seen: BTreeMap<String, (u64, Option<String>)> = BTreeMap::new();
    candidates.retain(|candidate| {
        let LibraryFile {
            soname, build_id, ..
        } = &*candidate.file;
        let build = (candidate.stat.size, build_id.clone());
        let Some(first) = seen.get(soname) else {
            seen.insert(soname.clone(), build);
            return true;
        };
        if *first != build || build_id.is_none() {
            let file = candidate.names[0].clone();
            problems.push(Problem::SecondOfOneSoname {
                soname: soname.clone(),
                file,
            });
        }
        false
    });
    problems
}

fn member(paths: &mut Paths<'_>, directory: &Path, candidate: NamedFile) -> Member {
    let searched = paths.searched(directory, &candidate.file);
    let NamedFile {
        file,
        symbols,
        names,
        stat,
        path,
    } = candidate;
    let LibraryFile {
        stem,
        soname,
        build_id,
        needed,
        needs,
        rpath,
        runpath,
        code,
        ..
    } = Arc::unwrap_or_clone(file);
    let LibrarySymbols { imports, exports } = Arc::unwrap_or_clone(symbols);
    Member {
        stem,
        soname,
        names,
        path,
        size: stat.size,
        id: stat.id,
        modified: stat.modified,
        uid: stat.uid,
        gid: stat.gid,
        mode: stat.mode,
        build_id,
        needed,
        imports,
        exports,
        code: code.unwrap_or_default(),
        glibc: needs.get("GLIBC_").copied(),
        glibcxx: needs.get("GLIBCXX_").copied(),
        rpath: rpath.map(|path| String::from_utf8_lossy(&path).into_owned()),
        runpath: runpath.map(|path| String::from_utf8_lossy(&path).into_owned()),
        searched,
    }
}

impl<'h> Paths<'h> {
    fn new(host: &'h Host, machine: u16) -> Paths<'h> {
        Paths {
            host,
            tokens: Tokens::new(host, machine),
            owners: Owners::new(host),
            headers: BTreeSet::new(),
        }
    }

    /// The directories of its DT_RPATH, for a file that is opened in its own directory.
    fn searched(&mut self, directory: &Path, file: &LibraryFile) -> Vec<RpathDirectory> {
        let Some(rpath) = &file.rpath else {
            return Vec::new();
        };
        let mut searched = Vec::new();
        for element in rpath.split(|byte| *byte == b':') {
            if let Some(path) = self.tokens.expand(element, Some(directory))
                && let Some(directory) =
                    location::real_directory(self.host, &self.host.absolute(&path))
            {
                searched.push(RpathDirectory {
                    directory,
                    from_origin: memchr::memmem::find(element, b"ORIGIN").is_some(),
                });
            }
        }
        searched
    }
}

/// The origin of the location, unless path or files show another one: a link in `/usr/lib` to a stub is a stub.
fn origin_of(location: &SearchLocation, candidates: &[NamedFile]) -> Origin {
    let family = candidates[0].file.family();
    let main = main_file(family, candidates);
    let is_driver = family.is_driver();
    let mut names = candidates.iter().flat_map(|candidate| &candidate.names);
    let is_packaged = names.any(|name| location.records.contains_key(name));
    match location.origin {
        Origin::Bundled => Origin::Bundled,
        _ if is_below(&location.directory, main, &["stubs"]) => Origin::Stub,
        Origin::Compat if is_driver => Origin::Compat,
        // Other libraries in a compat directory are parts of the toolkit.
        Origin::Compat => Origin::Toolkit,
        _ if is_driver && is_below(&location.directory, main, &["compat", "cuda-compat"]) => {
            Origin::Compat
        }
        Origin::Store | Origin::Debian | Origin::Loose if is_driver => Origin::Driver,
        // A file of no package beside files of a package.
        Origin::Debian if !is_packaged => Origin::Loose,
        other => other,
    }
}

/// True if its directory, the directory of its real file, or the parent of one of them has one of these names.
fn is_below(directory: &Path, main: &NamedFile, names: &[&str]) -> bool {
    let directories = [Some(directory), main.path.parent()].into_iter().flatten();
    let mut last = directories.flat_map(|directory| directory.components().rev().take(2));
    last.any(|component| names.iter().any(|name| component.as_os_str() == *name))
}

/// Merges installations of equal files, found through links or hard links. The directory of the result is in the program's
/// own environment if there is one, else where the files are. Links of another user do not make it that user's.
/// `ranks` are the positions of the directories in order, since comparing paths while sorting is slow.
fn merge_equal(
    mut installations: Vec<Installation>,
    site_packages: &[PathBuf],
    ranks: &HashMap<&OsStr, usize>,
) -> Vec<Installation> {
    installations.sort_by_cached_key(|installation| {
        let is_in_site = site_packages
            .iter()
            .any(|site| installation.directory.starts_with(site));
        let has_real_files = installation
            .files
            .iter()
            .all(|member| member.path.parent() == Some(&installation.directory));
        (
            !is_in_site,
            !has_real_files,
            Reverse(installation.files.len()),
            !installation.open.is_empty(),
            ranks.get(installation.directory.as_os_str()),
        )
    });
    let mut kept: Vec<Installation> = Vec::with_capacity(installations.len());
    let mut by_file: BTreeMap<FileId, Vec<usize>> = BTreeMap::new();
    for installation in installations {
        let first = by_file.get(&installation.files[0].id);
        let equal = first
            .into_iter()
            .flatten()
            .find(|index| kept[**index].has_files_of(&installation));
        match equal {
            Some(index) => kept[*index].absorb(installation),
            None => {
                for member in &installation.files {
                    by_file.entry(member.id).or_default().push(kept.len());
                }
                kept.push(installation);
            }
        }
    }
    let mut families: HashMap<&str, usize> = HashMap::new();
    for (index, family) in catalog().families.iter().enumerate() {
        families.insert(&family.name, index);
    }
    kept.sort_by_cached_key(|installation| {
        (
            families.get(installation.family.as_str()),
            Reverse((installation.soname, installation.version)),
            installation.origin,
            ranks.get(installation.directory.as_os_str()),
        )
    });
    kept
}

/// 12 for `nvidia-cudnn-cu12 9.1.0.70`, `libcudnn9-cuda-12 9.1.0.70-1` and `cudnn 9.1.1.17 cuda12_2`. Parts of a toolkit
/// have no such word; they were built for their own major.
fn cuda_of_package(package: &str) -> Option<u32> {
    let words: Vec<&str> = package
        .split(|c: char| !c.is_ascii_alphanumeric())
        .collect();
    let attached = words.iter().filter_map(|word| {
        word.strip_prefix("cuda")
            .or_else(|| word.strip_prefix("cu"))
    });
    let next = words
        .windows(2)
        .filter(|pair| pair[0] == "cuda")
        .map(|pair| pair[1]);
    let mut majors = attached.chain(next).filter(|word| word.len() == 2);
    majors.find_map(|word| word.parse().ok())
}

/// The value of the first rule that gives one.
fn strongest<T: Copy>(
    candidates: &[NamedFile],
    values: impl Fn(&LibraryFile) -> &Vec<(usize, T)>,
) -> Option<T> {
    candidates
        .iter()
        .flat_map(|candidate| values(&candidate.file))
        .min_by_key(|(rule, _)| *rule)
        .map(|(_, value)| *value)
}

fn missing_files(group: &FileGroup, origin: Origin, version: Option<Version>) -> Option<Problem> {
    let mut stems = group.family.required(group.soname.unwrap_or(0));
    for candidate in &group.candidates {
        let stem = &candidate.file.stem;
        // Files whose SONAME has the minor are of use for this minor only.
        let is_usable = !group.family.minor_in_soname.contains(stem)
            || version.is_none_or(|version| has_minor(&candidate.file.soname, version));
        stems.retain(|missing| !is_usable || missing != stem);
    }
    // A package that bundles only a shim uses the other files of another installation.
    let is_shim_of_package = origin == Origin::Bundled && group.has_only_shims();
    (!stems.is_empty() && !is_shim_of_package).then(|| Problem::Missing {
        stems: stems.into_iter().map(str::to_owned).collect(),
    })
}

fn has_minor(soname: &str, version: Version) -> bool {
    let suffix = names::split(soname).and_then(|(_, suffix)| suffix.parse::<Version>().ok());
    suffix.is_none_or(|suffix| suffix.agrees_with(&version))
}

/// Files that are cut short, or not as long as their package recorded.
fn damaged_files(group: &FileGroup) -> Vec<Problem> {
    let mut problems = Vec::new();
    for candidate in &group.candidates {
        let file = &candidate.names[0];
        if candidate.file.truncated {
            problems.push(Problem::Truncated { file: file.clone() });
        }
        if let Some(recorded) = group.records.get(file).and_then(|record| record.size)
            && recorded != candidate.stat.size
        {
            problems.push(Problem::SizeIsNotRecorded {
                file: file.clone(),
                recorded,
            });
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_say_for_which_cuda_they_are() {
        for package in [
            "nvidia-cudnn-cu12 9.1.0.70",
            "libcudnn9-cuda-12 9.1.0.70-1",
            "cudnn 9.1.1.17 cuda12_2",
            "cuda12.8-cudnn 9.8.0.87",
            "libnccl2 2.21.5-1+cuda12.4",
        ] {
            assert_eq!(cuda_of_package(package), Some(12), "{package}");
        }
        for package in [
            "nvidia-cublas 13.1.0.3",
            "cuda-cudart-12-4 12.4.127-1",
            "cuda-toolkit 12.4.1",
            "",
        ] {
            assert_eq!(cuda_of_package(package), None, "{package}");
        }
    }
}
