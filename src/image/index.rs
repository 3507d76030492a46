//! The list of an archive's files, and a file that has their contents: the archive itself, or for a compressed one a file in
//! the cache, which is made once.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};

use super::frames::Frames;
use super::members::{ArchiveMember, Input, MemberContent, Stream, fill, read};
use crate::host::{FilePart, Host, judge_own};
use crate::storage;
use crate::text::hexadecimal;

/// Files up to this size are kept, and larger ones if they are ELF files. Weights and static libraries are not read.
const KEPT: u64 = 16 << 20;
/// An image that unpacks to more than its size by this factor, beyond [`SPARE`] bytes, is a bomb. NVIDIA's largest libraries
/// are compressed to a tenth.
const FACTOR: u64 = 100;
const SPARE: u64 = 1 << 30;
const PIECE: usize = 256 << 10;
/// Ends a file of the cache, after the contents, the list and its length in eight bytes. It changes with [`ArchiveMember`].
const FORMAT: &[u8; 8] = b"layers 1";

/// Bytes of a file: all of it, or the part that is a file in an archive.
#[derive(Clone)]
pub(super) struct Blob {
    pub part: FilePart,
    /// Its name in the cache, which changes with its contents.
    pub name: String,
    /// True if the name is the SHA-256 of the bytes.
    pub is_digest: bool,
}

/// An archive that can be read in place.
pub(super) struct Index {
    /// The file with the contents.
    pub file: Arc<File>,
    pub members: Vec<ArchiveMember>,
}

/// The directory for contents of compressed archives, and the bytes that an image may still unpack to.
pub(super) struct Cache<'h> {
    pub host: &'h Host,
    pub directory: PathBuf,
    left: AtomicU64,
}

enum Packing {
    None,
    Gzip,
    Zstd,
}

impl Blob {
    /// Reads it whole.
    pub(super) fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.part.clone().read_to_end(&mut bytes)?;
        self.check(Sha256::new_with_prefix(&bytes))?;
        Ok(bytes)
    }

    fn check(&self, hash: Sha256) -> io::Result<()> {
        if self.is_digest && hexadecimal(&hash.finalize()) != self.name {
            return Err(io::Error::other("its contents are not those of its digest"));
        }
        Ok(())
    }
}

impl Cache<'_> {
    pub(super) fn new(host: &Host, directory: PathBuf) -> Cache<'_> {
        Cache {
            host,
            directory,
            left: AtomicU64::new(SPARE),
        }
    }

    /// Allows an image with so many bytes to be unpacked.
    pub(super) fn allow(&self, size: u64) {
        self.left
            .fetch_add(size.saturating_mul(FACTOR).min(1 << 50), Ordering::Relaxed);
    }

    /// Lists an archive, which can have layers.
    pub(super) fn index(&self, blob: &Blob, has_layers: bool) -> io::Result<Index> {
        let mut start = [0; 6];
        let length = fill(&mut blob.part.clone(), &mut start)?;
        let packing = packing(&start[..length])?;
        if let Packing::None = packing {
            let mut part = blob.part.clone();
            let mut members = Vec::new();
            read(&mut part, |member, _| {
                members.push(member.clone());
                Ok(())
            })?;
            return Ok(Index {
                file: part.file,
                members,
            });
        }
        let path = self.directory.join(format!("{}.layer", blob.name));
        if let Some(index) = self.cached(&path) {
            return Ok(index);
        }
        let unfinished = storage::temporary_file(&self.directory, 0o600)?;
        self.unpack(blob, &packing, has_layers, unfinished.as_file())?;
        unfinished.persist(&path)?;
        self.cached(&path)
            .ok_or_else(|| io::Error::other("it is not in the cache, where it was unpacked"))
    }

    /// Reads the list of an archive that was unpacked, and stamps it as used.
    fn cached(&self, path: &Path) -> Option<Index> {
        judge_own(self.host, &self.directory).ok()?;
        let stat = self.host.lstat(path).ok()?;
        let (part, _) = self.host.open(path).ok()?;
        if !storage::is_ours(self.host, &stat) {
            return None;
        }
        let _ = part.file.set_modified(self.host.started);
        let bytes = self.host.map(path).ok()?;
        let (bytes, format) = bytes.split_last_chunk()?;
        if format != FORMAT {
            return None;
        }
        let (bytes, length) = bytes.split_last_chunk()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let members = postcard::from_bytes(&bytes[bytes.len().checked_sub(length)?..]).ok()?;
        Some(Index {
            file: part.file,
            members,
        })
    }

    /// Writes the contents that are kept into a file, and the list.
    fn unpack(
        &self,
        blob: &Blob,
        packing: &Packing,
        has_layers: bool,
        file: &File,
    ) -> io::Result<()> {
        let hashed = Hashed {
            part: blob.part.clone(),
            hash: Sha256::new(),
        };
        let mut input = BufReader::with_capacity(PIECE, hashed);
        let mut output = BufWriter::with_capacity(PIECE, file);
        let plain: Box<dyn Read> = match packing {
            Packing::Zstd => Box::new(Frames::new(&mut input)),
            _ => Box::new(BufReader::with_capacity(
                PIECE,
                MultiGzDecoder::new(&mut input),
            )),
        };
        let stream = Stream {
            inner: plain,
            position: 0,
            left: &self.left,
        };
        let members = keep(stream, has_layers, &mut output)?;
        io::copy(&mut input, &mut io::sink())?;
        blob.check(input.into_inner().hash)?;
        let list = postcard::to_stdvec(&members).map_err(io::Error::other)?;
        output.write_all(&list)?;
        output.write_all(&(list.len() as u64).to_le_bytes())?;
        output.write_all(FORMAT)?;
        output.flush()
    }
}

fn packing(start: &[u8]) -> io::Result<Packing> {
    Ok(match start {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        // A skippable frame may come first.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            return Err(io::Error::other("it is compressed by xz"));
        }
        [b'B', b'Z', b'h', ..] => return Err(io::Error::other("it is compressed by bzip2")),
        _ => Packing::None,
    })
}

/// Writes the contents that are read later.
fn keep(
    mut input: impl Input,
    has_layers: bool,
    output: &mut impl Write,
) -> io::Result<Vec<ArchiveMember>> {
    let mut members = Vec::new();
    let mut written = 0;
    let mut piece = vec![0; PIECE];
    read(&mut input, |member, contents| {
        if let MemberContent::File { offset, size } = &mut member.content {
            let mut length = fill(contents, &mut piece)?;
            let start = &piece[..length];
            let is_kept =
                *size <= KEPT || start.starts_with(b"\x7fELF") || has_layers && is_archive(start);
            *offset = is_kept.then_some(written);
            while length > 0 && is_kept {
                output.write_all(&piece[..length])?;
                written += length as u64;
                length = fill(contents, &mut piece)?;
            }
        }
        members.push(member.clone());
        Ok(())
    })?;
    Ok(members)
}

fn is_archive(start: &[u8]) -> bool {
    start.get(257..262) == Some(b"ustar") || !matches!(packing(start), Ok(Packing::None))
}

/// Computes the digest of what is read.
struct Hashed {
    part: FilePart,
    hash: Sha256,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.part.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}
