//! The findings: each with its code, its section and the programs that it stops.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;

use serde::Serialize;

use crate::inventory::{self, Extension, Installation, Problem, Warning};
use crate::settings::{Remark, SettingFault, container::Malformed};
use crate::solve::Summary;
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
    /// No GPU program can work here, or cudarun can start none.
    Error,
    /// Some programs may fail, or load unintended libraries.
    Warning,
    /// Good to know.
    Note,
}

/// A section of the page, in order.
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

/// The programs that an error stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    Programs,
    /// Only programs that cudarun starts.
    Us,
}

/// A fault or a fact. `section_and_code` has the names of `--json` and of docs/doctor.md;
/// a `BadInstallation` brings its own.
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
    DeviceLost,
    UvmMissing,
    FabricManager { version: Option<Version>, kernel: DriverVersion },
    Suspended,
    SharedMemorySmall { bytes: u64 },
    WslMemoryMissing,
    DriverFileEmpty,
    ToolkitMalformed { variable: &'static str },
    GpusHidden,
    NoSuchGpu { word: String, leaves_some: bool },
    BadInstallation { code: &'static str, installation: Summary, problem: Problem },
    ExtensionMismatch { first: Extension, more: usize },
    PassedOver { first: Warning, more: usize },
    PathMissing { variable: &'static str },
    PathEmpty { directory: PathBuf },
    PathRelative { variable: &'static str },
    PathDuplicate,
    PathStubs,
    PathOtherDriver { version: Option<Version>, kernel: DriverVersion },
    PathOwnView,
    VersionsMixed { family: String, taken: Summary, passed_over: Summary },
    CompletedElsewhere { family: String, stems: Vec<String>, first: Summary, rest: Summary },
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
    SettingFault { fault: SettingFault },
    UnknownKey { remark: Remark },
    NotAllowed { file: PathBuf, keys: BTreeSet<String> },
    LockFault { fault: SettingFault },
    LockNeedsDriver { needs: DriverVersion, kernel: DriverVersion },
    ImageConditionMalformed { malformed: Malformed },
    NoCache,
    CacheRefused { used: PathBuf },
    CacheFull { free: u64 },
    CacheNoexec,
}

/// Evidence for a finding.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// The content of a file, in a line if that is known.
    File { path: PathBuf, line: Option<usize>, text: String },
    /// A path that does not exist.
    Absent { path: PathBuf },
    /// Permissions of a file: mode, and on this machine owner and group.
    Mode { path: PathBuf, mode: u32, owner: Option<(u32, u32)> },
    /// A variable whose value is no secret.
    Variable { name: String, value: String },
    /// A variable whose value may be secret.
    Set { name: String },
    /// An element of a list in a variable; `position` starts at 1.
    Element { variable: &'static str, position: usize, text: OsString },
    /// A card on the PCI bus.
    Card { bus: String, id: String, model: Option<&'static str>, driver: Option<String> },
    /// An installation at fault, or one to compare it with.
    Installation(Summary),
    /// A file that cannot be used.
    Fault { path: PathBuf, fault: inventory::ReadFault },
    /// A symbol, or a version of symbols, that a library has or lacks.
    Symbol { path: PathBuf, symbol: String, has: bool },
    /// A directory that is refused for the cache.
    Place { path: PathBuf, why: Unfit },
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

    pub(super) fn installation(installation: &Installation) -> Evidence {
        Evidence::Installation(Summary::of(installation))
    }
}

impl FindingKind {
    pub fn section(&self) -> Section {
        self.section_and_code().0
    }

    /// Its name in JSON and in docs/doctor.md.
    pub fn code(&self) -> &'static str {
        self.section_and_code().1
    }

    /// The programs that it stops if it is an error.
    pub fn stops(&self) -> Stops {
        match self.section() {
            Section::Project | Section::Cache => Stops::Us,
            _ => Stops::Programs,
        }
    }

    fn section_and_code(&self) -> (Section, &'static str) {
        use FindingKind as Kind;
        match self {
            Kind::NoDriver => (Section::Driver, "no-driver"),
            Kind::DriverNotLoaded => (Section::Driver, "driver-not-loaded"),
            Kind::NoModuleForKernel { .. } => (Section::Driver, "no-module-for-kernel"),
            Kind::Nouveau => (Section::Driver, "nouveau"),
            Kind::DriverMismatch { .. } => (Section::Driver, "driver-mismatch"),
            Kind::NoLibcuda { .. } => (Section::Driver, "no-libcuda"),
            Kind::LibcudaNotFound => (Section::Driver, "libcuda-not-found"),
            Kind::LibcudaShadowed { .. } => (Section::Driver, "libcuda-shadowed"),
            Kind::WslWithoutGpu => (Section::Gpus, "wsl-without-gpu"),
            Kind::WslLinuxDriver => (Section::Driver, "wsl-linux-driver"),
            Kind::NoGpu => (Section::Gpus, "no-gpu"),
            Kind::ContainerWithoutGpus => (Section::Gpus, "container-without-gpus"),
            Kind::DeviceNodesMissing => (Section::Gpus, "device-nodes-missing"),
            Kind::DeviceNotPermitted => (Section::Gpus, "device-not-permitted"),
            Kind::DeviceLost => (Section::Gpus, "device-lost"),
            Kind::FabricManager { .. } => (Section::Driver, "fabric-manager"),
            Kind::Suspended => (Section::Driver, "suspended"),
            Kind::SharedMemorySmall { .. } => (Section::Gpus, "shared-memory-small"),
            Kind::WslMemoryMissing => (Section::Driver, "wsl-memory-missing"),
            Kind::DriverFileEmpty => (Section::Driver, "driver-file-empty"),
            Kind::ToolkitMalformed { .. } => (Section::Environment, "toolkit-malformed"),
            Kind::UvmMissing => (Section::Gpus, "uvm-missing"),
            Kind::GpusHidden => (Section::Gpus, "gpus-hidden"),
            Kind::NoSuchGpu { .. } => (Section::Gpus, "no-such-gpu"),
            Kind::BadInstallation { code, .. } => (Section::Libraries, code),
            Kind::ExtensionMismatch { .. } => (Section::Libraries, "extension-mismatch"),
            Kind::PassedOver { .. } => (Section::Libraries, "passed-over"),
            Kind::PathMissing { .. } => (Section::Environment, "path-missing"),
            Kind::PathEmpty { .. } => (Section::Environment, "path-empty"),
            Kind::PathRelative { .. } => (Section::Environment, "path-relative"),
            Kind::PathDuplicate => (Section::Environment, "path-duplicate"),
            Kind::PathStubs => (Section::Environment, "path-stubs"),
            Kind::PathOtherDriver { .. } => (Section::Environment, "path-other-driver"),
            Kind::PathOwnView => (Section::Environment, "path-own-view"),
            Kind::VersionsMixed { .. } => (Section::Environment, "versions-mixed"),
            Kind::CompletedElsewhere { .. } => (Section::Environment, "completed-elsewhere"),
            Kind::PreloadMissing => (Section::Environment, "preload-missing"),
            Kind::PreloadLibrary { .. } => (Section::Environment, "preload-library"),
            Kind::AuditSet { .. } => (Section::Environment, "audit-set"),
            Kind::TunablesSet => (Section::Environment, "tunables-set"),
            Kind::OwnVariables { .. } => (Section::Environment, "own-variables"),
            Kind::SetAtStart { .. } => (Section::StartUp, "set-at-start"),
            Kind::HookShadowed { .. } => (Section::StartUp, "hook-shadowed"),
            Kind::SystemPreload => (Section::StartUp, "system-preload"),
            Kind::CacheStale { .. } => (Section::StartUp, "cache-stale"),
            Kind::CacheOfLoaderBad { .. } => (Section::StartUp, "cache-of-loader-bad"),
            Kind::SettingFault { .. } => (Section::Project, "setting-fault"),
            Kind::UnknownKey { .. } => (Section::Project, "unknown-key"),
            Kind::NotAllowed { .. } => (Section::Project, "not-allowed"),
            Kind::LockFault { .. } => (Section::Project, "lock-fault"),
            Kind::LockNeedsDriver { .. } => (Section::Project, "lock-needs-driver"),
            Kind::ImageConditionMalformed { .. } => (Section::Project, "image-condition-malformed"),
            Kind::NoCache => (Section::Cache, "no-cache"),
            Kind::CacheRefused { .. } => (Section::Cache, "cache-refused"),
            Kind::CacheFull { .. } => (Section::Cache, "cache-full"),
            Kind::CacheNoexec => (Section::Cache, "cache-noexec"),
        }
    }
}
