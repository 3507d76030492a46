//! The verb with odd texts and command lines, and with real failures of the real loader.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::parts::{SITE, library, machine, program, python, text};
use crate::support::{CUDARUN, Run, Workshop, bare};

const MISSING: &str =
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory";

#[test]
fn texts_without_a_known_message() {
    let none = machine(&[]);
    for unknown in ["all is well", "\0\u{1}\u{2}ELF", "x"] {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, unknown).unwrap();
        let from = file.path().to_str().unwrap();
        Run::new(["diagnose", "--from", from])
            .status(1)
            .stdout_contains(&["no known error message"])
            .check();
    }
    Run::on(&none, &["diagnose"])
        .status(1)
        .stdout_contains(&["no message was given"])
        .check();
    let json = Run::on(&none, &["diagnose", "--json"]).status(1).json();
    assert_eq!(json["recognised"], false);
}

/// Words of a message that has no quotes are no program.
#[test]
fn a_message_without_quotes_is_quoted() {
    let words = [
        "diagnose",
        "--text",
        "CUDA",
        "driver",
        "version",
        "is",
        "insufficient",
    ];
    Run::new(words)
        .status(1)
        .stdout_contains(&[
            "\nnext: cudarun diagnose --text 'CUDA driver version is insufficient'\n",
        ])
        .check();
    Run::new(["diagnose", "--text", "CUDA", "true"])
        .status(1)
        .stdout_contains(&["\nnext: cudarun doctor\n"])
        .check();
}

/// A device has no size, and this one no end.
#[test]
fn a_text_that_never_ends_is_refused() {
    let named = |file: &str| Run::new(["diagnose", "--from", file]);
    named("/dev/zero")
        .status(2)
        .stderr_contains(&["`/dev/zero` cannot be read: no end within a gigabyte"])
        .check();
    named("/dev/null")
        .status(1)
        .stdout_contains(&["no message was given"])
        .check();
}

/// A sparse file of 512 MiB: the first 8 MiB and the last 56 MiB are read, and the page says so.
#[test]
fn the_middle_of_a_huge_log_is_left_out() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let said = |offset: u64, status: i32| {
        file.as_file().set_len(0).unwrap();
        file.as_file().set_len(512 << 20).unwrap();
        file.as_file()
            .write_all_at(format!("\n{MISSING}\n").as_bytes(), offset)
            .unwrap();
        let words = ["diagnose", "--from", file.path().to_str().unwrap()];
        let page = Run::new(words)
            .status(status)
            .any_stderr()
            .any_stdout()
            .check();
        assert!(
            page.contains("469.4 MB in its middle were not read"),
            "{page}"
        );
    };
    said(4 << 20, 0);
    said((512 - 50) << 20, 0);
    said(256 << 20, 1);
}

/// On a terminal the text ends with one Ctrl-D.
#[test]
fn a_message_is_pasted_on_a_terminal() {
    let pair = nix::pty::openpty(None, None).unwrap();
    let side = || Stdio::from(pair.slave.try_clone().unwrap());
    let mut command = Command::new("timeout");
    command
        .args(["--foreground", "30", CUDARUN, "diagnose", "--from", "-"])
        .env("HOME", "/nonexistent");
    let mut child = command
        .stdin(side())
        .stdout(side())
        .stderr(side())
        .spawn()
        .unwrap();
    drop((command, pair.slave));
    let mut terminal = File::from(pair.master);
    let (mut shown, mut piece, mut is_pasted) = (String::new(), [0; 4096], false);
    while let Ok(length @ 1..) = terminal.read(&mut piece) {
        shown += &String::from_utf8_lossy(&piece[..length]);
        if !is_pasted && shown.contains("paste the message, then Ctrl-D") {
            terminal
                .write_all(format!("{MISSING}\n\x04").as_bytes())
                .unwrap();
            is_pasted = true;
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0), "{shown}");
    assert!(shown.contains("do:"), "{shown}");
}

#[test]
fn a_text_is_not_started() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("slurm-12.out"), MISSING).unwrap();
    let run = Run::new(["diagnose", "slurm-12.out"])
        .in_directory(directory.path())
        .status(125);
    run.stderr_contains(&[
        "is a text, not a program",
        "cudarun diagnose --from slurm-12.out",
    ])
    .check();
    fs::write(directory.path().join("train.py"), "import torch").unwrap();
    let run = Run::new(["diagnose", "train.py"])
        .in_directory(directory.path())
        .status(125);
    run.stderr_contains(&["cudarun diagnose python3 train.py"])
        .check();
    let run = Run::new(["diagnose", "--from", "slurm-12.out"]).in_directory(directory.path());
    run.stdout_contains(&["libcudart.so.12"]).check();
    let run = Run::new(["diagnose", "--from", "nowhere.out"])
        .in_directory(directory.path())
        .status(2);
    run.stderr_contains(&["`nowhere.out` cannot be read"])
        .check();
}

/// A message without quotes.
#[test]
fn a_text_in_the_place_of_a_program_is_corrected() {
    let directory = tempfile::tempdir().unwrap();
    let hint = |words: &[&str]| {
        let words = [&["diagnose"], words].concat();
        let run = Run::new(words).in_directory(directory.path()).status(127);
        let said = run.any_stderr().output_of_both();
        let hint = said.lines().find_map(|line| line.strip_prefix("hint: "));
        hint.map(str::to_owned)
    };
    let message = ["CUDA", "driver", "version", "is", "insufficient"];
    let quoted = "cudarun diagnose --text 'CUDA driver version is insufficient'";
    assert_eq!(hint(&message).as_deref(), Some(quoted));
    let with_json = [&["--json"], &message[..]].concat();
    let quoted = "cudarun diagnose --json --text 'CUDA driver version is insufficient'";
    assert_eq!(hint(&with_json).as_deref(), Some(quoted));
    // The control: a program that does not exist, and no message.
    for words in [
        &["nowhere-at-all", "train.py"][..],
        &["nowhere-at-all", "--json"],
    ] {
        let said = hint(words);
        assert!(
            said.as_deref()
                .is_none_or(|said| !said.contains("--text") && !said.contains("--from")),
            "{said:?}"
        );
    }
}

/// A certain cause of a warning is shown whole, after the possible ones of the message that ended the program.
#[test]
fn certain_causes_of_warnings_are_shown_and_come_last() {
    let log = "UserWarning: libcudart.so.12: cannot open shared object file: No such file or directory\n\
        RuntimeError: CUDA error: out of memory\n";
    let place = machine(&[
        crate::support::parts::elf(
            "/lib64/ld-linux-x86-64.so.2",
            "soname = 'ld-linux-x86-64.so.2'",
        ),
        program("app", &["libc.so.6"], ""),
    ]);
    let page = Run::on(&place, &["diagnose", "--text", log, "app"])
        .any_stdout()
        .check();
    let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{part}\n{page}"));
    assert!(
        at("it may be: the GPU is out of memory") < at("it is: libcudart.so.12 is not installed"),
        "{page}"
    );
    let found = Run::on(&place, &["diagnose", "--json", "--text", log, "app"]).json();
    let causes = found["causes"].as_array().unwrap();
    assert_eq!(causes[0]["certainty"], "may-be", "{found:#}");
    // The control: of one message, the certain one is first.
    let alone = log.lines().next().unwrap();
    let page = Run::on(&place, &["diagnose", "--text", alone, "app"])
        .any_stdout()
        .check();
    assert!(
        page.starts_with("it is: libcudart.so.12 is not installed"),
        "{page}"
    );
}

/// Only the matched part of a line is shown.
#[test]
fn secrets_of_a_log_are_not_shown() {
    let log = format!("TOKEN=hunter2 {MISSING} --password hunter2\nhunter2\n");
    for form in [&["--all", "-v"][..], &["--json"]] {
        let words = [&["diagnose", "--text", &log], form].concat();
        let page = Run::on(&machine(&[]), &words).any_stdout().check();
        assert!(
            page.contains("libcudart.so.12") && !page.contains("hunter2"),
            "{page}"
        );
    }
}

/// Shells give `<(…)` as a pipe.
#[test]
fn a_log_can_be_a_pipe() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let path = fifo.clone();
    let writer = std::thread::spawn(move || std::fs::write(path, MISSING).unwrap());
    let page = Run::new(["diagnose", "--from", fifo.to_str().unwrap()])
        .any_stdout()
        .check();
    writer.join().unwrap();
    assert!(page.contains("libcudart.so.12"), "{page}");
    let nothing = directory.path().to_str().unwrap();
    Run::new(["diagnose", "--from", nothing])
        .status(2)
        .stderr_contains(&["directory"])
        .check();
}

#[test]
fn a_long_log_is_a_short_page() {
    let mut log = String::new();
    for rank in 0..64 {
        log.push_str(&format!("[rank{rank}]: {MISSING}\n"));
    }
    let page = Run::on(&machine(&[]), &["diagnose", "--text", &log])
        .any_stdout()
        .check();
    assert!(
        page.lines().count() <= 25 && page.contains("64 processes"),
        "{page}"
    );
}

#[test]
fn a_text_of_another_machine_is_never_certain() {
    let place = python(&[]);
    let certain = |log: &str| {
        let found = Run::on(&place, &["diagnose", "--json", "--text", log])
            .any_stderr()
            .json();
        let causes = found["causes"].as_array().unwrap();
        assert!(!causes.is_empty(), "{found:#}");
        (
            found["elsewhere"].clone(),
            causes.iter().any(|cause| cause["certainty"] != "may-be"),
        )
    };
    let from = |site: &str| format!("  File \"{site}/torch/__init__.py\", line 9\n{MISSING}\n");
    assert_eq!(
        certain(&from("/home/other/lib/python3.11/site-packages")),
        (true.into(), false)
    );
    assert_eq!(certain(&from(SITE)), (false.into(), true));
}

#[test]
fn a_message_of_windows() {
    let words = [
        "diagnose",
        "--text",
        "Could not locate cudnn_ops64_9.dll. Please make sure it is in your library path!",
    ];
    Run::on(&machine(&[]), &words)
        .stdout_contains(&["a message of Windows"])
        .check();
}

/// A log names an environment that is not the first one in PATH.
#[test]
fn the_environment_of_the_text_is_looked_at() {
    let place = machine(&[
        program("python3.12", &["libc.so.6"], ""),
        program("python3", &["libc.so.6"], ""),
        crate::support::parts::link("/opt/other/bin/python3", "/usr/bin/python3.12"),
        text(
            "/opt/other/pyvenv.cfg",
            "home = /usr/bin\nversion_info = 3.12.3\n",
        ),
        text(
            "/opt/other/lib/python3.12/site-packages/onnxruntime-1.20.0.dist-info/METADATA",
            "",
        ),
        text(
            "/opt/other/lib/python3.12/site-packages/onnxruntime_gpu-1.20.0.dist-info/METADATA",
            "",
        ),
    ]);
    let message = "Specified provider 'CUDAExecutionProvider' is not in available provider names";
    let log =
        format!("File \"/opt/other/lib/python3.12/site-packages/onnxruntime/x.py\"\n{message}");
    let found = Run::on(&place, &["diagnose", "--json", "--text", &log])
        .any_stderr()
        .json();
    assert_eq!(found["causes"][0]["certainty"], "is", "{found:#}");
    let found = Run::on(&place, &["diagnose", "--json", "--text", message])
        .any_stderr()
        .json();
    assert_ne!(found["causes"][0]["certainty"], "is", "{found:#}");
}

/// The line of a start-up file that sets the variable.
#[test]
fn the_line_that_sets_the_path_is_named() {
    let mut place = machine(&[
        crate::support::parts::elf(
            "/lib64/ld-linux-x86-64.so.2",
            "soname = 'ld-linux-x86-64.so.2'",
        ),
        program(
            "app",
            &["libc.so.6", "libcudnn.so.8"],
            "runpath = '/opt/new/lib'",
        ),
        library("/opt/old/lib", "libcudnn", "8", "8.0.3", ""),
        library("/opt/new/lib", "libcudnn", "8", "8.9.7", ""),
        text(
            "/home/user/.bashrc",
            "\nexport LD_LIBRARY_PATH=/opt/old/lib\n",
        ),
    ]);
    place
        .env
        .insert("LD_LIBRARY_PATH".to_owned(), "/opt/old/lib".to_owned());
    let log = "Loaded runtime CuDNN library: 8.0.3 but source was compiled with: 8.6.0.";
    let run = Run::on(&place, &["diagnose", "--text", log, "app"]).any_stderr();
    let page = run.any_stdout().check();
    for part in [
        "it is: an older version of cuDNN comes first",
        "unset LD_LIBRARY_PATH",
        ".bashrc:1",
        "8.9.7",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
}

/// Fails as the loader says, names the cause, and the first cure that is printed works.
#[track_caller]
fn fails_and_is_cured(app: &Path, variables: &[(&str, String)], cause: &str) -> Value {
    let variables: BTreeMap<&str, String> = variables.iter().cloned().collect();
    let failed = bare(app, &[], &variables);
    assert!(!failed.status.success(), "the control did not fail");
    let log = tempfile::NamedTempFile::new().unwrap();
    fs::write(&log, &failed.stderr).unwrap();
    let words = [
        "diagnose",
        "--json",
        "--from",
        log.path().to_str().unwrap(),
        app.to_str().unwrap(),
    ];
    let run = variables
        .iter()
        .fold(Run::new(words), |run, (name, value)| run.env(name, value));
    let found = run.any_stderr().json();
    let first = &found["causes"][0];
    assert_eq!(
        (&first["cause"], &first["certainty"]),
        (&cause.into(), &"is".into()),
        "{found:#}"
    );
    assert!(
        !first["evidence"].as_array().unwrap().is_empty(),
        "{found:#}"
    );
    let home = tempfile::tempdir().unwrap();
    let mut cure = first["cures"][0]["do"]
        .as_str()
        .unwrap_or_else(|| panic!("{found:#}"))
        .to_owned();
    if !cure.starts_with("cudarun ") {
        cure.push_str(&format!("\n'{}'", app.display()));
    }
    let own = Path::new(CUDARUN).parent().unwrap().to_str().unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &cure])
        .env_clear()
        .envs(&variables)
        .env("HOME", home.path());
    let cured = shell
        .env("PATH", format!("{own}:/usr/bin:/bin"))
        .output()
        .unwrap();
    assert!(
        cured.status.success(),
        "{cure}\n{}\n{found:#}",
        String::from_utf8_lossy(&cured.stderr)
    );
    found
}

#[test]
fn a_real_undefined_symbol() {
    let shop = Workshop::new();
    let symbol = "int __nvJitLinkAddData_12_1(void) { return 0; }";
    shop.library(
        "new/libnvJitLink.so.12.4.127",
        "libnvJitLink.so.12",
        symbol,
        &[],
    );
    shop.library(
        "old/libnvJitLink.so.12.0.76",
        "libnvJitLink.so.12",
        "int other(void) { return 0; }",
        &[],
    );
    for (own, file) in [
        ("new", "libnvJitLink.so.12.4.127"),
        ("old", "libnvJitLink.so.12.0.76"),
    ] {
        std::os::unix::fs::symlink(file, shop.path(own).join("libnvJitLink.so.12")).unwrap();
    }
    let new = shop.path("new");
    let search = format!("-Wl,--enable-new-dtags,-rpath,{}", new.display());
    let directory = format!("-L{}", new.display());
    let source =
        "int __nvJitLinkAddData_12_1(void); int main(void) { return __nvJitLinkAddData_12_1(); }";
    let app = shop.compile(
        "app",
        source,
        &[&directory, "-l:libnvJitLink.so.12", &search, "-Wl,-z,now"],
    );
    let path = (
        "LD_LIBRARY_PATH",
        shop.path("old").to_str().unwrap().to_owned(),
    );
    let found = fails_and_is_cured(&app, &[path], "older-first");
    let evidence = found["causes"][0]["evidence"].to_string();
    assert!(
        evidence.contains("12.0.76") && evidence.contains("has no __nvJitLinkAddData_12_1"),
        "{found:#}"
    );
}

#[test]
fn a_real_empty_libcuda() {
    let shop = Workshop::new();
    shop.library(
        "right/libcuda.so.1",
        "libcuda.so.1",
        "int cuInit(int f) { return f; }",
        &[],
    );
    let empty = shop.write("empty/libcuda.so.1", "");
    let right = shop.path("right");
    let search = format!("-Wl,--enable-new-dtags,-rpath,{}", right.display());
    let source = "int cuInit(int); int main(void) { return cuInit(0); }";
    let app = shop.compile(
        "app",
        source,
        &[
            &format!("-L{}", right.display()),
            "-l:libcuda.so.1",
            &search,
        ],
    );
    let path = (
        "LD_LIBRARY_PATH",
        empty.parent().unwrap().to_str().unwrap().to_owned(),
    );
    fails_and_is_cured(&app, &[path], "damaged");
}

#[test]
fn a_real_missing_libcudnn() {
    let shop = Workshop::new();
    shop.library(
        "toolkit/lib64/libcudnn.so.8",
        "libcudnn.so.8",
        "int cudnnGetVersion(void) { return 0; }",
        &[],
    );
    let directory = shop.path("toolkit/lib64");
    let source = "int cudnnGetVersion(void); int main(void) { return cudnnGetVersion(); }";
    let app = shop.compile(
        "app",
        source,
        &[&format!("-L{}", directory.display()), "-l:libcudnn.so.8"],
    );
    let home = (
        "CUDA_HOME",
        shop.path("toolkit").to_str().unwrap().to_owned(),
    );
    fails_and_is_cured(&app, &[home], "not-on-path");
}
