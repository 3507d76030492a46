//! The person's own client, which alone touches the network: with the person's mirrors, proxies and certificates.
#![allow(clippy::disallowed_methods, reason = "runs the client")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::cli::ClientKind;
use crate::error::Error;
use crate::host::Host;
use crate::program::path_of;
use crate::solve::MissingWheel;
use crate::text::{show, without_logins};

/// Lines of a client's messages that are shown, the last ones.
const LINES: usize = 12;
/// The directory in which a client starts. Python imports modules of the current directory, uv runs the environment and obeys
/// the settings of it and of those above it, and a version manager starts the Python that a file there names: whoever can
/// write there would choose code that runs as this user. Only root can write here, and nothing is above.
const DIRECTORY: &str = "/";
const NO_CLIENT: &str = "install `uv`, or Python with pip; or get the wheels elsewhere, with `cudarun fetch --into DIR`, and use --from DIR";

#[derive(Debug)]
pub(super) struct Client {
    pub kind: ClientKind,
    words: Vec<OsString>,
}

/// Finds the wanted client, or `uv`, else `pip`.
pub(super) fn find(host: &Host, kind: Option<ClientKind>) -> Result<Client, Error> {
    if kind != Some(ClientKind::Pip)
        && let Some(uv) = which(host, "uv")
    {
        return Ok(Client {
            kind: ClientKind::Uv,
            words: vec![uv],
        });
    }
    if kind != Some(ClientKind::Uv)
        && let Some(words) = pip(host)
    {
        return Ok(Client {
            kind: ClientKind::Pip,
            words,
        });
    }
    let missing = match kind {
        Some(kind) => format!("`{}` is not", kind.name()),
        None => "neither `uv` nor `pip` is".to_owned(),
    };
    Err(Error::Fetch {
        why: format!("{missing} in PATH"),
        hint: Some(NO_CLIENT),
    })
}

/// A program from PATH. Relative elements lead to the current directory, and do not count.
fn which(host: &Host, name: &str) -> Option<OsString> {
    for directory in env::split_paths(path_of(host)) {
        let file = directory.join(name);
        if directory.is_absolute() && host.is_executable(&file) {
            return Some(file.into_os_string());
        }
    }
    None
}

/// The words that start pip.
fn pip(host: &Host) -> Option<Vec<OsString>> {
    if let Some(pip) = which(host, "pip").or_else(|| which(host, "pip3")) {
        return Some(vec![pip]);
    }
    let python = which(host, "python3")?;
    has_pip(&python).then(|| vec![python, "-m".into(), "pip".into()])
}

fn has_pip(python: &OsStr) -> bool {
    let probe = [
        "-c",
        "import importlib.util, sys; sys.exit(importlib.util.find_spec('pip') is None)",
    ];
    let status = command(python).args(probe).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A program with the person's environment, but without the directory and the loader's variables of this process.
fn command(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(DIRECTORY)
        .env("PWD", DIRECTORY)
        .stdin(Stdio::null());
    for (name, _) in env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"LD_") {
            command.env_remove(name);
        }
    }
    command
}

impl Client {
    /// Unpacks a wheel into an empty directory, with its own check of the hash. Only for `uv`, which has no download.
    pub(super) fn install(
        &self,
        wheel: &MissingWheel,
        directory: &Path,
        scratch: &Path,
    ) -> Result<(), Error> {
        let options = [
            "pip",
            "install",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--link-mode",
            "copy",
            "--target",
        ];
        self.run(wheel, &options, directory, scratch)
    }

    /// Downloads the file of a wheel into a directory. Only for `pip`.
    pub(super) fn download(
        &self,
        wheel: &MissingWheel,
        directory: &Path,
        scratch: &Path,
    ) -> Result<(), Error> {
        // The last tag of several asks for the least.
        let platform = wheel.platform.rsplit('.').next().unwrap_or_default();
        let options = [
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--platform",
            platform,
            "--dest",
        ];
        self.run(wheel, &options, directory, scratch)
    }

    fn run(
        &self,
        wheel: &MissingWheel,
        options: &[&str],
        directory: &Path,
        scratch: &Path,
    ) -> Result<(), Error> {
        let list = scratch.join("requirements.txt");
        let line = format!(
            "{}=={} --hash=sha256:{}\n",
            wheel.distribution, wheel.version, wheel.sha256
        );
        fs::write(&list, line).map_err(Error::at(&list))?;
        let mut command = command(&self.words[0]);
        command
            .args(&self.words[1..])
            .args(options)
            .arg(directory)
            .args(["--require-hashes", "--requirement"])
            .arg(&list);
        let client = self.kind.name();
        let output =
            run_to_end(&mut command).map_err(Error::io(format!("`{client}` cannot be started")))?;
        let _ = fs::remove_file(&list);
        if output.status.success() {
            return Ok(());
        }
        let messages = String::from_utf8_lossy(&output.stderr);
        let mut lines: Vec<&str> = messages.lines().map(str::trim_end).collect();
        lines.retain(|line| !line.is_empty());
        let mut why = format!(
            "`{client}` could not get {} {}",
            wheel.distribution, wheel.version
        );
        for line in &lines[lines.len().saturating_sub(LINES)..] {
            why.push_str(&format!("\n  {}", show(without_logins(line).as_ref())));
        }
        Err(Error::Fetch { why, hint: None })
    }
}

fn run_to_end(command: &mut Command) -> io::Result<Output> {
    if io::stderr().is_terminal() {
        // Its progress bar. Standard output is for data.
        let standard_error = io::stderr().as_fd().try_clone_to_owned()?;
        command.stdout(standard_error).stderr(Stdio::inherit());
    } else {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    command.spawn()?.wait_with_output()
}
