//! `NVIDIA_REQUIRE_*`, a container image's requirements of its host. Blanks separate alternatives, commas the clauses of
//! one. NVIDIA's container toolkit reads it as follows (`internal/requirements/constraints/factory.go` and `property.go`
//! of <https://github.com/NVIDIA/nvidia-container-toolkit>, 2026-11-21): versions compare by all of their numbers, missing
//! ones as zero; unknown properties are skipped, and so are alternatives that have no other clause; a clause without an
//! operator or without its version is an error.

use crate::version::Version;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// The CUDA version of the driver.
    Cuda,
    Driver,
    /// The compute capability.
    Arch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equal,
    NotEqual,
    AtMost,
    AtLeast,
    Less,
    Greater,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clause {
    Version { property: Property, operator: Operator, version: Version },
    Brand { name: String, is_not: bool },
}

/// Longer signs come first, since `<` begins `<=`.
const OPERATORS: [(&str, Operator); 6] = [
    ("!=", Operator::NotEqual),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// Returns the alternatives, each with its clauses. The error is the malformed clause.
pub fn parse(text: &str) -> Result<Vec<Vec<Clause>>, &str> {
    let mut alternatives = Vec::new();
    for term in text.split_whitespace() {
        let mut clauses = Vec::new();
        for part in term.split(',').filter(|part| !part.is_empty()) {
            clauses.extend(clause(part)?);
        }
        if !clauses.is_empty() {
            alternatives.push(clauses);
        }
    }
    Ok(alternatives)
}

fn clause(part: &str) -> Result<Option<Clause>, &str> {
    let at = part.find(['<', '>', '=', '!']).ok_or(part)?;
    let (name, rest) = part.split_at(at);
    let property = match name {
        "cuda" => Some(Property::Cuda),
        "driver" => Some(Property::Driver),
        "arch" => Some(Property::Arch),
        "brand" => None,
        _ => return Ok(None),
    };
    let known = OPERATORS.iter().find_map(|(sign, operator)| Some((rest.strip_prefix(sign)?, *operator)));
    let (value, operator) = known.ok_or(part)?;
    Ok(Some(match (property, operator) {
        (Some(property), _) => {
            let version = value.strip_prefix('v').unwrap_or(value).parse().map_err(|()| part)?;
            Clause::Version { property, operator, version }
        }
        (None, Operator::Equal) => Clause::Brand { name: value.to_owned(), is_not: false },
        (None, Operator::NotEqual) => Clause::Brand { name: value.to_owned(), is_not: true },
        // Brands have no order.
        (None, _) => return Err(part),
    }))
}
