//! The text of a lock: written, read, and turned into requirements.

use std::path::Path;

use cudarun::requirements::{Demand, Requirement, Want};
use cudarun::settings::FaultKind;
use cudarun::settings::lock::{Lock, LockedFamily, lock};

fn example() -> Lock {
    let family = |name: &str, version: &str| LockedFamily {
        name: name.to_owned(),
        version: version.parse().ok(),
        cuda: Some(12),
        build_ids: [(format!("lib{name}.so.9"), "0af1".to_owned())].into(),
        wheel: Some("ab".repeat(32)),
        line: 0,
    };
    Lock {
        driver: "525.60.13".parse().ok(),
        gpus: ["9.0".parse().unwrap(), "8.0".parse().unwrap()].into(),
        families: vec![family("nccl", "2.21.5"), family("cudnn", "9.10.2.21")],
    }
}

#[test]
fn a_lock_survives_writing_and_reading() {
    let text = example().text();
    let mut read = lock(text.as_bytes(), Path::new("/p/.cudarun.lock")).unwrap();
    assert_eq!(read.text(), text);
    let lines: Vec<&str> = text.lines().collect();
    for family in &mut read.families {
        assert!(lines[family.line - 1].contains(&family.name), "{text}");
        family.line = 0;
    }
    read.families.reverse();
    assert_eq!(read, example());
    let mut reversed = example();
    reversed.families.reverse();
    assert_eq!(
        reversed.text(),
        text,
        "the order of what was seen does not show"
    );
}

#[test]
fn a_lock_requires_the_recorded_versions() {
    let text = example().text();
    let path = Path::new("/p/.cudarun.lock");
    let all = lock(text.as_bytes(), path).unwrap().requirements(path);
    let requirements: Vec<_> = all.iter().filter_map(Requirement::library).collect();
    let conditions: Vec<_> = all.iter().filter_map(Requirement::machine).collect();
    assert_eq!(
        requirements.len(),
        4,
        "a version and the build-ids of each of two families"
    );
    assert_eq!(conditions.len(), 3, "the driver, the GPUs and the CUDA");
    assert!(
        conditions
            .iter()
            .any(|condition| condition.demand == Demand::Cuda("=12".parse().unwrap()))
    );
    assert!(
        requirements
            .iter()
            .all(|requirement| requirement.by.name.starts_with(".cudarun.lock:"))
    );
    // The contents of a file may tell fewer numbers than its wheel, never others.
    let allows = |version: &str| {
        requirements.iter().any(|requirement| {
            let Want::Within(range) = &requirement.want else {
                return false;
            };
            range.to_string().starts_with("=9.10") && range.allows(&version.parse().unwrap())
        })
    };
    assert!(allows("9.10.2.21") && allows("9.10.2") && !allows("9.10.1"));
    let mut twice = example();
    twice.families[0].name = "cudnn".to_owned();
    assert!(
        twice
            .requirements(path)
            .iter()
            .filter_map(Requirement::library)
            .all(|requirement| matches!(requirement.want, Want::BuildIds(_)))
    );
}

#[test]
fn a_newer_lock_has_another_format_whatever_else_is_new_in_it() {
    let fault = |format: u8| {
        let new = format!("format = {format}\nnew = true\n");
        let text = example().text().replacen("format = 1\n", &new, 1);
        lock(text.as_bytes(), Path::new("/x")).unwrap_err().wrong
    };
    let other = FaultKind::BadLock("it has another format".to_owned());
    assert_eq!(fault(2), other);
    assert!(
        fault(1).to_string().contains("unknown field `new`"),
        "the control"
    );
}

#[test]
fn a_damaged_lock_is_none() {
    let whole = example().text();
    for (from, to) in [
        ("format = 1", "format = 2"),
        ("format = 1", ""),
        ("\">=525.60.13\"", "525"),
        ("\"8.0\"", "8.0"),
        ("name = \"cudnn\"", ""),
        ("cuda = 12", "cuda = \"12\""),
        ("cuda = 12", "more = 12"),
        ("version = \"2.21.5\"", "version = \"new\""),
        ("[family.build-ids]", "[more]"),
        (
            "[[family]]",
            "[[family]]\nname = \"nccl\"\n".repeat(200).as_str(),
        ),
    ] {
        let text = whole.replacen(from, to, 1);
        assert_ne!(text, whole, "{from}");
        assert!(
            lock(text.as_bytes(), Path::new("/x")).is_err(),
            "{from} → {to}"
        );
    }
    assert!(
        lock(b"format = 1\n", Path::new("/x")).is_err(),
        "nothing is recorded"
    );
}
