//! Lists the library files of directories with their facts. Each directory and each file is read once, and not at all
//! if the cache has it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::evidence::{self, LibraryFile, LibrarySymbols};
use super::location::ScanContext;
use super::scan_cache::Name;
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
    files: HashMap<FileId, FileFacts>,
    seen: HashSet<PathBuf>,
}

struct ListedDirectory {
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
    pub(super) fn contents_of(
        &mut self,
        scan: &mut ScanContext<'_>,
        mut directories: Vec<PathBuf>,
    ) -> Vec<Contents> {
        let views = &scan.scope.views;
        directories.retain(|directory| {
            let is_own = directory
                .parent()
                .is_some_and(|parent| views.iter().any(|view| view == parent));
            !is_own && self.seen.insert(directory.clone())
        });
        let answers = parallel::map(&directories, |directory| list(scan, directory));
        let mut listed = Vec::new();
        for (answer, path) in answers.into_iter().zip(directories) {
            match answer {
                Ok(Some(mut directory)) => {
                    if let Some(names) = directory.new.take()
                        && scan.cache.is_settled(&directory.stat)
                    {
                        scan.cache.directories.insert(&directory.stat, &names);
                    }
                    listed.push(directory);
                }
                Ok(None) => {}
                Err(fault) => scan.warn(path, fault),
            }
        }
        self.read(scan, &listed);
        listed
            .into_iter()
            .map(|directory| self.contents(scan, directory))
            .collect()
    }

    pub(super) fn has_seen(&self, directory: &Path) -> bool {
        self.seen.contains(directory)
    }

    /// Reads each file that was not read yet, once for all of its names.
    fn read(&mut self, scan: &mut ScanContext<'_>, directories: &[ListedDirectory]) {
        let mut unread: Vec<(&Path, &str, Stat)> = Vec::new();
        let mut queued: HashSet<FileId> = HashSet::new();
        for listed in directories {
            for entry in &listed.entries {
                let Ok(stat) = &entry.stat else { continue };
                if !self.files.contains_key(&stat.id) && queued.insert(stat.id) {
                    unread.push((&listed.directory, &entry.name, *stat));
                }
            }
        }
        let answers = parallel::map(&unread, |(directory, name, stat)| {
            facts(scan, directory, name, stat)
        });
        for ((_, name, stat), (facts, is_new)) in unread.into_iter().zip(answers) {
            if let Ok(Some((file, _))) = &facts
                && is_new
                && scan.cache.is_settled(&stat)
            {
                let entry = (name.to_owned(), LibraryFile::clone(file));
                scan.cache.files.insert(&stat, &entry);
            }
            self.files.insert(stat.id, facts);
        }
    }

    /// The library files of a directory, each with all of its names.
    fn contents(&self, scan: &mut ScanContext<'_>, listed: ListedDirectory) -> Contents {
        let mut files: BTreeMap<FileId, NamedFile> = BTreeMap::new();
        let mut faults: Vec<(PathBuf, ReadFault)> = Vec::new();
        for entry in listed.entries {
            let path = listed.directory.join(&entry.name);
            let facts = entry
                .stat
                .and_then(|stat| Ok((stat, self.files[&stat.id].clone()?)));
            match facts {
                Err(fault) => faults.push((path, fault)),
                Ok((_, None)) => {}
                Ok((stat, Some((file, symbols)))) => {
                    let candidate = files.entry(stat.id).or_insert_with(|| NamedFile {
                        file,
                        symbols,
                        names: Vec::new(),
                        stat,
                        path: PathBuf::new(),
                    });
                    if !entry.is_link && candidate.path.as_os_str().is_empty() {
                        candidate.path = path;
                    }
                    candidate.names.push(entry.name);
                }
            }
        }
        let mut candidates: Vec<NamedFile> = files.into_values().collect();
        for candidate in &mut candidates {
            // All of its names are links.
            if candidate.path.as_os_str().is_empty() {
                let path = listed.directory.join(&candidate.names[0]);
                candidate.path = scan.host.canonical(&path).unwrap_or(path);
            }
        }
        // A directory of libraries for another kind of machine is no problem.
        let is_foreign =
            candidates.is_empty() && faults.iter().any(|(_, fault)| fault.is_foreign());
        for (path, fault) in faults {
            if !is_foreign || !fault.is_foreign() {
                scan.warn(path, fault);
            }
        }
        candidates.sort_by(|a, b| a.order().cmp(&b.order()));
        Contents {
            directory: listed.directory,
            stat: listed.stat,
            candidates,
        }
    }
}

impl NamedFile {
    /// The file whose name is its SONAME comes first: the loader never opens a second one with this SONAME.
    fn order(&self) -> impl Ord {
        let soname = &self.file.soname;
        (soname, !self.names.contains(soname), &self.names)
    }
}

/// The entries of a directory that may be libraries; none where there is no directory.
fn list(scan: &ScanContext<'_>, directory: &Path) -> Result<Option<ListedDirectory>, ReadFault> {
    let stat = match scan.host.stat(directory) {
        Ok(stat) if stat.is_directory() => stat,
        _ => return Ok(None),
    };
    let cached = scan.cache.directories.get(&stat);
    let is_new = cached.is_none();
    let names = match cached {
        Some(names) => names,
        None => names_in(scan.host, directory).map_err(|error| ReadFault::unreadable(&error))?,
    };
    let new = is_new.then(|| names.clone());
    Ok(Some(ListedDirectory {
        directory: directory.to_owned(),
        stat,
        entries: entries(scan.host, directory, names),
        new,
    }))
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

/// Each name with its file's status.
fn entries(host: &Host, directory: &Path, names: Vec<Name>) -> Vec<ScannedName> {
    let all: Vec<&str> = names.iter().map(|name| name.name.as_str()).collect();
    let stats = host.stat_in(directory, &all);
    let mut entries = Vec::new();
    for (Name { name, is_link }, stat) in names.into_iter().zip(stats) {
        let stat = stat.map_err(|error| {
            if is_link && error.kind() != ErrorKind::PermissionDenied {
                ReadFault::DanglingLink
            } else {
                ReadFault::unreadable(&error)
            }
        });
        entries.push(ScannedName {
            name,
            is_link,
            stat,
        });
    }
    entries
}

/// The facts in the cache, if they hold for this name and include all that the scope asks for.
fn cached_file(scan: &ScanContext<'_>, name: &str, stat: &Stat) -> Option<LibraryFile> {
    let (first_name, file) = scan.cache.files.get(stat)?;
    let holds = (first_name == name || file.holds_under(name))
        && file.machine == scan.scope.machine
        && (file.code.is_some() || !scan.scope.code);
    holds.then_some(file)
}

/// Returns the facts of a file, and true if they were not in the cache.
fn facts(scan: &ScanContext<'_>, directory: &Path, name: &str, stat: &Stat) -> (FileFacts, bool) {
    match stat.kind {
        FileKind::File => {}
        FileKind::Directory => return (Ok(None), false),
        FileKind::Link | FileKind::Other => return (Err(ReadFault::NotRegular), false),
    }
    let scope = scan.scope;
    let cached = cached_file(scan, name, stat);
    let is_new = cached.is_none();
    let cached = match cached {
        Some(file) if !scope.symbols => {
            return (Ok(Some((Arc::new(file), Arc::default()))), false);
        }
        cached => cached,
    };
    let data = match scan.host.map(&directory.join(name)) {
        Ok(data) => data,
        Err(error) => return (Err(ReadFault::unreadable(&error)), false),
    };
    let file = match cached {
        Some(file) => Ok(Some(file)),
        None => evidence::read(&data, name, scope, &|| data.release()),
    };
    let facts = file.and_then(|file| {
        let Some(file) = file else { return Ok(None) };
        let symbols = evidence::symbols(&data, scope)?;
        Ok(Some((Arc::new(file), Arc::new(symbols))))
    });
    (facts, is_new)
}

/// True if a file of this name may be a library of a known family. Cheap: it is called for each name in `/usr/lib`.
pub(super) fn is_of_interest(name: &str) -> bool {
    let Some((stem, _)) = names::split(name) else {
        return false;
    };
    let stem = names::without_hash(stem).unwrap_or(stem);
    catalog().family_of_stem(stem).is_some()
}
