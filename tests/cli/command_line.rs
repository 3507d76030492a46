//! The command line: what is a verb, what is a program, which code says what.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use cudarun::cli::{Cli, Export, Verb, VerifyWhen};

use crate::support::machine::Machine;
use crate::support::{CUDARUN, Run, Workshop};

#[test]
fn version_and_help_answer_on_standard_output() {
    let version = concat!("cudarun ", env!("CARGO_PKG_VERSION"), "\n");
    Run::new(["--version"]).stdout(version).check();
    for arguments in [
        vec!["--help"],
        vec!["-h"],
        vec!["list", "--help"],
        vec!["explain", "-h"],
        vec!["run", "--help"],
    ] {
        let help = Run::new(arguments).any_stdout().check();
        assert!(help.contains("Usage:"), "{help}");
        assert!(
            help.lines().all(|line| line.chars().count() <= 80),
            "{help}"
        );
    }
}

#[test]
fn without_a_program_it_says_what_it_wants() {
    Run::new::<&str>([])
        .status(125)
        .stderr_contains(&["cudarun doctor\u{20}", "cudarun --help\u{20}"])
        .check();
    Run::new(["-q"])
        .status(125)
        .stderr_contains(&["no program", "Usage: cudarun [OPTIONS] [--] PROGRAM"])
        .check();
}

#[test]
fn usage_errors_have_the_code_of_their_form() {
    Run::new(["--no-such-option", "true"])
        .status(125)
        .stderr_contains(&["--no-such-option"])
        .check();
    Run::new(["run", "--no-such-option", "true"])
        .status(125)
        .stderr_contains(&["--no-such-option"])
        .check();
    Run::new(["list", "--no-such-option"])
        .status(2)
        .stderr_contains(&["--no-such-option"])
        .check();
    Run::new(["explain"])
        .status(2)
        .stderr_contains(&["PROGRAM"])
        .check();
    Run::new(["-v", "-q", "true"])
        .status(125)
        .stderr_contains(&["cannot be used with"])
        .check();
    Run::new(["--verify=sometimes", "true"])
        .status(125)
        .stderr_contains(&["never, auto, always"])
        .check();
}

#[test]
fn the_form_is_seen_behind_options_and_their_values() {
    for options in [
        vec!["--root", "/"],
        vec!["--color", "never"],
        vec!["--color=never", "-v"],
    ] {
        let with =
            |words: &[&'static str]| Run::new(options.iter().copied().chain(words.iter().copied()));
        with(&["list", "--no-such-option"])
            .status(2)
            .stderr_contains(&["--no-such-option"])
            .check();
        with(&["--no-such-option", "true"])
            .status(125)
            .stderr_contains(&["--no-such-option"])
            .check();
    }
    // Here `list` is the name of a directory.
    Run::new(["--root", "list", "--no-such-option"])
        .status(125)
        .stderr_contains(&["--no-such"])
        .check();
}

#[test]
fn a_usage_error_is_an_object_too() {
    let error = Run::new(["explain", "--json"])
        .status(2)
        .stderr_contains(&["PROGRAM"])
        .json();
    assert_eq!(
        (&error["schema"], &error["error"]["code"]),
        (&2.into(), &2.into())
    );
    let message = error["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("PROGRAM") && !message.contains("Usage"),
        "{message}"
    );
    Run::new(["explain"])
        .status(2)
        .stderr_contains(&["PROGRAM"])
        .check();
    Run::new(["--no-such-option", "true", "--json"])
        .status(125)
        .stderr_contains(&["--no-such"])
        .check();
}

#[test]
fn options_before_a_verb_apply_to_the_verb() {
    let parse = |line: &str| {
        let words = std::iter::once("cudarun").chain(line.split(' '));
        Cli::parse_words(&words.map(OsString::from).collect::<Vec<_>>())
    };
    for verb in ["explain", "export", "verify"] {
        let verb = parse(&format!("--uses torch {verb} --uses jax python"))
            .unwrap()
            .verb;
        let (library_options, words) = match verb {
            Some(Verb::Explain(explain)) => {
                (explain.question.library_options, explain.question.words)
            }
            Some(Verb::Export(Export { question, .. })) => {
                (question.library_options, question.words)
            }
            Some(Verb::Verify(verify)) => (verify.library_options, verify.words),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (library_options.uses, words),
            (vec!["torch".into(), "jax".into()], vec!["python".into()])
        );
    }
    let run = |line: &str| match parse(line).unwrap().verb {
        Some(Verb::Run(run)) => (run.start.library_options.uses.join(","), run.start.verify),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        run("--uses torch --verify=never run python"),
        ("torch".into(), Some(VerifyWhen::Never))
    );
    assert_eq!(
        run("--verify=never run --verify=always python"),
        (String::new(), Some(VerifyWhen::Always))
    );
    let start = parse("--uses torch --verify never python").unwrap();
    assert_eq!(
        (start.start.library_options.uses, start.start.verify),
        (vec!["torch".to_owned()], Some(VerifyWhen::Never))
    );
    for line in [
        "doctor --save a --save b",
        "--verify always --verify never true",
        "--pin-mode view --pin-mode none true",
        "init --locked",
        "--locked init",
        "--locked record",
    ] {
        assert!(parse(line).is_err(), "{line}");
    }
    let version = parse("--version list").map(|_| ()).unwrap_err();
    assert_eq!(version.kind(), clap::error::ErrorKind::DisplayVersion);
    for (line, option) in [
        ("--verify=never verify true", "--verify"),
        ("--verify=never explain true", "--verify"),
        ("--verify=never list", "--verify"),
        ("--uses torch list", "--uses"),
    ] {
        Run::new(line.split(' '))
            .status(2)
            .stderr_contains(&[&format!("unexpected argument '{option}'")])
            .check();
    }
    // An option of the verb alone.
    assert!(matches!(parse("--json list").unwrap().verb, Some(Verb::List(list)) if list.json));
}

#[test]
fn an_answer_that_cannot_be_written_was_not_given() {
    for (words, status) in [
        ("--help", 125),
        ("--version", 125),
        ("list --help", 2),
        ("list --json", 2),
    ] {
        let to = |file: &str| {
            let file = std::fs::OpenOptions::new().write(true).open(file).unwrap();
            let mut command = std::process::Command::new(crate::support::CUDARUN);
            command
                .args(words.split(' '))
                .stdout(file)
                .output()
                .unwrap()
                .status
                .code()
        };
        assert_eq!(to("/dev/full"), Some(status), "{words}");
        assert!(
            matches!(to("/dev/null"), Some(0 | 1)),
            "{words}: the control"
        );
    }
}

#[test]
fn names_of_programs_are_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let name = OsStr::from_bytes(b"pr\xffgram");
    let program = directory.path().join(name);
    std::fs::write(&program, "#!/bin/sh\necho started $1\n").unwrap();
    std::fs::set_permissions(
        &program,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    for before in [
        "",
        "-q",
        "--",
        "-q --",
        "run",
        "run --",
        "--verify never run -q",
    ] {
        for name in [name, program.as_os_str()] {
            let words = before
                .split_whitespace()
                .map(OsString::from)
                .chain([name.into(), "-v".into()]);
            Run::new(words)
                .env("PATH", &path)
                .stdout("started -v\n")
                .any_stderr()
                .check();
        }
    }
    Run::new([OsStr::new("explain"), program.as_os_str()])
        .env("PATH", &path)
        .any_stdout()
        .check();
    Run::new([OsStr::new("-q"), OsStr::from_bytes(b"\xff")])
        .status(127)
        .stderr("cudarun: `\\xff` was not found in PATH\n")
        .check();
}

#[test]
fn a_program_that_is_not_there_is_127() {
    let not_found = "cudarun: `no-such-program` was not found in PATH\n";
    Run::new(["no-such-program"])
        .status(127)
        .stderr(not_found)
        .check();
    Run::new(["./no/such"])
        .status(127)
        .stderr("cudarun: `./no/such` was not found\n")
        .check();
    Run::new(["explian", "true"])
        .status(127)
        .stderr("cudarun: `explian` was not found in PATH\n\nhint: cudarun explain true\n")
        .check();
    Run::new(["explain", "no-such-program"])
        .status(2)
        .stderr(not_found)
        .check();
    Run::new(["explain", "--json", "no-such-program"])
        .status(2)
        .stdout_contains(&["\"code\": 2", "\"schema\": 2", "was not found"])
        .stderr(not_found)
        .check();
}

#[test]
fn a_program_that_cannot_be_run_is_126() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("data"), "text").unwrap();
    let run = |name: &str| Run::new([name]).in_directory(directory.path()).status(126);
    run("./data")
        .stderr("cudarun: `./data` cannot be run: permission denied: the file is not executable\n\nhint: chmod +x ./data\n")
        .check();
    run("./")
        .stderr("cudarun: `./` cannot be run: is a directory\n")
        .check();
    run("data")
        .env("PATH", directory.path())
        .stderr(format!(
            "cudarun: `{0}` cannot be run: permission denied: the file is not executable\n\nhint: chmod +x {0}\n",
            directory.path().join("data").display()
        ))
        .check();
}

#[test]
fn a_verb_hides_a_program_that_two_dashes_or_a_path_still_start() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("list");
    std::fs::write(&program, "#!/bin/sh\necho program $1\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    let all = directory.path().join("list2");
    std::fs::write(&all, "#!/bin/sh\necho $*\n").unwrap();
    std::fs::set_permissions(&all, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    for before in [
        "--",
        "-q --",
        "run",
        "run --",
        "run -q",
        "-q run --",
        "--verify=never --",
    ] {
        let words = before.split(' ').chain(["list", "--json"]);
        Run::new(words)
            .env("PATH", &path)
            .stdout("program --json\n")
            .any_stderr()
            .check();
    }
    Run::new(["-q", "list", "--json", "nccl"])
        .env("PATH", &path)
        .status(1)
        .any_stdout()
        .check();
    Run::new(["--", "list", "-v"])
        .env("PATH", &path)
        .stdout("program -v\n")
        .any_stderr()
        .check();
    Run::new(["-q", "list2", "--", "-v"])
        .env("PATH", &path)
        .stdout("-- -v\n")
        .any_stderr()
        .check();
    Run::new(["run", "list", "--json"])
        .env("PATH", &path)
        .stdout("program --json\n")
        .any_stderr()
        .check();
    Run::new(["./list", "-q"])
        .in_directory(directory.path())
        .stdout("program -q\n")
        .any_stderr()
        .check();
}

#[test]
fn nothing_is_started_under_a_root() {
    let machine = Machine::load("nothing");
    Run::on(&machine, &["true"])
        .status(125)
        .stderr("cudarun: the program would be started, which is not possible with --root\n\nhint: cudarun explain PROGRAM\n")
        .check();
    Run::on(&machine, &["verify", "true"])
        .status(2)
        .stderr("cudarun: `verify` starts a program, which is not possible with --root\n\nhint: cudarun explain PROGRAM\n")
        .check();
    let hint = "with --root, `fetch` cannot fill the store: add --dry-run or --into DIR\n\nhint: cudarun fetch --dry-run PROGRAM\n";
    Run::on(&machine, &["fetch", "cudart"])
        .status(2)
        .stderr(format!("cudarun: {hint}"))
        .check();
    Run::on(&machine, &["allow"])
        .status(2)
        .stderr("cudarun: `allow` works only on this machine: remove --root\n")
        .check();
    Run::new(["--root", "/no/such/root", "list"])
        .status(2)
        .stderr_contains(&["--root `/no/such/root`"])
        .check();
}

/// The control is a root with one directory of a system.
#[test]
fn a_directory_that_is_no_root_is_refused() {
    let workshop = Workshop::new();
    std::fs::create_dir_all(workshop.path("empty/src")).unwrap();
    std::fs::create_dir_all(workshop.path("root/opt")).unwrap();
    let list = |root: &str| Run::new(["--root", root, "list"]).in_directory(workshop.path(""));
    list("empty")
        .status(2)
        .stderr("cudarun: --root `empty` cannot be used: it has no /usr and no /etc\n")
        .check();
    list("root")
        .status(1)
        .stdout("no NVIDIA library is installed\n\nnext: cudarun --root root doctor\n")
        .check();
}

/// The control is this machine, without an option: `next` starts the program.
#[test]
fn the_next_command_is_for_the_machine_of_the_page() {
    let workshop = Workshop::new();
    let machine = Machine::load("torch");
    std::os::unix::fs::symlink(machine.root(), workshop.path("a machine")).unwrap();
    let page = |words: &[&str]| {
        let all = ["--root", "a machine"].iter().chain(words);
        let run = Run::new(all).in_directory(workshop.path(""));
        let run = machine
            .env
            .iter()
            .fold(run, |run, (name, value)| run.env(name, value));
        run.any_stdout().check()
    };
    let train = "/home/user/project/train.py";
    for (words, next) in [
        (&["list"][..], "explain PROGRAM"),
        (&["doctor"], "explain python3 -c 'import torch'"),
        (
            &["trace", "--predict", "python3", train],
            "explain python3 ~/project/train.py",
        ),
    ] {
        let text = page(words);
        assert!(
            text.ends_with(&format!("next: cudarun --root 'a machine' {next}\n")),
            "{text}"
        );
    }
    let explained = page(&["explain", "python3", train]);
    assert!(
        explained.contains(" starts with ") && !explained.contains("next:"),
        "{explained}"
    );
    let here = Run::new(["explain", "/bin/true"]).any_stdout().check();
    assert!(here.ends_with("\nnext: cudarun /bin/true\n"), "{here}");
}

#[test]
fn help_says_which_words_a_verb_takes() {
    for (verb, says) in [
        ("doctor", "first Python in PATH"),
        ("diagnose", "messages are read from standard input"),
        ("fetch", "`prune` removes old wheels"),
        ("shell", "`[requires]`"),
    ] {
        let help = Run::new(["help", verb]).any_stdout().check();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            help.contains("Arguments: ") && help.contains(says),
            "{help}"
        );
    }
    for (verb, is_taken) in [("init", false), ("record", false), ("explain", true)] {
        let help = Run::new(["help", verb]).any_stdout().check();
        assert_eq!(help.contains("  --locked\n"), is_taken, "{verb}: {help}");
    }
}

#[test]
fn the_verbs_are_those_of_the_command_line() {
    use clap::CommandFactory;
    let command = cudarun::cli::Cli::command();
    let verbs: Vec<&str> = command
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    assert_eq!(verbs, cudarun::cli::VERBS);
    cudarun::cli::Cli::command().debug_assert();
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = std::process::Command::new(CUDARUN);
    let output = command
        .args(["list", "--help"])
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{output:?}");
}

/// Standard output is a terminal, and standard error is not.
#[test]
fn colour_is_for_the_stream_that_is_a_terminal() {
    let two = crate::storage::kept_starts::Two::new();
    let run = |verb: &str| {
        let errors = two.workshop.path("errors");
        let line = format!(
            "{} {verb} {} 2>{}",
            crate::support::CUDARUN,
            two.program.display(),
            errors.display()
        );
        let mut command = std::process::Command::new("script");
        command
            .args(["-qec", &line, "/dev/null"])
            .stdin(std::process::Stdio::null())
            .env_remove("NO_COLOR");
        command.env_remove("XDG_CACHE_HOME");
        command
            .env("TERM", "xterm")
            .env("HOME", two.home.path())
            .env("LD_LIBRARY_PATH", &two.path);
        command.env("CUDARUN_REQUIRE", "nccl>=99");
        let output = command.output().unwrap();
        (
            String::from_utf8(output.stdout).unwrap(),
            std::fs::read_to_string(errors).unwrap(),
        )
    };
    for verb in ["verify", "export", "run"] {
        let (_, errors) = run(verb);
        assert!(
            errors.contains("error:") && !errors.contains('\x1b'),
            "{verb}: {errors}"
        );
    }
    assert!(
        run("explain").0.contains('\x1b'),
        "the control: that stream is a terminal"
    );
    assert!(
        run("--color=always verify").1.contains('\x1b'),
        "the control: there is colour in it"
    );
}

/// `doctor` always has something in bold. Standard output is a pipe or a terminal.
#[test]
fn variables_and_the_option_decide_about_colour() {
    let is_coloured = |on_terminal: bool, variables: &[(&str, &str)], arguments: &str| {
        let line = format!("{CUDARUN} {arguments} 2>&1");
        let mut command = if on_terminal {
            let mut command = std::process::Command::new("script");
            command.args(["-qec", &line, "/dev/null"]);
            command
        } else {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &line]);
            command
        };
        command
            .stdin(std::process::Stdio::null())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("SHELL", "/bin/sh");
        let output = command
            .env("TERM", "xterm")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.len() > 20, "{text}");
        text.contains('\x1b')
    };
    let help = "list --help";
    for verb in [
        "--no-config doctor",
        help,
        "list --bad",
        "list --jsn",
        "--node x list",
    ] {
        assert!(
            is_coloured(true, &[], verb) && !is_coloured(false, &[], verb),
            "{verb}"
        );
        assert!(!is_coloured(true, &[("NO_COLOR", "1")], verb), "{verb}");
        assert!(is_coloured(true, &[("NO_COLOR", "")], verb), "{verb}");
        assert!(!is_coloured(true, &[("TERM", "dumb")], verb), "{verb}");
        assert!(
            is_coloured(false, &[("CLICOLOR_FORCE", "1")], verb),
            "{verb}"
        );
        assert!(
            !is_coloured(false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], verb),
            "{verb}"
        );
        assert!(!is_coloured(true, &[("CLICOLOR", "0")], verb), "{verb}");
        assert!(is_coloured(false, &[("FORCE_COLOR", "1")], verb), "{verb}");
        assert!(!is_coloured(true, &[("FORCE_COLOR", "0")], verb), "{verb}");
        assert!(
            !is_coloured(false, &[("FORCE_COLOR", "1"), ("NO_COLOR", "1")], verb),
            "{verb}"
        );
        let always = format!("--color always {verb}");
        assert!(is_coloured(false, &[("NO_COLOR", "1")], &always), "{verb}");
        assert!(
            !is_coloured(
                true,
                &[("CLICOLOR_FORCE", "1")],
                &format!("--color=never {verb}")
            ),
            "{verb}"
        );
    }
    assert!(
        !is_coloured(false, &[], "-- --color=always"),
        "the program's own option"
    );
}

#[test]
fn families_are_known_by_the_names_that_a_list_shows() {
    let machine = Machine::load("h200-container");
    let rows = |name: &str| {
        Run::on(&machine, &["list", name])
            .any_stdout()
            .check()
            .matches(" /")
            .count()
    };
    assert_eq!(rows("cudnn"), 2);
    assert_eq!(rows("cuDNN"), 2);
    assert_eq!(rows("CUDA Runtime"), 2);
    Run::on(&machine, &["list", "cudnm"])
        .status(2)
        .stderr("cudarun: unknown library family `cudnm`\n\nhint: did you mean cudnn?\n")
        .check();
    Run::on(&machine, &["fetch", "--dry-run", "cuda=12"])
        .status(2)
        .stderr_contains(&["hint: did you mean cudart, the CUDA runtime, or toolkit?"])
        .check();
    Run::on(&machine, &["fetch", "--dry-run", "cudnm=9"])
        .status(2)
        .stderr("cudarun: unknown library family `cudnm`\n\nhint: did you mean cudnn?\n")
        .check();
    Run::on(&machine, &["list", "--python", "/usr/bin/env"])
        .status(2)
        .stderr_contains(&["`/usr/bin/env` was not found"])
        .check();
    Run::new(["list", "--python", "/bin/sh"])
        .status(2)
        .stderr("cudarun: --python `/bin/sh` is not Python\n")
        .check();
}

#[test]
fn verbs_are_suggested_only_where_one_is_allowed() {
    let hint = "\nhint: cudarun list\n";
    let not_found = "cudarun: `lst` was not found in PATH\n";
    Run::new(["lst"])
        .status(127)
        .stderr(format!("{not_found}{hint}"))
        .check();
    let quiet = hint.replace("cudarun", "cudarun -q");
    Run::new(["-q", "lst"])
        .status(127)
        .stderr(format!("{not_found}{quiet}"))
        .check();
    Run::new(["--", "lst"])
        .status(127)
        .stderr(not_found)
        .check();
    Run::new(["run", "lst"])
        .status(127)
        .stderr(not_found)
        .check();
    Run::new(["ruby-that-is-not-here"])
        .status(127)
        .stderr("cudarun: `ruby-that-is-not-here` was not found in PATH\n")
        .check();
}

/// A package brings the first file of cuDNN under a name of its own, and the other files are nowhere.
#[test]
fn a_proof_as_it_is_tries_a_bundled_library() {
    let workshop = Workshop::new();
    let name = "libcudnn-74a4c495.so.9.1.0";
    let source = "#include <stdio.h>\n#include <stdlib.h>\nsize_t cudnnGetVersion(void) { return 90100; }\n\
        int cudnnCreate(void **handle) { return handle == 0; }\n\
        int cudnnDestroy(void *handle) { return handle == 0; }\n\
        int cudnnGraphVersionCheck(void) { fputs(\"Unable to load any of {libcudnn_graph.so.9.1.0}\", stderr); abort(); }";
    let packed = workshop.library(&format!("package.libs/{name}"), name, source, &[]);
    let flags = [packed.to_str().unwrap(), "-Wl,-rpath,$ORIGIN/package.libs"];
    let code = "unsigned long cudnnGetVersion(void); int main(void) { return cudnnGetVersion() != 90100; }";
    let program = workshop.compile("program", code, &flags);
    let words = [
        "verify",
        "--as-is",
        "--level",
        "load",
        program.to_str().unwrap(),
    ];
    Run::new([program.to_str().unwrap()]).check();
    Run::new(words)
        .status(1)
        .stderr_contains(&[
            "a part of cuDNN 9.1.0 is missing",
            name,
            "install a whole cuDNN and start with cudarun",
        ])
        .check();
}

/// 2: could not answer. A gate must not open where there was nothing to prove it on.
#[test]
fn an_inconclusive_proof_is_not_a_success() {
    let machine = std::path::Path::new("/dev/nvidiactl").exists();
    if !machine {
        let workshop = Workshop::new();
        workshop.library(
            "lib/libcudart.so.12",
            "libcudart.so.12",
            "int cudaFree(void) { return 0; }",
            &[],
        );
        let flags = [
            format!("-L{}", workshop.path("lib").display()),
            "-l:libcudart.so.12".to_owned(),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let program = workshop.compile(
            "program",
            "int cudaFree(void); int main(int count, char **words) { return count > 9 ? cudaFree() : 0; }",
            &flags,
        );
        let run = |words: &[&str]| {
            let words = words
                .iter()
                .map(std::ffi::OsString::from)
                .chain([program.clone().into_os_string()]);
            Run::new(words).env("LD_LIBRARY_PATH", workshop.path("lib"))
        };
        let why = "no NVIDIA GPU is reachable (`cudarun verify --level load` needs none)";
        run(&["verify"])
            .status(2)
            .stdout(format!("not proved: {why}\n"))
            .check();
        run(&["verify", "--level", "load"])
            .stdout_contains(&["load libcudart.so.12", "proved (level load, "])
            .check();
        run(&["--verify", "always"])
            .stderr(format!("cudarun: not proved: {why}\n"))
            .check();
        run(&[]).check();
    }
    Run::new(["verify", "/bin/true"])
        .stdout("nothing to prove: no NVIDIA library is used\n")
        .check();
}

#[test]
fn a_standard_output_that_is_closed_takes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let run = |words: &str| {
        let script = format!("exec '{CUDARUN}' {words} >&-");
        let mut command = std::process::Command::new("/bin/sh");
        command
            .env_clear()
            .env("HOME", home.path())
            .args(["-c", &script])
            .output()
            .unwrap()
    };
    for (words, status) in [("list --json", 2), ("--version", 125), ("/bin/true", 0)] {
        let output = run(words);
        assert_eq!(output.status.code(), Some(status), "{words}");
        let complains =
            String::from_utf8_lossy(&output.stderr).contains("cannot write to standard output");
        assert_eq!(complains, status != 0, "{words}");
    }
}

#[test]
fn an_interpreter_that_is_not_there_is_named_with_its_script() {
    let workshop = Workshop::new();
    let script = workshop.write("script", "#!/nosuch/interpreter\n");
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let words = "cannot be run: its interpreter /nosuch/interpreter: No such file or directory\n";
    Run::new([&script])
        .status(126)
        .stderr(format!("cudarun: `{}` {words}", script.display()))
        .check();
    Run::new(["--uses", ",", "true"])
        .status(125)
        .stderr_contains(&["a value is required for '--uses"])
        .check();
}

/// The control is the colour of the message itself.
#[test]
fn a_wrong_word_sends_no_control_codes_to_a_terminal() {
    for words in [
        &["--\u{1b}]0;owned\u{7}"][..],
        &["verify", "--level=\u{1b}[2J"],
        &["list", "--\u{9b}2J"],
    ] {
        let words = [&["--color=always"], words].concat();
        let output = std::process::Command::new(crate::support::CUDARUN)
            .args(words)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains('\u{1b}'), "{said:?}");
        for code in ["\u{1b}]", "\u{1b}[2J", "\u{7}", "\u{9b}"] {
            assert!(!said.contains(code), "{said:?}");
        }
    }
}

#[test]
fn help_fits_a_small_terminal_and_lists_every_verb() {
    let help = Run::new(["-h"]).any_stdout().check();
    assert!(help.lines().count() <= 40, "{help}");
    assert_eq!(Run::new(["help"]).any_stdout().check(), help);
    for verb in cudarun::cli::VERBS {
        assert!(help.contains(&format!("\n  {verb} ")), "{verb}: {help}");
        for option in ["-h", "--help"] {
            let help = Run::new([verb, option]).any_stdout().check();
            assert!(
                help.lines().all(|line| line.chars().count() <= 80),
                "{help}"
            );
        }
        let long = Run::new([verb, "--help"]).any_stdout().check();
        assert_eq!(Run::new(["help", verb]).any_stdout().check(), long);
    }
    let no_verb = "cudarun: `help` was not found: the word after `help` is not a verb\n";
    for words in [&["--", "help"][..], &["help", "nosuch"]] {
        Run::new(words).status(127).stderr(no_verb).check();
    }
}

#[test]
fn a_file_that_is_not_executable_gets_a_hint_unless_it_is_no_program() {
    let place = tempfile::tempdir().unwrap();
    let said = |name: &str| {
        std::fs::write(place.path().join(name), "text").unwrap();
        let (_, status, said) = Run::new([format!("./{name}")])
            .in_directory(place.path())
            .streams();
        assert_eq!(status, 126, "{said}");
        said
    };
    assert!(said("notexec").ends_with("\nhint: chmod +x ./notexec\n"));
    assert!(!said("a b").contains("chmod"));
    let notebook = said("x.ipynb");
    assert!(notebook.contains("a notebook is not a program") && !notebook.contains("chmod"));
}

#[test]
fn explain_says_that_a_script_does_not_exist() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("here.py"), "print(1)\n").unwrap();
    let explain = |words: &[&str]| {
        Run::new([&["explain", "python3"], words].concat())
            .in_directory(place.path())
            .streams()
    };
    let (page, status, _) = explain(&["nosuch.py"]);
    let first = "`python3` cannot start: `./nosuch.py` cannot be read: no such file or directory\n";
    assert_eq!((page.as_str(), status), (first, 1));
    let (page, status, _) = explain(&["here.py"]);
    assert!(status == 0 && !page.contains("cannot start"), "{page}");
}
