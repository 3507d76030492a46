//! Shims of pyenv: a shell script of the program's name looks up the version to start. It is resolved as pyenv does, and the
//! shim itself is started. Shims of mise are only recognised.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::model::Program;
use crate::host::Host;
use crate::version::Version;

pub(super) enum ToolShim {
    /// The file is no shim.
    No,
    /// The executable that the shim will start.
    Of(PathBuf),
    /// pyenv will refuse, or decide by settings that are not known here.
    Unresolved,
}

/// True for a link of another name to mise, whose settings in many places decide the program.
pub(super) fn is_of_mise(file: &Path, real: &Path) -> bool {
    let is_mise = |path: &Path| path.file_name() == Some(OsStr::new("mise"));
    is_mise(real) && !is_mise(file)
}

pub(super) fn resolve(host: &Host, file: &Path, start: &[u8], program: &mut Program) -> ToolShim {
    let Some((shims, name)) = file.parent().zip(file.file_name()) else {
        return ToolShim::No;
    };
    let is_script = start.starts_with(b"#!") && shims.file_name() == Some(OsStr::new("shims"));
    let Some(root) = shims.parent().filter(|_| is_script) else {
        return ToolShim::No;
    };
    let mentions_pyenv = |script: Vec<u8>| memchr::memmem::find(&script, b"pyenv\" exec").is_some();
    if memchr::memmem::find(start, b"pyenv").is_none() && !host.read(file).is_ok_and(mentions_pyenv)
    {
        return ToolShim::No;
    }
    let installed = root.join("versions");
    program.watched.insert(installed.clone());
    versions(host, root, program)
        .iter()
        .find_map(|version| {
            let candidate = match version.as_str() {
                "system" => next_on_path(host, name, shims)?,
                version => installed
                    .join(exact(host, &installed, version)?)
                    .join("bin")
                    .join(name),
            };
            host.is_executable(&candidate).then_some(candidate)
        })
        .map_or(ToolShim::Unresolved, ToolShim::Of)
}

/// Returns the versions in `PYENV_VERSION`, else in the nearest `.python-version` upward, else pyenv's global one, else
/// `system`.
fn versions(host: &Host, root: &Path, program: &mut Program) -> Vec<String> {
    let split = |text: &str| -> Vec<String> {
        let versions = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .flat_map(|line| line.split([':', ' ', '\t']));
        versions
            .filter(|version| !version.is_empty())
            .map(str::to_owned)
            .collect()
    };
    if let Some(given) = host.env.non_empty("PYENV_VERSION") {
        return split(&given.to_string_lossy());
    }
    let start = host
        .env
        .non_empty("PYENV_DIR")
        .map_or_else(|| host.cwd.clone(), PathBuf::from);
    let local = start
        .ancestors()
        .map(|directory| directory.join(".python-version"));
    local
        .chain([root.join("version")])
        .map(|file| {
            let text = host.read_text(&file);
            program.watched.insert(file);
            split(&text.unwrap_or_default())
        })
        .into_iter()
        .find(|versions| !versions.is_empty())
        .unwrap_or_else(|| vec!["system".to_owned()])
}

/// Returns the directory of a version: its name, its name without `python-`, or the newest version that begins with it.
fn exact(host: &Host, installed: &Path, version: &str) -> Option<String> {
    let plain = version.strip_prefix("python-").unwrap_or(version);
    if let Some(name) = [version, plain]
        .into_iter()
        .find(|name| host.is_directory(&installed.join(name)))
    {
        return Some(name.to_owned());
    }
    let entries = host.list(installed).unwrap_or_default();
    let names = entries.iter().filter_map(|entry| entry.name.to_str());
    let number = |name: &str| name.parse::<Version>().ok();
    names
        .filter(|name| {
            name.strip_prefix(plain)
                .is_some_and(|rest| rest.starts_with('.'))
        })
        .filter(|name| number(name).is_some())
        .max_by_key(|name| number(name))
        .map(str::to_owned)
}

fn next_on_path(host: &Host, name: &OsStr, shims: &Path) -> Option<PathBuf> {
    std::env::split_paths(host.env.get("PATH")?)
        .filter(|directory| directory != shims)
        .map(|directory| host.absolute(&directory).join(name))
        .find(|file| host.is_executable(file))
}
