//! The toolkit view: a directory of links with `bin include nvvm lib64`, in which nvcc compiles and links even if the toolkit
//! itself has another layout. nvcc takes the path that it was called by for its root, links not resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::catalog::catalog;
use crate::formats::names;
use crate::host::{FileKind, Host};
use crate::inventory::{PartKind, Toolkit, ToolkitProblem};
use crate::pin::view::{ViewSpec, identity};
use crate::version::Version;

/// The programs that nvcc and builds start. The directory of an environment has other programs besides.
const PROGRAMS: &str = "__nvcc_device_query bin2c cicc crt cu++filt cudafe++ cuobjdump fatbinary nvcc nvdisasm nvlink \
    nvprune ptxas";
/// The place of libdevice below a root.
pub(super) const LIBDEVICE: &str = "nvvm/libdevice/libdevice.10.bc";
/// The beginnings of the names of a toolkit's headers, in a directory with those of all packages.
const HEADERS: &str = "CL builtin_types cccl channel_descriptor common_functions cooperative_groups crt cu device_ driver_ \
    fatBinaryCtl fatbinary host_config host_defines library_types math_constants math_functions mma.h \
    npp nv sm_ sobol_direction surface_ texture_ thrust vector_functions vector_types";
/// The beginnings of the names of its libraries, beside those that families have.
const LIBRARIES: &str = "libcu libnv libnpp libaccinj libOpenCL libculibos";

fn begins(beginnings: &str, name: &str) -> bool {
    beginnings
        .split_whitespace()
        .any(|begin| name.starts_with(begin))
}

pub(super) fn has_blank(path: &Path) -> bool {
    path.as_os_str()
        .as_bytes()
        .iter()
        .any(u8::is_ascii_whitespace)
}

/// True if the format of nvcc's settings, a shell or PATH would take a part of a path for something else.
fn has_sign(path: &str) -> bool {
    path.contains(['"', '$', '`', '%', ':', '\\', '\n'])
}

/// True if a toolkit can be used where it is: builds look for `include` and `lib64` below its root.
pub(super) fn is_usable_in_place(toolkit: &Toolkit) -> bool {
    !has_blank(&toolkit.root)
        && toolkit.root.to_str().is_some_and(|root| !has_sign(root))
        && !toolkit
            .problems
            .iter()
            .any(|problem| matches!(problem, ToolkitProblem::NoLinkerNames { .. }))
        && toolkit.has_part_at(PartKind::Nvcc, "bin/nvcc")
        && toolkit.has_part_at(PartKind::Cicc, "nvvm/bin/cicc")
        && toolkit.include == Some(toolkit.root.join("include"))
        && toolkit.libraries == Some(toolkit.root.join("lib64"))
}

/// The content of the view of a toolkit, with the headers of `borrowed` directories besides.
pub(super) fn spec(
    host: &Host,
    toolkit: &Toolkit,
    borrowed: &[PathBuf],
    libcuda: Option<&Path>,
) -> ViewSpec {
    let mut links = Links {
        host,
        links: BTreeMap::new(),
    };
    links.add_parts(toolkit);
    links.add_headers(toolkit, borrowed);
    links.add_libraries(toolkit);
    // A wheel has no stub of the driver's library; the library itself serves as well.
    if let Some(libcuda) = libcuda {
        links.one("lib64/stubs/libcuda.so", libcuda);
    }
    links.one("lib", Path::new("lib64"));
    // Builds may ask for more: `extras/CUPTI`, `targets`, `version.json`. The root of an environment has other things.
    if !host.is_directory(&toolkit.root.join("conda-meta")) {
        let mut top = BTreeSet::new();
        for link in links.links.keys() {
            top.extend(link.split('/').next().map(str::to_owned));
        }
        links.all("", &toolkit.root, &|name| !top.contains(name));
    }
    let mut spec = links.spec();
    spec.files.insert(
        "bin/nvcc.profile".to_owned(),
        profile(host, toolkit, borrowed),
    );
    spec
}

/// The settings of nvcc. They lead to the toolkit itself, so that what is built contains no path of the view. Paths that the
/// format cannot quote lead through the view.
fn profile(host: &Host, toolkit: &Toolkit, borrowed: &[PathBuf]) -> String {
    let include = quoted(toolkit.include.as_deref(), "include");
    let libraries = quoted(toolkit.libraries.as_deref(), "lib64");
    let cicc = toolkit.part(PartKind::Cicc).and_then(Path::parent);
    let cicc = quoted(cicc, "nvvm/bin");
    let libdevice = toolkit.part(PartKind::Libdevice).and_then(Path::parent);
    let libdevice = quoted(libdevice, "nvvm/libdevice");
    let has_cccl = toolkit
        .include
        .as_ref()
        .is_some_and(|include| host.is_directory(&include.join("cccl")));
    let cccl = if has_cccl {
        format!("\"-isystem\" \"{include}/cccl\" ")
    } else {
        String::new()
    };
    let borrowed: String = borrowed
        .iter()
        .map(|directory| format!("\"-I{}\" ", quoted(Some(directory), "include")))
        .collect();
    // The compiler knows its own directory of headers, and their order matters.
    let own = if include == "/usr/include" {
        String::new()
    } else {
        format!("\"-I{include}\" ")
    };
    format!(
        "TOP = $(_HERE_)/..\n\
         CICC_PATH = {cicc}\n\
         NVVMIR_LIBRARY_DIR = {libdevice}\n\
         PATH += $(CICC_PATH):$(_HERE_):\n\
         INCLUDES += {own}{borrowed}$(_SPACE_)\n\
         SYSTEM_INCLUDES += {cccl}$(_SPACE_)\n\
         LIBRARIES =+ $(_SPACE_) \"-L{libraries}/stubs\" \"-L{libraries}\"\n\
         CUDAFE_FLAGS +=\n\
         PTXAS_FLAGS +=\n"
    )
}

/// A path, or that of its links in the view.
fn quoted(path: Option<&Path>, link: &str) -> String {
    match path.and_then(Path::to_str) {
        Some(text) if !has_sign(text) => text.to_owned(),
        _ => format!("$(TOP)/{link}"),
    }
}

/// The links of a view, by the path in it. The first of two links of one name stays.
struct Links<'h> {
    host: &'h Host,
    links: BTreeMap<String, PathBuf>,
}

impl Links<'_> {
    fn one(&mut self, name: &str, target: &Path) {
        if !target.is_absolute() || self.host.stat(target).is_ok() {
            self.links
                .entry(name.to_owned())
                .or_insert_with(|| target.to_owned());
        }
    }

    /// Links to what a directory contains.
    fn all(&mut self, link: &str, directory: &Path, is_wanted: &dyn Fn(&str) -> bool) {
        for entry in self.host.list(directory).unwrap_or_default() {
            let Some(name) = entry.name.to_str() else {
                continue;
            };
            let kinds = [FileKind::File, FileKind::Link, FileKind::Directory];
            if is_wanted(name) && kinds.contains(&entry.kind) {
                let link = format!("{link}/{name}").trim_start_matches('/').to_owned();
                self.links
                    .entry(link)
                    .or_insert_with(|| directory.join(name));
            }
        }
    }

    fn add_parts(&mut self, toolkit: &Toolkit) {
        for part in toolkit.parts.values() {
            if let Some(directory) = part.path.parent()
                && directory.ends_with("bin")
            {
                self.all("bin", directory, &|name| {
                    PROGRAMS.split_whitespace().any(|program| program == name)
                });
            }
        }
        if let Some(cicc) = toolkit.part(PartKind::Cicc) {
            self.one("nvvm/bin/cicc", cicc);
        }
        if let Some(libdevice) = toolkit.part(PartKind::Libdevice) {
            self.one(LIBDEVICE, libdevice);
        }
        if let Some(directory) = toolkit.part(PartKind::Nvvm).and_then(Path::parent) {
            self.all("nvvm/lib64", directory, &|name| {
                name.starts_with("libnvvm.so")
            });
        }
    }

    fn add_headers(&mut self, toolkit: &Toolkit, borrowed: &[PathBuf]) {
        if let Some(include) = &toolkit.include {
            let is_shared = !include.starts_with(&toolkit.root);
            // The compiler searches this directory by itself. Builds look for single headers to find a toolkit.
            let is_default = include == Path::new("/usr/include");
            if borrowed.is_empty() && !is_shared {
                self.one("include", include);
            } else {
                self.all("include", include, &|name| {
                    (!is_shared || begins(HEADERS, name)) && (!is_default || name.ends_with(".h"))
                });
            }
        }
        for directory in borrowed {
            self.all("include", directory, &|_| true);
        }
    }

    fn add_libraries(&mut self, toolkit: &Toolkit) {
        if let Some(libraries) = &toolkit.libraries {
            let is_shared = !libraries.starts_with(&toolkit.root);
            self.all("lib64", libraries, &|name| {
                let is_of_toolkit = !is_shared
                    || begins(LIBRARIES, name)
                    || catalog().family_of_file(Path::new(name)).is_some();
                name != "stubs" && is_of_toolkit
            });
            self.all("lib64/stubs", &libraries.join("stubs"), &|_| true);
        }
        self.add_linker_names();
    }

    /// Adds `libX.so` for the newest `libX.so.N`: the linker looks for names without a version.
    fn add_linker_names(&mut self) {
        let mut newest: BTreeMap<String, (Version, PathBuf)> = BTreeMap::new();
        for (name, target) in &self.links {
            let Some((stem, number)) = name.strip_prefix("lib64/").and_then(names::split) else {
                continue;
            };
            let Ok(version) = number.parse::<Version>() else {
                continue;
            };
            let known = newest
                .entry(format!("lib64/{stem}.so"))
                .or_insert_with(|| (version, target.clone()));
            if known.0 < version {
                *known = (version, target.clone());
            }
        }
        for (name, (_, target)) in newest {
            self.links.entry(name).or_insert(target);
        }
    }

    /// The identity of each file is part of the view's name, so that another build of it makes another view.
    fn spec(self) -> ViewSpec {
        let mut identities = BTreeMap::new();
        for target in self.links.values() {
            if target.is_absolute()
                && let Ok(stat) = self.host.stat(target)
            {
                let identity = identity(stat.id, stat.size, stat.modified);
                identities.insert(target.clone(), identity);
            }
        }
        ViewSpec::of_links(self.links, identities)
    }
}

/// True if nvcc finds a header beside those of the toolkit; those of libcu++ have a directory of their own since CUDA 13.
pub(super) fn has_header(host: &Host, toolkit: &Toolkit, header: &str) -> bool {
    toolkit.include.as_ref().is_some_and(|include| {
        host.is_file(&include.join(header)) || host.is_file(&include.join("cccl").join(header))
    })
}

/// The directories of a framework's packages that have one of these headers, which the toolkit lacks.
pub(super) fn borrowed(
    host: &Host,
    toolkit: &Toolkit,
    headers: &[String],
    includes: &[PathBuf],
) -> Vec<PathBuf> {
    let missing: Vec<&String> = headers
        .iter()
        .filter(|header| !has_header(host, toolkit, header))
        .collect();
    let mut borrowed = includes.to_vec();
    borrowed.retain(|directory| {
        let mut missing = missing.iter();
        missing.any(|header| host.is_file(&directory.join(header)))
    });
    borrowed
}

/// Returns the directories of headers of NVIDIA's wheels beside a framework. Watches them, and those that may appear.
pub(super) fn includes(
    host: &Host,
    site_packages: &[PathBuf],
    watched: &mut BTreeSet<PathBuf>,
) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for site in site_packages {
        let nvidia = site.join("nvidia");
        for part in host.list(&nvidia).unwrap_or_default() {
            found.push(nvidia.join(&part.name).join("include"));
        }
        watched.extend([site.clone(), nvidia]);
    }
    watched.extend(found.iter().cloned());
    found.retain(|include| host.is_directory(include));
    found
}
