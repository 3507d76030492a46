//! Releases and limits in the files of a CUDA toolkit and of a C++ compiler.

use cudarun::formats::build_info;
use cudarun::formats::toolchain::{gcc, newest_gcc, release};

/// The bytes that are searched at once.
const PIECE: usize = 1 << 20;

#[test]
fn releases_are_read_wherever_they_are() {
    for padding in [0, 10, PIECE - 20, PIECE, 3 * PIECE] {
        let mut bytes = vec![0; 7];
        bytes.extend(b"Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0");
        bytes.extend(vec![0; padding]);
        assert_eq!(release(&bytes).unwrap().to_string(), "13.0.88", "{padding}");
    }
    let format =
        b"Cuda compilation tools, release %s\0Cuda compilation tools, release 12.4, V12.4.131";
    assert_eq!(release(format).unwrap().to_string(), "12.4.131");
    assert_eq!(
        release(b"Cuda compilation tools, release 11.8")
            .unwrap()
            .to_string(),
        "11.8"
    );
    for text in [
        "",
        "Cuda compilation tools, release ",
        "Cuda compilation tools, release x, V",
    ] {
        assert_eq!(release(text.as_bytes()), None);
    }
}

#[test]
fn a_huge_file_is_searched_from_its_end_only() {
    let text = b"Cuda compilation tools, release 13.0, V13.0.88";
    let mut bytes = vec![0; (1 << 28) + PIECE];
    bytes[..text.len()].copy_from_slice(text);
    assert_eq!(release(&bytes), None);
    let end = bytes.len() - text.len();
    bytes[end..].copy_from_slice(text);
    assert_eq!(release(&bytes).unwrap().to_string(), "13.0.88");
}

#[test]
fn versions_of_compilers_and_headers_are_read() {
    assert_eq!(
        gcc(b"\0GCC: (Debian 12.2.0-14+deb12u1) 12.2.0\0")
            .unwrap()
            .to_string(),
        "12.2.0"
    );
    assert_eq!(gcc(b"GCC: (unfinished"), None);
    let defined = |header: &str| build_info::define(header.as_bytes(), "CUDA_VERSION");
    let header = "/* x */\n#define CUDA_VERSION 13000\n";
    assert_eq!(defined(header).as_deref(), Some("13000"));
    assert_eq!(defined("#define CUDA_VERSION_X 1\n"), None);
    assert_eq!(
        newest_gcc("#if __GNUC__ > 15\n\n#error -- unsupported"),
        Some(15)
    );
    assert_eq!(newest_gcc("#if __GNUC__"), None);
}
