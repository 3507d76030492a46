//! The program of a request, with the settings that count for it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::error::Error;
use crate::formats::elf;
use crate::host::Host;
use crate::inventory;
use crate::loader::search::Searcher;
use crate::pin;
use crate::program::{self, Command, NotPinnable, Note, Program};
use crate::requirements::{Demand, Requirement};
use crate::settings::resolve::{BadPackage, Purpose, Settings};
use crate::settings::{SettingKey, SettingPlace};

/// The file names of the program of a command: as typed, and of each step to the program that really runs.
pub(super) fn names(host: &Host, command: &Command) -> Result<BTreeSet<String>, Error> {
    let (program, _) = program::read(host, command, &[])?;
    let steps = program.steps.iter().map(|step| step.to.as_path());
    let paths = steps.chain([Path::new(&command.program)]);
    let names = paths.filter_map(Path::file_name);
    Ok(names
        .map(|name| name.to_string_lossy().into_owned())
        .collect())
}

/// Reads the program of a command, or what represents the programs of the project.
pub(super) fn of_request<'h>(
    settings: &'h Settings,
    command: Option<&Command>,
) -> Result<(Program, Searcher<'h>), Error> {
    let (mut program, searcher) = match command {
        Some(command) => read(settings, command)?,
        None => programs_of_project(settings)?,
    };
    let typed = command
        .into_iter()
        .flat_map(|command| std::iter::once(&command.program).chain(&command.arguments));
    program.words = typed.cloned().collect();
    add_requirements(settings, &mut program)?;
    Ok((program, searcher))
}

/// Represents the programs of a project: Python with the packages that the project names, where this shell finds them, or
/// else any program that has no search path of its own.
fn programs_of_project(settings: &Settings) -> Result<(Program, Searcher<'_>), Error> {
    let host = &settings.host;
    let uses = settings.layers.words(SettingKey::Uses);
    for name in ["python3", "python"].iter().filter(|_| !uses.is_empty()) {
        let command = Command {
            program: name.into(),
            arguments: Vec::new(),
        };
        if let Ok(found) = program::read(host, &command, &uses) {
            return Ok(found);
        }
    }
    let own = host
        .own_executable()
        .map_err(Error::io("cannot start the proof"))?;
    let mut program = Program::new(own.clone());
    program.is_any = true;
    program.machine = inventory::machine(host).unwrap_or(elf::X86_64);
    program.executable = host.canonical(&own).ok();
    let searcher = Searcher::new(host, program.machine);
    Ok((program, searcher))
}

/// Reads the program. Packages that a file or a variable names do not count for a program that is not Python.
fn read<'s>(settings: &'s Settings, command: &Command) -> Result<(Program, Searcher<'s>), Error> {
    let host = &settings.host;
    let uses = settings.layers.words(SettingKey::Uses);
    let from = settings.layers.get(SettingKey::Uses).next();
    let read = program::read(host, command, &uses);
    let (Err(Error::NoSuchPackage { sites, .. }), Some(setting)) = (&read, from) else {
        return read;
    };
    let is_option = matches!(setting.from, SettingPlace::Option(_));
    let (program, searcher) = program::read(host, command, &[])?;
    let counts = match settings.purpose {
        Purpose::Follow => false,
        // The packages are those of what it starts.
        _ if is_option && (sites.is_empty() || program.is_launcher) => {
            !starts_others(settings, &program)
        }
        _ => is_option || !sites.is_empty(),
    };
    if !counts {
        return Ok((program, searcher));
    }
    match read {
        Err(error) if !is_option => Err(Error::Setting(Box::new(BadPackage {
            place: setting.from.clone(),
            error,
        }))),
        read => read,
    }
}

/// True if whatever the program starts is decided for itself as well.
pub(super) fn follows(settings: &Settings, program: &Program) -> bool {
    settings.purpose.starts() && would_follow(settings, program)
}

/// True if a start of the program would be followed.
pub(super) fn would_follow(settings: &Settings, program: &Program) -> bool {
    settings.layers.flag(SettingKey::Follow) != Some(false)
        && pin::can_be_followed(&settings.host, program)
}

/// True if a program that needs nothing itself starts others, which are decided for themselves.
fn starts_others(settings: &Settings, program: &Program) -> bool {
    let mut notes = program.notes.iter();
    let starts = program.is_launcher || notes.any(Note::is_mended_by_following);
    starts && follows(settings, program)
}

/// Adds the requirements to those of the program itself. A program that cannot be pinned ignores those of files and
/// variables; an option for it is an error.
fn add_requirements(settings: &Settings, program: &mut Program) -> Result<(), Error> {
    let lost = program
        .loss
        .clone()
        .map(|(wrapper, loss)| Note::LosesEnvironment { wrapper, loss });
    // Files and images may demand a driver and still start `ls` without one.
    let needs = program
        .requirements
        .iter()
        .any(Requirement::asks_for_family);
    // An option is then about what the program starts.
    let starts_others = !needs && starts_others(settings, program);
    let cannot = program.cannot_be_pinned().filter(|_| !starts_others);
    if let Some(note) = lost.as_ref().or(cannot) {
        let option =
            settings
                .layers
                .iter()
                .find_map(|setting| match (setting.key, &setting.from) {
                    (
                        SettingKey::Pin | SettingKey::Requires | SettingKey::Locked,
                        SettingPlace::Option(name),
                    ) => Some(*name),
                    _ => None,
                });
        return match option {
            Some(option) => Err(Error::NotPinned {
                option,
                why: NotPinnable::boxed(note, program.runs()),
            }),
            None => Ok(()),
        };
    }
    let own = (!starts_others).then_some(&settings.requirements);
    let is_gpu_program = needs
        || settings.purpose == Purpose::Project
        || own.is_some_and(|own| own.iter().any(Requirement::asks_for_family));
    program
        .requirements
        .extend(own.into_iter().flatten().cloned());
    // What is built without CUDA needs no library, and is what a demand for a GPU is about.
    let is_cpu_build = program.cpu_builds().next().is_some();
    for requirement in &settings.requirements_of_gpu_programs {
        let is_of_cpu_builds = requirement
            .machine()
            .is_some_and(|requirement| requirement.demand == Demand::AnyGpu);
        if is_gpu_program || is_cpu_build && is_of_cpu_builds {
            program.requirements.push(requirement.clone());
        }
    }
    Ok(())
}
