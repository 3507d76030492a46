//! Shared by the tests: a run of the real binary of which everything is pinned, machines made of text,
//! libraries built by a compiler.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;
use std::time::SystemTime;

use sha2::{Digest, Sha256};

pub mod audited;
pub mod decided;
pub mod gpu_machine;
pub mod loader_cases;
pub mod machine;
pub mod parts;
pub mod solver_inputs;
pub mod stand_in;

pub const CUDARUN: &str = env!("CARGO_BIN_EXE_cudarun");

/// A run of cudarun. Unstated results must be empty: standard output, standard error, and status 0.
pub struct Run {
    command: Command,
    stdout: Expected,
    stderr: Expected,
    status: i32,
    home: tempfile::TempDir,
    root: Option<PathBuf>,
}

enum Expected {
    Exactly(String),
    Containing(Vec<String>),
    Anything,
}

impl Run {
    pub fn new<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Run {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(CUDARUN);
        command.args(arguments).env_clear().stdin(Stdio::null());
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", home.path());
        Run {
            command,
            stdout: Expected::Exactly(String::new()),
            stderr: Expected::Exactly(String::new()),
            status: 0,
            home,
            root: None,
        }
    }

    /// Under the root of a machine made of text, in its environment.
    pub fn on(machine: &machine::Machine, arguments: &[&str]) -> Run {
        let mut all: Vec<OsString> = vec!["--root".into(), machine.root().into()];
        all.extend(arguments.iter().map(OsString::from));
        let mut run = Run::new(all);
        run.command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/home/user")
            .envs(&machine.env);
        run.command.current_dir(machine.root());
        run.root = Some(machine.root().to_owned());
        run
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Run {
        self.command.env(name, value);
        self
    }

    pub fn without(mut self, name: &str) -> Run {
        self.command.env_remove(name);
        self
    }

    pub fn in_directory(mut self, directory: impl AsRef<Path>) -> Run {
        self.command.current_dir(directory);
        self
    }

    pub fn stdout(mut self, text: impl Into<String>) -> Run {
        self.stdout = Expected::Exactly(text.into());
        self
    }

    pub fn stdout_contains(mut self, parts: &[&str]) -> Run {
        self.stdout = Expected::Containing(parts.iter().map(ToString::to_string).collect());
        self
    }

    pub fn any_stdout(mut self) -> Run {
        self.stdout = Expected::Anything;
        self
    }

    pub fn stderr(mut self, text: impl Into<String>) -> Run {
        self.stderr = Expected::Exactly(text.into());
        self
    }

    pub fn stderr_contains(mut self, parts: &[&str]) -> Run {
        self.stderr = Expected::Containing(parts.iter().map(ToString::to_string).collect());
        self
    }

    pub fn any_stderr(mut self) -> Run {
        self.stderr = Expected::Anything;
        self
    }

    pub fn status(mut self, status: i32) -> Run {
        self.status = status;
        self
    }

    /// Runs. Commands to type are shown as for the machine itself, since the directory of a root differs in each run.
    fn finish(&mut self) -> Output {
        let mut output = self.command.output().unwrap();
        if output.status.code() == Some(125) && !is_verbose(&self.command) {
            must_be_short(&String::from_utf8_lossy(&output.stderr));
        }
        if let Some(root) = &self.root {
            for text in [&mut output.stdout, &mut output.stderr] {
                *text = without_root(&String::from_utf8_lossy(text), root).into_bytes();
            }
        }
        output
    }

    /// Runs, and compares what came of it with what was stated.
    #[track_caller]
    pub fn check(mut self) -> String {
        let output = self.finish();
        compare("standard output", &self.stdout, &output.stdout, &output);
        compare("standard error", &self.stderr, &output.stderr, &output);
        assert_eq!(
            output.status.code(),
            Some(self.status),
            "status\n{}",
            show(&output)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Standard output and the actual status; standard error must be empty.
    #[track_caller]
    pub fn output(mut self) -> (String, i32) {
        let output = self.finish();
        compare("standard error", &self.stderr, &output.stderr, &output);
        (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            output.status.code().unwrap(),
        )
    }

    /// Standard output, the actual status, and standard error.
    pub fn streams(mut self) -> (String, i32, String) {
        let output = self.finish();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            text(&output.stdout),
            output.status.code().unwrap(),
            text(&output.stderr),
        )
    }

    /// Standard output and then standard error; the status as stated.
    #[track_caller]
    pub fn output_of_both(mut self) -> String {
        let output = self.finish();
        assert_eq!(
            output.status.code(),
            Some(self.status),
            "status\n{}",
            show(&output)
        );
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Standard output as JSON, with the status as stated; standard error must be empty.
    #[track_caller]
    pub fn json(self) -> serde_json::Value {
        let text = self.any_stdout().check();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }
}

fn is_verbose(command: &Command) -> bool {
    command
        .get_args()
        .any(|word| word == "--verbose" || word.as_bytes().starts_with(b"-v"))
}

/// Fails for a refusal of more than eight lines. Errors of the command line end with its usage.
#[track_caller]
pub fn must_be_short(standard_error: &str) {
    let refusal = match standard_error.find("error: ") {
        Some(begin) if !standard_error.contains("\nUsage:") => &standard_error[begin..],
        _ => return,
    };
    assert!(refusal.lines().count() <= 8, "{refusal}");
}

/// Removes the option from commands of cudarun, and the line break before a command that it made too long.
pub fn without_root(text: &str, root: &Path) -> String {
    let option = format!("cudarun --root {} ", root.display());
    text.replace(&format!("\n    {option}"), " cudarun ")
        .replace(&option, "cudarun ")
}

#[track_caller]
fn compare(what: &str, expected: &Expected, got: &[u8], output: &Output) {
    let got = String::from_utf8_lossy(got);
    match expected {
        Expected::Anything => {}
        Expected::Exactly(text) => assert_eq!(got, *text, "{what}\n{}", show(output)),
        Expected::Containing(parts) => {
            for part in parts {
                assert!(
                    got.contains(part),
                    "{what} lacks `{part}`\n{}",
                    show(output)
                );
            }
        }
    }
}

fn show(output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!(
        "{}\n--- standard output\n{out}\n--- standard error\n{err}",
        output.status
    )
}

/// Says so where the test runner does not hide it.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// True if a program is not here, and so the test is skipped. In CI it must be here.
pub fn lacks(program: &str) -> bool {
    let is_here = which::which(program).is_ok();
    assert!(
        is_here || std::env::var_os("CUDARUN_TESTS_ALL").is_none(),
        "{program} is not here"
    );
    if !is_here {
        skipped(&format!("{program} is not here"));
    }
    !is_here
}

/// True if this process has the rights of root. In CI it must have them.
pub fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    assert!(
        is_root || std::env::var_os("CUDARUN_TESTS_ALL").is_none(),
        "not root"
    );
    is_root
}

/// A directory in which C is compiled: shared libraries and programs for the real loader.
pub struct Workshop {
    pub directory: tempfile::TempDir,
}

impl Workshop {
    pub fn new() -> Workshop {
        Workshop {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    pub fn write(&self, below: &str, text: &str) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// Compiles C from a string; the flags decide what it becomes. The result is kept and copied from then on, unless
    /// source or flags name a temporary file.
    #[track_caller]
    pub fn compile(&self, below: &str, source: &str, flags: &[&str]) -> PathBuf {
        let path = self.path(below);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let temporary = std::env::temp_dir();
        let temporary = temporary.to_str().unwrap();
        if source.contains(temporary) || flags.iter().any(|flag| flag.contains(temporary)) {
            compile(source, flags, &path);
            return path;
        }
        let key = Sha256::digest(format!("{source}\0{}\0{:?}", flags.join("\0"), *COMPILER));
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(key);
        if !kept.exists() {
            let new = kept.with_extension(format!(
                "{}-{:?}",
                std::process::id(),
                std::thread::current().id()
            ));
            compile(source, flags, &new);
            fs::rename(new, &kept).unwrap();
        }
        copy_program(&kept, &path);
        path
    }

    /// A shared library of this SONAME.
    #[track_caller]
    pub fn library(&self, below: &str, soname: &str, source: &str, flags: &[&str]) -> PathBuf {
        let soname = format!("-Wl,-soname,{soname}");
        let mut all = vec!["-shared", "-fPIC", &soname];
        all.extend(flags);
        self.compile(below, source, &all)
    }
}

/// The compiler's own file and when it was changed: with another one, everything is compiled again.
static COMPILER: LazyLock<(PathBuf, SystemTime)> = LazyLock::new(|| {
    let path = std::env::var_os("PATH").unwrap();
    let mut files = std::env::split_paths(&path)
        .filter_map(|directory| directory.join("cc").canonicalize().ok());
    let file = files.next().expect("the tests need a C compiler");
    let changed = fs::metadata(&file).unwrap().modified().unwrap();
    (file, changed)
});

#[track_caller]
fn compile(source: &str, flags: &[&str], path: &Path) {
    let unit = path.with_added_extension("c");
    fs::write(&unit, source).unwrap();
    let mut command = Command::new("cc");
    command
        .arg("-o")
        .arg(path)
        .arg(&unit)
        .args(flags)
        .args(["-ldl", "-lm"]);
    let output = command.output().unwrap();
    fs::remove_file(unit).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Installations a program by another process: one that this process has open for writing cannot be started while a thread of
/// it forks.
#[track_caller]
pub fn copy_program(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    assert!(
        Command::new("cp")
            .arg(from.as_ref())
            .arg(to.as_ref())
            .status()
            .unwrap()
            .success()
    );
}

/// Runs a program without cudarun, for the control.
pub fn bare(program: &Path, arguments: &[&str], env: &BTreeMap<&str, String>) -> Output {
    Command::new(program)
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(env)
        .output()
        .unwrap()
}
