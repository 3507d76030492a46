//! `cudarun fetch`: gets the wheels that a program lacks, or those of named families, after consent. `list` and `prune` are about
//! the wheels in the store.

use std::ffi::OsString;
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;

use super::{Exit, command_of, family, machine, only_here, print, say, say_refusal, settings_of};
use crate::catalog::display_name;
use crate::cli::{self, Common, Fetch, FetchWhen};
use crate::error::Error;
use crate::fetch::{self, DAY, FetchStep, Store, StoredWheel, WheelSupply};
use crate::formats::elf;
use crate::host::{Host, arguments};
use crate::inventory;
use crate::pipeline::{self, Request};
use crate::report::{self, NoConsent, Style};
use crate::settings::SettingKey;
use crate::settings::resolve::{Purpose, Settings};
use crate::solve::{FamilyRange, Lack, MissingWheel, Outcome, wheels_of, wheels_of_toolkit};
use crate::storage;
use crate::text::show;

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
        return store(host, common, options, action);
    }
    let there = machine(Host::here(), common)?;
    if options.names_program() {
        return of_program(host, &there, common, options);
    }
    let order = of_families(&there, common, options)?;
    carry_out(host, common, &order)
}

/// The family and the range that a word names.
fn family_range(word: &OsString) -> Result<FamilyRange, Error> {
    let text = word.to_string_lossy();
    let (name, range) = cli::family_and_range(&text);
    let family = family(name)?;
    let range = range.parse().map_err(|()| Error::Usage {
        message: format!(
            "`{}` is not a range of versions of {}",
            show(range),
            display_name(family)
        ),
        hint: Some(format!(
            "cudarun fetch {family}=9.1, or \"{family}>=9.1,<10\""
        )),
    })?;
    Ok(FamilyRange { family, range })
}

/// Settings that are not allowed may name another store, so nothing is written before they are.
fn purpose(options: &Fetch) -> Purpose {
    if options.dry_run {
        Purpose::Answer
    } else {
        Purpose::Question
    }
}

fn of_families(there: &Host, common: &Common, options: &Fetch) -> Result<Order, Error> {
    let mut families = Vec::new();
    let mut toolkits = Vec::new();
    for word in &options.words {
        let wanted = family_range(word)?;
        if wanted.family == cli::TOOLKIT {
            toolkits.push(wanted);
        } else {
            families.push(wanted);
        }
    }
    let request = Request::new(
        there,
        common,
        &options.library_options,
        None,
        purpose(options),
    );
    let settings = settings_of(&request)?;
    let progress = request.progress();
    let scope = pipeline::any_program(&settings, common)?;
    let inventory = pipeline::scan(&settings.host, &scope);
    drop(progress);
    let at_hand = fetch::at_hand(there, &settings.layers.wheels_from(&options.from));
    let machine = inventory::machine(there).unwrap_or(elf::X86_64);
    let mut wheels = wheels_of(
        &families,
        options.cuda,
        machine,
        &inventory,
        at_hand.as_ref(),
    )
    .map_err(no_wheel)?;
    for toolkit in &toolkits {
        let found = wheels_of_toolkit(toolkit, machine, &inventory, at_hand.as_ref());
        wheels.extend(found.map_err(no_wheel)?);
    }
    Ok(Order::new(&settings, wheels, options))
}

fn no_wheel(FamilyRange { family, range }: FamilyRange) -> Error {
    Error::NoWheel {
        family,
        range: range.to_string(),
    }
}

/// Ends an answer without wheels, after its reason was said.
fn nothing(options: &Fetch, host: &Host, settings: &Settings, exit: Exit) -> Result<Exit, Error> {
    if options.json {
        Order::new(settings, Vec::new(), options).print(host)?;
    }
    Ok(exit)
}

fn of_program(host: &Host, there: &Host, common: &Common, options: &Fetch) -> Result<Exit, Error> {
    let command = command_of(&options.words);
    let request = Request::new(
        there,
        common,
        &options.library_options,
        Some(&command),
        purpose(options),
    );
    let mut settings = settings_of(&request)?;
    let mut facts = request.facts(&mut settings)?;
    let outcome = facts.solve();
    let from = facts.settings.layers.wheels_from(&options.from);
    let wheels = match (facts.lack(&outcome, &from, true), &outcome) {
        (Lack::Wheels(wheels), _) => wheels,
        // The decision says why there is no set.
        (Lack::NoOffer(_), Outcome::Conflict(_)) => {
            let decision = facts.decide(outcome)?;
            say_refusal(&facts, &decision, common);
            return nothing(options, host, facts.settings, Exit::No);
        }
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
    let order = Order::new(facts.settings, wheels, options);
    // The line of progress ends before a question is asked.
    drop(facts);
    carry_out(host, common, &order)
}

/// Wheels to get, and the way to get them.
pub(super) struct Order {
    wheels: Vec<MissingWheel>,
    store: Option<PathBuf>,
    supply: WheelSupply,
    when: FetchWhen,
    into: Option<PathBuf>,
    yes: bool,
    dry_run: bool,
    json: bool,
}

impl Order {
    fn new(settings: &Settings, wheels: Vec<MissingWheel>, options: &Fetch) -> Order {
        Order {
            into: options.into.clone(),
            supply: WheelSupply {
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
            store: settings.layers.directories(SettingKey::FetchStore).pop(),
            supply: WheelSupply { from, client: None },
            when: settings
                .layers
                .choice(SettingKey::FetchWhen)
                .unwrap_or_default(),
            into: None,
            yes,
            dry_run: false,
            json: false,
        }
    }

    /// Prints the object of an order that is not carried out.
    fn print(&self, host: &Host) -> Result<(), Error> {
        let store = Store::of(host, self.store.as_deref())?;
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
    let store = Store::of(host, order.store.as_deref())?;
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
        let told = absent.map(|wheel| say(&fetch::not_in(wheel, &order.supply.from)));
        return ended(if told.is_some() { Exit::No } else { Exit::Yes });
    }
    if order.when == FetchWhen::Never {
        return Err(Error::Fetch {
            why: "settings forbid fetching (`when = \"never\"`)".to_owned(),
            hint: None,
        });
    }
    if let Some(why) = refusal(order) {
        report::say(&style.page(&report::not_allowed_to_fetch(why, arguments())));
        return ended(Exit::No);
    }
    let mut say_step = |step: &FetchStep<'_>| {
        if !common.quiet {
            say(&report::fetch_step(step));
        }
    };
    match &order.into {
        Some(into) => fetch::download(&missing, into, host, &mut say_step),
        None => fetch::get(&store, &missing, &order.supply, host, &mut say_step),
    }?;
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

fn store(host: &Host, common: &Common, options: &Fetch, action: &str) -> Result<Exit, Error> {
    let request = Request::new(
        host,
        common,
        &options.library_options,
        None,
        Purpose::Answer,
    );
    let settings = request.settings()?;
    let store = Store::of(
        host,
        settings
            .layers
            .directories(SettingKey::FetchStore)
            .pop()
            .as_deref(),
    )?;
    let entries = store.entries();
    let style = Style::stdout(common.color).of(host);
    let now = storage::stamp(host.started).0;
    match action {
        "prune" => prune(&store, &entries, options, now, style),
        _ if options.json => {
            print(&report::json::stored(&entries, &store.directory)).map(|()| Exit::Yes)
        }
        _ => print(&style.page(&report::stored(&entries, &store.directory, now, style)))
            .map(|()| Exit::Yes),
    }
}

fn prune(
    store: &Store<'_>,
    entries: &[StoredWheel],
    options: &Fetch,
    now: i64,
    style: Style,
) -> Result<Exit, Error> {
    let age = if options.all {
        0
    } else {
        i64::from(options.older.unwrap_or(90)) * DAY
    };
    let is_unused = |entry: &&StoredWheel| now - entry.last_use >= age && !store.is_mapped(entry);
    let mut unused: Vec<&StoredWheel> = entries.iter().filter(is_unused).collect();
    let mut failed = None;
    if !options.dry_run && (!unused.is_empty() || store.has_unfinished()) {
        let turn = store.take_turn(|| ())?;
        unused.retain(|entry| match store.remove(&turn, entry) {
            Ok(()) => true,
            Err(error) => {
                failed.get_or_insert(error);
                false
            }
        });
    }
    print(&if options.json {
        report::json::stored(unused, &store.directory)
    } else {
        style.page(&report::pruned(&unused, options.dry_run))
    })?;
    failed.map_or(Ok(Exit::Yes), Err)
}
