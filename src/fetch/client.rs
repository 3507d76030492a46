//! The person's own client, which alone touches the network: with the person's mirrors, proxies and certificates.
#![allow(clippy::disallowed_methods, reason = "runs the client")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// Returns `uv`, else `pip`, from PATH. Relative elements lead to the current directory, and do not count.
pub(super) fn find(host: &Host, asked: Option<ClientKind>) -> Result<Client, Error> {
    let which = |name: &str| {
        let directories = env::split_paths(path_of(host)).filter(|place| place.is_absolute());
        let mut files = directories.map(|directory| directory.join(name));
        let file = files.find(|file| host.is_executable(file))?;
        Some(file.into_os_string())
    };
    let client = |kind, words| Client { kind, words };
    let uv = || Some(client(ClientKind::Uv, vec![which("uv")?]));
    let pip = || {
        let words = match which("pip").or_else(|| which("pip3")) {
            Some(pip) => vec![pip],
            None => {
                let python = which("python3").filter(|python| has_pip(python))?;
                vec![python, "-m".into(), "pip".into()]
            }
        };
        Some(client(ClientKind::Pip, words))
    };
    let client = match asked {
        Some(ClientKind::Uv) => uv(),
        Some(ClientKind::Pip) => pip(),
        None => uv().or_else(pip),
    };
    client.ok_or_else(|| {
        let missing = match asked {
            Some(kind) => format!("`{}` is not", kind.name()),
            None => "neither `uv` nor `pip` is".to_owned(),
        };
        Error::Fetch {
            why: format!("{missing} in PATH"),
            hint: Some(NO_CLIENT),
        }
    })
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
        to: &Path,
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
        self.run(wheel, &options, to, scratch)
    }

    /// Downloads the file of a wheel into a directory. Only for `pip`.
    pub(super) fn download(
        &self,
        wheel: &MissingWheel,
        to: &Path,
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
        self.run(wheel, &options, to, scratch)
    }

    fn run(
        &self,
        wheel: &MissingWheel,
        options: &[&str],
        to: &Path,
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
            .arg(to)
            .args(["--require-hashes", "--requirement"])
            .arg(&list);
        let client = self.kind.name();
        let not_started = |error| Error::io(format!("`{client}` cannot be started"))(error);
        if io::stderr().is_terminal() {
            // Its progress bar. Standard output is for data.
            let to_error = io::stderr().as_fd().try_clone_to_owned();
            command.stdout(to_error.map_err(not_started)?);
            command.stderr(Stdio::inherit());
        } else {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let child = command.spawn().map_err(not_started)?;
        let output = child.wait_with_output().map_err(not_started)?;
        let _ = fs::remove_file(&list);
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().map(str::trim_end);
        let said: Vec<&str> = said.filter(|line| !line.is_empty()).collect();
        let end = said[said.len().saturating_sub(LINES)..].iter();
        let end = end.map(|line| format!("\n  {}", show(without_logins(line).as_ref())));
        let MissingWheel {
            distribution,
            version,
            ..
        } = wheel;
        let end: String = end.collect();
        Err(Error::Fetch {
            why: format!("`{client}` could not get {distribution} {version}{end}"),
            hint: None,
        })
    }
}
