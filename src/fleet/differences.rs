//! What machines differ in.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::description::{Answers, FactKind};
use crate::catalog::{catalog, display_name};

/// A fact in which two sides differ.
#[derive(Serialize)]
pub struct Difference {
    pub name: String,
    /// In the order of the sides, what the other one has not.
    pub values: [Option<String>; 2],
    pub is_finding: bool,
}

/// All in which two sides differ but programs. The libraries that decide most come before others, because a page shows only
/// the first differences.
pub fn differences(sides: [&Answers; 2]) -> Vec<Difference> {
    let [own, other] = sides.map(|side| {
        let mut facts: BTreeMap<(FactKind, &str), BTreeSet<&str>> = BTreeMap::new();
        for fact in &side.facts {
            let values = facts.entry((fact.kind, &fact.name)).or_default();
            values.insert(&fact.value);
        }
        facts
    });
    let mut keys: Vec<_> = own.keys().chain(other.keys()).collect();
    keys.sort_by_key(|(kind, name)| (kind, place(*kind, name), name));
    keys.dedup();
    let mut differences = Vec::new();
    for key in keys {
        let own = own.get(key).cloned().unwrap_or_default();
        let other = other.get(key).cloned().unwrap_or_default();
        if own != other {
            let (kind, name) = *key;
            differences.push(Difference {
                name: name.to_owned(),
                values: [&own - &other, &other - &own]
                    .map(|all| (!all.is_empty()).then(|| Vec::from_iter(all).join("; "))),
                is_finding: kind == FactKind::Finding,
            });
        }
    }
    differences
}

/// The place of a library among all, in the order in which they are decided; that of other facts is one.
fn place(kind: FactKind, name: &str) -> Option<usize> {
    if kind != FactKind::Library {
        return None;
    }
    let mut families = catalog().families.iter();
    families.position(|family| display_name(&family.name) == name)
}
