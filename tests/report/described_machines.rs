//! Machines made of text, looked at through `--root`: what is picked, why, and what to type. `screens/` shows what is listed.

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;

fn explain(machine: &Machine, command: &[&str]) -> Value {
    let mut arguments = vec!["explain", "--json"];
    arguments.extend(command);
    Run::on(machine, &arguments).json()
}

/// The version and directory that was picked for a family.
fn picked(explained: &Value, family: &str) -> (String, String) {
    let families = explained["families"].as_array().unwrap();
    let entry = families
        .iter()
        .find(|entry| entry["family"] == family)
        .unwrap_or_else(|| panic!("{explained:#}"));
    let text = |key: &str| entry["picked"][key].as_str().unwrap_or_default().to_owned();
    (text("version"), text("directory"))
}

/// Why the installation in a directory was not picked.
fn why_not(explained: &Value, family: &str, directory: &str) -> String {
    let families = explained["families"].as_array().unwrap();
    let entry = families
        .iter()
        .find(|entry| entry["family"] == family)
        .unwrap();
    let candidates = entry["candidates"].as_array().unwrap();
    let candidate = candidates
        .iter()
        .find(|c| c["directory"] == directory)
        .unwrap_or_else(|| panic!("{entry:#}"));
    assert_eq!(candidate["picked"], false);
    candidate["why"].as_str().unwrap().to_owned()
}

const SITE: &str = "/opt/venv/lib/python3.12/site-packages";

#[test]
fn a_machine_without_libraries_says_so() {
    let machine = Machine::load("nothing");
    Run::on(&machine, &["list", "cudnn"])
        .status(1)
        .stdout("cudnn is not installed\n\nnext: cudarun fetch --dry-run cudnn\n")
        .check();
    let explained = explain(&machine, &["python3", "/home/user/train.py"]);
    assert_eq!(explained["decision"], "nothing");
    assert_eq!(explained["schema"], 2);
    assert_eq!(explained["driver"], Value::Null);
    Run::on(&machine, &["export", "python3", "/home/user/train.py"])
        .stderr_contains(&["imports `torch`, which is not on Python's search path"])
        .check();
}

#[test]
fn a_container_is_listed_as_json() {
    let machine = Machine::load("h200-container");
    let listed = Run::on(&machine, &["list", "--json", "cudnn"]).json();
    assert_eq!(listed["schema"], 2);
    assert_eq!(listed["installations"].as_array().unwrap().len(), 2);
    assert_eq!(listed["installations"][0]["version_from"], "contents");
    assert_eq!(
        listed["installations"][0]["package"],
        "nvidia-cudnn-cu13 9.19.0.56"
    );
    assert_eq!(listed["gpus"][0]["capability"], "9.0");
}

#[test]
fn a_program_gets_what_it_came_with_and_never_a_mix() {
    let machine = Machine::load("h200-container");
    for path in [
        "",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/local/cuda/lib64:/usr/local/cuda/lib64/stubs",
    ] {
        let run = Run::on(
            &machine,
            &["explain", "--json", "python3", "/home/user/train.py"],
        );
        let explained = run.env("LD_LIBRARY_PATH", path).json();
        assert_eq!(
            picked(&explained, "cudnn"),
            ("9.19.0.56".into(), format!("{SITE}/nvidia/cudnn/lib"))
        );
        assert_eq!(
            picked(&explained, "cublas"),
            ("13.1.0.3".into(), format!("{SITE}/nvidia/cu13/lib"))
        );
        assert_eq!(picked(&explained, "driver").0, "580.159.04");
        let why = why_not(&explained, "cudnn", "/usr/lib/x86_64-linux-gnu");
        assert!(
            why.contains("torch 2.11.0 searches elsewhere before LD_LIBRARY_PATH"),
            "{why}"
        );
        let why = why_not(&explained, "driver", "/usr/local/cuda-13.0/compat");
        assert_eq!(why, "not newer than the kernel's driver 580.159.04");
        assert_eq!(
            explained["driver_in_view"], false,
            "the default directories give the right one"
        );
    }
    let program = explain(&machine, &["python3", "/home/user/train.py"])["program"].clone();
    assert_eq!(program["packages"][0]["name"], "torch");
    assert_eq!(program["packages"][0]["imported_by"], "model.py:1");
    assert_eq!(program["packages"][0]["cuda"], "13.0");
}

#[test]
fn compat_and_stubs_are_taken_out_of_the_path() {
    let machine = Machine::load("h200-container");
    let path = "/usr/local/cuda/compat:/opt/mine:/usr/local/cuda/lib64/stubs";
    let run = Run::on(
        &machine,
        &["explain", "--json", "python3", "/home/user/train.py"],
    );
    let explained = run.env("LD_LIBRARY_PATH", path).json();
    let removed: Vec<&str> = explained["removed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["element"].as_str().unwrap())
        .collect();
    assert_eq!(
        removed,
        ["/usr/local/cuda/compat", "/usr/local/cuda/lib64/stubs"]
    );
    assert_eq!(explained["environment"]["LD_LIBRARY_PATH"], "/opt/mine");
    assert!(
        explained["view"]
            .as_str()
            .unwrap()
            .starts_with("/home/user/.cache/cudarun/views/")
    );
    let run = Run::on(
        &machine,
        &[
            "explain",
            "--json",
            "--pin-mode=view",
            "python3",
            "/home/user/train.py",
        ],
    );
    let explained = run.env("LD_LIBRARY_PATH", path).json();
    let after = explained["environment"]["LD_LIBRARY_PATH"]
        .as_str()
        .unwrap();
    assert_eq!(
        after,
        format!("{}:/opt/mine", explained["view"].as_str().unwrap())
    );
}

#[test]
fn a_driver_outside_every_path_is_added_to_the_view() {
    let machine = Machine::load("h200-container");
    std::fs::remove_file(machine.real("/usr/lib/libcuda.so.1")).unwrap();
    let run = Run::on(
        &machine,
        &["explain", "--json", "python3", "/home/user/train.py"],
    );
    let explained = run.env("LD_LIBRARY_PATH", "/usr/local/cuda/compat").json();
    assert_eq!(explained["driver_in_view"], true);
    let given = explain(&machine, &["python3", "/home/user/train.py"]);
    assert_eq!(
        given["driver_in_view"], false,
        "/usr/local/nvidia/lib64 is on the path"
    );
}

#[test]
fn explain_reads_like_a_story() {
    let machine = Machine::load("h200-container");
    let text = Run::on(&machine, &["explain", "python3", "/home/user/train.py"])
        .any_stdout()
        .check();
    for part in [
        "program  /opt/venv/bin/python3",
        "runs ~/train.py",
        "package  torch 2.11.0",
        "imported by model.py:1",
        "driver   580.159.04, supports CUDA up to 13.0",
        "libcudnn.so.9",
        "site-packages/nvidia/cudnn/lib",
    ] {
        assert!(text.contains(part), "lacks `{part}`\n{text}");
    }
    let run = Run::on(
        &machine,
        &["explain", "-v", "python3", "/home/user/train.py"],
    );
    let full = run.any_stdout().check();
    for part in ["the loader already takes it", "CUDARUN_PINS  "] {
        assert!(
            full.contains(part) && !text.contains(part),
            "-v has more: `{part}`\n{full}"
        );
    }
    assert!(text.ends_with('\n') && !text.contains("  \n"), "{text}");
}

#[test]
fn a_code_argument_is_read_like_a_script() {
    let machine = Machine::load("h200-container");
    let explained = explain(&machine, &["python3", "-c", "import torch"]);
    assert_eq!(explained["program"]["packages"][0]["imported_by"], "-c:1");
    let module = explain(
        &machine,
        &[
            "python3",
            "-m",
            "torch.distributed.run",
            "/home/user/train.py",
        ],
    );
    assert_eq!(module["program"]["packages"][0]["standing"], "imported");
    let none = explain(&machine, &["python3", "-c", "import ctypes"]);
    assert_eq!(none["program"]["packages"], serde_json::json!([]));
    let open = explain(&machine, &["python3", "-c", "__import__(name)"]);
    assert_eq!(open["program"]["packages"][0]["standing"], "possible");
    let named = Run::on(
        &machine,
        &[
            "explain", "--json", "--uses", "torch", "python3", "-c", "pass",
        ],
    )
    .json();
    assert_eq!(named["program"]["packages"][0]["standing"], "imported");
}

#[test]
fn an_incomplete_wheel_that_rpath_leads_to_is_refused_with_what_to_type() {
    let machine = Machine::load("h200-container");
    std::fs::remove_file(machine.real(&format!("{SITE}/nvidia/cudnn/lib/libcudnn_cnn.so.9")))
        .unwrap();
    Run::on(&machine, &["export", "--pin-mode", "none", "python3", "/home/user/train.py"])
        .status(1)
        .stderr(
            "\
error: no cuDNN here fits `torch 2.11.0`
  needs  libcudnn.so.9  torch 2.11.0: lib/libtorch_cuda.so
  found  9.19.0.56  site-packages/nvidia/cudnn/lib  incomplete: libcudnn_cnn missing
         9.14.0.64  /usr/lib/x86_64-linux-gnu       shadowed by RPATH: torch 2.11.0 searches elsewhere before LD_LIBRARY_PATH
  LD_LIBRARY_PATH alone cannot help: `torch 2.11.0` finds the one in site-packages/nvidia/cudnn/lib first (its DT_RPATH and an absolute path)

hint: leave out --pin-mode: audit is enough
",
        )
        .check();
}

/// The refusal gives reasons when other modes than the view are tried too.
#[test]
fn a_program_that_no_mode_can_pin_is_refused_with_reasons() {
    let text = std::fs::read_to_string("tests/machines/h200-container.toml").unwrap();
    let with_glibc = |release: &str, part: &str| {
        let machine = Machine::describe(&text.replace(
            "release version 2.39",
            &format!("release version {release}"),
        ));
        std::fs::remove_file(machine.real(&format!("{SITE}/nvidia/{part}"))).unwrap();
        machine
    };
    let program = ["python3", "/home/user/train.py"];
    let part = "cu13/lib/libcublasLt.so.13";
    let old = with_glibc("2.31", part);
    Run::on(&old, &[&["-v", "export"], &program[..]].concat())
        .status(1)
        .stderr_contains(&[
            "error: no cuBLAS here fits `torch 2.11.0`",
            "audit is not enough: the audit module needs glibc 2.35 or newer: with glibc 2.31, it slows down every library call",
            "view is not enough: libcublas.so.13 would come from site-packages/nvidia/cu13/lib (by its path)",
            "hint: pip --python /opt/venv/bin/python3 install --force-reinstall",
        ])
        .check();
    let explain = |machine: &Machine| {
        Run::on(machine, &[&["explain", "--json"], &program[..]].concat()).json()
    };
    // Control: the shim of an incomplete cuDNN opens the sublibraries of a complete one.
    let shim = explain(&with_glibc("2.31", "cudnn/lib/libcudnn_cnn.so.9"));
    assert_eq!(
        (&shim["decision"], &shim["mode"]),
        (&"plan".into(), &"view".into()),
        "{shim:#}"
    );
    let explained = explain(&with_glibc("2.35", part));
    assert_eq!(explained["mode"], "audit");
    assert_eq!(
        explained["environment"]["GLIBC_TUNABLES"],
        "glibc.rtld.optional_static_tls=16384"
    );
}

#[test]
fn mappings_without_cudarun_are_shown_with_their_problems() {
    let machine = Machine::load("h200-container");
    let explain = |library_path: &str, lines: &[&str]| {
        let run = Run::on(
            &machine,
            &["explain", "-v", "python3", "/home/user/train.py"],
        )
        .env("COLUMNS", "300");
        let text = run
            .env("LD_LIBRARY_PATH", library_path)
            .any_stdout()
            .check();
        // Columns are as wide as the paths in them.
        let text = text
            .split('\n')
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        let text = text.collect::<Vec<_>>().join("\n");
        for line in lines {
            assert!(text.contains(line), "{line}\n{text}");
        }
    };
    explain(
        "/usr/local/cuda/compat",
        &["driver older than the kernel's driver: 580.95.05 /usr/local/cuda-13.0/compat"],
    );
    explain(
        "/usr/lib/x86_64-linux-gnu",
        &[
            "without cuDNN 9.19.0.56 site-packages/nvidia/cudnn/lib and 9.14.0.64 /usr/lib/x86_64-linux-gnu",
            "mode audit: a module in LD_AUDIT redirects every pinned name, in this process only",
        ],
    );
    let stub = machine.real("/usr/local/cuda-13.0/targets/x86_64-linux/lib/stubs/libcuda.so.1");
    std::os::unix::fs::symlink("libcuda.so", stub).unwrap();
    explain("/usr/local/cuda/lib64/stubs", &["driver a stub:"]);
    // Only what differs has a row.
    explain("", &["9.14.0.64 /usr/lib/x86_64-linux-gnu\nmode audit"]);
}

#[test]
fn files_that_lie_are_passed_over_with_a_warning() {
    let machine = Machine::load("hostile");
    let listed = Run::on(&machine, &["list", "--json"]).json();
    let warned = |name: &str| {
        let warnings = listed["warnings"].as_array().unwrap();
        let found = warnings
            .iter()
            .find(|warning| warning["path"].as_str().unwrap().ends_with(name));
        found.unwrap_or_else(|| panic!("{name}\n{listed:#}"))["why"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(warned("libcudart.so.12"), "not an ELF file");
    assert_eq!(warned("libcublas.so.12"), "not a regular file");
    assert_eq!(warned("libcurand.so.10"), "dangling link");
    assert_eq!(warned("libcufft.so.11"), "dangling link");
    assert_eq!(warned("libcusolver.so.11"), "for ARM machines");
    assert_eq!(warned("libnvrtc.so.12"), "not an ELF file");
    let json = Run::on(&machine, &["list", "--json"]).any_stdout().check();
    assert!(
        !json.contains(['\u{9b}', '\u{202e}', '\u{1b}'])
            && json.contains("libcudnn_\\u009b31m\\u202eder.so.9")
    );
    assert_eq!(warned("ld.so.cache"), "not a cache of ld.so (entries)");
    let problems = |family: &str| {
        let installations = listed["installations"].as_array().unwrap();
        installations
            .iter()
            .find(|installation| installation["family"] == family)
            .map(|installation| installation["problems"].clone())
    };
    assert_eq!(problems("nccl").unwrap()[0]["problem"], "world-writable");
    assert_eq!(problems("cudnn").unwrap().as_array().unwrap().len(), 0);
    let explained = explain(&machine, &["python3", "/home/user/train.py"]);
    assert_eq!(picked(&explained, "cudnn").0, "9.1.0.70");
}

#[test]
fn a_truncated_library_is_known_for_one() {
    let machine = Machine::load("hostile");
    let listed = Run::on(&machine, &["list", "--json", "cusparse"]).json();
    assert_eq!(
        listed["installations"][0]["problems"][0]["problem"], "truncated",
        "{listed:#}"
    );
}

#[test]
fn the_oldest_driver_of_a_cuda_major_decides() {
    let machine = Machine::load("old-driver");
    let explained = explain(&machine, &["for-12"]);
    assert_eq!(picked(&explained, "driver").0, "535.261.03");
    assert_eq!(picked(&explained, "cudart").1, "/usr/local/cuda-12.4/lib64");
    assert_eq!(explained["driver"]["cuda"], "12.2");
    Run::on(&machine, &["export", "for-13"])
        .status(1)
        .stderr_contains(&[
            "error: no CUDA runtime here fits `for-13`",
            "CUDA 13 needs driver 580.65.06 or newer, but this machine has 535.261.03",
            "hint: update the NVIDIA driver to 580.65.06 or newer: no library path can help",
        ])
        .check();
}

#[test]
fn forward_compatibility_counts_where_its_own_note_allows_it() {
    let machine = Machine::load("old-driver");
    let run = Run::on(&machine, &["explain", "--json", "for-13"]);
    let explained = run.env("LD_LIBRARY_PATH", "/opt/compat/compat").json();
    assert_eq!(
        picked(&explained, "driver"),
        ("580.95.05".into(), "/opt/compat/compat".into())
    );
    assert_eq!(picked(&explained, "cudart").1, "/usr/local/cuda-13.0/lib64");
    // A program that does not need it does not get it.
    let run = Run::on(&machine, &["explain", "--json", "for-12"]);
    let explained = run.env("LD_LIBRARY_PATH", "/opt/compat/compat").json();
    assert_eq!(picked(&explained, "driver").0, "535.261.03");
    assert_eq!(explained["removed"][0]["element"], "/opt/compat/compat");
}

#[test]
fn a_symbol_that_no_installation_exports_is_a_reason() {
    let machine = Machine::load("old-driver");
    Run::on(&machine, &["export", "wants-more"])
        .status(1)
        .stderr_contains(&["lacks `cudaNotYetThere`, which wants-more imports"])
        .check();
}

#[test]
fn programs_that_cannot_be_pinned_are_named() {
    let machine = Machine::load("old-driver");
    let note = |program: &str| {
        explain(&machine, &[program])["notes"][0]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        note("static"),
        "`static` is linked statically: it has no dynamic loader, so nothing can be pinned"
    );
    assert!(
        note("other-rights").starts_with("`other-rights` runs with other rights (set-group-id)")
    );
    assert_eq!(
        note("musl"),
        "`musl` uses /lib/ld-musl-x86_64.so.1; NVIDIA has no libraries for that C library"
    );
}

#[test]
fn a_driver_whose_two_halves_differ_is_refused() {
    let machine = Machine::load("old-driver");
    std::fs::write(
        machine.real("/proc/driver/nvidia/version"),
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.300.01  x\n",
    )
    .unwrap();
    Run::on(&machine, &["export", "for-12"])
        .status(1)
        .stderr_contains(&[
            "error: no driver here fits",
            "535.261.03",
            "the kernel runs driver 535.300.01",
            "hint: install the user-space libraries",
        ])
        .check();
}

#[test]
fn a_gpu_without_a_device_node_does_not_count() {
    let machine = Machine::load("old-driver");
    for node in ["nvidia0", "nvidiactl"] {
        std::fs::remove_file(machine.real(&format!("/dev/{node}"))).unwrap();
    }
    let explained = explain(&machine, &["for-13"]);
    assert_eq!(
        explained["decision"], "plan",
        "a program may start without a GPU"
    );
}
