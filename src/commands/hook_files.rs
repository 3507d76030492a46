//! `cudarun hook jupyter` and `cudarun hook systemd`: write or remove the file by which kernels and services start with
//! cudarun. Starts nothing, and changes no file of others.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::doctor::environment;
use super::{Exit, print};
use crate::cli::{Common, Hook};
use crate::error::{Error, TypedReason};
use crate::hooks::jupyter::{self, NoKernel};
use crate::hooks::must_not_be_in_cache;
use crate::hooks::systemd::{self, DropInChange, Manager, NoDropIn};
use crate::host::Host;
use crate::report::{self, Style};
use crate::storage;

pub(super) fn jupyter(host: &Host, common: &Common, hook: &Hook) -> Result<Exit, Error> {
    let directory = jupyter::directory(host).map_err(fault)?;
    let name = hook.name.as_deref();
    if hook.uninstall {
        return remove_kernels(host, common, hook, &directory);
    }
    let python = hook.what.as_deref().unwrap_or(OsStr::new("python3"));
    let python = environment(host, python).map_err(|error| {
        jupyter::named_environment(host, Path::new(python)).map_or(error, fault)
    })?;
    let kernel = jupyter::kernel(host, &python, name).map_err(fault)?;
    let file = jupyter::file(&directory, &kernel.name);
    let own = own(host)?;
    must_not_be_in_cache(host, &own).map_err(fault)?;
    let Some(own) = own.to_str() else {
        return Err(fault(NoKernel::NotText { path: own }));
    };
    let before = jupyter::written(host, &directory, &kernel.name).map_err(fault)?;
    if let Some(before) = &before
        && before.python != kernel.python
    {
        return Err(fault(NoKernel::OtherPython {
            name: before.name.clone(),
            python: before.python.clone(),
        }));
    }
    let others = jupyter::all(host, &directory).into_iter();
    let made = before.map(|before| before.made);
    let made =
        made.unwrap_or_else(|| directories_to_remove(host, &file, others.map(|other| other.made)));
    let text = report::kernelspec(&kernel, own, made);
    if hook.print {
        print(&text)?;
        return Ok(Exit::Yes);
    }
    storage::publish_below(host, &file, text.as_bytes())
        .map_err(|error| Error::unwritten(&file, error))?;
    tell(common, |style| {
        report::kernel_written(&kernel, &file, style)
    })
}

/// Removes the kernel of a name, those of a Python, or all; only kernels of cudarun's.
fn remove_kernels(
    host: &Host,
    common: &Common,
    hook: &Hook,
    directory: &Path,
) -> Result<Exit, Error> {
    let named = hook.name.as_deref();
    let mut kernels = match named {
        Some(name) => {
            let name = jupyter::checked_name(name).map_err(fault)?;
            let kernel = jupyter::written(host, directory, &name).map_err(fault)?;
            Vec::from_iter(kernel)
        }
        None => jupyter::all(host, directory),
    };
    if let Some(python) = &hook.what {
        // It may be gone.
        let path = environment(host, python).map_or_else(
            |_| jupyter::without_dots(host, Path::new(python)),
            |read| jupyter::path(host, &read),
        );
        kernels.retain(|kernel| Path::new(&kernel.python) == path);
    }
    if kernels.is_empty() {
        tell(common, |_| report::no_kernels(directory))?;
        return Ok(Exit::No);
    }
    for kernel in kernels {
        storage::remove_with_directories(&kernel.file, kernel.made)
            .map_err(|error| Error::unwritten(&kernel.file, error))?;
        tell(common, |_| {
            report::kernel_removed(&kernel.name, &kernel.file)
        })?;
    }
    Ok(Exit::Yes)
}

pub(super) fn systemd(host: &Host, common: &Common, hook: &Hook) -> Result<Exit, Error> {
    let manager = Manager::of(host, hook.user).map_err(fault)?;
    let unit = systemd::full_name(hook.what.as_deref().unwrap_or_default()).map_err(fault)?;
    let own = own(host)?;
    if hook.uninstall {
        return remove_drop_in(host, common, &manager, &unit, &own);
    }
    if hook.user {
        must_not_be_in_cache(host, &own).map_err(fault)?;
    }
    let service = match systemd::change(host, &manager, &unit, &own).map_err(fault)? {
        DropInChange::Service(service) => service,
        DropInChange::Nothing { unit, file } => {
            return tell(common, |_| report::starts_already(&unit, &file));
        }
    };
    let file = &service.drop_in;
    let made = systemd::made(host, file).map_err(fault)?;
    let made = made.unwrap_or_else(|| directories_to_remove(host, file, manager.made_before(host)));
    let text = report::drop_in(&service, made);
    if hook.print {
        print(&text)?;
        return Ok(Exit::Yes);
    }
    storage::publish_below(host, file, text.as_bytes())
        .map_err(|error| unwritten(&manager, &own, &service.unit, file, error, false))?;
    tell(common, |style| {
        report::drop_in_written(&service, manager.is_user, style)
    })
}

fn remove_drop_in(
    host: &Host,
    common: &Common,
    manager: &Manager,
    unit: &str,
    own: &Path,
) -> Result<Exit, Error> {
    let (unit, written) = systemd::written(host, manager, unit).map_err(fault)?;
    let Some((file, made)) = written else {
        tell(common, |_| report::no_drop_in(&manager.drop_in(&unit)))?;
        return Ok(Exit::No);
    };
    storage::remove_with_directories(&file, made)
        .map_err(|error| unwritten(manager, own, &unit, &file, error, true))?;
    // A person's own services keep theirs below the person's cache, with cudarun's.
    let caches = (!manager.is_user).then(|| systemd::caches(host, &unit));
    tell(common, |style| {
        let caches = caches.as_deref().unwrap_or_default();
        report::drop_in_removed(&unit, &file, caches, manager.is_user, style)
    })
}

fn unwritten(
    manager: &Manager,
    own: &Path,
    unit: &str,
    file: &Path,
    error: std::io::Error,
    is_removal: bool,
) -> Error {
    if manager.is_user || error.kind() != ErrorKind::PermissionDenied {
        return Error::unwritten(file, error);
    }
    fault(NoDropIn::NotRoot {
        file: file.to_owned(),
        error,
        command: report::as_root(own, unit, is_removal),
    })
}

/// How many directories above a new file to remove with it: those that are made for it now, or those that were made for the other files
/// there, of which it may be the last to go.
fn directories_to_remove(host: &Host, file: &Path, others: impl Iterator<Item = usize>) -> usize {
    others.fold(storage::missing_directories(host, file), usize::max)
}

fn own(host: &Host) -> Result<PathBuf, Error> {
    host.own_executable().map_err(Error::io("cudarun"))
}

fn fault(reason: impl TypedReason + 'static) -> Error {
    Error::Hook(Box::new(reason))
}

/// A page on standard output.
fn tell(common: &Common, page: impl FnOnce(Style<'_>) -> String) -> Result<Exit, Error> {
    if !common.quiet {
        let style = Style::stdout(common.color);
        print(&style.page(&page(style)))?;
    }
    Ok(Exit::Yes)
}
