//! Posted messages on machines that have the cause, each with its control: a machine without it.

use serde::Deserialize;
use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{
    SITE, SYSTEM, compat, cudnn, driver, elf, kernel, library, link, machine, program, python, text,
};

#[derive(Deserialize)]
struct Messages {
    message: Vec<Posted>,
}

#[derive(Deserialize)]
pub(super) struct Posted {
    id: String,
    pub(super) text: String,
    pub(super) cause: String,
}

pub(super) fn all_posted() -> Vec<Posted> {
    let Messages { message } = toml::from_str(include_str!("messages.toml")).unwrap();
    message
}

pub(super) fn posted(id: &str) -> Posted {
    all_posted()
        .into_iter()
        .find(|message| message.id == id)
        .unwrap_or_else(|| panic!("no message {id}"))
}

/// A machine and the words of the program.
pub(super) struct Place {
    pub(super) machine: Machine,
    words: &'static [&'static str],
}

pub(super) fn app(files: &[String], needed: &[&str], env: &[(&str, &str)]) -> Place {
    let loader = elf(
        "/lib64/ld-linux-x86-64.so.2",
        "soname = 'ld-linux-x86-64.so.2'",
    );
    let mut all = vec![
        loader,
        program("app", &[&["libc.so.6"], needed].concat(), ""),
    ];
    all.extend(files.iter().cloned());
    with(machine(&all), &["app"], env)
}

pub(super) fn venv(files: &[String], env: &[(&str, &str)]) -> Place {
    with(python(files), &["python3", "-c", "import torch"], env)
}

pub(super) fn with(
    mut machine: Machine,
    words: &'static [&'static str],
    env: &[(&str, &str)],
) -> Place {
    machine.env.extend(
        env.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    Place { machine, words }
}

pub(super) fn diagnose(place: &Place, message: &str) -> Value {
    let words = [&["diagnose", "--json", "--text", message], place.words].concat();
    Run::on(&place.machine, &words).any_stderr().json()
}

/// The cause is first and certain on one machine, and never certain on the other.
#[track_caller]
pub(super) fn check(ids: &[&str], yes: &Place, no: &Place) {
    for id in ids {
        let posted = posted(id);
        let found = diagnose(yes, &posted.text);
        let first = &found["causes"][0];
        assert_eq!(
            (&first["cause"], &first["certainty"]),
            (&posted.cause.clone().into(), &"is".into()),
            "{id} {found:#}"
        );
        assert!(
            !first["evidence"].as_array().unwrap().is_empty() || posted.cause == "not-installed",
            "{id} {found:#}"
        );
        let control = diagnose(no, &posted.text);
        let causes = control["causes"].as_array().unwrap();
        let is = causes
            .iter()
            .any(|cause| cause["cause"] == posted.cause && cause["certainty"] == "is");
        assert!(!is, "control of {id} {control:#}");
    }
}

const OLD_FIRST: (&str, &str) = ("LD_LIBRARY_PATH", "/opt/old/lib:/opt/new/lib");
const NEW_FIRST: (&str, &str) = ("LD_LIBRARY_PATH", "/opt/new/lib:/opt/old/lib");

#[test]
fn an_older_library_that_comes_first() {
    let cudnn8 = [
        library("/opt/old/lib", "libcudnn", "8", "8.0.3", ""),
        library("/opt/new/lib", "libcudnn", "8", "8.9.7", ""),
    ];
    let place = |path| app(&cudnn8, &["libcudnn.so.8"], &[path]);
    let ids = [
        "tf-loaded-older",
        "jax-loaded-older",
        "torch-cudnn-incompat",
    ];
    check(&ids, &place(OLD_FIRST), &place(NEW_FIRST));

    let with_symbols = |stem: &str, number: &str, old: &str, new: &str, symbols: &str| {
        [
            library("/opt/old/lib", stem, number, old, "exports = ['other']"),
            library(
                "/opt/new/lib",
                stem,
                number,
                new,
                &format!("exports = [{symbols}]"),
            ),
        ]
    };
    for (ids, stem, number, old, new, symbols) in [
        (
            &["nvjitlink-12-1", "nvjitlink-kaggle"][..],
            "libnvJitLink",
            "12",
            "12.0.76",
            "12.4.127",
            "'__nvJitLinkAddData_12_1', '__nvJitLinkComplete_12_4'",
        ),
        (
            &["nccl-comm-register"],
            "libnccl",
            "2",
            "2.18.5",
            "2.21.5",
            "'ncclCommRegister'",
        ),
        (
            &["cudf-mempool"],
            "libcudart",
            "11.0",
            "11.1.74",
            "11.8.89",
            "'cudaMemPoolCreate'",
        ),
        (
            &["nvrtc-cubin-symbol"],
            "libnvrtc",
            "11.2",
            "11.0.221",
            "11.8.89",
            "'nvrtcGetCUBIN'",
        ),
    ] {
        let files = with_symbols(stem, number, old, new, symbols);
        let needed = format!("{stem}.so.{number}");
        let place = |path| app(&files, &[&needed], &[path]);
        check(ids, &place(OLD_FIRST), &place(NEW_FIRST));
    }
}

#[test]
fn parts_of_two_installations() {
    let graph = elf(
        "/opt/old/lib/libcudnn_graph.so.9",
        "soname = 'libcudnn_graph.so.9', constants = ['cudnn_version_9_1_0_']",
    );
    let files = [graph, cudnn("/opt/new/lib", "9.19.0", "")];
    let needed = ["libcudnn.so.9", "libcudnn_graph.so.9", "libcudnn_ops.so.9"];
    let place = |path| app(&files, &needed, &[path]);
    let ids = [
        "torch-cnn-train-symbol",
        "dlib-ops-not-defined",
        "sublib-version-mismatch",
        "no-engine-hidden-load",
    ];
    check(&ids, &place(OLD_FIRST), &place(NEW_FIRST));

    let files = [
        library("/opt/old/lib", "libcublasLt", "11", "11.5.1", ""),
        library("/opt/new/lib", "libcublas", "11", "11.11.3", ""),
        library("/opt/new/lib", "libcublasLt", "11", "11.11.3", ""),
    ];
    let place = |path| app(&files, &["libcublas.so.11", "libcublasLt.so.11"], &[path]);
    let ids = ["cublaslt-hsh", "ort-free-gemm", "cublas-invalid-value"];
    check(&ids, &place(OLD_FIRST), &place(NEW_FIRST));
}

#[test]
fn a_library_where_the_program_does_not_look() {
    const TOOLKIT: &str = "/usr/local/cuda-12.4/lib64";
    let files = [
        cudnn(TOOLKIT, "9.1.0", ""),
        library(TOOLKIT, "libcusparseLt", "0", "0.6.2", ""),
        library(TOOLKIT, "libnvinfer", "8", "8.6.1", ""),
        library(TOOLKIT, "libcudart", "12", "12.4.127", ""),
    ];
    let ids = [
        "cudnn9-ops-unable",
        "ort-cudnn-adv9",
        "cusparselt0",
        "ort-tensorrt8",
    ];
    check(
        &ids,
        &app(&files, &[], &[]),
        &app(&files, &[], &[("LD_LIBRARY_PATH", TOOLKIT)]),
    );
}

#[test]
fn a_library_of_another_number() {
    let new = [
        cudnn(SYSTEM, "9.1.0", ""),
        library(SYSTEM, "libcublas", "12", "12.4.5", ""),
        library(SYSTEM, "libcublasLt", "12", "12.4.5", ""),
        library(SYSTEM, "libcudart", "12", "12.4.127", ""),
        library(SYSTEM, "libnvrtc", "12", "12.4.127", ""),
        library(SYSTEM, "libcufft", "11", "11.2.1", ""),
        library(SYSTEM, "libcusparse", "12", "12.3.1", ""),
    ];
    let old = [
        library(SYSTEM, "libcudnn", "8", "8.9.7", ""),
        library(SYSTEM, "libcudnn_ops_infer", "8", "8.9.7", ""),
        library(SYSTEM, "libcublas", "11", "11.11.3", ""),
        library(SYSTEM, "libcublasLt", "11", "11.11.3", ""),
        library(SYSTEM, "libcudart", "13", "13.0.48", ""),
        library(SYSTEM, "libnvrtc", "11.2", "11.2.152", ""),
        library(SYSTEM, "libcufft", "10.0", "10.0.326", ""),
        library(SYSTEM, "libcusparse", "11", "11.7.4", ""),
    ];
    let ids = [
        "cudnn8-ops-infer-missing",
        "ct2-libcublas11",
        "ort-cublaslt11",
        "mxnet-nvrtc112",
        "vllm-cudart13",
        "jetson-cufft10",
        "pyg-cusparse11",
    ];
    check(&ids, &app(&new, &[], &[]), &app(&old, &[], &[]));
    check(
        &["cupy-cudart12"],
        &app(&[], &[], &[]),
        &app(&new, &[], &[]),
    );
}

#[test]
fn a_name_without_a_number() {
    let files = [
        library(SYSTEM, "libnvrtc", "12", "12.4.127", ""),
        cudnn(SYSTEM, "9.1.0", ""),
        driver(SYSTEM, "580.65.06"),
    ];
    let bare = ["libnvrtc.so", "libcudnn.so", "libcuda.so"].map(|name| {
        let target = match name {
            "libnvrtc.so" => "libnvrtc.so.12",
            "libcudnn.so" => "libcudnn.so.9",
            _ => "libcuda.so.1",
        };
        link(&format!("{SYSTEM}/{name}"), target)
    });
    let ids = [
        "bare-nvrtc",
        "bare-libcuda-wsl",
        "paddle-cudnnso",
        "triton-libcuda",
    ];
    check(
        &ids,
        &app(&files, &[], &[]),
        &app(&[&files[..], &bare[..]].concat(), &[], &[]),
    );
    let nvrtc = library("/opt/new/lib", "libnvrtc", "11.2", "11.1.105", "");
    let builtins = library("/opt/new/lib", "libnvrtc-builtins", "11.1", "11.1.105", "");
    let place = |files: &[String]| app(files, &["libnvrtc.so.11.2"], &[NEW_FIRST]);
    check(
        &["nvrtc-builtins"],
        &place(std::slice::from_ref(&nvrtc)),
        &place(&[nvrtc, builtins]),
    );
}

#[test]
fn a_driver_that_does_not_fit() {
    let of = |kernel_version, version, more: &[String], env: &[(&str, &str)]| {
        let uvm = text("/dev/nvidia-uvm", "");
        let files = [
            &[kernel(kernel_version), driver(SYSTEM, version), uvm][..],
            more,
        ]
        .concat();
        app(&files, &[], env)
    };
    let right = of("580.65.06", "580.65.06", &[], &[]);
    check(
        &["nvml-mismatch"],
        &of("525.105.17", "535.54.03", &[], &[]),
        &right,
    );
    let older = [compat("/opt/compat", "570.86.10", "550, 560")];
    let first = ("LD_LIBRARY_PATH", "/opt/compat");
    check(
        &["compat-geforce-804", "driver-mismatch-803"],
        &of("580.65.06", "580.65.06", &older, &[first]),
        &right,
    );
    let stub = [elf(
        "/opt/cuda/lib64/stubs/libcuda.so.1",
        "soname = 'libcuda.so.1', exports = ['cuInit']",
    )];
    let first = ("LD_LIBRARY_PATH", "/opt/cuda/lib64/stubs");
    check(
        &["stub-34"],
        &of("580.65.06", "580.65.06", &stub, &[first]),
        &right,
    );
    let cudart = [library(SYSTEM, "libcudart", "12", "12.4.127", "")];
    check(
        &["insufficient-35"],
        &of("470.57.02", "470.57.02", &cudart, &[]),
        &of("580.65.06", "580.65.06", &cudart, &[]),
    );
    let without_uvm = app(
        &[kernel("580.65.06"), driver(SYSTEM, "580.65.06")],
        &[],
        &[],
    );
    check(
        &["torch-unknown-error", "cuinit-unknown-tf"],
        &without_uvm,
        &right,
    );
    let empty = text("/usr/lib/x86_64-linux-gnu/libcuda.so.418.56", "");
    check(
        &["zero-byte-driver"],
        &app(&[empty], &[], &[]),
        &app(&[driver(SYSTEM, "418.56")], &[], &[]),
    );
    let container = [text("/.dockerenv", "")];
    let without_driver = posted("container-no-gpus").text;
    let found = diagnose(&app(&[], &[], &[]), &without_driver);
    assert_eq!(found["causes"][0]["cause"], "no-gpu", "{found:#}");
    check(&["container-no-gpus"], &app(&container, &[], &[]), &right);
    let words = |value| [("NVIDIA_DRIVER_CAPABILITIES", value)];
    let place = |value| app(&container, &[], &words(value));
    check(
        &["container-video"],
        &place("compute,utility"),
        &place("compute,video"),
    );
}

#[test]
fn tools_that_are_missing_or_older() {
    let nvcc = |version: &str| {
        let root = format!("/usr/local/cuda-{version}");
        let release =
            format!("constants = ['Cuda compilation tools, release {version}, V{version}.99']");
        let tool =
            |name: &str| program(name, &[], &release).replace("/usr/bin", &format!("{root}/bin"));
        vec![
            tool("nvcc"),
            tool("ptxas"),
            text(&format!("{root}/nvvm/libdevice/libdevice.10.bc"), "x"),
            link("/usr/local/cuda", &root),
        ]
    };
    let place = |version: &str| {
        app(
            &nvcc(version),
            &[],
            &[("PATH", "/usr/local/cuda/bin:/usr/bin")],
        )
    };
    let none = app(&[], &[], &[]);
    check(
        &["cuda-home-unset", "ptxas-invoke", "libdevice-dir"],
        &none,
        &place("12.4"),
    );
    check(&["nvcc-arch"], &place("11.5"), &place("12.4"));
    check(&["nvcc-dropped-arch"], &place("12.4"), &place("11.8"));
    check(&["ptxas-sm121a"], &place("12.4"), &place("13.0"));
    check(&["toolkit-mismatch"], &place("12.2"), &place("11.3"));
    let header = text("/usr/local/cuda-12.4/include/cusparse.h", "");
    let full = app(&[nvcc("12.4"), vec![header]].concat(), &[], &[]);
    check(&["cusparse-h"], &place("12.4"), &full);
    let list = app(&[], &[], &[("CUDA_HOME", "/opt/a:/opt/b")]);
    check(&["libnvvm-list"], &list, &none);
    let gcc = |version: &str| {
        let name = format!("x86_64-linux-gnu-gcc-{version}");
        app(
            &[program(&name, &[], ""), link("/usr/bin/gcc", &name)],
            &[],
            &[],
        )
    };
    check(&["gcc-too-new"], &gcc("13"), &gcc("11"));
    let part = |name: &str, version: &str| {
        text(&format!("{SITE}/{name}-{version}.dist-info/METADATA"), "")
    };
    let parts = |nvvm| {
        venv(
            &[
                part("nvidia_cuda_nvcc", "13.0.48"),
                part("nvidia_nvvm", nvvm),
            ],
            &[],
        )
    };
    check(&["wheel-nvcc-mixed"], &parts("13.1.80"), &parts("13.0.48"));
}

pub(super) fn packages(names: &[(&str, &str)]) -> Vec<String> {
    let record = |(name, version): &(&str, &str)| {
        text(
            &format!("{SITE}/{name}-{version}.dist-info/METADATA"),
            &format!("Name: {name}\nVersion: {version}\n"),
        )
    };
    names.iter().map(record).collect()
}

#[test]
fn packages_that_exclude_each_other() {
    let both = packages(&[("onnxruntime", "1.20.0"), ("onnxruntime_gpu", "1.20.0")]);
    let place = |files: &[String]| with(python(files), &["python3"], &[]);
    check(&["ort-provider-absent"], &place(&both), &place(&both[1..]));
}

#[test]
fn a_driver_that_lets_only_administrators_profile() {
    let set = |value: &str| {
        let params = format!("RmMsg: \"\"\nRmProfilingAdminOnly: {value}\nRegistryDwords: \"\"\n");
        app(&[text("/proc/driver/nvidia/params", &params)], &[], &[])
    };
    check(&["profiler-counters"], &set("1"), &set("0"));
    let unknown = diagnose(&app(&[], &[], &[]), "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES");
    assert_eq!(unknown["causes"][0]["cause"], "profiling-restricted");
    assert_eq!(unknown["causes"][0]["certainty"], "may-be");
}

/// Each of these is told in one line, and never hides a failure.
#[test]
fn harmless_messages() {
    let place = app(&[], &[], &[]);
    for id in [
        "tf-libnvinfer7",
        "tf-trt-warning",
        "tf-register-factory",
        "wsl-not-symlink",
    ] {
        let message = posted(id).text;
        let found = diagnose(&place, &message);
        assert_eq!(found["causes"][0]["cause"], "harmless", "{id} {found:#}");
        let with_failure =
            format!("{message}\nlibcudart.so.12: cannot open shared object file\n{message}\n");
        let found = diagnose(&place, &with_failure);
        assert_eq!(
            found["causes"][0]["cause"], "not-installed",
            "{id} {found:#}"
        );
        assert_eq!(
            found["harmless"].as_array().unwrap().len(),
            1,
            "{id} {found:#}"
        );
    }
}

/// A warning before the failure is no better explanation, however certain its cause.
#[test]
fn a_warning_yields_to_the_failure() {
    let place = one_gpu(&[], &[], &[]);
    let warning =
        "UserWarning: CUDA path could not be detected. Set CUDA_PATH environment variable";
    let failure = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB";
    let keys = |text: &str| {
        let found = diagnose(&place, text);
        let causes = found["causes"].as_array().unwrap().clone();
        causes
            .into_iter()
            .map(|cause| cause["cause"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        keys(&format!("{warning}\n{failure}"))[..2],
        ["out-of-memory", "toolkit-missing"]
    );
    let plain = warning.replace("UserWarning: ", "");
    assert_eq!(
        keys(&format!("{plain}\n{failure}"))[..2],
        ["toolkit-missing", "out-of-memory"],
        "the control"
    );
}

/// These are printed only where a driver or a GPU is.
#[test]
fn a_message_of_a_better_machine_is_of_another() {
    let here = one_gpu(&[], &[], &[]);
    for text in [
        "RuntimeError: cuDNN error: CUDNN_STATUS_ARCH_MISMATCH",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    ] {
        let found = diagnose(&app(&[], &[], &[]), text);
        let causes = found["causes"].as_array().unwrap();
        assert_eq!(found["elsewhere"], true, "{text}");
        assert!(
            causes.iter().all(|cause| cause["certainty"] == "may-be"),
            "{found:#}"
        );
        assert_eq!(
            diagnose(&here, text)["elsewhere"],
            false,
            "the control: {text}"
        );
    }
}

const GPU: &str = "/proc/driver/nvidia/gpus/0000:01:00.0/information";

/// A machine with one GeForce RTX 4090.
pub fn gpu() -> Vec<String> {
    let model =
        "Model: \t\t NVIDIA GeForce RTX 4090\nBus Location: \t 0000:01:00.0\nDevice Minor: \t 0\n";
    vec![
        kernel("570.124.06"),
        driver(SYSTEM, "570.124.06"),
        text(GPU, model),
        text("/sys/bus/pci/devices/0000:01:00.0/device", "0x2684\n"),
        text("/dev/nvidia-uvm", ""),
    ]
}

fn one_gpu(more: &[String], needed: &[&str], env: &[(&str, &str)]) -> Place {
    app(&[&gpu()[..], more].concat(), needed, env)
}

#[test]
fn gpus_that_do_not_fit() {
    let ranks = |count| one_gpu(&[], &[], &[("LOCAL_WORLD_SIZE", count)]);
    check(&["invalid-ordinal"], &ranks("2"), &ranks("1"));
    let nvrtc = |version| {
        one_gpu(
            &[library(SYSTEM, "libnvrtc", "11.2", version, "")],
            &["libnvrtc.so.11.2"],
            &[],
        )
    };
    check(&["nvrtc-arch"], &nvrtc("11.2.152"), &nvrtc("11.8.89"));
}

/// A second installation of the same version is no older one.
#[test]
fn parts_of_two_installations_of_one_version() {
    let place = |first| {
        let files = [
            library("/opt/first/lib", "libnvrtc", "12", first, ""),
            library(SYSTEM, "libnvrtc", "12", "12.9.86", ""),
            library(SYSTEM, "libnvrtc-builtins", "12.9", "12.9.86", ""),
        ];
        let needed = ["libnvrtc.so.12", "libnvrtc-builtins.so.12.9"];
        one_gpu(&files, &needed, &[("LD_LIBRARY_PATH", "/opt/first/lib")])
    };
    let certainty = |first| {
        let found = diagnose(&place(first), &posted("nvrtc-arch").text);
        let mut causes = found["causes"].as_array().unwrap().iter();
        let older = causes.find(|cause| cause["cause"] == "older-first");
        older.unwrap()["certainty"].clone()
    };
    assert_eq!(certainty("12.9.86"), "is-not");
    assert_eq!(certainty("12.8.93"), "is", "the control");
}

#[test]
fn a_library_path_that_names_an_environment() {
    let files = [
        text("/opt/conda/conda-meta/history", ""),
        text("/opt/conda/lib/libtinfo.so.6", ""),
    ];
    let place = |path| app(&files, &[], &[("LD_LIBRARY_PATH", path)]);
    check(
        &["conda-tinfo"],
        &place("/opt/conda/lib"),
        &place("/usr/lib"),
    );
}

#[test]
fn a_cpp_library_that_is_older() {
    let cpp = |versions: &str| {
        elf(
            &format!("{SYSTEM}/libstdc++.so.6"),
            &format!("soname = 'libstdc++.so.6', versions = [{versions}]"),
        )
    };
    let place = |versions| app(&[cpp(versions)], &["libstdc++.so.6"], &[]);
    check(
        &["glibcxx-3430"],
        &place("'GLIBCXX_3.4.29'"),
        &place("'GLIBCXX_3.4.29', 'GLIBCXX_3.4.30'"),
    );
}

#[test]
fn docker_without_its_toolkit() {
    let tool = program("nvidia-ctk", &[], "");
    check(
        &["docker-no-device-driver"],
        &app(&[], &[], &[]),
        &app(&[tool], &[], &[]),
    );
}

#[test]
fn a_driver_that_is_not_loaded() {
    let card = [
        text("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n"),
        text("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n"),
        text("/sys/bus/pci/devices/0000:01:00.0/device", "0x2684\n"),
        driver(SYSTEM, "570.124.06"),
    ];
    check(
        &["driver-not-communicating"],
        &app(&card, &[], &[]),
        &one_gpu(&[], &[], &[]),
    );
}

#[test]
fn a_framework_without_cuda() {
    let torch = |version: &str, cuda: &str| {
        venv(
            &[
                text(&format!("{SITE}/torch/__init__.py"), ""),
                text(
                    &format!("{SITE}/torch/version.py"),
                    &format!("__version__ = '{version}'\ncuda = {cuda}\n"),
                ),
                text(
                    &format!("{SITE}/torch-{version}.dist-info/METADATA"),
                    &format!("Name: torch\nVersion: {version}\n"),
                ),
            ],
            &[],
        )
    };
    check(
        &["cpu-wheel"],
        &torch("2.6.0+cpu", "None"),
        &torch("2.6.0+cu124", "'12.4'"),
    );
}
