//! What a program asks for, who asks and where that is written, and what it opens at run time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::formats::symbols::Symbol;
use crate::range::Range;
use crate::text;
use crate::version::Version;

/// One thing that the program asks for.
#[derive(Clone, Debug, Serialize)]
pub struct Requirement {
    pub family: String,
    pub want: Want,
    pub need: Need,
    pub by: Asker,
    /// Directories that come before `LD_LIBRARY_PATH` for it, whatever we do.
    pub search_first: Vec<First>,
}

/// A directory that comes before `LD_LIBRARY_PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct First {
    #[serde(serialize_with = "text::path")]
    pub directory: PathBuf,
    pub rule: Before,
}

/// Why it comes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Before {
    /// The requester's DT_RPATH, or that of who loaded it.
    Rpath,
    /// The requester opens files there by absolute path.
    AbsolutePath,
}

impl First {
    /// Directories of a DT_RPATH.
    pub(super) fn rpath(directories: &[PathBuf]) -> Vec<First> {
        directories
            .iter()
            .map(|directory| First { directory: directory.clone(), rule: Before::Rpath })
            .collect()
    }
}

impl Requirement {
    /// The name that it asks for, if it asks for one.
    pub fn named(&self) -> Option<&str> {
        match &self.want {
            Want::Name(name) => Some(name),
            _ => None,
        }
    }

    /// Whether it asks for the family, and not only how it must be.
    pub fn is_wish(&self) -> bool {
        matches!(
            self.want,
            Want::Name(_)
                | Want::Exactly(_)
                | Want::Rest(_)
                | Want::Pinned(_)
                | Want::Within(_)
                | Want::BuildIds(_)
        )
    }

    /// What a person wants a family to be, whatever else is asked for.
    pub fn wished(family: &str, want: Want, by: Asker) -> Requirement {
        Requirement { family: family.to_owned(), want, need: Need::Linked, by, search_first: Vec::new() }
    }

    pub fn is_pinned(&self) -> bool {
        matches!(self.want, Want::Pinned(_))
    }

    /// Whether a person has said so, and not the program.
    pub fn is_by_person(&self) -> bool {
        matches!(self.want, Want::Pinned(_) | Want::Within(_) | Want::Preferred(_) | Want::BuildIds(_))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Want {
    /// A file of this name.
    Name(String),
    /// The same major, and this minor or a newer one: what it was compiled against.
    AtLeast(Version),
    /// This version and no other: what it brings a part of.
    Exactly(Version),
    /// A version that works under this shim, which the program brings.
    Rest(Version),
    /// What upstream tested with; a preference.
    Recorded(Version),
    /// All of these, exported by the file that they name.
    Symbols(Vec<Symbol>),
    /// The one that a person has named.
    Pinned(Pin),
    /// A version within this: what a person says that the program needs.
    Within(Range),
    /// A version within this, where there is a choice.
    Preferred(Range),
    /// These very files, by SONAME: what a lock has recorded.
    BuildIds(BTreeMap<String, String>),
}

/// The installation that a person wants.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pin {
    Version(Version),
    /// Whatever stands there.
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

/// Who asks, and where that is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Asker {
    /// `torch 2.11.0`, or the program's own name.
    pub name: String,
    #[serde(serialize_with = "text::path")]
    pub file: PathBuf,
    pub line: Option<usize>,
    /// The CUDA major that it was built for.
    pub cuda: Option<u32>,
    pub standing: ImportCertainty,
}

impl Asker {
    /// A person who says something in `file`, or by an option or a variable of that name.
    pub fn person(name: &str, file: PathBuf, line: Option<usize>) -> Asker {
        Asker { name: name.to_owned(), file, line, cuda: None, standing: ImportCertainty::Imported }
    }
}

/// A library or a module that is opened at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// The object that opens it, whose search path counts; none where it is the program itself.
    pub by: Option<PathBuf>,
    /// A name or a path.
    pub name: String,
}

impl Load {
    pub(super) fn path(path: &Path) -> Load {
        Load { by: None, name: path.to_string_lossy().into_owned() }
    }

    /// What a requirement by name, or by absolute path, will open.
    pub(super) fn of(requirement: &Requirement, by: Option<&Path>) -> Option<Load> {
        let name = requirement.named()?;
        let path = requirement.search_first.iter().find(|first| first.rule == Before::AbsolutePath);
        let name =
            path.map_or(name.to_owned(), |first| first.directory.join(name).to_string_lossy().into_owned());
        Some(Load { by: by.map(Path::to_owned), name })
    }
}

/// How sure it is that a package will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportCertainty {
    /// The program imports it.
    Imported,
    /// The program imports or runs what was not followed, and this is installed.
    Possible,
    /// It is installed, and what the program imports is known and does not need it.
    Installed,
}
