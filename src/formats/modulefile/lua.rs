//! Modules in Lua, as Lmod has them.

use super::{DEPTH, LENGTH, Modulefile, Values, join};

/// Nobody writes a call of so many tokens; a bound keeps brackets that are never closed from costing a square.
const ARGUMENTS: usize = 256;

#[derive(Debug, PartialEq)]
enum Token<'t> {
    Name(&'t str),
    Text(String),
    /// `..`
    Join,
    Symbol(char),
    Other,
}

pub fn read(text: &str) -> Modulefile {
    let tokens = tokens(text);
    let mut found = Modulefile::default();
    let mut values = Values::default();
    let mut at = 0;
    while at < tokens.len() {
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        let is_bare = !matches!(before, Some(Token::Symbol('.' | ':') | Token::Name("function")));
        at += match &tokens[at..] {
            [
                Token::Name(name @ ("setenv" | "pushenv" | "prepend_path" | "append_path")),
                Token::Symbol('(' | '{'),
                rest @ ..,
            ] if is_bare => {
                let (arguments, length) = arguments(rest).unwrap_or_default();
                let value = |index: usize| arguments.get(index).and_then(|tokens| whole(tokens, &values, 0));
                match (value(0), value(1)) {
                    (Some(variable), Some(value)) if name.ends_with("env") => {
                        found.set(variable, value);
                    }
                    (Some(variable), Some(value)) => found.add(&variable, &value),
                    _ => {}
                }
                2 + length
            }
            [Token::Name(name), Token::Symbol('='), rest @ ..]
                if is_bare && rest.first() != Some(&Token::Symbol('=')) =>
            {
                // Of several names at once each has a value of its own.
                let is_only = before != Some(&Token::Symbol(','));
                values.assign(name, first(rest, &values).filter(|_| is_only));
                2
            }
            _ => 1,
        };
    }
    found
}

/// The arguments of a call, after its bracket, and how many tokens they are with the closing one; none where it is not
/// closed soon.
fn arguments<'a, 't>(tokens: &'a [Token<'t>]) -> Option<(Vec<&'a [Token<'t>]>, usize)> {
    let mut found = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, token) in tokens.iter().enumerate().take(ARGUMENTS) {
        match token {
            Token::Symbol('(' | '{' | '[') => depth += 1,
            Token::Symbol(')' | '}' | ']') if depth == 0 => {
                found.push(&tokens[start..at]);
                return Some((found, at + 1));
            }
            Token::Symbol(')' | '}' | ']') => depth -= 1,
            Token::Symbol(',') if depth == 0 => {
                found.push(&tokens[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    None
}

/// The text that all of these tokens are.
fn whole(tokens: &[Token<'_>], values: &Values, depth: usize) -> Option<String> {
    let (value, length) = expression(tokens, values, depth)?;
    (length == tokens.len()).then_some(value)
}

/// The text that a value begins with, where the value ends with it.
fn first(tokens: &[Token<'_>], values: &Values) -> Option<String> {
    let (value, length) = expression(tokens, values, 0)?;
    let goes_on = match tokens.get(length) {
        Some(Token::Name(name)) => matches!(*name, "or" | "and"),
        Some(Token::Symbol(symbol)) => *symbol != ';',
        Some(_) => true,
        None => false,
    };
    (!goes_on).then_some(value)
}

/// Terms with `..` between, and how many tokens they are.
fn expression(tokens: &[Token<'_>], values: &Values, depth: usize) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut at = 0;
    loop {
        let (term, length) = term(tokens.get(at..)?, values, depth)?;
        value.push_str(&term);
        at += length;
        if value.len() > LENGTH {
            return None;
        }
        if tokens.get(at) != Some(&Token::Join) {
            return Some((value, at));
        }
        at += 1;
    }
}

fn term(tokens: &[Token<'_>], values: &Values, depth: usize) -> Option<(String, usize)> {
    if depth > DEPTH {
        return None;
    }
    match tokens {
        [Token::Text(text), ..] => Some((text.clone(), 1)),
        [Token::Name("pathJoin"), Token::Symbol('('), rest @ ..] => {
            let (arguments, length) = arguments(rest)?;
            let parts: Option<Vec<String>> =
                arguments.into_iter().map(|tokens| whole(tokens, values, depth + 1)).collect();
            Some((join(&parts?), 2 + length))
        }
        [Token::Name(_), Token::Symbol('(' | '.' | ':' | '[' | '{') | Token::Text(_), ..] => None,
        [Token::Name(name), ..] => Some((values.get(name)?.to_owned(), 1)),
        [Token::Symbol('('), rest @ ..] => {
            let (arguments, length) = arguments(rest)?;
            let [inside] = arguments.as_slice() else { return None };
            Some((whole(inside, values, depth + 1)?, 1 + length))
        }
        _ => None,
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if character.is_whitespace() {
            character.len_utf8()
        } else if let Some(comment) = rest.strip_prefix("--") {
            match long(comment) {
                Some((_, length)) => 2 + length,
                None => rest.find('\n').unwrap_or(rest.len()),
            }
        } else if let Some((inside, length)) = long(rest) {
            tokens.push(Token::Text(inside.to_owned()));
            length
        } else if matches!(character, '"' | '\'') {
            let (inside, length) = quoted(rest, character);
            tokens.push(Token::Text(inside));
            length
        } else if is_word(character) {
            let is_number = character.is_ascii_digit();
            let goes_on = |c: char| is_word(c) || is_number && c == '.';
            let end = rest.find(|c| !goes_on(c)).unwrap_or(rest.len());
            tokens.push(if is_number { Token::Other } else { Token::Name(&rest[..end]) });
            end
        } else if rest.starts_with("...") {
            tokens.push(Token::Other);
            3
        } else if rest.starts_with("..") {
            tokens.push(Token::Join);
            2
        } else {
            tokens.push(Token::Symbol(character));
            character.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// `[[text]]` or `[==[text]==]`: what is in it, and its length.
fn long(text: &str) -> Option<(&str, usize)> {
    let after = text.strip_prefix('[')?;
    let level = after.bytes().take_while(|byte| *byte == b'=').count();
    let inside = after.get(level..)?.strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    let start = 2 + level;
    Some(match inside.find(&close) {
        Some(end) => (&inside[..end], start + end + close.len()),
        None => (inside, text.len()),
    })
}

/// What stands in quotes, and its length with them.
fn quoted(text: &str, quote: char) -> (String, usize) {
    let mut inside = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == quote {
            return (inside, at + 1);
        }
        match character {
            '\\' => inside.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => inside.push(character),
        }
    }
    (inside, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"-- -*- lua -*-
help([[ prepend_path("LD_LIBRARY_PATH", "/help") ]])
--[==[ prepend_path("LD_LIBRARY_PATH", "/comment") ]==]
local version = "12.4"
local root = pathJoin("/opt", "cuda-" .. version)
local a, b = "/a", "/b"
local home = os.getenv("CUDA") or "/opt/guess"
setenv("CUDA_HOME", root)
pushenv("CUDA_ROOT", (root))
prepend_path("LD_LIBRARY_PATH", pathJoin(root, "lib64") .. ":" .. root .. '/extras')
append_path{"LIBRARY_PATH", root .. "/stubs", delim=":", priority=10}
prepend_path("LD_LIBRARY_PATH", b)
prepend_path("LD_LIBRARY_PATH", home)
prepend_path("LD_LIBRARY_PATH", pathJoin(root, myModuleVersion()))
if version == "11" then arch = "/x" else arch = "/y" end
prepend_path("LD_LIBRARY_PATH", arch)
x.prepend_path("LD_LIBRARY_PATH", "/method")
prepend_path("LD_LIBRARY_PATH", "relative")
"#;

    #[test]
    fn reads_what_is_written_out() {
        let found = read(SAMPLE);
        let added: Vec<String> = found.added.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(
            added,
            [
                "LD_LIBRARY_PATH /opt/cuda-12.4/lib64",
                "LD_LIBRARY_PATH /opt/cuda-12.4/extras",
                "LIBRARY_PATH /opt/cuda-12.4/stubs",
            ]
        );
        let set: Vec<String> = found.set.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(set, ["CUDA_HOME /opt/cuda-12.4", "CUDA_ROOT /opt/cuda-12.4"]);
    }

    #[test]
    fn any_text_gives_a_result() {
        for end in 0..SAMPLE.len() {
            read(&SAMPLE[..end]);
        }
        for text in [
            "[",
            "[[",
            "[=",
            "[==[",
            "\"",
            "'\\",
            "\"\\é",
            "a =",
            "..",
            "setenv(",
            "setenv()",
            "setenv(,)",
            "é = é",
        ] {
            read(text);
        }
        for long in
            ["setenv(", "a=(", "a=pathJoin(", "(", "a=a..", "a=\"\"..", "[", "[=", "\"", "--", "setenv(a,"]
        {
            read(&long.repeat(20_000));
        }
        read(&format!("a = {}", "pathJoin(".repeat(10_000)));
        read(&format!("a = {}\"x\"{}", "(".repeat(10_000), ")".repeat(10_000)));
    }
}
