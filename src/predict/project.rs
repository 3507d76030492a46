//! Whether what a project asks for holds for programs that are started without cudarun: pure, from what was decided and
//! what the environment as it is gives.

use std::collections::BTreeSet;

use crate::inventory::{Installation, Inventory};
use crate::loader::search::Rule;
use crate::predict::supply::{Fault, Supply, given};
use crate::predict::{Predicted, Prediction};
use crate::solve::{Conflict, Outcome, Pick, Plan, Reason, Rejection};

/// What does not hold.
#[derive(Debug)]
pub enum Trouble<'a> {
    /// Nothing that is here is a set.
    NoSet { conflict: &'a Conflict },
    /// What programs get of a family fails, or is of more than one installation.
    Faulty {
        family: &'a str,
        fault: Fault,
        installations: Vec<&'a Installation>,
        by_library_path: bool,
        instead: &'a Installation,
    },
    /// What programs get of a family is not what was asked for.
    Unfit { installation: &'a Installation, reason: &'a Reason, instead: &'a Installation },
}

impl Trouble<'_> {
    /// Whether cudarun itself could start nothing.
    pub fn ends_every_start(&self) -> bool {
        matches!(self, Trouble::NoSet { .. })
    }
}

/// The first thing that does not hold.
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
    plan.picks.iter().find_map(|pick| match given.get(pick.installation.family.as_str()) {
        Some(given) => of_given(given, pick, plan, inventory),
        None => of_another_name(pick, plan, inventory),
    })
}

fn of_given<'a>(
    given: &Supply<'a>,
    pick: &'a Pick,
    plan: &'a Plan,
    inventory: &'a Inventory,
) -> Option<Trouble<'a>> {
    let installations: Vec<&Installation> =
        given.installations.iter().filter_map(|(installation, _)| *installation).collect();
    // Two installations of one version are two all the same, and harm nobody.
    let versions: BTreeSet<_> =
        installations.iter().map(|installation| (installation.version, installation.cuda)).collect();
    let is_told = |fault: &Fault| versions.len() > 1 || !matches!(fault, Fault::Mixed | Fault::Twice);
    if let Some(fault) = given.fault(inventory).filter(is_told) {
        let of_library_path = |file: &&Predicted| matches!(file.rule, Rule::LibraryPath { .. });
        let mut files = given.installations.iter().flat_map(|(_, files)| files);
        let by_library_path = files.any(of_library_path);
        let (family, instead) = (pick.installation.family.as_str(), &pick.installation);
        return Some(Trouble::Faulty { family, fault, installations, by_library_path, instead });
    }
    given.deciding().into_iter().flatten().find_map(|installation| unfit(installation, pick, plan))
}

/// There is nothing of the name of what was picked: then what programs get under another name is what they would find.
fn of_another_name<'a>(pick: &'a Pick, plan: &'a Plan, inventory: &'a Inventory) -> Option<Trouble<'a>> {
    let is_given = |installation: &&Installation| {
        installation.family == pick.installation.family && installation.loader_gives
    };
    let mut given =
        inventory.installations.iter().filter(is_given).map(|installation| unfit(installation, pick, plan));
    let first = given.next()?;
    if given.all(|it| it.is_some()) { first } else { None }
}

fn unfit<'a>(installation: &'a Installation, pick: &'a Pick, plan: &'a Plan) -> Option<Trouble<'a>> {
    let is_it = |it: &&Rejection| {
        it.installation.family == installation.family && it.installation.directory == installation.directory
    };
    let rejection = plan.rejected.iter().find(is_it)?;
    let is_its_own = !matches!(
        rejection.reason,
        Reason::Clash { .. }
            | Reason::DeadEnd
            | Reason::LessPreferred { .. }
            | Reason::LoaderTakesAnother { .. }
            | Reason::NeedsAbsent { .. }
            | Reason::PassedOver
    );
    is_its_own.then_some(Trouble::Unfit {
        installation,
        reason: &rejection.reason,
        instead: &pick.installation,
    })
}
