//! Shims of pyenv: a shell script of the program's name that looks up which version to start. Read as
//! pyenv reads its own files, so that what is analysed is what will run; the shim itself is what is started.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::host::Host;

/// The executable that a shim will start; none when the file is no shim or pyenv would refuse.
pub(super) fn resolve(host: &Host, file: &Path, start: &[u8]) -> Option<PathBuf> {
    let is_shim = start.starts_with(b"#!") && file.parent()?.file_name()? == "shims";
    let root = file.parent()?.parent()?;
    if !is_shim || memchr::memmem::find(start, b"pyenv").is_none() && !mentions_pyenv(host, file) {
        return None;
    }
    let name = file.file_name()?;
    versions(host, root).iter().find_map(|version| {
        let candidate = match version.as_str() {
            "system" => next_on_path(host, name, file.parent()?)?,
            version => root.join("versions").join(version).join("bin").join(name),
        };
        host.is_executable(&candidate).then_some(candidate)
    })
}

fn mentions_pyenv(host: &Host, file: &Path) -> bool {
    host.read(file).is_ok_and(|script| memchr::memmem::find(&script, b"pyenv\" exec").is_some())
}

/// `PYENV_VERSION`, then the nearest `.python-version` upward, then pyenv's global one, then `system`.
fn versions(host: &Host, root: &Path) -> Vec<String> {
    let split = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        lines
            .flat_map(|line| line.split([':', ' ', '\t']))
            .filter(|v| !v.is_empty())
            .map(str::to_owned)
            .collect()
    };
    if let Some(given) = host.env.non_empty("PYENV_VERSION") {
        return split(&given.to_string_lossy());
    }
    let start = host.env.non_empty("PYENV_DIR").map_or_else(|| host.cwd.clone(), PathBuf::from);
    let local = start.ancestors().map(|directory| directory.join(".python-version"));
    let files = local.chain([root.join("version")]);
    let chosen =
        files.filter_map(|file| host.read_text(&file).ok()).map(|text| split(&text)).find(|v| !v.is_empty());
    chosen.unwrap_or_else(|| vec!["system".to_owned()])
}

fn next_on_path(host: &Host, name: &OsStr, shims: &Path) -> Option<PathBuf> {
    std::env::split_paths(host.env.get("PATH")?)
        .filter(|directory| directory != shims)
        .map(|directory| host.absolute(&directory).join(name))
        .find(|file| host.is_executable(file))
}
