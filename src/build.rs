//! Sets how the binary is linked, since half of a warm start is the loader's work on it. Compiles the audit module, which
//! runs in processes without Rust and perhaps without libc. Checks `profiles/` and embeds them as JSON, which is faster to
//! read than TOML.
#![allow(
    clippy::disallowed_methods,
    clippy::exit,
    clippy::print_stderr,
    reason = "a build script has no Host"
)]
#![allow(
    dead_code,
    unreachable_pub,
    clippy::trivially_copy_pass_by_ref,
    reason = "it uses parts of files of the crate"
)]

#[path = "catalog/error_rows.rs"]
mod error_rows;
#[path = "catalog/fault_rows.rs"]
mod fault_rows;
#[path = "catalog/framework_rows.rs"]
mod framework_rows;
mod range;
#[path = "catalog/rows.rs"]
mod rows;
mod version;
#[path = "catalog/wheel_rows.rs"]
mod wheel_rows;
#[path = "catalog/wrapper_rows.rs"]
mod wrapper_rows;

#[path = "catalog/check.rs"]
mod check;
#[path = "catalog/literals.rs"]
mod literals;

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use FaultName as Fault;
use serde::Deserialize;

/// The variable by which the module and the crate get the names of all libraries.
const LIBRARIES: &str = "CUDARUN_LIBRARIES";

/// The name of a row of `faults.toml`, of which the crate has an enum.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct FaultName;

impl TryFrom<String> for FaultName {
    type Error = String;

    fn try_from(name: String) -> Result<FaultName, String> {
        if FAULTS.contains(&name) {
            Ok(FaultName)
        } else {
            Err(format!("profiles/faults.toml has no row `{name}`"))
        }
    }
}

static FAULTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let table = std::fs::read_to_string("profiles/faults.toml").expect("the faults are there");
    let names = table
        .lines()
        .filter_map(|line| line.strip_prefix("name = "));
    names
        .map(|name| name.trim_matches('"').to_owned())
        .collect()
});

fn main() {
    println!("cargo:rerun-if-changed=src/build.rs");
    println!("cargo:rerun-if-changed=src/audit");
    println!("cargo:rerun-if-changed=profiles");
    if let Err(error) = embed_profiles(Path::new("profiles"), &PathBuf::from(required("OUT_DIR"))) {
        eprintln!("{error}");
        std::process::exit(1);
    }
    write_fault_names();
    write_wrapper_names();
    let is = |variable: &str, value: &str| env::var(variable).is_ok_and(|found| found == value);
    let has_loader = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    let is_known = is("CARGO_CFG_TARGET_ARCH", "x86_64") || is("CARGO_CFG_TARGET_ARCH", "aarch64");
    let module = PathBuf::from(required("OUT_DIR")).join("audit.so");
    let libraries = library_names();
    println!("cargo:rustc-env={LIBRARIES}={libraries}");
    if has_loader && is_known {
        compile_module(&module, &libraries);
    } else {
        std::fs::write(&module, []).expect("OUT_DIR can be written to");
    }
    if !has_loader {
        return;
    }
    // Position independence costs 8,000 relocations and 40 page faults at every start, a tenth of it.
    println!("cargo:rustc-link-arg-bins=-no-pie");
    if let Some(argument) = few_segments() {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
    // Nothing unwinds (panic = "abort"), but without this libgcc_s is loaded.
    if has_static_unwinder() {
        println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    }
}

/// Writes the names of the faults as an enum, so that the compiler checks them in code.
fn write_fault_names() {
    let variant = |name: &String| -> String {
        let words = name
            .split('-')
            .map(|word| word[..1].to_uppercase() + &word[1..]);
        words.collect::<String>() + ", "
    };
    let code = format!(
        "/// The name of a row of `profiles/faults.toml`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
        #[serde(rename_all = \"kebab-case\")]
        pub enum Fault {{ {} }}",
        FAULTS.iter().map(variant).collect::<String>()
    );
    std::fs::write(Path::new(&required("OUT_DIR")).join("fault-names.rs"), code)
        .expect("OUT_DIR can be written to");
}

/// Writes the names and the variables in the table of wrappers as sorted arrays. Every start compares its program with them,
/// and reading the table takes longer than the rest of a start.
fn write_wrapper_names() {
    let table =
        std::fs::read_to_string("profiles/wrappers.toml").expect("the table of wrappers is there");
    let table: wrapper_rows::WrapperTable = toml::from_str(&table).expect("the table is checked");
    let names = table
        .wrapper
        .iter()
        .flat_map(|row| &row.names)
        .map(String::as_str);
    let names: BTreeSet<&str> = names
        .map(|name| name.strip_prefix("python -m ").unwrap_or(name))
        .collect();
    let variables = table
        .wrapper
        .iter()
        .flat_map(|row| row.unless.iter().chain(&row.reads).chain(&row.interpreter));
    let variables = variables
        .map(String::as_str)
        .filter(|name| !name.starts_with('/'))
        .collect();
    for (file, words) in [
        ("wrapper-names.rs", names),
        ("wrapper-variables.rs", variables),
    ] {
        let expression = format!("&{words:?}").replace('{', "[").replace('}', "]");
        std::fs::write(Path::new(&required("OUT_DIR")).join(file), expression)
            .expect("OUT_DIR can be written to");
    }
}

/// Checks every file and writes it as JSON. The frameworks become one list, so that a new framework is one file.
fn embed_profiles(profiles: &Path, out: &Path) -> Result<(), String> {
    let toml_files = |directory: &Path| {
        let entries = std::fs::read_dir(profiles.join(directory)).expect("profiles/ can be listed");
        let names = entries
            .map(|entry| directory.join(entry.expect("profiles/ can be listed").file_name()));
        names
            .filter(|path| path.extension().is_some_and(|end| end == "toml"))
            .collect::<BTreeSet<_>>()
    };
    let checked = |path: &PathBuf| {
        let text = std::fs::read_to_string(profiles.join(path)).expect("a profile is text");
        check::checked(path.to_str().expect("a profile's name is text"), &text)
    };
    let write = |path: &Path, value: &serde_json::Value| {
        let file = out.join(path.with_extension("json"));
        std::fs::write(file, value.to_string()).expect("OUT_DIR can be written to");
    };
    for path in toml_files(Path::new("")) {
        write(&path, &checked(&path)?);
    }
    let frameworks = toml_files(Path::new("frameworks"));
    let frameworks = frameworks.iter().map(checked).collect::<Result<_, _>>()?;
    write(
        Path::new("frameworks"),
        &serde_json::Value::Array(frameworks),
    );
    Ok(())
}

/// Asks the linker's driver, which answers with the bare name if it has no such file.
fn has_static_unwinder() -> bool {
    let answer = Command::new(linker())
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    answer
        .is_ok_and(|answer| Path::new(String::from_utf8_lossy(&answer.stdout).trim()).is_absolute())
}

/// Returns the argument for a linker's keyword, for its driver or for the linker itself.
fn keyword(word: &str) -> String {
    if is_without_driver() {
        format!("-z{word}")
    } else {
        format!("-Wl,-z,{word}")
    }
}

/// True if the linker is called directly: for another kind of machine there may be no compiler.
fn is_without_driver() -> bool {
    Path::new(&linker())
        .file_name()
        .is_some_and(|name| name.to_string_lossy().ends_with("lld"))
}

/// Returns the argument that puts code and read-only data in one segment. Zig's linker does so without it.
fn few_segments() -> Option<String> {
    let argument = keyword("noseparate-code");
    if is_without_driver() {
        return Some(argument);
    }
    let probe = PathBuf::from(required("OUT_DIR")).join("probe.so");
    let mut command = Command::new(linker());
    command
        .args(["-shared", "-nostdlib", &argument, "-o"])
        .arg(probe)
        .args(["-x", "c", "/dev/null"]);
    command
        .output()
        .is_ok_and(|output| output.status.success())
        .then_some(argument)
}

/// The stems of all families' members, with blanks between.
fn library_names() -> String {
    let table = std::fs::read_to_string("profiles/libraries.toml").expect("the families are there");
    let table: toml::Table = toml::from_str(&table).expect("the table is checked");
    let families = table["family"].as_array().into_iter().flatten();
    let members = families.filter_map(|family| family.get("members")?.as_array());
    let members: Vec<&str> = members.flatten().filter_map(toml::Value::as_str).collect();
    members.join(" ")
}

/// Compiles the audit module without the standard library and libc. A test checks that it needs no library.
fn compile_module(module: &Path, libraries: &str) {
    let mut command = Command::new(required("RUSTC"));
    command
        .env(LIBRARIES, libraries)
        .args([
            "src/audit/lib.rs",
            "--crate-name=cudarun_audit",
            "--crate-type=cdylib",
            "--edition=2024",
        ])
        .args(["--target", &required("TARGET")])
        .args([
            "-Copt-level=s",
            "-Clto=fat",
            "-Ccodegen-units=1",
            "-Cpanic=abort",
            "-Cforce-unwind-tables=no",
        ])
        .args([
            "-Cstrip=symbols",
            "--remap-path-prefix",
            &format!("{}=", required("CARGO_MANIFEST_DIR")),
        ])
        // Each segment costs every process a system call, and an empty read-only one costs another.
        .arg("-Crelro-level=off")
        .args(few_segments().map(|argument| format!("-Clink-arg={argument}")))
        .args([
            "-Clink-arg=-nostdlib",
            &format!("-Clink-arg={}", keyword("defs")),
        ])
        .arg(format!("-Clinker={}", linker()))
        .arg("-o")
        .arg(module);
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "the module for the dynamic loader: {command:?}:\n{said}"
    );
    said.lines()
        .for_each(|line| println!("cargo:warning={line}"));
}

fn linker() -> String {
    env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned())
}

fn required(variable: &str) -> String {
    env::var(variable).unwrap_or_else(|_| panic!("cargo gives {variable} to build scripts"))
}
