//! The inventory as a table.

use super::Style;
use super::words;
use crate::catalog::wheels;
use crate::inventory::{Code, Installation, Inventory, Member, Origin};
use crate::text::{list, show, size};

/// Skipped files beyond this number are only counted.
const FEW: usize = 10;

/// The verdict, a line for each installation, and the next command to type.
pub fn listed(
    inventory: &Inventory,
    families: &[String],
    all: bool,
    verbosity: u8,
    style: Style,
) -> String {
    let mut listed = Vec::new();
    let mut left_out = Vec::new();
    for installation in &inventory.installations {
        if !families.is_empty() && !families.contains(&installation.family) {
            continue;
        }
        if all || verbosity > 0 || !installation.is_out_of_reach() {
            listed.push(installation);
        } else {
            left_out.push(installation);
        }
    }
    let mut table = String::new();
    if families.is_empty() || families.iter().any(|family| family == "driver") {
        table.push_str(&machine(inventory, style));
    }
    table.push_str(&self::table(&listed, all, verbosity, style));
    if listed.is_empty() && left_out.is_empty() {
        table.push_str(&if families.is_empty() {
            "no NVIDIA library is installed\n".to_owned()
        } else {
            format!("{} is not installed\n", list(families.iter().map(show)))
        });
    }
    table.push_str(&footnotes(&listed, left_out.len(), style));
    table.push_str(&passed_over(inventory, verbosity, style));
    let table = table.trim_start_matches('\n');
    if listed.is_empty() {
        let next = style.next(&fetch_or_doctor(families, style));
        return format!("{table}{next}");
    }
    let problems: usize = listed.iter().map(|one| one.problems.len()).sum();
    let next = style.next(if problems == 0 {
        "cudarun explain PROGRAM"
    } else {
        "cudarun doctor"
    });
    let count = words::counted(listed.len(), "installation");
    let verdict = match problems {
        0 => match mixed_by_path(inventory, &listed) {
            Some((first, other)) => style.warning(&format!(
                "{count}; LD_LIBRARY_PATH may mix {} into {}",
                words::versioned(first),
                words::versioned(other)
            )),
            None => style.good(&format!("{count}, no problem")),
        },
        problems => style.warning(&format!("{count}, {}", words::counted(problems, "problem"))),
    };
    format!("{verdict}\n\n{table}{next}")
}

/// The command to type where nothing of these families is installed.
fn fetch_or_doctor(families: &[String], style: Style) -> String {
    let mut offered = families.to_vec();
    offered.retain(|family| wheels().iter().any(|wheel| wheel.family == *family));
    if offered.is_empty() {
        return "cudarun doctor".to_owned();
    }
    let verb = if style.is_elsewhere() {
        "fetch --dry-run"
    } else {
        "fetch"
    };
    format!("cudarun {verb} {}", offered.join(" "))
}

/// An installation in `LD_LIBRARY_PATH`, and another one that it mixes into.
fn mixed_by_path<'i>(
    inventory: &Inventory,
    listed: &[&'i Installation],
) -> Option<(&'i Installation, &'i Installation)> {
    let elements = inventory.search.library_path.len();
    for first in listed {
        if first.position.is_some_and(|position| position < elements) {
            let mut others = listed.iter();
            if let Some(other) = others.find(|other| first.mixes_into(other)) {
                return Some((*first, *other));
            }
        }
    }
    None
}

/// One line for each installation: family, version, CUDA, origin, directory, problems. A mark shows the ones that the
/// loader finds by default.
fn table(installations: &[&Installation], all: bool, verbosity: u8, style: Style) -> String {
    let mut rows = Vec::new();
    for installation in installations {
        rows.push(row(installation, style));
        if verbosity > 0 {
            rows.extend(details(installation, style));
        }
        if all {
            for member in &installation.files {
                rows.extend(file(member, verbosity, style));
            }
        }
    }
    if !rows.is_empty() {
        let titles = ["  FAMILY", "VERSION", "CUDA", "ORIGIN", "DIRECTORY"];
        rows.insert(0, titles.map(|title| style.strong(title)).to_vec());
    }
    style.columns("", &rows)
}

/// The mark of the table, and the stubs that it leaves out.
fn footnotes(installations: &[&Installation], stubs: usize, style: Style) -> String {
    let mut text = String::new();
    if installations.iter().any(|one| one.loader_gives) {
        let mark = "* the loader finds this one for a program without a search path of its own\n";
        text.push_str(&format!("\n{}", style.dim(mark)));
    }
    if stubs > 0 {
        let line = format!(
            "{} for linking, on no search path: `cudarun list --all` shows them\n",
            words::counted(stubs, "stub")
        );
        text.push_str(&format!("\n{}", style.dim(&line)));
    }
    text
}

fn machine(inventory: &Inventory, style: Style) -> String {
    let mut rows = Vec::new();
    if let Some(driver) = &inventory.driver {
        let cuda = driver
            .cuda
            .map(|cuda| format!("supports CUDA up to {cuda}"))
            .unwrap_or_default();
        rows.push(vec![
            style.strong("kernel driver"),
            driver.version.to_string(),
            cuda,
        ]);
    }
    for gpu in &inventory.gpus {
        let capability = gpu
            .capability
            .map(|one| format!("compute capability {one}"));
        rows.push(vec![
            style.strong("gpu"),
            show(&gpu.model),
            capability.unwrap_or_default(),
        ]);
    }
    if rows.is_empty() {
        String::new()
    } else {
        format!("{}\n", style.columns("", &rows))
    }
}

fn row(installation: &Installation, style: Style) -> Vec<String> {
    let mut row = vec![
        words::marked(installation),
        words::version(installation.version.as_ref()),
        installation
            .cuda
            .map(|cuda| cuda.to_string())
            .unwrap_or_default(),
        installation.origin.word().to_owned(),
        show(&installation.directory),
    ];
    row.extend(words::problems(&installation.problems, style));
    row
}

/// The details of an installation: its package, the evidence for its version, the GPUs that all of it has code for.
fn details(installation: &Installation, style: Style) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    if let Some(package) = &installation.package {
        rows.push(detail("package", &show(package), style));
    }
    for evidence in &installation.evidence {
        let text = words::version_evidence(evidence);
        rows.push(detail("evidence", &text, style));
    }
    for directory in &installation.also {
        rows.push(detail("also in", &show(directory), style));
    }
    // The host's own driver has that note too, but it is not a forward-compatibility libcuda.
    if let Some(compat) = &installation.forward_compatibility
        && installation.origin == Origin::Compat
    {
        let text = words::forward_compatibility(compat);
        rows.push(detail("compat", &text, style));
    }
    for (code, what) in [
        (Code::Sass, "machine code"),
        (Code::Ptx, "PTX, compiled at the first start"),
    ] {
        let mut gpus = Vec::new();
        for (gpu, best) in &installation.serves {
            if *best == code {
                gpus.push(gpu.to_string());
            }
        }
        if !gpus.is_empty() {
            let text = format!("{}  {what}", gpus.join(" "));
            rows.push(detail("gpus", &text, style));
        }
    }
    rows
}

fn file(member: &Member, verbosity: u8, style: Style) -> Vec<Vec<String>> {
    let mut rows = vec![detail(
        "file",
        &format!("{}  {}", show(&member.path), size(member.size)),
        style,
    )];
    if verbosity > 0 {
        if let Some(id) = &member.build_id {
            rows.push(detail("", &format!("build-id {id}"), style));
        }
        let code: Vec<String> = member.made_for().iter().map(ToString::to_string).collect();
        if !code.is_empty() {
            let text = format!("gpu code {}", code.join(" "));
            rows.push(detail("", &text, style));
        }
    }
    rows
}

/// A row below an installation's row, in the columns of the family and the directory.
fn detail(what: &str, text: &str, style: Style) -> Vec<String> {
    let mut row = vec![String::new(); 5];
    row[0] = style.dim(&format!("    {what}"));
    row[4] = style.dim(text);
    row
}

/// The skipped files.
fn passed_over(inventory: &Inventory, verbosity: u8, style: Style) -> String {
    let warnings = &inventory.warnings;
    let shown = if verbosity > 0 {
        warnings.len()
    } else {
        warnings.len().min(FEW)
    };
    if shown == 0 {
        return String::new();
    }
    let more = match warnings.len() - shown {
        0 => String::new(),
        more => format!("and {more} more: `cudarun list -v` shows them\n"),
    };
    format!("\n{}{more}", super::warnings(&warnings[..shown], style))
}
