//! The program that will really run, and its requirements. Reads files and runs nothing; must not know what is installed
//! elsewhere or what will be picked.

use crate::error::Error;
use crate::host::Host;
use crate::loader::search::Searcher;

mod arguments;
mod built_framework;
mod candidate;
mod deciding_words;
mod distributions;
mod executable;
mod framework;
mod framework_records;
mod imports;
mod indirect_imports;
mod model;
mod native;
mod note;
mod opens;
mod options;
mod package;
mod project;
mod python;
mod resolve;
mod shim;
mod wrapper;

pub use built_framework::{BuiltFramework, built_framework, is_required_for_build};
pub use deciding_words::{DecidingWords, deciding_words, without_numbers};
use executable::ExecutableImage;
pub use framework::gpu_code;
use model::Running;
pub use model::{Command, Package, Pip, Program, ResolveStep, StepKind, Surroundings};
pub use note::{EnvironmentLoss, NotPinnable, Note, Packer};
pub use resolve::{candidates, interpreter_line, locate, path_of};
use wrapper::Inside;
pub use wrapper::{is_at_terminal, variables as wrapper_variables};

/// Reads the program that `command` will run, and its requirements. `uses` names packages that count as imported, instead of
/// those that the program's source shows. The searcher keeps the shared objects that were read.
pub fn read<'h>(
    host: &'h Host,
    command: &Command,
    uses: &[String],
) -> Result<(Program, Searcher<'h>), Error> {
    let Started {
        mut program,
        inside,
        running,
    } = start(host, command)?;
    let outside = Searcher::new(host, program.machine);
    let host = inside.host.as_ref().unwrap_or(host);
    if let Some((running, image)) = running {
        let searcher = outside.in_directory(&host.env, &host.cwd);
        let python = python::recognise(host, &running);
        match python {
            Some(python) => package::read(host, &searcher, &image, &python, uses, &mut program)?,
            None => {
                if let Some(name) = uses.first() {
                    return Err(Error::NoSuchPackage {
                        name: name.clone(),
                        sites: Vec::new(),
                    });
                }
                executable::read(host, &searcher, &image, &mut program);
                if let Some(directory) = program.frozen.clone() {
                    package::frozen(host, &searcher, &image, &directory, &mut program);
                }
            }
        }
        program.settle(host);
    }
    program.lose_environment();
    program.inside = inside.host.map(|host| Surroundings {
        environment: host.env,
        directory: host.cwd,
    });
    Ok((program, outside))
}

/// Reads the Python environment of a command, and not what the program uses.
pub fn environment(host: &Host, command: &Command) -> Result<Program, Error> {
    let Started {
        mut program,
        inside,
        running,
    } = start(host, command)?;
    let host = inside.host.as_ref().unwrap_or(host);
    if let Some((running, image)) = running
        && let Some(python) = python::recognise(host, &running)
    {
        package::environment(host, &image, &python, &mut program);
    }
    Ok(program)
}

struct Started {
    program: Program,
    inside: Inside,
    /// `None` where the executable cannot be read.
    running: Option<(Running, ExecutableImage)>,
}

fn start(host: &Host, command: &Command) -> Result<Started, Error> {
    let path = resolve::locate(host, &command.program)?;
    let mut program = Program::new(path.clone());
    let inside = wrapper::open(host, &path, command, &mut program);
    let mut started = Started {
        program,
        inside,
        running: None,
    };
    let Started {
        program, inside, ..
    } = &mut started;
    if program.notes.contains(&Note::Elsewhere) {
        return Ok(started);
    }
    let host = inside.host.as_ref().unwrap_or(host);
    let Some(running) = resolve::follow(host, &inside.program, &inside.arguments, program)? else {
        return Ok(started);
    };
    if let Some(image) = executable::inspect(host, &running.executable, program)? {
        program.machine = image.machine;
        program.executable = host.canonical(&image.path).ok();
        started.running = Some((running, image));
    }
    Ok(started)
}
