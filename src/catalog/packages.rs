//! `profiles/packages.toml`: the packages of a distribution that may hold libraries. It is read apart from the rest of the
//! catalog, with a package manager's database.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::rows::{PackageTable, Packages};
use crate::formats::names::{beginning, beginnings, matches_pattern};

static TABLE: LazyLock<PackageTable> = LazyLock::new(|| profile!("packages"));

/// Returns the row of a package; nothing if it holds no library of interest.
pub fn packages_of(name: &str) -> Option<&'static Packages> {
    static BEGINNINGS: LazyLock<BTreeSet<u32>> =
        LazyLock::new(|| beginnings(TABLE.package.iter().flat_map(|row| &row.names)));
    if !BEGINNINGS.contains(&beginning(name)?) {
        return None;
    }
    TABLE.package.iter().find(|row| {
        row.names
            .iter()
            .any(|pattern| matches_pattern(pattern, name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_have_one_star_after_their_beginning() {
        for row in &TABLE.package {
            assert!(row.names.is_sorted(), "{:?}", row.names);
            assert!(row.names.iter().all(|name| name.matches('*').count() <= 1));
            assert!(
                row.names
                    .iter()
                    .all(|name| name.find('*').unwrap_or(name.len()) >= 4)
            );
        }
    }

    #[test]
    fn names_lead_to_what_their_versions_say() {
        for name in [
            "cuda-cudart-12-4",
            "libcublas-12-4",
            "libcudnn9-cuda-12",
            "libnccl2",
            "libcuda1",
            "libnvinfer10",
        ] {
            assert!(packages_of(name).unwrap().upstream, "{name}");
        }
        for name in [
            "cuda-nsight-compute-12-4",
            "libcublas11",
            "nvidia-cuda-toolkit",
            "nvidia-l4t-cuda",
        ] {
            assert!(!packages_of(name).unwrap().upstream, "{name}");
        }
        assert!(packages_of("nsight-systems-2024.2.3").unwrap().own_use);
        assert!(!packages_of("cuda-cupti-12-4").unwrap().own_use);
        for name in ["bash", "libc6", "libcups2", "libcurl4", "libnvme1"] {
            assert!(packages_of(name).is_none(), "{name}");
        }
    }
}
