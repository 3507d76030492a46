//! Errors in words, and the command to type after each.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::hints::{argument, shell_words};
use super::notes;
use super::places::mend_or;
use super::settings;
use super::slips::name_of_program;
use super::words::{one_of, quoted_to_show};
use crate::catalog::{Wheel, display_name, toolkits, wheels};
use crate::cli::TOOLKIT;
use crate::error::{Error, OldLoader, Reason, Refusal};
use crate::host::Unsafe;
use crate::settings::SettingFault;
use crate::settings::resolve::{BadPackage, NotPinnable, SettingRemark};
use crate::storage::Unfit;
use crate::text::{list, plain, short, show};
use crate::version::Version;

impl Reason for SettingFault {
    fn sentence(&self) -> String {
        format!("{}{}", settings::fault(self), settings::fault_lines(self))
    }

    fn hint(&self) -> Option<String> {
        settings::fault_hint(self)
    }
}

impl Reason for SettingRemark {
    fn sentence(&self) -> String {
        settings::setting_remark(self)
    }
}

impl Reason for BadPackage {
    fn sentence(&self) -> String {
        format!("{}: {}", settings::place(&self.place), error(&self.error))
    }
}

impl Reason for NotPinnable {
    fn sentence(&self) -> String {
        notes::note_of(&self.note, &self.program)
    }
}

impl Reason for OldLoader {
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

pub fn error(error: &Error) -> String {
    match error {
        Error::NotFound { name } => format!("`{}` was not found{}", show(name), name_of_program(name)),
        Error::NotExecutable { path, why } => {
            format!("`{}` cannot be run: {}{}", show(path), refusal(why), name_of_program(path))
        }
        Error::Exec { path, error } => format!("`{}` cannot be run: {}", show(path), os(error)),
        Error::NoSuchPackage { name, sites } if sites.is_empty() => {
            format!("--uses {}: this program has no Python packages", short(name))
        }
        Error::NoSuchPackage { name, sites } => {
            let sites: Vec<String> = sites.iter().map(show).collect();
            format!("--uses {}: no such package in {}", short(name), list(&sites))
        }
        Error::NoOtherSet { skipped: 1, .. } => "no other set fits".to_owned(),
        Error::NoOtherSet { fitting, skipped } => {
            let fit = if *fitting == 1 { "set fits" } else { "sets fit" };
            format!("only {fitting} {fit}, and `--next` was given {skipped} times")
        }
        Error::NoSuchFamily { name, .. } => format!("unknown library family `{}`", show(name)),
        Error::BadRange { family, text } => {
            format!("`{}` is not a range of versions of {}", show(text), display_name(family))
        }
        Error::NoWheel { family: "driver", .. } => {
            "a driver cannot be fetched: the administrator of the machine installs it".to_owned()
        }
        Error::NoWheel { family, range } => {
            let range = if range == "*" { String::new() } else { format!(" {range}") };
            let offered = offered(family).map(|all| format!(": the table has {all}")).unwrap_or_default();
            format!("no wheel of {}{range} is on offer for this machine{offered}", display_name(family))
        }
        Error::NoSuchSource { name, .. } => {
            format!("--without {}: unknown source of libraries", show(name))
        }
        Error::NoSuchDirectory { option, path } => {
            format!("{option} `{}`: no such directory", show(path))
        }
        Error::Setting(reason) | Error::Fetch(reason) | Error::NoToolkit(reason) => reason.sentence(),
        Error::NotPinned { option, why } => format!("{option} has no effect here: {}", why.sentence()),
        Error::Exists { path } => format!("`{}` exists, and cudarun does not overwrite it", show(path)),
        Error::NotKept { path, error } => {
            format!("the permission cannot be saved in `{}`: {}", show(path), os(error))
        }
        Error::NotTraced(why) => format!("the program cannot be traced: {}", why.sentence()),
        Error::Unreadable { path, error } => format!("`{}` cannot be read: {}", show(path), os(error)),
        Error::NoProgram { text } => format!("`{}` is a text, not a program", show(text)),
        Error::NotPython { program } => format!("--python `{}` is not Python", show(program)),
        Error::NestedShell { project } => {
            format!("already in a cudarun shell of `{}`: type `exit` first", show(project))
        }
        Error::NoPlan { program: Some(program) } => {
            format!("`{}` needs no NVIDIA library that is installed here, so a shell has nothing to set", show(program))
        }
        Error::NoPlan { program: None } => {
            "nothing to set in a shell: no environment here has a GPU framework, and no [requires] names a library"
                .to_owned()
        }
        Error::MoreRights => {
            "cudarun has more rights than its user (set-user-ID, set-group-ID or file capabilities)"
                .to_owned()
        }
        Error::NothingRunsUnderRoot { verb: verb @ ("allow" | "hook"), there } => {
            format!("`{verb}` works only on this machine: remove {}", show(&there[0]))
        }
        Error::NothingRunsUnderRoot { verb: "fetch", there } => {
            format!("with {}, `fetch` cannot fill the store: add --dry-run or --into DIR", show(&there[0]))
        }
        // Most people type no verb.
        Error::NothingRunsUnderRoot { verb: "run", there } => {
            format!("the program would be started, which is not possible with {}", show(&there[0]))
        }
        Error::NothingRunsUnderRoot { verb, there } => {
            format!("`{verb}` starts a program, which is not possible with {}", show(&there[0]))
        }
        Error::MachineUnusable { file, why } => {
            format!("--machine `{}` cannot be used: {}", show(file), show(why))
        }
        Error::NotOneProgram { count: 0 } => {
            "--lock needs exactly one program, and the descriptions name none".to_owned()
        }
        Error::NotOneProgram { count } => format!("a lock is for one program; the descriptions name {count}"),
        Error::NotQuoted { line } => format!("--for takes the whole command line in quotes, not `{}`", show(line)),
        Error::NotANode { name } => format!("`{}` cannot be the name of a machine", show(name)),
        Error::RootUnusable { root, .. } if saved(root).is_some_and(|command| command.starts_with("docker")) => {
            format!("--root `{}` is not a file; cudarun does not pull images", show(root))
        }
        Error::RootUnusable { root, error } => {
            format!("--root `{}` cannot be used: {}", show(root), os(error))
        }
        Error::ImageUnusable { root, why } => {
            format!("--root `{}` cannot be used: {}", show(root), show(why))
        }
        Error::NoCache { tried } => {
            let line = |(path, why): &(PathBuf, Unfit)| format!("\n  {}  {}", show(path), why.at(path));
            let tried: Vec<String> = tried.iter().map(line).collect();
            format!("no safe directory for cudarun's cache; tried:{}", tried.concat())
        }
        Error::View { path, error } => format!("cannot write the view `{}`: {}", show(path), os(error)),
        Error::Verifier { error } => format!("cannot start the proof: {}", os(error)),
        Error::Report { path, error } => format!("cannot write `{}`: {}", show(path), os(error)),
        Error::Output { error } => format!("cannot write to standard output: {}", os(error)),
    }
}

/// The oldest and the newest version of a family, or of toolkits, in the table of wheels.
pub(super) fn offered(family: &str) -> Option<String> {
    let of_family = wheels()
        .iter()
        .filter(|wheel| wheel.family == family)
        .flat_map(Wheel::releases);
    let toolkits = toolkits()
        .iter()
        .filter(|_| family == TOOLKIT)
        .map(|toolkit| toolkit.version);
    let all: BTreeSet<Version> = of_family.chain(toolkits).collect();
    Some(format!("{} to {}", all.first()?, all.last()?))
}

fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::PermissionDenied => "permission denied".to_owned(),
        Refusal::NotExecutable => "permission denied: the file is not executable".to_owned(),
        Refusal::IsDirectory => "is a directory".to_owned(),
        Refusal::Interpreter { file, error } => {
            format!(
                "its interpreter {}: {}",
                show(file),
                plain(&error.to_string())
            )
        }
        Refusal::Circle => "its `#!` lines form a circle".to_owned(),
        Refusal::System { error } => plain(&error.to_string()).to_owned(),
    }
}

fn is_of_root(unfit: &Unfit) -> bool {
    matches!(unfit, Unfit::Unsafe(Unsafe { path, .. }) if path.as_os_str() == "/")
}

/// The operating system's message.
pub(super) fn os(error: &std::io::Error) -> String {
    plain(&error.to_string()).to_lowercase()
}

/// The command for an image that is named as other tools do: with a transport, or as in a registry.
fn saved(root: &Path) -> Option<String> {
    let text = root.to_str()?;
    let after = |prefixes: &[&str]| prefixes.iter().find_map(|prefix| text.strip_prefix(prefix));
    if let Some(file) = after(&["docker-archive:", "oci-archive:"]) {
        return Some(format!("cudarun --root {} list", argument(file.as_ref())));
    }
    let is_path = text.starts_with(['/', '.'])
        || text.starts_with("oci:")
        || text.contains(".tar")
        || text.contains(":/");
    let name = after(&["docker://", "docker-daemon:"])
        .or((text.contains(':') && !is_path).then_some(text))?;
    let name = argument(name.as_ref());
    Some(format!(
        "docker save -o image.tar {name} && cudarun --root image.tar list"
    ))
}

/// The command to type after an error, if one is known.
pub fn error_hint(error: &Error) -> Option<String> {
    match error {
        Error::NotExecutable { path, why: Refusal::NotExecutable }
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
        Error::BadRange { family, .. } => Some(format!("cudarun fetch {family}=9.1, or \"{family}>=9.1,<10\"")),
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
        Error::NoSuchFamily { name, families } => Some(one_of(name, "families", families)),
        Error::NoSuchSource { name, sources } => Some(one_of(name, "sources", sources)),
        Error::Setting(reason) | Error::Fetch(reason) | Error::NoToolkit(reason) => reason.hint(),
        Error::RootUnusable { root, .. } => saved(root).or_else(|| {
            let is_remote = root.to_string_lossy().contains(":/");
            is_remote.then(|| {
                "--root takes a directory of this machine or an image archive: copy it here first".to_owned()
            })
        }),
        Error::MachineUnusable { .. } => {
            Some("write a description of a machine with `cudarun doctor --save FILE`".to_owned())
        }
        Error::NotOneProgram { .. } => Some("cudarun fleet --program 'COMMAND LINE' --lock FILE DIR".to_owned()),
        Error::NotQuoted { line } => {
            Some(format!("quote the command line: --for {}", argument(line.as_ref())))
        }
        Error::NotANode { .. } => Some("--node NAME, of letters, digits, `-`, `_` and dots".to_owned()),
        Error::Report { path, error } if error.kind() == ErrorKind::NotFound => {
            path.parent().map(|parent| format!("mkdir -p {}", argument(parent.as_os_str())))
        }
        Error::Exists { path } if path.ends_with(crate::settings::PROJECT) => {
            Some("cudarun init --print".to_owned())
        }
        Error::Exists { .. } => Some("name a new file".to_owned()),
        _ => None,
    }
}
