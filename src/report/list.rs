//! The inventory as a table.

use super::Style;
use super::words;
use crate::catalog::{catalog, display_name, wheels};
use crate::inventory::{Code, Installation, Inventory, Member, Origin, Problem};
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
    let is_listed = |one: &&Installation| {
        let is_wanted = families.is_empty() || families.contains(&one.family);
        is_wanted && (all || verbosity > 0 || !is_out_of_reach(one))
    };
    let listed: Vec<&Installation> = inventory.installations.iter().filter(is_listed).collect();
    let problems: usize = listed.iter().map(|one| one.problems.len()).sum();
    let offered: Vec<&str> = families
        .iter()
        .map(String::as_str)
        .filter(|family| wheels().iter().any(|wheel| wheel.family == *family))
        .collect();
    let next = match (listed.is_empty(), problems) {
        (true, _) if !offered.is_empty() => {
            let dry_run = if style.is_elsewhere() {
                "--dry-run "
            } else {
                ""
            };
            format!("cudarun fetch {dry_run}{}", offered.join(" "))
        }
        (false, 0) => "cudarun explain PROGRAM".to_owned(),
        _ => "cudarun doctor".to_owned(),
    };
    let next = style.next(&next);
    let table = table(inventory, families, all, verbosity, style);
    if listed.is_empty() {
        return table + &next;
    }
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

/// Returns an installation in `LD_LIBRARY_PATH` and another one of which the shim does not work over it: a program that finds that
/// shim by a search path of its own gets the parts of the first.
fn mixed_by_path<'i>(
    inventory: &Inventory,
    listed: &[&'i Installation],
) -> Option<(&'i Installation, &'i Installation)> {
    let elements = inventory.search.library_path.len();
    let is_first = |one: &&&Installation| one.position.is_some_and(|position| position < elements);
    listed.iter().filter(is_first).find_map(|first| {
        let family = catalog().family(&first.family)?;
        let is_mixed = |other: &&&Installation| {
            other.family == first.family
                && other.soname == first.soname
                && other.version != first.version
                && other.origin != Origin::Stub
                && !first.works_under_shim_of(other)
        };
        let mut others = listed.iter().filter(is_mixed);
        let other = others.find(|_| family.opens_members_of_any_version())?;
        Some((*first, *other))
    })
}

/// One line for each installation: family, version, CUDA, origin, directory, problems. A mark shows the ones that the
/// loader finds by default.
fn table(
    inventory: &Inventory,
    families: &[String],
    all: bool,
    verbosity: u8,
    style: Style,
) -> String {
    let mut text = String::new();
    let wanted = |family: &str| families.is_empty() || families.iter().any(|name| name == family);
    if wanted("driver") {
        text.push_str(&machine(inventory, style));
    }
    let installations = inventory
        .installations
        .iter()
        .filter(|installation| wanted(&installation.family));
    let (installations, left_out): (Vec<&Installation>, Vec<&Installation>) = installations
        .partition(|installation| all || verbosity > 0 || !is_out_of_reach(installation));
    let mut rows = Vec::new();
    for installation in &installations {
        rows.push(row(installation, style));
        if verbosity > 0 {
            rows.extend(details(installation, style));
        }
        if all {
            rows.extend(
                installation
                    .files
                    .iter()
                    .flat_map(|member| file(member, verbosity, style)),
            );
        }
    }
    if !rows.is_empty() {
        let titles = ["  FAMILY", "VERSION", "CUDA", "ORIGIN", "DIRECTORY"];
        rows.insert(0, titles.iter().map(|title| style.strong(title)).collect());
        text.push_str(&style.columns("", &rows));
    } else if !left_out.is_empty() {
        // The line below counts them.
    } else if families.is_empty() {
        text.push_str("no NVIDIA library is installed\n");
    } else {
        text.push_str(&format!(
            "{} is not installed\n",
            list(families.iter().map(show).collect::<Vec<_>>())
        ));
    }
    if installations
        .iter()
        .any(|installation| installation.loader_gives)
    {
        let mark = "* the loader finds this one for a program without a search path of its own\n";
        text.push_str(&format!("\n{}", style.dim(mark)));
    }
    if !left_out.is_empty() {
        let count = left_out.len();
        let stubs = words::counted(count, "stub");
        let line =
            format!("{stubs} for linking, on no search path: `cudarun list --all` shows them\n");
        text.push_str(&format!("\n{}", style.dim(&line)));
    }
    text.push_str(&passed_over(inventory, verbosity, style));
    text.trim_start_matches('\n').to_owned()
}

/// Every toolkit has stubs for linking; they matter only on a search path.
fn is_out_of_reach(installation: &Installation) -> bool {
    installation.origin == Origin::Stub
        && installation
            .problems
            .iter()
            .all(|problem| matches!(problem, Problem::Missing { .. }))
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
    rows.extend(gpus(inventory, style));
    if rows.is_empty() {
        String::new()
    } else {
        format!("{}\n", style.columns("", &rows))
    }
}

/// A row for each GPU.
pub(super) fn gpus(inventory: &Inventory, style: Style) -> impl Iterator<Item = Vec<String>> {
    inventory.gpus.iter().map(move |gpu| {
        let capability = gpu
            .capability
            .map(|capability| format!("compute capability {capability}"));
        vec![
            style.strong("gpu"),
            show(&gpu.model),
            capability.unwrap_or_default(),
        ]
    })
}

fn row(installation: &Installation, style: Style) -> Vec<String> {
    let mut row = vec![
        format!(
            "{} {}",
            if installation.loader_gives { "*" } else { " " },
            display_name(&installation.family)
        ),
        words::version(installation.version.as_ref()),
        installation
            .cuda
            .map_or_else(String::new, |cuda| cuda.to_string()),
        installation.origin.word().to_owned(),
        show(&installation.directory),
    ];
    let problems: Vec<String> = installation
        .problems
        .iter()
        .map(ToString::to_string)
        .collect();
    if !problems.is_empty() {
        row.push(style.warning(&problems.join("; ")));
    }
    row
}

/// The details of an installation: its package, the evidence for its version, the GPUs that all of it has code for.
fn details(installation: &Installation, style: Style) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut say = |what: &str, text: &str| rows.push(detail(what, text, style));
    if let Some(package) = &installation.package {
        say("package", &show(package));
    }
    for said in &installation.evidence {
        say("evidence", &words::version_evidence(said));
    }
    for directory in &installation.also {
        say("also in", &show(directory));
    }
    // The host's own driver has that note too, but it is not a forward-compatibility libcuda.
    let compat = installation
        .forward_compatibility
        .as_ref()
        .filter(|_| installation.origin == Origin::Compat);
    if let Some(compat) = compat {
        say("compat", &words::forward_compatibility(compat));
    }
    for (code, what) in [
        (Code::Sass, "machine code"),
        (Code::Ptx, "PTX, compiled at the first start"),
    ] {
        let gpus = installation
            .serves
            .iter()
            .filter(|(_, found)| **found == code)
            .map(|(gpu, _)| gpu.to_string());
        let gpus: Vec<String> = gpus.collect();
        if !gpus.is_empty() {
            say("gpus", &format!("{}  {what}", gpus.join(" ")));
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
        let id = member.build_id.as_ref().map(|id| format!("build-id {id}"));
        let code: Vec<String> = member.made_for().iter().map(ToString::to_string).collect();
        let code = (!code.is_empty()).then(|| format!("gpu code {}", code.join(" ")));
        rows.extend(
            [id, code]
                .into_iter()
                .flatten()
                .map(|text| detail("", &text, style)),
        );
    }
    rows
}

/// A row below an installation's row, in the columns of the family and the directory.
fn detail(what: &str, text: &str, style: Style) -> Vec<String> {
    let empty = String::new;
    vec![
        style.dim(&format!("    {what}")),
        empty(),
        empty(),
        empty(),
        style.dim(text),
    ]
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
