//! `cudarun shell [PROGRAM …]`: a shell in which the plan of a program, or of the project, is set.

use super::subshell::{choose, environment, prepared};
use super::trouble::loads;
use super::verdict::say_proof;
use super::{Exit, command_of, follow, only_here, say, say_before, say_refusal};
use crate::cli::{Common, Subshell};
use crate::environment::Diff;
use crate::error::Error;
use crate::host::Host;
use crate::launch::{self, Exec};
use crate::pipeline::{ProofOptions, Reached, Request, Stop, Subject};
use crate::report;
use crate::settings::resolve::Purpose;
use crate::solve::Outcome;
use crate::variables;

pub fn shell(host: &Host, common: &Common, options: &Subshell) -> Result<Exit, Error> {
    only_here(common, "shell")?;
    if let Some(project) = host.env.non_empty(variables::SHELL) {
        return Err(Error::NestedShell {
            project: project.to_owned(),
        });
    }
    let (shell, path, named_by) = choose(host)?;
    if common.verbose > 0 {
        say(&report::subshell(&path, named_by));
    }
    let words = if options.words.is_empty() {
        environment(host)
    } else {
        options.words.clone()
    };
    let command = command_of(&words);
    let (subject, purpose) = match words.first() {
        Some(_) => (Subject::Command(&command), Purpose::Prepare),
        None => (Subject::Project, Purpose::Project),
    };
    let proof = ProofOptions {
        when: options.start.verify,
        is_quiet: common.quiet,
        ..ProofOptions::default()
    };
    let is_build = options.start.building.build;
    let request = Request {
        is_build,
        proof,
        ..Request::new(host, common, &options.start.wishes, subject, purpose)
    };
    follow(&request, |reached| match reached {
        Reached::Settings(settings) if let Some(remark) = &settings.not_allowed => {
            if common.quiet {
                say(&report::setting_remark(remark));
            }
            Err(Stop::Exit(Exit::Refused))
        }
        Reached::Outcome(facts, outcome) => {
            match outcome {
                Outcome::Plan(plan) if facts.program.is_any => {
                    facts.program.loads.extend(loads(plan));
                }
                Outcome::Nothing { .. } if facts.settings.build.is_none() => {
                    let program = words.first().map(|_| facts.program.runs().to_owned());
                    return Err(Error::NoPlan { program }.into());
                }
                _ => {}
            }
            Ok(())
        }
        Reached::Decision(facts, decision) => {
            say_before(facts, decision, common);
            say_refusal(facts, decision, common);
            Ok(())
        }
        Reached::Proof(facts, decision, proven) => {
            let when = options
                .start
                .verify
                .or(facts.settings.layers.verify())
                .unwrap_or_default();
            say_proof(decision, proven, when, common)?;
            let plan = request.with_options(proven.change.of_start(), &facts.settings.layers);
            let (arguments, env) = prepared(host, shell, &plan)?;
            let diff = Diff::between(&host.env, &env);
            let argv0 = path.clone().into_os_string();
            match launch::exec(&Exec {
                program: path.clone(),
                argv0,
                arguments,
                diff,
            })? {}
        }
        _ => Ok(()),
    })
}
