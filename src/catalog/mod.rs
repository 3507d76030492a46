//! Typed access to `profiles/`, which is embedded: library families, driver floors, GPUs, frameworks.
//! Must not read the machine.
//!
//! `libraries.toml` families; `drivers.toml` oldest drivers, branches, the driver of each toolkit; `architectures.toml`
//! and `gpus.tsv` compute capabilities; `cudnn.toml` and `builds.toml` installable builds for each GPU, and releases;
//! `known-bad.toml`; `frameworks/`. Facts that the installed files state themselves come from the files: CUDA,
//! versions, symbols, GPU code, and the kernels that a libcuda supports.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use serde::de::DeserializeOwned;

use crate::formats::names::{self, beginning, beginnings};
use crate::host::table_of_test;
use crate::text::{list, show};

/// A file of `profiles/`, as the build script has checked and embedded it.
macro_rules! profile {
    ($name:literal) => {
        serde_json::from_str(include_str!(concat!(env!("OUT_DIR"), "/", $name, ".json")))
            .expect("the build script has read it with these types")
    };
}

#[cfg(test)]
mod check;
pub mod error_rows;
mod family;
pub mod fault_rows;
mod faults;
mod framework;
pub mod framework_rows;
mod gpus;
mod knowledge;
#[cfg(test)]
mod literals;
mod packages;
mod platform;
pub mod rows;
mod statuses;
pub mod wheel_rows;
pub mod wrapper_rows;
mod wrappers;

pub use crate::formats::names::{first_number, soname_number};
pub use error_rows::{Argument, Capture, ErrorKind, ErrorRow, PossibleCause, States};
use error_rows::{CauseArgument, ClueRow, Clues, Errors};
pub use fault_rows::{AfterProof, FaultRow, Section, Severity};
pub use faults::{Fault, Text, faults, filled};
pub use framework_rows::{CodeRecord, Framework, FrameworkCompiler, Sign, Variable, VersionRecord};
pub use gpus::{architecture, architectures, gpu};
pub use knowledge::{Knowledge, knowledge};
pub use packages::packages_of;
pub use platform::{Platform, is_released_for, wheel_architecture};
pub use rows::{
    Combination, Family, GpuArchitecture, GpuBuild, GroupedBy, Holds, ListedDistribution, Place,
    Places, PythonFacts, Release, Status, Statuses, VendorBuild, VersionHeader, VersionNumber,
};
pub use statuses::{is_driver_call, statuses};
use wheel_rows::Wheels;
pub use wheel_rows::{ToolkitRow, Wheel, WheelFile};
pub use wrapper_rows::{EnvironmentTool, Inheritance, Meaning, Switch, Takes, UsagePart, Wrapper};
pub use wrappers::{may_be_wrapper, wrapper_variables, wrappers};

use rows::LibrariesTable;

/// The variable with the file of a test, for wheels and toolkits.
const WHEELS_OF_TEST: &str = "CUDARUN_TEST_WHEELS";

#[derive(Debug)]
pub struct Catalog {
    pub families: Vec<Family>,
    pub frameworks: Vec<Framework>,
    pub places: Places,
    pub python: PythonFacts,
}

pub fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
        let LibrariesTable { family: families } = profile!("libraries");
        Catalog {
            families,
            frameworks: profile!("frameworks"),
            places: profile!("places"),
            python: profile!("python"),
        }
    });
    &CATALOG
}

/// Returns the wheels of NVIDIA's libraries; the rows of one distribution are in ascending order of version.
pub fn wheels() -> &'static [Wheel] {
    static WHEELS: LazyLock<Wheels> =
        LazyLock::new(|| of_test(WHEELS_OF_TEST).unwrap_or_else(|| profile!("wheels")));
    &WHEELS.wheel
}

/// Returns the toolkits that wheels make together, ascending.
pub fn toolkits() -> &'static [ToolkitRow] {
    static TOOLKITS: LazyLock<Wheels> =
        LazyLock::new(|| of_test(WHEELS_OF_TEST).unwrap_or_else(|| profile!("toolkits")));
    &TOOLKITS.toolkit
}

/// The table that a test has put in place of a profile.
fn of_test<T: DeserializeOwned>(variable: &str) -> Option<T> {
    table_of_test(variable)
        .map(|text| toml::from_str(&text).expect("the test has written it with these types"))
}

/// NVIDIA's name of a family; any other name is returned as it is.
pub fn display_name(name: &str) -> &str {
    catalog()
        .family(name)
        .map_or(name, |family| &family.display)
}

/// `cuDNN and cuBLAS`
pub fn display_names<'n>(names: impl IntoIterator<Item = &'n String>) -> String {
    list(names.into_iter().map(|name| display_name(name)))
}

/// `cudnn 9.1.0` with the family's proper name.
pub fn title(name: &str) -> String {
    match name.split_once(' ') {
        Some((first, rest)) => show(&format!("{} {rest}", display_name(first))),
        None => show(display_name(name)),
    }
}

/// Returns the known error messages, from the special to the general: where several match a line, the first one counts.
pub fn errors() -> &'static [ErrorRow] {
    static ERRORS: LazyLock<Errors> = LazyLock::new(|| profile!("errors"));
    &ERRORS.error
}

/// The clues that the words of a line may give.
#[derive(Debug)]
pub struct ClueTable {
    /// A regex: a line gives a clue only if it has a word that this matches, outside what `fine` matches.
    pub failing: String,
    pub fine: String,
    /// The clue that tells most is the first. None confirms a cause.
    pub clues: Vec<ErrorRow>,
}

/// Returns the table of `clues.toml`.
pub fn clue_table() -> &'static ClueTable {
    static TABLE: LazyLock<ClueTable> = LazyLock::new(|| {
        let table: Clues = profile!("clues");
        let clues = table.clue.into_iter();
        ClueTable {
            failing: table.failing,
            fine: table.fine,
            clues: clues.map(|clue| clue.row(&table.argument)).collect(),
        }
    });
    &TABLE
}

impl ClueRow {
    fn row(self, arguments: &[CauseArgument]) -> ErrorRow {
        let of = |cause: &Fault| {
            arguments
                .iter()
                .find(|argument| argument.cause.contains(cause))
        };
        let causes = self.cause.into_iter().map(|cause| PossibleCause {
            cause,
            of: of(&cause).map(|argument| argument.of.clone()),
            wanted: None,
            symbol: None,
            and: None,
            stated: false,
            unsure: true,
        });
        ErrorRow {
            cause: causes.collect(),
            id: self.id,
            kind: ErrorKind::Clue,
            regex: self.regex,
            general: self.weak,
            literals: self.literals,
            sample: Vec::new(),
            by: Vec::new(),
            also: Vec::new(),
            code: Vec::new(),
            threads: 0,
            states: None,
            source: String::new(),
            date: String::new(),
        }
    }
}

impl Catalog {
    pub fn family(&self, name: &str) -> Option<&Family> {
        self.families.iter().find(|family| family.name == name)
    }

    /// Returns the family of this name, or of this name of NVIDIA's, in upper or lower case.
    pub fn family_named(&self, word: &str) -> Option<&Family> {
        self.families.iter().find(|family| {
            let mut names = [&family.name, &family.display].into_iter();
            names.any(|name| name.eq_ignore_ascii_case(word))
        })
    }

    /// Returns the family and the stem of a file name or SONAME: `cudnn` and `libcudnn_ops` of `libcudnn_ops.so.9`.
    pub fn family_of<'n>(&self, name: &'n str) -> Option<(&Family, &'n str)> {
        let (stem, _) = names::split(name)?;
        self.family_of_stem(stem).map(|family| (family, stem))
    }

    /// Returns the family and the stem of a file, by its name.
    pub fn family_of_file<'p>(&self, file: &'p Path) -> Option<(&Family, &'p str)> {
        self.family_of(file.file_name()?.to_str()?)
    }

    /// Returns the family of a file that auditwheel has copied into a wheel and renamed.
    pub fn family_of_bundled(&self, file: &Path) -> Option<&Family> {
        let (stem, _) = names::split(file.file_name()?.to_str()?)?;
        self.family_of_stem(names::without_hash(stem)?)
    }

    /// [`Family::is_shim`] of a file, by its name.
    pub fn is_shim(&self, file: &Path) -> bool {
        let number = file
            .file_name()
            .and_then(|name| soname_number(name.to_str()?));
        self.family_of_file(file)
            .is_some_and(|(family, stem)| family.is_shim(stem, number))
    }

    /// `None` for a file that auditwheel has renamed, although `libnvrtc-*` matches it: only its own package asks for it.
    pub fn family_of_stem(&self, stem: &str) -> Option<&Family> {
        static BEGINNINGS: LazyLock<BTreeSet<u32>> = LazyLock::new(|| {
            beginnings(catalog().families.iter().flat_map(|family| &family.members))
        });
        if !BEGINNINGS.contains(&beginning(stem)?) {
            return None;
        }
        let family = self
            .families
            .iter()
            .find(|family| family.has_member(stem))?;
        let plain = names::without_hash(stem);
        let is_renamed = plain.is_some_and(|plain| family.has_member(plain));
        (!is_renamed).then_some(family)
    }

    /// True if a library of this name may export an unversioned symbol of that name.
    pub fn may_export(&self, library: &str, symbol: &str) -> bool {
        self.family_of(library)
            .is_some_and(|(family, _)| family.may_export(symbol))
    }

    pub fn framework(&self, name: &str) -> Option<&Framework> {
        self.frameworks
            .iter()
            .find(|framework| framework.name == name)
    }

    /// Returns the framework that provides this top-level module.
    pub fn framework_of(&self, top_level: &str) -> Option<&Framework> {
        self.frameworks
            .iter()
            .find(|framework| framework.modules.iter().any(|module| module == top_level))
    }
}
