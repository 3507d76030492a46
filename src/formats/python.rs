//! Python source, read as far as it takes to know what it imports and which names it writes out.
//! Not a parser: it splits the text into strings, comments and statements, and works on any version of
//! the language and on files that Python would refuse.

/// What a piece of source says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    pub imports: Vec<Import>,
    /// The contents of string literals, with the line each begins on.
    pub strings: Vec<(usize, String)>,
    /// Whether it imports or runs what only the program itself knows.
    pub dynamic: bool,
}

/// One module that an `import` or a `from … import` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Dotted; for a relative import what follows the dots, perhaps nothing.
    pub module: String,
    /// The number of leading dots.
    pub level: usize,
    /// What is imported from it: each may be a submodule.
    pub names: Vec<String>,
    pub line: usize,
    /// It stands under a `try`: the program goes on without it.
    pub is_tried: bool,
    /// It stands outside of every block: it is run whenever the file is.
    pub is_outermost: bool,
}

pub fn read(source: &[u8]) -> Source {
    let source = source.strip_prefix(b"\xef\xbb\xbf").unwrap_or(source);
    let text = String::from_utf8_lossy(source).replace("\r\n", "\n").replace('\r', "\n");
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, line: 1, strings: Vec::new() };
    // What is no text is compiled or packed, and runs all the same.
    let mut found = Source { dynamic: text.contains('\0'), ..Source::default() };
    let mut tries: Vec<usize> = Vec::new();
    for statement in scanner.statements() {
        let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
        if let Some(indent) = statement.indent {
            tries.retain(|outer| *outer < indent);
        }
        // What follows another statement on its line may belong to a block.
        let is_outermost = statement.indent == Some(0);
        let from = found.imports.len();
        match words.split_first() {
            Some((&"try", [])) => tries.push(statement.indent.unwrap_or(usize::MAX - 1)),
            Some((&"import", rest)) => found.imports.extend(plain_imports(rest, statement.line)),
            Some((&"from", rest)) => found.imports.extend(from_import(rest, statement.line)),
            _ => {
                let (dynamic, named) = calls(&statement);
                found.dynamic |= dynamic;
                found.imports.extend(named);
            }
        }
        for import in &mut found.imports[from..] {
            import.is_tried = !tries.is_empty();
            import.is_outermost = is_outermost;
        }
    }
    found.strings = scanner.strings;
    found
}

/// `a.b as c, d` → `a.b`, `d`.
fn plain_imports(words: &[&str], line: usize) -> Vec<Import> {
    words
        .split(|word| *word == ",")
        .map(|part| part.iter().take_while(|word| **word != "as").copied().collect::<String>())
        .filter(|module| is_dotted_name(module))
        .map(|module| Import {
            module,
            level: 0,
            names: Vec::new(),
            line,
            is_tried: false,
            is_outermost: false,
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
    Some(Import { module: module.to_owned(), level, names, line, is_tried: false, is_outermost: false })
}

fn is_dotted_name(text: &str) -> bool {
    !text.is_empty()
        && text.split('.').all(|part| {
            part.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_')
                && part.chars().all(|c| c.is_alphanumeric() || c == '_')
        })
}

/// What a statement calls that decides only at run time what runs: `import_module(…)`, `exec(…)`,
/// `runpy.…`, another Python through `sys.executable`. With a plain text for its argument, an import is
/// as good as a statement.
fn calls(statement: &Statement) -> (bool, Vec<Import>) {
    let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
    let (mut dynamic, mut named) = (words.contains(&"runpy"), Vec::new());
    for (at, word) in words.iter().enumerate() {
        let is_called = words.get(at + 1) == Some(&"(");
        let is_attribute = at > 0 && words[at - 1] == ".";
        match *word {
            "import_module" | "__import__" if is_called => {
                let literal = statement.literals.iter().find(|(index, _)| *index == at + 2);
                let is_whole = matches!(words.get(at + 3), Some(&("," | ")")));
                match literal.filter(|(_, text)| is_whole && is_dotted_name(text)) {
                    Some((_, module)) => named.push(Import {
                        module: module.clone(),
                        level: 0,
                        names: Vec::new(),
                        line: statement.line,
                        is_tried: false,
                        is_outermost: false,
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

struct Statement {
    words: Vec<String>,
    /// The texts among the words, by their index.
    literals: Vec<(usize, String)>,
    line: usize,
    /// How far in it begins; none where another one stands before it on its line.
    indent: Option<usize>,
}

struct Scanner<'s> {
    bytes: &'s [u8],
    at: usize,
    line: usize,
    strings: Vec<(usize, String)>,
}

impl Scanner<'_> {
    /// Cuts the text at line ends, `;` and the `:` of compound statements, outside of brackets and strings.
    fn statements(&mut self) -> Vec<Statement> {
        let mut done: Vec<Statement> = Vec::new();
        let mut words: Vec<String> = Vec::new();
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
            let ends = match byte {
                b'\n' => {
                    self.advance();
                    depth == 0
                }
                b'\\' if self.bytes.get(self.at + 1) == Some(&b'\n') => {
                    self.advance();
                    self.advance();
                    false
                }
                b'#' => {
                    self.skip_comment();
                    false
                }
                b'\'' | b'"' => {
                    let literal = self.string(prefix_of(words.last(), self.bytes, self.at));
                    literals.push((words.len(), literal.1.clone()));
                    self.strings.push(literal);
                    words.push("\"\"".to_owned());
                    false
                }
                b';' | b':' if depth == 0 => {
                    self.advance();
                    true
                }
                _ if byte.is_ascii_whitespace() => {
                    self.advance();
                    false
                }
                _ if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80 => {
                    words.push(self.word());
                    false
                }
                _ => {
                    match byte {
                        b'(' | b'[' | b'{' => depth += 1,
                        b')' | b']' | b'}' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    words.push(char::from(byte).to_string());
                    self.advance();
                    false
                }
            };
            let is_last = self.at >= self.bytes.len();
            if (ends || is_last) && !words.is_empty() {
                done.push(Statement {
                    words: std::mem::take(&mut words),
                    literals: std::mem::take(&mut literals),
                    line: start,
                    indent: (start != shared_line).then_some(indent),
                });
                shared_line = if byte == b'\n' { 0 } else { self.line };
            }
        }
        done
    }

    fn advance(&mut self) {
        if self.bytes.get(self.at) == Some(&b'\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    fn skip_comment(&mut self) {
        let rest = &self.bytes[self.at..];
        self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
    }

    fn word(&mut self) -> String {
        let rest = &self.bytes[self.at..];
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let length = rest.iter().take_while(|byte| is_word(byte)).count();
        self.at += length;
        String::from_utf8_lossy(&rest[..length]).into_owned()
    }

    /// Reads the literal that begins here. In a formatted one, an expression may hold strings of its own.
    fn string(&mut self, prefix: Prefix) -> (usize, String) {
        let line = self.line;
        let quote = self.bytes[self.at];
        let triple = self.bytes[self.at..].starts_with(&[quote; 3]);
        let closing: &[u8] = if triple { &[quote; 3] } else { &[quote] };
        self.at += closing.len();
        let mut text = Vec::new();
        let mut braces = 0_u32;
        while let Some(&byte) = self.bytes.get(self.at) {
            if braces == 0 && self.bytes[self.at..].starts_with(closing) {
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
                b'{' if prefix.formatted && self.bytes.get(self.at + 1) == Some(&b'{') && braces == 0 => {
                    self.advance();
                }
                b'{' if prefix.formatted => braces += 1,
                b'}' if prefix.formatted => braces = braces.saturating_sub(1),
                b'\'' | b'"' if braces > 0 => {
                    let nested = self.string(Prefix { formatted: false });
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

#[derive(Clone, Copy)]
struct Prefix {
    formatted: bool,
}

/// The letters right before a quote: `f`, `rb`, `Rf`.
fn prefix_of(word: Option<&String>, bytes: &[u8], at: usize) -> Prefix {
    let adjacent = at > 0 && bytes[at - 1].is_ascii_alphabetic();
    let formatted = adjacent
        && word.is_some_and(|word| {
            word.len() <= 2 && word.bytes().any(|byte| matches!(byte, b'f' | b'F' | b't' | b'T'))
        });
    Prefix { formatted }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(source: &str) -> Vec<String> {
        let dots = |import: Import| ".".repeat(import.level) + &import.module;
        read(source.as_bytes()).imports.into_iter().map(dots).collect()
    }

    #[test]
    fn finds_imports_wherever_they_stand() {
        let source = "\
#!/usr/bin/env python3
\"\"\"Doc: import numpy\"\"\"
import os, sys as system; import torch.nn as nn
from . import local
from ..pkg.mod import (a,
    b as c)  # import tensorflow
try: import jax
except ImportError:
    def f():
        from cupy import \\
            ndarray
text = 'import paddle'
data = {'import': 1}; important = 3
lambda x: x
if True: from a.b import c
";
        assert_eq!(modules(source), ["os", "sys", "torch.nn", ".", "..pkg.mod", "jax", "cupy", "a.b"]);
        let imports = read(source.as_bytes()).imports;
        assert_eq!(imports[2].line, 3);
        assert_eq!(imports[4].names, ["a", "b"]);
        assert_eq!(imports[3].names, ["local"]);
    }

    #[test]
    fn reads_strings_but_not_comments() {
        let source = "x = CDLL('libcudnn.so.9')  # libcublas.so.12\ny = f\"{d['k']}/libcufft.so.11\"\nz = r'''a\nlibnvrtc.so'''\n";
        let strings: Vec<_> = read(source.as_bytes()).strings;
        let texts: Vec<_> = strings.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(
            texts,
            [(1, "libcudnn.so.9"), (2, "k"), (2, "{d[]}/libcufft.so.11"), (3, "a\nlibnvrtc.so")]
        );
    }

    #[test]
    fn says_when_only_the_program_knows() {
        for open in
            ["m = importlib.import_module(name)", "exec(code)", "run([sys.executable, 'x.py'])", "PK\0"]
        {
            assert!(read(open.as_bytes()).dynamic, "{open}");
        }
        for closed in [
            "import importlib\nx = 'exec(1)'\nexecute(1)",
            "model.eval(); cursor.exec(x)",
            "importlib.import_module('torch')",
            "__import__('torch', x)",
        ] {
            assert!(!read(closed.as_bytes()).dynamic, "{closed}");
        }
        assert_eq!(
            modules("x = importlib.import_module('torch.nn')\n__import__(\"jax\")"),
            ["torch.nn", "jax"]
        );
    }

    #[test]
    fn knows_what_is_only_tried() {
        let source = "try: import a\nexcept ImportError:\n    import b\ndef f():\n    try:\n        x = 1\n        from c import d\n    finally:\n        import e\nimport g";
        let tried: Vec<_> =
            read(source.as_bytes()).imports.into_iter().map(|i| (i.module, i.is_tried)).collect();
        let expected = [("a", true), ("b", false), ("c", true), ("e", false), ("g", false)];
        assert_eq!(tried, expected.map(|(module, tried)| (module.to_owned(), tried)));
    }

    #[test]
    fn reads_bytes_as_python_does() {
        assert_eq!(modules("\u{feff}import torch"), ["torch"]);
        assert_eq!(modules("import \\\r\n  torch\r\nimport jax\rimport cupy"), ["torch", "jax", "cupy"]);
    }

    #[test]
    fn any_text_gives_a_result() {
        for source in [
            "'",
            "\"\"\"",
            "f'{",
            "f'{'",
            "\\",
            "import",
            "from",
            "from import",
            "import a.",
            "((((",
            "))))",
            "f\"{{\"",
            "\0import\0x",
        ] {
            read(source.as_bytes());
        }
        let all: Vec<u8> = (0..=255).collect();
        read(&all);
        read("f'{".repeat(3000).as_bytes());
    }
}
