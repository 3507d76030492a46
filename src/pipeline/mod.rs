//! The flow, from a command line to the program.

mod baseline;
mod builds;
mod keep;
pub mod progress;
mod proofs;
mod publish;
mod request;
mod scan;
mod start_facts;
mod watching;

use std::convert::Infallible;
use std::ops::ControlFlow;

use crate::error::Error;
use crate::launch::{self, Exec};
use crate::pin;
use crate::report::LOOKING;
use crate::settings::resolve::Settings;
use crate::solve;

pub use baseline::{given_by_loader, given_to_program};
pub use keep::{has_deciding_options, is_kept, keep, kept_start};
pub use proofs::{ProofOptions, Proven, prove_once};
pub use publish::{Change, change, following, publish, started_later};
pub use request::{Exit, Reached, Request, Stop, Subject};
pub use scan::{any_program, everywhere, own_views};
pub use start_facts::{FailedStart, StartFacts};
pub use watching::{can_be_watched, expected, watch};

use proofs::Attempts;

/// Follows the stages in order. `verb` sees the result of each stage, and stops the flow where its answer is known; without
/// a stop, this process becomes the program. The flow prints nothing but the progress of long stages.
pub fn flow(
    request: &Request<'_>,
    verb: &mut dyn FnMut(Reached<'_, '_>) -> Result<(), Stop>,
) -> Result<Infallible, Stop> {
    // Read options, variables and files.
    let mut settings = Settings::resolve(
        request.host,
        request.common,
        request.wishes,
        request.command(),
        request.purpose,
    )?;
    verb(Reached::Settings(&settings))?;
    let is_hook = matches!(request.subject, Subject::Project);
    let progress = progress::begin(request.host, is_hook || request.common.quiet, LOOKING);

    // A verb may ask about the machine alone.
    if let Subject::Machine(scope) = request.subject {
        let inventory = Box::new(scan::machine(&settings, &scope(&settings)?));
        drop(progress);
        verb(Reached::Inventory(&settings, inventory))?;
        // The later stages need a program. A verb that has not stopped the flow ignores this exit, as `fetch cudnn` does.
        return Err(Stop::Exit(Exit::Unknown));
    }

    // Find the toolkit for a program that compiles. The toolkit may contain the program, such as nvcc, so this comes before
    // the program is looked up.
    let mut build = None;
    let is_demanded = settings
        .layers
        .of_toolkit()
        .any(|setting| setting.is_of_start);
    if request.is_build || is_demanded {
        build = Some(builds::with_toolkit(&mut settings, request)?);
    }

    // Find out what will run and what it needs.
    let (program, searcher) = start_facts::read_program(&settings, request.command())?;

    // Find out what is installed, if the program needs any of it.
    let scope = scan::scope(&settings, request.common, &program)?;
    let inventory = scan::for_program(&settings, &program, &scope);
    let mut facts = StartFacts::new(&settings, program, searcher, inventory, scope.views);
    facts.build = build;

    // Find compilers for frameworks that would find none while they run.
    facts.compilers = builds::compilers(&facts, request.common)?;

    // Find the best set that fits, or the smallest conflict.
    let policy = facts.policy(&[]);
    let outcome = solve::solve(&facts.inventory, &facts.program, &policy);
    verb(Reached::Outcome(&mut facts, &outcome))?;

    // Choose the least intrusive mode in which the loader uses that set.
    let mut decision = pin::decide(facts.question(policy), outcome)?;
    drop(progress);
    verb(Reached::Decision(&facts, &decision))?;
    if decision.is_refused() {
        return Err(Stop::Exit(Exit::Refused));
    }

    // Publish it and prove it. A set that fails through a library is followed by the next best one without that library.
    let mut attempts = Attempts::default();
    let proven = loop {
        let change = publish(&facts, &mut decision)?;
        verb(Reached::Change(&facts, &decision, &change))?;
        let proof = proofs::prove(&facts, &decision, &change, &request.proof)?;
        match attempts.next(&facts, &decision, change, proof)? {
            ControlFlow::Continue(other) => decision = other,
            ControlFlow::Break(proven) => break proven,
        }
    };
    verb(Reached::Proof(&facts, &decision, &proven))?;

    // Become the program.
    let Some(command) = request.command() else {
        return Err(Stop::Exit(Exit::Unknown));
    };
    let exec = Exec {
        diff: request.with_options(proven.change.of_start(), &settings.layers),
        ..launch::unchanged(&facts.program.path, command)
    };
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
