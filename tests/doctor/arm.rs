//! Machines with an Arm processor, described from public facts: what is said about them and about programs on them.

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{self, elf, link, program};

/// A machine of tests/machines/ with programs that are linked against libraries of either CUDA.
fn with_programs(name: &str) -> Machine {
    let programs = arm_program("of12", &["libcudart.so.12", "libcudnn.so.9"])
        + &arm_program("of13", &["libcudart.so.13", "libcudnn.so.9"])
        + &arm_program("plain", &[]);
    Machine::with(name, &programs)
}

fn arm_program(name: &str, needed: &[&str]) -> String {
    program(name, needed, "machine = 183")
        .replace("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1")
}

/// What explain says of a program, and its exit status.
fn explained(machine: &Machine, words: &[&str]) -> (String, i32) {
    let (output, status, _) = Run::on(machine, &[&["explain"], words].concat())
        .any_stderr()
        .streams();
    (output, status)
}

#[track_caller]
fn says(machine: &Machine, words: &[&str], parts: &[&str]) {
    let (output, _) = explained(machine, words);
    for part in parts {
        assert!(output.contains(part), "{words:?} without {part}:\n{output}");
    }
}

const TORCH: [&str; 3] = ["/opt/venv/bin/python3", "-c", "import torch"];

#[test]
fn drivers_and_gpus_are_named() {
    for (name, driver, gpu) in [
        (
            "gh200",
            "kernel driver 570.148.08, supports CUDA up to 12.8",
            "NVIDIA GH200 480GB (9.0)",
        ),
        (
            "gb200",
            "kernel driver 580.95.05, supports CUDA up to 13.0",
            "4 × NVIDIA GB200",
        ),
        (
            "dgx-spark",
            "kernel driver 580.142, supports CUDA up to 13.0",
            "NVIDIA GB10 (12.1)",
        ),
        // Its kernel names TempVersion.
        (
            "thor",
            "supports CUDA up to 13.0",
            "NVIDIA Jetson AGX Thor Developer Kit (11.0)",
        ),
        (
            "tegra",
            "kernel driver 540.4.0, supports CUDA up to 12.6",
            "NVIDIA Jetson AGX Orin Developer Kit (8.7)",
        ),
        (
            "orin-container",
            "supports CUDA up to 12.6",
            "the GPU of the processor; in a container",
        ),
    ] {
        let (output, status) = Run::on(&Machine::load(name), &["doctor"])
            .any_stderr()
            .output();
        assert_eq!(status, 0, "{name}:\n{output}");
        for part in [driver, gpu] {
            assert!(output.contains(part), "{name} without {part}:\n{output}");
        }
    }
}

/// What doctor says of an Orin with another release of its system, whose kernel names this driver.
fn doctor_of_release(l4t: &str, driver: &str) -> String {
    let machine = Machine::load("tegra");
    let release = format!("# R{l4t}, GCID: 1, BOARD: generic\n");
    std::fs::write(machine.real("/etc/nv_tegra_release"), release).unwrap();
    let line = format!(
        "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  {driver}  Release Build  (x@y)\n"
    );
    std::fs::write(machine.real("/proc/driver/nvidia/version"), line).unwrap();
    Run::on(&machine, &["doctor"]).any_stderr().output().0
}

/// JetPack 5 gives its own release as the driver's number; no driver for CUDA 11 is as old as that.
#[test]
fn a_release_of_jetsons_system_is_no_driver() {
    let jetpack5 = doctor_of_release("35 (release), REVISION: 3.1", "35.3.1");
    assert!(
        jetpack5.contains("kernel driver 470.42.01, supports CUDA up to 11.4"),
        "{jetpack5}"
    );
    let thor = doctor_of_release("38 (release), REVISION: 4.0", "TempVersion");
    assert!(thor.contains("supports CUDA up to 13.0"), "{thor}");
    let unknown = doctor_of_release("99 (release), REVISION: 1.0", "TempVersion");
    assert!(unknown.contains("the driver of a Jetson"), "{unknown}");
}

#[test]
fn programs_get_the_libraries_of_their_machine() {
    let spark = with_programs("dgx-spark");
    says(
        &spark,
        &TORCH,
        &[
            "`torch 2.9.1` is built without CUDA",
            "`cudarun advise torch`",
        ],
    );
    says(
        &spark,
        &["/usr/bin/of13"],
        &[
            "error: no cuDNN here fits `of13`",
            "install cuDNN 9 for CUDA 13",
        ],
    );
    let gb200 = with_programs("gb200");
    let set = [
        "/usr/local/cuda-13.0/targets/sbsa-linux/lib  CUDA runtime 13.0.96",
        "cuDNN 9.13.0.50",
    ];
    says(&gb200, &["/usr/bin/of13"], &set);
    says(
        &gb200,
        &["/usr/bin/of12"],
        &["no CUDA runtime here fits `of12`", "is libcudart.so.13"],
    );
    let grace = with_programs("gh200");
    says(&grace, &["/usr/bin/of12"], &["install cuDNN 9 for CUDA 12"]);
    for name in ["tegra", "orin-container"] {
        let orin = with_programs(name);
        let set = [
            "/usr/local/cuda-12.6/targets/aarch64-linux/lib  CUDA runtime 12.6.68",
            "cuDNN 9.3.0.75",
        ];
        says(&orin, &["/usr/bin/of12"], &set);
        says(
            &orin,
            &["/usr/bin/of13"],
            &["no CUDA runtime here fits `of13`"],
        );
    }
    for machine in [&spark, &gb200, &grace] {
        says(
            machine,
            &["/usr/bin/plain"],
            &["`plain` needs no NVIDIA library"],
        );
        assert_eq!(explained(machine, &["/usr/bin/plain"]).1, 0);
    }
}

/// torch for Jetson links NVPL and cuDSS, and its search path does not have their wheels' directories.
#[test]
fn torch_for_jetson_gets_nvpl_and_cudss_of_wheels() {
    let thor = with_programs("thor");
    let picks = [
        "site-packages/nvpl/lib",
        "NVPL BLAS 0.6.0, NVPL LAPACK 0.4.0.1",
        "site-packages/nvidia/cu13/lib",
        "cuDSS 0.8.0.10",
    ];
    says(&thor, &TORCH, &picks);
    std::fs::remove_dir_all(thor.real("/opt/venv/lib/python3.12/site-packages/nvpl")).unwrap();
    let (output, status) = explained(&thor, &TORCH);
    // The loader would refuse the module as well.
    assert_eq!(status, 1, "{output}");
    assert!(
        output.contains("no NVPL BLAS here fits `torch`"),
        "{output}"
    );
}

/// The number of the driver that stands for Thor's says nothing of a libcuda beside it.
#[test]
fn a_compat_libcuda_of_the_same_cuda_is_not_taken_on_thor() {
    let note = r#"{"format":1,"CUDA version":"13.0","driver":[570,575,580],"device":[1,2]}"#;
    for version in ["580.65.06", "580.82.07"] {
        let compat = elf(
            &format!("/usr/local/cuda-13.0/compat/libcuda.so.{version}"),
            &format!(
                "soname = 'libcuda.so.1', exports = ['cuInit'], machine = 183, forward_compatibility = '{note}'"
            ),
        );
        let more = compat
            + &link(
                "/usr/local/cuda-13.0/compat/libcuda.so.1",
                &format!("libcuda.so.{version}"),
            )
            + &arm_program("of13", &["libcudart.so.13", "libcudnn.so.9"]);
        says(
            &Machine::with("thor", &more),
            &["/usr/bin/of13"],
            &["/usr/lib/aarch64-linux-gnu/nvidia            driver ?"],
        );
    }
}

/// What explain says of a torch without cuDNN, on a machine with this chip.
fn explained_without_cudnn(cudnn: &str, chip: &str) -> String {
    let mut text = String::from("about = 'torch without cuDNN'\n");
    for (path, fields) in [
        (
            "/usr/lib/ld-linux-aarch64.so.1",
            "soname = 'ld-linux-aarch64.so.1'",
        ),
        (
            "/usr/lib/aarch64-linux-gnu/libc.so.6",
            "soname = 'libc.so.6', exports = ['malloc']",
        ),
        (
            "/usr/bin/python3.12",
            "interpreter = '/lib/ld-linux-aarch64.so.1', needed = ['libc.so.6']",
        ),
    ] {
        text += &elf(path, &format!("{fields}, machine = 183"));
    }
    text += &parts::kernel("580.95.05");
    text += &parts::text("/dev/nvmap", "");
    text += &parts::text("/proc/device-tree/compatible", chip);
    text += &link("/lib", "usr/lib");
    text += &link("/opt/venv/bin/python3", "/usr/bin/python3.12");
    text += &parts::text(
        "/opt/venv/pyvenv.cfg",
        "home = /usr/bin\nversion_info = 3.12.3\n",
    );
    let torch = "/opt/venv/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so";
    text += &elf(
        torch,
        &format!("soname = 'libtorch_cuda.so', needed = ['{cudnn}'], machine = 183"),
    );
    explained(&Machine::describe(&text), &TORCH).0
}

/// No wheel of cuDNN 8 is for this processor; those of cuDNN 9 are, but not for a Jetson with JetPack 6.
#[test]
fn hints_name_no_wheel_of_another_processor() {
    let nine = explained_without_cudnn("libcudnn.so.9", "");
    let eight = explained_without_cudnn("libcudnn.so.8", "");
    let orin = explained_without_cudnn("libcudnn.so.9", "nvidia,tegra234");
    let thor = explained_without_cudnn("libcudnn.so.9", "nvidia,tegra264");
    assert!(
        nine.contains("install \"nvidia-cudnn-cu12=="),
        "the control: {nine}"
    );
    assert!(thor.contains("install \"nvidia-cudnn-cu12=="), "{thor}");
    for none in [eight, orin] {
        assert!(!none.contains("nvidia-cudnn-cu"), "{none}");
    }
}
