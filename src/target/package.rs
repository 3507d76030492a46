//! Which installed Python packages use a GPU, and what each asks for: from what its framework's profile
//! says where to read, and for any package from its shared objects.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::executable::{self, Image, asker, linked, names_in, opened_names};
use super::framework;
use super::imports::{self, Imports};
use super::installed::Installed;
use super::python::Python;
use super::recorded::{self, Records};
use super::{Asker, First, Need, Note, Package, Requirement, Standing, Target, Want};
use crate::catalog::{Framework, catalog};
use crate::formats::metadata;
use crate::formats::names;
use crate::host::{Host, Kind};
use crate::loader::closure::{Consumer, Walk};
use crate::loader::search::Searcher;
use crate::version::Version;

/// A package that may turn out to use a GPU.
struct Candidate<'f> {
    name: String,
    site: PathBuf,
    framework: Option<&'f Framework>,
    directories: Vec<PathBuf>,
    standing: Standing,
    imported_by: Option<String>,
}

/// Reads what a Python program needs into `target`.
pub(super) fn read(
    host: &Host,
    searcher: &Searcher<'_>,
    image: &Image,
    python: &Python,
    uses: &[String],
    target: &mut Target,
) {
    target.watched.extend(python.read_from.iter().chain(&python.site_packages).cloned());
    target.site_packages.clone_from(&python.site_packages);
    if python.site_packages.is_empty() {
        target.notes.push(Note::NoSitePackages);
    }
    let imports = imports::trace(host, python, target);
    let installed = Installed::list(host, &python.site_packages);
    let reader = PackageReader { host, searcher, image, python, installed: &installed };

    let named = if uses.is_empty() { reader.imported(&imports) } else { reader.named(uses) };
    let mut found = reader.examine(named, target);
    if found.is_empty() {
        // Nothing recognised: all that is installed counts, and how far depends on what could be seen.
        let closed = !imports.is_open && imports.installed.is_empty();
        let standing = if closed { Standing::Installed } else { Standing::Possible };
        found = reader.examine(reader.everything(standing), target);
    }
    for (package, requirements) in found {
        target.watched.insert(package.directory.clone());
        target.packages.push(package);
        target.requirements.extend(requirements);
    }
    reader.written_out(&imports, target);
}

struct PackageReader<'a> {
    host: &'a Host,
    searcher: &'a Searcher<'a>,
    image: &'a Image,
    python: &'a Python,
    installed: &'a Installed,
}

impl PackageReader<'_> {
    /// The packages that the program imports, and those that they bring along.
    fn imported(&self, imports: &Imports) -> Vec<Candidate<'static>> {
        let mut modules: BTreeMap<String, String> = BTreeMap::new();
        for (module, place) in &imports.installed {
            modules.entry(module.clone()).or_insert_with(|| place.describe());
            for distribution in self.installed.closure(self.host, &metadata::normalised(module)) {
                let brought = distribution.replace('-', "_");
                modules
                    .entry(brought)
                    .or_insert_with(|| format!("{module}, imported by {}", place.describe()));
            }
        }
        self.candidates(modules, Standing::Imported)
    }

    fn named(&self, uses: &[String]) -> Vec<Candidate<'static>> {
        let modules = uses.iter().map(|name| (name.replace('-', "_"), "--uses".to_owned()));
        self.candidates(modules.collect(), Standing::Imported)
    }

    /// Every top-level package that is installed, except libraries themselves.
    fn everything(&self, standing: Standing) -> Vec<Candidate<'static>> {
        let mut modules = BTreeMap::new();
        for site in &self.python.site_packages {
            for entry in self.host.list(site).unwrap_or_default() {
                let Ok(name) = entry.name.into_string() else { continue };
                let is_record =
                    [".dist-info", ".egg-info", ".libs", ".pth", ".py"].iter().any(|end| name.ends_with(end));
                let top = name.split('.').next().unwrap_or_default().to_owned();
                if !is_record && !matches!(name.as_str(), "nvidia" | "__pycache__") && !top.is_empty() {
                    modules.insert(top, String::new());
                }
            }
        }
        self.candidates(modules, standing)
    }

    /// Modules that belong to one framework are one candidate.
    fn candidates(&self, modules: BTreeMap<String, String>, standing: Standing) -> Vec<Candidate<'static>> {
        let mut found: Vec<Candidate<'static>> = Vec::new();
        for (module, by) in modules {
            let imported_by = (!by.is_empty()).then_some(by);
            match catalog().frameworks.iter().find(|framework| framework.is_module(&module)) {
                Some(framework) if found.iter().any(|candidate| candidate.name == framework.name) => {}
                Some(framework) => found.extend(self.of_framework(framework, standing, imported_by)),
                None => found.extend(self.of_module(&module, standing, imported_by)),
            }
        }
        found
    }

    fn of_framework(
        &self,
        framework: &'static Framework,
        standing: Standing,
        imported_by: Option<String>,
    ) -> Option<Candidate<'static>> {
        let in_site = |site: &PathBuf| {
            let directories =
                framework.packages.iter().flat_map(|pattern| framework::expand(self.host, site, pattern));
            let present: Vec<PathBuf> =
                directories.filter(|directory| self.host.is_directory(directory)).collect();
            (!present.is_empty()).then(|| (site.clone(), present))
        };
        let (site, directories) = self.python.site_packages.iter().find_map(in_site)?;
        let name = framework.name.clone();
        Some(Candidate { name, site, framework: Some(framework), directories, standing, imported_by })
    }

    fn of_module(
        &self,
        module: &str,
        standing: Standing,
        imported_by: Option<String>,
    ) -> Option<Candidate<'static>> {
        let site = self.python.site_packages.iter().find(|site| {
            self.host.is_directory(&site.join(module)) || !self.extensions(site, module).is_empty()
        })?;
        let directory = site.join(module);
        Some(Candidate {
            name: module.to_owned(),
            site: site.clone(),
            framework: None,
            directories: vec![directory],
            standing,
            imported_by,
        })
    }

    /// Extension modules that stand right in site-packages: `name.cpython-312-x86_64-linux-gnu.so`.
    fn extensions(&self, site: &Path, module: &str) -> Vec<PathBuf> {
        let entries = self.host.list(site).unwrap_or_default();
        let is_it = |name: &OsStr| {
            let name = name.as_bytes();
            name.strip_prefix(module.as_bytes()).is_some_and(|rest| rest.starts_with(b"."))
                && name.ends_with(b".so")
        };
        entries
            .iter()
            .filter(|entry| entry.kind != Kind::Directory && is_it(&entry.name))
            .map(|entry| site.join(&entry.name))
            .collect()
    }

    /// Those of the candidates that use a GPU, with what they ask for.
    fn examine(
        &self,
        candidates: Vec<Candidate<'_>>,
        target: &mut Target,
    ) -> Vec<(Package, Vec<Requirement>)> {
        let executable =
            self.host.canonical(&self.image.path).ok().and_then(|path| self.searcher.object(&path));
        candidates
            .into_iter()
            .filter_map(|candidate| {
                let mut walk = Walk::new(self.searcher, executable.clone(), executable::is_library);
                for object in self.objects(&candidate).iter().filter_map(|path| self.searcher.object(path)) {
                    walk.from(object);
                }
                // What the system's own libraries ask for is no need of this package.
                let below = |consumer: &Consumer| consumer.object.path.starts_with(&candidate.site);
                let consumers: Vec<Consumer> =
                    walk.consumers.into_iter().filter(below).filter(is_consumer).collect();
                let assessed = self.assess(&candidate, &consumers)?;
                target
                    .own_directories
                    .extend(consumers.into_iter().flat_map(|consumer| consumer.search_later));
                Some(assessed)
            })
            .collect()
    }

    fn objects(&self, candidate: &Candidate<'_>) -> Vec<PathBuf> {
        let prune =
            |name: &OsStr| matches!(name.as_bytes(), b"include" | b"__pycache__" | b"share" | b"tests");
        let is_object = |path: &PathBuf| {
            let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
            memchr::memmem::find(name, b".so").is_some()
        };
        let below = candidate.directories.iter().flat_map(|directory| self.host.walk(directory, &prune));
        below.filter(is_object).chain(self.extensions(&candidate.site, &candidate.name)).collect()
    }

    fn assess(
        &self,
        candidate: &Candidate<'_>,
        consumers: &[Consumer],
    ) -> Option<(Package, Vec<Requirement>)> {
        let profile = candidate.framework;
        let cuda = profile.and_then(|framework| framework::cuda(self.host, &candidate.site, framework));
        let distribution = self.distribution(candidate);
        let version = distribution.map(|name| self.installed.distributions[name].version.clone());
        let title = match &version {
            Some(version) => format!("{} {version}", candidate.name),
            None => candidate.name.clone(),
        };
        let by = asker(
            &title,
            &candidate.directories[0],
            cuda.as_ref().map(|cuda| cuda.value.major),
            candidate.standing,
        );

        let mut requirements = Vec::new();
        for consumer in consumers {
            let by = Asker { file: consumer.object.path.clone(), ..by.clone() };
            requirements.extend(linked(self.host, consumer, &by, Need::Used));
            if let Some(bundled) = bundled(consumer, &by) {
                requirements.push(bundled);
            } else if profile.is_none() {
                let opened = names_in(self.host, &consumer.object);
                requirements.extend(opened_names(
                    &opened,
                    &by,
                    &First::rpath(&consumer.search_first),
                    Need::Named,
                ));
            }
        }
        let records = Records { host: self.host, installed: self.installed, site: &candidate.site, by: &by };
        if let Some(framework) = profile {
            requirements.extend(records.of_profile(framework, consumers, cuda.as_ref()));
        }
        if !requirements
            .iter()
            .any(|requirement| matches!(requirement.want, Want::Name(_) | Want::Exactly(_)))
        {
            return None;
        }
        if let Some(distribution) = distribution {
            requirements.extend(records.pins(distribution));
        }
        if let Some(framework) = profile {
            let first = recorded::opened_by_path(self.host, &candidate.site, framework, version.as_deref());
            for requirement in requirements.iter_mut().filter(|r| matches!(r.want, Want::Name(_))) {
                requirement.search_first.splice(0..0, first.iter().cloned());
            }
        }
        if candidate.standing != Standing::Imported {
            for requirement in &mut requirements {
                requirement.need = requirement.need.max(Need::Used);
                if candidate.standing == Standing::Installed {
                    requirement.search_first.clear();
                }
            }
        }
        let package = Package {
            name: candidate.name.clone(),
            version,
            directory: candidate.directories[0].clone(),
            cuda: cuda.map(|cuda| cuda.value),
            standing: candidate.standing,
            imported_by: candidate.imported_by.clone(),
        };
        Some((package, requirements))
    }

    /// The distribution that a package came with.
    fn distribution(&self, candidate: &Candidate<'_>) -> Option<&str> {
        let own = metadata::normalised(&candidate.name);
        let names = candidate.framework.map_or(&[][..], |framework| &framework.distributions);
        let names = names.iter().map(String::as_str).chain([own.as_str()]);
        let found = names.into_iter().find_map(|name| self.installed.distributions.get_key_value(name))?;
        (found.1.site == candidate.site).then_some(found.0.as_str())
    }

    /// Library names in the program's own strings: it opens them itself.
    fn written_out(&self, imports: &Imports, target: &mut Target) {
        let executable =
            self.host.canonical(&self.image.path).ok().and_then(|path| self.searcher.object(&path));
        let chain: Vec<_> = executable.into_iter().collect();
        let search_first = First::rpath(&self.searcher.rpath_directories(&chain));
        for (name, place) in &imports.libraries {
            let by = asker(&place.name(), &place.file, None, Standing::Imported);
            let by = Asker { line: Some(place.line), ..by };
            target.requirements.extend(opened_names([name], &by, &search_first, Need::Named));
        }
    }
}

/// A file that auditwheel packed in asks for the rest of its family in exactly its own version.
fn bundled(consumer: &Consumer, by: &Asker) -> Option<Requirement> {
    let name = consumer.object.path.file_name()?.to_str()?;
    let (stem, suffix) = names::split(name)?;
    let stem = names::without_hash(stem)?;
    let family = catalog().families.iter().find(|family| family.has_member(stem) && family.opens_own)?;
    let version = suffix.parse::<Version>().ok().filter(|version| version.numbers().len() >= 3)?;
    Some(Requirement {
        family: family.name.clone(),
        want: Want::Exactly(version),
        need: Need::Essential,
        by: by.clone(),
        search_first: First::rpath(&consumer.search_first),
    })
}

/// A library of NVIDIA's that a package keeps for itself is not what asks for libraries.
fn is_consumer(consumer: &Consumer) -> bool {
    let name = consumer.object.path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    !executable::is_library(name)
}
