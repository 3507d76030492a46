//! A conflict: the requirements, every candidate with its reason, one hint.

use std::collections::BTreeSet;

use super::Style;
use super::asked;
use super::refused::{Fault, Group};
use super::words;
use crate::catalog::{display_name, title};
use crate::program::{Before, Program, Requirement, Want};
use crate::solve::{Conflict, Contradiction, Unmet};
use crate::text::list;

/// The faults, those of single families first.
pub(super) fn unmet(conflict: &Conflict, program: &Program, style: Style) -> Vec<Fault> {
    let mut faults: Vec<Fault> = conflict
        .unmet
        .iter()
        .map(|unmet| of_family(unmet, program, style))
        .collect();
    for one in distinct(&conflict.contradictions) {
        faults.extend(asked::contradiction(one, style));
    }
    for broken in &conflict.broken {
        faults.push(asked::broken(broken, style));
    }
    faults
}

/// The contradictions without those that share a demand with an earlier one.
fn distinct(contradictions: &[Contradiction]) -> impl Iterator<Item = &Contradiction> {
    let demand = |one: &Contradiction| one.members.iter().find_map(|member| member.demand.clone());
    contradictions
        .iter()
        .enumerate()
        .filter_map(move |(index, one)| {
            let is_known = demand(one).is_some_and(|own| {
                contradictions[..index]
                    .iter()
                    .any(|other| demand(other).as_ref() == Some(&own))
            });
            (!is_known).then_some(one)
        })
}

fn of_family(unmet: &Unmet, program: &Program, style: Style) -> Fault {
    let askers: BTreeSet<String> = unmet
        .requirements
        .iter()
        .map(|requirement| title(&requirement.by.name))
        .collect();
    let askers: Vec<String> = askers
        .into_iter()
        .map(|asker| format!("`{asker}`"))
        .collect();
    let family = display_name(&unmet.family);
    let fits = if askers.is_empty() {
        "fits".to_owned()
    } else {
        format!("fits {}", list(&askers))
    };
    let mut rows = Vec::new();
    for (index, candidate) in unmet.candidates.iter().enumerate() {
        let label = if index == 0 { "found" } else { "" };
        let version = words::version(candidate.installation.version.as_ref());
        let directory = words::place(&candidate.installation.directory, Some(program));
        rows.push(vec![
            label.to_owned(),
            version,
            directory,
            candidate.reason.to_string(),
        ]);
    }
    if unmet.candidates.is_empty() {
        rows.push(vec!["found".to_owned(), "none".to_owned()]);
    }
    let mut forced_lines = Vec::new();
    for forced in &unmet.forced {
        let rule = |rule: &Before| match rule {
            Before::Rpath => "its DT_RPATH".to_owned(),
            Before::AbsolutePath => "an absolute path".to_owned(),
        };
        let rules: Vec<String> = forced.rules.iter().map(rule).collect();
        let by: Vec<String> = forced
            .by
            .iter()
            .map(|by| format!("`{}`", title(by)))
            .collect();
        forced_lines.push(vec![format!(
            "LD_LIBRARY_PATH alone cannot help: {} {} the one in {} first ({})",
            list(&by),
            if by.len() > 1 { "find" } else { "finds" },
            words::place(&forced.installation.directory, Some(program)),
            list(&rules),
        )]);
    }
    Fault {
        title: format!("{} no {family} here {fits}", style.error("error:")),
        groups: vec![
            Group::new(needs(&unmet.requirements)),
            Group::new(rows),
            Group::new(forced_lines),
        ],
    }
}

/// A row for each requester: those with versions first, since they decide.
fn needs(requirements: &[Requirement]) -> Vec<Vec<String>> {
    let mut of_askers = words::grouped(requirements.iter().map(|one| (&one.by.name, one)));
    let is_name = |one: &&Requirement| matches!(one.want, Want::Name(_) | Want::Symbols(_));
    of_askers.sort_by_key(|(_, asked)| asked.iter().all(is_name));
    let row = |(_, asked): (&String, Vec<&Requirement>)| {
        vec![
            words::wants(asked.iter().map(|one| &one.want)),
            asked[0].by.with_place(),
        ]
    };
    let mut rows: Vec<Vec<String>> = of_askers
        .into_iter()
        .map(row)
        .filter(|row| !row[0].is_empty())
        .collect();
    for (index, row) in rows.iter_mut().enumerate() {
        row.insert(0, if index == 0 { "needs" } else { "" }.to_owned());
    }
    rows
}
