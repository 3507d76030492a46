//! The choice: an exhaustive search, the newest first, for each CUDA major and each index of a vendor.

use std::collections::{BTreeMap, BTreeSet};

use pep440_rs::{Operator, VersionSpecifier, VersionSpecifiers};

use super::model::{
    Advice, AdvisedMachine, AdvisedRelease, AskedPackage, PassedOver, Relaxed, ReleaseObstacle,
    Role,
};
use super::reason::driver_for;
use super::table::{ReleaseCandidate, ReleaseTable};
use crate::formats::metadata::normalised;
use crate::version::Version;

/// Chooses the newest releases of these packages that work together.
pub fn advise(wanted: &[AskedPackage], target: &AdvisedMachine) -> Advice {
    let question = Question::new(target);
    let Some(picks) = question.solve(wanted) else {
        return Advice {
            passed_over: question.reasons(wanted),
            relaxed: relaxed(wanted, target),
            ..Advice::default()
        };
    };
    let passed_over = wanted
        .iter()
        .filter_map(|one| question.passed_over(one, wanted, &picks));
    let passed_over = passed_over.collect();
    let mut on_default_index = Vec::new();
    if picks.iter().any(|pick| pick.candidate.vendor.is_some()) {
        let question = Question {
            default_only: true,
            ..Question::new(target)
        };
        on_default_index = question.solve(wanted).unwrap_or_default();
        on_default_index.retain(|pick| pick.role != Role::Required);
    }
    Advice {
        picks,
        passed_over,
        on_default_index,
        relaxed: None,
    }
}

struct Question<'t> {
    table: ReleaseTable,
    target: &'t AdvisedMachine,
    /// True if builds on indexes of vendors do not count.
    default_only: bool,
}

/// One search: all picks are for this CUDA major, where they are for any, and from this index, where vendors have builds.
struct ReleaseSearch<'q> {
    question: &'q Question<'q>,
    major: u32,
    backend: Option<&'static str>,
}

/// What is picked so far, and what is still open.
#[derive(Clone, Default)]
struct SearchState<'q> {
    picked: Vec<&'q ReleaseCandidate>,
    /// In the order in which they are decided: those that are asked for first.
    open: Vec<&'q str>,
    ranges: BTreeMap<&'q str, Vec<&'q VersionSpecifiers>>,
}

impl<'t> Question<'t> {
    fn new(target: &'t AdvisedMachine) -> Question<'t> {
        let mut table = ReleaseTable::new(&target.machine);
        if let Some(installed) = &target.installed {
            table.keep(&installed.name, &installed.version);
        }
        Question {
            table,
            target,
            default_only: false,
        }
    }

    /// Returns the best picks of all searches, those that are asked for first.
    fn solve(&self, wanted: &[AskedPackage]) -> Option<Vec<AdvisedRelease>> {
        let mut best: Option<(Vec<usize>, SearchState<'_>)> = None;
        for search in self.searches() {
            let mut state = SearchState::default();
            for one in wanted {
                state.ask(&one.name, &one.versions);
            }
            let fits = |state: &SearchState<'_>| {
                let mut names = state.open.iter();
                names.all(|name| search.fitting(state, name, wanted).next().is_some())
            };
            let Some(found) = fits(&state).then(|| search.extend(state, wanted)).flatten() else {
                continue;
            };
            let rank = self.rank(&found, wanted.len());
            if best.as_ref().is_none_or(|(least, _)| rank < *least) {
                best = Some((rank, found));
            }
        }
        let (_, state) = best?;
        let frameworks: Vec<&str> = state
            .picked
            .iter()
            .take(wanted.len())
            .filter_map(|candidate| candidate.framework)
            .collect();
        let role = |at: usize, candidate: &ReleaseCandidate| match candidate.name {
            _ if at < wanted.len() => Role::Asked,
            name if frameworks.contains(&name) => Role::Framework,
            _ => Role::Required,
        };
        let picks = state
            .picked
            .iter()
            .enumerate()
            .map(|(at, candidate)| AdvisedRelease {
                role: role(at, candidate),
                candidate: (*candidate).clone(),
            });
        Some(picks.collect())
    }

    /// The CUDA majors that the driver runs, the newest first, each with every index.
    fn searches(&self) -> Vec<ReleaseSearch<'_>> {
        let rows = || known(&self.table);
        let mut majors: BTreeSet<u32> = rows()
            .filter_map(ReleaseCandidate::majors)
            .flatten()
            .collect();
        let driver = self.target.driver;
        majors.retain(|major| {
            driver.is_none_or(|driver| driver_for(*major).is_none_or(|needs| driver >= needs))
        });
        let builds: BTreeSet<(Option<Version>, Option<&str>)> = rows()
            .filter(|_| !self.default_only)
            .filter_map(|candidate| Some((candidate.vendor?.cuda, candidate.backend())))
            .collect();
        let mut backends = vec![None];
        backends.extend(builds.iter().rev().map(|(_, backend)| *backend));
        let mut searches = Vec::new();
        for major in majors.into_iter().rev() {
            searches.extend(backends.iter().map(|backend| ReleaseSearch {
                question: self,
                major,
                backend: *backend,
            }));
        }
        searches
    }

    /// A smaller rank is better: newer packages that are asked for, then the default index, then newer ones besides.
    fn rank(&self, state: &SearchState<'_>, named: usize) -> Vec<usize> {
        let age = |candidate: &&ReleaseCandidate| {
            let newer = self.table.of(candidate.name).iter();
            let newer = newer.filter(|other| other.version > candidate.version);
            newer.count()
        };
        let mut rank: Vec<usize> = state.picked.iter().take(named).map(age).collect();
        let elsewhere = state.picked.iter().filter(|pick| pick.vendor.is_some());
        rank.push(elsewhere.count());
        rank.extend(state.picked.iter().skip(named).map(age));
        rank
    }

    /// Why nothing works: what stands against the newest of each package by itself, or else against the first beside the others.
    fn reasons(&self, wanted: &[AskedPackage]) -> Vec<PassedOver> {
        let all = wanted.iter().filter_map(|one| self.newest(one, wanted));
        let (own, beside): (Vec<_>, Vec<_>) = all.partition(|one| !one.why.is_beside());
        if own.is_empty() {
            beside.into_iter().take(1).collect()
        } else {
            own
        }
    }

    /// Why the newest release that is asked for is not picked; `None` if it is.
    fn passed_over(
        &self,
        one: &AskedPackage,
        wanted: &[AskedPackage],
        picks: &[AdvisedRelease],
    ) -> Option<PassedOver> {
        let picked = picks.iter().find(|pick| pick.candidate.name == one.name)?;
        let newest = self.asked(one).next()?;
        let is_newer = newest.version > picked.candidate.version;
        is_newer.then(|| self.newest(one, wanted)).flatten()
    }

    /// The newest release that is asked for, and what stands against it.
    fn newest(&self, one: &AskedPackage, wanted: &[AskedPackage]) -> Option<PassedOver> {
        let newest = &self.asked(one).next()?.version;
        let own = self.asked(one).filter(|own| own.version == *newest);
        Some(PassedOver {
            name: one.name.clone(),
            version: newest.to_string(),
            why: self.why_not(&own.collect::<Vec<_>>(), one, wanted),
        })
    }

    /// The candidates that are asked for.
    fn asked<'s>(&'s self, one: &'s AskedPackage) -> impl Iterator<Item = &'s ReleaseCandidate> {
        let own = self.table.of(&one.name).iter();
        own.filter(|candidate| one.allows(candidate))
    }

    /// Why no candidate of one version is picked.
    fn why_not(
        &self,
        own: &[&ReleaseCandidate],
        one: &AskedPackage,
        wanted: &[AskedPackage],
    ) -> ReleaseObstacle {
        let obstacles: Vec<Option<ReleaseObstacle>> =
            own.iter().map(|own| own.obstacle(self.target)).collect();
        if let Some(first) = obstacles
            .iter()
            .cloned()
            .collect::<Option<Vec<ReleaseObstacle>>>()
        {
            return first
                .into_iter()
                .next()
                .unwrap_or(ReleaseObstacle::Together);
        }
        let possible = std::iter::zip(own, &obstacles).find(|(_, obstacle)| obstacle.is_none());
        let Some((own, _)) = possible else {
            return ReleaseObstacle::Together;
        };
        let exactly = exactly(own);
        if self.solve(std::slice::from_ref(&exactly)).is_none() {
            return self.unmet_need(own).unwrap_or(ReleaseObstacle::Together);
        }
        let others = wanted.iter().filter(|other| other.name != one.name);
        for other in others {
            if self.solve(&[exactly.clone(), other.clone()]).is_none() {
                return self.conflict(own, other);
            }
        }
        ReleaseObstacle::Together
    }

    /// The requirement for which there is nothing.
    fn unmet_need(&self, own: &ReleaseCandidate) -> Option<ReleaseObstacle> {
        own.needs.iter().find_map(|(name, versions)| {
            let fitting = self
                .table
                .of(name)
                .iter()
                .filter(|other| contains(versions, other));
            let (mut first, mut differs) = (None, None);
            for other in fitting {
                match other.obstacle(self.target) {
                    Some(why) => first = first.or(Some(why)),
                    None if shares_major(own, other) => return None,
                    None => differs = differs.or_else(|| other_cuda(own, other)),
                }
            }
            Some(ReleaseObstacle::Needs {
                needs: need_text(name, versions),
                why: differs.or(first).map(Box::new),
            })
        })
    }

    /// What stands against a release beside another package, both of which work by themselves.
    fn conflict(&self, own: &ReleaseCandidate, other: &AskedPackage) -> ReleaseObstacle {
        let Some(alone) = self.solve(std::slice::from_ref(other)) else {
            return ReleaseObstacle::Together;
        };
        let their = &alone[0].candidate;
        let mut with_wheels = self.asked(other).filter(|their| !their.source_only);
        if !with_wheels.any(|their| shares_major(own, their))
            && let Some(why) = other_cuda(own, their)
        {
            return why;
        }
        if let Some((name, versions)) = own.needs.iter().find(|(name, _)| *name == other.name)
            && !self.asked(other).any(|their| contains(versions, their))
        {
            let needs = need_text(name, versions);
            return ReleaseObstacle::AskedOtherwise { needs };
        }
        if let Some((name, versions)) = their.needs.iter().find(|(name, _)| *name == own.name)
            && !contains(versions, own)
        {
            return ReleaseObstacle::NeededOtherwise {
                other: their.title(),
                other_needs: need_text(name, versions),
            };
        }
        let mut pairs = own.needs.iter().flat_map(|(name, versions)| {
            let same = their.needs.iter().filter(move |(other, _)| other == name);
            same.map(move |(_, others)| (name, versions, others))
        });
        let differs = pairs.find(|(name, versions, others)| {
            let mut both = self.table.of(name).iter();
            !both.any(|one| contains(versions, one) && contains(others, one))
        });
        if let Some((name, versions, others)) = differs {
            return ReleaseObstacle::Conflict {
                needs: need_text(name, versions),
                other: their.title(),
                other_needs: need_text(name, others),
            };
        }
        self.shared_conflict(own, &alone)
    }

    /// A distribution that the releases of two answers pin otherwise.
    fn shared_conflict(
        &self,
        own: &ReleaseCandidate,
        theirs: &[AdvisedRelease],
    ) -> ReleaseObstacle {
        let mine = self.solve(&[exactly(own)]).unwrap_or_default();
        for one in mine.iter().map(|pick| &pick.candidate) {
            for other in theirs.iter().map(|pick| &pick.candidate) {
                let Some((name, versions, others)) = differing(one, other) else {
                    continue;
                };
                let by = if one.name == own.name {
                    String::new()
                } else {
                    format!(" by {}", one.title())
                };
                return ReleaseObstacle::Conflict {
                    needs: need_text(name, versions) + &by,
                    other: other.title(),
                    other_needs: need_text(name, others),
                };
            }
        }
        ReleaseObstacle::Together
    }
}

impl<'q> ReleaseSearch<'q> {
    /// Picks for all that is open; `None` if nothing fits.
    fn extend(
        &self,
        state: SearchState<'q>,
        wanted: &'q [AskedPackage],
    ) -> Option<SearchState<'q>> {
        let name = state.open.iter().copied();
        let Some(name) = name.clone().find(|name| !state.has(name)) else {
            return Some(state);
        };
        let candidates: Vec<&ReleaseCandidate> = self.fitting(&state, name, wanted).collect();
        for candidate in candidates {
            let mut next = state.clone();
            next.picked.push(candidate);
            for (needed, versions) in &candidate.needs {
                next.ask(needed, versions);
            }
            let mut needed = candidate.needs.iter();
            if needed.all(|(name, _)| self.fitting(&next, name, wanted).next().is_some())
                && let Some(found) = self.extend(next, wanted)
            {
                return Some(found);
            }
        }
        None
    }

    /// The candidates of a name that all ranges so far allow; the picked one, if it is picked.
    fn fitting<'s>(
        &'s self,
        state: &'s SearchState<'q>,
        name: &'s str,
        wanted: &'s [AskedPackage],
    ) -> impl Iterator<Item = &'q ReleaseCandidate> + 's {
        let ranges = state.ranges.get(name).map_or(&[][..], Vec::as_slice);
        let asked = wanted.iter().find(|one| one.name == name);
        let own = self.question.table.of(name).iter();
        own.filter(move |candidate| {
            let picked = state.picked.iter().find(|picked| picked.name == name);
            picked.is_none_or(|picked| std::ptr::eq(*picked, *candidate))
                && self.allows(candidate)
                && asked.is_none_or(|asked| asked.allows(candidate))
                && ranges.iter().all(|range| contains(range, candidate))
                && state
                    .picked
                    .iter()
                    .all(|picked| differing(picked, candidate).is_none())
        })
    }

    fn allows(&self, candidate: &ReleaseCandidate) -> bool {
        let is_of_major = candidate
            .majors()
            .is_none_or(|own| own.contains(&self.major));
        let is_there = !candidate.has_vendors || candidate.backend() == self.backend;
        is_of_major && is_there && candidate.obstacle(self.question.target).is_none()
    }
}

impl<'q> SearchState<'q> {
    fn ask(&mut self, name: &'q str, versions: &'q VersionSpecifiers) {
        if !self.open.contains(&name) {
            self.open.push(name);
        }
        self.ranges.entry(name).or_default().push(versions);
    }

    fn has(&self, name: &str) -> bool {
        self.picked.iter().any(|picked| picked.name == name)
    }
}

impl AskedPackage {
    fn allows(&self, candidate: &ReleaseCandidate) -> bool {
        let is_extra = self
            .extra
            .as_deref()
            .is_none_or(|extra| candidate.extra.is_some_and(|own| normalised(own) == extra));
        is_extra && contains(&self.versions, candidate)
    }
}

/// An installed version may have a local label, which a range of pip's ignores.
fn contains(range: &VersionSpecifiers, candidate: &ReleaseCandidate) -> bool {
    range.contains(&candidate.version) || range.contains(&candidate.version.clone().without_local())
}

fn known(table: &ReleaseTable) -> impl Iterator<Item = &ReleaseCandidate> {
    super::table::known_names().flat_map(|name| table.of(name))
}

fn exactly(own: &ReleaseCandidate) -> AskedPackage {
    AskedPackage {
        name: own.name.to_owned(),
        extra: own.extra.map(normalised),
        versions: VersionSpecifier::equals_version(own.version.clone()).into(),
    }
}

fn shares_major(one: &ReleaseCandidate, other: &ReleaseCandidate) -> bool {
    match (one.majors(), other.majors()) {
        (Some(one), Some(other)) => one.iter().any(|major| other.contains(major)),
        _ => true,
    }
}

fn other_cuda(own: &ReleaseCandidate, other: &ReleaseCandidate) -> Option<ReleaseObstacle> {
    let first = |candidate: &ReleaseCandidate| -> Option<Version> {
        candidate.cuda.as_ref()?.first().copied()
    };
    Some(ReleaseObstacle::OtherCuda {
        cuda: first(own)?,
        other: other.title(),
        other_cuda: first(other)?,
    })
}

/// The versions of a distribution that two releases pin otherwise.
fn differing<'c>(
    one: &'c ReleaseCandidate,
    other: &'c ReleaseCandidate,
) -> Option<(&'static str, &'c VersionSpecifiers, &'c VersionSpecifiers)> {
    let pins = |range: &VersionSpecifiers, other: &VersionSpecifiers| {
        let mut exact = range
            .iter()
            .filter(|one| *one.operator() == Operator::Equal);
        exact.any(|one| !other.contains(one.version()))
    };
    one.shared.iter().find_map(|(name, own)| {
        let (_, their) = other.shared.iter().find(|(other, _)| other == name)?;
        (pins(own, their) || pins(their, own)).then_some((*name, own, their))
    })
}

fn need_text(name: &str, versions: &VersionSpecifiers) -> String {
    format!("{name}{}", versions.to_string().replace(' ', ""))
}

/// The change of the machine or of the question, the smallest first, after which something works.
fn relaxed(wanted: &[AskedPackage], target: &AdvisedMachine) -> Option<Relaxed> {
    let works =
        |wanted: &[AskedPackage], target: &AdvisedMachine| Question::new(target).solve(wanted);
    if target.installed.is_some() {
        let without = AdvisedMachine {
            installed: None,
            ..target.clone()
        };
        if works(wanted, &without).is_some() {
            return Some(Relaxed::OtherFramework);
        }
    }
    let any: Vec<AskedPackage> = wanted
        .iter()
        .map(|one| AskedPackage {
            versions: VersionSpecifiers::empty(),
            ..one.clone()
        })
        .collect();
    if works(&any, target).is_some() {
        return Some(Relaxed::OtherVersions);
    }
    let any_driver = AdvisedMachine {
        driver: None,
        ..target.clone()
    };
    if let Some(picks) = works(wanted, &any_driver) {
        // The least driver that is enough, not that of the newest.
        let majors = picks.iter().filter_map(|pick| pick.candidate.majors());
        let mut floors: Vec<Version> = majors.flatten().filter_map(driver_for).collect();
        floors.extend((11..=20).filter_map(driver_for));
        floors.sort();
        return floors
            .into_iter()
            .find(|driver| {
                let driver = Some(*driver);
                works(
                    wanted,
                    &AdvisedMachine {
                        driver,
                        ..target.clone()
                    },
                )
                .is_some()
            })
            .map(Relaxed::Driver);
    }
    for minor in (8..=20).rev() {
        let python = Some(Version::new(&[3, minor]));
        if target.python.is_some()
            && works(
                wanted,
                &AdvisedMachine {
                    python,
                    ..target.clone()
                },
            )
            .is_some()
        {
            return python.map(Relaxed::Python);
        }
    }
    let any_gpu = AdvisedMachine {
        gpus: Vec::new(),
        ..target.clone()
    };
    if works(wanted, &any_gpu).is_some() {
        return Some(Relaxed::OtherGpu);
    }
    let mut names = wanted.iter().map(|one| &one.name).rev();
    let name = names.find(|name| {
        let others = wanted.iter().filter(|other| other.name != **name);
        let others: Vec<AskedPackage> = others.cloned().collect();
        !others.is_empty() && works(&others, target).is_some()
    })?;
    Some(Relaxed::Without(name.clone()))
}
