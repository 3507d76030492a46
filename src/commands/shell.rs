//! `cudarun shell [PROGRAM …]`: a shell in which the plan of a program, or of the project, is set.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};

use super::prove::{proof_time, say_proof};
use super::{
    Exit, command_of, doctor, hook::loads, only_here, say, say_before, say_refusal, settings_of,
};
use crate::cli::{Common, Dialect, Shell, Subshell};
use crate::environment::{Diff, Environment};
use crate::error::Error;
use crate::host::Host;
use crate::launch::{self, Exec};
use crate::pipeline::{ProofOptions, Request};
use crate::program;
use crate::report;
use crate::settings::{files, resolve::Purpose};
use crate::shell::subshell::{self, SHELLS};
use crate::solve::Outcome;
use crate::text::show;
use crate::variables::{self, AUDIT, LIBRARY_PATH, PRELOAD, VIEW};

pub fn shell(host: &Host, common: &Common, options: &Subshell) -> Result<Exit, Error> {
    only_here(common, "shell")?;
    if let Some(project) = host.env.non_empty(variables::SHELL) {
        return Err(Error::NestedShell {
            project: project.to_owned(),
        });
    }
    let (shell, path, named_by) = choose(host)?;
    if common.verbose > 0 {
        say(&report::subshell(&path, named_by));
    }
    let words = if options.words.is_empty() {
        environment(host)
    } else {
        options.words.clone()
    };
    let command = command_of(&words);
    let (command, purpose) = if words.is_empty() {
        (None, Purpose::Project)
    } else {
        (Some(&command), Purpose::Prepare)
    };
    let proof = ProofOptions {
        when: options.start.verify,
        is_quiet: common.quiet,
        ..ProofOptions::default()
    };
    let is_build = options.start.building.build;
    let request = Request {
        is_build,
        proof,
        ..Request::new(
            host,
            common,
            &options.start.library_options,
            command,
            purpose,
        )
    };
    let mut settings = settings_of(&request)?;
    if let Some(remark) = settings.not_allowed() {
        if common.quiet {
            say(&report::setting_remark(remark));
        }
        return Ok(Exit::Refused);
    }
    let mut facts = request.facts(&mut settings)?;
    let outcome = facts.solve();
    match &outcome {
        Outcome::Plan(plan) if facts.program.is_any => facts.program.loads.extend(loads(plan)),
        Outcome::Nothing { .. } if facts.build.is_none() => {
            let program = command.map(|_| facts.program.runs().to_owned());
            return Err(Error::NoPlan { program });
        }
        _ => {}
    }
    let mut decision = facts.decide(outcome)?;
    say_before(&facts, &decision, common);
    if decision.is_refused() {
        say_refusal(&facts, &decision, common);
        return Ok(Exit::Refused);
    }
    let proven = facts.prove(&mut decision, &request.proof)?;
    let when = proof_time(&facts, options.start.verify);
    if !say_proof(&decision, &proven, when, common) {
        return Ok(Exit::Refused);
    }
    let plan = request.with_options(proven.change.of_start(), &facts.settings.layers);
    let (arguments, env) = prepared(host, shell, &plan)?;
    let exec = Exec {
        argv0: path.clone().into_os_string(),
        program: path,
        arguments,
        diff: Diff::between(&host.env, &env),
    };
    match launch::exec(&exec)? {}
}

/// The variables of a plan that start-up files may set.
const OF_PLAN: [&str; 4] = [AUDIT, LIBRARY_PATH, PRELOAD, VIEW];

/// The arguments and the environment of the shell.
fn prepared(host: &Host, shell: Shell, plan: &Diff) -> Result<(Vec<OsString>, Environment), Error> {
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
    let names = plan.0.keys().map(OsString::as_os_str);
    let names = names.filter(|name| *name != variables::PINS);
    let names = names.filter(|name| !of_plan.contains(name)).chain(of_plan);
    let code = names.filter_map(|name| {
        let value = env.iter().find(|(known, _)| *known == name);
        report::shell_change(name, value.map(|(_, value)| value), dialect)
    });
    let code: String = code.collect();
    env.set(subshell::PLAN, code);
    let arguments = subshell::prepare(host, shell, &mut env)?;
    Ok((arguments, env))
}

/// The shell that the person uses, its file, and the place that names it.
fn choose(host: &Host) -> Result<(Shell, PathBuf, &'static str), Error> {
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
fn environment(host: &Host) -> Vec<OsString> {
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
    let Ok(program) = doctor::environment(host, python.as_os_str()) else {
        return Vec::new();
    };
    let modules: Vec<&str> = doctor::frameworks(host, &program)
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
