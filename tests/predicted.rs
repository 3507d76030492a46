//! What the model says that a program would map, on machines that are made for one question each. Against the real
//! loader it is held in `tests/pinning.rs` and `tests/real/pinned.py`.

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SHIELDED, cudnn, elf, machine, program};

const NEW: &str = "/opt/new";

fn loader() -> String {
    elf("/lib64/ld-linux-x86-64.so.2", "soname = 'ld-linux-x86-64.so.2'")
}

fn predicted(machine: &Machine, library_path: &str, options: &[&str], command: &[&str]) -> Value {
    let verb = ["trace", "--predict", "--json"];
    let arguments: Vec<&str> = verb.iter().chain(options).chain(command).copied().collect();
    Run::on(machine, &arguments).env("LD_LIBRARY_PATH", library_path).json()
}

#[test]
fn a_part_that_nothing_answers_is_named() {
    let alone = elf("/opt/alone/libcudnn.so.9", &format!("soname = 'libcudnn.so.9', {SHIELDED}"));
    let files = [loader(), program("train", &["libcudnn.so.9"], ""), alone, cudnn(NEW, "9.10.2", SHIELDED)];
    let machine = machine(&files);
    let whole = predicted(&machine, NEW, &["--as-is"], &["train"]);
    assert_eq!(whole["missing"], Value::Array(Vec::new()), "neither what newer ones open besides");

    let torn = predicted(&machine, "/opt/alone", &["--as-is"], &["train"]);
    let missing = torn["missing"].as_array().unwrap();
    let names: Vec<&str> = missing.iter().map(|missing| missing["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["libcudnn_graph.so.9", "libcudnn_ops.so.9", "libcudnn_cnn.so.9", "libcudnn_adv.so.9"],
        "what the graph library opens is asked for by nobody"
    );
    assert_eq!(missing[0]["requester"], "/opt/alone/libcudnn.so.9");
    let tried = missing[0]["tried"].as_array().unwrap();
    assert!(tried.contains(&"/opt/alone/libcudnn_graph.so.9".into()), "{tried:?}");
}
