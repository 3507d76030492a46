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
        let is_json = options.is_some_and(|options| options.json);
        let is_page = options.is_some_and(|options| options.paper.is_asked());
        let worth = Worth::of(&log.chain, status, facts.inventory.is_without_gpu());
        let is_told = is_json
            || match worth {
                Worth::Failure => true,
                Worth::Clue => options.is_some(),
                Worth::Unknown | Worth::OnTheCpu(_) => is_page,
                Worth::Nothing => false,
            };
        if is_told {
            explained(facts, decision, common, text, is_pinned, |diagnosis| {
                if is_json {
                    return report::say(&report::diagnosis_json(diagnosis));
                }
                let page = || report::diagnosed_page(diagnosis);
                let delivered = options
                    .map(|options| paper::deliver_after(common, &options.paper, page))
                    .transpose();
                match delivered {
                    Ok(Some(true)) => {}
                    Err(error) => super::say(&report::error(&error)),
                    Ok(_) => {
                        let all = options.is_some_and(|options| options.all);
                        let page = report::diagnosis(diagnosis, all, common.verbose, style);
                        let ended = report::ended(&command.program, status);
                        report::say(&style.page(&format!("\n{ended}\n{page}")));
                    }
                }
            });
        }
        match worth {
            _ if is_json || options.is_none() => {}
            Worth::OnTheCpu(message) => {
                report::say(&style.page(&report::on_the_cpu(message)));
            }
            Worth::Unknown if !is_told => {
                report::say(&style.page(&report::unknown_failure(&command.program, status, style)));
            }
            _ => {}
        }
    }
}
