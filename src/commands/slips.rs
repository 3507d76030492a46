//! The command line that was probably meant by a wrong one. Each correction is only a guess; the first that parses, and
//! whose program is found, is the answer.

use std::ffi::{OsStr, OsString};

use clap::Parser;
use clap::error::ErrorKind;

use super::{meant, misread};
use crate::catalog::wheels;
use crate::cli::{Cli, VERBS, Verb};
use crate::diagnose::Reading;
use crate::error::Error;
use crate::host::Host;
use crate::program::locate;
use crate::settings::invocation;
use crate::settings::resolve::vocabulary;
use crate::settings::{Setting, Value};
use crate::text::nearest;

/// Words of other tools, and the words of cudarun.
const FOREIGN: &[(&str, &str)] = &[
    ("version", "--version"),
    ("status", "doctor"),
    ("why", "explain"),
    ("lock", "record"),
];

/// Returns the words after `cudarun` that were probably meant, after an error of the command line itself.
pub fn after_usage(
    host: &Host,
    error: &clap::Error,
    arguments: &[OsString],
) -> Option<Vec<OsString>> {
    misread::guesses(host, error, arguments)?
        .into_iter()
        .find_map(|guess| checked(host, guess))
}

/// Returns the words after `cudarun` that were probably meant, after an error of a command.
pub fn after_error(
    host: &Host,
    error: &Error,
    cli: &Cli,
    arguments: &[OsString],
) -> Option<Vec<OsString>> {
    let words = arguments.get(1..)?;
    let (before, command) = words.split_at(words.len().checked_sub(cli.program().1.len())?);
    let mut guesses = Vec::new();
    match error {
        Error::NoOtherSet { .. } => {
            let kept = before.iter().filter(|word| *word != "--next");
            guesses.push(kept.chain(command).cloned().collect());
        }
        Error::NoSuchFamily { name, families } => {
            let stem = name
                .trim_end_matches(|c: char| c.is_ascii_digit() || ".-".contains(c))
                .to_lowercase();
            let is_stem = families.iter().copied().find(|family| *family == stem);
            let near = is_stem.or_else(|| nearest(&stem, families.iter().copied()))?;
            let right = |word: &OsString| {
                if word == name.as_str() {
                    near.into()
                } else {
                    word.clone()
                }
            };
            guesses.push(words.iter().map(right).collect());
        }
        Error::Setting(_) => guesses.extend(misread::options(before, command)),
        Error::NotFound { name } | Error::NotExecutable { path: name, .. } => {
            guesses.extend(misread::options(before, command));
            let (first, rest) = command.split_first()?;
            let typed = first.to_str().unwrap_or_default();
            if typed.contains(": ") {
                guesses.push(vec!["diagnose".into(), "--text".into(), first.clone()]);
            }
            if matches!(cli.verb, Some(Verb::Diagnose(_))) {
                guesses.extend(texts(host, before, command));
            }
            if let Some(wheel) = wheels().iter().find(|wheel| wheel.name == typed) {
                let cuda = wheel.cuda.to_string();
                guesses.push(
                    ["fetch", "--cuda", &cuda, &wheel.family]
                        .map(OsString::from)
                        .to_vec(),
                );
            }
            let may_be_verb = cli.verb.is_none() && before.last().is_none_or(|word| word != "--");
            if let [verb] = rest
                && may_be_verb
                && VERBS.iter().any(|known| verb == known)
            {
                guesses.push([before, &[verb.clone(), first.clone()]].concat());
            }
            let foreign = FOREIGN
                .iter()
                .find(|(word, _)| *word == typed)
                .map(|(_, verb)| *verb);
            let near = |typed| nearest(typed, VERBS.iter().copied());
            if let ("help", Some(verb)) =
                (typed, rest.first().and_then(|word| near(word.to_str()?)))
            {
                guesses.push([before, &[verb.into(), "--help".into()]].concat());
            }
            if let Some(verb) = foreign
                .or_else(|| near(typed))
                .filter(|_| may_be_verb && !typed.contains('/'))
            {
                guesses.push([before, &[verb.into()], rest].concat());
            }
            let file = name
                .file_name()
                .and_then(|file| file.to_str())
                .filter(|file| file.contains(".so"));
            if let Some(family) = file.and_then(vocabulary().of_file) {
                guesses.push(vec!["list".into(), family.into()]);
            }
            guesses.push(words.to_vec());
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            let is_unknown = matches!(error, Error::NotFound { .. }) && may_be_verb;
            if is_unknown && !typed.is_empty() && typed.chars().all(is_plain) {
                guesses.push(vec!["--help".into()]);
            }
        }
        _ => {}
    }
    guesses
        .into_iter()
        .find_map(|guess| checked(host, guess))
        .filter(|guess| guess != words)
}

/// Guesses at a text in the place of the program of `diagnose`: the name of a log before options, a message without quotes.
fn texts(host: &Host, before: &[OsString], command: &[OsString]) -> Vec<Vec<OsString>> {
    let mut guesses = Vec::new();
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    if let Some((first, rest)) = command.split_first()
        && !rest.is_empty()
        && rest.iter().all(is_option)
        && host.is_file(first.as_ref())
    {
        guesses.push([before, rest, &["--from".into(), first.clone()]].concat());
    }
    let text = command.join(OsStr::new(" "));
    let mut reading = Reading::default();
    reading.feed(text.as_encoded_bytes());
    if !reading.finish().is_empty() {
        guesses.push([before, &["--text".into(), text]].concat());
    }
    guesses
}

/// Returns the line, with its program corrected, if cudarun takes it.
pub(super) fn checked(host: &Host, guess: Vec<OsString>) -> Option<Vec<OsString>> {
    let line = std::iter::once(OsString::from("cudarun")).chain(guess.iter().cloned());
    let cli = match Cli::try_parse_from(line).and_then(Cli::settle) {
        Ok(cli) => cli,
        Err(error) => {
            let is_page = matches!(
                error.kind(),
                ErrorKind::DisplayVersion | ErrorKind::DisplayHelp
            );
            return is_page.then_some(guess);
        }
    };
    let (wishes, command) = cli.program();
    let layer = invocation::options(&cli.common, wishes, &vocabulary()).ok()?;
    let is_missing = |setting: &Setting| matches!(&setting.value, Value::Directory(path) if !host.is_directory(path));
    let has_other_family = matches!(&cli.verb, Some(Verb::List(list))
        if list.families.iter().any(|family| vocabulary().family(family).is_none()));
    if has_other_family || layer.iter().any(is_missing) {
        return None;
    }
    let names_families = matches!(&cli.verb, Some(Verb::Fetch(fetch)) if !fetch.names_program());
    if command.is_empty() || names_families {
        return cli.verb.is_some().then_some(guess);
    }
    let (before, command) = guess.split_at(guess.len() - command.len());
    let command = meant::command(host, command)?;
    locate(host, command.first()?)
        .is_ok()
        .then(|| [before, &command].concat())
}
