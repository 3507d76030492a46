//! The second start of the same thing: nothing is scanned and nothing is solved, and nothing stale is used.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cudarun::cache::{self, Key};
use cudarun::environment::{Change, Diff};
use cudarun::host::Host;
use cudarun::launch::Exec;
use cudarun::target::{self, Command};

use crate::support::{Run, Workshop};

fn command(words: &[&str]) -> Command {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    Command { program: words[0].clone(), arguments: words[1..].to_vec() }
}

/// Older than the host that looks at them.
fn settle() {
    std::thread::sleep(Duration::from_millis(60));
}

struct Kept {
    directory: tempfile::TempDir,
    watched: PathBuf,
    command: Command,
    program: PathBuf,
    exec: Exec,
}

impl Kept {
    fn new() -> Kept {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let watched = directory.path().join("watched");
        fs::write(&watched, "one").unwrap();
        settle();
        let change = Change { name: "LD_LIBRARY_PATH".into(), value: Some("/view".into()) };
        let command = command(&["true", "x"]);
        let program = PathBuf::from("/usr/bin/true");
        let exec = Exec {
            program: program.clone(),
            argv0: "true".into(),
            arguments: vec!["x".into()],
            diff: Diff(vec![change, Change { name: "LD_PRELOAD".into(), value: None }]),
        };
        let kept = Kept { directory, watched, command, program, exec };
        let watched: BTreeSet<PathBuf> = [
            kept.watched.clone(),
            kept.directory.path().join("absent"),
            "/proc/version".into(),
            "/dev/null".into(),
        ]
        .into();
        let host = Host::here();
        let key = Key::of(&host, &kept.program, &kept.command).unwrap();
        cache::keep(&host, kept.directory.path(), &key, &kept.exec, &watched);
        kept
    }

    fn find(&self) -> Option<Exec> {
        let host = Host::here();
        let key = Key::of(&host, &self.program, &self.command)?;
        cache::find(&host, &[self.directory.path().to_owned()], &key, &self.program, &self.command)
    }

    fn file(&self) -> PathBuf {
        let starts = self.directory.path().join("starts");
        fs::read_dir(starts).unwrap().next().unwrap().unwrap().path()
    }
}

#[test]
fn a_start_is_found_as_it_was_kept() {
    let kept = Kept::new();
    assert_eq!(kept.find(), Some(kept.exec.clone()));
    assert_eq!(fs::metadata(kept.file()).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_has_changed_falsifies_it() {
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
fn what_others_could_have_written_is_not_used() {
    let kept = Kept::new();
    fs::set_permissions(kept.file(), fs::Permissions::from_mode(0o622)).unwrap();
    assert_eq!(kept.find(), None);
    let kept = Kept::new();
    fs::set_permissions(kept.file().parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
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
    assert_eq!(kept.find(), Some(kept.exec.clone()));
}

#[test]
fn what_changes_while_it_is_worked_out_is_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let host = Host::here();
    let watched = directory.path().join("watched");
    fs::write(&watched, "just now").unwrap();
    let command = command(&["true"]);
    let program = Path::new("/usr/bin/true");
    let key = Key::of(&host, program, &command).unwrap();
    let exec = cudarun::launch::unchanged(program, &command);
    cache::keep(&host, directory.path(), &key, &exec, &[watched].into());
    assert_eq!(cache::find(&host, &[directory.path().to_owned()], &key, program, &command), None);
}

/// A warm start asks the file system a few dozen times, however much is installed.
#[test]
fn a_warm_start_costs_a_few_dozen_questions() {
    let workshop = Workshop::new();
    let host = Host::here();
    let command = command(&["true"]);
    let program = target::locate(&host, &command.program).unwrap();
    let read = target::read(&host, &command, &[]).unwrap();
    let cold = host.operations();
    let key = Key::of(&host, &program, &command).unwrap();
    fs::set_permissions(workshop.path(""), fs::Permissions::from_mode(0o700)).unwrap();
    cache::keep(
        &host,
        &workshop.path(""),
        &key,
        &cudarun::launch::unchanged(&program, &command),
        &read.watched,
    );
    let before = host.operations();
    assert!(cache::find(&host, &[workshop.path("")], &key, &program, &command).is_some());
    let warm = host.operations() - before;
    assert!(warm <= 40, "{warm} operations warm, {cold} cold");
}

#[test]
fn arguments_count_only_where_they_decide() {
    let host = Host::here();
    let key =
        |words: &[&str]| format!("{:?}", Key::of(&host, Path::new("/usr/bin/x"), &command(words)).unwrap());
    assert_eq!(key(&["true", "a"]), key(&["true", "b"]));
    assert_eq!(key(&["python3", "train.py", "--lr", "1"]), key(&["python3", "train.py", "--lr", "2"]));
    assert_ne!(key(&["python3", "train.py"]), key(&["python3", "test.py"]));
    assert_ne!(key(&["python3", "-c", "import torch"]), key(&["python3", "-c", "import jax"]));
}

#[test]
fn a_library_that_is_gone_is_not_planned_for_again() {
    let workshop = Workshop::new();
    let library = |below: &str| workshop.library(below, "libnccl.so.2", "int nccl(void) { return 1; }", &[]);
    let (first, _second) = (library("a/libnccl.so.2"), library("b/libnccl.so.2"));
    let source = "int nccl(void); int main(void) { return nccl() - 1; }";
    let program = workshop.compile("program", source, &[first.to_str().unwrap()]);
    let home = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", workshop.path("a").display(), workshop.path("b").display());
    settle();
    let run = || Run::new([&program]).env("HOME", home.path()).env("LD_LIBRARY_PATH", &path);
    let views = || fs::read_dir(home.path().join(".cache/cudarun/views")).unwrap().count();
    for _cold_then_warm in 0..2 {
        run().check();
        assert_eq!(views(), 1);
    }
    fs::remove_file(first).unwrap();
    run().check();
    assert_eq!(views(), 2, "the other copy, in a view of its own");
}

#[test]
fn without_a_writable_place_a_program_that_needs_nothing_starts() {
    for _ in 0..2 {
        Run::new(["echo", "started"]).env("HOME", "/proc/nowhere").stdout("started\n").check();
    }
}
