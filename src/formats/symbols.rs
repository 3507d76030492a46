//! Imported and exported symbols, as far as compatibility depends on them.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde::Serialize;

use super::elf::Elf;

/// A symbol that must come from a file of this SONAME.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RequiredSymbol {
    pub name: String,
    pub version: Option<String>,
    pub file: String,
}

/// Imports, by the SONAME of the file that must provide them. Copies share them.
pub type ByFile = Arc<BTreeMap<String, Vec<RequiredSymbol>>>;

/// The hashes of the symbols that a file exports; the default is unknown.
#[derive(Clone, Default)]
pub struct Exports {
    known: Option<Arc<[u64]>>,
    versioned: bool,
}

impl Exports {
    pub fn read(elf: &Elf<'_>) -> Exports {
        let defined = elf.symbols().into_iter().filter(|symbol| symbol.defined);
        Exports::new(defined.map(|symbol| (symbol.name, symbol.version)))
    }

    /// From names with their versions.
    pub fn new<'s>(symbols: impl IntoIterator<Item = (&'s [u8], Option<&'s [u8]>)>) -> Exports {
        let mut hashes = Vec::new();
        let mut versioned = false;
        for (name, version) in symbols {
            hashes.push(hash(name, None));
            if let Some(version) = version {
                versioned = true;
                hashes.push(hash(name, Some(version)));
            }
        }
        hashes.sort_unstable();
        hashes.dedup();
        Exports {
            known: Some(hashes.into()),
            versioned,
        }
    }

    /// True if the loader would not find this symbol here. Unknown exports lack nothing.
    pub fn lack(&self, symbol: &RequiredSymbol) -> bool {
        let Some(known) = &self.known else {
            return false;
        };
        let version = match &symbol.version {
            Some(version) if self.versioned => Some(version.as_bytes()),
            _ => None,
        };
        known
            .binary_search(&hash(symbol.name.as_bytes(), version))
            .is_err()
    }
}

impl fmt::Debug for Exports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.known {
            Some(known) => write!(f, "{} hashes", known.len()),
            None => f.write_str("unknown"),
        }
    }
}

/// The symbols that a file exports, as `name` or `name@version`, sorted.
pub fn names(elf: &Elf<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for symbol in elf.symbols() {
        if !symbol.defined {
            continue;
        }
        let name = text(symbol.name);
        names.push(match symbol.version {
            Some(version) => format!("{name}@{}", text(version)),
            None => name,
        });
    }
    names.sort();
    names.dedup();
    names
}

/// The imports that must come from files of interest. An import without a version does not name its file. Then the
/// first linked file that `exports(file, symbol)` provides it.
pub fn imports(
    elf: &Elf<'_>,
    is_of_interest: impl Fn(&str) -> bool,
    exports: impl Fn(&str, &str) -> bool,
) -> Vec<RequiredSymbol> {
    let mut needed: Vec<String> = elf.needed().map(text).collect();
    needed.retain(|name| is_of_interest(name));
    let mut imports = Vec::new();
    for symbol in elf.symbols() {
        if symbol.defined || symbol.weak {
            continue;
        }
        let name = text(symbol.name);
        let file = match symbol.file {
            Some(file) => Some(text(file)).filter(|file| is_of_interest(file)),
            None => needed.iter().find(|file| exports(file, &name)).cloned(),
        };
        if let Some(file) = file {
            imports.push(RequiredSymbol {
                name,
                version: symbol.version.map(text),
                file,
            });
        }
    }
    imports
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn by_file(imports: Vec<RequiredSymbol>) -> ByFile {
    let mut by_file: BTreeMap<String, Vec<RequiredSymbol>> = BTreeMap::new();
    for symbol in imports {
        by_file.entry(symbol.file.clone()).or_default().push(symbol);
    }
    by_file.into()
}

fn hash(name: &[u8], version: Option<&[u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    version.hash(&mut hasher);
    hasher.finish()
}
