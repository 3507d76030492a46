//! A project's requirement that is not met, in one line: the fault, and the command to type.

use std::collections::BTreeSet;

use super::Style;
use super::hints;
use super::refusal;
use super::words;
use crate::catalog::{display_name, title};
use crate::inventory::Installation;
use crate::predict::project::Trouble;
use crate::predict::supply::SupplyFault;
use crate::solve::Conflict;
use crate::text::{list, show};
use crate::variables;

/// The line of the shell hook.
pub fn project_line(trouble: &str, style: Style) -> String {
    format!("{} {trouble}\n", style.warning("cudarun:"))
}

pub fn trouble(trouble: &Trouble<'_>) -> String {
    match trouble {
        Trouble::NoSet { conflict } => no_set(conflict),
        Trouble::Faulty {
            family: name,
            fault,
            installations,
            by_library_path,
            instead,
        } => {
            let name = display_name(name);
            let who = if *by_library_path {
                variables::LIBRARY_PATH
            } else {
                "this shell"
            };
            let installations = list(
                installations
                    .iter()
                    .map(|installation| place(installation))
                    .collect::<Vec<_>>(),
            );
            let what = match fault {
                SupplyFault::Mixed => {
                    format!("{who} would mix two installations of {name}: {installations}")
                }
                SupplyFault::Twice => {
                    format!(
                        "{who} would give programs two installations of {name}: {installations}"
                    )
                }
                SupplyFault::Stub => {
                    format!(
                        "{who} would give programs a stub of {name}, which fails: {installations}"
                    )
                }
                SupplyFault::OlderThanKernel => {
                    format!(
                        "{who} would give programs a {name} older than the kernel's driver: {installations}"
                    )
                }
            };
            format!("{what}: {}", start_with(instead))
        }
        Trouble::Unfit {
            installation,
            reason,
            instead,
        } => {
            let (name, place, why) = (
                display_name(&installation.family),
                place(installation),
                &reason.to_string(),
            );
            format!(
                "this shell would get {name} {place} ({why}): {}",
                start_with(instead)
            )
        }
    }
}

/// The first fault of a conflict, and its hint.
fn no_set(conflict: &Conflict) -> String {
    let broken = conflict.broken.first().map(refusal::broken_in_short);
    let unmet = conflict.unmet.first().map(|unmet| {
        let by: BTreeSet<String> = unmet
            .requirements
            .iter()
            .map(|requirement| title(&requirement.by.name))
            .collect();
        let (name, needs) = (
            display_name(&unmet.family),
            words::needs(&unmet.requirements),
        );
        let found = unmet
            .candidates
            .iter()
            .map(|one| words::version(one.installation.version.as_ref()));
        let found: BTreeSet<String> = found.collect();
        let here = if found.is_empty() {
            "none".to_owned()
        } else {
            list(Vec::from_iter(found))
        };
        format!(
            "no {name} here fits {}: needs {needs}, found {here}",
            list(Vec::from_iter(by))
        )
    });
    let what = broken
        .or(unmet)
        .unwrap_or_else(|| "the requirements exclude each other".to_owned());
    let hint = conflict.hint.as_ref().map(hints::hint);
    format!(
        "{what}; {}",
        hint.unwrap_or_else(|| "see `cudarun explain PROGRAM`".to_owned())
    )
}

/// `9.14.0 from /usr/lib/x86_64-linux-gnu`
fn place(installation: &Installation) -> String {
    format!(
        "{} from {}",
        words::version(installation.version.as_ref()),
        show(&installation.directory)
    )
}

fn start_with(instead: &Installation) -> String {
    format!(
        "start programs with `cudarun`, which takes {}",
        place(instead)
    )
}
