//! The person's own client, which alone touches the network: with the person's mirrors, proxies and certificates.
#![allow(clippy::disallowed_methods, reason = "runs the client")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::model::FetchFault;
use crate::cli::ClientKind;
use crate::host::Host;
use crate::solve::MissingWheel;

/// Lines of a client's messages that are shown, the last ones.
const LINES: usize = 12;
/// The directory in which a client starts. Python imports modules of the current directory, uv runs the environment and obeys
/// the settings of it and of those above it, and a version manager starts the Python that a file there names: whoever can
/// write there would choose code that runs as this user. Only root can write here, and nothing is above.
const DIRECTORY: &str = "/";

#[derive(Debug)]
pub(super) struct Client {
    pub kind: ClientKind,
    words: Vec<OsString>,
}

/// Returns `uv`, else `pip`, from PATH. Relative elements lead to the current directory, and do not count.
pub(super) fn find(host: &Host, asked: Option<ClientKind>) -> Result<Client, FetchFault> {
    let path = host
        .env
        .get("PATH")
        .unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let directories = env::split_paths(path).filter(|directory| directory.is_absolute());
    let path = env::join_paths(directories).unwrap_or_default();
    let which = |name: &str| {
        which::which_in(name, Some(&path), DIRECTORY)
            .ok()
            .map(PathBuf::into_os_string)
    };
    let uv = || {
        which("uv").map(|uv| Client {
            kind: ClientKind::Uv,
            words: vec![uv],
        })
    };
    let pip = || {
        let pip = ["pip", "pip3"]
            .iter()
            .find_map(|name| which(name))
            .map(|pip| vec![pip]);
        let of_python =
            |python: OsString| has_pip(&python).then(|| vec![python, "-m".into(), "pip".into()]);
        let words = pip.or_else(|| of_python(which("python3")?))?;
        Some(Client {
            kind: ClientKind::Pip,
            words,
        })
    };
    let client = match asked {
        Some(ClientKind::Uv) => uv(),
        Some(ClientKind::Pip) => pip(),
        None => uv().or_else(pip),
    };
    client.ok_or(FetchFault::NoClient { asked })
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
    ) -> Result<(), FetchFault> {
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
    ) -> Result<(), FetchFault> {
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
    ) -> Result<(), FetchFault> {
        let list = scratch.join("requirements.txt");
        let line = format!(
            "{}=={} --hash=sha256:{}\n",
            wheel.distribution, wheel.version, wheel.sha256
        );
        fs::write(&list, line).map_err(|error| FetchFault::write(&list, error))?;
        let mut command = command(&self.words[0]);
        command
            .args(&self.words[1..])
            .args(options)
            .arg(to)
            .args(["--require-hashes", "--requirement"])
            .arg(&list);
        let not_started = |error: io::Error| FetchFault::ClientNotStarted {
            client: self.kind,
            error,
        };
        let shows = io::IsTerminal::is_terminal(&io::stderr());
        let output = if shows {
            // Its progress bar. Standard output is for data.
            let to_error = io::stderr()
                .as_fd()
                .try_clone_to_owned()
                .map_err(not_started)?;
            let status = command.stdout(to_error).status().map_err(not_started)?;
            std::process::Output {
                status,
                stdout: Vec::new(),
                stderr: Vec::new(),
            }
        } else {
            command.output().map_err(not_started)?
        };
        let _ = fs::remove_file(&list);
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<String> = said
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
            .map(hidden)
            .collect();
        let text = lines[lines.len().saturating_sub(LINES)..].to_vec();
        Err(FetchFault::ClientFailed {
            client: self.kind,
            wheel: Box::new(wheel.clone()),
            text,
        })
    }
}

/// Removes user names and passwords from the addresses in a line: `https://name:word@host` becomes `https://host`.
fn hidden(line: &str) -> String {
    let mut shown = String::new();
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = after
            .find(|c: char| c == '/' || c.is_whitespace())
            .unwrap_or(after.len());
        let host = after[..end].rfind('@').map_or(0, |at| at + 1);
        rest = &after[host..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::hidden;

    #[test]
    fn names_and_passwords_are_removed_from_addresses() {
        for (line, shown) in [
            ("no address", "no address"),
            (
                "GET https://user:word@host/simple/ failed",
                "GET https://host/simple/ failed",
            ),
            ("https://a@b https://c:d@e:8080", "https://b https://e:8080"),
            ("https://host/path@1.0", "https://host/path@1.0"),
            ("https://us@er:wo@host x", "https://host x"),
        ] {
            assert_eq!(hidden(line), shown);
        }
    }
}
