//! More machines for the first 83 posted messages, and the count over all of them.

use serde::Deserialize;

use super::answers::{app, check, diagnose, posted, venv, with};
use crate::support::parts::{
    SITE, SYSTEM, cudnn, driver, elf, kernel, library, machine, program, python, text,
};

const DRIVER: &str = "550.127.05";

fn gpus(more: &[String], env: &[(&str, &str)]) -> super::answers::Place {
    let mut files = vec![kernel(DRIVER), driver(SYSTEM, DRIVER)];
    files.extend(["/dev/nvidia1", "/dev/nvidia-uvm"].map(|node| text(node, "")));
    files.extend(more.iter().cloned());
    app(&files, &[], env)
}

#[test]
fn nvswitches_and_shared_memory() {
    let device = "/sys/bus/pci/devices/0000:05:00.0";
    let bridge = text(&format!("{device}/vendor"), "0x10de\n")
        + &text(&format!("{device}/class"), "0x068000\n");
    check(&["fabric-802"], &gpus(&[bridge], &[]), &gpus(&[], &[]));
    let mounted = |size: &str| {
        let lines = format!("shm /dev/shm tmpfs rw,nosuid,{size} 0 0\n");
        gpus(&[text("/proc/self/mounts", &lines)], &[])
    };
    check(
        &["nccl-shm-space"],
        &mounted("size=65536k"),
        &mounted("size=8388608k"),
    );
}

#[test]
fn a_container_of_wsl() {
    let store = "/usr/lib/wsl/drivers/nv_dispi.inf_amd64_0a1b";
    let wsl = |more: &[String]| {
        let files = [
            text("/dev/dxg", ""),
            driver("/usr/lib/wsl/lib", "555.85"),
            text("/etc/ld.so.conf", "/usr/lib/wsl/lib\n"),
            text(&format!("{store}/libcuda.so.1.1"), "x"),
        ];
        app(
            &[&files[..], more].concat(),
            &[],
            &[("container", "docker")],
        )
    };
    check(
        &["wsl-named-symbol"],
        &wsl(&[]),
        &wsl(&[text(&format!("{store}/libnvdxgdmal.so.1"), "x")]),
    );
}

#[test]
fn an_image_for_a_newer_driver() {
    let require = ("NVIDIA_REQUIRE_CUDA", "cuda>=12.8");
    let place = |version: &str| {
        let files = [
            kernel(version),
            driver(SYSTEM, version),
            text("/dev/nvidia-uvm", ""),
            text("/.dockerenv", ""),
        ];
        let cudart = library(SYSTEM, "libcudart", "12", "12.8.90", "");
        app(
            &[&files[..], &[cudart]].concat(),
            &["libcudart.so.12"],
            &[require],
        )
    };
    check(
        &["container-requires"],
        &place("550.54.14"),
        &place("580.65.06"),
    );
}

#[test]
fn a_cudnn_for_another_cuda() {
    let place = |number: &str, version: &str| {
        let files = [
            cudnn(SYSTEM, "9.19.0", ""),
            library(SYSTEM, "libcublas", number, version, ""),
            library(SYSTEM, "libcublasLt", number, version, ""),
        ];
        app(&files, &["libcudnn.so.9"], &[])
    };
    check(
        &["jax-cublaslt12"],
        &place("11", "11.11.3"),
        &place("12", "12.4.5"),
    );
}

#[test]
fn code_that_is_newer_than_the_driver() {
    let place = |version: &str| {
        let files = [
            kernel("550.54.14"),
            driver(SYSTEM, "550.54.14"),
            text("/dev/nvidia-uvm", ""),
            library(SYSTEM, "libnvrtc", "12", version, ""),
        ];
        app(&files, &["libnvrtc.so.12"], &[])
    };
    check(
        &["ptx-toolchain-222"],
        &place("12.8.93"),
        &place("12.4.127"),
    );
}

#[test]
fn engines_and_builds_for_other_gpus() {
    let gpu = |device: &str, more: &[String]| {
        let information =
            "Model: \t\t NVIDIA GPU\nBus Location: \t 0000:01:00.0\nDevice Minor: \t 0\n";
        let mut files = vec![
            kernel(DRIVER),
            driver(SYSTEM, DRIVER),
            text(
                "/proc/driver/nvidia/gpus/0000:01:00.0/information",
                information,
            ),
            text("/sys/bus/pci/devices/0000:01:00.0/device", device),
            text("/dev/nvidia-uvm", ""),
        ];
        files.extend(more.iter().cloned());
        files
    };
    // A GTX 1080 has 6.1, an RTX 4090 has 8.9.
    let (pascal, ada) = ("0x1b80\n", "0x2684\n");
    check(
        &["trt-plan-device"],
        &app(&gpu(ada, &[]), &[], &[]),
        &app(&gpu(pascal, &[]), &[], &[]),
    );
    let config = "#define NVCC_FLAGS_EXTRA \"-gencode;arch=compute_75,code=sm_75;-gencode;arch=compute_89,code=sm_89\"\n";
    let torch = [
        text(&format!("{SITE}/torch/__init__.py"), ""),
        text(
            &format!("{SITE}/torch/version.py"),
            "__version__ = '2.5.1+cu124'\ncuda = '12.4'\n",
        ),
        text(
            &format!("{SITE}/torch/include/ATen/cuda/CUDAConfig.h"),
            config,
        ),
        elf(
            &format!("{SITE}/torch/lib/libtorch_cuda.so"),
            "needed = ['libcudart.so.12']",
        ),
    ];
    let place = |device: &str| {
        let machine = python(&gpu(device, &torch));
        with(machine, &["python3", "-c", "import torch"], &[])
    };
    check(&["no-kernel-209", "faiss-209"], &place(pascal), &place(ada));
    // A program of no framework: its own code.
    let place = |code: &str| {
        let loader = elf(
            "/lib64/ld-linux-x86-64.so.2",
            "soname = 'ld-linux-x86-64.so.2'",
        );
        let own = [
            loader,
            program("own", &["libc.so.6"], &format!("code = ['{code}']")),
        ];
        with(machine(&gpu(ada, &own)), &["own"], &[])
    };
    check(&["no-kernel-209"], &place("sm_100"), &place("sm_86"));
}

#[test]
fn two_packages_with_one_file() {
    let file = "nvidia/nccl/lib/libnccl.so.2";
    let record = |package: &str, size: u64| {
        text(
            &format!("{SITE}/{package}.dist-info/RECORD"),
            &format!("{file},sha256={package},{size}\n"),
        )
    };
    let nccl = elf(
        &format!("{SITE}/{file}"),
        "soname = 'libnccl.so.2', exports = ['ncclInit']",
    );
    let old = record("nvidia_nccl_cu11-2.14.3", 10);
    let new = record("nvidia_nccl_cu12-2.21.5", 20);
    let place = |records: &[String]| venv(&[std::slice::from_ref(&nccl), records].concat(), &[]);
    check(
        &["nccl-memfree-two"],
        &place(&[old, new.clone()]),
        &place(&[new]),
    );
}

#[test]
fn extensions_of_another_torch() {
    let error = "_ZN3c105ErrorC1Ev";
    let place = |exports: &str| {
        let library = |name: &str, fields: &str| {
            elf(
                &format!("{SITE}/torch/lib/{name}"),
                &format!("soname = '{name}', {fields}"),
            )
        };
        let imports = format!("needed = ['libc10.so'], imports = {{ '' = ['{error}'] }}");
        let files = [
            library(
                "libc10.so",
                &format!("exports = [{exports}], unversioned = true"),
            ),
            library("libtorch_cuda.so", "needed = ['libcudart.so.12']"),
            library("libtorch_python.so", "needed = []"),
            text(&format!("{SITE}/torch/__init__.py"), ""),
            text(
                &format!("{SITE}/torch-2.6.0+cu124.dist-info/METADATA"),
                "Name: torch\nVersion: 2.6.0+cu124\n",
            ),
            text(&format!("{SITE}/vllm/__init__.py"), "import torch\n"),
            text(
                &format!("{SITE}/vllm-1.0.dist-info/METADATA"),
                "Name: vllm\nVersion: 1.0\nRequires-Dist: torch==2.7.0\n",
            ),
            text(
                &format!("{SITE}/vllm-1.0.dist-info/RECORD"),
                "vllm/_C.abi3.so,sha256=x,\n",
            ),
            elf(&format!("{SITE}/vllm/_C.abi3.so"), &imports),
        ];
        with(python(&files), &["python3", "-c", "import vllm"], &[])
    };
    let ids = ["vllm-abi3-symbol", "torchaudio-cuda-cpp"];
    let unfit = place("'other'");
    check(&ids, &unfit, &place(&format!("'{error}'")));
    // A message about the C library names the file that needs a newer one.
    let certainty = |file: &str| {
        let message = format!("libc.so.6: version `GLIBC_2.38' not found{file}");
        diagnose(&unfit, &message)["causes"][0]["certainty"].clone()
    };
    let required_by = |package: &str| format!(" (required by {SITE}/{package}/_C.abi3.so)");
    assert_eq!(certainty(&required_by("vllm")), "is", "the control");
    assert_eq!(certainty(&required_by("other")), "may-be");
    assert_eq!(certainty(""), "may-be");
}

#[test]
fn a_part_of_cudnn_that_is_missing() {
    let whole = cudnn("/opt/new/lib", "9.19.0", "");
    let shim = elf("/opt/new/lib/libcudnn.so.9", "soname = 'libcudnn.so.9'");
    let place = |files: &str| {
        app(
            &[files.to_owned()],
            &["libcudnn.so.9"],
            &[("LD_LIBRARY_PATH", "/opt/new/lib")],
        )
    };
    check(&["cudnn9-ops-not-installed"], &place(&shim), &place(&whole));
}

#[test]
fn a_version_of_ptx_that_the_driver_does_not_know() {
    let place = |driver_version: &str| {
        let files = [
            kernel(driver_version),
            driver(SYSTEM, driver_version),
            text("/dev/nvidia-uvm", ""),
        ];
        app(&files, &[], &[])
    };
    check(
        &["numba-ptx-version"],
        &place("550.54.14"),
        &place("570.86.10"),
    );
}

#[test]
fn libraries_of_tensorflow_off_the_path() {
    let at = |name: &str| format!("{SITE}/tensorflow/{name}");
    let place = |directory: &str| {
        let files = [
            text(&at("__init__.py"), ""),
            text(
                &at("python/platform/build_info.py"),
                "[('cuda_version', '12.5'), ('cudnn_version', '9'), ('is_cuda_build', True)]\n",
            ),
            elf(
                &at("libtensorflow_framework.so.2"),
                "soname = 'libtensorflow_framework.so.2'",
            ),
            cudnn(directory, "9.3.0", ""),
            kernel(DRIVER),
            driver(SYSTEM, DRIVER),
            text("/dev/nvidia-uvm", ""),
        ];
        with(python(&files), &["python3", "-c", "import tensorflow"], &[])
    };
    check(
        &["tf-cannot-dlopen"],
        &place("/usr/local/cuda/lib64"),
        &place(SYSTEM),
    );
}

/// No question about a machine made of text is answered yes for these: each cause is first, and only possible.
const NOT_TOLD: [(&str, &str); 3] = [
    ("busy-46", "other users of the GPU"),
    ("jax-not-initialized", "the memory that was free"),
    ("opencv-no-cuda", "OpenCV records no build"),
];

#[test]
fn causes_that_nothing_here_tells() {
    let place = gpus(&[cudnn(SYSTEM, "9.19.0", "")], &[]);
    for (id, why) in NOT_TOLD {
        let posted = posted(id);
        let found = diagnose(&place, &posted.text);
        let first = &found["causes"][0];
        assert_eq!(
            (&first["cause"], &first["certainty"]),
            (&posted.cause.into(), &"may-be".into()),
            "{id}, {why}: {found:#}"
        );
    }
}

/// The first message that no machine here has the cause of, beside those of `NOT_TOLD`: a container made of text has no nodes
/// that the kernel refuses to open.
const WITHOUT_MACHINE: [&str; 1] = ["container-lost-gpu"];

/// The other 79 of the first 83 messages (95 %) are named by a test with such a machine.
#[test]
fn the_first_messages_without_a_machine_are_listed() {
    #[derive(Deserialize)]
    struct Messages {
        message: Vec<Id>,
    }
    #[derive(Deserialize)]
    struct Id {
        id: String,
    }
    let Messages { message } = toml::from_str(include_str!("messages.toml")).unwrap();
    let own = include_str!("first_messages.rs")
        .split("const NOT_TOLD")
        .next()
        .unwrap();
    let sources = [include_str!("answers.rs"), own].concat();
    let has_machine = |message: &&Id| sources.contains(&format!("\"{}\"", message.id));
    let first = &message[..83];
    let mut missing: Vec<&str> = first
        .iter()
        .filter(|message| !has_machine(message))
        .map(|message| message.id.as_str())
        .collect();
    let mut listed: Vec<&str> = NOT_TOLD
        .iter()
        .map(|(id, _)| *id)
        .chain(WITHOUT_MACHINE)
        .collect();
    listed.sort_unstable();
    missing.sort_unstable();
    assert_eq!(missing, listed);
}
