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

// What tests share names the crate from outside.
#[cfg(test)]
extern crate self as cudarun;

pub mod catalog;
pub mod cli;
pub mod commands;
pub mod doctor;
pub mod environment;
pub mod error;
pub mod formats;
pub mod host;
pub mod inventory;
pub mod launch;
pub mod loader;
pub mod machine;
pub mod parallel;
pub mod pin;
pub mod predict;
pub mod program;
pub mod range;
pub mod report;
pub mod settings;
pub mod shell;
pub mod signals;
pub mod solve;
pub mod storage;
pub mod text;
pub mod verify;
pub mod version;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::Parser;
use clap::error::ErrorKind;

use cli::{Cli, Verb};
use commands::Ended;
use commands::Exit;
use error::{Error, Form};
use host::Host;
use program::Command;

/// Does what the command line says, and returns the exit code; a program that is started does not return.
pub fn run(arguments: &[OsString], host: Host) -> u8 {
    if arguments.get(1).is_some_and(|argument| argument == verify::protocol::CHILD) {
        verify::child::main(&host);
    }
    match Cli::try_parse_from(arguments).and_then(Cli::settle) {
        Ok(cli) => dispatch(host, &cli, arguments),
        Err(error) => usage(&error, arguments),
    }
}

/// What comes before Rust's runtime, which changes what a program is to inherit and is dear for one that is left at once:
/// becomes the program if its start is kept, and else remembers what the runtime is about to change.
pub extern "C" fn before_the_runtime() {
    warm_start();
    launch::record_inherited();
}

/// The commonest command line of all, `cudarun PROGRAM …`, needs no parser: a start that is kept should cost next to
/// nothing. Whatever stands in its way is for the long way to find, and to speak of.
fn warm_start() {
    let arguments: Vec<OsString> = host::arguments();
    let Some(command) = plain_start(&arguments) else { return };
    let host = Host::for_a_glance();
    if let Some(exec) = commands::run::cached(&host, &command) {
        launch::exec_early(&exec, &host.env);
    }
}

fn plain_start(arguments: &[OsString]) -> Option<Command> {
    let program = arguments.get(1).filter(|word| !word.is_empty() && !word.as_bytes().starts_with(b"-"))?;
    let is_verb = cli::VERBS.iter().any(|verb| program == verb);
    (!is_verb).then(|| Command { program: program.clone(), arguments: arguments[2..].to_vec() })
}

fn dispatch(host: Host, cli: &Cli, arguments: &[OsString]) -> u8 {
    let (common, start) = (&cli.common, &cli.start);
    let (form, json, ended) = match &cli.verb {
        None if cli.words.is_empty() => return no_program(arguments.len() > 1),
        None => (Form::Run, false, start_program(&host, common, start, &cli.words)),
        Some(Verb::Run(run)) => (Form::Run, false, start_program(&host, common, &run.start, &run.words)),
        Some(Verb::List(list)) => (Form::Answer, list.json, commands::list::list(host, common, list)),
        Some(Verb::Explain(explain)) => {
            (Form::Answer, explain.question.json, commands::explain::explain(host, common, explain))
        }
        Some(Verb::Export(export)) => {
            (Form::Answer, export.question.json, commands::export::export(host, common, export))
        }
        Some(Verb::Verify(verify)) => {
            (Form::Answer, verify.json, commands::prove::prove(&host, common, verify))
        }
        Some(Verb::Allow(allow)) => (Form::Answer, false, commands::allow::allow(&host, common, allow)),
        Some(Verb::Completions(completions)) => {
            (Form::Answer, false, commands::completions::completions(completions))
        }
        Some(Verb::Doctor(doctor)) => {
            (Form::Answer, doctor.json, commands::doctor::doctor(host, common, doctor))
        }
        Some(Verb::Hook(hook)) => (Form::Answer, false, commands::hook::hook(&host, common, hook)),
        Some(Verb::Init(init)) => (Form::Answer, false, commands::init::init(host, common, init)),
        Some(Verb::Record(record)) => return traced(commands::record::record(&host, common, record)),
        Some(Verb::Trace(trace)) if trace.predict => {
            (Form::Answer, trace.json, commands::trace::predict(host, common, trace))
        }
        Some(Verb::Trace(trace)) => return traced(commands::trace::trace(&host, common, trace)),
    };
    match ended {
        Ok(exit) => exit.code(),
        Err(error) => {
            let is_bare = cli.verb.is_none() && first_word(arguments).is_some();
            complain(&error, form, json, is_bare)
        }
    }
}

/// The program's own status, or why there is none.
fn traced(ended: Result<Ended, Error>) -> u8 {
    match ended {
        Ok(Ended::Program(status)) => launch::end_as(status),
        Ok(Ended::NotStarted(code)) => code,
        Err(error) => complain(&error, Form::Run, false, false),
    }
}

fn start_program(
    host: &Host,
    common: &cli::Common,
    start: &cli::Start,
    words: &[OsString],
) -> Result<Exit, Error> {
    commands::run::run(host, common, start, &commands::command_of(words))
}

fn complain(error: &Error, form: Form, json: bool, is_bare: bool) -> u8 {
    if json {
        let _ = report::print(&report::json::error(error, form));
    }
    report::say(&format!("cudarun: {}\n", report::error(error)));
    if let Some(hint) = report::error_hint(error, cli::VERBS, is_bare) {
        report::say(&format!("\nhint: {hint}\n"));
    }
    error.code(form)
}

/// The first word that is neither an option nor the value of one, as far as that can be seen of a command line
/// that does not parse; none after `--`.
fn first_word(arguments: &[OsString]) -> Option<&OsStr> {
    let command = <Cli as clap::CommandFactory>::command();
    let takes_value = |word: &[u8]| {
        let takes = |option: &clap::Arg| {
            let long = option.get_long().map(|name| [b"--", name.as_bytes()].concat());
            option.get_action().takes_values() && long.is_some_and(|long| long == word)
        };
        command.get_arguments().any(takes)
    };
    let mut words = arguments.iter().skip(1).map(OsString::as_os_str);
    let mut word = words.next()?;
    while word.as_bytes().starts_with(b"-") {
        if word == "--" {
            return None;
        }
        word = words.nth(usize::from(takes_value(word.as_bytes())))?;
    }
    Some(word)
}

/// What clap has to say: an answer that was asked for, or an error.
fn usage(error: &clap::Error, arguments: &[OsString]) -> u8 {
    let word = first_word(arguments);
    let is_answer =
        |verb: &&str| !["run", "trace", "record"].contains(verb) && word.is_some_and(|word| word == *verb);
    let form = if cli::VERBS.iter().any(is_answer) { Form::Answer } else { Form::Run };
    let text = error.render().to_string();
    // What clap would suggest starts a program that is called like the option.
    let text: String =
        text.split_inclusive('\n').filter(|line| !line.contains("as a value, use '-- ")).collect();
    let text = text.replace("\n\n\n", "\n\n");
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        return match commands::print(&text) {
            Ok(()) => 0,
            Err(error) => complain(&error, form, false, false),
        };
    }
    if form == Form::Answer && arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json")
    {
        let _ = report::print(&report::json::usage_error(&text));
    }
    report::say(&text);
    match form {
        Form::Run => 125,
        Form::Answer => 2,
    }
}

fn no_program(has_options: bool) -> u8 {
    let mut command = <Cli as clap::CommandFactory>::command();
    if has_options {
        report::say("error: no program is named, or an option has taken its name for a value\n\n");
    }
    report::say(&format!("{}\n", command.render_usage()));
    report::say("\nFor more information, try '--help'.\n");
    125
}
