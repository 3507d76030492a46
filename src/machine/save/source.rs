//! Python's source, reduced to what cudarun reads in it: each import at its line, the libraries that it names, and whether it
//! starts programs. Nothing else of a person's program is in a description.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::catalog;
use crate::formats::names;
use crate::formats::python::{self, Import, Source};
use crate::text::quoted;
use crate::variables::LIBRARY_PATH;

/// Returns source from which cudarun reads the same as from this one.
pub(super) fn reduced(source: &[u8]) -> String {
    let read = python::read(source);
    let mut lines: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let is_plain = |import: &Import| import.level == 0 && import.names.is_empty();
    let is_one = |one: &Import, next: &Import| {
        one.line == next.line
            && is_plain(one)
            && is_plain(next)
            && one.is_outermost == next.is_outermost
    };
    for imports in read.imports.chunk_by(is_one) {
        let modules: Vec<&str> = imports
            .iter()
            .map(|import| import.module.as_str())
            .collect();
        lines
            .entry(imports[0].line)
            .or_default()
            .push(statement(&imports[0], &modules.join(", ")));
    }
    for (line, text) in &read.strings {
        let kept = kept(text);
        if !kept.is_empty() {
            lines.entry(*line).or_default().push(kept);
        }
    }
    // An import in a block takes the rest of its line into it.
    for words in lines.values_mut() {
        words.sort_by_key(|words| words.contains(": "));
    }
    let last = lines.keys().next_back().copied().unwrap_or_default();
    let mut text: String = (1..=last)
        .map(|number| {
            lines
                .get(&number)
                .map(|words| words.join("; "))
                .unwrap_or_default()
                + "\n"
        })
        .collect();
    text.push_str(&rest(&read));
    text
}

/// `modules` are those that a statement without names imports.
fn statement(import: &Import, modules: &str) -> String {
    let Import {
        module,
        level,
        names,
        is_tried,
        is_outermost,
        is_called,
        ..
    } = import;
    let import = if *level == 0 && names.is_empty() {
        format!("import {modules}")
    } else {
        format!(
            "from {}{module} import {}",
            ".".repeat(*level),
            names.join(", ")
        )
    };
    let called = if *is_called { "def f(): " } else { "" };
    let tried = if *is_tried { "try: " } else { "" };
    let inside = if *is_outermost || *is_called || *is_tried {
        ""
    } else {
        "if x: "
    };
    format!("{called}{tried}{inside}{import}")
}

/// The names of libraries in a string, as a string each.
fn kept(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut kept: BTreeSet<String> = names::libraries(bytes);
    kept.extend(names::library_paths(bytes));
    if text.split('=').next() == Some(LIBRARY_PATH) {
        kept.insert(LIBRARY_PATH.to_owned());
    }
    let is_library = text
        .rsplit('/')
        .next()
        .is_some_and(|name| names::split(name).is_some());
    if is_library || catalog().framework_of(text).is_some() {
        kept.insert(text.to_owned());
    }
    kept.iter()
        .map(|name| quoted(name))
        .collect::<Vec<_>>()
        .join(", ")
}

fn rest(read: &Source) -> String {
    let mut text = String::new();
    for added in &read.search {
        let directory = quoted(&added.directory);
        text.push_str(&match (added.is_site, added.is_first) {
            (true, _) => format!("site.addsitedir({directory})\n"),
            (_, true) => format!("sys.path.insert(0, {directory})\n"),
            _ => format!("sys.path.append({directory})\n"),
        });
    }
    let tells = catalog()
        .frameworks
        .iter()
        .filter_map(|framework| framework.dlopens_wheels_by.as_ref());
    for name in tells.filter(|name| read.called.contains(*name)) {
        text.push_str(&format!("x.{name}()\n"));
    }
    if read.dynamic {
        text.push_str("exec(x)\n");
    }
    if read.starts_programs {
        text.push_str("os.system(x)\n");
    }
    if read.opens_unnamed {
        text.push_str("ctypes.CDLL(x)\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
import torch, numpy as np
from .model import Net, loss
PASSWORD = "secret"
try:
    import apex
except ImportError:
    apex = None
def main():
    import jax
    os.system("ls /private")
if DEBUG:
    from .. import more
ctypes.CDLL("libcudnn.so.9")
ctypes.CDLL(name)
sys.path.insert(0, "/opt/modules")
exec(code)
"#;

    #[test]
    fn reduced_source_is_read_alike_and_has_no_other_word() {
        let text = reduced(SOURCE.as_bytes());
        let (mut whole, mut part) = (
            python::read(SOURCE.as_bytes()),
            python::read(text.as_bytes()),
        );
        for read in [&mut whole, &mut part] {
            read.strings.retain(|(_, text)| text.contains(".so"));
            read.called.clear();
        }
        assert_eq!(whole, part, "{text}");
        for word in ["secret", "PASSWORD", "private", "DEBUG", "apex = None"] {
            assert!(!text.contains(word), "{text}");
        }
    }

    #[test]
    fn any_source_is_reduced_to_source_that_stays_as_it_is() {
        for source in [
            "",
            "\0",
            "import",
            "from . import (",
            "'''",
            "x = 'libcudnn.so.9'\n\timport a",
            "#!/bin/sh\nexec",
        ] {
            let once = reduced(source.as_bytes());
            assert_eq!(reduced(once.as_bytes()), once, "{source:?}");
        }
    }
}
