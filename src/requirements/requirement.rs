//! The requirements of a program with their sources, and the libraries that it opens at run time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::asker::Asker;
use super::machine::MachineRequirement;
use crate::catalog::{Family, GroupedBy, catalog, soname_number};
use crate::formats::names;
use crate::formats::symbols::RequiredSymbol;
use crate::range::Range;
use crate::text::{self, show};
use crate::version::Version;

/// One thing that the program, or a person for it, asks for. A new kind is a variant of [`Want`] or of [`super::Demand`].
#[derive(Clone, Debug)]
pub enum Requirement {
    Library(LibraryRequirement),
    Machine(MachineRequirement),
}

/// One thing that is asked of a library family.
#[derive(Clone, Debug, Serialize)]
pub struct LibraryRequirement {
    pub family: String,
    pub want: Want,
    pub need: Need,
    pub by: Asker,
    /// Directories that the loader searches before `LD_LIBRARY_PATH` for it.
    pub search_first: Vec<EarlierDirectory>,
}

/// A directory that is searched before `LD_LIBRARY_PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EarlierDirectory {
    #[serde(serialize_with = "text::path")]
    pub directory: PathBuf,
    pub rule: Before,
}

/// The reason why it comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Before {
    /// The DT_RPATH of the requester, or of an object that loaded it.
    Rpath,
    /// The requester opens files there by absolute path.
    AbsolutePath,
}

impl EarlierDirectory {
    /// Directories of a DT_RPATH.
    pub fn rpath(directories: &[PathBuf]) -> Vec<EarlierDirectory> {
        directories
            .iter()
            .map(|directory| EarlierDirectory {
                directory: directory.clone(),
                rule: Before::Rpath,
            })
            .collect()
    }
}

impl Requirement {
    pub fn library(&self) -> Option<&LibraryRequirement> {
        match self {
            Requirement::Library(requirement) => Some(requirement),
            Requirement::Machine(_) => None,
        }
    }

    pub fn machine(&self) -> Option<&MachineRequirement> {
        match self {
            Requirement::Library(_) => None,
            Requirement::Machine(requirement) => Some(requirement),
        }
    }

    pub fn asker(&self) -> &Asker {
        match self {
            Requirement::Library(requirement) => &requirement.by,
            Requirement::Machine(requirement) => &requirement.by,
        }
    }

    pub fn asks_for_family(&self) -> bool {
        self.library()
            .is_some_and(LibraryRequirement::asks_for_family)
    }
}

impl From<LibraryRequirement> for Requirement {
    fn from(requirement: LibraryRequirement) -> Requirement {
        Requirement::Library(requirement)
    }
}

impl From<MachineRequirement> for Requirement {
    fn from(requirement: MachineRequirement) -> Requirement {
        Requirement::Machine(requirement)
    }
}

impl LibraryRequirement {
    /// A requirement of the user.
    pub fn of_person(family: &str, want: Want, by: Asker) -> LibraryRequirement {
        LibraryRequirement {
            family: family.to_owned(),
            want,
            need: Need::Linked,
            by,
            search_first: Vec::new(),
        }
    }

    /// The file name that it asks for.
    pub fn named(&self) -> Option<&str> {
        match &self.want {
            Want::Name(name) => Some(name),
            _ => None,
        }
    }

    /// The version that the program was compiled against.
    pub fn floor(&self) -> Option<Version> {
        match self.want {
            Want::AtLeast(version) => Some(version),
            _ => None,
        }
    }

    /// The only CUDA major whose libraries have the name that it asks for.
    pub fn cuda_of_name(&self) -> Option<u32> {
        let name = self.named()?;
        let (family, _) = catalog().family_of(name)?;
        family.cuda_of_suffix(names::split(name)?.1)
    }

    /// The versions from an oldest one on that the asker's metadata allows.
    pub fn declared(&self) -> Option<&Range> {
        match &self.want {
            Want::Declared(range) => Some(range),
            _ => None,
        }
    }

    /// True if it asks for the family, and does not only restrict it.
    pub fn asks_for_family(&self) -> bool {
        match self.want {
            Want::Name(_)
            | Want::Exactly(_)
            | Want::Rest(_)
            | Want::Pinned(_)
            | Want::Within(_)
            | Want::BuildIds(_) => true,
            Want::AtLeast(_)
            | Want::Declared(_)
            | Want::Recorded(_)
            | Want::Symbols(_)
            | Want::Preferred(_) => false,
        }
    }

    /// True if it comes from the user, and not from the program.
    pub fn is_by_person(&self) -> bool {
        match self.want {
            Want::Pinned(_) | Want::Within(_) | Want::Preferred(_) | Want::BuildIds(_) => true,
            Want::Name(_)
            | Want::AtLeast(_)
            | Want::Exactly(_)
            | Want::Rest(_)
            | Want::Declared(_)
            | Want::Recorded(_)
            | Want::Symbols(_) => false,
        }
    }

    /// True if another one of the same asker asks for the same. A recorded version alone does not name its family.
    pub fn is_repeated_by(&self, other: &LibraryRequirement) -> bool {
        self.family == other.family
            && self.want == other.want
            && self.need == other.need
            && self.by.name == other.by.name
            && self.search_first == other.search_first
    }

    /// True if it is only the version that upstream tested with.
    pub fn is_recorded(&self) -> bool {
        matches!(self.want, Want::Recorded(_))
    }

    /// True for functions that the asker does without until it calls one.
    pub fn is_lazy(&self) -> bool {
        self.is_symbols() && self.need == Need::Named
    }

    pub fn is_symbols(&self) -> bool {
        matches!(self.want, Want::Symbols(_))
    }

    pub fn is_pinned(&self) -> bool {
        matches!(self.want, Want::Pinned(_))
    }
}

/// What is wanted of a library family.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Want {
    /// A file of this name.
    #[error("{}", show(.0))]
    Name(String),
    /// This major, with this minor or a newer one: the program was compiled against it.
    #[error("{} or newer", .0.truncated(2))]
    AtLeast(Version),
    /// Exactly this version: the program brings a part of it.
    #[error("exactly {0}")]
    Exactly(Version),
    /// A version that works under this shim, which the program brings.
    #[error("sublibraries of any {}.x", .0.major())]
    Rest(Version),
    /// The versions that its metadata allows, from an oldest one on; a preference, since programs may do without what is new.
    #[error("{0} by its metadata")]
    Declared(Range),
    /// The version that upstream tested with; a preference.
    #[error("tested with {0}")]
    Recorded(Version),
    /// All of these, exported by the file that they name.
    #[error("the symbols that it imports")]
    Symbols(Vec<RequiredSymbol>),
    /// The installation that the user named.
    #[error("{0}")]
    Pinned(PinnedTo),
    /// A version in the range that the user gave.
    #[error("{0}")]
    Within(Range),
    /// A version in this range, where there is a choice.
    #[error("{0} preferred")]
    Preferred(Range),
    /// The build-ids in a lock, by SONAME.
    #[error("the exact files of the lock")]
    BuildIds(BTreeMap<String, String>),
}

/// How a report sorts wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantKind {
    Name,
    /// It narrows the versions that fit.
    Version,
    Preference,
    Symbols,
}

impl Want {
    pub fn kind(&self) -> WantKind {
        match self {
            Want::Name(_) => WantKind::Name,
            Want::AtLeast(_)
            | Want::Exactly(_)
            | Want::Rest(_)
            | Want::Pinned(_)
            | Want::Within(_)
            | Want::BuildIds(_) => WantKind::Version,
            Want::Declared(_) | Want::Recorded(_) | Want::Preferred(_) => WantKind::Preference,
            Want::Symbols(_) => WantKind::Symbols,
        }
    }

    /// True if it means one installation, every file of it.
    pub fn is_exact(&self) -> bool {
        matches!(self, Want::Pinned(_) | Want::BuildIds(_))
    }

    /// The number in the SONAME that it means; none in a family that has one installation whatever the number.
    pub fn soname(&self, family: &Family) -> Option<u32> {
        if family.group == GroupedBy::Place {
            return None;
        }
        match self {
            Want::Name(name) => soname_number(name),
            Want::Symbols(symbols) => soname_number(&symbols.first()?.file),
            Want::AtLeast(version)
            | Want::Exactly(version)
            | Want::Rest(version)
            | Want::Recorded(version)
            | Want::Pinned(PinnedTo::Version(version)) => {
                family.soname_is_version.then(|| version.major())
            }
            Want::Within(range) => range.major().filter(|_| family.soname_is_version),
            Want::Declared(range) => range
                .lowest()
                .map(|oldest| oldest.major())
                .filter(|_| family.soname_is_version),
            Want::BuildIds(files) => soname_number(files.keys().next()?),
            Want::Preferred(_) | Want::Pinned(PinnedTo::Directory(_)) => None,
        }
    }
}

/// The installation that the user wants.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum PinnedTo {
    #[error("{0}")]
    Version(Version),
    /// Any version in this directory.
    #[error("the one in {}", show(.0))]
    #[serde(serialize_with = "text::path")]
    Directory(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// Without it the program does not start.
    Linked,
    /// Without it the program silently does not use the GPU.
    Essential,
    /// The program may ask for it.
    Used,
    /// Its name is written out; the program may have others to try.
    Named,
}

/// A library or a module that is opened at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The object that opens it, with its search path; `None` for the program itself.
    pub by: Option<PathBuf>,
    /// A name or a path.
    pub name: String,
    /// True for a name in constants, since these have no order: the program may open any of them first.
    pub may_be_first: bool,
    /// The package that opens it is only perhaps imported.
    pub is_guess: bool,
}

impl Load {
    pub fn path(path: &Path) -> Load {
        Load {
            by: None,
            name: path.to_string_lossy().into_owned(),
            may_be_first: false,
            is_guess: false,
        }
    }

    /// The name or the absolute path that a requirement will open. Only constants of an object tell the object.
    pub fn required(requirement: &LibraryRequirement, opener: Option<&Path>) -> Option<Load> {
        let name = requirement.named()?;
        let name = requirement
            .search_first
            .iter()
            .find(|first| first.rule == Before::AbsolutePath)
            .map_or(name.to_owned(), |first| {
                first.directory.join(name).to_string_lossy().into_owned()
            });
        Some(Load {
            by: opener.map(Path::to_owned),
            name,
            may_be_first: opener.is_some(),
            is_guess: false,
        })
    }
}
