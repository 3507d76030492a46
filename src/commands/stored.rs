//! `cudarun fetch list` and `prune`: the wheels in the store.

use super::{Exit, print};
use crate::cli::{Common, Fetch};
use crate::error::Error;
use crate::fetch::{DAY, Entry, FetchFault, Store};
use crate::host::Host;
use crate::report::{self, Style};
use crate::settings::resolve::{Purpose, Settings};
use crate::storage;

pub(super) fn answer(
    host: &Host,
    common: &Common,
    options: &Fetch,
    action: &str,
) -> Result<Exit, Error> {
    let settings = Settings::resolve(host, common, &options.wishes, None, Purpose::Answer)?;
    let store = Store::of(host, settings.layers.store()).map_err(failed)?;
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
    entries: &[Entry],
    options: &Fetch,
    now: i64,
    style: Style,
) -> Result<Exit, Error> {
    let age = if options.all {
        0
    } else {
        i64::from(options.older.unwrap_or(90)) * DAY
    };
    let is_unused = |entry: &&Entry| now - entry.last_use() >= age && !store.is_needed(entry);
    let unused: Vec<&Entry> = entries.iter().filter(is_unused).collect();
    if !options.dry_run && (!unused.is_empty() || store.has_unfinished()) {
        let turn = store.take_turn(|| ()).map_err(failed)?;
        for entry in &unused {
            store.remove(&turn, entry).map_err(failed)?;
        }
    }
    print(&if options.json {
        report::json::stored(unused, &store.directory)
    } else {
        style.page(&report::pruned(&unused, options.dry_run))
    })?;
    Ok(Exit::Yes)
}

fn failed(fault: FetchFault) -> Error {
    Error::Fetch(Box::new(fault))
}
