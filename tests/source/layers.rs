//! The table of layers is the architecture: a test fails if a file names a module that the table does not
//! allow.

use std::fs;
use std::path::Path;

/// The rooms of the crate, from the ground up: a room names only itself and those before it.
const ROOMS: &[&str] = &[
    "version",
    "range",
    "text",
    "variables",
    "environment",
    "modes",
    "parallel",
    "signals",
    "host",
    "formats",
    "catalog",
    "requirements",
    "loader",
    "storage",
    "error",
    "inventory",
    "cli",
    "settings",
    "program",
    "solve",
    "predict",
    "pin",
    "builds",
    "fetch",
    "verify",
    "launch",
    "running",
    "kept",
    "shell",
    "hooks",
    "doctor",
    "diagnose",
    "causes",
    "image",
    "fleet",
    "advise",
    "report",
    "pipeline",
    "crash",
    "commands",
];

#[test]
fn the_map_lists_the_rooms_from_the_ground_up() {
    let (_, map) = include_str!("../../src/ARCHITECTURE.md")
        .split_once("## The rooms")
        .unwrap();
    let rows = map.lines().filter_map(|line| line.strip_prefix("| `"));
    let named = rows.flat_map(|row| row.split('|').next().unwrap().split('`').step_by(2));
    let rooms: Vec<&str> = named
        .map(room)
        .filter(|name| ROOMS.contains(name))
        .collect();
    let mut once = rooms.clone();
    once.dedup();
    let known = |name: &&str| rooms.contains(name);
    assert!(
        ROOMS.iter().all(known),
        "a room is missing in src/ARCHITECTURE.md"
    );
    let places: Vec<usize> = once
        .iter()
        .map(|name| ROOMS.iter().position(|room| room == name).unwrap())
        .collect();
    assert!(
        places.is_sorted(),
        "src/ARCHITECTURE.md and ROOMS differ in their order: {once:?}"
    );
}

/// Rooms that are pure, and the only names that they use of the room that reads the machine.
const PURE: &[(&str, &[&str])] = &[
    ("formats", &[]),
    ("catalog", &["host::table_of_test"]),
    ("range", &[]),
    ("solve", &["host::FileId"]),
    ("diagnose", &[]),
    ("advise", &[]),
    ("cli", &[]),
];

/// The room of a file below `src`: its directory, or its own name without `.rs`.
fn room(file: &str) -> &str {
    file.split('/').next().unwrap().trim_end_matches(".rs")
}

#[test]
fn rooms_depend_on_each_other_in_one_direction() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut faults = Vec::new();
    for file in files(&source) {
        let name = file
            .strip_prefix(&source)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        // The audit module is a crate of its own, and the whole crate serves `lib.rs`.
        if ["lib", "main", "build", "audit"].contains(&room(&name)) {
            continue;
        }
        let own = ROOMS.iter().position(|known| *known == room(&name));
        let own = own.unwrap_or_else(|| panic!("src/{name} is in no room of ROOMS"));
        let text = fs::read_to_string(&file).unwrap();
        // Tests may build what they test from anything.
        let text = text.split("#[cfg(test)]").next().unwrap();
        for (index, line) in logical_lines(text) {
            for named in names(&line) {
                let other = named.split("::").next().unwrap();
                let is_below = ROOMS
                    .iter()
                    .position(|known| *known == other)
                    .is_none_or(|at| at <= own);
                let pure = PURE.iter().find(|(pure, _)| *pure == ROOMS[own]);
                let is_pure =
                    other != "host" || pure.is_none_or(|(_, may)| may.contains(&named.as_str()));
                if !is_below || !is_pure {
                    faults.push(format!("src/{name}:{}: may not name {named}", index + 1));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn names_of_the_crate_are_found_in_a_line() {
    assert_eq!(
        names("use crate::host::{FileId, Host};"),
        ["host::FileId", "host::Host"]
    );
    assert_eq!(
        names("let x = crate::catalog::first_number(s);"),
        ["catalog::first_number"]
    );
    assert_eq!(
        names("use crate::{host, solve::Plan};"),
        ["host", "solve::Plan"]
    );
    assert_eq!(names("use super::Style;"), [""; 0]);
    let lines = logical_lines("//! text\nuse crate::host::{\n    Host, Kind,\n};\nfn f() {}\n");
    assert_eq!(
        lines[1],
        (1, "use crate::host::{     Host, Kind, };".to_owned())
    );
    assert_eq!(names(&lines[1].1), ["host::Host", "host::Kind"]);
}

#[test]
fn verbs_do_not_name_each_other_and_unsafe_stays_where_it_belongs() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in files(&source) {
        let name = file
            .strip_prefix(&source)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&file).unwrap();
        // Libraries that are loaded and called; files that are mapped; what is inherited across exec and Rust's
        // runtime changes; handlers of signals; what the loader calls, without a libc.
        let may = [
            "audit/follow.rs",
            "audit/lib.rs",
            "audit/system.rs",
            "audit/texts.rs",
            "host/mapping.rs",
            "host/process.rs",
            "launch.rs",
            "launch/inheritance.rs",
            "launch/relay.rs",
            "launch/replacement.rs",
            "main.rs",
            "signals.rs",
        ];
        let is_unsafe = |line: &str| line.contains("unsafe ") || line.contains("unsafe(");
        let has_unsafe = text
            .lines()
            .any(|line| !line.trim_start().starts_with("//") && is_unsafe(line));
        let is_child = name.starts_with("verify/child/");
        assert!(
            !has_unsafe || is_child || may.contains(&name.as_str()),
            "{name} holds unsafe code"
        );
        if name.starts_with("commands/") && name != "commands/mod.rs" {
            for verb in [
                "run", "list", "explain", "export", "trace", "init", "allow", "shell", "fleet",
            ] {
                assert!(
                    !text.contains(&format!("super::{verb}")),
                    "{name} names {verb}"
                );
            }
        }
        for tool in ["libloading", "cudarc"] {
            assert!(
                !text.contains(&format!("use {tool}")) || name.starts_with("verify/child/"),
                "{name} uses {tool}"
            );
        }
        assert!(
            text.starts_with("//!") || text.starts_with("#![doc"),
            "{name} does not say what it is"
        );
    }
}

/// The lines of a file by their number, each `use` as one.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match lines.last_mut() {
            Some((_, last)) if last.trim_start().starts_with("use ") && !last.ends_with(';') => {
                last.push(' ');
                last.push_str(line);
            }
            _ => lines.push((index, line.to_owned())),
        }
    }
    lines
}

/// Every `crate::a::b` of a line, two levels deep, groups taken apart.
fn names(line: &str) -> Vec<String> {
    let code = line.split("//").next().unwrap();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let inside = group.split('}').next().unwrap();
            found.extend(
                inside
                    .split(',')
                    .map(|item| item.trim().trim_end_matches("::{").to_owned()),
            );
            continue;
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let first: String = rest.chars().take_while(|c| is_word(*c)).collect();
        let after = rest[first.len()..].strip_prefix("::");
        match after {
            Some(group) if group.starts_with('{') => {
                let inside = group[1..].split('}').next().unwrap();
                let items = inside
                    .split(',')
                    .map(str::trim)
                    .filter(|item| !item.is_empty());
                found.extend(items.map(|item| {
                    if item == "self" {
                        first.clone()
                    } else {
                        format!("{first}::{item}")
                    }
                }));
            }
            Some(second) => {
                let second: String = second.chars().take_while(|c| is_word(*c)).collect();
                found.push(format!("{first}::{second}"));
            }
            None => found.push(first),
        }
    }
    found
}

pub fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}
