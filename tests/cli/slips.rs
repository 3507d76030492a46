//! Wrong command lines, as people type them: each answer names the mistake and a command line that works.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::{fs, process};

use serde::Deserialize;

use crate::support::CUDARUN;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Slip {
    typed: String,
    files: Vec<String>,
    says: Vec<String>,
    then: String,
    #[serde(default)]
    status: i32,
    /// The answer does not print `then`.
    #[serde(default)]
    untold: bool,
    /// The typed line is right, and succeeds as `then` does.
    #[serde(default)]
    right: bool,
}

#[derive(Deserialize)]
struct Slips {
    slip: Vec<Slip>,
}

fn put(directory: &Path, name: &str) {
    let path = directory.join(name.trim_end_matches(['*', '/']));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match name {
        _ if name.ends_with('/') => fs::create_dir(path).unwrap(),
        ".venv/bin/python" => symlink("/usr/bin/python3", path).unwrap(),
        _ if name.ends_with('*') => {
            fs::write(&path, "#!/bin/sh\necho ran $@\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        _ if name.ends_with(".py") => {
            fs::write(path, "import sys\nprint('ran', *sys.argv[1:])\n").unwrap();
        }
        _ => fs::write(path, "echo ran\n").unwrap(),
    }
}

#[test]
fn each_slip_is_named_and_its_correction_works() {
    let slips: Slips = toml::from_str(include_str!("slips.toml")).unwrap();
    assert!(slips.slip.iter().filter(|slip| !slip.right).count() >= 60);
    let mut faults = String::new();
    for Slip {
        typed,
        files,
        says,
        then,
        status,
        untold,
        right,
    } in slips.slip
    {
        let world = tempfile::tempdir().unwrap();
        let (bin, work) = (world.path().join("bin"), world.path().join("work"));
        fs::create_dir(&bin).unwrap();
        fs::create_dir(&work).unwrap();
        symlink(CUDARUN, bin.join("cudarun")).unwrap();
        for program in ["/usr/bin/python3", "/bin/bash", "/bin/sh", "/usr/bin/env"] {
            symlink(program, bin.join(Path::new(program).file_name().unwrap())).unwrap();
        }
        for name in &files {
            put(&work, name);
        }
        let run = |line: &str| {
            let mut shell = process::Command::new("/bin/sh");
            let shell = shell
                .arg("-c")
                .arg(line)
                .current_dir(&work)
                .env_clear()
                .env("PATH", &bin);
            let output = shell.env("HOME", world.path()).output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            (
                String::from_utf8(text).unwrap(),
                output.status.code().unwrap(),
            )
        };
        let (text, code) = run(&typed);
        let mut fail = |why: String| faults += &format!("--- {typed}: {why}\n{text}\n");
        for part in says.iter().filter(|part| !text.contains(part.as_str())) {
            fail(format!("lacks {part}"));
        }
        let hint = text.lines().find_map(|line| {
            line.strip_prefix("hint: ")
                .filter(|hint| hint.starts_with("cudarun "))
        });
        if hint != (!untold && !right).then_some(then.as_str()) {
            fail(format!("hint {hint:?}, not {then}"));
        }
        if !right && ![2, 125, 126, 127].contains(&code) {
            fail(format!("status {code}"));
        }
        let (text, code) = run(&then);
        // A machine without a toolkit refuses a build, and names the next step.
        let is_corrected = text
            .replace("hint: cudarun fetch toolkit", "")
            .contains("hint: cudarun");
        if code != status || is_corrected {
            faults += &format!("--- {typed}: then {then}: status {code}\n{text}\n");
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
