//! The command line of `cudarun fetch`.

use std::fs;

use super::wheelhouse::{BUILT, Wheelhouse, cudart, curand};
use crate::support::copy_program;

#[test]
fn options_come_before_and_after_families() {
    let house = Wheelhouse::new(&[cudart(), curand()]);
    let wheels = |words: &[&str]| {
        let json = house.run(words).json();
        let wheels = json["wheels"].as_array().unwrap().clone();
        wheels
            .iter()
            .map(|wheel| wheel["distribution"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let both = ["nvidia-curand-cu12", "nvidia-cuda-runtime-cu12"];
    for words in [
        &[
            "fetch",
            "curand=10.3",
            "cudart",
            "--cuda",
            "12",
            "--dry-run",
            "--json",
        ][..],
        &[
            "fetch",
            "--cuda",
            "12",
            "--dry-run",
            "--json",
            "curand=10.3",
            "cudart",
        ],
        &[
            "fetch",
            "--json",
            "cuRAND>=10",
            "--cuda=12",
            "CUDART",
            "--dry-run",
        ],
        &[
            "-q",
            "fetch",
            "curand<11",
            "--json",
            "cudart",
            "--dry-run",
            "--without",
            "system",
        ],
    ] {
        assert_eq!(wheels(words), both, "{words:?}");
    }
    let app = BUILT.path("needs-cudart");
    let app = app.to_str().unwrap();
    assert_eq!(
        wheels(&["fetch", "--json", "--dry-run", app, "--json", "--yes"]),
        [both[1]]
    );
    // Options after a program are the program's.
    house
        .run(&["fetch", app, "--dry-run"])
        .status(1)
        .stderr_contains(&["no terminal"])
        .check();
}

#[test]
fn words_that_are_wrong_are_named() {
    let house = Wheelhouse::new(&[cudart(), curand()]);
    let refused = |words: &[&str], status: i32, parts: &[&str]| {
        house
            .run(&[&["fetch", "--yes"], words].concat())
            .status(status)
            .stderr_contains(parts)
            .check();
        house.has_no_entry();
    };
    refused(&["cudart", "cudrat"], 2, &["cudrat", "cudart"]);
    refused(&["cudart=twelve"], 2, &["twelve"]);
    refused(&["cudart=11"], 2, &["=11"]);
    refused(&["cudart", "--cuda", "99"], 2, &["CUDA runtime"]);
    refused(&["cudart", "--cuda", "x"], 2, &["--cuda"]);
    refused(
        &["cudart", "--cuda", "12.4"],
        2,
        &["'12.4'", "a major version, such as 12"],
    );
    refused(
        &["cudart=99"],
        2,
        &[
            "the table has 12.4.127 to 12.4.127",
            "hint: cudarun fetch cudart\n",
        ],
    );
    refused(
        &["driver"],
        2,
        &["a driver cannot be fetched: the administrator"],
    );
    refused(
        &["nvidia-curand-cu12"],
        2,
        &[
            "`nvidia-curand-cu12` was not found",
            "hint: cudarun fetch --cuda 12 curand\n",
        ],
    );
    for (words, idle) in [
        (
            &["prune", "--all", "cudart"][..],
            "'FAMILY' cannot be used with 'fetch prune'",
        ),
        (
            &["list", "cudart"],
            "'FAMILY' cannot be used with 'fetch list'",
        ),
        (
            &["--all", "cudart"],
            "'--all' cannot be used with 'fetch FAMILY'",
        ),
        (
            &["cudart", "--older", "5"],
            "'--older' cannot be used with 'fetch FAMILY'",
        ),
        (
            &["--cuda", "12", "/bin/true"],
            "'--cuda' cannot be used with 'fetch PROGRAM'",
        ),
        (
            &["verify", "--older", "5"],
            "'--older' cannot be used with 'fetch verify'",
        ),
    ] {
        refused(words, 2, &[idle]);
    }
    refused(&["cublas"], 2, &["cuBLAS"]);
    refused(&["--older", "-1", "prune"], 2, &["-1"]);
    refused(
        &["cudart", "--from", "x", "--client", "pip"],
        2,
        &["--from", "--client"],
    );
    refused(
        &["cudart", "--from", "x", "--into", "y"],
        2,
        &["--from", "--into"],
    );
    refused(&["cudart", "--client", "conda"], 2, &["conda", "uv, pip"]);
    refused(&[], 2, &["Usage: cudarun fetch"]);
    refused(&["./nothing-here"], 2, &["nothing-here"]);
}

#[test]
fn programs_may_have_the_names_of_actions_and_families() {
    let house = Wheelhouse::new(&[cudart()]);
    for name in ["list", "prune", "verify", "cudart"] {
        copy_program(BUILT.path("needs-cudart"), house.path("home").join(name));
        let program = format!("./{name}");
        let json = house
            .run(&["fetch", "--dry-run", "--json", &program])
            .json();
        assert_eq!(
            json["wheels"][0]["distribution"], "nvidia-cuda-runtime-cu12",
            "{name}"
        );
    }
    // The control: without a directory, they are actions.
    house
        .run(&["fetch", "list"])
        .stdout_contains(&["no fetched wheels"])
        .check();
    fs::remove_file(house.path("home/list")).unwrap();
}

#[test]
fn nothing_is_fetched_for_a_program_that_has_all() {
    let house = Wheelhouse::new(&[cudart()]);
    let app = BUILT.path("needs-cudart");
    let app = app.to_str().unwrap();
    house.fetch(&[app]).stderr_contains(&["fetched "]).check();
    house
        .fetch(&[app])
        .stderr("nothing to fetch: all libraries are here\n")
        .check();
    house
        .run(&["fetch", "/bin/true"])
        .stderr("nothing to fetch: `true` needs no NVIDIA library\n")
        .check();
    fs::write(house.path("home/train.py"), "import torch\n").unwrap();
    let python = which::which("python3").unwrap();
    let torch = house.run(&["fetch", python.to_str().unwrap(), "train.py"]);
    torch
        .stderr_contains(&[
            "`python3` needs no NVIDIA library\nnote: ",
            "imports `torch`, which is not",
        ])
        .check();
    house.run(&["-q", "fetch", app]).check();
    let json = house.run(&["fetch", "--json", app]).json();
    assert_eq!(json["wheels"].as_array().unwrap().len(), 0);
}

#[test]
fn a_library_that_no_wheel_has_is_named() {
    let house = Wheelhouse::new(&[curand()]);
    let app = BUILT.path("needs-cudart");
    let app = app.to_str().unwrap();
    house
        .run(&["fetch", app])
        .status(1)
        .stderr_contains(&["libcudart.so.12"])
        .check();
    house
        .run(&["--fetch", "--yes", app])
        .status(125)
        .stderr_contains(&["libcudart.so.12"])
        .check();
    // Nothing that could help is fetched for a part of its libraries.
    let both = BUILT.path("needs-both");
    house
        .run(&["fetch", both.to_str().unwrap()])
        .status(1)
        .stderr_contains(&["libcudart.so.12"])
        .check();
    house.has_no_entry();
}
