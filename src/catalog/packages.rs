//! `profiles/packages.toml`: which packages of a distribution may hold libraries. Read apart from the rest of the
//! catalog, by those who ask a package manager's database.

use std::sync::OnceLock;

use serde::Deserialize;

use super::matches_pattern;

const PACKAGES: &str = include_str!("../../profiles/packages.toml");

/// Packages that are alike. The fields are explained in `profiles/packages.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Packages {
    names: Vec<String>,
    /// Whether the first part of their version is that of the libraries in them.
    pub upstream: bool,
    /// Whether their libraries are for programs of their own.
    #[serde(default)]
    pub own_use: bool,
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "date")]
    _date: String,
}

/// What is known of a package of this name; none when it holds no library of interest.
pub fn packages_of(name: &str) -> Option<&'static Packages> {
    static TABLE: OnceLock<Vec<Packages>> = OnceLock::new();
    let rows = TABLE.get_or_init(|| parse().expect("profiles/ is checked by the tests"));
    rows.iter().find(|row| row.names.iter().any(|pattern| matches_pattern(pattern, name)))
}

fn parse() -> Result<Vec<Packages>, toml::de::Error> {
    #[derive(Deserialize)]
    struct Table {
        package: Vec<Packages>,
    }
    Ok(toml::from_str::<Table>(PACKAGES)?.package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_loads_and_is_sorted() {
        for row in parse().unwrap() {
            assert!(row.names.is_sorted(), "{:?}", row.names);
            assert!(row.names.iter().all(|name| name.matches('*').count() <= 1));
        }
    }

    #[test]
    fn names_lead_to_what_their_versions_say() {
        let upstream = |name| packages_of(name).map(|row| row.upstream);
        for name in [
            "cuda-cudart-12-4",
            "libcublas-12-4",
            "libcudnn9-cuda-12",
            "libnccl2",
            "libcuda1",
            "libnvinfer10",
        ] {
            assert_eq!(upstream(name), Some(true), "{name}");
        }
        for name in ["cuda-nsight-compute-12-4", "libcublas11", "nvidia-cuda-toolkit", "nvidia-l4t-cuda"] {
            assert_eq!(upstream(name), Some(false), "{name}");
        }
        let is_for_own_use = |name| packages_of(name).unwrap().own_use;
        assert!(is_for_own_use("nsight-systems-2024.2.3") && !is_for_own_use("cuda-cupti-12-4"));
        for name in ["bash", "libc6", "libcups2", "libcurl4", "libnvme1"] {
            assert_eq!(upstream(name), None, "{name}");
        }
    }
}
