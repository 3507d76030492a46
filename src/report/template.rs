//! The file that `cudarun init` writes: the found versions as settings, other settings as comments.

use crate::catalog::{display_name, title};
use crate::inventory::Inventory;
use crate::program::{Asker, Program, Want};
use crate::range::Range;
use crate::solve::{Outcome, Pick, Plan};
use crate::text::show;
use crate::version::Version;

const HEAD: &str = "# Requirements of the programs in this directory on NVIDIA's libraries, for cudarun (docs/config.md).\n";
const REQUIRES: &str = "\
# Required versions: ranges as in Cargo. Requirements that programs record themselves count too.
[requires]
";
const EXAMPLES: &str = "\
# cuda = \"12\"
# driver = \">=550\"
# gpu = \">=8.0\"
# cudnn = \">=9.1,<10\"
";
const REST: &str = r#"
# One installation and no other: its version, or its directory (relative to this file; needs `cudarun allow`).
# [pin]
# cudnn = "9.10"

# Preferences among several installations that fit.
# [prefer]
# nccl = ">=2.21"
# origin = ["wheel", "toolkit"]

# More directories to scan, and sources to ignore (needs `cudarun allow`).
# [search]
# also = ["vendor/cuda"]
# without = ["conda"]

# When a start proves its set on the GPU first: "never" (needs `cudarun allow`), "auto" or "always".
# [verify]
# when = "auto"
# level = "conv"                  # load, handle, conv or deep

# Variables for the program; false unsets one (needs `cudarun allow`).
# [env]
# CUDA_MODULE_LOADING = "LAZY"

# All sections again, for the programs of one name.
# [program."train.py".requires]
# nccl = ">=2.21"
"#;

/// The file for a program; without one it has only examples.
pub fn template(found: Option<(&Program, &Inventory, &Outcome, Option<Version>)>) -> String {
    let requires = match found {
        Some((program, inventory, Outcome::Plan(plan), floor)) => {
            requires(program, inventory, plan, floor)
        }
        _ => EXAMPLES.to_owned(),
    };
    format!("{HEAD}\n{REQUIRES}{requires}{REST}")
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
        if pick.installation.family != "driver" {
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
        .requirements
        .iter()
        .filter_map(|requirement| match requirement.want {
            Want::AtLeast(floor)
                if requirement.family == family && floor.major() == picked.major() =>
            {
                Some((floor, &requirement.by))
            }
            _ => None,
        });
    floors.max_by_key(|(floor, _)| *floor)
}
