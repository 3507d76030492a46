//! The inventory of a machine: the kernel's driver, the GPUs, and every installation of every library family, read
//! from files alone. States facts with their evidence; must not prefer one installation over another.

use std::collections::BTreeSet;

use crate::host::Host;
use crate::version::Version;

mod claims;
mod compat;
mod conda;
mod debian;
mod directory_scan;
mod driver;
mod evidence;
mod extensions;
mod extra;
mod fetched;
mod gpu;
mod hpc_sdk;
mod installations;
mod library_path;
mod location;
mod machine;
mod model;
mod modules;
mod nix;
mod owners;
mod parts;
mod problems;
mod python;
mod records;
mod scan_cache;
mod spack;
mod system;
mod toolkit;
mod toolkit_model;
mod toolkits;
mod versions;
mod visible;
mod warning;
mod wheel;

pub use debian::is_wanted as is_wanted_package;
pub use evidence::{File as LibraryFacts, RUNTIMES, facts, hexadecimal};
pub use extensions::is_built_against;
pub use fetched::ABOUT as FETCHED;
pub use gpu::gpus;
pub use machine::{Element, Gpu, Inventory, KernelDriver, Preload, Scope, SearchPath, Visible};
pub use model::{
    Code, Extension, Finder, ForwardCompatibility, GpuCode, Installation, Member, Origin, Problem,
    RpathDirectory, VersionEvidence, VersionSource,
};
pub use modules::{MODULE_DIRECTORIES, named as named_by_module};
pub use owners::{ChangedBy, WritablePath};
pub use records::is_library;
pub use scan_cache::ScanCache;
pub use system::machine;
pub use toolkit_model::{Part, Toolkit, ToolkitPart, ToolkitProblem};
pub use warning::{ReadFault, Warning};
pub use wheel::distribution;

use location::{Reach, ScanContext, Source};

/// A new source is a file and a row here. Rows of one name are one source to the user, and are neighbours. The order
/// has no effect: `Origin` decides which origin counts if two sources name one directory.
const SOURCES: &[Source] = &[
    Source {
        name: "driver",
        reach: Reach::Here,
        find: driver::places,
    },
    Source {
        name: "compat",
        reach: Reach::Here,
        find: compat::places,
    },
    Source {
        name: "toolkit",
        reach: Reach::Here,
        find: toolkit::places,
    },
    Source {
        name: "hpc-sdk",
        reach: Reach::Here,
        find: hpc_sdk::places,
    },
    Source {
        name: "modules",
        reach: Reach::Here,
        find: modules::loaded,
    },
    Source {
        name: "modules",
        reach: Reach::Elsewhere,
        find: modules::available,
    },
    Source {
        name: "wheel",
        reach: Reach::Here,
        find: wheel::places,
    },
    Source {
        name: "fetched",
        reach: Reach::Here,
        find: fetched::places,
    },
    Source {
        name: "python",
        reach: Reach::Here,
        find: python::active,
    },
    Source {
        name: "python",
        reach: Reach::Elsewhere,
        find: python::elsewhere,
    },
    Source {
        name: "conda",
        reach: Reach::Here,
        find: conda::active,
    },
    Source {
        name: "conda",
        reach: Reach::Elsewhere,
        find: conda::elsewhere,
    },
    Source {
        name: "spack",
        reach: Reach::Elsewhere,
        find: spack::places,
    },
    Source {
        name: "nix",
        reach: Reach::Elsewhere,
        find: nix::places,
    },
    Source {
        name: "system",
        reach: Reach::Here,
        find: system::places,
    },
    Source {
        name: "debian",
        reach: Reach::Here,
        find: debian::places,
    },
    Source {
        name: "library-path",
        reach: Reach::Here,
        find: library_path::places,
    },
    Source {
        name: "extra",
        reach: Reach::Here,
        find: extra::places,
    },
    Source {
        name: "own",
        reach: Reach::Here,
        find: library_path::own_directories,
    },
];

/// The names of the sources, for `--without`.
pub fn source_names() -> impl Iterator<Item = &'static str> {
    let is_first = |index: usize| index == 0 || SOURCES[index - 1].name != SOURCES[index].name;
    (0..SOURCES.len())
        .filter(move |index| is_first(*index))
        .map(|index| SOURCES[index].name)
}

/// Scans the machine. Executes and loads nothing.
pub fn scan(host: &Host, scope: &Scope, known: &mut ScanCache) -> Inventory {
    known.begin(host.started);
    let mut look = ScanContext {
        host,
        scope,
        known,
        warnings: Vec::new(),
        watched: BTreeSet::new(),
    };
    let driver = driver::kernel(&mut look);
    let mut gpus = gpu::list(&mut look);
    let devices = gpu::devices(&mut look);
    look.watched.extend(gpus.iter().filter_map(visible::node));
    visible::mark(&mut gpus, &devices, &host.env);
    let is_asked = |source: &&Source| {
        let is_off = scope.without.iter().any(|name| name == source.name);
        !is_off && (scope.elsewhere || source.reach == Reach::Here)
    };
    let mut places = Vec::new();
    for source in SOURCES.iter().filter(is_asked) {
        places.extend((source.find)(&mut look));
    }
    let toolkits = scope.toolkits.then(|| toolkits::find(&mut look, &places));
    let libcuda = scope
        .toolkits
        .then(|| toolkits::libcuda(&mut look, &places))
        .flatten();
    let places = if scope.only_toolkits {
        Vec::new()
    } else {
        places
    };
    let found = installations::find(&mut look, places);
    // Two sources may warn of one file.
    look.warnings.sort_by(|a, b| a.path.cmp(&b.path));
    look.warnings.dedup();
    let search = library_path::search(host, scope);
    look.watched.extend(found.directories.keys().cloned());
    let extensions = scope.extensions.then(|| extensions::find(&mut look));
    let mut inventory = Inventory {
        driver,
        gpus,
        devices,
        glibc: system::glibc(host, scope.machine),
        has_cuda_apt: system::has_cuda_apt(host),
        gpus_hidden: host.env.hides_gpus(),
        installations: found.installations,
        toolkits,
        libcuda,
        search,
        extensions,
        warnings: look.warnings,
        directories: found.directories,
        watched: look.watched,
    };
    problems::add(&mut inventory);
    inventory
}

/// The version of the kernel's driver. Needs no scan.
pub fn kernel_driver(host: &Host) -> Option<Version> {
    driver::version(host).map(|(version, _)| version)
}

/// True if the kernel's driver and a GPU are present. Needs no scan.
pub fn sees_gpu(host: &Host) -> bool {
    driver::is_there(host) && !gpu::nodes(host).is_empty()
}
