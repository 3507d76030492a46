//! Extension modules that are built against a Python framework, compared with the framework that is installed: the
//! symbols and libraries that it lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::installation::Extension;
use super::location::ScanContext;
use super::machine::ExtensionScope;
use super::records;
use super::wheel::{self, SitePackage};
use crate::catalog::{Framework, catalog};
use crate::formats::elf::Elf;
use crate::formats::metadata::{self, Requires};
use crate::formats::names::{self, matches_pattern};
use crate::host::{Host, MappedBytes, Stat};
use crate::parallel;

/// A shared object and the distribution that brought it.
struct Module<'d> {
    path: PathBuf,
    stat: Stat,
    distribution: Option<&'d SitePackage>,
}

/// Returns the extension modules in the scope that use a framework, sorted by path; none if the scope asks for none. A second
/// call reads only the lists of files, unless one of the files has changed.
pub(super) fn find(scan: &mut ScanContext<'_>) -> Option<Vec<Extension>> {
    let host = scan.host;
    let scope = scan.scope;
    match &scope.extensions {
        ExtensionScope::None => return None,
        ExtensionScope::Only(files) if files.is_empty() => return Some(Vec::new()),
        ExtensionScope::Only(_) | ExtensionScope::All => {}
    }
    let sites = &scope.site_packages;
    let distributions: Vec<SitePackage> = sites
        .iter()
        .flat_map(|site| wheel::distributions(host, site))
        .collect();
    let mut extensions = Vec::new();
    for framework in &catalog().frameworks {
        if framework.own_libraries.is_empty() {
            continue;
        }
        let core = Path::new(&framework.core_objects[0]).parent();
        let directory = core.unwrap_or(Path::new(""));
        let mut directories = sites.iter().map(|site| site.join(directory));
        let Some((directory, stat)) =
            directories.find_map(|path| host.stat(&path).ok().map(|stat| (path, stat)))
        else {
            continue;
        };
        // Some packagers keep a part of the framework elsewhere, and then nothing can be told from this directory.
        let is_whole = |site: &PathBuf| {
            let last = framework.core_objects.last();
            last.is_some_and(|core| host.is_file(&site.join(core)))
        };
        if !sites.iter().any(is_whole) {
            continue;
        }
        let libraries = host.list(&directory).unwrap_or_default().into_iter();
        let libraries: Vec<PathBuf> = libraries.map(|entry| directory.join(&entry.name)).collect();
        let modules = match &scope.extensions {
            ExtensionScope::Only(files) => named(host, files, &distributions),
            _ => modules(host, framework, &distributions),
        };
        // One answer is kept for all modules, and one for those of each program.
        let key = match (&scope.extensions, modules.first()) {
            (ExtensionScope::Only(_), Some(first)) => first.stat,
            _ => stat,
        };
        let print = fingerprint(scan, &libraries, &modules);
        if let Some((cached_print, found)) = scan.cache.extensions.get(&key)
            && Some(cached_print) == print
        {
            extensions.extend(found);
            continue;
        }
        let found = compare(host, framework, &libraries, &modules, &distributions);
        if let Some(print) = print {
            scan.cache.extensions.insert(&key, &(print, found.clone()));
        }
        extensions.extend(found);
    }
    extensions.sort_by(|a, b| a.path.cmp(&b.path));
    extensions.dedup();
    Some(extensions)
}

/// True if a shared object is linked against a library of the framework, or imports symbols that only these export.
pub fn is_built_against(host: &Host, framework: &Framework, object: &Path) -> bool {
    !framework.own_libraries.is_empty() && Use::read(host, framework, object).is_some()
}

/// True if one of these libraries, which an object is linked against, is one that only a framework has.
pub fn is_linked_against_framework(needed: &[String]) -> bool {
    let mut frameworks = catalog().frameworks.iter();
    frameworks.any(|framework| needed.iter().any(|name| is_of(framework, name)))
}

/// These files, with their distributions.
fn named<'d>(
    host: &Host,
    files: &BTreeMap<PathBuf, String>,
    distributions: &'d [SitePackage],
) -> Vec<Module<'d>> {
    let mut modules = Vec::new();
    for (path, distribution) in files {
        if let Ok(stat) = host.stat(path) {
            modules.push(Module {
                path: path.clone(),
                stat,
                distribution: distributions.iter().find(|one| one.name == *distribution),
            });
        }
    }
    modules
}

/// The shared objects in the records of distributions, other than those of the framework and of NVIDIA.
fn modules<'d>(
    host: &Host,
    framework: &Framework,
    distributions: &'d [SitePackage],
) -> Vec<Module<'d>> {
    let answers = parallel::map(distributions, |distribution| {
        let mut found = Vec::new();
        if framework.distributions.contains(&distribution.name) {
            return found;
        }
        let record = host.read(&distribution.directory.join("RECORD"));
        let record = record.unwrap_or_default();
        for (path, _) in metadata::record(&record, &|path| !records::is_library(path)) {
            let path = distribution.directory.with_file_name(path);
            if let Ok(stat) = host.stat(&path) {
                found.push((path, stat));
            }
        }
        found
    });
    let mut modules = Vec::new();
    for (distribution, found) in distributions.iter().zip(answers) {
        for (path, stat) in found {
            modules.push(Module {
                path,
                stat,
                distribution: Some(distribution),
            });
        }
    }
    modules
}

/// Identifies everything that is compared; none if a file has just changed.
fn fingerprint(
    scan: &ScanContext<'_>,
    libraries: &[PathBuf],
    modules: &[Module<'_>],
) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let mut files: Vec<(&PathBuf, Stat)> = Vec::new();
    for path in libraries {
        files.extend(scan.host.stat(path).map(|stat| (path, stat)));
    }
    files.extend(modules.iter().map(|module| (&module.path, module.stat)));
    for (path, stat) in files {
        if !scan.cache.is_settled(&stat) {
            return None;
        }
        // A path that is not text would not come back as it was.
        path.to_str()?.hash(&mut hasher);
        (stat.id.device, stat.id.inode, stat.size).hash(&mut hasher);
        (stat.modified, stat.changed).hash(&mut hasher);
    }
    for one in modules.iter().filter_map(|module| module.distribution) {
        (&one.name, &one.version).hash(&mut hasher);
    }
    Some(hasher.finish())
}

fn compare(
    host: &Host,
    framework: &Framework,
    libraries: &[PathBuf],
    modules: &[Module<'_>],
    distributions: &[SitePackage],
) -> Vec<Extension> {
    let uses = parallel::map(modules, |module| Use::read(host, framework, &module.path));
    if uses.iter().all(Option::is_none) {
        return Vec::new();
    }
    let installed = InstalledFramework::read(host, framework, libraries, modules);
    let mut distributions = distributions.iter();
    let distribution = distributions.find(|one| framework.distributions.contains(&one.name));
    let title = match distribution {
        Some(distribution) => format!("{} {}", framework.name, distribution.version),
        None => framework.name.clone(),
    };
    let mut extensions = Vec::new();
    let mut linked = Vec::new();
    for (module, uses) in modules.iter().zip(uses) {
        let Some(uses) = uses else { continue };
        let distribution = module.distribution;
        let metadata = distribution.map(|one| host.read_text(&one.directory.join("METADATA")));
        let metadata = metadata.and_then(Result::ok).unwrap_or_default();
        let requires = metadata::requirements(&metadata);
        let mut requires = requires.iter();
        let pin = requires
            .find(|requires| framework.distributions.contains(&requires.name))
            .and_then(Requires::pinned);
        let package = match distribution {
            Some(SitePackage { name, version, .. }) => format!("{name} {version}"),
            None => file_name(&module.path).to_owned(),
        };
        extensions.push(Extension {
            path: module.path.clone(),
            package,
            framework: title.trim_end().to_owned(),
            built_for: pin.map(|pin| pin.to_string()),
            lacks_symbols: installed.lacking_symbols(host, &module.path, &uses),
            lacks_libraries: installed.lacking_libraries(&uses),
        });
        linked.push(uses.needed);
    }
    add_lacks_of_linked(&mut extensions, &linked);
    extensions
}

/// A module cannot be loaded without the modules that it is linked against: it lacks what these lack.
fn add_lacks_of_linked(extensions: &mut [Extension], linked: &[Vec<String>]) {
    let own = extensions.to_vec();
    for (index, extension) in extensions.iter_mut().enumerate() {
        let mut seen = BTreeSet::from([index]);
        let mut next = vec![index];
        while let Some(of) = next.pop() {
            let place = |name: &String| {
                let mut all = own.iter();
                all.position(|one| file_name(&one.path) == name && one.package == extension.package)
            };
            let others: Vec<usize> = linked[of].iter().filter_map(place).collect();
            for other in others {
                if seen.insert(other) {
                    let Extension {
                        lacks_symbols,
                        lacks_libraries,
                        ..
                    } = &own[other];
                    extension.lacks_symbols.extend_from_slice(lacks_symbols);
                    extension.lacks_libraries.extend_from_slice(lacks_libraries);
                    next.push(other);
                }
            }
        }
        for lacks in [&mut extension.lacks_symbols, &mut extension.lacks_libraries] {
            lacks.sort();
            lacks.dedup();
        }
    }
}

/// A framework's libraries, and the modules beside them.
struct InstalledFramework<'m> {
    framework: &'m Framework,
    libraries: Vec<ExtensionLibrary>,
    /// What these are linked against.
    linked: BTreeSet<String>,
    /// The file names of all its files.
    names: BTreeSet<&'m str>,
    /// The extension modules by file name.
    modules: BTreeMap<&'m str, &'m Path>,
}

impl<'m> InstalledFramework<'m> {
    fn read(
        host: &Host,
        framework: &'m Framework,
        paths: &'m [PathBuf],
        modules: &'m [Module<'_>],
    ) -> InstalledFramework<'m> {
        let libraries = parallel::map(paths, |path| ExtensionLibrary::read(host, path));
        let mut by_name = BTreeMap::new();
        for module in modules {
            by_name.insert(file_name(&module.path), module.path.as_path());
        }
        let libraries: Vec<ExtensionLibrary> = libraries.into_iter().flatten().collect();
        let linked = libraries
            .iter()
            .flat_map(|library| library.needed.iter().cloned());
        InstalledFramework {
            framework,
            linked: linked.collect(),
            libraries,
            names: paths
                .iter()
                .filter_map(|path| path.file_name()?.to_str())
                .collect(),
            modules: by_name,
        }
    }

    /// The libraries of the framework that are missing, and those of NVIDIA's of which the framework is linked against
    /// another number.
    fn lacking_libraries(&self, uses: &Use) -> Vec<String> {
        let mut lacking = uses.needed.clone();
        lacking.retain(|name| {
            let is_present =
                self.names.contains(name.as_str()) || self.modules.contains_key(name.as_str());
            let is_other_number = catalog().family_of(name).is_some()
                && !self.linked.contains(name)
                && self.linked.iter().any(|other| stem(other) == stem(name));
            is_of(self.framework, name) && !is_present || is_other_number
        });
        lacking
    }

    /// The symbols that neither the framework nor a module that it is linked against exports.
    fn lacking_symbols(&self, host: &Host, module: &Path, uses: &Use) -> Vec<String> {
        let mut lacking: Vec<&String> = uses.symbols.iter().collect();
        for library in &self.libraries {
            library.supply(&mut lacking);
        }
        for name in &uses.needed {
            if lacking.is_empty() {
                break;
            }
            let path = match self.modules.get(name.as_str()) {
                Some(path) => path.to_path_buf(),
                None => module.with_file_name(name),
            };
            if let Some(library) = ExtensionLibrary::read(host, &path) {
                library.supply(&mut lacking);
            }
        }
        lacking.into_iter().cloned().collect()
    }
}

/// The parts of an extension module that concern a framework.
struct Use {
    needed: Vec<String>,
    symbols: Vec<String>,
}

/// A library of a framework, or one beside an extension module.
struct ExtensionLibrary {
    data: MappedBytes,
    needed: Vec<String>,
}

impl Extension {
    /// What modules have in common that are variants of one.
    pub(super) fn path_without_digits(&self) -> String {
        let path = self.path.to_string_lossy();
        path.replace(|character: char| character.is_ascii_digit(), "")
    }

    /// True if its file is named for another release of the framework: `torch24` beside torch 2.10.
    pub(super) fn is_named_for_another_release(&self) -> bool {
        let Some((framework, version)) = self.framework.split_once(' ') else {
            return false;
        };
        let file = self.path.file_name().unwrap_or_default().to_string_lossy();
        let own: String = version.split('.').take(2).collect();
        file.split(framework).skip(1).any(|rest| {
            let end = rest.find(|character: char| !character.is_ascii_digit());
            let digits = &rest[..end.unwrap_or(rest.len())];
            digits.len() > 1 && digits != own
        })
    }
}

impl ExtensionLibrary {
    fn read(host: &Host, path: &Path) -> Option<ExtensionLibrary> {
        let data = host.map(path).ok()?;
        let needed = needed(&Elf::parse(&data).ok()?);
        Some(ExtensionLibrary { data, needed })
    }

    /// Drops the symbols that it exports.
    fn supply(&self, lacking: &mut Vec<&String>) {
        if let Ok(elf) = Elf::parse(&self.data) {
            lacking.retain(|symbol| !elf.exports(symbol.as_bytes()));
        }
    }
}

impl Use {
    /// None for a module that is linked against no library of the framework and imports none of its symbols.
    fn read(host: &Host, framework: &Framework, path: &Path) -> Option<Use> {
        let data = host.map(path).ok()?;
        let elf = Elf::parse(&data).ok()?;
        let namespaces = framework.namespaces.as_deref().unwrap_or_default();
        let mut symbols = Vec::new();
        for symbol in elf.symbols() {
            if !symbol.defined
                && !symbol.weak
                && let Ok(name) = std::str::from_utf8(symbol.name)
                && is_in(namespaces, name)
            {
                symbols.push(name.to_owned());
            }
        }
        let needed = needed(&elf);
        let is_linked = needed.iter().any(|name| is_of(framework, name));
        (is_linked || !symbols.is_empty()).then_some(Use { needed, symbols })
    }
}

fn needed(elf: &Elf<'_>) -> Vec<String> {
    elf.needed()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
}

/// The file name of a path; empty for one that is not text.
fn file_name(path: &Path) -> &str {
    path.file_name().and_then(OsStr::to_str).unwrap_or_default()
}

fn stem(name: &str) -> &str {
    names::split(name).map_or(name, |(stem, _)| stem)
}

/// True for a library of the framework.
fn is_of(framework: &Framework, name: &str) -> bool {
    framework
        .own_libraries
        .iter()
        .any(|pattern| matches_pattern(pattern, stem(name)))
}

/// True for a C++ name of one of these namespaces, as the Itanium ABI writes it: `_ZNK3c106Device3strEv`.
fn is_in(namespaces: &[String], symbol: &str) -> bool {
    let Some(name) = symbol.strip_prefix("_Z") else {
        return false;
    };
    let nested = name.trim_start_matches(|c: char| c.is_ascii_uppercase());
    let digits = nested.bytes().take_while(u8::is_ascii_digit).count();
    let (length, rest) = nested.split_at(digits);
    let first = length
        .parse()
        .ok()
        .and_then(|length: usize| rest.get(..length));
    let is_nested = name[..name.len() - nested.len()].contains('N');
    is_nested
        && namespaces
            .iter()
            .any(|namespace| Some(namespace.as_str()) == first)
}
