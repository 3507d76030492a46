//! `cudarun list`: every installation on the machine; with `--running`, every process that uses one.

use super::{Exit, deliver, family, machine, only_here, print, settings_of};
use crate::cli::{Common, LibraryOptions, List, is_toolkit};
use crate::error::Error;
use crate::host::Host;
use crate::inventory::{ExtensionScope, Inventory, PartKind, Scope};
use crate::pipeline::{self, Request};
use crate::report::{self, Style};
use crate::running::{self, NotShown};
use crate::settings::resolve::Purpose;

pub fn list(host: Host, common: &Common, options: &List) -> Result<Exit, Error> {
    if let Some(pid) = options.running {
        return running(&host, common, options, pid);
    }
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

/// The running processes, or one of them.
fn running(host: &Host, common: &Common, options: &List, pid: Option<u32>) -> Result<Exit, Error> {
    only_here(common, "list --running")?;
    let running = running::processes(host, pid, pipeline::scan);
    let running = running.map_err(|why| match (pid.unwrap_or_default(), why) {
        (pid, NotShown::Gone) => Error::NoSuchProcess { pid },
        (pid, NotShown::NotAllowed) => Error::ProcessOfAnother { pid },
    })?;
    if options.json {
        print(&report::json::running(&running))?;
    } else {
        let style = Style::stdout(common.color);
        // `~` and `.` would be other directories in a container.
        let is_elsewhere = running.processes.iter().any(|process| process.is_elsewhere);
        let style = if is_elsewhere { style } else { style.of(host) };
        let is_long = options.all || common.verbose > 0 || pid.is_some();
        deliver(
            style,
            common,
            &options.page_options,
            |style| report::running(&running, pid, host.uid, is_long, style),
            || report::running_pictures(&running),
            print,
        )?;
    }
    let found = !running.processes.is_empty();
    // Freeing a thousand processes takes as long as printing them.
    std::mem::forget(running);
    Ok(if found { Exit::Yes } else { Exit::No })
}
