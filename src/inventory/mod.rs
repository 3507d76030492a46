//! What is installed: the kernel's driver, the GPUs, and every installation of every library family, each known
//! from its files alone. States facts with their evidence; must not prefer one installation over another.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::host::{FileId, Host};
use crate::text;
use crate::version::{ComputeCapability, CudaVersion, DriverVersion, Version};

mod compat;
mod conda;
mod debian;
mod directory_scan;
mod driver;
mod evidence;
mod extra;
mod gpu;
mod hpc_sdk;
mod installations;
mod library_path;
mod location;
mod model;
mod modules;
mod nix;
mod owners;
mod packages;
mod parts;
mod problems;
mod python;
mod real;
mod records;
mod rpm;
mod scan_cache;
mod spack;
mod system;
mod toolkit;
mod versions;
mod visible;
mod warning;
mod wheel;

pub use evidence::{File as Facts, RUNTIMES, facts};
pub use model::{
    Code, Finder, ForwardCompatibility, GpuCode, Installation, Member, Origin, Problem, Searched,
    VersionEvidence, VersionSource,
};
pub use modules::named as named_by_module;
pub use owners::{Open, Who};
pub use packages::is_wanted as is_wanted_package;
pub use records::is_library;
pub use scan_cache::ScanCache;
pub use visible::Visible;
pub use warning::{ReadFault, Warning};

use location::{Reach, ScanContext, Source};

/// Where to look besides the places that every machine has, and what for.
#[derive(Debug, Default)]
pub struct Scope {
    /// The site-packages directories of the program.
    pub site_packages: Vec<PathBuf>,
    /// Directories that the program's own search paths name.
    pub own_directories: Vec<PathBuf>,
    /// The ELF machine of the program.
    pub machine: u16,
    /// What really runs: its directory is `$ORIGIN` in `LD_LIBRARY_PATH`.
    pub executable: Option<PathBuf>,
    /// Directories whose children are views of our own: never looked into.
    pub views: Vec<PathBuf>,
    /// Whether exported symbols are wanted: the solver compares them, a list does not.
    pub symbols: bool,
    /// Whether the names of exported symbols are wanted, for people to read.
    pub symbol_names: bool,
    /// Whether the architectures of GPU code are wanted: a list shows them, the solver compares them with the GPUs.
    pub code: bool,
    /// Whether to look into environments too that are not the program's: other people's and other projects'.
    pub elsewhere: bool,
    /// Directories to look into besides: of libraries, toolkits, environments.
    pub also: Vec<PathBuf>,
    /// The sources that are not asked.
    pub without: Vec<String>,
}

impl Scope {
    fn reads_symbols(&self) -> bool {
        self.symbols || self.symbol_names
    }
}

/// A new source is a file and a row here; what is one to a person has one name, whichever row finds it. The order
/// decides nothing: which origin counts where two sources name one directory is said by `Origin`.
const SOURCES: &[Source] = &[
    Source { name: "driver", reach: Reach::Here, find: driver::places },
    Source { name: "compat", reach: Reach::Here, find: compat::places },
    Source { name: "toolkit", reach: Reach::Here, find: toolkit::places },
    Source { name: "hpc-sdk", reach: Reach::Here, find: hpc_sdk::places },
    Source { name: "modules", reach: Reach::Here, find: modules::loaded },
    Source { name: "modules", reach: Reach::Elsewhere, find: modules::available },
    Source { name: "wheel", reach: Reach::Here, find: wheel::places },
    Source { name: "python", reach: Reach::Here, find: python::active },
    Source { name: "python", reach: Reach::Elsewhere, find: python::elsewhere },
    Source { name: "conda", reach: Reach::Here, find: conda::active },
    Source { name: "conda", reach: Reach::Elsewhere, find: conda::elsewhere },
    Source { name: "spack", reach: Reach::Elsewhere, find: spack::places },
    Source { name: "nix", reach: Reach::Elsewhere, find: nix::places },
    Source { name: "system", reach: Reach::Here, find: system::places },
    Source { name: "debian", reach: Reach::Here, find: debian::places },
    Source { name: "rpm", reach: Reach::Here, find: rpm::places },
    Source { name: "library-path", reach: Reach::Here, find: library_path::places },
    Source { name: "extra", reach: Reach::Here, find: extra::places },
    Source { name: "own", reach: Reach::Here, find: library_path::own_directories },
];

/// The names of the sources, as they are switched off; rows of one name stand together.
pub fn source_names() -> impl Iterator<Item = &'static str> {
    let is_first = |index: usize| index == 0 || SOURCES[index - 1].name != SOURCES[index].name;
    (0..SOURCES.len()).filter(move |index| is_first(*index)).map(|index| SOURCES[index].name)
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
    pub installations: Vec<Installation>,
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
    pub uuid: Option<String>,
    /// The number of its device node.
    #[serde(skip)]
    pub minor: Option<u32>,
    /// Whether the program will be given it.
    pub visible: Visible,
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
pub fn scan(host: &Host, scope: &Scope, known: &mut ScanCache) -> Inventory {
    known.begin(host.started);
    let mut look = ScanContext { host, scope, known, warnings: Vec::new(), watched: BTreeSet::new() };
    let driver = driver::kernel(&mut look);
    let mut gpus = gpu::list(&mut look);
    let devices = gpu::devices(&mut look);
    look.watched.extend(gpus.iter().filter_map(visible::node));
    visible::tell(&mut gpus, &devices, &host.env);
    let is_asked = |source: &&Source| {
        let is_off = scope.without.iter().any(|name| name == source.name);
        !is_off && (scope.elsewhere || source.reach == Reach::Here)
    };
    let mut places = Vec::new();
    for source in SOURCES.iter().filter(is_asked) {
        places.extend((source.find)(&mut look));
    }
    let found = installations::find(&mut look, places);
    // Two sources may have come upon the same.
    look.warnings.sort_by(|a, b| a.path.cmp(&b.path));
    look.warnings.dedup();
    let search = library_path::search(host, scope);
    look.watched.extend(found.directories.keys().cloned());
    let mut inventory = Inventory {
        driver,
        gpus,
        devices,
        glibc: system::glibc(host, scope.machine),
        has_cuda_apt: system::has_cuda_apt(host),
        gpus_hidden: host.env.hides_gpus(),
        installations: found.installations,
        search,
        warnings: look.warnings,
        directories: found.directories,
        watched: look.watched,
    };
    problems::tell(&mut inventory);
    inventory
}

/// Whether a GPU is in sight, before anything else is looked at.
pub fn sees_gpu(host: &Host) -> bool {
    driver::is_there(host) && !gpu::nodes(host).is_empty()
}

/// The kind of machine that this is, by its loader: an image of another one may be looked at.
pub fn machine(host: &Host) -> Option<u16> {
    system::machine(host)
}

impl Inventory {
    /// Whether a process here can reach a GPU. A container without one may still see the kernel's driver.
    pub fn has_gpu(&self) -> bool {
        self.driver.is_some() && !self.devices.is_empty()
    }

    /// The GPUs that the program will certainly be given.
    pub fn visible_gpus(&self) -> impl Iterator<Item = &Gpu> {
        let is_visible = |gpu: &&Gpu| gpu.visible == Visible::Yes;
        self.gpus.iter().filter(is_visible).filter(|_| self.has_gpu())
    }

    /// What they can do, as far as it is known: one for each GPU.
    pub fn capabilities(&self) -> impl Iterator<Item = ComputeCapability> {
        self.visible_gpus().filter_map(|gpu| gpu.capability)
    }

    /// The file that this directory has under this name.
    pub fn file_in(&self, directory: &Path, name: &str) -> Option<FileId> {
        self.directories.get(directory)?.get(name).copied()
    }

    /// The file that the loader takes for a name in the environment as it is; none where it ends with an error at one
    /// that is no library.
    pub fn file_given(&self, name: &str) -> Option<FileId> {
        for directory in self.search.library_path.iter().filter_map(|element| element.directory.as_deref()) {
            let path = directory.join(name);
            let ends_the_search = |warning: &Warning| {
                warning.path == path
                    && matches!(warning.fault, ReadFault::NotElf | ReadFault::Malformed { .. })
            };
            if self.warnings.iter().any(ends_the_search) {
                return None;
            }
            if let Some(id) = self.file_in(directory, name) {
                return Some(id);
            }
        }
        self.file_by_default(name)
    }

    /// The file that the loader takes for a name that no search path has answered.
    pub fn file_by_default(&self, name: &str) -> Option<FileId> {
        let default = || self.search.defaults.iter().find_map(|directory| self.file_in(directory, name));
        self.search.cache.get(name).copied().or_else(default)
    }
}
