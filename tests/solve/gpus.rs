//! Libraries have code for GPUs, drivers compile up to a version, machines have several GPUs: what the decision makes of
//! it, on machines that are made for one question each.

use std::fs;

use cudarun::inventory::Visible;
use cudarun::solve::{Caution, Reason};

use crate::support::Run;
use crate::support::decided::{Decided, decided, decided_with};
use crate::support::machine::Machine;
use crate::support::parts::{
    SITE, cudnn, driver, elf, kernel, library, machine, program, python, text,
};

/// PCI ids: GeForce GTX 1080, H200, GeForce RTX 5090.
const PASCAL: &str = "0x1b80";
const HOPPER: &str = "0x2335";
const BLACKWELL: &str = "0x2b85";
/// Machine code for Turing and newer ones up to Hopper.
const NEWER: &str = "code = ['sm_75', 'sm_80', 'sm_90']";

fn gpu(minor: u32, device: &str) -> String {
    let bus = format!("0000:0{minor}:00.0");
    let information = format!(
        "Model: \t\t GPU {minor}\nGPU UUID: \t GPU-{minor}{minor}-aa\nBus Location: \t {bus}\nDevice Minor: \t {minor}\n"
    );
    text(
        &format!("/proc/driver/nvidia/gpus/{bus}/information"),
        &information,
    ) + &text(&format!("/sys/bus/pci/devices/{bus}/device"), device)
        + &text(&format!("/dev/nvidia{minor}"), "")
}

pub fn host(version: &str, gpus: &[&str]) -> String {
    let gpus: String = (0..)
        .zip(gpus)
        .map(|(minor, device)| gpu(minor, device))
        .collect();
    // The first device node comes with the kernel.
    let gpus = gpus.replacen(&text("/dev/nvidia0", ""), "", 1);
    kernel(version) + &gpus + &driver("/usr/lib/x86_64-linux-gnu", version)
}

/// One library that a program is linked against, in a directory of LD_LIBRARY_PATH.
fn nvjpeg(directory: &str, version: &str, code: &str) -> String {
    library(directory, "libnvjpeg", "12", version, code)
}

fn app() -> String {
    program("app", &["libnvjpeg.so.12", "libc.so.6"], "")
}

fn explain(machine: &Machine, library_path: &str) -> Decided {
    decided(machine, library_path, &["app"])
}

#[test]
fn an_installation_without_code_for_the_gpu_is_not_picked() {
    let files = |device: &str| {
        machine(&[
            host("580.159.04", &[device]),
            nvjpeg("/opt/new", "12.4.1.87", NEWER),
            nvjpeg(
                "/opt/old",
                "12.2.5.30",
                "code = ['sm_60', 'sm_61', 'sm_75', 'sm_90']",
            ),
            app(),
        ])
    };
    let path = "/opt/new:/opt/old";
    let control = explain(&files(HOPPER), path);
    assert_eq!(control.picked("nvjpeg"), "/opt/new", "the newer");
    let explained = explain(&files(PASCAL), path);
    assert_eq!(explained.picked("nvjpeg"), "/opt/old");
    assert_eq!(
        explained.why_not("nvjpeg", "/opt/new"),
        "has no code for compute capability 6.1, only for 7.5 to 9.0"
    );
}

#[test]
fn a_start_is_refused_if_no_installation_has_code_for_the_gpu() {
    let machine = machine(&[
        host("580.159.04", &[PASCAL]),
        nvjpeg("/opt/new", "12.4.1.87", NEWER),
        app(),
    ]);
    let conflict = explain(&machine, "/opt/new");
    let reason = conflict.reason("nvjpeg", "/opt/new");
    assert!(matches!(reason, Reason::NoCode { .. }), "{conflict:#?}");
    let hidden = [
        ("CUDA_VISIBLE_DEVICES", ""),
        ("LD_LIBRARY_PATH", "/opt/new"),
    ];
    let hidden = decided_with(&machine, &hidden, &["app"]);
    assert_eq!(hidden.decision, "plan", "the control: no GPU is meant");
}

/// Measured on wheels: the main library of NPP has code only for the GPU that the compiler takes for granted, CUPTI and
/// NVSHMEM leave out GPUs on which PyTorch works, and of cuSPARSELt 0.6 there is PTX alone for those before 8.0.
#[test]
fn a_library_that_is_useful_without_gpu_code_is_picked() {
    let embedded = "functions = { cusparseLtGetCudartVersion = 12040 }";
    let all = [
        (
            "npp",
            library("/opt/lib", "libnppc", "12", "12.2.5.30", "code = ['sm_52']"),
        ),
        (
            "cupti",
            library(
                "/opt/lib",
                "libcupti",
                "12",
                "2024.1.1",
                "code = ['sm_75', 'sm_90']",
            ),
        ),
        (
            "cufile",
            library(
                "/opt/lib",
                "libcufile",
                "0",
                "1.11.1",
                "code = ['sm_75', 'compute_80']",
            ),
        ),
        (
            "nvshmem",
            library(
                "/opt/lib",
                "libnvshmem_host",
                "3",
                "3.3.20",
                "code = ['sm_70', 'sm_90']",
            ),
        ),
        (
            "cusparselt",
            library(
                "/opt/lib",
                "libcusparseLt",
                "0",
                "0.6.2",
                &format!("code = ['sm_80', 'compute_52'], {embedded}"),
            ),
        ),
    ];
    let needed = [
        "libnppc.so.12",
        "libcupti.so.12",
        "libcufile.so.0",
        "libnvshmem_host.so.3",
        "libcusparseLt.so.0",
    ];
    let mut files = vec![host("535.161.08", &[PASCAL]), program("app", &needed, "")];
    files.extend(all.iter().map(|(_, library)| library.clone()));
    let explained = explain(&machine(&files), "/opt/lib");
    for (family, _) in &all {
        assert_eq!(explained.picked(family), "/opt/lib");
    }
    // Only libraries that are made for some GPUs get a caution.
    let of = |caution: &Caution| match caution {
        Caution::NoCode { of, .. }
        | Caution::OnlyPtx { of, .. }
        | Caution::OnlyPtxAndOlderDriver { of, .. } => of.split(' ').next().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    let said: Vec<String> = explained.cautions.iter().map(of).collect();
    assert_eq!(said, ["nvshmem", "cusparselt"], "{explained:#?}");
}

/// TensorRT comes in parts of which none must be there, and a family without them has nothing to be judged by.
#[test]
fn code_in_files_that_need_not_be_there_refuses_nothing() {
    let tensorrt = library("/opt/lib", "libnvinfer", "10", "10.7.0", "code = ['sm_90']");
    let app = program("app", &["libnvinfer.so.10", "libc.so.6"], "");
    let machine = machine(&[host("580.159.04", &[HOPPER]), tensorrt, app]);
    assert_eq!(explain(&machine, "/opt/lib").picked("tensorrt"), "/opt/lib");
}

/// From 9.11 on one of cuDNN's libraries still has code for Pascal, and the others have not.
#[test]
fn every_file_that_must_come_with_it_has_code() {
    let ops = "soname = 'libcudnn_ops.so.9', runpath = '$ORIGIN'";
    let engines = "soname = 'libcudnn_engines_precompiled.so.9', runpath = '$ORIGIN'";
    let with_code = |directory: &str, version: &str, of_ops: &str| {
        cudnn(directory, version, "runpath = '$ORIGIN'")
            .replace(ops, &format!("{ops}, {of_ops}"))
            .replace(
                engines,
                &format!("{engines}, code = ['sm_61', 'sm_75', 'sm_90']"),
            )
    };
    let app = program("app", &["libcudnn.so.9", "libc.so.6"], "");
    let machine = machine(&[
        host("580.159.04", &[PASCAL]),
        with_code("/opt/new", "9.11.0.98", "code = ['sm_75', 'sm_90']"),
        with_code(
            "/opt/old",
            "9.10.2.21",
            "code = ['sm_61', 'sm_75', 'sm_90']",
        ),
        app,
    ]);
    let explained = explain(&machine, "/opt/new:/opt/old");
    assert_eq!(explained.picked("cudnn"), "/opt/old");
    // The control: none is found at all.
    let conflict = explain(&machine, "");
    assert_eq!(conflict.unmet(), "cudnn");
    assert!(!format!("{conflict:?}").contains("NoCode"), "{conflict:#?}");
}

/// cuDNN says for which CUDA it was built, to the minor; 12.4 in these.
#[test]
fn ptx_is_of_use_where_the_driver_can_compile_it() {
    let ops = "soname = 'libcudnn_ops.so.9', runpath = '$ORIGIN'";
    let installation = cudnn("/opt/cudnn", "9.1.0.70", "runpath = '$ORIGIN'")
        .replace(ops, &format!("{ops}, code = ['sm_90', 'compute_90']"));
    let of = |driver: &str, device: &str| {
        let app = program("app", &["libcudnn.so.9", "libc.so.6"], "");
        machine(&[host(driver, &[device]), installation.clone(), app])
    };
    let path = "/opt/cudnn";
    let older = explain(&of("535.161.08", BLACKWELL), path);
    let why = older.why_not("cudnn", path);
    assert!(
        why.ends_with(
            "has only PTX of CUDA 12.4 for compute capability 12.0, but the driver compiles only up to 12.2"
        ),
        "{why}"
    );
    assert_eq!(
        older.hint,
        "update the NVIDIA driver to 550.54.14 or newer: no library path can help"
    );
    let newer = explain(&of("580.159.04", BLACKWELL), path);
    assert!(
        matches!(newer.cautions[..], [Caution::OnlyPtx { .. }]),
        "{newer:#?}"
    );
    let native = explain(&of("535.161.08", HOPPER), path);
    assert_eq!(native.decision, "plan");
    assert_eq!(native.cautions, [], "machine code runs on any driver");
}

/// The toolkit, the driver and the GPU can each be out of step with the others, and it is said which.
#[test]
fn mismatched_versions_are_named() {
    let cudart = |directory: &str, number: &str, version: &str, code: &str| {
        library(directory, "libcudart", number, version, code)
    };
    let app = |number: &str| program("app", &[&format!("libcudart.so.{number}"), "libc.so.6"], "");
    let refused = |files: &[String], path: &str| {
        let conflict = explain(&machine(files), path);
        let reason = conflict.unmet[0].candidates[0].reason.deepest().clone();
        (reason, conflict.hint)
    };
    let thirteen = || cudart("/opt/13", "13", "13.0.96", "");
    // The driver is too old for the toolkit.
    let driver = refused(
        &[host("535.161.08", &[HOPPER]), thirteen(), app("13")],
        "/opt/13",
    );
    assert!(matches!(driver.0, Reason::DriverTooOld { .. }));
    assert_eq!(
        driver.1,
        "update the NVIDIA driver to 580.65.06 or newer: no library path can help"
    );
    // The toolkit is not the one that the program was built with.
    let toolkit = refused(
        &[host("580.159.04", &[HOPPER]), thirteen(), app("12")],
        "/opt/13",
    );
    assert!(matches!(toolkit.0, Reason::OtherName { .. }));
    assert_eq!(
        toolkit.1,
        "install CUDA runtime for CUDA 12, and add its directory to LD_LIBRARY_PATH"
    );
    // The GPU is not one that the toolkit has code for.
    let code = cudart("/opt/13", "13", "13.0.96", NEWER);
    let gpu = refused(&[host("580.159.04", &[PASCAL]), code, app("13")], "/opt/13");
    assert!(matches!(gpu.0, Reason::NoCode { .. }));
    let all_in_step = machine(&[host("580.159.04", &[HOPPER]), thirteen(), app("13")]);
    assert_eq!(
        explain(&all_in_step, "/opt/13").decision,
        "plan",
        "the control"
    );
}

/// An old card for the screen beside a new one: only the person knows which is meant.
#[test]
fn only_the_gpus_visible_to_the_program_count() {
    let machine = machine(&[
        host("580.159.04", &[PASCAL, HOPPER]),
        nvjpeg("/opt/new", "12.4.1.87", NEWER),
        app(),
    ]);
    let explain = |variables: &[(&str, &str)]| {
        let variables = [&[("LD_LIBRARY_PATH", "/opt/new")], variables].concat();
        decided_with(&machine, &variables, &["app"])
    };
    let both = explain(&[]);
    assert_eq!(both.decision, "conflict");
    assert_eq!(both.hint, "set CUDA_VISIBLE_DEVICES=GPU-11-aa");
    let one = explain(&[("CUDA_VISIBLE_DEVICES", "GPU-11-aa")]);
    assert_eq!(one.decision, "plan");
    let visible: Vec<Visible> = one.gpus.iter().map(|gpu| gpu.visible).collect();
    assert_eq!(visible, [Visible::No, Visible::Yes]);
    let none = explain(&[("CUDA_VISIBLE_DEVICES", "GPU-00")]);
    assert_eq!(none.decision, "conflict");
    // Only CUDA knows which of two different GPUs is number 0: an unknown number is no reason to refuse.
    let unknown = explain(&[("CUDA_VISIBLE_DEVICES", "0")]);
    assert_eq!(unknown.gpus[0].visible, Visible::Perhaps);
    assert_eq!(unknown.decision, "plan");
    let by_bus = [
        ("CUDA_VISIBLE_DEVICES", "0"),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
    ];
    assert_eq!(explain(&by_bus).decision, "conflict");
}

#[test]
fn known_bad_combinations_are_avoided_or_reported() {
    let lt = |directory: &str| {
        elf(
            &format!("{directory}/libcublasLt.so.12"),
            "soname = 'libcublasLt.so.12', functions = { cublasLtGetVersion = 120901 }",
        )
    };
    let cublas = |directory: &str| {
        library(
            directory,
            "libcublas",
            "12",
            "12.9.1.4",
            "needed = ['libcublasLt.so.12']",
        ) + &lt(directory)
    };
    let app = || {
        program(
            "app",
            &["libcudnn.so.9", "libcublas.so.12", "libc.so.6"],
            "",
        )
    };
    let gpus = [HOPPER, HOPPER];
    let (bad, good) = (
        cudnn("/opt/cuda", "9.8.0.87", "runpath = '$ORIGIN'"),
        cudnn("/opt/other", "9.10.2.21", "runpath = '$ORIGIN'"),
    );
    let alone = machine(&[
        host("580.159.04", &gpus),
        cublas("/opt/cuda"),
        bad.clone(),
        app(),
    ]);
    let explained = explain(&alone, "/opt/cuda");
    let why = "known problem of cuBLAS 12.9.1.4 and cuDNN 9.8.0.87: some matrix products on several GPUs come out wrong; cuDNN 9.10.1 or newer is known to work";
    let [caution @ Caution::Combination { .. }] = &explained.cautions[..] else {
        panic!("{explained:#?}")
    };
    assert_eq!(caution.to_string(), why);
    // It would do with the other, and is left for one that is sound.
    let choice = machine(&[
        host("580.159.04", &gpus),
        cublas("/opt/cuda"),
        bad.clone(),
        good,
        app(),
    ]);
    let explained = explain(&choice, "/opt/cuda:/opt/other");
    assert_eq!(
        (explained.decision, &explained.cautions[..]),
        ("plan", &[][..])
    );
    let one_gpu = machine(&[
        host("580.159.04", &gpus[..1]),
        cublas("/opt/cuda"),
        bad,
        app(),
    ]);
    let control = explain(&one_gpu, "/opt/cuda");
    assert_eq!((control.decision, &control.cautions[..]), ("plan", &[][..]));
}

/// PyTorch is linked against cuSPARSELt, which begins with Ampere, and runs on a Volta all the same.
#[test]
fn a_rule_for_some_gpus_refuses_no_other_gpu() {
    let lt = |directory: &str, code: &str| library(directory, "libcusparseLt", "0", "0.6.2", code);
    let app = program("app", &["libcusparseLt.so.0", "libc.so.6"], "");
    let machine = |installations: &[String]| {
        machine(&[
            host("580.159.04", &[PASCAL]),
            installations.concat(),
            app.clone(),
        ])
    };
    let alone = explain(
        &machine(&[lt("/opt/a", "code = ['sm_80', 'sm_90']")]),
        "/opt/a",
    );
    assert!(
        matches!(alone.cautions[0], Caution::NoCode { .. }),
        "{alone:#?}"
    );
    let both = [
        lt("/opt/a", "code = ['sm_80', 'sm_90']"),
        lt("/opt/b", "code = ['sm_61', 'sm_90']"),
    ];
    let choice = explain(&machine(&both), "/opt/a:/opt/b");
    assert_eq!(
        choice.picked("cusparselt"),
        "/opt/b",
        "the control: where there is a choice it is made"
    );
    assert_eq!(choice.cautions, []);
}

/// PyTorch for such GPUs, with the wheel that it pins.
fn torch(device: &str, flags: &str, code: &str) -> Machine {
    let name = "libcurand.so.10";
    let rpath = "rpath = '$ORIGIN/../../nvidia/curand/lib'";
    let metadata = |name: &str, more: &str| {
        text(
            &format!("{SITE}/{}.dist-info/METADATA", name.replace(' ', "-")),
            &format!(
                "Name: {}\nVersion: {}\n{more}\n",
                name.split(' ').next().unwrap().replace('_', "-"),
                name.split(' ').nth(1).unwrap()
            ),
        )
    };
    python(&[
        host("580.159.04", &[device]),
        text(&format!("{SITE}/torch/version.py"), "cuda = '12.4'\n"),
        text(
            &format!("{SITE}/torch/include/ATen/cuda/CUDAConfig.h"),
            &format!("#define NVCC_FLAGS_EXTRA \"{flags}\"\n"),
        ),
        elf(
            &format!("{SITE}/torch/lib/libtorch_cuda.so"),
            &format!("needed = ['{name}'], {rpath}"),
        ),
        metadata(
            "torch 2.5.1",
            "Requires-Dist: nvidia-curand-cu12==10.3.5.147\n",
        ),
        elf(
            &format!("{SITE}/nvidia/curand/lib/{name}"),
            &format!("soname = '{name}', {code}"),
        ),
        metadata("nvidia_curand_cu12 10.3.5.147", ""),
        text(
            &format!("{SITE}/nvidia_curand_cu12-10.3.5.147.dist-info/RECORD"),
            &format!("nvidia/curand/lib/{name},,\n"),
        ),
    ])
}

#[test]
fn pip_is_not_told_to_install_a_version_without_gpu_code() {
    let hint = |device: &str, flags: &str| {
        let machine = torch(device, flags, "code = ['sm_75', 'sm_90']");
        decided(&machine, "", &["python3", "-c", "import torch"]).hint
    };
    let pip = "/opt/venv/bin/python3 -m pip install \"nvidia-curand-cu12";
    assert_eq!(
        hint(BLACKWELL, "code=compute_50"),
        format!("{pip}==10.3.6.82\"")
    );
    assert_eq!(hint(PASCAL, "code=sm_60"), format!("{pip}==10.3.4.107\""));
}

/// Its file is no place where a person has said something.
#[test]
fn a_framework_with_code_for_the_gpu_is_not_changed() {
    let machine = torch(BLACKWELL, "code=sm_90", "");
    let words = [
        "--require",
        "curand>=10.3.6",
        "python3",
        "-c",
        "import torch",
    ];
    let conflict = decided(&machine, "", &words);
    assert_eq!(conflict.unmet(), "curand", "{conflict:#?}");
    let pip = "/opt/venv/bin/python3 -m pip install";
    let both = format!("{pip} \"torch>=2.11\"; then: {pip} \"nvidia-curand==10.4.2.66\"");
    assert_eq!(conflict.hint, both);
}

/// On WSL there is a device, and no file says which driver and which GPU are behind it.
#[test]
fn facts_that_windows_hides_refuse_no_program() {
    let machine = |files: &[String]| {
        let cudart = library("/opt/lib", "libcudart", "12", "12.4.127", "");
        machine(
            &[
                files,
                &[
                    cudart,
                    program("app", &["libcudart.so.12", "libc.so.6"], ""),
                ],
            ]
            .concat(),
        )
    };
    let decision = |machine: &Machine, require: &str| {
        decided(machine, "/opt/lib", &["--require", require, "app"]).decision
    };
    let wsl = machine(&[text("/dev/dxg", ""), driver("/usr/lib/wsl/lib", "555.85")]);
    let without = machine(&[]);
    for require in ["driver>=525", "gpu>=7.0"] {
        assert_eq!(decision(&wsl, require), "plan", "{require}");
        assert_eq!(
            decision(&without, require),
            "conflict",
            "the control: {require}"
        );
    }
}

/// A package may bring along what it uses on some GPUs only.
#[test]
fn code_of_what_is_only_brought_along_refuses_nothing() {
    let package = |name: &str, requires: &str, files: &[&str]| {
        let place = format!("{SITE}/{name}-1.0.dist-info");
        let record: String = files.iter().map(|file| format!("{file},,\n")).collect();
        text(
            &format!("{place}/METADATA"),
            &format!("Name: {name}\nVersion: 1.0\n{requires}\n\n"),
        ) + &text(&format!("{place}/RECORD"), &record)
    };
    let object = "kernels/_c.cpython-312-x86_64-linux-gnu.so";
    let machine = python(&[
        host("580.159.04", &[PASCAL]),
        text(&format!("{SITE}/user/__init__.py"), ""),
        package("user", "Requires-Dist: kernels", &["user/__init__.py"]),
        text(&format!("{SITE}/kernels/__init__.py"), ""),
        elf(
            &format!("{SITE}/{object}"),
            "needed = ['libcudart.so.12'], code = ['sm_80', 'sm_90']",
        ),
        package("kernels", "", &["kernels/__init__.py", object]),
        library(
            "/usr/lib/x86_64-linux-gnu",
            "libcudart",
            "12",
            "12.4.127",
            "",
        ),
    ]);
    let user = decided(&machine, "", &["python3", "-c", "import user"]);
    assert_eq!(user.picked("cudart"), "/usr/lib/x86_64-linux-gnu");
    assert_eq!(user.cautions, []);
    // The program may use it for something other than its kernels: cudarun warns and starts it.
    let used = decided(&machine, "", &["python3", "-c", "import user, kernels"]);
    assert!(
        matches!(used.cautions[0], Caution::Unserved { .. }),
        "the control: {used:#?}"
    );
    let words = ["explain", "python3", "-c", "import user, kernels"];
    let line =
        "kernels 1.0 has no code for the GPU of this machine: GPU 0 (compute capability 6.1)";
    Run::on(&machine, &words).stdout_contains(&[line]).check();
}

#[test]
fn a_minor_of_cuda_that_is_not_allowed_is_named() {
    let cudart = library("/opt/lib", "libcudart", "12", "12.4.127", "");
    let machine = machine(&[
        cudart,
        program("app", &["libcudart.so.12", "libc.so.6"], ""),
    ]);
    let conflict = decided(&machine, "/opt/lib", &["--require", "cuda=12.5", "app"]);
    assert_eq!(
        conflict.why_not("cudart", "/opt/lib"),
        "is for CUDA 12.4.127, but --require allows =12.5"
    );
}

#[test]
fn a_driver_is_to_be_updated_to_what_is_asked_and_never_to_what_runs() {
    let cudart = library("/opt/lib", "libcudart", "12", "12.4.127", "");
    let app = program("app", &["libcudart.so.12", "libc.so.6"], "");
    let machine = machine(&[host("580.159.04", &[HOPPER]), cudart, app]);
    let hint = |require: &str, of_image: &str| {
        let variables = [
            ("LD_LIBRARY_PATH", "/opt/lib"),
            ("NVIDIA_REQUIRE_CUDA", of_image),
        ];
        decided_with(&machine, &variables, &["--require", require, "app"]).hint
    };
    assert_eq!(
        hint("driver>=600", ""),
        "update the NVIDIA driver to 600 or newer: no library path can help"
    );
    assert_eq!(
        hint("driver>580.159.04", ""),
        "update the NVIDIA driver to 580.159.5 or newer: no library path can help"
    );
    for (require, of_image) in [("driver>=525,<535", ""), ("cuda", "cuda>13.0")] {
        assert!(
            hint(require, of_image).starts_with("change "),
            "{require} {of_image}"
        );
    }
}

#[test]
fn a_driver_that_is_not_there_is_to_be_installed() {
    let cudart = library("/opt/lib", "libcudart", "12", "12.4.127", "");
    let app = program("app", &["libcudart.so.12", "libc.so.6"], "");
    let machine = machine(&[cudart, app]);
    let refused = decided(&machine, "/opt/lib", &["--require", "driver>=570", "app"]);
    assert_eq!(
        refused.hint,
        "install the NVIDIA driver 570 or newer: no library path can help"
    );
}

/// A build of one's own may leave out what those of the index have.
#[test]
fn another_build_is_not_the_one_that_is_there() {
    let own = torch(BLACKWELL, "code=sm_90", "");
    let site = own.root().join("opt/venv/lib/python3.12/site-packages");
    fs::rename(
        site.join("torch-2.5.1.dist-info"),
        site.join("torch-2.12.0+cu130.dist-info"),
    )
    .unwrap();
    let refused = decided(&own, "", &["python3", "-c", "import torch"]);
    assert_eq!(
        refused.hint,
        "/opt/venv/bin/python3 -m pip install \"torch>=2.8,<2.11\""
    );
}

/// A framework opens an NVRTC that compiles for the GPUs that it knew.
#[test]
fn a_compiler_that_does_not_know_the_gpu_is_reported() {
    let cautions = |device: &str, directory: &str, version: &str| {
        let nvrtc = library(directory, "libnvrtc", "12", version, "")
            + &elf(
                &format!("{directory}/libnvrtc-builtins.so.{}", &version[..4]),
                &format!("soname = 'libnvrtc-builtins.so.{}'", &version[..4]),
            );
        let files = [
            host("580.159.04", &[device]),
            nvrtc,
            text(&format!("{SITE}/torch/__init__.py"), ""),
            text(&format!("{SITE}/torch/version.py"), "cuda = '12.4'\n"),
            text(
                &format!("{SITE}/torch-2.5.1.dist-info/METADATA"),
                "Name: torch\nVersion: 2.5.1\n",
            ),
            elf(
                &format!("{SITE}/torch/lib/libcaffe2_nvrtc.so"),
                "needed = ['libnvrtc.so.12']",
            ),
        ];
        let machine = python(&files);
        let explained = decided(&machine, directory, &["python3", "-c", "import torch"]);
        assert_eq!(explained.decision, "plan");
        let said = explained.cautions.iter();
        said.filter(|caution| matches!(caution, Caution::CannotCompile { .. }))
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let wheel = format!("{SITE}/nvidia/cuda_nvrtc/lib");
    let why = "NVRTC 12.4.127 cannot compile for compute capability 12.0, but NVRTC of CUDA 12.8 or newer can: ";
    assert_eq!(
        cautions(BLACKWELL, &wheel, "12.4.127"),
        [format!(
            "{why}install a build of torch for such a CUDA version"
        )]
    );
    assert_eq!(
        cautions(BLACKWELL, "/opt/lib", "12.4.127"),
        [format!("{why}use that NVRTC")]
    );
    assert_eq!(
        cautions(BLACKWELL, &wheel, "12.8.93"),
        [""; 0],
        "the control: a newer one"
    );
    assert_eq!(
        cautions(HOPPER, &wheel, "12.4.127"),
        [""; 0],
        "the control: an older GPU"
    );
}
