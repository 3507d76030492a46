//! What a program certainly needs comes before what it may try, and what a person asks for is kept or refused: with a GPU and
//! without one.

use cudarun::solve::Caution;

use crate::support::Run;
use crate::support::decided::{Decided, decided};
use crate::support::machine::Machine;
use crate::support::parts::{SHIELDED, SITE, cudnn, elf, library, node, python, text};

/// The directories that a family was picked from.
fn picked<'d>(decided: &'d Decided, family: &str) -> Vec<&'d str> {
    let of_family = decided
        .picks
        .iter()
        .filter(|pick| pick.installation.family == family);
    of_family
        .map(|pick| pick.installation.directory.to_str().unwrap())
        .collect()
}

fn installed(name: &str, version: &str, requires: &str) -> String {
    text(
        &format!(
            "{SITE}/{}-{version}.dist-info/METADATA",
            name.replace('-', "_")
        ),
        &format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}\n"),
    )
}

const JIT: &str = "/opt/venv/lib/python3.12/site-packages/nvidia/nvjitlink/lib";
const BOTH: &[&str] = &["python3", "-c", "import torch; import bitsandbytes"];

/// torch for CUDA 12, which is linked against a cuSPARSE that needs nvJitLink 12.4, and bitsandbytes, which has an object for each
/// CUDA. nvJitLink 12.1 and a CUDA 13 are in reach.
fn torch_with_bitsandbytes() -> Vec<String> {
    let wheels = "$ORIGIN/../../nvidia/cuda_runtime/lib:$ORIGIN/../../nvidia/cusparse/lib";
    let object = |cuda: &str, needed: &str| {
        elf(
            &format!("{SITE}/bitsandbytes/libbitsandbytes_cuda{cuda}.so"),
            &format!(
                "soname = 'libbitsandbytes_cuda{cuda}.so', needed = [{needed}], code = ['sm_90']"
            ),
        )
    };
    let jit = |directory: &str, version: &str, symbol: &str| {
        let fields = format!("exports = ['__nvJitLinkCreate_12_1', '{symbol}']");
        library(directory, "libnvJitLink", "12", version, &fields)
    };
    let cusparse = "needed = ['libnvJitLink.so.12'], runpath = '$ORIGIN/../../nvjitlink/lib', \
                    imports = { 'libnvJitLink.so.12' = ['__nvJitLinkComplete_12_4'] }";
    vec![
        text(&format!("{SITE}/torch/__init__.py"), ""),
        text(&format!("{SITE}/torch/version.py"), "cuda = '12.4'\n"),
        installed("torch", "2.5.1", ""),
        elf(
            &format!("{SITE}/torch/lib/libtorch_cuda.so"),
            &format!(
                "soname = 'libtorch_cuda.so', needed = ['libcudart.so.12', 'libcusparse.so.12'], rpath = '{wheels}'"
            ),
        ),
        elf(
            &format!("{SITE}/torch/_C.cpython-312-x86_64-linux-gnu.so"),
            "soname = '_C.so', needed = ['libtorch_cuda.so'], rpath = '$ORIGIN/lib'",
        ),
        text(
            &format!("{SITE}/bitsandbytes/__init__.py"),
            "import torch\n",
        ),
        installed("bitsandbytes", "0.48.2", ""),
        object(
            "124",
            "'libcudart.so.12', 'libcusparse.so.12', 'libnvJitLink.so.12'",
        ),
        object("130", "'libcudart.so.13', 'libnvJitLink.so.13'"),
        library(
            &format!("{SITE}/nvidia/cuda_runtime/lib"),
            "libcudart",
            "12",
            "12.4.127",
            "",
        ),
        library(
            &format!("{SITE}/nvidia/cusparse/lib"),
            "libcusparse",
            "12",
            "12.3.1.170",
            cusparse,
        ),
        jit(JIT, "12.4.127", "__nvJitLinkComplete_12_4"),
        jit("/opt/jit", "12.1.105", "__nvJitLinkComplete_12_1"),
        library("/opt/cuda13", "libcudart", "13", "13.0.96", ""),
        library(
            "/opt/cuda13",
            "libnvJitLink",
            "13",
            "13.0.88",
            "exports = ['__nvJitLinkCreate_13_0']",
        ),
    ]
}

#[test]
fn certain_needs_come_before_names_that_are_tried() {
    for files in [vec![], vec![node()]] {
        let machine = python(&[torch_with_bitsandbytes(), files].concat());
        for path in [
            "/opt/jit",
            "/opt/jit:/opt/cuda13",
            "/opt/cuda13:/opt/jit",
            "/opt/cuda13",
        ] {
            for code in [
                "import torch; import bitsandbytes",
                "import bitsandbytes; import torch",
                "import bitsandbytes",
            ] {
                let explained = decided(&machine, path, &["python3", "-c", code]);
                assert_eq!(
                    picked(&explained, "nvjitlink"),
                    [JIT],
                    "{path}: {explained:#?}"
                );
                assert_eq!(
                    picked(&explained, "cusparse").len(),
                    1,
                    "{path}: {explained:#?}"
                );
                let cudart = format!("{SITE}/nvidia/cuda_runtime/lib");
                assert_eq!(
                    picked(&explained, "cudart"),
                    [cudart],
                    "{path}: {explained:#?}"
                );
            }
        }
    }
}

/// The control: alone, the names that are tried get what is there.
#[test]
fn names_that_are_tried_are_met_where_nothing_is_against_it() {
    let files = torch_with_bitsandbytes();
    let own: Vec<String> = files
        .into_iter()
        .filter(|file| !file.contains(&format!("{SITE}/nvidia")) && !file.contains("torch"))
        .collect();
    let machine = python(&own);
    let explained = decided(
        &machine,
        "/opt/cuda13",
        &["python3", "-c", "import bitsandbytes"],
    );
    assert_eq!(
        picked(&explained, "cudart"),
        ["/opt/cuda13"],
        "{explained:#?}"
    );
}

#[test]
fn what_a_person_asks_for_is_kept_or_refused() {
    let path = "/opt/jit:/opt/cuda13";
    for files in [vec![], vec![node()]] {
        let machine = python(&[torch_with_bitsandbytes(), files].concat());
        let with = |option: &'static str, value: &'static str| [&[option, value], BOTH].concat();
        for (option, value) in [
            ("--pin", "nvjitlink=12.4"),
            ("--require", "nvjitlink>=12.4"),
            ("--pin", "cudart=12.4"),
        ] {
            // Whether the modes of this machine can pin it is another question.
            let explained = decided(&machine, path, &with(option, value));
            assert_eq!(
                picked(&explained, "nvjitlink"),
                [JIT],
                "{value}: {explained:#?}"
            );
            assert_eq!(
                picked(&explained, "cusparse").len(),
                1,
                "{value}: {explained:#?}"
            );
        }
        for (option, value) in [
            // cuSPARSE, which torch is linked against, does not work with these.
            ("--pin", "nvjitlink=12.1"),
            ("--require", "nvjitlink<12.2"),
            ("--pin", "nvjitlink=/opt/jit"),
            // bitsandbytes tries its name, and torch is for another CUDA.
            ("--pin", "nvjitlink=13.0"),
            // It is not installed.
            ("--pin", "nvjitlink=12.9"),
        ] {
            let conflict = decided(&machine, path, &with(option, value));
            assert!(conflict.hint.contains(option), "{value}: {conflict:#?}");
            assert_eq!(conflict.unmet(), "nvjitlink", "{conflict:#?}");
        }
    }
}

/// A pin of names that are only tried, of which nothing is installed. Control: without the pin it starts.
#[test]
fn a_pin_of_what_is_nowhere_is_refused() {
    let files = torch_with_bitsandbytes();
    let without: Vec<String> = files
        .into_iter()
        .filter(|file| !file.contains("libnvJitLink.so.1") || file.contains("bitsandbytes_"))
        .filter(|file| !file.contains("torch"))
        .collect();
    let machine = python(&without);
    let code = ["python3", "-c", "import bitsandbytes"];
    let pinned = [&["--pin", "nvjitlink=12.4"][..], &code].concat();
    let conflict = decided(&machine, "/opt/cuda13", &pinned);
    assert_eq!(conflict.unmet(), "nvjitlink", "{conflict:#?}");
    assert_ne!(decided(&machine, "/opt/cuda13", &code).decision, "conflict");
}

/// jax, which was compiled for cuDNN 9.8.
fn jax() -> Vec<String> {
    vec![
        text(&format!("{SITE}/jax/__init__.py"), ""),
        installed("jax", "0.9.0", "Requires-Dist: jax-cuda12-plugin"),
        installed(
            "jax-cuda12-plugin",
            "0.9.0",
            "Requires-Dist: nvidia-cudnn-cu12>=9.8,<10",
        ),
        elf(
            &format!("{SITE}/jax_cuda12_plugin/xla_cuda_plugin.so"),
            "soname = 'xla_cuda_plugin.so', needed = ['libc.so.6']",
        ),
    ]
}

const OWN_CUDNN: &str = "/opt/venv/lib/python3.12/site-packages/nvidia/cudnn/lib";
const JAX: &[&str] = &["python3", "-c", "import jax"];

fn torn() -> String {
    let whole = cudnn("/opt/torn", "9.16.0.29", SHIELDED);
    let files = whole.split("[[file]]\n").filter(|file| !file.is_empty());
    let kept = files.filter(|file| !file.contains("/libcudnn_cnn.so.9'"));
    kept.map(|file| format!("[[file]]\n{file}")).collect()
}

#[test]
fn without_a_gpu_an_older_set_is_better_than_a_mix() {
    let old = cudnn(OWN_CUDNN, "9.1.0.70", SHIELDED);
    let with = |more: &[String]| python(&[&jax()[..], std::slice::from_ref(&old), more].concat());
    let warning = "no GPU is reachable, and cuDNN 9.1.0.70 is pinned although it is older than 9.8, for which jax 0.9.0 \
                   was compiled";
    let machine = with(&[torn()]);
    let explained = decided(&machine, "/opt/torn", JAX);
    assert_eq!(picked(&explained, "cudnn"), [OWN_CUDNN], "{explained:#?}");
    assert!(
        matches!(explained.cautions[0], Caution::Older { .. }),
        "{explained:#?}"
    );
    let export = |machine: &Machine, path: &str| {
        Run::on(machine, &[&["export"], JAX].concat())
            .env("LD_LIBRARY_PATH", path)
            .any_stdout()
    };
    export(&machine, "/opt/torn")
        .stderr_contains(&[warning])
        .check();
    // The person hides the GPUs: no warning.
    export(&machine, "/opt/torn")
        .env("CUDA_VISIBLE_DEVICES", "")
        .stderr("")
        .check();

    // With a GPU, or if a person insists, it is refused.
    let with_gpu = with(&[torn(), node()]);
    assert_eq!(decided(&with_gpu, "/opt/torn", JAX).unmet(), "cudnn");
    let insisting = [&["--require", "cudnn>=9"][..], JAX].concat();
    assert_eq!(
        decided(&machine, "/opt/torn", &insisting).decision,
        "conflict"
    );
    // Where nothing can be mixed, it is left to the loader.
    let alone = with(&[]);
    export(&alone, "")
        .stderr_contains(&["libcudnn.so.9 is not pinned: no cuDNN here fits"])
        .check();
    // What reaches the floor is picked, in silence.
    let new = cudnn(OWN_CUDNN, "9.10.2.21", SHIELDED);
    let fitting = python(
        &[
            &jax()[..],
            &[new, torn(), old.replace(OWN_CUDNN, "/opt/old")],
        ]
        .concat(),
    );
    let explained = decided(&fitting, "/opt/torn:/opt/old", JAX);
    assert_eq!(picked(&explained, "cudnn"), [OWN_CUDNN], "{explained:#?}");
    assert_eq!(explained.cautions, []);
    // Two parts are no whole.
    let both_torn = python(
        &[
            &jax()[..],
            &[torn(), torn().replace("/opt/torn", OWN_CUDNN)],
        ]
        .concat(),
    );
    export(&both_torn, "/opt/torn")
        .stderr_contains(&["libcudnn.so.9 is not pinned: no cuDNN here fits"])
        .check();
}

/// CTranslate2, which opens cuBLAS of CUDA 12 by its name.
fn ctranslate2(cublas: &str) -> Vec<String> {
    vec![
        text(&format!("{SITE}/ctranslate2/__init__.py"), ""),
        installed("ctranslate2", "4.8.5", ""),
        elf(
            &format!("{SITE}/ctranslate2/_ext.cpython-312-x86_64-linux-gnu.so"),
            "soname = '_ext.so', needed = ['libctranslate2-a7a60d30.so.4.8.5'], rpath = '$ORIGIN/../ctranslate2.libs'",
        ),
        elf(
            &format!("{SITE}/ctranslate2.libs/libctranslate2-a7a60d30.so.4.8.5"),
            &format!(
                "soname = 'libctranslate2-a7a60d30.so.4.8.5', constants = ['{cublas}'], code = ['sm_80'], needed = ['libc.so.6']"
            ),
        ),
    ]
}

fn wheel(name: &str, version: &str, file: &str) -> String {
    let place = format!("{SITE}/{}-{version}.dist-info", name.replace('-', "_"));
    text(&format!("{place}/RECORD"), &format!("{file},sha256=x,\n")) + &installed(name, version, "")
}

fn cublas_12() -> String {
    let place = format!("{SITE}/nvidia/cublas/lib");
    library(&place, "libcublas", "12", "12.4.5.8", "")
        + &library(&place, "libcublasLt", "12", "12.4.5.8", "")
        + &wheel(
            "nvidia-cublas-cu12",
            "12.4.5.8",
            "nvidia/cublas/lib/libcublas.so.12",
        )
}

fn cudnn_12(version: &str) -> String {
    cudnn(OWN_CUDNN, version, SHIELDED)
        + &wheel(
            "nvidia-cudnn-cu12",
            version,
            "nvidia/cudnn/lib/libcudnn.so.9",
        )
}

fn hint(machine: &Machine, path: &str, command: &[&str]) -> String {
    decided(machine, path, command).hint
}

const NEWER_CUDNN: &[&str] = &[
    "--require",
    "cudnn>=9.5,<9.20",
    "python3",
    "-c",
    "import ctranslate2",
];

#[test]
fn a_cudnn_that_a_person_asks_for_is_for_the_cuda_of_the_rest() {
    let thirteen = cudnn("/opt/thirteen", "9.12.0.46", SHIELDED).replace("12040", "13000");
    for installed in [
        vec![cublas_12(), cudnn_12("9.1.0.70")],
        vec![cublas_12(), cudnn_12("9.20.0.48")],
        vec![cublas_12()],
        vec![],
    ] {
        let machine = python(
            &[
                &ctranslate2("libcublas.so.12")[..],
                &installed,
                std::slice::from_ref(&thirteen),
            ]
            .concat(),
        );
        for path in ["", "/opt/thirteen"] {
            let hint = hint(&machine, path, NEWER_CUDNN);
            assert!(hint.contains("\"nvidia-cudnn-cu12==9."), "{hint}");
            assert!(!hint.contains("cu13"), "{hint}");
        }
    }
    // The one for CUDA 12 is picked, whichever comes first.
    let twelve = cudnn("/opt/twelve", "9.10.2.21", SHIELDED);
    let machine = python(
        &[
            &ctranslate2("libcublas.so.12")[..],
            &[cublas_12(), thirteen.clone(), twelve],
        ]
        .concat(),
    );
    for path in ["/opt/thirteen:/opt/twelve", "/opt/twelve:/opt/thirteen"] {
        let explained = decided(&machine, path, NEWER_CUDNN);
        assert_eq!(
            picked(&explained, "cudnn"),
            ["/opt/twelve"],
            "{explained:#?}"
        );
    }
    // A program of CUDA 13, and one that does not say: the one for CUDA 13 fits.
    for cublas in ["libcublas.so.13", "libz.so.1"] {
        let machine = python(&[&ctranslate2(cublas)[..], std::slice::from_ref(&thirteen)].concat());
        let explained = decided(&machine, "/opt/thirteen", NEWER_CUDNN);
        assert_eq!(
            picked(&explained, "cudnn"),
            ["/opt/thirteen"],
            "{explained:#?}"
        );
    }
}

/// Nothing names a CUDA, but the environment has wheels of CUDA 12: those of CUDA 13 would overwrite cuDNN's.
#[test]
fn installed_wheels_decide_which_cuda_is_offered() {
    let code = "import ctypes; ctypes.CDLL('libcudnn.so.9')";
    let command = ["--require", "cudnn>=9.5,<9.20", "python3", "-c", code];
    let machine = python(&[cublas_12(), cudnn_12("9.1.0.70")]);
    let hint = hint(&machine, "", &command);
    assert!(hint.contains("nvidia-cudnn-cu12=="), "{hint}");
    // What is installed is another question: nothing says that the program is for CUDA 12.
    let thirteen = cudnn("/opt/thirteen", "9.12.0.46", SHIELDED).replace("12040", "13000");
    let machine = python(&[cublas_12(), cudnn_12("9.1.0.70"), thirteen]);
    let explained = decided(&machine, "/opt/thirteen", &command);
    assert_eq!(
        picked(&explained, "cudnn"),
        ["/opt/thirteen"],
        "{explained:#?}"
    );
}
