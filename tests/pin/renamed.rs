//! Libraries that auditwheel copied into a package under a name with a hash, and packages that are only perhaps imported: what
//! is no reason to refuse, beside what is.

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SHIELDED, SITE, elf, library, python, text};

const NVRTC: &str = "/opt/venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib";
/// In this mode nothing is loaded before the program's own libraries.
const NONE: [&str; 2] = ["--pin-mode", "none"];
const RENAMED: &str = "libnvrtc-d7c32a86.so.12.0.140";

fn loader() -> String {
    elf(
        "/lib64/ld-linux-x86-64.so.2",
        "soname = 'ld-linux-x86-64.so.2'",
    )
}

/// NVRTC 12.4 in NVIDIA's wheel.
fn nvrtc() -> String {
    library(NVRTC, "libnvrtc", "12", "12.4.127", SHIELDED)
        + &library(NVRTC, "libnvrtc-builtins", "12.4", "12.4.127", "")
}

/// A package whose extension module is linked against this library, with this DT_RPATH.
fn package(name: &str, needed: &str, rpath: &str) -> String {
    let record = format!("{name}/_C.so,sha256=x,\n");
    text(&format!("{SITE}/{name}/__init__.py"), "")
        + &text(
            &format!("{SITE}/{name}-1.0.dist-info/METADATA"),
            &format!("Name: {name}\nVersion: 1.0\n"),
        )
        + &text(&format!("{SITE}/{name}-1.0.dist-info/RECORD"), &record)
        + &elf(
            &format!("{SITE}/{name}/_C.so"),
            &format!("needed = ['{needed}'], rpath = '{rpath}'"),
        )
}

/// A package that brings an NVRTC 12.0 of its own, in a file with a hash and with this SONAME.
fn bringing(soname: &str) -> String {
    package("own", RENAMED, "$ORIGIN/../own.libs")
        + &elf(
            &format!("{SITE}/own.libs/{RENAMED}"),
            &format!("soname = '{soname}', constants = ['libnvrtc-builtins.so.12.0']"),
        )
}

/// With these options.
fn explained(machine: &Machine, options: &[&str], code: &str) -> Value {
    let words = [&["explain", "--json"], options, &["python3", "-c", code]].concat();
    let (text, _) = Run::on(machine, &words).output();
    serde_json::from_str(&text).unwrap()
}

fn is_refused(explained: &Value) -> bool {
    let decision = explained["decision"].as_str().unwrap();
    assert!(["plan", "leak"].contains(&decision), "{explained:#}");
    decision == "leak"
}

#[test]
fn a_renamed_nvrtc_is_no_leak_of_the_picked_one() {
    let user = package("user", "libnvrtc.so.12", "$ORIGIN/../nvidia/cuda_nvrtc/lib");
    let with = |soname: &str, mode: &[&str]| {
        let machine = python(&[loader(), nvrtc(), user.clone(), bringing(soname)]);
        explained(&machine, mode, "import user, own")
    };
    let started = with(RENAMED, &[]);
    assert!(!is_refused(&started), "{started:#}");
    assert_eq!(started["mode"], "none", "it is not in reach of others");
    // Its neighbour kept the public SONAME, so the loader gives it to whoever asks for that after it: the picked one is loaded
    // before both, and the package still gets its own.
    let started = with("libnvrtc.so.12", &[]);
    assert!(!is_refused(&started), "{started:#}");
    assert_eq!(started["mode"], "view");
    let after = started["after"].as_array().unwrap();
    let family = |name: &str| {
        let mut files = after.iter();
        let found = files.find(|file| file["path"].as_str().unwrap().ends_with(name));
        found.unwrap()["family"].clone()
    };
    assert_eq!(family("/libnvrtc.so.12"), "nvrtc");
    assert_eq!(family(RENAMED), Value::Null);
    let refused = with("libnvrtc.so.12", &NONE);
    assert!(is_refused(&refused), "{refused:#}");
}

#[test]
fn a_leak_of_a_package_itself_has_no_hint_about_a_search_path() {
    let user = package("user", "libnvrtc.so.12", "$ORIGIN/../nvidia/cuda_nvrtc/lib");
    let machine = python(&[loader(), nvrtc(), user, bringing("libnvrtc.so.12")]);
    let words = [
        "explain",
        NONE[0],
        NONE[1],
        "python3",
        "-c",
        "import user, own",
    ];
    let said = Run::on(&machine, &words).output().0;
    assert!(said.contains("would come from"), "{said}");
    assert!(!said.contains("from the program's search path"), "{said}");
}

#[test]
fn a_package_that_is_only_perhaps_imported_refuses_nothing() {
    // A framework that the program may import, beside a file that has NVRTC's own SONAME.
    let torch = package(
        "torch",
        "libnvrtc.so.12",
        "$ORIGIN/../nvidia/cuda_nvrtc/lib",
    ) + &text(&format!("{SITE}/torch/version.py"), "cuda = '12.4'\n");
    let machine = python(&[loader(), nvrtc(), torch, bringing("libnvrtc.so.12")]);
    for options in [&[][..], &NONE] {
        let guessed = explained(&machine, options, "exec('')");
        assert!(!is_refused(&guessed), "{guessed:#}");
    }
    // The control: what is certainly imported is refused.
    let refused = explained(&machine, &NONE, "import torch, own");
    assert!(is_refused(&refused), "{refused:#}");
}
