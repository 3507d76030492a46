//! `cudarun doctor`: tells if GPU programs can work from here. It examines the machine, and each program that it asks about up to
//! its decision.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::{Exit, command_of, deliver, machine, print, say};
use crate::catalog::{Framework, catalog};
use crate::cli::{Common, Doctor, Wishes};
use crate::doctor::{self, Examination};
use crate::error::Error;
use crate::fleet::is_host;
use crate::host::Host;
use crate::inventory::{self, Inventory, ScanCache, Scope};
use crate::launch;
use crate::machine::save;
use crate::pipeline::{self, Reached, Request, Stop, Subject, any_program, everywhere, own_views};
use crate::program::{self, Command, Program};
use crate::report::{self, ExaminedProgram, Style};
use crate::settings::resolve::{Purpose, Settings};
use crate::storage;
use crate::text::show;

/// Slurm's name of this machine. Several may have one host name.
const NODE_OF_SLURM: &str = "SLURMD_NODENAME";

pub fn doctor(host: Host, common: &Common, options: &Doctor) -> Result<Exit, Error> {
    let describes = options.save_in.is_some() || !options.programs.is_empty();
    if describes && !options.words.is_empty() {
        let begin = options
            .programs
            .last()
            .map(|line| format!("{line} "))
            .unwrap_or_default();
        let line = begin + &report::shell_words(&options.words);
        let quoted = report::shell_words(&[line.clone().into()]);
        return Err(Error::Usage {
            message: format!(
                "--for takes the whole command line in quotes, not `{}`",
                show(&line)
            ),
            hint: Some(format!("quote the command line: --for {quoted}")),
        });
    }
    // The file is this machine's, whichever is looked at.
    let file = match &options.save_in {
        Some(directory) => Some(host.absolute(directory).join(name_of_node(&host, options)?)),
        None => options.save.as_ref().map(|file| host.absolute(file)),
    };
    let is_new = options.save_in.is_none();
    if let Some(file) = file
        .as_ref()
        .filter(|file| is_new && host.lstat(file).is_ok())
    {
        return Err(Error::Exists { path: file.clone() });
    }
    if let Some(file) = &file {
        storage::can_publish(&host, file).map_err(|error| Error::unwritten(file, error))?;
    }
    let host = machine(host, common)?;
    if let (Some(file), Some(_)) = (&file, &options.save_in) {
        save(&host, common, options, file)?;
        return Ok(Exit::Yes);
    }
    let (examination, inventory) = examine(&host, common)?;
    let programs = programs(&host, common, &options.words)?;
    if options.json {
        print(&report::json::examination(
            &examination,
            &inventory,
            &programs,
        ))?;
    } else {
        let page = |style: Style| {
            report::examination(&examination, &inventory, common.verbose, style)
                + &report::programs(&programs, common.verbose, style)
        };
        let style = Style::stdout(common.color).of(&host);
        deliver(style, common, &options.paper, page, String::new, print)?;
    }
    if let Some(file) = &file {
        save(&host, common, options, file)?;
    }
    Ok(if examination.has_error() {
        Exit::No
    } else {
        Exit::Yes
    })
}

/// Scans, as under `--root` and all that `list` would show, and writes a description of what was read.
fn save(host: &Host, common: &Common, options: &Doctor, file: &Path) -> Result<(), Error> {
    let unwritten = |error| Error::unwritten(file, error);
    let host = host.recording().map_err(unwritten)?;
    let (examination, _) = examine(&host, common)?;
    let settings = Settings::resolve(&host, common, &Wishes::default(), None, Purpose::Examine)?;
    let everywhere = everywhere(&settings, common, None).unwrap_or_default();
    inventory::scan(
        &host,
        &Scope {
            code: true,
            ..everywhere
        },
        &mut ScanCache::default(),
    );
    for line in &options.programs {
        let program = examine_line(&host, common, line);
        if program.is_missing {
            say(&report::not_described(&program));
        }
    }
    let saved = save::describe(&host, &examination, &options.programs);
    let written = match &options.save_in {
        Some(_) => storage::publish(file, saved.text.as_bytes()),
        None => storage::publish_new(file, 0o600, saved.text.as_bytes()),
    };
    written.map_err(unwritten)?;
    if !common.quiet {
        say(&report::saved(file, saved.files, &saved.lost));
    }
    Ok(())
}

/// Returns the name of the file that describes this machine in a directory with those of others.
fn name_of_node(host: &Host, options: &Doctor) -> Result<PathBuf, Error> {
    let of_slurm = || {
        host.env
            .non_empty(NODE_OF_SLURM)
            .map(|name| name.to_string_lossy().into_owned())
    };
    let short = |name: String| name.split('.').next().unwrap_or_default().to_owned();
    let own = || {
        host.read_text(Path::new("/proc/sys/kernel/hostname"))
            .ok()
            .map(short)
    };
    let name = options
        .node
        .clone()
        .or_else(of_slurm)
        .or_else(own)
        .unwrap_or_default();
    if !is_host(name.trim()) {
        return Err(Error::Usage {
            message: format!("`{}` cannot be the name of a machine", show(&name)),
            hint: Some("--node NAME, of letters, digits, `-`, `_` and dots".to_owned()),
        });
    }
    Ok(format!("{}.toml", name.trim()).into())
}

/// Examines the program of the command line, or each framework of the first Python in PATH, in the way of `explain`.
pub(super) fn programs(
    host: &Host,
    common: &Common,
    words: &[OsString],
) -> Result<Vec<ExaminedProgram>, Error> {
    if !words.is_empty() {
        return match examine_program(host, common, words) {
            // It is a finding of the page.
            Err(error @ Error::Setting(_)) => {
                let why = vec![error.to_string()];
                Ok(vec![ExaminedProgram::missing(
                    &report::shell_words(words),
                    why,
                )])
            }
            examined => Ok(examined?.into_iter().collect()),
        };
    }
    let Ok(python) = environment(host, "python3".as_ref()) else {
        return Ok(Vec::new());
    };
    let examined = |module: &String| {
        let words = [
            "python3".into(),
            "-c".into(),
            format!("import {module}").into(),
        ];
        examine_program(host, common, &words).ok()?
    };
    Ok(frameworks(host, &python).filter_map(examined).collect())
}

/// The environment of a Python that starts by this word.
pub(super) fn environment(host: &Host, python: &OsStr) -> Result<Program, Error> {
    let command = Command {
        program: python.to_owned(),
        arguments: Vec::new(),
    };
    program::environment(host, &command)
}

/// The modules of the frameworks in the environment of a Python, the most common first.
pub(super) fn frameworks(host: &Host, python: &Program) -> impl Iterator<Item = &'static String> {
    let is_here = |module: &&String| {
        python
            .site_packages
            .iter()
            .any(|site| host.is_directory(&site.join(module)))
    };
    let mut frameworks: Vec<&Framework> = catalog().frameworks.iter().collect();
    frameworks.sort_by_key(|framework| framework.rank.unwrap_or(u32::MAX));
    frameworks
        .into_iter()
        .filter_map(move |framework| framework.modules.iter().find(is_here))
}

/// Examines the program of a command line, as a shell would read it.
pub(super) fn examine_line(host: &Host, common: &Common, line: &str) -> ExaminedProgram {
    let words: Option<Vec<OsString>> =
        shlex::split(line).map(|words| words.into_iter().map(OsString::from).collect());
    let examined = match words.filter(|words| !words.is_empty()) {
        Some(words) => examine_program(host, common, &words).map_err(|error| error.to_string()),
        None => Err("it is not a command line".to_owned()),
    };
    match examined {
        Ok(Some(program)) => ExaminedProgram {
            command: line.to_owned(),
            ..program
        },
        Ok(None) => ExaminedProgram::missing(line, Vec::new()),
        Err(why) => ExaminedProgram::missing(line, vec![why]),
    }
}

fn examine_program(
    host: &Host,
    common: &Common,
    words: &[OsString],
) -> Result<Option<ExaminedProgram>, Error> {
    let (command, wishes) = (command_of(words), Wishes::default());
    let request = Request::new(
        host,
        common,
        &wishes,
        Subject::Command(&command),
        Purpose::Answer,
    );
    let mut found = None;
    pipeline::run(&request, &mut |reached| match reached {
        Reached::Decision(facts, decision) => {
            let (inventory, before, compilers) =
                (&facts.inventory, facts.before(), &facts.compilers);
            let told = report::examined_program(
                words,
                &facts.program,
                inventory,
                decision,
                &before,
                compilers,
            );
            let outcome = &decision.outcome;
            found = Some(told.with_absent(outcome.wanted(), facts.can_fetch(outcome)));
            Err(Stop::Exit(Exit::Yes))
        }
        _ => Ok(()),
    })?;
    Ok(found)
}

pub(super) fn examine(host: &Host, common: &Common) -> Result<(Examination, Inventory), Error> {
    let inventory = inventory(host, common)?;
    let examination = examine_of(host, common, &inventory)?;
    Ok((examination, inventory))
}

pub(super) fn examine_of(
    host: &Host,
    common: &Common,
    inventory: &Inventory,
) -> Result<Examination, Error> {
    let followed_by = launch::followed_by();
    let settings = Settings::resolve(host, common, &Wishes::default(), None, Purpose::Examine)?;
    Ok(doctor::examine(&doctor::Subject {
        host,
        inventory,
        views: &own_views(host),
        followed_by: followed_by.as_deref(),
        settings: &settings,
    }))
}

/// Finds what a program from here may use: the machine, and the packages of the first Python in PATH.
fn inventory(host: &Host, common: &Common) -> Result<Inventory, Error> {
    let scope = |settings: &Settings| {
        let mut scope = any_program(settings, common)?;
        if let Ok(program) = environment(host, "python3".as_ref()) {
            scope.machine = program.machine;
            scope.site_packages = program.site_packages;
        }
        Ok(Scope {
            extensions: true,
            toolkits: true,
            ..scope
        })
    };
    let wishes = Wishes::default();
    let request = Request::new(
        host,
        common,
        &wishes,
        Subject::Machine(&scope),
        Purpose::Examine,
    );
    let mut found = None;
    pipeline::run(&request, &mut |reached| match reached {
        Reached::Inventory(_, inventory) => {
            found = Some(*inventory);
            Err(Stop::Exit(Exit::Yes))
        }
        _ => Ok(()),
    })?;
    Ok(found.expect("the flow of a machine ends with its inventory"))
}
