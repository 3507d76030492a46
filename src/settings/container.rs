//! Conditions of a container image on its host. `formats/require.rs` knows the grammar.
//!
//! An alternative of `NVIDIA_REQUIRE_*` that has no condition that we understand does not hold, as in NVIDIA's
//! container toolkit.

use super::{SettingPlace, invocation};
use crate::environment::Environment;
use crate::formats::require::{self, Clause, Operator, Property};
use crate::program::{Condition, Demand};
use crate::range::Range;
use crate::version::Version;

const PREFIX: &str = "NVIDIA_REQUIRE_";
const DISABLE: &str = "NVIDIA_DISABLE_REQUIRE";

/// A variable that cannot be parsed, and the part at fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub variable: String,
    pub part: String,
}

/// Returns one condition for each variable. All must hold.
pub fn conditions(env: &Environment) -> (Vec<Condition>, Vec<Malformed>) {
    let (mut conditions, mut malformed) = (Vec::new(), Vec::new());
    if env.get(DISABLE).is_some_and(|value| invocation::is_true(&value.to_string_lossy())) {
        return (conditions, malformed);
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
                conditions.push(Condition {
                    demand: Demand::Any(alternatives.iter().map(all).collect()),
                    by: SettingPlace::Variable(name.into_owned()).asker(),
                    only_with_gpu: true,
                    is_advice: false,
                });
            }
            Err(part) => {
                malformed.push(Malformed { variable: name.into_owned(), part: part.to_owned() });
            }
        }
    }
    (conditions, malformed)
}

fn demand(clause: &Clause) -> Demand {
    match clause {
        Clause::Brand { name, is_not } => Demand::Brand { name: name.clone(), is_not: *is_not },
        Clause::Version { property, operator, version } => {
            let range = range(*operator, *version);
            match property {
                Property::Cuda => Demand::DriverCuda(range),
                Property::Driver => Demand::Driver(range),
                Property::Arch => Demand::Gpu(range),
            }
        }
    }
}

/// Missing numbers are zeros here, while a range that a person writes leaves them open.
fn range(operator: Operator, version: Version) -> Range {
    let (sign, is_exact) = match operator {
        Operator::Equal => ("=", true),
        Operator::NotEqual => ("!=", true),
        Operator::AtMost => ("<=", true),
        Operator::Greater => (">", true),
        Operator::AtLeast => (">=", false),
        Operator::Less => ("<", false),
    };
    // No property has more than three numbers.
    let missing = if is_exact { 3_usize.saturating_sub(version.numbers().len()) } else { 0 };
    let text = format!("{sign}{version}{}", ".0".repeat(missing));
    text.parse().unwrap_or_else(|()| Range::exactly(version))
}
