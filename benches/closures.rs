//! Prints which files the loader takes for each path on standard input, as `ld.so --list` would: closures [OPTION]
//!
//! A line with the path, then for each object `<tab>NAME => REALPATH` or `<tab>NAME => not found`, then, where the
//! loader gives up, `<tab>! WHY`. `--start` is for programs as the kernel starts them.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::fmt::Write as _;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use cudarun::host::Host;
use cudarun::loader::process::{Failure, Process};
use cudarun::loader::search::{Rule, Searcher};

fn main() -> std::io::Result<()> {
    let host = Host::here();
    let machine = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    let searcher = Searcher::new(&host, machine);
    let is_start = std::env::args().any(|argument| argument == "--start");
    let make = if is_start { Process::start } else { Process::library };
    let mut output = std::io::BufWriter::new(std::io::stdout().lock());
    for path in std::io::stdin().lock().lines() {
        let path = PathBuf::from(path?);
        let process = make(&searcher, &path);
        writeln!(
            output,
            "{}\n{}",
            path.display(),
            process.map_or_else(|why| said(&why), |p| listed(&host, &p))
        )?;
    }
    Ok(())
}

fn listed(host: &Host, process: &Process<'_, '_>) -> String {
    let mut text = String::new();
    for loaded in process.loaded().iter().filter(|loaded| loaded.rule != Rule::Executable) {
        let real = host.canonical(&loaded.object.path).unwrap_or_else(|_| loaded.object.path.clone());
        let _ = writeln!(text, "\t{} => {}", loaded.name, real.display());
    }
    for miss in process.missing() {
        let _ = writeln!(text, "\t{} => not found", miss.name);
    }
    match process.failure() {
        Some(why @ Failure::Bad { .. }) => text + &said(why),
        _ => text,
    }
}

fn said(why: &Failure) -> String {
    let path = |path: &Path| path.display().to_string();
    match why {
        Failure::Bad { path: file, why, .. } => format!("\t! {} is {why}\n", path(file)),
        other => format!("\t! {other:?}\n"),
    }
}
