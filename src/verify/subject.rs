//! What is to be proved: libraries by the names that the program asks for, and what is known of their files.

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
    /// Whether these files and no others are to be mapped; in an environment as it is, nobody has promised that.
    pub is_planned: bool,
}

/// A family as it stands in one place.
#[derive(Clone, Debug)]
pub struct Library {
    pub family: String,
    /// Of the file that programs ask for first.
    pub soname: String,
    pub version: Option<Version>,
    pub origin: Origin,
    pub directory: PathBuf,
    /// Where the program finds it by a search of its own.
    pub found_in: Option<PathBuf>,
    pub files: Vec<LibraryFile>,
    /// Stems of files that must come with it and do not.
    pub missing: Vec<String>,
    /// Files of another version than the rest.
    pub foreign: Vec<(String, Version)>,
    /// Files that are shorter than they say.
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
        let libraries = plan.picks.iter().filter_map(|pick| Library::of(&pick.installation)).collect();
        Subject { libraries, is_planned: true }
    }

    /// The library that a SONAME is of, or would be, were it there.
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
        self.libraries.iter().find(|library| library.family == family)
    }

    /// The library that this file is mixed into.
    pub(super) fn with_foreign(&self, path: &str) -> Option<&Library> {
        self.libraries.iter().find(|library| library.foreign.iter().any(|(file, _)| file == path))
    }

    pub(super) fn has_file(&self, id: FileId) -> bool {
        self.libraries.iter().any(|library| library.files.iter().any(|file| file.id == id))
    }
}

impl Library {
    /// None of an installation without the file that programs ask for.
    pub fn of(installation: &Installation) -> Option<Library> {
        let main =
            catalog().family(&installation.family).and_then(|family| installation.member(&family.main))?;
        let bare = Library::without_files(&installation.family, &main.soname, installation.directory.clone());
        let mut library = Library { version: installation.version, origin: installation.origin, ..bare };
        for member in &installation.files {
            let file =
                LibraryFile { soname: member.soname.clone(), path: member.path.clone(), id: member.id };
            library.files.push(file);
        }
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

    /// One of which there is no file that the loader takes: what it says instead is the proof.
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

    /// This library, with what stands in its place and is cut so short that nobody can read whose part it is: it is not
    /// missing, but damaged.
    #[must_use]
    pub fn with_damaged(mut self, warnings: &[Warning]) -> Library {
        let own = soname_number(&self.soname);
        let cut = warnings.iter().filter(|warning| matches!(warning.fault, ReadFault::Malformed { .. }));
        for path in cut.map(|warning| &warning.path) {
            let Some((family, stem)) = catalog().family_of_file(path) else { continue };
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let is_of_here = path.parent() == Some(&*self.directory) && soname_number(&name) == own;
            if is_of_here && family.name == self.family {
                self.missing.retain(|missing| missing != stem);
                self.truncated.push(name);
            }
        }
        self
    }
}
