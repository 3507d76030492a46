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
    let mise = Some(OsStr::new("mise"));
    real.file_name() == mise && file.file_name() != mise
}

pub(super) fn resolve(host: &Host, file: &Path, start: &[u8], program: &mut Program) -> ToolShim {
    let Some((shims, name)) = file.parent().zip(file.file_name()) else {
        return ToolShim::No;
    };
    let is_script = start.starts_with(b"#!") && shims.file_name() == Some(OsStr::new("shims"));
    let Some(root) = shims.parent().filter(|_| is_script) else {
        return ToolShim::No;
    };
    if memchr::memmem::find(start, b"pyenv").is_none()
        && !host
            .read(file)
            .is_ok_and(|script| memchr::memmem::find(&script, b"pyenv\" exec").is_some())
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

/// The versions in `PYENV_VERSION`, else in the nearest `.python-version` upward, else pyenv's global one, else
/// `system`.
fn versions(host: &Host, root: &Path, program: &mut Program) -> Vec<String> {
    if let Some(given) = host.env.non_empty("PYENV_VERSION") {
        return versions_in(&given.to_string_lossy());
    }
    let start = host
        .env
        .non_empty("PYENV_DIR")
        .map_or_else(|| host.cwd.clone(), PathBuf::from);
    let local = start
        .ancestors()
        .map(|directory| directory.join(".python-version"));
    for file in local.chain([root.join("version")]) {
        let versions = versions_in(&host.read_text(&file).unwrap_or_default());
        program.watched.insert(file);
        if !versions.is_empty() {
            return versions;
        }
    }
    vec!["system".to_owned()]
}

fn versions_in(text: &str) -> Vec<String> {
    text.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .flat_map(|line| line.split([':', ' ', '\t']))
        .filter(|version| !version.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The directory of a version: its name, its name without `python-`, or the newest version that begins with it.
fn exact(host: &Host, installed: &Path, version: &str) -> Option<String> {
    let plain = version.strip_prefix("python-").unwrap_or(version);
    for name in [version, plain] {
        if host.is_directory(&installed.join(name)) {
            return Some(name.to_owned());
        }
    }
    let mut newest = None;
    for entry in host.list(installed).unwrap_or_default() {
        if let Some(name) = entry.name.to_str()
            && let Some(rest) = name.strip_prefix(plain)
            && rest.starts_with('.')
            && let Ok(number) = name.parse::<Version>()
        {
            newest = newest.max(Some((number, name.to_owned())));
        }
    }
    newest.map(|(_, name)| name)
}

fn next_on_path(host: &Host, name: &OsStr, shims: &Path) -> Option<PathBuf> {
    std::env::split_paths(host.env.get("PATH")?)
        .filter(|directory| directory != shims)
        .map(|directory| host.absolute(&directory).join(name))
        .find(|file| host.is_executable(file))
}
