//! `cudarun fleet`, and the descriptions that `doctor --save-in` writes for it.

mod compare;
mod described;
mod groups;
mod lock;
mod project;

use std::fs;
use std::path::PathBuf;

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{cudnn, driver, elf, kernel, library, link, program, text};

pub const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";
pub const APP: &str = "app --serve";

/// A directory of descriptions.
pub struct Nodes {
    directory: tempfile::TempDir,
}

/// A machine made of text: a node with a GPU, this driver, a program that needs cuDNN 9, and these files.
pub fn node(version: &str, env: &str, files: &[String]) -> String {
    let base = [
        elf(
            &format!("{SYSTEM}/libc.so.6"),
            "soname = 'libc.so.6', exports = ['malloc'], versions = ['GLIBC_2.35']",
        ),
        elf(
            "/usr/lib/ld-linux-x86-64.so.2",
            "soname = 'ld-linux-x86-64.so.2'",
        ),
        link("/lib", "usr/lib"),
        link("/lib64", "usr/lib"),
        kernel(version),
        text("/dev/nvidia-uvm", ""),
        driver(SYSTEM, version),
        program("app", &["libcudnn.so.9", "libc.so.6"], ""),
    ];
    format!(
        "about = 'a node'\nprograms = ['{APP}']\n\n[env]\nPATH = '/usr/bin'\n{env}\n{}{}",
        base.concat(),
        files.concat()
    )
}

pub fn with_cudnn(version: &str) -> Vec<String> {
    let cuda = ["libcublas", "libcublasLt"].map(|stem| library(SYSTEM, stem, "12", "12.4.5", ""));
    [&cuda[..], &[cudnn(SYSTEM, version, "")]].concat()
}

impl Nodes {
    pub fn new(nodes: &[(&str, String)]) -> Nodes {
        let made = Nodes {
            directory: tempfile::tempdir().unwrap(),
        };
        for (name, text) in nodes {
            made.put(name, text);
        }
        made
    }

    /// Describes the machine that the text makes, as `doctor` does there.
    pub fn put(&self, name: &str, text: &str) {
        self.save(&Machine::describe(text), name, &[]);
    }

    /// Describes a machine and its programs, in an environment with more variables.
    pub fn save(&self, machine: &Machine, name: &str, variables: &[(&str, &str)]) {
        let directory = self.path("");
        let mut words = vec!["-q", "doctor", "--save-in", directory.to_str().unwrap()];
        words.extend(["--name", name]);
        for line in &machine.programs {
            words.extend(["--for", line]);
        }
        let run = Run::on(machine, &words).any_stderr();
        let run = variables
            .iter()
            .fold(run, |run, (name, value)| run.env(name, value));
        run.check();
    }

    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(file)
    }

    pub fn fleet(&self, options: &[&str]) -> Run {
        let directory = self.path("");
        Run::new([&["fleet"], options, &[directory.to_str().unwrap()]].concat())
            .env("COLUMNS", "200")
    }
}
