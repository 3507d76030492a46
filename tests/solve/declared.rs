//! The oldest version that a package's metadata allows: preferred, and said where nothing reaches it.

use crate::builds::{HOPPER, gpu};
use crate::support::Run;
use crate::support::decided::decided;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, SYSTEM, driver, elf, library, python, text};

const OWN: &str = "/opt/venv/lib/python3.12/site-packages/nvidia/nvjitlink/lib";
const ELSEWHERE: &str = "/usr/local/cuda-12.9/lib64";
const PROGRAM: &[&str] = &["python3", "-c", "import mapper"];

fn linker(directory: &str, version: &str) -> String {
    library(
        directory,
        "libnvJitLink",
        "12",
        version,
        "exports = ['nvJitLinkCreate']",
    )
}

/// A package that is linked against nvJitLink and asks for a version in its metadata, beside the copy that torch pins.
fn machine(requires: &str, more: &[String]) -> Machine {
    let metadata = format!("Name: mapper\nVersion: 26.8\nRequires-Dist: {requires}\n");
    let files = [
        text(&format!("{SITE}/mapper/__init__.py"), ""),
        elf(
            &format!("{SITE}/mapper/core.so"),
            "soname = 'core.so', needed = ['libnvJitLink.so.12'], runpath = '$ORIGIN/../nvidia/nvjitlink/lib'",
        ),
        text(&format!("{SITE}/mapper-26.8.dist-info/METADATA"), &metadata),
        text(
            &format!("{SITE}/mapper-26.8.dist-info/RECORD"),
            "mapper/__init__.py,,\nmapper/core.so,,\n",
        ),
        linker(OWN, "12.8.93"),
    ];
    python(&[&files[..], more].concat())
}

fn picked(machine: &Machine) -> String {
    let explained = decided(machine, ELSEWHERE, PROGRAM);
    let mut picks = explained.picks.iter();
    let pick = picks.find(|pick| pick.installation.family == "nvjitlink");
    pick.unwrap().installation.directory.display().to_string()
}

#[test]
fn a_copy_that_is_as_new_as_metadata_asks_comes_before_the_environments_own() {
    let newer = [linker(ELSEWHERE, "12.9.86")];
    for requires in [
        "nvidia-nvjitlink-cu12>=12.9,<13",
        "nvidia-nvjitlink-cu12 (>=12.9) ; platform_system == \"Linux\"",
    ] {
        assert_eq!(picked(&machine(requires, &newer)), ELSEWHERE, "{requires}");
    }
    // Its neighbours: the own one is new enough, or is what upstream tested with, or the rest is for an extra.
    for requires in [
        "nvidia-nvjitlink-cu12>=12.8,<13",
        "nvidia-nvjitlink-cu12==12.9.86",
        "nvidia-nvjitlink-cu12>=12.9; extra == 'test'",
        "nvidia-nvjitlink-cu12>=12.9; platform_system == 'Windows'",
        "nvidia-nvjitlink-cu12>=12.9; python_version < '3.9'",
        "nvidia-nvjitlink-cu12>=12.8,<12.9.50",
    ] {
        assert_eq!(picked(&machine(requires, &newer)), OWN, "{requires}");
    }
}

#[test]
fn where_nothing_is_as_new_a_start_says_so_and_what_to_type() {
    let started = |machine: &Machine| Run::on(machine, &[&["export"], PROGRAM].concat());
    let asks = "nvidia-nvjitlink-cu12>=12.9,<13";
    let old = machine(asks, &[gpu(HOPPER, "580.95.05")]);
    assert_eq!(picked(&old), OWN);
    started(&old)
        .any_stdout()
        .stderr_contains(&["nvJitLink 12.8.93 is older than 12.9, which mapper 26.8 asks for"])
        .check();
    // Its neighbours: a newer one is here; there is no GPU; nothing is asked for.
    let newer = machine(
        asks,
        &[gpu(HOPPER, "580.95.05"), linker(ELSEWHERE, "12.9.86")],
    );
    started(&newer)
        .env("LD_LIBRARY_PATH", ELSEWHERE)
        .any_stdout()
        .stderr("")
        .check();
    started(&machine(asks, &[])).any_stdout().stderr("").check();
    started(&machine(
        "nvidia-nvjitlink-cu12",
        &[gpu(HOPPER, "580.95.05")],
    ))
    .any_stdout()
    .stderr("")
    .check();
}

/// A package that opens its object so that functions are looked up when they are called.
#[test]
fn a_function_that_is_looked_up_when_it_is_called_keeps_nothing_from_starting() {
    let directory = "/opt/venv/lib/python3.12/site-packages/nvidia/nccl/lib";
    let other = "/opt/nccl/lib";
    let nccl = |directory: &str, exports: &str| {
        library(
            directory,
            "libnccl",
            "2",
            "2.27.5",
            &format!("exports = [{exports}]"),
        )
    };
    let machine = |module: &str, more: &[String]| {
        let files = [
            text(&format!("{SITE}/{module}/__init__.py"), ""),
            elf(
                &format!("{SITE}/{module}/core.so"),
                "soname = 'core.so', needed = ['libnccl.so.2'], imports = { 'libnccl.so.2' = ['ncclTeamLsa'] }, \
                 runpath = '$ORIGIN/../nvidia/nccl/lib'",
            ),
            nccl(directory, "'ncclCommCount'"),
            gpu(HOPPER, "580.95.05"),
            driver(SYSTEM, "580.95.05"),
        ];
        python(&[&files[..], more].concat())
    };
    let start = |machine: &Machine, module: &str, path: &str| {
        let code = format!("import {module}");
        let run =
            Run::on(machine, &["export", "python3", "-c", &code]).env("LD_LIBRARY_PATH", path);
        let (_, status, said) = run.streams();
        (status, said)
    };
    let module = "transformer_engine";
    let (status, said) = start(&machine(module, &[]), module, "");
    assert_eq!(status, 0, "{said}");
    assert!(said.contains("lacks `ncclTeamLsa`"), "{said}");
    // Its neighbours: a newer copy is here; a package whose functions are all looked up at once.
    let newer = machine(module, &[nccl(other, "'ncclCommCount', 'ncclTeamLsa'")]);
    let (status, said) = start(&newer, module, other);
    assert_eq!((status, said.contains("ncclTeamLsa")), (0, false), "{said}");
    let (status, said) = start(&machine("collective", &[]), "collective", "");
    assert!(status != 0 && said.contains("ncclTeamLsa"), "{said}");
}
