//! Two Python packages that installed one file. The file is from the last one, but the records of both list it.

use std::fs;

use serde_json::{Value, json};

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, elf, python, text};

const FILE: &str = "nvidia/nccl/lib/libnccl.so.2";

/// An environment with these lines in the records of two packages.
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
fn files_of_equal_size_are_no_problem() {
    let size = size(&environment("", ""));
    let found = installed(&environment(
        &format!("sha256=x,{size}"),
        &format!("sha256=y,{size}"),
    ));
    assert_eq!(found["problems"], json!([]));
    assert_ne!(found["version"], Value::Null);
}

#[test]
fn neither_of_two_records_with_other_sizes_says_what_a_file_is() {
    let size = size(&environment("", ""));
    let found = installed(&environment(
        &format!("sha256=x,{}", size + 8),
        &format!("sha256=y,{}", size + 16),
    ));
    assert_eq!(found["problems"][0]["problem"], "claimed-twice");
    assert_eq!(found["problems"][0]["holds"], Value::Null);
    assert_eq!(found["version"], Value::Null);
}

#[test]
fn doctor_leaves_the_choice_between_the_packages() {
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
    let remedy = "pip uninstall 'nvidia-nccl-cu13'; pip install --force-reinstall --no-deps 'nvidia-nccl-cu12==2.21.5', or \
                  pip uninstall 'nvidia-nccl-cu12'; pip install --force-reinstall --no-deps 'nvidia-nccl-cu13==2.27.7'";
    assert_eq!(finding["remedy"], remedy);
}
