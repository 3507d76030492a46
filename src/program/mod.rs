//! What will really run, and what it has recorded that it needs. Reads files and runs nothing; must not
//! know what is installed elsewhere or what will be picked.

use crate::error::Error;
use crate::host::Host;
use crate::loader::search::Searcher;

mod arguments;
mod candidate;
mod condition;
mod executable;
mod framework;
mod imports;
mod installed;
mod loads;
mod model;
mod note;
mod options;
mod package;
mod program;
mod project;
mod python;
mod recorded;
mod requirement;
mod setting;
mod shim;
mod significant;
mod wrapper;

pub use condition::{Condition, Demand};
use executable::Image;
use model::Running;
pub use model::{Called, Command, How, Package, Pip, Program, Reading, Sought, Step, Surroundings};
pub use note::{EnvironmentLoss, Note, Packer};
pub use program::locate;
pub use requirement::{Asker, Before, First, ImportCertainty, Load, Need, Pin, Requirement, Want};
pub use significant::{Significant, significant};
use wrapper::Inside;
pub use wrapper::variables as wrapper_variables;

/// Reads what `command` will run and what that needs. `uses` names packages that count as imported,
/// instead of those that the program's source shows.
/// What was read of shared objects on the way stays with the loader's model of this machine.
pub fn read<'h>(
    host: &'h Host,
    command: &Command,
    uses: &[String],
) -> Result<(Program, Searcher<'h>), Error> {
    let Started { mut program, inside, running } = start(host, command)?;
    let outside = Searcher::new(host, program.machine);
    let host = inside.host.as_ref().unwrap_or(host);
    if let Some((running, image)) = running {
        let searcher = outside.in_directory(&host.env, &host.cwd);
        let python = python::recognise(host, &running);
        program.called = Some(Called { path: running.executable.clone(), is_python: python.is_some() });
        match python {
            Some(python) => package::read(host, &searcher, &image, &python, uses, &mut program)?,
            None => match uses.first() {
                Some(name) => {
                    return Err(Error::NoSuchPackage { name: name.clone(), sites: Vec::new() });
                }
                None => executable::read(host, &searcher, &image, &mut program),
            },
        }
        program.settle(host);
    }
    program.lose_environment();
    program.inside = inside.host.map(|host| Surroundings { environment: host.env, directory: host.cwd });
    Ok((program, outside))
}

/// As `read`, without a look at what the program uses: which Python it is, and where its packages stand.
pub fn environment(host: &Host, command: &Command) -> Result<Program, Error> {
    let Started { mut program, inside, running } = start(host, command)?;
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
    /// What really runs, if it can be looked into.
    running: Option<(Running, Image)>,
}

fn start(host: &Host, command: &Command) -> Result<Started, Error> {
    let path = program::locate(host, &command.program)?;
    let mut program = Program::new(path.clone());
    let inside = wrapper::open(host, &path, command, &mut program);
    let mut started = Started { program, inside, running: None };
    let Started { program, inside, .. } = &mut started;
    if program.notes.contains(&Note::Elsewhere) {
        return Ok(started);
    }
    let host = inside.host.as_ref().unwrap_or(host);
    let Some(running) = program::follow(host, &inside.program, &inside.arguments, program)? else {
        return Ok(started);
    };
    if let Some(image) = executable::inspect(host, &running.executable, program)? {
        program.machine = image.machine;
        program.executable = host.canonical(&image.path).ok();
        started.running = Some((running, image));
    }
    Ok(started)
}
