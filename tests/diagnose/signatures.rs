use std::collections::BTreeSet;
use std::fmt::Write as _;

use cudarun::catalog::{
    Argument, ErrorKind, ErrorRow, Fault, PossibleCause, catalog, clue_table, errors,
};
use cudarun::diagnose::{Message, Signatures, clues_of_line, groups_of};
use serde::Deserialize;

use super::chain;

#[derive(Deserialize)]
struct Messages {
    message: Vec<Posted>,
}

/// An error message that a person has posted, and the cause that was found there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Posted {
    pub(super) id: String,
    pub(super) text: String,
    cause: Fault,
    /// Other causes that are as right.
    #[serde(default)]
    or: Vec<Fault>,
    pub(super) source: String,
    pub(super) basis: String,
}

impl Posted {
    /// The place of a right cause among these.
    pub(super) fn place(&self, faults: &[Fault]) -> Option<usize> {
        faults
            .iter()
            .position(|fault| *fault == self.cause || self.or.contains(fault))
    }
}

#[test]
fn rows_compile_and_have_unique_names() {
    Signatures::new(errors()).unwrap_or_else(|error| panic!("profiles/errors.toml: {error}"));
    let rows = || errors().iter().chain(&clue_table().clues);
    let names: BTreeSet<&str> = rows().map(|row| row.id.as_str()).collect();
    assert_eq!(names.len(), rows().count());
    let compiled = |source: &str| {
        let mut regex = regex::bytes::RegexBuilder::new(source);
        let regex = regex.unicode(false).build();
        regex.unwrap_or_else(|error| panic!("{source}: {error}"))
    };
    compiled(&clue_table().failing);
    compiled(&clue_table().fine);
    for row in rows() {
        let is_one_line = |source: &String| !source.contains(r"\s");
        // Lines of such a message are told from clues one by one.
        assert!(row.kind != ErrorKind::Harmless || row.regex.iter().all(is_one_line));
        for source in &row.regex {
            groups_of(&compiled(source))
                .unwrap_or_else(|error| panic!("{}: {source}: {error}", row.id));
        }
        let causes: BTreeSet<Fault> = row.cause.iter().map(|cause| cause.cause).collect();
        assert_eq!(
            causes.len(),
            row.cause.len(),
            "{} names a cause twice",
            row.id
        );
    }
    for row in errors() {
        assert!(
            !row.sample.is_empty() && !row.source.is_empty() && row.date.len() == 10,
            "{}",
            row.id
        );
        for name in &row.by {
            let mut frameworks = catalog().frameworks.iter();
            assert!(
                frameworks.any(|framework| framework.name == *name),
                "{}: {name}",
                row.id
            );
        }
        let is_harmless = |key| key == Fault::Harmless;
        let harmless = row.cause.iter().any(|cause| is_harmless(cause.cause));
        assert_eq!(harmless, row.kind == ErrorKind::Harmless, "{}", row.id);
        assert!(
            row.kind == ErrorKind::Symptom || !row.cause.is_empty(),
            "{} has no cause",
            row.id
        );
    }
}

#[test]
fn samples_match_their_own_row_and_those_that_it_names() {
    let mut faults = String::new();
    for row in errors() {
        let place = |id: &str| errors().iter().position(|row| row.id == id);
        let mut used = BTreeSet::new();
        for sample in &row.sample {
            let chosen = chain(sample);
            let all = chosen
                .leading
                .iter()
                .chain(&chosen.following)
                .chain(&chosen.harmless);
            if !all.clone().any(|message| message.row.id == row.id) {
                let instead: Vec<&str> = all.map(|message| message.row.id.as_str()).collect();
                writeln!(faults, "{}: {instead:?} instead: {sample}", row.id).unwrap();
            }
            for line in sample.lines() {
                let others = rows_of(line).into_iter().map(|row| row.id.as_str());
                used.extend(others.filter(|id| *id != row.id));
            }
        }
        let named: BTreeSet<&str> = row.also.iter().map(String::as_str).collect();
        if named != used {
            writeln!(faults, "{}: also = {:?}", row.id, used).unwrap();
        }
        for also in &named {
            let general = errors()
                .iter()
                .find(|row| row.id == *also)
                .map(|row| row.kind);
            let decides = |kind| matches!(kind, ErrorKind::Root | ErrorKind::Harmless);
            let is_later = place(also) > place(&row.id);
            if !is_later && decides(row.kind) && general.is_none_or(decides) {
                writeln!(
                    faults,
                    "{}: `also` names {also}, which comes before it",
                    row.id
                )
                .unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// A check must not depend on a fact that no branch of the regexes states.
#[test]
fn checks_are_about_facts_that_a_regex_states() {
    for row in errors() {
        for possible in &row.cause {
            let text = format!("{possible:?}");
            for (at, _) in text.match_indices("Captured(") {
                let name = text[at + 9..].split(')').next().unwrap().to_lowercase();
                let has_group = |source: &String| source.contains(&format!("(?<{name}"));
                assert!(
                    row.regex.iter().any(has_group),
                    "{}: no group is called {name}",
                    row.id
                );
            }
            if let (Fault::Mixed | Fault::Incomplete, Some(Argument::Literal(name))) =
                (possible.cause, &possible.of)
            {
                assert!(catalog().family(name).is_some(), "{}: {name}", row.id);
            }
        }
    }
}

#[test]
fn posted_messages_are_recognised_with_their_cause() {
    let posted = read(include_str!("messages.toml"));
    let (figures, missed) = figures(&posted, |message| faults_of(&message.text));
    assert_eq!(figures[..2], [100, 100], "{missed}");
    assert!(figures[3] >= 77, "{figures:?}");
}

/// What is known of other posted texts, for some of which rows were written. The head of the file says how it was before.
#[test]
fn texts_of_all_kinds_are_recognised() {
    let unseen = read(include_str!("unseen.toml"));
    let (figures, missed) = figures(&unseen, |message| faults_of(&message.text));
    assert!(
        are_at_least(figures, [99, 93, 85, 75]),
        "{figures:?}\n{missed}"
    );
}

/// Texts that are recognised, those whose right cause is in the list, among the first three, and the first, in percent; and those
/// where it is not in the list.
fn figures(posted: &[Posted], faults: impl Fn(&Posted) -> Vec<Fault>) -> ([usize; 4], String) {
    let mut counts = [0; 4];
    let mut missed = String::new();
    for message in posted {
        assert!(
            !message.source.is_empty() && !message.basis.is_empty(),
            "{}",
            message.id
        );
        let faults = faults(message);
        let place = message.place(&faults);
        counts[0] += usize::from(!faults.is_empty());
        counts[1] += usize::from(place.is_some());
        counts[2] += usize::from(place.is_some_and(|place| place < 3));
        counts[3] += usize::from(place == Some(0));
        if place.is_none() {
            writeln!(missed, "{}, {:?}: {faults:?}", message.id, message.cause).unwrap();
        }
    }
    (counts.map(|count| 100 * count / posted.len()), missed)
}

fn are_at_least(figures: [usize; 4], least: [usize; 4]) -> bool {
    figures
        .iter()
        .zip(least)
        .all(|(figure, least)| *figure >= least)
}

/// The possible causes of a text, in their order, of which no machine is asked.
fn faults_of(text: &str) -> Vec<Fault> {
    let chain = chain(text);
    let messages = if chain.leading.is_empty() {
        &chain.harmless
    } else {
        &chain.leading
    };
    without_repeats(messages.iter().flat_map(Message::possible_causes))
}

fn without_repeats<'p>(causes: impl IntoIterator<Item = &'p PossibleCause>) -> Vec<Fault> {
    let mut faults: Vec<Fault> = Vec::new();
    for cause in causes {
        if !faults.contains(&cause.cause) {
            faults.push(cause.cause);
        }
    }
    faults
}

/// Each posted message without the row that was written for it: general rows and clues know other texts of its kind. The goals are
/// 95, 90, 85 and 65.
#[test]
fn without_its_own_row_a_message_is_known_by_a_more_general_one() {
    let mut given = read(include_str!("messages.toml"));
    let (others, unseen): (Vec<_>, Vec<_>) = read(include_str!("unseen.toml"))
        .into_iter()
        .partition(|message| {
            ["a-", "b-", "c-"]
                .iter()
                .any(|start| message.id.starts_with(start))
        });
    given.extend(unseen);
    for (posted, least) in [(given, [98, 95, 90, 73]), (others, [96, 83, 66, 53])] {
        let (figures, missed) = figures(&posted, |message| {
            let own = chain(&message.text);
            let own = own.chosen().or(own.harmless.first());
            faults_without(own.map_or("", |own| &own.row.id), &message.text)
        });
        assert!(are_at_least(figures, least), "{figures:?}\n{missed}");
    }
}

/// The causes of a text if there were no row of this name: those of the roots, or else of the symptoms, or else of the clues.
fn faults_without(own: &str, text: &str) -> Vec<Fault> {
    let (mut rows, mut clues) = (Vec::new(), Vec::new());
    let mut rest = Some(text);
    while let Some(text) = rest {
        let line = text.lines().next().unwrap_or_default().as_bytes();
        let found = rows_of(text);
        let is_harmless = |row: &&ErrorRow| row.kind == ErrorKind::Harmless && row.id != own;
        if !found.iter().any(is_harmless) {
            let mut of_line = clues_of_line(line);
            of_line.retain(|found| found.row.id != own);
            clues.push(of_line);
        }
        rows.extend(found);
        rest = text.split_once('\n').map(|(_, after)| after);
    }
    rows.retain(|row| row.id != own);
    clues.sort_by_key(|of_line| of_line.first().map(|found| found.key.0));
    let clues = clues.into_iter().flatten().map(|found| found.row);
    let least = rows.iter().map(|row| row.kind).min();
    rows.retain(|row| Some(row.kind) == least);
    let mut all: Vec<&ErrorRow> = match least {
        Some(ErrorKind::Root | ErrorKind::Symptom) if rows.iter().any(|row| row.general) => {
            clues.filter(|row| !row.general).collect()
        }
        Some(ErrorKind::Root | ErrorKind::Symptom) => Vec::new(),
        _ => clues.collect(),
    };
    all.extend(rows);
    without_repeats(all.into_iter().flat_map(|row| &row.cause))
}

/// The rows that match a message which begins in the first line of a text.
fn rows_of(text: &str) -> Vec<&'static ErrorRow> {
    let found = Signatures::embedded().matches(text.as_bytes(), &BTreeSet::new());
    found.into_iter().map(|found| found.row).collect()
}

fn read(text: &str) -> Vec<Posted> {
    toml::from_str::<Messages>(text).unwrap().message
}

#[derive(Deserialize)]
struct Statuses {
    cudnn: Vec<Status>,
    cuda: Vec<Status>,
}

#[derive(Deserialize)]
struct Status {
    code: u32,
    name: String,
}

/// A name alone on a line, as a person types it from memory, and with what launchers and programs put before it.
#[test]
fn a_status_is_recognised_in_any_case_and_with_any_prefix() {
    let statuses: Statuses = toml::from_str(include_str!("../../profiles/statuses.toml")).unwrap();
    let row = |text: &str| chain(text).chosen().map(|message| message.row.id.clone());
    let mut names: Vec<String> = statuses.cudnn.into_iter().map(|one| one.name).collect();
    names.extend(statuses.cuda.iter().map(|one| one.name.clone()));
    names.extend(
        [
            "CUBLAS_STATUS_NOT_INITIALIZED",
            "CUSOLVER_STATUS_INTERNAL_ERROR",
            "CUFFT_INTERNAL_ERROR",
            "CUSPARSE_STATUS_ARCH_MISMATCH",
            "CURAND_STATUS_INITIALIZATION_FAILED",
            "CUTENSOR_STATUS_NOT_SUPPORTED",
            "NVRTC_ERROR_COMPILATION",
            "NVML_ERROR_DRIVER_NOT_LOADED",
            "cudaErrorSystemDriverMismatch",
            "cudaErrorNoKernelImageForDevice",
        ]
        .map(str::to_owned),
    );
    let mut faults = String::new();
    for name in &names {
        let expected = row(name);
        for text in [
            name.to_lowercase(),
            name.to_uppercase(),
            format!("[rank3]: RuntimeError: {name}"),
            format!("2026-11-02 10:00:00 ERROR {name} (1)"),
            format!("job/0 | status={}", name.to_lowercase()),
        ] {
            let found = row(&text);
            if expected.is_none() || found != expected {
                writeln!(faults, "{expected:?}: {found:?} for {text}").unwrap();
            }
        }
    }
    // A number says what its name says.
    for Status { code, name } in &statuses.cuda {
        let Some(known) = errors().iter().find(|row| row.code.contains(code)) else {
            continue;
        };
        for text in [
            format!("CUDA error {code}"),
            format!("cudaGetDeviceCount returned {code}"),
            format!("CUDA driver error: {code}"),
        ] {
            let found = row(&text);
            if found.as_ref() != Some(&known.id) || row(name) != found {
                writeln!(
                    faults,
                    "{}: {found:?} for {text}, {:?} for {name}",
                    known.id,
                    row(name)
                )
                .unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
    assert_eq!(
        row("cudaGetDeviceCount returned 0"),
        None,
        "a number that means nothing"
    );
}
