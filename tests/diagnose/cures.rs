//! Cures that can be typed, each with its control: a machine on which the cure would not help. `tests/real/diagnose.py`
//! executes them.

use serde_json::Value;

use super::answers::{Place, app, diagnose, gpu, packages, posted, venv, with};
use crate::support::parts::{SITE, SYSTEM, cudnn, driver, elf, kernel, library, python, text};

fn first(place: &Place, message: &str) -> Value {
    diagnose(place, message)["causes"][0].clone()
}

#[track_caller]
fn cure(place: &Place, message: &str, cause: &str) -> String {
    let first = first(place, message);
    assert_eq!(
        (&first["cause"], &first["certainty"]),
        (&cause.into(), &"is".into()),
        "{first:#}"
    );
    first["cures"][0]["do"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

const LINKER: &str = "libcusparse.so.12: undefined symbol: __nvJitLinkAddData_12_1";
const OLD_FIRST: &str = "/opt/old/lib:/opt/new/lib";

/// The control is a machine with a driver that the plan can take.
#[test]
fn cudarun_is_a_cure_only_where_its_plan_helps() {
    let stub = elf(
        "/opt/stubs/libcuda.so.1",
        "soname = 'libcuda.so.1', exports = ['cuInit']",
    );
    let first = ("LD_LIBRARY_PATH", "/opt/stubs");
    let cure = |files: &[String]| {
        let place = app(files, &["libcuda.so.1"], &[first]);
        cure(&place, &posted("stub-34").text, "stub")
    };
    let files = [kernel("580.65.06"), stub, driver(SYSTEM, "580.65.06")];
    assert_eq!(cure(&files), "cudarun app");
    assert_eq!(
        cure(&files[..2]),
        "remove the directory of stubs from LD_LIBRARY_PATH"
    );
}

/// The plan's view does not exist yet, and its symbols are those of the installed files.
#[test]
fn symbols_of_a_plan_are_read_from_installed_files() {
    let files = |new: &str| {
        [
            library(
                "/opt/old/lib",
                "libnvJitLink",
                "12",
                "12.0.76",
                "exports = ['__nvJitLinkAddData_12_0']",
            ),
            library(
                "/opt/new/lib",
                "libnvJitLink",
                "12",
                "12.4.127",
                &format!("exports = ['{new}']"),
            ),
        ]
    };
    let place = |new: &str| {
        let mode = ("CUDARUN_PIN_MODE", "view");
        let pin = ("CUDARUN_PIN", "nvjitlink=12.4");
        app(
            &files(new),
            &["libnvJitLink.so.12"],
            &[("LD_LIBRARY_PATH", OLD_FIRST), mode, pin],
        )
    };
    assert_eq!(
        cure(&place("__nvJitLinkAddData_12_1"), LINKER, "older-first"),
        "cudarun app"
    );
    assert_eq!(
        cure(&place("__nvJitLinkAddData_12_2"), LINKER, "older-first"),
        "take the directory of the older one out of LD_LIBRARY_PATH, or install the newer one",
        "the control: the plan does not help"
    );
}

/// No predicted file imports the symbol: another program may have failed, or this machine is mended.
#[test]
fn a_symbol_that_is_not_imported_is_not_certainly_the_cause() {
    let message = "libcublas.so.12: undefined symbol: cublasLtNew, version libcublasLt.so.12";
    let place = |imported: &str| {
        let imports = format!(
            "imports = {{ 'libcublasLt.so.12' = ['{imported}'] }}, needed = ['libcublasLt.so.12']"
        );
        let files = [
            library(
                "/opt/old/lib",
                "libcublasLt",
                "12",
                "12.4.5",
                "exports = ['cublasLtOld']",
            ),
            library("/opt/old/lib", "libcublas", "12", "12.4.5", &imports),
        ];
        app(
            &files,
            &["libcublas.so.12"],
            &[("LD_LIBRARY_PATH", "/opt/old/lib")],
        )
    };
    let certainty = |imported| first(&place(imported), message)["certainty"].clone();
    assert_eq!(certainty("cublasLtNew"), "is");
    assert_eq!(certainty("cublasLtOld"), "may-be");
}

/// A package that brings only libcudnn.so.9 leaves the rest to another installation.
#[test]
fn a_bundled_shim_is_no_copy_of_cudnn() {
    let message = "Unable to load any of {libcudnn_graph.so.9.1.0, libcudnn_graph.so.9.1, libcudnn_graph.so.9}";
    let shim = elf(
        &format!("{SITE}/ctranslate2.libs/libcudnn-74a4c495.so.9.1.0"),
        "soname = 'libcudnn-74a4c495.so.9.1.0'",
    );
    let package = packages(&[("ctranslate2", "4.6.1")]).concat();
    let alone = [shim.clone(), package.clone()];
    let eight = library(
        &format!("{SITE}/nvidia/cudnn/lib"),
        "libcudnn",
        "8",
        "8.9.7",
        "",
    );
    let rest = cudnn(&format!("{SITE}/nvidia/cudnn/lib"), "9.1.0", "");
    let of = |more: String| {
        with(
            python(&[alone.concat(), more]),
            &["python3", "-c", "import ctranslate2"],
            &[],
        )
    };
    let install = cure(&of(String::new()), message, "not-installed");
    assert!(
        install.contains(" -m pip install \"nvidia-cudnn-cu12==9"),
        "{install}"
    );
    assert!(
        install.ends_with(" && cudarun python3 -c 'import ctranslate2'"),
        "{install}"
    );
    cure(&of(eight), message, "other-major");
    cure(&of(rest), message, "not-on-path");
}

#[test]
fn a_path_that_names_an_environment_is_unset() {
    let files = [
        text("/opt/conda/conda-meta/history", ""),
        text("/opt/conda/lib/libtinfo.so.6", ""),
    ];
    let place = app(&files, &[], &[("LD_LIBRARY_PATH", "/opt/conda/lib")]);
    assert_eq!(
        cure(&place, &posted("conda-tinfo").text, "path-poisons"),
        "unset LD_LIBRARY_PATH"
    );
}

/// Measured on a GPU: without the path the program finds no NVRTC that it could open.
#[test]
fn a_path_that_holds_the_only_copy_stays() {
    let is_unset = |soname: &str, version: &str| {
        let files = [
            library("/opt/old/lib", "libnvrtc", "11.2", "11.2.152", ""),
            library("/usr/lib/x86_64-linux-gnu", "libnvrtc", soname, version, ""),
        ];
        let path = [("LD_LIBRARY_PATH", "/opt/old/lib")];
        let loader = elf(
            "/lib64/ld-linux-x86-64.so.2",
            "soname = 'ld-linux-x86-64.so.2'",
        );
        let files = [&gpu()[..], &files, &[loader]].concat();
        let linked = app(&files, &["libnvrtc.so.11.2"], &path);
        let opened = with(
            python(&files),
            &[
                "python3",
                "-c",
                "import ctypes; ctypes.CDLL('libnvrtc.so.11.2')",
            ],
            &path,
        );
        [linked, opened].map(|place| {
            let first = first(&place, &posted("nvrtc-arch").text);
            assert_eq!(first["certainty"], "is", "{first:#}");
            let mut cures = first["cures"].as_array().expect("a list").iter();
            cures.any(|cure| cure["do"] == "unset LD_LIBRARY_PATH")
        })
    };
    assert_eq!(is_unset("12", "12.4.127"), [false; 2]);
    assert_eq!(is_unset("11.2", "11.8.89"), [true; 2]);
}

#[test]
fn packages_are_replaced_by_the_pip_of_the_program() {
    let message = posted("ort-provider-absent").text;
    let module = text(&format!("{SITE}/onnxruntime/__init__.py"), "");
    let provider = text(
        &format!("{SITE}/onnxruntime/capi/libonnxruntime_providers_cuda.so"),
        "",
    );
    let of = |names: &[(&str, &str)], more: &[&String]| {
        let files = [
            packages(names).concat(),
            module.clone(),
            more.iter().map(|one| one.as_str()).collect(),
        ];
        with(
            python(&files),
            &["python3", "-c", "import onnxruntime"],
            &[],
        )
    };
    let both = [("onnxruntime", "1.20.1"), ("onnxruntime_gpu", "1.20.2")];
    let pip = "/opt/venv/bin/python3 -m pip";
    let expected = format!(
        "{pip} uninstall 'onnxruntime'; {pip} install --force-reinstall --no-deps 'onnxruntime-gpu==1.20.2'"
    );
    assert_eq!(
        cure(&of(&both, &[&provider]), &message, "claimed-twice"),
        expected
    );
    let expected =
        format!("{pip} uninstall 'onnxruntime'; {pip} install 'onnxruntime-gpu~=1.20.1'");
    assert_eq!(cure(&of(&both[..1], &[]), &message, "cpu-build"), expected);
    let jax = packages(&[("jaxlib", "0.8.3")]).concat()
        + &text(&format!("{SITE}/jaxlib/__init__.py"), "");
    let jax = with(python(&[jax]), &["python3", "-c", "import jaxlib"], &[]);
    let unknown = "RuntimeError: Unknown backend: 'gpu' requested, but no platforms that are instances of gpu are present.";
    let expected = format!("{pip} install 'jax-cuda12-plugin[with-cuda]==0.8.3'");
    assert_eq!(cure(&jax, unknown, "cpu-build"), expected);
    // It uses the CPU here, since it crashes without a GPU, but is built for CUDA.
    let found = diagnose(&of(&both[1..], &[&provider]), &message);
    let is = |cause: &Value| cause["certainty"] == "is";
    assert!(
        !found["causes"].as_array().unwrap().iter().any(is),
        "{found:#}"
    );
}

#[test]
fn toolkits_from_wheels() {
    let home = app(&[], &[], &[("CUDA_HOME", "/opt/a:/opt/b")]);
    assert_eq!(
        cure(&home, &posted("libnvvm-list").text, "toolkit-variable"),
        "unset CUDA_HOME"
    );
    let parts = packages(&[
        ("nvidia_cuda_nvcc", "13.0.88"),
        ("nvidia_nvvm", "13.5.37"),
        ("nvidia_cuda_crt", "13.0.48"),
    ]);
    assert_eq!(
        cure(
            &venv(&parts, &[]),
            &posted("wheel-nvcc-mixed").text,
            "toolkit-mixed"
        ),
        "install nvcc, NVVM and CRT headers of one release, or build with `cudarun --build COMMAND`, which takes a toolkit that fits"
    );
    let nvcc = [text("/usr/local/cuda/bin/nvcc", "")];
    assert_eq!(
        cure(
            &venv(&nvcc, &[]),
            &posted("cusparse-h").text,
            "headers-missing"
        ),
        "install the development package of its library"
    );
}

#[test]
fn a_ptxas_of_a_wheel_has_a_release() {
    let message = "ptxas fatal   : Value 'sm_110' is not defined for option 'gpu-name'";
    let place = |version: &str| {
        let release = &version[..4];
        let said = format!("constants = ['Cuda compilation tools, release {release}, V{version}']");
        venv(&[elf(&format!("{SITE}/nvidia/cu13/bin/ptxas"), &said)], &[])
    };
    assert_eq!(first(&place("12.9.86"), message)["certainty"], "is");
    let found = diagnose(&place("13.0.88"), message);
    let old = found["causes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|cause| cause["cause"] == "ptxas-old")
        .unwrap();
    assert_eq!(old["certainty"], "is-not", "{found:#}");
}
