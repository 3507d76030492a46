//! Names of shared libraries written out in bytes: in a program's constants, in a script's strings.

use std::collections::BTreeSet;

use crate::version::Version;

/// No library has a longer name; a bound keeps a hostile file from costing a square.
const STEM_LIMIT: usize = 64;
/// The second half of a name is moved within so many bytes.
const MOVE_DISTANCE: usize = 40;
/// And no path is longer.
const PATH_LIMIT: usize = 4096;

/// Every `lib….so…` that stands on its own: not part of a longer word, and not the end of a path, since a
/// path is opened as it is written and no search applies to it.
pub fn libraries(data: &[u8]) -> BTreeSet<String> {
    memchr::memmem::find_iter(data, b".so").filter_map(|at| name_around(data, at)).collect()
}

/// The same in the constants of an executable, where Rust and others pack one text right after the other:
/// a name begins with the last `lib` that makes it a known one, and ends with its numbers.
pub fn packed_libraries(data: &[u8], is_known: &dyn Fn(&str) -> bool) -> BTreeSet<String> {
    memchr::memmem::find_iter(data, b".so").filter_map(|at| packed_name(data, at, is_known)).collect()
}

/// Every path of a `lib….so…` that is written out; a relative one where it is all of a text, which ends in NUL.
pub fn library_paths(data: &[u8]) -> BTreeSet<String> {
    memchr::memmem::find_iter(data, b".so").filter_map(|at| path_around(data, at)).collect()
}

/// Names that stand in instructions, as compilers for x86-64 write a text of nine to sixteen bytes: its first eight and its
/// last eight, which overlap, as constants of two moves that stand close together.
pub fn in_instructions(code: &[u8], is_known: &dyn Fn(&str) -> bool) -> BTreeSet<String> {
    let found = memchr::memmem::find_iter(code, b"lib").filter_map(|at| {
        let first = moved(code.get(at.checked_sub(2)?..)?)?;
        let near = code.get(at + 8..)?;
        let mut seconds = near[..near.len().min(MOVE_DISTANCE)].windows(10).filter_map(moved);
        seconds.find_map(|second| joined(first, second)).filter(|name| is_known(name))
    });
    found.collect()
}

/// The parts of a library's file name: `libcudnn_ops.so.9.1` is `libcudnn_ops` and `9.1`. A path is no name.
pub fn split(name: &str) -> Option<(&str, &str)> {
    let (stem, rest) = name.split_once(".so").filter(|_| !name.contains('/'))?;
    match rest.strip_prefix('.') {
        None if rest.is_empty() => Some((stem, "")),
        Some(numbers) if is_numbers(numbers) => Some((stem, numbers)),
        _ => None,
    }
}

/// The name that auditwheel gave an installation, without its hash: `libcudnn-74a4c495.so.9.1.0` and
/// `libcudart.41118559.so.12` were `libcudnn.so.9.1.0` and `libcudart.so.12`.
pub fn without_hash(stem: &str) -> Option<&str> {
    let cut = stem.len().checked_sub(9)?;
    let (plain, tail) = (stem.get(..cut)?, stem.get(cut..)?);
    let separated = tail.starts_with(['-', '.']);
    let hash = tail.get(1..)?;
    let is_hash = hash.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    (separated && is_hash && !plain.is_empty()).then_some(plain)
}

/// The constant of a `movabs` into any register.
fn moved(code: &[u8]) -> Option<&[u8]> {
    let is_move = matches!(code, [0x48 | 0x49, 0xb8..=0xbf, ..]);
    code.get(2..10).filter(|_| is_move)
}

/// The one way in which two halves make a name; the end of a text may be among the second.
fn joined(first: &[u8], second: &[u8]) -> Option<String> {
    let ways = (0..8).rev().filter(|overlap| first[8 - overlap..] == second[..*overlap]);
    let mut names = ways.filter_map(|overlap| {
        let whole = [first, &second[overlap..]].concat();
        let name = whole.strip_suffix(b"\0").unwrap_or(&whole);
        std::str::from_utf8(name).ok().filter(|name| split(name).is_some()).map(str::to_owned)
    });
    names.next()
}

fn name_around(data: &[u8], at: usize) -> Option<String> {
    let start = stem_before(data, at);
    if !data[start..at].starts_with(b"lib") || data[..start].last() == Some(&b'/') {
        return None;
    }
    let end = end_of_numbers(data, at);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'%' | b'.' | b'-' | b'{');
    if data.get(end).is_some_and(|byte| is_word(*byte)) {
        return None;
    }
    std::str::from_utf8(&data[start..end]).ok().map(str::to_owned)
}

fn packed_name(data: &[u8], at: usize, is_known: &dyn Fn(&str) -> bool) -> Option<String> {
    let from = stem_before(data, at);
    let lib = memchr::memmem::rfind_iter(&data[from..at], b"lib");
    let end = end_of_numbers(data, at);
    let is_bare = end == at + 3;
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'%' | b'.' | b'{');
    // Without a number, only the beginning of the next name tells where this one ends.
    if is_bare && !data[end..].starts_with(b"lib") && data.get(end).is_some_and(goes_on) {
        return None;
    }
    lib.map(|offset| from + offset)
        .filter(|start| data[..*start].last() != Some(&b'/'))
        .filter_map(|start| std::str::from_utf8(&data[start..end]).ok())
        .find(|name| is_known(name))
        .map(str::to_owned)
}

fn path_around(data: &[u8], at: usize) -> Option<String> {
    let start = stem_before(data, at);
    if !data[start..at].starts_with(b"lib") || data[..start].last() != Some(&b'/') {
        return None;
    }
    let from = start.saturating_sub(PATH_LIMIT);
    let is_path = |byte: &u8| {
        byte.is_ascii_graphic()
            && !matches!(byte, b'"' | b'\'' | b'`' | b':' | b';' | b'{' | b'}' | b'%' | b'$')
    };
    let begin =
        from + data[from..start].iter().rposition(|byte| !is_path(byte)).map_or(0, |before| before + 1);
    let path = std::str::from_utf8(&data[begin..end_of_numbers(data, at)]).ok()?;
    // What stands before a brace is filled in when the program runs.
    let is_whole = !matches!(data[..begin].last(), Some(b'{' | b'}' | b'%' | b'$'));
    let end = end_of_numbers(data, at);
    let is_text = begin.checked_sub(1).is_none_or(|before| data[before] == 0)
        && data.get(end).is_none_or(|end| *end == 0);
    (is_whole && (path.starts_with('/') || is_text)).then(|| path.to_owned())
}

/// Where the name that `.so` at `at` ends begins at the earliest.
fn stem_before(data: &[u8], at: usize) -> usize {
    let is_stem = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'.');
    let from = at.saturating_sub(STEM_LIMIT);
    from + data[from..at].iter().rposition(|byte| !is_stem(*byte)).map_or(0, |before| before + 1)
}

/// The end of `.so` and the numbers after it.
fn end_of_numbers(data: &[u8], at: usize) -> usize {
    let mut end = at + 3;
    while let Some(rest) = data.get(end..).filter(|rest| rest.first() == Some(&b'.')) {
        let digits = rest[1..].iter().take(10).take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            break;
        }
        end += 1 + digits;
    }
    end
}

fn is_numbers(text: &str) -> bool {
    !text.is_empty()
        && text.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
}

/// The version that cuDNN's engines expect of the rest, as an assertion in them has it: `cudnn_version != (9 * 10000 + 28 *
/// 100 + 0)`.
pub fn asserted_cudnn(bytes: &[u8]) -> Option<Version> {
    const ASSERTION: &[u8] = b"cudnn_version != (";
    let start = memchr::memmem::find(bytes, ASSERTION)? + ASSERTION.len();
    let text = bytes[start..].split(|byte| *byte == b')').next()?;
    let terms = std::str::from_utf8(text.get(..text.len().min(64))?).ok()?.split('+');
    let numbers: Option<Vec<u32>> = terms.map(|term| term.split('*').next()?.trim().parse().ok()).collect();
    numbers.filter(|numbers| numbers.len() == 3).map(|numbers| Version::new(&numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_separate_names() {
        let data = b"x\0libcudnn.so.9\0libnvrtc.so\0'libcuda.so.1'\"libcudart.so.11.0\" \
            /usr/lib/libcublas.so.12 libnccl.so.%d libcudnn.so.9.x mylibcufft.so.11 libcurand.sorted libnvrtc-builtins.so.12.4";
        let found: Vec<String> = libraries(data).into_iter().collect();
        assert_eq!(
            found,
            [
                "libcuda.so.1",
                "libcudart.so.11.0",
                "libcudnn.so.9",
                "libnvrtc-builtins.so.12.4",
                "libnvrtc.so"
            ]
        );
    }

    #[test]
    fn finds_names_that_are_packed_together() {
        let known = |name: &str| name.starts_with("libcu");
        let packed = |data: &[u8]| packed_libraries(data, &known).into_iter().collect::<Vec<_>>();
        let rust = b"NulErrorlibcudnn.so.9libcublas.so.12libcuda.solibcudart.so.12usage: libx.so.1";
        assert_eq!(packed(rust), ["libcublas.so.12", "libcuda.so", "libcudart.so.12", "libcudnn.so.9"]);
        assert!(packed(b"/opt/libcudnn.so.9 libcudnn.sorted libcudnn.so.%d").is_empty());
        packed(b".so.so");
    }

    #[test]
    fn finds_names_in_instructions() {
        let known = |name: &str| name.starts_with("libcu");
        let found = |code: &[u8]| in_instructions(code, &known).into_iter().collect::<Vec<_>>();
        // movabs $…,%rax; mov %rax,(%rbx); movabs $…,%r12; mov %r12,5(%rbx)
        let cudnn = b"\x90\x48\xb8libcudnn\x48\x89\x03\x49\xbcdnn.so.9\x4c\x89\x63\x05";
        assert_eq!(found(cudnn), ["libcudnn.so.9"]);
        assert_eq!(found(b"\x48\xb8libcufft\x48\xbaft.so.12"), ["libcufft.so.12"]);
        assert_eq!(found(b"\x48\xb8libcudnn\x48\xba.so.9\0\0\0"), [""; 0], "only one end");
        assert_eq!(found(b"\x48\xb8libcudnn\x48\xbann.so.9\0"), ["libcudnn.so.9"]);
        let far = [&cudnn[..14], &[0x90; 40], &cudnn[14..]].concat();
        assert!(found(&far).is_empty() && found(b"libcudnn\x48\xbadnn.so.9").is_empty());
        for end in 0..cudnn.len() {
            found(&cudnn[..end]);
        }
    }

    #[test]
    fn finds_paths() {
        let data =
            b"x\0/opt/cuda/lib64/libcudnn.so.9\0a:/b/libcublas.so.12' lib/libcufft.so.11 {d}/libcudart.so.12\0./libnccl.so.2\0";
        let found: Vec<String> = library_paths(data).into_iter().collect();
        assert_eq!(found, ["./libnccl.so.2", "/b/libcublas.so.12", "/opt/cuda/lib64/libcudnn.so.9"]);
        assert_eq!(library_paths(b"lib/libcudnn.so.9").len(), 1);
    }

    #[test]
    fn splits_and_unmangles() {
        assert_eq!(split("/usr/lib/libcudnn.so.9"), None);
        assert_eq!(split("libcudnn_ops.so.9.1"), Some(("libcudnn_ops", "9.1")));
        assert_eq!(split("libnvrtc.so"), Some(("libnvrtc", "")));
        assert_eq!(split("libnvrtc.sox"), None);
        assert_eq!(split("libnvrtc.so."), None);
        assert_eq!(split("libnvrtc.alt.so.13"), Some(("libnvrtc.alt", "13")));
        assert_eq!(without_hash("libcudnn-74a4c495"), Some("libcudnn"));
        assert_eq!(without_hash("libcudart.41118559"), Some("libcudart"));
        assert_eq!(without_hash("libcudnn_ops"), None);
        assert_eq!(without_hash("libcudnn-zzzzzzzz"), None);
        assert_eq!(without_hash("-74a4c495"), None);
    }

    #[test]
    fn any_bytes_give_a_result() {
        libraries(b".so.so.so...");
        libraries(&[0xff, b'.', b's', b'o', b'.']);
        libraries("lib\u{e4}.so.9".as_bytes());
    }
}
