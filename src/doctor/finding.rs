//! The findings: each with its code, its section and the programs that it stops.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use serde::Serialize;

use crate::inventory::{self, Extension, Installation, Problem, ToolkitProblem, Warning};
use crate::settings::{Remark, SettingFault, container::Malformed};
use crate::solve::Summary;
use crate::storage::Unfit;
use crate::version::Version;

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

/// The table of findings becomes the enum, with the section and the code of each.
macro_rules! findings {
    ($($section:ident: $($code:literal $kind:ident $({ $($field:ident: $type:ty),+ })?,)+)+) => {
        /// A fault or a fact. The codes are the names of `--json` and of docs/doctor.md.
        #[derive(Clone, Debug)]
        pub enum FindingKind {
            $($($kind $({ $($field: $type),+ })?,)+)+
            /// Each problem has its own code.
            BadInstallation { code: &'static str, installation: Summary, problem: Problem },
        }

        impl FindingKind {
            fn section_and_code(&self) -> (Section, &'static str) {
                match self {
                    $($(FindingKind::$kind { .. } => (Section::$section, $code),)+)+
                    FindingKind::BadInstallation { code, .. } => (Section::Libraries, code),
                }
            }
        }
    };
}

findings! {
    Driver:
        "no-driver" NoDriver,
        "driver-not-loaded" DriverNotLoaded,
        "no-module-for-kernel" NoModuleForKernel { release: String },
        "nouveau" Nouveau,
        "driver-mismatch" DriverMismatch { installed: Version, kernel: Version },
        "no-libcuda" NoLibcuda { is_container: bool },
        "libcuda-not-found" LibcudaNotFound,
        "libcuda-shadowed" LibcudaShadowed { given: Option<Version>, kernel: Version },
        "wsl-linux-driver" WslLinuxDriver,
        "fabric-manager" FabricManager { version: Option<Version>, kernel: Version },
        "suspended" Suspended,
        "wsl-memory-missing" WslMemoryMissing,
        "driver-file-empty" DriverFileEmpty,
    Gpus:
        "wsl-without-gpu" WslWithoutGpu,
        "no-gpu" NoGpu,
        "container-without-gpus" ContainerWithoutGpus,
        "device-nodes-missing" DeviceNodesMissing,
        "device-not-permitted" DeviceNotPermitted,
        "device-lost" DeviceLost,
        "uvm-missing" UvmMissing { has_node_maker: bool },
        "shared-memory-small" SharedMemorySmall { bytes: u64 },
        "gpus-hidden" GpusHidden,
        "no-such-gpu" NoSuchGpu { word: String, leaves_some: bool },
    Libraries:
        "extension-mismatch" ExtensionMismatch { first: Extension, more: usize },
        "toolkit-broken" ToolkitBroken { problem: ToolkitProblem },
        "passed-over" PassedOver { first: Warning, more: usize },
    Environment:
        "toolkit-malformed" ToolkitMalformed { variable: &'static str },
        "path-missing" PathMissing { variable: &'static str },
        "path-empty" PathEmpty { directory: PathBuf },
        "path-relative" PathRelative { variable: &'static str },
        "path-duplicate" PathDuplicate,
        "path-stubs" PathStubs,
        "path-other-driver" PathOtherDriver { version: Option<Version>, kernel: Version },
        "path-own-view" PathOwnView,
        "versions-mixed" VersionsMixed { taken: Summary, passed_over: Summary },
        "completed-elsewhere" CompletedElsewhere { stems: Vec<String>, first: Summary, rest: Summary },
        "preload-missing" PreloadMissing,
        "preload-library" PreloadLibrary { family: String },
        "audit-set" AuditSet { is_ours: bool },
        "followed" Followed { by_hook: bool },
        "follow-broken" FollowBroken { lacks: PathBuf },
        "tunables-set" TunablesSet,
        "own-variables" OwnVariables { names: Vec<String> },
    StartUp:
        "set-at-start" SetAtStart { variables: BTreeSet<&'static str> },
        "system-preload" SystemPreload,
        "cache-stale" CacheStale { directory: PathBuf, name: String },
        "cache-of-loader-bad" CacheOfLoaderBad { fault: inventory::ReadFault },
    Project:
        "setting-fault" SettingFault { fault: SettingFault },
        "unknown-key" UnknownKey { remark: Remark },
        "not-allowed" NotAllowed { file: PathBuf, keys: BTreeSet<String> },
        "lock-fault" LockFault { fault: SettingFault },
        "lock-needs-driver" LockNeedsDriver { needs: Version, kernel: Version },
        "image-condition-malformed" ImageConditionMalformed { malformed: Malformed },
    Cache:
        "no-cache" NoCache,
        "cache-refused" CacheRefused { used: PathBuf },
        "cache-full" CacheFull { free: u64 },
        "cache-noexec" CacheNoexec,
}

/// Evidence for a finding.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// The content of a file, in a line if that is known.
    File {
        path: PathBuf,
        line: Option<usize>,
        text: String,
    },
    /// A path that does not exist.
    Absent { path: PathBuf },
    /// Permissions of a file: mode, and on this machine owner and group.
    Mode {
        path: PathBuf,
        mode: u32,
        owner: Option<(u32, u32)>,
    },
    /// A variable whose value is no secret.
    Variable { name: String, value: String },
    /// A variable whose value may be secret.
    Set { name: String },
    /// An element of a list in a variable; `position` starts at 1.
    Element {
        variable: &'static str,
        position: usize,
        text: OsString,
    },
    /// A card on the PCI bus.
    Card {
        bus: String,
        id: String,
        model: Option<&'static str>,
        driver: Option<String>,
    },
    /// An installation at fault, or one to compare it with.
    Installation(Summary),
    /// A file that cannot be used.
    Fault {
        path: PathBuf,
        fault: inventory::ReadFault,
    },
    /// A symbol, or a version of symbols, that a library has or lacks.
    Symbol {
        path: PathBuf,
        symbol: String,
        has: bool,
    },
    /// A directory that is refused for the cache.
    Place { path: PathBuf, why: Unfit },
}

impl Finding {
    pub(super) fn new(severity: Severity, what: FindingKind, evidence: Vec<Evidence>) -> Finding {
        Finding {
            severity,
            what,
            evidence,
        }
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
    pub fn file(path: impl Into<PathBuf>, text: impl Into<String>) -> Evidence {
        Evidence::File {
            path: path.into(),
            line: None,
            text: text.into(),
        }
    }

    pub fn variable(name: &str, value: &OsStr) -> Evidence {
        Evidence::Variable {
            name: name.to_owned(),
            value: value.to_string_lossy().into_owned(),
        }
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
}
