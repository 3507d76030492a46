//! Hints: the command to type, also for a wrong command line. Names from disk are quoted, since a person may paste the command.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};

use super::Style;
use super::words::{bare_name, joined, quoted_to_show};
use crate::catalog::{catalog, display_name, display_names};
use crate::host::{Unsafe, UnsafeFault};
use crate::inventory::Extension;
use crate::program::Pip;
use crate::requirements::Asker;
use crate::solve::{Hint, Wanted};
use crate::storage::UnusablePlace;
use crate::text::{list, show};
use crate::version::CudaVersion;

/// `cudarun record` writes it, and `--locked` obeys it.
const LOCK: &str = ".cudarun.lock";

pub(super) fn hint(hint: &Hint) -> String {
    match hint {
        Hint::Pip { pip, requirements, reinstall } => {
            let quoted: Vec<String> =
                requirements.iter().map(|requirement| format!("\"{requirement}\"")).collect();
            let options = if *reinstall { "--force-reinstall --no-deps " } else { "" };
            format!("{} install {options}{}", call(pip), quoted.join(" "))
        }
        Hint::PipUninstall { pip, packages } => format!("{} uninstall {}", call(pip), arguments(packages)),
        Hint::Apt { packages } => format!("apt install {}", arguments(packages)),
        Hint::Install { libraries } => {
            let its = if libraries.len() > 1 { "their directories" } else { "its directory" };
            let libraries = list(libraries.iter().map(wanted));
            format!("install {libraries}, and add {its} to LD_LIBRARY_PATH")
        }
        Hint::Replace { libraries, directory } => {
            let place = show(directory);
            format!(
                "install {} in {place}: no library path can select another one",
                list(libraries.iter().map(wanted))
            )
        }
        Hint::MakePrivate { paths } => {
            let paths: Vec<String> = paths.iter().map(|path| argument(path.as_os_str())).collect();
            format!("chmod o-w {}", paths.join(" "))
        }
        Hint::Trust { directories } => {
            let options = directories.iter().map(|path| format!("--also {}", argument(path.as_os_str())));
            let options: Vec<String> = options.collect();
            format!("if you trust it: cudarun {} …", options.join(" "))
        }
        Hint::ChangeRequirement { families, by } => change(families, by),
        Hint::OtherBuild { pip, requirement, .. } => format!("{} install \"{requirement}\"", call(pip)),
        Hint::FittingBuilds { pip, unfit } => fitting_builds(&Vec::from_iter(unfit), pip.as_ref()),
        Hint::BuildsWithCuda { packages } => {
            let names = packages.iter().map(|package| argument(bare_name(package).as_ref()));
            format!("cudarun advise {}, which names builds with CUDA for this machine", joined(names, " "))
        }
        Hint::ChooseGpus { uuids } => {
            format!("set CUDA_VISIBLE_DEVICES={}", joined(uuids.iter().map(show), ","))
        }
        Hint::UpdateDriver { floor, has_driver: true } => {
            format!("update the NVIDIA driver to {floor} or newer: no library path can help")
        }
        Hint::UpdateDriver { floor, has_driver: false } => {
            format!("install the NVIDIA driver {floor} or newer: no library path can help")
        }
        Hint::InstallDriver => {
            "install the user-space libraries of the kernel's driver version: no library path can help"
                .to_owned()
        }
        Hint::Both { steps } => steps.each_ref().map(self::hint).join("; then: "),
        Hint::HideGpus => "to start without a GPU: CUDA_VISIBLE_DEVICES= cudarun …".to_owned(),
    }
}

/// The command that installs builds that fit, or else the advice to install them.
pub(super) fn fitting_builds(unfit: &[&Extension], pip: Option<&Pip>) -> String {
    let mut requirements = BTreeSet::new();
    let mut packages = Vec::new();
    for extension in unfit {
        requirements.extend(extension.fitting_requirement());
        packages.push(show(bare_name(&extension.package)));
    }
    if requirements.is_empty() {
        let framework = unfit.first().map(|first| show(&first.framework));
        let (packages, framework) = (list(packages), framework.unwrap_or_default());
        return format!("install the build of {packages} for {framework}");
    }
    let call = pip.map_or_else(|| "pip".to_owned(), call);
    let requirements = requirements.iter().map(|one| quoted_to_show(one.as_ref()));
    format!("{call} install {}", joined(requirements, " "))
}

/// The command that installs the headers of the CUDA runtime for one version.
pub(super) fn runtime_headers(cuda: CudaVersion, pip: Option<&Pip>) -> String {
    let call = pip.map_or_else(|| "pip".to_owned(), call);
    let runtime = catalog().family("cudart");
    let wheel = runtime.and_then(|family| family.wheel(cuda.major));
    format!("{call} install \"{}=={cuda}.*\"", wheel.unwrap_or_default())
}

/// A setting to change, and its place.
fn change(families: &BTreeSet<String>, asker: &Asker) -> String {
    if asker.name == "--pin" {
        let pins = families.iter().map(|family| format!("--pin {family}"));
        return format!("remove {}, or pin an installation that fits", list(pins));
    }
    if asker.name.starts_with(LOCK) {
        return "write a new lock with `cudarun record`, or start without the lock".to_owned();
    }
    let place = asker.place();
    if families.is_empty() {
        return format!("change {place}: `cudarun doctor` shows what this machine has");
    }
    let families = display_names(families);
    format!("change {place} of {families}: `cudarun list` shows the installations")
}

/// The `pip` on the PATH may belong to another Python.
pub(super) fn call(pip: &Pip) -> String {
    let python = argument(pip.python.as_os_str());
    if pip.is_own {
        format!("{python} -m pip")
    } else {
        format!("pip --python {python}")
    }
}

/// Commands that begin with a bare `pip`, for one Python.
pub(super) fn for_python(commands: &str, pip: &Pip) -> String {
    let commands = commands
        .split("; ")
        .map(|command| match command.strip_prefix("pip ") {
            Some(rest) if !rest.starts_with("--python ") => format!("{} {rest}", call(pip)),
            _ => command.to_owned(),
        });
    joined(commands, "; ")
}

/// `cuDNN 8 for CUDA 12`
fn wanted(library: &Wanted) -> String {
    let mut text = display_name(&library.family).to_owned();
    if let Some(major) = library.major {
        text.push_str(&format!(" {major}"));
    }
    if let Some(version) = library.at_least {
        text.push_str(&format!(" {version} or newer"));
    }
    if let Some(cuda) = library.cuda {
        text.push_str(&format!(" for CUDA {cuda}"));
    }
    text
}

/// A name from disk as a word of a command line.
pub(super) fn argument(name: &OsStr) -> String {
    let shown = show(name);
    let is_plain = shown
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "/.-_+@%,:=".contains(c));
    if !shown.is_empty() && is_plain {
        shown
    } else {
        quoted_to_show(name)
    }
}

/// A command as a shell reads it.
pub fn shell_words(words: &[OsString]) -> String {
    joined(words.iter().map(|word| argument(word)), " ")
}

fn arguments(names: &BTreeSet<String>) -> String {
    joined(names.iter().map(|name| argument(name.as_ref())), " ")
}

/// The command that makes a directory safe, followed by `, or `; empty if there is none.
pub(super) fn mend_or(unfit: &UnusablePlace) -> String {
    match unfit {
        UnusablePlace::Unsafe(Unsafe {
            path,
            fault: UnsafeFault::Group { .. } | UnsafeFault::Others { .. },
        }) => {
            format!("chmod go-w {}, or ", quoted_to_show(path.as_os_str()))
        }
        _ => String::new(),
    }
}

/// The answer to `cudarun` alone.
pub fn first_contact(style: Style) -> String {
    let rows = [
        ["cudarun python3 train.py", "start a program"],
        [
            "cudarun explain python3 train.py",
            "show what it needs, what it gets, and why",
        ],
        [
            "cudarun doctor",
            "check whether GPU programs can run here, and how to fix it",
        ],
        ["cudarun --help", "show all verbs and options"],
    ];
    let rows = rows.map(|row| row.map(str::to_owned).to_vec());
    let first =
        "cudarun starts a program with exactly one coherent, checked set of NVIDIA libraries.";
    style.page(&format!("{first}\n\n{}", style.columns("  ", &rows)))
}

/// The verbs that have an option which another verb lacks; if it is one, also its command.
pub fn option_of(option: &str, verbs: &[String]) -> String {
    let option = show(option);
    let example = match verbs {
        [] => return String::new(),
        [only] if only == "run" => format!(": `cudarun {option} …`"),
        [only] => format!(": `cudarun {only} {option} …`"),
        _ => String::new(),
    };
    format!("\n`{option}` belongs to {}{example}\n", list(verbs))
}

/// A command line of cudarun, as a shell reads it.
pub fn own_command_line(words: &[OsString]) -> String {
    format!("cudarun {}", shell_words(words))
}
