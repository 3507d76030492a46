//! The paths in a log that tell whose environment it is from.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;

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

/// Absolute paths that a log names.
#[derive(Debug, Default)]
pub struct NamedPaths {
    /// Directories of Python packages.
    pub sites: BTreeSet<PathBuf>,
    /// Names of files and directories in these.
    pub modules: BTreeSet<String>,
    /// Shared objects outside of them.
    pub objects: BTreeSet<PathBuf>,
}

impl NamedPaths {
    pub fn feed(&mut self, text: &[u8]) {
        // Lines of a traceback repeat, and groups take ten times as long as the match alone.
        let mut last: &[u8] = b"";
        for found in PATHS.find_iter(text) {
            if self.sites.len() + self.objects.len() + self.modules.len() >= MAX_PATHS {
                return;
            }
            if found.as_bytes() != last {
                last = found.as_bytes();
                self.add(last);
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
