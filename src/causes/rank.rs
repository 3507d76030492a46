//! Which causes the messages of a log have here, the most certain first.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::cause::{Cause, Certainty};
use super::checks::is_of_doctor;
use super::facts::{AskedIn, Facts, LoaderStart, NamedLibrary};
use super::libraries;
use crate::builds::compilers;
use crate::catalog::{Capture, ErrorKind, Fault, PossibleCause, States};
use crate::diagnose::{Chain, Message};
use crate::doctor::FindingEvidence;
use crate::environment::{Environment, join_elements, library_path_elements};
use crate::formats::names;
use crate::inventory::{Inventory, Origin, PartKind};
use crate::predict::{self, Prediction};
use crate::program::{Asker, LibraryRequirement, Want};
use crate::solve::{self, Hint, Lack, MissingWheel, Outcome};
use crate::variables;

/// Judges the causes of the messages that explain a failure best; of harmless ones where there are no others. Equal causes
/// are one.
pub fn causes<'m, 'h>(facts: &Facts<'_, 'h>, chain: &'m Chain) -> Vec<Cause<'m>> {
    let with_plan = planned(facts);
    let without_path = if facts.is_pinned { None } else { unset(facts) };
    let judged = |message: &'m Message, possible: &PossibleCause| {
        let mut cause = judge(facts, message, possible);
        if cause.certainty == Certainty::IsNot {
            return cause;
        }
        let helps = |start: &LoaderStart<'h>, is_planned: bool| {
            let plan = facts.decision.pinned.as_ref().filter(|_| is_planned);
            is_removed(
                AskedIn {
                    facts,
                    start,
                    plan,
                    is_planned,
                },
                facts,
                message,
                possible,
            )
        };
        cause.plan_helps = with_plan.as_ref().is_some_and(|start| helps(start, true));
        let is_path = cause.fault == Fault::PathPoisons;
        cause.unset_helps = without_path
            .as_ref()
            .is_some_and(|start| is_path || helps(start, false));
        if cause.fault == Fault::NotOnPath && !cause.plan_helps {
            let start = beside(facts, &cause);
            cause.directory_helps = start
                .filter(|(start, _)| helps(start, false))
                .map(|(_, directory)| directory);
        }
        let is_cured = cause.plan_helps || cause.unset_helps || cause.directory_helps.is_some();
        let library = lacking(&cause).filter(|_| !is_cured);
        (cause.hint, cause.to_fetch) = library.map_or_else(Default::default, |library| {
            (hint(facts, &cause, &library), to_fetch(facts, &library))
        });
        cause
    };
    ranked(chain, judged)
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

/// Judges the causes on a machine of which only the findings of `doctor` are known: what they do not answer is unknown.
pub fn causes_found<'m>(found: &[FoundElsewhere], chain: &'m Chain) -> Vec<Cause<'m>> {
    ranked(chain, |message, possible| {
        let fault = possible.cause;
        let mut cause = Cause::unknown(message, possible);
        let mut is_found = possible.certain;
        for one in found {
            let is_case = !one.is_milder && fault.row().cases.contains(&one.holds);
            if !is_of_doctor(fault) || (one.holds != fault && !is_case) {
                continue;
            }
            is_found |= !possible.unsure && message.row.kind != ErrorKind::Clue;
            cause.evidence.extend(one.evidence.iter().cloned());
            cause.remedies.extend(one.remedy.clone());
            // As in `judge`.
            if one.reported == Fault::NoGpu {
                cause.fault = Fault::NoGpu;
            }
        }
        if is_found {
            cause.certainty = Certainty::Is;
        }
        cause
    })
}

/// Judges each possible cause of the messages that matter, and sorts the causes. Of equal ones the most certain counts.
fn ranked<'m>(
    chain: &'m Chain,
    mut judge: impl FnMut(&'m Message, &'m PossibleCause) -> Cause<'m>,
) -> Vec<Cause<'m>> {
    let messages = if chain.leading.is_empty() {
        &chain.harmless
    } else {
        &chain.leading
    };
    let mut all: Vec<Cause<'m>> = Vec::new();
    let mut places = BTreeMap::new();
    for message in messages {
        for possible in &message.row.cause {
            let cause = judge(message, possible);
            let place = *places.entry(cause.fault).or_insert(all.len());
            match all.get_mut(place) {
                None => all.push(cause),
                Some(known) if cause.certainty < known.certainty => *known = cause,
                Some(_) => {}
            }
        }
    }
    // A warning seldom ends a program; another message explains the failure better.
    all.sort_by_key(|cause| {
        (
            cause.certainty == Certainty::IsNot,
            cause.message.is_warning,
            cause.certainty,
        )
    });
    all
}

/// True if the message that explains a failure best comes from a machine with a part that this one lacks.
pub fn contradicts(inventory: &Inventory, chain: &Chain) -> bool {
    let has_driver = || {
        inventory.driver.is_some()
            || inventory
                .installations
                .iter()
                .any(|one| one.family == "driver")
    };
    chain
        .chosen()
        .is_some_and(|message| match message.row.states {
            Some(States::Driver) => !has_driver(),
            Some(States::Gpu) => inventory.is_without_gpu(),
            None => false,
        })
}

fn judge<'m>(facts: &Facts<'_, '_>, message: &'m Message, possible: &PossibleCause) -> Cause<'m> {
    let answer = facts.as_failed().ask(possible, &message.captures);
    let certainty = match &answer {
        _ if possible.certain => Certainty::Is,
        Some(answer) if !answer.is && !possible.stated => Certainty::IsNot,
        Some(answer) if answer.is && message.row.kind != ErrorKind::Clue && !possible.unsure => {
            Certainty::Is
        }
        _ => Certainty::MayBe,
    };
    let (all, findings) = answer.map_or_else(Default::default, |answer| {
        (answer.evidence, answer.findings)
    });
    let mut evidence = Vec::new();
    for one in all {
        if !evidence.contains(&one) {
            evidence.push(one);
        }
    }
    // Such a machine has no driver either, and a container on it has no GPU; the cause of both is one.
    let is_without_gpu = findings.iter().any(|finding| finding.fault == Fault::NoGpu);
    let fault = if is_without_gpu {
        Fault::NoGpu
    } else {
        possible.cause
    };
    Cause {
        fault,
        certainty,
        evidence,
        findings,
        tool_variable: (possible.cause == Fault::PtxasOld)
            .then(|| compilers::variable_for(facts.program, facts.inventory, PartKind::Ptxas))
            .flatten(),
        pip: facts.program.pip.clone(),
        ..Cause::unknown(message, possible)
    }
}

impl<'m> Cause<'m> {
    /// A cause of which nothing is known here.
    fn unknown(message: &'m Message, possible: &PossibleCause) -> Cause<'m> {
        Cause {
            fault: possible.cause,
            certainty: Certainty::MayBe,
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

/// Returns the library, file, version or tool that a possible cause is about.
pub fn subject<'m>(message: &'m Message, possible: &'m PossibleCause) -> Option<&'m str> {
    message.captures.argument(possible.of.as_ref()?)
}

/// True if the check confirms the cause as it is, and rules it out in another environment.
fn is_removed(
    other: AskedIn<'_, '_, '_>,
    facts: &Facts<'_, '_>,
    message: &Message,
    possible: &PossibleCause,
) -> bool {
    let ask = |asked: AskedIn<'_, '_, '_>| asked.ask(possible, &message.captures);
    ask(facts.as_failed()).is_some_and(|answer| answer.is)
        && ask(other).is_some_and(|answer| !answer.is)
}

/// The program's start with what cudarun would give to it; none if it had that, or if there is no such thing.
fn planned<'h>(facts: &Facts<'_, 'h>) -> Option<LoaderStart<'h>> {
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

/// The program's start without `LD_LIBRARY_PATH`, where that is set; none if it would lack a file that it has now.
fn unset<'h>(facts: &Facts<'_, 'h>) -> Option<LoaderStart<'h>> {
    let mut env = facts.host.env.clone();
    env.non_empty(variables::LIBRARY_PATH)?;
    env.remove(variables::LIBRARY_PATH.as_ref());
    let start = start(facts, &env);
    let gets =
        |prediction: &Prediction, name: &str| prediction.files.iter().any(|one| one.name == name);
    let missed = start.prediction.missing.iter().map(|one| &one.name);
    let mut names = missed.chain(facts.program.loads.iter().map(|load| &load.name));
    let lacks =
        names.any(|name| gets(&facts.failed.prediction, name) && !gets(&start.prediction, name));
    (!lacks).then_some(start)
}

/// The program's start with the directory of the first copy before all others, and that directory.
fn beside<'h>(facts: &Facts<'_, 'h>, cause: &Cause<'_>) -> Option<(LoaderStart<'h>, PathBuf)> {
    let directory = cause.evidence.iter().find_map(|evidence| match evidence {
        // Only cudarun may use its own store.
        FindingEvidence::Installation(copy) if copy.origin != Origin::Fetched => {
            Some(copy.directory.clone())
        }
        _ => None,
    })?;
    let mut env = facts.host.env.clone();
    let old = env
        .get(variables::LIBRARY_PATH)
        .map(library_path_elements)
        .unwrap_or_default();
    let all = std::iter::once(directory.as_os_str()).chain(old.iter().map(AsRef::as_ref));
    let value = join_elements(all);
    env.set(variables::LIBRARY_PATH, value);
    Some((start(facts, &env), directory))
}

fn start<'h>(facts: &Facts<'_, 'h>, env: &Environment) -> LoaderStart<'h> {
    let searcher = facts.failed.searcher.within(env, None);
    let prediction = predict::predict(&searcher, facts.program, facts.inventory);
    LoaderStart {
        searcher,
        prediction,
    }
}

/// Returns the library that may have to be installed.
fn lacking<'c>(cause: &'c Cause<'_>) -> Option<NamedLibrary<'c>> {
    let is_of_library = matches!(
        cause.fault,
        Fault::NotInstalled
            | Fault::OtherMajor
            | Fault::OlderFirst
            | Fault::Incomplete
            | Fault::Builtins
            | Fault::Mixed
    );
    Some(NamedLibrary::named(
        cause.subject.as_deref().filter(|_| is_of_library)?,
    ))
}

/// Returns the wheels that the program lacks, if the library is of one of them.
fn to_fetch(facts: &Facts<'_, '_>, library: &NamedLibrary<'_>) -> Vec<MissingWheel> {
    let Some(family) = library.family() else {
        return Vec::new();
    };
    let is_its = |wheel: &MissingWheel| family.is_wheel(&wheel.distribution);
    match solve::lack(
        &facts.decision.outcome,
        facts.inventory,
        facts.program,
        &facts.policy,
    ) {
        Lack::Wheels(wheels) if wheels.iter().any(is_its) => wheels,
        _ => Vec::new(),
    }
}

/// Returns the solver's hint: of the program's own requirements if they conflict, else of a requirement of the library that the
/// message names.
fn hint(facts: &Facts<'_, '_>, cause: &Cause<'_>, library: &NamedLibrary<'_>) -> Option<Hint> {
    let family = library.family()?;
    if let Outcome::Conflict(conflict) = &facts.decision.outcome {
        let is_unmet = conflict
            .unmet
            .iter()
            .any(|unmet| unmet.family == family.name);
        return conflict.hint.clone().filter(|_| is_unmet);
    }
    let is_same = |name: &&str| {
        NamedLibrary::named(name)
            .family()
            .is_some_and(|own| own.name == family.name)
    };
    let name = match library {
        NamedLibrary::File { name, .. } => Some(*name),
        _ => cause.message.captures.get(Capture::Soname).filter(is_same),
    };
    let want = match name {
        Some(name) => {
            let (stem, suffix) = names::split(name)?;
            let own = if family.soname_is_version {
                &family.main
            } else {
                stem
            };
            let suffix = if family.soname_is_version {
                suffix.split('.').next()?
            } else {
                suffix
            };
            Want::Name(format!("{own}.so.{suffix}"))
        }
        _ => Want::AtLeast(libraries::version(
            cause.message.captures.get(Capture::Wanted)?,
            Some(family),
        )?),
    };
    let by = Asker::person("the message", PathBuf::new(), None);
    let mut program = facts.program.clone();
    program.require([LibraryRequirement::of_person(&family.name, want, by)]);
    match solve::solve(facts.inventory, &program, &facts.policy) {
        Outcome::Conflict(conflict) => conflict.hint,
        _ => None,
    }
}
