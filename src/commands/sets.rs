//! The set that a program gets on a machine, as a lock names it.

use std::collections::BTreeSet;
use std::ffi::OsString;

use super::{Exit, command_of};
use crate::catalog::Platform;
use crate::cli::{Common, Wishes};
use crate::host::Host;
use crate::inventory::{self, Installation, Inventory, Member, Origin};
use crate::pipeline::{self, Reached, Request, Stop, Subject};
use crate::report::{self, Style};
use crate::settings::lock::{Family, Lock};
use crate::settings::resolve::Purpose;
use crate::solve::Outcome;
use crate::version::ComputeCapability;

/// Returns a lock's entry for an installation.
pub(super) fn locked(installation: &Installation, platform: Platform<'_>) -> Family {
    let package = installation.package.as_deref();
    let build_id = |member: &Member| Some((member.soname.clone(), member.build_id.clone()?));
    Family {
        name: installation.family.clone(),
        version: installation.version,
        cuda: installation.cuda,
        build_ids: installation.files.iter().filter_map(build_id).collect(),
        wheel: package
            .and_then(|package| platform.wheel(package))
            .map(|(_, file)| file.sha256.clone()),
        line: 0,
    }
}

/// The libraries of a program on a machine, as a lock names them.
#[derive(Default)]
pub(super) struct Picks {
    pub set: Vec<Family>,
    /// All that are found for it.
    pub all: Vec<Family>,
    pub gpus: BTreeSet<ComputeCapability>,
}

/// Names those installations that a program may get elsewhere too: the driver belongs to the machine, and a package's own
/// library cannot be picked elsewhere.
fn families<'i>(
    host: &Host,
    inventory: &Inventory,
    installations: impl Iterator<Item = &'i Installation>,
) -> Vec<Family> {
    let platform = Platform {
        machine: inventory::machine(host).unwrap_or_default(),
        glibc: inventory.glibc.unwrap_or_default(),
        at_hand: None,
    };
    let shared =
        installations.filter(|one| one.family != "driver" && one.origin != Origin::Bundled);
    shared.map(|one| locked(one, platform)).collect()
}

/// Returns the libraries of a program that obeys this lock, or the first line of the refusal. An empty lock counts as no lock.
pub(super) fn picks(
    host: &Host,
    common: &Common,
    words: &[OsString],
    lock: &Lock,
) -> Result<Picks, String> {
    let locked = !lock.families.is_empty();
    let wishes = Wishes {
        locked,
        lock: locked.then(|| lock.text()),
        ..Wishes::default()
    };
    let command = command_of(words);
    let request = Request::new(
        host,
        common,
        &wishes,
        Subject::Command(&command),
        Purpose::Answer,
    );
    let mut found = Ok(Picks::default());
    let run = pipeline::run(&request, &mut |reached| match reached {
        Reached::Decision(facts, decision) => {
            let inventory = &facts.inventory;
            let picks = match &decision.outcome {
                Outcome::Plan(plan) => plan.picks.as_slice(),
                _ => &[],
            };
            found = Ok(Picks {
                set: families(host, inventory, picks.iter().map(|pick| &pick.installation)),
                all: families(host, inventory, inventory.installations.iter()),
                gpus: inventory
                    .gpus
                    .iter()
                    .filter_map(|gpu| gpu.capability)
                    .collect(),
            });
            if decision.is_refused() {
                found = Err(report::refusal(
                    decision,
                    &facts.program,
                    true,
                    Style::default(),
                ));
            }
            Err(Stop::Exit(Exit::Yes))
        }
        _ => Ok(()),
    });
    let first = |why: String| {
        why.lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned()
    };
    run.map_err(|error| report::error(&error))
        .and(found)
        .map_err(first)
}
