//! The releases of the table as candidates, with the builds of vendors beside them.

use std::collections::BTreeMap;
use std::str::FromStr;

use pep440_rs::VersionSpecifiers;

use crate::catalog::{ListedDistribution, Release, VendorBuild, knowledge};
use crate::range::Range;
use crate::version::Version;

/// A release that can be installed, or a framework that is.
#[derive(Clone, Debug)]
pub struct ReleaseCandidate {
    pub name: &'static str,
    pub version: pep440_rs::Version,
    pub extra: Option<&'static str>,
    /// The CUDA versions that it is built for, one of which must run; `[]` for none, `None` if that is not known.
    pub cuda: Option<Vec<Version>>,
    pub python: Range,
    pub machines: &'static [String],
    /// Its wheel for this machine is built without CUDA.
    pub is_cpu_only: bool,
    pub source_only: bool,
    /// The distribution that it extends.
    pub framework: Option<&'static str>,
    pub gpus: Option<&'static Range>,
    /// Distributions with ranges of their versions.
    pub needs: Vec<(&'static str, VersionSpecifiers)>,
    /// The same for distributions that the table does not list.
    pub shared: Vec<(&'static str, VersionSpecifiers)>,
    /// The index of a vendor that it is on; `None` for the default index.
    pub vendor: Option<&'static VendorBuild>,
    /// True if vendors have builds of this distribution: all such picks must be from one index.
    pub has_vendors: bool,
    pub is_installed: bool,
}

/// The candidates for one machine, by name; the newest first, and of one version that on the default index.
#[derive(Debug)]
pub struct ReleaseTable(BTreeMap<&'static str, Vec<ReleaseCandidate>>);

/// The names of all distributions.
pub fn known_names() -> impl Iterator<Item = &'static str> {
    let rows = knowledge().distributions().iter();
    rows.map(|row| row.name.as_str())
}

impl ReleaseTable {
    pub fn new(machine: &str) -> ReleaseTable {
        let rows = knowledge().distributions().iter();
        ReleaseTable(
            rows.map(|row| (row.name.as_str(), candidates(row, machine)))
                .collect(),
        )
    }

    /// The candidates of one name; empty for an unknown one.
    pub fn of(&self, name: &str) -> &[ReleaseCandidate] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Leaves only an installed release of a name, with what is known of it.
    pub fn keep(&mut self, name: &str, version: &pep440_rs::Version) {
        let Some((name, candidates)) = self.0.get_mut(name).map(|own| (name, own)) else {
            return;
        };
        let plain = version.clone().without_local();
        let label = version.local().iter().map(ToString::to_string).next();
        let vendor = label.as_deref().and_then(|label| {
            let mut builds = knowledge().vendor_builds().iter();
            builds.find(|build| {
                build.backend.as_deref() == Some(label) && there(build, name).is_some()
            })
        });
        let same = candidates
            .iter()
            .position(|own| own.version == plain && own.vendor.is_none());
        let Some(newest) = candidates.first() else {
            return;
        };
        let mut kept = ReleaseCandidate {
            version: version.clone(),
            vendor,
            is_installed: true,
            ..same.map_or(newest, |at| &candidates[at]).clone()
        };
        // What is installed works with its own requirements, or is judged elsewhere.
        kept.needs.clear();
        kept.shared.clear();
        kept.is_cpu_only = label.as_deref() == Some("cpu");
        match (vendor, &label) {
            (Some(build), _) => kept.cuda = build.cuda.map(|cuda| vec![cuda]),
            (None, Some(label)) => kept.cuda = cuda_of_label(label).map(|cuda| vec![cuda]),
            (None, None) if same.is_none() => kept.cuda = None,
            (None, None) => {}
        }
        if label.is_some() || same.is_none() {
            kept.gpus = vendor.and_then(|build| build.gpus.as_ref());
            kept.python = Range::any();
        }
        *candidates = vec![kept];
    }
}

impl ReleaseCandidate {
    /// The majors of its CUDA versions, the newest first; `None` where it is for any.
    pub fn majors(&self) -> Option<Vec<u32>> {
        let cuda = self.cuda.as_ref().filter(|cuda| !cuda.is_empty())?;
        let mut majors: Vec<u32> = cuda.iter().map(Version::major).collect();
        majors.sort_unstable_by(|a, b| b.cmp(a));
        majors.dedup();
        Some(majors)
    }

    pub fn backend(&self) -> Option<&'static str> {
        self.vendor?.backend.as_deref()
    }

    pub fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    /// What an installer is told: `jax[cuda12]==0.12.0`.
    pub fn requirement(&self) -> String {
        let extra = self.extra.map(|extra| format!("[{extra}]"));
        format!(
            "{}{}=={}",
            self.name,
            extra.unwrap_or_default(),
            self.version
        )
    }
}

/// The first numbers of a version of Python's packages.
pub(super) fn plain(version: &pep440_rs::Version) -> Version {
    let numbers = version.release().iter();
    let numbers: Vec<u32> = numbers
        .filter_map(|number| u32::try_from(*number).ok())
        .collect();
    Version::new(&numbers)
}

/// 12.6 of `cu126`.
fn cuda_of_label(label: &str) -> Option<Version> {
    let digits = label.strip_prefix("cu")?;
    let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
    Some(Version::new(&[major.parse().ok()?, minor.parse().ok()?]))
}

fn candidates(row: &'static ListedDistribution, machine: &str) -> Vec<ReleaseCandidate> {
    let vendors = knowledge().vendor_builds().iter();
    let builds: Vec<(&VendorBuild, VersionSpecifiers)> = vendors
        .filter(|build| build.backend.is_some())
        .filter_map(|build| Some((build, there(build, &row.name)?)))
        .collect();
    let mut found = Vec::new();
    for release in &row.releases {
        let own = candidate(row, release, machine, !builds.is_empty());
        let there = builds
            .iter()
            .filter(|(_, versions)| versions.contains(&own.version));
        let there: Vec<ReleaseCandidate> = there
            .map(|(build, _)| ReleaseCandidate {
                cuda: build.cuda.map(|cuda| vec![cuda]),
                gpus: build.gpus.as_ref(),
                vendor: Some(build),
                is_cpu_only: false,
                // Its METADATA was not read, and names other versions of NVIDIA's libraries.
                shared: Vec::new(),
                ..own.clone()
            })
            .collect();
        found.push(own);
        found.extend(there);
    }
    found
}

fn candidate(
    row: &'static ListedDistribution,
    release: &'static Release,
    machine: &str,
    has_vendors: bool,
) -> ReleaseCandidate {
    let is_shared = |need: &(&str, VersionSpecifiers)| {
        let mut shared = knowledge().shared_distributions().iter();
        shared.any(|name| name == need.0)
    };
    let mut needs = Vec::new();
    for text in release.needs.iter().chain(&release.beside) {
        let (requirement, marker) = text.split_once(';').unwrap_or((text, machine));
        if marker.contains(machine) {
            needs.extend(need(requirement));
        }
    }
    let (shared, mut needs): (Vec<_>, Vec<_>) = needs.into_iter().partition(is_shared);
    if let Some(framework) = row.framework.as_deref()
        && !needs.iter().any(|(name, _)| *name == framework)
    {
        needs.push((framework, VersionSpecifiers::empty()));
    }
    let version = pep440_rs::Version::from_str(&release.version)
        .expect("a test reads every version of the table");
    ReleaseCandidate {
        name: &row.name,
        extra: release.extra.as_deref(),
        cuda: release.cuda.clone(),
        python: release.python.clone(),
        machines: &release.machines,
        is_cpu_only: release
            .cpu_on
            .iter()
            .chain(&row.cpu_on)
            .any(|own| own == machine),
        source_only: release.source_only,
        framework: row.framework.as_deref(),
        gpus: knowledge().gpus_of(&row.name, plain(&version)),
        needs,
        shared,
        vendor: None,
        has_vendors,
        is_installed: false,
        version,
    }
}

/// The versions of a distribution that a vendor has.
pub fn there(build: &'static VendorBuild, name: &str) -> Option<VersionSpecifiers> {
    let mut all = build.distributions.iter().filter_map(|text| need(text));
    all.find(|(own, _)| *own == name)
        .map(|(_, versions)| versions)
}

/// `torch==2.8.0`, as the table has it.
fn need(text: &'static str) -> Option<(&'static str, VersionSpecifiers)> {
    let end = text.find(['=', '<', '>', '~', '!']).unwrap_or(text.len());
    let (name, versions) = text.split_at(end);
    Some((name, VersionSpecifiers::from_str(versions).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::metadata;

    #[test]
    fn every_row_of_the_table_can_be_read() {
        let shared = knowledge()
            .shared_distributions()
            .iter()
            .map(String::as_str);
        let names: Vec<&str> = known_names().chain(shared).collect();
        for build in knowledge().vendor_builds() {
            for text in &build.distributions {
                assert!(names.contains(&need(text).unwrap().0), "{text}");
            }
        }
        for row in knowledge().distributions() {
            let is_sorted = row.releases.is_sorted_by_key(|release| {
                std::cmp::Reverse(release.version.parse::<pep440_rs::Version>().unwrap())
            });
            assert!(is_sorted && !row.releases.is_empty(), "{}", row.name);
            assert!(
                row.framework
                    .iter()
                    .all(|name| names.contains(&name.as_str()))
            );
            for release in &row.releases {
                for text in release.needs.iter().chain(&release.beside) {
                    let (requirement, marker) = text.split_once(';').unwrap_or((text, ""));
                    let (name, _) = need(requirement).unwrap();
                    assert!(names.contains(&name), "{text}");
                    assert!(marker.is_empty() || marker.starts_with(" platform_machine == '"));
                }
                assert!(release.extra.iter().all(|extra| row.extras.contains(extra)));
                assert!(!release.machines.is_empty() && !release.date.is_empty());
            }
            assert!(
                row.lines > 0 && row.numbers > 0 && metadata::normalised(&row.name) == row.name
            );
        }
    }
}
