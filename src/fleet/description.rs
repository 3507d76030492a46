//! A description of a machine: what `doctor --save` has found out there, as JSON. Its texts name no user when it is written,
//! and have no control characters when it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::privacy::Names;
use crate::host::Host;
use crate::image::Node;
use crate::settings::lock::Family;
use crate::text::{is_hostile, os, show};
use crate::version::ComputeCapability;

/// Raised when older versions of cudarun cannot read it.
const FORMAT: u64 = 2;
/// Upper limit; larger descriptions are refused.
const MAX_BYTES: u64 = 1 << 20;
/// Version 0.2 wrote TOML, which began with this key.
const OLD_BEGIN: &[u8] = b"about = ";

#[derive(Debug, Deserialize, Serialize)]
pub struct Description {
    pub format: u64,
    /// The version that wrote it.
    pub cudarun: String,
    pub answers: Answers,
    pub examination: DoctorPage,
    pub node: Node,
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
    pub libraries: Vec<Family>,
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

/// A program of `--for`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ProgramAnswer {
    #[serde(flatten)]
    pub program: ExaminedProgram,
    /// Places in [`Answers::libraries`]: what it gets, and all that is there of these families.
    pub picks: Vec<usize>,
    pub candidates: Vec<usize>,
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

impl DoctorPage {
    pub fn count(&self, severity: &str) -> usize {
        let is_it = |finding: &&ShownFinding| finding.severity == severity;
        self.findings.iter().filter(is_it).count()
    }
}

impl Answers {
    pub fn program(&self, command: &str) -> Option<&ProgramAnswer> {
        self.programs
            .iter()
            .find(|one| one.program.command == command)
    }

    /// The libraries at these places.
    pub fn at<'a>(&'a self, places: &'a [usize]) -> impl Iterator<Item = &'a Family> {
        places.iter().filter_map(|place| self.libraries.get(*place))
    }
}

impl Description {
    pub fn new(answers: Answers, examination: DoctorPage, node: Node) -> Description {
        Description {
            format: FORMAT,
            cudarun: env!("CARGO_PKG_VERSION").to_owned(),
            answers,
            examination,
            node,
        }
    }

    /// The text of the file, without names and secrets of the user of this machine. A fault of settings has an excerpt of a
    /// person's file after its first line.
    pub fn text(&self, host: &Host) -> String {
        let mut value = serde_json::to_value(self).unwrap_or_default();
        let mut texts = Vec::new();
        each_text(&mut value, &mut |text| texts.push(text.clone()));
        let names = Names::collect(host, texts.iter().map(String::as_str));
        each_text(&mut value, &mut |text| {
            *text = names.hide_line(text.lines().next().unwrap_or_default());
        });
        value.to_string() + "\n"
    }

    pub fn read(host: &Host, path: &Path) -> Result<Description, UnreadReason> {
        Description::parse(&bytes(host, path)?)
    }

    pub fn parse(bytes: &[u8]) -> Result<Description, UnreadReason> {
        part(bytes, "format")?;
        let mut value: Value = serde_json::from_slice(bytes).map_err(wrong)?;
        each_text(&mut value, &mut |text| {
            if text.contains(is_hostile) {
                *text = show(text);
            }
        });
        serde_json::from_value(value).map_err(wrong)
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

/// Returns the JSON of one key, if the format is this one.
pub(super) fn part<'b>(bytes: &'b [u8], key: &str) -> Result<&'b str, UnreadReason> {
    if bytes.starts_with(OLD_BEGIN) {
        return Err(UnreadReason::Old);
    }
    let all: BTreeMap<String, &RawValue> = serde_json::from_slice(bytes).map_err(wrong)?;
    let of = |key: &str| all.get(key).map(|value| value.get());
    match of("format").and_then(|format| format.parse().ok()) {
        Some(FORMAT) => of(key).ok_or(UnreadReason::NoDescription),
        Some(format) if format > FORMAT => Err(UnreadReason::Newer(format)),
        _ => Err(UnreadReason::NoDescription),
    }
}

fn wrong(error: serde_json::Error) -> UnreadReason {
    UnreadReason::Unusable(error.to_string())
}

/// Passes every text to `change`; the keys of objects as well.
fn each_text(value: &mut Value, change: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(values) => values.iter_mut().for_each(|one| each_text(one, change)),
        Value::Object(object) => {
            let entries = std::mem::take(object).into_iter();
            let changed = entries.map(|(mut key, mut one)| {
                change(&mut key);
                each_text(&mut one, change);
                (key, one)
            });
            *object = changed.collect::<Map<_, _>>();
        }
        _ => {}
    }
}
