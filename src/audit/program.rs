//! Tells a process of the planned program from a child that belongs to another environment, by how it was started: Python
//! finds its environment by the path that it was called by, and two environments may share one interpreter. Compiled into
//! the module, where nothing of the standard library is, and into the crate.

use super::pins::{PATH_LIMIT, same};

/// Asks for the device and inode of the file that a path leads to. The path ends in NUL.
pub(super) type Identity<'f> = &'f dyn Fn(&[u8]) -> Option<(u64, u64)>;

/// Whether a process is one of `program`: a path; or a directory with a slash at its end, for every Python in it.
/// `first` is the process's `argv[0]`, `executed` the path that the kernel was given (`AT_EXECFN`).
pub(super) fn is_meant(
    program: &[u8],
    first: &[u8],
    executed: &[u8],
    identity: Identity<'_>,
    buffer: &mut [u8; PATH_LIMIT],
) -> bool {
    let mut identity = |path: &[u8]| identity(ended(path, buffer)?);
    let Some(meant) = identity(program) else { return false };
    let has_slash = |path: &[u8]| path.contains(&b'/');
    if program.last() != Some(&b'/') {
        return [first, executed].into_iter().any(|path| has_slash(path) && identity(path) == Some(meant));
    }
    // For a script, the kernel was given the script, and `argv[0]` is the interpreter.
    let called = if has_slash(first) && identity(first).is_some() { first } else { executed };
    let start = called.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (directory, name) = called.split_at_checked(start).unwrap_or_default();
    is_python(name) && identity(if directory.is_empty() { b"." } else { directory }) == Some(meant)
}

/// `python3.12`, `pypy3`
pub(super) fn is_python(name: &[u8]) -> bool {
    let starts_with = |start: &[u8]| name.get(..start.len()).is_some_and(|begin| same(begin, start));
    starts_with(b"python") || starts_with(b"pypy")
}

/// The path with a NUL at its end; none if it is empty or too long.
fn ended<'b>(path: &[u8], buffer: &'b mut [u8; PATH_LIMIT]) -> Option<&'b [u8]> {
    let ended = buffer.get_mut(..=path.len()).filter(|_| !path.is_empty())?;
    ended.iter_mut().zip(path.iter().chain(b"\0")).for_each(|(to, from)| *to = *from);
    Some(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: &[(&str, u64)] = &[
        ("/a/bin/", 1),
        ("/link/", 1),
        ("./", 1),
        (".", 1),
        ("/b/bin/", 2),
        ("/a/bin/python", 10),
        ("/b/bin/python", 10),
        ("/a/bin/tool", 11),
        ("/a/bin/train", 12),
        ("/elsewhere/train", 12),
        ("/proc/self/exe", 12),
    ];

    fn is_one(program: &str, first: &str, executed: &str) -> bool {
        let identity = |path: &[u8]| {
            let path = std::str::from_utf8(path.strip_suffix(b"\0").unwrap()).unwrap();
            FILES.iter().find(|(name, _)| *name == path).map(|(_, inode)| (7, *inode))
        };
        let [program, first, executed] = [program, first, executed].map(str::as_bytes);
        is_meant(program, first, executed, &identity, &mut [0xff; PATH_LIMIT])
    }

    #[test]
    fn python_is_told_by_the_directory_that_it_is_called_from() {
        for (first, executed) in [
            ("python", "/a/bin/python"),
            ("python3", "/a/bin/python3.12"),
            ("/a/bin/python", "/b/bin/tool-for-a"),
            ("/a/bin/python", "/a/bin/python"),
            ("python", "/link/python"),
            ("python", "./python"),
            ("python", "python"),
            ("/gone/python", "/a/bin/python"),
        ] {
            assert!(is_one("/a/bin/", first, executed), "{first} {executed}");
        }
        for (first, executed) in [
            ("python", "/b/bin/python"),
            ("/b/bin/python", "/a/bin/tool"),
            ("tool", "/a/bin/tool"),
            ("python", "/nowhere/python"),
            ("", ""),
        ] {
            assert!(!is_one("/a/bin/", first, executed), "{first} {executed}");
        }
        assert!(!is_one("/gone/", "python", "/gone/python"));
    }

    #[test]
    fn any_other_program_is_told_by_its_file() {
        for (first, executed) in
            [("train", "/a/bin/train"), ("title", "/elsewhere/train"), ("train", "/proc/self/exe")]
        {
            assert!(is_one("/a/bin/train", first, executed), "{first} {executed}");
        }
        for (first, executed) in [("train", "/a/bin/tool"), ("train", "train"), ("", "")] {
            assert!(!is_one("/a/bin/train", first, executed), "{first} {executed}");
        }
        assert!(!is_one("", "train", "/a/bin/train"));
        let long = format!("/{}", "d".repeat(PATH_LIMIT));
        assert!(!is_one(&long, &long, &long) && !is_one("/a/bin/train", &long, &long));
    }
}
