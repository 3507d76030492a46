//! Threads about machines with an Arm processor, on machines like theirs.

use std::fmt::Write as _;
use std::fs;

use cudarun::catalog::Fault;
use serde::Deserialize;

use crate::support::Run;
use crate::support::machine::Machine;

#[derive(Deserialize)]
struct Threads {
    thread: Vec<Thread>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Thread {
    id: String,
    machine: String,
    program: Vec<String>,
    #[serde(default)]
    more: String,
    /// Packages that the machine lacks.
    #[serde(default)]
    without: Vec<String>,
    text: String,
    cause: Fault,
    #[serde(default)]
    or: Vec<Fault>,
    source: String,
    basis: String,
}

impl Thread {
    fn machine(&self) -> Machine {
        let described = format!(
            "{}/tests/machines/{}.toml",
            env!("CARGO_MANIFEST_DIR"),
            self.machine
        );
        let machine = Machine::describe(&(fs::read_to_string(described).unwrap() + &self.more));
        for package in &self.without {
            let path = format!("/opt/venv/lib/python3.12/site-packages/{package}");
            fs::remove_dir_all(machine.real(&path)).unwrap();
        }
        machine
    }

    /// The causes that diagnose names, with how certain it is.
    fn diagnosed(&self) -> Vec<(String, String)> {
        let mut words = vec!["diagnose", "--json", "--text", &self.text];
        words.extend(self.program.iter().map(String::as_str));
        causes(&self.machine(), &words)
    }
}

/// The causes that diagnose names on a machine, with how certain it is.
fn causes(machine: &Machine, words: &[&str]) -> Vec<(String, String)> {
    let (output, ..) = Run::on(machine, words).any_stderr().streams();
    let value: serde_json::Value = serde_json::from_str(&output).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let causes = value["causes"].as_array().unwrap().iter();
    causes
        .map(|cause| (text(&cause["cause"]), text(&cause["certainty"])))
        .collect()
}

#[test]
fn the_kernel_says_whether_its_pages_are_large() {
    let text = "ImportError: libnative.so: ELF load command address/offset not page-aligned";
    let program = ["/opt/venv/bin/python3", "-c", "import native"];
    let words = [&["diagnose", "--json", "--text", text], &program[..]].concat();
    for (name, certainty) in [("gh200", "is"), ("dgx-spark", "is-not")] {
        let found = causes(&Machine::load(name), &words);
        let expected = ("small-pages".to_owned(), certainty.to_owned());
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
        assert!(!thread.source.is_empty() && !thread.basis.is_empty());
        let found = thread.diagnosed();
        let named = |name: &str| {
            let is = |fault: &Fault| serde_json::to_value(fault).unwrap() == name;
            is(&thread.cause) || thread.or.iter().any(is)
        };
        let is_first = found.first().is_some_and(|(cause, _)| named(cause));
        first += usize::from(is_first);
        writeln!(report, "{is_first}  {}  {found:?}", thread.id).unwrap();
    }
    assert!(first >= 14, "{first} of 15\n{report}");
}
