//! The second start of the same thing: nothing is scanned and nothing is solved, and nothing stale is used.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use cudarun::environment::{Diff, Environment};
use cudarun::host::Host;
use cudarun::kept;
use cudarun::kept::start_key;
use cudarun::launch::Exec;
use cudarun::program::{self, Command};

use crate::support::{CUDARUN, Run, Workshop};

fn command(words: &[&str]) -> Command {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    Command {
        program: words[0].clone(),
        arguments: words[1..].to_vec(),
    }
}

/// Older than the host that looks at them.
fn settle() {
    std::thread::sleep(Duration::from_millis(60));
}

struct Kept {
    directory: tempfile::TempDir,
    watched: PathBuf,
    /// Not read, and only where it is matters.
    located: PathBuf,
    command: Command,
    program: PathBuf,
    exec: Exec,
}

impl Kept {
    fn new() -> Kept {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let watched = directory.path().join("watched");
        let located = directory.path().join("located");
        fs::write(&watched, "one").unwrap();
        fs::write(&located, "one").unwrap();
        settle();
        let command = command(&["true", "x"]);
        let program = PathBuf::from("/usr/bin/true");
        let exec = Exec {
            program: program.clone(),
            argv0: "true".into(),
            arguments: vec!["x".into()],
            diff: Diff(
                [
                    ("LD_LIBRARY_PATH".into(), Some("/view".into())),
                    ("LD_PRELOAD".into(), None),
                ]
                .into(),
            ),
        };
        let kept = Kept {
            directory,
            watched,
            located,
            command,
            program,
            exec,
        };
        let watched: BTreeSet<PathBuf> = [
            kept.watched.clone(),
            kept.directory.path().join("absent"),
            "/proc/version".into(),
            "/dev/null".into(),
        ]
        .into();
        let host = Host::here();
        let key = start_key(&host, &kept.program, &kept.command, false).unwrap();
        let located: BTreeSet<PathBuf> =
            [kept.located.clone(), kept.directory.path().join("nowhere")].into();
        kept::keep_start(
            &host,
            kept.directory.path(),
            &key,
            &kept.exec.diff,
            &watched,
            &located,
            &[],
        );
        kept
    }

    fn find(&self) -> Option<Diff> {
        let host = Host::here();
        let key = start_key(&host, &self.program, &self.command, false)?;
        kept::find_start(&host, [self.directory.path().to_owned()], &key)
    }

    fn file(&self) -> PathBuf {
        let starts = self.directory.path().join("starts");
        fs::read_dir(starts)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .path()
    }
}

#[test]
fn a_start_is_found_as_it_was_kept() {
    let kept = Kept::new();
    assert_eq!(kept.find(), Some(kept.exec.diff.clone()));
    assert_eq!(
        fs::metadata(kept.file()).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

/// So that a start which is worked out notes the wheels that it uses once in 30 days.
#[test]
fn an_old_start_is_worked_out_again() {
    let kept = Kept::new();
    let age = |days: u64| {
        let then = SystemTime::now() - Duration::from_hours(24 * days);
        let file = fs::File::open(kept.file()).unwrap();
        file.set_modified(then).unwrap();
    };
    age(29);
    assert_eq!(kept.find(), Some(kept.exec.diff.clone()), "the control");
    age(31);
    assert_eq!(kept.find(), None);
}

#[test]
fn any_change_falsifies_a_kept_start() {
    let kept = Kept::new();
    fs::write(&kept.watched, "two").unwrap();
    assert_eq!(kept.find(), None, "a file that was read");
    let kept = Kept::new();
    fs::write(kept.directory.path().join("absent"), "").unwrap();
    assert_eq!(kept.find(), None, "a file that was not there");
    let kept = Kept::new();
    fs::remove_file(&kept.watched).unwrap();
    assert_eq!(kept.find(), None, "a file that is gone");
}

#[test]
fn only_the_identity_of_located_files_matters() {
    let kept = Kept::new();
    fs::write(&kept.located, "another content").unwrap();
    assert_eq!(kept.find(), Some(kept.exec.diff.clone()), "the control");
    let another = kept.directory.path().join("another");
    fs::write(&another, "one").unwrap();
    fs::rename(another, &kept.located).unwrap();
    assert_eq!(kept.find(), None, "another file of that name");
    let kept = Kept::new();
    fs::write(kept.directory.path().join("nowhere"), "").unwrap();
    assert_eq!(kept.find(), None, "a file that was not there");
}

/// Device nodes are touched by being used; a library in `/dev/shm` is a file.
#[test]
fn a_file_below_dev_is_watched_like_any_other() {
    let shared = tempfile::tempdir_in("/dev/shm").unwrap();
    let library = shared.path().join("libnccl.so.2");
    fs::write(&library, "one").unwrap();
    settle();
    let kept = Kept::new();
    let host = Host::here();
    let key = start_key(&host, &kept.program, &kept.command, false).unwrap();
    let watched = [library.clone(), "/dev/null".into()].into();
    kept::keep_start(
        &host,
        kept.directory.path(),
        &key,
        &kept.exec.diff,
        &watched,
        &BTreeSet::new(),
        &[],
    );
    fs::write("/dev/null", "used").unwrap();
    assert_eq!(kept.find(), Some(kept.exec.diff.clone()), "the control");
    fs::write(&library, "another").unwrap();
    assert_eq!(kept.find(), None);
}

#[test]
fn entries_that_other_users_can_write_are_not_used() {
    let kept = Kept::new();
    fs::set_permissions(kept.file(), fs::Permissions::from_mode(0o622)).unwrap();
    assert_eq!(kept.find(), None);
    let kept = Kept::new();
    fs::set_permissions(
        kept.file().parent().unwrap(),
        fs::Permissions::from_mode(0o777),
    )
    .unwrap();
    assert_eq!(kept.find(), None);
}

#[test]
fn a_damaged_entry_is_no_entry() {
    let kept = Kept::new();
    let whole = fs::read(kept.file()).unwrap();
    for length in 0..whole.len() {
        fs::write(kept.file(), &whole[..length]).unwrap();
        assert_eq!(kept.find(), None, "cut at {length} of {}", whole.len());
    }
    for index in 0..whole.len() {
        let mut bad = whole.clone();
        bad[index] ^= 0x55;
        fs::write(kept.file(), &bad).unwrap();
        let _ = kept.find();
    }
    fs::write(kept.file(), &whole).unwrap();
    assert_eq!(kept.find(), Some(kept.exec.diff.clone()));
}

#[test]
fn a_start_whose_inputs_change_meanwhile_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let host = Host::here();
    let watched = directory.path().join("watched");
    fs::write(&watched, "just now").unwrap();
    let command = command(&["true"]);
    let program = Path::new("/usr/bin/true");
    let key = start_key(&host, program, &command, false).unwrap();
    let exec = cudarun::launch::unchanged(program, &command);
    let none = BTreeSet::new();
    kept::keep_start(
        &host,
        directory.path(),
        &key,
        &exec.diff,
        &[watched.clone()].into(),
        &none,
        &[],
    );
    let find = || kept::find_start(&host, [directory.path().to_owned()], &key);
    assert_eq!(find(), None);
    // But for our own view, which has changed because we have just published it.
    kept::keep_start(
        &host,
        directory.path(),
        &key,
        &exec.diff,
        &none,
        &none,
        &[&watched],
    );
    assert_eq!(find(), Some(exec.diff.clone()));
    fs::remove_file(&watched).unwrap();
    assert_eq!(find(), None, "the view is gone");
}

/// A warm start asks the file system a few dozen times, however much is installed.
#[test]
fn a_warm_start_costs_a_few_dozen_questions() {
    let workshop = Workshop::new();
    let host = Host::here();
    let command = command(&["true"]);
    let program = program::locate(&host, &command.program).unwrap();
    let read = program::read(&host, &command, &[]).unwrap().0;
    let cold = host.operations();
    let key = start_key(&host, &program, &command, false).unwrap();
    fs::set_permissions(workshop.path(""), fs::Permissions::from_mode(0o700)).unwrap();
    kept::keep_start(
        &host,
        &workshop.path(""),
        &key,
        &cudarun::launch::unchanged(&program, &command).diff,
        &read.watched,
        &BTreeSet::new(),
        &[],
    );
    let before = host.operations();
    assert!(kept::find_start(&host, [workshop.path("")], &key).is_some());
    let warm = host.operations() - before;
    assert!(warm <= 40, "{warm} operations warm, {cold} cold");
}

#[test]
fn arguments_count_only_where_they_decide() {
    let host = Host::here();
    let key = |words: &[&str]| {
        let program = Path::new("/nowhere").join(words[0]);
        format!(
            "{:?}",
            start_key(&host, &program, &command(words), false).unwrap()
        )
    };
    assert_eq!(key(&["true", "a"]), key(&["true", "b"]));
    assert_eq!(
        key(&["python3", "train.py", "--lr", "1"]),
        key(&["python3", "train.py", "--lr", "2"])
    );
    assert_ne!(key(&["python3", "train.py"]), key(&["python3", "test.py"]));
    assert_ne!(
        key(&["python3", "-c", "import torch"]),
        key(&["python3", "-c", "import jax"])
    );
}

/// `mypy -> python3` runs what its arguments say, like any Python.
#[test]
fn a_link_to_python_is_python() {
    let workshop = Workshop::new();
    let host = Host::here();
    let python = workshop.write("real/python3.11", "");
    let link = |name: &str, to: &Path| {
        let path = workshop.path(name);
        std::os::unix::fs::symlink(to, &path).unwrap();
        path
    };
    let (tool, other) = (
        link("mypy", &link("python3", &python)),
        link("other", &workshop.write("tool", "")),
    );
    let key = |program: &Path, word: &str| {
        format!(
            "{:?}",
            start_key(&host, program, &command(&["x", word]), false).unwrap()
        )
    };
    assert_ne!(key(&tool, "a.py"), key(&tool, "b.py"));
    assert_eq!(key(&other, "a.py"), key(&other, "b.py"), "the control");
}

/// The current directory decides where a relative path leads, and what a shim starts.
#[test]
fn the_current_directory_counts_where_something_is_looked_up_from_it() {
    const LISTS: [&str; 6] = [
        "PATH",
        "PYTHONPATH",
        "LD_PRELOAD",
        "CUDA_HOME",
        "CUDA_PATH",
        "LD_LIBRARY_PATH",
    ];
    let key = |program: &str, name: &str, value: &str, cwd: &str| {
        let mut host = Host::here();
        let inherited = std::mem::take(&mut host.env);
        let is_list =
            |name: &std::ffi::OsStr| name.to_str().is_none_or(|name| LISTS.contains(&name));
        host.env = inherited
            .iter()
            .filter(|(name, _)| !is_list(name))
            .collect();
        host.env.set(name, value);
        host.cwd = cwd.into();
        format!(
            "{:?}",
            start_key(&host, Path::new(program), &command(&["x"]), false).unwrap()
        )
    };
    let counts = |program: &str, name: &str, value: &str| {
        key(program, name, value, "/a") != key(program, name, value, "/b")
    };
    for name in LISTS {
        assert!(!counts("/bin/x", name, "/usr/bin"), "{name}");
        assert!(counts("/bin/x", name, "usr/bin"), "{name}");
        assert_eq!(counts("/bin/x", name, ""), name == "PATH", "{name}");
        let empty = if name == "LD_PRELOAD" {
            "/a  /b"
        } else {
            "/a::/b"
        };
        assert_eq!(
            counts("/bin/x", name, empty),
            !name.starts_with("CUDA"),
            "{name}"
        );
    }
    assert!(counts("/home/me/.pyenv/shims/x", "PATH", "/usr/bin"));
}

/// A program, two places with the library that it needs, and a home of its own.
pub struct Two {
    pub workshop: Workshop,
    pub home: tempfile::TempDir,
    pub program: PathBuf,
    pub path: String,
}

impl Two {
    pub fn new() -> Two {
        let workshop = Workshop::new();
        let library = |below: &str| {
            workshop.library(below, "libnccl.so.2", "int nccl(void) { return 1; }", &[])
        };
        let (first, _second) = (library("a/libnccl.so.2"), library("b/libnccl.so.2"));
        let source = "int nccl(void); int main(void) { return nccl() - 1; }";
        let program = workshop.compile("program", source, &[first.to_str().unwrap()]);
        let path = format!(
            "{}:{}",
            workshop.path("a").display(),
            workshop.path("b").display()
        );
        settle();
        Two {
            program,
            path,
            workshop,
            home: tempfile::tempdir().unwrap(),
        }
    }

    pub fn run(&self) -> Run {
        Run::new([&self.program])
            .env("HOME", self.home.path())
            .env("LD_LIBRARY_PATH", &self.path)
    }

    pub fn views(&self) -> Vec<PathBuf> {
        let views = fs::read_dir(self.home.path().join(".cache/cudarun/views")).unwrap();
        views.map(|entry| entry.unwrap().path()).collect()
    }

    /// A start that is worked out tries whether it can write here; a warm one touches nothing.
    pub fn is_warm(&self, run: Run) -> bool {
        let touched = || {
            let directory = fs::metadata(self.home.path().join(".cache/cudarun")).unwrap();
            (
                directory.modified().unwrap(),
                directory.permissions().mode(),
            )
        };
        let before = touched();
        settle();
        run.check();
        touched() == before
    }
}

#[test]
fn the_second_start_is_warm() {
    let two = Two::new();
    two.run().check();
    assert!(two.is_warm(two.run()));
    assert!(
        !two.is_warm(two.run().env("CUDA_HOME", "/nowhere")),
        "the control"
    );
}

#[test]
fn a_time_in_the_future_tells_of_no_change() {
    let two = Two::new();
    let library = fs::File::open(two.workshop.path("a/libnccl.so.2")).unwrap();
    library
        .set_modified(SystemTime::now() + Duration::from_hours(24))
        .unwrap();
    settle();
    two.run().check();
    assert!(two.is_warm(two.run()));
}

#[test]
fn a_start_says_why_it_is_not_kept() {
    let two = Two::new();
    let said = || {
        let mut all = vec![OsString::from("-v")];
        all.push(two.program.clone().into());
        let run = Run::new(all)
            .env("HOME", two.home.path())
            .env("LD_LIBRARY_PATH", &two.path);
        run.output_of_both()
    };
    let library = two.workshop.path("a/libnccl.so.2");
    let ended = AtomicBool::new(false);
    let while_it_changes = thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..30_000 {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let permissions = fs::metadata(&library).unwrap().permissions();
                fs::set_permissions(&library, permissions).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        let said = said();
        ended.store(true, Ordering::Relaxed);
        said
    });
    let line = format!(
        "this decision is not kept: `{}` changed meanwhile",
        library.display()
    );
    assert!(while_it_changes.contains(&line), "{while_it_changes}");
    settle();
    let after = said();
    assert!(!after.contains("not kept"), "the control: {after}");
}

/// Started by a program that was itself started with the view, there is no change left to make.
#[test]
fn a_view_that_was_inherited_is_watched_as_well() {
    let two = Two::new();
    let run = || two.run().env("CUDARUN_PIN_MODE", "view");
    run().check();
    let view = two.views().remove(0);
    let path = format!("{}:{}", view.display(), two.path);
    let nested = || {
        run()
            .env("CUDARUN_VIEW", &view)
            .env("LD_LIBRARY_PATH", &path)
    };
    nested().check();
    assert!(two.is_warm(nested()), "the control");
    fs::remove_file(view.join("libnccl.so.2")).unwrap();
    nested().check();
    assert!(view.join("libnccl.so.2").is_symlink(), "it is whole again");
}

/// An installation that was passed over may be the better one once it is mended, and its directory does not show that.
#[test]
fn a_rejected_installation_is_watched_as_well() {
    let two = Two::new();
    let first = two.workshop.path("a/libnccl.so.2");
    let mode = |mode| fs::set_permissions(&first, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o777);
    settle();
    two.run().check();
    assert!(two.is_warm(two.run()), "the control");
    assert_eq!(two.views().len(), 1);
    mode(0o755);
    two.run().check();
    assert_eq!(two.views().len(), 2, "a view of the first installation");
}

/// A skipped file may appear: the directory of a dangling link does not show it.
#[test]
fn causes_of_warnings_are_watched_as_well() {
    let two = Two::new();
    let (link, file) = (
        two.workshop.path("a/libnccl.so.2"),
        two.workshop.path("libnccl.so.2.1.0"),
    );
    fs::rename(&link, &file).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let aside = two.workshop.path("aside");
    fs::rename(&file, &aside).unwrap();
    settle();
    two.run().check();
    assert!(two.is_warm(two.run()), "the control");
    assert_eq!(two.views().len(), 1);
    fs::rename(&aside, &file).unwrap();
    two.run().check();
    assert_eq!(
        two.views().len(),
        2,
        "a view of the installation that the link leads to"
    );
}

#[test]
fn paths_in_variables_are_watched_as_written() {
    let mut host = Host::here();
    host.env.set("CUDA_HOME", "/no/such/toolkit");
    let inventory = cudarun::inventory::scan(
        &host,
        &cudarun::inventory::Scope::default(),
        &mut cudarun::inventory::ScanCache::default(),
    );
    assert!(inventory.watched.contains(Path::new("/no/such/toolkit")));
}

#[test]
fn the_kernels_facts_about_each_gpu_are_watched() {
    let machine = crate::support::machine::Machine::load("nothing");
    let gpu = "/proc/driver/nvidia/gpus/0000:01:00.0/information";
    let scan = || {
        let host = Host::at(machine.root(), Environment::default(), "/".into()).unwrap();
        cudarun::inventory::scan(
            &host,
            &cudarun::inventory::Scope::default(),
            &mut cudarun::inventory::ScanCache::default(),
        )
        .watched
    };
    assert!(!scan().contains(Path::new(gpu)), "the control");
    fs::create_dir_all(machine.real(gpu).parent().unwrap()).unwrap();
    fs::write(machine.real(gpu), "Model: \t NVIDIA H200\n").unwrap();
    assert!(scan().contains(Path::new(gpu)));
}

#[test]
fn necessary_warnings_are_printed_at_every_start() {
    let workshop = Workshop::new();
    let home = tempfile::tempdir().unwrap();
    let script = |below: &str, text: &str| {
        let path = workshop.write(below, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let shim = script(
        "root/shims/tool",
        "#!/bin/sh\n# exec pyenv\" exec\nexit 3\n",
    );
    settle();
    let run = || {
        Run::new([&shim])
            .env("HOME", home.path())
            .env("PYENV_VERSION", "9.9")
            .status(3)
    };
    let starts =
        || fs::read_dir(home.path().join(".cache/cudarun/starts")).map_or(0, Iterator::count);
    for _ in 0..3 {
        run()
            .stderr_contains(&["a pyenv shim for a version that is not installed"])
            .check();
    }
    assert_eq!(starts(), 0);
    fs::create_dir_all(workshop.path("root/versions/9.9/bin")).unwrap();
    crate::support::copy_program("/bin/true", workshop.path("root/versions/9.9/bin/tool"));
    settle();
    run().check();
    assert_eq!(starts(), 1, "the control");
}

#[test]
fn a_library_that_is_gone_is_not_planned_for_again() {
    let two = Two::new();
    for _cold_then_warm in 0..2 {
        two.run().check();
        assert_eq!(two.views().len(), 1);
    }
    fs::remove_file(two.workshop.path("a/libnccl.so.2")).unwrap();
    two.run().check();
    assert_eq!(
        two.views().len(),
        2,
        "the other installation, in a view of its own"
    );
}

#[test]
fn a_program_without_needs_starts_without_a_writable_directory() {
    for _ in 0..2 {
        Run::new(["echo", "started"])
            .env("HOME", "/proc/nowhere")
            .stdout("started\n")
            .check();
    }
}

#[test]
fn the_names_that_cudarun_knows_are_no_needs_of_its_own() {
    let explained = Run::new(["explain", "--json", CUDARUN, "true"]).json();
    assert_eq!(
        explained["program"]["requirements"]
            .as_array()
            .unwrap()
            .len(),
        0,
        "{explained}"
    );
}

#[test]
fn packages_that_come_to_a_directory_on_the_python_path_are_seen() {
    let workshop = Workshop::new();
    let home = tempfile::tempdir().unwrap();
    let packages = workshop.path("packages");
    fs::create_dir(&packages).unwrap();
    workshop.library(
        "lib/libcudart.so.12",
        "libcudart.so.12",
        "int cudaFree(void) { return 0; }",
        &[],
    );
    settle();
    let has_view = || {
        // Code that cannot be read may import any of them.
        let code = "import os; exec(''); print('CUDARUN_VIEW' in os.environ)";
        let run = Run::new(["python3", "-c", code])
            .env("HOME", home.path())
            .env("PYTHONPATH", &packages);
        run.env("CUDARUN_PIN_MODE", "view")
            .env("LD_LIBRARY_PATH", workshop.path("lib"))
            .any_stdout()
            .check()
    };
    for _cold_then_warm in 0..2 {
        assert_eq!(has_view(), "False\n");
    }
    workshop.write(
        "packages/gpulib-1.0.dist-info/METADATA",
        "Name: gpulib\nVersion: 1.0\n",
    );
    let flags = [
        format!("-L{}", workshop.path("lib").display()),
        "-l:libcudart.so.12".to_owned(),
    ];
    let source = "int cudaFree(void); int use(void) { return cudaFree(); }";
    workshop.library(
        "packages/gpulib/core.so",
        "core.so",
        source,
        &[&flags[0], &flags[1]],
    );
    settle();
    assert_eq!(has_view(), "True\n");
}

/// A program that hides another one does not start silently if there is something to pick from.
#[test]
fn a_program_that_starts_another_is_spoken_of() {
    let workshop = Workshop::new();
    workshop.library(
        "lib/libcudart.so.12",
        "libcudart.so.12",
        "int cudaFree(void) { return 0; }",
        &[],
    );
    let script = workshop.write("train.sh", "#!/bin/sh\nexit 3\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let home = tempfile::tempdir().unwrap();
    let run = |words: &[&str]| {
        Run::new(words)
            .env("HOME", home.path())
            .env("LD_LIBRARY_PATH", workshop.path("lib"))
            .env("CUDARUN_FOLLOW", "off")
    };
    let wrapper = "cudarun: `sh` starts another program, which cudarun cannot see: put cudarun right before that one\n";
    for _cold_then_warm in 0..2 {
        run(&["env", "A=1", "sh", "-c", "exit 3; x"])
            .status(3)
            .stderr(wrapper)
            .check();
        run(&[script.to_str().unwrap()])
            .status(3)
            .stderr("cudarun: `train.sh` is a script for /bin/sh, and cudarun does not read such scripts: put cudarun inside it, before the program that uses the GPU\n")
            .check();
    }
    run(&["-q", "env", "A=1", "sh", "-c", "exit 3"])
        .status(3)
        .check();
    run(&["env"]).any_stdout().check();
}

/// A check that a directory is still missing covers every search inside it.
#[test]
fn the_highest_missing_directory_is_watched() {
    let two = Two::new();
    let include = two.workshop.path("include");
    two.run().check();
    assert!(two.is_warm(two.run()), "the control");
    fs::create_dir(&include).unwrap();
    assert!(
        !two.is_warm(two.run()),
        "what was looked for may be there now"
    );
    assert!(two.is_warm(two.run()), "it is not");
    fs::write(
        include.join("nccl.h"),
        "#define NCCL_MAJOR 2\n#define NCCL_MINOR 21\n#define NCCL_PATCH 5\n",
    )
    .unwrap();
    settle();
    assert!(!two.is_warm(two.run()));
}

/// A warm start comes before Rust's runtime, which would change what is inherited.
#[test]
fn cold_and_warm_starts_pass_on_inherited_state() {
    let two = Two::new();
    let home = two.home.path().display();
    let status = "grep -E '^Sig(Ign|Blk|Cgt)' /proc/self/status; ls /proc/self/fd | head -n 3 | tr '\\n' ' '";
    // With SIGPIPE and SIGCHLD ignored, and without a standard input; bash itself cannot ignore SIGCHLD.
    let shell = |start: &str| {
        let code = format!(
            "import os, signal\nfor it in (signal.SIGPIPE, signal.SIGCHLD, signal.SIGXFSZ): signal.signal(it, signal.SIG_IGN)\n\
             os.close(0)\nos.environ['HOME'] = '{home}'\nwords = {start} + ['bash', '-c', {status:?}]\nos.execvp(words[0], words)\n"
        );
        let output = std::process::Command::new("python3")
            .args(["-c", &code])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let plain = shell("[]");
    for kind in ["cold", "warm"] {
        assert_eq!(shell(&format!("['{CUDARUN}']")), plain, "{kind}");
    }
}
