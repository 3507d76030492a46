//! `cudarun fleet`: on which of many machines programs work, and in what the others differ. Each machine is a description, this
//! one, or this one with an environment first in PATH. `--lock` writes one lock that holds on all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::doctor::{examine, examine_line};
use super::record::{libraries, lock_of};
use super::{
    Exit, command_of, deliver, described, in_image, must_be_image, open_image, print, say,
};
use crate::cli::{Common, Fleet, Wishes};
use crate::environment::join_elements;
use crate::error::Error;
use crate::fleet::{self, Described, Group, Unread, UnreadReason, host_list};
use crate::host::Host;
use crate::inventory::{self, Installation, Inventory, Origin};
use crate::machine::save;
use crate::pipeline::{self, Reached, Request, Stop, Subject};
use crate::report::{
    self, ComparedSide, ExaminedGroup, ExaminedProgram, FleetReport, NoCommonLock, Style,
    quoted_to_show, shell_words,
};
use crate::settings::lock::{self, Family, Lock};
use crate::settings::resolve::Purpose;
use crate::solve::Outcome;
use crate::storage;
use crate::text::show;
use crate::version::ComputeCapability;

/// The word for this machine as it is.
const HERE: &str = "here";
/// Rounds in which another build of a library is tried on all machines.
const ROUNDS: usize = 24;

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
    let is_here = |path: &PathBuf| here(host, path).is_some();
    let (here, paths): (Vec<PathBuf>, _) = options.paths.iter().cloned().partition(is_here);
    let (mut groups, mut unread) = fleet::find(host, &paths);
    groups.extend(here.into_iter().map(|path| {
        let name = show(&path);
        let machines = vec![Described { name, path }];
        Group { machines }
    }));
    let asked = options
        .program
        .iter()
        .map(|line| hidden(host, common, line));
    let asked: Vec<String> = asked.collect();
    let mut examined = Vec::new();
    let mut known = BTreeSet::new();
    for group in groups {
        match examine_group(host, common, options, &mut known, &group) {
            Ok(side) => examined.push(ExaminedGroup { group, side }),
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
    } else if options.json {
        print(&report::json::fleet(&fleet))?;
    } else {
        let page = |style: Style| report::fleet(&fleet, style);
        let style = Style::stdout(common.color).of(host);
        deliver(style, common, &options.paper, page, String::new, print)?;
    }
    Ok(match fleet.is_good() {
        _ if fleet.has_unread() => Exit::Unknown,
        true => Exit::Yes,
        false => Exit::No,
    })
}

/// A command line as descriptions have it. An image has the paths that the options name.
fn hidden(host: &Host, common: &Common, line: &str) -> String {
    if common.root.is_some() {
        line.to_owned()
    } else {
        save::hidden(host, line)
    }
}

/// This machine as it is, or with an environment first in PATH, if the path means one of them.
fn here(host: &Host, path: &Path) -> Option<Host> {
    let mut env = host.env.clone();
    if path != Path::new(HERE) {
        let bin = host.absolute(path).join("bin");
        if !host.is_executable(&bin.join("python3")) {
            return None;
        }
        let rest = host.env.get("PATH").map(OsStr::to_owned);
        let elements = std::iter::once(bin.as_os_str()).chain(rest.as_deref());
        env.set("PATH", join_elements(elements));
    }
    Some(host.inside(env, host.cwd.clone()))
}

/// Returns the machine that a path means, in the image of `--root` if there is one, and the programs that its description was
/// written for. This machine has none.
fn look(host: &Host, common: &Common, path: &Path) -> Result<(Host, Option<Vec<String>>), String> {
    let (node, programs) = match here(host, path) {
        Some(here) => (here, None),
        None => {
            let (node, programs) = described(host, path)?;
            (node, Some(programs))
        }
    };
    let there = in_image(host, common, node).map_err(|error| error.to_string())?;
    Ok((there, programs))
}

/// Examines the first machine of a group with the programs that were asked about, or else with all of its description. A
/// description has the files of no other programs, unlike an image. This machine is examined with all that are `known`.
fn examine_group(
    host: &Host,
    common: &Common,
    options: &Fleet,
    known: &mut BTreeSet<String>,
    group: &Group,
) -> Result<ComparedSide, String> {
    let path = &group.machines[0].path;
    let (there, own) = look(host, common, path)?;
    let mut looks = common.elsewhere();
    let mut variables = String::new();
    let mut lines = options.program.clone();
    match own {
        Some(own) => {
            looks.extend(["--machine".into(), path.into()]);
            let split: Vec<_> = own.iter().map(|line| shlex::split(line)).collect();
            lines = match lines.as_slice() {
                [] => own,
                asked => asked
                    .iter()
                    .map(|line| hidden(host, common, line))
                    .collect(),
            };
            lines.retain(|line| common.root.is_some() || split.contains(&shlex::split(line)));
            known.extend(lines.iter().cloned());
        }
        None => {
            if path != Path::new(HERE) {
                let bin = quoted_to_show(path.join("bin").as_os_str());
                variables = format!("PATH={bin}:$PATH ");
            }
            if lines.is_empty() {
                lines.extend(known.iter().cloned());
            }
        }
    }
    let command = [&["cudarun".into()][..], &looks].concat();
    let (examination, inventory) = examine(&there, common).map_err(|error| error.to_string())?;
    let examined = |line: &String| ExaminedProgram {
        command: hidden(host, common, line),
        ..examine_line(&there, common, line)
    };
    let programs = lines.iter().map(examined).collect();
    Ok(ComparedSide {
        cudarun: variables + &shell_words(&command),
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
        return Err(Error::Usage {
            message: match fleet.programs().len() {
                0 => "--lock needs exactly one program, and the descriptions name none".to_owned(),
                count => format!("a lock is for one program; the descriptions name {count}"),
            },
            hint: Some("cudarun fleet --program 'COMMAND LINE' --lock FILE DIR".to_owned()),
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

/// A machine that is the same as some others, and the libraries of the program there.
struct Place {
    hosts: String,
    host: Host,
    libraries: Picks,
}

impl Place {
    fn has(&self, family: &Family) -> bool {
        self.libraries
            .all
            .iter()
            .any(|own| is_same_build(own, family))
    }
}

/// Finds a lock for a program that every machine obeys: the first machine's best set, in which another build replaces each that
/// is not everywhere.
fn common_lock(
    host: &Host,
    common: &Common,
    groups: &[&Group],
    words: &[OsString],
) -> Result<Result<Lock, NoCommonLock>, Error> {
    let places = groups.iter().map(|group| place(host, common, group, words));
    let places = places.collect::<Result<Vec<Place>, _>>()?;
    let mut fixed: BTreeMap<String, Family> = BTreeMap::new();
    let mut tried: Vec<Family> = Vec::new();
    let mut refused = Vec::new();
    for _ in 0..ROUNDS {
        let wish = Lock {
            families: fixed.values().cloned().collect(),
            ..Lock::default()
        };
        let first = &places[0];
        let lock = match picks(&first.host, common, words, &wish) {
            Ok(picks) if picks.set.is_empty() => return Ok(Err(NoCommonLock::Nothing)),
            Ok(picks) => {
                let gpus = places.iter().flat_map(|place| &place.libraries.gpus);
                lock_of(picks.set, gpus.copied())
            }
            Err(why) => return Ok(Err(NoCommonLock::Refused(vec![(first.hosts.clone(), why)]))),
        };
        let refuses = |place: &Place| {
            Some((
                place.hosts.clone(),
                picks(&place.host, common, words, &lock).err()?,
            ))
        };
        refused = places.iter().filter_map(refuses).collect();
        let is_lacking = |family: &&Family| !places.iter().all(|place| place.has(family));
        let Some(family) = lock
            .families
            .iter()
            .find(is_lacking)
            .filter(|_| !refused.is_empty())
        else {
            return Ok(if refused.is_empty() {
                Ok(lock)
            } else {
                Err(NoCommonLock::Refused(refused))
            });
        };
        tried.push(family.clone());
        let others = first
            .libraries
            .all
            .iter()
            .filter(|one| one.name == family.name && !tried.contains(one));
        let everywhere = others.filter(|one| places.iter().all(|place| place.has(one)));
        match everywhere.max_by_key(|one| one.version) {
            Some(other) => _ = fixed.insert(family.name.clone(), other.clone()),
            None => return Ok(Err(nowhere(family, &places))),
        }
    }
    Ok(Err(NoCommonLock::Refused(refused)))
}

/// The versions of a library on all machines.
fn nowhere(family: &Family, places: &[Place]) -> NoCommonLock {
    let versions = |place: &Place| -> BTreeSet<String> {
        let own = place
            .libraries
            .all
            .iter()
            .filter(|one| one.name == family.name);
        own.map(|one| {
            one.version
                .map_or_else(|| "?".to_owned(), |version| version.to_string())
        })
        .collect()
    };
    let words = |versions: BTreeSet<String>| {
        let words: Vec<String> = versions.into_iter().collect();
        if words.is_empty() {
            "none".to_owned()
        } else {
            words.join(", ")
        }
    };
    let common = places
        .iter()
        .map(versions)
        .reduce(|all, own| all.intersection(&own).cloned().collect());
    let on = places
        .iter()
        .map(|place| (place.hosts.clone(), words(versions(place))))
        .collect();
    NoCommonLock::Family {
        name: family.name.clone(),
        has_version: common.is_some_and(|all| !all.is_empty()),
        on,
    }
}

fn is_same_build(one: &Family, other: &Family) -> bool {
    (&one.name, one.version, &one.build_ids) == (&other.name, other.version, &other.build_ids)
}

fn place(host: &Host, common: &Common, group: &Group, words: &[OsString]) -> Result<Place, Error> {
    let path = &group.machines[0].path;
    let (host, _) = look(host, common, path).map_err(|why| super::unusable(path, why))?;
    // A machine that refuses the program has no lock.
    let libraries = picks(&host, common, words, &Lock::default()).unwrap_or_default();
    Ok(Place {
        hosts: host_list(group.machines.iter().map(|one| one.name.as_str())),
        host,
        libraries,
    })
}

/// The libraries of a program on a machine, as a lock names them.
#[derive(Default)]
struct Picks {
    set: Vec<Family>,
    /// All that are found for it.
    all: Vec<Family>,
    gpus: BTreeSet<ComputeCapability>,
}

/// Names those installations that a program may get elsewhere too: the driver belongs to the machine, and a package's own
/// library cannot be picked elsewhere.
fn families<'i>(
    host: &Host,
    inventory: &Inventory,
    installations: impl Iterator<Item = &'i Installation>,
) -> Vec<Family> {
    let shared =
        installations.filter(|one| one.family != "driver" && one.origin != Origin::Bundled);
    libraries(
        inventory::machine(host).unwrap_or_default(),
        inventory,
        shared,
    )
}

/// Returns the libraries of a program that obeys this lock, or the first line of the refusal. An empty lock counts as no lock.
fn picks(host: &Host, common: &Common, words: &[OsString], lock: &Lock) -> Result<Picks, String> {
    let locked = !lock.families.is_empty();
    let wishes = Wishes {
        locked,
        lock: locked.then(|| lock.text()),
        ..Wishes::default()
    };
    let command = command_of(words);
    let request = Request::new(
        host,
        common,
        &wishes,
        Subject::Command(&command),
        Purpose::Answer,
    );
    let mut found = Ok(Picks::default());
    let run = pipeline::run(&request, &mut |reached| match reached {
        Reached::Decision(facts, decision) => {
            let inventory = &facts.inventory;
            let picks = match &decision.outcome {
                Outcome::Plan(plan) => plan.picks.as_slice(),
                _ => &[],
            };
            found = Ok(Picks {
                set: families(host, inventory, picks.iter().map(|pick| &pick.installation)),
                all: families(host, inventory, inventory.installations.iter()),
                gpus: inventory
                    .gpus
                    .iter()
                    .filter_map(|gpu| gpu.capability)
                    .collect(),
            });
            if decision.is_refused() {
                found = Err(report::refusal(
                    decision,
                    &facts.program,
                    true,
                    Style::default(),
                ));
            }
            Err(Stop::Exit(Exit::Yes))
        }
        _ => Ok(()),
    });
    let first = |why: String| {
        why.lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned()
    };
    run.map_err(|error| error.to_string())
        .and(found)
        .map_err(first)
}
