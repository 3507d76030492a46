//! The real paths of directories. Directories of one machine share most of their components, so each is resolved once.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use crate::host::{Host, Kind};

/// Longer paths do not exist, and deeper ones are not in use.
const LENGTH: usize = 4096;
const DEPTH: usize = 128;

pub(super) struct RealPaths<'h> {
    host: &'h Host,
    /// By their bytes: comparing paths by component is slow.
    known: HashMap<OsString, Option<PathBuf>>,
}

impl<'h> RealPaths<'h> {
    pub(super) fn new(host: &'h Host) -> RealPaths<'h> {
        RealPaths {
            host,
            known: HashMap::new(),
        }
    }

    /// Returns the real path of a directory; none if there is none.
    pub(super) fn real(&mut self, directory: &Path) -> Option<PathBuf> {
        let bytes = directory.as_os_str().as_bytes();
        if bytes.len() > LENGTH || memchr::memchr_iter(b'/', bytes).count() > DEPTH {
            return None;
        }
        self.look_up(directory)
    }

    /// Returns the nearest directory that exists above a missing one.
    pub(super) fn nearest<'p>(&mut self, directory: &'p Path) -> Option<&'p Path> {
        directory
            .ancestors()
            .skip(1)
            .find(|above| self.real(above).is_some())
    }

    fn look_up(&mut self, directory: &Path) -> Option<PathBuf> {
        if let Some(known) = self.known.get(directory.as_os_str()) {
            return known.clone();
        }
        let real = self.find(directory);
        // Nothing exists below a missing directory: only the first one is kept.
        let is_missing = |above: &Path| matches!(self.known.get(above.as_os_str()), Some(None));
        if real.is_some() || !directory.ancestors().skip(1).any(is_missing) {
            self.known
                .insert(directory.as_os_str().to_owned(), real.clone());
        }
        real
    }

    fn find(&mut self, directory: &Path) -> Option<PathBuf> {
        let whole = || {
            self.host
                .canonical(directory)
                .ok()
                .filter(|real| self.host.is_directory(real))
        };
        let Some(parent) = directory.parent().filter(|_| directory.is_absolute()) else {
            return whole();
        };
        match directory.components().next_back()? {
            Component::Normal(name) => {
                let real = self.look_up(parent)?.join(name);
                match self.host.lstat(&real).ok()?.kind {
                    Kind::Directory => Some(real),
                    Kind::Link => self
                        .host
                        .canonical(&real)
                        .ok()
                        .filter(|real| self.host.is_directory(real)),
                    Kind::File | Kind::Other => None,
                }
            }
            Component::ParentDir => {
                let real = self.look_up(parent)?;
                Some(real.parent().map_or_else(|| real.clone(), Path::to_owned))
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => whole(),
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "arranges what is looked at")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn real_paths_match_the_kernel() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("a/file"), "").unwrap();
        symlink("../a/b", root.join("d/to_b")).unwrap();
        symlink(root.join("d/to_b"), root.join("d/to_link")).unwrap();
        symlink("round", root.join("round")).unwrap();
        symlink("a/file", root.join("to_file")).unwrap();
        let host = Host::here();
        let mut paths = RealPaths::new(&host);
        for path in [
            "",
            "a",
            "a/b/c",
            "a/../a/./b//c/",
            "d/to_b",
            "d/to_b/c",
            "d/to_link/..",
            "d/to_link/../../d",
        ] {
            let path = root.join(path);
            for _ in 0..2 {
                assert_eq!(
                    paths.real(&path),
                    Some(path.canonicalize().unwrap()),
                    "{}",
                    path.display()
                );
            }
        }
        for path in [
            "a/file",
            "a/file/..",
            "a/none",
            "a/none/..",
            "round",
            "to_file",
            "round/a",
        ] {
            assert_eq!(paths.real(&root.join(path)), None, "{path}");
        }
        assert_eq!(
            paths.nearest(&root.join("a/none/other")),
            Some(root.join("a").as_path())
        );
        assert_eq!(paths.real(&root.join("a/".repeat(20_000))), None);
        assert_eq!(paths.real(Path::new("/..")), Some(PathBuf::from("/")));
        assert_eq!(
            paths.real(Path::new("src")),
            Path::new("src").canonicalize().ok()
        );
    }
}
