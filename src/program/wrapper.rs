//! Follows a command to the command that it starts: `nohup`, `env`, `torchrun`, `uv run` and their like, as
//! `profiles/wrappers.toml` describes them. Does not guess, and runs nothing.
//!
//! Wrappers are followed as far as their row in `profiles/wrappers.toml` knows their options. The exec stays what was
//! typed. If the way ends at an unknown option and something could be picked, a note says so.
//!
//! cudarun reads the environment of a tool before the tool changes it (`uv run` syncs it); a followed program is
//! decided afterwards. `which`, `ldd`, `sudoedit` and `--help` start no GPU program.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::arguments::{CommandLine, PythonCode};
use super::model::{Command, Program, StepKind};
use super::note::{EnvironmentLoss, Note};
use super::options::{self, Ending, WrappedCommand};
use super::{executable, project, python, resolve};
use crate::catalog::{
    EnvironmentTool, Inheritance, Meaning, UsagePart, Wrapper, may_be_wrapper, wrapper_variables,
    wrappers,
};
use crate::environment::{Environment, preload_elements};
use crate::host::Host;
use crate::variables::{self, LIBRARY_PATH, PRELOAD};

/// A longer chain is two wrappers that start each other.
const LIMIT: usize = 16;
/// The variables that the stronger modes pin by.
const PINNING: [&str; 4] = [variables::AUDIT, variables::PINS, variables::TREE, PRELOAD];
/// The variable that names the shell for code.
const SHELL: &str = "SHELL";

/// The program inside all wrappers.
pub(super) struct Inside {
    /// As PATH finds it.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// The machine with the environment and the directory of the program, where a wrapper changes them.
    pub host: Option<Host>,
}

/// True if a program or a module of this name may start another one.
pub(super) fn is_possible(program: &Path) -> bool {
    program
        .file_name()
        .and_then(OsStr::to_str)
        .is_some_and(may_be_wrapper)
}

/// The variables that only wrappers read.
pub fn variables() -> impl Iterator<Item = &'static str> {
    wrapper_variables().chain([SHELL])
}

/// True if a shell without arguments reads its commands from a terminal.
pub fn is_at_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Follows wrappers from `path`, which PATH finds for the command, as far as their programs are known.
pub(super) fn open(outer: &Host, path: &Path, command: &Command, program: &mut Program) -> Inside {
    let arguments = command.arguments.clone();
    let mut inside = Inside {
        program: path.to_owned(),
        arguments,
        host: None,
    };
    let mut has_more = false;
    for _ in 0..LIMIT {
        let host = inside.host.as_ref().unwrap_or(outer);
        let Some(invocation) = Invocation::find(host, &inside) else {
            return inside;
        };
        let followed = invocation.enter(has_more, program);
        has_more |= invocation.row.has(&UsagePart::StandardInput);
        match followed {
            Ok(next) => {
                program.step(
                    StepKind::Wrapper,
                    &next.host.as_ref().unwrap_or(host).absolute(&next.program),
                );
                inside = Inside {
                    host: next.host.or(inside.host),
                    ..next
                };
            }
            Err(note) => {
                program.starts_nothing = note.is_none();
                program.notes.extend(note);
                return inside;
            }
        }
    }
    program.notes.push(Note::StartsAnother);
    inside
}

/// The next program, with its machine only where the wrapper changes it. Otherwise a note, or `None` where no program starts.
type Followed = Result<Inside, Option<Note>>;

/// The command line of one wrapper.
struct Invocation<'a> {
    host: &'a Host,
    program: &'a Path,
    arguments: &'a [OsString],
    row: &'static Wrapper,
    /// The module that is started with `python -m`.
    module: Option<&'static str>,
}

fn row_named(name: &str) -> Option<&'static Wrapper> {
    wrappers().iter().find(|row| row.is_named(name))
}

impl<'a> Invocation<'a> {
    /// Finds the row of a program, by the name that was typed, or else by that of the file.
    fn find(
        host: &'a Host,
        Inside {
            program, arguments, ..
        }: &'a Inside,
    ) -> Option<Invocation<'a>> {
        let name = program.file_name()?.to_str()?;
        if python::is_name(OsStr::new(name)) {
            let line = CommandLine::parse(arguments);
            let PythonCode::Module(module) = &line.run else {
                return None;
            };
            let name = format!("python -m {}", module.to_str()?);
            let row = row_named(&name)?;
            let module = row
                .names
                .iter()
                .find(|known| **known == name)?
                .rsplit(' ')
                .next();
            let arguments = arguments.get(line.consumed..).unwrap_or_default();
            return Some(Invocation {
                host,
                program,
                arguments,
                row,
                module,
            });
        }
        let real = host
            .canonical(program)
            .unwrap_or_else(|_| program.to_owned());
        let row = row_named(name)
            .or_else(|| wrappers().iter().find(|row| is_in_directory(row, program)))
            .or_else(|| row_named(real.file_name()?.to_str()?))?;
        // No wrapper of this name uses NVIDIA's libraries, so this is another program.
        if !row.uses_gpu && executable::own_library(host, &real).is_some() {
            return None;
        }
        Some(Invocation {
            host,
            program,
            arguments,
            row,
            module: None,
        })
    }

    fn enter(&self, has_more: bool, program: &mut Program) -> Followed {
        let Invocation { host, row, .. } = *self;
        // `python -m uv` needs a command; the name of `accelerate.commands.launch` ends with it.
        let last = self.module.and_then(|module| module.rsplit('.').next());
        let has_command = row.commands().iter().any(|command| last == Some(command));
        let line = options::read(row, self.arguments, has_command);
        let starts = !matches!(line, Err(Ending::Nothing | Ending::Empty));
        if row.environment == Inheritance::Elsewhere {
            let leaves = starts || is_in_directory(row, self.program);
            return Err(leaves.then_some(Note::Elsewhere));
        }
        let real = host
            .canonical(self.program)
            .unwrap_or_else(|_| self.program.to_owned());
        // The loader of a program with other rights always drops these variables.
        let is_secure = executable::secure_execution(host, &real).is_some();
        program.watched.extend([host.absolute(self.program), real]);
        if starts && (is_secure || row.environment == Inheritance::Drops) {
            self.record_loss(EnvironmentLoss::Rights, program);
        }
        if starts && is_secure && row.environment == Inheritance::Keeps {
            return Err(Some(Note::StartsAnother));
        }
        let is_shell = row.has(&UsagePart::Shell);
        let start = match line {
            Ok(start) if self.shell_code(&start).is_some_and(options::starts_nothing) => {
                return Err(None);
            }
            Ok(start) if !self.is_undecided(program) => start,
            // The program comes from standard input.
            Err(Ending::Empty) if has_more || is_shell && !is_at_terminal() => {
                return Err(Some(Note::StartsAnother));
            }
            Err(Ending::Nothing | Ending::Empty) => return Err(None),
            Err(Ending::Elsewhere) => return Err(Some(Note::Elsewhere)),
            Err(Ending::Unknown) | Ok(_) => return Err(Some(Note::StartsAnother)),
        };
        program
            .undone
            .extend(PINNING.into_iter().filter(|variable| {
                start.set.iter().any(|(name, _)| name == variable)
                    || start.values(Meaning::Unsets).any(|name| name == *variable)
            }));
        if start.has(Meaning::User) {
            self.record_loss(EnvironmentLoss::User, program);
        }
        if let Some(loss) = loss_by(&start) {
            self.record_loss(loss, program);
        }
        self.follow(&start, program)
    }

    fn follow(&self, start: &WrappedCommand, program: &mut Program) -> Followed {
        let mut changed = self.changed(start);
        let host = changed.as_ref().unwrap_or(self.host);
        if let Some(finder) = self.row.finder {
            let found =
                project::find(host, finder, self.program, start, program).ok_or_else(|| {
                    Note::EnvironmentNotKnown {
                        wrapper: self.name(),
                    }
                })?;
            let mut path = found.prefix.join("bin").into_os_string();
            path.push(":");
            path.push(resolve::path_of(host));
            let mut env = host.env.clone();
            env.set("PATH", path);
            env.set(found.variable, found.prefix);
            changed = Some(host.inside(env, host.cwd.clone()));
        }
        let host = changed.as_ref().unwrap_or(self.host);
        let mut words = self
            .words(host, start, program)
            .unwrap_or_default()
            .into_iter();
        let name = words.next().ok_or(Note::StartsAnother)?;
        // A new program in an earlier directory would be started instead.
        if !name.as_bytes().contains(&b'/') {
            program.located.extend(resolve::candidates(host, &name));
        }
        let program = resolve::locate(host, &name).map_err(|_| Note::StartsAnother)?;
        Ok(Inside {
            program: host.absolute(&program),
            arguments: words.collect(),
            host: changed,
        })
    }

    fn name(&self) -> String {
        self.program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    }

    /// Records that this wrapper keeps the environment of cudarun from the program; the outermost wrapper counts.
    fn record_loss(&self, loss: EnvironmentLoss, program: &mut Program) {
        program.loss.get_or_insert_with(|| (self.name(), loss));
    }

    fn shell_code<'s>(&self, start: &'s WrappedCommand) -> Option<&'s OsStr> {
        let is_code = self.row.has(&UsagePart::Shell) && start.option(&["-c"]).is_some();
        start
            .words
            .first()
            .filter(|_| is_code)
            .map(OsString::as_os_str)
    }

    /// True if a variable or a file decides which program starts, in a way that is not followed.
    fn is_undecided(&self, program: &mut Program) -> bool {
        self.row.unless.iter().any(|name| {
            if name.starts_with('/') {
                program.located.insert(PathBuf::from(name));
                return self.host.is_file(Path::new(name));
            }
            self.host.env.get(name).is_some()
        })
    }

    /// The machine as the command line changes it; `None` where it changes nothing.
    fn changed(&self, start: &WrappedCommand) -> Option<Host> {
        let host = self.host;
        let root = self.row.has(&UsagePart::Root).then_some(OsStr::new("/"));
        let directory = start.values(Meaning::Directory).last().or(root);
        let (clears, unsets) = (start.has(Meaning::Clears), start.has(Meaning::Unsets));
        if start.set.is_empty() && !unsets && !clears && directory.is_none() {
            return None;
        }
        let mut env = if clears {
            Environment::default()
        } else {
            host.env.clone()
        };
        start
            .values(Meaning::Unsets)
            .for_each(|name| env.remove(name));
        start
            .set
            .iter()
            .for_each(|(name, value)| env.set(name, value));
        let directory = directory.map(|directory| host.absolute(Path::new(directory)));
        let directory = directory.map(|directory| host.canonical(&directory).unwrap_or(directory));
        Some(host.inside(env, directory.unwrap_or_else(|| host.cwd.clone())))
    }

    /// The command line that is started; `None` where that is not known.
    fn words(
        &self,
        host: &Host,
        start: &WrappedCommand,
        program: &mut Program,
    ) -> Option<Vec<OsString>> {
        let row = self.row;
        if let Some(code) = start.values(Meaning::Code).last() {
            let shell = host.env.non_empty(SHELL).unwrap_or(OsStr::new("/bin/sh"));
            return Some(vec![shell.to_owned(), "-c".into(), code.to_owned()]);
        }
        let first = start.words.first()?;
        if row.has(&UsagePart::Unknown)
            || row.has(&UsagePart::Image) && !first.as_bytes().contains(&b'/')
        {
            return None;
        }
        if row.has(&UsagePart::Shell) {
            let words = options::plain_command(self.shell_code(start)?)?;
            // bash starts a function of the environment instead.
            let function = format!("BASH_FUNC_{}%%", words.first()?.to_str()?);
            return host.env.get(&function).is_none().then_some(words);
        }
        let is_module = start.has(Meaning::Module);
        let python = if row.has(&UsagePart::Script) && !start.has(Meaning::Program) {
            row.interpreter
                .as_ref()
                .and_then(|name| host.env.non_empty(name))
                .map(OsStr::to_owned)
                .or_else(|| self.own_python(host, program))?
        // uv starts a file of Python's with Python.
        } else if is_module
            || row.finder == Some(EnvironmentTool::Uv) && python::is_source(Path::new(first))
        {
            OsString::from("python")
        } else {
            return Some(start.words.clone());
        };
        let mut words = vec![python];
        if is_module {
            words.push("-m".into());
        }
        words.extend_from_slice(&start.words);
        Some(words)
    }

    /// The Python that a wrapper written in Python runs in.
    fn own_python(&self, host: &Host, program: &mut Program) -> Option<OsString> {
        if self.module.is_some() {
            return Some(self.program.as_os_str().to_owned());
        }
        let mut own = Program::new(self.program.to_owned());
        let running = resolve::follow(host, self.program, &[], &mut own)
            .ok()
            .flatten();
        program.watched.append(&mut own.watched);
        program.located.append(&mut own.located);
        let python = running?.executable;
        python::is_python(&python).then(|| python.into_os_string())
    }
}

/// How the command line sets or unsets a library path, or preloads a library.
fn loss_by(start: &WrappedCommand) -> Option<EnvironmentLoss> {
    let set = start
        .set
        .iter()
        .find_map(|(name, value)| match name.to_str()? {
            LIBRARY_PATH => Some(LIBRARY_PATH),
            PRELOAD => preload_elements(value)
                .iter()
                .any(|element| executable::is_library(&element.to_string_lossy()))
                .then_some(PRELOAD),
            _ => None,
        });
    if start.has(Meaning::Clears) {
        Some(EnvironmentLoss::Clears)
    } else if let Some(variable) = set {
        Some(EnvironmentLoss::Sets { variable })
    } else {
        start
            .values(Meaning::Unsets)
            .any(|name| name == LIBRARY_PATH)
            .then_some(EnvironmentLoss::Unsets {
                variable: LIBRARY_PATH,
            })
    }
}

/// True if a row names the whole directory of a program: `snap/bin/*`.
fn is_in_directory(row: &Wrapper, program: &Path) -> bool {
    let mut directories = row.names.iter().filter_map(|name| name.strip_suffix("/*"));
    program
        .parent()
        .is_some_and(|directory| directories.any(|end| directory.ends_with(end)))
}
