//! The file that `cudarun init` writes: the found versions as settings, other settings as comments.

use crate::catalog::{display_name, title};
use crate::inventory::Inventory;
use crate::program::Program;
use crate::range::Range;
use crate::requirements::Asker;
use crate::settings::keys;
use crate::solve::{Outcome, Pick, Plan};
use crate::text::show;
use crate::version::Version;

const VERSION: &str = "cudarun = \">=0.2\"                 # another cudarun starts nothing";
const OF_PROGRAM: &str = r#"[program."train.py"]              # any of this again, for programs of one name
uses = ["jax"]
[program."train.py".requires]
nccl = ">=2.21"
"#;
const HEAD: &str = "# Requirements of the programs in this directory on NVIDIA's libraries, for cudarun (docs/config.md).\n";

/// The file for a program; without one it has only examples.
pub fn template(found: Option<(&Program, &Inventory, &Outcome, Option<Version>)>) -> String {
    let mut text = format!("{HEAD}\n{}", commented(&keys::example("")));
    for (table, help) in keys::TABLES {
        text.push('\n');
        if table != "requires" {
            text.push_str(&commented(&section(table, help)));
            continue;
        }
        text.push_str(&format!("# {help}\n[requires]\n"));
        text.push_str(&match found {
            Some((program, inventory, Outcome::Plan(plan), floor)) => {
                requires(program, inventory, plan, floor)
            }
            _ => commented(&keys::example(table)),
        });
    }
    text.push_str(&format!("\n{}", commented(OF_PROGRAM)));
    text
}

/// A file with every setting, as the page of settings shows it.
pub fn example_of_settings() -> String {
    let mut text = format!("{VERSION}\n{}", keys::example(""));
    for (table, help) in keys::TABLES {
        text.push_str(&format!("\n{}", section(table, help)));
    }
    text.push_str(&format!("\n{OF_PROGRAM}"));
    text
}

fn section(table: &str, help: &str) -> String {
    let head = format!("[{table}]");
    format!("{head:<34}# {help}\n{}", keys::example(table))
}

fn commented(lines: &str) -> String {
    lines.lines().map(|line| format!("# {line}\n")).collect()
}

/// The found floors; a floor that this machine does not meet is a comment.
fn requires(
    program: &Program,
    inventory: &Inventory,
    plan: &Plan,
    floor: Option<Version>,
) -> String {
    let mut text = format!(
        "# Found for `{}`.\n",
        show(program.runs().file_name().unwrap_or_default())
    );
    if let Some(cuda) = plan.cuda() {
        text.push_str(&format!("cuda = \"{cuda}\"\n"));
        if let Some(floor) = floor {
            let holds = inventory
                .driver
                .as_ref()
                .is_some_and(|driver| driver.version >= floor);
            let comment = if holds { "" } else { "# not on this machine: " };
            text.push_str(&format!(
                "# The oldest driver for CUDA {cuda}.\n{comment}driver = \">={floor}\"\n"
            ));
        }
    }
    for pick in &plan.picks {
        if !pick.installation.is_driver() {
            text.push_str(&of_family(pick, program, plan));
        }
    }
    text
}

fn of_family(pick: &Pick, program: &Program, plan: &Plan) -> String {
    let name = &pick.installation.family;
    let proper = display_name(name);
    let Some(version) = pick.installation.version else {
        return format!("# {proper} is required; the version of the installed one is unknown.\n");
    };
    let mut others = plan.picks.iter();
    if others.any(|other| other.installation.family == *name && !std::ptr::eq(other, pick)) {
        return format!("# {proper} {version} is one of several that are required.\n");
    }
    let floor = floor(program, name, version);
    let (range, why) = match (floor, pick.asked_by.first()) {
        (Some((floor, asker)), _) => {
            let (asker, exact) = (title(&asker.name), floor.truncated(2));
            (
                format!(">={exact},<{}", floor.major() + 1),
                format!("{asker} was compiled for {exact}"),
            )
        }
        (None, Some(asker)) => (
            version.major().to_string(),
            format!("{} requires it", title(&asker.name)),
        ),
        (None, None) => (version.major().to_string(), "others require it".to_owned()),
    };
    // A program's files record the libraries that it is linked against. Repeating them here would bind every
    // program of the project to the needs of one.
    if floor.is_none() && name != "cudnn" {
        return format!("# {proper}: {why}; installed is {version}.\n# {name} = \"{range}\"\n");
    }
    let holds = range
        .parse::<Range>()
        .is_ok_and(|range| range.allows(&version));
    let comment = if holds { "" } else { "# not on this machine: " };
    format!("# {proper}: {why}; installed is {version}.\n{comment}{name} = \"{range}\"\n")
}

/// The newest version that a requester was compiled for, of the picked major.
fn floor<'p>(program: &'p Program, family: &str, picked: Version) -> Option<(Version, &'p Asker)> {
    let floors = program
        .library_requirements()
        .filter(|requirement| requirement.family == family)
        .filter_map(|requirement| Some((requirement.floor()?, &requirement.by)));
    floors
        .filter(|(floor, _)| floor.major() == picked.major())
        .max_by_key(|(floor, _)| *floor)
}
