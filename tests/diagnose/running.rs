//! Programs that `cudarun diagnose` runs: each end, each stream, and the explanation after a failure. The control is the program
//! alone.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::support::{CUDARUN, Workshop, lacks};

const MISSING: &str =
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory";

/// A shell script, alone and under cudarun, in a home of its own.
struct Script<'s> {
    code: &'s str,
    home: tempfile::TempDir,
}

impl Script<'_> {
    fn new(code: &str) -> Script<'_> {
        Script {
            code,
            home: tempfile::tempdir().unwrap(),
        }
    }

    fn alone(&self) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", self.code])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.home.path());
        command.current_dir(self.home.path());
        command
    }

    fn under(&self, words: &[&str]) -> Command {
        let mut command = Command::new(CUDARUN);
        command
            .args(words)
            .args(["sh", "-c", self.code])
            .env_clear()
            .env("PATH", "/usr/bin:/bin");
        command
            .env("HOME", self.home.path())
            .current_dir(self.home.path());
        command
    }

    fn diagnosed(&self) -> Command {
        self.under(&["diagnose"])
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The explanation: what follows the program's own standard error.
#[track_caller]
fn explanation(alone: &Output, diagnosed: &Output) -> String {
    assert_eq!(alone.stdout, diagnosed.stdout);
    assert_eq!(
        alone.status,
        diagnosed.status,
        "{}",
        text(&diagnosed.stderr)
    );
    let rest = diagnosed.stderr.strip_prefix(&alone.stderr[..]);
    text(
        rest.unwrap_or_else(|| panic!("{}\n---\n{}", text(&alone.stderr), text(&diagnosed.stderr))),
    )
}

#[test]
fn a_known_failure_is_explained_after_it() {
    let code = format!("printf 'out\\0'; echo '{MISSING}' >&2; exit 3");
    let script = Script::new(&code);
    let alone = script.alone().output().unwrap();
    let said = explanation(&alone, &script.diagnosed().output().unwrap());
    let start = "\nsh ended with status 3\nit is: libcudart.so.12 is not installed\n";
    assert!(said.starts_with(start) && said.contains("  do: "), "{said}");
    let json = script.under(&["diagnose", "--json"]).output().unwrap();
    let found: serde_json::Value =
        serde_json::from_slice(json.stderr.strip_prefix(&alone.stderr[..]).unwrap()).unwrap();
    assert_eq!(found["causes"][0]["cause"], "not-installed", "{found:#}");
    let as_is = script.under(&["diagnose", "--as-is"]).output().unwrap();
    assert_eq!(explanation(&alone, &as_is), said);
    let before = Command::new(CUDARUN)
        .args(["diagnose", "nowhere"])
        .output()
        .unwrap();
    assert_eq!(before.status.code(), Some(127), "{}", text(&before.stderr));
}

#[test]
fn an_explanation_can_be_a_page() {
    let code = format!("echo '{MISSING}' >&2; exit 3");
    for (code, part) in [
        (code.as_str(), "libcudart.so.12 is not installed"),
        ("exit 3", "message"),
    ] {
        let script = Script::new(code);
        let alone = script.alone().output().unwrap();
        let page = script.home.path().join("page.html");
        let file = page.to_str().unwrap();
        let said = explanation(
            &alone,
            &script
                .under(&["diagnose", "--html", file])
                .output()
                .unwrap(),
        );
        assert!(
            said.starts_with("cudarun: ") && said.contains("page.html"),
            "{said}"
        );
        let html = fs::read_to_string(&page).unwrap();
        assert!(
            html.starts_with("<!DOCTYPE html>") && html.contains(part),
            "{html}"
        );
        let said = explanation(
            &alone,
            &script.under(&["diagnose", "--markdown"]).output().unwrap(),
        );
        assert!(said.starts_with("\n```") && said.contains(part), "{said}");
        let absent = script
            .under(&["diagnose", "--html", "/nowhere/page.html"])
            .output()
            .unwrap();
        assert!(explanation(&alone, &absent).contains("/nowhere/page.html"));
    }
    // The control: a program that succeeds leaves no page.
    let script = Script::new("exit 0");
    script
        .under(&["diagnose", "--html", "page.html"])
        .output()
        .unwrap();
    assert!(!script.home.path().join("page.html").exists());
}

/// Every way to end. A failure without a known message takes two lines; success, and an end that a person asked for, nothing.
#[test]
fn statuses_and_signals_are_the_programs_own() {
    for (code, is_told) in [
        ("exit 0", false),
        ("exit 1", true),
        ("exit 125", true),
        ("exit 255", true),
        ("exit 130", false),
        ("kill -KILL $$", true),
        ("kill -SEGV $$", true),
        ("ulimit -c 0; kill -ABRT $$", true),
        ("kill -TERM $$", false),
        ("kill -INT $$", false),
        ("echo all is well >&2", false),
        ("printf 'no line end' >&2; exit 4", true),
    ] {
        let script = Script::new(code);
        let alone = script.alone().output().unwrap();
        let said = explanation(&alone, &script.diagnosed().output().unwrap());
        let has_words = said
            .contains("; its standard error has no known error message\nnext: cudarun doctor\n");
        assert_eq!(
            (has_words, said.is_empty()),
            (is_told, !is_told),
            "{code}: {said}"
        );
    }
}

/// jax and TensorFlow go on without the GPU.
#[test]
fn a_program_that_worked_may_have_missed_the_gpu() {
    let failed = format!("echo '{MISSING}' >&2");
    let script = Script::new(&failed);
    let said = explanation(
        &script.alone().output().unwrap(),
        &script.diagnosed().output().unwrap(),
    );
    assert!(
        said.starts_with("\nsh ended with status 0, but it may have run without the GPU\n"),
        "{said}"
    );
    // This one is harmless without a GPU.
    let script = Script::new(
        "echo 'failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected' >&2",
    );
    let said = explanation(
        &script.alone().output().unwrap(),
        &script.diagnosed().output().unwrap(),
    );
    if !Path::new("/dev/nvidiactl").exists() {
        assert!(
            said.starts_with("\nharmless: failed call to cuInit: "),
            "{said}"
        );
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}

/// What a pipe or a file brings on standard input is the text. Everything else, and what is empty, leaves the program to start.
#[test]
fn a_text_on_standard_input_is_explained_for_the_program() {
    let script = Script::new("echo started; cat");
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        Stdio::from(fs::File::open(path).unwrap())
    };
    let pipe = |content: &str| {
        let (read, mut write) = std::io::pipe().unwrap();
        write.write_all(content.as_bytes()).unwrap();
        Stdio::from(read)
    };
    let said = |mut command: Command, input: Stdio| {
        let output = command.stdin(input).output().unwrap();
        (
            text(&output.stdout),
            text(&output.stderr),
            output.status.code(),
        )
    };
    for input in [pipe(MISSING), file("log", MISSING)] {
        let (page, error, status) = said(script.diagnosed(), input);
        assert!(
            page.starts_with("it is: libcudart.so.12 is not installed\n"),
            "{page}"
        );
        assert!(!page.contains("no program is named"), "{page}");
        assert!(
            error.contains("which is not started")
                && error.contains("CUDARUN_ON_FAILURE=diagnose cudarun sh"),
            "{error}"
        );
        assert_eq!(status, Some(0));
    }
    let (page, _, status) = said(script.diagnosed(), pipe("all is well\n"));
    assert!(page.starts_with("no known error message"), "{page}");
    assert_eq!(status, Some(1));
    // A list that a loop of the shell has begun to read is no log.
    let path = directory.path().join("list");
    fs::write(&path, "1\n2\n").unwrap();
    let mut begun = fs::File::open(path).unwrap();
    begun.read_exact(&mut [0; 2]).unwrap();
    let (page, error, _) = said(script.diagnosed(), Stdio::from(begun));
    assert_eq!((page.as_str(), error.as_str()), ("started\n2\n", ""));
    for input in [Stdio::null(), pipe(""), file("empty", "")] {
        let started = ("started\n".to_owned(), String::new(), Some(0));
        assert_eq!(said(script.diagnosed(), input), started);
    }
    // Both ways to start it with its input.
    let started = ("started\n1 2\n".to_owned(), String::new(), Some(0));
    let as_is = script.under(&["diagnose", "--as-is"]);
    assert_eq!(said(as_is, pipe("1 2\n")), started);
    let mut by_setting = script.under(&[]);
    by_setting.env("CUDARUN_ON_FAILURE", "diagnose");
    assert_eq!(said(by_setting, pipe("1 2\n")), started);
}

/// A launcher holds its end of the pipe open and writes nothing; a slow writer is waited for with `--from -`.
#[test]
fn a_pipe_that_brings_nothing_does_not_stop_a_program() {
    let script = Script::new("echo started");
    let (read, _write) = std::io::pipe().unwrap();
    let output = script.diagnosed().stdin(read).output().unwrap();
    assert_eq!(text(&output.stdout), "started\n");
    let error = text(&output.stderr);
    assert!(error.contains("diagnose --from - PROGRAM`"), "{error}");
    let (read, mut write) = std::io::pipe().unwrap();
    let writer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(2500));
        write.write_all(MISSING.as_bytes()).unwrap();
    });
    let mut waiting = script.under(&["diagnose", "--from", "-"]);
    let output = waiting.stdin(read).output().unwrap();
    writer.join().unwrap();
    let page = text(&output.stdout);
    assert!(page.starts_with("it is: libcudart.so.12"), "{page}");
}

/// It ran on the CPU, and the page was asked for.
#[test]
fn a_program_without_a_gpu_leaves_the_page_that_was_asked_for() {
    if Path::new("/dev/nvidiactl").exists() {
        return;
    }
    let script = Script::new(
        "echo 'failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected' >&2",
    );
    let mut paged = script.under(&["diagnose", "--html", "page.html"]);
    let said = explanation(&script.alone().output().unwrap(), &paged.output().unwrap());
    assert!(
        said.contains("page.html") && said.contains("\nharmless: failed call to cuInit: "),
        "{said}"
    );
    assert!(script.home.path().join("page.html").exists());
    // The control: without the option there is none.
    let script = Script::new(script.code);
    script.diagnosed().output().unwrap();
    assert!(!script.home.path().join("page.html").exists());
}

/// A program of several lines is still a command to paste.
/// Lines that only name a part and a failure explain nothing.
#[test]
fn a_clue_is_no_failure() {
    let clue = "echo 'GPU 0: 0 errors' >&2; echo 'GPU flag: error 5' >&2;";
    for (end, is_explained) in [("exit 0", false), ("exit 3", true)] {
        let code = format!("{clue} {end}");
        let script = Script::new(&code);
        let alone = script.alone().output().unwrap();
        let said = explanation(&alone, &script.diagnosed().output().unwrap());
        assert_eq!(said.contains("it may be:"), is_explained, "{said}");
        assert!(
            !said.contains("it is:") && said.is_empty() != is_explained,
            "{said}"
        );
        let mut by_setting = script.under(&[]);
        by_setting.env("CUDARUN_ON_FAILURE", "diagnose");
        assert_eq!(explanation(&alone, &by_setting.output().unwrap()), "");
    }
}

/// A program that shows no need of a library is started without a look at the machine. Its failure needs one.
#[test]
fn the_failure_of_a_program_without_needs_is_explained_with_this_machine() {
    let workshop = Workshop::new();
    let library = workshop.library(
        "lib/libcudart.so.12",
        "libcudart.so.12",
        "int cudaRuntimeGetVersion;",
        &[],
    );
    let directory = library.parent().unwrap().to_str().unwrap();
    let code = format!("echo '{MISSING}' >&2; exit 3");
    let script = Script::new(&code);
    let alone = script.alone().output().unwrap();
    let also = script
        .under(&["-q", "--also", directory, "diagnose"])
        .output()
        .unwrap();
    let said = explanation(&alone, &also);
    assert!(
        said.contains("libcudart.so.12 is installed where the program does not look"),
        "{said}"
    );
    let control = explanation(&alone, &script.diagnosed().output().unwrap());
    assert!(
        control.contains("libcudart.so.12 is not installed"),
        "{control}"
    );
}

#[test]
fn a_cure_with_line_ends_can_be_pasted() {
    let script = Script::new(
        "echo 'libcudart.so.12: cannot open shared object file' >&2\nexit 3 # 100%! -x \\",
    );
    let json = script.under(&["diagnose", "--json"]).output().unwrap();
    let text = text(&json.stderr);
    let found: serde_json::Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", found["program"].as_str().unwrap()])
        .env("HOME", script.home.path());
    assert_eq!(shell.output().unwrap().status.code(), Some(3), "{found:#}");
}

#[test]
fn every_byte_goes_on_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bytes");
    // Every byte, in pieces that no buffer's size divides.
    let bytes: Vec<u8> = (0..24_000_007_u64)
        .map(|at| (at * at / 7 % 256) as u8)
        .collect();
    fs::write(&file, &bytes).unwrap();
    let code = format!("cat '{}' >&2; exit 1", file.display());
    let script = Script::new(&code);
    let got = script.diagnosed().output().unwrap().stderr;
    assert!(
        got.starts_with(&bytes),
        "{} bytes of {}",
        got.len(),
        bytes.len()
    );
    // A known message at the beginning or at the end of it is explained, with the number of its line.
    let lines = "x\\n".repeat(40);
    for code in [
        format!("echo '{MISSING}' >&2; cat '{}' >&2; exit 1", file.display()),
        format!(
            "cat '{}' >&2; printf '\\n{lines}' >&2; printf '%s' '{MISSING}' >&2; exit 1",
            file.display()
        ),
    ] {
        let got = Script::new(&code).diagnosed().output().unwrap().stderr;
        let said = text(&got[got.len().saturating_sub(2000)..]);
        assert!(said.contains("libcudart.so.12 is not installed"), "{said}");
        let line = if code.starts_with("echo") {
            1
        } else {
            42 + memchr::memchr_iter(b'\n', &bytes).count()
        };
        assert!(said.contains(&format!("(line {line})")), "{line}: {said}");
    }
}

/// A process that the program leaves behind writes on, and nothing waits for it.
#[test]
fn processes_that_outlive_the_program_are_heard_and_not_waited_for() {
    let script = Script::new("(sleep 2; echo late >&2; sleep 1; echo later >&2) & echo early >&2");
    for mut command in [script.alone(), script.diagnosed()] {
        let began = Instant::now();
        let (read, write) = std::io::pipe().unwrap();
        let mut child = command.stdout(Stdio::null()).stderr(write).spawn().unwrap();
        drop(command);
        child.wait().unwrap();
        let took = began.elapsed();
        assert!(took < Duration::from_millis(1800), "{took:?}");
        assert_eq!(
            std::io::read_to_string(read).unwrap(),
            "early\nlate\nlater\n"
        );
    }
}

/// Standard error that is closed, full, or read by nothing.
#[test]
fn odd_standard_errors_are_as_without_cudarun() {
    for (code, redirection) in [
        ("echo out; echo x >&2; echo $? ; exit 4", "2>&-"),
        (
            "echo out; exec 2>/dev/null; echo x >&2; exit 4",
            "2>/dev/null",
        ),
        ("exec 2>&-; sleep 0.2; echo out", ""),
        (
            "trap '' PIPE; sleep 0.1; (echo x >&2) || echo refused",
            "2> >(exit)",
        ),
    ] {
        if lacks("bash") {
            return;
        }
        let script = Script::new(code);
        let run = |words: &str| {
            let line = format!("{words} sh -c \"$CODE\" {redirection}; echo status $?");
            let mut bash = Command::new("bash");
            bash.args(["-c", &line])
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("CODE", code);
            text(
                &bash
                    .env("HOME", script.home.path())
                    .output()
                    .unwrap()
                    .stdout,
            )
        };
        assert_eq!(
            run(""),
            run(&format!("'{CUDARUN}' diagnose")),
            "{code} {redirection}"
        );
    }
    // A program that never stops to write ends when nothing reads it.
    let script = Script::new("exec yes >&2");
    for mut command in [script.alone(), script.diagnosed()] {
        let (read, write) = std::io::pipe().unwrap();
        let mut child = command.stderr(write).spawn().unwrap();
        drop((command, read));
        assert!(child.wait().unwrap().signal().is_some());
    }
}

#[test]
fn a_setting_asks_for_the_explanation() {
    let code = format!("echo '{MISSING}' >&2; exit 3");
    let script = Script::new(&code);
    let alone = script.alone().output().unwrap();
    let plain = script.under(&[]);
    let output = |mut command: Command| command.output().unwrap();
    assert_eq!(explanation(&alone, &output(plain)), "", "the control");
    let mut by_variable = script.under(&[]);
    by_variable.env("CUDARUN_ON_FAILURE", "diagnose");
    let said = explanation(&alone, &output(by_variable));
    assert!(
        said.contains("it is: libcudart.so.12 is not installed"),
        "{said}"
    );
    // A project needs no permission for it. A start that was kept before is not taken.
    fs::write(
        script.home.path().join(".cudarun.toml"),
        "[run]\non-failure = \"diagnose\"\n",
    )
    .unwrap();
    for _ in 0..2 {
        assert_eq!(explanation(&alone, &output(script.under(&[]))), said);
    }
    let mut disabled = script.under(&[]);
    disabled.env("CUDARUN_ON_FAILURE", "none");
    assert_eq!(explanation(&alone, &output(disabled)), "");
    // A failure that nothing explains is left alone.
    let other = Script {
        code: "exit 5",
        home: script.home,
    };
    assert_eq!(
        explanation(&other.alone().output().unwrap(), &output(other.under(&[]))),
        ""
    );
    // One explanation, however many of them are below one another.
    let nested = format!("'{CUDARUN}' sh -c \"{code}\"");
    let other = Script {
        code: &nested,
        home: other.home,
    };
    let said = text(&output(other.under(&[])).stderr);
    assert_eq!(said.matches("it is:").count(), 1, "{said}");
}

/// Bars, colours, sizes, keys and job control of a terminal.
#[test]
fn a_terminal_is_as_without_cudarun() {
    if lacks("python3") {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnose/terminal.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(CUDARUN)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// What a program does to itself or to the settings costs neither its status nor the explanation.
#[test]
fn a_program_that_removes_itself_keeps_its_status() {
    let workshop = Workshop::new();
    let source = format!(
        "#include <stdio.h>\n#include <unistd.h>\nint main(int c, char **v) {{ fputs(\"{MISSING}\\n\", stderr); return unlink(v[0]) ? 4 : 3; }}"
    );
    let program = workshop.path("removes");
    for (words, setting) in [(&["diagnose"][..], "none"), (&[], "diagnose")] {
        workshop.compile("removes", &source, &[]);
        let mut command = Command::new(CUDARUN);
        command
            .args(words)
            .arg(&program)
            .env("CUDARUN_ON_FAILURE", setting);
        let output = command.output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(
            said.contains("\nit is: libcudart.so.12 is not installed\n"),
            "{said}"
        );
        assert!(!program.exists());
    }
    let code = format!("echo '{MISSING}' >&2; echo '= 1' >.cudarun.toml; exit 3");
    let script = Script::new(&code);
    let alone = script.alone().output().unwrap();
    std::fs::remove_file(script.home.path().join(".cudarun.toml")).unwrap();
    let said = explanation(&alone, &script.diagnosed().output().unwrap());
    assert!(said.contains("\nit is: "), "{said}");
}
