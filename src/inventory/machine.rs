//! An inventory as a whole: its scope, the driver and the GPUs of the machine, and where the loader looks.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::model::Installation;
use super::warning::{ReadFault, Warning};
use crate::host::FileId;
use crate::text;
use crate::version::{ComputeCapability, CudaVersion, DriverVersion, Version};

/// Where to look besides the places that every machine has, and what for.
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
    /// Whether the names of exported symbols are wanted, for people to read.
    pub symbol_names: bool,
    /// Whether the architectures of GPU code are wanted: a list shows them, the solver compares them with the GPUs.
    pub code: bool,
    /// Whether to look into environments too that are not the target's: other people's and other projects'.
    pub elsewhere: bool,
    /// Directories to look into besides: of libraries, toolkits, environments.
    pub also: Vec<PathBuf>,
    /// True if RPM is asked which package each file belongs to.
    pub owners: bool,
    /// The sources that are not asked.
    pub without: Vec<String>,
}

impl Scope {
    pub(super) fn reads_symbols(&self) -> bool {
        self.symbols || self.symbol_names
    }
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Visible {
    Yes,
    No,
    /// CUDA counts the fastest first, and which that is, only CUDA knows.
    Perhaps,
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
