//! Sentences for wrong command lines.

use std::ffi::OsString;

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
