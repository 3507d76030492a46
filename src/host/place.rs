//! The place of a guest's file on this system.
#![allow(
    clippy::disallowed_methods,
    reason = "this is a part of the door that the lint guards"
)]

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::{join_root, resolve};
use super::tree::FileTree;

/// The files of another machine.
#[derive(Clone)]
pub(super) enum Root {
    Directory(
        PathBuf,
        #[expect(
            dead_code,
            reason = "keeps a directory that its process could take away"
        )]
        Option<Arc<OwnedFd>>,
    ),
    Tree(Arc<FileTree>),
}

/// The place of a guest's file.
pub(super) enum GuestPlace<'h> {
    Real(PathBuf),
    /// At this path of the tree, which has no links.
    Tree(&'h FileTree, PathBuf),
}

impl Root {
    pub(super) fn place(&self, path: &Path, follow_last: bool) -> io::Result<GuestPlace<'_>> {
        let resolved = self.resolve(path, follow_last)?;
        Ok(match self {
            Root::Directory(root, _) => GuestPlace::Real(join_root(root, &resolved)),
            Root::Tree(tree) => GuestPlace::Tree(tree, resolved),
        })
    }

    /// Resolves an absolute path as the kernel does after `chroot`.
    pub(super) fn resolve(&self, path: &Path, follow_last: bool) -> io::Result<PathBuf> {
        resolve(path, follow_last, &mut |candidate| match self {
            Root::Directory(root, _) => target(&join_root(root, candidate)),
            Root::Tree(tree) => tree.target(candidate),
        })
    }
}

/// The target of a link; none for another file.
fn target(real: &Path) -> io::Result<Option<PathBuf>> {
    if fs::symlink_metadata(real)?.is_symlink() {
        fs::read_link(real).map(Some)
    } else {
        Ok(None)
    }
}
