//! The page of `doctor --compare`: the differences between two machines or environments.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::Style;
use super::doctor::{ExaminedProgram, gpus};
use super::doctor_words::sentence;
use super::hints::argument;
use super::words::{counted, family, list, short, version};
use crate::catalog::{Family, catalog};
use crate::doctor::{Examination, Section, Severity};
use crate::environment::Environment;
use crate::inventory::Inventory;
use crate::machine::save::is_shown;
use crate::settings::start_key::{decides, reaches_libraries};
use crate::text::show;

/// Further differences are only counted.
const SHOWN: usize = 10;

/// One of the two that are compared.
pub struct ComparedSide {
    pub name: String,
    pub env: Environment,
    pub examination: Examination,
    pub inventory: Inventory,
    /// The programs that it holds.
    pub programs: Vec<ExaminedProgram>,
}

/// The facts that one side alone has, or that differ; all programs. Pairs are in the order of the sides.
#[derive(Serialize)]
pub struct Comparison {
    sides: [String; 2],
    facts: Vec<Fact>,
}

#[derive(Serialize)]
struct Fact {
    kind: FactKind,
    name: String,
    values: [Option<String>; 2],
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum FactKind {
    Machine,
    Library,
    Variable,
    Finding,
    Program,
}

impl ComparedSide {
    fn facts(&self) -> BTreeMap<(FactKind, String), String> {
        let ComparedSide {
            env,
            examination,
            inventory,
            programs,
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
                .entry(family(&one.family))
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
        let programs = programs
            .iter()
            .map(|program| ((FactKind::Program, program.command.clone()), gets(program)));
        machine
            .into_iter()
            .chain(libraries)
            .chain(variables)
            .chain(findings)
            .chain(programs)
            .collect()
    }
}

impl Comparison {
    /// Compares two sides. `named` is the program that the command line names.
    pub fn new(sides: [&ComparedSide; 2], named: Option<String>) -> Comparison {
        let facts = sides.map(ComparedSide::facts);
        let named = named.map(|command| (FactKind::Program, command));
        let keys: BTreeSet<_> = facts
            .iter()
            .flat_map(BTreeMap::keys)
            .cloned()
            .chain(named)
            .collect();
        let fact = |key: (FactKind, String)| {
            let values = [facts[0].get(&key).cloned(), facts[1].get(&key).cloned()];
            Fact {
                kind: key.0,
                name: key.1,
                values,
            }
        };
        let facts = keys
            .into_iter()
            .map(fact)
            .filter(|fact| fact.kind == FactKind::Program || fact.differs());
        let mut facts: Vec<Fact> = facts.collect();
        // The libraries that decide most come first, because a page shows only the first differences.
        facts.sort_by_key(|fact| (fact.kind, place(fact)));
        Comparison {
            sides: sides.map(|side| side.name.clone()),
            facts,
        }
    }

    /// `None` where only the programs that one side lacks could differ.
    pub fn is_same(&self) -> Option<bool> {
        let is_unknown =
            |fact: &Fact| fact.kind == FactKind::Program && fact.values.contains(&None);
        let differs = self
            .facts
            .iter()
            .any(|fact| fact.differs() && !is_unknown(fact));
        (differs || !self.facts.iter().any(is_unknown)).then_some(!differs)
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

impl Comparison {
    /// All that differs but programs.
    pub(super) fn differences(&self) -> Vec<Difference> {
        let facts = self
            .facts
            .iter()
            .filter(|fact| fact.kind != FactKind::Program && fact.differs());
        let difference = |fact: &Fact| Difference {
            name: fact.name.clone(),
            values: fact.values.clone(),
            is_finding: fact.kind == FactKind::Finding,
        };
        facts.map(difference).collect()
    }
}

/// The place of a library among all, in the order in which they are decided; that of other facts is one.
fn place(fact: &Fact) -> Option<usize> {
    let families = &catalog().families;
    let is_it = |one: &Family| fact.kind == FactKind::Library && family(&one.name) == fact.name;
    families.iter().position(is_it)
}

impl Fact {
    fn differs(&self) -> bool {
        self.values[0] != self.values[1]
    }
}

/// `cuDNN 9.1.0, cuBLAS 12.4.5.8; mode audit`
fn gets(program: &ExaminedProgram) -> String {
    match program.faults.last().filter(|_| program.is_refused) {
        Some(why) => format!("would not be started: {why}"),
        None if program.uses.is_empty() => "nothing to pick".to_owned(),
        None => format!("{}; mode {}", program.uses.join(", "), program.mode),
    }
}

/// `described` is the file of the first side, if it is a description.
pub fn comparison(comparison: &Comparison, described: Option<&Path>, style: Style<'_>) -> String {
    let Comparison { sides, facts } = comparison;
    let [a, b] = sides;
    let mut names: Vec<String> = facts
        .iter()
        .filter(|fact| fact.differs())
        .map(|fact| fact.name.clone())
        .collect();
    if names.len() > 5 {
        names = names[..4]
            .iter()
            .cloned()
            .chain([format!("{} more", names.len() - 4)])
            .collect();
    }
    let verdict = match comparison.is_same() {
        Some(true) => style.good(&format!("{a} and {b} do not differ for GPU programs")),
        Some(false) => style.warning(&format!("{a} and {b} differ: {}", list(&names))),
        None => style.warning(&format!(
            "only one of {a} and {b} has the program; nothing else differs"
        )),
    };
    let mut table = vec![vec![String::new(), style.strong(a), style.strong(b)]];
    let (mut findings, mut programs, mut next) =
        (String::new(), String::new(), "doctor".to_owned());
    for (index, fact) in facts.iter().enumerate() {
        let none = if fact.kind == FactKind::Program {
            "does not hold this program"
        } else {
            "none"
        };
        let values = fact
            .values
            .each_ref()
            .map(|value| value.clone().unwrap_or_else(|| none.to_owned()));
        let only = fact
            .values
            .iter()
            .position(Option::is_none)
            .map(|lacks| 1 - lacks);
        match (fact.kind, only) {
            (FactKind::Program, _) => {
                let rows = [0, 1].map(|side| vec![sides[side].clone(), values[side].clone()]);
                programs.push_str(&format!(
                    "\n{}\n{}",
                    style.strong(&fact.name),
                    style.columns("  ", &rows)
                ));
                next = format!("explain {}", fact.name);
            }
            _ if index >= SHOWN => {}
            (FactKind::Finding, Some(side)) => {
                findings.push_str(&format!(
                    "  only {}: {} [{}]\n",
                    sides[side], values[side], fact.name
                ));
            }
            _ => table.push([&[fact.name.clone()][..], &values].concat()),
        }
    }
    let hidden = facts
        .iter()
        .skip(SHOWN)
        .filter(|fact| fact.kind != FactKind::Program)
        .count();
    if hidden > 0 {
        findings.push_str(&format!(
            "  {}: `--json` shows all\n",
            counted(hidden, "more difference")
        ));
    }
    let table = if table.len() > 1 {
        style.columns("  ", &table)
    } else {
        String::new()
    };
    let gap = if table.is_empty() && findings.is_empty() {
        ""
    } else {
        "\n"
    };
    let file = described
        .map(|file| format!("--machine {} ", argument(file.as_os_str())))
        .unwrap_or_default();
    let next = style.next(&format!("cudarun {file}{next}"));
    style.page(&format!(
        "{verdict}\n{gap}{table}{findings}{programs}{next}"
    ))
}
