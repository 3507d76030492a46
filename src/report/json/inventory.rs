//! What is installed, as objects.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::object::{each, object, path, value};
use crate::inventory::{
    Extension, Gpu, Installation, Inventory, KernelDriver, Member, Preload, SearchPath, Toolkit,
    Warning,
};
use crate::version::Version;

/// The answer of `list`.
#[derive(Serialize)]
pub(super) struct InventoryObject<'a> {
    driver: &'a Option<KernelDriver>,
    gpus: Vec<GpuObject<'a>>,
    devices: Vec<Cow<'a, str>>,
    glibc: Option<Version>,
    installations: Vec<InstallationObject<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toolkits: Option<Vec<ToolkitObject<'a>>>,
    search: SearchPathObject<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: &'a Option<Vec<Extension>>,
    warnings: &'a [Warning],
}

impl<'a> InventoryObject<'a> {
    /// The installations of these families, or all if there are none.
    pub(super) fn new(inventory: &'a Inventory, families: &[String]) -> InventoryObject<'a> {
        let mut installations = Vec::from_iter(&inventory.installations);
        if !families.is_empty() {
            installations.retain(|one| families.contains(&one.family));
        }
        InventoryObject {
            driver: &inventory.driver,
            gpus: each(&inventory.gpus, GpuObject),
            devices: each(&inventory.devices, path),
            glibc: inventory.glibc,
            installations: each(installations, InstallationObject),
            toolkits: inventory
                .toolkits
                .as_ref()
                .map(|toolkits| each(toolkits, ToolkitObject)),
            search: SearchPathObject(&inventory.search),
            extensions: &inventory.extensions,
            warnings: &inventory.warnings,
        }
    }
}

pub(in crate::report) fn gpus(inventory: &Inventory) -> Value {
    value(&each(&inventory.gpus, GpuObject))
}

object!(GpuObject(gpu: Gpu) {
    "bus": gpu.bus,
    "model": gpu.model,
    "chip": gpu.chip,
    "capability": gpu.capability,
    "uuid": gpu.uuid,
    "visible": gpu.visible,
});

object!(InstallationObject(installation: Installation) {
    "family": installation.family,
    "soname": installation.soname,
    "version": installation.version,
    "version_from": installation.version_from,
    "evidence": installation.evidence,
    "cuda": installation.cuda,
    "built_for": installation.built_for,
    "origin": installation.origin,
    "directory": path(&installation.directory),
    "also": each(&installation.also, path),
    "package": installation.package,
    "open": installation.open,
    "loader_gives": installation.loader_gives,
    "files": each(&installation.files, MemberObject),
    "serves": installation.serves,
    "forward_compatibility": installation.forward_compatibility,
    "problems": installation.problems,
});

object!(MemberObject(file: Member) {
    "stem": file.stem,
    "soname": file.soname,
    "names": file.names,
    "path": path(&file.path),
    "size": file.size,
    "device": file.id.device,
    "inode": file.id.inode,
    "uid": file.uid,
    "gid": file.gid,
    "mode": format_args!("{:04o}", file.mode & 0o7777),
    "build_id": file.build_id,
    "needed": file.needed,
    "code": file.code,
    "glibc": file.glibc,
    "glibcxx": file.glibcxx,
    "rpath": file.rpath,
    "runpath": file.runpath,
});

object!(ToolkitObject(toolkit: Toolkit) {
    "root": path(&toolkit.root),
    "origin": toolkit.origin,
    "release": toolkit.release,
    "parts": toolkit.parts,
    "include": toolkit.include.as_ref().map(path),
    "libraries": toolkit.libraries.as_ref().map(path),
    "headers": toolkit.headers,
    "newest_gcc": toolkit.newest_gcc,
    "open": toolkit.open,
    "problems": toolkit.problems,
});

object!(SearchPathObject(search: SearchPath) {
    "library_path": search.library_path,
    "preload": each(&search.preload, PreloadObject),
    "defaults": each(&search.defaults, path),
});

object!(PreloadObject(preload: Preload) {
    "text": path(&preload.text),
    "family": preload.family,
});
