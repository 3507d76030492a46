//! Conda's record of an installed package: `conda-meta/<name>-<version>-<build>.json`.

use serde::Deserialize;

/// Name, version and build from a record's file name. A version or a build has no `-`.
pub fn package(file_name: &str) -> Option<(&str, &str, &str)> {
    let (rest, build) = file_name.strip_suffix(".json")?.rsplit_once('-')?;
    let (name, version) = rest.rsplit_once('-')?;
    let is_complete = !name.is_empty() && !version.is_empty() && !build.is_empty();
    is_complete.then_some((name, version, build))
}

/// The wanted files of a record, as paths below the environment. Fails for invalid JSON that contains `.so`; most
/// packages have no library, so their records are not parsed.
pub fn files(
    bytes: &[u8],
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<String>, serde_json::Error> {
    #[derive(Deserialize)]
    struct CondaRecord {
        #[serde(default)]
        files: Vec<String>,
    }
    if memchr::memmem::find(bytes, b".so").is_none() {
        return Ok(Vec::new());
    }
    let mut record: CondaRecord = serde_json::from_slice(bytes)?;
    record.files.retain(|path| {
        !path.starts_with('/') && path.split('/').all(|part| part != "..") && is_wanted(path)
    });
    Ok(record.files)
}

/// The environments that `~/.conda/environments.txt` names.
pub fn environments(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(str::trim)
        .filter(|line| line.starts_with('/'))
}
