//! The RPM package of each library, as `rpm` itself reports: its database has three formats. A start never asks it,
//! only commands that print the package.
#![allow(clippy::disallowed_methods, reason = "this is where rpm is started")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::machine::{Inventory, Scope};
use super::model::{Installation, Origin};
use crate::host::Host;

/// The name of this source for `--without`.
pub(super) const SOURCE: &str = "rpm";
/// Only root can put a program here.
const DIRECTORIES: &str = "/usr/bin:/bin:/usr/sbin:/sbin";
/// A damaged database of older releases makes `rpm` wait forever.
const PATIENCE: Duration = Duration::from_secs(10);
const OUTPUT_LIMIT: u64 = 64 << 20;
/// One line for each file of each package: with it, files need not be matched with lines by their order. A file that
/// another package has replaced has a state other than 0.
const FORMAT: &str = "[%{FILESTATES}\t%{=NAME} %{=VERSION}-%{=RELEASE}\t%{FILENAMES}\n]";

/// Sets the package of each installation that has none yet. Does nothing under `--root`.
pub fn name_owners(host: &Host, scope: &Scope, inventory: &mut Inventory) {
    if host.is_rerooted() || scope.without.iter().any(|source| source == SOURCE) {
        return;
    }
    let has_unknown_owner = |installation: &&mut Installation| {
        let may_be_rpm = [
            Origin::Compat,
            Origin::Stub,
            Origin::Driver,
            Origin::Toolkit,
            Origin::Loose,
        ];
        installation.package.is_none() && may_be_rpm.contains(&installation.origin)
    };
    let real = |installation: &Installation| host.canonical(&installation.files.first()?.path).ok();
    let mut unknown: Vec<(PathBuf, &mut Installation)> = inventory
        .installations
        .iter_mut()
        .filter(has_unknown_owner)
        .filter_map(|installation| Some((real(installation)?, installation)))
        .collect();
    let files: Vec<&Path> = unknown.iter().map(|(file, _)| file.as_path()).collect();
    let owners = rpm_owners(DIRECTORIES.as_ref(), &files, PATIENCE);
    for (file, installation) in &mut unknown {
        if let Some(package) = owners.get(file) {
            installation.package = Some(package.clone());
            if installation.origin == Origin::Loose {
                installation.origin = Origin::Rpm;
            }
        }
    }
}

/// Returns the package of each file that has one, as the `rpm` in one of these directories reports. Empty if there is no
/// `rpm`, or if it takes longer than `patience`.
pub fn rpm_owners(
    directories: &OsStr,
    files: &[&Path],
    patience: Duration,
) -> BTreeMap<PathBuf, String> {
    let answer = || {
        let rpm = which::which_in("rpm", Some(directories), "/").ok()?;
        let mut command = Command::new(rpm);
        command
            .args(["-qf", "--qf", FORMAT, "--"])
            .args(files)
            .current_dir("/")
            .process_group(0);
        command
            .env_clear()
            .env("PATH", directories)
            .env("LC_ALL", "C");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let output = child.stdout.take()?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut text = Vec::new();
            let read = output.take(OUTPUT_LIMIT).read_to_end(&mut text);
            let _ = sender.send(read.map(|_| text));
        });
        let text = receiver.recv_timeout(patience);
        // Ends its helpers as well.
        let _ = killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGKILL);
        let _ = child.wait();
        text.ok()?.ok()
    };
    let text = if files.is_empty() {
        Vec::new()
    } else {
        answer().unwrap_or_default()
    };
    let mut owners = BTreeMap::new();
    for line in String::from_utf8_lossy(&text).lines() {
        if let [state, package, file] = line.splitn(3, '\t').collect::<Vec<_>>()[..]
            && state == "0"
            && files.contains(&Path::new(file))
        {
            owners
                .entry(PathBuf::from(file))
                .or_insert_with(|| package.to_owned());
        }
    }
    owners
}
