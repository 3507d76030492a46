//! `--build`: the toolkit that fits a build, a directory of links in which it compiles and links, and the variables by which
//! build tools find it. Toolkits are facts of the inventory; nothing is started to decide.

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
    Build, BuildPlan, BuildWish, CompilerLack, CompilerSupply, Compilers, HostCompiler, NoToolkit,
    Overridden, PublishedBuild, RejectedToolkit, ToolkitReason, Withheld,
};
use choice::{BuildMachine, choose, makes_code};

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
    wish: &BuildWish,
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
    let named = named(host, wish, toolkits);
    let roots: Vec<PathBuf> = named.iter().filter_map(|(.., root)| root.clone()).collect();
    let has_header = |toolkit: &Toolkit, header: &str| {
        view::has_header(host, toolkit, header)
            || includes
                .iter()
                .any(|include| host.is_file(&include.join(header)))
    };
    let machine = BuildMachine {
        cuda: inventory.driver.as_ref().and_then(|driver| driver.cuda),
        gpus: &gpus,
        compilers: &compilers,
        named: &roots,
        has_header: &has_header,
    };
    let (mut fitting, rejected) = choose(toolkits, wish, &machine);
    if fitting.is_empty() {
        let install = choice::to_install(&rejected, wish, &machine);
        return Err(Box::new(NoToolkit {
            wish: wish.clone(),
            rejected,
            install,
        }));
    }
    let toolkit = fitting.remove(0);
    let found = choice::host_compiler(&toolkit, &compilers);
    let host_compiler = found
        .filter(|found| Some(*found) != compilers.first())
        .cloned();
    let headers = wish
        .framework
        .as_ref()
        .map(|framework| framework.headers.as_slice())
        .unwrap_or_default();
    let borrowed = view::borrowed(host, &toolkit, headers, &includes);
    let is_whole = borrowed.is_empty() && view::is_usable_in_place(&toolkit);
    let spec =
        (!is_whole).then(|| view::spec(host, &toolkit, &borrowed, inventory.libcuda.as_deref()));
    gpus.retain(|gpu| toolkit.cuda().is_some_and(|cuda| makes_code(cuda, *gpu)));
    let overridden = named
        .into_iter()
        .filter(|(.., root)| root.as_ref() != Some(&toolkit.root));
    let overridden = overridden.map(|(name, value, root)| {
        let is_fitting = fitting
            .iter()
            .any(|other| Some(&other.root) == root.as_ref());
        let reason = rejected
            .iter()
            .find(|other| Some(&other.toolkit.root) == root.as_ref());
        let reason = reason.map_or(ToolkitReason::NoNvcc, |other| other.reason.clone());
        Overridden(
            name.to_owned(),
            value.to_string_lossy().into_owned(),
            (!is_fitting).then_some(reason),
        )
    });
    // The variables of one library go together: a person's, or these.
    let is_given = |library: &str| {
        let mut names = LIBRARIES
            .iter()
            .filter(|(_, header, _)| *header == library)
            .map(|(name, ..)| *name);
        names.any(|name| host.env.non_empty(name).is_some())
    };
    let library = |(name, header, is_of_headers): &(&'static str, &str, bool)| {
        let mut includes = includes.iter();
        let include = includes.find(|include| host.is_file(&include.join(header)))?;
        let directory = if *is_of_headers {
            include
        } else {
            include.parent()?
        };
        Some((*name, directory.to_owned()))
    };
    Ok(BuildPlan {
        libraries: LIBRARIES
            .iter()
            .filter(|(_, header, _)| !is_given(header))
            .filter_map(library)
            .collect(),
        overridden: overridden.collect(),
        watched,
        framework: wish.framework.clone(),
        passed_over: fitting,
        rejected,
        host_compiler,
        gpus,
        spec,
        is_isolated: wish.is_isolated,
        toolkit,
    })
}

/// Returns the nvcc of the command, and the variables that name a toolkit, with their values, and its root if it was found.
fn named<'h>(
    host: &'h Host,
    wish: &'h BuildWish,
    toolkits: &[Toolkit],
) -> Vec<(&'static str, &'h OsStr, Option<PathBuf>)> {
    let of_command = wish
        .nvcc
        .iter()
        .map(|nvcc| ("nvcc", nvcc.as_os_str(), of_nvcc(host, toolkits, nvcc)));
    let named = |name: &'static str| {
        let value = host.env.non_empty(name)?;
        let nvcc = match name {
            COMPILER if is_nvcc(value) => program::locate(host, value).unwrap_or_default(),
            COMPILER => return None,
            _ => host.absolute(Path::new(value)).join("bin/nvcc"),
        };
        Some((name, value, of_nvcc(host, toolkits, &nvcc)))
    };
    of_command
        .chain(HOMES.into_iter().chain([COMPILER]).filter_map(named))
        .collect()
}

/// Returns the root of the toolkit with this nvcc.
fn of_nvcc(host: &Host, toolkits: &[Toolkit], nvcc: &Path) -> Option<PathBuf> {
    let real = host.canonical(nvcc).ok()?;
    let is_its = |toolkit: &&Toolkit| {
        toolkit
            .part(PartKind::Nvcc)
            .is_some_and(|own| host.canonical(own).is_ok_and(|own| own == real))
    };
    toolkits
        .iter()
        .find(is_its)
        .map(|toolkit| toolkit.root.clone())
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

    /// Returns the variables by which nvcc, CMake, torch and setuptools find the toolkit below `root`.
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
        set.extend(
            self.libraries
                .iter()
                .map(|(name, directory)| (*name, directory.into())),
        );
        let join = |numbers: Vec<String>| numbers.join(";");
        let for_torch = self.gpus.iter().map(ToString::to_string).collect();
        let for_cmake = self
            .gpus
            .iter()
            .map(|gpu| format!("{}{}", gpu.major, gpu.minor))
            .collect();
        let architectures = [join(for_torch), join(for_cmake)];
        for (name, value) in ARCHITECTURES.into_iter().zip(architectures) {
            if !value.is_empty() && host.env.non_empty(name).is_none() {
                set.push((name, value.into()));
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
