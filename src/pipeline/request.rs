//! A verb's request, with its settings, and how a verb ends.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::process::ExitStatus;

use clap::ValueEnum;

use super::program;
use super::progress::{self, ProgressLine};
use super::proofs::ProofOptions;
use crate::cli::{Common, LibraryOptions};
use crate::environment::{Diff, Environment};
use crate::error::Error;
use crate::host::Host;
use crate::launch;
use crate::program::Command;
use crate::report::LOOKING;
use crate::settings::resolve::{Purpose, SettingSources, Settings};
use crate::settings::{Layers, SettingKey, invocation};
use crate::variables;

/// The question of a verb.
pub struct Request<'r> {
    pub host: &'r Host,
    pub common: &'r Common,
    pub library_options: &'r LibraryOptions,
    /// The program and its arguments; none asks about all programs of the project, or about the machine.
    pub command: Option<&'r Command>,
    pub purpose: Purpose,
    /// The program compiles CUDA code.
    pub is_build: bool,
    pub proof: ProofOptions,
    /// Missing wheels may be fetched.
    pub fetches: bool,
}

/// How a verb ends, other than by an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Yes,
    /// The answer is no.
    No,
    /// There was nothing to find the answer by.
    Unknown,
    /// The program was not started, and the reason was reported.
    Refused,
    /// The program was watched, and ended like this.
    Program(ExitStatus),
    /// An error was reported already; this is its exit code.
    Reported(u8),
}

impl<'r> Request<'r> {
    /// A request for the best set, with a proof as settings say.
    pub fn new(
        host: &'r Host,
        common: &'r Common,
        library_options: &'r LibraryOptions,
        command: Option<&'r Command>,
        purpose: Purpose,
    ) -> Request<'r> {
        Request {
            host,
            common,
            library_options,
            command,
            purpose,
            is_build: false,
            proof: ProofOptions::default(),
            fetches: false,
        }
    }

    /// Reads options, variables and files.
    pub fn settings(&self) -> Result<Settings, Error> {
        let sources =
            SettingSources::read(self.host, self.common, self.library_options, self.purpose)?;
        let names = match self.command {
            Some(command) if sources.name_programs() => Some(program::names(self.host, command)?),
            Some(_) => Some(BTreeSet::new()),
            None => None,
        };
        Settings::resolve(self.host, sources, names.as_ref())
    }

    /// Shows a line until it is dropped. The shell hook asks about a project each time a person goes there, and shows nothing.
    pub fn progress(&self) -> ProgressLine {
        let is_hook = self.purpose == Purpose::Project;
        progress::begin(self.host, is_hook || self.common.quiet, LOOKING)
    }

    /// Adds the options of this start, as variables, to the change of a start that is followed: they hold for what the program
    /// starts.
    pub fn with_options(&self, start: Diff, layers: &Layers) -> Diff {
        let switch = start
            .get(variables::FOLLOW)
            .or(self.host.env.get(variables::FOLLOW));
        let is_off = switch.is_some_and(|word| launch::means_no(word.as_encoded_bytes()));
        if start.0.contains_key(OsStr::new(variables::TREE)) && !is_off {
            start.then(&self.options(layers))
        } else {
            start
        }
    }

    fn options(&self, layers: &Layers) -> Diff {
        let flag = |is_set: bool| is_set.then(|| "1".to_owned());
        let when = self.proof.when.and_then(|when| when.to_possible_value());
        let verbose = self.common.verbose;
        let rows = [
            (variables::BUILD, flag(self.is_build)),
            (variables::QUIET, flag(self.common.quiet)),
            (
                variables::VERBOSE,
                (verbose > 0).then(|| verbose.to_string()),
            ),
            // Someone else starts the program that the lock is for.
            (
                variables::LOCKED,
                flag(
                    self.purpose.starts_later()
                        && layers.is_locked()
                        && layers.is_of_start(SettingKey::Locked),
                ),
            ),
            (variables::FETCH, self.fetches.then(|| "always".to_owned())),
            (
                variables::VERIFY,
                when.map(|when| when.get_name().to_owned()),
            ),
        ];
        let set = rows
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let set = Diff::between(&Environment::default(), &set.collect());
        invocation::for_the_tree(layers, &self.host.cwd).then(&set)
    }
}

impl Exit {
    /// The exit code. If a signal ended a watched program, this process ends by the same signal.
    pub fn code(self) -> u8 {
        match self {
            Exit::Yes => 0,
            Exit::No => 1,
            Exit::Unknown => 2,
            Exit::Refused => 125,
            Exit::Program(status) => launch::end_as(status),
            Exit::Reported(code) => code,
        }
    }
}
