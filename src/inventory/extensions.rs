//! Extension modules that are built against a Python framework, compared with the framework that is installed: the
//! symbols and libraries that it lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use super::installation::Extension;
use super::location::ScanContext;
use super::records;
use super::wheel::{self, SitePackage};
use crate::catalog::{Framework, catalog};
use crate::formats::elf::{self, Elf};
use crate::formats::metadata::{self, Requires};
use crate::formats::names::{self, matches_pattern};
use crate::formats::symbols::{Exports, RequiredSymbol};
use crate::host::{Host, Stat};
use crate::parallel;

/// A shared object and the distribution that brought it.
struct Module<'d> {
    path: PathBuf,
    stat: Stat,
    by: &'d SitePackage,
}

/// Returns the extension modules in the program's site-packages that use a framework, sorted by path. A second call
/// reads only the lists of files, unless one of the files has changed.
pub(super) fn find(look: &mut ScanContext<'_>) -> Vec<Extension> {
    let host = look.host;
    let sites = &look.scope.site_packages;
    let distributions: Vec<SitePackage> = sites
        .iter()
        .flat_map(|site| wheel::distributions(host, site))
        .collect();
    let mut all = Vec::new();
    for framework in catalog()
        .frameworks
        .iter()
        .filter(|framework| !framework.own_libraries.is_empty())
    {
        let directory = Path::new(&framework.core_objects[0])
            .parent()
            .unwrap_or(Path::new(""));
        let mut directories = sites.iter().map(|site| site.join(directory));
        let Some((directory, stat)) =
            directories.find_map(|path| host.stat(&path).ok().map(|stat| (path, stat)))
        else {
            continue;
        };
        let libraries = look.host.list(&directory).unwrap_or_default().into_iter();
        let libraries: Vec<PathBuf> = libraries.map(|entry| directory.join(&entry.name)).collect();
        let modules = modules(host, framework, &distributions);
        let print = fingerprint(look, &libraries, &modules);
        if let Some((_, found)) = look
            .known
            .extensions
            .get(&stat)
            .filter(|(of, _)| Some(*of) == print)
        {
            all.extend(found);
            continue;
        }
        let found = compare(host, framework, &libraries, &modules, &distributions);
        if let Some(print) = print {
            look.known.extensions.insert(&stat, &(print, found.clone()));
        }
        all.extend(found);
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all.dedup();
    all
}

/// True if a shared object is linked against a library of the framework, or imports symbols that only these export.
pub fn is_built_against(host: &Host, framework: &Framework, object: &Path) -> bool {
    !framework.own_libraries.is_empty() && Use::read(host, framework, object).is_some()
}

/// The shared objects in the records of distributions, other than those of the framework and of NVIDIA.
fn modules<'d>(
    host: &Host,
    framework: &Framework,
    distributions: &'d [SitePackage],
) -> Vec<Module<'d>> {
    let recorded = parallel::map(distributions, |by| {
        let is_other = !framework.distributions.contains(&by.name);
        let record = host
            .read(&by.directory.join("RECORD"))
            .ok()
            .filter(|_| is_other)
            .unwrap_or_default();
        let listed = metadata::record(&record, &|path| !records::is_library(path));
        let paths = listed
            .into_iter()
            .map(|(path, _)| by.directory.with_file_name(path));
        paths
            .filter_map(|path| Some((host.stat(&path).ok()?, path)))
            .collect::<Vec<_>>()
    });
    let modules = distributions.iter().zip(recorded);
    let of = |(by, found): (_, Vec<_>)| {
        found
            .into_iter()
            .map(move |(stat, path)| Module { path, stat, by })
    };
    modules.flat_map(of).collect()
}

/// Identifies everything that is compared; none if a file has just changed.
fn fingerprint(
    look: &ScanContext<'_>,
    libraries: &[PathBuf],
    modules: &[Module<'_>],
) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let of_libraries = libraries
        .iter()
        .filter_map(|path| Some((path, look.host.stat(path).ok()?)));
    for (path, stat) in of_libraries.chain(modules.iter().map(|module| (&module.path, module.stat)))
    {
        // A path that is not text would not come back as it was.
        path.to_str()
            .filter(|_| look.known.is_settled(&stat))?
            .hash(&mut hasher);
        (
            stat.id.device,
            stat.id.inode,
            stat.size,
            stat.modified,
            stat.changed,
        )
            .hash(&mut hasher);
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
    let uses: Vec<(&Module<'_>, Use)> = modules
        .iter()
        .zip(uses)
        .filter_map(|(module, uses)| Some((module, uses?)))
        .collect();
    let is_its = |distribution: &&SitePackage| framework.distributions.contains(&distribution.name);
    let version = distributions
        .iter()
        .find(is_its)
        .map_or("", |distribution| &distribution.version);
    let installed = if uses.is_empty() { &[] } else { libraries };
    let libraries: Vec<ExtensionLibrary> =
        parallel::map(installed, |path| ExtensionLibrary::read(host, path))
            .into_iter()
            .flatten()
            .collect();
    let of_framework = installed
        .iter()
        .filter_map(|path| path.file_name()?.to_str());
    let beside = modules
        .iter()
        .filter_map(|module| Some((module.path.file_name()?.to_str()?, &module.path)));
    let beside: BTreeMap<&str, &PathBuf> = beside.collect();
    let present: BTreeSet<&str> = of_framework.chain(beside.keys().copied()).collect();
    let linked: BTreeSet<&String> = libraries
        .iter()
        .flat_map(|library| &library.needed)
        .collect();
    // A library of the framework that is missing, or one of NVIDIA's of which the framework is linked against another
    // number.
    let is_lacking = |name: &&String| {
        let is_rival = |other: &&String| stem(other) == stem(name);
        let is_nvidias = catalog().family_of(name).is_some() && !linked.contains(name);
        is_of(framework, name) && !present.contains(name.as_str())
            || is_nvidias && linked.iter().any(is_rival)
    };
    let extension = |(module, uses): (&Module<'_>, Use)| {
        let SitePackage {
            directory,
            name,
            version: own,
            ..
        } = module.by;
        let metadata = host
            .read_text(&directory.join("METADATA"))
            .unwrap_or_default();
        let requires = metadata::requirements(&metadata);
        let built_for = requires
            .iter()
            .find(|requires| framework.distributions.contains(&requires.name));
        Extension {
            path: module.path.clone(),
            package: format!("{name} {own}"),
            framework: format!("{} {version}", framework.name)
                .trim_end()
                .to_owned(),
            built_for: built_for
                .and_then(Requires::pinned)
                .map(|pin| pin.to_string()),
            lacks_symbols: uses.lacking_symbols(host, &libraries, &beside),
            lacks_libraries: uses.needed.iter().filter(is_lacking).cloned().collect(),
        }
    };
    uses.into_iter().map(extension).collect()
}

/// The parts of an extension module that concern a framework.
struct Use {
    needed: Vec<String>,
    symbols: Vec<RequiredSymbol>,
}

/// A library of a framework, or one beside an extension module.
struct ExtensionLibrary {
    exports: Exports,
    needed: Vec<String>,
}

impl ExtensionLibrary {
    fn read(host: &Host, path: &Path) -> Option<ExtensionLibrary> {
        let data = host.map(path).ok()?;
        let elf = Elf::parse(&data).ok()?;
        Some(ExtensionLibrary {
            exports: Exports::read(&elf),
            needed: needed(&elf),
        })
    }
}

impl Use {
    /// None for a module that is linked against no library of the framework and imports none of its symbols.
    fn read(host: &Host, framework: &Framework, path: &Path) -> Option<Use> {
        let data = host.map(path).ok()?;
        let elf = Elf::parse(&data).ok()?;
        let imports = elf
            .symbols()
            .into_iter()
            .filter(|symbol| !symbol.defined && !symbol.weak);
        let symbol = |symbol: elf::Symbol<'_>| {
            let name = std::str::from_utf8(symbol.name).ok()?.to_owned();
            is_in(framework.namespaces.as_deref().unwrap_or_default(), &name).then_some(
                RequiredSymbol {
                    name,
                    version: None,
                    file: String::new(),
                },
            )
        };
        let uses = Use {
            symbols: imports.filter_map(symbol).collect(),
            needed: needed(&elf),
        };
        let is_linked = uses.needed.iter().any(|name| is_of(framework, name));
        (is_linked || !uses.symbols.is_empty()).then_some(uses)
    }

    /// The symbols that neither the framework nor a library beside the module exports.
    fn lacking_symbols(
        &self,
        host: &Host,
        libraries: &[ExtensionLibrary],
        beside: &BTreeMap<&str, &PathBuf>,
    ) -> Vec<String> {
        let is_lacked =
            |symbol: &&RequiredSymbol| libraries.iter().all(|library| library.exports.lack(symbol));
        let mut lacked: Vec<&RequiredSymbol> = self.symbols.iter().filter(is_lacked).collect();
        for path in self
            .needed
            .iter()
            .filter_map(|name| beside.get(name.as_str()))
        {
            if let Some(library) = ExtensionLibrary::read(host, path).filter(|_| !lacked.is_empty())
            {
                lacked.retain(|symbol| library.exports.lack(symbol));
            }
        }
        lacked
            .into_iter()
            .map(|symbol| symbol.name.clone())
            .collect()
    }
}

fn needed(elf: &Elf<'_>) -> Vec<String> {
    elf.needed()
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect()
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
    name[..name.len() - nested.len()].contains('N')
        && first.is_some_and(|first| namespaces.iter().any(|namespace| namespace == first))
}
