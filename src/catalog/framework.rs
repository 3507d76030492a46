//! Frameworks: the files that hold their records.

use super::rows::{CodeRecord, Record};

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

    #[test]
    fn every_profile_names_what_there_is() {
        let catalog = catalog();
        let is_known = |stem: &String| catalog.families.iter().any(|family| family.has_member(stem));
        let mut modules = BTreeSet::new();
        for framework in &catalog.frameworks {
            let name = &framework.name;
            let stems = [&framework.dlopens, &framework.dlopens_from_wheels];
            let unknown = stems.into_iter().flatten().find(|stem| !is_known(stem));
            assert!(unknown.is_none(), "{name}: {unknown:?}");
            assert!(framework.required_for_gpu.iter().all(|stem| framework.dlopens.contains(stem)), "{name}");
            let families = framework.floor.keys().chain(framework.major.keys());
            let stranger = families.into_iter().find(|family| catalog.family(family).is_none());
            assert!(stranger.is_none(), "{name}: {stranger:?}");
            let is_framework = |other: &String| catalog.frameworks.iter().any(|it| it.name == *other);
            assert!(framework.imports.iter().all(is_framework), "{name}");
            for module in &framework.modules {
                assert!(modules.insert(module), "{name}: {module} is another framework's too");
            }
            let records = framework.cuda.iter().chain(framework.floor.values().flatten());
            let patterns = records.chain(framework.major.values().flatten()).filter_map(Record::file);
            let patterns = patterns.chain(framework.code.iter().map(CodeRecord::file));
            let mut parts =
                patterns.chain(framework.dlopened_by.iter().map(String::as_str)).flat_map(|it| it.split('/'));
            let twice = parts.find(|part| part.matches('*').count() > 1);
            assert!(twice.is_none(), "{name}: {twice:?}: one star a component");
            assert!(framework.variable.iter().all(|variable| !variable.does.is_empty()), "{name}");
        }
    }
}
