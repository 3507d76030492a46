//! What is decided for a program on a machine made of text: it is read and solved in this process.

use std::ffi::OsString;

use cudarun::cli::{Cli, Verb};
use cudarun::commands::command_of;
use cudarun::host::Host;
use cudarun::inventory::Gpu;
use cudarun::pin::Decision;
use cudarun::pipeline::Request;
use cudarun::report::json;
use cudarun::settings::resolve::Purpose;
use cudarun::solve::{
    Broken, Caution, Contradiction, Outcome, Pick, Reason, Rejection, Unmet, Unpinned,
};
use serde_json::Value;

use super::machine::Machine;

/// The answer of `explain`, as values. What only a plan has is empty for a conflict, and the other way round.
#[derive(Debug)]
pub struct Decided {
    /// As `explain --json` says it.
    pub decision: &'static str,
    pub picks: Vec<Pick>,
    /// Of a plan, or of all that is unmet.
    pub rejected: Vec<Rejection>,
    pub unpinned: Vec<Unpinned>,
    pub cautions: Vec<Caution>,
    pub tombstones: Vec<String>,
    /// Elements of `LD_LIBRARY_PATH`.
    pub removed: Vec<String>,
    pub driver_in_view: bool,
    pub unmet: Vec<Unmet>,
    pub broken: Vec<Broken>,
    pub contradictions: Vec<Contradiction>,
    /// In words; empty if there is none.
    pub hint: String,
    pub gpus: Vec<Gpu>,
}

/// Decides about the command, which options of `explain` may precede, with this `LD_LIBRARY_PATH`.
#[track_caller]
pub fn decided(machine: &Machine, library_path: &str, words: &[&str]) -> Decided {
    decided_with(machine, &[("LD_LIBRARY_PATH", library_path)], words)
}

/// Decides in an environment with these variables, which give settings no cause for a remark.
#[track_caller]
pub fn decided_with(machine: &Machine, variables: &[(&str, &str)], words: &[&str]) -> Decided {
    let of_machine = machine.env.iter().map(|(name, value)| (&**name, &**value));
    let env = [("PATH", "/usr/bin:/bin"), ("HOME", "/home/user")];
    let env = env
        .into_iter()
        .chain(of_machine)
        .chain(variables.iter().copied());
    let host = Host::at(machine.root(), env.collect(), "/".into()).unwrap();
    let words: Vec<OsString> = ["cudarun", "explain"]
        .iter()
        .chain(words)
        .map(OsString::from)
        .collect();
    let cli = Cli::parse_words(&words).unwrap();
    let Some(Verb::Explain(explain)) = &cli.verb else {
        panic!("{words:?}")
    };
    let command = command_of(&explain.question.words);
    let library_options = &explain.question.library_options;
    let request = Request::new(
        &host,
        &cli.common,
        library_options,
        Some(&command),
        Purpose::Answer,
    );
    let mut settings = request
        .settings()
        .unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert_eq!(settings.remarks.len(), 0, "{words:?}");
    let (facts, decision) = request
        .decision(&mut settings)
        .unwrap_or_else(|error| panic!("{words:?}: {error}"));
    Decided::new(&decision, facts.inventory.gpus.clone())
}

impl Decided {
    fn new(decision: &Decision, gpus: Vec<Gpu>) -> Decided {
        let refusal: Value = serde_json::from_str(&json::refusal(decision)).unwrap();
        let mut decided = Decided {
            decision: "nothing",
            picks: Vec::new(),
            rejected: Vec::new(),
            unpinned: decision.outcome.unpinned().to_vec(),
            cautions: Vec::new(),
            tombstones: Vec::new(),
            removed: Vec::new(),
            driver_in_view: false,
            unmet: Vec::new(),
            broken: Vec::new(),
            contradictions: Vec::new(),
            hint: refusal["hint"].as_str().unwrap_or_default().to_owned(),
            gpus,
        };
        match &decision.outcome {
            Outcome::Nothing { .. } => {}
            Outcome::Plan(plan) => {
                decided.decision = if decision.leaks() { "leak" } else { "plan" };
                decided.picks.clone_from(&plan.picks);
                decided.rejected.clone_from(&plan.rejected);
                decided.cautions.clone_from(&plan.cautions);
                decided.tombstones.clone_from(&plan.tombstones);
                let removed = plan
                    .library_path
                    .iter()
                    .filter(|element| element.removed.is_some());
                let text = removed.map(|element| element.text.to_string_lossy().into_owned());
                decided.removed = text.collect();
                decided.driver_in_view = plan.driver_in_view;
            }
            Outcome::Conflict(conflict) => {
                decided.decision = "conflict";
                let unmet = conflict.unmet.iter();
                decided.rejected = unmet.flat_map(|unmet| unmet.candidates.clone()).collect();
                decided.unmet.clone_from(&conflict.unmet);
                decided.broken.clone_from(&conflict.broken);
                decided.contradictions.clone_from(&conflict.contradictions);
            }
        }
        decided
    }

    /// The only pick of a family.
    #[track_caller]
    pub fn pick(&self, family: &str) -> &Pick {
        let mut picks = self
            .picks
            .iter()
            .filter(|pick| pick.installation.family == family);
        let pick = picks
            .next()
            .unwrap_or_else(|| panic!("no {family}: {self:#?}"));
        assert!(picks.next().is_none(), "two of {family}: {self:#?}");
        pick
    }

    /// The directory that a family was picked from.
    #[track_caller]
    pub fn picked(&self, family: &str) -> &str {
        self.pick(family).installation.directory.to_str().unwrap()
    }

    /// The reason against the installation in a directory.
    #[track_caller]
    pub fn reason(&self, family: &str, directory: &str) -> &Reason {
        let is_it = |it: &&Rejection| {
            it.installation.family == family && it.installation.directory.as_os_str() == directory
        };
        let found = self.rejected.iter().find(is_it);
        &found
            .unwrap_or_else(|| panic!("{directory}: {self:#?}"))
            .reason
    }

    /// That reason in words.
    #[track_caller]
    pub fn why_not(&self, family: &str, directory: &str) -> String {
        self.reason(family, directory).to_string()
    }

    /// The family for which nothing fits, of several the first.
    #[track_caller]
    pub fn unmet(&self) -> &str {
        &self
            .unmet
            .first()
            .unwrap_or_else(|| panic!("{self:#?}"))
            .family
    }

    /// The first name and the family that are left to the loader.
    #[track_caller]
    pub fn left(&self) -> (&str, &str) {
        let left = self.unpinned.first().unwrap_or_else(|| panic!("{self:#?}"));
        (&left.family, &left.names[0])
    }
}
