//! The promises of `cudarun trace` around its report: whose files are whose, signals, the place of the
//! report, and leftovers. Each is checked under the real loader and the real kernel.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::pin::modes::{differences, on};
use crate::pin::real_loader::{Got, WORLD};
use crate::support::{CUDARUN, Run, Workshop, lacks, skipped};

/// Opens what its second argument names: itself, in a process that was forked, or in one that starts the same program
/// anew. No name of a library is in it.
const OPENS: &str = r#"
#include <dlfcn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words)
{
    int status = 0;
    if (strcmp(words[1], "itself") && !fork()) {
        if (!strcmp(words[1], "forked"))
            _exit(dlopen(words[2], RTLD_NOW) ? 0 : 4);
        execl("/proc/self/exe", words[0], "itself", words[2], NULL);
        _exit(5);
    }
    if (!strcmp(words[1], "itself"))
        return dlopen(words[2], RTLD_NOW) ? 0 : 3;
    wait(&status);
    return WEXITSTATUS(status);
}
"#;

/// The report of `trace` about a program of the workshop, as JSON.
fn reported(workshop: &Workshop, words: &[&str]) -> Vec<Value> {
    let file = workshop.path("report.json");
    let options = ["trace", "--json", "-o", file.to_str().unwrap()];
    let run =
        Run::new(options.iter().chain(words)).env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]));
    run.any_stdout().any_stderr().check();
    read(&file)["images"].as_array().unwrap().clone()
}

/// The report of a trace.
pub fn read(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn is_named(file: &Value, name: &str) -> bool {
    file["name"].as_str().unwrap().ends_with(name)
}

#[test]
fn a_forked_process_has_its_own_mappings() {
    let workshop = Workshop::new();
    let program = workshop.compile("opens", OPENS, &[]);
    let words = [program.to_str().unwrap(), "forked", "libcudnn.so.9"];
    let images = reported(&workshop, &words);
    assert_eq!(images.len(), 2, "{images:#?}");
    assert_eq!(
        (&images[0]["is_target"], &images[0]["files"]),
        (&json!(true), &json!([]))
    );
    assert_eq!(
        (&images[1]["is_target"], &images[1]["program"]),
        (&json!(false), &Value::Null)
    );
    assert!(
        is_named(&images[1]["files"][0], "libcudnn.so.9") && images[1]["pid"] != images[0]["pid"]
    );
    Run::new(["trace"].iter().chain(&words))
        .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
        .stderr_contains(&[", forked\n  libcudnn.so.9 "])
        .check();
}

#[test]
fn a_child_of_the_same_program_is_not_what_was_decided_about() {
    let workshop = Workshop::new();
    let program = workshop.compile("opens", OPENS, &[]);
    let images = reported(
        &workshop,
        &[program.to_str().unwrap(), "child", "libcudnn.so.9"],
    );
    assert_eq!(images.len(), 2, "{images:#?}");
    assert_eq!(images[0]["program"], images[1]["program"], "the control");
    assert_eq!(
        (&images[0]["is_target"], &images[1]["is_target"]),
        (&json!(true), &json!(false))
    );
    assert!(is_named(&images[1]["files"][0], "libcudnn.so.9"));
}

/// The model predicts nothing for a library without a known opener.
#[test]
fn a_library_without_a_known_opener_is_reported() {
    let workshop = Workshop::new();
    let program = workshop.compile("opens", OPENS, &[]);
    let words = [program.to_str().unwrap(), "itself", "libcudnn_ops.so.9"];
    let images = reported(&workshop, &words);
    let file = &images[0]["files"][0];
    assert!(
        is_named(file, words[2]) && file["in_plan"].is_null(),
        "{images:#?}"
    );
    let library_path = WORLD.library_path(&["new"]);
    let run = |options: &[&str]| {
        Run::new(options.iter().chain(&words)).env("LD_LIBRARY_PATH", &library_path)
    };
    let predicted = run(&["trace", "--json", "--predict"]).json();
    assert_eq!(
        differences(&predicted, &images[0]),
        [WORLD.path("new/libcudnn_ops.so.9.10.2")]
    );
    run(&["trace"])
        .stderr_contains(&["\n  libcudnn_ops.so.9 "])
        .check();
}

/// A library that is left beside the picked one on purpose: the file itself shows another SONAME.
#[test]
fn another_soname_of_a_picked_family_is_not_outside_the_plan() {
    let workshop = Workshop::new();
    let other = workshop.library("other/libcudnn.so", "libcudnn.so.8", "int nothing;", &[]);
    let same = workshop.library(
        "same/libcudnn_new.so",
        "libcudnn_new.so.9",
        "int nothing;",
        &[],
    );
    let linked = WORLD.path("old/libcudnn.so.9");
    let source = OPENS.replace(
        "int main",
        "int cudnnGetVersion(void);\nint (*used)(void) = cudnnGetVersion;\nint main",
    );
    let flags = [linked.to_str().unwrap(), "-Wl,--allow-shlib-undefined"];
    let program = workshop.compile("opens", &source, &flags);
    for (library, in_plan) in [(&other, Value::Null), (&same, json!(false))] {
        let library = library.to_str().unwrap();
        let images = reported(&workshop, &[program.to_str().unwrap(), "itself", library]);
        let files = images[0]["files"].as_array().unwrap();
        let of = |name: &str| &files.iter().find(|file| is_named(file, name)).unwrap()["in_plan"];
        assert_eq!(
            (of("libcudnn.so.9"), of(library)),
            (&json!(true), &in_plan),
            "{files:#?}"
        );
    }
}

/// The parent of cudarun can make it ignore SIGCHLD, which would keep it from waiting for the program.
#[test]
fn a_program_is_waited_for_where_children_are_ignored() {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new("env");
    command
        .args([
            "--ignore-signal=CHLD",
            CUDARUN,
            "trace",
            "sh",
            "-c",
            "exit 5",
        ])
        .env("HOME", home.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "cudarun: one process, no NVIDIA library\n"
    );
}

#[test]
fn signals_sent_to_cudarun_reach_the_program() {
    let home = tempfile::tempdir().unwrap();
    for signal in ["INT", "QUIT", "ALRM", "TERM", "HUP", "VTALRM", "PWR", "35"] {
        let script = format!(
            "trap 'exit 9' {signal}; echo ready; for i in $(seq 100); do sleep 0.1; done; exit 3"
        );
        let mut command = Command::new("env");
        command
            .args(["--default-signal", CUDARUN, "trace", "sh", "-c", &script])
            .env("HOME", home.path());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n", "{signal}");
        let kill = format!("kill -s {signal} {}", child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(sent.success());
        assert_eq!(child.wait().unwrap().code(), Some(9), "{signal}");
    }
}

/// The program gets the signal of a terminal key once: from the terminal. This also holds while cudarun has not yet been told
/// that the program has started, for which strace holds it up.
#[test]
fn signals_of_the_terminal_are_not_sent_twice() {
    let workshop = Workshop::new();
    let counts = r#"
        #include <signal.h>
        #include <stdio.h>
        #include <unistd.h>
        static volatile int count;
        static void on_signal(int signal) { count++; }
        int main(void)
        {
            struct sigaction action = {.sa_handler = on_signal};
            sigaction(SIGINT, &action, NULL);
            puts("ready");
            fflush(stdout);
            for (int i = 0; i < 100 && !count; i++)
                usleep(100000);
            for (int i = 0; i < 25; i++)
                usleep(100000);
            printf("count %d\n", count);
            return 0;
        }"#;
    let terminal = r#"
        #include <pty.h>
        #include <signal.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(int count, char **words)
        {
            int terminal, status, length = 0;
            char said[4096] = "";
            if (forkpty(&terminal, NULL, NULL, NULL) == 0) {
                signal(SIGINT, SIG_DFL);
                execv(words[1], words + 1);
                _exit(9);
            }
            for (int is_sent = 0, got; (got = read(terminal, said + length, sizeof said - 1 - length)) > 0;) {
                length += got;
                if (!is_sent && strstr(said, "ready"))
                    is_sent = write(terminal, "\003", 1);
            }
            wait(&status);
            write(1, said, length);
            return WEXITSTATUS(status);
        }"#;
    let (counts, terminal) = (
        workshop.compile("counts", counts, &[]),
        workshop.compile("terminal", terminal, &["-lutil"]),
    );
    let mut ways = vec![""];
    if !lacks("strace") {
        ways.push("strace -f -o /dev/null -e inject=clone,fork,vfork:delay_exit=1500000");
    }
    for way in ways {
        let mut command = Command::new(&terminal);
        command
            .args(["/usr/bin/env", "--"])
            .args(way.split_whitespace())
            .args([CUDARUN, "trace"])
            .arg(&counts);
        let output = command.env("HOME", workshop.path("")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("count 1\r\n"), "{way}: {output:?}");
        // It does not end cudarun either: there is a report.
        assert!(said.contains("cudarun: one process"), "{way}: {output:?}");
    }
}

#[test]
fn a_core_is_the_programs() {
    let workshop = Workshop::new();
    let crash = workshop.compile("crash", "int main(void) { __builtin_trap(); }", &[]);
    let run = |through: &str| {
        let script = format!(
            "ulimit -c unlimited 2>/dev/null; cd {} && exec {through} {}",
            workshop.path("").display(),
            crash.display()
        );
        Command::new("sh")
            .args(["-c", &script])
            .env("HOME", workshop.path(""))
            .output()
            .unwrap()
            .status
    };
    let direct = run("");
    if !direct.core_dumped() {
        skipped("no cores are written here");
        return;
    }
    let traced = run(&format!("{CUDARUN} trace"));
    assert_eq!(
        (traced.signal(), traced.core_dumped()),
        (direct.signal(), false)
    );
    let cores = std::fs::read_dir(workshop.path(""))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let cores: Vec<PathBuf> = cores
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("core")
        })
        .collect();
    for core in cores {
        let mut start = vec![0; 4096];
        let _ = std::fs::File::open(&core)
            .unwrap()
            .read(&mut start)
            .unwrap();
        assert!(
            memchr::memmem::find(&start, b"/crash").is_some(),
            "{}",
            core.display()
        );
    }
}

#[test]
fn a_report_that_cannot_be_written_is_known_before_the_start() {
    let place = tempfile::tempdir().unwrap();
    let (mark, report) = (place.path().join("mark"), place.path().join("report"));
    let (mark_word, report_word) = (mark.to_str().unwrap(), report.to_str().unwrap());
    Run::new(["trace", "-o", "/nowhere/report", "touch", mark_word])
        .status(125)
        .stderr(
            "cudarun: cannot write `/nowhere/report`: no such file or directory\n\nhint: mkdir -p /nowhere\n",
        )
        .check();
    assert!(!mark.exists(), "it was started");
    std::fs::write(
        &report,
        "what was there before, and is longer than what comes".repeat(9),
    )
    .unwrap();
    let before = std::fs::read_to_string(&report).unwrap();
    Run::new(["trace", "-o", report_word, "/nowhere"])
        .status(127)
        .any_stderr()
        .check();
    assert_eq!(
        std::fs::read_to_string(&report).unwrap(),
        before,
        "nothing was started"
    );
    Run::new(["trace", "-o", report_word, "touch", mark_word]).check();
    assert!(mark.exists());
    assert_eq!(
        std::fs::read_to_string(&report).unwrap(),
        "cudarun: one process, no NVIDIA library\n"
    );
}

/// The error is written in place of the report: to the file, and else to standard error.
#[test]
fn a_program_that_cannot_be_traced_gives_a_json_object() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let report = file.path().to_str().unwrap();
    Run::new(["trace", "--json", "-o", report, "/nowhere"])
        .status(127)
        .stderr("cudarun: `/nowhere` was not found\n")
        .check();
    let error = json!({ "code": 127, "message": "`/nowhere` was not found", "hint": null });
    assert_eq!(
        read(file.path()),
        json!({ "schema": 2, "cudarun": env!("CARGO_PKG_VERSION"), "error": error })
    );
    let said = Run::new(["trace", "--json", "/nowhere"])
        .status(127)
        .output_of_both();
    assert_eq!(
        serde_json::from_str::<Value>(&said).unwrap()["error"],
        error
    );
    on(
        &["trace", "--json", "-o", report, "--pin=cudnn=9.9"],
        "plain",
    )
    .status(125)
    .stderr_contains(&["error: no cuDNN here fits"])
    .check();
    assert_eq!(read(file.path())["decision"], "conflict");
    let said = on(&["trace", "--json", "--pin=cudnn=9.9"], "plain")
        .status(125)
        .output_of_both();
    assert_eq!(
        serde_json::from_str::<Value>(&said).unwrap()["decision"],
        "conflict"
    );
}

#[test]
fn a_trace_prints_the_warnings_of_a_start() {
    let words = ["sh", "-c", "for word in a; do true $word; done"];
    let run = |options: &[&str]| {
        Run::new(options.iter().chain(&words))
            .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
            .env("CUDARUN_FOLLOW", "off")
    };
    let note = run(&[]).output_of_both();
    assert!(
        note.contains("`sh` starts another program"),
        "the control: {note}"
    );
    assert_eq!(
        run(&["trace"]).output_of_both().lines().next(),
        note.lines().next()
    );
    assert_eq!(
        run(&["trace", "--as-is"]).output_of_both().lines().next(),
        note.lines().next()
    );
    assert!(!run(&["-q", "trace"]).output_of_both().contains("starts"));
}

/// An inner cudarun takes out of the environment what it does not need itself, and not what the trace needs.
#[test]
fn a_program_below_an_inner_cudarun_is_seen() {
    let workshop = Workshop::new();
    let home = workshop.path("home");
    let report = workshop.path("report.json");
    // There are views, so that the module beside them is known to be ours.
    on(&[], "plain").env("HOME", &home).any_stdout().check();
    for program in ["plain", "with-torn-rpath", "plain"] {
        let inner = format!(
            "{CUDARUN} {0} && {CUDARUN} {0}",
            WORLD.path(program).display()
        );
        let words = [
            "trace",
            "--json",
            "-o",
            report.to_str().unwrap(),
            "sh",
            "-c",
            &inner,
        ];
        let run = Run::new(words)
            .env("HOME", &home)
            .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]));
        run.any_stdout().any_stderr().check();
        let report = read(&report);
        let images = report["images"].as_array().unwrap();
        let path = WORLD.path(program);
        let is_it = |image: &&Value| image["program"] == path.to_str().unwrap();
        let seen: Vec<&Value> = images.iter().filter(is_it).collect();
        assert_eq!(seen.len(), 2, "{program}: {images:#?}");
        assert!(
            seen.iter()
                .all(|image| image["files"].as_array().unwrap().len() == 9),
            "{seen:#?}"
        );
    }
}

/// A start that was kept without a trace takes the module out, and is not taken for one with it.
#[test]
fn a_kept_start_is_not_taken_for_one_below_a_trace() {
    let workshop = Workshop::new();
    let (home, log) = (workshop.path("home"), workshop.path("log"));
    std::fs::write(&log, "").unwrap();
    let exported = on(&["export", "--json", "--pin-mode=audit"], "plain")
        .env("HOME", &home)
        .json();
    let module = exported["environment"]["LD_AUDIT"]
        .as_str()
        .unwrap()
        .to_owned();
    // The module is published by a start.
    on(&["--pin-mode=audit"], "plain")
        .env("HOME", &home)
        .any_stdout()
        .check();
    let start = || {
        on(&[], "plain")
            .env("HOME", &home)
            .env("LD_AUDIT", &module)
            .any_stdout()
    };
    for _cold_then_warm in 0..2 {
        start().check();
    }
    start().env("CUDARUN_TRACE", &log).check();
    let log = std::fs::read(log).unwrap();
    assert!(
        memchr::memmem::find(&log, b"libcudnn.so.9").is_some(),
        "{}",
        log.escape_ascii()
    );
}

/// A process that outlives the program finds no log, and makes none.
#[test]
fn nothing_of_a_trace_stays_behind() {
    let home = tempfile::tempdir().unwrap();
    let mark = home.path().join("mark");
    let late = format!("sleep 0.5; /bin/true; touch {}", mark.display());
    let script = format!("(sh -c '{late}') </dev/null >/dev/null 2>&1 &");
    Run::new(["trace", "sh", "-c", &script])
        .env("HOME", home.path())
        .any_stderr()
        .check();
    while !mark.exists() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let cache = home.path().join(".cache/cudarun");
    let names = std::fs::read_dir(cache)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let hidden: Vec<_> = names
        .filter(|name| name.to_str().unwrap().starts_with('.'))
        .collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}

/// The next auditor gets the answer of the one before it: ours comes last.
#[test]
fn an_auditor_of_anothers_does_not_have_the_last_word() {
    let workshop = Workshop::new();
    let old = WORLD.path("old");
    let source = format!(
        r#"#include <string.h>
        unsigned la_version(unsigned version) {{ return 2; }}
        char *la_objsearch(const char *name, unsigned long *cookie, unsigned flag)
        {{
            return strstr(name, "libcudnn.so.9") ? "{}/libcudnn.so.9" : (char *)name;
        }}"#,
        old.display()
    );
    let auditor = workshop.library("auditor.so", "auditor.so", &source, &["-w"]);
    let run = |options: &[&str]| {
        let output = on(options, "plain")
            .env("LD_AUDIT", &auditor)
            .any_stdout()
            .any_stderr()
            .check();
        Got::read(&output).directories
    };
    assert!(
        run(&["--pin-mode=view"]).contains(&old),
        "the control must go wrong"
    );
    assert_eq!(run(&["--pin-mode=audit"]), [WORLD.path("new")]);
}
