//! Compilers that frameworks need while they run.

use super::{toolkit, whole};
use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, kernel, node, python, text};

const DEVICE: &str = "nvidia/cuda_nvcc/nvvm/libdevice/libdevice.10.bc";

fn triton() -> String {
    text(&format!("{SITE}/triton/__init__.py"), "")
        + &text(&format!("{SITE}/triton-3.6.0.dist-info/METADATA"), "Name: triton\nVersion: 3.6.0\n")
}

fn jax() -> String {
    text(&format!("{SITE}/jax/__init__.py"), "")
        + &text(&format!("{SITE}/jaxlib/__init__.py"), "")
        + &text(&format!("{SITE}/jax_plugins/xla_cuda12/__init__.py"), "")
        + &text(&format!("{SITE}/jaxlib-0.8.3.dist-info/METADATA"), "Name: jaxlib\nVersion: 0.8.3\n")
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
    let toolkits =
        whole("/usr/local/cuda-12.4", "12.4.131", 13) + &whole("/usr/local/cuda-12.8", "12.8.93", 14);
    let machine = python(&[triton(), toolkits.clone(), kernel("580.95.05")]);
    let ptxas = Some("/usr/local/cuda-12.8/bin/ptxas".to_owned());
    assert_eq!(set(&machine, "import triton", "TRITON_PTXAS_PATH", None), ptxas);
    assert_eq!(
        set(&machine, "import triton", "TRITON_PTXAS_PATH", Some("/opt/ptxas")),
        None,
        "a person's own"
    );
    assert_eq!(set(&machine, "print()", "TRITON_PTXAS_PATH", None), None, "not a program of triton");
    // A child of another environment may be older or newer.
    let code = "import triton, subprocess; subprocess.run(['x'])";
    assert_eq!(set(&machine, code, "TRITON_PTXAS_PATH", None), None);
    let said = Run::on(&machine, &["explain", "python3", "-c", code]);
    said.stdout_contains(&["finds no ptxas", "set it yourself", "TRITON_PTXAS_PATH="]).check();
    let own = text(&format!("{SITE}/triton/backends/nvidia/bin/ptxas"), "own");
    let machine = python(&[triton(), own, toolkits.clone(), kernel("580.95.05")]);
    assert_eq!(set(&machine, "import triton", "TRITON_PTXAS_PATH", None), None, "its own is there");
    let machine = python(&[triton(), toolkits]);
    assert_eq!(set(&machine, "import triton", "TRITON_PTXAS_PATH", None), None, "without a GPU");
}

#[test]
fn diagnose_names_the_compiler_that_a_framework_does_not_find() {
    let toolkit = whole("/usr/local/cuda-12.8", "12.8.93", 14);
    let causes = |files: &[String], message: &str, code: &str| {
        let words = ["diagnose", "--json", "--text", message, "python3", "-c", code];
        Run::on(&python(&[&[kernel("580.95.05")], files].concat()), &words).json()["causes"].clone()
    };
    for (framework, code, message) in [
        (triton(), "import triton", "RuntimeError: Cannot find ptxas"),
        (jax(), "import jax", "libdevice not found at ./libdevice.10.bc"),
    ] {
        let first = causes(&[framework.clone(), toolkit.clone()], message, code)[0].clone();
        assert_eq!(
            (&first["cause"], &first["certainty"]),
            (&"not-on-path".into(), &"is".into()),
            "{first:#}"
        );
        assert_eq!(first["cures"][0]["do"], format!("cudarun python3 -c '{code}'"), "{first:#}");
        let control = causes(&[framework], message, code);
        let sure = control.as_array().unwrap().iter().find(|cause| cause["certainty"] == "is").unwrap();
        assert_ne!(sure["cause"], "not-on-path", "{control:#}");
    }
}

#[test]
fn a_driver_decides_how_new_a_compiler_may_be() {
    let toolkits =
        whole("/usr/local/cuda-12.4", "12.4.131", 13) + &whole("/usr/local/cuda-13.0", "13.0.88", 15);
    let of = |driver: &str| {
        let machine = python(&[triton(), toolkits.clone(), kernel(driver)]);
        set(&machine, "import triton", "TRITON_PTXAS_PATH", None)
    };
    assert_eq!(of("580.95.05").as_deref(), Some("/usr/local/cuda-13.0/bin/ptxas"));
    assert_eq!(of("550.54.15").as_deref(), Some("/usr/local/cuda-12.4/bin/ptxas"));
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
    assert_eq!(set(&lacks, "import jax", "CUDA_ROOT", None).as_deref(), Some("/opt/cuda-12.8"));
    assert_eq!(set(&lacks, "import jax", "CUDA_ROOT", Some("/srv")), None);
    let found = machine(&[elsewhere, text(&format!("{SITE}/{DEVICE}"), "own")]);
    assert_eq!(set(&found, "import jax", "CUDA_ROOT", None), None);
    let incomplete = toolkit("/opt/cuda-12.8", "12.8.93", 14, &|name, text| {
        if name.contains("libdevice") { String::new() } else { text }
    });
    let none = machine(&[incomplete]);
    assert_eq!(set(&none, "import jax", "CUDA_ROOT", None), None);
    let said = Run::on(&none, &["explain", "python3", "-c", "import jax"]);
    said.stdout_contains(&["finds no libdevice.10.bc, and no toolkit here has one"]).check();
    // Without the kernel's driver, jax uses the CPU.
    let machine = python(&[jax(), node(), whole("/opt/cuda-12.8", "12.8.93", 14)]);
    assert_eq!(set(&machine, "import jax", "CUDA_ROOT", None), None);
}

#[test]
fn options_of_xla_are_added_to_those_that_are_set() {
    let tensorflow = text(&format!("{SITE}/tensorflow/__init__.py"), "")
        + &text(&format!("{SITE}/tensorflow/python/platform/build_info.py"), "")
        + &text(
            &format!("{SITE}/tensorflow-2.19.1.dist-info/METADATA"),
            "Name: tensorflow\nVersion: 2.19.1\n",
        );
    let machine = python(&[tensorflow, whole("/opt/cuda-12.8", "12.8.93", 14), kernel("580.95.05")]);
    let flag = "--xla_gpu_cuda_data_dir=/opt/cuda-12.8";
    assert_eq!(set(&machine, "import tensorflow", "XLA_FLAGS", None).as_deref(), Some(flag));
    let both = format!("--xla_dump_to=/tmp/x {flag}");
    assert_eq!(set(&machine, "import tensorflow", "XLA_FLAGS", Some("--xla_dump_to=/tmp/x")), Some(both));
    assert_eq!(set(&machine, "import tensorflow", "XLA_FLAGS", Some("--xla_gpu_cuda_data_dir=/srv")), None);
}
