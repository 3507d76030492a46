//! One verb a file: the stages in order, then a report.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use clap::ColorChoice;

use crate::cli::{Common, PinMode, Wishes};
use crate::environment::Diff;
use crate::error::Error;
use crate::formats::elf;
use crate::host::{FileId, Host};
use crate::inventory::{self, Inventory, ScanCache, Scope};
use crate::launch;
use crate::loader::search::Searcher;
use crate::machine::Machine;
use crate::pin::audit_module;
use crate::pin::view;
use crate::pin::{self, Decision, Mode, Pinned, PublishedPaths, Question};
use crate::predict::{self, Prediction};
use crate::program::{self, Command, How, Program};
use crate::report::{self, Style};
use crate::settings::{Key, Layers};
use crate::solve::{FailedProof, Outcome, Plan, Policy};
use crate::storage::{self, scans};

pub mod allow;
pub mod completions;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod hook;
pub mod init;
pub mod list;
mod progress;
pub mod prove;
mod proving;
pub mod record;
pub mod run;
pub mod trace;
mod watched;

use crate::settings::resolve::{Purpose, Settings, vocabulary, wanted};
use progress::Looking;

/// How a verb ended, other than by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Yes,
    /// The answer is no.
    No,
    /// There was nothing to find the answer by.
    Unknown,
    /// The program was not started, and why has been said.
    Refused,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Yes => 0,
            Exit::No => 1,
            Exit::Unknown => 2,
            Exit::Refused => 125,
        }
    }
}

/// How a program ended that was waited for.
pub enum Ended {
    Program(ExitStatus),
    /// It was not started, and why has been said.
    NotStarted(u8),
}

/// The stages up to the decision.
struct Considered<'h> {
    stages: Stages<'h>,
    decision: Decision,
}

/// What a decision is made from.
struct Stages<'h> {
    wanted: &'h Settings,
    program: Program,
    inventory: Inventory,
    searcher: Searcher<'h>,
    /// Directories in which views of ours stand.
    views: Vec<PathBuf>,
}

impl<'h> std::ops::Deref for Considered<'h> {
    type Target = Stages<'h>;

    fn deref(&self) -> &Stages<'h> {
        &self.stages
    }
}

impl<'h> Stages<'h> {
    /// Looks at the machine for this program.
    fn of(
        wanted: &'h Settings,
        common: &Common,
        program: Program,
        searcher: Searcher<'h>,
    ) -> Result<Stages<'h>, Error> {
        let host = &wanted.host;
        let searcher = match &program.executable {
            Some(executable) => searcher.of_program(executable),
            None => searcher,
        };
        let views = own_views(host);
        let is_source = |how: How| matches!(how, How::Script | How::Module | How::Code);
        let executable = program.steps.iter().rfind(|step| !is_source(step.how));
        let mut scope = Scope {
            site_packages: program.site_packages.clone(),
            own_directories: program.own_directories.iter().cloned().collect(),
            machine: program.machine,
            executable: executable.map(|step| step.to.clone()),
            views: views.clone(),
            symbols: !program.requirements.is_empty(),
            code: !program.requirements.is_empty() && inventory::sees_gpu(host),
            ..asked(host, common, &wanted.settings)?
        };
        scope.also.extend(wanted.directories.iter().cloned());
        // What keeps the environment from a program is said by a note, and what is here counts for that.
        let inside = program.inside.as_ref().filter(|_| program.loss.is_none());
        let seen = inside.map(|inside| host.inside(inside.environment.clone(), inside.directory.clone()));
        let searcher = match &program.inside {
            Some(inside) => searcher.in_directory(&inside.environment, &inside.directory),
            None => searcher,
        };
        let inventory = look(seen.as_ref().unwrap_or(host), &scope);
        Ok(Stages { wanted, program, inventory, searcher, views })
    }

    fn policy(&self, passed: usize, failed_proofs: &[FailedProof]) -> Policy {
        Policy {
            views: self.views.clone(),
            origins: self.wanted.settings.origins(),
            passed,
            failed_proofs: failed_proofs.to_vec(),
            mapped: self.mapped(),
            ..Policy::default()
        }
    }

    fn decide(&self, passed: usize, failed_proofs: &[FailedProof]) -> Result<Decision, Error> {
        pin::decide(self.question(passed, failed_proofs))
    }

    fn question(&self, passed: usize, failed_proofs: &[FailedProof]) -> Question<'_, 'h> {
        Question {
            host: &self.wanted.host,
            searcher: &self.searcher,
            inventory: &self.inventory,
            program: &self.program,
            policy: self.policy(passed, failed_proofs),
            mode: self.wanted.settings.mode().map(mode),
            asks_all_sources: self.wanted.settings.words(&Key::SearchWithout).is_empty(),
        }
    }

    /// The files that the program maps in the environment as it is, where that matters: an installation that others can change is
    /// picked only if the program takes it anyway.
    fn mapped(&self) -> BTreeSet<FileId> {
        let matters = self.inventory.installations.iter().any(|installation| !installation.open.is_empty());
        let before = matters.then(|| self.before(&self.wanted.host));
        before.iter().flat_map(|before| &before.files).map(|file| file.id).collect()
    }

    /// What the program maps in the environment as it is.
    fn before(&self, host: &Host) -> Prediction {
        let env = self.program.inside.as_ref().map_or(&host.env, |inside| &inside.environment);
        let called = self.program.called.as_ref().map_or(self.program.path.as_path(), |called| &called.path);
        let pinned = pin::inherited::pins(host, env, &self.views, called);
        predict::predict(&self.searcher.within(env, pinned), &self.program, &self.inventory)
    }

    /// What a decision was read from, with every installation of what was asked for or picked.
    fn watched(&self, outcome: &Outcome, predicted: Option<&Prediction>) -> BTreeSet<PathBuf> {
        let inventory = &self.inventory;
        let mut watched = self.program.watched.clone();
        watched.extend(inventory.watched.iter().cloned());
        watched.extend(self.wanted.watched.iter().cloned());
        watched.extend(inventory.warnings.iter().map(|warning| warning.path.clone()));
        watched.extend(predicted.iter().flat_map(|it| &it.watched).cloned());
        let mut families: BTreeSet<&str> =
            self.program.requirements.iter().map(|requirement| requirement.family.as_str()).collect();
        if let Outcome::Plan(plan) = outcome {
            families.extend(plan.picks.iter().map(|pick| pick.installation.family.as_str()));
        }
        // An installation that was passed over may be the better one once it is whole.
        for installation in inventory
            .installations
            .iter()
            .filter(|installation| families.contains(installation.family.as_str()))
        {
            watched.extend(installation.directories().map(Path::to_owned));
            // Who can write to where a file really stands may have changed as well.
            let places = installation.files.iter().filter_map(|member| member.path.parent());
            watched.extend(places.map(Path::to_owned));
            watched.extend(installation.files.iter().map(|member| member.path.clone()));
        }
        watched
    }
}

fn consider<'h>(wanted: &'h Settings, common: &Common, command: &Command) -> Result<Considered<'h>, Error> {
    consider_next(wanted, common, command, 0)
}

/// The same, and the best sets passed over.
fn consider_next<'h>(
    wanted: &'h Settings,
    common: &Common,
    command: &Command,
    passed: usize,
) -> Result<Considered<'h>, Error> {
    let _shown = Looking::begin(&wanted.host, common);
    let (mut program, searcher) = wanted.read(&wanted.host, command)?;
    wanted.join(&mut program)?;
    let stages = Stages::of(wanted, common, program, searcher)?;
    let decision = stages.decide(passed, &[])?;
    if matches!(&decision.outcome, Outcome::Conflict(conflict) if conflict.is_exhausted) {
        return Err(Error::NoOtherSet { passed });
    }
    Ok(Considered { stages, decision })
}

/// The family that is meant, by its own name or by the one that a list shows, in any case.
fn family(word: &str) -> Result<&'static str, Error> {
    let words = vocabulary();
    let families = || words.families.iter().map(|(name, _)| *name).collect();
    words.family(word).ok_or_else(|| Error::NoSuchFamily { name: word.to_owned(), families: families() })
}

fn mode(mode: PinMode) -> Mode {
    match mode {
        PinMode::None => Mode::None,
        PinMode::View => Mode::View,
        PinMode::Audit => Mode::Audit,
        PinMode::Preload => Mode::Preload,
        PinMode::Clean => Mode::Clean,
    }
}

/// Where a person wants us to look besides, and where not.
fn asked(host: &Host, common: &Common, settings: &Layers) -> Result<Scope, Error> {
    let sources: Vec<&'static str> = inventory::source_names().collect();
    if let Some(name) = common.without.iter().find(|name| !sources.contains(&name.as_str())) {
        return Err(Error::NoSuchSource { name: name.clone(), sources });
    }
    if let Some(path) = common.also.iter().find(|path| !host.is_directory(path)) {
        return Err(Error::NoSuchDirectory { option: "--also", path: path.clone() });
    }
    let also = settings.directories(&Key::SearchAlso);
    Ok(Scope { also, without: settings.words(&Key::SearchWithout), ..Scope::default() })
}

/// The same for whatever program may be started from here.
fn of_any_program(host: &Host, common: &Common, settings: &Layers) -> Result<Scope, Error> {
    let machine = inventory::machine(host).unwrap_or(elf::X86_64);
    Ok(Scope { machine, views: own_views(host), ..asked(host, common, settings)? })
}

/// All of the machine, and what the named Python has, or else the first of the PATH.
fn everywhere(
    host: &Host,
    common: &Common,
    purpose: Purpose,
    python: Option<&OsStr>,
) -> Result<Scope, Error> {
    let wanted = wanted(host, common, &Wishes::default(), None, purpose)?;
    let mut scope = of_any_program(host, common, &wanted.settings)?;
    scope.elsewhere = true;
    scope.also.extend(wanted.directories.iter().cloned());
    let program = python.unwrap_or(OsStr::new("python3")).to_owned();
    match program::environment(host, &Command { program, arguments: Vec::new() }) {
        Ok(program) => {
            if python.is_some() && program.pip.is_none() {
                return Err(Error::NotPython { program: program.path });
            }
            scope.machine = program.machine;
            scope.site_packages = program.site_packages;
        }
        Err(error) if python.is_some() => return Err(error),
        // A machine without Python has no wheels.
        Err(_) => {}
    }
    Ok(scope)
}

/// Looks at the machine with what was learnt of it before. Under `--root` nothing is kept: the place where it
/// would be kept is the guest's.
fn look(host: &Host, scope: &Scope) -> Inventory {
    if host.is_rerooted() {
        return inventory::scan(host, scope, &mut ScanCache::default());
    }
    let mut known = scans::load(host, &storage::safe_directories(host).collect::<Vec<_>>());
    let inventory = inventory::scan(host, scope, &mut known);
    if let (true, Ok(directory)) = (known.has_changed(), storage::cache_directory(host)) {
        scans::save(host, &directory, &mut known);
    }
    // This process is about to end or to become another one: to give back each of its strings takes longer than
    // to look at the machine's directories.
    std::mem::forget(known);
    inventory
}

/// The directories in which views of ours stand: where they would be published, and where the one stands
/// that this process was started with.
fn own_views(host: &Host) -> Vec<PathBuf> {
    let inherited =
        host.env.non_empty(pin::VIEW).and_then(|view| Path::new(view).parent().map(Path::to_owned));
    let candidates = view::parents(host).into_iter().chain(inherited);
    // By their real names, and as the environment may name them.
    candidates.flat_map(|directory| [host.canonical(&directory).ok(), Some(directory)]).flatten().collect()
}

impl Considered<'_> {
    /// Says why nothing can be started, if nothing can: as JSON on standard output, or in words.
    fn refuse(&self, json: bool, style: Style) -> Result<bool, Error> {
        match (self.decision.is_refused(), json) {
            (false, _) => {}
            (true, true) => print(&report::json::refusal(&self.decision))?,
            (true, false) => report::say(&report::refusal(&self.decision, &self.program, style)),
        }
        Ok(self.decision.is_refused())
    }

    /// The change of environment that the program would get, and where what it needs is put: now, or only said.
    fn change(&self, host: &Host, publish: bool) -> Result<(Diff, PublishedPaths), Error> {
        match (&self.decision.outcome, &self.decision.pinned) {
            (Outcome::Plan(plan), Some(pinned)) => self.change_by(host, plan, pinned, publish),
            _ => Ok((self.wanted.variables.clone(), PublishedPaths::default())),
        }
    }

    fn change_by(
        &self,
        host: &Host,
        plan: &Plan,
        pinned: &Pinned,
        publish: bool,
    ) -> Result<(Diff, PublishedPaths), Error> {
        let view = match (pinned.spec.is_empty(), publish) {
            (true, _) => None,
            (false, true) => Some(view::publish(host, &pinned.spec)?),
            (false, false) => Some(view::place(host, &pinned.spec)?),
        };
        let module = if pinned.mode == Mode::Audit { Some(publish_module(host, publish)?) } else { None };
        let places = PublishedPaths { view, module };
        let change = pinned.environment(plan, &places, &self.views, &host.env);
        Ok((self.wanted.variables.then(&change), places))
    }
}

/// What is said before the start: nothing, unless something must be or was asked for.
fn speak(considered: &Considered<'_>, common: &Common, style: Style) {
    if common.verbose > 0 {
        let program = &considered.program;
        report::say(&report::summary(program, &considered.decision, common.verbose, style));
        if common.verbose > 2 {
            report::say(&report::warnings(&considered.inventory.warnings, style));
        }
    } else if !common.quiet {
        say_notes(considered);
    }
}

fn say_notes(considered: &Considered<'_>) {
    for line in must_be_said(considered) {
        report::say(&format!("cudarun: {line}\n"));
    }
}

/// What is said although nobody asked. A program that is not seen matters where there is something that could be
/// picked for it.
fn must_be_said(considered: &Considered<'_>) -> Vec<String> {
    let is_something_here = !considered.inventory.installations.is_empty();
    let notes = considered.program.notes.iter();
    let notes = notes.filter(|note| note.must_be_said() || is_something_here && note.hides_a_program());
    let mut lines: Vec<String> = notes.map(|note| report::note(note, &considered.program)).collect();
    if let Outcome::Plan(plan) = &considered.decision.outcome {
        let cautions = plan.cautions.iter().filter(|caution| caution.must_be_said());
        lines.extend(cautions.map(report::caution));
        let reaches_children = considered.decision.pinned.as_ref().is_some_and(Pinned::reaches_children);
        if reaches_children && considered.program.is_launched {
            lines.push(report::launches(&considered.program));
        }
    }
    lines
}

/// Where the audit module is put, or would be.
fn publish_module(host: &Host, publish: bool) -> Result<PathBuf, Error> {
    if publish {
        storage::first_usable(host, |directory| {
            audit_module::publish(host, directory).map_err(|error| storage::Refusal::Here(error.into()))
        })
    } else {
        Ok(audit_module::place(&storage::planned_cache_directory(host)?))
    }
}

/// A program and its arguments, from the words of the command line.
pub fn command_of(words: &[OsString]) -> Command {
    let (program, arguments) =
        words.split_first().map_or((OsString::new(), Vec::new()), |(p, a)| (p.clone(), a.to_vec()));
    Command { program, arguments }
}

/// The machine that a verb looks at: this one, the one under `--root`, or the one that a file describes.
fn machine(host: Host, common: &Common) -> Result<Host, Error> {
    if let Some(file) = &common.machine {
        let unusable = |why| Error::MachineUnusable { file: file.clone(), why };
        let mut machine = Machine::read(&host, file).map_err(|fault| unusable(fault.0))?;
        // How to write to a terminal is told by this machine, and nothing else.
        for name in ["NO_COLOR", "TERM"] {
            machine.env.remove(name);
            let value = host.env.get(name).map(|value| value.to_string_lossy().into_owned());
            machine.env.extend(value.map(|value| (name.to_owned(), value)));
        }
        return machine.host().map_err(|error| unusable(error.to_string()));
    }
    let Some(root) = &common.root else { return Ok(host) };
    let cwd = if host.cwd.as_os_str().is_empty() { PathBuf::from("/") } else { host.cwd.clone() };
    Host::at(root, host.env.clone(), cwd).map_err(|error| Error::RootUnusable { root: root.clone(), error })
}

fn style(host: &Host, color: ColorChoice, is_terminal: bool) -> Style {
    Style::new(color, is_terminal, host.env.get("NO_COLOR"), host.env.get("TERM"))
}

/// Text for standard output, where there is one.
pub fn print(text: &str) -> Result<(), Error> {
    if !launch::has_output() {
        return Err(Error::Output { error: std::io::Error::from(nix::errno::Errno::EBADF) });
    }
    report::print(text).map_err(|error| Error::Output { error })
}
