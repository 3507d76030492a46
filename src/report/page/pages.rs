//! The pages of `explain`, `doctor`, `diagnose` and `fleet`.

use super::model::{FindingPart, Page, Part, Tone};
use super::picture::Picture;
use crate::causes::{Cause, Certainty};
use crate::doctor::{Examination, Finding, Section, Severity};
use crate::inventory::Inventory;
use crate::report::cures;
use crate::report::diagnosed::{Diagnosis, said};
use crate::report::doctor::{self, ExaminedProgram};
use crate::report::doctor_words;
use crate::report::explained;
use crate::report::fleet::FleetReport;
use crate::report::hints::shell_words;
use crate::report::overview::{self, Explanation};
use crate::report::pinned::mode_line;
use crate::report::words::{self, version};
use crate::report::{Style, asked, refusal};
use crate::solve::{Outcome, Pick};
use crate::text::show;

pub fn explained_page(explanation: &Explanation<'_>) -> Page {
    let Explanation {
        program,
        inventory,
        decision,
        before,
        ..
    } = explanation;
    let style = Style::default();
    let tone = match &decision.outcome {
        _ if decision.is_refused() => Tone::Bad,
        Outcome::Nothing { .. } => Tone::Plain,
        _ => Tone::Good,
    };
    let verdict = explained::verdict(program, decision, style);
    let mut page = Page::new(shell_words(explanation.words), verdict, tone);
    if decision.is_refused() {
        let why = refusal(decision, program, true, style);
        page.add(
            "Why it does not start",
            vec![Part::Commands(vec![why.trim_end().to_owned()])],
        );
    }
    let of = |title, prediction| Picture::of(title, prediction, inventory, program);
    let mut without = of("Without cudarun", *before);
    let with = decision
        .pinned
        .as_ref()
        .map(|pinned| of("With cudarun", &pinned.after));
    if let Some(with) = &with {
        without.mark_others(with);
    }
    let marked = without
        .marked()
        .into_iter()
        .map(|text| finding(Tone::Bad, "without cudarun", text));
    let marked: Vec<Part> = marked.collect();
    let pictures = std::iter::once(without).chain(with).map(Part::Picture);
    page.add(
        "Libraries and where they come from",
        marked.into_iter().chain(pictures).collect(),
    );
    if let Outcome::Plan(plan) = &decision.outcome {
        let row = |pick: &Pick| {
            let one = &pick.installation;
            let place = words::place(&one.directory, Some(program));
            let family = words::family(&one.family).to_owned();
            vec![
                family,
                version(one.version.as_ref()),
                one.origin.word().to_owned(),
                place,
            ]
        };
        let rows = plan.picks.iter().map(row).collect();
        let mode = decision.pinned.as_ref().map(mode_line).unwrap_or_default();
        let head = ["library", "version", "origin", "directory"];
        let cautions = plan
            .cautions
            .iter()
            .map(|caution| finding(Tone::Warning, "warning", asked::caution(caution)));
        page.add(
            "Plan",
            [Part::table(&head, rows), Part::Text(mode)]
                .into_iter()
                .chain(cautions)
                .collect(),
        );
    }
    page.add(
        "Needs",
        vec![Part::table(
            &["library", "needs", "for"],
            overview::needs(program, false, style),
        )],
    );
    page.add("Machine", vec![machine(inventory)]);
    if !decision.is_refused() {
        page.add(
            "Start it",
            vec![Part::Commands(vec![format!(
                "cudarun {}",
                shell_words(explanation.words)
            )])],
        );
    }
    page
}

fn finding(tone: Tone, label: &str, text: String) -> Part {
    Part::Finding(FindingPart {
        tone,
        label: label.to_owned(),
        text,
        evidence: Vec::new(),
        remedies: Vec::new(),
    })
}

fn machine(inventory: &Inventory) -> Part {
    let mut rows = vec![
        vec!["driver".to_owned(), overview::driver(inventory)],
        vec!["glibc".to_owned(), version(inventory.glibc.as_ref())],
    ];
    rows.extend(
        inventory
            .gpus
            .iter()
            .map(|gpu| vec!["GPU".to_owned(), words::gpu(gpu)]),
    );
    Part::table(&[], rows)
}

pub fn examined_page(
    examination: &Examination,
    inventory: &Inventory,
    programs: &[ExaminedProgram],
) -> Page {
    let worst = examination
        .findings
        .iter()
        .map(|finding| finding.severity)
        .min();
    let tone = match worst {
        Some(Severity::Error) => Tone::Bad,
        Some(Severity::Warning) => Tone::Warning,
        _ => Tone::Good,
    };
    let mut page = Page::new(
        "Can GPU programs run here?",
        doctor::verdict(examination),
        tone,
    );
    for section in Section::ALL {
        let own = examination
            .findings
            .iter()
            .filter(|finding| finding.what.section() == section);
        let findings = own.map(|one| Part::Finding(of_doctor(one)));
        let summary = Part::Text(doctor::summary(section, examination, inventory));
        page.add(
            doctor::title(section),
            std::iter::once(summary).chain(findings).collect(),
        );
    }
    let program = |program: &ExaminedProgram| {
        let gets = if program.is_refused {
            "would not be started".to_owned()
        } else {
            program.uses.join(", ")
        };
        vec![program.command.clone(), gets, program.faults.join("; ")]
    };
    let rows = programs.iter().map(program).collect();
    page.add(
        "Programs",
        vec![Part::table(&["program", "gets", "problem"], rows)],
    );
    let row = |one: &crate::inventory::Installation| {
        let family = words::family(&one.family).to_owned();
        vec![
            family,
            version(one.version.as_ref()),
            one.origin.word().to_owned(),
            show(&one.directory),
        ]
    };
    let rows = inventory.installations.iter().map(row).collect();
    page.add(
        "Installations",
        vec![Part::table(
            &["library", "version", "origin", "directory"],
            rows,
        )],
    );
    page.add("Machine", vec![machine(inventory)]);
    page
}

fn of_doctor(finding: &Finding) -> FindingPart {
    let (tone, label) = match finding.severity {
        Severity::Error => (Tone::Bad, "error"),
        Severity::Warning => (Tone::Warning, "warning"),
        Severity::Note => (Tone::Plain, "note"),
    };
    let line = |evidence| <[String; 2]>::from(doctor_words::evidence(evidence)).join("  ");
    FindingPart {
        tone,
        label: label.to_owned(),
        text: doctor_words::sentence(finding),
        evidence: finding.evidence.iter().map(line).collect(),
        remedies: doctor_words::remedy(finding).into_iter().collect(),
    }
}

pub fn diagnosed_page(diagnosis: &Diagnosis<'_>) -> Page {
    let chosen = diagnosis.causes.first();
    let (verdict, tone) = match chosen {
        Some(cause) if cause.certainty == Certainty::Is => {
            (format!("it is: {}", cures::sentence(cause)), Tone::Bad)
        }
        Some(cause) if cause.certainty == Certainty::MayBe => (
            format!("it may be: {}", cures::sentence(cause)),
            Tone::Warning,
        ),
        _ if diagnosis.is_recognised() => (
            "no known cause of this message fits this machine".to_owned(),
            Tone::Plain,
        ),
        _ => (
            "no known error message is in this text".to_owned(),
            Tone::Plain,
        ),
    };
    let title = diagnosis
        .chain
        .chosen()
        .map_or("Error message", |message| message.excerpt.as_str());
    let mut page = Page::new(title, verdict, tone);
    let part = |cause: &Cause<'_>| {
        let (tone, label) = match cause.certainty {
            Certainty::Is => (Tone::Bad, "it is"),
            Certainty::MayBe => (Tone::Warning, "it may be"),
            Certainty::IsNot => (Tone::Plain, "it is not"),
        };
        let line = |evidence| <[String; 2]>::from(doctor_words::evidence(evidence)).join("  ");
        let cures = diagnosis.cures(cause);
        Part::Finding(FindingPart {
            tone,
            label: label.to_owned(),
            text: cures::sentence(cause),
            evidence: std::iter::once(said(cause.message))
                .chain(cause.evidence.iter().map(line))
                .collect(),
            remedies: cures.into_iter().map(|cure| cure.command).collect(),
        })
    };
    let of = |ruled_out| {
        let causes = diagnosis.causes.iter();
        causes
            .filter(|cause| (cause.certainty == Certainty::IsNot) == ruled_out)
            .map(part)
            .collect::<Vec<_>>()
    };
    page.add("Causes", of(false));
    page.add("Ruled out", of(true));
    let harmless = diagnosis
        .chain
        .harmless
        .iter()
        .map(|message| vec!["harmless".to_owned(), said(message)]);
    page.add("Other messages", vec![Part::table(&[], harmless.collect())]);
    page
}

pub fn fleet_page(fleet: &FleetReport) -> Page {
    let tone = if fleet.is_good() && !fleet.has_unread() {
        Tone::Good
    } else {
        Tone::Warning
    };
    let mut page = Page::new("Machines", fleet.verdict(), tone);
    let (head, rows) = fleet.table();
    page.add("Groups of equal machines", vec![Part::Table { head, rows }]);
    page.add(
        "Differences",
        vec![Part::table(&["machines", "difference"], fleet.all_drift())],
    );
    let unread = crate::report::unread_descriptions(fleet)
        .map(|line| vec![line])
        .collect();
    page.add("Not read", vec![Part::table(&["description"], unread)]);
    page.add(
        "Next",
        vec![Part::Commands(fleet.next().into_iter().collect())],
    );
    page
}
