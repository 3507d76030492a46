//! Pinning in words: the files that the program gets without and with cudarun, the mode, and the reason why no less
//! intrusive mode is enough.

use super::Style;
use super::errors;
use super::fetch;
use super::hints;
use super::refusal::{self, AlignedRows, RefusalPart};
use super::trace::{self, rule};
use super::words;
use crate::catalog::{display_name, display_names};
use crate::inventory::Inventory;
use crate::modes::Mode;
use crate::pin::{Decision, Pinned, Why};
use crate::predict::supply::{FamilySupply, SupplyFault, given};
use crate::predict::{Predicted, Prediction};
use crate::program::Program;
use crate::solve::Outcome;
use crate::text::{list, show};

/// Further files are only counted.
const SHOWN: usize = 3;

/// The files of each family that the program gets without cudarun, where they are others.
pub(super) fn others_without(
    pinned: &Pinned,
    before: &Prediction,
    inventory: &Inventory,
    program: &Program,
    style: Style,
) -> Vec<Vec<String>> {
    let (mut before, after) = (given(before, inventory), given(&pinned.after, inventory));
    let mut rows = Vec::new();
    for (family, now) in &after {
        let without = match before.remove(family) {
            None => style.warning("none"),
            Some(then) => {
                let places = self::places(&then, program);
                match then.fault(inventory).map(given_fault) {
                    Some(fault) => format!("{} {places}", style.warning(&format!("{fault}:"))),
                    None if places == self::places(now, program) => continue,
                    None => places,
                }
            }
        };
        rows.push(vec![display_name(family).to_owned(), without]);
    }
    for (family, then) in before {
        let lost = format!("{}; none with cudarun", places(&then, program));
        rows.push(vec![display_name(family).to_owned(), lost]);
    }
    rows
}

/// The fault of the libraries that a program gets without cudarun.
pub(super) fn given_fault(fault: SupplyFault) -> &'static str {
    match fault {
        SupplyFault::Stub => "a stub",
        SupplyFault::OlderThanKernel => "older than the kernel's driver",
        SupplyFault::Twice => "two installations",
        SupplyFault::Mixed => "mixed",
    }
}

/// `9.19.0 site-packages/nvidia/cudnn/lib and 9.14.0 /usr/lib/x86_64-linux-gnu`
pub(super) fn places(given: &FamilySupply<'_>, program: &Program) -> String {
    let mut places = Vec::new();
    for (installation, files) in &given.installations {
        places.push(match installation {
            Some(installation) => {
                let version = words::version(installation.version.as_ref());
                let place = words::place(&installation.directory, Some(program));
                format!("{version} {place}")
            }
            None => show(&files[0].path),
        });
    }
    list(places)
}

/// The first family that the program would mix without cudarun, and how many others:
/// `cuDNN 9.10.2 (site-packages/nvidia/cudnn/lib); without cudarun it would mix with 9.1.0 /opt/cudnn`
pub fn repaired(
    decision: &Decision,
    before: &Prediction,
    inventory: &Inventory,
    program: &Program,
) -> Option<String> {
    let Outcome::Plan(plan) = &decision.outcome else {
        return None;
    };
    let mut lines = Vec::new();
    for (family, mut supply) in given(before, inventory) {
        let fault = supply.fault(inventory);
        if !fault.is_some_and(SupplyFault::is_of_several) {
            continue;
        }
        let mut picks = plan.picks.iter().map(|pick| &pick.installation);
        let Some(picked) = picks.find(|picked| picked.family == family) else {
            continue;
        };
        let all = supply.installations.len();
        let others = &mut supply.installations;
        others.retain(|(given, _)| given.is_none_or(|given| given.directory != picked.directory));
        let with = if others.len() < all { " with" } else { "" };
        lines.push(format!(
            "{} ({}); without cudarun it would mix{with} {}",
            words::versioned(picked),
            words::place(&picked.directory, Some(program)),
            places(&supply, program)
        ));
    }
    let mut line = lines.first()?.clone();
    if lines.len() > 1 {
        let more = lines.len() - 1;
        line.push_str(&format!(", and {more} more: `cudarun explain` shows them"));
    }
    Some(line)
}

pub(super) fn mode(pinned: &Pinned) -> String {
    let (mode, words) = (words::word(&pinned.mode), pinned.mode.traits().words);
    let preload = if pinned.preload.is_empty() {
        ""
    } else {
        ", and LD_PRELOAD loads some of them before any search"
    };
    format!("{mode}: {words}{preload}")
}

/// The warning for a program that may change `LD_LIBRARY_PATH`, if the mode depends on it.
pub fn sets_library_path(program: &Program) -> String {
    format!(
        "`{}` may change LD_LIBRARY_PATH itself and then load NVIDIA libraries that cudarun did not pick",
        show(program.runs().file_name().unwrap_or_default())
    )
}

/// The reason why each of these modes is not enough, a row each.
pub(super) fn not_enough(
    decision: &Decision,
    program: &Program,
    is_shown: impl Fn(Mode) -> bool,
) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for passed in &decision.passed_over {
        if is_shown(passed.mode) {
            let mode = words::word(&passed.mode);
            let why = why(&passed.why, program);
            rows.push(vec![format!("{mode} is not enough: {why}")]);
        }
    }
    rows
}

fn why(why: &Why, program: &Program) -> String {
    match why {
        Why::Leaks { files } => {
            let shown = files.iter().take(SHOWN).map(|file| leak(file, program));
            let more = files.len().saturating_sub(SHOWN);
            let more = (more > 0).then(|| format!("{more} more"));
            words::joined(shown.chain(more), "; ")
        }
        Why::ShadowedByRpath { families } => format!(
            "shadowed by RPATH: a search path before LD_LIBRARY_PATH leads to {} that does not fit",
            display_names(families)
        ),
        Why::Unseen { families } => format!(
            "the file that loads {} is unknown, and it may have its own search path",
            display_names(families)
        ),
        Why::Reachable { family, directory } => {
            format!(
                "another {} is in reach: {}",
                display_name(family),
                words::place(directory, Some(program))
            )
        }
        Why::Relative { element } if element.is_empty() => {
            "an empty element of LD_LIBRARY_PATH is the current directory".to_owned()
        }
        Why::Relative { element } => format!("LD_LIBRARY_PATH has the relative element {}", show(element)),
        Why::NotFound { names } => format!("the program would not find {}", list(names)),
        Why::SearchIsLimited => {
            "--without excludes directories, so cudarun cannot tell which installations are in reach"
                .to_owned()
        }
        Why::NotFollowed => {
            "another process starts the program, and the module would not know it: nothing is followed here".to_owned()
        }
        Why::RewritesLibraryPath => "the program puts its own directory first in LD_LIBRARY_PATH".to_owned(),
        Why::OpensNamespaces => {
            "the program may call dlmopen, and preloaded libraries are not visible in its namespaces"
                .to_owned()
        }
        Why::Undone { variable } => format!("a wrapper that starts the program sets or unsets {variable}"),
        Why::OldLoader { glibc } => errors::old_loader(*glibc),
        Why::NotStarted { failure } => {
            format!("the program does not start: {}", trace::failure(failure))
        }
        Why::NoModule => "cudarun has no audit module for this architecture".to_owned(),
        Why::NoTable => {
            "the table of the audit module cannot hold the paths and names of the picked libraries".to_owned()
        }
    }
}

/// `libcudnn.so.9 would come from /opt/lib (DT_RPATH of libtorch_cuda.so)`
fn leak(file: &Predicted, program: &Program) -> String {
    let directory = file.path.parent().unwrap_or(&file.path);
    format!(
        "{} would come from {} ({})",
        show(file.name.rsplit('/').next().unwrap_or_default()),
        words::place(directory, Some(program)),
        rule(&file.rule)
    )
}

/// One line for each file from outside the plan that a package brings which the program may import.
pub fn outside_if_imported(decision: &Decision, program: &Program) -> Vec<String> {
    let mut lines = Vec::new();
    for file in &decision.outside_if_imported {
        let importer = words::place(&file.requester, Some(program));
        lines.push(format!(
            "if the program imports {importer}, {}",
            leak(file, program)
        ));
    }
    lines
}

/// The refusal: no set fits, or no mode makes the loader use it. Without `is_full`, as few lines as tell what is wrong and
/// what to type.
pub fn refusal(decision: &Decision, program: &Program, is_full: bool, style: Style) -> String {
    let faults = match &decision.outcome {
        Outcome::Conflict(conflict) => {
            let mut faults = refusal::unmet(conflict, program, style);
            let mut modes = not_enough(decision, program, |mode| mode.traits().forces);
            let place = if is_full {
                faults.last_mut()
            } else {
                // Where only one has room, the strongest says most.
                modes.reverse();
                faults.first_mut()
            };
            if let Some(fault) = place {
                fault.groups.push(AlignedRows::new(modes));
            }
            faults
        }
        _ => vec![RefusalPart {
            title: format!(
                "{} no mode makes the loader use the picked libraries",
                style.error("error:")
            ),
            groups: vec![AlignedRows::new(not_enough(decision, program, |_| true))],
        }],
    };
    let mut advice = String::new();
    if let Some(hint) = hint(decision, program) {
        advice.push_str(&format!("{} {hint}\n", style.hint("hint:")));
    }
    if let Outcome::Conflict(conflict) = &decision.outcome
        && !conflict.to_fetch.is_empty()
    {
        let command = style.there(if style.is_elsewhere() {
            "cudarun fetch --dry-run"
        } else {
            "cudarun --fetch"
        });
        let words = if program.words.is_empty() {
            "PROGRAM".to_owned()
        } else {
            hints::shell_words(&program.words)
        };
        advice.push_str(&format!(
            "{}   `{command} {words}` ({}, for cudarun alone)\n",
            style.hint("or:"),
            fetch::summary(&conflict.to_fetch)
        ));
    }
    refusal::page(&faults, &advice, is_full, style)
}

fn hint(decision: &Decision, program: &Program) -> Option<String> {
    if let Some(mode) = decision.instead {
        return Some(instead(mode));
    }
    let Outcome::Conflict(conflict) = &decision.outcome else {
        return leak_hint(decision, program);
    };
    if let Some(hint) = &conflict.hint {
        return Some(hints::hint(hint));
    }
    // Nothing that could be installed helps: the versions that are here show what to require instead.
    let unmet = conflict.unmet.first()?;
    let family = &unmet.family;
    if unmet.candidates.is_empty() && unmet.forced.is_empty() {
        return errors::offered(family).map(|all| format!("require a version on offer: {all}"));
    }
    Some(format!("`cudarun list {family}` shows what is installed"))
}

pub(super) fn instead(mode: Mode) -> String {
    format!("leave out --pin-mode: {} is enough", words::word(&mode))
}

/// None for a directory that an installed package itself puts into its search path: nobody can remove it from there.
fn leak_hint(decision: &Decision, program: &Program) -> Option<String> {
    let leaking = decision
        .passed_over
        .iter()
        .find_map(|passed| match &passed.why {
            Why::Leaks { files } => files.first(),
            _ => None,
        });
    match leaking.and_then(|file| file.path.parent()) {
        Some(directory) if program.is_in_site(directory) => None,
        Some(directory) => Some(format!(
            "remove {} from the program's search path, or install a version there that fits",
            words::place(directory, Some(program))
        )),
        None => Some("see `cudarun explain -v`".to_owned()),
    }
}
