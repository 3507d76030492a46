//! Machines as text: `tests/machines/*.toml` says which files there are, and a test gets a directory with them. A description
//! that is wrong fails the test.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cudarun::image::ldcache::{CacheEntry, cache};
use serde::Deserialize;

pub mod elf;

use elf::Elf;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    /// For the reader.
    #[serde(rename = "about")]
    _about: String,
    /// The command lines of `doctor --for` there.
    #[serde(default)]
    programs: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
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
    /// Entries of the loader's cache.
    ld_cache: Option<Vec<CacheEntry>>,
    text: Option<String>,
    #[serde(default)]
    directory: bool,
    #[serde(default)]
    fifo: bool,
    mode: Option<u32>,
    /// Cut this many bytes off its end.
    #[serde(default)]
    cut: usize,
}

/// The files of a machine, which are removed when this is dropped.
pub struct Machine {
    root: tempfile::TempDir,
    pub env: BTreeMap<String, String>,
    pub programs: Vec<String>,
}

impl Machine {
    /// The machine that `tests/machines/NAME.toml` describes.
    pub fn load(name: &str) -> Machine {
        Machine::with(name, "")
    }

    /// This machine with more files, as text.
    #[track_caller]
    pub fn with(name: &str, more: &str) -> Machine {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/machines/{name}.toml"));
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Machine::describe(&(text + more))
    }

    #[track_caller]
    pub fn describe(text: &str) -> Machine {
        let description: Description =
            toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let root = tempfile::tempdir().unwrap();
        // Below it, other users must not be able to replace anything.
        set_mode(root.path(), 0o700);
        let machine = Machine {
            root,
            env: description.env,
            programs: description.programs,
        };
        // A link may be above other files, and a hard link needs its file.
        let (links, mut files): (Vec<File>, Vec<File>) = description
            .file
            .into_iter()
            .partition(|file| file.link.is_some());
        files.sort_by_key(|file| file.hard_link.is_some());
        for file in files.iter().chain(&links) {
            if file.each.is_empty() {
                machine.make(file, "");
            }
            for name in &file.each {
                machine.make(file, name);
            }
        }
        // Last, because nothing can be made in a directory that is closed to writing.
        for file in files.iter().filter(|file| file.directory) {
            if let Some(mode) = file.mode {
                assert!(file.each.is_empty(), "{}: one directory", file.path);
                set_mode(&machine.real(&file.path), mode | 0o700);
            }
        }
        machine
    }

    fn make(&self, file: &File, name: &str) {
        let named = |text: &str| text.replace("{name}", name);
        let real = self.real(&named(&file.path));
        if file.directory {
            return make_directory(&real);
        }
        make_directory(real.parent().unwrap());
        if let Some(target) = &file.link {
            symlink(named(target), &real)
                .unwrap_or_else(|error| panic!("{}: {error}", real.display()));
            return;
        }
        if let Some(same) = &file.hard_link {
            return fs::hard_link(self.real(same), &real).unwrap();
        }
        if file.fifo {
            return nix::unistd::mkfifo(&real, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        let mut bytes = match (&file.elf, &file.ld_cache) {
            (Some(elf), _) => {
                let soname = elf.soname.as_deref().map(named);
                let elf = Elf {
                    soname,
                    ..elf.clone()
                };
                elf.build()
                    .unwrap_or_else(|why| panic!("{}: {why}", file.path))
            }
            (_, Some(entries)) => cache(entries),
            _ => file.text.clone().unwrap_or_default().into_bytes(),
        };
        bytes.truncate(bytes.len() - file.cut.min(bytes.len()));
        let is_program = file
            .elf
            .as_ref()
            .is_some_and(|elf| elf.interpreter.is_some())
            || bytes.starts_with(b"#!");
        fs::write(&real, bytes).unwrap_or_else(|error| panic!("{}: {error}", real.display()));
        set_mode(
            &real,
            file.mode.unwrap_or(if is_program { 0o755 } else { 0o644 }),
        );
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn real(&self, guest: &str) -> PathBuf {
        self.root.path().join(guest.trim_start_matches('/'))
    }
}

/// Makes a directory and its parents, with the usual mode whatever the umask.
fn make_directory(real: &Path) {
    if real.is_dir() {
        return;
    }
    make_directory(real.parent().unwrap());
    fs::create_dir(real).unwrap_or_else(|error| panic!("{}: {error}", real.display()));
    set_mode(real, 0o755);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode & 0o7777)).unwrap();
}
