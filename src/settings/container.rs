//! Conditions of a container image on its host. `formats/require.rs` knows the grammar.
//!
//! An alternative of `NVIDIA_REQUIRE_*` that has no condition that we understand does not hold, as in NVIDIA's
//! container toolkit.

use super::{SettingPlace, keys};
use crate::environment::Environment;
use crate::formats::require::{self, Clause, Property};
use crate::requirements::{Demand, MachineRequirement};

const PREFIX: &str = "NVIDIA_REQUIRE_";
const DISABLE: &str = "NVIDIA_DISABLE_REQUIRE";

/// A variable that cannot be parsed, and the part at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub variable: String,
    pub part: String,
}

/// Returns one requirement for each variable. All must hold.
pub fn requirements(env: &Environment) -> (Vec<MachineRequirement>, Vec<Malformed>) {
    let (mut requirements, mut malformed) = (Vec::new(), Vec::new());
    if env
        .get(DISABLE)
        .is_some_and(|value| keys::is_true(&value.to_string_lossy()))
    {
        return (requirements, malformed);
    }
    for (name, value) in env.iter() {
        let name = name.to_string_lossy();
        if !name.starts_with(PREFIX) {
            continue;
        }
        match require::parse(&value.to_string_lossy()) {
            Ok(alternatives) if alternatives.is_empty() => {}
            Ok(alternatives) => {
                let all = |clauses: &Vec<Clause>| clauses.iter().map(demand).collect();
                let demand = Demand::Any(alternatives.iter().map(all).collect());
                let by = SettingPlace::Variable(name.into_owned()).asker();
                requirements.push(MachineRequirement {
                    only_with_gpu: true,
                    ..MachineRequirement::of_person(demand, by)
                });
            }
            Err(part) => {
                malformed.push(Malformed {
                    variable: name.into_owned(),
                    part: part.to_owned(),
                });
            }
        }
    }
    (requirements, malformed)
}

fn demand(clause: &Clause) -> Demand {
    match clause {
        Clause::Brand { name, is_not } => Demand::Brand {
            name: name.clone(),
            is_not: *is_not,
        },
        Clause::Version {
            property: Property::Cuda,
            range,
        } => Demand::DriverCuda(range.clone()),
        Clause::Version {
            property: Property::Driver,
            range,
        } => Demand::Driver(range.clone()),
        Clause::Version {
            property: Property::Arch,
            range,
        } => Demand::Gpu(range.clone()),
    }
}
