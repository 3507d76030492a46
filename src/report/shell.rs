//! Changes of an environment as code for shells. Values may hold any bytes.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::cli::Dialect;
use crate::text::show;
use crate::variables;

/// A change of the environment; `None` if the name cannot be a shell variable, since it could be code.
pub fn shell_change(name: &OsStr, value: Option<&OsStr>, dialect: Dialect) -> Option<String> {
    let name = self::name(name)?;
    Some(match (value, dialect) {
        (Some(value), Dialect::Fish) => format!("set -gx {name} {}\n", quoted_for_fish(value)),
        // An inherited variable is global; a universal one is the user's own. An unset variable is no failure.
        (None, Dialect::Fish) => format!("set -eg {name}; or true\n"),
        (Some(value), Dialect::Sh | Dialect::Direnv) => {
            format!("export {name}={}\n", quoted(value))
        }
        (None, Dialect::Sh | Dialect::Direnv) => format!("unset {name}\n"),
        (Some(value), Dialect::Module) => format!("setenv {name} {}\n", quoted_for_tcl(value)),
        (None, Dialect::Module) => format!("unsetenv {name}\n"),
        (Some(value), Dialect::Lua) => {
            format!("setenv(\"{name}\", {})\n", quoted_for_lua(value))
        }
        (None, Dialect::Lua) => format!("unsetenv(\"{name}\")\n"),
        (Some(value), Dialect::Systemd) => {
            format!("Environment={}\n", quoted_for_systemd(name, value))
        }
        (None, Dialect::Systemd) => format!("UnsetEnvironment={name}\n"),
    })
}

/// The lines by which whatever is started follows: the loader asks `module` in every process, and `tree` is the variable by
/// which it knows that. They do nothing twice, and nothing where the module is gone, since the loader would print a line in
/// every process. systemd cannot tell.
pub fn follow_lines(module: &Path, tree: &OsStr, dialect: Dialect) -> String {
    let path = module.as_os_str();
    let name = variables::TREE;
    match dialect {
        Dialect::Sh | Dialect::Direnv => {
            let (path, tree) = (quoted(path), quoted(tree));
            let watch = match dialect {
                Dialect::Direnv => format!("watch_file {path}\n"),
                _ => String::new(),
            };
            format!(
                "{watch}case :${{LD_AUDIT-}}: in\n*:{path}:*) ;;\n*)\n    if [ -r {path} ]; then\n        \
                 export LD_AUDIT=\"${{LD_AUDIT:+$LD_AUDIT:}}\"{path} {name}={tree}\n    fi ;;\nesac\n"
            )
        }
        Dialect::Fish => {
            let (path, tree) = (quoted_for_fish(path), quoted_for_fish(tree));
            format!(
                "if test -r {path}; and not contains -- {path} (string split : -- \"$LD_AUDIT\")\n    \
                 set -gx LD_AUDIT (string join : -- $LD_AUDIT {path})\n    set -gx {name} {tree}\nend\n"
            )
        }
        // Unloading takes back what is gone, and nothing in a shell that follows by a cudarun above it.
        Dialect::Module => {
            let (path, tree) = (quoted_for_tcl(path), quoted_for_tcl(tree));
            format!(
                "#%Module\nset module {path}\nset tree {tree}\n\
                 if {{ (![info exists ::env({name})] || $::env({name}) eq $tree) &&\n        \
                 (![module-info mode load] || [file readable $module]) }} {{\n    \
                 append-path LD_AUDIT $module\n    setenv {name} $tree\n}}\n"
            )
        }
        Dialect::Lua => {
            let (path, tree) = (quoted_for_lua(path), quoted_for_lua(tree));
            format!(
                "local module, tree = {path}, {tree}\n\
                 if (os.getenv(\"{name}\") or tree) == tree and (mode() ~= \"load\" or isFile(module)) then\n    \
                 append_path(\"LD_AUDIT\", module)\n    setenv(\"{name}\", tree)\nend\n"
            )
        }
        Dialect::Systemd => {
            let set = [(variables::AUDIT, path), (name, tree)]
                .map(|(name, value)| quoted_for_systemd(name, value));
            format!("Environment={}\n", set.join(" "))
        }
    }
}

/// Tells direnv to watch a file.
pub fn watch(path: &Path) -> String {
    format!("watch_file {}\n", quoted(path.as_os_str()))
}

/// The warning for a change that is left out.
pub fn no_variable_of_a_shell(name: &OsStr) -> String {
    format!(
        "no shell can set a variable named `{}`: it is left out",
        show(name)
    )
}

/// The shell that opens, and the place that names it.
pub fn subshell(shell: &Path, named_by: &str) -> String {
    format!("shell: {}, by {named_by}", show(shell))
}

fn name(name: &OsStr) -> Option<&str> {
    let text = name.to_str()?;
    let is_word = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_name = is_word && !text.starts_with(|first: char| first.is_ascii_digit());
    (is_name && !text.is_empty()).then_some(text)
}

/// Single quotes protect everything but themselves. Bytes that are not text go through `printf`.
pub(super) fn quoted(value: &OsStr) -> String {
    if value.is_empty() {
        return "''".to_owned();
    }
    let mut quoted = String::new();
    for chunk in value.as_bytes().utf8_chunks() {
        if !chunk.valid().is_empty() {
            quoted.push_str(&format!("'{}'", chunk.valid().replace('\'', "'\\''")));
        }
        if !chunk.invalid().is_empty() {
            quoted.push_str(&in_octal(chunk.invalid()));
        }
    }
    quoted
}

/// Like `quoted`, for a command that a terminal shows first.
pub fn quoted_to_show(value: &OsStr) -> String {
    let is_harmless = value.to_str().is_some_and(|text| show(text) == text);
    if is_harmless {
        return quoted(value);
    }
    // A command substitution drops line ends at the end.
    let bytes = value.as_bytes();
    let length = bytes
        .iter()
        .rposition(|byte| *byte != b'\n')
        .map_or(0, |last| last + 1);
    let (whole, ends) = bytes.split_at(length);
    let ends = if ends.is_empty() {
        String::new()
    } else {
        quoted(OsStr::from_bytes(ends))
    };
    in_octal(whole) + &ends
}

/// Octal numbers for bytes that mean something to `printf`, or to an interactive shell.
fn in_octal(bytes: &[u8]) -> String {
    let mut octal = String::new();
    for byte in bytes {
        if *byte == b' ' || byte.is_ascii_graphic() && !br"%\'-!".contains(byte) {
            octal.push(char::from(*byte));
        } else {
            let _ = write!(octal, "\\{byte:03o}");
        }
    }
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

/// In Tcl's braces nothing has a meaning but braces and backslashes. A file that is read as code loses carriage returns,
/// and a backslash before a letter can mean another character.
fn quoted_for_tcl(value: &OsStr) -> String {
    let text = value.to_string_lossy();
    let is_special = |one: char| "{}\\".contains(one) || one.is_ascii_control();
    if !text.contains(is_special) {
        return format!("{{{text}}}");
    }
    let mut quoted = String::from("\"");
    for one in text.chars() {
        match one {
            _ if one.is_ascii_control() => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(one));
            }
            _ if one.is_ascii_punctuation() => quoted.extend(['\\', one]),
            _ => quoted.push(one),
        }
    }
    quoted + "\""
}

/// In Lua's quotes a backslash begins an escape; line ends and bytes that are not text are decimal ones.
fn quoted_for_lua(value: &OsStr) -> String {
    let mut quoted = String::from("\"");
    for byte in value.as_bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(*byte)]),
            b' ' | 0x21..=0x7e => quoted.push(char::from(*byte)),
            _ => {
                let _ = write!(quoted, "\\{byte:03}");
            }
        }
    }
    quoted.push('"');
    quoted
}

/// A word with `NAME=VALUE`: systemd knows `%` and backslashes in it.
fn quoted_for_systemd(name: &str, value: &OsStr) -> String {
    let text = value.to_string_lossy().replace('%', "%%");
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{name}={text}\"")
}
