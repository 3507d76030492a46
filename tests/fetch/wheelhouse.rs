//! A directory of small wheels with a table of them, programs that need their libraries, and a home with a store.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use rawzip::path::EntryPath;
use rawzip::{CompressionMethod, ZipArchiveWriter};
use sha2::{Digest, Sha256};

use crate::support::{CUDARUN, Run, Workshop, copy_program, lacks, skipped};

const CUDART: &str = "int cudaRuntimeGetVersion(int *version) { *version = 12040; return 0; }";
const CURAND: &str = "int curandGetVersion(int *version) { *version = 10305; return 0; }";
const NEEDS_CUDART: &str = r#"
#include <stdio.h>
int cudaRuntimeGetVersion(int *);
int main(void)
{
    int version = 0;
    cudaRuntimeGetVersion(&version);
    printf("cudart %d\n", version);
    return 0;
}
"#;
const NEEDS_BOTH: &str = r#"
#include <stdio.h>
int cudaRuntimeGetVersion(int *);
int curandGetVersion(int *);
int main(void)
{
    int first = 0, second = 0;
    cudaRuntimeGetVersion(&first);
    curandGetVersion(&second);
    printf("cudart %d, curand %d\n", first, second);
    return 0;
}
"#;
const OPENS_CUDART: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words)
{
    int version = 0;
    void *library = dlopen("libcudart.so.12", RTLD_NOW);
    if (!library)
        return fprintf(stderr, "%s\n", dlerror()), 1;
    ((int (*)(int *))dlsym(library, "cudaRuntimeGetVersion"))(&version);
    printf("opened %d\n", version);
    fflush(stdout);
    sleep(count > 1 ? atoi(words[1]) : 0);
    return 0;
}
"#;

/// Compiled once for all tests.
pub struct Built {
    workshop: Workshop,
}

pub static BUILT: LazyLock<Built> = LazyLock::new(|| {
    let workshop = Workshop::new();
    let stubs = format!("-L{}", workshop.path("").display());
    for (soname, source) in [("libcudart.so.12", CUDART), ("libcurand.so.10", CURAND)] {
        workshop.library(soname, soname, source, &[]);
    }
    let (cudart, curand) = ("-l:libcudart.so.12", "-l:libcurand.so.10");
    workshop.compile("needs-cudart", NEEDS_CUDART, &[&stubs, cudart]);
    workshop.compile("needs-both", NEEDS_BOTH, &[&stubs, cudart, curand]);
    workshop.compile("opens-cudart", OPENS_CUDART, &[]);
    Built { workshop }
});

impl Built {
    pub fn path(&self, name: &str) -> PathBuf {
        self.workshop.path(name)
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }
}

/// A file of an archive.
#[derive(Clone)]
pub struct Packed {
    pub name: Vec<u8>,
    pub bytes: Vec<u8>,
    pub mode: u32,
    pub is_deflated: bool,
}

impl Packed {
    pub fn new(name: impl AsRef<[u8]>, bytes: impl AsRef<[u8]>) -> Packed {
        Packed {
            name: name.as_ref().to_vec(),
            bytes: bytes.as_ref().to_vec(),
            mode: 0o100_644,
            is_deflated: true,
        }
    }
}

/// A release of one distribution.
#[derive(Clone)]
pub struct TestWheel {
    pub family: &'static str,
    pub distribution: &'static str,
    pub version: &'static str,
    pub directory: &'static str,
    pub soname: &'static str,
    pub files: Vec<Packed>,
}

pub fn cudart() -> TestWheel {
    TestWheel::new(
        "cudart",
        "nvidia-cuda-runtime-cu12",
        "12.4.127",
        "cuda_runtime",
        "libcudart.so.12",
    )
}

pub fn newer_cudart() -> TestWheel {
    TestWheel::new(
        "cudart",
        "nvidia-cuda-runtime-cu12",
        "12.9.79",
        "cuda_runtime",
        "libcudart.so.12",
    )
}

pub fn curand() -> TestWheel {
    TestWheel::new(
        "curand",
        "nvidia-curand-cu12",
        "10.3.5.147",
        "curand",
        "libcurand.so.10",
    )
}

/// A wheel with these files, for a table of toolkits.
pub fn part_of_toolkit(
    distribution: &'static str,
    version: &'static str,
    files: Vec<Packed>,
) -> TestWheel {
    TestWheel {
        family: "",
        distribution,
        version,
        directory: "cu13",
        soname: "",
        files,
    }
    .with_information()
}

impl TestWheel {
    fn new(
        family: &'static str,
        distribution: &'static str,
        version: &'static str,
        directory: &'static str,
        soname: &'static str,
    ) -> TestWheel {
        let library = Packed::new(
            format!("nvidia/{directory}/lib/{soname}"),
            BUILT.bytes(soname),
        );
        let module = Packed::new(format!("nvidia/{directory}/__init__.py"), "");
        TestWheel {
            family,
            distribution,
            version,
            directory,
            soname,
            files: vec![module, library],
        }
        .with_information()
    }

    fn dist_info(&self, name: &str) -> String {
        format!(
            "{}-{}.dist-info/{name}",
            self.distribution.replace('-', "_"),
            self.version
        )
    }

    fn with_information(mut self) -> TestWheel {
        let (distribution, version) = (self.distribution, self.version);
        let metadata = format!("Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n");
        let wheel = format!(
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-{}\n",
            tag()
        );
        self.files
            .push(Packed::new(self.dist_info("METADATA"), metadata));
        self.files.push(Packed::new(self.dist_info("WHEEL"), wheel));
        self.files.push(Packed::new(
            self.dist_info("License.txt"),
            "NVIDIA's licence\n",
        ));
        self.recorded()
    }

    /// With another file, which RECORD knows.
    pub fn with(mut self, file: Packed) -> TestWheel {
        self.files.push(file);
        self.recorded()
    }

    /// With another file, of which RECORD says nothing.
    pub fn with_unrecorded(mut self, file: Packed) -> TestWheel {
        self.files.push(file);
        self
    }

    /// Writes RECORD anew.
    pub fn recorded(mut self) -> TestWheel {
        let name = self.dist_info("RECORD");
        self.files.retain(|file| file.name != name.as_bytes());
        let line = |file: &Packed| {
            let name = String::from_utf8_lossy(&file.name).into_owned();
            format!(
                "{name},sha256={},{}\n",
                base64(&Sha256::digest(&file.bytes)),
                file.bytes.len()
            )
        };
        let lines: String = self.files.iter().map(line).collect();
        self.files
            .push(Packed::new(&name, format!("{lines}{name},,\n")));
        self
    }

    /// The one file whose name ends so.
    pub fn file(&mut self, end: &str) -> &mut Packed {
        self.files
            .iter_mut()
            .find(|file| file.name.ends_with(end.as_bytes()))
            .unwrap()
    }

    pub fn file_name(&self) -> String {
        format!(
            "{}-{}-py3-none-{}.whl",
            self.distribution.replace('-', "_"),
            self.version,
            tag()
        )
    }

    pub fn bytes(&self) -> Vec<u8> {
        archive(&self.files)
    }

    pub fn toolkit_row(&self, bytes: &[u8]) -> String {
        let TestWheel {
            distribution,
            version,
            ..
        } = self;
        let (tag, size, sha256) = (tag(), bytes.len(), sum(bytes));
        format!(
            "  {{ name = \"{distribution}\", version = \"{version}\", platform = \"{tag}\", size = {size}, sha256 = \"{sha256}\" }},\n"
        )
    }

    fn row(&self, bytes: &[u8]) -> String {
        let TestWheel {
            family,
            distribution,
            version,
            directory,
            soname,
            ..
        } = self;
        let (tag, size, sha256) = (tag(), bytes.len(), sum(bytes));
        format!(
            "[[wheel]]\nfamily = \"{family}\"\ncuda = 12\nname = \"{distribution}\"\nfirst = \"{version}\"\n\
             directory = \"nvidia/{directory}/lib\"\nsonames = [\"{soname}\"]\nsource = \"a test\"\n\
             date = \"2026-11-23\"\nversions = [\"{version}\"]\nfiles = [{{ version = \"{version}\", platform = \"{tag}\", size = {size}, \
             sha256 = \"{sha256}\" }}]\n\n"
        )
    }
}

fn tag() -> String {
    format!("manylinux2014_{}", std::env::consts::ARCH)
}

pub fn archive(files: &[Packed]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut archive = ZipArchiveWriter::new(&mut bytes);
    for file in files {
        let method = if file.is_deflated {
            CompressionMethod::DEFLATE
        } else {
            CompressionMethod::STORE
        };
        let entry = archive.new_file(EntryPath::verbatim(file.name.clone()));
        let (mut entry, config) = entry
            .compression_method(method)
            .unix_permissions(file.mode)
            .start()
            .unwrap();
        let descriptor = if file.is_deflated {
            let mut writer = config.wrap(DeflateEncoder::new(&mut entry, Compression::fast()));
            writer.write_all(&file.bytes).unwrap();
            let (encoder, descriptor) = writer.finish().unwrap();
            encoder.finish().unwrap();
            descriptor
        } else {
            let mut writer = config.wrap(&mut entry);
            writer.write_all(&file.bytes).unwrap();
            writer.finish().unwrap().1
        };
        entry.finish(descriptor).unwrap();
    }
    archive.finish().unwrap();
    bytes
}

pub fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// As RECORD has it, bit by bit.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |place| byte >> place & 1))
        .collect();
    let digit = |six: &[u8]| {
        (0..6).fold(0, |sum, at| {
            sum << 1 | usize::from(*six.get(at).unwrap_or(&0))
        })
    };
    bits.chunks(6)
        .map(|six| char::from(ALPHABET[digit(six)]))
        .collect()
}

/// Bytes that do not compress, and always are the same ones.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state: u64 = 88_172_645_463_325_252;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..length.div_ceil(8))
        .flat_map(|_| next())
        .take(length)
        .collect()
}

/// Wheels with their table, and a home. The name of the directory has no meaning.
pub struct Wheelhouse {
    directory: tempfile::TempDir,
}

impl Wheelhouse {
    /// With these wheels as they are.
    pub fn new(wheels: &[TestWheel]) -> Wheelhouse {
        let house = Wheelhouse {
            directory: tempfile::tempdir().unwrap(),
        };
        for directory in ["home", "wheels", "bin", "empty"] {
            fs::create_dir(house.path(directory)).unwrap();
        }
        let all: Vec<(&TestWheel, Vec<u8>)> =
            wheels.iter().map(|wheel| (wheel, wheel.bytes())).collect();
        for (wheel, bytes) in &all {
            house.put(wheel, bytes);
        }
        house.tabulate(&all);
        house
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(below)
    }

    /// Writes the table of wheels of these bytes.
    pub fn tabulate(&self, wheels: &[(&TestWheel, Vec<u8>)]) {
        let rows: String = wheels
            .iter()
            .map(|(wheel, bytes)| wheel.row(bytes))
            .collect();
        fs::write(self.path("table.toml"), rows).unwrap();
    }

    /// Writes the file of a wheel.
    pub fn put(&self, wheel: &TestWheel, bytes: &[u8]) {
        fs::write(self.path("wheels").join(wheel.file_name()), bytes).unwrap();
    }

    pub fn store(&self) -> PathBuf {
        self.path("home/.local/share/cudarun/store")
    }

    /// The whole entries of the store.
    pub fn entries(&self) -> Vec<String> {
        let names = names(&self.store());
        names.into_iter().filter(|name| name.len() == 64).collect()
    }

    /// Fails unless there is no entry, nor a part of one.
    #[track_caller]
    pub fn has_no_entry(&self) {
        let mut names = names(&self.store());
        names.retain(|name| name != ".turn" && !name.starts_with(".stage-"));
        assert!(names.is_empty(), "{names:?}");
    }

    pub fn environment(&self) -> BTreeMap<&'static str, PathBuf> {
        BTreeMap::from([
            ("HOME", self.path("home")),
            ("PATH", self.path("empty")),
            ("CUDARUN_TEST_WHEELS", self.path("table.toml")),
        ])
    }

    /// Without any client in PATH.
    pub fn run(&self, words: &[&str]) -> Run {
        let run = Run::new(words).in_directory(self.path("home"));
        self.environment()
            .into_iter()
            .fold(run, |run, (name, value)| run.env(name, value))
    }

    /// Like [`Wheelhouse::run`], to be started with others.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(CUDARUN);
        command
            .args(words)
            .env_clear()
            .envs(self.environment())
            .current_dir(self.path("home"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// `cudarun fetch --from WHEELS --yes`, and these words.
    pub fn fetch(&self, words: &[&str]) -> Run {
        let wheels = self.path("wheels");
        self.run(
            &[
                &["fetch", "--from", wheels.to_str().unwrap(), "--yes"],
                words,
            ]
            .concat(),
        )
    }

    /// Settings of the user.
    pub fn user_says(&self, text: &str) {
        let directory = self.path("home/.config/cudarun");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.toml"), text).unwrap();
    }

    /// Settings of the user that name the directory of wheels.
    pub fn user_names_wheels(&self) {
        self.user_says(&format!(
            "[fetch]\nfrom = [\"{}\"]\n",
            self.path("wheels").display()
        ));
    }

    /// The real `pip`, in `bin` alone, behind a script that counts. None where it is not here, which is said.
    pub fn pip(&self) -> Option<Pip<'_>> {
        if lacks("python3") {
            return None;
        }
        let ask = "import pip, sys; print(sys.executable)";
        let python = Command::new("python3").args(["-c", ask]).output().unwrap();
        if !python.status.success() {
            assert!(
                std::env::var_os("CUDARUN_TESTS_ALL").is_none(),
                "pip is not here"
            );
            skipped("pip is not here");
            return None;
        }
        let python = String::from_utf8(python.stdout).unwrap();
        let script = format!(
            "#!/bin/sh\necho \"$@\" >>{}\nexec {} -m pip \"$@\"\n",
            self.path("calls").display(),
            python.trim()
        );
        self.script("pip", &script);
        Some(Pip { house: self })
    }

    /// Another process writes it: one that this process has open for writing cannot be started while a thread forks.
    pub fn script(&self, name: &str, text: &str) {
        let new = self.path("script");
        fs::write(&new, text).unwrap();
        let program = self.path("bin").join(name);
        copy_program(&new, &program);
        assert!(
            Command::new("chmod")
                .arg("755")
                .arg(program)
                .status()
                .unwrap()
                .success()
        );
    }
}

/// The environment in which pip gets the wheels of a directory, and nothing from a network.
pub struct Pip<'h> {
    house: &'h Wheelhouse,
}

impl Pip<'_> {
    pub fn variables(&self) -> BTreeMap<&'static str, PathBuf> {
        BTreeMap::from([
            ("PATH", self.house.path("bin")),
            ("PIP_NO_INDEX", "1".into()),
            ("PIP_DISABLE_PIP_VERSION_CHECK", "1".into()),
            ("PIP_FIND_LINKS", self.house.path("wheels")),
        ])
    }

    pub fn run(&self, words: &[&str]) -> Run {
        self.variables()
            .into_iter()
            .fold(self.house.run(words), |run, (name, value)| {
                run.env(name, value)
            })
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.house.command(words);
        command.envs(self.variables());
        command
    }

    pub fn calls(&self) -> usize {
        fs::read_to_string(self.house.path("calls"))
            .unwrap_or_default()
            .lines()
            .count()
    }
}

/// The names in a directory, in order; none if there is no directory.
pub fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub fn app(name: &str) -> String {
    BUILT.path(name).to_str().unwrap().to_owned()
}

/// The control: the program without cudarun.
#[track_caller]
pub fn fails_alone(name: &str) {
    let output = crate::support::bare(&BUILT.path(name), &[], &BTreeMap::new());
    assert!(!output.status.success(), "{}", shown(&output));
    assert!(
        shown(&output).contains("libcudart.so.12: cannot open shared object file"),
        "{}",
        shown(&output)
    );
}

/// Standard output and standard error.
pub fn shown(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}
