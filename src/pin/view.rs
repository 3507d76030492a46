//! The view: a private directory of symbolic links to exactly the picked files, named by its content,
//! published by one rename and never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::host::{FileId, FileKind, Host, judge_own};
use crate::solve::{Pick, Plan};
use crate::storage::{self, UnusablePlace, WriteRefusal};
use crate::text::show;

/// Changes when the meaning of a view changes.
const FORMAT: &str = "cudarun view 1";
/// The directory of the views below a cache directory.
const VIEWS: &str = "views";

/// The content of a view, by name; a name with a slash is below a directory of the view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ViewSpec {
    pub links: BTreeMap<String, PathBuf>,
    /// Empty files, at which the loader's search ends.
    pub tombstones: BTreeSet<String>,
    /// Small files with their texts.
    pub files: BTreeMap<String, String>,
    /// Device, inode, size and time of the files that the links lead to, as text.
    identities: BTreeMap<PathBuf, String>,
}

/// The view of a plan: every picked file under every name that a program may ask for.
pub fn spec(plan: &Plan) -> ViewSpec {
    let mut spec = ViewSpec {
        tombstones: plan.tombstones.iter().cloned().collect(),
        ..ViewSpec::default()
    };
    let mut picks: Vec<&Pick> = plan.picks.iter().collect();
    picks.retain(|pick| !pick.installation.is_driver() || plan.driver_in_view);
    // The newer of two SONAME majors of one family has the name without a version.
    picks.sort_by_key(|pick| std::cmp::Reverse(pick.installation.soname));
    // No other name displaces a SONAME.
    for member in picks.iter().flat_map(|pick| &pick.installation.files) {
        spec.links
            .entry(member.soname.clone())
            .or_insert_with(|| member.path.clone());
    }
    for pick in picks {
        for member in &pick.installation.files {
            for name in pick.view_names(member) {
                spec.links
                    .entry(name)
                    .or_insert_with(|| member.path.clone());
            }
            spec.identities.insert(
                member.path.clone(),
                identity(member.id, member.size, member.modified),
            );
        }
    }
    spec.tombstones
        .retain(|name| !spec.links.contains_key(name));
    spec
}

/// The text by which a view tells one file from another in its place.
pub fn identity(id: FileId, size: u64, (seconds, nanoseconds): (i64, i64)) -> String {
    format!("{} {} {size} {seconds} {nanoseconds}", id.device, id.inode)
}

impl ViewSpec {
    /// A view of links alone. Each identity tells which file a link leads to.
    pub fn of_links(
        links: BTreeMap<String, PathBuf>,
        identities: BTreeMap<PathBuf, String>,
    ) -> ViewSpec {
        ViewSpec {
            links,
            identities,
            ..ViewSpec::default()
        }
    }

    /// True if the view has an entry of this name, and `path` is one of its kind and content.
    fn has(&self, host: &Host, name: &str, kind: FileKind, path: &Path) -> bool {
        if let Some(target) = self.links.get(name) {
            return kind == FileKind::Link
                && host.read_link(path).is_ok_and(|link| link == *target);
        }
        if kind != FileKind::File {
            return false;
        }
        if self.tombstones.contains(name) {
            return true;
        }
        let Some(text) = self.files.get(name) else {
            return false;
        };
        host.read_text(path).is_ok_and(|found| found == *text)
    }

    pub fn is_empty(&self) -> bool {
        self.links.is_empty() && self.tombstones.is_empty()
    }

    /// The name of the view's directory, a digest of the content.
    pub fn name(&self) -> String {
        let mut parts = vec![FORMAT.as_bytes()];
        for (name, path) in &self.links {
            let identity = self
                .identities
                .get(path)
                .map_or(&[][..], |identity| identity.as_bytes());
            parts.extend([
                name.as_bytes(),
                path.as_os_str().as_encoded_bytes(),
                identity,
            ]);
        }
        for name in &self.tombstones {
            parts.extend([name.as_bytes(), b"tombstone"]);
        }
        for (name, text) in &self.files {
            parts.extend([name.as_bytes(), b"file", text.as_bytes()]);
        }
        storage::digest(parts)
    }
}

/// The path at which [`publish`] would put a view. Creates nothing, and does not check for a full disk.
pub fn place(host: &Host, spec: &ViewSpec) -> Result<PathBuf, Error> {
    storage::first_possible(host, |directory| {
        Ok(views(host, directory)?.join(spec.name()))
    })
}

/// Publishes a view and returns its directory. A view that is there already stays. If a place is full or read-only, the
/// next one is tried.
pub fn publish(host: &Host, spec: &ViewSpec) -> Result<PathBuf, Error> {
    storage::first_usable(host, |directory| {
        let view = views(host, directory)?.join(spec.name());
        match publish_at(host, &view, spec) {
            Ok(()) => Ok(view),
            Err(error) if may_succeed_elsewhere(&error) => Err(WriteRefusal::Here(error.into())),
            Err(error) => {
                let what = format!("cannot write the view `{}`", show(&view));
                Err(WriteRefusal::Everywhere(Error::Io { what, error }))
            }
        }
    })
}

fn may_succeed_elsewhere(error: &io::Error) -> bool {
    use ErrorKind::{
        NotADirectory, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    matches!(
        error.kind(),
        StorageFull | QuotaExceeded | ReadOnlyFilesystem | PermissionDenied | NotADirectory
    )
}

fn publish_at(host: &Host, view: &Path, spec: &ViewSpec) -> io::Result<()> {
    let parent = view.parent().unwrap_or(view);
    storage::create_directory(parent)?;
    if is_intact(host, view, spec) {
        return Ok(());
    }
    let temporary = storage::temporary_path(host, parent);
    let written = write(&temporary, spec).and_then(|()| swap_in(host, &temporary, view, spec));
    if written.is_err() {
        let _ = fs::remove_dir_all(&temporary);
    }
    written
}

fn write(directory: &Path, spec: &ViewSpec) -> io::Result<()> {
    storage::create_directory(directory)?;
    for (name, target) in &spec.links {
        let link = directory.join(name);
        if let Some(parent) = link.parent().filter(|_| name.contains('/')) {
            storage::create_directory(parent)?;
        }
        symlink(target, link)?;
    }
    let tombstones = spec.tombstones.iter().map(|name| (name, ""));
    for (name, text) in
        tombstones.chain(spec.files.iter().map(|(name, text)| (name, text.as_str())))
    {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(directory.join(name))?;
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Renames the finished directory into place. An intact view of another process stays; a damaged one is moved aside first.
fn swap_in(host: &Host, temporary: &Path, view: &Path, spec: &ViewSpec) -> io::Result<()> {
    for _ in 0..8 {
        match fs::rename(temporary, view) {
            Ok(()) => return Ok(()),
            Err(error)
                if !matches!(
                    error.kind(),
                    ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists
                ) =>
            {
                return Err(error);
            }
            Err(_) if is_intact(host, view, spec) => {
                let _ = fs::remove_dir_all(temporary);
                return Ok(());
            }
            Err(_) => {
                let aside = temporary.with_extension("damaged");
                match fs::rename(view, &aside) {
                    Ok(()) => _ = fs::remove_dir_all(&aside),
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Err(io::Error::from(ErrorKind::ResourceBusy))
}

/// True if a view is there, belongs to us, and holds exactly `spec`.
fn is_intact(host: &Host, view: &Path, spec: &ViewSpec) -> bool {
    if !host
        .lstat(view)
        .is_ok_and(|stat| stat.is_directory() && storage::is_ours(host, &stat))
    {
        return false;
    }
    let Some(content) = content(host, view, "") else {
        return false;
    };
    content.len() == spec.links.len() + spec.tombstones.len() + spec.files.len()
        && content
            .iter()
            .all(|(name, kind)| spec.has(host, name, *kind, &view.join(name)))
}

/// What a view contains, by name.
fn content(host: &Host, view: &Path, prefix: &str) -> Option<Vec<(String, FileKind)>> {
    let mut content = Vec::new();
    for entry in host.list(&view.join(prefix)).ok()? {
        let name = format!("{prefix}{}", entry.name.to_str()?);
        match entry.kind {
            FileKind::Directory => content.extend(self::content(host, view, &format!("{name}/"))?),
            kind => content.push((name, kind)),
        }
    }
    Some(content)
}

/// The directories in which views may be published, existing or not.
pub fn parents(host: &Host) -> Vec<PathBuf> {
    storage::candidates(host)
        .into_iter()
        .map(|directory| directory.join(VIEWS))
        .collect()
}

/// The directory of the views below a cache directory, existing or not. Fails where others could write to it.
fn views(host: &Host, directory: &Path) -> Result<PathBuf, UnusablePlace> {
    let views = directory.join(VIEWS);
    judge_own(host, &views).map_err(UnusablePlace::Unsafe)?;
    Ok(views)
}
