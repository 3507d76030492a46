//! `cudarun list toolkit`

use serde_json::Value;

use super::{toolkit, whole};
use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{machine, text};

fn listed(machine: &Machine) -> Vec<Value> {
    Run::on(machine, &["list", "--json", "toolkit"]).json()["toolkits"]
        .as_array()
        .unwrap()
        .clone()
}

/// The problems of the only toolkit.
fn problems(files: String) -> Vec<Value> {
    let found = listed(&machine(&[files]));
    assert_eq!(found.len(), 1, "{found:#?}");
    found[0]["problems"].as_array().unwrap().clone()
}

#[test]
fn toolkits_are_found_with_their_releases_and_compilers() {
    let files = [
        whole("/usr/local/cuda-12.4", "12.4.131", 13),
        whole("/opt/cuda-13.0", "13.0.88", 15),
    ];
    let machine = machine(&files);
    let found = listed(&machine);
    let facts: Vec<_> = found
        .iter()
        .map(|one| {
            (
                one["root"].as_str().unwrap(),
                one["release"].as_str().unwrap(),
                one["newest_gcc"].as_u64(),
            )
        })
        .collect();
    let expected = [
        ("/opt/cuda-13.0", "13.0.88", Some(15)),
        ("/usr/local/cuda-12.4", "12.4.131", Some(13)),
    ];
    assert_eq!(facts, expected);
    assert!(
        found
            .iter()
            .all(|one| one["problems"].as_array().unwrap().is_empty()),
        "{found:#?}"
    );
    assert_eq!(found[0]["parts"]["cicc"]["release"], "13.0.88");
    Run::on(&machine, &["list", "toolkit"])
        .stdout_contains(&["2 toolkits", "12.4.131", "≤ 13", "toolkit"])
        .check();
    Run::on(&machine, &["list", "-v", "toolkit"])
        .stdout_contains(&["libdevice.10.bc"])
        .check();
    // Families beside it are listed too; the control has none.
    let (page, status, _) = Run::on(&machine, &["list", "toolkit", "nccl"]).streams();
    assert!(
        page.contains("2 toolkits") && page.contains("nccl is not installed"),
        "{page}"
    );
    assert_eq!((status, page.matches("next:").count()), (0, 1), "{page}");
    let (page, _, _) = Run::on(&machine, &["list", "toolkit"]).streams();
    assert!(!page.contains("not installed"), "{page}");
    let loose = crate::support::parts::machine(&[]);
    assert_eq!(Run::on(&loose, &["list", "toolkit", "nccl"]).streams().1, 1);
}

#[test]
fn a_machine_without_nvcc_has_no_toolkit() {
    let only_ptxas = toolkit("/usr/local/cuda-12.4", "12.4.131", 13, &|name, text| {
        if name == "bin/ptxas" {
            text
        } else {
            String::new()
        }
    });
    let two = only_ptxas.clone() + &only_ptxas.replace("cuda-12.4", "cuda-12.6");
    for (files, others) in [
        (String::new(), ""),
        (text("/opt/cuda/README", "nothing"), ""),
        (only_ptxas, "\n1 directory with other compilers"),
        (two, "\n2 directories with other compilers"),
    ] {
        Run::on(&machine(&[files]), &["list", "toolkit"])
            .status(1)
            .stdout_contains(&["no CUDA toolkit with nvcc", others])
            .check();
    }
}

#[test]
fn doctor_reports_a_broken_toolkit_that_builds_would_find() {
    let broken = |root: &str| {
        let lacks_cicc = |name: &str, text| {
            if name.ends_with("cicc") {
                String::new()
            } else {
                text
            }
        };
        toolkit(root, "12.4.131", 13, &lacks_cicc)
    };
    let finds = |files: String, home: &str| {
        let machine = machine(&[files]);
        let run = Run::on(&machine, &["doctor", "--json"])
            .env("CUDA_HOME", home)
            .status(1);
        let findings = run.json()["findings"].as_array().unwrap().clone();
        findings
            .iter()
            .any(|finding| finding["code"] == "toolkit-broken")
    };
    assert!(finds(broken("/opt/cuda-12.4"), "/opt/cuda-12.4"));
    assert!(!finds(broken("/opt/other"), ""), "nothing names it");
    assert!(
        !finds(whole("/opt/cuda-12.4", "12.4.131", 13), "/opt/cuda-12.4"),
        "it is whole"
    );
}

#[test]
fn each_problem_is_found_and_a_whole_toolkit_has_none() {
    assert_eq!(
        problems(whole("/usr/local/cuda", "12.4.131", 13)),
        Vec::<Value>::new(),
        "the control"
    );
    let without = |missing: &'static str| {
        problems(toolkit("/usr/local/cuda", "12.4.131", 13, &|name, text| {
            if name.starts_with(missing) {
                String::new()
            } else {
                text
            }
        }))
    };
    for (missing, problem, names) in [
        ("nvvm/bin/cicc", "compiler-missing", "cicc"),
        ("bin/ptxas", "compiler-missing", "ptxas"),
        ("include/crt", "header-missing", "crt/host_config.h"),
        ("include/cuda_runtime.h", "header-missing", "cuda_runtime.h"),
        ("lib64/libcudart.so", "no-linker-names", "libcudart.so"),
        ("lib64", "no-linker-names", "libcudart.so"),
    ] {
        let found = without(missing);
        assert_eq!(found[0]["problem"], problem, "{missing}: {found:?}");
        assert_eq!(found[0]["names"][0], names, "{missing}: {found:?}");
    }
    assert_eq!(without("include/nv/target")[0]["problem"], "no-cccl");
    let damaged = |damaged: &'static str, text: &'static str| {
        problems(toolkit("/usr/local/cuda", "12.4.131", 13, &|name, own| {
            if name == damaged {
                text.to_owned()
            } else {
                own
            }
        }))
    };
    for (name, text) in [
        ("bin/nvcc", "#!/bin/sh\n"),
        ("bin/ptxas", "#!/bin/sh\n# Cuda compilation tools, rel"),
        // It is not executable.
        (
            "nvvm/bin/cicc",
            "Cuda compilation tools, release 12.4, V12.4.131",
        ),
    ] {
        let found = damaged(name, text);
        assert_eq!(found[0]["problem"], "compiler-damaged", "{name}: {found:?}");
        assert_eq!(
            found[0]["names"][0],
            name.rsplit('/').next().unwrap(),
            "{found:?}"
        );
    }
    let stubs = toolkit("/usr/local/cuda", "12.4.131", 13, &|name, text| {
        if name.starts_with("lib64") {
            String::new()
        } else {
            text
        }
    });
    let stubs = stubs + &text("/usr/local/cuda/lib64/stubs/libcuda.so", "/* */");
    assert_eq!(problems(stubs)[0]["problem"], "stub-only");
    let mixed = |part: &'static str| {
        problems(toolkit("/usr/local/cuda", "13.0.88", 15, &|name, text| {
            if name.ends_with(part) {
                text.replace("13.0", "13.5").replace("13000", "13050")
            } else {
                text
            }
        }))
    };
    for part in ["nvcc", "cicc", "ptxas", "cudafe++", "cuda_runtime_api.h"] {
        assert_eq!(mixed(part)[0]["problem"], "toolkit-mixed", "{part}");
    }
    let mixed = toolkit("/usr/local/cuda", "13.0.88", 15, &|name, text| {
        if name.ends_with("cicc") {
            text.replace("13.0", "13.5")
        } else {
            text
        }
    });
    let machine = machine(&[mixed]);
    Run::on(&machine, &["list", "toolkit"])
        .stdout_contains(&["mixed: ", "cicc is of CUDA", "13.5"])
        .check();
}

#[test]
fn damaged_compilers_have_no_release_and_break_nothing() {
    let damaged = [
        "",
        " ",
        "Cuda compilation tools, release ",
        "Cuda compilation tools, release 99999999999.1, V",
    ];
    for text in damaged {
        let files = toolkit("/usr/local/cuda", "13.0.88", 15, &|name, own| {
            if name.starts_with("bin/") && name != "bin/crt" {
                format!("{text} ")
            } else {
                own
            }
        });
        let found = listed(&machine(&[files]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0]["parts"]["nvcc"]["release"], Value::Null, "{text}");
    }
}
