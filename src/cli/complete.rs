//! Completes a command line from its definition: the words so far become candidates, or a task for the shell.

use std::ffi::OsString;

use clap::{Arg, Command, CommandFactory};

use super::Cli;
use super::fetch::{ACTIONS, TOOLKIT, names_program};

/// The source of candidates beside those that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionSource {
    /// There is no other source.
    Words,
    Files,
    Directories,
    /// The names of programs in PATH.
    Commands,
    /// The program's own completion, from the word at this position on.
    Program(usize),
}

/// An answer to a shell.
#[derive(Debug, PartialEq, Eq)]
pub struct Completion {
    pub kind: CompletionSource,
    /// Words that begin like the one at the cursor, each with its meaning.
    pub candidates: Vec<Completable>,
}

pub type Completable = (String, String);

/// The candidates that the command line does not define, by the name of a value such as `FAMILY`.
pub type Values<'v> = &'v dyn Fn(&str) -> Vec<Completable>;

/// Completes the last of these words, which follow `cudarun`.
pub fn complete(words: &[OsString], values: Values<'_>) -> Completion {
    let mut command = Cli::command();
    command.build();
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let Some((current, before)) = words.split_last() else {
        return nothing();
    };
    if before == ["help"] {
        return beginning(current, CompletionSource::Words, verbs(&command));
    }
    let mut verb: Option<&Command> = None;
    let mut wanting: Option<&Arg> = None;
    let mut words_of_verb = 0;
    for (index, word) in before.iter().enumerate() {
        let scope = verb.unwrap_or(&command);
        if wanting.take().is_some() {
            // It is the value.
        } else if word == "--" {
            return if takes_program(scope) {
                program(index + 1)
            } else {
                nothing()
            };
        } else if word.starts_with('-') {
            wanting = option(scope, word).filter(|_| !word.contains('='));
        } else if let (None, Some(named)) = (verb, command.find_subcommand(word)) {
            verb = Some(named);
        } else if takes_program(scope) && (!takes_families(scope) || names_program(word)) {
            return program(index);
        } else {
            words_of_verb += 1;
        }
    }
    let scope = verb.unwrap_or(&command);
    if let Some(option) = wanting {
        return value(option, "", current, values);
    }
    if let Some((name, start)) = current
        .split_once('=')
        .filter(|(name, _)| name.starts_with("--"))
    {
        return option(scope, name).map_or_else(nothing, |known| {
            value(known, &format!("{name}="), start, values)
        });
    }
    if current.starts_with('-') {
        let shown = scope
            .get_arguments()
            .filter(|option| !option.is_hide_set() && !option.is_positional());
        let options = shown.flat_map(|option| {
            let long = option.get_long().map(|long| format!("--{long}"));
            let short = option
                .get_short()
                .filter(|_| current == "-")
                .map(|short| format!("-{short}"));
            let help = option
                .get_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            long.into_iter()
                .chain(short)
                .map(move |name| (name, help.clone()))
        });
        return beginning(current, CompletionSource::Words, options.collect());
    }
    if verb.is_some() {
        let positional = scope.get_positionals().take(words_of_verb + 1).last();
        return match positional {
            _ if takes_families(scope) && !current.contains('/') => {
                let words = ACTIONS.into_iter().chain([TOOLKIT]);
                let words: Vec<_> = words.map(|word| (word.to_owned(), String::new())).collect();
                beginning(
                    current,
                    CompletionSource::Commands,
                    [values("FAMILY"), words].concat(),
                )
            }
            _ if takes_program(scope) => program(before.len()),
            Some(argument) => value(argument, "", current, values),
            None => nothing(),
        };
    }
    if current.contains('/') {
        return program(before.len());
    }
    // An empty word offers the verbs first: there are thousands of programs.
    let kind = if current.is_empty() {
        CompletionSource::Words
    } else {
        CompletionSource::Commands
    };
    beginning(current, kind, verbs(&command))
}

fn verbs(command: &Command) -> Vec<Completable> {
    let mut verbs = Vec::new();
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let about = verb.get_about().map(ToString::to_string);
        verbs.push((verb.get_name().to_owned(), about.unwrap_or_default()));
    }
    verbs
}

fn nothing() -> Completion {
    Completion {
        kind: CompletionSource::Words,
        candidates: Vec::new(),
    }
}

fn program(index: usize) -> Completion {
    Completion {
        kind: CompletionSource::Program(index),
        candidates: Vec::new(),
    }
}

fn takes_program(command: &Command) -> bool {
    command
        .get_positionals()
        .any(|argument| argument.get_id() == "words" && !argument.is_last_set())
}

fn takes_families(command: &Command) -> bool {
    command.get_name() == "fetch"
}

/// The option that a word means, if it takes a value: `--color`, `--color=…`, `-o`, `-qo`.
fn option<'c>(command: &'c Command, word: &str) -> Option<&'c Arg> {
    let mut options = command
        .get_arguments()
        .filter(|option| option.get_action().takes_values());
    match word.strip_prefix("--") {
        Some(long) => options.find(|option| option.get_long() == long.split('=').next()),
        None => options.find(|option| {
            option.get_short().is_some() && option.get_short() == word.chars().last()
        }),
    }
}

/// The values of an argument that begin like `current`, each behind `prefix`.
fn value(argument: &Arg, prefix: &str, current: &str, values: Values<'_>) -> Completion {
    let name = argument
        .get_value_names()
        .and_then(|names| names.first())
        .map_or("", |name| name.as_str());
    let possible = argument.get_possible_values();
    let possible = possible.iter().filter(|value| !value.is_hide_set());
    let mut candidates: Vec<Completable> = possible
        .map(|value| {
            (
                value.get_name().to_owned(),
                value
                    .get_help()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            )
        })
        .collect();
    candidates.extend(values(name));
    let kind = match name {
        "FILE" | "PATH" | "DIR|IMAGE" => CompletionSource::Files,
        "DIR" => CompletionSource::Directories,
        "PYTHON" | "PYTHON|UNIT" => CompletionSource::Commands,
        _ => CompletionSource::Words,
    };
    // A list of values is completed at its last element.
    let listed = argument
        .get_value_delimiter()
        .and_then(|delimiter| current.rfind(delimiter));
    let listed = &current[..listed.map_or(0, |at| at + 1)];
    for (word, _) in &mut candidates {
        word.insert_str(0, &format!("{prefix}{listed}"));
    }
    beginning(&format!("{prefix}{current}"), kind, candidates)
}

fn beginning(
    current: &str,
    kind: CompletionSource,
    mut candidates: Vec<Completable>,
) -> Completion {
    candidates.retain(|(word, _)| word.starts_with(current));
    Completion { kind, candidates }
}
