//! What the image of a container asks of its host, as conditions. `formats/require.rs` knows the grammar.

use super::{Place, invocation};
use crate::environment::Environment;
use crate::formats::require::{self, Clause, Operator, Property};
use crate::program::{Condition, Demand};
use crate::range::Range;
use crate::version::Version;

const PREFIX: &str = "NVIDIA_REQUIRE_";
const DISABLE: &str = "NVIDIA_DISABLE_REQUIRE";

/// A variable that makes no sense, and the part of it that does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub variable: String,
    pub part: String,
}

/// Each variable is a condition of its own, and all must hold.
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
                    by: Place::Variable(name.into_owned()).asker(),
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

/// Here missing numbers are zeros, where in ranges that people write they are whatever there is.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_all_of_their_numbers() {
        let allows = |operator, version: &str, has: &str| {
            range(operator, version.parse().unwrap()).allows(&has.parse().unwrap())
        };
        for (operator, version, yes, no) in [
            (Operator::Equal, "470", "470.0", "470.57.02"),
            (Operator::Equal, "12.4", "12.4", "12.5"),
            (Operator::NotEqual, "470", "470.57.02", "470.0.0"),
            (Operator::AtMost, "470", "470.0", "470.57.02"),
            (Operator::Greater, "470", "470.57.02", "470.0"),
            (Operator::AtLeast, "470", "470.57.02", "469.99"),
            (Operator::Less, "471", "470.57.02", "471.0"),
        ] {
            assert!(allows(operator, version, yes), "{operator:?} {version}: {yes}");
            assert!(!allows(operator, version, no), "{operator:?} {version}: {no}");
        }
    }

    #[test]
    fn every_variable_must_hold_and_one_can_turn_all_off() {
        let env = |pairs: &[(&str, &str)]| pairs.iter().copied().collect::<Environment>();
        let two = [("NVIDIA_REQUIRE_CUDA", "cuda>=12.4"), ("NVIDIA_REQUIRE_JETPACK", "arch>=7.2 brand=x")];
        let (conditions, malformed) = self::conditions(&env(&two));
        assert_eq!(conditions.len(), 2, "one condition for each variable");
        assert_eq!(malformed, []);
        assert!(conditions.iter().all(|condition| condition.only_with_gpu));
        for (value, count) in [("1", 0), ("true", 0), ("True", 0), ("0", 2), ("false", 2), ("", 2)] {
            let all = [&two[..], &[(DISABLE, value)]].concat();
            assert_eq!(self::conditions(&env(&all)).0.len(), count, "{value}");
        }
        let (conditions, malformed) = self::conditions(&env(&[("NVIDIA_REQUIRE_CUDA", "cuda>=12 what")]));
        assert_eq!((conditions.len(), malformed[0].part.as_str()), (0, "what"));
    }
}
