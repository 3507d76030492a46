//! The machine, and the program with what the loader gives to it.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};

use super::cause::CheckAnswer;
use crate::builds::Compilers;
use crate::catalog::{Family, catalog, first_number};
use crate::doctor::{Examination, FindingEvidence};
use crate::formats::names;
use crate::host::{FileId, Host};
use crate::inventory::{Installation, Inventory, Member, Origin, Problem, Toolkit};
use crate::loader::search::Searcher;
use crate::pin::{Decision, Pinned};
use crate::predict::Prediction;
use crate::predict::supply::{FamilySupply, given};
use crate::program::Program;
use crate::solve::{Outcome, Policy, Summary};

pub struct Facts<'f, 'h> {
    pub host: &'f Host,
    pub inventory: &'f Inventory,
    pub examination: &'f Examination,
    pub program: &'f Program,
    pub decision: &'f Decision,
    pub policy: Policy,
    /// The compilers that the plan gives to the program's frameworks.
    pub compilers: &'f Compilers,
    /// The toolkits of the machine: most messages are about none.
    pub toolkits: LazyCell<Vec<Toolkit>, Box<dyn FnOnce() -> Vec<Toolkit> + 'f>>,
    /// The user named the program, or the text names its environment.
    pub is_program_known: bool,
    /// The text is from another machine, so no check of this one says anything.
    pub is_elsewhere: bool,
    /// The start that failed: as without cudarun, or with the plan.
    pub failed: LoaderStart<'h>,
    pub is_pinned: bool,
}

/// The program's start in an environment: the search of the loader, and the files that it maps.
pub struct LoaderStart<'h> {
    pub searcher: Searcher<'h>,
    pub prediction: Prediction,
}

/// The environment in which a check is made: that of the failure, of the plan, or another one.
#[derive(Clone, Copy)]
pub(super) struct AskedIn<'v, 'f, 'h> {
    pub facts: &'v Facts<'f, 'h>,
    pub start: &'v LoaderStart<'h>,
    pub plan: Option<&'v Pinned>,
    /// The program gets what cudarun gives to it, compilers included.
    pub is_planned: bool,
}

/// A library as a cause names it.
pub(super) enum NamedLibrary<'t> {
    File {
        name: &'t str,
        family: Option<&'static Family>,
    },
    Family(&'static Family),
    Other(&'t str),
}

impl<'t> NamedLibrary<'t> {
    pub(super) fn named(text: &'t str) -> NamedLibrary<'t> {
        let name = text.rsplit('/').next().unwrap_or(text);
        if names::split(name).is_some() {
            return NamedLibrary::File {
                name,
                family: catalog().family_of(name).map(|(family, _)| family),
            };
        }
        let lower = if text.eq_ignore_ascii_case("cuda") {
            "cudart".to_owned()
        } else {
            text.to_lowercase()
        };
        catalog()
            .family(&lower)
            .map_or(NamedLibrary::Other(text), NamedLibrary::Family)
    }

    pub(super) fn family(&self) -> Option<&'static Family> {
        match self {
            NamedLibrary::File { family, .. } => *family,
            NamedLibrary::Family(family) => Some(family),
            NamedLibrary::Other(_) => None,
        }
    }
}

/// True if the loader, or the family itself, could take this file for the name.
pub(super) fn serves(installation: &Installation, member: &Member, name: &str) -> bool {
    let Some((stem, suffix)) = names::split(name) else {
        return false;
    };
    let is_version = catalog()
        .family(&installation.family)
        .is_some_and(|family| family.soname_is_version);
    let same_number =
        || is_version && first_number(suffix) == installation.soname && !suffix.is_empty();
    member.stem == stem
        && (member.soname == name || member.names.iter().any(|own| own == name) || same_number())
}

/// True for a main library that a package brings without the rest of its family.
pub(super) fn is_shim(installation: &Installation) -> bool {
    let [file] = installation.files.as_slice() else {
        return false;
    };
    let lacks = |problem: &Problem| matches!(problem, Problem::Missing { .. });
    let is_alone = installation.is_shim(&file.stem) || installation.problems.iter().any(lacks);
    installation.origin == Origin::Bundled && is_alone
}

pub(super) fn installation(installation: &Installation) -> FindingEvidence {
    FindingEvidence::Installation(Summary::of(installation))
}

impl<'f, 'h> Facts<'f, 'h> {
    /// The environment in which the program has failed.
    pub(super) fn as_failed(&self) -> AskedIn<'_, 'f, 'h> {
        let plan = self.decision.pinned.as_ref().filter(|_| self.is_pinned);
        AskedIn {
            facts: self,
            start: &self.failed,
            plan,
            is_planned: self.is_pinned,
        }
    }
}

impl<'v> AskedIn<'v, '_, '_> {
    /// Is none of these files here?
    pub(super) fn is_none_here(
        &self,
        files: Vec<PathBuf>,
        is_right: impl Fn(&Host, &Path) -> bool,
    ) -> Option<CheckAnswer> {
        let host = self.facts.host;
        if files.iter().any(|file| is_right(host, file)) {
            return CheckAnswer::new(false, Vec::new());
        }
        let absent = files.into_iter().filter(|file| host.stat(file).is_err());
        CheckAnswer::new(
            true,
            absent
                .map(|path| FindingEvidence::Absent { path })
                .collect(),
        )
    }

    /// The installations of a family that a program can use.
    pub(super) fn copies(&self, family: &str) -> impl Iterator<Item = &'v Installation> + use<'v> {
        let is_copy = move |one: &&Installation| one.origin != Origin::Stub && !is_shim(one);
        let of_family: Vec<&Installation> = self
            .facts
            .inventory
            .installations
            .iter()
            .filter(|one| one.family == family)
            .collect();
        of_family.into_iter().filter(is_copy)
    }

    /// The installations with a file for this name.
    pub(super) fn offering(&self, family: &str, name: &str) -> Vec<&'v Installation> {
        let offers = |one: &&Installation| one.files.iter().any(|member| serves(one, member, name));
        self.copies(family).filter(offers).collect()
    }

    /// The file that the program gets for a name.
    pub(super) fn given(&self, name: &str) -> Option<(PathBuf, FileId)> {
        let files = &self.start.prediction.files;
        let is_asked = |path: &Path| path.file_name().is_some_and(|file| file == name);
        if let Some(file) = files
            .iter()
            .find(|file| file.name == name || is_asked(&file.path))
        {
            return Some((file.path.clone(), file.id));
        }
        if let Some((stem, suffix)) = names::split(name)
            && let Some(family) = catalog()
                .family_of_stem(stem)
                .filter(|family| family.soname_is_version)
            && let Some(file) = files.iter().find(|file| {
                file.stem == stem
                    && file.soname == first_number(suffix)
                    && file.family.as_ref() == Some(&family.name)
            })
        {
            return Some((file.path.clone(), file.id));
        }
        if let Some(member) = self.picked(name) {
            return Some((member.path.clone(), member.id));
        }
        if self
            .start
            .prediction
            .missing
            .iter()
            .any(|missing| missing.name == name)
        {
            return None;
        }
        let executable = self.facts.program.executable.as_ref();
        let chain: Vec<_> = executable
            .and_then(|path| self.start.searcher.object(path))
            .into_iter()
            .collect();
        // cuDNN asks for its parts by ever shorter names.
        let short = names::split(name).and_then(|(stem, suffix)| {
            catalog()
                .family_of_stem(stem)
                .filter(|family| family.soname_is_version)?;
            Some(format!("{stem}.so.{}", first_number(suffix)?))
        });
        let mut names = [Some(name), short.as_deref()].into_iter().flatten();
        let (object, _) = names.find_map(|name| self.start.searcher.find(name, &chain))?;
        Some((object.path.clone(), object.id))
    }

    /// The path of an installed file: that in the plan's view may not exist yet.
    pub(super) fn installed(&self, path: PathBuf, id: FileId) -> PathBuf {
        let mut members = self
            .facts
            .inventory
            .installations
            .iter()
            .flat_map(|one| &one.files);
        members
            .find(|member| member.id == id)
            .map_or(path, |member| member.path.clone())
    }

    /// The file that the plan puts in the program's reach under this name.
    fn picked(&self, name: &str) -> Option<&'v Member> {
        self.plan.filter(|pinned| pinned.mode.traits().has_view)?;
        let Outcome::Plan(plan) = &self.facts.decision.outcome else {
            return None;
        };
        let mut picks = plan.picks.iter();
        picks.find_map(|pick| {
            let mut files = pick.installation.files.iter();
            files.find(|member| {
                pick.view_names(member).contains(name) || serves(&pick.installation, member, name)
            })
        })
    }

    /// The installation that decides what the program gets of a family.
    pub(super) fn first(&self, family: &Family) -> Option<&'v Installation> {
        let inventory = self.facts.inventory;
        let supplies = given(&self.start.prediction, inventory);
        let deciding = supplies
            .get(family.name.as_str())
            .map(FamilySupply::deciding);
        let of = |id: FileId| {
            let place = inventory
                .installations
                .iter()
                .position(|one| one.has_file(id))?;
            Some(&self.facts.inventory.installations[place])
        };
        if let Some(Some(first)) = deciding.and_then(|all| all.into_iter().next()) {
            return first.files.first().and_then(|file| of(file.id));
        }
        let mains = inventory
            .installations
            .iter()
            .filter(|one| one.family == family.name);
        mains
            .filter_map(|one| one.member(&family.main))
            .find_map(|main| of(self.given(&main.soname)?.1))
    }
}
