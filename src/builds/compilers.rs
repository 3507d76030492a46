//! Compilers and headers that frameworks use while they run: nvcc, ptxas, libdevice, what NVRTC includes. A framework that would
//! find none gets those of an installed toolkit, by the variable that it reads.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::build::{
    BuildPlan, CompilerLack, CompilerSupply, Compilers, NoToolkit, PublishedBuild, Withheld,
};
use super::choice::{is_older, makes_code};
use super::view;
use crate::catalog::{FrameworkCompiler, catalog, knowledge, toolkits};
use crate::environment::Diff;
use crate::formats::toolchain;
use crate::host::Host;
use crate::inventory::{Gpu, Inventory, PartKind, Toolkit, Visible};
use crate::program::{self, Package, Program};
use crate::requirements::ImportCertainty;
use crate::version::{ComputeCapability, CudaVersion};

/// In the value of a variable: the root of the toolkit, the file of the part, its directory.
const ROOT: &str = "{root}";
const FILE: &str = "{file}";
const DIRECTORY: &str = "{directory}";

/// A part that a package of the program lacks while it runs.
pub struct Lacking<'p> {
    lack: CompilerLack,
    package: &'p Package,
    row: &'static FrameworkCompiler,
}

impl Lacking<'_> {
    /// True if it compiles CUDA code, for which it needs a whole toolkit.
    pub fn needs_toolkit(&self) -> bool {
        self.lack.part == PartKind::Nvcc
    }

    /// Gives it the toolkit of a build; it lacks one if there is no plan, or no place for its view.
    pub fn supply_toolkit(
        &self,
        host: &Host,
        plan: &Result<BuildPlan, Box<NoToolkit>>,
        writes: bool,
        compilers: &mut Compilers,
    ) {
        // A start that cannot have it is no worse than without cudarun.
        let usable = plan.as_ref().ok();
        let published = usable.and_then(|plan| Some((plan, plan.publish(host, writes).ok()?)));
        let Some((plan, PublishedBuild { view, diff })) = published else {
            let install = plan.as_ref().err().and_then(|none| none.install);
            let lack = self.lack.clone();
            compilers.lacking.push(CompilerLack { install, ..lack });
            return;
        };
        let root = view.as_ref().unwrap_or(&plan.toolkit.root);
        let value = root.clone().into_os_string();
        compilers.supplied.push(CompilerSupply {
            lack: self.lack.clone(),
            variable: self.row.variable.clone(),
            value,
            more: diff,
            toolkit: plan.toolkit.root.clone(),
            view,
            is_withheld: false,
            withheld: None,
        });
        compilers.watched.extend(plan.watched.iter().cloned());
    }
}

/// Returns what the frameworks of a program lack, where a GPU is, and the files in which they look. Asks for no toolkit.
pub fn lacking<'p>(
    host: &Host,
    program: &'p Program,
    inventory: &Inventory,
) -> (Vec<Lacking<'p>>, BTreeSet<PathBuf>) {
    let mut found: Vec<Lacking<'p>> = Vec::new();
    let mut watched = BTreeSet::new();
    if !inventory.offers_gpu() {
        return (found, watched);
    }
    for package in &program.packages {
        for row in compilers_of(package) {
            let mut known = found.iter();
            // A framework whose release is not known has rows of several.
            if !is_used(package, row, inventory)
                || is_set(host, row)
                || leads_astray(program, &row.variable)
                || known.any(|lacking| lacking.row.variable == row.variable)
            {
                continue;
            }
            let files = files_for(program, row);
            found.extend(lack(host, package, row, inventory, &files));
            watched.extend(files);
        }
    }
    (found, watched)
}

/// The part of a row, if none of its files is there, or all are too old for a GPU here.
fn lack<'p>(
    host: &Host,
    package: &'p Package,
    row: &'static FrameworkCompiler,
    inventory: &Inventory,
    files: &[PathBuf],
) -> Option<Lacking<'p>> {
    let mut present: Vec<PathBuf> = files.to_vec();
    // What was found in PATH is watched with the program.
    if let Some(name) = &row.in_path {
        present.extend(program::candidates(host, name.as_ref()));
    }
    present.retain(|file| host.is_file(file));
    let part = PartKind::of_file(&row.part)?;
    let newest = present
        .iter()
        .filter_map(|file| toolchain::release(&host.map(file).ok()?))
        .max();
    // Headers serve every GPU.
    let old = newest
        .filter(|_| part != PartKind::Headers)
        .filter(|release| gpus(inventory, row).any(|gpu| is_older(CudaVersion::of(*release), gpu)));
    if !present.is_empty() && old.is_none() {
        return None;
    }
    let name = match &package.version {
        Some(version) => format!("{} {version}", package.name),
        None => package.name.clone(),
    };
    Some(Lacking {
        lack: CompilerLack {
            package: name,
            part,
            old,
            is_needed: row.needed,
            install: None,
        },
        package,
        row,
    })
}

/// The rows of the framework, for a package that is imported for certain and uses a GPU.
fn compilers_of(package: &Package) -> &'static [FrameworkCompiler] {
    if package.certainty != ImportCertainty::Imported || package.cpu_only {
        return &[];
    }
    let framework = catalog().framework(&package.name);
    framework.map_or(&[], |framework| &framework.compiler)
}

/// The files in which a framework looks for a part.
fn files_for(program: &Program, row: &FrameworkCompiler) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for file in &row.own {
        files.extend(program.site_packages.iter().map(|site| site.join(file)));
    }
    files.extend(row.places.iter().map(PathBuf::from));
    files
}

/// True if a person has told the framework where to look.
fn is_set(host: &Host, row: &FrameworkCompiler) -> bool {
    let mut others = row.also_read.iter();
    if others.any(|name| host.env.non_empty(name).is_some()) {
        return true;
    }
    let Some(value) = host.env.non_empty(&row.variable) else {
        return false;
    };
    let option = row.value.split('=').next().unwrap_or_default();
    !row.adds
        || value.to_string_lossy().contains(option)
        || host
            .read_text(Path::new(value))
            .is_ok_and(|text| text.contains(option))
}

/// True if this release of the framework looks so for a part, for a GPU that the program may use. A release or a GPU that is not
/// known may be any.
fn is_used(package: &Package, row: &FrameworkCompiler, inventory: &Inventory) -> bool {
    let release = package
        .version
        .as_ref()
        .and_then(|version| version.parse().ok());
    let mut visible = visible(inventory).peekable();
    release.is_none_or(|release| row.releases.allows(&release))
        && (visible.peek().is_none()
            || visible.any(|gpu| gpu.capability.is_none_or(|gpu| row.is_for(gpu))))
}

/// True if another framework of the program would open libraries where this variable leads, instead of those of wheels.
fn leads_astray(program: &Program, variable: &str) -> bool {
    program
        .packages
        .iter()
        .filter(|package| package.certainty == ImportCertainty::Imported)
        .filter_map(|package| catalog().framework(&package.name))
        .flat_map(|framework| &framework.variable)
        .any(|one| one.before_wheels && one.name == variable)
}

/// The GPUs that the program may use.
pub(super) fn visible(inventory: &Inventory) -> impl Iterator<Item = &Gpu> {
    inventory
        .gpus
        .iter()
        .filter(|gpu| gpu.visible != Visible::No)
}

/// Those of them that a row is for.
fn gpus(inventory: &Inventory, row: &FrameworkCompiler) -> impl Iterator<Item = ComputeCapability> {
    visible(inventory)
        .filter_map(|gpu| gpu.capability)
        .filter(|gpu| row.is_for(*gpu))
}

/// The variable by which a framework of the program is told another file for this part.
pub fn variable_for(
    program: &Program,
    inventory: &Inventory,
    part: PartKind,
) -> Option<&'static str> {
    for package in &program.packages {
        for row in compilers_of(package) {
            if PartKind::of_file(&row.part) == Some(part) && is_used(package, row, inventory) {
                return Some(&row.variable);
            }
        }
    }
    None
}

/// Gives each of these parts of the newest toolkit that the driver runs and that makes code for every visible GPU: it serves
/// older frameworks as well.
pub fn supply(
    host: &Host,
    inventory: &Inventory,
    toolkits: &[Toolkit],
    lacking: &[Lacking<'_>],
) -> Compilers {
    let mut found = Compilers::default();
    for Lacking { lack, package, row } in lacking {
        let lack = lack.clone();
        let Some(toolkit) = best(inventory, toolkits, package, row, lack.part) else {
            let install = to_install(inventory, package, row, lack.part);
            found.lacking.push(CompilerLack { install, ..lack });
            continue;
        };
        let (value, withheld) = value(host, toolkit, row, lack.part);
        found.supplied.push(CompilerSupply {
            lack,
            variable: row.variable.clone(),
            value,
            more: Diff::default(),
            toolkit: toolkit.root.clone(),
            view: None,
            is_withheld: withheld.is_some(),
            withheld,
        });
    }
    found
}

fn best<'t>(
    inventory: &Inventory,
    toolkits: &'t [Toolkit],
    package: &Package,
    row: &FrameworkCompiler,
    part: PartKind,
) -> Option<&'t Toolkit> {
    let fitting = toolkits.iter().filter(|toolkit| {
        toolkit.part(part).is_some()
            && toolkit.open.is_empty()
            && (!row.value.contains(ROOT) || has_layout(toolkit, part))
            && toolkit
                .cuda()
                .is_some_and(|cuda| is_for(cuda, inventory, package, row, part))
    });
    fitting.max_by_key(|toolkit| toolkit.release)
}

/// The newest known toolkit whose part would serve.
fn to_install(
    inventory: &Inventory,
    package: &Package,
    row: &FrameworkCompiler,
    part: PartKind,
) -> Option<CudaVersion> {
    let wheels = toolkits().iter();
    let wheels = wheels.map(|known| CudaVersion::of(known.version));
    knowledge()
        .cuda_releases()
        .chain(wheels)
        .filter(|cuda| is_for(*cuda, inventory, package, row, part))
        .max()
}

/// True if the part of a toolkit of this CUDA serves the package, the driver and every GPU here.
fn is_for(
    cuda: CudaVersion,
    inventory: &Inventory,
    package: &Package,
    row: &FrameworkCompiler,
    part: PartKind,
) -> bool {
    let driver = inventory.driver.as_ref().and_then(|driver| driver.cuda);
    package.cuda.is_none_or(|own| serves(part, cuda, own))
        && driver.is_none_or(|driver| is_run(part, cuda, driver))
        && gpus(inventory, row).all(|gpu| makes_code(cuda, gpu))
}

/// True if a part of one release works in a framework that was built with another. An assembler takes no PTX that is newer
/// than itself.
fn serves(part: PartKind, cuda: CudaVersion, framework: CudaVersion) -> bool {
    match part {
        PartKind::Ptxas => framework <= cuda,
        _ => framework.major == cuda.major,
    }
}

/// True if a driver runs what a part makes. It takes no PTX that is newer than its CUDA, and libNVVM makes PTX.
fn is_run(part: PartKind, cuda: CudaVersion, driver: CudaVersion) -> bool {
    match part {
        PartKind::Nvvm => cuda <= driver,
        _ => cuda.major <= driver.major,
    }
}

/// True if a part is where frameworks look for it below a toolkit's root; with a compiler, ptxas and libdevice too.
fn has_layout(toolkit: &Toolkit, part: PartKind) -> bool {
    if part == PartKind::Headers {
        return toolkit.has_part_at(part, "include/cuda_runtime.h");
    }
    toolkit.has_part_at(PartKind::Ptxas, "bin/ptxas")
        && toolkit.has_part_at(PartKind::Libdevice, view::LIBDEVICE)
        && (part != PartKind::Nvvm || toolkit.has_part_at(part, "nvvm/lib64/libnvvm.so"))
}

/// Returns the value of a row's variable, and why the program does not get it.
fn value(
    host: &Host,
    toolkit: &Toolkit,
    row: &FrameworkCompiler,
    part: PartKind,
) -> (OsString, Option<Withheld>) {
    let file = toolkit.part(part).unwrap_or(&toolkit.root);
    let known: [(&str, &Path); 3] = [
        (ROOT, &toolkit.root),
        (FILE, file),
        (DIRECTORY, file.parent().unwrap_or(file)),
    ];
    let (option, path) = known
        .into_iter()
        .find_map(|(name, path)| Some((row.value.strip_suffix(name)?, path)))
        .unwrap_or((&row.value, Path::new("")));
    let own: OsString = [OsStr::new(option), path.as_os_str()].into_iter().collect();
    let before = host.env.non_empty(&row.variable).filter(|_| row.adds);
    if before.is_some_and(|before| !before.as_bytes().trim_ascii_start().starts_with(b"-")) {
        return (own, Some(Withheld::NamesFile));
    }
    if row.adds && view::has_blank(path) {
        return (own, Some(Withheld::Blank));
    }
    let Some(before) = before else {
        return (own, None);
    };
    let value = [before, OsStr::new(" "), &own].into_iter().collect();
    (value, None)
}

impl Compilers {
    /// The variables that the program gets.
    pub fn environment(&self) -> Diff {
        let mut given = Diff::default();
        for supply in self.supplied.iter().filter(|supply| !supply.is_withheld) {
            let own = (supply.variable.as_str().into(), Some(supply.value.clone()));
            given = given.then(&supply.more).then(&Diff([own].into()));
        }
        given
    }
}
