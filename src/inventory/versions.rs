//! The version of an installation, from all evidence of it, and the evidence that disagrees.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::directory_scan::NamedFile;
use super::installation::{Problem, VersionEvidence, VersionSource};
use super::location::Packaged;
use crate::catalog::Family;
use crate::formats::{build_info, names};
use crate::host::Host;
use crate::version::Version;

pub(super) struct Versions {
    pub version: Option<Version>,
    pub from: Option<VersionSource>,
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
pub(super) fn determine(
    host: &Host,
    directory: &Path,
    main: &NamedFile,
    soname: Option<u32>,
    candidates: &[NamedFile],
    record: Option<&Packaged>,
    packaged: &BTreeMap<String, Packaged>,
) -> Versions {
    let family = main.file.family();
    let mut evidence = Vec::new();
    let mut problems = Vec::new();
    let mut say = |source, version: Version, by: &str| {
        evidence.push(VersionEvidence {
            source,
            version,
            by: by.to_owned(),
        });
    };
    let is_shim = |candidate: &&NamedFile| family.is_shim(&candidate.file.stem, soname);
    let is_shim_alone = candidates.iter().all(|candidate| is_shim(&candidate));
    let decides = |candidate: &NamedFile| is_shim_alone || !is_shim(&candidate);
    let by_file = |candidate| {
        let NamedFile { file, names, .. }: &NamedFile = candidate;
        let decides = decides(candidate);
        file.versions
            .iter()
            .map(move |(rule, version)| (*rule, *version, &names[0], decides))
    };
    let mut written: Vec<(usize, Version, &String, bool)> =
        candidates.iter().flat_map(by_file).collect();
    written.sort_by_key(|(rule, ..)| *rule);
    // Two rules may read one version in one file.
    written.dedup_by(|(_, a, file, _), (_, b, other, _)| (&*a, &*file) == (&*b, &*other));
    let contents = written
        .iter()
        .find(|(.., decides)| *decides)
        .map(|(_, version, ..)| *version);
    for (_, version, file, decides) in written {
        say(VersionSource::Contents, version, file);
        if decides && contents.is_some_and(|contents| !version.agrees_with(&contents)) {
            problems.push(Problem::OtherVersionAmongTheRest {
                file: file.clone(),
                version,
            });
        }
    }
    let recorded = record.and_then(|record| Some((record.version?, &record.package)));
    if let Some((version, package)) = recorded {
        say(VersionSource::PackageRecord, version, package);
        // Where every file has the size that the package recorded, it is the vendor who numbers the two otherwise:
        // cuTENSOR 2.8.1 says that it is 2.8.0.
        let is_as_packaged = || {
            let is_so = |candidate: &NamedFile| {
                let packaged = packaged.get(&candidate.names[0]);
                packaged.is_some_and(|packaged| packaged.size == Some(candidate.stat.size))
            };
            candidates.iter().all(is_so)
        };
        if contents.is_some_and(|contents| !version.agrees_with(&contents)) && !is_as_packaged() {
            problems.push(Problem::PackageSaysOtherwise {
                package: package.clone(),
                version,
            });
        }
    }
    let by_name = named(family, main);
    let deciding = if decides(main) {
        by_name.clone()
    } else {
        let rest = candidates
            .iter()
            .filter(|candidate| decides(candidate) && contents.is_none());
        rest.into_iter()
            .find_map(|candidate| named(family, candidate))
    };
    let is_news =
        |(version, _): &&(Version, String)| by_name.as_ref().is_none_or(|(own, _)| own != version);
    for (version, name) in deciding.iter().filter(is_news).chain(&by_name) {
        say(VersionSource::FileName, *version, name);
    }
    if let Some((version, name)) = by_name.filter(|_| decides(main))
        && contents.is_some_and(|contents| !version.agrees_with(&contents))
    {
        problems.push(Problem::NameSaysOtherwise {
            file: name,
            version,
        });
    }
    let mut header = None;
    if evidence.is_empty() {
        header = header_beside(directory, family);
        let found = header
            .as_deref()
            .and_then(|path| version_of_header(host, path, family));
        evidence.extend(found.map(|(version, by)| VersionEvidence {
            source: VersionSource::Header,
            version,
            by,
        }));
    }
    let shim = candidates.iter().find(is_shim).and_then(|shim| {
        let written = shim
            .file
            .versions
            .iter()
            .min_by_key(|(rule, _)| *rule)
            .map(|(_, version)| *version);
        written.or_else(|| named(family, shim).map(|(version, _)| version))
    });
    let strongest = contents
        .map(|version| (version, VersionSource::Contents))
        .or_else(|| recorded.map(|(version, _)| (version, VersionSource::PackageRecord)))
        .or_else(|| deciding.map(|(version, _)| (version, VersionSource::FileName)))
        .or_else(|| evidence.first().map(|said| (said.version, said.source)));
    let Some((base, from)) = strongest else {
        return Versions {
            version: None,
            from: None,
            shim,
            evidence,
            problems,
            header,
        };
    };
    // `max_by_key` returns the last maximum, which is the strongest.
    let agreeing = evidence
        .iter()
        .rev()
        .map(|said| said.version)
        .filter(|version| version.agrees_with(&base));
    let version = agreeing
        .max_by_key(|version| version.numbers().len())
        .unwrap_or(base);
    if let Some((file, shim)) = main.names.first().zip(shim).filter(|_| !decides(main))
        && !shim.agrees_with(&version)
        && !family.shim_works_over(soname, Some(shim), Some(version))
    {
        problems.push(Problem::OtherVersionAmongTheRest {
            file: file.clone(),
            version: shim,
        });
    }
    Versions {
        version: Some(version),
        from: Some(from),
        shim,
        evidence,
        problems,
        header,
    }
}

/// Returns the longest version in a file's names, and that name; a link may have a shorter one than its file.
fn named(family: &Family, candidate: &NamedFile) -> Option<(Version, String)> {
    let real = candidate
        .path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
        .to_owned();
    let names = candidate.names.iter().chain([&real]);
    let named = names.filter_map(|name| Some((version_of_name(family, name)?, name.clone())));
    named.max_by_key(|(version, _)| version.numbers().len())
}

/// `libcublas.so.12.4.5.8` is 12.4.5.8; a single number is that of the SONAME. Old drivers have two numbers,
/// `libcuda.so.375.74`, and always large ones.
fn version_of_name(family: &Family, name: &str) -> Option<Version> {
    let (_, suffix) = names::split(name).filter(|_| !family.numbered_otherwise)?;
    let is_driver = family.name == "driver";
    suffix.parse::<Version>().ok().filter(|version| {
        version.numbers().len() >= 3
            || is_driver && version.numbers().len() == 2 && version.major() >= 100
    })
}

/// The C header in the `include` beside its directory.
fn header_beside(directory: &Path, family: &Family) -> Option<PathBuf> {
    Some(
        directory
            .parent()?
            .join("include")
            .join(&family.header.as_ref()?.file),
    )
}

/// Returns the version that the header defines, and its name.
fn version_of_header(host: &Host, path: &Path, family: &Family) -> Option<(Version, String)> {
    let header = family.header.as_ref()?;
    let bytes = host.read(path).ok()?;
    let number = |name: &String| build_info::define(&bytes, name)?.parse().ok();
    let numbers: Option<Vec<u32>> = header.defines.iter().map(number).collect();
    Some((Version::new(&numbers?), header.file.clone()))
}
