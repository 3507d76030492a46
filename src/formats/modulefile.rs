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

fn read(text: &str, tokens: &Regex, is_lua: bool) -> Modulefile {
    let mut reader = ModuleReader {
        is_lua,
        module: Modulefile::default(),
        command: "",
        words: Vec::new(),
        separator: None,
        brackets: Vec::new(),
        last: "",
    };
    for token in tokens.captures_iter(text) {
        let range = token.get_match().range();
        let before = text[..range.start].trim_end_matches([' ', '\t']);
        let is_first = is_lua || before.is_empty() || before.ends_with(['\n', ';', '{']);
        let word = token.name("word").map_or("", |word| word.as_str());
        if token.name("end").is_some() || is_first && COMMANDS.contains(&word) {
            reader.begin(word);
        } else if let Some(set) = token.name("set") {
            // `==` compares.
            if set.as_str() == "=" {
                reader.assign(before);
            }
        } else if token.name("glue").is_some() {
            reader.separator = Some("");
        } else if token.name("open").is_some() {
            reader.open(token.name("join").is_some());
        } else if token.name("close").is_some() {
            reader.close(&text[range.end..]);
        } else if let Some(text) = token.name("text").or(token.name("single")) {
            let value = reader.module.substituted(text.as_str());
            reader.add(text.as_str(), value);
        } else if !word.is_empty() {
            let value = if is_lua {
                reader.module.constants.get(word).cloned()
            } else {
                reader.module.substituted(word)
            };
            reader.add(word, value);
        }
    }
    reader.end_command();
    reader.module
}

/// Collects the words of each command, and takes its effect where the next one begins. In Lua, `lib = pathJoin(root, "lib")` has
/// the words `lib` and `/opt/cuda/lib` of the command `set`.
struct ModuleReader<'t> {
    is_lua: bool,
    module: Modulefile,
    command: &'t str,
    /// None for a word that is not constant.
    words: Vec<Option<String>>,
    /// The text between the last word and the next one, if they are one.
    separator: Option<&'static str>,
    /// The open brackets; true for those whose words are joined.
    brackets: Vec<bool>,
    /// The last text or word, as it is written.
    last: &'t str,
}

impl<'t> ModuleReader<'t> {
    fn end_command(&mut self) {
        let words = mem::take(&mut self.words);
        self.module.take(mem::take(&mut self.command), words);
    }

    fn begin(&mut self, command: &'t str) {
        self.end_command();
        self.command = command;
        self.separator = None;
        self.brackets.clear();
    }

    /// `NAME =`, which ends the command before the name.
    fn assign(&mut self, before: &str) {
        self.end_command();
        // The first value is not the last name's: forget that name, as `append` does.
        let names = before.trim_end_matches(self.last).trim_end();
        self.command = if names.ends_with(',') {
            "append"
        } else {
            "set"
        };
        self.words.push(Some(self.last.to_owned()));
    }

    fn open(&mut self, is_join: bool) {
        self.brackets.push(is_join);
        if !self.is_lua && !is_join {
            // The result of another command is not known.
            if self.separator.is_some() {
                self.words.pop();
            }
            self.words.push(None);
            self.separator = Some("");
        }
    }

    fn close(&mut self, after: &str) {
        self.brackets.pop();
        if self.is_lua && self.brackets.is_empty() && self.command != "set" {
            self.end_command();
        }
        self.separator = if self.brackets.last() == Some(&true) {
            Some("/")
        } else if !self.is_lua && after.starts_with(|c: char| !c.is_whitespace()) {
            Some("")
        } else {
            None
        };
    }

    fn add(&mut self, written: &'t str, mut value: Option<String>) {
        self.last = written;
        if let Some(separator) = self.separator {
            let start = self.words.pop().flatten();
            value = start.zip(value).map(|(start, end)| match separator {
                "" => start + &end,
                _ => [start.trim_end_matches('/'), end.trim_start_matches('/')].join(separator),
            });
        }
        self.words.push(value.filter(|value| value.len() <= LENGTH));
        self.separator = match self.brackets.last() {
            Some(true) => Some("/"),
            Some(false) if !self.is_lua => Some(""),
            _ => None,
        };
    }
}

impl Modulefile {
    /// A text of Tcl with the values of its variables; none if one of them or a command's result is not known.
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
            let mut words = words
                .flatten()
                .skip_while(|word| !word.starts_with(char::is_alphabetic));
            let Some(variable) = words.next() else { return };
            for directories in words {
                for directory in directories.split(':') {
                    if directory.starts_with('/') && self.added.len() < COUNT {
                        self.added.push((variable.clone(), directory.to_owned()));
                    }
                }
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
