//! The subject of a proof: installations, by the names that the program asks for.

use std::path::PathBuf;

use crate::catalog::{catalog, soname_number};
use crate::formats::names;
use crate::host::FileId;
use crate::inventory::{Installation, Problem, ReadFault, Warning};
use crate::solve::Plan;

#[derive(Clone, Debug, Default)]
pub struct ProofSubject {
    pub libraries: Vec<TriedLibrary>,
    /// True if only these files may be mapped. An unchanged environment promises nothing.
    pub is_planned: bool,
}

/// A library that is tried.
#[derive(Clone, Debug)]
pub struct TriedLibrary {
    pub installation: Installation,
    /// The SONAME of the file that programs ask for first.
    pub soname: String,
    /// The directory in which the program's own search finds it.
    pub found_in: Option<PathBuf>,
}

impl ProofSubject {
    pub fn of_plan(plan: &Plan) -> ProofSubject {
        let picks = plan.picks.iter();
        ProofSubject {
            libraries: picks
                .filter_map(|pick| TriedLibrary::of(&pick.installation))
                .collect(),
            is_planned: true,
        }
    }

    /// The library to which a SONAME belongs, missing files included.
    pub fn of_soname(&self, soname: &str) -> Option<&TriedLibrary> {
        for library in &self.libraries {
            let mut files = library.installation.files.iter();
            if library.soname == soname || files.any(|file| file.soname == soname) {
                return Some(library);
            }
        }
        let (stem, _) = names::split(soname)?;
        self.libraries
            .iter()
            .find(|library| library.missing().any(|missing| missing == stem))
    }

    pub fn of_family(&self, family: &str) -> Option<&TriedLibrary> {
        self.libraries
            .iter()
            .find(|library| library.installation.family == family)
    }

    /// The library that this file is mixed into.
    pub(super) fn with_foreign(&self, path: &str) -> Option<&TriedLibrary> {
        for library in &self.libraries {
            for problem in &library.installation.problems {
                if let Problem::OtherVersionAmongTheRest { file, .. } = problem
                    && file == path
                {
                    return Some(library);
                }
            }
        }
        None
    }

    pub(super) fn has_file(&self, id: FileId) -> bool {
        self.libraries
            .iter()
            .any(|library| library.installation.has_file(id))
    }
}

impl TriedLibrary {
    /// `None` if the installation lacks the file that programs ask for.
    pub fn of(installation: &Installation) -> Option<TriedLibrary> {
        let family = catalog().family(&installation.family)?;
        Some(TriedLibrary {
            installation: installation.clone(),
            soname: installation.member(&family.main)?.soname.clone(),
            found_in: None,
        })
    }

    /// A library without a file that the loader accepts. The proof shows the loader's error.
    pub fn without_files(family: &str, soname: &str, directory: PathBuf) -> TriedLibrary {
        TriedLibrary {
            installation: Installation {
                family: family.to_owned(),
                directory,
                ..Installation::default()
            },
            soname: soname.to_owned(),
            found_in: None,
        }
    }

    /// Stems of missing files.
    pub(super) fn missing(&self) -> impl Iterator<Item = &String> {
        let problems = self.installation.problems.iter();
        problems.flat_map(|problem| match problem {
            Problem::Missing { stems } => stems.as_slice(),
            _ => &[],
        })
    }

    /// Lists files as damaged instead of missing that are cut so short that the inventory could not read their SONAME.
    #[must_use]
    pub fn with_damaged(mut self, warnings: &[Warning]) -> TriedLibrary {
        let installation = &mut self.installation;
        for warning in warnings {
            let path = &warning.path;
            if !matches!(warning.fault, ReadFault::Malformed { .. })
                || path.parent() != Some(&*installation.directory)
            {
                continue;
            }
            let Some((family, stem)) = catalog().family_of_file(path) else {
                continue;
            };
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if family.name != installation.family
                || soname_number(&name) != soname_number(&self.soname)
            {
                continue;
            }
            for problem in &mut installation.problems {
                if let Problem::Missing { stems } = problem {
                    stems.retain(|missing| missing != stem);
                }
            }
            installation.problems.push(Problem::Truncated {
                file: name.into_owned(),
            });
        }
        self
    }
}
