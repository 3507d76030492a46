//! The toolkit that a build gets, and the reasons why others do not fit.

use serde_json::Value;

use super::{BLACKWELL, HOPPER, gpu, toolkit, whole};
use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, kernel, link, program, python, text};

const TORCH_HEADERS: [&str; 4] = ["cublas_v2.h", "cublasLt.h", "cusolverDn.h", "cusparse.h"];

/// torch, built for this CUDA.
fn torch(cuda: &str) -> String {
    text(
        &format!("{SITE}/torch/version.py"),
        &format!("__version__ = '2.6.0'\ncuda: Optional[str] = '{cuda}'\n"),
    ) + &text(&format!("{SITE}/torch/__init__.py"), "")
        + &text(
            &format!("{SITE}/torch-2.6.0.dist-info/METADATA"),
            "Name: torch\nVersion: 2.6.0\n",
        )
}

/// A toolkit in the usual place, with the headers that torch includes.
fn installed(release: &str, gcc: u32) -> String {
    let cuda = release.rsplit_once('.').unwrap().0;
    let root = format!("/usr/local/cuda-{cuda}");
    let headers = TORCH_HEADERS
        .map(|name| text(&format!("{root}/include/{name}"), "/* */"))
        .concat();
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
    build(machine, options, &[])["toolkit"]["release"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// A refusal, with a part of its reason and of its hint.
fn refused(machine: &Machine, options: &[&str], parts: &[&str]) {
    let mut words = vec!["explain", "--build"];
    words.extend(options);
    words.extend(["python3", "-m", "pip", "--version"]);
    let mut all = vec!["no CUDA toolkit here fits this build", "hint:"];
    all.extend(parts);
    Run::on(machine, &words)
        .status(1)
        .stderr_contains(&all)
        .check();
}

#[test]
fn the_minor_of_the_framework_comes_first_and_the_nearest_one_next() {
    let all = [
        "11.8.89", "12.1.105", "12.4.131", "12.6.85", "12.8.93", "13.0.88",
    ];
    let without = |left_out: &[&str]| {
        let toolkits = all
            .iter()
            .filter(|release| !left_out.contains(release))
            .map(|release| installed(release, 15));
        python(&[torch("12.4"), toolkits.collect()])
    };
    assert_eq!(picked(&without(&[]), &[]), "12.4.131");
    assert_eq!(picked(&without(&["12.4.131"]), &[]), "12.6.85");
    assert_eq!(picked(&without(&["12.4.131", "12.6.85"]), &[]), "12.8.93");
    assert_eq!(
        picked(&without(&["12.4.131", "12.6.85", "12.8.93"]), &[]),
        "12.1.105"
    );
    let none = without(&["12.4.131", "12.6.85", "12.8.93", "12.1.105"]);
    refused(
        &none,
        &[],
        &["torch 2.6.0 needs CUDA 12", "cuda-toolkit=12.4"],
    );
    // The driver of CUDA 12.4 does not run 12.6 in full.
    let toolkits = ["12.1.105", "12.6.85"]
        .map(|release| installed(release, 15))
        .concat();
    let old = python(&[torch("12.4"), toolkits, kernel("550.54.15")]);
    assert_eq!(picked(&old, &[]), "12.1.105");
}

#[test]
fn a_rejected_toolkit_says_by_whom_in_json() {
    let toolkits = ["12.4.131", "13.0.88"]
        .map(|release| installed(release, 15))
        .concat();
    let build = build(&python(&[torch("12.4"), toolkits]), &[], &[]);
    let rejected = &build["rejected"][0];
    assert_eq!(rejected["reason"], "other-major", "{build}");
    assert_eq!(rejected["by"], "torch 2.6.0", "{build}");
}

/// The control is the compiler itself, which a toolkit would bring.
#[test]
fn a_missing_program_is_named_before_a_missing_toolkit() {
    let machine = python(&[]);
    for (program, says) in [
        ("nosuch", "`nosuch` was not found"),
        ("nvcc", "no CUDA toolkit here fits"),
    ] {
        let run = Run::on(&machine, &["explain", "--build", program]).any_stdout();
        let status = if program == "nvcc" { 1 } else { 2 };
        run.status(status).stderr_contains(&[says]).check();
    }
}

#[test]
fn without_a_framework_the_newest_that_the_driver_runs_is_picked() {
    let toolkits = ["11.8.89", "12.4.131", "13.0.88"]
        .map(|release| installed(release, 15))
        .concat();
    assert_eq!(
        picked(&python(std::slice::from_ref(&toolkits)), &[]),
        "13.0.88"
    );
    assert_eq!(
        picked(&python(&[toolkits.clone(), kernel("550.54.15")]), &[]),
        "12.4.131"
    );
    for name in ["cuda-toolkit=11.8", "toolkit=11.8"] {
        assert_eq!(
            picked(
                &python(std::slice::from_ref(&toolkits)),
                &["--require", name]
            ),
            "11.8.89"
        );
    }
    refused(
        &python(&[toolkits]),
        &["--require", "cuda-toolkit=12.9"],
        &["is not =12.9", "--require", "12.9"],
    );
}

#[test]
fn a_huge_release_is_compared_as_any_other() {
    let huge = toolkit("/opt/cuda-x", "12.4.131", 13, &|name, text| match name {
        "include/cuda_runtime_api.h" => "/* */".to_owned(),
        _ => text.replace("12.4", "5000000.4"),
    });
    assert_eq!(
        picked(&python(&[huge, installed("12.4.131", 13)]), &[]),
        "5000000.4.131"
    );
}

#[test]
fn headers_that_torch_includes_come_from_its_own_packages_too() {
    let bare = whole("/usr/local/cuda-12.4", "12.4.131", 13);
    let machine = |more: String| python(&[torch("12.4"), bare.clone(), more]);
    refused(
        &machine(String::new()),
        &[],
        &["has no cublas_v2.h, which the headers of torch 2.6.0 include"],
    );
    let part =
        |part: &str, name: &str| text(&format!("{SITE}/nvidia/{part}/include/{name}"), "/* */");
    let wheels = part("cublas", "cublas_v2.h")
        + &part("cublas", "cublasLt.h")
        + &part("cusolver", "cusolverDn.h");
    refused(&machine(wheels.clone()), &[], &["has no cusparse.h"]);
    assert_eq!(
        picked(&machine(wheels + &part("cusparse", "cusparse.h")), &[]),
        "12.4.131"
    );
}

#[test]
fn a_compiler_that_nvcc_accepts_is_named_where_the_default_is_too_new() {
    let machine = |gccs: &[u32]| {
        let compilers = gccs
            .iter()
            .map(|major| compiler(&format!("g++-{major}")))
            .collect::<String>();
        python(&[installed("11.8.89", 11), with_gcc(14), compilers])
    };
    refused(
        &machine(&[12, 13]),
        &[],
        &[
            "accepts GCC up to 11, and the default GCC here is 14",
            "apt install g++-11",
        ],
    );
    let found = build(&machine(&[9, 11, 12]), &[], &[]);
    assert_eq!(found["host_compiler"]["path"], "/usr/bin/g++-11");
    let environment = Run::on(&machine(&[11]), &["export", "--json", "--build", "python3"]).json();
    assert_eq!(
        environment["environment"]["NVCC_PREPEND_FLAGS"], "-ccbin=/usr/bin/g++-11",
        "{environment:#}"
    );
    // A person's own choice is not judged.
    for (name, value) in [
        ("CUDAHOSTCXX", "clang++"),
        ("NVCC_CCBIN", "icpx"),
        ("NVCC_PREPEND_FLAGS", "-ccbin icpx"),
    ] {
        let found = build(&machine(&[12]), &[], &[(name, value)]);
        assert_eq!(found["host_compiler"], Value::Null, "{name}");
    }
    let accepted = python(&[installed("12.4.131", 13), with_gcc(13)]);
    assert_eq!(build(&accepted, &[], &[])["host_compiler"], Value::Null);
}

#[test]
fn nvcc_compiles_with_gcc_and_links_with_another_compiler() {
    let named = |name: &str, major: u32| {
        let real = format!("x86_64-linux-gnu-{name}-{major}");
        compiler(&real) + &link(&format!("/usr/bin/{name}"), &real)
    };
    let given = |gcc: u32, gxx: u32| {
        let machine = python(&[
            installed("12.4.131", 13),
            named("gcc", gcc),
            named("g++", gxx),
            compiler("g++-12"),
        ]);
        build(&machine, &[], &[])["host_compiler"]["path"].clone()
    };
    assert_eq!(given(13, 13), Value::Null);
    assert_eq!(given(14, 13), "/usr/bin/g++");
    assert_eq!(given(13, 14), "/usr/bin/g++-12");
    assert_eq!(given(14, 14), "/usr/bin/g++-12");
}

#[test]
fn a_wrapper_of_compilers_starts_the_next_one_in_path() {
    let given = |major: u32, wrapper: &str| {
        let wrapped = text(&format!("/usr/bin/{wrapper}"), "#!/bin/sh\n")
            + &link("/usr/lib/ccache/g++", &format!("../../bin/{wrapper}"));
        let machine = python(&[
            installed("12.4.131", 13),
            with_gcc(major),
            compiler("g++-12"),
            wrapped,
        ]);
        let path = ("PATH", "/usr/lib/ccache:/opt/venv/bin:/usr/bin");
        build(&machine, &[], &[path])["host_compiler"]["path"].clone()
    };
    assert_eq!(given(14, "ccache"), "/usr/bin/g++-12");
    assert_eq!(given(13, "ccache"), Value::Null);
    assert_eq!(
        given(14, "clang-18"),
        Value::Null,
        "another compiler is no wrapper"
    );
}

#[test]
fn a_compiler_below_a_blank_is_not_named() {
    let machine = |directory: &str| {
        let old = text(&format!("{directory}/g++-11"), "#!/bin/sh\n");
        python(&[installed("11.8.89", 11), with_gcc(14), old])
    };
    let path = ("PATH", "/opt/x y:/opt/venv/bin:/usr/bin:/opt/x");
    let found = build(&machine("/opt/x"), &[], &[path]);
    assert_eq!(found["host_compiler"]["path"], "/opt/x/g++-11");
    let machine = machine("/opt/x y");
    let run = Run::on(&machine, &["explain", "--build", "python3"])
        .env(path.0, path.1)
        .status(1);
    run.stderr_contains(&["accepts GCC up to 11"]).check();
}

#[test]
fn a_broken_toolkit_is_refused_and_another_one_taken() {
    let edited = |edit: &dyn Fn(&str, String) -> String| {
        toolkit("/usr/local/cuda-13.0", "13.0.88", 15, edit)
    };
    let mixed = edited(&|name, text| {
        if name.ends_with("cicc") {
            text.replace("13.0", "13.5")
        } else {
            text
        }
    });
    let empty = edited(&|name, text| {
        if name == "bin/nvcc" {
            "#!".to_owned()
        } else {
            text
        }
    });
    let cut = edited(&|name, text| {
        if name == "bin/ptxas" {
            text[..40].to_owned()
        } else {
            text
        }
    });
    let plain = edited(&|name, text| {
        if name == "bin/fatbinary" {
            text[3..].to_owned()
        } else {
            text
        }
    });
    for (broken, why) in [
        (mixed, "mixed: "),
        (empty, "nvcc: "),
        (cut, "ptxas: "),
        (plain, "fatbinary: "),
    ] {
        refused(
            &python(std::slice::from_ref(&broken)),
            &[],
            &[why, "hint: cudarun fetch toolkit=13.0"],
        );
        assert_eq!(
            picked(&python(&[broken, installed("12.4.131", 13)]), &[]),
            "12.4.131"
        );
    }
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
    let words = [
        "all users can write to /usr/local/cuda-12.4/bin/nvcc",
        "chmod go-w /usr/local/cuda-12.4/bin/nvcc",
    ];
    refused(&machine, &[], &words);
    for below in ["include", "include/crt", "lib64", "nvvm/libdevice"] {
        let path = format!("/usr/local/cuda-12.4/{below}");
        let directory =
            |mode: &str| format!("[[file]]\npath = '{path}'\ndirectory = true\nmode = 0o{mode}\n");
        refused(
            &python(&[closed.clone(), directory("777")]),
            &[],
            &["all users can write to", &path],
        );
        assert_eq!(
            picked(&python(&[closed.clone(), directory("755")]), &[]),
            "12.4.131"
        );
    }
    let named = build(&machine, &[], &[("CUDA_HOME", "/usr/local/cuda-12.4")]);
    assert_eq!(named["toolkit"]["release"], "12.4.131");
    let path = build(
        &machine,
        &[],
        &[("PATH", "/usr/local/cuda-12.4/bin:/opt/venv/bin:/usr/bin")],
    );
    assert_eq!(path["toolkit"]["release"], "12.4.131");
}

#[test]
fn variables_that_name_another_toolkit_are_replaced_and_reported() {
    let toolkits = ["12.4.131", "13.0.88"]
        .map(|release| installed(release, 15))
        .concat();
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
        run.env(name, value)
            .env("PATH", "/opt/venv/bin:/usr/bin")
            .json()["environment"]
            .clone()
    };
    let set = export("CUDA_PATH", "/usr/local/cuda-13.0");
    for name in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDAToolkit_ROOT"] {
        assert_eq!(set[name], "/usr/local/cuda-12.4", "{name}");
    }
    assert_eq!(set["CUDACXX"], "/usr/local/cuda-12.4/bin/nvcc");
    assert_eq!(
        set["PATH"],
        "/usr/local/cuda-12.4/bin:/opt/venv/bin:/usr/bin"
    );
    assert_eq!(
        set["LIBRARY_PATH"],
        "/usr/local/cuda-12.4/lib64:/usr/local/cuda-12.4/lib64/stubs"
    );
    assert_eq!(set["CUDNN_HOME"], Value::Null, "there are no headers");
    let set = export("LIBRARY_PATH", "/opt/lib");
    assert_eq!(
        set["LIBRARY_PATH"],
        "/usr/local/cuda-12.4/lib64:/usr/local/cuda-12.4/lib64/stubs:/opt/lib"
    );
}

#[test]
fn a_toolkit_that_a_person_names_comes_first() {
    let toolkits = ["12.4.131", "13.0.88"]
        .map(|release| installed(release, 15))
        .concat();
    let machine = python(std::slice::from_ref(&toolkits));
    let path = ("PATH", "/usr/local/cuda-13.0/bin:/opt/venv/bin:/usr/bin");
    let given = |name: &str, value: &str| {
        let build = build(&machine, &[], &[(name, value), path]);
        (
            build["toolkit"]["release"].clone(),
            build["overridden"].as_array().unwrap().len(),
        )
    };
    assert_eq!(given("OTHER", ""), ("13.0.88".into(), 0));
    let home = "/usr/local/cuda-12.4";
    for name in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDAToolkit_ROOT"] {
        assert_eq!(given(name, home), ("12.4.131".into(), 0), "{name}");
    }
    assert_eq!(
        given("CUDACXX", &format!("{home}/bin/nvcc")),
        ("12.4.131".into(), 0)
    );
    assert_eq!(
        given("CUDACXX", "nvcc"),
        ("13.0.88".into(), 0),
        "the one in PATH"
    );
    assert_eq!(
        given("CUDACXX", "clang++"),
        ("13.0.88".into(), 0),
        "another compiler"
    );
    assert_eq!(given("CUDA_HOME", "/usr/local/none"), ("13.0.88".into(), 1));
    let nvcc = format!("{home}/bin/nvcc");
    let shell = || link("/bin", "usr/bin") + &program("sh", &["libc.so.6"], "");
    let both = python(&[toolkits, shell()]);
    let explained = Run::on(&both, &["explain", "--json", "--build", &nvcc]).json();
    assert_eq!(explained["build"]["toolkit"]["release"], "12.4.131");
    let elsewhere = python(&[whole("/srv/cuda", "12.8.93", 14), shell()]);
    let nvcc = "/srv/cuda/bin/nvcc";
    let explained = Run::on(&elsewhere, &["explain", "--json", "--build", nvcc]).json();
    assert_eq!(explained["build"]["toolkit"]["root"], "/srv/cuda");
    assert_eq!(picked_root(&elsewhere, ("CUDACXX", nvcc)), "/srv/cuda");
    assert_eq!(
        picked_root(&elsewhere, ("CUDAToolkit_ROOT", "/srv/cuda")),
        "/srv/cuda"
    );
    let words = ["explain", "--build", "python3"];
    Run::on(&elsewhere, &words)
        .status(1)
        .stderr_contains(&["no nvcc"])
        .check();
    let set =
        Run::on(&machine, &["export", "--json", "--build", "python3"]).env("CUDACXX", "clang++");
    assert_eq!(
        set.json()["environment"]["CUDACXX"],
        Value::Null,
        "it stays"
    );
}

fn picked_root(machine: &Machine, variable: (&str, &str)) -> Value {
    build(machine, &[], &[variable])["toolkit"]["root"].clone()
}

#[test]
fn each_variable_that_is_replaced_is_reported_with_the_reason() {
    let toolkits = ["12.4.131", "12.8.93", "13.0.88"]
        .map(|release| installed(release, 15))
        .concat();
    let shell = link("/bin", "usr/bin") + &program("sh", &["libc.so.6"], "");
    let machine = python(&[torch("12.4"), toolkits, shell]);
    let nvcc = "/usr/local/cuda-13.0/bin/nvcc";
    let text = format!("nvcc={nvcc} does not fit (torch 2.6.0 needs CUDA 12)");
    Run::on(&machine, &["explain", "--build", nvcc])
        .stdout_contains(&[&text])
        .check();
    let run = Run::on(
        &machine,
        &["explain", "--build", "python3", "-m", "pip", "--version"],
    );
    run.env("CUDA_HOME", "/usr/local/cuda-13.0")
        .env("CUDA_PATH", "/usr/local/cuda-12.8")
        .env("CUDACXX", "/usr/local/cuda-12.4/bin/nvcc")
        .env("CUDAToolkit_ROOT", "/opt/none")
        .stdout_contains(&[
            "CUDA_HOME=/usr/local/cuda-13.0 does not fit (torch 2.6.0 needs CUDA 12)",
            "CUDACXX=/usr/local/cuda-12.4/bin/nvcc names another toolkit than a variable that goes before it",
            "CUDAToolkit_ROOT=/opt/none does not fit (has no nvcc), so this build gets CUDA 12.8.93",
        ])
        .check();
}

#[test]
fn a_hint_leads_to_a_toolkit_that_fits() {
    let installed = |releases: &[&str]| {
        releases
            .iter()
            .map(|release| installed(release, 15))
            .collect::<String>()
    };
    let hint = |files: &[String], options: &[&str], expected: &str| {
        refused(&python(files), options, &[&format!("hint: {expected}")]);
    };
    let blackwell = gpu(BLACKWELL, "580.95.05");
    hint(
        &[installed(&["12.4.131"]), blackwell.clone()],
        &[],
        "cudarun fetch toolkit=13.0",
    );
    hint(
        &[installed(&["12.4.131"]), blackwell, torch("12.4")],
        &[],
        "conda install -c nvidia cuda-toolkit=12.8",
    );
    hint(
        &[whole("/usr/local/cuda-12.4", "12.4.131", 15), torch("12.4")],
        &[],
        "pip install nvidia-cublas-cu12, or: apt install libcublas-dev-12-4",
    );
    hint(
        &[installed(&["12.0.140"])],
        &["--require", "cuda-toolkit>12.0,<13"],
        "conda install -c nvidia cuda-toolkit=12.9",
    );
    hint(
        &[installed(&["12.0.140"])],
        &["--require", "cuda-toolkit>12"],
        "cudarun fetch toolkit=13.5",
    );
    // A release is known with fewer numbers than its name may have.
    hint(
        &[],
        &["--require", "cuda-toolkit==12.4.1"],
        "conda install -c nvidia cuda-toolkit=12.4",
    );
    hint(
        &[],
        &["--require", "cuda-toolkit=13.4"],
        "cudarun fetch toolkit=13.4",
    );
    // No known toolkit fits.
    for (files, range) in [
        (installed(&["12.0.140"]), "cuda-toolkit=99"),
        (
            installed(&["12.4.131"]) + &torch("12.4"),
            "cuda-toolkit=13.0",
        ),
        (installed(&["12.4.131"]), "cuda-toolkit=12.4,>12.4.200"),
        (installed(&["12.4.131"]), "cuda-toolkit==12.4.1"),
    ] {
        let machine = python(&[files]);
        let words = ["explain", "--build", "--require", range, "python3"];
        let text = Run::on(&machine, &words).status(1).output_of_both();
        assert!(text.contains("no CUDA toolkit here fits"), "{text}");
        assert!(!text.contains("hint:"), "{text}");
    }
    hint(&[], &[], "cudarun fetch toolkit=13.5");
    hint(
        &[gpu(HOPPER, "580.95.05")],
        &[],
        "cudarun fetch toolkit=13.0",
    );
    hint(
        &[torch("12.4")],
        &[],
        "conda install -c nvidia cuda-toolkit=12.4",
    );
}

#[test]
fn headers_in_the_wheels_beside_a_framework_are_named() {
    let header = |library: &str, name: &str| {
        text(
            &format!("{SITE}/nvidia/{library}/include/{name}"),
            "/* a header */",
        )
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
    for name in ["CUDNN_HOME", "CUDNN_PATH", "CUDNN_INCLUDE_DIR"] {
        let set = export(name);
        let names = ["CUDNN_HOME", "CUDNN_PATH", "CUDNN_INCLUDE_DIR"];
        assert!(
            names.iter().all(|name| set[name] == Value::Null),
            "a cuDNN of the person stays: {set:#}"
        );
        assert_eq!(set["NCCL_HOME"], format!("{SITE}/nvidia/nccl"));
    }
}

#[test]
fn builds_in_an_environment_of_their_own_are_pointed_out() {
    let asks = "[build-system]\nrequires = [\"setuptools\", \"Torch>=2\"]\n";
    let machine = python(&[
        torch("12.4"),
        installed("12.4.131", 13),
        text("/work/asks/pyproject.toml", asks),
        text(
            "/work/plain/pyproject.toml",
            "[build-system]\nrequires = [\"setuptools\", \"torch-x\"]\n",
        ),
    ]);
    let is_isolated = |words: &[&str]| {
        let words: Vec<&str> = ["explain", "--build", "python3", "-m", "pip"]
            .iter()
            .chain(words)
            .copied()
            .collect();
        Run::on(&machine, &words)
            .any_stdout()
            .check()
            .contains("add --no-build-isolation")
    };
    assert!(is_isolated(&["install", "flash-attn"]));
    assert!(is_isolated(&["install", "/work/plain"]));
    assert!(!is_isolated(&["install", "/work/asks"]));
    assert!(!is_isolated(&["install", "/work/asks[dev]"]));
    assert!(!is_isolated(&[
        "install",
        "--no-build-isolation",
        "flash-attn"
    ]));
    assert!(!is_isolated(&["list"]));
    let with = |name: &str, value: &str, words: &[&str]| {
        let words: Vec<&str> = ["explain", "--build"]
            .iter()
            .chain(words)
            .copied()
            .collect();
        Run::on(&machine, &words)
            .env(name, value)
            .any_stdout()
            .check()
            .contains("add --no-build-isolation")
    };
    let pip = ["python3", "-m", "pip", "install", "flash-attn"];
    // pip reads the value of its variable as that of `build_isolation`.
    assert!(!with("PIP_NO_BUILD_ISOLATION", "0", &pip));
    assert!(!with("PIP_NO_BUILD_ISOLATION", "False", &pip));
    assert!(with("PIP_NO_BUILD_ISOLATION", "1", &pip));
    assert!(
        with("UV_NO_BUILD_ISOLATION", "1", &pip),
        "pip does not read it"
    );
}
