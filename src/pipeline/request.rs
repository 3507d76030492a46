//! The types of the flow: a verb's request, the stages that it reaches, and how it ends.

use std::ffi::OsStr;
use std::process::ExitStatus;

use clap::ValueEnum;

use super::proofs::{ProofOptions, Proven};
use super::publish::Change;
use super::start_facts::StartFacts;
use crate::cli::{Common, Wishes};
use crate::environment::{Diff, Environment};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{Inventory, Scope};
use crate::launch;
use crate::pin::Decision;
use crate::program::Command;
use crate::settings::resolve::{Purpose, Settings};
use crate::settings::{Layers, SettingKey, invocation};
use crate::solve::Outcome;
use crate::variables;

/// The question of a verb.
pub struct Request<'r> {
    pub host: &'r Host,
    pub common: &'r Common,
    pub wishes: &'r Wishes,
    pub subject: Subject<'r>,
    pub purpose: Purpose,
    /// The program compiles CUDA code.
    pub is_build: bool,
    pub proof: ProofOptions,
    /// Missing wheels may be fetched.
    pub fetches: bool,
}

/// The subject of a request.
#[derive(Clone, Copy)]
pub enum Subject<'r> {
    /// The program that a command line starts.
    Command(&'r Command),
    /// The programs of the current project, whichever is started.
    Project,
    /// The machine, scanned without a program.
    Machine(&'r dyn Fn(&Settings) -> Result<Scope, Error>),
}

/// A stage that the flow has reached, and its result.
pub enum Reached<'f, 'h> {
    Settings(&'f Settings),
    /// Only without a program.
    Inventory(&'f Settings, Box<Inventory>),
    Outcome(&'f mut StartFacts<'h>, &'f Outcome),
    /// The outcome, and the mode that pins it.
    Decision(&'f StartFacts<'h>, &'f Decision),
    Change(&'f StartFacts<'h>, &'f Decision, &'f Change),
    Proof(&'f StartFacts<'h>, &'f Decision, &'f Proven),
}

/// Why the flow stops before the program starts.
pub enum Stop {
    Exit(Exit),
    Error(Error),
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
        wishes: &'r Wishes,
        subject: Subject<'r>,
        purpose: Purpose,
    ) -> Request<'r> {
        Request {
            host,
            common,
            wishes,
            subject,
            purpose,
            is_build: false,
            proof: ProofOptions::default(),
            fetches: false,
        }
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

    pub(super) fn command(&self) -> Option<&'r Command> {
        match self.subject {
            Subject::Command(command) => Some(command),
            Subject::Project | Subject::Machine(_) => None,
        }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
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
