//! `.note.dlopen`, in which a file says what it opens at run time, as systemd and others write it.

use serde::Deserialize;

#[derive(Deserialize)]
struct Feature {
    #[serde(default)]
    soname: Vec<String>,
}

/// The names that a note gives; none where it is no such note.
pub fn sonames(note: &[u8]) -> Vec<String> {
    let text = note.split(|byte| *byte == 0).next().unwrap_or_default();
    let features: Vec<Feature> = serde_json::from_slice(text).unwrap_or_default();
    features.into_iter().flat_map(|feature| feature.soname).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTE: &[u8] =
        br#"[{"feature":"gpu","priority":"recommended","soname":["libcudnn.so.9","libcudnn.so.8"]},{}]"#;

    #[test]
    fn names_are_read_in_order_and_anything_else_is_no_note() {
        assert_eq!(sonames(NOTE), ["libcudnn.so.9", "libcudnn.so.8"]);
        assert_eq!(sonames(&[NOTE, b"\0\0"].concat()), ["libcudnn.so.9", "libcudnn.so.8"]);
        for end in 0..NOTE.len() {
            assert!(sonames(&NOTE[..end]).is_empty());
        }
        for other in [&b""[..], b"{}", b"[1]", br#"[{"soname":"x"}]"#, b"\xff"] {
            assert!(sonames(other).is_empty());
        }
    }
}
