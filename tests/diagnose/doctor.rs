//! `diagnose` and `doctor` say the same about a machine: one answers with a cause what the other reports.

use std::collections::BTreeSet;

use cudarun::catalog::{ErrorRow, Fault, PossibleCause, errors};
use serde_json::{Value, json};

use crate::fleet::Nodes;
use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{
    SITE, SYSTEM, cudnn, driver, elf, kernel, library, machine, program, python, text,
};

const README: &str = include_str!("../../README.md");
const DRIVER: &str = "550.127.05";
/// The sections in which `doctor` tells if there is a driver and a GPU.
const SECTIONS: [&str; 2] = ["driver", "gpus"];

fn card(vendor: &str) -> String {
    let device = "/sys/bus/pci/devices/0000:01:00.0";
    [
        ("vendor", vendor),
        ("class", "0x030000\n"),
        ("device", "0x2684\n"),
    ]
    .map(|(name, content)| text(&format!("{device}/{name}"), content))
    .concat()
}

/// Places without a GPU that programs can use, and the codes of `doctor` that hold of them, reported or not.
fn without_gpu() -> Vec<(&'static str, Machine, &'static [&'static str])> {
    let container = text("/.dockerenv", "");
    let (ours, other) = (card("0x10de\n"), card("0x8086\n"));
    let loaded = text("/sys/module/nvidia/version", DRIVER);
    let library = driver(SYSTEM, DRIVER);
    let nouveau = text("/sys/module/nouveau/version", "x");
    let describe = |name, files: &[&String], codes: &'static [&'static str]| {
        let files: Vec<String> = files.iter().map(|file| (*file).clone()).collect();
        (name, machine(&files), codes)
    };
    vec![
        describe(
            "a container",
            &[&container, &other],
            &["container-without-gpus", "no-driver", "no-gpu"],
        ),
        describe(
            "a container that does not see the bus",
            &[&container],
            &["container-without-gpus", "no-driver", "no-gpu"],
        ),
        describe(
            "a container on a machine with a driver",
            &[&container, &ours, &loaded],
            &["container-without-gpus", "no-libcuda"],
        ),
        describe(
            "a container on a machine with a card",
            &[&container, &ours],
            &["container-without-gpus", "no-driver"],
        ),
        describe("a host without a card", &[&other], &["no-driver", "no-gpu"]),
        describe(
            "a host that does not see the bus",
            &[],
            &["no-driver", "no-gpu"],
        ),
        describe("a host without a driver", &[&ours], &["no-driver"]),
        describe(
            "a host whose driver is not loaded",
            &[&ours, &library],
            &["driver-not-loaded"],
        ),
        describe("a host with nouveau", &[&ours, &nouveau], &["nouveau"]),
        describe(
            "a host without device nodes",
            &[&ours, &loaded, &library],
            &["device-nodes-missing"],
        ),
        describe(
            "a host with a driver and no card",
            &[&other, &loaded, &library],
            &["no-gpu"],
        ),
    ]
}

fn with_gpu() -> Machine {
    let files = [
        kernel(DRIVER),
        driver(SYSTEM, DRIVER),
        text("/dev/nvidia-uvm", ""),
        card("0x10de\n"),
    ];
    machine(&files)
}

/// The codes of the errors that `doctor` reports about the driver and the GPUs.
fn reported(machine: &Machine) -> BTreeSet<String> {
    let (page, _) = Run::on(machine, &["doctor", "--json"]).output();
    let page: Value = serde_json::from_str(&page).unwrap();
    let findings = page["findings"].as_array().unwrap();
    let is_about = |finding: &&Value| {
        finding["severity"] == "error" && SECTIONS.iter().any(|name| finding["section"] == *name)
    };
    let code = |finding: &Value| finding["code"].as_str().unwrap().to_owned();
    findings.iter().filter(is_about).map(code).collect()
}

fn diagnosed(machine: &Machine, message: &str) -> Value {
    Run::on(machine, &["diagnose", "--json", "--text", message])
        .any_stderr()
        .json()
}

/// True if the cause is one of these findings, or one of them is a case of it.
fn asks(possible: &PossibleCause, codes: &[&str]) -> bool {
    let is_asked = |fault: &Fault| {
        let name = serde_json::to_value(fault).unwrap();
        codes.iter().any(|code| name == *code)
    };
    is_asked(&possible.cause) || possible.cause.row().cases.iter().any(is_asked)
}

fn row(id: &str) -> &'static ErrorRow {
    errors().iter().find(|row| row.id == id).unwrap()
}

/// The message of each row of README's table, as it is printed there, its row in docs/errors.md, and the usual cause.
fn table() -> Vec<(&'static str, &'static str, &'static str)> {
    let row = |line: &'static str| {
        let (message, rest) = line
            .strip_prefix("| [`")?
            .split_once("`](docs/errors.md#")?;
        let (id, cause) = rest.split_once(") | ")?;
        Some((message, id, cause.trim_end_matches(" |")))
    };
    README.lines().filter_map(row).collect()
}

/// The first cause is right, or cannot be ruled out, or the message is from another machine.
#[test]
fn messages_of_the_readme_without_a_gpu() {
    let table = table();
    assert_eq!(table.len(), 12, "{table:?}");
    for (name, machine, codes) in without_gpu() {
        let reported = reported(&machine);
        assert!(!reported.is_empty(), "doctor reports nothing on {name}");
        for (message, id, usual) in &table {
            let found = diagnosed(&machine, message);
            let causes = found["causes"].as_array().unwrap();
            let first = &causes[0];
            let place = format!("{name}: {message}: {reported:?} {found:#}");
            assert_eq!(first["said"]["message"], *id, "{place}");
            assert!(
                found["elsewhere"] == true || first["certainty"] != "is-not",
                "{place}"
            );
            for (cause, possible) in pairs(causes, row(id)) {
                let is_reported = possible.is_some_and(|possible| asks(possible, codes));
                assert!(!is_reported || cause["certainty"] == "is", "{place}");
            }
            // As `doctor` says it; a container that does not see the bus tells nothing about its machine.
            let no_gpu = if name == "a container" {
                "this machine has no NVIDIA GPU"
            } else {
                "this container has no GPU"
            };
            assert!(
                *usual != "this container has no GPU"
                    || !name.starts_with("a container")
                    || first["what"] == no_gpu,
                "{place}"
            );
        }
    }
}

/// Each cause with its place in the row.
fn pairs<'c>(
    causes: &'c [Value],
    row: &'static ErrorRow,
) -> impl Iterator<Item = (&'c Value, Option<&'static PossibleCause>)> {
    causes.iter().map(|cause| {
        let is_it = |possible: &&PossibleCause| {
            serde_json::to_value(possible.cause).unwrap() == cause["cause"]
        };
        (cause, row.cause.iter().find(is_it))
    })
}

/// Every row of docs/errors.md that can be about a missing driver or GPU begins with a cause that holds.
#[test]
fn all_messages_about_a_missing_gpu() {
    let mut faults = Vec::new();
    let mut count = 0;
    for (name, machine, codes) in without_gpu() {
        let may_say = |row: &&ErrorRow| row.cause.iter().any(|possible| asks(possible, codes));
        for row in errors().iter().filter(may_say) {
            let found = diagnosed(&machine, &row.sample[0]);
            let first = &found["causes"][0];
            count += 1;
            // What only the message tells is not looked up here.
            let is_possible = row.cause[0].stated;
            let is_right = first["certainty"] == "is"
                || is_possible && first["certainty"] == "may-be"
                || found["elsewhere"] == true;
            if !is_right {
                faults.push(format!(
                    "{name}: {}: {} {}",
                    row.id, first["certainty"], first["what"]
                ));
            }
        }
    }
    assert!(count > 100, "{count}");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The control: where a GPU works, none of them is certain, unless the message itself says so.
#[test]
fn messages_about_a_missing_gpu_where_one_works() {
    let machine = with_gpu();
    assert_eq!(reported(&machine), BTreeSet::new());
    let codes = [
        "no-driver",
        "container-without-gpus",
        "no-gpu",
        "driver-not-loaded",
    ];
    let may_say = |row: &&ErrorRow| row.cause.iter().any(|possible| asks(possible, &codes));
    for row in errors().iter().filter(may_say) {
        let found = diagnosed(&machine, &row.sample[0]);
        for (cause, possible) in pairs(found["causes"].as_array().unwrap(), row) {
            let is_missing =
                possible.is_some_and(|possible| asks(possible, &codes) && !possible.stated);
            assert!(
                !is_missing || cause["certainty"] != "is",
                "{}: {found:#}",
                row.id
            );
        }
    }
}

/// The machine has what the message speaks of in order: the message is of another environment, and not wrong.
#[test]
fn a_cause_that_the_message_states_is_not_ruled_out() {
    let stated: Vec<&ErrorRow> = errors()
        .iter()
        .filter(|row| row.cause.iter().any(|possible| possible.stated))
        .collect();
    assert!(stated.len() > 10);
    let torch = [
        text(&format!("{SITE}/torch/__init__.py"), ""),
        text(
            &format!("{SITE}/torch/version.py"),
            "__version__ = '2.5.1+cu124'\ncuda = '12.4'\n",
        ),
        elf(
            &format!("{SITE}/torch/lib/libtorch_cuda.so"),
            "needed = ['libcudart.so.12', 'libcudnn.so.9']",
        ),
        cudnn(SYSTEM, "9.19.0", ""),
        library(SYSTEM, "libcudart", "12", "12.4.127", ""),
        kernel(DRIVER),
        driver(SYSTEM, DRIVER),
    ];
    let machine = python(&torch);
    let mut ruled_out = 0;
    for row in stated {
        let words = [
            "diagnose",
            "--json",
            "--text",
            &row.sample[0],
            "python3",
            "-c",
            "import torch",
        ];
        let found = Run::on(&machine, &words).any_stderr().json();
        for (cause, possible) in pairs(found["causes"].as_array().unwrap(), row) {
            let is_stated = possible.is_some_and(|possible| possible.stated);
            assert!(
                !is_stated || cause["certainty"] != "is-not",
                "{}: {found:#}",
                row.id
            );
            ruled_out += usize::from(cause["certainty"] == "is-not");
        }
    }
    assert!(ruled_out > 0, "the control: other causes are ruled out");
}

/// The first cause of a message on a machine, and by its description.
fn on_both(message: &str, files: &str) -> [Value; 2] {
    let text = format!("about = 'a host'\n{files}");
    let machine = Machine::describe(&text);
    let nodes = Nodes::new(&[("host", text)]);
    let file = nodes.path("host.json").display().to_string();
    let words = ["diagnose", "--json", "--text", message];
    let there = Run::on(&machine, &[&words[..], &["app"]].concat());
    let described = Run::new([&["--node", &file][..], &words].concat());
    [there, described].map(|run| run.any_stderr().json()["causes"][0].clone())
}

/// A description has only what `doctor` found. Nobody looked for these files when it was saved; on the machine itself they
/// tell.
#[test]
fn a_description_says_nothing_about_files_that_it_lacks() {
    let toolkit = "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].";
    let compiler = "gcc: fatal error: cannot execute 'cc1plus': execvp: No such file or directory";
    let header = "fatal error: cuda_runtime.h: No such file or directory";
    let loader = "/lib64/ld-linux-x86-64.so.2";
    let base = elf(loader, "soname = 'ld-linux-x86-64.so.2'")
        + &elf(&format!("{SYSTEM}/libc.so.6"), "soname = 'libc.so.6'")
        + &program("app", &["libc.so.6"], "");
    let tool = text("/usr/bin/nvidia-ctk", "");
    let gcc = text("/usr/bin/g++", "") + "mode = 0o755\n";
    let own = text("/usr/include/cuda_runtime.h", "");
    for (message, file) in [(toolkit, tool), (compiler, gcc), (header, own)] {
        for (files, certainty) in [(base.clone(), "is"), (base.clone() + &file, "is-not")] {
            let [there, described] = on_both(message, &files);
            assert_eq!(there["certainty"], certainty, "{message} {there:#}");
            assert_eq!(described["certainty"], "may-be", "{message}");
            assert_eq!(described["evidence"], json!([]), "{message}");
        }
    }
}

#[test]
fn what_doctor_found_on_a_node_is_a_cause_of_messages_from_there() {
    let message = "RuntimeError: No CUDA GPUs are available";
    let hidden = "[env]\nCUDA_VISIBLE_DEVICES = ''\n";
    let files = [
        kernel(DRIVER),
        text("/dev/nvidia-uvm", ""),
        driver(SYSTEM, DRIVER),
        program("app", &["libc.so.6"], ""),
    ]
    .concat();
    let [there, described] = on_both(message, &format!("{hidden}{files}"));
    for key in ["cause", "certainty", "what", "evidence", "cures"] {
        assert_eq!(there[key], described[key], "{key}: {there:#}");
    }
    assert_eq!(described["certainty"], "is");
    // The control: no GPU is hidden, which rules nothing out.
    let [_, described] = on_both(message, &files);
    assert_eq!(described["certainty"], "may-be", "{described:#}");
    // A GPU that is not there hides those after it.
    let card = text(
        "/proc/driver/nvidia/gpus/0000:01:00.0/information",
        "Model: NVIDIA H100 PCIe\nBus Location: 0000:01:00.0\nDevice Minor: 0\n",
    ) + &text("/dev/nvidia0", "");
    for (value, certainty) in [("7,0", "is"), ("0,7", "may-be")] {
        let hidden = format!("[env]\nCUDA_VISIBLE_DEVICES = '{value}'\n{files}{card}");
        let [_, described] = on_both(message, &hidden);
        assert_eq!(described["certainty"], certainty, "{described:#}");
    }
}

/// PATH is split at colons alone, and has a default.
#[test]
fn a_compiler_is_looked_up_in_path() {
    let message = "gcc: fatal error: cannot execute 'cc1plus': execvp: No such file or directory";
    let of = |place: &str, path: Option<&str>| {
        let compiler = text(place, "") + "mode = 0o755\n";
        let machine = machine(&[compiler]);
        let run = Run::on(&machine, &["diagnose", "--json", "--text", message]);
        let run = match path {
            Some(path) => run.env("PATH", path),
            None => run.without("PATH"),
        };
        run.any_stderr().json()["causes"][0].clone()
    };
    // The text does not say that it is from here.
    let not = |cause: Value| assert_eq!(cause["not_here"], true, "{cause:#}");
    not(of("/opt/x;y/g++", Some("/bin:/opt/x;y")));
    not(of("/usr/bin/g++", None));
    not(of("/usr/bin/g++", Some("/usr/bin")));
    let absent = of("/opt/other/g++", Some("/opt/x;y:/sbin"));
    assert_eq!(absent["certainty"], "is", "{absent:#}");
    let looked_at: Vec<&str> = absent["evidence"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["at"].as_str().unwrap())
        .collect();
    assert_eq!(looked_at, ["/opt/x;y/g++", "/sbin/g++"]);
}

/// A machine without a GPU lacks a driver too, and a container on it has no GPU: messages say so, and so does a description.
#[test]
fn a_description_names_the_cause_that_the_machine_names() {
    let is_about = |row: &&ErrorRow| {
        let mut causes = row.cause.iter();
        causes.any(|one| [Fault::ContainerWithoutGpus, Fault::NoDriver].contains(&one.cause))
    };
    let (mut certain, mut others) = (0, 0);
    for (name, machine, _) in without_gpu() {
        let nodes = Nodes::new(&[]);
        nodes.save(&machine, "host", &[]);
        let file = nodes.path("host.json").display().to_string();
        for row in errors().iter().filter(is_about).step_by(5) {
            let there = diagnosed(&machine, &row.sample[0]);
            if there["elsewhere"] == true {
                continue;
            }
            let words = [
                "--node",
                &file,
                "diagnose",
                "--json",
                "--text",
                &row.sample[0],
            ];
            let described = Run::new(words).any_stderr().json();
            let is = |found: &Value| -> BTreeSet<String> {
                let causes = found["causes"].as_array().unwrap().iter();
                let is_of_doctor = |cause: &&Value| {
                    let fault = Fault::named(cause["cause"].as_str().unwrap());
                    fault.is_some_and(|fault| fault.row().section.is_some())
                };
                let causes = causes
                    .filter(|cause| cause["certainty"] == "is")
                    .filter(is_of_doctor);
                causes.map(|cause| cause["cause"].to_string()).collect()
            };
            assert_eq!(is(&there), is(&described), "{name}: {}", row.id);
            let count = if is(&there).is_empty() {
                &mut others
            } else {
                &mut certain
            };
            *count += 1;
        }
    }
    assert!(certain > 10 && others > 0, "{certain} {others}");
}

/// A damaged library somewhere is not the one that a message is about.
#[test]
fn findings_about_libraries_answer_no_message() {
    let message = "nvidia-container-cli: mount error: file creation failed: /x/libnvidia-ml.so.1: file exists: unknown.";
    let machine = Machine::load("hostile");
    let (page, _) = Run::on(&machine, &["doctor", "--json"])
        .any_stderr()
        .output();
    assert!(page.contains("\"damaged\""), "the control: {page}");
    let nodes = Nodes::new(&[]);
    nodes.save(&machine, "host", &[]);
    let file = nodes.path("host.json").display().to_string();
    let words = ["--node", &file, "diagnose", "--json", "--text", message];
    let described = Run::new(words).any_stderr().json()["causes"][0].clone();
    assert_eq!(described["cause"], "damaged");
    assert_eq!(described["certainty"], "may-be", "{described:#}");
}
