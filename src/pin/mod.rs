//! How the loader is made to take a plan: the least intrusive mode that its model says is enough. A plan of which the
//! model shows a leak in every mode is not started.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use crate::environment::{Diff, Environment};
use crate::error::Error;
use crate::formats::elf::Elf;
use crate::host::Host;
use crate::inventory::{Installation, Inventory};
use crate::loader::search::{Overlay, Searcher};
use crate::predict::{self, Predicted, Prediction, When};
use crate::program::{Program, Requirement, Want};
use crate::solve::{self, Outcome, Pick, Plan, Policy};
use crate::version::Version;

pub mod audit_module;
mod edits;
pub mod inherited;
mod unaided;
pub mod view;
mod why;

use crate::variables;
use edits::EnvironmentEdits;
pub use edits::{PublishedPaths, VIEW, watched};
use view::ViewSpec;
pub use why::{NotEnough, Why};

/// How the loader is made to take what was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing is set: the program gets the plan as it is, and nothing else can be reached.
    None,
    /// Elements of `LD_LIBRARY_PATH` that only do harm are removed; nothing is added.
    Clean,
    /// A module in `LD_AUDIT` answers for every name in the view, in processes of this program only.
    Audit,
    /// A directory of links, first in `LD_LIBRARY_PATH`.
    View,
    /// The view, and in `LD_PRELOAD` what a search path of the program's own would find elsewhere.
    Preload,
}

/// The modes that are tried, the least intrusive first. `Clean` finds out when nothing has to be removed, which is `None`.
const LADDER: [Mode; 4] = [Mode::Clean, Mode::Audit, Mode::View, Mode::Preload];
/// The modes that win against search paths of the program's own.
const FORCING: [Mode; 2] = [Mode::Audit, Mode::Preload];

/// Which shims a mode may let the program map: one from elsewhere opens what is picked, so it is better than no start,
/// but a mode that gives the picked one is better still.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shims {
    Own,
    Any,
}

/// How a plan is pinned.
#[derive(Debug)]
pub struct Pinned {
    pub mode: Mode,
    pub spec: ViewSpec,
    /// Elements of `LD_LIBRARY_PATH` that are removed besides those that no plan keeps.
    pub removed: Vec<OsString>,
    /// The processes in which the audit module answers, as [`audit_module::FOR`] has it; none for all of them.
    pub only_for: Option<OsString>,
    /// The names in the view that are preloaded, in order.
    pub preload: Vec<String>,
    /// What the program maps in the environment as planned.
    pub after: Prediction,
}

/// The decision with its pinning.
#[derive(Debug)]
pub struct Decision {
    pub outcome: Outcome,
    /// How, where there is a plan and a mode that is enough.
    pub pinned: Option<Pinned>,
    pub passed_over: Vec<NotEnough>,
    /// Where the mode that a person wants is not enough: the one that is.
    pub instead: Option<Mode>,
}

/// What a decision is made from.
pub struct Question<'a, 'h> {
    pub host: &'h Host,
    pub searcher: &'a Searcher<'h>,
    pub inventory: &'a Inventory,
    pub program: &'a Program,
    pub policy: Policy,
    /// The mode that a person wants.
    pub mode: Option<Mode>,
    /// True if every source of installations was asked.
    pub asks_all_sources: bool,
}

impl Decision {
    /// Whether nothing can be started as it should be: there is no set, or no way to make the loader take it.
    pub fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Conflict(_)) || self.leaks()
    }

    /// Fails where the best `passed` sets were passed over and there is no other.
    pub fn must_be_another_set(&self, passed: usize) -> Result<(), Error> {
        match &self.outcome {
            Outcome::Conflict(conflict) if conflict.is_exhausted => Err(Error::NoOtherSet { passed }),
            _ => Ok(()),
        }
    }

    /// Whether there is a set, and no way to make the loader take it.
    pub fn leaks(&self) -> bool {
        matches!(self.outcome, Outcome::Plan(_)) && self.pinned.is_none()
    }
}

/// Before this release of glibc, every call between libraries is slow under any auditor.
const AUDITORS: (u32, u32) = (2, 35);

/// Whether programs of this loader can be started with a module that it asks.
pub fn suits_auditors(searcher: &Searcher<'_>) -> bool {
    searcher.release().is_some_and(|release| release >= AUDITORS)
}

/// The release of a loader as a version.
pub fn release(searcher: &Searcher<'_>) -> Option<Version> {
    searcher.release().map(|(major, minor)| Version::new(&[major, minor]))
}

/// Chooses the mode that makes the loader take the set of `outcome`. Where only force does, the solver is asked again for a
/// set without regard to the program's own search paths.
pub fn decide(mut question: Question<'_, '_>, outcome: Outcome) -> Result<Decision, Error> {
    let mut decision = question.decide(outcome)?;
    if decision.is_refused() && question.mode.take().is_some() {
        question.policy.released.clear();
        let outcome = solve::solve(question.inventory, question.program, &question.policy);
        decision.instead = question.decide(outcome)?.pinned.map(|pinned| pinned.mode);
    }
    Ok(decision)
}

impl Question<'_, '_> {
    fn decide(&mut self, outcome: Outcome) -> Result<Decision, Error> {
        let mut passed_over = Vec::new();
        let families = outcome.led_astray();
        if !families.is_empty() {
            let is_refused = matches!(outcome, Outcome::Conflict(_));
            let families = families.into_iter().collect();
            passed_over.push(NotEnough { mode: Mode::View, why: Why::LedAstray { families } });
            if self.mode != Some(Mode::View)
                && let Some(plan) = self.released(&outcome)
            {
                let by_force = Outcome::Plan(plan);
                let pinned = self.first_that_is_enough(&by_force, &FORCING, &mut passed_over)?;
                if pinned.is_some() {
                    return Ok(Decision { outcome: by_force, pinned, passed_over, instead: None });
                }
            }
            if is_refused {
                // What could only be had by force, and cannot, is what stood in the way at first.
                return Ok(Decision { outcome, pinned: None, passed_over, instead: None });
            }
            // What is only guessed to be asked for is left as it is.
            self.policy.released.clear();
            passed_over.clear();
        }
        let pinned = self.first_that_is_enough(&outcome, &LADDER, &mut passed_over)?;
        Ok(Decision { outcome, pinned, passed_over, instead: None })
    }

    /// A plan in which search paths of the program's own do not count for the families that they lead astray.
    fn released(&mut self, first: &Outcome) -> Option<Plan> {
        let mut families = first.led_astray();
        loop {
            let before = self.policy.released.len();
            self.policy.released.extend(families);
            if self.policy.released.len() == before {
                return None;
            }
            let outcome = solve::solve(self.inventory, self.program, &self.policy);
            families = outcome.led_astray();
            match outcome {
                Outcome::Plan(plan) if families.is_empty() => return Some(plan),
                _ => {}
            }
        }
    }

    fn first_that_is_enough(
        &self,
        outcome: &Outcome,
        ladder: &[Mode],
        passed_over: &mut Vec<NotEnough>,
    ) -> Result<Option<Pinned>, Error> {
        let Outcome::Plan(plan) = outcome else { return Ok(None) };
        let wanted = self.mode.map(|mode| vec![mode]);
        let modes = wanted.as_deref().unwrap_or(ladder);
        for mode in modes {
            match self.attempt(plan, *mode, Shims::Own) {
                Ok(Ok(pinned)) => return Ok(Some(pinned)),
                Ok(Err(why)) => passed_over.push(NotEnough { mode: *mode, why }),
                Err(error @ Error::NoCache { .. }) if self.mode.is_none() => {
                    return self.without_a_view(plan).map_or(Err(error), |pinned| Ok(Some(pinned)));
                }
                Err(error) => return Err(error),
            }
        }
        for mode in modes {
            if let Ok(pinned) = self.attempt(plan, *mode, Shims::Any)? {
                passed_over.retain(|passed| passed.mode != *mode);
                return Ok(Some(pinned));
            }
        }
        Ok(None)
    }

    /// Pins the plan in this mode, if the model says that nothing leaks.
    fn attempt(&self, plan: &Plan, mode: Mode, shims: Shims) -> Result<Result<Pinned, Why>, Error> {
        if let Some(why) = self.obstacle(mode) {
            return Ok(Err(why));
        }
        if matches!(mode, Mode::None | Mode::Clean) {
            return Ok(self.unaided(plan, mode));
        }
        let mut pinned = Pinned::new(mode, view::spec(plan));
        loop {
            pinned.after = self.predict(plan, &pinned)?;
            let unseen = self.unseen(&pinned.after, Requirement::is_pinned);
            if mode == Mode::Audit {
                match self.only_for(&pinned.after, unseen.is_empty()) {
                    Ok(only_for) => pinned.only_for = only_for,
                    Err(why) => return Ok(Err(why)),
                }
            } else if self.mode.is_none() && !unseen.is_empty() {
                return Ok(Err(Why::Unseen { families: unseen }));
            }
            if let (Some(failure), true) = (&pinned.after.failure, pinned.after.files.is_empty()) {
                // What the model cannot see start is given what is enough by the rules alone.
                let is_enough = mode == Mode::View && self.policy.released.is_empty();
                let why = Why::NotStarted { failure: failure.clone() };
                return Ok(if is_enough { Ok(pinned) } else { Err(why) });
            }
            let leaks: Vec<Predicted> = leaks(plan, &pinned.after).cloned().collect();
            if leaks.iter().all(|leak| shims == Shims::Any && self.works_over(plan, leak)) {
                let lacks_table = mode == Mode::Audit && self.table(plan, &pinned)?.is_none();
                return Ok(if lacks_table { Err(Why::NoModule) } else { Ok(pinned) });
            }
            let is_mended = match mode {
                Mode::Preload => pinned.preload_more(plan, &leaks),
                Mode::Audit => pinned.stop_more(&leaks),
                Mode::View | Mode::Clean | Mode::None => false,
            };
            if !is_mended {
                return Ok(Err(Why::Leaks { files: leaks }));
            }
        }
    }

    /// True for a file from outside the plan that is a shim and works over what is picked. A person who names an
    /// installation, or a lock, means every file of it.
    fn works_over(&self, plan: &Plan, leak: &Predicted) -> bool {
        let is_exact = |it: &Requirement| it.is_pinned() || matches!(it.want, Want::BuildIds(_));
        let mut of_family =
            self.program.requirements.iter().filter(|it| Some(&it.family) == leak.family.as_ref());
        if of_family.any(is_exact) {
            return false;
        }
        let own = self.inventory.installations.iter().find(|installation| installation.has_file(leak.id));
        let works =
            |own: &Installation| meant(plan, leak).all(|installation| installation.works_under_shim_of(own));
        leak.is_shim() && own.is_some_and(works)
    }

    /// The families that a person has named and for which nobody is seen to ask: whoever does may have search paths
    /// of its own.
    fn unseen(&self, prediction: &Prediction, is_meant: fn(&Requirement) -> bool) -> Vec<String> {
        let named = self.program.requirements.iter().filter(|requirement| is_meant(requirement));
        let is_seen =
            |family: &String| prediction.files.iter().any(|file| file.family.as_ref() == Some(family));
        named.map(|requirement| requirement.family.clone()).filter(|family| !is_seen(family)).collect()
    }

    /// The processes in which the audit module is to answer. A child of another environment has libraries of its own, and
    /// keeps them. Every process is meant where a child may be the one that asks.
    fn only_for(&self, prediction: &Prediction, are_pins_seen: bool) -> Result<Option<OsString>, Why> {
        if !are_pins_seen || self.program.rewrites_library_path() {
            return Ok(None);
        }
        let wished = |requirement: &Requirement| requirement.is_by_person() && requirement.is_wish();
        let families = self.unseen(prediction, wished);
        let called = self.program.called.as_ref();
        let only_for = called.and_then(|called| {
            let meant = audit_module::meant(&called.path, called.is_python)?;
            audit_module::is_meant(self.host, &meant, &called.path).then_some(meant)
        });
        match only_for {
            _ if self.mode.is_some() && (!families.is_empty() || only_for.is_none()) => Ok(None),
            _ if !families.is_empty() => Err(Why::Unseen { families }),
            None => Err(Why::ProgramNotKnown),
            only_for => Ok(only_for),
        }
    }

    /// The table of the audit module; none where it cannot be made.
    fn table(&self, plan: &Plan, pinned: &Pinned) -> Result<Option<OsString>, Error> {
        let places = PublishedPaths { view: Some(view::place(self.host, &pinned.spec)?), module: None };
        Ok(pinned.means(plan, &self.policy.views).pins(&places))
    }

    /// What keeps a mode from working at all.
    fn obstacle(&self, mode: Mode) -> Option<Why> {
        let variables = match mode {
            Mode::Audit => &[variables::AUDIT, audit_module::PINS, audit_module::FOR][..],
            Mode::Preload => &[variables::PRELOAD],
            Mode::View | Mode::Clean | Mode::None => &[],
        };
        if let Some(variable) = self.program.undone.iter().find(|undone| variables.contains(undone)) {
            return Some(Why::Undone { variable });
        }
        match mode {
            Mode::None | Mode::Clean | Mode::View if self.program.rewrites_library_path() => {
                Some(Why::RewritesLibraryPath)
            }
            Mode::Audit if !suits_auditors(self.searcher) => {
                Some(Why::OldLoader { glibc: release(self.searcher) })
            }
            Mode::Audit if self.lacks_module() => Some(Why::NoModule),
            _ => None,
        }
    }

    /// There is no module for the program's machine.
    fn lacks_module(&self) -> bool {
        audit_module::bytes().is_none()
            || Elf::parse(audit_module::bytes().unwrap_or_default()).map(|elf| elf.machine())
                != Ok(self.program.machine)
    }

    /// What the program would map, were it started so.
    fn predict(&self, plan: &Plan, pinned: &Pinned) -> Result<Prediction, Error> {
        let spec = &pinned.spec;
        let view = if spec.is_empty() { None } else { Some(view::place(self.host, spec)?) };
        Ok(self.predict_at(plan, pinned, view))
    }

    /// Predicts with the view in this place.
    fn predict_at(&self, plan: &Plan, pinned: &Pinned, view: Option<PathBuf>) -> Prediction {
        let spec = &pinned.spec;
        let places = PublishedPaths { view: view.clone(), module: None };
        let diff = pinned.environment(plan, &places, &self.policy.views, &self.host.env);
        let overlay = view.map(|directory| Overlay {
            directory,
            links: spec.links.clone(),
            empty: spec.tombstones.clone(),
            answers: pinned.mode == Mode::Audit,
        });
        let searcher = self.searcher.within(&self.host.env.with(&diff), overlay);
        predict::predict(&searcher, self.program, self.inventory)
    }
}

impl Pinned {
    fn new(mode: Mode, spec: ViewSpec) -> Pinned {
        let after = Prediction::default();
        Pinned { mode, spec, removed: Vec::new(), only_for: None, preload: Vec::new(), after }
    }

    /// True if a child of another environment may get libraries of this plan beside its own.
    pub fn reaches_children(&self) -> bool {
        matches!(self.mode, Mode::View | Mode::Preload)
    }

    /// How to prove a plan that the program finds by search paths of its own: by a view.
    pub fn for_proof(&self, plan: &Plan) -> Option<Pinned> {
        matches!(self.mode, Mode::None | Mode::Clean).then(|| Pinned::new(Mode::View, view::spec(plan)))
    }

    /// The change of environment, with the view and the module where they were put; `own` are the directories in
    /// which views of ours stand.
    pub fn environment(
        &self,
        plan: &Plan,
        places: &PublishedPaths,
        own: &[PathBuf],
        env: &Environment,
    ) -> Diff {
        self.means(plan, own).environment(places, env)
    }

    fn means<'a>(&'a self, plan: &'a Plan, own: &'a [PathBuf]) -> EnvironmentEdits<'a> {
        let Pinned { mode, spec, removed, only_for, preload, .. } = self;
        EnvironmentEdits { plan, mode: *mode, spec, removed, only_for: only_for.as_deref(), preload, own }
    }

    /// Preloads the picked files for which others would be mapped; says whether there was one more.
    fn preload_more(&mut self, plan: &Plan, leaks: &[Predicted]) -> bool {
        let before = self.preload.len();
        for leak in leaks {
            let installation = meant(plan, leak).next();
            let name =
                installation.and_then(|installation| Some(installation.member(&leak.stem)?.soname.clone()));
            self.preload.extend(name.filter(|name| !self.preload.contains(name)));
        }
        self.preload.len() > before
    }

    /// Stops names that the picked files do not have; says whether there was one more. Never what the program is
    /// linked against, for which it would be fatal.
    fn stop_more(&mut self, leaks: &[Predicted]) -> bool {
        let before = self.spec.tombstones.len();
        let opened = leaks.iter().filter(|leak| leak.when == When::Opened && !leak.is_linked);
        let names = opened.filter_map(|leak| leak.name.rsplit('/').next().map(str::to_owned));
        let new: Vec<String> = names.filter(|name| !self.spec.links.contains_key(name)).collect();
        self.spec.tombstones.extend(new);
        self.spec.tombstones.len() > before
    }
}

/// The picked installations that should have been taken for a file: of its family and of its SONAME.
fn meant<'p>(plan: &'p Plan, file: &Predicted) -> impl Iterator<Item = &'p Installation> {
    let (family, soname) = (file.family.clone(), file.soname);
    let is_meant =
        move |pick: &&Pick| Some(&pick.installation.family) == family.as_ref() && pick.is_of_soname(soname);
    plan.picks.iter().filter(is_meant).map(|pick| &pick.installation)
}

/// The files of picked families that come from outside the plan.
fn leaks<'p>(plan: &'p Plan, prediction: &'p Prediction) -> impl Iterator<Item = &'p Predicted> {
    prediction.files.iter().filter(|file| {
        let mut meant = meant(plan, file).peekable();
        meant.peek().is_some() && !meant.any(|installation| installation.has_file(file.id))
    })
}
