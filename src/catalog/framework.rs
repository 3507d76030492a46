//! Frameworks: the files that hold their records.

use super::framework_rows::{CodeRecord, Record};

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
    /// Returns the framework's file that holds it, if one does.
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
