//! Predicts the files that a program would map in an environment, by the model of the loader: its start, and the libraries
//! that it opens at run time. Must not judge them.
//!
//! The program decides which part of cuDNN it uses first, and that can decide what the other parts get. A prediction
//! therefore holds the files of every order.

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
use crate::program::{Load, Program};
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
    let mut orders = vec![with_opened(process.clone(), &program.loads)];
    for (at, first) in program
        .loads
        .iter()
        .enumerate()
        .filter(|(at, load)| *at > 0 && load.may_be_first)
    {
        let others = program.loads[..at].iter().chain(&program.loads[at + 1..]);
        let order = with_opened(process.clone(), [first].into_iter().chain(others));
        if orders.iter().all(|known| origins(known) != origins(&order)) {
            orders.push(order);
        }
    }
    let mut predictions = orders
        .iter()
        .map(|opened| predict_use(opened, start, inventory));
    let mut prediction = predictions.next().unwrap_or_default();
    predictions.for_each(|other| prediction.join(other));
    prediction
}

/// Opens libraries one after the other. If an object opens one of them, that object is opened before it.
fn with_opened<'h, 'l>(
    mut process: Process<'h>,
    loads: impl IntoIterator<Item = &'l Load>,
) -> Process<'h> {
    for load in loads {
        let is_first = load.may_be_first;
        let open = |by: &PathBuf| match position(&process, by) {
            None if is_first => process.open(&by.to_string_lossy(), None).ok(),
            known => known,
        };
        let by = load.by.as_ref().and_then(open);
        let _ = process.open(&load.name, by);
    }
    process
}

/// Returns each mapped file with the file that asked for it, which tell one order of opening from another.
fn origins(process: &Process<'_>) -> BTreeSet<(FileId, Option<FileId>)> {
    let id = |index: usize| process.loaded[index].object.id;
    process
        .loaded
        .iter()
        .map(|loaded| (loaded.object.id, loaded.requester.map(id)))
        .collect()
}

/// Follows the libraries that NVIDIA's libraries open, in every order of use.
fn predict_use(opened: &Process<'_>, start: usize, inventory: &Inventory) -> Prediction {
    let used = |first: Option<&(usize, Opened)>| {
        let mut process = opened.clone();
        let mut missing: Vec<MissingLibrary> = Vec::new();
        if let Some((by, opened)) = first {
            missing.extend(open_first(&mut process, opened, *by));
        }
        use_all(&mut process, inventory, &mut missing);
        let mut prediction = Prediction::new(&process, start);
        prediction.missing.extend(missing);
        prediction
    };
    let mut prediction = used(None);
    for first in first_uses(opened, inventory) {
        prediction.join(used(Some(&first)));
    }
    prediction
}

/// Opens all that NVIDIA's libraries may open, one after the other.
fn use_all(process: &mut Process<'_>, inventory: &Inventory, missing: &mut Vec<MissingLibrary>) {
    let mut next = 0;
    while next < process.loaded.len() && process.loaded.len() < LIMIT {
        let object = process.loaded[next].object.clone();
        for opened in opened_by(&object, inventory) {
            missing.extend(open_first(process, &opened, next));
        }
        next += 1;
    }
}

/// Returns the parts of families that open other parts of their own: any of them may be used first. Each comes with the
/// index of the object that opens it.
fn first_uses(process: &Process<'_>, inventory: &Inventory) -> Vec<(usize, Opened)> {
    let loaded = process.loaded.iter().enumerate();
    let of_object = |(by, loaded): (usize, &LoadedObject)| {
        let own = opened_by(&loaded.object, inventory)
            .into_iter()
            .filter(|opened| opened.is_own);
        // `use_all` already uses the first one first.
        own.skip(1)
            .map(move |opened| (by, opened))
            .collect::<Vec<_>>()
    };
    loaded.flat_map(of_object).collect()
}

/// Opens the first of the names that is there. Returns a miss where none is there and the family does not work without it.
fn open_first(process: &mut Process<'_>, opened: &Opened, by: usize) -> Option<MissingLibrary> {
    let mut tried = Vec::new();
    for name in &opened.names {
        match process.open(name, Some(by)) {
            Ok(_) => return None,
            Err(LoadFailure::NotFound(miss)) if miss.requester == by => tried.extend(miss.tried),
            Err(_) => {}
        }
    }
    let name = opened.required.clone()?;
    let family = family_of(&name);
    Some(MissingLibrary {
        name,
        requester: process.loaded[by].object.path.clone(),
        tried,
        family,
    })
}

impl Predicted {
    /// [`Family::is_shim`] of this file.
    pub fn is_shim(&self) -> bool {
        let family = self
            .family
            .as_deref()
            .and_then(|family| catalog().family(family));
        family.is_some_and(|family| family.is_shim(&self.stem, self.soname))
    }
}

impl Prediction {
    /// Adds the files that only another order of use would map, and the names that only it would miss.
    fn join(&mut self, other: Prediction) {
        let is_known = |miss: &MissingLibrary| {
            self.missing
                .iter()
                .any(|known| known.name == miss.name && known.requester == miss.requester)
        };
        let lost: Vec<MissingLibrary> = other
            .missing
            .into_iter()
            .filter(|miss| !is_known(miss))
            .collect();
        self.missing.extend(lost);
        let mut new = other.files;
        new.retain(|file| self.files.iter().all(|known| known.id != file.id));
        self.files.extend(new);
        self.has_two_shims |= other.has_two_shims;
        self.watched.extend(other.watched);
    }

    /// `start` counts the objects that are mapped before the program runs.
    fn new(process: &Process<'_>, start: usize) -> Prediction {
        let loaded = &process.loaded;
        let path = |index: usize| loaded[index].object.path.clone();
        let file = |(index, file): (usize, &LoadedObject)| {
            // A file that auditwheel renamed is of no family, unless it kept a SONAME that others ask for.
            let by_soname = || {
                catalog().family_of_bundled(&file.object.path)?;
                catalog().family_of(file.object.soname.as_deref()?)
            };
            let known = catalog().family_of_file(&file.object.path);
            let (family, stem) = known.or_else(by_soname).unzip();
            Predicted {
                name: file.name.clone(),
                path: file.object.path.clone(),
                requester: file.requester.map(path).unwrap_or_default(),
                rule: file.rule.clone(),
                when: if index < start {
                    MappedWhen::Start
                } else {
                    MappedWhen::Opened
                },
                is_linked: file
                    .requester
                    .is_some_and(|by| loaded[by].object.needed.contains(&file.name)),
                family: family.map(|family| family.name.clone()),
                stem: stem.unwrap_or_default().to_owned(),
                soname: file.object.soname.as_deref().and_then(soname_number),
                id: file.object.id,
            }
        };
        let missing = process.missing.iter().map(|miss| MissingLibrary {
            name: miss.name.clone(),
            requester: path(miss.requester),
            tried: miss.tried.clone(),
            family: family_of(&miss.name),
        });
        let files: Vec<Predicted> = loaded.iter().enumerate().map(file).collect();
        let mut shims = files.iter().enumerate().filter(|(_, file)| file.is_shim());
        let is_second = |(at, shim): (usize, &Predicted)| {
            files[..at]
                .iter()
                .any(|other| other.is_shim() && other.family == shim.family)
        };
        Prediction {
            has_two_shims: shims.any(is_second),
            files,
            missing: missing.collect(),
            failure: process.failure.clone(),
            watched: process.searcher().depends_on().into_iter().collect(),
        }
    }
}

fn family_of(name: &str) -> Option<String> {
    catalog()
        .family_of(name)
        .map(|(family, _)| family.name.clone())
}

fn position(process: &Process<'_>, path: &Path) -> Option<usize> {
    process
        .loaded
        .iter()
        .position(|loaded| loaded.object.path == path)
}

/// A library that another one of NVIDIA's opens once it is used.
struct Opened {
    /// The names that it tries, in order, until one is there.
    names: Vec<String>,
    /// Its SONAME, where its family does not work without it.
    required: Option<String>,
    /// A part of the opener's own family, where a part may open others.
    is_own: bool,
}

fn opened_by(object: &Object, inventory: &Inventory) -> Vec<Opened> {
    let name = object
        .path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    // The SONAME identifies a library whose file has another name.
    let mut names = [Some(name), object.soname.as_deref()].into_iter().flatten();
    let known = names.find_map(|name| {
        let (stem, suffix) = names::split(name)?;
        let stem = names::without_hash(stem).unwrap_or(stem);
        Some((catalog().family_of_stem(stem)?, stem, suffix))
    });
    let Some((family, stem, suffix)) = known else {
        return Vec::new();
    };
    let installation = inventory.installation_of(object.id);
    let soname = object
        .soname
        .as_deref()
        .and_then(names::split)
        .map_or(suffix, |(_, suffix)| suffix);
    let major = first_number(soname).unwrap_or(0);
    // A copied file keeps the version in its name.
    let of_name = suffix
        .parse::<Version>()
        .ok()
        .filter(|version| version.numbers().len() >= 3);
    let of_name = of_name.filter(|_| !family.numbered_otherwise);
    // In a view, a shim also has the names of the version that it is over.
    let of_shim = || {
        installation
            .filter(|_| family.is_shim(stem, Some(major)))?
            .shim
    };
    let version = of_shim().or(of_name).or_else(|| installation?.version);
    let opened = family
        .dlopens(major)
        .filter(|(by, _)| *by == stem)
        .filter_map(|(_, opened)| match catalog().family_of_stem(opened)? {
            own if own.name == family.name => {
                let is_required = family.required(major).contains(&opened);
                Some(Opened {
                    names: own_names(family, opened, major, version, installation)?,
                    required: is_required.then(|| format!("{opened}.so.{major}")),
                    is_own: family.dlopens_own_members,
                })
            }
            other => {
                let suffix = other.suffix(
                    installation
                        .and_then(|installation| installation.cuda)
                        .unwrap_or(0),
                )?;
                let bare = format!("{opened}.so");
                let is_tried = family.dlopens_unversioned(major).contains(&bare);
                let names = [format!("{opened}.so.{suffix}")]
                    .into_iter()
                    .chain(is_tried.then_some(bare));
                Some(Opened {
                    names: names.collect(),
                    required: None,
                    is_own: false,
                })
            }
        });
    opened.collect()
}

/// Returns the names by which a library asks for another of its own family: by its own version, longest first; by the minor
/// where the SONAME carries it; else by the SONAME.
fn own_names(
    family: &Family,
    stem: &str,
    major: u32,
    version: Option<Version>,
    installation: Option<&Installation>,
) -> Option<Vec<String>> {
    let numbered = |version: Version| format!("{stem}.so.{version}");
    if family.minor_in_soname.iter().any(|known| known == stem) {
        return version.map(|version| vec![numbered(version.truncated(2))]);
    }
    if !family.soname_is_version {
        return installation?
            .member(stem)
            .map(|member| vec![member.soname.clone()]);
    }
    let lengths = (2..=3)
        .rev()
        .filter_map(|count| Some(version?.truncated(count)));
    let mut names: Vec<String> = lengths.map(numbered).collect();
    names.extend([format!("{stem}.so.{major}"), format!("{stem}.so")]);
    Some(names)
}
