//! The requirements of a program, the picks and their reasons: short with `-v`, in full for `explain`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::Style;
use super::hints;
use super::listed::gpus;
use super::pinned::{differences, loads, mode_line, not_enough};
use super::reasons;
use super::words::{self, counted};
use super::{asked, extensions, notes};
use crate::environment::Diff;
use crate::inventory::Inventory;
use crate::pin::audit_module;
use crate::pin::{Decision, Mode};
use crate::predict::Prediction;
use crate::program::{
    Asker, ImportCertainty, Package, Program, Reading, Requirement, Sought, StepKind, Want,
};
use crate::settings::Layers;
use crate::solve::{Absent, Outcome, Pick, Plan, Rejection, Unpinned};
use crate::text::show;

/// Blanks before the facts, for their titles.
const MARGIN: &str = "         ";
/// As many requirements have a line each.
const FEW: usize = 8;

/// All facts about a start.
pub struct Explanation<'a> {
    pub program: &'a Program,
    pub inventory: &'a Inventory,
    pub decision: &'a Decision,
    /// The files that the program maps in the present environment.
    pub before: &'a Prediction,
    pub diff: &'a Diff,
    pub view: Option<&'a Path>,
    pub settings: &'a Layers,
    /// Remarks about settings, in words.
    pub remarks: &'a [String],
    /// The program and its arguments, as typed.
    pub words: &'a [OsString],
}

pub fn explained(explanation: &Explanation<'_>, verbosity: u8, style: Style) -> String {
    let Explanation { program, inventory, decision, before, diff, .. } = explanation;
    let mut text = format!("{}\n\n", verdict(program, decision, style));
    if verbosity == 0 {
        text.push_str(&in_short(explanation, style));
        return text + &next(explanation, style);
    }
    text.push_str(&steps(program, style));
    text.push_str(&readings(program, style));
    text.push_str(&machine(inventory, style));
    text.push_str(&super::settings::settings(explanation.settings, style));
    match &decision.outcome {
        Outcome::Nothing { absent, unpinned } => {
            text.push_str(&needs(program, style));
            text.push_str(&missing(absent));
            text.push_str(&left_alone(unpinned));
        }
        Outcome::Plan(plan) => {
            text.push_str(&needs(program, style));
            text.push_str(&picks(plan, program, verbosity, style));
            text.push_str(&loads(decision, before, inventory, program, style));
            if decision.leaks() {
                text.push_str(&format!("\n{}", super::refusal(decision, program, style)));
            } else {
                text.push_str(&environment(plan, diff, style));
            }
        }
        Outcome::Conflict(_) => text.push_str(&format!("\n{}", super::refusal(decision, program, style))),
    }
    text.push_str(&unfit(explanation, style));
    if verbosity > 1 {
        text.push_str(&super::warnings(&inventory.warnings, style));
    }
    text + &next(explanation, style)
}

/// One sentence: does the program start, and with how many libraries?
fn verdict(program: &Program, decision: &Decision, style: Style) -> String {
    let name = show(program.runs().file_name().unwrap_or_default());
    match &decision.outcome {
        Outcome::Nothing { absent, unpinned } => {
            format!("`{name}` {}: it starts unchanged", nothing(absent, unpinned))
        }
        Outcome::Conflict(_) => style.error(&format!("`{name}` does not start: no set of libraries fits")),
        Outcome::Plan(_) if decision.leaks() => {
            style.error(&format!("`{name}` does not start: its loader would use other libraries"))
        }
        Outcome::Plan(plan) => {
            let set = match plan.picks.len() {
                1 => "1 NVIDIA library".to_owned(),
                count => format!("{count} NVIDIA libraries that fit together"),
            };
            style.good(&format!("`{name}` starts with {set}"))
        }
    }
}

/// The command to type; a refusal ends with its own.
fn next(explanation: &Explanation<'_>, style: Style) -> String {
    let next = match &explanation.decision.outcome {
        Outcome::Conflict(conflict) if conflict.hint.is_some() => return String::new(),
        _ if explanation.decision.leaks() => return String::new(),
        Outcome::Conflict(_) => "cudarun list".to_owned(),
        Outcome::Nothing { .. } => "cudarun doctor".to_owned(),
        Outcome::Plan(_) => {
            let words: Vec<String> = explanation.words.iter().map(|word| hints::argument(word)).collect();
            format!("cudarun {}", words.join(" "))
        }
    };
    format!("\n{} {next}\n", style.hint("next:"))
}

/// The facts that matter when all is well, in as few lines as possible.
fn in_short(explanation: &Explanation<'_>, style: Style) -> String {
    let Explanation { program, inventory, decision, before, .. } = explanation;
    let overview = overview(program, inventory, style);
    let (rows, names) = needs_in_short(program, style);
    let mut text = section("needs", &rows, style);
    let label = if rows.is_empty() { "needs" } else { "" };
    text.push_str(&section(label, &names, style));
    text.push_str(&section("machine", &asked::conditions(&program.conditions, style), style));
    let mut remarks: Vec<String> = Vec::new();
    match &decision.outcome {
        Outcome::Plan(plan) => {
            text.push_str(&section("picks", &picks_in_short(plan, program, style), style));
            if let Some(pinned) = &decision.pinned {
                text.push_str(&section(
                    "without",
                    &differences(pinned, before, inventory, program, style),
                    style,
                ));
                text.push_str(&section("mode", &[vec![mode_line(pinned).replacen("mode ", "", 1)]], style));
            }
            remarks.extend(plan.unpinned.iter().map(reasons::unpinned));
            remarks.extend(plan.absent.iter().map(words::absent));
            let concerns = plan.rejected.iter().filter(|rejection| rejection.is_of_concern()).count();
            if concerns > 0 {
                let others = counted(concerns, "other installation");
                remarks.push(format!("{others} not picked: `cudarun explain -v` tells why"));
            }
        }
        Outcome::Nothing { absent, unpinned } => {
            remarks.extend(absent.iter().map(words::absent));
            remarks.extend(unpinned.iter().map(reasons::unpinned));
        }
        Outcome::Conflict(_) => {}
    }
    let remarks: Vec<Vec<String>> = remarks.into_iter().map(|remark| vec![remark]).collect();
    text.push_str(&section("note", &remarks, style));
    if let Outcome::Plan(plan) = &decision.outcome {
        text.push_str(&cautions(plan, style));
    }
    text.push_str(&unfit(explanation, style));
    let blank = if text.is_empty() { "" } else { "\n" };
    let refusal = match decision.is_refused() {
        true => format!("\n{}", super::refusal(decision, program, style)),
        false => String::new(),
    };
    format!("{overview}{blank}{text}{refusal}")
}

/// Rows behind a title in the margin.
fn section(title: &str, rows: &[Vec<String>], style: Style) -> String {
    let text = style.columns(MARGIN, rows);
    let Some(text) = text.strip_prefix(MARGIN) else { return String::new() };
    format!("{}{}{text}", style.strong(title), " ".repeat(MARGIN.len() - title.len()))
}

fn overview(program: &Program, inventory: &Inventory, style: Style) -> String {
    let mut path = show(&program.path);
    let last = program.steps.last().filter(|step| matches!(step.how, StepKind::Script | StepKind::Wrapper));
    path.extend(last.map(|step| format!(", runs {}", show(&step.to))));
    let packages = program.packages.iter().map(|package| vec![package_name(package), how_sure(package)]);
    let notes = program.notes.iter().map(|note| vec![notes::note(note, program)]);
    let gpus = inventory.gpus.iter().map(|gpu| {
        let capability = gpu.capability.map(|capability| format!(" ({capability})")).unwrap_or_default();
        format!("{}{capability}", show(&gpu.model))
    });
    let driver = [driver(inventory)].into_iter().chain(gpus).collect::<Vec<_>>().join("; ");
    [
        section("program", &[vec![path]], style),
        section("package", &packages.collect::<Vec<_>>(), style),
        section("note", &notes.collect::<Vec<_>>(), style),
        section("driver", &[vec![driver]], style),
    ]
    .concat()
}

/// A row for each requirement; the libraries that one requester needs by nothing but their names share a row.
fn needs_in_short(program: &Program, style: Style) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let (mut rows, mut names): (Vec<Vec<String>>, Vec<(String, Vec<String>)>) = Default::default();
    let all: Vec<Vec<String>> = families(program)
        .into_iter()
        .flat_map(|family| needs_of(family, &program.requirements, false, style))
        .collect();
    let are_many = all.len() > FEW;
    for row in all {
        let is_name = row[1].starts_with("lib") && !row[1].contains(' ');
        match names.iter_mut().find(|(by, _)| *by == row[2]) {
            Some((_, known)) if is_name && are_many => known.push(row[1].clone()),
            None if is_name && are_many => names.push((row[2].clone(), vec![row[1].clone()])),
            _ => rows.push(row),
        }
    }
    (rows, names.into_iter().map(|(by, names)| vec![format!("{}, for {by}", words::list(&names))]).collect())
}

/// The picks, a row for each directory, or for directories that differ in one component.
fn picks_in_short(plan: &Plan, program: &Program, style: Style) -> Vec<Vec<String>> {
    let mut places: BTreeMap<(Option<&Path>, Option<&OsStr>), Vec<&Pick>> = BTreeMap::new();
    for pick in &plan.picks {
        let directory = pick.installation.directory.as_path();
        let above = directory.parent().and_then(Path::parent);
        places.entry((above, directory.file_name())).or_default().push(pick);
    }
    let row = |((above, name), picks): (&(Option<&Path>, Option<&OsStr>), &Vec<&Pick>)| {
        let first = &picks[0].installation.directory;
        let place = match (above, name) {
            (Some(above), Some(name)) if picks.iter().any(|pick| pick.installation.directory != *first) => {
                words::place(&above.join("*").join(name), Some(program))
            }
            _ => words::place(first, Some(program)),
        };
        let title = |pick: &&Pick| {
            let version = style.good(&words::version(pick.installation.version.as_ref()));
            format!("{} {version}", words::family(&pick.installation.family))
        };
        vec![place, picks.iter().map(title).collect::<Vec<_>>().join(", ")]
    };
    places.iter().map(row).collect()
}

fn unfit(explanation: &Explanation<'_>, style: Style) -> String {
    let unfit = extensions::unfit(explanation.inventory, explanation.program);
    let line = |extension| format!("{} {}\n", style.warning("warning:"), extensions::sentence(extension));
    unfit.into_iter().map(line).collect()
}

fn nothing(absent: &[Absent], unpinned: &[Unpinned]) -> &'static str {
    match (absent, unpinned) {
        ([], []) => "needs no NVIDIA library",
        (_, []) => "finds no NVIDIA library",
        _ => "finds no NVIDIA library that fits",
    }
}

/// The lines for a start with `-v`: one for each pick, and notes.
pub fn summary(program: &Program, decision: &Decision, verbosity: u8, style: Style) -> String {
    let name = show(program.runs().file_name().unwrap_or_default());
    let mut text = String::new();
    for note in &program.notes {
        text.push_str(&format!("cudarun: {}\n", notes::note(note, program)));
    }
    match &decision.outcome {
        Outcome::Nothing { absent, unpinned } => {
            let why = nothing(absent, unpinned);
            text.push_str(&format!("cudarun: `{name}` {why}: started unchanged\n"));
            text.push_str(&missing(absent));
            text.push_str(&left_alone(unpinned));
        }
        Outcome::Plan(plan) => {
            let packages: Vec<String> = program.packages.iter().map(package_name).collect();
            let what = if packages.is_empty() { format!("`{name}`") } else { words::list(&packages) };
            text.push_str(&format!("cudarun: for {what}\n"));
            let rows: Vec<Vec<String>> =
                plan.picks.iter().map(|pick| pick_row(pick, program, style)).collect();
            text.push_str(&style.columns("  ", &rows));
            if let Some(pinned) = &decision.pinned {
                text.push_str(&format!("  {}\n", mode_line(pinned)));
                let is_of_interest = |mode| verbosity > 1 || mode >= Mode::Audit;
                text.push_str(&not_enough(decision, program, is_of_interest));
            }
            text.push_str(&removed_and_blocked(plan));
            text.push_str(&left_alone(&plan.unpinned));
            text.push_str(&missing(&plan.absent));
            text.push_str(&cautions(plan, style));
            if verbosity > 1 {
                let rejected = plan.rejected.iter().map(|one| rejection_row(one, program, style));
                text.push_str(&style.columns("  ", &rejected.collect::<Vec<_>>()));
            }
        }
        Outcome::Conflict(_) => {}
    }
    text
}

fn steps(program: &Program, style: Style) -> String {
    let mut rows = vec![vec![style.strong("program"), show(&program.path)]];
    for step in program.steps.iter().skip(1) {
        let how = match step.how {
            StepKind::Path => continue,
            StepKind::Link => "a link to",
            StepKind::Interpreter => "a script for",
            StepKind::Env => "a script, through env, for",
            StepKind::Wrapper => "starts",
            StepKind::Shim => "a pyenv shim for",
            StepKind::Script => "runs",
            StepKind::Module => "runs the module",
            StepKind::Code => "runs the code after",
        };
        rows.push(vec![String::new(), format!("{how} {}", show(&step.to))]);
    }
    for site in &program.site_packages {
        rows.push(vec![style.strong("modules"), show(site)]);
    }
    for package in &program.packages {
        rows.push(vec![style.strong("package"), package_name(package), how_sure(package)]);
    }
    for note in &program.notes {
        rows.push(vec![style.strong("note"), notes::note(note, program)]);
    }
    style.columns("", &rows)
}

/// The versions that a profile says where to read, found or not.
fn readings(program: &Program, style: Style) -> String {
    let row = |package: &Package, reading: &Reading| {
        let text = match (&reading.sought, &reading.found) {
            (Sought::Cuda, Some((cuda, file))) => format!("CUDA {cuda}, from {}", show(file)),
            (Sought::Cuda, None) => "its CUDA version is not recorded".to_owned(),
            (Sought::Floor(family), Some((version, file))) => {
                format!("{} {version} or newer, from {}", words::family(family), show(file))
            }
            (Sought::Floor(family), None) => {
                format!("the {} that it was compiled for is not recorded", words::family(family))
            }
            (Sought::Soname(stem), _) => format!("opens {stem}, but the number in its name is not recorded"),
        };
        vec![style.strong("profile"), package_name(package), text]
    };
    let rows = program
        .packages
        .iter()
        .flat_map(|package| package.readings.iter().map(|reading| row(package, reading)));
    style.columns("", &rows.collect::<Vec<_>>())
}

fn machine(inventory: &Inventory, style: Style) -> String {
    let mut rows = vec![vec![style.strong("driver"), driver(inventory)]];
    rows.extend(gpus(inventory, style));
    style.columns("", &rows)
}

fn driver(inventory: &Inventory) -> String {
    match &inventory.driver {
        Some(driver) => {
            let cuda = driver.cuda.map(|cuda| format!(", supports CUDA up to {cuda}")).unwrap_or_default();
            let reach = if inventory.devices.is_empty() { ", but no GPU is reachable" } else { "" };
            format!("{}{cuda}{reach}", driver.version)
        }
        None => "none".to_owned(),
    }
}

fn package_name(package: &Package) -> String {
    match &package.version {
        Some(version) => show(&format!("{} {version}", package.name)),
        None => show(&package.name),
    }
}

fn how_sure(package: &Package) -> String {
    match (package.standing, &package.imported_by) {
        (ImportCertainty::Imported, Some(by)) => format!("imported by {}", show(by)),
        (ImportCertainty::Imported, None) => "imported".to_owned(),
        (ImportCertainty::Possible, _) => "installed, perhaps imported".to_owned(),
    }
}

fn families(program: &Program) -> Vec<&str> {
    let mut families: Vec<&str> = Vec::new();
    for requirement in &program.requirements {
        if !families.contains(&requirement.family.as_str()) {
            families.push(&requirement.family);
        }
    }
    families
}

fn needs(program: &Program, style: Style) -> String {
    let of_family = |family| needs_of(family, &program.requirements, true, style);
    let rows: Vec<Vec<String>> = families(program).into_iter().flat_map(of_family).collect();
    let conditions = asked::conditions(&program.conditions, style);
    if rows.is_empty() && conditions.is_empty() {
        return String::new();
    }
    // Conditions may be long, so they have their own columns.
    format!("\n{}\n{}{}", style.strong("needs"), style.columns("  ", &rows), style.columns("  ", &conditions))
}

/// A row for each distinct need of a family, with its requesters.
fn needs_of(family: &str, requirements: &[Requirement], is_full: bool, style: Style) -> Vec<Vec<String>> {
    let of_family: Vec<&Requirement> =
        requirements.iter().filter(|requirement| requirement.family == family).collect();
    // A version that upstream tested with matters only beside a requirement.
    if !of_family.iter().any(|requirement| requirement.is_wish()) {
        return Vec::new();
    }
    let mut askers: Vec<&Asker> = Vec::new();
    for requirement in &of_family {
        if askers.iter().all(|asker| asker.name != requirement.by.name) {
            askers.push(&requirement.by);
        }
    }
    let mut rows: Vec<(String, Vec<&Asker>)> = Vec::new();
    for by in askers.iter().copied() {
        let of_asker = of_family.iter().filter(|requirement| requirement.by.name == by.name);
        let wants: Vec<&Want> = of_asker.map(|requirement| &requirement.want).collect();
        let needs = if is_full { all_wants(&wants) } else { words::wants(wants) };
        match rows.iter_mut().find(|(known, _)| *known == needs) {
            Some((_, who)) => who.push(by),
            None => rows.push((needs, vec![by])),
        }
    }
    let row = |(needs, who): (String, Vec<&Asker>)| {
        let place = match who.as_slice() {
            [only] if askers.len() == 1 && is_full => words::written_in(only),
            [only] => words::by_and_place(only),
            several => words::list(&several.iter().map(|by| words::title(&by.name)).collect::<Vec<_>>()),
        };
        vec![words::family(family).to_owned(), needs, style.dim(&place)]
    };
    rows.into_iter().filter(|(needs, _)| !needs.is_empty()).map(row).collect()
}

/// The needs of one requester, preferences included.
fn all_wants(wants: &[&Want]) -> String {
    let preferred = wants.iter().find_map(|want| match want {
        Want::Recorded(version) => Some(format!("tested with {version}")),
        Want::Preferred(range) => Some(format!("{range} preferred")),
        _ => None,
    });
    let firm = Some(words::wants(wants.iter().copied())).filter(|firm| !firm.is_empty());
    firm.into_iter().chain(preferred).collect::<Vec<_>>().join(", ")
}

fn picks(plan: &Plan, program: &Program, verbosity: u8, style: Style) -> String {
    let mut text = format!("\n{}\n", style.strong("picks"));
    let mut rows = Vec::new();
    for pick in &plan.picks {
        rows.push(pick_row(pick, program, style));
        let others = plan.rejected.iter().filter(|rejection| {
            rejection.installation.family == pick.installation.family && is_of_interest(rejection, verbosity)
        });
        rows.extend(others.map(|rejection| rejection_row(rejection, program, style)));
    }
    text.push_str(&style.columns("  ", &rows));
    text.push_str(&left_alone(&plan.unpinned));
    text.push_str(&missing(&plan.absent));
    text.push_str(&cautions(plan, style));
    text
}

fn cautions(plan: &Plan, style: Style) -> String {
    let line = |caution| format!("  {} {}\n", style.warning("warning:"), asked::caution(caution));
    plan.cautions.iter().map(line).collect()
}

fn pick_row(pick: &Pick, program: &Program, style: Style) -> Vec<String> {
    vec![
        words::family(&pick.installation.family).to_owned(),
        style.good(&words::version(pick.installation.version.as_ref())),
        pick.installation.origin.word().to_owned(),
        words::place(&pick.installation.directory, Some(program)),
        style.dim(reasons::decided_by(pick.decided_by)),
    ]
}

fn rejection_row(rejection: &Rejection, program: &Program, style: Style) -> Vec<String> {
    vec![
        "  not".to_owned(),
        words::version(rejection.installation.version.as_ref()),
        rejection.installation.origin.word().to_owned(),
        words::place(&rejection.installation.directory, Some(program)),
        style.dim(&reasons::reason(&rejection.reason)),
    ]
}

/// Installations that no requester could have meant appear only with `-vv`.
fn is_of_interest(rejection: &Rejection, verbosity: u8) -> bool {
    verbosity > 1 || rejection.is_of_concern()
}

fn environment(plan: &Plan, diff: &Diff, style: Style) -> String {
    let mut text = format!("\n{}\n", style.strong("environment"));
    let rows: Vec<Vec<String>> = diff
        .0
        .iter()
        .map(|change| {
            let value = match &change.value {
                None => "(unset)".to_owned(),
                Some(table) if change.name == audit_module::PINS => table_in_short(table),
                Some(value) => show(value),
            };
            vec![show(&change.name), value]
        })
        .collect();
    text.push_str(&style.columns("  ", &rows));
    text.push_str(&removed_and_blocked(plan));
    if diff.is_empty() {
        text.push_str("  no change\n");
    }
    text
}

/// The table of the audit module repeats every name of the view.
fn table_in_short(table: &OsStr) -> String {
    let text = show(table);
    let (directory, names) = text.split_once(':').unwrap_or((&text, ""));
    format!("{directory} and {} in it", counted(names.split(':').count(), "name"))
}

/// The elements of search paths that are removed, and the names that tombstones block.
fn removed_and_blocked(plan: &Plan) -> String {
    let removals = words::removals(plan).into_iter();
    let mut text: String = removals.map(|(element, why)| format!("  without {element}: {why}\n")).collect();
    if !plan.tombstones.is_empty() {
        let names: Vec<String> = plan.tombstones.iter().map(show).collect();
        text.push_str(&format!("  blocked by tombstones: {}\n", names.join(", ")));
    }
    text
}

fn left_alone(unpinned: &[Unpinned]) -> String {
    unpinned.iter().map(|unpinned| format!("  {}\n", reasons::unpinned(unpinned))).collect()
}

fn missing(absent: &[Absent]) -> String {
    absent.iter().map(|absent| format!("  {}\n", words::absent(absent))).collect()
}
