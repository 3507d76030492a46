//! What a picked installation asks for in its turn: what it is linked against must be there, what it opens may be.

use std::collections::VecDeque;
use std::rc::Rc;

use super::constraints::{self, searched_first};
use super::search::{Blame, Picked};
use super::slots::{Slot, Strictness};
use super::world::World;
use crate::catalog::{Family, Group, catalog};
use crate::inventory::{Installation, Member};
use crate::program::{Before, First};

/// A name that an installation is linked against and that no installation can give it, and the picks that are the reason.
pub(super) struct Obstacle {
    pub name: String,
    pub due_to: Blame,
}

/// A name that an installation asks for.
struct Asked {
    name: String,
    strictness: Strictness,
    search_first: Vec<First>,
}

/// The queue once `pick` is made on top of what is `done`: slots that wait already learn of what it is
/// linked against, and what nothing covers yet becomes a slot.
pub(super) fn with<'a>(
    pick: &Picked<'a>,
    done: &[Picked<'a>],
    queue: &VecDeque<Rc<Slot<'a>>>,
    world: &World<'a>,
) -> Result<VecDeque<Rc<Slot<'a>>>, Obstacle> {
    let inventory = world.inventory;
    let mut queue = queue.clone();
    for asked in asked(pick) {
        let Some((family, _)) = catalog().family_of(&asked.name) else { continue };
        if family.name == "driver" && !inventory.has_gpu() {
            continue;
        }
        let Some(wanted) = Slot::asked_by_copy(
            &asked.name,
            pick.installation,
            &pick.slot.askers,
            asked.strictness,
            asked.search_first,
        ) else {
            continue;
        };
        let mut wanted = wanted.released_by(world.policy);
        wanted.because.insert(done.len());
        let must = asked.strictness == Strictness::Must;
        let offers = |installation: &Installation| {
            installation.family == family.name && installation.offers(&asked.name)
        };
        // A search path that leads elsewhere, and a second installation beside the one that is picked, are a mix.
        let forced = if must { constraints::forced(&wanted.requirements, inventory) } else { Vec::new() };
        let has_forced =
            |installation: &Installation| forced.iter().all(|forced| installation.has_file(forced.file));
        if done.iter().any(|picked| offers(picked.installation) && has_forced(picked.installation)) {
            continue;
        }
        if let Some(position) =
            done.iter().position(|picked| is_in_its_place(family, &wanted, picked.installation))
        {
            if must {
                return Err(Obstacle { name: asked.name, due_to: Blame::from([position]) });
            }
            continue;
        }
        let is_offered =
            |slot: &Slot<'_>| slot.candidates.iter().any(|candidate| offers(candidate.installation));
        let means_it = |slot: &Slot<'_>| slot.family.name == family.name;
        let waiting = queue
            .iter_mut()
            .filter(|slot| means_it(slot))
            .find(|slot| slot.soname == wanted.soname || is_offered(slot));
        let due_to = match waiting {
            Some(slot) if must => {
                let due_to = slot.because.clone();
                let raised = Slot::clone(slot).with(wanted, world);
                let is_empty = raised.candidates.is_empty();
                *slot = Rc::new(raised);
                if is_empty { due_to } else { continue }
            }
            Some(_) => continue,
            None => {
                wanted.fill(world);
                let is_missing = must && wanted.candidates.is_empty();
                queue.push_back(Rc::new(wanted));
                if is_missing { Blame::new() } else { continue }
            }
        };
        return Err(Obstacle { name: asked.name, due_to });
    }
    Ok(queue)
}

/// Whether a picked installation stands where the wanted one would have to stand.
fn is_in_its_place(family: &Family, wanted: &Slot<'_>, picked: &Installation) -> bool {
    let is_same =
        || family.group == Group::Place || wanted.soname.is_some() && picked.soname == wanted.soname;
    picked.family == family.name && is_same()
}

/// The names that an installation is linked against, then those that it opens at run time.
fn asked(pick: &Picked<'_>) -> Vec<Asked> {
    let installation = pick.installation;
    let mut asked = Vec::new();
    for member in &installation.files {
        for needed in &member.needed {
            if catalog().family_of(needed).is_some_and(|(family, _)| family.name != installation.family) {
                let search_first = passed_on(pick, member);
                asked.push(Asked { name: needed.clone(), strictness: Strictness::Must, search_first });
            }
        }
    }
    let Some(family) = catalog().family(&installation.family) else { return asked };
    let soname = installation.soname.unwrap_or(0);
    let mut may = |name: String, by: &str| {
        let search_first = installation.member(by).map(|member| passed_on(pick, member)).unwrap_or_default();
        asked.push(Asked { name, strictness: Strictness::May, search_first });
    };
    for (by, stem) in family.dlopens(soname) {
        let other = catalog().family_of_stem(stem).filter(|other| other.name != family.name);
        let suffix = other.and_then(|other| other.suffix(installation.cuda.unwrap_or(0)));
        if let Some(suffix) = suffix {
            may(format!("{stem}.so.{suffix}"), by);
        }
    }
    family.dlopens_unversioned(soname).iter().for_each(|name| may(name.clone(), &family.main));
    asked
}

/// The directories that come first for what a member asks for.
fn passed_on(pick: &Picked<'_>, member: &Member) -> Vec<First> {
    let directories = searched_first(&pick.slot, pick.installation, member, pick.is_forced).into_iter();
    directories.map(|(directory, _)| First { directory: directory.to_owned(), rule: Before::Rpath }).collect()
}
