//! Compilers that frameworks start or open while they run: ptxas and libdevice. A framework that would find none gets those of an
//! installed toolkit, by the variable that it reads.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::build::{CompilerLack, CompilerSupply, Compilers, Withheld};
use super::choice::{is_older, makes_code};
use super::view;
use crate::catalog::{Framework, FrameworkCompiler, catalog};
use crate::environment::Diff;
use crate::formats::toolchain;
use crate::host::Host;
use crate::inventory::{Gpu, Inventory, PartKind, Toolkit, Visible};
use crate::program::{ImportCertainty, Package, Program};
use crate::version::{ComputeCapability, CudaVersion, Version};

/// In the value of a variable: the root of the toolkit, the file of the part.
const ROOT: &str = "{root}";
const FILE: &str = "{file}";

/// A part that a package of the program lacks while it runs.
pub struct Lacking<'p> {
    lack: CompilerLack,
    package: &'p Package,
    row: &'static FrameworkCompiler,
}

/// Returns what the frameworks of a program lack, where a GPU is, and the files in which they look. Asks for no toolkit.
pub fn lacking<'p>(
    host: &Host,
    program: &'p Program,
    inventory: &Inventory,
) -> (Vec<Lacking<'p>>, BTreeSet<PathBuf>) {
    let (mut found, mut watched) = (Vec::new(), BTreeSet::new());
    if !inventory.has_gpu() || inventory.gpus_hidden {
        return (found, watched);
    }
    let rows = program
        .packages
        .iter()
        .filter_map(|package| Some((package, framework(package)?)));
    let rows = rows
        .flat_map(|(package, framework)| framework.compiler.iter().map(move |row| (package, row)));
    for (package, row) in rows.filter(|(package, row)| is_used(package, row, inventory)) {
        // A framework whose release is not known has rows of several.
        let is_known = |other: &Lacking<'_>| other.row.variable == row.variable;
        if is_told(host, row) || found.iter().any(is_known) {
            continue;
        }
        let places = places(program, row);
        let files: Vec<&PathBuf> = places.iter().filter(|place| host.is_file(place)).collect();
        let releases = files
            .iter()
            .filter_map(|file| toolchain::release(&host.map(file).ok()?));
        let is_old = |release: &Version| {
            gpus(inventory, row).any(|gpu| is_older(CudaVersion::of(*release), gpu))
        };
        let old = releases.max().filter(is_old);
        if let Some(part) =
            PartKind::of_file(&row.part).filter(|_| files.is_empty() || old.is_some())
        {
            let version = package.version.iter().map(|version| format!(" {version}"));
            let name = std::iter::once(package.name.clone())
                .chain(version)
                .collect();
            found.push(Lacking {
                lack: CompilerLack {
                    package: name,
                    part,
                    old,
                },
                package,
                row,
            });
        }
        watched.extend(places);
    }
    (found, watched)
}

/// Returns the profile of a package that is imported for certain and uses a GPU.
fn framework(package: &Package) -> Option<&'static Framework> {
    let is_used = package.certainty == ImportCertainty::Imported && !package.cpu_only;
    catalog()
        .frameworks
        .iter()
        .find(|framework| is_used && framework.name == package.name)
}

/// Returns the files in which a framework looks for a part.
fn places(program: &Program, row: &FrameworkCompiler) -> Vec<PathBuf> {
    let files = row.own.iter().flat_map(|below| own(program, below));
    files.chain(row.places.iter().map(PathBuf::from)).collect()
}

fn own(program: &Program, below: &str) -> Vec<PathBuf> {
    program
        .site_packages
        .iter()
        .map(|site| site.join(below))
        .collect()
}

/// True if a person has told the framework where to look.
fn is_told(host: &Host, row: &FrameworkCompiler) -> bool {
    let Some(value) = host.env.non_empty(&row.variable) else {
        return false;
    };
    let option = row.value.split('=').next().unwrap_or_default();
    let in_file = || {
        host.read_text(Path::new(value))
            .is_ok_and(|text| text.contains(option))
    };
    !row.adds || value.to_string_lossy().contains(option) || in_file()
}

/// True if this release of the framework looks so for a part, for a GPU that the program may use. A release or a GPU that is not
/// known may be any.
fn is_used(package: &Package, row: &FrameworkCompiler, inventory: &Inventory) -> bool {
    let release = package
        .version
        .as_ref()
        .and_then(|version| version.parse().ok());
    let mut visible = visible(inventory).peekable();
    let is_for = |gpu: &Gpu| gpu.capability.is_none_or(|gpu| row.is_for(gpu));
    release.is_none_or(|release| row.releases.allows(&release))
        && (visible.peek().is_none() || visible.any(is_for))
}

/// The GPUs that the program may use.
pub(super) fn visible(inventory: &Inventory) -> impl Iterator<Item = &Gpu> {
    let gpus = inventory.gpus.iter();
    gpus.filter(|gpu| gpu.visible != Visible::No)
}

/// Those of them that a row is for.
fn gpus(inventory: &Inventory, row: &FrameworkCompiler) -> impl Iterator<Item = ComputeCapability> {
    visible(inventory)
        .filter_map(|gpu| gpu.capability)
        .filter(|gpu| row.is_for(*gpu))
}

/// Returns the variable by which a framework of the program is told another file for this part.
pub fn variable_for(
    program: &Program,
    inventory: &Inventory,
    part: PartKind,
) -> Option<&'static str> {
    let mut rows = program.packages.iter().flat_map(|package| {
        let rows = framework(package).map(|framework| framework.compiler.iter());
        rows.into_iter().flatten().map(move |row| (package, row))
    });
    let is_it = |(package, row): &(&Package, &'static FrameworkCompiler)| {
        PartKind::of_file(&row.part) == Some(part) && is_used(package, row, inventory)
    };
    rows.find(is_it).map(|(_, row)| row.variable.as_str())
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
        match best(inventory, toolkits, package, row, lack.part) {
            None => found.lacking.push(lack),
            Some(toolkit) => {
                let (value, withheld) = value(host, toolkit, row, lack.part);
                let (variable, toolkit) = (row.variable.clone(), toolkit.root.clone());
                let is_withheld = withheld.is_some();
                found.supplied.push(CompilerSupply {
                    lack,
                    variable,
                    value,
                    toolkit,
                    is_withheld,
                    withheld,
                });
            }
        }
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
    let driver = inventory.driver.as_ref().and_then(|driver| driver.cuda);
    // An assembler takes no PTX that is newer than itself, and a driver none that is newer than its CUDA: libNVVM makes PTX.
    let is_assembler = part == PartKind::Ptxas;
    let is_run = |cuda: CudaVersion, driver: CudaVersion| match part {
        PartKind::Nvvm => cuda <= driver,
        _ => cuda.major <= driver.major,
    };
    let fits = |toolkit: &&Toolkit| {
        let Some(cuda) = toolkit.cuda() else {
            return false;
        };
        toolkit.part(part).is_some()
            && toolkit.open.is_empty()
            && (!row.value.contains(ROOT) || has_layout(toolkit, part))
            && package.cuda.is_none_or(|own| {
                if is_assembler {
                    own <= cuda
                } else {
                    own.major == cuda.major
                }
            })
            && driver.is_none_or(|driver| is_run(cuda, driver))
            && gpus(inventory, row).all(|gpu| makes_code(cuda, gpu))
    };
    toolkits
        .iter()
        .filter(fits)
        .max_by_key(|toolkit| toolkit.release)
}

/// True if a part, ptxas and libdevice are where frameworks look for them below a toolkit's root.
fn has_layout(toolkit: &Toolkit, part: PartKind) -> bool {
    let is_at = |part: PartKind, below: &str| {
        toolkit.part(part) == Some(toolkit.root.join(below).as_path())
    };
    is_at(PartKind::Ptxas, "bin/ptxas")
        && is_at(PartKind::Libdevice, view::LIBDEVICE)
        && (part != PartKind::Nvvm || is_at(part, "nvvm/lib64/libnvvm.so"))
}

/// Returns the value of a row's variable, and why the program does not get it.
fn value(
    host: &Host,
    toolkit: &Toolkit,
    row: &FrameworkCompiler,
    part: PartKind,
) -> (OsString, Option<Withheld>) {
    let file = toolkit.part(part).unwrap_or(&toolkit.root);
    let (option, path): (&str, &Path) =
        match (row.value.strip_suffix(ROOT), row.value.strip_suffix(FILE)) {
            (Some(option), _) => (option, &toolkit.root),
            (None, Some(option)) => (option, file),
            (None, None) => (&row.value, Path::new("")),
        };
    let own: OsString = [OsStr::new(option), path.as_os_str()].into_iter().collect();
    let before = host.env.non_empty(&row.variable).filter(|_| row.adds);
    if before.is_some_and(|before| !before.as_bytes().trim_ascii_start().starts_with(b"-")) {
        return (own, Some(Withheld::NamesFile));
    }
    if row.adds && view::has_blank(path) {
        return (own, Some(Withheld::Blank));
    }
    let value = before
        .map(|before| [before, OsStr::new(" "), &own].into_iter().collect())
        .unwrap_or(own);
    (value, None)
}

impl Compilers {
    /// The variables that the program gets.
    pub fn environment(&self) -> Diff {
        let given = self.supplied.iter().filter(|supply| !supply.is_withheld);
        let set = |supply: &CompilerSupply| {
            (OsString::from(&supply.variable), Some(supply.value.clone()))
        };
        Diff(given.map(set).collect())
    }
}
