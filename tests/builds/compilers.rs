//! Compilers that frameworks need while they run.

use cudarun::catalog::catalog;
use cudarun::kept;

use super::{BLACKWELL, HOPPER, gpu, toolkit, whole};
use crate::program::wrappers::notes;
use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, kernel, library, link, node, python, text};

const DEVICE: &str = "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc";

fn triton_of(release: &str) -> String {
    text(&format!("{SITE}/triton/__init__.py"), "")
        + &text(
            &format!("{SITE}/triton-{release}.dist-info/METADATA"),
            &format!("Name: triton\nVersion: {release}\n"),
        )
}

fn triton() -> String {
    triton_of("3.5.1")
}

fn jax() -> String {
    text(&format!("{SITE}/jax/__init__.py"), "")
        + &text(&format!("{SITE}/jaxlib/__init__.py"), "")
        + &text(&format!("{SITE}/jax_plugins/xla_cuda12/__init__.py"), "")
        + &text(
            &format!("{SITE}/jaxlib-0.8.3.dist-info/METADATA"),
            "Name: jaxlib\nVersion: 0.8.3\n",
        )
}

fn set(machine: &Machine, code: &str, name: &str, before: Option<&str>) -> Option<String> {
    let mut run = Run::on(machine, &["export", "--json", "python3", "-c", code]);
    if let Some(before) = before {
        run = run.env(name, before);
    }
    run.json()["environment"][name].as_str().map(str::to_owned)
}

#[test]
fn triton_without_its_ptxas_gets_that_of_a_toolkit() {
    let toolkits = whole("/usr/local/cuda-12.4", "12.4.131", 13)
        + &whole("/usr/local/cuda-12.8", "12.8.93", 14);
    let machine = python(&[triton(), toolkits.clone(), kernel("580.95.05")]);
    let ptxas = Some("/usr/local/cuda-12.8/bin/ptxas".to_owned());
    assert_eq!(
        set(&machine, "import triton", "TRITON_PTXAS_PATH", None),
        ptxas
    );
    assert_eq!(
        set(
            &machine,
            "import triton",
            "TRITON_PTXAS_PATH",
            Some("/opt/ptxas")
        ),
        None,
        "a person's own"
    );
    assert_eq!(
        set(&machine, "print()", "TRITON_PTXAS_PATH", None),
        None,
        "not a program of triton"
    );
    // What it starts is decided for itself.
    let code = "import triton, subprocess; subprocess.run(['x'])";
    assert_eq!(set(&machine, code, "TRITON_PTXAS_PATH", None), ptxas);
    let own = text(&format!("{SITE}/triton/backends/nvidia/bin/ptxas"), "own");
    let machine = python(&[triton(), own, toolkits.clone(), kernel("580.95.05")]);
    assert_eq!(
        set(&machine, "import triton", "TRITON_PTXAS_PATH", None),
        None,
        "its own is there"
    );
    let machine = python(&[triton(), toolkits]);
    assert_eq!(
        set(&machine, "import triton", "TRITON_PTXAS_PATH", None),
        None,
        "without a GPU"
    );
}

/// A kept start sets them, and a person may set them later.
#[test]
fn a_start_depends_on_the_variables_of_compilers() {
    for row in catalog()
        .frameworks
        .iter()
        .flat_map(|framework| &framework.compiler)
    {
        for name in std::iter::once(&row.variable).chain(&row.also_read) {
            assert!(kept::decides(name), "{name}");
        }
    }
}

/// Up to 3.5 Triton starts one ptxas for every GPU; later releases start another one for newer GPUs, which another variable names.
/// None starts the one in place of the other.
#[test]
fn a_ptxas_that_makes_no_code_for_a_gpu_counts_as_missing() {
    let own = |name: &str, cuda: &str| {
        let release = format!("Cuda compilation tools, release {cuda}, V{cuda}.89");
        text(
            &format!("{SITE}/triton/backends/nvidia/bin/{name}"),
            &release,
        )
    };
    let newer = whole("/usr/local/cuda-12.8", "12.8.93", 14);
    let (any, blackwell) = ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH");
    let check = |release: &str, device: &str, own: &[String], expected: &[&str]| {
        let files = [
            triton_of(release),
            newer.clone(),
            gpu(device, "580.95.05"),
            own.concat(),
        ];
        let machine = python(&files);
        for name in [any, blackwell] {
            let ptxas = Some("/usr/local/cuda-12.8/bin/ptxas".to_owned());
            let given = set(&machine, "import triton", name, None);
            let expected = ptxas.filter(|_| expected.contains(&name));
            assert_eq!(given, expected, "{name}: triton {release} on {device}");
        }
    };
    let old = [own("ptxas", "11.8")];
    let new = [own("ptxas", "12.8")];
    let only_blackwell = [own("ptxas-blackwell", "12.9")];
    let both = [own("ptxas", "12.4"), own("ptxas-blackwell", "12.9")];
    check("3.5.1", BLACKWELL, &old, &[any]);
    check("3.5.1", HOPPER, &old, &[]);
    check("3.5.1", BLACKWELL, &new, &[]);
    check("3.5.1", BLACKWELL, &[], &[any]);
    for release in ["3.6.0", "3.8.0", "3.9.0"] {
        check(release, BLACKWELL, &both, &[]);
        check(release, BLACKWELL, &only_blackwell, &[]);
        check(release, BLACKWELL, &new, &[blackwell]);
        check(release, BLACKWELL, &[], &[blackwell]);
    }
    for release in ["3.6.0", "3.8.0"] {
        check(release, HOPPER, &new, &[]);
        check(release, HOPPER, &only_blackwell, &[any]);
    }
    check("3.9.0", HOPPER, &new, &[blackwell]);
    check("3.9.0", HOPPER, &only_blackwell, &[]);
    let machine = python(&[triton(), gpu(BLACKWELL, "580.95.05"), own("ptxas", "11.8")]);
    let said = Run::on(&machine, &["explain", "python3", "-c", "import triton"]);
    let words =
        "finds ptxas 11.8.89, too old for a GPU here, and no toolkit here has one that fits";
    said.stdout_contains(&[words]).check();
}

#[test]
fn diagnose_names_the_variable_that_a_release_of_triton_reads() {
    let message = "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'";
    let cure = |release: &str, device: &str| {
        let toolkit = whole("/usr/local/cuda-12.4", "12.4.131", 13);
        let machine = python(&[triton_of(release), toolkit, gpu(device, "580.95.05")]);
        let words = [
            "diagnose",
            "--json",
            "--text",
            message,
            "python3",
            "-c",
            "import triton",
        ];
        let found = Run::on(&machine, &words).json();
        let causes = found["causes"].as_array().unwrap();
        let is_old = |cause: &&serde_json::Value| cause["cause"] == "ptxas-old";
        let cause = causes.iter().find(is_old).unwrap();
        cause["cures"][0]["do"].as_str().unwrap().to_owned()
    };
    let to = |variable: &str| format!("set {variable} to the ptxas of a newer CUDA toolkit");
    assert_eq!(cure("3.5.1", BLACKWELL), to("TRITON_PTXAS_PATH"));
    assert_eq!(cure("3.6.0", BLACKWELL), to("TRITON_PTXAS_BLACKWELL_PATH"));
    assert_eq!(cure("3.9.0", BLACKWELL), to("TRITON_PTXAS_BLACKWELL_PATH"));
}

/// What a program starts is decided for itself, so it may have the variable.
#[test]
fn a_program_that_starts_others_is_known_and_gets_its_compiler() {
    let machine = python(&[
        triton(),
        whole("/opt/cuda-12.8", "12.8.93", 14),
        kernel("580.95.05"),
    ]);
    let given = |code: &str| {
        let code = format!("import triton\n{code}");
        set(&machine, &code, "TRITON_PTXAS_PATH", None).is_some()
    };
    let starts = |code: &str| {
        let explained = Run::on(&machine, &["explain", "--json", "python3", "-c", code]).json();
        notes(&explained).contains(&"may-start-another".to_owned())
    };
    for code in [
        "from os import system\nsystem('x')",
        "from os import path, execv as run",
        "from os import *",
        "import os as o\no.system('x')",
        "import sys, os as o, re\no.execvp('x', [])",
        "import pty\npty.spawn('x')",
        "import multiprocessing\nmultiprocessing.set_executable('x')",
    ] {
        assert!(starts(code), "{code}");
        assert!(given(code), "{code}");
    }
    for code in [
        "from os import path, environ",
        "import platform\nplatform.system()",
        "import os as o\no.getpid()",
    ] {
        assert!(!starts(code), "{code}");
        assert!(given(code), "{code}");
    }
}

#[test]
fn numba_gets_a_toolkit_with_libnvvm_whose_code_the_driver_takes() {
    let numba = text(&format!("{SITE}/numba_cuda/__init__.py"), "")
        + &text(
            &format!("{SITE}/numba_cuda-0.30.4.dist-info/METADATA"),
            "Name: numba-cuda\nVersion: 0.30.4\n",
        );
    let with_nvvm = |release: &str| {
        let root = format!("/opt/cuda-{}", release.rsplit_once('.').unwrap().0);
        whole(&root, release, 15) + &text(&format!("{root}/nvvm/lib64/libnvvm.so"), "")
    };
    let given = |toolkits: &[String], driver: &str| {
        let machine = python(&[numba.clone(), toolkits.concat(), kernel(driver)]);
        set(&machine, "import numba_cuda", "CUDA_HOME", None)
    };
    let both = [with_nvvm("12.4.131"), with_nvvm("12.8.93")];
    assert_eq!(given(&both, "580.95.05").as_deref(), Some("/opt/cuda-12.8"));
    assert_eq!(given(&both, "550.54.15").as_deref(), Some("/opt/cuda-12.4"));
    assert_eq!(
        given(&[whole("/opt/cuda-12.8", "12.8.93", 14)], "580.95.05"),
        None
    );
}

#[test]
fn diagnose_names_the_compiler_that_a_framework_does_not_find() {
    let toolkit = whole("/usr/local/cuda-12.8", "12.8.93", 14);
    let causes = |files: &[String], message: &str, code: &str| {
        let words = [
            "diagnose", "--json", "--text", message, "python3", "-c", code,
        ];
        Run::on(&python(&[&[kernel("580.95.05")], files].concat()), &words).json()["causes"].clone()
    };
    for (framework, code, message) in [
        (triton(), "import triton", "RuntimeError: Cannot find ptxas"),
        (
            jax(),
            "import jax",
            "libdevice not found at ./libdevice.10.bc",
        ),
    ] {
        let first = causes(&[framework.clone(), toolkit.clone()], message, code)[0].clone();
        assert_eq!(
            (&first["cause"], &first["certainty"]),
            (&"not-on-path".into(), &"is".into()),
            "{first:#}"
        );
        assert_eq!(
            first["cures"][0]["do"],
            format!("cudarun python3 -c '{code}'"),
            "{first:#}"
        );
        let control = causes(&[framework], message, code);
        let sure = control
            .as_array()
            .unwrap()
            .iter()
            .find(|cause| cause["certainty"] == "is")
            .unwrap();
        assert_ne!(sure["cause"], "not-on-path", "{control:#}");
    }
}

#[test]
fn a_driver_decides_how_new_a_compiler_may_be() {
    let toolkits = whole("/usr/local/cuda-12.4", "12.4.131", 13)
        + &whole("/usr/local/cuda-13.0", "13.0.88", 15);
    let of = |driver: &str| {
        let machine = python(&[triton(), toolkits.clone(), kernel(driver)]);
        set(&machine, "import triton", "TRITON_PTXAS_PATH", None)
    };
    assert_eq!(
        of("580.95.05").as_deref(),
        Some("/usr/local/cuda-13.0/bin/ptxas")
    );
    assert_eq!(
        of("550.54.15").as_deref(),
        Some("/usr/local/cuda-12.4/bin/ptxas")
    );
}

#[test]
fn jax_gets_the_directory_of_a_toolkit_with_libdevice() {
    let machine = |files: &[String]| {
        let mut all = vec![jax(), kernel("580.95.05")];
        all.extend(files.iter().cloned());
        python(&all)
    };
    let elsewhere = whole("/opt/cuda-12.8", "12.8.93", 14);
    let lacks = machine(std::slice::from_ref(&elsewhere));
    assert_eq!(
        set(&lacks, "import jax", "CUDA_ROOT", None).as_deref(),
        Some("/opt/cuda-12.8")
    );
    assert_eq!(set(&lacks, "import jax", "CUDA_ROOT", Some("/srv")), None);
    let found = machine(&[elsewhere, text(&format!("{SITE}/{DEVICE}"), "own")]);
    assert_eq!(set(&found, "import jax", "CUDA_ROOT", None), None);
    let incomplete = toolkit("/opt/cuda-12.8", "12.8.93", 14, &|name, text| {
        if name.contains("libdevice") {
            String::new()
        } else {
            text
        }
    });
    let none = machine(&[incomplete]);
    assert_eq!(set(&none, "import jax", "CUDA_ROOT", None), None);
    let said = Run::on(&none, &["explain", "python3", "-c", "import jax"]);
    said.stdout_contains(&["finds no libdevice.10.bc, and no toolkit here has one that fits"])
        .check();
    // Without the kernel's driver, jax uses the CPU.
    let machine = python(&[jax(), node(), whole("/opt/cuda-12.8", "12.8.93", 14)]);
    assert_eq!(set(&machine, "import jax", "CUDA_ROOT", None), None);
}

#[test]
fn options_of_xla_are_added_to_those_that_are_set() {
    let tensorflow = text(&format!("{SITE}/tensorflow/__init__.py"), "")
        + &text(
            &format!("{SITE}/tensorflow/python/platform/build_info.py"),
            "",
        )
        + &text(
            &format!("{SITE}/tensorflow-2.19.1.dist-info/METADATA"),
            "Name: tensorflow\nVersion: 2.19.1\n",
        );
    let machine = python(&[
        tensorflow.clone(),
        whole("/opt/cuda-12.8", "12.8.93", 14),
        kernel("580.95.05"),
    ]);
    let flag = "--xla_gpu_cuda_data_dir=/opt/cuda-12.8";
    assert_eq!(
        set(&machine, "import tensorflow", "XLA_FLAGS", None).as_deref(),
        Some(flag)
    );
    let both = format!("--xla_dump_to=/tmp/x {flag}");
    assert_eq!(
        set(
            &machine,
            "import tensorflow",
            "XLA_FLAGS",
            Some("--xla_dump_to=/tmp/x")
        ),
        Some(both)
    );
    assert_eq!(
        set(
            &machine,
            "import tensorflow",
            "XLA_FLAGS",
            Some("--xla_gpu_cuda_data_dir=/srv")
        ),
        None
    );
    // The variable may name a file with options, and its options end at blanks.
    assert_eq!(
        set(
            &machine,
            "import tensorflow",
            "XLA_FLAGS",
            Some("/etc/xla.flags")
        ),
        None
    );
    let said = Run::on(&machine, &["explain", "python3", "-c", "import tensorflow"]);
    said.env("XLA_FLAGS", "/etc/xla.flags")
        .stdout_contains(&["names a file, add this to it:", flag])
        .check();
    let told = python(&[
        tensorflow.clone(),
        kernel("580.95.05"),
        text("/etc/xla.flags", flag),
    ]);
    let said = Run::on(&told, &["explain", "python3", "-c", "import tensorflow"]);
    let text = said.env("XLA_FLAGS", "/etc/xla.flags").any_stdout().check();
    assert!(!text.contains("libdevice"), "{text}");
    let blank = python(&[
        tensorflow,
        whole("/opt/cuda 12", "12.8.93", 14),
        kernel("580.95.05"),
    ]);
    let also = ["--also", "/opt/cuda 12"];
    let words = [
        &also[..],
        &["export", "--json", "python3", "-c", "import tensorflow"],
    ]
    .concat();
    assert_eq!(
        Run::on(&blank, &words).json()["environment"]["XLA_FLAGS"],
        serde_json::Value::Null
    );
    let words = [
        &also[..],
        &["explain", "python3", "-c", "import tensorflow"],
    ]
    .concat();
    let said = [
        "XLA_FLAGS cannot hold the blank in",
        "--xla_gpu_cuda_data_dir=/opt/cuda 12",
    ];
    Run::on(&blank, &words).stdout_contains(&said).check();
}

fn flashinfer(more: &[String]) -> Machine {
    let mut files = vec![
        text(&format!("{SITE}/flashinfer/__init__.py"), ""),
        text(
            &format!("{SITE}/flashinfer_python-0.7.4.dist-info/METADATA"),
            "Name: flashinfer-python\nVersion: 0.7.4\n",
        ),
        whole("/opt/cuda-12.4", "12.4.131", 13),
        gpu(HOPPER, "550.54.15"),
    ];
    files.extend_from_slice(more);
    python(&files)
}

#[test]
fn a_package_that_compiles_while_it_runs_gets_a_whole_toolkit() {
    let code = "import flashinfer";
    let home = |machine: &Machine| set(machine, code, "CUDA_HOME", None);
    let machine = flashinfer(&[]);
    let root = home(&machine).unwrap();
    let path = set(&machine, code, "PATH", None).unwrap();
    assert!(path.starts_with(&format!("{root}/bin:")), "{path}");
    assert_eq!(set(&machine, code, "CUDA_PATH", None), Some(root));
    assert_eq!(set(&machine, code, "CUDA_HOME", Some("/opt/own")), None);
    assert_eq!(
        set(&machine, code, "FLASHINFER_NVCC", Some("/opt/nvcc")),
        None
    );
    assert_eq!(set(&machine, "import sys", "CUDA_HOME", None), None);
    // Its neighbours find an nvcc, or need none.
    let there = link("/usr/local/cuda", "/opt/cuda-12.4");
    assert_eq!(home(&flashinfer(&[there])), None);
    let in_path = link("/usr/bin/nvcc", "/opt/cuda-12.4/bin/nvcc");
    assert_eq!(home(&flashinfer(&[in_path])), None);
    let compiled = text(&format!("{SITE}/flashinfer_jit_cache/__init__.py"), "");
    assert_eq!(home(&flashinfer(&[compiled])), None);
}

/// A package of Python that brings no more than its metadata.
fn installed(module: &str, distribution: &str, version: &str) -> String {
    let metadata = format!("{}-{version}.dist-info", distribution.replace('-', "_"));
    text(&format!("{SITE}/{module}/__init__.py"), "")
        + &text(
            &format!("{SITE}/{metadata}/METADATA"),
            &format!("Name: {distribution}\nVersion: {version}\n"),
        )
}

#[test]
fn a_package_whose_kernels_include_headers_gets_those_of_a_toolkit() {
    let cupy = |more: &[String]| {
        let cuda = text(
            &format!("{SITE}/cupy/.data/_wheel.json"),
            "{\"cuda\": \"12.x\"}",
        );
        let files = [
            installed("cupy", "cupy-cuda12x", "13.6.0"),
            cuda,
            gpu(HOPPER, "550.54.15"),
        ];
        python(&[&files[..], more].concat())
    };
    let here = whole("/opt/cuda-12.4", "12.4.131", 13);
    let other = whole("/opt/cuda-11.8", "11.8.89", 11);
    let path = |machine: &Machine, before| set(machine, "import cupy", "CUDA_PATH", before);
    let machine = cupy(&[here.clone(), other.clone()]);
    assert_eq!(path(&machine, None).as_deref(), Some("/opt/cuda-12.4"));
    assert_eq!(path(&machine, Some("/opt/own")), None);
    // Its neighbours find headers.
    for place in [
        &format!("{SITE}/nvidia/cuda_runtime/include"),
        "/usr/local/cuda/include",
    ] {
        let found = text(&format!("{place}/cuda_runtime.h"), "");
        assert_eq!(path(&cupy(&[here.clone(), found]), None), None, "{place}");
    }
    // Nothing here serves: each start says so, with the command that gets a toolkit.
    let without = cupy(&[other]);
    let words = ["export", "python3", "-c", "import cupy"];
    let lines = [
        "warning: cupy 13.6.0 finds no cuda_runtime.h, which it needs while it runs",
        "hint: /opt/venv/bin/python3 -m pip install \"nvidia-cuda-runtime-cu12==12.",
    ];
    Run::on(&without, &words)
        .any_stdout()
        .stderr_contains(&lines)
        .check();
    // Nor is anything set that leads another framework away from its wheels, or a person's nvcc.
    let engine = installed("transformer_engine", "transformer-engine-cu12", "2.17.0");
    let both = cupy(&[here.clone(), engine]);
    let code = "import cupy, transformer_engine";
    assert_eq!(set(&both, code, "CUDA_PATH", None), None);
    let include = set(&both, code, "NVTE_CUDA_INCLUDE_DIR", None);
    assert_eq!(include.as_deref(), Some("/opt/cuda-12.4/include"));
    let in_path = link("/usr/bin/nvcc", "/opt/cuda-12.4/bin/nvcc");
    assert_eq!(path(&cupy(&[here, in_path]), None), None);
    // It has headers of its own for an older NVRTC.
    let old = "/opt/venv/lib/python3.12/site-packages/nvidia/cuda_nvrtc/lib";
    let old = library(
        old,
        "libnvrtc",
        "12",
        "12.1.105",
        "exports = ['nvrtcVersion']",
    );
    let served = Run::on(&cupy(&[old]), &words).streams().2;
    assert!(!served.contains("cuda_runtime.h"), "{served}");
    let silent = python(&[installed("cupy", "cupy-cuda12x", "13.6.0")]);
    Run::on(&silent, &words).any_stdout().stderr("").check();
}

#[test]
fn transformer_engine_is_told_the_directory_of_the_headers() {
    let engine = installed("transformer_engine", "transformer-engine-cu12", "2.17.0");
    let here = whole("/opt/cuda-12.4", "12.4.131", 13);
    let machine = python(&[engine, here, gpu(HOPPER, "550.54.15")]);
    let include = |before: Option<&str>| {
        set(
            &machine,
            "import transformer_engine",
            "NVTE_CUDA_INCLUDE_DIR",
            before,
        )
    };
    assert_eq!(include(None).as_deref(), Some("/opt/cuda-12.4/include"));
    assert_eq!(include(Some("/opt/own")), None);
}

#[test]
fn programs_that_serve_models_get_nvcc_without_asking() {
    for (module, distribution, version) in [
        ("vllm", "vllm", "0.19.1"),
        ("sglang", "sglang", "0.5.10"),
        ("deep_gemm", "deep-gemm", "1.0.0"),
    ] {
        let package = installed(module, distribution, version);
        let files =
            |more: &str| python(&[package.clone(), more.to_owned(), gpu(HOPPER, "550.54.15")]);
        let code = format!("import {module}");
        let machine = files(&whole("/opt/cuda-12.4", "12.4.131", 13));
        assert!(
            set(&machine, &code, "CUDA_HOME", None).is_some(),
            "{module}"
        );
        // Only one of them fails without.
        let words = ["export", "python3", "-c", &code];
        let (_, _, said) = Run::on(&files(""), &words).streams();
        assert_eq!(
            said.contains("finds no nvcc"),
            module == "deep_gemm",
            "{said}"
        );
    }
}
