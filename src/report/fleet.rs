//! The page of `fleet`: groups of equal machines, what programs get on each, and in what the groups differ.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use super::Style;
use super::doctor::{gpus, sentence};
use super::hints::{argument, shell_words};
use super::style::SSH;
use super::words::{counted, version, word};
use crate::catalog::{Family, catalog, display_name};
use crate::doctor::{Examination, Section, Severity, Stops};
use crate::environment::Environment;
use crate::fleet::{
    self, Answers, EqualMachines, ExaminedProgram, Fact, FactKind, Unread, host_list, is_kept,
};
use crate::inventory::Inventory;
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
}

/// The largest group first.
pub struct FleetReport {
    groups: Vec<ExaminedGroup>,
    unread: Vec<Unread>,
    /// The command lines of all groups, in the order in which they were given.
    programs: Vec<String>,
    image: Option<PathBuf>,
}

impl ExaminedGroup {
    fn names(&self) -> impl Iterator<Item = &str> {
        self.group
            .machines
            .iter()
            .map(|machine| machine.name.as_str())
    }

    fn program(&self, command: &str) -> Option<&ExaminedProgram> {
        Some(&self.answers.program(command)?.program)
    }

    /// Why GPU programs, or this one, cannot work there.
    fn trouble(&self, command: Option<&str>) -> Option<String> {
        if let Some(why) = &self.answers.stops {
            return Some(why.clone());
        }
        let program = self.program(command?);
        let why = |program: &ExaminedProgram| {
            let last = program.faults.last().cloned();
            last.unwrap_or_else(|| "would not be started".to_owned())
        };
        match program {
            None => Some("its description was not written for this program".to_owned()),
            Some(program) if program.is_missing => Some("the program is not there".to_owned()),
            Some(program) if program.is_refused => Some(why(program)),
            Some(program) => program.fails.clone(),
        }
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
        for one in groups.iter().flat_map(|group| &group.answers.programs) {
            if !programs.contains(&one.program.command) {
                programs.push(one.program.command.clone());
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
        let of = |group| Some((host_list(ExaminedGroup::names(group)), self.trouble(group)?));
        self.groups.iter().filter_map(of).collect()
    }

    pub fn groups(&self) -> &[ExaminedGroup] {
        &self.groups
    }

    fn trouble(&self, group: &ExaminedGroup) -> Option<String> {
        let of_programs = || {
            self.programs
                .iter()
                .find_map(|command| group.trouble(Some(command)))
        };
        group.trouble(None).or_else(of_programs)
    }

    fn works(&self, group: &ExaminedGroup) -> bool {
        self.trouble(group).is_none()
    }

    /// The machines on which all programs work, or the others.
    pub fn names(&self, is_good: bool) -> impl Iterator<Item = &str> {
        let unread = self
            .unread
            .iter()
            .filter(move |one| !is_good && one.names_machine());
        let unread = unread.filter_map(|one| one.path.file_stem()?.to_str());
        let groups = self
            .groups
            .iter()
            .filter(move |group| self.works(group) == is_good);
        groups.flat_map(ExaminedGroup::names).chain(unread)
    }

    pub fn is_good(&self) -> bool {
        self.names(false).next().is_none()
    }

    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty() || self.groups.is_empty()
    }

    fn count(&self) -> usize {
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
        let good = match good {
            _ if all == 0 => return "no description of a machine was read".to_owned(),
            0 if all > 1 => "none".to_owned(),
            _ if good == all && all > 1 => "all".to_owned(),
            _ => good.to_string(),
        };
        let unread = match self.unread.len() {
            0 => String::new(),
            unread => format!("; not read: {}", counted(unread, "description")),
        };
        format!("{what} on {good} of {}{unread}", counted(all, "machine"))
    }

    /// The differences of a group from the largest one.
    fn differences(&self, group: &ExaminedGroup) -> Vec<Difference> {
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

    fn drift(&self, group: &ExaminedGroup) -> Vec<String> {
        let usual = &self.groups[0].group.machines;
        let of = match usual.as_slice() {
            [only] => format!("{} has", only.name),
            usual => format!("{} of {} have", usual.len(), self.count()),
        };
        let differences = self.differences(group);
        let line = |one: &Difference| match (&one.values, one.is_finding) {
            ([Some(own), _], true) => own.clone(),
            ([None, _], true) => {
                format!(
                    "without what {of}: {}",
                    one.values[1].as_deref().unwrap_or_default()
                )
            }
            (values, false) => {
                let [own, usual] = values
                    .each_ref()
                    .map(|value| value.as_deref().map_or("none".to_owned(), short));
                format!("{} {own}, where {of} {usual}", one.name)
            }
        };
        let shown = if self.groups.len() == 2 {
            SHOWN_OF_TWO
        } else {
            SHOWN
        };
        let mut lines: Vec<String> = differences.iter().take(shown).map(line).collect();
        if let Some(more) = differences
            .len()
            .checked_sub(shown)
            .filter(|more| *more > 0)
        {
            lines.push(format!(
                "{}: `--json` shows all",
                counted(more, "more difference")
            ));
        }
        if lines.is_empty() {
            let (own, usual) = (&group.answers.builds, &self.groups[0].answers.builds);
            let others = own
                .iter()
                .filter(|(family, builds)| usual.get(*family) != Some(builds));
            let others: Vec<String> = others.map(|(family, _)| show(family)).collect();
            let builds = format!("other builds of {} than {of}", list(&others));
            let files = || "no difference for GPU programs".to_owned();
            lines.push(if others.is_empty() { files() } else { builds });
        }
        lines
    }
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
    let lines = on
        .iter()
        .map(|(hosts, word)| format!("\n  {hosts}: {word}"));
    format!("{about}{}", lines.collect::<String>())
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
    let verdict = if fleet.is_good() && !fleet.has_unread() {
        style.good(&verdict)
    } else {
        style.warning(&verdict)
    };
    let (head, rows) = fleet.table();
    let rows: Vec<Vec<String>> =
        std::iter::once(head.iter().map(|title| style.strong(title)).collect())
            .chain(rows)
            .collect();
    let mut text = format!("{verdict}\n");
    if !fleet.groups.is_empty() {
        text.push_str(&format!("\n{}", style.columns("", &rows)));
    }
    let drift = fleet.all_drift();
    if !drift.is_empty() {
        text.push_str(&format!(
            "\n{}\n{}",
            style.strong("differences"),
            style.columns("  ", &drift)
        ));
    }
    let unread: Vec<String> = unread_descriptions(fleet).collect();
    if !unread.is_empty() {
        text.push_str(&format!("\n{}\n", style.strong("not read")));
        for line in &unread {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text + &fleet
        .next()
        .map(|next| style.next(&next))
        .unwrap_or_default()
}

impl FleetReport {
    /// A row for each group, below its titles.
    fn table(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut head: Vec<String> = ["MACHINES", "N", "DRIVER", "GPU", "GLIBC"]
            .map(str::to_owned)
            .to_vec();
        head.extend(self.programs.iter().map(show));
        let row = |group: &ExaminedGroup| {
            let mut row = vec![
                host_list(group.names()),
                group.group.machines.len().to_string(),
            ];
            row.extend(group.answers.machine.clone());
            row.extend(self.programs.iter().map(|command| group.cell(command)));
            row
        };
        let mut rows: Vec<Vec<String>> = self.groups.iter().map(row).collect();
        if self.programs.is_empty() {
            head.push("GPU PROGRAMS".to_owned());
            for (row, group) in rows.iter_mut().zip(&self.groups) {
                row.push(
                    group
                        .trouble(None)
                        .map_or_else(|| "can work".to_owned(), |why| format!("no: {why}")),
                );
            }
        }
        (head, rows)
    }

    /// The differences of all groups from the largest one, each with its machines.
    fn all_drift(&self) -> Vec<Vec<String>> {
        if let ([a, b, ..], false) = (self.groups.as_slice(), self.has_usual()) {
            let file = |group: &ExaminedGroup| argument(group.group.machines[0].path.as_os_str());
            let how = match self.image {
                Some(_) => "`--json` shows how they differ".to_owned(),
                None => format!(
                    "`cudarun fleet {} {}` shows how two differ",
                    file(a),
                    file(b)
                ),
            };
            return vec![vec![format!("{} kinds", self.groups.len()), how]];
        }
        let of = |group: &ExaminedGroup| {
            let names = host_list(group.names());
            self.drift(group)
                .into_iter()
                .map(move |line| vec![names.clone(), line])
                .collect::<Vec<_>>()
        };
        self.groups.iter().skip(1).flat_map(of).collect()
    }

    /// The command that explains the first refusal.
    fn next(&self) -> Option<String> {
        if self.groups.is_empty() {
            return Some("cudarun doctor --save-in DIR, on each machine".to_owned());
        }
        let refused = self.groups.iter().find(|group| !self.works(group))?;
        let machine = &refused.group.machines[0];
        let is_bad = |command: &&String| refused.trouble(Some(command)).is_some();
        let command = self
            .programs
            .iter()
            .find(is_bad)
            .filter(|_| refused.trouble(None).is_none());
        if let Some(command) = command.filter(|command| refused.program(command).is_none()) {
            // A shell expands no `~` between quotes.
            let line = argument(command.as_ref()).replace(fleet::HOME, r#"'"$HOME"'"#);
            return Some(format!(
                "cudarun doctor --save-in DIR --for {line}, on {}",
                machine.name
            ));
        }
        let words = command
            .and_then(|command| shlex::split(command))
            .unwrap_or_default();
        let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
        let verb = match words.as_slice() {
            [] => "doctor".to_owned(),
            words => format!("explain {}", shell_words(words)),
        };
        Some(typed(&refused.cudarun, &verb))
    }

    pub(super) fn json(&self) -> Value {
        let program = |group: &ExaminedGroup, command: &String| {
            let found = group.program(command);
            json!({
                "command": command,
                "works": group.trouble(Some(command)).is_none(),
                "why_not": group.trouble(Some(command)),
                "uses": found.map(|one| &one.uses),
                "mode": found.map(|one| &one.mode),
            })
        };
        let group = |group: &ExaminedGroup| {
            let [driver, gpus, glibc] = &group.answers.machine;
            json!({
                "machines": group.names().collect::<Vec<_>>(),
                "hosts": host_list(group.names()),
                "driver": driver,
                "gpus": gpus,
                "glibc": glibc,
                "works": self.works(group),
                "why_not": group.trouble(None),
                "programs": self.programs.iter().map(|command| program(group, command)).collect::<Vec<_>>(),
                "differences": self.differences(group),
            })
        };
        let unread = |one: &Unread| json!({ "path": show(&one.path), "why": one.why.to_string() });
        json!({
            "machines": self.count(),
            "good": host_list(self.names(true)),
            "bad": host_list(self.names(false)),
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
            "unread": self.unread.iter().map(unread).collect::<Vec<_>>(),
        })
    }
}

/// What machines are compared by, without the programs.
pub fn answers(env: &Environment, examination: &Examination, inventory: &Inventory) -> Answers {
    let driver = inventory.driver.as_ref();
    let machine = [
        driver.map_or("none".to_owned(), |driver| driver.version.to_string()),
        gpus(examination, inventory),
        version(inventory.glibc.as_ref()),
    ];
    let fact = |kind, name: &str, value| Fact {
        kind,
        name: name.to_owned(),
        value,
    };
    let of_machine = ["driver", "GPUs", "glibc"].into_iter().zip(&machine);
    let of_machine = of_machine.map(|(name, value)| fact(FactKind::Machine, name, value.clone()));
    let mut versions: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut builds: BTreeMap<&str, BTreeSet<&[u8]>> = BTreeMap::new();
    for one in &inventory.installations {
        let family = display_name(&one.family);
        if one.family != "driver" {
            let text = format!("{} ({})", version(one.version.as_ref()), one.origin.word());
            versions.entry(family).or_default().insert(text);
        }
        let ids = one.files.iter().filter_map(|file| file.build_id.as_deref());
        builds
            .entry(family)
            .or_default()
            .extend(ids.map(str::as_bytes));
    }
    let libraries = versions.into_iter().map(|(name, versions)| {
        let versions: Vec<String> = versions.into_iter().collect();
        fact(FactKind::Library, name, versions.join(", "))
    });
    let variables = env.iter().filter_map(|(name, value)| {
        let (name, value) = (name.to_str()?, value.to_str()?);
        is_kept(name, value).then(|| fact(FactKind::Variable, name, show(value)))
    });
    // Each machine has its own cache.
    let counts = examination.findings.iter().filter(|finding| {
        finding.severity != Severity::Note && finding.section() != Section::Cache
    });
    let findings =
        counts.map(|finding| fact(FactKind::Finding, &word(&finding.fault), sentence(finding)));
    let mut facts: Vec<Fact> = of_machine
        .chain(libraries)
        .chain(variables)
        .chain(findings)
        .collect();
    facts.sort();
    Answers {
        machine,
        facts,
        stops: examination.stops(Stops::Programs).next().map(sentence),
        programs: Vec::new(),
        libraries: Vec::new(),
        builds: builds
            .into_iter()
            .map(|(family, ids)| (family.to_owned(), storage::digest(ids)))
            .collect(),
        capabilities: inventory.capabilities().collect(),
    }
}

/// A fact in which two sides differ.
#[derive(Serialize)]
struct Difference {
    pub name: String,
    /// In the order of the sides, what the other one has not.
    pub values: [Option<String>; 2],
    pub is_finding: bool,
}

/// All in which two sides differ but programs. The libraries that decide most come before others, because a page shows only
/// the first differences.
fn differences(sides: [&Answers; 2]) -> Vec<Difference> {
    let facts = sides.map(|side| {
        let mut facts: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
        for fact in &side.facts {
            let values = facts.entry((fact.kind, &fact.name)).or_default();
            values.insert(&fact.value);
        }
        facts
    });
    let mut keys: Vec<_> = facts.iter().flat_map(BTreeMap::keys).collect();
    keys.sort_by_key(|(kind, name)| (kind, place(*kind, name), name));
    keys.dedup();
    let difference = |key: &(FactKind, &String)| {
        let [own, other] = facts
            .each_ref()
            .map(|facts| facts.get(key).cloned().unwrap_or_default());
        let values = [&own - &other, &other - &own];
        let joined = |all: BTreeSet<&str>| Vec::from_iter(all).join("; ");
        Difference {
            name: key.1.clone(),
            values: values.map(|all| (!all.is_empty()).then(|| joined(all))),
            is_finding: key.0 == FactKind::Finding,
        }
    };
    let all = keys.into_iter().map(difference);
    all.filter(|one| one.values != [None, None]).collect()
}

/// The place of a library among all, in the order in which they are decided; that of other facts is one.
fn place(kind: FactKind, name: &str) -> Option<usize> {
    let is_it = |one: &Family| kind == FactKind::Library && display_name(&one.name) == name;
    catalog().families.iter().position(is_it)
}
