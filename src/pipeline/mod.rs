//! The flow, from a command line to the program.

mod facts;
mod keep;
mod progress;
mod proofs;
mod publish;
mod scan;
mod unpinned;
mod watched;

use std::convert::Infallible;
use std::process::ExitStatus;

use crate::cli::{Common, Wishes};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{Inventory, Scope};
use crate::launch::{self, Exec};
use crate::pin::{self, Decision};
use crate::program::Command;
use crate::settings::resolve::{Purpose, Settings};
use crate::solve::{self, Outcome};

pub use facts::Facts;
pub use keep::{Keeping, has_deciding_options, keep, keeping, kept_start};
pub use proofs::{Effort, ProofOptions, Proven, prove_once};
pub use publish::{Change, planned, publish};
pub use scan::{any_program, everywhere, own_views, scan};
pub use unpinned::{given_by_loader, given_to_program};
pub use watched::{can_be_watched, expected, watch};

use proofs::{Attempts, Next};

/// What a verb asks.
pub struct Request<'r> {
    pub host: &'r Host,
    pub common: &'r Common,
    pub wishes: &'r Wishes,
    pub subject: Subject<'r>,
    pub purpose: Purpose,
    /// How many of the best sets are passed over.
    pub passed: usize,
    pub proof: ProofOptions,
}

/// What a verb asks about.
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
    Inventory(&'f Settings, Inventory),
    Outcome(&'f mut Facts<'h>, &'f Outcome),
    /// The outcome, and the mode that pins it.
    Decision(&'f Facts<'h>, &'f Decision),
    Change(&'f Facts<'h>, &'f Decision, &'f Change),
    Proof(&'f Facts<'h>, &'f Decision, &'f Proven),
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

/// Follows the stages in order. `verb` sees the result of each stage, and stops the flow where its answer is known; without
/// a stop, this process becomes the program. The flow prints nothing but the progress of long stages.
pub fn flow(
    request: &Request<'_>,
    verb: &mut dyn FnMut(Reached<'_, '_>) -> Result<(), Stop>,
) -> Result<Infallible, Stop> {
    // What is set, by options, variables and files.
    let settings =
        Settings::resolve(request.host, request.common, request.wishes, request.command(), request.purpose)?;
    verb(Reached::Settings(&settings))?;
    let progress = progress::begin(request);

    // What will run, and what it needs. Without a program, only the machine is scanned.
    let Some((program, searcher)) = facts::read_program(&settings, request.subject)? else {
        let inventory = scan::machine(&settings, request.subject)?;
        drop(progress);
        verb(Reached::Inventory(&settings, inventory))?;
        return Err(Stop::Exit(Exit::Unknown));
    };

    // What is installed.
    let scope = scan::scope(&settings, request.common, &program)?;
    let inventory = scan::for_program(&settings, &program, &scope);
    let mut facts = Facts::new(&settings, program, searcher, inventory, scope.views);

    // Which set fits, or the smallest conflict.
    let policy = facts.policy(request.passed, &[]);
    let outcome = solve::solve(&facts.inventory, &facts.program, &policy);
    verb(Reached::Outcome(&mut facts, &outcome))?;

    // The least intrusive mode in which the loader takes that set.
    let mut decision = pin::decide(facts.question(policy), outcome)?;
    drop(progress);
    decision.must_be_another_set(request.passed)?;
    verb(Reached::Decision(&facts, &decision))?;
    if decision.is_refused() {
        return Err(Stop::Exit(Exit::Refused));
    }

    // Publish it and prove it. A set that fails through a library is followed by the next best one without that library.
    let effort = Effort::new(&settings, &request.proof);
    let mut attempts = Attempts::default();
    let proven = loop {
        let change = publish(&facts, &mut decision)?;
        verb(Reached::Change(&facts, &decision, &change))?;
        let proof = proofs::prove(&facts, &decision, &change, effort)?;
        match attempts.next(&facts, &decision, change, proof)? {
            Next::Try(other) => decision = *other,
            Next::Settled(proven) => break proven,
        }
    };
    verb(Reached::Proof(&facts, &decision, &proven))?;

    // Become the program.
    let Subject::Command(command) = request.subject else { return Err(Stop::Exit(Exit::Unknown)) };
    let exec = Exec { diff: proven.change.diff, ..launch::unchanged(&facts.program.path, command) };
    Ok(launch::exec(&exec)?)
}

/// Follows the flow, and returns how the verb ended.
pub fn run(
    request: &Request<'_>,
    verb: &mut dyn FnMut(Reached<'_, '_>) -> Result<(), Stop>,
) -> Result<Exit, Error> {
    match flow(request, verb) {
        Ok(never) => match never {},
        Err(Stop::Exit(exit)) => Ok(exit),
        Err(Stop::Error(error)) => Err(error),
    }
}

impl<'r> Request<'r> {
    fn command(&self) -> Option<&'r Command> {
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
    /// The exit code. Where a watched program was ended by a signal, this process ends by the same signal.
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
