//! Completion of command lines, as the scripts in `completions/` ask for it.

use crate::support::Run;
use crate::support::machine::Machine;

/// The source of candidates, and the candidates.
fn completed(shell: &str, words: &[&str]) -> (String, Vec<String>) {
    let arguments = [&["completions", shell, "--"], words].concat();
    let (text, status) = Run::new(&arguments).output();
    assert_eq!(status, 0, "{words:?}");
    let mut lines = text.lines();
    let kind = lines.next().unwrap().to_owned();
    (
        kind,
        lines
            .map(|line| line.split('\t').next().unwrap().to_owned())
            .collect(),
    )
}

#[test]
fn each_word_is_completed_by_its_place() {
    let rows: &[(&[&str], &str, &[&str])] = &[
        (&["comp"], "commands", &["completions"]),
        (&["help", "comp"], "words", &["completions"]),
        (&["help", "list", "x"], "program 0", &[]),
        (&["trace", "--all", "gi"], "program 2", &[]),
        (&["trace", "--all", "python3", "tr"], "program 2", &[]),
        (&["trace", "--color=al"], "words", &["--color=always"]),
        (&["trace", "--color=always", "gi"], "program 2", &[]),
        (&["--", "comp"], "program 1", &[]),
        (&["./pro"], "program 0", &[]),
        (&["train", ""], "program 0", &[]),
        (&["run", "--uses", "torch", "pyt"], "program 3", &[]),
        (&["explain", "--", "python3", "x"], "program 2", &[]),
        (
            &["-v", "--color", "always", "git", "--co"],
            "program 3",
            &[],
        ),
        (&["list", "cudn"], "words", &["cudnn"]),
        (&["fetch", "cudn"], "commands", &["cudnn"]),
        (&["fetch", "--yes", "pru"], "commands", &["prune"]),
        (&["fetch", "cudnn=9.10", "--dr"], "words", &["--dry-run"]),
        (&["fetch", "./pro"], "program 1", &[]),
        (&["fetch", "git", "--co"], "program 1", &[]),
        (&["list", "python3", "cudn"], "words", &["cudnn"]),
        (&["--color=al"], "words", &["--color=always"]),
        (&["--color", "al"], "words", &["always"]),
        (&["trace", "-o", "x"], "files", &[]),
        (&["trace", "-o", "x", "gi"], "program 3", &[]),
        (&["--root", "/us"], "files", &[]),
        (&["list", "--python", "py"], "commands", &[]),
        (&["--without", "conda,tool"], "words", &["conda,toolkit"]),
        (&["--require", "cudn"], "words", &["cudnn>="]),
        (&["--pin=cudn"], "words", &["--pin=cudnn="]),
        (&["hook", "zs"], "words", &["zsh"]),
        (&["hook", "--", "zs"], "words", &[]),
        (&["hook", "sys"], "words", &["systemd"]),
        (&["hook", "jupyter", "pyth"], "commands", &[]),
        (&["hook", "jupyter", "--un"], "words", &["--uninstall"]),
        (&["allow", ".cud"], "files", &[]),
        (&["--no-such-option", "x"], "commands", &[]),
        (&["--no-such-option=x"], "words", &[]),
        (&["verify", "--as"], "words", &["--as-is"]),
        (&["explain", "--verif"], "words", &[]),
    ];
    for (words, kind, candidates) in rows {
        for shell in ["bash", "zsh", "fish"] {
            let (got, mut found) = completed(shell, words);
            found.retain(|word| !word.ends_with("-config") && !word.ends_with("-mode="));
            assert_eq!(
                (got.as_str(), found),
                (
                    *kind,
                    candidates.iter().map(|&word| word.to_owned()).collect()
                ),
                "{shell} {words:?}"
            );
        }
    }
}

#[test]
fn an_empty_word_offers_the_verbs_alone() {
    let (kind, found) = completed("zsh", &[""]);
    assert_eq!(kind, "words");
    assert_eq!(found, cudarun::cli::VERBS);
    let (kind, found) = completed("zsh", &["-"]);
    assert_eq!(kind, "words");
    assert!(
        found.contains(&"-v".to_owned()) && found.contains(&"--pin-mode".to_owned()),
        "{found:?}"
    );
}

/// The control is a machine without that package.
#[test]
fn packages_come_from_the_environment() {
    for (machine, is_there) in [("h200-container", true), ("nothing", false)] {
        let machine = Machine::load(machine);
        let (text, _) = Run::on(&machine, &["completions", "fish", "--", "--uses", "tor"]).output();
        assert_eq!(text.contains("torch"), is_there, "{text}");
    }
}
