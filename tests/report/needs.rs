//! The first line of `explain` and the programs of `doctor`: what the program certainly lacks is said there.

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SHIELDED, SITE, cudnn, elf, library, python, text};

const WHEELS: &str = "/opt/venv/lib/python3.12/site-packages/nvidia";

/// torch, linked against cuDNN and NCCL, and a package of kernels that was built for another torch.
fn environment(files: &[String]) -> Machine {
    let rpath = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN/../../nvidia/nccl/lib";
    let record = "kernels/_C.abi3.so,sha256=x,\n";
    let mut all = vec![
        elf(
            "/lib64/ld-linux-x86-64.so.2",
            "soname = 'ld-linux-x86-64.so.2'",
        ),
        text(&format!("{SITE}/torch/__init__.py"), ""),
        text(&format!("{SITE}/torch/version.py"), "cuda = '12.4'\n"),
        text(
            &format!("{SITE}/torch-2.5.1.dist-info/METADATA"),
            "Name: torch\nVersion: 2.5.1\n",
        ),
        elf(
            &format!("{SITE}/torch/lib/libtorch_cuda.so"),
            &format!(
                "soname = 'libtorch_cuda.so', needed = ['libcudnn.so.9', 'libnccl.so.2'], rpath = '{rpath}', exports = ['_ZN3c105ErrorC1Ev'], unversioned = true"
            ),
        ),
        text(&format!("{SITE}/kernels/__init__.py"), "import torch\n"),
        text(
            &format!("{SITE}/kernels-1.0.dist-info/METADATA"),
            "Name: kernels\nVersion: 1.0\nRequires-Dist: torch==2.6.0\n",
        ),
        text(&format!("{SITE}/kernels-1.0.dist-info/RECORD"), record),
        cudnn(&format!("{WHEELS}/cudnn/lib"), "9.10.2.21", SHIELDED),
    ];
    all.extend(files.iter().cloned());
    python(&all)
}

fn nccl() -> String {
    library(&format!("{WHEELS}/nccl/lib"), "libnccl", "2", "2.21.5", "")
}

fn explained(machine: &Machine, code: &str) -> String {
    Run::on(machine, &["explain", "python3", "-c", code])
        .output()
        .0
}

/// The text in one line, since its lines are wrapped.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_library_that_a_framework_is_linked_against_is_certainly_needed() {
    let whole = explained(&environment(&[nccl()]), "import torch");
    let first = whole.lines().next().unwrap();
    assert_eq!(
        first,
        "`python3` starts with 2 NVIDIA libraries that fit together"
    );
    let lacking = explained(&environment(&[]), "import torch");
    let first = lacking.lines().next().unwrap();
    assert_eq!(
        first,
        "`python3` starts with 1 NVIDIA library, but libnccl.so.2 is not installed"
    );
    assert!(
        unwrapped(&lacking).contains("torch 2.5.1 cannot be loaded without it"),
        "{lacking}"
    );
    assert!(
        !unwrapped(&lacking).contains("without it the GPU is not used"),
        "{lacking}"
    );
    // A guess is no certain need.
    let guessed = explained(&environment(&[]), "exec('')");
    assert!(
        !guessed.lines().next().unwrap().contains("but"),
        "{guessed}"
    );
}

#[test]
fn doctor_names_the_extensions_of_a_program_that_do_not_fit() {
    let kernels = |symbol: &str| {
        environment(&[
            nccl(),
            elf(
                &format!("{SITE}/torch/lib/libtorch_python.so"),
                "soname = 'libtorch_python.so'",
            ),
            elf(
                &format!("{SITE}/kernels/_C.abi3.so"),
                &format!("needed = ['libtorch_cuda.so'], imports = {{ '' = ['{symbol}'] }}"),
            ),
        ])
    };
    let program = |machine: &Machine, code: &str| {
        let text = Run::on(machine, &["doctor", "python3", "-c", code])
            .output()
            .0;
        let (_, program) = text.split_once("python3 -c ").unwrap();
        program.to_owned()
    };
    let sentence = "kernels/_C.abi3.so needs 1 symbol, which torch 2.5.1 does not have";
    let broken = kernels("_ZNK3c105Error4whatEv");
    let said = program(&broken, "import kernels");
    let said = unwrapped(&said);
    assert!(said.contains(sentence), "{said}");
    assert!(
        said.contains("pip install 'torch==2.6.0'") || said.contains("pip install torch==2.6.0"),
        "{said}"
    );
    // Of a program that does not import it, and of a module that fits, nothing is said.
    assert!(!program(&broken, "import torch").contains("needs 1 symbol"));
    let fits = kernels("_ZN3c105ErrorC1Ev");
    assert!(!program(&fits, "import kernels").contains("needs 1 symbol"));
}
