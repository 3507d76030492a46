//! `cudarun hook jupyter`: the file, and the faults. The real Jupyter starts such kernels in `tests/beside.sh`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{CUDARUN, Run};

/// A home, and a project with an environment that has ipykernel.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        fs::create_dir(desk.path("home")).unwrap();
        desk.environment("speech/.venv");
        let launcher = "speech/.venv/lib/python3.12/site-packages/ipykernel_launcher.py";
        fs::write(desk.path(launcher), "").unwrap();
        desk
    }

    fn environment(&self, name: &str) {
        let prefix = self.path(name);
        fs::create_dir_all(prefix.join("lib/python3.12/site-packages")).unwrap();
        fs::create_dir_all(prefix.join("bin")).unwrap();
        fs::write(
            prefix.join("pyvenv.cfg"),
            "home = /usr/bin\nversion = 3.12.1\n",
        )
        .unwrap();
        // Only its name and its format count.
        fs::copy(CUDARUN, prefix.join("bin/python3.12")).unwrap();
        std::os::unix::fs::symlink("python3.12", prefix.join("bin/python")).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn kernels(&self) -> PathBuf {
        self.path("home/.local/share/jupyter/kernels")
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let words = ["hook", "jupyter"].iter().chain(arguments);
        Run::new(words)
            .env("HOME", self.path("home"))
            .in_directory(self.path("speech"))
    }

    fn kernel(&self, name: &str) -> Value {
        let file = self.kernels().join(name).join("kernel.json");
        serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.path("home")).unwrap().next().is_none()
    }
}

const PYTHON: &str = ".venv/bin/python";

#[test]
fn a_kernel_starts_its_python_with_cudarun_and_goes_without_a_trace() {
    let desk = Desk::new();
    for _ in 0..2 {
        desk.run(&[PYTHON])
            .stdout_contains(&[
                "the kernel `cudarun-speech` starts ",
                "next: jupyter lab, and choose the kernel \"Python 3.12 (speech, cudarun)\"",
            ])
            .check();
    }
    let kernel = desk.kernel("cudarun-speech");
    let python = desk.path("speech/.venv/bin/python");
    let argv: Vec<&str> = kernel["argv"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_str().unwrap())
        .collect();
    assert_eq!(Path::new(argv[0]), fs::canonicalize(CUDARUN).unwrap());
    assert_eq!(Path::new(argv[1]), python);
    assert_eq!(
        argv[2..],
        ["-m", "ipykernel_launcher", "-f", "{connection_file}"]
    );
    assert_eq!(kernel["language"], "python");
    let printed = desk.run(&["--print", PYTHON]).any_stdout().check();
    assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), kernel);
    // A second one, and the first goes before it.
    desk.run(&["--name", "Python3", PYTHON])
        .any_stdout()
        .check();
    desk.run(&["--uninstall", "--name", "cudarun-speech"])
        .any_stdout()
        .check();
    assert!(!desk.kernels().join("cudarun-speech").exists());
    assert!(
        desk.kernels().join("python3").exists(),
        "Jupyter looks for it in small letters"
    );
    desk.run(&["--uninstall"])
        .stdout_contains(&["removed the kernel `python3`"])
        .check();
    assert!(desk.is_empty(), "the directories that were made for them");
    desk.run(&["--uninstall"])
        .stdout_contains(&["no such kernel"])
        .status(1)
        .check();
}

#[test]
fn other_kernels_and_directories_of_others_stay() {
    let desk = Desk::new();
    let theirs = desk.kernels().join("theirs/kernel.json");
    fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    for text in [
        "{\"argv\": [\"python3\"], \"metadata\": {\"debugger\": true}}",
        "no JSON",
    ] {
        fs::write(&theirs, text).unwrap();
        for arguments in [
            &["--name", "theirs", PYTHON][..],
            &["--name", "theirs", "--uninstall"],
        ] {
            desk.run(arguments)
                .stderr_contains(&[
                    "exists, and is not cudarun's",
                    "hint: cudarun hook jupyter --name NAME",
                ])
                .status(2)
                .check();
        }
        assert_eq!(fs::read_to_string(&theirs).unwrap(), text);
    }
    desk.run(&["-q", PYTHON]).check();
    // Of that Python, which may be gone, and no other.
    desk.environment("other");
    desk.run(&["--uninstall", "../other/bin/python"])
        .any_stdout()
        .status(1)
        .check();
    fs::remove_dir_all(desk.path("speech/.venv")).unwrap();
    desk.run(&["-q", "--uninstall", PYTHON]).check();
    let left: Vec<_> = fs::read_dir(desk.kernels()).unwrap().collect();
    assert_eq!(left.len(), 1);
}

#[test]
fn the_directory_is_where_jupyter_looks() {
    let desk = Desk::new();
    for (variable, below) in [("JUPYTER_DATA_DIR", ""), ("XDG_DATA_HOME", "jupyter")] {
        let data = desk.path(variable);
        desk.run(&["-q", PYTHON]).env(variable, &data).check();
        let kernels = data.join(below).join("kernels");
        assert!(
            kernels.join("cudarun-speech/kernel.json").exists(),
            "{variable}"
        );
        desk.run(&["-q", "--uninstall"])
            .env(variable, &data)
            .check();
        assert!(!data.exists(), "{variable}");
    }
    assert!(desk.is_empty());
}

#[test]
fn what_cannot_be_a_kernel_is_refused_with_the_next_command() {
    let desk = Desk::new();
    desk.environment("bare");
    let bare = desk.path("bare/bin/python");
    let pip = format!("hint: pip --python {} install ipykernel", bare.display());
    let long = "x".repeat(300);
    for (arguments, says) in [
        (
            &["../bare/bin/python"][..],
            &["has no package ipykernel", "install ipykernel"][..],
        ),
        (
            &[bare.to_str().unwrap()],
            &["has no package ipykernel", &pip],
        ),
        (&["/bin/sh"], &["is not a Python"]),
        (&["./.venv"], &["is a directory"]),
        (&["missing/python"], &["was not found"]),
        (
            &["--name", "a/../b", PYTHON],
            &["cannot be the name of a kernel"],
        ),
        (
            &["--name", "..", PYTHON],
            &["cannot be the name of a kernel"],
        ),
        (&["--name", "", PYTHON], &["cannot be the name of a kernel"]),
        (&["--name", "\u{1b}[31m", PYTHON], &["`\\u{1b}[31m`"]),
        (&["--name", &long, PYTHON], &["xxx…`"]),
        (
            &["--user", PYTHON],
            &["'--user' cannot be used with 'hook jupyter'"],
        ),
    ] {
        desk.run(arguments).stderr_contains(says).status(2).check();
    }
    assert!(desk.is_empty());
    // A script of Python's is started by one, and is none.
    let script = desk.path("speech/tool");
    fs::write(
        &script,
        format!("#!{}\n", desk.path("speech/.venv/bin/python").display()),
    )
    .unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    desk.run(&["./tool"])
        .stderr_contains(&["is not a Python"])
        .status(2)
        .check();
    // A name that the environment has for a kernel of its own.
    fs::create_dir_all(desk.path("speech/.venv/share/jupyter/kernels/python3")).unwrap();
    desk.run(&["--name", "python3", PYTHON])
        .stderr_contains(&["speech/.venv/share/jupyter/kernels/python3` exists"])
        .status(2)
        .check();
    // A name that another Python has.
    desk.run(&["-q", "--name", "one", PYTHON]).check();
    let other = ".venv/bin/python3.12";
    desk.run(&["--name", "one", other])
        .stderr_contains(&["starts another Python", "--uninstall --name one"])
        .status(2)
        .check();
    // A file where the directory should be.
    fs::write(desk.path("file"), "").unwrap();
    desk.run(&[PYTHON])
        .env("JUPYTER_DATA_DIR", desk.path("file"))
        .stderr_contains(&["cannot write `", "not a directory"])
        .status(2)
        .check();
}
