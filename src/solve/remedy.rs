//! Applies hints to a copy of the machine and the program, and solves again: a hint that leads to no solution is not shown.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::contradiction::has_solution;
use super::hint::{Hint, Wanted};
use super::machine;
use super::offers;
use super::policy::Policy;
use super::world::World;
use crate::catalog::{catalog, knowledge};
use crate::inventory::{
    Installation, Inventory, KernelDriver, LibraryPathElement, Origin, Visible,
};
use crate::program::{Note, Program};
use crate::requirements::Requirement;
use crate::version::Version;

/// The loader searches it by default.
const SYSTEM: &str = "/usr/lib";
/// A directory that the user chooses.
const CHOSEN: &str = "/DIR";

/// The machine and the program once the user has done what a hint says.
pub(super) struct Remedied {
    inventory: Inventory,
    program: Program,
    policy: Policy,
}

impl Remedied {
    pub(super) fn after(hint: &Hint, world: &World<'_>) -> Remedied {
        let World {
            inventory,
            program,
            policy,
            ..
        } = *world;
        let mut remedied = Remedied {
            inventory: inventory.clone(),
            program: program.clone(),
            policy: policy.clone(),
        };
        remedied.apply(hint);
        remedied
    }

    pub(super) fn world(&self) -> World<'_> {
        World::new(&self.inventory, &self.program, &self.policy)
    }

    /// True if there is a set, or one that a stronger mode than the view can force.
    pub(super) fn has_set(mut self) -> bool {
        if self.is_solved() {
            return true;
        }
        self.policy.ignore_rpath_of = all_families();
        self.policy.can_force && self.is_solved()
    }

    fn is_solved(&self) -> bool {
        let world = self.world();
        machine::broken(&world).is_empty() && has_solution(&world)
    }

    fn apply(&mut self, hint: &Hint) {
        match hint {
            Hint::Pip {
                requirements,
                reinstall,
                ..
            } => {
                for requirement in requirements {
                    self.pip_install(requirement, *reinstall);
                }
            }
            Hint::PipUninstall { packages, .. } => {
                for package in packages {
                    self.remove(|one| is_of(one, package));
                }
            }
            Hint::Apt { packages } => self.apt_install(packages),
            Hint::Install { libraries } => self.install(libraries, Path::new(CHOSEN)),
            Hint::Replace {
                libraries,
                directory,
            } => self.install(libraries, directory),
            Hint::MakePrivate { paths } => {
                self.inventory
                    .installations
                    .iter_mut()
                    .for_each(|one| one.open.retain(|open| !paths.contains(&open.path)));
            }
            Hint::Trust { directories } => {
                self.inventory
                    .installations
                    .iter_mut()
                    .for_each(|one| one.is_named |= directories.contains(&one.directory));
            }
            Hint::UpdateDriver { floor, .. } => self.set_driver(*floor),
            Hint::InstallDriver => {
                if let Some(running) = self.inventory.driver.as_ref().map(|driver| driver.version) {
                    self.set_driver(running);
                }
            }
            Hint::BuildsWithCuda { packages } => {
                self.program.notes.retain(|note| match note {
                    Note::CpuOnly { package, .. } => !packages.contains(package),
                    _ => true,
                });
            }
            Hint::ChangeRequirement { families, by } => {
                self.program.requirements.retain(|requirement| {
                    let is_changed = match requirement {
                        Requirement::Library(one) => {
                            one.is_by_person()
                                && (families.is_empty() || families.contains(&one.family))
                        }
                        Requirement::Machine(_) => true,
                    };
                    !is_changed || requirement.asker() != by
                });
            }
            Hint::OtherBuild { by, .. } => {
                // A build brings wheels of the versions that it needs.
                // Those of the old one are left behind, and say nothing of the CUDA of the new one.
                self.inventory
                    .installations
                    .iter_mut()
                    .filter(|one| one.origin == Origin::Wheel && one.cuda == by.cuda)
                    .for_each(|one| one.origin = Origin::Loose);
                self.program.requirements.retain(|requirement| {
                    let is_of_old = match requirement {
                        Requirement::Library(_) => true,
                        Requirement::Machine(one) => one.own_code().is_some(),
                    };
                    !is_of_old || requirement.asker().name != by.name
                });
            }
            Hint::FittingBuilds { unfit, .. } => {
                let packages: BTreeSet<&String> = unfit.iter().map(|one| &one.package).collect();
                let extensions = self.inventory.extensions.iter_mut().flatten();
                for extension in extensions.filter(|one| packages.contains(&one.package)) {
                    extension.lacks_symbols.clear();
                    extension.lacks_libraries.clear();
                }
            }
            Hint::ChooseGpus { uuids } => {
                self.show_only(|uuid| uuids.iter().any(|one| one == uuid));
            }
            Hint::Both { steps } => steps.iter().for_each(|hint| self.apply(hint)),
            Hint::HideGpus => {
                self.show_only(|_| false);
                self.inventory.gpus_hidden = true;
            }
        }
    }

    fn show_only(&mut self, is_shown: impl Fn(&str) -> bool) {
        for gpu in &mut self.inventory.gpus {
            if !gpu.uuid.as_deref().is_some_and(&is_shown) {
                gpu.visible = Visible::No;
            }
        }
    }

    /// Installs a wheel by `NAME==VERSION`, unless it is installed.
    fn pip_install(&mut self, requirement: &str, reinstall: bool) {
        let Some((name, version)) = requirement.split_once("==") else {
            return;
        };
        let Ok(version) = version.parse::<Version>() else {
            return;
        };
        let package = format!("{name} {version}");
        let Some(site) = self.program.site_packages.first().cloned() else {
            return;
        };
        if !reinstall
            && self
                .inventory
                .installations
                .iter()
                .any(|one| one.package.as_ref() == Some(&package))
        {
            return;
        }
        let Some(wheel) = offers::versions(name, &self.program).remove(&version) else {
            return;
        };
        self.remove(|one| is_of(one, name));
        let directory = site.join(&wheel.directory);
        self.put(|inventory| vec![offers::of_wheel(wheel, version, &directory, inventory)]);
    }

    /// Debian's packages of a toolkit hold several families.
    fn apt_install(&mut self, packages: &BTreeSet<String>) {
        let mut wanted = Vec::new();
        for wheel in crate::catalog::wheels() {
            let Some(family) = catalog().family(&wheel.family) else {
                continue;
            };
            let number = offers::soname_of(wheel);
            let package = family.apt(wheel.cuda, number.unwrap_or(0));
            if package.is_some_and(|package| packages.contains(&package)) {
                let major = number.filter(|_| family.soname_is_version);
                let library = Wanted {
                    family: family.name.clone(),
                    major,
                    cuda: Some(wheel.cuda),
                    at_least: None,
                };
                wanted.extend((!wanted.contains(&library)).then_some(library));
            }
        }
        self.install(&wanted, Path::new(SYSTEM));
    }

    fn install(&mut self, libraries: &[Wanted], directory: &Path) {
        for wanted in libraries {
            self.put(|inventory| offers::of_wanted(wanted, directory, inventory));
        }
        let element = LibraryPathElement {
            text: directory.into(),
            directory: Some(directory.to_owned()),
            others: false,
        };
        if directory == Path::new(CHOSEN) {
            self.inventory.search.library_path.push(element);
        }
    }

    /// Files of the same place are replaced.
    fn put(&mut self, make: impl FnOnce(&Inventory) -> Vec<Installation>) {
        for offer in make(&self.inventory) {
            self.remove(|one| one.family == offer.family && one.directory == offer.directory);
            self.inventory
                .directories
                .entry(offer.directory.clone())
                .or_default()
                .extend(
                    offer
                        .files
                        .iter()
                        .map(|member| (member.soname.clone(), member.id)),
                );
            self.inventory.installations.push(offer);
        }
    }

    fn remove(&mut self, is_removed: impl Fn(&Installation) -> bool) {
        let Inventory {
            installations,
            directories,
            search,
            ..
        } = &mut self.inventory;
        installations.retain(|one| {
            let is_removed = is_removed(one);
            if is_removed {
                for names in directories.values_mut() {
                    names.retain(|_, id| !one.has_file(*id));
                }
                search.cache.retain(|_, id| !one.has_file(*id));
            }
            !is_removed
        });
    }

    /// The kernel runs this driver, and its libraries are installed where the loader finds them.
    fn set_driver(&mut self, version: Version) {
        self.remove(|one| one.is_driver() && one.origin != Origin::Compat);
        self.inventory.driver = Some(KernelDriver {
            version,
            cuda: knowledge().cuda_of_driver(version),
            from: PathBuf::new(),
        });
        let wanted = Wanted {
            family: "driver".to_owned(),
            major: Some(1),
            cuda: None,
            at_least: Some(version),
        };
        self.install(&[wanted], Path::new(SYSTEM));
    }
}

pub(super) fn all_families() -> BTreeSet<String> {
    catalog()
        .families
        .iter()
        .map(|family| family.name.clone())
        .collect()
}

/// True for an installation of this distribution.
pub(super) fn is_of(installation: &Installation, distribution: &str) -> bool {
    installation
        .package
        .as_ref()
        .and_then(|package| package.split(' ').next())
        == Some(distribution)
}
