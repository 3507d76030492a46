//! Which causes the messages of a log have here, the most certain first.

use std::path::{Path, PathBuf};

use super::cause::{Cause, Certainty};
use super::checks::is_of_doctor;
use super::facts::{CheckContext, Facts, LoaderStart, NamedLibrary, TextOrigin};
use super::library_checks::parse_version;
use crate::builds::compilers;
use crate::catalog::{Capture, Family, Fault, PossibleCause, States};
use crate::diagnose::{Captures, Chain, Message};
use crate::doctor::{Detail, Finding, FindingEvidence};
use crate::environment::{Environment, join_elements, library_path_elements};
use crate::formats::names;
use crate::inventory::{Extension, Installation, Inventory, Origin, PartKind};
use crate::predict::{self, Prediction};
use crate::requirements::{Asker, LibraryRequirement, Want};
use crate::solve::{self, Hint, Lack, MissingWheel, Outcome};
use crate::variables;

/// Checks the causes of the messages that explain a failure best; of harmless ones where there are no others. Equal causes
/// are one.
pub fn causes<'m>(facts: &Facts<'_, '_>, chain: &'m Chain) -> Vec<Cause<'m>> {
    let planned_start = start_as_planned(facts);
    let start_without_path = start_without_library_path(facts);
    rank(chain, |message, possible| {
        let mut cause = check_cause(facts, message, possible);
        if cause.certainty != Certainty::IsNot {
            let planned_start = planned_start.as_ref();
            add_remedies(
                facts,
                possible,
                planned_start,
                start_without_path.as_ref(),
                &mut cause,
            );
        }
        cause
    })
}

/// Adds what would remove the cause.
fn add_remedies<'h>(
    facts: &Facts<'_, 'h>,
    possible: &PossibleCause,
    planned_start: Option<&LoaderStart<'h>>,
    start_without_path: Option<&LoaderStart<'h>>,
    cause: &mut Cause<'_>,
) {
    let message = cause.message;
    cause.plan_helps = planned_start
        .is_some_and(|start| is_removed(facts.context(start, true), message, possible));
    cause.unset_helps = start_without_path.is_some_and(|start| {
        cause.fault == Fault::PathPoisons
            || is_removed(facts.context(start, false), message, possible)
    });
    if cause.fault == Fault::NotOnPath
        && !cause.plan_helps
        && let Some(directory) = directory_of_copy(cause)
        && is_removed(
            facts.context(&start_with_directory(facts, &directory), false),
            message,
            possible,
        )
    {
        cause.directory_helps = Some(directory);
    }
    if cause.plan_helps || cause.unset_helps || cause.directory_helps.is_some() {
        return;
    }
    let unfit: Vec<Extension> = cause.findings.iter().filter_map(unfit_extension).collect();
    if !unfit.is_empty() {
        let pip = facts.program.pip.clone();
        cause.hint = Some(Hint::FittingBuilds { pip, unfit });
    }
    if let Some(library) = library_to_install(cause) {
        let wheels = wheels_to_fetch(facts, &library);
        cause.hint = solver_hint(facts, message, &library);
        cause.to_fetch = wheels;
    }
}

/// The module of a finding, whose package has a build that fits.
fn unfit_extension(finding: &Finding) -> Option<Extension> {
    match &finding.detail {
        Detail::Extension { first, .. } => Some(first.clone()),
        _ => None,
    }
}

/// A finding of `doctor` on another machine.
pub struct FoundElsewhere {
    pub reported: Fault,
    /// The same, or one that `doctor` does not report beside it.
    pub holds: Fault,
    /// With another than its usual severity it confirms itself, but nothing of which it is a case.
    pub is_milder: bool,
    pub evidence: Vec<FindingEvidence>,
    pub remedy: Option<String>,
}

/// The causes on a machine of which only the findings of `doctor` are known: what they do not answer is unknown.
pub fn causes_found<'m>(findings: &[FoundElsewhere], chain: &'m Chain) -> Vec<Cause<'m>> {
    rank(chain, |message, possible| {
        cause_found(findings, message, possible)
    })
}

fn cause_found<'m>(
    findings: &[FoundElsewhere],
    message: &'m Message,
    possible: &PossibleCause,
) -> Cause<'m> {
    let fault = possible.cause;
    let mut cause = Cause::unknown(message, possible);
    let mut is_confirmed = is_stated(possible, &message.captures);
    for finding in findings {
        let is_case = !finding.is_milder && fault.row().cases.contains(&finding.holds);
        if !is_of_doctor(fault) || (finding.holds != fault && !is_case) {
            continue;
        }
        is_confirmed |= !possible.unsure;
        cause.evidence.extend(finding.evidence.iter().cloned());
        cause.remedies.extend(finding.remedy.clone());
        // As in `check_cause`.
        if finding.reported == Fault::NoGpu {
            cause.fault = Fault::NoGpu;
        }
    }
    if is_confirmed {
        cause.certainty = Certainty::Is;
    }
    cause
}

/// Checks each possible cause of the messages that matter, and sorts the causes. Of equal ones the most certain counts.
fn rank<'m>(
    chain: &'m Chain,
    check: impl Fn(&'m Message, &'m PossibleCause) -> Cause<'m>,
) -> Vec<Cause<'m>> {
    let messages = if chain.leading.is_empty() {
        &chain.harmless
    } else {
        &chain.leading
    };
    let mut causes: Vec<Cause<'m>> = Vec::new();
    for message in messages {
        for possible in message.possible_causes() {
            let cause = check(message, possible);
            match causes.iter_mut().find(|other| other.fault == cause.fault) {
                None => causes.push(cause),
                Some(other) if cause.certainty < other.certainty => *other = cause,
                Some(_) => {}
            }
        }
    }
    // A warning seldom ends a program; another message explains the failure better.
    causes.sort_by_key(|cause| {
        (
            cause.certainty == Certainty::IsNot,
            cause.message.is_warning,
            cause.certainty,
        )
    });
    causes
}

/// True if the message that explains a failure best comes from a machine with a part that this one lacks.
pub fn contradicts(inventory: &Inventory, chain: &Chain) -> bool {
    let Some(message) = chain.chosen() else {
        return false;
    };
    match message.row.states {
        Some(States::Driver) => {
            let mut installations = inventory.installations.iter();
            inventory.driver.is_none() && !installations.any(Installation::is_driver)
        }
        Some(States::Gpu) => inventory.is_without_gpu(),
        None => false,
    }
}

fn check_cause<'m>(
    facts: &Facts<'_, '_>,
    message: &'m Message,
    possible: &PossibleCause,
) -> Cause<'m> {
    let answer = facts.failed_context().check(possible, &message.captures);
    let mut cause = Cause::unknown(message, possible);
    cause.pip.clone_from(&facts.program.pip);
    if possible.cause == Fault::PtxasOld {
        cause.tool_variable =
            compilers::variable_for(facts.program, facts.inventory, PartKind::Ptxas);
    }
    if is_stated(possible, &message.captures) {
        cause.certainty = Certainty::Is;
    }
    let Some(answer) = answer else {
        return cause;
    };
    let is_of_here = facts.text_origin == TextOrigin::Here;
    if answer.is_confirmed && !possible.unsure {
        cause.certainty = Certainty::Is;
    } else if !answer.is_confirmed && possible.stated && is_of_here {
        // The program that is named has not what its message says: it was another one's, or it was mended since.
        cause.certainty = Certainty::MayBe;
    } else if !answer.is_confirmed && !possible.stated {
        cause.is_not_here = !is_of_here;
        if is_of_here {
            cause.certainty = Certainty::IsNot;
        }
    }
    for evidence in answer.evidence {
        if !cause.evidence.contains(&evidence) {
            cause.evidence.push(evidence);
        }
    }
    // Such a machine has no driver either, and a container on it has no GPU; the cause of both is one.
    let mut findings = answer.findings.iter();
    if findings.any(|finding| finding.fault == Fault::NoGpu) {
        cause.fault = Fault::NoGpu;
    }
    cause.findings = answer.findings;
    cause
}

/// True if the message itself says that it is this cause, which then holds wherever it is asked. The versions that it names may
/// say something else.
fn is_stated(possible: &PossibleCause, captures: &Captures) -> bool {
    let version = |capture| parse_version(captures.get(capture)?, None);
    let wanted = version(Capture::Wanted);
    let contradicts = match possible.cause {
        Fault::OlderFirst => version(Capture::Found) >= wanted,
        Fault::ToolkitMismatch => version(Capture::Cuda) == wanted,
        _ => false,
    };
    possible.stated && !possible.unsure && !(wanted.is_some() && contradicts)
}

impl<'m> Cause<'m> {
    /// True for what is certain about the program and not about the machine.
    pub fn is_of_program(&self) -> bool {
        self.certainty == Certainty::Is && self.findings.is_empty() && !self.evidence.is_empty()
    }

    /// A cause of which nothing is known here.
    fn unknown(message: &'m Message, possible: &PossibleCause) -> Cause<'m> {
        Cause {
            fault: possible.cause,
            certainty: Certainty::MayBe,
            is_not_here: false,
            message,
            subject: subject(message, possible).map(str::to_owned),
            evidence: Vec::new(),
            findings: Vec::new(),
            remedies: Vec::new(),
            hint: None,
            to_fetch: Vec::new(),
            tool_variable: None,
            pip: None,
            plan_helps: false,
            directory_helps: None,
            unset_helps: false,
        }
    }
}

/// The library, file, version or tool that a possible cause is about.
pub fn subject<'m>(message: &'m Message, possible: &'m PossibleCause) -> Option<&'m str> {
    message.captures.argument(possible.of.as_ref()?)
}

/// True if the check confirms the cause in the environment of the failure, and rules it out in this one.
fn is_removed(
    context: CheckContext<'_, '_, '_>,
    message: &Message,
    possible: &PossibleCause,
) -> bool {
    let failed = context.facts.failed_context();
    let before = failed.check(possible, &message.captures);
    before.is_some_and(|answer| answer.is_confirmed)
        && context
            .check(possible, &message.captures)
            .is_some_and(|answer| !answer.is_confirmed)
}

/// The program's start with what cudarun would give to it; none if it had that, or if there is no such thing.
fn start_as_planned<'h>(facts: &Facts<'_, 'h>) -> Option<LoaderStart<'h>> {
    if facts.is_pinned {
        return None;
    }
    let prediction = match &facts.decision.pinned {
        Some(pinned) => &pinned.after,
        None if facts.compilers.supplied.is_empty() => return None,
        None => &facts.failed.prediction,
    };
    Some(LoaderStart {
        searcher: facts.failed.searcher.clone(),
        prediction: prediction.clone(),
    })
}

/// The program's start without `LD_LIBRARY_PATH`, where that is set; none if it would lack a file that it has now, or if
/// the failed start was cudarun's.
fn start_without_library_path<'h>(facts: &Facts<'_, 'h>) -> Option<LoaderStart<'h>> {
    if facts.is_pinned {
        return None;
    }
    let mut env = facts.host.env.clone();
    env.non_empty(variables::LIBRARY_PATH)?;
    env.remove(variables::LIBRARY_PATH.as_ref());
    let start = start_in(facts, &env);
    let missing = start.prediction.missing.iter();
    let names = missing
        .map(|missing| &missing.name)
        .chain(facts.program.loads.iter().map(|load| &load.name));
    for name in names {
        if maps(&facts.failed.prediction, name) && !maps(&start.prediction, name) {
            return None;
        }
    }
    Some(start)
}

fn maps(prediction: &Prediction, name: &str) -> bool {
    prediction.files.iter().any(|file| file.name == name)
}

/// The directory of the first copy that the cause shows and that the person may use. Only cudarun may use its own store.
fn directory_of_copy(cause: &Cause<'_>) -> Option<PathBuf> {
    for evidence in &cause.evidence {
        if let FindingEvidence::Installation(copy) = evidence
            && copy.origin != Origin::Fetched
        {
            return Some(copy.directory.clone());
        }
    }
    None
}

fn start_with_directory<'h>(facts: &Facts<'_, 'h>, directory: &Path) -> LoaderStart<'h> {
    let mut env = facts.host.env.clone();
    let mut elements = vec![directory.into()];
    if let Some(value) = env.get(variables::LIBRARY_PATH) {
        elements.extend(library_path_elements(value));
    }
    let value = join_elements(elements.iter().map(AsRef::as_ref));
    env.set(variables::LIBRARY_PATH, value);
    start_in(facts, &env)
}

fn start_in<'h>(facts: &Facts<'_, 'h>, env: &Environment) -> LoaderStart<'h> {
    let searcher = facts.failed.searcher.within(env, None);
    let prediction = predict::predict(&searcher, facts.program, facts.inventory);
    LoaderStart {
        searcher,
        prediction,
    }
}

/// The library that may have to be installed.
fn library_to_install<'c>(cause: &'c Cause<'_>) -> Option<NamedLibrary<'c>> {
    match cause.fault {
        Fault::NotInstalled
        | Fault::OtherMajor
        | Fault::OlderFirst
        | Fault::Incomplete
        | Fault::Builtins
        | Fault::Mixed => Some(NamedLibrary::new(cause.subject.as_deref()?)),
        _ => None,
    }
}

/// The wheels that the program lacks, if the library is of one of them.
fn wheels_to_fetch(facts: &Facts<'_, '_>, library: &NamedLibrary<'_>) -> Vec<MissingWheel> {
    let Some(family) = library.family() else {
        return Vec::new();
    };
    let lack = solve::lack(
        &facts.decision.outcome,
        facts.inventory,
        facts.program,
        &facts.policy,
    );
    match lack {
        Lack::Wheels(wheels)
            if wheels
                .iter()
                .any(|wheel| family.is_wheel(&wheel.distribution)) =>
        {
            wheels
        }
        _ => Vec::new(),
    }
}

/// The solver's hint: of the program's own requirements if they conflict, else of a requirement of the library that the
/// message names.
fn solver_hint(
    facts: &Facts<'_, '_>,
    message: &Message,
    library: &NamedLibrary<'_>,
) -> Option<Hint> {
    let family = library.family()?;
    if let Outcome::Conflict(conflict) = &facts.decision.outcome {
        let mut unmet = conflict.unmet.iter();
        return if unmet.any(|unmet| unmet.family == family.name) {
            conflict.hint.clone()
        } else {
            None
        };
    }
    let want = message_want(&message.captures, library, family)?;
    let asker = Asker::person("the message", PathBuf::new(), None);
    let mut program = facts.program.clone();
    program.require([LibraryRequirement::of_person(&family.name, want, asker)]);
    match solve::solve(facts.inventory, &program, &facts.policy) {
        Outcome::Conflict(conflict) => conflict.hint,
        _ => None,
    }
}

/// The name or the version of a library that a message asks for.
fn message_want(captures: &Captures, library: &NamedLibrary<'_>, family: &Family) -> Option<Want> {
    let name = match library {
        NamedLibrary::File { name, .. } => Some(*name),
        _ => captures.get(Capture::Soname).filter(|name| {
            let own = NamedLibrary::new(name).family();
            own.is_some_and(|own| own.name == family.name)
        }),
    };
    let Some(name) = name else {
        let version = parse_version(captures.get(Capture::Wanted)?, Some(family))?;
        return Some(Want::AtLeast(version));
    };
    let (stem, suffix) = names::split(name)?;
    if family.soname_is_version {
        let number = suffix.split('.').next()?;
        return Some(Want::Name(format!("{}.so.{number}", family.main)));
    }
    Some(Want::Name(format!("{stem}.so.{suffix}")))
}
