//! Programs that start another one: what is computed to run is what runs, and what cannot be seen is said.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::storage::kept_starts::Two;
use crate::support::{Run, Workshop};

/// Writes which file it is, and its arguments.
const PROBE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int c, char **v)
{
    char path[4096] = {0};
    FILE *out = fopen(getenv("PROBE") ? getenv("PROBE") : v[c - 1], "w");
    if (readlink("/proc/self/exe", path, sizeof path - 1) < 0 || !out)
        return 9;
    fprintf(out, "%s", path);
    return fclose(out);
}
"#;

/// Command lines with the probe in them. Missing wrappers are skipped, except those that every system has.
const LINES: &[&str] = &[
    "nohup probe",
    "nice probe",
    "nice -n 5 probe x",
    "nice -n5 -- probe",
    "nice --adjustment=5 probe",
    "nice --adjustment 5 probe",
    "stdbuf -oL -e 0 probe",
    "stdbuf --output=L probe",
    "timeout 60 probe",
    "timeout -s KILL -k5 --foreground 60 probe",
    "env probe",
    "env -u HOME A=1 B= probe C=3",
    "env -uHOME --unset=B probe",
    "env -S probe",
    "env -vS probe",
    "env -C / A=1 probe",
    "env --chdir=/ probe",
    "env --ignore-signal=INT --default-signal probe",
    "setsid -w probe",
    "taskset 1 probe",
    "taskset -c 0 probe",
    "taskset -a 1 probe",
    "taskset -ac 0 probe",
    "nice -10 probe",
    "timeout --sig=KILL 60 probe",
    "flock /dev/null probe",
    "flock /dev/null -c probe",
    "flock -n -E 3 /dev/null probe",
    "script -q -c probe /dev/null",
    "chroot / probe",
    "tini -- probe",
    "valgrind -q --trace-children=yes --tool=none --log-file=/dev/null probe",
    "bash -o pipefail -c probe",
    "bash -euo pipefail -c probe",
    "bash --norc -c probe",
    "zsh -fc probe",
    "zsh -c probe",
    "unshare probe",
    "unshare -w / probe",
    "setpriv --no-new-privs --groups 0 probe",
    "time -f %e -o /dev/null probe",
    "time -p --append -o/dev/null probe",
    "numactl -C 0 probe",
    "numactl --physcpubind=0 -- probe",
    "numactl --localalloc probe",
    "xargs -n 1 probe",
    "xargs -0 -n1 probe",
    "strace -f -e trace=none -o /dev/null probe",
    "strace -qq -e trace=none probe",
    "valgrind -q --tool=none --log-file=/dev/null probe",
    "mpirun --allow-run-as-root -np 1 --mca btl self probe",
    "mpirun -allow-run-as-root --oversubscribe -n 2 -x HOME probe",
    "sh -c probe",
    "bash -ec probe",
    "perf stat -e task-clock -o /dev/null probe",
    "perf stat -r 2 -- probe",
    "perf record -q -o /dev/null -F 99 probe",
    "nohup nice -n 5 timeout 60 env A=1 setsid -w probe",
];
const EVERYWHERE: &[&str] = &[
    "nohup", "nice", "stdbuf", "timeout", "env", "setsid", "taskset", "unshare", "xargs", "sh",
];

fn is_installed(name: &str) -> bool {
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .any(|directory| Path::new(directory).join(name).is_file())
}

/// The program that the last wrapper leads to, as `explain` says.
pub fn led_to(explained: &Value) -> Option<String> {
    let steps = explained["program"]["steps"].as_array().unwrap();
    let last = steps.iter().rfind(|step| step["how"] == "wrapper")?;
    Some(last["to"].as_str().unwrap().to_owned())
}

pub fn notes(explained: &Value) -> Vec<String> {
    let notes = explained["program"]["notes"].as_array().unwrap();
    notes
        .iter()
        .map(|note| note["note"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_predicted_program_is_the_one_that_runs() {
    let workshop = Workshop::new();
    let probe = workshop
        .compile("bin/probe", PROBE, &[])
        .canonicalize()
        .unwrap();
    // Further behind on PATH, and not what runs.
    fs::create_dir(workshop.path("other")).unwrap();
    crate::support::copy_program(&probe, workshop.path("other/probe"));
    let path = format!(
        "{}:{}:/usr/local/bin:/usr/bin:/bin",
        probe.parent().unwrap().display(),
        workshop.path("other").display()
    );
    let out = workshop.path("out");
    let mut ran = Vec::new();
    for line in LINES {
        let words: Vec<&str> = line.split(' ').collect();
        if !is_installed(words[0]) {
            assert!(
                !EVERYWHERE.contains(&words[0]),
                "{} is not installed",
                words[0]
            );
            continue;
        }
        let _ = fs::remove_file(&out);
        let output = Command::new(words[0])
            .args(&words[1..])
            .env("PATH", &path)
            .env("PROBE", &out)
            .env("SHELL", "/bin/sh")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let Ok(real) = fs::read_to_string(&out) else {
            // A sandbox may forbid to trace, to bind and to schedule.
            assert!(!output.status.success(), "{line}: {output:?}");
            continue;
        };
        assert_eq!(real, probe.display().to_string(), "{line}");
        let explained = Run::new(["explain", "--json"].iter().chain(&words))
            .env("PATH", &path)
            .json();
        assert_eq!(
            led_to(&explained).as_deref(),
            Some(real.as_str()),
            "{line}: {explained:#}"
        );
        assert_eq!(notes(&explained), [""; 0], "{line}");
        ran.push(words[0]);
    }
    for name in ["nohup", "nice", "stdbuf", "timeout", "env", "setsid", "sh"] {
        assert!(ran.contains(&name), "{name} did not run");
    }
}

/// The program is part of an expression, which cudarun does not parse.
#[test]
fn find_is_spoken_of_where_it_starts_a_program() {
    let two = Two::new();
    let program = two.program.to_str().unwrap();
    let find = |words: &[&str]| {
        let run = Run::new(["find", "/", "-maxdepth", "0"].iter().chain(words));
        run.env("HOME", two.home.path())
            .env("LD_LIBRARY_PATH", &two.path)
            .env("CUDARUN_FOLLOW", "off")
            .any_stdout()
    };
    find(&["-exec", program, ";"])
        .stderr_contains(&["`find` starts another program"])
        .check();
    find(&["-name", "exec"]).check();
}

/// The library that the program gets, through everything that hands its environment on.
#[test]
fn the_set_reaches_the_program_inside() {
    let two = Two::new();
    let program = two.program.to_str().unwrap().to_owned();
    let words = [
        "nohup", "nice", "-n", "1", "timeout", "60", "env", "A=1", "sh", "-c",
    ];
    let run = |words: &[&str]| {
        let words = ["--pin-mode=view"].iter().chain(words);
        Run::new(words)
            .env("HOME", two.home.path())
            .env("LD_LIBRARY_PATH", &two.path)
            .any_stdout()
    };
    let code = format!("exec {program}");
    run(&[&words[..], &[&code]].concat()).check();
    assert_eq!(
        two.views().len(),
        1,
        "its needs were seen, and a set was pinned"
    );
    let show = two.workshop.compile(
        "bin/show",
        SHOW,
        &[two.workshop.path("a/libnccl.so.2").to_str().unwrap()],
    );
    let through = run(&["nohup", "timeout", "60", show.to_str().unwrap()]).check();
    let view = two.home.path().join(".cache/cudarun/views");
    assert!(through.contains(&view.display().to_string()), "{through}");
}

const SHOW: &str = r#"
#include <stdio.h>
#include <stdlib.h>
int nccl(void);
int main(void) { printf("%s", getenv("LD_LIBRARY_PATH")); return nccl() - 1; }
"#;

#[test]
fn lost_variables_are_reported_in_one_sentence() {
    let two = Two::new();
    let program = two.program.to_str().unwrap();
    let run = |words: &[&str]| {
        Run::new(words)
            .env("HOME", two.home.path())
            .env("LD_LIBRARY_PATH", &two.path)
            .env("CUDARUN_FOLLOW", "off")
            .any_stdout()
    };
    for _cold_then_warm in 0..2 {
        let sets = format!("LD_LIBRARY_PATH={}", two.path);
        run(&["env", &sets, program])
            .stderr("cudarun: `env` sets LD_LIBRARY_PATH after cudarun does: put cudarun right before `program`\n")
            .check();
        run(&["nice", "env", "-i", &sets, program])
            .stderr("cudarun: `env` clears the environment: put cudarun right before `program`\n")
            .check();
        run(&["env", "-i", program])
            .status(127)
            .stderr_contains(&[
                "cudarun: `env` clears the environment: put cudarun right before `program`\n",
            ])
            .check();
        run(&["env", "-uLD_LIBRARY_PATH", program])
            .status(127)
            .stderr_contains(&[
                "cudarun: `env` removes LD_LIBRARY_PATH from the environment: put cudarun right",
            ])
            .check();
        // What starts there is decided for itself, unless everything is cleared.
        run(&["env", &sets, program])
            .env("CUDARUN_FOLLOW", "on")
            .check();
        run(&["nice", "env", "-i", &sets, program])
            .env("CUDARUN_FOLLOW", "on")
            .stderr("cudarun: `env` clears the environment: put cudarun right before `program`\n")
            .check();
        // Nothing is lost by what needs nothing.
        run(&["env", "-i", "true"]).check();
        run(&["env", "LD_LIBRARY_PATH=/x", "true"]).check();
    }
    let preloaded = two.workshop.path("b/libnccl.so.2");
    let preloads = format!("LD_PRELOAD={}", preloaded.display());
    let sentence =
        "cudarun: `env` sets LD_PRELOAD after cudarun does: put cudarun right before `program`\n";
    run(&["env", &preloads, program]).stderr(sentence).check();
    run(&["env", "A=1", "LD_PRELOAD=libc.so.6", program]).check();
    assert_eq!(two.views().len(), 1, "the control");
}

#[test]
fn sudo_is_put_first() {
    let two = Two::new();
    let sudo = two.workshop.write(
        "bin/sudo",
        "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nunset LD_LIBRARY_PATH\nexec \"$@\"\n",
    );
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", sudo.parent().unwrap().display());
    let run = |words: &[&str]| {
        let run = Run::new(words)
            .env("HOME", two.home.path())
            .env("LD_LIBRARY_PATH", &two.path);
        run.env("PATH", &path)
    };
    let sentence = "cudarun: `sudo` removes the loader's variables from the environment: type `sudo cudarun …` instead of `cudarun sudo …`\n";
    let program = two.program.to_str().unwrap();
    run(&["sudo", "-E", program])
        .status(127)
        .stderr_contains(&[sentence])
        .check();
    run(&["sudo", "sh", "-c", "exit 3; x"])
        .status(3)
        .stderr(sentence)
        .check();
    run(&["sudo", "true"]).check();
}

#[test]
fn programs_started_on_other_machines_are_not_examined() {
    let workshop = Workshop::new();
    let script = |name: &str| {
        let path = workshop.write(&format!("bin/{name}"), "#!/bin/sh\nexit 0\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    for name in ["ssh", "docker", "srun", "mpirun", "apptainer", "deepspeed"] {
        script(name);
    }
    let path = format!("{}:/usr/bin:/bin", workshop.path("bin").display());
    let run = |words: &[&str]| Run::new(words).env("PATH", &path);
    for words in [
        &["ssh", "-p", "22", "host", "nvidia-smi"][..],
        &["docker", "--context", "x", "run", "--rm", "image", "python"],
        &["srun", "-n", "1", "python"],
        &["mpirun", "-np", "2", "--hostfile", "x", "python"],
        &["apptainer", "exec", "--nv", "x.sif", "python"],
        &["nice", "deepspeed", "--hostfile=x", "train.py"],
    ] {
        let wrapper = if words[0] == "nice" {
            words[1]
        } else {
            words[0]
        };
        let sentence = format!(
            "cudarun: `{wrapper}` starts its program on another machine or under another root, which this environment does not reach: put cudarun after `{wrapper}`, right before that program\n"
        );
        run(words).stderr(sentence).check();
    }
    for harmless in [&["docker", "ps"][..], &["ssh"], &["docker"]] {
        run(harmless).check();
    }
}

/// A machine with wrappers of Python's and environments of projects, made of scripts.
pub struct Projects {
    pub workshop: Workshop,
    pub home: PathBuf,
}

impl Projects {
    pub fn new() -> Projects {
        let workshop = Workshop::new();
        let home = workshop
            .path("home")
            .canonicalize()
            .unwrap_or_else(|_| workshop.path("home"));
        fs::create_dir_all(&home).unwrap();
        Projects {
            home: home.canonicalize().unwrap(),
            workshop,
        }
    }

    pub fn tool(&self, below: &str, text: &str) -> PathBuf {
        let path = self.workshop.write(below, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.canonicalize().unwrap()
    }

    /// A virtual environment with an interpreter that can be told by its path.
    pub fn environment(&self, below: &str) -> PathBuf {
        self.workshop.write(
            &format!("{below}/pyvenv.cfg"),
            "home = /usr/bin\nversion_info = 3.11.7\n",
        );
        fs::create_dir_all(self.workshop.path(&format!("{below}/bin"))).unwrap();
        let python = self.workshop.path(&format!("{below}/bin/python"));
        fs::copy("/bin/true", &python).unwrap();
        fs::copy(
            "/bin/true",
            self.workshop.path(&format!("{below}/bin/tool")),
        )
        .unwrap();
        self.workshop.path(below).canonicalize().unwrap()
    }

    pub fn explain(&self, words: &[&str], directory: &str, env: &[(&str, &Path)]) -> Value {
        let path = format!("{}:/usr/bin:/bin", self.workshop.path("bin").display());
        let all = [&["explain", "--json"], words].concat();
        let mut run = Run::new(all).env("PATH", path).env("HOME", &self.home);
        for (name, value) in env {
            run = run.env(name, value);
        }
        run.in_directory(self.workshop.path(directory)).json()
    }

    #[track_caller]
    pub fn leads(&self, words: &[&str], directory: &str, env: &[(&str, &Path)], expected: &Path) {
        let explained = self.explain(words, directory, env);
        assert_eq!(
            led_to(&explained).as_deref(),
            expected.to_str(),
            "{words:?}: {explained:#}"
        );
    }

    #[track_caller]
    pub fn is_not_known(&self, words: &[&str], directory: &str, env: &[(&str, &Path)]) {
        let explained = self.explain(words, directory, env);
        assert_eq!(
            notes(&explained)[0],
            "environment-not-known",
            "{words:?}: {explained:#}"
        );
    }
}

#[test]
fn uv_runs_in_the_environment_of_the_project() {
    let all = Projects::new();
    all.tool("bin/uv", "#!/bin/sh\n");
    let own = all.environment("work/.venv");
    let other = all.environment("other");
    for (file, text) in [
        (
            "work/pyproject.toml",
            "[project]\nname = 'a'\n[tool.uv.workspace]\nmembers = ['packages/*']\n",
        ),
        ("work/packages/b/pyproject.toml", "[project]\nname = 'b'\n"),
        ("work/extra/pyproject.toml", "[project]\nname = 'c'\n"),
        ("work/train.py", "import os\n"),
        (
            "work/inline.py",
            "# /// script\n# dependencies = []\n# ///\n",
        ),
        ("loose/train.py", ""),
    ] {
        all.workshop.write(file, text);
    }
    fs::create_dir_all(all.workshop.path("work/src/deep")).unwrap();
    let python = own.join("bin/python");
    all.leads(&["uv", "run", "python", "train.py"], "work", &[], &python);
    all.leads(
        &["uv", "run", "--extra", "gpu", "train.py", "--with", "x"],
        "work",
        &[],
        &python,
    );
    all.leads(&["uv", "run", "-m", "train"], "work/src/deep", &[], &python);
    all.leads(
        &["uv", "run", "tool"],
        "work/packages/b",
        &[],
        &own.join("bin/tool"),
    );
    all.leads(
        &["uv", "--directory", "work", "run", "tool"],
        "",
        &[],
        &own.join("bin/tool"),
    );
    all.leads(
        &["uv", "run", "--project", "work", "--no-sync", "tool"],
        "",
        &[],
        &own.join("bin/tool"),
    );
    all.leads(
        &["uv", "run", "--python", "3.11", "tool"],
        "work",
        &[],
        &own.join("bin/tool"),
    );
    all.leads(
        &["nohup", "uv", "run", "--", "timeout", "5", "tool"],
        "work",
        &[],
        &own.join("bin/tool"),
    );
    let named = [("UV_PROJECT_ENVIRONMENT", other.as_path())];
    all.leads(
        &["uv", "run", "tool"],
        "work",
        &named,
        &other.join("bin/tool"),
    );
    let active = [("VIRTUAL_ENV", other.as_path())];
    all.leads(
        &["uv", "run", "tool"],
        "work",
        &active,
        &own.join("bin/tool"),
    );
    all.leads(
        &["uv", "run", "--active", "tool"],
        "work",
        &active,
        &other.join("bin/tool"),
    );
    all.leads(
        &["uv", "run", "--no-project", "tool"],
        "work",
        &active,
        &other.join("bin/tool"),
    );
    all.leads(
        &["uv", "run", "tool"],
        "loose",
        &active,
        &other.join("bin/tool"),
    );

    all.is_not_known(&["uv", "run", "python"], "work/extra", &[]);
    all.is_not_known(&["uv", "run", "inline.py"], "work", &[]);
    // Only a URL is not in the environment.
    let httpx = all.tool("work/.venv/bin/httpx", "#!/bin/sh\n");
    all.leads(&["uv", "run", "httpx"], "work", &[], &httpx);
    all.is_not_known(&["uv", "run", "https://host/a.py"], "work", &[]);
    // A relative name is looked up where uv starts it.
    let beside = all.tool("work/inner/beside", "#!/bin/sh\n");
    all.leads(
        &["uv", "run", "--directory", "work", "inner/beside"],
        "",
        &[],
        &beside,
    );
    // Versions of uv differ on whose project a script of another one belongs to.
    all.is_not_known(&["uv", "run", "../work/train.py"], "loose", &[]);
    all.is_not_known(&["uv", "run", "--python", "3.13", "tool"], "work", &[]);
    all.is_not_known(
        &["uv", "run", "tool"],
        "work",
        &[("UV_PYTHON", Path::new("3.1"))],
    );
    all.is_not_known(&["uv", "run", "-"], "work", &[]);
    all.is_not_known(&["uv", "run", "tool"], "loose", &[]);
    for unknown in [
        &["uv", "run", "--with", "x", "tool"][..],
        &["uv", "run", "--isolated", "tool"],
    ] {
        assert_eq!(
            notes(&all.explain(unknown, "work", &[]))[0],
            "starts-another",
            "{unknown:?}"
        );
    }
    assert_eq!(led_to(&all.explain(&["uv", "sync"], "work", &[])), None);
    all.workshop.write("work/.python-version", "3.12\n");
    all.is_not_known(&["uv", "run", "tool"], "work", &[]);
}

#[test]
fn environments_that_only_their_tool_knows_are_not_guessed() {
    let all = Projects::new();
    all.environment("work/.venv");
    for tool in ["poetry", "pipenv", "pdm", "hatch", "pixi"] {
        all.tool(&format!("bin/{tool}"), "#!/bin/sh\n");
        all.is_not_known(&[tool, "run", "tool"], "work", &[]);
    }
}

#[test]
fn conda_runs_in_the_environment_that_is_named() {
    let all = Projects::new();
    let conda = all.tool("conda/bin/conda", "#!/bin/sh\n");
    all.tool("bin/micromamba", "#!/bin/sh\n");
    for prefix in ["conda", "conda/envs/train", "elsewhere/x"] {
        all.environment(prefix);
        fs::create_dir_all(all.workshop.path(&format!("{prefix}/conda-meta"))).unwrap();
    }
    let conda = conda.to_str().unwrap();
    let tool = |prefix: &str| {
        all.workshop
            .path(&format!("{prefix}/bin/tool"))
            .canonicalize()
            .unwrap()
    };
    all.leads(
        &[conda, "run", "-n", "train", "tool"],
        "",
        &[],
        &tool("conda/envs/train"),
    );
    all.leads(
        &[conda, "run", "--no-capture-output", "-ntrain", "tool"],
        "",
        &[],
        &tool("conda/envs/train"),
    );
    all.leads(
        &[conda, "run", "-n", "base", "tool"],
        "",
        &[],
        &tool("conda"),
    );
    let x = all.workshop.path("elsewhere/x").canonicalize().unwrap();
    all.leads(
        &[conda, "run", "--prefix", x.to_str().unwrap(), "tool"],
        "",
        &[],
        &tool("elsewhere/x"),
    );
    all.leads(
        &[conda, "run", "tool"],
        "",
        &[("CONDA_PREFIX", &x)],
        &tool("elsewhere/x"),
    );
    let root = all.workshop.path("conda").canonicalize().unwrap();
    let root = [("MAMBA_ROOT_PREFIX", root.as_path())];
    all.leads(
        &["micromamba", "run", "-n", "train", "tool"],
        "",
        &root,
        &tool("conda/envs/train"),
    );
    let directories = x.parent().unwrap().to_owned();
    all.leads(
        &[conda, "run", "-n", "x", "tool"],
        "",
        &[("CONDA_ENVS_PATH", &directories)],
        &tool("elsewhere/x"),
    );
    all.is_not_known(&[conda, "run", "-n", "nowhere", "tool"], "", &[]);

    let control = all.explain(&[conda, "run", "-n", "train", "sh", "x.sh"], "", &[]);
    assert_eq!(notes(&control), ["starts-another"], "{control:#}");
}

#[test]
fn launchers_of_training_programs_start_their_own_python() {
    let all = Projects::new();
    let own = all.environment("venv");
    let python = own.join("bin/python");
    for tool in ["torchrun", "accelerate", "deepspeed"] {
        all.tool(
            &format!("venv/bin/{tool}"),
            &format!("#!{}\nimport torch\n", python.display()),
        );
    }
    all.workshop.write("train.py", "import os\n");
    let bin = |name: &str| own.join("bin").join(name).to_str().unwrap().to_owned();
    for line in [
        "torchrun --nproc_per_node=2 --standalone train.py --lr 1",
        "torchrun --nproc-per-node gpu train.py",
        "torchrun -m train",
        "accelerate launch --num_processes 2 train.py",
        "deepspeed --num_gpus=2 train.py --deepspeed",
        "python -m torch.distributed.run --nnodes 1 train.py",
        "python -m torch.distributed.launch --use_env train.py",
    ] {
        let (name, rest) = line.split_once(' ').unwrap();
        let name = bin(name);
        let words: Vec<&str> = std::iter::once(name.as_str())
            .chain(rest.split(' '))
            .collect();
        all.leads(&words, "", &[], &python);
    }
    let script = |explained: &Value| {
        explained["program"]["steps"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .clone()
    };
    let explained = all.explain(&[&bin("torchrun"), "--standalone", "train.py"], "", &[]);
    assert_eq!(
        (
            &script(&explained)["how"],
            script(&explained)["to"]
                .as_str()
                .unwrap()
                .ends_with("/train.py")
        ),
        (&"script".into(), true)
    );
    all.leads(
        &[&bin("torchrun"), "--no-python", "/bin/true"],
        "",
        &[],
        Path::new("/bin/true"),
    );
    let exec = [("PYTHON_EXEC", Path::new("/bin/echo"))];
    all.leads(
        &[&bin("torchrun"), "train.py"],
        "",
        &exec,
        Path::new("/bin/echo"),
    );
    for unknown in ["--unheard", "--nproc_per"] {
        let explained = all.explain(&[&bin("torchrun"), unknown, "2", "train.py"], "", &[]);
        assert_eq!(notes(&explained)[0], "starts-another");
    }
    let decided = all.explain(
        &[&bin("torchrun"), "train.py"],
        "",
        &[("PET_MODULE", Path::new("1"))],
    );
    assert_eq!(notes(&decided)[0], "starts-another");
}

#[test]
fn the_way_inward_has_an_end() {
    let words = |count: usize| {
        let mut words = vec!["explain", "--json"];
        words.extend(vec!["nice"; count]);
        words.push("true");
        words
    };
    assert_eq!(
        led_to(&Run::new(words(15)).json()).unwrap(),
        "/usr/bin/true",
        "the control"
    );
    assert_eq!(notes(&Run::new(words(40)).json()), ["starts-another"]);
}

/// The key of a kept start contains everything that decides what a wrapper starts.
#[test]
fn a_kept_start_of_a_wrapper_knows_what_decides() {
    use cudarun::host::Host;
    use cudarun::kept::start_key;
    use cudarun::program::{self, wrapper_variables};
    let key = |program: &str, words: &[&str], variable: Option<&str>, cwd: &str| {
        let mut host = Host::here();
        host.env = [("PATH", "/usr/bin")].into_iter().collect();
        if let Some(name) = variable {
            host.env.set(name, "/x");
        }
        host.cwd = cwd.into();
        let command = program::Command {
            program: program.into(),
            arguments: words.iter().map(std::ffi::OsString::from).collect(),
        };
        format!(
            "{:?}",
            start_key(&host, Path::new(program), &command, false).unwrap()
        )
    };
    for name in wrapper_variables() {
        let with = |variable| key("/usr/bin/uv", &["run", "x"], variable, "/");
        assert_ne!(with(Some(name)), with(None), "{name}");
        let with = |variable| key("/usr/bin/true", &["run", "x"], variable, "/");
        // The directories of the user's settings and of fetched wheels matter to every start.
        let is_for_all = ["XDG_CONFIG_HOME", "XDG_DATA_HOME"].contains(&name);
        assert_eq!(
            with(Some(name)) == with(None),
            !is_for_all,
            "{name}: the control"
        );
    }
    for (program, words) in [
        ("/bin/nice", &["-n", "5", "a"][..]),
        ("/bin/python3", &["-m", "torch.distributed.run", "a"]),
    ] {
        let mut others = words.to_vec();
        *others.last_mut().unwrap() = "b";
        assert_ne!(
            key(program, words, None, "/"),
            key(program, &others, None, "/"),
            "{program}"
        );
        assert_ne!(
            key(program, words, None, "/"),
            key(program, words, None, "/home"),
            "{program}"
        );
    }
    assert_eq!(
        key("/bin/true", &["a"], None, "/"),
        key("/bin/true", &["b"], None, "/home"),
        "the control"
    );
}

/// The kept start of a wrapper is warm, and not once another program comes first in PATH.
#[test]
fn a_program_that_appears_earlier_on_the_path_is_noticed() {
    let two = Two::new();
    let bin = two.workshop.path("first");
    fs::create_dir(&bin).unwrap();
    let path = format!(
        "{}:{}:/usr/bin:/bin",
        bin.display(),
        two.program.parent().unwrap().display()
    );
    let run = || {
        let run = Run::new(["nice", "program"])
            .env("HOME", two.home.path())
            .env("LD_LIBRARY_PATH", &two.path);
        run.env("PATH", &path)
    };
    run().check();
    assert!(two.is_warm(run()), "the control");
    fs::copy("/bin/false", bin.join("program")).unwrap();
    assert!(!two.is_warm(run().status(1)));
}
