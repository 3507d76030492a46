//! `cudarun fleet`: on which of many machines programs work, and in what the others differ. Each machine is a description.

use std::ffi::OsString;
use std::path::Path;

use super::common::common_lock;
use super::examined::{examine, examine_line};
use super::{Exit, in_image, must_be_image, open_image, paper, print, say};
use crate::cli::{Common, Fleet};
use crate::error::Error;
use crate::fleet::{self, Group, Unread, UnreadReason, host_list};
use crate::host::Host;
use crate::machine::{Machine, save};
use crate::report::{self, ComparedSide, ExaminedGroup, FleetReport, NoCommonLock, Style};
use crate::settings::lock;
use crate::storage;

pub fn fleet(host: &Host, common: &Common, options: &Fleet) -> Result<Exit, Error> {
    if let Some(file) = &common.machine {
        return Err(super::unusable(
            file,
            "`fleet` takes descriptions as arguments".to_owned(),
        ));
    }
    must_be_image(host, common)?;
    if let Some(root) = &common.root {
        // Its fault is not one of the descriptions.
        open_image(host, common, root)?;
    }
    let (groups, mut unread) = fleet::find(host, &options.paths);
    // An image has the paths that the options name.
    let hidden = |line: &String| {
        if common.root.is_some() {
            line.clone()
        } else {
            save::hidden(host, line)
        }
    };
    let asked: Vec<String> = options.program.iter().map(hidden).collect();
    let mut examined = Vec::new();
    for group in groups {
        match examine_group(host, common, &asked, &group) {
            Ok(one) => examined.push(ExaminedGroup::new(group, one)),
            Err(why) => unread.extend(group.machines.into_iter().map(|one| {
                let why = UnreadReason::Unusable(why.clone());
                Unread {
                    path: one.path,
                    why,
                }
            })),
        }
    }
    let fleet = FleetReport::new(examined, unread, asked, common.root.clone());
    if let Some(file) = &options.lock {
        return write_lock(host, common, &fleet, file);
    }
    if options.good || options.bad {
        for line in report::unread_descriptions(&fleet) {
            say(&line);
        }
        let list = host_list(fleet.names(options.good));
        print(&if list.is_empty() {
            list
        } else {
            format!("{list}\n")
        })?;
    } else if paper::deliver(common, &options.paper, || report::fleet_page(&fleet))? {
        // Written.
    } else if options.json {
        print(&report::json::fleet(&fleet))?;
    } else {
        let style = Style::stdout(common.color).of(host);
        print(&style.page(&report::fleet(&fleet, style)))?;
    }
    Ok(match fleet.is_good() {
        _ if fleet.has_unread() => Exit::Unknown,
        true => Exit::Yes,
        false => Exit::No,
    })
}

/// Examines the first machine of a group with the programs that were asked about, or else with all of its description. A
/// description has the files of no other programs, unlike an image.
fn examine_group(
    host: &Host,
    common: &Common,
    asked: &[String],
    group: &Group,
) -> Result<ComparedSide, String> {
    let machine = Machine::read(host, &group.machines[0].path);
    let machine = machine.map_err(|fault| fault.0)?;
    let own: Vec<_> = machine
        .programs
        .iter()
        .map(|line| shlex::split(line))
        .collect();
    let mut lines = if asked.is_empty() {
        machine.programs.clone()
    } else {
        asked.to_vec()
    };
    lines.retain(|line| common.root.is_some() || own.contains(&shlex::split(line)));
    let node = machine.host().map_err(|error| error.to_string())?;
    let there = in_image(host, common, node).map_err(|error| report::error(&error))?;
    let (examination, inventory) =
        examine(&there, common).map_err(|error| report::error(&error))?;
    let programs = lines
        .iter()
        .map(|line| examine_line(&there, common, line))
        .collect();
    let name = host_list(group.machines.iter().map(|one| one.name.as_str()));
    Ok(ComparedSide {
        name,
        env: there.env.clone(),
        examination,
        inventory,
        programs,
    })
}

/// Writes the lock of the only program, or says why there is none.
fn write_lock(
    host: &Host,
    common: &Common,
    fleet: &FleetReport,
    file: &Path,
) -> Result<Exit, Error> {
    let [program] = fleet.programs() else {
        return Err(Error::NotOneProgram {
            count: fleet.programs().len(),
        });
    };
    if fleet.has_unread() {
        for line in report::unread_descriptions(fleet) {
            say(&line);
        }
        return Ok(Exit::Unknown);
    }
    let words: Vec<OsString> = shlex::split(program)
        .unwrap_or_default()
        .into_iter()
        .map(OsString::from)
        .collect();
    let groups: Vec<&Group> = fleet.groups().collect();
    let file = host.absolute(file);
    let found = match fleet.troubles() {
        none if none.is_empty() => common_lock(host, common, &groups, &words)?,
        troubles => Err(NoCommonLock::Refused(troubles)),
    };
    match found {
        Ok(lock) => {
            let written = storage::publish_again(host, &file, lock::BEGIN, lock.text().as_bytes());
            written.map_err(|error| Error::unwritten(&file, error))?;
            if !common.quiet {
                say(&report::recorded(&file, lock.families.len()));
            }
            Ok(Exit::Yes)
        }
        Err(none) => {
            say(&report::no_common_lock(&none, program));
            Ok(Exit::No)
        }
    }
}
