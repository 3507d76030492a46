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

// Modules that tests share name the crate from outside.
#[cfg(test)]
extern crate self as cudarun;

pub mod advise;
pub mod builds;
pub mod catalog;
pub mod causes;
pub mod cli;
pub mod commands;
pub mod crash;
pub mod diagnose;
pub mod doctor;
pub mod environment;
pub mod error;
pub mod fetch;
pub mod fleet;
pub mod formats;
pub mod hooks;
pub mod host;
pub mod image;
pub mod inventory;
pub mod kept;
pub mod launch;
pub mod loader;
pub mod modes;
pub mod parallel;
pub mod pin;
pub mod pipeline;
pub mod predict;
pub mod program;
pub mod range;
pub mod report;
pub mod requirements;
pub mod running;
pub mod settings;
pub mod shell;
pub mod signals;
pub mod solve;
pub mod storage;
pub mod text;
pub mod variables;
pub mod verify;
pub mod version;

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::ColorChoice;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use cli::{Cli, Verb};
use commands::Exit;
use error::{Error, Form};
use host::Host;
use program::Command;
use report::Style;

/// Runs a command line and returns the exit code. Does not return if this process becomes the program.
pub fn run(arguments: &[OsString], host: Host) -> u8 {
    if launch::has_more_rights() {
        return complain(
            &Error::MoreRights,
            Form::Run,
            false,
            None,
            ColorChoice::Never,
        );
    }
    if arguments
        .get(1)
        .is_some_and(|argument| argument == verify::protocol::CHILD)
    {
        host.trip("child");
        verify::child::main(&host);
    }
    if let [_, word, own] = arguments
        && word == pin::MODULE_FOR
    {
        return u8::from(
            report::print_bytes(&pin::audit_module::for_binary(Path::new(own))).is_err(),
        );
    }
    crash::handle_cut_files();
    crash::handle_aborts();
    let meant = help(arguments);
    let arguments = meant.as_deref().unwrap_or(arguments);
    match Cli::parse_words(arguments) {
        Ok(cli) => dispatch(host, &cli, arguments),
        Err(error) => {
            // clap quotes the words, and a terminal obeys their control codes.
            let shown: Vec<OsString> = arguments
                .iter()
                .map(|word| text::show(word).into())
                .collect();
            usage(Cli::parse_words(&shown).err().unwrap_or(error), arguments)
        }
    }
}

/// Returns the command line of `cudarun help` and `cudarun help VERB` with the option for it.
fn help(arguments: &[OsString]) -> Option<Vec<OsString>> {
    match arguments {
        [own, help] if help == "help" => Some(vec![own.clone(), "-h".into()]),
        [own, help, verb] if help == "help" && cli::VERBS.iter().any(|known| verb == known) => {
            Some(vec![own.clone(), verb.clone(), "--help".into()])
        }
        _ => None,
    }
}

/// Runs before Rust's runtime, which costs time and changes state that a program inherits: becomes the program if its start
/// is kept, and otherwise records the state that the runtime is about to change.
pub extern "C" fn before_the_runtime() {
    if !launch::has_more_rights() {
        crash::handle_panics();
        launch::enter();
        warm_start();
    }
    launch::record_inherited();
}

/// Becomes the program of `cudarun PROGRAM …` if its start is kept, without a parser. After any failure it returns, and the
/// normal start reports the cause.
fn warm_start() {
    let arguments: Vec<OsString> = host::arguments();
    let Some(command) = plain_start(&arguments) else {
        return;
    };
    crash::will_start(&command);
    let host = Host::for_a_glance();
    host.trip("early");
    // These starts print something.
    if host.env.non_empty(variables::VERBOSE).is_some() {
        return;
    }
    let is_build = host.env.non_empty(variables::BUILD).is_some();
    if let Some(exec) = kept::exec_of(&host, &command, is_build) {
        launch::exec_early(&exec, &host.env);
    }
}

fn plain_start(arguments: &[OsString]) -> Option<Command> {
    let program = arguments
        .get(1)
        .filter(|word| !word.is_empty() && !word.as_bytes().starts_with(b"-"))?;
    let is_verb = cli::VERBS.iter().any(|verb| program == verb);
    (!is_verb).then(|| Command {
        program: program.clone(),
        arguments: arguments[2..].to_vec(),
    })
}

fn dispatch(host: Host, cli: &Cli, arguments: &[OsString]) -> u8 {
    let (common, start) = (&cli.common.or_of(&host.env), &cli.start);
    let has_text = matches!(&cli.verb, Some(Verb::Diagnose(diagnose)) if commands::diagnose::has_text(common, diagnose));
    let form = form(cli, has_text);
    crash::will_answer(form);
    host.trip("verb");
    let (json, ended) = match &cli.verb {
        None if arguments.len() < 2 => {
            report::say(&report::first_contact(Style::stderr(ColorChoice::Never)));
            return 125;
        }
        None if cli.words.is_empty() => return usage(no_program(), arguments),
        None => (
            false,
            start_program(&host, common, start, cli.first, &cli.words),
        ),
        Some(Verb::Run(run)) => (
            false,
            start_program(&host, common, &run.start, run.first, &run.words),
        ),
        Some(Verb::List(list)) => (list.json, commands::list::list(host, common, list)),
        Some(Verb::Explain(explain)) => (
            explain.question.json,
            commands::explain::explain(host, common, explain),
        ),
        Some(Verb::Export(export)) => (
            export.question.json,
            commands::export::export(host, common, export),
        ),
        Some(Verb::Verify(verify)) => (verify.json, commands::prove::prove(&host, common, verify)),
        Some(Verb::Allow(allow)) => (allow.json, commands::allow::allow(&host, common, allow)),
        Some(Verb::Completions(completions)) => (
            false,
            commands::completions::completions(host, common, completions),
        ),
        Some(Verb::Doctor(doctor)) => (doctor.json, commands::doctor::doctor(host, common, doctor)),
        Some(Verb::Diagnose(diagnose)) if has_text => (
            diagnose.json,
            commands::diagnose::diagnose(host, common, diagnose),
        ),
        Some(Verb::Diagnose(diagnose)) => (
            false,
            commands::diagnose::watch_program(&host, common, diagnose),
        ),
        Some(Verb::Advise(advise)) => (advise.json, commands::advise::advise(host, common, advise)),
        Some(Verb::Hook(hook)) => (false, commands::hook::hook(&host, common, hook)),
        Some(Verb::Fleet(fleet)) => (fleet.json, commands::fleet::fleet(&host, common, fleet)),
        Some(Verb::Fetch(fetch)) => (fetch.json, commands::fetch::fetch(&host, common, fetch)),
        Some(Verb::Init(init)) => (init.json, commands::init::init(host, common, init)),
        Some(Verb::Record(record)) => (false, commands::record::record(&host, common, record)),
        Some(Verb::Shell(shell)) => (false, commands::shell::shell(&host, common, shell)),
        Some(Verb::Trace(trace)) if trace.predict => {
            (trace.json, commands::trace::predict(host, common, trace))
        }
        Some(Verb::Trace(trace)) => (false, commands::trace::trace(&host, common, trace)),
    };
    // It has not become the program.
    if let Err(error) = &ended
        && launch::is_replaced()
        && common.verbose > 0
    {
        let words: Vec<OsString> = arguments[1..].to_vec();
        report::say(&report::starts_as_called(&words, error));
    }
    launch::become_it();
    match ended {
        Ok(exit) => exit.code(),
        Err(error) => {
            let is_here = cli.common.elsewhere().is_empty();
            let after_error = || commands::typos::after_error(&Host::here(), &error, arguments);
            complain(
                &error,
                form,
                json,
                is_here.then(after_error).flatten(),
                common.color,
            )
        }
    }
}

/// What the exit code of a command line means; `has_text` for `diagnose` of a text, which starts no program.
fn form(cli: &Cli, has_text: bool) -> Form {
    match &cli.verb {
        None | Some(Verb::Run(_) | Verb::Record(_) | Verb::Shell(_)) => Form::Run,
        Some(Verb::Trace(trace)) if !trace.predict => Form::Run,
        Some(Verb::Diagnose(_)) if !has_text => Form::Run,
        Some(_) => Form::Answer,
    }
}

fn start_program(
    host: &Host,
    common: &cli::Common,
    start: &cli::StartOptions,
    first: cli::FetchFirst,
    words: &[OsString],
) -> Result<Exit, Error> {
    commands::run::run(host, common, start, first, &commands::command_of(words))
}

/// Reports an error, and the command line that was probably meant.
fn complain(
    error: &Error,
    form: Form,
    json: bool,
    meant: Option<Vec<OsString>>,
    color: ColorChoice,
) -> u8 {
    let meant = meant.map(|words| report::own_command_line(&words));
    let hint = meant.or_else(|| report::error_hint(error));
    if json {
        let _ = report::print(&report::json::error(error, form, hint.as_deref()));
    }
    let style = Style::stderr(color);
    if let Some(line) = host::unanswered() {
        report::say(&style.page(&format!("cudarun: {line}\n")));
    }
    report::say(&style.page(&format!("cudarun: {error}\n")));
    if let Some(hint) = hint {
        report::say(&style.page(&format!("\n{} {hint}\n", style.hint("hint:"))));
    }
    error.code(form)
}

/// Returns the value of `--color`, of a command line that may not parse.
fn color(arguments: &[OsString]) -> ColorChoice {
    let words: Vec<&str> = arguments
        .iter()
        .take_while(|word| *word != "--")
        .filter_map(|word| word.to_str())
        .collect();
    let joined = words.iter().find_map(|word| word.strip_prefix("--color="));
    let next = words
        .iter()
        .position(|word| *word == "--color")
        .and_then(|at| words.get(at + 1))
        .copied();
    joined
        .or(next)
        .and_then(|word| word.parse().ok())
        .unwrap_or_default()
}

/// Prints help, the version, or an error of the command line, and returns the exit code.
fn usage(mut error: clap::Error, arguments: &[OsString]) -> u8 {
    let form = match cli::first_word(arguments).and_then(|at| arguments[at].to_str()) {
        Some("run" | "shell" | "trace" | "record") | None => Form::Run,
        Some(word) if cli::VERBS.contains(&word) => Form::Answer,
        Some(_) => Form::Run,
    };
    // These suggestions of clap's would take `tcsh` for `zsh`, or start a program with the name of the option.
    error.remove(ContextKind::SuggestedValue);
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    let text = error.render().ansi().to_string() + &commands::typos::owners(&error);
    let color = color(arguments);
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        let style = Style::stdout(color);
        return match commands::print(&style.page(&style.adapt(text))) {
            Ok(()) => 0,
            Err(error) => complain(&error, form, false, None, color),
        };
    }
    if form == Form::Answer
        && arguments
            .iter()
            .take_while(|word| *word != "--")
            .any(|word| word == "--json")
    {
        let plain = Style::default().adapt(text.clone());
        let _ = report::print(&report::json::usage_error(&plain));
    }
    let style = Style::stderr(color);
    report::say(&style.page(&style.adapt(text)));
    match form {
        Form::Run => 125,
        Form::Answer => 2,
    }
}

fn no_program() -> clap::Error {
    let mut command = <Cli as clap::CommandFactory>::command();
    command.error(
        ErrorKind::MissingRequiredArgument,
        "no program is named, or an option has taken its name for a value",
    )
}
