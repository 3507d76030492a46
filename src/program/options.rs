//! The command line of a wrapper, read as its row in `profiles/wrappers.toml` describes it. Pure.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::catalog::{Meaning, Takes, UsagePart, Wrapper};

/// The reason why a command line leads to no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It starts no program.
    Nothing,
    /// It names no program.
    Empty,
    /// The row does not describe it.
    Unknown,
    /// The program starts on another machine or under another root.
    Elsewhere,
}

/// The command that a wrapper starts, and how.
#[derive(Debug, Default)]
pub(super) struct WrappedCommand {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    pub set: Vec<(OsString, OsString)>,
    options: Vec<GivenOption>,
}

#[derive(Debug)]
struct GivenOption {
    name: String,
    meaning: Meaning,
    /// Empty where the option takes none.
    value: OsString,
}

impl WrappedCommand {
    /// The value of the last of these options; empty where it takes none.
    pub(super) fn option(&self, names: &[&str]) -> Option<&OsStr> {
        self.all(names).last()
    }

    /// The values of these options.
    pub(super) fn all(&self, names: &[&str]) -> impl Iterator<Item = &OsStr> {
        let given = self
            .options
            .iter()
            .filter(|given| names.contains(&given.name.as_str()));
        given.map(|given| given.value.as_os_str())
    }

    pub(super) fn values(&self, meaning: Meaning) -> impl Iterator<Item = &OsStr> {
        let given = self
            .options
            .iter()
            .filter(move |given| given.meaning == meaning);
        given.map(|given| given.value.as_os_str())
    }

    pub(super) fn has(&self, meaning: Meaning) -> bool {
        self.values(meaning).next().is_some()
    }
}

fn is_command(row: &Wrapper, word: &OsStr) -> bool {
    row.commands()
        .iter()
        .any(|command| word == command.as_str())
}

/// Reads the arguments of a wrapper. `has_command` is true where it starts a program without one of its commands.
pub(super) fn read(
    row: &Wrapper,
    arguments: &[OsString],
    has_command: bool,
) -> Result<WrappedCommand, Ending> {
    let needs_command = !row.commands().is_empty() && !has_command;
    if row.has(&UsagePart::Nothing)
        || needs_command && !arguments.iter().any(|word| is_command(row, word))
    {
        return Err(Ending::Nothing);
    }
    let rest = arguments.iter().cloned().collect();
    let mut reader = OptionReader {
        row,
        rest,
        start: WrappedCommand::default(),
        has_ended: false,
    };
    for part in &row.usage {
        reader.options()?;
        match part {
            UsagePart::Commands(_) if has_command => {}
            UsagePart::Commands(_) => match reader.rest.pop_front() {
                None => return Err(Ending::Nothing),
                Some(word) if is_command(row, &word) => {}
                // The command of another command: `uv tool run`.
                Some(_) => return Err(Ending::Unknown),
            },
            UsagePart::Root => match reader.rest.pop_front() {
                None => return Err(Ending::Empty),
                Some(root) if root == "/" => {}
                Some(_) => return Err(Ending::Elsewhere),
            },
            UsagePart::Assignments => {
                while let Some(pair) = reader.rest.front().and_then(|word| assignment(word)) {
                    reader.start.set.push(pair);
                    reader.rest.pop_front();
                }
            }
            UsagePart::Skipped => drop(reader.rest.pop_front()),
            _ => break,
        }
    }
    reader.words()
}

struct OptionReader<'r> {
    row: &'r Wrapper,
    rest: VecDeque<OsString>,
    start: WrappedCommand,
    /// `--` ends the options.
    has_ended: bool,
}

impl OptionReader<'_> {
    fn options(&mut self) -> Result<(), Ending> {
        let has_dash = self.row.option("-").is_some();
        while !self.has_ended
            && let Some(word) = self.rest.pop_front_if(|word| {
                word.as_bytes().starts_with(b"-") && (word.len() > 1 || has_dash)
            })
        {
            if word == "--" {
                self.has_ended = true;
            } else {
                self.option(&word)?;
            }
        }
        Ok(())
    }

    /// The rest of the command line.
    fn words(mut self) -> Result<WrappedCommand, Ending> {
        self.start.words.extend(self.rest);
        let start = &self.start;
        if start.words.is_empty() && !start.has(Meaning::Code) {
            Err(Ending::Empty)
        } else if start.has(Meaning::Unclear)
            || self.row.has(&UsagePart::Separator) && start.words.iter().any(|word| word == ":")
        {
            Err(Ending::Unknown)
        } else {
            Ok(self.start)
        }
    }

    fn option(&mut self, word: &OsStr) -> Result<(), Ending> {
        let bytes = word.as_bytes();
        let (name, value) = match memchr::memchr(b'=', bytes) {
            Some(index) => (
                &bytes[..index],
                Some(OsString::from_vec(bytes[index + 1..].to_vec())),
            ),
            None => (bytes, None),
        };
        if bytes.starts_with(b"--") || self.row.is_one_dash() {
            return self.named(name, value);
        }
        if bytes == b"-" {
            return self.named(bytes, None);
        }
        let letters = &bytes[1..];
        for (index, letter) in letters.iter().enumerate() {
            let attached = &letters[index + 1..];
            let name = [b'-', *letter];
            let option = std::str::from_utf8(&name)
                .ok()
                .and_then(|name| self.row.option(name));
            if option.is_some_and(|option| option.takes != Takes::Nothing) {
                let attached =
                    (!attached.is_empty()).then(|| OsString::from_vec(attached.to_vec()));
                return self.named(&name, attached);
            }
            self.named(&name, None)?;
        }
        Ok(())
    }

    /// One option; `attached` is the value in the same word.
    fn named(&mut self, name: &[u8], attached: Option<OsString>) -> Result<(), Ending> {
        let name = std::str::from_utf8(name).map_err(|_| Ending::Unknown)?;
        let option = self.row.option(name).ok_or(Ending::Unknown)?;
        let value = match (option.takes, attached) {
            (Takes::Nothing | Takes::Attached, None) => Some(OsString::new()),
            (Takes::Value | Takes::Attached, Some(value)) => Some(value),
            (Takes::Value, None) => self.rest.pop_front(),
            (Takes::Pair, None) => self.rest.pop_front().and_then(|_| self.rest.pop_front()),
            (Takes::Nothing, Some(_)) if option.meaning != Meaning::Other => Some(OsString::new()),
            (Takes::Nothing | Takes::Pair, Some(_)) => None,
        };
        let value = value.ok_or(Ending::Unknown)?;
        match option.meaning {
            Meaning::Nothing => return Err(Ending::Nothing),
            Meaning::Elsewhere => return Err(Ending::Elsewhere),
            Meaning::Sets => self.start.set.extend(assignment(&value)),
            Meaning::Splits => {
                plain_words(value.as_bytes())
                    .ok_or(Ending::Unknown)?
                    .into_iter()
                    .rev()
                    .for_each(|word| self.rest.push_front(word));
            }
            _ => {}
        }
        self.start.options.push(GivenOption {
            name: option.name,
            meaning: option.meaning,
            value,
        });
        Ok(())
    }
}

/// The words of an argument of `env -S`; `None` where env changes them: quotes, escapes, variables.
fn plain_words(text: &[u8]) -> Option<Vec<OsString>> {
    let is_plain = text
        .iter()
        .all(|byte| !matches!(byte, b'\'' | b'"' | b'\\' | b'$' | b'#'));
    let words = text
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty());
    is_plain.then(|| {
        words
            .map(|word| OsString::from_vec(word.to_vec()))
            .collect()
    })
}

/// `NAME=VALUE`.
fn assignment(word: &OsStr) -> Option<(OsString, OsString)> {
    let index = memchr::memchr(b'=', word.as_bytes()).filter(|index| *index > 0)?;
    let (name, value) = word.as_bytes().split_at(index);
    Some((
        OsString::from_vec(name.to_vec()),
        OsString::from_vec(value[1..].to_vec()),
    ))
}

/// Built-in commands of the shell that start no program.
const HARMLESS: &[&str] = &[
    ":", "[", "cd", "echo", "exit", "export", "false", "printf", "pwd", "return", "set", "test",
    "times", "true", "ulimit", "umask", "unset",
];
/// The other built-in commands, and reserved words.
const BUILT_IN: &[&str] = &[
    ".", "alias", "bg", "builtin", "case", "command", "declare", "do", "else", "eval", "fg", "fi",
    "for", "function", "if", "kill", "local", "read", "readonly", "select", "shift", "source",
    "then", "time", "trap", "type", "unalias", "until", "wait", "while",
];

/// The words of shell code that is one plain command; `None` for quotes, variables, patterns, built-in commands, and
/// several commands.
pub(super) fn plain_command(code: &OsStr) -> Option<Vec<OsString>> {
    let code = code.to_str()?;
    let code = code.strip_prefix("exec ").unwrap_or(code);
    let words: Vec<&str> = code.split(' ').filter(|word| !word.is_empty()).collect();
    let first = words.first()?;
    let is_own = HARMLESS.contains(first) || BUILT_IN.contains(first) || *first == "exec";
    let is_command = code
        .chars()
        .all(|letter| letter.is_ascii_alphanumeric() || "_-./:=,+@% ".contains(letter))
        && !is_own
        && !first.contains('=')
        && !first.starts_with('-');
    is_command.then(|| words.into_iter().map(OsString::from).collect())
}

/// True if shell code consists of built-in commands that start no program.
pub(super) fn starts_nothing(code: &OsStr) -> bool {
    let Some(code) = code
        .to_str()
        .filter(|code| !code.contains(['$', '`', '(', '<', '>', '\\', '\'', '"']))
    else {
        return false;
    };
    code.split([';', '&', '|', '\n'])
        .map(str::trim)
        .filter(|command| !command.is_empty())
        .all(|command| {
            command
                .split_whitespace()
                .next()
                .is_some_and(|first| HARMLESS.contains(&first))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::wrappers;

    fn line(text: &str) -> Result<WrappedCommand, Ending> {
        let words: Vec<OsString> = text.split(' ').map(OsString::from).collect();
        let row = wrappers()
            .iter()
            .find(|row| row.is_named(words[0].to_str().unwrap()))
            .unwrap();
        read(row, &words[1..], false)
    }

    #[track_caller]
    fn ends(lines: &[&str], ending: Ending) {
        for text in lines {
            assert_eq!(line(text).unwrap_err(), ending, "{text}");
        }
    }

    /// A `|` separates the wrapper from its program. `tests/program/wrappers.rs` has the wrappers of most systems.
    #[test]
    fn options_end_where_the_program_begins() {
        for text in [
            "nsys profile -t cuda,nvtx --stats=true -o r | prog",
            "ncu --set full -k regex:gemm -o r | prog",
            "compute-sanitizer --tool memcheck | prog",
            "accelerate launch --num_processes 2 --mixed-precision=bf16 | train.py",
            "deepspeed --num_gpus 2 --include localhost:0 | train.py",
            "uv --project x run --extra gpu | train.py",
            "conda run -n x --no-capture-output | python a.py",
            "ld.so --argv0 x | /bin/prog",
            "dumb-init -v | prog",
        ] {
            let start = line(&text.replace(" | ", " "))
                .unwrap_or_else(|ending| panic!("{text}: {ending:?}"));
            assert_eq!(
                start.words.join(OsStr::new(" ")),
                text.split_once(" | ").unwrap().1,
                "{text}"
            );
        }
    }

    #[test]
    fn unknown_options_are_not_guessed() {
        let unknown = [
            "nohup --unheard prog",
            "timeout --foreground=x 3 prog",
            "nice -n",
            "mpirun -np 1 a : -np 1 b",
            "uv run --with torch python",
            "uv run -s a.py",
            "unshare --root /x prog",
            "bash -lc prog",
            "strace -p 5 prog",
            "gdb --args prog",
            "poetry -P /x run prog",
            "unshare --map-u 5 prog",
            "uv tool run prog",
            "docker compose -f x run prog",
            "ld.so --library-path /x /bin/prog",
        ];
        ends(&unknown, Ending::Unknown);
        let nothing = [
            "nohup --version",
            "taskset -pc 0 1",
            "uv sync",
            "docker ps",
            "sh -n x",
            "which ls",
        ];
        ends(&nothing, Ending::Nothing);
        ends(
            &[
                "nohup",
                "env A=1",
                "timeout 3",
                "strace -p 5",
                "bash",
                "chroot",
            ],
            Ending::Empty,
        );
        ends(
            &[
                "mpirun -H a,b prog",
                "deepspeed --hostfile=x train.py",
                "chroot /x prog",
            ],
            Ending::Elsewhere,
        );
    }

    #[test]
    fn changes_made_by_env_are_read() {
        let start = line("env -i -uA --unset=B -C /x C=1 D= prog E=2").unwrap();
        assert!(start.has(Meaning::Clears));
        assert_eq!(
            start.values(Meaning::Unsets).collect::<Vec<_>>(),
            ["A", "B"]
        );
        assert_eq!(start.values(Meaning::Directory).last().unwrap(), "/x");
        assert_eq!(
            start.set,
            [("C".into(), "1".into()), ("D".into(), "".into())]
        );
        assert_eq!(start.words, ["prog", "E=2"]);
        assert_eq!(
            line("mpirun -x A -x B=1 prog").unwrap().set,
            [("B".into(), "1".into())]
        );
        assert_eq!(
            plain_words(b"-u A B=1  prog x").unwrap(),
            ["-u", "A", "B=1", "prog", "x"]
        );
        assert_eq!(plain_words(b"prog 'a b'"), None);
    }

    #[test]
    fn only_plain_code_of_a_shell_is_a_command() {
        for (code, count) in [
            ("exec python train.py --lr 1e-3", Some(4)),
            ("/opt/a/b", Some(1)),
            ("python 'a b'", None),
            ("a; b", None),
            ("cd /x", None),
            ("A=1 prog", None),
            ("echo $X", None),
            ("a | b", None),
            ("", None),
            ("exec", None),
            ("a\nb", None),
            ("ls *", None),
        ] {
            let words = plain_command(OsStr::new(code));
            assert_eq!(words.map(|words| words.len()), count, "{code}");
        }
    }
}
