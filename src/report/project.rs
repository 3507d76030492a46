//! A project's requirement that is not met, in one line: the fault, and the command to type.

use std::collections::BTreeSet;

use super::Style;
use super::hints;
use super::refusal;
use super::words;
use crate::catalog::display_name;
use crate::inventory::Installation;
use crate::predict::project::Trouble;
use crate::predict::supply::SupplyFault;
use crate::solve::{Conflict, Unmet};
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
            family,
            fault,
            installations,
            by_library_path,
            instead,
        } => {
            let name = display_name(family);
            let who = if *by_library_path {
                variables::LIBRARY_PATH
            } else {
                "this shell"
            };
            let what = match fault {
                SupplyFault::Mixed => format!("mix two installations of {name}"),
                SupplyFault::Twice => format!("give programs two installations of {name}"),
                SupplyFault::Stub => format!("give programs a stub of {name}, which fails"),
                SupplyFault::OlderThanKernel => {
                    format!("give programs a {name} older than the kernel's driver")
                }
            };
            format!(
                "{who} would {what}: {}: {}",
                list(installations.iter().map(|one| place(one))),
                start_with(instead)
            )
        }
        Trouble::Unfit {
            installation,
            reason,
            instead,
        } => {
            let name = display_name(&installation.family);
            format!(
                "this shell would get {name} {} ({reason}): {}",
                place(installation),
                start_with(instead)
            )
        }
    }
}

/// The first fault of a conflict, and its hint.
fn no_set(conflict: &Conflict) -> String {
    let fault = if let Some(broken) = conflict.broken.first() {
        refusal::broken_in_short(broken)
    } else if let Some(unmet) = conflict.unmet.first() {
        no_library(unmet)
    } else {
        "the requirements exclude each other".to_owned()
    };
    let hint = match &conflict.hint {
        Some(hint) => hints::hint(hint),
        None => "see `cudarun explain PROGRAM`".to_owned(),
    };
    format!("{fault}; {hint}")
}

fn no_library(unmet: &Unmet) -> String {
    let askers = words::titles(unmet.requirements.iter().map(|one| &one.by));
    let mut found = BTreeSet::new();
    for candidate in &unmet.candidates {
        found.insert(words::version(candidate.installation.version.as_ref()));
    }
    if found.is_empty() {
        found.insert("none".to_owned());
    }
    format!(
        "no {} here fits {}: needs {}, found {}",
        display_name(&unmet.family),
        list(askers),
        words::needs(&unmet.requirements),
        list(found)
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
