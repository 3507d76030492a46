//! What started a running process, and so must start with cudarun for it to have libraries that fit the next time.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::host::Host;

/// How far up a process is looked for that still shows its command line.
const GENERATIONS: usize = 8;
/// The module of Jupyter's kernels for Python.
const KERNEL: &[u8] = b"ipykernel";
/// Services below which people start programs of their own.
const SPAWNERS: [&str; 6] = [
    "atd.service",
    "cron.service",
    "crond.service",
    "slurmd.service",
    "ssh.service",
    "sshd.service",
];

/// Programs that nobody types, and shells: what started a process cannot be told behind them.
const NOT_TYPED: [&str; 11] = [
    "bash",
    "dash",
    "fish",
    "init",
    "raylet",
    "sh",
    "slurmstepd",
    "sshd",
    "systemd",
    "tini",
    "zsh",
];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartedFrom {
    /// A command line: its own, or that of the process that started it if it shows a title instead.
    Command(Vec<OsString>),
    /// A kernel of Jupyter's, which this Python runs.
    Kernel(OsString),
    /// The manager of the machine's services, or of a user's.
    Service { unit: String, is_user: bool },
}

/// Texts that end with a zero byte.
pub(super) fn words(bytes: &[u8]) -> Vec<OsString> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    let words = bytes.split(|byte| *byte == 0);
    words
        .map(|word| OsString::from_vec(word.to_owned()))
        .collect()
}

/// A command line. A program that shows a title instead fills the rest with zero bytes.
pub(super) fn command(cmdline: &[u8]) -> Vec<OsString> {
    let mut words = words(cmdline);
    while words.pop_if(|word| word.is_empty()).is_some() {}
    words
}

/// `None` if that cannot be told.
pub(super) fn started_from(host: &Host, pid: u32) -> Option<StartedFrom> {
    let read = |pid: u32, name: &str| {
        host.read(&PathBuf::from(format!("/proc/{pid}/{name}")))
            .ok()
    };
    let own = command(&read(pid, "cmdline")?);
    let is_kernel = |word: &OsString| {
        let name = Path::new(word).file_name();
        name.is_some_and(|name| name.as_bytes().starts_with(KERNEL))
    };
    if own.iter().skip(1).any(is_kernel) {
        return Some(StartedFrom::Kernel(own[0].clone()));
    }
    if let Some((unit, is_user)) = read(pid, "cgroup").as_deref().and_then(service) {
        return Some(StartedFrom::Service { unit, is_user });
    }
    let mut above = pid;
    for _ in 0..GENERATIONS {
        let cmdline = read(above, "cmdline")?;
        let words = command(&cmdline);
        let program = host
            .read_link(&PathBuf::from(format!("/proc/{above}/exe")))
            .ok();
        if !is_title(&cmdline, &words, program.as_deref()) {
            let is_typed = above == pid || is_typed(&words);
            return is_typed.then_some(StartedFrom::Command(words));
        }
        above = parent(&read(above, "stat")?).filter(|parent| *parent > 1)?;
    }
    None
}

/// False for a shell that a person types in, and for what other programs start.
fn is_typed(words: &[OsString]) -> bool {
    let name = words.first().map(Path::new).and_then(Path::file_name);
    let name = name.and_then(OsStr::to_str).unwrap_or_default();
    let is_shell_with_code = words.len() > 1 && name.ends_with("sh");
    is_shell_with_code || !NOT_TYPED.contains(&name.trim_start_matches('-'))
}

/// True for one word that is not the name of the program, and for a line that was cleared.
fn is_title(cmdline: &[u8], words: &[OsString], program: Option<&Path>) -> bool {
    let [word] = words else {
        return words.is_empty();
    };
    let name = Path::new(word).file_name().unwrap_or_default().as_bytes();
    let program = program.and_then(Path::file_name).unwrap_or_default();
    let program = program.as_bytes();
    let is_program = program.starts_with(name) || name.starts_with(program);
    let is_padded = cmdline.ends_with(&[0, 0]);
    !is_program && (is_padded || word.as_bytes().iter().any(|byte| b" :".contains(byte)))
}

/// The unit that a control group is of, and whether it is a user's.
fn service(cgroup: &[u8]) -> Option<(String, bool)> {
    let text = std::str::from_utf8(cgroup).ok()?;
    let path = text.lines().find(|line| line.ends_with(".service"))?;
    let (above, unit) = path.rsplit_once('/')?;
    let is_user = above.contains("/user@");
    let is_started = !SPAWNERS.contains(&unit) && !unit.starts_with("user@");
    is_started.then(|| (unit.to_owned(), is_user))
}

/// The number of the process above, by `stat`: the name, in brackets, may contain anything.
fn parent(stat: &[u8]) -> Option<u32> {
    let text = String::from_utf8_lossy(stat);
    let (_, after) = text.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_known_by_its_control_group() {
        for (text, unit, is_user) in [
            ("0::/system.slice/ollama.service\n", "ollama.service", false),
            (
                "1:name=systemd:/system.slice/model@a.service\n0::/\n",
                "model@a.service",
                false,
            ),
            (
                "0::/user.slice/user-1000.slice/user@1000.service/app.slice/model.service\n",
                "model.service",
                true,
            ),
        ] {
            assert_eq!(
                service(text.as_bytes()),
                Some((unit.to_owned(), is_user)),
                "{text}"
            );
        }
        for text in [
            "0::/user.slice/user-1000.slice/session-2.scope\n",
            "0::/system.slice/cron.service\n",
            "0::/user.slice/user-1000.slice/user@1000.service/app.slice/vte-spawn-1.scope\n",
            "0::/system.slice/docker-3f.scope\n",
            "",
        ] {
            assert_eq!(service(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_title_is_told_from_a_command() {
        for (cmdline, program, is) in [
            ("VLLM::EngineCore\0\0\0\0", "/usr/bin/python3.12", true),
            ("ray::IDLE\0", "/usr/bin/python3.12", true),
            ("", "/usr/bin/python3.12", true),
            ("python3\0", "/usr/bin/python3.12", false),
            ("./hello\0", "/srv/hello", false),
            ("sh\0", "/usr/bin/dash", false),
            ("python3\0train.py\0\0", "/usr/bin/python3.12", false),
        ] {
            let words = command(cmdline.as_bytes());
            let found = is_title(cmdline.as_bytes(), &words, Some(Path::new(program)));
            assert_eq!(found, is, "{cmdline:?}");
        }
        for (line, is) in [
            ("-bash", false),
            ("/usr/lib/systemd/systemd --user", false),
            ("bash train.sh", true),
            ("vllm serve MODEL", true),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(is_typed(&words), is, "{line}");
        }
        assert_eq!(parent(b"12 (a) b) S 7 12 12 0"), Some(7));
        assert_eq!(parent(b"12 (a"), None);
    }
}
