//! The rows of `profiles/errors.toml`, whose head explains the fields. The build script includes this file.

use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize};

/// `errors.toml`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    pub error: Vec<ErrorRow>,
}

/// A family of error messages, and their possible causes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorRow {
    pub id: String,
    pub kind: ErrorKind,
    pub regex: Vec<String>,
    pub sample: Vec<String>,
    #[serde(default)]
    pub also: Vec<String>,
    #[serde(default)]
    pub cause: Vec<PossibleCause>,
    pub source: String,
    pub date: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    Root,
    /// It follows from another error, which may be in the log as well.
    Symptom,
    /// It appears in programs that work.
    Harmless,
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
    /// Bytes of memory.
    Bytes,
    Pid,
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
        let Some(name) = text.strip_prefix('$') else { return Ok(Argument::Literal(text)) };
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        Capture::deserialize(name).map(Argument::Captured)
    }
}

/// A question about this machine and the program's environment, answered yes, no or unknown, with evidence.
///
/// `library` is a SONAME, a file name, or the name of a family in `libraries.toml`.
#[derive(Debug, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Question {
    // Libraries, from the inventory and the prediction.
    /// Is there no copy of it on this machine? From the inventory.
    NoCopy {
        library: Argument,
    },
    /// Is there a copy that the loader of this program does not find? From the inventory and the prediction.
    NotOnPath {
        library: Argument,
    },
    /// Is every copy of another SONAME number? From the inventory and the catalog.
    OnlyOtherMajor {
        library: Argument,
    },
    /// Is the first copy that the program finds older than `wanted`? From the prediction.
    FirstCopyOlder {
        library: Argument,
        wanted: Argument,
    },
    /// Is there a copy of at least `wanted`? From the inventory.
    NewerCopyHere {
        library: Argument,
        wanted: Argument,
    },
    /// Does the first copy that the program finds lack this symbol? From the prediction and the file.
    FirstCopyLacksSymbol {
        library: Argument,
        symbol: Argument,
    },
    /// Does another copy export this symbol? From the inventory and the files.
    OtherCopyHasSymbol {
        library: Argument,
        symbol: Argument,
    },
    /// Do the parts of its family come from several installations? From `predict::Supply`.
    Mixed {
        library: Argument,
    },
    /// Does the installation that the program finds lack a part? From `inventory::Problem::Missing`.
    Incomplete {
        library: Argument,
    },
    /// Is the file empty, truncated, or for another architecture? From the inventory's problems and warnings.
    Damaged {
        library: Argument,
    },
    /// Is the numbered file there, but not the name without a number? From the inventory and the loader.
    BareNameMissing {
        library: Argument,
    },
    /// Are the builtins of the NVRTC that the program finds missing beside it? From the prediction.
    BuiltinsElsewhere,
    /// Do two distributions own one of its files, or provide it twice? From `inventory::Problem::ClaimedTwice`.
    TwoPackages {
        library: Argument,
    },
    /// Are both distributions installed in the program's environment? From its packages.
    BothInstalled {
        first: Argument,
        second: Argument,
    },
    /// Was the extension made for another build of its framework? From `doctor`'s `extension-mismatch`.
    ExtensionMismatch {
        path: Argument,
    },
    /// Is the framework a build without CUDA? From its build records.
    CpuBuild {
        framework: Argument,
    },
    /// Does the first `libstdc++.so.6` lack this version? From the loader and the file.
    LibstdcxxLacks {
        symbol: Argument,
    },
    /// Does `LD_LIBRARY_PATH` name the `lib` of an environment that has this file? From `doctor`'s elements.
    PathNamesEnvironment {
        library: Argument,
    },
    /// Is the combination or release known to be bad? From `known-bad.toml`.
    KnownBad {
        library: Argument,
    },

    // The driver, from `doctor` unless stated otherwise.
    /// Is no driver installed? `no-driver`, `no-libcuda`.
    NoDriver,
    /// Is the kernel module missing for this kernel, or not loaded? `driver-not-loaded`, `no-module-for-kernel`.
    DriverNotLoaded,
    /// Does the version of the user-space half differ from the kernel's? `driver-mismatch`.
    DriverMismatch,
    /// Is the driver older than this CUDA version or library requires? From `drivers.toml`.
    DriverOlder {
        than: Argument,
    },
    /// Is the libcuda that the program finds a compat copy? From the prediction.
    CompatFirst,
    /// Is the libcuda that the program finds a stub? From `predict::SupplyFault::Stub`.
    StubFirst,
    /// Does the libcuda that the program finds lack this symbol? From the prediction and the file.
    DriverLacksSymbol {
        symbol: Argument,
    },
    /// Is `/dev/nvidia-uvm` missing, or was the machine suspended? `uvm-missing`, `suspended`.
    UvmMissing,
    /// Does the machine need a fabric manager of the driver's version, and is there none? `fabric-manager`.
    FabricNotReady,
    /// Does this user lack the rights to open the devices? `device-not-permitted`.
    DeviceNotPermitted,
    /// Does the kernel refuse the devices of this container? `device-lost`.
    DeviceLost,

    // GPUs, from the inventory and the proof.
    /// Do variables hide the GPUs? `gpus-hidden`.
    GpusHidden,
    /// Is there no GPU? `no-gpu`, `device-nodes-missing`.
    NoGpu,
    /// Are there more local ranks than visible GPUs? From the inventory and the launcher's variables.
    MoreRanksThanGpus,
    /// Do other processes hold the GPU, or does its compute mode exclude this one? From the proof's child.
    GpuBusy,
    /// Is little GPU memory free? From the proof's child.
    LittleMemory,
    /// Does the library, or the framework, lack code for this GPU? From `formats::fatbin` and `builds.toml`.
    NoCodeForGpu {
        library: Argument,
    },
    /// Is the compute capability of the GPU another one? From the inventory.
    OtherGpu {
        arch: Argument,
    },
    /// Is this GPU newer than the tool or library knows? From `architectures.toml` and its version.
    GpuNewerThan {
        library: Argument,
    },

    // Containers, from `settings::container` and `doctor`.
    InContainer,
    /// Is this a container without GPUs? `container-without-gpus`.
    ContainerWithoutGpus,
    /// Is neither `nvidia-container-runtime-hook` nor `nvidia-ctk` on this machine? From the host.
    ContainerToolkitMissing,
    /// Is `libnvdxgdmal.so.1` missing? `wsl-memory-missing`.
    WslMemoryMissing,
    /// Does `NVIDIA_REQUIRE_CUDA` ask for a newer driver? From the image's conditions.
    ImageNeedsNewerDriver,
    /// Does `NVIDIA_DRIVER_CAPABILITIES` lack this word? From the environment.
    CapabilityMissing {
        capability: Argument,
    },
    /// Is `/dev/shm` small or full? `shared-memory-small`.
    SharedMemorySmall,
    /// Is this WSL? From the host.
    Wsl,

    // Compilation, from the toolkits of the inventory and the program's PATH.
    /// Is no `nvcc` here?
    NoNvcc,
    /// Is the first `nvcc` of another CUDA version?
    NvccOtherCuda {
        wanted: Argument,
    },
    /// Are nvcc, NVVM and the CRT headers of several releases?
    ToolkitMixed,
    /// Is the first `nvcc` older than this architecture? From `architectures.toml`.
    NvccOlderThanGpu {
        arch: Argument,
    },
    /// Is `CUDA_HOME`, or a similar variable, a list, empty, or no directory? `toolkit-malformed`.
    ToolkitVariableMalformed,
    /// Is the host compiler newer than this nvcc accepts? From `crt/host_config.h`.
    CompilerTooNew {
        ceiling: Argument,
    },
    /// Is the header missing in the toolkit's include directory?
    HeaderMissing {
        header: Argument,
    },
    NoPtxas,
    /// Is the first `ptxas` older than this architecture? From `architectures.toml`.
    PtxasOlder {
        arch: Argument,
    },
    NoLibdevice,
    /// Is the PTX, or the library that made it, newer than the driver? From `drivers.toml`.
    PtxNewerThanDriver {
        ptx: Argument,
    },

    // Everything else.
    /// Has sudo, or a program with more rights, removed `LD_LIBRARY_PATH`? From the environment.
    EnvironmentDropped,
    /// Is there no network interface of this name, or are several bridges there and none named? From the host.
    InterfaceAbsent {
        interface: Argument,
    },
    /// Is little memory lockable? From the limits of this process.
    LockedMemorySmall,
    /// Always unknown: nothing on a machine tells.
    Unknowable,
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
    KnownBad,
    WrongNumbers,
    // Driver.
    NoDriver,
    DriverNotLoaded,
    DriverMismatch,
    DriverTooOld,
    CompatRefused,
    Stub,
    UvmMissing,
    Fabric,
    DeviceNotPermitted,
    // GPU.
    GpusHidden,
    NoSuchGpu,
    GpuBusy,
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
    ToolkitVariable,
    HostCompiler,
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
    LockedMemory,
    BuiltWithOtherDriver,
    /// The program's own kernel or call is wrong; no library is.
    ProgramFault,
    /// A message of an operating system that is not this one.
    OtherSystem,
    Harmless,
}
