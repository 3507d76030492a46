//! From directories to copies: which files of a directory belong together, and what they say as a whole.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::iter;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::evidence::{self, File};
use super::{Copy, Member, Origin, Packaged, Place, Problem, Scope, Searched, VersionSource, Warning};
use crate::catalog::{self, Family, Group, catalog};
use crate::formats::names;
use crate::host::{FileId, Host, Kind, Stat};
use crate::loader::search::Tokens;
use crate::version::Version;

/// Looks into one directory after the other; each is read once, each file is read once.
pub(super) struct Survey<'h> {
    host: &'h Host,
    scope: &'h Scope,
    tokens: Tokens,
    files: HashMap<FileId, Option<Rc<File>>>,
    found: Found,
}

#[derive(Default)]
pub(super) struct Found {
    pub copies: Vec<Copy>,
    pub directories: BTreeMap<PathBuf, BTreeMap<String, FileId>>,
    pub warnings: Vec<Warning>,
}

/// A file of the directory at hand, with all names that lead to it.
struct Candidate {
    file: Rc<File>,
    names: Vec<String>,
    stat: Stat,
}

impl<'h> Survey<'h> {
    pub(super) fn new(host: &'h Host, scope: &'h Scope) -> Survey<'h> {
        let tokens = Tokens::new(host, scope.machine);
        Survey { host, scope, tokens, files: HashMap::new(), found: Found::default() }
    }

    pub(super) fn identify(&self, path: &Path) -> Option<FileId> {
        self.host.stat(path).ok().map(|stat| stat.id)
    }

    pub(super) fn look_into(&mut self, place: &Place) {
        let Ok(directory) = self.host.canonical(&place.directory) else { return };
        let is_own =
            directory.parent().is_some_and(|parent| self.scope.views.iter().any(|view| view == parent));
        if is_own || self.found.directories.contains_key(&directory) {
            return;
        }
        let candidates = self.candidates(&directory, &place.packaged);
        let mut names = BTreeMap::new();
        for candidate in &candidates {
            names.extend(candidate.names.iter().map(|name| (name.clone(), candidate.stat.id)));
        }
        self.found.directories.insert(directory.clone(), names);
        let mut groups: BTreeMap<(&str, Option<u32>, bool), Vec<Candidate>> = BTreeMap::new();
        for candidate in candidates {
            let file = &candidate.file;
            let soname = match file.family.group {
                Group::Soname => {
                    names::split(&file.soname).and_then(|(_, suffix)| catalog::first_number(suffix))
                }
                Group::Place => None,
            };
            groups.entry((&file.family.name, soname, file.renamed)).or_default().push(candidate);
        }
        for ((_, soname, renamed), candidates) in groups {
            let origin =
                if renamed { Origin::Bundled } else { self.origin_of(place.origin, &directory, &candidates) };
            let copy = self.assemble(&directory, origin, soname, candidates, &place.packaged);
            self.add(copy);
        }
    }

    /// Looks where the libraries' own search paths lead: what stands there comes before anything else.
    pub(super) fn follow_search_paths(&mut self) {
        let members = self.found.copies.iter().flat_map(|copy| &copy.files);
        let searched = members.flat_map(|member| &member.rpath);
        let directories: BTreeSet<PathBuf> = searched.map(|searched| searched.directory.clone()).collect();
        for directory in directories {
            self.look_into(&Place::new(directory, Origin::Loose));
        }
    }

    pub(super) fn finish(mut self) -> Found {
        self.found.copies.sort_by(|a, b| {
            let order = |copy: &Copy| catalog().families.iter().position(|family| family.name == copy.family);
            (order(a), std::cmp::Reverse((a.soname, a.version)), a.origin, &a.directory).cmp(&(
                order(b),
                std::cmp::Reverse((b.soname, b.version)),
                b.origin,
                &b.directory,
            ))
        });
        self.found
    }

    /// The library files of a directory, by what they are and not by what they are called.
    fn candidates(&mut self, directory: &Path, packaged: &BTreeMap<String, Packaged>) -> Vec<Candidate> {
        let mut by_id: BTreeMap<FileId, Candidate> = BTreeMap::new();
        for entry in self.host.list(directory).unwrap_or_default() {
            let Some(name) = entry.name.to_str().filter(|name| is_of_interest(name)) else { continue };
            let path = directory.join(name);
            let stat = match self.host.stat(&path) {
                Ok(stat) => stat,
                Err(_) if entry.kind == Kind::Link => {
                    self.warn(&path, "a link that leads nowhere");
                    continue;
                }
                Err(error) => {
                    self.warn(&path, &error.to_string());
                    continue;
                }
            };
            if let Some(candidate) = by_id.get_mut(&stat.id) {
                candidate.names.push(name.to_owned());
            } else if let Some(file) = self.read(&path, name, &stat) {
                by_id.insert(stat.id, Candidate { file, names: vec![name.to_owned()], stat });
            }
        }
        let mut candidates: Vec<Candidate> = by_id.into_values().collect();
        // A file under its SONAME comes before a second one of the same SONAME, which the loader never takes.
        candidates
            .sort_by_key(|c| (c.file.soname.clone(), !c.names.contains(&c.file.soname), c.names.clone()));
        let mut seen: BTreeSet<String> = BTreeSet::new();
        candidates.retain(|candidate| {
            let first = seen.insert(candidate.file.soname.clone());
            if !first && !packaged.contains_key(&candidate.names[0]) {
                let path = directory.join(&candidate.names[0]);
                let why = format!("a second file with the SONAME {}", candidate.file.soname);
                self.found.warnings.push(Warning { path, why });
            }
            first
        });
        candidates
    }

    fn read(&mut self, path: &Path, name: &str, stat: &Stat) -> Option<Rc<File>> {
        if let Some(known) = self.files.get(&stat.id) {
            return known.clone();
        }
        let file = match stat.kind {
            Kind::File => match self.host.map(path) {
                Ok(data) => evidence::read(&data, name, self.scope).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            },
            Kind::Directory => Ok(None),
            Kind::Link | Kind::Other => Err("not a regular file".to_owned()),
        };
        let file = match file {
            Ok(file) => file.map(Rc::new),
            Err(why) => {
                self.warn(path, &why);
                None
            }
        };
        self.files.insert(stat.id, file.clone());
        file
    }

    fn assemble(
        &self,
        directory: &Path,
        origin: Origin,
        soname: Option<u32>,
        candidates: Vec<Candidate>,
        packaged: &BTreeMap<String, Packaged>,
    ) -> Copy {
        let family = candidates[0].file.family;
        let main = candidates.iter().find(|c| c.file.stem == family.main).unwrap_or(&candidates[0]);
        let record = main.names.iter().find_map(|name| packaged.get(name));
        let mut problems = Vec::new();

        let (version, version_from) = version_of(main, &candidates, record, &mut problems);
        let cuda = strongest(&candidates, |file| &file.cuda).copied().or_else(|| cuda_of_package(record));
        let missing = missing_stems(family, soname, version, &candidates);
        if !missing.is_empty() {
            problems.push(Problem::Missing { stems: missing });
        }
        for candidate in &candidates {
            let name = &candidate.names[0];
            if candidate.file.truncated {
                problems.push(Problem::Truncated { file: name.clone() });
            }
            if let Some(recorded) =
                packaged.get(name).and_then(|p| p.size).filter(|size| *size != candidate.stat.size)
            {
                problems.push(Problem::SizeIsNotRecorded { file: name.clone(), recorded });
            }
            if candidate.stat.is_world_writable() {
                problems.push(Problem::WorldWritable { path: directory.join(name) });
            }
        }
        let forward_compatibility = main.file.forward_compatibility.clone();
        let files: Vec<Member> =
            candidates.into_iter().map(|candidate| self.member(directory, candidate)).collect();
        // Links lead to files that whoever can write to their directory can replace.
        let parents = files.iter().filter_map(|member| member.path.parent());
        let parents: BTreeSet<&Path> = iter::once(directory).chain(parents).collect();
        let is_open = |path: &&Path| self.host.stat(path).is_ok_and(|stat| stat.is_world_writable());
        let open = parents.into_iter().filter(is_open).map(Path::to_owned);
        problems.extend(open.map(|path| Problem::WorldWritable { path }));
        Copy {
            family: family.name.clone(),
            soname,
            version,
            version_from,
            cuda,
            origin,
            directory: directory.to_owned(),
            also: Vec::new(),
            package: record.map(|record| record.package.clone()),
            forward_compatibility,
            files,
            problems,
        }
    }

    fn member(&self, directory: &Path, candidate: Candidate) -> Member {
        let file = &candidate.file;
        Member {
            stem: file.stem.clone(),
            soname: file.soname.clone(),
            path: self.real_path(directory, &candidate),
            size: candidate.stat.size,
            id: candidate.stat.id,
            modified: candidate.stat.modified,
            needed: file.needed.clone(),
            imports: file.imports.clone(),
            exports: file.exports.clone(),
            code: file.code.clone(),
            glibc: file.glibc,
            rpath: self.searched(directory, file),
            has_runpath: file.has_runpath,
            names: candidate.names,
        }
    }

    fn real_path(&self, directory: &Path, candidate: &Candidate) -> PathBuf {
        let soname = &candidate.file.soname;
        let name = if candidate.names.contains(soname) { soname } else { &candidate.names[0] };
        let path = directory.join(name);
        self.host.canonical(&path).unwrap_or(path)
    }

    /// The directories that its DT_RPATH leads to, when it is opened in its own directory.
    fn searched(&self, directory: &Path, file: &File) -> Vec<Searched> {
        let elements = file.rpath.iter().flat_map(|rpath| rpath.split(|byte| *byte == b':'));
        let searched = elements.filter_map(|element| {
            let path = self.host.absolute(&self.tokens.expand(element, Some(directory))?);
            let directory = self.host.canonical(&path).ok()?;
            Some(Searched { directory, from_origin: memchr::memmem::find(element, b"ORIGIN").is_some() })
        });
        searched.collect()
    }

    /// The place's own word, unless the path or the files say otherwise: a link in `/usr/lib` to a stub is
    /// a stub.
    fn origin_of(&self, origin: Origin, directory: &Path, candidates: &[Candidate]) -> Origin {
        let first = &candidates[0];
        let family = first.file.family;
        let main = candidates.iter().find(|candidate| candidate.file.stem == family.main).unwrap_or(first);
        let real = self.real_path(directory, main);
        let components =
            || directory.components().chain(real.parent().into_iter().flat_map(Path::components));
        let stands_in = |name: &str| components().any(|component| component.as_os_str() == name);
        let is_driver = family.name == "driver";
        match origin {
            _ if stands_in("stubs") => Origin::Stub,
            _ if is_driver && (stands_in("compat") || stands_in("cuda-compat")) => Origin::Compat,
            // What a compat directory holds besides a driver is a part of the toolkit.
            Origin::Compat if !is_driver => Origin::Toolkit,
            Origin::Debian | Origin::Loose if is_driver => Origin::Driver,
            other => other,
        }
    }

    /// A directory of links to files that are known already is the same copy seen from elsewhere.
    fn add(&mut self, copy: Copy) {
        let ids: BTreeSet<FileId> = copy.files.iter().map(|member| member.id).collect();
        let same = self.found.copies.iter_mut().find(|known| {
            known.family == copy.family
                && known.soname == copy.soname
                && ids.iter().all(|id| known.has_file(*id))
        });
        match same {
            Some(known) => known.also.push(copy.directory),
            None => self.found.copies.push(copy),
        }
    }

    fn warn(&mut self, path: &Path, why: &str) {
        self.found.warnings.push(Warning { path: path.to_owned(), why: why.to_owned() });
    }
}

/// The strongest evidence in the contents, then the package's record, then the file's own name. A record
/// that agrees and says more completes what the contents say.
fn version_of(
    main: &Candidate,
    candidates: &[Candidate],
    record: Option<&Packaged>,
    problems: &mut Vec<Problem>,
) -> (Option<Version>, Option<VersionSource>) {
    let recorded = record.and_then(|record| record.version);
    let family = main.file.family;
    let named =
        main.names.iter().filter_map(|name| version_of_name(family, name)).max_by_key(|v| v.numbers().len());
    let Some(contents) = strongest(candidates, |file| &file.versions).copied() else {
        return match (recorded, named) {
            (Some(version), _) => (Some(version), Some(VersionSource::PackageRecord)),
            (None, Some(version)) => (Some(version), Some(VersionSource::FileName)),
            (None, None) => (None, None),
        };
    };
    for candidate in candidates {
        for (_, version) in candidate.file.versions.iter().filter(|(_, other)| !other.agrees_with(&contents))
        {
            problems.push(Problem::OtherVersionAmongTheRest {
                file: candidate.names[0].clone(),
                version: *version,
            });
        }
    }
    let contradicting = recorded.filter(|version| !version.agrees_with(&contents));
    if let (Some(record), Some(version)) = (record, contradicting) {
        problems.push(Problem::PackageSaysOtherwise { package: record.package.clone(), version });
    }
    let longer = [recorded, named].into_iter().flatten().filter(|other| other.agrees_with(&contents));
    let fullest = longer.chain([contents]).max_by_key(|version| version.numbers().len());
    (fullest, Some(VersionSource::Contents))
}

/// `libcublas.so.12.4.5.8` is 12.4.5.8; a lone number is the SONAME's and says nothing. Drivers have had two
/// numbers, `libcuda.so.375.74`, and never a small one.
fn version_of_name(family: &Family, name: &str) -> Option<Version> {
    let (_, suffix) = names::split(name)?;
    let is_driver = family.name == "driver";
    suffix.parse::<Version>().ok().filter(|version| {
        version.numbers().len() >= 3 || is_driver && version.numbers().len() == 2 && version.major() >= 100
    })
}

/// `nvidia-cudnn-cu12 9.1.0.70` was built for CUDA 12; a toolkit part without a suffix for its own major.
fn cuda_of_package(record: Option<&Packaged>) -> Option<u32> {
    let record = record?;
    let name = record.package.split(' ').next()?;
    match name.rsplit_once("-cu") {
        Some((_, number)) => number.parse().ok(),
        None => None,
    }
}

fn strongest<'c, T>(
    candidates: &'c [Candidate],
    of: impl Fn(&'c File) -> &'c Vec<(usize, T)>,
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
    candidates: &[Candidate],
) -> Vec<String> {
    let fits = |candidate: &&Candidate| {
        let said =
            names::split(&candidate.file.soname).and_then(|(_, suffix)| suffix.parse::<Version>().ok());
        let is_bound = family.minor_in_soname.contains(&candidate.file.stem);
        said.zip(version).is_none_or(|(said, version)| !is_bound || said.agrees_with(&version))
    };
    let has = |stem: &str| candidates.iter().filter(fits).any(|candidate| candidate.file.stem == stem);
    let required = family.required(soname.unwrap_or(0)).into_iter();
    required.filter(|stem| !has(stem)).map(str::to_owned).collect()
}

/// Cheap, since every name of `/usr/lib` is asked.
fn is_of_interest(name: &str) -> bool {
    let Some((stem, _)) = names::split(name) else { return false };
    let stem = names::without_hash(stem).unwrap_or(stem);
    catalog().family_of_stem(stem).is_some()
}
