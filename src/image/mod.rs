//! Container images as machines, without unpacking them: `--root oci:DIR[:TAG]` and `--root ARCHIVE[:TAG]`. Files are read
//! where they are; a compressed layer is unpacked once into the cache. Archives are hostile: nothing is written by a name
//! from them, and what they can make us read or write has limits.
//!
//! A link in a layout starts at the layout's directory, and never leads out of it. To read an uncompressed layer in
//! place, cudarun does not compute its digest. Devices and sockets are known by name only. The image cannot ask for
//! another file of the machine. Large files that are not ELF are not unpacked. zstandard (pure Rust) takes about four
//! times as long as the `zstd` tool.

mod frames;
mod index;
pub mod ldcache;
mod manifest;
mod members;
mod node;

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::environment::Environment;
use crate::host::{FilePart, FileTree, Host, NewContent, NewFile};
use crate::parallel;
use crate::storage;
use crate::text::{plain, show};

use index::{Blob, Cache, Index};
use manifest::{ImageConfig, ImageLayer, ImageLayout, Parts};
use members::{ArchiveMember, MEMBERS, MemberContent, path_of};
pub use node::{ContainerNode, MountError};

/// Marks an image in a directory.
const OCI: &str = "oci:";
/// The variables that `docker run` sets where an image does not.
const DEFAULTS: [(&str, &str); 2] = [
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("HOME", "/root"),
];
/// Beginnings of names that remove files of lower layers.
const WHITEOUT: &str = ".wh.";
const OPAQUE: &str = ".wh..wh..opq";
/// More components than any path needs.
const DEPTH: usize = 256;
/// Twice as many as Docker mounts. Each can be an open file.
const LAYERS: usize = 256;

/// The files of an image, and how its programs start.
#[derive(Clone)]
pub struct Image {
    tree: FileTree,
    env: Environment,
    cwd: PathBuf,
    architecture: Option<String>,
}

/// The reason why an image cannot be used.
#[derive(Debug)]
pub struct ImageError(pub String);

impl From<io::Error> for ImageError {
    fn from(error: io::Error) -> ImageError {
        ImageError(plain(&error.to_string()).to_owned())
    }
}

/// True if `--root` names an image: neither a root directory nor something that is missing.
pub fn is_image(host: &Host, root: &Path) -> bool {
    split_root(host, root).is_some()
}

/// Splits `--root` into the path of an image and its tag.
fn split_root(host: &Host, root: &Path) -> Option<(PathBuf, Option<String>)> {
    let text = root.as_os_str().as_bytes();
    let oci = text.strip_prefix(OCI.as_bytes());
    let bytes = oci.unwrap_or(text);
    let mut found = None;
    if oci.is_some() && !bytes.contains(&b':') {
        found = Some((host.absolute(&path_of(bytes)), None));
    }
    // A tag has no slash, and the name of an image in Docker's archives has colons of its own.
    for end in memchr::memchr_iter(b':', bytes).chain([bytes.len()]) {
        let path = host.absolute(&path_of(&bytes[..end]));
        let is_layout = if oci.is_some() {
            host.is_directory(&path)
        } else {
            host.is_file(&path.join("oci-layout"))
        };
        if is_layout || host.is_file(&path) {
            let tag = bytes.get(end + 1..);
            found = Some((
                path,
                tag.map(|tag| String::from_utf8_lossy(tag).into_owned()),
            ));
        }
    }
    found
}

impl Image {
    /// Reads the list of an image's files. `host` is this machine.
    pub fn open(host: &Host, root: &Path) -> Result<Image, ImageError> {
        let Some((path, tag)) = split_root(host, root) else {
            return Err(ImageError("there is no such image".to_owned()));
        };
        let (directory, _temporary) = directory(host)?;
        let cache = Cache::new(host, directory);
        let (tree, config) = files(&cache, &path, tag.as_deref())?;
        storage::prune(host, &cache.directory);
        let ImageConfig {
            os,
            architecture,
            start,
        } = config;
        if let Some(os) = os.filter(|os| os != "linux") {
            return Err(ImageError(format!("it is for {os}")));
        }
        let mut env: Environment = DEFAULTS.into_iter().collect();
        for line in start.env.unwrap_or_default() {
            if let Some((name, value)) = line.split_once('=') {
                env.set(name, value);
            }
        }
        let cwd = match start.working_dir {
            Some(cwd) if cwd.starts_with('/') => PathBuf::from(cwd),
            _ => PathBuf::from("/"),
        };
        Ok(Image {
            tree,
            env,
            cwd,
            architecture,
        })
    }

    /// Mounts the driver of a node into the image, as a container there would have it.
    pub fn mount_driver_of(&mut self, node: &ContainerNode) -> Result<(), MountError> {
        if let Some(own) = &self.architecture
            && *own != node.architecture
        {
            return Err(MountError::Image(format!(
                "the image is for {own}, and the node is {}",
                show(&node.architecture)
            )));
        }
        node::mount(&mut self.tree, &self.env, node)
    }

    pub fn host(self) -> Host {
        Host::of_tree(self.tree, self.env, self.cwd)
    }
}

/// The directory for contents of compressed layers; a private one where there is no cache.
fn directory(host: &Host) -> io::Result<(PathBuf, Option<tempfile::TempDir>)> {
    if let Ok(cache) = storage::cache_directory(host) {
        let directory = cache.join("layers");
        storage::create_directory(&directory)?;
        return Ok((directory, None));
    }
    let temporary = tempfile::Builder::new()
        .prefix("cudarun-layers-")
        .tempdir()?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}

/// The files of an image and its configuration, or those of a root directory in an archive.
fn files(
    cache: &Cache<'_>,
    path: &Path,
    tag: Option<&str>,
) -> Result<(FileTree, ImageConfig), ImageError> {
    let env = Environment::default();
    let cwd = PathBuf::from("/");
    if cache.host.is_directory(path) {
        let host = Host::at(path, env, cwd)?;
        let archive = String::new();
        let Parts { layers, config } = ImageLayout { host, archive }.parts(tag)?;
        cache.allow(layers.iter().map(|layer| layer.blob.part.size()).sum());
        return Ok((tree(cache, &layers)?, config));
    }
    let (part, end) = cache.host.open(path)?;
    cache.allow(end);
    let metadata = part.file.metadata()?;
    let times = (
        metadata.mtime(),
        metadata.mtime_nsec(),
        metadata.ctime(),
        metadata.ctime_nsec(),
    );
    let identity = format!("{:?}", (metadata.dev(), metadata.ino(), end, times));
    let archive = storage::full_digest([identity.as_bytes()]);
    let blob = Blob {
        part: FilePart { end, ..part },
        name: archive.clone(),
        is_digest: false,
    };
    let mut outer = FileTree::new();
    let applied = apply(&mut outer, &cache.index(&blob, true)?, 0);
    if has_one(&outer, &["index.json", "manifest.json"]) {
        // What could not be put is no part of the image, or is missed when it is read.
        let host = Host::of_tree(outer, env, cwd);
        let Parts { layers, config } = ImageLayout { host, archive }.parts(tag)?;
        return Ok((tree(cache, &layers)?, config));
    }
    // `docker export` writes the files of a container.
    if has_one(&outer, &["usr", "etc", "bin"]) {
        applied?;
        return Ok((outer, ImageConfig::default()));
    }
    let fault = "it has no `manifest.json`, no `index.json` and no directory `usr`: it is neither an image nor an \
                 archive of a root directory";
    Err(ImageError(fault.to_owned()))
}

fn has_one(tree: &FileTree, names: &[&str]) -> bool {
    names.iter().any(|name| tree.has(Path::new(name)))
}

/// The files of all layers. Equal layers are read once.
fn tree(cache: &Cache<'_>, layers: &[ImageLayer]) -> Result<FileTree, ImageError> {
    if layers.len() > LAYERS {
        return Err(ImageError(format!("it has more than {LAYERS} layers")));
    }
    let mut different: Vec<&Blob> = layers.iter().map(|layer| &layer.blob).collect();
    different.sort_by(|a, b| a.name.cmp(&b.name));
    different.dedup_by(|a, b| a.name == b.name);
    let indexes = parallel::map_each(&different, |blob| {
        (blob.name.as_str(), cache.index(blob, false))
    });
    let indexes: BTreeMap<&str, io::Result<Index>> = indexes.into_iter().collect();
    let mut tree = FileTree::new();
    let mut members = 0;
    for (number, layer) in layers.iter().enumerate() {
        let name = &layer.name;
        let index = match &indexes[layer.blob.name.as_str()] {
            Ok(index) => index,
            Err(error) => {
                let error = error.to_string();
                return Err(ImageError(format!("layer {name}: {}", plain(&error))));
            }
        };
        members += index.members.len();
        if members > MEMBERS {
            return Err(ImageError("it has too many files".to_owned()));
        }
        apply(&mut tree, index, number)
            .map_err(|error| ImageError(format!("layer {name}: {}", error.0)))?;
    }
    Ok(tree)
}

/// Puts the files of a layer over those of the layers below it. Gives the first failure, after all others are there.
fn apply(tree: &mut FileTree, index: &Index, layer: usize) -> Result<(), ImageError> {
    let archive = tree.add_archive(index.file.clone());
    let mut applied = Ok(());
    for member in &index.members {
        applied = applied.and(put(tree, archive, member, layer));
    }
    applied
}

fn put(
    tree: &mut FileTree,
    archive: usize,
    member: &ArchiveMember,
    layer: usize,
) -> Result<(), ImageError> {
    let path = path_in_image(&member.path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parent = path.parent().unwrap_or(Path::new("/"));
    if name == OPAQUE {
        tree.remove_below(parent, layer);
        return Ok(());
    }
    if let Some(hidden) = name.strip_prefix(WHITEOUT) {
        if !hidden.is_empty() {
            tree.remove_lower(&parent.join(hidden), layer);
        }
        return Ok(());
    }
    let content = match &member.content {
        MemberContent::Directory => NewContent::Directory,
        MemberContent::File { offset, size } => NewContent::File {
            archive,
            offset: *offset,
            size: *size,
        },
        MemberContent::Link(target) => NewContent::Link(path_of(target)),
        MemberContent::Other => NewContent::Other,
        MemberContent::HardLink(same) => {
            return tree
                .put_hard_link(&path, &path_in_image(same)?, layer)
                .map_err(|error| failed(&path, &format!("its hard link: {error}")));
        }
    };
    let &ArchiveMember {
        mode,
        uid,
        gid,
        modified,
        has_capabilities,
        ..
    } = member;
    let new = NewFile {
        mode,
        uid,
        gid,
        modified,
        has_capabilities,
        content,
    };
    tree.put(&path, new, layer)
        .map_err(|error| failed(&path, &error.to_string()))
}

fn failed(path: &Path, fault: &str) -> ImageError {
    ImageError(format!("`{}`: {}", show(path), plain(fault)))
}

/// The path of a file of an archive, from the root on. Fails if it leads out.
fn path_in_image(bytes: &[u8]) -> Result<PathBuf, ImageError> {
    let path = path_of(bytes);
    let mut inside = PathBuf::from("/");
    let mut fault = bytes.contains(&0).then_some("has a NUL in its name");
    for component in path.components() {
        match component {
            Component::Normal(name) => inside.push(name),
            Component::ParentDir => fault = fault.or(Some("leads out of the image")),
            _ => {}
        }
    }
    if inside.components().count() > DEPTH {
        fault = fault.or(Some("has too many parts"));
    }
    match fault {
        Some(fault) => Err(ImageError(format!("`{}` {fault}", show(&path)))),
        None => Ok(inside),
    }
}
