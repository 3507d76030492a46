//! Conditions on the machine, contradictions, and cautions about a set.

use std::collections::BTreeSet;

use super::Style;
use super::refused::{Fault, Group};
use super::words::wants;
use crate::catalog::{display_name, title};
use crate::inventory::Inventory;
use crate::program::{Condition, Demand, Want};
use crate::solve::{Broken, Contradiction, ContradictionSide, MachineFacts, judge};
use crate::text::{list, show};

/// The rows of conditions on the machine. In short, of an image's alternatives only the one that decides, and what decides it.
pub(super) fn conditions(
    conditions: &[Condition],
    inventory: &Inventory,
    is_full: bool,
    style: Style,
) -> Vec<Vec<String>> {
    let row = |condition: &Condition| {
        let judged = judge(condition, inventory);
        let demands: Vec<String> = judged.demands.iter().map(ToString::to_string).collect();
        let mut text = if is_full {
            condition.demand.to_string()
        } else {
            list(&demands)
        };
        if matches!(condition.demand, Demand::Any(_)) {
            let has: BTreeSet<String> = judged
                .demands
                .iter()
                .map(|demand| has(&judged.has, demand))
                .collect();
            let has = has.into_iter().collect::<Vec<_>>().join("; ");
            text = match judged.holds {
                _ if !judged.counts => format!("{text}: does not count without a GPU"),
                Some(true) => format!("{text}: met by {has}"),
                Some(false) => format!("{text}: not met by {has}"),
                None => format!("{text}: this could not be checked on this machine ({has})"),
            };
        }
        vec![text, style.dim(&condition.by.with_place())]
    };
    conditions.iter().map(row).collect()
}

/// A condition that does not hold, in one line.
pub(super) fn broken_in_short(broken: &Broken) -> String {
    let Condition { demand, by, .. } = &broken.condition;
    format!(
        "{} requires {}, but this machine has {}",
        title(&by.name),
        demand,
        has(&broken.has, demand)
    )
}

/// A condition that does not hold, in full.
pub(super) fn broken(broken: &Broken, style: Style) -> Fault {
    let Condition { demand, by, .. } = &broken.condition;
    let by_name = title(&by.name);
    let wrong = match demand {
        Demand::Code(_) => format!("`{by_name}` has no code for the GPU of this machine"),
        Demand::Driver(_) | Demand::DriverCuda(_) => {
            format!("the driver does not meet the requirement of `{by_name}`")
        }
        Demand::Gpu(_) | Demand::Brand { .. } => {
            format!("the GPU does not meet the requirement of `{by_name}`")
        }
        Demand::Cuda(_) | Demand::Any(_) => {
            format!("this machine does not meet the requirement of `{by_name}`")
        }
    };
    let rows = vec![
        vec!["needs".to_owned(), demand.to_string(), by.place()],
        vec!["found".to_owned(), has(&broken.has, demand)],
    ];
    let help = match demand {
        Demand::Code(_) => {
            "no library path can help; CUDA_VISIBLE_DEVICES= starts it without the GPU"
        }
        _ if by_name.starts_with("NVIDIA_REQUIRE_") => {
            "no library path can help; NVIDIA_DISABLE_REQUIRE=1 ignores the image's requirements"
        }
        _ => "no library path can help",
    };
    Fault {
        title: format!("{} {wrong}", style.error("error:")),
        groups: vec![Group::new(rows), Group::line(help.to_owned())],
    }
}

/// The machine's side of a demand.
fn has(has: &MachineFacts, demand: &Demand) -> String {
    let driver = match (has.driver, has.cuda) {
        (None, _) => "no driver".to_owned(),
        (Some(driver), Some(cuda)) => format!("driver {driver}, with CUDA {cuda}"),
        (Some(driver), None) => format!("driver {driver}"),
    };
    let of_gpu = |(model, capability): &(String, Option<_>)| match capability {
        Some(capability) => format!("{}, compute capability {capability}", show(model)),
        None => show(model),
    };
    let mut gpus: Vec<String> = has.gpus.iter().map(of_gpu).collect();
    gpus.dedup();
    let gpus = if gpus.is_empty() {
        "no GPU".to_owned()
    } else {
        gpus.join("; ")
    };
    match demand {
        Demand::Driver(_) | Demand::DriverCuda(_) => driver,
        Demand::Gpu(_) | Demand::Brand { .. } | Demand::Code(_) => gpus,
        Demand::Cuda(_) | Demand::Any(_) => format!("{driver}; {gpus}"),
    }
}

/// Requirements that exclude each other; none if there is only one.
pub(super) fn contradiction(contradiction: &Contradiction, style: Style) -> Option<Fault> {
    if contradiction.members.len() < 2 {
        return None;
    }
    let row = |member: &ContradictionSide| {
        let what = member.family.as_deref().map_or("machine", display_name);
        vec![
            what.to_owned(),
            wants_of(member),
            style.dim(&member.by.with_place()),
        ]
    };
    let title = "  these conflict; without any one of them the rest fits:";
    let rows = contradiction.members.iter().map(row).collect();
    Some(Fault {
        title: title.to_owned(),
        groups: vec![Group {
            prefix: "    ",
            rows,
        }],
    })
}

fn wants_of(member: &ContradictionSide) -> String {
    if let Some(demand) = &member.demand {
        return demand.to_string();
    }
    let wants = wants(&member.wants);
    let has_symbols = member
        .wants
        .iter()
        .any(|want| matches!(want, Want::Symbols(_)));
    if wants.is_empty() && has_symbols {
        "the symbols that it imports".to_owned()
    } else {
        wants
    }
}
