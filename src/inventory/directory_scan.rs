//! Lists the library files of directories with their facts. Each directory and each file is read once, and not at all
//! if the cache has it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::evidence::{self, LibraryFile, LibrarySymbols};
use super::location::ScanContext;
use super::machine::Scope;
use super::scan_cache::{Name, ScanCache};
use super::warning::ReadFault;
use crate::catalog::catalog;
use crate::formats::names;
use crate::host::{FileId, FileKind, Host, Stat};
use crate::parallel;

/// A file of a directory, with all names that lead to it there.
#[derive(Clone)]
pub(super) struct NamedFile {
    pub file: Arc<LibraryFile>,
    pub symbols: Arc<LibrarySymbols>,
    pub names: Vec<String>,
    pub stat: Stat,
    /// The path of the file itself, not of a link.
    pub path: PathBuf,
}

/// The library files of one directory.
pub(super) struct Contents {
    pub directory: PathBuf,
    pub stat: Stat,
    pub candidates: Vec<NamedFile>,
}

#[derive(Default)]
pub(super) struct DirectoryScan {
    read: HashMap<FileId, FileFacts>,
    seen: HashSet<PathBuf>,
}

struct Listed {
    directory: PathBuf,
    stat: Stat,
    entries: Vec<ScannedName>,
    /// Its names, if they were not in the cache.
    new: Option<Vec<Name>>,
}

struct ScannedName {
    name: String,
    is_link: bool,
    stat: Result<Stat, ReadFault>,
}

/// The facts of a file; none if it is of no known family.
type FileFacts = Result<Option<(Arc<LibraryFile>, Arc<LibrarySymbols>)>, ReadFault>;

impl DirectoryScan {
    /// Returns the contents of the directories that were not read before, in the order given.
    pub(super) fn look_into(
        &mut self,
        look: &mut ScanContext<'_>,
        directories: Vec<PathBuf>,
    ) -> Vec<Contents> {
        let is_own = |directory: &Path| {
            directory
                .parent()
                .is_some_and(|parent| look.scope.views.iter().any(|view| view == parent))
        };
        let new: Vec<PathBuf> = directories
            .into_iter()
            .filter(|directory| !is_own(directory) && self.seen.insert(directory.clone()))
            .collect();
        let listed = parallel::map(&new, |directory| list(look.host, look.known, directory));
        let mut directories = Vec::new();
        for (listed, directory) in listed.into_iter().zip(new) {
            match listed {
                Ok(mut listed) => {
                    if let Some(names) = listed
                        .new
                        .take()
                        .filter(|_| look.known.is_settled(&listed.stat))
                    {
                        look.known.directories.insert(&listed.stat, &names);
                    }
                    directories.push(listed);
                }
                Err(Some(fault)) => look.warn(directory, fault),
                Err(None) => {}
            }
        }
        self.read(look, &directories);
        directories
            .into_iter()
            .map(|listed| self.contents(look, listed))
            .collect()
    }

    pub(super) fn has_seen(&self, directory: &Path) -> bool {
        self.seen.contains(directory)
    }

    /// Reads each file that was not read yet, once for all of its names.
    fn read(&mut self, look: &mut ScanContext<'_>, directories: &[Listed]) {
        let mut unread: Vec<(&Path, &str, Stat)> = Vec::new();
        let mut queued: HashSet<FileId> = HashSet::new();
        for listed in directories {
            for entry in &listed.entries {
                let Ok(stat) = &entry.stat else { continue };
                if !self.read.contains_key(&stat.id) && queued.insert(stat.id) {
                    unread.push((&listed.directory, &entry.name, *stat));
                }
            }
        }
        let (host, scope, known) = (look.host, look.scope, &*look.known);
        let answers = parallel::map(&unread, |(directory, name, stat)| {
            answer(host, scope, known, directory, name, stat)
        });
        for ((_, name, stat), (answer, is_new)) in unread.into_iter().zip(answers) {
            if let (Ok(Some((file, _))), true) = (&answer, is_new && look.known.is_settled(&stat)) {
                look.known
                    .files
                    .insert(&stat, &(name.to_owned(), LibraryFile::clone(file)));
            }
            self.read.insert(stat.id, answer);
        }
    }

    /// The library files of a directory, each with all of its names.
    fn contents(&self, look: &mut ScanContext<'_>, listed: Listed) -> Contents {
        let Listed {
            directory,
            stat,
            entries,
            ..
        } = listed;
        let mut by_id: BTreeMap<FileId, NamedFile> = BTreeMap::new();
        let mut faults: Vec<(PathBuf, ReadFault)> = Vec::new();
        for entry in entries {
            let path = directory.join(&entry.name);
            let answer = entry
                .stat
                .and_then(|stat| Ok((stat, self.read[&stat.id].clone()?)));
            match answer {
                Err(fault) => faults.push((path, fault)),
                Ok((_, None)) => {}
                Ok((stat, Some((file, symbols)))) => {
                    let candidate = by_id.entry(stat.id).or_insert_with(|| {
                        let path = PathBuf::new();
                        NamedFile {
                            file,
                            symbols,
                            names: Vec::new(),
                            stat,
                            path,
                        }
                    });
                    if !entry.is_link && candidate.path.as_os_str().is_empty() {
                        candidate.path = path;
                    }
                    candidate.names.push(entry.name);
                }
            }
        }
        let mut candidates: Vec<NamedFile> = by_id.into_values().collect();
        for candidate in candidates
            .iter_mut()
            .filter(|candidate| candidate.path.as_os_str().is_empty())
        {
            let path = directory.join(&candidate.names[0]);
            candidate.path = look.host.canonical(&path).unwrap_or(path);
        }
        // A directory of libraries for another kind of machine is no problem.
        let is_foreign =
            candidates.is_empty() && faults.iter().any(|(_, fault)| fault.is_foreign());
        faults.retain(|(_, fault)| !(is_foreign && fault.is_foreign()));
        for (path, fault) in faults {
            look.warn(path, fault);
        }
        // The file whose name is its SONAME comes first: the loader never opens a second one with this SONAME.
        let is_other = |candidate: &NamedFile| !candidate.names.contains(&candidate.file.soname);
        candidates.sort_by(|a, b| {
            (&a.file.soname, is_other(a), &a.names).cmp(&(&b.file.soname, is_other(b), &b.names))
        });
        Contents {
            directory,
            stat,
            candidates,
        }
    }
}

/// Returns the entries that may be libraries. Fails with `None` where there is no directory.
fn list(host: &Host, known: &ScanCache, directory: &Path) -> Result<Listed, Option<ReadFault>> {
    let stat = host.stat(directory).map_err(|_| None)?;
    if !stat.is_directory() {
        return Err(None);
    }
    let (names, is_new) = match known.directories.get(&stat) {
        Some(names) => (names, false),
        None => (
            names_in(host, directory).map_err(|error| Some(ReadFault::unreadable(&error)))?,
            true,
        ),
    };
    let new = is_new.then(|| names.clone());
    Ok(Listed {
        directory: directory.to_owned(),
        stat,
        entries: entries(host, directory, names),
        new,
    })
}

fn names_in(host: &Host, directory: &Path) -> io::Result<Vec<Name>> {
    let names = host.list(directory)?.into_iter().filter_map(|entry| {
        let name = entry.name.into_string().ok()?;
        is_of_interest(&name).then_some(Name {
            name,
            is_link: entry.kind == FileKind::Link,
        })
    });
    Ok(names.collect())
}

/// Returns each name with its file's status.
fn entries(host: &Host, directory: &Path, names: Vec<Name>) -> Vec<ScannedName> {
    let all: Vec<&str> = names.iter().map(|name| name.name.as_str()).collect();
    let stats = host.stat_in(directory, &all);
    let entry = |(Name { name, is_link }, stat): (Name, io::Result<Stat>)| ScannedName {
        name,
        is_link,
        stat: stat.map_err(|error| {
            if is_link && error.kind() != ErrorKind::PermissionDenied {
                ReadFault::DanglingLink
            } else {
                ReadFault::unreadable(&error)
            }
        }),
    };
    names.into_iter().zip(stats).map(entry).collect()
}

/// Returns the facts in the cache, if they hold for this name and include all that `scope` asks for.
fn remembered(scope: &Scope, known: &ScanCache, name: &str, stat: &Stat) -> Option<LibraryFile> {
    let (under, file) = known.files.get(stat)?;
    let holds = (under == name || file.holds_under(name))
        && file.machine == scope.machine
        && (file.code.is_some() || !scope.code);
    holds.then_some(file)
}

/// Returns the facts of a file, and true if they were not in the cache.
fn answer(
    host: &Host,
    scope: &Scope,
    known: &ScanCache,
    directory: &Path,
    name: &str,
    stat: &Stat,
) -> (FileFacts, bool) {
    match stat.kind {
        FileKind::File => {}
        FileKind::Directory => return (Ok(None), false),
        FileKind::Link | FileKind::Other => return (Err(ReadFault::NotRegular), false),
    }
    let remembered = remembered(scope, known, name, stat);
    let is_new = remembered.is_none();
    let file = match remembered {
        Some(file) if !scope.symbols => {
            return (Ok(Some((Arc::new(file), Arc::default()))), false);
        }
        remembered => remembered,
    };
    let data = match host.map(&directory.join(name)) {
        Ok(data) => data,
        Err(error) => return (Err(ReadFault::unreadable(&error)), false),
    };
    let file = file.map_or_else(
        || evidence::read(&data, name, scope, &|| data.release()),
        |file| Ok(Some(file)),
    );
    let answer = file.and_then(|file| {
        let Some(file) = file else { return Ok(None) };
        Ok(Some((
            Arc::new(file),
            Arc::new(evidence::symbols(&data, scope)?),
        )))
    });
    (answer, is_new)
}

/// True if a file of this name may be a library of a known family. Cheap: it is called for each name in `/usr/lib`.
pub(super) fn is_of_interest(name: &str) -> bool {
    let Some((stem, _)) = names::split(name) else {
        return false;
    };
    let stem = names::without_hash(stem).unwrap_or(stem);
    catalog().family_of_stem(stem).is_some()
}
