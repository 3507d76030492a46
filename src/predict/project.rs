//! Checks a project's requirements for programs that are started without cudarun. Pure: compares the solver's outcome with
//! the prediction for the unchanged environment.

use std::collections::BTreeSet;

use crate::inventory::{Installation, Inventory};
use crate::loader::search::FoundBy;
use crate::predict::Prediction;
use crate::predict::supply::{FamilySupply, SupplyFault, given};
use crate::solve::{Conflict, Outcome, Pick, Plan, Reason, Rejection};

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

/// Returns the first requirement that is not met.
pub fn judge<'a>(
    outcome: &'a Outcome,
    before: &'a Prediction,
    inventory: &'a Inventory,
) -> Option<Trouble<'a>> {
    let plan = match outcome {
        Outcome::Conflict(conflict) => return Some(Trouble::NoSet { conflict }),
        Outcome::Nothing { .. } => return None,
        Outcome::Plan(plan) => plan,
    };
    let given = given(before, inventory);
    plan.picks
        .iter()
        .find_map(|pick| match given.get(pick.installation.family.as_str()) {
            Some(given) => check_supply(given, pick, plan, inventory),
            None => under_another_name(pick, plan, inventory),
        })
}

fn check_supply<'a>(
    given: &FamilySupply<'a>,
    pick: &'a Pick,
    plan: &'a Plan,
    inventory: &'a Inventory,
) -> Option<Trouble<'a>> {
    let installations: Vec<&Installation> = given
        .installations
        .iter()
        .filter_map(|(installation, _)| *installation)
        .collect();
    // Two installations of one version do no harm.
    let versions: BTreeSet<_> = installations
        .iter()
        .map(|installation| (installation.version, installation.cuda))
        .collect();
    let is_told = |fault: &SupplyFault| {
        versions.len() > 1 || !matches!(fault, SupplyFault::Mixed | SupplyFault::Twice)
    };
    if let Some(fault) = given.fault(inventory).filter(is_told) {
        let mut files = given.installations.iter().flat_map(|(_, files)| files);
        let by_library_path = files.any(|file| matches!(file.rule, FoundBy::LibraryPath { .. }));
        let (family, instead) = (pick.installation.family.as_str(), &pick.installation);
        return Some(Trouble::Faulty {
            family,
            fault,
            installations,
            by_library_path,
            instead,
        });
    }
    given
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
    let mut given = inventory.installations.iter().filter(|installation| {
        installation.family == pick.installation.family && installation.loader_gives
    });
    let first = unfit(given.next()?, pick, plan);
    first.filter(|_| given.all(|installation| unfit(installation, pick, plan).is_some()))
}

fn unfit<'a>(
    installation: &'a Installation,
    pick: &'a Pick,
    plan: &'a Plan,
) -> Option<Trouble<'a>> {
    let rejection = plan.rejected.iter().find(
        |Rejection {
             installation: rejected,
             ..
         }| {
            rejected.family == installation.family && rejected.directory == installation.directory
        },
    )?;
    let is_its_own = !matches!(
        rejection.reason,
        Reason::Clash { .. }
            | Reason::DeadEnd
            | Reason::LessPreferred { .. }
            | Reason::LoaderTakesAnother { .. }
            | Reason::NeedsAbsent { .. }
    );
    is_its_own.then_some(Trouble::Unfit {
        installation,
        reason: &rejection.reason,
        instead: &pick.installation,
    })
}
