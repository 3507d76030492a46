//! The texts by which `diagnose` finds the lines that a regex can match. The build script includes this file: reading the
//! syntax of all regexes takes longer than the rest of an answer.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, HirKind};

use super::error_rows::Errors;

/// The shortest literal that a line is searched for.
const SHORTEST: usize = 4;
/// Beginnings of one regex, of which one is searched for.
const MOST: usize = 64;

/// Returns the literals of each regex of each row.
pub(super) fn of_rows(errors: &Errors) -> Result<Vec<Vec<Vec<String>>>, String> {
    errors
        .error
        .iter()
        .map(|row| row.regex.iter().map(|source| of_regex(source)).collect())
        .collect()
}

fn of_regex(source: &str) -> Result<Vec<String>, String> {
    let syntax = ParserBuilder::new()
        .unicode(false)
        .utf8(false)
        .build()
        .parse(source);
    let syntax = syntax.map_err(|error| error.to_string())?;
    // A message may go on in the next lines.
    let found = of_syntax(&syntax, source.contains(r"\s"));
    let found = found.and_then(|all| {
        all.into_iter()
            .map(|one| String::from_utf8(one).ok())
            .collect()
    });
    found.ok_or_else(|| format!("no literal of four characters or more: {source}"))
}

/// Texts of a useful length, one of which is in every match; none if there are none. The longest ones are the best, but a
/// message that goes on begins with the first ones.
fn of_syntax(syntax: &Hir, goes_on: bool) -> Option<Vec<Vec<u8>>> {
    let shortest = |literals: &Vec<Vec<u8>>| literals.iter().map(Vec::len).min().unwrap_or(0);
    let of = |syntax| of_syntax(syntax, goes_on);
    let found = match syntax.kind() {
        HirKind::Capture(group) => of(&group.sub)?,
        HirKind::Repetition(repetition) if repetition.min > 0 => of(&repetition.sub)?,
        HirKind::Alternation(branches) => branches
            .iter()
            .map(of)
            .collect::<Option<Vec<_>>>()?
            .concat(),
        HirKind::Concat(parts) => {
            let from = |at: usize| {
                let own = of(&parts[at]);
                let joined = prefixes(&Hir::concat(parts[at..].to_vec()));
                own.into_iter()
                    .chain(joined)
                    .max_by_key(shortest)
                    .filter(|all| shortest(all) >= SHORTEST)
            };
            let mut all = (0..parts.len()).filter_map(from);
            if goes_on {
                all.next()?
            } else {
                all.max_by_key(shortest)?
            }
        }
        _ => prefixes(syntax)?,
    };
    (shortest(&found) >= SHORTEST).then_some(found)
}

/// Every text that a match can begin with, over neighbouring parts. A line ends it.
fn prefixes(syntax: &Hir) -> Option<Vec<Vec<u8>>> {
    let found = Extractor::new().limit_total(MOST).extract(syntax);
    let in_line = |text: &[u8]| {
        text.split(u8::is_ascii_control)
            .next()
            .unwrap_or_default()
            .to_vec()
    };
    Some(
        found
            .literals()?
            .iter()
            .map(|literal| in_line(literal.as_bytes()))
            .collect(),
    )
}
