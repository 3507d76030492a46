//! Environment modules in Tcl and in Lua: the directories that a module adds to search paths, and the variables that it
//! sets. Modules are not run: texts, constants and joined paths count, in every branch.

use std::collections::HashMap;
use std::mem;
use std::sync::LazyLock;

use regex::Regex;

/// In bytes; no path is longer. The limit stops values that double from line to line.
const LENGTH: usize = 4096;
/// Limits the number of added directories, of set variables and of constants.
const COUNT: usize = 1000;
/// The commands that count. `set` is also Lua's `=`; `append` leaves a value that is not known.
const COMMANDS: &[&str] = &[
    "append",
    "append-path",
    "append_path",
    "prepend-path",
    "prepend_path",
    "pushenv",
    "set",
    "setenv",
];
/// `set NAME VALUE`, `[file join PART PART]`, `"text with $name"`; braces only separate.
const TCL: &str = r#"(?xm)
    (?:^|;) [\x20\t]* \#.*
    | (?<end> [\n;])
    | (?<open> \[ (?<join> file\x20join[\x20\t])?)
    | (?<close> \])
    | "(?<text> [^"\n]*)"
    | (?<word> (?: \$\{[A-Za-z0-9_:]+\} | [^\x20\t\r\n;{}"\[\]])+)"#;
/// `NAME = VALUE`, `pathJoin(PART, PART)`, `"text" .. name`; comments and `[[long texts]]` have none of it.
const LUA: &str = r#"(?x)
    (?:--)? \[=*\[ (?s:.*?) (?: \]=*\] | \z)
    | --[^\n]*
    | [~<>]=
    | (?<open> (?<join> pathJoin)? [\x20\t]* \()
    | (?<close> \))
    | "(?<text> [^"\n]*)"
    | '(?<single> [^'\n]*)'
    | (?<set> =+)
    | (?<glue> \.\.)
    | (?<word> [A-Za-z_][A-Za-z0-9_.:]*)"#;

#[derive(Debug, Default)]
pub struct Modulefile {
    /// A variable that holds a search path, and a directory that is added to it.
    pub added: Vec<(String, String)>,
    /// A variable that is set, and its value.
    pub set: Vec<(String, String)>,
    /// The values of the module's own variables.
    constants: HashMap<String, String>,
}

pub fn tcl(text: &str) -> Modulefile {
    static TOKENS: LazyLock<Regex> = LazyLock::new(|| Regex::new(TCL).expect("a pattern of ours"));
    read(&text.replace("\\\n", " "), &TOKENS, false)
}

pub fn lua(text: &str) -> Modulefile {
    static TOKENS: LazyLock<Regex> = LazyLock::new(|| Regex::new(LUA).expect("a pattern of ours"));
    read(text, &TOKENS, true)
}

/// Collects the words of each command, and takes its effect where the next one begins. In Lua, `lib = pathJoin(root, "lib")` has
/// the words `lib` and `/opt/cuda/lib` of the command `set`.
fn read(text: &str, tokens: &Regex, is_lua: bool) -> Modulefile {
    let mut found = Modulefile::default();
    let mut command = "";
    // None for a word that is not constant.
    let mut words: Vec<Option<String>> = Vec::new();
    // What is between the last word and the next one, if they are one.
    let mut between = None;
    // The open brackets; true for those whose words are joined.
    let mut joining: Vec<bool> = Vec::new();
    let mut last = "";
    for token in tokens.captures_iter(text) {
        let part = |name| token.name(name).map(|part| part.as_str());
        let word = part("word").unwrap_or_default();
        let all = token.get(0).map_or(0..0, |all| all.range());
        let before = text[..all.start].trim_end_matches([' ', '\t']);
        let is_first = is_lua || before.is_empty() || before.ends_with(['\n', ';', '{']);
        if part("end").is_some() || is_first && COMMANDS.contains(&word) {
            found.take(command, mem::take(&mut words));
            command = word;
            between = None;
            joining.clear();
        } else if part("set") == Some("=") {
            found.take(command, mem::take(&mut words));
            // The first value is not the last name's: forget that name, as `append` does.
            let names = before.trim_end_matches(last).trim_end();
            command = if names.ends_with(',') {
                "append"
            } else {
                "set"
            };
            words.push(Some(last.to_owned()));
        } else if part("glue").is_some() {
            between = Some("");
        } else if part("open").is_some() {
            joining.push(part("join").is_some());
            if !is_lua && part("join").is_none() {
                if between.is_some() {
                    words.pop();
                }
                words.push(None);
                between = Some("");
            }
        } else if part("close").is_some() {
            joining.pop();
            if is_lua && joining.is_empty() && command != "set" {
                found.take(mem::take(&mut command), mem::take(&mut words));
            }
            let is_glued = !is_lua && text[all.end..].starts_with(|c: char| !c.is_whitespace());
            between = match joining.last() {
                Some(true) => Some("/"),
                _ => is_glued.then_some(""),
            };
        } else if let Some(text) = part("text").or(part("single")).or(part("word")) {
            last = text;
            let mut value = if is_lua && !word.is_empty() {
                found.constants.get(word).cloned()
            } else {
                found.substituted(text)
            };
            if let Some(between) = between.take() {
                let start = words.pop().flatten();
                value = start.zip(value).map(|(start, end)| match between {
                    "" => start + &end,
                    _ => [start.trim_end_matches('/'), end.trim_start_matches('/')].join(between),
                });
            }
            words.push(value.filter(|value| value.len() <= LENGTH));
            between = match joining.last() {
                Some(true) => Some("/"),
                // The result of another command is not known.
                Some(false) if !is_lua => Some(""),
                _ => None,
            };
        }
    }
    found.take(command, words);
    found
}

impl Modulefile {
    /// Returns a text of Tcl with the values of its variables; none if one of them or a command's result is not known.
    fn substituted(&self, text: &str) -> Option<String> {
        let mut value = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            let name = after.trim_start_matches(['{', ':']);
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let (name, after) = name.split_at(end.unwrap_or(name.len()));
            value = value + before + self.constants.get(name)?;
            if value.len() > LENGTH {
                return None;
            }
            rest = after.strip_prefix('}').unwrap_or(after);
        }
        value += rest;
        (!value.contains('[')).then_some(value)
    }

    /// Records the effect of a command.
    fn take(&mut self, command: &str, words: Vec<Option<String>>) {
        let mut words = words.into_iter();
        if command.ends_with("path") {
            // `--delim : VARIABLE DIRECTORY…`
            let is_option = |word: &String| !word.starts_with(char::is_alphabetic);
            let mut words = words.flatten().skip_while(is_option);
            let Some(variable) = words.next() else { return };
            for directories in words {
                let new = directories.split(':').filter(|part| part.starts_with('/'));
                let new = new.take(COUNT - self.added.len());
                self.added
                    .extend(new.map(|new| (variable.clone(), new.to_owned())));
            }
        } else if let (Some(Some(name)), Some(value)) = (words.next(), words.next()) {
            let name = name.trim_start_matches("::").to_owned();
            if matches!(command, "append" | "set") {
                self.constants.remove(&name);
            }
            match (command, value) {
                ("set", Some(value)) if self.constants.len() < COUNT => {
                    self.constants.insert(name, value);
                }
                ("setenv" | "pushenv", Some(value)) if self.set.len() < COUNT => {
                    self.set.push((name, value));
                }
                _ => {}
            }
        }
    }
}
