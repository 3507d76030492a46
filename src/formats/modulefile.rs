//! Environment modules in Tcl and in Lua: the directories that a module adds to search paths, and the variables that it
//! sets. Modules are not run: texts, constants and joined paths count, in every branch.

use std::collections::HashMap;

/// Limits the depth of nested expressions; no real module comes near it.
const DEPTH: usize = 16;
/// In bytes; no path is longer. The limit stops values that double from line to line.
const LENGTH: usize = 4096;
/// Limits the number of added directories, of set variables and of constants.
const COUNT: usize = 1000;

#[derive(Debug, Default)]
pub struct Modulefile {
    /// A variable that holds a search path, and a directory that is added to it.
    pub added: Vec<(String, String)>,
    /// A variable that is set, and its value.
    pub set: Vec<(String, String)>,
    /// The values of the module's own variables; none for one that has several.
    constants: HashMap<String, Option<String>>,
}

impl Modulefile {
    /// Records the effect of a command, which may have Tcl's spelling or Lua's.
    fn take(&mut self, command: &str, variable: &str, value: &str) {
        if command.ends_with("env") && self.set.len() < COUNT {
            self.set.push((variable.to_owned(), value.to_owned()));
        } else if command.ends_with("path") && self.added.len() < COUNT {
            let directories = value
                .split(':')
                .filter(|directory| directory.starts_with('/'));
            self.added
                .extend(directories.map(|directory| (variable.to_owned(), directory.to_owned())));
        }
    }

    /// A second value makes a variable unknown, since only a run of the module would show which one counts.
    fn assign(&mut self, name: &str, value: Option<String>) {
        let is_second = self
            .constants
            .get(name)
            .is_some_and(|known| *known != value);
        if self.constants.len() < COUNT || self.constants.contains_key(name) {
            self.constants
                .insert(name.to_owned(), value.filter(|_| !is_second));
        }
    }
}

pub fn tcl(text: &str) -> Modulefile {
    let mut found = Modulefile::default();
    text.replace("\\\n", " ")
        .lines()
        .for_each(|line| tcl_commands(line, &mut found, 0));
    found
}

/// Reads the commands of a line, and those in the blocks that the line holds or opens.
fn tcl_commands(line: &str, found: &mut Modulefile, depth: usize) {
    let between = |c: char| c.is_whitespace() || "};".contains(c);
    let mut rest = line.trim_start_matches(between);
    while !rest.is_empty() && !rest.starts_with('#') && depth < DEPTH {
        let (words, after) = tcl_words(rest, found, depth);
        tcl_command(&words, found, depth);
        if let Some(opened) = after.strip_prefix('{') {
            return tcl_commands(opened, found, depth + 1);
        }
        rest = after.trim_start_matches(between);
    }
}

/// A word; none if it is not constant.
type Word = Option<String>;

fn tcl_command(words: &[Word], found: &mut Modulefile, depth: usize) {
    let [Some(name), arguments @ ..] = words else {
        return;
    };
    match (name.as_str(), arguments) {
        ("set", [Some(variable), value]) => {
            found.assign(variable.trim_start_matches(':'), value.clone());
        }
        ("setenv" | "pushenv", [Some(variable), Some(value)]) => found.take(name, variable, value),
        ("prepend-path" | "append-path", _) => {
            // `--delim : VARIABLE DIRECTORY…`
            let mut words = arguments
                .iter()
                .flatten()
                .skip_while(|word| !word.starts_with(char::is_alphabetic));
            let Some(variable) = words.next() else { return };
            words.for_each(|directories| found.take(name, variable, directories));
        }
        ("if" | "else" | "elseif" | "catch" | "while", _) => {
            arguments
                .iter()
                .flatten()
                .for_each(|block| tcl_commands(block, found, depth + 1));
        }
        // These change variables in ways that are not modelled.
        ("append" | "foreach" | "incr" | "lappend" | "regexp" | "regsub" | "unset", _) => {
            arguments
                .iter()
                .flatten()
                .for_each(|variable| found.assign(variable, None));
        }
        _ => {}
    }
}

/// Returns the words of the first command, and the text after it: from the first `{` on that the line does not close.
fn tcl_words<'t>(line: &'t str, found: &Modulefile, depth: usize) -> (Vec<Word>, &'t str) {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with(';') {
        let (word, after) = match (rest.strip_prefix('"'), rest.starts_with('{')) {
            (Some(quoted), _) => tcl_text(quoted, |c| c == '"', found, depth),
            (None, true) => match bracketed(rest, '{', '}') {
                Some((inside, after)) => (Some(inside.to_owned()), after),
                None => return (words, rest),
            },
            (None, false) => tcl_text(rest, |c| c.is_whitespace() || c == ';', found, depth),
        };
        words.push(word);
        rest = after.strip_prefix('"').unwrap_or(after).trim_start();
    }
    (words, rest)
}

/// Returns a text with the values of its variables and of each `[file join …]`, and the text from its end on.
fn tcl_text<'t>(
    text: &'t str,
    ends: fn(char) -> bool,
    found: &Modulefile,
    depth: usize,
) -> (Word, &'t str) {
    let mut word = Some(String::new());
    let mut rest = text;
    while let Some(character) = rest.chars().next().filter(|character| !ends(*character)) {
        let part;
        (part, rest) = if let Some(name) = rest.strip_prefix('$') {
            let end = name
                .find(|c: char| !c.is_alphanumeric() && !"_:".contains(c))
                .unwrap_or(name.len());
            let (name, after) = bracketed(name, '{', '}').unwrap_or(name.split_at(end));
            (
                found
                    .constants
                    .get(name.trim_start_matches(':'))
                    .cloned()
                    .flatten(),
                after,
            )
        } else if character == '[' {
            let (command, after) = bracketed(rest, '[', ']').unwrap_or(("", ""));
            let parts = command
                .trim_start()
                .strip_prefix("file join ")
                .filter(|_| depth < DEPTH);
            let words =
                parts.and_then(|parts| tcl_words(parts, found, depth + 1).0.into_iter().collect());
            (words.map(|words: Vec<_>| join(&words)), after)
        } else {
            (
                (character != '\\').then(|| character.to_string()),
                &rest[character.len_utf8()..],
            )
        };
        word = word
            .zip(part)
            .map(|(word, part)| word + &part)
            .filter(|word| word.len() <= LENGTH);
    }
    (word, rest)
}

/// Returns the text between the bracket at the start and the one that closes it, and the text after that.
fn bracketed(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    let inside = text.strip_prefix(open)?;
    let mut depth = 1;
    let closes = |(_, character): &(usize, char)| {
        depth += i32::from(*character == open) - i32::from(*character == close);
        depth == 0
    };
    let (end, _) = inside.char_indices().find(closes)?;
    Some((&inside[..end], &inside[end + 1..]))
}

/// Joins parts as `file join` and `pathJoin` do.
fn join(parts: &[String]) -> String {
    let mut path = parts.first().cloned().unwrap_or_default();
    for part in parts.iter().skip(1) {
        path = format!(
            "{}/{}",
            path.trim_end_matches('/'),
            part.trim_start_matches('/')
        );
    }
    path
}

pub fn lua(text: &str) -> Modulefile {
    let mut found = Modulefile::default();
    let mut rest = lua_next(text);
    let mut is_part = false;
    while let Some(character) = rest.chars().next() {
        let (name, mut after) = lua_name(rest);
        if name.is_empty() {
            after = lua_string(rest).map_or(&rest[character.len_utf8()..], |(_, after)| after);
        } else if let Some(value) = after
            .strip_prefix('=')
            .filter(|value| !value.starts_with('='))
        {
            // Several names have a value each, and a field is not a variable.
            let value = lua_expression(value, &found, 0)
                .filter(|(_, rest)| !is_part && !rest.starts_with("and"));
            found.assign(name, value.map(|(value, _)| value));
        } else if !is_part
            && matches!(name, "setenv" | "pushenv" | "prepend_path" | "append_path")
            && let [variable, value, ..] = lua_arguments(after, &found, 0).0.as_slice()
        {
            found.take(name, variable, value);
        }
        is_part = ",.:".contains(character);
        rest = lua_next(after);
    }
    found
}

/// Returns the first arguments of a call, as far as they are constant, and the text after them.
fn lua_arguments<'t>(call: &'t str, found: &Modulefile, depth: usize) -> (Vec<String>, &'t str) {
    let mut arguments = Vec::new();
    let mut rest = call;
    let mut next = call.strip_prefix(['(', '{']);
    while let Some((argument, after)) = next.and_then(|next| lua_expression(next, found, depth)) {
        arguments.push(argument);
        (rest, next) = (after, after.strip_prefix(','));
    }
    (arguments, rest)
}

/// Returns the value of terms with `..` between, and the text after them.
fn lua_expression<'t>(
    text: &'t str,
    found: &Modulefile,
    depth: usize,
) -> Option<(String, &'t str)> {
    let mut value = String::new();
    let mut rest = lua_next(text);
    while depth < DEPTH && value.len() <= LENGTH {
        let (name, after) = lua_name(rest);
        let (term, after) = if let Some(string) = lua_string(rest) {
            string
        } else if matches!(name, "" | "pathJoin") && after.starts_with('(') {
            let (parts, after) = lua_arguments(after, found, depth + 1);
            (join(&parts), after.strip_prefix(')')?)
        } else if after.starts_with(['(', '{', '[', '"', '\'']) {
            return None;
        } else {
            (found.constants.get(name)?.clone()?, after)
        };
        value.push_str(&term);
        rest = lua_next(after);
        let Some(next) = rest.strip_prefix("..") else {
            return Some((value, rest));
        };
        rest = lua_next(next);
    }
    None
}

/// Returns a name or a number, and the text after it and its spaces.
fn lua_name(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    (&text[..end], lua_next(&text[end..]))
}

/// Returns the text from the next token on.
fn lua_next(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        let Some(comment) = text.strip_prefix("--") else {
            return text;
        };
        text = match lua_long(comment) {
            Some((_, rest)) => rest,
            None => comment.find('\n').map_or("", |end| &comment[end..]),
        };
    }
}

fn lua_string(text: &str) -> Option<(String, &str)> {
    if let Some((inside, rest)) = lua_long(text) {
        return Some((inside.to_owned(), rest));
    }
    let quote = text.chars().next().filter(|quote| "\"'".contains(*quote))?;
    let mut inside = String::new();
    let mut characters = text[1..].chars();
    while let Some(character) = characters.next().filter(|character| *character != quote) {
        inside.extend(if character == '\\' {
            characters.next()
        } else {
            Some(character)
        });
    }
    Some((inside, characters.as_str()))
}

/// Returns the content of `[[text]]` or `[==[text]==]`, and the text after it.
fn lua_long(text: &str) -> Option<(&str, &str)> {
    let after = text.strip_prefix('[')?;
    let inside = after.trim_start_matches('=').strip_prefix('[')?;
    let level = after.len() - inside.len() - 1;
    Some(
        inside
            .split_once(&format!("]{}]", "=".repeat(level)))
            .unwrap_or((inside, "")),
    )
}
