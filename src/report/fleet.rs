//! The page of `fleet`: groups of equal machines, what programs get on each, and in what the groups differ.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

use super::Style;
use super::doctor::{gpus, sentence};
use super::hints::{argument, shell_words};
use super::style::SSH;
use super::words::{counted, joined, table, version, word};
use crate::catalog::display_name;
use crate::doctor::{Examination, Section, Severity, Stops};
use crate::environment::Environment;
use crate::fleet::{
    self, Answers, Difference, EqualMachines, ExaminedProgram, Fact, FactKind, There,
    UnmetRequirement, Unread, differences, host_list, is_kept,
};
use crate::inventory::Inventory;
use crate::requirements::Requirement;
use crate::storage;
use crate::text::{list, short, show};
use crate::version::Version;

/// Further differences of a group are only counted. Two that are compared are all that a page is about.
const SHOWN: usize = 4;
const SHOWN_OF_TWO: usize = 10;
/// The mode of programs whose loader takes the picks by itself.
const AS_IT_IS: &str = "none";
/// Versions of this family come first in a cell.
const FIRST: &str = "cuDNN";

/// Equal machines, and the answers of the first.
pub struct ExaminedGroup {
    pub group: EqualMachines,
    /// The beginning of commands that look at it.
    pub cudarun: String,
    pub answers: Answers,
    /// What the project here requires, and these machines lack.
    pub lacks: Vec<UnmetRequirement>,
}

/// The largest group first.
pub struct FleetReport {
    groups: Vec<ExaminedGroup>,
    pub(super) unread: Vec<Unread>,
    /// The command lines of all groups, in the order in which they were given.
    programs: Vec<String>,
    image: Option<PathBuf>,
}

impl ExaminedGroup {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.group
            .machines
            .iter()
            .map(|machine| machine.name.as_str())
    }

    pub(super) fn program(&self, command: &str) -> Option<&ExaminedProgram> {
        Some(&self.answers.program(command)?.program)
    }

    /// Why GPU programs, or this one, cannot work there.
    pub(super) fn trouble(&self, command: Option<&str>) -> Option<String> {
        if let Some(why) = &self.answers.stops {
            return Some(why.clone());
        }
        let mut lacks = self.lacks.iter();
        if let Some(first) = lacks.find(|one| one.there != There::Unknown) {
            let by = &first.requirement.asker().name;
            return Some(format!("{} {}", show(by), lacking(first, "it")));
        }
        self.trouble_of_program(command?)
    }

    pub(super) fn trouble_of_program(&self, command: &str) -> Option<String> {
        let Some(program) = self.program(command) else {
            return Some("its description was not written for this program".to_owned());
        };
        if program.is_missing {
            return Some("the program is not there".to_owned());
        }
        if program.is_refused {
            let last = program.faults.last().cloned();
            return Some(last.unwrap_or_else(|| "would not be started".to_owned()));
        }
        program.fails.clone()
    }

    fn cell(&self, command: &str) -> String {
        if let Some(why) = self.trouble(Some(command)) {
            return format!("no: {why}");
        }
        let Some(program) = self.program(command) else {
            return String::new();
        };
        let first = program
            .uses
            .iter()
            .find(|title| title.starts_with(FIRST))
            .or(program.uses.first());
        let mode = if program.mode == AS_IT_IS {
            "as it is".to_owned()
        } else {
            format!("mode {}", program.mode)
        };
        match (first, program.uses.len()) {
            (None, _) => "nothing to pick".to_owned(),
            (Some(first), 1) => format!("{first}; {mode}"),
            (Some(first), all) => format!("{first}, {} more; {mode}", all - 1),
        }
    }
}

impl FleetReport {
    /// `programs` are those of the options, and `image` is the option `--root`.
    pub fn new(
        groups: Vec<ExaminedGroup>,
        unread: Vec<Unread>,
        mut programs: Vec<String>,
        image: Option<PathBuf>,
    ) -> FleetReport {
        for answer in groups.iter().flat_map(|group| &group.answers.programs) {
            if !programs.contains(&answer.program.command) {
                programs.push(answer.program.command.clone());
            }
        }
        FleetReport {
            groups,
            unread,
            programs,
            image,
        }
    }

    /// The command lines of all groups.
    pub fn programs(&self) -> &[String] {
        &self.programs
    }

    /// The groups on which not all programs work, each with the reason.
    pub fn troubles(&self) -> Vec<(String, String)> {
        let mut troubles = Vec::new();
        for group in &self.groups {
            if let Some(why) = self.trouble(group) {
                troubles.push((host_list(group.names()), why));
            }
        }
        troubles
    }

    pub fn groups(&self) -> &[ExaminedGroup] {
        &self.groups
    }

    fn trouble(&self, group: &ExaminedGroup) -> Option<String> {
        group.trouble(None).or_else(|| {
            self.programs
                .iter()
                .find_map(|command| group.trouble(Some(command)))
        })
    }

    pub(super) fn works(&self, group: &ExaminedGroup) -> bool {
        self.trouble(group).is_none()
    }

    /// The machines on which all programs work, or the others.
    pub fn names(&self, is_good: bool) -> impl Iterator<Item = &str> {
        let groups = self.groups.iter();
        let unread = self.unread.iter();
        groups
            .filter(move |group| self.works(group) == is_good)
            .flat_map(ExaminedGroup::names)
            .chain(
                unread
                    .filter(move |one| !is_good && one.names_machine())
                    .filter_map(|one| one.path.file_stem()?.to_str()),
            )
    }

    pub fn is_good(&self) -> bool {
        self.names(false).next().is_none()
    }

    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty() || self.groups.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.groups
            .iter()
            .map(|group| group.group.machines.len())
            .sum()
    }

    fn verdict(&self) -> String {
        let all = self.count();
        let good = self.names(true).count();
        let what = match self.programs.as_slice() {
            [] => "GPU programs can work".to_owned(),
            [only] => format!("`{}` works", show(only)),
            programs => format!("all {} programs work", programs.len()),
        };
        let how_many = match good {
            _ if all == 0 => return "no description of a machine was read".to_owned(),
            0 if all > 1 => "none".to_owned(),
            _ if good == all && all > 1 => "all".to_owned(),
            _ => good.to_string(),
        };
        let unread = match self.unread.len() {
            0 => String::new(),
            unread => format!("; not read: {}", counted(unread, "description")),
        };
        format!(
            "{what} on {how_many} of {}{unread}",
            counted(all, "machine")
        )
    }

    /// The differences of a group from the largest one.
    pub(super) fn differences(&self, group: &ExaminedGroup) -> Vec<Difference> {
        let usual = &self.groups[0];
        differences([&group.answers, &usual.answers])
    }

    /// False if fewer machines are equal than there are other kinds: none of them is the usual one.
    fn has_usual(&self) -> bool {
        let largest = self
            .groups
            .first()
            .map_or(0, |group| group.group.machines.len());
        self.groups.len() <= largest + 1
    }

    /// A line for each difference of a group from the largest one.
    fn drift(&self, group: &ExaminedGroup) -> Vec<String> {
        let usual = &self.groups[0];
        let usual_has = match usual.group.machines.as_slice() {
            [only] => format!("{} has", only.name),
            machines => format!("{} of {} have", machines.len(), self.count()),
        };
        let shown = if self.groups.len() == 2 {
            SHOWN_OF_TWO
        } else {
            SHOWN
        };
        let mut lines = Vec::new();
        let differences = self.differences(group);
        for difference in differences.iter().take(shown) {
            lines.push(difference_line(difference, &usual_has));
        }
        if differences.len() > shown {
            let more = counted(differences.len() - shown, "more difference");
            lines.push(format!("{more}: `--json` shows all"));
        }
        if lines.is_empty() {
            let mut others = Vec::new();
            for (family, builds) in &group.answers.builds {
                if usual.answers.builds.get(family) != Some(builds) {
                    others.push(show(family));
                }
            }
            lines.push(if others.is_empty() {
                "no difference for GPU programs".to_owned()
            } else {
                format!("other builds of {} than {usual_has}", list(&others))
            });
        }
        lines
    }
}

/// `requires cuDNN ~9.10; gpu08 has 9.19.0`
pub(super) fn lacking(one: &UnmetRequirement, machine: &str) -> String {
    let what = match &one.requirement {
        Requirement::Library(library) => {
            let comma = if library.want.is_exact() { "," } else { "" };
            format!("{}{comma} {}", display_name(&library.family), library.want)
        }
        Requirement::Machine(machine) => machine.demand.to_string(),
    };
    let has = match &one.there {
        There::Unknown => format!("the description of {machine} does not tell"),
        There::Versions(none) if none.is_empty() => format!("{machine} has none"),
        There::Versions(versions) => format!("{machine} has {}", list(versions)),
        There::OtherBuilds(versions) => {
            format!("{machine} has other builds: {}", list(versions))
        }
    };
    format!("requires {what}; {has}")
}

/// The reason why no lock holds everywhere.
pub enum NoCommonLock {
    /// No build of this library is everywhere, although a version may be; machines, and their versions.
    Family {
        name: String,
        has_version: bool,
        on: Vec<(String, String)>,
    },
    /// Machines, and why the program does not start there.
    Refused(Vec<(String, String)>),
    /// The program gets no library.
    Nothing,
}

pub fn no_common_lock(none: &NoCommonLock, program: &str) -> String {
    let program = show(program);
    let (about, on) = match none {
        NoCommonLock::Nothing => {
            return format!("`{program}` needs no NVIDIA library: no lock is written");
        }
        NoCommonLock::Refused(on) => (format!("no set for `{program}` works on all machines"), on),
        NoCommonLock::Family {
            name,
            has_version,
            on,
        } => {
            let missing = if *has_version { "build" } else { "version" };
            (
                format!(
                    "no {missing} of {} for `{program}` is on all machines",
                    display_name(name)
                ),
                on,
            )
        }
    };
    let mut text = about;
    for (hosts, word) in on {
        text.push_str(&format!("\n  {hosts}: {word}"));
    }
    text
}

/// A lock was made of descriptions alone.
pub fn unverified(cudarun: &str, program: &str) -> String {
    let command = typed(cudarun, &format!("explain --locked {}", show(program)));
    format!("no machine has tried it: verify it on a node with `{command}`")
}

/// A command for a machine. That of a description has a home of another name.
fn typed(cudarun: &str, command: &str) -> String {
    let home = format!(" {}/", fleet::HOME);
    let whole = format!("{cudarun} {command}");
    if cudarun.starts_with(SSH) {
        whole.replace(&home, " ~/")
    } else {
        whole
    }
}

pub fn older_driver(own: &Version, needed: &Version) -> String {
    format!("its driver {own} is older than {needed}, which the lock needs")
}

/// A line for each description that cannot be used.
pub fn unread_descriptions(fleet: &FleetReport) -> impl Iterator<Item = String> {
    fleet
        .unread
        .iter()
        .map(|one| format!("{}: {}", show(&one.path), one.why))
}

pub fn fleet(fleet: &FleetReport, style: Style) -> String {
    let verdict = fleet.verdict();
    let mut text = if fleet.is_good() && !fleet.has_unread() {
        style.good(&verdict)
    } else {
        style.warning(&verdict)
    };
    text.push('\n');
    if !fleet.groups.is_empty() {
        let rows = fleet.table(style);
        text.push_str(&format!("\n{}", style.columns("", &rows)));
    }
    let differences = table("differences", &fleet.all_drift(), style);
    if !differences.is_empty() {
        text.push_str(&format!("\n{differences}"));
    }
    if !fleet.unread.is_empty() {
        text.push_str(&format!("\n{}\n", style.strong("not read")));
        for line in unread_descriptions(fleet) {
            text.push_str(&format!("  {line}\n"));
        }
    }
    match fleet.next() {
        Some(next) => text + &style.next(&next),
        None => text,
    }
}

impl FleetReport {
    /// A row for each group, below the titles.
    fn table(&self, style: Style) -> Vec<Vec<String>> {
        let mut titles = ["MACHINES", "N", "DRIVER", "GPU", "GLIBC"]
            .map(str::to_owned)
            .to_vec();
        titles.extend(self.programs.iter().map(show));
        if self.programs.is_empty() {
            titles.push("GPU PROGRAMS".to_owned());
        }
        let mut rows = vec![titles.iter().map(|title| style.strong(title)).collect()];
        for group in &self.groups {
            let mut row = vec![
                host_list(group.names()),
                group.group.machines.len().to_string(),
            ];
            row.extend(group.answers.machine.clone());
            row.extend(self.programs.iter().map(|command| group.cell(command)));
            if self.programs.is_empty() {
                row.push(match group.trouble(None) {
                    None => "can work".to_owned(),
                    Some(why) => format!("no: {why}"),
                });
            }
            rows.push(row);
        }
        rows
    }

    /// The differences of all groups from the largest one, each with its machines.
    fn all_drift(&self) -> Vec<Vec<String>> {
        if !self.has_usual() {
            let first_two = self.groups.iter().take(2);
            let files = first_two.map(|group| argument(group.group.machines[0].path.as_os_str()));
            let how = match self.image {
                Some(_) => "`--json` shows how they differ".to_owned(),
                None => format!(
                    "`cudarun fleet {}` shows how two differ",
                    joined(files, " ")
                ),
            };
            return vec![vec![format!("{} kinds", self.groups.len()), how]];
        }
        let mut rows = Vec::new();
        for group in self.groups.iter().skip(1) {
            let names = host_list(group.names());
            for line in self.drift(group) {
                rows.push(vec![names.clone(), line]);
            }
        }
        rows
    }

    /// The command that explains the first refusal.
    fn next(&self) -> Option<String> {
        if self.groups.is_empty() {
            return Some("cudarun doctor --save-in DIR, on each machine".to_owned());
        }
        let refused = self.groups.iter().find(|group| !self.works(group))?;
        if refused.answers.stops.is_some() {
            return Some(typed(&refused.cudarun, "doctor"));
        }
        let mut programs = self.programs.iter();
        let command = programs.find(|command| refused.trouble(Some(command)).is_some())?;
        if refused.program(command).is_none() {
            // A shell expands no `~` between quotes.
            let line = argument(command.as_ref()).replace(fleet::HOME, r#"'"$HOME"'"#);
            return Some(format!(
                "cudarun doctor --save-in DIR --for {line}, on {}",
                refused.group.machines[0].name
            ));
        }
        let words = shlex::split(command).unwrap_or_default();
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let verb = match words.as_slice() {
            [] => "doctor".to_owned(),
            words => format!("explain {}", shell_words(words)),
        };
        Some(typed(&refused.cudarun, &verb))
    }
}

/// A difference from the largest group; `usual_has` is its subject: `3 of 4 have`.
fn difference_line(difference: &Difference, usual_has: &str) -> String {
    let [own, usual] = difference.values.each_ref().map(Option::as_deref);
    match own {
        Some(own) if difference.is_finding => own.to_owned(),
        None if difference.is_finding => {
            format!("without what {usual_has}: {}", usual.unwrap_or_default())
        }
        _ => {
            let [own, usual] = [own, usual].map(|value| value.map_or("none".to_owned(), short));
            format!("{} {own}, where {usual_has} {usual}", difference.name)
        }
    }
}

/// What machines are compared by, without the programs.
pub fn answers(
    environment: &Environment,
    examination: &Examination,
    inventory: &Inventory,
) -> Answers {
    let driver = inventory.driver.as_ref();
    let machine = [
        driver.map_or("none".to_owned(), |driver| driver.version.to_string()),
        gpus(examination, inventory),
        version(inventory.glibc.as_ref()),
    ];
    let mut facts = Vec::new();
    for (name, value) in ["driver", "GPUs", "glibc"].into_iter().zip(&machine) {
        facts.push(Fact::new(FactKind::Machine, name, value.clone()));
    }
    let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for one in &inventory.installations {
        if one.family != "driver" {
            let text = format!("{} ({})", version(one.version.as_ref()), one.origin.word());
            let family = display_name(&one.family);
            versions.entry(family).or_default().insert(text);
        }
    }
    for (name, versions) in versions {
        let versions = joined(versions, ", ");
        facts.push(Fact::new(FactKind::Library, name, versions));
    }
    for (name, value) in environment.iter() {
        if let (Some(name), Some(value)) = (name.to_str(), value.to_str())
            && is_kept(name, value)
        {
            facts.push(Fact::new(FactKind::Variable, name, show(value)));
        }
    }
    for finding in &examination.findings {
        // Each machine has its own cache.
        if finding.severity != Severity::Note && finding.section() != Section::Cache {
            let fault = word(&finding.fault);
            facts.push(Fact::new(FactKind::Finding, &fault, sentence(finding)));
        }
    }
    facts.sort();
    Answers {
        machine,
        facts,
        stops: examination.stops(Stops::Programs).next().map(sentence),
        programs: Vec::new(),
        libraries: Vec::new(),
        builds: builds(inventory),
        capabilities: inventory.capabilities().collect(),
    }
}

/// By family, a digest of the build-ids of all its files.
fn builds(inventory: &Inventory) -> BTreeMap<String, String> {
    let mut builds: BTreeMap<&str, BTreeSet<&[u8]>> = BTreeMap::new();
    for one in &inventory.installations {
        let ids = one.files.iter().filter_map(|file| file.build_id.as_deref());
        let of_family = builds.entry(display_name(&one.family)).or_default();
        of_family.extend(ids.map(str::as_bytes));
    }
    let digests = builds.into_iter();
    digests
        .map(|(family, ids)| (family.to_owned(), storage::digest(ids)))
        .collect()
}
