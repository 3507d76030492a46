//! The output of `export` for a shell: the shells themselves read it back in `src/report/shell.rs` and
//! `tests/beside.sh`.

use crate::support::{Run, Workshop};

#[test]
fn a_variable_name_that_no_shell_accepts_is_reported_and_left_out() {
    let project = Workshop::new();
    let settings =
        "[env]\nFINE = \"it's\"\n\"a; touch code; b\" = \"x\"\n\"A-B\" = false\nGONE = false\n";
    let file = project.write(".cudarun.toml", settings);
    let home = project.path("home");
    let run = |words: &[&str]| {
        Run::new(words)
            .in_directory(project.directory.path())
            .env("HOME", &home)
    };
    run(&["allow", &file.display().to_string()])
        .any_stderr()
        .any_stdout()
        .check();
    let said = [
        "cudarun: no shell can set a variable named `A-B`: it is left out\n",
        "cudarun: no shell can set a variable named `a; touch code; b`: it is left out\n",
    ];
    for (shell, code) in [
        ("sh", "export FINE='it'\\''s'\nunset GONE\n"),
        ("bash", "export FINE='it'\\''s'\nunset GONE\n"),
        ("fish", "set -gx FINE 'it\\'s'\nset -eg GONE; or true\n"),
    ] {
        run(&["export", "--shell", shell, "/bin/true"])
            .stdout(code)
            .stderr(said.concat())
            .check();
        run(&["export", "-q", "--shell", shell, "/bin/true"])
            .stdout(code)
            .check();
    }
    let json = run(&["export", "--json", "/bin/true"]).json();
    assert_eq!(
        json.to_string().matches("touch code").count(),
        1,
        "JSON can hold any: {json}"
    );
}

#[test]
fn direnv_is_told_what_to_watch() {
    let project = Workshop::new();
    let root = project.directory.path().canonicalize().unwrap();
    let script = project.write("it's a script.py", "import ctypes\n");
    let run = |words: &[&str]| {
        Run::new(words)
            .in_directory(&root)
            .env("HOME", root.join("home"))
    };
    let words = [
        "export",
        "--shell",
        "direnv",
        "/usr/bin/python3",
        &script.display().to_string(),
    ];
    let watched = |text: &str| -> Vec<String> {
        assert!(
            text.lines().all(|line| line.starts_with("watch_file '")),
            "{text}"
        );
        text.lines()
            .map(|line| line.replace("watch_file ", ""))
            .collect()
    };
    let before = watched(&run(&words).any_stdout().check());
    let quoted = |below: &str| format!("'{}'", root.join(below).display());
    for file in [
        ".cudarun.toml",
        ".cudarun.lock",
        "home/.config/cudarun/config.toml",
    ] {
        assert!(
            before.contains(&quoted(file)),
            "{file} may come: {before:?}"
        );
    }
    assert!(
        before.contains(&quoted("it'\\''s a script.py")),
        "{before:?}"
    );
    assert!(
        before
            .iter()
            .any(|path| path.starts_with("'/usr/bin/python3")),
        "{before:?}"
    );
    assert!(
        before.iter().any(|path| path.contains("packages")),
        "{before:?}"
    );
    let bare = watched(
        &run(&[&["--no-config"], &words[..]].concat())
            .any_stdout()
            .check(),
    );
    assert!(!bare.contains(&quoted(".cudarun.toml")), "{bare:?}");
    // The project's file may be above, and its lock beside it.
    let inner = root.join("inner");
    std::fs::create_dir(&inner).unwrap();
    project.write(".cudarun.toml", "uses = []\n");
    let inside = watched(&run(&words).in_directory(&inner).any_stdout().check());
    assert!(
        inside.contains(&quoted(".cudarun.toml")) && inside.contains(&quoted(".cudarun.lock")),
        "{inside:?}"
    );
    assert!(
        !inside.contains(&quoted("inner/.cudarun.toml")),
        "{inside:?}"
    );
}
