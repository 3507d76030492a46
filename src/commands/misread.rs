//! Guesses at options that cannot be used as they are.

use std::ffi::OsString;

use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::meant;
use crate::cli::{Cli, VERBS};
use crate::host::Host;
use crate::report;
use crate::text::nearest;
use crate::version::Version;

/// Scripts that a person probably means, if the directory has one.
const SCRIPTS: &[&str] = &["train.py", "main.py", "app.py", "run.py"];

/// Guesses at the words after `cudarun`, after an error of the command line itself.
pub(super) fn guesses(
    host: &Host,
    error: &clap::Error,
    arguments: &[OsString],
) -> Option<Vec<Vec<OsString>>> {
    let words = arguments.get(1..)?;
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let mut guesses = Vec::new();
    if error.kind() == ErrorKind::MissingRequiredArgument {
        let script = SCRIPTS.iter().find(|name| host.is_file(name.as_ref()))?;
        guesses.push([words, &[meant::python(host)?.into(), script.into()]].concat());
    }
    if let (Some(wrong), Some(near)) = (
        text(ContextKind::InvalidValue),
        text(ContextKind::SuggestedValue),
    ) && nearest(&wrong, std::iter::once(near.as_str())).is_some()
    {
        let right = |word: &OsString| word.to_str().map(|word| word.replace(&wrong, &near).into());
        guesses.push(
            words
                .iter()
                .map(|word| right(word).unwrap_or_else(|| word.clone()))
                .collect(),
        );
    }
    if let Some(wrong) = text(ContextKind::InvalidArg)
        && error.kind() == ErrorKind::UnknownArgument
    {
        let is_it = |word: &OsString| {
            word.to_str()
                .is_some_and(|word| word.split('=').next() == Some(&wrong))
        };
        let at = words.iter().position(is_it)?;
        let (before, after) = (&words[..at], &words[at + 1..]);
        if let Some(near) = text(ContextKind::SuggestedArg) {
            let right = words[at].to_string_lossy().replacen(&wrong, &near, 1);
            guesses.push([before, &[right.into()], after].concat());
        }
        let bare = wrong.trim_start_matches('-');
        if VERBS.contains(&bare) {
            guesses.push([before, &[bare.into()], after].concat());
        }
        if ["-m", "-c"].contains(&wrong.as_str()) {
            guesses.push([before, &[meant::python(host)?.into()], &words[at..]].concat());
        }
        let is_verb = |word: &OsString| VERBS.iter().any(|verb| word == verb);
        if let Some((verb, rest)) = after.split_first().filter(|(word, _)| is_verb(word)) {
            guesses.push([before, &[verb.clone(), words[at].clone()], rest].concat());
        }
        let verb = before.iter().position(is_verb);
        let (before, after) = verb.map_or((&[][..], words), |verb| {
            (&words[..verb], &words[verb + 1..])
        });
        // These start no program and write nothing.
        let others = ["explain", "export", "doctor", "list"];
        let others = others.into_iter().filter(|verb| has_option(verb, &wrong));
        guesses.extend(others.map(|verb| [before, &[verb.into()], after].concat()));
    }
    Some(guesses)
}

/// The verbs that have the unknown option of an error, in words; empty for another error.
pub fn owners(error: &clap::Error) -> String {
    let (ErrorKind::UnknownArgument, Some(ContextValue::String(wrong))) =
        (error.kind(), error.get(ContextKind::InvalidArg))
    else {
        return String::new();
    };
    let owners = VERBS
        .iter()
        .filter(|verb| has_option(verb, wrong))
        .map(ToString::to_string);
    report::option_of(wrong, &owners.collect::<Vec<_>>())
}

fn has_option(verb: &str, option: &str) -> bool {
    let command = Cli::command();
    let is_it = |own: &clap::Arg| {
        own.get_long()
            .is_some_and(|long| option.strip_prefix("--") == Some(long))
    };
    command
        .find_subcommand(verb)
        .is_some_and(|verb| verb.get_arguments().any(is_it))
}

/// Guesses at `--pin` and `--require`: other signs between name and version, a blank there, a range after `--pin`.
pub(super) fn options(before: &[OsString], command: &[OsString]) -> Vec<Vec<OsString>> {
    let is_of_set = |word: &&str| ["--pin", "--require"].contains(word);
    let Some(at) = before
        .iter()
        .rposition(|word| word.to_str().as_ref().is_some_and(is_of_set))
    else {
        return Vec::new();
    };
    let Some(value) = before.get(at + 1).and_then(|value| value.to_str()) else {
        return Vec::new();
    };
    let rest = [&before[at + 2..], command].concat();
    let line = |option: &str, value: String, rest: &[OsString]| {
        [&before[..at], &[option.into(), value.into()], rest].concat()
    };
    let option = before[at].to_str().unwrap_or_default();
    let mut guesses = Vec::new();
    if let Some((version, rest)) = rest.split_first()
        && let Some(version) = version
            .to_str()
            .filter(|version| version.parse::<Version>().is_ok())
    {
        guesses.push(line(option, format!("{value}={version}"), rest));
    }
    if let Some((name, version)) = value.split_once(['=', '@', ':']) {
        let version = version.trim_start_matches('=');
        guesses.push(line(option, format!("{name}={version}"), &rest));
    }
    guesses.push(line("--require", value.to_owned(), &rest));
    guesses
}
