//! A cuDNN 9 shim over sublibraries of another version: every part of cudarun must agree on when that is one set. Each case
//! that starts has its neighbour that is refused or named.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::pin::real_loader::{Got, PROGRAM, WORLD};
use crate::support::machine::Machine;
use crate::support::parts::{
    SHIELDED, SITE, cudnn, elf, link, machine, node, program, python, refused, text,
};
use crate::support::{Run, Workshop, bare};

const WHEEL: &str = "/opt/venv/lib/python3.12/site-packages/nvidia/cudnn/lib";
const DEBIAN: &str = "/opt/debian";

fn loader() -> String {
    elf(
        "/lib64/ld-linux-x86-64.so.2",
        "soname = 'ld-linux-x86-64.so.2'",
    )
}

/// `ctranslate2` with a packed cuDNN shim of this name.
fn ctranslate2(packed: &str) -> String {
    let library = "libctranslate2-1b0cf510.so.4.6.1";
    let extension = format!("needed = ['{library}'], rpath = '$ORIGIN/../ctranslate2.libs'");
    let own = format!("soname = '{library}', needed = ['{packed}'], code = ['sm_86']");
    [
        text(&format!("{SITE}/ctranslate2/__init__.py"), ""),
        text(
            &format!("{SITE}/ctranslate2-4.6.1.dist-info/METADATA"),
            "Name: ctranslate2\nVersion: 4.6.1\n",
        ),
        elf(
            &format!("{SITE}/ctranslate2/_ext.cpython-312-x86_64-linux-gnu.so"),
            &extension,
        ),
        elf(&format!("{SITE}/ctranslate2.libs/{library}"), &own),
        elf(
            &format!("{SITE}/ctranslate2.libs/{packed}"),
            &format!("soname = '{packed}', rpath = '$ORIGIN'"),
        ),
    ]
    .concat()
}

const SHIM: &str = "libcudnn-74a4c495.so.9.1.0";

/// A torch wheel of this version, as far as it records its cuDNN.
fn torch(version: &str, cudnn: &str) -> String {
    let metadata =
        format!("Name: torch\nVersion: {version}\nRequires-Dist: nvidia-cudnn-cu12 (=={cudnn})\n");
    let rpath = "$ORIGIN/../../nvidia/cudnn/lib:$ORIGIN";
    let library =
        format!("soname = 'libtorch_cuda.so', needed = ['libcudnn.so.9'], rpath = '{rpath}'");
    [
        text(&format!("{SITE}/torch/__init__.py"), ""),
        text(&format!("{SITE}/torch/version.py"), "cuda = '12.4'\n"),
        text(
            &format!("{SITE}/torch-{version}.dist-info/METADATA"),
            &metadata,
        ),
        elf(&format!("{SITE}/torch/lib/libtorch_cuda.so"), &library),
    ]
    .concat()
}

/// A whole cuDNN whose operations say their own version.
fn with_operations_of(directory: &str, graph: &str, operations: u32) -> String {
    let stem = "libcudnn_ops";
    let of_graph = elf(
        &format!("{directory}/{stem}.so.9"),
        &format!("soname = '{stem}.so.9', {SHIELDED}"),
    );
    let own = format!(
        "soname = '{stem}.so.9', {SHIELDED}, objects = {{ cudnn_ops_infer_version = {operations} }}"
    );
    let whole = cudnn(directory, graph, SHIELDED);
    assert!(whole.contains(&of_graph));
    whole.replace(&of_graph, &elf(&format!("{directory}/{stem}.so.9"), &own))
}

fn without(cudnn: &str, stem: &str) -> String {
    let files = cudnn
        .split("[[file]]\n")
        .filter(|file| !file.is_empty() && !file.contains(&format!("/{stem}.so")));
    files.map(|file| format!("[[file]]\n{file}")).collect()
}

fn explain(machine: &Machine, library_path: &str, command: &[&str]) -> Value {
    let arguments: Vec<&str> = ["explain", "--json"]
        .iter()
        .chain(command)
        .copied()
        .collect();
    Run::on(machine, &arguments)
        .env("LD_LIBRARY_PATH", library_path)
        .json()
}

fn picked<'e>(explained: &'e Value, key: &str) -> &'e str {
    let families = explained["families"]
        .as_array()
        .unwrap_or_else(|| panic!("{explained:#}"));
    let cudnn = families
        .iter()
        .find(|family| family["family"] == "cudnn")
        .unwrap();
    cudnn["picked"][key].as_str().unwrap()
}

const IMPORT: [&str; 3] = ["python3", "-c", "import faster_whisper, ctranslate2"];

#[test]
fn a_packed_shim_starts_over_every_whole_cudnn_of_its_major() {
    for version in ["9.1.0.70", "9.5.1.17", "9.10.2.21", "9.16.0.29"] {
        let machine = python(&[loader(), ctranslate2(SHIM), cudnn(WHEEL, version, SHIELDED)]);
        let explained = explain(&machine, "", &IMPORT);
        assert_eq!(picked(&explained, "version"), version, "{explained:#}");
        assert_eq!(explained["mode"], "view");
        let files = explained["after"].as_array().unwrap();
        let of_cudnn = files.iter().filter(|file| file["family"] == "cudnn");
        assert_eq!(
            of_cudnn.count(),
            7,
            "every sublibrary, and no second shim: {files:#?}"
        );
    }
    let own = [
        cudnn(WHEEL, "9.16.0.29", SHIELDED),
        cudnn("/opt/old", "9.1.0.70", SHIELDED),
    ];
    let both = explain(
        &python(&[&[ctranslate2(SHIM)], &own[..]].concat()),
        "/opt/old",
        &IMPORT,
    );
    assert_eq!(
        picked(&both, "directory"),
        WHEEL,
        "the environment's own comes first"
    );
    let apart = [cudnn("/opt/new", "9.16.0.29", SHIELDED), own[1].clone()];
    let both = explain(
        &python(&[&[ctranslate2(SHIM)], &apart[..]].concat()),
        "/opt/new:/opt/old",
        &IMPORT,
    );
    assert_eq!(
        picked(&both, "directory"),
        "/opt/old",
        "among equals the shim's own version comes first"
    );
}

#[test]
fn a_packed_shim_starts_beside_torch() {
    let releases = [
        ("2.4.0", "9.1.0.70"),
        ("2.5.1", "9.1.0.70"),
        ("2.6.0", "9.1.0.70"),
        ("2.7.1", "9.5.1.17"),
        ("2.8.0", "9.10.2.21"),
        ("2.9.1", "9.10.2.21"),
    ];
    for (release, version) in releases {
        let files = [
            loader(),
            ctranslate2(SHIM),
            torch(release, version),
            cudnn(WHEEL, version, SHIELDED),
        ];
        let explained = explain(
            &python(&files),
            "",
            &["python3", "-c", "import torch, ctranslate2"],
        );
        assert_eq!(
            picked(&explained, "version"),
            version,
            "torch {release}: {explained:#}"
        );
        // The packed shim finds a part without help only if torch has opened it before.
        assert_eq!(explained["mode"], "view", "torch {release}: {explained:#}");
        let passed_over = explained["passed_over"].as_array().unwrap();
        let not_found = passed_over.iter().find(|row| row["why"] == "not-found");
        assert!(
            not_found.is_some_and(|row| row["names"].to_string().contains("libcudnn_ops")),
            "{passed_over:#?}"
        );
        let alone = explain(&python(&files), "", &["python3", "-c", "import torch"]);
        assert_eq!(
            alone["mode"], "none",
            "torch {release} finds each part by itself: {alone:#}"
        );
    }
}

#[test]
fn a_packed_shim_is_refused_over_what_is_no_one_set() {
    let why = |packed: &str, cudnn: String| {
        let conflict = refused(
            &python(&[node(), loader(), ctranslate2(packed), cudnn]),
            "",
            &IMPORT,
        );
        let candidates = conflict["unmet"][0]["candidates"]
            .as_array()
            .unwrap()
            .clone();
        let candidate = candidates
            .iter()
            .find(|candidate| candidate["directory"] == WHEEL)
            .unwrap();
        (
            candidate["why"].as_str().unwrap().to_owned(),
            conflict["hint"].as_str().unwrap().to_owned(),
        )
    };
    let whole = cudnn(WHEEL, "9.10.2.21", SHIELDED);
    let (torn, hint) = why(SHIM, without(&whole, "libcudnn_ops"));
    assert_eq!(torn, "incomplete: libcudnn_ops missing");
    assert!(hint.contains("nvidia-cudnn-cu12==9.1.0.70"), "{hint}");
    let (mixed, _) = why(SHIM, with_operations_of(WHEEL, "9.1.0.70", 0x9_0a02));
    assert_eq!(mixed, "mixed: libcudnn_ops.so.9 is 9.10.2");
    let (older, _) = why(SHIM, cudnn(WHEEL, "9.0.0.312", SHIELDED));
    assert_eq!(
        older,
        "older than 9.1, for which ctranslate2 4.6.1 was compiled"
    );
    let (major, hint) = why("libcudnn-74a4c495.so.8.9.7", whole);
    assert_eq!(major, "is libcudnn.so.9");
    assert!(hint.contains("nvidia-cudnn-cu12==8.9.7.29"), "{hint}");
    // The neighbour of the mixed one: operations of the version of the graph.
    let machine = python(&[
        loader(),
        ctranslate2(SHIM),
        with_operations_of(WHEEL, "9.10.2.21", 0x9_0a02),
    ]);
    assert_eq!(
        picked(&explain(&machine, "", &IMPORT), "version"),
        "9.10.2.21"
    );
}

/// The shim tries its own long names first, and another installation has them.
#[test]
fn the_long_names_of_a_packed_shim_lead_to_the_picked_parts() {
    let long = |stem: &str| {
        link(
            &format!("{DEBIAN}/{stem}.so.9.1.0"),
            &format!("{stem}.so.9"),
        )
    };
    let ext = elf(
        &format!("{DEBIAN}/libcudnn_ext.so.9"),
        &format!("soname = 'libcudnn_ext.so.9', {SHIELDED}"),
    );
    let machine = python(&[
        loader(),
        ctranslate2(SHIM),
        cudnn(WHEEL, "9.10.2.21", SHIELDED),
        cudnn(DEBIAN, "9.1.0.70", SHIELDED),
        ext,
        long("libcudnn_graph") + &long("libcudnn_ext"),
    ]);
    let explained = explain(&machine, DEBIAN, &IMPORT);
    assert_eq!(picked(&explained, "directory"), WHEEL);
    let graph = |key: &str| {
        let files = explained[key].as_array().unwrap();
        let graph = files
            .iter()
            .filter(|file| file["path"].as_str().unwrap().contains("libcudnn_graph"));
        graph
            .map(|file| file["path"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        graph("before"),
        [format!("{DEBIAN}/libcudnn_graph.so.9.1.0")],
        "the control"
    );
    let view = explained["view"].as_str().unwrap();
    assert_eq!(graph("after"), [format!("{view}/libcudnn_graph.so.9.1.0")]);
    let stopped = explained["tombstones"].as_array().unwrap();
    for name in [
        "libcudnn_ext.so.9",
        "libcudnn_ext.so.9.1.0",
        "libcudnn_ext.so.9.1",
        "libcudnn_ext.so.9.10.2",
    ] {
        assert!(stopped.contains(&name.into()), "{name}: {stopped:?}");
    }
}

/// The shim says its version in its code, and the parts theirs.
#[test]
fn an_installation_is_of_the_version_of_its_parts() {
    let listed = |files: String| {
        let found = Run::on(&machine(&[files]), &["list", "--json", "--also", WHEEL]).json();
        found["installations"][0].clone()
    };
    let shim = format!("{SHIELDED}, printed = [9, 14, 0]");
    let newer = listed(cudnn(WHEEL, "9.10.2.21", &shim));
    assert_eq!(newer["version"], "9.10.2.21");
    assert_eq!(newer["problems"], Value::Array(Vec::new()), "{newer:#}");
    let said: Vec<&str> = newer["evidence"]
        .as_array()
        .unwrap()
        .iter()
        .map(|said| said["version"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["9.10.2.21", "9.14.0"]);
    // So does a name of the shim alone, and a package without one.
    let file = elf(
        &format!("{WHEEL}/libcudnn.so.9.14.0"),
        "soname = 'libcudnn.so.9'",
    );
    let rest = without(&cudnn(WHEEL, "9.10.2.21", SHIELDED), "libcudnn");
    let named =
        listed(rest + &file + &link(&format!("{WHEEL}/libcudnn.so.9"), "libcudnn.so.9.14.0"));
    assert_eq!(
        (&named["version"], &named["problems"]),
        (&"9.10.2.21".into(), &Value::Array(Vec::new()))
    );
    let alone = listed(elf(
        &format!("{WHEEL}/libcudnn.so.9"),
        "soname = 'libcudnn.so.9', printed = [9, 14, 0]",
    ));
    assert_eq!(alone["version"], "9.14.0");
    assert_eq!(alone["problems"][0]["problem"], "missing");
    let unfit = listed(cudnn(WHEEL, "9.1.0.70", "printed = [9, 2, 1]"));
    assert_eq!(
        unfit["problems"][0]["problem"],
        "other-version-among-the-rest"
    );
    let mixed = listed(with_operations_of(WHEEL, "9.1.0.70", 0x9_0a02));
    assert_eq!(
        mixed["problems"][0]["problem"],
        "other-version-among-the-rest"
    );
}

/// Torch's own shim with the parts of another installation, as LD_LIBRARY_PATH gives them.
#[test]
fn a_shim_over_whole_parts_of_one_other_installation_is_not_mixed() {
    let faults = |files: &[String]| {
        let all = [
            &[
                loader(),
                program("train", &["libcudnn.so.9"], "rpath = '/opt/own'"),
            ],
            files,
        ]
        .concat();
        explain(&machine(&all), DEBIAN, &["train"])["faults"].clone()
    };
    let own = cudnn("/opt/own", "9.1.0.70", SHIELDED);
    let other = cudnn(DEBIAN, "9.10.2.21", SHIELDED);
    assert_eq!(faults(&[own.clone(), other.clone()]), serde_json::json!({}));
    assert_eq!(
        faults(&[own.clone(), without(&other, "libcudnn")]),
        serde_json::json!({}),
        "a shim is not needed twice"
    );
    let torn = without(&other, "libcudnn_cnn");
    assert_eq!(
        faults(&[own.clone(), torn]),
        serde_json::json!({ "cudnn": "mixed" })
    );
    let two = with_operations_of(DEBIAN, "9.10.2.21", 0x9_0100);
    assert_eq!(faults(&[own, two]), serde_json::json!({ "cudnn": "mixed" }));
    // In the other order the shim asks for what the parts do not have.
    let newer = cudnn("/opt/own", "9.10.2.21", SHIELDED);
    let older = faults(&[newer, cudnn(DEBIAN, "9.1.0.70", SHIELDED)]);
    assert_eq!(older, serde_json::json!({ "cudnn": "mixed" }));
}

#[test]
fn a_shim_alone_before_a_complete_installation_is_no_finding() {
    let codes = |first: String| {
        let machine = machine(&[first, cudnn(DEBIAN, "9.10.2.21", SHIELDED)]);
        let path = format!("/opt/own:{DEBIAN}");
        let found = Run::on(&machine, &["doctor", "--json"])
            .env("LD_LIBRARY_PATH", path)
            .output()
            .0;
        let found: Value = serde_json::from_str(&found).unwrap();
        let findings = found["findings"].as_array().unwrap().iter();
        findings
            .map(|finding| finding["code"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let whole = cudnn("/opt/own", "9.1.0.70", "printed = [9, 1, 0]");
    let parts = [
        "graph",
        "ops",
        "cnn",
        "adv",
        "heuristic",
        "engines_precompiled",
        "engines_runtime_compiled",
    ];
    let shim = parts.iter().fold(whole.clone(), |files, part| {
        without(&files, &format!("libcudnn_{part}"))
    });
    let is_mix = |code: &String| code == "completed-elsewhere" || code == "versions-mixed";
    assert!(!codes(shim).iter().any(is_mix));
    assert!(
        codes(without(&whole, "libcudnn_cnn")).contains(&"completed-elsewhere".to_owned()),
        "the control"
    );
    assert!(
        codes(whole).contains(&"versions-mixed".to_owned()),
        "the control"
    );
}

/// The parts of one installation of the world and the shim of another under the short names alone, as wheels have them.
fn crossed(workshop: &Workshop, shim: &str, parts: &str) -> PathBuf {
    let directory = workshop.path(&format!("{shim}-over-{parts}"));
    std::fs::create_dir(&directory).unwrap();
    for entry in std::fs::read_dir(WORLD.path(parts)).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|last| last == "9") {
            std::fs::copy(&path, directory.join(path.file_name().unwrap())).unwrap();
        }
    }
    std::fs::copy(
        WORLD.path(shim).join("libcudnn.so.9"),
        directory.join("libcudnn.so.9"),
    )
    .unwrap();
    directory.canonicalize().unwrap()
}

fn linked_to(workshop: &Workshop, name: &str, directory: &Path) -> PathBuf {
    let library = directory.join("libcudnn.so.9");
    let rpath = format!("-Wl,--disable-new-dtags,-rpath,{}", directory.display());
    workshop.compile(
        name,
        PROGRAM,
        &[
            library.to_str().unwrap(),
            "-Wl,--allow-shlib-undefined",
            &rpath,
        ],
    )
}

/// No name says of which version the shim is; another installation has the long names that it tries first.
#[test]
fn a_shim_of_another_version_gets_the_parts_beside_it() {
    let workshop = Workshop::new();
    let directory = crossed(&workshop, "old", "new");
    let program = linked_to(&workshop, "with-crossed", &directory);
    let other = workshop.path("long");
    std::fs::create_dir(&other).unwrap();
    for entry in std::fs::read_dir(WORLD.path("old")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        std::fs::copy(&path, other.join(format!("{name}.1.0"))).unwrap();
        std::os::unix::fs::symlink(format!("{name}.1.0"), other.join(name)).unwrap();
    }
    let path = other.canonicalize().unwrap();
    let control = bare(
        &program,
        &[],
        &BTreeMap::from([("LD_LIBRARY_PATH", path.display().to_string())]),
    );
    let control = Got::read(&String::from_utf8_lossy(&control.stdout));
    assert_eq!(
        (control.version, control.directories.len()),
        (90100, 2),
        "the control must take others: {control:?}"
    );
    let cured = Run::new([&program])
        .env("LD_LIBRARY_PATH", &path)
        .any_stdout()
        .check();
    assert_eq!(
        Got::read(&cured),
        Got {
            version: 91002,
            directories: vec![directory],
            files: 9
        }
    );
}

/// The shim of 9.10.2 asks the parts of 9.1.0 for what they do not have.
#[test]
fn a_shim_that_does_not_work_over_older_parts_is_refused() {
    let workshop = Workshop::new();
    let program = linked_to(&workshop, "with-crossed", &crossed(&workshop, "new", "old"));
    let refused = Run::new([&program]).status(125);
    refused
        .stderr_contains(&["mixed: libcudnn.so.9 is 9.10.2"])
        .check();
}

/// Preload cannot replace what a program opens by its path: a shim opens what is picked, and a part is from elsewhere.
#[test]
fn a_shim_from_elsewhere_is_better_than_no_start_and_a_part_is_not() {
    let world = &*WORLD;
    let opens = |name: &str, files: &[&str]| {
        let open = |file: &&str| {
            format!(
                "all = dlopen(\"{}\", RTLD_NOW);",
                world.path(file).display()
            )
        };
        let opened: String = files.iter().map(open).collect();
        let call = r#"printf("%d\n", ((int (*)(void))dlsym(all, "cudnnGetVersion"))());"#;
        let source = PROGRAM
            .replace("int cudnnGetVersion(void);", "#include <dlfcn.h>")
            .replace(
                r#"printf("%d\n", cudnnGetVersion());"#,
                &format!("void *all; {opened} {call}"),
            );
        let program = world.workshop.compile(name, &source, &[]);
        move |words: &[&str]| {
            let options = ["--pin-mode=view", "--require=cudnn>=9.10"];
            let options = words.iter().copied().chain(options).map(PathBuf::from);
            Run::new(options.chain([program.clone()]))
                .env("LD_LIBRARY_PATH", world.library_path(&["new"]))
        }
    };
    let shim = opens("opens-shim", &["old/libcudnn.so.9"]);
    let got = Got::read(&shim(&[]).any_stdout().check());
    let directories = vec![world.path("new"), world.path("old")];
    assert_eq!(
        got,
        Got {
            version: 91002,
            directories,
            files: 9
        },
        "every part is of `new`"
    );
    let traced = shim(&["trace", "--json", "-o", "/dev/stderr"]).output_of_both();
    assert!(
        !traced.contains("\"in_plan\": false") && traced.contains("\"in_plan\": true"),
        "{traced}"
    );
    let part = opens(
        "opens-part",
        &["old/libcudnn_graph.so.9", "old/libcudnn.so.9"],
    );
    let refused = part(&[]).status(125);
    refused
        .stderr_contains(&["view is not enough", "libcudnn_graph.so.9 would come from"])
        .check();
}
