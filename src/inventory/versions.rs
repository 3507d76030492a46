//! The version of an installation, from all evidence of it, and the evidence that disagrees.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::directory_scan::NamedFile;
use super::file_group::FileGroup;
use super::installation::{Problem, VersionEvidence, VersionSource};
use super::location::PackageRecord;
use crate::catalog::Family;
use crate::formats::{build_info, names};
use crate::host::Host;
use crate::version::Version;

#[derive(Default)]
pub(super) struct Versions {
    pub version: Option<Version>,
    pub source: Option<VersionSource>,
    /// The version of the shim.
    pub shim: Option<Version>,
    pub evidence: Vec<VersionEvidence>,
    pub problems: Vec<Problem>,
    /// The header that was looked up, present or missing.
    pub header: Option<PathBuf>,
}

/// Reads the version from the contents, else from the package's record, the file's name or a header. Weaker evidence that
/// agrees and has more numbers completes it. The version of a shim counts for the installation only if there is nothing
/// else in it.
pub(super) fn determine(host: &Host, directory: &Path, group: &FileGroup) -> Versions {
    let mut versions = Versions {
        shim: shim_version(group),
        ..Versions::default()
    };
    versions.add_contents(group);
    let contents = versions.version;
    versions.add_record(group, contents);
    versions.add_names(group, contents);
    if versions.evidence.is_empty() {
        versions.add_header(host, directory, group.family);
    }
    if let (None, Some(first)) = (versions.version, versions.evidence.first()) {
        (versions.version, versions.source) = (Some(first.version), Some(first.source));
    }
    versions.complete();
    let main = group.main();
    if let (Some(version), Some(shim)) = (versions.version, versions.shim)
        && !group.decides(main)
        && !shim.agrees_with(&version)
        && !group
            .family
            .shim_works_over(group.soname, Some(shim), Some(version))
    {
        versions.problems.push(Problem::OtherVersionAmongTheRest {
            file: main.names[0].clone(),
            version: shim,
        });
    }
    versions
}

impl Versions {
    /// Adds evidence. The first that `decides` is the version; evidence is added strongest first.
    fn add(&mut self, source: VersionSource, version: Version, holder: &str, decides: bool) {
        if decides && self.version.is_none() {
            (self.version, self.source) = (Some(version), Some(source));
        }
        self.evidence.push(VersionEvidence {
            source,
            version,
            by: holder.to_owned(),
        });
    }

    fn add_contents(&mut self, group: &FileGroup) {
        let mut written: Vec<(usize, Version, &NamedFile)> = Vec::new();
        for candidate in &group.candidates {
            for (rule, version) in &candidate.file.versions {
                written.push((*rule, *version, candidate));
            }
        }
        written.sort_by_key(|(rule, ..)| *rule);
        // Two rules may read one version in one file.
        written.dedup_by_key(|(_, version, candidate)| (*version, candidate.stat.id));
        for (_, version, candidate) in written {
            let file = &candidate.names[0];
            let decides = group.decides(candidate);
            self.add(VersionSource::Contents, version, file, decides);
            if decides && is_other(version, self.version) {
                self.problems.push(Problem::OtherVersionAmongTheRest {
                    file: file.clone(),
                    version,
                });
            }
        }
    }

    fn add_record(&mut self, group: &FileGroup, contents: Option<Version>) {
        let Some(PackageRecord {
            package,
            version: Some(version),
            ..
        }) = group.record()
        else {
            return;
        };
        let version = *version;
        self.add(VersionSource::PackageRecord, version, package, true);
        // Where every file has the size that the package recorded, it is the vendor who numbers the two otherwise:
        // cuTENSOR 2.8.1 says that it is 2.8.0.
        if is_other(version, contents) && !group.is_as_packaged() {
            self.problems.push(Problem::PackageSaysOtherwise {
                package: package.clone(),
                version,
            });
        }
    }

    /// The name of a shim tells nothing about the rest: where the main file is one and the contents tell nothing, the
    /// name of another file decides.
    fn add_names(&mut self, group: &FileGroup, contents: Option<Version>) {
        let main = group.main();
        let main_decides = group.decides(main);
        let own = named(group.family, main);
        let own_version = own.as_ref().map(|(version, _)| *version);
        let mut own_decides = main_decides;
        if !main_decides && contents.is_none() {
            let mut rest = group.candidates.iter().filter(|one| group.decides(one));
            if let Some((version, file)) = rest.find_map(|other| named(group.family, other)) {
                own_decides = own_version == Some(version);
                if !own_decides {
                    self.add(VersionSource::FileName, version, &file, true);
                }
            }
        }
        let Some((version, file)) = own else { return };
        self.add(VersionSource::FileName, version, &file, own_decides);
        if main_decides && is_other(version, contents) {
            self.problems
                .push(Problem::NameSaysOtherwise { file, version });
        }
    }

    fn add_header(&mut self, host: &Host, directory: &Path, family: &Family) {
        self.header = header_beside(directory, family);
        if let Some(path) = &self.header
            && let Some((version, file)) = version_of_header(host, path, family)
        {
            self.add(VersionSource::Header, version, &file, true);
        }
    }

    /// Takes the version with the most numbers of those that agree.
    fn complete(&mut self) {
        let Some(base) = self.version else { return };
        let mut longest = base;
        for VersionEvidence { version, .. } in &self.evidence {
            if version.agrees_with(&base) && version.numbers().len() > longest.numbers().len() {
                longest = *version;
            }
        }
        self.version = Some(longest);
    }
}

fn is_other(version: Version, contents: Option<Version>) -> bool {
    contents.is_some_and(|contents| !version.agrees_with(&contents))
}

fn shim_version(group: &FileGroup) -> Option<Version> {
    let mut candidates = group.candidates.iter();
    let shim = candidates.find(|candidate| group.is_shim(candidate))?;
    match shim.file.versions.iter().min_by_key(|(rule, _)| *rule) {
        Some((_, version)) => Some(*version),
        None => named(group.family, shim).map(|(version, _)| version),
    }
}

/// The longest version in a file's names, and that name; a link may have a shorter one than its file.
fn named(family: &Family, candidate: &NamedFile) -> Option<(Version, String)> {
    let real = candidate.path.file_name().and_then(OsStr::to_str);
    let names = candidate.names.iter().map(String::as_str).chain(real);
    let named = names.filter_map(|name| Some((version_of_name(family, name)?, name.to_owned())));
    named.max_by_key(|(version, _)| version.numbers().len())
}

/// `libcublas.so.12.4.5.8` is 12.4.5.8; a single number is that of the SONAME. Old drivers have two numbers,
/// `libcuda.so.375.74`, and always large ones.
fn version_of_name(family: &Family, name: &str) -> Option<Version> {
    let (_, suffix) = names::split(name).filter(|_| !family.numbered_otherwise)?;
    let version: Version = suffix.parse().ok()?;
    let count = version.numbers().len();
    let is_of_driver = family.is_driver() && count == 2 && version.major() >= 100;
    (count >= 3 || is_of_driver).then_some(version)
}

/// The C header in the `include` beside its directory.
fn header_beside(directory: &Path, family: &Family) -> Option<PathBuf> {
    let file = &family.header.as_ref()?.file;
    Some(directory.parent()?.join("include").join(file))
}

/// The version that the header defines, and its name.
fn version_of_header(host: &Host, path: &Path, family: &Family) -> Option<(Version, String)> {
    let header = family.header.as_ref()?;
    let bytes = host.read(path).ok()?;
    let mut numbers: Vec<u32> = Vec::new();
    for name in &header.defines {
        numbers.push(build_info::define(&bytes, name)?.parse().ok()?);
    }
    Some((Version::new(&numbers), header.file.clone()))
}
