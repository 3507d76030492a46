//! The model's prediction of what a program would map, on machines that are made for one question each.
//! `tests/pin/real_loader.rs` and `tests/real/pinned.py` compare it with the real loader.

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SHIELDED, SITE, cudnn, elf, machine, program, python, text};

const NEW: &str = "/opt/new";

fn loader() -> String {
    elf(
        "/lib64/ld-linux-x86-64.so.2",
        "soname = 'ld-linux-x86-64.so.2'",
    )
}

fn predicted(machine: &Machine, library_path: &str, options: &[&str], command: &[&str]) -> Value {
    let verb = ["trace", "--predict", "--json"];
    let arguments: Vec<&str> = verb.iter().chain(options).chain(command).copied().collect();
    Run::on(machine, &arguments)
        .env("LD_LIBRARY_PATH", library_path)
        .json()
}

/// The first file of a name: where it comes from as it is spelt, by which rule, who asks.
#[track_caller]
fn of<'p>(predicted: &'p Value, name: &str) -> (&'p str, &'p str, &'p str) {
    let files = predicted["files"].as_array().unwrap();
    let is_it = |file: &&Value| file["path"].as_str().unwrap().rsplit('/').next() == Some(name);
    let file = files
        .iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{name}: {predicted:#}"));
    let text = |key: &str| file[key].as_str().unwrap();
    (text("path"), text("rule"), text("requester"))
}

#[test]
fn a_part_that_nothing_answers_is_named() {
    let alone = elf(
        "/opt/alone/libcudnn.so.9",
        &format!("soname = 'libcudnn.so.9', {SHIELDED}"),
    );
    let files = [
        loader(),
        program("train", &["libcudnn.so.9"], ""),
        alone,
        cudnn(NEW, "9.10.2", SHIELDED),
    ];
    let machine = machine(&files);
    let whole = predicted(&machine, NEW, &["--as-is"], &["train"]);
    assert_eq!(
        whole["missing"],
        Value::Array(Vec::new()),
        "neither what newer ones open besides"
    );

    let torn = predicted(&machine, "/opt/alone", &["--as-is"], &["train"]);
    let missing = torn["missing"].as_array().unwrap();
    let names: Vec<&str> = missing
        .iter()
        .map(|missing| missing["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "libcudnn_graph.so.9",
            "libcudnn_ops.so.9",
            "libcudnn_cnn.so.9",
            "libcudnn_adv.so.9"
        ],
        "what the graph library opens is asked for by nobody"
    );
    assert_eq!(missing[0]["requester"], "/opt/alone/libcudnn.so.9");
    let tried = missing[0]["tried"].as_array().unwrap();
    assert!(
        tried.contains(&"/opt/alone/libcudnn_graph.so.9".into()),
        "{tried:?}"
    );
}

/// Its stubs are linked against nothing, and their DT_RPATH counts all the same.
#[test]
fn jax_is_asked_by_the_files_that_open() {
    let rpath = "rpath = '$ORIGIN/../nvidia/cudnn/lib'";
    let own = format!("{SITE}/nvidia/cudnn/lib");
    let requires = "Requires-Dist: nvidia-cudnn-cu12>=9.1,<10; extra == 'with_cuda'\n";
    let metadata = format!("Name: jax-cuda12-plugin\nVersion: 0.4.38\n{requires}\n");
    let versions = format!("{SITE}/jax_cuda12_plugin/_versions.so");
    let plugin = [
        loader(),
        text(
            &format!("{SITE}/jax_cuda12_plugin-0.4.38.dist-info/METADATA"),
            &metadata,
        ),
        elf(&versions, rpath),
        cudnn(&own, "9.1.0", SHIELDED),
        cudnn(NEW, "9.10.2", SHIELDED),
    ];
    let command = ["python3", "-c", "from jax_cuda12_plugin import _versions"];
    let through = |directory: &str| format!("{SITE}/{directory}/nvidia/cudnn/lib/libcudnn.so.9");
    let machine = python(&plugin);
    let mixed = predicted(&machine, NEW, &["--as-is"], &command);
    assert_eq!(
        of(&mixed, "libcudnn.so.9"),
        (
            through("jax_cuda12_plugin/..").as_str(),
            "rpath",
            versions.as_str()
        )
    );
    assert_eq!(
        of(&mixed, "libcudnn_graph.so.9").0,
        format!("{NEW}/libcudnn_graph.so.9"),
        "the classic mix"
    );

    // So it is preloaded where that is the mode, and the view alone is not enough.
    let wish = ["--pin", "cudnn=/opt/new", "--pin-mode", "view"];
    let pinned = predicted(&machine, NEW, &wish, &command);
    assert_eq!(of(&pinned, "libcudnn.so.9").1, "preload");

    // If two libraries open it, the one that finds it counts.
    let last = format!("{SITE}/jax_plugins/xla_cuda12/xla_cuda_plugin.so");
    let blind = [
        elf(&versions, ""),
        elf(&last, "rpath = '$ORIGIN/../../nvidia/cudnn/lib'"),
    ];
    let two = python(&[&plugin[..2], &blind, &plugin[3..]].concat());
    let found = predicted(&two, "", &["--as-is"], &command);
    assert_eq!(
        of(&found, "libcudnn.so.9"),
        (
            through("jax_plugins/xla_cuda12/../..").as_str(),
            "rpath",
            last.as_str()
        )
    );
}

/// A library that was packed into a package has a name of its own, and opens the rest as if it did not.
#[test]
fn a_packed_library_opens_the_rest() {
    let libs = format!("{SITE}/ctranslate2.libs");
    let (library, packed) = (
        "libctranslate2-bc15bf3f.so.4.5.0",
        "libcudnn-74a4c495.so.9.1.0",
    );
    let extension = format!("needed = ['{library}'], rpath = '$ORIGIN/../ctranslate2.libs'");
    let machine = python(&[
        loader(),
        text(&format!("{SITE}/ctranslate2/__init__.py"), ""),
        text(
            &format!("{SITE}/ctranslate2-4.5.0.dist-info/METADATA"),
            "Name: ctranslate2\nVersion: 4.5.0\n",
        ),
        elf(
            &format!("{SITE}/ctranslate2/_ext.cpython-312-x86_64-linux-gnu.so"),
            &extension,
        ),
        elf(
            &format!("{libs}/{library}"),
            &format!("soname = '{library}', needed = ['{packed}']"),
        ),
        elf(&format!("{libs}/{packed}"), &format!("soname = '{packed}'")),
        cudnn(NEW, "9.10.2", SHIELDED),
    ]);
    let mixed = predicted(
        &machine,
        NEW,
        &["--as-is"],
        &["python3", "-c", "import ctranslate2"],
    );
    let through = |name: &str| format!("{SITE}/ctranslate2/../ctranslate2.libs/{name}");
    let shim = through(packed);
    assert_eq!(
        of(&mixed, packed),
        (shim.as_str(), "rpath", through(library).as_str())
    );
    let graph = format!("{NEW}/libcudnn_graph.so.9");
    assert_eq!(
        of(&mixed, "libcudnn_graph.so.9"),
        (graph.as_str(), "library-path", shim.as_str())
    );
}

/// An extension module that names the path of a library opens that file.
#[test]
fn an_extension_that_names_a_path_opens_it_by_path() {
    let extension = format!("{SITE}/_ext.cpython-312-x86_64-linux-gnu.so");
    let names = |name: &str| format!("needed = ['libcudart.so.12'], constants = ['{name}']");
    let runtime = elf("/opt/cuda/libcudart.so.12", "soname = 'libcudart.so.12'");
    let top = |constant: &str| {
        let machine = python(&[
            loader(),
            elf(&extension, &names(constant)),
            runtime.clone(),
            cudnn("/opt/own", "9.1.0", SHIELDED),
            cudnn(NEW, "9.10.2", SHIELDED),
        ]);
        let path = format!("{NEW}:/opt/cuda");
        let predicted = predicted(
            &machine,
            &path,
            &["--as-is"],
            &["python3", "-c", "import _ext"],
        );
        of(&predicted, "libcudnn.so.9").0.to_owned()
    };
    assert_eq!(top("/opt/own/libcudnn.so.9"), "/opt/own/libcudnn.so.9");
    assert_eq!(
        top("libcudnn.so.9"),
        format!("{NEW}/libcudnn.so.9"),
        "the control"
    );
}

/// `preload_dlls` opens the files in the wheels by absolute path. Without it, the loader finds them in `LD_LIBRARY_PATH`.
#[test]
fn onnxruntime_opens_wheels_where_the_program_tells_it_to() {
    let capi = format!("{SITE}/onnxruntime/capi");
    let [cudart, nvrtc] = ["cudart", "nvrtc"].map(|stem| {
        let soname = format!("lib{stem}.so.13");
        [format!("{SITE}/nvidia/cu13/lib"), "/opt/other".to_owned()]
            .map(|directory| {
                elf(
                    &format!("{directory}/{soname}"),
                    &format!("soname = '{soname}'"),
                )
            })
            .concat()
    });
    // As in the wheel 1.28.0, which names the libraries of CUDA 12 as well.
    let constants =
        "constants = ['libnvrtc.so', 'libnvrtc.so.13', 'libnvrtc.so.12', 'libcudart.so.12']";
    let provider = format!("needed = ['libcudart.so.13', 'libc.so.6'], {constants}");
    let record = |cuda: &str| {
        text(
            &format!("{capi}/build_and_package_info.py"),
            &format!("cuda_version = '{cuda}'\n"),
        )
    };
    let files = [
        loader(),
        text(&format!("{SITE}/onnxruntime/__init__.py"), ""),
        record("13.0"),
        elf(
            &format!("{capi}/libonnxruntime_providers_cuda.so"),
            &provider,
        ),
        cudart,
        nvrtc,
    ];
    let machine = python(&files);
    let found = |code: &str, name: &str| {
        let found = predicted(
            &machine,
            "/opt/other",
            &["--as-is"],
            &["python3", "-c", code],
        );
        let (path, rule, _) = of(&found, name);
        (path.to_owned(), rule.to_owned())
    };
    let called = "import onnxruntime as ort; ort.preload_dlls()";
    for name in ["libcudart.so.13", "libnvrtc.so.13"] {
        let wheel = format!("{SITE}/nvidia/cu13/lib/{name}");
        assert_eq!(found(called, name), (wheel, "path".to_owned()));
        let other = format!("/opt/other/{name}");
        assert_eq!(
            found("import onnxruntime", name),
            (other, "library-path".to_owned()),
            "the control"
        );
    }
    let names = |machine: &Machine, family: &str| {
        let explain = ["explain", "--json", "python3", "-c", "import onnxruntime"];
        let explained: Value =
            serde_json::from_str(&Run::on(machine, &explain).output().0).unwrap();
        let all = explained["program"]["requirements"]
            .as_array()
            .unwrap()
            .clone();
        let of_family = all
            .iter()
            .filter(|requirement| requirement["family"] == family);
        let mut names: Vec<String> = of_family
            .filter_map(|it| it["want"]["name"].as_str().map(str::to_owned))
            .collect();
        names.sort();
        names.dedup();
        names
    };
    assert_eq!(names(&machine, "cudart"), ["libcudart.so.13"]);
    assert_eq!(names(&machine, "nvrtc"), ["libnvrtc.so", "libnvrtc.so.13"]);
    // Control: where it does not ask for the library of its own CUDA, every name counts.
    let of_11 = python(&[&files[..2], &[record("11.8")], &files[3..]].concat());
    assert_eq!(
        names(&of_11, "nvrtc"),
        ["libnvrtc.so", "libnvrtc.so.12", "libnvrtc.so.13"]
    );
}

/// The first one that the program opens is known; each of the others may come next.
#[test]
fn every_library_that_may_be_opened_first_is_tried_as_the_first() {
    use cudarun::{host::Host, inventory, loader::search::Searcher, predict, program};
    let plugin = |name: &str| {
        let fields = format!(
            "soname = 'lib{name}.so', needed = ['libcudnn.so.9'], rpath = '/opt/cudnn-{name}'"
        );
        cudnn(&format!("/opt/cudnn-{name}"), "9.1.0.70", SHIELDED)
            + &elf(&format!("/opt/plugins/lib{name}.so"), &fields)
    };
    let constants =
        "constants = ['/opt/plugins/liba.so', '/opt/plugins/libb.so', '/opt/plugins/libc.so']";
    let machine = machine(&[
        loader(),
        plugin("a"),
        plugin("b"),
        plugin("c"),
        self::program("app", &["libc.so.6"], constants),
    ]);
    let env = [("PATH", "/usr/bin")].into_iter().collect();
    let host = Host::at(machine.root(), env, "/".into()).unwrap();
    let command = program::Command {
        program: "app".into(),
        arguments: Vec::new(),
    };
    let (mut app, _) = program::read(&host, &command, &[]).unwrap();
    let scope = inventory::Scope {
        machine: app.machine,
        ..Default::default()
    };
    let inventory = inventory::scan(&host, &scope, &mut inventory::ScanCache::default());
    let searcher = Searcher::new(&host, app.machine);
    assert_eq!(app.loads.len(), 3, "{:#?}", app.loads);
    for is_first_known in [false, true] {
        app.loads[0].may_be_first = !is_first_known;
        let predicted = predict::predict(&searcher, &app, &inventory);
        for name in ["a", "b", "c"] {
            let shim = format!("/opt/cudnn-{name}/libcudnn.so.9");
            let is_predicted = predicted
                .files
                .iter()
                .any(|file| file.path.to_str() == Some(&shim));
            assert!(is_predicted, "{shim}: {:#?}", predicted.files);
        }
    }
}
