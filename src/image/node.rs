//! The driver of a node in an image, where NVIDIA's container toolkit mounts it. Files of the driver are those with its
//! version in their names. Source of directories, names and the rule for compat: libnvidia-container 1.17 (`nvc_info.c`,
//! `nvc_container.c`) and the hook `cuda-compat` of NVIDIA's container toolkit 1.18, 2026-11.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::environment::Environment;
use crate::formats::elf::{AARCH64, Elf};
use crate::formats::ldcache::LdCache;
use crate::host::{Host, Kind, NewContent, NewFile, Tree};
use crate::inventory;
use crate::machine::ldcache::{CacheEntry, cache};
use crate::version::Version;

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
/// The mark of a container that Docker makes.
const MARK: &str = "/.dockerenv";

/// Mounts what a container on the node has of it. `machine` is ELF's number of its processor.
pub(super) fn mount(
    tree: &mut Tree,
    env: &Environment,
    node: &Host,
    machine: u16,
) -> io::Result<()> {
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
    if asked.is_empty() || asked.contains(&"void") {
        return Ok(());
    }
    devices(tree, node, &asked)?;
    let Some(version) = inventory::kernel_driver(node) else {
        return Ok(());
    };
    let directory = libraries_of(tree, machine);
    let mut known = BTreeMap::new();
    for library in libraries(node, env, machine, &version) {
        let to = directory.join(library.file_name().unwrap_or_default());
        node.graft(&library, tree, &to, LAYER)?;
        let Some(soname) = soname(&node.map(&library)?) else {
            continue;
        };
        let named = directory.join(&soname);
        if named != to {
            link(tree, &named, Path::new(to.file_name().unwrap_or_default()))?;
        }
        known.insert(soname, named);
    }
    if known.contains_key("libcuda.so.1") {
        link(
            tree,
            &directory.join("libcuda.so"),
            Path::new("libcuda.so.1"),
        )?;
    }
    known.extend(compat(tree, machine, &version));
    write_cache(tree, machine, known)
}

/// The kernel's files, which are the node's in a container, too, except those of a process. Its `/dev` has nothing of the
/// image.
fn kernel(tree: &mut Tree, node: &Host) -> io::Result<()> {
    for directory in ["/proc", "/sys", "/dev"] {
        tree.remove_below(Path::new(directory), LAYER);
    }
    let files = ["/proc", "/sys"]
        .iter()
        .flat_map(|directory| node.walk(Path::new(directory), &|name| name == "self"));
    files
        .into_iter()
        .try_for_each(|file| node.graft(&file, tree, &file, LAYER))
}

/// The device nodes that all programs need, and those of the GPUs that are asked for by number or UUID. The name of a MIG
/// device does not tell its GPU.
fn devices(tree: &mut Tree, node: &Host, asked: &[&str]) -> io::Result<()> {
    let is_all = asked
        .iter()
        .any(|one| *one == "all" || one.starts_with("MIG-"));
    let is_named = |number: usize, uuid: Option<&str>| {
        let number = number.to_string();
        asked
            .iter()
            .any(|one| one.split(':').next() == Some(&number) || uuid == Some(one))
    };
    let gpus = inventory::gpus(node).into_iter().enumerate();
    let named = gpus.filter(|(number, gpu)| is_named(*number, gpu.uuid.as_deref()));
    let minors: Vec<u32> = named.filter_map(|(_, gpu)| gpu.minor).collect();
    for device in node.walk(Path::new("/dev"), &|_| false) {
        let name = device
            .to_str()
            .and_then(|path| path.strip_prefix("/dev/nvidia"));
        if name.is_some_and(|name| {
            is_all || name.parse().map_or(true, |minor| minors.contains(&minor))
        }) {
            node.graft(&device, tree, &device, LAYER)?;
        }
    }
    Ok(())
}

/// Debian's directory, or that of all others.
fn libraries_of(tree: &Tree, machine: u16) -> PathBuf {
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
fn libraries(node: &Host, env: &Environment, machine: u16, version: &Version) -> Vec<PathBuf> {
    let given = env
        .get("NVIDIA_DRIVER_CAPABILITIES")
        .map(|value| value.to_string_lossy().into_owned());
    let capabilities = given
        .filter(|given| !given.is_empty())
        .unwrap_or_else(|| "utility,compute".to_owned());
    let is_wanted = |capability: &str| {
        capabilities
            .split(',')
            .any(|one| one == "all" || one == capability)
    };
    let wanted = LIBRARIES
        .iter()
        .filter(|(capability, _)| is_wanted(capability))
        .flat_map(|(_, names)| *names);
    let names: Vec<String> = wanted.map(|name| format!("{name}.{version}")).collect();
    let cached = node
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
    let find = |name: &String| {
        let mut places = directories.iter().map(|directory| directory.join(name));
        places
            .find(|place| node.is_file(place))
            .and_then(|place| node.canonical(&place).ok())
    };
    names.iter().filter_map(find).collect()
}

fn soname(bytes: &[u8]) -> Option<String> {
    let elf = Elf::parse(bytes).ok()?;
    elf.soname()
        .map(|soname| String::from_utf8_lossy(soname).into_owned())
}

fn link(tree: &mut Tree, path: &Path, target: &Path) -> io::Result<()> {
    let content = NewContent::Link(target.to_owned());
    let new = NewFile {
        mode: 0o777,
        uid: 0,
        gid: 0,
        modified: 0,
        has_capabilities: false,
        content,
    };
    tree.put(path, new, LAYER)
}

/// The image's own libraries of one newer driver, if they are for the kernel's. The loader's cache then names them first.
fn compat(tree: &Tree, machine: u16, kernel: &Version) -> Vec<(String, PathBuf)> {
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
        .filter(|entry| is_for && entry.kind == Kind::Link);
    let names = links.filter_map(|entry| entry.name.to_str().filter(|name| !name.ends_with(".so")));
    names
        .map(|name| (name.to_owned(), directory.join(name)))
        .collect()
}

/// Names the driver's libraries in the loader's cache, as `ldconfig` does in the container.
fn write_cache(tree: &mut Tree, machine: u16, known: BTreeMap<String, PathBuf>) -> io::Result<()> {
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

fn write(tree: &mut Tree, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    let archive = tree.add_archive(Arc::new(file));
    let content = NewContent::File {
        archive,
        offset: Some(0),
        size: bytes.len() as u64,
    };
    let new = NewFile {
        mode: 0o644,
        uid: 0,
        gid: 0,
        modified: 0,
        has_capabilities: false,
        content,
    };
    tree.put(path, new, LAYER)
}
