//! Programs with modules for CUDA in directories of their own.

use crate::support::Run;
use crate::support::decided::decided;
use crate::support::machine::Machine;
use crate::support::parts::{
    SYSTEM, driver as driver_of, elf, kernel, library, machine as with, text,
};

/// A module with the libraries beside it, for one CUDA major.
fn module(directory: &str, file: &str, cuda: &str, version: &str) -> String {
    let needed =
        format!("needed = ['libcudart.so.{cuda}', 'libcublas.so.{cuda}'], runpath = '$ORIGIN'");
    elf(
        &format!("{directory}/{file}"),
        &format!("soname = '{file}', {needed}"),
    ) + &library(
        directory,
        "libcudart",
        cuda,
        version,
        "exports = ['cudaMalloc']",
    ) + &library(
        directory,
        "libcublas",
        cuda,
        version,
        &format!("needed = ['libcublasLt.so.{cuda}']"),
    ) + &library(
        directory,
        "libcublasLt",
        cuda,
        version,
        "exports = ['cublasLtCreate']",
    )
}

fn directories(machine: &Machine, program: &str) -> Vec<(String, String)> {
    let explained = decided(machine, "/opt/other", &[program]);
    let mut picks: Vec<(String, String)> = Vec::new();
    for pick in &explained.picks {
        let installation = &pick.installation;
        if installation.family != "driver" {
            picks.push((
                installation.family.clone(),
                installation.directory.display().to_string(),
            ));
        }
    }
    picks
}

/// A program that is linked against the C library alone.
fn program(path: &str) -> String {
    elf(
        path,
        "interpreter = '/lib64/ld-linux-x86-64.so.2', needed = ['libc.so.6']",
    )
}

fn machine(files: &[String]) -> Machine {
    // Another set that LD_LIBRARY_PATH leads to.
    let other = library(
        "/opt/other",
        "libcudart",
        "12",
        "12.1.105",
        "exports = ['cudaMalloc']",
    );
    with(&[files, &[other]].concat())
}

#[test]
fn the_libraries_beside_a_module_are_the_programs_own() {
    let directory = "/usr/local/lib/ollama/cuda_v12";
    let ollama = machine(&[
        program("/usr/local/bin/ollama"),
        module(directory, "libggml-cuda.so", "12", "12.8.90"),
        kernel("550.54.15"),
    ]);
    let own = |directory: &str| {
        ["cudart", "cublas"]
            .map(|family| (family.to_owned(), directory.to_owned()))
            .to_vec()
    };
    assert_eq!(
        directories(&ollama, "/usr/local/bin/ollama"),
        own(directory)
    );
    let llama = machine(&[
        program("/opt/llama/llama-server"),
        module("/opt/llama", "libggml-cuda.so", "12", "12.4.127"),
        kernel("550.54.15"),
    ]);
    assert_eq!(
        directories(&llama, "/opt/llama/llama-server"),
        own("/opt/llama")
    );
    // Its neighbour: another program beside it.
    let other = machine(&[
        program("/opt/llama/server"),
        module("/opt/llama", "libggml-cuda.so", "12", "12.4.127"),
    ]);
    assert_eq!(directories(&other, "/opt/llama/server"), []);
}

#[test]
fn the_module_for_the_driver_is_taken() {
    let files = |driver: &str| {
        machine(&[
            program("/usr/bin/ollama"),
            module(
                "/usr/lib/ollama/cuda_v12",
                "libggml-cuda.so",
                "12",
                "12.8.90",
            ),
            module(
                "/usr/lib/ollama/cuda_v13",
                "libggml-cuda.so",
                "13",
                "13.0.48",
            ),
            kernel(driver),
            driver_of(SYSTEM, driver),
        ])
    };
    let picked = |driver: &str| {
        let mut all = directories(&files(driver), "/usr/bin/ollama");
        all.dedup_by(|a, b| a.1 == b.1);
        all.into_iter()
            .map(|(_, directory)| directory)
            .collect::<Vec<_>>()
    };
    assert_eq!(picked("550.54.15"), ["/usr/lib/ollama/cuda_v12"]);
    assert!(picked("580.95.05").contains(&"/usr/lib/ollama/cuda_v13".to_owned()));
}

#[test]
fn a_program_for_several_systems_is_named_with_its_module() {
    let files = [
        text("/opt/model.llamafile", "MZqFpD=\n") + "mode = 0o755\n",
        module(
            "/home/user/.llamafile/v/0.9.3",
            "ggml-cuda.so",
            "12",
            "12.4.127",
        ),
    ];
    let machine = machine(&files);
    let run = Run::on(&machine, &["explain", "/opt/model.llamafile"]);
    run.stdout_contains(&["libcudart.so.12"]).check();
}

#[test]
fn a_script_beside_a_module_is_a_script() {
    let files = [
        text("/opt/llama/llama-menu", "echo menu\n") + "mode = 0o755\n",
        module("/opt/llama", "libggml-cuda.so", "12", "12.4.127"),
    ];
    let machine = machine(&files);
    let page = Run::on(&machine, &["explain", "/opt/llama/llama-menu"])
        .any_stdout()
        .check();
    assert!(!page.contains("linked statically"), "{page}");
}
