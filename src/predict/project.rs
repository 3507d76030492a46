//! Checks a project's requirements for programs that are started without cudarun. Pure: compares the solver's outcome with
//! the prediction for the unchanged environment.

use std::collections::BTreeSet;

use crate::inventory::{Installation, Inventory};
use crate::loader::search::FoundBy;
use crate::predict::Prediction;
use crate::predict::supply::{FamilySupply, SupplyFault, given};
use crate::solve::{Conflict, Outcome, Pick, Plan, Reason};

/// A requirement that is not met.
#[derive(Debug)]
pub enum Trouble<'a> {
    /// The installations here form no set.
    NoSet { conflict: &'a Conflict },
    /// The files that programs get of a family fail, or come from more than one installation.
    Faulty {
        family: &'a str,
        fault: SupplyFault,
        installations: Vec<&'a Installation>,
        by_library_path: bool,
        instead: &'a Installation,
    },
    /// The installation that programs get of a family does not fit the requirements.
    Unfit {
        installation: &'a Installation,
        reason: &'a Reason,
        instead: &'a Installation,
    },
}

impl Trouble<'_> {
    /// True if cudarun itself could start no program either.
    pub fn ends_every_start(&self) -> bool {
        matches!(self, Trouble::NoSet { .. })
    }
}

/// The first requirement that is not met.
pub fn judge<'a>(
    outcome: &'a Outcome,
    prediction: &'a Prediction,
    inventory: &'a Inventory,
) -> Option<Trouble<'a>> {
    let plan = match outcome {
        Outcome::Conflict(conflict) => return Some(Trouble::NoSet { conflict }),
        Outcome::Nothing { .. } => return None,
        Outcome::Plan(plan) => plan,
    };
    let supplies = given(prediction, inventory);
    for pick in &plan.picks {
        let trouble = match supplies.get(pick.installation.family.as_str()) {
            Some(supply) => check_supply(supply, pick, plan, inventory),
            None => under_another_name(pick, plan, inventory),
        };
        if trouble.is_some() {
            return trouble;
        }
    }
    None
}

fn check_supply<'a>(
    supply: &FamilySupply<'a>,
    pick: &'a Pick,
    plan: &'a Plan,
    inventory: &'a Inventory,
) -> Option<Trouble<'a>> {
    let mut installations = Vec::new();
    let mut versions = BTreeSet::new();
    let mut by_library_path = false;
    for (installation, files) in &supply.installations {
        if let Some(installation) = installation {
            versions.insert((installation.version, installation.cuda));
            installations.push(*installation);
        }
        for file in files {
            by_library_path |= matches!(file.rule, FoundBy::LibraryPath { .. });
        }
    }
    // Two installations of one version do no harm.
    if let Some(fault) = supply.fault(inventory)
        && (versions.len() > 1 || !fault.is_of_several())
    {
        return Some(Trouble::Faulty {
            family: &pick.installation.family,
            fault,
            installations,
            by_library_path,
            instead: &pick.installation,
        });
    }
    supply
        .deciding()
        .into_iter()
        .flatten()
        .find_map(|installation| unfit(installation, pick, plan))
}

/// Programs get no file under the picked names. They would then find the family under another name, so those installations
/// are checked.
fn under_another_name<'a>(
    pick: &'a Pick,
    plan: &'a Plan,
    inventory: &'a Inventory,
) -> Option<Trouble<'a>> {
    let mut first = None;
    for installation in &inventory.installations {
        if installation.family == pick.installation.family && installation.loader_gives {
            let trouble = unfit(installation, pick, plan)?;
            first.get_or_insert(trouble);
        }
    }
    first
}

fn unfit<'a>(
    installation: &'a Installation,
    pick: &'a Pick,
    plan: &'a Plan,
) -> Option<Trouble<'a>> {
    let rejection = plan.rejected.iter().find(|rejection| {
        let rejected = &rejection.installation;
        rejected.family == installation.family && rejected.directory == installation.directory
    })?;
    match &rejection.reason {
        // It fits by itself.
        Reason::Clash { .. }
        | Reason::DeadEnd
        | Reason::LessPreferred { .. }
        | Reason::LoaderTakesAnother { .. }
        | Reason::NeedsAbsent { .. } => None,
        reason => Some(Trouble::Unfit {
            installation,
            reason,
            instead: &pick.installation,
        }),
    }
}
