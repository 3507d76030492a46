//! Installations, their files and their problems: facts with their evidence. `report/` turns them into sentences.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::owners::{ChangedBy, WritablePath};
use crate::catalog::{Family, catalog, first_number, knowledge, soname_number};
use crate::formats::fatbin::{self, Architecture};
use crate::formats::names;
use crate::formats::symbols::{ByFile, Exports};
use crate::host::FileId;
use crate::text::{self, show, shown};
use crate::version::{ComputeCapability, CudaVersion, Version};

/// One family in one directory.
#[derive(Clone, Debug, Default)]
pub struct Installation {
    pub family: String,
    /// The number in its SONAMEs; none if the family has one installation for all numbers.
    pub soname: Option<u32>,
    pub version: Option<Version>,
    pub version_from: Option<VersionSource>,
    /// The version of its shim, which opens the other files by names with this version.
    pub shim: Option<Version>,
    /// All evidence of its version, strongest first.
    pub evidence: Vec<VersionEvidence>,
    pub cuda: Option<u32>,
    /// Major and minor of the CUDA that it was built with, if a file contains them.
    pub built_for: Option<CudaVersion>,
    pub origin: Origin,
    pub directory: PathBuf,
    /// Other directories that hold links to the same files.
    pub also: Vec<PathBuf>,
    pub package: Option<String>,
    /// Files and directories through which others than root and the user could have put it there.
    pub open: Vec<WritablePath>,
    /// The user or an administrator has named its directory.
    pub is_named: bool,
    /// The position of its directory in the loader's search; none if the loader never searches it.
    pub position: Option<usize>,
    /// True if the loader gives it to a program that has no search path of its own.
    pub loader_gives: bool,
    pub files: Vec<Member>,
    /// The GPUs that it has code for; empty if code was not read.
    pub serves: BTreeMap<ComputeCapability, Code>,
    /// For a libcuda of a `compat` directory: the kernel drivers that it supports.
    pub forward_compatibility: Option<ForwardCompatibility>,
    pub problems: Vec<Problem>,
}

/// By section, the number of entries for each architecture.
pub type GpuCode = BTreeMap<String, BTreeMap<Architecture, u32>>;

/// The best code for a GPU in an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Code {
    /// Code that the driver compiles at the first start.
    Ptx,
    /// Machine code.
    Sass,
}

impl Code {
    /// The best code for a GPU among these.
    fn best(architectures: &BTreeSet<Architecture>, gpu: ComputeCapability) -> Option<Code> {
        architectures
            .iter()
            .filter(|architecture| architecture.serves(gpu))
            .map(|architecture| match architecture.kind {
                fatbin::CodeKind::Sass => Code::Sass,
                fatbin::CodeKind::Ptx => Code::Ptx,
            })
            .max()
    }
}

/// One file of an installation.
#[derive(Clone, Debug, Default)]
pub struct Member {
    pub stem: String,
    pub soname: String,
    /// Its names in the directory.
    pub names: Vec<String>,
    pub path: PathBuf,
    pub size: u64,
    pub id: FileId,
    pub modified: (i64, i64),
    /// Owner and permissions.
    pub uid: u32,
    pub gid: u32,
    pub mode: u32,
    pub build_id: Option<String>,
    pub needed: Vec<String>,
    /// The symbols that it imports, by the SONAME of the file that must export them.
    pub imports: ByFile,
    pub exports: Exports,
    /// Empty if GPU code was not read.
    pub code: GpuCode,
    pub glibc: Option<Version>,
    pub glibcxx: Option<Version>,
    /// Its DT_RPATH and DT_RUNPATH as written. A DT_RUNPATH shields it from every DT_RPATH.
    pub rpath: Option<String>,
    pub runpath: Option<String>,
    /// The directories of its DT_RPATH, in order.
    pub searched: Vec<RpathDirectory>,
}

/// A directory that a library's own search path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpathDirectory {
    pub directory: PathBuf,
    /// It was written with `$ORIGIN`, so that it changes if the library is opened through a view.
    pub from_origin: bool,
}

/// How an installation was made. If two sources name one directory, the first of these counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Wheel,
    /// A wheel in the store of `cudarun fetch`.
    Fetched,
    /// Packed into a package for its own use, perhaps renamed by auditwheel.
    Bundled,
    Conda,
    Compat,
    Stub,
    Driver,
    Toolkit,
    /// A directory that an environment module names.
    Module,
    /// A store of packages by hash: Nix, Spack.
    Store,
    Debian,
    #[default]
    Loose,
}

/// An extension module that uses the libraries of a framework.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extension {
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    /// The distribution that brought it, `torchaudio 2.5.1`.
    pub package: String,
    /// The installed framework, `torch 2.6.0`.
    pub framework: String,
    /// The version of the framework that the metadata of the package names; none if several are allowed.
    pub built_for: Option<String>,
    pub lacks_symbols: Vec<String>,
    pub lacks_libraries: Vec<String>,
}

impl Extension {
    /// True if the framework has all that it needs of it, and brings each of NVIDIA's libraries that it needs under that number.
    pub fn fits(&self) -> bool {
        self.lacks_symbols.is_empty() && self.lacks_libraries.is_empty()
    }

    /// The requirement that brings the build of the package for the framework that is installed, as far as its releases are
    /// known, or else the version of the framework that the package asks for; none if its metadata names no version.
    pub fn fitting_requirement(&self) -> Option<String> {
        let (package, number) = name_and_number(&self.package);
        let (framework, installed) = name_and_number(&self.framework);
        if let Some(installed) = installed
            && let Some(release) = knowledge().release_for(package, framework, installed)
        {
            return Some(release);
        }
        let wanted = self.built_for.as_deref();
        let wanted = wanted.filter(|wanted| installed != Some(wanted))?;
        // torchaudio 2.5.1 is the one for torch 2.5.1.
        if number == Some(wanted) {
            return Some(format!("{package}=={}", installed?));
        }
        Some(format!("{framework}=={wanted}"))
    }
}

/// `torch` and `2.6.0` of `torch 2.6.0+cu124`.
fn name_and_number(title: &str) -> (&str, Option<&str>) {
    let (name, version) = title.split_once(' ').unwrap_or((title, ""));
    let number = version.split([' ', '+']).next();
    (name, number.filter(|number| !number.is_empty()))
}

/// One piece of evidence of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionEvidence {
    pub source: VersionSource,
    pub version: Version,
    /// The file or the package.
    pub by: String,
}

/// The kinds of evidence of a version, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionSource {
    /// A constant or a text in the library itself.
    Contents,
    PackageRecord,
    FileName,
    /// A C header beside it, which may belong to another installation.
    Header,
}

/// The contents of the note `.note.cuda.fwd_compatibility` of a libcuda.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForwardCompatibility {
    pub cuda: Option<CudaVersion>,
    pub kernel_branches: Vec<u32>,
}

/// A problem of an installation.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "problem", rename_all = "kebab-case")]
pub enum Problem {
    #[error("incomplete: {} missing", shown(.stems))]
    Missing { stems: Vec<String> },
    #[error("mixed: {} is {version}", show(.file))]
    OtherVersionAmongTheRest { file: String, version: Version },
    #[error("its package {} has version {version}", show(.package))]
    PackageSaysOtherwise { package: String, version: Version },
    #[error("its file name {} has another version, {version}", show(.file))]
    NameSaysOtherwise { file: String, version: Version },
    #[error("{} is not the file that its package installed ({recorded} bytes)", show(.file))]
    SizeIsNotRecorded { file: String, recorded: u64 },
    #[error("{} both claim {}, {}", shown(.packages), shown(.files), holder(.holds.as_deref()))]
    ClaimedTwice {
        files: Vec<String>,
        packages: Vec<String>,
        /// The package whose files they are; none if their sizes do not tell.
        holds: Option<String>,
    },
    #[error("{} is a second file with the SONAME {}", show(.file), show(.soname))]
    SecondOfOneSoname { soname: String, file: String },
    #[error("damaged: {} is cut short", show(.file))]
    Truncated { file: String },
    #[error("all users can write to {}", show(.path))]
    WorldWritable {
        #[serde(serialize_with = "text::path")]
        path: PathBuf,
    },
    #[error("a stub, which fails at run time, is in {by}")]
    StubOnSearchPath { by: SearchStage },
    #[error("older than the kernel's driver {kernel}")]
    CompatOlderThanKernel { kernel: Version },
    #[error("the kernel runs driver {kernel}")]
    NotTheKernelsDriver { kernel: Version },
}

/// The part of the loader's search that finds a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum SearchStage {
    #[error("LD_LIBRARY_PATH")]
    LibraryPath,
    #[error("/etc/ld.so.cache")]
    Cache,
    #[error("a default directory of the loader")]
    DefaultDirectory,
}

fn holder(package: Option<&str>) -> String {
    match package {
        Some(package) => format!("and the installed file is from {}", show(package)),
        None => "and only the file's contents show whose it is".to_owned(),
    }
}

impl Installation {
    /// `cuDNN 9.1.0`, as a message names it.
    pub fn title(&self) -> String {
        match self.version {
            Some(version) => format!("{} {version}", self.family),
            None => self.family.clone(),
        }
    }

    /// True for stubs on no search path, which every toolkit has for linking.
    pub fn is_out_of_reach(&self) -> bool {
        self.origin == Origin::Stub
            && self
                .problems
                .iter()
                .all(|problem| matches!(problem, Problem::Missing { .. }))
    }

    /// True if this one, where it comes first, breaks a program that finds the shim of another by a search path of its own: the
    /// shim opens the parts of this one and does not work over them.
    pub fn mixes_into(&self, other: &Installation) -> bool {
        other.family == self.family
            && other.soname == self.soname
            && other.version != self.version
            && other.origin != Origin::Stub
            && !self.works_under_shim_of(other)
            && catalog()
                .family(&self.family)
                .is_some_and(Family::opens_members_of_any_version)
    }

    pub(super) fn is_incomplete(&self) -> bool {
        self.problems
            .iter()
            .any(|problem| matches!(problem, Problem::Missing { .. }))
    }

    /// Adds another directory with links to its files, and the facts that are known only there.
    pub(super) fn absorb(&mut self, other: Installation) {
        self.also.push(other.directory);
        for problem in other.problems {
            if matches!(problem, Problem::WorldWritable { .. }) && !self.problems.contains(&problem)
            {
                self.problems.push(problem);
            }
        }
        self.is_named |= other.is_named;
        let mut writable = other.open.iter();
        if writable.all(|path| path.who != ChangedBy::CurrentDirectory) {
            self.open
                .retain(|path| path.who != ChangedBy::CurrentDirectory);
        }
        if self.package.is_none() && other.package.is_some() {
            self.package = other.package;
            self.version = other.version;
            self.version_from = other.version_from;
            self.evidence = other.evidence;
        }
    }

    /// [`Family::is_shim`] of one of its files.
    pub fn is_shim(&self, stem: &str) -> bool {
        catalog()
            .family(&self.family)
            .is_some_and(|family| family.is_shim(stem, self.soname))
    }

    /// True if the shim of another installation works over this one, which must be complete, of one version and
    /// undamaged, except for its own shim.
    pub fn works_under_shim_of(&self, other: &Installation) -> bool {
        let is_whole = self.problems.iter().all(|problem| match problem {
            Problem::Missing { stems } => stems.iter().all(|stem| self.is_shim(stem)),
            Problem::OtherVersionAmongTheRest { file, .. } | Problem::Truncated { file } => {
                names::split(file).is_some_and(|(stem, _)| self.is_shim(stem))
            }
            _ => true,
        });
        is_whole
            && self.soname == other.soname
            && catalog().family(&self.family).is_some_and(|family| {
                family.shim_works_over(self.soname, other.shim.or(other.version), self.version)
            })
    }

    pub fn member(&self, stem: &str) -> Option<&Member> {
        self.files.iter().find(|member| member.stem == stem)
    }

    /// True if it has files, or links to them, in this directory.
    pub fn is_in(&self, directory: &Path) -> bool {
        self.directories().any(|own| own == directory)
    }

    pub fn is_driver(&self) -> bool {
        self.family == "driver"
    }

    /// True if it has every file of the other one. Links to only some of the files are an incomplete installation of
    /// their own.
    pub(super) fn has_files_of(&self, other: &Installation) -> bool {
        self.family == other.family
            && self.soname == other.soname
            && other.files.iter().all(|member| self.has_file(member.id))
            && self.is_incomplete() == other.is_incomplete()
    }

    pub fn has_file(&self, id: FileId) -> bool {
        self.files.iter().any(|member| member.id == id)
    }

    /// The directories of its files and of links to them.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.directory.as_path()).chain(self.also.iter().map(PathBuf::as_path))
    }

    /// True if a view can have one of its files under this name.
    pub fn offers(&self, name: &str) -> bool {
        self.files
            .iter()
            .any(|member| member.soname == name || member.view_names(self.version).contains(name))
    }

    /// Returns the code for each GPU: the worst among the required files that have code, since it needs all of them; none
    /// if one of them has no code for the GPU.
    pub(super) fn code_for(
        &self,
        gpus: impl Iterator<Item = ComputeCapability>,
        required: &[&str],
    ) -> BTreeMap<ComputeCapability, Code> {
        let mut needed: Vec<BTreeSet<Architecture>> = Vec::new();
        for member in &self.files {
            if !member.code.is_empty() && required.contains(&member.stem.as_str()) {
                needed.push(member.made_for());
            }
        }
        let mut serves = BTreeMap::new();
        for gpu in gpus {
            let codes = needed
                .iter()
                .map(|architectures| Code::best(architectures, gpu));
            // `None` is less than any code.
            if let Some(worst) = codes.min().flatten() {
                serves.insert(gpu, worst);
            }
        }
        serves
    }
}

impl Member {
    /// The architectures of its GPU code.
    pub fn made_for(&self) -> BTreeSet<Architecture> {
        self.code
            .values()
            .flat_map(BTreeMap::keys)
            .copied()
            .collect()
    }

    /// Returns every name that a program may open it by: without a version, the SONAME, each prefix of its own version,
    /// and those of its names in the directory that are not wrong. cuDNN opens the longest first, and would find it in
    /// another directory if a view had only the SONAME.
    pub fn view_names(&self, version: Option<Version>) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for name in &self.names {
            if self.is_true_name(name, version) {
                names.insert(name.clone());
            }
        }
        names.insert(self.soname.clone());
        let bare = format!("{}.so", self.stem);
        if let Some(version) = version
            && self.soname.starts_with(&bare)
            && self.soname_number() == Some(version.major())
        {
            for count in 1..=version.numbers().len() {
                names.insert(format!("{bare}.{}", version.truncated(count)));
            }
        }
        names.insert(bare);
        names
    }

    /// False for a wrong name, such as a link `libcudnn.so.8` to a libcudnn.so.9.
    fn is_true_name(&self, name: &str, version: Option<Version>) -> bool {
        let Some((stem, suffix)) = names::split(name) else {
            return false;
        };
        if stem != self.stem && names::without_hash(stem) != Some(self.stem.as_str()) {
            return false;
        }
        let number = self.soname_number();
        if suffix.is_empty() || number.is_none() || first_number(suffix) == number {
            return true;
        }
        let named = suffix.parse::<Version>().ok();
        named
            .zip(version)
            .is_some_and(|(named, version)| named.agrees_with(&version))
    }

    fn soname_number(&self) -> Option<u32> {
        soname_number(&self.soname)
    }
}

impl Origin {
    /// Each origin with its word, in order.
    const WORDS: [(Origin, &str); 12] = [
        (Origin::Wheel, "wheel"),
        (Origin::Fetched, "fetched"),
        (Origin::Bundled, "bundled"),
        (Origin::Conda, "conda"),
        (Origin::Compat, "compat"),
        (Origin::Stub, "stub"),
        (Origin::Driver, "driver"),
        (Origin::Toolkit, "toolkit"),
        (Origin::Module, "module"),
        (Origin::Store, "store"),
        (Origin::Debian, "debian"),
        (Origin::Loose, "loose"),
    ];

    pub fn all() -> impl Iterator<Item = Origin> {
        Self::WORDS.into_iter().map(|(origin, _)| origin)
    }

    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].1
    }
}
