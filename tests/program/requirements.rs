//! The requirements that `explain --json` finds for a program, on a machine made of text.

use std::sync::LazyLock;

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;

static MACHINE: LazyLock<Machine> = LazyLock::new(|| Machine::load("python"));

fn explain(command: &[&str], env: &[(&str, &str)]) -> Value {
    let mut arguments = vec!["explain", "--json"];
    arguments.extend(command);
    let mut run = Run::on(&MACHINE, &arguments);
    for (name, value) in env {
        run = run.env(name, value);
    }
    run.json()["program"].clone()
}

fn code(text: &str) -> Value {
    explain(&["python3", "-c", text], &[("PYTHONPATH", "/srv/packages")])
}

/// Each package that counts, with how sure that is.
fn packages(program: &Value) -> Vec<(String, String)> {
    let text = |package: &Value, key: &str| package[key].as_str().unwrap().to_owned();
    let all = program["packages"].as_array().unwrap();
    all.iter()
        .map(|package| (text(package, "name"), text(package, "standing")))
        .collect()
}

/// Each name that is asked for, with how much it is needed.
fn asked(program: &Value) -> Vec<(String, String)> {
    let all = program["requirements"].as_array().unwrap();
    let name = |r: &Value| {
        Some((
            r["want"]["name"].as_str()?.to_owned(),
            r["need"].as_str()?.to_owned(),
        ))
    };
    all.iter().filter_map(name).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected
        .iter()
        .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
        .collect()
}

#[test]
fn packages_count_wherever_python_would_find_them() {
    let program = code("import gpulib");
    assert_eq!(packages(&program), pairs(&[("gpulib", "imported")]));
    assert_eq!(program["packages"][0]["version"], "2.1");
    let without = explain(&["python3", "-c", "import gpulib"], &[]);
    assert!(
        !packages(&without).contains(&("gpulib".into(), "imported".into())),
        "{without:#}"
    );
    let isolated = explain(
        &["python3", "-Ic", "import gpulib"],
        &[("PYTHONPATH", "/srv/packages")],
    );
    assert!(
        !packages(&isolated).contains(&("gpulib".into(), "imported".into())),
        "{isolated:#}"
    );
}

#[test]
fn bundled_libraries_are_found_through_their_distribution() {
    let program = code("import vision");
    assert_eq!(packages(&program), pairs(&[("gpulib", "imported")]));
    assert_eq!(
        program["packages"][0]["imported_by"],
        "vision, imported by -c:1"
    );
}

#[test]
fn beside_what_is_imported_the_rest_counts_only_when_not_all_could_be_read() {
    assert_eq!(
        packages(&code("import gpulib, os")),
        pairs(&[("gpulib", "imported")])
    );
    for open in [
        "import gpulib, importlib; importlib.import_module(name)",
        "import gpulib, nowhere",
    ] {
        let program = code(open);
        let found = packages(&program);
        assert_eq!(found[0], ("gpulib".into(), "imported".into()), "{open}");
        assert!(
            found.contains(&("other".into(), "possible".into())),
            "{open}: {found:?}"
        );
        assert!(
            asked(&program).contains(&("libcufft.so.11".into(), "named".into())),
            "a guess is no must"
        );
    }
    let tried = code("import gpulib\ntry: import nowhere\nexcept ImportError: pass");
    assert_eq!(packages(&tried), pairs(&[("gpulib", "imported")]));
}

#[test]
fn extension_modules_of_the_program_itself_ask_too() {
    let program = explain(
        &["python3", "-c", "import native"],
        &[("PYTHONPATH", "/home/user")],
    );
    assert_eq!(packages(&program), pairs(&[("native", "imported")]));
    assert_eq!(asked(&program), pairs(&[("libnccl.so.2", "used")]));
}

#[test]
fn a_system_library_requires_its_dependencies() {
    assert_eq!(
        asked(&code("import media")),
        pairs(&[("libcurand.so.10", "used")])
    );
}

#[test]
fn the_majors_of_a_package_for_many_majors_are_optional() {
    let expected = [("libcublas.so.11", "named"), ("libcublas.so.12", "named")];
    assert_eq!(asked(&code("import variants")), pairs(&expected));
}

#[test]
fn package_managers_and_version_queries_need_no_library() {
    for words in [
        &["-m", "pip", "install", "x"][..],
        &["-c", "import pip, os"],
        &["--version"],
        &["-h"],
    ] {
        let program = explain(
            &[&["python3"], words].concat(),
            &[("PYTHONPATH", "/srv/packages")],
        );
        assert!(packages(&program).is_empty(), "{words:?}: {program:#}");
    }
    assert!(
        !packages(&code("import pip; exec(x)")).is_empty(),
        "what is not seen may use anything"
    );
}

#[test]
fn a_package_that_is_named_and_not_there_is_an_error() {
    let explain = |words: &[&str]| {
        let all = [&["explain", "--uses"], words].concat();
        Run::on(&MACHINE, &all).status(2)
    };
    explain(&["gpulib", "python3", "-c", "pass"])
        .stderr("cudarun: --uses gpulib: no such package in /usr/lib/python3/dist-packages\n")
        .check();
    explain(&["other", "/home/user/by_path"])
        .stderr("cudarun: --uses other: this program has no Python packages\n")
        .check();
    let named = Run::on(
        &MACHINE,
        &[
            "explain",
            "--json",
            "--uses=vision-for-gpus,other,other",
            "python3",
        ],
    );
    assert_eq!(
        packages(&named.json()["program"]),
        pairs(&[("other", "imported")])
    );
}

#[test]
fn paths_of_libraries_are_taken_at_their_word() {
    let forced = |program: &Value| program["requirements"][0]["search_first"].clone();
    let expected = serde_json::json!([{ "directory": "/opt/mine", "rule": "absolute-path" }]);
    let program = code("import gpulib, ctypes; ctypes.CDLL('/opt/mine/libcurand.so.10')");
    assert!(asked(&program).contains(&("libcurand.so.10".into(), "used".into())));
    let of_curand = program["requirements"]
        .as_array()
        .unwrap()
        .iter()
        .find(|r| r["by"]["line"] == 1)
        .unwrap();
    assert_eq!(of_curand["search_first"], expected);
    assert!(
        !asked(&code("import gpulib; x = '/nowhere/libcurand.so.10'"))
            .contains(&("libcurand.so.10".into(), "used".into()))
    );
    let linked = explain(&["/home/user/by_path"], &[]);
    assert_eq!(asked(&linked), pairs(&[("libcurand.so.10", "linked")]));
    assert_eq!(forced(&linked), expected);
}

#[test]
fn names_in_constants_are_found_however_they_are_packed() {
    let program = explain(&["/home/user/packed"], &[]);
    assert_eq!(
        asked(&program),
        pairs(&[("libcublas.so.12", "named"), ("libcudnn.so.9", "named")])
    );
}

#[test]
fn a_line_for_env_is_read_where_its_words_are_plain() {
    let program = explain(&["/home/user/split"], &[]);
    assert_eq!(packages(&program), pairs(&[("other", "imported")]));
    let quoted = explain(&["/home/user/quoted"], &[("PYTHONPATH", "/srv/packages")]);
    assert_eq!(quoted["notes"][0]["note"], "script-not-read");
    assert!(packages(&quoted).is_empty());
}

#[test]
fn scripts_that_pip_writes_for_a_shell_are_those_of_python() {
    let packages_path = [("PYTHONPATH", "/srv/packages")];
    for script in ["/home/user/bin/long", "relative"] {
        let program = explain(&[script], &packages_path);
        assert_eq!(
            packages(&program),
            pairs(&[("gpulib", "imported")]),
            "{script}: {program:#}"
        );
    }
    let other = explain(&["/home/user/bin/other"], &packages_path);
    assert_eq!(other["notes"][0]["note"], "script-not-read");
}

#[test]
fn an_imported_framework_that_is_missing_is_reported() {
    let program = code("import sys; sys.path.insert(0, '/somewhere')\nimport torch");
    assert_eq!(program["notes"][0]["note"], "not-where-it-is-sought");
    assert_eq!(program["notes"][0]["by"], "-c:2");
    assert_eq!(
        code("try: import torch\nexcept ImportError: pass")["notes"]
            .as_array()
            .unwrap()
            .len(),
        0
    );
    for elsewhere in [
        "def f():\n    import jax",
        "if TYPE_CHECKING: import cupy",
        "if x:\n    import cupy",
    ] {
        assert_eq!(
            code(elsewhere)["notes"].as_array().unwrap().len(),
            0,
            "{elsewhere}"
        );
    }
}

#[test]
fn a_shim_leads_to_the_newest_version_that_it_may_mean() {
    let python = "/home/user/.pyenv/shims/python";
    let last = |program: &Value| program["steps"].as_array().unwrap().last().unwrap()["to"].clone();
    let program = explain(&[python], &[]);
    assert_eq!(
        last(&program),
        "/home/user/.pyenv/versions/3.11.10/bin/python"
    );
    let given = explain(&[python], &[("PYENV_VERSION", "3.12.1")]);
    assert_eq!(last(&given), "/home/user/.pyenv/versions/3.12.1/bin/python");
    let unknown = explain(&[python], &[("PYENV_VERSION", "3.13")]);
    assert_eq!(unknown["notes"][0]["note"], "shim-not-resolved");
}

/// A user who may not read a program, or gets other rights by starting it, is told so: only root can arrange
/// it.
#[test]
fn a_program_with_capabilities_or_without_a_reader_is_started_with_a_word() {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::CommandExt;
    const SOURCE: &str = "char *library = \"libcuda.so.1\"; int main(void) { return 7; }";
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let workshop = crate::support::Workshop::new();
    let program = workshop.compile("program", SOURCE, &[]);
    let set = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
    };
    for directory in [
        workshop.directory.path().to_owned(),
        workshop.path("home"),
        workshop.path("bin"),
    ] {
        std::fs::create_dir_all(&directory).unwrap();
        std::os::unix::fs::chown(&directory, Some(65534), Some(65534)).unwrap();
    }
    let cudarun = workshop.path("bin/cudarun");
    crate::support::copy_program(crate::support::CUDARUN, &cudarun);
    let run = || {
        #[allow(clippy::disallowed_methods)]
        let mut command = std::process::Command::new(&cudarun);
        command
            .arg(&program)
            .env_clear()
            .env("HOME", workshop.path("home"))
            .uid(65534)
            .gid(65534);
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    assert_eq!(
        run(),
        (Some(7), String::new()),
        "the control: an ordinary program needs no word"
    );
    set(&program, 0o711).unwrap();
    let (status, words) = run();
    assert_eq!(status, Some(7));
    assert!(
        words.contains("is not readable, so its requirements are unknown"),
        "{words}"
    );
    set(&program, 0o755).unwrap();
    // cap_net_bind_service, permitted and effective.
    let capability: [u8; 20] = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    if rustix::fs::setxattr(
        &program,
        "security.capability",
        &capability,
        rustix::fs::XattrFlags::empty(),
    )
    .is_ok()
    {
        let (status, words) = run();
        assert_eq!(status, Some(7));
        assert!(words.contains("(file capabilities)"), "{words}");
    }
}
