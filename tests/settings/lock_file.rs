//! The lock, and what a kept start depends on: a set that was recorded is taken and no other, and a warm start
//! survives no change of what it was decided by.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::pin::real_loader::WORLD;
use crate::settings::project_file::Project;
use crate::storage::kept_starts::Two;
use crate::support::{Run, Workshop};

/// Two installations of a library that can be told apart, and a program that is linked against it.
struct Locked {
    workshop: Workshop,
    project: Project,
    program: PathBuf,
}

impl Locked {
    fn new() -> Locked {
        let workshop = Workshop::new();
        let library = build(&workshop, "a", 1);
        let source = "int nccl(void); int main(int count, char **words) { return nccl() - 1 + (count > 1 ? 7 : 0); }";
        let program = workshop.compile("program", source, &[library.to_str().unwrap()]);
        Locked {
            workshop,
            program,
            project: Project::new(),
        }
    }

    fn run(&self, words: &[&str]) -> Run {
        let words = [words, &[self.program.to_str().unwrap()]].concat();
        self.project
            .run(&words)
            .env("LD_LIBRARY_PATH", self.workshop.path("a"))
    }

    fn lock(&self) -> PathBuf {
        self.project.path(".cudarun.lock")
    }

    fn text(&self) -> String {
        fs::read_to_string(self.lock()).unwrap()
    }
}

fn build(workshop: &Workshop, directory: &str, answer: i32) -> PathBuf {
    let source =
        format!("int nccl(void) {{ volatile int other = {answer}; return other - {answer} + 1; }}");
    workshop.library(
        &format!("{directory}/libnccl.so.2"),
        "libnccl.so.2",
        &source,
        &["-Wl,--build-id=sha1"],
    )
}

#[test]
fn a_start_uses_exactly_the_locked_versions() {
    let locked = Locked::new();
    let shown = locked.lock().display().to_string();
    locked
        .run(&["--locked"])
        .status(125)
        .stderr(format!(
            "cudarun: no lock: {shown} does not exist\n\nhint: cudarun record PROGRAM …\n"
        ))
        .check();
    for verb in ["record", "init"] {
        locked
            .run(&[verb, "--locked"])
            .status(if verb == "init" { 2 } else { 125 })
            .any_stderr()
            .check();
    }
    locked
        .run(&["record"])
        .stderr(format!("cudarun: recorded 1 library family in {shown}; `cudarun --locked PROGRAM` takes exactly these\n"))
        .check();
    let text = locked.text();
    assert!(
        text.contains("[[family]]\nname = \"nccl\"\n") && text.contains("\"libnccl.so.2\" = \""),
        "{text}"
    );
    assert!(
        !text.contains(locked.workshop.path("").to_str().unwrap()),
        "no path: {text}"
    );
    locked.run(&["-q", "record"]).check();
    assert_eq!(locked.text(), text, "the same set is the same text");
    for _ in 0..2 {
        locked.run(&["--locked"]).check();
        locked.run(&[]).env("CUDARUN_LOCKED", "1").check();
    }
    build(&locked.workshop, "a", 2);
    let line = 1 + text
        .lines()
        .position(|line| line == "name = \"nccl\"")
        .unwrap();
    let says = [
        "error: no NCCL here fits",
        "libnccl.so.2",
        &format!(".cudarun.lock:{line}"),
        "another build",
    ];
    locked
        .run(&["--locked"])
        .status(125)
        .stderr_contains(&says)
        .check();
    locked
        .run(&[])
        .env("CUDARUN_LOCKED", "1")
        .status(125)
        .stderr_contains(&says)
        .check();
    locked
        .run(&["explain", "--locked"])
        .status(1)
        .stdout_contains(&says)
        .check();
    locked
        .run(&["export", "--locked"])
        .status(1)
        .stderr_contains(&says)
        .check();
    locked
        .run(&["verify", "--locked"])
        .status(1)
        .stderr_contains(&says)
        .check();
    locked
        .run(&["trace", "--predict", "--locked"])
        .status(1)
        .stderr_contains(&says)
        .check();
    locked.run(&[]).check();
    locked.run(&[]).env("CUDARUN_LOCKED", "0").check();
    locked.project.says("locked = true\n");
    locked.run(&[]).status(125).stderr_contains(&says).check();
    // To record is to make another one.
    locked.run(&["-q", "record"]).check();
    assert_ne!(locked.text(), text);
    locked.run(&[]).check();
}

#[test]
fn a_lock_overrides_the_order_of_preference() {
    let locked = Locked::new();
    build(&locked.workshop, "b", 2);
    let both = [locked.workshop.path("a"), locked.workshop.path("b")]
        .map(|path| path.display().to_string());
    let seen = |words: &[&str]| {
        let run = locked.run(&[&["explain", "--json"], words].concat());
        let explained = run.env("LD_LIBRARY_PATH", both.join(":")).json();
        let family = explained["families"]
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["family"] == "nccl")
            .unwrap();
        family["picked"]["directory"]
            .as_str()
            .unwrap()
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(seen(&[]), "a", "the control");
    locked
        .run(&["-q", "record"])
        .env("LD_LIBRARY_PATH", locked.workshop.path("b"))
        .check();
    assert_eq!(seen(&["--locked"]), "b");
}

/// The version of cuDNN is known, and the files that are opened at run time are part of the set.
#[test]
fn versions_are_recorded_and_demanded() {
    let project = Project::new();
    project.plain(&["-q", "record"]).any_stdout().check();
    let text = fs::read_to_string(project.path(".cudarun.lock")).unwrap();
    assert!(
        text.contains("version = \"9.10.2.7\"") || text.contains("version = \"9.10.2\""),
        "{text}"
    );
    assert!(
        text.contains("\"libcudnn_engines_precompiled.so.9\""),
        "{text}"
    );
    project.plain(&["--locked"]).any_stdout().check();
    let old = project
        .plain(&["--locked"])
        .env("LD_LIBRARY_PATH", WORLD.library_path(&["old"]));
    old.status(125)
        .stderr_contains(&["error: no cuDNN here fits", "9.1.0", ".cudarun.lock:"])
        .check();
}

#[test]
fn the_lock_is_beside_the_projects_file() {
    let locked = Locked::new();
    let deep = |words: &[&str]| locked.run(words).in_directory(locked.project.path("deep"));
    deep(&["-q", "record"]).check();
    assert!(locked.project.path("deep/.cudarun.lock").exists() && !locked.lock().exists());
    locked.project.says("");
    deep(&["--locked"]).status(125).any_stderr().check();
    deep(&["-q", "record"]).check();
    assert!(locked.lock().exists());
    deep(&["--locked"]).check();
}

#[test]
fn nothing_is_recorded_of_a_program_that_failed_or_needs_nothing() {
    let locked = Locked::new();
    let shown = locked.lock().display().to_string();
    let program = locked.program.to_str().unwrap();
    locked
        .project
        .run(&["record", program, "more"])
        .env("LD_LIBRARY_PATH", locked.workshop.path("a"))
        .status(7)
        .stderr(format!(
            "cudarun: {shown} is not written: the program failed\n"
        ))
        .check();
    locked
        .project
        .run(&["record", "true"])
        .stderr(format!(
            "cudarun: {shown} is not written: the program loaded no NVIDIA library\n"
        ))
        .check();
    locked
        .project
        .run(&["record", "/nowhere"])
        .status(127)
        .any_stderr()
        .check();
    assert!(!locked.lock().exists());
    locked.run(&["-q", "record"]).check();
    let text = locked.text();
    locked
        .project
        .run(&["-q", "record", "false"])
        .status(1)
        .check();
    assert_eq!(locked.text(), text, "what was recorded before stays");
}

/// A set that is none cannot be taken again.
#[test]
fn two_installations_of_one_family_are_not_locked() {
    let locked = Locked::new();
    let other = build(&locked.workshop, "b", 2);
    let source = "#include <dlfcn.h>\nint nccl(void); int main(int count, char **words) { return nccl() - 1 + !dlopen(words[1], RTLD_NOW); }";
    let library = locked.workshop.path("a/libnccl.so.2");
    let program = locked
        .workshop
        .compile("opens", source, &[library.to_str().unwrap()]);
    let path = [&library, &other]
        .map(|path| path.parent().unwrap().display().to_string())
        .join(":");
    let words = [
        "record",
        "--pin-mode=view",
        program.to_str().unwrap(),
        other.to_str().unwrap(),
    ];
    locked
        .project
        .run(&words)
        .env("LD_LIBRARY_PATH", path)
        .stderr(format!(
            "cudarun: {} is not written: the program loaded two installations of NCCL\n",
            locked.lock().display()
        ))
        .check();
    assert!(!locked.lock().exists());
}

#[test]
fn a_lock_that_is_not_understood_is_an_error_with_its_line() {
    let locked = Locked::new();
    locked.run(&["-q", "record"]).check();
    let text = locked.text();
    for (damaged, line) in [
        (text.replace("nccl", "nothing-of-nvidia's"), ":5"),
        (text.replace("format = 1", "format = 7"), ":1"),
        (text.replace("[[family]]", "[[more]]"), ":"),
        (text.replace("name = ", "name = 1 #"), ":5"),
        (format!("{text}\n["), ":"),
        ("\u{0}".to_owned(), ":1"),
        (String::new(), ":1"),
    ] {
        fs::write(locked.lock(), damaged).unwrap();
        let named = format!("{}{line}", locked.lock().display());
        locked
            .run(&["--locked"])
            .status(125)
            .stderr_contains(&[&named])
            .check();
        locked
            .run(&["explain", "--locked"])
            .status(2)
            .stderr_contains(&[&named])
            .check();
        locked.run(&[]).check();
    }
    fs::write(locked.lock(), &text).unwrap();
    locked.run(&["--locked"]).check();
    // By any name of the family it is obeyed.
    let other = text
        .replace("\"nccl\"", "\"NCCL\"")
        .replace("so.2\" = \"", "so.2\" = \"0");
    fs::write(locked.lock(), other).unwrap();
    locked
        .run(&["--locked"])
        .status(125)
        .stderr_contains(&["another build"])
        .check();
}

#[test]
fn a_damaged_lock_is_read_or_refused_with_its_place() {
    use crate::settings::project_file::{Dice, damaged};
    let locked = Locked::new();
    locked.run(&["-q", "record"]).check();
    let text = locked.text();
    let mut dice = Dice(7);
    let path = std::path::Path::new("/x/.cudarun.lock");
    let mut faults = 0;
    for _ in 0..3000 {
        let bytes = damaged(&mut dice, text.as_bytes());
        if let Err(fault) = cudarun::settings::lock::lock(&bytes, path) {
            faults += 1;
            assert!(cudarun::error::TypedReason::sentence(&fault).starts_with("/x/.cudarun.lock:"));
        }
    }
    assert!((1000..3000).contains(&faults), "{faults} of 3000");
}

/// Older than the start that comes next.
fn settle() {
    std::thread::sleep(Duration::from_millis(60));
}

#[test]
fn a_kept_start_survives_no_change_of_settings() {
    let two = Two::new();
    let home = two.home.path().canonicalize().unwrap();
    let place = home.join("project/deep");
    fs::create_dir_all(&place).unwrap();
    let run = || two.run().in_directory(&place);
    let write = |path: &str, text: &str| {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        settle();
    };
    let becomes_cold_once = |what: &str| {
        assert!(!two.is_warm(run()), "{what}");
        assert!(two.is_warm(run()), "{what}: the control");
    };
    run().check();
    assert!(two.is_warm(run()), "the control");
    let requires = "[prefer]\nnccl = \"*\"\n";
    for path in [
        ".config/cudarun/config.toml",
        ".cudarun.toml",
        "project/.cudarun.toml",
        "project/deep/.cudarun.toml",
    ] {
        write(path, requires);
        becomes_cold_once(&format!("{path} has come"));
        write(path, "[prefer]\nnccl = '*'\n");
        becomes_cold_once(&format!("{path} has changed"));
    }
    for path in [
        "project/deep/.cudarun.toml",
        ".config/cudarun/config.toml",
        "project/.cudarun.toml",
    ] {
        fs::remove_file(home.join(path)).unwrap();
        settle();
        // That of the directory above was the last one before this one came, and is the same again.
        assert!(
            !two.is_warm(run()) || path.starts_with("project"),
            "{path} is gone"
        );
        assert!(two.is_warm(run()), "{path}: the control");
    }
    write("elsewhere.toml", requires);
    for (name, value) in [
        (
            "CUDARUN_CONFIG",
            home.join("elsewhere.toml").to_str().unwrap(),
        ),
        ("CUDARUN_REQUIRE", "cuda>=1"),
        ("CUDARUN_USES", "x"),
        ("CUDARUN_VERIFY", "auto"),
        ("NVIDIA_REQUIRE_CUDA", "cuda>=1"),
        ("NVIDIA_DISABLE_REQUIRE", "1"),
        ("XDG_CONFIG_HOME", "/nowhere"),
    ] {
        assert!(!two.is_warm(run().env(name, value)), "{name}");
        assert!(two.is_warm(run().env(name, value)), "{name}: the control");
    }
    write(".cudarun.toml", "[env]\nFOO = \"1\"\n");
    run().status(125).any_stderr().check();
    let allow = |words: &[&str]| {
        Run::new(words)
            .env("HOME", &home)
            .in_directory(&place)
            .any_stderr()
            .check();
        settle();
    };
    allow(&["allow"]);
    becomes_cold_once("allowed");
    allow(&["allow", "--revoke"]);
    run().status(125).any_stderr().check();
}

#[test]
fn a_kept_start_survives_no_change_of_its_lock() {
    let locked = Locked::new();
    let home = locked.project.home();
    locked.project.says("locked = true\n");
    locked.run(&["-q", "record"]).check();
    settle();
    let starts = || {
        let entries = fs::read_dir(home.join(".cache/cudarun/starts")).unwrap();
        let times = entries.map(|entry| entry.unwrap().metadata().unwrap().modified().unwrap());
        times.max()
    };
    let is_warm = || {
        let before = starts();
        settle();
        locked.run(&[]).check();
        before == starts()
    };
    locked.run(&[]).check();
    assert!(is_warm(), "the control");
    let text = locked.text();
    fs::write(locked.lock(), format!("{text}\n#")).unwrap();
    settle();
    assert!(!is_warm() && is_warm());
    fs::remove_file(locked.lock()).unwrap();
    locked.run(&[]).status(125).any_stderr().check();
}

/// The lock of one directory is not that of another.
#[test]
fn a_start_is_not_kept_for_directories_with_other_locks() {
    let locked = Locked::new();
    locked.project.user_says("locked = true\n");
    locked.run(&["-q", "record"]).check();
    settle();
    for _ in 0..2 {
        locked.run(&[]).check();
    }
    let deep = || locked.run(&[]).in_directory(locked.project.path("deep"));
    deep().status(125).stderr_contains(&["no lock: "]).check();
}

/// To ask for any version is to ask for the family.
#[test]
fn an_unknown_version_meets_only_requirements_without_a_range() {
    let locked = Locked::new();
    locked.run(&["--require=nccl"]).check();
    locked
        .run(&["--require=nccl>=1"])
        .status(125)
        .stderr_contains(&["its version is unknown"])
        .check();
    locked.project.says("[requires]\nnccl = \"*\"\n");
    locked.run(&[]).check();
}

/// Before the program has run for a day.
#[test]
fn nothing_is_started_where_no_lock_can_be_written() {
    let locked = Locked::new();
    fs::create_dir(locked.lock()).unwrap();
    let says = ["cannot write `", ".cudarun.lock`: is a directory"];
    let leaves = ["record", "sh", "-c", "echo > started"];
    locked
        .project
        .run(&leaves)
        .status(125)
        .stderr_contains(&says)
        .check();
    assert!(!locked.project.path("started").exists());
    fs::remove_dir(locked.lock()).unwrap();
    locked.project.run(&leaves).any_stderr().check();
    assert!(locked.project.path("started").exists(), "the control");
}

/// A warm start also sets the variables that files set.
#[test]
fn a_kept_start_sets_what_files_set() {
    let two = Two::new();
    let home = two.home.path();
    let directory = home.join(".config/cudarun");
    fs::create_dir_all(&directory).unwrap();
    fs::write(
        directory.join("config.toml"),
        "[env]\nFOO = \"1\"\nBAR = false\n",
    )
    .unwrap();
    settle();
    for _cold_then_warm in 0..3 {
        let run = Run::new(["printenv", "FOO"])
            .env("HOME", home)
            .stdout("1\n");
        run.check();
        Run::new(["printenv", "BAR"])
            .env("HOME", home)
            .env("BAR", "x")
            .status(1)
            .check();
    }
}
