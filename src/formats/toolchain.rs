//! Releases and limits in the files of a CUDA toolkit and of a C++ compiler.

use memchr::memmem;

use crate::version::Version;

/// Each of NVIDIA's compilers contains `Cuda compilation tools, release 13.0, V13.0.88`.
const TOOL: &[u8] = b"Cuda compilation tools, release ";
/// The comment of a GCC in the programs that it has compiled, and so in itself: `GCC: (Debian 12.2.0-14) 12.2.0`.
const GCC: &[u8] = b"GCC: (";
/// The end of a file is searched first, in pieces of this many bytes: the texts are near the end of some of them.
const PIECE: usize = 1 << 20;
/// In bytes: longer than any of these texts.
const TEXT_LIMIT: usize = 160;

/// Returns the release of one of NVIDIA's compilers: 13.0.88.
pub fn release(bytes: &[u8]) -> Option<Version> {
    last(bytes, TOOL, |text| {
        let full = text.split_once(", V").and_then(|(_, full)| number(full));
        full.or_else(|| number(text))
    })
}

/// Returns the version of the GCC that has compiled a file.
pub fn gcc(bytes: &[u8]) -> Option<Version> {
    last(bytes, GCC, |text| number(text.split_once(") ")?.1))
}

/// Returns the number in `#define NAME NUMBER`.
pub fn defined(header: &str, name: &str) -> Option<u32> {
    header.lines().find_map(|line| {
        let mut words = line.strip_prefix('#')?.split_whitespace();
        let is_name = words.next() == Some("define") && words.next() == Some(name);
        is_name.then(|| words.next()?.parse().ok())?
    })
}

/// Returns the newest major of GCC that `crt/host_config.h` accepts: `#if __GNUC__ > 15`.
pub fn newest_gcc(header: &str) -> Option<u32> {
    header.lines().find_map(|line| line.strip_prefix("#if __GNUC__ > ")?.trim().parse().ok())
}

/// Returns the meaning of a text that follows a mark, of the last piece of the file that has one.
fn last<T>(bytes: &[u8], mark: &[u8], meaning: impl Fn(&str) -> Option<T>) -> Option<T> {
    let mut end = bytes.len();
    while end > 0 {
        let start = end.saturating_sub(PIECE);
        // A mark may begin in this piece and end in the next one.
        let piece = &bytes[start..bytes.len().min(end + mark.len())];
        let found = memmem::find_iter(piece, mark).find_map(|at| {
            let text = &bytes[start + at + mark.len()..];
            let text = &text[..text.len().min(TEXT_LIMIT)];
            let length = text.iter().position(|byte| !matches!(byte, b' '..=b'~')).unwrap_or(text.len());
            meaning(std::str::from_utf8(&text[..length]).ok()?)
        });
        if found.is_some() {
            return found;
        }
        end = start;
    }
    None
}

fn number(text: &str) -> Option<Version> {
    let length = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..length].trim_end_matches('.').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_wherever_they_are() {
        for padding in [0, 10, PIECE - 20, PIECE, 3 * PIECE] {
            let mut bytes = vec![0; 7];
            bytes.extend(b"Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0");
            bytes.extend(vec![0; padding]);
            assert_eq!(release(&bytes).unwrap().to_string(), "13.0.88", "{padding}");
        }
        let format = b"Cuda compilation tools, release %s\0Cuda compilation tools, release 12.4, V12.4.131";
        assert_eq!(release(format).unwrap().to_string(), "12.4.131");
        assert_eq!(release(b"Cuda compilation tools, release 11.8").unwrap().to_string(), "11.8");
        for text in ["", "Cuda compilation tools, release ", "Cuda compilation tools, release x, V"] {
            assert_eq!(release(text.as_bytes()), None);
        }
    }

    #[test]
    fn versions_of_compilers_and_headers_are_read() {
        assert_eq!(gcc(b"\0GCC: (Debian 12.2.0-14+deb12u1) 12.2.0\0").unwrap().to_string(), "12.2.0");
        assert_eq!(gcc(b"GCC: (unfinished"), None);
        assert_eq!(defined("/* x */\n#define CUDA_VERSION 13000\n", "CUDA_VERSION"), Some(13000));
        assert_eq!(defined("#define CUDA_VERSION_X 1\n#define CUDA_VERSION x", "CUDA_VERSION"), None);
        assert_eq!(newest_gcc("#if __GNUC__ > 15\n\n#error -- unsupported"), Some(15));
        assert_eq!(newest_gcc("#if __GNUC__"), None);
    }
}
