//! A description of a machine: what `doctor --save` has found out there, as JSON. Its texts name no user when it is written,
//! and have no control characters when it is read. Keys, words and numbers stay as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::privacy::Names;
use crate::host::Host;
use crate::image::ContainerNode;
use crate::settings::lock::LockedFamily;
use crate::text::{is_hostile, os, show};
use crate::version::ComputeCapability;

/// Raised when older versions of cudarun cannot read it.
const FORMAT: u64 = 2;
/// Upper limit; larger descriptions are refused.
const MAX_BYTES: u64 = 1 << 20;
/// Version 0.2 wrote TOML, which began with this key.
const OLD_BEGIN: &[u8] = b"about = ";
/// Of each code and severity, further findings are only counted, and so is further evidence of a finding.
const MAX_FINDINGS: usize = 12;
const MAX_EVIDENCE: usize = 12;
/// Keys whose values stay as they are, with everything below them and wherever they are: words and numbers that hold nothing
/// private.
const WORDS: [&str; 17] = [
    "builds",
    "capabilities",
    "code",
    "cudarun",
    "devices",
    "driver",
    "gpus",
    "holds",
    "kind",
    "libraries",
    "machine",
    "mode",
    "name",
    "node",
    "section",
    "severity",
    "variable",
];

#[derive(Debug, Deserialize, Serialize)]
pub struct Description {
    pub format: u64,
    /// The version that wrote it.
    pub cudarun: String,
    pub answers: Answers,
    pub examination: DoctorPage,
    /// By code, what holds although another finding is reported in its place: that one.
    pub hidden: BTreeMap<String, ShownFinding>,
    pub node: ContainerNode,
}

/// The reason why a description cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UnreadReason {
    #[error("{}", os(.0))]
    Io(io::Error),
    #[error("it is too large for a description")]
    TooLarge,
    #[error("no machine can have this name")]
    NotAName,
    #[error("{} describes a machine of this name", show(.0))]
    Twice(PathBuf),
    #[error("it is not a description of a machine")]
    NoDescription,
    #[error("a newer cudarun wrote it, in format {0}")]
    Newer(u64),
    #[error("version 0.2 wrote it: type `cudarun doctor --save FILE` again on that machine")]
    Old,
    #[error("{}", show(.0))]
    Unusable(String),
}

impl From<serde_json::Error> for UnreadReason {
    fn from(error: serde_json::Error) -> UnreadReason {
        UnreadReason::Unusable(error.to_string())
    }
}

/// What machines are compared by.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Answers {
    /// The driver, the GPUs and the C library.
    pub machine: [String; 3],
    pub facts: Vec<Fact>,
    /// Why no GPU program works there.
    pub stops: Option<String>,
    pub programs: Vec<ProgramAnswer>,
    /// The libraries that the programs get or could get, as a lock names them.
    pub libraries: Vec<LockedFamily>,
    /// By family, a digest of the build-ids of all its files.
    pub builds: BTreeMap<String, String>,
    pub capabilities: BTreeSet<ComputeCapability>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FactKind {
    Machine,
    Library,
    Variable,
    Finding,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct Fact {
    pub kind: FactKind,
    pub name: String,
    pub value: String,
}

impl Fact {
    pub fn new(kind: FactKind, name: &str, value: String) -> Fact {
        Fact {
            kind,
            name: name.to_owned(),
            value,
        }
    }
}

/// A program of `--for`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ProgramAnswer {
    #[serde(flatten)]
    pub program: ExaminedProgram,
    /// Indexes of [`Answers::libraries`]: what it gets, and for each of these all that fits in its place, itself among them.
    pub picks: Vec<usize>,
    pub candidates: Vec<Vec<usize>>,
}

/// A program that was examined.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ExaminedProgram {
    pub command: String,
    /// The versions that cudarun would give it.
    pub uses: Vec<String>,
    /// Installations that the loader would mix or prefer without cudarun, and the reason for a refusal.
    pub faults: Vec<String>,
    #[serde(rename = "refused")]
    pub is_refused: bool,
    /// The reason why it cannot use a GPU, although cudarun starts it.
    pub fails: Option<String>,
    pub mode: String,
    /// Wheels of what it lacks are on offer.
    pub can_fetch: bool,
    /// Its script is not there.
    #[serde(rename = "missing")]
    pub is_missing: bool,
}

/// All that `doctor` prints: its page and its JSON are made of it.
#[derive(Debug, Deserialize, Serialize)]
pub struct DoctorPage {
    pub works: bool,
    pub verdict: String,
    /// As in the JSON of every verb.
    pub driver: Value,
    pub gpus: Value,
    pub devices: Vec<String>,
    pub programs: Vec<ExaminedProgram>,
    pub sections: Vec<SectionSummary>,
    pub findings: Vec<ShownFinding>,
    /// Of the search paths.
    pub elements: Vec<ShownElement>,
    /// The files with settings.
    pub settings: Vec<String>,
    pub lock: Option<String>,
    pub cache: ShownCache,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct SectionSummary {
    pub section: String,
    pub says: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ShownFinding {
    pub severity: String,
    pub section: String,
    pub code: String,
    pub what: String,
    pub evidence: Vec<ShownEvidence>,
    pub remedy: Option<String>,
    /// Evidence, and findings of this code, that a description leaves out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_evidence: usize,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ShownEvidence {
    pub at: String,
    pub says: String,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct ShownElement {
    pub variable: String,
    /// Starts at 1.
    pub position: usize,
    pub text: String,
    pub leads_to: Option<String>,
    pub holds: Vec<ShownLibrary>,
    /// Lines that may have set it.
    pub set_by: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct ShownLibrary {
    pub family: String,
    pub version: Option<String>,
    pub origin: String,
}

#[derive(Debug, Deserialize, Serialize)]
pub struct ShownCache {
    pub directory: Option<String>,
    pub starts: usize,
    pub views: usize,
    pub bytes: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl DoctorPage {
    pub fn count(&self, severity: &str) -> usize {
        let mut count = 0;
        for finding in &self.findings {
            if finding.severity == severity {
                count += 1 + finding.more;
            }
        }
        count
    }

    /// The last finding that is kept of a code tells how many are not.
    fn shorten(&mut self) {
        let mut findings: Vec<ShownFinding> = Vec::new();
        for mut finding in std::mem::take(&mut self.findings) {
            let mut same: Vec<&mut ShownFinding> = findings.iter_mut().collect();
            same.retain(|one| one.code == finding.code && one.severity == finding.severity);
            if same.len() == MAX_FINDINGS {
                same[MAX_FINDINGS - 1].more += 1;
                continue;
            }
            finding.more_evidence = finding.evidence.len().saturating_sub(MAX_EVIDENCE);
            finding.evidence.truncate(MAX_EVIDENCE);
            findings.push(finding);
        }
        self.findings = findings;
    }
}

impl Answers {
    pub fn program(&self, command: &str) -> Option<&ProgramAnswer> {
        self.programs
            .iter()
            .find(|answer| answer.program.command == command)
    }

    /// The libraries with these indexes.
    pub fn at<'a>(&'a self, indexes: &'a [usize]) -> impl Iterator<Item = &'a LockedFamily> {
        indexes.iter().map(|index| &self.libraries[*index])
    }
}

impl Description {
    pub fn new(
        answers: Answers,
        mut examination: DoctorPage,
        hidden: BTreeMap<String, ShownFinding>,
        node: ContainerNode,
    ) -> Description {
        examination.shorten();
        Description {
            format: FORMAT,
            cudarun: env!("CARGO_PKG_VERSION").to_owned(),
            answers,
            examination,
            hidden,
            node,
        }
    }

    /// The text of the file, without names and secrets of the user of this machine.
    pub fn text(&self, host: &Host) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        let mut texts = Vec::new();
        each_text(&mut value, &WORDS, &mut |text| texts.push(text.clone()));
        let names = Names::collect(host, &texts);
        each_text(&mut value, &WORDS, &mut |text| {
            *text = names.hide_line(text);
        });
        // Only values of variables and findings hold names; versions and origins stay as they were. Hidden names may change the
        // order, and equal machines are to be equal.
        let mut facts = self.answers.facts.clone();
        for fact in &mut facts {
            if [FactKind::Variable, FactKind::Finding].contains(&fact.kind) {
                fact.value = names.hide_line(&fact.value);
            }
        }
        facts.sort();
        value["answers"]["facts"] = serde_json::to_value(facts).unwrap_or_default();
        value.to_string() + "\n"
    }

    pub fn read(host: &Host, path: &Path) -> Result<Description, UnreadReason> {
        Description::parse(&bytes(host, path)?)
    }

    pub fn parse(bytes: &[u8]) -> Result<Description, UnreadReason> {
        part(bytes, "format")?;
        let mut value: Value = serde_json::from_slice(bytes)?;
        // A command is compared as it is, and shown wherever it is printed.
        each_text(&mut value, &["command"], &mut |text| {
            if text.contains(is_hostile) {
                *text = show(text);
            }
        });
        let description: Description = serde_json::from_value(value)?;
        let count = description.answers.libraries.len();
        for program in &description.answers.programs {
            for index in program
                .picks
                .iter()
                .chain(program.candidates.iter().flatten())
            {
                if *index >= count {
                    return Err(UnreadReason::Unusable(format!(
                        "a program has library {index}, and there are {count}"
                    )));
                }
            }
        }
        Ok(description)
    }
}

pub(super) fn bytes(host: &Host, path: &Path) -> Result<Vec<u8>, UnreadReason> {
    let bytes = host
        .read_start(&host.absolute(path), MAX_BYTES + 1)
        .map_err(UnreadReason::Io)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(UnreadReason::TooLarge);
    }
    Ok(bytes)
}

/// The JSON of one key, if the format is this one.
pub(super) fn part<'b>(bytes: &'b [u8], key: &str) -> Result<&'b str, UnreadReason> {
    if bytes.starts_with(OLD_BEGIN) {
        return Err(UnreadReason::Old);
    }
    let parts: BTreeMap<String, &RawValue> = serde_json::from_slice(bytes)?;
    let format = parts
        .get("format")
        .and_then(|format| format.get().parse().ok());
    match (format, parts.get(key)) {
        (Some(FORMAT), Some(part)) => Ok(part.get()),
        (Some(format), _) if format > FORMAT => Err(UnreadReason::Newer(format)),
        _ => Err(UnreadReason::NoDescription),
    }
}

/// The commands of the programs, as one text.
pub(super) fn commands(bytes: &[u8]) -> Result<String, UnreadReason> {
    let answers: Value = serde_json::from_str(part(bytes, "answers")?)?;
    let programs = answers["programs"].as_array().into_iter().flatten();
    Ok(programs
        .map(|program| program["command"].to_string())
        .collect())
}

/// Passes every text to `change` but those of these keys. Keys are ours: names of fields, families and libraries.
fn each_text(value: &mut Value, unchanged: &[&str], change: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(values) => {
            for value in values {
                each_text(value, unchanged, change);
            }
        }
        Value::Object(object) => {
            for (key, value) in object {
                if !unchanged.contains(&key.as_str()) {
                    each_text(value, unchanged, change);
                }
            }
        }
        _ => {}
    }
}
