//! `cudarun fetch list`, `verify` and `prune`.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::wheelhouse::{Wheelhouse, app, cudart, curand, names, sum};

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A house whose store has these two wheels.
fn filled() -> Wheelhouse {
    let house = Wheelhouse::new(&[cudart(), curand()]);
    house
        .fetch(&["cudart", "curand"])
        .stderr_contains(&["2 wheels, "])
        .check();
    house
}

fn entry(house: &Wheelhouse) -> PathBuf {
    house.store().join(sum(&cudart().bytes()))
}

/// Makes the entry of the CUDA runtime older.
fn age(house: &Wheelhouse, days: u64) {
    let about = entry(house).join("meta.toml");
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let text = fs::read_to_string(&about).unwrap();
    let (before, _) = text.split_once("fetched = ").unwrap();
    set_mode(&about, 0o644);
    fs::write(
        &about,
        format!("{before}fetched = {}\n", now - days * 86_400),
    )
    .unwrap();
    set_mode(&about, 0o444);
}

const CUDART: &str = "nvidia-cuda-runtime-cu12 12.4.127";
const CURAND: &str = "nvidia-curand-cu12 10.3.5.147";

#[test]
fn a_list_shows_each_wheel_and_its_users() {
    let empty = Wheelhouse::new(&[cudart()]);
    let none = "no fetched wheels in ./.local/share/cudarun/store\n";
    empty.run(&["fetch", "list"]).stdout(none).check();
    empty
        .run(&["fetch", "verify"])
        .stdout("the store is empty\n")
        .check();
    let json = empty.run(&["fetch", "list", "--json"]).json();
    assert_eq!(json["wheels"].as_array().unwrap().len(), 0);
    let house = filled();
    let list = house.run(&["fetch", "list"]).any_stdout().check();
    for part in [CUDART, CURAND, "fetched today", "not used yet, today"] {
        assert!(list.contains(part), "{list}");
    }
    let app = app("needs-cudart");
    house.run(&[&app]).stdout("cudart 12040\n").check();
    age(&house, 3);
    // On one line each.
    let list = house
        .run(&["fetch", "list"])
        .env("COLUMNS", "1000")
        .any_stdout()
        .check();
    let line = list.lines().find(|line| line.contains(CUDART)).unwrap();
    assert!(
        line.contains("fetched 3 days ago") && line.contains(&format!("used by {app}, today")),
        "{line}"
    );
    assert!(
        list.lines()
            .any(|line| line.contains(CURAND) && line.contains("not used yet")),
        "{list}"
    );
    let json = house.run(&["fetch", "list", "--json"]).json();
    let wheels = json["wheels"].as_array().unwrap();
    let one = wheels
        .iter()
        .find(|wheel| wheel["distribution"] == "nvidia-cuda-runtime-cu12")
        .unwrap();
    assert_eq!(one["sha256"], sum(&cudart().bytes()));
    assert_eq!(one["users"][0]["program"], app);
    assert_eq!(wheels.len(), 2);
}

#[test]
fn each_damaged_file_is_found() {
    let house = filled();
    // On one line each.
    let verify = || house.run(&["fetch", "verify"]).env("COLUMNS", "1000");
    verify()
        .stdout("2 wheels checked: all files match\n")
        .check();
    let library = entry(&house).join("nvidia/cuda_runtime/lib/libcudart.so.12");
    let right = fs::read(&library).unwrap();
    let mut changed = right.clone();
    changed[right.len() / 2] ^= 1;
    let put = |bytes: &[u8]| {
        set_mode(&library, 0o644);
        fs::write(&library, bytes).unwrap();
        set_mode(&library, 0o444);
    };
    let named = "`nvidia/cuda_runtime/lib/libcudart.so.12` is not as RECORD says";
    let is_found = || {
        verify()
            .status(1)
            .stdout_contains(&[CUDART, named, "hint:", "chmod -R u+w ", "rm -r "])
            .check()
    };
    put(&changed);
    let text = is_found();
    assert!(!text.contains(CURAND), "{text}");
    put(&right);
    verify()
        .stdout("2 wheels checked: all files match\n")
        .check();
    let directory = library.parent().unwrap();
    set_mode(directory, 0o755);
    fs::remove_file(&library).unwrap();
    is_found();
    fs::write(&library, &right).unwrap();
    fs::write(directory.join("libstranger.so.1"), "").unwrap();
    verify()
        .status(1)
        .stdout_contains(&["`nvidia/cuda_runtime/lib/libstranger.so.1` is not"])
        .check();
    fs::remove_file(directory.join("libstranger.so.1")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", directory.join("libstranger.so.1")).unwrap();
    verify()
        .status(1)
        .stdout_contains(&["`nvidia/cuda_runtime/lib/libstranger.so.1` is a link"])
        .check();
    // The hint is a command that works: then the wheel is fetched anew.
    let hint = verify().status(1).any_stdout().check();
    let (_, hint) = hint.split_once("hint:").unwrap();
    let shell = std::process::Command::new("sh")
        .args(["-c", hint])
        .current_dir(house.path("home"))
        .status()
        .unwrap();
    assert!(shell.success(), "{hint}");
    house
        .fetch(&["cudart"])
        .stderr_contains(&["fetched "])
        .check();
    verify()
        .stdout("2 wheels checked: all files match\n")
        .check();
}

#[test]
fn prune_removes_the_wheels_that_no_program_has_used_for_long() {
    let house = filled();
    let prune = |words: &[&str]| house.run(&[&["fetch", "prune"], words].concat());
    prune(&[]).stdout("nothing to remove\n").check();
    age(&house, 100);
    prune(&["--older", "101"])
        .stdout("nothing to remove\n")
        .check();
    prune(&["--dry-run"])
        .stdout_contains(&[&format!("would remove {CUDART}\n")])
        .check();
    assert_eq!(house.entries().len(), 2);
    // A program that has used it today keeps it.
    house
        .run(&[&app("needs-cudart")])
        .stdout("cudart 12040\n")
        .check();
    prune(&[]).stdout("nothing to remove\n").check();
    fs::remove_dir_all(house.store().join("leases")).unwrap();
    let removed = prune(&[])
        .stdout_contains(&[&format!("removed {CUDART}\n")])
        .check();
    assert!(!removed.contains(CURAND), "{removed}");
    assert_eq!(house.entries(), [sum(&curand().bytes())]);
    prune(&["--all"])
        .stdout_contains(&[&format!("removed {CURAND}\n")])
        .check();
    assert_eq!(
        names(&house.store()),
        [".turn", "leases"][..names(&house.store()).len()]
    );
    house
        .fetch(&["cudart"])
        .stderr_contains(&["fetched "])
        .check();
}

#[test]
fn verify_and_prune_print_json() {
    let house = filled();
    let fault = |status: i32| {
        let json = house
            .run(&["fetch", "verify", "--json"])
            .status(status)
            .json();
        let wheels = json["wheels"].as_array().unwrap().clone();
        let mut faults: Vec<String> = wheels
            .iter()
            .filter_map(|wheel| wheel["fault"].as_str().map(str::to_owned))
            .collect();
        assert_eq!(wheels.len(), 2);
        faults.pop()
    };
    assert_eq!(fault(0), None);
    let library = entry(&house).join("nvidia/cuda_runtime/lib/libcudart.so.12");
    set_mode(&library, 0o644);
    fs::write(&library, "torn").unwrap();
    set_mode(&library, 0o444);
    assert!(
        fault(1)
            .unwrap()
            .contains("libcudart.so.12` is not as RECORD says")
    );
    let prune = |words: &[&str]| {
        let words = [&["fetch", "prune", "--json"], words].concat();
        let json = house.run(&words).json();
        json["wheels"].as_array().unwrap().len()
    };
    assert_eq!(prune(&[]), 0);
    assert_eq!(prune(&["--all", "--dry-run"]), 2);
    assert_eq!(prune(&["--all"]), 2);
    assert_eq!(prune(&["--all"]), 0);
}

#[test]
fn prune_keeps_a_wheel_that_a_process_maps() {
    let house = filled();
    let program = app("opens-cudart");
    house.run(&[&program]).stdout("opened 12040\n").check();
    let mut child = house.command(&[&program, "60"]).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    output.read_exact(&mut [0; 13]).unwrap();
    let prune = || house.run(&["fetch", "prune", "--all"]);
    let text = prune().any_stdout().check();
    assert!(text.contains(CURAND) && !text.contains(CUDART), "{text}");
    assert_eq!(house.entries(), [sum(&cudart().bytes())]);
    child.kill().unwrap();
    child.wait().unwrap();
    prune().stdout_contains(&[CUDART]).check();
    assert_eq!(house.entries(), [""; 0]);
    assert!(
        !names(&house.store())
            .iter()
            .any(|name| name.starts_with(".stage-"))
    );
}

#[test]
fn prune_keeps_a_wheel_that_the_lock_of_a_project_names() {
    let house = filled();
    let project = house.path("home/project");
    fs::create_dir(&project).unwrap();
    fs::write(project.join(".cudarun.toml"), "").unwrap();
    let app = app("needs-cudart");
    house
        .run(&["record", &app])
        .in_directory(&project)
        .any_stdout()
        .any_stderr()
        .check();
    let lock = fs::read_to_string(project.join(".cudarun.lock")).unwrap();
    assert!(lock.contains(&sum(&cudart().bytes())), "{lock}");
    house
        .run(&[&app])
        .in_directory(&project)
        .stdout("cudart 12040\n")
        .check();
    let prune = || house.run(&["fetch", "prune", "--all"]).any_stdout().check();
    let text = prune();
    assert!(text.contains(CURAND) && !text.contains(CUDART), "{text}");
    fs::remove_file(project.join(".cudarun.lock")).unwrap();
    assert!(prune().contains(CUDART));
}

#[test]
fn an_entry_without_its_description_does_not_count() {
    let house = filled();
    let app = app("needs-cudart");
    set_mode(&entry(&house), 0o755);
    fs::remove_file(entry(&house).join("meta.toml")).unwrap();
    house
        .run(&[&app])
        .status(125)
        .stderr_contains(&["cudart"])
        .check();
    let json = house.run(&["fetch", "list", "--json"]).json();
    assert_eq!(json["wheels"].as_array().unwrap().len(), 1);
}
