//! `cudarun verify [PROGRAM …]`: proves the set that the program would get, and starts nothing else.

use std::path::{Path, PathBuf};

use super::progress::Looking;
use super::proving::{How, Proven};
use super::{Exit, Purpose, command_of, consider, look, of_any_program, print, say_notes, style, wanted};
use crate::catalog::catalog;
use crate::cli::{Common, Verify, When};
use crate::environment::Diff;
use crate::error::Error;
use crate::host::Host;
use crate::inventory::Inventory;
use crate::loader::process::Failure;
use crate::loader::search::Rule;
use crate::pin::PublishedPaths;
use crate::predict::Prediction;
use crate::predict::supply::{self, Supply};
use crate::report;
use crate::text::show;
use crate::verify::{Library, Skip, Subject, Verdict};

pub fn prove(host: &Host, common: &Common, verify: &Verify) -> Result<Exit, Error> {
    if let Some(option) = common.elsewhere() {
        return Err(Error::NothingRunsUnderRoot { option, verb: "verify" });
    }
    let command = verify.words.first().map(|_| command_of(&verify.words));
    let wanted = wanted(host, common, &verify.wishes, command.as_ref(), Purpose::Start)?;
    let host = &wanted.host;
    let how = How {
        when: match wanted.settings.verify() {
            _ if verify.fresh || verify.seed.is_some() => When::Always,
            Some(When::Always) => When::Always,
            _ => When::Auto,
        },
        level: verify.level.or(wanted.settings.level()).unwrap_or_default(),
        seed: verify.seed,
        is_quiet: common.quiet || verify.json,
    };
    let proven = match &command {
        None => {
            let mut scope = of_any_program(host, common, &wanted.settings)?;
            scope.also.extend(wanted.directories.iter().cloned());
            let shown = Looking::begin(host, common);
            let inventory = look(host, &scope);
            drop(shown);
            as_it_is(host, &inventory, &given(&inventory), how)?
        }
        Some(command) => {
            let mut considered = consider(&wanted, common, command)?;
            if verify.as_is {
                let subject = expected(&considered.inventory, &considered.before(host));
                as_it_is(host, &considered.inventory, &subject, how)?
            } else {
                let error_style = style(host, common.color, host.stderr_is_terminal());
                if considered.refuse(verify.json, error_style)? {
                    return Ok(Exit::No);
                }
                if !how.is_quiet {
                    say_notes(&considered);
                }
                considered.prove(host, how)?
            }
        }
    };
    tell(host, common, verify.json, &proven)
}

fn tell(host: &Host, common: &Common, json: bool, proven: &Proven) -> Result<Exit, Error> {
    let verdict = &proven.verdict;
    if json {
        print(&report::json::verdict(verdict, &proven.given_up, proven.is_known))?;
    } else {
        let is_bad = matches!(verdict, Verdict::Failed { .. });
        let is_terminal = if is_bad { host.stderr_is_terminal() } else { host.stdout_is_terminal() };
        let style = style(host, common.color, is_terminal);
        let text = report::verdict(verdict, &proven.given_up, proven.is_known, style);
        if is_bad { report::say(&text) } else { print(&text)? }
    }
    Ok(match verdict {
        Verdict::Passed { .. } | Verdict::Skipped { why: Skip::NothingToTry | Skip::ProvedBefore } => {
            Exit::Yes
        }
        Verdict::Failed { .. } => Exit::No,
        Verdict::Skipped { .. } | Verdict::Busy { .. } => Exit::Unknown,
    })
}

/// In the environment as it is, with nothing pinned: what a program gets without cudarun.
fn as_it_is(host: &Host, inventory: &Inventory, subject: &Subject, how: How) -> Result<Proven, Error> {
    let verdict = how.prove_once(host, inventory, subject, &host.env)?;
    Ok(Proven {
        diff: Diff::default(),
        places: PublishedPaths::default(),
        verdict,
        given_up: Vec::new(),
        is_known: false,
    })
}

/// What the loader gives to a program that has no search path of its own.
fn given(inventory: &Inventory) -> Subject {
    let given = inventory.installations.iter().filter(|installation| installation.loader_gives);
    let libraries = given.filter_map(Library::of).map(|library| library.with_damaged(&inventory.warnings));
    Subject { libraries: libraries.collect(), is_planned: false }
}

/// What a program is expected to map. Where a family comes from two places, the first is the one that programs ask for, and
/// what comes from the other is foreign to it.
fn expected(inventory: &Inventory, prediction: &Prediction) -> Subject {
    let mut subject = Subject::default();
    let given = supply::given(prediction, inventory);
    for file in prediction.files.iter().filter(|file| file.family.is_some()) {
        let Some(installation) =
            inventory.installations.iter().find(|installation| installation.has_file(file.id))
        else {
            continue;
        };
        let Some(library) = Library::of(installation) else { continue };
        let mut library = library.with_damaged(&inventory.warnings);
        // The child has none of the program's search paths.
        let is_of_program = matches!(file.rule, Rule::Rpath { .. } | Rule::Path | Rule::Runpath);
        library.found_in = file.path.parent().filter(|_| is_of_program).map(Path::to_owned);
        let is_shim_over_another = |family: &str| given.get(family).is_some_and(Supply::is_shim_over_another);
        let mut known = subject.libraries.iter_mut();
        match known.find(|known| known.family == library.family && known.soname == library.soname) {
            None => subject.libraries.push(library),
            Some(known) if known.directory != library.directory && !is_shim_over_another(&known.family) => {
                let real = library.files.iter().find(|member| member.id == file.id);
                let version = library.version.filter(|version| Some(*version) != known.version);
                known.foreign.extend(real.map(|member| show(&member.path)).zip(version));
            }
            Some(_) => {}
        }
    }
    subject.libraries.extend(ends_the_start(prediction));
    subject
}

/// The libraries for want of which the program would not start: there is none of that name, or one that the loader
/// gives up at.
fn ends_the_start(prediction: &Prediction) -> Vec<Library> {
    let Some(failure) = &prediction.failure else { return Vec::new() };
    let bad = match failure {
        Failure::Bad { path, .. } => Some(path.clone()),
        _ => None,
    };
    let paths = prediction.missing.iter().map(|missing| PathBuf::from(&missing.name)).chain(bad);
    let libraries = paths.filter_map(|path| {
        let (family, _) = catalog().family_of_file(&path)?;
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        Some(Library::without_files(&family.name, path.file_name()?.to_str()?, directory))
    });
    libraries.collect()
}
