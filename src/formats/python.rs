//! Imports and string literals of Python source. This is not a parser: it splits the text into strings, comments and
//! statements, and works on any version of the language and on files that Python would refuse.

use std::collections::BTreeSet;

/// In bytes. Reading may take fifty times as much memory, and no program of a person is longer.
const LIMIT: usize = 4 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PythonSource {
    pub imports: Vec<Import>,
    /// The contents of string literals, with the line each begins on.
    pub strings: Vec<(usize, String)>,
    /// The directories that it adds to `sys.path` by a literal path, in order.
    pub search: Vec<AddedPath>,
    /// True if it imports or runs something that is only known at run time.
    pub dynamic: bool,
    /// True if it imports or calls functions that start programs.
    pub starts_programs: bool,
    /// The names of the functions that it calls as attributes: `f` of `a.f(…)`.
    pub called: BTreeSet<String>,
    /// True if it opens a library whose name is not a literal.
    pub opens_unnamed: bool,
}

/// A directory that `sys.path.insert(0, "…")`, `sys.path.append("…")` or `site.addsitedir("…")` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedPath {
    pub directory: String,
    /// True if it is put before all others.
    pub is_first: bool,
    /// True if the `.pth` files in it count.
    pub is_site: bool,
}

/// One module that an `import` or a `from … import` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Import {
    /// Dotted; for a relative import the part after the leading dots, perhaps empty.
    pub module: String,
    /// The number of leading dots.
    pub level: usize,
    /// The imported names, each of which may be a submodule.
    pub names: Vec<String>,
    pub line: usize,
    /// True below a `try`: the program may go on without the module.
    pub is_tried: bool,
    /// True outside of every block: it runs whenever the file does.
    pub is_outermost: bool,
    /// True inside a function: the code runs only when the function is called.
    pub is_called: bool,
}

pub fn read(source: &[u8]) -> PythonSource {
    let source = source.strip_prefix(b"\xef\xbb\xbf").unwrap_or(source);
    let is_cut = source.len() > LIMIT;
    let source = &source[..source.len().min(LIMIT)];
    let mut text = String::from_utf8_lossy(source);
    if text.contains('\r') {
        text = text.replace("\r\n", "\n").replace('\r', "\n").into();
    }
    let mut scanner = Scanner {
        text: &text,
        bytes: text.as_bytes(),
        at: 0,
        line: 1,
        strings: Vec::new(),
    };
    // A file with NULs is compiled or packed, and runs as well.
    let mut found = PythonSource {
        dynamic: is_cut || text.contains('\0'),
        ..PythonSource::default()
    };
    let (mut tries, mut functions): (Vec<usize>, Vec<usize>) = Default::default();
    let mut names_of_os = vec!["os".to_owned()];
    scanner.statements(&mut |statement: Statement<'_>| {
        let words = &statement.words;
        if let Some(indent) = statement.indent {
            tries.retain(|outer| *outer < indent);
            functions.retain(|outer| *outer < indent);
        }
        // A statement that follows another one on its line may belong to a block.
        let is_outermost = statement.indent == Some(0);
        let from = found.imports.len();
        match words.split_first() {
            Some((&"try", [])) => tries.push(statement.indent.unwrap_or(usize::MAX - 1)),
            Some((&("def" | "async"), _)) => {
                functions.push(statement.indent.unwrap_or(usize::MAX - 1));
            }
            Some((&"import", rest)) => {
                found.imports.extend(plain_imports(rest, statement.line));
                let aliases = rest.windows(3).filter(|words| words[..2] == ["os", "as"]);
                names_of_os.extend(aliases.map(|words| words[2].to_owned()));
            }
            Some((&"from", rest)) => found.imports.extend(from_import(rest, statement.line)),
            _ => {
                let (dynamic, named) = calls(&statement, words);
                found.dynamic |= dynamic;
                found.starts_programs |= starts_program(words, &names_of_os);
                found.called.extend(called(words));
                found.opens_unnamed |= opens_unnamed(&statement, words);
                found.imports.extend(named);
                found.search.extend(added_paths(&statement, words));
            }
        }
        for import in &mut found.imports[from..] {
            import.is_tried = !tries.is_empty();
            import.is_outermost = is_outermost;
            import.is_called = !functions.is_empty();
            found.starts_programs |= match import.module.as_str() {
                "subprocess" | "pty" => true,
                "os" => import
                    .names
                    .iter()
                    .any(|name| name == "*" || is_starter(name)),
                _ => false,
            };
        }
    });
    found.strings = scanner.strings;
    found
}

/// `a.b as c, d` → `a.b`, `d`.
fn plain_imports(words: &[&str], line: usize) -> Vec<Import> {
    words
        .split(|word| *word == ",")
        .map(|part| {
            part.iter()
                .take_while(|word| **word != "as")
                .copied()
                .collect::<String>()
        })
        .filter(|module| is_dotted_name(module))
        .map(|module| Import {
            module,
            line,
            ..Import::default()
        })
        .collect()
}

/// `..a.b import (c as d, e)` → level 2, `a.b`, names `c`, `e`.
fn from_import(words: &[&str], line: usize) -> Option<Import> {
    let cut = words.iter().position(|word| *word == "import")?;
    let path: String = words[..cut].concat();
    let module = path.trim_start_matches('.');
    let level = path.len() - module.len();
    if !(is_dotted_name(module) || module.is_empty() && level > 0) {
        return None;
    }
    let names = words[cut + 1..]
        .split(|word| *word == ",")
        .filter_map(|part| part.iter().find(|word| !matches!(**word, "(" | ")")))
        .map(|word| (*word).to_owned())
        .collect();
    Some(Import {
        module: module.to_owned(),
        level,
        names,
        line,
        ..Import::default()
    })
}

fn is_dotted_name(text: &str) -> bool {
    !text.is_empty()
        && text.split('.').all(|part| {
            part.chars()
                .next()
                .is_some_and(|first| first.is_alphabetic() || first == '_')
                && part.chars().all(|c| c.is_alphanumeric() || c == '_')
        })
}

/// Returns true for calls that run something that is only known at run time: `import_module(…)`, `exec(…)`, `runpy.…`,
/// another Python through `sys.executable`. Also returns the imports by calls with a plain text for their argument.
fn calls(statement: &Statement<'_>, words: &[&str]) -> (bool, Vec<Import>) {
    let (mut dynamic, mut named) = (words.contains(&"runpy"), Vec::new());
    for (at, word) in words.iter().enumerate() {
        let is_called = words.get(at + 1) == Some(&"(");
        let is_attribute = at > 0 && words[at - 1] == ".";
        match *word {
            "import_module" | "__import__" if is_called => {
                let literal = statement
                    .literals
                    .iter()
                    .find(|(index, _)| *index == at + 2);
                let is_whole = matches!(words.get(at + 3), Some(&("," | ")")));
                match literal.filter(|(_, text)| is_whole && is_dotted_name(text)) {
                    Some((_, module)) => named.push(Import {
                        module: module.clone(),
                        line: statement.line,
                        ..Import::default()
                    }),
                    None => dynamic = true,
                }
            }
            "exec" | "execfile" => dynamic |= is_called && !is_attribute,
            "executable" => dynamic |= is_attribute && at > 1 && words[at - 2] == "sys",
            _ => {}
        }
    }
    (dynamic, named)
}

/// Returns the absolute directories that a statement adds to the module search path.
fn added_paths(statement: &Statement<'_>, words: &[&str]) -> Vec<AddedPath> {
    let is_site = words.starts_with(&["site", ".", "addsitedir", "("]);
    if !is_site && !words.starts_with(&["sys", ".", "path"]) {
        return Vec::new();
    }
    let is_first = matches!(words.get(4), Some(&"insert")) || words.get(3) == Some(&"[");
    let texts = statement
        .literals
        .iter()
        .map(|(_, text)| text)
        .filter(|text| text.starts_with('/'));
    texts
        .map(|text| AddedPath {
            directory: text.clone(),
            is_first,
            is_site,
        })
        .collect()
}

fn called<'w>(words: &'w [&str]) -> impl Iterator<Item = String> + 'w {
    words
        .windows(3)
        .filter(|words| words[0] == "." && words[2] == "(")
        .map(|words| words[1].to_owned())
}

/// True for `Popen(…)`, `os.system(…)`, `os.exec…` and similar calls.
fn starts_program(words: &[&str], names_of_os: &[String]) -> bool {
    const CALLED: [&str; 4] = [
        "Popen",
        "create_subprocess_exec",
        "create_subprocess_shell",
        "set_executable",
    ];
    let is_os = |word: &str| names_of_os.iter().any(|name| name == word);
    words.iter().any(|word| CALLED.contains(word))
        || words
            .windows(3)
            .any(|words| words[1] == "." && is_os(words[0]) && is_starter(words[2]))
}

/// True for the functions of `os` that start programs.
fn is_starter(name: &str) -> bool {
    ["exec", "spawn", "posix_spawn", "system", "popen"]
        .iter()
        .any(|beginning| name.starts_with(beginning))
}

/// True for `CDLL(…)` and similar calls whose argument is not a literal string.
fn opens_unnamed(statement: &Statement<'_>, words: &[&str]) -> bool {
    words.windows(2).enumerate().any(|(at, pair)| {
        matches!(pair, ["CDLL" | "PyDLL" | "LoadLibrary" | "dlopen", "("])
            && statement.literals.iter().all(|(index, _)| *index != at + 2)
    })
}

struct Statement<'s> {
    words: Vec<&'s str>,
    /// The texts among the words, by their index.
    literals: Vec<(usize, String)>,
    line: usize,
    /// The column of its start; none if another statement precedes it on its line.
    indent: Option<usize>,
}

struct Scanner<'s> {
    text: &'s str,
    bytes: &'s [u8],
    at: usize,
    line: usize,
    strings: Vec<(usize, String)>,
}

impl<'s> Scanner<'s> {
    /// Hands on the statements, one at a time. Cuts the text at line ends, `;` and the `:` of compound statements, outside of brackets and strings.
    fn statements(&mut self, take: &mut dyn FnMut(Statement<'s>)) {
        let mut words: Vec<&str> = Vec::new();
        let mut literals: Vec<(usize, String)> = Vec::new();
        let (mut start, mut indent, mut line_start) = (self.line, 0, 0);
        // The line on which the statement before this one ended.
        let mut shared_line = 0;
        let mut depth = 0_u32;
        while let Some(&byte) = self.bytes.get(self.at) {
            if words.is_empty() {
                (start, indent) = (self.line, self.at - line_start);
            }
            if byte == b'\n' {
                line_start = self.at + 1;
            }
            let ends = depth == 0 && matches!(byte, b'\n' | b';' | b':');
            match byte {
                b'\\' if self.bytes.get(self.at + 1) == Some(&b'\n') => {
                    self.advance();
                    self.advance();
                }
                b'#' => {
                    let rest = &self.bytes[self.at..];
                    self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                }
                b'\'' | b'"' => {
                    let literal = self.string(is_formatted(words.last(), self.bytes, self.at));
                    literals.push((words.len(), literal.1.clone()));
                    self.strings.push(literal);
                    words.push("\"\"");
                }
                _ if ends || byte.is_ascii_whitespace() => self.advance(),
                _ if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80 => {
                    words.push(self.word());
                }
                _ => {
                    match byte {
                        b'(' | b'[' | b'{' => depth += 1,
                        b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    words.push(&self.text[self.at..=self.at]);
                    self.advance();
                }
            }
            let is_last = self.at >= self.bytes.len();
            if (ends || is_last) && !words.is_empty() {
                take(Statement {
                    words: std::mem::take(&mut words),
                    literals: std::mem::take(&mut literals),
                    line: start,
                    indent: (start != shared_line).then_some(indent),
                });
                shared_line = if byte == b'\n' { 0 } else { self.line };
            }
        }
    }

    fn advance(&mut self) {
        if self.bytes.get(self.at) == Some(&b'\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    fn word(&mut self) -> &'s str {
        let rest = &self.bytes[self.at..];
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let length = rest.iter().take_while(|byte| is_word(byte)).count();
        self.at += length;
        &self.text[self.at - length..self.at]
    }

    /// Reads the literal that begins here. In a formatted one, an expression may hold strings of its own.
    fn string(&mut self, is_formatted: bool) -> (usize, String) {
        let line = self.line;
        let quote = self.bytes[self.at];
        let triple = self.bytes[self.at..].starts_with(&[quote; 3]);
        let closing: &[u8] = if triple { &[quote; 3] } else { &[quote] };
        self.at += closing.len();
        let mut text = Vec::new();
        let mut braces = 0_u32;
        loop {
            let rest = &self.bytes[self.at..];
            let plain = rest
                .iter()
                .position(|byte| matches!(byte, b'\'' | b'"' | b'\\' | b'{' | b'}' | b'\n'));
            let plain = plain.unwrap_or(rest.len());
            text.extend_from_slice(&rest[..plain]);
            self.at += plain;
            let Some(&byte) = rest.get(plain) else { break };
            if braces == 0 && rest[plain..].starts_with(closing) {
                self.at += closing.len();
                break;
            }
            match byte {
                b'\n' if !triple => break,
                b'\\' => {
                    text.push(byte);
                    self.advance();
                    if let Some(&escaped) = self.bytes.get(self.at) {
                        text.push(escaped);
                        self.advance();
                    }
                    continue;
                }
                b'{' if is_formatted
                    && self.bytes.get(self.at + 1) == Some(&b'{')
                    && braces == 0 =>
                {
                    self.advance();
                }
                b'{' if is_formatted => braces += 1,
                b'}' if is_formatted => braces = braces.saturating_sub(1),
                b'\'' | b'"' if braces > 0 => {
                    let nested = self.string(false);
                    self.strings.push(nested);
                    continue;
                }
                _ => {}
            }
            text.push(byte);
            self.advance();
        }
        (line, String::from_utf8_lossy(&text).into_owned())
    }
}

/// True if the letters right before a quote, `f`, `rb`, `Rf`, make its literal a formatted one.
fn is_formatted(word: Option<&&str>, bytes: &[u8], quote: usize) -> bool {
    let is_adjacent = quote > 0 && bytes[quote - 1].is_ascii_alphabetic();
    is_adjacent && word.is_some_and(|word| word.len() <= 2 && word.contains(['f', 'F', 't', 'T']))
}
