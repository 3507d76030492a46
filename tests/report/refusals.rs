//! A refused start says what is wrong, the evidence, and what to type, in at most eight lines; the rest with `-v`.

use crate::support::machine::Machine;
use crate::support::{Run, must_be_short};

/// Machines, a program there, and what the starts require in addition.
const STARTS: [(&str, &[&str], &[&str]); 9] = [
    ("old-driver", &["for-13"], &[]),
    ("old-driver", &["for-12"], &["--pin", "cudart=11.0"]),
    (
        "torch",
        &["python3", "train.py"],
        &["--require", "cudnn=99"],
    ),
    (
        "torch",
        &["python3", "train.py"],
        &["--require", "cudart=11", "--require", "nccl=99"],
    ),
    ("torch", &["python3", "train.py"], &["--pin-mode", "none"]),
    (
        "uv-venv",
        &["python3", "-c", "import torch"],
        &["--require", "cudnn=99"],
    ),
    (
        "h200-container",
        &["python3", "/home/user/train.py"],
        &["--require", "driver=999"],
    ),
    (
        "hostile",
        &["python3", "/home/user/train.py"],
        &["--require", "cudnn=99"],
    ),
    (
        "debian",
        &["/usr/bin/profiled"],
        &["--require", "cudart=99"],
    ),
];

/// A machine whose old glibc and incomplete library give more reasons than a short refusal has lines for.
fn old_machine() -> Machine {
    let text = std::fs::read_to_string("tests/machines/h200-container.toml").unwrap();
    let machine = Machine::describe(&text.replace("release version 2.39", "release version 2.31"));
    let part = "/opt/venv/lib/python3.12/site-packages/nvidia/cu13/lib/libcublasLt.so.13";
    std::fs::remove_file(machine.real(part)).unwrap();
    machine
}

#[test]
fn a_refused_start_is_short_and_verbose_says_the_rest() {
    let (mut refused, mut cut) = (0, 0);
    let starts = STARTS.map(|(name, program, options)| (Machine::load(name), program, options));
    let old: (Machine, &[&str], &[&str]) =
        (old_machine(), &["python3", "/home/user/train.py"], &[]);
    for (machine, program, options) in starts.into_iter().chain([old]) {
        let said = |first: &[&str]| {
            let words = [first, &["export"], options, program].concat();
            let (_, status, said) = Run::on(&machine, &words).streams();
            (status, said)
        };
        let (status, short) = said(&[]);
        if status == 0 {
            continue;
        }
        refused += 1;
        must_be_short(&short);
        let has_advice = short.contains("\nhint: ") || short.contains("\nor: ");
        assert!(has_advice, "{options:?}: {short}");
        let (_, full) = said(&["-v"]);
        if short.contains("more lines with -v\n") {
            cut += 1;
            let lines = |text: &str| text.lines().count();
            assert!(lines(&full) > lines(&short), "{full}");
        } else {
            assert!(full.contains(&short), "{full}\n{short}");
        }
        assert!(!full.contains("more lines with -v"), "{full}");
    }
    assert!(
        refused >= 5 && cut >= 1 && cut < refused,
        "{refused} refused, {cut} cut"
    );
}
