//! A drop-in of systemd's, `UNIT.d/zz-cudarun.conf`, by which a packaged service starts through cudarun. systemd reads drop-ins in
//! the order of their names, so this one is read after what `systemctl edit` writes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use super::unit::{self, UnitCommand};
use crate::host::{DirectoryEntry, FileKind, Host, Unsafe, judge_file};

const NAME: &str = "zz-cudarun.conf";
/// A file of ours begins with this, and then the number of directories that were made for it.
pub const MARK: &str = "# Written by `cudarun hook systemd`; `--uninstall` removes it and this many directories above it: ";
const SERVICE: &str = ".service";
const OTHER_KINDS: &[&str] = &[
    "automount",
    "device",
    "mount",
    "path",
    "scope",
    "slice",
    "socket",
    "swap",
    "target",
    "timer",
];
/// Where systemd looks for the units of the machine, the strongest first.
const SYSTEM: &[&str] = &[
    "/etc/systemd/system",
    "/run/systemd/system",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
];
const USER: &[&str] = &[
    "/etc/systemd/user",
    "/run/systemd/user",
    "/usr/local/share/systemd/user",
    "/usr/share/systemd/user",
    "/usr/local/lib/systemd/user",
    "/usr/lib/systemd/user",
    "/lib/systemd/user",
];
/// What services often cannot see: a home, or a directory for temporary files.
const HIDDEN: &[&str] = &["/home", "/root", "/run/user", "/tmp", "/var/tmp"];
/// As many links as Linux follows in one path.
const MAX_LINKS: usize = 40;
/// Where systemd makes the directories of a service with our drop-in; the second is for one with `DynamicUser=`, to which the first
/// has a link.
const CACHES: &[&str] = &["/var/cache/cudarun", "/var/cache/private/cudarun"];
/// Settings by which a service does not see the files of the machine, or may not run them.
const SECLUDING: &[&str] = &["RootDirectory", "RootImage", "NoExecPaths"];

/// The manager that starts a service, and where its files are.
pub struct Manager {
    pub is_user: bool,
    /// The administrator's or the person's own directory comes first.
    directories: Vec<PathBuf>,
}

/// A service, and what its drop-in changes.
#[derive(Debug)]
pub struct Service {
    pub unit: String,
    pub drop_in: PathBuf,
    pub commands: Vec<ChangedCommand>,
    /// It has no directory for a cache yet.
    pub needs_cache: bool,
}

#[derive(Debug)]
pub struct ChangedCommand {
    /// The file that has the command.
    pub from: PathBuf,
    pub before: String,
    pub after: String,
}

/// The reason why there is no drop-in.
#[derive(Debug)]
pub enum NoDropIn {
    NoHome,
    /// systemd has no unit of such a name.
    Name {
        name: OsString,
    },
    /// A unit that starts nothing itself.
    Kind {
        name: String,
    },
    Missing {
        unit: String,
        is_user: bool,
    },
    /// Linked to `/dev/null`, or empty.
    Masked {
        unit: String,
    },
    Unreadable {
        file: PathBuf,
        why: String,
    },
    NoCommand {
        unit: String,
        file: PathBuf,
    },
    /// A quote does not end, or the command gives the program another name.
    Command {
        file: PathBuf,
        text: String,
    },
    /// It runs where it cannot see or execute cudarun.
    Secluded {
        file: PathBuf,
        setting: &'static str,
    },
    /// A drop-in that is read after ours has commands of its own.
    LaterDropIn {
        file: PathBuf,
    },
    /// The file is not cudarun's.
    Foreign {
        file: PathBuf,
    },
    /// Services cannot start it, or another user could replace it.
    Hidden {
        own: PathBuf,
    },
    Replaceable {
        own: PathBuf,
        fault: Unsafe,
    },
    /// The file cannot be written; `command` writes it as root.
    NotRoot {
        file: PathBuf,
        error: io::Error,
        command: Vec<OsString>,
    },
}

/// What a drop-in of cudarun's would change.
pub enum DropInChange {
    Service(Service),
    /// Every command starts cudarun already.
    Nothing {
        unit: String,
        file: PathBuf,
    },
}

impl Manager {
    pub fn of(host: &Host, is_user: bool) -> Result<Manager, NoDropIn> {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect();
        if !is_user {
            let directories = paths(SYSTEM);
            return Ok(Manager {
                is_user,
                directories,
            });
        }
        let mut directories: Vec<PathBuf> = paths(USER);
        let below = |base: PathBuf| base.join("systemd/user");
        directories.insert(0, below(host.user_config().ok_or(NoDropIn::NoHome)?));
        let runtime = host.env.non_empty("XDG_RUNTIME_DIR").map(PathBuf::from);
        let own = runtime.into_iter().chain(host.user_data());
        directories.splice(2..2, own.map(below));
        Ok(Manager {
            is_user,
            directories,
        })
    }

    /// The file of ours for a unit.
    pub fn drop_in(&self, unit: &str) -> PathBuf {
        self.directories[0].join(format!("{unit}.d")).join(NAME)
    }

    /// The numbers of directories that were made for the drop-ins of ours that are there.
    pub fn made_before(&self, host: &Host) -> impl Iterator<Item = usize> {
        let entries = host.list(&self.directories[0]).unwrap_or_default();
        let files = entries
            .into_iter()
            .map(|entry| self.directories[0].join(entry.name).join(NAME));
        files.filter_map(|file| made(host, &file).ok()?)
    }

    /// The file of this name that takes precedence.
    fn preferred_file(&self, host: &Host, name: &str) -> Option<PathBuf> {
        let mut files = self.directories.iter().map(|it| it.join(name));
        files.find(|file| host.lstat(file).is_ok())
    }

    /// The name of the unit that a name stands for. A link to a unit in these directories is another name of that unit; a link to a file
    /// elsewhere is a unit of its own.
    fn unit_name(&self, host: &Host, name: &str) -> String {
        let next = |name: &String| {
            let file = self.preferred_file(host, name)?;
            let target = file.parent()?.join(host.read_link(&file).ok()?);
            let above = host.canonical(target.parent()?).ok()?;
            let is_above = |it: &PathBuf| host.canonical(it).is_ok_and(|real| real == above);
            let name = target
                .file_name()
                .filter(|name| is_service(name))?
                .to_str()?;
            let is_here = self.directories.iter().any(is_above);
            (is_here && self.preferred_file(host, name).is_some()).then(|| name.to_owned())
        };
        let names = std::iter::successors(Some(name.to_owned()), next);
        names.take(MAX_LINKS).last().unwrap_or_default()
    }

    /// The name and the file of the unit that a name stands for.
    fn find(&self, host: &Host, unit: &str) -> Result<(String, PathBuf), NoDropIn> {
        let names = [Some(unit.to_owned()), template(unit)];
        let mut names = names.into_iter().flatten();
        let found = names.find(|name| self.preferred_file(host, name).is_some());
        let own = found.map(|name| self.unit_name(host, &name));
        let file = own.as_ref().and_then(|own| self.preferred_file(host, own));
        let (Some(own), Some(file)) = (own, file) else {
            return Err(NoDropIn::Missing {
                unit: unit.to_owned(),
                is_user: self.is_user,
            });
        };
        let real = host
            .canonical(&file)
            .map_err(|error| unreadable(&file, &error))?;
        let stat = host
            .stat(&real)
            .map_err(|error| unreadable(&file, &error))?;
        if !stat.is_file() || stat.size == 0 {
            return Err(NoDropIn::Masked {
                unit: unit.to_owned(),
            });
        }
        Ok((instance_of(&own, unit).unwrap_or(own), real))
    }

    /// The other names of a unit, by links to it or to its template.
    fn aliases(&self, host: &Host, unit: &str) -> BTreeSet<String> {
        let entries = self.directories.iter().flat_map(|it| host.list(it));
        let links = entries
            .flatten()
            .filter(|entry| entry.kind == FileKind::Link && is_service(&entry.name));
        let template = template(unit);
        let alias = |entry: DirectoryEntry| {
            let name = entry.name.into_string().ok()?;
            let own = self.unit_name(host, &name);
            match &template {
                Some(template) if own == *template => instance_of(&name, unit),
                // A link to a template with the name of an instance is that instance.
                _ => (own == unit && is_template(&name) == is_template(unit)).then_some(name),
            }
        };
        links
            .filter_map(alias)
            .filter(|name| name != unit)
            .collect()
    }

    /// The drop-ins of a unit that systemd reads, in its order.
    fn drop_ins(&self, host: &Host, unit: &str) -> Vec<PathBuf> {
        let units = [unit.to_owned()].into_iter();
        let units = units.chain(self.aliases(host, unit));
        let names = units.map(|unit| names_of_drop_ins(&unit));
        let mut found: BTreeMap<OsString, PathBuf> = BTreeMap::new();
        for names in names.chain([vec!["service.d".to_owned()]]) {
            let directories = self.directories.iter();
            for directory in directories.flat_map(|it| names.iter().map(|name| it.join(name))) {
                for entry in host.list(&directory).unwrap_or_default() {
                    let path = directory.join(&entry.name);
                    if path.extension().is_some_and(|it| it == "conf") {
                        found.entry(entry.name).or_insert(path);
                    }
                }
            }
        }
        found.into_values().collect()
    }
}

/// `ollama` means `ollama.service`.
pub fn full_name(name: &OsStr) -> Result<String, NoDropIn> {
    let wrong = || NoDropIn::Name {
        name: name.to_owned(),
    };
    let text = name.to_str().ok_or_else(wrong)?;
    let is_known = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    let kind = text.rsplit_once('.').map(|(_, kind)| kind);
    if kind.is_some_and(|kind| OTHER_KINDS.contains(&kind)) {
        return Err(NoDropIn::Kind {
            name: text.to_owned(),
        });
    }
    let stem = text.strip_suffix(SERVICE).unwrap_or(text);
    if stem.is_empty()
        || stem.starts_with(['.', '@'])
        || stem.len() > 200
        || !stem.chars().all(is_known)
    {
        return Err(wrong());
    }
    Ok(format!("{stem}{SERVICE}"))
}

fn is_service(name: &OsStr) -> bool {
    full_name(name).is_ok_and(|full| *name == *full)
}

/// `name@.service` of `name@instance.service`.
fn template(unit: &str) -> Option<String> {
    let (name, instance) = unit.strip_suffix(SERVICE)?.split_once('@')?;
    (!instance.is_empty()).then(|| format!("{name}@{SERVICE}"))
}

fn is_template(unit: &str) -> bool {
    unit.strip_suffix(SERVICE)
        .is_some_and(|it| it.ends_with('@'))
}

/// `name@instance.service` of `name@.service`, with the instance of another unit.
fn instance_of(template: &str, unit: &str) -> Option<String> {
    let (_, instance) = unit.split_once('@').filter(|_| is_template(template))?;
    Some(template.strip_suffix(SERVICE)?.to_owned() + instance)
}

/// The directories of drop-ins for a unit: of itself, its template, the beginnings of its name up to a dash.
fn names_of_drop_ins(unit: &str) -> Vec<String> {
    let wider = [template(unit), up_to_a_dash(unit)].into_iter().flatten();
    let wider = wider.flat_map(|unit| names_of_drop_ins(&unit));
    [format!("{unit}.d")].into_iter().chain(wider).collect()
}

/// `a-b-.service` of `a-b-c.service`, and `a-.service` of that.
fn up_to_a_dash(unit: &str) -> Option<String> {
    let (stem, end) = unit.split_at(unit.find('@').or(unit.rfind('.'))?);
    let at = stem.strip_suffix('-').unwrap_or(stem).rfind('-')?;
    Some(stem[..=at].to_owned() + end)
}

/// Reads what a unit and its drop-ins say, ours left out, and returns what ours would change.
pub fn change(
    host: &Host,
    manager: &Manager,
    unit: &str,
    own: &Path,
) -> Result<DropInChange, NoDropIn> {
    let (unit, file) = manager.find(host, unit)?;
    let drop_in = manager.drop_in(&unit);
    made(host, &drop_in)?;
    if !manager.is_user {
        must_be_reachable(host, own)?;
    }
    let Some(own) = own.to_str().map(unit::word) else {
        return Err(NoDropIn::Hidden {
            own: own.to_owned(),
        });
    };
    let mut started: Vec<(PathBuf, String)> = Vec::new();
    let mut has_cache = false;
    let mut secluded: BTreeMap<&'static str, PathBuf> = BTreeMap::new();
    let drop_ins = manager.drop_ins(host, &unit).into_iter();
    for file in [file.clone()]
        .into_iter()
        .chain(drop_ins.filter(|path| *path != drop_in))
    {
        let settings = read(host, &file)?;
        for (key, value) in settings {
            let is_reset = value.is_empty();
            match key.as_str() {
                "ExecStart" => {
                    if file.file_name() > Some(OsStr::new(NAME))
                        && file.extension() == drop_in.extension()
                    {
                        return Err(NoDropIn::LaterDropIn { file });
                    }
                    if is_reset {
                        started.clear();
                    } else {
                        started.push((file.clone(), value));
                    }
                }
                "CacheDirectory" => has_cache = !is_reset,
                key => {
                    if let Some(known) = SECLUDING.iter().find(|known| **known == key) {
                        secluded.remove(known);
                        if !is_reset && value != "/" {
                            secluded.insert(known, file.clone());
                        }
                    }
                }
            }
        }
    }
    if started.is_empty() {
        return Err(NoDropIn::NoCommand { unit, file });
    }
    let mut commands = Vec::new();
    let mut starts_cudarun = true;
    for (from, value) in &started {
        let wrong = || NoDropIn::Command {
            file: from.clone(),
            text: value.clone(),
        };
        for command in unit::commands(value).ok_or_else(wrong)? {
            let before = [command.prefix, &command.words.join(" ")].concat();
            let is_ours = is_cudarun(&command);
            starts_cudarun &= is_ours;
            let after = if is_ours {
                before.clone()
            } else {
                command.through(&own).ok_or_else(wrong)?
            };
            commands.push(ChangedCommand {
                from: from.clone(),
                before,
                after,
            });
        }
    }
    if starts_cudarun {
        return Ok(DropInChange::Nothing { unit, file });
    }
    if let Some((setting, file)) = secluded.into_iter().next() {
        return Err(NoDropIn::Secluded { file, setting });
    }
    let needs_cache = !manager.is_user && !has_cache;
    Ok(DropInChange::Service(Service {
        unit,
        drop_in,
        commands,
        needs_cache,
    }))
}

fn read(host: &Host, file: &Path) -> Result<Vec<(String, String)>, NoDropIn> {
    // systemd takes a link to /dev/null for an empty file.
    if host
        .canonical(file)
        .is_ok_and(|real| real == Path::new("/dev/null"))
    {
        return Ok(Vec::new());
    }
    let bytes = host.read(file).map_err(|error| unreadable(file, &error))?;
    let text = String::from_utf8(bytes);
    let text = text.map_err(|_| unreadable(file, &io::ErrorKind::InvalidData.into()))?;
    Ok(unit::settings(&text, "Service"))
}

fn unreadable(file: &Path, error: &io::Error) -> NoDropIn {
    NoDropIn::Unreadable {
        file: file.to_owned(),
        why: error.to_string(),
    }
}

fn is_cudarun(command: &UnitCommand<'_>) -> bool {
    command.executable().rsplit('/').next() == Some("cudarun")
}

/// The manager starts cudarun as the user of the service, who may be anybody.
fn must_be_reachable(host: &Host, own: &Path) -> Result<(), NoDropIn> {
    judge_file(host, own).map_err(|fault| NoDropIn::Replaceable {
        own: own.to_owned(),
        fault,
    })?;
    let is_open = |path: &Path| host.stat(path).is_ok_and(|stat| stat.mode & 0o001 != 0);
    let is_hidden = HIDDEN.iter().any(|hidden| own.starts_with(hidden));
    if is_hidden || !own.ancestors().all(is_open) {
        return Err(NoDropIn::Hidden {
            own: own.to_owned(),
        });
    }
    Ok(())
}

/// The number of directories that were made for a file of ours; `None` where there is no file.
pub fn made(host: &Host, drop_in: &Path) -> Result<Option<usize>, NoDropIn> {
    if host.lstat(drop_in).is_err() {
        return Ok(None);
    }
    let text = host.read_text(drop_in).unwrap_or_default();
    let number = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix(MARK)?.parse().ok());
    number.map(Some).ok_or_else(|| NoDropIn::Foreign {
        file: drop_in.to_owned(),
    })
}

/// What is left of the caches that a unit, or the instances of a template, had with our drop-in: directories, and links to them. Of
/// directories that hold nothing else, those.
pub fn caches(host: &Host, unit: &str) -> Vec<PathBuf> {
    let mut left = Vec::new();
    for place in CACHES.iter().map(PathBuf::from) {
        let entries = host.list(&place).unwrap_or_default();
        let names = entries.into_iter().map(|entry| entry.name);
        let (own, others): (Vec<_>, Vec<_>) = names.partition(|name| is_cache(name, unit));
        if others.is_empty() && !own.is_empty() {
            left.push(place);
        } else {
            left.extend(own.iter().map(|name| place.join(name)));
        }
    }
    left
}

/// True for the `%N` of a unit, or of an instance of a template.
fn is_cache(name: &OsStr, unit: &str) -> bool {
    let stem = unit.strip_suffix(SERVICE).unwrap_or(unit);
    let name = name.as_encoded_bytes();
    name == stem.as_bytes() || is_template(unit) && name.starts_with(stem.as_bytes())
}

/// The file of ours that a unit has, which may have been uninstalled itself, and its number of directories.
pub fn written(
    host: &Host,
    manager: &Manager,
    unit: &str,
) -> Result<(String, Option<(PathBuf, usize)>), NoDropIn> {
    let unit = manager
        .find(host, unit)
        .map_or_else(|_| unit.to_owned(), |(unit, _)| unit);
    let file = manager.drop_in(&unit);
    let made = made(host, &file)?;
    Ok((unit, made.map(|made| (file, made))))
}
