//! `doctor --save-in DIR --for 'COMMAND LINE'`

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use super::Nodes;
use crate::support::Run;
use crate::support::parts::{SITE, SYSTEM};
use crate::support::parts::{cudnn, driver, kernel, library, python, text};

const TRAIN: &str = "import os, torch
PASSWORD = 'sesame'
def ask():
    import json
try:
    import nothing_here
except ImportError:
    pass
handle = ctypes.CDLL('libcudnn.so.9')
os.system('ls /secret')
";

fn torch() -> String {
    let info = format!("{SITE}/torch-2.6.0.dist-info");
    text(
        &format!("{info}/METADATA"),
        "Name: torch\nVersion: 2.6.0\nRequires-Dist: nvidia-cudnn-cu12 (==9.1.0.70)\n\nA text of sesame\n",
    ) + &text(&format!("{info}/RECORD"), "torch/__init__.py,,\ntorch/version.py,,\n")
        + &text(&format!("{SITE}/torch/__init__.py"), "from .version import __version__\n")
        + &text(&format!("{SITE}/torch/version.py"), "__version__ = '2.6.0+cu124'\ncuda = '12.4'\n")
}

/// Without what each copy of a file has of its own.
fn comparable(mut value: Value) -> Value {
    match &mut value {
        Value::Object(object) => {
            for name in ["device", "inode", "size", "view", "CUDARUN_VIEW", "LD_LIBRARY_PATH"] {
                object.remove(name);
            }
            object.values_mut().for_each(|value| *value = comparable(value.take()));
        }
        Value::Array(all) => all.iter_mut().for_each(|value| *value = comparable(value.take())),
        _ => {}
    }
    value
}

#[test]
fn a_description_answers_for_its_programs_as_the_machine_does() {
    let files = [
        kernel("550.127.05"),
        text("/dev/nvidia-uvm", ""),
        driver(SYSTEM, "550.127.05"),
        library(SYSTEM, "libcublas", "12", "12.4.5", ""),
        library(SYSTEM, "libcublasLt", "12", "12.4.5", ""),
        cudnn(SYSTEM, "9.1.0", ""),
        torch(),
        text("/home/user/train.py", TRAIN),
    ];
    let machine = python(&files);
    let nodes = Nodes::new(&[]);
    let command = "python3 /home/user/train.py --epochs 2";
    let directory = nodes.path("");
    let save = ["doctor", "--save-in", directory.to_str().unwrap(), "--node", "gpu01", "--for", command];
    Run::on(&machine, &save).stdout("").any_stderr().check();
    let described = nodes.path("gpu01.toml");
    let text = fs::read_to_string(&described).unwrap();
    let explain = ["explain", "--json", "python3", "/home/user/train.py", "--epochs", "2"];
    let before = comparable(Run::on(&machine, &explain).any_stderr().json());
    let on_description = [&["--machine", described.to_str().unwrap()], &explain[..]].concat();
    let after = comparable(Run::new(on_description).any_stderr().json());
    assert_eq!(before, after);
    assert!(before.to_string().contains("2.6.0"), "{before:#}");
    for word in ["sesame", "PASSWORD", "/secret"] {
        assert!(!text.contains(word), "{word}\n{text}");
    }
    assert!(text.contains(&format!("programs = [\"{command}\"]")), "{text}");
    nodes.fleet(&[]).any_stdout().any_stderr().check();
}

#[test]
fn names_of_machines_are_names_of_files() {
    let nodes = Nodes::new(&[]);
    let directory = nodes.path("");
    let directory = directory.to_str().unwrap();
    let save = |more: &[&str]| Run::new([&["-q", "doctor", "--save-in", directory], more].concat());
    save(&["--node", "gpu-01_a.cluster.example"]).check();
    assert!(nodes.path("gpu-01_a.toml").exists());
    save(&[]).env("SLURMD_NODENAME", "n7").check();
    // Again: the new description replaces the old one.
    nodes.put("n7.toml", "old");
    save(&[]).env("SLURMD_NODENAME", "n7").check();
    let text = fs::read_to_string(nodes.path("n7.toml")).unwrap();
    assert!(text.starts_with("about = "), "{text}");
    let mode = fs::metadata(nodes.path("n7.toml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o444, 0o444, "others than the node's user read it");
    for wrong in ["../up", "a/b", "", " ", ".", "ä"] {
        save(&["--node", wrong]).status(2).stderr_contains(&["--node"]).check();
    }
    save(&["--save", "x"]).status(2).stderr_contains(&["--save"]).check();
    save(&["--for", "'"]).status(2).stderr_contains(&["--for"]).check();
    save(&["--for", "absent-program"]).stderr_contains(&["lacks `absent-program`"]).check();
    let absent = nodes.path("absent");
    let run = Run::new(["doctor", "--save-in", absent.to_str().unwrap()]);
    run.status(2).stderr_contains(&["absent"]).check();
}
