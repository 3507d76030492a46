//! The page of `cudarun diagnose`: causes as sentences, and the commands that cure them.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::ptr;
use std::time::Duration;

use super::Style;
use super::doctor;
use super::hints::{self, argument, shell_words};
use super::words::{USED_THE_CPU, counted, quoted_to_show};
use crate::catalog::{Fault, PossibleCause, catalog, display_name, filled, knowledge};
use crate::causes::{self, Cause, Certainty, TextOrigin};
use crate::diagnose::{Chain, Message};
use crate::doctor::{FindingEvidence, JudgedElement, StartupLine};
use crate::inventory::{ReadFault, distribution};
use crate::solve::Hint;
use crate::text::{show, size};
use crate::variables;

/// Causes that are shown whole without `--all` and `-v`, cures of one, and cures and evidence together: with its sentence and its
/// message a cause has at most six lines.
const CAUSES: usize = 2;
const CURES: usize = 2;
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
    pub choice: ProgramChoice,
    pub text_origin: TextOrigin,
    /// False if the program that was run opened no GPU; `None` where nobody can tell.
    pub has_opened_gpu: Option<bool>,
    /// The text and the words after it, if these are no program: a message that was typed without quotes.
    pub whole_message: Option<&'d OsStr>,
    /// Bytes in the middle that were not read.
    pub left_out: u64,
    pub is_empty: bool,
}

/// Why the answer is for this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramChoice {
    /// The user named it, or it was run.
    Named,
    /// The text names a file of its environment.
    ByPath,
    /// Its framework prints the message.
    ByMessage,
    /// Of several that are installed, it has the fault or comes first.
    OfSeveral,
    /// It is the first Python in PATH, with the only framework there or the one that the text names.
    Guessed,
}

impl ProgramChoice {
    /// True if another program may have failed.
    pub fn is_guess(self) -> bool {
        !matches!(self, ProgramChoice::Named | ProgramChoice::ByPath)
    }
}

impl Diagnosis<'_> {
    pub fn is_recognised(&self) -> bool {
        !self.chain.leading.is_empty() || !self.chain.harmless.is_empty()
    }

    /// The cures that fit, the best first. In their commands, a guessed program is a word to replace.
    pub(super) fn cures(&self, cause: &Cause<'_>) -> Vec<Cure> {
        if cause.certainty == Certainty::IsNot {
            return Vec::new();
        }
        let mut cures = self.checked_cures(cause);
        cures.extend(replacement(cause).map(Cure::new));
        let remedies = cause.findings.iter().filter_map(doctor::remedy);
        cures.extend(remedies.map(Cure::new));
        cures.extend(cause.remedies.iter().cloned().map(Cure::new));
        for evidence in &cause.evidence {
            // A name without a number may be a script for the linker.
            if let FindingEvidence::Fault {
                path,
                fault: ReadFault::NotElf,
            } = evidence
                && !path.as_os_str().as_encoded_bytes().ends_with(b".so")
            {
                cures.push(Cure {
                    command: format!("rm {}", hints::argument(path.as_os_str())),
                    why: "this file is not a library".to_owned(),
                });
            }
        }
        // A plan that helps is a cure already.
        let usual = usual_cure(cause.fault, "");
        if cures.is_empty() && !usual.is_empty() {
            cures.push(Cure::new(usual));
        }
        if let Some(pip) = &cause.pip {
            for cure in &mut cures {
                cure.command = hints::for_python(&cure.command, pip);
            }
        }
        cures
    }

    /// The cures of which the models of the solver and the loader say that they help.
    fn checked_cures(&self, cause: &Cause<'_>) -> Vec<Cure> {
        let program = if self.choice.is_guess() {
            "PROGRAM".to_owned()
        } else {
            shell_words(self.program)
        };
        let mut cures = Vec::new();
        if cause.plan_helps {
            cures.push(Cure {
                command: format!("cudarun {program}"),
                why: "the plan does not have this fault".to_owned(),
            });
        }
        if let Some(directory) = &cause.directory_helps {
            let directory = hints::argument(directory.as_os_str());
            let path = variables::LIBRARY_PATH;
            cures.push(Cure::new(format!(
                "export {path}={directory}${{{path}:+:${path}}}"
            )));
        }
        if cause.unset_helps {
            let line = cause.evidence.iter().find_map(|one| self.setter(one));
            cures.push(Cure {
                command: format!("unset {}", variables::LIBRARY_PATH),
                why: line
                    .map(|line| format!("set in {}", doctor::startup_line(line)))
                    .unwrap_or_default(),
            });
        }
        if let Some(hint) = &cause.hint {
            // The solver has checked the hint for a start by cudarun.
            let mut command = hints::hint(hint);
            if let Hint::Pip { .. } | Hint::Apt { .. } = hint {
                command.push_str(&format!(" && cudarun {program}"));
            }
            cures.push(Cure::new(command));
        }
        if !cause.to_fetch.is_empty() {
            cures.push(Cure {
                command: format!("cudarun --fetch {program}"),
                why: format!(
                    "downloads {}, for cudarun alone",
                    super::fetch::summary(&cause.to_fetch)
                ),
            });
        }
        cures
    }

    /// The first line that sets the element of this evidence.
    fn setter(&self, evidence: &FindingEvidence) -> Option<&StartupLine> {
        let FindingEvidence::Element {
            variable, position, ..
        } = evidence
        else {
            return None;
        };
        let mut elements = self.elements.iter();
        let element =
            elements.find(|one| one.variable == *variable && one.position == *position)?;
        element.set_by.first()
    }
}

pub fn diagnosis(diagnosis: &Diagnosis<'_>, all: bool, verbosity: u8, style: Style) -> String {
    if !diagnosis.is_recognised() {
        let (answer, next) = if diagnosis.is_empty {
            (NO_MESSAGE, "cudarun diagnose --text 'MESSAGE'".to_owned())
        } else {
            let next = match &diagnosis.whole_message {
                Some(message) => format!("cudarun diagnose --text {}", argument(message)),
                None => "cudarun doctor".to_owned(),
            };
            ("no known error message is in this text", next)
        };
        return format!("{answer}{}\n{}", remarks(diagnosis), style.next(&next));
    }
    let mut others = Vec::from_iter(diagnosis.causes);
    let shown = shown(diagnosis.causes, all);
    others.retain(|cause| !shown.iter().any(|one| ptr::eq(*one, *cause)));
    let ruled_out = diagnosis
        .causes
        .iter()
        .filter(|cause| cause.certainty == Certainty::IsNot)
        .count();
    let mut text = String::new();
    let mut last_message = None;
    if ruled_out == diagnosis.causes.len() {
        last_message = diagnosis.chain.chosen();
        let chosen = last_message.map(quoted).unwrap_or_default();
        text.push_str(&format!(
            "no known cause of this message fits this machine\n  said  {chosen}\n\n"
        ));
    }
    for cause in shown {
        let is_told = last_message.is_some_and(|message| ptr::eq(message, cause.message));
        text.push_str(&self::cause(
            cause,
            is_told,
            diagnosis,
            all || verbosity > 0,
            style,
        ));
        last_message = Some(cause.message);
    }
    if !diagnosis.chain.leading.is_empty() {
        for harmless in diagnosis.chain.harmless.iter().take(FEW) {
            text.push_str(&format!(
                "{} {}\n",
                style.dim("harmless:"),
                quoted(harmless)
            ));
        }
    }
    others.retain(|cause| cause.certainty != Certainty::IsNot);
    others.sort_by_key(|cause| cause.certainty != Certainty::Is);
    let sentences: Vec<String> = others.into_iter().take(FEW).map(sentence).collect();
    if !sentences.is_empty() {
        text.push_str(&format!("also possible: {}\n", sentences.join("; ")));
    }
    if ruled_out > 0 && !all {
        text.push_str(&format!(
            "{} ruled out: `--all` shows why\n",
            counted(ruled_out, "cause")
        ));
    }
    format!("{}\n{}", text.trim_end(), remarks(diagnosis))
}

/// The causes that are shown whole, in their order: all, or the first certain ones, after the possible ones that come before
/// them, since those are of messages that explain the failure better.
fn shown<'c, 'm>(causes: &'c [Cause<'m>], all: bool) -> Vec<&'c Cause<'m>> {
    if all {
        return causes.iter().collect();
    }
    let certain = causes
        .iter()
        .filter(|cause| cause.certainty == Certainty::Is);
    let certain: Vec<&Cause<'m>> = certain.take(CAUSES).collect();
    let before = causes
        .iter()
        .take_while(|cause| cause.certainty == Certainty::MayBe)
        .take(CAUSES - certain.len());
    before.chain(certain.iter().copied()).collect()
}

/// The limits of the answer.
fn remarks(diagnosis: &Diagnosis<'_>) -> String {
    let mut text = String::new();
    let is_elsewhere = diagnosis.text_origin == TextOrigin::Elsewhere;
    if diagnosis.choice.is_guess() && !is_elsewhere {
        let why = match diagnosis.choice {
            ProgramChoice::ByMessage => ": its framework prints such a message",
            ProgramChoice::OfSeveral if diagnosis.causes.iter().any(Cause::is_of_program) => {
                ": of the frameworks here, it has the fault"
            }
            ProgramChoice::OfSeveral => ": its framework is the most common here",
            _ => "",
        };
        let about = match diagnosis.program {
            [] => "no program is named".to_owned(),
            words => format!(
                "no program is named, so the answer is for `{}`{why}",
                shell_words(words)
            ),
        };
        text.push_str(&format!(
            "\n{about}; add the program that failed to the end of the command\n"
        ));
    }
    if is_elsewhere {
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
        Certainty::MayBe if cause.is_not_here => style.warning(&format!(
            "it may be, though not on this machine: {sentence}"
        )),
        Certainty::MayBe => style.warning(&format!("it may be: {sentence}")),
        Certainty::IsNot => style.dim(&format!("it is not: {sentence}")),
    };
    let mut rows = Vec::new();
    if !is_told {
        rows.push(vec!["said".to_owned(), quoted(cause.message)]);
    }
    let mut cures = diagnosis.cures(cause);
    let mut shown = cause.evidence.len();
    if !all {
        cures.truncate(CURES);
        shown = shown.min(FEW - cures.len());
    }
    for (place, evidence) in cause.evidence[..shown].iter().enumerate() {
        let (at, says) = doctor::evidence(evidence);
        let others = match cause.evidence.len() - shown {
            others if others > 0 && place + 1 == shown => format!(", and {others} more"),
            _ => String::new(),
        };
        rows.push(vec![
            if place == 0 { "here" } else { "" }.to_owned(),
            format!("{at}  {says}{others}"),
        ]);
    }
    let mut text = format!("{title}\n{}", style.columns("  ", &rows));
    for (place, cure) in cures.iter().enumerate() {
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
fn quoted(message: &Message) -> String {
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

/// A program for a GPU has worked without one.
pub fn unused_gpu(words: &[OsString], style: Style) -> String {
    let (note, hint, words) = (
        style.warning("note:"),
        style.hint("hint:"),
        shell_words(words),
    );
    format!(
        "\n{note} {USED_THE_CPU}\n{hint} cudarun verify {words} tells whether its libraries can use the GPU; if they can, the program chose the CPU\n"
    )
}

/// A program for a GPU runs for long without one.
pub fn unused_so_far(style: Style) -> String {
    let note = style.warning("note:");
    format!("{note} the program has opened no GPU in its first minute: so far, it uses the CPU\n")
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
        quoted(message)
    )
}

/// A command to type or an instruction, and the reason to believe in it.
pub(super) struct Cure {
    pub(super) command: String,
    pub(super) why: String,
}

impl Cure {
    /// A command that speaks for itself.
    fn new(command: String) -> Cure {
        Cure {
            command,
            why: String::new(),
        }
    }
}

/// The sentence of doctor's finding, which has the facts, or a general one.
pub(super) fn sentence(cause: &Cause<'_>) -> String {
    let mut findings = cause.findings.iter();
    match findings.find(|finding| finding.fault == cause.fault) {
        Some(finding) => doctor::sentence(finding),
        None => sentence_about(cause.fault, cause.subject.as_deref()),
    }
}

/// The sentence of a possible cause of this message, and the cure that does not depend on the machine.
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
    let shown = if let Some(family) = catalog().family(&name.to_lowercase()) {
        display_name(&family.name).to_owned()
    } else if matches!(fault, Fault::NotInstalled | Fault::NotOnPath)
        && catalog().framework_of(name).is_some()
    {
        format!("a library of {}", show(name))
    } else {
        show(name)
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
            let mut packages = Vec::new();
            for (records, version) in files {
                if let Some((name, _)) = distribution(records) {
                    packages.push(format!("{name} {version}"));
                }
            }
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

fn pip_install(requirement: &str) -> String {
    format!("pip install {}", quoted_to_show(requirement.as_ref()))
}
