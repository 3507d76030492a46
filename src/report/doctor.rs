//! The page of `doctor`: the verdict, then each section with its facts and findings, each with a sentence, the evidence, and
//! the command to type.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use super::Style;
use super::builds::compiler_lines;
use super::extensions;
use super::hints::{argument, fitting_builds, mend_or, shell_words};
use super::json::inventory;
use super::pin::{given_fault, places};
use super::settings;
use super::words::{self, at, counted, element_text, quoted_to_show};
use crate::builds::Compilers;
use crate::catalog::{Section, Text, display_name, filled};
use crate::doctor::{
    Detail, Examination, Finding, FindingEvidence, JudgedElement, StartupLine, Stops, named, titled,
};
use crate::fleet::{
    DoctorPage, ExaminedProgram, NO_GPU, SectionSummary, ShownCache, ShownElement, ShownEvidence,
    ShownFinding, ShownLibrary,
};
use crate::inventory::{Inventory, Problem};
use crate::pin::Decision;
use crate::predict::Prediction;
use crate::predict::supply::{FamilySupply, given};
use crate::program::Program;
use crate::solve::{Absent, Outcome, Pick};
use crate::text::{list, show, size};
use crate::variables;

/// The evidence of one finding beyond this number is only counted.
const FEW: usize = 6;
/// The notes of one section beyond this number are only counted.
const NOTES: usize = 4;
/// The versions that a program would use beyond this number are only counted.
const USES: usize = 4;

/// One sentence: do GPU programs work here?
pub(super) fn verdict(examination: &Examination) -> String {
    let mut programs = examination.stops(Stops::Programs);
    let mut us = examination.stops(Stops::Us);
    if let Some(first) = programs.next() {
        let more = match programs.count() + us.count() {
            0 => String::new(),
            1 => ", and one more error".to_owned(),
            more => format!(", and {more} more errors"),
        };
        return format!(
            "GPU programs cannot work from here: {}{more}",
            sentence(first)
        );
    }
    match us.next() {
        Some(first) => {
            format!(
                "GPU programs can work from here, but cudarun cannot start them: {}",
                sentence(first)
            )
        }
        None => "GPU programs can work from here".to_owned(),
    }
}

/// A program that is not there.
pub fn missing_program(command: &str, faults: Vec<String>) -> ExaminedProgram {
    ExaminedProgram {
        command: command.to_owned(),
        faults,
        is_refused: true,
        is_missing: true,
        ..ExaminedProgram::default()
    }
}

/// Libraries that a program asks for and that are not installed.
fn absent_libraries<'a>(absent: impl Iterator<Item = &'a Absent>) -> Option<String> {
    let names: BTreeSet<String> = absent.flat_map(|absent| &absent.names).map(show).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty()).then(|| format!("{} {verb} not installed", list(&names)))
}

/// A program of `--for` that is not there.
pub fn not_described(program: &ExaminedProgram) -> String {
    let why = program
        .faults
        .first()
        .map_or("it is not there", String::as_str);
    format!("the description lacks `{}`: {why}", show(&program.command))
}

/// The versions that a program would use, and the faults without cudarun.
pub fn examined_program(
    words: &[OsString],
    program: &Program,
    inventory: &Inventory,
    decision: &Decision,
    before: &Prediction,
    compilers: &Compilers,
    can_fetch: bool,
) -> ExaminedProgram {
    let is_refused = decision.is_refused();
    let picks = match &decision.outcome {
        Outcome::Plan(plan) => Some(plan.picks.as_slice()),
        _ => None,
    };
    let mut faults = faults_without(before, picks, inventory, program);
    let failing = program.notes.iter().find(|note| note.keeps_from_gpu());
    let fails = failing.map(|note| super::note(note, program));
    faults.extend(fails.clone());
    if is_refused {
        let why = super::refusal(decision, program, true, Style::default());
        let first = why.lines().next().unwrap_or_default();
        faults.push(first.trim_start_matches("error: ").to_owned());
    }
    for extension in inventory.unfit_extensions() {
        faults.push(format!(
            "{}: {}",
            extensions::sentence(extension),
            fitting_builds(&[extension], program.pip.as_ref())
        ));
    }
    faults.extend(compiler_lines(compilers));
    if !is_refused {
        faults.extend(absent_libraries(decision.outcome.wanted()));
    }
    let mode = decision
        .pinned
        .as_ref()
        .map(|pinned| words::word(&pinned.mode))
        .unwrap_or_default();
    ExaminedProgram {
        command: shell_words(words),
        uses: picks
            .into_iter()
            .flatten()
            .map(|pick| words::versioned(&pick.installation))
            .collect(),
        faults,
        is_refused,
        fails,
        mode,
        can_fetch,
        is_missing: program.unread_script().is_some(),
    }
}

/// The libraries that a program gets without cudarun, where they have a fault or others are picked.
fn faults_without(
    before: &Prediction,
    picks: Option<&[Pick]>,
    inventory: &Inventory,
    program: &Program,
) -> Vec<String> {
    let mut faults = Vec::new();
    for (family, supply) in given(before, inventory) {
        let fault = match supply.fault(inventory) {
            Some(fault) => format!("{}: ", given_fault(fault)),
            None if is_picked(&supply, picks) => continue,
            None => String::new(),
        };
        faults.push(format!(
            "without cudarun: {}: {fault}{}",
            display_name(family),
            places(&supply, program)
        ));
    }
    faults
}

/// True if the installations that decide are among the picks, or there is no plan with others.
fn is_picked(supply: &FamilySupply<'_>, picks: Option<&[Pick]>) -> bool {
    let mut deciding = supply.deciding().into_iter().flatten();
    picks.is_none_or(|picks| {
        deciding.all(|one| {
            picks
                .iter()
                .any(|pick| pick.installation.directory == one.directory)
        })
    })
}

/// The first of these, and how many more there are.
fn list_of(all: &[String], most: usize) -> String {
    match all.len().saturating_sub(most) {
        0 | 1 => all.join(", "),
        more => format!("{}, and {more} more", all[..most].join(", ")),
    }
}

/// The programs, and the next command to type.
fn programs(programs: &[ExaminedProgram], verbosity: u8, style: Style) -> String {
    let mut text = if programs.is_empty() {
        String::new()
    } else {
        "\n".to_owned()
    };
    for program in programs {
        let uses = if program.is_refused {
            "would not be started".to_owned()
        } else if program.uses.is_empty() {
            "nothing to pick".to_owned()
        } else {
            list_of(&program.uses, if verbosity > 0 { usize::MAX } else { USES })
        };
        text.push_str(&format!(
            "{}  {uses}\n",
            style.strong(&show(&program.command))
        ));
        for fault in &program.faults {
            text.push_str(&format!("  {} {fault}\n", style.warning("warning:")));
        }
    }
    text + &style.next(&next(programs, style.is_elsewhere()))
}

/// The command that explains the first refusal, or else the one that starts the first program with a warning, or the first;
/// where libraries can be fetched for it, the one that fetches them. Elsewhere nothing can be started, so it explains.
pub(super) fn next(programs: &[ExaminedProgram], is_elsewhere: bool) -> String {
    let refused = programs.iter().find(|program| program.is_refused);
    let warned = programs.iter().find(|program| !program.faults.is_empty());
    match refused.or(warned).or(programs.first()) {
        Some(program) if program.is_refused || is_elsewhere => {
            format!("cudarun explain {}", show(&program.command))
        }
        Some(program) if program.can_fetch => format!("cudarun fetch {}", show(&program.command)),
        Some(program) => format!("cudarun {}", show(&program.command)),
        None => "cudarun explain PROGRAM".to_owned(),
    }
}

/// All that the page and the JSON of `doctor` say.
pub fn doctor_page(
    examination: &Examination,
    inventory: &Inventory,
    programs: Vec<ExaminedProgram>,
) -> DoctorPage {
    let sections = Section::ALL.map(|section| SectionSummary {
        section: words::word(&section),
        says: summary(section, examination, inventory),
    });
    let kept = &examination.kept;
    DoctorPage {
        works: examination.stops(Stops::Programs).next().is_none(),
        verdict: verdict(examination),
        driver: serde_json::to_value(&inventory.driver).unwrap_or_default(),
        gpus: inventory::gpus(inventory),
        devices: inventory.devices.iter().map(show).collect(),
        programs,
        sections: sections.into(),
        findings: examination.findings.iter().map(shown_finding).collect(),
        elements: examination.elements.iter().map(shown_element).collect(),
        settings: examination.project.files.iter().map(show).collect(),
        lock: examination.project.lock.as_ref().map(show),
        cache: ShownCache {
            directory: kept.directory.as_ref().map(show),
            starts: kept.starts,
            views: kept.views,
            bytes: kept.bytes,
        },
    }
}

/// What holds too, by its code, with the finding that is reported in its place.
pub fn hidden_findings(examination: &Examination) -> BTreeMap<String, ShownFinding> {
    let all = examination.hidden().iter();
    all.map(|(of, finding)| (words::word(of), shown_finding(finding)))
        .collect()
}

pub(super) fn shown_finding(finding: &Finding) -> ShownFinding {
    ShownFinding {
        severity: words::word(&finding.severity),
        section: words::word(&finding.section()),
        code: words::word(&finding.fault),
        what: sentence(finding),
        evidence: finding.evidence.iter().map(shown_evidence).collect(),
        remedy: remedy(finding),
        more_evidence: 0,
        more: 0,
    }
}

pub(super) fn shown_evidence(evidence: &FindingEvidence) -> ShownEvidence {
    let (at, says) = self::evidence(evidence);
    ShownEvidence { at, says }
}

fn shown_element(element: &JudgedElement) -> ShownElement {
    let mut holds = Vec::new();
    for library in &element.holds {
        holds.push(ShownLibrary {
            family: library.family.clone(),
            version: library.version.map(|version| version.to_string()),
            origin: words::word(&library.origin),
        });
    }
    ShownElement {
        variable: element.variable.to_owned(),
        position: element.position,
        text: show(&element.text),
        leads_to: element.leads_to.as_ref().map(show),
        holds,
        set_by: element.set_by.iter().map(startup_line).collect(),
    }
}

pub(super) fn startup_line(line: &StartupLine) -> String {
    at(&line.path, Some(line.number))
}

/// `tables` are those of `-v`, which a description does not have.
pub fn examination(
    page: &DoctorPage,
    tables: Option<(&Examination, &Inventory)>,
    verbosity: u8,
    style: Style,
) -> String {
    let mut text = if page.count("error") > 0 {
        style.error(&page.verdict)
    } else {
        style.good(&page.verdict)
    };
    let warnings = page.count("warning");
    if warnings > 0 {
        text.push_str(&format!(" ({})", counted(warnings, "warning")));
    }
    text.push_str("\n\n");
    let widths = Section::ALL.map(|section| section_title(section).len());
    let width = widths.into_iter().max().unwrap_or(0);
    for section in Section::ALL {
        let title = section_title(section);
        let blanks = " ".repeat(width - title.len());
        let word = words::word(&section);
        let summary = page.sections.iter().find(|one| one.section == word);
        let says = summary.map_or("", |one| &one.says);
        text.push_str(&format!("{}{blanks}  {says}\n", style.strong(title)));
        let of_section = page.findings.iter().filter(|one| one.section == word);
        let findings: Vec<&ShownFinding> = of_section.collect();
        text.push_str(&self::findings(&findings, verbosity, style));
        if section == Section::Environment {
            let is_wrong = findings.iter().any(|one| one.severity != "note");
            if is_wrong || verbosity > 0 {
                text.push_str(&elements(&page.elements, style));
            }
        }
        if let Some((examination, inventory)) = tables.filter(|_| verbosity > 0) {
            text.push_str(&table(section, examination, inventory, style));
        }
    }
    text + &programs(&page.programs, verbosity, style)
}

fn section_title(section: Section) -> &'static str {
    match section {
        Section::Driver => "driver and kernel",
        Section::Gpus => "GPUs and device nodes",
        Section::Libraries => "libraries",
        Section::Environment => "environment",
        Section::StartUp => "start-up files and loader",
        Section::Project => "project",
        Section::Cache => "cache",
    }
}

/// The facts of a section in one line.
fn summary(section: Section, examination: &Examination, inventory: &Inventory) -> String {
    match section {
        Section::Driver => driver(examination, inventory),
        Section::Gpus => {
            let place = if examination.surroundings.is_container {
                "; in a container"
            } else {
                ""
            };
            gpus(examination, inventory) + place
        }
        Section::Libraries => libraries(inventory),
        Section::Environment => format!(
            "{}, {}",
            elements_of(variables::LIBRARY_PATH, examination),
            elements_of(variables::PRELOAD, examination)
        ),
        Section::StartUp => match examination.lines.of_variables.len() {
            0 => "no line sets LD_LIBRARY_PATH or LD_PRELOAD".to_owned(),
            lines => format!(
                "{} with a search path for libraries",
                counted(lines, "line")
            ),
        },
        Section::Project => {
            let project = &examination.project;
            let files = project.files.iter().chain(&project.lock);
            let files: Vec<String> = files.map(show).collect();
            if files.is_empty() {
                "no settings, no lock".to_owned()
            } else {
                files.join(", ")
            }
        }
        Section::Cache => {
            let kept = &examination.kept;
            let Some(directory) = &kept.directory else {
                return "no safe directory".to_owned();
            };
            let (starts, views) = (counted(kept.starts, "start"), counted(kept.views, "view"));
            format!(
                "{}: {starts}, {views}, {}",
                show(directory),
                size(kept.bytes)
            )
        }
    }
}

fn driver(examination: &Examination, inventory: &Inventory) -> String {
    let surroundings = examination.surroundings;
    match &inventory.driver {
        Some(driver) => {
            let cuda = words::supported_cuda(driver);
            format!("kernel driver {}{cuda}", driver.version)
        }
        None if surroundings.is_wsl => "the driver of Windows".to_owned(),
        None if surroundings.is_tegra => "the driver of a Jetson".to_owned(),
        None => "no NVIDIA driver is running".to_owned(),
    }
}

fn libraries(inventory: &Inventory) -> String {
    let installations = inventory.installations.iter();
    let families: BTreeSet<&String> = installations.map(|one| &one.family).collect();
    match (inventory.installations.len(), families.len()) {
        (0, _) => "none that a program finds by default".to_owned(),
        (1, _) => "1 installation".to_owned(),
        (installations, 1) => format!("{installations} installations of 1 family"),
        (installations, families) => {
            format!("{installations} installations of {families} families")
        }
    }
}

fn elements_of(variable: &str, examination: &Examination) -> String {
    let elements = examination.elements.iter();
    match elements.filter(|one| one.variable == variable).count() {
        0 => format!("{variable} is not set"),
        count => format!("{variable} has {}", counted(count, "element")),
    }
}

pub(super) fn gpus(examination: &Examination, inventory: &Inventory) -> String {
    let models: Vec<String> = inventory.gpus.iter().map(words::gpu).collect();
    let surroundings = examination.surroundings;
    match models.as_slice() {
        [] if surroundings.is_wsl => "the GPUs of Windows".to_owned(),
        [] if surroundings.is_tegra => "the GPU of the processor".to_owned(),
        [] if inventory.devices.is_empty() => NO_GPU.to_owned(),
        [] => counted(inventory.devices.len(), "device node"),
        [only] => only.clone(),
        [first, rest @ ..] if rest.iter().all(|model| model == first) => {
            format!("{} × {first}", models.len())
        }
        _ => models.join(", "),
    }
}

fn findings(all: &[&ShownFinding], verbosity: u8, style: Style) -> String {
    let mut text = String::new();
    let mut notes = 0;
    for finding in all {
        let is_note = finding.severity == "note";
        notes += usize::from(is_note);
        let is_shown = !is_note || notes <= NOTES || verbosity > 0;
        if is_shown {
            text.push_str(&self::finding(finding, verbosity, style));
        }
        if is_shown && finding.more > 0 {
            let more = format!("and {} more [{}]", finding.more, finding.code);
            text.push_str(&format!("  {}\n", style.dim(&more)));
        } else if is_note {
            notes += finding.more;
        }
    }
    if notes > NOTES && verbosity == 0 {
        let more = counted(notes - NOTES, "more note");
        text.push_str(&format!(
            "  {}\n",
            style.dim(&style.on_node(&format!("{more}: `cudarun doctor -v` shows all")))
        ));
    }
    text
}

/// The installations, or the directories of the loader's configuration.
fn table(
    section: Section,
    examination: &Examination,
    inventory: &Inventory,
    style: Style,
) -> String {
    let mut rows = Vec::new();
    if section == Section::Libraries {
        for installation in &inventory.installations {
            rows.push(vec![
                words::marked(installation),
                words::version(installation.version.as_ref()),
                installation.origin.word().to_owned(),
                show(&installation.directory),
            ]);
        }
    }
    if section == Section::StartUp {
        for (line, directory) in &examination.lines.of_loader {
            rows.push(vec![startup_line(line), show(directory)]);
        }
    }
    style.columns("  ", &rows)
}

fn finding(finding: &ShownFinding, verbosity: u8, style: Style) -> String {
    let is_note = finding.severity == "note";
    let label = match finding.severity.as_str() {
        "error" => style.error("error:"),
        "warning" => style.warning("warning:"),
        _ => style.dim("note:"),
    };
    let code = style.dim(&format!("[{}]", finding.code));
    let mut text = format!("  {label} {} {code}\n", finding.what);
    let shown = match (verbosity, is_note) {
        (0, true) => 2.min(finding.evidence.len()),
        (0, false) => FEW.min(finding.evidence.len()),
        _ => finding.evidence.len(),
    };
    let mut rows = Vec::new();
    for evidence in &finding.evidence[..shown] {
        rows.push(vec![evidence.at.clone(), evidence.says.clone()]);
    }
    text.push_str(&style.columns("    ", &rows));
    let more = finding.evidence.len() - shown + finding.more_evidence;
    if more > 0 {
        text.push_str(&format!("    and {more} more\n"));
    }
    if let Some(remedy) = &finding.remedy {
        let remedy = style.on_node(remedy);
        text.push_str(&format!("    {} {remedy}\n", style.hint("do:")));
    }
    text
}

/// The elements, each with its libraries and the lines that may have set it.
fn elements(elements: &[ShownElement], style: Style) -> String {
    let mut rows = Vec::new();
    for element in elements {
        let mut libraries = Vec::new();
        for library in &element.holds {
            libraries.push(titled(&library.family, library.version.as_ref()));
        }
        let holds = match element.leads_to {
            _ if !libraries.is_empty() => libraries.join(", "),
            None => "does not exist".to_owned(),
            Some(_) => "no NVIDIA library".to_owned(),
        };
        let set_by = if element.set_by.is_empty() {
            String::new()
        } else {
            format!("set by {}", element.set_by.join(", "))
        };
        rows.push(vec![
            style.dim(&format!("{}[{}]", element.variable, element.position)),
            element_text(element.text.as_ref()),
            holds,
            set_by,
        ]);
    }
    style.columns("  ", &rows)
}

/// The file of `--save`, and advice before a person sends it.
pub fn saved(file: &Path) -> String {
    format!(
        "{} describes this machine; read it before you send it: paths may contain private names",
        show(file)
    )
}

pub(super) fn sentence(finding: &Finding) -> String {
    match &finding.detail {
        Detail::Extension { first, more: 0 } => extensions::sentence(first),
        Detail::Extension { first, more } => {
            format!("{}, and {more} more", extensions::sentence(first))
        }
        Detail::Setting(fault) => settings::fault(fault),
        Detail::UnknownKey(remark) => settings::unknown_key(remark),
        Detail::NotAllowed { file, keys } => settings::not_allowed(file, keys),
        Detail::Malformed(malformed) => settings::malformed(malformed),
        Detail::None | Detail::Problem(_) => finding.fault.sentence(&finding.texts),
    }
}

/// The command to type, or an instruction; `None` for facts.
pub(super) fn remedy(finding: &Finding) -> Option<String> {
    let row = finding.fault.row();
    let cure = if finding.has_other_cure {
        &row.other_cure
    } else {
        &row.cure
    };
    let cure = match &finding.detail {
        Detail::Problem(Problem::WorldWritable { path }) => {
            format!("chmod o-w {}", quoted_to_show(path.as_os_str()))
        }
        Detail::Problem(Problem::ClaimedTwice { packages, .. }) => {
            let each = packages.iter().map(|kept| reinstalled(packages, kept));
            words::joined(each, ", or ")
        }
        Detail::Extension { first, .. } => fitting_builds(&[first], None),
        Detail::Setting(fault) => settings::fault_hint(fault).unwrap_or_else(|| cure.clone()),
        Detail::NotAllowed { file, .. } => {
            format!(
                "read it, then `cudarun allow {}`",
                argument(file.as_os_str())
            )
        }
        _ => {
            let own = [
                ("setter", setter(finding)),
                ("mend", mend(finding)),
                ("reinstall", reinstall(&finding.texts)),
                ("cudarun", String::new()),
            ];
            filled(cure, &own).0
        }
    };
    (!cure.is_empty()).then_some(cure)
}

/// How to install a library again, of which the title and the directory may be known.
pub(super) fn reinstall(texts: &[Text]) -> String {
    let title = texts.iter().find(|(name, _)| *name == "of");
    let directory = texts.iter().find(|(name, _)| *name == "directory");
    match (title, directory) {
        (Some((_, title)), Some((_, directory))) => format!(
            "reinstall the package of {title} in {directory}: `cudarun list` shows the others"
        ),
        _ => "reinstall it: `cudarun list` shows what is here".to_owned(),
    }
}

/// The place of a piece of evidence, and its content.
pub(super) fn evidence(evidence: &FindingEvidence) -> (String, String) {
    match evidence {
        FindingEvidence::File { path, line, text } => (at(path, *line), show(text)),
        FindingEvidence::Absent { path } => (show(path), "does not exist".to_owned()),
        FindingEvidence::Mode { path, mode, owner } => {
            let owner = owner.map(|(uid, gid)| format!(", user {uid}, group {gid}"));
            (
                show(path),
                format!("mode {mode:04o}{}", owner.unwrap_or_default()),
            )
        }
        FindingEvidence::Variable { name, value } => (show(name), format!("\"{}\"", show(value))),
        FindingEvidence::Set { name } => (show(name), "is set".to_owned()),
        FindingEvidence::Element {
            variable,
            position,
            text,
        } => (format!("{variable}[{position}]"), element_text(text)),
        FindingEvidence::Card {
            bus,
            id,
            model,
            driver,
        } => {
            let model = model.map_or_else(|| format!("device {}", show(id)), str::to_owned);
            let driver = driver.as_ref().map_or("no driver".to_owned(), |name| {
                format!("driver {}", show(name))
            });
            (show(bus), format!("{model}, {driver}"))
        }
        FindingEvidence::Installation(installation) => (
            show(&installation.directory),
            format!("{} ({})", named(installation), installation.origin.word()),
        ),
        FindingEvidence::Fault { path, fault } => (show(path), fault.to_string()),
        FindingEvidence::Symbol { path, symbol, has } => {
            let verb = if *has { "has" } else { "has no" };
            (show(path), format!("{verb} {}", show(symbol)))
        }
        FindingEvidence::Place { path, why } => (show(path), why.at(path)),
        FindingEvidence::Told { at, says } => (at.clone(), says.clone()),
    }
}

/// The line that sets an element, or the word for it.
fn setter(finding: &Finding) -> String {
    for evidence in &finding.evidence {
        if let FindingEvidence::File { path, line, .. } = evidence
            && line.is_some()
        {
            return at(path, *line);
        }
    }
    "the variable".to_owned()
}

/// The commands that keep only one of the packages that claim a file.
pub(super) fn reinstalled(packages: &[String], kept: &str) -> String {
    let mut others = BTreeSet::new();
    for package in packages.iter().filter(|package| *package != kept) {
        others.insert(quoted_to_show(words::bare_name(package).as_ref()));
    }
    format!(
        "pip uninstall {}; pip install --force-reinstall --no-deps {}",
        Vec::from_iter(others).join(" "),
        quoted_to_show(kept.replacen(' ', "==", 1).as_ref())
    )
}

/// The command that makes a refused directory safe.
fn mend(finding: &Finding) -> String {
    for evidence in &finding.evidence {
        if let FindingEvidence::Place { why, .. } = evidence {
            return mend_or(why);
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(command: &str, uses: usize, faults: &[&str]) -> ExaminedProgram {
        ExaminedProgram {
            command: command.to_owned(),
            uses: (0..uses)
                .map(|number| format!("library {number}"))
                .collect(),
            faults: faults.iter().map(ToString::to_string).collect(),
            ..ExaminedProgram::default()
        }
    }

    #[test]
    fn a_long_list_of_versions_does_not_hide_the_warnings() {
        let short = warned_page(15, 0);
        assert!(
            short.contains("library 3, and 11 more\n  warning: mixed\n"),
            "{short}"
        );
        assert!(warned_page(15, 1).contains("library 14\n"));
        assert!(
            warned_page(5, 0).contains("library 4\n"),
            "one more is as short as its name"
        );
    }

    #[test]
    fn the_next_command_is_of_a_program_with_a_warning() {
        let [quiet, warned] = [program("a", 1, &[]), program("b", 1, &["mixed"])];
        assert!(programs_page(&[quiet, warned], 0).ends_with("next: cudarun b\n"));
        let [quiet, other] = [program("a", 1, &[]), program("b", 1, &[])];
        assert!(programs_page(&[quiet, other], 0).ends_with("next: cudarun a\n"));
    }

    fn warned_page(uses: usize, verbosity: u8) -> String {
        programs_page(&[program("a", uses, &["mixed"])], verbosity)
    }

    fn programs_page(programs: &[ExaminedProgram], verbosity: u8) -> String {
        super::programs(programs, verbosity, Style::default())
    }
}
