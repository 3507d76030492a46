//! What to type, in words: what comes from disk is quoted, since a person may paste it.

use std::ffi::OsStr;

use super::words::{family, list, quoted, written_in};
use crate::program::{Asker, Pip};
use crate::solve::{Hint, Wanted};
use crate::text::show;

/// What `cudarun record` writes, and `--locked` demands.
const LOCK: &str = ".cudarun.lock";

pub fn hint(hint: &Hint) -> String {
    match hint {
        Hint::Pip { pip, requirements, reinstall } => {
            let quoted: Vec<String> = requirements.iter().map(|requirement| format!("\"{requirement}\"")).collect();
            let options = if *reinstall { "--force-reinstall --no-deps " } else { "" };
            format!("{} install {options}{}", call(pip), quoted.join(" "))
        }
        Hint::PipUninstall { pip, packages } => format!("{} uninstall {}", call(pip), arguments(packages)),
        Hint::Apt { packages } => format!("apt install {}", arguments(packages)),
        Hint::Install { libraries } => {
            let libraries: Vec<String> = libraries.iter().map(wanted).collect();
            let its = if libraries.len() > 1 { "their directories" } else { "its directory" };
            format!("install {}, and name {its} in LD_LIBRARY_PATH", list(&libraries))
        }
        Hint::Replace { directories } => {
            let places: Vec<String> = directories.iter().map(show).collect();
            match places.as_slice() {
                [place] => format!("replace the installation in {place}: no library path can put another in its place"),
                _ => format!("make {} hold one and the same installation: no library path can help", list(&places)),
            }
        }
        Hint::MakePrivate { paths } => {
            let paths: Vec<String> = paths.iter().map(|path| argument(path.as_os_str())).collect();
            format!("chmod o-w {}", paths.join(" "))
        }
        Hint::Trust { directories } => {
            let options = directories.iter().map(|it| format!("--also {}", argument(it.as_os_str())));
            let options: Vec<String> = options.collect();
            format!("to use it all the same, name it: cudarun {} …", options.join(" "))
        }
        Hint::ChangeWish { families, by } => change(families, by),
        Hint::OtherBuild { pip, requirement } => format!("{} install \"{requirement}\"", call(pip)),
        Hint::ChooseGpus { uuids } => {
            format!("set CUDA_VISIBLE_DEVICES={}", uuids.iter().map(show).collect::<Vec<_>>().join(","))
        }
        Hint::UpdateDriver { floor } => format!("update the NVIDIA driver to {floor} or newer: no library path can help"),
        Hint::InstallDriver => {
            "install the user-space libraries of the driver that the kernel runs: no other library can stand in".to_owned()
        }
    }
}

/// What a person has said, where it was said.
fn change(families: &[String], by: &Asker) -> String {
    if by.name == "--pin" {
        let pins: Vec<String> = families.iter().map(|family| format!("--pin {family}=…")).collect();
        return format!("leave out {}, or name an installation that fits: see `cudarun list`", list(&pins));
    }
    if by.name.starts_with(LOCK) {
        return "record it anew with `cudarun record`, or start without the lock".to_owned();
    }
    let families: Vec<String> = families.iter().map(|name| family(name).to_owned()).collect();
    let of = if families.is_empty() { String::new() } else { format!(" of {}", list(&families)) };
    format!("change what {} says{of}: see `cudarun list` for what is here", written_in(by))
}

/// Whatever `pip` is on the PATH belongs to some Python, perhaps to another one.
fn call(pip: &Pip) -> String {
    let python = argument(pip.python.as_os_str());
    if pip.is_own { format!("{python} -m pip") } else { format!("pip --python {python}") }
}

/// `cuDNN 8 for CUDA 12`
fn wanted(library: &Wanted) -> String {
    let major = library.major.map(|major| format!(" {major}")).unwrap_or_default();
    let cuda = library.cuda.map(|cuda| format!(" for CUDA {cuda}")).unwrap_or_default();
    let at_least = library.at_least.map(|version| format!(" {version} or newer")).unwrap_or_default();
    format!("{}{major}{at_least}{cuda}", family(&library.family))
}

/// A name from disk as a word of a command line that somebody may paste.
fn argument(name: &OsStr) -> String {
    let shown = show(name);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+');
    if shown.chars().all(is_plain) { shown } else { quoted(OsStr::new(&shown)) }
}

fn arguments(names: &[String]) -> String {
    names.iter().map(|name| argument(OsStr::new(name))).collect::<Vec<_>>().join(" ")
}
