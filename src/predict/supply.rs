//! What an environment gives of each family, by the prediction of what would be mapped in it, and what is wrong with that.

use std::collections::BTreeMap;

use crate::inventory::{Copy, Inventory, Origin};
use crate::predict::{Predicted, Prediction};

/// What one environment gives of one family.
pub struct Given<'a> {
    /// The copies, each with its files; a file of no copy stands alone.
    pub copies: Vec<(Option<&'a Copy>, Vec<&'a Predicted>)>,
}

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Stub,
    OlderThanKernel,
    /// Two copies each give a file of one name.
    Twice,
    /// Its parts come from two copies.
    Mixed,
}

impl<'a> Given<'a> {
    /// What is wrong with what is given.
    pub fn fault(&self, inventory: &Inventory) -> Option<Fault> {
        let of_origin =
            |origin| self.copies.iter().any(|(copy, _)| copy.is_some_and(|copy| copy.origin == origin));
        let kernel = inventory.driver.as_ref().map(|driver| driver.version.version());
        let is_older = |(copy, _): &(Option<&Copy>, _)| {
            copy.is_some_and(|copy| copy.origin == Origin::Compat && copy.version < kernel)
        };
        if of_origin(Origin::Stub) {
            Some(Fault::Stub)
        } else if self.copies.iter().any(is_older) {
            Some(Fault::OlderThanKernel)
        } else if self.copies.len() < 2 || self.is_shim_over_another() {
            None
        } else if self.is_one_file_twice() {
            Some(Fault::Twice)
        } else {
            Some(Fault::Mixed)
        }
    }

    /// True if one copy decides alone and works under the shims of the others.
    pub fn is_shim_over_another(&self) -> bool {
        let [Some(decides)] = self.deciding()[..] else { return false };
        let mut others =
            self.copies.iter().filter(|(copy, _)| !copy.is_some_and(|it| std::ptr::eq(it, decides)));
        others.all(|(copy, _)| copy.is_some_and(|copy| decides.works_under_shim_of(copy)))
    }

    /// Those that give more than a shim; all, where none does.
    pub fn deciding(&self) -> Vec<Option<&'a Copy>> {
        let is_more = |(_, files): &&(_, Vec<&Predicted>)| files.iter().any(|file| !file.is_shim());
        let found: Vec<_> = self.copies.iter().filter(is_more).map(|(copy, _)| *copy).collect();
        if found.is_empty() { self.copies.iter().map(|(copy, _)| *copy).collect() } else { found }
    }

    /// Whether two copies each give a file of one name.
    fn is_one_file_twice(&self) -> bool {
        let mut stems: Vec<&str> =
            self.copies.iter().flat_map(|(_, files)| files).map(|file| file.stem.as_str()).collect();
        let count = stems.len();
        stems.sort_unstable();
        stems.dedup();
        stems.len() < count
    }
}

/// By family, what is given.
pub fn given<'a>(prediction: &'a Prediction, inventory: &'a Inventory) -> BTreeMap<&'a str, Given<'a>> {
    let mut families: BTreeMap<&str, Given<'a>> = BTreeMap::new();
    for file in &prediction.files {
        let Some(family) = &file.family else { continue };
        let copy = inventory.copies.iter().find(|copy| copy.family == *family && copy.has_file(file.id));
        let given = families.entry(family).or_insert(Given { copies: Vec::new() });
        let is_it = |known: &&mut (Option<&Copy>, Vec<&Predicted>)| match (known.0, copy) {
            (Some(a), Some(b)) => std::ptr::eq(a, b),
            (None, None) => known.1[0].path.parent() == file.path.parent(),
            _ => false,
        };
        match given.copies.iter_mut().find(is_it) {
            Some(known) => known.1.push(file),
            None => given.copies.push((copy, vec![file])),
        }
    }
    families
}
