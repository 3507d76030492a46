//! What is kept of a text file: the lines that somebody here reads. What is of no known kind is not kept at all.

use std::collections::BTreeMap;
use std::path::Path;

use super::names::Names;
use crate::formats::metadata;
use crate::inventory;

/// What becomes of it.
pub(super) enum Kept {
    Text(String),
    /// It is there, and nobody needs to know what is in it.
    Empty,
    /// It can go.
    Nothing,
}

/// A record of a wheel says how large a file is, which another file here is: `is_size` where that is what it should be.
pub(super) fn keep(path: &Path, bytes: &[u8], is_size: &dyn Fn(&str, u64) -> bool) -> Kept {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let below = |above: &str| path.starts_with(above);
    let lines = |keep: &dyn Fn(&str) -> bool| {
        let kept: Vec<&str> = text.lines().filter(|line| keep(line)).collect();
        if kept.is_empty() { Kept::Nothing } else { Kept::Text(kept.join("\n") + "\n") }
    };
    match name {
        // What stands in brackets is who has built it, and where.
        "version" if below("/proc/driver/nvidia") => {
            let first = text.lines().next().unwrap_or_default();
            Kept::Text(first.split('(').next().unwrap_or_default().trim_end().to_owned() + "  \n")
        }
        "information" if below("/proc/driver/nvidia") => {
            let keys = ["Model:", "Bus Location:", "Device Minor:", "GPU UUID:", "GPU Excluded:"];
            lines(&|line| keys.iter().any(|key| line.starts_with(key)))
        }
        _ if below("/sys") || path == Path::new("/proc/sys/kernel/osrelease") => Kept::Text(text),
        "cpuinfo" => {
            let first = text.split("\n\n").next().unwrap_or_default();
            let is_kept =
                |line: &&str| ["vendor_id", "flags", "Features"].iter().any(|key| line.starts_with(key));
            Kept::Text(first.lines().filter(is_kept).map(|line| format!("{line}\n")).collect())
        }
        "modules.dep" => {
            let lines = text.lines().filter(|line| line.contains("nvidia"));
            Kept::Text(lines.map(|line| format!("{line}\n")).collect())
        }
        "status" if below("/var/lib/dpkg") => Kept::Text(stanzas(&text)),
        _ if below("/var/lib/dpkg/info") => lines(&inventory::is_library),
        "RECORD" => record(bytes, is_size),
        "pyvenv.cfg" => {
            let keys = ["home", "version", "implementation", "include-system", "base-", "uv"];
            lines(&|line| keys.iter().any(|key| line.starts_with(key)))
        }
        "version.json" => Kept::Text(text),
        _ if name.ends_with(".h") => lines(&|line| line.trim_start().starts_with("#define")),
        _ if name.ends_with(".json") && path.parent().is_some_and(|it| it.ends_with("conda-meta")) => {
            conda(bytes)
        }
        _ if below("/etc/ld.so.conf.d") || name == "ld.so.conf" || name == "ld.so.preload" => {
            // A file is there and says nothing, which is not the same as no file.
            let code = |line: &str| line.split('#').next().unwrap_or_default().trim_end().to_owned() + "\n";
            Kept::Text(text.lines().map(code).collect())
        }
        "environments.txt" | "index.json" | ".python-version" | "version" => Kept::Text(text),
        _ if text.starts_with("#!") => Kept::Text(text.lines().next().unwrap_or_default().to_owned() + "\n"),
        _ => Kept::Empty,
    }
}

/// Of the packages that hold libraries, who they are.
fn stanzas(text: &str) -> String {
    let keys = ["Package:", "Status:", "Architecture:", "Version:", "Multi-Arch:"];
    let mut out = String::new();
    for stanza in text.split("\n\n") {
        let name = stanza.lines().find_map(|line| line.strip_prefix("Package:")).unwrap_or_default().trim();
        if inventory::is_wanted_package(name) {
            let lines = stanza.lines().filter(|line| keys.iter().any(|key| line.starts_with(key)));
            out.extend(lines.flat_map(|line| [line, "\n"]));
            out.push('\n');
        }
    }
    out
}

/// The lines of libraries; a size only where it says something.
fn record(bytes: &[u8], is_size: &dyn Fn(&str, u64) -> bool) -> Kept {
    let libraries = metadata::record(bytes, &inventory::is_library);
    let line = |(path, size): &(String, Option<u64>)| {
        let size = size.filter(|size| !is_size(path, *size)).map(|size| size.to_string());
        format!("{path},,{}\n", size.unwrap_or_default())
    };
    let text: String = libraries.iter().map(line).collect();
    if text.is_empty() { Kept::Nothing } else { Kept::Text(text) }
}

fn conda(bytes: &[u8]) -> Kept {
    match crate::formats::conda::files(bytes, &inventory::is_library) {
        Ok(files) if files.is_empty() => Kept::Nothing,
        Ok(files) => Kept::Text(serde_json::json!({ "files": files }).to_string()),
        Err(_) => Kept::Text("not JSON".to_owned()),
    }
}

/// The lines of a start-up file, each at its number.
pub(super) fn in_place(lines: &BTreeMap<usize, String>, names: &Names) -> String {
    let last = lines.keys().next_back().copied().unwrap_or_default();
    let text = |number| lines.get(&number).map(|text| names.hide(text)).unwrap_or_default() + "\n";
    (1..=last).map(text).collect()
}
