//! Offers: installations that are not here yet, as `profiles/wheels.toml` describes them. They have no files, so that their
//! symbols count as fitting; only their SONAMEs, versions and CUDA are judged, and the GPUs of cuDNN.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use super::hint::Wanted;
use crate::catalog::{
    Family, GroupedBy, Wheel, catalog, first_number, knowledge, soname_number, wheels,
};
use crate::formats::names;
use crate::host::FileId;
use crate::inventory::{Code, Installation, Inventory, Member, Origin};
use crate::program::Program;
use crate::requirements::Want;
use crate::version::{ComputeCapability, Version};

/// The device of files that do not exist.
const NOWHERE: u64 = u64::MAX;

/// The versions of a wheel that are known to exist: those of the table, and those that the program's own packages
/// pin.
pub(super) fn versions(name: &str, program: &Program) -> BTreeMap<Version, &'static Wheel> {
    let rows: Vec<&Wheel> = wheels().iter().filter(|wheel| wheel.name == name).collect();
    let Some(first) = rows.first() else {
        return BTreeMap::new();
    };
    let mut known = BTreeMap::new();
    for wheel in &rows {
        for version in &wheel.versions {
            known.insert(*version, *wheel);
        }
    }
    let mut versions = known.clone();
    for requirement in program.library_requirements() {
        let Want::Recorded(version) = requirement.want else {
            continue;
        };
        // Another CUDA's build of the version may not exist.
        let has_major = known.keys().any(|known| known.major() == version.major());
        if requirement.family == first.family && version.numbers().len() >= 3 && has_major {
            let row = rows.iter().rfind(|wheel| wheel.first <= version);
            versions.entry(version).or_insert(row.unwrap_or(first));
        }
    }
    versions
}

/// Every release of a wheel, whether or not the solver usually tries it.
pub(super) fn releases(name: &str) -> BTreeMap<Version, &'static Wheel> {
    wheels()
        .iter()
        .filter(|wheel| wheel.name == name)
        .flat_map(|wheel| wheel.releases().map(move |version| (version, wheel)))
        .collect()
}

/// The installation that a wheel of this version would be, with its libraries in this directory.
pub(super) fn of_wheel(
    wheel: &Wheel,
    version: Version,
    directory: &Path,
    inventory: &Inventory,
) -> Installation {
    let family = catalog()
        .family(&wheel.family)
        .expect("a test compares the tables");
    let (cuda, sonames) = (Some(wheel.cuda), &wheel.sonames);
    Installation {
        origin: Origin::Wheel,
        package: Some(format!("{} {version}", wheel.name)),
        ..installation(
            family,
            cuda,
            Some(version),
            sonames,
            &wheel.needs,
            directory,
            inventory,
        )
    }
}

/// The installation that a hint asks for, and those of the libraries that it is linked against, in one
/// directory.
pub(super) fn of_wanted(
    wanted: &Wanted,
    directory: &Path,
    inventory: &Inventory,
) -> Vec<Installation> {
    let Some(family) = catalog().family(&wanted.family) else {
        return Vec::new();
    };
    let Some(wheel) = wheels().iter().rfind(|wheel| {
        wheel.family == wanted.family
            && wanted.cuda.is_none_or(|cuda| wheel.cuda == cuda)
            && (wanted.major.is_none() || soname_of(wheel) == wanted.major)
    }) else {
        let version = wanted
            .at_least
            .or(wanted.major.map(|major| Version::new(&[major])));
        let suffix = wanted
            .major
            .map(|major| major.to_string())
            .or_else(|| family.suffix(wanted.cuda?).map(str::to_owned))
            .unwrap_or_default();
        let sonames: Vec<String> = family
            .required(first_number(&suffix).unwrap_or(0))
            .iter()
            .map(|stem| format!("{stem}.so.{suffix}"))
            .collect();
        let (cuda, needs) = (wanted.cuda, &[]);
        return vec![installation(
            family, cuda, version, &sonames, needs, directory, inventory,
        )];
    };
    let newest = wheel.versions.last().copied().max(wanted.at_least);
    let (cuda, sonames) = (Some(wheel.cuda), &wheel.sonames);
    let first = installation(
        family,
        cuda,
        newest,
        sonames,
        &wheel.needs,
        directory,
        inventory,
    );
    let mut found = vec![first];
    for name in &wheel.needs {
        let known = inventory.installations.iter().chain(&found);
        if !known
            .into_iter()
            .any(|installation| installation.offers(name))
        {
            let family = catalog()
                .family_of(name)
                .map(|(family, _)| family.name.clone())
                .unwrap_or_default();
            let needed = Wanted {
                family,
                major: None,
                cuda: Some(wheel.cuda),
                at_least: None,
            };
            found.extend(of_wanted(&needed, directory, inventory));
        }
    }
    found
}

/// The number in the SONAMEs of a wheel's libraries.
pub(super) fn soname_of(wheel: &Wheel) -> Option<u32> {
    wheel
        .sonames
        .iter()
        .find_map(|soname| soname_number(soname))
}

fn installation(
    family: &Family,
    cuda: Option<u32>,
    version: Option<Version>,
    sonames: &[String],
    needs: &[String],
    directory: &Path,
    inventory: &Inventory,
) -> Installation {
    let serves = serves(family, cuda, version, inventory);
    let mut main = None;
    let mut files = Vec::new();
    for soname in sonames {
        let stem = names::split(soname).map_or("", |(stem, _)| stem);
        let is_main = main.is_none() && stem == family.main;
        if is_main {
            main = Some(soname);
        }
        // A library of the same name in the same place would be replaced.
        let id = inventory.file_in(directory, soname).unwrap_or_else(|| {
            let mut hasher = DefaultHasher::new();
            directory.join(soname).hash(&mut hasher);
            FileId {
                device: NOWHERE,
                inode: hasher.finish(),
            }
        });
        files.push(Member {
            stem: stem.to_owned(),
            soname: soname.clone(),
            names: vec![soname.clone()],
            path: directory.join(soname),
            id,
            mode: 0o644,
            needed: if is_main { needs.to_vec() } else { Vec::new() },
            // An entry without architectures: there is code, and `serves` has its GPUs.
            code: serves
                .iter()
                .map(|_| (String::new(), BTreeMap::new()))
                .collect(),
            runpath: Some("$ORIGIN".to_owned()),
            ..Member::default()
        });
    }
    Installation {
        family: family.name.clone(),
        soname: main
            .filter(|_| family.group == GroupedBy::Soname)
            .and_then(|main| soname_number(main)),
        version,
        shim: version,
        cuda,
        is_named: true,
        files,
        serves: serves.unwrap_or_default(),
        directory: directory.to_owned(),
        ..Installation::default()
    }
}

/// The visible GPUs that a release of cuDNN has code for; `None` where no table has them.
fn serves(
    family: &Family,
    cuda: Option<u32>,
    version: Option<Version>,
    inventory: &Inventory,
) -> Option<BTreeMap<ComputeCapability, Code>> {
    let (cuda, version) = cuda.zip(version).filter(|_| family.name == "cudnn")?;
    let gpus: BTreeSet<_> = inventory.capabilities().collect();
    Some(
        gpus.into_iter()
            .filter(|gpu| {
                knowledge()
                    .cudnn_for(*gpu, cuda)
                    .iter()
                    .any(|range| range.allows(&version))
            })
            .map(|gpu| (gpu, Code::Sass))
            .collect(),
    )
}
