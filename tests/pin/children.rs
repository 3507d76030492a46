//! Children under the real loader: a child that belongs to another environment maps the libraries that it maps without
//! cudarun, a child of the same environment gets the plan. The environments are those of a real Python, their cuDNN is a
//! stand-in that opens its parts as the real one does.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use crate::pin::real_loader::{Got, PROGRAM, WORLD};
use crate::support::{Run, bare};

/// Prints which cuDNN it gets, as the programs of the workshop do.
pub const REPORT: &str = r#"
import sys
def report(library):
    sys.stdout.write(f"{library.cudnnGetVersion()}\n")
    files = [line[line.index("/"):] for line in open("/proc/self/maps") if "libcudnn" in line]
    sys.stdout.write("".join(dict.fromkeys(files)))
    sys.stdout.flush()
"#;

/// Reports itself, then runs the rest of its command line.
const PARENT: &str = "
import subprocess, sys
import framework
framework.show()
print('child', flush=True)
sys.exit(subprocess.call(sys.argv[1:]) if sys.argv[1:] else 0)
";

/// Two environments of one Python: `a` with cuDNN 9.1.0, `b` with 9.10.2, each found by the DT_RPATH of an extension.
pub struct Environments {
    pub a: PathBuf,
    pub b: PathBuf,
    pub parent: PathBuf,
    launcher: PathBuf,
    /// A directory with nothing but the name `libcudnn.so`, which no extension here asks for.
    pub bare_name: PathBuf,
}

pub static ENVIRONMENTS: LazyLock<Option<Environments>> = LazyLock::new(|| {
    let python = system_python()?;
    let root = WORLD.path("").join("environments");
    let site = |name: &str| {
        root.join(name)
            .join("lib")
            .join(python.file_name().unwrap())
            .join("site-packages")
    };
    for (name, cudnn) in [("a", "old"), ("b", "new")] {
        let (site, bin) = (site(name), root.join(name).join("bin"));
        let libraries = site.join("nvidia/cudnn/lib");
        for directory in [&bin, &libraries, &site.join("framework")] {
            fs::create_dir_all(directory).unwrap();
        }
        symlink(&python, bin.join("python")).unwrap();
        symlink("python", bin.join("python3")).unwrap();
        let home = python.parent().unwrap().display();
        fs::write(
            root.join(name).join("pyvenv.cfg"),
            format!("home = {home}\n"),
        )
        .unwrap();
        for stem in ["", "_graph", "_ops", "_cnn", "_adv"].into_iter().chain([
            "_engines_precompiled",
            "_engines_runtime_compiled",
            "_heuristic",
        ]) {
            let file = format!("libcudnn{stem}.so.9");
            let source = fs::canonicalize(WORLD.path(cudnn).join(&file)).unwrap();
            fs::copy(source, libraries.join(file)).unwrap();
        }
        let extension = WORLD.workshop.path(&format!("framework-{name}.so"));
        WORLD.workshop.library(
            &format!("framework-{name}.so"),
            "_framework.so",
            "int cudnnGetVersion(void); int (*needed)(void) = cudnnGetVersion;",
            &[
                "-Wl,--no-as-needed",
                libraries.join("libcudnn.so.9").to_str().unwrap(),
                "-Wl,--allow-shlib-undefined",
                "-Wl,--disable-new-dtags,-rpath,$ORIGIN/../nvidia/cudnn/lib",
            ],
        );
        fs::rename(extension, site.join("framework/_framework.so")).unwrap();
        let load = "import ctypes, os\n\
            library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), '_framework.so'))\n\
            def show():\n    report(library)\n";
        fs::write(site.join("framework/__init__.py"), [REPORT, load].concat()).unwrap();
    }
    let bare_name = root.join("bare-name");
    fs::create_dir(&bare_name).unwrap();
    symlink(
        WORLD.path("new/libcudnn.so.9.10.2"),
        bare_name.join("libcudnn.so"),
    )
    .unwrap();
    let parent = root.join("parent.py");
    fs::write(&parent, PARENT).unwrap();
    let launcher = root.join("launcher.py");
    let both = "import subprocess, sys\nfor program in sys.argv[1:]:\n    subprocess.check_call([program, '-c', \
        'import framework; framework.show()'])\n    print('child', flush=True)\n";
    fs::write(&launcher, both).unwrap();
    Some(Environments {
        a: root.join("a/bin/python"),
        b: root.join("b/bin/python"),
        parent,
        launcher,
        bare_name,
    })
});

/// The real file of a Python with a version in its name.
pub fn system_python() -> Option<PathBuf> {
    let code = "import sys, os; print(os.path.realpath(sys.executable))";
    let output = Command::new("python3").args(["-c", code]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.file_name()?
        .to_str()?
        .starts_with("python3.")
        .then_some(path)
}

/// The site-packages of an environment, by its interpreter.
pub fn site_of(python: &Path) -> PathBuf {
    let lib = python.ancestors().nth(2).unwrap().join("lib");
    fs::read_dir(lib)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("site-packages")
}

pub const SHOW: [&str; 2] = ["-c", "import framework; framework.show()"];

impl Environments {
    /// Splits the output into the maps of the parent and of its child.
    pub fn read(output: &str) -> Vec<Got> {
        output
            .split("child\n")
            .filter(|part| !part.is_empty())
            .map(Got::read)
            .collect()
    }

    pub fn without(program: &Path, arguments: &[&str], library_path: &str) -> Vec<Got> {
        let env = BTreeMap::from([
            ("LD_LIBRARY_PATH", library_path.to_owned()),
            ("PATH", "/usr/bin:/bin".to_owned()),
        ]);
        Environments::read(&String::from_utf8_lossy(
            &bare(program, arguments, &env).stdout,
        ))
    }

    pub fn with(
        options: &[&str],
        program: &Path,
        arguments: &[&str],
        library_path: &str,
    ) -> Vec<Got> {
        let words = options
            .iter()
            .copied()
            .chain([program.to_str().unwrap()])
            .chain(arguments.iter().copied());
        Environments::read(
            &Run::new(words)
                .env("LD_LIBRARY_PATH", library_path)
                .any_stdout()
                .check(),
        )
    }

    fn mode(options: &[&str], program: &Path, arguments: &[&str], library_path: &str) -> Value {
        let words = ["explain", "--json"].iter().chain(options).copied();
        let words = words
            .chain([program.to_str().unwrap()])
            .chain(arguments.iter().copied());
        Run::new(words).env("LD_LIBRARY_PATH", library_path).json()["mode"].clone()
    }

    fn child<'a>(&'a self, python: &'a Path) -> Vec<&'a str> {
        [self.parent.to_str().unwrap(), python.to_str().unwrap()]
            .into_iter()
            .chain(SHOW)
            .collect()
    }
}

pub fn is_whole(got: &Got) -> bool {
    got.directories.len() == 1 && got.files == 8
}

/// The environments, where there is a Python and the loader can be asked by an auditor.
macro_rules! environments {
    () => {
        match &*ENVIRONMENTS {
            Some(environments) => environments,
            None => {
                assert!(
                    std::env::var_os("CUDARUN_TESTS_ALL").is_none(),
                    "there is no Python here"
                );
                return crate::support::skipped("there is no Python here");
            }
        }
    };
}

#[test]
fn nothing_is_set_where_the_program_gets_its_plan_anyway() {
    let e = environments!();
    for (parent, child, version) in [(&e.a, &e.b, 90100), (&e.b, &e.a, 91002)] {
        let arguments = e.child(child);
        let control = Environments::without(parent, &arguments, "");
        assert!(
            control.len() == 2 && control.iter().all(is_whole),
            "{control:?}"
        );
        assert_eq!(control[0].version, version);
        assert_eq!(Environments::with(&[], parent, &arguments, ""), control);
        assert_eq!(Environments::mode(&[], parent, &arguments, ""), "none");
        let words = ["export", "--json", parent.to_str().unwrap()];
        let exported = Run::new(words.iter().chain(&arguments)).json();
        assert_eq!(exported["environment"], serde_json::json!({}));
        Run::new(["-v", parent.to_str().unwrap()].iter().chain(&arguments))
            .any_stdout()
            .stderr_contains(&["mode     none: nothing is added to the environment"])
            .check();
        // The hazard: a view is searched by the child as well.
        let view = Environments::with(&["--pin-mode=view"], parent, &arguments, "");
        assert_eq!(view, control);
        let options = ["--pin-mode=view", "--no-follow"];
        let mixed = Environments::with(&options, parent, &arguments, "");
        assert!(
            is_whole(&mixed[0]) && mixed[1].directories.len() == 2,
            "{mixed:?}"
        );
    }
}

#[test]
fn a_child_of_another_environment_is_not_answered_by_the_module() {
    let e = environments!();
    let path = e.bare_name.to_str().unwrap();
    for (parent, child) in [(&e.a, &e.b), (&e.b, &e.a)] {
        let arguments = e.child(child);
        let control = Environments::without(parent, &arguments, path);
        assert!(
            control.len() == 2 && control.iter().all(is_whole),
            "{control:?}"
        );
        assert_eq!(Environments::mode(&[], parent, &arguments, path), "audit");
        for options in [&[][..], &["--no-follow"], &["--pin-mode=view"]] {
            let got = Environments::with(options, parent, &arguments, path);
            assert_eq!(got, control, "{options:?}");
        }
        // The control.
        let options = ["--pin-mode=view", "--no-follow"];
        let mixed = Environments::with(&options, parent, &arguments, path);
        assert_eq!(mixed[1].directories.len(), 2, "{mixed:?}");
    }
}

#[test]
fn a_child_of_the_same_environment_gets_the_plan() {
    let e = environments!();
    let path = WORLD.library_path(&["new"]);
    let again = e.child(&e.a);
    let control = Environments::without(&e.a, &again, &path);
    assert!(
        control.iter().all(|got| got.directories.len() == 2),
        "the control must mix: {control:?}"
    );
    let cured = Environments::with(&[], &e.a, &again, &path);
    assert!(
        cured.len() == 2 && cured.iter().all(is_whole) && cured[0] == cured[1],
        "{cured:?}"
    );
    // However the child is called: by a script, by a relative path, through a link to the environment, by a child of
    // another environment.
    let root = e.a.ancestors().nth(2).unwrap();
    let tool = root.join("bin/tool");
    fs::write(
        &tool,
        format!("#!{}\nimport framework\nframework.show()\n", e.a.display()),
    )
    .unwrap();
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let link = root.parent().unwrap().join("link");
    symlink(root, &link).unwrap();
    // A link of another name is told by its file.
    symlink(&e.a, root.join("bin/trainer")).unwrap();
    let trainer = Environments::with(&[], &root.join("bin/trainer"), &SHOW, &path);
    assert!(trainer.len() == 1 && is_whole(&trainer[0]), "{trainer:?}");
    let show = format!("{} -c '{}'", "python", SHOW[1]);
    let (b, a) = (e.b.display(), e.a.display());
    let through_b = format!(
        "{b} -c \"import subprocess; subprocess.call(['{a}', '-c', '{}'])\"",
        SHOW[1]
    );
    for script in [
        tool.display().to_string(),
        format!("cd {}; ./bin/{show}", root.display()),
        format!("{}/bin/{show}", link.display()),
        format!("PATH={}/bin:$PATH; {show}", root.display()),
        through_b,
    ] {
        let arguments = [e.parent.to_str().unwrap(), "/bin/bash", "-c", &script];
        let cured = Environments::with(&[], &e.a, &arguments, &path);
        assert!(
            cured.len() == 2 && cured[0] == cured[1],
            "{script}: {cured:?}"
        );
    }
}

/// Without libraries of its own there is no plan, and both children keep what they have.
#[test]
fn a_launcher_without_libraries_changes_nothing_for_its_children() {
    let e = environments!();
    let python = Path::new("/usr/bin/env");
    let arguments = [
        "python3",
        e.launcher.to_str().unwrap(),
        e.a.to_str().unwrap(),
        e.b.to_str().unwrap(),
    ];
    let control = Environments::without(python, &arguments, "");
    assert!(
        control.len() == 2 && control.iter().all(is_whole),
        "{control:?}"
    );
    assert_eq!(Environments::with(&[], python, &arguments, ""), control);
}

/// With another cuDNN in `LD_LIBRARY_PATH`, a child that is not followed is mixed, and cudarun prints a line about it.
#[test]
fn a_launcher_without_libraries_is_spoken_of_where_its_children_are_not_followed() {
    let e = environments!();
    let launcher = e.launcher.to_str().unwrap();
    let path = WORLD.library_path(&["new"]);
    let words = ["python3", launcher, e.a.to_str().unwrap()];
    let control = Environments::without(Path::new("/usr/bin/env"), &words, &path);
    assert_eq!(
        control[0].directories.len(),
        2,
        "the control must mix: {control:?}"
    );
    let said = "may start other programs, and LD_LIBRARY_PATH or LD_PRELOAD leads them to NVIDIA libraries";
    let alone = ["--no-follow"].iter().chain(&words);
    Run::new(alone.clone())
        .env("LD_LIBRARY_PATH", &path)
        .any_stdout()
        .stderr_contains(&[said])
        .check();
    let followed = Run::new(words).env("LD_LIBRARY_PATH", &path);
    let followed = Environments::read(&followed.any_stdout().check());
    assert!(followed.iter().all(is_whole), "{followed:?}");
    // Controls: an empty path, a script that starts no program, and cudarun before the program.
    Run::new(alone).any_stdout().check();
    Run::new(["--no-follow", "python3", "-c", "import os; os.getpid()"])
        .env("LD_LIBRARY_PATH", &path)
        .check();
    assert!(is_whole(&Environments::with(&[], &e.a, &SHOW, &path)[0]));
}

/// A Python script that sets `LD_LIBRARY_PATH` and executes the Python of its own environment again.
#[test]
fn a_script_that_changes_the_path_itself_is_pinned_by_the_module() {
    let e = environments!();
    let path = WORLD.library_path(&["torn"]);
    let code = format!(
        "import os, sys\nimport framework\nif 'AGAIN' not in os.environ:\n    os.environ['AGAIN'] = '1'\n    \
        os.environ['LD_LIBRARY_PATH'] = '{path}'\n    os.execv(sys.argv[1], sys.argv[1:])\nframework.show()\n"
    );
    let script = WORLD.workshop.write("again.py", &code);
    let python = e.a.to_str().unwrap();
    let words = [script.to_str().unwrap(), python, script.to_str().unwrap()];
    let control = Environments::without(&e.a, &words, "");
    assert_eq!(
        control[0].directories.len(),
        2,
        "the control must mix: {control:?}"
    );
    let cured = Environments::with(&[], &e.a, &words, "");
    assert!(cured.len() == 1 && is_whole(&cured[0]), "{cured:?}");
    assert_eq!(Environments::mode(&[], &e.a, &words, ""), "audit");
}

#[test]
fn an_element_that_only_does_harm_does_none() {
    let world = &*WORLD;
    let path = world.library_path(&["torn", "new"]);
    let control = world.control("plain", &path);
    assert_eq!(
        control.directories.len(),
        2,
        "the control must mix: {control:?}"
    );
    assert_eq!(
        Environments::mode(&[], &world.path("plain"), &[], &path),
        "audit"
    );
    let whole = world.cured("plain", &path);
    assert_eq!(
        whole,
        Got {
            version: 91002,
            directories: vec![world.path("new")],
            files: 9
        }
    );
    // A child without a search path of its own still finds all of it.
    let source = PROGRAM.replace(
        "    return 0;",
        "    fflush(stdout);\n    if (words[1])\n        execv(words[1], words + 1);\n    return 0;",
    );
    let source = source.replace(
        "int main(void)",
        "#include <unistd.h>\nint main(int count, char **words)",
    );
    let link = world.path("new/libcudnn.so.9.10.2");
    world.workshop.compile(
        "starts",
        &source,
        &[link.to_str().unwrap(), "-Wl,--allow-shlib-undefined"],
    );
    let child = world.path("plain").display().to_string();
    let output =
        Run::new([world.path("starts").to_str().unwrap(), &child]).env("LD_LIBRARY_PATH", &path);
    let output = output.any_stdout().check();
    let (own, of_child) = output.split_at(output.rfind("91002\n").unwrap());
    assert_eq!(
        (Got::read(own), Got::read(of_child)),
        (whole, world.cured("plain", &path))
    );
}

/// An element that holds a library of another kind, or the only file of a SONAME, stays.
#[test]
fn an_element_that_others_need_stays() {
    let world = &*WORLD;
    let with_other = world.path("").join("torn-and-other");
    if !with_other.exists() {
        fs::create_dir(&with_other).unwrap();
        for entry in fs::read_dir(world.path("torn")).unwrap() {
            let path = entry.unwrap().path();
            fs::copy(&path, with_other.join(path.file_name().unwrap())).unwrap();
        }
        world.workshop.library(
            "torn-and-other/libother.so.1",
            "libother.so.1",
            "int other;",
            &[],
        );
    }
    let path = format!("{}:{}", with_other.display(), world.path("new").display());
    assert_eq!(
        Environments::mode(&[], &world.path("plain"), &[], &path),
        "audit"
    );
    let got = world.cured("plain", &path);
    assert_eq!(
        got,
        Got {
            version: 91002,
            directories: vec![world.path("new")],
            files: 9
        }
    );
    Run::new([Path::new("--pin-mode=none"), &world.path("plain")])
        .env("LD_LIBRARY_PATH", &path)
        .status(125)
        .stderr_contains(&[
            "none is not enough: another cuDNN is in reach",
            "hint: leave out --pin-mode",
        ])
        .check();
    // The program finds its cuDNN by DT_RPATH; a child without one finds it only here.
    let only = world.library_path(&["new"]);
    assert_eq!(
        Environments::mode(&[], &world.path("with-rpath"), &[], &only),
        "audit"
    );
}

/// A child that needs an element has it: the parent is pinned by the module, and `LD_LIBRARY_PATH` stays as it is.
#[test]
fn a_child_without_a_search_path_finds_its_library_where_it_was() {
    let world = &*WORLD;
    let path = world.library_path(&["new"]);
    let script = world.path("plain").display().to_string();
    let e = environments!();
    let arguments = [e.parent.to_str().unwrap(), script.as_str()];
    let control = Environments::without(&e.a, &arguments, &path);
    assert_eq!(
        (control[0].directories.len(), &control[1].directories),
        (2, &vec![world.path("new")])
    );
    let cured = Environments::with(&[], &e.a, &arguments, &path);
    assert!(is_whole(&cured[0]), "{cured:?}");
    assert_eq!(cured[1], control[1]);
}

/// A wrapper that finds the program by an empty element of PATH gives the kernel its bare name.
#[test]
fn a_program_that_is_called_by_its_bare_name_is_pinned() {
    let world = &*WORLD;
    for wrapper in [&["env"][..], &["timeout", "60"], &["nice"]] {
        let words = wrapper.iter().chain(&["with-rpath"]);
        let run = Run::new(words)
            .env("PATH", "/usr/bin:/bin:")
            .in_directory(world.path(""));
        let output = run
            .env("LD_LIBRARY_PATH", world.library_path(&["new"]))
            .any_stdout()
            .check();
        assert_eq!(
            Got::read(&output).directories,
            [world.path("old")],
            "{wrapper:?}"
        );
    }
}

/// Two interpreters in one directory have packages of their own.
#[test]
fn another_interpreter_of_one_directory_is_another_environment() {
    let e = environments!();
    let twin = e.a.with_file_name("python3.99");
    if !twin.exists() {
        fs::copy(fs::canonicalize(&e.b).unwrap(), &twin).unwrap();
    }
    let path = e.bare_name.to_str().unwrap();
    let script = format!(
        "import sys; sys.path.insert(0, {:?})\n{}",
        site_of(&e.b),
        SHOW[1]
    );
    let arguments = [
        e.parent.to_str().unwrap(),
        twin.to_str().unwrap(),
        "-c",
        &script,
    ];
    let control = Environments::without(&e.a, &arguments, path);
    assert!(
        control.len() == 2 && control.iter().all(is_whole),
        "{control:?}"
    );
    assert_eq!(Environments::with(&[], &e.a, &arguments, path), control);
}

/// The parts of a program can be loaded in an order that no file tells: another installation among its own packages keeps
/// cudarun from setting nothing.
#[test]
fn another_installation_among_the_packages_is_within_reach() {
    let e = environments!();
    let third = site_of(&e.a).join("third/libs");
    if !third.exists() {
        fs::create_dir_all(&third).unwrap();
        fs::copy(
            WORLD.path("new/libcudnn_graph.so.9.10.2"),
            third.join("libcudnn_graph.so.9"),
        )
        .unwrap();
        let library = third.join("libcudnn_graph.so.9");
        let flags = [
            "-Wl,--no-as-needed",
            library.to_str().unwrap(),
            "-Wl,--allow-shlib-undefined",
        ];
        let flags = [&flags[..], &["-Wl,--enable-new-dtags,-rpath,$ORIGIN/libs"]].concat();
        let built = WORLD
            .workshop
            .library("third.so", "_third.so", "int third;", &flags);
        fs::rename(built, site_of(&e.a).join("third/_third.so")).unwrap();
        let load = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), '_third.so'))\n";
        fs::write(site_of(&e.a).join("third/__init__.py"), load).unwrap();
    }
    let code = "import importlib, sys; importlib.import_module(sys.argv[1]); import framework; framework.show()";
    let arguments = ["-c", code, "third"];
    let control = Environments::without(&e.a, &arguments, "");
    assert_eq!(
        control[0].directories.len(),
        2,
        "the control must mix: {control:?}"
    );
    let cured = Environments::with(&[], &e.a, &arguments, "");
    assert!(is_whole(&cured[0]), "{cured:?}");
    fs::remove_dir_all(site_of(&e.a).join("third")).unwrap();
}
