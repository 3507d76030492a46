//! The toolkit of a program that compiles CUDA code.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::request::Request;
use super::scan;
use super::start_facts::StartFacts;
use crate::builds::{self, Build, BuildRequirements, Compilers, Lacking, compilers};
use crate::cli::Common;
use crate::error::Error;
use crate::host::Host;
use crate::inventory::PartKind;
use crate::program::{self, BuiltFramework, Command};
use crate::settings::Value;
use crate::settings::resolve::{Purpose, Settings};

/// Installers that build in an environment of their own, unless they are told not to: by an option, or by one of these values of
/// a variable. pip's variable is that of `build_isolation`, in spite of its name.
const INSTALLERS: [(&str, &str, [&str; 4]); 2] = [
    ("pip", "PIP_NO_BUILD_ISOLATION", ["0", "false", "no", "off"]),
    ("uv", "UV_NO_BUILD_ISOLATION", ["1", "true", "yes", "on"]),
];
const NO_ISOLATION: &str = "--no-build-isolation";

/// Chooses the toolkit for what a command builds, publishes its view where a program is to start, and adds its variables to
/// those that the program gets.
pub(super) fn with_toolkit(settings: &mut Settings, request: &Request<'_>) -> Result<Build, Error> {
    let host = &settings.host;
    let (sites, mut watched) = python(host, request.command);
    let path = request.command.map(|command| Path::new(&command.program));
    let nvcc =
        path.filter(|path| path.components().count() > 1 && builds::is_nvcc(path.as_os_str()));
    let nvcc = nvcc.map(|path| host.absolute(path));
    let inventory = scan::toolkits(settings, request.common, &sites, nvcc.clone())?;
    let framework = program::built_framework(host, &sites);
    watched.extend(framework.iter().map(|framework| framework.file.clone()));
    let is_isolated = framework
        .as_ref()
        .zip(request.command)
        .is_some_and(|(of, command)| is_isolated(host, command, of));
    let ranges = settings.layers.of_toolkit();
    let ranges = ranges.filter_map(|setting| match &setting.value {
        Value::Range(range) => Some((range.clone(), setting.from.asker())),
        _ => None,
    });
    let requirements = BuildRequirements {
        framework,
        ranges: ranges.collect(),
        is_isolated,
        nvcc,
    };
    // A program that is missing is named first, unless a toolkit would bring it.
    let command = request
        .command
        .filter(|command| command.program != PartKind::Nvcc.file_name());
    let missing = command.and_then(|command| program::locate(host, &command.program).err());
    let plan = builds::decide(host, &inventory, &requirements, &sites)
        .map_err(|none| missing.unwrap_or(Error::NoToolkit(none)))?;
    let published = plan.publish(host, publishes(settings))?;
    // Only the program is looked up with these variables: the view is no input of the scan, and it does not exist where nothing
    // is started.
    let root = published
        .view
        .as_ref()
        .unwrap_or(&plan.toolkit.root)
        .join("bin");
    let own = plan
        .toolkit
        .part(PartKind::Nvcc)
        .and_then(Path::parent)
        .map(Path::to_owned);
    let mut env = host.env.clone();
    let found: Vec<PathBuf> = std::iter::once(root).chain(own).collect();
    env.set("PATH", builds::before(&found, Some(program::path_of(host))));
    settings.host = host.inside(env, host.cwd.clone());
    settings.variables = settings.variables.then(&published.diff);
    watched.extend(
        inventory
            .watched
            .into_iter()
            .chain(plan.watched.iter().cloned()),
    );
    Ok(Build {
        plan,
        watched,
        view: published.view,
    })
}

/// Finds compilers for frameworks that would find none while they run.
pub(super) fn compilers(facts: &StartFacts<'_>, common: &Common) -> Result<Compilers, Error> {
    let StartFacts {
        host,
        settings,
        program,
        inventory,
        ..
    } = facts;
    let (lacking, watched) = compilers::lacking(host, program, inventory);
    if lacking.is_empty() {
        return Ok(Compilers {
            watched,
            ..Compilers::default()
        });
    }
    let found = scan::toolkits(settings, common, &program.site_packages, None)?;
    let toolkits = found.toolkits.as_deref().unwrap_or_default();
    let (compile, lacking): (Vec<_>, Vec<_>) =
        lacking.into_iter().partition(Lacking::needs_toolkit);
    let mut compilers = compilers::supply(host, inventory, toolkits, &lacking);
    if !compile.is_empty() {
        let requirements = BuildRequirements {
            framework: program::built_framework(host, &program.site_packages),
            ..BuildRequirements::default()
        };
        let plan = builds::decide(host, &found, &requirements, &program.site_packages);
        let writes = publishes(settings);
        for lacking in compile {
            lacking.supply_toolkit(host, &plan, writes, &mut compilers);
        }
    }
    compilers.watched.extend(watched);
    compilers.watched.extend(found.watched);
    Ok(compilers)
}

/// True if the view of a toolkit is written, and its place not only named.
fn publishes(settings: &Settings) -> bool {
    settings.purpose != Purpose::Answer && !settings.host.is_rerooted()
}

/// Returns the site-packages of the Python that a program is of, or else of the Python that its environment is of, and the paths
/// that this was read from.
fn python(host: &Host, command: Option<&Command>) -> (Vec<PathBuf>, BTreeSet<PathBuf>) {
    let of = |command: &Command| {
        program::environment(host, command)
            .ok()
            .filter(|program| program.pip.is_some())
    };
    if let Some(program) = command.and_then(of) {
        return (program.site_packages, program.watched);
    }
    let named = ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(|name| host.env.non_empty(name));
    let environments = named.map(PathBuf::from).chain([host.cwd.join(".venv")]);
    let mut watched: BTreeSet<PathBuf> = BTreeSet::new();
    let python = environments
        .map(|directory| directory.join("bin/python"))
        .find(|python| {
            watched.insert(python.clone());
            host.is_executable(python)
        });
    let program = python.map_or(OsString::from("python3"), PathBuf::into_os_string);
    let found = of(&Command {
        program,
        arguments: Vec::new(),
    })
    .unwrap_or_default();
    watched.extend(found.watched);
    (found.site_packages, watched)
}

/// True if a command installs in a way that hides the framework from the build.
fn is_isolated(host: &Host, command: &Command, framework: &BuiltFramework) -> bool {
    let words: Vec<&OsStr> = std::iter::once(&command.program)
        .chain(&command.arguments)
        .map(OsString::as_os_str)
        .collect();
    let installer = |word: &&OsStr| {
        let name = Path::new(word)
            .file_name()
            .and_then(OsStr::to_str)
            .unwrap_or_default();
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        INSTALLERS.iter().find(|(known, ..)| *known == name)
    };
    let installer = words
        .iter()
        .take(3)
        .enumerate()
        .find_map(|(at, word)| Some((at, installer(word)?)));
    let Some((at, (_, variable, off))) = installer else {
        return false;
    };
    let is_off = host.env.non_empty(variable).and_then(OsStr::to_str);
    let is_off = is_off.is_some_and(|value| off.contains(&value.to_ascii_lowercase().as_str()));
    let words = &words[at + 1..];
    let builds = words
        .iter()
        .any(|word| *word == "install" || *word == "wheel");
    let name = framework.name.split(' ').next().unwrap_or_default();
    let is_asked_for = |word: &&OsStr| {
        // `.[dev]` is the project here.
        let project = word
            .to_str()
            .and_then(|word| word.split('[').next())
            .unwrap_or_default();
        program::is_required_for_build(host, &host.absolute(Path::new(project)), name)
    };
    builds
        && !is_off
        && !words.iter().any(|word| *word == NO_ISOLATION)
        && !words.iter().any(is_asked_for)
}
