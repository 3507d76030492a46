//! Threads about machines with an Arm processor, on machines like theirs.

use std::fmt::Write as _;
use std::fs;

use cudarun::catalog::Fault;
use serde::Deserialize;
use serde_json::Value;

use super::signatures::Posted;
use crate::support::Run;
use crate::support::machine::Machine;

#[derive(Deserialize)]
struct Threads {
    thread: Vec<Thread>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Thread {
    machine: String,
    program: Vec<String>,
    #[serde(default)]
    more: String,
    /// Packages that the machine lacks.
    #[serde(default)]
    without: Vec<String>,
    message: Posted,
}

impl Thread {
    fn machine(&self) -> Machine {
        let machine = Machine::with(&self.machine, &self.more);
        for package in &self.without {
            let path = format!("/opt/venv/lib/python3.12/site-packages/{package}");
            fs::remove_dir_all(machine.real(&path)).unwrap();
        }
        machine
    }

    fn diagnosed(&self) -> Vec<Diagnosed> {
        let mut words = vec!["diagnose", "--json", "--text", &self.message.text];
        words.extend(self.program.iter().map(String::as_str));
        causes(&self.machine(), &words)
    }
}

/// A cause that diagnose names, and how certain it is.
#[derive(Debug, PartialEq, Deserialize)]
struct Diagnosed {
    cause: Fault,
    certainty: String,
}

fn causes(machine: &Machine, words: &[&str]) -> Vec<Diagnosed> {
    let (output, ..) = Run::on(machine, words).any_stderr().streams();
    let mut value: Value = serde_json::from_str(&output).unwrap();
    serde_json::from_value(value["causes"].take()).unwrap()
}

#[test]
fn the_kernel_says_whether_its_pages_are_large() {
    let text = "ImportError: libnative.so: ELF load command address/offset not page-aligned";
    let program = ["/opt/venv/bin/python3", "-c", "import native"];
    let words = [&["diagnose", "--json", "--text", text], &program[..]].concat();
    for (name, certainty) in [("gh200", "is"), ("dgx-spark", "is-not")] {
        let found = causes(&Machine::load(name), &words);
        let expected = Diagnosed {
            cause: Fault::SmallPages,
            certainty: certainty.to_owned(),
        };
        assert!(found.contains(&expected), "{name}: {found:?}");
        assert_eq!(found[0] == expected, certainty == "is", "{name}: {found:?}");
    }
}

#[test]
fn causes_of_threads_about_arm_machines_come_first() {
    let text = include_str!("arm.toml");
    let threads = toml::from_str::<Threads>(text).unwrap().thread;
    assert_eq!(threads.len(), 15);
    let (mut first, mut report) = (0, String::new());
    for thread in &threads {
        let message = &thread.message;
        assert!(!message.source.is_empty() && !message.basis.is_empty());
        let found = thread.diagnosed();
        let faults: Vec<Fault> = found.iter().map(|one| one.cause).collect();
        let is_first = message.place(&faults) == Some(0);
        first += usize::from(is_first);
        writeln!(report, "{is_first}  {}  {found:?}", message.id).unwrap();
    }
    assert!(first >= 14, "{first} of 15\n{report}");
}
