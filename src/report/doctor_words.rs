//! The findings of `doctor` in words: a sentence, the evidence, and the command to type.

use std::collections::BTreeSet;

use super::cause_words::words as words_of;
use super::extensions;
use super::hints::argument;
use super::places::mend_or;
use super::settings;
use super::words::{self, at, quoted_to_show};
use crate::catalog::CauseKey as Key;
use crate::catalog::display_name;
use crate::doctor::{Evidence, Finding, FindingKind as Kind};
use crate::inventory::{Origin, Problem};
use crate::solve::Summary;
use crate::text::{list, show, shown, size};

pub(super) fn sentence(finding: &Finding) -> String {
    words_for(finding).0
}

/// Returns the command to type, or an instruction; `None` for facts.
pub(super) fn remedy(finding: &Finding) -> Option<String> {
    words_for(finding).1
}

const RIGHT_ONE: &str = "start programs with cudarun, which picks the right one";
const GPUS: &str = "name GPUs that `nvidia-smi -L` lists, or unset CUDA_VISIBLE_DEVICES";

fn words_for(finding: &Finding) -> (String, Option<String>) {
    let fixed = |sentence: &str, remedy: &str| (sentence.to_owned(), Some(remedy.to_owned()));
    let same = |key| words_of(key).0;
    let by = |sentence: String, remedy: &str| (sentence, Some(remedy.to_owned()));
    let and_more = |count: usize| {
        if count == 0 {
            String::new()
        } else {
            format!(", and {count} more")
        }
    };
    let fact = |sentence: String| (sentence, None);
    let edit = |sentence: String| (sentence, Some(edit(finding)));
    let edit_or_cudarun = |sentence: String| {
        (
            sentence,
            Some(format!(
                "{}, or start programs with cudarun",
                self::edit(finding)
            )),
        )
    };
    match &finding.what {
        Kind::NoDriver => fixed(
            "this machine has an NVIDIA card, but no driver is installed",
            "install your distribution's NVIDIA driver",
        ),
        Kind::DriverNotLoaded => fixed(
            same(Key::DriverNotLoaded),
            "sudo modprobe nvidia; if that fails, `sudo dmesg | grep -i nvidia` shows why (Secure Boot rejects unsigned modules)",
        ),
        Kind::NoModuleForKernel { release } => by(
            format!(
                "the NVIDIA driver is installed, but not for this kernel ({})",
                show(release)
            ),
            "sudo dkms autoinstall && sudo modprobe nvidia, or boot the kernel that the driver was installed for",
        ),
        Kind::Nouveau => fixed(
            "the kernel uses nouveau for the NVIDIA card; CUDA does not work with it",
            "install the NVIDIA driver, which disables nouveau, and restart the machine",
        ),
        Kind::DriverMismatch { installed, kernel } => by(
            format!(
                "the driver's user-space libraries are version {installed}, but the kernel still runs {kernel} (errors 803 and 804)"
            ),
            "restart the machine, so that the kernel loads the installed driver; restart a container",
        ),
        Kind::NoLibcuda { is_container } => fixed(
            "the kernel runs the driver, but libcuda.so.1 is not installed",
            if *is_container {
                "start the container with `--gpus all` and NVIDIA_DRIVER_CAPABILITIES=compute,utility"
            } else {
                "install the libraries of the same driver version (libcuda1, nvidia-driver-cuda)"
            },
        ),
        Kind::LibcudaNotFound => fixed(
            "the driver's libcuda.so.1 is in a directory that the loader does not search",
            "add the directory to a file in /etc/ld.so.conf.d and run `sudo ldconfig`, or start programs with cudarun",
        ),
        Kind::LibcudaShadowed { given, kernel } => by(
            format!(
                "the loader takes the libcuda of driver {}, but the kernel runs {kernel}",
                words::version(given.as_ref())
            ),
            RIGHT_ONE,
        ),
        Kind::WslWithoutGpu => fixed(
            "this is WSL, and Windows provides no GPU",
            "install NVIDIA's driver in Windows, then run `wsl --update` there",
        ),
        Kind::WslLinuxDriver => fixed(
            "this is WSL, but the loader takes the libcuda of a Linux driver",
            "uninstall the Linux driver: WSL uses the driver of Windows",
        ),
        Kind::NoGpu => fixed(same(Key::NoGpu), words_of(Key::NoGpu).1),
        Kind::ContainerWithoutGpus => {
            fixed(same(Key::ContainerNoGpu), words_of(Key::ContainerNoGpu).1)
        }
        Kind::DeviceNodesMissing => fixed(
            same(Key::DeviceNodesMissing),
            words_of(Key::DeviceNodesMissing).1,
        ),
        Kind::UvmMissing => fixed(
            "the device node of unified memory is missing",
            if is_without_node_maker(finding) {
                "sudo modprobe nvidia-uvm; start a container with the node"
            } else {
                "sudo nvidia-modprobe -u -c 0"
            },
        ),
        Kind::DeviceNotPermitted => fixed(
            same(Key::DeviceNotPermitted),
            if is_of_root(finding) {
                "ask the administrator for access; in a batch system, request a GPU"
            } else {
                "join the group that owns them (`sudo usermod -aG GROUP USER`, then log in again); in a batch system, request a GPU"
            },
        ),
        Kind::DeviceLost => fixed(
            "all users may open the device nodes of the GPUs, but the kernel denies access: this container has lost its GPUs",
            "restart the container; `systemctl daemon-reload` on the host removes the GPUs from containers that did not get them as devices",
        ),
        Kind::FabricManager { version, kernel } => by(
            match version {
                Some(version) => {
                    format!(
                        "the fabric manager is version {version}, but the kernel runs driver {kernel}"
                    )
                }
                None => "this machine has NVSwitches, but no fabric manager".to_owned(),
            } + ": CUDA fails with error 802",
            "install nvidia-fabricmanager in the driver's version, then sudo systemctl restart nvidia-fabricmanager",
        ),
        Kind::Suspended => fixed(
            "this machine was suspended, and the driver does not keep its memory: cuInit may fail with error 999",
            "if it fails: sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm",
        ),
        Kind::SharedMemorySmall { bytes } => by(
            format!(
                "/dev/shm holds only {}, too little for several GPUs",
                words::binary_size(*bytes)
            ),
            "start the container with `--shm-size 8g` or `--ipc host`",
        ),
        Kind::WslMemoryMissing => fixed(
            "this container has WSL's driver without libnvdxgdmal.so.1, which newer drivers need",
            "if cuInit fails, update nvidia-container-toolkit in WSL and start the container again",
        ),
        Kind::DriverFileEmpty => fixed(
            "driver files are empty: the image was made from a container that got them from its host",
            "start the container with the driver's files (`--gpus all`), or remove the empty files from the image",
        ),
        Kind::ToolkitMalformed { variable } => by(
            format!("{variable} is not the absolute path of one directory"),
            "set it to the directory of one toolkit, or unset it",
        ),
        Kind::GpusHidden => fixed(
            same(Key::GpusHidden),
            "unset CUDA_VISIBLE_DEVICES; in a batch system, request a GPU",
        ),
        Kind::NoSuchGpu {
            word,
            leaves_some: true,
        } => by(
            format!(
                "CUDA_VISIBLE_DEVICES names `{}`, an unknown GPU: CUDA ignores it and everything after it",
                show(word)
            ),
            GPUS,
        ),
        Kind::NoSuchGpu {
            word,
            leaves_some: false,
        } => by(
            format!(
                "CUDA_VISIBLE_DEVICES names `{}`, an unknown GPU, and so hides every GPU",
                show(word)
            ),
            GPUS,
        ),
        Kind::BadInstallation {
            installation,
            problem,
            ..
        } => {
            let directory = show(&installation.directory);
            let sentence = format!("{} in {directory}: {}", title(installation), problem);
            (sentence, Some(mend_installation(installation, problem)))
        }
        Kind::ExtensionMismatch { first, more } => (
            extensions::sentence(first) + &and_more(*more),
            Some(extensions::remedy(first)),
        ),
        Kind::ToolkitBroken { problem } => by(
            format!("nothing compiles with a CUDA toolkit: {problem}"),
            "build with `cudarun --build COMMAND`, which takes one that fits; `cudarun list toolkit` shows all",
        ),
        Kind::PassedOver { first, more } => fact(format!(
            "a file was skipped: {}{}",
            first.fault,
            and_more(*more)
        )),
        Kind::PathMissing { variable } => edit(format!("an element of {variable} does not exist")),
        Kind::PathEmpty { directory } => edit(format!(
            "an empty element of LD_LIBRARY_PATH means the current directory, now {}",
            show(directory)
        )),
        Kind::PathRelative { variable } => by(
            format!("an element of {variable} is relative: it depends on the current directory"),
            "write the absolute path",
        ),
        Kind::PathDuplicate => edit("LD_LIBRARY_PATH contains a directory twice".to_owned()),
        Kind::PathStubs => edit_or_cudarun(
            "an element of LD_LIBRARY_PATH contains stubs for linking, which fail at run time"
                .to_owned(),
        ),
        Kind::PathOtherDriver { version, kernel } => edit_or_cudarun(format!(
            "an element of LD_LIBRARY_PATH contains the libcuda of {}, but the kernel runs {kernel}",
            words::version(version.as_ref())
        )),
        Kind::PathOwnView => {
            fact("cudarun set this environment: its view is in LD_LIBRARY_PATH".to_owned())
        }
        Kind::VersionsMixed {
            taken, passed_over, ..
        } => edit_or_cudarun(format!(
            "LD_LIBRARY_PATH selects {} in {} over the {} in {}",
            title(taken),
            show(&taken.directory),
            words::version(passed_over.version.as_ref()),
            show(&passed_over.directory)
        )),
        Kind::CompletedElsewhere {
            stems, first, rest, ..
        } => edit_or_cudarun(format!(
            "{} in {} lacks {}, so the loader takes the rest from {} in {}",
            title(first),
            show(&first.directory),
            shown(stems),
            words::version(rest.version.as_ref()),
            show(&rest.directory)
        )),
        Kind::PreloadMissing => edit(
            "an element of LD_PRELOAD does not exist: the loader warns at every start".to_owned(),
        ),
        Kind::PreloadLibrary { family: name } => edit(format!(
            "LD_PRELOAD loads one {} into every program",
            display_name(name)
        )),
        Kind::AuditSet { is_ours: true } => fact("cudarun set LD_AUDIT".to_owned()),
        Kind::AuditSet { is_ours: false } => fixed(
            "LD_AUDIT is set: its module may change which files the loader takes",
            "unset LD_AUDIT, unless you need it",
        ),
        Kind::Followed { by_hook } => fact(format!(
            "whatever this shell starts gets its own libraries{}",
            if *by_hook { ", by cudarun's hook" } else { "" }
        )),
        Kind::FollowBroken { lacks } => by(
            format!(
                "this shell has whatever it starts followed, and {} is gone",
                show(lacks)
            ),
            "unset LD_AUDIT CUDARUN_TREE; then install cudarun again, or remove the lines that set them",
        ),
        Kind::TunablesSet => {
            fact("GLIBC_TUNABLES is set: it may change which files the loader takes".to_owned())
        }
        Kind::OwnVariables { names } => fact(format!("variables of cudarun: {}", shown(names))),
        Kind::SetAtStart { variables } => {
            let names: Vec<String> = variables.iter().map(ToString::to_string).collect();
            fact(format!("start-up files mention {}", list(&names)))
        }
        Kind::HookShadowed { variable } => by(
            format!("a later line replaces {variable}, which removes cudarun's hook"),
            "move the line with `cudarun hook` to the end of the file",
        ),
        Kind::SystemPreload => {
            fact("/etc/ld.so.preload loads a library into every program".to_owned())
        }
        Kind::CacheStale { directory, name } => by(
            format!(
                "the loader's cache lacks {} in {}, a directory of its configuration",
                show(name),
                show(directory)
            ),
            "sudo ldconfig",
        ),
        Kind::CacheOfLoaderBad { fault } => by(
            format!("the loader's cache is unusable: {fault}"),
            "sudo ldconfig",
        ),
        Kind::SettingFault { fault } | Kind::LockFault { fault } => {
            let hint =
                settings::fault_hint(fault).unwrap_or_else(|| "correct this setting".to_owned());
            (settings::fault(fault), Some(hint))
        }
        Kind::UnknownKey { remark } => by(
            settings::unknown_key(remark),
            "correct or remove the key: `cudarun init --print` shows the known ones",
        ),
        Kind::NotAllowed { file, keys } => {
            let command = format!(
                "read it, then `cudarun allow {}`",
                argument(file.as_os_str())
            );
            (settings::not_allowed(file, keys), Some(command))
        }
        Kind::LockNeedsDriver { needs, kernel } => by(
            format!("the lock requires driver {needs} or newer, but the kernel runs {kernel}"),
            "update the driver, or run `cudarun record PROGRAM …` on this machine",
        ),
        Kind::ImageConditionMalformed { malformed } => by(
            settings::malformed(malformed),
            "correct the variable in the image",
        ),
        Kind::NoCache => (
            "no safe directory for cudarun's cache".to_owned(),
            Some(other_cache(finding)),
        ),
        Kind::CacheRefused { used } => {
            let sentence = format!(
                "the usual cache directory is refused; cudarun uses {}",
                show(used)
            );
            (sentence, Some(other_cache(finding)))
        }
        Kind::CacheFull { free } => by(
            format!("the disk of the cache is full ({} left)", size(*free)),
            "free some space, or export XDG_CACHE_HOME=DIR on another disk",
        ),
        Kind::CacheNoexec => fixed(
            "the cache is on a file system mounted noexec: the mode `audit` does not work",
            "export XDG_CACHE_HOME=DIR on another disk, if you need that mode",
        ),
    }
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

/// The instruction to remove an element from the line that sets it.
fn edit(finding: &Finding) -> String {
    let line = finding.evidence.iter().find_map(|evidence| match evidence {
        Evidence::File {
            path,
            line: Some(line),
            ..
        } => Some(at(path, Some(*line))),
        _ => None,
    });
    format!(
        "remove it from {}",
        line.unwrap_or_else(|| "the variable".to_owned())
    )
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
