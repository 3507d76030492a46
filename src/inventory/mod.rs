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
pub use extensions::is_built_against;
pub use gpu::is_excluded;
pub use installation::{
    Code, Extension, ForwardCompatibility, GpuCode, Installation, Member, Origin, Problem,
    RpathDirectory, SearchStage, VersionEvidence, VersionSource,
};
pub use machine::{
    Gpu, Inventory, KernelDriver, LibraryPathElement, Preload, Scope, SearchPath, Visible,
};
pub use modules::named as named_by_module;
pub use owners::{ChangedBy, WritablePath};
pub use records::is_library;
pub use scan_cache::ScanCache;
pub use system::machine;
pub use toolkit_model::{PartFile, PartKind, Toolkit, ToolkitProblem};
pub use warning::{ReadFault, Warning};
pub use wheel::{ABOUT as FETCHED, distribution, distributions};

use location::{ScanContext, Source};

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
        find: wheel::places,
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
        find: system::places,
    },
    Source {
        name: "debian",
        elsewhere: false,
        find: debian::places,
    },
    Source {
        name: "library-path",
        elsewhere: false,
        find: library_path::places,
    },
    Source {
        name: "extra",
        elsewhere: false,
        find: named_directories::places,
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
    look.watched
        .extend(gpus.iter().filter_map(visibility::node));
    visibility::mark(&mut gpus, &devices, &host.env);
    let is_asked = |name: &str, elsewhere: bool| {
        let is_off = scope.without.iter().any(|without| without == name);
        !is_off && (scope.elsewhere || !elsewhere)
    };
    let mut places = Vec::new();
    for row in &catalog().places.place {
        if is_asked(&row.source, row.elsewhere) {
            places.extend(places::find(&mut look, row));
        }
    }
    for source in SOURCES {
        if is_asked(source.name, source.elsewhere) {
            places.extend((source.find)(&mut look));
        }
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
    let found = grouping::find(&mut look, places);
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

/// True if the kernel's driver and a GPU are present. Needs no scan.
pub fn sees_gpu(host: &Host) -> bool {
    driver::is_there(host) && !gpu::nodes(host).is_empty()
}
