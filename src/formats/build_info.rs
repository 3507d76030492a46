//! Records that builds of frameworks leave in Python source and C headers: assigned values, pairs, macros, and the GPUs
//! that a compiler made code for.

use std::collections::BTreeSet;

use super::fatbin::{Architecture, CodeKind};

/// No file with such a record is larger. The bound keeps a hostile file from costing seconds.
const TEXT_LIMIT: usize = 4 << 20;

/// The text of `name = 'text'` or `name: type = 'text'`, without its quotes.
pub fn assignment(source: &[u8], name: &str) -> Option<String> {
    assigned_values(source, name).find_map(quoted)
}

/// The value of `name = value` as it is written, without a comment. A text is put in single quotes.
pub fn raw_assignment(source: &[u8], name: &str) -> Option<String> {
    let value = assigned_values(source, name).next()?;
    Some(match quoted(value) {
        Some(text) => format!("'{text}'"),
        None => value.split('#').next()?.trim().to_owned(),
    })
}

/// The values of `('name', 'text')`, `('name', True)` or `('name', ['a', 'b'])`, without quotes.
pub fn pair(source: &[u8], name: &str) -> Option<Vec<String>> {
    let keys = [format!("'{name}'"), format!("\"{name}\"")];
    for line in lines(source) {
        for key in &keys {
            let Some((_, rest)) = line.split_once(key.as_str()) else {
                continue;
            };
            if let Some(value) = rest.trim_start().strip_prefix([',', ':']) {
                return Some(pair_values(value.trim_start()));
            }
        }
    }
    None
}

fn pair_values(value: &str) -> Vec<String> {
    let inside = match value.strip_prefix('[') {
        Some(list) => list.split(']').next(),
        None => value.split([',', ')', '}']).next(),
    };
    let mut values = Vec::new();
    for item in inside.unwrap_or_default().split(',') {
        let item = item.trim().trim_matches(['\'', '"']);
        if !item.is_empty() {
            values.push(item.to_owned());
        }
    }
    values
}

/// The value of `#define NAME value`, without quotes.
pub fn define(header: &[u8], name: &str) -> Option<String> {
    lines(header).find_map(|line| {
        let rest = line
            .trim_start()
            .strip_prefix('#')?
            .trim_start()
            .strip_prefix("define")?;
        let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
        let value = rest.strip_prefix(name)?.strip_prefix([' ', '\t'])?.trim();
        quoted(value).or_else(|| value.split_whitespace().next().map(str::to_owned))
    })
}

/// The digits right after `word` as a version whose major has `major` digits. Word and digits must not be part of a
/// longer word. `2.5.1+cu124` with `cu` and 2 gives `12.4`, `0.4.23+cuda12.cudnn89` with `cudnn` and 1 gives `8.9`.
pub fn digits_after(text: &str, word: &str, major: usize) -> Option<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .find_map(|part| {
            let rest = part.strip_prefix(word)?;
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            let (digits, tail) = rest.split_at(end);
            // `cupy-cuda12x` is built for every minor.
            if !matches!(tail, "" | "x") || digits.len() > 6 {
                return None;
            }
            let (first, second) = digits.split_at_checked(major)?;
            match (first, second) {
                ("", _) => None,
                (_, "") => Some(first.to_owned()),
                _ => Some(format!("{first}.{second}")),
            }
        })
}

/// The GPUs of a compiler's flags, `arch=compute_80,code=sm_80` or `code=[compute_90,sm_90]`.
pub fn gencode(flags: &str) -> BTreeSet<Architecture> {
    let mut architectures = BTreeSet::new();
    for rest in flags.split("code=").skip(1) {
        let end = rest.find([';', ' ', '"', ']', '-']).unwrap_or(rest.len());
        for name in rest[..end].trim_start_matches('[').split(',') {
            architectures.extend(name.trim().parse::<Architecture>());
        }
    }
    architectures
}

/// The GPUs of TensorFlow's list, in which `compute_90` means machine code and PTX.
pub fn capabilities(names: &[String]) -> BTreeSet<Architecture> {
    let mut architectures = BTreeSet::new();
    for name in names {
        let Ok(architecture) = name.parse() else {
            continue;
        };
        architectures.insert(architecture);
        architectures.insert(Architecture {
            kind: CodeKind::Sass,
            ..architecture
        });
    }
    architectures
}

/// The right sides of `name = value` and `name: type = value`.
fn assigned_values<'s>(source: &'s [u8], name: &str) -> impl Iterator<Item = &'s str> {
    lines(source).filter_map(move |line| {
        let rest = line.strip_prefix(name)?.trim_start();
        let value = match rest.strip_prefix(':') {
            Some(typed) => typed.split_once('=')?.1,
            None => rest.strip_prefix('=')?,
        };
        Some(value.trim())
    })
}

/// The content of the quotes at the start of a text.
fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next()?;
    if !matches!(quote, '\'' | '"') {
        return None;
    }
    let (inside, _) = text[1..].split_once(quote)?;
    Some(inside.to_owned())
}

/// The lines that are UTF-8. A damaged line does not hide the others.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &str> {
    let bytes = &bytes[..bytes.len().min(TEXT_LIMIT)];
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| std::str::from_utf8(line).ok())
}
