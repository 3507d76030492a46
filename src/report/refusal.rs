//! The evidence of a refused start: lines that say what is wrong, each with groups of rows below it. A start that is not
//! verbose shows the first rows of each group, so that the command to type stays in sight.

use std::collections::BTreeSet;

use super::Style;
use super::{extensions, words};
use crate::catalog::{display_name, title};
use crate::inventory::{Extension, Inventory};
use crate::program::Program;
use crate::requirements::{Before, Demand, LibraryRequirement, MachineRequirement, Want, WantKind};
use crate::solve::{Broken, Conflict, Contradiction, ContradictionSide, Unmet, judge};
use crate::text::{list, show};

/// The lines of a refusal without `-v`, with the blank one before the hint.
const LINES: usize = 8;

/// One fault.
pub(super) struct RefusalPart {
    pub(super) title: String,
    pub(super) groups: Vec<AlignedRows>,
}

/// Rows that stand below each other in columns, such as all candidates.
pub(super) struct AlignedRows {
    pub(super) prefix: &'static str,
    pub(super) rows: Vec<Vec<String>>,
}

impl AlignedRows {
    pub(super) fn new(rows: Vec<Vec<String>>) -> AlignedRows {
        AlignedRows { prefix: "  ", rows }
    }

    /// One line.
    pub(super) fn line(text: String) -> AlignedRows {
        AlignedRows::new(vec![vec![text]])
    }
}

/// Rows behind a label, which only the first of them has.
pub(super) fn labelled(label: &str, mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    for (index, row) in rows.iter_mut().enumerate() {
        row.insert(0, if index == 0 { label } else { "" }.to_owned());
    }
    rows
}

/// The faults and the advice below them: all of it, or at most [`LINES`] lines.
pub(super) fn page(faults: &[RefusalPart], advice: &str, is_full: bool, style: Style) -> String {
    let blank = if advice.is_empty() { "" } else { "\n" };
    let room = LINES - 1 - advice.lines().count().min(LINES - 3);
    let all: usize = faults.iter().map(RefusalPart::lines).sum();
    let limit = if is_full || all <= room {
        all
    } else {
        room - 1
    };
    let mut text = shown(faults, limit, style);
    if limit < all {
        text.push_str(&format!("  {} more lines with -v\n", all - limit));
    }
    format!("{text}{blank}{advice}")
}

impl RefusalPart {
    fn lines(&self) -> usize {
        1 + self
            .groups
            .iter()
            .map(|group| group.rows.len())
            .sum::<usize>()
    }
}

/// As many lines as there is room for: the first fault comes first, and of that the first row of each of its groups.
fn shown(faults: &[RefusalPart], limit: usize, style: Style) -> String {
    let mut text = String::new();
    let mut left = limit;
    for fault in faults {
        if left == 0 {
            break;
        }
        left -= 1;
        text.push_str(&fault.title);
        text.push('\n');
        let mut counts = vec![0; fault.groups.len()];
        let longest = fault.groups.iter().map(|group| group.rows.len()).max();
        for row in 0..longest.unwrap_or(0) {
            for (count, group) in counts.iter_mut().zip(&fault.groups) {
                if row < group.rows.len() && left > 0 {
                    *count += 1;
                    left -= 1;
                }
            }
        }
        for (count, group) in counts.iter().zip(&fault.groups) {
            text.push_str(&style.columns(group.prefix, &group.rows[..*count]));
        }
    }
    text
}

/// The faults, those of single families first.
pub(super) fn unmet(conflict: &Conflict, program: &Program, style: Style) -> Vec<RefusalPart> {
    let mut faults = Vec::new();
    for unmet in &conflict.unmet {
        faults.push(of_family(unmet, program, style));
    }
    let mut demands = Vec::new();
    for one in &conflict.contradictions {
        let demand = one.members.iter().find_map(|member| member.demand.as_ref());
        // Contradictions about the same demand say the same.
        if demand.is_none_or(|demand| !demands.contains(&demand)) {
            faults.extend(contradiction(one, style));
        }
        demands.extend(demand);
    }
    for broken in &conflict.broken {
        faults.push(self::broken(broken, style));
    }
    faults
}

fn of_family(unmet: &Unmet, program: &Program, style: Style) -> RefusalPart {
    let askers = words::titles(unmet.requirements.iter().map(|one| &one.by));
    let family = display_name(&unmet.family);
    let fits = if askers.is_empty() {
        "fits".to_owned()
    } else {
        let askers = askers.iter().map(|asker| format!("`{asker}`"));
        format!("fits {}", list(askers))
    };
    let mut candidates = Vec::new();
    for candidate in &unmet.candidates {
        let installation = &candidate.installation;
        candidates.push(vec![
            words::version(installation.version.as_ref()),
            words::place(&installation.directory, Some(program)),
            candidate.reason.to_string(),
        ]);
    }
    if candidates.is_empty() {
        candidates.push(vec!["none".to_owned()]);
    }
    let mut forced_lines = Vec::new();
    for forced in &unmet.forced {
        let rules = forced.rules.iter().map(|rule| match rule {
            Before::Rpath => "its DT_RPATH",
            Before::AbsolutePath => "an absolute path",
        });
        let askers = forced.by.iter().map(|asker| format!("`{}`", title(asker)));
        forced_lines.push(vec![format!(
            "LD_LIBRARY_PATH alone cannot help: {} {} the one in {} first ({})",
            list(askers),
            if forced.by.len() > 1 { "find" } else { "finds" },
            words::place(&forced.installation.directory, Some(program)),
            list(rules),
        )]);
    }
    RefusalPart {
        title: format!("{} no {family} here {fits}", style.error("error:")),
        groups: vec![
            AlignedRows::new(labelled("needs", needs(&unmet.requirements))),
            AlignedRows::new(labelled("found", candidates)),
            AlignedRows::new(forced_lines),
        ],
    }
}

/// A row for each requester: those with versions first, since they decide.
fn needs(requirements: &[LibraryRequirement]) -> Vec<Vec<String>> {
    let requirements = requirements.iter();
    let mut with_versions = Vec::new();
    let mut others = Vec::new();
    for (_, own) in words::grouped(requirements.map(|one| (&one.by.name, one))) {
        let wants = own.iter().map(|one| &one.want);
        let text = words::wants(wants.clone());
        if text.is_empty() {
            continue;
        }
        let row = vec![text, own[0].by.with_place()];
        if wants.clone().all(is_name) {
            others.push(row);
        } else {
            with_versions.push(row);
        }
    }
    with_versions.append(&mut others);
    with_versions
}

fn is_name(want: &Want) -> bool {
    matches!(want.kind(), WantKind::Name | WantKind::Symbols)
}

/// The rows of requirements of the machine. In short, of an image's alternatives only the one that decides, and what decides
/// it.
pub(super) fn machine(
    program: &Program,
    inventory: &Inventory,
    is_full: bool,
    style: Style,
) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for condition in program.machine_requirements() {
        let judged = judge(condition, inventory);
        let mut text = if is_full {
            condition.demand.to_string()
        } else {
            list(judged.demands)
        };
        if matches!(condition.demand, Demand::Any(_)) {
            let demands = judged.demands.iter();
            let facts: BTreeSet<String> = demands.map(|one| judged.has.of(one.part())).collect();
            let facts = words::joined(facts, "; ");
            text.push_str(&match judged.holds {
                _ if !judged.counts => ": does not count without a GPU".to_owned(),
                Some(true) => format!(": met by {facts}"),
                Some(false) => format!(": not met by {facts}"),
                None => format!(": this could not be checked on this machine ({facts})"),
            });
        }
        rows.push(vec![text, style.dim(&condition.by.with_place())]);
    }
    rows
}

/// The first extension module that does not fit.
fn unfit_title(unfit: &[Extension]) -> String {
    let Some(first) = unfit.first() else {
        return String::new();
    };
    let (package, framework) = (show(&first.package), show(&first.framework));
    format!("`{package}` does not fit {framework}")
}

/// A condition that does not hold, in one line.
pub(super) fn broken_in_short(broken: &Broken) -> String {
    let MachineRequirement { demand, by, .. } = &broken.condition;
    if *demand == Demand::Extensions {
        return unfit_title(&broken.unfit);
    }
    if let Some((package, _)) = broken.cpu_builds.first() {
        return format!(
            "{} requires a GPU, but `{}` is built without CUDA",
            title(&by.name),
            show(package)
        );
    }
    format!(
        "{} requires {}, but this machine has {}",
        title(&by.name),
        demand,
        broken.has.of(demand.part())
    )
}

/// A condition that does not hold, in full.
pub(super) fn broken(broken: &Broken, style: Style) -> RefusalPart {
    let MachineRequirement { demand, by, .. } = &broken.condition;
    let by_name = title(&by.name);
    let part = demand.part();
    let wrong = match demand {
        Demand::Code(_) => format!("`{by_name}` has no code for the GPU of this machine"),
        Demand::Extensions => unfit_title(&broken.unfit),
        Demand::AnyGpu => match broken.cpu_builds.first() {
            Some((package, _)) => format!("`{}` is built without CUDA", show(package)),
            None => format!("`{by_name}` wants a GPU, and none can be used"),
        },
        _ => format!("{part} does not meet the requirement of `{by_name}`"),
    };
    let rows = if *demand == Demand::Extensions {
        let mut rows: Vec<Vec<String>> = broken
            .unfit
            .iter()
            .map(|extension| vec![extensions::sentence(extension)])
            .collect();
        rows.push(vec![format!("required by {}", by.with_place())]);
        rows
    } else if !broken.cpu_builds.is_empty() {
        let files = broken.cpu_builds.iter();
        let mut rows: Vec<Vec<String>> = files
            .map(|(package, file)| vec![format!("{}: {}", show(package), show(file))])
            .collect();
        rows.push(vec![format!("a GPU is required by {}", by.with_place())]);
        rows
    } else {
        vec![
            vec!["needs".to_owned(), demand.to_string(), by.place()],
            vec!["found".to_owned(), broken.has.of(part)],
        ]
    };
    let help = match demand {
        Demand::Code(_) => {
            "no library path can help; CUDA_VISIBLE_DEVICES= starts it without the GPU"
        }
        _ if by_name.starts_with("NVIDIA_REQUIRE_") => {
            "no library path can help; NVIDIA_DISABLE_REQUIRE=1 ignores the image's requirements"
        }
        _ => "no library path can help",
    };
    RefusalPart {
        title: format!("{} {wrong}", style.error("error:")),
        groups: vec![AlignedRows::new(rows), AlignedRows::line(help.to_owned())],
    }
}

/// Requirements that exclude each other; none if there is only one.
pub(super) fn contradiction(contradiction: &Contradiction, style: Style) -> Option<RefusalPart> {
    if contradiction.members.len() < 2 {
        return None;
    }
    let mut rows = Vec::new();
    for member in &contradiction.members {
        let subject = member.family.as_deref().map_or("machine", display_name);
        rows.push(vec![
            subject.to_owned(),
            wants_of(member),
            style.dim(&member.by.with_place()),
        ]);
    }
    let title = "  these conflict; without any one of them the rest fits:";
    Some(RefusalPart {
        title: title.to_owned(),
        groups: vec![AlignedRows {
            prefix: "    ",
            rows,
        }],
    })
}

fn wants_of(member: &ContradictionSide) -> String {
    if let Some(demand) = &member.demand {
        return demand.to_string();
    }
    let text = words::wants(&member.wants);
    if text.is_empty() {
        let mut wants = member.wants.iter();
        if let Some(symbols) = wants.find(|want| want.kind() == WantKind::Symbols) {
            return symbols.to_string();
        }
    }
    text
}
