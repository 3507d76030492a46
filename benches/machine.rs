//! Makes the machine that a text file describes, for the benches: measure machine FILE DIRECTORY UNITS [FULL]
//!
//! The text files are in `machines/`; `many.toml` explains the fields. Only the first FULL units have the modules of their
//! Python packages, which only `find` reads. Prints each directory to scan, after the number of its unit.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde::Deserialize;

#[path = "code.rs"]
mod code;

use crate::files::elf::Elf;

const MEGABYTE: u64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    about: String,
    exports: usize,
    #[serde(default)]
    packages: Vec<Package>,
    conda: Option<usize>,
    toolkit: Option<usize>,
    #[serde(default)]
    stubs: usize,
    #[serde(default)]
    loose: Vec<usize>,
    #[serde(rename = "part")]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Package {
    name: String,
    files: usize,
    directories: usize,
    modules: usize,
    compiled: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    wheel: String,
    directory: String,
    version: String,
    headers: usize,
    libraries: Vec<Library>,
}

#[derive(Deserialize)]
struct Library {
    #[serde(default)]
    code_in_megabytes: u64,
    #[serde(default)]
    constants_in_megabytes: u64,
    #[serde(flatten)]
    elf: Elf,
}

/// The files made so far, for the `RECORD` of a distribution.
struct Record {
    site: PathBuf,
    /// An empty file, of which every file of no interest is another name, as `uv` makes them of its cache: to make as
    /// many files takes minutes, and `find` does not see the difference.
    empty: PathBuf,
    lines: String,
}

pub fn run(arguments: &[String]) {
    let [file, directory, units, full @ ..] = arguments else {
        panic!("machine FILE DIRECTORY UNITS [FULL]")
    };
    let machine: Description = toml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert!(!machine.about.is_empty());
    let units: usize = units.parse().unwrap();
    let full = full.first().map_or(units, |full| full.parse().unwrap());
    for unit in 1..=units {
        for root in machine.unit(Path::new(directory), unit, unit <= full) {
            println!("{unit}\t{}", root.display());
        }
    }
}

impl Description {
    fn unit(&self, directory: &Path, unit: usize, is_full: bool) -> Vec<PathBuf> {
        let environment = directory.join(format!("home/projects/p{unit:03}/.venv"));
        self.environment(&environment, unit, is_full);
        let mut roots = vec![environment];
        if let Some(packages) = self.conda {
            let root = directory.join(format!("home/miniconda3/envs/e{unit:03}"));
            self.versioned(&root.join("lib"), packages);
            for number in 0..packages {
                write(
                    &root.join(format!("conda-meta/package{number}-1.0-0.json")),
                    b"{}",
                );
            }
            roots.push(root);
        }
        if let Some(others) = self.toolkit {
            let root = directory.join(format!("opt/cuda-{unit:03}"));
            let libraries = root.join("targets/x86_64-linux/lib");
            self.versioned(&libraries, others);
            symlink("targets/x86_64-linux/lib", root.join("lib64")).unwrap();
            for library in self
                .parts
                .iter()
                .take(self.stubs)
                .flat_map(|part| &part.libraries)
            {
                let name = format!("stubs/{}.so", library.stem());
                library.write(&libraries.join(name), self.exports);
            }
            for number in 0..self.parts.iter().map(|part| part.headers).sum() {
                write(
                    &root.join(format!("targets/x86_64-linux/include/h{number}.h")),
                    b"",
                );
            }
            roots.push(root);
        }
        for (number, parts) in self.loose.iter().enumerate() {
            let root = directory.join(format!("data/copied{unit:03}/lib{number}"));
            for library in self
                .parts
                .iter()
                .cycle()
                .skip(number)
                .take(*parts)
                .flat_map(|part| &part.libraries)
            {
                library.write(&root.join(library.soname()), self.exports);
            }
            roots.push(root);
        }
        roots
    }

    /// A virtual environment with the wheels of each part, and other packages.
    fn environment(&self, root: &Path, unit: usize, is_full: bool) {
        write(
            &root.join("pyvenv.cfg"),
            b"home = /usr/bin\nversion_info = 3.12.3\n",
        );
        let site = root.join("lib/python3.12/site-packages");
        for part in &self.parts {
            let directory = match unit % 2 {
                0 => "nvidia/cu13".to_owned(),
                _ => format!("nvidia/{}", part.directory),
            };
            let mut record = Record::new(&site);
            for number in 0..part.headers {
                record.file(
                    &format!("{directory}/include/{}{number}.h", part.directory),
                    true,
                );
            }
            for library in &part.libraries {
                let path = format!("{directory}/lib/{}", library.soname());
                let size = library.write(&site.join(&path), self.exports);
                record.line(&path, size);
            }
            record.finish(&format!("{}-{}", part.wheel, part.version));
        }
        for package in &self.packages {
            package.install(&site, is_full);
        }
    }

    /// Libraries with their versions in their names, and links to them, among other files.
    fn versioned(&self, directory: &Path, others: usize) {
        for part in &self.parts {
            for library in &part.libraries {
                let bare = format!("{}.so", library.stem());
                let file = format!("{bare}.{}", part.version);
                library.write(&directory.join(&file), self.exports);
                symlink(&file, directory.join(library.soname())).unwrap();
                if library.soname() != bare {
                    symlink(library.soname(), directory.join(bare)).unwrap();
                }
            }
        }
        for number in 0..others {
            write(&directory.join(format!("libother{number}.so.1")), b"");
        }
    }
}

impl Package {
    fn install(&self, site: &Path, is_full: bool) {
        let (name, _) = self.name.split_once('-').unwrap();
        let directory = |number: usize| {
            let (mut path, mut number) = (String::new(), number);
            while number > 0 {
                path.insert_str(0, &format!("/part{number}"));
                number /= 8;
            }
            format!("{name}{path}")
        };
        let mut record = Record::new(site);
        for number in 0..self.modules {
            let directory = directory(number % self.compiled);
            record.file(&format!("{directory}/module{number}.py"), is_full);
            record.file(
                &format!("{directory}/__pycache__/module{number}.cpython-312.pyc"),
                is_full,
            );
        }
        for number in 0..self.files - self.modules {
            let directory = directory(number % self.directories);
            record.file(
                &format!("{directory}/implementation_of_{number}.h"),
                is_full,
            );
        }
        record.finish(&self.name);
    }
}

impl Library {
    fn soname(&self) -> &str {
        self.elf.soname.as_deref().unwrap()
    }

    fn stem(&self) -> &str {
        self.soname().split(".so").next().unwrap()
    }

    /// Writes it, and says how large it is.
    fn write(&self, path: &Path, exports: usize) -> u64 {
        let mut elf = self.elf.clone();
        elf.exports = (0..exports)
            .map(|number| format!("{}Function{number}", self.stem()))
            .collect();
        let bytes = elf.build().unwrap();
        let size = bytes.len() as u64;
        write(path, &bytes);
        match (
            self.constants_in_megabytes * MEGABYTE,
            self.code_in_megabytes * MEGABYTE,
        ) {
            (0, 0) => size,
            (constants, code) => code::add(path, &bytes, constants, code),
        }
    }
}

impl Record {
    fn new(site: &Path) -> Record {
        let empty = site.join("empty");
        write(&empty, b"");
        Record {
            site: site.to_owned(),
            empty,
            lines: String::new(),
        }
    }

    fn line(&mut self, path: &str, size: u64) {
        const HASH: &str = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";
        writeln!(self.lines, "{path},{HASH},{size}").unwrap();
    }

    /// A file of no interest.
    fn file(&mut self, path: &str, is_made: bool) {
        self.line(path, 0);
        let path = self.site.join(path);
        if is_made && fs::hard_link(&self.empty, &path).is_err() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::hard_link(&self.empty, &path).unwrap();
        }
    }

    fn finish(mut self, distribution: &str) {
        let (name, version) = distribution.split_once('-').unwrap();
        let info = format!("{distribution}.dist-info");
        let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
        for (file, text) in [
            ("METADATA", metadata.as_str()),
            ("WHEEL", ""),
            ("INSTALLER", "pip\n"),
        ] {
            let path = format!("{info}/{file}");
            self.line(&path, text.len() as u64);
            write(&self.site.join(path), text.as_bytes());
        }
        write(
            &self.site.join(format!("{info}/RECORD")),
            self.lines.as_bytes(),
        );
    }
}

fn write(path: &Path, bytes: &[u8]) {
    if fs::write(path, bytes).is_err() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}
