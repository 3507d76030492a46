//! The files of a tar archive, one after the other, with limits for archives of strangers.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::formats::tar::{BLOCK, TarHeader, kind, text};
use crate::host::FilePart;

/// More files than any image has.
pub(super) const MEMBERS: usize = 4_000_000;
/// Bytes of their names: those of a million files.
const NAMES: usize = 128 << 20;
/// The largest extended header: attributes have 64 KiB.
const EXTENDED: u64 = 1 << 20;
/// Linux's longest path, in bytes.
const PATH: usize = 4096;

/// A file of an archive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ArchiveMember {
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    pub content: MemberContent,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified: i64,
    pub has_capabilities: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum MemberContent {
    Directory,
    /// `offset` into the file that has the contents; none if they were not kept.
    File {
        offset: Option<u64>,
        size: u64,
    },
    Link(#[serde(with = "serde_bytes")] Vec<u8>),
    HardLink(#[serde(with = "serde_bytes")] Vec<u8>),
    Other,
}

/// Bytes that are read once, in order.
pub(super) trait Input: Read {
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
    fn position(&self) -> u64;
}

/// Skipping reads nothing.
impl Input for FilePart {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        if bytes > self.size() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.start += bytes;
        Ok(())
    }

    fn position(&self) -> u64 {
        self.start
    }
}

/// Bytes out of a decompressor, of which there may not be endlessly many.
pub(super) struct Stream<'b, R> {
    pub inner: R,
    pub position: u64,
    /// The bytes that can still come out of all archives of the image.
    pub left: &'b AtomicU64,
}

impl<R: Read> Read for Stream<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.position += read as u64;
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(read as u64)
            });
        match taken {
            Ok(_) => Ok(read),
            Err(_) => Err(io::Error::other("it unpacks to far more than it is")),
        }
    }
}

impl<R: Read> Input for Stream<'_, R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let mut skipped = self.by_ref().take(bytes);
        if io::copy(&mut skipped, &mut io::sink())? == bytes {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn position(&self) -> u64 {
        self.position
    }
}

/// Calls `each` for every file, with the input at its contents. Bytes that `each` leaves are skipped.
pub(super) fn read<I: Input>(
    input: &mut I,
    mut each: impl FnMut(&mut ArchiveMember, &mut io::Take<&mut I>) -> io::Result<()>,
) -> io::Result<()> {
    let mut members = 0;
    let mut names = 0;
    while let Some((header, has_capabilities)) = header(input, members == 0)? {
        members += 1;
        names += header.path.len() + header.link.len();
        if members > MEMBERS || names > NAMES {
            return Err(io::Error::other("it has too many files"));
        }
        let is_file = kind::FILES.contains(&header.kind);
        // Version 7 of Unix marked directories by their names.
        let is_directory = header.kind == kind::DIRECTORY || is_file && header.path.ends_with(b"/");
        let content = match header.kind {
            _ if is_directory => MemberContent::Directory,
            _ if is_file => MemberContent::File {
                offset: Some(input.position()),
                size: header.size,
            },
            kind::LINK => MemberContent::Link(header.link),
            kind::HARD_LINK => MemberContent::HardLink(header.link),
            kind::SPARSE => return Err(io::Error::other("it has a file with holes")),
            _ => MemberContent::Other,
        };
        let size = if is_directory { 0 } else { header.size };
        let mut member = ArchiveMember {
            path: header.path,
            content,
            mode: header.mode,
            uid: u32::try_from(header.uid).unwrap_or(u32::MAX),
            gid: u32::try_from(header.gid).unwrap_or(u32::MAX),
            modified: header.modified,
            has_capabilities,
        };
        let mut contents = input.by_ref().take(size);
        each(&mut member, &mut contents)?;
        let rest = contents.limit().checked_add(filling(size));
        input.skip(rest.ok_or(io::ErrorKind::UnexpectedEof)?)?;
    }
    Ok(())
}

fn filling(size: u64) -> u64 {
    (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64
}

/// The next header, with what extended headers before it say. None at the end, which can be that of the bytes.
fn header<I: Input>(input: &mut I, is_first: bool) -> io::Result<Option<(TarHeader, bool)>> {
    let mut records = Vec::new();
    let mut path = None;
    let mut link = None;
    loop {
        let mut block = [0; BLOCK];
        let parsed = match fill(input, &mut block)? {
            0 => return Ok(None),
            BLOCK => TarHeader::parse(&block).map_err(io::Error::other),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        };
        let mut header = match parsed {
            Ok(Some(header)) => header,
            Ok(None) => return Ok(None),
            Err(_) if is_first => return Err(io::Error::other("it is not a tar archive")),
            Err(error) => return Err(error),
        };
        match header.kind {
            kind::RECORDS | kind::SUN_RECORDS => records = extension(input, &header)?,
            kind::LONG_PATH => path = Some(text(&extension(input, &header)?).to_vec()),
            kind::LONG_LINK => link = Some(text(&extension(input, &header)?).to_vec()),
            // Comments, such as the commit of a repository.
            kind::GLOBAL_RECORDS => _ = extension(input, &header)?,
            _ => {
                header.path = path.unwrap_or(header.path);
                header.link = link.unwrap_or(header.link);
                let has_capabilities = header.apply(&records).map_err(io::Error::other)?;
                if header.path.len().max(header.link.len()) > PATH {
                    return Err(io::Error::other("it has a path of more than 4,096 bytes"));
                }
                // A hard link has contents only in POSIX's newer archives.
                let has_contents = header.kind == kind::HARD_LINK && !records.is_empty();
                if kind::WITHOUT_CONTENTS.contains(&header.kind) && !has_contents {
                    header.size = 0;
                }
                return Ok(Some((header, has_capabilities)));
            }
        }
    }
}

/// The contents of an extended header.
fn extension<I: Input>(input: &mut I, header: &TarHeader) -> io::Result<Vec<u8>> {
    if header.size > EXTENDED {
        return Err(io::Error::other("it has a header of more than a megabyte"));
    }
    let mut bytes = vec![0; usize::try_from(header.size).unwrap_or(0)];
    input.read_exact(&mut bytes)?;
    input.skip(filling(header.size))?;
    Ok(bytes)
}

/// Reads as much as there is, at most the buffer.
pub(super) fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match input.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
