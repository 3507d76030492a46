//! FindingKind of a line of a start-up file is shown: the assignments of the variables that are looked for, however a shell or a
//! file writes them. All else may be somebody's secret, and is `…`. FindingKind is shown reads like the line itself.

use super::startup::{VARIABLES, replaced};

const REST: &str = "…";
/// FindingKind says nothing by itself.
const MARKS: &str = ";,(){}[]\"'$ \t";

pub(super) fn shown(line: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    if let Some(variable) = replaced(line) {
        // Only that it is replaced counts.
        let start = line.find(variable).unwrap_or(0);
        let open = if variable == "PROMPT_COMMAND" { "=" } else { "=(" };
        out = format!("{}{variable}{open}", if line.starts_with("export ") { "export " } else { "" });
        at = start + variable.len() + open.len();
    }
    while let Some((start, end, is_whole)) = next(line, at) {
        between(&line[at..start], &mut out);
        out.push_str(&line[start..end]);
        at = end;
        if !is_whole {
            // FindingKind a value goes on with is not told apart from what follows it.
            let rest = line[at..].find([';', ' ']).unwrap_or(line.len() - at);
            out.push_str(REST);
            at += rest;
        }
    }
    between(&line[at..], &mut out);
    out
}

/// FindingKind stands between two that are shown.
fn between(text: &str, out: &mut String) {
    if text.chars().all(|c| MARKS.contains(c)) {
        out.push_str(text);
        return;
    }
    let is_told = out.ends_with(REST);
    if text.starts_with(char::is_whitespace) && !out.is_empty() && !is_told {
        out.push(' ');
    }
    if !is_told {
        out.push_str(REST);
    }
    if text.ends_with(char::is_whitespace) {
        out.push(' ');
    }
}

/// From where to where the next one goes, and whether its value is shown to its end.
fn next(line: &str, from: usize) -> Option<(usize, usize, bool)> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let of_variable = VARIABLES.iter().filter_map(|variable| {
        let starts = line[from..].match_indices(variable).map(|(at, _)| from + at);
        let mut whole = starts.filter(|at| {
            let before = line[..*at].chars().next_back().is_some_and(is_word);
            let after = line[at + variable.len()..].chars().next().is_some_and(is_word);
            !before && !after
        });
        whole.next().map(|at| (at, at + variable.len()))
    });
    let of_variable = of_variable.min().map(|(at, end)| assignment(line, from, at, end));
    let hook = hook(line, from);
    match (of_variable, hook) {
        (Some(variable), Some(hook)) => Some(if hook.0 < variable.0 { hook } else { variable }),
        (variable, hook) => variable.or(hook),
    }
}

/// `cudarun hook bash`, and no more of how it is called.
fn hook(line: &str, from: usize) -> Option<(usize, usize, bool)> {
    let start = from + line[from..].find("cudarun")?;
    line[start..].find("hook")?;
    let words = ["cudarun hook bash", "cudarun hook zsh", "cudarun hook fish", "cudarun hook"];
    let word = words.into_iter().find(|words| line[start..].starts_with(words));
    let Some(word) = word else {
        let hook = start + line[start..].find("hook")?;
        // The two words, with what stands between them left out.
        return Some(if hook == start { (hook, hook + 4, true) } else { (start, start + 7, true) })
            .filter(|(at, ..)| *at >= from);
    };
    let eval = "eval \"$(";
    let begin = if line[from..start].ends_with(eval) { start - eval.len() } else { start };
    Some((begin, start + word.len(), true))
}

fn assignment(line: &str, from: usize, name: usize, end: usize) -> (usize, usize, bool) {
    let (before, after) = (&line[from..name], &line[end..]);
    let command = |words: &[&str]| {
        let found = words.iter().filter(|word| before.ends_with(*word)).max_by_key(|word| word.len());
        found.map(|word| name - word.len())
    };
    let opened = ['"', '\''].into_iter().find(|quote| is_open(&line[..name], *quote));
    // sh, environment.d
    if let Some(rest) = after.strip_prefix('=').or_else(|| after.strip_prefix("+=")) {
        let start = command(&["export ", "set -x ", "setenv "]).unwrap_or(name);
        let (length, is_whole) = value(rest, opened, false);
        return (start, line.len() - rest.len() + length, is_whole);
    }
    // JSON
    if before.ends_with('"')
        && let Some(rest) = after.strip_prefix('"')
        && let Some(rest) = rest.trim_start().strip_prefix(':')
        && let rest = rest.trim_start()
        && rest.starts_with('"')
    {
        let (length, is_whole) = value(rest, None, false);
        return (name - 1, line.len() - rest.len() + length, is_whole);
    }
    // Modules in Lua
    let of_lua = ["prepend_path(\"", "append_path(\"", "setenv(\"", "pushenv(\""];
    if let (Some(start), Some(rest)) = (command(&of_lua), after.strip_prefix("\",")) {
        let rest = rest.trim_start();
        let (length, is_whole) = if rest.starts_with('"') { value(rest, None, false) } else { (0, false) };
        return (start, line.len() - rest.len() + length, is_whole);
    }
    let rest = after.trim_start();
    let is_apart = rest.len() < after.len();
    // pam_env.conf
    if let Some(rest) = rest.strip_prefix("DEFAULT=").filter(|_| is_apart) {
        let (length, is_whole) = value(rest, None, false);
        return (name, line.len() - rest.len() + length, is_whole);
    }
    // fish, csh, modules in Tcl
    let flags = before.rfind("set ").map(|at| (at, &before[at + 4..]));
    let is_set = |(_, flags): &(usize, &str)| {
        let is_flag = |word: &str| {
            word.len() > 1
                && word.starts_with('-')
                && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
                && word.len() < 12
        };
        flags.split_whitespace().all(is_flag) && (flags.is_empty() || flags.ends_with(' '))
    };
    let fish = flags.filter(is_set).filter(|(at, _)| !before[..*at].ends_with(|c: char| c.is_alphanumeric()));
    let start = fish.map(|(at, _)| from + at);
    let start = start
        .or_else(|| command(&["setenv ", "pushenv ", "prepend-path ", "append-path ", "unset ", "export "]));
    match start {
        Some(start) if is_apart && is_path(rest) => {
            let (length, is_whole) = value(rest, opened, true);
            (start, line.len() - rest.len() + length, is_whole)
        }
        _ => (start.unwrap_or(name), end, true),
    }
}

/// Whether such a quote is open at the end of the text.
fn is_open(text: &str, quote: char) -> bool {
    let mut is_escaped = false;
    let mut count = 0;
    for c in text.chars() {
        count += usize::from(c == quote && !is_escaped);
        is_escaped = c == '\\' && !is_escaped;
    }
    count % 2 == 1
}

/// The beginning of a path, or of a name of a library.
fn is_path(text: &str) -> bool {
    let word = text.split([' ', '\t', ';', '"', '\'', ':']).find(|word| !word.is_empty()).unwrap_or_default();
    word.starts_with(['/', '~', '.']) || word.starts_with('$') || word.contains(".so")
}

/// How much of the text is a list of paths, and whether that is all of the value. A `many` has several words.
fn value(text: &str, opened: Option<char>, many: bool) -> (usize, bool) {
    let mut quote: Option<char> = None;
    for (at, c) in text.char_indices() {
        let after = &text[at + c.len_utf8()..];
        match c {
            _ if Some(c) == opened && quote.is_none() => return (at, true),
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            ' ' | '\t' if (many || quote.is_some()) && is_path(after) => {}
            ' ' | '\t' | ';' if quote.is_none() => return (at, true),
            _ if c.is_alphanumeric() || "/._-+@:~${}%\\".contains(c) => {}
            // Of ${A:+:$A} and the like.
            '=' | '?' if text[..at].ends_with(':') => {}
            ')' | ',' | '&' | '|' if quote.is_none() => return (at, true),
            _ => return (at, false),
        }
    }
    (text.len(), true)
}

#[cfg(test)]
mod tests {
    use super::super::startup::mentions;
    use super::*;

    #[test]
    fn only_the_paths_of_a_line_are_shown() {
        let cases = [
            ("export LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH", "export LD_LIBRARY_PATH=/a:$LD_LIBRARY_PATH"),
            (r#"TOKEN="abc\"LEAK def" LD_LIBRARY_PATH=/x ./run -p LEAK"#, "… LD_LIBRARY_PATH=/x …"),
            (r#"TOKEN="abc\"LEAK def" LD_LIBRARY_PATH="/x y" # LEAK"#, "… LD_LIBRARY_PATH=\"/x…"),
            (
                "set -gx HF_AUTH LEAK; set -gx LD_LIBRARY_PATH /x $LD_LIBRARY_PATH",
                "… set -gx LD_LIBRARY_PATH /x $LD_LIBRARY_PATH",
            ),
            ("set -gx LD_LIBRARY_PATH /x; set -gx HF_AUTH LEAK", "set -gx LD_LIBRARY_PATH /x…"),
            ("set -gx LD_LIBRARY_PATH /x LEAK", "set -gx LD_LIBRARY_PATH /x …"),
            (
                r#"{"env": {"K": "LEAK", "LD_LIBRARY_PATH": "/x", "B": "LEAK"}}"#,
                r#"… "LD_LIBRARY_PATH": "/x"…"#,
            ),
            ("LD_LIBRARY_PATH=/x:$(curl LEAK)", "LD_LIBRARY_PATH=/x:$…"),
            ("setenv LD_LIBRARY_PATH /x # LEAK", "setenv LD_LIBRARY_PATH /x …"),
            (
                "prepend_path(\"LD_LIBRARY_PATH\", \"/x\") -- LEAK",
                "prepend_path(\"LD_LIBRARY_PATH\", \"/x\"…",
            ),
            ("echo LD_LIBRARY_PATH is LEAK", "… LD_LIBRARY_PATH …"),
            (
                "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/x",
                "LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/x",
            ),
            ("PROMPT_COMMAND='LEAK -a'", "PROMPT_COMMAND=…"),
            ("eval \"$(cudarun hook bash)\" # LEAK", "eval \"$(cudarun hook bash…"),
        ];
        for (line, expected) in cases {
            let once = shown(line);
            assert!(!once.contains("LEAK"), "{once}");
            assert_eq!(once, expected, "{line}");
            assert_eq!(shown(&once), once, "{line}");
            assert!(VARIABLES.iter().all(|it| mentions(line, it) == mentions(&once, it)), "{line}");
        }
    }
}
