//! The running processes, as objects.

use super::object::{each, object, path};
use crate::catalog::display_name;
use crate::report::running::restart;
use crate::running::{
    MixedFamily, MixedInstallation, RunningLibrary, RunningProcess, RunningProcesses,
};

object!(RunningObject(running: RunningProcesses) {
    "processes": each(&running.processes, ProcessObject),
    "unreadable": running.unreadable,
    "others_hidden": running.hides_others,
});

object!(ProcessObject(process: RunningProcess) {
    "pid": process.pid,
    "user": process.uid,
    "program": path(&process.program),
    "command": each(&process.command, path),
    "started_by_cudarun": process.started_by_cudarun,
    "container": process.container,
    "elsewhere": process.is_elsewhere,
    "libraries": each(&process.libraries, RunningLibraryObject),
    "mixed": each(&process.mixed, MixedObject),
    "devices": each(&process.devices, path),
    "restart": restart(process),
});

object!(RunningLibraryObject(library: RunningLibrary) {
    "family": library.family,
    "name": library.path.file_name().map(|name| name.to_string_lossy()),
    "path": path(&library.path),
    "version": library.version,
    "deleted": library.is_deleted,
});

object!(MixedObject(mixed: MixedFamily) {
    "family": mixed.family,
    "name": display_name(&mixed.family),
    "installations": each(&mixed.installations, MixedInstallationObject),
});

object!(MixedInstallationObject(installation: MixedInstallation) {
    "directory": path(&installation.directory),
    "version": installation.version,
});
