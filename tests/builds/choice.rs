//! The toolkit that a build gets, and the reasons why others do not fit.

use serde_json::Value;

use super::{toolkit, whole};
use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, kernel, link, python, text};

const TORCH_HEADERS: [&str; 4] = ["cublas_v2.h", "cublasLt.h", "cusolverDn.h", "cusparse.h"];

/// torch, built for this CUDA.
fn torch(cuda: &str) -> String {
    text(
        &format!("{SITE}/torch/version.py"),
        &format!("__version__ = '2.6.0'\ncuda: Optional[str] = '{cuda}'\n"),
    ) + &text(&format!("{SITE}/torch/__init__.py"), "")
        + &text(&format!("{SITE}/torch-2.6.0.dist-info/METADATA"), "Name: torch\nVersion: 2.6.0\n")
}

/// A toolkit in the usual place, with the headers that torch includes.
fn installed(release: &str, gcc: u32) -> String {
    let cuda = release.rsplit_once('.').unwrap().0;
    let root = format!("/usr/local/cuda-{cuda}");
    let headers = TORCH_HEADERS.map(|name| text(&format!("{root}/include/{name}"), "/* */")).concat();
    whole(&root, release, gcc) + &headers
}

fn compiler(name: &str) -> String {
    text(&format!("/usr/bin/{name}"), "#!/bin/sh\n")
}

fn with_gcc(major: u32) -> String {
    let real = format!("x86_64-linux-gnu-g++-{major}");
    let named = format!("/usr/bin/g++-{major}");
    compiler(&real) + &link("/usr/bin/g++", &real) + &link(&named, &real)
}

fn build(machine: &Machine, options: &[&str], env: &[(&str, &str)]) -> Value {
    let mut words = vec!["explain", "--json", "--build"];
    words.extend(options);
    words.extend(["python3", "-m", "pip", "--version"]);
    let mut run = Run::on(machine, &words);
    for (name, value) in env {
        run = run.env(name, value);
    }
    run.json()["build"].clone()
}

/// The release of the picked toolkit.
fn picked(machine: &Machine, options: &[&str]) -> String {
    build(machine, options, &[])["toolkit"]["release"].as_str().unwrap().to_owned()
}

/// A refusal, with a part of its reason and of its hint.
fn refused(machine: &Machine, options: &[&str], parts: &[&str]) {
    let mut words = vec!["explain", "--build"];
    words.extend(options);
    words.extend(["python3", "-m", "pip", "--version"]);
    let mut all = vec!["no CUDA toolkit here fits this build", "hint:"];
    all.extend(parts);
    Run::on(machine, &words).status(1).stderr_contains(&all).check();
}

#[test]
fn the_minor_of_the_framework_comes_first_and_the_nearest_one_next() {
    let all = ["11.8.89", "12.1.105", "12.4.131", "12.6.85", "12.8.93", "13.0.88"];
    let without = |left_out: &[&str]| {
        let toolkits =
            all.iter().filter(|release| !left_out.contains(release)).map(|release| installed(release, 15));
        python(&[torch("12.4"), toolkits.collect()])
    };
    assert_eq!(picked(&without(&[]), &[]), "12.4.131");
    assert_eq!(picked(&without(&["12.4.131"]), &[]), "12.6.85");
    assert_eq!(picked(&without(&["12.4.131", "12.6.85"]), &[]), "12.8.93");
    assert_eq!(picked(&without(&["12.4.131", "12.6.85", "12.8.93"]), &[]), "12.1.105");
    let none = without(&["12.4.131", "12.6.85", "12.8.93", "12.1.105"]);
    refused(&none, &[], &["torch 2.6.0 needs CUDA 12", "cuda-toolkit=12.4"]);
    // The driver of CUDA 12.4 does not run 12.6 in full.
    let toolkits = ["12.1.105", "12.6.85"].map(|release| installed(release, 15)).concat();
    let old = python(&[torch("12.4"), toolkits, kernel("550.54.15")]);
    assert_eq!(picked(&old, &[]), "12.1.105");
}

/// The control is the compiler itself, which a toolkit would bring.
#[test]
fn a_missing_program_is_named_before_a_missing_toolkit() {
    let machine = python(&[]);
    for (program, says) in [("nosuch", "`nosuch` was not found"), ("nvcc", "no CUDA toolkit here fits")] {
        let run = Run::on(&machine, &["explain", "--build", program]).any_stdout();
        let status = if program == "nvcc" { 1 } else { 2 };
        run.status(status).stderr_contains(&[says]).check();
    }
}

#[test]
fn without_a_framework_the_newest_that_the_driver_runs_is_picked() {
    let toolkits = ["11.8.89", "12.4.131", "13.0.88"].map(|release| installed(release, 15)).concat();
    assert_eq!(picked(&python(std::slice::from_ref(&toolkits)), &[]), "13.0.88");
    assert_eq!(picked(&python(&[toolkits.clone(), kernel("550.54.15")]), &[]), "12.4.131");
    for name in ["cuda-toolkit=11.8", "toolkit=11.8"] {
        assert_eq!(picked(&python(std::slice::from_ref(&toolkits)), &["--require", name]), "11.8.89");
    }
    refused(
        &python(&[toolkits]),
        &["--require", "cuda-toolkit=12.9"],
        &["is not =12.9", "--require", "12.9"],
    );
}

#[test]
fn headers_that_torch_includes_come_from_its_own_packages_too() {
    let bare = whole("/usr/local/cuda-12.4", "12.4.131", 13);
    let machine = |more: String| python(&[torch("12.4"), bare.clone(), more]);
    refused(&machine(String::new()), &[], &["has no cublas_v2.h, which the headers of torch 2.6.0 include"]);
    let part = |part: &str, name: &str| text(&format!("{SITE}/nvidia/{part}/include/{name}"), "/* */");
    let wheels =
        part("cublas", "cublas_v2.h") + &part("cublas", "cublasLt.h") + &part("cusolver", "cusolverDn.h");
    refused(&machine(wheels.clone()), &[], &["has no cusparse.h"]);
    assert_eq!(picked(&machine(wheels + &part("cusparse", "cusparse.h")), &[]), "12.4.131");
}

#[test]
fn a_compiler_that_nvcc_accepts_is_named_where_the_default_is_too_new() {
    let machine = |gccs: &[u32]| {
        let compilers = gccs.iter().map(|major| compiler(&format!("g++-{major}"))).collect::<String>();
        python(&[installed("11.8.89", 11), with_gcc(14), compilers])
    };
    refused(
        &machine(&[12, 13]),
        &[],
        &["accepts GCC up to 11, and g++ here is GCC 14", "apt install g++-11"],
    );
    let found = build(&machine(&[9, 11, 12]), &[], &[]);
    assert_eq!(found["host_compiler"]["path"], "/usr/bin/g++-11");
    let environment = Run::on(&machine(&[11]), &["export", "--json", "--build", "python3"]).json();
    assert_eq!(environment["environment"]["NVCC_PREPEND_FLAGS"], "-ccbin=/usr/bin/g++-11", "{environment:#}");
    // A person's own choice is not judged.
    for (name, value) in
        [("CUDAHOSTCXX", "clang++"), ("NVCC_CCBIN", "icpx"), ("NVCC_PREPEND_FLAGS", "-ccbin icpx")]
    {
        let found = build(&machine(&[12]), &[], &[(name, value)]);
        assert_eq!(found["host_compiler"], Value::Null, "{name}");
    }
    let accepted = python(&[installed("12.4.131", 13), with_gcc(13)]);
    assert_eq!(build(&accepted, &[], &[])["host_compiler"], Value::Null);
}

#[test]
fn a_broken_toolkit_is_refused_and_another_one_taken() {
    let broken = toolkit("/usr/local/cuda-13.0", "13.0.88", 15, &|name, text| {
        if name.ends_with("cicc") { text.replace("13.0", "13.5") } else { text }
    });
    refused(&python(std::slice::from_ref(&broken)), &[], &["mixed: "]);
    assert_eq!(picked(&python(&[broken, installed("12.4.131", 13)]), &[]), "12.4.131");
}

#[test]
fn a_toolkit_that_others_can_change_is_taken_only_where_a_person_names_it() {
    let closed = installed("12.4.131", 13);
    let open = closed.replace(
        "path = '/usr/local/cuda-12.4/bin/nvcc'\n",
        "path = '/usr/local/cuda-12.4/bin/nvcc'\nmode = 0o777\n",
    );
    assert_ne!(open, closed);
    let machine = python(&[open]);
    refused(&machine, &[], &["all users can write to /usr/local/cuda-12.4/bin/nvcc"]);
    assert_eq!(picked(&python(&[closed]), &[]), "12.4.131", "the neighbour");
    let named = build(&machine, &[], &[("CUDA_HOME", "/usr/local/cuda-12.4")]);
    assert_eq!(named["toolkit"]["release"], "12.4.131");
    let path = build(&machine, &[], &[("PATH", "/usr/local/cuda-12.4/bin:/opt/venv/bin:/usr/bin")]);
    assert_eq!(path["toolkit"]["release"], "12.4.131");
}

#[test]
fn variables_that_name_another_toolkit_are_replaced_and_reported() {
    let toolkits = ["12.4.131", "13.0.88"].map(|release| installed(release, 15)).concat();
    let machine = python(&[torch("12.4"), toolkits]);
    let words = ["explain", "--build", "python3", "-m", "pip", "--version"];
    let run = |home: &str| Run::on(&machine, &words).env("CUDA_HOME", home);
    run("/usr/local/cuda-13.0")
        .stdout_contains(&["CUDA_HOME=/usr/local/cuda-13.0 does not fit", "12.4.131"])
        .check();
    let text = run("/usr/local/cuda-12.4").any_stdout().check();
    assert!(!text.contains("does not fit"), "{text}");
    let export = |name: &str, value: &str| {
        let run = Run::on(&machine, &["export", "--json", "--build", "python3"]);
        run.env(name, value).env("PATH", "/opt/venv/bin:/usr/bin").json()["environment"].clone()
    };
    let set = export("CUDA_PATH", "/usr/local/cuda-13.0");
    for name in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDAToolkit_ROOT"] {
        assert_eq!(set[name], "/usr/local/cuda-12.4", "{name}");
    }
    assert_eq!(set["CUDACXX"], "/usr/local/cuda-12.4/bin/nvcc");
    assert_eq!(set["PATH"], "/usr/local/cuda-12.4/bin:/opt/venv/bin:/usr/bin");
    assert_eq!(set["LIBRARY_PATH"], "/usr/local/cuda-12.4/lib64:/usr/local/cuda-12.4/lib64/stubs");
    assert_eq!(set["CUDNN_HOME"], Value::Null, "there are no headers");
    let set = export("LIBRARY_PATH", "/opt/lib");
    assert_eq!(set["LIBRARY_PATH"], "/usr/local/cuda-12.4/lib64:/usr/local/cuda-12.4/lib64/stubs:/opt/lib");
}

#[test]
fn headers_in_the_wheels_beside_a_framework_are_named() {
    let header = |library: &str, name: &str| {
        text(&format!("{SITE}/nvidia/{library}/include/{name}"), "/* a header */")
    };
    let machine = python(&[
        torch("12.4"),
        installed("12.4.131", 13),
        header("cudnn", "cudnn.h"),
        header("nccl", "nccl.h"),
    ]);
    let export = |name: &str| {
        let run = Run::on(&machine, &["export", "--json", "--build", "python3"]);
        run.env(name, "/opt/own").json()["environment"].clone()
    };
    let set = export("OTHER");
    let cudnn = format!("{SITE}/nvidia/cudnn");
    assert_eq!(set["CUDNN_HOME"], cudnn.as_str());
    assert_eq!(set["CUDNN_PATH"], cudnn.as_str());
    assert_eq!(set["CUDNN_INCLUDE_DIR"], format!("{cudnn}/include"));
    assert_eq!(set["NCCL_HOME"], format!("{SITE}/nvidia/nccl"));
    assert_eq!(export("CUDNN_HOME")["CUDNN_HOME"], Value::Null, "a variable of the person stays");
}

#[test]
fn builds_in_an_environment_of_their_own_are_pointed_out() {
    let asks = "[build-system]\nrequires = [\"setuptools\", \"torch>=2\"]\n";
    let machine = python(&[
        torch("12.4"),
        installed("12.4.131", 13),
        text("/work/asks/pyproject.toml", asks),
        text("/work/plain/pyproject.toml", "[build-system]\nrequires = [\"setuptools\"]\n"),
    ]);
    let is_isolated = |words: &[&str]| {
        let words: Vec<&str> =
            ["explain", "--build", "python3", "-m", "pip"].iter().chain(words).copied().collect();
        Run::on(&machine, &words).any_stdout().check().contains("add --no-build-isolation")
    };
    assert!(is_isolated(&["install", "flash-attn"]));
    assert!(is_isolated(&["install", "/work/plain"]));
    assert!(!is_isolated(&["install", "/work/asks"]));
    assert!(!is_isolated(&["install", "--no-build-isolation", "flash-attn"]));
    assert!(!is_isolated(&["list"]));
}
