//! The texts by which `diagnose` finds the lines that a regex can match. The build script includes this file: reading the
//! syntax of all regexes takes longer than the rest of an answer.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, HirKind};

use super::error_rows::{Clues, Errors};

/// The shortest literal that a line is searched for.
const SHORTEST: usize = 4;
/// The same for a clue, of which few lines are asked.
const SHORTEST_OF_CLUE: usize = 3;
/// Beginnings of one regex, of which one is searched for.
const MOST: usize = 64;

/// Returns the literals of each regex of each row.
pub(super) fn of_rows(errors: &Errors) -> Result<Vec<Vec<Vec<String>>>, String> {
    errors
        .error
        .iter()
        .map(|row| {
            let literals = row.regex.iter().map(|source| {
                let literals = of_regex(source, SHORTEST)?;
                if literals.is_empty() {
                    return Err(format!("no literal of four characters or more: {source}"));
                }
                Ok(literals)
            });
            literals.collect()
        })
        .collect()
}

/// The same of each clue; none for a regex whose matches have no useful text in common.
pub(super) fn of_clues(clues: &Clues) -> Result<Vec<Vec<Vec<String>>>, String> {
    clues
        .clue
        .iter()
        .map(|clue| {
            let sources = clue.regex.iter();
            sources
                .map(|source| of_regex(source, SHORTEST_OF_CLUE))
                .collect()
        })
        .collect()
}

fn of_regex(source: &str, least: usize) -> Result<Vec<String>, String> {
    let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
    // Lines are searched for literals in any case.
    let source = source.replace("(?i)", "").replace("(?i:", "(?:");
    let syntax = parser.parse(&source).map_err(|error| error.to_string())?;
    // A message may go on in the next lines.
    let literals = of_syntax(&syntax, source.contains(r"\s"), least).unwrap_or_default();
    let texts: Result<Vec<String>, _> = literals.into_iter().map(String::from_utf8).collect();
    texts.map_err(|error| error.to_string())
}

/// Texts of a useful length, one of which is in every match; none if there are none. The longest ones are the best, but a
/// message that goes on begins with the first ones.
fn of_syntax(syntax: &Hir, goes_on: bool, least: usize) -> Option<Vec<Vec<u8>>> {
    let found = match syntax.kind() {
        HirKind::Capture(group) => of_syntax(&group.sub, goes_on, least)?,
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            of_syntax(&repetition.sub, goes_on, least)?
        }
        HirKind::Alternation(branches) => {
            let mut all = Vec::new();
            for branch in branches {
                all.extend(of_syntax(branch, goes_on, least)?);
            }
            all
        }
        HirKind::Concat(parts) => {
            let mut best: Option<Vec<Vec<u8>>> = None;
            for start in 0..parts.len() {
                let own = of_syntax(&parts[start], goes_on, least);
                let joined = prefixes(&Hir::concat(parts[start..].to_vec()));
                for all in own.into_iter().chain(joined) {
                    if best
                        .as_ref()
                        .is_none_or(|best| shortest(&all) >= shortest(best))
                    {
                        best = Some(all);
                    }
                }
                if goes_on && best.as_ref().is_some_and(|best| shortest(best) >= least) {
                    break;
                }
            }
            best?
        }
        _ => prefixes(syntax)?,
    };
    (shortest(&found) >= least).then_some(found)
}

/// The length of the shortest literal.
fn shortest(literals: &[Vec<u8>]) -> usize {
    literals.iter().map(Vec::len).min().unwrap_or_default()
}

/// Every text that a match can begin with, over neighbouring parts. A line ends it.
fn prefixes(syntax: &Hir) -> Option<Vec<Vec<u8>>> {
    let found = Extractor::new().limit_total(MOST).extract(syntax);
    let mut prefixes = Vec::new();
    for literal in found.literals()? {
        let mut lines = literal.as_bytes().split(u8::is_ascii_control);
        prefixes.push(lines.next().unwrap_or_default().to_vec());
    }
    Some(prefixes)
}
