//! What a container image asks of its host in `NVIDIA_REQUIRE_*`: blanks stand between alternatives, commas between
//! what must hold together. As NVIDIA's container toolkit reads it, in `internal/requirements/constraints/factory.go`
//! and `property.go` of <https://github.com/NVIDIA/nvidia-container-toolkit>, looked at on 2026-11-21: versions compare
//! by all of their numbers, missing ones as zero; a property that it does not know is passed over, and so is an
//! alternative of which nothing else is left; what has no operator, or no version where one belongs, is an error.

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

/// The longer ones first.
const OPERATORS: [(&str, Operator); 6] = [
    ("!=", Operator::NotEqual),
    ("<=", Operator::AtMost),
    (">=", Operator::AtLeast),
    ("=", Operator::Equal),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

/// The alternatives, each with all that it asks for; none where nothing is asked. The error is the part that cannot be
/// understood.
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
        // Brands have no order that would mean anything.
        (None, _) => return Err(part),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, &str> {
        let one = |clause: &Clause| match clause {
            Clause::Version { property, operator, version } => format!("{property:?} {operator:?} {version}"),
            Clause::Brand { name, is_not } => format!("{}{name}", if *is_not { "not " } else { "" }),
        };
        let all = |clauses: &Vec<Clause>| clauses.iter().map(one).collect::<Vec<_>>().join(" & ");
        parse(text).map(|alternatives| alternatives.iter().map(all).collect::<Vec<_>>().join(" | "))
    }

    /// Values of images as NVIDIA publishes them.
    #[test]
    fn requirements_of_images_are_understood() {
        let asked = "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=535,driver<536";
        assert_eq!(
            shown(asked).unwrap(),
            "Cuda AtLeast 12.4 | tesla & Driver AtLeast 470 & Driver Less 471 | unknown & Driver AtLeast 535 & Driver Less 536"
        );
        assert_eq!(shown("cuda>=9.0").unwrap(), "Cuda AtLeast 9.0");
        let tesla = "cuda>=10.2 brand=tesla,driver>=384,driver<385";
        assert_eq!(shown(tesla).unwrap(), "Cuda AtLeast 10.2 | tesla & Driver AtLeast 384 & Driver Less 385");
        assert_eq!(shown("arch>=7.0,brand!=geforce").unwrap(), "Arch AtLeast 7.0 & not geforce");
        assert_eq!(
            shown("cuda=12.4,driver!=470.57.02").unwrap(),
            "Cuda Equal 12.4 & Driver NotEqual 470.57.02"
        );
        assert_eq!(shown("driver<=550\n driver>580").unwrap(), "Driver AtMost 550 | Driver Greater 580");
    }

    #[test]
    fn unknown_conditions_are_skipped_and_nonsense_is_an_error() {
        assert_eq!(shown("").unwrap(), "");
        assert_eq!(shown("colour=blue").unwrap(), "");
        assert_eq!(shown("colour=blue,cuda>=12 shape>4").unwrap(), "Cuda AtLeast 12");
        for (text, part) in [
            ("cuda>=12 nonsense", "nonsense"),
            ("cuda>=", "cuda>="),
            ("cuda>=twelve", "cuda>=twelve"),
            ("driver!470", "driver!470"),
            ("brand<tesla", "brand<tesla"),
            ("cuda=>12", "cuda=>12"),
        ] {
            assert_eq!(parse(text), Err(part), "{text}");
        }
    }
}
