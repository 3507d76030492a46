//! The subject of a proof: libraries by the names that the program asks for, and facts about their files.

use std::path::PathBuf;

use crate::catalog::{catalog, soname_number};
use crate::formats::names;
use crate::host::FileId;
use crate::inventory::{Installation, Origin, Problem, ReadFault, Warning};
use crate::solve::Plan;
use crate::version::Version;

#[derive(Clone, Debug, Default)]
pub struct Subject {
    pub libraries: Vec<Library>,
    /// True if only these files may be mapped. An unchanged environment promises nothing.
    pub is_planned: bool,
}

/// One family in one directory.
#[derive(Clone, Debug)]
pub struct Library {
    pub family: String,
    /// The SONAME of the file that programs ask for first.
    pub soname: String,
    pub version: Option<Version>,
    pub origin: Origin,
    pub directory: PathBuf,
    /// The directory in which the program's own search finds it.
    pub found_in: Option<PathBuf>,
    pub files: Vec<LibraryFile>,
    /// Stems of missing files.
    pub missing: Vec<String>,
    /// Files of another version than the rest.
    pub foreign: Vec<(String, Version)>,
    /// Files that are shorter than their headers say.
    pub truncated: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct LibraryFile {
    pub soname: String,
    pub path: PathBuf,
    pub id: FileId,
}

impl Subject {
    pub fn of_plan(plan: &Plan) -> Subject {
        let libraries = plan
            .picks
            .iter()
            .filter_map(|pick| Library::of(&pick.installation))
            .collect();
        Subject {
            libraries,
            is_planned: true,
        }
    }

    /// The library to which a SONAME belongs, missing files included.
    pub fn of_soname(&self, soname: &str) -> Option<&Library> {
        let mut libraries = self.libraries.iter();
        let has = |library: &&Library| {
            library.soname == soname || library.files.iter().any(|file| file.soname == soname)
        };
        libraries.clone().find(has).or_else(|| {
            let (stem, _) = names::split(soname)?;
            libraries.find(|library| library.missing.iter().any(|missing| missing == stem))
        })
    }

    pub fn of_family(&self, family: &str) -> Option<&Library> {
        self.libraries
            .iter()
            .find(|library| library.family == family)
    }

    /// The library that this file is mixed into.
    pub(super) fn with_foreign(&self, path: &str) -> Option<&Library> {
        self.libraries
            .iter()
            .find(|library| library.foreign.iter().any(|(file, _)| file == path))
    }

    pub(super) fn has_file(&self, id: FileId) -> bool {
        self.libraries
            .iter()
            .any(|library| library.files.iter().any(|file| file.id == id))
    }
}

impl Library {
    /// `None` if the installation lacks the file that programs ask for.
    pub fn of(installation: &Installation) -> Option<Library> {
        let main = catalog()
            .family(&installation.family)
            .and_then(|family| installation.member(&family.main))?;
        let bare = Library::without_files(
            &installation.family,
            &main.soname,
            installation.directory.clone(),
        );
        let mut library = Library {
            version: installation.version,
            origin: installation.origin,
            ..bare
        };
        library
            .files
            .extend(installation.files.iter().map(|member| LibraryFile {
                soname: member.soname.clone(),
                path: member.path.clone(),
                id: member.id,
            }));
        for problem in &installation.problems {
            match problem {
                Problem::Missing { stems } => library.missing.extend(stems.iter().cloned()),
                Problem::OtherVersionAmongTheRest { file, version } => {
                    library.foreign.push((file.clone(), *version));
                }
                Problem::Truncated { file } => library.truncated.push(file.clone()),
                _ => {}
            }
        }
        Some(library)
    }

    /// A library without a file that the loader accepts. The proof shows the loader's error.
    pub fn without_files(family: &str, soname: &str, directory: PathBuf) -> Library {
        Library {
            family: family.to_owned(),
            soname: soname.to_owned(),
            version: None,
            origin: Origin::Loose,
            directory,
            found_in: None,
            files: Vec::new(),
            missing: Vec::new(),
            foreign: Vec::new(),
            truncated: Vec::new(),
        }
    }

    /// Lists files as damaged instead of missing that are cut so short that the inventory could not read their SONAME.
    #[must_use]
    pub fn with_damaged(mut self, warnings: &[Warning]) -> Library {
        let own = soname_number(&self.soname);
        let cut = warnings
            .iter()
            .filter(|warning| matches!(warning.fault, ReadFault::Malformed { .. }));
        for path in cut.map(|warning| &warning.path) {
            let Some((family, stem)) = catalog().family_of_file(path) else {
                continue;
            };
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default();
            let is_of_here = path.parent() == Some(&*self.directory) && soname_number(&name) == own;
            if is_of_here && family.name == self.family {
                self.missing.retain(|missing| missing != stem);
                self.truncated.push(name);
            }
        }
        self
    }
}
