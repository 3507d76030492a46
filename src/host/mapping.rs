//! The bytes of files, mapped or read.
#![allow(
    clippy::disallowed_methods,
    reason = "this is a part of the door that the lint guards"
)]

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use nix::errno::Errno;

/// A part of an open file. Reading moves its start.
#[derive(Clone, Debug)]
pub struct FilePart {
    pub file: Arc<File>,
    pub start: u64,
    pub end: u64,
}

impl FilePart {
    pub fn size(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

impl Read for FilePart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size())
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let read = self.file.read_at(&mut buffer[..left], self.start)?;
        self.start += read as u64;
        Ok(read)
    }
}

/// The bytes of a file, mapped.
#[derive(Debug)]
pub struct MappedBytes(pub(super) Option<memmap2::Mmap>);

impl Deref for MappedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl MappedBytes {
    /// Maps `size` bytes of a file, which may lie anywhere in it.
    pub(super) fn part(file: &File, offset: u64, size: u64) -> io::Result<MappedBytes> {
        let length = usize::try_from(size).map_err(|_| io::Error::from(Errno::EFBIG))?;
        if length == 0 {
            return Ok(MappedBytes(None));
        }
        // SAFETY: the mapping is read only; its bytes are read as plain data, in which any value is valid. A file
        // that another process cuts short while it is mapped would end this process with SIGBUS: package managers
        // replace libraries by rename, and no tool that reads libraries of gigabytes can do without this.
        #[allow(unsafe_code)]
        let map = unsafe {
            memmap2::MmapOptions::new()
                .offset(offset)
                .len(length)
                .map(file)
        }?;
        let _ = map.advise(memmap2::Advice::Random);
        Ok(MappedBytes(Some(map)))
    }

    /// Gives the memory of all pages back. A later access reads the page again.
    pub fn release(&self) {
        let Some(map) = &self.0 else { return };
        // SAFETY: the mapping is read only and shared with its file, so a released page returns with the same bytes.
        #[allow(unsafe_code)]
        let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
    }
}
