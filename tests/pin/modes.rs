//! The modes that are stronger than a library path, and what a trace says of them, under the real loader. Each cure
//! has its control: the same start without cudarun, or in a weaker mode, goes wrong.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::pin::real_loader::{Got, PROGRAM, WORLD};
use crate::predict::trace::read;
use crate::support::{CUDARUN, Run, bare};

/// A run of cudarun with these options on a program of the world.
pub fn on(options: &[&str], program: &str) -> Run {
    let words = options
        .iter()
        .map(PathBuf::from)
        .chain([WORLD.path(program)]);
    Run::new(words).env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
}

fn got(run: Run) -> Got {
    Got::read(&run.any_stdout().check())
}

fn all_new() -> Got {
    Got {
        version: 91002,
        directories: vec![WORLD.path("new")],
        files: 9,
    }
}

/// A program that opens the old installation by its path, and what it maps without cudarun.
fn opens_by_path() -> PathBuf {
    let world = &*WORLD;
    let old = world.path("old/libcudnn.so.9");
    let source = PROGRAM
        .replace("int cudnnGetVersion(void);", "#include <dlfcn.h>")
        .replace(
            r#"printf("%d\n", cudnnGetVersion());"#,
            &format!(
                r#"void *all = dlopen("{}", RTLD_NOW);
               printf("%d\n", ((int (*)(void))dlsym(all, "cudnnGetVersion"))());"#,
                old.display()
            ),
        );
    let program = world.path("").join("by-path");
    if !program.exists() {
        world.workshop.compile("by-path", &source, &[]);
    }
    program
}

fn why(passed: &Value) -> (&str, &str) {
    (
        passed["mode"].as_str().unwrap(),
        passed["why"].as_str().unwrap(),
    )
}

#[test]
fn a_library_is_pinned_against_a_misleading_search_path() {
    let control = WORLD.control("with-torn-rpath", &WORLD.library_path(&["new"]));
    assert_eq!(
        control.directories.len(),
        2,
        "the control must mix: {control:?}"
    );
    assert_eq!(got(on(&[], "with-torn-rpath")), all_new());
    assert_eq!(got(on(&["--pin-mode=audit"], "with-torn-rpath")), all_new());
    assert_eq!(
        got(on(&["--pin-mode=preload"], "with-torn-rpath")),
        all_new()
    );
    let explained = on(&["explain", "--json"], "with-torn-rpath").json();
    assert_eq!(explained["mode"], "audit");
    assert_eq!(
        why(&explained["passed_over"][0]),
        ("none", "shadowed-by-rpath")
    );
    let directory = |file: &Value| {
        PathBuf::from(file["path"].as_str().unwrap())
            .parent()
            .unwrap()
            .to_owned()
    };
    let before: Vec<PathBuf> = explained["before"]
        .as_array()
        .unwrap()
        .iter()
        .map(directory)
        .collect();
    assert!(
        before.contains(&WORLD.path("torn")) && before.contains(&WORLD.path("new")),
        "{before:?}"
    );
    let view = PathBuf::from(explained["view"].as_str().unwrap());
    let after = explained["after"].as_array().unwrap();
    assert!(
        after.iter().all(|file| directory(file) == view),
        "{after:#?}"
    );
}

#[test]
fn a_named_installation_wins_over_a_search_path() {
    let directory = format!("--pin=cudnn={}", WORLD.path("new").display());
    for pin in [directory.as_str(), "--pin=cuDNN=9.10", "--pin=cudnn=9.10.2"] {
        for mode in [&[][..], &["--pin-mode=audit"], &["--pin-mode=view"]] {
            let options = [mode, &[pin]].concat();
            assert_eq!(got(on(&options, "with-rpath")), all_new(), "{options:?}");
        }
    }
    // The controls: without a pin the search path decides, and without an addition nothing wins against it.
    assert_eq!(got(on(&[], "with-rpath")).directories, [WORLD.path("old")]);
    on(&["--pin-mode=none", "--pin=cudnn=9.10"], "with-rpath")
        .status(125)
        .stderr_contains(&[
            "error: no cuDNN here fits",
            "LD_LIBRARY_PATH alone cannot help",
            "hint: leave out --pin-mode: audit is enough",
        ])
        .check();
}

#[test]
fn only_an_auditor_redirects_a_library_that_is_opened_by_path() {
    let program = opens_by_path();
    let control = bare(&program, &[], &BTreeMap::new());
    let control = Got::read(&String::from_utf8_lossy(&control.stdout));
    assert_eq!(
        control.directories,
        [WORLD.path("old")],
        "the control must map the one that it names"
    );
    let run = |options: &[&str]| on(&[&["--pin=cudnn=9.10"], options].concat(), "by-path");
    assert_eq!(got(run(&[])), all_new());
    run(&["--pin-mode=view"])
        .status(125)
        .stderr_contains(&[
            "error: no cuDNN here fits",
            "an absolute path",
            "view is not enough",
            "(by its path)",
        ])
        .check();
}

#[test]
fn a_wish_that_makes_no_sense_is_an_error_and_one_that_fits_nothing_a_refusal() {
    let error = |option: &str, says: &str| {
        on(&[option], "plain")
            .status(125)
            .stderr_contains(&[says])
            .check()
    };
    error(
        "--pin=cudnn",
        "--pin: `cudnn` is not a pin such as cudnn=9.10 or cudnn=/opt/cudnn/lib",
    );
    error(
        "--pin=cudnn=",
        "--pin: `cudnn=` is not a version or a directory",
    );
    error("--pin=cudn=9", "hint: did you mean cudnn?");
    error(
        "--pin=cudnn=/nowhere",
        "--pin: `pin.cudnn`: `/nowhere` is not a directory",
    );
    error("--pin=cudnn=9.9", "--pin pins 9.9");
    // No program requires it by name; the option still does.
    error("--pin=nccl=2.20", "error: no NCCL here fits");
    on(&["--pin-mode=strong"], "plain")
        .status(125)
        .stderr_contains(&["invalid value 'strong'"])
        .check();
}

#[test]
fn mode_none_adds_nothing_and_what_no_plan_keeps_is_removed() {
    let elements = WORLD.library_path(&["", "stubs", "old"]);
    let run = |mode: &str| {
        on(&["export", "--json", mode], "plain")
            .env("LD_LIBRARY_PATH", &elements)
            .json()
    };
    // The word of earlier versions is another name for it.
    for word in ["--pin-mode=none", "--pin-mode=clean"] {
        assert_eq!(
            run(word)["environment"],
            serde_json::json!({ "LD_LIBRARY_PATH": WORLD.path("old") })
        );
    }
    assert!(run("--pin-mode=view")["environment"]["CUDARUN_VIEW"].is_string());
}

#[test]
fn settings_of_an_outer_start_are_removed_if_not_needed() {
    let home = tempfile::tempdir().unwrap();
    let outer = on(&["export", "--json", "--pin=cudnn=9.10"], "with-rpath")
        .env("HOME", home.path())
        .json();
    let variables = outer["environment"].as_object().unwrap();
    assert!(
        variables["LD_AUDIT"]
            .as_str()
            .unwrap()
            .starts_with(home.path().join(".cache/cudarun/audit").to_str().unwrap())
    );
    // Whoever starts the program later, the module does not know that process: it is followed.
    assert!(!variables.contains_key("CUDARUN_PINS"), "{variables:?}");
    let mut inner = on(&["export", "--json"], "plain").env("HOME", home.path());
    for (name, value) in variables {
        inner = inner.env(name, value.as_str().unwrap());
    }
    assert_eq!(inner.json()["environment"], serde_json::json!({}));
    // An auditor and tunables of others stay.
    let others = on(&["export", "--json", "--pin=cudnn=9.10"], "with-rpath")
        .env("LD_AUDIT", "/opt/auditor.so")
        .env("GLIBC_TUNABLES", "glibc.malloc.perturb=1")
        .any_stderr()
        .json();
    let auditors = others["environment"]["LD_AUDIT"].as_str().unwrap();
    assert!(auditors.starts_with("/opt/auditor.so:"), "{auditors}");
    let tunables = &others["environment"]["GLIBC_TUNABLES"];
    assert_eq!(
        tunables,
        "glibc.malloc.perturb=1:glibc.rtld.optional_static_tls=16384"
    );
}

#[test]
fn a_pinned_start_is_kept_and_made_anew_when_what_it_needs_is_gone() {
    let home = tempfile::tempdir().unwrap();
    // An installation of its own: where something was written while a start is worked out, it is not kept.
    let own = home.path().canonicalize().unwrap().join("own");
    let installation = Command::new("cp")
        .arg("-a")
        .arg(WORLD.path(""))
        .arg(&own)
        .status()
        .unwrap();
    assert!(installation.success());
    // Nor where it was written a moment before.
    std::thread::sleep(std::time::Duration::from_millis(100));
    let all_new = || Got {
        directories: vec![own.join("new")],
        ..all_new()
    };
    let start = || {
        let run = Run::new([own.join("with-torn-rpath")]).env("LD_LIBRARY_PATH", own.join("new"));
        got(run.env("HOME", home.path()))
    };
    assert_eq!(start(), all_new());
    let starts = home.path().join(".cache/cudarun/starts");
    assert_eq!(std::fs::read_dir(starts).unwrap().count(), 1);
    assert_eq!(start(), all_new(), "the kept start");
    for entry in std::fs::read_dir(home.path().join(".cache/cudarun/audit")).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    assert_eq!(
        start(),
        all_new(),
        "without the module, which is there again"
    );
    assert_eq!(
        std::fs::read_dir(home.path().join(".cache/cudarun/audit"))
            .unwrap()
            .count(),
        1
    );
}

#[test]
fn a_trace_tells_what_was_mapped_and_leaves_the_program_alone() {
    let run = on(&["trace"], "with-torn-rpath").stderr_contains(&[
        "libcudnn.so.9 ",
        "  for the program, pinned",
        "  as planned\n",
        "NVIDIA files came from the plan\n",
    ]);
    assert_eq!(got(run), all_new(), "standard output is the program's");
    let as_is = on(&["trace", "--as-is"], "with-torn-rpath")
        .stderr_contains(&["DT_RPATH or DT_RUNPATH", "LD_LIBRARY_PATH"]);
    assert_eq!(
        got(as_is),
        WORLD.control("with-torn-rpath", &WORLD.library_path(&["new"]))
    );
    let nothing = Run::new(["trace", "true"]).stderr("cudarun: one process, no NVIDIA library\n");
    nothing.check();
}

#[test]
fn a_trace_sees_children_and_ends_as_the_program_does() {
    let report = WORLD.path("").join("report.json");
    let script = format!(
        "{0} > /dev/null; {0} > /dev/null; exit 7",
        WORLD.path("plain").display()
    );
    let words = [
        "trace",
        "--json",
        "-o",
        report.to_str().unwrap(),
        "sh",
        "-c",
        &script,
    ];
    let run = Run::new(words)
        .env("LD_LIBRARY_PATH", WORLD.library_path(&["old"]))
        .status(7);
    run.check();
    let report = crate::predict::trace::read(&report);
    let images = report["images"].as_array().unwrap();
    let of_cudnn = |image: &&Value| !image["files"].as_array().unwrap().is_empty();
    assert_eq!(images.iter().filter(of_cudnn).count(), 2, "{images:#?}");
    let by_signal = Command::new(CUDARUN)
        .args(["trace", "sh", "-c", "kill -TERM $$"])
        .env("HOME", WORLD.path(""))
        .output()
        .unwrap();
    assert_eq!(by_signal.status.signal(), Some(15));
    // A signal that is sent to cudarun reaches the program.
    let slow =
        format!("exec {CUDARUN} trace sh -c 'trap \"exit 9\" TERM; echo ready; sleep 5 & wait'");
    let slow = format!("{{ ({slow}) & }} 2>/dev/null; pid=$!; sleep 1; kill -TERM $pid; wait $pid");
    let ended = Command::new("sh")
        .args(["-c", &slow])
        .env("HOME", WORLD.path(""))
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(9), "{ended:?}");
}

#[test]
fn a_program_without_the_loader_is_not_traced_and_the_reason_is_given() {
    let world = &*WORLD;
    world
        .workshop
        .compile("static", "int main(void) { return 0; }", &["-static"]);
    Run::new(["trace".into(), world.path("static")])
        .status(125)
        .stderr_contains(&[
            "cudarun: the program cannot be traced: ",
            "`static` is linked statically",
        ])
        .check();
    Run::new(["trace", "--root", "/", "true"])
        .status(125)
        .stderr_contains(&["which is not possible with --root"])
        .check();
    Run::new(["trace", "-o", "/nowhere/report", "true"])
        .status(125)
        .stderr_contains(&["cannot write `/nowhere/report`"])
        .check();
}

/// The NVIDIA files that were mapped and not predicted, and those predicted for the start that were not mapped.
pub fn differences(predicted: &Value, image: &Value) -> Vec<PathBuf> {
    let real = |path: &Value| std::fs::canonicalize(path.as_str().unwrap()).unwrap();
    let [expected, mapped] = [&predicted["files"], &image["files"]].map(|files| {
        let files = files.as_array().unwrap().iter();
        files
            .map(|file| (real(&file["path"]), file))
            .collect::<Vec<_>>()
    });
    let missing_in = |files: &[(PathBuf, &Value)], (path, file): &(PathBuf, &Value)| {
        !file["family"].is_null() && files.iter().all(|(other, _)| other != path)
    };
    let unexpected = mapped.iter().filter(|file| missing_in(&expected, file));
    let at_start = expected.iter().filter(|(_, file)| file["when"] == "start");
    let absent = at_start.filter(|file| missing_in(&mapped, file));
    unexpected
        .chain(absent)
        .map(|(path, _)| path.clone())
        .collect()
}

/// A trace finds what the model says, for each program in each environment.
#[test]
fn predictions_match_the_mapped_files() {
    let world = &*WORLD;
    let preload = world.path("new/libcudnn.so.9.10.2").display().to_string();
    let mut compared = 0;
    for program in ["plain", "with-runpath", "with-rpath", "with-torn-rpath"] {
        for (directories, preload) in [
            (&["old"][..], ""),
            (&["new"], ""),
            (&["new", "old"], ""),
            (&["torn", "new"], ""),
            (&["stubs", "old"], ""),
            (&["", "old"], ""),
            (&["old"], preload.as_str()),
            (&["new"], "/nowhere/libcudnn.so.9"),
        ] {
            let report = world.path("").join("compared.json");
            let path = world.library_path(directories);
            let trace = |options: &[&str]| {
                let words = ["trace", "--json", "--as-is"].iter().chain(options);
                Run::new(words.map(PathBuf::from).chain([world.path(program)]))
                    .env("LD_LIBRARY_PATH", &path)
                    .env("LD_PRELOAD", preload)
                    .any_stdout()
                    .any_stderr()
            };
            let predicted = trace(&["--predict"]).json();
            trace(&["--all", "-o", report.to_str().unwrap()]).check();
            let images = read(&report)["images"].take();
            for image in images.as_array().unwrap() {
                if image["is_target"] == true {
                    let wrong = differences(&predicted, image);
                    assert!(wrong.is_empty(), "{program} {path} {preload}: {wrong:?}");
                    let is_nvidias = |file: &&Value| !file["family"].is_null();
                    let files = image["files"].as_array().unwrap();
                    compared += files.iter().filter(is_nvidias).count();
                }
            }
        }
    }
    assert!(compared > 200, "{compared} files");
}

/// A program that starts another one in a way that cudarun cannot see: its child has a search path of its
/// own.
#[test]
fn a_pin_holds_for_libraries_that_no_object_is_known_to_open() {
    let workshop = crate::support::Workshop::new();
    let child = WORLD.path("with-rpath");
    let source = format!(
        r#"#include <stdlib.h>
int main(void) {{ return system("{}"); }}"#,
        child.display()
    );
    let program = workshop.compile("starts", &source, &[]);
    let pin = format!("--pin=cudnn={}", WORLD.path("new").display());
    let run = |options: &[&str]| {
        let words = options.iter().map(PathBuf::from).chain([program.clone()]);
        got(Run::new([PathBuf::from(&pin)].into_iter().chain(words)))
    };
    assert_eq!(
        run(&["--pin-mode=view", "--no-follow"]).directories.len(),
        2,
        "the control: by a path alone it is a mix"
    );
    assert_eq!(run(&[]), all_new());
    let words = [
        PathBuf::from("explain"),
        "--json".into(),
        PathBuf::from(&pin),
        program.clone(),
    ];
    let explained = Run::new(words).json();
    assert_eq!(
        (why(&explained["passed_over"][0]), &explained["mode"]),
        (("none", "unseen"), &"audit".into())
    );
    // The name of a file selects the installation that contains it.
    let file = format!(
        "--pin=cudnn={}",
        WORLD.path("new/libcudnn.so.9.10.2").display()
    );
    assert_eq!(got(Run::new([PathBuf::from(file), program])), all_new());
}

#[test]
fn a_pin_that_cannot_be_kept_is_refused() {
    let workshop = crate::support::Workshop::new();
    let still = workshop.compile("static", "int main(void) { return 0; }", &["-static"]);
    let refused = |words: &[&str], program: PathBuf, says: &str| {
        let words = words.iter().map(PathBuf::from).chain([program]);
        Run::new(words)
            .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
            .status(125)
            .stderr_contains(&[says])
            .check();
    };
    refused(
        &["--pin=cudnn=9.10"],
        still,
        "--pin has no effect here: `static` is linked statically",
    );
    refused(
        &["--pin=driver=9"],
        WORLD.path("plain"),
        "error: no driver here fits",
    );
}

/// The table of the module cannot hold every name: what is not in it would not be answered.
#[test]
fn a_set_whose_names_do_not_fit_into_the_table_is_not_pinned_by_half() {
    let own = tempfile::tempdir().unwrap();
    let own = own.path().canonicalize().unwrap().join("own");
    assert!(
        Command::new("cp")
            .arg("-a")
            .arg(WORLD.path(""))
            .arg(&own)
            .status()
            .unwrap()
            .success()
    );
    let odd = crate::support::Workshop::new();
    let library = odd.library("odd.so", "libcudnn_ext:x.so.9", "int nothing;", &[]);
    std::fs::copy(library, own.join("new/libcudnn_ext.so.9.10.2")).unwrap();
    let run = |options: &[&str]| {
        let words = options
            .iter()
            .map(PathBuf::from)
            .chain([own.join("with-torn-rpath")]);
        Run::new(words).env("LD_LIBRARY_PATH", own.join("new"))
    };
    let explained = run(&["explain", "--json"]).json();
    assert_eq!(explained["mode"], "view", "{explained:#}");
    assert!(explained["environment"]["LD_PRELOAD"].is_string());
    assert_eq!(why(&explained["passed_over"][1]), ("audit", "no-table"));
    assert_eq!(got(run(&[])).directories, [own.join("new")]);
}

/// A kept start does not outlive what the model has looked at.
#[test]
fn a_library_for_this_processor_that_appears_later_is_seen() {
    let own = tempfile::tempdir().unwrap();
    let own = own.path().canonicalize().unwrap().join("own");
    std::fs::create_dir(&own).unwrap();
    // Other tests compile in the rest of it meanwhile.
    let mut copy = Command::new("cp");
    copy.arg("-a").args([WORLD.path("old"), WORLD.path("new")]);
    assert!(copy.arg(&own).status().unwrap().success());
    let late = own.join("late/glibc-hwcaps/x86-64-v2");
    std::fs::create_dir_all(&late).unwrap();
    let link = own.join("old/libcudnn.so.9");
    let workshop = crate::support::Workshop::new();
    let program = workshop.compile(
        "with-late-rpath",
        PROGRAM,
        &[
            link.to_str().unwrap(),
            "-Wl,--allow-shlib-undefined",
            &format!(
                "-Wl,--disable-new-dtags,-rpath,{}",
                own.join("late").display()
            ),
        ],
    );
    std::thread::sleep(std::time::Duration::from_millis(100));
    let home = tempfile::tempdir().unwrap();
    let start = || {
        got(Run::new([&program])
            .env("HOME", home.path())
            .env("LD_LIBRARY_PATH", own.join("new")))
    };
    let expected = Got {
        version: 91002,
        directories: vec![own.join("new")],
        files: 9,
    };
    assert_eq!(start(), expected);
    assert_eq!(start(), expected);
    let kept = std::fs::read_dir(home.path().join(".cache/cudarun/starts"))
        .unwrap()
        .count();
    assert_eq!(kept, 1, "the start is kept");
    for entry in std::fs::read_dir(own.join("old")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, late.join(path.file_name().unwrap())).unwrap();
    }
    let bare = bare(
        &program,
        &[],
        &BTreeMap::from([("LD_LIBRARY_PATH", own.join("new").display().to_string())]),
    );
    let bare = Got::read(&String::from_utf8_lossy(&bare.stdout));
    assert!(
        bare.directories.contains(&late),
        "the control: this processor takes it: {bare:?}"
    );
    assert_eq!(start().directories.len(), 1, "one installation, whichever");
}

/// A mode cannot pin with a variable that a wrapper unsets or sets anew; cudarun picks a mode without it, or
/// none.
#[test]
fn a_wrapper_that_undoes_a_mode_is_no_way_to_pin() {
    let program = WORLD.path("with-torn-rpath").display().to_string();
    let run = |words: &[&str]| {
        let words = words
            .iter()
            .chain([&program.as_str()])
            .map(PathBuf::from)
            .collect::<Vec<_>>();
        Run::new(words).env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
    };
    assert_eq!(got(run(&["env", "A=1"])), all_new());
    assert_eq!(got(run(&["env", "-u", "LD_AUDIT"])), all_new());
    assert_eq!(got(run(&["env", "LD_PRELOAD=libm.so.6"])), all_new());
    let says = ["audit is not enough: a wrapper that starts the program sets or unsets "];
    let on = |words: &[&str]| {
        let run = run(&[&["-v"], words].concat()).any_stdout();
        Got::read(&run.stderr_contains(&says).check()).directories
    };
    // The program's own shim is all that the view does not win against, and it fits.
    let shim = on(&["env", "-u", "LD_AUDIT", "LD_PRELOAD=libm.so.6"]);
    assert_eq!(shim, [WORLD.path("new"), WORLD.path("torn")]);
    // What `env` starts is followed.
    let followed = on(&["env", "CUDARUN_PINS=", "LD_PRELOAD="]);
    assert_eq!(followed, [WORLD.path("new")]);
    let pin = format!("--pin=cudnn={}", WORLD.path("new").display());
    let says = ["--pin has no effect here: `env` sets LD_LIBRARY_PATH"];
    run(&[&pin, "env", "LD_LIBRARY_PATH=/nowhere"])
        .status(125)
        .stderr_contains(&says)
        .check();
}

/// Relative search paths start where the program does.
#[test]
fn a_program_is_seen_from_the_directory_that_a_wrapper_starts_it_in() {
    let own = tempfile::tempdir().unwrap();
    let own = own.path().canonicalize().unwrap();
    for (directory, installation) in [("one", "old"), ("two", "new")] {
        std::fs::create_dir(own.join(directory)).unwrap();
        std::os::unix::fs::symlink(WORLD.path(installation), own.join(directory).join("libs"))
            .unwrap();
    }
    let run = |words: &[&str]| {
        let words = words.iter().map(PathBuf::from).chain([WORLD.path("plain")]);
        Run::new(words)
            .in_directory(own.join("one"))
            .env("LD_LIBRARY_PATH", "libs")
    };
    assert_eq!(
        got(run(&[])).directories,
        [WORLD.path("old")],
        "the control"
    );
    assert_eq!(
        got(run(&["env", "-C", "../two"])).directories,
        [WORLD.path("new")]
    );
    let predicted = run(&[
        "trace",
        "--predict",
        "--as-is",
        "--json",
        "env",
        "-C",
        "../two",
    ])
    .json();
    let files = predicted["files"].as_array().unwrap();
    let top = files
        .iter()
        .find(|file| file["name"] == "libcudnn.so.9")
        .unwrap();
    assert!(
        top["path"]
            .as_str()
            .unwrap()
            .starts_with(own.join("two").to_str().unwrap()),
        "{top}"
    );
}

/// A path that starts from the current directory is looked up there, and no start is kept for another one.
#[test]
fn a_relative_path_that_is_opened_is_seen() {
    let workshop = crate::support::Workshop::new();
    let source = PROGRAM
        .replace("int cudnnGetVersion(void);", "#include <dlfcn.h>")
        .replace(
            r#"printf("%d\n", cudnnGetVersion());"#,
            r#"void *all = dlopen("old/libcudnn.so.9", RTLD_NOW);
               if (!all) all = dlopen("libcudnn.so.9", RTLD_NOW);
               printf("%d\n", ((int (*)(void))dlsym(all, "cudnnGetVersion"))());"#,
        );
    let program = workshop.compile("relative", &source, &[]);
    let home = tempfile::tempdir().unwrap();
    let run = |directory: PathBuf| {
        let run = Run::new([&program])
            .in_directory(directory)
            .env("HOME", home.path());
        got(run.env("LD_LIBRARY_PATH", WORLD.library_path(&["new"])))
    };
    let control = Command::new(&program)
        .current_dir(WORLD.path(""))
        .env("LD_LIBRARY_PATH", WORLD.path("new"))
        .output();
    let control = Got::read(&String::from_utf8_lossy(&control.unwrap().stdout));
    assert_eq!(
        control.directories.len(),
        2,
        "the control must mix: {control:?}"
    );
    assert_eq!(run(WORLD.path("new")), all_new());
    assert_eq!(run(WORLD.path("")), all_new());
}

/// Verbs that only compute a set warn of the same obstacles as a start.
#[test]
fn every_verb_prints_the_necessary_warnings() {
    let says = "cudarun: `env` sets LD_LIBRARY_PATH";
    for verb in ["export", "verify"] {
        on(&[verb, "env", "LD_LIBRARY_PATH=/nowhere"], "plain")
            .any_stdout()
            .stderr_contains(&[says])
            .check();
        on(
            &[verb, "--json", "env", "LD_LIBRARY_PATH=/nowhere"],
            "plain",
        )
        .any_stdout()
        .check();
    }
}
