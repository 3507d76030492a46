//! The hints that a person gets when there is no set: on machines that are made for one question each.

use cudarun::requirements::Before;

use crate::support::decided::decided;
use crate::support::machine::Machine;
use crate::support::parts::{
    SHIELDED, SITE, cudnn, elf, library, machine, node, program, python, text,
};

/// torch for CUDA 12 with its DT_RPATH to cuDNN's wheel, and what it pins.
fn torch(pin: &str, rpath: &str) -> String {
    let metadata = format!(
        "Metadata-Version: 2.1\nName: torch\nVersion: 2.5.1\nRequires-Dist: nvidia-cudnn-cu12=={pin}\n\nx\n"
    );
    let fields = format!(
        "soname = 'libtorch_cuda.so', needed = ['libcudnn.so.9', 'libc.so.6'], rpath = '{rpath}'"
    );
    text(&format!("{SITE}/torch/__init__.py"), "")
        + &text(&format!("{SITE}/torch/version.py"), "cuda = '12.4'\n")
        + &text(&format!("{SITE}/torch-2.5.1.dist-info/METADATA"), &metadata)
        + &elf(&format!("{SITE}/torch/lib/libtorch_cuda.so"), &fields)
}

fn wheel(name: &str, version: &str, files: &[&str]) -> String {
    let record: String = files
        .iter()
        .map(|file| format!("{file},sha256=x,\n"))
        .collect();
    let place = format!("{SITE}/{name}-{version}.dist-info");
    text(&format!("{place}/RECORD"), &record)
        + &text(
            &format!("{place}/METADATA"),
            &format!("Name: {name}\nVersion: {version}\n\n"),
        )
}

const TO_THE_WHEEL: &str = "$ORIGIN/../../nvidia/cudnn/lib";
const TORCH: &[&str] = &["python3", "-c", "import torch"];

#[track_caller]
fn hint(machine: &Machine, library_path: &str, command: &[&str]) -> String {
    let conflict = decided(machine, library_path, command);
    assert_eq!(conflict.decision, "conflict");
    conflict.hint
}

#[test]
fn a_release_that_is_known_to_be_bad_is_not_what_pip_is_told() {
    let place = format!("{SITE}/nvidia/cudnn/lib");
    let files = &["nvidia/cudnn/lib/libcudnn.so.9"];
    let machine = python(&[
        node(),
        torch("9.10.0.56", TO_THE_WHEEL),
        cudnn(&place, "9.10.0.56", SHIELDED),
        wheel("nvidia_cudnn_cu12", "9.10.0.56", files),
    ]);
    assert_eq!(
        hint(&machine, "", TORCH),
        "/opt/venv/bin/python3 -m pip install \"nvidia-cudnn-cu12==9.10.2.21\""
    );
}

#[test]
fn a_wheel_that_is_not_what_its_package_brought_is_installed_anew() {
    let place = format!("{SITE}/nvidia/cudnn/lib");
    let machine = python(&[
        node(),
        torch("9.1.0.70", TO_THE_WHEEL),
        cudnn(&place, "9.19.0.56", SHIELDED).replace("12040", "13000"),
        wheel(
            "nvidia_cudnn_cu12",
            "9.1.0.70",
            &["nvidia/cudnn/lib/libcudnn.so.9"],
        ),
    ]);
    let hint = hint(&machine, "", TORCH);
    assert_eq!(
        hint,
        "/opt/venv/bin/python3 -m pip install --force-reinstall --no-deps \"nvidia-cudnn-cu12==9.1.0.70\""
    );
}

#[test]
fn pip_is_no_help_against_a_search_path_that_leads_out_of_the_environment() {
    let machine = python(&[
        node(),
        torch("9.1.0.70", "/opt/conda/lib"),
        cudnn("/opt/conda/lib", "9.1.0.70", SHIELDED).replace("12040", "11080"),
        cudnn(&format!("{SITE}/nvidia/cudnn/lib"), "9.1.0.70", SHIELDED),
    ]);
    let hint = hint(&machine, "", TORCH);
    assert_eq!(
        hint,
        "install cuDNN 9 for CUDA 12 in /opt/conda/lib: no library path can select another one"
    );
}

#[test]
fn packages_are_named_where_there_is_a_manager_for_them_and_as_they_are_called() {
    let files = |dpkg: String| {
        machine(&[
            dpkg,
            program("eight", &["libcudnn.so.8", "libc.so.6"], ""),
            program("nine", &["libcudnn.so.9", "libc.so.6"], ""),
            program(
                "blas",
                &["libcublas.so.12", "libcufft.so.11", "libc.so.6"],
                "",
            ),
        ])
    };
    let dpkg = text("/var/lib/dpkg/status", "");
    let debian =
        files(dpkg.clone() + &text("/etc/apt/sources.list.d/cuda-debian12-x86_64.list", ""));
    assert_eq!(
        hint(&debian, "", &["nine"]),
        "apt install libcudnn9-cuda-12"
    );
    assert_eq!(hint(&debian, "", &["blas"]), "apt install cuda-toolkit-12");
    let eight = "install cuDNN 8, and add its directory to LD_LIBRARY_PATH";
    assert_eq!(hint(&debian, "", &["eight"]), eight);
    let without_the_repository = files(dpkg);
    let nine = "install cuDNN 9, and add its directory to LD_LIBRARY_PATH";
    assert_eq!(hint(&without_the_repository, "", &["nine"]), nine);
    let other = files(String::new());
    assert_eq!(
        hint(&other, "", &["blas"]),
        "install cuBLAS for CUDA 12 and cuFFT for CUDA 12, and add their directories to LD_LIBRARY_PATH"
    );
}

#[test]
fn a_wheel_that_was_left_behind_and_is_opened_by_its_path_is_to_go() {
    let machine = python(&[
        node(),
        text(&format!("{SITE}/torch/__init__.py"), ""),
        text(&format!("{SITE}/torch/version.py"), "cuda = '13.0'\n"),
        text(
            &format!("{SITE}/torch-2.11.0.dist-info/METADATA"),
            "Name: torch\nVersion: 2.11.0\n\n",
        ),
        elf(
            &format!("{SITE}/torch/lib/libtorch_cuda.so"),
            "soname = 'libtorch_cuda.so', needed = ['libcusparse.so.12'], rpath = '$ORIGIN/../../nvidia/cu13/lib'",
        ),
        library(
            &format!("{SITE}/nvidia/cu13/lib"),
            "libcusparse",
            "12",
            "12.6.3",
            "needed = ['libnvJitLink.so.13']",
        ),
        library(
            &format!("{SITE}/nvidia/cu13/lib"),
            "libnvJitLink",
            "13",
            "13.0.88",
            "",
        ),
        library(
            &format!("{SITE}/nvidia/cusparse/lib"),
            "libcusparse",
            "12",
            "12.3.1",
            "needed = ['libnvJitLink.so.12']",
        ),
        library(
            &format!("{SITE}/nvidia/nvjitlink/lib"),
            "libnvJitLink",
            "12",
            "12.4.127",
            "",
        ),
        wheel(
            "nvidia_cusparse",
            "12.6.3",
            &["nvidia/cu13/lib/libcusparse.so.12"],
        ),
        wheel(
            "nvidia_cusparse_cu12",
            "12.3.1.170",
            &["nvidia/cusparse/lib/libcusparse.so.12"],
        ),
    ]);
    let conflict = decided(&machine, "", TORCH);
    assert_eq!(
        conflict.hint, "/opt/venv/bin/python3 -m pip uninstall nvidia-cusparse-cu12",
        "{conflict:#?}"
    );
    let taken = &conflict.unmet[0].forced[0];
    assert_eq!(taken.rules.first(), Some(&Before::AbsolutePath));
}

#[test]
fn a_recorded_version_that_is_too_old_for_another_is_not_what_pip_is_told() {
    let place = format!("{SITE}/nvidia/cudnn/lib");
    let plugin =
        "Name: jax-cuda12-plugin\nVersion: 0.5.3\nRequires-Dist: nvidia-cudnn-cu12>=9.8,<10\n\n";
    let machine = python(&[
        node(),
        torch("9.1.0.70", TO_THE_WHEEL),
        cudnn(&place, "9.1.0.70", SHIELDED),
        wheel(
            "nvidia_cudnn_cu12",
            "9.1.0.70",
            &["nvidia/cudnn/lib/libcudnn.so.9"],
        ),
        text(&format!("{SITE}/jax/__init__.py"), ""),
        text(
            &format!("{SITE}/jax-0.5.3.dist-info/METADATA"),
            "Name: jax\nVersion: 0.5.3\nRequires-Dist: jax-cuda12-plugin\n\n",
        ),
        text(
            &format!("{SITE}/jax_cuda12_plugin-0.5.3.dist-info/METADATA"),
            plugin,
        ),
        elf(
            &format!("{SITE}/jax_cuda12_plugin/xla_cuda_plugin.so"),
            "soname = 'xla_cuda_plugin.so', needed = ['libc.so.6']",
        ),
    ]);
    let hint = hint(&machine, "", &["python3", "-c", "import torch, jax"]);
    assert_eq!(
        hint,
        "/opt/venv/bin/python3 -m pip install \"nvidia-cudnn-cu12==9.8.0.87\""
    );
}

#[test]
fn a_family_with_two_problems_is_named_once() {
    let machine = machine(&[
        cudnn("/opt/old", "9.1.0.70", SHIELDED),
        cudnn("/opt/new", "9.10.2.21", SHIELDED),
        program("app", &["libcudnn.so.9", "libc.so.6"], ""),
    ]);
    let words = ["--require", "cudnn>=9.5", "--require", "cudnn<9.3", "app"];
    let hint = hint(&machine, "/opt/old:/opt/new", &words);
    assert_eq!(
        hint,
        "change --require of cuDNN: `cudarun list` shows the installations"
    );
}

/// torch pins both to one version, and newer ones would fit as well. Control: what it does not pin is the newest.
#[test]
fn every_part_of_a_toolkit_is_of_the_version_that_upstream_tested_with() {
    let metadata = |pins: &str| {
        let head = "Metadata-Version: 2.1\nName: torch\nVersion: 2.5.1\n";
        text(
            &format!("{SITE}/torch-2.5.1.dist-info/METADATA"),
            &format!("{head}{pins}\nx\n"),
        )
    };
    let needed = "'libnvrtc.so.12', 'libcudart.so.12', 'libnvJitLink.so.12', 'libc.so.6'";
    let object = elf(
        &format!("{SITE}/torch/lib/libtorch_cuda.so"),
        &format!("soname = 'libtorch_cuda.so', needed = [{needed}]"),
    );
    let hint_with = |pins: &str| {
        let machine = python(&[
            node(),
            text(&format!("{SITE}/torch/__init__.py"), ""),
            text(&format!("{SITE}/torch/version.py"), "cuda = '12.4'\n"),
            object.clone(),
            metadata(pins),
            library("/opt/cuda", "libcudart", "12", "12.1.105", ""),
        ]);
        let words = [
            "--require",
            "cudart>=12.4",
            "--require",
            "nvrtc>=12.4",
            "--require",
            "nvjitlink>=12.4",
        ];
        hint(&machine, "/opt/cuda", &[&words, TORCH].concat())
    };
    let wheels = [
        "nvidia-cuda-nvrtc-cu12",
        "nvidia-cuda-runtime-cu12",
        "nvidia-nvjitlink-cu12",
    ];
    let pins = wheels.map(|wheel| format!("Requires-Dist: {wheel}==12.4.127\n"));
    let hint = hint_with(&pins.concat());
    for wheel in wheels {
        assert!(hint.contains(&format!("{wheel}==12.4.127")), "{hint}");
    }
    let hint = hint_with(&pins[..1].concat());
    assert!(hint.contains("nvidia-cuda-nvrtc-cu12==12.4.127"), "{hint}");
    assert!(hint.contains("nvidia-nvjitlink-cu12==12.9"), "{hint}");
}
