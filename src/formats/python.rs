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
}

pub fn read(source: &[u8]) -> Source {
    let text = String::from_utf8_lossy(source);
    let mut scanner = Scanner { bytes: text.as_bytes(), at: 0, line: 1, strings: Vec::new() };
    let mut found = Source::default();
    for statement in scanner.statements() {
        let words: Vec<&str> = statement.words.iter().map(String::as_str).collect();
        found.dynamic |= is_dynamic(&words);
        match words.split_first() {
            Some((&"import", rest)) => found.imports.extend(plain_imports(rest, statement.line)),
            Some((&"from", rest)) => found.imports.extend(from_import(rest, statement.line)),
            _ => {}
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
        .map(|module| Import { module, level: 0, names: Vec::new(), line })
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
    Some(Import { module: module.to_owned(), level, names, line })
}

fn is_dotted_name(text: &str) -> bool {
    !text.is_empty()
        && text.split('.').all(|part| {
            part.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_')
                && part.chars().all(|c| c.is_alphanumeric() || c == '_')
        })
}

/// `__import__(…)`, `import_module(…)`, `exec(…)`, `eval(…)`, `runpy.…`: what runs is known only when it runs.
fn is_dynamic(words: &[&str]) -> bool {
    let calls = words.windows(2).any(|pair| {
        matches!(pair[0], "__import__" | "import_module" | "exec" | "eval" | "find_spec") && pair[1] == "("
    });
    calls || words.contains(&"runpy")
}

struct Statement {
    words: Vec<String>,
    line: usize,
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
        let mut done = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut start = self.line;
        let mut depth = 0_u32;
        while let Some(&byte) = self.bytes.get(self.at) {
            if words.is_empty() {
                start = self.line;
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
            if ends && !words.is_empty() {
                done.push(Statement { words: std::mem::take(&mut words), line: start });
            }
        }
        if !words.is_empty() {
            done.push(Statement { words, line: start });
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
        assert!(read(b"m = importlib.import_module(name)").dynamic);
        assert!(read(b"__import__('torch')").dynamic);
        assert!(read(b"exec(open('x').read())").dynamic);
        assert!(!read(b"import importlib\nx = 'exec(1)'\nexecute(1)").dynamic);
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
