//! The inventory of a machine: the kernel's driver, the GPUs, and every installation of every library family, read
//! from files alone. States facts with their evidence; must not prefer one installation over another.

use std::collections::BTreeSet;

use crate::catalog::catalog;
use crate::host::Host;

mod conda;
mod debian;
mod directory_scan;
mod driver;
mod evidence;
mod extensions;
mod file_group;
mod gpu;
mod grouping;
mod installation;
pub mod kept_facts;
mod library_path;
mod location;
mod machine;
mod modules;
mod named_directories;
mod owners;
mod parts;
mod places;
mod problems;
mod python;
mod records;
mod scan_cache;
mod system;
mod toolkit;
mod toolkit_model;
mod toolkits;
mod versions;
mod visibility;
mod warning;
mod wheel;

pub use debian::is_wanted as is_wanted_package;
pub use evidence::{LibraryFile as LibraryFacts, RUNTIMES, facts};
pub use extensions::{is_built_against, is_linked_against_framework};
pub use gpu::{devices_of_programs as gpu_devices, is_device as is_gpu_device, is_excluded};
pub use installation::{
    Code, Extension, ForwardCompatibility, GpuCode, Installation, Member, Origin, Problem,
    RpathDirectory, SearchStage, VersionEvidence, VersionSource,
};
pub use machine::{
    ExtensionScope, Gpu, Inventory, KernelDriver, LibraryPathElement, Preload, Scope, SearchPath,
    Visible,
};
pub use modules::named as named_by_module;
pub use owners::{ChangedBy, WritablePath};
pub use records::is_library;
pub use scan_cache::ScanCache;
pub use system::machine;
pub use toolkit_model::{PartFile, PartKind, Toolkit, ToolkitProblem};
pub use warning::{ReadFault, Warning};
pub use wheel::{ABOUT as FETCHED, distribution, distributions};

use location::{ScanContext, SearchLocation, Source};

/// The sources that are code; the others are rows of `profiles/places.toml`. The order has no effect: `Origin` decides
/// which origin counts if two sources name one directory.
const SOURCES: &[Source] = &[
    Source {
        name: "modules",
        elsewhere: false,
        find: modules::loaded,
    },
    Source {
        name: "modules",
        elsewhere: true,
        find: modules::available,
    },
    Source {
        name: "wheel",
        elsewhere: false,
        find: wheel::locations,
    },
    Source {
        name: "fetched",
        elsewhere: false,
        find: wheel::fetched,
    },
    Source {
        name: "python",
        elsewhere: true,
        find: python::elsewhere,
    },
    Source {
        name: "system",
        elsewhere: false,
        find: system::locations,
    },
    Source {
        name: "debian",
        elsewhere: false,
        find: debian::locations,
    },
    Source {
        name: "library-path",
        elsewhere: false,
        find: library_path::locations,
    },
    Source {
        name: "extra",
        elsewhere: false,
        find: named_directories::locations,
    },
    Source {
        name: "own",
        elsewhere: false,
        find: library_path::own_directories,
    },
];

/// The names of the sources, for `--without`.
pub fn source_names() -> impl Iterator<Item = &'static str> {
    let rows = catalog().places.place.iter().map(|row| row.source.as_str());
    let names = rows.chain(SOURCES.iter().map(|source| source.name));
    names.collect::<BTreeSet<_>>().into_iter()
}

/// Scans the machine. Executes and loads nothing.
pub fn scan(host: &Host, scope: &Scope, cache: &mut ScanCache) -> Inventory {
    cache.begin(host.started);
    let mut scan = ScanContext {
        host,
        scope,
        cache,
        warnings: Vec::new(),
        watched: BTreeSet::new(),
    };
    let driver = driver::kernel(&mut scan);
    let mut gpus = gpu::list(&mut scan);
    let devices = gpu::devices(&mut scan);
    scan.watched
        .extend(gpus.iter().filter_map(visibility::node));
    visibility::mark(&mut gpus, &devices, &host.env);
    let mut locations = locations(&mut scan);
    let mut toolkits = None;
    let mut libcuda = None;
    if scope.toolkits {
        toolkits = Some(toolkits::find(&mut scan, &locations));
        libcuda = toolkits::libcuda(&mut scan, &locations);
    }
    if scope.only_toolkits {
        locations.clear();
    }
    let found = grouping::find(&mut scan, locations);
    // Two sources may warn of one file.
    scan.warnings.sort_by(|a, b| a.path.cmp(&b.path));
    scan.warnings.dedup();
    let search = library_path::search(host, scope);
    scan.watched.extend(found.directories.keys().cloned());
    let extensions = extensions::find(&mut scan);
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
        imported: BTreeSet::new(),
        warnings: scan.warnings,
        directories: found.directories,
        watched: scan.watched,
    };
    problems::add(&mut inventory);
    inventory
}

/// The directories that the sources name which the scope asks for.
fn locations(scan: &mut ScanContext<'_>) -> Vec<SearchLocation> {
    let mut locations = Vec::new();
    for row in &catalog().places.place {
        if scan.scope.asks(&row.source, row.elsewhere) {
            locations.extend(places::find(scan, row));
        }
    }
    for source in SOURCES {
        if scan.scope.asks(source.name, source.elsewhere) {
            locations.extend((source.find)(scan));
        }
    }
    locations
}

/// True if the kernel's driver and a GPU are present. Needs no scan.
pub fn sees_gpu(host: &Host) -> bool {
    driver::is_there(host) && !gpu::nodes(host).is_empty()
}
