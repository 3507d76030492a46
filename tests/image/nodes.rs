//! An image as it would run on a node: `--root IMAGE --node NODE`.

use serde_json::Value;

use super::{docker, write};
use crate::fleet::{Nodes, node};
use crate::support::machine::Machine;
use crate::support::parts::{cudnn, elf, library, link, program, text};
use crate::support::{Run, Workshop};

const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";

/// An image with cuDNN and a program that needs it, and these files.
fn image(place: &Workshop, env: &[&str], files: &[String]) -> String {
    let base = [
        elf(
            &format!("{SYSTEM}/libc.so.6"),
            "soname = 'libc.so.6', exports = ['malloc'], versions = ['GLIBC_2.35']",
        ),
        elf(
            "/usr/lib/ld-linux-x86-64.so.2",
            "soname = 'ld-linux-x86-64.so.2'",
        ),
        link("/lib", "usr/lib"),
        link("/lib64", "usr/lib"),
        text("/etc/debian_version", "12.5\n"),
        program("app", &["libcudnn.so.9", "libc.so.6"], ""),
        cudnn(SYSTEM, "9.1.0", ""),
        library(SYSTEM, "libcublas", "12", "12.4.5", ""),
        library(SYSTEM, "libcublasLt", "12", "12.4.5", ""),
    ];
    let machine = Machine::describe(&format!(
        "about = 'an image'\n{}{}",
        base.concat(),
        files.concat()
    ));
    let tar = std::process::Command::new("tar")
        .arg("-C")
        .arg(machine.root())
        .args(["-cf", "-", "."])
        .output()
        .unwrap();
    let mut lines = vec!["PATH=/usr/bin:/bin"];
    lines.extend(env);
    let config = serde_json::json!({ "config": { "Env": lines } }).to_string();
    write(
        &place.path(""),
        &[("image.tar".to_owned(), docker(&[tar.stdout], &config).end())],
    );
    place.path("image.tar").display().to_string()
}

/// A description of the machine that the text makes.
fn saved(text: &str) -> (Nodes, String) {
    let nodes = Nodes::new(&[("node", text.to_owned())]);
    let file = nodes.path("node.json").display().to_string();
    (nodes, file)
}

fn explained(image: &str, node: &str, status: i32) -> Value {
    let (_nodes, node) = saved(node);
    Run::new(["--root", image, "--node", &node, "explain", "--json", "app"])
        .status(status)
        .json()
}

/// The driver in an image on a node.
fn listed(image: &str, node: &str) -> Value {
    let (_nodes, node) = saved(node);
    let all = ["--root", image, "--node", &node, "list", "--json", "driver"];
    serde_json::from_str(&Run::new(all).any_stderr().output().0).unwrap()
}

/// The directories of the drivers that the loader finds in an image.
fn found(listed: &Value) -> Vec<String> {
    let found = listed["installations"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["loader_gives"] == true);
    found
        .map(|one| one["directory"].as_str().unwrap().to_owned())
        .collect()
}

fn drivers(image: &str, version: &str) -> Vec<String> {
    found(&listed(image, &node(version, "", &[])))
}

#[test]
fn the_driver_of_the_node_is_mounted() {
    let place = Workshop::new();
    let image = image(&place, &[], &[]);
    let alone = Run::new(["--root", &image, "explain", "--json", "app"])
        .any_stderr()
        .json();
    assert_eq!(
        alone["driver"],
        Value::Null,
        "the control: the image has no driver"
    );
    let there = explained(&image, &node("550.127.05", "", &[]), 0);
    assert_eq!(
        there["driver"]["version"], "550.127.05",
        "{}",
        there["driver"]
    );
    assert_eq!(there["decision"], "plan", "{there}");
    // The node's own libraries are not in the container.
    let with_cudnn = node("550.127.05", "", &[cudnn("/opt/other", "9.10.2", "")]);
    let other = explained(&image, &with_cudnn, 0);
    assert!(!other.to_string().contains("9.10.2"), "{other}");
}

#[test]
fn conditions_of_the_image_are_tried_on_the_driver_of_the_node() {
    let place = Workshop::new();
    let image = image(&place, &["NVIDIA_REQUIRE_CUDA=cuda>=12.8"], &[]);
    explained(&image, &node("550.127.05", "", &[]), 1);
    let met = explained(&image, &node("570.86.15", "", &[]), 0);
    assert_eq!(met["decision"], "plan");
}

#[test]
fn a_condition_with_many_alternatives_is_one_line_that_says_if_it_is_met() {
    let place = Workshop::new();
    let brands = ["unknown", "grid", "tesla", "nvidia", "quadro"];
    let brands = brands.map(|brand| format!(" brand={brand},driver>=535,driver<536"));
    let line = |cuda: &str, more: &[&str]| {
        let variable = format!("NVIDIA_REQUIRE_CUDA=cuda>={cuda}{}", brands.concat());
        let image = image(&place, &[&[variable.as_str()], more].concat(), &[]);
        let (_nodes, node) = saved(&node("550.127.05", "", &[]));
        let words = ["--root", &image, "--node", &node, "explain", "app"];
        let (page, _) = Run::new(words).env("COLUMNS", "200").any_stderr().output();
        let mut lines = page.lines().filter(|line| line.starts_with("machine"));
        let line = lines.next().unwrap_or_else(|| panic!("{page}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        line("12.2", &[]),
        "machine a driver with CUDA >=12.2: met by driver 550.127.05, with CUDA 12.4 NVIDIA_REQUIRE_CUDA"
    );
    assert_eq!(
        line("13.0", &[]),
        "machine a driver with CUDA >=13.0: not met by driver 550.127.05, with CUDA 12.4 NVIDIA_REQUIRE_CUDA"
    );
    assert_eq!(
        line("13.0", &["NVIDIA_VISIBLE_DEVICES=none"]),
        "machine a driver with CUDA >=13.0: does not count without a GPU NVIDIA_REQUIRE_CUDA"
    );
}

#[test]
fn only_the_capabilities_that_the_image_asks_for_are_mounted() {
    let place = Workshop::new();
    let directories = |capabilities: &str| {
        let variable = format!("NVIDIA_DRIVER_CAPABILITIES={capabilities}");
        drivers(&image(&place, &[&variable], &[]), "550.127.05")
    };
    assert_eq!(directories("utility"), [""; 0]);
    for capabilities in ["compute", "utility,compute", "all", ""] {
        assert_eq!(directories(capabilities), [SYSTEM], "{capabilities}");
    }
}

#[test]
fn only_the_gpus_that_the_image_asks_for_are_mounted() {
    let place = Workshop::new();
    // The numbers are in the order of the buses, and the device nodes may be in another one.
    let gpu = |bus: &str, minor: u8| {
        let lines = format!(
            "Model: H100\nGPU UUID: GPU-{bus}\nBus Location: 0000:{bus}:00.0\nDevice Minor: {minor}\n"
        );
        text(
            &format!("/proc/driver/nvidia/gpus/0000:{bus}:00.0/information"),
            &lines,
        )
    };
    let files = [gpu("0a", 1), gpu("0b", 0), text("/dev/nvidia1", "")];
    let mounted = |variables: &[&str]| {
        let image = image(&place, variables, &[text("/dev/nvidia7", "")]);
        let listed = listed(&image, &node("550.127.05", "", &files));
        (found(&listed), listed["devices"].clone())
    };
    for (asked, devices) in [
        ("all", vec!["/dev/nvidia0", "/dev/nvidia1"]),
        ("0,1", vec!["/dev/nvidia0", "/dev/nvidia1"]),
        ("0", vec!["/dev/nvidia1"]),
        ("1:0", vec!["/dev/nvidia0"]),
        ("GPU-0b", vec!["/dev/nvidia0"]),
        ("MIG-0c", vec!["/dev/nvidia0", "/dev/nvidia1"]),
        ("none", vec![]),
    ] {
        let variable = format!("NVIDIA_VISIBLE_DEVICES={asked}");
        assert_eq!(
            mounted(&[&variable]),
            (vec![SYSTEM.to_owned()], devices.into()),
            "{asked}"
        );
    }
    assert_eq!(
        mounted(&[]).1,
        serde_json::json!(["/dev/nvidia0", "/dev/nvidia1"]),
        "as by `docker run --gpus all`"
    );
    for nothing in ["NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_VISIBLE_DEVICES="] {
        assert_eq!(
            mounted(&[nothing]),
            (Vec::new(), Vec::<&str>::new().into()),
            "{nothing}"
        );
    }
}

#[test]
fn an_image_is_for_the_processor_of_the_node() {
    let place = Workshop::new();
    let run = |config: &str, node: &str| {
        let bytes = docker(
            &[crate::image::Archive::default().file("usr/a", "a").end()],
            config,
        )
        .end();
        write(&place.path(""), &[("image.tar".to_owned(), bytes)]);
        let image = place.path("image.tar").display().to_string();
        Run::new(["--root", &image, "--node", node, "list"])
            .any_stderr()
            .any_stdout()
    };
    let (_x86, x86) = saved(&node("550.127.05", "", &[]));
    let loader = elf(
        "/lib/ld-linux-aarch64.so.1",
        "soname = 'ld-linux-aarch64.so.1', machine = 183",
    );
    let (_grace, grace) = saved(&format!("about = 'a node'\n{loader}"));
    let arm = r#"{"architecture":"arm64","os":"linux"}"#;
    run(arm, &x86)
        .status(2)
        .stderr_contains(&[
            "image.tar` cannot be used: the image is for arm64, and the node is amd64",
        ])
        .check();
    run(&arm.replace("arm", "amd"), &grace)
        .status(2)
        .stderr_contains(&["the image is for amd64, and the node is arm64"])
        .check();
    run(&arm.replace("linux", "windows"), &x86)
        .status(2)
        .stderr_contains(&["it is for windows"])
        .check();
    run(&arm.replace("arm", "amd"), &x86).status(0).check();
    run(arm, &grace).status(1).check();
}

#[test]
fn compat_libraries_of_the_image_come_first_where_they_are_for_the_kernel() {
    let note = r#"{"format":1,"CUDA version":"13.0","driver":[535,550,580],"device":[1]}"#;
    let compat = library(
        "/usr/local/cuda-13.0/compat",
        "libcuda",
        "1",
        "580.65.06",
        &format!("exports = ['cuInit'], forward_compatibility = '{note}'"),
    );
    let files = [compat, link("/usr/local/cuda", "cuda-13.0")];
    let place = Workshop::new();
    let image = image(&place, &[], &files);
    let driver_of = |version: &str| drivers(&image, version);
    assert_eq!(
        driver_of("550.127.05"),
        ["/usr/local/cuda-13.0/compat"],
        "newer, and for the kernel's branch"
    );
    assert_eq!(driver_of("560.35.03"), [SYSTEM], "not for this branch");
    assert_eq!(driver_of("580.159.04"), [SYSTEM], "older than the node's");
}

#[test]
fn of_two_compat_drivers_in_one_directory_none_counts() {
    let directory = "/usr/local/cuda/compat";
    let driver_of = |versions: &[&str]| {
        let files: Vec<String> = versions
            .iter()
            .map(|version| {
                elf(
                    &format!("{directory}/libcuda.so.{version}"),
                    "soname = 'libcuda.so.1', exports = ['cuInit']",
                )
            })
            .chain([link(
                &format!("{directory}/libcuda.so.1"),
                &format!("libcuda.so.{}", versions[0]),
            )])
            .collect();
        let place = Workshop::new();
        let image = image(&place, &[], &files);
        drivers(&image, "550.127.05")
    };
    assert_eq!(driver_of(&["580.65.06"]), [directory], "the control");
    assert_eq!(driver_of(&["580.65.06", "570.86.15"]), [SYSTEM]);
}

#[test]
fn an_image_is_a_container_and_has_its_own_mounts() {
    let place = Workshop::new();
    let switch = "/sys/bus/pci/devices/0000:05:00.0";
    let files = [
        text(&format!("{switch}/vendor"), "0x10de\n"),
        text(&format!("{switch}/class"), "0x068000\n"),
        text("/dev/nvidia1", ""),
        text(
            "/proc/self/mounts",
            "shm /dev/shm tmpfs rw,size=65536k 0 0\n",
        ),
    ];
    let (_nodes, node) = saved(&node("550.127.05", "", &files));
    let codes = |root: &[&str]| {
        let words = [root, &["--node", &node, "doctor", "--json"]].concat();
        let page = Run::new(words).any_stderr().output().0;
        let page: Value = serde_json::from_str(&page).unwrap();
        let findings = page["findings"].as_array().unwrap().iter();
        let of_machine = findings.filter(|finding| finding["section"] != "cache");
        of_machine
            .map(|finding| finding["code"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let image = image(&place, &[], &[]);
    assert_eq!(codes(&["--root", &image]), [""; 0]);
    assert_eq!(
        codes(&[]),
        ["fabric-manager", "shared-memory-small"],
        "the control: the node itself"
    );
}

#[test]
fn a_node_needs_an_image() {
    let (_nodes, node) = saved(&node("550.127.05", "", &[]));
    Run::new(["--root", "/", "--node", &node, "list"])
        .status(2)
        .stderr_contains(&["it must be an image"])
        .check();
    // Without an image, a description answers only what it was asked when it was saved.
    for words in [
        &["list"][..],
        &["explain", "app"],
        &["allow"],
        &["fetch", "--dry-run", "cudnn"],
        &["run", "true"],
        &["diagnose", "--as-is", "true"],
        &["doctor", "true"],
        &["doctor", "--save", "/tmp/no-such.json"],
    ] {
        let starts = ["run", "diagnose"].contains(&words[0]);
        Run::new([&["--node", &node], words].concat())
            .status(if starts { 125 } else { 2 })
            .stderr_contains(&[
                "node.json` has only what `doctor` found on that machine",
                "hint: ssh node cudarun …",
            ])
            .check();
    }
}

#[test]
fn a_fleet_tells_on_which_nodes_an_image_works() {
    let place = Workshop::new();
    let image = image(&place, &["NVIDIA_REQUIRE_CUDA=cuda>=12.8"], &[]);
    let made = Nodes::new(&[
        ("old", node("550.127.05", "", &[])),
        ("new1", node("570.86.15", "", &[])),
        ("new2", node("570.86.15", "", &[])),
    ]);
    let nodes = made.path("").display().to_string();
    let fleet = |options: &[&str]| {
        let all = ["--root", &image, "fleet", "--program", "app"];
        Run::new(all.iter().chain(options).chain(&[nodes.as_str()]))
            .any_stderr()
            .output()
    };
    assert_eq!(fleet(&["--good"]).0, "new[1-2]\n");
    assert_eq!(fleet(&["--bad"]).0, "old\n");
    let (table, status) = fleet(&[]);
    assert!(status == 1 && table.contains("cuDNN 9.1"), "{table}");
    // The control: the nodes themselves have no cuDNN, and no condition.
    let own = Run::new(["fleet", "--program", "app --serve", "--good", &nodes])
        .any_stderr()
        .output()
        .0;
    assert_ne!(own, "new[1-2]\n");
    // A fault of the image is not one of the nodes.
    let broken = Run::new(["--root", "oci:/nowhere", "fleet", "--bad", &nodes]);
    broken
        .status(2)
        .stderr_contains(&["--root `oci:/nowhere` cannot be used"])
        .check();
}

/// Of a node's driver, an image gets only the names of the files.
#[test]
fn the_symbols_of_a_drivers_stand_in_are_unknown() {
    let message = "undefined symbol: cuLibraryGetKernel";
    let node = node("550.127.05", "", &[]);
    let diagnose = ["diagnose", "--json", "--text", message, "app"];
    let certainty = |run: Run| {
        let found = run.any_stderr().json();
        let causes = found["causes"].as_array().unwrap().clone();
        let cause = causes.iter().find(|one| one["cause"] == "driver-too-old");
        cause.unwrap()["certainty"].clone()
    };
    let place = Workshop::new();
    let image = image(&place, &[], &[]);
    let (_nodes, file) = saved(&node);
    let root = ["--root", &image, "--node", &file];
    assert_eq!(
        certainty(Run::new([&root[..], &diagnose].concat())),
        "may-be"
    );
    // The control: the driver's own files.
    let there = Machine::describe(&node.replace("libcudnn.so.9", "libcuda.so.1"));
    assert_eq!(certainty(Run::on(&there, &diagnose)), "is");
}

#[test]
fn a_container_on_wsl_or_a_jetson_gets_its_driver_in_another_way() {
    let place = Workshop::new();
    let image = image(&place, &[], &[]);
    let listed = |more: &[String]| {
        let (_nodes, file) = saved(&node("550.127.05", "", more));
        let run = Run::new(["--root", &image, "--node", &file, "list"]);
        let (_, status, said) = run.streams();
        (status, said)
    };
    for (path, machine) in [("/dev/dxg", "WSL"), ("/etc/nv_tegra_release", "a Jetson")] {
        let (status, said) = listed(&[text(path, "")]);
        let why = format!(
            "node.json` describes {machine}, where a container gets the driver in another way\n\n\
             hint: start a container there, and type in it: cudarun doctor\n"
        );
        assert!(status == 2 && said.ends_with(&why), "{said}");
    }
    // The control: an ordinary node.
    assert_eq!(listed(&[]).0, 0);
}

#[test]
fn a_fault_names_the_option_that_has_it() {
    let place = Workshop::new();
    let image = image(&place, &[], &[]);
    let (nodes, file) = saved(&node("550.127.05", "", &[]));
    let list = || Run::new(["--root", &image, "--node", &file, "list"]).status(2);
    let text = nodes.read("node.json");
    let own = "\"name\":\"nvidia0\"";
    assert!(text.contains(own), "{text}");
    nodes.write(
        "node.json",
        &text.replace(own, "\"name\":\"nvidia0/a (os error 2) b\""),
    );
    let why = "it has a file of the name `nvidia0/a (os error 2) b`";
    list()
        .stderr_contains(&["--node", &format!("node.json` cannot be used: {why}\n")])
        .check();
    // In a fleet, the machine is named once.
    let fleet = Run::new(["--root", &image, "fleet", "--program", "app", &file]).status(2);
    fleet
        .stdout_contains(&[&format!("node.json: {why}\n")])
        .any_stderr()
        .check();
    // The control: a fault of the image.
    nodes.write("node.json", &text);
    std::fs::write(&image, "no image").unwrap();
    list()
        .stderr_contains(&["--root", "image.tar` cannot be used: "])
        .check();
}

#[test]
fn equal_nodes_with_other_programs_are_two_groups() {
    let place = Workshop::new();
    let image = image(&place, &[], &[program("other", &["libc.so.6"], "")]);
    let text = node("550.127.05", "", &[]);
    let made = Nodes::new(&[
        ("n1", text.replace("app --serve", "app")),
        ("n2", text.replace("app --serve", "other")),
        ("n3", text.replace("app --serve", "other")),
    ]);
    let nodes = made.path("").display().to_string();
    let fleet = Run::new(["--root", &image, "fleet", "--json", &nodes]);
    let (json, _, _) = fleet.streams();
    let json: Value = serde_json::from_str(&json).unwrap();
    let groups = json["groups"].as_array().unwrap().iter();
    let hosts: Vec<_> = groups.map(|group| group["hosts"].clone()).collect();
    assert_eq!(hosts, ["n[2-3]", "n1"]);
}

#[test]
fn a_gpu_that_the_driver_excludes_is_excluded_in_a_container() {
    let place = Workshop::new();
    let image = image(&place, &[], &[]);
    let visible = |excluded: &str| {
        let lines = format!(
            "Model: H100\nBus Location: 0000:0a:00.0\nDevice Minor: 0\nGPU Excluded:\t {excluded}\n"
        );
        let path = "/proc/driver/nvidia/gpus/0000:0a:00.0/information";
        let (_nodes, file) = saved(&node("550.127.05", "", &[text(path, &lines)]));
        let words = ["--root", &image, "--node", &file, "list", "--json"];
        let listed: Value = serde_json::from_str(&Run::new(words).any_stderr().output().0).unwrap();
        listed["gpus"][0]["visible"].clone()
    };
    assert_eq!(visible("Yes"), "no");
    assert_eq!(visible("No"), "yes", "the control");
}
