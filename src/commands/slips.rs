//! The command line that was probably meant by a wrong one. Each correction is only a guess; the first that parses, and
//! whose program is found, is the answer.

use std::ffi::OsString;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::meant;
use crate::cli::{Cli, VERBS, Verb};
use crate::error::Error;
use crate::host::Host;
use crate::program::locate;
use crate::settings::invocation;
use crate::settings::resolve::vocabulary;
use crate::settings::{Setting, Value};
use crate::text::nearest;
use crate::version::Version;

/// Words of other tools, and the words of cudarun.
const FOREIGN: &[(&str, &str)] = &[
    ("version", "--version"),
    ("status", "doctor"),
    ("check", "doctor"),
    ("info", "doctor"),
    ("show", "list"),
    ("libs", "list"),
    ("why", "explain"),
    ("lock", "record"),
    ("exec", "run"),
    ("start", "run"),
];

/// Scripts that a person probably means, if the directory has one.
const SCRIPTS: &[&str] = &["train.py", "main.py", "app.py", "run.py"];

/// Returns the words after `cudarun` that were probably meant, after an error of the command line itself.
pub fn after_usage(host: &Host, error: &clap::Error, arguments: &[OsString]) -> Option<Vec<OsString>> {
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
    if let (Some(wrong), Some(near)) = (text(ContextKind::InvalidValue), text(ContextKind::SuggestedValue))
        && nearest(&wrong, std::iter::once(near.as_str())).is_some()
    {
        let right = |word: &OsString| word.to_str().map(|word| word.replace(&wrong, &near).into());
        guesses.push(words.iter().map(|word| right(word).unwrap_or_else(|| word.clone())).collect());
    }
    if let Some(wrong) = text(ContextKind::InvalidArg)
        && error.kind() == ErrorKind::UnknownArgument
    {
        let is_it =
            |word: &OsString| word.to_str().is_some_and(|word| word.split('=').next() == Some(&wrong));
        let at = words.iter().position(is_it)?;
        let (before, after) = (&words[..at], &words[at + 1..]);
        let bare = wrong.trim_start_matches('-');
        if VERBS.contains(&bare) {
            guesses.push([before, &[bare.into()], after].concat());
        }
        if ["-m", "-c"].contains(&wrong.as_str()) {
            guesses.push([before, &[meant::python(host)?.into()], &words[at..]].concat());
        }
        if let Some((verb, rest)) = after.split_first() {
            guesses.push([before, &[verb.clone(), words[at].clone()], rest].concat());
        }
        guesses.push([before, after].concat());
        guesses.push([before, after.get(1..).unwrap_or_default()].concat());
    }
    guesses.into_iter().find_map(|guess| checked(host, guess))
}

/// Returns the words after `cudarun` that were probably meant, after an error of a command.
pub fn after_error(host: &Host, error: &Error, cli: &Cli, arguments: &[OsString]) -> Option<Vec<OsString>> {
    let words = arguments.get(1..)?;
    let (before, command) = words.split_at(words.len().checked_sub(cli.words().len())?);
    let mut guesses = Vec::new();
    match error {
        Error::NoSuchFamily { name, families } => {
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || ".-".contains(c)).to_lowercase();
            let is_stem = families.iter().copied().find(|family| *family == stem);
            let near = is_stem.or_else(|| nearest(&stem, families.iter().copied()))?;
            let right = |word: &OsString| if word == name.as_str() { near.into() } else { word.clone() };
            guesses.push(words.iter().map(right).collect());
        }
        Error::Setting(_) => guesses.extend(options(before, command)),
        Error::NotFound { name } | Error::NotExecutable { path: name, .. } => {
            guesses.extend(options(before, command));
            let (first, rest) = command.split_first()?;
            let typed = first.to_str().unwrap_or_default();
            let may_be_verb = cli.verb.is_none() && before.last().is_none_or(|word| word != "--");
            if let [verb] = rest
                && may_be_verb
                && VERBS.iter().any(|known| verb == known)
            {
                guesses.push([before, &[verb.clone(), first.clone()]].concat());
            }
            let foreign = FOREIGN.iter().find(|(word, _)| *word == typed).map(|(_, verb)| *verb);
            let near = |typed| nearest(typed, VERBS.iter().copied());
            if let ("help", Some(verb)) = (typed, rest.first().and_then(|word| near(word.to_str()?))) {
                guesses.push([before, &[verb.into(), "--help".into()]].concat());
            }
            if let Some(verb) = foreign.or_else(|| near(typed)).filter(|_| may_be_verb) {
                guesses.push([before, &[verb.into()], rest].concat());
            }
            let file = name.file_name().and_then(|file| file.to_str()).filter(|file| file.contains(".so"));
            if let Some(family) = file.and_then(vocabulary().of_file) {
                guesses.push(vec!["list".into(), family.into()]);
            }
            guesses.push(words.to_vec());
        }
        _ => {}
    }
    guesses.into_iter().find_map(|guess| checked(host, guess)).filter(|guess| guess != words)
}

/// Guesses at `--pin` and `--require`: other signs between name and version, a blank there, a range after `--pin`.
fn options(before: &[OsString], command: &[OsString]) -> Vec<Vec<OsString>> {
    let is_of_set = |word: &&str| ["--pin", "--require"].contains(word);
    let Some(at) = before.iter().rposition(|word| word.to_str().as_ref().is_some_and(is_of_set)) else {
        return Vec::new();
    };
    let Some(value) = before.get(at + 1).and_then(|value| value.to_str()) else { return Vec::new() };
    let rest = [&before[at + 2..], command].concat();
    let line = |option: &str, value: String, rest: &[OsString]| {
        [&before[..at], &[option.into(), value.into()], rest].concat()
    };
    let option = before[at].to_str().unwrap_or_default();
    let mut guesses = Vec::new();
    if let Some((version, rest)) = rest.split_first()
        && let Some(version) = version.to_str().filter(|version| version.parse::<Version>().is_ok())
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

/// Returns the line, with its program corrected, if cudarun takes it.
fn checked(host: &Host, guess: Vec<OsString>) -> Option<Vec<OsString>> {
    let line = std::iter::once(OsString::from("cudarun")).chain(guess.iter().cloned());
    let cli = match Cli::try_parse_from(line).and_then(Cli::settle) {
        Ok(cli) => cli,
        Err(error) => {
            let is_page = matches!(error.kind(), ErrorKind::DisplayVersion | ErrorKind::DisplayHelp);
            return is_page.then_some(guess);
        }
    };
    let layer = invocation::options(&cli.common, cli.wishes(), &vocabulary()).ok()?;
    let is_missing =
        |setting: &Setting| matches!(&setting.value, Value::Directory(path) if !host.is_directory(path));
    let has_other_family = matches!(&cli.verb, Some(Verb::List(list))
        if list.families.iter().any(|family| vocabulary().family(family).is_none()));
    if has_other_family || layer.iter().any(is_missing) {
        return None;
    }
    if cli.words().is_empty() {
        return cli.verb.is_some().then_some(guess);
    }
    let (before, command) = guess.split_at(guess.len() - cli.words().len());
    let command = meant::command(host, command)?;
    locate(host, command.first()?).is_ok().then(|| [before, &command].concat())
}
