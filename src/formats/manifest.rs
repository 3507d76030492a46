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

/// Returns nothing for valid JSON that does not describe a toolkit.
pub fn manifest(bytes: &[u8]) -> Result<Option<ToolkitManifest>, serde_json::Error> {
    let parts: BTreeMap<String, Value> = serde_json::from_slice(bytes)?;
    let version = |part: &Value| part.get("version")?.as_str().map(str::to_owned);
    let Some(toolkit) = parts.get("cuda").and_then(version) else {
        return Ok(None);
    };
    let parsed =
        |(name, part): (&String, &Value)| Some((name.clone(), version(part)?.parse().ok()?));
    let others = parts.iter().filter(|(name, _)| *name != "cuda");
    Ok(Some(ToolkitManifest {
        toolkit,
        parts: others.filter_map(parsed).collect(),
    }))
}
