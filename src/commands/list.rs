//! `cudarun list`: every installation on the machine.

use super::{Exit, family, machine, print, settings_of};
use crate::cli::{Common, LibraryOptions, List, is_toolkit};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{ExtensionScope, Inventory, PartKind, Scope};
use crate::pipeline::{self, Request};
use crate::report::{self, Style};
use crate::settings::resolve::Purpose;

pub fn list(host: Host, common: &Common, options: &List) -> Result<Exit, Error> {
    let host = machine(host, common)?;
    let (toolkits, families): (Vec<&String>, Vec<&String>) =
        options.families.iter().partition(|word| is_toolkit(word));
    let family = |word: &String| family(word).map(str::to_owned);
    let families: Vec<String> = families.into_iter().map(family).collect::<Result<_, _>>()?;
    let toolkits = !toolkits.is_empty();
    let library_options = LibraryOptions::default();
    let request = Request::new(&host, common, &library_options, None, Purpose::Answer);
    let settings = settings_of(&request)?;
    let progress = request.progress();
    let scope = Scope {
        code: options.json || common.verbose > 0,
        extensions: if options.extensions {
            ExtensionScope::All
        } else {
            ExtensionScope::None
        },
        toolkits,
        ..pipeline::everywhere(&settings, common, options.python.as_deref())?
    };
    let inventory = pipeline::scan(&settings.host, &scope);
    drop(progress);
    tell(&host, inventory, &families, common, options)
}

fn tell(
    host: &Host,
    inventory: Inventory,
    families: &[String],
    common: &Common,
    options: &List,
) -> Result<Exit, Error> {
    let is_wanted = |family: &String| families.is_empty() || families.contains(family);
    let has_installation = inventory
        .installations
        .iter()
        .any(|installation| is_wanted(&installation.family));
    let found = match (&inventory.extensions, &inventory.toolkits) {
        (Some(extensions), _) => !extensions.is_empty(),
        (None, Some(toolkits)) => {
            let has_toolkit = toolkits
                .iter()
                .any(|toolkit| toolkit.part(PartKind::Nvcc).is_some());
            has_toolkit || !families.is_empty() && has_installation
        }
        (None, None) => has_installation,
    };
    if options.json {
        print(&report::json::inventory(&inventory, families))?;
    } else {
        let style = Style::stdout(common.color).of(host);
        let (all, verbosity) = (options.all, common.verbose);
        let mut page = String::new();
        if let Some(extensions) = &inventory.extensions {
            page.push_str(&report::listed_extensions(extensions, style));
        } else {
            let has_toolkits = inventory.toolkits.is_some();
            if has_toolkits {
                page.push_str(&report::listed_toolkits(
                    &inventory, families, verbosity, style,
                ));
            }
            if !has_toolkits || !families.is_empty() {
                page.push_str(&report::listed(&inventory, families, all, verbosity, style));
            }
        }
        print(&style.page(&page))?;
        // The process ends here, and its memory with it.
        std::mem::forget(inventory);
    }
    Ok(if found { Exit::Yes } else { Exit::No })
}
