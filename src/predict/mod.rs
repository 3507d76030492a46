//! Predicts the files that a program would map in an environment, by the model of the loader: its start, and the libraries
//! that it opens at run time. Must not judge them.
//!
//! The program decides which part of cuDNN it uses first, and that can decide what the other parts get. A prediction
//! therefore holds the files of every order.
//!
//! If a program's constants name a library, the model follows that library too, with its own search paths and
//! constants, but not libraries of the system. Constants do not show the order in which a program opens libraries, so
//! the model tries each of them first. Names count by name, by absolute or relative path, or below `$ORIGIN`. Packages
//! in a directory that PyInstaller made count as the program's own. `onnxruntime.preload_dlls(…)`: arguments are not
//! read.

pub mod observe;
pub mod project;
pub mod supply;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::catalog::{Family, catalog, first_number, soname_number};
use crate::formats::names;
use crate::host::FileId;
use crate::inventory::{Installation, Inventory};
use crate::loader::object::Object;
use crate::loader::process::{LoadFailure, LoadedObject, Process};
use crate::loader::search::{FoundBy, Searcher};
use crate::program::Program;
use crate::requirements::Load;
use crate::text;
use crate::version::Version;

/// More objects than any program maps: a file that opens itself under ever new names ends here.
const LIMIT: usize = 4096;

#[derive(Clone, Debug, Default)]
pub struct Prediction {
    /// In the order in which they would be mapped.
    pub files: Vec<Predicted>,
    /// Names without a file: of linked libraries, and of parts that a family opens and cannot do without.
    pub missing: Vec<MissingLibrary>,
    /// True if the process maps two shims of one family.
    pub has_two_shims: bool,
    /// Why the program would not start.
    pub failure: Option<LoadFailure>,
    /// The other paths that the prediction depends on, existing or not.
    pub watched: BTreeSet<PathBuf>,
}

/// A file that would be mapped.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// The name in the first request.
    pub name: String,
    /// The path that the search finds, links not resolved.
    pub path: PathBuf,
    pub requester: PathBuf,
    pub rule: FoundBy,
    pub when: MappedWhen,
    /// Its library family, if it has one.
    pub family: Option<String>,
    pub id: FileId,
    pub stem: String,
    /// The number in its SONAME.
    pub soname: Option<u32>,
    /// True if its requester is linked against it, and could not be mapped without it.
    pub is_linked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MappedWhen {
    /// The loader maps it before the program runs.
    Start,
    /// The program, or a library of it, may open it.
    Opened,
}

#[derive(Clone, Debug, Serialize)]
pub struct MissingLibrary {
    pub name: String,
    #[serde(serialize_with = "text::path")]
    pub requester: PathBuf,
    #[serde(serialize_with = "text::paths")]
    pub tried: Vec<PathBuf>,
    pub family: Option<String>,
}

/// True for NVIDIA's libraries, including those that a package bundles under another name.
pub fn is_nvidias(family: Option<&String>, path: &Path) -> bool {
    family.is_some() || catalog().family_of_bundled(path).is_some()
}

/// Follows the start, then the libraries that the program opens, then those that NVIDIA's libraries open when they are
/// used. The part of a family that is used first may decide what the others get, so the result holds the files of every
/// order of use.
pub fn predict(searcher: &Searcher<'_>, program: &Program, inventory: &Inventory) -> Prediction {
    let Some(executable) = &program.executable else {
        return Prediction::default();
    };
    let process = match Process::start(searcher, executable) {
        Ok(process) => process,
        Err(failure) => {
            return Prediction {
                failure: Some(failure),
                ..Prediction::default()
            };
        }
    };
    let start = process.loaded.len();
    if process.failure.is_some() {
        return Prediction::new(&process, start);
    }
    let mut orders = vec![open_all(process.clone(), &program.loads)];
    for (index, first) in program.loads.iter().enumerate().skip(1) {
        if !first.may_be_first {
            continue;
        }
        let mut loads = vec![first];
        loads.extend(&program.loads[..index]);
        loads.extend(&program.loads[index + 1..]);
        let order = open_all(process.clone(), loads);
        if orders.iter().all(|other| origins(other) != origins(&order)) {
            orders.push(order);
        }
    }
    let mut prediction = predict_use(&orders[0], start, inventory);
    for order in &orders[1..] {
        prediction.join(predict_use(order, start, inventory));
    }
    prediction
}

/// Opens libraries one after the other. If an object opens one of them, that object is opened before it.
fn open_all<'h, 'l>(
    mut process: Process<'h>,
    loads: impl IntoIterator<Item = &'l Load>,
) -> Process<'h> {
    for load in loads {
        let mut opener = None;
        if let Some(path) = &load.by {
            opener = process
                .loaded
                .iter()
                .position(|loaded| loaded.object.path == *path);
            if opener.is_none() && load.may_be_first {
                opener = process.open(&path.to_string_lossy(), None).ok();
            }
        }
        let _ = process.open(&load.name, opener);
    }
    process
}

/// Each mapped file with the file that asked for it, which tell one order of opening from another.
fn origins(process: &Process<'_>) -> BTreeSet<(FileId, Option<FileId>)> {
    let mut origins = BTreeSet::new();
    for loaded in &process.loaded {
        let requester = loaded.requester.map(|index| &process.loaded[index]);
        origins.insert((
            loaded.object.id,
            requester.map(|requester| requester.object.id),
        ));
    }
    origins
}

/// Follows the libraries that NVIDIA's libraries open, in every order of use.
fn predict_use(process: &Process<'_>, start: usize, inventory: &Inventory) -> Prediction {
    let mut prediction = predict_order(process.clone(), None, start, inventory);
    for first in first_uses(process, inventory) {
        prediction.join(predict_order(
            process.clone(),
            Some(&first),
            start,
            inventory,
        ));
    }
    prediction
}

/// Opens a library before all others, then all that NVIDIA's libraries may open, one after the other.
fn predict_order(
    mut process: Process<'_>,
    first: Option<&LibraryUse>,
    start: usize,
    inventory: &Inventory,
) -> Prediction {
    let mut missing: Vec<MissingLibrary> = Vec::new();
    if let Some(first) = first {
        missing.extend(open_first_name(&mut process, first));
    }
    let mut index = 0;
    while index < process.loaded.len() && process.loaded.len() < LIMIT {
        let object = process.loaded[index].object.clone();
        for library in uses(index, &object, inventory) {
            missing.extend(open_first_name(&mut process, &library));
        }
        index += 1;
    }
    let mut prediction = Prediction::new(&process, start);
    prediction.missing.extend(missing);
    prediction
}

/// The parts of families that open other parts of their own: any of them may be used first.
fn first_uses(process: &Process<'_>, inventory: &Inventory) -> Vec<LibraryUse> {
    let mut first_uses = Vec::new();
    for (index, loaded) in process.loaded.iter().enumerate() {
        let mut own = uses(index, &loaded.object, inventory);
        own.retain(|library| library.is_own);
        // One order already uses the first one first.
        first_uses.extend(own.into_iter().skip(1));
    }
    first_uses
}

/// Opens the first of the names that is there. Returns a miss where none is there and the family does not work without it.
fn open_first_name(process: &mut Process<'_>, library: &LibraryUse) -> Option<MissingLibrary> {
    let mut tried = Vec::new();
    for name in &library.names {
        match process.open(name, Some(library.opener)) {
            Ok(_) => return None,
            Err(LoadFailure::NotFound(miss)) if miss.requester == library.opener => {
                tried.extend(miss.tried);
            }
            Err(_) => {}
        }
    }
    let name = library.required.clone()?;
    let family = family_of(&name);
    Some(MissingLibrary {
        name,
        requester: process.loaded[library.opener].object.path.clone(),
        tried,
        family,
    })
}

impl Predicted {
    /// [`Family::is_shim`] of this file.
    pub fn is_shim(&self) -> bool {
        let family = self.family.as_deref();
        family
            .and_then(|family| catalog().family(family))
            .is_some_and(|family| family.is_shim(&self.stem, self.soname))
    }

    fn new(loaded: &[LoadedObject], index: usize, start: usize) -> Predicted {
        let LoadedObject {
            object,
            name,
            answers_soname,
            ..
        } = &loaded[index];
        let requester = loaded[index].requester.map(|index| &loaded[index].object);
        let family = catalog().family_of_file(&object.path).or_else(|| {
            // A file that auditwheel renamed is of no family, unless others get it for a SONAME that it kept.
            catalog().family_of_bundled(&object.path)?;
            answers_soname.then_some(())?;
            catalog().family_of(object.soname.as_deref()?)
        });
        Predicted {
            name: name.clone(),
            path: object.path.clone(),
            requester: requester.map_or_else(PathBuf::new, |requester| requester.path.clone()),
            rule: loaded[index].rule.clone(),
            when: if index < start {
                MappedWhen::Start
            } else {
                MappedWhen::Opened
            },
            is_linked: requester.is_some_and(|requester| requester.needed.contains(name)),
            family: family.map(|(family, _)| family.name.clone()),
            stem: family.map_or("", |(_, stem)| stem).to_owned(),
            soname: object.soname.as_deref().and_then(soname_number),
            id: object.id,
        }
    }
}

impl Prediction {
    /// Adds the files that only another order of use would map, and the names that only it would miss.
    fn join(&mut self, other: Prediction) {
        let mut missing = other.missing;
        missing.retain(|library| {
            let mut own = self.missing.iter();
            !own.any(|own| own.name == library.name && own.requester == library.requester)
        });
        self.missing.extend(missing);
        for file in other.files {
            match self.files.iter_mut().find(|own| own.id == file.id) {
                None => self.files.push(file),
                Some(own) if own.family.is_none() => *own = file,
                Some(_) => {}
            }
        }
        self.has_two_shims |= other.has_two_shims;
        self.watched.extend(other.watched);
    }

    /// `start` counts the objects that are mapped before the program runs.
    fn new(process: &Process<'_>, start: usize) -> Prediction {
        let mut prediction = Prediction {
            failure: process.failure.clone(),
            watched: process.searcher().depends_on().into_iter().collect(),
            ..Prediction::default()
        };
        let mut families_of_shims = BTreeSet::new();
        for index in 0..process.loaded.len() {
            let file = Predicted::new(&process.loaded, index, start);
            if file.is_shim() {
                prediction.has_two_shims |= !families_of_shims.insert(file.family.clone());
            }
            prediction.files.push(file);
        }
        for miss in &process.missing {
            prediction.missing.push(MissingLibrary {
                name: miss.name.clone(),
                requester: process.loaded[miss.requester].object.path.clone(),
                tried: miss.tried.clone(),
                family: family_of(&miss.name),
            });
        }
        prediction
    }
}

fn family_of(name: &str) -> Option<String> {
    catalog()
        .family_of(name)
        .map(|(family, _)| family.name.clone())
}

/// A library that another one of NVIDIA's opens once it is used.
struct LibraryUse {
    /// The index of the object that opens it.
    opener: usize,
    /// The names that the opener tries, in order, until one is there.
    names: Vec<String>,
    /// Its SONAME, where its family does not work without it.
    required: Option<String>,
    /// A part of the opener's own family, where a part may open others.
    is_own: bool,
}

/// The libraries that an object opens once it is used.
fn uses(opener: usize, object: &Object, inventory: &Inventory) -> Vec<LibraryUse> {
    let file_name = object.path.file_name().and_then(|name| name.to_str());
    // The SONAME identifies a library whose file has another name.
    let names = [file_name, object.soname.as_deref()];
    let Some((family, stem, suffix)) = names.into_iter().flatten().find_map(|name| {
        let (stem, suffix) = names::split(name)?;
        let stem = names::without_hash(stem).unwrap_or(stem);
        Some((catalog().family_of_stem(stem)?, stem, suffix))
    }) else {
        return Vec::new();
    };
    let installation = inventory.installation_of(object.id);
    let soname = object.soname.as_deref().and_then(names::split);
    let major = first_number(soname.map_or(suffix, |(_, suffix)| suffix)).unwrap_or(0);
    let version = version_in_names(family, stem, suffix, major, installation);
    let mut uses = Vec::new();
    for (user, part) in family.dlopens(major) {
        if user != stem {
            continue;
        }
        let Some(other) = catalog().family_of_stem(part) else {
            continue;
        };
        if other.name == family.name {
            if let Some(names) = own_names(family, part, major, version, installation) {
                let is_required = family.required(major).contains(&part);
                uses.push(LibraryUse {
                    opener,
                    names,
                    required: is_required.then(|| format!("{part}.so.{major}")),
                    is_own: family.dlopens_own_members,
                });
            }
            continue;
        }
        let cuda = installation.and_then(|installation| installation.cuda);
        if let Some(suffix) = other.suffix(cuda.unwrap_or(0)) {
            let mut names = vec![format!("{part}.so.{suffix}")];
            let bare_name = format!("{part}.so");
            if family.dlopens_unversioned(major).contains(&bare_name) {
                names.push(bare_name);
            }
            uses.push(LibraryUse {
                opener,
                names,
                required: None,
                is_own: false,
            });
        }
    }
    uses
}

/// The version in the names by which a library asks for the other parts of its family.
fn version_in_names(
    family: &Family,
    stem: &str,
    suffix: &str,
    major: u32,
    installation: Option<&Installation>,
) -> Option<Version> {
    // In a view, a shim also has the names of the version that it is over.
    if let Some(installation) = installation
        && family.is_shim(stem, Some(major))
        && installation.shim.is_some()
    {
        return installation.shim;
    }
    // A copied file keeps the version in its name.
    if let Ok(version) = suffix.parse::<Version>()
        && version.numbers().len() >= 3
        && !family.numbered_otherwise
    {
        return Some(version);
    }
    installation?.version
}

/// The names by which a library asks for another of its own family: by its own version, longest first; by the minor
/// where the SONAME carries it; else by the SONAME.
fn own_names(
    family: &Family,
    stem: &str,
    major: u32,
    version: Option<Version>,
    installation: Option<&Installation>,
) -> Option<Vec<String>> {
    if family.minor_in_soname.iter().any(|member| member == stem) {
        return Some(vec![format!("{stem}.so.{}", version?.truncated(2))]);
    }
    if !family.soname_is_version {
        return Some(vec![installation?.member(stem)?.soname.clone()]);
    }
    let mut names = Vec::new();
    if let Some(version) = version {
        for count in [3, 2] {
            names.push(format!("{stem}.so.{}", version.truncated(count)));
        }
    }
    names.extend([format!("{stem}.so.{major}"), format!("{stem}.so")]);
    Some(names)
}
