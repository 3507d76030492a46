//! Scanning the machine, with the facts that earlier scans have kept.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::cli::Common;
use crate::error::Error;
use crate::formats::elf;
use crate::host::Host;
use crate::inventory::{self, ExtensionScope, Inventory, ScanCache, Scope, kept_facts};
use crate::pin::{self, view};
use crate::program::{self, Command, Program, StepKind};
use crate::settings::resolve::{Purpose, Settings};
use crate::settings::{Layers, SettingKey};
use crate::storage;
use crate::text::show;

/// The scope of a scan for a program.
pub(super) fn scope(
    settings: &Settings,
    common: &Common,
    program: &Program,
) -> Result<Scope, Error> {
    let host = &settings.host;
    let is_source =
        |how: StepKind| matches!(how, StepKind::Script | StepKind::Module | StepKind::Code);
    let executable = program.steps.iter().rfind(|step| !is_source(step.how));
    let needs_any = program.library_requirements().next().is_some();
    let mut scope = Scope {
        site_packages: program.site_packages.clone(),
        own_directories: program
            .own_directories
            .union(&program.tried_directories)
            .cloned()
            .collect(),
        machine: program.machine,
        executable: executable.map(|step| step.to.clone()),
        views: own_views(host),
        symbols: needs_any,
        code: needs_any && inventory::sees_gpu(host),
        // `diagnose` asks about all packages.
        extensions: if settings.purpose == Purpose::Answer {
            ExtensionScope::All
        } else {
            ExtensionScope::Only(program.extensions.clone())
        },
        ..asked(host, common, &settings.layers)?
    };
    scope.also.extend(settings.directories.iter().cloned());
    Ok(scope)
}

/// Scans the machine as the program sees it. If a wrapper keeps the environment from the program, a note says so, and the
/// environment here counts.
pub(super) fn for_program(settings: &Settings, program: &Program, scope: &Scope) -> Inventory {
    let host = &settings.host;
    if matches!(
        settings.purpose,
        Purpose::Start | Purpose::Follow | Purpose::Prepare | Purpose::Question
    ) && program.needs_nothing()
    {
        // The installed libraries do not matter: there is no choice to make.
        return Inventory::default();
    }
    match program.inside.as_ref().filter(|_| program.loss.is_none()) {
        Some(inside) => scan(
            &host.inside(inside.environment.clone(), inside.directory.clone()),
            scope,
        ),
        None => scan(host, scope),
    }
}

/// Scans with the facts of earlier scans, and keeps what is new. Under `--root` nothing is kept, since the directory for
/// that is the guest's.
pub fn scan(host: &Host, scope: &Scope) -> Inventory {
    if host.is_rerooted() {
        return inventory::scan(host, scope, &mut ScanCache::default());
    }
    let mut cache = kept_facts::load(host, &storage::safe_directories(host).collect::<Vec<_>>());
    let inventory = inventory::scan(host, scope, &mut cache);
    if let (true, Ok(directory)) = (cache.has_changed(), storage::cache_directory(host)) {
        kept_facts::save(host, &directory, &mut cache);
    }
    // This process ends soon or becomes another one. Freeing each string of the cache takes longer than scanning the
    // machine's directories.
    std::mem::forget(cache);
    inventory
}

/// The directories that a person wants scanned besides, and the sources that are left out.
fn asked(host: &Host, common: &Common, layers: &Layers) -> Result<Scope, Error> {
    if let Some(path) = common.also.iter().find(|path| !host.is_directory(path)) {
        return Err(Error::NoSuchDirectory {
            option: "--also",
            path: path.clone(),
        });
    }
    let stores = layers.directories(SettingKey::FetchStore).into_iter();
    Ok(Scope {
        also: layers.directories(SettingKey::SearchAlso),
        stores: stores.chain(storage::user_store(host)).collect(),
        without: layers.words(SettingKey::SearchWithout),
        ..Scope::default()
    })
}

/// The scope for any program that may be started from here.
pub fn any_program(settings: &Settings, common: &Common) -> Result<Scope, Error> {
    let host = &settings.host;
    let machine = inventory::machine(host).unwrap_or(elf::X86_64);
    let mut scope = Scope {
        machine,
        views: own_views(host),
        ..asked(host, common, &settings.layers)?
    };
    scope.also.extend(settings.directories.iter().cloned());
    Ok(scope)
}

/// Scans for toolkits alone, with that of an executable.
pub(super) fn toolkits(
    settings: &Settings,
    common: &Common,
    sites: &[PathBuf],
    executable: Option<PathBuf>,
) -> Result<Inventory, Error> {
    let scope = any_program(settings, common)?;
    let site_packages = sites.to_vec();
    let scope = Scope {
        toolkits: true,
        only_toolkits: true,
        site_packages,
        executable,
        ..scope
    };
    Ok(scan(&settings.host, &scope))
}

/// The scope of the whole machine, with the packages of the given Python, or else of the first in PATH.
pub fn everywhere(
    settings: &Settings,
    common: &Common,
    python: Option<&OsStr>,
) -> Result<Scope, Error> {
    let mut scope = any_program(settings, common)?;
    scope.elsewhere = true;
    let program = python.unwrap_or(OsStr::new("python3")).to_owned();
    match program::environment(
        &settings.host,
        &Command {
            program,
            arguments: Vec::new(),
        },
    ) {
        Ok(program) if python.is_some() && program.pip.is_none() => {
            return Err(Error::Usage {
                message: format!("--python `{}` is not Python", show(&program.path)),
                hint: None,
            });
        }
        Ok(program) => {
            scope.machine = program.machine;
            scope.site_packages = program.site_packages;
        }
        Err(error) if python.is_some() => return Err(error),
        // A machine without Python has no wheels.
        Err(_) => {}
    }
    Ok(scope)
}

/// The directories that hold views of ours: those in which we would publish, and the one of the view with which this process
/// was started. Each by its real name, and as the environment may name it.
pub fn own_views(host: &Host) -> Vec<PathBuf> {
    let inherited = host
        .env
        .non_empty(pin::VIEW)
        .and_then(|view| Path::new(view).parent().map(Path::to_owned));
    let candidates = view::parents(host).into_iter().chain(inherited);
    candidates
        .flat_map(|directory| [host.canonical(&directory).ok(), Some(directory)])
        .flatten()
        .collect()
}
