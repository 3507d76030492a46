//! The rows of `profiles/errors.toml`, whose head explains the fields. The build script includes this file.

use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};

use super::Fault;

/// `errors.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    pub error: Vec<ErrorRow>,
}

/// The variants of an error message, and their possible causes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRow {
    pub id: String,
    pub kind: ErrorKind,
    pub regex: Vec<String>,
    /// For each regex, texts one of which is in every match: the build script adds them.
    #[serde(default)]
    pub literals: Vec<Vec<String>>,
    pub sample: Vec<String>,
    /// The frameworks that print it; none if any program may.
    #[serde(default)]
    pub by: Vec<String>,
    #[serde(default)]
    pub also: Vec<String>,
    #[serde(default)]
    pub cause: Vec<PossibleCause>,
    /// Numbers of errors of CUDA's driver and runtime that mean the same.
    #[serde(default)]
    pub code: Vec<u32>,
    /// It tells little about the cause: clues in the message's words tell more. Of a clue: it is weak.
    #[serde(default)]
    pub general: bool,
    #[serde(default)]
    pub threads: u32,
    #[serde(default)]
    pub states: Option<States>,
    pub source: String,
    pub date: String,
}

/// `clues.toml`, whose head explains the fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clues {
    /// A regex: one of these words is in a line that has a clue.
    pub failing: String,
    /// A regex: what it matches is no failure, even if one of those words is in it.
    pub fine: String,
    pub argument: Vec<CauseArgument>,
    pub clue: Vec<ClueRow>,
}

/// What these causes of a clue are about.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CauseArgument {
    pub of: Argument,
    pub cause: Vec<Fault>,
}

/// Words that tell what a failure is about, and the causes that it has then.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClueRow {
    pub id: String,
    pub regex: Vec<String>,
    /// As those of an error; none if a regex has to be tried on each line.
    #[serde(default)]
    pub literals: Vec<Vec<String>>,
    pub cause: Vec<Fault>,
    /// It tells less than a general row of `errors.toml`.
    #[serde(default)]
    pub weak: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    Root,
    /// It follows from another error, which may be in the log as well.
    Symptom,
    /// It only names a part and a failure: a row of `clues.toml`.
    #[serde(skip)]
    Clue,
    /// It appears in programs that work.
    Harmless,
}

/// The part that a machine has if it prints a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum States {
    Driver,
    Gpu,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PossibleCause {
    pub cause: Fault,
    /// What the fault is about; other arguments of its check.
    #[serde(default)]
    pub of: Option<Argument>,
    #[serde(default)]
    pub wanted: Option<Argument>,
    #[serde(default)]
    pub symbol: Option<Argument>,
    #[serde(default)]
    pub and: Option<Argument>,
    #[serde(default)]
    pub stated: bool,
    #[serde(default)]
    pub unsure: bool,
}

/// A named group of a regex: a fact that the message states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capture {
    /// A SONAME, or the name of another library file.
    Soname,
    /// A file that needs or opens something.
    Path,
    Symbol,
    /// The version of the library that is there.
    Found,
    /// The version, or the least version, that the program wants.
    Wanted,
    /// A CUDA version that is there.
    Cuda,
    /// A GPU architecture or compute capability: `89`, `sm_121a`, `7.5`.
    Arch,
    /// An ISA version of PTX.
    Ptx,
    /// The name or number of a status.
    Status,
    /// The number of an error of CUDA's driver or runtime: the row is the one that has this number.
    Code,
    /// A header file.
    Header,
    /// The newest version of the compiler that is accepted.
    Ceiling,
    /// The version of the kernel driver.
    Driver,
}

/// An argument of a check: `"$soname"` is the text of a named group, any other text is meant literally.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Argument {
    Captured(Capture),
    Literal(String),
}

impl TryFrom<String> for Argument {
    type Error = Error;

    fn try_from(text: String) -> Result<Argument, Error> {
        let Some(name) = text.strip_prefix('$') else {
            return Ok(Argument::Literal(text));
        };
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        Capture::deserialize(name).map(Argument::Captured)
    }
}
