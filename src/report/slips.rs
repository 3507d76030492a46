//! Sentences for wrong command lines.

use std::ffi::OsString;
use std::path::Path;

use super::Style;
use super::hints::shell_words;
use crate::text::{list, show};

/// The answer to `cudarun` alone.
pub fn first_contact(style: Style) -> String {
    let rows = [
        ["cudarun python3 train.py", "start a program"],
        [
            "cudarun explain python3 train.py",
            "show what it needs, what it gets, and why",
        ],
        [
            "cudarun doctor",
            "check whether GPU programs can run here, and how to fix it",
        ],
        ["cudarun --help", "show all verbs and options"],
    ];
    let rows = rows.map(|row| row.map(str::to_owned).to_vec());
    let first =
        "cudarun starts a program with exactly one coherent, checked set of NVIDIA libraries.";
    style.page(&format!("{first}\n\n{}", style.columns("  ", &rows)))
}

/// The verbs that have an option which another verb lacks; if it is one, also its command.
pub fn option_of(option: &str, of: &[String]) -> String {
    if of.is_empty() {
        String::new()
    } else {
        let option = show(option);
        let example = match of {
            [only] if only == "run" => format!(": `cudarun {option} …`"),
            [only] => format!(": `cudarun {only} {option} …`"),
            _ => String::new(),
        };
        format!("\n`{option}` belongs to {}{example}\n", list(of))
    }
}

/// A command line of cudarun, as a shell reads it.
pub fn own_command_line(words: &[OsString]) -> String {
    format!("cudarun {}", shell_words(words))
}

/// The mistake in the name of a program, if the name shows it.
pub(super) fn name_of_program(name: &Path) -> &'static str {
    let text = name.to_string_lossy();
    let file = text.rsplit('/').next().unwrap_or_default();
    match () {
        () if text.contains(": ") => ": it looks like an error message, not a program",
        () if text.contains(char::is_whitespace) => {
            ": if it is a whole command, remove the quotes around it"
        }
        () if text == "help" => ": the word after `help` is not a verb",
        () if file.ends_with(".ipynb") => ": a notebook is not a program",
        () if file.ends_with(".so") || file.contains(".so.") => ": it is a library, not a program",
        () if !text.contains('/') => " in PATH",
        () => "",
    }
}
