//! The requirements that a framework records outside of its shared objects: compiled floors, names that only its profile
//! knows, and the versions that upstream tested with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::candidate::PackageCandidate;
use super::distributions::Installed;
use super::executable::opened_names;
use super::framework::{FrameworkReader, Sourced};
use crate::catalog::catalog;
use crate::formats::metadata::Requires;
use crate::formats::names;
use crate::host::Host;
use crate::loader::closure::Consumer;
use crate::range::Range;
use crate::requirements::{Asker, Before, EarlierDirectory, LibraryRequirement, Need, Want};
use crate::version::{CudaVersion, Version};

impl FrameworkReader<'_> {
    /// The requirements in a framework's profile: floors, and the names that it opens.
    pub(super) fn recorded(
        &self,
        asker: &Asker,
        consumers: &[Consumer],
        cuda: Option<&Sourced<CudaVersion>>,
    ) -> Vec<LibraryRequirement> {
        let framework = self.framework;
        let mut search_first: Vec<EarlierDirectory> = Vec::new();
        for first in consumers
            .iter()
            .flat_map(|consumer| EarlierDirectory::rpath(&consumer.search_first))
        {
            if !search_first.contains(&first) {
                search_first.push(first);
            }
        }
        let mut found = Vec::new();
        let mut floors: BTreeMap<&str, Version> = BTreeMap::new();
        for family in framework.floor.keys() {
            let Some(floor) = self.floor(family).or_else(|| self.lower_bound(family)) else {
                continue;
            };
            floors.insert(family, floor.value);
            found.push(requirement(
                asker,
                family,
                Want::AtLeast(floor.value),
                &floor.file,
            ));
        }
        for stem in &framework.dlopens {
            let Some(family) = catalog().family_of_stem(stem) else {
                continue;
            };
            let floor = floors
                .get(family.name.as_str())
                .filter(|_| family.soname_is_version);
            let major = if family.soname_is_version {
                self.major(&family.name)
            } else {
                None
            };
            let major = major
                .or_else(|| floor.map(Version::major))
                .map(|major| major.to_string());
            // Some families have one suffix for every CUDA.
            let suffix = major.or_else(|| {
                family
                    .suffix(cuda.map_or(0, |cuda| cuda.value.major))
                    .map(str::to_owned)
            });
            let need = if framework
                .required_for_gpu
                .iter()
                .flatten()
                .any(|needed| needed == stem)
            {
                Need::Essential
            } else {
                Need::Used
            };
            let name = suffix.map(|suffix| format!("{stem}.so.{suffix}"));
            found.extend(opened_names(&name, asker, &search_first, need));
        }
        found
    }

    /// The oldest versions that this release of the framework asks for and that its metadata does not name.
    pub(super) fn declared(
        &self,
        asker: &Asker,
        version: Option<&str>,
        cuda_major: Option<u32>,
    ) -> Vec<LibraryRequirement> {
        let release = version.and_then(leading_version);
        let rows = self.framework.declared.iter().filter(|row| {
            release.is_some_and(|release| row.releases.allows(&release))
                && cuda_major == Some(row.cuda)
        });
        rows.map(|row| {
            let want = Want::Declared(Range::at_least(row.version));
            requirement(asker, &row.family, want, &asker.file)
        })
        .collect()
    }

    /// The oldest version that the package's own metadata allows, where no compiled-in version can be read.
    fn lower_bound(&self, family: &str) -> Option<Sourced<Version>> {
        let family = catalog().family(family)?;
        self.framework
            .distributions
            .iter()
            .find_map(|distribution| {
                let requirements = self.installed.requirements(distribution)?;
                let of_family = requirements
                    .iter()
                    .filter(|requires| family.is_wheel(&requires.name));
                let value = of_family.into_iter().find_map(Requires::lower_bound)?;
                Some(Sourced {
                    value,
                    file: self.installed.distributions[distribution]
                        .directory
                        .join("METADATA"),
                })
            })
    }
}

/// The versions that METADATA names, also through `cuda-toolkit[…]`: those that upstream tested with (`==`), and the oldest that
/// it allows.
pub(super) fn named_versions(
    installed: &Installed<'_>,
    asker: &Asker,
    distribution: &str,
) -> Vec<LibraryRequirement> {
    let Some(known) = installed.distributions.get(distribution) else {
        return Vec::new();
    };
    let file = known.directory.join("METADATA");
    required(installed, distribution)
        .iter()
        .filter_map(|requires| {
            let family = catalog()
                .families
                .iter()
                .find(|family| family.is_wheel(&requires.name))?;
            let want = match requires.pinned() {
                Some(version) => Want::Recorded(version),
                None if requires.optional || !requires.is_for_linux() => return None,
                None => Want::Declared(requires.declared()?),
            };
            Some(requirement(asker, &family.name, want, &file))
        })
        .collect()
}

/// The requirements of a distribution. For one with extras, such as `cuda-toolkit[cublas]`, the requirements of those
/// extras are included.
fn required(installed: &Installed<'_>, distribution: &str) -> Vec<Requires> {
    let mut required = Vec::new();
    for requires in installed.requirements(distribution).unwrap_or_default() {
        if !requires.extras.is_empty() {
            let mut through = installed.requirements(&requires.name).unwrap_or_default();
            through.retain(|r| {
                r.extra
                    .as_ref()
                    .is_some_and(|extra| requires.extras.contains(extra))
            });
            required.extend(through);
        }
        required.push(requires);
    }
    required
}

fn requirement(asker: &Asker, family: &str, want: Want, file: &Path) -> LibraryRequirement {
    let asker = Asker {
        file: file.to_owned(),
        ..asker.clone()
    };
    LibraryRequirement {
        family: family.to_owned(),
        want,
        need: Need::Used,
        by: asker,
        search_first: Vec::new(),
    }
}

/// True if this version of a package opens a library in NVIDIA's wheels by absolute path, before all others.
pub(super) fn opens_by_path(
    candidate: &PackageCandidate,
    version: Option<&str>,
    stem: &str,
) -> bool {
    let Some(framework) = candidate.framework else {
        return false;
    };
    // An unreadable version counts as new: the stricter answer.
    let version = version.and_then(leading_version);
    let some = framework
        .dlopens_some_wheels
        .as_ref()
        .and_then(|stems| stems.get(stem).copied());
    let since = [framework.dlopens_wheels_since, some];
    candidate.is_told_wheels
        || since
            .into_iter()
            .flatten()
            .any(|since| version.is_none_or(|version| version >= since))
}

/// The directories of NVIDIA's wheels on a module search path. The directory of a single library comes before the
/// one that holds all libraries of its CUDA major.
pub(super) fn wheels(
    host: &Host,
    sites: &[PathBuf],
    cuda_major: Option<u32>,
) -> Vec<EarlierDirectory> {
    let mut found = Vec::new();
    for site in sites {
        let nvidia = site.join("nvidia");
        let names = host
            .list(&nvidia)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|entry| entry.name.into_string().ok());
        let (of_major, of_library): (Vec<String>, Vec<String>) =
            names.partition(|name| major_of(name).is_some());
        for name in of_library.into_iter().chain(
            of_major
                .into_iter()
                .filter(|name| cuda_major.is_none() || major_of(name) == cuda_major),
        ) {
            for below in ["lib", "nvvm/lib64"] {
                let directory = nvidia.join(&name).join(below);
                found.push(EarlierDirectory {
                    directory,
                    rule: Before::AbsolutePath,
                });
            }
        }
    }
    found
}

/// `cu13` holds the libraries of CUDA 13.
fn major_of(name: &str) -> Option<u32> {
    name.strip_prefix("cu")?.parse().ok()
}

/// `2.5.1+cu124` and `2.6.0.dev20250101` begin with a version that can be compared.
fn leading_version(text: &str) -> Option<Version> {
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(text.len());
    text[..end].trim_end_matches('.').parse().ok()
}

/// The requirement of a library that auditwheel packed in: the rest of its family, in exactly its own version unless
/// it is a shim.
pub(super) fn bundled(consumer: &Consumer, asker: &Asker) -> Option<LibraryRequirement> {
    let name = consumer.object.path.file_name()?.to_str()?;
    let (stem, suffix) = names::split(name)?;
    let stem = names::without_hash(stem)?;
    let family = catalog()
        .family_of_stem(stem)
        .filter(|family| family.opens_members_of_any_version())?;
    let version = suffix
        .parse::<Version>()
        .ok()
        .filter(|version| version.numbers().len() >= 3)?;
    let is_shim = family.is_shim(stem, Some(version.major()));
    Some(LibraryRequirement {
        family: family.name.clone(),
        want: if is_shim {
            Want::Rest(version)
        } else {
            Want::Exactly(version)
        },
        need: Need::Essential,
        by: asker.clone(),
        search_first: EarlierDirectory::rpath(&consumer.search_first),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_builds_compare_by_what_leads() {
        let leading = |text| leading_version(text).map(|version| version.to_string());
        assert_eq!(leading("2.5.1+cu124").as_deref(), Some("2.5.1"));
        assert_eq!(leading("2.6.0.dev20250101").as_deref(), Some("2.6.0"));
        assert_eq!(leading("0.4.38").as_deref(), Some("0.4.38"));
        assert_eq!(leading("unknown"), None);
    }
}
