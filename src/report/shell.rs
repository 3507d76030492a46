//! Changes of an environment as code for shells. Values may hold any bytes.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::cli::Dialect;
use crate::environment::Change;
use crate::text::show;

/// A change of the environment; `None` if the name cannot be a shell variable, since it could be code.
pub fn shell_change(change: &Change, dialect: Dialect) -> Option<String> {
    let name = name(&change.name)?;
    Some(match (&change.value, dialect) {
        (Some(value), Dialect::Fish) => format!("set -gx {name} {}\n", quoted_for_fish(value)),
        // An inherited variable is global; a universal one is the user's own. An unset variable is no failure.
        (None, Dialect::Fish) => format!("set -eg {name}; or true\n"),
        (Some(value), Dialect::Sh | Dialect::Direnv) => format!("export {name}={}\n", quoted(value)),
        (None, Dialect::Sh | Dialect::Direnv) => format!("unset {name}\n"),
    })
}

/// Tells direnv to watch a file.
pub fn watch(path: &Path) -> String {
    format!("watch_file {}\n", quoted(path.as_os_str()))
}

/// The warning for a change that is left out.
pub fn no_variable_of_a_shell(name: &OsStr) -> String {
    format!("no shell can set a variable named `{}`: it is left out", show(name))
}

/// The shell that opens, and the place that names it.
pub fn subshell(shell: &Path, named_by: &str) -> String {
    format!("shell: {}, by {named_by}", show(shell))
}

/// The remark for a shell that opens inside another one of ours.
pub fn nested_shell(outer: &str) -> String {
    format!("this shell is inside the shell of `{}`, which `exit` leads back to", show(outer))
}

/// The warning for a shell with a mode that reaches all programs.
pub fn shell_reaches() -> &'static str {
    "a program of another environment may load the libraries of this shell together with its own: start it with `cudarun`"
}

fn name(name: &OsStr) -> Option<&str> {
    let text = name.to_str()?;
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_name = is_word && !text.starts_with(|first: char| first.is_ascii_digit());
    (is_name && !text.is_empty()).then_some(text)
}

/// Single quotes protect everything but themselves. Bytes that are not text go through `printf`.
pub(super) fn quoted(value: &OsStr) -> String {
    let chunks = value.as_bytes().utf8_chunks();
    let part = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let quoted: String = chunks
        .flat_map(|chunk| {
            let text = Some(chunk.valid()).filter(|text| !text.is_empty()).map(part);
            let rest = Some(chunk.invalid()).filter(|rest| !rest.is_empty()).map(in_octal);
            [text, rest]
        })
        .flatten()
        .collect();
    if quoted.is_empty() { "''".to_owned() } else { quoted }
}

/// Like `quoted`, for a command that a terminal shows first.
pub(super) fn quoted_to_show(value: &OsStr) -> String {
    let is_harmless = value.to_str().is_some_and(|text| show(text) == text);
    if is_harmless {
        return quoted(value);
    }
    // A command substitution drops line ends at the end.
    let bytes = value.as_bytes();
    let length = bytes.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
    let (whole, ends) = bytes.split_at(length);
    let ends = if ends.is_empty() { String::new() } else { quoted(OsStr::from_bytes(ends)) };
    in_octal(whole) + &ends
}

fn in_octal(bytes: &[u8]) -> String {
    let octal: String = bytes.iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!("\"$(printf '{octal}')\"")
}

/// In fish's single quotes a backslash protects itself and a quote. Bytes that are not text follow outside of them.
fn quoted_for_fish(value: &OsStr) -> String {
    let mut quoted = String::from("'");
    for chunk in value.as_bytes().utf8_chunks() {
        quoted.push_str(&chunk.valid().replace('\\', "\\\\").replace('\'', "\\'"));
        if !chunk.invalid().is_empty() {
            quoted.push('\'');
            for byte in chunk.invalid() {
                let _ = write!(quoted, "\\X{byte:02x}");
            }
            quoted.push('\'');
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::process::{Command, Stdio};

    use super::*;

    fn change(name: &str, value: Option<&[u8]>) -> Change {
        Change { name: name.into(), value: value.map(|value| OsString::from_vec(value.to_vec())) }
    }

    /// Values that break what quotes carelessly.
    fn values() -> Vec<Vec<u8>> {
        let mut values: Vec<Vec<u8>> = [
            "",
            "/a:/b c",
            "it's",
            "'",
            "''",
            "'''",
            "a'\n'b",
            "\n",
            "\n\n",
            "text\n",
            "$(touch code) `touch code` ${HOME} $HOME",
            "\\",
            "\\\\",
            "a\\",
            "\\'",
            "\\n\\x41",
            "\" !history * ? [a] {a,b} ~ # ; & | < > ( )",
            "%s %% \\045",
            "\r\t\x07\x1b[31m\x7f",
            "ä ß 語 🐟 \u{f6aa} \u{fdd0}",
            "-n",
            "::",
            ":/a::/b:",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec();
        values.extend(
            [&b"\xff"[..], b"\xff\n", b"a\xc3", b"\xc3('\xfe'\\\xfd\n\xfc", b"/caf\xe9:/b"]
                .map(<[u8]>::to_vec),
        );
        values.push((1..=255).collect());
        values
    }

    /// The environment of a program that a shell starts after this code.
    fn environment(shell: &[&str], code: &str, locale: &str) -> Vec<Vec<u8>> {
        let all = format!("{code}\nexec env -0\n");
        let mut command = Command::new(shell[0]);
        command.args(&shell[1..]).arg(all).env_clear().env("PATH", "/usr/bin:/bin").env("GONE", "1");
        command.env("LC_ALL", locale).env("HOME", "/nonexistent").current_dir("/");
        let output = command.stdin(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
        assert!(output.stderr.is_empty(), "{shell:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn every_shell_reads_any_value_back() {
        let shells: [(&[&str], Dialect); 7] = [
            (&["sh", "-c"], Dialect::Sh),
            (&["dash", "-c"], Dialect::Sh),
            (&["bash", "-c"], Dialect::Sh),
            (&["bash", "-euo", "pipefail", "-c"], Dialect::Direnv),
            (&["zsh", "-f", "-c"], Dialect::Sh),
            (&["zsh", "-f", "-o", "rc_quotes", "-c"], Dialect::Sh),
            (&["fish", "--no-config", "-c"], Dialect::Fish),
        ];
        for (shell, dialect) in shells {
            if Command::new(shell[0]).args(["-c", "true"]).output().is_err() {
                assert!(std::env::var_os("CUDARUN_TESTS_ALL").is_none(), "no {}", shell[0]);
                continue;
            }
            for locale in ["C.UTF-8", "C"] {
                let values = values();
                let mut code = String::new();
                // fish splits variables with such names at colons, and joins them again.
                for end in ["", "_PATH"] {
                    for (index, value) in values.iter().enumerate() {
                        let change = change(&format!("V{index}{end}"), Some(value));
                        code.push_str(&shell_change(&change, dialect).unwrap());
                    }
                }
                code.push_str(&shell_change(&change("GONE", None), dialect).unwrap());
                let got = environment(shell, &code, locale);
                for end in ["", "_PATH"] {
                    for (index, value) in values.iter().enumerate() {
                        let wanted = [format!("V{index}{end}=").as_bytes(), value].concat();
                        assert!(got.contains(&wanted), "{shell:?} {locale}: {}", wanted.escape_ascii());
                    }
                }
                assert!(!got.iter().any(|variable| variable.starts_with(b"GONE=")), "{shell:?}");
            }
        }
    }

    #[test]
    fn quoted_commands_keep_their_bytes() {
        for value in values() {
            let value = OsStr::from_bytes(&value);
            let code = format!("export X={}", quoted_to_show(value));
            let wanted = [b"X=", value.as_bytes()].concat();
            assert!(environment(&["sh", "-c"], &code, "C.UTF-8").contains(&wanted), "{code}");
        }
    }

    #[test]
    fn a_name_is_never_code() {
        for name in ["", "1A", "A B", "A;touch /code", "A\n", "A$(id)", "Ä", "A.B", "A-B", "A[0]"] {
            for dialect in [Dialect::Sh, Dialect::Fish, Dialect::Direnv] {
                for value in [Some(&b"x"[..]), None] {
                    assert_eq!(shell_change(&change(name, value), dialect), None, "{name}");
                }
            }
        }
        let fine = shell_change(&change("_a1", Some(b"it's $x")), Dialect::Sh);
        assert_eq!(fine.unwrap(), "export _a1='it'\\''s $x'\n");
        assert_eq!(watch(Path::new("/a b")), "watch_file '/a b'\n");
    }
}
