//! Names of shared libraries written out in bytes: in a program's constants, in a script's strings.

use std::collections::BTreeSet;

/// No library has a longer name; a bound keeps a hostile file from costing a square.
const STEM_LIMIT: usize = 64;
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

/// The parts of a library's file name: `libcudnn_ops.so.9.1` is `libcudnn_ops` and `9.1`. A path is no name.
pub fn split(name: &str) -> Option<(&str, &str)> {
    let (stem, rest) = name.split_once(".so").filter(|_| !name.contains('/'))?;
    match rest.strip_prefix('.') {
        None if rest.is_empty() => Some((stem, "")),
        Some(numbers) if is_numbers(numbers) => Some((stem, numbers)),
        _ => None,
    }
}

/// The name that auditwheel gave a copy, without its hash: `libcudnn-74a4c495.so.9.1.0` and
/// `libcudart.41118559.so.12` were `libcudnn.so.9.1.0` and `libcudart.so.12`.
pub fn without_hash(stem: &str) -> Option<&str> {
    let cut = stem.len().checked_sub(9)?;
    let (plain, tail) = (stem.get(..cut)?, stem.get(cut..)?);
    let separated = tail.starts_with(['-', '.']);
    let hash = tail.get(1..)?;
    let is_hash = hash.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    (separated && is_hash && !plain.is_empty()).then_some(plain)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_names_that_stand_on_their_own() {
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
