//! The hook's question on entering a project, and the answer: the process alone. Real shells are tested in
//! `tests/hook.py`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::pin::real_loader::WORLD;
use crate::settings::project_file::Project;
use crate::support::Run;

/// A check in the project, where `new` is found by the user's own settings, with this `LD_LIBRARY_PATH`.
fn check(project: &Project, library_path: &[&str], told: &str) -> Run {
    let told = format!("--check={told}");
    project
        .run(&["hook", &told])
        .env("LD_LIBRARY_PATH", WORLD.library_path(library_path))
}

fn knows_new(project: &Project) {
    let new = WORLD.path("new");
    project.user_says(&format!("[search]\nalso = [{:?}]\n", new.to_str().unwrap()));
}

#[test]
fn a_forbidden_version_in_the_shell_is_reported_once() {
    let project = Project::with("[requires]\ncudnn = \">=9.5\"\n");
    knows_new(&project);
    let (old, new) = (WORLD.path("old"), WORLD.path("new"));
    let line = format!(
        "cudarun: this shell would get cuDNN 9.1.0.7 from {} (.cudarun.toml:2 allows >=9.5): \
         start programs with `cudarun`, which takes 9.10.2.7 from {}\n",
        old.display(),
        new.display()
    );
    let told = check(&project, &["old"], "")
        .any_stdout()
        .stderr(&line)
        .check();
    assert!(!told.is_empty() && !told.contains('\n'), "{told:?}");
    // Warm, and cold in a directory below: the shell has been told.
    check(&project, &["old"], &told).stdout(&told).check();
    check(&project, &["old"], &told)
        .in_directory(project.path("deep/er"))
        .stdout(&told)
        .check();
    check(&project, &["old"], "")
        .any_stdout()
        .stderr(&line)
        .check();
    // All is well, and then the same again: that is news.
    let well = check(&project, &["new"], &told).stdout("").check();
    check(&project, &["old"], &well)
        .stdout(&told)
        .stderr(&line)
        .check();
    check(&project, &["new"], "").check();
    // Nothing that such programs look for is there, and cudarun finds it.
    check(&project, &[], "").check();
    // Another state of the same project.
    project.says("[requires]\ncudnn = \">=9.6\"\n");
    let next = check(&project, &["old"], &told)
        .any_stdout()
        .stderr_contains(&[">=9.6"])
        .check();
    assert_ne!(told, next);
    assert_eq!(told.split('-').next(), next.split('-').next());
}

#[test]
fn a_shell_that_would_mix_two_installations_names_both() {
    let project = Project::with("[requires]\ncudnn = \">=9\"\n");
    check(&project, &["torn", "old"], "")
        .any_stdout()
        .stderr_contains(&[
            "cudarun: LD_LIBRARY_PATH would mix two installations of cuDNN: 9.10.2.7 from ",
            "/torn and 9.1.0.7 from ",
            ": start programs with `cudarun`, which takes 9.1.0.7 from ",
        ])
        .check();
    check(&project, &["old", "torn"], "").check();
    // A shim opens the parts of one whole installation.
    check(&project, &["torn", "new"], "").check();
    let torn = project.run(&["-q", "hook", "--check="]);
    torn.env("LD_LIBRARY_PATH", WORLD.library_path(&["torn", "old"]))
        .check();
}

#[test]
fn quiet_still_reports_fatal_errors() {
    let project = Project::with("[requires]\ncudnn = \">=9.20\"\n");
    let says = |line: &str| {
        for quiet in [&["hook", "--check="][..], &["-q", "hook", "--check="]] {
            let run = project
                .run(quiet)
                .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]));
            run.any_stdout().stderr_contains(&[line]).check();
        }
    };
    says(
        "cudarun: no cuDNN here fits .cudarun.toml:2: needs >=9.20, found 9.10.2.7; install cuDNN, ",
    );
    project.says("[requires]\ndriver = \">=550\"\n");
    says("cudarun: .cudarun.toml:2 requires driver >=550, but this machine has no driver; ");
    project.says("[requires]\ncudnn = \">=x\"\n");
    says(".cudarun.toml:2: `requires.cudnn`: `>=x` is not a range of versions");
    project.says("[env]\nFOO = \"bar\"\n");
    let file = project.path(".cudarun.toml");
    says(&format!(
        "{0}: not allowed yet: it sets `env.FOO`; read it, then `cudarun allow {0}`\n",
        file.display()
    ));
    project.run(&["-q", "allow"]).check();
    project.run(&["hook", "--check="]).check();
    // Changed, allowed no longer, and a link to what is allowed: each is told by its name.
    project.says("[env]\nFOO = \"baz\"\n");
    says("it sets `env.FOO`; read it, then `cudarun allow");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&file).is_err() {
        says("cannot be read");
    }
    fs::remove_file(&file).unwrap();
    symlink(&file, &file).unwrap();
    says("cannot be read");
}

#[test]
fn a_lock_counts_without_being_asked_for() {
    let project = Project::new();
    let lock = "format = 1\n\n[[family]]\nname = \"cudnn\"\nversion = \"9.10.2.7\"\n";
    fs::write(project.path(".cudarun.lock"), lock).unwrap();
    knows_new(&project);
    let said = [
        ".cudarun.lock:4 allows =9.10.2.7",
        "which takes 9.10.2.7 from",
    ];
    check(&project, &["old"], "")
        .any_stdout()
        .stderr_contains(&said)
        .check();
    check(&project, &["new"], "").check();
    // It belongs to its own directory, or to that of the project's file.
    check(&project, &["old"], "")
        .in_directory(project.path("deep"))
        .check();
    project.says("");
    let below = check(&project, &["old"], "").in_directory(project.path("deep"));
    below.any_stdout().stderr_contains(&said).check();
    fs::write(project.path(".cudarun.lock"), "format = 9\n").unwrap();
    check(&project, &["new"], "")
        .any_stdout()
        .stderr_contains(&["cudarun record PROGRAM …"])
        .check();
}

#[test]
fn a_repaired_problem_elsewhere_is_not_reported() {
    let project = Project::with("locked = true\n");
    let hook = || check(&project, &["new"], "");
    for _kept_by_nobody in 0..2 {
        hook().any_stdout().stderr_contains(&["no lock: "]).check();
    }
    fs::write(
        project.path(".cudarun.lock"),
        "format = 1\n\n[[family]]\nname = \"cudnn\"\n",
    )
    .unwrap();
    hook().check();
    fs::remove_file(project.path(".cudarun.lock")).unwrap();
    project.says("locked = false\n");
    fs::write(project.path(".cudarun.lock"), "format = 9\n").unwrap();
    hook().check();
    project.user_says("requires = 3\n");
    for _kept_by_nobody in 0..2 {
        hook()
            .any_stdout()
            .stderr_contains(&["config.toml:1: `requires`: `3` is not a table"])
            .check();
    }
    project.user_says("");
    hook().check();
}

#[test]
fn an_unknown_key_is_reported_last() {
    let project = Project::with("[require]\ncudnn = \">=9\"\n");
    check(&project, &["new"], "")
        .any_stdout()
        .stderr_contains(&["did you mean `requires`?"])
        .check();
}

#[test]
fn the_hook_is_silent_outside_projects_and_in_deleted_directories() {
    let project = Project::new();
    project.run(&["hook", "--check=abc"]).stdout("abc").check();
    let told = "abc,def-1,".to_owned();
    project
        .run(&["hook", &format!("--check={told}")])
        .stdout(told)
        .check();
    project
        .run(&["hook"])
        .status(2)
        .stderr_contains(&["<SHELL>"])
        .check();
    project
        .run(&["hook", "csh"])
        .status(2)
        .stderr_contains(&["[possible values: bash, zsh, fish, jupyter, systemd]"])
        .check();
    project
        .run(&["--root", "/", "hook", "bash"])
        .status(2)
        .any_stderr()
        .check();
}
