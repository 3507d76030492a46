//! Parts of machines made of text, for machines that are made for one question each.

use serde_json::Value;

use super::Run;
use super::machine::Machine;

/// A machine with a C library and these files.
pub fn machine(files: &[String]) -> Machine {
    let base = elf(
        "/usr/lib/x86_64-linux-gnu/libc.so.6",
        "soname = 'libc.so.6', exports = ['malloc']",
    );
    Machine::describe(&format!(
        "about = 'one question'\n{base}{}{}",
        link("/lib", "usr/lib"),
        files.concat()
    ))
}

pub fn elf(path: &str, fields: &str) -> String {
    format!("[[file]]\npath = '{path}'\nelf = {{ {fields} }}\n")
}

pub fn link(path: &str, program: &str) -> String {
    format!("[[file]]\npath = '{path}'\nlink = '{program}'\n")
}

pub fn text(path: &str, text: &str) -> String {
    format!("[[file]]\npath = '{path}'\ntext = '''{text}'''\n")
}

/// A program that the loader starts.
pub fn program(name: &str, needed: &[&str], fields: &str) -> String {
    let interpreter = "interpreter = '/lib64/ld-linux-x86-64.so.2'";
    elf(
        &format!("/usr/bin/{name}"),
        &format!("{interpreter}, needed = {needed:?}, {fields}"),
    )
}

/// `libcufft.so.11.2.1` with the SONAME `libcufft.so.11`, and the link from there.
pub fn library(directory: &str, stem: &str, number: &str, version: &str, fields: &str) -> String {
    let file = format!("{stem}.so.{version}");
    let soname = format!("{stem}.so.{number}");
    elf(
        &format!("{directory}/{file}"),
        &format!("soname = '{soname}', {fields}"),
    ) + &link(&format!("{directory}/{soname}"), &file)
}

pub const SUBLIBRARIES: [&str; 6] = [
    "libcudnn_ops",
    "libcudnn_cnn",
    "libcudnn_adv",
    "libcudnn_heuristic",
    "libcudnn_engines_precompiled",
    "libcudnn_engines_runtime_compiled",
];

/// A whole cuDNN 9, built for CUDA 12.
pub fn cudnn(directory: &str, version: &str, main: &str) -> String {
    let number = version.replace('.', "_");
    let graph = format!(
        "soname = 'libcudnn_graph.so.9', runpath = '$ORIGIN', constants = ['cudnn_version_{number}_'], \
         functions = {{ cudnnGetCudartVersion = 12040 }}"
    );
    let part = |stem: &str| {
        elf(
            &format!("{directory}/{stem}.so.9"),
            &format!("soname = '{stem}.so.9', runpath = '$ORIGIN'"),
        )
    };
    elf(
        &format!("{directory}/libcudnn.so.9"),
        &format!("soname = 'libcudnn.so.9', {main}"),
    ) + &elf(&format!("{directory}/libcudnn_graph.so.9"), &graph)
        + &SUBLIBRARIES.map(part).concat()
}

pub const SHIELDED: &str = "runpath = '$ORIGIN'";

/// The kernel's driver, and a GPU that can be reached.
pub fn kernel(version: &str) -> String {
    text("/sys/module/nvidia/version", version) + &node()
}

/// The device node of a GPU. Without one, packages use the CPU.
pub fn node() -> String {
    text("/dev/nvidia0", "") + &text("/dev/nvidiactl", "")
}

pub fn driver(directory: &str, version: &str) -> String {
    library(directory, "libcuda", "1", version, "exports = ['cuInit']")
}

pub fn compat(directory: &str, version: &str, branches: &str) -> String {
    let note =
        format!(r#"{{"format":1,"CUDA version":"13.0","driver":[{branches}],"device":[1]}}"#);
    library(
        directory,
        "libcuda",
        "1",
        version,
        &format!("exports = ['cuInit'], forward_compatibility = '{note}'"),
    )
}

pub const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";

/// A Python environment with these files in its site-packages.
pub fn python(files: &[String]) -> Machine {
    let config = "home = /usr/bin\nversion_info = 3.12.3\ninclude-system-site-packages = false\n";
    let mut all = vec![
        program("python3.12", &["libc.so.6"], ""),
        link("/usr/bin/python3", "/opt/venv/bin/python3"),
        link("/opt/venv/bin/python3", "/usr/bin/python3.12"),
        text("/opt/venv/pyvenv.cfg", config),
        text(
            &format!("{SITE}/pip-24.0.dist-info/METADATA"),
            "Name: pip\nVersion: 24.0\n",
        ),
    ];
    all.extend(files.iter().cloned());
    let mut machine = machine(&all);
    machine
        .env
        .insert("PATH".to_owned(), "/opt/venv/bin:/usr/bin".to_owned());
    machine
}

pub const SITE: &str = "/opt/venv/lib/python3.12/site-packages";

/// The output of `export` when there is no set.
pub fn refused(machine: &Machine, library_path: &str, command: &[&str]) -> Value {
    let arguments: Vec<&str> = ["export", "--json"]
        .iter()
        .chain(command)
        .copied()
        .collect();
    Run::on(machine, &arguments)
        .env("LD_LIBRARY_PATH", library_path)
        .status(1)
        .stderr_contains(&[])
        .json()
}
