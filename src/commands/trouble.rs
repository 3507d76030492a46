//! The one line that the shell hook prints about a project: the trouble that its programs would have without cudarun.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::catalog::catalog;
use crate::cli::{Common, Wishes};
use crate::error::Error;
use crate::host::Host;
use crate::pipeline::{self, Exit, Facts, Reached, Request, Stop, Subject};
use crate::predict::project;
use crate::program::Load;
use crate::report;
use crate::settings::Key;
use crate::settings::resolve::Purpose;
use crate::solve::{Outcome, Plan};

/// The paths that an answer was read from.
#[derive(Default)]
pub(super) struct Read {
    pub watched: BTreeSet<PathBuf>,
    pub located: BTreeSet<PathBuf>,
    /// The answer could differ by something that was not read, or in another directory of the project.
    pub is_partial: bool,
    /// The setting that whatever a shell starts here is followed.
    pub follows: Option<bool>,
}

/// The line, or `None` where all is well.
pub(super) fn trouble(
    host: &Host,
    common: &Common,
    read: &mut Read,
) -> Result<Option<String>, Error> {
    let wishes = Wishes::default();
    let request = Request::new(host, common, &wishes, Subject::Project, Purpose::Project);
    let mut answer = None;
    pipeline::run(&request, &mut |reached| match reached {
        Reached::Settings(settings) => {
            read.watched.extend(settings.watched.iter().cloned());
            read.follows = settings.layers.follow();
            answer = settings.not_allowed.as_ref().map(report::setting_remark);
            if answer.is_some() {
                Err(Stop::Exit(Exit::No))
            } else {
                Ok(())
            }
        }
        Reached::Outcome(facts, outcome) => {
            answer = examine(facts, outcome, common, read);
            Err(Stop::Exit(Exit::Yes))
        }
        _ => Ok(()),
    })?;
    Ok(answer)
}

/// The trouble that programs of the project would have without cudarun, in one line.
fn examine(
    facts: &mut Facts<'_>,
    outcome: &Outcome,
    common: &Common,
    read: &mut Read,
) -> Option<String> {
    // Without the Python that it names, a project is represented by any program.
    let names_packages = !facts.settings.layers.words(&Key::Uses).is_empty();
    read.is_partial = names_packages && facts.program.pip.is_none();
    if let Outcome::Plan(plan) = outcome {
        facts.program.loads.extend(loads(plan));
    }
    let before = facts.before();
    read.watched.extend(facts.watched(outcome, Some(&before)));
    read.located.extend(facts.program.located.iter().cloned());
    read.is_partial |= facts.program.depends_on_directory;
    let trouble = project::judge(outcome, &before, &facts.inventory);
    let trouble = trouble.filter(|trouble| !common.quiet || trouble.ends_every_start());
    let remark = facts.settings.remarks.first().filter(|_| !common.quiet);
    trouble
        .map(|trouble| report::trouble(&trouble))
        .or_else(|| remark.map(report::setting_remark))
}

/// A stand-in for a project's programs opens what was picked for them, by the name that every program uses.
pub(super) fn loads(plan: &Plan) -> impl Iterator<Item = Load> {
    plan.picks.iter().filter_map(|pick| {
        let main = &catalog().family(&pick.installation.family)?.main;
        let name = pick.installation.member(main)?.soname.clone();
        Some(Load {
            by: None,
            name,
            may_be_first: false,
            is_guess: false,
        })
    })
}
