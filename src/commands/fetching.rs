//! Wheels to get: what is shown, the consent, the work.

use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use super::{Exit, print};
use crate::cli::{Common, Fetch, FetchWhen};
use crate::error::Error;
use crate::fetch::{self, FetchFault, Step, Store, Supply};
use crate::host::{Host, arguments};
use crate::report::{self, NoConsent, Style};
use crate::settings::resolve::Settings;
use crate::solve::MissingWheel;

/// Wheels to get, and the way to get them.
pub(super) struct Order {
    pub wheels: Vec<MissingWheel>,
    store: Option<PathBuf>,
    supply: Supply,
    when: FetchWhen,
    into: Option<PathBuf>,
    yes: bool,
    dry_run: bool,
    json: bool,
}

impl Order {
    pub(super) fn new(settings: &Settings, wheels: Vec<MissingWheel>, options: &Fetch) -> Order {
        Order {
            into: options.into.clone(),
            supply: Supply {
                from: settings.layers.wheels_from(&options.from),
                client: options.client,
            },
            dry_run: options.dry_run,
            json: options.json,
            ..Order::for_start(settings, wheels, options.yes)
        }
    }

    /// For a program that starts afterwards.
    pub(super) fn for_start(settings: &Settings, wheels: Vec<MissingWheel>, yes: bool) -> Order {
        let from = settings.layers.wheels_from(&[]);
        Order {
            wheels,
            store: settings.layers.store().map(PathBuf::from),
            supply: Supply { from, client: None },
            when: settings.layers.fetch_when(),
            into: None,
            yes,
            dry_run: false,
            json: false,
        }
    }

    /// Prints the object of an order that is not carried out.
    pub(super) fn print(&self, host: &Host) -> Result<(), Error> {
        let store = Store::of(host, self.store.as_deref())
            .map_err(|fault| Error::Fetch(Box::new(fault)))?;
        print(&report::json::to_fetch(
            &self.wheels,
            &self.place(&store, host),
        ))
    }

    fn place(&self, store: &Store<'_>, host: &Host) -> PathBuf {
        match &self.into {
            Some(into) => host.absolute(into),
            None => store.directory.clone(),
        }
    }
}

/// Shows what is to be got, asks where nothing has allowed it, and gets it.
pub(super) fn carry_out(host: &Host, common: &Common, order: &Order) -> Result<Exit, Error> {
    let failed = |fault: FetchFault| Error::Fetch(Box::new(fault));
    let store = Store::of(host, order.store.as_deref()).map_err(failed)?;
    let style = Style::stderr(common.color).of(host);
    let missing: Vec<MissingWheel> = match &order.into {
        Some(_) => order.wheels.clone(),
        None => order
            .wheels
            .iter()
            .filter(|wheel| !store.has(&wheel.entry))
            .cloned()
            .collect(),
    };
    let place = order.place(&store, host);
    // One object, and only if no error takes its place.
    let ended = |exit| {
        if order.json {
            print(&report::json::to_fetch(&missing, &place))?;
        }
        Ok(exit)
    };
    // Nobody agrees to what was not shown.
    let is_shown = if order.json {
        !may(order) && !order.dry_run
    } else {
        !common.quiet || order.dry_run || !may(order)
    };
    if missing.is_empty() {
        if !common.quiet && !order.json {
            report::say(&style.page(report::NOTHING_TO_FETCH));
        }
    } else if is_shown {
        let to_fetch = report::ToFetch {
            wheels: &missing,
            place: &place,
            free: store.free(),
            from: &order.supply.from,
        };
        let text = style.page(&report::to_fetch(&to_fetch, style));
        if order.dry_run {
            print(&text)?;
        } else {
            report::say(&text);
        }
    }
    if missing.is_empty() || order.dry_run {
        let at_hand = fetch::at_hand(host, &order.supply.from);
        let absent = missing
            .iter()
            .find(|one| at_hand.as_ref().is_some_and(|all| !all.contains(&one.file)));
        let told = absent.map(|wheel| super::say(&report::not_in(wheel, &order.supply.from)));
        return ended(if told.is_some() { Exit::No } else { Exit::Yes });
    }
    if order.when == FetchWhen::Never {
        return Err(failed(FetchFault::Forbidden));
    }
    if let Some(why) = refusal(order) {
        report::say(&style.page(&report::not_allowed_to_fetch(why, arguments())));
        return ended(Exit::No);
    }
    let mut say = |step: &Step<'_>| {
        if !common.quiet {
            super::say(&report::fetch_step(step));
        }
    };
    match &order.into {
        Some(into) => fetch::download(&missing, into, host, &mut say),
        None => fetch::get(&store, &missing, &order.supply, host, &mut say),
    }
    .map_err(failed)?;
    ended(Exit::Yes)
}

/// True if it was allowed before.
fn may(order: &Order) -> bool {
    order.yes || order.when == FetchWhen::Always
}

/// Asks the person where nothing has allowed it before, if there is a terminal for that. Any other answer than yes is a no.
fn refusal(order: &Order) -> Option<NoConsent> {
    if may(order) {
        return None;
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Some(NoConsent::NoTerminal);
    }
    report::say(report::MAY_FETCH);
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    let is_yes = ["y", "yes"].contains(&answer.trim().to_lowercase().as_str());
    (!is_yes).then_some(NoConsent::AnsweredNo)
}
