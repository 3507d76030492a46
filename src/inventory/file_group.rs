//! The files of one library family in one directory: what the versions and the installation are made from.

use std::collections::BTreeMap;

use super::directory_scan::NamedFile;
use super::location::PackageRecord;
use crate::catalog::Family;

pub(super) struct FileGroup {
    pub family: &'static Family,
    /// The number in the SONAMEs; none if the family has one installation for all numbers.
    pub soname: Option<u32>,
    /// At least one.
    pub candidates: Vec<NamedFile>,
    /// The package records of the files, by file name.
    pub records: BTreeMap<String, PackageRecord>,
}

impl FileGroup {
    /// The family's main file, or else the first one.
    pub(super) fn main(&self) -> &NamedFile {
        main_file(self.family, &self.candidates)
    }

    /// The package record of the main file.
    pub(super) fn record(&self) -> Option<&PackageRecord> {
        let mut names = self.main().names.iter();
        names.find_map(|name| self.records.get(name))
    }

    pub(super) fn is_shim(&self, candidate: &NamedFile) -> bool {
        self.family.is_shim(&candidate.file.stem, self.soname)
    }

    pub(super) fn has_only_shims(&self) -> bool {
        self.candidates.iter().all(|one| self.is_shim(one))
    }

    /// True if the version of this file counts for all of them: that of a shim does so only if there is nothing else.
    pub(super) fn decides(&self, candidate: &NamedFile) -> bool {
        !self.is_shim(candidate) || self.has_only_shims()
    }

    /// True if each file has the size that its package recorded.
    pub(super) fn is_as_packaged(&self) -> bool {
        self.candidates.iter().all(|candidate| {
            self.records
                .get(&candidate.names[0])
                .is_some_and(|record| record.size == Some(candidate.stat.size))
        })
    }
}

pub(super) fn main_file<'c>(family: &Family, candidates: &'c [NamedFile]) -> &'c NamedFile {
    candidates
        .iter()
        .find(|candidate| candidate.file.stem == family.main)
        .unwrap_or(&candidates[0])
}
