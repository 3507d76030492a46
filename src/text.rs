//! Makes text and paths from disk, which may be hostile, safe for a terminal and for JSON. Imports nothing of the crate.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fmt::Display;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Serialize, Serializer};
use strsim::osa_distance;

/// Patterns for the names of values, and of options, that promise a secret.
pub const SECRET_NAME: &str = r"\w*(?:token|secret|passw|api[_-]?key|access[_-]?key)[\w-]*";
pub const SECRET_OPTION: &str = r"--[\w-]*(?:token|secret|passw|key)[\w-]*";

/// Escapes control characters and characters that reorder or hide text. Bytes that are not UTF-8 become `\xNN`.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if is_hostile(character) {
                out.extend(character.escape_unicode());
            } else {
                out.push(character);
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// A path or name, escaped.
pub fn show(name: &(impl AsRef<OsStr> + ?Sized)) -> String {
    escape(name.as_ref().as_bytes())
}

/// For `#[serde(serialize_with = "text::path")]`: U+FFFD replaces bytes that are not UTF-8.
pub fn path<S: Serializer>(path: impl AsRef<Path>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.as_ref().to_string_lossy())
}

/// For `#[serde(flatten, serialize_with = "text::with_words")]`: see [`InWords`].
pub fn with_words<S: Serializer>(
    value: &(impl Serialize + Display),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    InWords::from(value).serialize(serializer)
}

/// An object with its sentence as `why`.
#[derive(Serialize)]
pub struct InWords<'o, T> {
    #[serde(flatten)]
    value: &'o T,
    why: String,
}

impl<'o, T: Display> From<&'o T> for InWords<'o, T> {
    fn from(value: &'o T) -> Self {
        let why = value.to_string();
        InWords { value, why }
    }
}

/// Like [`path`], for an optional path.
pub fn optional_path<S: Serializer>(
    path: &Option<impl AsRef<Path>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.serialize_some(&path.as_ref().to_string_lossy()),
        None => serializer.serialize_none(),
    }
}

/// Like [`path`], for a list of paths.
pub fn paths<S: Serializer, P: AsRef<Path>>(
    paths: impl IntoIterator<Item = P>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        paths
            .into_iter()
            .map(|path| path.as_ref().to_string_lossy().into_owned()),
    )
}

/// Like `list`, for words from disk.
pub fn shown(items: impl IntoIterator<Item: AsRef<OsStr>>) -> String {
    list(items.into_iter().map(|item| show(&item)))
}

/// `a`, `a and b`, `a, b and c`.
pub fn list(items: impl IntoIterator<Item: Display>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    match items.as_slice() {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The first 80 characters: a value may be a whole book.
pub fn short(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", show(&text[..end])),
        None => show(text),
    }
}

/// Removes user names and passwords from addresses: `https://name:word@host` becomes `https://host`.
pub fn without_logins(text: &str) -> Cow<'_, str> {
    static LOGIN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("://[^/[:space:]]*@").expect("a pattern of ours"));
    LOGIN.replace_all(text, "://")
}

/// The operating system's message without the number of the error.
pub fn plain(text: &str) -> &str {
    text.split(" (os error ").next().unwrap_or_default()
}

/// Like [`plain`], in small letters.
pub fn os(error: &io::Error) -> String {
    plain(&error.to_string()).to_lowercase()
}

/// `571.0 MB`
pub fn size(bytes: u64) -> String {
    let (tenths, unit) = match bytes {
        0..1_000_000 => (bytes / 100, "kB"),
        1_000_000..1_000_000_000 => (bytes / 100_000, "MB"),
        _ => (bytes / 100_000_000, "GB"),
    };
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// `139.8 GiB`
pub fn binary_size(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    let (unit, name) = if bytes >= MIB << 10 {
        (MIB << 10, "GiB")
    } else {
        (MIB, "MiB")
    };
    format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit)
}

/// A string of TOML.
pub fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// The name that differs least from the typed one: by one letter, by two in a long word, or by letters that changed places. Of
/// equally near ones, the one that begins most like it.
pub fn nearest<'n>(typed: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let far = if typed.len() > 5 { 2 } else { 1 };
    let mut nearest = None;
    for name in names {
        // Comparing a whole book with every name takes too long.
        if typed.len() <= 2 || typed.len().abs_diff(name.len()) > 4 * far {
            continue;
        }
        let distance = osa_distance(typed, name);
        let pairs = typed.bytes().zip(name.bytes());
        let beginning = pairs.take_while(|(a, b)| a == b).count();
        let rank = (distance, Reverse(beginning));
        if (1..=far).contains(&distance) && nearest.is_none_or(|(best, _)| rank < best) {
            nearest = Some((rank, name));
        }
    }
    nearest.map(|(_, name)| name)
}

/// True for a control character, and for one that turns the direction of text or has no width.
pub fn is_hostile(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Bytes as digits, two for each.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_is_shown_not_obeyed() {
        assert_eq!(escape(b"plain/libcudnn.so.9"), "plain/libcudnn.so.9");
        assert_eq!(escape("Bücher".as_bytes()), "Bücher");
        assert_eq!(escape(b"a\x1b[2Jb\nc"), "a\\u{1b}[2Jb\\u{a}c");
        assert_eq!(escape("x\u{202e}y".as_bytes()), "x\\u{202e}y");
        assert_eq!(escape(b"\xff\xfe"), "\\xff\\xfe");
    }

    #[test]
    fn names_and_passwords_are_removed_from_addresses() {
        for (line, shown) in [
            ("no address", "no address"),
            (
                "GET https://user:word@host/simple/ failed",
                "GET https://host/simple/ failed",
            ),
            ("https://a@b https://c:d@e:8080", "https://b https://e:8080"),
            ("https://host/path@1.0", "https://host/path@1.0"),
            ("https://us@er:wo@host x", "https://host x"),
        ] {
            assert_eq!(without_logins(line), shown);
        }
    }

    #[test]
    fn a_book_is_like_no_name_at_once() {
        let book = "c".repeat(1 << 20);
        let names = std::iter::repeat_n("cublas", 1000);
        assert_eq!(nearest(&book, names.clone()), None);
        assert_eq!(nearest("cublass", names), Some("cublas"), "the control");
    }
}
