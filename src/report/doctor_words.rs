//! FindingKind each finding is called, what it rests on and what to type.

use super::doctor::at;
use super::errors::{mend_or, unfit};
use super::settings;
use super::words::{self, family, list, shown, size};
use crate::doctor::{Evidence, Finding, FindingKind, Named};
use crate::inventory::{Origin, Problem};
use crate::text::show;

/// FindingKind is wrong, in a sentence.
#[expect(clippy::too_many_lines, reason = "a line or two for each finding")]
pub(super) fn sentence(what: &FindingKind) -> String {
    let of_copy = |installation: &Named, problem: &Problem| {
        format!("{} in {}: {}", title(installation), show(&installation.directory), words::problem(problem))
    };
    match what {
        FindingKind::NoDriver => "there is an NVIDIA card, and no driver for it is installed".to_owned(),
        FindingKind::DriverNotLoaded => {
            "the NVIDIA driver is installed, and the kernel does not run it".to_owned()
        }
        FindingKind::NoModuleForKernel { release } => {
            format!("the NVIDIA driver is installed, and not for this kernel ({})", show(release))
        }
        FindingKind::Nouveau => {
            "the kernel runs nouveau on the NVIDIA card, with which CUDA does not work".to_owned()
        }
        FindingKind::DriverMismatch { installed, kernel } => format!(
            "the driver's user-space libraries are of {installed}, and the kernel still runs {kernel} (errors 803 and 804)"
        ),
        FindingKind::NoLibcuda { .. } => {
            "the kernel runs the driver, and there is no libcuda.so.1 here".to_owned()
        }
        FindingKind::LibcudaNotFound => {
            "the driver's libcuda.so.1 stands where the loader does not look".to_owned()
        }
        FindingKind::LibcudaShadowed { given, kernel } => format!(
            "the loader gives the libcuda of driver {}, and the kernel runs {kernel}",
            words::version(given.as_ref())
        ),
        FindingKind::WslWithoutGpu => "this is WSL, and Windows gives it no GPU".to_owned(),
        FindingKind::WslLinuxDriver => {
            "this is WSL, and the loader gives the libcuda of a Linux driver".to_owned()
        }
        FindingKind::NoGpu => "there is no NVIDIA GPU on this machine".to_owned(),
        FindingKind::ContainerWithoutGpus => "this container was given no GPU".to_owned(),
        FindingKind::DeviceNodesMissing => "the device nodes of the GPUs are missing".to_owned(),
        FindingKind::DeviceNotPermitted => "this user may not use the device nodes of the GPUs".to_owned(),
        FindingKind::UvmMissing => "the device node of unified memory is missing".to_owned(),
        FindingKind::GpusHidden => "CUDA_VISIBLE_DEVICES leaves no GPU".to_owned(),
        FindingKind::NoSuchGpu { word, leaves_some: true } => {
            format!(
                "CUDA_VISIBLE_DEVICES names `{}`, which is no GPU here: it and all after it do not count",
                show(word)
            )
        }
        FindingKind::NoSuchGpu { word, leaves_some: false } => {
            format!("CUDA_VISIBLE_DEVICES names `{}`, which is no GPU here, and leaves none", show(word))
        }
        FindingKind::CopyIncomplete { installation, problem }
        | FindingKind::CopyMixed { installation, problem }
        | FindingKind::CopyDamaged { installation, problem }
        | FindingKind::CopyNotAsInstalled { installation, problem }
        | FindingKind::CopyWorldWritable { installation, problem }
        | FindingKind::TwoOfOneSoname { installation, problem }
        | FindingKind::StubGiven { installation, problem } => of_copy(installation, problem),
        FindingKind::PassedOver { first, more } => {
            let more = match more {
                0 => String::new(),
                1 => ", and one more".to_owned(),
                more => format!(", and {more} more"),
            };
            format!("passed over: {}, {}{more}", show(&first.path), words::fault(&first.fault))
        }
        FindingKind::PathMissing { variable } => format!("an element of {variable} does not exist"),
        FindingKind::PathEmpty { directory } => format!(
            "an empty element of LD_LIBRARY_PATH means the current directory, now {}",
            show(directory)
        ),
        FindingKind::PathRelative { variable } => {
            format!("an element of {variable} means another place in each directory")
        }
        FindingKind::PathDuplicate => "an element of LD_LIBRARY_PATH is there twice".to_owned(),
        FindingKind::PathStubs => {
            "an element of LD_LIBRARY_PATH holds stubs to link against, which fail at run time".to_owned()
        }
        FindingKind::PathOtherDriver { version, kernel } => format!(
            "an element of LD_LIBRARY_PATH holds the libcuda of {}, and the kernel runs {kernel}",
            words::version(version.as_ref())
        ),
        FindingKind::PathOwnView => {
            "this environment is one that cudarun has made: its view is in LD_LIBRARY_PATH".to_owned()
        }
        FindingKind::VersionsMixed { taken, passed_over, .. } => format!(
            "LD_LIBRARY_PATH gives {} from {}, and not the {} in {}",
            title(taken),
            show(&taken.directory),
            words::version(passed_over.version.as_ref()),
            show(&passed_over.directory)
        ),
        FindingKind::CompletedElsewhere { stems, first, rest, .. } => format!(
            "{} in {} lacks {}, which the loader then takes from the {} in {}",
            title(first),
            show(&first.directory),
            shown(stems),
            words::version(rest.version.as_ref()),
            show(&rest.directory)
        ),
        FindingKind::PreloadMissing => {
            "an element of LD_PRELOAD does not exist: the loader says so at every start".to_owned()
        }
        FindingKind::PreloadLibrary { family: name } => {
            format!("LD_PRELOAD puts one {} into every program", family(name))
        }
        FindingKind::AuditSet { is_ours: true } => "LD_AUDIT is set, by cudarun".to_owned(),
        FindingKind::AuditSet { is_ours: false } => {
            "LD_AUDIT is set: its module may change what the loader takes".to_owned()
        }
        FindingKind::TunablesSet => "GLIBC_TUNABLES is set: it may change what the loader takes".to_owned(),
        FindingKind::OwnVariables { names } => format!("set for cudarun: {}", shown(names)),
        FindingKind::SetAtStart { variables } => {
            let names: Vec<String> = variables.iter().map(ToString::to_string).collect();
            format!("files that are read at the start speak of {}", list(&names))
        }
        FindingKind::HookShadowed { variable } => {
            format!("a later line sets {variable} anew, and takes the hook of cudarun away")
        }
        FindingKind::SystemPreload => "/etc/ld.so.preload puts a library into every program".to_owned(),
        FindingKind::CacheStale { directory, name } => format!(
            "the loader's cache does not know {} in {}, which its configuration names",
            show(name),
            show(directory)
        ),
        FindingKind::CacheOfLoaderBad { fault } => {
            format!("the loader's cache cannot be used: {}", words::fault(fault))
        }
        FindingKind::SettingFault { fault } | FindingKind::LockFault { fault } => settings::fault(fault),
        FindingKind::UnknownKey { remark } => settings::unknown_key(remark),
        FindingKind::NotAllowed { file, keys } => settings::not_allowed(file, keys),
        FindingKind::LockNeedsDriver { needs, kernel } => {
            format!("the lock was recorded for drivers from {needs} on, and the kernel runs {kernel}")
        }
        FindingKind::ImageConditionMalformed { malformed } => settings::malformed(malformed),
        FindingKind::NoCache => {
            "there is no place for what cudarun needs that only you can write to".to_owned()
        }
        FindingKind::CacheRefused { used } => {
            format!("the usual place is refused, and {} is used", show(used))
        }
        FindingKind::CacheFull { free } => format!("the disk of the cache is full ({} left)", size(*free)),
        FindingKind::CacheNoexec => {
            "the cache stands where nothing can be run: the mode `audit` does not work from there".to_owned()
        }
    }
}

/// `cuDNN 9.1.0`
fn title(installation: &Named) -> String {
    let stub = if installation.origin == Origin::Stub { " (stub)" } else { "" };
    match installation.version {
        Some(version) => format!("{} {version}{stub}", family(&installation.family)),
        None => format!("{}{stub}", family(&installation.family)),
    }
}

/// Where a piece of evidence stands, and what it says.
pub(super) fn evidence(evidence: &Evidence) -> (String, String) {
    match evidence {
        Evidence::File { path, line, text } => (at(path, *line), show(text)),
        Evidence::Absent { path } => (show(path), "is not there".to_owned()),
        Evidence::Mode { path, mode, owner } => {
            let owner = owner.map(|(uid, gid)| format!(", of user {uid} and group {gid}"));
            (show(path), format!("mode {mode:04o}{}", owner.unwrap_or_default()))
        }
        Evidence::Variable { name, value } => (show(name), format!("\"{}\"", show(value))),
        Evidence::Set { name } => (show(name), "is set".to_owned()),
        Evidence::Element { variable, position, text } => {
            let text = if text.is_empty() { "(empty)".to_owned() } else { show(text) };
            (format!("{variable}[{position}]"), text)
        }
        Evidence::Card { bus, id, model, driver } => {
            let model = model.map_or_else(|| format!("device {}", show(id)), str::to_owned);
            let driver =
                driver.as_ref().map_or("no driver".to_owned(), |name| format!("driver {}", show(name)));
            (show(bus), format!("{model}, {driver}"))
        }
        Evidence::Installation(installation) => (
            show(&installation.directory),
            format!("{} ({})", title(installation), installation.origin.word()),
        ),
        Evidence::Place { path, why } => (show(path), unfit(path, why)),
    }
}

/// FindingKind to type, or to do; nothing where it is only good to know.
#[expect(clippy::too_many_lines, reason = "a line or two for each finding")]
pub(super) fn remedy(finding: &Finding) -> Option<String> {
    const BY_CUDARUN: &str = "start programs with cudarun, which takes the right one";
    let edit = || {
        let line = finding.evidence.iter().find_map(|evidence| match evidence {
            Evidence::File { path, line: Some(line), .. } => Some(at(path, Some(*line))),
            _ => None,
        });
        line.map_or_else(|| "take it out of the variable".to_owned(), |line| format!("take it out of {line}"))
    };
    let again = |installation: &Named| {
        let system = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];
        // Of a directory that all share, nobody is told to take it away.
        if system.iter().any(|it| installation.directory.starts_with(it)) {
            format!(
                "install the package again that {} in {} is from",
                title(installation),
                show(&installation.directory)
            )
        } else {
            format!(
                "install {} again, or take its files away from {}",
                title(installation),
                show(&installation.directory)
            )
        }
    };
    let remedy = match &finding.what {
        FindingKind::NoDriver => "install the NVIDIA driver, as your distribution has it".to_owned(),
        FindingKind::DriverNotLoaded => {
            "sudo modprobe nvidia; where that fails, `sudo dmesg | grep -i nvidia` says why (Secure Boot refuses a module that is not signed)".to_owned()
        }
        FindingKind::NoModuleForKernel { .. } => {
            "sudo dkms autoinstall && sudo modprobe nvidia, or start the kernel that the driver was installed for".to_owned()
        }
        FindingKind::Nouveau => "install the NVIDIA driver, which keeps nouveau away, and restart the machine".to_owned(),
        FindingKind::DriverMismatch { .. } => {
            "restart the machine, so that the kernel runs the installed driver; in a container, start it anew".to_owned()
        }
        FindingKind::NoLibcuda { is_container: true } => {
            "start the container with `--gpus all` and NVIDIA_DRIVER_CAPABILITIES=compute,utility".to_owned()
        }
        FindingKind::NoLibcuda { .. } => "install the libraries of the same driver (libcuda1, nvidia-driver-cuda)".to_owned(),
        FindingKind::LibcudaNotFound => "sudo ldconfig after naming its directory in /etc/ld.so.conf.d, or start programs with cudarun".to_owned(),
        FindingKind::LibcudaShadowed { .. } => BY_CUDARUN.to_owned(),
        FindingKind::WslWithoutGpu => "install NVIDIA's driver in Windows, then `wsl --update` there".to_owned(),
        FindingKind::WslLinuxDriver => "take the Linux driver away: in WSL the driver is that of Windows".to_owned(),
        FindingKind::NoGpu => "go to a machine that has one; in a batch system, ask for a GPU (`srun --gpus 1 …`)".to_owned(),
        FindingKind::ContainerWithoutGpus => {
            "start the container with `--gpus all` (podman: `--device nvidia.com/gpu=all`, apptainer: `--nv`)".to_owned()
        }
        FindingKind::UvmMissing if has_absent(finding, "/usr/bin/nvidia-modprobe") => {
            "sudo modprobe nvidia-uvm; a container must be started with the node".to_owned()
        }
        FindingKind::DeviceNodesMissing | FindingKind::UvmMissing => "sudo nvidia-modprobe -u -c 0".to_owned(),
        FindingKind::DeviceNotPermitted if is_of_root(finding) => {
            "ask whoever runs this machine for the rights to use them; in a batch system, ask for a GPU".to_owned()
        }
        FindingKind::DeviceNotPermitted => {
            "ask for the group that owns them (`sudo usermod -aG GROUP USER`, then log in again); in a batch system, for a GPU".to_owned()
        }
        FindingKind::GpusHidden => "unset CUDA_VISIBLE_DEVICES; in a batch system, ask for a GPU".to_owned(),
        FindingKind::NoSuchGpu { .. } => "name GPUs that `nvidia-smi -L` lists, or unset CUDA_VISIBLE_DEVICES".to_owned(),
        FindingKind::CopyWorldWritable { problem: Problem::WorldWritable { path }, .. } => {
            format!("chmod o-w {}", words::quoted_to_show(path.as_os_str()))
        }
        FindingKind::CopyWorldWritable { installation, .. }
        | FindingKind::CopyIncomplete { installation, .. }
        | FindingKind::CopyMixed { installation, .. }
        | FindingKind::CopyDamaged { installation, .. }
        | FindingKind::CopyNotAsInstalled { installation, .. }
        | FindingKind::TwoOfOneSoname { installation, .. } => again(installation),
        FindingKind::StubGiven { .. } => "take its directory out of /etc/ld.so.conf.d, then `sudo ldconfig`".to_owned(),
        FindingKind::PathMissing { .. }
        | FindingKind::PathEmpty { .. }
        | FindingKind::PathDuplicate
        | FindingKind::PreloadMissing
        | FindingKind::PreloadLibrary { .. } => edit(),
        FindingKind::PathRelative { .. } => "write it with its whole path".to_owned(),
        FindingKind::PathStubs | FindingKind::PathOtherDriver { .. } | FindingKind::VersionsMixed { .. } | FindingKind::CompletedElsewhere { .. } => {
            format!("{}, or start programs with cudarun", edit())
        }
        FindingKind::PassedOver { .. }
        | FindingKind::PathOwnView
        | FindingKind::AuditSet { is_ours: true }
        | FindingKind::OwnVariables { .. }
        | FindingKind::SetAtStart { .. }
        | FindingKind::SystemPreload
        | FindingKind::TunablesSet => return None,
        FindingKind::AuditSet { is_ours: false } => "unset LD_AUDIT, if nobody needs it".to_owned(),
        FindingKind::HookShadowed { .. } => "move the line with `cudarun hook` to the end of the file".to_owned(),
        FindingKind::CacheStale { .. } | FindingKind::CacheOfLoaderBad { .. } => "sudo ldconfig".to_owned(),
        FindingKind::SettingFault { fault } | FindingKind::LockFault { fault } => {
            return settings::fault_hint(fault).or_else(|| Some("mend what it names".to_owned()));
        }
        FindingKind::UnknownKey { .. } => "mend the key, or take it away: `cudarun init --print` shows those that there are".to_owned(),
        FindingKind::NotAllowed { file, .. } => {
            format!("read it, then `cudarun allow {}`", words::quoted_to_show(file.as_os_str()))
        }
        FindingKind::LockNeedsDriver { .. } => "update the driver, or `cudarun record PROGRAM …` on this machine".to_owned(),
        FindingKind::ImageConditionMalformed { .. } => "mend the variable in the image".to_owned(),
        FindingKind::NoCache | FindingKind::CacheRefused { .. } => {
            let mend = finding.evidence.iter().find_map(|evidence| match evidence {
                Evidence::Place { why, .. } => Some(mend_or(why)),
                _ => None,
            });
            format!("{}export XDG_CACHE_HOME=DIR, a directory of your own", mend.unwrap_or_default())
        }
        FindingKind::CacheFull { .. } => "make room, or export XDG_CACHE_HOME=DIR on another disk".to_owned(),
        FindingKind::CacheNoexec => "export XDG_CACHE_HOME=DIR on another disk, where that mode is needed".to_owned(),
    };
    Some(remedy)
}

fn has_absent(finding: &Finding, what: &str) -> bool {
    finding.evidence.iter().any(|it| matches!(it, Evidence::Absent { path } if path.as_os_str() == what))
}

/// Nobody should be in root's group.
fn is_of_root(finding: &Finding) -> bool {
    finding.evidence.iter().any(|it| matches!(it, Evidence::Mode { owner: Some((_, 0)), .. }))
}
