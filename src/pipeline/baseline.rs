//! The libraries that a proof loads if nothing is pinned: those that a program gets without cudarun.

use std::path::{Path, PathBuf};

use crate::catalog::catalog;
use crate::inventory::{Inventory, Problem};
use crate::loader::process::LoadFailure;
use crate::loader::search::FoundBy;
use crate::predict::supply::{self, FamilySupply};
use crate::predict::{Predicted, Prediction};
use crate::text::show;
use crate::verify::{ProofSubject, TriedLibrary};

/// The libraries that the loader gives to a program without search paths of its own.
pub fn given_by_loader(inventory: &Inventory) -> ProofSubject {
    let given = inventory
        .installations
        .iter()
        .filter(|installation| installation.loader_gives);
    let libraries = given
        .filter_map(TriedLibrary::of)
        .map(|library| library.with_damaged(&inventory.warnings));
    ProofSubject {
        libraries: libraries.collect(),
        is_planned: false,
    }
}

/// The libraries that a program is expected to map. If a family comes from two directories, programs ask for the first, and
/// files of the other are foreign to it.
pub fn given_to_program(inventory: &Inventory, prediction: &Prediction) -> ProofSubject {
    let mut subject = ProofSubject::default();
    let given = supply::given(prediction, inventory);
    let is_of_nvidia = |file: &&Predicted| {
        file.family.is_some() || catalog().family_of_bundled(&file.path).is_some()
    };
    for file in prediction.files.iter().filter(is_of_nvidia) {
        let Some(installation) = inventory
            .installations
            .iter()
            .find(|installation| installation.has_file(file.id))
        else {
            continue;
        };
        let Some(library) = TriedLibrary::of(installation) else {
            continue;
        };
        let mut library = library.with_damaged(&inventory.warnings);
        // The child has none of the program's search paths.
        let is_of_program = matches!(
            file.rule,
            FoundBy::Rpath { .. } | FoundBy::Path | FoundBy::Runpath
        );
        library.found_in = file
            .path
            .parent()
            .filter(|_| is_of_program)
            .map(Path::to_owned);
        let is_shim_over_another = |family: &str| {
            given
                .get(family)
                .is_some_and(FamilySupply::is_shim_over_another)
        };
        let other = &library.installation;
        let is_same = |known: &&mut TriedLibrary| {
            known.installation.family == other.family && known.soname == library.soname
        };
        match subject
            .libraries
            .iter_mut()
            .find(is_same)
            .map(|known| &mut known.installation)
        {
            None => subject.libraries.push(library),
            Some(known)
                if known.directory != other.directory && !is_shim_over_another(&known.family) =>
            {
                let real = other.files.iter().find(|member| member.id == file.id);
                let version = other
                    .version
                    .filter(|version| Some(*version) != known.version);
                let foreign =
                    real.zip(version)
                        .map(|(member, version)| Problem::OtherVersionAmongTheRest {
                            file: show(&member.path),
                            version,
                        });
                known.problems.extend(foreign);
            }
            Some(_) => {}
        }
    }
    subject.libraries.extend(ends_the_start(prediction));
    subject
}

/// The libraries that keep the program from starting: they are missing, or the loader gives up at them.
fn ends_the_start(prediction: &Prediction) -> Vec<TriedLibrary> {
    let Some(failure) = &prediction.failure else {
        return Vec::new();
    };
    let bad = match failure {
        LoadFailure::Bad { path, .. } => Some(path.clone()),
        _ => None,
    };
    let paths = prediction
        .missing
        .iter()
        .map(|missing| PathBuf::from(&missing.name))
        .chain(bad);
    let libraries = paths.filter_map(|path| {
        let (family, _) = catalog().family_of_file(&path)?;
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        Some(TriedLibrary::without_files(
            &family.name,
            path.file_name()?.to_str()?,
            directory,
        ))
    });
    libraries.collect()
}
