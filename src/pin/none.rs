//! The mode that adds nothing: the program gets the plan by itself, once the elements that no plan keeps are removed.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::view::{self, ViewSpec};
use super::{PinQuestion, Pinned, Why, leaks};
use crate::catalog::{catalog, soname_number};
use crate::environment::depends_on_directory;
use crate::host::FileId;
use crate::inventory::LibraryPathElement;
use crate::modes::Mode;
use crate::predict::Prediction;
use crate::solve::{PathElement, Pick, Plan, Removal};

impl PinQuestion<'_, '_> {
    /// Pins the plan without adding anything, if the program gets all of it and nothing else can be reached.
    pub(super) fn none(&self, plan: &Plan) -> Result<Pinned, Why> {
        if self.program.rewrites_library_path() {
            return Err(Why::RewritesLibraryPath);
        }
        match self.other_reachable(plan) {
            Some(why) => Err(why),
            None => self.is_enough(plan),
        }
    }

    /// Pins the plan in this way where there is no place for a view. A look-up that the model does not know is a lesser risk
    /// than no start at all.
    pub fn without_a_view(&self, plan: &Plan) -> Option<Pinned> {
        self.is_enough(plan).ok()
    }

    /// Checks that the program gets all of the plan.
    fn is_enough(&self, plan: &Plan) -> Result<Pinned, Why> {
        let mut pinned = Pinned::new(Mode::None, ViewSpec::default());
        pinned.after = self.predict_at(plan, &pinned, None);
        let files = leaks(plan, &pinned.after)?;
        if !files.is_empty() {
            return Err(Why::Leaks { files });
        }
        self.sees_all(&pinned.after)?;
        // The place of the view decides nothing here: every name in it is answered.
        let answered = Pinned::new(Mode::Audit, view::spec(plan));
        let all = self.predict_at(plan, &answered, Some(PathBuf::from("/view")));
        let names = not_found(plan, &pinned.after, &all);
        if names.is_empty() {
            Ok(pinned)
        } else {
            Err(Why::NotFound { names })
        }
    }

    fn elements<'q>(
        &'q self,
        plan: &'q Plan,
    ) -> impl Iterator<Item = (&'q LibraryPathElement, &'q PathElement)> {
        self.inventory
            .search
            .library_path
            .iter()
            .zip(&plan.library_path)
    }

    fn remaining<'q>(&'q self, plan: &'q Plan) -> impl Iterator<Item = &'q LibraryPathElement> {
        let kept = self
            .elements(plan)
            .filter(|(_, element)| element.removed.is_none());
        kept.map(|(element, _)| element)
    }

    /// Returns the reason why a look-up that the model does not know could find another installation of a picked family.
    fn other_reachable(&self, plan: &Plan) -> Option<Why> {
        let search = &self.inventory.search;
        if !self.asks_all_sources {
            return Some(Why::SearchIsLimited);
        }
        // The current directory may hold what others need; it is removed only where it holds no library.
        let holds_libraries = |directory: &PathBuf| {
            self.inventory
                .directories
                .get(directory)
                .is_some_and(|names| !names.is_empty())
        };
        let needed = self.elements(plan).find(|(element, kept)| {
            kept.removed == Some(Removal::Empty)
                && (element.others || element.directory.as_ref().is_some_and(holds_libraries))
        });
        let needed = needed.map(|(element, _)| element);
        let is_relative =
            |element: &&LibraryPathElement| depends_on_directory(element.text.as_bytes());
        if let Some(element) = needed.or_else(|| self.remaining(plan).find(is_relative)) {
            return Some(Why::Relative {
                element: element.text.clone(),
            });
        }
        let reachable = |name: &str, id: FileId| {
            let family = catalog().family_of(name)?.0.name.clone();
            let installation = self.inventory.installation_of(id)?;
            is_other(plan, name, id).then(|| Why::Reachable {
                family,
                directory: installation.directory.clone(),
            })
        };
        let elements = self
            .remaining(plan)
            .filter_map(|element| element.directory.as_deref());
        // The order in which the program loads its parts may decide which of its own directories comes first.
        let is_own = |directory: &&Path| {
            self.program.own_directories.contains(*directory) || self.program.is_in_site(directory)
        };
        let own = self
            .inventory
            .directories
            .keys()
            .map(PathBuf::as_path)
            .filter(is_own);
        let directories = elements
            .chain(search.defaults.iter().map(PathBuf::as_path))
            .chain(own);
        let mut files = directories
            .filter_map(|directory| self.inventory.directories.get(directory))
            .flatten();
        let in_directory = files.find_map(|(name, id)| reachable(name, *id));
        in_directory.or_else(|| {
            search
                .cache
                .iter()
                .find_map(|(name, id)| reachable(name, *id))
        })
    }
}

/// True if a file of this name is of a picked family and not of the plan.
fn is_other(plan: &Plan, name: &str, id: FileId) -> bool {
    let family = catalog()
        .family_of(name)
        .map(|(family, _)| family.name.as_str());
    let number = soname_number(name);
    let answers = |pick: &&Pick| {
        Some(pick.installation.family.as_str()) == family
            && (number.is_none() || pick.is_of_soname(number))
    };
    let mut answering = plan.picks.iter().filter(answers).peekable();
    answering.peek().is_some() && !answering.any(|pick| pick.installation.has_file(id))
}

/// Returns the names of the plan that the program finds only where every name is answered.
fn not_found(plan: &Plan, without: &Prediction, all: &Prediction) -> Vec<String> {
    let is_picked = |id: FileId| plan.picks.iter().any(|pick| pick.installation.has_file(id));
    let found = all.files.iter().filter(|file| is_picked(file.id));
    let lost = found.filter(|file| without.files.iter().all(|known| known.id != file.id));
    let mut names: Vec<String> = lost.map(|file| file.name.clone()).collect();
    // The model sees no file ask for these picks, but the loader can still find them by name.
    let is_seen = |pick: &&Pick| {
        all.files
            .iter()
            .any(|file| pick.installation.has_file(file.id))
    };
    let unseen = plan
        .picks
        .iter()
        .filter(|pick| !is_seen(pick) && !pick.installation.loader_gives);
    names.extend(unseen.filter_map(|pick| Some(pick.installation.files.first()?.soname.clone())));
    // A second shim finds a part only while the first one has it open.
    let is_answered = |name: &str| all.missing.iter().all(|miss| miss.name != name);
    let is_of_plan = |family: &str| {
        plan.picks
            .iter()
            .any(|pick| pick.installation.family == family)
    };
    let missed = without
        .missing
        .iter()
        .filter(|miss| miss.family.as_deref().is_some_and(is_of_plan) && is_answered(&miss.name));
    names.extend(missed.map(|miss| miss.name.clone()));
    names.sort();
    names.dedup();
    names
}
