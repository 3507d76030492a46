//! A "no": what was needed and by whom, every candidate with its reason, one hint.

use std::collections::BTreeSet;

use super::Style;
use super::asked;
use super::style::columns;
use super::words;
use crate::program::{Before, Program, Requirement, Want};
use crate::solve::{Conflict, Contradiction, Unmet};

/// The whole search.
pub(super) fn unmet(conflict: &Conflict, program: &Program, style: Style) -> String {
    let mut text: String = conflict.unmet.iter().map(|unmet| of_family(unmet, program, style)).collect();
    text.extend(telling(&conflict.contradictions).map(|it| asked::contradiction(it, style)));
    text.extend(conflict.broken.iter().map(|broken| asked::broken(broken, style)));
    text
}

/// Of those that one and the same demand takes part in the first says it all.
fn telling(contradictions: &[Contradiction]) -> impl Iterator<Item = &Contradiction> {
    let demand = |it: &Contradiction| it.members.iter().find_map(|member| member.demand.clone());
    contradictions.iter().enumerate().filter_map(move |(index, it)| {
        let is_known = demand(it)
            .is_some_and(|own| contradictions[..index].iter().any(|one| demand(one).as_ref() == Some(&own)));
        (!is_known).then_some(it)
    })
}

fn of_family(unmet: &Unmet, program: &Program, style: Style) -> String {
    let askers: BTreeSet<String> =
        unmet.requirements.iter().map(|requirement| words::title(&requirement.by.name)).collect();
    let askers: Vec<String> = askers.into_iter().map(|asker| format!("`{asker}`")).collect();
    let family = words::family(&unmet.family);
    let fits = if askers.is_empty() { "fits".to_owned() } else { format!("fits {}", words::list(&askers)) };
    let mut text = format!("{} no {family} here {fits}\n", style.error("error:"));
    let mut rows = Vec::new();
    let needs = words::needs(&unmet.requirements);
    if !needs.is_empty() {
        rows.push(vec!["needs".to_owned(), needs, sources(&unmet.requirements)]);
        text.push_str(&columns("  ", &rows));
    }
    let mut rows = Vec::new();
    for (index, candidate) in unmet.candidates.iter().enumerate() {
        let label = if index == 0 { "found" } else { "" };
        let version = words::version(candidate.installation.version.as_ref());
        let directory = words::place(&candidate.installation.directory, Some(program));
        rows.push(vec![label.to_owned(), version, directory, words::reason(&candidate.reason)]);
    }
    if unmet.candidates.is_empty() {
        rows.push(vec!["found".to_owned(), "none".to_owned()]);
    }
    text.push_str(&columns("  ", &rows));
    for forced in &unmet.forced {
        let rules: Vec<String> = forced.rules.iter().map(|rule| self::rule(*rule).to_owned()).collect();
        let by: Vec<String> = forced.by.iter().map(|by| format!("`{}`", words::title(by))).collect();
        text.push_str(&format!(
            "  LD_LIBRARY_PATH cannot help: {} {} the one in {} before the loader looks there ({})\n",
            words::list(&by),
            if by.len() > 1 { "take" } else { "takes" },
            words::place(&forced.installation.directory, Some(program)),
            words::list(&rules),
        ));
    }
    text
}

fn rule(rule: Before) -> &'static str {
    match rule {
        Before::Rpath => "its DT_RPATH",
        Before::AbsolutePath => "its own opening of absolute paths",
    }
}

/// The files that say so: those with versions first, since they decide.
fn sources(requirements: &[Requirement]) -> String {
    let decides = |requirement: &&Requirement| {
        matches!(requirement.want, Want::AtLeast(_) | Want::Exactly(_) | Want::Rest(_) | Want::Within(_))
    };
    let deciding = requirements.iter().filter(decides);
    let naming = requirements.iter().filter(|requirement| matches!(requirement.want, Want::Name(_)));
    let mut sources: Vec<String> = Vec::new();
    for requirement in deciding.chain(naming) {
        let source = words::written_in(&requirement.by);
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    sources.truncate(2);
    sources.join(", ")
}
