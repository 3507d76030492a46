//! A machine as text: which files there are and what matters of them, `docs/doctor.md`. A description makes the files in
//! a directory of its own, in which everything here looks as under `--root`. What others have written is hostile until
//! it is read: it makes nothing outside that directory, and no more than there is room for.
#![allow(clippy::disallowed_methods, reason = "makes files in a directory of our own, and nothing else")]

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::environment::Environment;
use crate::host::Host;

pub mod elf;
pub mod ldcache;
pub mod rpm;
pub mod save;

use elf::Elf;

/// More files than any machine has that matter.
const FILES: usize = 200_000;
/// More bytes than all of them have as they are made.
const BYTES: usize = 512 << 20;
/// The largest description.
const TEXT: u64 = 64 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    /// What it is like, for a reader.
    about: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The directory that everything is asked from.
    cwd: Option<String>,
    #[serde(default)]
    file: Vec<File>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    path: String,
    /// More files like this one: `{name}` in path and contents stands for each.
    #[serde(default)]
    each: Vec<String>,
    elf: Option<Elf>,
    link: Option<String>,
    /// Another name for the file at this path.
    hard_link: Option<String>,
    /// A database of RPM in which these packages are installed.
    rpm: Option<Vec<rpm::Package>>,
    /// What the loader's cache knows.
    ld_cache: Option<Vec<ldcache::Entry>>,
    text: Option<String>,
    directory: Option<bool>,
    fifo: Option<bool>,
    mode: Option<u32>,
    /// Cut this many bytes off its end.
    cut: Option<usize>,
}

/// A machine that was made: its files go when this does.
pub struct Machine {
    root: tempfile::TempDir,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
}

/// What is wrong with a description.
#[derive(Debug)]
pub struct Fault(pub String);

impl Machine {
    /// The machine that the text describes.
    pub fn make(text: &str) -> Result<Machine, Fault> {
        let description: Description = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = 1 + text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count();
            Fault(format!("line {line}: {}", error.message().lines().next().unwrap_or_default()))
        })?;
        if description.about.is_empty() {
            return Err(Fault("`about` says nothing".to_owned()));
        }
        let cwd = PathBuf::from(description.cwd.unwrap_or_else(|| "/".to_owned()));
        inside(&cwd).map_err(|why| Fault(format!("`cwd`: {why}")))?;
        let private = fs::Permissions::from_mode(0o700);
        let root = tempfile::Builder::new().prefix("cudarun-machine-").permissions(private).tempdir();
        let root = root.map_err(|error| Fault(format!("no temporary directory: {error}")))?;
        let machine = Machine { root, env: description.env, cwd };
        Maker { root: machine.root(), files: 0, bytes: 0, made: BTreeMap::new() }.all(&description.file)?;
        Ok(machine)
    }

    /// The machine that a file describes.
    pub fn read(host: &Host, path: &Path) -> Result<Machine, Fault> {
        let path = host.absolute(path);
        let plain = |error: &io::Error| {
            let text = error.to_string();
            Fault(text.split(" (os error ").next().unwrap_or_default().to_lowercase())
        };
        let bytes = host.read_start(&path, TEXT + 1).map_err(|error| plain(&error))?;
        if bytes.len() as u64 > TEXT {
            return Err(Fault(format!("it is larger than {TEXT} bytes")));
        }
        Machine::make(std::str::from_utf8(&bytes).map_err(|_| Fault("it is not text".to_owned()))?)
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn real(&self, guest: &str) -> PathBuf {
        self.root.path().join(guest.trim_start_matches('/'))
    }

    /// What can be asked like any other machine; its files go with it.
    pub fn host(self) -> io::Result<Host> {
        // What no description says is as on most machines.
        let usual = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/home/user")];
        let mut environment: Environment = usual.into_iter().collect();
        self.env.iter().for_each(|(name, value)| environment.set(name, value));
        let host = Host::at(self.root.path(), environment, self.cwd.clone())?;
        Ok(host.keeping(self.root))
    }
}

struct Maker<'r> {
    root: &'r Path,
    files: usize,
    bytes: usize,
    /// What has been made, and whether it is a plain file: of two that are called alike the later counts.
    made: BTreeMap<PathBuf, bool>,
}

impl Maker<'_> {
    /// Files first, links last: while anything is written, no link leads anywhere.
    fn all(&mut self, files: &[File]) -> Result<(), Fault> {
        let is_link = |file: &File| file.link.is_some();
        let is_hard = |file: &File| file.hard_link.is_some();
        let of = |wanted: [bool; 2]| files.iter().filter(move |it| [is_link(it), is_hard(it)] == wanted);
        let in_order =
            of([false, false]).chain(of([false, true])).chain(of([true, false])).chain(of([true, true]));
        for file in in_order {
            let none = [String::new()];
            let names = if file.each.is_empty() { &none[..] } else { &file.each };
            for name in names {
                let path = file.path.replace("{name}", name);
                let fault = |why: String| Fault(format!("file `{}`: {why}", crate::text::show(&path)));
                self.count(0).map_err(fault)?;
                let bytes = self.one(file, &path, name).map_err(fault)?;
                self.count(bytes).map_err(fault)?;
            }
        }
        // What nobody may write to is closed last.
        for file in files.iter().filter(|file| file.directory == Some(true)) {
            let Some(mode) = file.mode else { continue };
            let each = if file.each.is_empty() { vec![String::new()] } else { file.each.clone() };
            for name in each {
                let path = self.root.join(file.path.replace("{name}", &name).trim_start_matches('/'));
                // We ourselves must be able to look, and to take all of it away.
                let _ = fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777 | 0o700));
            }
        }
        Ok(())
    }

    fn count(&mut self, bytes: usize) -> Result<(), String> {
        self.files += usize::from(bytes == 0);
        self.bytes = self.bytes.saturating_add(bytes);
        match () {
            () if self.files > FILES => Err(format!("there are more than {FILES} files")),
            () if self.bytes > BYTES => Err(format!("there are more than {BYTES} bytes")),
            () => Ok(()),
        }
    }

    /// Makes one file, and says how large it is.
    fn one(&mut self, file: &File, path: &str, name: &str) -> Result<usize, String> {
        let guest = inside(Path::new(path))?;
        if guest.as_os_str().is_empty() {
            return Err("is the root itself".to_owned());
        }
        let real = self.root.join(&guest);
        let plain = |error: io::Error| error.to_string();
        if let Some(parent) = real.parent() {
            self.directory(&guest, parent)?;
        }
        let is_directory = file.directory == Some(true);
        let is_plain =
            !is_directory && file.fifo != Some(true) && file.link.is_none() && file.hard_link.is_none();
        let before = if is_directory { None } else { self.made.insert(guest.clone(), is_plain) };
        if before.is_some_and(|was_plain| !(was_plain && is_plain)) {
            return Err("is there twice".to_owned());
        }
        if let Some(target) = &file.link {
            symlink(target.replace("{name}", name), &real).map_err(plain)?;
            return Ok(0);
        }
        if let Some(same) = &file.hard_link {
            let same = inside(Path::new(same)).map_err(|why| format!("hard_link: {why}"))?;
            // What was made before is no link, and neither is anything above it.
            let is_made = self.made.contains_key(&same);
            let link = is_made.then(|| fs::hard_link(self.root.join(same), &real).map_err(plain));
            return link.unwrap_or_else(|| Err("hard_link: there is no such file".to_owned())).map(|()| 0);
        }
        if is_directory {
            return if real.is_dir() { Ok(0) } else { create_directory(&real).map_err(plain).map(|()| 0) };
        }
        if file.fifo == Some(true) {
            nix::unistd::mkfifo(&real, nix::sys::stat::Mode::S_IRWXU).map_err(|error| error.to_string())?;
            return Ok(0);
        }
        let bytes = content(file, name)?;
        if self.bytes.saturating_add(bytes.len()) > BYTES {
            return Err(format!("there are more than {BYTES} bytes"));
        }
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true).mode(0o600);
        let mut made = options.open(&real).map_err(plain)?;
        made.write_all(&bytes).map_err(plain)?;
        let executable = file.elf.as_ref().is_some_and(|elf| elf.interpreter.is_some());
        let script = file.text.as_ref().is_some_and(|text| text.starts_with("#!"));
        let mode = file.mode.unwrap_or(if executable || script { 0o755 } else { 0o644 });
        made.set_permissions(fs::Permissions::from_mode(mode & 0o7777)).map_err(plain)?;
        Ok(bytes.len())
    }

    /// The directories above a file. None of them is a link: those come last, and stand where nothing else is.
    fn directory(&self, guest: &Path, parent: &Path) -> Result<(), String> {
        let above = guest.ancestors().skip(1);
        if let Some(file) = above.filter(|above| self.made.contains_key(*above)).last() {
            return Err(format!("`/{}` is no directory", crate::text::show(file)));
        }
        let above: Vec<&Path> = parent.ancestors().take_while(|above| !above.is_dir()).collect();
        for above in above.into_iter().rev() {
            create_directory(above).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

fn content(file: &File, name: &str) -> Result<Vec<u8>, String> {
    let mut bytes = match (&file.elf, &file.rpm, &file.ld_cache, &file.text) {
        (Some(elf), None, None, None) => {
            let mut elf = elf.clone();
            elf.soname = elf.soname.map(|soname| soname.replace("{name}", name));
            elf.build().map_err(|why| format!("elf: {why}"))?
        }
        (None, Some(packages), None, None) => rpm::database(packages),
        (None, None, Some(entries), None) => ldcache::cache(entries),
        (None, None, None, text) => text.clone().unwrap_or_default().into_bytes(),
        _ => return Err("is one of elf, rpm, ld_cache and text".to_owned()),
    };
    bytes.truncate(bytes.len().saturating_sub(file.cut.unwrap_or(0)));
    Ok(bytes)
}

/// As on most machines, whatever the umask says: that others could write to it would be another machine.
fn create_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// A guest's path below its root.
fn inside(path: &Path) -> Result<PathBuf, String> {
    let mut components = path.components();
    if components.next() != Some(Component::RootDir) {
        return Err("does not begin with /".to_owned());
    }
    let is_plain = |component: &Component<'_>| matches!(component, Component::Normal(_));
    if !components.clone().all(|component| is_plain(&component)) {
        return Err("has `..` in it".to_owned());
    }
    Ok(components.collect())
}
