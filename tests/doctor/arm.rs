//! Machines with an Arm processor, described from public facts: what is said about them and about programs on them.

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::program;

/// A machine of tests/machines/ with programs that are linked against libraries of either CUDA.
fn with_programs(name: &str) -> Machine {
    let path = format!("{}/tests/machines/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let mut text = std::fs::read_to_string(path).unwrap();
    text += &arm_program("of12", &["libcudart.so.12", "libcudnn.so.9"]);
    text += &arm_program("of13", &["libcudart.so.13", "libcudnn.so.9"]);
    text += &arm_program("plain", &[]);
    Machine::describe(&text)
}

fn arm_program(name: &str, needed: &[&str]) -> String {
    program(name, needed, "machine = 183").replace("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
}

#[test]
fn explore() {
    for name in ["gh200", "gb200", "dgx-spark", "thor", "tegra", "orin-container"] {
        let machine = with_programs(name);
        eprintln!("=== {name}\n{}", Run::on(&machine, &["doctor"]).any_stderr().output().0);
        for words in [
            vec!["/usr/bin/of12"],
            vec!["/usr/bin/of13"],
            vec!["/usr/bin/plain"],
            vec!["/opt/venv/bin/python3", "-c", "import torch"],
        ] {
            let mut all = vec!["explain"];
            all.extend(&words);
            let (out, status, err) = Run::on(&machine, &all).any_stderr().streams();
            eprintln!("--- {name} {words:?} {status}\n{out}{err}");
        }
    }
}
