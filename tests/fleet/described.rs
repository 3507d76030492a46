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

/// `--save` writes a page first, and `--save-in` writes none.
#[test]
fn a_machine_is_looked_at_once_for_its_page_and_its_description() {
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
    assert_eq!([page, page], [both, alone]);
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
        "--name",
        "gpu01",
        "--for",
        command,
    ];
    Run::on(&machine, &save).stdout("").any_stderr().check();
    let text = nodes.read("gpu01.json");
    let explain = [
        "explain",
        "--json",
        "python3",
        "/home/user/train.py",
        "--epochs",
        "2",
    ];
    let explained = Run::on(&machine, &explain).any_stderr().json();
    let picked = |family: &Value| {
        let ids = family["picked"]["files"].as_array().unwrap().iter();
        let ids = ids.filter(|file| file["build_id"].is_string()).count();
        (
            family["family"].clone(),
            family["picked"]["version"].clone(),
            ids,
        )
    };
    let families = explained["families"].as_array().unwrap().iter();
    let picks: Vec<_> = families
        .map(picked)
        .filter(|(name, ..)| name != "driver")
        .collect();
    let answers = &serde_json::from_str::<Value>(&text).unwrap()["answers"];
    let program = &answers["programs"][0];
    assert_eq!(program["command"], command);
    assert_eq!(program["mode"], explained["mode"]);
    let places = program["picks"].as_array().unwrap().iter();
    let saved = places.map(|place| &answers["libraries"][place.as_u64().unwrap() as usize]);
    let ids = |library: &Value| library["build_ids"].as_object().unwrap().len();
    let saved: Vec<_> = saved
        .map(|one| (one["name"].clone(), one["version"].clone(), ids(one)))
        .collect();
    assert!(!saved.is_empty(), "{text}");
    assert_eq!(saved, picks);
    for word in ["sesame", "PASSWORD", "/secret"] {
        assert!(!text.contains(word), "{word}\n{text}");
    }
    nodes.fleet(&[]).any_stdout().any_stderr().check();
}

#[test]
fn names_of_machines_are_names_of_files() {
    let nodes = Nodes::new(&[]);
    let directory = nodes.path("");
    let directory = directory.to_str().unwrap();
    let save = |more: &[&str]| Run::new([&["-q", "doctor", "--save-in", directory], more].concat());
    save(&["--name", "gpu-01_a.cluster.example"]).check();
    assert!(nodes.path("gpu-01_a.cluster.example.json").exists());
    for node in ["10.0.0.1", "10.0.0.2"] {
        save(&["--name", node]).check();
    }
    save(&[]).env("SLURMD_NODENAME", "n7.a").check();
    save(&[]).check();
    let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(
        nodes
            .path(&format!("{}.json", own.trim().split('.').next().unwrap()))
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
    nodes.write("n7.json", "old");
    save(&[]).env("SLURMD_NODENAME", "n7").check();
    let text = nodes.read("n7.json");
    assert!(text.contains("\"format\":2"), "{text}");
    let mode = fs::metadata(nodes.path("n7.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o444, 0o444, "others than the node's user read it");
    for wrong in ["../up", "a/b", "", " ", ".", "..", ".a", "ä"] {
        save(&["--name", wrong])
            .status(2)
            .stderr_contains(&["--name"])
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
    let described = |text: &str, programs: &[&str]| {
        let nodes = Nodes::new(&[]);
        let mut machine = Machine::describe(text);
        machine.programs = programs.iter().map(ToString::to_string).collect();
        nodes.save(&machine, "n1", &[]);
        nodes
    };
    let torch = torch_machine();
    let asked = ["--program", IMPORT];
    for programs in [&[][..], &["python3 train.py"]] {
        let nodes = described(&torch, programs);
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
    let nodes = described(&torch, &["python3  -c \"import torch\""]);
    nodes
        .fleet(&asked)
        .stdout_contains(&["works on 1 of 1 machine", "cuDNN"])
        .check();
    // Its package is not there.
    let without = torch
        .split_inclusive("\n\n")
        .filter(|file| !file.contains("/site-packages/"));
    let nodes = described(&without.collect::<String>(), &[IMPORT]);
    let said = [
        "works on 0 of 1 machine",
        "no: -c:1 imports `torch`, which is not on Python",
        "next: ssh n1 cudarun explain python3 -c 'import torch'",
    ];
    nodes.fleet(&[]).status(1).stdout_contains(&said).check();
    nodes.fleet(&["--bad"]).status(1).stdout("n1\n").check();
}

#[test]
fn values_that_may_be_secrets_are_not_kept_and_the_program_is_found() {
    let inner = Nodes::new(&[]);
    let mut machine = Machine::describe(&(torch_machine() + &program("env", &["libc.so.6"], "")));
    let secret = "env HF_TOKEN=hf-hunter0 python3 -u /home/user/project/train.py --password hunter1 --api-key 'hunter 2' --tokens=hunter3 \
                  --wandb 0123456789abcdef0123456789abcdef01234567 --epochs 2";
    let code = "python3 -c \"login(token='hunter4'); import torch\"";
    machine.programs = [secret, code].map(str::to_owned).to_vec();
    inner.save(&machine, "n1", &[]);
    let text = inner.read("n1.json");
    let kept = "env HF_TOKEN=… python3 -u /home/user/project/train.py --password … --api-key … --tokens=… --wandb … --epochs 2";
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
    let inner = Nodes::new(&[]);
    let mut machine = Machine::describe(&text.replace("/usr/bin/app'", &format!("{program}'")));
    machine.programs = vec![program.to_owned()];
    inner.save(&machine, "n1", &[]);
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

/// A remedy that `doctor` found on a node is for the node.
#[test]
fn remedies_of_a_description_are_typed_on_its_node() {
    let env = "LD_LIBRARY_PATH = 'relative:/a:/b:/c:/d:/e'";
    let text = node("580.95.05", env, &with_cudnn("9.19.0")).replace("/dev/nvidia-uvm", "/dev/x");
    let nodes = Nodes::new(&[("gpu01", text.clone())]);
    let file = nodes.path("gpu01.json");
    let page = |run: Run| run.env("COLUMNS", "300").any_stdout().output().0;
    let described = page(Run::new(["--node", file.to_str().unwrap(), "doctor"]));
    let own = page(Run::on(&Machine::describe(&text), &["doctor"]));
    let remedies = |page: &str| -> Vec<String> {
        let lines = page.lines().map(str::trim_start);
        let remedies = lines.filter(|line| line.starts_with("do: "));
        remedies.map(str::to_owned).collect()
    };
    assert!(!remedies(&own).is_empty(), "{own}");
    for (own, there) in std::iter::zip(remedies(&own), remedies(&described)) {
        assert_eq!(own.replace("do: ", "do: on gpu01: "), there);
    }
    assert!(own.contains(": `cudarun doctor -v` shows all"), "{own}");
    let all = ": `ssh gpu01 cudarun doctor -v` shows all";
    assert!(described.contains(all), "{described}");
}
