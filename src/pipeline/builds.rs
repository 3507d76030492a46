//! The toolkit of a program that compiles CUDA code.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::facts::Facts;
use super::model::Request;
use super::scan;
use crate::builds::{self, BuildWish, Compilers, compilers};
use crate::cli::Common;
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{Inventory, Part, Scope};
use crate::program::{self, BuiltFramework, Command};
use crate::settings::build::Build;
use crate::settings::resolve::{Purpose, Settings};

/// Installers that build in an environment of their own, unless they are told not to.
const INSTALLERS: [&str; 2] = ["pip", "uv"];
const NO_ISOLATION: &str = "--no-build-isolation";

/// Chooses the toolkit for what a command builds, publishes its view where a program is to start, and adds its variables to
/// those that the program gets.
pub(super) fn with_toolkit(mut settings: Settings, request: &Request<'_>) -> Result<Settings, Error> {
    let host = &settings.host;
    let sites = site_packages(host, request.command());
    let inventory = toolkits(&settings, request.common, &sites)?;
    let framework = program::built_framework(host, &sites);
    let is_isolated =
        framework.as_ref().zip(request.command()).is_some_and(|(of, command)| is_isolated(host, command, of));
    let wish = BuildWish { framework, ranges: settings.layers.toolkit_ranges(), is_isolated };
    // A program that is missing is named first, unless a toolkit would bring it.
    let command = request.command().filter(|command| command.program != Part::Nvcc.file_name());
    let missing = command.and_then(|command| program::locate(host, &command.program).err());
    let plan = builds::decide(host, &inventory, &wish, &sites)
        .map_err(|none| missing.unwrap_or(Error::NoToolkit(none)))?;
    let published = plan.publish(host, settings.purpose != Purpose::Answer && !host.is_rerooted())?;
    // Only the program is looked up with these variables: the view is no input of the scan, and it does not exist where nothing
    // is started.
    let root = published.view.as_ref().unwrap_or(&plan.toolkit.root).join("bin");
    let own = plan.toolkit.part(Part::Nvcc).and_then(Path::parent).map(Path::to_owned);
    let mut env = host.env.clone();
    let found: Vec<PathBuf> = std::iter::once(root).chain(own).collect();
    env.set("PATH", builds::before(&found, host.env.get("PATH")));
    settings.host = host.inside(env, host.cwd.clone());
    settings.variables = settings.variables.then(&published.diff);
    settings.build = Some(Build { plan, watched: inventory.watched, view: published.view });
    Ok(settings)
}

/// Scans for toolkits alone.
fn toolkits(settings: &Settings, common: &Common, sites: &[PathBuf]) -> Result<Inventory, Error> {
    let scope = scan::any_program(settings, common)?;
    let site_packages = sites.to_vec();
    let scope = Scope { toolkits: true, only_toolkits: true, site_packages, ..scope };
    Ok(scan::scan(&settings.host, &scope))
}

/// Finds compilers for frameworks that would find none while they run.
pub(super) fn compilers(facts: &Facts<'_>, common: &Common) -> Result<Compilers, Error> {
    let Facts { host, settings, program, inventory, .. } = facts;
    let needed = compilers::needed(program, inventory);
    let watched: BTreeSet<PathBuf> =
        needed.iter().flat_map(|(_, row)| compilers::places(program, row)).collect();
    let lacking: Vec<_> =
        needed.into_iter().filter(|(_, row)| !compilers::is_found(host, program, row)).collect();
    if lacking.is_empty() {
        return Ok(Compilers { watched, ..Compilers::default() });
    }
    let found = toolkits(settings, common, &program.site_packages)?;
    let toolkits = found.toolkits.as_deref().unwrap_or_default();
    let mut compilers = compilers::supply(host, program, inventory, toolkits, &lacking);
    compilers.watched.extend(watched);
    compilers.watched.extend(found.watched);
    Ok(compilers)
}

/// Returns the site-packages of the Python that a program is of, or else of the Python that its environment is of.
fn site_packages(host: &Host, command: Option<&Command>) -> Vec<PathBuf> {
    let of =
        |command: &Command| program::environment(host, command).ok().filter(|program| program.pip.is_some());
    if let Some(program) = command.and_then(of) {
        return program.site_packages;
    }
    let named = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(|name| host.env.non_empty(name));
    let environments = named.map(PathBuf::from).chain([host.cwd.join(".venv")]);
    let pythons = environments.map(|directory| directory.join("bin/python"));
    let python = pythons.into_iter().find(|python| host.is_executable(python));
    let program = python.map_or(OsString::from("python3"), PathBuf::into_os_string);
    of(&Command { program, arguments: Vec::new() }).map(|program| program.site_packages).unwrap_or_default()
}

/// True if a command installs in a way that hides the framework from the build.
fn is_isolated(host: &Host, command: &Command, framework: &BuiltFramework) -> bool {
    let words: Vec<&OsStr> =
        std::iter::once(&command.program).chain(&command.arguments).map(OsString::as_os_str).collect();
    let is_installer = |word: &&OsStr| {
        let name = Path::new(word).file_name().and_then(OsStr::to_str).unwrap_or_default();
        INSTALLERS.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'))
    };
    let at = words.iter().take(3).position(is_installer);
    let Some(words) = at.map(|at| &words[at + 1..]) else { return false };
    let builds = words.iter().any(|word| *word == "install" || *word == "wheel");
    let name = framework.name.split(' ').next().unwrap_or_default();
    let is_asked_for =
        |word: &&OsStr| program::is_required_for_build(host, &host.absolute(Path::new(word)), name);
    builds && !words.iter().any(|word| *word == NO_ISOLATION) && !words.iter().any(is_asked_for)
}
