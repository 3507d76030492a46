//! Records that builds of frameworks leave in Python source and C headers: assigned values, pairs, macros, and the GPUs
//! that a compiler made code for.

use std::collections::BTreeSet;

use super::fatbin::{Architecture, CodeKind};

/// No file with such a record is larger. The bound keeps a hostile file from costing seconds.
const TEXT_LIMIT: usize = 4 << 20;

/// Returns the text of `name = 'text'` or `name: type = 'text'`, without its quotes.
pub fn assignment(source: &[u8], name: &str) -> Option<String> {
    assigned(source, name, quoted)
}

/// Returns the value of `name = value` as it is written, without a comment. A text is put in single quotes.
pub fn raw_assignment(source: &[u8], name: &str) -> Option<String> {
    let text = |value: &str| quoted(value).map(|inside| format!("'{inside}'"));
    assigned(source, name, |value| {
        text(value).or_else(|| Some(value.split('#').next()?.trim().to_owned()))
    })
}

/// Returns the values of `('name', 'text')`, `('name', True)` or `('name', ['a', 'b'])`, without quotes.
pub fn pair(source: &[u8], name: &str) -> Option<Vec<String>> {
    lines(source).find_map(|line| {
        let value = [format!("'{name}'"), format!("\"{name}\"")]
            .iter()
            .find_map(|key| {
                let after = line.split_once(key.as_str())?.1.trim_start();
                after
                    .strip_prefix(',')
                    .or_else(|| after.strip_prefix(':'))
                    .map(str::trim_start)
            })?;
        let inside = match value.strip_prefix('[') {
            Some(list) => list.split(']').next()?,
            None => value.split([',', ')', '}']).next()?,
        };
        let plain = |item: &str| item.trim().trim_matches(['\'', '"']).to_owned();
        Some(
            inside
                .split(',')
                .map(plain)
                .filter(|item| !item.is_empty())
                .collect(),
        )
    })
}

/// Returns the value of `#define NAME value`, without quotes.
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

/// Returns the digits right after `word` as a version whose major has `major` digits. Word and digits must not be part of a
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
            let (first, second) = digits
                .split_at_checked(major)
                .filter(|(first, _)| !first.is_empty())?;
            Some(if second.is_empty() {
                first.to_owned()
            } else {
                format!("{first}.{second}")
            })
        })
}

/// Returns the GPUs of a compiler's flags, `arch=compute_80,code=sm_80` or `code=[compute_90,sm_90]`.
pub fn gencode(flags: &str) -> BTreeSet<Architecture> {
    let code = flags.split("code=").skip(1).flat_map(|rest| {
        let end = rest.find([';', ' ', '"', ']', '-']).unwrap_or(rest.len());
        rest[..end].trim_start_matches('[').split(',')
    });
    code.filter_map(|name| name.trim().parse().ok()).collect()
}

/// Returns the GPUs of TensorFlow's list, in which `compute_90` means machine code and PTX.
pub fn capabilities(names: &[String]) -> BTreeSet<Architecture> {
    let mut found: BTreeSet<Architecture> =
        names.iter().filter_map(|name| name.parse().ok()).collect();
    let with_ptx: Vec<Architecture> = found
        .iter()
        .filter(|entry| entry.kind == CodeKind::Ptx)
        .copied()
        .collect();
    found.extend(with_ptx.into_iter().map(|entry| Architecture {
        kind: CodeKind::Sass,
        ..entry
    }));
    found
}

fn assigned(source: &[u8], name: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    lines(source).find_map(|line| {
        let rest = line.strip_prefix(name)?.trim_start();
        let right = match rest.strip_prefix(':') {
            Some(typed) => typed.split_once('=')?.1,
            None => rest.strip_prefix('=')?,
        };
        value(right.trim())
    })
}

/// Returns the content of the quotes at the start of a text.
fn quoted(text: &str) -> Option<String> {
    let quote = text
        .chars()
        .next()
        .filter(|quote| matches!(quote, '\'' | '"'))?;
    text[1..]
        .split_once(quote)
        .map(|(inside, _)| inside.to_owned())
}

/// Returns the lines that are UTF-8. A damaged line does not hide the others.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &str> {
    let bytes = &bytes[..bytes.len().min(TEXT_LIMIT)];
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| std::str::from_utf8(line).ok())
}
