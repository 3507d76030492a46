//! `cudarun doctor --compare A[,B] [PROGRAM …]`: the differences between two machines or environments.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::examined::{examine, programs};
use super::{Exit, only_here, print};
use crate::cli::{Common, Doctor};
use crate::environment::join_elements;
use crate::error::Error;
use crate::host::Host;
use crate::machine::Machine;
use crate::report::{self, ComparedSide, Comparison, Style, shell_words};
use crate::text::show;

/// The word for this machine as it is.
const HERE: &str = "here";

pub(super) fn compare(host: &Host, common: &Common, options: &Doctor) -> Result<Exit, Error> {
    only_here(common, "doctor --compare")?;
    let here = PathBuf::from(HERE);
    let (a, b) = match options.compare.as_slice() {
        [a, b] => (a, b),
        [a] => (a, &here),
        _ => {
            return Err(unusable(
                &options.compare[2],
                "two sides are compared, and this is the third",
            ));
        }
    };
    let side = |path: &Path| -> Result<ComparedSide, Error> {
        let host = side(host, path)?;
        let (examination, inventory) = examine(&host, common)?;
        let mut programs = match programs(&host, common, &options.words) {
            Err(Error::NotFound { .. }) => Vec::new(),
            programs => programs?,
        };
        programs.retain(|program| !program.is_missing);
        Ok(ComparedSide {
            name: show(path),
            env: host.env.clone(),
            examination,
            inventory,
            programs,
        })
    };
    let named = options.words.first().map(|_| shell_words(&options.words));
    let comparison = Comparison::new([&side(a)?, &side(b)?], named);
    print(&if options.json {
        report::json::comparison(&comparison)
    } else {
        let described = host.is_file(a).then_some(a.as_path());
        report::comparison(&comparison, described, Style::stdout(common.color))
    })?;
    Ok(match comparison.is_same() {
        Some(true) => Exit::Yes,
        Some(false) => Exit::No,
        None => Exit::Unknown,
    })
}

/// This machine, this machine with an environment first in PATH, or the machine that a file describes.
fn side(host: &Host, path: &Path) -> Result<Host, Error> {
    let mut env = host.env.clone();
    if host.is_directory(path) {
        let bin = host.absolute(path).join("bin");
        if !host.is_executable(&bin.join("python3")) {
            return Err(unusable(
                path,
                "it is not an environment: bin/python3 is missing",
            ));
        }
        let rest = host.env.get("PATH").map(OsStr::to_owned);
        env.set(
            "PATH",
            join_elements([bin.as_os_str()].into_iter().chain(rest.as_deref())),
        );
    } else if path != Path::new(HERE) {
        let machine = Machine::read(host, path).map_err(|fault| unusable(path, &fault.0))?;
        return machine
            .host()
            .map_err(|error| unusable(path, &error.to_string()));
    }
    Ok(host.inside(env, host.cwd.clone()))
}

fn unusable(side: &Path, why: &str) -> Error {
    Error::NotComparable {
        side: side.to_owned(),
        why: why.to_owned(),
    }
}
