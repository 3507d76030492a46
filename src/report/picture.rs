//! A picture of the libraries that a program gets without cudarun and with it, and of the directories that they come from, as
//! SVG. It says in words, too, what it shows.

use std::path::Path;

use super::explain::Explanation;
use super::page::escape;
use super::pin::given_fault;
use super::words;
use crate::catalog::display_name;
use crate::inventory::Inventory;
use crate::predict::Prediction;
use crate::predict::supply::{SupplyFault, directory_of, given};
use crate::program::Program;
use crate::running::{RunningProcess, RunningProcesses};
use crate::text::{list, show};

/// In the units of the picture, which is scaled to the page.
const WIDTH: usize = 640;
const ROW: usize = 38;
const BOX: usize = 28;
const LEFT: usize = 235;
const RIGHT: usize = 310;
/// Characters that fit into a box of each column.
const FIT_LEFT: usize = 27;
const FIT_RIGHT: usize = 40;

/// A library that comes before the one that fits.
const SHADOWS: &str = "not the one that fits";

/// The pictures of the libraries without cudarun and with it, each below its title.
pub fn pictures(explanation: &Explanation<'_>) -> String {
    let Explanation {
        program,
        inventory,
        decision,
        before,
        ..
    } = explanation;
    let mut without = Picture::of(before, inventory, program);
    let mut with_cudarun = String::new();
    if let Some(pinned) = &decision.pinned {
        let with = Picture::of(&pinned.after, inventory, program);
        without.mark_others(&with);
        with_cudarun = with.svg("With cudarun");
    }
    without.svg("Without cudarun") + &with_cudarun
}

/// More pictures than this are a wall.
const PROCESSES: usize = 20;

/// A picture of the libraries of each running process. Those with equal libraries have one.
pub fn running_pictures(running: &RunningProcesses) -> String {
    let mut pictures: Vec<(Picture, Vec<u32>)> = Vec::new();
    for process in &running.processes {
        let picture = Picture::of_process(process);
        match pictures.iter_mut().find(|(known, _)| *known == picture) {
            Some((_, pids)) => pids.push(process.pid),
            None => pictures.push((picture, vec![process.pid])),
        }
    }
    let svgs = pictures.iter().take(PROCESSES).map(|(picture, pids)| {
        let shown = words::joined(pids.iter().take(3), ", ");
        let more = pids.len().saturating_sub(3);
        let title = match (pids.len(), more) {
            (1, _) => format!("Process {shown}"),
            (_, 0) => format!("Processes {shown}"),
            (_, more) => format!("Processes {shown} and {more} more"),
        };
        picture.svg(&title)
    });
    svgs.collect()
}

/// The libraries of each family, and where they come from.
#[derive(PartialEq)]
struct Picture(Vec<FamilyBox>);

#[derive(PartialEq)]
struct FamilyBox {
    name: String,
    versions: Vec<String>,
    places: Vec<String>,
    fault: Option<&'static str>,
}

impl Picture {
    /// Shows the files that a program maps, as they were predicted.
    fn of(prediction: &Prediction, inventory: &Inventory, program: &Program) -> Picture {
        let mut families = Vec::new();
        for (family, supply) in given(prediction, inventory) {
            let mut one = FamilyBox {
                name: display_name(family).to_owned(),
                versions: Vec::new(),
                places: Vec::new(),
                fault: supply.fault(inventory).map(given_fault),
            };
            for (installation, files) in &supply.installations {
                let version = installation.and_then(|one| one.version);
                one.versions
                    .extend(version.map(|version| version.to_string()));
                let directory = directory_of(*installation, files);
                one.places.push(words::place(directory, Some(program)));
            }
            one.versions.dedup();
            families.push(one);
        }
        Picture(families)
    }

    /// Shows the files that a process has mapped.
    fn of_process(process: &RunningProcess) -> Picture {
        let libraries = process.libraries.iter();
        let of_families = libraries.filter_map(|one| Some((one.family.as_deref()?, one)));
        let mut families = Vec::new();
        for (family, libraries) in words::grouped(of_families) {
            let is_mixed = process.mixed.iter().any(|mixed| mixed.family == family);
            let mut one = FamilyBox {
                name: display_name(family).to_owned(),
                versions: Vec::new(),
                places: Vec::new(),
                fault: is_mixed.then(|| given_fault(SupplyFault::Mixed)),
            };
            for library in libraries {
                let version = library.version.map(|version| version.to_string());
                let is_new = |version: &String| !one.versions.contains(version);
                one.versions.extend(version.filter(is_new));
                let place = show(library.path.parent().unwrap_or(Path::new("/")));
                if !one.places.contains(&place) {
                    one.places.push(place);
                }
            }
            families.push(one);
        }
        Picture(families)
    }

    /// Marks the libraries that come from elsewhere in another picture.
    fn mark_others(&mut self, other: &Picture) {
        for one in self.0.iter_mut().filter(|one| one.fault.is_none()) {
            let same = other.0.iter().find(|other| other.name == one.name);
            if same.is_some_and(|same| same.places != one.places) {
                one.fault = Some(SHADOWS);
            }
        }
    }

    /// The picture in words.
    fn sentence(&self) -> String {
        let sentences = self.0.iter().map(|one| {
            let fault = one.fault.map(|fault| format!(": {fault}"));
            format!(
                "{} {} from {}{}",
                one.name,
                one.versions.join(" and "),
                list(&one.places),
                fault.unwrap_or_default()
            )
        });
        words::joined(sentences, "; ")
    }

    fn svg(&self, title: &str) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let mut places: Vec<&String> = Vec::new();
        for place in self.0.iter().flat_map(|one| &one.places) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let rows = self.0.len().max(places.len());
        let height = rows * ROW + 6;
        let (mut lines, mut boxes) = (String::new(), String::new());
        for (index, one) in self.0.iter().enumerate() {
            let class = if one.fault.is_some() { "bad" } else { "good" };
            for place in &one.places {
                let row = places.iter().position(|known| *known == place);
                let start = middle(index);
                let end = middle(row.unwrap_or_default());
                let bend = usize::midpoint(LEFT, RIGHT);
                lines.push_str(&format!(
                    "<path class=\"{class}\" d=\"M{LEFT} {start} C{bend} {start} {bend} {end} {RIGHT} {end}\"/>\n"
                ));
            }
            let versions = match one.versions.as_slice() {
                [] => String::new(),
                [only] => format!(" {only}"),
                [first, .., last] => format!(" {first}, {last}"),
            };
            let fault = one.fault.map(|_| "! ").unwrap_or_default();
            let text = cut(&format!("{fault}{}{versions}", one.name), FIT_LEFT, false);
            boxes.push_str(&labelled(class, 1, middle(index), LEFT - 1, &text));
        }
        for (index, place) in places.iter().enumerate() {
            let text = cut(place, FIT_RIGHT, true);
            boxes.push_str(&labelled(
                "plain",
                RIGHT,
                middle(index),
                WIDTH - RIGHT - 1,
                &text,
            ));
        }
        format!(
            "<h2>{title}</h2>\n<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n\
             <title>{title}</title>\n<desc>{}</desc>\n{lines}{boxes}</svg>\n",
            escape(&self.sentence()),
        )
    }
}

/// The height at which the box of this row has its middle.
fn middle(row: usize) -> usize {
    row * ROW + 3 + BOX / 2
}

fn labelled(class: &str, x: usize, middle: usize, width: usize, text: &str) -> String {
    let (y, line) = (middle - BOX / 2, middle + 5);
    format!(
        "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{BOX}\" rx=\"5\"/>\
         <text x=\"{}\" y=\"{line}\">{}</text>\n",
        x + 8,
        escape(text)
    )
}

/// As many characters as a box has room for. The end of a path tells more than its beginning.
fn cut(text: &str, fit: usize, keeps_end: bool) -> String {
    let count = text.chars().count();
    if count <= fit {
        text.to_owned()
    } else if keeps_end {
        format!(
            "…{}",
            text.chars().skip(count - fit + 1).collect::<String>()
        )
    } else {
        format!("{}…", text.chars().take(fit - 1).collect::<String>())
    }
}
