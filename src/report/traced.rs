//! The files that the model of the loader predicts, and those that a traced program mapped.

use std::path::Path;

use super::Style;
use super::loader::{self, file_name, rule};
use crate::catalog::catalog;
use crate::formats::audit_log::TracedRule;
use crate::predict::observe::{Difference, Image, Mapped, Observation};
use crate::predict::{Predicted, Prediction, When};
use crate::text::show;
use crate::variables;

/// `trace --predict`
pub fn prediction(prediction: &Prediction, all: bool, style: Style) -> String {
    let mut text = String::new();
    let is_shown = |file: &&Predicted| all || is_of_interest(file.family.as_ref(), &file.path);
    for (when, title) in [(When::Start, "at the start"), (When::Opened, "at run time")] {
        let files = prediction.files.iter().filter(|file| file.when == when).filter(is_shown);
        let rows: Vec<Vec<String>> = files.map(|file| row(file, style)).collect();
        if !rows.is_empty() {
            text.push_str(&format!("{}\n{}", style.strong(title), style.columns("  ", &rows)));
        }
    }
    let missing = prediction.missing.iter().filter(|missing| all || missing.family.is_some());
    let rows: Vec<Vec<String>> = missing
        .map(|missing| vec![show(&missing.name), format!("for {}", file_name(&missing.requester))])
        .collect();
    if !rows.is_empty() {
        text.push_str(&format!("{}\n{}", style.strong("not found"), style.columns("  ", &rows)));
    }
    if let Some(failure) = &prediction.failure {
        text.push_str(&format!(
            "{} the program does not start: {}\n",
            style.error("error:"),
            loader::failure(failure)
        ));
    }
    if text.is_empty() {
        text.push_str("no NVIDIA library\n");
    }
    text
}

/// True for NVIDIA's libraries, including those that a package bundles under another name.
pub(super) fn is_of_interest(family: Option<&String>, path: &Path) -> bool {
    family.is_some() || catalog().family_of_bundled(path).is_some()
}

fn row(file: &Predicted, style: Style) -> Vec<String> {
    let asked = if file.requester.as_os_str().is_empty() {
        String::new()
    } else {
        format!("for {}", file_name(&file.requester))
    };
    vec![file_name(Path::new(&file.name)), show(&file.path), asked, style.dim(&rule(&file.rule))]
}

/// `trace`
pub fn observation(observation: &Observation, all: bool, style: Style) -> String {
    let mut text = String::new();
    for image in &observation.images {
        let is_shown = |file: &&Mapped| all || is_of_interest(file.family.as_ref(), &file.path);
        let files: Vec<&Mapped> = image.files.iter().filter(is_shown).collect();
        if files.is_empty() && image.wrong.is_empty() {
            continue;
        }
        let started = image.program.as_ref().map_or(", forked".to_owned(), |path| format!(" {}", show(path)));
        text.push_str(&format!("{}\n", style.strong(&format!("cudarun: {}{started}", image.pid))));
        let rows: Vec<Vec<String>> = files.iter().map(|file| mapped(file, style)).collect();
        text.push_str(&style.columns("  ", &rows));
        text.push_str(&verdict(image, style));
    }
    if text.is_empty() {
        let processes = match observation.images.len() {
            0 => "nothing was recorded: no process used the dynamic loader".to_owned(),
            1 => "one process, no NVIDIA library".to_owned(),
            count => format!("{count} processes, no NVIDIA library"),
        };
        text.push_str(&format!("cudarun: {processes}\n"));
    }
    text
}

fn mapped(file: &Mapped, style: Style) -> Vec<String> {
    let asked = if file.requester.as_os_str().is_empty() {
        "for the program".to_owned()
    } else {
        format!("for {}", file_name(&file.requester))
    };
    let planned = match file.in_plan {
        Some(true) => "as planned".to_owned(),
        Some(false) => style.error("not in the plan"),
        None => String::new(),
    };
    vec![file_name(Path::new(&file.name)), show(&file.file), asked, style.dim(by(file.rule)), planned]
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

/// The comparison with the model.
fn verdict(image: &Image, style: Style) -> String {
    if !image.is_target {
        return String::new();
    }
    if image.wrong.is_empty() {
        return "  as the model of the loader predicted\n".to_owned();
    }
    let line = |wrong: &Difference| {
        let what =
            if wrong.foreseen { style.error("the model was wrong:") } else { style.strong("not predicted:") };
        format!("  {what} {}\n", difference(wrong))
    };
    image.wrong.iter().map(line).collect()
}

fn difference(wrong: &Difference) -> String {
    let name = show(&wrong.name);
    match (&wrong.expected, &wrong.mapped) {
        (Some(expected), Some(mapped)) => {
            format!("{name} is {}, but the model predicted {}", show(mapped), show(expected))
        }
        (None, Some(mapped)) if wrong.foreseen => {
            format!("{name} is {}, but the model predicted that it is not found", show(mapped))
        }
        (None, Some(mapped)) if name == show(mapped) => format!("{name}, which no known object opens"),
        (None, Some(mapped)) => format!("{name} is {}, which no known object opens", show(mapped)),
        (Some(expected), None) => format!("{name} is not mapped, but the model predicted {}", show(expected)),
        (None, None) => name,
    }
}
