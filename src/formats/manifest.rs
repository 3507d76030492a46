//! `version.json`, in which a CUDA toolkit says what it holds.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::version::Version;

/// The versions of a toolkit and of its parts, which have NVIDIA's own names: `cuda_cudart`, `libcublas`.
#[derive(Debug, PartialEq, Eq)]
pub struct Manifest {
    /// `12.4.1`
    pub toolkit: String,
    pub parts: BTreeMap<String, Version>,
}

/// None for what is JSON and not a toolkit's.
pub fn manifest(bytes: &[u8]) -> Result<Option<Manifest>, serde_json::Error> {
    let parts: BTreeMap<String, Value> = serde_json::from_slice(bytes)?;
    let version = |part: &Value| part.get("version")?.as_str().map(str::to_owned);
    let Some(toolkit) = parts.get("cuda").and_then(version) else { return Ok(None) };
    let parsed = |(name, part): (&String, &Value)| Some((name.clone(), version(part)?.parse().ok()?));
    let others = parts.iter().filter(|(name, _)| *name != "cuda");
    Ok(Some(Manifest { toolkit, parts: others.filter_map(parsed).collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{
       "cuda" : { "name" : "CUDA SDK", "version" : "12.4.1" },
       "cuda_cudart" : { "name" : "CUDA Runtime (cudart)", "version" : "12.4.127" },
       "libcublas" : { "name" : "CUDA cuBLAS", "version" : "12.4.5.8" },
       "nsight" : { "name" : "x", "version" : "2024.1.1.1.1" }, "other" : 1
    }"#;

    #[test]
    fn reads_the_parts_of_a_toolkit() {
        let found = manifest(SAMPLE.as_bytes()).unwrap().unwrap();
        assert_eq!(found.toolkit, "12.4.1");
        let parts: Vec<_> = found.parts.iter().map(|(name, version)| format!("{name} {version}")).collect();
        assert_eq!(parts, ["cuda_cudart 12.4.127", "libcublas 12.4.5.8"]);
        assert_eq!(manifest(b"{\"version\": \"1\"}").unwrap(), None);
    }

    #[test]
    fn any_bytes_give_a_result() {
        for end in 0..SAMPLE.len() {
            assert!(manifest(&SAMPLE.as_bytes()[..end]).is_err());
        }
        assert!(manifest("[".repeat(100_000).as_bytes()).is_err());
        assert!(manifest(b"[]").is_err() && manifest(b"\xff").is_err());
    }
}
