//! The rows of `profiles/faults.toml`, whose head explains the fields. The build script includes this file.

use serde::{Deserialize, Serialize};

use super::Fault;

/// `faults.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faults {
    pub fault: Vec<FaultRow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRow {
    pub name: Fault,
    pub says: String,
    #[serde(default)]
    pub here: String,
    #[serde(default)]
    pub cure: String,
    #[serde(default)]
    pub other_cure: String,
    #[serde(default)]
    pub section: Option<Section>,
    #[serde(default)]
    pub severity: Vec<Severity>,
    #[serde(default)]
    pub note: String,
    #[serde(default)]
    pub cases: Vec<Fault>,
    #[serde(default)]
    pub proof: Option<AfterProof>,
}

/// A section of doctor's page, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Section {
    Driver,
    Gpus,
    Libraries,
    Environment,
    StartUp,
    Project,
    Cache,
}

impl Section {
    pub const ALL: [Section; 7] = [
        Section::Driver,
        Section::Gpus,
        Section::Libraries,
        Section::Environment,
        Section::StartUp,
        Section::Project,
        Section::Cache,
    ];
}

/// The worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No GPU program can work here, or cudarun can start none.
    Error,
    /// Some programs may fail, or load unintended libraries.
    Warning,
    /// Good to know.
    Note,
}

/// What follows a proof that failed by a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterProof {
    /// Another set of libraries may pass.
    OtherPlan,
    /// It may pass a moment later, with nothing changed.
    Transient,
    Final,
}
