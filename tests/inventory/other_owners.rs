//! Installations that another user can change or add to: the real loader, with libraries of other owners. Each refusal
//! has its neighbour, which starts. Only root can give files to others.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::pin::real_loader::{Got, OPENER, TOP, WORLD};
use crate::support::gpu_machine::{GpuMachine, given, texts};
use crate::support::{CUDARUN, Workshop, copy_program, skipped};

const ME: u32 = 23456;
const OTHER: u32 = 12345;

/// A constructor that leaves a file, which shows that its library's code has run.
const TRACE: &str = r#"
__attribute__((constructor)) static void trace(void)
{
    const char *path = getenv("TRACE");
    FILE *file = path ? fopen(path, "a") : 0;
    if (file) fclose(file);
}
"#;

/// `good` is root's cuDNN 9.1.0, `planted` a 9.10.2 with a constructor.
struct Stage {
    workshop: Workshop,
    uid: u32,
    library_path: String,
    cwd: String,
    variables: Vec<(&'static str, String)>,
}

impl Stage {
    /// A stage for programs that `uid` starts; none without root's rights.
    fn of(uid: u32) -> Option<Stage> {
        if !nix::unistd::geteuid().is_root() {
            assert!(std::env::var_os("CUDARUN_TESTS_ALL").is_none(), "not root");
            skipped("only root can give files to others");
            return None;
        }
        let workshop = Workshop::new();
        let stage = Stage {
            workshop,
            uid,
            library_path: String::new(),
            cwd: String::new(),
            variables: Vec::new(),
        };
        stage.mode("", 0o755);
        copy_program(CUDARUN, stage.path("cudarun"));
        copy_program(WORLD.path("plain"), stage.path("plain"));
        for home in ["home", "traces"] {
            fs::create_dir(stage.path(home)).unwrap();
            stage.give(home, uid, uid);
        }
        stage.installation("old", "good");
        stage.installation("new", "planted");
        let flags = [
            "-DMINOR=10",
            "-DPATCH=2",
            "-Wl,--enable-new-dtags,-rpath,$ORIGIN",
        ];
        let source = [OPENER, TOP, TRACE].concat();
        stage.workshop.library(
            "planted/libcudnn.so.9.10.2",
            "libcudnn.so.9",
            &source,
            &flags,
        );
        Some(stage)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.workshop
            .directory
            .path()
            .canonicalize()
            .unwrap()
            .join(below)
    }

    fn text(&self, below: &str) -> String {
        self.path(below).display().to_string()
    }

    fn installation(&self, from: &str, to: &str) {
        let parent = self.path(to).parent().unwrap().to_owned();
        fs::create_dir_all(parent).unwrap();
        let done = Command::new("cp")
            .arg("-a")
            .arg(WORLD.path(from))
            .arg(self.path(to))
            .status()
            .unwrap();
        assert!(done.success());
        self.give(to, 0, 0);
        self.mode(to, 0o755);
    }

    fn mode(&self, below: &str, mode: u32) {
        fs::set_permissions(self.path(below), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// The directory and all that is in it.
    fn give(&self, below: &str, uid: u32, gid: u32) {
        for entry in walkdir::WalkDir::new(self.path(below)) {
            let path = entry.unwrap().into_path();
            std::os::unix::fs::lchown(path, Some(uid), Some(gid)).unwrap();
        }
    }

    /// The elements of LD_LIBRARY_PATH; one that begins with a dot, or is empty, stays as it is.
    fn searching(mut self, elements: &[&str]) -> Stage {
        let element = |it: &&str| {
            if it.is_empty() || it.starts_with('.') {
                (*it).to_owned()
            } else {
                self.text(it)
            }
        };
        self.library_path = elements.iter().map(element).collect::<Vec<_>>().join(":");
        self
    }

    fn entered(mut self, cwd: &str) -> Stage {
        cwd.clone_into(&mut self.cwd);
        self
    }

    fn set(mut self, name: &'static str, value: impl Into<String>) -> Stage {
        self.variables.push((name, value.into()));
        self
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"));
        command
            .env("LD_LIBRARY_PATH", &self.library_path)
            .env("TRACE", self.path("traces/run"));
        command
            .envs(self.variables.iter().cloned())
            .current_dir(self.path(&self.cwd));
        if self.uid != 0 {
            command.uid(self.uid).gid(self.uid);
        }
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(self.path("cudarun"))
            .args(arguments)
            .output()
            .unwrap()
    }

    /// The version of cuDNN that the program gets without cudarun: 90100 of `good`, 91002 of `planted`.
    fn control(&self) -> i32 {
        let output = self.command(self.path("plain")).output().unwrap();
        self.forget();
        Got::read(&String::from_utf8_lossy(&output.stdout)).version
    }

    fn forget(&self) {
        let _ = fs::remove_file(self.path("traces/run"));
    }

    /// The only directory that the program's cuDNN comes from.
    #[track_caller]
    fn given_by(&self, options: &[&str]) -> PathBuf {
        let program = self.text("plain");
        let output = self.output(&[options, &[&program]].concat());
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}{err}");
        let got = Got::read(&out);
        assert_eq!(got.directories.len(), 1, "{got:?}");
        let has_run = self.path("traces/run").exists();
        assert_eq!(
            has_run,
            got.directories[0] == self.path("planted"),
            "code that was not picked has run"
        );
        self.forget();
        got.directories[0].clone()
    }

    #[track_caller]
    fn given(&self) -> PathBuf {
        self.given_by(&[])
    }

    fn explained(&self, words: &[&str]) -> Value {
        let output = self.output(&[&["explain", "--json"], words].concat());
        let (out, err) = texts(&output);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}\n{out}{err}"))
    }

    /// Why an installation was not picked.
    fn why(&self, directory: &str) -> Value {
        let explained = self.explained(&[&self.text("plain")]);
        let families = explained["families"]
            .as_array()
            .unwrap_or_else(|| panic!("{explained:#}"));
        let candidates = families[0]["candidates"].as_array().unwrap();
        let found = candidates
            .iter()
            .find(|it| it["directory"] == self.text(directory).as_str());
        found.unwrap_or_else(|| panic!("{explained:#}"))["reason"].clone()
    }
}

#[test]
fn an_empty_element_brings_nothing_that_the_loader_would_not_take() {
    for uid in [0, ME] {
        for (owner, mode) in [(OTHER, 0o755), (0, 0o1777), (0, 0o755)] {
            let Some(stage) = Stage::of(uid) else { return };
            let stage = stage.searching(&["good", ""]).entered("planted");
            stage.give("planted", owner, owner);
            stage.mode("planted", mode);
            assert_eq!(stage.control(), 90100, "the loader alone takes the first");
            assert_eq!(stage.given(), stage.path("good"), "{uid} {owner} {mode:o}");
            // Named in full, the last of them is anybody's to pick.
            let stage = stage.searching(&["good", "planted"]);
            let expected = if owner == 0 && mode == 0o755 {
                "planted"
            } else {
                "good"
            };
            assert_eq!(
                stage.given(),
                stage.path(expected),
                "{uid} {owner} {mode:o}"
            );
        }
    }
}

#[test]
fn a_relative_element_is_taken_where_the_loader_takes_it() {
    let Some(stage) = Stage::of(ME) else { return };
    let stage = stage.searching(&["./planted", "good"]);
    assert_eq!(stage.control(), 91002);
    assert_eq!(stage.given(), stage.path("planted"), "root's");
    stage.give("planted", OTHER, OTHER);
    assert_eq!(
        stage.given(),
        stage.path("good"),
        "another user's, and something safe fits"
    );
    let stage = stage.searching(&["good", "./planted"]);
    stage.give("planted", ME, ME);
    assert_eq!(stage.given(), stage.path("good"));
    assert_eq!(stage.why("planted")["who"], "current-directory");
}

#[test]
fn a_newer_installation_that_another_user_can_change_does_not_win() {
    for uid in [0, ME] {
        let Some(stage) = Stage::of(uid) else { return };
        let stage = stage.searching(&["good", "planted"]);
        assert_eq!(stage.given(), stage.path("planted"), "root's, the newest");
        stage.give("planted", uid, uid);
        assert_eq!(stage.given(), stage.path("planted"), "the user's own");
        stage.mode("planted", 0o775);
        assert_eq!(
            stage.given(),
            stage.path("planted"),
            "of the user's own group"
        );
        for (owner, group, mode, who) in [
            (OTHER, OTHER, 0o755, "user"),
            (0, 0, 0o1777, "everybody-adds"),
            (0, 0, 0o777, "everybody"),
            (uid, OTHER, 0o775, "group"),
        ] {
            stage.give("planted", owner, group);
            stage.mode("planted", mode);
            assert_eq!(stage.control(), 90100);
            assert_eq!(stage.given(), stage.path("good"), "{uid}: {who}");
            let why = stage.why("planted");
            assert_eq!(
                (&why["reason"], &why["who"]),
                (&"writable".into(), &who.into()),
                "{why:#}"
            );
        }
        // One file of another user in root's directory is enough.
        stage.give("planted", 0, 0);
        stage.mode("planted", 0o755);
        chown(
            stage.path("planted/libcudnn_ops.so.9.10.2"),
            Some(OTHER),
            None,
        )
        .unwrap();
        assert_eq!(stage.given(), stage.path("good"));
    }
}

/// A service account's tree that its group can write to.
#[test]
fn a_named_installation_may_belong_to_another_user() {
    let Some(stage) = Stage::of(ME) else { return };
    stage.installation("new", "conda/lib");
    stage.installation("new", "toolkit/lib64");
    stage.workshop.write("conda/conda-meta/history", "");
    let module = stage.text("planted");
    stage.workshop.write(
        "modules/cudnn/9.10",
        &format!("#%Module\nprepend-path LD_LIBRARY_PATH {module}\n"),
    );
    for tree in ["planted", "conda", "toolkit"] {
        stage.give(tree, OTHER, OTHER);
        stage.mode(tree, 0o775);
    }
    stage.mode("toolkit/lib64", 0o775);
    let stage = stage.searching(&["good", "planted", "conda/lib", "toolkit/lib64"]);
    assert_eq!(stage.given(), stage.path("good"), "the control");
    assert_eq!(stage.given_by(&["--also", &module]), stage.path("planted"));
    assert_eq!(
        stage.given_by(&["--pin", &format!("cudnn={module}")]),
        stage.path("planted")
    );
    for (name, root, picked) in [
        ("CUDNN_PATH", "planted", "planted"),
        ("CUDA_HOME", "toolkit", "toolkit/lib64"),
        ("CONDA_PREFIX", "conda", "conda/lib"),
        ("_LMFILES_", "modules/cudnn/9.10", "planted"),
    ] {
        let value = stage.text(root);
        let output = stage
            .command(stage.path("cudarun"))
            .env(name, value)
            .arg(stage.path("plain"))
            .output()
            .unwrap();
        let (out, err) = texts(&output);
        assert_eq!(
            Got::read(&out).directories,
            [stage.path(picked)],
            "{name}: {out}{err}"
        );
    }
}

#[test]
fn the_loaders_own_choice_is_picked_if_nothing_safe_fits() {
    for uid in [0, ME] {
        let Some(stage) = Stage::of(uid) else { return };
        stage.installation("torn", "torn");
        stage.give("planted", OTHER, OTHER);
        let stage = stage.searching(&["planted"]);
        assert_eq!(
            stage.given(),
            stage.path("planted"),
            "an administrator's, perhaps"
        );
        let stage = stage.searching(&["planted", "torn"]);
        assert_eq!(
            stage.given(),
            stage.path("planted"),
            "the other does not fit"
        );
        let stage = stage.searching(&["planted", "good"]);
        assert_eq!(stage.control(), 91002);
        assert_eq!(stage.given(), stage.path("good"));
        assert_eq!(stage.why("planted")["criterion"], "private");
        // The loader alone would mix the two.
        let stage = stage.searching(&["torn", "planted"]);
        let output = stage.output(&[&stage.text("plain")]);
        let (out, err) = texts(&output);
        let hint = "hint: if you trust it: cudarun --also ./planted …";
        assert!(
            output.status.code() == Some(125) && err.contains(hint),
            "{out}{err}"
        );
        assert!(
            err.contains(&format!("belongs to another user (uid {OTHER})")),
            "{err}"
        );
        assert_eq!(
            stage.given_by(&["--also", &stage.text("planted")]),
            stage.path("planted"),
            "the hint helps"
        );
    }
}

#[test]
fn a_preloaded_installation_of_another_user_is_used() {
    let Some(stage) = Stage::of(ME) else { return };
    stage.give("planted", OTHER, OTHER);
    let preload = stage.text("planted/libcudnn.so.9.10.2");
    let stage = stage.searching(&["planted"]).set("LD_PRELOAD", preload);
    assert_eq!(stage.given(), stage.path("planted"));
}

#[test]
fn a_program_of_another_user_brings_its_own() {
    let Some(stage) = Stage::of(ME) else { return };
    for program in ["with-runpath", "with-rpath"] {
        let place = format!("app/{program}");
        fs::create_dir_all(stage.path("app")).unwrap();
        copy_program(WORLD.path(program), stage.path(&place));
    }
    stage.installation("old", "app/old");
    stage.give("app", OTHER, OTHER);
    for program in ["with-runpath", "with-rpath"] {
        let output = stage.output(&[&stage.text(&format!("app/{program}"))]);
        let (out, err) = texts(&output);
        assert_eq!(
            Got::read(&out).directories,
            [stage.path("app/old")],
            "{program}: {out}{err}"
        );
    }
}

#[test]
fn a_virtual_environment_of_another_user_brings_its_own() {
    let Some(stage) = Stage::of(ME) else { return };
    let code = "import sys; print('%d.%d' % sys.version_info[:2]); print(sys.executable)";
    let Ok(python) = stage.command("python3").args(["-c", code]).output() else {
        return skipped("there is no python3 here");
    };
    let (said, _) = texts(&python);
    let (version, executable) = said.trim().split_once('\n').unwrap();
    let site = format!("venv/lib/python{version}/site-packages");
    stage.installation("new", &format!("{site}/nvidia/cudnn/lib"));
    let home = Path::new(executable).parent().unwrap().display();
    stage.workshop.write(
        "venv/pyvenv.cfg",
        &format!("home = {home}\nversion = {version}.0\n"),
    );
    stage
        .workshop
        .write(&format!("{site}/ours/__init__.py"), "");
    let library = stage.path("good/libcudnn.so.9");
    let flags = [
        "-Wl,--no-as-needed,--allow-shlib-undefined",
        library.to_str().unwrap(),
    ];
    stage.workshop.library(
        &format!("{site}/ours/_ext.so"),
        "_ext.so",
        "int nothing;",
        &flags,
    );
    fs::create_dir(stage.path("venv/bin")).unwrap();
    symlink(executable, stage.path("venv/bin/python3")).unwrap();
    stage.give("venv", OTHER, OTHER);
    let stage = stage.searching(&["good"]);
    let explained = stage.explained(&[&stage.text("venv/bin/python3"), "-c", "import ours"]);
    let picked = &explained["families"][0]["picked"]["directory"];
    assert_eq!(
        *picked,
        stage.text(&format!("{site}/nvidia/cudnn/lib")),
        "{explained:#}"
    );
    // The control: the program of another environment is not given it.
    let stage = stage.searching(&["good", &format!("{site}/nvidia/cudnn/lib")]);
    assert_eq!(stage.given(), stage.path("good"));
}

#[test]
fn equal_installations_are_picked_in_path_order() {
    let Some(stage) = Stage::of(ME) else { return };
    for place in ["aa", "mm", "zz"] {
        stage.installation("new", place);
    }
    let stage = stage.searching(&["mm", "zz", "aa"]);
    assert_eq!(stage.given(), stage.path("mm"));
    assert_eq!(stage.why("aa")["criterion"], "search-order");
    let stage = stage.searching(&["zz", "aa"]);
    assert_eq!(stage.given(), stage.path("zz"));
    stage.give("zz", OTHER, OTHER);
    assert_eq!(stage.given(), stage.path("aa"), "another user's comes last");
}

/// A rootless container shows the files of its host's root, and of all whom it does not map, as those of one number.
#[test]
fn an_owner_outside_the_user_namespace_counts_as_root() {
    let Some(stage) = Stage::of(0) else { return };
    let stage = stage.searching(&["good", "planted"]);
    stage.give("planted", OTHER, OTHER);
    let given = |map: &str| {
        let mut command = stage.command("unshare");
        command
            .args([map, "--"])
            .arg(stage.path("cudarun"))
            .arg(stage.path("plain"));
        let output = command.output().unwrap();
        let (out, err) = texts(&output);
        (Got::read(&out).directories, format!("{out}{err}"))
    };
    if !Command::new("unshare")
        .args(["--map-root-user", "true"])
        .status()
        .is_ok_and(|it| it.success())
    {
        return skipped("no user namespace can be made here");
    }
    let (directories, told) = given("--map-root-user");
    assert_eq!(directories, [stage.path("planted")], "{told}");
    assert_eq!(
        given("--mount").0,
        [stage.path("good")],
        "the control: every owner is mapped"
    );
    stage.mode("planted", 0o757);
    assert_eq!(
        given("--map-root-user").0,
        [stage.path("good")],
        "everybody can write to it"
    );
}

/// A driver of the kernel's version in a directory of another user, first on the path: its code never runs.
#[test]
fn a_driver_of_another_user_is_not_picked() {
    let Some(stage) = Stage::of(0) else { return };
    let Some(machine) = GpuMachine::new(&["cudnn"]) else {
        return;
    };
    let source = r#"
        __attribute__((used)) static const char stamp[] = "libnvidia-pkcs11-openssl3.so.580.95.05";
        int cuInit(unsigned flags) { return 0; }"#;
    let libraries = [TRACE, source].concat();
    let source = format!("#include <stdio.h>\n#include <stdlib.h>\n{libraries}");
    machine
        .workshop
        .library("aa/libcuda.so.1", "libcuda.so.1", &source, &[]);
    machine
        .workshop
        .library("aa/libcudart.so.13", "libcudart.so.13", &source, &[]);
    let trace = stage.path("traces/run");
    let session = |owner: u32, elements: &[&str]| {
        for file in ["aa", "aa/libcuda.so.1", "aa/libcudart.so.13"] {
            chown(machine.path(file), Some(owner), Some(owner)).unwrap();
        }
        let _ = fs::remove_file(&trace);
        machine
            .session(elements)
            .of_root()
            .set("TRACE", trace.display().to_string())
    };
    for elements in [&["driver", "cudnn", "aa"][..], &["aa", "cudnn"]] {
        let output = session(OTHER, elements).start(&[]);
        assert_eq!(given(&output), "cudnn");
        assert!(!trace.exists(), "its code has run: {elements:?}");
    }
    // Control: root's own file is tried like any other, and the control shows that its code would run.
    let output = session(0, &["aa", "cudnn"]).start(&[]);
    assert!(trace.exists(), "{:?}", texts(&output));
}
