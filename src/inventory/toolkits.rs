//! The toolkits of a machine: every directory with NVIDIA's compilers that a source leads to, PATH included. Nothing is
//! started; releases are read from the compilers' own bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::installation::Origin;
use super::location::{ScanContext, SearchLocation};
use super::machine::Scope;
use super::owners::{self, Owners, WritablePath};
use super::places;
use super::toolkit_model::{PartFile, PartKind, Toolkit, ToolkitProblem};
use super::wheel;
use crate::formats::{build_info, elf, toolchain};
use crate::host::Host;
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
/// A directory with one of these in its `bin` is a toolkit.
const FOUND_BY: [PartKind; 2] = [PartKind::Nvcc, PartKind::Ptxas];
/// nvcc starts these.
const STARTED: [PartKind; 4] = [
    PartKind::Cicc,
    PartKind::Cudafe,
    PartKind::Ptxas,
    PartKind::Fatbinary,
];

/// The driver's own library, which serves for linking where a toolkit has no stub of it.
pub(super) fn libcuda(scan: &mut ScanContext<'_>, locations: &[SearchLocation]) -> Option<PathBuf> {
    locations
        .iter()
        .filter(|location| location.origin == Origin::Driver)
        .map(|location| location.directory.join(LIBCUDA))
        .find(|path| scan.is_file(path))
}

/// Directories that may be roots of toolkits, each with the origin that it gets and true if a person has named it.
#[derive(Default)]
struct ToolkitRoots(BTreeMap<PathBuf, (Origin, bool)>);

impl ToolkitRoots {
    fn add(&mut self, root: &Path, origin: Origin, is_named: bool) {
        let known = self.0.entry(root.to_owned()).or_insert((origin, is_named));
        *known = (known.0.min(origin), known.1 || is_named);
    }
}

/// Finds the toolkits around the directories that the sources name.
pub(super) fn find(scan: &mut ScanContext<'_>, locations: &[SearchLocation]) -> Vec<Toolkit> {
    let mut roots = ToolkitRoots::default();
    for location in locations {
        let origin = match location.origin {
            // Libraries of the driver and of packages that bundle them are beside no compiler.
            Origin::Driver | Origin::Bundled => continue,
            Origin::Compat | Origin::Stub => Origin::Loose,
            origin => origin,
        };
        for root in location.directory.ancestors().take(DEPTH + 1) {
            roots.add(root, origin, location.is_named);
        }
    }
    for (root, is_named) in places::toolkits(scan) {
        roots.add(&root, Origin::Toolkit, is_named);
    }
    for root in roots_of_compilers(scan) {
        roots.add(&root, Origin::Loose, true);
    }
    let Scope {
        views,
        site_packages,
        ..
    } = scan.scope;
    let mut owners = Owners::new(scan.host);
    let mut found: BTreeMap<PathBuf, Toolkit> = BTreeMap::new();
    for (root, (origin, is_named)) in roots.0 {
        let is_shared = root.parent().is_none() || root == Path::new("/usr");
        if is_shared || views.iter().any(|views| root.starts_with(views)) {
            continue;
        }
        let Some(real) = real_root(scan, &root) else {
            continue;
        };
        let is_named = is_named || site_packages.iter().any(|site| root.starts_with(site));
        match found.get_mut(&real) {
            Some(known) => {
                known.origin = known.origin.min(origin);
                known.is_named |= is_named;
            }
            None => {
                let mut toolkit = read(scan, real.clone(), origin, is_named);
                toolkit.open = writable_paths(scan, &mut owners, &toolkit);
                found.insert(real, toolkit);
            }
        }
    }
    scan.watched.extend(owners.sources());
    found.into_values().collect()
}

/// The real path of a directory with `nvcc` or `ptxas`.
fn real_root(scan: &mut ScanContext<'_>, root: &Path) -> Option<PathBuf> {
    let has_compiler = FOUND_BY
        .into_iter()
        .any(|part| scan.is_file(&root.join("bin").join(part.file_name())));
    if !has_compiler {
        return None;
    }
    scan.watch(root);
    scan.host.canonical(root).ok()
}

/// The roots of the compilers in PATH, and of those that a person names, with links resolved as well.
fn roots_of_compilers(scan: &mut ScanContext<'_>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for directory in scan.named_list("PATH") {
        files.extend(FOUND_BY.map(|part| directory.join(part.file_name())));
    }
    files.extend(scan.named("CUDACXX"));
    files.extend(scan.scope.executable.clone());
    let mut roots = Vec::new();
    for file in files {
        if let Ok(real) = scan.host.canonical(&file) {
            for file in [&file, &real] {
                roots.extend(file.ancestors().nth(2).map(Path::to_owned));
            }
        }
        scan.watch(file);
    }
    roots
}

fn read(scan: &mut ScanContext<'_>, root: PathBuf, origin: Origin, is_named: bool) -> Toolkit {
    let (multiarch, platform) = if scan.scope.machine == elf::AARCH64 {
        ("lib/aarch64-linux-gnu", "sbsa-linux")
    } else {
        ("lib/x86_64-linux-gnu", "x86_64-linux")
    };
    let target = root.join("targets").join(platform);
    let mut programs = Vec::new();
    let mut includes = vec![root.join("include"), target.join("include")];
    let mut libraries = vec![root.join("lib64"), target.join("lib"), root.join("lib")];
    let is_debians = root.ends_with(DEBIAN);
    if is_debians && let Some(shared) = root.ancestors().nth(2) {
        programs = vec![shared.join("bin"), shared.join(multiarch)];
        includes.push(shared.join("include"));
        libraries.push(shared.join(multiarch));
    }
    let parts = parts(scan, &root, &programs);
    let release = match parts.get(&PartKind::Nvcc) {
        Some(nvcc) => nvcc.release,
        None => parts.values().filter_map(|part| part.release).max(),
    };
    let include = includes
        .into_iter()
        .find(|directory| scan.is_file(&directory.join(HEADERS[0])));
    let libraries = libraries.into_iter().find(|directory| {
        let mut names = LINKED.iter();
        names.any(|name| scan.is_file(&directory.join(name)))
    });
    scan.watched.extend(include.clone());
    if let Some(libraries) = &libraries {
        scan.watch(libraries);
        scan.watch(libraries.join("stubs"));
    }
    let mut toolkit = Toolkit {
        origin: if is_debians { Origin::Debian } else { origin },
        open: Vec::new(),
        root,
        release,
        parts,
        include,
        libraries,
        headers: None,
        newest_gcc: None,
        is_named,
        problems: Vec::new(),
    };
    if let Some(text) = header(scan, &toolkit, "cuda_runtime_api.h") {
        let number = build_info::define(text.as_bytes(), "CUDART_VERSION");
        let number = number.and_then(|number| number.parse().ok());
        toolkit.headers = number.map(CudaVersion::from_number);
    }
    if let Some(text) = header(scan, &toolkit, "crt/host_config.h") {
        toolkit.newest_gcc = toolchain::newest_gcc(&text);
    }
    let crt = release_of_crt_wheel(scan, &toolkit.root);
    if toolkit.parts.contains_key(&PartKind::Nvcc) {
        toolkit.problems = problems(scan, &toolkit, crt);
    }
    toolkit
}

/// The parts of a toolkit. Some of Debian's are in the directories of all packages.
fn parts(
    scan: &mut ScanContext<'_>,
    root: &Path,
    shared: &[PathBuf],
) -> BTreeMap<PartKind, PartFile> {
    let mut parts = BTreeMap::new();
    for (part, name, directories) in PartKind::ALL {
        let own = directories.iter().map(|directory| root.join(directory));
        let mut paths = own
            .chain(shared.iter().cloned())
            .map(|directory| directory.join(name));
        if let Some(path) = paths.find(|path| scan.is_file(path)) {
            let release = part.is_compiler().then(|| release(scan, &path)).flatten();
            // A view has other files of the directory.
            scan.watched.extend(path.parent().map(Path::to_owned));
            parts.insert(part, PartFile { path, release });
        }
    }
    parts
}

fn header(scan: &mut ScanContext<'_>, toolkit: &Toolkit, name: &str) -> Option<String> {
    let path = toolkit.include.as_ref()?.join(name);
    scan.watch(&path);
    scan.host.read_text(&path).ok()
}

/// The release in a compiler's bytes.
fn release(scan: &mut ScanContext<'_>, path: &Path) -> Option<Version> {
    let stat = scan.host.stat(path).ok()?;
    if let Some(release) = scan.cache.releases.get(&stat) {
        return release;
    }
    let release = toolchain::release(&scan.host.map(path).ok()?);
    if scan.cache.is_settled(&stat) {
        scan.cache.releases.insert(&stat, &release);
    }
    release
}

/// The release of the wheel with nvcc's own headers, which do not contain it.
fn release_of_crt_wheel(scan: &mut ScanContext<'_>, root: &Path) -> Option<Version> {
    let nvidia = root
        .ancestors()
        .find(|above| above.file_name().is_some_and(|name| name == "nvidia"))?;
    let site = nvidia.parent()?;
    scan.watch(site);
    let distributions = wheel::distributions(scan.host, site);
    let mut distributions = distributions.iter();
    let crt = distributions.find(|distribution| distribution.name == "nvidia-cuda-crt")?;
    crt.version.parse().ok()
}

/// The files and directories by which another user could change what a build would start, include or link.
fn writable_paths(
    scan: &ScanContext<'_>,
    owners: &mut Owners<'_>,
    toolkit: &Toolkit,
) -> Vec<WritablePath> {
    let mut directories: BTreeSet<PathBuf> = BTreeSet::new();
    for part in toolkit.parts.values() {
        directories.extend(part.path.parent().map(Path::to_owned));
    }
    if let Some(include) = &toolkit.include {
        directories.extend([include.clone(), include.join("crt")]);
    }
    directories.extend(toolkit.libraries.clone());
    let mut writable: Vec<WritablePath> = Vec::new();
    for directory in &directories {
        writable.extend(owners::on_the_way(scan.host, directory));
    }
    for PartFile { path, .. } in toolkit.parts.values() {
        let real = scan.host.canonical(path).unwrap_or_else(|_| path.clone());
        if let Ok(stat) = scan.host.stat(&real) {
            writable.extend(owners.writable(&real, &stat));
        }
    }
    writable.dedup();
    writable
}

/// `crt` is the release of the wheel with nvcc's own headers.
fn problems(
    scan: &mut ScanContext<'_>,
    toolkit: &Toolkit,
    crt: Option<Version>,
) -> Vec<ToolkitProblem> {
    let mut problems = Vec::new();
    let releases = releases(toolkit, crt);
    if releases.len() > 1 {
        problems.push(ToolkitProblem::ToolkitMixed { releases });
    }
    problems.extend(compiler_problems(scan.host, toolkit));
    problems.extend(header_problem(scan, toolkit));
    problems.extend(library_problem(scan.host, toolkit));
    problems
}

/// The releases in a toolkit, each with what has it.
fn releases(toolkit: &Toolkit, crt: Option<Version>) -> BTreeMap<CudaVersion, BTreeSet<String>> {
    let mut named: Vec<(CudaVersion, &str)> = Vec::new();
    for (part, file) in &toolkit.parts {
        named.extend(
            file.release
                .map(|release| (CudaVersion::of(release), part.file_name())),
        );
    }
    named.extend(crt.map(|release| (CudaVersion::of(release), "crt")));
    named.extend(toolkit.headers.map(|headers| (headers, HEADERS[0])));
    let mut releases: BTreeMap<CudaVersion, BTreeSet<String>> = BTreeMap::new();
    for (release, name) in named {
        releases.entry(release).or_default().insert(name.to_owned());
    }
    releases
}

fn compiler_problems(host: &Host, toolkit: &Toolkit) -> Vec<ToolkitProblem> {
    let mut problems = Vec::new();
    // In a saved machine, no compiler has a release.
    let has_releases = toolkit.parts.values().any(|file| file.release.is_some());
    let mut damaged = Vec::new();
    for (part, file) in &toolkit.parts {
        let lacks_release = has_releases && file.release.is_none();
        if part.is_compiler() && (lacks_release || !host.is_executable(&file.path)) {
            damaged.push(part.file_name());
        }
    }
    if !damaged.is_empty() {
        problems.push(ToolkitProblem::CompilerDamaged { names: damaged });
    }
    let mut missing = STARTED.to_vec();
    missing.retain(|part| !toolkit.parts.contains_key(part));
    if !missing.is_empty() {
        problems.push(ToolkitProblem::CompilerMissing {
            names: missing.into_iter().map(PartKind::file_name).collect(),
        });
    }
    problems
}

fn header_problem(scan: &mut ScanContext<'_>, toolkit: &Toolkit) -> Option<ToolkitProblem> {
    let mut names = HEADERS.to_vec();
    names.retain(|name| !has_header(scan, toolkit, name));
    if !names.is_empty() {
        return Some(ToolkitProblem::HeaderMissing { names });
    }
    let has_cccl = toolkit.release.is_none_or(|release| release.major() < 12)
        || CCCL.iter().any(|name| has_header(scan, toolkit, name));
    (!has_cccl).then_some(ToolkitProblem::NoCccl)
}

fn has_header(scan: &mut ScanContext<'_>, toolkit: &Toolkit, name: &str) -> bool {
    toolkit
        .include
        .as_ref()
        .is_some_and(|include| scan.is_file(&include.join(name)))
}

fn library_problem(host: &Host, toolkit: &Toolkit) -> Option<ToolkitProblem> {
    let mut names = LINKED.map(str::to_owned).to_vec();
    match &toolkit.libraries {
        None if host.is_directory(&toolkit.root.join("lib64/stubs")) => {
            return Some(ToolkitProblem::StubOnly);
        }
        // nvcc's own settings lead to `lib64`, those of conda and of Debian to their directories.
        Some(libraries)
            if !libraries.ends_with("lib")
                || libraries.parent() != Some(toolkit.root.as_path()) =>
        {
            names.retain(|name| !host.is_file(&libraries.join(name)));
        }
        _ => {}
    }
    (!names.is_empty()).then_some(ToolkitProblem::NoLinkerNames { names })
}
