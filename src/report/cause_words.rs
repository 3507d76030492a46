//! The words for causes that `diagnose`, `doctor` and `verify` can find alike.

use crate::catalog::CauseKey as Key;

/// An instruction that a cure ends with where nothing was solved.
const BUILD: &str = "install a build for this GPU: no library path can help";
const TOOLKIT: &str = "start the build with `cudarun --build`, which takes a toolkit that fits, or install that of the program's CUDA";

/// The sentence, in which `{}` is a placeholder for what the message is about, and the cure where nothing better is
/// known; an empty one if `doctor` or the solver have a better one.
pub(super) fn words(key: Key) -> (&'static str, &'static str) {
    match key {
        Key::NotInstalled => (
            "{} is not installed",
            "install it: `cudarun list` shows what is here",
        ),
        Key::NotOnPath => (
            "{} is installed where the program does not look",
            "start the program with cudarun: `cudarun explain` shows the variables that lead to it",
        ),
        Key::OtherMajor => (
            "only other versions of {} are installed",
            "install the version that the message names, or a build of the program for the one that is here",
        ),
        Key::OlderFirst => ("an older version of {} comes first", ""),
        Key::Mixed => ("parts of {} come from different installations", ""),
        Key::Incomplete => (
            "a part of {} is missing",
            "reinstall it: `cudarun list` shows what is here",
        ),
        Key::Damaged => (
            "{} is damaged",
            "remove the damaged file, or install its package again",
        ),
        Key::BareName => (
            "{} exists only with a number in its name",
            "install its development package, which has the name without a number",
        ),
        Key::Builtins => (
            "the builtins of NVRTC are not beside it",
            "reinstall this NVRTC",
        ),
        Key::TwoPackages => (
            "two packages install {} over each other",
            "uninstall both, and install one",
        ),
        Key::AbiOtherBuild => (
            "an extension was built for another version of its framework",
            "install the version of the extension that belongs to the installed framework",
        ),
        Key::CpuBuild => (
            "{} is a build without CUDA",
            "install its build with CUDA: the project's page names the package index",
        ),
        Key::LibstdcxxOld => (
            "the C++ library that comes first lacks {}",
            "put the newer libstdc++.so.6 first",
        ),
        Key::PathPoisons => (
            "LD_LIBRARY_PATH gives libraries of an environment to every program",
            "",
        ),
        Key::KnownBad => (
            "this version of {} is known to be bad",
            "install another version",
        ),
        Key::WrongNumbers => ("{} computes wrong numbers", "install another version"),
        Key::NoDriver => (
            "the NVIDIA driver, or a part of it, is not installed",
            "install the NVIDIA driver: no library path can help",
        ),
        Key::DriverNotLoaded => (
            "the kernel has not loaded the NVIDIA driver",
            "sudo modprobe nvidia",
        ),
        Key::ModuleNotSigned => (
            "Secure Boot refuses the kernel module of the driver, which is not signed",
            "enrol the key of the module with `sudo mokutil --import`, or switch off Secure Boot",
        ),
        Key::DriverMismatch => (
            "the driver's libraries and the kernel's driver have different versions",
            "restart the machine, so that the kernel loads the installed driver",
        ),
        Key::DriverTooOld => (
            "the driver is too old for the program's CUDA",
            "update the NVIDIA driver, or install a build for an older CUDA: no library path can help",
        ),
        Key::CompatRefused => (
            "the forward-compatibility libcuda comes first, and this driver or GPU does not support it",
            "remove the compat directory from LD_LIBRARY_PATH",
        ),
        Key::Stub => (
            "the libcuda.so.1 that comes first is a stub for linking",
            "remove the directory of stubs from LD_LIBRARY_PATH",
        ),
        Key::UvmMissing => (
            "the driver's unified memory does not work",
            "sudo nvidia-modprobe -u -c 0",
        ),
        Key::Fabric => (
            "the fabric manager of the NVSwitches does not run",
            "install nvidia-fabricmanager in the driver's version; sudo systemctl restart nvidia-fabricmanager",
        ),
        Key::DeviceNotPermitted => (
            "this user may not open the device nodes of the GPUs",
            "ask the administrator for access; in a batch system, request a GPU",
        ),
        Key::GpusHidden => (
            "CUDA_VISIBLE_DEVICES hides every GPU",
            "unset CUDA_VISIBLE_DEVICES",
        ),
        Key::DeviceNodesMissing => (
            "the device nodes of the GPUs are missing",
            "sudo nvidia-modprobe -u -c 0",
        ),
        Key::NoGpu => (
            "this machine has no NVIDIA GPU",
            "use a machine with an NVIDIA GPU; in a batch system, request a GPU (`srun --gpus 1 …`)",
        ),
        Key::NoSuchGpu => (
            "the GPU that the program asks for is not here",
            "start as many processes as GPUs are visible: `nvidia-smi -L` lists them",
        ),
        Key::GpuBusy => (
            "another process has exclusive use of the GPU",
            "wait for the other process, or allow several with `sudo nvidia-smi -c DEFAULT`",
        ),
        Key::MpsDaemon => (
            "the daemon of CUDA's Multi-Process Service does not run, or belongs to another user",
            "start it with `nvidia-cuda-mps-control -d`, or unset CUDA_MPS_PIPE_DIRECTORY",
        ),
        Key::OutOfMemory => (
            "the GPU is out of memory",
            "use smaller batches, or choose another GPU with CUDA_VISIBLE_DEVICES: see `nvidia-smi`",
        ),
        Key::NoKernel => ("{} has no code for this GPU", BUILD),
        Key::EngineOtherGpu => (
            "the engine was built for another GPU",
            "build the engine again on this GPU",
        ),
        Key::EngineOtherVersion => (
            "the engine was built by another TensorRT",
            "build the engine again with this TensorRT",
        ),
        Key::GpuUnsupportedOp => ("this GPU does not support the operation", BUILD),
        Key::GpuFault => (
            "the GPU reports a fault of its own",
            "check `nvidia-smi -q` and `sudo dmesg | grep -i xid`: the GPU may need a reset",
        ),
        Key::ContainerNoGpu => (
            "this container has no GPU",
            "start the container with `--gpus all` (podman: `--device nvidia.com/gpu=all`, apptainer: `--nv`)",
        ),
        Key::ContainerToolkitMissing => (
            "Docker does not know the NVIDIA Container Toolkit",
            "install nvidia-container-toolkit; sudo nvidia-ctk runtime configure --runtime=docker; sudo systemctl restart docker",
        ),
        Key::ContainerToolkitOld => (
            "the NVIDIA Container Toolkit is too old for the driver",
            "update nvidia-container-toolkit",
        ),
        Key::ContainerRequires => (
            "the image requires a newer driver",
            "update the NVIDIA driver, or use an image for an older CUDA: no library path can help",
        ),
        Key::ContainerLostGpu => ("this container has lost its GPUs", "restart the container"),
        Key::ContainerCapability => (
            "the container was started without this part of the driver",
            "start the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility,video",
        ),
        Key::ShmSmall => (
            "the shared memory of the container is too small",
            "start the container with `--shm-size 8g` or `--ipc host`",
        ),
        Key::ToolkitMissing => (
            "no CUDA toolkit with nvcc was found",
            "install the CUDA toolkit of the CUDA that the program was built for",
        ),
        Key::ToolkitMismatch => (
            "nvcc is from another CUDA version than the framework",
            TOOLKIT,
        ),
        Key::ToolkitMixed => (
            "the parts of the CUDA toolkit have different versions",
            "install nvcc, NVVM and CRT headers of one release",
        ),
        Key::ToolkitTooOldForGpu => (
            "the CUDA toolkit is older than the GPU",
            "install a newer CUDA toolkit, or compile for an older architecture",
        ),
        Key::ToolkitTooNewForGpu => (
            "the CUDA toolkit no longer makes code for this GPU",
            "install an older CUDA toolkit, or compile for a newer architecture",
        ),
        Key::ToolkitVariable => (
            "a variable that names the toolkit does not name a directory",
            "set CUDA_HOME to the directory of one toolkit",
        ),
        Key::HostCompiler => (
            "the C++ compiler, or its C library, is too new for this nvcc",
            "install an older g++ and start the build with `cudarun --build`, or install a newer CUDA toolkit",
        ),
        Key::HostCompilerMissing => ("the C++ compiler g++ is not installed", "install g++"),
        Key::HeadersMissing => (
            "a header is not installed",
            "install the development package of its library",
        ),
        Key::PtxasMissing => (
            "no ptxas was found",
            "install a CUDA toolkit: cudarun leads the program to its ptxas",
        ),
        Key::PtxasOld => (
            "the ptxas that is used is older than the GPU or the compiler",
            "set TRITON_PTXAS_PATH to the ptxas of a newer CUDA toolkit, or TRITON_PTXAS_BLACKWELL_PATH for a GPU for which Triton starts ptxas-blackwell",
        ),
        Key::LibdeviceMissing => (
            "libdevice.10.bc is not where the program looks",
            "install a CUDA toolkit: cudarun leads the program to its libdevice",
        ),
        Key::PtxNewerThanDriver => (
            "code was compiled by a newer CUDA than the driver supports",
            "update the NVIDIA driver, or compile with the driver's CUDA: no library path can help",
        ),
        Key::NvrtcOlderThanGpu => (
            "NVRTC is older than the GPU",
            "install a build of the program for a newer CUDA",
        ),
        Key::NvjitlinkOlder => (
            "nvJitLink is older than NVRTC",
            "install both in one version",
        ),
        Key::EnvironmentDropped => (
            "sudo or a program with more rights removed LD_LIBRARY_PATH",
            "start cudarun inside: `sudo cudarun PROGRAM`",
        ),
        Key::NetworkInterface => (
            "the network interface does not exist",
            "set NCCL_SOCKET_IFNAME to a name that `ip link` lists",
        ),
        Key::PeerLost => (
            "a process on the other side of a connection ended, or the network to it failed",
            "look for the rank that failed first, and at its last lines",
        ),
        Key::ProfilingRestricted => (
            "only administrators may read the GPU's performance counters",
            "start the profiler with sudo, or the container with `--cap-add SYS_ADMIN`",
        ),
        Key::LockedMemory => ("too little memory may be locked", "ulimit -l unlimited"),
        Key::BuiltWithOtherDriver => (
            "the program was built against another driver",
            "build it again, or update the NVIDIA driver",
        ),
        Key::ProgramFault => (
            "the fault is in the program's own kernel or call, not in a library",
            "start the program with CUDA_LAUNCH_BLOCKING=1, which shows the call",
        ),
        Key::ForkedProcess => (
            "the program forked after it had used the GPU",
            "start worker processes with `multiprocessing.set_start_method(\"spawn\")`",
        ),
        Key::OtherSystem => (
            "this is a message of Windows: nothing on this machine tells its cause",
            "",
        ),
        Key::Harmless => (
            "this message is harmless: it also appears in programs that work",
            "",
        ),
    }
}
