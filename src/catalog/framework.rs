//! Frameworks: how each is recognised, and where it records what it was built with.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The files of `profiles/frameworks/`, which the build finds.
pub(super) const PROFILES: &[&str] = include!(concat!(env!("OUT_DIR"), "/frameworks.rs"));

/// A framework. The fields are explained in `profiles/frameworks/torch.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Framework {
    pub name: String,
    pub modules: Vec<String>,
    pub packages: Vec<String>,
    pub distributions: Vec<String>,
    #[serde(default)]
    pub through: Vec<String>,
    #[serde(default)]
    pub reads_objects: bool,
    #[serde(default)]
    pub loads_wheels: Option<String>,
    #[serde(default)]
    pub loads_also: Vec<String>,
    #[serde(default)]
    pub preloads: Vec<String>,
    #[serde(default)]
    pub opens: Vec<String>,
    #[serde(default)]
    pub openers: Vec<String>,
    #[serde(default)]
    pub essential: Vec<String>,
    #[serde(default)]
    pub loaded: Vec<String>,
    #[serde(default)]
    pub cpu_only: Vec<Sign>,
    #[serde(default)]
    pub cuda: Vec<Record>,
    #[serde(default)]
    pub floor: BTreeMap<String, Vec<Record>>,
    #[serde(default)]
    pub major: BTreeMap<String, Vec<Record>>,
    #[serde(default)]
    pub code: Vec<CodeRecord>,
    #[serde(default, rename = "check")]
    pub checks: Vec<Check>,
    #[serde(default, rename = "variable")]
    pub variables: Vec<Variable>,
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "date")]
    _date: String,
}

/// How a framework records a version.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Record {
    /// `name = '12.4'`, with or without a type, in a Python file.
    Assignment { file: String, name: String },
    /// `('name', '12.4')` in a Python file.
    Pair { file: String, name: String },
    /// A string in a JSON file; dots in the key lead inward.
    Json { file: String, key: String },
    /// Macros of a C header that hold the version, or its numbers one each.
    Define { file: String, names: Vec<String> },
    /// The name of a file that was packed in under its own version: `libcudnn-74a4c495.so.9.1.0`.
    FileName { file: String },
    /// The digits after a word in the version that a Python file assigns: `cu` in `2.5.1+cu124`, of whose digits the
    /// major has so many.
    Local { file: String, name: String, word: String, major: usize },
    /// The same in the name and version of what is installed: `mxnet-cu112`, `jaxlib 0.4.23+cuda12.cudnn89`.
    Installed { distribution: String, word: String, major: usize },
    /// The version of another distribution that is installed.
    VersionOf { distribution: String },
    /// The constants that a module hands to Python one after the other, in address order.
    Constants { file: String, position: usize },
    /// A function that stores three numbers: major, minor, patch.
    CompileVersion { file: String, symbol: String },
}

/// How a framework records the GPUs that it has code for.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum CodeRecord {
    /// The flags of the compiler in a macro of a C header: `-gencode;arch=compute_80,code=sm_80`.
    Flags { file: String, name: String },
    /// `('name', ['sm_80', 'compute_90'])` in a Python file; the latter is machine code and PTX.
    Pair { file: String, name: String },
    /// The fat binaries in these files, all of them together.
    FatBinaries { file: String },
}

/// What tells that a build is not for NVIDIA's GPUs.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "by", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sign {
    /// `name = value` in a Python file, as it is written there.
    Assignment { file: String, name: String, value: String },
    /// `('name', value)` in a Python file.
    Pair { file: String, name: String, value: String },
    /// None of these files is there.
    Lacks { files: Vec<String> },
    /// Its object has no code for a GPU.
    NoCode { file: String },
    /// It came with this distribution.
    Installed { distribution: String },
}

/// What a framework itself checks when it starts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub family: String,
    pub rule: Rule,
    /// Of `at-least` and `known-bad`, the version that the rule is about.
    #[serde(default)]
    pub version: Option<String>,
    /// What it says when the check fails, or a part of it.
    pub text: String,
    /// The variable that turns it off.
    #[serde(default)]
    pub skip: Option<String>,
    /// The first version of the framework that has it.
    #[serde(default)]
    pub since: Option<String>,
    #[serde(rename = "source")]
    _source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The same major as it was compiled with, and no older minor.
    NotOlder,
    /// This version or a newer one.
    AtLeast,
    /// Not this version.
    KnownBad,
    /// Not with a GPU that is too old for it.
    NotOnOldGpus,
    /// It can be opened at all.
    Opens,
}

/// An environment variable that changes what it asks for or where it looks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    pub name: String,
    pub does: String,
}

impl CodeRecord {
    pub fn file(&self) -> &str {
        match self {
            CodeRecord::Flags { file, .. }
            | CodeRecord::Pair { file, .. }
            | CodeRecord::FatBinaries { file } => file,
        }
    }
}

impl Record {
    /// The file that it is read from, where it is one of the framework's own.
    pub fn file(&self) -> Option<&str> {
        match self {
            Record::Assignment { file, .. }
            | Record::Pair { file, .. }
            | Record::Json { file, .. }
            | Record::Define { file, .. }
            | Record::FileName { file }
            | Record::Local { file, .. }
            | Record::Constants { file, .. }
            | Record::CompileVersion { file, .. } => Some(file),
            Record::Installed { .. } | Record::VersionOf { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::catalog::catalog;
    use crate::version::Version;

    #[test]
    fn every_profile_names_what_there_is() {
        let catalog = catalog();
        let is_known = |stem: &String| catalog.families.iter().any(|family| family.has_member(stem));
        let mut modules = BTreeSet::new();
        for framework in &catalog.frameworks {
            let name = &framework.name;
            let stems = [&framework.opens, &framework.loads_also, &framework.preloads];
            let unknown = stems.into_iter().flatten().find(|stem| !is_known(stem));
            assert!(unknown.is_none(), "{name}: {unknown:?}");
            assert!(framework.essential.iter().all(|stem| framework.opens.contains(stem)), "{name}");
            let families = framework.floor.keys().chain(framework.major.keys());
            let families = families.chain(framework.checks.iter().map(|check| &check.family));
            let stranger = families.into_iter().find(|family| catalog.family(family).is_none());
            assert!(stranger.is_none(), "{name}: {stranger:?}");
            let through = |other: &String| catalog.frameworks.iter().any(|it| it.name == *other);
            assert!(framework.through.iter().all(through), "{name}");
            assert!(
                framework.loads_wheels.as_ref().is_none_or(|since| since.parse::<Version>().is_ok()),
                "{name}"
            );
            for module in &framework.modules {
                assert!(modules.insert(module), "{name}: {module} is another framework's too");
            }
            for check in &framework.checks {
                let numbers = check.version.iter().chain(&check.since);
                assert!(numbers.into_iter().all(|number| number.parse::<Version>().is_ok()), "{name}");
                let needs_version = matches!(check.rule, Rule::AtLeast | Rule::KnownBad | Rule::NotOnOldGpus);
                assert_eq!(check.version.is_some(), needs_version, "{name}: {}", check.text);
                let skip = check.skip.as_ref();
                let is_listed = skip.is_none_or(|skip| framework.variables.iter().any(|it| it.name == *skip));
                assert!(is_listed && !check.text.is_empty(), "{name}: {skip:?}");
            }
            let records = framework.cuda.iter().chain(framework.floor.values().flatten());
            let patterns = records.chain(framework.major.values().flatten()).filter_map(Record::file);
            let patterns = patterns.chain(framework.code.iter().map(CodeRecord::file));
            let mut parts =
                patterns.chain(framework.openers.iter().map(String::as_str)).flat_map(|it| it.split('/'));
            let twice = parts.find(|part| part.matches('*').count() > 1);
            assert!(twice.is_none(), "{name}: {twice:?}: one star a component");
            assert!(framework.variables.iter().all(|variable| !variable.does.is_empty()), "{name}");
        }
    }
}
