#![doc = include_str!("ARCHITECTURE.md")]
#![cfg_attr(
    test,
    allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::float_cmp,
        clippy::unwrap_used,
        reason = "tests are the place for it"
    )
)]

pub mod cache;
pub mod catalog;
pub mod cli;
pub mod commands;
pub mod environment;
pub mod error;
pub mod formats;
pub mod host;
pub mod inventory;
pub mod launch;
pub mod loader;
pub mod report;
pub mod solve;
pub mod symbols;
pub mod target;
pub mod text;
pub mod verify;
pub mod version;
pub mod view;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Parser;
use clap::error::ErrorKind;

use cli::{Cli, Verb};
use commands::Exit;
use error::{Error, Form};
use host::Host;
use target::Command;

/// Does what the command line says, and returns the exit code; a program that is started does not return.
pub fn run(arguments: &[OsString], host: Host) -> u8 {
    if arguments.get(1).is_some_and(|argument| argument == verify::protocol::CHILD) {
        verify::child::main(&host);
    }
    if let Some(exec) = plain_start(arguments).and_then(|command| commands::run::cached(&host, &command)) {
        let Err(error) = launch::exec(&exec);
        return complain(&error, Form::Run, false);
    }
    let form = form_of(arguments);
    match Cli::try_parse_from(arguments) {
        Ok(cli) => dispatch(host, &cli),
        Err(error) => usage(&error, form),
    }
}

/// The commonest command line of all, `cudarun PROGRAM …`, needs no parser: a start that is cached should
/// cost next to nothing.
fn plain_start(arguments: &[OsString]) -> Option<Command> {
    let program = arguments.get(1).filter(|word| !word.is_empty() && !word.as_bytes().starts_with(b"-"))?;
    let is_verb = cli::VERBS.iter().any(|verb| program == verb);
    (!is_verb).then(|| Command { program: program.clone(), arguments: arguments[2..].to_vec() })
}

fn dispatch(host: Host, cli: &Cli) -> u8 {
    let (common, start) = (&cli.common, &cli.start);
    let (form, json, ended) = match &cli.verb {
        None => return no_program(),
        Some(Verb::Program(words)) => (Form::Run, false, start_program(&host, common, start, words)),
        Some(Verb::Run(run)) => {
            (Form::Run, false, start_program(&host, common, &run.start, run.command.all()))
        }
        Some(Verb::List(list)) => (Form::Answer, list.json, commands::list::list(host, common, list)),
        Some(Verb::Explain(question)) => {
            (Form::Answer, question.json, commands::explain::explain(host, common, question))
        }
        Some(Verb::Export(question)) => {
            (Form::Answer, question.json, commands::export::export(host, common, question))
        }
        Some(Verb::Verify(question)) => {
            (Form::Answer, question.json, commands::prove::prove(&host, common, question))
        }
    };
    match ended {
        Ok(exit) => exit.code(),
        Err(error) => complain(&error, form, json),
    }
}

fn start_program(
    host: &Host,
    common: &cli::Common,
    start: &cli::Start,
    words: &[OsString],
) -> Result<Exit, Error> {
    let (program, arguments) = words.split_first().expect("clap gives at least one word");
    let command = Command { program: program.clone(), arguments: arguments.to_vec() };
    commands::run::run(host, common, start, &command)
}

fn complain(error: &Error, form: Form, json: bool) -> u8 {
    if json {
        let _ = report::print(&report::json::error(error));
    }
    report::say(&format!("cudarun: {}\n", report::error(error)));
    if let Error::NotFound { name } = error
        && let Some(hint) = report::did_you_mean(name.as_os_str(), cli::VERBS)
    {
        report::say(&format!("\nhint: {hint}\n"));
    }
    error.code(form)
}

/// Whether the command line means a verb that answers, as far as that can be seen before it is parsed.
fn form_of(arguments: &[OsString]) -> Form {
    let first_word = arguments.iter().skip(1).find(|word| !word.as_bytes().starts_with(b"-"));
    let answers = first_word.is_some_and(|word| cli::VERBS.iter().any(|verb| word == verb) && word != "run");
    if answers { Form::Answer } else { Form::Run }
}

fn usage(error: &clap::Error, form: Form) -> u8 {
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    // A reader that has gone away needs no help.
    let _ = error.print();
    match (is_answer, form) {
        (true, _) => 0,
        (false, Form::Run) => 125,
        (false, Form::Answer) => 2,
    }
}

fn no_program() -> u8 {
    let mut command = <Cli as clap::CommandFactory>::command();
    report::say(&format!("{}\n", command.render_usage()));
    report::say("\nFor more information, try '--help'.\n");
    125
}
