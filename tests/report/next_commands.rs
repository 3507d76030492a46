//! The last line of a page is the next command to type. Each leads forward: who follows them comes to an end.

use std::fs;

use crate::support::Run;
use crate::support::machine::Machine;

/// Where a person may begin on a described machine.
const BEGINNINGS: [&[&str]; 7] = [
    &["list"],
    &["list", "cudnn"],
    &["list", "driver"],
    &["list", "toolkit"],
    &["doctor"],
    &["explain", "PROGRAM"],
    &[
        "diagnose",
        "--text",
        "libcudnn.so.9: cannot open shared object file",
    ],
];

/// A program of the machine for the placeholder; one without any library, where the page of screens has none.
fn program(name: &str) -> &'static [&'static str] {
    match name {
        "aarch64" => &["/opt/venv/bin/python3", "-c", "import torch"],
        "debian" => &["/usr/bin/profiled"],
        "old-driver" => &["for-13"],
        "python" => &["/home/user/bin/long"],
        "h200-container" | "hostile" | "nothing" => &["python3", "/home/user/train.py"],
        "torch" => &["python3", "train.py"],
        _ => &["python3", "-c", "import torch"],
    }
}

/// The words of the last line, if it is a command of cudarun.
fn next(page: &str) -> Option<Vec<String>> {
    let line = page.lines().find_map(|line| line.strip_prefix("next: "))?;
    let mut words = shlex::split(line).unwrap();
    assert_eq!(words.remove(0), "cudarun", "{page}");
    Some(words)
}

#[test]
fn the_next_commands_of_every_machine_come_to_an_end() {
    let mut followed = 0;
    for entry in fs::read_dir("tests/machines").unwrap() {
        let file = entry.unwrap().file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".toml") else {
            continue;
        };
        let machine = Machine::load(name);
        for beginning in BEGINNINGS {
            let mut words: Vec<String> = beginning.iter().map(ToString::to_string).collect();
            let mut seen: Vec<Vec<String>> = Vec::new();
            loop {
                if let Some(at) = words.iter().position(|word| word == "PROGRAM") {
                    let program = program(name).iter().map(ToString::to_string);
                    words.splice(at..=at, program);
                }
                assert!(
                    !seen.contains(&words),
                    "{name}: a circle: {seen:?}, {words:?}"
                );
                seen.push(words.clone());
                let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
                let (page, status, said) = Run::on(&machine, &arguments).streams();
                // 125 to 127 are no answers of these verbs.
                assert!(status < 3, "{name}: {words:?}: {status}\n{said}");
                let Some(then) = next(&page) else {
                    break;
                };
                followed += 1;
                words = then;
            }
        }
    }
    assert!(followed > 50, "{followed}");
}

#[test]
fn a_family_that_is_not_here_leads_to_fetch_and_an_unknown_machine_to_doctor() {
    let nothing = Machine::load("nothing");
    let next = |words: &[&str]| {
        let (page, _, _) = Run::on(&nothing, words).streams();
        page.lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(
        next(&["list", "cudnn"]),
        "next: cudarun fetch --dry-run cudnn"
    );
    assert_eq!(
        next(&["list", "driver"]),
        "next: cudarun doctor",
        "nobody can fetch it"
    );
    assert_eq!(next(&["list"]), "next: cudarun doctor");
    assert_eq!(next(&["doctor"]), "next: cudarun explain PROGRAM");
}
