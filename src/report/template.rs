//! The file that `cudarun init` writes: what was found as settings, and what else could be set as comments.

use super::words;
use crate::inventory::Inventory;
use crate::program::{Asker, Program, Want};
use crate::range::Range;
use crate::solve::{Outcome, Pick, Plan};
use crate::text::show;
use crate::version::{DriverVersion, Version};

const HEAD: &str = "# Which of NVIDIA's libraries programs in this directory need: for cudarun, which docs/config.md explains.\n";
const REQUIRES: &str = "\
# What must be: a range of versions, as Cargo reads them. What programs record themselves counts besides.
[requires]
";
const EXAMPLES: &str = "\
# cuda = \"12\"
# driver = \">=550\"
# gpu = \">=8.0\"
# cudnn = \">=9.1,<10\"
";
const REST: &str = r#"
# One installation and no other: by its version, or by its directory (relative to this one), which must be allowed.
# [pin]
# cudnn = "9.10"

# What is taken where there is a choice.
# [prefer]
# nccl = ">=2.21"
# origin = ["wheel", "toolkit"]

# Where else libraries are sought, and where not: must be allowed (`cudarun allow`).
# [search]
# also = ["vendor/cuda"]
# without = ["conda"]

# When a set is proved on the GPU first: "never", "auto" or "always".
# [verify]
# when = "auto"
# level = "conv"                  # load, handle, conv or deep

# Variables for the program; false takes one away. Must be allowed.
# [env]
# CUDA_MODULE_LOADING = "LAZY"

# For programs of one name, all of this once more.
# [program."train.py".requires]
# nccl = ">=2.21"
"#;

/// Found for a program; without one there are only examples.
pub fn template(found: Option<(&Program, &Inventory, &Outcome, Option<DriverVersion>)>) -> String {
    let requires = match found {
        Some((program, inventory, Outcome::Plan(plan), floor)) => requires(program, inventory, plan, floor),
        _ => EXAMPLES.to_owned(),
    };
    format!("{HEAD}\n{REQUIRES}{requires}{REST}")
}

/// The floors that were found, each of which holds here.
fn requires(program: &Program, inventory: &Inventory, plan: &Plan, floor: Option<DriverVersion>) -> String {
    let mut text = format!("# As found for `{}`.\n", show(program.runs().file_name().unwrap_or_default()));
    if let Some(cuda) = cuda(plan) {
        text.push_str(&format!("cuda = \"{cuda}\"\n"));
        if let Some(floor) = floor {
            let holds = inventory.driver.as_ref().is_some_and(|driver| driver.version >= floor);
            let comment = if holds { "" } else { "# not so here: " };
            text.push_str(&format!("# The oldest that runs CUDA {cuda}.\n{comment}driver = \">={floor}\"\n"));
        }
    }
    for pick in plan.picks.iter().filter(|pick| pick.installation.family != "driver") {
        text.push_str(&of_family(pick, program, plan));
    }
    text
}

/// The CUDA major that all of them are of.
fn cuda(plan: &Plan) -> Option<u32> {
    let mut majors = plan.picks.iter().filter_map(|pick| pick.installation.cuda);
    let first = majors.next()?;
    majors.all(|major| major == first).then_some(first)
}

fn of_family(pick: &Pick, program: &Program, plan: &Plan) -> String {
    let name = &pick.installation.family;
    let proper = words::family(name);
    let Some(version) = pick.installation.version else {
        return format!("# {proper} is needed; the version of the one that is here is not known.\n");
    };
    if plan.picks.iter().filter(|other| other.installation.family == *name).count() > 1 {
        return format!("# {proper} {version} is one of several that are needed.\n");
    }
    let floor = floor(program, name, version);
    let (range, why) = match floor {
        Some((floor, by)) => {
            let range = format!(">={},<{}", floor.truncated(2), floor.major() + 1);
            (range, format!("{} was compiled for {}", words::title(&by.name), floor.truncated(2)))
        }
        None => {
            let by = pick.asked_by.first().map(|by| format!("{} asks for it", words::title(&by.name)));
            (version.major().to_string(), by.unwrap_or_else(|| "others need it".to_owned()))
        }
    };
    // What a program is linked against it says itself, and CUDA is said above: to write down all of it would bind
    // every program of the project to what one of them needs.
    if floor.is_none() && name != "cudnn" {
        return format!("# {proper}: {why}; here it is {version}.\n# {name} = \"{range}\"\n");
    }
    let holds = range.parse::<Range>().is_ok_and(|range| range.allows(&version));
    let comment = if holds { "" } else { "# not so here: " };
    format!("# {proper}: {why}; here it is {version}.\n{comment}{name} = \"{range}\"\n")
}

/// The newest that something was compiled for, of the major that was picked.
fn floor<'t>(program: &'t Program, family: &str, picked: Version) -> Option<(Version, &'t Asker)> {
    let floors = program.requirements.iter().filter(|requirement| requirement.family == family);
    let floors = floors.filter_map(|requirement| match requirement.want {
        Want::AtLeast(version) => Some((version, &requirement.by)),
        _ => None,
    });
    floors.filter(|(floor, _)| floor.major() == picked.major()).max_by_key(|(floor, _)| *floor)
}
