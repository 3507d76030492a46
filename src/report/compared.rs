//! The differences between two machines or environments, for `fleet`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::doctor::{ExaminedProgram, gpus};
use super::doctor_words::sentence;
use super::words::version;
use crate::catalog::{Family, catalog, display_name};
use crate::doctor::{Examination, Section, Severity};
use crate::environment::Environment;
use crate::inventory::Inventory;
use crate::machine::save::is_shown;
use crate::settings::start_key::{decides, reaches_libraries};
use crate::text::{short, show};

/// One of the two that are compared.
pub struct ComparedSide {
    /// The beginning of commands that look at it.
    pub cudarun: String,
    pub env: Environment,
    pub examination: Examination,
    pub inventory: Inventory,
    /// The programs that it holds.
    pub programs: Vec<ExaminedProgram>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum FactKind {
    Machine,
    Library,
    Variable,
    Finding,
}

impl ComparedSide {
    fn facts(&self) -> BTreeMap<(FactKind, String), String> {
        let ComparedSide {
            env,
            examination,
            inventory,
            ..
        } = self;
        let driver = inventory
            .driver
            .as_ref()
            .map(|driver| driver.version.to_string());
        let machine = [
            ("driver", driver.unwrap_or("none".to_owned())),
            ("GPUs", gpus(examination, inventory)),
            ("glibc", version(inventory.glibc.as_ref())),
        ];
        let machine = machine.map(|(name, text)| ((FactKind::Machine, name.to_owned()), text));
        let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for one in inventory
            .installations
            .iter()
            .filter(|one| one.family != "driver")
        {
            let text = format!("{} ({})", version(one.version.as_ref()), one.origin.word());
            versions
                .entry(display_name(&one.family))
                .or_default()
                .insert(text);
        }
        let libraries = versions.into_iter().map(|(name, versions)| {
            (
                (FactKind::Library, name.to_owned()),
                versions.into_iter().collect::<Vec<_>>().join(", "),
            )
        });
        let is_known = |name: &str| is_shown(name) || decides(name);
        let variables = env
            .iter()
            .filter(|(name, _)| reaches_libraries(name) && name.to_str().is_some_and(is_known));
        let variables = variables.map(|(name, value)| {
            (
                (FactKind::Variable, show(name)),
                short(&value.to_string_lossy()),
            )
        });
        // Each machine has its own cache.
        let counts = examination.findings.iter().filter(|finding| {
            finding.severity != Severity::Note && finding.what.section() != Section::Cache
        });
        let findings = counts.map(|finding| {
            (
                (FactKind::Finding, finding.what.code().to_owned()),
                sentence(finding),
            )
        });
        machine
            .into_iter()
            .chain(libraries)
            .chain(variables)
            .chain(findings)
            .collect()
    }
}

/// A fact in which two sides differ.
#[derive(Serialize)]
pub(super) struct Difference {
    pub name: String,
    /// In the order of the sides.
    pub values: [Option<String>; 2],
    pub is_finding: bool,
}

/// All in which two sides differ but programs. The libraries that decide most come before others, because a page shows only
/// the first differences.
pub(super) fn differences(sides: [&ComparedSide; 2]) -> Vec<Difference> {
    let facts = sides.map(ComparedSide::facts);
    let mut keys: Vec<_> = facts.iter().flat_map(BTreeMap::keys).collect();
    keys.sort_by_key(|(kind, name)| (kind, place(*kind, name), name));
    keys.dedup();
    let difference = |key: &(FactKind, String)| Difference {
        name: key.1.clone(),
        values: facts.each_ref().map(|facts| facts.get(key).cloned()),
        is_finding: key.0 == FactKind::Finding,
    };
    let all = keys.into_iter().map(difference);
    all.filter(|one| one.values[0] != one.values[1]).collect()
}

/// The place of a library among all, in the order in which they are decided; that of other facts is one.
fn place(kind: FactKind, name: &str) -> Option<usize> {
    let is_it = |one: &Family| kind == FactKind::Library && display_name(&one.name) == name;
    catalog().families.iter().position(is_it)
}
