//! Spack's database of what it installed: `.spack-db/index.json`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One installed package.
#[derive(Debug, PartialEq, Eq)]
pub struct Install {
    pub name: String,
    pub version: String,
    /// Where it stands.
    pub prefix: String,
}

/// The packages that are installed and whose name is wanted.
pub fn installs(bytes: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Install>, serde_json::Error> {
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
        // What was removed, and is known because others ask for it, has none.
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
        Some(Install { name: record.spec.name, version: record.spec.version, prefix })
    };
    Ok(wanted.filter_map(install).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"{"database": {"version": "7", "installs": {
        "aaaa": {"spec": {"name": "cudnn", "version": "9.2.0.82-12", "arch": {"target": {"name": "zen"}}},
                 "path": "/opt/spack/cudnn-9.2.0.82-12-aaaa", "installed": true, "ref_count": 1},
        "bbbb": {"spec": {"name": "cuda", "version": "12.4.1"}, "path": null, "installed": false},
        "cccc": {"spec": {"name": "zlib", "version": "1.3"}, "path": "/opt/spack/zlib"},
        "dddd": {"spec": {"name": "nccl"}, "path": "nowhere"}}}}"#;

    #[test]
    fn reads_what_is_installed() {
        let found = installs(SAMPLE.as_bytes(), &|name| name != "zlib").unwrap();
        let cudnn = Install {
            name: "cudnn".to_owned(),
            version: "9.2.0.82-12".to_owned(),
            prefix: "/opt/spack/cudnn-9.2.0.82-12-aaaa".to_owned(),
        };
        assert_eq!(found, [cudnn]);
    }

    #[test]
    fn any_bytes_give_a_result() {
        for end in 0..SAMPLE.len() {
            assert!(installs(&SAMPLE.as_bytes()[..end], &|_| true).is_err());
        }
        for bad in ["", "[]", "{}", r#"{"database": {"installs": {"a": {}}}}"#, "{\"database\": 1}"] {
            assert!(installs(bad.as_bytes(), &|_| true).is_err(), "{bad}");
        }
        assert!(installs(br#"{"database": {}}"#, &|_| true).unwrap().is_empty());
    }
}
