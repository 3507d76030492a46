//! A program that lacks libraries starts once they are fetched.

use std::fs;

use super::wheelhouse::{Wheelhouse, app, cudart, curand, fails_alone, sum};

#[test]
fn a_program_starts_with_wheels_of_a_directory() {
    fails_alone("needs-cudart");
    let house = Wheelhouse::new(&[cudart()]);
    let app = app("needs-cudart");
    let control = house.run(&[&app]).status(125).stderr_contains(&["cudart"]);
    control.check();
    house.user_names_wheels();
    let start = || house.run(&["--fetch", "--yes", &app]).stdout("cudart 12040\n");
    start().stderr_contains(&["1 wheel, ", "fetched nvidia-cuda-runtime-cu12 12.4.127 in "]).check();
    assert_eq!(house.entries(), [sum(&cudart().bytes())]);
    fs::remove_dir_all(house.path("wheels")).unwrap();
    start().check();
    house.run(&[&app]).stdout("cudart 12040\n").check();
    house.run(&["--without", "fetched", &app]).status(125).stderr_contains(&["cudart"]).check();
}

#[test]
fn a_program_starts_with_wheels_that_pip_gets() {
    let house = Wheelhouse::new(&[cudart(), curand()]);
    let Some(pip) = house.pip() else { return };
    let app = app("needs-both");
    let start = || pip.run(&["--fetch", "--yes", &app]).stdout("cudart 12040, curand 10305\n");
    start().stderr_contains(&["2 wheels, "]).check();
    assert_eq!((pip.calls(), house.entries().len()), (2, 2));
    start().check();
    assert_eq!(pip.calls(), 2);
}

#[test]
fn only_the_family_that_is_not_installed_is_fetched() {
    let house = Wheelhouse::new(&[cudart(), curand()]);
    let app = app("needs-both");
    let both = ["nvidia-cuda-runtime-cu12 12.4.127", "nvidia-curand-cu12 10.3.5.147"];
    let to_fetch = |library_path: &str| {
        let run = house.run(&["fetch", "--dry-run", "--json", &app]).env("LD_LIBRARY_PATH", library_path);
        let wheels = run.json()["wheels"].as_array().unwrap().clone();
        let name = |wheel: &serde_json::Value| {
            format!("{} {}", wheel["distribution"].as_str().unwrap(), wheel["version"].as_str().unwrap())
        };
        wheels.iter().map(name).collect::<Vec<String>>()
    };
    assert_eq!(to_fetch(""), both, "the control");
    let installed = house.path("installed");
    fs::create_dir(&installed).unwrap();
    fs::copy(super::wheelhouse::BUILT.path("libcurand.so.10"), installed.join("libcurand.so.10")).unwrap();
    let installed = installed.to_str().unwrap();
    assert_eq!(to_fetch(installed), [both[0]]);
    house
        .fetch(&[&app])
        .env("LD_LIBRARY_PATH", installed)
        .stderr_contains(&["1 wheel, ", "libcudart.so.12 for "])
        .check();
    assert_eq!(house.entries(), [sum(&cudart().bytes())]);
    house.run(&[&app]).env("LD_LIBRARY_PATH", installed).stdout("cudart 12040, curand 10305\n").check();
}
