//! A start in as few lines as possible: the program, its needs, the picks, and the difference that they make.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::Style;
use super::pinned::{mode_line, supplies};
use super::reasons;
use super::words::{self, counted, grouped};
use super::{asked, extensions, notes};
use crate::builds::{BuildPlan, Compilers};
use crate::catalog::{display_name, title};
use crate::environment::Diff;
use crate::inventory::Inventory;
use crate::pin::Decision;
use crate::predict::Prediction;
use crate::program::{ImportCertainty, Package, Program, StepKind, Want};
use crate::settings::Layers;
use crate::solve::{Caution, Outcome, Pick, Plan};
use crate::text::{list, show};

/// Blanks before the facts, for their titles.
const MARGIN: &str = "         ";
/// As many requirements have a line each.
const FEW: usize = 8;

/// All facts about a start.
pub struct Explanation<'a> {
    pub program: &'a Program,
    pub inventory: &'a Inventory,
    pub decision: &'a Decision,
    /// The toolkit, of a program that compiles.
    pub build: Option<&'a BuildPlan>,
    pub compilers: &'a Compilers,
    /// The files that the program maps in the present environment.
    pub before: &'a Prediction,
    pub diff: &'a Diff,
    pub view: Option<&'a Path>,
    pub settings: &'a Layers,
    /// Remarks about settings, in words.
    pub remarks: &'a [String],
    /// The program and its arguments, as typed.
    pub words: &'a [OsString],
    /// True if `cudarun fetch` gets something that the program may load.
    pub can_fetch: bool,
}

/// The facts that matter when all is well, in as few lines as possible.
pub(super) fn in_short(explanation: &Explanation<'_>, style: Style) -> String {
    let Explanation {
        program,
        inventory,
        decision,
        before,
        ..
    } = explanation;
    let overview = overview(program, inventory, style);
    let (rows, names) = needs_in_short(program, style);
    let mut text = section("needs", &rows, style);
    let label = if rows.is_empty() { "needs" } else { "" };
    text.push_str(&section(label, &names, style));
    let conditions = asked::judged(&program.conditions, inventory, style);
    text.push_str(&section("machine", &conditions, style));
    let mut remarks: Vec<String> = Vec::new();
    match &decision.outcome {
        Outcome::Plan(plan) => {
            text.push_str(&section("picks", &picks_in_short(plan, program), style));
            if let Some(pinned) = &decision.pinned {
                let supplies = supplies(pinned, before, inventory, program, style).into_iter();
                let others = supplies
                    .filter_map(|(family, with, without)| with.and(Some(vec![family, without?])));
                text.push_str(&section("without", &others.collect::<Vec<_>>(), style));
                text.push_str(&section(
                    "mode",
                    &[vec![mode_line(pinned).replacen("mode ", "", 1)]],
                    style,
                ));
            }
            remarks.extend(plan.unpinned.iter().map(reasons::unpinned));
            remarks.extend(super::outside_if_imported(decision, program));
            remarks.extend(words::absent(&plan.absent, decision.missing()));
            let concerns = plan
                .rejected
                .iter()
                .filter(|rejection| rejection.is_of_concern())
                .count();
            if concerns > 0 {
                let others = counted(concerns, "other installation");
                remarks.push(format!(
                    "{others} not picked: `cudarun explain -v` tells why"
                ));
            }
        }
        Outcome::Nothing { absent, unpinned } => {
            remarks.extend(words::absent(absent, &before.missing));
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
    let refusal = if decision.is_refused() {
        format!("\n{}", super::refusal(decision, program, true, style))
    } else {
        String::new()
    };
    format!("{overview}{blank}{text}{refusal}")
}

/// Rows behind a title in the margin.
fn section(title: &str, rows: &[Vec<String>], style: Style) -> String {
    let text = style.columns(MARGIN, rows);
    let Some(text) = text.strip_prefix(MARGIN) else {
        return String::new();
    };
    format!(
        "{}{}{text}",
        style.strong(title),
        " ".repeat(MARGIN.len() - title.len())
    )
}

fn overview(program: &Program, inventory: &Inventory, style: Style) -> String {
    let mut path = show(&program.path);
    let last = program
        .steps
        .last()
        .filter(|step| matches!(step.how, StepKind::Script | StepKind::Wrapper));
    path.extend(last.map(|step| format!(", runs {}", show(&step.to))));
    let packages = program
        .packages
        .iter()
        .map(|package| vec![package_name(package), how_sure(package)]);
    let notes = program
        .notes
        .iter()
        .map(|note| vec![notes::note(note, program)]);
    let gpus = inventory.gpus.iter().map(words::gpu);
    let driver = [driver(inventory)]
        .into_iter()
        .chain(gpus)
        .collect::<Vec<_>>()
        .join("; ");
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
    let all = needs(program, false, style);
    let are_many = all.len() > FEW;
    let is_name =
        |row: &Vec<String>| are_many && row[1].starts_with("lib") && !row[1].contains(' ');
    let (names, rows) = all.into_iter().partition::<Vec<_>, _>(is_name);
    let names = grouped(
        names
            .into_iter()
            .map(|mut row| (row.swap_remove(2), row.swap_remove(1))),
    );
    (
        rows,
        names
            .into_iter()
            .map(|(by, names)| vec![format!("{}, for {by}", list(&names))])
            .collect(),
    )
}

/// The picks, a row for each directory, or for directories that differ in one component.
fn picks_in_short(plan: &Plan, program: &Program) -> Vec<Vec<String>> {
    let mut places: BTreeMap<(Option<&Path>, Option<&OsStr>), Vec<&Pick>> = BTreeMap::new();
    for pick in &plan.picks {
        let directory = pick.installation.directory.as_path();
        let above = directory.parent().and_then(Path::parent);
        places
            .entry((above, directory.file_name()))
            .or_default()
            .push(pick);
    }
    let row = |((above, name), picks): (&(Option<&Path>, Option<&OsStr>), &Vec<&Pick>)| {
        let first = &picks[0].installation.directory;
        let place = match (above, name) {
            (Some(above), Some(name))
                if picks
                    .iter()
                    .any(|pick| pick.installation.directory != *first) =>
            {
                words::place(&above.join("*").join(name), Some(program))
            }
            _ => words::place(first, Some(program)),
        };
        let titles: Vec<String> = picks
            .iter()
            .map(|pick| words::versioned(&pick.installation))
            .collect();
        vec![place, titles.join(", ")]
    };
    places.iter().map(row).collect()
}

pub(super) fn unfit(explanation: &Explanation<'_>, style: Style) -> String {
    let unfit = extensions::unfit(explanation.inventory, explanation.program);
    let line = |extension| {
        format!(
            "{} {}\n",
            style.warning("warning:"),
            extensions::sentence(extension)
        )
    };
    unfit.into_iter().map(line).collect()
}

pub(super) fn driver(inventory: &Inventory) -> String {
    match &inventory.driver {
        Some(driver) => {
            let cuda = driver
                .cuda
                .map(|cuda| format!(", supports CUDA up to {cuda}"))
                .unwrap_or_default();
            let reach = if inventory.devices.is_empty() {
                ", but no GPU is reachable"
            } else {
                ""
            };
            format!("{}{cuda}{reach}", driver.version)
        }
        None => "none".to_owned(),
    }
}

pub(super) fn package_name(package: &Package) -> String {
    match &package.version {
        Some(version) => show(&format!("{} {version}", package.name)),
        None => show(&package.name),
    }
}

pub(super) fn how_sure(package: &Package) -> String {
    match (package.standing, &package.imported_by) {
        (ImportCertainty::Imported, Some(by)) => format!("imported by {}", show(by)),
        (ImportCertainty::Imported, None) => "imported".to_owned(),
        (ImportCertainty::Possible, _) => "installed, perhaps imported".to_owned(),
    }
}

/// A row for each distinct need of each family, with its requesters.
pub(super) fn needs(program: &Program, is_full: bool, style: Style) -> Vec<Vec<String>> {
    let of_family = program
        .requirements
        .iter()
        .map(|requirement| (&requirement.family, requirement));
    let mut all = Vec::new();
    for (family, requirements) in grouped(of_family) {
        // A version that upstream tested with matters only beside a requirement.
        if !requirements.iter().any(|requirement| requirement.is_wish()) {
            continue;
        }
        let askers = grouped(
            requirements
                .into_iter()
                .map(|requirement| (&requirement.by.name, requirement)),
        );
        let rows = grouped(askers.iter().map(|(_, asked)| {
            let wants: Vec<&Want> = asked.iter().map(|requirement| &requirement.want).collect();
            (
                if is_full {
                    all_wants(&wants)
                } else {
                    words::wants(wants)
                },
                &asked[0].by,
            )
        }));
        for (needs, who) in rows.into_iter().filter(|(needs, _)| !needs.is_empty()) {
            let place = match who.as_slice() {
                [only] if askers.len() == 1 && is_full => only.place(),
                [only] => only.with_place(),
                several => list(several.iter().map(|by| title(&by.name)).collect::<Vec<_>>()),
            };
            all.push(vec![
                display_name(family).to_owned(),
                needs,
                style.dim(&place),
            ]);
        }
    }
    all
}

/// The needs of one requester, preferences included.
fn all_wants(wants: &[&Want]) -> String {
    let preferred = wants.iter().find_map(|want| match want {
        Want::Recorded(version) => Some(format!("tested with {version}")),
        Want::Preferred(range) => Some(format!("{range} preferred")),
        _ => None,
    });
    let firm = Some(words::wants(wants.iter().copied())).filter(|firm| !firm.is_empty());
    firm.into_iter()
        .chain(preferred)
        .collect::<Vec<_>>()
        .join(", ")
}

pub(super) fn cautions(plan: &Plan, style: Style) -> String {
    let line = |caution: &Caution| format!("  {} {}\n", style.warning("warning:"), caution);
    plan.cautions.iter().map(line).collect()
}
