//! Toolkits for builds, and the compilers in them: facts from their files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::installation::Origin;
use super::owners::WritablePath;
use crate::text::{self, shown};
use crate::version::{CudaVersion, Version};

/// A program or a file of a toolkit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    Nvcc,
    Cicc,
    #[serde(rename = "cudafe++")]
    Cudafe,
    Ptxas,
    Fatbinary,
    Nvlink,
    /// `libdevice.10.bc`, the mathematical functions of device code.
    Libdevice,
    /// `libnvvm.so`, the compiler as a library.
    Nvvm,
    /// `cuda_runtime.h` and the headers beside it, which NVRTC is given.
    Headers,
}

impl PartKind {
    /// All parts with their file names, and the directories below a toolkit's root in which they may be.
    pub(super) const ALL: [(PartKind, &str, &[&str]); 9] = [
        (PartKind::Nvcc, "nvcc", &["bin"]),
        (PartKind::Cicc, "cicc", &["nvvm/bin", "bin"]),
        (PartKind::Cudafe, "cudafe++", &["bin"]),
        (PartKind::Ptxas, "ptxas", &["bin"]),
        (PartKind::Fatbinary, "fatbinary", &["bin"]),
        (PartKind::Nvlink, "nvlink", &["bin"]),
        (
            PartKind::Libdevice,
            "libdevice.10.bc",
            &["nvvm/libdevice", "libdevice"],
        ),
        (
            PartKind::Nvvm,
            "libnvvm.so",
            &["nvvm/lib64", "lib64", "lib"],
        ),
        (PartKind::Headers, "cuda_runtime.h", &["include"]),
    ];

    pub fn of_file(name: &str) -> Option<PartKind> {
        PartKind::ALL
            .into_iter()
            .find(|(_, known, _)| *known == name)
            .map(|(part, ..)| part)
    }

    pub fn file_name(self) -> &'static str {
        PartKind::ALL[self as usize].1
    }

    /// True if it contains its release, and `nvcc` starts it.
    pub(super) fn is_compiler(self) -> bool {
        !matches!(
            self,
            PartKind::Libdevice | PartKind::Nvvm | PartKind::Headers
        )
    }
}

/// A part, and the release that it contains.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartFile {
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    pub release: Option<Version>,
}

/// A CUDA toolkit, or a part of one: compilers below one root, with the headers and the libraries for linking.
#[derive(Clone, Debug)]
pub struct Toolkit {
    /// Its real directory: the parent of `bin`.
    pub root: PathBuf,
    pub origin: Origin,
    /// The release of nvcc; in a directory without it, of the newest compiler.
    pub release: Option<Version>,
    pub parts: BTreeMap<PartKind, PartFile>,
    /// The directories with `cuda_runtime.h` and with libraries for linking.
    pub include: Option<PathBuf>,
    pub libraries: Option<PathBuf>,
    /// The CUDA version of the headers.
    pub headers: Option<CudaVersion>,
    /// The newest major of GCC that its headers accept.
    pub newest_gcc: Option<u32>,
    /// Files and directories through which others than root and the user could change what a build gets of it.
    pub open: Vec<WritablePath>,
    /// A variable, PATH or an option names it, or it is in the Python environment of the program.
    pub is_named: bool,
    pub problems: Vec<ToolkitProblem>,
}

/// A problem of a toolkit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "problem", rename_all = "kebab-case")]
pub enum ToolkitProblem {
    #[error("mixed: {}", mixed(.releases))]
    /// Each version comes with what has it.
    ToolkitMixed {
        releases: BTreeMap<CudaVersion, BTreeSet<String>>,
    },
    #[error("{} missing", shown(.names))]
    CompilerMissing { names: Vec<&'static str> },
    #[error("{}: empty, damaged or not executable", shown(.names))]
    /// A compiler contains no release, unlike others, as an empty or a truncated file, or is not executable.
    CompilerDamaged { names: Vec<&'static str> },
    #[error("{} missing", shown(.names))]
    HeaderMissing { names: Vec<&'static str> },
    #[error("nv/target, a header of libcu++, is missing")]
    /// The headers of libcu++ are missing, which `cuda_fp16.h` and others include.
    NoCccl,
    #[error("nvcc's linker does not find {}", shown(.names))]
    /// The linker finds no library by `-lNAME`: nvcc looks in `lib64`, for names without a version.
    NoLinkerNames { names: Vec<String> },
    #[error("it has only stubs to link against")]
    StubOnly,
}

fn mixed(releases: &BTreeMap<CudaVersion, BTreeSet<String>>) -> String {
    let parts = releases.iter().map(|(cuda, names)| {
        let are = if names.len() > 1 { "are" } else { "is" };
        format!("{} {are} of CUDA {cuda}", shown(names))
    });
    parts.collect::<Vec<_>>().join("; ")
}

impl Toolkit {
    pub fn cuda(&self) -> Option<CudaVersion> {
        self.release.map(CudaVersion::of)
    }

    /// True if a part is at this path below the root.
    pub fn has_part_at(&self, part: PartKind, path: &str) -> bool {
        self.part(part) == Some(self.root.join(path).as_path())
    }

    pub fn part(&self, part: PartKind) -> Option<&Path> {
        self.parts.get(&part).map(|part| part.path.as_path())
    }
}
