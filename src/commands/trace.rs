//! `cudarun trace PROGRAM …`: runs the program, and reports which files were really mapped, which object asked for them and by
//! which rule. `--predict` reports what the model of the loader expects, and starts nothing.

use std::path::PathBuf;

use super::{
    Exit, command_of, machine, only_here, print, refuse, say, say_before, say_notes, say_refusal,
    settings_of, tell_unused,
};
use crate::cli::{Common, Trace};
use crate::error::{Error, Form};
use crate::host::Host;
use crate::pipeline::{self, Change, Request, WatchedRun};
use crate::program::Command;
use crate::report::{self, Style};
use crate::settings::resolve::Purpose;
use crate::storage::Delivery;

/// Reports what the model of the loader expects.
pub fn predict(host: Host, common: &Common, options: &Trace) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let command = command_of(&options.words);
    let request = request(&host, common, options, &command);
    let mut settings = settings_of(&request)?;
    let (facts, decision) = request.decision(&mut settings)?;
    if !options.as_is && refuse(&facts, &decision, options.json, common)? {
        return Ok(Exit::No);
    }
    let prediction = pipeline::expected(&facts, &decision, options.as_is);
    print(&if options.json {
        report::json::prediction(&prediction)
    } else {
        let style = Style::stdout(common.color).of(&host);
        style.page(&report::prediction(
            &prediction,
            options.all,
            &options.words,
            style,
        ))
    })?;
    Ok(if prediction.failure.is_some() {
        Exit::No
    } else {
        Exit::Yes
    })
}

/// Runs the program and reports what it mapped. As JSON, an error that prevents the start replaces the report.
pub fn trace(host: &Host, common: &Common, options: &Trace) -> Result<Exit, Error> {
    let path = options.output.as_ref().map(|path| host.absolute(path));
    let mut outlet = Outlet { path, file: None };
    match watch(host, common, options, &mut outlet) {
        Err(error) if options.json => {
            let delivered = outlet.deliver(&report::json::error(
                &error,
                Form::Run,
                report::error_hint(&error).as_deref(),
            ));
            let is_said = delivered.is_ok() && options.output.is_none();
            if is_said {
                Ok(Exit::Reported(error.code(Form::Run)))
            } else {
                Err(error)
            }
        }
        ended => ended,
    }
}

fn watch(
    host: &Host,
    common: &Common,
    options: &Trace,
    outlet: &mut Outlet,
) -> Result<Exit, Error> {
    only_here(common, "trace")?;
    let style = Style::stderr(common.color).of(host);
    let command = command_of(&options.words);
    let request = request(host, common, options, &command);
    let mut settings = settings_of(&request)?;
    let (facts, mut decision) = request.decision(&mut settings)?;
    pipeline::can_be_watched(&facts)?;
    let change = if options.as_is {
        if !common.quiet {
            say_notes(&facts, &decision, facts.follows());
        }
        Change::default()
    } else {
        say_before(&facts, &decision, common);
        if decision.is_refused() {
            if !options.json || options.output.is_some() {
                say_refusal(&facts, &decision, common);
            }
            if options.json {
                outlet.deliver(&report::json::refusal(&decision))?;
            }
            return Ok(Exit::Refused);
        }
        facts.publish(&mut decision)?
    };
    let run = WatchedRun::new(&facts, &change, &command)?;
    outlet.open()?;
    let plan = decision.outcome.plan().filter(|_| !options.as_is);
    let tell = tell_unused(&decision, common, options.json);
    let (status, has_opened_gpu) = run.run(host, Some(tell))?;
    let observation = run.observed(&facts, plan, has_opened_gpu);
    let told = observation.and_then(|observation| {
        outlet.deliver(&if options.json {
            report::json::observation(&observation, options.all)
        } else {
            style.page(&report::observation(
                &observation,
                decision.expects_gpu(),
                options.all,
                &options.words,
                style,
            ))
        })
    });
    match told {
        // Who asks for a report must learn that there is none; but a failure of the program is more.
        Err(error) if status.success() => Err(error),
        Err(error) => {
            say(&error.to_string());
            Ok(Exit::Program(status))
        }
        Ok(()) => Ok(Exit::Program(status)),
    }
}

fn request<'r>(
    host: &'r Host,
    common: &'r Common,
    options: &'r Trace,
    command: &'r Command,
) -> Request<'r> {
    Request::new(
        host,
        common,
        &options.library_options,
        Some(command),
        Purpose::Start,
    )
}

struct Outlet {
    /// Absolute; `None` for standard error.
    path: Option<PathBuf>,
    file: Option<Delivery>,
}

impl Outlet {
    /// Opens the file before the start: the report of a program that runs for hours must not be lost.
    fn open(&mut self) -> Result<(), Error> {
        if let (Some(path), None) = (&self.path, &self.file) {
            let opened = Delivery::open(path);
            self.file = Some(opened.map_err(|error| Error::unwritten(path, error))?);
        }
        Ok(())
    }

    fn deliver(&mut self, text: &str) -> Result<(), Error> {
        self.open()?;
        let (Some(path), Some(file)) = (&self.path, self.file.take()) else {
            report::say(text);
            return Ok(());
        };
        file.write(text.as_bytes())
            .map_err(|error| Error::unwritten(path, error))
    }
}
