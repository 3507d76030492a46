//! Spack's database of installed packages: `.spack-db/index.json`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One installed package.
#[derive(Debug, PartialEq, Eq)]
pub struct Install {
    pub name: String,
    pub version: String,
    /// The absolute path of its directory.
    pub prefix: String,
}

/// Returns the installed packages with a wanted name.
pub fn installs(
    bytes: &[u8],
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Install>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Index {
        database: Database,
    }
    #[derive(Deserialize)]
    struct Database {
        #[serde(default)]
        installs: BTreeMap<String, Record>,
    }
    #[derive(Deserialize)]
    struct Record {
        spec: Spec,
        // Packages that were removed, and that others still refer to, have none.
        #[serde(default)]
        path: Option<String>,
        #[serde(default = "yes")]
        installed: bool,
    }
    #[derive(Deserialize)]
    struct Spec {
        name: String,
        #[serde(default)]
        version: String,
    }
    fn yes() -> bool {
        true
    }
    let index: Index = serde_json::from_slice(bytes)?;
    let records = index.database.installs.into_values();
    let wanted = records.filter(|record| record.installed && is_wanted(&record.spec.name));
    let install = |record: Record| {
        let prefix = record.path.filter(|path| path.starts_with('/'))?;
        Some(Install {
            name: record.spec.name,
            version: record.spec.version,
            prefix,
        })
    };
    Ok(wanted.filter_map(install).collect())
}
