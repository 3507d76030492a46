//! The explanation after a program that `cudarun diagnose` has waited for.

use std::ffi::OsString;
use std::process::ExitStatus;

use super::diagnose::{explained, known_from_text};
use super::paper;
use crate::cli::{Common, Diagnose};
use crate::diagnose::{Log, Worth};
use crate::pin::Decision;
use crate::pipeline::Facts;
use crate::program::Command;
use crate::report::{self, Diagnosis, Style};

/// A program that has ended, with what it wrote to standard error.
pub(super) struct Ended<'e> {
    pub log: &'e Log,
    pub status: ExitStatus,
    pub command: &'e Command,
    pub is_pinned: bool,
}

impl Ended<'_> {
    pub(super) fn explain(
        &self,
        facts: &Facts<'_>,
        decision: &Decision,
        common: &Common,
        options: Option<&Diagnose>,
    ) {
        let Ended {
            log,
            status,
            command,
            is_pinned,
        } = *self;
        let style = Style::stderr(common.color).of(facts.host);
        let words: Vec<OsString> = std::iter::once(&command.program)
            .chain(&command.arguments)
            .cloned()
            .collect();
        let text = Diagnosis {
            program: &words,
            ..known_from_text(log)
        };
        let all = options.is_some_and(|options| options.all);
        let is_json = options.is_some_and(|options| options.json);
        let explain = || {
            explained(facts, decision, common, text, is_pinned, |diagnosis| {
                if is_json {
                    return report::diagnosis_json(diagnosis);
                }
                let in_form = options.map_or(Ok(false), |options| {
                    paper::deliver_after(common, &options.paper, || {
                        report::diagnosed_page(diagnosis)
                    })
                });
                match in_form {
                    Ok(true) => return String::new(),
                    Ok(false) => {}
                    Err(error) => return format!("cudarun: {}\n", report::error(&error)),
                }
                let page = report::diagnosis(diagnosis, all, common.verbose, style);
                style.page(&format!(
                    "\n{}\n{page}",
                    report::ended(&command.program, status)
                ))
            })
        };
        let is_page = options.is_some_and(|options| options.paper.is_asked());
        match Worth::of(&log.chain, status, facts.inventory.is_without_gpu()) {
            _ if is_json => report::say(&explain()),
            Worth::Failure => report::say(&explain()),
            Worth::Clue if options.is_some() => report::say(&explain()),
            Worth::Unknown if is_page => report::say(&explain()),
            Worth::OnTheCpu(message) if options.is_some() => {
                if is_page {
                    report::say(&explain());
                }
                report::say(&style.page(&report::on_the_cpu(message)));
            }
            Worth::Unknown if options.is_some() => {
                report::say(&style.page(&report::unknown_failure(&command.program, status, style)));
            }
            _ => {}
        }
    }
}
