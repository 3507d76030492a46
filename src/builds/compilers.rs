//! Compilers that frameworks start or open while they run: ptxas and libdevice. A framework that would find none gets those of an
//! installed toolkit, by the variable that it reads.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::choose::makes_code;
use super::model::{CompilerLack, CompilerSupply, Compilers};
use super::view;
use crate::catalog::{Framework, FrameworkCompiler, catalog};
use crate::environment::{Change, Diff};
use crate::host::Host;
use crate::inventory::{Inventory, Part, Toolkit, Visible};
use crate::program::{ImportCertainty, Package, Program};

/// In the value of a variable: the root of the toolkit, the file of the part.
const ROOT: &str = "{root}";
const FILE: &str = "{file}";

/// A part that a package of the program needs while it runs.
pub type Needed<'p> = (&'p Package, &'static FrameworkCompiler);

/// Returns what the frameworks of a program need, where a GPU is.
pub fn needed<'p>(program: &'p Program, inventory: &Inventory) -> Vec<Needed<'p>> {
    if !inventory.has_gpu() || inventory.gpus_hidden {
        return Vec::new();
    }
    let rows = program.packages.iter().filter_map(|package| Some((package, framework(package)?)));
    rows.flat_map(|(package, framework)| framework.compiler.iter().map(move |row| (package, row))).collect()
}

/// Returns the profile of a package that is imported for certain and uses a GPU.
fn framework(package: &Package) -> Option<&'static Framework> {
    let is_used = package.standing == ImportCertainty::Imported && !package.cpu_only;
    catalog().frameworks.iter().find(|framework| is_used && framework.name == package.name)
}

/// Returns the files in which a framework looks for a part.
pub fn places(program: &Program, row: &FrameworkCompiler) -> Vec<PathBuf> {
    let of_site = |site: &PathBuf| row.own.iter().map(|own| site.join(own)).collect::<Vec<PathBuf>>();
    program.site_packages.iter().flat_map(of_site).chain(row.places.iter().map(PathBuf::from)).collect()
}

/// True if the framework finds the part, or a person has told it where to look. Asks for a few files, and for no toolkit.
pub fn is_found(host: &Host, program: &Program, row: &FrameworkCompiler) -> bool {
    let told = host.env.non_empty(&row.variable).map(|value| value.to_string_lossy().into_owned());
    let option = row.value.split('=').next().unwrap_or_default();
    let is_told = told.is_some_and(|told| !row.adds || told.contains(option));
    is_told || places(program, row).iter().any(|place| host.is_file(place))
}

/// Gives each of these parts of the newest toolkit that the driver runs and that makes code for every visible GPU: it serves
/// older frameworks as well.
pub fn supply(
    host: &Host,
    program: &Program,
    inventory: &Inventory,
    toolkits: &[Toolkit],
    lacking: &[Needed<'_>],
) -> Compilers {
    let mut found = Compilers::default();
    for (package, row) in lacking {
        let name = match &package.version {
            Some(version) => format!("{} {version}", package.name),
            None => package.name.clone(),
        };
        let Some(part) = Part::of_file(&row.part) else { continue };
        match best(inventory, toolkits, package, row, part) {
            None => found.lacking.push(CompilerLack { package: name, part }),
            Some(toolkit) => found.supplied.push(CompilerSupply {
                package: name,
                part,
                variable: row.variable.clone(),
                value: value(host, toolkit, row, part),
                toolkit: toolkit.root.clone(),
                // A child of another environment could get a worse one than its own.
                is_withheld: program.starts_programs,
            }),
        }
    }
    found
}

fn best<'t>(
    inventory: &Inventory,
    toolkits: &'t [Toolkit],
    package: &Package,
    row: &FrameworkCompiler,
    part: Part,
) -> Option<&'t Toolkit> {
    let driver = inventory.driver.as_ref().and_then(|driver| driver.cuda);
    // An assembler takes no PTX that is newer than itself.
    let is_assembler = part == Part::Ptxas;
    let visible = || inventory.gpus.iter().filter(|gpu| gpu.visible != Visible::No);
    let fits = |toolkit: &&Toolkit| {
        let Some(cuda) = toolkit.cuda() else { return false };
        toolkit.part(part).is_some()
            && toolkit.open.is_empty()
            && (!row.value.contains(ROOT) || has_layout(toolkit))
            && package.cuda.is_none_or(|own| if is_assembler { own <= cuda } else { own.major == cuda.major })
            && driver.is_none_or(|driver| cuda.major <= driver.major)
            && visible().filter_map(|gpu| gpu.capability).all(|gpu| makes_code(cuda, gpu))
    };
    toolkits.iter().filter(fits).max_by_key(|toolkit| toolkit.release)
}

/// True if ptxas and libdevice are where frameworks look for them below a toolkit's root.
fn has_layout(toolkit: &Toolkit) -> bool {
    let is_at = |part: Part, below: &str| toolkit.part(part) == Some(toolkit.root.join(below).as_path());
    is_at(Part::Ptxas, "bin/ptxas") && is_at(Part::Libdevice, view::LIBDEVICE)
}

fn value(host: &Host, toolkit: &Toolkit, row: &FrameworkCompiler, part: Part) -> OsString {
    let file = toolkit.part(part).unwrap_or(&toolkit.root);
    let mut value = match host.env.non_empty(&row.variable).filter(|_| row.adds) {
        Some(before) => [before, OsStr::new(" ")].into_iter().collect(),
        None => OsString::new(),
    };
    let (before, path): (&str, &Path) = match (row.value.strip_suffix(ROOT), row.value.strip_suffix(FILE)) {
        (Some(before), _) => (before, &toolkit.root),
        (None, Some(before)) => (before, file),
        (None, None) => (&row.value, Path::new("")),
    };
    value.push(before);
    value.push(path);
    value
}

impl Compilers {
    /// The variables that the program gets.
    pub fn environment(&self) -> Diff {
        let given = self.supplied.iter().filter(|supply| !supply.is_withheld);
        let values: BTreeMap<&str, &OsString> =
            given.map(|supply| (supply.variable.as_str(), &supply.value)).collect();
        let change =
            |(name, value): (&str, &OsString)| Change { name: name.into(), value: Some(value.clone()) };
        Diff(values.into_iter().map(change).collect())
    }
}
