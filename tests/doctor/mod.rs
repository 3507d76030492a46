//! Findings of `doctor`, the descriptions that it saves, and their differences.

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;

mod arm;
mod ci;
mod findings;
mod platform;
mod save;

/// A machine with an H200, a driver, a cuDNN and a toolkit, on which all is well.
const HEALTHY: &str = r#"
about = "A machine on which all is well"

[env]
HOME = "/home/user"
PATH = "/usr/bin:/bin"

[[file]]
path = "/lib"
link = "usr/lib"

[[file]]
path = "/lib64/ld-linux-x86-64.so.2"
elf = { soname = "ld-linux-x86-64.so.2", constants = ["stable release version 2.39."] }

[[file]]
path = "/usr/lib/x86_64-linux-gnu/libc.so.6"
elf = { soname = "libc.so.6", exports = ["malloc"], versions = ["GLIBC_2.39"] }

[[file]]
path = "/sys/module/nvidia/version"
text = "580.159.04\n"

[[file]]
path = "/proc/driver/nvidia/gpus/0000:00:06.0/information"
text = "Model: \t\t NVIDIA H200\nBus Location: \t 0000:00:06.0\nDevice Minor: \t 0\n"

[[file]]
path = "/sys/bus/pci/devices/0000:00:06.0/{name}"
each = ["vendor"]
text = "0x10de\n"

[[file]]
path = "/sys/bus/pci/devices/0000:00:06.0/class"
text = "0x030200\n"

[[file]]
path = "/sys/bus/pci/devices/0000:00:06.0/device"
text = "0x2335\n"

[[file]]
path = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04"
elf = { soname = "libcuda.so.1", exports = ["cuInit"] }

[[file]]
path = "/usr/lib/x86_64-linux-gnu/libcuda.so.1"
link = "libcuda.so.580.159.04"

[[file]]
path = "/dev/nvidia-uvm"
text = ""

[[file]]
path = "/opt/a/libcudart.so.12"
elf = { soname = "libcudart.so.12", functions = { cudaRuntimeGetVersion = 12040 } }

[[file]]
path = "/opt/b/libnccl.so.2"
elf = { soname = "libnccl.so.2", constants = ["NCCL version 2.21.5+cuda12.4"] }

[[file]]
path = "/opt/c/libnccl.so.2"
elf = { soname = "libnccl.so.2", constants = ["NCCL version 2.18.5+cuda12.2"] }

[[file]]
path = "/opt/stubs/stubs/libcuda.so"
elf = { soname = "libcuda.so.1", exports = ["cuInit"] }

[[file]]
path = "/opt/old/libcuda.so.1"
elf = { soname = "libcuda.so.1", constants = ["libnvidia-pkcs11-openssl3.so.535.54.03"] }

[[file]]
path = "/home/user/work/x"
text = ""
"#;

/// Saves what `doctor` finds on the machine, and compares what it printed there with what it prints of the description: the page
/// and the JSON. Of very many findings some are only counted.
#[track_caller]
fn same_when_saved(machine: &Machine, variables: &[(&str, &str)], doctor: &Value) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("saved.json");
    let file = file.to_str().unwrap();
    let mut run = Run::on(machine, &["-q", "doctor", "--save", file])
        .env("COLUMNS", "500")
        .any_stdout()
        .any_stderr()
        .in_directory("/");
    for (name, value) in variables {
        run = run.env(name, value);
    }
    let (page, status) = run.output();
    let described = |words: &[&str]| {
        Run::new([&["-q", "--node", file, "doctor"], words].concat())
            .env("COLUMNS", "500")
            .output()
    };
    let (again, same) = described(&["--json"]);
    let again: Value = serde_json::from_str(&again).unwrap_or_else(|why| panic!("{why}: {page}"));
    assert_eq!(status, same, "{page}");
    let count = |page: &Value| -> u64 {
        let findings = page["findings"].as_array().unwrap().iter();
        findings
            .map(|one| 1 + one["more"].as_u64().unwrap_or(0))
            .sum()
    };
    assert_eq!(count(doctor), count(&again));
    if again.to_string().contains("\"more") {
        return;
    }
    assert_eq!(*doctor, again);
    let (again, _) = described(&[]);
    let there = [("ssh saved cudarun", "cudarun"), ("on saved: ", "")];
    let again = there
        .iter()
        .fold(again, |page, (own, usual)| page.replace(own, usual));
    assert_eq!(page, again);
}
