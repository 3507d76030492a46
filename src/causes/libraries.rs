//! Checks of libraries: where copies are, which one the program gets, and what that one lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::cause::CheckAnswer;
use super::facts::{AskedIn, NamedLibrary, installation, is_shim, serves};
use crate::catalog::{Family, Fault, catalog, first_number};
use crate::doctor::{Finding, FindingEvidence};
use crate::formats::elf::Elf;
use crate::formats::{names, symbols};
use crate::inventory::{Installation, Origin, Problem};
use crate::program::LibraryRequirement;
use crate::version::Version;

const FEW: usize = 4;

/// Reads a version as messages write it: `8.6.0`, `(8, 3, 2)`, `12_1`, or one number in NVIDIA's way, 8904 or 12020.
pub(super) fn version(text: &str, family: Option<&Family>) -> Option<Version> {
    let dotted = text.replace([',', '_'], ".").replace(' ', "");
    let number: Option<u32> = dotted.parse().ok().filter(|number| *number >= 1000);
    match number {
        Some(number) if family.is_some_and(|family| family.name == "cudnn") => {
            let (major, minor) = if number >= 90_000 {
                (10_000, 100)
            } else {
                (1000, 100)
            };
            Some(Version::from_scaled(number, major, minor))
        }
        Some(number) => Some(Version::from_scaled(number, 1000, 10).truncated(2)),
        None => dotted.parse().ok(),
    }
}

fn listed<'i>(installations: impl IntoIterator<Item = &'i Installation>) -> Vec<FindingEvidence> {
    installations
        .into_iter()
        .take(FEW)
        .map(installation)
        .collect()
}

/// Returns the symbols that a library exports; none if it is unreadable.
fn exports(asked: &AskedIn<'_, '_, '_>, path: &Path) -> Option<Vec<String>> {
    let data = asked.facts.host.map(path).ok()?;
    let names = symbols::names(&Elf::parse(&data).ok()?);
    Some(
        names
            .into_iter()
            .map(|name| name.split('@').next().unwrap_or_default().to_owned())
            .collect(),
    )
}

impl AskedIn<'_, '_, '_> {
    /// The installations that could answer for a library, those with other numbers in their SONAMEs included.
    fn related(&self, library: &NamedLibrary<'_>) -> Vec<&Installation> {
        let Some(family) = library.family() else {
            return Vec::new();
        };
        let has_stem = |one: &&Installation| match library {
            NamedLibrary::File { name, .. } => {
                family.soname_is_version
                    || names::split(name).is_some_and(|(stem, _)| one.member(stem).is_some())
            }
            _ => true,
        };
        self.copies(&family.name).filter(has_stem).collect()
    }

    pub(super) fn no_copy(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        match library {
            NamedLibrary::Other(name) => self.missing_of_framework(name, false),
            NamedLibrary::File { name, family: None } => match self.given(name) {
                Some(_) => CheckAnswer::new(false, Vec::new()),
                None => None,
            },
            _ => {
                let copies = self.related(library);
                CheckAnswer::new(copies.is_empty(), listed(copies))
            }
        }
    }

    pub(super) fn not_on_path(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let found = |name: &str| self.given(name).is_some();
        match library {
            NamedLibrary::Other(name) => self.missing_of_framework(name, true),
            NamedLibrary::File { name, family: None } => {
                CheckAnswer::new(found(name).then_some(false), Vec::new())
            }
            NamedLibrary::File {
                name,
                family: Some(family),
            } => {
                let copies = self.offering(&family.name, name);
                CheckAnswer::new(!copies.is_empty() && !found(name), listed(copies))
            }
            NamedLibrary::Family(family) => {
                let copies: Vec<_> = self.copies(&family.name).collect();
                let mut mains = copies.iter().filter_map(|one| one.member(&family.main));
                let is_lost = !copies.is_empty() && !mains.any(|main| found(&main.soname));
                CheckAnswer::new(is_lost, listed(copies))
            }
        }
    }

    /// Is a library missing that a framework needs, and is a copy of it here?
    fn missing_of_framework(&self, framework: &str, is_here: bool) -> Option<CheckAnswer> {
        if self
            .facts
            .program
            .packages
            .iter()
            .all(|package| package.name != framework)
        {
            return None;
        }
        let predicted = self.start.prediction.missing.iter().filter_map(|missing| {
            Some((
                missing.family.as_deref()?,
                missing.name.as_str(),
                &missing.requester,
            ))
        });
        // A framework opens some when it first uses a GPU.
        let opened = self.facts.program.library_requirements().filter_map(|one| {
            let is_its = one.by.name.split(' ').next() == Some(framework);
            let name = one
                .named()
                .filter(|name| is_its && self.given(name).is_none())?;
            Some((one.family.as_str(), name, &one.by.file))
        });
        let missing: BTreeMap<&str, (&str, &PathBuf)> = opened
            .chain(predicted)
            .map(|(family, name, by)| (name, (family, by)))
            .collect();
        let missing = missing
            .into_iter()
            .filter(|(name, (family, _))| self.offering(family, name).is_empty() != is_here);
        let asked =
            missing.map(|(name, (_, by))| FindingEvidence::file(by.clone(), name.to_owned()));
        let evidence: Vec<FindingEvidence> = asked.take(FEW).collect();
        CheckAnswer::new(!evidence.is_empty(), evidence)
    }

    /// `wanted` is the number of the SONAME, where only the message states it.
    pub(super) fn only_other_major(
        &self,
        library: &NamedLibrary<'_>,
        wanted: Option<u32>,
    ) -> Option<CheckAnswer> {
        let copies = self.related(library);
        let fits = |one: &&Installation| match library {
            NamedLibrary::File { name, .. } => {
                one.files.iter().any(|member| serves(one, member, name))
            }
            _ => wanted.is_none_or(|wanted| one.soname == Some(wanted)),
        };
        let is_known = library.family().is_some() && !copies.is_empty();
        let is = is_known.then(|| !copies.iter().any(fits));
        // Without any copy, another cause fits.
        CheckAnswer::new(is.or(library.family().map(|_| false)), listed(copies))
    }

    fn wanted(&self, family: &Family, wanted: &str) -> Option<Version> {
        if wanted == "framework" {
            let own = self
                .facts
                .program
                .library_requirements()
                .filter(|one| one.family == family.name);
            return own.filter_map(LibraryRequirement::floor).max();
        }
        match catalog().family(wanted) {
            Some(other) => self
                .first(other)?
                .version
                .map(|version| version.truncated(2)),
            None => version(wanted, Some(family)),
        }
    }

    pub(super) fn first_copy_older(
        &self,
        library: &NamedLibrary<'_>,
        wanted: &str,
    ) -> Option<CheckAnswer> {
        let family = library.family()?;
        let wanted = self.wanted(family, wanted)?;
        let (first, version) = self
            .first(family)
            .and_then(|one| Some((one, one.version?)))?;
        let is_newer = |one: &&Installation| one.version.is_some_and(|version| version >= wanted);
        let newer: Vec<_> = self
            .copies(&family.name)
            .filter(is_newer)
            .take(FEW - 1)
            .collect();
        CheckAnswer::new(version < wanted, self.reached(first, newer))
    }

    /// The element of `LD_LIBRARY_PATH` that leads to the first copy, that copy, and others.
    fn reached(&self, first: &Installation, others: Vec<&Installation>) -> Vec<FindingEvidence> {
        let elements = &self.facts.examination.elements;
        let leads = |element: &&crate::doctor::JudgedElement| {
            element
                .leads_to
                .as_deref()
                .is_some_and(|to| first.directories().any(|own| own == to))
        };
        let element = elements
            .iter()
            .find(leads)
            .map(|element| FindingEvidence::Element {
                variable: element.variable,
                position: element.position,
                text: element.text.clone(),
            });
        element
            .into_iter()
            .chain([installation(first)])
            .chain(listed(others))
            .collect()
    }

    /// The files in which a symbol of a library must be.
    fn holders(&self, library: &NamedLibrary<'_>) -> Vec<PathBuf> {
        if let NamedLibrary::File { name, .. } = library {
            return self
                .given(name)
                .map(|(path, id)| self.installed(path, id))
                .into_iter()
                .collect();
        }
        let Some(family) = library.family() else {
            return Vec::new();
        };
        let files = &self.start.prediction.files;
        let own = files
            .iter()
            .filter(|file| file.family.as_ref() == Some(&family.name));
        let mapped: Vec<PathBuf> = own
            .map(|file| self.installed(file.path.clone(), file.id))
            .collect();
        if !mapped.is_empty() {
            return mapped;
        }
        let first = self.first(family).into_iter().flat_map(|one| &one.files);
        first.map(|member| member.path.clone()).collect()
    }

    pub(super) fn first_copy_lacks(
        &self,
        library: &NamedLibrary<'_>,
        symbol: &str,
    ) -> Option<CheckAnswer> {
        let holders = self.holders(library);
        let read: Option<Vec<Vec<String>>> =
            holders.iter().map(|path| exports(self, path)).collect();
        let read = read.filter(|read| !read.is_empty())?;
        // Of a node's driver in an image, only the names of the files are known.
        let is_driver = library.family().is_some_and(|one| one.name == "driver");
        if is_driver && read.iter().all(Vec::is_empty) {
            return None;
        }
        let has = |names: &Vec<String>| names.iter().any(|name| name == symbol);
        let lacks = !read.iter().any(has);
        let said = |path: &PathBuf| FindingEvidence::Symbol {
            path: path.clone(),
            symbol: symbol.to_owned(),
            has: !lacks,
        };
        let shown = if lacks {
            &holders[..holders.len().min(2)]
        } else {
            &[]
        };
        let mut evidence: Vec<FindingEvidence> = shown.iter().map(said).collect();
        if let Some(first) = library.family().and_then(|family| self.first(family)) {
            evidence.splice(..0, self.reached(first, Vec::new()));
        }
        // Another file may import it, which the prediction does not know. The plan removes no file but these.
        let is_failed = std::ptr::eq(self.start, &raw const self.facts.failed);
        let is_gone = lacks && self.imports(symbol) == Some(false);
        CheckAnswer::new(
            if is_gone {
                (!is_failed).then_some(false)
            } else {
                Some(lacks)
            },
            evidence,
        )
    }

    /// True if a predicted file, or one that asks for it, imports the symbol; none if all that is known imports nothing.
    fn imports(&self, symbol: &str) -> Option<bool> {
        let files = self.start.prediction.files.iter();
        let all = files.flat_map(|file| {
            [
                self.installed(file.path.clone(), file.id),
                file.requester.clone(),
            ]
        });
        let all: BTreeSet<PathBuf> = all.collect();
        let read = all.iter().filter_map(|path| {
            let data = self.facts.host.map(path).ok()?;
            let symbols = Elf::parse(&data).ok()?.symbols();
            let mut imported = symbols.iter().filter(|one| !one.defined).peekable();
            imported.peek()?;
            Some(imported.any(|one| one.name == symbol.as_bytes()))
        });
        read.reduce(|some, one| some || one)
    }

    /// Does the first copy lack a symbol? The evidence shows other copies that have it.
    pub(super) fn lacks_what_another_has(
        &self,
        library: &NamedLibrary<'_>,
        symbol: &str,
    ) -> Option<CheckAnswer> {
        let mut answer = self.first_copy_lacks(library, symbol)?;
        if let Some(family) = library.family().filter(|_| answer.is) {
            answer
                .evidence
                .extend(self.others_with(library, family, symbol));
        }
        Some(answer)
    }

    fn others_with(
        &self,
        library: &NamedLibrary<'_>,
        family: &Family,
        symbol: &str,
    ) -> Vec<FindingEvidence> {
        let holders = self.holders(library);
        let members = self.copies(&family.name).flat_map(|one| &one.files);
        let others = members
            .filter(|member| !holders.contains(&member.path))
            .map(|member| &member.path);
        let has = |path: &&PathBuf| {
            exports(self, path).is_some_and(|names| names.iter().any(|name| name == symbol))
        };
        let found = others.filter(has).take(2);
        let has_it = |path: &PathBuf| FindingEvidence::Symbol {
            path: path.clone(),
            symbol: symbol.to_owned(),
            has: true,
        };
        found.map(has_it).collect()
    }

    pub(super) fn mixed(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let family = library.family()?;
        let inventory = self.facts.inventory;
        let supplies = crate::predict::supply::given(&self.start.prediction, inventory);
        let Some(supply) = supplies.get(family.name.as_str()) else {
            let count = self.copies(&family.name).count();
            return CheckAnswer::new((count < 2).then_some(false), Vec::new());
        };
        let is_mixed = |one: &&Installation| {
            one.problems
                .iter()
                .any(|problem| matches!(problem, Problem::OtherVersionAmongTheRest { .. }))
        };
        let known: Vec<&Installation> = supply
            .installations
            .iter()
            .filter_map(|(one, _)| *one)
            .collect();
        let has_fault = supply.fault(inventory).is_some() && supply.installations.len() > 1;
        CheckAnswer::new(has_fault || known.iter().any(is_mixed), listed(known))
    }

    pub(super) fn built_for_other_cuda(
        &self,
        library: &NamedLibrary<'_>,
        wanted: &NamedLibrary<'_>,
    ) -> Option<CheckAnswer> {
        let first = library.family().and_then(|family| self.first(family));
        let (first, cuda) = first.and_then(|one| Some((one, one.cuda?)))?;
        let copies = self.related(wanted);
        let of_its_cuda = |one: &&Installation| one.cuda.or(one.soname) == Some(cuda);
        let is_other = !copies.is_empty() && !copies.iter().any(of_its_cuda);
        CheckAnswer::new(is_other, self.reached(first, copies))
    }

    pub(super) fn incomplete(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let family = library.family()?;
        let lacks = |one: &&Installation| {
            one.problems
                .iter()
                .any(|problem| matches!(problem, Problem::Missing { .. }))
        };
        let first = self.first(family).filter(|one| !is_shim(one));
        match first.or_else(|| self.copies(&family.name).find(lacks)) {
            Some(one) => CheckAnswer::new(lacks(&one), vec![installation(one)]),
            None => None,
        }
    }

    pub(super) fn damaged(&self, name: &str) -> Option<CheckAnswer> {
        let is_named = |path: &Path| {
            let file = path
                .file_name()
                .and_then(|file| file.to_str())
                .unwrap_or_default();
            path == Path::new(name) || Path::new(name).file_name().is_some_and(|name| name == file)
        };
        let warnings = self
            .facts
            .inventory
            .warnings
            .iter()
            .filter(|warning| is_named(&warning.path));
        let mut evidence: Vec<FindingEvidence> = warnings
            .map(|warning| FindingEvidence::Fault {
                path: warning.path.clone(),
                fault: warning.fault.clone(),
            })
            .collect();
        let is_cut = |one: &&Installation| {
            let names = one.problems.iter().filter_map(|problem| match problem {
                Problem::Truncated { file } => Some(Path::new(file)),
                _ => None,
            });
            names.into_iter().any(is_named)
        };
        evidence.extend(
            self.facts
                .inventory
                .installations
                .iter()
                .filter(is_cut)
                .map(installation),
        );
        let is_known = !evidence.is_empty() || self.given(name).is_some();
        CheckAnswer::new(is_known.then_some(!evidence.is_empty()), evidence)
    }

    pub(super) fn bare_name_missing(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let family = library.family()?;
        let stem = match library {
            NamedLibrary::File { name, .. } => {
                names::split(name).map_or(family.main.as_str(), |(stem, _)| stem)
            }
            _ => &family.main,
        };
        if matches!(library, NamedLibrary::File { name, .. } if !name.ends_with(".so")) {
            return CheckAnswer::new(false, Vec::new());
        }
        let copies: Vec<_> = self
            .copies(&family.name)
            .filter(|one| one.member(stem).is_some())
            .collect();
        let is_lost = self.given(&format!("{stem}.so")).is_none();
        CheckAnswer::new(is_lost && !copies.is_empty(), listed(copies))
    }

    pub(super) fn builtins_elsewhere(&self, builtins: Option<&str>) -> Option<CheckAnswer> {
        let nvrtc = catalog()
            .family("nvrtc")
            .and_then(|family| self.first(family));
        let nvrtc = nvrtc?;
        let names = nvrtc
            .directories()
            .filter_map(|own| self.facts.inventory.directories.get(own));
        let is_right = |name: &String| match builtins {
            Some(builtins) => name == builtins,
            None => name.starts_with("libnvrtc-builtins.so."),
        };
        let is_beside = names
            .flat_map(std::collections::BTreeMap::keys)
            .any(is_right);
        let mut evidence = self.reached(nvrtc, Vec::new());
        let wanted = builtins.unwrap_or("libnvrtc-builtins.so");
        evidence.push(FindingEvidence::Absent {
            path: nvrtc.directory.join(wanted),
        });
        // They may be elsewhere.
        let elsewhere = builtins.and_then(|name| self.not_on_path(&NamedLibrary::named(name)));
        evidence.extend(
            elsewhere
                .filter(|answer| answer.is)
                .into_iter()
                .flat_map(|answer| answer.evidence),
        );
        CheckAnswer::new(!is_beside, evidence)
    }

    pub(super) fn two_packages(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let copies = self.related(library);
        let is_claimed = |one: &&&Installation| {
            one.problems
                .iter()
                .any(|problem| matches!(problem, Problem::ClaimedTwice { .. }))
        };
        let claimed: Vec<_> = copies.iter().filter(is_claimed).copied().collect();
        let is_of_these = |directory: &Path| claimed.iter().any(|one| one.directory == directory);
        let is_claim = |finding: &&Finding| {
            finding.fault == Fault::ClaimedTwice
                && matches!(&finding.evidence[0], FindingEvidence::Installation(one) if is_of_these(&one.directory))
        };
        let findings = self
            .facts
            .examination
            .findings
            .iter()
            .filter(is_claim)
            .cloned()
            .collect();
        let answer = CheckAnswer::new(!claimed.is_empty(), listed(claimed.iter().copied()))?;
        Some(CheckAnswer { findings, ..answer })
    }

    pub(super) fn libstdcxx_lacks(&self, version: &str) -> Option<CheckAnswer> {
        let (path, _) = self.given("libstdc++.so.6")?;
        let object = self.start.searcher.object(&path)?;
        let defines = object.defines.as_ref()?;
        let has = defines.iter().any(|name| name == version);
        CheckAnswer::new(
            !has,
            vec![FindingEvidence::Symbol {
                path,
                symbol: version.to_owned(),
                has,
            }],
        )
    }

    pub(super) fn first_is_from(&self, origin: Origin) -> Option<CheckAnswer> {
        let inventory = self.facts.inventory;
        let Some((path, id)) = self.given("libcuda.so.1") else {
            return CheckAnswer::new(false, Vec::new());
        };
        match inventory.installation_of(id) {
            Some(first) => {
                CheckAnswer::new(first.origin == origin, self.reached(first, Vec::new()))
            }
            None => CheckAnswer::new(
                path.components().any(|part| part.as_os_str() == "stubs"),
                Vec::new(),
            ),
        }
    }

    /// The driver's library that a program gets, by the beginning of the symbol's name.
    pub(super) fn driver_lacks(&self, symbol: &str) -> Option<CheckAnswer> {
        let name = if symbol.starts_with("nvml") {
            "libnvidia-ml.so.1"
        } else {
            "libcuda.so.1"
        };
        self.first_copy_lacks(&NamedLibrary::named(name), symbol)
    }

    pub(super) fn no_code(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let first = library.family().and_then(|family| self.first(family));
        let reads_code =
            |one: &&Installation| one.files.iter().any(|member| !member.code.is_empty());
        let first = first.filter(reads_code)?;
        let mut gpus = self.facts.inventory.capabilities().peekable();
        let is = gpus
            .peek()
            .is_some()
            .then(|| gpus.any(|gpu| !first.serves.contains_key(&gpu)));
        CheckAnswer::new(is, vec![installation(first)])
    }

    /// The number in the SONAME that a message asks for: `9` of `9`, or of `9.1`.
    pub(super) fn number(text: Option<&str>) -> Option<u32> {
        first_number(text?)
    }
}
