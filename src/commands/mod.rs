//! One verb a file: the stages in order, then a report.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ColorChoice;

use crate::cache;
use crate::cli::Common;
use crate::environment::{Diff, Environment};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{self, Inventory, Known, Scope};
use crate::launch;
use crate::report::{self, Style};
use crate::solve::{self, Outcome, Plan, Policy};
use crate::target::{self, Command, How, Target};
use crate::verify::{self, Skip, Verdict};
use crate::view;

pub mod explain;
pub mod export;
pub mod list;
pub mod prove;
pub mod run;

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

/// The stages up to the decision.
struct Considered {
    target: Target,
    inventory: Inventory,
    outcome: Outcome,
}

fn consider(host: &Host, common: &Common, command: &Command, uses: &[String]) -> Result<Considered, Error> {
    let target = target::read(host, command, uses)?;
    let views = own_views(host);
    let is_source = |how: How| matches!(how, How::Script | How::Module | How::Code);
    let executable = target.steps.iter().rfind(|step| !is_source(step.how));
    let scope = Scope {
        site_packages: target.site_packages.clone(),
        own_directories: target.own_directories.iter().cloned().collect(),
        machine: target.machine,
        executable: executable.map(|step| step.to.clone()),
        views: views.clone(),
        symbols: !target.requirements.is_empty(),
        ..asked(host, common)?
    };
    let policy = Policy { views };
    let inventory = look(host, &scope);
    let outcome = solve::solve(&inventory, &target, &policy);
    Ok(Considered { target, inventory, outcome })
}

/// What the command line says about where to look.
fn asked(host: &Host, common: &Common) -> Result<Scope, Error> {
    let sources: Vec<&'static str> = inventory::source_names().collect();
    if let Some(name) = common.without.iter().find(|name| !sources.contains(&name.as_str())) {
        return Err(Error::NoSuchSource { name: name.clone(), sources });
    }
    if let Some(path) = common.also.iter().find(|path| !host.is_directory(path)) {
        return Err(Error::NoSuchDirectory { path: path.clone() });
    }
    Ok(Scope { also: common.also.clone(), without: common.without.clone(), ..Scope::default() })
}

/// Looks at the machine with what was learnt of it before. Under `--root` nothing is kept: the place where it
/// would be kept is the guest's.
fn look(host: &Host, scope: &Scope) -> Inventory {
    if host.is_rerooted() {
        return inventory::scan(host, scope, &mut Known::default());
    }
    let mut known = cache::known(host, &view::cache_directories(host));
    let inventory = inventory::scan(host, scope, &mut known);
    if let (true, Ok(directory)) = (known.has_changed(), view::cache_directory(host)) {
        cache::keep_known(host, &directory, &mut known);
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
        host.env.non_empty(launch::VIEW).and_then(|view| Path::new(view).parent().map(Path::to_owned));
    let candidates = view::view_parents(host).into_iter().chain(inherited);
    candidates.filter_map(|directory| host.canonical(&directory).ok()).collect()
}

impl Considered {
    /// The change of environment that the program would get, with the view where `publish` puts it.
    fn change(
        &self,
        host: &Host,
        command: &Command,
        publish: bool,
    ) -> Result<(Diff, Option<PathBuf>), Error> {
        let Outcome::Plan(plan) = &self.outcome else { return Ok((Diff::default(), None)) };
        let spec = view::spec(plan);
        let view = match (spec.is_empty(), publish) {
            (true, _) => None,
            (false, true) => Some(view::publish(host, &spec)?),
            (false, false) => Some(view::place(host, &spec)?),
        };
        let exec = launch::prepare(&self.target.program, command, plan, view.as_deref(), &host.env);
        Ok((exec.diff, view))
    }

    /// Proves a plan in the environment that the program will get, where there is a GPU to prove it on.
    fn prove(&self, host: &Host, plan: &Plan, env: &Environment) -> Result<Verdict, Error> {
        if !self.inventory.has_gpu() {
            return Ok(Verdict::Skipped { why: Skip::NoGpu });
        }
        let executable = host.own_executable().map_err(|error| Error::Verifier { error })?;
        verify::run(host, &executable, plan, env, verify::TIME_LIMIT)
    }
}

/// A program and its arguments, from the words of the command line.
pub fn command_of(words: &[OsString]) -> Command {
    let (program, arguments) =
        words.split_first().map_or((OsString::new(), Vec::new()), |(p, a)| (p.clone(), a.to_vec()));
    Command { program, arguments }
}

/// The machine that a verb looks at: this one, or the one under `--root`.
fn machine(host: Host, common: &Common) -> Result<Host, Error> {
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
