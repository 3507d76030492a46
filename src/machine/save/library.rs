//! Describes a library by the facts that our reader finds in it, without its code.

use std::collections::{BTreeMap, BTreeSet};

use super::super::elf::Elf as Description;
use crate::catalog::{Evidence, catalog};
use crate::formats::elf::{Elf, X86_64};
use crate::formats::{fatbin, names, symbols};
use crate::inventory::{self, GpuCode, LibraryFacts};
use crate::version::Version;

/// A symbol in place of those that are not kept, for the version that they have.
const ANY: &str = "x";
/// Names of C++, by which only libraries of one release call each other.
const MANGLED: &[u8] = b"_Z";

/// The description of a file.
pub(super) enum SavedLibrary {
    /// With the number of bytes to cut off its end.
    Elf(Box<Description>, usize),
    /// A file that is no library, with a text in its place.
    Text(&'static str),
}

/// Returns None if no description gives the facts of the file. With `is_for_programs`, it has the symbols that NVIDIA's libraries
/// export and that others import from them.
pub(super) fn describe(data: &[u8], name: &str, is_for_programs: bool) -> Option<SavedLibrary> {
    let elf = match Elf::parse(data) {
        Ok(elf) => elf,
        Err(error) => return broken(&error.to_string()),
    };
    let mut kept = generic(&elf)?;
    if is_for_programs {
        kept.imports = imports(&elf);
        kept.constants.extend(opened(&elf));
    }
    // A library of no family has no other facts, but code for GPUs, which a framework brings.
    let facts = inventory::facts(data, name, elf.machine());
    if is_for_programs && facts.is_none() {
        add_code(&fatbin::code_of(&elf, &|| ()), &mut kept);
    }
    if let Some(facts) = facts {
        of_family(&facts, &mut kept);
        if is_for_programs {
            kept.exports = exports(&elf);
            let Description {
                exports,
                functions,
                objects,
                ..
            } = &mut kept;
            exports.retain(|name| !functions.contains_key(name) && !objects.contains_key(name));
            kept.exports.push(ANY.to_owned());
            kept.unversioned = !elf.has_versions();
        }
        let built = kept.build().ok()?;
        let again = inventory::facts(&built, name, elf.machine())?;
        if !facts.reads_like(&again) {
            return None;
        }
    }
    Some(SavedLibrary::Elf(Box::new(kept), 0))
}

/// Returns a file that the reader rejects with this error.
fn broken(why: &str) -> Option<SavedLibrary> {
    if why == "not an ELF file" {
        return Some(SavedLibrary::Text("not a library\n"));
    }
    let odd = Description {
        is_32_bit: true,
        ..Description::default()
    };
    let whole = Description {
        needed: vec!["libc.so.6".to_owned()],
        ..Description::default()
    };
    [odd, whole].into_iter().find_map(|description| {
        let bytes = description.build().ok()?;
        let fails_so = |cut: &usize| {
            Elf::parse(&bytes[..bytes.len() - cut])
                .err()
                .is_some_and(|error| error.to_string() == why)
        };
        let cut = (0..bytes.len()).find(fails_so)?;
        Some(SavedLibrary::Elf(Box::new(description), cut))
    })
}

/// Describes what the loader reads in any file, and the release of a loader or a C library.
fn generic(elf: &Elf<'_>) -> Option<Description> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    let soname = elf.soname().and_then(text);
    // The first is the name of the file itself.
    let nodes = elf.defined_versions().into_iter().filter_map(text);
    let nodes: Vec<String> = nodes.filter(|node| Some(node) != soname.as_ref()).collect();
    let needed: Option<Vec<String>> = elf.needed().map(text).collect();
    Some(Description {
        soname,
        needed: needed?,
        rpath: elf.rpath().and_then(text),
        runpath: elf.runpath().and_then(text),
        interpreter: elf
            .interpreter()
            .and_then(|interpreter| interpreter.into_string().ok()),
        versions: nodes,
        machine: Some(elf.machine()).filter(|machine| *machine != X86_64),
        build_id: elf.build_id().map(inventory::hexadecimal),
        constants: release(elf).into_iter().collect(),
        truncated: elf.is_truncated(),
        ..Description::default()
    })
}

fn exports(elf: &Elf<'_>) -> Vec<String> {
    let symbols = elf.symbols();
    let defined = symbols
        .iter()
        .filter(|symbol| symbol.defined && !symbol.name.starts_with(MANGLED));
    let names =
        defined.filter_map(|symbol| std::str::from_utf8(symbol.name).ok().map(str::to_owned));
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns what it imports of NVIDIA's libraries, and each version that it requires of any other file.
fn imports(elf: &Elf<'_>) -> BTreeMap<String, Vec<String>> {
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let is_of_interest = |file: &str| catalog().family_of(file).is_some();
    let exports = |file: &str, symbol: &str| catalog().may_export(file, symbol);
    let imported = symbols::imports(elf, is_of_interest, exports);
    for symbol in imported
        .into_iter()
        .filter(|symbol| !symbol.name.as_bytes().starts_with(MANGLED))
    {
        match symbol.version {
            Some(version) => {
                imports
                    .entry(symbol.file)
                    .or_default()
                    .insert(format!("{}@{version}", symbol.name));
            }
            // Any file may have it.
            None => {
                _ = imports
                    .entry(String::new())
                    .or_default()
                    .insert(symbol.name);
            }
        }
    }
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    for (file, node) in elf.required_versions() {
        let Some((file, node)) = text(file).zip(text(node)) else {
            continue;
        };
        let known = imports.entry(file).or_default();
        if !known
            .iter()
            .any(|symbol| symbol.ends_with(&format!("@{node}")))
        {
            known.insert(format!("{ANY}@{node}"));
        }
    }
    imports
        .into_iter()
        .map(|(file, symbols)| (file, symbols.into_iter().collect()))
        .collect()
}

/// Returns the names of libraries in its constants, which it may open.
fn opened(elf: &Elf<'_>) -> BTreeSet<String> {
    let constants = elf.constants();
    let found = constants.into_iter().flat_map(|range| {
        let known = names::libraries(range)
            .into_iter()
            .filter(|name| catalog().family_of(name).is_some());
        known.chain(names::library_paths(range)).collect::<Vec<_>>()
    });
    found.collect()
}

/// Returns `stable release version 2.36` for a loader with this text.
fn release(elf: &Elf<'_>) -> Option<String> {
    const BEFORE: &[u8] = b"release version ";
    let soname = elf.soname()?;
    if !soname.starts_with(b"ld-linux") {
        return None;
    }
    elf.constants().into_iter().find_map(|range| {
        let at = memchr::memmem::find(range, BEFORE)? + BEFORE.len();
        let end = range[at..]
            .iter()
            .position(|byte| !(byte.is_ascii_digit() || *byte == b'.'))?;
        Some(format!(
            "stable release version {}",
            std::str::from_utf8(&range[at..at + end]).ok()?
        ))
    })
}

/// Adds the facts of its family, by the rules that found them.
fn of_family(facts: &LibraryFacts, kept: &mut Description) {
    let family = facts.family();
    for (rule, version) in &facts.versions {
        if let Some(evidence) = family.version.get(*rule) {
            add_version(evidence, version, kept);
        }
    }
    for (rule, major) in &facts.cuda {
        if let Some(evidence @ (Evidence::Text { .. } | Evidence::Object { .. })) =
            family.cuda.get(*rule)
        {
            // A rule for the version may have added the full version already.
            if !family.version.contains(evidence) {
                add_version(evidence, &Version::new(&[*major, 0]), kept);
            }
        }
    }
    for (rule, cuda) in &facts.built_for {
        let number = cuda.major * 1000 + cuda.minor * 10;
        match family.cuda.get(*rule) {
            Some(Evidence::Embedded) => kept.runtime = Some(number),
            Some(Evidence::Function { name, .. }) => {
                _ = kept.functions.insert(name.clone(), number);
            }
            _ => {}
        }
    }
    for (file, prefix) in inventory::RUNTIMES {
        if let Some(version) = facts.needs.get(prefix) {
            let node = format!("{ANY}@{prefix}{version}");
            let known = kept.imports.entry(file.to_owned()).or_default();
            if !known.contains(&node) {
                known.push(node);
            }
        }
    }
    if let Some(code) = &facts.code {
        add_code(code, kept);
    }
    if let Some(compat) = &facts.forward_compatibility {
        let cuda = compat.cuda.map(|cuda| cuda.to_string()).unwrap_or_default();
        let branches: Vec<String> = compat.kernel_branches.iter().map(u32::to_string).collect();
        let branches = branches.join(",");
        kept.forward_compatibility = Some(format!(
            "{{\"format\":1,\"CUDA version\":\"{cuda}\",\"driver\":[{branches}],\"device\":[1]}}"
        ));
    }
}

fn add_version(evidence: &Evidence, version: &Version, kept: &mut Description) {
    let number = |index: usize| version.numbers().get(index).copied().unwrap_or(0);
    match evidence {
        Evidence::Text {
            after,
            then,
            separator,
            ..
        } => {
            let text = version
                .to_string()
                .replace('.', &separator.unwrap_or('.').to_string());
            let constant = format!("{after}{}{text}", then.as_deref().unwrap_or_default());
            if !kept.constants.contains(&constant) {
                kept.constants.push(constant);
            }
        }
        Evidence::Function { name, major: 1, .. } => {
            _ = kept.functions.insert(name.clone(), number(0));
        }
        Evidence::Function {
            name, major, minor, ..
        } => {
            let value = number(0) * major + number(1) * minor + number(2);
            kept.functions.insert(name.clone(), value);
        }
        Evidence::Object { name, .. } => {
            kept.objects
                .insert(name.clone(), number(0) << 16 | number(1) << 8 | number(2));
        }
        Evidence::Printed { .. } => kept.printed = Some([number(0), number(1), number(2)]),
        Evidence::Embedded => kept.runtime = Some(number(0) * 1000 + number(1) * 10),
        Evidence::Suffix | Evidence::Needed { .. } => {}
    }
}

/// Hides names of users in texts that may be paths.
pub(super) fn hide(elf: &mut Description, hidden: &dyn Fn(&str) -> String) {
    for text in [
        &mut elf.soname,
        &mut elf.rpath,
        &mut elf.runpath,
        &mut elf.interpreter,
    ] {
        *text = text.take().map(|text| hidden(&text));
    }
    elf.needed = elf.needed.iter().map(|needed| hidden(needed)).collect();
    let imports = std::mem::take(&mut elf.imports);
    elf.imports = imports
        .into_iter()
        .map(|(name, symbols)| (hidden(&name), symbols))
        .collect();
}

fn add_code(code: &GpuCode, kept: &mut Description) {
    for (section, entries) in code {
        let entries = entries.iter().map(|(architecture, count)| match count {
            1 => architecture.to_string(),
            count => format!("{architecture} x {count}"),
        });
        let entries: Vec<String> = entries.collect();
        if section.is_empty() {
            kept.code = entries;
        } else {
            kept.code_in.insert(section.clone(), entries);
        }
    }
}
