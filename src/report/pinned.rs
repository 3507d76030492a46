//! How the loader is made to take a plan: what the program would get without it, what it gets with it, by which mode,
//! and why no weaker one is enough.

use super::Style;
use super::loader::rule;
use super::style::columns;
use super::words;
use crate::inventory::{Installation, Inventory};
use crate::pin::{Decision, Mode, NotEnough, Pinned, Why};
use crate::predict::supply::{Fault, Supply, given};
use crate::predict::{Predicted, Prediction};
use crate::program::Program;
use crate::solve::Outcome;
use crate::text::show;
use crate::version::Version;

/// More files of one kind say no more.
const SHOWN: usize = 3;

/// The table of before and after, and the mode.
pub(super) fn loads(
    decision: &Decision,
    before: &Prediction,
    inventory: &Inventory,
    program: &Program,
    style: Style,
) -> String {
    let Some(pinned) = &decision.pinned else { return String::new() };
    let (before, after) = (given(before, inventory), given(&pinned.after, inventory));
    let mut rows = Vec::new();
    for (family, now) in &after {
        let name = words::family(family).to_owned();
        let with = places(now, program);
        match before.get(family) {
            Some(then) if places(then, program) == with && then.fault(inventory).is_none() => {
                rows.push(vec![name, with, style.dim("as without cudarun")]);
            }
            Some(then) => {
                let fault = then
                    .fault(inventory)
                    .map(|fault| style.warning(&format!("{}: ", given_fault(fault))))
                    .unwrap_or_default();
                rows.push(vec![name, with, format!("without: {fault}{}", places(then, program))]);
            }
            None => rows.push(vec![name, with, style.warning("without: none")]),
        }
    }
    for (family, then) in before.iter().filter(|(family, _)| !after.contains_key(*family)) {
        rows.push(vec![
            words::family(family).to_owned(),
            "none".to_owned(),
            format!("without: {}", places(then, program)),
        ]);
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n{}", style.strong("the loader takes"), columns("  ", &rows));
    text.push_str(&format!("  {}\n", mode_line(pinned)));
    for passed in &decision.passed_over {
        text.push_str(&format!("  {}\n", not_enough(passed, program)));
    }
    text
}

/// What is wrong with what is given, in a word.
pub(super) fn given_fault(fault: Fault) -> &'static str {
    match fault {
        Fault::Stub => "a stub",
        Fault::OlderThanKernel => "older than the kernel's driver",
        Fault::Twice => "two installations",
        Fault::Mixed => "mixed",
    }
}

/// `9.19.0 site-packages/nvidia/cudnn/lib and 9.14.0 /usr/lib/x86_64-linux-gnu`
fn places(given: &Supply<'_>, program: &Program) -> String {
    let place = |(installation, files): &(Option<&Installation>, Vec<&Predicted>)| match installation {
        Some(installation) => {
            format!(
                "{} {}",
                words::version(installation.version.as_ref()),
                words::place(&installation.directory, Some(program))
            )
        }
        None => show(&files[0].path),
    };
    words::list(&given.installations.iter().map(place).collect::<Vec<_>>())
}

pub(super) fn mode_line(pinned: &Pinned) -> String {
    let line = match pinned.mode {
        Mode::None => "mode none: nothing has to be set",
        Mode::Clean => "mode clean: harmful elements of LD_LIBRARY_PATH are removed, nothing is added",
        Mode::Audit if pinned.only_for.is_some() => {
            "mode audit: a module in LD_AUDIT answers for every pinned name, in this program only"
        }
        Mode::Audit => "mode audit: a module in LD_AUDIT answers for every pinned name, in every process",
        Mode::View => "mode view: first in LD_LIBRARY_PATH, which is enough here",
        Mode::Preload => "mode preload: LD_PRELOAD maps it before any search path counts",
    };
    let children = if pinned.reaches_children() { format!("; {CHILDREN}") } else { String::new() };
    format!("{line}{children}")
}

const CHILDREN: &str =
    "a child process of another environment may load these libraries together with its own";

/// VersionEvidence at the start of a program that launches others, where the mode reaches them.
pub fn launches(program: &Program) -> String {
    format!(
        "`{}` starts several programs, and {CHILDREN}; put cudarun before each of them",
        show(program.path.file_name().unwrap_or_default())
    )
}

/// Why a mode was passed over.
pub(super) fn not_enough(passed: &NotEnough, program: &Program) -> String {
    format!("{} is not enough: {}", mode_name(passed.mode), why(&passed.why, program))
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::None => "none",
        Mode::Clean => "clean",
        Mode::View => "view",
        Mode::Audit => "audit",
        Mode::Preload => "preload",
    }
}

fn why(why: &Why, program: &Program) -> String {
    match why {
        Why::Leaks { files } => {
            let mut leaks: Vec<String> = files.iter().take(SHOWN).map(|file| leak(file, program)).collect();
            if files.len() > SHOWN {
                leaks.push(format!("{} more", files.len() - SHOWN));
            }
            leaks.join("; ")
        }
        Why::LedAstray { families } => {
            let names: Vec<String> = families.iter().map(|family| words::family(family).to_owned()).collect();
            format!(
                "a search path that comes before LD_LIBRARY_PATH leads to {} that does not fit",
                words::list(&names)
            )
        }
        Why::Unseen { families } => {
            let names: Vec<String> = families.iter().map(|family| words::family(family).to_owned()).collect();
            format!(
                "cudarun does not see which file loads {}; that file may have search paths of its own",
                words::list(&names)
            )
        }
        Why::Reachable { family, directory } => {
            format!(
                "another {} can be reached: {}",
                words::family(family),
                words::place(directory, Some(program))
            )
        }
        Why::Relative { element } if element.is_empty() => {
            "an empty element of LD_LIBRARY_PATH is the current directory".to_owned()
        }
        Why::Relative { element } => format!("LD_LIBRARY_PATH has the relative element {}", show(element)),
        Why::NotFound { names } => format!("the program would not find {}", words::list(names)),
        Why::SearchIsLimited => {
            "--without excludes some directories, so it is not known what can be reached".to_owned()
        }
        Why::Harmful => "LD_LIBRARY_PATH or LD_PRELOAD has to be changed".to_owned(),
        Why::ProgramNotKnown => {
            "it is not known which program will run, so the module cannot be limited to it".to_owned()
        }
        Why::RewritesLibraryPath => {
            "the program puts a directory of its own first in LD_LIBRARY_PATH".to_owned()
        }
        Why::Undone { variable } => format!("a wrapper that starts the program sets or unsets {variable}"),
        Why::OldLoader { glibc } => too_old_for_auditors(*glibc),
        Why::NotStarted { failure } => {
            format!("the program does not start: {}", super::loader::failure(failure))
        }
        Why::NoModule => "there is no module for this kind of machine".to_owned(),
    }
}

/// `libcudnn.so.9 would come from /opt/lib (DT_RPATH of libtorch_cuda.so)`
fn leak(file: &Predicted, program: &Program) -> String {
    let directory =
        file.path.parent().map(|directory| words::place(directory, Some(program))).unwrap_or_default();
    let name = file.name.rsplit('/').next().unwrap_or_default();
    format!("{} would come from {directory} ({})", show(name), rule(&file.rule))
}

pub fn too_old_for_auditors(glibc: Option<Version>) -> String {
    match glibc {
        Some(glibc) => format!(
            "it needs glibc 2.35 or newer: glibc {glibc} slows down every library call under an auditor"
        ),
        None => {
            "the version of its C library is not known, and an old one is slow under an auditor".to_owned()
        }
    }
}

/// Why nothing is started: no set fits, or none that the loader could be made to take.
pub fn refusal(decision: &Decision, program: &Program, style: Style) -> String {
    let mut text = String::new();
    match &decision.outcome {
        Outcome::Conflict(conflict) => {
            text.push_str(&super::conflict::unmet(conflict, program, style));
            for passed in decision.passed_over.iter().filter(|passed| passed.mode != Mode::View) {
                text.push_str(&format!("  {}\n", not_enough(passed, program)));
            }
        }
        _ => {
            text.push_str(&format!("{} the loader would not take what was picked\n", style.error("error:")));
            for passed in &decision.passed_over {
                text.push_str(&format!("  {}\n", not_enough(passed, program)));
            }
        }
    }
    if let Some(hint) = hint(decision, program) {
        text.push_str(&format!("\n{} {hint}\n", style.hint("hint:")));
    }
    text
}

/// What to type.
fn hint(decision: &Decision, program: &Program) -> Option<String> {
    match (decision.instead, &decision.outcome) {
        (Some(mode), _) => Some(instead(mode)),
        (None, Outcome::Conflict(conflict)) => conflict.hint.as_ref().map(super::hint),
        (None, _) => Some(leak_hint(decision, program)),
    }
}

pub(super) fn instead(mode: Mode) -> String {
    format!("leave out --pin-mode: {} is enough", mode_name(mode))
}

/// What would have to change.
fn leak_hint(decision: &Decision, program: &Program) -> String {
    let leaking = decision.passed_over.iter().find_map(|passed| match &passed.why {
        Why::Leaks { files } => files.first(),
        _ => None,
    });
    match leaking.and_then(|file| file.path.parent()) {
        Some(directory) => format!(
            "remove {} from what the program searches, or make the installation there the one that fits",
            words::place(directory, Some(program))
        ),
        None => "see `cudarun explain -v`".to_owned(),
    }
}
