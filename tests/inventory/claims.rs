//! Two Python packages that installed one file. The file is from the last one, but the records of both list it.

use std::fs;

use serde_json::{Value, json};

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, elf, python, text};

const FILE: &str = "nvidia/nccl/lib/libnccl.so.2";

/// The environment of a framework that requires NCCL for CUDA 12, with these lines in the records of two packages.
fn environment(old: &str, new: &str) -> Machine {
    let record = |package: &str, rest: &str| {
        text(
            &format!("{SITE}/{package}.dist-info/RECORD"),
            &format!("{FILE},{rest}\n"),
        )
    };
    python(&[
        elf(
            &format!("{SITE}/{FILE}"),
            "soname = 'libnccl.so.2', exports = ['ncclInit']",
        ),
        record("nvidia_nccl_cu12-2.21.5", old),
        record("nvidia_nccl_cu13-2.27.7", new),
        text(
            &format!("{SITE}/framework-1.0.dist-info/METADATA"),
            "Name: framework\nVersion: 1.0\nRequires-Dist: nvidia-nccl-cu12==2.21.5\n",
        ),
    ])
}

fn installed(machine: &Machine) -> Value {
    Run::on(machine, &["list", "--json"]).json()["installations"][0].clone()
}

fn size(machine: &Machine) -> u64 {
    fs::metadata(machine.real(&format!("{SITE}/{FILE}")))
        .unwrap()
        .len()
}

#[test]
fn a_file_of_two_packages_is_what_its_size_says() {
    let size = size(&environment("", ""));
    let both = ["nvidia-nccl-cu12 2.21.5", "nvidia-nccl-cu13 2.27.7"];
    for (old, new, holds) in [(size, size + 8, 0), (size + 8, size, 1)] {
        let machine = environment(&format!("sha256=x,{old}"), &format!("sha256=y,{new}"));
        let found = installed(&machine);
        let problem = json!({
            "problem": "claimed-twice", "files": ["libnccl.so.2"], "packages": both, "holds": both[holds],
            "needed": both[0],
        });
        assert_eq!(found["problems"], json!([problem]));
        assert_eq!(found["package"], both[holds]);
        assert_eq!(
            found["version"],
            both[holds].split(' ').next_back().unwrap()
        );
    }
}

#[test]
fn equal_sizes_leave_the_hashes_of_the_records() {
    let size = size(&environment("", ""));
    let found = installed(&environment(
        &format!("sha256=x,{size}"),
        &format!("sha256=y,{size}"),
    ));
    assert_eq!(found["problems"][0]["problem"], "claimed-twice");
    assert_eq!(found["problems"][0]["holds"], Value::Null);
    assert_eq!(
        found["version"],
        Value::Null,
        "neither package says what the file is"
    );
    let equal = format!("sha256=x,{size}");
    let found = installed(&environment(&equal, &equal));
    assert_eq!(
        found["problems"],
        json!([]),
        "both packages brought this file"
    );
    assert_ne!(found["version"], Value::Null);
}

#[test]
fn doctor_keeps_the_package_that_another_one_requires() {
    let size = size(&environment("", ""));
    let machine = environment(
        &format!("sha256=x,{}", size + 8),
        &format!("sha256=y,{size}"),
    );
    let (output, _) = Run::on(&machine, &["doctor", "--json"])
        .any_stderr()
        .output();
    let report: Value = serde_json::from_str(&output).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let finding = findings
        .iter()
        .find(|finding| finding["code"] == "claimed-twice")
        .unwrap();
    let what = "NCCL 2.27.7 in /opt/venv/lib/python3.12/site-packages/nvidia/nccl/lib: nvidia-nccl-cu12 2.21.5 and \
                nvidia-nccl-cu13 2.27.7 both claim libnccl.so.2, and the installed file is from nvidia-nccl-cu13 2.27.7";
    assert_eq!(finding["what"], what);
    let remedy = "pip uninstall 'nvidia-nccl-cu13'; pip install --force-reinstall --no-deps 'nvidia-nccl-cu12==2.21.5'";
    assert_eq!(finding["remedy"], remedy);
}
