//! The programs that `cudarun doctor` asks about, each followed up to its decision.

use std::ffi::OsString;

use super::{Exit, command_of};
use crate::catalog::catalog;
use crate::cli::{Common, Wishes};
use crate::error::Error;
use crate::host::Host;
use crate::pipeline::{self, Reached, Request, Stop, Subject};
use crate::program::{self, Command};
use crate::report::{self, ExaminedProgram};
use crate::settings::resolve::Purpose;

/// Examines the program of the command line, or each framework of the first Python in PATH, in the way of `explain`.
pub(super) fn programs(
    host: &Host,
    common: &Common,
    words: &[OsString],
) -> Result<Vec<ExaminedProgram>, Error> {
    if !words.is_empty() {
        return Ok(examine_program(host, common, words)?.into_iter().collect());
    }
    let examined = |module: &str| {
        let words = ["python3".into(), "-c".into(), format!("import {module}").into()];
        examine_program(host, common, &words).ok()?
    };
    Ok(frameworks(host).into_iter().filter_map(examined).collect())
}

/// Returns the modules of the frameworks in the environment of the first Python in PATH.
pub(super) fn frameworks(host: &Host) -> Vec<&'static str> {
    let python = Command { program: "python3".into(), arguments: Vec::new() };
    let Ok(python) = program::environment(host, &python) else { return Vec::new() };
    let is_here =
        |module: &&String| python.site_packages.iter().any(|site| host.is_directory(&site.join(module)));
    let modules = catalog().frameworks.iter().filter_map(|framework| framework.modules.iter().find(is_here));
    modules.map(String::as_str).collect()
}

fn examine_program(
    host: &Host,
    common: &Common,
    words: &[OsString],
) -> Result<Option<ExaminedProgram>, Error> {
    let (command, wishes) = (command_of(words), Wishes::default());
    let request = Request::new(host, common, &wishes, Subject::Command(&command), Purpose::Answer);
    let mut found = None;
    pipeline::run(&request, &mut |reached| match reached {
        Reached::Decision(facts, decision) => {
            let (program, inventory) = (&facts.program, &facts.inventory);
            found = Some(report::examined_program(words, program, inventory, decision, &facts.before()));
            Err(Stop::Exit(Exit::Yes))
        }
        _ => Ok(()),
    })?;
    Ok(found)
}
