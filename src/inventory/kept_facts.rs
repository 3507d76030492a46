//! Facts about files that earlier scans read, kept for the next scan.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::scan_cache::ScanCache;
use crate::host::Host;
use crate::storage;

/// The file that holds the facts.
const FACTS: &str = "facts";
/// More bytes would take longer to read than they save.
const FACTS_LIMIT: usize = 32 << 20;

/// Device, inode and time of modification of a binary.
type Identity = (u64, u64, (i64, i64));

/// Returns the facts about files of this machine that this binary has kept.
pub fn load(host: &Host, directories: &[PathBuf]) -> ScanCache {
    let read = |directory: &PathBuf| storage::read(host, directory, FACTS);
    let known = directories.iter().find_map(read).and_then(|bytes| {
        let (sum, facts) = bytes.split_first_chunk()?;
        if u64::from_le_bytes(*sum) != checksum(facts) {
            return None;
        }
        let (by, known): (Identity, ScanCache) = postcard::from_bytes(facts).ok()?;
        (Some(by) == own_identity(host)).then_some(known)
    });
    known.unwrap_or_default()
}

/// Detects a damaged file. It guards against no attacker: only this user can write to the directory.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

pub fn save(host: &Host, directory: &Path, known: &mut ScanCache) {
    known.tidy();
    let facts = own_identity(host).and_then(|by| postcard::to_stdvec(&(by, &*known)).ok());
    if let Some(facts) = facts.filter(|facts| facts.len() < FACTS_LIMIT) {
        storage::write(
            host,
            directory,
            FACTS,
            &[&checksum(&facts).to_le_bytes(), facts.as_slice()].concat(),
        );
    }
}

/// Identifies this binary, since another one may store the facts in another format.
fn own_identity(host: &Host) -> Option<Identity> {
    let own = host.stat(Path::new("/proc/self/exe")).ok()?;
    Some((own.id.device, own.id.inode, own.modified))
}
