//! The set that a program gets on a machine, as a lock names it.

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

/// Returns a lock's entry for an installation.
pub(super) fn locked(installation: &Installation, platform: Platform<'_>) -> Family {
    let package = installation.package.as_deref();
    let build_id = |member: &Member| Some((member.soname.clone(), member.build_id.clone()?));
    Family {
        name: installation.family.clone(),
        version: installation.version,
        cuda: installation.cuda,
        build_ids: installation.files.iter().filter_map(build_id).collect(),
        wheel: package.and_then(|package| platform.wheel(package)).map(|(_, file)| file.sha256.clone()),
        line: 0,
    }
}

/// Returns the installations of a machine as a lock names those that a program may get elsewhere too: the driver belongs to
/// the machine, and a package's own library cannot be picked elsewhere.
pub(super) fn families<'i>(
    host: &Host,
    inventory: &Inventory,
    installations: impl Iterator<Item = &'i Installation>,
) -> Vec<Family> {
    let platform = Platform {
        machine: inventory::machine(host).unwrap_or_default(),
        glibc: inventory.glibc.unwrap_or_default(),
        at_hand: None,
    };
    let shared = installations.filter(|one| one.family != "driver" && one.origin != Origin::Bundled);
    shared.map(|one| locked(one, platform)).collect()
}

/// Returns the set that a program gets if it obeys this lock, or the first line of the refusal.
pub(super) fn picks(
    host: &Host,
    common: &Common,
    words: &[OsString],
    lock: &Lock,
) -> Result<Vec<Family>, String> {
    let locked = !lock.families.is_empty();
    let wishes = Wishes { locked, lock: locked.then(|| lock.text()), ..Wishes::default() };
    let command = command_of(words);
    let request = Request::new(host, common, &wishes, Subject::Command(&command), Purpose::Answer);
    let mut found = Ok(Vec::new());
    let run = pipeline::run(&request, &mut |reached| match reached {
        Reached::Decision(facts, decision) => {
            found = match &decision.outcome {
                _ if decision.is_refused() => {
                    Err(report::refusal(decision, &facts.program, Style::default()))
                }
                Outcome::Plan(plan) => {
                    let picked = plan.picks.iter().map(|pick| &pick.installation);
                    Ok(families(host, &facts.inventory, picked))
                }
                _ => Ok(Vec::new()),
            };
            Err(Stop::Exit(Exit::Yes))
        }
        _ => Ok(()),
    });
    let first = |why: String| why.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    run.map_err(|error| report::error(&error)).and(found).map_err(first)
}
