//! FindingKind can be found: each with its name, where it belongs and what it keeps from working.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use crate::inventory::{self, Origin, Problem, Warning};
use crate::settings::{Fault, Remark, container::Malformed};
use crate::storage::Unfit;
use crate::version::{DriverVersion, Version};

#[derive(Clone, Debug)]
pub struct Finding {
    pub severity: Severity,
    pub what: FindingKind,
    pub evidence: Vec<Evidence>,
}

/// The worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No GPU program can work from here, or none can be started by us.
    Error,
    /// Some programs may fail, or get what nobody meant.
    Warning,
    /// Good to know.
    Note,
}

/// A part of the page, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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

/// Whom an error stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    Programs,
    /// A program that is started by cudarun, and no other.
    Us,
}

/// FindingKind is wrong. The names of these, in kebab case, are those of `--json` and of docs/doctor.md.
#[derive(Clone, Debug)]
pub enum FindingKind {
    NoDriver,
    DriverNotLoaded,
    NoModuleForKernel { release: String },
    Nouveau,
    DriverMismatch { installed: Version, kernel: DriverVersion },
    NoLibcuda { is_container: bool },
    LibcudaNotFound,
    LibcudaShadowed { given: Option<Version>, kernel: DriverVersion },
    WslWithoutGpu,
    WslLinuxDriver,
    NoGpu,
    ContainerWithoutGpus,
    DeviceNodesMissing,
    DeviceNotPermitted,
    UvmMissing,
    GpusHidden,
    NoSuchGpu { word: String, leaves_some: bool },
    CopyIncomplete { installation: Named, problem: Problem },
    CopyMixed { installation: Named, problem: Problem },
    CopyDamaged { installation: Named, problem: Problem },
    CopyNotAsInstalled { installation: Named, problem: Problem },
    CopyWorldWritable { installation: Named, problem: Problem },
    TwoOfOneSoname { installation: Named, problem: Problem },
    StubGiven { installation: Named, problem: Problem },
    PassedOver { first: Warning, more: usize },
    PathMissing { variable: &'static str },
    PathEmpty { directory: PathBuf },
    PathRelative { variable: &'static str },
    PathDuplicate,
    PathStubs,
    PathOtherDriver { version: Option<Version>, kernel: DriverVersion },
    PathOwnView,
    VersionsMixed { family: String, taken: Named, passed_over: Named },
    CompletedElsewhere { family: String, stems: Vec<String>, first: Named, rest: Named },
    PreloadMissing,
    PreloadLibrary { family: String },
    AuditSet { is_ours: bool },
    TunablesSet,
    OwnVariables { names: Vec<String> },
    SetAtStart { variables: BTreeSet<&'static str> },
    HookShadowed { variable: &'static str },
    SystemPreload,
    CacheStale { directory: PathBuf, name: String },
    CacheOfLoaderBad { fault: inventory::ReadFault },
    SettingFault { fault: Fault },
    UnknownKey { remark: Remark },
    NotAllowed { file: PathBuf, keys: BTreeSet<String> },
    LockFault { fault: Fault },
    LockNeedsDriver { needs: DriverVersion, kernel: DriverVersion },
    ImageConditionMalformed { malformed: Malformed },
    NoCache,
    CacheRefused { used: PathBuf },
    CacheFull { free: u64 },
    CacheNoexec,
}

/// An installation, as it is named.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    pub family: String,
    pub version: Option<Version>,
    pub origin: Origin,
    pub directory: PathBuf,
}

/// FindingKind a finding rests on.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// FindingKind a file says, in a line of it where that is known.
    File {
        path: PathBuf,
        line: Option<usize>,
        text: String,
    },
    Absent {
        path: PathBuf,
    },
    /// Who may use it: mode, and, where that is known of this machine, owner and group.
    Mode {
        path: PathBuf,
        mode: u32,
        owner: Option<(u32, u32)>,
    },
    /// A variable, whose value is nobody's secret.
    Variable {
        name: String,
        value: String,
    },
    /// The same without its value.
    Set {
        name: String,
    },
    /// A part of a list in a variable, from 1 on.
    Element {
        variable: &'static str,
        position: usize,
        text: OsString,
    },
    /// A card that the bus shows.
    Card {
        bus: String,
        id: String,
        model: Option<&'static str>,
        driver: Option<String>,
    },
    Installation(Named),
    /// A place that is refused, and why.
    Place {
        path: PathBuf,
        why: Unfit,
    },
}

impl Finding {
    pub(super) fn new(severity: Severity, what: FindingKind, evidence: Vec<Evidence>) -> Finding {
        Finding { severity, what, evidence }
    }

    pub(super) fn error(what: FindingKind, evidence: Vec<Evidence>) -> Finding {
        Finding::new(Severity::Error, what, evidence)
    }

    pub(super) fn warning(what: FindingKind, evidence: Vec<Evidence>) -> Finding {
        Finding::new(Severity::Warning, what, evidence)
    }

    pub(super) fn note(what: FindingKind, evidence: Vec<Evidence>) -> Finding {
        Finding::new(Severity::Note, what, evidence)
    }
}

impl Evidence {
    pub(super) fn file(path: impl Into<PathBuf>, text: impl Into<String>) -> Evidence {
        Evidence::File { path: path.into(), line: None, text: text.into() }
    }

    pub(super) fn absent(path: impl Into<PathBuf>) -> Evidence {
        Evidence::Absent { path: path.into() }
    }
}

impl FindingKind {
    pub fn section(&self) -> Section {
        use FindingKind as W;
        match self {
            W::NoDriver
            | W::DriverNotLoaded
            | W::NoModuleForKernel { .. }
            | W::Nouveau
            | W::DriverMismatch { .. }
            | W::NoLibcuda { .. }
            | W::LibcudaNotFound
            | W::LibcudaShadowed { .. }
            | W::WslLinuxDriver => Section::Driver,
            W::WslWithoutGpu
            | W::NoGpu
            | W::ContainerWithoutGpus
            | W::DeviceNodesMissing
            | W::DeviceNotPermitted
            | W::UvmMissing
            | W::GpusHidden
            | W::NoSuchGpu { .. } => Section::Gpus,
            W::CopyIncomplete { .. }
            | W::CopyMixed { .. }
            | W::CopyDamaged { .. }
            | W::CopyNotAsInstalled { .. }
            | W::CopyWorldWritable { .. }
            | W::TwoOfOneSoname { .. }
            | W::StubGiven { .. }
            | W::PassedOver { .. } => Section::Libraries,
            W::PathMissing { .. }
            | W::PathEmpty { .. }
            | W::PathRelative { .. }
            | W::PathDuplicate
            | W::PathStubs
            | W::PathOtherDriver { .. }
            | W::PathOwnView
            | W::VersionsMixed { .. }
            | W::CompletedElsewhere { .. }
            | W::PreloadMissing
            | W::PreloadLibrary { .. }
            | W::AuditSet { .. }
            | W::TunablesSet
            | W::OwnVariables { .. } => Section::Environment,
            W::SetAtStart { .. }
            | W::HookShadowed { .. }
            | W::SystemPreload
            | W::CacheStale { .. }
            | W::CacheOfLoaderBad { .. } => Section::StartUp,
            W::SettingFault { .. }
            | W::UnknownKey { .. }
            | W::NotAllowed { .. }
            | W::LockFault { .. }
            | W::LockNeedsDriver { .. }
            | W::ImageConditionMalformed { .. } => Section::Project,
            W::NoCache | W::CacheRefused { .. } | W::CacheFull { .. } | W::CacheNoexec => Section::Cache,
        }
    }

    /// Whom it stops, where it is an error.
    pub fn stops(&self) -> Stops {
        match self.section() {
            Section::Project | Section::Cache => Stops::Us,
            _ => Stops::Programs,
        }
    }

    /// Its name in JSON and in docs/doctor.md.
    pub fn code(&self) -> &'static str {
        use FindingKind as W;
        match self {
            W::NoDriver => "no-driver",
            W::DriverNotLoaded => "driver-not-loaded",
            W::NoModuleForKernel { .. } => "no-module-for-kernel",
            W::Nouveau => "nouveau",
            W::DriverMismatch { .. } => "driver-mismatch",
            W::NoLibcuda { .. } => "no-libcuda",
            W::LibcudaNotFound => "libcuda-not-found",
            W::LibcudaShadowed { .. } => "libcuda-shadowed",
            W::WslWithoutGpu => "wsl-without-gpu",
            W::WslLinuxDriver => "wsl-linux-driver",
            W::NoGpu => "no-gpu",
            W::ContainerWithoutGpus => "container-without-gpus",
            W::DeviceNodesMissing => "device-nodes-missing",
            W::DeviceNotPermitted => "device-not-permitted",
            W::UvmMissing => "uvm-missing",
            W::GpusHidden => "gpus-hidden",
            W::NoSuchGpu { .. } => "no-such-gpu",
            W::CopyIncomplete { .. } => "installation-incomplete",
            W::CopyMixed { .. } => "installation-mixed",
            W::CopyDamaged { .. } => "installation-damaged",
            W::CopyNotAsInstalled { .. } => "installation-not-as-installed",
            W::CopyWorldWritable { .. } => "installation-world-writable",
            W::TwoOfOneSoname { .. } => "two-of-one-soname",
            W::StubGiven { .. } => "stub-given",
            W::PassedOver { .. } => "passed-over",
            W::PathMissing { .. } => "path-missing",
            W::PathEmpty { .. } => "path-empty",
            W::PathRelative { .. } => "path-relative",
            W::PathDuplicate => "path-duplicate",
            W::PathStubs => "path-stubs",
            W::PathOtherDriver { .. } => "path-other-driver",
            W::PathOwnView => "path-own-view",
            W::VersionsMixed { .. } => "versions-mixed",
            W::CompletedElsewhere { .. } => "completed-elsewhere",
            W::PreloadMissing => "preload-missing",
            W::PreloadLibrary { .. } => "preload-library",
            W::AuditSet { .. } => "audit-set",
            W::TunablesSet => "tunables-set",
            W::OwnVariables { .. } => "own-variables",
            W::SetAtStart { .. } => "set-at-start",
            W::HookShadowed { .. } => "hook-shadowed",
            W::SystemPreload => "system-preload",
            W::CacheStale { .. } => "cache-stale",
            W::CacheOfLoaderBad { .. } => "cache-of-loader-bad",
            W::SettingFault { .. } => "setting-fault",
            W::UnknownKey { .. } => "unknown-key",
            W::NotAllowed { .. } => "not-allowed",
            W::LockFault { .. } => "lock-fault",
            W::LockNeedsDriver { .. } => "lock-needs-driver",
            W::ImageConditionMalformed { .. } => "image-condition-malformed",
            W::NoCache => "no-cache",
            W::CacheRefused { .. } => "cache-refused",
            W::CacheFull { .. } => "cache-full",
            W::CacheNoexec => "cache-noexec",
        }
    }
}
