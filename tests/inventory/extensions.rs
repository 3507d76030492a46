//! Extension modules beside a framework of another build: the symbols and libraries that they lack. Each case has a control
//! that fits.

use serde_json::{Value, json};

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, elf, python, text};

const ERROR: &str = "_ZN3c105ErrorC1Ev";
const NEWER: &str = "_ZNK3c105Error4whatEv";

/// Names that only resemble those in torch's namespaces.
const OTHERS: [&str; 6] = [
    "_ZN6vision1fEN2at6TensorE",
    "_Z3c10v",
    "_ZN3c1",
    "_ZN99c10",
    "c10",
    "_ZSt4moveIN3c10E",
];

/// An environment with torch 2.6.0 and a package with these extension modules, by name.
fn environment(requires: &str, modules: &[(&str, String)]) -> Machine {
    environment_with(requires, modules, &[])
}

/// The same with more files.
fn environment_with(requires: &str, modules: &[(&str, String)], more: &[String]) -> Machine {
    python(&[files(requires, modules), more.to_vec()].concat())
}

fn files(requires: &str, modules: &[(&str, String)]) -> Vec<String> {
    let library = |name: &str, fields: &str| {
        elf(
            &format!("{SITE}/torch/lib/{name}"),
            &format!("soname = '{name}', {fields}"),
        )
    };
    let path = |name: &str| format!("vision/{name}");
    let record: String = modules
        .iter()
        .map(|(name, _)| format!("{},sha256=x,\n", path(name)))
        .collect();
    let mut files = vec![
        library(
            "libc10.so",
            &format!("exports = ['{ERROR}'], unversioned = true"),
        ),
        library("libtorch_cuda.so", "needed = ['libcudart.so.12']"),
        library("libtorch_python.so", "needed = []"),
        text(&format!("{SITE}/torch/__init__.py"), ""),
        text(
            &format!("{SITE}/torch-2.6.0+cu124.dist-info/METADATA"),
            "Name: torch\nVersion: 2.6.0+cu124\n",
        ),
        text(&format!("{SITE}/vision/__init__.py"), "import torch\n"),
        text(
            &format!("{SITE}/vision-1.0.dist-info/METADATA"),
            &format!("Name: vision\nVersion: 1.0\nRequires-Dist: torch{requires}\n"),
        ),
        text(&format!("{SITE}/vision-1.0.dist-info/RECORD"), &record),
    ];
    files.extend(
        modules
            .iter()
            .map(|(name, fields)| elf(&format!("{SITE}/{}", path(name)), fields)),
    );
    files
}

fn explained(machine: &Machine, options: &[&str], code: &str) -> Value {
    let words = [&["explain", "--json"], options, &["python3", "-c", code]].concat();
    let run = Run::on(machine, &words).any_stderr().any_stdout();
    serde_json::from_str(&run.output().0).unwrap()
}

/// An extension module that is linked against these libraries and imports these symbols.
fn module(needed: &[&str], imports: &[&str]) -> String {
    format!("needed = {needed:?}, imports = {{ '' = {imports:?} }}")
}

fn listed(machine: &Machine) -> Value {
    Run::on(machine, &["list", "--extensions", "--json"]).json()["extensions"].clone()
}

#[test]
fn symbols_that_the_framework_does_not_export_are_counted() {
    let machine = environment(
        "==2.7.0",
        &[
            (
                "_C.so",
                module(
                    &["libc10.so"],
                    &[ERROR, NEWER, "_ZN6vision1fEv", "PyErr_Occurred"],
                ),
            ),
            (
                "_fits.so",
                module(&["libc10.so"], &[ERROR, "_ZN6vision1fEv"]),
            ),
            ("_unlinked.so", module(&["libc.so.6"], &[NEWER])),
            ("_other.so", module(&["libc.so.6"], &OTHERS)),
        ],
    );
    let row = |name: &str, symbols: &[&str]| {
        json!({
            "path": format!("{SITE}/vision/{name}"), "package": "vision 1.0", "framework": "torch 2.6.0+cu124",
            "built_for": "2.7.0", "lacks_symbols": symbols, "lacks_libraries": [],
        })
    };
    let expected = [
        row("_C.so", &[NEWER]),
        row("_fits.so", &[]),
        row("_unlinked.so", &[NEWER]),
    ];
    assert_eq!(listed(&machine), json!(expected));
    Run::on(&machine, &["list", "--extensions"])
        .stdout(format!(
            "\
PACKAGE     FRAMEWORK          LACKS     FILE
vision 1.0  torch 2.6.0+cu124  1 symbol  {SITE}/vision/_C.so
vision 1.0  torch 2.6.0+cu124  nothing   {SITE}/vision/_fits.so
vision 1.0  torch 2.6.0+cu124  1 symbol  {SITE}/vision/_unlinked.so
"
        ))
        .check();
}

#[test]
fn a_library_beside_the_module_may_export_a_symbol() {
    let machine = environment(
        "",
        &[
            ("_C.so", module(&["libc10.so", "libvision.so"], &[NEWER])),
            ("_D.so", module(&["libc10.so"], &[NEWER])),
            (
                "libvision.so",
                format!("soname = 'libvision.so', exports = ['{NEWER}'], unversioned = true"),
            ),
        ],
    );
    let found = listed(&machine);
    assert_eq!(found[0]["lacks_symbols"], json!([]));
    assert_eq!(found[1]["lacks_symbols"], json!([NEWER]), "the control");
    assert_eq!(found[0]["built_for"], Value::Null);
}

#[test]
fn libraries_of_other_builds_are_named() {
    let machine = environment(
        ">=2",
        &[
            ("a.so", module(&["libc10.so", "libtorch_cuda_cpp.so"], &[])),
            (
                "b.so",
                module(&["libtorch_cuda.so", "libcudart.so.11.0"], &[]),
            ),
            (
                "c.so",
                module(
                    &["libtorch_cuda.so", "libcudart.so.12", "libcufft.so.11"],
                    &[],
                ),
            ),
        ],
    );
    let found = listed(&machine);
    assert_eq!(found[0]["lacks_libraries"], json!(["libtorch_cuda_cpp.so"]));
    assert_eq!(found[1]["lacks_libraries"], json!(["libcudart.so.11.0"]));
    assert_eq!(
        (&found[2]["lacks_symbols"], &found[2]["lacks_libraries"]),
        (&json!([]), &json!([]))
    );
}

#[test]
fn doctor_and_explain_report_modules_that_do_not_fit() {
    let modules = |symbol: &str| {
        [
            ("_C.so", module(&["libc10.so"], &[symbol])),
            ("_D.so", module(&["libc10.so"], &[symbol])),
        ]
    };
    let findings = |machine: &Machine| {
        let (output, _) = Run::on(machine, &["doctor", "--json"])
            .any_stderr()
            .output();
        let report: Value = serde_json::from_str(&output).unwrap();
        let findings = report["findings"].as_array().unwrap().clone();
        findings
            .into_iter()
            .filter(|finding| finding["code"] == "extension-mismatch")
            .collect::<Vec<_>>()
    };
    let bad = environment("==2.7.0", &modules(NEWER));
    let found = findings(&bad);
    assert_eq!(found.len(), 1);
    let what = "vision/_C.so needs 1 symbol, which torch 2.6.0+cu124 does not have (vision 1.0 is built for 2.7.0), and 1 more";
    assert_eq!(found[0]["what"], what);
    assert_eq!(found[0]["remedy"], "pip install 'torch==2.7.0'");
    assert_eq!(
        explained(&bad, &[], "import vision")["extensions"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        explained(&bad, &[], "import torch")["extensions"],
        json!([]),
        "a module that it does not import"
    );
    let good = environment("==2.7.0", &modules(ERROR));
    assert_eq!(findings(&good).len(), 0, "the control");
    let fitting = explained(&good, &[], "import vision")["extensions"].clone();
    assert_eq!(fitting.as_array().unwrap().len(), 2);
    assert_eq!(fitting[0]["lacks_symbols"], json!([]));
    let own = environment("==2.6.0", &modules(NEWER));
    assert_eq!(
        findings(&own)[0]["remedy"],
        "install the build of vision for torch 2.6.0+cu124"
    );
    // torchaudio 2.5.1 is the one for torch 2.5.1.
    let as_numbered = environment("==1.0", &modules(NEWER));
    assert_eq!(
        findings(&as_numbered)[0]["remedy"],
        "pip install 'vision==2.6.0'"
    );
}

fn is_refused(explained: &Value) -> bool {
    explained["decision"] == "conflict"
}

fn warns(machine: &Machine) -> bool {
    let words = ["explain", "python3", "-c", "import vision"];
    let page = Run::on(machine, &words)
        .any_stderr()
        .any_stdout()
        .output()
        .0;
    let warns = page.contains("warning: ");
    assert_eq!(warns, page.contains("hint: "), "{page}");
    warns
}

#[test]
fn a_module_that_does_not_fit_is_a_warning_or_what_a_person_makes_of_it() {
    let with =
        |symbol: &str| environment("==2.7.0", &[("_C.so", module(&["libc10.so"], &[symbol]))]);
    let (unfit, fits) = (with(NEWER), with(ERROR));
    assert!(warns(&unfit) && !warns(&fits));
    assert!(!is_refused(&explained(&unfit, &[], "import vision")));
    let require = ["--require", "extensions"];
    let refused = explained(&unfit, &require, "import vision");
    assert!(is_refused(&refused), "{refused:#}");
    assert_eq!(
        refused["broken"][0]["unfit"][0]["lacks_symbols"],
        json!([NEWER])
    );
    let words = [
        &["explain"],
        &require[..],
        &["python3", "-c", "import vision"],
    ]
    .concat();
    let page = Run::on(&unfit, &words).any_stderr().any_stdout().output().0;
    for words in [
        "`vision 1.0` does not fit torch 2.6.0+cu124",
        "'torch==2.7.0'",
    ] {
        assert!(page.contains(words), "{page}");
    }
    // Its neighbours: one that fits, and one that the program does not import.
    assert!(!is_refused(&explained(&fits, &require, "import vision")));
    assert!(!is_refused(&explained(&unfit, &require, "import torch")));
}

/// conda-forge kept libtorch_python.so in the environment's own `lib` for a while.
#[test]
fn nothing_is_told_where_a_part_of_the_framework_is_elsewhere() {
    let modules = [(
        "_C.so",
        module(&["libc10.so", "libtorch_python.so"], &[NEWER]),
    )];
    assert!(warns(&environment("==2.7.0", &modules)), "the control");
    let mut files = files("==2.7.0", &modules);
    files.retain(|file| !file.contains("torch/lib/libtorch_python.so"));
    assert!(!warns(&python(&files)));
}

#[test]
fn one_of_several_variants_is_enough() {
    let with = |first: &str, second: &str| {
        let modules = [
            (first, module(&["libc10.so"], &[NEWER])),
            (second, module(&["libc10.so"], &[ERROR])),
        ];
        environment("", &modules)
    };
    assert!(!warns(&with("_C25.so", "_C26.so")));
    assert!(!warns(&with("sm90/_C.so", "sm100/_C.so")));
    assert!(warns(&with("_C25.so", "_D26.so")), "the control");
}

#[test]
fn a_library_of_another_cuda_may_be_installed() {
    let modules = [("_C.so", module(&["libc10.so", "libcudart.so.13"], &[]))];
    let directory = format!("{SITE}/nvidia/cu13/lib");
    let cudart = elf(
        &format!("{directory}/libcudart.so.13"),
        "soname = 'libcudart.so.13'",
    );
    assert!(!warns(&environment_with("", &modules, &[cudart])));
    assert!(warns(&environment("", &modules)), "the control");
}

#[test]
fn a_module_lacks_what_a_module_that_it_is_linked_against_lacks() {
    let machine = environment(
        "",
        &[
            ("_C.so", module(&["libc10.so", "libvision.so"], &[ERROR])),
            (
                "libvision.so",
                module(&["libc10.so"], &[NEWER]) + ", soname = 'libvision.so'",
            ),
        ],
    );
    let found = listed(&machine);
    assert_eq!(found[0]["lacks_symbols"], json!([NEWER]));
}

#[test]
fn a_file_for_another_release_is_not_opened_beside_this_one() {
    let with = |names: &[&str]| {
        let modules: Vec<(&str, String)> = names
            .iter()
            .map(|name| (*name, module(&["libc10.so"], &[NEWER])))
            .collect();
        environment("", &modules)
    };
    assert!(!warns(&with(&[
        "addon_torch24-cpu.so",
        "addon_torch25-cpu.so"
    ])));
    // Its neighbours: one for this release, and a single file, which is opened whatever its name.
    assert!(warns(&with(&[
        "addon_torch26-cpu.so",
        "addon_torch25-cpu.so"
    ])));
    assert!(warns(&with(&["addon_torch24-cpu.so"])));
}
