//! From a command to the command that it starts: `nohup`, `env`, `torchrun`, `uv run` and their like, as
//! `profiles/wrappers.toml` describes them. What is not known is not guessed. Runs nothing.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::arguments::{CommandLine, Run};
use super::options::{self, Line, Start};
use super::program::{self, DEFAULT_PATH};
use super::setting::{self, Says};
use super::{Command, EnvironmentLoss, How, Note, Program, executable, project, python};
use crate::catalog::{Finder, Handing, Meaning, Runs, Wrapper, may_be_wrapper, wrappers};
use crate::environment::{Environment, preload_elements};
use crate::host::Host;
use crate::variables::{self, LIBRARY_PATH, PRELOAD};

/// More than anybody types; two that start each other end here.
const LIMIT: usize = 16;
/// What the loader reads libraries by.
/// What the stronger modes pin by.
const PINNING: [&str; 4] = [variables::AUDIT, variables::PINS, variables::PINS_FOR, PRELOAD];
/// The variables that change what a wrapper starts, besides those that decide for any program. A row of the table that
/// names another one fails a test.
const VARIABLES: &[&str] = &[
    "BASH_ENV",
    "LSB_JOBID",
    "OMPI_MCA_orte_default_hostfile",
    "PBS_JOBID",
    "PDM_IGNORE_SAVED_PYTHON",
    "PDM_PROJECT",
    "PDM_PYTHON",
    "PET_MODULE",
    "PET_NO_PYTHON",
    "PET_RUN_PATH",
    "PE_HOSTFILE",
    "PIPENV_CUSTOM_VENV_NAME",
    "PIPENV_MAX_DEPTH",
    "PIPENV_NO_INHERIT",
    "PIPENV_PIPFILE",
    "PIPENV_PYTHON",
    "POETRY_VIRTUALENVS_CREATE",
    "POETRY_VIRTUALENVS_IN_PROJECT",
    "PRTE_MCA_prte_default_hostfile",
    "PYTHON_EXEC",
    "SHELL",
    "SLURM_JOB_ID",
    "UV_ISOLATED",
    "UV_PYTHON_PLATFORM",
    "UV_WORKING_DIR",
    "UV_WORKING_DIRECTORY",
    "ZDOTDIR",
];

/// What runs inside of all wrappers.
pub(super) struct Inside {
    /// What PATH says of it.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// The machine as it will see it, where a wrapper changes the environment or the directory.
    pub host: Option<Host>,
    /// The first wrapper on the way that keeps from it what cudarun sets, and how.
    pub loss: Option<(String, EnvironmentLoss)>,
    /// Whether it can be seen at all.
    pub is_here: bool,
}

/// Whether a program or a module of this name may start another one. Decided by names alone.
pub(super) fn is_possible(program: &Path) -> bool {
    program.file_name().and_then(OsStr::to_str).is_some_and(may_be_wrapper)
}

/// The variables that decide for wrappers alone.
pub fn variables() -> impl Iterator<Item = &'static str> {
    VARIABLES.iter().chain(project::VARIABLES).copied()
}

/// Whether a person will say what a shell without words is to do.
pub(super) fn is_at_terminal() -> bool {
    io::stdin().is_terminal()
}

pub(super) fn is_python_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// Goes inward from `program`, which is what PATH says of the command, as long as the way is known.
pub(super) fn open(outer: &Host, path: &Path, command: &Command, program: &mut Program) -> Inside {
    let arguments = command.arguments.clone();
    let mut inside = Inside { program: path.to_owned(), arguments, host: None, loss: None, is_here: true };
    let mut has_more = false;
    for _ in 0..LIMIT {
        let host = inside.host.as_ref().unwrap_or(outer);
        let Some(way) = Way::of(host, &inside.program, &inside.arguments) else { return inside };
        let entered = way.enter(has_more, &mut inside.loss, program);
        has_more |= way.row.more;
        program.is_launched |= way.row.starts_several();
        match entered {
            Entered::End => {
                program.starts_nothing = true;
                return inside;
            }
            Entered::NotKnown(note) => {
                inside.is_here = note != Note::Elsewhere;
                program.notes.push(note);
                return inside;
            }
            Entered::Deeper { program: path, arguments, host } => {
                program.step(
                    How::Wrapper,
                    &host.as_ref().or(inside.host.as_ref()).unwrap_or(outer).absolute(&path),
                );
                (inside.program, inside.arguments) = (path, arguments);
                inside.host = host.or(inside.host);
            }
        }
    }
    program.notes.push(Note::StartsAnother);
    inside
}

enum Entered {
    Deeper {
        program: PathBuf,
        arguments: Vec<OsString>,
        /// Where it is not the same machine as before.
        host: Option<Host>,
    },
    /// This is what runs.
    End,
    /// It starts something that is not known.
    NotKnown(Note),
}

/// One wrapper, on the way inward.
struct Way<'a> {
    host: &'a Host,
    program: &'a Path,
    /// Its own.
    arguments: &'a [OsString],
    row: &'static Wrapper,
    /// It was started with `python -m`.
    is_module: bool,
    /// And that has its word in its name: `accelerate.commands.launch`.
    has_word: bool,
}

impl<'a> Way<'a> {
    /// The row of a program, by the name that was typed, or else by that of the file.
    fn of(host: &'a Host, program: &'a Path, arguments: &'a [OsString]) -> Option<Way<'a>> {
        let name = program.file_name()?.to_str()?;
        if python::is_name(OsStr::new(name)) {
            let line = CommandLine::parse(arguments);
            let Run::Module(module) = &line.run else { return None };
            let module = module.to_str()?;
            let row = wrappers().iter().find(|row| row.modules.iter().any(|it| it == module))?;
            let arguments = arguments.get(line.consumed..).unwrap_or_default();
            let has_word = row.word.iter().any(|word| module.rsplit('.').next() == Some(word));
            return Some(Way { host, program, arguments, row, is_module: true, has_word });
        }
        let real = host.canonical(program).unwrap_or_else(|_| program.to_owned());
        let named = |name: &str| wrappers().iter().find(|row| row.names.iter().any(|it| it == name));
        let below = || wrappers().iter().find(|row| is_below(row, program));
        let row = named(name).or_else(below).or_else(|| named(real.file_name()?.to_str()?))?;
        // One that has needs of its own only has the name of another one.
        if !row.needs && executable::own_library(host, &real).is_some() {
            return None;
        }
        Some(Way { host, program, arguments, row, is_module: false, has_word: false })
    }

    fn enter(
        &self,
        has_more: bool,
        loss: &mut Option<(String, EnvironmentLoss)>,
        program: &mut Program,
    ) -> Entered {
        let Way { host, row, .. } = *self;
        if row.runs == Runs::Nothing {
            return Entered::End;
        }
        if row.environment == Handing::Elsewhere && !self.stays() {
            return if self.leaves() { Entered::NotKnown(Note::Elsewhere) } else { Entered::End };
        }
        // What runs with other rights hands nothing on, whatever it is.
        let real = host.canonical(self.program).unwrap_or_else(|_| self.program.to_owned());
        let is_secure = executable::secure_execution(host, &real).is_some();
        program.watched.extend([host.absolute(self.program), real]);
        let line = options::parse(row, self.arguments, self.has_word);
        let starts = !matches!(line, Line::Nothing | Line::Empty);
        if row.environment == Handing::Keeps && is_secure && starts {
            loss.get_or_insert((self.name(), EnvironmentLoss::Rights));
            return Entered::NotKnown(Note::StartsAnother);
        }
        if starts && row.environment == Handing::Drops {
            loss.get_or_insert((self.name(), EnvironmentLoss::Rights));
        }
        match line {
            // What it starts comes from standard input.
            Line::Empty if has_more || row.runs == Runs::Shell && !is_at_terminal() => {
                Entered::NotKnown(Note::StartsAnother)
            }
            Line::Nothing | Line::Empty => Entered::End,
            Line::Starts(start) if self.is_shell_code(&start, options::starts_nothing) => Entered::End,
            Line::Remote => Entered::NotKnown(Note::Elsewhere),
            Line::Unknown => Entered::NotKnown(Note::StartsAnother),
            Line::Starts(_) if self.is_undecided(program) => Entered::NotKnown(Note::StartsAnother),
            Line::Starts(start) => {
                program.undone.extend(undone_by(&start));
                if start.is_other_user {
                    loss.get_or_insert((self.name(), EnvironmentLoss::Rights));
                }
                let lost = loss_by(&start).map(|lost| (self.name(), lost));
                *loss = loss.take().or(lost);
                self.follow(&start, loss, program)
            }
        }
    }

    fn follow(
        &self,
        start: &Start,
        loss: &mut Option<(String, EnvironmentLoss)>,
        program: &mut Program,
    ) -> Entered {
        let mut changed = self.changed(start);
        match setting::at_start(changed.as_ref().unwrap_or(self.host), self.row, start, program) {
            Says::Nothing => {}
            Says::Sets(file) => {
                loss.get_or_insert((self.name(), EnvironmentLoss::Script { file }));
            }
            Says::Unclear => return Entered::NotKnown(Note::StartsAnother),
        }
        if let Some(finder) = self.row.finder {
            let host = changed.as_ref().unwrap_or(self.host);
            let Some(found) = project::find(host, finder, self.program, start, program) else {
                return Entered::NotKnown(Note::EnvironmentNotKnown { wrapper: self.name() });
            };
            let mut path = found.prefix.join("bin").into_os_string();
            path.push(":");
            path.push(path_of(host));
            let mut env = host.env.clone();
            env.set("PATH", path);
            env.set(found.variable, found.prefix);
            changed = Some(host.inside(env, host.cwd.clone()));
            let lost = found.sets.map(|file| (self.name(), EnvironmentLoss::Script { file }));
            *loss = loss.take().or(lost);
        }
        let host = changed.as_ref().unwrap_or(self.host);
        let words = self.words(host, start, program).unwrap_or_default();
        let Some((name, arguments)) = words.split_first() else {
            return Entered::NotKnown(Note::StartsAnother);
        };
        // What is not there now would be started once it is.
        if !name.as_bytes().contains(&b'/') {
            let directories = path_of(host).as_bytes().split(|byte| *byte == b':');
            let directories = directories.map(|it| host.absolute(Path::new(OsStr::from_bytes(it))));
            program.located.extend(directories.map(|directory| directory.join(name)));
        }
        match program::locate(host, name) {
            Err(_) => Entered::NotKnown(Note::StartsAnother),
            Ok(program) => Entered::Deeper { program, arguments: arguments.to_vec(), host: changed },
        }
    }

    fn name(&self) -> String {
        self.program.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Whether it starts its program here although it could do so elsewhere: `chroot /`.
    fn stays(&self) -> bool {
        let is_option = |word: &&OsString| word.as_bytes().starts_with(b"-");
        let first = self.arguments.iter().find(|word| !is_option(word));
        self.row.here.as_ref().is_some_and(|here| first.is_some_and(|first| first == here.as_str()))
    }

    fn is_shell_code(&self, start: &Start, what: fn(&OsStr) -> bool) -> bool {
        self.row.runs == Runs::Shell
            && start.option(&["-c"]).is_some()
            && start.words.first().is_some_and(|code| what(code))
    }

    /// Whether it starts something where nothing of this machine counts.
    fn leaves(&self) -> bool {
        let is_option = |word: &&OsString| word.as_bytes().starts_with(b"-");
        let mut options = self.arguments.iter().take_while(is_option).filter_map(|word| word.to_str());
        if options.any(|word| self.row.option(word).is_some_and(|(_, meaning)| meaning == Meaning::Nothing)) {
            return false;
        }
        let has_word =
            || self.arguments.iter().any(|word| self.row.word.iter().any(|it| word == it.as_str()));
        is_below(self.row, self.program)
            || !self.arguments.is_empty() && (self.row.word.is_empty() || has_word())
    }

    /// Whether a variable is set, or a file there, that changes what is started.
    fn is_undecided(&self, program: &mut Program) -> bool {
        self.row.unless.iter().any(|what| {
            if what.starts_with('/') {
                program.located.insert(PathBuf::from(what));
                return self.host.is_file(Path::new(what));
            }
            self.host.env.get(what).is_some()
        })
    }

    /// The machine after what the command line changes; none where it changes nothing.
    fn changed(&self, start: &Start) -> Option<Host> {
        let host = self.host;
        if start.set.is_empty() && start.unset.is_empty() && !start.clears && start.directory.is_none() {
            return None;
        }
        let mut env = if start.clears { Environment::default() } else { host.env.clone() };
        for name in &start.unset {
            env.remove(name);
        }
        for (name, value) in &start.set {
            env.set(name, value);
        }
        let directory = start.directory.as_ref().map(|directory| {
            let directory = host.absolute(Path::new(directory));
            host.canonical(&directory).unwrap_or(directory)
        });
        Some(host.inside(env, directory.unwrap_or_else(|| host.cwd.clone())))
    }

    /// The command line that is started; none where that is not known.
    fn words(&self, host: &Host, start: &Start, program: &mut Program) -> Option<Vec<OsString>> {
        let by = |python: OsString| {
            let module = start.is_module.then(|| OsString::from("-m"));
            [python].into_iter().chain(module).chain(start.words.iter().cloned()).collect()
        };
        if let Some(code) = &start.code {
            let shell = host.env.non_empty("SHELL").unwrap_or(OsStr::new("/bin/sh"));
            return Some(vec![shell.to_owned(), "-c".into(), code.clone()]);
        }
        let first = start.words.first()?;
        match self.row.runs {
            Runs::Unknown | Runs::Nothing => None,
            Runs::Image if !first.as_bytes().contains(&b'/') => None,
            Runs::Shell => {
                start.option(&["-c"])?;
                let words = options::plain_command(first)?;
                // bash starts a function of the environment instead.
                let mut function = OsString::from("BASH_FUNC_");
                function.push(words.first()?);
                function.push("%%");
                host.env.iter().all(|(name, _)| name != function).then_some(words)
            }
            Runs::PythonScript if !start.is_direct => {
                let given = self.row.interpreter.as_ref().and_then(|name| host.env.non_empty(name));
                let own = || self.own_python(host, program);
                given.map(OsStr::to_owned).or_else(own).map(by)
            }
            // uv starts a file of Python's with Python.
            Runs::Program
                if start.is_module
                    || self.row.finder == Some(Finder::Uv) && is_python_file(Path::new(first)) =>
            {
                Some(by(OsString::from("python")))
            }
            Runs::Program | Runs::PythonScript | Runs::Image => Some(start.words.clone()),
        }
    }

    /// The Python that a wrapper of Python's runs in.
    fn own_python(&self, host: &Host, program: &mut Program) -> Option<OsString> {
        if self.is_module {
            return Some(self.program.as_os_str().to_owned());
        }
        let mut own = Program::new(self.program.to_owned());
        let running = program::follow(host, self.program, &[], &mut own).ok().flatten();
        program.watched.append(&mut own.watched);
        program.located.append(&mut own.located);
        let python = running?.executable;
        python.file_name().is_some_and(python::is_name).then(|| python.into_os_string())
    }
}

/// What the command line itself says against what cudarun sets.
fn loss_by(start: &Start) -> Option<EnvironmentLoss> {
    let is_library = |element: &OsString| {
        let name = Path::new(element).file_name().and_then(OsStr::to_str);
        name.is_some_and(executable::is_library)
    };
    let undone = |(name, value): &(OsString, OsString)| match name.to_str()? {
        LIBRARY_PATH => Some(LIBRARY_PATH),
        PRELOAD => preload_elements(value).iter().any(is_library).then_some(PRELOAD),
        _ => None,
    };
    if let Some(variable) = start.set.iter().find_map(undone) {
        Some(EnvironmentLoss::Sets { variable })
    } else if start.clears {
        Some(EnvironmentLoss::Clears)
    } else if start.unset.iter().any(|name| name == LIBRARY_PATH) {
        Some(EnvironmentLoss::Unsets { variable: LIBRARY_PATH })
    } else {
        None
    }
}

/// The variables by which a stronger mode pins, as far as the command line sets them anew or takes them away.
fn undone_by(start: &Start) -> impl Iterator<Item = &'static str> {
    let named = |variable: &str| {
        start.set.iter().any(|(name, _)| name == variable) || start.unset.iter().any(|name| name == variable)
    };
    PINNING.iter().copied().filter(move |variable| named(variable))
}

fn is_below(row: &Wrapper, program: &Path) -> bool {
    program.parent().is_some_and(|directory| row.below.iter().any(|below| directory.ends_with(below)))
}

fn path_of(host: &Host) -> &OsStr {
    host.env.get("PATH").unwrap_or(OsStr::new(DEFAULT_PATH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_that_the_table_names_decides() {
        for row in wrappers() {
            let named = row.unless.iter().filter(|name| !name.starts_with('/')).chain(&row.interpreter);
            for name in named {
                assert!(variables().any(|known| known == name), "{name}");
            }
        }
    }
}
