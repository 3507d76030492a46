//! Prints which files the loader takes for each path on standard input, as `ld.so --list` would: measure closures [NAME=VALUE]...
//!
//! A line with the path, then for each object `<tab>NAME => REALPATH` or `<tab>NAME => not found`, then, where the
//! loader gives up, `<tab>! WHY`. Each argument is a variable of the environment in which they would be loaded, which
//! has nothing else.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;

use cudarun::host::Host;
use cudarun::loader::process::{LoadFailure, Process};
use cudarun::loader::search::{FoundBy, Searcher};

pub fn run(arguments: &[String]) -> std::io::Result<()> {
    let host = Host::here();
    let machine = if cfg!(target_arch = "aarch64") {
        183
    } else {
        62
    };
    let env = arguments
        .iter()
        .filter_map(|argument| argument.split_once('='))
        .collect();
    let searcher = Searcher::new(&host, machine).within(&env, None);
    let mut known = HashMap::new();
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for path in std::io::stdin().lock().lines() {
        let path = PathBuf::from(path?);
        let process = Process::library(&searcher, &path);
        writeln!(
            output,
            "{}\n{}",
            path.display(),
            process.map_or_else(|why| said(&why), |p| listed(&host, &p, &mut known))
        )?;
    }
    Ok(())
}

/// `known` are real paths.
fn listed(host: &Host, process: &Process<'_>, known: &mut HashMap<OsString, PathBuf>) -> String {
    let mut text = String::new();
    for loaded in process
        .loaded
        .iter()
        .filter(|loaded| loaded.rule != FoundBy::Executable)
    {
        let path = &loaded.object.path;
        if !known.contains_key(path.as_os_str()) {
            known.insert(
                path.clone().into_os_string(),
                host.canonical(path).unwrap_or_else(|_| path.clone()),
            );
        }
        let real = &known[path.as_os_str()];
        let _ = writeln!(text, "\t{} => {}", loaded.name, real.display());
    }
    for miss in &process.missing {
        let _ = writeln!(text, "\t{} => not found", miss.name);
    }
    match &process.failure {
        Some(why @ LoadFailure::Bad { .. }) => text + &said(why),
        _ => text,
    }
}

fn said(why: &LoadFailure) -> String {
    match why {
        LoadFailure::Bad { path, why, .. } => format!("\t! {} is {why}\n", path.display()),
        other => format!("\t! {other:?}\n"),
    }
}
