//! The findings of `doctor` in words: a sentence, the evidence, and the command to type.

use std::collections::BTreeSet;

use super::extensions;
use super::hints::argument;
use super::places::mend_or;
use super::settings;
use super::words::{self, at, quoted_to_show};
use crate::catalog::{cause_words, display_name};
use crate::doctor::{Evidence, Finding, FindingKind as Kind};
use crate::inventory::{Origin, Problem};
use crate::solve::Summary;
use crate::text::{list, show, shown, size};

pub(super) fn sentence(finding: &Finding) -> String {
    let and_more = |count: usize| {
        if count == 0 {
            String::new()
        } else {
            format!(", and {count} more")
        }
    };
    match &finding.what {
        Kind::NoModuleForKernel { release } => format!(
            "the NVIDIA driver is installed, but not for this kernel ({})",
            show(release)
        ),
        Kind::DriverMismatch { installed, kernel } => format!(
            "the driver's user-space libraries are version {installed}, but the kernel still runs {kernel} (errors 803 and 804)"
        ),
        Kind::LibcudaShadowed { given, kernel } => format!(
            "the loader takes the libcuda of driver {}, but the kernel runs {kernel}",
            words::version(given.as_ref())
        ),
        Kind::FabricManager {
            version: Some(version),
            kernel,
        } => format!(
            "the fabric manager is version {version}, but the kernel runs driver {kernel}: CUDA fails with error 802"
        ),
        Kind::SharedMemorySmall { bytes } => format!(
            "/dev/shm holds only {}, too little for several GPUs",
            words::binary_size(*bytes)
        ),
        Kind::ToolkitMalformed { variable } => {
            format!("{variable} is not the absolute path of one directory")
        }
        Kind::NoSuchGpu { word, leaves_some } => {
            let hides = if *leaves_some {
                ": CUDA ignores it and everything after it"
            } else {
                ", and so hides every GPU"
            };
            format!(
                "CUDA_VISIBLE_DEVICES names `{}`, an unknown GPU{hides}",
                show(word)
            )
        }
        Kind::BadInstallation {
            installation,
            problem,
            ..
        } => {
            let directory = show(&installation.directory);
            format!("{} in {directory}: {}", title(installation), problem)
        }
        Kind::ExtensionMismatch { first, more } => extensions::sentence(first) + &and_more(*more),
        Kind::ToolkitBroken { problem } => {
            format!("nothing compiles with a CUDA toolkit: {problem}")
        }
        Kind::PassedOver { first, more } => {
            format!("a file was skipped: {}{}", first.fault, and_more(*more))
        }
        Kind::PathMissing { variable } => format!("an element of {variable} does not exist"),
        Kind::PathEmpty { directory } => format!(
            "an empty element of LD_LIBRARY_PATH means the current directory, now {}",
            show(directory)
        ),
        Kind::PathRelative { variable } => {
            format!("an element of {variable} is relative: it depends on the current directory")
        }
        Kind::PathOtherDriver { version, kernel } => format!(
            "an element of LD_LIBRARY_PATH contains the libcuda of {}, but the kernel runs {kernel}",
            words::version(version.as_ref())
        ),
        Kind::VersionsMixed {
            taken, passed_over, ..
        } => format!(
            "LD_LIBRARY_PATH selects {} in {} over the {} in {}",
            title(taken),
            show(&taken.directory),
            words::version(passed_over.version.as_ref()),
            show(&passed_over.directory)
        ),
        Kind::CompletedElsewhere {
            stems, first, rest, ..
        } => format!(
            "{} in {} lacks {}, so the loader takes the rest from {} in {}",
            title(first),
            show(&first.directory),
            shown(stems),
            words::version(rest.version.as_ref()),
            show(&rest.directory)
        ),
        Kind::PreloadLibrary { family } => format!(
            "LD_PRELOAD loads one {} into every program",
            display_name(family)
        ),
        Kind::AuditSet { is_ours: true } => "cudarun set LD_AUDIT".to_owned(),
        Kind::Followed { by_hook } => format!(
            "whatever this shell starts gets its own libraries{}",
            if *by_hook { ", by cudarun's hook" } else { "" }
        ),
        Kind::FollowBroken { lacks } => format!(
            "this shell has whatever it starts followed, and {} is gone",
            show(lacks)
        ),
        Kind::OwnVariables { names } => format!("variables of cudarun: {}", shown(names)),
        Kind::SetAtStart { variables } => format!("start-up files mention {}", list(variables)),
        Kind::HookShadowed { variable } => {
            format!("a later line replaces {variable}, which removes cudarun's hook")
        }
        Kind::CacheStale { directory, name } => format!(
            "the loader's cache lacks {} in {}, a directory of its configuration",
            show(name),
            show(directory)
        ),
        Kind::CacheOfLoaderBad { fault } => format!("the loader's cache is unusable: {fault}"),
        Kind::SettingFault { fault } | Kind::LockFault { fault } => settings::fault(fault),
        Kind::UnknownKey { remark } => settings::unknown_key(remark),
        Kind::NotAllowed { file, keys } => settings::not_allowed(file, keys),
        Kind::LockNeedsDriver { needs, kernel } => {
            format!("the lock requires driver {needs} or newer, but the kernel runs {kernel}")
        }
        Kind::ImageConditionMalformed { malformed } => settings::malformed(malformed),
        Kind::CacheRefused { used } => format!(
            "the usual cache directory is refused; cudarun uses {}",
            show(used)
        ),
        Kind::CacheFull { free } => {
            format!("the disk of the cache is full ({} left)", size(*free))
        }
        constant => cause_words().finding[constant.code()].says.clone(),
    }
}

/// Returns the command to type, or an instruction; `None` for facts.
pub(super) fn remedy(finding: &Finding) -> Option<String> {
    let fixed = match &finding.what {
        Kind::NoLibcuda { is_container: true } => {
            "start the container with `--gpus all` and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
        }
        Kind::UvmMissing if is_without_node_maker(finding) => {
            "sudo modprobe nvidia-uvm; start a container with the node"
        }
        Kind::DeviceNotPermitted if is_of_root(finding) => {
            "ask the administrator for access; in a batch system, request a GPU"
        }
        Kind::BadInstallation {
            installation,
            problem,
            ..
        } => return Some(mend_installation(installation, problem)),
        Kind::ExtensionMismatch { first, .. } => return Some(extensions::remedy(first)),
        Kind::AuditSet { is_ours: true } => return None,
        Kind::SettingFault { fault } | Kind::LockFault { fault } => {
            let hint = settings::fault_hint(fault);
            return Some(hint.unwrap_or_else(|| "correct this setting".to_owned()));
        }
        Kind::NotAllowed { file, .. } => {
            let file = argument(file.as_os_str());
            return Some(format!("read it, then `cudarun allow {file}`"));
        }
        Kind::NoCache | Kind::CacheRefused { .. } => return Some(other_cache(finding)),
        constant => &cause_words().finding.get(constant.code())?.cure,
    };
    (!fixed.is_empty()).then(|| fixed.replace("{}", &setter(finding)))
}

/// `cuDNN 9.1.0`
fn title(installation: &Summary) -> String {
    let stub = if installation.origin == Origin::Stub {
        " (stub)"
    } else {
        ""
    };
    match installation.version {
        Some(version) => format!("{} {version}{stub}", display_name(&installation.family)),
        None => format!("{}{stub}", display_name(&installation.family)),
    }
}

/// The place of a piece of evidence, and its content.
pub(super) fn evidence(evidence: &Evidence) -> (String, String) {
    match evidence {
        Evidence::File { path, line, text } => (at(path, *line), show(text)),
        Evidence::Absent { path } => (show(path), "does not exist".to_owned()),
        Evidence::Mode { path, mode, owner } => {
            let owner = owner.map(|(uid, gid)| format!(", user {uid}, group {gid}"));
            (
                show(path),
                format!("mode {mode:04o}{}", owner.unwrap_or_default()),
            )
        }
        Evidence::Variable { name, value } => (show(name), format!("\"{}\"", show(value))),
        Evidence::Set { name } => (show(name), "is set".to_owned()),
        Evidence::Element {
            variable,
            position,
            text,
        } => {
            let text = if text.is_empty() {
                "(empty)".to_owned()
            } else {
                show(text)
            };
            (format!("{variable}[{position}]"), text)
        }
        Evidence::Card {
            bus,
            id,
            model,
            driver,
        } => {
            let model = model.map_or_else(|| format!("device {}", show(id)), str::to_owned);
            let driver = driver.as_ref().map_or("no driver".to_owned(), |name| {
                format!("driver {}", show(name))
            });
            (show(bus), format!("{model}, {driver}"))
        }
        Evidence::Installation(installation) => (
            show(&installation.directory),
            format!("{} ({})", title(installation), installation.origin.word()),
        ),
        Evidence::Fault { path, fault } => (show(path), fault.to_string()),
        Evidence::Symbol {
            path,
            symbol,
            has: true,
        } => (show(path), format!("has {}", show(symbol))),
        Evidence::Symbol {
            path,
            symbol,
            has: false,
        } => (show(path), format!("has no {}", show(symbol))),
        Evidence::Place { path, why } => (show(path), why.at(path)),
    }
}

/// The line that sets an element, or the word for it.
fn setter(finding: &Finding) -> String {
    let line = finding.evidence.iter().find_map(|evidence| match evidence {
        Evidence::File {
            path,
            line: Some(line),
            ..
        } => Some(at(path, Some(*line))),
        _ => None,
    });
    line.unwrap_or_else(|| "the variable".to_owned())
}

fn mend_installation(installation: &Summary, problem: &Problem) -> String {
    let (title, directory) = (title(installation), &installation.directory);
    match problem {
        Problem::WorldWritable { path } => {
            format!("chmod o-w {}", quoted_to_show(path.as_os_str()))
        }
        Problem::ClaimedTwice {
            packages,
            holds,
            needed,
            ..
        } => reinstalled(
            packages,
            needed.as_ref().or(holds.as_ref()).unwrap_or(&packages[0]),
        ),
        Problem::StubOnSearchPath { .. } => {
            "remove its directory from /etc/ld.so.conf.d, then `sudo ldconfig`".to_owned()
        }
        _ => format!("reinstall the package of {title}: {}", show(directory)),
    }
}

/// The commands that keep only one of the packages that claim a file.
pub(super) fn reinstalled(packages: &[String], kept: &str) -> String {
    let name =
        |package: &String| quoted_to_show(package.split(' ').next().unwrap_or_default().as_ref());
    let others: BTreeSet<String> = packages
        .iter()
        .filter(|package| *package != kept)
        .map(name)
        .collect();
    let (others, kept) = (
        Vec::from_iter(others).join(" "),
        kept.replacen(' ', "==", 1),
    );
    format!(
        "pip uninstall {others}; pip install --force-reinstall --no-deps {}",
        quoted_to_show(kept.as_ref())
    )
}

fn other_cache(finding: &Finding) -> String {
    let mend = finding.evidence.iter().find_map(|evidence| match evidence {
        Evidence::Place { why, .. } => Some(mend_or(why)),
        _ => None,
    });
    format!(
        "{}export XDG_CACHE_HOME=DIR, a directory that only you can write to",
        mend.unwrap_or_default()
    )
}

fn is_without_node_maker(finding: &Finding) -> bool {
    let is_maker = |evidence: &Evidence| matches!(evidence, Evidence::Absent { path } if path.ends_with("nvidia-modprobe"));
    finding.evidence.iter().any(is_maker)
}

/// True if the nodes belong to root's group, which no user should join.
fn is_of_root(finding: &Finding) -> bool {
    finding.evidence.iter().any(|one| {
        matches!(
            one,
            Evidence::Mode {
                owner: Some((_, 0)),
                ..
            }
        )
    })
}
