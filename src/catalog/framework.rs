//! Frameworks: the files that hold their records.

use std::ffi::OsStr;
use std::path::Path;

use super::framework_rows::{CodeRecord, Framework, Sign, VersionRecord};
use crate::formats::names::matches_pattern;

impl Framework {
    /// True if it may hold a record in this file, in whichever directory of packages.
    pub fn reads(&self, file: &Path) -> bool {
        let families = self.floor.values().chain(self.major.values()).flatten();
        let records = self.cuda.iter().chain(families);
        let signs = self.cpu_only.iter().filter_map(|sign| match sign {
            Sign::Assignment { file, .. } | Sign::Pair { file, .. } => Some(file.as_str()),
            _ => None,
        });
        records
            .filter_map(VersionRecord::file)
            .chain(self.code.iter().map(CodeRecord::file))
            .chain(signs)
            .any(|pattern| ends_with(file, pattern))
    }
}

/// True if the last parts of a path are those of a pattern.
fn ends_with(path: &Path, pattern: &str) -> bool {
    let mut parts = path.iter().rev();
    pattern.rsplit('/').all(|part| {
        let name = parts.next().and_then(OsStr::to_str);
        name.is_some_and(|name| matches_pattern(part, name))
    })
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
    /// The framework's file that holds it, if one does.
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
