//! `cudarun doctor`: tells if GPU programs can work from here.

use std::path::{Path, PathBuf};

use super::examined::{examine, examine_line, programs};
use super::{Exit, machine, paper, print, say};
use crate::cli::{Common, Doctor, Wishes};
use crate::error::Error;
use crate::fleet::is_host;
use crate::host::Host;
use crate::inventory::{self, ScanCache, Scope};
use crate::machine::save;
use crate::pipeline::everywhere;
use crate::report::{self, Style};
use crate::settings::resolve::{Purpose, Settings};
use crate::storage;

/// Slurm's name of this machine. Several may have one host name.
const NODE_OF_SLURM: &str = "SLURMD_NODENAME";

pub fn doctor(host: Host, common: &Common, options: &Doctor) -> Result<Exit, Error> {
    let describes = options.save_in.is_some() || !options.programs.is_empty();
    if describes && !options.words.is_empty() {
        let begin = options
            .programs
            .last()
            .map(|line| format!("{line} "))
            .unwrap_or_default();
        return Err(Error::NotQuoted {
            line: begin + &report::shell_words(&options.words),
        });
    }
    // The file is this machine's, whichever is looked at.
    let file = match &options.save_in {
        Some(directory) => Some(host.absolute(directory).join(name_of_node(&host, options)?)),
        None => options.save.as_ref().map(|file| host.absolute(file)),
    };
    let is_new = options.save_in.is_none();
    if let Some(file) = file
        .as_ref()
        .filter(|file| is_new && host.lstat(file).is_ok())
    {
        return Err(Error::Exists { path: file.clone() });
    }
    if let Some(file) = &file {
        storage::can_publish(&host, file).map_err(|error| Error::Report {
            path: file.clone(),
            error,
        })?;
    }
    let host = machine(host, common)?;
    if let (Some(file), Some(_)) = (&file, &options.save_in) {
        save(&host, common, options, file)?;
        return Ok(Exit::Yes);
    }
    let (examination, inventory) = examine(&host, common)?;
    let programs = programs(&host, common, &options.words)?;
    let style = Style::stdout(common.color).of(&host);
    let page = || report::examined_page(&examination, &inventory, &programs);
    if paper::deliver(common, &options.paper, page)? {
        // Written.
    } else if options.json {
        print(&report::json::examination(
            &examination,
            &inventory,
            &programs,
        ))?;
    } else {
        let page = report::examination(&examination, &inventory, common.verbose, style);
        print(&style.page(&(page + &report::programs(&programs, common.verbose, style))))?;
    }
    if let Some(file) = &file {
        save(&host, common, options, file)?;
    }
    Ok(if examination.has_error() {
        Exit::No
    } else {
        Exit::Yes
    })
}

/// Scans, as under `--root` and all that `list` would show, and writes a description of what was read.
fn save(host: &Host, common: &Common, options: &Doctor, file: &Path) -> Result<(), Error> {
    let unwritten = |error| Error::unwritten(file, error);
    let host = host.recording().map_err(unwritten)?;
    let (examination, _) = examine(&host, common)?;
    let settings = Settings::resolve(&host, common, &Wishes::default(), None, Purpose::Examine)?;
    let everywhere = everywhere(&settings, common, None).unwrap_or_default();
    inventory::scan(
        &host,
        &Scope {
            code: true,
            ..everywhere
        },
        &mut ScanCache::default(),
    );
    for line in &options.programs {
        let program = examine_line(&host, common, line);
        if program.is_missing {
            say(&report::not_described(&program));
        }
    }
    let saved = save::describe(&host, &examination, &options.programs);
    let written = match &options.save_in {
        Some(_) => storage::publish(&host, file, saved.text.as_bytes()),
        None => storage::publish_new_whole(&host, file, saved.text.as_bytes()),
    };
    written.map_err(unwritten)?;
    if !common.quiet {
        say(&report::saved(file, saved.files, &saved.lost));
    }
    Ok(())
}

/// Returns the name of the file that describes this machine in a directory with those of others.
fn name_of_node(host: &Host, options: &Doctor) -> Result<PathBuf, Error> {
    let of_slurm = || {
        host.env
            .non_empty(NODE_OF_SLURM)
            .map(|name| name.to_string_lossy().into_owned())
    };
    let short = |name: String| name.split('.').next().unwrap_or_default().to_owned();
    let own = || {
        host.read_text(Path::new("/proc/sys/kernel/hostname"))
            .ok()
            .map(short)
    };
    let name = options
        .node
        .clone()
        .or_else(of_slurm)
        .or_else(own)
        .unwrap_or_default();
    if !is_host(name.trim()) {
        return Err(Error::NotANode { name });
    }
    Ok(format!("{}.toml", name.trim()).into())
}
