//! The stages of the flow after the settings, in their order.

use super::proofs::{self, ProofOptions, Proven};
use super::publish::{self, Change};
use super::request::Request;
use super::start_facts::StartFacts;
use super::{builds, program, scan};
use crate::error::Error;
use crate::pin::{self, Decision};
use crate::settings::resolve::Settings;
use crate::solve::{self, Outcome};

impl Request<'_> {
    /// Finds out what will run, what it needs, and what is installed if it needs any of it.
    pub fn facts<'s>(&self, settings: &'s mut Settings) -> Result<StartFacts<'s>, Error> {
        let progress = self.progress();
        // The toolkit of a program that compiles may contain the program, such as nvcc.
        let build = if self.is_build || settings.layers.start_demands_toolkit() {
            Some(builds::with_toolkit(settings, self)?)
        } else {
            None
        };
        let settings: &Settings = settings;
        let (program, searcher) = program::of_request(settings, self.command)?;
        let scope = scan::scope(settings, self.common, &program)?;
        let mut inventory = scan::for_program(settings, &program, &scope);
        inventory.imported = program.extensions.keys().cloned().collect();
        let mut facts = StartFacts::new(settings, program, searcher, inventory, scope.views);
        facts.build = build;
        // Compilers for frameworks that would find none while they run.
        facts.compilers = builds::compilers(&facts, self.common)?;
        facts.progress = Some(progress);
        Ok(facts)
    }

    /// The facts, and what is decided by them: all that most answers need.
    pub fn decision<'s>(
        &self,
        settings: &'s mut Settings,
    ) -> Result<(StartFacts<'s>, Decision), Error> {
        let mut facts = self.facts(settings)?;
        let outcome = facts.solve();
        let decision = facts.decide(outcome)?;
        Ok((facts, decision))
    }
}

impl StartFacts<'_> {
    /// Finds the best set that fits, or the smallest conflict.
    pub fn solve(&self) -> Outcome {
        solve::solve(&self.inventory, &self.program, &self.policy(&[]))
    }

    /// Chooses the least intrusive mode in which the loader uses the set.
    pub fn decide(&mut self, outcome: Outcome) -> Result<Decision, Error> {
        let decision = pin::decide(self.question(self.policy(&[])), outcome)?;
        self.progress = None;
        Ok(decision)
    }

    /// Publishes the plan of a decision.
    pub fn publish(&self, decision: &mut Decision) -> Result<Change, Error> {
        publish::publish(self, decision)
    }

    /// Publishes the plan of a decision and proves it. A set that fails through a library is followed by the next best one
    /// without that library, which `decision` is then.
    pub fn prove(&self, decision: &mut Decision, options: &ProofOptions) -> Result<Proven, Error> {
        proofs::settle(self, decision, options)
    }
}
