//! `/proc/PID/maps`: the files that a process has mapped.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// What the kernel adds to the path of a file that is no longer there.
const DELETED: &[u8] = b" (deleted)";
/// What the kernel writes for a line end.
const LINE_END: &[u8] = b"\\012";

/// A mapped file, as the kernel shows it: the real path in the process's own root directory, with `\012` for a line end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPath<'m> {
    pub path: &'m [u8],
    pub inode: u64,
    /// True if the file was removed or replaced since it was mapped.
    pub is_deleted: bool,
}

impl<'m> MappedPath<'m> {
    /// The path with its line ends. A name that has the text itself is taken for one.
    pub fn real_path(&self) -> Cow<'m, Path> {
        if memchr::memmem::find(self.path, LINE_END).is_none() {
            return Cow::Borrowed(Path::new(OsStr::from_bytes(self.path)));
        }
        let mut path = Vec::with_capacity(self.path.len());
        let mut rest = self.path;
        while let Some(at) = memchr::memmem::find(rest, LINE_END) {
            path.extend_from_slice(&rest[..at]);
            path.push(b'\n');
            rest = &rest[at + LINE_END.len()..];
        }
        path.extend_from_slice(rest);
        Cow::Owned(OsString::from_vec(path).into())
    }
}

/// The mapped files, in the order of their addresses. A file that is mapped in several parts comes once for each part, except
/// those that follow each other.
pub fn mapped_paths(maps: &[u8]) -> impl Iterator<Item = MappedPath<'_>> {
    let mut last: &[u8] = b"";
    maps.split(|byte| *byte == b'\n').filter_map(move |line| {
        // No field before the path has a slash.
        let (fields, path) = line.split_at(memchr::memchr(b'/', line)?);
        if path == last {
            return None;
        }
        last = path;
        let inode = fields
            .trim_ascii_end()
            .rsplit(|byte| *byte == b' ')
            .next()?;
        Some(MappedPath {
            path: path.strip_suffix(DELETED).unwrap_or(path),
            inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
            is_deleted: path.ends_with(DELETED),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_among_the_fields() {
        let maps = b"\
55d0c0000000-55d0c0001000 r--p 00000000 fe:00 12 /usr/bin/python3.12\n\
55d0c0001000-55d0c0002000 r-xp 00001000 fe:00 12 /usr/bin/python3.12\n\
7f0000000000-7f0000001000 rw-p 00000000 00:00 0 [heap]\n\
7f0000001000-7f0000002000 rw-p 00000000 00:00 0 \n\
7f0000002000-7f0000003000 r--p 00000000 00:2b 7                    /opt/a b/libcudnn.so.9 (deleted)\n\
7f0000003000-7f0000004000 r--s 00000000 00:01 3 /dev/zero (deleted)\n\
garbage /without an inode\n\
7f00";
        let found: Vec<_> = mapped_paths(maps)
            .map(|file| (file.path, file.inode, file.is_deleted))
            .collect();
        assert_eq!(
            found,
            [
                (&b"/usr/bin/python3.12"[..], 12, false),
                (b"/opt/a b/libcudnn.so.9", 7, true),
                (b"/dev/zero", 3, true),
            ]
        );
    }
}
