//! The dependencies of a picked installation: libraries that it is linked against must be there, libraries that it opens
//! at run time may be.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use super::Reason;
use super::constraints::{self, searched_first};
use super::slot::{Blame, Picked, Slot, Strictness};
use super::world::World;
use crate::catalog::{GroupedBy, catalog};
use crate::inventory::{Installation, Member};
use crate::requirements::{Before, EarlierDirectory};

/// A library that an installation is linked against or opens.
struct Dependency {
    name: String,
    strictness: Strictness,
    /// The directories that are searched first for it.
    search_first: Vec<EarlierDirectory>,
}

/// A name that an installation is linked against and that no other can offer, and the picks that this is due to.
pub(super) struct Obstacle {
    pub name: String,
    pub due_to: Blame,
}

/// The queue after `pick` is added to the picks in `done`: the dependencies of `pick` become requirements of
/// waiting slots, or new slots.
pub(super) fn with<'a>(
    pick: &Picked<'a>,
    done: &[Picked<'a>],
    queue: &VecDeque<Rc<Slot<'a>>>,
    world: &World<'a>,
) -> Result<VecDeque<Rc<Slot<'a>>>, Obstacle> {
    let mut queue = queue.clone();
    for dependency in dependencies(pick) {
        let slot = Slot::of_dependency(
            &dependency.name,
            pick.installation,
            &pick.slot.askers,
            dependency.strictness,
            dependency.search_first,
        );
        let Some(slot) = slot else {
            continue;
        };
        if slot.family.is_driver() && !world.inventory.has_gpu() {
            continue;
        }
        let mut wanted = slot.ignoring_rpath(world.policy);
        wanted.because.insert(done.len());
        add(wanted, &dependency.name, done, &mut queue, world)?;
    }
    Ok(queue)
}

/// Adds the slot of a library that is asked for by `name`, unless a pick or a waiting slot is or will be it.
fn add<'a>(
    mut wanted: Slot<'a>,
    name: &str,
    done: &[Picked<'a>],
    queue: &mut VecDeque<Rc<Slot<'a>>>,
    world: &World<'a>,
) -> Result<(), Obstacle> {
    let must = wanted.strictness == Strictness::Must;
    // A pick that offers the name does not help if a search path leads elsewhere.
    let forced = if must {
        constraints::forced(&wanted.requirements, world.inventory)
    } else {
        Vec::new()
    };
    let mut rival = None;
    for (position, picked) in done.iter().enumerate() {
        let installation = picked.installation;
        if offers(installation, &wanted, name)
            && forced
                .iter()
                .all(|forced| installation.has_file(forced.file))
        {
            return Ok(());
        }
        // Nor can a second installation be picked in the place of another.
        if rival.is_none() && is_in_its_place(&wanted, installation) {
            rival = Some(position);
        }
    }
    let waiting = queue.iter_mut().find(|slot| {
        slot.family.name == wanted.family.name
            && (slot.soname == wanted.soname
                || slot
                    .candidates
                    .iter()
                    .any(|candidate| offers(candidate.installation, &wanted, name)))
    });
    let due_to = match (rival, waiting) {
        (Some(position), _) if must => Blame::from([position]),
        (None, Some(slot)) if must => {
            let due_to = slot.because.clone();
            *slot = Rc::new(Slot::clone(slot).merged(wanted, world));
            if !slot.candidates.is_empty() {
                return Ok(());
            }
            due_to
        }
        (None, None) => {
            wanted.fill(world);
            let is_missing = must && wanted.candidates.is_empty();
            queue.push_back(Rc::new(wanted));
            if !is_missing {
                return Ok(());
            }
            Blame::new()
        }
        _ => return Ok(()),
    };
    Err(Obstacle {
        name: name.to_owned(),
        due_to,
    })
}

fn offers(installation: &Installation, wanted: &Slot<'_>, name: &str) -> bool {
    installation.family == wanted.family.name && installation.offers(name)
}

/// True if a picked installation excludes another one for the wanted slot.
fn is_in_its_place(wanted: &Slot<'_>, picked: &Installation) -> bool {
    let is_same = wanted.family.group == GroupedBy::Place
        || wanted.soname.is_some() && picked.soname == wanted.soname;
    picked.family == wanted.family.name && is_same
}

/// The libraries of other families that an installation is linked against, then those that it opens at run time.
fn dependencies(pick: &Picked<'_>) -> Vec<Dependency> {
    let installation = pick.installation;
    let mut dependencies = Vec::new();
    let used = used_stems(installation, &pick.slot.names());
    for member in &installation.files {
        let strictness = if used.contains(member.stem.as_str()) {
            Strictness::Must
        } else {
            Strictness::May
        };
        for name in &member.needed {
            if catalog()
                .family_of(name)
                .is_some_and(|(family, _)| family.name != installation.family)
            {
                dependencies.push(Dependency {
                    name: name.clone(),
                    strictness,
                    search_first: passed_on(pick, member),
                });
            }
        }
    }
    let Some(family) = catalog().family(&installation.family) else {
        return dependencies;
    };
    let soname = installation.soname.unwrap_or(0);
    let mut opened = Vec::new();
    for (by, stem) in family.dlopens(soname) {
        if let Some(other) = catalog().family_of_stem(stem)
            && other.name != family.name
            && let Some(suffix) = other.suffix(installation.cuda.unwrap_or(0))
        {
            opened.push((format!("{stem}.so.{suffix}"), by));
        }
    }
    for name in family.dlopens_unversioned(soname) {
        opened.push((name.clone(), family.main.as_str()));
    }
    for (name, by) in opened {
        let member = installation.member(by);
        dependencies.push(Dependency {
            name,
            strictness: Strictness::May,
            search_first: member.map_or(Vec::new(), |member| passed_on(pick, member)),
        });
    }
    dependencies
}

/// The stems of the members that are mapped where a program asks for `names`: these, those without which the family is
/// incomplete, and all that they are linked against or open. libcutensorMp is there for the few programs that ask for it.
fn used_stems<'i>(installation: &'i Installation, names: &[String]) -> BTreeSet<&'i str> {
    let files = &installation.files;
    let Some(family) = catalog().family(&installation.family) else {
        return files.iter().map(|member| member.stem.as_str()).collect();
    };
    let soname = installation.soname.unwrap_or(0);
    let required = family.required(soname);
    let mut pending: Vec<&Member> = files
        .iter()
        .filter(|member| {
            member.stem == family.main
                || required.contains(&member.stem.as_str())
                || names
                    .iter()
                    .any(|name| member.names.contains(name) || member.soname == *name)
        })
        .collect();
    let mut used = BTreeSet::new();
    while let Some(member) = pending.pop() {
        if !used.insert(member.stem.as_str()) {
            continue;
        }
        for other in files {
            if member.needed.contains(&other.soname)
                || family
                    .dlopens(soname)
                    .any(|(by, stem)| by == member.stem && stem == other.stem)
            {
                pending.push(other);
            }
        }
    }
    used
}

/// Libraries that depend on one another in a longer chain are not followed.
pub(super) const DEPTH: usize = 4;

/// The reason why the loader cannot map an installation: no other one offers a library that it is linked against, with
/// all the symbols that it imports.
pub(super) fn unloadable(
    installation: &Installation,
    names: &[String],
    world: &World<'_>,
    depth: usize,
) -> Option<Reason> {
    let used = used_stems(installation, names);
    let needed = installation
        .files
        .iter()
        .filter(|member| used.contains(member.stem.as_str()))
        .flat_map(|member| &member.needed);
    needed.into_iter().find_map(|name| {
        let (family, _) = catalog().family_of(name)?;
        if depth == 0 || family.is_driver() || family.name == installation.family {
            return None;
        }
        let mut nearest = Some(Reason::NeedsAbsent { name: name.clone() });
        let others = world.installations_of(family);
        for other in others.filter(|other| other.offers(name)) {
            let why = constraints::lacking(installation, other)
                .or_else(|| unloadable(other, std::slice::from_ref(name), world, depth - 1));
            nearest = why.map(|why| Reason::Clash {
                with: other.title(),
                why: Box::new(why),
            });
            if nearest.is_none() {
                break;
            }
        }
        nearest
    })
}

/// The directories that come first for libraries that a member asks for.
fn passed_on(pick: &Picked<'_>, member: &Member) -> Vec<EarlierDirectory> {
    searched_first(&pick.slot, pick.installation, member, pick.is_forced)
        .into_iter()
        .map(|(directory, _)| EarlierDirectory {
            directory: directory.to_owned(),
            rule: Before::Rpath,
        })
        .collect()
}
