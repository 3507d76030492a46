//! The module logs who asked, for what, and by which rule the loader found it; the program sees no
//! difference.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use cudarun::formats::audit_log::{self, TraceRecord, TracedRule};
use cudarun::pin::audit_module;

use crate::support::audited::{NAMES, Start, WORLD};

fn log() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    fs::write(&log, "").unwrap();
    (directory, log)
}

/// The records of a start's log. The start must print the same with the log as without it.
#[track_caller]
fn traced(start: &Start) -> Vec<TraceRecord> {
    let (_directory, log) = log();
    let plain = start.output();
    let traced = start.clone().traced(&log).output();
    assert_eq!(traced, plain);
    let bytes = fs::read(log).unwrap();
    let records = audit_log::records(&bytes);
    assert_eq!(
        records.len(),
        bytes.windows(2).filter(|pair| pair == b"\0\n").count(),
        "all of it is read"
    );
    records
}

fn of<'r>(records: &'r [TraceRecord], name: &str) -> &'r TraceRecord {
    records
        .iter()
        .find(|record| record.name == name)
        .unwrap_or_else(|| panic!("{name}: {records:#?}"))
}

#[test]
fn the_log_says_who_asked_and_by_which_rule() {
    let records = traced(&WORLD.start("with-rpath"));
    assert_eq!(
        (records[0].rule, &records[0].path),
        (TracedRule::Program, &WORLD.path("with-rpath"))
    );
    assert!(records.iter().any(|record| {
        record.rule == TracedRule::Unasked
            && record
                .path
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("ld-linux")
    }));
    let found = of(&records, "libpin.so.1");
    assert_eq!(
        (found.rule, found.requester.as_os_str()),
        (TracedRule::Rpath, "".as_ref())
    );
    assert_eq!(found.path, WORLD.path("wrong").join("libpin.so.1"));
    assert_eq!(of(&records, "libc.so.6").rule, TracedRule::Cache);
    assert!(records.iter().all(|record| record.pid == records[0].pid));

    let records = traced(&WORLD.start("through-library"));
    let found = of(&records, "libpin.so.1");
    assert_eq!(
        (found.rule, &found.requester),
        (TracedRule::Rpath, &WORLD.path("middle/libmiddle.so"))
    );

    let path = WORLD.path("wrong/libpin.so.1");
    let records = traced(&WORLD.start("plain").opens(&path));
    let found = of(&records, path.to_str().unwrap());
    assert_eq!((found.rule, &found.path), (TracedRule::Path, &path));

    let records = traced(
        &WORLD
            .start("plain")
            .env("LD_LIBRARY_PATH", WORLD.path("wrong"))
            .opens("libpin.so"),
    );
    assert_eq!(of(&records, "libpin.so").rule, TracedRule::LibraryPath);

    let records = traced(&WORLD.start("opens").does("open=$ORIGIN/wrong/libpin.so"));
    let found = of(&records, "$ORIGIN/wrong/libpin.so");
    assert_eq!(
        (found.rule, &found.path),
        (TracedRule::Path, &WORLD.path("").join("wrong/libpin.so"))
    );

    let records = traced(&WORLD.start("with-rpath").pinned());
    let found = of(&records, "libpin.so.1");
    assert_eq!(
        (found.rule, &found.path),
        (TracedRule::Pinned, &WORLD.path("view").join("libpin.so.1"))
    );
}

#[test]
fn a_failed_search_is_not_credited_with_the_next_file() {
    let path = WORLD.path("right").join(NAMES[0]);
    let start = WORLD
        .start("opens")
        .does("try=libpin_missing.so")
        .does("try=./libpin_missing.so");
    let records = traced(&start.does(format!("namespace={}", path.display())));
    assert!(
        records
            .iter()
            .all(|record| !record.name.to_str().unwrap().contains("missing")),
        "{records:#?}"
    );
    let found = records.iter().find(|record| record.path == path).unwrap();
    assert_eq!(
        (found.rule, found.requester.as_os_str()),
        (TracedRule::Unasked, "".as_ref())
    );
}

#[test]
fn children_add_to_the_same_log() {
    let records = traced(
        &WORLD
            .start("plain")
            .does("child")
            .opens(WORLD.path("wrong/libpin.so.1")),
    );
    let programs: Vec<&TraceRecord> = records
        .iter()
        .filter(|record| record.rule == TracedRule::Program)
        .collect();
    assert_eq!(programs.len(), 2);
    assert_ne!(programs[0].pid, programs[1].pid);
    assert!(
        records
            .iter()
            .any(|record| record.rule == TracedRule::Path && record.pid == programs[1].pid)
    );
}

#[test]
fn records_of_many_processes_do_not_mix() {
    let (_directory, log) = log();
    let script =
        "for i in 1 2 3 4 5 6 7 8; do (for j in 1 2 3 4 5; do /bin/true; done) & done; wait";
    let run = Command::new("sh")
        .args(["-c", script])
        .env("LD_AUDIT", &WORLD.module)
        .env(audit_module::TRACE, &log)
        .output()
        .unwrap();
    assert!(run.status.success() && run.stderr.is_empty());
    let records = audit_log::records(&fs::read(&log).unwrap());
    let is_true =
        |record: &&TraceRecord| record.rule == TracedRule::Program && record.path.ends_with("true");
    assert_eq!(records.iter().filter(is_true).count(), 40);
    assert_eq!(
        records
            .iter()
            .filter(|record| record.rule == TracedRule::Cache)
            .count()
            % 41,
        0,
        "{records:#?}"
    );
}

#[test]
fn a_long_name_is_cut_and_the_record_stays_whole() {
    let (_directory, log) = log();
    let name = format!("{}{}", "./".repeat(3000), "libpin.so.1");
    let start = WORLD.start("plain").pinned().opens(&name).traced(&log);
    assert_eq!(start.mapped(), [format!("right/{}", NAMES[0])]);
    let records = audit_log::records(&fs::read(&log).unwrap());
    let found = records
        .iter()
        .find(|record| record.rule == TracedRule::Pinned)
        .unwrap();
    assert_eq!(found.name, name[..4096]);
}

/// The log takes no stream's place: the program opens the descriptors that it would without.
#[test]
fn closed_streams_stay_closed() {
    let (directory, log) = log();
    let run = |answer: &str, is_traced: bool| {
        let answer = directory.path().join(answer);
        let program = WORLD.path("plain");
        let script = format!(
            "exec {} open={} first={} <&- >&- 2>&-",
            program.display(),
            WORLD.path("wrong/libpin.so.1").display(),
            answer.display()
        );
        let mut command = Command::new("sh");
        command
            .args(["-c", &script])
            .env_clear()
            .env("CUDARUN_PROOF", "1")
            .env(audit_module::PINS, WORLD.pins());
        if is_traced {
            command
                .env("LD_AUDIT", &WORLD.module)
                .env(audit_module::TRACE, &log);
        }
        assert_eq!(command.status().unwrap().code(), Some(7));
        fs::read_to_string(answer).unwrap()
    };
    let (plain, traced) = (run("plain", false), run("traced", true));
    let root = WORLD.path("").display().to_string();
    assert_eq!(
        plain,
        format!("first 0\n{root}/wrong/{0}\nprinted", NAMES[0]).replace("printed", "")
    );
    assert_eq!(traced, format!("first 0\n{root}/right/{}\n", NAMES[0]));
    let bytes = fs::read(&log).unwrap();
    assert!(!bytes.windows(7).any(|part| part == b"printed"));
    assert!(
        audit_log::records(&bytes)
            .iter()
            .any(|record| record.rule == TracedRule::Pinned)
    );
}

#[test]
fn a_log_that_cannot_be_written_disturbs_no_program() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::create_dir(at("directory")).unwrap();
    fs::write(at("victim"), "untouched").unwrap();
    std::os::unix::fs::symlink(at("victim"), at("link")).unwrap();
    std::os::unix::fs::symlink(at("nothing"), at("dangling")).unwrap();
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let plain = WORLD.start("with-rpath").output();
    let relative = Path::new("relative-log");
    let long = PathBuf::from(format!("/{}", "x".repeat(9000)));
    for log in [
        at("directory"),
        at("link"),
        at("dangling"),
        at("fifo"),
        at("absent"),
        at("missing/log"),
        relative.to_owned(),
        long,
        "/proc/version".into(),
        "/proc/no-such-file".into(),
        "/".into(),
        PathBuf::new(),
    ] {
        assert_eq!(
            WORLD.start("with-rpath").traced(&log).output(),
            plain,
            "{}",
            log.display()
        );
    }
    assert_eq!(fs::read_to_string(at("victim")).unwrap(), "untouched");
    assert!(!at("nothing").exists() && !relative.exists());
    assert!(
        !at("absent").exists(),
        "what outlives a trace makes its log anew"
    );
}
