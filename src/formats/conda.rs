//! What conda records of an installed package: `conda-meta/<name>-<version>-<build>.json`.

use serde::Deserialize;

/// The parts of a record's file name; neither a version nor a build can hold a `-`.
pub fn package(file_name: &str) -> Option<(&str, &str, &str)> {
    let (rest, build) = file_name.strip_suffix(".json")?.rsplit_once('-')?;
    let (name, version) = rest.rsplit_once('-')?;
    let is_whole = !name.is_empty() && !version.is_empty() && !build.is_empty();
    is_whole.then_some((name, version, build))
}

/// The files of a record that are wanted, by their paths below the environment. Most packages have no library, and
/// their records are not taken apart.
pub fn files(bytes: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> Result<Vec<String>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Record {
        #[serde(default)]
        files: Vec<String>,
    }
    if memchr::memmem::find(bytes, b".so").is_none() {
        return Ok(Vec::new());
    }
    let record: Record = serde_json::from_slice(bytes)?;
    Ok(record.files.into_iter().filter(|path| is_below(path) && is_wanted(path)).collect())
}

/// Whether a path stays in the environment.
fn is_below(path: &str) -> bool {
    !path.starts_with('/') && !path.split('/').any(|component| component == "..")
}

/// The environments that `~/.conda/environments.txt` names.
pub fn environments(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| line.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_files() {
        let parts = package("cuda-cudart_linux-64-12.4.127-h85509e4_2.json");
        assert_eq!(parts, Some(("cuda-cudart_linux-64", "12.4.127", "h85509e4_2")));
        for bad in ["history", "a-1.json", "-1-2.json", "a--2.json", "a-1-.json", ".json", ""] {
            assert_eq!(package(bad), None, "{bad}");
        }
        let record = r#"{"name": "cudnn", "depends": ["a"], "files": ["include/cudnn.h", "lib/libcudnn.so.9",
            "../lib/libcudnn.so.8", "/lib/libcudnn.so.7"], "paths_data": {"paths": [{"_path": "x.so"}]}}"#;
        let wanted = |path: &str| path.contains(".so");
        assert_eq!(files(record.as_bytes(), &wanted).unwrap(), ["lib/libcudnn.so.9"]);
        assert!(files(br#"{"name": ".so"}"#, &wanted).unwrap().is_empty());
        assert_eq!(
            environments("/opt/conda\n\n # x\nrelative\n/a b\n").collect::<Vec<_>>(),
            ["/opt/conda", "/a b"]
        );
    }

    #[test]
    fn any_bytes_give_a_result() {
        let record = br#"{"files": ["lib/libcudnn.so.9", "a\u00e4"], "name": 1}"#;
        for end in 0..record.len() {
            let _ = files(&record[..end], &|_| true);
        }
        let deep = format!(r#"{{"x": {}, "y": ".so"}}"#, "[".repeat(100_000));
        assert!(files(deep.as_bytes(), &|_| true).is_err());
        assert!(files(br#"{"files": [".so", 1]}"#, &|_| true).is_err());
        assert!(files(b"\xff\xfe.so", &|_| true).is_err());
    }
}
