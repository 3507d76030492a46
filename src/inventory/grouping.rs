//! Groups the files of directories into installations.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory_scan::{Contents, DirectoryScan, NamedFile};
use super::evidence::{LibraryFile, LibrarySymbols};
use super::installation::{Installation, Member, Origin, Problem, RpathDirectory};
use super::location::{self, Packaged, ScanContext, SearchLocation};
use super::owners::{ChangedBy, Owners, WritablePath};
use super::versions;
use super::wheel;
use crate::catalog::{self, Family, GroupedBy, catalog};
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

/// Reads each place, and then the directories in the libraries' own search paths, which the loader searches first.
pub(super) fn find(look: &mut ScanContext<'_>, places: Vec<SearchLocation>) -> FoundInstallations {
    let mut paths = Paths::new(look.host, look.scope.machine);
    let mut scan = DirectoryScan::default();
    let mut found = FoundInstallations::default();
    let mut places = location::merge(look, places);
    while !places.is_empty() {
        let directories = places.keys().cloned().collect();
        for contents in scan.look_into(look, directories) {
            let names = contents.candidates.iter().flat_map(|candidate| {
                candidate
                    .names
                    .iter()
                    .map(|name| (name.clone(), candidate.stat.id))
            });
            found
                .directories
                .insert(contents.directory.clone(), names.collect());
            let place = &places[&contents.directory];
            found
                .installations
                .extend(installations_in(look.host, &mut paths, place, contents));
        }
        let members = found
            .installations
            .iter()
            .flat_map(|installation| &installation.files);
        let searched = members
            .flat_map(|member| &member.searched)
            .map(|searched| &searched.directory);
        let new: BTreeSet<&PathBuf> = searched
            .filter(|directory| !scan.has_seen(directory))
            .collect();
        let loose = new
            .into_iter()
            .map(|directory| SearchLocation::new(directory, Origin::Loose))
            .collect();
        places = location::merge(look, loose);
        places.retain(|directory, _| !scan.has_seen(directory));
    }
    look.watched.extend(paths.owners.asked());
    look.watched.extend(paths.headers);
    let ranks: HashMap<&OsStr, usize> = found
        .directories
        .keys()
        .enumerate()
        .map(|(rank, path)| (path.as_os_str(), rank))
        .collect();
    found.installations = merge_equal(found.installations, &look.scope.site_packages, &ranks);
    found
}

/// Returns the installations of one directory: one for each family and, where the family has several, for each SONAME.
fn installations_in(
    host: &Host,
    paths: &mut Paths<'_>,
    place: &SearchLocation,
    contents: Contents,
) -> Vec<Installation> {
    let Contents {
        directory,
        stat,
        candidates,
    } = contents;
    let mut groups: BTreeMap<(&str, Option<u32>, bool), Vec<NamedFile>> = BTreeMap::new();
    for candidate in candidates {
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
    let assemble = |((_, soname, renamed), candidates): ((_, _, bool), Vec<NamedFile>)| {
        let is_owned = candidates
            .iter()
            .any(|c| c.names.iter().any(|name| place.packaged.contains_key(name)));
        let origin = match place.origin {
            _ if renamed => Origin::Bundled,
            // A file of no package beside files of a package.
            Origin::Debian if !is_owned => Origin::Loose,
            origin => origin,
        };
        let origin = origin_of(origin, &directory, &candidates);
        let open = open(host, &mut paths.owners, &directory, &stat, &candidates);
        let mut installation = assemble(host, paths, &directory, origin, soname, candidates, place);
        let everybody = open.iter().filter(|open| open.who == ChangedBy::Everybody);
        installation
            .problems
            .extend(everybody.map(|open| Problem::WorldWritable {
                path: open.path.clone(),
            }));
        installation.open = open;
        installation.open.extend(place.led_by.clone());
        installation.is_named = place.is_named;
        installation
    };
    groups.into_iter().map(assemble).collect()
}

fn assemble(
    host: &Host,
    paths: &mut Paths<'_>,
    directory: &Path,
    origin: Origin,
    soname: Option<u32>,
    mut candidates: Vec<NamedFile>,
    place: &SearchLocation,
) -> Installation {
    let mut problems = second_of_one_soname(&mut candidates);
    let (packaged, claimed) = wheel::settle(place, &candidates);
    problems.extend(claimed);
    let family = candidates[0].file.family();
    let main = candidates
        .iter()
        .find(|c| c.file.stem == family.main)
        .unwrap_or(&candidates[0]);
    let record = main.names.iter().find_map(|name| packaged.get(name));
    let versions = versions::determine(
        host,
        directory,
        main,
        soname,
        &candidates,
        record,
        &packaged,
    );
    paths.headers.extend(versions.header);
    problems.extend(versions.problems);
    let cuda = strongest(&candidates, |file| &file.cuda)
        .copied()
        .or_else(|| cuda_of_package(record));
    let built_for = strongest(&candidates, |file| &file.built_for).copied();
    let missing = missing_stems(family, soname, versions.version, &candidates);
    let is_shim = |candidate: &NamedFile| family.is_shim(&candidate.file.stem, soname);
    // A package that bundles only a shim uses the other files of another installation.
    let is_shim_of_package = origin == Origin::Bundled && candidates.iter().all(is_shim);
    if !missing.is_empty() && !is_shim_of_package {
        problems.push(Problem::Missing { stems: missing });
    }
    for candidate in &candidates {
        let name = &candidate.names[0];
        if candidate.file.truncated {
            problems.push(Problem::Truncated { file: name.clone() });
        }
        let recorded = packaged.get(name).and_then(|packaged| packaged.size);
        if let Some(recorded) = recorded.filter(|size| *size != candidate.stat.size) {
            problems.push(Problem::SizeIsNotRecorded {
                file: name.clone(),
                recorded,
            });
        }
    }
    let mut installation = Installation {
        family: family.name.clone(),
        soname,
        version: versions.version,
        version_from: versions.from,
        shim: versions.shim,
        evidence: versions.evidence,
        cuda,
        built_for: built_for.filter(|built| cuda == Some(built.major)),
        origin,
        directory: directory.to_owned(),
        also: Vec::new(),
        package: record.map(|record| record.package.clone()),
        open: Vec::new(),
        is_named: false,
        position: None,
        loader_gives: false,
        forward_compatibility: main.file.forward_compatibility.clone(),
        files: candidates
            .into_iter()
            .map(|candidate| member(paths, directory, candidate))
            .collect(),
        serves: BTreeMap::new(),
        problems,
    };
    let required = family.required(soname.unwrap_or(0));
    let gpus = catalog::architectures()
        .iter()
        .map(|architecture| architecture.capability);
    installation.serves = installation.code_for(gpus, &required);
    installation
}

/// Returns the other users who can change the files, their directory, those that links lead to, or one above.
fn open(
    host: &Host,
    owners: &mut Owners<'_>,
    directory: &Path,
    stat: &Stat,
    candidates: &[NamedFile],
) -> Vec<WritablePath> {
    let mut open = owners.open(directory, stat);
    let parents: BTreeSet<&Path> = candidates
        .iter()
        .filter_map(|candidate| candidate.path.parent())
        .collect();
    open.extend(owners.replaceable(directory));
    for parent in parents.into_iter().filter(|parent| *parent != directory) {
        open.extend(
            host.stat(parent)
                .iter()
                .flat_map(|stat| owners.open(parent, stat)),
        );
        open.extend(owners.replaceable(parent));
    }
    for candidate in candidates {
        open.extend(owners.open(&candidate.path, &candidate.stat));
    }
    // One path is enough for each user or group; paths that everybody can change are all listed, to be closed one by one.
    let mut seen: Vec<ChangedBy> = Vec::new();
    open.retain(|open| {
        let is_new = open.who.is_everybody() || !seen.contains(&open.who);
        seen.push(open.who);
        is_new
    });
    open
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
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
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
        rpath: rpath.map(text),
        runpath: runpath.map(text),
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

    /// Returns the directories of its DT_RPATH, for a file that is opened in its own directory.
    fn searched(&mut self, directory: &Path, file: &LibraryFile) -> Vec<RpathDirectory> {
        let elements = file
            .rpath
            .iter()
            .flat_map(|rpath| rpath.split(|byte| *byte == b':'));
        let searched = elements.filter_map(|element| {
            let path = self
                .host
                .absolute(&self.tokens.expand(element, Some(directory))?);
            let directory = location::real_directory(self.host, &path)?;
            Some(RpathDirectory {
                directory,
                from_origin: memchr::memmem::find(element, b"ORIGIN").is_some(),
            })
        });
        searched.collect()
    }
}

/// Returns the origin of the place, unless path or files show another one: a link in `/usr/lib` to a stub is a stub.
fn origin_of(origin: Origin, directory: &Path, candidates: &[NamedFile]) -> Origin {
    let first = &candidates[0];
    let family = first.file.family();
    let main = candidates
        .iter()
        .find(|candidate| candidate.file.stem == family.main)
        .unwrap_or(first);
    let is_driver = family.name == "driver";
    match origin {
        Origin::Bundled => Origin::Bundled,
        _ if is_below(directory, main, &["stubs"]) => Origin::Stub,
        Origin::Compat if is_driver => Origin::Compat,
        // Other libraries in a compat directory are parts of the toolkit.
        Origin::Compat => Origin::Toolkit,
        _ if is_driver && is_below(directory, main, &["compat", "cuda-compat"]) => Origin::Compat,
        Origin::Store | Origin::Debian | Origin::Loose if is_driver => Origin::Driver,
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
    let rank = |installation: &Installation| ranks.get(installation.directory.as_os_str()).copied();
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
            rank(installation),
        )
    });
    let mut kept: Vec<Installation> = Vec::with_capacity(installations.len());
    let mut by_file: BTreeMap<FileId, Vec<usize>> = BTreeMap::new();
    for installation in installations {
        let same = |index: &&usize| {
            let known = &kept[**index];
            known.family == installation.family
                && known.soname == installation.soname
                && installation.files.iter().all(|member| known.has_file(member.id))
                // Links to only some of the files are an incomplete installation of their own.
                && installation.is_incomplete() == known.is_incomplete()
        };
        let first = installation.files[0].id;
        match by_file
            .get(&first)
            .and_then(|indices| indices.iter().find(same))
            .copied()
        {
            Some(index) => kept[index].absorb(installation),
            None => {
                for member in &installation.files {
                    by_file.entry(member.id).or_default().push(kept.len());
                }
                kept.push(installation);
            }
        }
    }
    let order: HashMap<&str, usize> = catalog()
        .families
        .iter()
        .enumerate()
        .map(|(index, family)| (family.name.as_str(), index))
        .collect();
    kept.sort_by_cached_key(|installation| {
        let place = (installation.origin, rank(installation));
        (
            order.get(installation.family.as_str()).copied(),
            Reverse((installation.soname, installation.version)),
            place,
        )
    });
    kept
}

/// Returns 12 for `nvidia-cudnn-cu12 9.1.0.70`, `libcudnn9-cuda-12 9.1.0.70-1` and `cudnn 9.1.1.17 cuda12_2`. Parts of a
/// toolkit have no such word; they were built for their own major.
fn cuda_of_package(record: Option<&Packaged>) -> Option<u32> {
    let words: Vec<&str> = record?
        .package
        .split(|c: char| !c.is_ascii_alphanumeric())
        .collect();
    let major = |word: &str| word.parse::<u32>().ok().filter(|_| word.len() == 2);
    let attached = words.iter().filter_map(|word| {
        word.strip_prefix("cuda")
            .or_else(|| word.strip_prefix("cu"))
    });
    let next = words
        .windows(2)
        .filter(|pair| pair[0] == "cuda")
        .map(|pair| pair[1]);
    attached.chain(next).find_map(major)
}

fn strongest<'c, T>(
    candidates: &'c [NamedFile],
    of: impl Fn(&'c LibraryFile) -> &'c Vec<(usize, T)>,
) -> Option<&'c T> {
    candidates
        .iter()
        .flat_map(|candidate| of(&candidate.file))
        .min_by_key(|(rule, _)| *rule)
        .map(|(_, value)| value)
}

fn missing_stems(
    family: &Family,
    soname: Option<u32>,
    version: Option<Version>,
    candidates: &[NamedFile],
) -> Vec<String> {
    let fits = |candidate: &&NamedFile| {
        let said = names::split(&candidate.file.soname)
            .and_then(|(_, suffix)| suffix.parse::<Version>().ok());
        let is_bound = family.minor_in_soname.contains(&candidate.file.stem);
        said.zip(version)
            .is_none_or(|(said, version)| !is_bound || said.agrees_with(&version))
    };
    let has = |stem: &str| {
        candidates
            .iter()
            .filter(fits)
            .any(|candidate| candidate.file.stem == stem)
    };
    let required = family.required(soname.unwrap_or(0)).into_iter();
    required
        .filter(|stem| !has(stem))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_say_for_which_cuda_they_are() {
        let cuda = |package: &str| {
            cuda_of_package(Some(&Packaged {
                package: package.to_owned(),
                version: None,
                size: None,
            }))
        };
        for package in [
            "nvidia-cudnn-cu12 9.1.0.70",
            "libcudnn9-cuda-12 9.1.0.70-1",
            "cudnn 9.1.1.17 cuda12_2",
            "cuda12.8-cudnn 9.8.0.87",
            "libnccl2 2.21.5-1+cuda12.4",
        ] {
            assert_eq!(cuda(package), Some(12), "{package}");
        }
        for package in [
            "nvidia-cublas 13.1.0.3",
            "cuda-cudart-12-4 12.4.127-1",
            "cuda-toolkit 12.4.1",
            "",
        ] {
            assert_eq!(cuda(package), None, "{package}");
        }
    }
}
