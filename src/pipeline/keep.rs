//! Kept starts: a start that was worked out once is used again while everything that it was read from looks as it did.

use std::path::{Path, PathBuf};

use super::proofs::{BOOT, Proven};
use super::start_facts::StartFacts;
use crate::cli::{Common, LibraryOptions, StartOptions, VerifyWhen};
use crate::host::Host;
use crate::kept::{self, start_key};
use crate::pin::Decision;
use crate::program::Command;
use crate::storage;
use crate::verify::{OtherFile, Verdict};

/// True if options decide something about the start, so that it is neither kept nor taken from the kept ones.
pub fn has_deciding_options(common: &Common, start: &StartOptions) -> bool {
    !common.also.is_empty()
        || !common.without.is_empty()
        || common.config.is_some()
        || common.no_config
        || start.library_options != LibraryOptions::default()
        || start.verify.is_some()
}

/// True if a proved start is kept for the next time. It is not if a GPU could not be tried, if options decide something, since
/// they are no part of its key, or if another current directory may lead to another decision. `reports` is true when something
/// is printed at every such start.
pub fn is_kept(
    facts: &StartFacts<'_>,
    proven: &Proven,
    when: VerifyWhen,
    has_deciding_options: bool,
    reports: bool,
) -> bool {
    let depends_on_directory =
        facts.program.depends_on_directory || facts.settings.depends_on_directory;
    let is_best = proven.given_up.is_empty() && !matches!(proven.verdict, Verdict::Busy { .. });
    !has_deciding_options
        && when != VerifyWhen::Always
        && !depends_on_directory
        && is_best
        && !reports
        && facts.settings.remarks.is_empty()
}

/// Keeps a start for the next time, where a directory can hold it. Returns a path that has changed meanwhile, which prevents
/// that. The key is made from `host`, the machine without the variables that files set.
pub fn keep(
    host: &Host,
    facts: &StartFacts<'_>,
    decision: &Decision,
    proven: &Proven,
    command: &Command,
) -> Option<PathBuf> {
    let of_build = facts.build.as_ref();
    let directory = storage::cache_directory(host);
    let (Ok(directory), Some(key)) = (
        directory,
        start_key(host, &facts.program.path, command, of_build.is_some()),
    ) else {
        return None;
    };
    let after = decision.pinned.as_ref().map(|pinned| &pinned.after);
    let mut watched = facts.watched(&decision.outcome, after);
    watched.extend(facts.compilers.watched.iter().cloned());
    watched.extend(of_build.iter().flat_map(|build| &build.watched).cloned());
    if let Verdict::Passed { proof } = &proven.verdict {
        watched.insert(BOOT.into());
        watched.extend(proof.finding.other_files.iter().map(OtherFile::path));
    }
    let paths = &proven.change.paths;
    let own: Vec<&Path> = paths
        .view
        .iter()
        .chain(&paths.module)
        .chain(of_build.and_then(|build| build.view.as_ref()))
        .chain(
            facts
                .compilers
                .supplied
                .iter()
                .filter_map(|supply| supply.view.as_ref()),
        )
        .map(PathBuf::as_path)
        .collect();
    kept::keep_start(
        host,
        &directory,
        &key,
        &proven.change.of_start(),
        &watched,
        &facts.program.located,
        &own,
    )
}
