//! Files of one machine that become files of another one.

use std::io;
use std::path::Path;

use super::Host;
use super::place::Place;
use super::stat::not_regular;
use super::tree::Tree;

impl Host {
    /// Gives a tree one of this machine's files, under the path `to`. A link stays a link.
    pub fn graft(&self, path: &Path, tree: &mut Tree, to: &Path, layer: usize) -> io::Result<()> {
        let stat = self.lstat(path)?;
        match self.place(path, false)? {
            Place::Real(real) => tree.put_copy(&real, to, stat, layer),
            Place::Tree(..) => Err(not_regular()),
        }
    }
}
