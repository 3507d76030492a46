//! What is written beside the code stays true to it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::CommandFactory;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_newest_entry_of_the_changelog_is_this_version() {
    let changelog = read("CHANGELOG.md");
    let newest = changelog.lines().find_map(|line| line.strip_prefix("## ")).unwrap();
    assert!(newest.starts_with(env!("CARGO_PKG_VERSION")), "{newest}");
}

/// The completions are written by hand, since only so they can hand over to the program's own; each must
/// know every verb and every option.
#[test]
fn completions_know_every_verb_and_option() {
    let command = cudarun::cli::Cli::command();
    for (file, long) in [("cudarun.bash", "--"), ("_cudarun", "--"), ("cudarun.fish", "-l ")] {
        let text = read(&format!("completions/{file}"));
        let mut lacks = BTreeSet::new();
        let mut look = |command: &clap::Command| {
            for option in command.get_arguments().filter_map(clap::Arg::get_long) {
                if !text.contains(&format!("{long}{option}")) {
                    lacks.insert(format!("{long}{option}"));
                }
            }
        };
        look(&command);
        for verb in command.get_subcommands() {
            assert!(text.contains(verb.get_name()), "{file} lacks the verb {}", verb.get_name());
            look(verb);
        }
        assert!(lacks.is_empty(), "{file} lacks {lacks:?}");
    }
}

#[test]
fn the_readme_names_every_verb_and_exit_code() {
    let readme = read("README.md");
    for verb in cudarun::cli::VERBS {
        assert!(readme.contains(&format!("cudarun {verb}")), "{verb}");
    }
    for code in ["125", "126", "127"] {
        assert!(readme.contains(code), "{code}");
    }
}

/// Every key that stands at the top of what `--json` prints is explained.
#[test]
fn the_json_that_is_printed_is_documented() {
    let machine = crate::support::machine::Machine::load("h200-container");
    let documented = read("docs/json.md");
    let question = ["explain", "--json", "python3", "/home/user/train.py"];
    for arguments in
        [&["list", "--json"][..], &question, &["export", "--json", "python3", "/home/user/train.py"]]
    {
        let object = crate::support::Run::on(&machine, arguments).json();
        for key in object.as_object().unwrap().keys() {
            assert!(
                documented.contains(&format!("`{key}`")),
                "{arguments:?}: `{key}` is not in docs/json.md"
            );
        }
    }
}

#[test]
fn the_architecture_names_every_place() {
    let architecture = read("src/ARCHITECTURE.md");
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "ARCHITECTURE.md" {
            assert!(architecture.contains(&format!("`{name}")), "{name} is not in src/ARCHITECTURE.md");
        }
    }
}
