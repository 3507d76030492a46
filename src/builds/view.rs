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
    let is_below =
        |found: Option<&Path>, below: &str| found == Some(toolkit.root.join(below).as_path());
    !has_blank(&toolkit.root)
        && toolkit.root.to_str().is_some_and(|root| !has_sign(root))
        && !toolkit
            .problems
            .iter()
            .any(|problem| matches!(problem, ToolkitProblem::NoLinkerNames { .. }))
        && is_below(toolkit.part(PartKind::Nvcc), "bin/nvcc")
        && is_below(toolkit.part(PartKind::Cicc), "nvvm/bin/cicc")
        && is_below(toolkit.include.as_deref(), "include")
        && is_below(toolkit.libraries.as_deref(), "lib64")
}

/// Returns the content of the view of a toolkit, with the headers of `borrowed` directories besides.
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
    let is_shared = |directory: &Path| !directory.starts_with(&toolkit.root);
    for part in toolkit.parts.values() {
        let Some(directory) = part.path.parent() else {
            continue;
        };
        if directory.ends_with("bin") {
            links.all("bin", directory, &|name| {
                PROGRAMS.split_whitespace().any(|known| known == name)
            });
        }
    }
    if let Some(cicc) = toolkit.part(PartKind::Cicc) {
        links.one("nvvm/bin/cicc", cicc);
    }
    if let Some(libdevice) = toolkit.part(PartKind::Libdevice) {
        links.one(LIBDEVICE, libdevice);
    }
    if let Some(directory) = toolkit.part(PartKind::Nvvm).and_then(Path::parent) {
        links.all("nvvm/lib64", directory, &|name| {
            name.starts_with("libnvvm.so")
        });
    }
    if let Some(include) = &toolkit.include {
        // The compiler searches this directory by itself. Builds look for single headers to find a toolkit.
        let is_default = include == Path::new("/usr/include");
        let is_its = |name: &str| {
            (!is_shared(include) || begins(HEADERS, name)) && (!is_default || name.ends_with(".h"))
        };
        if borrowed.is_empty() && !is_shared(include) {
            links.one("include", include);
        } else {
            links.all("include", include, &is_its);
        }
    }
    for directory in borrowed {
        links.all("include", directory, &|_| true);
    }
    if let Some(libraries) = &toolkit.libraries {
        let is_its = |name: &str| {
            !is_shared(libraries)
                || begins(LIBRARIES, name)
                || catalog().family_of_file(Path::new(name)).is_some()
        };
        links.all("lib64", libraries, &|name| name != "stubs" && is_its(name));
        links.all("lib64/stubs", &libraries.join("stubs"), &|_| true);
    }
    links.add_linker_names();
    // A wheel has no stub of the driver's library; the library itself serves as well.
    if let Some(libcuda) = libcuda {
        links.one("lib64/stubs/libcuda.so", libcuda);
    }
    links.one("lib", Path::new("lib64"));
    // Builds may ask for more: `extras/CUPTI`, `targets`, `version.json`. The root of an environment has other things.
    if !host.is_directory(&toolkit.root.join("conda-meta")) {
        let top: BTreeSet<String> = links
            .links
            .keys()
            .filter_map(|link| link.split('/').next())
            .map(str::to_owned)
            .collect();
        links.all("", &toolkit.root, &|name| !top.contains(name));
    }
    let mut spec = links.spec();
    spec.files.insert(
        "bin/nvcc.profile".to_owned(),
        profile(host, toolkit, borrowed),
    );
    spec
}

/// Returns the settings of nvcc. They lead to the toolkit itself, so that what is built contains no path of the view. Paths that
/// the format cannot quote lead through the view.
fn profile(host: &Host, toolkit: &Toolkit, borrowed: &[PathBuf]) -> String {
    let place = |real: Option<&Path>, below: &str| {
        let text = real.and_then(Path::to_str).filter(|text| !has_sign(text));
        text.map_or_else(|| format!("$(TOP)/{below}"), str::to_owned)
    };
    let include = place(toolkit.include.as_deref(), "include");
    let libraries = place(toolkit.libraries.as_deref(), "lib64");
    let cicc = place(
        toolkit.part(PartKind::Cicc).and_then(Path::parent),
        "nvvm/bin",
    );
    let libdevice = place(
        toolkit.part(PartKind::Libdevice).and_then(Path::parent),
        "nvvm/libdevice",
    );
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
        .map(|directory| format!("\"-I{}\" ", place(Some(directory), "include")))
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
    fn all(&mut self, below: &str, directory: &Path, is_its: &dyn Fn(&str) -> bool) {
        for entry in self.host.list(directory).unwrap_or_default() {
            let Some(name) = entry.name.to_str().filter(|name| is_its(name)) else {
                continue;
            };
            if matches!(
                entry.kind,
                FileKind::File | FileKind::Link | FileKind::Directory
            ) {
                let link = format!("{below}/{name}").trim_start_matches('/').to_owned();
                self.links
                    .entry(link)
                    .or_insert_with(|| directory.join(name));
            }
        }
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
        let of_file = |target: &PathBuf| {
            let stat = self.host.stat(target).ok()?;
            Some((target.clone(), identity(stat.id, stat.size, stat.modified)))
        };
        let identities = self
            .links
            .values()
            .filter(|target| target.is_absolute())
            .filter_map(of_file)
            .collect();
        ViewSpec::of_links(self.links, identities)
    }
}

/// True if nvcc finds a header beside those of the toolkit; those of libcu++ have a directory of their own since CUDA 13.
pub(super) fn has_header(host: &Host, toolkit: &Toolkit, header: &str) -> bool {
    let is_in = |include: &PathBuf| [include.join(header), include.join("cccl").join(header)];
    toolkit
        .include
        .iter()
        .flat_map(is_in)
        .any(|path| host.is_file(&path))
}

/// Returns the directories of a framework's packages that have one of these headers, which the toolkit lacks.
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
    let brings = |directory: &&PathBuf| {
        missing
            .iter()
            .any(|header| host.is_file(&directory.join(header)))
    };
    includes.iter().filter(brings).cloned().collect()
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
        let parts = host.list(&nvidia).unwrap_or_default();
        found.extend(
            parts
                .iter()
                .map(|part| nvidia.join(&part.name).join("include")),
        );
        watched.extend([site.clone(), nvidia]);
    }
    watched.extend(found.iter().cloned());
    found.retain(|include| host.is_directory(include));
    found
}
