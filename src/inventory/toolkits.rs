//! The toolkits of a machine: every directory with NVIDIA's compilers that a source leads to, PATH included. Nothing is
//! started; releases are read from the compilers' own bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::installation::Origin;
use super::location::{ScanContext, SearchLocation};
use super::owners::{self, Owners, WritablePath};
use super::places;
use super::toolkit_model::{PartFile, PartKind, Toolkit, ToolkitProblem};
use super::wheel;
use crate::formats::{build_info, elf, toolchain};
use crate::version::{CudaVersion, Version};

/// Libraries are at most this far below the root: `targets/x86_64-linux/lib/stubs`.
const DEPTH: usize = 4;
/// Debian's toolkit is below `/usr`, with some compilers, the headers and the libraries in the directories of all packages.
const DEBIAN: &str = "lib/nvidia-cuda-toolkit";
/// Files without which no CUDA source compiles.
const HEADERS: [&str; 3] = ["cuda_runtime.h", "cuda.h", "crt/host_config.h"];
/// The directories of libcu++ below that of the headers.
const CCCL: [&str; 2] = ["nv/target", "cccl/nv/target"];
/// nvcc links against the runtime, as an archive or as a shared library.
const LINKED: [&str; 3] = ["libcudart.so", "libcudart_static.a", "libcudadevrt.a"];
const LIBCUDA: &str = "libcuda.so.1";

/// Returns the driver's own library, which serves for linking where a toolkit has no stub of it.
pub(super) fn libcuda(look: &mut ScanContext<'_>, places: &[SearchLocation]) -> Option<PathBuf> {
    let of_driver = places.iter().filter(|place| place.origin == Origin::Driver);
    of_driver
        .map(|place| place.directory.join(LIBCUDA))
        .find(|path| look.is_file(path))
}

/// Finds the toolkits around the directories that the sources name.
pub(super) fn find(look: &mut ScanContext<'_>, places: &[SearchLocation]) -> Vec<Toolkit> {
    let mut roots: BTreeMap<PathBuf, (Origin, bool)> = BTreeMap::new();
    let mut add = |root: &Path, origin: Origin, is_named: bool| {
        let known = roots.entry(root.to_owned()).or_insert((origin, false));
        *known = (known.0.min(origin), known.1 || is_named);
    };
    for place in places {
        // Libraries of the driver and of packages that bundle them are beside no compiler.
        if !matches!(place.origin, Origin::Driver | Origin::Bundled) {
            let is_part = matches!(place.origin, Origin::Compat | Origin::Stub);
            let origin = if is_part { Origin::Loose } else { place.origin };
            let above = place.directory.ancestors().take(DEPTH + 1);
            above.for_each(|root| add(root, origin, place.is_named));
        }
    }
    for (root, is_named) in places::toolkits(look) {
        add(&root, Origin::Toolkit, is_named);
    }
    for root in of_compilers(look) {
        add(&root, Origin::Loose, true);
    }
    let is_shared = |root: &Path| root.parent().is_none() || root == Path::new("/usr");
    let mut owners = Owners::new(look.host);
    let mut found: BTreeMap<PathBuf, Toolkit> = BTreeMap::new();
    for (root, (origin, is_named)) in roots {
        if is_shared(&root) || look.scope.views.iter().any(|views| root.starts_with(views)) {
            continue;
        }
        let Some(real) = real_root(look, &root) else {
            continue;
        };
        let is_named = is_named
            || look
                .scope
                .site_packages
                .iter()
                .any(|site| root.starts_with(site));
        match found.get_mut(&real) {
            Some(known) => {
                known.origin = known.origin.min(origin);
                known.is_named |= is_named;
            }
            None => {
                let toolkit = read(look, &mut owners, real.clone(), origin, is_named);
                found.insert(real, toolkit);
            }
        }
    }
    look.watched.extend(owners.asked());
    found.into_values().collect()
}

/// Returns the real path of a directory with `nvcc` or `ptxas`.
fn real_root(look: &mut ScanContext<'_>, root: &Path) -> Option<PathBuf> {
    let is_there = [PartKind::Nvcc, PartKind::Ptxas]
        .into_iter()
        .any(|part| look.is_file(&root.join("bin").join(part.file_name())));
    if is_there {
        look.watch(root);
    }
    look.host.canonical(root).ok().filter(|_| is_there)
}

/// Returns the roots of the compilers in PATH, and of those that a person names, with links resolved as well.
fn of_compilers(look: &mut ScanContext<'_>) -> Vec<PathBuf> {
    let path = look.host.env.get("PATH").unwrap_or_default();
    let directories = std::env::split_paths(path).filter(|directory| directory.is_absolute());
    let in_path = directories.flat_map(|directory| {
        [PartKind::Nvcc, PartKind::Ptxas].map(|part| directory.join(part.file_name()))
    });
    let files: Vec<PathBuf> = in_path
        .chain(look.named("CUDACXX"))
        .chain(look.scope.executable.clone())
        .collect();
    let mut roots = Vec::new();
    for file in files {
        if let Ok(real) = look.host.canonical(&file) {
            roots.extend(
                [&file, &real]
                    .into_iter()
                    .filter_map(|file| file.ancestors().nth(2))
                    .map(Path::to_owned),
            );
        }
        look.watch(file);
    }
    roots
}

fn read(
    look: &mut ScanContext<'_>,
    owners: &mut Owners<'_>,
    root: PathBuf,
    origin: Origin,
    is_named: bool,
) -> Toolkit {
    let shared = root
        .ends_with(DEBIAN)
        .then(|| root.ancestors().nth(2))
        .flatten()
        .map(Path::to_owned);
    let (multiarch, platform) = if look.scope.machine == elf::AARCH64 {
        ("lib/aarch64-linux-gnu", "sbsa-linux")
    } else {
        ("lib/x86_64-linux-gnu", "x86_64-linux")
    };
    let shared_libraries = shared.iter().map(|shared| shared.join(multiarch));
    let mut parts = BTreeMap::new();
    for (part, name, directories) in PartKind::ALL {
        let own = directories.iter().map(|below| root.join(below));
        let shared = shared
            .iter()
            .map(|shared| shared.join("bin"))
            .chain(shared_libraries.clone());
        let mut paths = own.chain(shared).map(|directory| directory.join(name));
        if let Some(path) = paths.find(|path| look.is_file(path)) {
            let release = part.is_compiler().then(|| release(look, &path)).flatten();
            // A view has other files of the directory.
            look.watched.extend(path.parent().map(Path::to_owned));
            parts.insert(part, PartFile { path, release });
        }
    }
    let newest = || parts.values().filter_map(|part| part.release).max();
    let release = parts
        .get(&PartKind::Nvcc)
        .map_or_else(newest, |nvcc| nvcc.release);
    let mut has = |directory: &Path, names: &[&str]| {
        names.iter().any(|name| look.is_file(&directory.join(name)))
    };
    let target = root.join("targets").join(platform);
    let mut include = vec![root.join("include"), target.join("include")];
    let mut libraries = vec![root.join("lib64"), target.join("lib"), root.join("lib")];
    include.extend(shared.iter().map(|shared| shared.join("include")));
    libraries.extend(shared_libraries);
    let include = include
        .into_iter()
        .find(|directory| has(directory, &HEADERS[..1]));
    let libraries = libraries
        .into_iter()
        .find(|directory| has(directory, &LINKED));
    let stubs = libraries.iter().map(|libraries| libraries.join("stubs"));
    look.watched
        .extend(include.iter().chain(&libraries).cloned().chain(stubs));
    let header = |look: &mut ScanContext<'_>, name: &str| {
        let path = include.as_ref()?.join(name);
        look.watch(&path);
        look.host.read_text(&path).ok()
    };
    let headers = header(look, "cuda_runtime_api.h")
        .and_then(|text| {
            build_info::define(text.as_bytes(), "CUDART_VERSION")?
                .parse()
                .ok()
        })
        .map(CudaVersion::from_number);
    let newest_gcc =
        header(look, "crt/host_config.h").and_then(|text| toolchain::newest_gcc(&text));
    let crt = release_of_crt_wheel(look, &root);
    let mut toolkit = Toolkit {
        origin: if shared.is_some() {
            Origin::Debian
        } else {
            origin
        },
        open: Vec::new(),
        root,
        release,
        parts,
        include,
        libraries,
        headers,
        newest_gcc,
        is_named,
        problems: Vec::new(),
    };
    toolkit.open = open(look, owners, &toolkit);
    if toolkit.parts.contains_key(&PartKind::Nvcc) {
        toolkit.problems = problems(look, &toolkit, crt);
    }
    toolkit
}

/// Returns the release in a compiler's bytes.
fn release(look: &mut ScanContext<'_>, path: &Path) -> Option<Version> {
    let stat = look.host.stat(path).ok()?;
    if let Some(known) = look.known.releases.get(&stat) {
        return known;
    }
    let release = toolchain::release(&look.host.map(path).ok()?);
    if look.known.is_settled(&stat) {
        look.known.releases.insert(&stat, &release);
    }
    release
}

/// Returns the release of the wheel with nvcc's own headers, which do not contain it.
fn release_of_crt_wheel(look: &mut ScanContext<'_>, root: &Path) -> Option<Version> {
    let site = root
        .ancestors()
        .find(|above| above.file_name().is_some_and(|name| name == "nvidia"))?
        .parent()?;
    look.watch(site);
    let distributions = wheel::distributions(look.host, site);
    let crt = distributions
        .iter()
        .find(|one| one.name == "nvidia-cuda-crt")?;
    crt.version.parse().ok()
}

/// Returns the files and directories by which another user could change what a build would start, include or link.
fn open(look: &ScanContext<'_>, owners: &mut Owners<'_>, toolkit: &Toolkit) -> Vec<WritablePath> {
    let mut open: Vec<WritablePath> = Vec::new();
    let Toolkit {
        parts,
        include,
        libraries,
        ..
    } = toolkit;
    let crt = include.as_ref().map(|include| include.join("crt"));
    let mut directories: BTreeSet<&Path> = parts
        .values()
        .filter_map(|part| part.path.parent())
        .collect();
    directories.extend(
        include
            .iter()
            .chain(&crt)
            .chain(libraries)
            .map(PathBuf::as_path),
    );
    let real = |path: &Path| {
        look.host
            .canonical(path)
            .unwrap_or_else(|_| path.to_owned())
    };
    open.extend(
        directories
            .into_iter()
            .filter_map(|directory| owners::on_the_way(look.host, directory)),
    );
    for path in parts.values().map(|part| real(&part.path)) {
        if let Ok(stat) = look.host.stat(&path) {
            open.extend(owners.open(&path, &stat));
        }
    }
    open.dedup();
    open
}

fn problems(
    look: &mut ScanContext<'_>,
    toolkit: &Toolkit,
    crt: Option<Version>,
) -> Vec<ToolkitProblem> {
    let mut problems = Vec::new();
    let mut releases: BTreeMap<CudaVersion, BTreeSet<String>> = BTreeMap::new();
    let of_parts = toolkit
        .parts
        .iter()
        .filter_map(|(part, found)| Some((part.file_name(), found.release?)));
    for (name, release) in of_parts.chain(crt.map(|release| ("crt", release))) {
        releases
            .entry(CudaVersion::of(release))
            .or_default()
            .insert(name.to_owned());
    }
    if let Some(headers) = toolkit.headers {
        releases
            .entry(headers)
            .or_default()
            .insert(HEADERS[0].to_owned());
    }
    if releases.len() > 1 {
        problems.push(ToolkitProblem::ToolkitMixed { releases });
    }
    // In a saved machine, no compiler has a release.
    let has_releases = toolkit.parts.values().any(|found| found.release.is_some());
    let is_whole = |found: &PartFile| {
        (found.release.is_some() || !has_releases) && look.host.is_executable(&found.path)
    };
    let damaged = toolkit
        .parts
        .iter()
        .filter(|(part, found)| part.is_compiler() && !is_whole(found));
    let names: Vec<&'static str> = damaged.map(|(part, _)| part.file_name()).collect();
    if !names.is_empty() {
        problems.push(ToolkitProblem::CompilerDamaged { names });
    }
    let started = [
        PartKind::Cicc,
        PartKind::Cudafe,
        PartKind::Ptxas,
        PartKind::Fatbinary,
    ];
    let missing = started
        .into_iter()
        .filter(|part| !toolkit.parts.contains_key(part));
    let names: Vec<&'static str> = missing.map(PartKind::file_name).collect();
    if !names.is_empty() {
        problems.push(ToolkitProblem::CompilerMissing { names });
    }
    let mut has = |name: &str| {
        toolkit
            .include
            .as_ref()
            .is_some_and(|include| look.is_file(&include.join(name)))
    };
    let names: Vec<&'static str> = HEADERS.into_iter().filter(|name| !has(name)).collect();
    if !names.is_empty() {
        problems.push(ToolkitProblem::HeaderMissing { names });
    } else if toolkit.release.is_some_and(|release| release.major() >= 12)
        && !CCCL.into_iter().any(has)
    {
        problems.push(ToolkitProblem::NoCccl);
    }
    let Some(libraries) = &toolkit.libraries else {
        let is_stub = look.host.is_directory(&toolkit.root.join("lib64/stubs"));
        problems.push(if is_stub {
            ToolkitProblem::StubOnly
        } else {
            ToolkitProblem::NoLinkerNames {
                names: LINKED.map(str::to_owned).to_vec(),
            }
        });
        return problems;
    };
    // nvcc's own settings lead to `lib64`, those of conda and of Debian to their directories.
    let is_searched = !libraries.ends_with("lib")
        || libraries
            .parent()
            .is_some_and(|above| above != toolkit.root);
    let lacks = |name: &&str| !is_searched || !look.host.is_file(&libraries.join(name));
    let names: Vec<String> = LINKED
        .into_iter()
        .filter(lacks)
        .map(str::to_owned)
        .collect();
    if !names.is_empty() {
        problems.push(ToolkitProblem::NoLinkerNames { names });
    }
    problems
}
