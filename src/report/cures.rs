//! Causes of error messages as sentences, and the commands that cure them.

use super::doctor_words;
use super::hints::{self, shell_words};
use super::words::{at, quoted_to_show};
use crate::catalog::{
    CauseKey as Key, PossibleCause, catalog, cause_words, display_name, knowledge,
};
use crate::causes::{self, Cause, Certainty};
use crate::diagnose::Message;
use crate::doctor::{Element, Evidence};
use crate::inventory::{ReadFault, distribution};
use crate::solve::Hint;
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
    (
        named(possible.cause, causes::subject(message, possible)),
        &cause_words().cause[&possible.cause].cure,
    )
}

fn named(key: Key, subject: Option<&str>) -> String {
    let subject = subject
        .filter(|subject| *subject != "framework")
        .unwrap_or("the library");
    let name = subject.rsplit('/').next().unwrap_or(subject);
    let known = catalog().family(&name.to_lowercase());
    let shown = match (known, key) {
        (Some(known), _) => display_name(&known.name).to_owned(),
        (None, Key::NotInstalled | Key::NotOnPath) if catalog().framework_of(name).is_some() => {
            format!("a library of {}", show(name))
        }
        _ => show(name),
    };
    cause_words().cause[&key].says.replace("{}", &shown)
}

/// The cures that fit, the best first. `program` is shown as typed.
pub(super) fn cures(
    cause: &Cause<'_>,
    program: &[std::ffi::OsString],
    elements: &[Element],
) -> Vec<Cure> {
    let mut cures = Vec::new();
    let mut add = |command: String, why: &str| {
        cures.push(Cure {
            command,
            why: why.to_owned(),
        });
    };
    if cause.certainty == Certainty::IsNot {
        return cures;
    }
    if cause.plan_helps {
        add(
            format!("cudarun {}", shell_words(program)),
            "the plan does not have this fault",
        );
    }
    if let Some(directory) = &cause.directory_helps {
        let directory = hints::argument(directory.as_os_str());
        let path = variables::LIBRARY_PATH;
        add(
            format!("export {path}={directory}${{{path}:+:${path}}}"),
            "",
        );
    }
    if cause.unset_helps {
        let is_path = |one: &&Evidence| matches!(one, Evidence::Element { .. });
        let place = cause
            .evidence
            .iter()
            .find(is_path)
            .and_then(|one| match one {
                Evidence::Element {
                    variable, position, ..
                } => elements
                    .iter()
                    .find(|element| element.variable == *variable && element.position == *position)
                    .and_then(|element| element.set_by.first()),
                _ => None,
            });
        let set = place.map(|line| format!("set in {}", at(&line.path, Some(line.number))));
        add(
            format!("unset {}", variables::LIBRARY_PATH),
            &set.unwrap_or_default(),
        );
    }
    if let Some(hint) = &cause.hint {
        // The solver has checked the hint for a start by cudarun.
        let command = hints::hint(hint);
        match hint {
            Hint::Pip { .. } | Hint::Apt { .. } => {
                add(format!("{command} && cudarun {}", shell_words(program)), "");
            }
            _ => add(command, ""),
        }
    }
    if !cause.to_fetch.is_empty() {
        let why = format!(
            "downloads {}, for cudarun alone",
            super::fetched::summary(&cause.to_fetch)
        );
        add(format!("cudarun --fetch {}", shell_words(program)), &why);
    }
    if let Some(command) = replacement(cause) {
        add(command, "");
    }
    for finding in &cause.findings {
        if let Some(remedy) = doctor_words::remedy(finding) {
            add(remedy, "");
        }
    }
    for evidence in &cause.evidence {
        // A name without a number may be a script for the linker.
        if let Evidence::Fault {
            path,
            fault: ReadFault::NotElf,
        } = evidence
            && !path.as_os_str().as_encoded_bytes().ends_with(b".so")
        {
            add(
                format!("rm {}", hints::argument(path.as_os_str())),
                "this file is not a library",
            );
        }
    }
    let known = &cause_words().cause[&cause.key].cure;
    if cures.is_empty() && !known.is_empty() {
        cures.push(Cure {
            command: known.clone(),
            why: String::new(),
        });
    }
    if let Some(pip) = &cause.pip {
        for cure in &mut cures {
            cure.command = hints::for_python(&cure.command, pip);
        }
    }
    cures
}

/// The commands that install the one right package in place of those that the evidence names, or unset a variable.
fn replacement(cause: &Cause<'_>) -> Option<String> {
    let mut files = cause.evidence.iter().filter_map(|evidence| match evidence {
        Evidence::File { path, text, .. } => Some((path.file_name()?.to_str()?, text)),
        _ => None,
    });
    match cause.key {
        Key::TwoPackages => {
            let named = |(records, version)| {
                let (name, _) = distribution(records)?;
                Some(format!("{name} {version}"))
            };
            let packages: Vec<String> = files.filter_map(named).collect();
            Some(doctor_words::reinstalled(&packages, packages.last()?))
        }
        Key::ToolkitVariable => cause.evidence.iter().find_map(|evidence| match evidence {
            Evidence::Variable { name, .. } => Some(format!("unset {name}")),
            _ => None,
        }),
        Key::PtxasOld => cause
            .tool_variable
            .map(|variable| format!("set {variable} to the ptxas of a newer CUDA toolkit")),
        Key::CpuBuild => {
            let (name, version) = files.find_map(|(_, text)| text.split_once(' '))?;
            let distribution = knowledge().distribution(name)?;
            let version = version.split('+').next()?;
            // A plugin is added to the framework, and has its version; another build replaces it.
            if distribution.ends_with("-plugin") {
                let requirement = format!("{distribution}[with-cuda]=={version}");
                return Some(format!(
                    "pip install {}",
                    quoted_to_show(requirement.as_ref())
                ));
            }
            let requirement = format!("{distribution}~={version}");
            let [name, requirement] =
                [name, &requirement].map(|word| quoted_to_show(word.as_ref()));
            Some(format!("pip uninstall {name}; pip install {requirement}"))
        }
        _ => None,
    }
}
