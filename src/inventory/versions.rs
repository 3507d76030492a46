//! The version of a copy, from all that says something about it, and who says otherwise.

use std::path::{Path, PathBuf};

use super::copies::strongest;
use super::place::Packaged;
use super::survey::Candidate;
use super::{Problem, Said, VersionSource};
use crate::catalog::Family;
use crate::formats::names;
use crate::host::Host;
use crate::version::Version;

pub(super) struct Versions {
    pub version: Option<Version>,
    pub from: Option<VersionSource>,
    pub evidence: Vec<Said>,
    pub problems: Vec<Problem>,
    /// The header that was asked, there or not.
    pub header: Option<PathBuf>,
}

/// The strongest evidence in the contents, then the package's record, then the file's own name, then a header. What
/// agrees and says more completes what is stronger.
pub(super) fn of(
    host: &Host,
    directory: &Path,
    main: &Candidate,
    candidates: &[Candidate],
    record: Option<&Packaged>,
) -> Versions {
    let family = main.file.family();
    let mut evidence = Vec::new();
    let mut problems = Vec::new();
    let mut say =
        |source, version: Version, by: &str| evidence.push(Said { source, version, by: by.to_owned() });
    let contents = strongest(candidates, |file| &file.versions).copied();
    let by_file = |candidate| {
        let Candidate { file, names, .. }: &Candidate = candidate;
        file.versions.iter().map(|(rule, version)| (*rule, *version, &names[0]))
    };
    let mut written: Vec<(usize, Version, &String)> = candidates.iter().flat_map(by_file).collect();
    written.sort_by_key(|(rule, ..)| *rule);
    // Two rules may read the same of one file.
    written.dedup_by(|(_, a, file), (_, b, other)| (&*a, &*file) == (&*b, &*other));
    for (_, version, file) in written {
        say(VersionSource::Contents, version, file);
        if contents.is_some_and(|contents| !version.agrees_with(&contents)) {
            problems.push(Problem::OtherVersionAmongTheRest { file: file.clone(), version });
        }
    }
    let recorded = record.and_then(|record| Some((record.version?, &record.package)));
    if let Some((version, package)) = recorded {
        say(VersionSource::PackageRecord, version, package);
        if contents.is_some_and(|contents| !version.agrees_with(&contents)) {
            problems.push(Problem::PackageSaysOtherwise { package: package.clone(), version });
        }
    }
    // A link may be called less than the file that it leads to.
    let real = main.path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let names = main.names.iter().chain([&real]);
    let named = names.filter_map(|name| Some((version_of_name(family, name)?, name)));
    if let Some((version, name)) = named.max_by_key(|(version, _)| version.numbers().len()) {
        say(VersionSource::FileName, version, name);
        if contents.is_some_and(|contents| !version.agrees_with(&contents)) {
            problems.push(Problem::NameSaysOtherwise { file: name.clone(), version });
        }
    }
    let mut header = None;
    if evidence.is_empty() {
        header = header_beside(directory, family);
        let found = header.as_deref().and_then(|path| version_of_header(host, path, family));
        evidence.extend(found.map(|(version, by)| Said { source: VersionSource::Header, version, by }));
    }
    let Some(first) = evidence.first() else {
        return Versions { version: None, from: None, evidence, problems, header };
    };
    let (base, from) = (contents.unwrap_or(first.version), first.source);
    // Of several that are as full the strongest, which comes last here.
    let agreeing = evidence.iter().rev().map(|said| said.version).filter(|it| it.agrees_with(&base));
    let version = agreeing.max_by_key(|version| version.numbers().len()).unwrap_or(base);
    Versions { version: Some(version), from: Some(from), evidence, problems, header }
}

/// `libcublas.so.12.4.5.8` is 12.4.5.8; a lone number is the SONAME's and says nothing. Drivers have had two
/// numbers, `libcuda.so.375.74`, and never a small one.
fn version_of_name(family: &Family, name: &str) -> Option<Version> {
    let (_, suffix) = names::split(name).filter(|_| !family.numbered_otherwise)?;
    let is_driver = family.name == "driver";
    suffix.parse::<Version>().ok().filter(|version| {
        version.numbers().len() >= 3 || is_driver && version.numbers().len() == 2 && version.major() >= 100
    })
}

/// The C header in the `include` beside its directory.
fn header_beside(directory: &Path, family: &Family) -> Option<PathBuf> {
    Some(directory.parent()?.join("include").join(&family.header.as_ref()?.file))
}

/// What such a header defines.
fn version_of_header(host: &Host, path: &Path, family: &Family) -> Option<(Version, String)> {
    let header = family.header.as_ref()?;
    let text = host.read_text(path).ok()?;
    let number = |name: &String| -> Option<u32> {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("#define") && words.next() == Some(name))
                .then(|| words.next())??
                .parse()
                .ok()
        })
    };
    let numbers: Option<Vec<u32>> = header.defines.iter().map(number).collect();
    Some((Version::new(&numbers?), header.file.clone()))
}
