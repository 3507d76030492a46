//! The model of the loader against the real one: programs and libraries that search in every way there is, in
//! environments of every syntax. Which files are loaded, in which order, and whether the program starts at all.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cudarun::environment::Environment;
use cudarun::host::Host;
use cudarun::loader::process::{LoadFailure, LoadedObject, Process};
use cudarun::loader::rules::standard_loader;
use cudarun::loader::search::{FoundBy, Overlay, Searcher};

use crate::support::loader_cases::{MACHINE, WORLD, World, in_parallel};

/// Values of `LD_LIBRARY_PATH`; `@` is the root of the world.
const LIBRARY_PATHS: &str = "\
:|;|@/a1|@/a2:@/a1|@/a3:@/a2|@/a2;@/a1|@/a2:;@/a1|:@/a1|@/a1:|@/a2::@/a1|rel|./rel|../a1|.|..|rel:|@/a1/
@/a1///:@/a2|@/./a1/../a2|@/a1/liba.so.1:@/a2|file:@/a1|@/cwd/file:@/a1|@/none-such:@/a1|rel-none:@/a2
$ORIGIN/../a1|${ORIGIN}/../a2|$ORIGINS|$ORIGIN:@/a1|@/$LIB|@/${LIB}:@/a1|@/$PLATFORM|@/${PLATFORM:@/a1|$:@/a1
@/sp ace| @/a1|@/text:@/a1|@/a1:@/text|@/none|@/short|@/class:@/a1|@/class:@/machine|@/machine:@/a1|@/data
@/version|@/osabi|@/padding|@/object|@/program|@/entry|@/headers|@/nothing|@/directory|@/dangling:@/a1
@/loop:@/a1|@/a3:@/loop:@/a2|@/secret:@/a1|@/hw|@/a2:@/hw|@/hw-text|@/hw-class|@/hw-loop|@/legacy|@/legacy:@/hw
@/view|@/view:@/a1|@/hard:@/a1|@/linked|@/linked:@/a1|@/all|@/libs|@/inner:@/all|/|//:@/a1|/lib:/usr/lib
/proc/self:@/a1|/dev/null:@/a1|@/a1:@/a1|@/a2/ä:@/a1";

/// Values of `LD_PRELOAD`.
const PRELOADS: &str = "\
@/a1/liba.so.1|@/a1/libb.so.1|@/a2/liba.so.1 @/a3/libb.so.1|@/a2/liba.so.1:@/a1/liba.so.1|liba.so.1|libr.so.1
libnone.so|@/none-such.so @/a2/liba.so.1|@/text/liba.so.1|@/none/liba.so.1 @/a1/liba.so.1|@/directory/liba.so.1
@/class/liba.so.1|@/machine/liba.so.1|@/program/liba.so.1|@/bin/plain|@/linked/liba.so.1 @/a1/liba.so.1
@/view/liba.so.1|@/hard/libn.so.1|./liba.so.1|$ORIGIN/../a1/libb.so.1|@/libs/liby.so.1|libm.so.6 libc.so.6
@/dangling/liba.so.1|@/loop/liba.so.1|@/libs/libslash.so.1|ld-linux-x86-64.so.2|@/all/libalias.so.1 liba.so.1
  @/a1/liba.so.1  ";

/// The names that programs open.
const NAMES: &str = "\
liba.so.1|libb.so.1|libw.so.1|libx.so.1|liby.so.1|libz_.so.1|libnd.so.1|libr.so.1|libn.so.1|libalias.so.1
libp.so.1|libp.so.1|libq.so.1|libp.so.1|libnone.so.1|@/a1/liba.so.1|@/a1/libr.so.1|@/view/libr.so.1|@/hard/libn.so.1|@/libs/libslash.so.1
./librelative.so.1|rel/libb.so.1|$ORIGIN/../a1/libb.so.1|$ORIGIN/liba.so.1|@/text/liba.so.1|@/class/liba.so.1
@/program/liba.so.1|@/bin/plain|@/linked/liba.so.1|libm.so.6|librt.so.1|libc.so.6";

/// A start in an environment, and what the program opens: by the library of a tag, and which name.
#[derive(Clone, Debug, Default)]
struct Case {
    program: String,
    env: BTreeMap<String, String>,
    opens: Vec<(Option<&'static str>, String)>,
}

/// The outcome: each file by device and inode in the order of loading, without the loader itself.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    Died,
    Loaded {
        opened: Vec<bool>,
        files: Vec<(u64, u64)>,
        missing: BTreeSet<String>,
    },
}

fn identity(path: &Path) -> (u64, u64) {
    fs::metadata(path).map_or((0, 0), |metadata| (metadata.dev(), metadata.ino()))
}

fn modelled(process: Result<Process<'_>, LoadFailure>, case: &Case, is_list: bool) -> Came {
    let mut process = process.unwrap();
    let dies = match &process.failure {
        Some(LoadFailure::Bad { .. }) => true,
        Some(_) => !is_list,
        None => false,
    };
    if dies {
        return Came::Died;
    }
    let tagged = |process: &Process<'_>, tag: &str| {
        let soname = format!("lib{tag}.so.1");
        process
            .loaded
            .iter()
            .position(|loaded| loaded.object.soname.as_ref() == Some(&soname))
    };
    let mut opened = Vec::new();
    for (by, name) in &case.opens {
        let by = by.map(|tag| tagged(&process, tag).unwrap());
        opened.push(process.open(name, by).is_ok());
    }
    let objects = process.loaded[1..].iter().map(|loaded| loaded.object.id);
    let loader = identity(standard_loader(MACHINE));
    let files = objects
        .map(|id| (id.device, id.inode))
        .filter(|id| *id != loader)
        .collect();
    Came::Loaded {
        opened,
        files,
        missing: process
            .missing
            .iter()
            .map(|miss| miss.name.clone())
            .collect(),
    }
}

impl World {
    fn library_paths(&self) -> Vec<String> {
        let values = std::iter::once("").chain(LIBRARY_PATHS.split(['|', '\n']));
        values
            .map(|value| value.replace('@', self.root.to_str().unwrap()))
            .collect()
    }

    fn command(&self, program: impl AsRef<Path>, case: &Case) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .env_clear()
            .envs(&case.env)
            .current_dir(self.path("cwd"))
            .stdin(Stdio::null());
        command
    }

    fn files(&self, paths: impl Iterator<Item = PathBuf>) -> Vec<(u64, u64)> {
        let loader = identity(standard_loader(MACHINE));
        let is_vdso = |path: &PathBuf| path.to_string_lossy().starts_with("linux-vdso");
        let paths = paths.filter(|path| !is_vdso(path));
        paths
            .map(|path| identity(&self.path("cwd").join(path)))
            .filter(|id| *id != loader)
            .collect()
    }

    /// `ld.so --list PROGRAM`, in the form that goes on where a name is not found.
    fn really_listed(&self, case: &Case) -> Came {
        let mut command = self.command(standard_loader(MACHINE), case);
        let output = command
            .env("LD_TRACE_LOADED_OBJECTS", "1")
            .arg(self.path(&case.program))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let mut missing = BTreeSet::new();
        let mut paths = Vec::new();
        for line in text.lines().filter_map(|line| line.strip_prefix('\t')) {
            if let Some(name) = line.strip_suffix(" => not found") {
                missing.insert(name.to_owned());
            } else if let Some((line, _)) = line.rsplit_once(" (0x") {
                paths.push(PathBuf::from(
                    line.rsplit_once(" => ").map_or(line, |(_, path)| path),
                ));
            }
        }
        if text.is_empty() {
            assert!(!output.status.success());
            return Came::Died;
        }
        Came::Loaded {
            opened: Vec::new(),
            files: self.files(paths.into_iter()),
            missing,
        }
    }

    fn really_run(&self, case: &Case) -> Came {
        let words = case
            .opens
            .iter()
            .map(|(by, name)| by.map_or(name.clone(), |by| format!("{by}>{name}")));
        let output = self
            .command(self.path(&case.program), case)
            .args(words)
            .output()
            .unwrap();
        if !output.status.success() {
            assert_eq!(
                output.status.code(),
                Some(127),
                "{case:?} {}",
                String::from_utf8_lossy(&output.stderr)
            );
            return Came::Died;
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut lines = text.lines();
        let opened = lines
            .by_ref()
            .take(case.opens.len())
            .map(|line| line == "ok")
            .collect();
        Came::Loaded {
            opened,
            files: self.files(lines.map(PathBuf::from)),
            missing: BTreeSet::new(),
        }
    }

    fn host(&self) -> Host {
        let mut host = Host::here();
        host.cwd = self.path("cwd");
        host.env = Environment::default();
        host
    }

    /// Compares, as the kernel starts it and, where nothing is opened, as the loader lists it. Returns how many
    /// comparisons there were, and in how many the program died.
    fn compare(&self, cases: &[Case]) -> (usize, usize) {
        let differences = Mutex::new(Vec::new());
        let (compared, died) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let parts: Vec<&[Case]> = cases.chunks(64).collect();
        in_parallel(&parts, |part| {
            let host = self.host();
            let plain = Searcher::new(&host, MACHINE);
            let note = |case: &Case, real: Came, model: Came| {
                compared.fetch_add(1, Ordering::Relaxed);
                died.fetch_add(usize::from(real == Came::Died), Ordering::Relaxed);
                if real != model {
                    differences
                        .lock()
                        .unwrap()
                        .push(format!("{case:?}\n  real  {real:?}\n  model {model:?}"));
                }
            };
            let mut last: Option<(BTreeMap<String, String>, Searcher<'_>)> = None;
            for case in *part {
                // One searcher for all that start in the same environment: what it has kept must hold for each.
                if last.as_ref().is_none_or(|(env, _)| *env != case.env) {
                    last = Some((
                        case.env.clone(),
                        plain.within(&case.env.iter().collect(), None),
                    ));
                }
                let Some((_, searcher)) = &last else { continue };
                let program = self.path(&case.program);
                let started = Process::start(searcher, &program);
                note(case, self.really_run(case), modelled(started, case, false));
                if case.opens.is_empty() {
                    let listed = Process::library(searcher, &program);
                    let model = modelled(listed, case, true);
                    // Without a C library the loader cannot list others that need one.
                    if !matches!(&model, Came::Loaded { missing, .. } if missing.contains("libc.so.6"))
                    {
                        note(case, self.really_listed(case), model);
                    }
                }
            }
        });
        let differences = differences.into_inner().unwrap();
        assert!(
            differences.is_empty(),
            "{} differ\n{}",
            differences.len(),
            differences.join("\n")
        );
        (compared.into_inner(), died.into_inner())
    }

    fn case(&self, program: &str, env: &[(&str, &str)]) -> Case {
        let root = self.root.to_str().unwrap();
        let value = |(name, value): &(&str, &str)| ((*name).to_owned(), value.replace('@', root));
        Case {
            program: format!("bin/{program}"),
            env: env.iter().map(value).collect(),
            opens: Vec::new(),
        }
    }
}

#[test]
fn every_program_finds_what_it_finds_in_every_environment() {
    let world = &*WORLD;
    let values = world.library_paths();
    let env = |value: &String| BTreeMap::from([("LD_LIBRARY_PATH".to_owned(), value.clone())]);
    let each = |value| {
        world.programs.iter().map(move |program| Case {
            env: env(value),
            ..world.case(program, &[])
        })
    };
    let cases: Vec<Case> = values.iter().flat_map(each).collect();
    let (compared, died) = world.compare(&cases);
    assert!(
        compared >= 2 * 12 * 44 && died > 100 && died < compared / 2,
        "{compared} {died}"
    );
}

#[test]
fn preloads_come_first_and_only_spoil_themselves() {
    let world = &*WORLD;
    let library_paths = ["", "@/a3:@/a2", "@/text"];
    let mut cases = Vec::new();
    for program in ["plain", "runpath", "rpath", "paths", "chain-rpath", "alias"] {
        for preload in PRELOADS.split(['|', '\n']) {
            for path in library_paths {
                cases.push(world.case(
                    program,
                    &[("LD_PRELOAD", preload), ("LD_LIBRARY_PATH", path)],
                ));
            }
        }
    }
    let (compared, died) = world.compare(&cases);
    assert!(
        compared >= 500 && died > 50 && died < compared / 2,
        "{compared} {died}"
    );
}

#[test]
fn a_dlopen_searches_from_the_object_that_calls_it() {
    let world = &*WORLD;
    let names: Vec<&str> = NAMES.split(['|', '\n']).chain([""]).collect();

    let openers: [(&str, &[Option<&str>]); 5] = [
        ("runpath", &[None, Some("r"), Some("n"), Some("b")]),
        ("rpath", &[None, Some("r"), Some("n"), Some("a")]),
        ("both", &[None, Some("r")]),
        ("chain", &[None, Some("y"), Some("w")]),
        ("chain-rpath", &[None, Some("x"), Some("y")]),
    ];
    let mut cases = Vec::new();
    for (program, openers) in openers {
        for path in ["", "@/all", "@/a2:@/none", "@/a3:@/loop:@/all"] {
            for opener in openers {
                for pair in names.windows(2) {
                    let mut case = world.case(program, &[("LD_LIBRARY_PATH", path)]);
                    let root = world.root.to_str().unwrap();
                    // The second finds what the first has left behind, also where that failed.
                    case.opens = pair
                        .iter()
                        .map(|name| (*opener, name.replace('@', root)))
                        .collect();
                    cases.push(case);
                }
            }
        }
    }
    // Programs that do not start open nothing.
    let host = world.host();
    let plain = Searcher::new(&host, MACHINE);
    cases.retain(|case| {
        let searcher = plain.within(&case.env.iter().collect(), None);
        Process::start(&searcher, &world.path(&case.program))
            .unwrap()
            .failure
            .is_none()
    });
    let (compared, died) = world.compare(&cases);
    assert!(compared >= 500 && died == 0, "{compared} {died}");
}

#[test]
fn a_link_to_a_program_moves_its_origin_only_where_the_loader_lists_it() {
    let world = &*WORLD;
    fs::create_dir_all(world.path("away/bin")).unwrap();
    let cases: Vec<Case> = (world.programs.iter())
        .map(|program| {
            symlink(
                world.path("bin").join(program),
                world.path("away/bin").join(program),
            )
            .unwrap();
            Case {
                program: format!("away/bin/{program}"),
                ..world.case(program, &[("LD_LIBRARY_PATH", "$ORIGIN/../a1")])
            }
        })
        .collect();
    world.compare(&cases);
}

#[test]
fn a_planned_view_is_modelled_like_a_published_one() {
    let world = &*WORLD;
    let host = world.host();
    let plain = Searcher::new(&host, MACHINE);
    for answers in [false, true] {
        let directory = world.path(if answers {
            "planned-answers"
        } else {
            "planned"
        });
        let overlay = |links: &[(&str, &str)], empty: &[&str]| Overlay {
            directory: directory.clone(),
            links: links
                .iter()
                .map(|(name, program)| ((*name).to_owned(), world.path(program)))
                .collect(),
            empty: empty.iter().map(ToString::to_string).collect(),
            answers,
        };
        let plans = [
            overlay(
                &[("liba.so.1", "a1/liba.so.1"), ("libb.so.1", "a1/libb.so.1")],
                &[],
            ),
            overlay(&[("liba.so.1", "a2/liba.so.1")], &["libw.so.1"]),
            overlay(
                &[("libr.so.1", "all/libr.so.1"), ("libb.so.1", "none-such")],
                &[],
            ),
        ];
        for plan in plans {
            let mut differed = false;
            for program in &world.programs {
                for also in ["", ":@/all"] {
                    let mut case = world.case(program, &[]);
                    let path = format!(
                        "{}{}",
                        directory.display(),
                        also.replace('@', world.root.to_str().unwrap())
                    );
                    case.env.insert("LD_LIBRARY_PATH".to_owned(), path);
                    let env: Environment = case.env.iter().collect();
                    let searcher = plain.within(&env, Some(plan.clone()));
                    let model = modelled(
                        Process::start(&searcher, &world.path(&case.program)),
                        &case,
                        false,
                    );
                    let without = plain.within(&env, None);
                    let without = modelled(
                        Process::start(&without, &world.path(&case.program)),
                        &case,
                        false,
                    );
                    differed |= without != model;
                    fs::create_dir_all(&directory).unwrap();
                    for (name, program) in &plan.links {
                        symlink(program, directory.join(name)).unwrap();
                    }
                    for name in &plan.empty {
                        fs::write(directory.join(name), "").unwrap();
                    }
                    if answers {
                        case.env
                            .insert("ANSWERS".to_owned(), directory.to_str().unwrap().to_owned());
                        case.env
                            .insert("LD_AUDIT".to_owned(), world.text("audit.so"));
                    }
                    let real = world.really_run(&case);
                    fs::remove_dir_all(&directory).unwrap();
                    assert_eq!(real, model, "{case:?} {plan:?}");
                }
            }
            assert!(differed, "the plan changes nothing: {plan:?}");
        }
    }
}

#[test]
fn every_file_is_known_by_the_rule_that_brought_it() {
    let world = &*WORLD;
    let host = world.host();
    let root = world.root.to_str().unwrap();
    let env: Environment = [
        ("LD_LIBRARY_PATH", format!("none:{root}/a3/")),
        ("LD_PRELOAD", format!("{root}/a1/libw.so.1")),
    ]
    .into_iter()
    .collect();
    let searcher = Searcher::new(&host, MACHINE).within(&env, None);
    let program = world.path("bin/rpath");
    let mut process = Process::start(&searcher, &program).unwrap();
    let rule = |process: &Process<'_>, name: &str| {
        process
            .loaded
            .iter()
            .find(|loaded| loaded.name.ends_with(name))
            .map(|loaded| loaded.rule.clone())
    };
    let of_program = Some(FoundBy::Rpath { of: program });
    assert_eq!(process.loaded[0].rule, FoundBy::Executable);
    assert_eq!(process.loaded[1].rule, FoundBy::Interpreter);
    assert_eq!(rule(&process, "libw.so.1"), Some(FoundBy::Preload));
    assert_eq!(rule(&process, "libr.so.1"), of_program);
    assert_eq!(
        rule(&process, "liba.so.1"),
        of_program,
        "of the preload's, too"
    );
    assert_eq!(rule(&process, "libc.so.6"), Some(FoundBy::Cache));
    let runpath = Process::start(&searcher, &world.path("bin/runpath")).unwrap();
    assert_eq!(rule(&runpath, "libn.so.1"), Some(FoundBy::Runpath));
    let from_path = Some(FoundBy::LibraryPath {
        element: OsString::from(format!("{root}/a3/")),
    });
    assert_eq!(
        rule(&process, "libb.so.1"),
        from_path,
        "libn is the first to ask, and has a DT_RUNPATH"
    );
    let not_pie = Process::start(&searcher, &world.path("bin/not-pie")).unwrap();
    assert_eq!(rule(&not_pie, "libb.so.1"), from_path);
    let json = serde_json::to_string(&from_path).unwrap();
    assert_eq!(
        json,
        format!(r#"{{"rule":"library-path","element":"{root}/a3/"}}"#)
    );
    let is_libr = |loaded: &&LoadedObject| loaded.name == "libr.so.1";
    let libr = process.loaded.iter().find(is_libr).unwrap();
    assert_eq!(libr.requester, Some(0));
    let before = process.loaded.len();
    let failure = process.open("libnone.so.1", None).unwrap_err();
    let LoadFailure::NotFound(miss) = failure else {
        panic!("{failure:?}")
    };
    assert_eq!(
        miss.tried[..2],
        [
            world.path("bin/../libs/libnone.so.1"),
            world.path("bin/../a2/libnone.so.1")
        ]
    );
    assert!(miss.tried.contains(&world.path("cwd/none/libnone.so.1")));
    assert_eq!(process.loaded.len(), before);
}

#[test]
fn a_version_that_is_lacking_keeps_a_program_from_starting() {
    let world = &*WORLD;
    let shop = &world.workshop;
    let build = |at: &str, script: &str, source: &str| {
        let script = shop.write(&format!("{at}.map"), script);
        let flag = format!("-Wl,--version-script,{}", script.display());
        shop.library(at, "libv.so.1", source, &[&flag]);
    };
    let both = "int one(void) { return 1; } int two(void) { return 2; }";
    build(
        "v2/libv.so.1",
        "V_1 { global: one; }; V_2 { global: two; } V_1;",
        both,
    );
    build("v1/libv.so.1", "V_1 { global: one; two; };", both);
    // A file that has no versions, but asks for some.
    let plain_both = format!("{both} int puts(const char *); void used(void) {{ puts(\"\"); }}");
    shop.library("v0/libv.so.1", "libv.so.1", &plain_both, &[]);
    let source = "int one(void); int two(void); int main(void) { return one() + two() - 3; }";
    let library = world.text("v2/libv.so.1");
    let program = shop.compile("bin/versioned", source, &[&library, "-Wl,-z,now"]);
    let host = world.host();
    let plain = Searcher::new(&host, MACHINE);
    for (directory, starts) in [("v2", true), ("v1", false), ("v0", true)] {
        let mut case = world.case(
            "versioned",
            &[("LD_LIBRARY_PATH", &format!("@/{directory}"))],
        );
        let output = world.command(&program, &case).output().unwrap();
        assert_eq!(output.status.success(), starts, "{output:?}");
        let searcher = plain.within(&case.env.iter().collect(), None);
        let process = Process::start(&searcher, &program).unwrap();
        assert_eq!(process.failure.is_none(), starts);
        if !starts {
            let (file, version) = (world.path("v1/libv.so.1"), "V_2".to_owned());
            assert_eq!(
                process.failure.as_ref(),
                Some(&LoadFailure::Version {
                    file,
                    version,
                    requester: 0
                })
            );
        }
        case.env.clear();
    }
}

#[test]
fn files_that_the_loader_cannot_start_are_recognised() {
    let world = &*WORLD;
    let host = world.host();
    let searcher = Searcher::new(&host, MACHINE);
    let fails = |below: &str| Process::start(&searcher, &world.path(below)).err();
    let source = "int main(void) { return 0; }";
    world.workshop.compile("bin/static", source, &["-static"]);
    world.workshop.compile(
        "bin/musl",
        source,
        &["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"],
    );
    world.workshop.compile(
        "bin/lost",
        source,
        &["-Wl,--dynamic-linker=/none/ld-linux.so.9"],
    );
    let lost = PathBuf::from("/none/ld-linux.so.9");
    let musl = PathBuf::from("/lib/ld-musl-x86_64.so.1");
    assert_eq!(fails("bin/static"), Some(LoadFailure::Static));
    assert_eq!(
        fails("bin/musl"),
        Some(LoadFailure::OtherLoader { interpreter: musl })
    );
    assert_eq!(
        fails("bin/lost"),
        Some(LoadFailure::NoInterpreter { interpreter: lost })
    );
    assert_eq!(
        fails("libs/liba.so.1"),
        Some(LoadFailure::Static),
        "a library asks for no loader"
    );
    assert!(matches!(
        fails("none-such"),
        Some(LoadFailure::Unreadable { .. })
    ));
    assert!(matches!(
        fails("loop/liba.so.1"),
        Some(LoadFailure::Unreadable { .. })
    ));
    assert!(matches!(
        fails("text/liba.so.1"),
        Some(LoadFailure::Bad {
            why: "not a library",
            ..
        })
    ));
    assert!(matches!(
        fails("machine/liba.so.1"),
        Some(LoadFailure::OtherMachine { .. })
    ));
}

#[test]
fn hostile_names_give_an_answer() {
    let world = &*WORLD;
    let mut data = fs::read(world.path("bin/plain")).unwrap();
    let find =
        |data: &[u8], what: &[u8]| data.windows(what.len()).position(|at| at == what).unwrap();
    let at = find(&data, b"libb.so.1\0");
    data[at..at + 9].copy_from_slice(b"\xff/..///$\xfe");
    fs::write(world.path("bin/hostile"), &data).unwrap();
    let host = world.host();
    let long = format!("{}/a1:{}", world.root.display(), "x/".repeat(30_000));
    let env: Environment = [("LD_LIBRARY_PATH", long)].into_iter().collect();
    let searcher = Searcher::new(&host, MACHINE).within(&env, None);
    let mut process = Process::start(&searcher, &world.path("bin/hostile")).unwrap();
    assert_eq!(process.missing.len(), 1, "{:?}", process.missing);
    for name in [
        "\u{0}",
        "/",
        "..",
        "a/../..",
        &"n".repeat(70_000),
        &"/".repeat(5000),
        "$ORIGIN",
        "${",
    ] {
        assert!(process.open(name, Some(usize::MAX)).is_err(), "{name:.20}");
    }
    for length in (0..data.len()).step_by(97) {
        fs::write(world.path("bin/hostile"), &data[..length]).unwrap();
        let _ = Process::start(&Searcher::new(&host, MACHINE), &world.path("bin/hostile"));
    }
}
