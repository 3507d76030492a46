//! The facts that a decision is made from.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::progress::ProgressLine;
use super::scan;
use crate::builds::{Build, Compilers};
use crate::causes::{self, TextOrigin};
use crate::cli::{Common, TOOLKIT};
use crate::doctor::Examination;
use crate::fetch;
use crate::host::{FileId, Host};
use crate::inventory::{Inventory, Origin};
use crate::launch;
use crate::loader::search::Searcher;
use crate::modes::Mode;
use crate::pin::{self, Decision, PinQuestion};
use crate::predict::{self, Prediction};
use crate::program::{Program, StepKind};
use crate::range::Range;
use crate::settings::SettingKey;
use crate::settings::resolve::Settings;
use crate::solve::{self, FailedProof, FamilyRange, Lack, MissingWheel, Outcome, Policy};

/// The program and the machine, as far as they matter for it.
pub struct StartFacts<'h> {
    pub host: &'h Host,
    pub settings: &'h Settings,
    pub program: Program,
    pub inventory: Inventory,
    pub searcher: Searcher<'h>,
    /// The toolkit of a program that compiles.
    pub build: Option<Build>,
    /// The compilers that its frameworks get while they run.
    pub compilers: Compilers,
    /// Directories that hold views of ours.
    pub views: Vec<PathBuf>,
    /// Shown until the decision.
    pub(super) progress: Option<ProgressLine>,
}

/// How a program that failed was started. The fields are as in `causes::Facts`.
#[derive(Clone, Copy)]
pub struct FailedStart {
    pub is_program_known: bool,
    pub text_origin: TextOrigin,
    pub is_pinned: bool,
}

impl<'h> StartFacts<'h> {
    pub(super) fn new(
        settings: &'h Settings,
        program: Program,
        searcher: Searcher<'h>,
        inventory: Inventory,
        views: Vec<PathBuf>,
    ) -> StartFacts<'h> {
        let searcher = match &program.executable {
            Some(executable) => searcher.of_program(executable),
            None => searcher,
        };
        let searcher = match &program.inside {
            Some(inside) => searcher.in_directory(&inside.environment, &inside.directory),
            None => searcher,
        };
        StartFacts {
            host: &settings.host,
            settings,
            program,
            inventory,
            searcher,
            build: None,
            compilers: Compilers::default(),
            views,
            progress: None,
        }
    }

    /// True if this process becomes the program itself, which stays what it is: no shell, script or launcher that starts it, and
    /// no program that may change `LD_LIBRARY_PATH` and start itself again.
    fn becomes_program(&self) -> bool {
        let program = &self.program;
        let file = launch::executed_file(&program.path);
        let id = |path: &Path| self.host.stat(path).ok().map(|stat| stat.id);
        let mut executable = program.executable.iter();
        let is_executed = executable.any(|executable| id(executable) == id(&file));
        let has_launcher = program
            .steps
            .iter()
            .any(|step| step.how == StepKind::Wrapper);
        // A library path is no way to pin one that puts its own before it.
        let stays = !program.sets_library_path || program.rewrites_library_path();
        !self.settings.purpose.starts_later() && is_executed && !has_launcher && stays
    }

    /// How the solver is to choose, skipping all installations whose proof failed.
    pub(super) fn policy(&self, failed_proofs: &[FailedProof]) -> Policy {
        let layers = &self.settings.layers;
        let preferred = layers.words(SettingKey::PreferOrigin);
        let origin = |word: &String| Origin::all().find(|origin| origin.word() == word);
        Policy {
            views: self.views.clone(),
            origins: preferred.iter().filter_map(origin).collect(),
            failed_proofs: failed_proofs.to_vec(),
            mapped: self.mapped(),
            at_hand: fetch::at_hand(self.host, &layers.directories(SettingKey::FetchFrom)),
            can_force: pin::can_force(&self.searcher, &self.program)
                && layers
                    .choice(SettingKey::PinMode)
                    .is_none_or(|mode: Mode| mode.traits().uses_module),
            ..Policy::default()
        }
    }

    /// The wheels that the program lacks beside what is installed; if a person asks for it, also those of libraries that it
    /// may load. If some of these directories are given, those that they contain are preferred.
    pub fn lack(&self, outcome: &Outcome, from: &[PathBuf], is_asked: bool) -> Lack {
        let policy = Policy {
            at_hand: fetch::at_hand(self.host, from),
            ..self.policy(&[])
        };
        let find = if is_asked {
            solve::lack_and_wanted
        } else {
            solve::lack
        };
        let lack = find(outcome, &self.inventory, &self.program, &policy);
        let toolkits = if is_asked {
            self.lacking_toolkits(policy.at_hand.as_ref())
        } else {
            Vec::new()
        };
        match lack {
            Lack::Nothing if !toolkits.is_empty() => Lack::Wheels(toolkits),
            Lack::Wheels(wheels) => Lack::Wheels(wheels.into_iter().chain(toolkits).collect()),
            lack => lack,
        }
    }

    /// The wheels of a toolkit for frameworks that compile while they run and find no compiler.
    fn lacking_toolkits(&self, at_hand: Option<&BTreeSet<String>>) -> Vec<MissingWheel> {
        let wheels = self.compilers.toolkit_to_fetch().and_then(|cuda| {
            let wanted = FamilyRange {
                family: TOOLKIT,
                range: Range::exactly(cuda.version()),
            };
            let machine = self.program.machine;
            solve::wheels_of_toolkit(&wanted, machine, &self.inventory, at_hand).ok()
        });
        wheels.unwrap_or_default()
    }

    /// True if whatever the program starts is started right as well.
    pub fn follows(&self) -> bool {
        super::program::follows(self.settings, &self.program)
    }

    /// True if wheels of what the program lacks are on offer. Those of another machine are not fetched here.
    pub fn can_fetch(&self, outcome: &Outcome) -> bool {
        let is_lacking = outcome.wanted().next().is_some()
            || self.compilers.toolkit_to_fetch().is_some()
            || outcome.asks_for_newer();
        !self.host.is_rerooted()
            && is_lacking
            && matches!(self.lack(outcome, &[], true), Lack::Wheels(_))
    }

    pub(super) fn question(&self, policy: Policy) -> PinQuestion<'_, 'h> {
        PinQuestion {
            host: self.host,
            searcher: &self.searcher,
            inventory: &self.inventory,
            program: &self.program,
            policy,
            mode: self.settings.layers.choice(SettingKey::PinMode),
            asks_all_sources: self
                .settings
                .layers
                .words(SettingKey::SearchWithout)
                .is_empty(),
            knows_process: self.host.is_rerooted()
                || super::program::would_follow(self.settings, &self.program)
                || self.becomes_program(),
        }
    }

    /// The files that the program maps in the environment as it is. They matter only where other users can change an
    /// installation: such an installation is picked only if the program takes it anyway.
    fn mapped(&self) -> BTreeSet<FileId> {
        if self
            .inventory
            .installations
            .iter()
            .all(|installation| installation.open.is_empty())
        {
            return BTreeSet::new();
        }
        self.before().files.iter().map(|file| file.id).collect()
    }

    /// The facts about this program's failure.
    pub fn of_failure<'f>(
        &'f self,
        decision: &'f Decision,
        examination: &'f Examination,
        common: &'f Common,
        failed: FailedStart,
    ) -> causes::Facts<'f, 'h> {
        let planned = decision.pinned.as_ref().filter(|_| failed.is_pinned);
        let prediction = planned.map_or_else(|| self.before(), |pinned| pinned.after.clone());
        causes::Facts {
            host: self.host,
            inventory: &self.inventory,
            examination,
            program: &self.program,
            decision,
            policy: self.policy(&[]),
            compilers: &self.compilers,
            toolkits: LazyCell::new(Box::new(|| {
                let found =
                    scan::toolkits(self.settings, common, &self.program.site_packages, None).ok();
                found
                    .and_then(|inventory| inventory.toolkits)
                    .unwrap_or_default()
            })),
            is_program_known: failed.is_program_known,
            text_origin: failed.text_origin,
            failed: causes::LoaderStart {
                searcher: self.searcher_before(),
                prediction,
            },
            is_pinned: failed.is_pinned,
        }
    }

    /// The files that the program maps in the environment as it is.
    pub fn before(&self) -> Prediction {
        predict::predict(&self.searcher_before(), &self.program, &self.inventory)
    }

    fn searcher_before(&self) -> Searcher<'h> {
        let inside = self.program.inside.as_ref();
        let env = inside.map_or(&self.host.env, |inside| &inside.environment);
        self.searcher.within(env, None)
    }

    /// Every path that a decision was read from, with all installations of the families that were required or picked.
    pub fn watched(&self, outcome: &Outcome, predicted: Option<&Prediction>) -> BTreeSet<PathBuf> {
        let StartFacts {
            program, inventory, ..
        } = self;
        let mut watched = program.watched.clone();
        watched.extend(inventory.watched.iter().cloned());
        watched.extend(self.settings.watched.iter().cloned());
        watched.extend(
            inventory
                .warnings
                .iter()
                .map(|warning| warning.path.clone()),
        );
        watched.extend(
            predicted
                .iter()
                .flat_map(|predicted| &predicted.watched)
                .cloned(),
        );
        let mut families: BTreeSet<&str> = program
            .library_requirements()
            .map(|requirement| requirement.family.as_str())
            .collect();
        if let Outcome::Plan(plan) = outcome {
            families.extend(
                plan.picks
                    .iter()
                    .map(|pick| pick.installation.family.as_str()),
            );
        }
        // An installation that was passed over may be the better one once it is whole.
        let all = inventory.installations.iter();
        for installation in
            all.filter(|installation| families.contains(installation.family.as_str()))
        {
            watched.extend(installation.directories().map(Path::to_owned));
            // The permissions of the directory that really holds a file may change as well.
            let real = installation
                .files
                .iter()
                .filter_map(|member| member.path.parent());
            watched.extend(real.map(Path::to_owned));
            watched.extend(installation.files.iter().map(|member| member.path.clone()));
        }
        watched
    }
}
