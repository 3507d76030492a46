//! Frameworks: the files that hold their records.

use std::path::Path;

use super::framework_rows::{CodeRecord, Framework, Sign, VersionRecord};
use crate::formats::names::matches_pattern;

impl Framework {
    /// True if it may hold a record in this file, in whichever directory of packages.
    pub fn reads(&self, file: &Path) -> bool {
        let of_families = self.floor.values().chain(self.major.values()).flatten();
        let records = self
            .cuda
            .iter()
            .chain(of_families)
            .filter_map(VersionRecord::file);
        let signs = self.cpu_only.iter().filter_map(|sign| match sign {
            Sign::Assignment { file, .. } | Sign::Pair { file, .. } => Some(file.as_str()),
            _ => None,
        });
        let is_it = |pattern: &str| {
            let mut parts = file.iter().rev();
            let is_part = |part: &str| {
                parts
                    .next()
                    .and_then(|name| name.to_str())
                    .is_some_and(|name| matches_pattern(part, name))
            };
            pattern.rsplit('/').all(is_part)
        };
        records
            .chain(self.code.iter().map(CodeRecord::file))
            .chain(signs)
            .any(is_it)
    }
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

impl VersionRecord {
    /// Returns the framework's file that holds it, if one does.
    pub fn file(&self) -> Option<&str> {
        match self {
            VersionRecord::Assignment { file, .. }
            | VersionRecord::Pair { file, .. }
            | VersionRecord::Json { file, .. }
            | VersionRecord::Define { file, .. }
            | VersionRecord::FileName { file }
            | VersionRecord::Local { file, .. }
            | VersionRecord::Constants { file, .. }
            | VersionRecord::CompileVersion { file, .. } => Some(file),
            VersionRecord::Installed { .. } | VersionRecord::VersionOf { .. } => None,
        }
    }
}
