//! The answers of many machines, as an object.

use serde_json::{Value, json};

use super::object::each;
use crate::fleet::{Unread, host_list};
use crate::report::fleet::{ExaminedGroup, FleetReport};
use crate::text::show;

pub(super) fn fleet(fleet: &FleetReport) -> Value {
    json!({
        "machines": fleet.count(),
        "good": host_list(fleet.names(true)),
        "bad": host_list(fleet.names(false)),
        "groups": each(fleet.groups(), |one| group(one, fleet)),
        "unread": each(&fleet.unread, unread),
    })
}

fn group(group: &ExaminedGroup, fleet: &FleetReport) -> Value {
    let [driver, gpus, glibc] = &group.answers.machine;
    json!({
        "machines": group.names().collect::<Vec<_>>(),
        "hosts": host_list(group.names()),
        "driver": driver,
        "gpus": gpus,
        "glibc": glibc,
        "works": fleet.works(group),
        "why_not": group.trouble(None),
        "programs": each(fleet.programs(), |command| program(command, group)),
        "differences": fleet.differences(group),
    })
}

fn program(command: &str, group: &ExaminedGroup) -> Value {
    let trouble = group.trouble(Some(command));
    let program = group.program(command);
    json!({
        "command": command,
        "works": trouble.is_none(),
        "why_not": trouble,
        "uses": program.map(|one| &one.uses),
        "mode": program.map(|one| &one.mode),
    })
}

fn unread(one: &Unread) -> Value {
    json!({ "path": show(&one.path), "why": one.why.to_string() })
}
