//! `cudarun advise PACKAGE…`: the newest published releases that work together on this machine, and the command that installs
//! them. Installs nothing, and asks no index.

use std::path::{Path, PathBuf};

use super::{Exit, machine, print, settings_of};
use crate::advise::{self, AdvisedMachine, AskedPackage, KeptFramework, known_names};
use crate::catalog::wheel_architecture;
use crate::cli::{Advise, Common, LibraryOptions};
use crate::error::Error;
use crate::formats::elf;
use crate::host::Host;
use crate::inventory::{self, Scope};
use crate::pipeline::{self, Request};
use crate::program::{self, Command, Program};
use crate::report::{self, AdviceReport, Style};
use crate::settings::resolve::Purpose;
use crate::text::{list, show};
use crate::version::Version;

/// The framework that most others extend.
const TORCH: &str = "torch";

pub fn advise(host: Host, common: &Common, options: &Advise) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let wanted = wanted(&options.packages)?;
    let library_options = LibraryOptions::default();
    let request = Request::new(&host, common, &library_options, None, Purpose::Answer);
    let settings = settings_of(&request)?;
    let mut target = target(&settings.host, options)?;
    if wanted.iter().any(|one| one.name == TORCH) {
        target.installed = None;
    }
    let mut advice = advise::advise(&wanted, &target);
    let mut replaced = None;
    if advice.picks.is_empty() && options.torch.is_none() && target.installed.is_some() {
        replaced = target.installed.take();
        advice = advise::advise(&wanted, &target);
    }
    let found = !advice.picks.is_empty();
    let report = AdviceReport {
        advice,
        target,
        replaced,
        options,
    };
    if options.json {
        print(&report::json::advice(&report))?;
    } else {
        let style = Style::stdout(common.color).of(&host);
        print(&style.page(&report::advice(&report, style)))?;
    }
    Ok(if found { Exit::Yes } else { Exit::No })
}

/// The packages as they were typed.
fn wanted(words: &[String]) -> Result<Vec<AskedPackage>, Error> {
    let mut wanted: Vec<AskedPackage> = Vec::new();
    for word in words {
        let Ok(one) = word.parse::<AskedPackage>() else {
            let message = format!("`{}` is not a package as pip names it", show(word));
            let hint = Some("cudarun advise vllm==0.11.0".to_owned());
            return Err(Error::Usage { message, hint });
        };
        if !known_names().any(|name| name == one.name) {
            let known = list(known_names());
            let message = format!(
                "`{}` is not in the table of releases, which has {known}",
                show(word)
            );
            return Err(Error::Usage {
                message,
                hint: None,
            });
        }
        if wanted.iter().any(|other| other.name == one.name) {
            let message = format!("`{}` is named twice", one.name);
            return Err(Error::Usage {
                message,
                hint: None,
            });
        }
        wanted.push(one);
    }
    Ok(wanted)
}

/// This machine, except for what the options say.
fn target(host: &Host, options: &Advise) -> Result<AdvisedMachine, Error> {
    let own = inventory::machine(host).unwrap_or(elf::X86_64);
    let scope = Scope {
        machine: own,
        only_toolkits: true,
        ..Scope::default()
    };
    let inventory = pipeline::scan(host, &scope);
    let mut gpus: Vec<_> = if options.gpu.is_empty() {
        inventory.capabilities().collect()
    } else {
        options.gpu.clone()
    };
    gpus.sort_unstable();
    gpus.dedup();
    let asked: Option<Version> = options
        .python
        .as_ref()
        .and_then(|text| text.to_str()?.parse().ok());
    let environment = if asked.is_some() {
        None
    } else {
        environment(host, options)?
    };
    let installed = match &options.torch {
        Some(version) => Some(version.parse().map_err(|_| {
            let message = format!("--torch `{}` is not a version", show(version));
            Error::Usage {
                message,
                hint: None,
            }
        })?),
        None if options.is_elsewhere() => None,
        None => environment
            .as_ref()
            .and_then(|program| torch(host, program)),
    };
    Ok(AdvisedMachine {
        driver: options
            .driver
            .or(inventory.driver.map(|driver| driver.version)),
        gpus,
        python: asked
            .map(|version| version.truncated(2))
            .or_else(|| python_version(environment.as_ref()?)),
        machine: options
            .machine
            .clone()
            .unwrap_or_else(|| wheel_architecture(own).unwrap_or_default().to_owned()),
        installed: installed.map(|version| KeptFramework {
            name: TORCH.to_owned(),
            version,
        }),
    })
}

/// The Python of the options, or the first in PATH, with its packages.
fn environment(host: &Host, options: &Advise) -> Result<Option<Program>, Error> {
    let program = options.python.clone();
    let is_asked = program.is_some();
    let command = Command {
        program: program.unwrap_or_else(|| "python3".into()),
        arguments: Vec::new(),
    };
    match program::environment(host, &command) {
        Ok(program) if is_asked && program.pip.is_none() => Err(Error::Usage {
            message: format!("--python `{}` is not Python", show(&program.path)),
            hint: None,
        }),
        Ok(program) => Ok(Some(program)),
        Err(error) if is_asked => Err(error),
        // A machine without Python has no packages.
        Err(_) => Ok(None),
    }
}

/// `3.12`, by the names of its executable and of its directories.
fn python_version(program: &Program) -> Option<Version> {
    let steps = program.steps.iter().map(|step| step.to.as_path());
    let mut paths = steps.chain(program.site_packages.iter().map(PathBuf::as_path));
    paths.find_map(|path: &Path| {
        path.iter().find_map(|name| {
            let version = name.to_str()?.strip_prefix("python3.")?;
            let digits = version.trim_end_matches(|c: char| !c.is_ascii_digit());
            Some(Version::new(&[3, digits.parse().ok()?]))
        })
    })
}

/// The version of torch that is installed beside a Python.
fn torch(host: &Host, program: &Program) -> Option<pep440_rs::Version> {
    let sites = program.site_packages.iter();
    let mut installed = sites.flat_map(|site| inventory::distributions(host, site));
    let torch = installed.find(|distribution| distribution.name == TORCH)?;
    torch.version.parse().ok()
}
