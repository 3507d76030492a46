//! The real loader: programs and libraries built by a compiler, in environments that mix them. Each cure has
//! its control, the same start without cudarun, which must go wrong.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use crate::support::{CUDARUN, Run, Workshop, bare};

/// How cuDNN's libraries open each other: longest name first. The constants of the first call are where those of the real
/// shim are.
pub const OPENER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static void *sub(const char *stem)
{
    char name[4][256];
    snprintf(name[0], 256, "lib%s.so.%d.%d.%d", stem, 9, MINOR, PATCH);
    snprintf(name[1], 256, "lib%s.so.9.%d", stem, MINOR);
    snprintf(name[2], 256, "lib%s.so.9", stem);
    snprintf(name[3], 256, "lib%s.so", stem);
    void *found = NULL;
    for (int i = 0; i < 4 && !found; i++)
        found = dlopen(name[i], RTLD_NOW);
    return found;
}
"#;

/// A stand-in for cuDNN's top library: opens its sublibraries as the real one does, and answers with the version of
/// the one that it got.
pub const TOP: &str = r#"
int cudnnGetVersion(void)
{
    static const char *all[] = {"cudnn_graph", "cudnn_ops", "cudnn_cnn", "cudnn_adv", "cudnn_ext"};
    for (int i = 0; i < 5; i++)
        sub(all[i]);
    void *graph = sub("cudnn_graph");
    return graph ? ((int (*)(void))dlsym(graph, "graph_version"))() : -1;
}
"#;

const GRAPH: &str = r#"
__attribute__((used)) static const char stamp[] = STAMP;
int graph_version(void)
{
    sub("cudnn_heuristic");
    sub("cudnn_engines_precompiled");
    sub("cudnn_engines_runtime_compiled");
    return 90000 + 100 * MINOR + PATCH;
}
"#;

/// Prints the version that it gets and every cuDNN file that is mapped.
pub const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
int cudnnGetVersion(void);
int main(void)
{
    printf("%d\n", cudnnGetVersion());
    char line[4096], last[4096] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (path && strstr(path, "libcudnn") && strcmp(path, last)) {
            strcpy(last, path);
            fputs(path, stdout);
        }
    }
    return 0;
}
"#;

const SUBLIBRARIES: [&str; 6] = [
    "libcudnn_ops",
    "libcudnn_cnn",
    "libcudnn_adv",
    "libcudnn_engines_precompiled",
    "libcudnn_engines_runtime_compiled",
    "libcudnn_heuristic",
];

/// `old` is 9.1.0, `new` 9.10.2 with one sublibrary more and the long names of Debian's packages, `torn` is
/// 9.10.2 without one that it needs.
pub struct World {
    pub workshop: Workshop,
}

pub static WORLD: LazyLock<World> = LazyLock::new(|| {
    let workshop = Workshop::new();
    for (installation, minor, patch) in [("old", 1, 0), ("new", 10, 2), ("torn", 10, 2)] {
        let (m, p) = (format!("-DMINOR={minor}"), format!("-DPATCH={patch}"));
        let stamp = format!("-DSTAMP=\"cudnn_version_9_{minor}_{patch}_7_stub\"");
        let runpath = "-Wl,--enable-new-dtags,-rpath,$ORIGIN";
        let at = |stem: &str| match installation {
            "new" => format!("{installation}/{stem}.so.9.{minor}.{patch}"),
            _ => format!("{installation}/{stem}.so.9"),
        };
        workshop.library(
            &at("libcudnn"),
            "libcudnn.so.9",
            &[OPENER, TOP].concat(),
            &[&m, &p, runpath],
        );
        workshop.library(
            &at("libcudnn_graph"),
            "libcudnn_graph.so.9",
            &[OPENER, GRAPH].concat(),
            &[&m, &p, &stamp, runpath],
        );
        let more = if installation == "new" {
            vec!["libcudnn_ext"]
        } else {
            Vec::new()
        };
        for stem in SUBLIBRARIES.iter().chain(&more) {
            if !(installation == "torn" && *stem == "libcudnn_cnn") {
                workshop.library(&at(stem), &format!("{stem}.so.9"), "int nothing;", &[]);
            }
        }
        if installation == "new" {
            for entry in std::fs::read_dir(workshop.path(installation)).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().to_owned();
                let stem = name.split(".so").next().unwrap();
                std::os::unix::fs::symlink(&name, path.with_file_name(format!("{stem}.so.9")))
                    .unwrap();
                std::os::unix::fs::symlink(&name, path.with_file_name(format!("{stem}.so")))
                    .unwrap();
            }
        }
    }
    // Stubs to link against, as toolkits bring them.
    workshop.library(
        "stubs/libcudnn.so",
        "libcudnn.so.9",
        "int cudnnGetVersion(void) { return -34; }",
        &[],
    );
    let link = |name: &str, flags: &[&str]| {
        let library = workshop.path("old/libcudnn.so.9");
        let mut all = vec![library.to_str().unwrap(), "-Wl,--allow-shlib-undefined"];
        all.extend(flags);
        workshop.compile(name, PROGRAM, &all);
    };
    link("plain", &[]);
    link(
        "with-runpath",
        &["-Wl,--enable-new-dtags,-rpath,$ORIGIN/old"],
    );
    link(
        "with-rpath",
        &["-Wl,--disable-new-dtags,-rpath,$ORIGIN/old"],
    );
    link(
        "with-torn-rpath",
        &["-Wl,--disable-new-dtags,-rpath,$ORIGIN/torn"],
    );
    World { workshop }
});

impl World {
    pub fn path(&self, below: &str) -> PathBuf {
        self.workshop.path(below).canonicalize().unwrap()
    }

    pub fn library_path(&self, directories: &[&str]) -> String {
        let element = |name: &&str| {
            if name.is_empty() {
                String::new()
            } else {
                self.path(name).display().to_string()
            }
        };
        directories
            .iter()
            .map(element)
            .collect::<Vec<_>>()
            .join(":")
    }

    /// The output of the program in this environment, without cudarun.
    pub fn control(&self, program: &str, library_path: &str) -> Got {
        let env = BTreeMap::from([("LD_LIBRARY_PATH", library_path.to_owned())]);
        Got::read(&String::from_utf8_lossy(
            &bare(&self.path(program), &[], &env).stdout,
        ))
    }

    pub fn cured(&self, program: &str, library_path: &str) -> Got {
        let run = Run::new([self.path(program)]).env("LD_LIBRARY_PATH", library_path);
        Got::read(&run.any_stdout().check())
    }
}

#[derive(Debug, PartialEq)]
pub struct Got {
    pub version: i32,
    /// The directories that the mapped files come from.
    pub directories: Vec<PathBuf>,
    pub files: usize,
}

impl Got {
    pub fn read(output: &str) -> Got {
        let mut lines = output.lines();
        let version = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
        let files: Vec<&Path> = lines.map(Path::new).collect();
        let mut directories: Vec<PathBuf> = files
            .iter()
            .map(|file| file.parent().unwrap().to_owned())
            .collect();
        directories.sort();
        directories.dedup();
        Got {
            version,
            directories,
            files: files.len(),
        }
    }
}

#[test]
fn a_second_installation_on_the_path_does_not_mix_with_the_rpath() {
    let world = &*WORLD;
    let polluted = world.library_path(&["new"]);
    let control = world.control("with-rpath", &polluted);
    assert_eq!(
        control.directories,
        [world.path("new"), world.path("old")],
        "the control must mix: {control:?}"
    );
    let cured = world.cured("with-rpath", &polluted);
    assert_eq!(
        cured,
        Got {
            version: 90100,
            directories: vec![world.path("old")],
            files: 8
        }
    );
}

#[test]
fn an_incomplete_installation_first_on_the_path_is_skipped() {
    let world = &*WORLD;
    let polluted = world.library_path(&["torn", "new"]);
    let control = world.control("plain", &polluted);
    assert_eq!(
        control.directories,
        [world.path("new"), world.path("torn")],
        "the control must mix: {control:?}"
    );
    let cured = world.cured("plain", &polluted);
    assert_eq!(
        cured,
        Got {
            version: 91002,
            directories: vec![world.path("new")],
            files: 9
        }
    );
}

#[test]
fn a_missing_sublibrary_does_not_come_from_another_installation() {
    let world = &*WORLD;
    // A RUNPATH leads to `old`, the path to `new`: `old` is picked when it alone is asked for by version.
    let polluted = world.library_path(&["old", "new"]);
    let control = world.control("plain", &polluted);
    assert!(
        control.directories.contains(&world.path("new")),
        "the control must take libcudnn_ext: {control:?}"
    );
    let run = Run::new(
        ["explain", "--json"]
            .map(PathBuf::from)
            .into_iter()
            .chain([world.path("with-rpath")]),
    );
    let explained = run.env("LD_LIBRARY_PATH", &polluted).json();
    let tombstones: Vec<&str> = explained["tombstones"]
        .as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect();
    assert!(
        tombstones.contains(&"libcudnn_ext.so.9") && tombstones.contains(&"libcudnn_ext.so.9.1.0"),
        "{tombstones:?}"
    );
    let cured = world.cured("with-rpath", &polluted);
    assert_eq!(
        cured,
        Got {
            version: 90100,
            directories: vec![world.path("old")],
            files: 8
        }
    );
}

#[test]
fn a_search_path_of_its_own_that_leads_astray_needs_more_than_a_library_path() {
    let world = &*WORLD;
    let polluted = world.library_path(&["new"]);
    let control = world.control("with-torn-rpath", &polluted);
    assert_eq!(
        control.directories,
        [world.path("new"), world.path("torn")],
        "the control must mix: {control:?}"
    );
    Run::new(["--pin-mode=none".into(), world.path("with-torn-rpath")])
        .env("LD_LIBRARY_PATH", &polluted)
        .status(125)
        .stderr_contains(&[
            "error: no cuDNN here fits `with-torn-rpath`",
            "incomplete: libcudnn_cnn missing",
            "LD_LIBRARY_PATH alone cannot help",
            "its DT_RPATH",
            "hint: leave out --pin-mode: audit is enough",
        ])
        .check();
    // The word of earlier versions is another name of `view`.
    for word in ["--pin-mode=view", "--pin-mode=preload"] {
        let run = Run::new([word.into(), world.path("with-torn-rpath")]);
        let run = run.env("LD_LIBRARY_PATH", &polluted).any_stdout();
        assert_eq!(
            Got::read(&run.check()).directories,
            [world.path("new")],
            "{word}"
        );
    }
}

#[test]
fn a_longer_name_that_is_tried_first_brings_no_other_installation() {
    let world = &*WORLD;
    let source = PROGRAM
        .replace("int cudnnGetVersion(void);", "#include <dlfcn.h>")
        .replace(
            r#"printf("%d\n", cudnnGetVersion());"#,
            r#"void *all = dlopen("libcudnn.so.9.10.2", RTLD_NOW);
               if (!all) all = dlopen("libcudnn.so.9", RTLD_NOW);
               printf("%d\n", ((int (*)(void))dlsym(all, "cudnnGetVersion"))());"#,
        );
    world.workshop.compile(
        "tries",
        &source,
        &["-Wl,--disable-new-dtags,-rpath,$ORIGIN/old"],
    );
    let polluted = world.library_path(&["new"]);
    let control = world.control("tries", &polluted);
    assert_eq!(
        control.version, 91002,
        "the control must take the longer name: {control:?}"
    );
    let cured = world.cured("tries", &polluted);
    assert_eq!(
        cured,
        Got {
            version: 90100,
            directories: vec![world.path("old")],
            files: 8
        }
    );
}

#[test]
fn a_foreign_library_in_ld_preload_is_left_out_and_others_stay() {
    let world = &*WORLD;
    let foreign = world.path("new/libcudnn.so.9.10.2");
    let other = world
        .workshop
        .library("other.so", "other.so", "int other;", &[]);
    let preload = format!("{} {}", foreign.display(), other.display());
    let env = BTreeMap::from([("LD_PRELOAD", preload.clone())]);
    let control = Got::read(&String::from_utf8_lossy(
        &bare(&world.path("with-rpath"), &[], &env).stdout,
    ));
    assert!(
        control.directories.contains(&world.path("new")),
        "the control must take it: {control:?}"
    );
    let output = Run::new([world.path("with-rpath")])
        .env("LD_PRELOAD", &preload)
        .any_stdout()
        .check();
    assert_eq!(Got::read(&output).directories, [world.path("old")]);
    let exported = Run::new(["export".into(), world.path("with-rpath").into_os_string()])
        .env("LD_PRELOAD", &preload)
        .any_stdout()
        .check();
    assert!(
        exported.contains(&format!("export LD_PRELOAD='{}'", other.display())),
        "{exported}"
    );
}

#[test]
fn empty_elements_and_stubs_go_and_the_rest_stays() {
    let world = &*WORLD;
    let elements = world.library_path(&["", "stubs", "new", ""]);
    let control = world.control("plain", &world.library_path(&["stubs"]));
    assert_eq!(
        control.version, 0,
        "a stub has no libcudnn.so.9: {control:?}"
    );
    let path = |options: &[&str]| {
        let words = ["export", "--json"]
            .iter()
            .chain(options)
            .map(PathBuf::from)
            .chain([world.path("plain")]);
        let exported = Run::new(words)
            .env("LD_LIBRARY_PATH", format!("{elements}:/usr/lib"))
            .json();
        exported["environment"]["LD_LIBRARY_PATH"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let rest = format!("{}:/usr/lib", world.path("new").display());
    assert_eq!(path(&[]), rest);
    assert_eq!(path(&["--pin-mode=view"]).split_once(':').unwrap().1, rest);
    Run::new([PathBuf::from("-v"), world.path("plain")])
        .env("LD_LIBRARY_PATH", &elements)
        .any_stdout()
        .stderr_contains(&[
            "without (empty): an empty element means the current directory",
            "contains stubs",
        ])
        .check();
}

#[test]
fn exported_environments_do_what_the_run_form_does() {
    let world = &*WORLD;
    let home = tempfile::tempdir().unwrap();
    let polluted = world.library_path(&["new"]);
    let script = format!(
        "eval \"$({CUDARUN} export {0})\" && {0}",
        world.path("with-rpath").display()
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .env_remove("XDG_CACHE_HOME")
        .env("HOME", home.path())
        .env("LD_LIBRARY_PATH", &polluted)
        .output()
        .unwrap();
    assert_eq!(
        Got::read(&String::from_utf8_lossy(&output.stdout)),
        world.cured("with-rpath", &polluted)
    );
}

#[test]
fn cudarun_below_cudarun_changes_nothing_more() {
    let world = &*WORLD;
    let home = tempfile::tempdir().unwrap();
    let show = |through: &[&str]| {
        let script = format!("{} sh -c 'echo $LD_LIBRARY_PATH'; true", through.join(" "));
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .env_remove("XDG_CACHE_HOME")
            .env("HOME", home.path())
            .env("LD_LIBRARY_PATH", world.library_path(&["new"]))
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(
        show(&[CUDARUN, CUDARUN]),
        show(&[]),
        "a shell needs nothing"
    );
    let program = world.path("with-rpath");
    let nested = Run::new([CUDARUN.as_ref(), program.as_os_str()])
        .env("LD_LIBRARY_PATH", world.library_path(&["new"]));
    assert_eq!(
        Got::read(&nested.any_stdout().check()),
        world.cured("with-rpath", &world.library_path(&["new"]))
    );
    // Inside a plan, the outer view is no input and does not stay.
    let words = ["export", "--json", "--pin-mode=view"].map(PathBuf::from);
    let outer = Run::new(words.into_iter().chain([program.clone()]));
    let home = outer.home().to_owned();
    let first = outer
        .env("LD_LIBRARY_PATH", world.library_path(&["new"]))
        .json();
    let variable = |name: &str| first["environment"][name].as_str().unwrap().to_owned();
    let again = Run::new(
        ["explain", "--json"]
            .map(PathBuf::from)
            .into_iter()
            .chain([program]),
    )
    .env("HOME", &home)
    .env("LD_LIBRARY_PATH", variable("LD_LIBRARY_PATH"))
    .env("CUDARUN_VIEW", variable("CUDARUN_VIEW"))
    .json();
    assert_eq!(
        again["families"][0]["picked"]["directory"],
        world.path("old").to_str().unwrap()
    );
    assert!(again["removed"].as_array().unwrap().is_empty(), "{again:#}");
}

#[test]
fn a_view_holds_every_name_that_may_be_asked_for() {
    let world = &*WORLD;
    let run = Run::new(
        ["export", "--json", "--pin-mode=view"]
            .map(PathBuf::from)
            .into_iter()
            .chain([world.path("with-runpath")]),
    );
    let home = tempfile::tempdir().unwrap();
    let exported = run.env("HOME", home.path()).json();
    let view = PathBuf::from(exported["environment"]["CUDARUN_VIEW"].as_str().unwrap());
    assert!(
        view.starts_with(home.path().join(".cache/cudarun/views")),
        "{}",
        view.display()
    );
    for name in [
        "libcudnn_graph.so",
        "libcudnn_graph.so.9",
        "libcudnn_graph.so.9.1",
        "libcudnn_graph.so.9.1.0",
    ] {
        assert_eq!(
            view.join(name).canonicalize().unwrap(),
            world.path("old/libcudnn_graph.so.9"),
            "{name}"
        );
    }
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&view).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn a_damaged_view_is_made_anew() {
    let world = &*WORLD;
    let polluted = world.library_path(&["new"]);
    let run = || Run::new([world.path("with-rpath")]).env("LD_LIBRARY_PATH", &polluted);
    let keep = tempfile::tempdir().unwrap();
    let expected = run().env("HOME", keep.path()).any_stdout().check();
    let views = keep.path().join(".cache/cudarun/views");
    let view = std::fs::read_dir(&views)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    std::fs::remove_file(view.join("libcudnn_graph.so.9.1.0")).unwrap();
    assert_eq!(
        run().env("HOME", keep.path()).any_stdout().check(),
        expected
    );
    assert!(view.join("libcudnn_graph.so.9.1.0").exists());
    assert_eq!(
        std::fs::read_dir(&views).unwrap().count(),
        1,
        "nothing is left behind"
    );
}

#[test]
fn views_need_no_home_and_a_missing_directory_is_explained() {
    let world = &*WORLD;
    let session = tempfile::tempdir().unwrap();
    let path = session.path().to_owned();
    Run::new([world.path("with-rpath")])
        .env("HOME", "/proc/no-such-home")
        .env("XDG_RUNTIME_DIR", &path)
        .any_stdout()
        .check();
    assert!(path.join("cudarun/views").exists());
    // A home whose name the loader cannot take.
    let odd = tempfile::tempdir().unwrap();
    let spaced = odd.path().join("a home:with;blanks");
    std::fs::create_dir(&spaced).unwrap();
    Run::new([world.path("with-rpath")])
        .env("HOME", &spaced)
        .env("XDG_RUNTIME_DIR", &path)
        .any_stdout()
        .check();
    assert!(!spaced.join(".cache/cudarun/views").exists());
}

/// The hint does not mention the pin when the mode is the obstacle.
#[test]
fn a_mode_that_is_not_enough_names_the_one_that_is() {
    let world = &*WORLD;
    let pin = format!("--pin=cudnn={}", world.path("new").display());
    let ask = |mode: &str| {
        let words = ["explain", "--json", &pin, &format!("--pin-mode={mode}")].map(PathBuf::from);
        Run::new(words.into_iter().chain([world.path("with-rpath")]))
            .status(1)
            .json()
    };
    let refused = ask("none");
    assert_eq!(refused["decision"], "conflict");
    let hint = refused["hint"].as_str().unwrap();
    let named = hint
        .strip_prefix("leave out --pin-mode: ")
        .and_then(|rest| rest.strip_suffix(" is enough"));
    let named = named.unwrap_or_else(|| panic!("{hint}"));
    let words = [
        PathBuf::from(&pin),
        "--pin-mode".into(),
        named.into(),
        world.path("with-rpath"),
    ];
    let got = Got::read(&Run::new(words).any_stdout().check());
    assert_eq!(got.directories, [world.path("new")], "what it says is so");
}
