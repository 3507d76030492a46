//! Where a file of the guest is on this system.
#![allow(clippy::disallowed_methods, reason = "this is a part of the door that the lint guards")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Host;
use super::directory::{join_root, resolve};
use super::record::PathUse;
use super::tree::Tree;

/// The files of another machine.
#[derive(Clone)]
pub(super) enum Root {
    Directory(PathBuf),
    Tree(Arc<Tree>),
}

/// Where a file of the guest is.
pub(super) enum Place<'h> {
    Real(PathBuf),
    /// At this path of the tree, which has no links.
    Tree(&'h Tree, PathBuf),
}

impl Host {
    /// Gives a tree one of this machine's files, under the path `to`. A link stays a link.
    pub fn graft(&self, path: &Path, tree: &mut Tree, to: &Path, layer: usize) -> io::Result<()> {
        let stat = self.lstat(path)?;
        match self.place(path, false)? {
            Place::Real(real) => tree.put_copy(&real, to, stat, layer),
            Place::Tree(..) => Err(super::not_regular()),
        }
    }

    pub(super) fn place(&self, path: &Path, follow_last: bool) -> io::Result<Place<'_>> {
        let Some(root) = &self.root else { return Ok(Place::Real(path.to_owned())) };
        let resolved = self.resolve(root, path, follow_last)?;
        Ok(match root {
            Root::Directory(root) => Place::Real(join_root(root, &resolved)),
            Root::Tree(tree) => Place::Tree(tree, resolved),
        })
    }

    /// Resolves a path as the kernel does after `chroot`.
    pub(super) fn resolve(&self, root: &Root, path: &Path, follow_last: bool) -> io::Result<PathBuf> {
        let looked = |candidate: &Path| {
            if let Some(record) = &self.record {
                record.note(candidate, PathUse::Looked);
            }
        };
        let mut link = |candidate: &Path, is_last: bool| {
            let target = match root {
                Root::Directory(root) => target(&join_root(root, candidate)),
                Root::Tree(tree) => tree.target(candidate),
            };
            if is_last || matches!(target, Ok(Some(_))) {
                looked(candidate);
            }
            target
        };
        let resolved = resolve(&self.cwd.join(path), follow_last, &mut link)?;
        if !follow_last {
            looked(&resolved);
        }
        Ok(resolved)
    }
}

/// The target of a link; none for another file.
fn target(real: &Path) -> io::Result<Option<PathBuf>> {
    if fs::symlink_metadata(real)?.is_symlink() { fs::read_link(real).map(Some) } else { Ok(None) }
}
