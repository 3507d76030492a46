//! `cudarun trace PROGRAM …`: starts it as a start would, and reports which files were really mapped, who asked for
//! them and by which rule; `--predict` says what the model of the loader expects, and starts nothing.

use super::{
    Considered, Ended, Exit, Purpose, command_of, consider, machine, print, say_notes, speak, style, wanted,
    watched,
};
use crate::cli::{Common, Trace};
use crate::environment::Diff;
use crate::error::{Error, Form};
use crate::host::Host;
use crate::report::{self, Style};
use crate::storage::Delivery;

/// Where the report goes: to a file, or to standard error.
struct Outlet<'o> {
    host: &'o Host,
    options: &'o Trace,
    file: Option<Delivery>,
}

/// What the model of the loader expects.
pub fn predict(host: Host, common: &Common, options: &Trace) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let command = command_of(&options.words);
    let wanted = wanted(&host, common, &options.wishes, Some(&command), Purpose::Start)?;
    let host = &wanted.host;
    let considered = consider(&wanted, common, &command)?;
    let error_style = style(host, common.color, host.stderr_is_terminal());
    if !options.as_is && considered.refuse(options.json, error_style)? {
        return Ok(Exit::No);
    }
    let prediction = watched::expected(host, &considered, options.as_is);
    let style = style(host, common.color, host.stdout_is_terminal());
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
    if let Some(option) = common.elsewhere() {
        return Err(Error::NothingRunsUnderRoot { option, verb: "trace" });
    }
    let style = style(host, common.color, host.stderr_is_terminal());
    let command = command_of(&options.words);
    let wanted = wanted(host, common, &options.wishes, Some(&command), Purpose::Start)?;
    let host = &wanted.host;
    let considered = consider(&wanted, common, &command)?;
    watched::can_be_watched(&considered)?;
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
    let start = watched::Start { host, considered: &considered, command: &command, as_is: options.as_is };
    let (status, observation) = start.run(&diff, || outlet.open())?;
    let status = status?;
    let text = if options.json {
        report::json::observation(&observation, options.all)
    } else {
        report::observation(&observation, options.all, style)
    };
    outlet.deliver(&text)?;
    Ok(Ended::Program(status))
}

/// Says why nothing can be started.
fn refuse(considered: &Considered<'_>, style: Style, outlet: &mut Outlet<'_>) -> Result<(), Error> {
    let Outlet { options, .. } = outlet;
    if !options.json || options.output.is_some() {
        report::say(&report::refusal(&considered.decision, &considered.program, style));
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
