//! `version.json`, which lists the parts of a CUDA toolkit.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::version::Version;

/// The versions of a toolkit and of its parts, by NVIDIA's names of them: `cuda_cudart`, `libcublas`.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolkitManifest {
    /// `12.4.1`
    pub toolkit: String,
    pub parts: BTreeMap<String, Version>,
}

/// Gives nothing for valid JSON that does not describe a toolkit.
pub fn manifest(bytes: &[u8]) -> Result<Option<ToolkitManifest>, serde_json::Error> {
    let objects: BTreeMap<String, Value> = serde_json::from_slice(bytes)?;
    let mut toolkit = None;
    let mut parts = BTreeMap::new();
    for (name, object) in objects {
        let Some(version) = object.get("version").and_then(Value::as_str) else {
            continue;
        };
        if name == "cuda" {
            toolkit = Some(version.to_owned());
        } else if let Ok(version) = version.parse() {
            parts.insert(name, version);
        }
    }
    Ok(toolkit.map(|toolkit| ToolkitManifest { toolkit, parts }))
}
