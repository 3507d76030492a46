//! A start on one page: the program, its needs, the picks, and the difference that they make; with `-v`, the reasons.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::Style;
use super::hints::shell_words;
use super::pin::{mode, not_enough, others_without};
use super::words::{self, counted, grouped};
use super::{builds, extensions, notes, refusal};
use crate::builds::{BuildPlan, Compilers};
use crate::catalog::{catalog, display_name, title};
use crate::environment::Diff;
use crate::error::Error;
use crate::inventory::Inventory;
use crate::pin::{Decision, audit_module};
use crate::predict::Prediction;
use crate::program::{Package, Program, ResolveStep, StepKind};
use crate::requirements::{ImportCertainty, Want, WantKind};
use crate::settings::Layers;
use crate::solve::{Absent, Outcome, Pick, Plan, Unpinned};
use crate::text::{list, plain, show, shown};

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
    let is_full = verbosity > 0;
    let mut beginning = String::new();
    if let Some(build) = explanation.build {
        beginning.push_str(&builds::build(build, style));
    }
    beginning.push_str(&builds::compilers(explanation.compilers, style));
    beginning.push_str(&overview(program, inventory, false, is_full, style));
    let conditions = refusal::machine(program, inventory, is_full, style);
    let mut facts = needs(program, is_full, style);
    facts.push_str(&section("machine", &conditions, style));
    facts.push_str(&decided(
        program, inventory, decision, before, verbosity, style,
    ));
    facts.push_str(&section("modules", &extensions::rows(inventory), style));
    for line in extensions::unfit_extensions(inventory, program, style) {
        facts.push_str(&format!("{line}\n"));
    }
    let mut blocks = vec![
        format!("{}\n", verdict(program, decision, style)),
        beginning,
        facts,
    ];
    if is_full {
        blocks.push(super::settings::settings(explanation.settings, style));
    }
    if decision.is_refused() {
        blocks.push(super::refusal(decision, program, true, style));
    } else if is_full {
        blocks.push(environment(diff, style));
    }
    if verbosity > 1 {
        blocks.push(super::warnings(&inventory.warnings, style));
    }
    blocks.retain(|block| !block.is_empty());
    blocks.join("\n") + &next(explanation, style)
}

/// The page of a start with `-v`. `follows`: what the program starts is decided for itself.
pub fn summary(
    program: &Program,
    inventory: &Inventory,
    decision: &Decision,
    before: &Prediction,
    follows: bool,
    verbosity: u8,
    style: Style,
) -> String {
    format!(
        "cudarun: {}\n{}{}",
        verdict(program, decision, style),
        overview(program, inventory, follows, false, style),
        decided(program, inventory, decision, before, verbosity, style)
    )
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

/// The program and the machine. `follows`: what the program starts is decided for itself.
fn overview(
    program: &Program,
    inventory: &Inventory,
    follows: bool,
    is_full: bool,
    style: Style,
) -> String {
    let mut path = show(&program.path);
    let mut paths = Vec::new();
    let mut modules = Vec::new();
    if is_full {
        let steps = program.steps.iter().skip(1).filter_map(step);
        paths.extend(steps.map(|step| vec![step]));
        modules.extend(program.site_packages.iter().map(|site| vec![show(site)]));
    } else if let Some(step) = program.steps.last()
        && let StepKind::Script | StepKind::Wrapper = step.how
    {
        path.push_str(&format!(", runs {}", show(&step.to)));
    }
    paths.insert(0, vec![path]);
    let mut packages = Vec::new();
    for package in &program.packages {
        packages.push(vec![package_name(package), how_sure(package)]);
    }
    let mut notes = Vec::new();
    for note in &program.notes {
        if !follows || !note.is_mended_by_following() {
            notes.push(vec![notes::note(note, program)]);
        }
    }
    let mut machine = driver(inventory);
    for gpu in &inventory.gpus {
        machine.push_str(&format!("; {}", words::gpu(gpu)));
    }
    [
        section("program", &paths, style),
        section("modules", &modules, style),
        section("package", &packages, style),
        section("note", &notes, style),
        section("driver", &[vec![machine]], style),
    ]
    .concat()
}

fn step(step: &ResolveStep) -> Option<String> {
    let how = match step.how {
        StepKind::Path => return None,
        StepKind::Link => "a link to",
        StepKind::Interpreter => "a script for",
        StepKind::Env => "a script, through env, for",
        StepKind::Wrapper => "starts",
        StepKind::Shim => "a pyenv shim for",
        StepKind::Script => "runs",
        StepKind::Module => "runs the module",
        StepKind::Code => "runs the code after",
    };
    Some(format!("{how} {}", show(&step.to)))
}

fn driver(inventory: &Inventory) -> String {
    match &inventory.driver {
        Some(driver) => {
            let cuda = words::supported_cuda(driver);
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

fn package_name(package: &Package) -> String {
    match &package.version {
        Some(version) => show(&format!("{} {version}", package.name)),
        None => show(&package.name),
    }
}

fn how_sure(package: &Package) -> String {
    match (package.certainty, &package.imported_by) {
        (ImportCertainty::Imported, Some(by)) => format!("imported by {}", show(by)),
        (ImportCertainty::Imported, None) => "imported".to_owned(),
        (ImportCertainty::Possible, _) => "installed, perhaps imported".to_owned(),
    }
}

/// What was picked or left alone, and the difference that it makes.
fn decided(
    program: &Program,
    inventory: &Inventory,
    decision: &Decision,
    before: &Prediction,
    verbosity: u8,
    style: Style,
) -> String {
    let is_full = verbosity > 0;
    let outcome = &decision.outcome;
    let mut text = String::new();
    let mut cautions = String::new();
    let mut remarks: Vec<String> = outcome.unpinned().iter().map(unpinned_line).collect();
    remarks.extend(super::outside_if_imported(decision, program));
    let missing = match outcome {
        Outcome::Nothing { .. } => &before.missing,
        _ => decision.missing(),
    };
    remarks.extend(words::absent(outcome.absent(), missing));
    if let Outcome::Plan(plan) = outcome {
        let picks = if is_full {
            all_picks(plan, program, verbosity, style)
        } else {
            picks_by_place(plan, program)
        };
        text.push_str(&section("picks", &picks, style));
        if let Some(pinned) = &decision.pinned {
            let others = others_without(pinned, before, inventory, program, style);
            text.push_str(&section("without", &others, style));
            let mut modes = vec![vec![mode(pinned)]];
            if is_full {
                text.push_str(&section("bundled", &bundled(&pinned.after, program), style));
                modes.extend(not_enough(decision, program, |_| true));
            }
            text.push_str(&section("mode", &modes, style));
        }
        if is_full {
            remarks.extend(removed_and_blocked(plan));
        } else {
            remarks.extend(not_picked(plan));
        }
        for caution in &plan.cautions {
            cautions.push_str(&format!("  {} {caution}\n", style.warning("warning:")));
        }
    }
    let notes: Vec<_> = remarks.into_iter().map(|remark| vec![remark]).collect();
    text + &section("note", &notes, style) + &cautions
}

/// How many installations were not picked that a requester could have meant.
fn not_picked(plan: &Plan) -> Option<String> {
    let rejected = plan.rejected.iter();
    let count = rejected.filter(|one| one.is_of_concern()).count();
    (count > 0).then(|| {
        let others = counted(count, "other installation");
        format!("{others} not picked: `cudarun explain -v` tells why")
    })
}

/// A need of a family, and who has it.
struct NeededFamily<'p> {
    family: &'p str,
    wants: String,
    /// True if libraries are wanted by nothing but their names.
    is_name: bool,
    askers: String,
}

/// A row for each need. In short, of many, the libraries that the same requesters need by their names share a row.
fn needs(program: &Program, is_full: bool, style: Style) -> String {
    let all = all_needs(program, is_full);
    let are_many = !is_full && all.len() > FEW;
    let mut rows = Vec::new();
    let mut names = Vec::new();
    for need in all {
        if are_many && need.is_name {
            names.push((need.askers, need.wants));
        } else {
            rows.push(vec![
                display_name(need.family).to_owned(),
                need.wants,
                style.dim(&need.askers),
            ]);
        }
    }
    let mut rows_of_names = Vec::new();
    for (askers, names) in grouped(names) {
        rows_of_names.push(vec![format!(
            "{}, for {}",
            list(&names),
            style.dim(&askers)
        )]);
    }
    let label = if rows.is_empty() { "needs" } else { "" };
    // Names are long, so they have their own columns.
    section("needs", &rows, style) + &section(label, &rows_of_names, style)
}

/// The distinct needs of each family; requesters with the same need share it.
fn all_needs(program: &Program, is_full: bool) -> Vec<NeededFamily<'_>> {
    let requirements = program.library_requirements();
    let mut all = Vec::new();
    for (family, requirements) in grouped(requirements.map(|one| (&one.family, one))) {
        // A version that upstream tested with matters only beside a requirement.
        if !requirements
            .iter()
            .any(|requirement| requirement.asks_for_family())
        {
            continue;
        }
        let requirements = requirements.into_iter();
        let mut needs = Vec::new();
        for (_, own) in grouped(requirements.map(|one| (&one.by.name, one))) {
            let wants = own.iter().map(|requirement| &requirement.want);
            let is_name = wants.clone().all(is_name);
            let text = if is_full {
                all_wants(wants)
            } else {
                words::wants(wants)
            };
            if !text.is_empty() {
                needs.push(((text, is_name), &own[0].by));
            }
        }
        for ((wants, is_name), askers) in grouped(needs) {
            let askers = match askers.as_slice() {
                [only] => only.with_place(),
                several => list(several.iter().map(|asker| title(&asker.name))),
            };
            all.push(NeededFamily {
                family,
                wants,
                is_name,
                askers,
            });
        }
    }
    all
}

/// True for a want without a version that decides.
fn is_name(want: &Want) -> bool {
    want.kind() != WantKind::Version
}

/// The needs of one requester, preferences included.
fn all_wants<'w>(mut wants: impl Iterator<Item = &'w Want> + Clone) -> String {
    let firm = words::wants(wants.clone());
    let preferred = wants
        .find(|want| want.kind() == WantKind::Preference)
        .map(ToString::to_string);
    let firm = Some(firm).filter(|firm| !firm.is_empty());
    let all: Vec<String> = firm.into_iter().chain(preferred).collect();
    all.join(", ")
}

/// The picks, a row for each directory, or for directories that differ in one component.
fn picks_by_place(plan: &Plan, program: &Program) -> Vec<Vec<String>> {
    let mut places: BTreeMap<(Option<&Path>, Option<&OsStr>), Vec<&Pick>> = BTreeMap::new();
    for pick in &plan.picks {
        let directory = pick.installation.directory.as_path();
        let above = directory.parent().and_then(Path::parent);
        places
            .entry((above, directory.file_name()))
            .or_default()
            .push(pick);
    }
    let mut rows = Vec::new();
    for ((above, name), picks) in places {
        let first = &picks[0].installation.directory;
        let are_several = picks
            .iter()
            .any(|pick| pick.installation.directory != *first);
        let place = match (above, name) {
            (Some(above), Some(name)) if are_several => &above.join("*").join(name),
            _ => first,
        };
        let titles = picks
            .iter()
            .map(|pick| words::versioned(&pick.installation));
        rows.push(vec![
            words::place(place, Some(program)),
            words::joined(titles, ", "),
        ]);
    }
    rows
}

/// The picks with their reasons, each above the installations that were not picked for its family. Those that no requester could
/// have meant appear only with `-vv`.
fn all_picks(plan: &Plan, program: &Program, verbosity: u8, style: Style) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for pick in &plan.picks {
        let picked = &pick.installation;
        rows.push(vec![
            display_name(&picked.family).to_owned(),
            style.good(&words::version(picked.version.as_ref())),
            picked.origin.word().to_owned(),
            words::place(&picked.directory, Some(program)),
            style.dim(pick.decided_by.words().0),
        ]);
        for rejection in &plan.rejected {
            let other = &rejection.installation;
            if other.family == picked.family && (verbosity > 1 || rejection.is_of_concern()) {
                rows.push(vec![
                    "  not".to_owned(),
                    words::version(other.version.as_ref()),
                    other.origin.word().to_owned(),
                    words::place(&other.directory, Some(program)),
                    style.dim(&rejection.reason.to_string()),
                ]);
            }
        }
    }
    rows
}

/// The NVIDIA libraries that packages bundle, which nothing can replace.
fn bundled(after: &Prediction, program: &Program) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for file in &after.files {
        if file.family.is_none()
            && let Some(family) = catalog().family_of_bundled(&file.path)
        {
            rows.push(vec![
                family.display.clone(),
                words::place(&file.path, Some(program)),
            ]);
        }
    }
    rows
}

/// The elements of search paths that are removed, and the names that tombstones block.
fn removed_and_blocked(plan: &Plan) -> Vec<String> {
    let removals = words::removals(plan).into_iter();
    let mut lines: Vec<String> = removals
        .map(|(element, why)| format!("without {element}: {why}"))
        .collect();
    if !plan.tombstones.is_empty() {
        let names: Vec<String> = plan.tombstones.iter().map(show).collect();
        lines.push(format!("blocked by tombstones: {}", names.join(", ")));
    }
    lines
}

fn environment(diff: &Diff, style: Style) -> String {
    let mut rows = Vec::new();
    for (name, value) in &diff.0 {
        let value = match value {
            None => "(unset)".to_owned(),
            Some(table) if name == audit_module::PINS => table_in_short(table),
            Some(value) => show(value),
        };
        rows.push(vec![show(name), value]);
    }
    words::table("environment", &rows, style)
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
    let mut names = Vec::new();
    for absent in plan.absent.iter().filter(|absent| absent.is_certain()) {
        for name in &absent.names {
            if absent.essential || words::is_missing(name, decision.missing()) {
                names.push(show(name));
            }
        }
    }
    let mut families = Vec::new();
    for unpinned in plan.unpinned.iter().filter(|one| one.must_be_said) {
        families.push(display_name(&unpinned.family).to_owned());
    }
    let mut lacks = Vec::new();
    for (names, what) in [(names, "not installed"), (families, "not pinned")] {
        if !names.is_empty() {
            let verb = if names.len() == 1 { "is" } else { "are" };
            lacks.push(format!("{} {verb} {what}", list(names)));
        }
    }
    lacks
}

/// The command to type; a refusal ends with its own.
fn next(explanation: &Explanation<'_>, style: Style) -> String {
    let verb = if explanation.can_fetch { " fetch" } else { "" };
    if explanation.decision.is_refused() || verb.is_empty() && style.is_elsewhere() {
        return String::new();
    }
    style.next(&format!("cudarun{verb} {}", shell_words(explanation.words)))
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
    let mut text = format!("nothing to fetch: `{name}` needs no NVIDIA library\n");
    for note in &program.notes {
        text.push_str(&format!("note: {}\n", notes::note(note, program)));
    }
    text
}

/// One line about a process that was decided for itself: `command` is its command line.
pub fn followed(command: &[OsString], parent: &str, decision: &Decision) -> String {
    let what = match &decision.outcome {
        Outcome::Nothing { absent, unpinned } => nothing(absent, unpinned).to_owned(),
        Outcome::Conflict(_) => "nothing fits".to_owned(),
        Outcome::Plan(plan) => {
            let mut what = match plan.picks.first() {
                Some(pick) => words::versioned(&pick.installation),
                None => String::new(),
            };
            if plan.picks.len() > 1 {
                what.push_str(&format!(" and {} more", plan.picks.len() - 1));
            }
            if let Some(pinned) = &decision.pinned {
                what.push_str(&format!(", mode {}", words::word(&pinned.mode)));
            }
            what
        }
    };
    format!("`{}`, which {parent} started: {what}", shortened(command))
}

/// A process about which nothing could be decided.
pub fn starts_as_called(command: &[OsString], error: &Error) -> String {
    let error = error.to_string();
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

/// One line about all libraries that the program would use but that are not pinned.
pub fn left(unpinned: &[Unpinned], inventory: &Inventory) -> Option<String> {
    let mut serious = unpinned.iter().filter(|one| one.must_be_said);
    let first = serious.next()?;
    let others = serious.count();
    let why = if inventory.is_without_gpu() {
        "no GPU is reachable, and "
    } else {
        ""
    };
    let more = if others > 0 {
        format!("; and {others} more")
    } else {
        String::new()
    };
    Some(format!("{why}{}{more}", unpinned_line(first)))
}

/// `libcufft.so.11 is not pinned: no cuFFT here fits; the nearest one: is for CUDA 13, but torch is for CUDA 12`
fn unpinned_line(unpinned: &Unpinned) -> String {
    let (family, why) = (display_name(&unpinned.family), unpinned.why.to_string());
    let what = match unpinned.names.as_slice() {
        [] => format!("{family} is"),
        [name] => format!("{} is", show(name)),
        names => format!("{} are", shown(names)),
    };
    format!("{what} not pinned: no {family} here fits; the nearest one: {why}")
}
