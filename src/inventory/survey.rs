//! Looks into directories: which library files stand in each, and what each says of itself. Every directory
//! and every file is read once, and not at all when it is known how it looks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::evidence::{self, File, Symbols};
use super::known::Known;
use super::place::Look;
use super::{Fault, Scope};
use crate::catalog::catalog;
use crate::formats::names;
use crate::host::{FileId, Host, Kind, Stat};
use crate::parallel;

/// A file of a directory, with all names that lead to it there.
#[derive(Clone)]
pub(super) struct Candidate {
    pub file: Arc<File>,
    pub symbols: Arc<Symbols>,
    pub names: Vec<String>,
    pub stat: Stat,
    /// Where it really stands.
    pub path: PathBuf,
}

/// The library files of one directory.
pub(super) struct Contents {
    pub directory: PathBuf,
    pub stat: Stat,
    pub candidates: Vec<Candidate>,
}

#[derive(Default)]
pub(super) struct Survey {
    read: HashMap<FileId, Answer>,
    seen: HashSet<PathBuf>,
}

/// A directory as it was listed.
struct Listed {
    directory: PathBuf,
    stat: Stat,
    entries: Vec<Entry>,
    is_new: bool,
}

struct Entry {
    name: String,
    is_link: bool,
    stat: Result<Stat, Fault>,
}

/// What came of reading a file; none when it is of no known family.
type Answer = Result<Option<(Arc<File>, Arc<Symbols>)>, Fault>;

impl Survey {
    /// The contents of those directories that were not looked into before, in the order of their paths.
    pub(super) fn look_into(&mut self, look: &mut Look<'_>, directories: Vec<PathBuf>) -> Vec<Contents> {
        let is_own = |directory: &Path| {
            directory.parent().is_some_and(|parent| look.scope.views.iter().any(|view| view == parent))
        };
        let new: Vec<PathBuf> = directories
            .into_iter()
            .filter(|directory| !is_own(directory) && self.seen.insert(directory.clone()))
            .collect();
        let listed = parallel::map(&new, |directory| list(look.host, look.known, directory));
        let mut directories = Vec::new();
        for (listed, directory) in listed.into_iter().zip(new) {
            match listed {
                Ok(listed) => directories.push(listed),
                Err(Some(fault)) => look.warn(directory, fault),
                Err(None) => {}
            }
        }
        for listed in directories.iter().filter(|listed| listed.is_new) {
            if !look.known.is_settled(&listed.stat) {
                continue;
            }
            let entries = listed.entries.iter().map(|entry| (entry.name.clone(), entry.is_link));
            look.known.directories.insert(&listed.stat, entries.collect());
        }
        self.read(look, &directories);
        directories.into_iter().map(|listed| self.contents(look, listed)).collect()
    }

    pub(super) fn has_seen(&self, directory: &Path) -> bool {
        self.seen.contains(directory)
    }

    /// Reads each file that nobody has read, once, whatever names it has.
    fn read(&mut self, look: &mut Look<'_>, directories: &[Listed]) {
        let mut files: Vec<(PathBuf, &str, Stat)> = Vec::new();
        let mut queued: HashSet<FileId> = HashSet::new();
        for listed in directories {
            for entry in &listed.entries {
                let Ok(stat) = &entry.stat else { continue };
                if !self.read.contains_key(&stat.id) && queued.insert(stat.id) {
                    files.push((listed.directory.join(&entry.name), &entry.name, *stat));
                }
            }
        }
        let (host, scope) = (look.host, look.scope);
        let known = &*look.known;
        let answers =
            parallel::map(&files, |(path, name, stat)| answer(host, scope, known, path, name, stat));
        for ((_, name, stat), (answer, is_new)) in files.into_iter().zip(answers) {
            if let (Ok(Some((file, _))), true) = (&answer, is_new && look.known.is_settled(&stat)) {
                look.known.files.insert(&stat, (name.to_owned(), File::clone(file)));
            }
            self.read.insert(stat.id, answer);
        }
    }

    /// The library files of a directory, by what they are and not by what they are called.
    fn contents(&self, look: &mut Look<'_>, listed: Listed) -> Contents {
        let Listed { directory, stat, entries, .. } = listed;
        let mut by_id: BTreeMap<FileId, Candidate> = BTreeMap::new();
        let mut faults: Vec<(PathBuf, Fault)> = Vec::new();
        for entry in entries {
            let path = directory.join(&entry.name);
            let answer = entry.stat.and_then(|stat| Ok((stat, self.read[&stat.id].clone()?)));
            match answer {
                Err(fault) => faults.push((path, fault)),
                Ok((_, None)) => {}
                Ok((stat, Some((file, symbols)))) => {
                    let candidate = by_id.entry(stat.id).or_insert_with(|| {
                        let path = PathBuf::new();
                        Candidate { file, symbols, names: Vec::new(), stat, path }
                    });
                    if !entry.is_link && candidate.path.as_os_str().is_empty() {
                        candidate.path = path;
                    }
                    candidate.names.push(entry.name);
                }
            }
        }
        let mut candidates: Vec<Candidate> = by_id.into_values().collect();
        for candidate in candidates.iter_mut().filter(|candidate| candidate.path.as_os_str().is_empty()) {
            let path = directory.join(&candidate.names[0]);
            candidate.path = look.host.canonical(&path).unwrap_or(path);
        }
        // A directory for another kind of machine is not one with something wrong in it.
        let is_foreign = candidates.is_empty() && faults.iter().any(|(_, fault)| fault.is_foreign());
        faults.retain(|(_, fault)| !(is_foreign && fault.is_foreign()));
        for (path, fault) in faults {
            look.warn(path, fault);
        }
        // A file under its SONAME comes before a second one of the same SONAME, which the loader never takes.
        candidates.sort_by_cached_key(|c| {
            (c.file.soname.clone(), !c.names.contains(&c.file.soname), c.names.clone())
        });
        Contents { directory, stat, candidates }
    }
}

/// The entries of a directory that are of interest; an error that says nothing where there is no directory.
fn list(host: &Host, known: &Known, directory: &Path) -> Result<Listed, Option<Fault>> {
    let stat = host.stat(directory).map_err(|_| None)?;
    if !stat.is_directory() {
        return Err(None);
    }
    let remembered = known.directories.get(&stat).cloned();
    let is_new = remembered.is_none();
    let names = match remembered {
        Some(names) => names,
        None => {
            let entries = host.list(directory).map_err(|error| Some(Fault::unreadable(&error)))?;
            let names = entries.into_iter().filter_map(|entry| {
                let name = entry.name.into_string().ok().filter(|name| is_of_interest(name))?;
                Some((name, entry.kind == Kind::Link))
            });
            names.collect()
        }
    };
    let look_at = |(name, is_link): (String, bool)| {
        let stat = host.stat(&directory.join(&name)).map_err(|error| {
            let is_denied = error.kind() == std::io::ErrorKind::PermissionDenied;
            if is_link && !is_denied { Fault::DanglingLink } else { Fault::unreadable(&error) }
        });
        Entry { name, is_link, stat }
    };
    let entries = names.into_iter().map(look_at).collect();
    Ok(Listed { directory: directory.to_owned(), stat, entries, is_new })
}

/// What a file says of itself, and whether that was not known before.
fn answer(host: &Host, scope: &Scope, known: &Known, path: &Path, name: &str, stat: &Stat) -> (Answer, bool) {
    match stat.kind {
        Kind::File => {}
        Kind::Directory => return (Ok(None), false),
        Kind::Link | Kind::Other => return (Err(Fault::NotRegular), false),
    }
    let remembered = known.files.get(stat).filter(|(under, file)| {
        (under == name || !file.is_known_by_name)
            && file.machine == scope.machine
            && (file.code.is_some() || !scope.code)
    });
    if let (Some((_, file)), false) = (remembered, scope.reads_symbols()) {
        return (Ok(Some((Arc::new(file.clone()), Arc::default()))), false);
    }
    let data = match host.map(path) {
        Ok(data) => data,
        Err(error) => return (Err(Fault::unreadable(&error)), false),
    };
    let is_new = remembered.is_none();
    let file = match remembered {
        Some((_, file)) => Ok(Some(file.clone())),
        None => evidence::read(&data, name, scope, &|| data.release()),
    };
    let answer = file.and_then(|file| {
        let Some(file) = file else { return Ok(None) };
        Ok(Some((Arc::new(file), Arc::new(evidence::symbols(&data, scope)?))))
    });
    (answer, is_new)
}

/// Cheap, since every name of `/usr/lib` is asked.
pub(super) fn is_of_interest(name: &str) -> bool {
    let Some((stem, _)) = names::split(name) else { return false };
    let stem = names::without_hash(stem).unwrap_or(stem);
    catalog().family_of_stem(stem).is_some()
}
