//! `--build`: the toolkit that fits a build, a directory of links in which it compiles and links, and the variables by which
//! build tools find it. Toolkits are facts of the inventory; nothing is started to decide.
//!
//! Release of nvcc, cicc, cudafe++, ptxas, fatbinary and nvlink: the text `Cuda compilation tools, release …` in each.
//! CUDA version of the headers: `CUDART_VERSION` in `cuda_runtime_api.h`. Release of nvcc's own headers: the wheel
//! `nvidia-cuda-crt`; other packages do not tell. Newest GCC: `crt/host_config.h`. GPUs: the release, in
//! `profiles/architectures.toml`. nvcc's settings in a view name the real directories, so that nvcc and the linker put
//! no path of the view into libraries and programs. pip by itself takes the newest NVVM for any nvcc, and then nothing
//! compiles; `cudarun fetch toolkit=` gets all of one release. The second run of one command line reuses the decision.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::environment::Diff;
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{Inventory, PartKind, Toolkit};
use crate::pin::view as links;
use crate::program;
use crate::version::ComputeCapability;

mod build;
mod choice;
pub mod compilers;
mod host_compiler;
mod view;

pub use build::{
    Build, BuildPlan, BuildRequirements, CompilerLack, CompilerSupply, Compilers, HostCompiler,
    NoToolkit, Overridden, PublishedBuild, RejectedToolkit, ToolkitReason, Withheld,
};
use choice::{BuildMachine, choose, makes_code};
pub use compilers::Lacking;

/// Variables that name the directory of a toolkit.
const HOMES: [&str; 4] = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDAToolkit_ROOT"];
/// The variable by which CMake is told a compiler.
const COMPILER: &str = "CUDACXX";
/// Architectures to make code for, as torch and as CMake read them.
const ARCHITECTURES: [&str; 2] = ["TORCH_CUDA_ARCH_LIST", "CUDAARCHS"];
/// Variables that name a library's directory, with a header by which it is known, and if it is the directory of its headers.
const LIBRARIES: [(&str, &str, bool); 4] = [
    ("CUDNN_HOME", "cudnn.h", false),
    ("CUDNN_PATH", "cudnn.h", false),
    ("CUDNN_INCLUDE_DIR", "cudnn.h", true),
    ("NCCL_HOME", "nccl.h", false),
];

/// The variables that a build plan depends on, besides those of every plan.
pub const VARIABLES: [&str; 13] = [
    "CUDAARCHS",
    "CUDAHOSTCXX",
    "CUDNN_HOME",
    "CUDNN_INCLUDE_DIR",
    "CUDNN_PATH",
    "LIBRARY_PATH",
    "NCCL_HOME",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "NVCC_PREPEND_FLAGS",
    "PIP_NO_BUILD_ISOLATION",
    "TORCH_CUDA_ARCH_LIST",
    "UV_NO_BUILD_ISOLATION",
];

/// Chooses the toolkit for a build. `site_packages` are the directories with the framework.
pub fn decide(
    host: &Host,
    inventory: &Inventory,
    requirements: &BuildRequirements,
    site_packages: &[PathBuf],
) -> Result<BuildPlan, Box<NoToolkit>> {
    let visible = compilers::visible(inventory);
    let mut gpus: Vec<ComputeCapability> = visible.filter_map(|gpu| gpu.capability).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let mut watched = BTreeSet::new();
    let compilers = host_compiler::compilers(host, &mut watched);
    let includes = view::includes(host, site_packages, &mut watched);
    let toolkits = inventory.toolkits.as_deref().unwrap_or_default();
    let named = named_toolkits(host, requirements, toolkits);
    let roots: Vec<PathBuf> = named.iter().filter_map(|one| one.root.clone()).collect();
    let machine = BuildMachine {
        cuda: inventory.driver.as_ref().and_then(|driver| driver.cuda),
        gpus: &gpus,
        compilers: &compilers,
        named: &roots,
        has_header: &|toolkit, header| {
            view::has_header(host, toolkit, header)
                || includes
                    .iter()
                    .any(|include| host.is_file(&include.join(header)))
        },
    };
    let (mut fitting, rejected) = choose(toolkits, requirements, &machine);
    if fitting.is_empty() {
        let install = choice::to_install(&rejected, requirements, &machine);
        return Err(Box::new(NoToolkit {
            requirements: requirements.clone(),
            rejected,
            install,
        }));
    }
    let toolkit = fitting.remove(0);
    let host_compiler = choice::host_compiler(&toolkit, &compilers)
        .filter(|compiler| Some(*compiler) != compilers.first())
        .cloned();
    let borrowed = match &requirements.framework {
        Some(framework) => view::borrowed(host, &toolkit, &framework.headers, &includes),
        None => Vec::new(),
    };
    let needs_view = !borrowed.is_empty() || !view::is_usable_in_place(&toolkit);
    let spec =
        needs_view.then(|| view::spec(host, &toolkit, &borrowed, inventory.libcuda.as_deref()));
    gpus.retain(|gpu| toolkit.cuda().is_some_and(|cuda| makes_code(cuda, *gpu)));
    Ok(BuildPlan {
        libraries: library_variables(host, &includes),
        overridden: overridden(named, &toolkit, &fitting, &rejected),
        watched,
        framework: requirements.framework.clone(),
        passed_over: fitting,
        rejected,
        host_compiler,
        gpus,
        spec,
        is_isolated: requirements.is_isolated,
        toolkit,
    })
}

/// A toolkit that a variable or the command names.
struct NamedToolkit<'h> {
    /// Or `nvcc` for that of the command.
    variable: &'static str,
    value: &'h OsStr,
    /// Its root, if it was found.
    root: Option<PathBuf>,
}

fn named_toolkits<'h>(
    host: &'h Host,
    requirements: &'h BuildRequirements,
    toolkits: &[Toolkit],
) -> Vec<NamedToolkit<'h>> {
    let mut named = Vec::new();
    if let Some(nvcc) = &requirements.nvcc {
        named.push(NamedToolkit {
            variable: "nvcc",
            value: nvcc.as_os_str(),
            root: root_of_nvcc(host, toolkits, nvcc),
        });
    }
    for variable in HOMES.into_iter().chain([COMPILER]) {
        let Some(value) = host.env.non_empty(variable) else {
            continue;
        };
        let nvcc = if variable != COMPILER {
            host.absolute(Path::new(value)).join("bin/nvcc")
        } else if is_nvcc(value) {
            program::locate(host, value).unwrap_or_default()
        } else {
            continue;
        };
        named.push(NamedToolkit {
            variable,
            value,
            root: root_of_nvcc(host, toolkits, &nvcc),
        });
    }
    named
}

/// The named toolkits that are not used, each with the reason against it.
fn overridden(
    named: Vec<NamedToolkit<'_>>,
    toolkit: &Toolkit,
    fitting: &[Toolkit],
    rejected: &[RejectedToolkit],
) -> Vec<Overridden> {
    let mut overridden = Vec::new();
    for NamedToolkit {
        variable,
        value,
        root,
    } in named
    {
        if root.as_ref() == Some(&toolkit.root) {
            continue;
        }
        let mut rejected = rejected.iter();
        let mut fitting = fitting.iter();
        let reason = if fitting.any(|other| Some(&other.root) == root.as_ref()) {
            None
        } else {
            let found = rejected.find(|other| Some(&other.toolkit.root) == root.as_ref());
            Some(found.map_or(ToolkitReason::NoNvcc, |found| found.reason.clone()))
        };
        let value = value.to_string_lossy().into_owned();
        overridden.push(Overridden(variable.to_owned(), value, reason));
    }
    overridden
}

/// The variables for libraries whose headers are there. Those of one library go together: a person's, or these.
fn library_variables(host: &Host, includes: &[PathBuf]) -> Vec<(&'static str, PathBuf)> {
    let mut variables = Vec::new();
    for (variable, header, is_of_headers) in LIBRARIES {
        let mut siblings = LIBRARIES.iter().filter(|(_, other, _)| *other == header);
        let mut includes = includes.iter();
        if siblings.all(|(name, ..)| host.env.non_empty(name).is_none())
            && let Some(include) = includes.find(|include| host.is_file(&include.join(header)))
        {
            let directory = if is_of_headers {
                Some(include.as_path())
            } else {
                include.parent()
            };
            variables.extend(directory.map(|directory| (variable, directory.to_owned())));
        }
    }
    variables
}

fn root_of_nvcc(host: &Host, toolkits: &[Toolkit], nvcc: &Path) -> Option<PathBuf> {
    let real = host.canonical(nvcc).ok()?;
    for toolkit in toolkits {
        if let Some(own) = toolkit.part(PartKind::Nvcc)
            && host.canonical(own).is_ok_and(|own| own == real)
        {
            return Some(toolkit.root.clone());
        }
    }
    None
}

/// A person may compile with another compiler, such as clang.
pub fn is_nvcc(compiler: &OsStr) -> bool {
    Path::new(compiler).file_name() == Some(OsStr::new(PartKind::Nvcc.file_name()))
}

impl BuildPlan {
    /// Publishes the view, if the toolkit needs one. Without `writes`, only its path is returned.
    pub fn publish(&self, host: &Host, writes: bool) -> Result<PublishedBuild, Error> {
        let view = match (&self.spec, writes) {
            (None, _) => None,
            (Some(spec), true) => Some(links::publish(host, spec)?),
            (Some(spec), false) => Some(links::place(host, spec)?),
        };
        let diff = self.environment(host, view.as_deref().unwrap_or(&self.toolkit.root));
        Ok(PublishedBuild { view, diff })
    }

    /// The variables by which nvcc, CMake, torch and setuptools find the toolkit below `root`.
    fn environment(&self, host: &Host, root: &Path) -> Diff {
        let mut set: Vec<(&str, OsString)> =
            HOMES.iter().map(|name| (*name, root.into())).collect();
        if host.env.non_empty(COMPILER).is_none_or(is_nvcc) {
            set.push((COMPILER, root.join("bin/nvcc").into()));
        }
        set.push((
            "PATH",
            before(&[root.join("bin")], Some(program::path_of(host))),
        ));
        let libraries = [root.join("lib64"), root.join("lib64/stubs")];
        set.push((
            "LIBRARY_PATH",
            before(&libraries, host.env.get("LIBRARY_PATH")),
        ));
        if let Some(compiler) = &self.host_compiler {
            let mut flags = OsString::from("-ccbin=");
            flags.push(&compiler.path);
            if let Some(others) = host.env.non_empty("NVCC_PREPEND_FLAGS") {
                flags.push(" ");
                flags.push(others);
            }
            set.push(("NVCC_PREPEND_FLAGS", flags));
            set.push(("CUDAHOSTCXX", compiler.path.clone().into()));
        }
        for (name, directory) in &self.libraries {
            set.push((name, directory.into()));
        }
        let (mut for_torch, mut for_cmake) = (Vec::new(), Vec::new());
        for gpu in &self.gpus {
            for_torch.push(gpu.to_string());
            for_cmake.push(format!("{}{}", gpu.major, gpu.minor));
        }
        for (name, gpus) in ARCHITECTURES.into_iter().zip([for_torch, for_cmake]) {
            if !gpus.is_empty() && host.env.non_empty(name).is_none() {
                set.push((name, gpus.join(";").into()));
            }
        }
        let set = set.into_iter();
        Diff(
            set.map(|(name, value)| (name.into(), Some(value)))
                .collect(),
        )
    }
}

/// Puts directories before those of a variable.
pub fn before(directories: &[PathBuf], value: Option<&OsStr>) -> OsString {
    let rest = value.filter(|value| !value.is_empty()).into_iter();
    let parts: Vec<&OsStr> = directories
        .iter()
        .map(|directory| directory.as_os_str())
        .chain(rest)
        .collect();
    parts.join(OsStr::new(":"))
}
