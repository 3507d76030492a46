//! What an environment gives of each family, by the prediction of what would be mapped in it, and what is wrong with that.

use std::collections::BTreeMap;

use crate::inventory::{Installation, Inventory, Origin};
use crate::predict::{Predicted, Prediction};

/// What one environment gives of one family.
pub struct Supply<'a> {
    /// The installations, each with its files; a file of no installation stands alone.
    pub installations: Vec<(Option<&'a Installation>, Vec<&'a Predicted>)>,
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Stub,
    OlderThanKernel,
    /// Two installations each give a file of one name.
    Twice,
    /// Its parts come from two installations.
    Mixed,
}

impl<'a> Supply<'a> {
    /// What is wrong with what is given.
    pub fn fault(&self, inventory: &Inventory) -> Option<Fault> {
        let of_origin = |origin| {
            self.installations.iter().any(|(installation, _)| {
                installation.is_some_and(|installation| installation.origin == origin)
            })
        };
        let kernel = inventory.driver.as_ref().map(|driver| driver.version.version());
        let is_older = |(installation, _): &(Option<&Installation>, _)| {
            installation.is_some_and(|installation| {
                installation.origin == Origin::Compat && installation.version < kernel
            })
        };
        if of_origin(Origin::Stub) {
            Some(Fault::Stub)
        } else if self.installations.iter().any(is_older) {
            Some(Fault::OlderThanKernel)
        } else if self.installations.len() < 2 || self.is_shim_over_another() {
            None
        } else if self.is_one_file_twice() {
            Some(Fault::Twice)
        } else {
            Some(Fault::Mixed)
        }
    }

    /// True if one installation decides alone and works under the shims of the others.
    pub fn is_shim_over_another(&self) -> bool {
        let [Some(decides)] = self.deciding()[..] else { return false };
        let mut others = self
            .installations
            .iter()
            .filter(|(installation, _)| !installation.is_some_and(|it| std::ptr::eq(it, decides)));
        others.all(|(installation, _)| {
            installation.is_some_and(|installation| decides.works_under_shim_of(installation))
        })
    }

    /// Those that give more than a shim; all, where none does.
    pub fn deciding(&self) -> Vec<Option<&'a Installation>> {
        let is_more = |(_, files): &&(_, Vec<&Predicted>)| files.iter().any(|file| !file.is_shim());
        let found: Vec<_> =
            self.installations.iter().filter(is_more).map(|(installation, _)| *installation).collect();
        if found.is_empty() {
            self.installations.iter().map(|(installation, _)| *installation).collect()
        } else {
            found
        }
    }

    /// Whether two installations each give a file of one name.
    fn is_one_file_twice(&self) -> bool {
        let mut stems: Vec<&str> =
            self.installations.iter().flat_map(|(_, files)| files).map(|file| file.stem.as_str()).collect();
        let count = stems.len();
        stems.sort_unstable();
        stems.dedup();
        stems.len() < count
    }
}

/// By family, what is given.
pub fn given<'a>(prediction: &'a Prediction, inventory: &'a Inventory) -> BTreeMap<&'a str, Supply<'a>> {
    let mut families: BTreeMap<&str, Supply<'a>> = BTreeMap::new();
    for file in &prediction.files {
        let Some(family) = &file.family else { continue };
        let installation = inventory
            .installations
            .iter()
            .find(|installation| installation.family == *family && installation.has_file(file.id));
        let given = families.entry(family).or_insert(Supply { installations: Vec::new() });
        let is_it = |known: &&mut (Option<&Installation>, Vec<&Predicted>)| match (known.0, installation) {
            (Some(a), Some(b)) => std::ptr::eq(a, b),
            (None, None) => known.1[0].path.parent() == file.path.parent(),
            _ => false,
        };
        match given.installations.iter_mut().find(is_it) {
            Some(known) => known.1.push(file),
            None => given.installations.push((installation, vec![file])),
        }
    }
    families
}
