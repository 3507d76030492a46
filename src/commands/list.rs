//! `cudarun list`: every installation that is installed.

use super::progress::Looking;
use super::{Exit, Purpose, everywhere, family, look, machine, print, style};
use crate::cli::{Common, List};
use crate::error::Error;
use crate::host::Host;
use crate::report;

pub fn list(host: Host, common: &Common, options: &List) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let families: Result<Vec<String>, Error> =
        options.families.iter().map(|word| family(word).map(str::to_owned)).collect();
    let families = families?;
    let shown = Looking::begin(&host, common);
    let mut scope = everywhere(&host, common, Purpose::Answer, options.python.as_deref())?;
    scope.code = options.json || common.verbose > 0;
    scope.symbol_names = options.symbols;
    let inventory = look(&host, &scope);
    drop(shown);
    let style = style(&host, common.color, host.stdout_is_terminal());
    let is_wanted = |family: &String| families.is_empty() || families.contains(family);
    let found = inventory.installations.iter().any(|installation| is_wanted(&installation.family));
    if options.json {
        print(&report::json::inventory(inventory, &families))?;
    } else {
        print(&report::listed(&inventory, &families, options.all, common.verbose, style))?;
        // The process ends here, and all of it with it.
        std::mem::forget(inventory);
    }
    Ok(if found { Exit::Yes } else { Exit::No })
}
