//! Releases and limits in the files of a CUDA toolkit and of a C++ compiler.

use memchr::memmem;

use crate::version::Version;

/// Each of NVIDIA's compilers contains `Cuda compilation tools, release 13.0, V13.0.88`.
const TOOL: &[u8] = b"Cuda compilation tools, release ";
/// The comment of a GCC in the programs that it has compiled, and so in itself: `GCC: (Debian 12.2.0-14) 12.2.0`.
const GCC: &[u8] = b"GCC: (";
/// The end of a file is searched first, in pieces of this many bytes: the texts are near the end of some of them.
const PIECE: usize = 1 << 20;
/// In bytes: no compiler is larger, and a file may have holes.
const SEARCH_LIMIT: usize = 1 << 28;
/// In bytes: longer than any of these texts.
const TEXT_LIMIT: usize = 160;

/// The release of one of NVIDIA's compilers: 13.0.88.
pub fn release(bytes: &[u8]) -> Option<Version> {
    last(bytes, TOOL, |text| {
        let full = text.split_once(", V").and_then(|(_, full)| number(full));
        full.or_else(|| number(text))
    })
}

/// The version of the GCC that has compiled a file.
pub fn gcc(bytes: &[u8]) -> Option<Version> {
    last(bytes, GCC, |text| number(text.split_once(") ")?.1))
}

/// The newest major of GCC that `crt/host_config.h` accepts: `#if __GNUC__ > 15`.
pub fn newest_gcc(header: &str) -> Option<u32> {
    header
        .lines()
        .find_map(|line| line.strip_prefix("#if __GNUC__ > ")?.trim().parse().ok())
}

/// The first version that follows a mark in the last piece of the file that has one. `version` reads it from the text.
fn last(bytes: &[u8], mark: &[u8], version: impl Fn(&str) -> Option<Version>) -> Option<Version> {
    let mut end = bytes.len();
    let least = end.saturating_sub(SEARCH_LIMIT);
    while end > least {
        let start = end.saturating_sub(PIECE);
        // A mark may begin in this piece and end in the next one.
        let piece = &bytes[start..bytes.len().min(end + mark.len())];
        for offset in memmem::find_iter(piece, mark) {
            let text = &bytes[start + offset + mark.len()..];
            let text = &text[..text.len().min(TEXT_LIMIT)];
            let length = text
                .iter()
                .position(|byte| !matches!(byte, b' '..=b'~'))
                .unwrap_or(text.len());
            let text = std::str::from_utf8(&text[..length]).expect("ASCII");
            if let Some(version) = version(text) {
                return Some(version);
            }
        }
        end = start;
    }
    None
}

fn number(text: &str) -> Option<Version> {
    let length = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    text[..length].trim_end_matches('.').parse().ok()
}
