//! `NVIDIA_REQUIRE_*`, a container image's requirements of its host. Blanks separate alternatives, commas the clauses of
//! one. NVIDIA's container toolkit reads it as follows (`internal/requirements/constraints/factory.go` and `property.go`
//! of <https://github.com/NVIDIA/nvidia-container-toolkit>, 2026-11-21): versions compare by all of their numbers, missing
//! ones as zero; unknown properties are skipped, and so are alternatives that have no other clause; a clause without an
//! operator or without its version is an error.

use crate::range::Range;
use crate::version::Version;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// The CUDA version of the driver.
    Cuda,
    Driver,
    /// The compute capability.
    Arch,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clause {
    Version { property: Property, range: Range },
    Brand { name: String, is_not: bool },
}

/// Longer signs come first, since `<` begins `<=`.
const SIGNS: [&str; 6] = ["!=", "<=", ">=", "=", "<", ">"];

/// The alternatives, each with its clauses. The error is the malformed clause.
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
    let end = part.find(['<', '>', '=', '!']).ok_or(part)?;
    let (name, rest) = part.split_at(end);
    let property = match name {
        "cuda" => Some(Property::Cuda),
        "driver" => Some(Property::Driver),
        "arch" => Some(Property::Arch),
        "brand" => None,
        _ => return Ok(None),
    };
    let sign = SIGNS
        .into_iter()
        .find(|sign| rest.starts_with(sign))
        .ok_or(part)?;
    let value = &rest[sign.len()..];
    Ok(Some(match (property, sign) {
        (Some(property), _) => {
            let version: Version = value
                .strip_prefix('v')
                .unwrap_or(value)
                .parse()
                .map_err(|()| part)?;
            // Here, missing numbers are zeros; in a range that a person writes, they are open. No property has more than
            // three numbers.
            let is_open = matches!(sign, ">=" | "<");
            let missing = if is_open {
                0
            } else {
                3_usize.saturating_sub(version.numbers().len())
            };
            let range = format!("{sign}{version}{}", ".0".repeat(missing))
                .parse()
                .map_err(|()| part)?;
            Clause::Version { property, range }
        }
        (None, "=") => Clause::Brand {
            name: value.to_owned(),
            is_not: false,
        },
        (None, "!=") => Clause::Brand {
            name: value.to_owned(),
            is_not: true,
        },
        // Brands have no order.
        (None, _) => return Err(part),
    }))
}
