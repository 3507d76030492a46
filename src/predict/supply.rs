//! Groups predicted files by family and installation, and finds what is wrong with them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::inventory::{Installation, Inventory, Origin};
use crate::predict::{Predicted, Prediction};

/// The files of one family that a program gets in an environment.
#[derive(Clone)]
pub struct FamilySupply<'a> {
    /// Each installation with its files. Files of no installation are grouped by directory.
    pub installations: Vec<(Option<&'a Installation>, Vec<&'a Predicted>)>,
}

/// A reason why the files of a family do not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupplyFault {
    Stub,
    OlderThanKernel,
    /// Two installations each give a file of one name.
    Twice,
    /// Its parts come from two installations.
    Mixed,
}

impl SupplyFault {
    /// True if files come from several installations.
    pub fn is_of_several(self) -> bool {
        matches!(self, SupplyFault::Twice | SupplyFault::Mixed)
    }
}

/// The directory of an installation, or else of the first of these files.
pub fn directory_of<'a>(
    installation: Option<&'a Installation>,
    files: &[&'a Predicted],
) -> &'a Path {
    match installation {
        Some(installation) => &installation.directory,
        None => files[0].path.parent().unwrap_or(Path::new("/")),
    }
}

impl<'a> FamilySupply<'a> {
    /// The first fault of the files.
    pub fn fault(&self, inventory: &Inventory) -> Option<SupplyFault> {
        let kernel = inventory.driver.as_ref().map(|driver| driver.version);
        let (mut has_stub, mut has_old_compat) = (false, false);
        for (installation, _) in &self.installations {
            if let Some(installation) = installation {
                has_stub |= installation.origin == Origin::Stub;
                has_old_compat |=
                    installation.origin == Origin::Compat && installation.version < kernel;
            }
        }
        if has_stub {
            Some(SupplyFault::Stub)
        } else if has_old_compat {
            Some(SupplyFault::OlderThanKernel)
        } else {
            let mixed = self.mixed_groups().next()?;
            Some(mixed.kind_of_mix())
        }
    }

    /// The groups of installations that do not belong together. Libraries of two SONAMEs, such as cuDNN 8 and 9, may be in one
    /// process: they are separate groups.
    pub fn mixed_groups(&self) -> impl Iterator<Item = FamilySupply<'a>> {
        let soname = |(installation, _): &(Option<&Installation>, _)| (*installation)?.soname;
        let mut numbers: BTreeSet<Option<u32>> = self.installations.iter().map(soname).collect();
        if numbers.len() > 1 {
            // A file of unknown number is compared with all.
            numbers.remove(&None);
        }
        let groups = numbers.into_iter().map(move |number| {
            let mut group = self.clone();
            group
                .installations
                .retain(|one| soname(one).is_none_or(|own| Some(own) == number));
            group.without_parts_that_compat_lacks();
            group
        });
        groups.filter(|group| group.installations.len() > 1 && !group.is_shim_over_another())
    }

    fn kind_of_mix(&self) -> SupplyFault {
        if self.is_one_file_twice() {
            SupplyFault::Twice
        } else {
            SupplyFault::Mixed
        }
    }

    /// Beside the libcuda of a `compat` directory, the driver's own installation gives what such a directory never has.
    fn without_parts_that_compat_lacks(&mut self) {
        let mut installations = self.installations.iter().filter_map(|(one, _)| *one);
        let Some(compat) = installations.find(|one| one.origin == Origin::Compat) else {
            return;
        };
        for (installation, files) in &mut self.installations {
            if installation.is_none_or(|one| !std::ptr::eq(one, compat)) {
                files.retain(|file| compat.files.iter().any(|own| own.stem == file.stem));
            }
        }
        self.installations.retain(|(_, files)| !files.is_empty());
    }

    /// True if one installation decides alone and works under the shims of the others.
    pub fn is_shim_over_another(&self) -> bool {
        let [Some(decides)] = self.deciding()[..] else {
            return false;
        };
        self.installations.iter().all(|(installation, _)| {
            installation.is_some_and(|installation| {
                std::ptr::eq(installation, decides) || decides.works_under_shim_of(installation)
            })
        })
    }

    /// The installations that give more than a shim; all of them where none does.
    pub fn deciding(&self) -> Vec<Option<&'a Installation>> {
        let mut deciding = Vec::new();
        for (installation, files) in &self.installations {
            if files.iter().any(|file| !file.is_shim()) {
                deciding.push(*installation);
            }
        }
        if deciding.is_empty() {
            let installations = self.installations.iter();
            deciding.extend(installations.map(|(installation, _)| *installation));
        }
        deciding
    }

    /// True if two files have one stem.
    fn is_one_file_twice(&self) -> bool {
        let mut stems = BTreeSet::new();
        let mut files = self.installations.iter().flat_map(|(_, files)| files);
        !files.all(|file| stems.insert(&file.stem))
    }
}

/// The supply of each family.
pub fn given<'a>(
    prediction: &'a Prediction,
    inventory: &'a Inventory,
) -> BTreeMap<&'a str, FamilySupply<'a>> {
    let mut families: BTreeMap<&str, FamilySupply<'a>> = BTreeMap::new();
    for file in &prediction.files {
        let Some(family) = &file.family else { continue };
        let installation = inventory
            .installations
            .iter()
            .find(|installation| installation.family == *family && installation.has_file(file.id));
        let supply = families.entry(family).or_insert(FamilySupply {
            installations: Vec::new(),
        });
        let mut groups = supply.installations.iter_mut();
        let group = groups.find(|(other, files)| match (other, installation) {
            (Some(other), Some(installation)) => std::ptr::eq(*other, installation),
            (None, None) => files[0].path.parent() == file.path.parent(),
            _ => false,
        });
        match group {
            Some((_, files)) => files.push(file),
            None => supply.installations.push((installation, vec![file])),
        }
    }
    families
}
