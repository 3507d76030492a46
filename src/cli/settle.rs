//! Moves options before a verb to the verb: both sides are allowed.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser};

use super::{Cli, Explain, Export, Start, Verb, Wishes};

impl Wishes {
    pub fn is_empty(&self) -> bool {
        self.uses.is_empty()
            && self.pin.is_empty()
            && self.require.is_empty()
            && !self.locked
            && !self.no_follow
            && self.pin_mode.is_none()
    }

    /// Adds the options before the verb.
    fn follow(&mut self, before: Wishes) {
        self.uses.splice(..0, before.uses);
        self.pin.splice(..0, before.pin);
        self.require.splice(..0, before.require);
        self.locked |= before.locked;
        self.no_follow |= before.no_follow;
        self.pin_mode = self.pin_mode.or(before.pin_mode);
    }
}

impl Cli {
    /// Parses a command line. Options of `fetch` may follow the names of families, unlike those that follow a program.
    pub fn parse_words(words: &[OsString]) -> Result<Cli, clap::Error> {
        let cli = Cli::try_parse_from(words)?;
        let Some(Verb::Fetch(fetch)) = &cli.verb else {
            return Ok(cli);
        };
        if fetch.names_program() {
            return Ok(cli);
        }
        let mut command = Cli::command().mut_subcommand("fetch", |fetch| {
            fetch.mut_arg("words", |words| words.trailing_var_arg(false))
        });
        Cli::from_arg_matches(&command.try_get_matches_from_mut(words)?)
    }

    /// Returns the options about the program's libraries, and the program with its arguments.
    pub fn program(&self) -> (&Wishes, &[OsString]) {
        match &self.verb {
            None => (&self.start.wishes, &self.words),
            Some(Verb::Run(run)) => (&run.start.wishes, &run.words),
            Some(Verb::Shell(shell)) => (&shell.start.wishes, &shell.words),
            Some(
                Verb::Explain(Explain { question, .. }) | Verb::Export(Export { question, .. }),
            ) => (&question.wishes, &question.words),
            Some(Verb::Verify(verify)) => (&verify.wishes, &verify.words),
            Some(Verb::Trace(trace)) => (&trace.wishes, &trace.words),
            Some(Verb::Record(record)) => (&record.wishes, &record.words),
            Some(Verb::Fetch(fetch)) => (&fetch.wishes, &fetch.words),
            Some(Verb::Init(init)) => (&init.wishes, &init.words),
            Some(Verb::Doctor(doctor)) => (&self.start.wishes, &doctor.words),
            Some(Verb::Diagnose(diagnose)) => (&diagnose.wishes, &diagnose.words),
            Some(
                Verb::List(_)
                | Verb::Fleet(_)
                | Verb::Allow(_)
                | Verb::Hook(_)
                | Verb::Completions(_),
            ) => (&self.start.wishes, &[]),
        }
    }

    /// Gives the options before a verb to the verb, as if they came after it. Fails for an option that the verb lacks.
    pub fn settle(mut self) -> Result<Cli, clap::Error> {
        let Start {
            wishes,
            building,
            verify,
        } = std::mem::take(&mut self.start);
        let first = std::mem::take(&mut self.first);
        let is_taken = match &mut self.verb {
            None => {
                self.first = first;
                first.fetch || !first.yes
            }
            Some(Verb::Run(run)) => {
                run.first.fetch |= first.fetch;
                run.first.yes |= first.yes;
                run.first.fetch || !run.first.yes
            }
            Some(Verb::Fetch(own)) => {
                own.yes |= first.yes;
                if let Some((idle, of)) = own.idle() {
                    return Err(not_with(idle, &format!("fetch {of}")));
                }
                !first.fetch
            }
            Some(_) => !first.fetch && !first.yes,
        };
        let own_building = match &mut self.verb {
            None => Some(&mut self.start.building),
            Some(Verb::Run(run)) => Some(&mut run.start.building),
            Some(Verb::Shell(shell)) => Some(&mut shell.start.building),
            Some(Verb::Explain(explain)) => Some(&mut explain.question.building),
            Some(Verb::Export(export)) => Some(&mut export.question.building),
            Some(_) => None,
        };
        let is_build_taken = own_building.is_some() || !building.build;
        if let Some(own) = own_building {
            own.build |= building.build;
        }
        let (own_wishes, own_verify, verb) = match &mut self.verb {
            None => (
                Some(&mut self.start.wishes),
                Some(&mut self.start.verify),
                "",
            ),
            Some(Verb::Run(run)) => (
                Some(&mut run.start.wishes),
                Some(&mut run.start.verify),
                "run",
            ),
            Some(Verb::Shell(shell)) => (
                Some(&mut shell.start.wishes),
                Some(&mut shell.start.verify),
                "shell",
            ),
            Some(Verb::List(_)) => (None, None, "list"),
            Some(Verb::Explain(explain)) => (Some(&mut explain.question.wishes), None, "explain"),
            Some(Verb::Export(export)) => (Some(&mut export.question.wishes), None, "export"),
            Some(Verb::Verify(verify)) => (Some(&mut verify.wishes), None, "verify"),
            Some(Verb::Trace(trace)) => (Some(&mut trace.wishes), None, "trace"),
            Some(Verb::Record(record)) => (Some(&mut record.wishes), None, "record"),
            Some(Verb::Fetch(fetch)) => (Some(&mut fetch.wishes), None, "fetch"),
            Some(Verb::Init(init)) => (Some(&mut init.wishes), None, "init"),
            Some(Verb::Allow(_)) => (None, None, "allow"),
            Some(Verb::Doctor(_)) => (None, None, "doctor"),
            Some(Verb::Diagnose(diagnose)) => (Some(&mut diagnose.wishes), None, "diagnose"),
            Some(Verb::Fleet(_)) => (None, None, "fleet"),
            Some(Verb::Hook(_)) => (None, None, "hook"),
            Some(Verb::Completions(_)) => (None, None, "completions"),
        };
        match own_wishes {
            Some(own) => {
                own.follow(wishes);
                // These verbs write the lock, and the file beside it.
                if own.locked && ["record", "init"].contains(&verb) {
                    return Err(not_with("--locked", verb));
                }
            }
            None if wishes.is_empty() => {}
            None if !wishes.uses.is_empty() => return Err(not_with("--uses <PACKAGE>", verb)),
            None if !wishes.pin.is_empty() => return Err(not_with("--pin <FAMILY=WHICH>", verb)),
            None if !wishes.require.is_empty() => return Err(not_with("--require <WHAT>", verb)),
            None if wishes.locked => return Err(not_with("--locked", verb)),
            None if wishes.no_follow => return Err(not_with("--no-follow", verb)),
            None => return Err(not_with("--pin-mode <MODE>", verb)),
        }
        match (own_verify, verify) {
            (Some(own), before) => *own = own.or(before),
            (None, None) => {}
            (None, Some(_)) => return Err(not_with("--verify <WHEN>", verb)),
        }
        if !is_build_taken {
            return Err(not_with("--build", verb));
        }
        if !is_taken {
            let verb = if ["", "run"].contains(&verb) {
                "run' without '--fetch"
            } else {
                verb
            };
            return Err(not_with(
                if first.fetch { "--fetch" } else { "--yes" },
                verb,
            ));
        }
        Ok(self)
    }
}

fn not_with(option: &str, verb: &str) -> clap::Error {
    let message = format!("the argument '{option}' cannot be used with '{verb}'");
    Cli::command().error(ErrorKind::ArgumentConflict, message)
}
