//! Findings of `doctor` on machines made of text, each with its control: the same machine, healthy.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{HEALTHY, same_when_saved};
use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SHIELDED, SITE, cudnn, elf, link, program, text};

/// [`HEALTHY`] with more files.
fn healthy(more: &str) -> Machine {
    Machine::describe(&format!("{HEALTHY}{more}"))
}

const NODES: &str = r#"
[[file]]
path = "/dev/{name}"
each = ["nvidia0", "nvidiactl"]
text = ""
"#;

fn doctor(machine: &Machine, variables: &[(&str, &str)]) -> Value {
    let mut run = Run::on(machine, &["doctor", "--json"])
        .any_stderr()
        .in_directory("/");
    for (name, value) in variables {
        run = run.env(name, value);
    }
    let (text, status) = run.any_stdout().output();
    let value: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let has_error = value["findings"]
        .as_array()
        .unwrap()
        .iter()
        .any(|it| it["severity"] == "error");
    assert_eq!(status, i32::from(has_error), "{text}");
    same_when_saved(machine, variables, &value);
    value
}

/// Codes of findings, with `!` for errors and `?` for warnings.
fn codes(value: &Value) -> BTreeSet<String> {
    let findings = value["findings"].as_array().unwrap();
    let code = |it: &Value| {
        let mark = match it["severity"].as_str().unwrap() {
            "error" => "!",
            "warning" => "?",
            _ => "",
        };
        format!("{mark}{}", it["code"].as_str().unwrap())
    };
    findings.iter().map(code).collect()
}

fn only(expected: &[&str]) -> BTreeSet<String> {
    expected.iter().map(ToString::to_string).collect()
}

/// The places of the finding with this code.
fn places(value: &Value, code: &str) -> Vec<String> {
    let findings = value["findings"].as_array().unwrap();
    let finding = findings
        .iter()
        .find(|it| it["code"] == code)
        .unwrap_or_else(|| panic!("{value:#}"));
    finding["evidence"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["at"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_healthy_machine_has_no_finding() {
    let machine = healthy(NODES);
    let value = doctor(&machine, &[]);
    assert_eq!(codes(&value), only(&[]));
    assert_eq!(value["works"], true);
    assert_eq!(value["verdict"], "GPU programs can work from here");
    Run::on(&machine, &["doctor"])
        .stdout(
            "\
GPU programs can work from here

driver and kernel          kernel driver 580.159.04, supports CUDA up to 13.0
GPUs and device nodes      NVIDIA H200 (9.0)
libraries                  1 installation
environment                LD_LIBRARY_PATH is not set, LD_PRELOAD is not set
start-up files and loader  no line sets LD_LIBRARY_PATH or LD_PRELOAD
project                    no settings, no lock
cache                      ~/.cache/cudarun: 0 starts, 0 views, 0.0 kB

next: cudarun explain PROGRAM
",
        )
        .check();
}

#[test]
fn a_driver_that_does_not_run_is_told_from_one_that_is_not_there() {
    let without = |files: &[&str]| {
        let machine = healthy(NODES);
        for file in files {
            fs::remove_file(machine.real(file)).unwrap();
        }
        machine
    };
    let module = "/sys/module/nvidia/version";
    let (library, link) = (
        "/usr/lib/x86_64-linux-gnu/libcuda.so.580.159.04",
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    );
    assert_eq!(
        codes(&doctor(&without(&[module]), &[])),
        only(&["!driver-not-loaded"])
    );
    assert_eq!(
        codes(&doctor(&without(&[module, library, link]), &[])),
        only(&["!no-driver"])
    );
    assert_eq!(
        codes(&doctor(&without(&[library, link]), &[])),
        only(&["!no-libcuda"])
    );
    let nouveau = without(&[module, library, link]);
    fs::create_dir_all(nouveau.real("/sys/module/nouveau")).unwrap();
    let value = doctor(&nouveau, &[]);
    assert_eq!(codes(&value), only(&["!nouveau"]));
    assert_eq!(
        places(&value, "nouveau"),
        ["0000:00:06.0", "/sys/module/nouveau"]
    );
    let kernel = without(&[module]);
    let write = |path: &str, text: &str| {
        fs::create_dir_all(kernel.real(path).parent().unwrap()).unwrap();
        fs::write(kernel.real(path), text).unwrap();
    };
    write("/proc/sys/kernel/osrelease", "6.8.0-49-generic\n");
    write(
        "/usr/lib/modules/6.8.0-49-generic/modules.dep",
        "kernel/fs/ext4.ko:\n",
    );
    assert_eq!(
        codes(&doctor(&kernel, &[])),
        only(&["!no-module-for-kernel"])
    );
    write(
        "/usr/lib/modules/6.8.0-49-generic/modules.dep",
        "updates/dkms/nvidia.ko.zst:\n",
    );
    assert_eq!(
        codes(&doctor(&kernel, &[])),
        only(&["!driver-not-loaded"]),
        "the control"
    );
}

#[test]
fn an_update_without_a_restart_is_told_with_both_versions() {
    let value = doctor(&Machine::load("updated-driver"), &[]);
    assert!(codes(&value).contains("!driver-mismatch"), "{value:#}");
    let verdict = value["verdict"].as_str().unwrap();
    assert!(
        verdict.contains("550.90.07") && verdict.contains("550.54.15"),
        "{verdict}"
    );
    assert_eq!(
        places(&value, "driver-mismatch")[0],
        "/proc/driver/nvidia/version"
    );
}

#[test]
fn a_libcuda_that_no_program_gets_or_that_is_in_front_of_it_is_an_error() {
    let moved = |others: &str| {
        let (own, elsewhere) = (
            "/usr/lib/x86_64-linux-gnu/libcuda",
            "/usr/local/nvidia/lib64/libcuda",
        );
        Machine::describe(&format!("{}{others}", HEALTHY.replace(own, elsewhere)))
    };
    let value = doctor(&moved(NODES), &[]);
    assert_eq!(codes(&value), only(&["!libcuda-not-found"]));
    let told = [("LD_LIBRARY_PATH", "/usr/local/nvidia/lib64")];
    assert_eq!(
        codes(&doctor(&moved(NODES), &told)),
        only(&[]),
        "the control"
    );
    let old = "elf = { soname = \"libcuda.so.1\", constants = [\"libnvidia-pkcs11-openssl3.so.535.54.03\"] }";
    let front =
        format!("{NODES}[[file]]\npath = \"/usr/lib/x86_64-linux-gnu/libcuda.so.1\"\n{old}\n");
    let value = doctor(&moved(&front), &[]);
    assert_eq!(codes(&value), only(&["!libcuda-shadowed"]));
    assert!(
        value["verdict"].as_str().unwrap().contains("535.54.03"),
        "{value:#}"
    );
}

#[test]
fn the_cure_of_mixed_files_names_the_library_and_its_directory() {
    let found = doctor(&Machine::load("toolkits"), &[]);
    let mut findings = found["findings"].as_array().unwrap().iter();
    let mixed = findings.find(|one| one["code"] == "mixed").unwrap();
    let directory = mixed["evidence"][0]["at"].as_str().unwrap();
    let remedy = mixed["remedy"].as_str().unwrap();
    assert!(
        remedy.starts_with(&format!(
            "reinstall the package of cuDNN 9.14.0.64 in {directory}: "
        )),
        "{remedy}"
    );
}

/// The faults that the machines of the other tests have; a healthy machine has none of them.
#[test]
fn each_bad_installation_is_reported_with_its_problem() {
    let found = |name: &str| codes(&doctor(&Machine::load(name), &[]));
    let toolkits = [
        "incomplete",
        "installation-not-as-installed",
        "two-of-one-soname",
        "?mixed",
        "?path-stubs",
    ];
    assert!(
        found("toolkits").is_superset(&only(&toolkits)),
        "{:?}",
        found("toolkits")
    );
    let hostile = [
        "?cache-of-loader-bad",
        "?damaged",
        "?installation-world-writable",
        "passed-over",
    ];
    assert!(
        found("hostile").is_superset(&only(&hostile)),
        "{:?}",
        found("hostile")
    );
    assert!(
        !found("uv-venv").contains("incomplete"),
        "a package that brings its own shim is complete"
    );
    assert_eq!(
        found("h200-container"),
        only(&["path-duplicate"]),
        "the control"
    );
    assert_eq!(found("tegra"), only(&[]), "the control");
}

#[test]
fn nodes_that_are_missing_or_closed_are_told_apart() {
    assert_eq!(
        codes(&doctor(&healthy(""), &[])),
        only(&["!device-nodes-missing"])
    );
    let container = [("NVIDIA_VISIBLE_DEVICES", "void")];
    assert_eq!(
        codes(&doctor(&healthy(""), &container)),
        only(&["!container-without-gpus"])
    );
    let closed = healthy(&NODES.replace("text = \"\"", "text = \"\"\nmode = 0o660"));
    let value = doctor(&closed, &[]);
    assert_eq!(codes(&value), only(&["!device-not-permitted"]));
    assert_eq!(
        places(&value, "device-not-permitted"),
        ["/dev/nvidia0", "/dev/nvidiactl"]
    );
    let no_uvm = healthy(NODES);
    fs::remove_file(no_uvm.real("/dev/nvidia-uvm")).unwrap();
    assert_eq!(codes(&doctor(&no_uvm, &[])), only(&["!uvm-missing"]));
    assert_eq!(
        codes(&doctor(&Machine::load("nothing"), &[])),
        only(&["!no-gpu"])
    );
    let wsl = codes(&doctor(&Machine::load("wsl"), &[]));
    assert_eq!(wsl, only(&["?wsl-linux-driver"]));
}

#[test]
fn settings_that_hide_gpus_are_named() {
    let machine = healthy(NODES);
    let chosen = |value: &str| codes(&doctor(&machine, &[("CUDA_VISIBLE_DEVICES", value)]));
    assert_eq!(chosen("0"), only(&[]));
    assert_eq!(chosen(""), only(&["!gpus-hidden"]));
    assert_eq!(chosen("-1"), only(&["!gpus-hidden"]));
    assert_eq!(chosen("1"), only(&["!no-such-gpu"]));
    assert_eq!(chosen("0,7"), only(&["?no-such-gpu"]));
    assert_eq!(chosen("zero"), only(&["!no-such-gpu"]));
    // The list ends at the first unknown GPU.
    for (value, hidden) in [("7,0", "every GPU"), ("0,7,0", "every GPU named after it")] {
        let found = doctor(&machine, &[("CUDA_VISIBLE_DEVICES", value)]);
        let sentence =
            format!("CUDA_VISIBLE_DEVICES names `7`, an unknown GPU, and so hides {hidden}");
        assert_eq!(found["findings"][0]["what"], sentence);
        let certainty = |message: &str| {
            let words = ["diagnose", "--json", "--text", message];
            let run = Run::on(&machine, &words).env("CUDA_VISIBLE_DEVICES", value);
            run.any_stderr().json()["causes"].clone()
        };
        let is_it = |causes: &Value, fault: &str| {
            let mut causes = causes.as_array().unwrap().iter();
            let cause = causes.find(|one| one["cause"] == fault);
            cause.is_some_and(|one| one["certainty"] == "is")
        };
        let is = |causes: &Value| is_it(causes, "no-such-gpu");
        let ordinal = certainty("CUDA error: invalid device ordinal");
        assert!(is(&ordinal), "{ordinal:#}");
        let none = certainty("RuntimeError: No CUDA GPUs are available");
        let hides_all = hidden == "every GPU";
        assert_eq!(is_it(&none, "gpus-hidden"), hides_all, "{none:#}");
        for unsure in [
            "nvidia-container-cli: device error: 3: unknown device: unknown",
            "NCCL error in: ProcessGroupNCCL.cpp:957, invalid usage, NCCL version 21.0.3",
        ] {
            let causes = certainty(unsure);
            assert!(!is(&causes), "{causes:#}");
            assert!(causes.to_string().contains("no-such-gpu"), "{causes:#}");
        }
    }
}

#[test]
fn each_element_of_the_library_path_is_looked_at() {
    let machine = healthy(NODES);
    let path = |value: &str| codes(&doctor(&machine, &[("LD_LIBRARY_PATH", value)]));
    assert_eq!(path("/opt/a"), only(&[]));
    assert_eq!(path("/opt/a:/opt/b"), only(&[]));
    assert_eq!(path("/opt/gone"), only(&["path-missing"]));
    assert_eq!(path("/opt/a:"), only(&["?path-empty"]));
    assert_eq!(path("/opt/a:/opt/a"), only(&["path-duplicate"]));
    assert_eq!(path("/opt/stubs/stubs"), only(&["?path-stubs"]));
    assert_eq!(
        path("/opt/old"),
        only(&["!path-other-driver"]),
        "the loader takes it"
    );
    let behind = path("/usr/lib/x86_64-linux-gnu:/opt/old");
    assert_eq!(
        behind,
        only(&["?path-other-driver"]),
        "it stands behind the right one"
    );
    assert_eq!(path("/opt/b:/opt/c"), only(&["?versions-mixed"]));
    assert_eq!(path("opt/a"), only(&["?path-relative"]));
    let value = doctor(&machine, &[("LD_LIBRARY_PATH", "/opt/b:/opt/c")]);
    let finding = &value["findings"][0];
    let what = finding["what"].as_str().unwrap();
    assert_eq!(
        what,
        "LD_LIBRARY_PATH selects NCCL 2.21.5 in /opt/b over the 2.18.5 in /opt/c"
    );
    assert_eq!(value["elements"][1]["holds"][0]["version"], "2.18.5");
    let preload = |value: &str| codes(&doctor(&machine, &[("LD_PRELOAD", value)]));
    assert_eq!(preload("/opt/gone.so"), only(&["?preload-missing"]));
    assert_eq!(preload("/opt/b/libnccl.so.2"), only(&["?preload-library"]));
    assert_eq!(
        preload("libgone.so"),
        only(&[]),
        "the loader looks for it elsewhere"
    );
    assert_eq!(
        codes(&doctor(
            &machine,
            &[("GLIBC_TUNABLES", "glibc.malloc.check=1")]
        )),
        only(&["tunables-set"])
    );
    assert_eq!(
        codes(&doctor(&machine, &[("CUDARUN_VERIFY", "never")])),
        only(&["own-variables"])
    );
}

#[test]
fn an_installation_that_is_completed_from_elsewhere_is_mixed() {
    let cudnn = |directory: &str, version: &str, names: &str| {
        format!(
            r#"
[[file]]
path = "{directory}/libcudnn_graph.so.9"
elf = {{ soname = "libcudnn_graph.so.9", exports = ["cudnnGetVersion"], constants = ["cudnn_version_{version}_"] }}

[[file]]
path = "{directory}/{{name}}.so.9"
each = [{names}]
elf = {{ soname = "{{name}}.so.9" }}
"#
        )
    };
    let most = "\"libcudnn\", \"libcudnn_ops\", \"libcudnn_adv\", \"libcudnn_heuristic\", \"libcudnn_engines_precompiled\", \"libcudnn_engines_runtime_compiled\"";
    let all = format!("{most}, \"libcudnn_cnn\"");
    let files = |first: &str| {
        format!(
            "{NODES}{}{}",
            cudnn("/opt/new", "9_14_0_64", first),
            cudnn("/opt/nine", "9_1_0_70", &all)
        )
    };
    let path = [("LD_LIBRARY_PATH", "/opt/new:/opt/nine")];
    let torn = doctor(&healthy(&files(most)), &path);
    assert!(codes(&torn).contains("?completed-elsewhere"), "{torn:#}");
    assert_eq!(
        codes(&doctor(&healthy(&files(&all)), &path)),
        only(&["?versions-mixed"]),
        "the control"
    );
}

#[test]
fn the_line_that_put_an_element_there_is_named() {
    let more = r#"
[[file]]
path = "/home/user/.bashrc"
text = """
# export LD_LIBRARY_PATH=/opt/gone
export API_TOKEN=hunter2 LD_LIBRARY_PATH=$HOME/gone:$LD_LIBRARY_PATH
"""

[[file]]
path = "/etc/profile.d/cuda.sh"
text = "LD_LIBRARY_PATH=/opt/gone\n"
"#;
    let machine = healthy(&format!("{NODES}{more}"));
    let value = doctor(
        &machine,
        &[("LD_LIBRARY_PATH", "/home/user/gone:/opt/gone")],
    );
    assert_eq!(codes(&value), only(&["path-missing", "set-at-start"]));
    assert_eq!(
        value["elements"][0]["set_by"],
        serde_json::json!(["/home/user/.bashrc:2"])
    );
    assert_eq!(
        value["elements"][1]["set_by"],
        serde_json::json!(["/etc/profile.d/cuda.sh:1"])
    );
    assert!(!value.to_string().contains("hunter2"), "{value:#}");
}

#[test]
fn the_loaders_configuration_and_its_cache_are_compared() {
    let with = |entries: &str| {
        let more = format!(
            "{NODES}
[[file]]
path = \"/etc/ld.so.conf\"
text = \"include /etc/ld.so.conf.d/*.conf\\n\"

[[file]]
path = \"/etc/ld.so.conf.d/b.conf\"
text = \"# NCCL\\n/opt/b\\n\"

[[file]]
path = \"/etc/ld.so.cache\"
ld_cache = [{entries}]
"
        );
        doctor(&healthy(&more), &[("LD_LIBRARY_PATH", "/opt/b")])
    };
    let (cuda, nccl) = (
        r#"{ name = "libcuda.so.1", path = "/lib/x86_64-linux-gnu/libcuda.so.1" }"#,
        r#"{ name = "libnccl.so.2", path = "/opt/b/libnccl.so.2" }"#,
    );
    let stale = with(cuda);
    assert_eq!(codes(&stale), only(&["?cache-stale"]));
    assert_eq!(
        places(&stale, "cache-stale")[0],
        "/etc/ld.so.conf.d/b.conf:2"
    );
    assert_eq!(
        codes(&with(&format!("{cuda}, {nccl}"))),
        only(&[]),
        "the control"
    );
}

#[test]
fn settings_that_stop_a_start_are_errors_of_ours() {
    let with = |text: &str, lock: &str| {
        let lock = if lock.is_empty() {
            String::new()
        } else {
            file("/.cudarun.lock", lock)
        };
        doctor(
            &healthy(&format!("{NODES}{}{lock}", file("/.cudarun.toml", text))),
            &[],
        )
    };
    assert_eq!(
        codes(&with("[requires]\ndriver = \">=550\"\n", "")),
        only(&[]),
        "the control"
    );
    let bad = with("[requires]\ncudnn = \"nonsense\"\n", "");
    assert_eq!(codes(&bad), only(&["!setting-fault"]));
    assert_eq!(places(&bad, "setting-fault"), ["/.cudarun.toml:2"]);
    assert_eq!(bad["works"], true);
    assert!(
        bad["verdict"]
            .as_str()
            .unwrap()
            .starts_with("GPU programs can work from here, but cudarun")
    );
    // A variable is found as well, and does not keep the page away.
    let variable = |value| doctor(&healthy(NODES), &[("CUDARUN_VERIFY", value)]);
    let bad = variable("foo");
    assert!(codes(&bad).contains("!setting-fault"), "{bad:#}");
    assert_eq!(bad["works"], true);
    assert!(!codes(&variable("never")).contains("!setting-fault"));
    // Each wrong one is named with its value, and the others count: a lock that is demanded is no mere warning.
    let lock = file("/.cudarun.lock", "nonsense");
    let project = file("/.cudarun.toml", "");
    let machine = healthy(&format!("{NODES}{project}{lock}"));
    let (verify, pins) = (("CUDARUN_VERIFY", "foo"), ("CUDARUN_PIN_MODE", "bar"));
    let found = doctor(&machine, &[verify, pins, ("CUDARUN_LOCKED", "1")]);
    for (name, value) in [verify, pins] {
        let evidence = serde_json::json!({ "at": name, "says": format!("\"{value}\"") });
        let findings = found["findings"].as_array().unwrap();
        let is_named = findings.iter().any(|it| {
            it["code"] == "setting-fault" && it["evidence"] == serde_json::json!([evidence])
        });
        assert!(is_named, "{name}: {found:#}");
    }
    assert!(codes(&found).contains("!lock-fault"), "{found:#}");
    let found = doctor(&machine, &[verify, pins]);
    assert!(codes(&found).contains("?lock-fault"), "{found:#}");
    assert_eq!(codes(&with("[requirs]\n", "")), only(&["?unknown-key"]));
    assert_eq!(
        codes(&with("[env]\nA = \"1\"\n", "")),
        only(&["!not-allowed"])
    );
    let lock = |driver: &str| {
        format!(
            "format = 1\ndriver = \">={driver}\"\n\n[[family]]\nname = \"nccl\"\nversion = \"2.21.5\"\n"
        )
    };
    assert_eq!(
        codes(&with("", &lock("999.1"))),
        only(&["?lock-needs-driver"])
    );
    assert_eq!(
        codes(&with("locked = true\n", &lock("999.1"))),
        only(&["!lock-needs-driver"])
    );
    assert_eq!(
        codes(&with("locked = true\n", &lock("550.1"))),
        only(&[]),
        "the control"
    );
    assert_eq!(codes(&with("locked = true\n", "")), only(&["!lock-fault"]));
}

#[test]
fn a_pinned_directory_that_does_not_exist_is_reported() {
    let pinned = |directory: &str| {
        let value = format!("nccl={directory}");
        doctor(&healthy(NODES), &[("CUDARUN_PIN", value.as_str())])
    };
    let gone = pinned("/opt/gone");
    assert!(codes(&gone).contains("!setting-fault"), "{gone:#}");
    assert!(!codes(&pinned("/usr")).contains("!setting-fault"));
}

#[test]
fn a_cache_directory_that_others_can_write_to_is_reported() {
    let open = "\n[[file]]\npath = \"/home/user/.cache/cudarun\"\ndirectory = true\nmode = 0o777\n";
    let value = doctor(&healthy(&format!("{NODES}{open}")), &[]);
    assert_eq!(codes(&value), only(&["?cache-refused"]));
    assert_eq!(
        places(&value, "cache-refused"),
        ["/home/user/.cache/cudarun"]
    );
    let closed = open.replace("777", "700");
    assert_eq!(
        codes(&doctor(&healthy(&format!("{NODES}{closed}")), &[])),
        only(&[]),
        "the control"
    );
}

fn file(path: &str, text: &str) -> String {
    format!("\n[[file]]\npath = \"{path}\"\ntext = '''\n{text}'''\n")
}

#[test]
fn the_machines_of_the_tests_answer_alike_when_they_are_saved() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let names = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let is_machine = |path: &PathBuf| path.extension().is_some_and(|end| end == "toml");
    let names: Vec<PathBuf> = names.filter(is_machine).collect();
    assert!(names.len() >= 18, "{names:?}");
    for path in names {
        let machine = Machine::load(path.file_stem().unwrap().to_str().unwrap());
        doctor(&machine, &[]);
    }
}

#[test]
fn nothing_that_is_saved_names_anybody() {
    let scratch = tempfile::tempdir().unwrap();
    let env = HEALTHY.replace("/home/user", "/home/alice-secret").replace(
        "PATH = ",
        "API_TOKEN = \"hunter2\"\nCUDA_API_KEY = \"hunter2\"\nUSER = \"alice-secret\"\n\
         LD_LIBRARY_PATH = \"/home/alice-secret/lib:/home/bob-other/lib:/scratch/alice-secret/lib\"\nPATH = ",
    );
    let nccl = |directory: &str| {
        format!(
            "\n[[file]]\npath = \"{directory}/libnccl.so.2\"\nelf = {{ soname = \"libnccl.so.2\", runpath = \"{directory}\", constants = [\"NCCL version 2.20.5+cuda12.4\"] }}\n"
        )
    };
    let text = format!(
        "{env}{NODES}{}{}{}{}{}",
        file(
            "/home/alice-secret/.bashrc",
            "export OPENAI_KEY=hunter2\nexport API_TOKEN=hunter2 LD_LIBRARY_PATH=/home/alice-secret/lib\n# hunter2\n"
        ),
        file(
            "/.cudarun.toml",
            "# alice-secret\n[env]\nAPI = \"hunter2\"\n"
        ),
        nccl("/home/alice-secret/lib"),
        nccl("/home/bob-other/lib"),
        nccl("/scratch/alice-secret/lib"),
    );
    let machine = Machine::describe(&text);
    let file = scratch.path().join("saved.json");
    let save = ["doctor", "--json", "--save", file.to_str().unwrap()];
    let run = || Run::on(&machine, &save).in_directory("/");
    let before: Value = serde_json::from_str(&run().any_stderr().output().0).unwrap();
    let written = fs::read_to_string(&file).unwrap();
    for word in ["alice", "bob-other", "hunter2"] {
        assert!(!written.contains(word), "{word}\n{written}");
    }
    assert!(
        codes(&before).contains("!not-allowed") && codes(&before).len() > 1,
        "{before:#}"
    );
    let described = Run::new(["--node", file.to_str().unwrap(), "doctor", "--json"]);
    let described: Value = serde_json::from_str(&described.output().0).unwrap();
    assert_eq!(codes(&before), codes(&described));
    // A file that exists is never overwritten.
    run()
        .any_stdout()
        .status(2)
        .stderr_contains(&["exists, and cudarun does not overwrite it"])
        .check();
    assert_eq!(fs::read_to_string(&file).unwrap(), written);
}

#[test]
fn each_loader_configuration_file_is_read_once() {
    let names: Vec<String> = (0..30).map(|at| format!("\"{at}\"")).collect();
    let machine = healthy(&format!(
        "{NODES}\n[[file]]\npath = \"/etc/ld.so.conf\"\ntext = \"include /etc/ld.so.conf.d/*.conf\\n\"\n\
         [[file]]\npath = \"/etc/ld.so.conf.d/{{name}}.conf\"\neach = [{}]\n\
         text = \"/opt/b\\ninclude *.conf ../ld.so.conf.d/*.conf\\n\"\n\
         [[file]]\npath = \"/etc/ld.so.cache\"\nld_cache = [{{ name = \"libcuda.so.1\", path = \"/lib/x86_64-linux-gnu/libcuda.so.1\" }}]",
        names.join(",")
    ));
    // Sixty to the eighth would be more than anybody waits for.
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        sender.send(places(
            &doctor(&machine, &[("LD_LIBRARY_PATH", "/opt/b")]),
            "cache-stale",
        ))
    });
    let found = receiver
        .recv_timeout(std::time::Duration::from_mins(1))
        .expect("it ends");
    assert_eq!(found[0], "/etc/ld.so.conf.d/0.conf:1");
}

/// torch with its own cuDNN 9.10.2 and a DT_RPATH to it, and ctranslate2 with a bundled shim.
fn torch(more: &str) -> Machine {
    let files = [
        NODES.to_owned(),
        program("python3.12", &["libc.so.6"], ""),
        link("/usr/bin/python3", "/opt/venv/bin/python3"),
        link("/opt/venv/bin/python3", "/usr/bin/python3.12"),
        text(
            "/opt/venv/pyvenv.cfg",
            "home = /usr/bin\nversion_info = 3.12.3\n",
        ),
        text(&format!("{SITE}/torch/__init__.py"), ""),
        text(&format!("{SITE}/torch/version.py"), "cuda = '12.4'\n"),
        text(
            &format!("{SITE}/torch-2.5.1.dist-info/METADATA"),
            "Name: torch\nVersion: 2.5.1\n\n",
        ),
        elf(
            &format!("{SITE}/torch/lib/libtorch_cuda.so"),
            "soname = 'libtorch_cuda.so', needed = ['libcudnn.so.9'], rpath = '$ORIGIN/../../nvidia/cudnn/lib'",
        ),
        cudnn(&format!("{SITE}/nvidia/cudnn/lib"), "9.10.2.21", SHIELDED),
        cudnn("/opt/other", "9.1.0.70", SHIELDED),
        elf(
            &format!("{SITE}/ctranslate2.libs/libcudnn-74a4c495.so.9.1.0"),
            "soname = 'libcudnn-74a4c495.so.9.1.0', runpath = '$ORIGIN'",
        ),
    ];
    let mut machine = healthy(&(files.concat() + more));
    machine
        .env
        .insert("PATH".to_owned(), "/opt/venv/bin:/usr/bin".to_owned());
    machine
}

#[test]
fn frameworks_are_examined_as_their_programs_would_be() {
    let machine = torch("");
    let examined =
        |path: &str| doctor(&machine, &[("LD_LIBRARY_PATH", path)])["programs"][0].clone();
    let mixed = examined("/opt/other");
    assert_eq!(mixed["command"], "python3 -c 'import torch'", "{mixed:#}");
    assert!(
        mixed["uses"]
            .as_array()
            .unwrap()
            .contains(&"cuDNN 9.10.2.21".into()),
        "{mixed:#}"
    );
    let fault = mixed["faults"][0].as_str().unwrap();
    assert!(
        fault.starts_with("without cudarun: cuDNN: mixed: ") && fault.contains("/opt/other"),
        "{fault}"
    );
    assert_eq!(
        examined("")["faults"],
        Value::Array(Vec::new()),
        "the control"
    );
    let page = Run::on(&machine, &["doctor"]).any_stdout().check();
    // It cannot be started there.
    assert!(
        page.ends_with("next: cudarun explain python3 -c 'import torch'\n"),
        "{page}"
    );
}

/// The next command names what a person most probably means, and not the first by name; one with a warning comes before.
#[test]
fn the_most_common_framework_comes_first() {
    let cupy = [
        text(&format!("{SITE}/cupy/__init__.py"), ""),
        text(
            &format!("{SITE}/cupy_cuda12x-13.3.0.dist-info/METADATA"),
            "Name: cupy-cuda12x\nVersion: 13.3.0\n",
        ),
        text("/usr/local/cuda/include/cuda_runtime.h", ""),
    ];
    let machine = torch(&cupy.concat());
    let found = doctor(&machine, &[]);
    let commands: Vec<&str> = found["programs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|program| program["command"].as_str().unwrap())
        .collect();
    assert_eq!(
        commands,
        ["python3 -c 'import torch'", "python3 -c 'import cupy'"]
    );
    let page = Run::on(&machine, &["doctor"]).any_stdout().check();
    assert!(
        page.ends_with("next: cudarun explain python3 -c 'import torch'\n"),
        "{page}"
    );
}

#[test]
fn a_named_program_is_examined_alone() {
    let machine = torch("");
    let words = [
        "doctor",
        "--json",
        "--",
        "python3",
        "-c",
        "import torch; x = 1",
    ];
    let named = Run::on(&machine, &words).json();
    assert_eq!(named["programs"].as_array().unwrap().len(), 1);
    assert_eq!(
        named["programs"][0]["command"],
        "python3 -c 'import torch; x = 1'"
    );
    let without = Run::on(&healthy(NODES), &["doctor"]).any_stdout().check();
    assert!(
        without.ends_with("next: cudarun explain PROGRAM\n"),
        "{without}"
    );
}

#[test]
fn a_refusal_is_a_warning_without_a_label_of_its_own() {
    let machine = Machine::load("old-driver");
    let (page, status) = Run::on(&machine, &["doctor", "for-13"])
        .any_stderr()
        .output();
    assert_eq!(status, 1, "{page}");
    let line = "warning: no CUDA runtime here fits `for-13`";
    assert!(
        page.contains(line) && !page.contains("warning: error"),
        "{page}"
    );
    let run = Run::on(&machine, &["doctor", "--json", "for-13"]).any_stderr();
    let value: Value = serde_json::from_str(&run.output().0).unwrap();
    assert_eq!(
        value["programs"][0]["faults"]
            .as_array()
            .unwrap()
            .last()
            .unwrap(),
        "no CUDA runtime here fits `for-13`"
    );
}

#[test]
fn a_shim_that_a_package_brings_is_not_to_be_removed() {
    let page = Run::on(&torch(""), &["doctor", "-v"]).any_stdout().check();
    assert!(
        page.contains("ctranslate2.libs"),
        "the control: it is listed\n{page}"
    );
    assert!(
        !page.contains("incomplete") && !page.contains("remove"),
        "{page}"
    );
}

/// The finding and the cause that `diagnose` reports for a message have one sentence.
#[test]
fn doctor_and_diagnose_use_the_same_sentence() {
    let not_loaded = healthy(NODES);
    fs::remove_file(not_loaded.real("/sys/module/nvidia/version")).unwrap();
    let closed = healthy(&NODES.replace("text = \"\"", "text = \"\"\nmode = 0o660"));
    let no_gpu = "RuntimeError: No CUDA GPUs are available";
    let no_driver = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.";
    for (machine, variable, finding, message) in [
        (not_loaded, ("A", ""), "driver-not-loaded", no_driver),
        (
            closed,
            ("A", ""),
            "device-not-permitted",
            "open /dev/nvidiactl: Permission denied",
        ),
        (
            healthy(""),
            ("NVIDIA_VISIBLE_DEVICES", "void"),
            "container-without-gpus",
            no_gpu,
        ),
        (
            healthy(NODES),
            ("CUDA_VISIBLE_DEVICES", ""),
            "gpus-hidden",
            no_gpu,
        ),
    ] {
        let found = doctor(&machine, &[variable]);
        let finding = found["findings"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["code"] == finding);
        let words = ["diagnose", "--json", "--text", message];
        let diagnosed = Run::on(&machine, &words)
            .env(variable.0, variable.1)
            .any_stderr()
            .json();
        let cause = &diagnosed["causes"][0];
        assert_eq!(cause["certainty"], "is", "{diagnosed:#}");
        assert_eq!(cause["what"], finding.unwrap()["what"], "{message}");
    }
}
