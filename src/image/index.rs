//! The list of an archive's files, and a file that has their contents: the archive itself, or for a compressed one a file in
//! the cache, which is made once.
#![allow(clippy::disallowed_methods, reason = "writes a file in a directory of our own")]

use std::fs;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::frames::Frames;
use super::members::{Content, Input, Member, Part, Stream, read};
use crate::host::Host;
use crate::storage;

/// Files up to this size are kept, and larger ones if they are ELF files. Weights and static libraries are not read.
const KEPT: u64 = 16 << 20;
/// A layer that unpacks to more than its size by this factor, beyond [`SPARE`] bytes, is a bomb. NVIDIA's largest libraries
/// are compressed to a tenth.
const FACTOR: u64 = 100;
const SPARE: u64 = 1 << 30;
const PIECE: usize = 256 << 10;

/// Bytes of a file: all of it, or the part that is a file in an archive.
#[derive(Clone, Debug)]
pub(super) struct Blob {
    pub file: PathBuf,
    pub offset: u64,
    pub size: u64,
}

/// How a compressed archive is known again.
pub(super) enum Known<'k> {
    /// By the SHA-256 of its bytes, which is compared.
    Sha256(&'k str),
    /// By a name that changes with the file.
    Name(String),
}

/// An archive that can be read in place.
pub(super) struct Index {
    /// The file with the contents.
    pub data: PathBuf,
    pub members: Vec<Member>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    members: Vec<Member>,
    /// The bytes of the file with the contents.
    size: u64,
}

enum Packing {
    None,
    Gzip,
    Zstd,
}

/// Lists an archive. `directory` holds the contents of compressed ones; `all` keeps all of them.
pub(super) fn index(
    host: &Host,
    blob: &Blob,
    known: &Known<'_>,
    directory: &Path,
    all: bool,
) -> io::Result<Index> {
    let mut part = open(host, blob)?;
    let packing = packing(&mut part)?;
    part.at = blob.offset;
    if let Packing::None = packing {
        let mut members = Vec::new();
        read(&mut part, |member, _| {
            members.push(member.clone());
            Ok(())
        })?;
        return Ok(Index { data: blob.file.clone(), members });
    }
    let name = match known {
        Known::Sha256(digest) => (*digest).to_owned(),
        Known::Name(name) => name.clone(),
    };
    let data = directory.join(format!("{name}.files"));
    let list = format!("{name}.list");
    if let Some(kept) = storage::read(host, directory, &list)
        && let Ok(kept) = postcard::from_bytes::<Kept>(&kept)
        && host
            .lstat(&data)
            .is_ok_and(|stat| stat.is_file() && storage::is_ours(host, &stat) && stat.size == kept.size)
    {
        return Ok(Index { data, members: kept.members });
    }
    storage::prune(host, directory);
    // Several layers are unpacked at the same time.
    let number = u64::from_str_radix(&name[..15], 16).unwrap_or_default();
    let temporary = storage::temporary_path(host, directory);
    let temporary =
        directory.join(format!("{}-{number}", temporary.file_name().unwrap_or_default().display()));
    let unpacked = unpack(part, &packing, blob.size, &temporary, all);
    let (kept, digest) = match unpacked {
        Ok(unpacked) => unpacked,
        Err(error) => {
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
    };
    if matches!(known, Known::Sha256(expected) if *expected != digest) {
        let _ = fs::remove_file(&temporary);
        return Err(io::Error::other("its contents are not those of its digest"));
    }
    fs::rename(&temporary, &data)?;
    let bytes = postcard::to_stdvec(&kept).map_err(io::Error::other)?;
    storage::deliver(host, directory, &list, &bytes)?;
    Ok(Index { data, members: kept.members })
}

fn open(host: &Host, blob: &Blob) -> io::Result<Part> {
    let (file, size) = host.open(&blob.file)?;
    let end =
        blob.offset.checked_add(blob.size).filter(|end| *end <= size).ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok(Part { file: file.into_inner(), at: blob.offset, end })
}

/// Reads a part whole.
pub(super) fn bytes(host: &Host, blob: &Blob) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut part = open(host, blob)?;
    part.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn packing(part: &mut Part) -> io::Result<Packing> {
    let mut start = [0; 6];
    let read = part.read(&mut start)?;
    Ok(match &start[..read] {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        // A skippable frame may come first.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Packing::Zstd,
        [0xfd, b'7', b'z', b'X', b'Z', 0] => return Err(io::Error::other("it is compressed by xz")),
        [b'B', b'Z', b'h', ..] => return Err(io::Error::other("it is compressed by bzip2")),
        _ => Packing::None,
    })
}

/// Writes the contents that are kept into a file, and returns the list and the digest of the compressed bytes.
fn unpack(part: Part, packing: &Packing, size: u64, to: &Path, all: bool) -> io::Result<(Kept, String)> {
    let mut input = BufReader::with_capacity(PIECE, Hashed { part, hash: Sha256::new() });
    let limit = size.saturating_mul(FACTOR).saturating_add(SPARE);
    let kept = match packing {
        Packing::Zstd => keep(&mut Stream { inner: Frames::new(&mut input), at: 0, limit }, to, all)?,
        _ => {
            let inner = BufReader::with_capacity(PIECE, MultiGzDecoder::new(&mut input));
            keep(&mut Stream { inner, at: 0, limit }, to, all)?
        }
    };
    io::copy(&mut input, &mut io::sink())?;
    let digest = input.into_inner().hash.finalize();
    Ok((kept, digest.iter().map(|byte| format!("{byte:02x}")).collect()))
}

fn keep(input: &mut impl Input, to: &Path, all: bool) -> io::Result<Kept> {
    let file = storage::new_file(to, 0o600)?;
    let mut output = BufWriter::with_capacity(PIECE, file);
    let (mut members, mut size) = (Vec::new(), 0);
    let mut piece = vec![0; PIECE];
    read(input, |member, contents| {
        if let Content::File { offset, size: bytes } = &mut member.content {
            let mut first = read_some(contents, &mut piece)?;
            *offset = (all || *bytes <= KEPT || piece[..first].starts_with(b"\x7fELF")).then_some(size);
            while first > 0 && offset.is_some() {
                output.write_all(&piece[..first])?;
                size += first as u64;
                first = read_some(contents, &mut piece)?;
            }
        }
        members.push(member.clone());
        Ok(())
    })?;
    output.flush()?;
    Ok(Kept { members, size })
}

/// Reads a piece, or what is left.
fn read_some(input: &mut impl Read, piece: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < piece.len() {
        match input.read(&mut piece[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Computes the digest of what is read.
struct Hashed {
    part: Part,
    hash: Sha256,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.part.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}
