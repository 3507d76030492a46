//! The documents beside the code stay true to it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use cudarun::catalog::{AfterProof, Fault, clue_table, errors, faults};
use cudarun::inventory::Origin;
use serde_json::Value;

use crate::fetch::wheelhouse::{Wheelhouse, app, cudart};
use crate::support::Run;
use crate::support::machine::Machine;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_newest_entry_of_the_changelog_is_this_version() {
    let changelog = read("CHANGELOG.md");
    let newest = changelog
        .lines()
        .find_map(|line| line.strip_prefix("## "))
        .unwrap();
    assert!(newest.starts_with(env!("CARGO_PKG_VERSION")), "{newest}");
}

/// Each page is reached from a question.
#[test]
fn the_index_lists_every_page() {
    let index = read("docs/README.md");
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") && name != "README.md" {
            assert!(
                index.contains(&format!("]({name})")),
                "docs/README.md does not list {name}"
            );
        }
    }
}

/// The list names every wrapper, so that its users find it there.
#[test]
fn the_list_of_wrappers_names_every_row_of_the_profile() {
    let documented = read("docs/wrappers.md");
    for row in cudarun::catalog::wrappers() {
        let is_named = row.names.iter().any(|name| {
            documented.contains(&format!("`{name}`")) || documented.contains(&format!("`{name} "))
        });
        assert!(is_named, "{:?}", row.names);
    }
}

#[test]
fn the_readme_names_every_verb_and_exit_code() {
    let readme = read("README.md");
    for verb in cudarun::cli::VERBS {
        assert!(readme.contains(&format!("cudarun {verb}")), "{verb}");
    }
    for code in ["125", "126", "127"] {
        assert!(readme.contains(code), "{code}");
    }
}

/// The first cells of the rows of the table below a heading of docs/sources.md.
fn rows_below(heading: &str) -> Vec<String> {
    let document = read("docs/sources.md");
    let (_, section) = document.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let cell = |line: &str| Some(line.strip_prefix("| `")?.split_once("` |")?.0.to_owned());
    section.lines().filter_map(cell).collect()
}

#[test]
fn every_source_is_documented_once_and_no_other() {
    let sources: Vec<&str> = cudarun::inventory::source_names().collect();
    let (mut documented, mut known) = (rows_below("Sources"), sources.clone());
    documented.sort_unstable();
    known.sort_unstable();
    assert_eq!(
        documented, known,
        "docs/sources.md has one row for each row of SOURCES"
    );
}

/// An installation has the first origin that applies, so the order is part of the meaning.
#[test]
fn every_origin_is_documented_in_the_order_that_counts() {
    let origins: Vec<&str> = Origin::all().map(Origin::word).collect();
    assert_eq!(
        rows_below("Origins"),
        origins,
        "docs/sources.md has one row for each variant of Origin"
    );
}

/// `tests/gpu/row.sh` prints the rows of docs/gpu-results.md through this script.
#[test]
fn gpu_results_have_one_short_line_for_each_row() {
    let page = read("docs/gpu-results.md");
    let rows: String = page
        .lines()
        .filter(|line| line.starts_with("| ok |"))
        .map(|row| format!("{row}\n"))
        .collect();
    assert!(rows.lines().count() >= 84, "{} rows", rows.lines().count());
    assert_eq!(
        shortened(&rows),
        rows,
        "tests/gpu/short.sed shortens a row of docs/gpu-results.md further"
    );
    let long = "| ok | torch | LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu | status 1; mixed: cudnn from nvidia/cudnn/lib and \
                /usr/lib/x86_64-linux-gnu | 3 files: a.so b.so from nvidia/cu13/lib; c.so from /usr/local/nvidia/lib64 |\n";
    let short = "| ok | torch | LD_LIBRARY_PATH=DEBIAN | status 1; mixed cudnn | 3 files |\n";
    assert_eq!(shortened(long), short);
}

fn shortened(rows: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows");
    fs::write(&file, rows).unwrap();
    let mut sed = Command::new("sed");
    sed.args(["-E", "-f", "tests/gpu/short.sed"])
        .arg(file)
        .env("LC_ALL", "C.UTF-8");
    let output = sed
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Every key that `--json` prints is explained, at any depth.
#[test]
fn the_json_that_is_printed_is_documented() {
    let documented = read("docs/json.md");
    let container = Machine::load("h200-container");
    let torn = Machine::load("h200-container");
    let site = "/opt/venv/lib/python3.12/site-packages";
    fs::remove_file(torn.real(&format!("{site}/nvidia/cudnn/lib/libcudnn_cnn.so.9"))).unwrap();
    let program = ["--json", "python3", "/home/user/train.py"];
    let in_view = [
        "--json",
        "--pin-mode=none",
        "python3",
        "/home/user/train.py",
    ];
    let predicted = ["--json", "--predict", "python3", "/home/user/train.py"];
    let mut undocumented = BTreeSet::new();
    for (machine, verb, arguments, status) in [
        (&container, "list", &["--json"][..], 0),
        (&container, "explain", &program, 0),
        (&container, "export", &program, 0),
        (&torn, "list", &["--json"], 0),
        (&torn, "explain", &program, 0),
        (&torn, "explain", &in_view, 1),
        (&torn, "export", &in_view, 1),
        (&torn, "trace", &predicted, 0),
        (&torn, "explain", &["--json", "/nowhere"], 2),
        (&container, "doctor", &["--json"], 1),
    ] {
        let words = [&[verb], arguments].concat();
        let run = Run::on(machine, &words)
            .env("LD_LIBRARY_PATH", ":/usr/local/cuda/compat")
            .status(status);
        collect(&run.any_stderr().json(), &documented, &mut undocumented);
    }
    let set = Run::on(&container, &["explain", "--json", "true"])
        .env("CUDARUN_REQUIRE", "driver>=1; gpu>=1");
    collect(
        &set.any_stderr().status(2).json(),
        &documented,
        &mut undocumented,
    );
    let verified = Run::new(["verify", "--json", "/bin/true"]).json();
    collect(&verified, &documented, &mut undocumented);
    let house = Wheelhouse::new(&[cudart()]);
    let app = app("needs-cudart");
    let missing = house.run(&["explain", "--json", &app]).status(1).json();
    assert_eq!(
        missing["to_fetch"][0]["distribution"], "nvidia-cuda-runtime-cu12",
        "{missing:#}"
    );
    collect(&missing, &documented, &mut undocumented);
    collect(
        &house.run(&["fetch", "--dry-run", "--json", &app]).json(),
        &documented,
        &mut undocumented,
    );
    house.fetch(&[&app]).any_stderr().check();
    collect(
        &house.run(&["fetch", "list", "--json"]).json(),
        &documented,
        &mut undocumented,
    );
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report");
    Run::new([
        "trace",
        "--json",
        "--all",
        "-o",
        report.to_str().unwrap(),
        "/bin/true",
    ])
    .check();
    let traced: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    collect(&traced, &documented, &mut undocumented);
    assert!(
        undocumented.is_empty(),
        "not in docs/json.md: {undocumented:?}"
    );
}

/// The keys that are not documented; those of variables and of sections of code are names.
fn collect(value: &Value, documented: &str, undocumented: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, below) in object {
                if !documented.contains(&format!("`{key}`")) {
                    undocumented.insert(key.clone());
                }
                if !["environment", "code", "serves"].contains(&key.as_str()) {
                    collect(below, documented, undocumented);
                }
            }
        }
        Value::Array(values) => values
            .iter()
            .for_each(|value| collect(value, documented, undocumented)),
        _ => {}
    }
}

#[test]
fn every_cause_of_a_proof_is_explained() {
    let document = read("docs/proof.md");
    let rows = faults().iter().filter(|row| row.proof.is_some());
    for row in rows {
        let name = format!(
            "`{}`",
            serde_json::to_value(row.name).unwrap().as_str().unwrap()
        );
        let line = document
            .lines()
            .find(|line| line.starts_with("| ") && line.contains(&name));
        let line = line.unwrap_or_else(|| panic!("docs/proof.md lacks {name}"));
        let tries_another = row.proof == Some(AfterProof::OtherPlan);
        assert_eq!(line.ends_with("| yes |"), tries_another, "{line}");
    }
}

/// Only faults with a section of doctor's page have severities and facts of the machine.
#[test]
fn every_fault_has_the_fields_of_its_users() {
    let of_doctor = |fault: &Fault| fault.row().section.is_some();
    let mut told: BTreeSet<Fault> = errors()
        .iter()
        .chain(&clue_table().clues)
        .flat_map(|row| row.cause.iter().map(|possible| possible.cause))
        .collect();
    told.extend(
        faults()
            .iter()
            .filter(|row| row.proof.is_some())
            .map(|row| row.name),
    );
    for row in faults() {
        assert_eq!(of_doctor(&row.name), !row.severity.is_empty(), "{row:?}");
        assert!(
            of_doctor(&row.name) || row.note.is_empty() && row.here.is_empty(),
            "{row:?}"
        );
        assert!(
            of_doctor(&row.name) || told.contains(&row.name),
            "nothing leads to {row:?}"
        );
        assert!(row.cases.iter().all(of_doctor), "{row:?}");
        // A message or a proof may know nothing but what the fault is about.
        if told.contains(&row.name) {
            assert!(only_names(&row.says, &["of"]), "{row:?}");
        }
        for cure in [&row.cure, &row.other_cure] {
            assert!(
                only_names(cure, &["setter", "mend", "reinstall", "cudarun"]),
                "{row:?}"
            );
        }
    }
}

/// True if the names in braces are among these.
fn only_names(text: &str, names: &[&str]) -> bool {
    let parts = text.split('{').skip(1);
    parts
        .into_iter()
        .all(|part| names.contains(&part.split('}').next().unwrap()))
}

#[test]
fn the_architecture_names_every_file_and_room() {
    let architecture = read("src/ARCHITECTURE.md");
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "ARCHITECTURE.md" {
            assert!(
                architecture.contains(&format!("`{name}")),
                "{name} is not in src/ARCHITECTURE.md"
            );
        }
    }
}
