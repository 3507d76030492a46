//! The packages that may use a GPU, with their files: those that the program imports, that the user names, or that are
//! installed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::distributions::Installed;
use super::framework;
use super::imports::{Imports, SourceLine};
use crate::catalog::{Framework, catalog};
use crate::error::Error;
use crate::formats::metadata;
use crate::host::{FileKind, Host};
use crate::requirements::ImportCertainty;

/// A package that may turn out to use a GPU.
#[derive(Default)]
pub(super) struct PackageCandidate {
    pub name: String,
    /// A directory, or the one file of an extension module.
    pub place: PathBuf,
    /// The site-packages directories that hold its parts; empty for the program's own modules.
    pub sites: Vec<PathBuf>,
    pub framework: Option<&'static Framework>,
    pub directories: Vec<PathBuf>,
    /// Its extension modules outside of these.
    pub extensions: Vec<PathBuf>,
    pub certainty: ImportCertainty,
    pub imported_by: Option<String>,
    /// It comes with an imported package and is no known framework: perhaps it is never imported itself.
    pub is_brought: bool,
    /// The program calls the function that opens the libraries in NVIDIA's wheels.
    pub is_told_wheels: bool,
}

/// The Python environment in which candidates are found.
pub(super) struct Candidates<'a> {
    pub host: &'a Host,
    pub sites: &'a [PathBuf],
    pub installed: &'a Installed<'a>,
}

impl Candidates<'_> {
    /// The packages that the program imports, those that they depend on, and its own extension modules.
    pub(super) fn imported(&self, imports: &Imports) -> Vec<PackageCandidate> {
        let mut modules: BTreeMap<String, String> = BTreeMap::new();
        for (module, place) in &imports.installed {
            modules
                .entry(module.clone())
                .or_insert_with(|| place.describe());
            let Some(distribution) = self.installed.of_module(module) else {
                continue;
            };
            let closure = self.installed.closure(distribution);
            for brought in closure
                .iter()
                .flat_map(|name| self.installed.modules_of(name))
            {
                modules
                    .entry(brought)
                    .or_insert_with(|| format!("{module}, imported by {}", place.describe()));
            }
        }
        let mut found = self.candidates(modules, ImportCertainty::Imported);
        for candidate in &mut found {
            match candidate
                .framework
                .map(|framework| &framework.dlopens_wheels_by)
            {
                None => candidate.is_brought = !imports.installed.contains_key(&candidate.name),
                Some(by) => {
                    candidate.is_told_wheels =
                        by.as_ref().is_some_and(|by| imports.called.contains(by));
                }
            }
        }
        found.extend(
            imports
                .extensions
                .iter()
                .map(|(file, place)| own_extension(file, place)),
        );
        found
    }

    /// The packages that the user named. Fails where one is not installed.
    pub(super) fn named(&self, uses: &[String]) -> Result<Vec<PackageCandidate>, Error> {
        let mut modules = BTreeMap::new();
        for name in uses {
            let mut brought = self.installed.modules_of(&metadata::normalised(name));
            brought.insert(name.replace('-', "_"));
            brought.retain(|module| {
                let framework = catalog().framework_of(module);
                let names = framework.map_or(&[][..], |framework| &framework.modules);
                [module]
                    .into_iter()
                    .chain(names)
                    .any(|module| self.is_installed(module))
            });
            if brought.is_empty() {
                return Err(Error::NoSuchPackage {
                    name: name.clone(),
                    sites: self.sites.to_vec(),
                });
            }
            modules.extend(
                brought
                    .into_iter()
                    .map(|module| (module, "--uses".to_owned())),
            );
        }
        Ok(self.candidates(modules, ImportCertainty::Imported))
    }

    /// Every top-level package that is installed, except libraries themselves.
    pub(super) fn everything(&self) -> Vec<PackageCandidate> {
        let known = catalog()
            .frameworks
            .iter()
            .flat_map(|framework| &framework.modules);
        let mut modules: BTreeSet<String> = known
            .filter(|module| module.contains('.'))
            .cloned()
            .collect();
        for site in self.sites {
            for entry in self.host.listing(site).unwrap_or_default().iter() {
                let Some(name) = entry.name.to_str() else {
                    continue;
                };
                let is_record = [".dist-info", ".egg-info", ".libs", ".pth", ".py"]
                    .iter()
                    .any(|end| name.ends_with(end));
                let top = name.split('.').next().unwrap_or_default().to_owned();
                if !is_record && name != "__pycache__" && !top.is_empty() {
                    modules.insert(top);
                }
            }
        }
        self.possible(modules)
    }

    /// The candidates of modules whose importers are not known.
    pub(super) fn possible(&self, modules: BTreeSet<String>) -> Vec<PackageCandidate> {
        let modules = modules
            .into_iter()
            .map(|module| (module, String::new()))
            .collect();
        self.candidates(modules, ImportCertainty::Possible)
    }

    /// The candidates of these modules, each with its importer, or with an empty text. Modules of one framework are one
    /// candidate.
    fn candidates(
        &self,
        modules: BTreeMap<String, String>,
        certainty: ImportCertainty,
    ) -> Vec<PackageCandidate> {
        let mut found: Vec<PackageCandidate> = Vec::new();
        for (module, importer) in modules {
            if self.is_shared(&module) {
                continue;
            }
            let framework = catalog()
                .framework_of(&module)
                .filter(|framework| self.is_there(framework));
            // A framework imports the ones that it is built upon first.
            let imports = framework
                .and_then(|framework| framework.imports.as_deref())
                .unwrap_or_default();
            let used = catalog()
                .frameworks
                .iter()
                .filter(|known| imports.contains(&known.name))
                .chain(framework);
            let before = found.len();
            for framework in used {
                if found
                    .iter()
                    .all(|candidate| candidate.name != framework.name)
                {
                    found.extend(self.of_framework(framework));
                }
            }
            if framework.is_none() {
                found.extend(self.of_module(&module));
            }
            for candidate in &mut found[before..] {
                candidate.certainty = certainty;
                candidate.imported_by = Some(importer.clone()).filter(|name| !name.is_empty());
            }
        }
        found
    }

    /// True if a directory of the framework is there. A module of its name alone may be another package.
    fn is_there(&self, framework: &Framework) -> bool {
        framework
            .packages
            .iter()
            .flat_map(|pattern| framework::expand(self.host, self.sites, pattern))
            .any(|part| self.is_part(&part))
    }

    /// True for the directory that NVIDIA's wheels share, because it holds installations, and for one that several
    /// frameworks share.
    fn is_shared(&self, module: &str) -> bool {
        module == "nvidia"
            || catalog().frameworks.iter().any(|framework| {
                framework.modules.iter().any(|name| {
                    name.strip_prefix(module)
                        .is_some_and(|rest| rest.starts_with('.'))
                }) && self.is_there(framework)
            })
    }

    /// True for a package, and for a module that is one file.
    fn is_part(&self, path: &Path) -> bool {
        self.host.is_directory(path) || self.host.is_file(path)
    }

    fn is_installed(&self, module: &str) -> bool {
        self.sites.iter().any(|site| self.is_in(site, module))
    }

    fn is_in(&self, site: &Path, module: &str) -> bool {
        self.host.is_directory(&site.join(module)) || !self.extensions(site, module).is_empty()
    }

    /// Takes each part of a framework from the first directory that has it, as Python does.
    fn of_framework(&self, framework: &'static Framework) -> Option<PackageCandidate> {
        let (mut sites, mut directories) = (Vec::new(), Vec::new());
        for pattern in &framework.packages {
            let present = self.sites.iter().find_map(|site| {
                let mut found = framework::expand(self.host, std::slice::from_ref(site), pattern);
                found.retain(|found| self.is_part(found));
                (!found.is_empty()).then(|| (site.clone(), found))
            });
            let Some((site, present)) = present else {
                continue;
            };
            if !sites.contains(&site) {
                sites.push(site);
            }
            directories.extend(present);
        }
        Some(PackageCandidate {
            name: framework.name.clone(),
            place: directories.first()?.clone(),
            sites,
            framework: Some(framework),
            directories,
            ..PackageCandidate::default()
        })
    }

    fn of_module(&self, module: &str) -> Option<PackageCandidate> {
        let site = self.sites.iter().find(|site| self.is_in(site, module))?;
        Some(PackageCandidate {
            name: module.to_owned(),
            place: site.join(module),
            sites: vec![site.clone()],
            directories: vec![site.join(module)],
            extensions: self.extensions(site, module),
            ..PackageCandidate::default()
        })
    }

    /// The extension modules of this name in a site: `name.cpython-312-x86_64-linux-gnu.so`.
    fn extensions(&self, site: &Path, module: &str) -> Vec<PathBuf> {
        let prefix = format!("{module}.");
        let entries = self.host.listing(site).unwrap_or_default();
        entries
            .iter()
            .filter(|entry| {
                let name = entry.name.as_bytes();
                entry.kind != FileKind::Directory
                    && name.starts_with(prefix.as_bytes())
                    && name.ends_with(b".so")
            })
            .map(|entry| site.join(&entry.name))
            .collect()
    }
}

impl PackageCandidate {
    pub(super) fn is_imported(&self) -> bool {
        self.certainty == ImportCertainty::Imported
    }

    /// True if a file is in its site-packages, or one of its extension modules.
    pub(super) fn holds(&self, file: &Path) -> bool {
        self.sites.iter().any(|site| file.starts_with(site))
            || self.extensions.iter().any(|extension| extension == file)
    }

    /// True if library names in the constants of its shared objects count as opened at run time.
    pub(super) fn scans_objects(&self) -> bool {
        self.framework
            .is_none_or(|framework| framework.scan_objects)
    }

    /// The files that may be its shared objects.
    pub(super) fn objects(&self, host: &Host) -> Vec<PathBuf> {
        let mut objects = Vec::new();
        for directory in &self.directories {
            objects.extend(host.walk(directory, &|name: &OsStr| {
                matches!(
                    name.as_bytes(),
                    b"include" | b"__pycache__" | b"share" | b"tests"
                )
            }));
        }
        objects.retain(|path| {
            let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
            memchr::memmem::find(name, b".so").is_some()
        });
        objects.extend_from_slice(&self.extensions);
        objects
    }
}

fn own_extension(file: &Path, place: &SourceLine) -> PackageCandidate {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    PackageCandidate {
        name: name.split('.').next().unwrap_or_default().to_owned(),
        place: file.to_owned(),
        extensions: vec![file.to_owned()],
        imported_by: Some(place.describe()),
        ..PackageCandidate::default()
    }
}
