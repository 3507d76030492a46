//! Tells a process of the planned program from a child that belongs to another environment, by how it was started: Python
//! finds its environment by the path that it was called by, and two environments may share one interpreter. Compiled into
//! the module, which has no standard library, and into the crate.

use super::pins::PATH_LIMIT;

/// Returns the device and inode of the file that a path leads to. The path ends in NUL.
pub(super) type Identity<'f> = &'f dyn Fn(&[u8]) -> Option<(u64, u64)>;

/// True if a process belongs to `program`. `first` is the process's `argv[0]`, `executed` the path that the kernel was given
/// (`AT_EXECFN`). A slash at the end of `program` means Python: then the interpreter must be one file, called from one
/// directory.
pub(super) fn is_meant(
    program: &[u8],
    first: &[u8],
    executed: &[u8],
    identity: Identity<'_>,
    buffer: &mut [u8; PATH_LIMIT],
) -> bool {
    let mut identity = |path: &[u8]| identity_of(path, buffer, identity);
    let has_slash = first.contains(&b'/');
    let Some((b'/', python)) = program.split_last() else {
        let Some(meant) = identity(program) else {
            return false;
        };
        // A program may choose any `argv[0]`, and the descriptor that it was started from may be closed by now.
        let called = [
            first
                .get(..if has_slash { first.len() } else { 0 })
                .unwrap_or_default(),
            executed,
        ];
        return called
            .into_iter()
            .chain([&b"/proc/self/exe"[..]])
            .any(|path| identity(path) == Some(meant));
    };
    let mut place = |path: &[u8]| Some((identity(path)?, identity(directory(path))?));
    let Some(meant) = place(python) else {
        return false;
    };
    // For a script, the kernel was given the script, and `argv[0]` is the interpreter.
    let called = if has_slash { place(first) } else { None };
    called.or_else(|| place(executed)) == Some(meant)
}

#[inline(never)]
fn directory(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => path.get(..=slash).unwrap_or_default(),
        None => b".",
    }
}

/// Asks with a NUL at the end of the path; `None` if the path is empty or too long. Inlined copies would make the module too
/// large.
#[inline(never)]
fn identity_of(
    path: &[u8],
    buffer: &mut [u8; PATH_LIMIT],
    identity: Identity<'_>,
) -> Option<(u64, u64)> {
    let ended = buffer.get_mut(..=path.len()).filter(|_| !path.is_empty())?;
    ended
        .iter_mut()
        .zip(path.iter().chain(b"\0"))
        .for_each(|(to, from)| *to = *from);
    identity(ended)
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
        ("/a/bin/python3.12", 10),
        ("/a/bin/trainer", 10),
        ("/link/python", 10),
        ("./python", 10),
        ("python", 10),
        ("/b/bin/python", 10),
        ("/a/bin/python3.11", 9),
        ("/a/bin/tool", 11),
        ("/a/bin/train", 12),
        ("train", 12),
        ("/elsewhere/train", 12),
    ];

    fn is_one_of(exe: u64, program: &str, first: &str, executed: &str) -> bool {
        let identity = |path: &[u8]| {
            let path = std::str::from_utf8(path.strip_suffix(b"\0").unwrap()).unwrap();
            let own = ("/proc/self/exe", exe);
            FILES
                .iter()
                .chain([&own])
                .find(|(name, _)| *name == path)
                .map(|(_, inode)| (7, *inode))
        };
        let [program, first, executed] = [program, first, executed].map(str::as_bytes);
        is_meant(program, first, executed, &identity, &mut [0xff; PATH_LIMIT])
    }

    #[test]
    fn python_is_recognised_by_its_file_and_directory() {
        for (first, executed) in [
            ("python", "/a/bin/python"),
            ("python3", "/a/bin/python3.12"),
            ("trainer", "/a/bin/trainer"),
            ("/a/bin/python", "/b/bin/tool-for-a"),
            ("/a/bin/python", "/a/bin/python"),
            ("python", "/link/python"),
            ("python", "./python"),
            ("python", "python"),
            ("/gone/python", "/a/bin/python"),
        ] {
            assert!(
                is_one_of(10, "/a/bin/python/", first, executed),
                "{first} {executed}"
            );
        }
        for (first, executed) in [
            ("python", "/b/bin/python"),
            ("/b/bin/python", "/a/bin/tool"),
            ("python3.11", "/a/bin/python3.11"),
            ("tool", "/a/bin/tool"),
            ("python", "/nowhere/python"),
            ("", ""),
        ] {
            assert!(
                !is_one_of(10, "/a/bin/python/", first, executed),
                "{first} {executed}"
            );
        }
        assert!(!is_one_of(10, "/gone/python/", "python", "/gone/python"));
    }

    #[test]
    fn any_other_program_is_told_by_its_file() {
        for (first, executed) in [
            ("train", "/a/bin/train"),
            ("title", "/elsewhere/train"),
            ("train", "train"),
            ("/elsewhere/train", "/dev/fd/3"),
        ] {
            assert!(
                is_one_of(0, "/a/bin/train", first, executed),
                "{first} {executed}"
            );
        }
        assert!(
            is_one_of(12, "/a/bin/train", "title", "/dev/fd/3"),
            "started from a descriptor"
        );
        for (first, executed) in [("train", "/a/bin/tool"), ("train", "/dev/fd/3"), ("", "")] {
            assert!(
                !is_one_of(11, "/a/bin/train", first, executed),
                "{first} {executed}"
            );
        }
        assert!(!is_one_of(12, "", "train", "/a/bin/train"));
        let long = format!("/{}", "d".repeat(PATH_LIMIT));
        assert!(!is_one_of(12, &long, &long, &long) && !is_one_of(0, "/a/bin/train", &long, &long));
    }
}
