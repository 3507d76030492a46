//! The program starts as if it had been started directly: name, arguments, environment, status, signals.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{CUDARUN, Run, Workshop, copy_program};

/// Writes its signals and what its descriptors lead to into the file that is named.
const STATE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int c, char **v)
{
    char line[4096], name[64], open_[64] = {0};
    for (int i = 0; i < 64; i++)
        open_[i] = fcntl(i, F_GETFD) != -1;
    FILE *out = fopen(v[1], "w"), *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6) || !strncmp(line, "SigCgt", 6))
            fputs(line, out);
    for (int i = 0; i < 64; i++)
        if (open_[i])
            fprintf(out, "%d ", i);
    return fclose(out);
}
"#;

const SHOW: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(int c, char **v) { char d[4096]; printf("%s|", getcwd(d, sizeof d)); for (int i = 0; i < c; i++) printf("%s|", v[i]); return 7; }
"#;

#[test]
fn name_arguments_directory_and_status_are_passed_on() {
    let workshop = Workshop::new();
    workshop.compile("bin/show", SHOW, &[]);
    let path = format!("{}:/usr/bin", workshop.path("bin").display());
    let here = workshop.path("").canonicalize().unwrap();
    for _cold_then_warm in 0..2 {
        Run::new(["show", "-v", "--", "--help", "", "a b"])
            .env("PATH", &path)
            .in_directory(&here)
            .stdout(format!("{}|show|-v|--|--help||a b|", here.display()))
            .status(7)
            .check();
    }
}

/// It would choose code by files and variables of a user with fewer rights. Its neighbour is the same copy without the bit.
#[test]
fn a_cudarun_with_more_rights_than_its_user_starts_nothing() {
    use std::os::unix::fs::{PermissionsExt, chown};
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let workshop = Workshop::new();
    let copy = workshop.path("cudarun");
    copy_program(CUDARUN, &copy);
    chown(&copy, Some(12345), Some(12345)).unwrap();
    let start = |mode, words: &[&str]| {
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut command = std::process::Command::new(&copy);
        command.args(words).stdin(Stdio::null()).output().unwrap()
    };
    // The child of a proof ends with 1 without a request, and would load libraries with one.
    for (words, status) in [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["--verify-child"], 1),
        (&["--version"], 0),
        (&["list", "toolkit"], 1),
    ] {
        let alone = start(0o755, words);
        assert_eq!(alone.status.code(), Some(status), "{alone:?}");
        for mode in [0o4755, 0o2755] {
            let refused = start(mode, words);
            if refused.status.code() == Some(status) && words[0] == "sh" {
                return; // The directory is mounted without such bits.
            }
            let said = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert_eq!(refused.status.code(), Some(125), "{words:?} {said}");
            assert!(
                said.starts_with("cudarun: cudarun has more rights than its user"),
                "{words:?} {said}"
            );
        }
    }
}

#[test]
fn bytes_stay_bytes() {
    let workshop = Workshop::new();
    let show = workshop.compile("show", SHOW, &[]);
    let odd = OsStr::from_bytes(b"\xff\xfe=\x80");
    let output = Command::new(CUDARUN)
        .env_remove("XDG_CACHE_HOME")
        .env("HOME", workshop.path("home"))
        .env(OsStr::from_bytes(b"ODD"), odd)
        .arg(&show)
        .arg(odd)
        .output()
        .unwrap();
    let expected = [show.as_os_str().as_bytes(), b"|\xff\xfe=\x80|"].concat();
    assert!(output.stdout.ends_with(&expected), "{output:?}");
}

#[test]
fn a_signal_ends_the_program_without_a_process_in_between() {
    let home = tempfile::tempdir().unwrap();
    for (script, signal) in [
        ("kill -TERM $$", 15),
        ("kill -KILL $$", 9),
        ("kill -SEGV $$", 11),
    ] {
        let status = Command::new(CUDARUN)
            .env_remove("XDG_CACHE_HOME")
            .env("HOME", home.path())
            .args(["sh", "-c", script])
            .status()
            .unwrap();
        assert_eq!(status.signal(), Some(signal), "{script}: {status}");
    }
}

#[test]
fn the_process_is_the_same_one() {
    let home = tempfile::tempdir().unwrap();
    let child = Command::new(CUDARUN)
        .env_remove("XDG_CACHE_HOME")
        .env("HOME", home.path())
        .args(["sh", "-c", "echo $$"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        id.to_string()
    );
}

/// Rust ignores SIGPIPE when it starts; a program must not inherit that.
#[test]
fn a_closed_pipe_ends_the_program() {
    let home = tempfile::tempdir().unwrap();
    for through in ["", CUDARUN] {
        let script = format!("{through} yes | head -n 1 >/dev/null; echo ${{PIPESTATUS[0]}}");
        let output = Command::new("bash")
            .env_remove("XDG_CACHE_HOME")
            .env("HOME", home.path())
            .args(["-c", &script])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "141\n", "{script}");
    }
}

/// Signals that are ignored, as with `nohup`, or blocked, and streams that are closed: a program that is
/// started through cudarun gets them as one that is started directly. Rust's runtime changes some of them.
#[test]
fn signals_and_streams_are_inherited() {
    let workshop = Workshop::new();
    let show = workshop.compile("show", STATE, &[]);
    let (home, result) = (workshop.path("home"), workshop.path("result"));
    let run = |state: &str, closed: &str, through: &[&str]| {
        let _ = std::fs::remove_file(&result);
        // This test itself may run under nohup.
        let mut command = Command::new("env");
        command
            .env_remove("XDG_CACHE_HOME")
            .env("HOME", &home)
            .args([
                "--default-signal",
                "bash",
                "-c",
                &format!("{state} \"$@\" {closed}"),
                "bash",
            ]);
        let output = command
            .args(through)
            .arg(&show)
            .arg(&result)
            .output()
            .unwrap();
        std::fs::read_to_string(&result).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    };
    let mut seen = std::collections::BTreeSet::new();
    for state in [
        "exec",
        "trap '' PIPE; exec",
        "trap '' HUP INT; exec",
        "trap '' XFSZ; exec",
        "exec env --ignore-signal=CHLD,USR1",
        "exec env --block-signal=USR1,PIPE",
    ] {
        for closed in ["", "<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
            let direct = run(state, closed, &[]);
            assert_eq!(
                run(state, closed, &[CUDARUN, "trace"]),
                direct,
                "traced: {state} {closed}"
            );
            for _cold_then_warm in 0..2 {
                assert_eq!(run(state, closed, &[CUDARUN]), direct, "{state} {closed}");
            }
            seen.insert(direct);
        }
    }
    assert_eq!(seen.len(), 30, "the control: every one of them shows");
}

/// After a panic in any thread, and after a read of a file that was cut short.
#[test]
fn after_a_fault_of_cudarun_the_program_starts_as_without_it() {
    let workshop = Workshop::new();
    let show = workshop.compile("show", STATE, &[]);
    let result = workshop.path("result");
    let run = |state: &str, through: &[&str], fault: &str| {
        let _ = std::fs::remove_file(&result);
        let mut command = Command::new("env");
        command
            .env_remove("XDG_CACHE_HOME")
            .env("HOME", workshop.path("home"))
            .current_dir(workshop.path(""));
        command
            .args([
                "--default-signal",
                "bash",
                "-c",
                &format!("{state} \"$@\" <&-"),
                "bash",
            ])
            .args(through);
        let output = command
            .env("CUDARUN_TEST_FAULT", fault)
            .arg(&show)
            .arg(&result)
            .output()
            .unwrap();
        let seen =
            std::fs::read_to_string(&result).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        // The C library takes 32 and 33 for its own as soon as there are threads, whatever was inherited.
        let of_c_library = |line: &str| {
            let mask = line
                .strip_prefix("SigIgn:\t")
                .and_then(|mask| u64::from_str_radix(mask, 16).ok());
            mask.map_or(line.to_owned(), |mask| {
                format!("SigIgn {:x}", mask & !(3 << 31))
            })
        };
        let seen: Vec<String> = seen.lines().map(of_c_library).collect();
        (seen, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let faults = [
        ("panic@early", "internal error at src/host/fault.rs"),
        ("panic@options", "internal error at src/host/fault.rs"),
        ("panic@settings", "internal error at src/host/fault.rs"),
        ("thread@settings", "internal error at src/host/fault.rs"),
        ("cut@settings", "a file was cut short while cudarun read it"),
    ];
    for state in [
        "exec",
        "trap '' HUP PIPE XFSZ; exec",
        "exec env --block-signal=USR1,PIPE",
    ] {
        let (direct, _) = run(state, &[], "");
        assert_eq!(
            run(state, &[CUDARUN], "none@none"),
            (direct.clone(), String::new()),
            "the control"
        );
        for (fault, why) in faults {
            // The start that the control has kept reaches only the first.
            let options: &[&str] = if fault == "panic@early" {
                &[]
            } else {
                &["--verify", "auto"]
            };
            let (seen, said) = run(state, &[&[CUDARUN], options].concat(), fault);
            assert_eq!(seen, direct, "{state} {fault}");
            assert!(
                said.starts_with(&format!("cudarun: {why}")),
                "{fault}: {said}"
            );
            let end = format!("; starting {} unchanged\n", show.display());
            assert!(
                said.ends_with(&end) && said.lines().count() == 1,
                "{fault}: {said}"
            );
        }
    }
}

/// Without its set, the program would not be what was asked for.
#[test]
fn after_a_fault_nothing_starts_where_a_person_may_demand_a_set() {
    let workshop = Workshop::new();
    let project = workshop.path("project");
    workshop.write("project/.cudarun.toml", "[requires]\ndriver = \">=1\"\n");
    workshop.write("harmless/.cudarun.toml", "[verify]\nwhen = \"auto\"\n");
    let run = |directory: &Path, variable: &str, options: &[&str], fault: &str| {
        std::fs::create_dir_all(directory).unwrap();
        let mut command = Command::new(CUDARUN);
        command
            .env_remove("XDG_CACHE_HOME")
            .env("HOME", workshop.path("home"))
            .current_dir(directory);
        if let Some((name, value)) = variable.split_once('=') {
            command.env(name, value);
        }
        let output = command
            .env("CUDARUN_TEST_FAULT", fault)
            .args(options)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("internal error"), "{fault}: {said}");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    let nowhere = workshop.path("nowhere");
    let echo = ["echo", "ran"];
    let started = (Some(0), "ran\n".to_owned());
    let refused = (Some(125), String::new());
    for fault in ["panic@options", "panic@settings"] {
        let with =
            |option: &'static str| [&option.split(' ').collect::<Vec<_>>()[..], &echo].concat();
        assert_eq!(run(&nowhere, "", &echo, fault), started, "the control");
        for option in [
            "--require cudnn>=1",
            "--pin cudnn=9.1",
            "--pin-mode view",
            "--locked",
            "--verify always",
        ] {
            if fault == "panic@options" || !option.starts_with("--locked") {
                assert_eq!(
                    run(&nowhere, "", &with(option), fault),
                    refused,
                    "{option} {fault}"
                );
            }
        }
        for variable in [
            "CUDARUN_REQUIRE=cudnn>=1",
            "CUDARUN_PIN=cudnn=9.1",
            "CUDARUN_PIN_MODE=view",
        ] {
            assert_eq!(
                run(&nowhere, variable, &echo, fault),
                refused,
                "{variable} {fault}"
            );
        }
        assert_eq!(run(&project, "", &echo, fault), refused, "{fault}");
    }
    let named = workshop
        .path("harmless/.cudarun.toml")
        .display()
        .to_string();
    let with = ["--config", named.as_str(), "echo", "ran"];
    assert_eq!(run(&nowhere, "", &with, "panic@options"), refused);
    assert_eq!(run(&nowhere, "", &with, "panic@settings"), started);
    // Before a file is read, it may demand a set; after that it does or does not.
    assert_eq!(
        run(&workshop.path("harmless"), "", &echo, "panic@early"),
        refused
    );
    assert_eq!(
        run(&workshop.path("harmless"), "", &echo, "panic@settings"),
        started
    );
    assert_eq!(
        run(
            &nowhere,
            "",
            &["--root", "/", "echo", "ran"],
            "panic@options"
        ),
        refused
    );
    assert_eq!(
        run(&nowhere, "", &["--verify-child"], "panic@child"),
        refused
    );
}

/// `shell`, and `diagnose` with a program, would start one; other verbs answer, also behind an option.
#[test]
fn a_panic_ends_a_command_as_its_other_errors_do() {
    let home = tempfile::tempdir().unwrap();
    let status = |words: &[&str], fault: &str| {
        let mut command = Command::new(CUDARUN);
        command
            .args(words)
            .env_clear()
            .env("HOME", home.path())
            .env("PATH", "/usr/bin:/bin")
            .env("CUDARUN_TEST_FAULT", fault)
            .stdin(Stdio::null());
        command.output().unwrap().status.code()
    };
    for (words, code) in [
        (&["list"][..], 2),
        (&["-q", "list"], 2),
        (&["--color", "never", "explain", "true"], 2),
        (&["diagnose", "--text", "x"], 2),
        (&["diagnose", "true"], 125),
        (&["shell", "true"], 125),
        (&["-q", "shell", "true"], 125),
        (&["trace", "true"], 125),
        (&["trace", "--predict", "true"], 2),
        (&["record", "true"], 125),
        (&["run", "true"], 125),
    ] {
        for fault in ["panic@verb", "thread@verb"] {
            assert_eq!(status(words, fault), Some(code), "{words:?}");
        }
    }
    assert_eq!(status(&["-q", "list"], "none@none"), Some(1), "the control");
}

/// The limits are those of the program.
#[test]
fn small_limits_stop_cudarun_with_a_reason_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let run = |limit: &str, words: &str| {
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("ulimit {limit} && exec {CUDARUN} {words}")])
            .env_clear()
            .env("HOME", home.path())
            .env("PATH", "/usr/bin:/bin");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    for _cold_then_warm in 0..2 {
        let started = run("-s 64", "bash -c 'exit $(ulimit -s)'");
        assert_eq!(started, (Some(64), String::new()));
    }
    for words in ["list", "explain true", "-V", "doctor -q"] {
        let alone = run("-s 8192", words).0;
        assert_eq!(run("-s 64", words).0, alone, "{words}");
    }
    let text = "diagnose --text 'cuDNN error: CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED'";
    // With less, the loader cannot map the binary, whose size depends on its build; with more, there is enough.
    let limits = (20_000..60_000).step_by(500);
    let said = limits
        .map(|limit| run(&format!("-v {limit}"), text))
        .find_map(|(code, said)| (code == Some(2)).then_some(said))
        .expect("a limit too small for the work alone");
    assert!(
        said.ends_with("cudarun: out of memory\n\nhint: raise the limit: `ulimit -v unlimited`\n"),
        "{said}"
    );
    assert_eq!(run("-v 4000000", text).0, Some(0), "the control");
}

/// The message about memory is for an abort of cudarun itself.
#[test]
fn an_abort_from_outside_ends_cudarun_as_that_signal_does() {
    let home = tempfile::tempdir().unwrap();
    let child = Command::new(CUDARUN)
        .arg("list")
        .current_dir(home.path())
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", "/usr/bin:/bin")
        .env("CUDARUN_TEST_FAULT", "pause@verb")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !home.path().join("paused").exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let id = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGABRT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(6), "{:?}", output.status);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_program_that_needs_nothing_keeps_its_environment() {
    let home = tempfile::tempdir().unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", home.path())
            .env("PATH", "/usr/bin:/bin");
        command
            .env("LD_LIBRARY_PATH", ":/nowhere:")
            .env("EMPTY", "")
            .arg0(program);
        let output = command.output().unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        let mut lines: Vec<String> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        lines.sort();
        lines
    };
    let direct = run("/usr/bin/env", &[]);
    assert_eq!(run(CUDARUN, &["--no-follow", "env"]), direct);
    for start in ["cold", "warm"] {
        let (added, own): (Vec<String>, Vec<String>) = run(CUDARUN, &["env"])
            .into_iter()
            .partition(|line| !direct.contains(line));
        assert_eq!(own, direct, "{start}");
        let names: Vec<&str> = added
            .iter()
            .filter_map(|line| Some(line.split_once('=')?.0))
            .collect();
        assert_eq!(
            names,
            ["CUDARUN_TREE", "GLIBC_TUNABLES", "LD_AUDIT"],
            "{start}: what is followed"
        );
    }
}

#[test]
fn standard_streams_are_the_programs_own() {
    let home = tempfile::tempdir().unwrap();
    let mut child = Command::new(CUDARUN)
        .env_remove("XDG_CACHE_HOME")
        .env("HOME", home.path())
        .args(["-q", "sh", "-c", "cat; echo error >&2; exit 3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"input\0\xff").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"input\0\xff");
    assert_eq!(output.stderr, b"error\n");
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn scripts_start_through_their_interpreters() {
    let workshop = Workshop::new();
    let make = |name: &str, text: &str| {
        let path = workshop.write(name, text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        path
    };
    let sh = make("a.sh", "#!/bin/sh\necho sh $0 $1\n");
    Run::new([sh.to_str().unwrap(), "x"])
        .stdout(format!("sh {} x\n", sh.display()))
        .any_stderr()
        .check();
    let env = make("b.sh", "#!/usr/bin/env -S sh -e\necho env $1\n");
    Run::new([env.to_str().unwrap(), "x"])
        .stdout("env x\n")
        .any_stderr()
        .check();
    let broken = make("c.sh", "#!/no/such/interpreter\n");
    Run::new([&broken])
        .status(126)
        .stderr_contains(&["cannot be run"])
        .check();
    let looping = make("d.sh", &format!("#!{}\n", workshop.path("d.sh").display()));
    Run::new([&looping])
        .status(126)
        .stderr_contains(&["form a circle"])
        .check();
}

/// Batch systems limit how large files may grow; what cannot be kept is worked out again.
#[test]
fn a_limit_on_files_is_no_reason_not_to_start() {
    let home = tempfile::tempdir().unwrap();
    let run = |words: &str| {
        let script = format!("ulimit -f 0; exec {words} /bin/false");
        Command::new("bash")
            .env_remove("XDG_CACHE_HOME")
            .env("HOME", home.path())
            .args(["-c", &script])
            .status()
            .unwrap()
            .code()
    };
    assert_eq!(run(""), Some(1));
    assert_eq!(run(CUDARUN), Some(1));
    let starts = std::fs::read_dir(home.path().join(".cache/cudarun/starts")).unwrap();
    assert_eq!(starts.count(), 0, "nothing half-written is left");
}
