//! `cudarun fetch`: gets the wheels that a program lacks, or those of named families.

use std::ffi::OsString;

use super::fetching::{Order, carry_out};
use super::{Exit, command_of, family, follow, machine, only_here, say, say_refusal, stored};
use crate::cli::{self, Common, Fetch};
use crate::error::Error;
use crate::fetch;
use crate::formats::elf;
use crate::host::Host;
use crate::inventory;
use crate::pipeline::{self, Reached, Request, Stop, Subject};
use crate::report::{self, Style};
use crate::settings::resolve::{Purpose, Settings};
use crate::solve::{FamilyWish, Lack, Outcome, wheels_of, wheels_of_toolkit};

pub fn fetch(host: &Host, common: &Common, options: &Fetch) -> Result<Exit, Error> {
    if !options.dry_run && options.into.is_none() {
        only_here(common, "fetch")?;
    }
    if let Some(path) = options
        .from
        .iter()
        .find(|from| !host.is_directory(&host.absolute(from)))
    {
        return Err(Error::NoSuchDirectory {
            option: "--from",
            path: path.clone(),
        });
    }
    if let Some(action) = options.action() {
        return stored::answer(host, common, options, action);
    }
    let there = machine(Host::here(), common)?;
    let order = match families(options)? {
        Some(families) => of_families(&there, common, options, &families)?,
        None => match of_program(host, &there, common, options)? {
            Ok(order) => order,
            Err(exit) => return Ok(exit),
        },
    };
    carry_out(host, common, &order)
}

/// Returns the families and ranges, if the words name them.
fn families(options: &Fetch) -> Result<Option<Vec<FamilyWish>>, Error> {
    if options.names_program() {
        return Ok(None);
    }
    let wish = |word: &OsString| {
        let text = word.to_string_lossy();
        let (name, range) = cli::family_and_range(&text);
        let family = family(name)?;
        let wrong = |()| Error::BadRange {
            family,
            text: range.to_owned(),
        };
        Ok(FamilyWish {
            family,
            range: range.parse().map_err(wrong)?,
        })
    };
    options
        .words
        .iter()
        .map(wish)
        .collect::<Result<_, Error>>()
        .map(Some)
}

/// Settings that are not allowed may name another store, so nothing is written before they are.
fn purpose(options: &Fetch) -> Purpose {
    if options.dry_run {
        Purpose::Answer
    } else {
        Purpose::Question
    }
}

fn of_families(
    there: &Host,
    common: &Common,
    options: &Fetch,
    families: &[FamilyWish],
) -> Result<Order, Error> {
    let mut order = None;
    let scope = |settings: &Settings| pipeline::any_program(settings, common);
    let request = Request::new(
        there,
        common,
        &options.wishes,
        Subject::Machine(&scope),
        purpose(options),
    );
    follow(&request, |reached| match reached {
        Reached::Inventory(settings, inventory) => {
            let at_hand = fetch::at_hand(there, &settings.layers.wheels_from(&options.from));
            let machine = inventory::machine(there).unwrap_or(elf::X86_64);
            let (toolkits, families): (Vec<_>, Vec<_>) = families
                .iter()
                .cloned()
                .partition(|wish| wish.family == cli::TOOLKIT);
            let none = |FamilyWish { family, range }| Error::NoWheel {
                family,
                range: range.to_string(),
            };
            let mut wheels = wheels_of(
                &families,
                options.cuda,
                machine,
                &inventory,
                at_hand.as_ref(),
            )
            .map_err(none)?;
            for toolkit in &toolkits {
                let found = wheels_of_toolkit(toolkit, machine, &inventory, at_hand.as_ref());
                wheels.extend(found.map_err(none)?);
            }
            order = Some(Order::new(settings, wheels, options));
            Ok(())
        }
        _ => Ok(()),
    })?;
    Ok(order.expect("the flow reaches the inventory, or fails"))
}

/// Ends an answer without wheels, after its reason was said.
fn nothing(options: &Fetch, host: &Host, settings: &Settings, exit: Exit) -> Result<(), Stop> {
    if options.json {
        Order::new(settings, Vec::new(), options).print(host)?;
    }
    Err(Stop::Exit(exit))
}

/// Returns how the answer ends where there is nothing to fetch.
fn of_program(
    host: &Host,
    there: &Host,
    common: &Common,
    options: &Fetch,
) -> Result<Result<Order, Exit>, Error> {
    let command = command_of(&options.words);
    let mut order = None;
    let request = Request::new(
        there,
        common,
        &options.wishes,
        Subject::Command(&command),
        purpose(options),
    );
    let exit = follow(&request, |reached| match reached {
        Reached::Outcome(facts, outcome) => {
            let from = facts.settings.layers.wheels_from(&options.from);
            let wheels = match (facts.lack(outcome, &from, true), outcome) {
                (Lack::Wheels(wheels), _) => wheels,
                // The decision says why there is no set.
                (Lack::NoOffer(_), Outcome::Conflict(_)) => return Ok(()),
                (Lack::NoOffer(families), _) => {
                    say(&report::nothing_on_offer(&families));
                    return nothing(options, host, facts.settings, Exit::No);
                }
                (Lack::Nothing, _) if !outcome.absent().is_empty() => {
                    if !common.quiet {
                        let absent = outcome.absent();
                        let style = Style::stderr(common.color);
                        report::say(&if outcome.wanted().next().is_some() {
                            report::nothing_on_offer_for(absent)
                        } else {
                            report::only_optional_missing(absent, &options.words, style)
                        });
                    }
                    return nothing(options, host, facts.settings, Exit::Yes);
                }
                (Lack::Nothing, Outcome::Nothing { .. }) => {
                    if !common.quiet && !options.json {
                        report::say(&report::no_need(&facts.program));
                    }
                    return nothing(options, host, facts.settings, Exit::Yes);
                }
                (Lack::Nothing, _) => Vec::new(),
            };
            order = Some(Order::new(facts.settings, wheels, options));
            Err(Stop::Exit(Exit::Yes))
        }
        Reached::Decision(facts, decision) => {
            say_refusal(facts, decision, common);
            nothing(options, host, facts.settings, Exit::No)
        }
        _ => Ok(()),
    })?;
    Ok(order.ok_or(exit))
}
