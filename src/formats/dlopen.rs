//! `.note.dlopen`, in which an ELF file lists the libraries that it opens at run time
//! (<https://systemd.io/ELF_DLOPEN_METADATA/>).

use serde::Deserialize;

#[derive(Deserialize)]
struct Feature {
    #[serde(default)]
    soname: Vec<String>,
}

/// Returns the names in a note; none if it is malformed.
pub fn sonames(note: &[u8]) -> Vec<String> {
    let text = note.split(|byte| *byte == 0).next().unwrap_or_default();
    let features: Vec<Feature> = serde_json::from_slice(text).unwrap_or_default();
    features
        .into_iter()
        .flat_map(|feature| feature.soname)
        .collect()
}
