//! Files of one room import each other in one direction, and so do rooms. A reader can then begin with the file that
//! imports no other one.
//!
//! The graph comes from the paths that the code names. A name that a module only re-exports (`pub use model::Name`)
//! counts for the file that defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Circles that are still to be opened. One that is gone must leave this list too. `.ci/limits` counts them.
const KNOWN: &str = include_str!("circles.txt");

#[test]
fn files_and_rooms_import_in_one_direction() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let crates = [
        Crate::read(&source, &["audit", "main.rs", "build.rs"]),
        Crate::read(&source.join("audit"), &[]).below("audit/"),
    ];
    let mut found = BTreeMap::new();
    for graph in &crates {
        found.extend(graph.circles());
    }
    let known: Vec<&str> = KNOWN
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let mut faults = String::new();
    for (circle, imports) in found
        .iter()
        .filter(|(circle, _)| !known.contains(&circle.as_str()))
    {
        write!(faults, "a new circle: {circle}\n{imports}").unwrap();
    }
    for circle in known.iter().filter(|circle| !found.contains_key(**circle)) {
        writeln!(
            faults,
            "tests/source/circles.txt lists a circle that is gone: {circle}"
        )
        .unwrap();
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn circles_are_found_through_re_exports_and_module_names() {
    let circles = |files: &[(&str, &str)]| {
        let files = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        Crate::new(files).circles().into_keys().collect::<Vec<_>>()
    };
    let lib = ("lib.rs", "mod a;\nmod b;\n");
    // A child that imports a type of its parent's file, which calls the child.
    let parent = "mod x;\npub struct T;\npub fn f() { x::g() }\n";
    assert_eq!(
        circles(&[lib, ("a/mod.rs", parent), ("a/x.rs", "use super::T;\n")]),
        ["a/mod.rs a/x.rs"]
    );
    // The parent only re-exports the type.
    let parent = "mod m;\nmod x;\npub use m::{T, U as V};\npub fn f() { x::g() }\n";
    let child = "use super::{T, V};\npub fn g() {}\n";
    assert_eq!(
        circles(&[lib, ("a/mod.rs", parent), ("a/m.rs", ""), ("a/x.rs", child)]),
        [""; 0]
    );
    // It uses the type as well, and the type's file names the parent by the crate's path.
    let used = format!("{parent}pub fn h() -> T {{}}\n");
    let model = "pub struct T;\nfn f() { crate::a::f() }\n";
    let files = [
        lib,
        ("a/mod.rs", &used),
        ("a/m.rs", model),
        ("a/x.rs", child),
    ];
    assert_eq!(circles(&files), ["a/m.rs a/mod.rs a/x.rs"]);
    // Between rooms, by an imported module name; comments, literals and tests do not count.
    let one = ("a.rs", "use crate::b;\nfn f() { b::g() }\n");
    assert_eq!(
        circles(&[
            lib,
            one,
            (
                "b.rs",
                "use crate::a::{self as other};\nfn g() { other::f() }"
            )
        ]),
        ["a b"]
    );
    let innocent = "// crate::a::f\nfn g() { \"crate::a::f\"; }\n#[cfg(test)]\nmod tests { use crate::a::f; }\n";
    assert_eq!(circles(&[lib, one, ("b.rs", innocent)]), [""; 0]);
}

/// Paths of modules, without `crate`: `["inventory", "model"]`.
type Names = Vec<String>;

struct Module {
    file: String,
    /// The code without comments, literals and tests, as words and signs.
    tokens: Vec<String>,
    uses: Vec<Use>,
}

/// One name that a `use` brings into a module.
struct Use {
    path: Names,
    /// `*` of a glob.
    name: String,
    is_public: bool,
}

struct Crate {
    modules: BTreeMap<Names, Module>,
}

impl Crate {
    fn read(directory: &Path, without: &[&str]) -> Crate {
        let mut files = Vec::new();
        for file in super::layers::files(directory) {
            let name = file.strip_prefix(directory).unwrap().display().to_string();
            if !without.contains(&name.split('/').next().unwrap()) {
                files.push((name, fs::read_to_string(&file).unwrap()));
            }
        }
        Crate::new(files)
    }

    fn new(files: Vec<(String, String)>) -> Crate {
        let mut modules = BTreeMap::new();
        for (file, text) in files {
            let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
            let names = if stem == "lib" {
                Vec::new()
            } else {
                stem.split('/').map(str::to_owned).collect()
            };
            let tokens = tokens(&text);
            let uses = uses(&tokens);
            modules.insert(names, Module { file, tokens, uses });
        }
        Crate { modules }
    }

    fn below(mut self, directory: &str) -> Crate {
        for module in self.modules.values_mut() {
            module.file.insert_str(0, directory);
        }
        self
    }

    /// Each circle by its members, with the imports that close it.
    fn circles(&self) -> BTreeMap<String, String> {
        let mut rooms: BTreeMap<&str, Graph> = BTreeMap::new();
        let mut between = Graph::new();
        for (names, module) in &self.modules {
            let Some(room) = names.first() else { continue };
            for (program, name) in self.imports(names) {
                let to = &self.modules[&program];
                match program.first() {
                    Some(other) if other == room => {
                        let graph = rooms.entry(room).or_default();
                        graph
                            .entry(module.file.clone())
                            .or_default()
                            .insert((to.file.clone(), name));
                    }
                    Some(other) => {
                        let reason = format!("{name} in {}", module.file);
                        between
                            .entry(room.clone())
                            .or_default()
                            .insert((other.clone(), reason));
                    }
                    None => {}
                }
            }
        }
        rooms
            .values()
            .chain([&between])
            .flat_map(circles_of)
            .collect()
    }

    /// Modules that define what this one names, with the name.
    fn imports(&self, from: &Names) -> BTreeSet<(Names, String)> {
        let module = &self.modules[from];
        let mut paths: Vec<Names> = Vec::new();
        for used in &module.uses {
            // A name that is only passed on is no import.
            let count = module
                .tokens
                .iter()
                .filter(|token| **token == used.name)
                .count();
            if !used.is_public || count > 1 {
                paths.push(used.path.clone());
            }
        }
        paths.extend(paths_in_code(&module.tokens));
        let mut imports = BTreeSet::new();
        for path in paths {
            let Some((program, Some(name))) = self.resolve(from, &path, 0) else {
                continue;
            };
            if program != *from {
                imports.insert((program, name));
            }
        }
        imports
    }

    /// The module that defines the item at the end of a path, and the item's name; none for the module itself.
    fn resolve(
        &self,
        from: &Names,
        path: &[String],
        depth: usize,
    ) -> Option<(Names, Option<String>)> {
        if depth > 8 {
            return None;
        }
        let module = &self.modules[from];
        let (first, mut rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Vec::new(),
            "self" => from.clone(),
            "super" => {
                let mut parent = from.clone();
                parent.pop()?;
                while rest.first().is_some_and(|next| next == "super") {
                    parent.pop()?;
                    rest = &rest[1..];
                }
                parent
            }
            child => {
                let below: Names = from.iter().chain([first]).cloned().collect();
                if self.modules.contains_key(&below) {
                    below
                } else {
                    let used = module
                        .uses
                        .iter()
                        .find(|used| used.name == child && used.path != path)?;
                    let whole: Names = used.path.iter().chain(rest).cloned().collect();
                    return self.resolve(from, &whole, depth + 1);
                }
            }
        };
        for (index, name) in rest.iter().enumerate() {
            let below: Names = at.iter().chain([name]).cloned().collect();
            if self.modules.contains_key(&below) {
                at = below;
                continue;
            }
            let passed_on = self
                .modules
                .get(&at)?
                .uses
                .iter()
                .find(|used| used.is_public && used.name == *name);
            let Some(used) = passed_on else {
                return Some((at, Some(name.clone())));
            };
            let whole: Names = used
                .path
                .iter()
                .chain(&rest[index + 1..])
                .cloned()
                .collect();
            return self.resolve(&at, &whole, depth + 1);
        }
        Some((at, None))
    }
}

/// Nodes, and for each those that it names, by which names.
type Graph = BTreeMap<String, BTreeSet<(String, String)>>;

fn reach<'graph>(graph: &'graph Graph, start: &'graph str) -> BTreeSet<&'graph str> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
    while let Some(node) = open.pop() {
        let next = graph
            .get(node)
            .into_iter()
            .flatten()
            .map(|(to, _)| to.as_str());
        open.extend(next.filter(|to| seen.insert(*to)));
    }
    seen
}

fn circles_of(graph: &Graph) -> Vec<(String, String)> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .map(|node| (node.as_str(), reach(graph, node)))
        .collect();
    let mut circles = BTreeMap::new();
    for (node, ahead) in &reached {
        let members: BTreeSet<&str> = ahead
            .iter()
            .copied()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(node)))
            .collect();
        if members.len() < 2 {
            continue;
        }
        let mut imports = String::new();
        for member in &members {
            for (to, name) in graph[*member]
                .iter()
                .filter(|(to, _)| members.contains(to.as_str()))
            {
                writeln!(imports, "    {member} -> {to}: {name}").unwrap();
            }
        }
        circles.insert(members.into_iter().collect::<Vec<_>>().join(" "), imports);
    }
    circles.into_iter().collect()
}

/// Words, `::` and single signs. Comments and literals are left out, and so is all that follows `#[cfg(test)]`.
fn tokens(text: &str) -> Vec<String> {
    let text = text.split("#[cfg(test)]").next().unwrap();
    let left_out = [
        r"//[^\n]*",
        r"/\*.*?\*/",
        r##"r#".*?"#"##,
        r#"r"[^"]*""#,
        r#""(?:\\.|[^"\\])*""#,
        r"'(?:\\[^']+|\\'|[^'\\])'",
    ];
    let pattern = format!(r"(?s-u){}|(\w+|::|\S)", left_out.join("|"));
    let pattern = regex::bytes::Regex::new(&pattern).unwrap();
    let found = pattern.captures_iter(text.as_bytes());
    found
        .filter_map(|token| {
            let token = token.get(1)?;
            Some(String::from_utf8_lossy(token.as_bytes()).into_owned())
        })
        .collect()
}

/// All names that `use` brings in, groups taken apart.
fn uses(tokens: &[String]) -> Vec<Use> {
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|at| is_import(tokens, *at)) {
        let is_public = at > 0 && (tokens[at - 1] == "pub" || tokens[at - 1] == ")");
        let mut position = at + 1;
        let mut tree = Vec::new();
        use_tree(tokens, &mut position, &Vec::new(), &mut tree);
        found.extend(tree.into_iter().map(|(path, name)| Use {
            path,
            name,
            is_public,
        }));
    }
    found
}

/// `use<'a>` in a type is something else.
fn is_import(tokens: &[String], at: usize) -> bool {
    tokens[at] == "use" && tokens.get(at + 1).is_some_and(|next| next != "<")
}

fn use_tree(tokens: &[String], at: &mut usize, prefix: &Names, found: &mut Vec<(Names, String)>) {
    let mut path = prefix.clone();
    while let Some(token) = tokens.get(*at) {
        *at += 1;
        match token.as_str() {
            "::" => {}
            "{" => {
                while tokens
                    .get(*at)
                    .is_some_and(|token| !["}", ";"].contains(&token.as_str()))
                {
                    use_tree(tokens, at, &path, found);
                    if tokens.get(*at).is_some_and(|token| token == ",") {
                        *at += 1;
                    }
                }
                *at += 1;
                return;
            }
            "," | "}" | ";" => {
                *at -= 1;
                break;
            }
            "as" => {
                let alias = tokens[*at].clone();
                *at += 1;
                found.push((path, alias));
                return;
            }
            "self" if !path.is_empty() => {}
            name => path.push(name.to_owned()),
        }
    }
    if let Some(name) = path.last().cloned() {
        found.push((path, name));
    }
}

/// Every `a::b::c` outside of `use`.
fn paths_in_code(tokens: &[String]) -> Vec<Names> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if is_import(tokens, at) {
            while at < tokens.len() && tokens[at] != ";" {
                at += 1;
            }
            continue;
        }
        let mut path = vec![tokens[at].clone()];
        at += 1;
        let is_word = |token: &str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
        while at + 1 < tokens.len() && tokens[at] == "::" && is_word(&tokens[at + 1]) {
            path.push(tokens[at + 1].clone());
            at += 2;
        }
        if path.len() > 1 && is_word(&path[0]) {
            found.push(path);
        }
    }
    found
}
