//! A node, as far as a container there sees it, and its driver in an image, where NVIDIA's container toolkit mounts it. Files of
//! the driver are those with its version in their names. Source of directories, names and the rule for compat:
//! libnvidia-container 1.17 (`nvc_info.c`, `nvc_container.c`) and the hook `cuda-compat` of NVIDIA's container toolkit 1.18,
//! 2026-11.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ldcache::{CacheEntry, cache};
use crate::doctor::MachineKind;
use crate::environment::Environment;
use crate::formats::elf::{AARCH64, Elf, X86_64};
use crate::formats::ldcache::LdCache;
use crate::host::{DirectoryEntry, FileKind, FileTree, Host, NewContent, NewFile};
use crate::inventory::{self, Gpu, Inventory};
use crate::text::{self, show};
use crate::version::Version;

/// What a container on a machine gets of it. Anything else about the machine is unknown.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ContainerNode {
    /// As images name it.
    pub architecture: String,
    /// There, a container gets its driver in another way.
    pub is_wsl: bool,
    pub is_tegra: bool,
    pub driver: Option<Version>,
    pub gpus: Vec<NodeGpu>,
    pub devices: Vec<DeviceFile>,
    /// The files of the driver.
    pub libraries: Vec<DriverLibrary>,
    /// NVIDIA's devices on the PCI bus.
    pub cards: Vec<PciCard>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct NodeGpu {
    pub bus: String,
    pub model: String,
    pub uuid: Option<String>,
    /// The number of its device file.
    pub minor: Option<u32>,
    /// The driver's settings keep every program from it.
    pub is_excluded: bool,
    /// Its PCI id, `0x2335`.
    pub device: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DeviceFile {
    /// In `/dev`. Those of MIG are in directories there, and are left out.
    pub name: String,
    /// Open to others if the user who saved it may use it.
    pub mode: u32,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DriverLibrary {
    pub file: String,
    pub soname: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PciCard {
    pub bus: String,
    pub device: String,
    pub class: String,
    /// The driver of the kernel that has it.
    pub driver: Option<String>,
}

/// The reason why a container of an image cannot be on a node, and which of both is at fault.
#[derive(Debug)]
pub enum MountError {
    Image(String),
    Node(String),
    /// A container gets its driver in another way on such a machine.
    OtherWay(&'static str),
}

impl From<io::Error> for MountError {
    fn from(error: io::Error) -> MountError {
        MountError::Image(text::plain(&error.to_string()).to_owned())
    }
}

/// Libraries of the driver by capability, for those that programs of the families in `profiles/` use.
const LIBRARIES: [(&str, &[&str]); 2] = [
    (
        "compute",
        &[
            "libcuda.so",
            "libcudadebugger.so",
            "libnvidia-opencl.so",
            "libnvidia-gpucomp.so",
            "libnvidia-ptxjitcompiler.so",
            "libnvidia-fatbinaryloader.so",
            "libnvidia-allocator.so",
            "libnvidia-compiler.so",
            "libnvidia-nvvm.so",
            "libnvidia-nvvm70.so",
            "libnvidia-pkcs11.so",
            "libnvidia-pkcs11-openssl3.so",
        ],
    ),
    (
        "utility",
        &["libnvidia-ml.so", "libnvidia-cfg.so", "libnvidia-nscq.so"],
    ),
];
/// Directories with libraries of the driver that no cache lists.
const ELSEWHERE: [&str; 6] = [
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/local/nvidia/lib64",
];
/// No layer of an image has this number.
const LAYER: usize = usize::MAX;
const COMPAT: &str = "/usr/local/cuda/compat";
const CACHE: &str = "/etc/ld.so.cache";
const PCI: &str = "/sys/bus/pci";
const GPUS: &str = "/proc/driver/nvidia/gpus";
const NVIDIA: &str = "0x10de";
/// The mark of a container that Docker makes.
const MARK: &str = "/.dockerenv";

impl ContainerNode {
    /// Reads what a container on this machine would get.
    pub fn of(host: &Host, inventory: &Inventory, surroundings: MachineKind) -> ContainerNode {
        let machine = inventory::machine(host).unwrap_or(X86_64);
        let mut node = ContainerNode {
            architecture: architecture(machine).to_owned(),
            is_wsl: surroundings.is_wsl,
            is_tegra: surroundings.is_tegra,
            ..ContainerNode::default()
        };
        if let Some(driver) = &inventory.driver {
            node.driver = Some(driver.version);
            node.libraries = libraries(host, machine, &driver.version);
        }
        for gpu in &inventory.gpus {
            node.gpus.push(node_gpu(host, gpu));
        }
        for entry in host.list(Path::new("/dev")).unwrap_or_default() {
            node.devices.extend(device(host, &entry));
        }
        let cards = Path::new(PCI).join("devices");
        for entry in host.list(&cards).unwrap_or_default() {
            node.cards.extend(card(host, &entry));
        }
        node
    }
}

fn node_gpu(host: &Host, gpu: &Gpu) -> NodeGpu {
    let information = host.read_text(&Path::new(GPUS).join(&gpu.bus).join("information"));
    NodeGpu {
        is_excluded: information.is_ok_and(|text| inventory::is_excluded(text.trim())),
        device: trimmed(host, &bus_directory(&gpu.bus).join("device")),
        bus: gpu.bus.clone(),
        model: gpu.model.clone(),
        uuid: gpu.uuid.clone(),
        minor: gpu.minor,
    }
}

fn device(host: &Host, entry: &DirectoryEntry) -> Option<DeviceFile> {
    let name = entry.name.to_str()?;
    if !name.starts_with("nvidia") || entry.kind == FileKind::Directory {
        return None;
    }
    let path = Path::new("/dev").join(name);
    // The bit for others tells if this user may use it.
    let mut mode = host.stat(&path).ok()?.mode & 0o773;
    if host.may_use(&path) {
        mode |= 0o004;
    }
    Some(DeviceFile {
        name: name.to_owned(),
        mode,
    })
}

fn card(host: &Host, entry: &DirectoryEntry) -> Option<PciCard> {
    let bus = entry.name.to_str()?;
    let directory = bus_directory(bus);
    if trimmed(host, &directory.join("vendor"))? != NVIDIA {
        return None;
    }
    let driver = host.canonical(&directory.join("driver")).ok();
    let driver = driver.as_ref().and_then(|path| path.file_name()?.to_str());
    Some(PciCard {
        bus: bus.to_owned(),
        device: trimmed(host, &directory.join("device")).unwrap_or_default(),
        class: trimmed(host, &directory.join("class")).unwrap_or_default(),
        driver: driver.map(str::to_owned),
    })
}

fn bus_directory(bus: &str) -> PathBuf {
    Path::new(PCI).join("devices").join(bus)
}

fn trimmed(host: &Host, path: &Path) -> Option<String> {
    Some(host.read_text(path).ok()?.trim().to_owned())
}

/// The name that images have for a processor.
fn architecture(machine: u16) -> &'static str {
    if machine == AARCH64 { "arm64" } else { "amd64" }
}

/// Mounts what a container on the node has of it.
pub(super) fn mount(
    tree: &mut FileTree,
    env: &Environment,
    node: &ContainerNode,
) -> Result<(), MountError> {
    if node.is_wsl {
        return Err(MountError::OtherWay("WSL"));
    }
    if node.is_tegra {
        return Err(MountError::OtherWay("a Jetson"));
    }
    let visible = env
        .get("NVIDIA_VISIBLE_DEVICES")
        .map_or("all".into(), |value| value.to_string_lossy());
    let mut visible: Vec<&str> = visible.split(',').map(str::trim).collect();
    visible.retain(|name| !name.is_empty());
    kernel(tree, node)?;
    write(tree, Path::new(MARK), b"")?;
    // `none` gives the driver without a GPU, as NVIDIA's toolkit does.
    if visible.is_empty() || visible.contains(&"void") {
        return Ok(());
    }
    devices(tree, node, &visible)?;
    let Some(version) = node.driver else {
        return Ok(());
    };
    let machine = if node.architecture == architecture(AARCH64) {
        AARCH64
    } else {
        X86_64
    };
    let directory = library_directory(tree, machine);
    let mut mounted = BTreeMap::new();
    for library in requested_libraries(node, env) {
        let file = directory.join(plain(&library.file)?);
        let soname = directory.join(plain(&library.soname)?);
        write(tree, &file, &stand_in(machine, &library.soname))?;
        if soname != file {
            link(tree, &soname, Path::new(&library.file))?;
        }
        mounted.insert(library.soname.clone(), soname);
    }
    if mounted.contains_key("libcuda.so.1") {
        let developer = directory.join("libcuda.so");
        link(tree, &developer, Path::new("libcuda.so.1"))?;
    }
    mounted.extend(compat(tree, machine, &version));
    Ok(write_cache(tree, machine, mounted)?)
}

/// A part of a path, from a description, which anybody may have written.
fn plain(name: &str) -> Result<&str, MountError> {
    if name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".." {
        let fault = format!("it has a file of the name `{}`", show(name));
        return Err(MountError::Node(fault));
    }
    Ok(name)
}

/// The kernel's files that tell of the driver and of NVIDIA's devices. Of all others nothing is known, and those of the image are
/// none.
fn kernel(tree: &mut FileTree, node: &ContainerNode) -> Result<(), MountError> {
    for directory in ["/proc", "/sys", "/dev"] {
        tree.remove_below(Path::new(directory), LAYER);
    }
    if let Some(version) = &node.driver {
        write_line(tree, Path::new("/sys/module/nvidia/version"), version)?;
    }
    for card in &node.cards {
        let directory = bus_directory(plain(&card.bus)?);
        write_line(tree, &directory.join("vendor"), NVIDIA)?;
        write_line(tree, &directory.join("device"), &card.device)?;
        write_line(tree, &directory.join("class"), &card.class)?;
        if let Some(driver) = &card.driver {
            let driver = Path::new(PCI).join("drivers").join(plain(driver)?);
            link(tree, &directory.join("driver"), &driver)?;
            put(tree, &driver, 0o755, NewContent::Directory)?;
        }
    }
    for gpu in &node.gpus {
        let mut text = format!("Model: {}\nBus Location: {}\n", gpu.model, gpu.bus);
        if let Some(uuid) = &gpu.uuid {
            text.push_str(&format!("GPU UUID: {uuid}\n"));
        }
        if let Some(minor) = gpu.minor {
            text.push_str(&format!("Device Minor: {minor}\n"));
        }
        if gpu.is_excluded {
            text.push_str("GPU Excluded: Yes\n");
        }
        let directory = Path::new(GPUS).join(plain(&gpu.bus)?);
        write(tree, &directory.join("information"), text.as_bytes())?;
        if let Some(device) = &gpu.device {
            write_line(tree, &bus_directory(&gpu.bus).join("device"), device)?;
        }
    }
    Ok(())
}

/// The device files that all programs need, and those of the GPUs that are asked for by number or UUID. The name of a MIG
/// device does not tell its GPU.
fn devices(tree: &mut FileTree, node: &ContainerNode, visible: &[&str]) -> Result<(), MountError> {
    let is_all = visible
        .iter()
        .any(|name| *name == "all" || name.starts_with("MIG-"));
    let mut minors = Vec::new();
    for (number, gpu) in node.gpus.iter().enumerate() {
        let number = number.to_string();
        let is_visible = visible.iter().any(|name| {
            name.split(':').next() == Some(&number) || gpu.uuid.as_deref() == Some(name)
        });
        if is_visible {
            minors.extend(gpu.minor);
        }
    }
    for device in &node.devices {
        let Some(name) = device.name.strip_prefix("nvidia") else {
            continue;
        };
        if is_all || name.parse().map_or(true, |minor| minors.contains(&minor)) {
            let path = Path::new("/dev").join(plain(&device.name)?);
            put(tree, &path, device.mode & 0o777, NewContent::Other)?;
        }
    }
    Ok(())
}

/// Debian's directory, or that of all others.
fn library_directory(tree: &FileTree, machine: u16) -> PathBuf {
    if !tree.has(Path::new("/etc/debian_version")) {
        return PathBuf::from("/usr/lib64");
    }
    PathBuf::from(if machine == AARCH64 {
        "/usr/lib/aarch64-linux-gnu"
    } else {
        "/usr/lib/x86_64-linux-gnu"
    })
}

/// The files of the node's driver that the image asks for.
fn requested_libraries<'n>(node: &'n ContainerNode, env: &Environment) -> Vec<&'n DriverLibrary> {
    let capabilities = match env.non_empty("NVIDIA_DRIVER_CAPABILITIES") {
        Some(value) => value.to_string_lossy(),
        None => "utility,compute".into(),
    };
    let mut names = Vec::new();
    for (capability, capability_names) in LIBRARIES {
        if capabilities
            .split(',')
            .any(|name| name == "all" || name == capability)
        {
            names.extend_from_slice(capability_names);
        }
    }
    let mut libraries: Vec<&DriverLibrary> = node.libraries.iter().collect();
    libraries.retain(|library| {
        names
            .iter()
            .any(|name| library.file.starts_with(&format!("{name}.")))
    });
    libraries
}

/// The files of the driver that NVIDIA's container toolkit knows.
fn libraries(host: &Host, machine: u16, version: &Version) -> Vec<DriverLibrary> {
    let mut directories = Vec::new();
    if let Ok(bytes) = host.read(Path::new(CACHE))
        && let Ok(cache) = LdCache::parse(&bytes, machine)
    {
        for (_, path) in cache.iter() {
            directories.extend(path.parent().map(Path::to_owned));
        }
    }
    directories.sort();
    directories.dedup();
    directories.extend(ELSEWHERE.map(PathBuf::from));
    let mut libraries = Vec::new();
    for (_, names) in LIBRARIES {
        for name in names {
            let file = format!("{name}.{version}");
            libraries.extend(find_library(host, &directories, &file));
        }
    }
    libraries
}

fn find_library(host: &Host, directories: &[PathBuf], file: &str) -> Option<DriverLibrary> {
    let mut paths = directories.iter().map(|directory| directory.join(file));
    let path = paths.find(|path| host.is_file(path))?;
    let real = host.canonical(&path).ok()?;
    let file = real.file_name()?.to_str()?.to_owned();
    let bytes = host.map(&path).ok()?;
    let soname = Elf::parse(&bytes).ok()?.soname()?;
    let soname = String::from_utf8_lossy(soname).into_owned();
    Some(DriverLibrary { file, soname })
}

/// A library of which only the SONAME is known: the headers of ELF, and a dynamic section.
fn stand_in(machine: u16, soname: &str) -> Vec<u8> {
    const HEADERS: u64 = 64 + 2 * 56;
    const STRINGS: u64 = HEADERS + 4 * 16;
    let strings = format!("\0{soname}\0");
    let size = strings.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    // A shared object of version 1, without an entry; the program headers follow at once.
    push_halves(&mut file, &[3, machine, 1, 0]);
    push_longs(&mut file, &[0, 64, 0]);
    push_halves(&mut file, &[0, 0, 64, 56, 2, 64, 0, 0]);
    // A readable segment with all of it, and one with the dynamic section.
    for (kind, begin, end) in [(1, 0, STRINGS + size), (2, HEADERS, STRINGS)] {
        let length = end - begin;
        push_halves(&mut file, &[kind, 0, 4, 0]);
        push_longs(&mut file, &[begin, begin, begin, length, length, 8]);
    }
    // DT_SONAME, DT_STRTAB, DT_STRSZ, DT_NULL.
    push_longs(&mut file, &[14, 1, 5, STRINGS, 10, size, 0, 0]);
    file.extend(strings.into_bytes());
    file
}

fn push_halves(file: &mut Vec<u8>, numbers: &[u16]) {
    file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn push_longs(file: &mut Vec<u8>, numbers: &[u64]) {
    file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn link(tree: &mut FileTree, path: &Path, target: &Path) -> io::Result<()> {
    put(tree, path, 0o777, NewContent::Link(target.to_owned()))
}

fn put(tree: &mut FileTree, path: &Path, mode: u32, content: NewContent) -> io::Result<()> {
    let new = NewFile {
        mode,
        uid: 0,
        gid: 0,
        modified: 0,
        has_capabilities: false,
        content,
    };
    tree.put(path, new, LAYER)
}

/// The libraries in the image's own compat directory, if they are of one driver, newer than the kernel's, that this one admits. The
/// loader's cache then names them first.
fn compat(tree: &FileTree, machine: u16, kernel: &Version) -> Vec<(String, PathBuf)> {
    let directory = Path::new(COMPAT);
    let mut links = Vec::new();
    let mut versions = Vec::new();
    let entries = tree.list(directory).unwrap_or_default();
    for entry in &entries {
        let Some(name) = entry.name.to_str() else {
            continue;
        };
        if let Some(text) = name.strip_prefix("libcuda.so.")
            && let Some(version) = Version::of_driver(text)
        {
            versions.push((name, version));
        }
        if entry.kind == FileKind::Link && !name.ends_with(".so") {
            links.push((name.to_owned(), directory.join(name)));
        }
    }
    // The hook leaves a directory alone where it cannot tell which one counts.
    let [(name, version)] = versions[..] else {
        return Vec::new();
    };
    let bytes = tree.read(&directory.join(name)).unwrap_or_default();
    let note = inventory::facts(&bytes, name, machine).and_then(|file| file.forward_compatibility);
    let is_admitted = match note {
        Some(note) => note.kernel_branches.contains(&kernel.major()) && version > *kernel,
        None => version.major() > kernel.major(),
    };
    if is_admitted { links } else { Vec::new() }
}

/// Names the driver's libraries in the loader's cache, as `ldconfig` does in the container.
fn write_cache(
    tree: &mut FileTree,
    machine: u16,
    mounted: BTreeMap<String, PathBuf>,
) -> io::Result<()> {
    let mut paths = mounted;
    if let Ok(bytes) = tree.read(Path::new(CACHE))
        && let Ok(cache) = LdCache::parse(&bytes, machine)
    {
        for (name, path) in cache.iter() {
            paths.entry(name.to_owned()).or_insert_with(|| path.clone());
        }
    }
    let mut entries = Vec::new();
    for (name, path) in paths {
        entries.push(CacheEntry {
            name,
            path: path.to_string_lossy().into_owned(),
            machine,
        });
    }
    write(tree, Path::new(CACHE), &cache(&entries))
}

fn write_line(tree: &mut FileTree, path: &Path, line: impl Display) -> io::Result<()> {
    write(tree, path, format!("{line}\n").as_bytes())
}

fn write(tree: &mut FileTree, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    let archive = tree.add_archive(Arc::new(file));
    let content = NewContent::File {
        archive,
        offset: Some(0),
        size: bytes.len() as u64,
    };
    put(tree, path, 0o644, content)
}
