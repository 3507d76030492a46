//! The version nodes of an ELF file: those it defines, those it asks of others, and which symbol has which.

use std::collections::HashMap;

use object::elf::{
    DT_VERDEF, DT_VERDEFNUM, DT_VERNEED, DT_VERNEEDNUM, DT_VERSYM, DynamicTag, Verdaux, Verdef, Vernaux,
    Verneed, Versym,
};
use object::pod::Pod;
use object::{LittleEndian as LE, ReadRef};

use super::Elf;

/// Symbols name their version with 15 bits.
const NODE_LIMIT: usize = 0x8000;
/// `VER_FLG_WEAK`: the loader does without.
const WEAK: u16 = 2;

impl<'d> Elf<'d> {
    /// The names of the version nodes of one needed file, `GLIBC_2.34` of `libc.so.6`.
    pub fn needed_versions(&self, file: &[u8]) -> Vec<&'d [u8]> {
        let of_file = |node: &Node<'d>| node.file == Some(file);
        self.needed_nodes().into_iter().filter(of_file).map(|node| node.name).collect()
    }

    /// The names of the version nodes that this file defines.
    pub fn defined_versions(&self) -> Vec<&'d [u8]> {
        self.defined_nodes().into_iter().map(|node| node.name).collect()
    }

    /// What the loader wants of other files, or does not start: a file, and a version node of it.
    pub fn required_versions(&self) -> Vec<(&'d [u8], &'d [u8])> {
        let required = self.needed_nodes().into_iter().filter(|node| !node.weak);
        required.filter_map(|node| Some((node.file?, node.name))).collect()
    }

    /// Whether it defines versions at all: of a file that does not, the loader checks none.
    pub fn has_versions(&self) -> bool {
        self.value(DT_VERDEF).is_some()
    }

    /// The version of each symbol, by the symbol's index.
    pub(super) fn versions(&self) -> impl Fn(usize) -> Option<Node<'d>> {
        let table = self.value(DT_VERSYM).and_then(|address| self.data_at(address)).unwrap_or_default();
        let versyms: &'d [Versym<LE>] = table.read_slice_at(0, table.len() / 2).unwrap_or_default();
        let mut nodes = self.needed_nodes();
        nodes.extend(self.defined_nodes());
        let by_index: HashMap<u16, Node<'d>> = nodes.into_iter().map(|node| (node.index, node)).collect();
        // The highest bit hides a symbol from the linker; 0 and 1 are local and global without a version.
        move |symbol| by_index.get(&(versyms.get(symbol)?.0.get(LE).0 & 0x7fff)).copied()
    }

    fn needed_nodes(&self) -> Vec<Node<'d>> {
        let mut nodes = Vec::new();
        let records = self.chain::<Verneed<LE>>(DT_VERNEED, DT_VERNEEDNUM, |need| need.vn_next.get(LE));
        for (data, need) in records {
            let Some(file) = self.text(need.vn_file.get(LE)) else { continue };
            let names = follow::<Vernaux<LE>>(
                data.get(need.vn_aux.get(LE) as usize..).unwrap_or_default(),
                need.vn_cnt.get(LE),
                |aux| aux.vna_next.get(LE),
            );
            for (_, aux) in names {
                let index = aux.vna_other.get(LE).0 & 0x7fff;
                if let Some(name) = self.text(aux.vna_name.get(LE)) {
                    let weak = aux.vna_flags.get(LE).0 & WEAK != 0;
                    nodes.push(Node { index, name, file: Some(file), weak });
                }
            }
            if nodes.len() >= NODE_LIMIT {
                break;
            }
        }
        nodes
    }

    fn defined_nodes(&self) -> Vec<Node<'d>> {
        let records = self.chain::<Verdef<LE>>(DT_VERDEF, DT_VERDEFNUM, |def| def.vd_next.get(LE));
        let name_of = |data: &'d [u8], def: &Verdef<LE>| {
            let aux: &Verdaux<LE> = data.get(def.vd_aux.get(LE) as usize..)?.read_at(0).ok()?;
            let name = self.text(aux.vda_name.get(LE))?;
            Some(Node { index: def.vd_ndx.get(LE).0 & 0x7fff, name, file: None, weak: false })
        };
        // The first definition names the file itself; no symbol has it for its version.
        let is_base = |def: &Verdef<LE>| def.vd_flags.get(LE).0 & 1 != 0;
        records
            .into_iter()
            .filter(|(_, def)| !is_base(def))
            .filter_map(|(data, def)| name_of(data, def))
            .collect()
    }

    fn chain<T: Pod>(
        &self,
        table: DynamicTag,
        count: DynamicTag,
        next: impl Fn(&T) -> u32,
    ) -> Vec<(&'d [u8], &'d T)> {
        let data = self.value(table).and_then(|address| self.data_at(address)).unwrap_or_default();
        let count = self.value(count).and_then(|count| u16::try_from(count).ok()).unwrap_or(0);
        follow(data, count, next)
    }
}

/// A version node of a symbol: its own name, and for an import the file it is expected from.
#[derive(Clone, Copy)]
pub(super) struct Node<'d> {
    index: u16,
    pub(super) name: &'d [u8],
    pub(super) file: Option<&'d [u8]>,
    weak: bool,
}

/// A list of records each of which says how far the next one is; the file's own count bounds it.
fn follow<'d, T: Pod>(mut data: &'d [u8], count: u16, next: impl Fn(&T) -> u32) -> Vec<(&'d [u8], &'d T)> {
    let mut records = Vec::new();
    for _ in 0..count {
        let Ok(record) = data.read_at::<T>(0) else { break };
        records.push((data, record));
        let step = next(record) as usize;
        if step == 0 || step > data.len() {
            break;
        }
        data = &data[step..];
    }
    records
}
