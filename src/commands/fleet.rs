//! `cudarun fleet`: on which of many machines programs work, and in what the others differ. Each machine is a description, this
//! one, or this one with an environment first in PATH. `--lock` writes one lock that holds on all of them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::doctor::{examine, examine_line};
use super::record::lock_of;
use super::{Exit, ci_runner, deliver, in_image, must_be_image, on_node, open_image, print, say};
use crate::cli::{Common, Fleet, LibraryOptions};
use crate::doctor;
use crate::environment::join_elements;
use crate::error::Error;
use crate::fleet::{
    self, Answers, Described, Description, EqualMachines, Unread, UnreadReason, host_list,
};
use crate::host::Host;
use crate::image::Image;
use crate::pipeline::Request;
use crate::report::{
    self, ExaminedGroup, FleetReport, NoCommonLock, Style, quoted_to_show, shell_words,
};
use crate::requirements::Requirement;
use crate::settings::lock::{self, Lock, LockedFamily};
use crate::settings::resolve::Purpose;
use crate::storage;
use crate::text::show;
use crate::version::Version;

/// The word for this machine as it is.
const HERE: &str = "here";

pub fn fleet(host: &Host, common: &Common, options: &Fleet) -> Result<Exit, Error> {
    if let Some(file) = &common.node {
        let why = "`fleet` takes descriptions as arguments";
        return Err(Error::unusable("--node", file, why));
    }
    must_be_image(host, common)?;
    let image = match &common.root {
        Some(root) => Some(open_image(host, common, root)?),
        None => None,
    };
    let required = if options.project {
        required(host, common, options)?
    } else {
        Vec::new()
    };
    let (here, paths): (Vec<PathBuf>, _) = options
        .paths
        .iter()
        .cloned()
        .partition(|path| is_here(host, path));
    let (mut groups, mut unread) = fleet::find(host, &paths, image.is_some());
    groups.extend(here.into_iter().map(|path| {
        let name = show(&path);
        let machines = vec![Described { name, path }];
        EqualMachines { machines }
    }));
    let asked: Vec<String> = options
        .program
        .iter()
        .map(|line| as_described(host, common, line))
        .collect();
    let mut questions = Questions {
        host,
        common,
        image,
        lines: &options.program,
        asked: &asked,
        known: BTreeSet::new(),
    };
    let mut examined = Vec::new();
    for group in groups {
        match questions.answers(&group.machines[0].path) {
            Ok((cudarun, answers)) => {
                // The solver has tried what this machine is asked to have.
                let is_description = !is_here(host, &group.machines[0].path);
                let tried = if is_description { &required[..] } else { &[] };
                examined.push(ExaminedGroup {
                    group,
                    cudarun,
                    lacks: fleet::lacking(tried, &answers),
                    answers,
                });
            }
            Err(why) => unread.extend(group.machines.into_iter().map(|one| Unread {
                path: one.path,
                why: UnreadReason::Unusable(why.clone()),
            })),
        }
    }
    let fleet = FleetReport::new(examined, unread, asked, common.root.clone());
    if let Some(file) = &options.lock {
        return write_lock(host, common.quiet, &fleet, file);
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
    } else if let Some(form) = options.ci_options.ci {
        print(&report::ci_fleet(&fleet, &ci_runner(form)))?;
    } else if options.json {
        print(&report::json::fleet(&fleet))?;
    } else {
        let page = |style: Style| report::fleet(&fleet, style);
        let style = Style::stdout(common.color).of(host);
        deliver(
            style,
            common,
            &options.page_options,
            page,
            String::new,
            print,
        )?;
    }
    Ok(if fleet.has_unread() {
        Exit::Unknown
    } else if fleet.is_good() {
        Exit::Yes
    } else {
        Exit::No
    })
}

/// What the project here requires of every machine, its lock too, after its own findings for CI.
fn required(host: &Host, common: &Common, options: &Fleet) -> Result<Vec<Requirement>, Error> {
    if let Some(root) = &common.root {
        let why = "an image has its own .cudarun.toml: leave out --project";
        return Err(Error::unusable("--root", root, why));
    }
    let library_options = LibraryOptions::default();
    let request = |purpose| Request::new(host, common, &library_options, None, purpose).settings();
    if let Some(form) = options.ci_options.ci {
        let findings = doctor::examine_project(host, &request(Purpose::Examine)?);
        print(&report::ci_project(&findings, &ci_runner(form)))?;
    }
    let settings = request(Purpose::Project)?;
    if !common.quiet && options.ci_options.ci.is_none() {
        for remark in &settings.remarks {
            say(&report::setting_remark(remark));
        }
    }
    let of_gpu_programs = settings.requirements_of_gpu_programs;
    Ok([settings.requirements, of_gpu_programs].concat())
}

/// A command line as descriptions have it. An image has the paths that the options name.
fn as_described(host: &Host, common: &Common, line: &str) -> String {
    if common.root.is_some() {
        line.to_owned()
    } else {
        fleet::hidden(host, line)
    }
}

/// True if the path means this machine: as it is, or with an environment first in PATH.
fn is_here(host: &Host, path: &Path) -> bool {
    path == Path::new(HERE) || host.is_executable(&bin(host, path).join("python3"))
}

fn bin(host: &Host, environment: &Path) -> PathBuf {
    host.absolute(environment).join("bin")
}

/// What is asked about each group of machines.
struct Questions<'q> {
    host: &'q Host,
    common: &'q Common,
    image: Option<Image>,
    /// The command lines of `--program`, as they were typed and as descriptions have them. Without any, all that a description
    /// has.
    lines: &'q [String],
    asked: &'q [String],
    /// The command lines of all descriptions so far. This machine, which comes after them, is asked about these.
    known: BTreeSet<String>,
}

impl Questions<'_> {
    /// Returns the answers of the machine at a path, after the beginning of commands that look at it.
    fn answers(&mut self, path: &Path) -> Result<(String, Answers), String> {
        if is_here(self.host, path) {
            return self.of_this_machine(path);
        }
        let description = Description::read(self.host, path).map_err(|why| why.to_string())?;
        let (Some(image), Some(root)) = (&self.image, &self.common.root) else {
            return Ok((on_node(path), self.of_description(description)));
        };
        let words = ["--root".into(), root.into(), "--node".into(), path.into()];
        let cudarun = format!("cudarun {}", shell_words(&words));
        let there = in_image(image.clone(), root, path, &description.node).map_err(in_words)?;
        let programs = description.answers.programs.into_iter();
        let lines: Vec<String> = programs.map(|one| one.program.command).collect();
        Ok((cudarun, self.examined(&there, &lines)?))
    }

    fn of_this_machine(&self, path: &Path) -> Result<(String, Answers), String> {
        let mut env = self.host.env.clone();
        let mut cudarun = "cudarun".to_owned();
        if path != Path::new(HERE) {
            let bin = bin(self.host, path);
            let rest = self.host.env.get("PATH").map(OsStr::to_owned);
            let elements = std::iter::once(bin.as_os_str()).chain(rest.as_deref());
            env.set("PATH", join_elements(elements));
            let shown = quoted_to_show(path.join("bin").as_os_str());
            cudarun = format!("PATH={shown}:$PATH cudarun");
        }
        let there = self.host.inside(env, self.host.cwd.clone());
        let known: Vec<String> = self.known.iter().cloned().collect();
        Ok((cudarun, self.examined(&there, &known)?))
    }

    fn of_description(&mut self, description: Description) -> Answers {
        let mut answers = description.answers;
        answers.programs.retain_mut(|one| {
            // Other quotes make the same command line.
            let own = shlex::split(&one.program.command);
            let same = self.asked.iter().find(|line| shlex::split(line) == own);
            if let Some(same) = same {
                one.program.command.clone_from(same);
            }
            self.asked.is_empty() || same.is_some()
        });
        for one in &answers.programs {
            self.known.insert(one.program.command.clone());
        }
        answers
    }

    /// Answers for a machine that can be asked about any program: those of `--program`, or else these.
    fn examined(&self, there: &Host, lines: &[String]) -> Result<Answers, String> {
        let lines = if self.lines.is_empty() {
            lines
        } else {
            self.lines
        };
        let (examination, inventory) = examine(there, self.common).map_err(in_words)?;
        let mut answers = report::answers(&there.env, &examination, &inventory);
        for line in lines {
            let mut examined = examine_line(there, self.common, line);
            examined.program.command = as_described(self.host, self.common, line);
            examined.add_to(&mut answers);
        }
        Ok(answers)
    }
}

/// An error without the machine, which is named beside it.
fn in_words(error: Error) -> String {
    match error {
        Error::Unusable { why, .. } => why,
        error => error.to_string(),
    }
}

/// Writes the lock of the only program, or says why there is none.
fn write_lock(
    host: &Host,
    is_quiet: bool,
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
    let file = host.absolute(file);
    let found = match fleet.troubles() {
        none if none.is_empty() => common_lock(fleet.groups(), program),
        troubles => Err(NoCommonLock::Refused(troubles)),
    };
    match found {
        Ok(lock) => {
            let written = storage::publish_again(host, &file, lock::BEGIN, lock.text().as_bytes());
            written.map_err(|error| Error::unwritten(&file, error))?;
            if !is_quiet {
                say(&report::recorded(&file, lock.families.len()));
                say(&report::unverified(&fleet.groups()[0].cudarun, program));
            }
            Ok(Exit::Yes)
        }
        Err(none) => {
            say(&report::no_common_lock(&none, program));
            Ok(Exit::No)
        }
    }
}

/// Machines that are equal, and the libraries of the program there.
struct MachinesWithPicks<'g> {
    hosts: String,
    answers: &'g Answers,
    /// Each pick, and what fits in its place.
    picks: Vec<(&'g LockedFamily, Vec<&'g LockedFamily>)>,
}

impl<'g> MachinesWithPicks<'g> {
    fn of(group: &'g ExaminedGroup, program: &str) -> MachinesWithPicks<'g> {
        let answers = &group.answers;
        let own = answers.program(program);
        let at = |places: &'g [usize]| answers.at(places).collect::<Vec<_>>();
        let picks = own.into_iter().flat_map(|own| {
            let fitting = own.candidates.iter().map(|places| at(places));
            std::iter::zip(at(&own.picks), fitting)
        });
        MachinesWithPicks {
            hosts: host_list(group.group.machines.iter().map(|one| one.name.as_str())),
            answers,
            picks: picks.collect(),
        }
    }

    fn candidates(&self) -> impl Iterator<Item = &'g LockedFamily> {
        self.picks.iter().flat_map(|(_, fitting)| fitting).copied()
    }

    fn has(&self, family: &LockedFamily) -> bool {
        self.candidates().any(|own| is_same_build(own, family))
    }
}

/// Finds a lock for a program that every machine can obey: the picks of all of them, in which the newest build that is everywhere
/// replaces each that is not. The picks of the first machine count before others.
fn common_lock(groups: &[ExaminedGroup], program: &str) -> Result<Lock, NoCommonLock> {
    let place = |group| MachinesWithPicks::of(group, program);
    let places: Vec<MachinesWithPicks<'_>> = groups.iter().map(place).collect();
    let mut families: Vec<LockedFamily> = Vec::new();
    for (pick, fitting) in places.iter().flat_map(|place| &place.picks) {
        let is_chosen =
            |one: &&LockedFamily| families.iter().any(|known| is_same_build(known, one));
        if fitting.iter().any(is_chosen) {
            continue;
        }
        let everywhere = fitting
            .iter()
            .filter(|one| places.iter().all(|place| place.has(one)));
        // The pick itself is the best, wherever it is.
        let is_pick = |one: &&&LockedFamily| is_same_build(one, pick);
        match everywhere.max_by_key(|one| (is_pick(one), one.version)) {
            Some(found) => families.push((*found).clone()),
            None => return Err(nowhere(pick, &places)),
        }
    }
    if families.is_empty() {
        return Err(NoCommonLock::Nothing);
    }
    let gpus = places.iter().flat_map(|place| &place.answers.capabilities);
    let lock = lock_of(families, gpus.copied());
    let is_older = |place: &MachinesWithPicks<'_>| {
        let needed = lock.driver?;
        let own: Version = place.answers.machine[0].parse().ok()?;
        let why = report::older_driver(&own, &needed);
        (own < needed).then(|| (place.hosts.clone(), why))
    };
    match places.iter().filter_map(is_older).collect::<Vec<_>>() {
        none if none.is_empty() => Ok(lock),
        older => Err(NoCommonLock::Refused(older)),
    }
}

/// The versions of a library on all machines.
fn nowhere(family: &LockedFamily, places: &[MachinesWithPicks<'_>]) -> NoCommonLock {
    let versions = |place: &MachinesWithPicks<'_>| -> BTreeSet<String> {
        let own = place.candidates();
        let own = own.filter(|one| one.name == family.name);
        let version = |one: &LockedFamily| one.version.map(|version| version.to_string());
        own.map(|one| version(one).unwrap_or_else(|| "?".to_owned()))
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

fn is_same_build(one: &LockedFamily, other: &LockedFamily) -> bool {
    (&one.name, one.version, &one.build_ids) == (&other.name, other.version, &other.build_ids)
}
