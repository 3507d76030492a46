//! The inventory: its scope, the driver and the GPUs of the machine, and the loader's search path.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::installation::{Extension, Installation};
use super::toolkit_model::Toolkit;
use super::warning::{ReadFault, Warning};
use crate::catalog::architecture;
use crate::host::FileId;
use crate::text;
use crate::version::{ComputeCapability, CudaVersion, Version};

/// Directories to scan besides those of every machine, and the facts to read.
#[derive(Debug, Default)]
pub struct Scope {
    /// The site-packages directories of the program.
    pub site_packages: Vec<PathBuf>,
    /// Directories in the program's own search paths.
    pub own_directories: Vec<PathBuf>,
    /// The ELF machine of the program.
    pub machine: u16,
    /// The executable that runs: its directory is `$ORIGIN` in `LD_LIBRARY_PATH`. Its toolkit counts as named.
    pub executable: Option<PathBuf>,
    /// Directories whose children are our own views, which are not scanned.
    pub views: Vec<PathBuf>,
    /// True if imported and exported symbols are read: the solver compares them, a list does not.
    pub symbols: bool,
    /// True if the architectures of GPU code are read: a list shows them, the solver compares them with the GPUs.
    pub code: bool,
    /// The extension modules that are compared with the frameworks that they are built against.
    pub extensions: ExtensionScope,
    /// True if toolkits for builds are looked for.
    pub toolkits: bool,
    /// True if no libraries are looked for besides.
    pub only_toolkits: bool,
    /// True if environments of other users and other projects are scanned.
    pub elsewhere: bool,
    /// Directories that the user names: of libraries, toolkits, environments.
    pub also: Vec<PathBuf>,
    /// Directories with fetched wheels, one below each.
    pub stores: Vec<PathBuf>,
    /// The names of sources that are switched off.
    pub without: Vec<String>,
}

/// Extension modules that are compared with the frameworks that they are built against.
#[derive(Debug, Default)]
pub enum ExtensionScope {
    #[default]
    None,
    /// Those in the records of all distributions.
    All,
    /// These files, each with the normalised name of its distribution, or else with a name of its own.
    Only(BTreeMap<PathBuf, String>),
}

#[derive(Clone, Debug, Default)]
pub struct Inventory {
    pub driver: Option<KernelDriver>,
    pub gpus: Vec<Gpu>,
    /// The device nodes through which a process reaches a GPU.
    pub devices: Vec<PathBuf>,
    /// The newest `GLIBC_` symbol version that this machine's C library has.
    pub glibc: Option<Version>,
    /// True if the package manager knows NVIDIA's repository.
    pub has_cuda_apt: bool,
    /// True if the environment hides every GPU from the program.
    pub gpus_hidden: bool,
    pub installations: Vec<Installation>,
    /// The toolkits for builds, if the scope asks for them.
    pub toolkits: Option<Vec<Toolkit>>,
    /// The driver's own library, for linking.
    pub libcuda: Option<PathBuf>,
    pub search: SearchPath,
    /// The extension modules of the program's packages, if the scope asks for them.
    pub extensions: Option<Vec<Extension>>,
    /// Those of them that the program imports, by path.
    pub imported: BTreeSet<PathBuf>,
    pub warnings: Vec<Warning>,
    /// The NVIDIA files of every directory that was scanned, by name.
    pub directories: BTreeMap<PathBuf, BTreeMap<String, FileId>>,
    /// The paths that this inventory was read from. It holds until one of them changes.
    pub watched: BTreeSet<PathBuf>,
}

/// The driver that the kernel runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelDriver {
    pub version: Version,
    /// The CUDA version that this driver branch brings.
    pub cuda: Option<CudaVersion>,
    #[serde(serialize_with = "text::path")]
    pub from: PathBuf,
}

/// The release of Jetson's system. Where the kernel does not number its driver, it says which CUDA the driver runs.
pub(super) const TEGRA_RELEASE: &str = "/etc/nv_tegra_release";

impl KernelDriver {
    /// True if the kernel does not number it, and another driver for the same CUDA stands for it.
    pub fn is_stand_in(&self) -> bool {
        self.from == Path::new(TEGRA_RELEASE)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    pub bus: String,
    pub model: String,
    pub chip: Option<&'static str>,
    pub capability: Option<ComputeCapability>,
    pub uuid: Option<String>,
    /// The number of its device node.
    pub minor: Option<u32>,
    /// Tells if the program can use it.
    pub visible: Visible,
}

/// The loader's search path in the environment as it is, for NVIDIA's names only.
#[derive(Clone, Debug, Default)]
pub struct SearchPath {
    pub library_path: Vec<LibraryPathElement>,
    pub preload: Vec<Preload>,
    pub cache: BTreeMap<String, FileId>,
    pub defaults: Vec<PathBuf>,
}

/// An element of `LD_LIBRARY_PATH`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LibraryPathElement {
    #[serde(serialize_with = "text::path")]
    pub text: OsString,
    /// The directory it leads to, links resolved; none if it is missing.
    #[serde(serialize_with = "text::optional_path")]
    pub directory: Option<PathBuf>,
    /// True if it holds shared libraries that are not NVIDIA's.
    pub others: bool,
}

/// An element of `LD_PRELOAD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preload {
    pub text: OsString,
    /// The NVIDIA file it leads to, if it leads to one.
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

impl Scope {
    /// True if a source of this name is to be asked, which may be one of the environments of others.
    pub(super) fn asks(&self, source: &str, elsewhere: bool) -> bool {
        let is_off = self.without.iter().any(|name| name == source);
        !is_off && (self.elsewhere || !elsewhere)
    }
}

impl Inventory {
    /// True if a process here can reach a GPU. A container without one may still see the kernel's driver.
    pub fn has_gpu(&self) -> bool {
        self.driver.is_some() && !self.devices.is_empty()
    }

    /// True if a GPU is here and not hidden from the program.
    pub fn offers_gpu(&self) -> bool {
        self.has_gpu() && !self.gpus_hidden
    }

    /// True if no process here can reach a GPU, whatever the driver.
    pub fn is_without_gpu(&self) -> bool {
        self.devices.is_empty()
    }

    /// True for a Jetson up to JetPack 6, where libraries that are built for Arm servers do not work.
    pub fn is_l4t(&self) -> bool {
        let capabilities = self.gpus.iter().filter_map(|gpu| gpu.capability);
        capabilities.filter_map(architecture).any(|row| row.l4t)
    }

    /// The GPUs that the program can certainly use.
    pub fn visible_gpus(&self) -> impl Iterator<Item = &Gpu> {
        let has_gpu = self.has_gpu();
        self.gpus
            .iter()
            .filter(move |gpu| has_gpu && gpu.visible == Visible::Yes)
    }

    /// The known compute capabilities of these GPUs, one for each.
    pub fn capabilities(&self) -> impl Iterator<Item = ComputeCapability> {
        self.visible_gpus().filter_map(|gpu| gpu.capability)
    }

    /// True if `LD_LIBRARY_PATH` or `LD_PRELOAD` leads any program to an installation.
    pub fn is_led_to(&self) -> bool {
        self.search
            .preload
            .iter()
            .any(|preload| preload.family.is_some())
            || self
                .installations
                .iter()
                .any(|installation| self.is_on_path(installation))
    }

    /// True if `LD_LIBRARY_PATH` contains a directory of the installation.
    pub fn is_on_path(&self, installation: &Installation) -> bool {
        let mut elements = self
            .search
            .library_path
            .iter()
            .filter_map(|element| element.directory.as_deref());
        elements.any(|element| installation.is_in(element))
    }

    /// True if an extension module finds the symbols and libraries of its framework, and a copy of each of NVIDIA's libraries
    /// that the framework does not bring.
    pub fn fits_here(&self, extension: &Extension) -> bool {
        let is_here = |name: &String| {
            let mut installations = self.installations.iter();
            installations.any(|installation| installation.offers(name))
        };
        extension.lacks_symbols.is_empty() && extension.lacks_libraries.iter().all(is_here)
    }

    /// The extension modules that the program imports.
    pub fn imported_extensions(&self) -> impl Iterator<Item = &Extension> {
        let all = self.extensions.iter().flatten();
        all.filter(|extension| self.imported.contains(&extension.path))
    }

    /// An extension module of each imported package that does not fit. Of modules whose paths differ in digits alone, one that fits is
    /// enough: they are variants, for example for several releases of the framework. One that is named for another release is not
    /// opened beside this one.
    pub fn unfit_extensions(&self) -> impl Iterator<Item = &Extension> {
        let mut variants: BTreeMap<String, Vec<&Extension>> = BTreeMap::new();
        for extension in self.imported_extensions() {
            variants
                .entry(extension.path_without_digits())
                .or_default()
                .push(extension);
        }
        variants.retain(|_, group| !group.iter().any(|one| self.fits_here(one)));
        let mut unfit: BTreeMap<&str, &Extension> = BTreeMap::new();
        for extension in self.imported_extensions() {
            let Some(group) = variants.get(&extension.path_without_digits()) else {
                continue;
            };
            if group.len() == 1 || !extension.is_named_for_another_release() {
                unfit.entry(&extension.package).or_insert(extension);
            }
        }
        unfit.into_values()
    }

    /// The installation that has this file.
    pub fn installation_of(&self, id: FileId) -> Option<&Installation> {
        let mut installations = self.installations.iter();
        installations.find(|installation| installation.has_file(id))
    }

    /// The file of this name in a directory that was scanned.
    pub fn file_in(&self, directory: &Path, name: &str) -> Option<FileId> {
        self.directories.get(directory)?.get(name).copied()
    }

    /// Returns the file that the loader opens for a name, from these elements of `LD_LIBRARY_PATH`, its cache and its default
    /// directories; none if it stops with an error at a file that is no library.
    pub fn file_given<'e>(
        &self,
        name: &str,
        library_path: impl IntoIterator<Item = &'e LibraryPathElement>,
    ) -> Option<FileId> {
        let elements = library_path.into_iter();
        for directory in elements.filter_map(|element| element.directory.as_deref()) {
            let path = directory.join(name);
            let ends_search = self.warnings.iter().any(|warning| {
                warning.path == path
                    && matches!(
                        warning.fault,
                        ReadFault::NotElf | ReadFault::Malformed { .. }
                    )
            });
            if ends_search {
                return None;
            }
            if let Some(id) = self.file_in(directory, name) {
                return Some(id);
            }
        }
        if let Some(id) = self.search.cache.get(name) {
            return Some(*id);
        }
        let mut defaults = self.search.defaults.iter();
        defaults.find_map(|directory| self.file_in(directory, name))
    }
}
