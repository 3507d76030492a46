//! The command line of a Python interpreter, as Python reads it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The code that Python will run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum PythonCode {
    Script(PathBuf),
    Module(OsString),
    Code(OsString),
    /// No code: `--version`, `-h`.
    Nothing,
    /// Standard input or the prompt.
    #[default]
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub run: PythonCode,
    /// `-I` or `-E`: variables do not count.
    pub ignores_environment: bool,
    /// `-I` or `-s`.
    pub no_user_site: bool,
    /// `-S`.
    pub no_site: bool,
    /// `-I` or `-P`: the script's directory is not searched.
    pub safe_path: bool,
    /// The number of arguments that decide all this.
    pub consumed: usize,
}

impl CommandLine {
    pub(super) fn parse(arguments: &[OsString]) -> CommandLine {
        let mut parsed = CommandLine::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            parsed.consumed += 1;
            match argument.as_bytes() {
                b"--check-hash-based-pycs" => parsed.consumed += usize::from(rest.next().is_some()),
                b"-" => return parsed,
                b"--" => {
                    let script = rest.next();
                    parsed.consumed += usize::from(script.is_some());
                    if let Some(script) = script.filter(|script| *script != "-") {
                        parsed.run = PythonCode::Script(PathBuf::from(script));
                    }
                    return parsed;
                }
                [b'-', b'-', ..] => {
                    parsed.run = PythonCode::Nothing;
                    return parsed;
                }
                [b'-', flags @ ..] => {
                    if parsed.short_flags(flags, &mut rest) {
                        return parsed;
                    }
                }
                _ => {
                    parsed.run = PythonCode::Script(PathBuf::from(argument));
                    return parsed;
                }
            }
        }
        parsed
    }

    /// Reads a word of one-letter options. True if it ends the options.
    fn short_flags<'a>(
        &mut self,
        flags: &[u8],
        rest: &mut impl Iterator<Item = &'a OsString>,
    ) -> bool {
        for (index, flag) in flags.iter().enumerate() {
            let attached = &flags[index + 1..];
            match flag {
                b'c' => {
                    self.run = PythonCode::Code(self.value(attached, rest));
                    return true;
                }
                b'm' => {
                    self.run = PythonCode::Module(self.value(attached, rest));
                    return true;
                }
                b'W' | b'X' => {
                    self.value(attached, rest);
                    return false;
                }
                b'I' => {
                    self.ignores_environment = true;
                    self.no_user_site = true;
                    self.safe_path = true;
                }
                b'E' => self.ignores_environment = true,
                b's' => self.no_user_site = true,
                b'S' => self.no_site = true,
                b'P' => self.safe_path = true,
                b'V' | b'h' | b'?' => {
                    self.run = PythonCode::Nothing;
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// The value of an option: what is attached to its letter, or else the next argument.
    fn value<'a>(
        &mut self,
        attached: &[u8],
        rest: &mut impl Iterator<Item = &'a OsString>,
    ) -> OsString {
        if !attached.is_empty() {
            return OsString::from_vec(attached.to_vec());
        }
        let next = rest.next().cloned();
        self.consumed += usize::from(next.is_some());
        next.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_command_line_as_python_does() {
        for (words, run, consumed) in [
            (
                &["-u", "train.py", "--lr", "1"][..],
                PythonCode::Script("train.py".into()),
                2,
            ),
            (
                &["-Ic", "import torch", "x"],
                PythonCode::Code("import torch".into()),
                2,
            ),
            (
                &["-cimport torch"],
                PythonCode::Code("import torch".into()),
                1,
            ),
            (
                &["-X", "utf8", "-W", "ignore", "-m", "pkg.mod", "a"],
                PythonCode::Module("pkg.mod".into()),
                6,
            ),
            (&["-Wignore", "x.py"], PythonCode::Script("x.py".into()), 2),
            (&["--", "x.py", "y"], PythonCode::Script("x.py".into()), 2),
            (&["--version", "x.py"], PythonCode::Nothing, 1),
            (&["-V", "x.py"], PythonCode::Nothing, 1),
            (&["-"], PythonCode::Unknown, 1),
            (&[], PythonCode::Unknown, 0),
            (&["-c"], PythonCode::Code("".into()), 1),
        ] {
            let parsed = CommandLine::parse(&words.iter().map(OsString::from).collect::<Vec<_>>());
            assert_eq!((parsed.run, parsed.consumed), (run, consumed), "{words:?}");
        }
        assert!(CommandLine::parse(&["-Ic", "import torch"].map(OsString::from)).no_user_site);
    }
}
