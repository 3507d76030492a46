//! Files that are in no directory of this system: those of a container image, which are read in the archives of its layers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;

use super::directory::{DirectoryEntry, components, resolve};
use super::mapping::{FilePart, MappedBytes};
use super::stat::{FileId, FileKind, READ_LIMIT, Stat, not_regular};

/// No file system has this number, so no file has the identity of one on this machine.
const DEVICE: u64 = u64::MAX;
const ROOT: usize = 0;

/// A tree of files. Several names can be one file.
#[derive(Clone, Default)]
pub struct FileTree {
    nodes: Vec<TreeNode>,
    /// The files that hold the contents. One that stays open stays as it is, even if another one gets its name.
    archives: Vec<Arc<File>>,
}

#[derive(Clone)]
struct TreeNode {
    stat: Stat,
    /// True if a program gets capabilities from the file.
    has_capabilities: bool,
    /// The last layer that hid what lower layers have below this directory.
    cleared_by: Option<usize>,
    content: NodeContent,
}

/// A name in a directory.
#[derive(Clone, Copy)]
struct Child {
    node: usize,
    /// The number of the layer that brought the name, which may be one more name of a lower layer's file.
    layer: usize,
}

/// A file as a layer describes it.
pub struct NewFile {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Seconds.
    pub modified: i64,
    pub has_capabilities: bool,
    pub content: NewContent,
}

pub enum NewContent {
    Directory,
    Link(PathBuf),
    /// `size` bytes of an archive from `offset` on; without an offset they were not kept.
    File {
        archive: usize,
        offset: Option<u64>,
        size: u64,
    },
    /// A fifo, a socket, a device.
    Other,
}

#[derive(Clone)]
enum NodeContent {
    Directory(BTreeMap<OsString, Child>),
    Link(PathBuf),
    File { archive: usize, offset: Option<u64> },
    Other,
}

impl FileTree {
    pub fn new() -> FileTree {
        let mut tree = FileTree::default();
        tree.add(FileTree::directory());
        tree
    }

    fn directory() -> NewFile {
        NewFile {
            mode: 0o755,
            uid: 0,
            gid: 0,
            modified: 0,
            has_capabilities: false,
            content: NewContent::Directory,
        }
    }

    /// Adds a file with contents, and returns its number.
    pub fn add_archive(&mut self, file: Arc<File>) -> usize {
        self.archives.push(file);
        self.archives.len() - 1
    }

    fn add(&mut self, new: NewFile) -> usize {
        let id = FileId {
            device: DEVICE,
            inode: self.nodes.len() as u64 + 1,
        };
        let (kind, size, content) = match new.content {
            NewContent::Directory => (
                FileKind::Directory,
                0,
                NodeContent::Directory(BTreeMap::new()),
            ),
            NewContent::Link(target) => (
                FileKind::Link,
                target.as_os_str().len() as u64,
                NodeContent::Link(target),
            ),
            NewContent::File {
                archive,
                offset,
                size,
            } => (FileKind::File, size, NodeContent::File { archive, offset }),
            NewContent::Other => (FileKind::Other, 0, NodeContent::Other),
        };
        let stat = Stat {
            kind,
            id,
            size,
            mode: new.mode,
            uid: new.uid,
            gid: new.gid,
            modified: (new.modified, 0),
            changed: (new.modified, 0),
        };
        self.nodes.push(TreeNode {
            stat,
            has_capabilities: new.has_capabilities,
            cleared_by: None,
            content,
        });
        self.nodes.len() - 1
    }

    /// Puts a file at a path, as unpacking a layer over the layers below does: directories are merged, everything else is
    /// replaced. Links above it are followed inside the tree.
    pub fn put(&mut self, path: &Path, new: NewFile, layer: usize) -> io::Result<()> {
        let Some((parent, name)) = self.parent(path, layer)? else {
            self.nodes[ROOT].stat.mode = new.mode;
            return Ok(());
        };
        let lower = self.children(parent)?.get(&name).map(|child| child.node);
        let is_directory = matches!(new.content, NewContent::Directory);
        let node = match lower {
            Some(lower) if is_directory && self.nodes[lower].stat.is_directory() => {
                let stat = &mut self.nodes[lower].stat;
                stat.mode = new.mode;
                stat.uid = new.uid;
                stat.gid = new.gid;
                lower
            }
            _ => self.add(new),
        };
        self.set_child(parent, name, Child { node, layer })
    }

    /// Gives a file another name. Fails if there is no such file.
    pub fn put_hard_link(&mut self, path: &Path, same: &Path, layer: usize) -> io::Result<()> {
        let (parent, name) = self.find_parent(same)?.ok_or(Errno::ENOENT)?;
        let node = self.child(parent, &name)?.node;
        if self.nodes[node].stat.is_directory() {
            return Err(Errno::EPERM.into());
        }
        let (parent, name) = self.parent(path, layer)?.ok_or(Errno::ENOENT)?;
        self.set_child(parent, name, Child { node, layer })
    }

    /// Removes what lower layers have at a path.
    pub fn remove_lower(&mut self, path: &Path, layer: usize) {
        let Ok(Some((parent, name))) = self.find_parent(path) else {
            return;
        };
        let Ok(child) = self.child(parent, &name) else {
            return;
        };
        if child.layer == layer {
            // This layer has it as well: what remains is what the layer brought.
            self.clear_lower(child.node, layer);
        } else if let NodeContent::Directory(children) = &mut self.nodes[parent].content {
            children.remove(&name);
        }
    }

    /// Removes all that lower layers have below a directory.
    pub fn remove_below(&mut self, path: &Path, layer: usize) {
        let Ok(resolved) = self.resolve(path) else {
            return;
        };
        if let Ok(node) = self.find(&resolved) {
            self.clear_lower(node, layer);
        }
    }

    fn clear_lower(&mut self, directory: usize, layer: usize) {
        let mut pending = vec![directory];
        while let Some(number) = pending.pop() {
            let node = &mut self.nodes[number];
            let NodeContent::Directory(children) = &mut node.content else {
                continue;
            };
            // A layer can repeat a mark, and nothing of lower layers comes back.
            if node.cleared_by.replace(layer) != Some(layer) {
                children.retain(|_, child| child.layer == layer);
                pending.extend(children.values().map(|child| child.node));
            }
        }
    }

    /// Reads a regular file whole, through links.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(&self.resolve(path)?)?
            .take(READ_LIMIT)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// True if there is a file at this path.
    pub fn has(&self, path: &Path) -> bool {
        self.resolve(path)
            .is_ok_and(|resolved| self.find(&resolved).is_ok())
    }

    /// The entries of a directory, sorted by name.
    pub fn list(&self, path: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.entries(&self.resolve(path)?)
    }

    /// The directory of a path and its name there; none for the root. The layer brings the directories above it, too.
    fn parent(&mut self, path: &Path, layer: usize) -> io::Result<Option<(usize, OsString)>> {
        let Some(name) = path.file_name() else {
            return Ok(None);
        };
        let directory = path.parent().unwrap_or(Path::new("/"));
        let resolved = self.follow(directory, MissingFile::Kept)?;
        let mut parent = ROOT;
        for name in components(&resolved) {
            let node = match self.children(parent)?.get(&name) {
                Some(child) => child.node,
                None => self.add(FileTree::directory()),
            };
            self.set_child(parent, name, Child { node, layer })?;
            parent = node;
        }
        Ok(Some((parent, name.to_owned())))
    }

    fn find_parent(&self, path: &Path) -> io::Result<Option<(usize, OsString)>> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(None);
        };
        let node = self.find(&self.resolve(directory)?)?;
        Ok(Some((node, name.to_owned())))
    }

    fn child(&self, parent: usize, name: &OsStr) -> io::Result<Child> {
        let child = self.children(parent)?.get(name).copied();
        Ok(child.ok_or(Errno::ENOENT)?)
    }

    fn children(&self, node: usize) -> io::Result<&BTreeMap<OsString, Child>> {
        match &self.nodes[node].content {
            NodeContent::Directory(children) => Ok(children),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    fn set_child(&mut self, parent: usize, name: OsString, child: Child) -> io::Result<()> {
        match &mut self.nodes[parent].content {
            NodeContent::Directory(children) => _ = children.insert(name, child),
            _ => return Err(Errno::ENOTDIR.into()),
        }
        Ok(())
    }

    /// Resolves every link of a path.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        self.follow(path, MissingFile::Error)
    }

    fn follow(&self, path: &Path, missing: MissingFile) -> io::Result<PathBuf> {
        resolve(path, true, &mut |candidate| match self.target(candidate) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && missing == MissingFile::Kept =>
            {
                Ok(None)
            }
            target => target,
        })
    }

    /// The file at a path without links.
    fn find(&self, resolved: &Path) -> io::Result<usize> {
        let mut node = ROOT;
        for name in components(resolved) {
            node = self.child(node, &name)?.node;
        }
        Ok(node)
    }

    pub(super) fn lstat(&self, resolved: &Path) -> io::Result<Stat> {
        self.find(resolved).map(|node| self.nodes[node].stat)
    }

    pub(super) fn read_link(&self, resolved: &Path) -> io::Result<PathBuf> {
        self.target(resolved)?.ok_or_else(|| Errno::EINVAL.into())
    }

    /// The target of a link; none for another file.
    pub(super) fn target(&self, resolved: &Path) -> io::Result<Option<PathBuf>> {
        match &self.nodes[self.find(resolved)?].content {
            NodeContent::Link(target) => Ok(Some(target.clone())),
            _ => Ok(None),
        }
    }

    pub(super) fn has_capabilities(&self, resolved: &Path) -> bool {
        self.find(resolved)
            .is_ok_and(|node| self.nodes[node].has_capabilities)
    }

    pub(super) fn entries(&self, resolved: &Path) -> io::Result<Vec<DirectoryEntry>> {
        let children = self.children(self.find(resolved)?)?;
        let mut entries = Vec::new();
        for (name, child) in children {
            entries.push(DirectoryEntry {
                name: name.clone(),
                kind: self.nodes[child.node].stat.kind,
            });
        }
        Ok(entries)
    }

    /// The contents of a regular file.
    pub(super) fn open(&self, resolved: &Path) -> io::Result<FilePart> {
        let node = &self.nodes[self.find(resolved)?];
        match node.content {
            NodeContent::File {
                archive,
                offset: Some(offset),
            } => Ok(FilePart {
                file: self.archives[archive].clone(),
                start: offset,
                end: offset.saturating_add(node.stat.size),
            }),
            NodeContent::File { offset: None, .. } => Err(Errno::EFBIG.into()),
            _ => Err(not_regular()),
        }
    }

    pub(super) fn map(&self, resolved: &Path) -> io::Result<MappedBytes> {
        let part = self.open(resolved)?;
        MappedBytes::part(&part.file, part.start, part.size())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingFile {
    Error,
    Kept,
}
