//! What is installed: the kernel's driver, the GPUs, and every copy of every library family, each known
//! from its files alone. States facts with their evidence; must not prefer one copy over another.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::catalog::first_number;
use crate::formats::fatbin::Architecture;
use crate::formats::names;
use crate::host::{FileId, Host};
use crate::symbols::{Exports, Symbol};
use crate::text;
use crate::version::{ComputeCapability, CudaVersion, DriverVersion, Version};

mod copies;
mod driver;
mod evidence;
mod gpu;
mod library_path;
mod system;
mod toolkit;
mod wheel;

/// Where to look besides the places that every machine has.
#[derive(Debug, Default)]
pub struct Scope {
    /// The site-packages directories of the target.
    pub site_packages: Vec<PathBuf>,
    /// Directories that the target's own search paths name.
    pub own_directories: Vec<PathBuf>,
    /// The ELF machine of the target.
    pub machine: u16,
    /// What really runs: its directory is `$ORIGIN` in `LD_LIBRARY_PATH`.
    pub executable: Option<PathBuf>,
    /// Directories whose children are views of our own: never looked into.
    pub views: Vec<PathBuf>,
    /// Whether exported symbols are wanted: the solver compares them, a list does not.
    pub symbols: bool,
    /// Whether the architectures of GPU code are wanted: a list shows them, the solver does not ask yet.
    pub code: bool,
}

/// A source of copies: it names directories, and what is in them is read alike for all.
type Source = fn(&Host, &Scope, &mut Notes) -> Vec<Place>;

/// A new source is a file and a row here. The order decides which origin a directory has that two name,
/// and the order of output; nothing else.
const SOURCES: &[Source] = &[
    wheel::places,
    toolkit::places,
    driver::places,
    system::places,
    library_path::places,
    library_path::own_directories,
];

/// A directory that may hold copies.
struct Place {
    directory: PathBuf,
    origin: Origin,
    /// What package records say of its files, by file name.
    packaged: BTreeMap<String, Packaged>,
}

impl Place {
    fn new(directory: impl Into<PathBuf>, origin: Origin) -> Place {
        Place { directory: directory.into(), origin, packaged: BTreeMap::new() }
    }
}

/// What a package's record says of one file.
#[derive(Clone, Debug)]
struct Packaged {
    package: String,
    version: Option<Version>,
    size: Option<u64>,
}

/// What sources leave behind besides places.
#[derive(Default)]
struct Notes {
    warnings: Vec<Warning>,
    watched: BTreeSet<PathBuf>,
}

#[derive(Debug, Serialize)]
pub struct Inventory {
    pub driver: Option<KernelDriver>,
    pub gpus: Vec<Gpu>,
    /// The device nodes through which a process reaches a GPU.
    #[serde(serialize_with = "text::paths")]
    pub devices: Vec<PathBuf>,
    /// The newest `GLIBC_` symbol version that this machine's C library has.
    pub glibc: Option<Version>,
    /// Whether the package manager knows NVIDIA's repository.
    #[serde(skip)]
    pub has_cuda_apt: bool,
    /// Whether the environment hides every GPU from the program, on purpose.
    #[serde(skip)]
    pub gpus_hidden: bool,
    pub copies: Vec<Copy>,
    pub search: SearchPath,
    pub warnings: Vec<Warning>,
    /// The NVIDIA files of every directory that was looked into, by the name each stands under.
    #[serde(skip)]
    pub directories: BTreeMap<PathBuf, BTreeMap<String, FileId>>,
    /// What this inventory was read from: when none of it has changed, neither has the inventory.
    #[serde(skip)]
    pub watched: BTreeSet<PathBuf>,
}

/// The driver that the kernel runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelDriver {
    pub version: DriverVersion,
    /// The CUDA version that this driver branch brings.
    pub cuda: Option<CudaVersion>,
    #[serde(serialize_with = "text::path")]
    pub from: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gpu {
    pub bus: String,
    pub model: String,
    pub chip: Option<&'static str>,
    pub capability: Option<ComputeCapability>,
}

/// One family as it stands in one place.
#[derive(Clone, Debug, Serialize)]
pub struct Copy {
    pub family: String,
    /// The number in its SONAMEs; none where the family has one copy whatever the number.
    pub soname: Option<u32>,
    pub version: Option<Version>,
    pub version_from: Option<VersionSource>,
    pub cuda: Option<u32>,
    pub origin: Origin,
    #[serde(serialize_with = "text::path")]
    pub directory: PathBuf,
    /// Other directories that hold links to the same files.
    #[serde(serialize_with = "text::paths")]
    pub also: Vec<PathBuf>,
    pub package: Option<String>,
    pub files: Vec<Member>,
    /// For a libcuda: on which kernel drivers it may stand in for a newer one.
    pub forward_compatibility: Option<ForwardCompatibility>,
    pub problems: Vec<Problem>,
}

/// By section, the number of entries for each architecture.
pub type GpuCode = BTreeMap<String, BTreeMap<Architecture, u32>>;

/// One file of a copy.
#[derive(Clone, Debug, Serialize)]
pub struct Member {
    pub stem: String,
    pub soname: String,
    /// The names it has in its directory.
    pub names: Vec<String>,
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    pub size: u64,
    #[serde(skip)]
    pub id: FileId,
    #[serde(skip)]
    pub modified: (i64, i64),
    pub needed: Vec<String>,
    #[serde(skip)]
    pub imports: Vec<Symbol>,
    #[serde(skip)]
    pub exports: Exports,
    /// How many entries of GPU code each section holds for each architecture; empty where nobody asked.
    pub code: GpuCode,
    pub glibc: Option<Version>,
    /// The directories of its DT_RPATH, in order.
    #[serde(skip)]
    pub rpath: Vec<Searched>,
    /// Whether it has a DT_RUNPATH, which shields it from every DT_RPATH.
    #[serde(skip)]
    pub has_runpath: bool,
}

/// A directory that a library's own search path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    pub directory: PathBuf,
    /// It was written with `$ORIGIN`, and is another one when the library is opened through a view.
    pub from_origin: bool,
}

/// How a copy came to where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    Wheel,
    /// Packed into a package for its own use, perhaps renamed by auditwheel.
    Bundled,
    Toolkit,
    Debian,
    Driver,
    Compat,
    Stub,
    Loose,
}

/// Where a version was read, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionSource {
    /// A constant or a text in the library itself.
    Contents,
    PackageRecord,
    FileName,
}

/// What `.note.cuda.fwd_compatibility` of a libcuda says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ForwardCompatibility {
    pub cuda: Option<CudaVersion>,
    pub kernel_branches: Vec<u32>,
}

/// What is wrong with a copy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "problem", rename_all = "kebab-case")]
pub enum Problem {
    Missing {
        stems: Vec<String>,
    },
    OtherVersionAmongTheRest {
        file: String,
        version: Version,
    },
    PackageSaysOtherwise {
        package: String,
        version: Version,
    },
    SizeIsNotRecorded {
        file: String,
        recorded: u64,
    },
    Truncated {
        file: String,
    },
    WorldWritable {
        #[serde(serialize_with = "text::path")]
        path: PathBuf,
    },
}

/// What was passed over, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    pub why: String,
}

/// Where the loader looks in the environment as it is, NVIDIA's names only.
#[derive(Debug, Default, Serialize)]
pub struct SearchPath {
    pub library_path: Vec<Element>,
    pub preload: Vec<Preload>,
    #[serde(skip)]
    pub cache: BTreeMap<String, FileId>,
    #[serde(serialize_with = "text::paths")]
    pub defaults: Vec<PathBuf>,
}

/// An element of `LD_LIBRARY_PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Element {
    #[serde(serialize_with = "text::path")]
    pub text: OsString,
    /// The directory it leads to, links resolved; none when there is none.
    #[serde(serialize_with = "text::optional_path")]
    pub directory: Option<PathBuf>,
    /// Whether it holds shared libraries that are not NVIDIA's.
    pub others: bool,
}

/// An element of `LD_PRELOAD`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Preload {
    #[serde(serialize_with = "text::path")]
    pub text: OsString,
    /// The NVIDIA file it leads to, if it leads to one.
    #[serde(skip)]
    pub file: Option<FileId>,
    pub family: Option<String>,
}

/// Looks everywhere, executes and loads nothing.
pub fn scan(host: &Host, scope: &Scope) -> Inventory {
    let mut notes = Notes::default();
    let driver = driver::kernel(host, &mut notes);
    let gpus = gpu::list(host, &mut notes);
    let devices = gpu::devices(host, &mut notes);
    let mut survey = copies::Survey::new(host, scope);
    for source in SOURCES {
        for place in source(host, scope, &mut notes) {
            survey.look_into(&place);
        }
    }
    survey.follow_search_paths();
    let search = library_path::search(host, scope, &mut survey, &mut notes);
    let found = survey.finish();
    notes.warnings.extend(found.warnings);
    notes.watched.extend(found.directories.keys().cloned());
    Inventory {
        driver,
        gpus,
        devices,
        glibc: system::glibc(host, scope.machine),
        has_cuda_apt: system::has_cuda_apt(host),
        gpus_hidden: host.env.hides_gpus(),
        copies: found.copies,
        search,
        warnings: notes.warnings,
        directories: found.directories,
        watched: notes.watched,
    }
}

impl Inventory {
    /// Whether a process here can reach a GPU. A container without one may still see the kernel's driver.
    pub fn has_gpu(&self) -> bool {
        self.driver.is_some() && !self.devices.is_empty()
    }

    /// The file that this directory has under this name.
    pub fn file_in(&self, directory: &Path, name: &str) -> Option<FileId> {
        self.directories.get(directory)?.get(name).copied()
    }

    /// The file that the loader takes for a name that no search path has answered.
    pub fn file_by_default(&self, name: &str) -> Option<FileId> {
        let default = || self.search.defaults.iter().find_map(|directory| self.file_in(directory, name));
        self.search.cache.get(name).copied().or_else(default)
    }
}

impl Copy {
    /// `cuDNN 9.1.0`, as a message names it.
    pub fn title(&self) -> String {
        match self.version {
            Some(version) => format!("{} {version}", self.family),
            None => self.family.clone(),
        }
    }

    pub fn member(&self, stem: &str) -> Option<&Member> {
        self.files.iter().find(|member| member.stem == stem)
    }

    pub fn has_file(&self, id: FileId) -> bool {
        self.files.iter().any(|member| member.id == id)
    }

    /// Every directory that it can be reached through.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.directory.as_path()).chain(self.also.iter().map(PathBuf::as_path))
    }

    /// Whether one of its files can stand in a view under this name.
    pub fn offers(&self, name: &str) -> bool {
        self.files.iter().any(|member| member.view_names(self.version).iter().any(|offered| offered == name))
    }
}

impl Member {
    /// Every name that somebody may ask for it by: without a version, the SONAME, each prefix of its own
    /// version, and those of its directory that do not say what it is not. cuDNN asks for the longest first,
    /// and a view that has only the SONAME loses to any directory that has the longer one.
    pub fn view_names(&self, version: Option<Version>) -> BTreeSet<String> {
        let is_true = |name: &&String| self.is_true_name(name, version);
        let mut names: BTreeSet<String> = self.names.iter().filter(is_true).cloned().collect();
        names.insert(self.soname.clone());
        let bare = format!("{}.so", self.stem);
        let is_version = |version: &Version| self.soname_number() == Some(version.major());
        if let Some(version) = version.filter(|version| self.soname.starts_with(&bare) && is_version(version))
        {
            for count in 1..=version.numbers().len() {
                names.insert(format!("{bare}.{}", version.truncated(count)));
            }
        }
        names.insert(bare);
        names
    }

    /// A link `libcudnn.so.8` to a libcudnn.so.9 is found under a name that is not its own.
    fn is_true_name(&self, name: &str, version: Option<Version>) -> bool {
        let Some((stem, suffix)) = names::split(name) else { return false };
        let is_own_stem = stem == self.stem || names::without_hash(stem) == Some(self.stem.as_str());
        let number = self.soname_number();
        let agrees = || {
            let said = suffix.parse::<Version>().ok();
            said.zip(version).is_some_and(|(said, version)| said.agrees_with(&version))
        };
        is_own_stem && (suffix.is_empty() || number.is_none() || first_number(suffix) == number || agrees())
    }

    /// The number in its SONAME.
    fn soname_number(&self) -> Option<u32> {
        names::split(&self.soname).and_then(|(_, suffix)| first_number(suffix))
    }
}

impl Origin {
    pub fn word(self) -> &'static str {
        match self {
            Origin::Wheel => "wheel",
            Origin::Bundled => "bundled",
            Origin::Toolkit => "toolkit",
            Origin::Debian => "debian",
            Origin::Driver => "driver",
            Origin::Compat => "compat",
            Origin::Stub => "stub",
            Origin::Loose => "loose",
        }
    }
}
