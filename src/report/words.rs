//! The wording of single facts: reasons, needs, problems, notes, errors.

use super::Style;
pub use super::notes::note;
pub(super) use super::reasons::{decided_by, named, reason};
pub(super) use super::shell::{quoted, quoted_to_show};
use crate::catalog::catalog;
use crate::inventory::{
    Finder, ForwardCompatibility, Open, Problem, ReadFault, VersionEvidence, VersionSource, Warning, Who,
};
use crate::program::{Asker, Program, Requirement, Want};
use crate::solve::{Absent, Plan, Removal, Unpinned};
use crate::text::{escape, show};
use std::path::Path;

/// The name that NVIDIA gives a family; of anything else, the name itself.
pub fn family(name: &str) -> &str {
    catalog().family(name).map_or(name, |family| &family.display)
}

/// `libcudnn.so.9, 9.8 or newer`
pub(super) fn needs(requirements: &[Requirement]) -> String {
    wants(requirements.iter().map(|requirement| &requirement.want))
}

pub(super) fn wants<'w>(wants: impl IntoIterator<Item = &'w Want>) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut versions: Vec<String> = Vec::new();
    for want in wants {
        match want {
            Want::Name(name) => names.push(show(name)),
            Want::AtLeast(version) => versions.push(format!("{} or newer", version.truncated(2))),
            Want::Exactly(version) => versions.push(format!("exactly {version}")),
            Want::Rest(version) => versions.push(format!("sublibraries of any {}.x", version.major())),
            Want::Pinned(pin) => versions.push(named(pin)),
            Want::Within(range) => versions.push(range.to_string()),
            Want::BuildIds(_) => versions.push("the very files of the lock".to_owned()),
            Want::Recorded(_) | Want::Preferred(_) | Want::Symbols(_) => {}
        }
    }
    for list in [&mut names, &mut versions] {
        list.sort();
        list.dedup();
    }
    // Where a family has many names, the first few say which it is.
    let more = names.len().saturating_sub(3);
    names.truncate(3);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.into_iter().chain(versions).collect::<Vec<_>>().join(", ")
}

/// Where needs are written: `torch/lib/libtorch_cuda.so`, `train.py:3`.
pub(super) fn written_in(asker: &Asker) -> String {
    let components: Vec<_> = asker.file.components().rev().take(2).collect();
    let short: std::path::PathBuf = components.into_iter().rev().collect();
    let short = if asker.file.as_os_str().len() > 40 { show(&short) } else { show(&asker.file) };
    match asker.line {
        Some(line) => format!("{short}:{line}"),
        None => short,
    }
}

/// Who asks, and where that is written; an option or a file of a person's is its own place.
pub(super) fn by_and_place(asker: &Asker) -> String {
    let (by, place) = (title(&asker.name), written_in(asker));
    if place.ends_with(&by) { place } else { format!("{by}: {place}") }
}

/// A directory; in the program's site-packages, from there on.
pub(super) fn place(directory: &Path, program: Option<&Program>) -> String {
    let site = program.and_then(|program| program.site_packages.first());
    match site.and_then(|site| directory.strip_prefix(site).ok()) {
        Some(below) => format!("site-packages/{}", show(below)),
        None => show(directory),
    }
}

pub(super) fn version(version: Option<&crate::version::Version>) -> String {
    version.map_or_else(|| "?".to_owned(), ToString::to_string)
}

pub(super) fn problem(problem: &Problem) -> String {
    match problem {
        Problem::Missing { stems } => format!("incomplete: {} missing", shown(stems)),
        Problem::OtherVersionAmongTheRest { file, version } => {
            format!("mixed: {} is {version}", escape(file.as_bytes()))
        }
        Problem::PackageSaysOtherwise { package, version } => {
            format!("its package {} says {version}", show(package))
        }
        Problem::SizeIsNotRecorded { file, recorded } => {
            format!(
                "{} is not the file that its package installed ({recorded} bytes)",
                escape(file.as_bytes())
            )
        }
        Problem::Truncated { file } => format!("damaged: {} is cut short", escape(file.as_bytes())),
        Problem::WorldWritable { path } => format!("everybody can write to {}", show(path)),
        Problem::NameSaysOtherwise { file, version } => {
            format!("is not the {version} that its name {} says", show(file))
        }
        Problem::SecondOfOneSoname { soname, file } => {
            format!("{} is a second file with the SONAME {}", show(file), show(soname))
        }
        Problem::StubOnSearchPath { by } => format!("a stub, which fails at run time, is {}", finder(*by)),
        Problem::CompatOlderThanKernel { kernel } => format!("older than the kernel's driver {kernel}"),
        Problem::NotTheKernelsDriver { kernel } => format!("the kernel runs driver {kernel}"),
    }
}

/// Other users who can change it, or add to it.
pub(super) fn open(open: &Open) -> String {
    let path = show(&open.path);
    match open.who {
        Who::Everybody => format!("everybody can write to {path}"),
        Who::EverybodyAdds => format!("everybody can add files to {path}"),
        Who::User { uid } => format!("{path} belongs to another user (uid {uid})"),
        Who::Group { gid } => format!("the members of a group can write to {path} (gid {gid})"),
        Who::CurrentDirectory => {
            format!("LD_LIBRARY_PATH leads to {path} only from the current directory")
        }
    }
}

/// `9.1.0.70  in libcudnn_graph.so.9`
pub(super) fn said(said: &VersionEvidence) -> String {
    let by = show(&said.by);
    match said.source {
        VersionSource::Contents => format!("{}  written in {by}", said.version),
        VersionSource::PackageRecord => format!("{}  by its package {by}", said.version),
        VersionSource::FileName => format!("{}  by the name {by}", said.version),
        VersionSource::Header => format!("{}  by the header {by} beside it", said.version),
    }
}

/// For which kernel drivers a libcuda is made that stands in for a newer one.
pub(super) fn forward_compatibility(compat: &ForwardCompatibility) -> String {
    let branches: Vec<String> = compat.kernel_branches.iter().map(u32::to_string).collect();
    let cuda = compat.cuda.map(|cuda| format!("CUDA {cuda} ")).unwrap_or_default();
    format!("{cuda}on kernel drivers {}", list(&branches))
}

/// `571.0 MB`
pub(super) fn size(bytes: u64) -> String {
    let (tenths, unit) = match bytes {
        0..1_000_000 => (bytes / 100, "kB"),
        1_000_000..1_000_000_000 => (bytes / 100_000, "MB"),
        _ => (bytes / 100_000_000, "GB"),
    };
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

fn finder(by: Finder) -> &'static str {
    match by {
        Finder::LibraryPath => "in LD_LIBRARY_PATH",
        Finder::Cache => "in /etc/ld.so.cache",
        Finder::DefaultDirectory => "in a default directory of the loader",
    }
}

/// What is wrong with a file that was passed over.
pub(super) fn fault(fault: &ReadFault) -> String {
    match fault {
        ReadFault::DanglingLink => "a link that leads nowhere".to_owned(),
        ReadFault::NotElf => "not an ELF file".to_owned(),
        ReadFault::WrongClass => "not a 64-bit little-endian ELF file".to_owned(),
        ReadFault::WrongMachine { machine } => match machine {
            3 | 62 => "made for x86 machines".to_owned(),
            40 | 183 => "made for ARM machines".to_owned(),
            other => format!("made for another kind of machine ({other})"),
        },
        ReadFault::Malformed { what } => format!("malformed ELF file ({})", show(what)),
        ReadFault::NoDirectory => "no such directory".to_owned(),
        ReadFault::NotRegular => "not a regular file".to_owned(),
        ReadFault::Unreadable { error } => format!("cannot be read: {}", show(error)),
        ReadFault::BadRecord { what } => show(what),
    }
}

pub(super) fn removal(removal: &Removal) -> String {
    match removal {
        Removal::Empty => "an empty element means the current directory".to_owned(),
        Removal::OwnView => "the view of an earlier cudarun".to_owned(),
        Removal::Stubs => "holds stubs, which fail at run time".to_owned(),
        Removal::OtherDriver { version: Some(version), kernel } => {
            format!("its libcuda is {version}, and the kernel runs driver {kernel}")
        }
        Removal::OtherDriver { version: None, kernel } => {
            format!("its libcuda does not belong to the kernel's driver {kernel}")
        }
    }
}

/// What the plan leaves out of the environment, each with its reason.
pub(super) fn removals(plan: &Plan) -> Vec<(String, String)> {
    let path = plan.library_path.iter().filter_map(|element| {
        let why = element.removed.as_ref()?;
        let text = if element.text.is_empty() { "(empty)".to_owned() } else { show(&element.text) };
        (*why != Removal::OwnView).then(|| (text, removal(why)))
    });
    let preload = plan.preload.iter().filter_map(|element| {
        let name = element.removed.as_ref()?;
        Some((show(&element.text), format!("in LD_PRELOAD, and not the {} that was picked", family(name))))
    });
    path.chain(preload).collect()
}

pub(super) fn absent(absent: &Absent) -> String {
    let askers: Vec<String> = absent.asked_by.iter().map(|asker| title(&asker.name)).collect();
    let consequence = if absent.essential { "; without it the GPU is not used" } else { "" };
    format!(
        "no {} here: {} may ask for {}{consequence}",
        family(&absent.family),
        list(&askers),
        shown(&absent.names)
    )
}

/// `cuFFT is not pinned: nothing here fits (libcufft.so.11): is for CUDA 13, and torch is for CUDA 12`
pub(super) fn unpinned(unpinned: &Unpinned) -> String {
    let names = shown(&unpinned.names);
    let why = reason(&unpinned.why);
    format!(
        "{} is not pinned: nothing here fits ({names}); what comes nearest {why}",
        family(&unpinned.family)
    )
}

/// `cudnn 9.1.0` with the family's proper name.
pub(super) fn title(name: &str) -> String {
    match name.split_once(' ') {
        Some((first, rest)) => show(&format!("{} {rest}", family(first))),
        None => show(family(name)),
    }
}

/// What was passed over while looking.
pub fn warnings(warnings: &[Warning], style: Style) -> String {
    let line = |warning: &Warning| {
        format!("{} {}: {}\n", style.warning("warning:"), show(&warning.path), fault(&warning.fault))
    };
    warnings.iter().map(line).collect()
}

/// The same as `list`, for words that come from disk.
pub(super) fn shown(items: &[String]) -> String {
    list(&items.iter().map(show).collect::<Vec<_>>())
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_read_like_english() {
        let list_of = |items: &[&str]| list(&items.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(list_of(&["a"]), "a");
        assert_eq!(list_of(&["a", "b"]), "a and b");
        assert_eq!(list_of(&["a", "b", "c"]), "a, b and c");
    }
}
