//! Packages that open the libraries of NVIDIA's wheels by absolute path, and library names that only profiles have. The
//! control of each case is a version or a package to which it does not apply.

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, elf, library, python, text};

/// Another installation, which is first in `LD_LIBRARY_PATH`.
const OTHER: &str = "/opt/other";

fn wheel(library: &str) -> String {
    format!("{SITE}/nvidia/{library}/lib")
}

fn loader() -> String {
    elf(
        "/lib64/ld-linux-x86-64.so.2",
        "soname = 'ld-linux-x86-64.so.2'",
    )
}

fn distribution(name: &str, version: &str) -> String {
    let module = name.replace('-', "_");
    text(
        &format!("{SITE}/{module}-{version}.dist-info/METADATA"),
        &format!("Name: {name}\nVersion: {version}\n"),
    )
}

fn explain(machine: &Machine, code: &str) -> Value {
    let run = Run::on(machine, &["explain", "--json", "python3", "-c", code]);
    run.env("LD_LIBRARY_PATH", OTHER).json()
}

/// The directories of the files with this stem that the program maps without cudarun.
fn mapped(explained: &Value, stem: &str) -> Vec<String> {
    let files = explained["before"].as_array().unwrap().iter();
    let paths = files
        .map(|file| file["path"].as_str().unwrap())
        .filter(|path| path.contains(stem));
    paths
        .map(|path| path.rsplit_once('/').unwrap().0.to_owned())
        .collect()
}

fn names(explained: &Value) -> Vec<&str> {
    let all = explained["program"]["requirements"].as_array().unwrap();
    let mut names: Vec<&str> = all
        .iter()
        .filter_map(|r| r["want"]["name"].as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn faiss_opens_the_wheels_before_its_own_modules() {
    let faiss = |version: &str| {
        python(&[
            loader(),
            text(&format!("{SITE}/faiss/__init__.py"), ""),
            elf(
                &format!("{SITE}/faiss/_swigfaiss.so"),
                "needed = ['libcudart.so.12']",
            ),
            distribution("faiss-gpu-cu12", version),
            library(&wheel("cuda_runtime"), "libcudart", "12", "12.4.127", ""),
            library(OTHER, "libcudart", "12", "12.1.105", ""),
        ])
    };
    assert_eq!(
        mapped(&explain(&faiss("1.10.0"), "import faiss"), "libcudart"),
        [wheel("cuda_runtime")]
    );
    assert_eq!(
        mapped(&explain(&faiss("1.8.0.2"), "import faiss"), "libcudart"),
        [OTHER],
        "the control"
    );
}

#[test]
fn torch_opens_more_of_the_wheels_from_version_to_version() {
    let torch = |version: &str| {
        let own = "soname = 'libtorch_cuda.so', needed = ['libcudart.so.12', 'libcusparse.so.12'], \
            rpath = '$ORIGIN/../../nvidia/cusparse/lib'";
        let jit = "needed = ['libnvJitLink.so.12'], runpath = '$ORIGIN'";
        let both = |stem: &str, number: &str, place: &str| {
            library(&wheel(place), stem, number, "12.6.85", "")
                + &library(OTHER, stem, number, "12.6.85", "")
        };
        python(&[
            loader(),
            text(&format!("{SITE}/torch/__init__.py"), ""),
            text(&format!("{SITE}/torch/version.py"), "cuda = '12.6'\n"),
            distribution("torch", version),
            elf(&format!("{SITE}/torch/lib/libtorch_cuda.so"), own),
            library(&wheel("cusparse"), "libcusparse", "12", "12.5.4.2", jit),
            both("libcudart", "12", "cuda_runtime"),
            both("libnvJitLink", "12", "nvjitlink"),
            both("libnvToolsExt", "1", "nvtx"),
        ])
    };
    let found = |version: &str, stem: &str| mapped(&explain(&torch(version), "import torch"), stem);
    assert_eq!(found("2.5.1", "libcudart"), [OTHER]);
    assert_eq!(found("2.7.1", "libcudart"), [OTHER]);
    assert_eq!(found("2.10.0", "libcudart"), [wheel("cuda_runtime")]);
    assert!(
        !found("2.5.1", "libnvJitLink").contains(&wheel("nvjitlink")),
        "the control"
    );
    assert_eq!(found("2.7.1", "libnvJitLink"), [wheel("nvjitlink")]);
    assert_eq!(found("2.7.1", "libnvToolsExt"), [""; 0], "the control");
    assert_eq!(found("2.10.0", "libnvToolsExt"), [wheel("nvtx")]);
}

#[test]
fn parts_of_shared_directories_have_profiles_of_their_own() {
    let nvvm = format!("{SITE}/nvidia/cuda_nvcc/nvvm/lib64");
    let machine = python(&[
        loader(),
        text(&format!("{SITE}/cuda/bindings/__init__.py"), ""),
        text(&format!("{SITE}/cuda/core/__init__.py"), ""),
        text(&format!("{SITE}/pynvml.py"), ""),
        text(&format!("{SITE}/nvidia/nvimgcodec/__init__.py"), ""),
        text(&format!("{SITE}/other/__init__.py"), ""),
        elf(
            &format!("{SITE}/other/_ext.so"),
            "needed = ['libcurand.so.10']",
        ),
        text(&format!("{SITE}/own/cuda/__init__.py"), "import other\n"),
        distribution("cuda-bindings", "12.9.0") + &distribution("nvidia-ml-py", "12.575.51"),
        distribution("nvidia-nvimgcodec-cu12", "0.9.0.20"),
        elf(&format!("{nvvm}/libnvvm.so"), "soname = 'libnvvm.so.4'"),
    ]);
    let bindings = [
        "libcuda.so.1",
        "libnvJitLink.so.12",
        "libnvrtc.so.12",
        "libnvvm.so.4",
    ];
    for code in [
        "from cuda.bindings import nvrtc",
        "import cuda.core.experimental",
        "from cuda import nvrtc",
    ] {
        let explained = explain(&machine, code);
        assert_eq!(names(&explained), bindings, "{code}");
        assert_eq!(mapped(&explained, "libnvvm"), [nvvm.as_str()], "{code}");
    }
    assert_eq!(
        names(&explain(&machine, "import pynvml")),
        ["libnvidia-ml.so.1"]
    );
    assert_eq!(
        names(&explain(&machine, "from nvidia import nvimgcodec")),
        ["libcuda.so.1", "libnvjpeg.so.12"]
    );
    // Control: a package of the program with the name of the shared directory.
    let own = Run::on(
        &machine,
        &["explain", "--json", "python3", "-c", "import cuda"],
    );
    let own = own.env("PYTHONPATH", format!("{SITE}/own")).json();
    assert_eq!(names(&own), ["libcurand.so.10"], "{own:#}");
}

#[test]
fn libraries_under_another_name_are_shown() {
    let packed = "libcusparseLt-f80c68d1.so.0";
    let own = format!(
        "soname = 'libtorch_cuda.so', needed = ['libcudart.so.12', '{packed}'], rpath = '$ORIGIN'"
    );
    let machine = python(&[
        loader(),
        text(&format!("{SITE}/torch/__init__.py"), ""),
        text(&format!("{SITE}/torch/version.py"), "cuda = '12.4'\n"),
        distribution("torch", "2.5.1"),
        elf(&format!("{SITE}/torch/lib/libtorch_cuda.so"), &own),
        elf(
            &format!("{SITE}/torch/lib/{packed}"),
            &format!("soname = '{packed}'"),
        ),
        elf(
            &format!("{SITE}/torch/lib/libgomp-a34b3233.so.1"),
            "soname = 'libgomp-a34b3233.so.1'",
        ),
        library(&wheel("cuda_runtime"), "libcudart", "12", "12.4.127", ""),
        text(&format!("{SITE}/torchvision/__init__.py"), ""),
        elf(
            &format!("{SITE}/torchvision/_C.so"),
            "needed = ['libnvjpeg.90286a3c.so.12'], rpath = '$ORIGIN/../torchvision.libs'",
        ),
        elf(
            &format!("{SITE}/torchvision.libs/libnvjpeg.90286a3c.so.12"),
            "soname = 'libnvjpeg.90286a3c.so.12'",
        ),
    ]);
    let predicted = |code: &str| {
        let run = Run::on(&machine, &["trace", "--predict", "python3", "-c", code]);
        run.any_stdout()
            .any_stderr()
            .check()
            .contains("torchvision.libs/libnvjpeg.90286a3c.so.12")
    };
    assert!(predicted("import torchvision"));
    assert!(!predicted("import torch"), "the control");
    let says = |words: &[&str]| {
        let arguments: Vec<&str> = words
            .iter()
            .copied()
            .chain(["python3", "-c", "import torch"])
            .collect();
        Run::on(&machine, &arguments)
            .any_stdout()
            .any_stderr()
            .check()
    };
    let shown = says(&["explain", "-v"]);
    assert!(
        shown.contains("\nbundled  ") && shown.contains(&format!("torch/lib/{packed}")),
        "{shown}"
    );
    assert!(says(&["trace", "--predict"]).contains(packed));
    assert!(
        !says(&["trace", "--predict"]).contains("libgomp"),
        "a library that is not NVIDIA's"
    );
}
