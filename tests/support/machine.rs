//! Machines as text: `tests/machines/*.toml` says which files there are, and this makes them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::elf::Elf;
use super::rpm;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    /// What it is like, for a reader.
    about: String,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    file: Vec<File>,
}

#[derive(Deserialize)]
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
    text: Option<String>,
    directory: Option<bool>,
    fifo: Option<bool>,
    mode: Option<u32>,
    /// Cut this many bytes off its end.
    cut: Option<usize>,
}

pub struct Machine {
    root: tempfile::TempDir,
    pub env: BTreeMap<String, String>,
}

impl Machine {
    /// The machine that `tests/machines/NAME.toml` describes.
    pub fn load(name: &str) -> Machine {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/machines/{name}.toml"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Machine::describe(&text)
    }

    pub fn describe(text: &str) -> Machine {
        let description: Description = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        assert!(!description.about.is_empty());
        let machine = Machine { root: tempfile::tempdir().unwrap(), env: description.env };
        for file in &description.file {
            if file.each.is_empty() {
                machine.make(file, &file.path, None);
            }
            for name in &file.each {
                machine.make(file, &file.path.replace("{name}", name), Some(name));
            }
        }
        machine
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn real(&self, guest: &str) -> PathBuf {
        self.root.path().join(guest.trim_start_matches('/'))
    }

    fn make(&self, file: &File, path: &str, name: Option<&str>) {
        let real = self.real(path);
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        if let Some(target) = &file.link {
            symlink(target.replace("{name}", name.unwrap_or_default()), &real).unwrap();
            return;
        }
        if let Some(same) = &file.hard_link {
            fs::hard_link(self.real(same), &real).unwrap();
            return;
        }
        if file.directory == Some(true) {
            fs::create_dir_all(&real).unwrap();
        } else if file.fifo == Some(true) {
            nix::unistd::mkfifo(&real, nix::sys::stat::Mode::S_IRWXU).unwrap();
        } else {
            let mut bytes = match (&file.elf, &file.rpm, &file.text) {
                (Some(elf), None, None) => {
                    let mut elf = elf.clone();
                    elf.soname = elf.soname.map(|soname| soname.replace("{name}", name.unwrap_or_default()));
                    elf.build()
                }
                (None, Some(packages), None) => rpm::database(packages),
                (None, None, text) => text.clone().unwrap_or_default().into_bytes(),
                _ => panic!("{path}: one of elf, rpm and text"),
            };
            bytes.truncate(bytes.len().saturating_sub(file.cut.unwrap_or(0)));
            fs::write(&real, bytes).unwrap();
        }
        let executable = file.elf.as_ref().is_some_and(|elf| elf.interpreter.is_some());
        let script = file.text.as_ref().is_some_and(|text| text.starts_with("#!"));
        let mode = file.mode.unwrap_or(if executable || script || file.directory == Some(true) {
            0o755
        } else {
            0o644
        });
        fs::set_permissions(&real, fs::Permissions::from_mode(mode)).unwrap();
    }
}
