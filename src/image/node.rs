//! A node, as far as a container there sees it, and its driver in an image, where NVIDIA's container toolkit mounts it. Files of
//! the driver are those with its version in their names. Source of directories, names and the rule for compat:
//! libnvidia-container 1.17 (`nvc_info.c`, `nvc_container.c`) and the hook `cuda-compat` of NVIDIA's container toolkit 1.18,
//! 2026-11.

use std::collections::BTreeMap;
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
        let driver = inventory.driver.as_ref().map(|driver| driver.version);
        let text = |path: PathBuf| Some(host.read_text(&path).ok()?.trim().to_owned());
        let on_bus = |bus: &str| Path::new(PCI).join("devices").join(bus);
        let is_excluded = |gpu: &Gpu| {
            let text = text(Path::new(GPUS).join(&gpu.bus).join("information"));
            text.is_some_and(|text| inventory::is_excluded(&text))
        };
        let gpu = |gpu: &Gpu| NodeGpu {
            is_excluded: is_excluded(gpu),
            device: text(on_bus(&gpu.bus).join("device")),
            bus: gpu.bus.clone(),
            model: gpu.model.clone(),
            uuid: gpu.uuid.clone(),
            minor: gpu.minor,
        };
        let device = |entry: &DirectoryEntry| {
            let name = entry.name.to_str()?.to_owned();
            let path = Path::new("/dev").join(&name);
            let mode = host.stat(&path).ok()?.mode & 0o773;
            // The bit for others tells if this user may use it.
            let others = if host.may_use(&path) { 0o004 } else { 0 };
            let mode = mode | others;
            let is_ours = name.starts_with("nvidia") && entry.kind != FileKind::Directory;
            is_ours.then_some(DeviceFile { name, mode })
        };
        let card = |entry: &DirectoryEntry| {
            let bus = entry.name.to_str()?.to_owned();
            let says = |name| text(on_bus(&bus).join(name));
            says("vendor").filter(|vendor| vendor == NVIDIA)?;
            let driver = host.canonical(&on_bus(&bus).join("driver")).ok();
            Some(PciCard {
                device: says("device").unwrap_or_default(),
                class: says("class").unwrap_or_default(),
                driver: driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned())),
                bus,
            })
        };
        let listed = |path: &Path| host.list(path).unwrap_or_default();
        let files = driver.map(|version| libraries(host, machine, &version));
        ContainerNode {
            architecture: architecture(machine).to_owned(),
            is_wsl: surroundings.is_wsl,
            is_tegra: surroundings.is_tegra,
            driver,
            gpus: inventory.gpus.iter().map(gpu).collect(),
            devices: listed(Path::new("/dev"))
                .iter()
                .filter_map(device)
                .collect(),
            libraries: files.unwrap_or_default(),
            cards: listed(&Path::new(PCI).join("devices"))
                .iter()
                .filter_map(card)
                .collect(),
        }
    }
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
    match (node.is_wsl, node.is_tegra) {
        (true, _) => return Err(MountError::OtherWay("WSL")),
        (_, true) => return Err(MountError::OtherWay("a Jetson")),
        _ => {}
    }
    let asked = env
        .get("NVIDIA_VISIBLE_DEVICES")
        .map_or("all".into(), |value| value.to_string_lossy());
    let asked: Vec<&str> = asked
        .split(',')
        .map(str::trim)
        .filter(|one| !one.is_empty())
        .collect();
    kernel(tree, node)?;
    write(tree, Path::new(MARK), b"")?;
    // `none` gives the driver without a GPU, as NVIDIA's toolkit does.
    if asked.is_empty() || asked.contains(&"void") {
        return Ok(());
    }
    devices(tree, node, &asked)?;
    let Some(version) = node.driver else {
        return Ok(());
    };
    let machine = if node.architecture == architecture(AARCH64) {
        AARCH64
    } else {
        X86_64
    };
    let directory = libraries_of(tree, machine);
    let mut known = BTreeMap::new();
    for library in wanted(node, env) {
        let to = directory.join(plain(&library.file)?);
        let named = directory.join(plain(&library.soname)?);
        write(tree, &to, &stand_in(machine, &library.soname))?;
        if named != to {
            link(tree, &named, Path::new(&library.file))?;
        }
        known.insert(library.soname.clone(), named);
    }
    if known.contains_key("libcuda.so.1") {
        link(
            tree,
            &directory.join("libcuda.so"),
            Path::new("libcuda.so.1"),
        )?;
    }
    known.extend(compat(tree, machine, &version));
    Ok(write_cache(tree, machine, known)?)
}

/// A part of a path, from a description, which anybody may have written.
fn plain(name: &str) -> Result<&str, MountError> {
    if name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".." {
        let why = format!("it has a file of the name `{}`", show(name));
        return Err(MountError::Node(why));
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
        let text = format!("{version}\n");
        write(
            tree,
            Path::new("/sys/module/nvidia/version"),
            text.as_bytes(),
        )?;
    }
    let on_bus = |bus: &str| -> Result<PathBuf, MountError> {
        Ok(Path::new(PCI).join("devices").join(plain(bus)?))
    };
    for card in &node.cards {
        let directory = on_bus(&card.bus)?;
        for (name, text) in [
            ("vendor", NVIDIA),
            ("device", &card.device),
            ("class", &card.class),
        ] {
            write(tree, &directory.join(name), format!("{text}\n").as_bytes())?;
        }
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
            let device = format!("{device}\n");
            write(tree, &on_bus(&gpu.bus)?.join("device"), device.as_bytes())?;
        }
    }
    Ok(())
}

/// The device files that all programs need, and those of the GPUs that are asked for by number or UUID. The name of a MIG
/// device does not tell its GPU.
fn devices(tree: &mut FileTree, node: &ContainerNode, asked: &[&str]) -> Result<(), MountError> {
    let is_all = asked
        .iter()
        .any(|one| *one == "all" || one.starts_with("MIG-"));
    let is_named = |number: usize, uuid: Option<&str>| {
        let number = number.to_string();
        asked
            .iter()
            .any(|one| one.split(':').next() == Some(&number) || uuid == Some(one))
    };
    let gpus = node.gpus.iter().enumerate();
    let named = gpus.filter(|(number, gpu)| is_named(*number, gpu.uuid.as_deref()));
    let minors: Vec<u32> = named.filter_map(|(_, gpu)| gpu.minor).collect();
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
fn libraries_of(tree: &FileTree, machine: u16) -> PathBuf {
    let name = if machine == AARCH64 {
        "aarch64-linux-gnu"
    } else {
        "x86_64-linux-gnu"
    };
    if tree.has(Path::new("/etc/debian_version")) {
        Path::new("/usr/lib").join(name)
    } else {
        PathBuf::from("/usr/lib64")
    }
}

/// The files of the node's driver that the image asks for.
fn wanted<'n>(
    node: &'n ContainerNode,
    env: &Environment,
) -> impl Iterator<Item = &'n DriverLibrary> {
    let given = env
        .get("NVIDIA_DRIVER_CAPABILITIES")
        .map(|value| value.to_string_lossy().into_owned());
    let capabilities = given
        .filter(|given| !given.is_empty())
        .unwrap_or_else(|| "utility,compute".to_owned());
    let is_wanted = move |capability: &str| {
        capabilities
            .split(',')
            .any(|one| one == "all" || one == capability)
    };
    node.libraries.iter().filter(move |library| {
        let is_it = |name: &&str| library.file.starts_with(&format!("{name}."));
        LIBRARIES
            .iter()
            .any(|(capability, names)| is_wanted(capability) && names.iter().any(is_it))
    })
}

/// The files of the driver that NVIDIA's container toolkit knows.
fn libraries(host: &Host, machine: u16, version: &Version) -> Vec<DriverLibrary> {
    let cached = host
        .read(Path::new(CACHE))
        .ok()
        .and_then(|bytes| LdCache::parse(&bytes, machine).ok());
    let cached = cached
        .iter()
        .flat_map(LdCache::iter)
        .filter_map(|(_, path)| path.parent().map(Path::to_owned));
    let mut directories: Vec<PathBuf> = cached.collect();
    directories.sort();
    directories.dedup();
    directories.extend(ELSEWHERE.map(PathBuf::from));
    let find = |name: &&str| {
        let name = format!("{name}.{version}");
        let mut places = directories.iter().map(|directory| directory.join(&name));
        let place = places.find(|place| host.is_file(place))?;
        let file = host
            .canonical(&place)
            .ok()?
            .file_name()?
            .to_str()?
            .to_owned();
        let soname = soname(&host.map(&place).ok()?)?;
        Some(DriverLibrary { file, soname })
    };
    LIBRARIES
        .iter()
        .flat_map(|(_, names)| *names)
        .filter_map(find)
        .collect()
}

fn soname(bytes: &[u8]) -> Option<String> {
    let elf = Elf::parse(bytes).ok()?;
    elf.soname()
        .map(|soname| String::from_utf8_lossy(soname).into_owned())
}

/// A library of which only the SONAME is known: the headers of ELF, and a dynamic section.
fn stand_in(machine: u16, soname: &str) -> Vec<u8> {
    const HEADERS: u64 = 64 + 2 * 56;
    let strings = format!("\0{soname}\0");
    let at_strings = HEADERS + 4 * 16;
    let end = at_strings + strings.len() as u64;
    let mut file = b"\x7fELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    let halves = |file: &mut Vec<u8>, numbers: &[u16]| {
        file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    };
    let longs = |file: &mut Vec<u8>, numbers: &[u64]| {
        file.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    };
    // A shared object of version 1, without an entry; the program headers follow at once.
    halves(&mut file, &[3, machine, 1, 0]);
    longs(&mut file, &[0, 64, 0]);
    halves(&mut file, &[0, 0, 64, 56, 2, 64, 0, 0]);
    // A readable segment with all of it, and one with the dynamic section.
    for (kind, begin, end) in [(1, 0, end), (2, HEADERS, at_strings)] {
        halves(&mut file, &[kind, 0, 4, 0]);
        longs(
            &mut file,
            &[begin, begin, begin, end - begin, end - begin, 8],
        );
    }
    // DT_SONAME, DT_STRTAB, DT_STRSZ, DT_NULL.
    longs(
        &mut file,
        &[14, 1, 5, at_strings, 10, strings.len() as u64, 0, 0],
    );
    file.extend(strings.into_bytes());
    file
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
    let entries = tree.list(directory).unwrap_or_default();
    let version = |name: &str| Version::of_driver(name.strip_prefix("libcuda.so.")?);
    let versions: Vec<(&str, Version)> = entries
        .iter()
        .filter_map(|entry| {
            let name = entry.name.to_str()?;
            Some((name, version(name)?))
        })
        .collect();
    // The hook leaves a directory alone where it cannot tell which one counts.
    let [(name, version)] = versions[..] else {
        return Vec::new();
    };
    let note = tree
        .read(&directory.join(name))
        .ok()
        .and_then(|bytes| inventory::facts(&bytes, name, machine));
    let is_for = match note.and_then(|file| file.forward_compatibility) {
        Some(note) => note.kernel_branches.contains(&kernel.major()) && version > *kernel,
        None => version.major() > kernel.major(),
    };
    let links = entries
        .iter()
        .filter(|entry| is_for && entry.kind == FileKind::Link);
    let names = links.filter_map(|entry| entry.name.to_str().filter(|name| !name.ends_with(".so")));
    names
        .map(|name| (name.to_owned(), directory.join(name)))
        .collect()
}

/// Names the driver's libraries in the loader's cache, as `ldconfig` does in the container.
fn write_cache(
    tree: &mut FileTree,
    machine: u16,
    known: BTreeMap<String, PathBuf>,
) -> io::Result<()> {
    let before = tree
        .read(Path::new(CACHE))
        .ok()
        .and_then(|bytes| LdCache::parse(&bytes, machine).ok());
    let mut entries: BTreeMap<String, PathBuf> = known;
    for (name, path) in before.iter().flat_map(LdCache::iter) {
        entries
            .entry(name.to_owned())
            .or_insert_with(|| path.clone());
    }
    let entry = |(name, path): (String, PathBuf)| CacheEntry {
        name,
        path: path.to_string_lossy().into_owned(),
        machine,
    };
    let bytes = cache(&entries.into_iter().map(entry).collect::<Vec<_>>());
    write(tree, Path::new(CACHE), &bytes)
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
