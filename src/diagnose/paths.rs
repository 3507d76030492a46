//! The paths in a log that tell whose environment it is from.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::{memchr, memrchr};
use regex::bytes::Regex;

/// More paths tell nothing new.
const MAX_PATHS: usize = 64;

static PATHS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = concat!(
        r#"(?-u)(?:^|[\s"'(=:])(?:(?P<site>/[^\s"'()=:,;<>|]{1,300}?/site-packages)/(?P<module>[\w.-]+)"#,
        r#"|(?P<object>/[^\s"'()=:,;<>|]{1,300}?\.so(?:\.\d+)*)(?:$|[\s"'(),:;]))"#,
    );
    Regex::new(pattern).expect("a pattern of ours")
});

/// One of these is in each such path.
static SITE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new("/site-packages/"));
static OBJECT: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(".so"));

/// Absolute paths that a log names.
#[derive(Debug, Default)]
pub struct NamedPaths {
    /// Directories of Python packages.
    pub sites: BTreeSet<PathBuf>,
    /// Names of files and directories in these.
    pub modules: BTreeSet<String>,
    /// Shared objects outside of them.
    pub objects: BTreeSet<PathBuf>,
    /// The last match.
    last: Vec<u8>,
}

impl NamedPaths {
    pub fn feed(&mut self, text: &[u8]) {
        for part in [&SITE, &OBJECT] {
            let mut rest = text;
            while let Some(at) = part.find(rest) {
                let start = memrchr(b'\n', &rest[..at]).map_or(0, |end| end + 1);
                let end = memchr(b'\n', &rest[at..]).map_or(rest.len(), |length| at + length);
                self.line(&rest[start..end]);
                rest = &rest[end..];
            }
        }
    }

    fn line(&mut self, line: &[u8]) {
        for found in PATHS.find_iter(line) {
            if self.sites.len() + self.objects.len() + self.modules.len() >= MAX_PATHS {
                return;
            }
            // Lines of a traceback repeat, and groups take ten times as long as the match alone.
            if found.as_bytes() != self.last {
                self.last = found.as_bytes().to_vec();
                self.add(found.as_bytes());
            }
        }
    }

    fn add(&mut self, found: &[u8]) {
        let Some(captures) = PATHS.captures(found) else {
            return;
        };
        let group = |name| {
            let bytes = captures.name(name)?.as_bytes();
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        self.sites.extend(group("site").map(PathBuf::from));
        self.modules.extend(group("module"));
        self.objects.extend(group("object").map(PathBuf::from));
    }
}
