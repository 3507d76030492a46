//! The page of `cudarun diagnose`, and its JSON: causes as sentences, and the commands that cure them.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::ptr;
use std::time::Duration;

use serde_json::{Value, json};

use super::Style;
use super::doctor;
use super::extensions::pip_install;
use super::hints::{self, shell_words};
use super::json::finish;
use super::words::{at, counted, quoted_to_show, word};
use crate::catalog::{Fault, PossibleCause, catalog, display_name, filled, knowledge};
use crate::causes::{self, Cause, Certainty};
use crate::diagnose::{Chain, Message};
use crate::doctor::{Finding, FindingEvidence, JudgedElement};
use crate::inventory::{ReadFault, distribution};
use crate::solve::Hint;
use crate::text::{show, size};
use crate::variables;

/// Causes that are shown whole, and lines of evidence of one, without `--all` and `-v`.
const CAUSES: usize = 2;
const FEW: usize = 4;

/// The explanation of a text.
#[derive(Clone, Copy)]
pub struct Diagnosis<'d> {
    pub chain: &'d Chain,
    pub causes: &'d [Cause<'d>],
    /// The elements of the search paths, with the lines that set them.
    pub elements: &'d [JudgedElement],
    /// The program that was looked at.
    pub program: &'d [OsString],
    /// The user did not name the program, and neither does the text.
    pub is_program_guessed: bool,
    /// The text names paths that are not here, or a message is from a machine with a driver or a GPU that this one lacks.
    pub is_elsewhere: bool,
    /// Bytes in the middle that were not read.
    pub left_out: u64,
    pub is_empty: bool,
}

impl Diagnosis<'_> {
    pub fn is_recognised(&self) -> bool {
        !self.chain.leading.is_empty() || !self.chain.harmless.is_empty()
    }

    /// The cures that fit, the best first. In their commands, a guessed program is a word to replace.
    fn cures(&self, cause: &Cause<'_>) -> Vec<Cure> {
        let program = if self.is_program_guessed {
            "PROGRAM".to_owned()
        } else {
            shell_words(self.program)
        };
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
                format!("cudarun {program}"),
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
            let place = cause.evidence.iter().find_map(|one| match one {
                FindingEvidence::Element {
                    variable, position, ..
                } => {
                    let is_it = |element: &&JudgedElement| {
                        element.variable == *variable && element.position == *position
                    };
                    self.elements.iter().find(is_it)?.set_by.first()
                }
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
                    add(format!("{command} && cudarun {program}"), "");
                }
                _ => add(command, ""),
            }
        }
        if !cause.to_fetch.is_empty() {
            let why = format!(
                "downloads {}, for cudarun alone",
                super::fetch::summary(&cause.to_fetch)
            );
            add(format!("cudarun --fetch {program}"), &why);
        }
        if let Some(command) = replacement(cause) {
            add(command, "");
        }
        for finding in &cause.findings {
            if let Some(remedy) = doctor::remedy(finding) {
                add(remedy, "");
            }
        }
        for remedy in &cause.remedies {
            add(remedy.clone(), "");
        }
        for evidence in &cause.evidence {
            // A name without a number may be a script for the linker.
            if let FindingEvidence::Fault {
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
        // A plan that helps is a cure already.
        let usual = usual_cure(cause.fault, "");
        if cures.is_empty() && !usual.is_empty() {
            cures.push(Cure {
                command: usual,
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
}

pub fn diagnosis(diagnosis: &Diagnosis<'_>, all: bool, verbosity: u8, style: Style) -> String {
    if !diagnosis.is_recognised() {
        if diagnosis.is_empty {
            let next = style.next("cudarun diagnose --text 'MESSAGE'");
            return format!("{NO_MESSAGE}{}\n{next}", remarks(diagnosis));
        }
        return format!(
            "no known error message is in this text{}\n{}",
            remarks(diagnosis),
            style.next("cudarun doctor")
        );
    }
    let is_ruled_out = |cause: &&Cause<'_>| cause.certainty == Certainty::IsNot;
    let ruled_out = diagnosis.causes.iter().filter(is_ruled_out).count();
    let shown = shown(diagnosis.causes, all);
    let is_shown = |cause: &&Cause<'_>| shown.iter().any(|one| ptr::eq(*one, *cause));
    let mut text = String::new();
    let mut told = None;
    if ruled_out == diagnosis.causes.len() {
        told = diagnosis.chain.chosen();
        let chosen = told.map(said).unwrap_or_default();
        text.push_str(&format!(
            "no known cause of this message fits this machine\n  said  {chosen}\n\n"
        ));
    }
    for cause in diagnosis.causes.iter().filter(|cause| is_shown(cause)) {
        let is_told = told.is_some_and(|message| ptr::eq(message, cause.message));
        text.push_str(&self::cause(
            cause,
            is_told,
            diagnosis,
            all || verbosity > 0,
            style,
        ));
        told = Some(cause.message);
    }
    if !diagnosis.chain.leading.is_empty() {
        for harmless in diagnosis.chain.harmless.iter().take(FEW) {
            text.push_str(&format!("{} {}\n", style.dim("harmless:"), said(harmless)));
        }
    }
    let listed = |certainty| {
        let others = diagnosis.causes.iter().filter(|cause| !is_shown(cause));
        others.filter(move |cause| cause.certainty == certainty)
    };
    let others: Vec<String> = listed(Certainty::Is)
        .chain(listed(Certainty::MayBe))
        .take(FEW)
        .map(sentence)
        .collect();
    if !others.is_empty() {
        text.push_str(&format!("also possible: {}\n", others.join("; ")));
    }
    if ruled_out > 0 && !all {
        text.push_str(&format!(
            "{} ruled out: `--all` shows why\n",
            counted(ruled_out, "cause")
        ));
    }
    format!("{}\n{}", text.trim_end(), remarks(diagnosis))
}

/// The causes that are shown whole: all, or the first certain ones, after the possible ones that come before them, since those are
/// of messages that explain the failure better.
fn shown<'c, 'm>(causes: &'c [Cause<'m>], all: bool) -> Vec<&'c Cause<'m>> {
    if all {
        return causes.iter().collect();
    }
    let is_certain = |cause: &&Cause<'_>| cause.certainty == Certainty::Is;
    let certain = causes.iter().filter(is_certain).take(CAUSES);
    let certain: Vec<&Cause<'m>> = certain.collect();
    let before = causes
        .iter()
        .take_while(|cause| cause.certainty == Certainty::MayBe)
        .take(CAUSES - certain.len());
    before.chain(certain.iter().copied()).collect()
}

/// The limits of the answer.
fn remarks(diagnosis: &Diagnosis<'_>) -> String {
    let mut text = String::new();
    if diagnosis.is_program_guessed && !diagnosis.is_elsewhere {
        let about = match diagnosis.program {
            [] => "no program is named".to_owned(),
            words => format!(
                "no program is named, so the answer is for `{}`",
                shell_words(words)
            ),
        };
        text.push_str(&format!(
            "\n{about}: add the program that failed to the end of the command\n"
        ));
    }
    if diagnosis.is_elsewhere {
        text.push_str("\nthe message is from another machine: run this command there, or `cudarun doctor --save FILE` there and this command with `--node FILE` here\n");
    }
    if diagnosis.left_out > 0 {
        let size = size(diagnosis.left_out);
        text.push_str(&format!(
            "\nthe text is long: {size} in its middle were not read\n"
        ));
    }
    text
}

fn cause(
    cause: &Cause<'_>,
    is_told: bool,
    diagnosis: &Diagnosis<'_>,
    all: bool,
    style: Style,
) -> String {
    let sentence = self::sentence(cause);
    let title = match cause.certainty {
        Certainty::Is => style.error(&format!("it is: {sentence}")),
        Certainty::MayBe => style.warning(&format!("it may be: {sentence}")),
        Certainty::IsNot => style.dim(&format!("it is not: {sentence}")),
    };
    let mut rows = Vec::new();
    if !is_told {
        rows.push(vec!["said".to_owned(), said(cause.message)]);
    }
    let shown = if all {
        cause.evidence.len()
    } else {
        cause.evidence.len().min(FEW)
    };
    for (place, evidence) in cause.evidence[..shown].iter().enumerate() {
        let (at, says) = doctor::evidence(evidence);
        rows.push(vec![
            if place == 0 { "here" } else { "" }.to_owned(),
            format!("{at}  {says}"),
        ]);
    }
    if shown < cause.evidence.len() {
        rows.push(vec![
            String::new(),
            format!("and {} more", cause.evidence.len() - shown),
        ]);
    }
    let mut text = format!("{title}\n{}", style.columns("  ", &rows));
    let cures = diagnosis.cures(cause);
    let shown = if all { cures.len() } else { cures.len().min(2) };
    for (place, cure) in cures[..shown].iter().enumerate() {
        let label = if place == 0 { "do:" } else { "or:" };
        let why = if cure.why.is_empty() {
            String::new()
        } else {
            format!("  ({})", cure.why)
        };
        let command = style.on_node(&cure.command);
        text.push_str(&format!("  {} {command}{why}\n", style.hint(label)));
    }
    text + "\n"
}

/// The matched text, its line, and how many processes say so.
pub(super) fn said(message: &Message) -> String {
    let speakers = message.speakers.len();
    let many = if speakers > 1 {
        format!(", {speakers} processes say so")
    } else {
        String::new()
    };
    format!("{}  (line {}{many})", message.excerpt, message.first)
}

/// The end of a program that was run.
pub fn ended(program: &OsStr, status: ExitStatus) -> String {
    let name = show(Path::new(program).file_name().unwrap_or(program));
    match (status.code(), status.signal()) {
        (Some(0), _) => format!("{name} ended with status 0, but it may have run without the GPU"),
        (Some(code), _) => format!("{name} ended with status {code}"),
        (None, signal) => format!("signal {} ended {name}", signal.unwrap_or_default()),
    }
}

pub fn unknown_failure(program: &OsStr, status: ExitStatus, style: Style) -> String {
    let (ended, next) = (ended(program, status), style.hint("next:"));
    format!("\n{ended}; its standard error has no known error message\n{next} cudarun doctor\n")
}

/// The answer to a text without a visible character.
const NO_MESSAGE: &str =
    "no message was given: type it, or send a log with `PROGRAM 2>&1 | cudarun diagnose`";

/// A pipe brought nothing in this time.
pub fn silent_input(waited: Duration) -> String {
    format!(
        "nothing arrived on standard input within {} seconds, so the program is started; to wait for a log: `… | cudarun diagnose --from - PROGRAM`",
        waited.as_secs()
    )
}

/// A text in which nothing is known came in the place of the program's input.
pub fn not_started(program: &[OsString]) -> String {
    let program = shell_words(program);
    format!(
        "standard input is taken for the log of `{program}`, which is not started. To start it: `cudarun diagnose {program} </dev/null`, or with that input `CUDARUN_ON_FAILURE=diagnose cudarun {program}`"
    )
}

/// One line about a program that has worked without a GPU.
pub fn on_the_cpu(message: &Message) -> String {
    format!(
        "\nharmless: {}; this machine has no GPU, so the program ran on the CPU\n",
        said(message)
    )
}

pub fn diagnosis_json(diagnosis: &Diagnosis<'_>) -> String {
    let said = |message: &Message| {
        json!({
            "text": message.excerpt,
            "line": message.first,
            "count": message.count,
            "processes": message.speakers.len(),
            "message": message.row.id,
        })
    };
    let cause = |cause: &Cause<'_>| {
        let evidence = cause.evidence.iter().map(|evidence| {
            let (at, says) = doctor::evidence(evidence);
            json!({ "at": at, "says": says })
        });
        let cures = diagnosis.cures(cause);
        let cures = cures
            .into_iter()
            .map(|cure| json!({ "do": cure.command, "why": cure.why }));
        json!({
            "cause": word(&cause.fault),
            "certainty": cause.certainty,
            "what": sentence(cause),
            "said": said(cause.message),
            "evidence": evidence.collect::<Vec<Value>>(),
            "cures": cures.collect::<Vec<Value>>(),
        })
    };
    finish(json!({
        "recognised": diagnosis.is_recognised(),
        "causes": diagnosis.causes.iter().map(cause).collect::<Vec<_>>(),
        "harmless": diagnosis.chain.harmless.iter().map(said).collect::<Vec<_>>(),
        "program": shell_words(diagnosis.program),
        "elsewhere": diagnosis.is_elsewhere,
        "left_out": diagnosis.left_out,
    }))
}

/// A command to type or an instruction, and the reason to believe in it.
struct Cure {
    command: String,
    why: String,
}

/// The sentence of doctor's finding, which has the facts, or a general one.
fn sentence(cause: &Cause<'_>) -> String {
    let own = |finding: &&Finding| finding.fault == cause.fault;
    match cause.findings.iter().find(own) {
        Some(finding) => doctor::sentence(finding),
        None => sentence_about(cause.fault, cause.subject.as_deref()),
    }
}

/// Returns the sentence of a possible cause of this message, and the cure that does not depend on the machine.
pub fn possible_cause(message: &Message, possible: &PossibleCause) -> (String, String) {
    (
        sentence_about(possible.cause, causes::subject(message, possible)),
        usual_cure(possible.cause, "start with cudarun, or "),
    )
}

fn usual_cure(fault: Fault, cudarun: &str) -> String {
    let texts = [
        ("reinstall", doctor::reinstall(&[])),
        ("cudarun", cudarun.to_owned()),
    ];
    filled(&fault.row().cure, &texts).0
}

fn sentence_about(fault: Fault, subject: Option<&str>) -> String {
    let subject = subject
        .filter(|subject| *subject != "framework")
        .unwrap_or("the library");
    let name = subject.rsplit('/').next().unwrap_or(subject);
    let known = catalog().family(&name.to_lowercase());
    let shown = match (known, fault) {
        (Some(known), _) => display_name(&known.name).to_owned(),
        (None, Fault::NotInstalled | Fault::NotOnPath)
            if catalog().framework_of(name).is_some() =>
        {
            format!("a library of {}", show(name))
        }
        _ => show(name),
    };
    fault.sentence_about(&shown)
}

/// The commands that install the one right package in place of those that the evidence names, or unset a variable.
fn replacement(cause: &Cause<'_>) -> Option<String> {
    let mut files = cause.evidence.iter().filter_map(|evidence| match evidence {
        FindingEvidence::File { path, text, .. } => Some((path.file_name()?.to_str()?, text)),
        _ => None,
    });
    match cause.fault {
        Fault::ClaimedTwice => {
            let named = |(records, version)| {
                let (name, _) = distribution(records)?;
                Some(format!("{name} {version}"))
            };
            let packages: Vec<String> = files.filter_map(named).collect();
            Some(doctor::reinstalled(&packages, packages.last()?))
        }
        Fault::ToolkitVariable => cause.evidence.iter().find_map(|evidence| match evidence {
            FindingEvidence::Variable { name, .. } => Some(format!("unset {name}")),
            _ => None,
        }),
        Fault::PtxasOld => cause
            .tool_variable
            .map(|variable| format!("set {variable} to the ptxas of a newer CUDA toolkit")),
        Fault::CpuBuild => {
            let (name, version) = files.find_map(|(_, text)| text.split_once(' '))?;
            let distribution = knowledge().distribution(name)?;
            let version = version.split('+').next()?;
            // A plugin is added to the framework, and has its version; another build replaces it.
            if distribution.ends_with("-plugin") {
                let requirement = format!("{distribution}[with-cuda]=={version}");
                return Some(pip_install(&requirement));
            }
            let install = pip_install(&format!("{distribution}~={version}"));
            let name = quoted_to_show(name.as_ref());
            Some(format!("pip uninstall {name}; {install}"))
        }
        _ => None,
    }
}
