//! The shell of `cudarun shell`: its file, its environment, and the command that represents the project.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use super::examined;
use crate::cli::{Dialect, Shell};
use crate::environment::{Change, Diff, Environment};
use crate::error::Error;
use crate::host::Host;
use crate::program::{self, Command};
use crate::report;
use crate::settings::files;
use crate::shell::subshell::{self, SHELLS};
use crate::text::show;
use crate::variables::{self, AUDIT, LIBRARY_PATH, PRELOAD, VIEW};

/// The variables of a plan that start-up files may set.
const OF_PLAN: [&str; 4] = [AUDIT, LIBRARY_PATH, PRELOAD, VIEW];

/// The arguments and the environment of the shell.
pub(super) fn prepared(
    host: &Host,
    shell: Shell,
    plan: &Diff,
) -> Result<(Vec<OsString>, Environment), Error> {
    let mut env = host.env.with(plan);
    let project = files::nearest(host);
    let project = project
        .as_deref()
        .and_then(Path::parent)
        .unwrap_or(&host.cwd);
    env.set(
        variables::SHELL,
        show(project.file_name().unwrap_or(OsStr::new("/"))),
    );
    let dialect = if shell == Shell::Fish {
        Dialect::Fish
    } else {
        Dialect::Sh
    };
    // The table of pins may be too long for a second copy of it.
    let of_plan = OF_PLAN.map(OsStr::new);
    let names = plan
        .0
        .iter()
        .map(|change| change.name.as_os_str())
        .filter(|name| *name != variables::PINS);
    let names = names.filter(|name| !of_plan.contains(name)).chain(of_plan);
    let code = names.filter_map(|name| {
        let value = env
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.to_owned());
        report::shell_change(
            &Change {
                name: name.to_owned(),
                value,
            },
            dialect,
        )
    });
    let code: String = code.collect();
    env.set(subshell::PLAN, code);
    let arguments = subshell::prepare(host, shell, &mut env)?;
    Ok((arguments, env))
}

/// The shell that the person uses, its file, and the place that names it.
pub(super) fn choose(host: &Host) -> Result<(Shell, PathBuf, &'static str), Error> {
    let named = host.env.non_empty("SHELL").map(PathBuf::from);
    let parent = host
        .read_link(Path::new(&format!("/proc/{}/exe", parent_id())))
        .ok();
    for (path, named_by) in [(named, "SHELL"), (parent, "the parent process")] {
        let Some(path) = path.filter(|path| host.is_executable(path)) else {
            continue;
        };
        if let Some((_, shell)) = SHELLS
            .iter()
            .find(|(name, _)| path.file_name() == Some(OsStr::new(name)))
        {
            return Ok((*shell, path, named_by));
        }
    }
    Ok((
        Shell::Bash,
        program::locate(host, OsStr::new("bash"))?,
        "default",
    ))
}

/// A command that imports the frameworks of the project's environment; empty where there is none.
pub(super) fn environment(host: &Host) -> Vec<OsString> {
    let project = files::nearest(host);
    let directories = [
        Some(host.cwd.as_path()),
        project.as_deref().and_then(Path::parent),
    ];
    let own = directories
        .into_iter()
        .flatten()
        .map(|directory| directory.join(".venv"));
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(|name| host.env.non_empty(name));
    let pythons = own
        .chain(active.map(PathBuf::from))
        .map(|prefix| prefix.join("bin/python"));
    let Some(python) = { pythons }.find(|python| host.is_executable(python)) else {
        return Vec::new();
    };
    let command = Command {
        program: python.clone().into(),
        arguments: Vec::new(),
    };
    let Ok(program) = program::environment(host, &command) else {
        return Vec::new();
    };
    let modules: Vec<&str> = examined::frameworks(host, &program)
        .map(String::as_str)
        .collect();
    if modules.is_empty() {
        return Vec::new();
    }
    vec![
        python.into(),
        "-c".into(),
        format!("import {}", modules.join(", ")).into(),
    ]
}
