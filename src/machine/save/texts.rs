//! Reduces text files to the lines that cudarun reads. The content of a file of unknown kind is dropped.

use std::collections::BTreeMap;
use std::path::Path;

use super::names::Names;
use super::source;
use crate::catalog::catalog;
use crate::formats::metadata;
use crate::inventory;

/// The last line of pyenv's shims begins with it.
const PYENV: &str = "pyenv\" exec";

/// The saved content of a text file.
pub(super) enum SavedText {
    Text(String),
    /// The file exists; its content has no effect.
    Empty,
    /// The file has no effect.
    Nothing,
}

/// `is_size` is true if a file of a wheel has the size in the wheel's record.
pub(super) fn keep(path: &Path, bytes: &[u8], is_size: &dyn Fn(&str, u64) -> bool) -> SavedText {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let below = |above: &str| path.starts_with(above);
    let lines = |keep: &dyn Fn(&str) -> bool| {
        let kept: Vec<&str> = text.lines().filter(|line| keep(line)).collect();
        if kept.is_empty() {
            SavedText::Nothing
        } else {
            SavedText::Text(kept.join("\n") + "\n")
        }
    };
    match name {
        // Brackets contain the user and the machine that built it.
        "version" if below("/proc/driver/nvidia") => {
            let first = text.lines().next().unwrap_or_default();
            SavedText::Text(
                first
                    .split('(')
                    .next()
                    .unwrap_or_default()
                    .trim_end()
                    .to_owned()
                    + "  \n",
            )
        }
        "information" if below("/proc/driver/nvidia") => {
            let keys = [
                "Model:",
                "Bus Location:",
                "Device Minor:",
                "GPU UUID:",
                "GPU Excluded:",
            ];
            lines(&|line| keys.iter().any(|key| line.starts_with(key)))
        }
        "params" if below("/proc/driver/nvidia") => {
            let keys = ["PreserveVideoMemoryAllocations:", "RmProfilingAdminOnly:"];
            lines(&|line| keys.iter().any(|key| line.starts_with(key)))
        }
        // Only the size of shared memory counts.
        "mounts" if below("/proc") => lines(&|line| line.split(' ').nth(1) == Some("/dev/shm")),
        _ if below("/sys") || path == Path::new("/proc/sys/kernel/osrelease") => {
            SavedText::Text(text)
        }
        "cpuinfo" => {
            let first = text.split("\n\n").next().unwrap_or_default();
            let is_kept = |line: &&str| {
                ["vendor_id", "flags", "Features"]
                    .iter()
                    .any(|key| line.starts_with(key))
            };
            SavedText::Text(
                first
                    .lines()
                    .filter(is_kept)
                    .map(|line| format!("{line}\n"))
                    .collect(),
            )
        }
        "modules.dep" => {
            let lines = text.lines().filter(|line| line.contains("nvidia"));
            SavedText::Text(lines.map(|line| format!("{line}\n")).collect())
        }
        "status" if below("/var/lib/dpkg") => SavedText::Text(stanzas(&text)),
        _ if below("/var/lib/dpkg/info") => lines(&inventory::is_library),
        "RECORD" => record(bytes, is_size),
        "pyvenv.cfg" => {
            let keys = [
                "home",
                "version",
                "implementation",
                "include-system",
                "base-",
                "uv",
            ];
            lines(&|line| keys.iter().any(|key| line.starts_with(key)))
        }
        "version.json" => SavedText::Text(text),
        _ if name.ends_with(".h") => lines(&|line| line.trim_start().starts_with("#define")),
        _ if name.ends_with(".json")
            && path
                .parent()
                .is_some_and(|parent| parent.ends_with("conda-meta")) =>
        {
            conda(bytes)
        }
        _ if below("/etc/ld.so.conf.d") || name == "ld.so.conf" || name == "ld.so.preload" => {
            // An empty file has another effect than a missing one.
            let code = |line: &str| {
                line.split('#')
                    .next()
                    .unwrap_or_default()
                    .trim_end()
                    .to_owned()
                    + "\n"
            };
            SavedText::Text(text.lines().map(code).collect())
        }
        "environments.txt" | "index.json" | ".python-version" | "version" | "entry_points.txt"
        | "top_level.txt" => SavedText::Text(text),
        "METADATA" => {
            let keys = [
                "Name:",
                "Version:",
                "Requires-Dist:",
                "Requires-Python:",
                "Provides-Extra:",
            ];
            let head = text.lines().take_while(|line| !line.is_empty());
            let kept = head.filter(|line| keys.iter().any(|key| line.starts_with(key)));
            SavedText::Text(kept.map(|line| format!("{line}\n")).collect())
        }
        _ if name.ends_with(".py") && catalog().frameworks.iter().any(|one| one.reads(path)) => {
            SavedText::Text(text)
        }
        // Lines are directories, or code.
        _ if name.ends_with(".pth") => {
            let kept = |line: &str| {
                let code = line
                    .starts_with("import")
                    .then(|| source::reduced(line.as_bytes()));
                code.map_or_else(
                    || line.to_owned(),
                    |code| code.trim_end().replace('\n', "; "),
                )
            };
            let lines = text
                .lines()
                .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
            SavedText::Text(lines.map(|line| kept(line) + "\n").collect())
        }
        _ if name.ends_with(".py") => SavedText::Text(source::reduced(bytes)),
        _ if is_script_of_python(&text) => {
            let first = text.lines().next().unwrap_or_default();
            SavedText::Text(first.to_owned() + &source::reduced(bytes))
        }
        // A shim of pyenv, by the words that cudarun knows it by.
        _ if text.starts_with("#!") && text.contains(PYENV) => SavedText::Text(format!(
            "{}\n{PYENV}\n",
            text.lines().next().unwrap_or_default()
        )),
        _ if text.starts_with("#!") => {
            SavedText::Text(text.lines().next().unwrap_or_default().to_owned() + "\n")
        }
        _ => SavedText::Empty,
    }
}

/// True for the directory of Python's modules, and for that of its packages.
pub(super) fn is_of_python(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    name.starts_with("python3.") || is_of_package(Path::new(name))
}

fn is_of_package(path: &Path) -> bool {
    path.components()
        .any(|part| part.as_os_str() == "site-packages" || part.as_os_str() == "dist-packages")
}

fn is_script_of_python(text: &str) -> bool {
    text.starts_with("#!")
        && text
            .lines()
            .next()
            .is_some_and(|line| line.contains("python"))
}

/// The packages with libraries.
fn stanzas(text: &str) -> String {
    let keys = [
        "Package:",
        "Status:",
        "Architecture:",
        "Version:",
        "Multi-Arch:",
    ];
    let mut out = String::new();
    for stanza in text.split("\n\n") {
        let name = stanza
            .lines()
            .find_map(|line| line.strip_prefix("Package:"))
            .unwrap_or_default()
            .trim();
        if inventory::is_wanted_package(name) {
            let lines = stanza
                .lines()
                .filter(|line| keys.iter().any(|key| line.starts_with(key)));
            out.extend(lines.flat_map(|line| [line, "\n"]));
            out.push('\n');
        }
    }
    out
}

/// The lines of libraries, with sizes that differ from the files'.
fn record(bytes: &[u8], is_size: &dyn Fn(&str, u64) -> bool) -> SavedText {
    let libraries = metadata::record(bytes, &inventory::is_library);
    let line = |(path, size): &(String, Option<u64>)| {
        let size = size
            .filter(|size| !is_size(path, *size))
            .map(|size| size.to_string());
        let hash = metadata::recorded_hash(bytes, path).unwrap_or_default();
        format!("{path},{hash},{}\n", size.unwrap_or_default())
    };
    let text: String = libraries.iter().map(line).collect();
    if text.is_empty() {
        SavedText::Nothing
    } else {
        SavedText::Text(text)
    }
}

fn conda(bytes: &[u8]) -> SavedText {
    match crate::formats::conda::files(bytes, &inventory::is_library) {
        Ok(files) if files.is_empty() => SavedText::Nothing,
        Ok(files) => SavedText::Text(serde_json::json!({ "files": files }).to_string()),
        Err(_) => SavedText::Text("not JSON".to_owned()),
    }
}

/// The lines of a start-up file, each at its number.
pub(super) fn in_place(lines: &BTreeMap<usize, String>, names: &Names) -> String {
    let last = lines.keys().next_back().copied().unwrap_or_default();
    let text = |number| {
        lines
            .get(&number)
            .map(|text| names.hide(text))
            .unwrap_or_default()
            + "\n"
    };
    (1..=last).map(text).collect()
}
