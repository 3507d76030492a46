//! Descriptions of machines: their files as text, see `docs/doctor.md`. Makes the files in a private directory, which is
//! then read like `--root`. A description is hostile: it makes nothing outside that directory, and has limits.
#![allow(
    clippy::disallowed_methods,
    reason = "makes files in a directory of our own, and nothing else"
)]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::OFlag;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::environment::Environment;
use crate::host::Host;

pub mod elf;
pub mod ldcache;
pub mod save;

use elf::Elf;

/// More files than any description needs.
const FILES: usize = 200_000;
/// More bytes than all of them have.
const BYTES: usize = 512 << 20;
/// Prefix of the names of our directories.
const PREFIX: &str = "cudarun-machine-";
/// The largest description, in bytes.
pub const LARGEST: u64 = 64 << 20;
/// The version of descriptions, raised when older versions of cudarun cannot read them.
pub const FORMAT: u32 = 1;
/// More components than any path needs.
const DEPTH: usize = 64;
/// More bytes than the kernel takes for a path.
const PATH: usize = 4096;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    /// A comment for the reader.
    about: String,
    /// Read before the rest. Descriptions of version 0.1 have none.
    #[serde(default, rename = "format")]
    _format: IgnoredAny,
    /// The command lines of programs for which it has all files.
    #[serde(default)]
    programs: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The current directory.
    cwd: Option<String>,
    #[serde(default)]
    file: Vec<File>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    path: String,
    /// Makes a file for each of these, with it in place of `{name}` in path and contents.
    #[serde(default)]
    each: Vec<String>,
    elf: Option<Elf>,
    link: Option<String>,
    /// Another name for the file at this path.
    hard_link: Option<String>,
    /// Descriptions of version 0.1 list packages of RPM's database, which are ignored.
    rpm: Option<IgnoredAny>,
    /// Entries of the loader's cache.
    ld_cache: Option<Vec<ldcache::CacheEntry>>,
    text: Option<String>,
    directory: Option<bool>,
    fifo: Option<bool>,
    mode: Option<u32>,
    /// Cut this many bytes off its end.
    cut: Option<usize>,
}

/// The files of a machine, which are removed when this is dropped.
pub struct Machine {
    root: tempfile::TempDir,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    /// The command lines of programs for which the description has all files.
    pub programs: Vec<String>,
}

/// An error in a description.
#[derive(Debug)]
pub struct DescriptionError(pub String);

impl Machine {
    /// Makes the machine that the text describes.
    pub fn make(text: &str) -> Result<Machine, DescriptionError> {
        if let Some(format) = format_of(text).filter(|format| *format > FORMAT) {
            let why =
                format!("a newer cudarun wrote it (format {format}; this one reads {FORMAT})");
            return Err(DescriptionError(why));
        }
        let description: Description = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text
                .as_bytes()
                .iter()
                .take(at)
                .filter(|byte| **byte == b'\n')
                .count();
            DescriptionError(format!(
                "line {line}: {}",
                error.message().lines().next().unwrap_or_default()
            ))
        })?;
        if description.about.is_empty() {
            return Err(DescriptionError("`about` says nothing".to_owned()));
        }
        let cwd = PathBuf::from(description.cwd.unwrap_or_else(|| "/".to_owned()));
        inside(&cwd).map_err(|why| DescriptionError(format!("`cwd`: {why}")))?;
        let private = fs::Permissions::from_mode(0o700);
        let makers = makers();
        let own = makers
            .as_ref()
            .map(|makers| format!("{makers}{}-", std::process::id()));
        let prefix = own.as_deref().unwrap_or(PREFIX);
        let root = tempfile::Builder::new()
            .prefix(prefix)
            .permissions(private)
            .tempdir();
        let root =
            root.map_err(|error| DescriptionError(format!("no temporary directory: {error}")))?;
        if let (Some(makers), Some(parent)) = (&makers, root.path().parent()) {
            remove_left_over(parent, makers);
        }
        let machine = Machine {
            root,
            env: description.env,
            cwd,
            programs: description.programs,
        };
        Maker {
            root: machine.root(),
            files: 0,
            bytes: 0,
            made: BTreeMap::new(),
        }
        .all(&description.file)?;
        Ok(machine)
    }

    /// Makes the machine that a file describes.
    pub fn read(host: &Host, path: &Path) -> Result<Machine, DescriptionError> {
        let path = host.absolute(path);
        let plain = |error: &io::Error| {
            let text = error.to_string();
            DescriptionError(
                text.split(" (os error ")
                    .next()
                    .unwrap_or_default()
                    .to_lowercase(),
            )
        };
        let bytes = host
            .read_start(&path, LARGEST + 1)
            .map_err(|error| plain(&error))?;
        if bytes.len() as u64 > LARGEST {
            return Err(DescriptionError(format!(
                "it is larger than {LARGEST} bytes"
            )));
        }
        Machine::make(
            std::str::from_utf8(&bytes)
                .map_err(|_| DescriptionError("it is not text".to_owned()))?,
        )
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn real(&self, guest: &str) -> PathBuf {
        self.root.path().join(guest.trim_start_matches('/'))
    }

    /// Returns the machine as a host, which owns its files.
    pub fn host(self) -> io::Result<Host> {
        // Defaults for a description without these.
        let usual = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", "/home/user"),
        ];
        let mut environment: Environment = usual.into_iter().collect();
        self.env
            .iter()
            .for_each(|(name, value)| environment.set(name, value));
        let mut host = Host::at(self.root.path(), environment, self.cwd.clone())?;
        host.is_described = true;
        Ok(host.keeping(Arc::new(self.root)))
    }
}

/// Returns the format of a description, which need not be readable otherwise.
fn format_of(text: &str) -> Option<u32> {
    let head = text.lines().take_while(|line| !line.starts_with('['));
    head.into_iter()
        .find_map(|line| line.strip_prefix("format = ")?.trim().parse().ok())
}

/// Returns the prefix of directory names from this boot and this process namespace: process ids are unique only there.
/// None if the kernel does not tell.
fn makers() -> Option<String> {
    let started = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let ids = fs::metadata("/proc/self/ns/pid").ok()?.ino();
    let started = started
        .get(..8)
        .filter(|start| start.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some(format!("{PREFIX}{started}-{ids}-"))
}

/// Removes the directories of interrupted processes.
fn remove_left_over(directory: &Path, makers: &str) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_gone = name
            .to_str()
            .and_then(|name| maker(name, makers))
            .is_some_and(|maker| {
                let asked = nix::sys::signal::kill(nix::unistd::Pid::from_raw(maker), None);
                asked == Err(nix::errno::Errno::ESRCH)
            });
        // Neither the check nor the removal follows a link.
        let is_ours = |stat: &fs::Metadata| {
            stat.is_dir()
                && stat.uid() == nix::unistd::geteuid().as_raw()
                && stat.mode() & 0o7777 == 0o700
        };
        if is_gone && fs::symlink_metadata(entry.path()).is_ok_and(|stat| is_ours(&stat)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the id of the process that made a directory of this name.
fn maker(name: &str, makers: &str) -> Option<i32> {
    let (id, random) = name.strip_prefix(makers)?.split_once('-')?;
    let is_random = random.len() == 6 && random.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    // Zero is a process group.
    id.parse()
        .ok()
        .filter(|id| is_random && is_number && *id > 0)
}

struct Maker<'r> {
    root: &'r Path,
    files: usize,
    bytes: usize,
    /// The paths that were made. The later of two plain files with one path counts.
    made: BTreeMap<PathBuf, Made>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    Plain,
    Directory,
    Other,
}

impl File {
    /// The keys for kinds of files that it has.
    fn kinds(&self) -> Vec<&'static str> {
        let kinds = [
            ("elf", self.elf.is_some()),
            ("rpm", self.rpm.is_some()),
            ("ld_cache", self.ld_cache.is_some()),
            ("text", self.text.is_some()),
            ("directory", self.directory == Some(true)),
            ("fifo", self.fifo == Some(true)),
            ("hard_link", self.hard_link.is_some()),
            ("link", self.link.is_some()),
        ];
        kinds
            .into_iter()
            .filter(|(_, is_set)| *is_set)
            .map(|(key, _)| key)
            .collect()
    }

    /// Returns each path, with the word for `{name}` there.
    fn paths(&self) -> impl Iterator<Item = (String, &str)> {
        let one = self.each.is_empty().then_some("");
        let names = one.into_iter().chain(self.each.iter().map(String::as_str));
        names.map(|name| (self.path.replace("{name}", name), name))
    }
}

impl Maker<'_> {
    /// Makes links last, so that no file is written through a link.
    fn all(&mut self, files: &[File]) -> Result<(), DescriptionError> {
        let fault = |path: &str, why: String| {
            DescriptionError(format!("file `{}`: {why}", crate::text::show(path)))
        };
        for file in files {
            check(file).map_err(|why| fault(&file.path, why))?;
            // Counts files before one is made. Directories are counted when they are made, with their parents.
            let names = if file.directory == Some(true) {
                0
            } else {
                file.each.len().max(1)
            };
            self.count_files(names)
                .map_err(|why| fault(&file.path, why))?;
        }
        let rank =
            |file: &File| 2 * u8::from(file.link.is_some()) + u8::from(file.hard_link.is_some());
        let mut in_order: Vec<&File> = files.iter().collect();
        in_order.sort_by_key(|file| rank(file));
        for file in in_order {
            for (path, name) in file.paths() {
                self.one(file, &path, name)
                    .map_err(|why| fault(&path, why))?;
            }
        }
        // Read-only directories get their mode after their files.
        for file in files.iter().filter(|file| file.directory == Some(true)) {
            let Some(mode) = file.mode else { continue };
            for (path, _) in file.paths() {
                let Ok(guest) = inside(Path::new(&path)) else {
                    continue;
                };
                // We must be able to read and to remove them.
                let _ = set_mode(&self.root.join(guest), mode & 0o7777 | 0o700);
            }
        }
        Ok(())
    }

    fn count_files(&mut self, files: usize) -> Result<(), String> {
        self.files += files;
        if self.files > FILES {
            Err(format!("there are more than {FILES} files"))
        } else {
            Ok(())
        }
    }

    fn count_bytes(&mut self, bytes: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > BYTES {
            Err(format!("there are more than {BYTES} bytes"))
        } else {
            Ok(())
        }
    }

    /// Makes one file.
    fn one(&mut self, file: &File, path: &str, name: &str) -> Result<(), String> {
        let guest = inside(Path::new(path))?;
        let Some(parent) = guest.parent() else {
            return Err("is the root itself".to_owned());
        };
        if file.directory == Some(true) {
            return self.directory(&guest);
        }
        self.directory(parent)?;
        let real = self.root.join(&guest);
        let plain = |error: io::Error| error.to_string();
        let is_plain = file.fifo != Some(true) && file.link.is_none() && file.hard_link.is_none();
        let kind = if is_plain { Made::Plain } else { Made::Other };
        let before = self.made.get(&guest).copied();
        if before.is_some_and(|before| (before, kind) != (Made::Plain, Made::Plain)) {
            return Err("is there twice".to_owned());
        }
        if let Some(target) = &file.link {
            symlink(target.replace("{name}", name), &real).map_err(plain)?;
        } else if let Some(same) = &file.hard_link {
            let same = inside(Path::new(same)).map_err(|why| format!("hard_link: {why}"))?;
            // A path in `made` has no link in it or above it.
            if self
                .made
                .get(&same)
                .is_none_or(|made| *made == Made::Directory)
            {
                return Err("hard_link: there is no such file".to_owned());
            }
            fs::hard_link(self.root.join(same), &real).map_err(plain)?;
        } else if file.fifo == Some(true) {
            nix::unistd::mkfifo(&real, nix::sys::stat::Mode::S_IRWXU)
                .map_err(|error| error.to_string())?;
        } else {
            self.write(file, name, &real, before.is_none())?;
        }
        self.made.insert(guest, kind);
        Ok(())
    }

    fn write(&mut self, file: &File, name: &str, real: &Path, is_new: bool) -> Result<(), String> {
        let plain = |error: io::Error| error.to_string();
        if let Some(elf) = &file.elf {
            // Counted before it is made: a few words can describe much code.
            let least = elf
                .entries()
                .map_err(|why| format!("elf: {why}"))?
                .saturating_mul(elf::ENTRY);
            self.count_bytes(least)?;
            self.bytes -= least;
        }
        let bytes = content(file, name)?;
        self.count_bytes(bytes.len())?;
        let kept = bytes.len().saturating_sub(file.cut.unwrap_or(0));
        let mut options = OpenOptions::new();
        let options = options
            .write(true)
            .create_new(is_new)
            .truncate(true)
            .mode(0o600);
        let mut made = options
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(real)
            .map_err(plain)?;
        made.write_all(&bytes[..kept]).map_err(plain)?;
        let executable = file
            .elf
            .as_ref()
            .is_some_and(|elf| elf.interpreter.is_some());
        let script = file
            .text
            .as_ref()
            .is_some_and(|text| text.starts_with("#!"));
        let mode = file
            .mode
            .unwrap_or(if executable || script { 0o755 } else { 0o644 });
        made.set_permissions(fs::Permissions::from_mode(mode & 0o7777))
            .map_err(plain)
    }

    /// Makes a directory and its parents, one by one, and none through a link.
    fn directory(&mut self, guest: &Path) -> Result<(), String> {
        let Some(parent) = guest.parent() else {
            return Ok(());
        };
        match self.made.get(guest) {
            Some(Made::Directory) => return Ok(()),
            Some(_) => return Err(format!("`/{}` is no directory", crate::text::show(guest))),
            None => self.directory(parent)?,
        }
        self.count_files(1)?;
        let real = self.root.join(guest);
        match fs::create_dir(&real) {
            // Not the umask's mode: if others could write to it, the result would change.
            Ok(()) => set_mode(&real, 0o755).map_err(|error| error.to_string())?,
            // A file system that ignores case may have it by another name, and then as a link.
            Err(_) if fs::symlink_metadata(&real).is_ok_and(|stat| stat.is_dir()) => {}
            Err(error) => return Err(error.to_string()),
        }
        self.made.insert(guest.to_owned(), Made::Directory);
        Ok(())
    }
}

/// Fails unless exactly one key gives the kind of file, and the path is valid.
fn check(file: &File) -> Result<(), String> {
    // Counted before a text is made: a few words can describe much of it.
    let longest = file.each.iter().map(String::len).max().unwrap_or(0);
    let soname = file.elf.as_ref().and_then(|elf| elf.soname.as_ref());
    for (key, text) in [
        ("path", Some(&file.path)),
        ("link", file.link.as_ref()),
        ("soname", soname),
    ] {
        let Some(text) = text else { continue };
        if text
            .matches("{name}")
            .count()
            .saturating_mul(longest)
            .saturating_add(text.len())
            > PATH
        {
            return Err(format!("`{key}` is longer than {PATH} bytes"));
        }
    }
    inside(Path::new(&file.path))?;
    match file.kinds()[..] {
        [_] => Ok(()),
        [] => Err("nothing says what it is, such as `text` or `link`".to_owned()),
        [first, second, ..] => Err(format!(
            "says both `{first}` and `{second}`, and can be only one of them"
        )),
    }
}

/// Sets the mode of a directory. Fails on a link.
fn set_mode(directory: &Path, mode: u32) -> io::Result<()> {
    if !fs::symlink_metadata(directory)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(mode))
}

fn content(file: &File, name: &str) -> Result<Vec<u8>, String> {
    match (&file.elf, &file.ld_cache, &file.text) {
        (Some(elf), ..) => {
            let mut elf = elf.clone();
            elf.soname = elf.soname.map(|soname| soname.replace("{name}", name));
            elf.build().map_err(|why| format!("elf: {why}"))
        }
        (_, Some(entries), _) => Ok(ldcache::cache(entries)),
        (.., text) => Ok(text.clone().unwrap_or_default().into_bytes()),
    }
}

/// Returns an absolute path without its `/`. Fails if it could lead out of the root.
fn inside(path: &Path) -> Result<PathBuf, String> {
    let mut components = path.components();
    if components.next() != Some(Component::RootDir) {
        return Err("does not begin with /".to_owned());
    }
    let is_plain = |component: &Component<'_>| matches!(component, Component::Normal(_));
    if !components.clone().all(|component| is_plain(&component)) {
        return Err("has `..` in it".to_owned());
    }
    if components.clone().count() > DEPTH {
        return Err(format!("has more than {DEPTH} parts"));
    }
    Ok(components.collect())
}
