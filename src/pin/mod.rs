//! Chooses how the loader is made to take a plan: the least intrusive mode that its model says is enough. A plan is not
//! started where the model shows a leak in every mode.
//!
//! Search paths of the program that come before `LD_LIBRARY_PATH` are a hard rule at first. Only when nothing fits they
//! are ignored, family by family (`Policy::ignore_rpath_of`), and only modes that force are tried. A program whose start the
//! model cannot follow (an image without its loader, a truncated file) gets the view, which is enough by the rules
//! alone.

use std::path::PathBuf;

use crate::error::Error;
use crate::formats::elf::Elf;
use crate::host::Host;
use crate::inventory::{Installation, Inventory};
use crate::loader::search::{Overlay, Searcher};
use crate::modes::Mode;
use crate::predict::{self, MappedWhen, Predicted, Prediction};
use crate::program::Program;
use crate::solve::{self, Outcome, Plan, Policy};
use crate::variables;
use crate::version::Version;

pub mod audit_module;
mod decision;
mod edits;
mod none;
pub mod view;

pub use decision::{Decision, NotEnough, Pinned, Why};
pub use edits::{PublishedPaths, VIEW, followed, watched};
use view::ViewSpec;

/// What ends an attempt to pin a plan in one mode.
enum PinFault {
    NotEnough(Why),
    Error(Error),
}

impl From<Why> for PinFault {
    fn from(why: Why) -> PinFault {
        PinFault::NotEnough(why)
    }
}

impl From<Error> for PinFault {
    fn from(error: Error) -> PinFault {
        PinFault::Error(error)
    }
}

/// The shims that a mode may let the program map. A shim from elsewhere opens the picked files, so it is better than no
/// start, but a mode that gives the picked shim is better still.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AllowedShims {
    Picked,
    FromElsewhere,
}

/// The facts that a decision is made from.
pub struct PinQuestion<'a, 'h> {
    pub host: &'h Host,
    pub searcher: &'a Searcher<'h>,
    pub inventory: &'a Inventory,
    pub program: &'a Program,
    pub policy: Policy,
    /// The mode that the user wants.
    pub mode: Option<Mode>,
    /// True if every source of installations was asked.
    pub asks_all_sources: bool,
    /// False where another process starts the program and nothing is followed: the module would not know its process.
    pub knows_process: bool,
}

/// Before this release of glibc, every call between libraries is slow under any auditor.
const AUDITORS: (u32, u32) = (2, 35);

/// True if programs of this loader can be started with an audit module.
pub fn suits_auditors(searcher: &Searcher<'_>) -> bool {
    searcher
        .release()
        .is_some_and(|release| release >= AUDITORS)
}

/// The variables without which the audit module does nothing.
const OF_AUDIT: [&str; 3] = [variables::AUDIT, variables::PINS, variables::TREE];

/// True if an audit module can override the program's own search paths.
pub fn can_force(searcher: &Searcher<'_>, program: &Program) -> bool {
    takes_module(searcher, program).is_ok()
}

/// Fails where the loader of the program cannot be given the module.
fn takes_module(searcher: &Searcher<'_>, program: &Program) -> Result<(), Why> {
    if !suits_auditors(searcher) {
        return Err(Why::OldLoader {
            glibc: release(searcher),
        });
    }
    if !has_module(program) {
        return Err(Why::NoModule);
    }
    keeps(program, &OF_AUDIT)
}

/// Fails where a wrapper on the way to the program sets or unsets one of these variables.
fn keeps(program: &Program, variables: &[&str]) -> Result<(), Why> {
    for variable in &program.undone {
        if variables.contains(variable) {
            return Err(Why::Undone { variable });
        }
    }
    Ok(())
}

/// The word with which install.sh asks for the module of an installed cudarun.
pub const MODULE_FOR: &str = "--module-for";

/// True if the loader of the program, and of what it starts, can be given the module: a loader of another kind of machine
/// prints a line about it in every process.
pub fn can_be_followed(host: &Host, program: &Program) -> bool {
    has_module(program) && audit_module::starts_this_binary(host)
}

/// True if there is a module for the program's machine.
fn has_module(program: &Program) -> bool {
    let elf = audit_module::bytes().and_then(|bytes| Elf::parse(bytes).ok());
    elf.is_some_and(|elf| elf.machine() == program.machine)
}

/// The release of a loader as a version.
pub fn release(searcher: &Searcher<'_>) -> Option<Version> {
    searcher
        .release()
        .map(|(major, minor)| Version::new(&[major, minor]))
}

/// Chooses the mode that makes the loader take the set of `outcome`. If only force does, it asks the solver again for a
/// set without regard to the program's own search paths.
pub fn decide(mut question: PinQuestion<'_, '_>, outcome: Outcome) -> Result<Decision, Error> {
    let mut decision = question.decide(outcome)?;
    if decision.leaks() && question.program.loads.iter().any(|load| load.is_guess) {
        // A package that is only perhaps imported is no reason to refuse.
        let mut certain = question.program.clone();
        certain.loads.retain(|load| !load.is_guess);
        let mut without_guesses = PinQuestion {
            program: &certain,
            policy: question.policy.clone(),
            ..question
        };
        without_guesses.policy.ignore_rpath_of.clear();
        let outcome = solve::solve(question.inventory, &certain, &without_guesses.policy);
        let mut again = without_guesses.decide(outcome)?;
        if again.pinned.is_some() {
            // The strongest mode was tried last; what leaks in it leaks in all.
            let leaked = decision
                .passed_over
                .into_iter()
                .rev()
                .find_map(NotEnough::leaked);
            again.outside_if_imported = leaked.unwrap_or_default();
            return Ok(again);
        }
    }
    if decision.is_refused() && question.mode.take().is_some() {
        question.policy.ignore_rpath_of.clear();
        let outcome = solve::solve(question.inventory, question.program, &question.policy);
        decision.instead = question.decide(outcome)?.pinned.map(|pinned| pinned.mode);
    }
    Ok(decision)
}

impl PinQuestion<'_, '_> {
    fn decide(&mut self, outcome: Outcome) -> Result<Decision, Error> {
        let mut passed_over = Vec::new();
        let families = outcome.shadowed_by_rpath();
        if !families.is_empty() {
            let is_refused = matches!(outcome, Outcome::Conflict(_));
            let families = families.into_iter().collect();
            passed_over.push(NotEnough {
                mode: Mode::None,
                why: Why::ShadowedByRpath { families },
            });
            if let Some(plan) = self.ignoring_rpath(&outcome) {
                let mut forcing = Mode::all().to_vec();
                forcing.retain(|mode| mode.traits().forces);
                let by_force = Outcome::Plan(plan);
                let pinned = self.first_that_is_enough(&by_force, &forcing, &mut passed_over)?;
                if pinned.is_some() {
                    return Ok(Decision::new(by_force, pinned, passed_over));
                }
                // Why force does not help says more.
                passed_over.remove(0);
            }
            if is_refused {
                // Force does not help either, so the first conflict is the answer.
                return Ok(Decision::new(outcome, None, passed_over));
            }
            // RPATH shadows only families that are guessed: they stay as they are.
            self.policy.ignore_rpath_of.clear();
            passed_over.clear();
        }
        let mut modes = Mode::all().to_vec();
        if self.program.sets_library_path {
            modes.sort_by_key(|mode| mode.traits().depends_on_library_path);
        }
        let pinned = self.first_that_is_enough(&outcome, &modes, &mut passed_over)?;
        Ok(Decision::new(outcome, pinned, passed_over))
    }

    /// A plan in which search paths of the program's own do not count for the families that they lead astray.
    fn ignoring_rpath(&mut self, first: &Outcome) -> Option<Plan> {
        let mut families = first.shadowed_by_rpath();
        loop {
            let before = self.policy.ignore_rpath_of.len();
            self.policy.ignore_rpath_of.extend(families);
            if self.policy.ignore_rpath_of.len() == before {
                return None;
            }
            let outcome = solve::solve(self.inventory, self.program, &self.policy);
            families = outcome.shadowed_by_rpath();
            match outcome {
                Outcome::Plan(plan) if families.is_empty() => return Some(plan),
                _ => {}
            }
        }
    }

    fn first_that_is_enough(
        &self,
        outcome: &Outcome,
        modes: &[Mode],
        passed_over: &mut Vec<NotEnough>,
    ) -> Result<Option<Pinned>, Error> {
        let Outcome::Plan(plan) = outcome else {
            return Ok(None);
        };
        let modes = self.mode.as_ref().map_or(modes, std::slice::from_ref);
        for shims in [AllowedShims::Picked, AllowedShims::FromElsewhere] {
            for mode in modes {
                match self.attempt(plan, *mode, shims) {
                    Ok(pinned) => {
                        passed_over.retain(|passed| passed.mode != *mode);
                        return Ok(Some(pinned));
                    }
                    Err(PinFault::NotEnough(why)) if shims == AllowedShims::Picked => {
                        passed_over.push(NotEnough { mode: *mode, why });
                    }
                    Err(PinFault::NotEnough(_)) => {}
                    Err(PinFault::Error(error @ Error::NoCache { .. })) if self.mode.is_none() => {
                        let pinned = self.without_a_view(plan);
                        return pinned.map_or(Err(error), |pinned| Ok(Some(pinned)));
                    }
                    Err(PinFault::Error(error)) => return Err(error),
                }
            }
        }
        Ok(None)
    }

    /// Pins the plan in this mode, if the model says that nothing leaks.
    fn attempt(&self, plan: &Plan, mode: Mode, shims: AllowedShims) -> Result<Pinned, PinFault> {
        match mode {
            Mode::None => Ok(self.none(plan)?),
            Mode::Audit => self.audit(plan, shims),
            Mode::View => self.view(plan, shims),
        }
    }

    fn audit(&self, plan: &Plan, shims: AllowedShims) -> Result<Pinned, PinFault> {
        takes_module(self.searcher, self.program)?;
        if !self.knows_process {
            return Err(Why::NotFollowed.into());
        }
        let mut pinned = Pinned::new(Mode::Audit, view::spec(plan));
        self.stop_leaks(plan, shims, &mut pinned, |pinned, leaks| {
            Ok(pinned.block_more(leaks))
        })?;
        let view = Some(view::place(self.host, &pinned.spec)?);
        let published = PublishedPaths { view, module: None };
        pinned.pins(&published).ok_or(Why::NoTable)?;
        Ok(pinned)
    }

    fn view(&self, plan: &Plan, shims: AllowedShims) -> Result<Pinned, PinFault> {
        if self.program.rewrites_library_path() {
            return Err(Why::RewritesLibraryPath.into());
        }
        let mut pinned = Pinned::new(Mode::View, view::spec(plan));
        let result = self.stop_leaks(plan, shims, &mut pinned, |pinned, leaks| {
            if self.program.opens_namespaces {
                return Err(Why::OpensNamespaces);
            }
            keeps(self.program, &[variables::PRELOAD])?;
            Ok(pinned.preload_more(plan, leaks))
        });
        match result {
            // The model cannot see the program start. The rules alone say that a view is enough.
            Err(PinFault::NotEnough(Why::NotStarted { .. }))
                if self.policy.ignore_rpath_of.is_empty() => {}
            result => result?,
        }
        if self.mode.is_none() {
            self.sees_all(&pinned.after)?;
        }
        Ok(pinned)
    }

    /// Predicts the files that the program maps, and changes the pinning by `mend` until nothing leaks. `mend` returns false
    /// if it can do no more.
    fn stop_leaks(
        &self,
        plan: &Plan,
        shims: AllowedShims,
        pinned: &mut Pinned,
        mend: impl Fn(&mut Pinned, &[Predicted]) -> Result<bool, Why>,
    ) -> Result<(), PinFault> {
        loop {
            pinned.after = self.predict(plan, pinned)?;
            let files = leaks(plan, &pinned.after)?;
            let lets_shims = shims == AllowedShims::FromElsewhere && !pinned.after.has_two_shims;
            if files
                .iter()
                .all(|leak| lets_shims && self.works_over(plan, leak))
            {
                return Ok(());
            }
            if !mend(pinned, &files)? {
                return Err(Why::Leaks { files }.into());
            }
        }
    }

    /// True if `leak` is a shim from outside the plan that works over the picked files. A pin or a lock means every file
    /// of its installation, shims too.
    fn works_over(&self, plan: &Plan, leak: &Predicted) -> bool {
        let is_exact = self.program.library_requirements().any(|requirement| {
            Some(&requirement.family) == leak.family.as_ref() && requirement.want.is_exact()
        });
        if is_exact || !leak.is_shim() {
            return false;
        }
        let Some(own) = self.inventory.installation_of(leak.id) else {
            return false;
        };
        picked_for(plan, leak).all(|installation| installation.works_under_shim_of(own))
    }

    /// Fails where no predicted file is of a family that the user pinned: an object that the model does not see may ask for
    /// it, with search paths of its own.
    fn sees_all(&self, prediction: &Prediction) -> Result<(), Why> {
        let mut families = Vec::new();
        for requirement in self.program.library_requirements() {
            let family = &requirement.family;
            let mut files = prediction.files.iter();
            if requirement.is_pinned() && files.all(|file| file.family.as_ref() != Some(family)) {
                families.push(family.clone());
            }
        }
        if families.is_empty() {
            Ok(())
        } else {
            Err(Why::Unseen { families })
        }
    }

    /// The files that the program would map with this pinning.
    fn predict(&self, plan: &Plan, pinned: &Pinned) -> Result<Prediction, Error> {
        let spec = &pinned.spec;
        let view = if spec.is_empty() {
            None
        } else {
            Some(view::place(self.host, spec)?)
        };
        Ok(self.predict_at(plan, pinned, view))
    }

    /// Predicts with the view in this place.
    fn predict_at(&self, plan: &Plan, pinned: &Pinned, view: Option<PathBuf>) -> Prediction {
        let published = PublishedPaths {
            view: view.clone(),
            module: None,
        };
        let diff = pinned.environment(plan, &published, &self.policy.views, &self.host.env);
        let overlay = view.map(|directory| Overlay {
            directory,
            links: pinned.spec.links.clone(),
            empty: pinned.spec.tombstones.clone(),
            answers: pinned.mode.traits().uses_module,
        });
        let searcher = self.searcher.within(&self.host.env.with(&diff), overlay);
        predict::predict(&searcher, self.program, self.inventory)
    }
}

impl Pinned {
    fn new(mode: Mode, spec: ViewSpec) -> Pinned {
        Pinned {
            mode,
            spec,
            ..Pinned::default()
        }
    }

    /// A view of the plan for the proof, where the program itself finds the plan by search paths of its own.
    pub fn for_proof(&self, plan: &Plan) -> Option<Pinned> {
        (!self.mode.traits().has_view).then(|| Pinned::new(Mode::View, view::spec(plan)))
    }

    /// Preloads the picked files for which others would be mapped. True if there was one more.
    fn preload_more(&mut self, plan: &Plan, leaks: &[Predicted]) -> bool {
        let before = self.preload.len();
        for leak in leaks {
            let member = picked_for(plan, leak)
                .next()
                .and_then(|installation| installation.member(&leak.stem));
            let name = member.map(|member| member.soname.clone());
            self.preload
                .extend(name.filter(|name| !self.preload.contains(name)));
        }
        self.preload.len() > before
    }

    /// Adds tombstones for names that the picked files do not have. True if there was one more. A tombstone for a name that
    /// the program is linked against would be fatal, so those names get none.
    fn block_more(&mut self, leaks: &[Predicted]) -> bool {
        let before = self.spec.tombstones.len();
        for leak in leaks
            .iter()
            .filter(|leak| leak.when == MappedWhen::Opened && !leak.is_linked)
        {
            let name = leak.name.rsplit('/').next().unwrap_or_default();
            if !self.spec.links.contains_key(name) {
                self.spec.tombstones.insert(name.to_owned());
            }
        }
        self.spec.tombstones.len() > before
    }
}

/// The picked installations that should answer instead of a file: those of its family and SONAME.
fn picked_for<'p>(plan: &'p Plan, file: &Predicted) -> impl Iterator<Item = &'p Installation> {
    let (family, soname) = (file.family.clone(), file.soname);
    plan.picks
        .iter()
        .filter(move |pick| {
            Some(&pick.installation.family) == family.as_ref() && pick.is_of_soname(soname)
        })
        .map(|pick| &pick.installation)
}

/// The files of picked families that come from outside the plan. Fails where the model cannot see the program start.
fn leaks(plan: &Plan, prediction: &Prediction) -> Result<Vec<Predicted>, Why> {
    if let Some(failure) = &prediction.failure
        && prediction.files.is_empty()
    {
        return Err(Why::NotStarted {
            failure: failure.clone(),
        });
    }
    let mut leaks = Vec::new();
    for file in &prediction.files {
        let mut picked = picked_for(plan, file).peekable();
        if picked.peek().is_some() && !picked.any(|installation| installation.has_file(file.id)) {
            leaks.push(file.clone());
        }
    }
    Ok(leaks)
}
