//! Stores that cannot be written or used, and a machine without a client.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output};

use super::killed::{Sums, is_sound};
use super::wheelhouse::{
    BUILT, Packed, TestWheel, Wheelhouse, app, cudart, curand, names, newer_cudart, shown, sum,
};
use crate::support::{CUDARUN, copy_program, is_root, skipped};

/// Runs shell code in a mount namespace of its own, as root: `$STORE` is the store, `$FETCH` the command, `$APP` a program.
/// None without the rights.
fn in_namespace(house: &Wheelhouse, code: &str) -> Option<Output> {
    let can_mount = || Command::new("unshare").args(["--mount", "true"]).status();
    if !is_root() || !can_mount().is_ok_and(|status| status.success()) {
        skipped("only root can mount");
        return None;
    }
    let fetch = format!(
        "{CUDARUN} fetch --yes --from {} cudart",
        house.path("wheels").display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "bash", "-ec", code]);
    command
        .env_clear()
        .envs(house.environment())
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
        .env("STORE", house.store())
        .env("FETCH", fetch)
        .env("APP", app("needs-cudart"));
    command
        .env("CUDARUN", CUDARUN)
        .current_dir(house.path("home"));
    Some(command.output().unwrap())
}

#[track_caller]
fn said(output: &Output, parts: &[&str]) {
    let text = shown(output);
    for part in parts {
        assert!(text.contains(part), "no `{part}`\n{text}");
    }
}

#[test]
fn the_file_of_an_administrator_forbids_as_well() {
    let house = Wheelhouse::new(&[cudart()]);
    let code = r#"
        mount -t tmpfs none /opt
        cp -r /etc /opt/etc
        mkdir -p /opt/etc/cudarun
        printf '[fetch]\nwhen = "never"\n' >/opt/etc/cudarun/config.toml
        mount --bind /opt/etc /etc
        $FETCH || echo "status $?"
        ls -A "$STORE" 2>/dev/null || echo 'no store'
        umount /etc
        $FETCH && $CUDARUN "$APP"
    "#;
    let Some(output) = in_namespace(&house, code) else {
        return;
    };
    said(
        &output,
        &[
            "settings forbid fetching (`when = \"never\"`)",
            "status 2\nno store\n",
            "cudart 12040\n",
        ],
    );
}

/// Its libraries are small in the wheel.
fn swelling() -> TestWheel {
    cudart().with(Packed::new(
        "nvidia/cuda_runtime/lib/zeros.bin",
        vec![0; 8 << 20],
    ))
}

#[test]
fn a_store_without_room_is_refused_first() {
    let house = Wheelhouse::new(&[cudart().with(Packed {
        is_deflated: false,
        ..Packed::new("nvidia/cuda_runtime/lib/zeros.bin", vec![0; 8 << 20])
    })]);
    let code = r#"
        mkdir -p -m 700 "$STORE"
        mount -t tmpfs -o size=2000k,mode=700 none "$STORE"
        $FETCH || echo "status $?"
        ls -A "$STORE"
        mount -o remount,size=40m "$STORE"
        $FETCH && $CUDARUN "$APP"
    "#;
    let Some(output) = in_namespace(&house, code) else {
        return;
    };
    said(
        &output,
        &[
            "store has 2.0 MB free, and 17.6 MB are needed",
            "hint: XDG_DATA_HOME=DIR cudarun …",
            "status 2\n.turn\n",
            "cudart 12040\n",
        ],
    );
}

#[test]
fn a_disk_that_fills_up_leaves_no_entry() {
    let house = Wheelhouse::new(&[swelling()]);
    let code = r#"
        mkdir -p -m 700 "$STORE"
        mount -t tmpfs -o size=2m,mode=700 none "$STORE"
        $FETCH || echo "status $?"
        ls -A "$STORE" | grep -v '^\.' || echo 'no entry'
        $CUDARUN "$APP" || echo "start $?"
        mount -o remount,size=40m "$STORE"
        $FETCH && $CUDARUN "$APP" && wc -c <"$(echo "$STORE"/*/nvidia/cuda_runtime/lib/zeros.bin)" && ls "$STORE" | wc -l
    "#;
    let Some(output) = in_namespace(&house, code) else {
        return;
    };
    said(
        &output,
        &[
            "zeros.bin`: no space left on device",
            "status 2\nno entry\n",
            "start 125\n",
            "cudart 12040\n",
            "8388608\n1\n",
        ],
    );
}

#[test]
fn a_read_only_store_is_read_and_not_written() {
    let house = Wheelhouse::new(&[cudart(), curand()]);
    house.fetch(&["cudart"]).any_stderr().check();
    let code = r#"
        mount --bind "$STORE" "$STORE"
        mount -o remount,ro,bind "$STORE"
        $CUDARUN "$APP"
        $CUDARUN fetch list
        $FETCH && echo "again $?"
        $FETCH curand || echo "status $?"
        $CUDARUN fetch prune --all || echo "prune $?"
        ls -A "$STORE" | wc -l
    "#;
    let Some(output) = in_namespace(&house, code) else {
        return;
    };
    said(
        &output,
        &[
            "cudart 12040\n",
            "nvidia-cuda-runtime-cu12 12.4.127",
            "again 0\n",
            "store`: read-only file system",
            "status 2\n",
            "prune 2\n2\n",
        ],
    );
    let kept = Sums::from([(sum(&cudart().bytes()), cudart())]);
    assert_eq!(is_sound(&house.store(), &kept), 1);
}

#[test]
fn a_store_that_is_mounted_noexec_is_refused() {
    let house = Wheelhouse::new(&[cudart()]);
    let code = r#"
        mkdir -p -m 700 "$STORE"
        mount -t tmpfs -o noexec,mode=700 none "$STORE"
        $FETCH || echo "status $?"
        ls -A "$STORE"
        mount -o remount,exec "$STORE"
        $FETCH && $CUDARUN "$APP"
    "#;
    let Some(output) = in_namespace(&house, code) else {
        return;
    };
    said(
        &output,
        &[
            "store is mounted `noexec`: no library there can be loaded",
            "hint: XDG_DATA_HOME=DIR cudarun …",
            "status 2\n.turn\n",
            "cudart 12040\n",
        ],
    );
}

#[test]
fn a_user_without_a_home_needs_a_named_store() {
    if !is_root() {
        return skipped("only root can become a user that no file knows");
    }
    let house = Wheelhouse::new(&[cudart()]);
    let set = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(&house.path(""), 0o755);
    copy_program(CUDARUN, house.path("cudarun"));
    copy_program(BUILT.path("needs-cudart"), house.path("app"));
    let cudarun = |words: &[&str]| {
        let mut command = Command::new(which::which("setpriv").unwrap());
        command
            .args(["--reuid", "54321", "--regid", "54321", "--clear-groups"])
            .arg(house.path("cudarun"));
        command
            .args(words)
            .env_clear()
            .envs(house.environment())
            .env_remove("HOME")
            .current_dir("/");
        command
    };
    let from = house.path("wheels");
    let fetch = || cudarun(&["fetch", "--yes", "--from", from.to_str().unwrap(), "cudart"]);
    let output = fetch().output().unwrap();
    said(
        &output,
        &[
            "cudarun: there is no home directory for the store\n",
            "hint: XDG_DATA_HOME=DIR cudarun …",
        ],
    );
    assert_eq!(output.status.code(), Some(2));
    let data = house.path("data");
    fs::create_dir(&data).unwrap();
    chown(&data, Some(54321), Some(54321)).unwrap();
    said(
        &fetch().env("XDG_DATA_HOME", &data).output().unwrap(),
        &["fetched"],
    );
    assert_eq!(
        names(&data.join("cudarun/store")),
        [".turn", &sum(&cudart().bytes())]
    );
    let app = house.path("app");
    let start = || cudarun(&[app.to_str().unwrap()]);
    assert_eq!(
        start().output().unwrap().status.code(),
        Some(125),
        "the control"
    );
    said(
        &start().env("XDG_DATA_HOME", &data).output().unwrap(),
        &["cudart 12040\n"],
    );
}

#[test]
fn a_machine_without_a_client_is_told_which_to_install() {
    let house = Wheelhouse::new(&[cudart()]);
    let fetch = |words: &[&str]| {
        house
            .run(&[&["fetch", "--yes"], words, &["cudart"]].concat())
            .status(2)
    };
    let hint = "hint: install `uv`, or Python with pip; or get the wheels elsewhere, with `cudarun fetch --into DIR`";
    fetch(&[])
        .stderr_contains(&["cudarun: neither `uv` nor `pip` is in PATH\n", hint])
        .check();
    fetch(&["--client", "uv"])
        .stderr_contains(&["cudarun: `uv` is not in PATH\n", hint])
        .check();
    fetch(&["--client", "pip"])
        .stderr_contains(&["cudarun: `pip` is not in PATH\n", hint])
        .check();
    assert_eq!(names(&house.store()), [""; 0]);
    let app = app("needs-cudart");
    let start = house.run(&["--fetch", "--yes", &app]).status(125);
    start
        .stderr_contains(&["neither `uv` nor `pip` is in PATH"])
        .check();
    house
        .fetch(&["cudart"])
        .stderr_contains(&["fetched"])
        .check();
}

#[test]
fn a_wheel_that_no_directory_has_is_named() {
    let house = Wheelhouse::new(&[cudart()]);
    let name = cudart().file_name();
    fs::remove_file(house.path("wheels").join(&name)).unwrap();
    let message = format!(
        "cudarun: {name} is not in {}\n",
        house.path("wheels").display()
    );
    let hint = "hint: on a machine with a network: cudarun fetch --into DIR";
    house
        .fetch(&["cudart"])
        .status(2)
        .stderr_contains(&[&message, hint])
        .check();
    house.has_no_entry();
    // The second directory is asked as well.
    let second = house.path("second");
    fs::create_dir(&second).unwrap();
    fs::write(second.join(&name), cudart().bytes()).unwrap();
    house
        .fetch(&["--from", second.to_str().unwrap(), "cudart"])
        .stderr_contains(&["fetched"])
        .check();
}

#[test]
fn the_wheels_of_the_directory_are_preferred_to_newer_ones() {
    let house = Wheelhouse::new(&[cudart(), newer_cudart()]);
    let app = app("needs-cudart");
    let newer = ["fetched nvidia-cuda-runtime-cu12 12.9.79"];
    let older = ["fetched nvidia-cuda-runtime-cu12 12.4.127"];
    house.fetch(&[&app]).stderr_contains(&newer).check();
    let house = Wheelhouse::new(&[cudart(), newer_cudart()]);
    fs::remove_file(house.path("wheels").join(newer_cudart().file_name())).unwrap();
    let missing = format!(
        "{} is not in {}\n",
        newer_cudart().file_name(),
        house.path("wheels").display()
    );
    let dry_run = |words: &[&str]| house.fetch(&[&["--dry-run"], words].concat()).any_stdout();
    dry_run(&["cudart=12.9"])
        .status(1)
        .stdout_contains(&["nvidia-cuda-runtime-cu12 12.9.79"])
        .stderr_contains(&[&missing])
        .check();
    dry_run(&["cudart"]).check();
    let nowhere = house
        .run(&["fetch", "--dry-run", "--from", "nowhere", "cudart"])
        .status(2);
    nowhere
        .stderr("cudarun: --from `nowhere`: no such directory\n")
        .check();
    house.fetch(&["cudart"]).stderr_contains(&older).check();
    let house = Wheelhouse::new(&[cudart(), newer_cudart()]);
    fs::remove_file(house.path("wheels").join(newer_cudart().file_name())).unwrap();
    house.fetch(&[&app]).stderr_contains(&older).check();
}

#[test]
fn a_store_that_others_can_write_is_neither_written_nor_used() {
    let house = Wheelhouse::new(&[cudart()]);
    let set = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    house.fetch(&["cudart"]).any_stderr().check();
    let app = app("needs-cudart");
    let start = || house.run(&[&app]);
    start().stdout("cudart 12040\n").check();
    set(&house.store(), 0o777);
    start().status(125).stderr_contains(&["cudart"]).check();
    fs::remove_dir_all(house.path("home/.cache")).unwrap();
    start().status(125).stderr_contains(&["cudart"]).check();
    let again = Wheelhouse::new(&[cudart()]);
    fs::create_dir_all(again.store()).unwrap();
    for mode in [0o777, 0o770] {
        set(&again.store(), mode);
        let run = again.fetch(&["cudart"]).status(2);
        run.stderr_contains(&["store cannot be used: "]).check();
        assert_eq!(names(&again.store()), [""; 0]);
    }
    set(&again.store(), 0o700);
    again
        .fetch(&["cudart"])
        .stderr_contains(&["fetched"])
        .check();
}

#[test]
fn wheels_for_another_machine_are_only_downloaded() {
    let house = Wheelhouse::new(&[cudart(), curand()]);
    let Some(pip) = house.pip() else { return };
    let into = house.path("into");
    let words = [
        "fetch",
        "--yes",
        "--into",
        into.to_str().unwrap(),
        "cudart",
        "curand",
    ];
    pip.run(&words).stderr_contains(&["2 wheels, "]).check();
    assert_eq!(names(&into), [cudart().file_name(), curand().file_name()]);
    assert_eq!(names(&house.store()), [""; 0]);
    pip.run(&words).any_stderr().check();
    assert_eq!(pip.calls(), 2);
    fs::write(into.join(cudart().file_name()), "torn").unwrap();
    pip.run(&words).any_stderr().check();
    assert_eq!(
        fs::read(into.join(cudart().file_name())).unwrap(),
        cudart().bytes()
    );
    let other = Wheelhouse::new(&[cudart(), curand()]);
    let program = app("needs-both");
    let fetch = ["fetch", "--yes", "--from", into.to_str().unwrap(), &program];
    other.run(&fetch).stderr_contains(&["2 wheels, "]).check();
    other
        .run(&[&program])
        .stdout("cudart 12040, curand 10305\n")
        .check();
}

/// The directory has the names that pip and cudarun use while they work.
#[test]
fn a_download_changes_no_file_of_the_directory() {
    let house = Wheelhouse::new(&[cudart()]);
    let Some(pip) = house.pip() else { return };
    let into = house.path("into");
    fs::create_dir(&into).unwrap();
    fs::write(into.join("requirements.txt"), "mine").unwrap();
    fs::write(house.path("other"), "mine").unwrap();
    symlink(house.path("other"), into.join(cudart().file_name())).unwrap();
    let words = ["fetch", "--yes", "--into", into.to_str().unwrap(), "cudart"];
    pip.run(&words).stderr_contains(&["fetched "]).check();
    let names = names(&into);
    assert_eq!(names, [cudart().file_name(), "requirements.txt".into()]);
    for mine in [into.join("requirements.txt"), house.path("other")] {
        assert_eq!(fs::read_to_string(mine).unwrap(), "mine");
    }
    let wheel = fs::read(into.join(cudart().file_name())).unwrap();
    assert!(wheel == cudart().bytes());
}

/// Python would import these modules from its current directory; `tests/attacks.py` has other clients and users.
#[test]
fn a_client_obeys_no_file_of_the_current_directory() {
    let house = Wheelhouse::new(&[cudart()]);
    let Some(pip) = house.pip() else { return };
    let python = fs::read_to_string(house.path("bin/pip")).unwrap();
    let python = python.replace(" -m pip", "");
    fs::remove_file(house.path("bin/pip")).unwrap();
    house.script("python3", &python);
    let fetch = || {
        if house.store().exists() {
            fs::remove_dir_all(house.store()).unwrap();
        }
        pip.run(&["fetch", "--yes", "cudart"])
    };
    for module in ["pip.py", "importlib.py", "sysconfig.py"] {
        let planted = house.path("home").join(module);
        fs::write(
            &planted,
            "open('MARK', 'w')".replace("MARK", house.path("mark").to_str().unwrap()),
        )
        .unwrap();
        fetch().stderr_contains(&["fetched "]).check();
        assert!(!house.path("mark").exists(), "{module}");
        // Elements that lead to the current directory.
        let fetched = fetch().env("PYTHONPATH", ":").any_stderr();
        fetched.check();
        assert!(!house.path("mark").exists(), "{module}");
        // The control: a person names it.
        let named = fetch().env("PYTHONPATH", house.path("home"));
        named.status(2).any_stderr().check();
        assert!(house.path("mark").exists(), "{module}");
        fs::remove_file(house.path("mark")).unwrap();
        fs::remove_file(planted).unwrap();
    }
}

#[test]
fn a_client_in_a_relative_element_of_path_is_none() {
    let house = Wheelhouse::new(&[cudart()]);
    house.script("uv", "#!/bin/sh\npwd >&2\nexit 1\n");
    let bin = house.path("bin");
    let fetch = |path: &str| {
        let run = house.run(&["fetch", "--yes", "cudart"]).in_directory(&bin);
        run.env("PATH", path).status(2)
    };
    for path in ["", ":/none", "/none:", ".", "../bin"] {
        let none = fetch(path).stderr_contains(&["neither `uv` nor `pip` is in PATH"]);
        none.check();
    }
    fetch(bin.to_str().unwrap())
        .stderr_contains(&["`uv` could not get ", "\n  /\n"])
        .check();
}
