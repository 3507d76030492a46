//! The wording of single facts: names, needs, problems, sizes, lists.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt::Display;
use std::path::Path;

use serde::Serialize;

use super::Style;
pub(super) use super::shell::quoted_to_show;
use crate::catalog::{display_name, title};
use crate::inventory::{
    ForwardCompatibility, Gpu, Installation, KernelDriver, VersionEvidence, VersionSource, Warning,
};
use crate::predict::MissingLibrary;
use crate::program::Program;
use crate::requirements::{Asker, LibraryRequirement, Want, WantKind};
use crate::solve::{Absent, Plan, Removal};
use crate::text::{list, nearest, show, shown};
use crate::version::Version;

/// About a program for a GPU that opened none.
pub(super) const USED_THE_CPU: &str = "the program opened no GPU: it used the CPU";

/// The word for a value without fields, as JSON and the documents have it.
pub(super) fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|word| word.as_str().map(str::to_owned))
        .unwrap_or_default()
}

/// `libcudnn.so.9, 9.8 or newer`
pub(super) fn needs(requirements: &[LibraryRequirement]) -> String {
    wants(requirements.iter().map(|requirement| &requirement.want))
}

pub(super) fn wants<'w>(wants: impl IntoIterator<Item = &'w Want>) -> String {
    let (mut names, mut versions) = (BTreeSet::new(), BTreeSet::new());
    for want in wants {
        match want.kind() {
            WantKind::Name => names.insert(want.to_string()),
            WantKind::Version => versions.insert(want.to_string()),
            WantKind::Preference | WantKind::Symbols => false,
        };
    }
    // A family may have many names; the first few identify it.
    let more = (names.len() > 3).then(|| format!("{} more", names.len() - 3));
    let shown = names.into_iter().take(3).chain(more).chain(versions);
    joined(shown, ", ")
}

/// A directory; below the program's site-packages, relative to the directory above them.
pub(super) fn place(directory: &Path, program: Option<&Program>) -> String {
    let site = program.and_then(|program| program.site_packages.first());
    match site.and_then(|site| directory.strip_prefix(site).ok()) {
        Some(below) => format!("site-packages/{}", show(below)),
        None => show(directory),
    }
}

pub(super) fn version(version: Option<&Version>) -> String {
    version.map_or_else(|| "?".to_owned(), ToString::to_string)
}

/// `cuDNN 9.1.0`
pub(super) fn versioned(installation: &Installation) -> String {
    format!(
        "{} {}",
        display_name(&installation.family),
        version(installation.version.as_ref())
    )
}

pub(super) fn joined(items: impl IntoIterator<Item: Display>, separator: &str) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(separator)
}

/// A cell with all problems, if there are some.
pub(super) fn problems(problems: &[impl Display], style: Style) -> Option<String> {
    (!problems.is_empty()).then(|| style.warning(&joined(problems, "; ")))
}

/// `, supports CUDA up to 12.4`, if that is known.
pub(super) fn supported_cuda(driver: &KernelDriver) -> String {
    match driver.cuda {
        Some(cuda) => format!(", supports CUDA up to {cuda}"),
        None => String::new(),
    }
}

/// The names of those who ask, in alphabetical order.
pub(super) fn titles<'a>(askers: impl IntoIterator<Item = &'a Asker>) -> BTreeSet<String> {
    askers.into_iter().map(|asker| title(&asker.name)).collect()
}

/// `* cuDNN`; the mark is for the installation that the loader finds by default.
pub(super) fn marked(installation: &Installation) -> String {
    let mark = if installation.loader_gives { "*" } else { " " };
    format!("{mark} {}", display_name(&installation.family))
}

/// `torch` of `torch 2.5.1`
pub(super) fn bare_name(title: &str) -> &str {
    title.split(' ').next().unwrap_or_default()
}

/// `NVIDIA H100 (9.0)`
pub(super) fn gpu(gpu: &Gpu) -> String {
    let capability = gpu
        .capability
        .map(|capability| format!(" ({capability})"))
        .unwrap_or_default();
    format!("{}{capability}", show(&gpu.model))
}

/// `9.1.0.70  written in libcudnn_graph.so.9`
pub(super) fn version_evidence(evidence: &VersionEvidence) -> String {
    let how = match evidence.source {
        VersionSource::Contents => "written in",
        VersionSource::PackageRecord => "from its package",
        VersionSource::FileName => "from the file name",
        VersionSource::Header => "from the header",
    };
    format!("{}  {how} {}", evidence.version, show(&evidence.by))
}

/// The kernel drivers that a forward-compatibility libcuda supports.
pub(super) fn forward_compatibility(compat: &ForwardCompatibility) -> String {
    let cuda = compat
        .cuda
        .map(|cuda| format!("CUDA {cuda} "))
        .unwrap_or_default();
    format!("{cuda}on kernel drivers {}", list(&compat.kernel_branches))
}

/// The elements of search paths that the plan removes, each with the reason.
pub(super) fn removals(plan: &Plan) -> Vec<(String, String)> {
    let mut removals = Vec::new();
    for element in &plan.library_path {
        if let Some(why) = &element.removed
            && *why != Removal::OwnView
        {
            removals.push((element_text(&element.text), why.to_string()));
        }
    }
    for element in &plan.preload {
        if let Some(family) = &element.removed {
            let why = format!("in LD_PRELOAD, but not the picked {}", display_name(family));
            removals.push((show(&element.text), why));
        }
    }
    removals
}

/// An element of a search path.
pub(super) fn element_text(text: &OsStr) -> String {
    if text.is_empty() {
        "(empty)".to_owned()
    } else {
        show(text)
    }
}

/// The names that are not installed, a line for those that the same requesters may load. `missing` has the names that the
/// program's libraries are linked against and that the loader does not find: what needs one of these cannot be imported.
pub(super) fn absent(absent: &[Absent], missing: &[MissingLibrary]) -> Vec<String> {
    let of_askers = absent.iter().map(|absent| {
        let askers: Vec<&String> = absent.asked_by.iter().map(|asker| &asker.name).collect();
        let is_linked =
            absent.is_linked() || absent.names.iter().any(|name| is_missing(name, missing));
        let is_needed = absent.is_certain() && is_linked;
        ((askers, is_needed, absent.essential), &absent.names)
    });
    let mut lines = Vec::new();
    for ((askers, is_needed, essential), names) in grouped(of_askers) {
        let names: Vec<&String> = names.into_iter().flatten().collect();
        let (verb, it) = if names.len() > 1 {
            ("are", "them")
        } else {
            ("is", "it")
        };
        let names = shown(names);
        let askers = list(askers.into_iter().map(|asker| title(asker)));
        let consequence = match (is_needed, essential) {
            (true, _) => format!("{askers} cannot be loaded without {it}"),
            (false, true) => format!("{askers} may load {it}; without {it} the GPU is not used"),
            (false, false) => format!("{askers} may load {it}"),
        };
        lines.push(format!("{names} {verb} not installed: {consequence}"));
    }
    lines
}

pub(super) fn is_missing(name: &str, missing: &[MissingLibrary]) -> bool {
    missing.iter().any(|miss| miss.name == name)
}

/// The files that the scan skipped.
pub fn warnings(warnings: &[Warning], style: Style) -> String {
    let label = style.warning("warning:");
    let mut text = String::new();
    for Warning { path, fault } in warnings {
        text.push_str(&format!("{label} {}: {fault}\n", show(path)));
    }
    text
}

/// The values by their keys, in the order of the first of each.
pub(super) fn grouped<K: PartialEq, V>(
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Rows in columns below a title; nothing if there are none.
pub(super) fn table(title: &str, rows: &[Vec<String>], style: Style) -> String {
    if rows.is_empty() {
        return String::new();
    }
    format!("{}\n{}", style.strong(title), style.columns("  ", rows))
}

/// `1 view`, `2 views`
pub(super) fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}

/// `/etc/profile.d/cuda.sh:3`
pub(super) fn at(path: &Path, line: Option<usize>) -> String {
    line.map_or_else(|| show(path), |line| format!("{}:{line}", show(path)))
}

/// The nearest name, or all of them.
pub(super) fn one_of(typed: &str, what: &str, names: &[&str]) -> String {
    match nearest(&typed.to_lowercase(), names.iter().copied()) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("the {what} are {}", names.join(", ")),
    }
}
