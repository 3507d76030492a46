//! From a plan to the program: what exec will get (pure), and exec itself.

use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use crate::environment::{Diff, Environment, join_elements};
use crate::error::Error;
use crate::solve::Plan;
use crate::target::Command;

/// Tells the program, and a cudarun below it, which view it was started with.
pub const VIEW: &str = "CUDARUN_VIEW";

/// Everything that exec needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exec {
    pub program: PathBuf,
    pub argv0: OsString,
    pub arguments: Vec<OsString>,
    pub diff: Diff,
}

/// The start of a program that is left as it is.
pub fn unchanged(program: &Path, command: &Command) -> Exec {
    Exec {
        program: program.to_owned(),
        argv0: command.program.clone(),
        arguments: command.arguments.clone(),
        diff: Diff::default(),
    }
}

/// The start of a program with a plan; `view` is where the plan's view was published, if it has one.
pub fn prepare(
    program: &Path,
    command: &Command,
    plan: &Plan,
    view: Option<&Path>,
    env: &Environment,
) -> Exec {
    Exec { diff: environment(plan, view, env), ..unchanged(program, command) }
}

/// Starts the program in this process's place.
pub fn exec(exec: &Exec) -> Result<Infallible, Error> {
    #[allow(clippy::disallowed_methods, reason = "this is where the program is started")]
    let mut command = std::process::Command::new(&exec.program);
    command.arg0(&exec.argv0).args(&exec.arguments);
    for change in &exec.diff.0 {
        match &change.value {
            Some(value) => command.env(&change.name, value),
            None => command.env_remove(&change.name),
        };
    }
    let error = command.exec();
    Err(Error::Exec { path: exec.program.clone(), error })
}

/// The view first, then what is kept of what was there.
fn environment(plan: &Plan, view: Option<&Path>, env: &Environment) -> Diff {
    let mut planned = Diff::default();
    let mut change = |name: &str, value: Option<OsString>| {
        if env.get(name) != value.as_deref() {
            planned.0.push(crate::environment::Change { name: OsString::from(name), value });
        }
    };
    let kept = plan.library_path.iter().filter(|element| element.removed.is_none());
    let elements: Vec<&OsStr> =
        view.map(Path::as_os_str).into_iter().chain(kept.map(|e| e.text.as_os_str())).collect();
    let was_empty = env.get("LD_LIBRARY_PATH").is_some_and(OsStr::is_empty);
    if !(elements.is_empty() && was_empty) {
        change("LD_LIBRARY_PATH", (!elements.is_empty()).then(|| join_elements(elements)));
    }
    if plan.preload.iter().any(|element| element.removed.is_some()) {
        let kept: Vec<&OsStr> = plan
            .preload
            .iter()
            .filter(|element| element.removed.is_none())
            .map(|e| e.text.as_os_str())
            .collect();
        change("LD_PRELOAD", (!kept.is_empty()).then(|| join_elements(kept)));
    }
    if let Some(view) = view {
        change(VIEW, Some(view.as_os_str().to_owned()));
    }
    planned
}
