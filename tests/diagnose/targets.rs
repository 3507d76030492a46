//! For which program a text is explained, where nobody names one: three frameworks are installed.

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, elf, python, text};

fn init(module: &str) -> String {
    text(&format!("{SITE}/{module}/__init__.py"), "")
}

/// The program that the answer is for, and the page.
fn answered_for(machine: &Machine, message: &str) -> (String, String) {
    let words = ["diagnose", "--json", "--text", message];
    let program = Run::on(machine, &words).any_stderr().json()["program"].clone();
    let page = Run::on(machine, &["diagnose", "--text", message])
        .any_stdout()
        .check();
    let words: Vec<&str> = page.split_whitespace().collect();
    (program.as_str().unwrap().to_owned(), words.join(" "))
}

#[test]
fn the_message_says_whose_environment_is_asked() {
    let three = python(&[init("cupy"), init("jax"), init("torch")]);
    let cupy = python(&[init("cupy")]);
    let path = format!("{SITE}/cupy/cuda.py");
    for (message, module, why) in [
        (
            "RuntimeError: cuDNN version incompatibility: PyTorch was compiled against (8, 3, 2) but found runtime version (8, 0, 3)",
            "torch",
            "its framework prints such a message",
        ),
        (
            "RuntimeError: Unknown backend: 'cuda' requested, but no platforms that are instantiated match",
            "jax",
            "its framework prints such a message",
        ),
        (
            "CuPy may not function correctly because multiple CuPy packages are installed",
            "cupy",
            "its framework prints such a message",
        ),
        (
            "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
            "torch",
            "its framework is the most common here",
        ),
    ] {
        let (program, page) = answered_for(&three, message);
        assert!(
            program.contains(&format!("import {module}")),
            "{message}: {program}"
        );
        assert!(page.contains(why), "{message}: {page}");
        // The control: what is not installed is not asked.
        let (program, page) = answered_for(&cupy, message);
        assert!(program.contains("import cupy"), "{message}: {program}");
        assert!(module == "cupy" || !page.contains(why), "{message}: {page}");
    }
    let traceback = format!("  File \"{path}\", line 3, in run\nCUDA error: out of memory");
    let (program, page) = answered_for(&three, &traceback);
    assert!(program.contains("import cupy"), "{program}");
    assert!(!page.contains("no program is named"), "{page}");
}

#[test]
fn of_several_frameworks_the_one_with_the_fault_is_the_answers() {
    let torch = text(
        &format!("{SITE}/torch/version.py"),
        "__version__ = '2.5.1+cu124'\ncuda = '12.4'\n",
    );
    let cpu = elf(&format!("{SITE}/bitsandbytes/libbitsandbytes_cpu.so"), "");
    let message = "The installed version was compiled without GPU support.\nbuild compiled without GPU support";
    let both = [init("torch"), torch.clone(), init("bitsandbytes")];
    let broken = python(&[&both[..], &[cpu]].concat());
    let (program, page) = answered_for(&broken, message);
    assert!(program.contains("import bitsandbytes"), "{program}: {page}");
    assert!(
        page.contains("of the frameworks here, it has the fault"),
        "{page}"
    );
    // The control: without the fault, the most common one.
    let cuda = elf(
        &format!("{SITE}/bitsandbytes/libbitsandbytes_cuda124.so"),
        "",
    );
    let right = python(&[&both[..], &[cuda]].concat());
    let (program, page) = answered_for(&right, message);
    assert!(program.contains("import torch"), "{program}: {page}");
}

#[test]
fn what_is_wrong_with_settings_is_said_once_for_all_frameworks() {
    let settings = text("/home/user/.config/cudarun/config.toml", "serch = 1\n");
    let three = python(&[init("cupy"), init("jax"), init("torch"), settings]);
    let message = "ImportError: libcudart.so.12: cannot open shared object file";
    let said = Run::on(&three, &["diagnose", "--text", message]).output_of_both();
    assert_eq!(said.matches("unknown key").count(), 1, "{said}");
}
