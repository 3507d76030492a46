//! The set that a program gets on a machine, as a lock names it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use super::{Exit, command_of};
use crate::catalog::Platform;
use crate::cli::{Common, Wishes};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{self, Installation, Member, Origin};
use crate::pipeline::{self, Reached, Request, Stop, Subject};
use crate::settings::lock::Family;
use crate::settings::resolve::Purpose;
use crate::solve::Outcome;
use crate::version::Version;

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

/// Returns the set that a program gets with these versions; `None` if it is refused.
pub(super) fn picks(
    host: &Host,
    common: &Common,
    words: &[OsString],
    versions: &BTreeMap<String, Version>,
) -> Result<Option<Vec<Family>>, Error> {
    let require = versions.iter().map(|(family, version)| format!("{family}={version}")).collect();
    let (wishes, command) = (Wishes { require, ..Wishes::default() }, command_of(words));
    let request = Request::new(host, common, &wishes, Subject::Command(&command), Purpose::Answer);
    let mut found = None;
    pipeline::run(&request, &mut |reached| match reached {
        Reached::Decision(facts, decision) => {
            let platform = Platform {
                machine: inventory::machine(host).unwrap_or_default(),
                glibc: facts.inventory.glibc.unwrap_or_default(),
                at_hand: None,
            };
            // The driver belongs to the machine, and a package's own library cannot be picked elsewhere.
            let is_of_set = |one: &&Installation| one.family != "driver" && one.origin != Origin::Bundled;
            found = match &decision.outcome {
                _ if decision.is_refused() => None,
                Outcome::Plan(plan) => {
                    let picked = plan.picks.iter().map(|pick| &pick.installation).filter(is_of_set);
                    Some(picked.map(|one| locked(one, platform)).collect())
                }
                _ => Some(Vec::new()),
            };
            Err(Stop::Exit(Exit::Yes))
        }
        _ => Ok(()),
    })?;
    Ok(found)
}

/// True if two sets are the same builds of the same libraries.
pub(super) fn are_same(one: &[Family], other: &[Family]) -> bool {
    let key = |family: &Family| (family.name.clone(), family.version, family.build_ids.clone());
    let keys = |set: &[Family]| set.iter().map(key).collect::<BTreeSet<_>>();
    keys(one) == keys(other)
}
