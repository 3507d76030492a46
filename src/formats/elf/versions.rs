//! Version nodes of an ELF file: defined ones, required ones, and the node of each symbol.

use std::collections::HashMap;

use object::elf::{
    DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM, DT_VERSYM, DynamicTag, Verdaux, Verdef,
    Vernaux, Verneed, Versym,
};
use object::pod::Pod;
use object::{LittleEndian as LE, ReadRef};

use super::Elf;

/// Symbols name their version with 15 bits.
const NODE_LIMIT: usize = 0x8000;
/// `VER_FLG_WEAK`: the loader only warns.
const WEAK: u16 = 2;

impl<'d> Elf<'d> {
    /// The version nodes that are imported from one file, `GLIBC_2.34` of `libc.so.6`.
    pub fn needed_versions(&self, file: &[u8]) -> Vec<&'d [u8]> {
        let mut nodes = self.needed_nodes();
        nodes.retain(|node| node.file == Some(file));
        nodes.into_iter().map(|node| node.name).collect()
    }

    /// The version nodes that this file defines.
    pub fn defined_versions(&self) -> Vec<&'d [u8]> {
        let nodes = self.defined_nodes();
        nodes.into_iter().map(|node| node.name).collect()
    }

    /// The file and the name of each version node without which the loader does not start.
    pub fn required_versions(&self) -> Vec<(&'d [u8], &'d [u8])> {
        let mut versions = Vec::new();
        for node in self.needed_nodes() {
            if let Some(file) = node.file
                && !node.weak
            {
                versions.push((file, node.name));
            }
        }
        versions
    }

    /// True if it defines versions. The loader checks no versions of a file that does not.
    pub fn has_versions(&self) -> bool {
        self.value(DT_VERDEF).is_some()
    }

    pub(super) fn symbol_versions(&self) -> SymbolVersions<'d> {
        let table = self.table(DT_VERSYM).unwrap_or_default();
        let mut nodes = HashMap::new();
        for node in self.needed_nodes().into_iter().chain(self.defined_nodes()) {
            nodes.insert(node.index, node);
        }
        SymbolVersions {
            indexes: table.read_slice_at(0, table.len() / 2).unwrap_or_default(),
            nodes,
        }
    }

    fn needed_nodes(&self) -> Vec<VersionNode<'d>> {
        let mut nodes = Vec::new();
        let records =
            self.chain::<Verneed<LE>>(DT_VERNEED, DT_VERNEEDNUM, |need| need.vn_next.get(LE));
        for (data, need) in records {
            let Some(file) = self.text(need.vn_file.get(LE)) else {
                continue;
            };
            let names = follow::<Vernaux<LE>>(
                data.get(need.vn_aux.get(LE) as usize..).unwrap_or_default(),
                need.vn_cnt.get(LE),
                |aux| aux.vna_next.get(LE),
            );
            for (_, aux) in names {
                let index = aux.vna_other.get(LE).0 & 0x7fff;
                if let Some(name) = self.text(aux.vna_name.get(LE)) {
                    nodes.push(VersionNode {
                        index,
                        name,
                        file: Some(file),
                        weak: aux.vna_flags.get(LE).0 & WEAK != 0,
                    });
                }
            }
            if nodes.len() >= NODE_LIMIT {
                break;
            }
        }
        nodes
    }

    fn defined_nodes(&self) -> Vec<VersionNode<'d>> {
        let records = self.chain::<Verdef<LE>>(DT_VERDEF, DT_VERDEFNUM, |def| def.vd_next.get(LE));
        let mut nodes = Vec::new();
        for (data, def) in records {
            // The base definition names the file itself and is no symbol's version.
            if def.vd_flags.get(LE).0 & 1 != 0 {
                continue;
            }
            let data = data.get(def.vd_aux.get(LE) as usize..).unwrap_or_default();
            if let Ok(aux) = data.read_at::<Verdaux<LE>>(0)
                && let Some(name) = self.text(aux.vda_name.get(LE))
            {
                nodes.push(VersionNode {
                    index: def.vd_ndx.get(LE).0 & 0x7fff,
                    name,
                    file: None,
                    weak: false,
                });
            }
        }
        nodes
    }

    fn chain<T: Pod>(
        &self,
        table: DynamicTag,
        count: DynamicTag,
        next: impl Fn(&T) -> u32,
    ) -> Vec<(&'d [u8], &'d T)> {
        let data = self.table(table).unwrap_or_default();
        let count = self
            .value(count)
            .and_then(|count| u16::try_from(count).ok())
            .unwrap_or(0);
        follow(data, count, next)
    }
}

/// A version node. An import's node names the file that must define it.
#[derive(Clone, Copy)]
pub(super) struct VersionNode<'d> {
    index: u16,
    pub(super) name: &'d [u8],
    pub(super) file: Option<&'d [u8]>,
    weak: bool,
}

/// The version node of each symbol, by its index.
pub(super) struct SymbolVersions<'d> {
    indexes: &'d [Versym<LE>],
    nodes: HashMap<u16, VersionNode<'d>>,
}

impl<'d> SymbolVersions<'d> {
    pub(super) fn of_symbol(&self, symbol: usize) -> Option<&VersionNode<'d>> {
        // The highest bit hides a symbol from the linker; 0 and 1 are local and global without a version.
        let index = self.indexes.get(symbol)?.0.get(LE).0 & 0x7fff;
        self.nodes.get(&index)
    }
}

/// A list of at most `count` records, in which each record holds the distance to the next one.
fn follow<'d, T: Pod>(
    mut data: &'d [u8],
    count: u16,
    next: impl Fn(&T) -> u32,
) -> Vec<(&'d [u8], &'d T)> {
    let mut records = Vec::new();
    for _ in 0..count {
        let Ok(record) = data.read_at::<T>(0) else {
            break;
        };
        records.push((data, record));
        let step = next(record) as usize;
        if step == 0 || step > data.len() {
            break;
        }
        data = &data[step..];
    }
    records
}
