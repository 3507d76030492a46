//! The mode that adds nothing: the program gets the plan by itself, once the elements that no plan keeps are removed.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::view::{self, ViewSpec};
use super::{PinQuestion, Pinned, Why, leaks};
use crate::catalog::{Family, catalog, soname_number};
use crate::environment::depends_on_directory;
use crate::host::FileId;
use crate::inventory::{Inventory, LibraryPathElement};
use crate::modes::Mode;
use crate::predict::Prediction;
use crate::solve::{Plan, Removal};

impl PinQuestion<'_, '_> {
    /// Pins the plan without adding anything, if the program gets all of it and nothing else can be reached.
    pub(super) fn none(&self, plan: &Plan) -> Result<Pinned, Why> {
        if self.program.rewrites_library_path() {
            return Err(Why::RewritesLibraryPath);
        }
        if let Some(why) = self.other_reachable(plan) {
            return Err(why);
        }
        self.is_enough(plan)
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
        // The place of the view decides nothing here: every name in it is found.
        let all_found = Pinned::new(Mode::Audit, view::spec(plan));
        let all = self.predict_at(plan, &all_found, Some(PathBuf::from("/view")));
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
    ) -> impl Iterator<Item = (&'q LibraryPathElement, Option<&'q Removal>)> {
        let elements = self.inventory.search.library_path.iter();
        elements
            .zip(&plan.library_path)
            .map(|(element, planned)| (element, planned.removed.as_ref()))
    }

    /// The reason why a look-up that the model does not know could find another installation of a picked family.
    fn other_reachable(&self, plan: &Plan) -> Option<Why> {
        if !self.asks_all_sources {
            return Some(Why::SearchIsLimited);
        }
        self.relative_element(plan)
            .map(|element| Why::Relative {
                element: element.text.clone(),
            })
            .or_else(|| self.other_in_reach(plan))
    }

    /// An element of `LD_LIBRARY_PATH` that stays and leads to another directory after each `chdir`. The current directory may
    /// hold what others need; it is removed only where it holds no library.
    fn relative_element<'q>(&'q self, plan: &'q Plan) -> Option<&'q LibraryPathElement> {
        let mut relative = None;
        for (element, removed) in self.elements(plan) {
            if removed == Some(&Removal::Empty)
                && (element.others
                    || element
                        .directory
                        .as_ref()
                        .and_then(|directory| self.inventory.directories.get(directory))
                        .is_some_and(|names| !names.is_empty()))
            {
                return Some(element);
            }
            if relative.is_none()
                && removed.is_none()
                && depends_on_directory(element.text.as_bytes())
            {
                relative = Some(element);
            }
        }
        relative
    }

    /// Another installation of a picked family, in a directory that is searched or in the loader's cache.
    fn other_in_reach(&self, plan: &Plan) -> Option<Why> {
        let Inventory {
            directories,
            search,
            ..
        } = self.inventory;
        let mut searched = Vec::new();
        for (element, removed) in self.elements(plan) {
            if removed.is_none() {
                searched.extend(&element.directory);
            }
        }
        searched.extend(&search.defaults);
        // The order in which the program loads its parts may decide which of its own directories comes first.
        searched.extend(directories.keys().filter(|directory| {
            self.program.own_directories.contains(*directory) || self.program.is_in_site(directory)
        }));
        searched
            .into_iter()
            .filter_map(|directory| directories.get(directory))
            .flatten()
            .chain(&search.cache)
            .find_map(|(name, id)| self.reachable(plan, name, *id))
    }

    fn reachable(&self, plan: &Plan, name: &str, id: FileId) -> Option<Why> {
        let (family, _) = catalog().family_of(name)?;
        let installation = self.inventory.installation_of(id)?;
        is_other(plan, family, name, id).then(|| Why::Reachable {
            family: family.name.clone(),
            directory: installation.directory.clone(),
        })
    }
}

/// True if a file of this name is of a picked family and not of the plan.
fn is_other(plan: &Plan, family: &Family, name: &str, id: FileId) -> bool {
    let number = soname_number(name);
    let mut answering = plan
        .picks
        .iter()
        .filter(|pick| {
            pick.installation.family == family.name
                && (number.is_none() || pick.is_of_soname(number))
        })
        .peekable();
    answering.peek().is_some() && !answering.any(|pick| pick.installation.has_file(id))
}

/// The names of the plan that the program finds only where every name is answered.
fn not_found(plan: &Plan, without: &Prediction, all: &Prediction) -> Vec<String> {
    let mut names = BTreeSet::new();
    for file in &all.files {
        let is_picked = plan
            .picks
            .iter()
            .any(|pick| pick.installation.has_file(file.id));
        if is_picked && without.files.iter().all(|known| known.id != file.id) {
            names.insert(file.name.clone());
        }
    }
    for pick in &plan.picks {
        // The model sees no file ask for these picks, but the loader can still find them by name.
        let installation = &pick.installation;
        if !installation.loader_gives
            && !all.files.iter().any(|file| installation.has_file(file.id))
            && let Some(first) = installation.files.first()
        {
            names.insert(first.soname.clone());
        }
    }
    for missing in &without.missing {
        // A second shim finds a part only while the first one has it open.
        if all.missing.iter().all(|other| other.name != missing.name)
            && let Some(family) = &missing.family
            && plan.pick_of(family).is_some()
        {
            names.insert(missing.name.clone());
        }
    }
    names.into_iter().collect()
}
