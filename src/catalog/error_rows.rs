//! The rows of `profiles/errors.toml` and `profiles/causes.toml`, whose heads explain the fields. The build script includes this
//! file.

use std::collections::BTreeMap;

use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};

use super::rows::CauseKind;

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
    #[serde(default)]
    pub also: Vec<String>,
    #[serde(default)]
    pub cause: Vec<PossibleCause>,
    #[serde(default)]
    pub threads: u32,
    #[serde(default)]
    pub states: Option<States>,
    pub source: String,
    pub date: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    Root,
    /// It follows from another error, which may be in the log as well.
    Symptom,
    /// It only names a part and a failure.
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
    pub cause: CauseKey,
    /// It is not this cause if one of these is answered no.
    #[serde(default)]
    pub when: Vec<Question>,
    /// These choose between cures.
    #[serde(default)]
    pub better: Vec<Question>,
    /// The message itself states this cause: a machine that does not show it cannot rule it out.
    #[serde(default)]
    pub stated: bool,
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
    /// A header file.
    Header,
    /// The newest version of the compiler that is accepted.
    Ceiling,
    /// The version of the kernel driver.
    Driver,
    /// A network interface.
    Interface,
}

/// An argument of a question: `"$soname"` is the text of a named group, any other text is meant literally.
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

/// A question about this machine and the program's environment, answered yes, no or unknown, with evidence.
///
/// `of` is a SONAME or file name, the name of a family in `libraries.toml` in upper or lower case, or the name of a framework; `framework`
/// is the one that the program uses. For a version, a name means the version of that library or framework.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Question {
    /// Does `doctor` report one of these findings, by their codes?
    Doctor(Findings),
    /// Is there no copy of it on this machine? From the inventory.
    NoCopy(About),
    /// Is there a copy that the loader of this program does not find? From the inventory and the prediction.
    NotOnPath(About),
    /// Is every copy of another SONAME number? From the inventory and the catalog.
    OnlyOtherMajor(About),
    /// Is the first copy that the program finds older than `wanted`? From the prediction.
    FirstCopyOlder(AboutVersion),
    /// Is there a copy of at least `wanted`? From the inventory.
    NewerCopyHere(AboutVersion),
    /// Does the first copy that the program finds lack this symbol? From the prediction and the file.
    FirstCopyLacksSymbol(AboutSymbol),
    /// Does another copy export this symbol? From the inventory and the files.
    OtherCopyHasSymbol(AboutSymbol),
    /// Do the parts of its family come from several installations? From `predict::Supply`.
    Mixed(About),
    /// Is the first copy that the program finds built for the CUDA of the SONAME `wanted`, of which there are only libraries of
    /// another CUDA? From the prediction and the inventory.
    BuiltForOtherCuda(AboutVersion),
    /// Does the installation that the program finds lack a part? From `inventory::Problem::Missing`.
    Incomplete(About),
    /// Is the file empty, truncated, or for another architecture? From the inventory's problems and warnings.
    Damaged(About),
    /// Is the numbered file there, but not the name without a number? From the inventory and the loader.
    BareNameMissing(About),
    /// Are the builtins of the NVRTC that the program finds missing beside it? From the prediction.
    BuiltinsElsewhere,
    /// Do two distributions own one of its files, or provide it twice? From `inventory::Problem::ClaimedTwice`.
    TwoPackages(About),
    /// Are both distributions installed in the program's environment? From its packages.
    BothInstalled(Pair),
    /// Is the framework a build without CUDA? From its build records.
    CpuBuild(About),
    /// Does the first `libstdc++.so.6` lack this version? From the loader and the file.
    LibstdcxxLacks(About),
    /// Does `LD_LIBRARY_PATH` name the `lib` of an environment that has this file? From `doctor`'s elements.
    PathNamesEnvironment(About),
    /// Is the driver older than this CUDA version or library requires? From `drivers.toml`.
    DriverOlder(About),
    /// Is the libcuda that the program finds a compat copy? From the prediction.
    CompatFirst,
    /// Is the libcuda that the program finds a stub? From `predict::SupplyFault::Stub`.
    StubFirst,
    /// Does the libcuda that the program finds lack this symbol? From the prediction and the file.
    DriverLacksSymbol(About),
    /// Are there more local ranks than visible GPUs? From the inventory and the launcher's variables.
    MoreRanksThanGpus,
    /// Does the library, or the framework, lack code for this GPU? From `formats::fatbin` and `builds.toml`.
    NoCodeForGpu(About),
    /// Is the compute capability of the GPU another one? From the inventory.
    OtherGpu(About),
    /// Is the GPU older than this architecture? From the inventory.
    GpuOlderThan(About),
    /// Is the GPU newer than this tool or library knows? From `architectures.toml` and its version.
    GpuNewerThan(About),
    /// Is neither `nvidia-container-runtime-hook` nor `nvidia-ctk` on this machine? From the host.
    ContainerToolkitMissing,
    /// Does `NVIDIA_REQUIRE_CUDA` ask for a newer driver? From the image's conditions.
    ImageNeedsNewerDriver,
    /// Does `NVIDIA_DRIVER_CAPABILITIES` lack this word? From the environment.
    CapabilityMissing(About),
    /// Is there no `nvcc`? From the toolkits of the inventory and the program's PATH, as all that follow about tools.
    NoNvcc,
    /// Is the first `nvcc` of another CUDA version?
    NvccOtherCuda(About),
    /// Are nvcc, NVVM and the CRT headers of several releases?
    ToolkitMixed,
    /// Is the first `nvcc` older than this architecture? From `architectures.toml`.
    NvccOlderThanGpu(About),
    /// Does the first `nvcc` no longer make code for this architecture? From `architectures.toml`.
    NvccNewerThanGpu(About),
    /// Is the host compiler newer than this nvcc accepts? From `crt/host_config.h`.
    CompilerTooNew,
    /// Is the header missing in the toolkit's include directory?
    HeaderMissing(About),
    NoPtxas,
    /// Is the first `ptxas` older than this architecture or PTX version? From `architectures.toml`.
    PtxasOlder(About),
    NoLibdevice,
    /// Is this PTX version, or the library that made the PTX, newer than the driver? From `drivers.toml`.
    PtxNewerThanDriver(About),
    /// Has sudo, or a program with more rights, removed `LD_LIBRARY_PATH`? From the environment.
    EnvironmentDropped,
    /// Is there no network interface of this name, or of the name in this variable? From the host.
    InterfaceAbsent(About),
    /// Is little memory lockable? From the limits of this process.
    LockedMemorySmall,
    /// May only administrators read the GPU's counters? From the parameters of the kernel module.
    ProfilingRestricted,
    /// Always unknown: nothing on a machine tells.
    Unknowable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Findings {
    pub finds: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    pub of: Argument,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AboutVersion {
    pub of: Argument,
    pub wanted: Argument,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AboutSymbol {
    pub of: Argument,
    pub symbol: Argument,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    pub first: Argument,
    pub second: Argument,
}

/// The cause of an error, with its name in JSON and in documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CauseKey {
    // Libraries.
    NotInstalled,
    NotOnPath,
    OtherMajor,
    OlderFirst,
    Mixed,
    Incomplete,
    Damaged,
    BareName,
    Builtins,
    TwoPackages,
    AbiOtherBuild,
    CpuBuild,
    LibstdcxxOld,
    PathPoisons,
    // Driver.
    NoDriver,
    DriverNotLoaded,
    ModuleNotSigned,
    DriverMismatch,
    DriverTooOld,
    CompatRefused,
    Stub,
    UvmMissing,
    Fabric,
    DeviceNotPermitted,
    DeviceNodesMissing,
    // GPU.
    NoGpu,
    GpusHidden,
    NoSuchGpu,
    GpuBusy,
    MpsDaemon,
    OutOfMemory,
    NoKernel,
    EngineOtherGpu,
    EngineOtherVersion,
    GpuUnsupportedOp,
    /// The GPU or its link reports a fault of its own.
    GpuFault,
    // Container.
    ContainerNoGpu,
    ContainerToolkitMissing,
    ContainerToolkitOld,
    ContainerRequires,
    ContainerLostGpu,
    ContainerCapability,
    ShmSmall,
    // Compilation.
    ToolkitMissing,
    ToolkitMismatch,
    ToolkitMixed,
    ToolkitTooOldForGpu,
    ToolkitTooNewForGpu,
    ToolkitVariable,
    HostCompiler,
    HostCompilerMissing,
    HeadersMissing,
    PtxasMissing,
    PtxasOld,
    LibdeviceMissing,
    PtxNewerThanDriver,
    NvrtcOlderThanGpu,
    NvjitlinkOlder,
    // Other.
    EnvironmentDropped,
    NetworkInterface,
    PeerLost,
    LockedMemory,
    ProfilingRestricted,
    BuiltWithOtherDriver,
    /// The fault is in the program's own kernel or call, not in a library.
    ProgramFault,
    ForkedProcess,
    /// A message of an operating system that is not this one.
    OtherSystem,
    Harmless,
}

/// `causes.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CauseWords {
    pub cause: BTreeMap<CauseKey, Words>,
    pub proof: BTreeMap<CauseKind, Words>,
    /// By their codes.
    pub finding: BTreeMap<String, Words>,
}

/// A sentence and a cure; either may be empty.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    #[serde(default)]
    pub says: String,
    #[serde(default)]
    pub cure: String,
}
