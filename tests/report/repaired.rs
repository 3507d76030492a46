//! The line about a mix that a start would have had without cudarun: at a terminal, once for each kept decision.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::pin::real_loader::WORLD;
use crate::support::{CUDARUN, lacks};

const LINE: &str = "; without cudarun it would mix with 9.";

/// The output of a start, at a terminal or in a pipe.
fn started(home: &Path, path: &[&str], options: &str, is_terminal: bool) -> String {
    let program = WORLD.workshop.path("plain");
    let line = format!("'{CUDARUN}' {options} '{}'", program.display());
    let mut command = if is_terminal {
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{line} 2>&1")]);
        command
    };
    let path: Vec<String> = path
        .iter()
        .map(|name| WORLD.workshop.path(name).display().to_string())
        .collect();
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", home)
        .env("COLUMNS", "400")
        .env("LD_LIBRARY_PATH", path.join(":"))
        .current_dir(home)
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && text.contains("libcudnn"),
        "{text}"
    );
    text
}

#[test]
fn a_repaired_mix_is_told_once_at_a_terminal() {
    if lacks("script") {
        return;
    }
    let homes: Vec<_> = (0..4).map(|_| tempfile::tempdir().unwrap()).collect();
    let mixed = ["torn", "old"];
    let first = started(homes[0].path(), &mixed, "", true);
    assert!(
        first.contains("cudarun: cuDNN ") && first.contains(LINE),
        "{first}"
    );
    assert!(
        !started(homes[0].path(), &mixed, "", true).contains(LINE),
        "a kept start"
    );
    assert!(
        !started(homes[1].path(), &mixed, "-q", true).contains(LINE),
        "-q"
    );
    assert!(
        !started(homes[2].path(), &mixed, "", false).contains(LINE),
        "no terminal"
    );
    // The shim of a torn one over the sublibraries of a whole one is no mix.
    let whole = started(homes[3].path(), &["torn", "new"], "", true);
    assert!(!whole.contains("without cudarun"), "the control: {whole}");
}
