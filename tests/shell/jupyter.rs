//! `cudarun hook jupyter`: the file, and the faults. The real Jupyter starts such kernels in `tests/beside.sh`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{CUDARUN, Run, copy_program};

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
        symlink("python3.12", prefix.join("bin/python")).unwrap();
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

/// Two kernels of one environment are told from each other in Jupyter's menu.
#[test]
fn a_given_name_is_shown() {
    let desk = Desk::new();
    desk.run(&["-q", PYTHON]).check();
    desk.run(&["--name", "Two", PYTHON])
        .stdout_contains(&["the kernel `two` ", "\"Python 3.12 (Two, cudarun)\""])
        .check();
    let shown = |name: &str| desk.kernel(name)["display_name"].clone();
    assert_eq!(shown("cudarun-speech"), "Python 3.12 (speech, cudarun)");
    assert_eq!(shown("two"), "Python 3.12 (Two, cudarun)");
}

/// One Python has one kernel, whatever it is called by; a link to an environment stays.
#[test]
fn a_python_is_found_by_each_of_its_names() {
    let desk = Desk::new();
    let bin = desk.path("speech/.venv/bin");
    fs::create_dir(desk.path("speech/notebooks")).unwrap();
    fs::create_dir(desk.path("deep")).unwrap();
    symlink(desk.path("speech/notebooks"), desk.path("deep/link")).unwrap();
    symlink("python", bin.join("python3")).unwrap();
    let notebooks = desk.path("speech/notebooks");
    let deep = desk.path("deep/link/../.venv/bin/python3");
    let plain = bin.join("python3");
    for (directory, python) in [
        (&notebooks, "../.venv/bin/python3"),
        (&notebooks, ".././.venv/bin/python3"),
        (&notebooks, "python3"),
        (&notebooks, deep.to_str().unwrap()),
    ] {
        for uninstalled in [python, plain.to_str().unwrap()] {
            let run = |arguments: &[&str]| {
                let run = desk.run(arguments).in_directory(directory);
                run.env("PATH", &bin).any_stdout()
            };
            run(&[python]).check();
            let kernel = desk.kernel("cudarun-speech");
            assert_eq!(kernel["argv"][1], plain.to_str().unwrap(), "{python}");
            run(&["--uninstall", uninstalled]).check();
            assert!(desk.is_empty(), "{python} {uninstalled}");
        }
    }
    // It is gone, and was called by another name.
    desk.run(&["-q", ".venv/bin/python3"]).check();
    fs::remove_dir_all(desk.path("speech/.venv")).unwrap();
    desk.run(&["-q", "--uninstall", "python3"])
        .status(1)
        .check();
    desk.run(&["-q", "--uninstall", "../.venv/bin/python3"])
        .in_directory(&notebooks)
        .check();
    assert!(desk.is_empty());
    // A link that may lead to a newer one tomorrow.
    desk.environment("envs/1");
    fs::write(
        desk.path("envs/1/lib/python3.12/site-packages/ipykernel_launcher.py"),
        "",
    )
    .unwrap();
    symlink("1", desk.path("envs/current")).unwrap();
    desk.run(&["-q", "../envs/current/bin/python"]).check();
    let current = desk.path("envs/current/bin/python");
    let kernel = desk.kernel("cudarun-current");
    assert_eq!(kernel["argv"][1], current.to_str().unwrap());
}

/// `uvx` and `pipx run` start it from there.
#[test]
fn a_cudarun_that_will_go_is_refused() {
    let desk = Desk::new();
    let own = fs::canonicalize(CUDARUN).unwrap();
    let says = [
        "cudarun is in a cache, `",
        "hint: uv tool install cudarun, or ./install.sh",
    ];
    for variable in ["XDG_CACHE_HOME", "UV_CACHE_DIR"] {
        desk.run(&[PYTHON])
            .env(variable, own.parent().unwrap())
            .stderr_contains(&says)
            .status(2)
            .check();
        desk.run(&["--print", PYTHON])
            .env(variable, desk.path("home/cache"))
            .any_stdout()
            .check();
    }
    for (place, is_refused) in [
        ("home/.cache/uv/archive-v0/x/bin", true),
        ("home/.local/share/pipx/.cache/x/bin", true),
        ("home/.local/share/uv/tools/cudarun/bin", false),
    ] {
        fs::create_dir_all(desk.path(place)).unwrap();
        let copy = desk.path(place).join("cudarun");
        copy_program(CUDARUN, &copy);
        let run = std::process::Command::new(&copy)
            .args(["hook", "jupyter", "--print", PYTHON])
            .env_clear()
            .env("HOME", desk.path("home"))
            .current_dir(desk.path("speech"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.success(), !is_refused, "{said}");
        assert!(
            !is_refused || says.iter().all(|it| said.contains(it)),
            "{said}"
        );
    }
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
        (&["./home"], &["was not found"]),
        (&["../home"], &["is a directory"]),
        (
            &["./.venv"],
            &[
                "`./.venv` is a directory",
                "hint: cudarun hook jupyter ./.venv/bin/python",
            ],
        ),
        (&[".venv"], &["hint: cudarun hook jupyter .venv/bin/python"]),
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
