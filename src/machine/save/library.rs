//! A library as a description: what the reader of libraries reads of it, and nothing of its code.

use serde_json::{Map, Value};

use super::super::elf::Elf as Description;
use crate::catalog::Evidence;
use crate::formats::elf::{Elf, X86_64};
use crate::inventory::{self, Facts, GpuCode};
use crate::version::Version;

/// What a file is to the reader.
pub(super) enum Kept {
    /// With so many bytes cut off its end.
    Elf(Box<Description>, usize),
    /// Something else, in a few words.
    Text(&'static str),
}

/// None where no description is read as the file is.
pub(super) fn describe(data: &[u8], name: &str) -> Option<Kept> {
    let elf = match Elf::parse(data) {
        Ok(elf) => elf,
        Err(error) => return broken(&error.to_string()),
    };
    let mut kept = generic(&elf)?;
    // Of another kind of machine, only that counts.
    if let Some(facts) = inventory::facts(data, name, elf.machine()) {
        of_family(&facts, &mut kept);
        let built = kept.build().ok()?;
        let again = inventory::facts(&built, name, elf.machine())?;
        if !facts.reads_like(&again) {
            return None;
        }
    }
    Some(Kept::Elf(Box::new(kept), 0))
}

fn broken(why: &str) -> Option<Kept> {
    if why == "not an ELF file" {
        return Some(Kept::Text("not a library\n"));
    }
    let odd = Description { is_32_bit: true, ..Description::default() };
    let whole = Description { needed: vec!["libc.so.6".to_owned()], ..Description::default() };
    [odd, whole].into_iter().find_map(|description| {
        let bytes = description.build().ok()?;
        let fails_so = |cut: &usize| {
            Elf::parse(&bytes[..bytes.len() - cut]).err().is_some_and(|error| error.to_string() == why)
        };
        let cut = (0..bytes.len()).find(fails_so)?;
        Some(Kept::Elf(Box::new(description), cut))
    })
}

/// What the loader reads of any file, and what says which release a loader and its C library are of.
fn generic(elf: &Elf<'_>) -> Option<Description> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    let soname = elf.soname().and_then(text);
    let is_c_library = soname.as_deref() == Some("libc.so.6");
    let nodes = elf.defined_versions().into_iter().filter_map(text);
    let newest = nodes.filter_map(|node| {
        let version: Version = node.strip_prefix("GLIBC_")?.parse().ok()?;
        Some((version, node))
    });
    let newest = newest.max().map(|(_, node)| node).filter(|_| is_c_library);
    let needed: Option<Vec<String>> = elf.needed().map(text).collect();
    Some(Description {
        soname,
        needed: needed?,
        rpath: elf.rpath().and_then(text),
        runpath: elf.runpath().and_then(text),
        interpreter: elf.interpreter().and_then(|it| it.into_string().ok()),
        versions: newest.into_iter().collect(),
        machine: Some(elf.machine()).filter(|machine| *machine != X86_64),
        build_id: elf.build_id().map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()),
        constants: release(elf).into_iter().collect(),
        truncated: elf.is_truncated(),
        ..Description::default()
    })
}

/// `release version 2.36`, where it is a loader that says so.
fn release(elf: &Elf<'_>) -> Option<String> {
    const SAYS: &[u8] = b"release version ";
    let soname = elf.soname()?;
    if !soname.starts_with(b"ld-linux") {
        return None;
    }
    elf.constants().into_iter().find_map(|range| {
        let at = memchr::memmem::find(range, SAYS)? + SAYS.len();
        let end = range[at..].iter().position(|byte| !(byte.is_ascii_digit() || *byte == b'.'))?;
        Some(format!("stable release version {}", std::str::from_utf8(&range[at..at + end]).ok()?))
    })
}

/// What says its version, by the rules that gave an answer.
fn of_family(facts: &Facts, kept: &mut Description) {
    let family = facts.family();
    for (rule, version) in &facts.versions {
        if let Some(evidence) = family.version.get(*rule) {
            say(evidence, version, kept);
        }
    }
    for (rule, major) in &facts.cuda {
        if let Some(evidence @ (Evidence::Text { .. } | Evidence::Object { .. } | Evidence::Pointer { .. })) =
            family.cuda.get(*rule)
        {
            // The version of the contents may have been read at the same place, in full.
            let is_said = family.version.contains(evidence);
            if !is_said {
                say(evidence, &Version::new(&[*major, 0]), kept);
            }
        }
    }
    for (rule, cuda) in &facts.built_for {
        let number = cuda.major * 1000 + cuda.minor * 10;
        match family.cuda.get(*rule) {
            Some(Evidence::Embedded) => kept.runtime = Some(number),
            Some(Evidence::Function { name, .. }) => _ = kept.functions.insert(name.clone(), number),
            _ => {}
        }
    }
    for (file, prefix) in inventory::RUNTIMES {
        if let Some(version) = facts.needs.get(prefix) {
            kept.imports.insert(file.to_owned(), vec![format!("x@{prefix}{version}")]);
        }
    }
    if let Some(code) = &facts.code {
        take_code(code, kept);
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

fn say(evidence: &Evidence, version: &Version, kept: &mut Description) {
    let number = |index: usize| version.numbers().get(index).copied().unwrap_or(0);
    match evidence {
        Evidence::Text { after, then, separator, .. } => {
            let text = version.to_string().replace('.', &separator.unwrap_or('.').to_string());
            let constant = format!("{after}{}{text}", then.as_deref().unwrap_or_default());
            if !kept.constants.contains(&constant) {
                kept.constants.push(constant);
            }
        }
        Evidence::Function { name, major: 1, .. } => _ = kept.functions.insert(name.clone(), number(0)),
        Evidence::Function { name, major, minor, .. } => {
            let value = number(0) * major + number(1) * minor + number(2);
            kept.functions.insert(name.clone(), value);
        }
        Evidence::Object { name, .. } => {
            kept.objects.insert(name.clone(), number(0) << 16 | number(1) << 8 | number(2));
        }
        Evidence::Pointer { name, .. } => {
            kept.pointers.insert(name.clone(), [number(0), number(1), number(2)]);
        }
        Evidence::Printed { .. } => kept.printed = Some([number(0), number(1), number(2)]),
        Evidence::Embedded => kept.runtime = Some(number(0) * 1000 + number(1) * 10),
        Evidence::Suffix | Evidence::Needed { .. } => {}
    }
}

/// Replaces what may be a path in somebody's home directory.
pub(super) fn hide(elf: &mut Description, hidden: &dyn Fn(&str) -> String) {
    for text in [&mut elf.soname, &mut elf.rpath, &mut elf.runpath, &mut elf.interpreter] {
        *text = text.take().map(|it| hidden(&it));
    }
    elf.needed = elf.needed.iter().map(|it| hidden(it)).collect();
    let imports = std::mem::take(&mut elf.imports);
    elf.imports = imports.into_iter().map(|(name, symbols)| (hidden(&name), symbols)).collect();
}

fn take_code(code: &GpuCode, kept: &mut Description) {
    for (section, entries) in code {
        let entry = |(made_for, count): (&_, &u32)| match count {
            1 => format!("{made_for}"),
            count => format!("{made_for} x {count}"),
        };
        let entries: Vec<String> = entries.iter().map(|(made_for, count)| entry((made_for, count))).collect();
        if section.is_empty() {
            kept.code = entries;
        } else {
            kept.code_in.insert(section.clone(), entries);
        }
    }
}

/// The fields that say something, as TOML writes them in one line.
pub(super) fn toml(elf: &Description) -> String {
    inline(&serde_json::to_value(elf).unwrap_or_default())
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => super::quoted(text),
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let says = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
            let is_empty = |value: &Value| {
                value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
            };
            let fields = fields.iter().filter(|(_, value)| says(value) && !is_empty(value));
            let fields: Vec<String> = fields
                .map(|(name, value)| {
                    let is_bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                    let name = if is_bare && !name.is_empty() { name.clone() } else { super::quoted(name) };
                    format!("{name} = {}", inline(value))
                })
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
        other => other.to_string(),
    }
}
