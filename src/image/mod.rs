//! Container images as machines, without unpacking them: `--root oci:DIR[:TAG]` and `--root ARCHIVE[:TAG]`. Files are read
//! where they are; a compressed layer is unpacked once into the cache. Archives are hostile: nothing is written by a name
//! from them, and what they can make us read or write has limits.

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
    named(host, root).is_some()
}

/// Splits `--root` into the place of an image and its tag.
fn named(host: &Host, root: &Path) -> Option<(PathBuf, Option<String>)> {
    let text = root.as_os_str().as_bytes();
    let oci = text.strip_prefix(OCI.as_bytes());
    let bytes = oci.unwrap_or(text);
    let place = |end: usize| host.absolute(&path_of(&bytes[..end]));
    let is_layout = |place: &Path| match oci {
        Some(_) => host.is_directory(place),
        None => host.is_file(&place.join("oci-layout")),
    };
    let is_there = |end: &usize| is_layout(&place(*end)) || host.is_file(&place(*end));
    // A tag has no slash, and the name of an image in Docker's archives has colons of its own.
    let ends = memchr::memchr_iter(b':', bytes).chain([bytes.len()]);
    let is_plain = oci.is_some() && !bytes.contains(&b':');
    let end = ends
        .filter(is_there)
        .last()
        .or(is_plain.then_some(bytes.len()))?;
    let tag = bytes
        .get(end + 1..)
        .map(|tag| String::from_utf8_lossy(tag).into_owned());
    Some((place(end), tag))
}

impl Image {
    /// Reads the list of an image's files. `host` is this machine.
    pub fn open(host: &Host, root: &Path) -> Result<Image, ImageError> {
        let Some((place, tag)) = named(host, root) else {
            return Err(ImageError("there is no such image".to_owned()));
        };
        let (directory, _kept) = directory(host)?;
        let cache = Cache::new(host, directory);
        let (tree, config) = files(&cache, &place, tag.as_deref())?;
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
        let cwd = start
            .working_dir
            .filter(|cwd| cwd.starts_with('/'))
            .unwrap_or_else(|| "/".to_owned());
        Ok(Image {
            tree,
            env,
            cwd: cwd.into(),
            architecture,
        })
    }

    /// Mounts the driver of a node into the image, as a container there would have it.
    pub fn mount_driver_of(&mut self, node: &ContainerNode) -> Result<(), MountError> {
        let is_other = |own: &&String| **own != node.architecture;
        if let Some(own) = self.architecture.as_ref().filter(is_other) {
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
    let kept = tempfile::Builder::new()
        .prefix("cudarun-layers-")
        .tempdir()?;
    Ok((kept.path().to_owned(), Some(kept)))
}

/// The files of an image and its configuration, or those of a root directory in an archive.
fn files(
    cache: &Cache<'_>,
    place: &Path,
    tag: Option<&str>,
) -> Result<(FileTree, ImageConfig), ImageError> {
    let (env, cwd) = (Environment::default(), PathBuf::from("/"));
    if cache.host.is_directory(place) {
        let host = Host::at(place, env, cwd)?;
        let archive = String::new();
        let Parts { layers, config } = ImageLayout { host, archive }.parts(tag)?;
        cache.allow(layers.iter().map(|layer| layer.blob.part.size()).sum());
        return Ok((tree(cache, &layers)?, config));
    }
    let (part, end) = cache.host.open(place)?;
    cache.allow(end);
    let seen = part.file.metadata()?;
    let times = (
        seen.mtime(),
        seen.mtime_nsec(),
        seen.ctime(),
        seen.ctime_nsec(),
    );
    let archive =
        storage::full_digest([format!("{:?}", (seen.dev(), seen.ino(), end, times)).as_bytes()]);
    let blob = Blob {
        part: FilePart { end, ..part },
        name: archive.clone(),
        is_digest: false,
    };
    let mut outer = FileTree::new();
    let applied = apply(&mut outer, &cache.index(&blob, true)?, 0);
    let has_one = |names: &[&str]| names.iter().any(|name| outer.has(Path::new(name)));
    if has_one(&["index.json", "manifest.json"]) {
        // What could not be put is no part of the image, or is missed when it is read.
        let host = Host::of_tree(outer, env, cwd);
        let Parts { layers, config } = ImageLayout { host, archive }.parts(tag)?;
        return Ok((tree(cache, &layers)?, config));
    }
    // `docker export` writes the files of a container.
    if has_one(&["usr", "etc", "bin"]) {
        applied?;
        return Ok((outer, ImageConfig::default()));
    }
    let why = "it has no `manifest.json`, no `index.json` and no directory `usr`: it is neither an image nor an \
               archive of a root directory";
    Err(ImageError(why.to_owned()))
}

/// The files of all layers. Equal layers are read once.
fn tree(cache: &Cache<'_>, layers: &[ImageLayer]) -> Result<FileTree, ImageError> {
    if layers.len() > LAYERS {
        return Err(ImageError(format!("it has more than {LAYERS} layers")));
    }
    let different: BTreeMap<&str, &ImageLayer> = layers
        .iter()
        .map(|layer| (layer.blob.name.as_str(), layer))
        .collect();
    let different: Vec<(&str, &ImageLayer)> = different.into_iter().collect();
    let indexed = parallel::map_each(&different, |(name, layer)| {
        (*name, cache.index(&layer.blob, false))
    });
    let indexed: BTreeMap<&str, io::Result<Index>> = indexed.into_iter().collect();
    let (mut tree, mut members) = (FileTree::new(), 0);
    for (number, layer) in layers.iter().enumerate() {
        let failed = |why: &str| ImageError(format!("layer {}: {why}", layer.name));
        let index = indexed[layer.blob.name.as_str()]
            .as_ref()
            .map_err(|error| failed(plain(&error.to_string())))?;
        members += index.members.len();
        if members > MEMBERS {
            return Err(ImageError("it has too many files".to_owned()));
        }
        apply(&mut tree, index, number).map_err(|error| failed(&error.0))?;
    }
    Ok(tree)
}

/// Puts the files of a layer over those of the layers below it. Returns the first failure, after all others are there.
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
    let path = inside(&member.path)?;
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
    let failed = |what: &str, error: &io::Error| {
        let why = error.to_string();
        ImageError(format!("`{}`: {what}{}", show(&path), plain(&why)))
    };
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
            let same = inside(same)?;
            let linked = tree.put_hard_link(&path, &same, layer);
            return linked.map_err(|error| failed("its hard link: ", &error));
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
        .map_err(|error| failed("", &error))
}

/// The path of a file of an archive, from the root on. Fails if it leads out.
fn inside(bytes: &[u8]) -> Result<PathBuf, ImageError> {
    let given = path_of(bytes);
    let refused = |why: &str| Err(ImageError(format!("`{}` {why}", show(&given))));
    let mut inside = PathBuf::from("/");
    if bytes.contains(&0) {
        return refused("has a NUL in its name");
    }
    for component in given.components() {
        match component {
            Component::Normal(name) => inside.push(name),
            Component::ParentDir => return refused("leads out of the image"),
            _ => {}
        }
    }
    if inside.components().count() > DEPTH {
        return refused("has too many parts");
    }
    Ok(inside)
}
