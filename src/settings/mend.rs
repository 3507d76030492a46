//! Corrections of one line of a file that is not right. Each is only a guess: `read` offers the first that makes the
//! line right.

use super::model::{FaultKind, SettingFault, SettingPlace, Vocabulary};
use crate::text::nearest;

/// Typographic characters of word processors, and the ASCII that was meant.
const TYPOGRAPHIC: &[(char, &str)] = &[
    ('“', "\""),
    ('”', "\""),
    ('„', "\""),
    ('‘', "'"),
    ('’', "'"),
    ('\u{a0}', " "),
    ('≥', ">="),
    ('≤', "<="),
];
const ENDS: &[&str] = &["", "\"", "'", "]", "}"];
/// Words for a yes and for a no, and for any version.
const YES: &[&str] = &["true", "yes", "on", "1"];
const NO: &[&str] = &["false", "no", "off", "0"];
const ANY: &[&str] = &["", "any", "latest", "newest", "all", "true"];
const OPERATORS: &[char] = &['<', '>', '=', '!', '~', '^'];
/// Larger files, in bytes, are not corrected: each guess is parsed with the whole file.
const FILE: usize = 64 << 10;
/// Longer lines are not corrected.
const LIMIT: usize = 200;

/// Adds the first guess at the line at fault that is right. `wrong` parses a text, and returns the places that are wrong.
pub(super) fn correct(
    fault: &mut SettingFault,
    text: &str,
    words: &Vocabulary,
    wrong: &dyn Fn(&str) -> Vec<SettingPlace>,
) {
    let SettingPlace::File {
        line: Some(line), ..
    } = fault.place
    else {
        return;
    };
    let Some(excerpt) = fault.excerpt.as_mut().filter(|_| text.len() <= FILE) else {
        return;
    };
    let start = text
        .split_inclusive('\n')
        .take(line - 1)
        .map(str::len)
        .sum::<usize>();
    let (before, after) = (&text[..start], &text[start + excerpt.text.len()..]);
    let is_right = |guess: &String| {
        let wrong = wrong(&format!("{before}{guess}{after}"));
        *guess != excerpt.text && !wrong.contains(&fault.place)
    };
    excerpt.corrected = lines(&excerpt.text, &fault.wrong, words)
        .into_iter()
        .find(is_right);
}

/// Returns corrected lines, the likeliest first.
fn lines(line: &str, wrong: &FaultKind, words: &Vocabulary) -> Vec<String> {
    if line.len() > LIMIT {
        return Vec::new();
    }
    let line = TYPOGRAPHIC
        .iter()
        .fold(line.to_owned(), |line, (from, to)| line.replace(*from, to));
    let line = line
        .strip_prefix("//")
        .map_or(line.clone(), |rest| format!("#{rest}"));
    let (content, comment) = line.split_at(comment(&line));
    let blank = &content[content.trim_end().len()..];
    let content = content.trim_end().trim_end_matches([';', ',']);
    let whole = |end: &&str| format!("{content}{end}{blank}{comment}");
    let start = content.len() - content.trim_start().len();
    let (indent, rest) = content.split_at(start);
    let at = rest
        .find(|c: char| c.is_whitespace() || c == ':' || OPERATORS.contains(&c))
        .unwrap_or(rest.len());
    let (key, value) = rest.split_at(at);
    let key = key.trim_matches(['"', '\'']);
    let value = value.trim_start();
    let value = match value.strip_prefix("=>") {
        Some(rest) => format!(">={rest}"),
        None => value.trim_start_matches([':', '=']).trim().to_owned(),
    };
    let values = values(key, &value, wrong, words).into_iter();
    let values = values.map(|value| format!("{indent}{key} = {value}{blank}{comment}"));
    let lines = ENDS
        .iter()
        .map(whole)
        .chain(values.filter(|_| !key.is_empty() && !value.is_empty()));
    // Three quotes begin a string of many lines.
    lines.filter(|line| !line.contains("\"\"\"")).collect()
}

/// Returns the start of the comment, or the end of the line.
fn comment(line: &str) -> usize {
    let starts = line.match_indices('#').map(|(at, _)| at);
    let is_outside = |at: &usize| line[..*at].matches(['"', '\'']).count().is_multiple_of(2);
    starts.into_iter().find(is_outside).unwrap_or(line.len())
}

fn values(key: &str, value: &str, wrong: &FaultKind, words: &Vocabulary) -> Vec<String> {
    let bare = value.trim_matches(['"', '\'']);
    let items = bare.trim_matches(['[', ']', '{', '}']).split(',');
    let items: Vec<&str> = items
        .map(|item| item.trim().trim_matches(['"', '\'']))
        .collect();
    let quoted = |text: &str| (!text.contains(['"', '\\'])).then(|| format!("\"{text}\""));
    let mut found = Vec::new();
    if key == "gpu" {
        let capability =
            capability(bare).or_else(|| (words.capability)(bare).map(|found| found.to_string()));
        found.extend(capability.map(|capability| format!("\">={capability}\"")));
    }
    if let FaultKind::NotOneOf { text, known, .. } = wrong {
        let near = nearest(&text.to_lowercase(), known.iter().map(String::as_str));
        found.extend(near.map(|near| value.replacen(text.as_str(), near, 1)));
    }
    found.extend(quoted(bare));
    found.extend(quoted(&range(bare)));
    found.extend(quoted(&items.join(",")));
    if ANY.contains(&bare.to_lowercase().as_str()) {
        found.push("\"*\"".to_owned());
    }
    let list: Option<Vec<String>> = items.iter().map(|item| quoted(item)).collect();
    found.extend(list.map(|list| format!("[{}]", list.join(", "))));
    let pair = |item: &&str| {
        let (name, range) = item.split_at(item.find(OPERATORS)?);
        Some(format!("{} = {}", name.trim(), quoted(range)?))
    };
    let pairs: Option<Vec<String>> = items.iter().map(pair).collect();
    found.extend(pairs.map(|pairs| format!("{{ {} }}", pairs.join(", "))));
    for (flags, flag) in [(YES, "true"), (NO, "false")] {
        found.extend(
            flags
                .contains(&bare.to_lowercase().as_str())
                .then(|| flag.to_owned()),
        );
    }
    found
}

/// `sm_90`, `compute_86`, `90` or `9.0a` as a compute capability.
fn capability(text: &str) -> Option<String> {
    let text = ["sm_", "compute_", "sm"]
        .iter()
        .find_map(|start| text.strip_prefix(start))
        .unwrap_or(text);
    let text = text.trim_end_matches(['a', 'f']);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.split_once('.') {
        Some((major, minor)) => (is_number(major) && is_number(minor)).then(|| text.to_owned()),
        None if is_number(text) && matches!(text.len(), 2 | 3) => {
            let (major, minor) = text.split_at(text.len() - 1);
            Some(format!("{major}.{minor}"))
        }
        None => None,
    }
}

/// Rewrites ranges of other tools: `>= 9.1 <10`, `9.x`, `9.1+`, `cu124`, `cudnn>=9`.
fn range(text: &str) -> String {
    if let Some((major, minor)) = text.split_once(',')
        && [major, minor]
            .iter()
            .all(|number| number.parse::<u32>().is_ok())
    {
        return format!("{major}.{minor}");
    }
    let text = text
        .replace("=>", ">=")
        .replace("=<", "<=")
        .replace(".x", ".*")
        .replace(".X", ".*");
    let bare = text.trim_start_matches(|c: char| c.is_ascii_alphabetic() || "_-@: ".contains(c));
    let mut range = String::new();
    let parts = bare.split(|c: char| c.is_whitespace() || ",;&".contains(c));
    for part in parts.filter(|part| !part.is_empty() && *part != "and") {
        if !range.is_empty() && !range.ends_with(OPERATORS) {
            range.push(',');
        }
        range.push_str(part);
    }
    if let Some(least) = range.strip_suffix('+') {
        return format!(">={least}");
    }
    // `cu124`, as PyTorch's wheels name CUDA 12.4.
    if text.starts_with("cu") && range.len() == 3 && range.parse::<u32>().is_ok() {
        range.insert(2, '.');
    }
    range
}
