//! The machine: the only door to its files, environment and clock. Paths in and out are the guest's: under `--root`
//! every component of every symbolic link is resolved inside that directory or image. This file does not interpret what it reads.
#![allow(
    clippy::disallowed_methods,
    reason = "this is the door that the lint guards"
)]

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag};
use nix::sys::stat::{fstat, fstatat, lstat, stat};

use crate::environment::Environment;

mod directory;
mod fault;
mod mapping;
mod owners;
mod path_safety;
mod permissions;
mod place;
mod process;
mod stat;
mod system_errors;
mod tree;

pub use directory::DirectoryEntry;
use directory::{DirectoryCache, entries, join_root};
pub use fault::table_of_test;
pub use mapping::{FilePart, MappedBytes};
pub use owners::{LISTS, UID_MAP, UNMAPPED, is_own_group, maps_everybody};
pub use path_safety::{Unsafe, UnsafeFault, judge, judge_file, judge_own};
pub use permissions::Room;
use place::{GuestPlace, Root};
pub use process::{
    PipedInput, arguments, change_environment, environment, first_line, open_named, piped_input,
    set_arguments, standard_input, variable,
};
pub use stat::{FileId, FileKind, Stat};
use stat::{READ_LIMIT, not_regular};
use system_errors::noted;
pub use system_errors::unanswered;
pub use tree::{FileTree, NewContent, NewFile};

/// The attribute of a program that gets capabilities from its file.
const CAPABILITIES: &str = "security.capability";

pub struct Host {
    root: Option<Root>,
    /// The beginning of a command of cudarun's for this machine; empty for the machine of this process.
    pub named_by: String,
    pub env: Environment,
    /// The guest's current directory; empty when it is gone.
    pub cwd: PathBuf,
    /// The begin of this run. A file with a later time has changed during the run.
    pub started: SystemTime,
    pub uid: u32,
    pub gid: u32,
    operations: AtomicU64,
    directories: DirectoryCache,
}

impl Host {
    /// This machine, as this process sees it.
    pub fn here() -> Host {
        Host {
            started: SystemTime::now(),
            ..Host::for_a_glance()
        }
    }

    /// This machine for a run that keeps nothing: its start is 1970, so every file counts as changed since.
    pub fn for_a_glance() -> Host {
        Host {
            root: None,
            named_by: String::new(),
            env: std::env::vars_os().collect(),
            cwd: std::env::current_dir().unwrap_or_default(),
            started: SystemTime::UNIX_EPOCH,
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
            operations: AtomicU64::new(0),
            directories: DirectoryCache::default(),
        }
    }

    /// The machine whose root directory is `root`, entered at `cwd` with `env`.
    pub fn at(root: &Path, env: Environment, cwd: PathBuf) -> io::Result<Host> {
        let root = fs::canonicalize(root)?;
        if !fs::metadata(&root)?.is_dir() {
            return Err(io::Error::from(Errno::ENOTDIR));
        }
        Ok(Host::rerooted(Root::Directory(root, None), env, cwd))
    }

    /// The machine as a running process sees it: its root directory, which may be that of a container. It stays the same when that
    /// process ends.
    pub fn of_process(pid: u32) -> io::Result<Host> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        let mut options = OpenOptions::new();
        let root = options.read(true).custom_flags(flags.bits());
        let root = OwnedFd::from(root.open(format!("/proc/{pid}/root"))?);
        // Its real path would be that of this process's root.
        let path = PathBuf::from(format!("/proc/self/fd/{}", root.as_raw_fd()));
        let root = Root::Directory(path, Some(Arc::new(root)));
        Ok(Host::rerooted(
            root,
            Environment::default(),
            PathBuf::from("/"),
        ))
    }

    /// The numbers of the processes, in the order of their text.
    pub fn processes(&self) -> Vec<u32> {
        let entries = self.list(Path::new("/proc")).unwrap_or_default();
        let names = entries.iter().filter_map(|entry| entry.name.to_str());
        names.filter_map(|name| name.parse().ok()).collect()
    }

    /// The machine with these files, entered at `cwd` with `env`.
    pub fn of_tree(tree: FileTree, env: Environment, cwd: PathBuf) -> Host {
        Host::rerooted(Root::Tree(Arc::new(tree)), env, cwd)
    }

    fn rerooted(root: Root, env: Environment, cwd: PathBuf) -> Host {
        Host {
            root: Some(root),
            env,
            cwd,
            ..Host::here()
        }
    }

    /// This machine with another environment and current directory.
    pub fn inside(&self, env: Environment, cwd: PathBuf) -> Host {
        Host {
            root: self.root.clone(),
            named_by: self.named_by.clone(),
            started: self.started,
            env,
            cwd,
            ..Host::here()
        }
    }

    pub fn is_rerooted(&self) -> bool {
        self.root.is_some()
    }

    /// The number of questions to the file system. Tests hold the warm path to a budget.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// The user's cache directory, as XDG and the user database define it; none without a home.
    pub fn user_cache(&self) -> Option<PathBuf> {
        self.of_user("XDG_CACHE_HOME", ".cache")
    }

    /// The user's directory for data of programs, like [`Self::user_cache`].
    pub fn user_data(&self) -> Option<PathBuf> {
        self.of_user("XDG_DATA_HOME", ".local/share")
    }

    /// The user's directory for settings of programs, like [`Self::user_cache`].
    pub fn user_config(&self) -> Option<PathBuf> {
        self.of_user("XDG_CONFIG_HOME", ".config")
    }

    fn of_user(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        match self.env.non_empty(variable).map(PathBuf::from) {
            Some(directory) if directory.is_absolute() => Some(directory),
            _ => Some(self.home()?.join(below_home)),
        }
    }

    pub fn home(&self) -> Option<PathBuf> {
        if self.root.is_none() {
            return directories::BaseDirs::new().map(|base| base.home_dir().to_owned());
        }
        self.env.non_empty("HOME").map(PathBuf::from)
    }

    pub fn stderr_is_terminal(&self) -> bool {
        io::stderr().is_terminal()
    }

    /// The binary of this process, which is also the verifying child.
    pub fn own_executable(&self) -> io::Result<PathBuf> {
        std::env::current_exe()
    }

    /// The path joined to the current directory, with its links unresolved.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        self.cwd.join(path)
    }

    /// Follows links.
    pub fn stat(&self, path: &Path) -> io::Result<Stat> {
        self.status(path, true)
    }

    /// Does not follow a link in the last component.
    pub fn lstat(&self, path: &Path) -> io::Result<Stat> {
        self.status(path, false)
    }

    fn status(&self, path: &Path, follow_last: bool) -> io::Result<Stat> {
        self.count();
        let system_call = if follow_last {
            stat::<Path>
        } else {
            lstat::<Path>
        };
        // A warm start mostly does this. It copies no path and asks for no time of creation.
        if self.root.is_none() {
            return noted(path, system_call(path)).map(Stat::from);
        }
        match self.place(path, follow_last)? {
            GuestPlace::Real(real) => noted(path, system_call(&real)).map(Stat::from),
            GuestPlace::Tree(tree, resolved) => tree.lstat(&resolved),
        }
    }

    /// Asks for several names of one directory, which the kernel looks up once. Follows links.
    pub fn stat_in(&self, directory: &Path, names: &[&str]) -> Vec<io::Result<Stat>> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_PATH;
        let mut opened = None;
        if self.root.is_none() {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(flags.bits());
            opened = options.open(directory).ok();
        }
        if opened.is_some() {
            self.operations
                .fetch_add(names.len() as u64, Ordering::Relaxed);
        }
        let mut stats = Vec::with_capacity(names.len());
        for name in names {
            stats.push(match &opened {
                Some(opened) => {
                    noted(directory, fstatat(opened, *name, AtFlags::empty())).map(Stat::from)
                }
                None => self.stat(&directory.join(name)),
            });
        }
        stats
    }

    pub fn is_file(&self, path: &Path) -> bool {
        self.stat(path).is_ok_and(|stat| stat.is_file())
    }

    pub fn is_directory(&self, path: &Path) -> bool {
        self.stat(path).is_ok_and(|stat| stat.is_directory())
    }

    pub fn is_executable(&self, path: &Path) -> bool {
        self.count();
        if self.root.is_some() {
            return self
                .stat(path)
                .is_ok_and(|stat| stat.is_file() && stat.mode & 0o111 != 0);
        }
        self.is_file(path) && nix::unistd::access(path, nix::unistd::AccessFlags::X_OK).is_ok()
    }

    /// True if a program gets capabilities from its file.
    pub fn has_capabilities(&self, path: &Path) -> bool {
        self.has_attribute(path, CAPABILITIES)
    }

    /// True if a file has an access control list besides its mode.
    pub fn has_acl(&self, path: &Path) -> bool {
        self.has_attribute(path, "system.posix_acl_access")
    }

    fn has_attribute(&self, path: &Path, name: &str) -> bool {
        self.count();
        // Without room for the value, the kernel answers with its size.
        let value: &mut [u8] = &mut [];
        self.place(path, true).is_ok_and(|place| match place {
            GuestPlace::Real(real) => rustix::fs::getxattr(real, name, value).is_ok(),
            GuestPlace::Tree(tree, resolved) => {
                name == CAPABILITIES && tree.has_capabilities(&resolved)
            }
        })
    }

    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.count();
        match self.place(path, false)? {
            GuestPlace::Real(real) => noted(path, fs::read_link(real)),
            GuestPlace::Tree(tree, resolved) => tree.read_link(&resolved),
        }
    }

    /// The guest path with every link resolved.
    pub fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.count();
        match &self.root {
            None => noted(path, self.directories.real_path(path)),
            Some(root) => {
                let resolved = root.resolve(&self.cwd.join(path), true)?;
                match root {
                    Root::Directory(root, _) => {
                        fs::symlink_metadata(join_root(root, &resolved))?;
                    }
                    Root::Tree(tree) => _ = tree.lstat(&resolved)?,
                }
                Ok(resolved)
            }
        }
    }

    /// A whole file of at most 64 MiB. Refuses anything but a regular file, so it never blocks.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let (file, size) = self.open(path)?;
        if size > READ_LIMIT {
            return Err(io::Error::from(Errno::EFBIG));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        noted(path, file.take(READ_LIMIT).read_to_end(&mut bytes))?;
        Ok(bytes)
    }

    /// A small file and its metadata, from a directory that only this user writes to. It is opened without a `stat`
    /// before, which a warm start saves.
    pub fn read_own(&self, path: &Path) -> io::Result<(Vec<u8>, Stat)> {
        self.count();
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW;
        let mut options = OpenOptions::new();
        let GuestPlace::Real(real) = self.place(path, false)? else {
            return Err(not_regular());
        };
        let mut file = options.read(true).custom_flags(flags.bits()).open(real)?;
        let stat = Stat::from(fstat(&file)?);
        if !stat.is_file() || stat.size > READ_LIMIT {
            return Err(io::Error::from(ErrorKind::InvalidInput));
        }
        let mut bytes = vec![0; usize::try_from(stat.size).unwrap_or(0)];
        file.read_exact(&mut bytes)?;
        Ok((bytes, stat))
    }

    /// A small text file, with invalid UTF-8 replaced.
    pub fn read_text(&self, path: &Path) -> io::Result<String> {
        self.read(path)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The first bytes of a file, at most `limit`.
    pub fn read_start(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let (file, _) = self.open(path)?;
        let mut bytes = Vec::new();
        noted(path, file.take(limit).read_to_end(&mut bytes))?;
        Ok(bytes)
    }

    /// A file of any size, mapped.
    pub fn map(&self, path: &Path) -> io::Result<MappedBytes> {
        self.stat_and_map(path)?.1.ok_or_else(not_regular)
    }

    /// The metadata of a path, and its bytes if it is a regular file.
    pub fn stat_and_map(&self, path: &Path) -> io::Result<(Stat, Option<MappedBytes>)> {
        let stat = self.stat(path)?;
        if !stat.is_file() {
            return Ok((stat, None));
        }
        let map = match self.place(path, true)? {
            GuestPlace::Tree(tree, resolved) => tree.map(&resolved),
            GuestPlace::Real(real) => {
                let (file, size) = open_regular(path, real)?;
                noted(path, MappedBytes::part(&file, 0, size))
            }
        };
        Ok((stat, Some(map?)))
    }

    /// The entries of a directory, sorted by name.
    pub fn list(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.count();
        let mut entries = match self.place(path, true)? {
            GuestPlace::Real(real) => noted(path, entries(&real))?,
            GuestPlace::Tree(tree, resolved) => tree.entries(&resolved)?,
        };
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// The entries of a directory of packages or libraries, as they were when this run first asked. None where it cannot be
    /// listed.
    pub fn listing(&self, path: &Path) -> Option<Arc<[DirectoryEntry]>> {
        self.directories
            .listing(path, self.root.is_none(), |real| self.list(real).ok())
    }

    /// True if the listing of its directory is known and does not have this path. Some file systems ignore case.
    pub fn is_unlisted(&self, path: &Path) -> bool {
        self.directories.is_unlisted(path)
    }

    /// Every file and link below a directory, sorted. Does not follow links, skips unreadable directories and those that
    /// `prune` selects by name.
    pub fn walk(&self, directory: &Path, prune: &dyn Fn(&OsStr) -> bool) -> Vec<PathBuf> {
        self.count();
        let mut paths = match self.place(directory, true) {
            Err(_) => Vec::new(),
            Ok(GuestPlace::Tree(tree, resolved)) => {
                directory::walk(&|relative| tree.entries(&resolved.join(relative)), prune)
            }
            Ok(GuestPlace::Real(real)) => directory::walk(
                &|relative| {
                    let directory = real.join(relative);
                    noted(&directory, entries(&directory))
                },
                prune,
            ),
        };
        for path in &mut paths {
            *path = directory.join(&*path);
        }
        paths
    }

    /// The contents of a regular file, and their size. Files of `/proc` have more than their size says.
    pub fn open(&self, path: &Path) -> io::Result<(FilePart, u64)> {
        // To open a fifo or a device has effects.
        if !self.stat(path)?.is_file() {
            return Err(not_regular());
        }
        match self.place(path, true)? {
            GuestPlace::Real(real) => {
                let (file, size) = open_regular(path, real)?;
                let part = FilePart {
                    file: Arc::new(file),
                    start: 0,
                    end: u64::MAX,
                };
                Ok((part, size))
            }
            GuestPlace::Tree(tree, resolved) => {
                let part = tree.open(&resolved)?;
                let size = part.size();
                Ok((part, size))
            }
        }
    }

    /// The place of a file of this machine. Without `--root` the kernel resolves its links.
    fn place(&self, path: &Path, follow_last: bool) -> io::Result<GuestPlace<'_>> {
        match &self.root {
            None => Ok(GuestPlace::Real(path.to_owned())),
            Some(root) => root.place(&self.cwd.join(path), follow_last),
        }
    }

    fn count(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }
}

/// Opens what was a regular file a moment ago. O_NONBLOCK: it may have become a fifo in the meantime.
fn open_regular(path: &Path, real: PathBuf) -> io::Result<(File, u64)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(real);
    let file = noted(path, file)?;
    let metadata = noted(path, file.metadata())?;
    if metadata.is_file() {
        Ok((file, metadata.len()))
    } else {
        Err(not_regular())
    }
}
