//! `cudarun trace PROGRAM …`: starts it as a start would, and reports which files were really mapped, who asked for
//! them and by which rule; `--predict` says what the model of the loader expects, and starts nothing.

use std::process::ExitStatus;

use super::{Considered, Exit, audit_module, command_of, consider, machine, print, say_notes, speak, style};
use crate::cli::{Common, Trace};
use crate::environment::Diff;
use crate::error::{Error, Form};
use crate::host::Host;
use crate::launch::{self, Exec};
use crate::module;
use crate::observe::Observation;
use crate::pin;
use crate::predict::Prediction;
use crate::private::{self, Delivery};
use crate::report::{self, Style};
use crate::solve::Outcome;
use crate::view;

/// How a traced program ended.
pub enum Ended {
    Program(ExitStatus),
    /// It was not started, and why has been said.
    NotStarted(u8),
}

/// Where the report goes: to a file, or to standard error.
struct Outlet<'o> {
    host: &'o Host,
    options: &'o Trace,
    file: Option<Delivery>,
}

/// What the model of the loader expects.
pub fn predict(host: Host, common: &Common, options: &Trace) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let considered = consider(&host, common, &options.wishes, &command_of(&options.words))?;
    let error_style = style(&host, common.color, host.stderr_is_terminal());
    if !options.as_is && considered.refuse(options.json, error_style)? {
        return Ok(Exit::No);
    }
    let prediction = expected(&host, &considered, options.as_is);
    let style = style(&host, common.color, host.stdout_is_terminal());
    print(&if options.json {
        report::json::prediction(&prediction)
    } else {
        report::prediction(&prediction, options.all, style)
    })?;
    Ok(if prediction.failure.is_some() { Exit::No } else { Exit::Yes })
}

/// Starts the program and reports what it mapped. As JSON, what keeps it from being started stands where the report
/// would.
pub fn trace(host: &Host, common: &Common, options: &Trace) -> Result<Ended, Error> {
    let mut outlet = Outlet { host, options, file: None };
    match watch(host, common, options, &mut outlet) {
        Err(error) if options.json => {
            let delivered = outlet.deliver(&report::json::error(&error, Form::Run));
            let is_said = delivered.is_ok() && options.output.is_none();
            if is_said { Ok(Ended::NotStarted(error.code(Form::Run))) } else { Err(error) }
        }
        ended => ended,
    }
}

fn watch(host: &Host, common: &Common, options: &Trace, outlet: &mut Outlet<'_>) -> Result<Ended, Error> {
    if common.root.is_some() {
        return Err(Error::NothingRunsUnderRoot { verb: "trace" });
    }
    let style = style(host, common.color, host.stderr_is_terminal());
    let command = command_of(&options.words);
    let considered = consider(host, common, &options.wishes, &command)?;
    can_be_watched(&considered)?;
    match (options.as_is, common.quiet) {
        (false, _) => speak(&considered, common, style),
        (true, false) => say_notes(&considered),
        (true, true) => {}
    }
    if !options.as_is && considered.decision.is_refused() {
        refuse(&considered, style, outlet)?;
        return Ok(Ended::NotStarted(Exit::Refused.code()));
    }
    let diff = if options.as_is { Diff::default() } else { considered.change(host, true)?.0 };
    let log = private::unfinished(host, &view::cache_directory(host)?);
    let diff = pin::watched(&diff, &audit_module(host, true)?, &log, &host.env);
    outlet.open()?;
    private::create(&log).map_err(|error| Error::Report { path: log.clone(), error })?;
    let exec = Exec { diff, ..launch::unchanged(&considered.target.program, &command) };
    let status = launch::run(&exec);
    let records = module::records(&private::take(host, &log));
    let prediction = expected(host, &considered, options.as_is);
    let plan = match &considered.decision.outcome {
        Outcome::Plan(plan) if !options.as_is => Some(plan),
        _ => None,
    };
    let observation = Observation::new(host, records, &considered.target, &prediction, plan);
    let status = status?;
    let text = if options.json {
        report::json::observation(&observation, options.all)
    } else {
        report::observation(&observation, options.all, style)
    };
    outlet.deliver(&text)?;
    Ok(Ended::Program(status))
}

/// What the program is expected to map, pinned or as it is.
fn expected(host: &Host, considered: &Considered<'_>, as_is: bool) -> Prediction {
    match &considered.decision.pinned {
        Some(pinned) if !as_is => pinned.after.clone(),
        _ => considered.before(host),
    }
}

/// The module sees what the dynamic loader does, where that asks one.
fn can_be_watched(considered: &Considered<'_>) -> Result<(), Error> {
    let why = match considered.target.cannot_be_pinned() {
        Some(note) => report::note(note, &considered.target),
        None if !pin::suits_auditors(&considered.searcher) => {
            report::too_old_for_auditors(pin::release(&considered.searcher))
        }
        None => return Ok(()),
    };
    Err(Error::NotTraced { why })
}

/// Says why nothing can be started.
fn refuse(considered: &Considered<'_>, style: Style, outlet: &mut Outlet<'_>) -> Result<(), Error> {
    let Outlet { options, .. } = outlet;
    if !options.json || options.output.is_some() {
        report::say(&report::refusal(&considered.decision, &considered.target, style));
    }
    if options.json { outlet.deliver(&report::json::refusal(&considered.decision)) } else { Ok(()) }
}

impl Outlet<'_> {
    /// Before the start: what a program takes hours for is not to be lost.
    fn open(&mut self) -> Result<(), Error> {
        if let (Some(path), None) = (&self.options.output, &self.file) {
            let path = self.host.absolute(path);
            self.file = Some(Delivery::open(&path).map_err(|error| Error::Report { path, error })?);
        }
        Ok(())
    }

    fn deliver(&mut self, text: &str) -> Result<(), Error> {
        self.open()?;
        match (&self.options.output, self.file.take()) {
            (Some(path), Some(file)) => {
                let path = self.host.absolute(path);
                file.write(text.as_bytes()).map_err(|error| Error::Report { path, error })
            }
            _ => {
                report::say(text);
                Ok(())
            }
        }
    }
}
