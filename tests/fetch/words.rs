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
        &["`nvidia-curand-cu12` was not found"],
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
            &["list", "--older", "5"],
            "'--older' cannot be used with 'fetch list'",
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
    for name in ["list", "prune", "cudart"] {
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

/// A script that opens a library by its name: it needs the library, or goes on without it.
fn opener(house: &Wheelhouse, soname: &str) -> [String; 2] {
    let script = house.path("home/a.py");
    let text = format!("import ctypes\nctypes.CDLL('{soname}')\nprint('opened')\n");
    fs::write(&script, text).unwrap();
    let python = which::which_in("python3", Some("/usr/bin:/bin"), "/").unwrap();
    [python.to_str().unwrap().to_owned(), "a.py".to_owned()]
}

#[test]
fn a_library_that_a_program_may_load_is_offered_to_a_person_who_asks() {
    let house = Wheelhouse::new(&[cudart()]);
    house.user_names_wheels();
    let [python, script] = &opener(&house, "libcudart.so.12");
    let program = [python.as_str(), script.as_str()];
    let run = |words: &[&str]| house.run(&[words, &program].concat());
    let command = format!("cudarun fetch {python} a.py\n");
    run(&["explain"])
        .stdout_contains(&[
            "libcudart.so.12 is not installed: a.py may load it",
            &format!("next: {command}"),
        ])
        .check();
    let doctor_says = |parts: &[&str]| {
        let (page, _) = run(&["doctor"]).output();
        assert!(parts.iter().all(|part| page.contains(part)), "{page}");
    };
    doctor_says(&[
        "warning: libcudart.so.12 is not installed",
        &format!("next: {command}"),
    ]);
    let refusal_says = |hint: &str| {
        run(&["explain", "--require", "cudart>=99"])
            .status(1)
            .stdout_contains(&[hint])
            .check();
    };
    refusal_says("hint: require a version on offer: 12.4.127 to 12.4.127");
    run(&["fetch", "--dry-run"])
        .stdout_contains(&["1 wheel, ", "libcudart.so.12 for a.py"])
        .check();
    // Nobody has asked for it.
    let alone = run(&[]).env("CUDARUN_FETCH", "always").status(1);
    alone
        .stderr_contains(&["libcudart.so.12: cannot open"])
        .check();
    house.has_no_entry();
    run(&["--fetch", "--yes"])
        .stdout("opened\n")
        .stderr_contains(&["fetched "])
        .check();
    run(&["fetch"])
        .stderr("nothing to fetch: all libraries are here\n")
        .check();
    let explained = run(&["explain"]).any_stdout().check();
    assert!(!explained.contains("not installed"), "{explained}");
    assert!(!explained.contains("cudarun fetch"), "{explained}");
    doctor_says(&[&format!("next: cudarun {python} a.py\n")]);
    refusal_says("hint: `cudarun list cudart` shows what is installed");
}

/// Then `explain` leads elsewhere, and nothing says that all is here.
#[test]
fn a_library_that_a_program_may_load_and_no_wheel_has_is_named() {
    let house = Wheelhouse::new(&[curand()]);
    let [python, script] = &opener(&house, "libcudart.so.12");
    let program = [python.as_str(), script.as_str()];
    let run = |words: &[&str]| house.run(&[words, &program].concat());
    let explained = run(&["explain"]).any_stdout().check();
    assert!(!explained.contains("cudarun fetch"), "{explained}");
    run(&["fetch"])
        .stderr_contains(&[
            "nothing to fetch: no wheel of CUDA runtime is on offer",
            "libcudart.so.12 is not installed: a.py may load it",
        ])
        .check();
    let json = run(&["fetch", "--json"]).any_stderr().stdout_contains(&[]);
    let text = json.check();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["wheels"].as_array().unwrap().len(), 0);
}

/// Also where a part of the work fails.
#[test]
fn one_object_is_printed_in_all_cases() {
    let house = Wheelhouse::new(&[cudart()]);
    let app = BUILT.path("needs-cudart");
    let app = app.to_str().unwrap();
    let both = BUILT.path("needs-both");
    let both = both.to_str().unwrap();
    let wheels = house.path("wheels");
    let from = wheels.to_str().unwrap();
    let empty = house.path("empty");
    let empty = empty.to_str().unwrap();
    let object = |words: &[&str], variable: &str, status: i32| -> serde_json::Value {
        let run = house.run(words).env("CUDARUN_FETCH", variable);
        let text = run.status(status).any_stdout().any_stderr().check();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{words:?} {error}: {text}"))
    };
    let ask = "ask";
    for (words, variable, status, count) in [
        (&["fetch", "--json", app][..], ask, 1, 1),
        (&["fetch", "--json", both], ask, 1, 0),
        (&["fetch", "--json", "/bin/true"], ask, 0, 0),
        (
            &["fetch", "--json", "--dry-run", "--from", empty, app],
            ask,
            1,
            1,
        ),
        (
            &["fetch", "--json", "--yes", "--from", from, app],
            ask,
            0,
            1,
        ),
        (&["fetch", "--json", "--yes", app], ask, 0, 0),
    ] {
        let object = object(words, variable, status);
        assert_eq!(
            object["wheels"].as_array().unwrap().len(),
            count,
            "{words:?}"
        );
        assert!(object["error"].is_null(), "{words:?}");
    }
    fs::remove_dir_all(house.store()).unwrap();
    for (words, variable) in [
        (&["fetch", "--json", "--yes", app][..], ask),
        (&["fetch", "--json", "--yes", "--from", from, app], "never"),
        (
            &["fetch", "--json", "--yes", "--from", empty, "cudart"],
            ask,
        ),
    ] {
        let object = object(words, variable, 2);
        assert!(object["error"]["message"].is_string(), "{words:?} {object}");
        assert!(object["wheels"].is_null(), "{words:?}");
    }
}
