//! The inventory as a table that is read at a glance.

use std::collections::{BTreeMap, BTreeSet};

use super::Style;
use super::style::columns;
use super::words;
use crate::inventory::{Copy, Inventory};
use crate::text::show;

/// One line a copy: family, version, CUDA, origin, path, problems.
pub fn listed(inventory: &Inventory, families: &[String], verbosity: u8, style: Style) -> String {
    let mut text = String::new();
    let wanted = |family: &str| families.is_empty() || families.iter().any(|name| name == family);
    if wanted("driver") {
        text.push_str(&machine(inventory, style));
    }
    let mut rows = Vec::new();
    for copy in inventory.copies.iter().filter(|copy| wanted(&copy.family)) {
        rows.push(row(copy, style));
        if verbosity > 0 {
            rows.extend(files(copy, style));
        }
    }
    if !rows.is_empty() {
        let titles = ["FAMILY", "VERSION", "CUDA", "ORIGIN", "DIRECTORY"];
        rows.insert(0, titles.iter().map(|title| style.strong(title)).collect());
        text.push_str(&columns("", &rows));
    } else if families.is_empty() {
        text.push_str("no NVIDIA library is installed here\n");
    } else {
        text.push_str(&format!(
            "no copy of {} is installed here\n",
            words::list(&families.iter().map(show).collect::<Vec<_>>())
        ));
    }
    if verbosity > 0 {
        text.push_str(&super::warnings(&inventory.warnings, style));
    }
    text
}

fn machine(inventory: &Inventory, style: Style) -> String {
    let mut rows = Vec::new();
    if let Some(driver) = &inventory.driver {
        let cuda = driver.cuda.map(|cuda| format!("up to CUDA {cuda} in full")).unwrap_or_default();
        rows.push(vec![style.strong("kernel driver"), driver.version.to_string(), cuda]);
    }
    for gpu in &inventory.gpus {
        let capability =
            gpu.capability.map(|capability| format!("compute capability {capability}")).unwrap_or_default();
        rows.push(vec![style.strong("gpu"), show(&gpu.model), capability]);
    }
    if rows.is_empty() { String::new() } else { format!("{}\n", columns("", &rows)) }
}

fn row(copy: &Copy, style: Style) -> Vec<String> {
    let mut row = vec![
        words::family(&copy.family).to_owned(),
        words::version(copy.version.as_ref()),
        copy.cuda.map_or_else(String::new, |cuda| cuda.to_string()),
        copy.origin.word().to_owned(),
        show(&copy.directory),
    ];
    let problems: Vec<String> = copy.problems.iter().map(words::problem).collect();
    if !problems.is_empty() {
        row.push(style.warning(&problems.join("; ")));
    }
    row
}

fn files(copy: &Copy, style: Style) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut say = |what: &str, text: String| {
        rows.push(vec![String::new(), style.dim(what), String::new(), String::new(), style.dim(&text)]);
    };
    if let Some(package) = &copy.package {
        say("package", show(package));
    }
    for directory in &copy.also {
        say("also in", show(directory));
    }
    for member in &copy.files {
        say("file", show(&member.path));
        let made_for: BTreeSet<_> = member.code.values().flat_map(BTreeMap::keys).collect();
        if !made_for.is_empty() {
            let names: Vec<String> = made_for.iter().map(ToString::to_string).collect();
            say("code", names.join(" "));
        }
    }
    rows
}
