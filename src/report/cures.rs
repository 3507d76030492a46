//! Causes of error messages as sentences, and the commands that cure them.

use super::cause_words::words;
use super::doctor_words;
use super::hints::{self, shell_words};
use super::words::{at, family};
use crate::catalog::{CauseKey as Key, PossibleCause, catalog};
use crate::causes::{self, Cause, Certainty};
use crate::diagnose::Message;
use crate::doctor::{Element, Evidence};
use crate::inventory::ReadFault;
use crate::text::show;
use crate::variables;

/// A command to type or an instruction, and the reason to believe in it.
pub(super) struct Cure {
    pub command: String,
    pub why: String,
}

pub(super) fn sentence(cause: &Cause<'_>) -> String {
    named(cause.key, cause.subject.as_deref())
}

/// Returns the sentence of a possible cause of this message, and the cure that does not depend on the machine.
pub fn possible_cause(message: &Message, possible: &PossibleCause) -> (String, &'static str) {
    (named(possible.cause, causes::subject(message, possible)), words(possible.cause).1)
}

fn named(key: Key, subject: Option<&str>) -> String {
    let subject = subject.filter(|subject| *subject != "framework").unwrap_or("the library");
    let name = subject.rsplit('/').next().unwrap_or(subject);
    let known = catalog().family(&name.to_lowercase());
    let shown = match (known, key) {
        (Some(known), _) => family(&known.name).to_owned(),
        (None, Key::NotInstalled | Key::NotOnPath) if catalog().framework_of(name).is_some() => {
            format!("a library of {}", show(name))
        }
        _ => show(name),
    };
    words(key).0.replace("{}", &shown)
}

/// The cures that fit, the best first. `program` is shown as typed.
pub(super) fn cures(cause: &Cause<'_>, program: &[std::ffi::OsString], elements: &[Element]) -> Vec<Cure> {
    let mut cures = Vec::new();
    let mut add = |command: String, why: &str| cures.push(Cure { command, why: why.to_owned() });
    if cause.certainty == Certainty::IsNot {
        return cures;
    }
    if cause.plan_helps {
        add(format!("cudarun {}", shell_words(program)), "the plan does not have this fault");
    }
    if let Some(directory) = &cause.directory_helps {
        let directory = hints::argument(directory.as_os_str());
        let path = variables::LIBRARY_PATH;
        add(format!("export {path}={directory}${{{path}:+:${path}}}"), "");
    }
    if cause.unset_helps {
        let is_path = |one: &&Evidence| matches!(one, Evidence::Element { .. });
        let place = cause.evidence.iter().find(is_path).and_then(|one| match one {
            Evidence::Element { variable, position, .. } => elements
                .iter()
                .find(|element| element.variable == *variable && element.position == *position)
                .and_then(|element| element.set_by.first()),
            _ => None,
        });
        let set = place.map(|line| format!("set in {}", at(&line.path, Some(line.number))));
        add(format!("unset {}", variables::LIBRARY_PATH), &set.unwrap_or_default());
    }
    if let Some(hint) = &cause.hint {
        add(hints::hint(hint), "");
    }
    for finding in &cause.findings {
        if let Some(remedy) = doctor_words::remedy(finding) {
            add(remedy, "");
        }
    }
    for evidence in &cause.evidence {
        // A name without a number may be a script for the linker.
        if let Evidence::Fault { path, fault: ReadFault::NotElf } = evidence
            && !path.as_os_str().as_encoded_bytes().ends_with(b".so")
        {
            add(format!("rm {}", hints::argument(path.as_os_str())), "this file is no library");
        }
    }
    let known = words(cause.key).1;
    if cures.is_empty() && !known.is_empty() {
        cures.push(Cure { command: known.to_owned(), why: String::new() });
    }
    cures
}
