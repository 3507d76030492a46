//! Who may name whom. The table is the architecture; a file that names what it may not is the failure.

use std::fs;
use std::path::Path;

/// A file or folder below `src`, and the modules of the crate that it may name. The first row that matches
/// a file counts.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("version.rs", &[]),
    ("range.rs", &["version"]),
    ("text.rs", &[]),
    ("environment.rs", &[]),
    ("parallel.rs", &[]),
    ("signals.rs", &[]),
    ("host.rs", &["environment"]),
    ("host/", &["host"]),
    ("formats/", &["version", "formats"]),
    ("symbols.rs", &["formats"]),
    ("catalog/", &["catalog", "formats", "range", "version"]),
    ("loader/", &["environment", "formats", "host", "loader"]),
    (
        "inventory/",
        &[
            "catalog",
            "environment",
            "formats",
            "host",
            "inventory",
            "loader",
            "parallel",
            "symbols",
            "text",
            "version",
        ],
    ),
    (
        "target/",
        &[
            "catalog",
            "environment",
            "error",
            "formats",
            "host",
            "loader",
            "range",
            "symbols",
            "target",
            "text",
            "version",
        ],
    ),
    (
        "solve/",
        &[
            "catalog",
            "formats",
            "host::FileId",
            "inventory",
            "range",
            "solve",
            "symbols",
            "target",
            "text",
            "version",
        ],
    ),
    (
        "config/",
        &[
            "cli",
            "config",
            "environment",
            "formats::require",
            "host",
            "inventory::Origin",
            "private",
            "range",
            "target",
            "text",
            "version",
        ],
    ),
    ("shell/", &["cli::Shell"]),
    ("given.rs", &["inventory", "predict"]),
    ("project.rs", &["given", "inventory", "loader::search", "predict", "solve"]),
    (
        "doctor/",
        &[
            "catalog",
            "config",
            "doctor",
            "environment",
            "error::Unfit",
            "host",
            "inventory",
            "version",
            "view::cache_places",
        ],
    ),
    (
        "machine/save/",
        &[
            "cache::decides",
            "cache::reaches_libraries",
            "catalog",
            "config",
            "doctor",
            "environment",
            "formats",
            "host",
            "inventory",
            "loader::search",
            "version",
        ],
    ),
    ("machine/", &["environment", "host", "text"]),
    ("private", &["host"]),
    // Another crate, for other processes.
    ("audit/pins.rs", &[]),
    ("audit/program.rs", &["pins"]),
    ("audit/", &["log", "pins", "program", "system"]),
    ("module.rs", &["environment", "host", "private"]),
    ("view.rs", &["environment", "error", "host", "private", "solve::Pick", "solve::Plan"]),
    (
        "predict.rs",
        &["catalog", "formats", "host::FileId", "inventory", "loader", "target", "text", "version"],
    ),
    ("pin/means.rs", &["environment", "module", "solve::Plan", "view::ViewSpec"]),
    ("pin/inherited.rs", &["environment", "host", "loader::search", "module"]),
    (
        "pin/",
        &[
            "catalog",
            "environment",
            "error",
            "formats::elf",
            "host",
            "inventory",
            "loader",
            "module",
            "predict",
            "solve",
            "target",
            "text",
            "version",
            "view",
        ],
    ),
    (
        "observe.rs",
        &[
            "catalog",
            "formats",
            "host",
            "module::Record",
            "module::Rule",
            "predict",
            "solve::Plan",
            "target::Target",
            "text",
        ],
    ),
    ("launch.rs", &["environment", "error", "signals", "target::Command"]),
    (
        "cache/",
        &[
            "config::files",
            "environment",
            "host",
            "inventory::Known",
            "launch",
            "pin::Places",
            "private",
            "target::Command",
            "target::significant",
            "target::wrapper_variables",
            "verify",
        ],
    ),
    ("verify/child/", &["catalog", "cli::Level", "host", "verify"]),
    (
        "verify/subject.rs",
        &["catalog", "formats::names", "host::FileId", "inventory", "solve::Plan", "version"],
    ),
    (
        "verify/",
        &[
            "catalog",
            "cli::Level",
            "environment",
            "error",
            "formats",
            "host",
            "inventory::Origin",
            "signals",
            "text",
            "verify",
            "version",
        ],
    ),
    ("error.rs", &["private::Unsafe"]),
    ("cli", &["cli"]),
    (
        "report/",
        &[
            "cli::Dialect",
            "cli::Level",
            "config",
            "doctor",
            "environment",
            "error",
            "given",
            "inventory",
            "loader",
            "module",
            "observe",
            "pin",
            "predict",
            "private::Fault",
            "private::Unsafe",
            "project",
            "range",
            "report",
            "solve",
            "target",
            "text",
            "verify",
            "version",
        ],
    ),
    (
        "commands/",
        &[
            "cache",
            "catalog",
            "cli",
            "config",
            "doctor",
            "environment",
            "error",
            "formats",
            "given",
            "host",
            "inventory",
            "launch",
            "loader::process",
            "loader::search",
            "machine",
            "module",
            "observe",
            "pin",
            "predict",
            "private",
            "project",
            "range",
            "report",
            "shell",
            "solve",
            "target",
            "text",
            "verify",
            "version",
            "view",
        ],
    ),
];

#[test]
fn every_file_names_only_what_it_may() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut faults = Vec::new();
    for file in files(&source) {
        let name = file.strip_prefix(&source).unwrap().to_string_lossy().into_owned();
        let Some((_, allowed)) = MAY_NAME.iter().find(|(row, _)| name.starts_with(row)) else {
            assert!(
                ["lib.rs", "main.rs", "build.rs"].contains(&name.as_str()),
                "{name} has no row in the table"
            );
            continue;
        };
        let text = fs::read_to_string(&file).unwrap();
        // Tests may build what they test from anything.
        let text = text.split("#[cfg(test)]").next().unwrap();
        for (index, line) in logical_lines(text) {
            for named in names(&line) {
                let ok = allowed.iter().any(|row| named == *row || named.starts_with(&format!("{row}::")));
                if !ok {
                    faults.push(format!("src/{name}:{}: may not name {named}", index + 1));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_table_catches_what_it_should() {
    assert_eq!(names("use crate::host::{FileId, Host};"), ["host::FileId", "host::Host"]);
    assert_eq!(names("let x = crate::catalog::first_number(s);"), ["catalog::first_number"]);
    assert_eq!(names("use crate::{host, solve::Plan};"), ["host", "solve::Plan"]);
    assert_eq!(names("use super::Style;"), [""; 0]);
    let lines = logical_lines("//! text\nuse crate::host::{\n    Host, Kind,\n};\nfn f() {}\n");
    assert_eq!(lines[1], (1, "use crate::host::{     Host, Kind, };".to_owned()));
    assert_eq!(names(&lines[1].1), ["host::Host", "host::Kind"]);
}

#[test]
fn verbs_do_not_name_each_other_and_unsafe_stays_where_it_belongs() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for file in files(&source) {
        let name = file.strip_prefix(&source).unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).unwrap();
        // Libraries that are loaded and called; files that are mapped; what is inherited across exec and Rust's
        // runtime changes; handlers of signals; what the loader calls, without a libc.
        let may = ["audit/lib.rs", "audit/system.rs", "host.rs", "launch.rs", "main.rs", "signals.rs"];
        let is_unsafe = |line: &str| line.contains("unsafe ") || line.contains("unsafe(");
        let has_unsafe = text.lines().any(|line| !line.trim_start().starts_with("//") && is_unsafe(line));
        let is_child = name.starts_with("verify/child/");
        assert!(!has_unsafe || is_child || may.contains(&name.as_str()), "{name} holds unsafe code");
        if name.starts_with("commands/") && name != "commands/mod.rs" {
            for verb in [
                "run", "list", "explain", "export", "prove", "trace", "record", "init", "allow", "hook",
                "doctor",
            ] {
                assert!(!text.contains(&format!("super::{verb}")), "{name} names {verb}");
            }
        }
        for tool in ["libloading", "cudarc"] {
            assert!(
                !text.contains(&format!("use {tool}")) || name.starts_with("verify/child/"),
                "{name} uses {tool}"
            );
        }
        assert!(text.starts_with("//!") || text.starts_with("#![doc"), "{name} does not say what it is");
        let length = text.lines().count();
        assert!(length <= 440, "{name} has {length} lines");
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
            found.extend(inside.split(',').map(|item| item.trim().trim_end_matches("::{").to_owned()));
            continue;
        }
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let first: String = rest.chars().take_while(|c| is_word(*c)).collect();
        let after = rest[first.len()..].strip_prefix("::");
        match after {
            Some(group) if group.starts_with('{') => {
                let inside = group[1..].split('}').next().unwrap();
                let items = inside.split(',').map(str::trim).filter(|item| !item.is_empty());
                found.extend(
                    items.map(|item| if item == "self" { first.clone() } else { format!("{first}::{item}") }),
                );
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

fn files(directory: &Path) -> Vec<std::path::PathBuf> {
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
