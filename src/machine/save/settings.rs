//! Files with settings, as a description keeps them.

use toml::de::{DeTable, DeValue};

use super::names;
use crate::settings::keys::{KEYS, TOP};
use crate::text::quoted;

/// Replaces a file that is no TOML, and is no TOML either.
const NO_TOML: &str = "no TOML\n";

/// Rewrites a file with settings, or a lock: each value in its line if there is room. Hides values that cudarun does not
/// read, such as those of variables.
pub(super) fn settings(bytes: &[u8]) -> String {
    let Some(table) = std::str::from_utf8(bytes).ok().and_then(|text| {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Some((text, DeTable::parse(text).ok()?.into_inner()))
    }) else {
        return NO_TOML.to_owned();
    };
    let (text, table) = table;
    let mut lines: Vec<(usize, String)> = Vec::new();
    flat(&table, &mut Vec::new(), &mut |at, line| {
        lines.push((1 + text[..at].matches('\n').count(), line));
    });
    lines.sort_by_key(|(line, _)| *line);
    let mut out = String::new();
    let mut at = 1;
    for (line, text) in lines {
        while at < line {
            out.push('\n');
            at += 1;
        }
        out.push_str(&text);
        out.push('\n');
        at += 1;
    }
    out
}

/// Passes each value with its whole key, and its offset, to `add`.
fn flat<'t>(table: &'t DeTable<'_>, above: &mut Vec<&'t str>, add: &mut dyn FnMut(usize, String)) {
    for (key, value) in table {
        above.push(key.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) if !inner.is_empty() && is_known(above) => {
                flat(inner, above, add);
            }
            inner => {
                let path: Vec<String> = above.iter().map(|part| quoted(part)).collect();
                let is_shown = is_known(above)
                    && !above
                        .iter()
                        .any(|part| *part == "env" || names::is_secret(part));
                // Errors give the position of an unknown key, and that of a bad value.
                let at = if is_known(above) {
                    value.span().start
                } else {
                    key.span().start
                };
                add(
                    at,
                    format!("{} = {}", path.join("."), written(inner, is_shown)),
                );
            }
        }
        above.pop();
    }
}

/// True for a key of settings or of locks.
fn is_known(path: &[&str]) -> bool {
    const OF_LOCKS: [&str; 4] = ["format", "driver", "family", "gpus"];
    let is_of_settings = |key: &&str| KEYS.iter().any(|row| [row.table, row.name].contains(key));
    let of_others: Vec<&str> = [&TOP[..], &OF_LOCKS].concat();
    match path {
        ["program", _, key, ..] | [key, ..] => is_of_settings(key) || of_others.contains(key),
        [] => true,
    }
}

fn written(value: &DeValue<'_>, is_shown: bool) -> String {
    match value {
        DeValue::String(text) if is_shown => quoted(text),
        DeValue::String(text) if text.is_empty() => "\"\"".to_owned(),
        DeValue::String(_) => "\"…\"".to_owned(),
        DeValue::Boolean(flag) => (*flag || !is_shown).to_string(),
        DeValue::Integer(number) if is_shown && number.radix() == 10 => number.as_str().to_owned(),
        DeValue::Float(number) if is_shown => number.as_str().to_owned(),
        DeValue::Integer(_) => "0".to_owned(),
        DeValue::Float(_) => "0.0".to_owned(),
        DeValue::Datetime(_) => "1970-01-01".to_owned(),
        DeValue::Array(items) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| written(item.get_ref(), is_shown))
                .collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(table) => {
            let entries = table.iter().map(|(key, value)| {
                let key = key.get_ref();
                let is_shown = is_shown && key != "env" && !names::is_secret(key);
                format!("{} = {}", quoted(key), written(value.get_ref(), is_shown))
            });
            let entries: Vec<String> = entries.collect();
            if entries.is_empty() {
                "{}".to_owned()
            } else {
                format!("{{ {} }}", entries.join(", "))
            }
        }
    }
}
