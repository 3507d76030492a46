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
use crate::solve::{Outcome, Policy};

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
    pub text_origin: TextOrigin,
    /// The start that failed: as without cudarun, or with the plan.
    pub failed: LoaderStart<'h>,
    pub is_pinned: bool,
}

/// Where a text was written, as far as it shows that. People paste the messages of a colleague, a cluster or a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextOrigin {
    /// A program wrote it here, or it names files that are here.
    Here,
    /// What this machine does not confirm may still be the cause.
    Unknown,
    /// Another machine: no check of this one says anything.
    Elsewhere,
}

/// The program's start in an environment: the search of the loader, and the files that it maps.
pub struct LoaderStart<'h> {
    pub searcher: Searcher<'h>,
    pub prediction: Prediction,
}

/// The environment in which a check is made: that of the failure, of the plan, or another one.
#[derive(Clone, Copy)]
pub(super) struct CheckContext<'v, 'f, 'h> {
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
    pub(super) fn new(text: &'t str) -> NamedLibrary<'t> {
        let name = text.rsplit('/').next().unwrap_or(text);
        if names::split(name).is_some() {
            return NamedLibrary::File {
                name,
                family: catalog().family_of(name).map(|(family, _)| family),
            };
        }
        let lower = text.to_lowercase();
        let family = if lower == "cuda" { "cudart" } else { &lower };
        catalog()
            .family(family)
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
    if member.stem != stem {
        return false;
    }
    let family = catalog().family(&installation.family);
    member.soname == name
        || member.names.iter().any(|own| own == name)
        || family.is_some_and(|family| family.soname_is_version)
            && !suffix.is_empty()
            && first_number(suffix) == installation.soname
}

/// True for a main library that a package brings without the rest of its family.
pub(super) fn is_bundled_alone(installation: &Installation) -> bool {
    let [file] = installation.files.as_slice() else {
        return false;
    };
    installation.origin == Origin::Bundled
        && (installation.is_shim(&file.stem) || lacks_files(installation))
}

pub(super) fn lacks_files(installation: &Installation) -> bool {
    let mut problems = installation.problems.iter();
    problems.any(|problem| matches!(problem, Problem::Missing { .. }))
}

impl<'f, 'h> Facts<'f, 'h> {
    /// The environment in which the program has failed.
    pub(super) fn failed_context(&self) -> CheckContext<'_, 'f, 'h> {
        self.context(&self.failed, self.is_pinned)
    }

    pub(super) fn context<'v>(
        &'v self,
        start: &'v LoaderStart<'h>,
        is_planned: bool,
    ) -> CheckContext<'v, 'f, 'h> {
        CheckContext {
            facts: self,
            start,
            plan: self.decision.pinned.as_ref().filter(|_| is_planned),
            is_planned,
        }
    }
}

impl<'v> CheckContext<'v, '_, '_> {
    /// Is none of these files here?
    pub(super) fn is_none_here(
        &self,
        files: Vec<PathBuf>,
        is_right: fn(&Host, &Path) -> bool,
    ) -> Option<CheckAnswer> {
        let host = self.facts.host;
        if files.iter().any(|path| is_right(host, path)) {
            return CheckAnswer::new(false, Vec::new());
        }
        let mut evidence = Vec::new();
        for path in files {
            if host.stat(&path).is_err() {
                evidence.push(FindingEvidence::absent(path));
            }
        }
        CheckAnswer::new(true, evidence)
    }

    /// The installations of a family that a program can use.
    pub(super) fn copies(&self, family: &str) -> Vec<&'v Installation> {
        let mut copies = Vec::new();
        for installation in &self.facts.inventory.installations {
            if installation.family == family
                && installation.origin != Origin::Stub
                && !is_bundled_alone(installation)
            {
                copies.push(installation);
            }
        }
        copies
    }

    /// The installations with a file for this name.
    pub(super) fn copies_with_file(&self, family: &str, name: &str) -> Vec<&'v Installation> {
        let mut copies = self.copies(family);
        copies.retain(|copy| copy.files.iter().any(|member| serves(copy, member, name)));
        copies
    }

    /// The file that the program gets for a name.
    pub(super) fn resolve(&self, name: &str) -> Option<(PathBuf, FileId)> {
        let prediction = &self.start.prediction;
        for file in &prediction.files {
            if file.name == name || file.path.file_name().is_some_and(|file| file == name) {
                return Some((file.path.clone(), file.id));
            }
        }
        // cuDNN asks for its parts by ever shorter names.
        let mut short_name = None;
        if let Some((stem, suffix)) = names::split(name)
            && let Some(family) = catalog().family_of_stem(stem)
            && family.soname_is_version
        {
            let number = first_number(suffix);
            for file in &prediction.files {
                if file.stem == stem
                    && file.soname == number
                    && file.family.as_ref() == Some(&family.name)
                {
                    return Some((file.path.clone(), file.id));
                }
            }
            short_name = number.map(|number| format!("{stem}.so.{number}"));
        }
        if let Some(member) = self.picked_member(name) {
            return Some((member.path.clone(), member.id));
        }
        if prediction
            .missing
            .iter()
            .any(|missing| missing.name == name)
        {
            return None;
        }
        let searcher = &self.start.searcher;
        let executable = self.facts.program.executable.as_ref();
        let chain: Vec<_> = executable
            .and_then(|path| searcher.object(path))
            .into_iter()
            .collect();
        let (object, _) = searcher
            .find(name, &chain)
            .or_else(|| searcher.find(&short_name?, &chain))?;
        Some((object.path.clone(), object.id))
    }

    /// The path of an installed file: that in the plan's view may not exist yet.
    pub(super) fn installed_path(&self, path: PathBuf, id: FileId) -> PathBuf {
        for installation in &self.facts.inventory.installations {
            if let Some(member) = installation.files.iter().find(|member| member.id == id) {
                return member.path.clone();
            }
        }
        path
    }

    /// The file that the plan puts in the program's reach under this name.
    fn picked_member(&self, name: &str) -> Option<&'v Member> {
        self.plan.filter(|pinned| pinned.mode.traits().has_view)?;
        let Outcome::Plan(plan) = &self.facts.decision.outcome else {
            return None;
        };
        for pick in &plan.picks {
            for member in &pick.installation.files {
                if pick.view_names(member).contains(name)
                    || serves(&pick.installation, member, name)
                {
                    return Some(member);
                }
            }
        }
        None
    }

    /// The installation that decides what the program gets of a family.
    pub(super) fn first_copy(&self, family: &Family) -> Option<&'v Installation> {
        let inventory = self.facts.inventory;
        let supplies = given(&self.start.prediction, inventory);
        let deciding = supplies
            .get(family.name.as_str())
            .map(FamilySupply::deciding);
        if let Some(Some(first)) = deciding.and_then(|all| all.into_iter().next()) {
            return inventory.installation_of(first.files.first()?.id);
        }
        for installation in &inventory.installations {
            if installation.family == family.name
                && let Some(main) = installation.member(&family.main)
                && let Some((_, id)) = self.resolve(&main.soname)
                && let Some(first) = inventory.installation_of(id)
            {
                return Some(first);
            }
        }
        None
    }
}
