//! The solver against a naive one, which tries every set of installations and checks each rule at the end, on some thousands
//! of small machines; and what it says where there is no set.

use std::cmp::Reverse;

use cudarun::catalog::{catalog, knowledge};
use cudarun::formats::symbols::RequiredSymbol;
use cudarun::inventory::{ChangedBy, Code, Installation, Inventory, Origin};
use cudarun::program::Program;
use cudarun::requirements::{Demand, LibraryRequirement, Want};
use cudarun::solve::{Contradiction, FailedProof, Outcome, Policy, solve};
use cudarun::version::{CudaVersion, Version};

use crate::support::solver_inputs::{self, Dice};

/// Random machines and programs that are tried without `CUDARUN_TESTS_WORLDS`. `.ci/full` tries 2,000.
const FEW: u64 = 250;
/// For comparisons that take little time.
const MANY: u64 = 6000;

fn worlds() -> u64 {
    std::env::var("CUDARUN_TESTS_WORLDS").map_or(FEW, |count| count.parse().unwrap())
}

/// A family, and the number in the SONAME that is meant.
type Key = (String, Option<u32>);

/// The keys that are asked for by name, in the order of the search for the best: the driver first, then as in
/// the catalog.
fn asked(inventory: &Inventory, program: &Program) -> Vec<Key> {
    let position = |key: &Key| {
        catalog()
            .families
            .iter()
            .position(|family| family.name == key.0)
    };
    let mut keys: Vec<Key> = program
        .library_requirements()
        .filter_map(LibraryRequirement::named)
        .map(|name| key(name).unwrap())
        .collect();
    if keys.is_empty() {
        return keys;
    }
    if !inventory.devices.is_empty() {
        keys.push(("driver".to_owned(), None));
    }
    keys.sort_by_key(position);
    keys.dedup();
    keys
}

fn key(name: &str) -> Option<Key> {
    let (family, _) = catalog().family_of(name)?;
    let number = name.rsplit('.').next().unwrap().parse().ok();
    Some((
        family.name.clone(),
        number.filter(|_| !["curand", "driver"].contains(&family.name.as_str())),
    ))
}

/// The best set: the first that keeps every rule, when each family's installations are tried in the order of the table.
fn naive<'i>(inventory: &'i Inventory, program: &Program) -> Option<Vec<&'i Installation>> {
    fn fill<'i>(
        queue: &[Key],
        done: &[&'i Installation],
        inventory: &'i Inventory,
        program: &Program,
    ) -> Option<Vec<&'i Installation>> {
        let Some((next, rest)) = queue.split_first() else {
            return faults(done, inventory, program)
                .is_empty()
                .then(|| done.to_vec());
        };
        if done
            .iter()
            .any(|installation| (&installation.family, installation.soname) == (&next.0, next.1))
        {
            return fill(rest, done, inventory, program);
        }
        let is_it = |installation: &&Installation| {
            installation.family == next.0 && installation.soname == next.1
        };
        let mut installations: Vec<&Installation> =
            inventory.installations.iter().filter(is_it).collect();
        installations.sort_by_cached_key(|installation| {
            (
                rank(installation, done, inventory, program),
                installation.directory.clone(),
            )
        });
        installations.into_iter().find_map(|installation| {
            let needed = installation.files[0]
                .needed
                .iter()
                .filter_map(|name| key(name));
            let queue: Vec<Key> = rest.iter().cloned().chain(needed).collect();
            fill(
                &queue,
                &[done, &[installation]].concat(),
                inventory,
                program,
            )
        })
    }
    fill(&asked(inventory, program), &[], inventory, program)
}

/// The table of preferences, read from the design.
fn rank(
    installation: &Installation,
    done: &[&Installation],
    inventory: &Inventory,
    program: &Program,
) -> Vec<Reverse<i64>> {
    let of_family = || {
        program
            .library_requirements()
            .filter(|requirement| requirement.family == installation.family)
    };
    let version = installation.version.unwrap_or_default();
    let number = |version: &Version| {
        version
            .numbers()
            .iter()
            .fold(0, |sum: i64, part| sum * 4096 + i64::from(*part))
            << (12 * (4 - version.numbers().len()))
    };
    let preferred = of_family()
        .filter(|it| matches!(&it.want, Want::Preferred(range) if range.allows(&version)))
        .count();
    let recorded = of_family().find_map(|it| match it.want {
        Want::Recorded(version) => Some(version),
        _ => None,
    });
    let gpu = inventory.gpus.first().and_then(|gpu| gpu.capability);
    let only_ptx = installation.family != "npp"
        && gpu.is_some_and(|gpu| installation.serves.get(&gpu) == Some(&Code::Ptx));
    let near: i64 = done
        .iter()
        .filter(|other| other.family != "driver")
        .map(|other| {
            let is_same_cuda =
                installation.built_for.is_some() && other.built_for == installation.built_for;
            let near = i64::from(other.origin == installation.origin) + i64::from(is_same_cuda);
            if other.directory == installation.directory {
                100
            } else {
                near
            }
        })
        .sum();
    let nearest = match recorded {
        Some(recorded) if version < recorded => i64::MIN,
        Some(_) => -number(&version),
        None => 0,
    };
    let is_planted = !installation.is_named
        && installation
            .open
            .iter()
            .any(|open| open.who != ChangedBy::CurrentDirectory);
    let columns = [
        i64::from(!is_planted),
        i64::from(installation.origin == Origin::Driver),
        i64::try_from(preferred).unwrap(),
        i64::from(!only_ptx),
        near,
        i64::from(recorded.is_some_and(|recorded| version.agrees_with(&recorded))),
        nearest,
        number(&version),
        installation
            .position
            .map_or(i64::MIN, |position| -i64::try_from(position).unwrap()),
    ];
    columns.map(Reverse).to_vec()
}

/// Every rule that a set breaks, in words.
fn faults(picks: &[&Installation], inventory: &Inventory, program: &Program) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault = |is_broken: bool, what: &str, installation: &Installation| {
        if is_broken {
            faults.push(format!(
                "{what}: {} in {}",
                installation.title(),
                installation.directory.display()
            ));
        }
    };
    let offers = |name: &String| {
        picks
            .iter()
            .any(|installation| installation.files[0].soname == *name)
    };
    let gpu = inventory.gpus.first().and_then(|gpu| gpu.capability);
    let driver = inventory.driver.as_ref();
    for installation in picks {
        let file = &installation.files[0];
        let version = installation.version.unwrap();
        let is_library = installation.family != "driver";
        fault(!installation.problems.is_empty(), "broken", installation);
        let is_open =
            !installation.open.is_empty() && !installation.is_named && !installation.loader_gives;
        fault(
            is_open,
            "of another user, and neither named nor given by the loader",
            installation,
        );
        fault(file.glibc > inventory.glibc, "glibc", installation);
        fault(
            knowledge()
                .bad_release(&installation.family, &version)
                .is_some(),
            "known to be bad",
            installation,
        );
        fault(
            !file.needed.iter().all(offers),
            "linked against what is not there",
            installation,
        );
        fault(
            lacks(file.imports.values().flatten(), picks),
            "symbols",
            installation,
        );
        // NPP's main library has none that would mean anything.
        let has_code = !file.code.is_empty() && installation.family != "npp";
        let code = gpu.and_then(|gpu| installation.serves.get(&gpu));
        fault(
            is_library && gpu.is_some() && has_code && code.is_none(),
            "no code",
            installation,
        );
        let too_new = installation.built_for > driver.and_then(|driver| driver.cuda);
        let by_driver = gpu.is_some() && driver.is_some();
        fault(
            is_library && by_driver && has_code && code == Some(&Code::Ptx) && too_new,
            "PTX",
            installation,
        );
        // A driver of branch 535 brings CUDA 12.2, and no driver runs a newer major.
        let runs = driver
            .and_then(|driver| driver.cuda)
            .map_or(99, |cuda: CudaVersion| cuda.major);
        fault(
            is_library && gpu.is_some() && installation.cuda.unwrap_or(0) > runs,
            "driver",
            installation,
        );
        for requirement in program.machine_requirements() {
            let Demand::Cuda(range) = &requirement.demand else {
                continue;
            };
            let is_cuda = ["nvjitlink"].contains(&installation.family.as_str());
            let allowed = if is_cuda {
                range.allows(&version)
            } else {
                (0..20).any(|minor| {
                    range.allows(&Version::new(&[installation.cuda.unwrap_or(0), minor]))
                })
            };
            fault(is_library && !allowed, "CUDA is not allowed", installation);
        }
        for wanted in program
            .library_requirements()
            .filter(|wanted| wanted.family == installation.family)
        {
            match &wanted.want {
                Want::AtLeast(floor) => {
                    let serves =
                        version.major() == floor.major() && version.minor() >= floor.minor();
                    fault(!serves, "older than compiled for", installation);
                }
                Want::Within(range) => fault(!range.allows(&version), "out of range", installation),
                Want::Symbols(symbols) => {
                    fault(
                        lacks(symbols.iter(), picks),
                        "symbols of the program",
                        installation,
                    );
                }
                Want::Name(_) => {
                    let other = wanted
                        .by
                        .cuda
                        .is_some_and(|cuda| Some(cuda) != installation.cuda);
                    fault(other, "of another CUDA than who asks", installation);
                }
                _ => {}
            }
        }
        for other in picks
            .iter()
            .filter(|other| is_library && other.family != "driver")
        {
            let share = |one: &Installation, two: &Installation| {
                let asks = |installation: &Installation| {
                    let of = program
                        .library_requirements()
                        .filter(|it| it.family == installation.family && it.named().is_some());
                    of.map(|it| it.by.name.clone()).collect::<Vec<_>>()
                };
                asks(one).iter().any(|asker| asks(two).contains(asker))
            };
            let linked = other.files[0].needed.contains(&file.soname);
            fault(
                (share(installation, other) || linked) && other.cuda != installation.cuda,
                "two CUDAs",
                installation,
            );
        }
    }
    faults
}

fn lacks<'s>(
    mut symbols: impl Iterator<Item = &'s RequiredSymbol>,
    picks: &[&Installation],
) -> bool {
    symbols.any(|symbol| {
        let from = picks
            .iter()
            .find(|installation| installation.files[0].soname == symbol.file);
        from.is_some_and(|installation| installation.files[0].exports.lack(symbol))
    })
}

#[test]
fn the_solver_agrees_with_a_naive_search() {
    let (mut plans, mut conflicts) = (0, 0);
    for seed in 1..=worlds() {
        let (inventory, program) = solver_inputs::small(&mut Dice(seed * 0x9e37_79b9));
        let best = naive(&inventory, &program);
        let found = match solve(&inventory, &program, &Policy::default()) {
            Outcome::Plan(plan) => plan,
            Outcome::Nothing { .. } => {
                assert!(asked(&inventory, &program).is_empty(), "seed {seed}");
                continue;
            }
            Outcome::Conflict(conflict) => {
                let says = || serde_json::to_string_pretty(&conflict.contradictions).unwrap();
                let best = best.map(|installations| places(&installations));
                assert!(
                    best.is_none(),
                    "seed {seed}: there is a set, {best:?}\n{}",
                    says()
                );
                conflicts += 1;
                continue;
            }
        };
        let installations: Vec<&Installation> =
            found.picks.iter().map(|pick| &pick.installation).collect();
        assert_eq!(
            faults(&installations, &inventory, &program),
            [""; 0],
            "seed {seed}"
        );
        let best = best.unwrap_or_else(|| panic!("seed {seed}: the naive search finds none"));
        assert_eq!(places(&installations), places(&best), "seed {seed}");
        plans += 1;
    }
    assert!(
        plans > worlds() / 8 && conflicts > worlds() / 8,
        "{plans} plans, {conflicts} conflicts: both must be tried"
    );
}

fn places(installations: &[&Installation]) -> Vec<String> {
    installations
        .iter()
        .map(|installation| {
            format!(
                "{} in {}",
                installation.title(),
                installation.directory.display()
            )
        })
        .collect()
}

/// The target with nothing but what these say.
fn only(program: &Program, contradiction: &Contradiction, but: Option<usize>) -> Program {
    let members = || {
        contradiction
            .members
            .iter()
            .enumerate()
            .filter(|(index, _)| Some(*index) != but)
    };
    let is_kept = |requirement: &&LibraryRequirement| {
        members().any(|(_, member)| {
            let is_of = member.family.as_ref() == Some(&requirement.family)
                && member.by.name == requirement.by.name;
            is_of && member.by.line == requirement.by.line
        })
    };
    let requirements = program
        .library_requirements()
        .filter(is_kept)
        .cloned()
        .collect();
    let is_demanded = members().any(|(_, member)| member.demand.is_some());
    let machine = program
        .machine_requirements()
        .filter(|_| is_demanded)
        .cloned()
        .collect();
    solver_inputs::program(requirements, machine)
}

#[test]
fn every_member_of_a_conflict_is_necessary() {
    let (mut alone, mut several) = (0, 0);
    for seed in 1..=worlds() {
        let (inventory, program) = solver_inputs::small(&mut Dice(seed * 0x9e37_79b9));
        let Outcome::Conflict(conflict) = solve(&inventory, &program, &Policy::default()) else {
            continue;
        };
        assert!(!conflict.contradictions.is_empty(), "seed {seed}");
        for contradiction in &conflict.contradictions {
            let is_contradiction = |program: &Program| {
                matches!(
                    solve(&inventory, program, &Policy::default()),
                    Outcome::Conflict(_)
                )
            };
            assert!(
                is_contradiction(&only(&program, contradiction, None)),
                "seed {seed}: {contradiction:#?}"
            );
            for index in 0..contradiction.members.len() {
                let without = only(&program, contradiction, Some(index));
                assert!(
                    !is_contradiction(&without),
                    "seed {seed}: {index} of {contradiction:#?}"
                );
                assert!(
                    naive(&inventory, &without).is_some() || asked(&inventory, &without).is_empty()
                );
            }
            *if contradiction.members.len() > 1 {
                &mut several
            } else {
                &mut alone
            } += 1;
        }
    }
    assert!(
        alone > worlds() / 8 && several > worlds() / 8,
        "{alone} of one member, {several} of more"
    );
}

/// An installation that failed its proof is as good as one that is not there.
#[test]
fn without_a_failed_library_the_solver_agrees_with_a_naive_search() {
    let (mut plans, mut conflicts) = (0, 0);
    for seed in 1..=MANY / 4 {
        let (mut inventory, program) = solver_inputs::small(&mut Dice(seed * 0x9e37_79b9));
        let Outcome::Plan(first) = solve(&inventory, &program, &Policy::default()) else {
            continue;
        };
        let Some(bad) = first.picks.last().map(|pick| pick.installation.clone()) else {
            continue;
        };
        let failed_proofs = vec![FailedProof {
            family: bad.family.clone(),
            directory: bad.directory.clone(),
        }];
        let found = solve(
            &inventory,
            &program,
            &Policy {
                failed_proofs,
                ..Policy::default()
            },
        );
        inventory.installations.retain(|installation| {
            (&installation.family, &installation.directory) != (&bad.family, &bad.directory)
        });
        let best = naive(&inventory, &program).map(|installations| places(&installations));
        if let Outcome::Plan(plan) = found {
            let installations: Vec<&Installation> =
                plan.picks.iter().map(|pick| &pick.installation).collect();
            assert_eq!(Some(places(&installations)), best, "seed {seed}");
            plans += 1;
        } else {
            assert!(best.is_none(), "seed {seed}: {best:?}");
            conflicts += 1;
        }
    }
    assert!(
        plans > 50 && conflicts > 50,
        "{plans} plans, {conflicts} conflicts"
    );
}

#[test]
fn equal_questions_get_identical_answers() {
    for seed in 1..=40 {
        let (inventory, program) = solver_inputs::small(&mut Dice(seed * 0x9e37_79b9));
        let answer = || format!("{:?}", solve(&inventory, &program, &Policy::default()));
        let first = answer();
        assert!((0..5).all(|_| answer() == first), "seed {seed}");
        // The order in which installations were found decides nothing but the order of what is not picked.
        let mut other = solver_inputs::small(&mut Dice(seed * 0x9e37_79b9)).0;
        other.installations.reverse();
        let picks = |inventory: &Inventory| match solve(inventory, &program, &Policy::default()) {
            Outcome::Plan(plan) => plan
                .picks
                .into_iter()
                .map(|pick| pick.installation.directory)
                .collect(),
            _ => Vec::new(),
        };
        assert_eq!(picks(&inventory), picks(&other), "seed {seed}");
    }
}

#[test]
fn a_machine_with_a_thousand_installations_is_solved() {
    let (inventory, program) = solver_inputs::large(1000, false);
    let Outcome::Plan(plan) = solve(&inventory, &program, &Policy::default()) else {
        panic!("there is a set")
    };
    assert_eq!(plan.picks.len(), 31, "the driver and thirty families");
    assert!(
        plan.picks
            .iter()
            .all(|pick| pick.installation.family == "driver" || pick.installation.cuda == Some(12))
    );
    let (inventory, program) = solver_inputs::large(1000, true);
    let Outcome::Conflict(conflict) = solve(&inventory, &program, &Policy::default()) else {
        panic!("there is none")
    };
    assert_eq!(
        conflict.contradictions[0].members.len(),
        2,
        "{:#?}",
        conflict.contradictions
    );
}
