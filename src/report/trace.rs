//! The files that the model of the loader predicts, and those that a traced program mapped.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::Style;
use super::hints::shell_words;
use super::words::{USED_THE_CPU, counted, table};
use crate::formats::audit_log::TracedRule;
use crate::loader::process::LoadFailure;
use crate::loader::search::FoundBy;
use crate::predict::observe::{MappedLibrary, ObservedProcess, ProcessImage};
use crate::predict::{MappedWhen, Prediction, is_nvidias};
use crate::text::show;
use crate::variables;

/// `trace --predict`
pub fn prediction(prediction: &Prediction, all: bool, words: &[OsString], style: Style) -> String {
    let mut files = Vec::from_iter(&prediction.files);
    files.retain(|file| all || is_nvidias(file.family.as_ref(), &file.path));
    let mut missing = Vec::new();
    for library in &prediction.missing {
        if all || library.family.is_some() {
            missing.push(vec![
                show(&library.name),
                format!("for {}", file_name(&library.requester)),
            ]);
        }
    }
    let mut text = match &prediction.failure {
        Some(failure) => format!(
            "{} the program does not start: {}\n",
            style.error("error:"),
            self::failure(failure)
        ),
        None => {
            let kind = if all { "file" } else { "NVIDIA file" };
            would_map(files.len(), kind, missing.len())
        }
    };
    for (when, title) in [
        (MappedWhen::Start, "at the start"),
        (MappedWhen::Opened, "at run time"),
    ] {
        let mut rows = Vec::new();
        for file in files.iter().filter(|file| file.when == when) {
            rows.push(row(
                file.name.as_ref(),
                &file.path,
                &file.requester,
                "",
                &rule(&file.rule),
                style,
            ));
        }
        text.push_str(&table(title, &rows, style));
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

fn would_map(files: usize, kind: &str, lost: usize) -> String {
    if files + lost == 0 {
        return "no NVIDIA library\n".to_owned();
    }
    let files = counted(files, kind);
    let lost = match lost {
        0 => String::new(),
        lost => format!("; {} not found", counted(lost, "name")),
    };
    format!("the program would map {files}{lost}\n")
}

/// The row of a file. `no_requester` is written if none asked for it.
fn row(
    name: &OsStr,
    path: &Path,
    requester: &Path,
    no_requester: &str,
    rule: &str,
    style: Style,
) -> Vec<String> {
    let purpose = if requester.as_os_str().is_empty() {
        no_requester.to_owned()
    } else {
        format!("for {}, ", file_name(requester))
    };
    vec![
        file_name(Path::new(name)),
        show(path),
        format!("{purpose}{}", style.dim(rule)),
    ]
}

/// `trace`. `expects_gpu` is true if the program surely imports what uses a GPU.
pub fn observation(
    observation: &ObservedProcess,
    expects_gpu: bool,
    all: bool,
    words: &[OsString],
    style: Style,
) -> String {
    let mut text = String::new();
    for image in &observation.images {
        let mut rows = Vec::new();
        for library in &image.files {
            if !all && !is_nvidias(library.family.as_ref(), &library.file) {
                continue;
            }
            let mut row = row(
                &library.name,
                &library.file,
                &library.requester,
                "for the program, ",
                traced_rule(library.rule),
                style,
            );
            row.push(planned(library, style));
            rows.push(row);
        }
        if rows.is_empty() {
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
        text.push_str(&style.columns("  ", &rows));
    }
    if text.is_empty() {
        let processes = match observation.images.len() {
            0 => "nothing was recorded: no process used the dynamic loader".to_owned(),
            1 => "one process, no NVIDIA library".to_owned(),
            count => format!("{count} processes, no NVIDIA library"),
        };
        return format!("cudarun: {processes}\n");
    }
    let unused = if !observation.has_opened_driver {
        Some("no process opened the driver's libcuda.so: the GPU was not used")
    } else if observation.has_opened_gpu == Some(false) {
        Some(USED_THE_CPU)
    } else {
        None
    };
    if let Some(line) = unused.filter(|_| expects_gpu) {
        text.push_str(&format!("{} {line}\n", style.warning("note:")));
    }
    text + &style.next(&format!("cudarun explain {}", shell_words(words)))
}

fn planned(file: &MappedLibrary, style: Style) -> String {
    match file.in_plan {
        Some(true) => "as planned".to_owned(),
        Some(false) => style.error("not in the plan"),
        None => String::new(),
    }
}

fn traced_rule(rule: TracedRule) -> &'static str {
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
fn verdict(image: &ProcessImage) -> String {
    let mut planned = 0;
    for file in &image.files {
        match file.in_plan {
            Some(true) => planned += 1,
            Some(false) => return String::new(),
            None => {}
        }
    }
    match planned {
        _ if !image.is_target => String::new(),
        0 => String::new(),
        1 => "  the NVIDIA file came from the plan\n".to_owned(),
        count => format!("  all {count} NVIDIA files came from the plan\n"),
    }
}

/// The rule by which the loader finds a file.
pub(super) fn rule(rule: &FoundBy) -> String {
    match rule {
        FoundBy::Executable => "the program".to_owned(),
        FoundBy::Interpreter => "the loader itself".to_owned(),
        FoundBy::Preload => variables::PRELOAD.to_owned(),
        FoundBy::Path => "by its path".to_owned(),
        FoundBy::Rpath { of } => format!("DT_RPATH of {}", file_name(of)),
        FoundBy::LibraryPath { element } if element.is_empty() => {
            "an empty element of LD_LIBRARY_PATH".to_owned()
        }
        FoundBy::LibraryPath { element } => format!("LD_LIBRARY_PATH, {}", show(element)),
        FoundBy::Runpath => "its requester's DT_RUNPATH".to_owned(),
        FoundBy::Cache => "ld.so.cache".to_owned(),
        FoundBy::Default => "a default directory".to_owned(),
        FoundBy::Pinned => "pinned".to_owned(),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(show).unwrap_or_default()
}

pub(super) fn failure(failure: &LoadFailure) -> String {
    match failure {
        LoadFailure::Static => "it is linked statically, without a dynamic loader".to_owned(),
        LoadFailure::OtherLoader { interpreter } => {
            format!("its loader is {}, not glibc's", show(interpreter))
        }
        LoadFailure::NoInterpreter { interpreter } => {
            format!("its loader {} does not exist", show(interpreter))
        }
        LoadFailure::Unreadable { path } => format!("{} cannot be read", show(path)),
        LoadFailure::OtherMachine { path } => format!("{} is for another architecture", show(path)),
        LoadFailure::NotFound(miss) => format!("{} is not found", show(&miss.name)),
        LoadFailure::Bad { path, why, .. } => format!("{} is {why}", show(path)),
        LoadFailure::Version { file, version, .. } => {
            format!("{} has no version {}", show(file), show(version))
        }
    }
}
