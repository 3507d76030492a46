//! A program that lacks libraries starts once they are fetched.

use std::fs;

use super::wheelhouse::{Packed, Wheelhouse, app, cudart, curand, fails_alone, sum};

#[test]
fn a_program_starts_with_wheels_of_a_directory() {
    fails_alone("needs-cudart");
    let house = Wheelhouse::new(&[cudart()]);
    let app = app("needs-cudart");
    let or = format!("or:   `cudarun --fetch {app}` (1 wheel, ");
    let control =
        house
            .run(&[&app])
            .status(125)
            .stderr_contains(&["cudart", &or, ", for cudarun alone)"]);
    control.check();
    house.user_names_wheels();
    let start = || {
        house
            .run(&["--fetch", "--yes", &app])
            .stdout("cudart 12040\n")
    };
    start()
        .stderr_contains(&["1 wheel, ", "fetched nvidia-cuda-runtime-cu12 12.4.127 in "])
        .check();
    assert_eq!(house.entries(), [sum(&cudart().bytes())]);
    fs::remove_dir_all(house.path("wheels")).unwrap();
    start().check();
    house.run(&[&app]).stdout("cudart 12040\n").check();
    let without = ["--without", "fetched", "--fetch", "--yes", &app];
    house
        .run(&[without[0], without[1], &app])
        .status(125)
        .stderr_contains(&["cudart"])
        .check();
    let ignored = "nothing was fetched: this start ignores fetched wheels\n\nhint: leave out `--without fetched`\n";
    house.run(&without).status(125).stderr(ignored).check();
    start().check();
}

#[test]
fn a_program_starts_with_wheels_that_pip_gets() {
    let house = Wheelhouse::new(&[cudart(), curand()]);
    let Some(pip) = house.pip() else { return };
    let app = app("needs-both");
    let start = || {
        pip.run(&["--fetch", "--yes", &app])
            .stdout("cudart 12040, curand 10305\n")
    };
    start().stderr_contains(&["2 wheels, "]).check();
    assert_eq!((pip.calls(), house.entries().len()), (2, 2));
    start().check();
    assert_eq!(pip.calls(), 2);
}

#[test]
fn only_the_family_that_is_not_installed_is_fetched() {
    let house = Wheelhouse::new(&[cudart(), curand()]);
    let app = app("needs-both");
    let both = [
        "nvidia-cuda-runtime-cu12 12.4.127",
        "nvidia-curand-cu12 10.3.5.147",
    ];
    let to_fetch = |library_path: &str| {
        let run = house
            .run(&["fetch", "--dry-run", "--json", &app])
            .env("LD_LIBRARY_PATH", library_path);
        let wheels = run.json()["wheels"].as_array().unwrap().clone();
        let name = |wheel: &serde_json::Value| {
            format!(
                "{} {}",
                wheel["distribution"].as_str().unwrap(),
                wheel["version"].as_str().unwrap()
            )
        };
        wheels.iter().map(name).collect::<Vec<String>>()
    };
    assert_eq!(to_fetch(""), both, "the control");
    let installed = house.path("installed");
    fs::create_dir(&installed).unwrap();
    fs::copy(
        super::wheelhouse::BUILT.path("libcurand.so.10"),
        installed.join("libcurand.so.10"),
    )
    .unwrap();
    let installed = installed.to_str().unwrap();
    assert_eq!(to_fetch(installed), [both[0]]);
    house
        .fetch(&[&app])
        .env("LD_LIBRARY_PATH", installed)
        .stderr_contains(&["1 wheel, ", "libcudart.so.12 for "])
        .check();
    assert_eq!(house.entries(), [sum(&cudart().bytes())]);
    house
        .run(&[&app])
        .env("LD_LIBRARY_PATH", installed)
        .stdout("cudart 12040, curand 10305\n")
        .check();
}

#[test]
fn the_file_with_the_right_bytes_is_taken_from_two_indexes() {
    let house = Wheelhouse::new(&[cudart()]);
    let Some(pip) = house.pip() else { return };
    let other = house.path("other");
    fs::create_dir(&other).unwrap();
    let with_more = cudart().with(Packed::new("nvidia/cuda_runtime/lib/more", "more"));
    fs::write(other.join(cudart().file_name()), with_more.bytes()).unwrap();
    // Pages of indexes, which state the hash.
    let both = [sum(&with_more.bytes()), sum(&cudart().bytes())];
    let page = |directory: &str, hash: &str| {
        let file = house.path(directory).join(cudart().file_name());
        let link = format!(
            "<a href=\"file://{}#sha256={hash}\">{}</a>",
            file.display(),
            cudart().file_name()
        );
        let page = house.path(&format!("{directory}.html"));
        fs::write(
            &page,
            format!("<!DOCTYPE html><html><body>{link}</body></html>"),
        )
        .unwrap();
        format!("file://{}", page.display())
    };
    let (wrong, right) = (page("other", &both[0]), page("wheels", &both[1]));
    let fetch = |pages: &[&str]| {
        pip.run(&["fetch", "--yes", "cudart"])
            .env("PIP_FIND_LINKS", pages.join(" "))
    };
    let control = fetch(&[&wrong]).status(2);
    control
        .stderr_contains(&["cudarun: `pip` could not get nvidia-cuda-runtime-cu12 12.4.127\n"])
        .check();
    house.has_no_entry();
    fetch(&[&wrong, &right])
        .stderr_contains(&["fetched "])
        .check();
    assert_eq!(house.entries(), [both[1].as_str()]);
}

#[test]
fn the_client_has_the_environment_of_the_person_without_that_of_the_loader() {
    let house = Wheelhouse::new(&[cudart()]);
    let Some(pip) = house.pip() else { return };
    let real = fs::read_to_string(house.path("bin/pip")).unwrap();
    let seen = house.path("seen");
    house.script(
        "pip",
        &real.replace("exec ", &format!("/usr/bin/env >{}\nexec ", seen.display())),
    );
    let fetch = pip
        .run(&["fetch", "--yes", "cudart"])
        .env("LD_LIBRARY_PATH", house.path("empty"));
    fetch
        .env("PIP_TIMEOUT", "77")
        .env("HTTPS_PROXY", "proxy")
        .any_stderr()
        .check();
    let seen = fs::read_to_string(seen).unwrap();
    for part in [
        "PIP_TIMEOUT=77\n",
        "HTTPS_PROXY=proxy\n",
        "PIP_NO_INDEX=1\n",
    ] {
        assert!(seen.contains(part), "{seen}");
    }
    assert!(!seen.contains("LD_"), "{seen}");
}

#[test]
fn a_failing_client_shows_no_password() {
    let house = Wheelhouse::new(&[cudart()]);
    let Some(pip) = house.pip() else { return };
    let real = fs::read_to_string(house.path("bin/pip")).unwrap();
    // Its own messages hide the password, but not those of its configuration and of other programs that it starts.
    let address = "echo \"https://$PERSON:$WORD@127.0.0.1:1/simple\" >&2\n";
    house.script("pip", &real.replace("exec ", &format!("{address}exec ")));
    let fetch = pip
        .run(&["fetch", "--yes", "cudart"])
        .env("PIP_INDEX_URL", "https://ann:hush@127.0.0.1:1/simple");
    let fetch = fetch
        .env("PIP_NO_INDEX", "0")
        .env("PIP_RETRIES", "0")
        .env("PIP_FIND_LINKS", "");
    let fetch = fetch.env("PERSON", "ann").env("WORD", "hush").status(2);
    let shown = fetch.output_of_both();
    assert!(
        shown.contains("cudarun: `pip` could not get nvidia-cuda-runtime-cu12 12.4.127\n"),
        "{shown}"
    );
    assert!(shown.contains("https://127.0.0.1:1/simple"), "{shown}");
    assert!(
        !shown.contains("hush") && !shown.contains("ann:"),
        "{shown}"
    );
    house.has_no_entry();
}
