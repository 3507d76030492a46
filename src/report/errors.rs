//! The command to type after an error, and the words for faults of cudarun itself.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::Path;

use super::hints::{argument, mend_or, shell_words};
use super::notes;
use super::settings;
use super::words::{one_of, quoted_to_show};
pub(super) use crate::error::offered;
use crate::error::{Error, ExecRefusal, OldLoader, TypedReason, name_of_program, registry_name};
use crate::host::Unsafe;
use crate::program::NotPinnable;
use crate::settings::SettingFault;
use crate::settings::resolve::{BadPackage, SettingRemark};
use crate::storage::UnusablePlace;
use crate::text::show;
use crate::version::Version;

impl TypedReason for SettingFault {
    fn sentence(&self) -> String {
        format!("{}{}", settings::fault(self), settings::fault_lines(self))
    }

    fn hint(&self) -> Option<String> {
        settings::fault_hint(self)
    }
}

impl TypedReason for SettingRemark {
    fn sentence(&self) -> String {
        settings::setting_remark(self)
    }
}

impl TypedReason for BadPackage {
    fn sentence(&self) -> String {
        format!("{}: {}", settings::place(&self.place), self.error)
    }
}

impl TypedReason for NotPinnable {
    fn sentence(&self) -> String {
        notes::note_of(&self.note, &self.program)
    }
}

impl TypedReason for OldLoader {
    fn sentence(&self) -> String {
        old_loader(self.glibc)
    }
}

/// The end of a start by a fault of cudarun itself.
pub enum AfterFault<'p> {
    Unchanged(&'p OsStr),
    NotStarted(&'p OsStr),
    Nothing,
}

pub fn panicked(place: &str, message: &str) -> String {
    format!("internal error at {} ({})", show(place), show(message))
}

/// Follows the line by which Rust says that it gets no memory.
pub const ABORTED: &str =
    "cudarun: out of memory\n\nhint: raise the limit: `ulimit -v unlimited`\n";

pub fn cut_short() -> String {
    "a file was cut short while cudarun read it".to_owned()
}

pub fn after_fault(after: &AfterFault<'_>) -> String {
    match after {
        AfterFault::Unchanged(program) => format!("; starting {} unchanged", show(*program)),
        AfterFault::NotStarted(program) => {
            format!(
                "; {} is not started, because settings may require a set for it",
                show(*program)
            )
        }
        AfterFault::Nothing => String::new(),
    }
}

/// The reason why the audit module cannot be used with a C library.
pub(super) fn old_loader(glibc: Option<Version>) -> String {
    match glibc {
        Some(glibc) => format!(
            "the audit module needs glibc 2.35 or newer: with glibc {glibc}, it slows down every library call"
        ),
        None => "the glibc version is unknown; before 2.35 the audit module slows down every library call"
            .to_owned(),
    }
}

fn is_of_root(unfit: &UnusablePlace) -> bool {
    matches!(unfit, UnusablePlace::Unsafe(Unsafe { path, .. }) if path.as_os_str() == "/")
}

/// The command for an image that is named as other tools do: with a transport, or as in a registry.
fn saved(root: &Path) -> Option<String> {
    let text = root.to_str()?;
    for transport in ["docker-archive:", "oci-archive:"] {
        if let Some(file) = text.strip_prefix(transport) {
            return Some(format!("cudarun --root {} list", argument(file.as_ref())));
        }
    }
    let name = argument(registry_name(root)?.as_ref());
    Some(format!(
        "docker save -o image.tar {name} && cudarun --root image.tar list"
    ))
}

/// The command to type after an error, if one is known.
pub fn error_hint(error: &Error) -> Option<String> {
    match error {
        Error::NotExecutable { path, why: ExecRefusal::NotExecutable }
            if name_of_program(path).is_empty() =>
        {
            Some(format!("chmod +x {}", argument(path.as_os_str())))
        }
        Error::MoreRights => Some("chmod ug-s and setcap -r on the file of cudarun".to_owned()),
        // Every directory is below it.
        Error::NoCache { tried } if tried.iter().any(|(_, why)| is_of_root(why)) => {
            Some("chown root:root / && chmod go-w /".to_owned())
        }
        Error::NoCache { tried } => {
            let mend = tried.first().map(|(_, why)| mend_or(why)).unwrap_or_default();
            Some(format!("{mend}XDG_CACHE_HOME=DIR cudarun …, with a directory that only you can write to"))
        }
        Error::NoPlan { program: Some(program) } => {
            Some(format!("cudarun explain {}", quoted_to_show(program.as_os_str())))
        }
        Error::NoPlan { program: None } => Some("cudarun shell PROGRAM".to_owned()),
        Error::NoProgram { text } => {
            let before = if text.as_encoded_bytes().ends_with(b".py") { "python3" } else { "--from" };
            Some(format!("cudarun diagnose {before} {}", shell_words(std::slice::from_ref(text))))
        }
        Error::NothingRunsUnderRoot { verb: "allow" | "hook", .. } => None,
        Error::NothingRunsUnderRoot { verb, there, .. } => {
            let verb = if *verb == "fetch" { "fetch --dry-run" } else { "explain" };
            Some(format!("cudarun {} {verb} PROGRAM", shell_words(there)))
        }
        Error::NoWheel { family, range } if range != "*" && offered(family).is_some() => {
            Some(format!("cudarun fetch {family}"))
        }
        Error::NoSuchFamily { name, .. } if name.eq_ignore_ascii_case("cuda") => {
            Some("did you mean cudart, the CUDA runtime, or toolkit?".to_owned())
        }
        Error::NoSuchProcess { .. } => Some("cudarun list --running".to_owned()),
        Error::ProcessOfAnother { pid } => Some(format!("sudo cudarun list --running {pid}")),
        Error::NoSuchFamily { name, families } => Some(one_of(name, "families", families)),
        Error::Setting(reason) | Error::NoToolkit(reason) | Error::Hook(reason) => reason.hint(),
        Error::Fetch { hint, .. } => hint.map(str::to_owned),
        Error::RootUnusable { root, .. } => saved(root).or_else(|| {
            let is_remote = root.to_string_lossy().contains(":/");
            is_remote.then(|| {
                "--root takes a directory of this machine or an image archive: copy it here first".to_owned()
            })
        }),
        Error::Usage { hint, .. } => hint.clone(),
        Error::Unusable { option: "--node", .. } => {
            Some("write a description of a machine with `cudarun doctor --save FILE`".to_owned())
        }
        Error::OtherDriverWay { .. } => {
            Some("start a container there, and type in it: cudarun doctor".to_owned())
        }
        Error::OnlyOnNode { file } => {
            let name = argument(file.file_stem().unwrap_or_default());
            Some(format!("ssh {name} cudarun …"))
        }
        Error::Unwritten { path, error } if error.kind() == ErrorKind::NotFound => {
            path.parent().map(|parent| format!("mkdir -p {}", argument(parent.as_os_str())))
        }
        Error::Exists { path } if path.ends_with(crate::settings::PROJECT) => {
            Some("cudarun init --print".to_owned())
        }
        Error::Exists { .. } => Some("name a new file".to_owned()),
        _ => None,
    }
}
