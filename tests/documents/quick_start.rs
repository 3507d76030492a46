//! The first commands of a new user.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use unicode_width::UnicodeWidthStr;

use crate::fetch::wheelhouse::{Wheelhouse, cudart};
use crate::support::{CUDARUN, lacks, skipped};

/// Each command of README.md's quick start fits a terminal of 80 by 24, on a machine without a GPU. The wheel comes from a
/// directory that the user's settings name.
#[test]
fn the_quick_start_fits_a_small_terminal() {
    if lacks("script") || lacks("cc") {
        return;
    }
    if Path::new("/dev/nvidiactl").exists() {
        return skipped("this machine has a GPU, and may have many libraries");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let start = readme
        .split("## Quick start")
        .nth(1)
        .unwrap()
        .split("## ")
        .next()
        .unwrap();
    let commands: Vec<&str> = start
        .lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .collect();
    let house = Wheelhouse::new(&[cudart()]);
    house.user_names_wheels();
    let home = house.path("home");
    std::os::unix::fs::symlink(root.join("examples"), home.join("examples")).unwrap();
    std::os::unix::fs::symlink(CUDARUN, house.path("bin/cudarun")).unwrap();
    let path = format!("{}:/usr/bin:/bin", house.path("bin").display());
    // The end of each one's last line but for blank ones.
    let ends = [
        ": No such file or directory",
        "CUDA runtime 12.4",
        "next: ",
        "next: ",
        "next: ",
    ];
    assert_eq!(commands.len(), ends.len(), "{start}");
    for (command, end) in commands.into_iter().zip(ends) {
        let words = command.split('#').next().unwrap().trim();
        let mut terminal = Command::new("script");
        let line = format!("stty cols 80 rows 24; {words}");
        terminal
            .args(["-qec", &line, "/dev/null"])
            .current_dir(&home)
            .env_clear()
            .envs(house.environment());
        terminal
            .env("PATH", &path)
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut terminal = terminal.spawn().unwrap();
        // The answer to a question, and the end of a line to all others.
        let mut typed = terminal.stdin.take().unwrap();
        typed
            .write_all(if words.contains("--fetch") {
                b"yes\n"
            } else {
                b"\n"
            })
            .unwrap();
        let screen = String::from_utf8(terminal.wait_with_output().unwrap().stdout).unwrap();
        drop(typed);
        let lines: Vec<String> = screen
            .lines()
            .map(|line| anstream::adapter::strip_str(line).to_string())
            .collect();
        assert!(
            (1..=24).contains(&lines.len()),
            "{words}: {} lines\n{screen}",
            lines.len()
        );
        // One path may be wider, and the dynamic loader's message is not cudarun's.
        let is_wide = |line: &&String| {
            line.width() > 80 && line.trim().contains(' ') && !line.contains("shared libraries")
        };
        assert_eq!(lines.iter().find(is_wide), None, "{words}\n{screen}");
        let says_end = |line: &String| line.starts_with(end) || line.trim_end().ends_with(end);
        assert!(
            lines.iter().any(|line| line.len() > 10) && lines.iter().any(says_end),
            "{words}\n{screen}"
        );
    }
}
