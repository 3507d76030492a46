//! The files of a tar archive, one after the other, with limits for archives of strangers.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::formats::tar::{BLOCK, Header, kind, text};

/// More files than any image has.
const MEMBERS: usize = 4_000_000;
/// The largest extended header: Linux's longest path is 4,096 bytes, and its attributes have 64 KiB.
const EXTENDED: u64 = 1 << 20;

/// A file of an archive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Member {
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    pub content: Content,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified: i64,
    pub has_capabilities: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Content {
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

/// A part of a file. Skipping reads nothing.
pub(super) struct Part {
    pub file: File,
    pub at: u64,
    pub end: u64,
}

impl Read for Part {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(&mut buffer[..left], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl Input for Part {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.at =
            self.at.checked_add(bytes).filter(|at| *at <= self.end).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(())
    }

    fn position(&self) -> u64 {
        self.at
    }
}

/// Bytes out of a decompressor, of which there may not be endlessly many.
pub(super) struct Stream<R> {
    pub inner: R,
    pub at: u64,
    /// The most bytes that can come out of what is read.
    pub limit: u64,
}

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.at += read as u64;
        if self.at > self.limit {
            return Err(io::Error::other("it unpacks to far more than it is"));
        }
        Ok(read)
    }
}

impl<R: Read> Input for Stream<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let mut skipped = self.by_ref().take(bytes);
        if io::copy(&mut skipped, &mut io::sink())? == bytes {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn position(&self) -> u64 {
        self.at
    }
}

/// Calls `each` for every file, with the input at its contents. Bytes that `each` leaves are skipped.
pub(super) fn read<I: Input>(
    input: &mut I,
    mut each: impl FnMut(&mut Member, &mut io::Take<&mut I>) -> io::Result<()>,
) -> io::Result<()> {
    let broken = |why: &str| io::Error::other(why.to_owned());
    let mut members = 0;
    while let Some((header, has_capabilities)) = header(input)? {
        members += 1;
        if members > MEMBERS {
            return Err(broken("it has too many files"));
        }
        let is_file = kind::FILES.contains(&header.kind);
        // Version 7 of Unix marked directories by their names.
        let is_directory = header.kind == kind::DIRECTORY || is_file && header.path.ends_with(b"/");
        let content = match header.kind {
            _ if is_directory => Content::Directory,
            _ if is_file => Content::File { offset: Some(input.position()), size: header.size },
            kind::LINK => Content::Link(header.link),
            kind::HARD_LINK => Content::HardLink(header.link),
            kind::SPARSE => return Err(broken("it has a file with holes")),
            _ => Content::Other,
        };
        // Links and devices can have a size, and nothing follows them.
        let size = if is_file && !is_directory { header.size } else { 0 };
        let id = |id: u64| u32::try_from(id).unwrap_or(u32::MAX);
        let mut member = Member {
            path: header.path,
            content,
            mode: header.mode,
            uid: id(header.uid),
            gid: id(header.gid),
            modified: header.modified,
            has_capabilities,
        };
        let mut contents = input.by_ref().take(size);
        each(&mut member, &mut contents)?;
        let left = contents.limit();
        input.skip(left.checked_add(filling(size)).ok_or(io::ErrorKind::UnexpectedEof)?)?;
    }
    Ok(())
}

fn filling(size: u64) -> u64 {
    (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64
}

/// The next header, with what extended headers before it say. None at the end, which can be that of the bytes.
fn header<I: Input>(input: &mut I) -> io::Result<Option<(Header, bool)>> {
    let broken = |why: &'static str| io::Error::other(why);
    let (mut records, mut path, mut link) = (Vec::new(), None, None);
    loop {
        let mut block = [0; BLOCK];
        match fill(input, &mut block)? {
            0 => return Ok(None),
            BLOCK => {}
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        let Some(mut header) = Header::parse(&block).map_err(broken)? else { return Ok(None) };
        match header.kind {
            kind::RECORDS | kind::LONG_PATH | kind::LONG_LINK | kind::GLOBAL_RECORDS => {
                if header.size > EXTENDED {
                    return Err(broken("it has a header of more than a megabyte"));
                }
                let mut bytes = vec![0; usize::try_from(header.size).unwrap_or(0)];
                input.read_exact(&mut bytes)?;
                input.skip(filling(header.size))?;
                match header.kind {
                    kind::RECORDS => records = bytes,
                    kind::LONG_PATH => path = Some(text(&bytes).to_vec()),
                    kind::LONG_LINK => link = Some(text(&bytes).to_vec()),
                    // Comments, such as the commit of a repository.
                    _ => {}
                }
            }
            _ => {
                header.path = path.unwrap_or(header.path);
                header.link = link.unwrap_or(header.link);
                let has_capabilities = header.apply(&records).map_err(broken)?;
                return Ok(Some((header, has_capabilities)));
            }
        }
    }
}

/// Reads as much as there is, at most the buffer.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
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
