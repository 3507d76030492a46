//! `cudarun doctor`: tells if GPU programs can work from here. It examines the machine, and each program that it asks about up to
//! its decision.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::record::libraries;
use super::{Exit, ci_runner, command_of, deliver, described, machine, on_node, print, say};
use crate::catalog::{Framework, catalog};
use crate::cli::{Common, Doctor, LibraryOptions};
use crate::doctor::{self, Examination};
use crate::error::Error;
use crate::fleet::{
    self, Answers, Description, DoctorPage, ExaminedProgram, ProgramAnswer, is_host,
};
use crate::host::Host;
use crate::image::ContainerNode;
use crate::inventory::{ExtensionScope, Installation, Inventory, Origin};
use crate::launch;
use crate::pipeline::{self, Request, any_program, own_views};
use crate::program::{self, Command, Program};
use crate::report::{self, Style};
use crate::settings::lock::LockedFamily;
use crate::settings::resolve::Purpose;
use crate::solve::{Pick, Plan, Reason, Rejection, Summary};
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
    if let (Some(file), None) = (&common.node, &common.root) {
        return on_described_node(&host, common, options, file);
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
    let (examination, inventory) = examine(&host, common)?;
    let programs = programs(&host, common, &options.words)?;
    let page = report::doctor_page(&examination, &inventory, programs);
    if is_new {
        let tables = Some((&examination, &inventory));
        let style = Style::stdout(common.color).of(&host);
        tell(common, options, &page, tables, style)?;
    }
    let exit = exit(&page);
    let Some(file) = &file else { return Ok(exit) };
    let mut answers = report::answers(&host.env, &examination, &inventory);
    for line in &options.programs {
        let program = examine_line(&host, common, line);
        if program.program.is_missing {
            say(&report::not_described(&program.program));
        }
        program.add_to(&mut answers);
    }
    let node = ContainerNode::of(&host, &inventory, examination.surroundings);
    let hidden = report::hidden_findings(&examination);
    let description = Description::new(answers, page, hidden, node);
    let text = description.text(&host);
    let written = if is_new {
        storage::publish_new(file, 0o600, text.as_bytes())
    } else {
        storage::publish(file, text.as_bytes())
    };
    written.map_err(|error| Error::unwritten(file, error))?;
    if !common.quiet {
        say(&report::saved(file));
    }
    Ok(if is_new { exit } else { Exit::Yes })
}

fn tell(
    common: &Common,
    options: &Doctor,
    page: &DoctorPage,
    tables: Option<(&Examination, &Inventory)>,
    style: Style,
) -> Result<(), Error> {
    if options.json {
        return print(&report::json::examination(page));
    }
    if let Some(form) = options.ci_options.ci {
        // What is looked at elsewhere is no file of the project.
        let findings = tables.filter(|_| common.root.is_none());
        let findings = findings.map_or(&[][..], |(examination, _)| &examination.findings);
        let on = common.node.as_deref().and_then(Path::file_stem).map(show);
        let runner = ci_runner(form);
        return print(&report::ci_examination(
            page,
            findings,
            on.as_deref(),
            &runner,
        ));
    }
    let page = |style: Style| report::examination(page, tables, common.verbose, style);
    deliver(
        style,
        common,
        &options.page_options,
        page,
        String::new,
        print,
    )
}

fn exit(page: &DoctorPage) -> Exit {
    if page.count("error") > 0 {
        Exit::No
    } else {
        Exit::Yes
    }
}

/// Tells what `doctor` has found on the node of a description.
fn on_described_node(
    host: &Host,
    common: &Common,
    options: &Doctor,
    file: &Path,
) -> Result<Exit, Error> {
    let page = described(host, file)?.examination;
    if options.save.is_some() || options.save_in.is_some() || !options.words.is_empty() {
        return Err(Error::OnlyOnNode {
            file: file.to_owned(),
        });
    }
    let command = on_node(file);
    let style = Style::stdout(common.color).described(&command, fleet::HOME);
    tell(common, options, &page, None, style)?;
    Ok(exit(&page))
}

/// A program of a command line, and the libraries that it gets elsewhere too.
#[derive(Default)]
pub(super) struct Examined {
    pub program: ExaminedProgram,
    picks: Vec<LockedFamily>,
    /// For each pick, all that fits in its place.
    candidates: Vec<Vec<LockedFamily>>,
}

impl Examined {
    pub(super) fn add_to(self, answers: &mut Answers) {
        let mut place = |family: LockedFamily| {
            let all = &mut answers.libraries;
            all.iter()
                .position(|one| *one == family)
                .unwrap_or_else(|| {
                    all.push(family);
                    all.len() - 1
                })
        };
        let answer = ProgramAnswer {
            picks: self.picks.into_iter().map(&mut place).collect(),
            candidates: self
                .candidates
                .into_iter()
                .map(|fitting| fitting.into_iter().map(&mut place).collect())
                .collect(),
            program: self.program,
        };
        answers.programs.push(answer);
    }
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
        .name
        .clone()
        .or_else(of_slurm)
        .or_else(own)
        .unwrap_or_default();
    if !is_host(name.trim()) {
        return Err(Error::Usage {
            message: format!("`{}` cannot be the name of a machine", show(&name)),
            hint: Some("--name NAME, of letters, digits, `-`, `_` and dots".to_owned()),
        });
    }
    Ok(format!("{}.json", name.trim()).into())
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
                let why = vec![in_words(&error)];
                let words = report::shell_words(words);
                Ok(vec![report::missing_program(&words, why)])
            }
            examined => Ok(vec![examined?.program]),
        };
    }
    let Ok(python) = environment(host, "python3".as_ref()) else {
        return Ok(Vec::new());
    };
    let mut programs = Vec::new();
    for module in frameworks(host, &python) {
        let words = [
            "python3".into(),
            "-c".into(),
            format!("import {module}").into(),
        ];
        if let Ok(examined) = examine_program(host, common, &words) {
            programs.push(examined.program);
        }
    }
    Ok(programs)
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
pub(super) fn examine_line(host: &Host, common: &Common, line: &str) -> Examined {
    let words: Vec<OsString> = shlex::split(line)
        .unwrap_or_default()
        .into_iter()
        .map(OsString::from)
        .collect();
    let examined = if words.is_empty() {
        Err("it is not a command line".to_owned())
    } else {
        examine_program(host, common, &words).map_err(|error| in_words(&error))
    };
    let mut examined = examined.unwrap_or_else(|why| Examined {
        program: report::missing_program(line, vec![why]),
        ..Examined::default()
    });
    line.clone_into(&mut examined.program.command);
    examined
}

/// An error of a program, without the excerpt of a person's file that follows a fault of settings.
fn in_words(error: &Error) -> String {
    let text = error.to_string();
    match error {
        Error::Setting(_) => text.lines().next().unwrap_or_default().to_owned(),
        _ => text,
    }
}

fn examine_program(host: &Host, common: &Common, words: &[OsString]) -> Result<Examined, Error> {
    let (command, library_options) = (command_of(words), LibraryOptions::default());
    let request = Request::new(
        host,
        common,
        &library_options,
        Some(&command),
        Purpose::Answer,
    );
    let mut settings = request.settings()?;
    let (facts, decision) = request.decision(&mut settings)?;
    let inventory = &facts.inventory;
    let outcome = &decision.outcome;
    let program = report::examined_program(
        words,
        &facts.program,
        inventory,
        &decision,
        &facts.before(),
        &facts.compilers,
        facts.can_fetch(outcome),
    );
    let mut candidates: Vec<Vec<LockedFamily>> = Vec::new();
    if let Some(plan) = outcome.plan().filter(|_| !program.is_refused) {
        for pick in &plan.picks {
            if is_shared(&pick.installation) {
                let fitting = fitting(plan, pick, inventory);
                candidates.push(libraries(facts.program.machine, inventory, fitting));
            }
        }
    }
    Ok(Examined {
        picks: candidates.iter().map(|all| all[0].clone()).collect(),
        candidates,
        program,
    })
}

/// True if a program may get the installation elsewhere too: the driver belongs to the machine, and a package's own library
/// cannot be picked elsewhere.
fn is_shared(one: &Installation) -> bool {
    !one.is_driver() && one.origin != Origin::Bundled
}

/// The pick, and what the solver admits in its place.
fn fitting<'i>(
    plan: &'i Plan,
    pick: &'i Pick,
    inventory: &'i Inventory,
) -> impl Iterator<Item = &'i Installation> {
    let admitted = move |one: &&Installation| {
        let own = Summary::of(one);
        let only_less = |rejected: &Rejection| {
            matches!(rejected.reason, Reason::LessPreferred { .. }) && rejected.installation == own
        };
        one.family == pick.installation.family
            && pick.is_of_soname(one.soname)
            && is_shared(one)
            && plan.rejected.iter().any(only_less)
    };
    std::iter::once(&pick.installation).chain(inventory.installations.iter().filter(admitted))
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
    let library_options = LibraryOptions::default();
    let settings =
        Request::new(host, common, &library_options, None, Purpose::Examine).settings()?;
    Ok(doctor::examine(&doctor::DoctorSubject {
        host,
        inventory,
        views: &own_views(host),
        followed_by: followed_by.as_deref(),
        settings: &settings,
    }))
}

/// Finds what a program from here may use: the machine, and the packages of the first Python in PATH.
fn inventory(host: &Host, common: &Common) -> Result<Inventory, Error> {
    let library_options = LibraryOptions::default();
    let request = Request::new(host, common, &library_options, None, Purpose::Examine);
    let settings = request.settings()?;
    let _progress = request.progress();
    let mut scope = any_program(&settings, common)?;
    if let Ok(program) = environment(host, "python3".as_ref()) {
        scope.machine = program.machine;
        scope.site_packages = program.site_packages;
    }
    scope.extensions = ExtensionScope::All;
    scope.toolkits = true;
    Ok(pipeline::scan(&settings.host, &scope))
}
