//! `cudarun allow [PATH]`: what a project's file says of directories and variables counts from now on, until it says
//! something else.

use std::path::PathBuf;

use super::{Exit, only_here, print};
use crate::cli::{Allow, Common};
use crate::error::Error;
use crate::host::Host;
use crate::report;
use crate::settings::{PROJECT, files, read, trust};
use crate::text::show;

pub fn allow(host: &Host, common: &Common, options: &Allow) -> Result<Exit, Error> {
    only_here(common, "allow")?;
    if options.list {
        let allowed = trust::list(host);
        print(&if options.json {
            report::json::allowed(&allowed)
        } else {
            report::allowed(&allowed)
        })?;
        return Ok(Exit::Yes);
    }
    let path = file(host, common, options);
    let kept = |error| {
        let place = trust::directory(host).unwrap_or_default();
        let what = format!("the permission cannot be saved in `{}`", show(&place));
        Error::Io { what, error }
    };
    if options.revoke {
        let was_allowed = trust::revoke(host, &path).map_err(kept)?;
        say(
            common,
            &if was_allowed {
                report::revoked(&path)
            } else {
                report::never_allowed(&path)
            },
        );
        return Ok(if was_allowed { Exit::Yes } else { Exit::No });
    }
    let bytes = files::read(host, &path)?.ok_or_else(|| files::missing(host, &path))?;
    // A file that cannot be understood cannot be allowed.
    let said = read::file(&bytes, &path)?;
    trust::allow(host, &path, &bytes).map_err(kept)?;
    let counts = said.all().filter(|setting| setting.needs_trust());
    say(common, &report::now_allowed(&path, counts));
    Ok(Exit::Yes)
}

fn file(host: &Host, common: &Common, options: &Allow) -> PathBuf {
    let path = match options.path.as_ref().or(common.config.as_ref()) {
        Some(path) if host.is_directory(path) => host.absolute(path).join(PROJECT),
        Some(path) => host.absolute(path),
        None => files::nearest(host).unwrap_or_else(|| host.absolute(PROJECT.as_ref())),
    };
    // Without the `.` that may have been typed.
    path.components().collect()
}

fn say(common: &Common, text: &str) {
    if !common.quiet {
        super::say(text);
    }
}
