//! The requirements of a program, the picks and their reasons: short with `-v`, in full for `explain`.

use std::ffi::{OsStr, OsString};

use super::Style;
use super::hints::shell_words;
use super::listed::gpus;
use super::overview::{
    Explanation, cautions, driver, how_sure, in_short, needs, package_name, unfit,
};
use super::pinned::{loads, mode_line, not_enough};
use super::reasons;
use super::words::{self, counted, grouped};
use super::{asked, builds, notes};
use crate::catalog::display_name;
use crate::environment::Diff;
use crate::error::Error;
use crate::inventory::Inventory;
use crate::pin::audit_module;
use crate::pin::{Decision, Mode};
use crate::predict::Missing;
use crate::program::{Package, Program, Reading, Sought, StepKind};
use crate::solve::{Absent, Outcome, Pick, Plan, Rejection, Unpinned};
use crate::text::{list, plain, show};

pub fn explained(explanation: &Explanation<'_>, verbosity: u8, style: Style) -> String {
    let Explanation {
        program,
        inventory,
        decision,
        before,
        diff,
        ..
    } = explanation;
    if let Some((script, why)) = program.unread_script().filter(|_| !style.is_elsewhere()) {
        let name = show(program.path.file_name().unwrap_or_default());
        let (script, why) = (show(script), plain(why).to_lowercase());
        let error = style.error(&format!("`{name}` cannot start"));
        return format!("{error}: `{script}` cannot be read: {}\n", show(&why));
    }
    let mut text = format!("{}\n\n", verdict(program, decision, style));
    text.push_str(
        &explanation
            .build
            .map(|build| builds::build(build, style))
            .unwrap_or_default(),
    );
    text.push_str(&builds::compilers(explanation.compilers, style));
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
            text.push_str(&all_needs(program, style));
            text.push_str(&missing(absent, &before.missing));
            text.push_str(&left_alone(unpinned));
        }
        Outcome::Plan(plan) => {
            text.push_str(&all_needs(program, style));
            text.push_str(&picks(plan, decision, program, verbosity, style));
            text.push_str(&loads(decision, before, inventory, program, style));
            for line in super::outside_if_imported(decision, program) {
                text.push_str(&format!("  {line}\n"));
            }
            if decision.leaks() {
                text.push_str(&format!(
                    "\n{}",
                    super::refusal(decision, program, true, style)
                ));
            } else {
                text.push_str(&environment(plan, diff, style));
            }
        }
        Outcome::Conflict(_) => text.push_str(&format!(
            "\n{}",
            super::refusal(decision, program, true, style)
        )),
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
            format!(
                "`{name}` {}: it starts unchanged",
                nothing(absent, unpinned)
            )
        }
        Outcome::Conflict(_) => style.error(&format!(
            "`{name}` does not start: no set of libraries fits"
        )),
        Outcome::Plan(_) if decision.leaks() => style.error(&format!(
            "`{name}` does not start: its loader would use other libraries"
        )),
        Outcome::Plan(plan) => {
            let lacks = lacks(plan, decision);
            let fit = if lacks.is_empty() {
                " that fit together"
            } else {
                ""
            };
            let set = match plan.picks.len() {
                1 => "1 NVIDIA library".to_owned(),
                count => format!("{count} NVIDIA libraries{fit}"),
            };
            if lacks.is_empty() {
                style.good(&format!("`{name}` starts with {set}"))
            } else {
                let lacks = list(&lacks);
                style.warning(&format!("`{name}` starts with {set}, but {lacks}"))
            }
        }
    }
}

/// The needs that no library of the plan meets although the program certainly has them: it fails, or works without its GPU.
fn lacks(plan: &Plan, decision: &Decision) -> Vec<String> {
    let absent = plan.absent.iter().filter(|absent| absent.is_certain());
    let names: Vec<String> = absent
        .flat_map(|absent| {
            let is_lacked =
                |name: &&String| absent.essential || words::is_missing(name, decision.missing());
            absent.names.iter().filter(is_lacked)
        })
        .map(show)
        .collect();
    let unpinned = plan.unpinned.iter().filter(|one| one.must_be_said);
    let families: Vec<String> = unpinned
        .map(|unpinned| display_name(&unpinned.family).to_owned())
        .collect();
    let said = |names: &[String], what: &str| {
        let is = if names.len() == 1 { "is" } else { "are" };
        (!names.is_empty()).then(|| format!("{} {is} {what}", list(names)))
    };
    [said(&names, "not installed"), said(&families, "not pinned")]
        .into_iter()
        .flatten()
        .collect()
}

/// The command to type; a refusal ends with its own.
fn next(explanation: &Explanation<'_>, style: Style) -> String {
    let next = match &explanation.decision.outcome {
        Outcome::Conflict(_) => return String::new(),
        _ if explanation.decision.leaks() => return String::new(),
        _ if explanation.can_fetch => {
            format!("cudarun fetch {}", shell_words(explanation.words))
        }
        _ if style.is_elsewhere() => return String::new(),
        _ => format!("cudarun {}", shell_words(explanation.words)),
    };
    style.next(&next)
}

fn nothing(absent: &[Absent], unpinned: &[Unpinned]) -> &'static str {
    match (absent, unpinned) {
        ([], []) => "needs no NVIDIA library",
        (_, []) => "finds no NVIDIA library",
        _ => "finds no NVIDIA library that fits",
    }
}

/// The answer of `fetch` about a program for which nothing is picked, with notes.
pub fn no_need(program: &Program) -> String {
    let name = show(program.runs().file_name().unwrap_or_default());
    let notes = program
        .notes
        .iter()
        .map(|note| format!("note: {}\n", notes::note(note, program)));
    format!(
        "nothing to fetch: `{name}` needs no NVIDIA library\n{}",
        notes.collect::<String>()
    )
}

/// The lines for a start with `-v`: one for each pick, and notes.
/// `follows`: what the program starts is decided for itself.
pub fn summary(
    program: &Program,
    decision: &Decision,
    follows: bool,
    verbosity: u8,
    style: Style,
) -> String {
    let name = show(program.runs().file_name().unwrap_or_default());
    let mut text = String::new();
    for note in &program.notes {
        if !follows || !note.is_mended_by_following() {
            text.push_str(&format!("cudarun: {}\n", notes::note(note, program)));
        }
    }
    match &decision.outcome {
        Outcome::Nothing { absent, unpinned } => {
            let why = nothing(absent, unpinned);
            text.push_str(&format!("cudarun: `{name}` {why}: started unchanged\n"));
            text.push_str(&missing(absent, &[]));
            text.push_str(&left_alone(unpinned));
        }
        Outcome::Plan(plan) => {
            let packages: Vec<String> = program.packages.iter().map(package_name).collect();
            let what = if packages.is_empty() {
                format!("`{name}`")
            } else {
                list(&packages)
            };
            text.push_str(&format!("cudarun: for {what}\n"));
            text.push_str(&picks_by_reason(plan, program, style));
            if let Some(pinned) = &decision.pinned {
                text.push_str(&format!("  {}\n", mode_line(pinned)));
                let is_of_interest = |mode| verbosity > 1 || mode >= Mode::Audit;
                text.push_str(&style.columns("  ", &not_enough(decision, program, is_of_interest)));
            }
            text.push_str(&removed_and_blocked(plan));
            text.push_str(&left_alone(&plan.unpinned));
            text.push_str(&missing(&plan.absent, decision.missing()));
            text.push_str(&cautions(plan, style));
            if verbosity > 1 {
                let rejected = plan
                    .rejected
                    .iter()
                    .map(|one| rejection_row(one, program, style));
                text.push_str(&style.columns("  ", &rejected.collect::<Vec<_>>()));
            }
        }
        Outcome::Conflict(_) => {}
    }
    text
}

/// One line about a process that was decided for itself: `command` is its command line.
pub fn followed(command: &[OsString], parent: &str, decision: &Decision) -> String {
    let what = match &decision.outcome {
        Outcome::Nothing { absent, unpinned } => nothing(absent, unpinned).to_owned(),
        Outcome::Conflict(_) => "nothing fits".to_owned(),
        Outcome::Plan(plan) => {
            let first = plan.picks.first().map(|pick| {
                let installation = &pick.installation;
                let version = installation.version.map(|version| format!(" {version}"));
                let family = display_name(&installation.family);
                format!("{family}{}", version.unwrap_or_default())
            });
            let more = match plan.picks.len() {
                0 | 1 => String::new(),
                number => format!(" and {} more", number - 1),
            };
            let mode = decision.pinned.as_ref().map(mode_line).unwrap_or_default();
            let mode = mode.split(':').next().unwrap_or_default();
            format!("{}{more}, {mode}", first.unwrap_or_default())
        }
    };
    format!("`{}`, which {parent} started: {what}", shortened(command))
}

/// A process about which nothing could be decided.
pub fn starts_as_called(command: &[OsString], error: &Error) -> String {
    let error = super::error(error);
    let why = error.lines().next().unwrap_or_default();
    format!(
        "cudarun: `{}` starts as it was called: {why}\n",
        shortened(command)
    )
}

/// The process that is refused, above the reason.
pub fn does_not_start(command: &[OsString], parent: &str) -> String {
    format!(
        "`{}`, which {parent} started, does not start",
        shortened(command)
    )
}

/// The beginning of a command line.
fn shortened(command: &[OsString]) -> String {
    const WORDS: usize = 4;
    const LENGTH: usize = 40;
    let mut shown: Vec<String> = Vec::new();
    for word in command.iter().take(WORDS) {
        let word = show(word).replace('\n', " ");
        shown.push(match word.char_indices().nth(LENGTH) {
            Some((end, _)) => format!("{}…", &word[..end]),
            None => word,
        });
    }
    if command.len() > WORDS {
        shown.push("…".to_owned());
    }
    shown.join(" ")
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
        rows.push(vec![
            style.strong("package"),
            package_name(package),
            how_sure(package),
        ]);
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
                format!(
                    "{} {version} or newer, from {}",
                    display_name(family),
                    show(file)
                )
            }
            (Sought::Floor(family), None) => {
                format!(
                    "the {} that it was compiled for is not recorded",
                    display_name(family)
                )
            }
            (Sought::Soname(stem), _) => {
                format!("opens {stem}, but the number in its name is not recorded")
            }
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

fn all_needs(program: &Program, style: Style) -> String {
    let rows = needs(program, true, style);
    let conditions = asked::conditions(&program.conditions, style);
    if rows.is_empty() && conditions.is_empty() {
        return String::new();
    }
    // Conditions may be long, so they have their own columns.
    format!(
        "\n{}\n{}{}",
        style.strong("needs"),
        style.columns("  ", &rows),
        style.columns("  ", &conditions)
    )
}

fn picks(
    plan: &Plan,
    decision: &Decision,
    program: &Program,
    verbosity: u8,
    style: Style,
) -> String {
    let mut text = format!("\n{}\n", style.strong("picks"));
    let mut rows = Vec::new();
    for pick in &plan.picks {
        rows.push(pick_row(pick, program, style));
        let others = plan.rejected.iter().filter(|rejection| {
            rejection.installation.family == pick.installation.family
                && is_of_interest(rejection, verbosity)
        });
        rows.extend(others.map(|rejection| rejection_row(rejection, program, style)));
    }
    text.push_str(&style.columns("  ", &rows));
    text.push_str(&left_alone(&plan.unpinned));
    text.push_str(&missing(&plan.absent, decision.missing()));
    text.push_str(&cautions(plan, style));
    text
}

/// A row for each pick; a reason that several share stands above them, once.
fn picks_by_reason(plan: &Plan, program: &Program, style: Style) -> String {
    let of_reason = plan
        .picks
        .iter()
        .map(|pick| (pick.decided_by.words().0, pick));
    let mut text = String::new();
    for (reason, picks) in grouped(of_reason) {
        let mut rows: Vec<Vec<String>> = picks
            .iter()
            .map(|pick| pick_row(pick, program, style))
            .collect();
        if rows.len() == 1 {
            text.push_str(&style.columns("  ", &rows));
            continue;
        }
        for row in &mut rows {
            row.pop();
        }
        text.push_str(&format!("  {}:\n", style.dim(reason)));
        text.push_str(&style.columns("    ", &rows));
    }
    text
}

fn pick_row(pick: &Pick, program: &Program, style: Style) -> Vec<String> {
    vec![
        display_name(&pick.installation.family).to_owned(),
        style.good(&words::version(pick.installation.version.as_ref())),
        pick.installation.origin.word().to_owned(),
        words::place(&pick.installation.directory, Some(program)),
        style.dim(pick.decided_by.words().0),
    ]
}

fn rejection_row(rejection: &Rejection, program: &Program, style: Style) -> Vec<String> {
    vec![
        "  not".to_owned(),
        words::version(rejection.installation.version.as_ref()),
        rejection.installation.origin.word().to_owned(),
        words::place(&rejection.installation.directory, Some(program)),
        style.dim(&rejection.reason.to_string()),
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
    format!(
        "{directory} and {} in it",
        counted(names.split(':').count(), "name")
    )
}

/// The elements of search paths that are removed, and the names that tombstones block.
fn removed_and_blocked(plan: &Plan) -> String {
    let removals = words::removals(plan).into_iter();
    let mut text: String = removals
        .map(|(element, why)| format!("  without {element}: {why}\n"))
        .collect();
    if !plan.tombstones.is_empty() {
        let names: Vec<String> = plan.tombstones.iter().map(show).collect();
        text.push_str(&format!("  blocked by tombstones: {}\n", names.join(", ")));
    }
    text
}

fn left_alone(unpinned: &[Unpinned]) -> String {
    unpinned
        .iter()
        .map(|unpinned| format!("  {}\n", reasons::unpinned(unpinned)))
        .collect()
}

fn missing(absent: &[Absent], missing: &[Missing]) -> String {
    words::absent(absent, missing)
        .iter()
        .map(|line| format!("  {line}\n"))
        .collect()
}
