//! `cudarun advise` on machines that options and descriptions name, with the small table `builds.toml`: what works together,
//! what does not, and the command for it.

use std::path::Path;

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;

/// A question about the small table.
fn ask(options: &[&str]) -> Run {
    with_table(Run::new([&["advise"], options].concat()))
}

fn with_table(run: Run) -> Run {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/advise/builds.toml");
    run.env("CUDARUN_TEST_BUILDS", table)
}

/// A machine, packages, and what is installed there; empty if nothing works together.
type Row = (&'static str, &'static str, &'static str);

const X86: &str = "--driver 580.95.05 --python 3.12";
const OLD_DRIVER: &str = "--driver 550.54.15 --python 3.12";

const ROWS: &[Row] = &[
    (X86, "vllm", "vllm==0.33.0 torch==2.14.0"),
    (OLD_DRIVER, "vllm", "vllm==0.19.1 torch==2.10.0"),
    // Just below and at the driver for CUDA 13, and for CUDA 12.
    (
        "--driver 580.65.05 --python 3.12",
        "vllm",
        "vllm==0.19.1 torch==2.10.0",
    ),
    (
        "--driver 580.65.06 --python 3.12",
        "vllm",
        "vllm==0.33.0 torch==2.14.0",
    ),
    (
        "--driver 525.60.13 --python 3.12",
        "kernel",
        "kernel==0.3.21 torch==2.10.0",
    ),
    ("--driver 525.60.12 --python 3.12", "kernel", ""),
    // The oldest of all: CUDA 11, from the vendor's index.
    (
        "--driver 470.82.01 --python 3.12",
        "torch",
        "--torch-backend=cu118 torch==2.6.0",
    ),
    ("--driver 470.82.01 --python 3.12", "vllm", ""),
    // A newer release on the vendor's index is newer than one on the default index.
    (OLD_DRIVER, "torch", "--torch-backend=cu126 torch==2.14.0"),
    // What is only a framework is from the default index, if that works.
    (
        OLD_DRIVER,
        "bitsandbytes",
        "bitsandbytes==0.50.2 torch==2.10.0",
    ),
    // GPUs: too old for CUDA 13, too old for the release, too new for an index.
    (
        "--driver 580.95.05 --python 3.12 --gpu 7.0",
        "vllm",
        "vllm==0.19.1 torch==2.10.0",
    ),
    (
        "--driver 580.95.05 --python 3.12 --gpu 6.1",
        "vllm",
        "vllm==0.19.1 torch==2.10.0 --torch-backend=cu126",
    ),
    (
        "--driver 580.95.05 --python 3.12 --gpu 6.1,9.0",
        "torch",
        "--torch-backend=cu126 torch==2.14.0",
    ),
    (
        "--driver 550.54.15 --python 3.12 --gpu 12.0",
        "torch",
        "torch==2.10.0",
    ),
    ("--driver 580.95.05 --python 3.12 --gpu 3.5", "torch", ""),
    (
        "--driver 580.95.05 --python 3.12 --gpu 6.1",
        "cudf-cu12",
        "cudf-cu12==26.10.2",
    ),
    (
        "--driver 580.95.05 --python 3.12 --gpu 6.1",
        "cudf-cu13",
        "",
    ),
    // Pythons.
    (
        "--driver 580.95.05 --python 3.10",
        "vllm",
        "vllm==0.19.1 torch==2.10.0",
    ),
    (
        "--driver 580.95.05 --python 3.9",
        "vllm",
        "vllm==0.8.5.post1 torch==2.6.0",
    ),
    ("--driver 580.95.05 --python 3.8", "vllm", ""),
    // aarch64: torch 2.10 of the default index is without CUDA there, and `kernel` has no wheel.
    (
        "--driver 570.86 --python 3.12 --machine aarch64",
        "vllm",
        "--torch-backend=cu126 vllm==0.19.1 torch==2.10.0",
    ),
    (
        "--driver 580.95.05 --python 3.12 --machine aarch64",
        "kernel",
        "",
    ),
    // Extras, and one CUDA major for all.
    (X86, "jax", "'jax[cuda13]==0.12.0.1'"),
    (OLD_DRIVER, "jax", "'jax[cuda12]==0.12.0.1'"),
    (
        X86,
        "jax cudf-cu12",
        "'jax[cuda12]==0.12.0.1' cudf-cu12==26.10.2",
    ),
    (X86, "jax[cuda13] cudf-cu12", ""),
    (X86, "cudf-cu12 cudf-cu13", ""),
    (
        X86,
        "torch cudf-cu12",
        "--torch-backend=cu126 torch==2.14.0 cudf-cu12==26.10.2",
    ),
    // Requirements that exclude each other, and the newest that do not.
    (
        X86,
        "vllm sglang",
        "vllm==0.33.0 sglang==0.5.21 torch==2.14.0",
    ),
    (
        X86,
        "sglang vllm",
        "sglang==0.5.21 vllm==0.33.0 torch==2.14.0",
    ),
    (X86, "vllm sglang==0.5.23", ""),
    (
        X86,
        "cupy-cuda12x cudf-cu12",
        "cupy-cuda12x==14.0.1 cudf-cu12==26.10.2",
    ),
    // The same about packages that the table does not list.
    (
        X86,
        "sglang==0.5.21 compiler",
        "sglang==0.5.21 compiler==1.0 torch==2.14.0",
    ),
    (X86, "sglang==0.5.21 compiler==2.0", ""),
    (
        X86,
        "linker-cu12 torch",
        "--torch-backend=cu126 linker-cu12==1.0 torch==2.14.0",
    ),
    (
        X86,
        "linker-cu12 vllm",
        "--torch-backend=cu126 linker-cu12==1.0 vllm==0.19.1 torch==2.10.0",
    ),
    (
        X86,
        "linker-cu12 kernel torch==2.10.0",
        "--torch-backend=cu126 linker-cu12==1.0 kernel==0.3.21 torch==2.10.0",
    ),
    // Versions that are asked for.
    (X86, "vllm==0.19.1", "vllm==0.19.1 torch==2.10.0"),
    (X86, "vllm<0.33", "vllm==0.19.1 torch==2.10.0"),
    (OLD_DRIVER, "vllm==0.33.0", ""),
    (X86, "vllm torch==2.10.0", "vllm==0.19.1 torch==2.10.0"),
    (X86, "vllm torch==2.15.0", ""),
    // A framework that is kept.
    (
        "--driver 580.95.05 --python 3.12 --torch 2.10.0",
        "vllm",
        "vllm==0.19.1",
    ),
    (
        "--driver 580.95.05 --python 3.12 --torch 2.10.0+cu126",
        "torchvision",
        "--torch-backend=cu126 torchvision==0.25.0",
    ),
    ("--driver 580.95.05 --python 3.12 --torch 2.9.1", "vllm", ""),
    (
        "--driver 580.95.05 --python 3.12 --torch 2.9.1+cu126",
        "bitsandbytes",
        "bitsandbytes==0.50.2",
    ),
];

#[test]
fn the_newest_releases_that_work_together_are_advised() {
    for (machine, packages, expected) in ROWS {
        let words: Vec<&str> = machine.split(' ').chain(packages.split(' ')).collect();
        let run = ask(&[&words[..], &["--json"]].concat()).status(i32::from(expected.is_empty()));
        let json = run.json();
        let mut said: Vec<&str> = json["uv"].as_str().unwrap_or_default().split(' ').collect();
        said.retain(|word| !matches!(*word, "uv" | "pip" | "install" | ""));
        let mut expected: Vec<&str> = expected
            .split(' ')
            .filter(|word| !word.is_empty())
            .collect();
        said.sort_unstable();
        expected.sort_unstable();
        assert_eq!(said, expected, "{machine} {packages}\n{json:#}");
        // A question that leads nowhere leads to one that has an answer.
        let Some(next) = json["next"].as_str() else {
            continue;
        };
        let next = shlex::split(next).unwrap();
        let next: Vec<&str> = next[2..].iter().map(String::as_str).collect();
        ask(&next).any_stdout().check();
    }
}

/// What is said of the newest release, or why nothing works.
fn why(machine: &str, packages: &str) -> Vec<String> {
    let words: Vec<&str> = machine.split(' ').chain(packages.split(' ')).collect();
    let json = ask(&[&words[..], &["--json"]].concat());
    let (text, _) = json.any_stdout().output();
    let json: Value = serde_json::from_str(&text).unwrap();
    let reasons = json["passed_over"].as_array().unwrap().iter();
    reasons
        .map(|one| one["why"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn each_reason_is_said_in_words() {
    for (machine, packages, expected) in [
        (
            OLD_DRIVER,
            "cudf-cu13",
            "cudf-cu13 26.10.2 is built for CUDA 13, which needs driver 580.65.06; here is 550.54.15.",
        ),
        (
            "--driver 580.95.05 --gpu 6.1",
            "cudf-cu13",
            "cudf-cu13 26.10.2 is built for CUDA 13, which makes no code for GPU 6.1; CUDA 12.9 was the last.",
        ),
        (
            "--driver 580.95.05 --gpu 3.5",
            "torch",
            "torch 2.15.0 has code for GPU >=7.5,<13.0, not for 3.5.",
        ),
        (
            "--python 3.10",
            "vllm",
            "vllm 0.33.0 is for Python >=3.11,<3.15; here is 3.10.",
        ),
        (
            "--machine aarch64",
            "kernel",
            "kernel 0.3.21 has no wheel for aarch64.",
        ),
        (
            "--driver 470.82.01 --machine aarch64",
            "torch",
            "torch 2.15.0 is built for CUDA 13.2, which needs driver 580.65.06; here is 470.82.01.",
        ),
        (
            "--machine aarch64 --gpu 12.0",
            "torch==2.10.0",
            "torch 2.10.0 is built without CUDA for aarch64.",
        ),
        (
            "--machine aarch64 --gpu 8.7",
            "torch==2.15.0",
            "torch 2.15.0 is built for Arm servers, and not for a Jetson with GPU 8.7; NVIDIA's index for its JetPack has other builds.",
        ),
        (
            X86,
            "vllm sglang==0.5.23",
            "vllm 0.33.0 needs torch==2.14.0, but sglang 0.5.23 needs torch==2.15.0.",
        ),
        (
            X86,
            "cudf-cu12 cudf-cu13",
            "cudf-cu12 26.10.2 is built for CUDA 12, but cudf-cu13 26.10.2 for CUDA 13.",
        ),
        (
            X86,
            "vllm torch==2.15.0",
            "vllm 0.33.0 needs torch==2.14.0, and another version is asked for.",
        ),
        (
            X86,
            "cupy-cuda12x cudf-cu12",
            "cupy-cuda12x 14.1.0 is not what cudf-cu12 26.10.2 needs: cupy-cuda12x>=14.0.1,!=14.1.0.",
        ),
        (
            "--torch 2.10.0",
            "vllm",
            "vllm 0.33.0 needs torch==2.14.0, and torch 2.10.0 is to be kept.",
        ),
        (
            "--gpu 7.0 --python 3.12",
            "sglang",
            "sglang 0.5.23 is built for CUDA 13, which makes no code for GPU 7.0; CUDA 12.9 was the last.",
        ),
    ] {
        assert_eq!(why(machine, packages), [expected], "{machine} {packages}");
    }
}

#[test]
fn the_page_has_the_releases_the_reason_and_the_command() {
    ask(&["--driver", "550.54.15", "--gpu", "9.0", "--python", "3.12", "vllm"])
        .stdout(
            "vllm 0.19.1 and torch 2.10.0 for driver 550.54.15, which runs CUDA 12, GPU 9.0, Python 3.12, x86_64\n\n\
             releases:\n  vllm 0.19.1         CUDA 12\n  torch 2.10.0        CUDA 12.8\n  torchvision 0.25.0  CUDA 12    required\n  \
             triton 3.6.0                   required\n\n\
             Not the newest: vllm 0.33.0 is built for CUDA 13, which needs driver 580.65.06; here is 550.54.15.\n\n\
             with pip:  pip install vllm==0.19.1 torch==2.10.0\nwith uv:   uv pip install vllm==0.19.1 torch==2.10.0\n",
        )
        .check();
    ask(&["--driver", "550.54.15", "--python", "3.12", "cudf-cu13"])
        .status(1)
        .stdout(
            "No releases work together here.\n\
             cudf-cu13 26.10.2 is built for CUDA 13, which needs driver 580.65.06; here is 550.54.15.\n\n\
             next: cudarun advise --driver 580.65.06 --python 3.12 cudf-cu13\n",
        )
        .check();
    ask(&["--driver", "550.54.15", "--python", "3.12", "torch"])
        .stdout_contains(&[
            "torch 2.14.0  CUDA 12.6  PyTorch's index",
            "With pip: `pip install torch==2.14.0+cu126`, and --extra-index-url",
            "From the default index alone: torch 2.10.0.",
            "with uv:  uv pip install --torch-backend=cu126 torch==2.14.0\n",
        ])
        .check();
    ask(&["--driver", "550.54.15", "--python", "3.12", "flash-attn"])
        .stdout_contains(&[
            "cudarun --build pip install --no-build-isolation flash-attn==2.8.3.post2",
            "with pip:  pip install torch==2.10.0\n",
        ])
        .check();
    ask(&["--python", "3.12", "paddle"])
        .stdout_contains(&[
            "Which CUDA paddle 2.6.2 is built for is not known.",
            "paddle >=3.0 is on Paddle's own index",
            "No driver was found. --driver VERSION asks for a machine with one.",
        ])
        .check();
    ask(&["--driver", "580.95.05", "--gpu", "3.5", "torch"])
        .status(1)
        .stdout_contains(&["They would work on another GPU.\n"])
        .check();
}

/// A machine with this torch in its environment.
fn machine(torch: &str) -> Machine {
    Machine::describe(&format!(
        r#"
        about = "a driver, and a Python with torch"
        {DRIVER}
        [[file]]
        path = "/usr/bin/python3.12"
        [file.elf]
        interpreter = "/lib64/ld-linux-x86-64.so.2"
        [[file]]
        path = "/usr/bin/python3"
        link = "python3.12"
        [[file]]
        path = "/usr/lib/python3/dist-packages/torch-{torch}.dist-info/METADATA"
        text = "Name: torch\n"
        "#
    ))
}

const DRIVER: &str = r#"
        [[file]]
        path = "/proc/driver/nvidia/version"
        text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"
"#;

#[test]
fn the_machine_and_its_environment_count() {
    let advise = |machine: &Machine, options: &[&str]| {
        let words = [&["advise"], options].concat();
        with_table(Run::on(machine, &words))
    };
    let kept = machine("2.10.0+cu126");
    let json = advise(&kept, &["--json", "vllm"]).json();
    assert_eq!(json["machine"]["driver"], "550.54.15", "{json:#}");
    assert_eq!(json["machine"]["python"], "3.12", "{json:#}");
    assert_eq!(json["releases"][1]["installed"], true, "{json:#}");
    assert_eq!(
        json["uv"], "uv pip install --torch-backend=cu126 vllm==0.19.1",
        "{json:#}"
    );
    // The environment here says nothing about another machine.
    let other = advise(&kept, &["--json", "--driver", "580.95.05", "vllm"]).json();
    assert_eq!(
        other["uv"], "uv pip install vllm==0.33.0 torch==2.14.0",
        "{other:#}"
    );
    // Nothing works with it, so that it is replaced.
    let replaced = machine("2.3.0");
    advise(&replaced, &["vllm"])
        .stdout_contains(&[
            "Nothing works with the installed torch 2.3.0, which these replace.",
            "pip install vllm==0.19.1 torch==2.10.0",
        ])
        .check();
    // It is asked for itself.
    let json = advise(&kept, &["--json", "torch"]).json();
    assert_eq!(
        json["uv"], "uv pip install --torch-backend=cu126 torch==2.14.0",
        "{json:#}"
    );
}

#[test]
fn wrong_words_are_errors() {
    for (options, expected) in [
        (
            &["foo"][..],
            "`foo` is not in the table of releases, which has torch, triton,",
        ),
        (&["-f"], "unexpected argument '-f'"),
        (
            &["vllm=0.19"],
            "`vllm=0.19` is not a package as pip names it",
        ),
        (&["vllm==x"], "`vllm==x` is not a package as pip names it"),
        (
            &["vllm; python_version > '3'"],
            "is not a package as pip names it",
        ),
        (
            &["vllm[a,b]"],
            "`vllm[a,b]` is not a package as pip names it",
        ),
        (&[""], "`` is not a package as pip names it"),
        (&["\x1b[31m"], "is not a package as pip names it"),
        (&["vllm", "VLLM"], "`vllm` is named twice"),
        (
            &["--driver", "new", "vllm"],
            "it is a version of the driver, such as 550.54.15",
        ),
        (
            &["--gpu", "H100", "vllm"],
            "it is a compute capability, such as 9.0",
        ),
        (
            &["--torch", "two", "vllm"],
            "--torch `two` is not a version",
        ),
        (
            &["--machine", "riscv64", "vllm"],
            "[possible values: x86_64, aarch64]",
        ),
        (
            &["--python", "/nowhere/python", "vllm"],
            "`/nowhere/python` was not found",
        ),
        (
            &["--python", "/bin/true", "vllm"],
            "--python `/bin/true` is not Python",
        ),
        (&[], "<PACKAGE>..."),
    ] {
        ask(options).status(2).stderr_contains(&[expected]).check();
    }
    // One that the table has not in this version, or not with this extra.
    for package in ["vllm==9.9", "vllm[gpu]"] {
        ask(&["--driver", "580.95.05", package])
            .status(1)
            .stdout_contains(&["No releases work together here."])
            .check();
    }
}

/// With the real table: a machine of today can have every package.
#[test]
fn every_distribution_can_be_had() {
    for name in cudarun::advise::known_names() {
        let words = [
            "advise", "--json", "--driver", "610.43", "--gpu", "9.0", "--python", "3.12", name,
        ];
        let json = Run::new(words).json();
        let releases = json["releases"].as_array().unwrap();
        assert_eq!(releases[0]["name"], name, "{json:#}");
    }
}
