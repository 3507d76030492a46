//! The command line: what is a verb, what is a program, which code says what.

use crate::support::Run;
use crate::support::machine::Machine;

#[test]
fn version_and_help_answer_on_standard_output() {
    let version = concat!("cudarun ", env!("CARGO_PKG_VERSION"), "\n");
    Run::new(["--version"]).stdout(version).check();
    for arguments in
        [vec!["--help"], vec!["-h"], vec!["list", "--help"], vec!["explain", "-h"], vec!["run", "--help"]]
    {
        let help = Run::new(arguments).any_stdout().check();
        assert!(help.contains("Usage:"), "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    }
}

#[test]
fn without_a_program_it_says_what_it_wants() {
    Run::new::<&str>([])
        .status(125)
        .stderr_contains(&["Usage: cudarun [OPTIONS] [--] PROGRAM", "--help"])
        .check();
}

#[test]
fn usage_errors_have_the_code_of_their_form() {
    Run::new(["--no-such-option", "true"]).status(125).stderr_contains(&["--no-such-option"]).check();
    Run::new(["run", "--no-such-option", "true"]).status(125).stderr_contains(&["--no-such-option"]).check();
    Run::new(["list", "--no-such-option"]).status(2).stderr_contains(&["--no-such-option"]).check();
    Run::new(["explain"]).status(2).stderr_contains(&["PROGRAM"]).check();
    Run::new(["-v", "-q", "true"]).status(125).stderr_contains(&["cannot be used with"]).check();
    Run::new(["--verify=sometimes", "true"]).status(125).stderr_contains(&["never, auto, always"]).check();
}

#[test]
fn a_program_that_is_not_there_is_127() {
    Run::new(["no-such-program"]).status(127).stderr("cudarun: `no-such-program` was not found\n").check();
    Run::new(["./no/such"]).status(127).stderr("cudarun: `./no/such` was not found\n").check();
    Run::new(["explian", "true"])
        .status(127)
        .stderr("cudarun: `explian` was not found\n\nhint: did you mean the verb `explain`?\n")
        .check();
    Run::new(["explain", "no-such-program"])
        .status(2)
        .stderr("cudarun: `no-such-program` was not found\n")
        .check();
    Run::new(["explain", "--json", "no-such-program"])
        .status(2)
        .stdout_contains(&["\"code\": 2", "\"schema\": 1", "was not found"])
        .stderr("cudarun: `no-such-program` was not found\n")
        .check();
}

#[test]
fn a_program_that_cannot_be_run_is_126() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("data"), "text").unwrap();
    let run = |name: &str| Run::new([name]).in_directory(directory.path()).status(126);
    run("./data").stderr("cudarun: `./data` cannot be run: permission denied\n").check();
    run("./").stderr("cudarun: `./` cannot be run: is a directory\n").check();
    run("data")
        .env("PATH", directory.path())
        .stderr(format!(
            "cudarun: `{}` cannot be run: permission denied\n",
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
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    Run::new(["--", "list", "-v"]).env("PATH", &path).stdout("program -v\n").check();
    Run::new(["run", "list", "--json"]).env("PATH", &path).stdout("program --json\n").check();
    Run::new(["./list", "-q"]).in_directory(directory.path()).stdout("program -q\n").check();
}

#[test]
fn nothing_is_started_under_a_root() {
    let machine = Machine::load("nothing");
    Run::on(&machine, &["true"])
        .status(125)
        .stderr("cudarun: `run` starts a program, and nothing is started under --root\n")
        .check();
    Run::on(&machine, &["verify", "true"])
        .status(2)
        .stderr("cudarun: `verify` starts a program, and nothing is started under --root\n")
        .check();
    Run::new(["--root", "/no/such/root", "list"])
        .status(2)
        .stderr_contains(&["--root `/no/such/root`"])
        .check();
}

#[test]
fn the_verbs_are_those_of_the_command_line() {
    use clap::CommandFactory;
    let command = cudarun::cli::Cli::command();
    let verbs: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    assert_eq!(verbs, cudarun::cli::VERBS);
    cudarun::cli::Cli::command().debug_assert();
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let script = format!("{} list --help | true; exit ${{PIPESTATUS[0]}}", crate::support::CUDARUN);
    let status = std::process::Command::new("bash").arg("-c").arg(script).status().unwrap();
    assert!(matches!(status.code(), Some(0 | 141)), "{status}");
}
