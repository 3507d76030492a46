//! The progress that a person at a terminal sees while cudarun takes long to inspect the machine: on a slow
//! disk, because strace delays whatever reads a directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use crate::support::{CUDARUN, lacks};

const SHOWN: &str = "\r\x1b[Kcudarun: looking for NVIDIA libraries …\r\x1b[K";

/// The text that it writes to a terminal, in a home of its own, after `before`.
fn at_terminal(before: &str, words: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("job"), "#!/bin/sh\necho started\n").unwrap();
    fs::set_permissions(home.path().join("job"), fs::Permissions::from_mode(0o755)).unwrap();
    // `script` gives it a terminal.
    let mut command = Command::new("script");
    command
        .args([
            "-qec",
            &format!("{before} '{CUDARUN}' {words}"),
            "/dev/null",
        ])
        .stdin(Stdio::null());
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", home.path());
    command
        .env("LD_LIBRARY_PATH", home.path())
        .current_dir(home.path());
    let output = command.output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Each of the first directories is read in so many milliseconds.
fn slow(milliseconds: u32) -> String {
    let held_up = format!(
        "inject=getdents64:delay_enter={}:when=1..2",
        milliseconds * 1000
    );
    format!("strace -qqo /dev/null -e trace=getdents64 -e {held_up}")
}

#[test]
fn a_long_scan_shows_progress_and_erases_it() {
    if lacks("strace") {
        return;
    }
    // A script may start any program, so cudarun inspects the machine.
    let start = "./job";
    for words in [
        start,
        "list",
        "explain true",
        "export ./job",
        "verify ./job",
    ] {
        let text = at_terminal(&slow(600), words);
        assert!(text.starts_with(SHOWN), "{words}: {text:?}");
        assert!(
            !text[SHOWN.len()..].contains("\x1b[K"),
            "{words}: it is written over before all else: {text:?}"
        );
        assert_eq!(text.matches("looking for").count(), 1, "{words}: {text:?}");
    }
    assert_eq!(
        at_terminal(&slow(600), start),
        format!("{SHOWN}started\r\n")
    );
    assert_eq!(
        at_terminal(&slow(600), "echo started"),
        "started\r\n",
        "it needs nothing, so nothing is inspected"
    );
}

#[test]
fn layers_that_take_long_show_progress() {
    if lacks("strace") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let layer = crate::image::Archive::default()
        .file("etc/hostname", "a\n")
        .end();
    fs::write(place.path().join("image.tar"), layer).unwrap();
    let slow = "strace -qqo /dev/null -e trace=pread64 -e inject=pread64:delay_enter=300000";
    let words = format!("--root {}/image.tar list", place.path().display());
    let shown = "\r\x1b[Kcudarun: reading the layers of the image …\r\x1b[K";
    let text = at_terminal(slow, &words);
    assert!(text.starts_with(shown), "{text:?}");
    assert!(!at_terminal(slow, &format!("-q {words}")).contains("layers"));
    assert!(
        !at_terminal("", &words).contains("layers"),
        "the control: a quick one"
    );
}

#[test]
fn a_short_or_quiet_scan_shows_no_progress() {
    if lacks("strace") {
        return;
    }
    // Half a second is much for a machine that does nothing else, and little beside all the other tests.
    let mut quick = (0..5).map(|_| at_terminal(&slow(1), "./job"));
    assert!(quick.any(|text| text == "started\r\n"), "it is quick");
    assert_eq!(at_terminal(&slow(600), "-q ./job"), "started\r\n", "-q");
    let text = at_terminal(&slow(600), "explain true 2>/dev/null");
    assert!(
        !text.contains("looking for"),
        "standard error is no terminal: {text}"
    );
    let text = at_terminal(&slow(600), "explain true 2>&1 | cat");
    assert!(!text.contains("looking for"), "nor a pipe: {text}");
}
