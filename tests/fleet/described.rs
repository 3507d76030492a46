//! `doctor --save-in DIR --for 'COMMAND LINE'`

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{Nodes, node, with_cudnn};
use crate::support::machine::Machine;
use crate::support::parts::{SITE, SYSTEM};
use crate::support::parts::{cudnn, driver, kernel, library, program, python, text};
use crate::support::{CUDARUN, Run, lacks};

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
    ) + &text(
        &format!("{info}/RECORD"),
        "torch/__init__.py,,\ntorch/version.py,,\n",
    ) + &text(
        &format!("{SITE}/torch/__init__.py"),
        "from .version import __version__\n",
    ) + &text(
        &format!("{SITE}/torch/version.py"),
        "__version__ = '2.6.0+cu124'\ncuda = '12.4'\n",
    )
}

/// Without what each copy of a file has of its own.
fn comparable(mut value: Value) -> Value {
    match &mut value {
        Value::Object(object) => {
            for name in [
                "device",
                "inode",
                "size",
                "view",
                "CUDARUN_VIEW",
                "LD_LIBRARY_PATH",
            ] {
                object.remove(name);
            }
            object
                .values_mut()
                .for_each(|value| *value = comparable(value.take()));
        }
        Value::Array(all) => all
            .iter_mut()
            .for_each(|value| *value = comparable(value.take())),
        _ => {}
    }
    value
}

/// `--save` writes a page first, and looks at the machine for it. `--save-in` writes none.
#[test]
fn a_machine_is_looked_at_once_for_its_description() {
    if lacks("strace") {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let machine = Machine::describe(&node("580.95.05", "", &with_cudnn("9.19.0")));
    let looks = |words: &[&str]| {
        let log = scratch.path().join("log");
        let output = Command::new(which::which("strace").unwrap())
            .args(["-f", "-qq", "-e", "trace=openat", "-o"])
            .arg(&log)
            .args([CUDARUN, "--root"])
            .arg(machine.root())
            .args(words)
            .current_dir(scratch.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let log = fs::read_to_string(log).unwrap();
        log.matches("/sys/module/nvidia/version\"").count()
    };
    let (page, both) = (looks(&["doctor"]), looks(&["doctor", "--save", "one"]));
    let alone = looks(&["doctor", "--save-in", "."]);
    assert!(page > 0 && alone > 0, "{page} {alone}");
    assert_eq!(alone, both - page);
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
        // Own code that pip installed, and code whose name alone is like that of a record.
        text(
            &format!("{SITE}/mine/__init__.py"),
            "import torch\nTOKEN = 'sesame'\n",
        ),
        text(&format!("{SITE}/mine/version.py"), "TOKEN = 'sesame'\n"),
        text(
            "/home/user/train.py",
            &format!("import mine.version\n{TRAIN}"),
        ),
    ];
    let machine = python(&files);
    let nodes = Nodes::new(&[]);
    let command = "python3 /home/user/train.py --epochs 2";
    let directory = nodes.path("");
    let save = [
        "doctor",
        "--save-in",
        directory.to_str().unwrap(),
        "--node",
        "gpu01",
        "--for",
        command,
    ];
    Run::on(&machine, &save).stdout("").any_stderr().check();
    let described = nodes.path("gpu01.toml");
    let text = fs::read_to_string(&described).unwrap();
    let explain = [
        "explain",
        "--json",
        "python3",
        "/home/user/train.py",
        "--epochs",
        "2",
    ];
    let before = comparable(Run::on(&machine, &explain).any_stderr().json());
    let on_description = [&["--machine", described.to_str().unwrap()], &explain[..]].concat();
    let after = comparable(Run::new(on_description).any_stderr().json());
    assert_eq!(before, after);
    assert!(before.to_string().contains("2.6.0"), "{before:#}");
    for word in ["sesame", "PASSWORD", "/secret"] {
        assert!(!text.contains(word), "{word}\n{text}");
    }
    for kept in ["/site-packages/mine/__init__.py", "cuda = '12.4'"] {
        assert!(text.contains(kept), "the control: {kept}\n{text}");
    }
    assert!(
        text.contains(&format!("programs = [\"{command}\"]")),
        "{text}"
    );
    nodes.fleet(&[]).any_stdout().any_stderr().check();
}

#[test]
fn names_of_machines_are_names_of_files() {
    let nodes = Nodes::new(&[]);
    let directory = nodes.path("");
    let directory = directory.to_str().unwrap();
    let save = |more: &[&str]| Run::new([&["-q", "doctor", "--save-in", directory], more].concat());
    save(&["--node", "gpu-01_a.cluster.example"]).check();
    assert!(nodes.path("gpu-01_a.cluster.example.toml").exists());
    for node in ["10.0.0.1", "10.0.0.2"] {
        save(&["--node", node]).check();
    }
    save(&[]).env("SLURMD_NODENAME", "n7.a").check();
    save(&[]).check();
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(
        nodes
            .path(&format!("{}.toml", own.trim().split('.').next().unwrap()))
            .exists()
    );
    let (list, _) = nodes.fleet(&[]).any_stdout().output();
    assert!(
        list.contains("10.0.0.[1-2],") && list.contains("gpu-01_a.cluster.example,"),
        "{list}"
    );
    assert!(list.contains("n7.a"), "{list}");
    save(&[]).env("SLURMD_NODENAME", "n7").check();
    // Again: the new description replaces the old one.
    nodes.put("n7.toml", "old");
    save(&[]).env("SLURMD_NODENAME", "n7").check();
    let text = fs::read_to_string(nodes.path("n7.toml")).unwrap();
    assert!(text.starts_with("about = "), "{text}");
    let mode = fs::metadata(nodes.path("n7.toml"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o444, 0o444, "others than the node's user read it");
    for wrong in ["../up", "a/b", "", " ", ".", "..", ".a", "ä"] {
        save(&["--node", wrong])
            .status(2)
            .stderr_contains(&["--node"])
            .check();
    }
    save(&["--save", "x"])
        .status(2)
        .stderr_contains(&["--save"])
        .check();
    save(&["--for", "'"])
        .status(2)
        .stderr_contains(&["--for"])
        .check();
    let hint = "hint: quote the command line: --for 'python3 train.py'";
    save(&["--for", "python3", "train.py"])
        .status(2)
        .stderr_contains(&[hint])
        .check();
    save(&["python3", "train.py"])
        .status(2)
        .stderr_contains(&[hint])
        .check();
    for other in [&["--html", "x"][..], &["--markdown"], &["--json"]] {
        save(other)
            .status(2)
            .any_stdout()
            .stderr_contains(&["cannot be used with"])
            .check();
    }
    Run::new(["doctor", "--for", "python3 train.py"])
        .status(2)
        .stderr_contains(&["--save-in <DIR>"])
        .check();
    save(&["--for", "absent-program"])
        .stderr_contains(&["lacks `absent-program`"])
        .check();
    let absent = nodes.path("absent");
    let run = Run::new(["doctor", "--save-in", absent.to_str().unwrap()]);
    run.status(2).stderr_contains(&["absent"]).check();
}

const IMPORT: &str = "python3 -c 'import torch'";

fn torch_machine() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/torch.toml"))
        .unwrap()
}

#[test]
fn a_program_that_a_description_does_not_hold_does_not_work() {
    let nodes = Nodes::new(&[("source", torch_machine())]);
    let source = nodes.path("source.toml");
    let described = |more: &[&str]| {
        let inner = Nodes::new(&[]);
        let directory = inner.path("");
        let save = [
            "--machine",
            source.to_str().unwrap(),
            "-q",
            "doctor",
            "--save-in",
            directory.to_str().unwrap(),
        ];
        Run::new([&save[..], &["--node", "n1"], more].concat())
            .any_stderr()
            .check();
        inner
    };
    let asked = ["--program", IMPORT];
    for more in [&[][..], &["--for", "python3 train.py"]] {
        let nodes = described(more);
        nodes
            .fleet(&asked)
            .status(1)
            .stdout_contains(&[
                "no: its description was not written for this program",
                r"next: cudarun doctor --save-in DIR --for 'python3 -c '\''import torch'\''', on n1",
            ])
            .check();
        nodes
            .fleet(&["--program", IMPORT, "--good"])
            .status(1)
            .stdout("")
            .check();
    }
    // The control: the description of the program, in other quotes.
    let nodes = described(&["--for", "python3  -c \"import torch\""]);
    nodes
        .fleet(&asked)
        .stdout_contains(&["works on 1 of 1 machine", "cuDNN"])
        .check();
    // Its package is not there.
    let text = torch_machine();
    let without = text
        .split_inclusive("\n\n")
        .filter(|file| !file.contains("/site-packages/"));
    fs::write(&source, without.collect::<String>()).unwrap();
    let nodes = described(&["--for", IMPORT]);
    let said = [
        "works on 0 of 1 machine",
        "no: -c:1 imports `torch`, which is not on Python",
        "explain python3 -c 'import torch'",
    ];
    nodes.fleet(&[]).status(1).stdout_contains(&said).check();
    nodes.fleet(&["--bad"]).status(1).stdout("n1\n").check();
}

#[test]
fn values_that_may_be_secrets_are_not_kept_and_the_program_is_found() {
    let nodes = Nodes::new(&[(
        "source",
        torch_machine() + &program("env", &["libc.so.6"], ""),
    )]);
    let source = nodes.path("source.toml");
    let inner = Nodes::new(&[]);
    let directory = inner.path("");
    let secret = "env HF_TOKEN=hf-hunter0 python3 -u train.py --password hunter1 --api-key 'hunter 2' --tokens=hunter3 \
                  --wandb 0123456789abcdef0123456789abcdef01234567 --epochs 2";
    let code = "python3 -c \"login(token='hunter4'); import torch\"";
    let save = [
        "--machine",
        source.to_str().unwrap(),
        "-q",
        "doctor",
        "--save-in",
        directory.to_str().unwrap(),
    ];
    Run::new([&save[..], &["--node", "n1", "--for", secret, "--for", code]].concat()).check();
    let text = fs::read_to_string(inner.path("n1.toml")).unwrap();
    let kept = "env HF_TOKEN=… python3 -u train.py --password … --api-key … --tokens=… --wandb … --epochs 2";
    assert!(text.contains(kept), "{text}");
    assert!(
        !text.contains("hunter") && !text.contains("89abcdef01"),
        "{text}"
    );
    for options in [&[][..], &["--program", secret, "--program", code]] {
        let page = inner
            .fleet(options)
            .stdout_contains(&["all 2 programs work on 1 of 1 machine"])
            .check();
        assert_eq!(page.matches("cuDNN 9").count(), 2, "{page}");
        assert!(!page.contains("hunter"), "{page}");
    }
    // The control: another value of another option is another program.
    let other = secret.replace("--epochs 2", "--epochs 3");
    inner
        .fleet(&["--program", &other])
        .status(1)
        .any_stdout()
        .check();
}

#[test]
fn homes_are_hidden_in_options_as_in_descriptions() {
    let program = "/home/alice/bin/serve";
    let text = super::node(
        "580.95.05",
        "HOME = '/home/alice'",
        &super::with_cudnn("9.19.0"),
    );
    let nodes = Nodes::new(&[(
        "source",
        text.replace("/usr/bin/app'", &format!("{program}'")),
    )]);
    let source = nodes.path("source.toml");
    let inner = Nodes::new(&[]);
    let directory = inner.path("");
    let save = [
        "--machine",
        source.to_str().unwrap(),
        "-q",
        "doctor",
        "--save-in",
        directory.to_str().unwrap(),
    ];
    Run::new([&save[..], &["--node", "n1", "--for", program]].concat()).check();
    let asked = || inner.fleet(&["--program", program]);
    asked()
        .env("HOME", "/home/alice")
        .stdout_contains(&["works on 1 of 1 machine", "cuDNN 9.19.0"])
        .check();
    // The control: another user has another program.
    asked()
        .env("HOME", "/home/bob")
        .status(1)
        .any_stdout()
        .check();
}
