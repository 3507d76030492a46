//! The command line of a wrapper, as its row in `profiles/wrappers.toml` says that it is read. Pure.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::catalog::{Meaning, Takes, Wrapper};

/// What a wrapper's command line says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It starts no program.
    Nothing,
    /// No program is named.
    Empty,
    /// Which program it starts cannot be told: an option is not known.
    Unknown,
    /// It starts its program on other machines.
    Remote,
    Starts(Start),
}

/// What is started, and how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// It is the name of a Python module.
    pub is_module: bool,
    /// It is a program where it would else be a script.
    pub is_direct: bool,
    pub clears: bool,
    pub is_other_user: bool,
    /// What a shell is told, instead of the words.
    pub code: Option<OsString>,
    /// Something that stands before it is not followed.
    pub is_unclear: bool,
    pub unset: Vec<OsString>,
    pub set: Vec<(OsString, OsString)>,
    pub directory: Option<OsString>,
    /// Every option with its value.
    pub options: Vec<(String, OsString)>,
}

impl Start {
    /// The value of the last of these options; empty where it takes none.
    pub(super) fn option(&self, names: &[&str]) -> Option<&OsStr> {
        let is_it = |(name, _): &&(String, OsString)| names.contains(&name.as_str());
        self.options.iter().rev().find(is_it).map(|(_, value)| value.as_os_str())
    }
}

/// Reads the arguments of a wrapper; `has_word` where no word is needed to make it start something.
pub(super) fn parse(row: &Wrapper, arguments: &[OsString], has_word: bool) -> Line {
    let mut reader =
        Reader { row, rest: arguments.iter().cloned().collect(), start: Start::default(), ended: None };
    // `python -m uv` needs the word; that of `accelerate.commands.launch` stands in its name.
    let mut needs_word = !row.word.is_empty() && !has_word;
    if row.leads && reader.rest.front().is_some_and(|word| !word.as_bytes().starts_with(b"-")) {
        reader.rest.pop_front();
    }
    reader.start.directory = row.here.as_ref().map(OsString::from);
    while let Some(word) = reader.rest.front() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            reader.rest.pop_front();
            break;
        }
        if bytes.starts_with(b"-") && (bytes.len() > 1 || row.option("-").is_some()) {
            let word = reader.rest.pop_front().unwrap_or_default();
            reader.option(&word);
            if let Some(line) = reader.ended {
                return line;
            }
        } else if needs_word {
            let two: Vec<_> = reader.rest.iter().take(2).filter_map(|word| word.to_str()).collect();
            if row.hidden.contains(&two.join(" ")) {
                return Line::Unknown;
            }
            if !row.word.iter().any(|it| word == it.as_str()) {
                return Line::Nothing;
            }
            needs_word = false;
            reader.rest.pop_front();
        } else {
            break;
        }
    }
    if needs_word { Line::Nothing } else { reader.words() }
}

struct Reader<'r> {
    row: &'r Wrapper,
    rest: VecDeque<OsString>,
    start: Start,
    /// What an option says that ends the reading.
    ended: Option<Line>,
}

impl Reader<'_> {
    /// What follows the options.
    fn words(mut self) -> Line {
        while let Some(pair) =
            self.rest.front().filter(|_| self.row.assignments).and_then(|it| assignment(it))
        {
            self.start.set.push(pair);
            self.rest.pop_front();
        }
        let mut words: Vec<OsString> = self.rest.into_iter().skip(self.row.skips).collect();
        // `flock FILE -c CODE`
        let is_code = |word: &OsString| {
            word.to_str().and_then(|word| self.row.option(word)).is_some_and(|(_, it)| it == Meaning::Code)
        };
        if self.row.skips > 0 && words.len() > 1 && is_code(&words[0]) {
            self.start.code = Some(words.remove(1));
        }
        let is_late = |word: &OsString| word.as_bytes().starts_with(b"-");
        let is_permuted =
            self.row.permutes.as_deref().is_some_and(|ends| self.start.option(&[ends]).is_none());
        let is_separator =
            |word: &OsString| self.row.separator.as_ref().is_some_and(|it| word == it.as_str());
        if words.is_empty() && self.start.code.is_none() {
            Line::Empty
        } else if self.start.is_unclear
            || words.iter().any(is_separator)
            || is_permuted && words.iter().skip(1).any(is_late)
        {
            Line::Unknown
        } else {
            Line::Starts(Start { words, ..self.start })
        }
    }

    fn option(&mut self, word: &OsStr) {
        let bytes = word.as_bytes();
        let (name, value) = match memchr::memchr(b'=', bytes) {
            Some(at) => (&bytes[..at], Some(OsString::from_vec(bytes[at + 1..].to_vec()))),
            None => (bytes, None),
        };
        if bytes.starts_with(b"--") || self.row.whole {
            return self.named(name, value);
        }
        if bytes == b"-" {
            return self.named(bytes, None);
        }
        let letters = &bytes[1..];
        for (at, letter) in letters.iter().enumerate() {
            let attached = &letters[at + 1..];
            let name = [b'-', *letter];
            let takes = std::str::from_utf8(&name).ok().and_then(|name| self.row.option(name));
            if let Some((Takes::Nothing, _)) | None = takes {
                self.named(&name, None);
            } else {
                let attached = (!attached.is_empty()).then(|| OsString::from_vec(attached.to_vec()));
                return self.named(&name, attached);
            }
            if self.ended.is_some() {
                return;
            }
        }
    }

    /// One option; `attached` is the value that stands in the same word.
    fn named(&mut self, name: &[u8], attached: Option<OsString>) {
        let row = self.row;
        let known = std::str::from_utf8(name).ok().map(|name| row.written_out(name));
        let known = known.and_then(|name| Some((name, row.option(name)?)));
        let Some((name, (takes, meaning))) = known else {
            self.ended = Some(Line::Unknown);
            return;
        };
        let value = match (takes, attached) {
            (Takes::Nothing | Takes::Attached, None) => Some(OsString::new()),
            (Takes::Value | Takes::Attached, Some(value)) => Some(value),
            (Takes::Value, None) => self.rest.pop_front(),
            (Takes::Pair, None) => self.rest.pop_front().and_then(|_| self.rest.pop_front()),
            (Takes::Nothing, Some(_)) if meaning != Meaning::Other => Some(OsString::new()),
            (Takes::Nothing | Takes::Pair, Some(_)) => None,
        };
        let Some(value) = value else {
            self.ended = Some(Line::Unknown);
            return;
        };
        match meaning {
            Meaning::Nothing => self.ended = Some(Line::Nothing),
            Meaning::Remote => self.ended = Some(Line::Remote),
            Meaning::Module => self.start.is_module = true,
            Meaning::Direct => self.start.is_direct = true,
            Meaning::Clears => self.start.clears = true,
            Meaning::User => self.start.is_other_user = true,
            Meaning::Code => self.start.code = Some(value.clone()),
            Meaning::Unclear => self.start.is_unclear = true,
            Meaning::Tells => self.start.is_unclear |= !self.is_harmless(&value),
            Meaning::Sets => self.start.set.extend(assignment(&value)),
            Meaning::Unsets => self.start.unset.push(value.clone()),
            Meaning::Directory => self.start.directory = Some(value.clone()),
            Meaning::Splits => self.split(&value),
            Meaning::Other => {}
        }
        self.start.options.push((name.to_owned(), value));
    }

    /// Whether what the wrapper is told leaves its program as it is.
    fn is_harmless(&self, order: &OsStr) -> bool {
        let order = order.to_string_lossy();
        let mut words = order.split_whitespace().map(|word| word.split('/').next().unwrap_or_default());
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_known = |order: &str| self.row.harmless.iter().any(|known| known == order);
        first.is_empty() || is_known(first) || is_known(&format!("{first} {second}"))
    }

    /// More of the command line in one word. Quotes, escapes and variables are left to env.
    fn split(&mut self, text: &OsStr) {
        let bytes = text.as_bytes();
        if bytes.iter().any(|byte| matches!(byte, b'\'' | b'"' | b'\\' | b'$' | b'#')) {
            self.ended = Some(Line::Unknown);
            return;
        }
        let words = bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        for word in words.rev() {
            self.rest.push_front(OsString::from_vec(word.to_vec()));
        }
    }
}

/// `NAME=VALUE`.
fn assignment(word: &OsStr) -> Option<(OsString, OsString)> {
    let at = memchr::memchr(b'=', word.as_bytes()).filter(|at| *at > 0)?;
    let (name, value) = word.as_bytes().split_at(at);
    Some((OsString::from_vec(name.to_vec()), OsString::from_vec(value[1..].to_vec())))
}

/// The words of shell code that is one plain command; none where the shell would do more with it than start
/// that: quotes, variables, several commands, its own commands, and patterns.
pub(super) fn plain_command(code: &OsStr) -> Option<Vec<OsString>> {
    const OWN: &[&str] = &[
        ".", ":", "[", "alias", "bg", "builtin", "case", "cd", "command", "declare", "do", "echo", "else",
        "eval", "exit", "export", "false", "fg", "fi", "for", "function", "if", "kill", "local", "printf",
        "pwd", "read", "readonly", "return", "select", "set", "shift", "source", "test", "then", "time",
        "times", "trap", "true", "type", "ulimit", "umask", "unalias", "unset", "until", "wait", "while",
    ];
    let is_plain = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'_' | b'-' | b'.' | b'/' | b':' | b'=' | b',' | b'+' | b'@' | b'%' | b' ')
    };
    let mut words = code
        .to_str()
        .filter(|code| code.as_bytes().iter().all(is_plain))?
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(OsString::from)
        .collect::<VecDeque<_>>();
    if words.front().is_some_and(|word| word == "exec") {
        words.pop_front();
    }
    let first = words.front()?.to_str()?;
    let is_own = OWN.contains(&first) || first.contains('=') || first.starts_with('-');
    (!is_own).then(|| words.into())
}

/// Whether shell code is made of commands of the shell's own that start no program.
pub(super) fn starts_nothing(code: &OsStr) -> bool {
    const OWN: &[&str] = &[
        ":", "[", "cd", "echo", "exit", "export", "false", "printf", "pwd", "return", "set", "test", "times",
        "true", "ulimit", "umask", "unset",
    ];
    let Some(code) = code.to_str().filter(|code| !code.contains(['$', '`', '(', '<', '>', '\\', '\'', '"']))
    else {
        return false;
    };
    let mut commands = code.split([';', '&', '|', '\n']).map(str::trim).filter(|command| !command.is_empty());
    commands.all(|command| command.split_whitespace().next().is_some_and(|first| OWN.contains(&first)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::wrappers;

    fn line(text: &str) -> Line {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap();
        let row = wrappers().iter().find(|row| row.names.iter().any(|it| it == name)).unwrap();
        parse(row, &words.map(OsString::from).collect::<Vec<_>>(), false)
    }

    fn started(text: &str) -> String {
        match line(text) {
            Line::Starts(start) => start.words.join(OsStr::new(" ")).into_string().unwrap(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn options_end_where_the_program_begins() {
        for (text, expected) in [
            ("nohup prog -x", "prog -x"),
            ("nohup -- prog", "prog"),
            ("nice -n 5 prog", "prog"),
            ("nice -n5 prog -n 3", "prog -n 3"),
            ("nice --adjustment=5 prog", "prog"),
            ("nice --adjustment 5 prog", "prog"),
            ("timeout -k 5 --signal=KILL 3h prog a", "prog a"),
            ("timeout -vk5 3 prog", "prog"),
            ("chrt -f 10 prog", "prog"),
            ("taskset -c 0-3 prog", "prog"),
            ("setarch x86_64 -R prog", "prog"),
            ("setarch -R prog", "prog"),
            ("linux64 -R prog", "prog"),
            ("prlimit --nofile=5 -n4 -c prog", "prog"),
            ("numactl -N 0 --membind=0 prog", "prog"),
            ("numactl --cpunodebind 0 prog", "prog"),
            ("strace -ff -e trace=open -o out prog", "prog"),
            ("gdb -q -ex run --args prog a", "prog a"),
            ("valgrind --leak-check=full --tool=memcheck prog", "prog"),
            ("nsys profile -t cuda,nvtx --stats=true -o r prog", "prog"),
            ("ncu --set full -k regex:gemm -o r prog", "prog"),
            ("compute-sanitizer --tool memcheck prog", "prog"),
            ("torchrun --nproc_per_node=2 --standalone train.py --lr 1", "train.py --lr 1"),
            ("accelerate launch --num_processes 2 --mixed-precision=bf16 train.py", "train.py"),
            ("deepspeed --num_gpus 2 --include localhost:0 train.py", "train.py"),
            ("uv --project x run --extra gpu train.py", "train.py"),
            ("conda run -n x --no-capture-output python a.py", "python a.py"),
            ("mpirun -np 2 --mca btl self,tcp -x A prog", "prog"),
            ("env -S A=1 prog", "prog"),
            ("xargs -0 -n 1 prog", "prog"),
            ("taskset -a 1 prog", "prog"),
            ("taskset -ac 0 prog", "prog"),
            ("chrt -a -o 0 prog", "prog"),
            ("valgrind --trace-children=yes prog", "prog"),
            ("gdb prog core", "prog core"),
            ("gdb --args prog -x", "prog -x"),
            ("gdb -ex bt/f --args prog", "prog"),
            ("nice -10 prog", "prog"),
            ("nice --adj 5 prog", "prog"),
            ("timeout --sig=KILL 5 prog", "prog"),
            ("bash -o pipefail -c prog", "prog"),
            ("bash -euo pipefail -c prog", "prog"),
            ("bash --norc -c prog", "prog"),
            ("zsh -fc prog", "prog"),
            ("chpst -u me -n 5 prog", "prog"),
            ("gosu me prog", "prog"),
            ("ld.so --argv0 x /bin/prog", "/bin/prog"),
            ("flock -w 5 /x prog a", "prog a"),
            ("choom -n 5 -- prog", "prog"),
            ("tini -s -- prog", "prog"),
            ("dumb-init -v prog", "prog"),
            ("dbus-run-session -- prog", "prog"),
        ] {
            assert_eq!(started(text), expected, "{text}");
        }
    }

    #[test]
    fn unknown_options_are_not_guessed() {
        for unknown in [
            "nohup --unheard prog",
            "timeout --foreground=x 3 prog",
            "nice -n",
            "setarch -R --nothing-like prog",
            "mpirun -np 1 a : -np 1 b",
            "uv run --with torch python",
            "uv run -s a.py",
            "unshare --root /x prog",
            "bash -lc prog",
            "strace -p 5 prog",
            "ltrace -p 5 prog",
            "gdb ls --args prog",
            "gdb prog -x orders",
            "gdb -x orders --args prog",
            "gdb -ex source --args prog",
            "gdb -ex set\u{a0}env --args prog",
            "gdb -iex python --args prog",
            "unshare --map-u 5 prog",
            "uv tool run prog",
            "ld.so --library-path /x /bin/prog",
        ] {
            assert_eq!(line(unknown), Line::Unknown, "{unknown}");
        }
        for nothing in
            ["nohup --version", "taskset -pc 0 1", "uv sync", "docker ps", "valgrind --help", "sh -n x"]
        {
            assert_eq!(line(nothing), Line::Nothing, "{nothing}");
        }
        for empty in ["nohup", "env A=1", "timeout 3", "strace -p 5", "bash"] {
            assert_eq!(line(empty), Line::Empty, "{empty}");
        }
        assert_eq!(line("mpirun -H a,b prog"), Line::Remote);
        assert_eq!(line("deepspeed --hostfile=x train.py"), Line::Remote);
    }

    #[test]
    fn changes_made_by_env_are_read() {
        let Line::Starts(start) = line("env -i -uA --unset=B -C /x C=1 D= prog E=2") else { panic!() };
        assert!(start.clears);
        assert_eq!(start.unset, ["A", "B"]);
        assert_eq!(start.directory.as_deref(), Some(OsStr::new("/x")));
        assert_eq!(start.set, [("C".into(), "1".into()), ("D".into(), "".into())]);
        assert_eq!(start.words, ["prog", "E=2"]);
        let Line::Starts(start) = line("mpirun -x A -x B=1 prog") else { panic!() };
        assert_eq!(start.set, [("B".into(), "1".into())]);
        let row = wrappers().iter().find(|row| row.names == ["env"]).unwrap();
        let parse = |words: &[&str]| parse(row, &words.iter().map(OsString::from).collect::<Vec<_>>(), false);
        let Line::Starts(start) = parse(&["-S", "-u A B=1  prog x", "y"]) else { panic!() };
        assert_eq!(
            (start.unset, start.words),
            (vec!["A".into()], vec!["prog".into(), "x".into(), "y".into()])
        );
        assert_eq!(parse(&["-S", "prog 'a b'"]), Line::Unknown);
    }

    #[test]
    fn only_plain_code_of_a_shell_is_a_command() {
        let words = |code: &str| plain_command(OsStr::new(code)).map(|words| words.len());
        assert_eq!(words("exec python train.py --lr 1e-3"), Some(4));
        assert_eq!(words("/opt/a/b"), Some(1));
        for other in
            ["python 'a b'", "a; b", "cd /x", "A=1 prog", "echo $X", "a | b", "", "exec", "a\nb", "ls *"]
        {
            assert_eq!(words(other), None, "{other}");
        }
    }
}
