//! The running processes that have NVIDIA's libraries mapped, and whether these are of one installation. Looks at them from outside,
//! in `/proc`; what it cannot look at is counted.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::catalog::{catalog, soname_number};
use crate::formats::elf;
use crate::formats::maps::mapped_paths;
use crate::host::{FileId, Host};
use crate::inventory::{self, Inventory, Scope, source_names};
use crate::launch;
use crate::loader::search::FoundBy;
use crate::parallel;
use crate::predict::supply::{FamilySupply, directory_of, given};
use crate::predict::{MappedWhen, Predicted, Prediction, is_nvidias};
use crate::variables;
use crate::version::Version;

mod device_watch;
mod process;
mod restart;

pub use device_watch::{DeviceWatch, UNUSED_AFTER};
use process::open_gpus;
pub use restart::StartedFrom;
use restart::words;

/// The source of the inventory that reads the directories that it is given.
const OWN_DIRECTORIES: &str = "own";
/// Characters of a container's name that people type.
const CONTAINER_NAME: usize = 12;
/// Characters of a container's whole name.
const CONTAINER_DIGITS: usize = 64;

/// What runs.
#[derive(Debug, Default)]
pub struct RunningProcesses {
    /// In the order of their numbers.
    pub processes: Vec<RunningProcess>,
    /// How many processes only their user, or root, may look at.
    pub unreadable: usize,
    /// True if this machine shows nobody but root the processes of other users.
    pub hides_others: bool,
}

/// A process that has a library of NVIDIA's mapped. Its paths are those of its own root directory.
#[derive(Debug)]
pub struct RunningProcess {
    pub pid: u32,
    pub uid: u32,
    /// The real path of its executable.
    pub program: PathBuf,
    pub command: Vec<OsString>,
    /// True if cudarun decided about it, or about the process that it is a copy of; `None` if a title hides its first environment.
    pub started_by_cudarun: Option<bool>,
    /// The beginning of its container's name, if that is known.
    pub container: Option<String>,
    /// True if it has other files than this process: in a container, a chroot, a mount namespace.
    pub is_elsewhere: bool,
    pub libraries: Vec<RunningLibrary>,
    pub mixed: Vec<MixedFamily>,
    /// The device files of GPUs that it has open.
    pub devices: Vec<PathBuf>,
    /// What must be started again; only where that is needed, and known.
    pub started_from: Option<StartedFrom>,
}

impl RunningProcess {
    /// True if it must be started again to have libraries that fit.
    pub fn is_wrong(&self) -> bool {
        !self.mixed.is_empty() || self.libraries.iter().any(|library| library.is_deleted)
    }
}

#[derive(Clone, Debug)]
pub struct RunningLibrary {
    /// None for a file that a package has bundled under another name.
    pub family: Option<String>,
    pub path: PathBuf,
    /// That of its installation.
    pub version: Option<Version>,
    /// True if the file was removed or replaced since it was mapped.
    pub is_deleted: bool,
}

/// A family of which a process has files of several installations, where they must be of one.
#[derive(Clone, Debug)]
pub struct MixedFamily {
    pub family: String,
    pub installations: Vec<MixedInstallation>,
}

#[derive(Clone, Debug)]
pub struct MixedInstallation {
    pub directory: PathBuf,
    pub version: Option<Version>,
}

/// Why a process that was asked for cannot be told about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotShown {
    Gone,
    NotAllowed,
}

/// A process and the files of NVIDIA's that it has mapped.
struct Observed {
    process: RunningProcess,
    files: Vec<ObservedFile>,
    root: ProcessRoot,
}

#[derive(PartialEq, Eq, Hash, PartialOrd, Ord)]
struct ObservedFile {
    path: PathBuf,
    inode: u64,
    is_deleted: bool,
}

/// Tells which files a process sees: its mount namespace, and its root directory there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ProcessRoot {
    namespace: PathBuf,
    directory: FileId,
}

enum Look {
    Seen(Box<Observed>),
    /// It has no library of NVIDIA's.
    Without,
    Not(NotShown),
}

/// The processes of this machine, or this one alone. `scan` reads the directories of the mapped files.
pub fn processes(
    host: &Host,
    only: Option<u32>,
    scan: impl Fn(&Host, &Scope) -> Inventory,
) -> Result<RunningProcesses, NotShown> {
    let pids = only.map_or_else(|| host.processes(), |pid| vec![pid]);
    let mounts = host.read(Path::new("/proc/self/mountinfo"));
    let mut running = RunningProcesses {
        // The group of the mount option sees all of them.
        hides_others: mounts.is_ok_and(|mounts| hides_processes(&mounts))
            && host.stat(Path::new("/proc/1")).is_err(),
        ..RunningProcesses::default()
    };
    let mut by_root: BTreeMap<ProcessRoot, Vec<Observed>> = BTreeMap::new();
    for look in parallel::map(&pids, |pid| look_at(host, *pid)) {
        match look {
            Look::Seen(observed) => by_root
                .entry(observed.root.clone())
                .or_default()
                .push(*observed),
            Look::Not(_) if only.is_some() && running.hides_others => {
                return Err(NotShown::NotAllowed);
            }
            Look::Not(why) if only.is_some() => return Err(why),
            Look::Not(NotShown::NotAllowed) => running.unreadable += 1,
            Look::Not(NotShown::Gone) | Look::Without => {}
        }
    }
    let own = root_of(host, Path::new("/proc/self"));
    let is_seen = !by_root.is_empty();
    for (root, observed) in by_root {
        let is_own_namespace = own
            .as_ref()
            .is_some_and(|own| own.namespace == root.namespace);
        let first = running.processes.len();
        if is_own_namespace {
            // The kernel tells the paths of a chroot below this process's root.
            judge(host, observed, &scan, &mut running);
        } else if let Some(there) = observed
            .iter()
            .find_map(|one| host_at(host, one.process.pid, &root))
        {
            judge(&there, observed, &scan, &mut running);
        }
        for process in &mut running.processes[first..] {
            process.is_elsewhere = own.as_ref() != Some(&root);
        }
    }
    if only.is_some() && is_seen && running.processes.is_empty() {
        return Err(NotShown::Gone);
    }
    for process in &mut running.processes {
        if process.is_wrong() && !process.is_elsewhere {
            process.started_from = restart::started_from(host, process.pid);
        }
    }
    running.processes.sort_by_key(|process| process.pid);
    Ok(running)
}

/// The machine that the process sees, unless it has ended and another one has its number.
fn host_at(host: &Host, pid: u32, root: &ProcessRoot) -> Option<Host> {
    let there = Host::of_process(pid).ok()?;
    let is_same = root_of(host, &PathBuf::from(format!("/proc/{pid}"))).as_ref() == Some(root);
    is_same.then_some(there)
}

fn look_at(host: &Host, pid: u32) -> Look {
    let directory = PathBuf::from(format!("/proc/{pid}"));
    let maps = match host.read(&directory.join("maps")) {
        Ok(maps) => maps,
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            // A thread of the kernel has no arguments and maps nothing.
            return match host.read(&directory.join("cmdline")) {
                Ok(arguments) if arguments.is_empty() => Look::Without,
                _ => Look::Not(NotShown::NotAllowed),
            };
        }
        Err(_) => return Look::Not(NotShown::Gone),
    };
    let mut files = BTreeSet::new();
    for file in mapped_paths(&maps) {
        let path = file.real_path();
        let family = catalog()
            .family_of_file(&path)
            .map(|(family, _)| &family.name);
        if is_nvidias(family, &path) {
            files.insert(ObservedFile {
                path: path.into_owned(),
                inode: file.inode,
                is_deleted: file.is_deleted,
            });
        }
    }
    if files.is_empty() {
        return Look::Without;
    }
    let observed = observe(host, pid, &directory, files.into_iter().collect());
    observed.map_or(Look::Not(NotShown::Gone), |observed| {
        Look::Seen(Box::new(observed))
    })
}

fn observe(host: &Host, pid: u32, directory: &Path, files: Vec<ObservedFile>) -> Option<Observed> {
    let read = |name: &str| host.read(&directory.join(name)).unwrap_or_default();
    let process = RunningProcess {
        pid,
        uid: host.stat(directory).ok()?.uid,
        program: host.read_link(&directory.join("exe")).ok()?,
        started_by_cudarun: was_decided(host, directory, &words(&read("environ"))),
        container: container(&read("cgroup")),
        is_elsewhere: false,
        libraries: Vec::new(),
        mixed: Vec::new(),
        devices: Vec::from_iter(open_gpus(host, pid).unwrap_or_default()),
        command: restart::command(&read("cmdline")),
        started_from: None,
    };
    let root = root_of(host, directory)?;
    Some(Observed {
        process,
        files,
        root,
    })
}

fn root_of(host: &Host, directory: &Path) -> Option<ProcessRoot> {
    Some(ProcessRoot {
        namespace: host.read_link(&directory.join("ns/mnt")).ok()?,
        directory: host.stat(&directory.join("root")).ok()?.id,
    })
}

/// True if the environment that a process began with says that cudarun decided about it. A title that is longer than the command line
/// is written over the environment.
fn was_decided(host: &Host, directory: &Path, environment: &[OsString]) -> Option<bool> {
    if let [first, rest @ ..] = environment
        && !first.as_bytes().contains(&b'=')
        && !(first.is_empty() && rest.is_empty())
    {
        return None;
    }
    let value = |name: &str| {
        let mut entries = environment.iter();
        let of_name = |entry: &OsString| {
            let value = entry.as_bytes().strip_prefix(name.as_bytes())?;
            Some(value.strip_prefix(b"=")?.to_owned())
        };
        entries.find_map(of_name).filter(|value| !value.is_empty())
    };
    let Some(tree) = value(variables::TREE) else {
        // Started with --no-follow.
        return Some(value(variables::VIEW).is_some() || value(variables::PINS).is_some());
    };
    let read = |name: &str| host.read(&directory.join(name)).unwrap_or_default();
    let executable = host.stat(&directory.join("exe")).ok().map(|stat| stat.id);
    Some(launch::was_decided(
        OsStr::from_bytes(&tree),
        process_in_namespace(&read("status")),
        &read("stat"),
        executable,
    ))
}

/// The number of a process in its own namespace, by its `status`.
fn process_in_namespace(status: &[u8]) -> Option<u32> {
    let line = status
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"NSpid:"))?;
    let number = line.rsplit(|byte| *byte == b'\t').next()?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The beginning of a container's name, which container managers put into the path of its control group.
fn container(cgroup: &[u8]) -> Option<String> {
    let mut names = cgroup.split(|byte| !byte.is_ascii_hexdigit());
    let name = names.find(|name| name.len() == CONTAINER_DIGITS)?;
    Some(String::from_utf8_lossy(&name[..CONTAINER_NAME]).into_owned())
}

/// True if `/proc` is mounted so that users see only their own processes.
fn hides_processes(mounts: &[u8]) -> bool {
    let mounts = String::from_utf8_lossy(mounts);
    // The last one is on top.
    let proc = mounts
        .lines()
        .rfind(|line| line.split(' ').nth(4) == Some("/proc"));
    let options = proc.and_then(|line| line.rsplit(' ').next());
    let mut options = options.unwrap_or_default().split(',');
    let hidepid = options.find_map(|option| option.strip_prefix("hidepid="));
    hidepid.is_some_and(|value| ["2", "invisible", "4", "ptraceable"].contains(&value))
}

/// Adds processes with what their files are. Many processes have the same files, which are judged once.
fn judge(
    host: &Host,
    observed: Vec<Observed>,
    scan: &impl Fn(&Host, &Scope) -> Inventory,
    running: &mut RunningProcesses,
) {
    let directories = observed
        .iter()
        .flat_map(|one| &one.files)
        .filter_map(|file| file.path.parent());
    let directories: BTreeSet<&Path> = directories.collect();
    let others = source_names().filter(|source| *source != OWN_DIRECTORIES);
    let inventory = scan(
        host,
        &Scope {
            machine: inventory::machine(host).unwrap_or(elf::X86_64),
            own_directories: directories.into_iter().map(Path::to_owned).collect(),
            without: others.map(str::to_owned).collect(),
            ..Scope::default()
        },
    );
    let mut judged = HashMap::new();
    for Observed {
        mut process, files, ..
    } in observed
    {
        let (libraries, mixed) = judged
            .entry(files)
            .or_insert_with_key(|files| compare(host, &inventory, files));
        process.libraries.clone_from(libraries);
        process.mixed.clone_from(mixed);
        running.processes.push(process);
    }
}

/// The versions of a process's files, and the families of which it has files of several installations.
fn compare(
    host: &Host,
    inventory: &Inventory,
    files: &[ObservedFile],
) -> (Vec<RunningLibrary>, Vec<MixedFamily>) {
    let mut libraries = Vec::new();
    let mut mapped = Prediction::default();
    for file in files {
        let id = match host.stat(&file.path) {
            Ok(stat) if !file.is_deleted => stat.id,
            // Another file may have its path now.
            _ => FileId {
                device: u64::MAX,
                inode: file.inode,
            },
        };
        let family = catalog().family_of_file(&file.path);
        let name = file.path.file_name().unwrap_or_default().to_string_lossy();
        if let Some((family, stem)) = family {
            mapped.files.push(Predicted {
                path: file.path.clone(),
                requester: PathBuf::new(),
                rule: FoundBy::Path,
                when: MappedWhen::Opened,
                family: Some(family.name.clone()),
                id,
                stem: stem.to_owned(),
                soname: soname_number(&name),
                is_linked: false,
                name: name.into_owned(),
            });
        }
        let installation = inventory.installation_of(id);
        libraries.push(RunningLibrary {
            family: family.map(|(family, _)| family.name.clone()),
            path: file.path.clone(),
            version: installation.and_then(|installation| installation.version),
            is_deleted: file.is_deleted,
        });
    }
    let supplies = given(&mapped, inventory);
    let mixed = supplies.iter().filter_map(|(family, supply)| {
        let group = supply.mixed_groups().find(are_of_several_versions)?;
        Some(MixedFamily::new(family, &group))
    });
    (libraries, mixed.collect())
}

/// False for two installations of one version, which do no harm.
fn are_of_several_versions(supply: &FamilySupply<'_>) -> bool {
    let mut versions = BTreeSet::new();
    let mut are_known = true;
    for (installation, _) in &supply.installations {
        let version = installation.and_then(|installation| installation.version);
        versions.insert((version, installation.and_then(|one| one.cuda)));
        are_known &= version.is_some();
    }
    versions.len() > 1 || !are_known
}

impl MixedFamily {
    fn new(family: &str, supply: &FamilySupply<'_>) -> MixedFamily {
        let mut installations = Vec::new();
        for (installation, files) in &supply.installations {
            installations.push(MixedInstallation {
                directory: directory_of(*installation, files).to_owned(),
                version: installation.and_then(|installation| installation.version),
            });
        }
        MixedFamily {
            family: family.to_owned(),
            installations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_known_by_its_control_group() {
        let name = "3f".repeat(32);
        for text in [
            format!("0::/system.slice/docker-{name}.scope\n"),
            format!("12:devices:/docker/{name}\n0::/docker/{name}\n"),
            format!("0::/kubepods.slice/kubepods-pod8a_1.slice/cri-containerd-{name}.scope"),
        ] {
            assert_eq!(
                container(text.as_bytes()).as_deref(),
                Some("3f3f3f3f3f3f"),
                "{text}"
            );
        }
        let other = format!("0::/user.slice/session-{}.scope", "3f".repeat(31));
        assert_eq!(container(other.as_bytes()), None);
    }

    #[test]
    fn hidden_processes_are_known_by_the_mount() {
        let line = |options: &str| {
            let root = "22 1 8:1 / / rw - ext4 /dev/sda1 rw,hidepid=2";
            format!("{root}\n23 22 0:21 / /proc rw,nosuid - proc proc {options}\n")
        };
        for (options, is) in [
            ("rw", false),
            ("rw,hidepid=noaccess", false),
            ("rw,hidepid=invisible", true),
            ("rw,gid=4,hidepid=2", true),
        ] {
            assert_eq!(hides_processes(line(options).as_bytes()), is, "{options}");
        }
        assert!(!hides_processes(b""));
    }

    #[test]
    fn the_innermost_number_of_a_process_counts() {
        assert_eq!(
            process_in_namespace(b"Name:\tx\nNSpid:\t4242\t7\nVmRSS: 1"),
            Some(7)
        );
        assert_eq!(process_in_namespace(b"NSpid:\t4242\n"), Some(4242));
        assert_eq!(process_in_namespace(b"NSpid:\n"), None);
        assert_eq!(process_in_namespace(b""), None);
    }
}
