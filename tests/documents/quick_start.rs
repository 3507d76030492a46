//! The first commands of a new user.

use std::fs;
use std::path::Path;
use std::process::Command;

use unicode_width::UnicodeWidthStr;

use crate::support::{CUDARUN, lacks, skipped};

/// Each command of README.md's quick start fits a terminal of 80 by 24, on a machine without a GPU.
#[test]
fn the_quick_start_fits_a_small_terminal() {
    if lacks("script") || lacks("python3") {
        return;
    }
    if Path::new("/dev/nvidiactl").exists() {
        return skipped("this machine has a GPU, and may have many libraries");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let start = readme.split("## Quick start").nth(1).unwrap().split("## ").next().unwrap();
    let commands: Vec<&str> = start.lines().filter_map(|line| line.strip_prefix("$ cudarun ")).collect();
    assert_eq!(commands.len(), 3, "{start}");
    let home = tempfile::tempdir().unwrap();
    fs::copy(root.join("examples/which_cudnn.py"), home.path().join("train.py")).unwrap();
    for command in commands {
        let words = command.split('#').next().unwrap().trim();
        let mut terminal = Command::new("script");
        let line = format!("stty cols 80 rows 24; '{CUDARUN}' {words}");
        terminal.args(["-qec", &line, "/dev/null"]).current_dir(home.path()).env_clear();
        terminal.env("HOME", home.path()).env("PATH", "/usr/bin:/bin").env("TERM", "xterm");
        let screen = String::from_utf8(terminal.output().unwrap().stdout).unwrap();
        let lines: Vec<String> =
            screen.lines().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
        assert!((1..=24).contains(&lines.len()), "{words}: {} lines\n{screen}", lines.len());
        assert!(lines.iter().all(|line| line.width() <= 80), "{words}\n{screen}");
        assert!(
            lines[0].len() > 10 && lines.iter().any(|line| line.starts_with("next: ")),
            "{words}\n{screen}"
        );
    }
}
