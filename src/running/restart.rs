//! What started a running process, and so must start with cudarun for it to have libraries that fit the next time.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::process;
use crate::host::Host;

/// The most processes up to one that still shows its command line.
const MAX_GENERATIONS: usize = 8;
/// The module of Jupyter's kernels for Python.
const KERNEL: &[u8] = b"ipykernel";
/// Programs that nobody types: what started a process cannot be told above them.
const NOT_TYPED: [&str; 7] = [
    "init",
    "raylet",
    "slurmstepd",
    "ssh",
    "sshd",
    "systemd",
    "tini",
];
/// They are typed only with a script or with code.
const SHELLS: [&str; 5] = ["bash", "dash", "fish", "sh", "zsh"];

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
    let own = command(&process::read(host, pid, "cmdline")?);
    if is_kernel(&own) {
        return Some(StartedFrom::Kernel(own[0].clone()));
    }
    service_of(host, pid).or_else(|| typed_command(host, pid))
}

/// The service that a process is, or that has started it. Those below may be what people want.
fn service_of(host: &Host, pid: u32) -> Option<StartedFrom> {
    let parent = process::parent(host, pid)?;
    let is_of_service = is_service_manager(host, parent)
        || process::parent(host, parent).is_some_and(|above| is_service_manager(host, above));
    let (unit, is_user) = service(&process::read(host, pid, "cgroup")?)?;
    is_of_service.then_some(StartedFrom::Service { unit, is_user })
}

fn is_service_manager(host: &Host, pid: u32) -> bool {
    process::read(host, pid, "comm").is_some_and(|name| name == b"systemd\n")
}

/// The first command line from a process upwards that is not a title.
fn typed_command(host: &Host, pid: u32) -> Option<StartedFrom> {
    let mut shown = pid;
    for _ in 0..MAX_GENERATIONS {
        let cmdline = process::read(host, shown, "cmdline")?;
        let words = command(&cmdline);
        let program = host
            .read_link(&PathBuf::from(format!("/proc/{shown}/exe")))
            .ok();
        if !is_title(&cmdline, &words, program.as_deref()) {
            let is_typed = shown == pid || is_typed(&words);
            return is_typed.then_some(StartedFrom::Command(words));
        }
        shown = process::parent(host, shown).filter(|parent| *parent > 1)?;
    }
    None
}

/// True for a Python that runs a kernel as a module or as a script.
fn is_kernel(words: &[OsString]) -> bool {
    let mut arguments = words
        .iter()
        .skip(1)
        .skip_while(|word| *word != "-m" && is_option(word));
    let module = match arguments.next() {
        Some(word) if word == "-m" => arguments.next(),
        script => script,
    };
    let name = module.map(Path::new).and_then(Path::file_name);
    name.is_some_and(|name| name.as_bytes().starts_with(KERNEL))
}

/// False for a shell that a person types in, and for what other programs start.
fn is_typed(words: &[OsString]) -> bool {
    let name = words.first().map(Path::new).and_then(Path::file_name);
    let name = name.and_then(OsStr::to_str).unwrap_or_default();
    let name = name.trim_start_matches('-');
    if SHELLS.contains(&name) {
        return words
            .get(1)
            .is_some_and(|word| word == "-c" || !is_option(word));
    }
    !NOT_TYPED.contains(&name)
}

fn is_option(word: &OsString) -> bool {
    word.as_bytes().starts_with(b"-")
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
    Some((unit.to_owned(), above.contains("/user@")))
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
            ("bash -l", false),
            ("bash --init-file a b", false),
            ("ssh host python3 train.py", false),
            ("sh -c train", true),
            ("/usr/lib/systemd/systemd --user", false),
            ("bash train.sh", true),
            ("vllm serve MODEL", true),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(is_typed(&words), is, "{line}");
        }
        for (line, is) in [
            ("python3 -m ipykernel_launcher -f a.json", true),
            ("python3 -Xfrozen_modules=off -m ipykernel", true),
            ("python3 /venv/ipykernel_launcher.py -f a.json", true),
            ("python3 -m pip install ipykernel", false),
            ("python3 train.py ipykernel", false),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(is_kernel(&words), is, "{line}");
        }
    }
}
