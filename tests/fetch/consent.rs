//! Nothing is fetched unless a person has allowed it, and nothing where an administrator forbids it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::process::Stdio;

use super::wheelhouse::{TestWheel, Wheelhouse, app, cudart, names};

/// A house with a project in it.
fn project(text: &str) -> Wheelhouse {
    let house = Wheelhouse::new(&[cudart()]);
    fs::create_dir(house.path("home/project")).unwrap();
    let text = text
        .replace("WHEELS", house.path("wheels").to_str().unwrap())
        .replace("STORE", house.path("project-store").to_str().unwrap());
    fs::write(house.path("home/project/.cudarun.toml"), text).unwrap();
    house
}

const NO_TERMINAL: &str =
    "nothing was downloaded: there is no terminal to ask on\n\nhint: cudarun ";

#[test]
fn without_a_terminal_and_without_consent_nothing_is_fetched() {
    let house = Wheelhouse::new(&[cudart()]);
    house.user_names_wheels();
    let app = app("needs-cudart");
    for (words, status) in [
        (vec!["fetch", &app], 1),
        (vec!["fetch", "cudart"], 1),
        (vec!["--fetch", &app], 125),
    ] {
        let hint = format!("hint: cudarun {} --yes {}\n", words[0], words[1]);
        house
            .run(&words)
            .status(status)
            .stderr_contains(&["1 wheel, ", NO_TERMINAL, &hint])
            .check();
        assert!(!house.path("home/.local").exists());
    }
    for (words, status) in [
        (vec!["fetch", "--yes", &app], 0),
        (vec!["fetch", "--yes", &app], 0),
    ] {
        house.run(&words).status(status).any_stderr().check();
    }
    assert_eq!(house.entries().len(), 1, "the control");
}

#[test]
fn a_dry_run_writes_nothing() {
    let house = Wheelhouse::new(&[cudart()]);
    house.user_names_wheels();
    let app = app("needs-cudart");
    for words in [
        ["fetch", "--dry-run", "--yes", &app],
        ["fetch", "--yes", "--dry-run", "cudart"],
    ] {
        house
            .run(&words)
            .stdout_contains(&[
                "1 wheel, ",
                "nvidia-cuda-runtime-cu12 12.4.127",
                "licence: NVIDIA's own",
            ])
            .check();
        assert!(!house.path("home/.local").exists());
    }
    let json = house
        .run(&["fetch", "--dry-run", "--json", "--yes", "cudart"])
        .json();
    assert_eq!(json["wheels"][0]["version"], "12.4.127");
    assert!(!house.path("home/.local").exists());
}

#[test]
fn an_administrator_forbids_whatever_others_allow() {
    let house = project("[fetch]\nwhen = \"always\"\nfrom = [\"WHEELS\"]\n");
    let app = app("needs-cudart");
    let run = |words: &[&str]| house.run(words).in_directory(house.path("home/project"));
    run(&["-q", "allow"]).check();
    let forbidden = "cudarun: settings forbid fetching (`when = \"never\"`)";
    for (words, status) in [
        (vec!["fetch", "--yes", &app], 2),
        (vec!["fetch", "--yes", "cudart"], 2),
        (vec!["--fetch", "--yes", &app], 125),
    ] {
        let run = run(&words).env("CUDARUN_FETCH", "never").status(status);
        run.stderr_contains(&[forbidden]).check();
        assert_eq!(house.entries(), [""; 0]);
    }
    let start = run(&[&app]).env("CUDARUN_FETCH", "never").status(125);
    start.stderr_contains(&["cudart"]).check();
    assert_eq!(house.entries(), [""; 0]);
    run(&[&app])
        .stdout("cudart 12040\n")
        .stderr_contains(&["fetched "])
        .check();
}

#[test]
fn settings_of_a_project_need_trust() {
    let app = app("needs-cudart");
    for text in [
        "[fetch]\nwhen = \"always\"\nfrom = [\"WHEELS\"]\n",
        "[fetch]\nwhen = \"always\"\nfrom = [\"WHEELS\"]\nstore = \"STORE\"\n",
    ] {
        let house = project(text);
        let run = |words: &[&str]| house.run(words).in_directory(house.path("home/project"));
        run(&[&app])
            .status(125)
            .stderr_contains(&["cudarun allow"])
            .check();
        run(&["--fetch", "--yes", &app])
            .status(125)
            .stderr_contains(&["cudarun allow"])
            .check();
        // Nor do they count if the person does without them.
        let fetch = run(&["--no-config", "--fetch", "--yes", &app]).status(125);
        fetch
            .stderr_contains(&["neither `uv` nor `pip` is in PATH"])
            .check();
        house.has_no_entry();
        assert!(!house.path("project-store").exists());
        run(&["-q", "allow"]).check();
        run(&[&app])
            .stdout("cudart 12040\n")
            .stderr_contains(&["fetched "])
            .check();
        run(&[&app]).stdout("cudart 12040\n").check();
        let is_named = text.contains("store");
        let mut names = names(&house.path("project-store"));
        names.retain(|name| name.len() == 64);
        assert_eq!(names.len(), usize::from(is_named));
        assert_eq!(house.entries().len(), usize::from(!is_named));
    }
}

/// Nobody has asked for a download, so none is ordered. With `--fetch`, somebody has.
#[test]
fn a_start_without_fetched_wheels_is_not_refused_where_all_starts_may_fetch() {
    let nvrtc = TestWheel {
        family: "nvrtc",
        distribution: "nvidia-cuda-nvrtc-cu12",
        directory: "cuda_nvrtc",
        soname: "libnvrtc.so.12",
        ..cudart()
    };
    let house = Wheelhouse::new(&[nvrtc]);
    let wheels = house.path("wheels");
    house.user_says(&format!(
        "[fetch]\nwhen = \"always\"\nfrom = [\"{}\"]\n",
        wheels.display()
    ));
    // It opens NVRTC, and starts without.
    let torch = house.path("home/torch");
    fs::create_dir(&torch).unwrap();
    fs::write(torch.join("__init__.py"), "print('torch')\n").unwrap();
    fs::write(torch.join("version.py"), "cuda = '12.4'\n").unwrap();
    let information = house.path("home/torch-2.6.0.dist-info");
    fs::create_dir(&information).unwrap();
    let metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\n";
    fs::write(information.join("METADATA"), metadata).unwrap();
    let start = |words: &[&str]| {
        let program = ["--without", "fetched", "python3", "-c", "import torch"];
        let run = house.run(&[words, &program].concat());
        run.env("PATH", "/usr/bin:/bin")
            .env("PYTHONPATH", house.path("home"))
    };
    start(&[]).stdout("torch\n").any_stderr().check();
    let refused = start(&["--fetch"]).status(125);
    refused
        .stderr_contains(&["nothing was fetched: this start ignores fetched wheels"])
        .check();
}

#[test]
fn a_person_on_a_terminal_is_asked() {
    let app = app("needs-cudart");
    let question = "Download them? [y/N] ";
    for (answer, is_yes) in [
        (&b"y\n"[..], true),
        (b"Yes\n", true),
        (b"n\n", false),
        (b"\n", false),
        (b"\x04", false),
        (b"yellow\n", false),
    ] {
        for words in [&["fetch", &app][..], &["--fetch", &app]] {
            let house = Wheelhouse::new(&[cudart()]);
            house.user_names_wheels();
            let (shown, status) = on_terminal(&house, words, question, answer);
            let failed = if words[0] == "fetch" { 1 } else { 125 };
            assert_eq!(
                status,
                if is_yes { 0 } else { failed },
                "{answer:?} {shown}"
            );
            assert_eq!(
                house.entries().len(),
                usize::from(is_yes),
                "{answer:?} {shown}"
            );
            assert!(shown.contains("1 wheel, "), "{shown}");
            let told = if words[0] == "fetch" {
                "nothing was downloaded: the answer was no\r\n"
            } else {
                "nothing was downloaded: the answer was no, so nothing was started\r\n"
            };
            let hint = format!("hint: cudarun {} --yes ", words[0]);
            assert_eq!(shown.contains(told), !is_yes, "{shown}");
            assert_eq!(shown.contains(&hint), !is_yes, "{shown}");
            assert_eq!(
                shown.contains("cudart 12040"),
                is_yes && words[0] == "--fetch",
                "{shown}"
            );
        }
    }
}

/// Runs on a pseudo-terminal, and answers a question. Returns all that the terminal showed, and the status.
fn on_terminal(house: &Wheelhouse, words: &[&str], question: &str, answer: &[u8]) -> (String, i32) {
    let pair = nix::pty::openpty(None, None).unwrap();
    let side = || Stdio::from(pair.slave.try_clone().unwrap());
    let mut command = house.command(words);
    let mut child = command
        .stdin(side())
        .stdout(side())
        .stderr(side())
        .spawn()
        .unwrap();
    drop((command, pair.slave));
    let mut terminal = File::from(pair.master);
    let (mut shown, mut piece, mut is_answered) = (Vec::new(), [0; 4096], false);
    // The other side is closed: an error on Linux.
    while let Ok(length @ 1..) = terminal.read(&mut piece) {
        shown.extend_from_slice(&piece[..length]);
        if !is_answered && memchr::memmem::find(&shown, question.as_bytes()).is_some() {
            terminal.write_all(answer).unwrap();
            is_answered = true;
        }
    }
    let status = child.wait().unwrap().code().unwrap();
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(is_answered, "no question: {shown}");
    (shown, status)
}

#[test]
fn consent_does_not_come_from_a_file() {
    let house = Wheelhouse::new(&[cudart()]);
    house.user_names_wheels();
    fs::write(house.path("answer"), "y\n").unwrap();
    let mut command = house.command(&["fetch", "cudart"]);
    let output = command
        .stdin(File::open(house.path("answer")).unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(NO_TERMINAL));
    house.has_no_entry();
}

#[test]
fn a_store_that_is_a_link_to_a_place_of_others_is_refused() {
    let house = Wheelhouse::new(&[cudart()]);
    fs::create_dir_all(house.store().parent().unwrap()).unwrap();
    fs::create_dir(house.path("open")).unwrap();
    std::process::Command::new("chmod")
        .arg("777")
        .arg(house.path("open"))
        .status()
        .unwrap();
    symlink(house.path("open"), house.store()).unwrap();
    house
        .fetch(&["cudart"])
        .status(2)
        .stderr_contains(&["cannot be used: "])
        .check();
    assert_eq!(names(&house.path("open")), [""; 0]);
}
