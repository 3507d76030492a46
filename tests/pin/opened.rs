//! Libraries that are opened by names in constants, under the real loader: constants of the program, and of the libraries
//! that it opens. The control of each start is the same program without cudarun.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::pin::real_loader::{Got, PROGRAM, WORLD};
use crate::support::{Run, Workshop, bare};

const OLD: &str = "libcudnn.so.9";
const RPATH: [&str; 2] = ["-Wl,--disable-new-dtags", "-Wl,--allow-shlib-undefined"];

/// A program that opens these names in this order, and prints the version of the last cuDNN that it gets.
fn opening(workshop: &Workshop, name: &str, opened: &[&str], flags: &[&str]) -> PathBuf {
    let open = |name: &&str| {
        format!(
            "found = dlopen(\"{name}\", RTLD_NOW); all = found && dlsym(found, \"cudnnGetVersion\") ? found : all;\n"
        )
    };
    let opened: String = opened.iter().map(open).collect();
    let call = format!(
        "void *all = 0, *found; {opened}\n\
        printf(\"%d\\n\", all ? ((int (*)(void))dlsym(all, \"cudnnGetVersion\"))() : 0);"
    );
    let source = PROGRAM
        .replace("int cudnnGetVersion(void);", "#include <dlfcn.h>")
        .replace(r#"printf("%d\n", cudnnGetVersion());"#, &call);
    workshop.compile(name, &source, flags)
}

/// A library that is linked against cuDNN, with a DT_RPATH to an installation in `WORLD`.
fn plugin(workshop: &Workshop, name: &str, installation: &str) -> PathBuf {
    let library = WORLD.path(installation).join(OLD);
    let rpath = format!("-Wl,-rpath,{}", WORLD.path(installation).display());
    let source = "int cudnnGetVersion(void); int go(void) { return cudnnGetVersion(); }";
    let flags = [
        &RPATH[..],
        &["-Wl,--no-as-needed", &rpath, library.to_str().unwrap()],
    ]
    .concat();
    workshop.library(name, name, source, &flags)
}

/// A library that opens a name, with a DT_RPATH to an installation in `WORLD`.
fn opener(workshop: &Workshop, name: &str, opened: &str, installation: &str) -> PathBuf {
    let rpath = format!("-Wl,-rpath,{}", WORLD.path(installation).display());
    let source = format!(
        "#include <dlfcn.h>\n__attribute__((constructor)) static void go(void) {{ dlopen(\"{opened}\", RTLD_NOW); }}"
    );
    workshop.library(name, name, &source, &[RPATH[0], &rpath])
}

struct Start<'a> {
    program: &'a PathBuf,
    library_path: String,
    directory: Option<PathBuf>,
}

impl Start<'_> {
    fn control(&self) -> Got {
        let env = BTreeMap::from([("LD_LIBRARY_PATH", self.library_path.clone())]);
        let output = match &self.directory {
            None => bare(self.program, &[], &env),
            Some(directory) => {
                let mut command = std::process::Command::new(self.program);
                command
                    .current_dir(directory)
                    .env_clear()
                    .envs(&env)
                    .output()
                    .unwrap()
            }
        };
        Got::read(&String::from_utf8_lossy(&output.stdout))
    }

    fn with(&self, options: &[&str]) -> Run {
        let words = options
            .iter()
            .map(PathBuf::from)
            .chain([self.program.clone()]);
        let run = Run::new(words).env("LD_LIBRARY_PATH", &self.library_path);
        match &self.directory {
            None => run,
            Some(directory) => run.in_directory(directory),
        }
    }

    /// The control must mix installations. With cudarun, all files must come from one directory.
    #[track_caller]
    fn is_cured(&self) -> Got {
        let control = self.control();
        assert!(
            control.directories.len() > 1,
            "the control must mix: {control:?}"
        );
        let got = Got::read(&self.with(&[]).any_stdout().check());
        assert!(
            got.directories.len() == 1 && got.files >= 8,
            "{got:?}\ncontrol: {control:?}"
        );
        got
    }
}

fn on_path<'a>(program: &'a PathBuf, directories: &[&str]) -> Start<'a> {
    Start {
        program,
        library_path: WORLD.library_path(directories),
        directory: None,
    }
}

#[test]
fn a_library_that_a_constant_names_is_followed() {
    let workshop = Workshop::new();
    let linked = plugin(&workshop, "plug.so", "old");
    let home = workshop.path("").canonicalize().unwrap();
    let rpath = format!("-Wl,-rpath,{}", home.display());
    for (name, way, flags) in [
        ("absolute", linked.display().to_string(), &[][..]),
        ("dotted", "./plug.so".to_owned(), &[]),
        ("origin", "$ORIGIN/plug.so".to_owned(), &[]),
        ("braces", "${ORIGIN}/./plug.so".to_owned(), &[]),
        ("bare", "plug.so".to_owned(), &[RPATH[0], rpath.as_str()]),
    ] {
        let program = opening(&workshop, name, &[&way, OLD], flags);
        let start = Start {
            directory: Some(home.clone()),
            ..on_path(&program, &["new"])
        };
        start.is_cured();
        // A program that opens nothing else.
        let alone = workshop.compile(
            &format!("{name}-alone"),
            &PROGRAM.replace("int cudnnGetVersion(void);", "#include <dlfcn.h>").replace(
                r#"printf("%d\n", cudnnGetVersion());"#,
                &format!(r#"printf("%d\n", ((int (*)(void))dlsym(dlopen("{way}", RTLD_NOW), "go"))());"#),
            ),
            flags,
        );
        Start {
            directory: Some(home.clone()),
            ..on_path(&alone, &["new"])
        }
        .is_cured();
    }
}

/// A library that opens another one, which opens cuDNN by its name.
#[test]
fn constants_of_an_opened_library_count_with_its_search_path() {
    let workshop = Workshop::new();
    let inner = opener(&workshop, "inner.so", OLD, "old");
    let outer = opener(&workshop, "outer.so", inner.to_str().unwrap(), "torn");
    let program = opening(&workshop, "nested", &[outer.to_str().unwrap(), OLD], &[]);
    on_path(&program, &["new"]).is_cured();
}

/// A name without a file and a library of the system change nothing. A library that needs a missing installation causes no
/// refusal.
#[test]
fn names_that_lead_nowhere_change_nothing() {
    let workshop = Workshop::new();
    let missing = workshop.path("missing.so");
    let names = [
        missing.to_str().unwrap(),
        "libnone.so.3",
        "$ORIGIN/none.so",
        "libm.so.6",
    ];
    let program = opening(&workshop, "nowhere", &names, &[]);
    let start = Start {
        program: &program,
        library_path: String::new(),
        directory: None,
    };
    assert_eq!(
        Got::read(&start.with(&[]).any_stdout().check()),
        start.control()
    );
    let explained = start.with(&["explain", "--json"]).json();
    assert_eq!(
        explained["families"].as_array().unwrap().len(),
        0,
        "{explained:#}"
    );
    // This cuBLAS is not installed on any machine.
    let needy = workshop.library("needy.so", "needy.so", "int needy;", &[]);
    let stub = workshop.library("stub/libcublas.so.99", "libcublas.so.99", "int stub;", &[]);
    workshop.library(
        "needy.so",
        "needy.so",
        "int needy;",
        &[
            "-Wl,--no-as-needed",
            stub.to_str().unwrap(),
            "-Wl,--allow-shlib-undefined",
        ],
    );
    std::fs::remove_file(stub).unwrap();
    let program = opening(&workshop, "needs", &[needy.to_str().unwrap()], &[]);
    let start = Start {
        program: &program,
        library_path: String::new(),
        directory: None,
    };
    assert_eq!(
        Got::read(&start.with(&[]).any_stdout().check()),
        start.control()
    );
}

#[test]
fn a_path_is_looked_into_beside_a_name() {
    let workshop = Workshop::new();
    let path = WORLD.path("old").join(OLD);
    for (name, names) in [
        ("name-first", [OLD, path.to_str().unwrap()]),
        ("path-first", [path.to_str().unwrap(), OLD]),
    ] {
        let program = opening(&workshop, name, &names, &[]);
        on_path(&program, &["new"]).is_cured();
        // No complete installation is in LD_LIBRARY_PATH.
        let got = on_path(&program, &["torn"]).is_cured();
        assert_eq!(got.directories, [WORLD.path("old")]);
    }
    // An incomplete installation that is named by path does not prevent the use of the complete one.
    let torn = WORLD.path("torn").join(OLD);
    let program = opening(&workshop, "torn-path", &[torn.to_str().unwrap(), OLD], &[]);
    let got = on_path(&program, &["new"]).is_cured();
    assert_eq!(got.directories, [WORLD.path("new")]);
}

#[test]
fn a_family_is_found_below_the_origin_of_its_opener() {
    let workshop = Workshop::new();
    std::os::unix::fs::symlink(WORLD.path("old"), workshop.path("deep")).unwrap();
    for (name, way) in [
        ("origin", "$ORIGIN/deep/libcudnn.so.9"),
        ("braces", "${ORIGIN}/deep/libcudnn.so.9"),
    ] {
        let program = opening(&workshop, name, &[way], &[]);
        on_path(&program, &["new"]).is_cured();
    }
}

/// The order of names in constants is not the order in which a program opens them.
#[test]
fn every_name_may_be_the_first_that_is_opened() {
    let workshop = Workshop::new();
    let rpath = format!(
        "-Wl,-rpath,{}:{}",
        WORLD.path("old").display(),
        WORLD.path("new").display()
    );
    // Only `new` has `libcudnn.so`. If that name is opened first, the loader returns the same library for both names.
    for (name, names, is_mixed) in [
        ("long-first", [OLD, "libcudnn.so"], true),
        ("short-first", ["libcudnn.so", OLD], false),
    ] {
        let program = opening(&workshop, name, &names, &[RPATH[0], &rpath]);
        let start = on_path(&program, &[]);
        if is_mixed {
            start.is_cured();
        } else {
            assert_eq!(start.control().directories.len(), 1);
        }
        let got = Got::read(&start.with(&[]).any_stdout().check());
        assert_eq!(got.directories.len(), 1, "{got:?}");
    }
}

/// Starts in two directories with one cache. The first directory does not have the library.
#[test]
fn a_start_that_depends_on_the_directory_is_not_kept_for_another() {
    let workshop = Workshop::new();
    let here = workshop.path("here");
    std::fs::create_dir(&here).unwrap();
    std::os::unix::fs::symlink(WORLD.path("old"), here.join("a")).unwrap();
    for entry in std::fs::read_dir(WORLD.path("old")).unwrap() {
        let path = entry.unwrap().path();
        std::os::unix::fs::symlink(&path, here.join(path.file_name().unwrap())).unwrap();
    }
    let constant = "/proc/self/cwd/a/libcudnn.so.9";
    let new = WORLD.library_path(&["new"]);
    for (name, names, flags, path) in [
        (
            "relative-rpath",
            &[OLD][..],
            &[RPATH[0], "-Wl,-rpath,a"][..],
            new.clone(),
        ),
        (
            "empty-rpath",
            &[OLD],
            &[RPATH[0], "-Wl,-rpath,:/nowhere"],
            new.clone(),
        ),
        ("constant", &[constant, OLD], &[], new.clone()),
        ("proc-path", &[OLD], &[], format!("/proc/self/cwd/a:{new}")),
    ] {
        let program = opening(&workshop, name, names, flags);
        let start = Start {
            program: &program,
            library_path: path,
            directory: Some(here.clone()),
        };
        let control = start.control();
        assert!(!control.directories.is_empty(), "{name}: {control:?}");
        let home = tempfile::tempdir().unwrap();
        for directory in [Path::new("/"), &here] {
            let run = Run::new([&program])
                .in_directory(directory)
                .env("HOME", home.path());
            let got = Got::read(
                &run.env("LD_LIBRARY_PATH", &start.library_path)
                    .any_stdout()
                    .check(),
            );
            assert!(
                got.directories.len() == 1 && got.files >= 8,
                "{name} in {directory:?}: {got:?}"
            );
        }
    }
}

/// A namespace of its own has no preloaded libraries, and glibc does not ask an audit module about a path in it.
#[test]
fn namespaces_are_answered_by_name_and_announced_by_path() {
    let workshop = Workshop::new();
    let in_namespace = |name: &str, opened: &str, flags: &[&str]| {
        let source = PROGRAM
            .replace(
                "int cudnnGetVersion(void);",
                "#define _GNU_SOURCE\n#include <dlfcn.h>",
            )
            .replace(
                r#"printf("%d\n", cudnnGetVersion());"#,
                &format!(
                    r#"void *all = dlmopen(LM_ID_NEWLM, "{opened}", RTLD_NOW);
                   printf("%d\n", ((int (*)(void))dlsym(all, "cudnnGetVersion"))());"#
                ),
            );
        let source = format!("#define _GNU_SOURCE\n{source}");
        workshop.compile(name, &source, flags)
    };
    let torn = format!("-Wl,-rpath,{}", WORLD.path("torn").display());
    let by_name = in_namespace("by-name", OLD, &[RPATH[0], &torn]);
    let start = on_path(&by_name, &["new"]);
    assert_eq!(start.is_cured().directories, [WORLD.path("new")]);
    // The controls: a view does not win, and what is preloaded is not in the namespace. The shim alone fits.
    let in_view = start.with(&["--pin-mode=view"]).any_stdout().check();
    let shim = Got::read(&in_view).directories;
    assert_eq!(shim, [WORLD.path("new"), WORLD.path("torn")]);
    start
        .with(&["--pin-mode=view", "--pin=cudnn=9.10"])
        .status(125)
        .stderr_contains(&["view is not enough: the program may call dlmopen"])
        .check();
    let path = WORLD.path("old").join(OLD);
    let by_path = in_namespace("by-path", path.to_str().unwrap(), &[]);
    let start = on_path(&by_path, &["new"]);
    // Control: the installation at that path is picked.
    let got = start.with(&[]).any_stdout().check();
    assert_eq!(Got::read(&got).directories, [WORLD.path("old")]);
    let pin = format!("--pin=cudnn={}", WORLD.path("new").display());
    let said = start.with(&[&pin]).any_stdout();
    said.stderr_contains(&[
        "may open libraries in",
        "by path with dlmopen, and cudarun cannot redirect that",
    ])
    .check();
}

/// The loader identifies the library by its SONAME, and its parts come from the search path.
#[test]
fn a_library_under_another_file_name_opens_parts_of_one_installation() {
    let workshop = Workshop::new();
    let own = workshop.path("libmycudnn.so");
    std::fs::copy(WORLD.path("old").join(OLD), &own).unwrap();
    for (name, way) in [
        ("by-path", own.to_str().unwrap()),
        ("by-name", "libmycudnn.so"),
    ] {
        let program = opening(&workshop, name, &[way], &[RPATH[0], "-Wl,-rpath,$ORIGIN"]);
        let start = on_path(&program, &["torn", "new"]);
        assert_eq!(start.is_cured().directories, [WORLD.path("new")]);
    }
}

#[test]
fn a_program_that_changes_its_directory_keeps_its_set() {
    let workshop = Workshop::new();
    let source = PROGRAM
        .replace(
            "int cudnnGetVersion(void);",
            "#include <dlfcn.h>\n#include <unistd.h>",
        )
        .replace(
            r#"printf("%d\n", cudnnGetVersion());"#,
            &format!(
                r#"if (chdir("{}")) return 1;
               void *all = dlopen("libcudnn.so.9", RTLD_NOW);
               printf("%d\n", ((int (*)(void))dlsym(all, "cudnnGetVersion"))());"#,
                WORLD.path("torn").display()
            ),
        );
    let program = workshop.compile("changes", &source, &[]);
    for element in [".", "", "/proc/self/cwd"] {
        let library_path = format!("{element}:{}", WORLD.path("new").display());
        Start {
            program: &program,
            library_path,
            directory: None,
        }
        .is_cured();
    }
}

/// A program that sets `LD_LIBRARY_PATH` and starts itself again still gets the plan.
#[test]
fn a_program_that_changes_the_path_itself_is_pinned_by_the_module() {
    let workshop = Workshop::new();
    let source = PROGRAM.replace(
        "int main(void)\n{",
        &format!(
            "#include <stdlib.h>\n#include <unistd.h>\nint main(void)\n{{\n\
        if (!getenv(\"AGAIN\")) {{ setenv(\"AGAIN\", \"1\", 1); setenv(\"LD_LIBRARY_PATH\", \"{}\", 1);\n\
        execl(\"/proc/self/exe\", \"again\", (char *)0); }}",
            WORLD.path("torn").display()
        ),
    );
    let library = WORLD.path("old").join(OLD);
    let rpath = format!("-Wl,-rpath,{}", WORLD.path("old").display());
    let flags = [RPATH[0], RPATH[1], &rpath, library.to_str().unwrap()];
    let program = workshop.compile("again", &source, &flags);
    let start = Start {
        program: &program,
        library_path: String::new(),
        directory: None,
    };
    assert_eq!(start.is_cured().directories, [WORLD.path("old")]);
    let said = start.with(&["--pin-mode=view", "--no-follow"]).any_stdout();
    said.stderr_contains(&["`again` may change LD_LIBRARY_PATH itself"])
        .check();
}

/// A shim from another installation works with the picked sublibraries, but not beside the picked shim.
#[test]
fn a_mode_that_maps_two_shims_is_not_enough() {
    let workshop = Workshop::new();
    // `torn` gets the bare name, and the program asks for both names with that directory first.
    let torn = workshop.path("torn");
    std::fs::create_dir(&torn).unwrap();
    std::fs::copy(WORLD.path("torn").join(OLD), torn.join("libcudnn.so")).unwrap();
    let rpath = format!("-Wl,-rpath,{}", torn.display());
    let top = WORLD.path("new").join(OLD);
    let program = opening(
        &workshop,
        "two-shims",
        &[top.to_str().unwrap(), "libcudnn.so"],
        &[RPATH[0], &rpath],
    );
    let start = on_path(&program, &["new"]);
    assert_eq!(start.is_cured().directories, [WORLD.path("new")]);
    start
        .with(&["--pin-mode=view"])
        .status(125)
        .stderr_contains(&["view is not enough"])
        .check();
}
