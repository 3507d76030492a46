//! Following under the real loader: whatever starts a program, the program gets its own libraries. Each row has its control,
//! the same command line without cudarun, which mixes two versions.

use std::collections::BTreeMap;
use std::path::Path;

use crate::pin::children::{ENVIRONMENTS, Environments, is_whole, site_of};
use crate::pin::real_loader::{Got, WORLD};
use crate::support::{Run, Workshop, bare, lacks};

const SHOW: &str = "import framework; framework.show()";

/// The name, and the command line: `$P` is a Python, `$C` is code for it, `$F` a file with that code.
const LAUNCHERS: &[(&str, &[&str])] = &[
    ("sh", &["sh", "-c", "\"$P\" -c \"$C\"; exit $?"]),
    ("bash", &["bash", "-c", "\"$P\" -c \"$C\"; exit $?"]),
    ("zsh", &["zsh", "-c", "\"$P\" -c \"$C\"; exit $?"]),
    ("fish", &["fish", "-c", "$P -c $C"]),
    ("sh", &["sh", "-c", "exec \"$P\" -c \"$C\""]),
    ("sh", &["sh", "-c", "printf '%s' \"$C\" | \"$P\" -"]),
    ("sh", &["sh", "-c", "\"$P\" - <\"$F\""]),
    (
        "sh",
        &["sh", "-c", "sh -c 'sh -c \"\\\"$P\\\" \\\"$F\\\"; :\"; :'"],
    ),
    ("bash", &["bash", "-c", "exec -a \"$P\" \"$P\" \"$F\""]),
    ("bash", &["bash", "-c", "f() { \"$P\" \"$F\"; }; f & wait"]),
    ("xargs", &["sh", "-c", "echo \"$F\" | xargs \"$P\""]),
    ("xargs", &["sh", "-c", "echo \"$P $F\" | xargs -n 2 env"]),
    ("find", &["sh", "-c", "find \"$F\" -exec \"$P\" {} \\;"]),
    (
        "make",
        &[
            "sh",
            "-c",
            "printf 'all:\\n\\t@\"$$P\" \"$$F\"\\n' | make -s -f -",
        ],
    ),
    (
        "awk",
        &["awk", "BEGIN { system(\"\\\"$P\\\" \\\"$F\\\"\") }"],
    ),
    (
        "perl",
        &["perl", "-e", "exit(system($ENV{P}, $ENV{F}) >> 8)"],
    ),
    ("env", &["sh", "-c", "env A=1 \"$P\" \"$F\""]),
    ("nohup", &["sh", "-c", "nohup \"$P\" \"$F\" 2>/dev/null"]),
    ("timeout", &["sh", "-c", "timeout 60 \"$P\" \"$F\""]),
    ("nice", &["sh", "-c", "nice -n 1 \"$P\" \"$F\""]),
    ("setsid", &["sh", "-c", "setsid -w \"$P\" \"$F\""]),
    ("stdbuf", &["sh", "-c", "stdbuf -oL \"$P\" \"$F\""]),
    (
        "script",
        &[
            "sh",
            "-c",
            "script -qec '\"$P\" \"$F\"' /dev/null | tr -d '\\r'",
        ],
    ),
    ("flock", &["sh", "-c", "flock /dev/null \"$P\" \"$F\""]),
    ("unshare", &["sh", "-c", "unshare -r \"$P\" \"$F\""]),
    (
        "setpriv",
        &["sh", "-c", "setpriv --no-new-privs \"$P\" \"$F\""],
    ),
    (
        "python3",
        &[
            "python3",
            "-c",
            "import os, subprocess; subprocess.run([os.environ['P'], os.environ['F']])",
        ],
    ),
    (
        "python3",
        &[
            "python3",
            "-c",
            "import os; os.execv(os.environ['P'], [os.environ['P'], os.environ['F']])",
        ],
    ),
    (
        "python3",
        &[
            "python3",
            "-c",
            "import os; os.posix_spawn(os.environ['P'], [os.environ['P'], os.environ['F']], os.environ) and os.wait()",
        ],
    ),
    (
        "node",
        &[
            "node",
            "-e",
            "require('child_process').spawnSync(process.env.P, [process.env.F], {stdio: 'inherit'})",
        ],
    ),
    ("busybox", &["busybox", "sh", "-c", "\"$P\" \"$F\"; :"]),
    ("dash", &["dash", "-c", "\"$P\" \"$F\"; :"]),
    (
        "ninja",
        &[
            "sh",
            "-c",
            "cd \"$D\" && printf 'rule run\\n  command = \"%s\" \"%s\"\\nbuild it: run\\n' \"$P\" \"$F\" >build.ninja && ninja --quiet",
        ],
    ),
    (
        "parallel",
        &["sh", "-c", "parallel --will-cite \"$P\" ::: \"$F\""],
    ),
    (
        "tmux",
        &[
            "sh",
            "-c",
            "tmux -S \"$D/tmux\" new-session -d \"'$P' '$F' >'$D/of tmux'; tmux -S '$D/tmux' wait -S done\" && tmux -S \"$D/tmux\" wait done; cat \"$D/of tmux\"",
        ],
    ),
    // The loader, started as a program.
    ("sh", &["sh", "-c", "\"$L\" \"$P\" \"$F\"; :"]),
    (
        "sh",
        &["sh", "-c", "\"$L\" --argv0 \"$P\" \"$P\" -c \"$C\"; :"],
    ),
    // Another name for the interpreter: a link, and a copy.
    (
        "bash",
        &[
            "bash",
            "-c",
            "cp -L \"$P\" \"${P%/*}/copied\"; \"${P%/*}/copied\" \"$F\"; :",
        ],
    ),
    (
        "bash",
        &[
            "bash",
            "-c",
            "ln -sf \"$P\" \"${P%/*}/linked\"; \"${P%/*}/linked\" \"$F\"; :",
        ],
    ),
    // From a descriptor, by pools of processes, and by threads of a pool.
    (
        "python3",
        &[
            "python3",
            "-c",
            "import os\nos.environ['PYTHONPATH'] = os.environ['S']\n\
             os.execve(os.open(os.environ['P'], os.O_RDONLY), [os.environ['P'], os.environ['F']], os.environ)",
        ],
    ),
    ("sh", &["sh", "-c", "\"$P\" -c \"$POOL\" spawn; :"]),
    ("sh", &["sh", "-c", "\"$P\" -c \"$POOL\" forkserver; :"]),
    ("sh", &["sh", "-c", "\"$P\" -c \"$FUTURES\"; :"]),
    (
        "sh",
        &[
            "sh",
            "-c",
            "PYTHONPATH=/usr/lib/python3/dist-packages \"$P\" -m pytest -q -s -n 2 -p no:cacheprovider \"$T\" >/dev/null; cat \"$D/of pytest\"",
        ],
    ),
    ("static", &["$D/static"]),
];

const POOL: &str = "import multiprocessing as m, sys, framework\n\
    if __name__ == '__main__':\n    m.set_start_method(sys.argv[1])\n    \
    p = m.Process(target=framework.show)\n    p.start()\n    p.join()\n    sys.exit(p.exitcode)\n";
const FUTURES: &str = "import multiprocessing as m, sys, framework\n\
    from concurrent.futures import ProcessPoolExecutor as E\n\
    if __name__ == '__main__':\n    \
    with E(1, mp_context=m.get_context('spawn')) as e: e.submit(framework.show).result()\n";

#[test]
fn whatever_starts_a_program_it_gets_its_own_libraries() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let foreign = WORLD.library_path(&["new"]);
    let workshop = Workshop::new();
    let file = workshop.write("show.py", SHOW);
    let test = "import contextlib, framework, os\ndef test_it():\n    \
        with open(os.environ['D'] + '/of pytest', 'w') as file, contextlib.redirect_stdout(file): framework.show()\n";
    let test = workshop.write("test_show.py", test);
    let starter = r#"#include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        int main(void) { int status;
            if (fork() == 0) execl(getenv("P"), getenv("P"), getenv("F"), (char *)0);
            return wait(&status) < 0 || status; }"#;
    workshop.compile("static", starter, &["-static"]);
    let directory = workshop.path("").display().to_string();
    let env = BTreeMap::from([
        ("LD_LIBRARY_PATH", foreign.clone()),
        ("PATH", "/usr/bin:/bin".to_owned()),
        ("P", e.a.display().to_string()),
        ("C", SHOW.to_owned()),
        ("F", file.display().to_string()),
        ("D", directory.clone()),
        ("T", test.display().to_string()),
        ("S", site_of(&e.a).display().to_string()),
        ("L", loader().to_owned()),
        ("POOL", POOL.to_owned()),
        ("FUTURES", FUTURES.to_owned()),
    ]);
    let mut tried = 0;
    for (name, words) in LAUNCHERS {
        if *name != "static" && lacks(name) {
            continue;
        }
        let words: Vec<String> = words
            .iter()
            .map(|word| word.replacen("$D/static", &format!("{directory}/static"), 1))
            .collect();
        let rest: Vec<&str> = words[1..].iter().map(String::as_str).collect();
        let alone = bare(Path::new(&words[0]), &rest, &env);
        let control = Got::read(&String::from_utf8_lossy(&alone.stdout));
        assert!(
            control.directories.len() > 1,
            "{words:?}: {control:?} {alone:?}"
        );
        let mut run = Run::new(&words);
        for (name, value) in &env {
            run = run.env(name, value);
        }
        let followed = Got::read(&run.any_stdout().check());
        assert!(
            is_whole(&followed) && followed.version == 90100,
            "{words:?}: {followed:?}"
        );
        tried += 1;
    }
    assert!(tried > 30, "{tried}");
}

/// The dynamic loader of this machine.
fn loader() -> &'static str {
    if cfg!(target_arch = "aarch64") {
        "/lib/ld-linux-aarch64.so.1"
    } else {
        "/lib64/ld-linux-x86-64.so.2"
    }
}

/// Runs a Python with cudarun, following, and reads the maps of it and of its children.
fn followed(program: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Vec<Got> {
    let words = [&[program.to_str().unwrap()], arguments].concat();
    let mut run = Run::new(words);
    for (name, value) in env {
        run = run.env(name, value);
    }
    Environments::read(&run.any_stdout().check())
}

/// Each gets its own libraries, however deep, also where the parent got a plan in the environment.
#[test]
fn environments_that_start_each_other_each_get_their_own() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let parent = e.parent.to_str().unwrap();
    let (a, b) = (e.a.to_str().unwrap(), e.b.to_str().unwrap());
    let show: [&str; 2] = ["-c", SHOW];
    let foreign = [WORLD.library_path(&["new"]), WORLD.library_path(&["old"])];
    for (first, second, versions) in [(a, b, [90100, 91002]), (b, a, [91002, 90100])] {
        for path in foreign.iter().map(String::as_str).chain([""]) {
            for mode in ["audit", "view", ""] {
                let arguments = [&[parent, second, parent, first][..], &show].concat();
                let mut env = vec![("LD_LIBRARY_PATH", path)];
                if !mode.is_empty() {
                    env.push(("CUDARUN_PIN_MODE", mode));
                }
                let got = followed(Path::new(first), &arguments, &env);
                let found: Vec<i32> = got.iter().map(|got| got.version).collect();
                assert_eq!(
                    found,
                    [versions[0], versions[1], versions[0]],
                    "{first} {path} {mode}: {got:?}"
                );
                assert!(got.iter().all(is_whole), "{first} {path} {mode}: {got:?}");
            }
        }
        let arguments = [&[parent, second][..], &show].concat();
        let control = Environments::without(Path::new(first), &arguments, &foreign[0]);
        let control_too = Environments::without(Path::new(first), &arguments, &foreign[1]);
        assert!(
            [control, control_too]
                .iter()
                .flatten()
                .any(|got| !is_whole(got)),
            "the control"
        );
    }
}

/// Environments that differ in PYTHONPATH alone have one interpreter, called by one name.
#[test]
fn environments_that_differ_in_pythonpath_alone_each_get_their_own() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let python = crate::pin::children::system_python().unwrap();
    let site = |python| crate::pin::children::site_of(python).display().to_string();
    let (a, b) = (site(&e.a), site(&e.b));
    let code = "import os, subprocess, sys, framework\nframework.show()\nprint('child', flush=True)\n\
        os.environ['PYTHONPATH'] = os.environ['NEXT']\n\
        subprocess.check_call([sys.executable, '-c', 'import framework; framework.show()'])";
    let foreign = WORLD.library_path(&["new"]);
    for (first, second, versions) in [(&a, &b, [90100, 91002]), (&b, &a, [91002, 90100])] {
        let env = [
            ("LD_LIBRARY_PATH", foreign.as_str()),
            ("PYTHONPATH", first),
            ("NEXT", second),
        ];
        let got = followed(&python, &["-c", code], &env);
        let found: Vec<i32> = got.iter().map(|got| got.version).collect();
        assert_eq!(found, versions, "{got:?}");
        assert!(got.iter().all(is_whole), "{got:?}");
    }
}

/// Programs that start themselves again, until the environment is as they want it, do so as often as without cudarun.
#[test]
fn programs_that_start_themselves_again_end_as_they_do_alone() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let foreign = WORLD.library_path(&["new"]);
    let directory = tempfile::tempdir().unwrap();
    // Counts its starts in a file, so that nothing but the path changes.
    let until_own_path = "import os, sys\n\
        with open(sys.argv[1], 'a') as file: file.write('x')\n\
        assert os.path.getsize(sys.argv[1]) < 50\n\
        if os.environ.get('LD_LIBRARY_PATH') != '/own':\n    \
        os.environ['LD_LIBRARY_PATH'] = '/own'\n    \
        os.execv(sys.executable, [sys.executable, '-c', sys.orig_argv[2], sys.argv[1]])\n\
        print(os.path.getsize(sys.argv[1]))\n";
    let fifty_times = "import os, sys\nn = int(os.environ.get('N', 0))\n\
        os.environ['N'] = str(n + 1)\n\
        if n < 50:\n    os.execv(sys.executable, [sys.executable, '-c', sys.orig_argv[2]])\nprint(n)\n";
    for mode in ["audit", "view"] {
        let count = directory.path().join(mode);
        let count = count.to_str().unwrap();
        let run = |code: &str| {
            Run::new([e.a.to_str().unwrap(), "-c", code, count])
                .env("CUDARUN_PIN_MODE", mode)
                .env("LD_LIBRARY_PATH", &foreign)
                .any_stdout()
                .check()
        };
        assert_eq!(run(fifty_times), "50\n");
        // One start more than alone: the view comes first in the path, until the same start is asked for again.
        let starts = if mode == "view" { "3\n" } else { "2\n" };
        assert_eq!(run(until_own_path), starts, "{mode}");
    }
}

/// What cannot be replaced, or is not to be, goes on.
#[test]
fn a_process_that_is_not_followed_goes_on() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let foreign = WORLD.library_path(&["new"]);
    let run = |script: &str| {
        let run = Run::new(["sh", "-c", script])
            .env("LD_LIBRARY_PATH", &foreign)
            .env("P", e.a.to_str().unwrap());
        Got::read(&run.any_stdout().check())
    };
    let show = "\"$P\" -c 'import framework; framework.show()'; exit $?";
    assert!(is_whole(&run(show)), "the neighbour");
    // Switched off below, without the loader's module, without the variable of the tree, or with one that is made up.
    for change in [
        "export CUDARUN_FOLLOW=off",
        "unset LD_AUDIT",
        "unset CUDARUN_TREE",
        "LD_AUDIT=; export LD_AUDIT",
    ] {
        let got = run(&format!("{change}; {show}"));
        assert!(got.directories.len() > 1, "{change}: {got:?}");
    }
    for tree in [
        "",
        "x",
        "1.2.3.4.5/",
        "$$.0.0.0.0/0:0/A|=|-",
        "ffffffffffffffffff",
    ] {
        let got = run(&format!("export CUDARUN_TREE={tree:?}; {show}"));
        assert!(tree.is_empty() || is_whole(&got), "{tree}: {got:?}");
    }
}

/// Python finds its environment by the name that it is called by, whichever file was executed.
#[test]
fn the_name_of_a_process_decides_its_environment() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let foreign = WORLD.library_path(&["old"]);
    let script = "exec -a \"$B\" \"$A\" -c 'import framework; framework.show()'";
    let env = BTreeMap::from([
        ("LD_LIBRARY_PATH", foreign.clone()),
        ("A", e.a.display().to_string()),
        ("B", e.b.display().to_string()),
    ]);
    let alone = bare(Path::new("bash"), &["-c", script], &env);
    let control = Got::read(&String::from_utf8_lossy(&alone.stdout));
    assert!(control.directories.len() > 1, "{control:?}");
    let mut run = Run::new(["bash", "-c", script]);
    for (name, value) in &env {
        run = run.env(name, value);
    }
    let got = Got::read(&run.any_stdout().check());
    assert!(is_whole(&got) && got.version == 91002, "{got:?}");
}

/// A program that embeds Python is none by its name.
#[test]
fn a_program_that_embeds_python_is_followed() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let workshop = Workshop::new();
    let Some(python) = crate::pin::children::system_python() else {
        return;
    };
    let prefix = python.ancestors().nth(2).unwrap();
    let name = python.file_name().unwrap().to_str().unwrap();
    let library = [prefix.join("lib"), "/usr/lib/x86_64-linux-gnu".into()]
        .into_iter()
        .map(|directory| directory.join(format!("lib{name}.so.1.0")))
        .find(|path| path.exists());
    let Some(library) = library else {
        return crate::support::skipped("there is no library of Python");
    };
    let source = "int Py_BytesMain(int, char **); int main(int argc, char **argv) { return Py_BytesMain(argc, argv); }";
    let rpath = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
    let program = workshop.compile("simulation", source, &[library.to_str().unwrap(), &rpath]);
    let site = site_of(&e.a).display().to_string();
    let env = BTreeMap::from([
        ("LD_LIBRARY_PATH", WORLD.library_path(&["new"])),
        ("PYTHONPATH", site),
        ("PYTHONHOME", prefix.display().to_string()),
        ("E", program.display().to_string()),
    ]);
    let script = "\"$E\" -c 'import framework; framework.show()'; exit $?";
    let alone = bare(Path::new("sh"), &["-c", script], &env);
    let control = Got::read(&String::from_utf8_lossy(&alone.stdout));
    assert!(control.directories.len() > 1, "{control:?} {alone:?}");
    let mut run = Run::new(["sh", "-c", script]);
    for (name, value) in &env {
        run = run.env(name, value);
    }
    assert!(is_whole(&Got::read(&run.any_stdout().check())));
}

/// What cudarun has set for a program is taken back for what it starts, also where that is not followed.
#[test]
fn a_process_that_is_not_followed_inherits_no_libraries() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let (python, parent) = (e.a.to_str().unwrap(), e.parent.to_str().unwrap());
    let foreign = WORLD.library_path(&["new"]);
    let show = "echo \"<$LD_LIBRARY_PATH><$LD_PRELOAD>\"";
    for (path, mode) in [
        (foreign.as_str(), "view"),
        ("", "view"),
        (&foreign, "audit"),
    ] {
        let words = [python, parent, "sh", "-c", show];
        let run = Run::new(words)
            .env("CUDARUN_PIN_MODE", mode)
            .env("LD_LIBRARY_PATH", path);
        let shown = run.any_stdout().check();
        assert_eq!(
            shown.lines().last().unwrap(),
            format!("<{path}><>"),
            "{mode}"
        );
    }
    // What the program itself adds stays.
    let code = "import framework, os, subprocess\nos.environ['LD_LIBRARY_PATH'] += ':/mine'\n\
        subprocess.check_call(['sh', '-c', 'echo $LD_LIBRARY_PATH'])";
    let run = Run::new([python, "-c", code])
        .env("CUDARUN_PIN_MODE", "view")
        .env("LD_LIBRARY_PATH", &foreign);
    assert_eq!(run.any_stdout().check(), format!("{foreign}:/mine\n"));
    let control = Run::new(["--no-follow", python, "-c", code])
        .env("CUDARUN_PIN_MODE", "view")
        .env("LD_LIBRARY_PATH", &foreign)
        .any_stderr();
    assert!(
        control.any_stdout().check().contains("/views/"),
        "the control"
    );
}

/// Options of the run form bind each process that uses the family, and no launcher.
#[test]
fn what_a_person_asks_for_holds_for_all_that_is_started() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let run = |options: &[&str], python: &Path| {
        let script = "\"$P\" -c 'import framework; framework.show()'; echo \"status $?\"";
        let words = [options, &["sh", "-c", script]].concat();
        Run::new(words)
            .env("P", python.to_str().unwrap())
            .any_stdout()
    };
    let wants = ["--require", "cudnn>=9.5"];
    let refused = run(&wants, &e.a)
        .stderr_contains(&[
            "which `sh` (",
            "does not start",
            "error: no cuDNN here fits",
            "`CUDARUN_REQUIRE`",
        ])
        .check();
    assert_eq!(refused, "status 125\n");
    for options in [
        &wants[..],
        &["--pin", "cudnn=9.10"],
        &["-q"],
        &["--pin-mode=view"],
    ] {
        let got = run(options, &e.b).check();
        assert!(
            got.starts_with("91002\n") && got.ends_with("status 0\n"),
            "{options:?}: {got}"
        );
    }
    // A program that does not use the family.
    let words = [
        "--require",
        "cudnn>=9.5",
        "sh",
        "-c",
        "python3 -c 'print(1)'; true",
    ];
    assert_eq!(Run::new(words).any_stdout().check(), "1\n");
    // Not below `--no-follow`.
    let got = run(&["--no-follow"], &e.a).check();
    assert!(got.starts_with("90100\n"), "{got}");
    let shown = run(&["-v"], &e.b).any_stderr().output_of_both();
    let lines: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains("which `sh`"))
        .collect();
    assert_eq!(lines.len(), 1, "{shown}");
}

/// Nobody has typed cudarun for these: what is wrong with settings does not stop them.
#[test]
fn settings_that_cannot_be_used_stop_no_process_below() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let workshop = Workshop::new();
    let run = |text: &str| {
        workshop.write("project/.cudarun.toml", text);
        let script = "cd \"$D\" && \"$P\" -c 'import framework; framework.show()'";
        Run::new(["sh", "-c", script])
            .env("P", e.a.to_str().unwrap())
            .env("D", workshop.path("project").to_str().unwrap())
            .any_stdout()
    };
    for text in [
        "[requires\n",
        "[env]\nFOO = \"bar\"\n",
        "nonsense = 1\n",
        "[requires]\ncudnn = 9\n",
    ] {
        let got = Got::read(&run(text).check());
        assert!(is_whole(&got), "{text}: {got:?}");
    }
    // A demand that can be read, and is not met, does.
    run("[requires]\ncudnn = \">=9.5\"\n")
        .status(125)
        .stderr_contains(&["error: no cuDNN here fits `.cudarun.toml:2`"])
        .check();
}

/// A native program that opens its library by itself is known by the plan that it was given.
#[test]
fn a_program_that_starts_itself_again_is_known_by_its_plan() {
    let workshop = Workshop::new();
    let source = crate::pin::real_loader::PROGRAM.replace(
        "int main(void)\n{",
        "#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\nint main(void)\n{\n\
         if (!getenv(\"AGAIN\")) { setenv(\"AGAIN\", \"1\", 1);\n\
         if (fork() == 0) execl(\"/proc/self/exe\", \"again\", (char *)0);\n\
         return wait(0) < 0; }",
    );
    let library = WORLD.path("old").join("libcudnn.so.9");
    let rpath = format!("-Wl,-rpath,{}", WORLD.path("old").display());
    let flags = ["-Wl,--disable-new-dtags", &rpath, library.to_str().unwrap()];
    let program = workshop.compile("again", &source, &flags);
    let path = WORLD.library_path(&["torn"]);
    let env = BTreeMap::from([("LD_LIBRARY_PATH", path.clone())]);
    let alone = bare(&program, &[], &env);
    let control = Got::read(&String::from_utf8_lossy(&alone.stdout));
    assert!(control.directories.len() > 1, "{control:?}");
    let run = Run::new([&program]).env("LD_LIBRARY_PATH", &path);
    assert!(is_whole(&Got::read(&run.any_stdout().check())));
}

/// `doctor` knows whether a shell follows, and what is gone.
#[test]
fn doctor_says_whether_a_shell_follows() {
    let code = |set: &str| {
        let script = format!("{set}; \"$C\" doctor --json; :");
        let run = Run::new(["--no-follow", "sh", "-c", &script])
            .env("C", crate::support::CUDARUN)
            .any_stderr();
        let value: serde_json::Value = serde_json::from_str(&run.any_stdout().check()).unwrap();
        let findings = value["findings"].as_array().unwrap();
        let codes = findings
            .iter()
            .filter_map(|finding| finding["code"].as_str());
        codes
            .filter(|code| code.starts_with("follow"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(code("true"), "");
    assert_eq!(code("eval \"$(\"$C\" export --follow)\""), "followed");
    let gone = "export LD_AUDIT=/nowhere.so CUDARUN_TREE='//LD_AUDIT|=/nowhere.so|-'";
    assert_eq!(code(gone), "follow-broken");
}

/// The lines for a start-up file do nothing twice, and nothing where the module is not.
#[test]
fn a_shell_follows_by_the_lines_of_export() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let foreign = WORLD.library_path(&["new"]);
    let run = |shell: &str, dialect: &str, script: &str| {
        let script = script.replace(
            "LINES",
            &format!("\"$C\" export --follow --shell {dialect}"),
        );
        Run::new(["-q", "--no-follow", shell, "-c", &script])
            .env("C", crate::support::CUDARUN)
            .env("P", e.a.to_str().unwrap())
            .env("LD_LIBRARY_PATH", &foreign)
            .any_stdout()
            .check()
    };
    let show = "\"$P\" -c 'import framework; framework.show()'";
    for (shell, dialect) in [
        ("sh", "sh"),
        ("bash", "direnv"),
        ("zsh", "sh"),
        ("fish", "fish"),
    ] {
        if lacks(shell) {
            continue;
        }
        let set = match shell {
            "fish" => "LINES | source; LINES | source; echo $LD_AUDIT >&1; ".to_owned(),
            _ => "watch_file() { :; }; eval \"$(LINES)\"; eval \"$(LINES)\"; echo \"$LD_AUDIT\"; "
                .to_owned(),
        };
        let told = run(shell, dialect, &format!("{set}{show}"));
        let (audit, told) = told.split_once('\n').unwrap();
        assert!(
            audit.ends_with(".so") && !audit.contains(':'),
            "{shell}: {audit}"
        );
        assert!(is_whole(&Got::read(told)), "{shell}: {told}");
        let control = Got::read(&run(shell, dialect, show));
        assert!(control.directories.len() > 1, "{shell}: {control:?}");
    }
    let module = run("sh", "module", "LINES");
    assert!(
        module.starts_with("#%Module\n") && module.contains("[file readable $module]"),
        "{module}"
    );
    let unit = run("sh", "systemd", "LINES");
    assert!(unit.starts_with("Environment=\"LD_AUDIT=/"), "{unit}");
}

/// The plan for a program inside a launcher holds for that program, whatever it is known by.
#[test]
fn a_pinned_program_inside_a_launcher_gets_its_plan() {
    let workshop = Workshop::new();
    let source = r#"#include <dlfcn.h>
        #include <stdio.h>
        int main(void) { void *h = dlopen("libcudnn.so.9", RTLD_NOW);
            if (!h) return 3;
            size_t (*version)(void) = (size_t (*)(void))dlsym(h, "cudnnGetVersion");
            printf("%zu\n", version()); return 0; }"#;
    let program = workshop.compile("opens", source, &["-ldl"]);
    let program = program.to_str().unwrap();
    let old = WORLD.path("old").display().to_string();
    let pin = ["--also", &old, "--pin", "cudnn=9.1"];
    let run = |words: &[&str]| {
        Run::new([&pin[..], words].concat())
            .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
            .any_stdout()
    };
    for words in [&[program][..], &["nice", program], &["env", "A=1", program]] {
        assert_eq!(run(words).check(), "90100\n", "{words:?}");
    }
    let script = "echo \"$X\" | \"$C\" shell --also \"$OLD\" --pin cudnn=9.1 \"$X\"";
    let shell = Run::new(["-q", "--no-follow", "sh", "-c", script])
        .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
        .env("C", crate::support::CUDARUN)
        .env("OLD", &old)
        .env("X", program)
        .env("SHELL", "/bin/bash")
        .any_stdout();
    assert_eq!(shell.check(), "90100\n");
}

/// Options about libraries are not about a launcher.
#[test]
fn options_bind_what_a_launcher_starts_and_not_the_launcher() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let workshop = Workshop::new();
    workshop.write(
        "Makefile",
        "all:\n\t@\"$(P)\" -c 'import framework; framework.show()'\n",
    );
    let directory = workshop.path("");
    let run = |options: &[&str], python: &Path| {
        let words = [options, &["make", "-s", "-C", directory.to_str().unwrap()]].concat();
        Run::new(words)
            .env("P", python.to_str().unwrap())
            .any_stdout()
            .any_stderr()
    };
    for options in [
        &["--pin", "cudnn=9.10"][..],
        &["--require", "cudnn>=9.5"],
        &["--uses", "framework"],
    ] {
        let got = run(options, &e.b).check();
        assert!(got.starts_with("91002\n"), "{options:?}: {got}");
    }
    run(&["--pin", "cudnn=9.10"], &e.a).status(2).check();
    // An installed command of Python, in an environment without any package that uses a GPU.
    let python = crate::pin::children::system_python().unwrap();
    let command = workshop.path("tools/bin/flow");
    std::fs::create_dir_all(command.parent().unwrap()).unwrap();
    let source = "import importlib, sys\n\
        importlib.import_module('subprocess').check_call([sys.argv[1], '-c', 'import framework; framework.show()'])";
    std::fs::write(&command, source).unwrap();
    let words = ["-I", "-S", command.to_str().unwrap(), e.b.to_str().unwrap()];
    for options in [
        &["--pin", "cudnn=9.10"][..],
        &["--require", "cudnn>=9.5"],
        &["--uses", "framework"],
    ] {
        let got = Run::new([options, &[python.to_str().unwrap()], &words].concat());
        let got = got.any_stdout().any_stderr().check();
        assert!(got.starts_with("91002\n"), "{options:?}: {got}");
    }
    // Launchers that are not looked into start others, too; also a static one.
    for launcher in [
        &["ionice", "-c3"][..],
        &["busybox", "env"],
        &["chrt", "-o", "0"],
    ] {
        if lacks(launcher[0]) {
            continue;
        }
        for options in [
            &["--require", "cudnn>=9.5"][..],
            &["--uses", "framework"],
            &["--pin", "cudnn=9.10"],
        ] {
            let show = [e.b.to_str().unwrap(), "-c", SHOW];
            let got = Run::new([options, launcher, &show].concat());
            let got = got.any_stdout().any_stderr().check();
            assert!(
                got.starts_with("91002\n"),
                "{launcher:?} {options:?}: {got}"
            );
        }
    }
    // A package that is nowhere is a mistake, also where the script starts others, and binds nothing below.
    let starts = workshop.write(
        "starts.py",
        "import subprocess, sys\nsubprocess.check_call([sys.argv[1], '-c', 'import framework; framework.show()'])",
    );
    let a = e.a.to_str().unwrap();
    Run::new(["--uses", "framwork", a, starts.to_str().unwrap(), a])
        .status(125)
        .any_stderr()
        .check();
    let below = Run::new([
        "sh",
        "-c",
        "\"$P\" -c 'import framework; framework.show()'; :",
    ])
    .env("P", a)
    .env("CUDARUN_USES", "framwork")
    .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]));
    assert!(is_whole(&Got::read(&below.any_stdout().check())));
    // A script that only lies in a directory of this name is bound.
    let job = workshop.write("tools/bin/job.py", "print(1)");
    let words = ["--require", "cudnn>=99", python.to_str().unwrap()];
    Run::new([&words[..], &[job.to_str().unwrap()]].concat())
        .status(125)
        .any_stderr()
        .check();
    // A program that starts no other is bound itself.
    Run::new(["--pin", "cudnn=9.10", "true"])
        .status(125)
        .any_stderr()
        .check();
    Run::new(["--uses", "framework", "true"])
        .status(125)
        .any_stderr()
        .check();
}

/// `0` and `false` mean no, in the module as in a setting.
#[test]
fn following_is_switched_off_by_any_word_for_no() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let run = |word: &str| {
        let script = format!(
            "export CUDARUN_FOLLOW={word}; \"$P\" -c 'import framework; framework.show()'; :"
        );
        let run = Run::new(["sh", "-c", &script])
            .env("P", e.a.to_str().unwrap())
            .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]));
        Got::read(&run.any_stdout().check())
    };
    for word in ["off", "0", "false", "no"] {
        assert!(run(word).directories.len() > 1, "{word}");
    }
    for word in ["on", "1", "''"] {
        assert!(is_whole(&run(word)), "{word}");
    }
}

#[path = "../src/audit/names.rs"]
#[allow(dead_code, reason = "the module asks more of it")]
mod names;

/// The module knows the names of the families' files.
#[test]
fn the_module_knows_the_families() {
    let families = &cudarun::catalog::catalog().families;
    for member in families.iter().flat_map(|family| &family.members) {
        let file = format!("{}.so.1", member.replace('*', "x"));
        assert!(names::is_library(file.as_bytes()), "{member}");
    }
    for other in [
        "libc.so.6",
        "libcurl.so.4",
        "libcudnn",
        "libcudart",
        "cudnn.so",
    ] {
        assert!(!names::is_library(other.as_bytes()), "{other}");
    }
    assert!(names::is_library(b"libpython3.11.so.1.0"));
    assert!(names::is_loader(b"ld-linux-x86-64.so.2") && !names::is_loader(b"ld"));
    assert!(names::opens_at_run_time(b"julia") && !names::opens_at_run_time(b"julia2"));
}

/// What a process inherits, it has after it was replaced as before.
#[test]
fn a_followed_process_has_the_state_that_it_was_started_with() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let workshop = Workshop::new();
    let code = "import ctypes, os, resource, sys\n\
        lines = open('/proc/self/status').read().splitlines()\n\
        keep = ('Name', 'Umask', 'Sig', 'Shd', 'NoNewPrivs', 'Seccomp', 'Cpus_allowed', 'Cap')\n\
        print([line for line in lines if line.startswith(keep) and not line.startswith(('SigQ', 'SigIgn'))])\n\
        # Other tests in the process that starts this one may have it ignore signal 32.\n\
        print([int(line.split()[1], 16) & 0x7fffffff for line in lines if line.startswith('SigIgn')])\n\
        print(open('/proc/self/limits').read(), open('/proc/self/cmdline').read())\n\
        signal = ctypes.c_int()\n\
        ctypes.CDLL(None).prctl(2, ctypes.byref(signal))\n\
        print(signal.value, os.nice(0), sorted(os.listdir('/proc/self/fd'))[:12], sys.flags, sys.orig_argv)\n\
        print(os.getpid() == os.getpgrp(), os.getppid() == int(os.environ['PARENT']))\n";
    let state = workshop.write("state.py", code);
    let script = "PARENT=$$; export PARENT; ulimit -S -n 64; ulimit -S -c 0; umask 27; trap '' USR1 PIPE; \
        exec 7</dev/null; nice -n 3 setpriv --pdeathsig TERM --no-new-privs \"$P\" -u \"$F\" a b; :";
    let env = BTreeMap::from([
        ("PATH", "/usr/bin:/bin".to_owned()),
        ("LD_LIBRARY_PATH", WORLD.library_path(&["new"])),
        ("P", e.a.display().to_string()),
        ("F", state.display().to_string()),
    ]);
    let alone = bare(Path::new("bash"), &["-c", script], &env);
    let alone = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert!(alone.contains("\n15 "), "{alone}");
    let mut run = Run::new(["bash", "-c", script]);
    for (name, value) in &env {
        run = run.env(name, value);
    }
    assert_eq!(run.any_stdout().check(), alone);
    // The end by a signal, and each exit status.
    for (code, status) in [
        ("os.kill(os.getpid(), 9)", 137),
        ("sys.exit(7)", 7),
        ("os.abort()", 134),
    ] {
        let script = format!("ulimit -c 0; \"$P\" -c 'import framework, os, sys; {code}'; exit $?");
        let run = Run::new(["bash", "-c", &script])
            .env("P", e.a.to_str().unwrap())
            .any_stderr();
        run.status(status).check();
    }
}

/// Debuggers and sanitizers work on what is followed.
#[test]
fn tools_that_watch_a_process_watch_a_followed_one() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let workshop = Workshop::new();
    let source = "int cudaFree(void *); int main(int argc, char **argv) { return argc > 1 ? argv[1][argc] : cudaFree(0); }";
    let library = workshop.library(
        "lib/libcudart.so.12",
        "libcudart.so.12",
        "int cudaFree(void *p) { return p != 0; }",
        &[],
    );
    let rpath = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
    let flags = [
        "-fsanitize=address",
        "-Wl,--no-as-needed",
        library.to_str().unwrap(),
        &rpath,
    ];
    let checked = workshop.compile("checked", source, &flags);
    let python = e.a.to_str().unwrap();
    let show = "import framework; framework.show()";
    let rows: [(&str, &str); 4] = [
        ("gdb", "gdb -q -batch -nx -ex run --args \"$P\" -c \"$C\""),
        ("strace", "strace -f -o /dev/null \"$P\" -c \"$C\""),
        ("ltrace", "ltrace -o /dev/null -e nothing \"$P\" -c \"$C\""),
        ("sh", "\"$A\" && \"$P\" -c \"$C\""),
    ];
    for (tool, script) in rows {
        if lacks(tool) {
            continue;
        }
        let run = Run::new(["sh", "-c", &format!("{script}; exit $?")])
            .env("P", python)
            .env("C", show)
            .env("A", checked.to_str().unwrap())
            .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
            .any_stderr();
        let told = run.any_stdout().check();
        let from = told
            .find("90100")
            .unwrap_or_else(|| panic!("{tool}: {told}"));
        let got = Got::read(told[from..].split("[Inferior").next().unwrap());
        assert!(is_whole(&got), "{tool}: {got:?}");
    }
}

/// A trace shows each program of the tree with what it mapped, and cudarun nowhere.
#[test]
fn a_trace_covers_the_tree() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let workshop = Workshop::new();
    let report = workshop.path("report.json");
    let script = "\"$A\" -c \"$C\" && \"$B\" -c \"$C\"; exit $?";
    let words = [
        "trace",
        "--json",
        "-o",
        report.to_str().unwrap(),
        "sh",
        "-c",
        script,
    ];
    let run = Run::new(words)
        .env("A", e.a.to_str().unwrap())
        .env("B", e.b.to_str().unwrap())
        .env("C", SHOW)
        .env("LD_LIBRARY_PATH", WORLD.library_path(&["torn"]));
    let versions: Vec<String> = run
        .any_stdout()
        .check()
        .lines()
        .filter(|line| !line.starts_with('/'))
        .map(str::to_owned)
        .collect();
    assert_eq!(versions, ["90100", "91002"]);
    let report = crate::predict::trace::read(&report);
    let images = report["images"].as_array().unwrap();
    let seen: Vec<(usize, bool)> = images
        .iter()
        .map(|image| {
            let files = image["files"].as_array().unwrap();
            let program = image["program"].as_str().unwrap();
            (files.len(), program.ends_with("/cudarun"))
        })
        .collect();
    assert_eq!(seen, [(0, false), (8, false), (8, false)], "{images:#?}");
}

/// A process that cannot be decided starts as it was called, and not with what was set for the one that starts it.
#[test]
fn a_process_that_cannot_be_decided_gets_nothing_of_its_parents() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let workshop = Workshop::new();
    workshop.write("broken/.cudarun.toml", "[requires\n");
    let broken = workshop.path("broken");
    let foreign = WORLD.library_path(&["new"]);
    let code = "import framework, os, subprocess\nframework.show()\nprint('child', flush=True)\n\
        subprocess.check_call([os.environ['B'], '-c', os.environ['C']], cwd=os.environ['D'])";
    for mode in ["audit", "view"] {
        let run = |directory: &Path| {
            let run = Run::new([e.a.to_str().unwrap(), "-c", code])
                .env("CUDARUN_PIN_MODE", mode)
                .env("LD_LIBRARY_PATH", &foreign)
                .env("B", e.b.to_str().unwrap())
                .env("C", SHOW)
                .env("D", directory.to_str().unwrap());
            Environments::read(&run.any_stdout().any_stderr().check())
        };
        let env = BTreeMap::from([("LD_LIBRARY_PATH", foreign.clone())]);
        let alone = bare(&e.b, &["-c", SHOW], &env);
        let alone = Got::read(&String::from_utf8_lossy(&alone.stdout));
        assert_eq!(run(&broken)[1], alone, "{mode}");
    }
}

/// What a process says of itself, and what tools say of files, is as without cudarun.
#[test]
fn names_of_processes_and_of_their_libraries_are_as_alone() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let workshop = Workshop::new();
    std::os::unix::fs::symlink("/usr/sbin/chroot", workshop.path("box")).unwrap();
    let names =
        "import sys; print(sys.orig_argv, sys.executable, open('/proc/self/cmdline').read())";
    let path = format!("{}:/usr/bin:/bin", e.a.parent().unwrap().display());
    let box_ = workshop.path("box").display().to_string();
    let env = BTreeMap::from([("PATH", path), ("N", names.to_owned()), ("B", box_)]);
    let mut scripts = vec![
        "python3 -c \"$N\"; :",
        "exec -a worker python3 -c \"$N\"",
        "exec -a '' python3 -c \"$N\"",
        "ldd /bin/ls | sed 's/(.*//'; :",
        "LD_TRACE_LOADED_OBJECTS=1 python3 | sed 's/(.*//'; :",
    ];
    if crate::support::is_root() {
        // A link to a program that changes the root is one, too.
        scripts.push("timeout 20 \"$B\" / sh -c 'echo \"<$LD_AUDIT>\"'; :");
    }
    for script in scripts {
        let alone = bare(Path::new("bash"), &["-c", script], &env);
        let mut run = Run::new(["bash", "-c", script]);
        for (name, value) in &env {
            run = run.env(name, value);
        }
        let alone = String::from_utf8_lossy(&alone.stdout);
        assert!(!alone.is_empty(), "{script}");
        assert_eq!(run.any_stdout().check(), alone, "{script}");
    }
}

/// Without following, the module is for the process that cudarun becomes: what that starts is as it would be without cudarun.
#[test]
fn without_following_the_module_is_for_one_process() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let foreign = WORLD.library_path(&["new"]);
    let parent = e.parent.to_str().unwrap();
    let again = [parent, e.a.to_str().unwrap(), "-c", SHOW];
    let alone = Environments::without(&e.a, &again, &foreign);
    assert!(alone.len() == 2 && !alone.iter().any(is_whole), "{alone:?}");
    let got = Environments::with(&["--no-follow"], &e.a, &again, &foreign);
    assert!(is_whole(&got[0]) && got[1] == alone[1], "{got:?}");
    let followed = Environments::with(&[], &e.a, &again, &foreign);
    assert!(followed.iter().all(is_whole), "the control: {followed:?}");
    // A process that only starts the program is another one.
    let wrapped = [e.a.to_str().unwrap(), "-c", SHOW];
    let explained = |options: &[&str], words: &[&str]| {
        let run = Run::new([&["explain", "--json"], options, words].concat());
        run.env("LD_LIBRARY_PATH", &foreign).json()["mode"].clone()
    };
    let workshop = Workshop::new();
    let launcher = workshop.path("torchrun");
    let source = format!(
        "#!{}\nimport subprocess, sys\nsubprocess.check_call([sys.executable, *sys.argv[1:]])\n",
        e.a.display()
    );
    std::fs::write(&launcher, source).unwrap();
    std::fs::set_permissions(
        &launcher,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let train = workshop.write("train.py", SHOW);
    let launched = [launcher.to_str().unwrap(), train.to_str().unwrap()];
    for (words, mode) in [
        (&wrapped[..], "audit"),
        (&[&["env"], &wrapped[..]].concat(), "view"),
        (&launched, "view"),
    ] {
        assert_eq!(explained(&["--no-follow"], words), mode, "{words:?}");
        assert_eq!(explained(&[], words), "audit", "{words:?}");
        let (program, arguments) = words.split_first().unwrap();
        let got = Environments::with(&["--no-follow"], Path::new(program), arguments, &foreign);
        assert!(is_whole(&got[0]), "{words:?}: {got:?}");
    }
}

/// Where only the module leads to the plan, the exported variables follow: whoever starts the program later, it gets its own.
#[test]
fn a_program_that_starts_in_an_exported_environment_gets_its_plan() {
    let Some(e) = &*ENVIRONMENTS else { return };
    let foreign = WORLD.library_path(&["new"]);
    let (a, b) = (e.a.display(), e.b.display());
    let show = format!("-c '{SHOW}'");
    let in_shell = |before: &str| {
        let script = format!("{before}\n{a} {show}; echo child; {b} {show}");
        let env = BTreeMap::from([
            ("LD_LIBRARY_PATH", foreign.clone()),
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("HOME", WORLD.path("").display().to_string()),
        ]);
        let output = bare(Path::new("/bin/sh"), &["-c", &script], &env);
        Environments::read(&String::from_utf8_lossy(&output.stdout))
    };
    let alone = in_shell("");
    assert!(!is_whole(&alone[0]), "the control must mix: {alone:?}");
    let eval = format!("eval \"$({} export {a} {show})\"", crate::support::CUDARUN);
    let got = in_shell(&eval);
    let versions: Vec<i32> = got.iter().map(|got| got.version).collect();
    assert!(got.iter().all(is_whole), "{got:?}");
    assert_eq!(versions, [90100, 91002]);
    // Nothing is followed: the view is all that is left.
    let view = in_shell(&format!("export CUDARUN_FOLLOW=off\n{eval}"));
    assert!(is_whole(&view[0]), "{view:?}");
}
