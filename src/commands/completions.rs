//! `cudarun completions SHELL`: the script in `completions/`. The script asks this verb to complete each line.

use super::{Exit, doctor, machine, print};
use crate::catalog::catalog;
use crate::cli::complete::{Completable, CompletionSource, complete};
use crate::cli::{Common, Completions, Shell};
use crate::error::Error;
use crate::host::Host;
use crate::inventory;

pub fn completions(host: Host, common: &Common, options: &Completions) -> Result<Exit, Error> {
    if options.line.is_empty() {
        print(match options.shell {
            Shell::Bash => include_str!("../../completions/cudarun.bash"),
            Shell::Zsh => include_str!("../../completions/_cudarun"),
            Shell::Fish => include_str!("../../completions/cudarun.fish"),
        })?;
        return Ok(Exit::Yes);
    }
    let host = machine(host, common)?;
    let completion = complete(&options.line, &|name| values(&host, name));
    let mut text = match completion.kind {
        CompletionSource::Words => "words\n".to_owned(),
        CompletionSource::Files => "files\n".to_owned(),
        CompletionSource::Directories => "directories\n".to_owned(),
        CompletionSource::Commands => "commands\n".to_owned(),
        CompletionSource::Program(index) => format!("program {index}\n"),
    };
    for (word, meaning) in completion.candidates {
        text.push_str(&format!("{word}\t{meaning}\n"));
    }
    print(&text)?;
    Ok(Exit::Yes)
}

/// The frameworks in the environment of the first Python in PATH.
fn frameworks(host: &Host) -> Vec<Completable> {
    let Ok(python) = doctor::environment(host, "python3".as_ref()) else {
        return Vec::new();
    };
    doctor::frameworks(host, &python)
        .map(|name| (name.clone(), String::new()))
        .collect()
}

/// The candidates for a value of this name.
fn values(host: &Host, name: &str) -> Vec<Completable> {
    let families = |end: &str| -> Vec<Completable> {
        let families = catalog().families.iter();
        families
            .map(|family| (format!("{}{end}", family.name), family.display.clone()))
            .collect()
    };
    let bare = |names: Vec<&str>| -> Vec<Completable> {
        names
            .into_iter()
            .map(|name| (name.to_owned(), String::new()))
            .collect()
    };
    match name {
        "FAMILY" => families(""),
        "FAMILY=WHICH" => families("="),
        "WHAT" => [bare(vec!["cuda>=", "gpu>="]), families(">=")].concat(),
        "SOURCE" => bare(inventory::source_names().collect()),
        "PACKAGE" => frameworks(host),
        _ => Vec::new(),
    }
}
