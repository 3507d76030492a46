//! The files that the model of the loader predicts, and those that a traced program mapped.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::Style;
use super::hints::shell_words;
use super::loader::{self, file_name, rule};
use super::words::counted;
use crate::catalog::catalog;
use crate::formats::audit_log::TracedRule;
use crate::predict::observe::{Image, Mapped, Observation};
use crate::predict::{Prediction, When};
use crate::text::show;
use crate::variables;

/// A file, and the file that asked for it.
struct Node<'f> {
    name: &'f OsStr,
    path: &'f Path,
    requester: &'f Path,
    is_shown: bool,
    /// The rule by which the loader finds it.
    rule: String,
    /// Its place in the plan.
    planned: String,
}

/// `trace --predict`
pub fn prediction(
    prediction: &Prediction,
    all: bool,
    is_tree: bool,
    words: &[OsString],
    style: Style,
) -> String {
    let nodes = prediction.files.iter().map(|file| Node {
        name: file.name.as_ref(),
        path: &file.path,
        requester: &file.requester,
        is_shown: all || is_of_interest(file.family.as_ref(), &file.path),
        rule: style.dim(&rule(&file.rule)),
        planned: String::new(),
    });
    let nodes: Vec<Node<'_>> = nodes.collect();
    let missing = prediction
        .missing
        .iter()
        .filter(|missing| all || missing.family.is_some());
    let missing: Vec<Vec<String>> = missing
        .map(|missing| {
            vec![
                show(&missing.name),
                format!("for {}", file_name(&missing.requester)),
            ]
        })
        .collect();
    let shown = nodes.iter().filter(|node| node.is_shown).count();
    let lost = match missing.len() {
        0 => String::new(),
        lost => format!("; {} not found", counted(lost, "name")),
    };
    let mut text = match &prediction.failure {
        Some(failure) => {
            let error = style.error("error:");
            format!(
                "{error} the program does not start: {}\n",
                loader::failure(failure)
            )
        }
        None if shown == 0 && lost.is_empty() => "no NVIDIA library\n".to_owned(),
        None => {
            let kind = if all { "file" } else { "NVIDIA file" };
            format!("the program would map {}{lost}\n", counted(shown, kind))
        }
    };
    if is_tree && shown > 0 {
        text.push_str(&tree(&nodes, style));
    } else {
        for (when, title) in [(When::Start, "at the start"), (When::Opened, "at run time")] {
            let files = prediction
                .files
                .iter()
                .zip(&nodes)
                .filter(|(file, _)| file.when == when);
            let rows = rows(files.map(|(_, node)| node), "");
            if !rows.is_empty() {
                text.push_str(&format!(
                    "{}\n{}",
                    style.strong(title),
                    style.columns("  ", &rows)
                ));
            }
        }
    }
    if !missing.is_empty() {
        text.push_str(&format!(
            "{}\n{}",
            style.warning("not found"),
            style.columns("  ", &missing)
        ));
    }
    text + &style.next(&format!("cudarun explain {}", shell_words(words)))
}

/// The tree of who loaded what: the shown files, and those that lead to them.
fn tree(nodes: &[Node<'_>], style: Style) -> String {
    let mut is_kept: Vec<bool> = nodes.iter().map(|node| node.is_shown).collect();
    let parent: Vec<Option<usize>> = (0..nodes.len()).map(|at| asker(nodes, at)).collect();
    for at in (0..nodes.len()).rev() {
        if let (true, Some(parent)) = (is_kept[at], parent[at]) {
            is_kept[parent] = true;
        }
    }
    let (mut rows, mut places) = (Vec::new(), BTreeMap::<&Path, Vec<String>>::new());
    let children = |of: Option<usize>| -> Vec<usize> {
        (0..nodes.len())
            .filter(|at| is_kept[*at] && parent[*at] == of)
            .collect()
    };
    // Each entry: a file, the guides before it, and its own guide.
    let mut rest: Vec<(usize, String, &str)> = children(None)
        .into_iter()
        .rev()
        .map(|root| (root, String::new(), ""))
        .collect();
    while let Some((at, guides, own)) = rest.pop() {
        let node = &nodes[at];
        let name = file_name(Path::new(node.name));
        let name = if node.is_shown {
            style.strong(&name)
        } else {
            name
        };
        rows.push(vec![
            format!("{guides}{own}{name}"),
            format!("{} {}", node.rule, node.planned),
        ]);
        if node.is_shown {
            places
                .entry(node.path.parent().unwrap_or(node.path))
                .or_default()
                .push(name);
        }
        let guides = guides
            + match own {
                "" => "",
                "└── " => "    ",
                _ => "│   ",
            };
        for (index, child) in children(Some(at)).into_iter().rev().enumerate() {
            rest.push((
                child,
                guides.clone(),
                if index == 0 {
                    "└── "
                } else {
                    "├── "
                },
            ));
        }
    }
    let place = |(place, names): (&Path, Vec<String>)| match names.as_slice() {
        [only] => vec![only.clone(), show(place)],
        names => vec![counted(names.len(), "file"), show(place)],
    };
    let places: Vec<Vec<String>> = places.into_iter().map(place).collect();
    format!(
        "{}\nfrom\n{}",
        style.columns("", &rows),
        style.columns("  ", &places)
    )
}

/// The earlier file that asked for this one.
fn asker(nodes: &[Node<'_>], at: usize) -> Option<usize> {
    nodes[..at]
        .iter()
        .position(|node| node.path == nodes[at].requester)
}

/// True for NVIDIA's libraries, including those that a package bundles under another name.
pub(super) fn is_of_interest(family: Option<&String>, path: &Path) -> bool {
    family.is_some() || catalog().family_of_bundled(path).is_some()
}

/// A row for each shown file. `unasked` is written for a file without a requester.
fn rows<'n>(nodes: impl Iterator<Item = &'n Node<'n>>, unasked: &str) -> Vec<Vec<String>> {
    let row = |node: &'n Node<'n>| {
        let asked = if node.requester.as_os_str().is_empty() {
            unasked.to_owned()
        } else {
            format!("for {}, ", file_name(node.requester))
        };
        let how = format!("{asked}{}", node.rule);
        vec![
            file_name(Path::new(node.name)),
            show(node.path),
            how,
            node.planned.clone(),
        ]
    };
    nodes.filter(|node| node.is_shown).map(row).collect()
}

/// `trace`
pub fn observation(
    observation: &Observation,
    all: bool,
    is_tree: bool,
    words: &[OsString],
    style: Style,
) -> String {
    let mut text = String::new();
    for image in &observation.images {
        let nodes = image.files.iter().map(|file| Node {
            name: &file.name,
            path: &file.file,
            requester: &file.requester,
            is_shown: all || is_of_interest(file.family.as_ref(), &file.path),
            rule: style.dim(by(file.rule)),
            planned: planned(file, style),
        });
        let nodes: Vec<Node<'_>> = nodes.collect();
        if !nodes.iter().any(|node| node.is_shown) {
            continue;
        }
        let started = image
            .program
            .as_ref()
            .map_or(", forked".to_owned(), |path| format!(" {}", show(path)));
        text.push_str(&format!(
            "{}\n",
            style.strong(&format!("cudarun: {}{started}", image.pid))
        ));
        text.push_str(&verdict(image));
        text.push_str(&if is_tree {
            tree(&nodes, style)
        } else {
            style.columns("  ", &rows(nodes.iter(), "for the program, "))
        });
    }
    if text.is_empty() {
        let processes = match observation.images.len() {
            0 => "nothing was recorded: no process used the dynamic loader".to_owned(),
            1 => "one process, no NVIDIA library".to_owned(),
            count => format!("{count} processes, no NVIDIA library"),
        };
        return format!("cudarun: {processes}\n");
    }
    text + &style.next(&format!("cudarun explain {}", shell_words(words)))
}

fn planned(file: &Mapped, style: Style) -> String {
    match file.in_plan {
        Some(true) => "as planned".to_owned(),
        Some(false) => style.error("not in the plan"),
        None => String::new(),
    }
}

fn by(rule: TracedRule) -> &'static str {
    match rule {
        TracedRule::Program => "the program",
        TracedRule::Pinned => "pinned",
        TracedRule::Path => "by its path",
        TracedRule::Rpath => "DT_RPATH or DT_RUNPATH",
        TracedRule::LibraryPath => variables::LIBRARY_PATH,
        TracedRule::Cache => "ld.so.cache",
        TracedRule::Default => "a default directory",
        TracedRule::Secure => "a secure directory",
        TracedRule::Unasked => "without a request",
    }
}

/// The count of files from the plan, where no others of its families were mapped.
fn verdict(image: &Image) -> String {
    let planned = || image.files.iter().filter_map(|file| file.in_plan);
    match planned().count() {
        _ if !image.is_target || planned().any(|is_picked| !is_picked) => String::new(),
        0 => String::new(),
        1 => "  the NVIDIA file came from the plan\n".to_owned(),
        count => format!("  all {count} NVIDIA files came from the plan\n"),
    }
}
