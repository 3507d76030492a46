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
        position: 0,
        line: 1,
        strings: Vec::new(),
    };
    let mut reader = SourceReader {
        // A file with NULs is compiled or packed, and runs as well.
        source: PythonSource {
            dynamic: is_cut || text.contains('\0'),
            ..PythonSource::default()
        },
        tries: Vec::new(),
        functions: Vec::new(),
        names_of_os: vec!["os".to_owned()],
    };
    scanner.statements(&mut |statement| reader.take(&statement));
    reader.source.strings = scanner.strings;
    reader.source
}

struct SourceReader {
    source: PythonSource,
    /// The columns of the blocks around a statement that begin with `try`, and of the functions around it.
    tries: Vec<usize>,
    functions: Vec<usize>,
    /// `os`, and its names by `import os as …`.
    names_of_os: Vec<String>,
}

impl SourceReader {
    fn take(&mut self, statement: &Statement<'_>) {
        if let Some(indent) = statement.indent {
            self.tries.retain(|outer| *outer < indent);
            self.functions.retain(|outer| *outer < indent);
        }
        let column = statement.indent.unwrap_or(usize::MAX - 1);
        let first = self.source.imports.len();
        match statement.words.split_first() {
            Some((&"try", [])) => self.tries.push(column),
            Some((&("def" | "async"), _)) => self.functions.push(column),
            Some((&"import", rest)) => self.take_import(rest, statement.line),
            Some((&"from", rest)) => self
                .source
                .imports
                .extend(from_import(rest, statement.line)),
            _ => self.take_other(statement),
        }
        for import in &mut self.source.imports[first..] {
            import.is_tried = !self.tries.is_empty();
            // A statement that follows another one on its line may belong to a block.
            import.is_outermost = statement.indent == Some(0);
            import.is_called = !self.functions.is_empty();
            self.source.starts_programs |= match import.module.as_str() {
                "subprocess" | "pty" => true,
                "os" => import
                    .names
                    .iter()
                    .any(|name| name == "*" || is_starter(name)),
                _ => false,
            };
        }
    }

    /// `import a.b as c, d` names the modules `a.b` and `d`.
    fn take_import(&mut self, words: &[&str], line: usize) {
        for part in words.split(|word| *word == ",") {
            let end = part.iter().position(|word| *word == "as");
            let module = part[..end.unwrap_or(part.len())].concat();
            if is_dotted_name(&module) {
                self.source.imports.push(Import {
                    module,
                    line,
                    ..Import::default()
                });
            }
        }
        for words in words.windows(3) {
            if words[..2] == ["os", "as"] {
                self.names_of_os.push(words[2].to_owned());
            }
        }
    }

    fn take_other(&mut self, statement: &Statement<'_>) {
        let words = &statement.words;
        let source = &mut self.source;
        take_calls(statement, source);
        source.starts_programs |= starts_program(words, &self.names_of_os);
        source.opens_unnamed |= opens_unnamed(statement);
        source.search.extend(added_paths(statement));
        for words in words.windows(3) {
            if words[0] == "." && words[2] == "(" {
                source.called.insert(words[1].to_owned());
            }
        }
    }
}

/// `..a.b import (c as d, e)` → level 2, `a.b`, names `c`, `e`.
fn from_import(words: &[&str], line: usize) -> Option<Import> {
    let end = words.iter().position(|word| *word == "import")?;
    let path: String = words[..end].concat();
    let module = path.trim_start_matches('.');
    let level = path.len() - module.len();
    if !(is_dotted_name(module) || module.is_empty() && level > 0) {
        return None;
    }
    let mut names = Vec::new();
    for part in words[end + 1..].split(|word| *word == ",") {
        if let Some(name) = part.iter().find(|word| !matches!(**word, "(" | ")")) {
            names.push((*name).to_owned());
        }
    }
    Some(Import {
        module: module.to_owned(),
        level,
        names,
        line,
        ..Import::default()
    })
}

fn is_dotted_name(text: &str) -> bool {
    text.split('.').all(|part| {
        part.starts_with(|first: char| first.is_alphabetic() || first == '_')
            && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Takes the imports by calls with a plain text for their argument. Other calls that run something that is only known at run
/// time make the source dynamic: `import_module(…)`, `exec(…)`, `runpy.…`, another Python through `sys.executable`.
fn take_calls(statement: &Statement<'_>, source: &mut PythonSource) {
    let words = &statement.words;
    source.dynamic |= words.contains(&"runpy");
    for (index, word) in words.iter().enumerate() {
        let is_called = words.get(index + 1) == Some(&"(");
        let is_attribute = index > 0 && words[index - 1] == ".";
        match *word {
            "import_module" | "__import__" if is_called => {
                let is_only = matches!(words.get(index + 3), Some(&("," | ")")));
                match statement.literal(index + 2) {
                    Some(module) if is_only && is_dotted_name(module) => {
                        source.imports.push(Import {
                            module: module.to_owned(),
                            line: statement.line,
                            ..Import::default()
                        });
                    }
                    _ => source.dynamic = true,
                }
            }
            "exec" | "execfile" => source.dynamic |= is_called && !is_attribute,
            "executable" => {
                source.dynamic |= is_attribute && index > 1 && words[index - 2] == "sys";
            }
            _ => {}
        }
    }
}

/// The absolute directories that a statement adds to the module search path.
fn added_paths(statement: &Statement<'_>) -> Vec<AddedPath> {
    let words = &statement.words;
    let mut paths = Vec::new();
    let is_site = words.starts_with(&["site", ".", "addsitedir", "("]);
    if !is_site && !words.starts_with(&["sys", ".", "path"]) {
        return paths;
    }
    let is_first = words.get(4) == Some(&"insert") || words.get(3) == Some(&"[");
    for (_, text) in &statement.literals {
        if text.starts_with('/') {
            paths.push(AddedPath {
                directory: text.clone(),
                is_first,
                is_site,
            });
        }
    }
    paths
}

/// True for `Popen(…)`, `os.system(…)`, `os.exec…` and similar calls.
fn starts_program(words: &[&str], names_of_os: &[String]) -> bool {
    const CALLED: [&str; 4] = [
        "Popen",
        "create_subprocess_exec",
        "create_subprocess_shell",
        "set_executable",
    ];
    if words.iter().any(|word| CALLED.contains(word)) {
        return true;
    }
    for words in words.windows(3) {
        let is_os = names_of_os.iter().any(|name| name == words[0]);
        if is_os && words[1] == "." && is_starter(words[2]) {
            return true;
        }
    }
    false
}

/// True for the functions of `os` that start programs.
fn is_starter(name: &str) -> bool {
    ["exec", "spawn", "posix_spawn", "system", "popen"]
        .iter()
        .any(|beginning| name.starts_with(beginning))
}

/// True for `CDLL(…)` and similar calls whose argument is not a literal string.
fn opens_unnamed(statement: &Statement<'_>) -> bool {
    for (index, pair) in statement.words.windows(2).enumerate() {
        let is_call = matches!(pair, ["CDLL" | "PyDLL" | "LoadLibrary" | "dlopen", "("]);
        if is_call && statement.literal(index + 2).is_none() {
            return true;
        }
    }
    false
}

struct Statement<'s> {
    words: Vec<&'s str>,
    /// The texts among the words, by their index.
    literals: Vec<(usize, String)>,
    line: usize,
    /// The column of its start; none if another statement precedes it on its line.
    indent: Option<usize>,
}

impl Statement<'_> {
    /// The text that is the word of this index.
    fn literal(&self, index: usize) -> Option<&str> {
        let (_, text) = self.literals.iter().find(|literal| literal.0 == index)?;
        Some(text)
    }
}

struct Scanner<'s> {
    text: &'s str,
    bytes: &'s [u8],
    position: usize,
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
        while let Some(&byte) = self.bytes.get(self.position) {
            if words.is_empty() {
                (start, indent) = (self.line, self.position - line_start);
            }
            if byte == b'\n' {
                line_start = self.position + 1;
            }
            let ends = depth == 0 && matches!(byte, b'\n' | b';' | b':');
            match byte {
                b'\\' if self.bytes.get(self.position + 1) == Some(&b'\n') => {
                    self.advance();
                    self.advance();
                }
                b'#' => {
                    let rest = &self.bytes[self.position..];
                    self.position += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                }
                b'\'' | b'"' => {
                    let literal =
                        self.string(is_formatted(words.last(), self.bytes, self.position));
                    literals.push((words.len(), literal.1.clone()));
                    self.strings.push(literal);
                    words.push("\"\"");
                }
                _ if ends || byte.is_ascii_whitespace() => self.advance(),
                _ if is_word(byte) => words.push(self.word()),
                _ => {
                    match byte {
                        b'(' | b'[' | b'{' => depth += 1,
                        b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    words.push(&self.text[self.position..=self.position]);
                    self.advance();
                }
            }
            let is_last = self.position >= self.bytes.len();
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
        if self.bytes.get(self.position) == Some(&b'\n') {
            self.line += 1;
        }
        self.position += 1;
    }

    fn word(&mut self) -> &'s str {
        let rest = &self.bytes[self.position..];
        let length = rest.iter().take_while(|byte| is_word(**byte)).count();
        self.position += length;
        &self.text[self.position - length..self.position]
    }

    /// Reads the literal that begins here. In a formatted one, an expression may hold strings of its own.
    fn string(&mut self, is_formatted: bool) -> (usize, String) {
        let line = self.line;
        let quote = self.bytes[self.position];
        let triple = self.bytes[self.position..].starts_with(&[quote; 3]);
        let closing: &[u8] = if triple { &[quote; 3] } else { &[quote] };
        self.position += closing.len();
        let mut text = Vec::new();
        let mut braces = 0_u32;
        loop {
            let rest = &self.bytes[self.position..];
            let plain = rest
                .iter()
                .position(|byte| matches!(byte, b'\'' | b'"' | b'\\' | b'{' | b'}' | b'\n'));
            let plain = plain.unwrap_or(rest.len());
            text.extend_from_slice(&rest[..plain]);
            self.position += plain;
            let Some(&byte) = rest.get(plain) else { break };
            if braces == 0 && rest[plain..].starts_with(closing) {
                self.position += closing.len();
                break;
            }
            match byte {
                b'\n' if !triple => break,
                b'\\' => {
                    text.push(byte);
                    self.advance();
                    if let Some(&escaped) = self.bytes.get(self.position) {
                        text.push(escaped);
                        self.advance();
                    }
                    continue;
                }
                b'{' if is_formatted
                    && self.bytes.get(self.position + 1) == Some(&b'{')
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

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// True if the letters right before a quote, `f`, `rb`, `Rf`, make its literal a formatted one.
fn is_formatted(word: Option<&&str>, bytes: &[u8], quote: usize) -> bool {
    let is_adjacent = quote > 0 && bytes[quote - 1].is_ascii_alphabetic();
    is_adjacent && word.is_some_and(|word| word.len() <= 2 && word.contains(['f', 'F', 't', 'T']))
}
