//! Checks of libraries: where copies are, which one the program gets, and what that one lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::cause::CheckAnswer;
use super::facts::{CheckContext, NamedLibrary, is_bundled_alone, lacks_files, serves};
use crate::catalog::{Family, Fault, catalog, first_number};
use crate::doctor::FindingEvidence;
use crate::formats::elf::Elf;
use crate::formats::{names, symbols};
use crate::inventory::{Installation, Origin, PartKind, Problem};
use crate::predict::supply::given;
use crate::version::Version;

const MAX_COPIES: usize = 4;

/// Reads a version as messages write it: `8.6.0`, `(8, 3, 2)`, `12_1`, or one number in NVIDIA's way, 8904 or 12020.
pub(super) fn parse_version(text: &str, family: Option<&Family>) -> Option<Version> {
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

fn copies_evidence(installations: Vec<&Installation>) -> Vec<FindingEvidence> {
    let few = installations.into_iter().take(MAX_COPIES);
    few.map(FindingEvidence::installation).collect()
}

/// True if a message means this file by a path or a name.
fn is_named(path: &Path, name: &str) -> bool {
    let name = Path::new(name);
    path == name
        || name
            .file_name()
            .is_some_and(|name| path.file_name() == Some(name))
}

impl CheckContext<'_, '_, '_> {
    /// The symbols that a library exports; none if it is unreadable.
    fn exports(&self, path: &Path) -> Option<Vec<String>> {
        let data = self.facts.host.map(path).ok()?;
        let mut exports = symbols::names(&Elf::parse(&data).ok()?);
        for name in &mut exports {
            if let Some(end) = name.find('@') {
                name.truncate(end);
            }
        }
        Some(exports)
    }

    /// The installations that could answer for a library, those with other numbers in their SONAMEs included.
    fn related_copies(&self, library: &NamedLibrary<'_>) -> Vec<&Installation> {
        let Some(family) = library.family() else {
            return Vec::new();
        };
        let mut copies = self.copies(&family.name);
        if let NamedLibrary::File { name, .. } = library
            && !family.soname_is_version
        {
            let stem = names::split(name).map_or("", |(stem, _)| stem);
            copies.retain(|copy| copy.member(stem).is_some());
        }
        copies
    }

    pub(super) fn not_installed(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        match library {
            NamedLibrary::Other(name) => self.missing_of_framework(name, false),
            NamedLibrary::File { name, family: None } => {
                self.resolve(name)?;
                CheckAnswer::new(false, Vec::new())
            }
            _ => {
                let copies = self.related_copies(library);
                CheckAnswer::new(copies.is_empty(), copies_evidence(copies))
            }
        }
    }

    /// Of a tool, or of a library.
    pub(super) fn not_on_path(&self, subject: &str) -> Option<CheckAnswer> {
        match subject {
            "nvcc" => self.part_not_on_path(PartKind::Nvcc),
            "ptxas" => self.not_found_by_framework(PartKind::Ptxas),
            "libdevice" => self.not_found_by_framework(PartKind::Libdevice),
            _ => self.library_not_on_path(&NamedLibrary::new(subject)),
        }
    }

    fn library_not_on_path(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        match library {
            NamedLibrary::Other(name) => self.missing_of_framework(name, true),
            NamedLibrary::File { name, family: None } => {
                self.resolve(name)?;
                CheckAnswer::new(false, Vec::new())
            }
            NamedLibrary::File {
                name,
                family: Some(family),
            } => {
                let copies = self.copies_with_file(&family.name, name);
                let is_lost = !copies.is_empty() && self.resolve(name).is_none();
                CheckAnswer::new(is_lost, copies_evidence(copies))
            }
            NamedLibrary::Family(family) => {
                let copies = self.copies(&family.name);
                let mut mains = copies.iter().filter_map(|copy| copy.member(&family.main));
                let is_lost =
                    !copies.is_empty() && mains.all(|main| self.resolve(&main.soname).is_none());
                CheckAnswer::new(is_lost, copies_evidence(copies))
            }
        }
    }

    /// Is a library missing that a framework needs, and is a copy of it here?
    fn missing_of_framework(&self, framework: &str, is_here: bool) -> Option<CheckAnswer> {
        let program = self.facts.program;
        if program
            .packages
            .iter()
            .all(|package| package.name != framework)
        {
            return None;
        }
        // By name, with the family and the file that asks for it.
        let mut missing: BTreeMap<&str, (&str, &Path)> = BTreeMap::new();
        // A framework opens some when it first uses a GPU.
        for requirement in program.library_requirements() {
            if requirement.by.name.split(' ').next() == Some(framework)
                && let Some(name) = requirement.named()
                && self.resolve(name).is_none()
            {
                missing.insert(name, (&requirement.family, &requirement.by.file));
            }
        }
        for library in &self.start.prediction.missing {
            if let Some(family) = &library.family {
                missing.insert(&library.name, (family, &library.requester));
            }
        }
        let mut evidence = Vec::new();
        for (name, (family, requester)) in missing {
            if self.copies_with_file(family, name).is_empty() != is_here {
                evidence.push(FindingEvidence::file(requester, name));
            }
        }
        evidence.truncate(MAX_COPIES);
        CheckAnswer::new(!evidence.is_empty(), evidence)
    }

    /// `wanted` begins with the number of the SONAME, where only the message states it.
    pub(super) fn other_major(
        &self,
        library: &NamedLibrary<'_>,
        wanted: Option<&str>,
    ) -> Option<CheckAnswer> {
        library.family()?;
        let copies = self.related_copies(library);
        // Without any copy, another cause fits.
        let mut is_other = !copies.is_empty();
        for copy in &copies {
            let fits = match library {
                NamedLibrary::File { name, .. } => {
                    copy.files.iter().any(|member| serves(copy, member, name))
                }
                _ => match wanted.and_then(first_number) {
                    Some(number) => copy.soname == Some(number),
                    None => true,
                },
            };
            is_other &= !fits;
        }
        CheckAnswer::new(is_other, copies_evidence(copies))
    }

    /// The first copy is older than wanted, or lacks a symbol that another copy has.
    pub(super) fn older_first(
        &self,
        library: &NamedLibrary<'_>,
        wanted: Option<&str>,
        symbol: Option<&str>,
    ) -> Option<CheckAnswer> {
        match (wanted, symbol) {
            (Some(wanted), _) => self.older_than(library, wanted),
            (None, Some(symbol)) => self.lacks_what_another_has(library, symbol),
            (None, None) => {
                let mut answer = self.mixed(library, None)?;
                answer.is_confirmed &= self.is_older_than_another(library.family()?);
                Some(answer)
            }
        }
    }

    /// True if a newer copy is here than the one that comes first.
    fn is_older_than_another(&self, family: &Family) -> bool {
        let version = self.first_copy(family).and_then(|first| first.version);
        let mut copies = self.copies(&family.name).into_iter();
        version.is_some() && copies.any(|copy| copy.version > version)
    }

    fn older_than(&self, library: &NamedLibrary<'_>, wanted: &str) -> Option<CheckAnswer> {
        let family = library.family()?;
        let wanted = self.wanted_version(family, wanted)?;
        let first = self.first_copy(family)?;
        let is_older = first.version? < wanted;
        let mut newer = self.copies(&family.name);
        newer.retain(|copy| copy.version.is_some_and(|version| version >= wanted));
        newer.truncate(MAX_COPIES - 1);
        CheckAnswer::new(is_older, self.with_element(first, newer))
    }

    /// `wanted` is a version, another family, or `framework` for what the program's framework needs.
    fn wanted_version(&self, family: &Family, wanted: &str) -> Option<Version> {
        if wanted == "framework" {
            let mut newest = None;
            for requirement in self.facts.program.library_requirements() {
                if requirement.family == family.name {
                    newest = newest.max(requirement.floor());
                }
            }
            return newest;
        }
        match catalog().family(wanted) {
            Some(other) => Some(self.first_copy(other)?.version?.truncated(2)),
            None => parse_version(wanted, Some(family)),
        }
    }

    /// The element of `LD_LIBRARY_PATH` that leads to the first copy, that copy, and others.
    fn with_element(
        &self,
        first: &Installation,
        others: Vec<&Installation>,
    ) -> Vec<FindingEvidence> {
        let mut evidence = Vec::new();
        for element in &self.facts.examination.elements {
            if let Some(target) = &element.leads_to
                && first.is_in(target)
            {
                evidence.push(element.evidence());
                break;
            }
        }
        evidence.push(FindingEvidence::installation(first));
        evidence.extend(copies_evidence(others));
        evidence
    }

    /// The files in which a symbol of a library must be.
    fn files_with_symbols(&self, library: &NamedLibrary<'_>) -> Vec<PathBuf> {
        if let NamedLibrary::File { name, .. } = library {
            return match self.resolve(name) {
                Some((path, id)) => vec![self.installed_path(path, id)],
                None => Vec::new(),
            };
        }
        let Some(family) = library.family() else {
            return Vec::new();
        };
        let mut paths = Vec::new();
        for file in &self.start.prediction.files {
            if file.family.as_ref() == Some(&family.name) {
                paths.push(self.installed_path(file.path.clone(), file.id));
            }
        }
        if paths.is_empty()
            && let Some(first) = self.first_copy(family)
        {
            paths.extend(first.files.iter().map(|member| member.path.clone()));
        }
        paths
    }

    fn first_copy_lacks(&self, library: &NamedLibrary<'_>, symbol: &str) -> Option<CheckAnswer> {
        let paths = self.files_with_symbols(library);
        let mut has_exports = false;
        let mut has_symbol = false;
        for path in &paths {
            let exports = self.exports(path)?;
            has_exports |= !exports.is_empty();
            has_symbol |= exports.iter().any(|name| name == symbol);
        }
        // Of a node's driver in an image, only the names of the files are known.
        let is_driver = library
            .family()
            .is_some_and(|family| family.name == "driver");
        if paths.is_empty() || is_driver && !has_exports {
            return None;
        }
        let mut evidence = match library.family().and_then(|family| self.first_copy(family)) {
            Some(first) => self.with_element(first, Vec::new()),
            None => Vec::new(),
        };
        if has_symbol {
            return CheckAnswer::new(false, evidence);
        }
        for path in paths.into_iter().take(2) {
            evidence.push(symbol_evidence(path, symbol, false));
        }
        // Another file may import it, which the prediction does not know. The plan removes no file but these.
        if self.imports(symbol) == Some(false) {
            let is_failed_start = std::ptr::eq(self.start, &raw const self.facts.failed);
            return CheckAnswer::new((!is_failed_start).then_some(false), evidence);
        }
        CheckAnswer::new(true, evidence)
    }

    /// True if a predicted file, or one that asks for it, imports the symbol; none if all that is known imports nothing.
    fn imports(&self, symbol: &str) -> Option<bool> {
        let mut paths = BTreeSet::new();
        for file in &self.start.prediction.files {
            paths.insert(self.installed_path(file.path.clone(), file.id));
            paths.insert(file.requester.clone());
        }
        let mut imports = None;
        for path in paths {
            let Ok(data) = self.facts.host.map(&path) else {
                continue;
            };
            let Ok(elf) = Elf::parse(&data) else {
                continue;
            };
            for imported in elf.symbols().iter().filter(|symbol| !symbol.defined) {
                if imported.name == symbol.as_bytes() {
                    return Some(true);
                }
                imports = Some(false);
            }
        }
        imports
    }

    /// Does the first copy lack a symbol? The evidence shows other copies that have it.
    fn lacks_what_another_has(
        &self,
        library: &NamedLibrary<'_>,
        symbol: &str,
    ) -> Option<CheckAnswer> {
        let mut answer = self.first_copy_lacks(library, symbol)?;
        if let Some(family) = library.family()
            && answer.is_confirmed
        {
            let paths = self.files_with_symbols(library);
            let copies = self.copies(&family.name);
            let others = copies
                .iter()
                .flat_map(|copy| &copy.files)
                .filter(|member| !paths.contains(&member.path))
                .filter(|member| {
                    let exports = self.exports(&member.path).unwrap_or_default();
                    exports.iter().any(|name| name == symbol)
                });
            for member in others.take(2) {
                let evidence = symbol_evidence(member.path.clone(), symbol, true);
                answer.evidence.push(evidence);
            }
        }
        Some(answer)
    }

    /// `wanted` is the other library, where a message says that the first was built for another CUDA than it has.
    pub(super) fn mixed(
        &self,
        library: &NamedLibrary<'_>,
        wanted: Option<&str>,
    ) -> Option<CheckAnswer> {
        let family = library.family()?;
        if let Some(wanted) = wanted {
            let first = self.first_copy(family)?;
            let cuda = first.cuda?;
            let copies = self.related_copies(&NamedLibrary::new(wanted));
            let is_other = !copies.is_empty()
                && copies
                    .iter()
                    .all(|copy| copy.cuda.or(copy.soname) != Some(cuda));
            return CheckAnswer::new(is_other, self.with_element(first, copies));
        }
        let inventory = self.facts.inventory;
        let supplies = given(&self.start.prediction, inventory);
        let Some(supply) = supplies.get(family.name.as_str()) else {
            let count = self.copies(&family.name).len();
            return CheckAnswer::new((count < 2).then_some(false), Vec::new());
        };
        let mut is_mixed = supply.fault(inventory).is_some() && supply.installations.len() > 1;
        let mut installations = Vec::new();
        for (installation, _) in &supply.installations {
            if let Some(installation) = installation {
                let mut problems = installation.problems.iter();
                is_mixed |= problems
                    .any(|problem| matches!(problem, Problem::OtherVersionAmongTheRest { .. }));
                installations.push(*installation);
            }
        }
        CheckAnswer::new(is_mixed, copies_evidence(installations))
    }

    pub(super) fn incomplete(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let family = library.family()?;
        let installation = match self
            .first_copy(family)
            .filter(|first| !is_bundled_alone(first))
        {
            Some(first) => first,
            None => {
                let copies = self.copies(&family.name);
                copies.into_iter().find(|copy| lacks_files(copy))?
            }
        };
        CheckAnswer::new(
            lacks_files(installation),
            vec![FindingEvidence::installation(installation)],
        )
    }

    pub(super) fn damaged(&self, name: &str) -> Option<CheckAnswer> {
        let inventory = self.facts.inventory;
        let mut evidence = Vec::new();
        for warning in &inventory.warnings {
            if is_named(&warning.path, name) {
                evidence.push(FindingEvidence::Fault {
                    path: warning.path.clone(),
                    fault: warning.fault.clone(),
                });
            }
        }
        for installation in &inventory.installations {
            let mut problems = installation.problems.iter();
            if problems.any(|problem| {
                matches!(problem, Problem::Truncated { file } if is_named(Path::new(file), name))
            }) {
                evidence.push(FindingEvidence::installation(installation));
            }
        }
        if evidence.is_empty() {
            self.resolve(name)?;
        }
        CheckAnswer::new(!evidence.is_empty(), evidence)
    }

    pub(super) fn bare_name(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let family = library.family()?;
        let mut stem = family.main.as_str();
        if let NamedLibrary::File { name, .. } = library {
            if !name.ends_with(".so") {
                return CheckAnswer::new(false, Vec::new());
            }
            stem = names::split(name).map_or(stem, |(stem, _)| stem);
        }
        let mut copies = self.copies(&family.name);
        copies.retain(|copy| copy.member(stem).is_some());
        let is_lost = self.resolve(&format!("{stem}.so")).is_none();
        CheckAnswer::new(is_lost && !copies.is_empty(), copies_evidence(copies))
    }

    /// NVRTC looks for its builtins only beside itself. `soname` is a library that the message names.
    pub(super) fn builtins(&self, soname: Option<&str>) -> Option<CheckAnswer> {
        const STEM: &str = "libnvrtc-builtins.so";
        let soname = soname.filter(|name| name.starts_with(STEM));
        let nvrtc = self.first_copy(catalog().family("nvrtc")?)?;
        let mut are_beside = false;
        for directory in nvrtc.directories() {
            if let Some(files) = self.facts.inventory.directories.get(directory) {
                are_beside |= files.keys().any(|name| match soname {
                    Some(soname) => name == soname,
                    None => name.starts_with("libnvrtc-builtins.so."),
                });
            }
        }
        let mut evidence = self.with_element(nvrtc, Vec::new());
        let path = nvrtc.directory.join(soname.unwrap_or(STEM));
        evidence.push(FindingEvidence::absent(path));
        // They may be elsewhere.
        if let Some(soname) = soname
            && let Some(answer) = self.library_not_on_path(&NamedLibrary::new(soname))
            && answer.is_confirmed
        {
            evidence.extend(answer.evidence);
        }
        CheckAnswer::new(!are_beside, evidence)
    }

    pub(super) fn two_packages(&self, library: &NamedLibrary<'_>) -> Option<CheckAnswer> {
        let mut copies = self.related_copies(library);
        copies.retain(|copy| {
            let mut problems = copy.problems.iter();
            problems.any(|problem| matches!(problem, Problem::ClaimedTwice { .. }))
        });
        let mut answer = CheckAnswer::new(!copies.is_empty(), copies_evidence(copies.clone()))?;
        for finding in &self.facts.examination.findings {
            if finding.fault == Fault::ClaimedTwice
                && let FindingEvidence::Installation(summary) = &finding.evidence[0]
                && copies
                    .iter()
                    .any(|copy| copy.directory == summary.directory)
            {
                answer.findings.push(finding.clone());
            }
        }
        Some(answer)
    }

    pub(super) fn libstdcxx_old(&self, version: &str) -> Option<CheckAnswer> {
        let (path, _) = self.resolve("libstdc++.so.6")?;
        let object = self.start.searcher.object(&path)?;
        let has = object.defines.as_ref()?.iter().any(|name| name == version);
        CheckAnswer::new(!has, vec![symbol_evidence(path, version, has)])
    }

    pub(super) fn libcuda_is_from(&self, origin: Origin) -> Option<CheckAnswer> {
        let Some((path, id)) = self.resolve("libcuda.so.1") else {
            return CheckAnswer::new(false, Vec::new());
        };
        match self.facts.inventory.installation_of(id) {
            Some(first) => {
                let evidence = self.with_element(first, Vec::new());
                CheckAnswer::new(first.origin == origin, evidence)
            }
            None => {
                let is_stub = path.components().any(|part| part.as_os_str() == "stubs");
                CheckAnswer::new(is_stub, Vec::new())
            }
        }
    }

    /// The beginning of the symbol's name tells in which library of the driver it must be.
    pub(super) fn driver_lacks(&self, symbol: &str) -> Option<CheckAnswer> {
        let name = if symbol.starts_with("nvml") {
            "libnvidia-ml.so.1"
        } else {
            "libcuda.so.1"
        };
        self.first_copy_lacks(&NamedLibrary::new(name), symbol)
    }
}

fn symbol_evidence(path: PathBuf, symbol: &str, has: bool) -> FindingEvidence {
    FindingEvidence::Symbol {
        path,
        symbol: symbol.to_owned(),
        has,
    }
}
