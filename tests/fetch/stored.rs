//! `cudarun fetch list` and `prune`.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, SystemTime};

use nix::unistd::geteuid;

use super::wheelhouse::{Wheelhouse, app, cudart, curand, names, sum};
use crate::support::{CUDARUN, copy_program};

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

/// Makes the last use of the CUDA runtime older.
fn age(house: &Wheelhouse, days: u64) {
    let about = fs::File::open(entry(house).join("meta.toml")).unwrap();
    let then = SystemTime::now() - Duration::from_hours(24 * days);
    about.set_modified(then).unwrap();
}

const CUDART: &str = "nvidia-cuda-runtime-cu12 12.4.127";
const CURAND: &str = "nvidia-curand-cu12 10.3.5.147";

#[test]
fn a_list_shows_each_wheel_and_its_last_use() {
    let empty = Wheelhouse::new(&[cudart()]);
    let none = "no fetched wheels in ./.local/share/cudarun/store\n";
    empty.run(&["fetch", "list"]).stdout(none).check();
    let json = empty.run(&["fetch", "list", "--json"]).json();
    assert_eq!(json["wheels"].as_array().unwrap().len(), 0);
    let house = filled();
    let list = house.run(&["fetch", "list"]).any_stdout().check();
    for part in [CUDART, CURAND, "fetched today", "last use today"] {
        assert!(list.contains(part), "{list}");
    }
    age(&house, 3);
    let line = || {
        // On one line each.
        let list = house.run(&["fetch", "list"]).env("COLUMNS", "1000");
        let list = list.any_stdout().check();
        let line = list.lines().find(|line| line.contains(CUDART)).unwrap();
        line.to_owned()
    };
    assert!(line().ends_with("last use 3 days ago"), "{}", line());
    let app = app("needs-cudart");
    house.run(&[&app]).stdout("cudart 12040\n").check();
    assert!(line().ends_with("last use today"), "{}", line());
    let json = house.run(&["fetch", "list", "--json"]).json();
    let wheels = json["wheels"].as_array().unwrap();
    let one = wheels
        .iter()
        .find(|wheel| wheel["distribution"] == "nvidia-cuda-runtime-cu12")
        .unwrap();
    assert_eq!(one["sha256"], sum(&cudart().bytes()));
    assert!(one["last_use"].as_i64() >= one["fetched"].as_i64());
    assert_eq!(wheels.len(), 2);
}

#[test]
fn a_tree_that_a_client_has_damaged_is_refused() {
    let house = filled();
    fs::rename(house.store(), house.path("store")).unwrap();
    let entry = house.path("store").join(sum(&cudart().bytes()));
    let installs = |damage: &str| {
        let script = format!(
            "#!/bin/sh\nPATH=/usr/bin:/bin\nwhile [ \"$1\" != --target ]; do shift; done\n\
            cp -r {}/nv* \"$2\" && chmod -R u+w \"$2\" && cd \"$2/nvidia/cuda_runtime/lib\" && {damage}\n",
            entry.display()
        );
        house.script("uv", &script);
        house
            .run(&["fetch", "--yes", "--client", "uv", "cudart"])
            .env("PATH", house.path("bin"))
    };
    let library = "`nvidia/cuda_runtime/lib/libcudart.so.12` is not as RECORD says";
    let stranger = "`nvidia/cuda_runtime/lib/libstranger.so.1` is";
    for (damage, message) in [
        ("printf changed >libcudart.so.12", library),
        ("rm libcudart.so.12", library),
        (
            ">libstranger.so.1",
            &format!("{stranger} not as RECORD says"),
        ),
        (
            "ln -s /etc/passwd libstranger.so.1",
            &format!("{stranger} a link"),
        ),
    ] {
        let refused = installs(damage).status(2);
        refused.stderr_contains(&[message]).check();
        house.has_no_entry();
    }
    // The control: the tree as it is.
    installs("true").stderr_contains(&["fetched "]).check();
    assert_eq!(house.entries().len(), 1);
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
    age(&house, 100);
    let removed = prune(&[])
        .stdout_contains(&[&format!("removed {CUDART}\n")])
        .check();
    assert!(!removed.contains(CURAND), "{removed}");
    assert_eq!(house.entries(), [sum(&curand().bytes())]);
    prune(&["--all"])
        .stdout_contains(&[&format!("removed {CURAND}\n")])
        .check();
    assert_eq!(names(&house.store()), [".turn"]);
    house
        .fetch(&["cudart"])
        .stderr_contains(&["fetched "])
        .check();
}

#[test]
fn prune_prints_json() {
    let house = filled();
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
    keeps_a_mapped_wheel(&filled());
    // The kernel shows the real path of a store that a link leads to.
    let house = filled();
    fs::rename(house.path("home/.local"), house.path("disk")).unwrap();
    symlink(house.path("disk"), house.path("home/.local")).unwrap();
    keeps_a_mapped_wheel(&house);
}

fn keeps_a_mapped_wheel(house: &Wheelhouse) {
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

/// Root may write everywhere, so another user removes them.
#[test]
fn prune_removes_what_it_can() {
    const HER: u32 = 65534;
    let house = filled();
    let own = house.path("cudarun");
    copy_program(CUDARUN, &own);
    let prune = || {
        let mut command = Command::new(&own);
        command
            .args(["fetch", "prune", "--all"])
            .env_clear()
            .envs(house.environment())
            .current_dir(house.path("home"));
        if geteuid().is_root() {
            command.uid(HER).gid(HER);
        }
        command.output().unwrap()
    };
    if geteuid().is_root() {
        let all = Command::new("chown")
            .args(["-R", &HER.to_string()])
            .arg(house.path(""))
            .status();
        assert!(all.unwrap().success());
        // Its files are another user's.
        for below in ["nvidia", "nvidia/curand"] {
            let other = house.store().join(sum(&curand().bytes())).join(below);
            chown(other, Some(0), None).unwrap();
        }
    }
    // As earlier versions have left them.
    let nvidia = entry(&house).join("nvidia");
    for directory in [nvidia.join("cuda_runtime/lib"), nvidia, entry(&house)] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let output = prune();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("removed {CUDART}\n")), "{text}");
    if geteuid().is_root() {
        assert!(!text.contains(CURAND), "{text}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("ermission denied"), "{error}");
    }
    assert!(!entry(&house).exists());
}

#[test]
fn an_entry_without_its_description_does_not_count() {
    let house = filled();
    let app = app("needs-cudart");
    fs::remove_file(entry(&house).join("meta.toml")).unwrap();
    house
        .run(&[&app])
        .status(125)
        .stderr_contains(&["cudart"])
        .check();
    let json = house.run(&["fetch", "list", "--json"]).json();
    assert_eq!(json["wheels"].as_array().unwrap().len(), 1);
}
