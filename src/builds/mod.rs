//! `--build`: the toolkit that fits a build, a directory of links in which it compiles and links, and the variables by which
//! build tools find it. Toolkits are facts of the inventory; nothing is started to decide.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::environment::{Change, Diff};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{Inventory, Toolkit, Visible};
use crate::pin::view as links;
use crate::version::ComputeCapability;

mod choose;
pub mod compilers;
mod host_compiler;
mod model;
mod view;

use choose::{Machine, choose, makes_code};
pub use model::{
    BuildPlan, BuildWish, CompilerLack, CompilerSupply, Compilers, HostCompiler, NoToolkit, PublishedBuild,
    RejectedToolkit, ToolkitReason, Withheld,
};

/// Variables that name the directory of a toolkit.
const HOMES: [&str; 4] = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDAToolkit_ROOT"];
/// Architectures to make code for, as torch and as CMake read them.
const ARCHITECTURES: [&str; 2] = ["TORCH_CUDA_ARCH_LIST", "CUDAARCHS"];
/// Variables that name a library's directory, or that of its headers, with a header by which it is known.
const LIBRARIES: [(&str, &str, Directory); 4] = [
    ("CUDNN_HOME", "cudnn.h", Directory::Root),
    ("CUDNN_PATH", "cudnn.h", Directory::Root),
    ("CUDNN_INCLUDE_DIR", "cudnn.h", Directory::Include),
    ("NCCL_HOME", "nccl.h", Directory::Root),
];

#[derive(PartialEq)]
enum Directory {
    Root,
    Include,
}

/// The variables that a build plan depends on, besides those of every plan.
pub const VARIABLES: [&str; 13] = [
    "CUDAARCHS",
    "CUDACXX",
    "CUDAHOSTCXX",
    "CUDAToolkit_ROOT",
    "CUDNN_HOME",
    "CUDNN_INCLUDE_DIR",
    "CUDNN_PATH",
    "LIBRARY_PATH",
    "NCCL_HOME",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "NVCC_PREPEND_FLAGS",
    "TORCH_CUDA_ARCH_LIST",
];

/// Chooses the toolkit for a build. `site_packages` are the directories with the framework.
pub fn decide(
    host: &Host,
    inventory: &Inventory,
    wish: &BuildWish,
    site_packages: &[PathBuf],
) -> Result<BuildPlan, Box<NoToolkit>> {
    let visible = inventory.gpus.iter().filter(|gpu| gpu.visible != Visible::No);
    let mut gpus: Vec<ComputeCapability> = visible.filter_map(|gpu| gpu.capability).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let compilers = host_compiler::compilers(host);
    let includes = view::includes(host, site_packages);
    let has_header = |toolkit: &Toolkit, header: &str| {
        view::has_header(host, toolkit, header)
            || includes.iter().any(|include| host.is_file(&include.join(header)))
    };
    let machine = Machine {
        cuda: inventory.driver.as_ref().and_then(|driver| driver.cuda),
        gpus: &gpus,
        compilers: &compilers,
        has_header: &has_header,
    };
    let (mut fitting, rejected) = choose(inventory.toolkits.as_deref().unwrap_or_default(), wish, &machine);
    if fitting.is_empty() {
        return Err(Box::new(NoToolkit { wish: wish.clone(), rejected }));
    }
    let toolkit = fitting.remove(0);
    let found = choose::host_compiler(&toolkit, &compilers);
    let host_compiler = found.filter(|found| Some(*found) != compilers.first()).cloned();
    let headers = wish.framework.as_ref().map(|framework| framework.headers.as_slice()).unwrap_or_default();
    let borrowed = view::borrowed(host, &toolkit, headers, &includes);
    let is_whole = borrowed.is_empty() && view::is_usable_in_place(&toolkit);
    let spec = (!is_whole).then(|| view::spec(host, &toolkit, &borrowed, inventory.libcuda.as_deref()));
    gpus.retain(|gpu| toolkit.cuda().is_some_and(|cuda| makes_code(cuda, *gpu)));
    let is_other =
        |value: &OsStr| host.canonical(&host.absolute(Path::new(value))).ok().as_ref() != Some(&toolkit.root);
    let named = HOMES.iter().filter_map(|name| Some((*name, host.env.non_empty(name)?)));
    let overridden = named
        .filter(|(_, value)| is_other(value))
        .map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned()))
        .collect();
    let library = |(name, header, directory): &(&'static str, &str, Directory)| {
        let include = includes.iter().find(|include| host.is_file(&include.join(header)))?;
        Some((*name, if *directory == Directory::Root { include.parent()? } else { include }.to_owned()))
    };
    Ok(BuildPlan {
        libraries: LIBRARIES.iter().filter_map(library).collect(),
        framework: wish.framework.clone(),
        passed_over: fitting,
        rejected,
        host_compiler,
        gpus,
        spec,
        overridden,
        is_isolated: wish.is_isolated,
        toolkit,
    })
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
        let mut set: Vec<(&str, OsString)> = HOMES.iter().map(|name| (*name, root.into())).collect();
        set.push(("CUDACXX", root.join("bin/nvcc").into()));
        set.push(("PATH", before(&[root.join("bin")], host.env.get("PATH"))));
        let libraries = [root.join("lib64"), root.join("lib64/stubs")];
        set.push(("LIBRARY_PATH", before(&libraries, host.env.get("LIBRARY_PATH"))));
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
        let is_unset = |name: &str| host.env.non_empty(name).is_none();
        let libraries = self.libraries.iter().filter(|(name, _)| is_unset(name));
        set.extend(libraries.map(|(name, directory)| (*name, directory.into())));
        let join = |numbers: Vec<String>| numbers.join(";");
        let for_torch = self.gpus.iter().map(ToString::to_string).collect();
        let for_cmake = self.gpus.iter().map(|gpu| format!("{}{}", gpu.major, gpu.minor)).collect();
        let architectures = [join(for_torch), join(for_cmake)];
        for (name, value) in ARCHITECTURES.into_iter().zip(architectures) {
            if !value.is_empty() && is_unset(name) {
                set.push((name, value.into()));
            }
        }
        Diff(set.into_iter().map(|(name, value)| Change { name: name.into(), value: Some(value) }).collect())
    }
}

/// Puts directories before those of a variable.
pub fn before(directories: &[PathBuf], value: Option<&OsStr>) -> OsString {
    let rest = value.filter(|value| !value.is_empty()).into_iter();
    let parts: Vec<&OsStr> = directories.iter().map(|directory| directory.as_os_str()).chain(rest).collect();
    parts.join(OsStr::new(":"))
}
