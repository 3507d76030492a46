//! What ended a command, in words, and what to type then.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use strsim::levenshtein;

use super::settings::short;
use super::words::{list, quoted_to_show};
use crate::error::{Error, Refusal};
use crate::storage::Unfit;
use crate::storage::{Fault, Unsafe};
use crate::text::{escape, show};

pub fn error(error: &Error) -> String {
    match error {
        Error::NotFound { name } => format!("`{}` was not found", show(name)),
        Error::NotExecutable { path, why } => format!("`{}` cannot be run: {}", show(path), refusal(why)),
        Error::Exec { path, error } => format!("`{}` cannot be run: {}", show(path), os(error)),
        Error::NoSuchPackage { name, sites } if sites.is_empty() => {
            format!("--uses {}: this program has no Python packages", short(name))
        }
        Error::NoSuchPackage { name, sites } => {
            let sites: Vec<String> = sites.iter().map(show).collect();
            format!("--uses {}: no such package in {}", short(name), list(&sites))
        }
        Error::NoOtherSet { passed: 1 } => "there is no other set than the best".to_owned(),
        Error::NoOtherSet { passed } => format!("there are no more than {passed} sets"),
        Error::NoSuchFamily { name, .. } => {
            format!("`{}` is no family of NVIDIA's libraries", escape(name.as_bytes()))
        }
        Error::NoSuchSource { name, .. } => {
            format!("--without {}: there is no such source of libraries", escape(name.as_bytes()))
        }
        Error::NoSuchDirectory { option, path } => {
            format!("{option} `{}`: there is no such directory", show(path))
        }
        Error::Setting { why, .. } => why.clone(),
        Error::NotPinned { option, why } => format!("{option} cannot be kept: {why}"),
        Error::Exists { path } => format!("`{}` is there already, and is not written over", show(path)),
        Error::NotKept { path, error } => {
            format!("what is allowed cannot be kept in `{}`: {}", show(path), os(error))
        }
        Error::NotTraced { why } => format!("the program cannot be traced: {why}"),
        Error::NotPython { program } => format!("--python `{}` is not Python", show(program)),
        Error::NothingRunsUnderRoot { option, verb: verb @ ("allow" | "hook") } => {
            format!("`{verb}` is of this machine alone, and takes no {option}")
        }
        Error::NothingRunsUnderRoot { option, verb } => {
            format!("`{verb}` starts a program, and nothing is started under {option}")
        }
        Error::MachineUnusable { file, why } => {
            format!("--machine `{}` cannot be used: {}", show(file), escape(why.as_bytes()))
        }
        Error::RootUnusable { root, error } => {
            format!("--root `{}` cannot be used: {}", show(root), os(error))
        }
        Error::NoCache { tried } => {
            let line = |(path, why): &(PathBuf, Unfit)| format!("\n  {}  {}", show(path), unfit(path, why));
            let tried: Vec<String> = tried.iter().map(line).collect();
            format!("there is no place for what cudarun needs that only you can write to{}", tried.concat())
        }
        Error::View { path, error } => format!("the view `{}` cannot be written: {}", show(path), os(error)),
        Error::Verifier { error } => format!("the proof cannot be started: {}", os(error)),
        Error::Report { path, error } => format!("`{}` cannot be written: {}", show(path), os(error)),
        Error::Output { error } => format!("standard output cannot be written: {}", os(error)),
    }
}

fn refusal(refusal: &Refusal) -> String {
    match refusal {
        Refusal::PermissionDenied => "permission denied".to_owned(),
        Refusal::IsDirectory => "is a directory".to_owned(),
        Refusal::Interpreter { file, error } => {
            format!("its interpreter {}: {}", show(file), plain(&error.to_string()))
        }
        Refusal::Circle => "its `#!` lines lead to one another".to_owned(),
        Refusal::System { error } => plain(&error.to_string()).to_owned(),
    }
}

/// Why a place is not used, and how the file at fault looks.
pub(super) fn unfit(place: &Path, unfit: &Unfit) -> String {
    let Unsafe { path, fault } = match unfit {
        Unfit::Name => return "LD_LIBRARY_PATH cannot hold this name".to_owned(),
        Unfit::Unwritable { why } => return plain(why).to_lowercase(),
        Unfit::Unsafe(it) => it,
    };
    let subject = if path == place { "it".to_owned() } else { show(path) };
    let mode = |mode: &u32| format!("mode {:04o}", mode & 0o7777);
    match fault {
        Fault::Owner { uid, mode: bits } => format!("{subject} belongs to user {uid} ({})", mode(bits)),
        Fault::Group { uid, gid, mode: bits } => {
            format!("group {gid} can write to {subject} (user {uid}, {})", mode(bits))
        }
        Fault::Others { uid, mode: bits } => {
            format!("others can write to {subject} (user {uid}, {})", mode(bits))
        }
        Fault::NotDirectory => format!("{subject} is not a directory"),
        Fault::Unreadable { kind } => format!("{subject} cannot be looked at: {kind}"),
    }
}

/// The command that makes a place safe, with an `or` for the next one; empty where there is none.
pub(super) fn mend_or(unfit: &Unfit) -> String {
    match unfit {
        Unfit::Unsafe(Unsafe { path, fault: Fault::Group { .. } | Fault::Others { .. } }) => {
            format!("chmod go-w {}, or ", quoted_to_show(path.as_os_str()))
        }
        _ => String::new(),
    }
}

fn is_of_root(unfit: &Unfit) -> bool {
    matches!(unfit, Unfit::Unsafe(Unsafe { path, .. }) if path.as_os_str() == "/")
}

/// For a program that is not there and looks like a verb.
fn did_you_mean(typed: &OsStr, verbs: &[&str]) -> Option<String> {
    let typed = typed.to_str()?;
    nearest(typed, verbs.iter().copied()).map(|near| format!("did you mean the verb `{near}`?"))
}

/// What the operating system says.
fn os(error: &std::io::Error) -> String {
    plain(&error.to_string()).to_lowercase()
}

/// Without the number of the error.
pub(super) fn plain(text: &str) -> &str {
    text.split(" (os error ").next().unwrap_or_default()
}

/// The one that differs least: in a letter or, where there are many, in two.
pub(super) fn nearest<'n>(typed: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let far = if typed.len() > 5 { 2 } else { 1 };
    // What may be a whole book is like no name, and need not be compared with any.
    let is_as_long = |name: &&str| typed.len().abs_diff(name.len()) <= 4 * far;
    let near = names.into_iter().filter(is_as_long).map(|name| (levenshtein(typed, name), name));
    let near = near.filter(|(distance, _)| typed.len() > 2 && (1..=far).contains(distance));
    near.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// What to type after an error, where that is known. `is_bare`: the program was named where a verb could stand.
pub fn error_hint(error: &Error, verbs: &[&str], is_bare: bool) -> Option<String> {
    match error {
        Error::NotFound { name } if is_bare && name.as_os_str() == "help" => {
            Some("cudarun --help".to_owned())
        }
        Error::NotFound { name } if is_bare => did_you_mean(name.as_os_str(), verbs),
        // Every directory is below it.
        Error::NoCache { tried } if tried.iter().any(|(_, why)| is_of_root(why)) => {
            Some("chown root:root / && chmod go-w /".to_owned())
        }
        Error::NoCache { tried } => {
            let mend = tried.first().map(|(_, why)| mend_or(why)).unwrap_or_default();
            Some(format!("{mend}XDG_CACHE_HOME=DIR cudarun …, a directory of your own"))
        }
        Error::NoSuchFamily { name, families } => Some(one_of(name, "families", families)),
        Error::Setting { hint, .. } => hint.clone(),
        Error::MachineUnusable { .. } => {
            Some("a description is what `cudarun doctor --save FILE` writes".to_owned())
        }
        Error::Exists { path } if path.ends_with(crate::settings::PROJECT) => {
            Some("cudarun init --print".to_owned())
        }
        Error::Exists { .. } => Some("name a file that is not there yet".to_owned()),
        Error::NoSuchSource { name, sources } => Some(one_of(name, "sources", sources)),
        _ => None,
    }
}

/// The name that was perhaps meant, or all that there are.
pub(super) fn one_of(typed: &str, what: &str, names: &[&str]) -> String {
    match nearest(&typed.to_lowercase(), names.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("the {what} are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_verbs_are_offered() {
        assert_eq!(
            did_you_mean(OsStr::new("explan"), &["list", "explain"]).unwrap(),
            "did you mean the verb `explain`?"
        );
        assert_eq!(did_you_mean(OsStr::new("ls"), &["list"]), None);
        assert_eq!(did_you_mean(OsStr::new("python"), &["list", "explain"]), None);
    }

    #[test]
    fn a_book_is_like_no_name_at_once() {
        let book = "c".repeat(1 << 20);
        let names = || std::iter::repeat_n("cublas", 1000);
        assert_eq!(nearest(&book, names()), None);
        assert_eq!(nearest("cublass", names()), Some("cublas"), "the control");
    }
}
