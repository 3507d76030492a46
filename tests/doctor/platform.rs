//! Findings about the surroundings of a GPU, each with its control.

use std::fs;

use serde_json::Value;

use super::same_when_saved;
use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{driver, kernel, link, machine, text};

const DRIVER: &str = "550.127.05";

/// A machine with two GPUs and their driver, and more files.
fn gpus(more: &[String]) -> Machine {
    let mut files = vec![kernel(DRIVER), driver("/usr/lib/x86_64-linux-gnu", DRIVER)];
    files.extend(["/dev/nvidia1", "/dev/nvidia-uvm"].map(|node| text(node, "")));
    files.extend(more.iter().cloned());
    machine(&files)
}

fn findings(machine: &Machine, variables: &[(&str, &str)]) -> Vec<Value> {
    let mut run = Run::on(machine, &["doctor", "--json"]).any_stderr();
    for (name, value) in variables {
        run = run.env(name, value);
    }
    let (output, _) = run.output();
    let report: Value = serde_json::from_str(&output).unwrap();
    same_when_saved(machine, variables, &report);
    let all = report["findings"].as_array().unwrap().iter();
    all.filter(|finding| finding["section"] != "cache")
        .cloned()
        .collect()
}

fn codes(machine: &Machine, variables: &[(&str, &str)]) -> Vec<String> {
    let found = findings(machine, variables);
    found
        .iter()
        .map(|finding| finding["code"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_fabric_manager_has_the_version_of_the_driver() {
    let switch = |class: &str| {
        let device = "/sys/bus/pci/devices/0000:05:00.0";
        text(&format!("{device}/vendor"), "0x10de\n") + &text(&format!("{device}/class"), class)
    };
    let manager = |version: &str| {
        let paragraph = |name: &str, version: &str| {
            format!(
                "Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n"
            )
        };
        let status = paragraph("nvidia-fabricmanager-dev-535", "535.1.1-1")
            + &paragraph("nvidia-fabricmanager-550", version);
        text("/usr/bin/nv-fabricmanager", "") + &text("/var/lib/dpkg/status", &status)
    };
    let bridge = || switch("0x068000\n");
    let other = gpus(&[bridge(), manager("550.120-1")]);
    let found = findings(&other, &[]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        (&found[0]["code"], &found[0]["severity"]),
        (&"fabric-manager".into(), &"error".into())
    );
    let what = "the fabric manager is version 550.120, but the kernel runs driver 550.127.05: CUDA fails with error 802";
    assert_eq!(found[0]["what"], what);
    assert_eq!(
        codes(&other, &[("container", "podman")]),
        [""; 0],
        "a container does not show it"
    );
    assert_eq!(
        codes(&gpus(&[bridge(), manager("550.127.05-0ubuntu1")]), &[]),
        [""; 0],
        "the control"
    );
    assert_eq!(codes(&gpus(&[bridge()]), &[]), ["fabric-manager"]);
    assert_eq!(
        codes(&gpus(&[switch("0x060400\n"), manager("550.120-1")]), &[]),
        [""; 0],
        "no NVSwitch"
    );
}

#[test]
fn a_suspend_matters_if_the_driver_does_not_keep_its_memory() {
    let suspended = |count: &str, keeps: u8| {
        gpus(&[
            text("/sys/power/suspend_stats/success", count),
            text(
                "/proc/driver/nvidia/params",
                &format!("ModifyDeviceFiles: 1\nPreserveVideoMemoryAllocations: {keeps}\n"),
            ),
        ])
    };
    assert_eq!(codes(&suspended("2\n", 0), &[]), ["suspended"]);
    assert_eq!(codes(&suspended("0\n", 0), &[]), [""; 0]);
    assert_eq!(codes(&suspended("2\n", 1), &[]), [""; 0]);
}

#[test]
fn several_gpus_need_shared_memory() {
    let mounted = |options: &str| {
        let lines = format!("proc /proc proc rw 0 0\nshm /dev/shm tmpfs rw,nosuid,{options} 0 0\n");
        gpus(&[text("/proc/self/mounts", &lines)])
    };
    let small = mounted("size=65536k,inode64");
    assert_eq!(codes(&small, &[]), ["shared-memory-small"]);
    assert_eq!(
        findings(&small, &[])[0]["what"],
        "/dev/shm holds only 64.0 MiB, too little for several GPUs"
    );
    assert_eq!(codes(&mounted("size=1048576k"), &[]), [""; 0]);
    assert_eq!(
        codes(&mounted("inode64"), &[]),
        [""; 0],
        "half of the memory"
    );
    fs::remove_file(small.real("/dev/nvidia1")).unwrap();
    assert_eq!(codes(&small, &[]), [""; 0], "one GPU needs none");
}

#[test]
fn a_container_in_wsl_needs_all_files_of_its_driver() {
    let store = "/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0a1b";
    let wsl = |more: String| {
        let library = driver("/usr/lib/wsl/lib", "555.85");
        let path = text("/etc/ld.so.conf", "/usr/lib/wsl/lib\n");
        machine(&[
            text("/dev/dxg", ""),
            library,
            path,
            text(&format!("{store}/libcuda.so.1.1"), "x"),
            more,
        ])
    };
    let has = |machine: &Machine, variables: &[(&str, &str)]| {
        codes(machine, variables)
            .iter()
            .any(|code| code == "wsl-memory-missing")
    };
    let container = [("container", "docker")];
    assert!(has(&wsl(String::new()), &container));
    assert!(
        !has(&wsl(String::new()), &[]),
        "outside of a container, Windows provides the file where it is needed"
    );
    assert!(!has(
        &wsl(text(&format!("{store}/libnvdxgdmal.so.1"), "x")),
        &container
    ));
}

#[test]
fn empty_files_of_the_driver_are_an_error() {
    let left = |name: &str, content: &str| {
        gpus(&[text(&format!("/usr/lib/x86_64-linux-gnu/{name}"), content)])
    };
    let found = findings(&left("libcuda.so.535.54.03", ""), &[]);
    let found = found
        .iter()
        .find(|finding| finding["code"] == "driver-file-empty")
        .unwrap();
    assert_eq!(
        found["evidence"][0]["at"],
        "/usr/lib/x86_64-linux-gnu/libcuda.so.535.54.03"
    );
    for (name, content) in [("libcuda.so.535.54.03", "a text"), ("libcufft.so.11", "")] {
        assert!(
            !codes(&left(name, content), &[]).contains(&"driver-file-empty".to_owned()),
            "{name}"
        );
    }
}

#[test]
fn a_variable_names_one_toolkit() {
    let machine = gpus(&[
        text("/opt/cuda/bin/ptxas", ""),
        link("/usr/local/cuda", "/opt/cuda"),
    ]);
    let code = |value: &str| codes(&machine, &[("CUDA_HOME", value)]);
    assert_eq!(code("/usr/local/cuda"), [""; 0]);
    assert_eq!(code(""), [""; 0]);
    for value in [
        "/usr/local/cuda:/opt/cuda",
        ":/usr/local/cuda",
        "/usr/local/cuda-11.0",
        "opt/cuda",
        "/opt/cuda/bin/ptxas",
    ] {
        assert_eq!(code(value), ["toolkit-variable"], "{value}");
    }
    let found = findings(&machine, &[("CUDA_PATH", "/opt/cuda:")]);
    assert_eq!(
        found[0]["what"],
        "CUDA_PATH is not the absolute path of one directory"
    );
}
