//! The paths in a log that tell whose environment it is from.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;

use regex::bytes::Regex;

/// More paths tell nothing new.
const MOST: usize = 64;

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
        for found in PATHS.captures_iter(text) {
            let text = |name| {
                found
                    .name(name)
                    .map(|part| String::from_utf8_lossy(part.as_bytes()).into_owned())
            };
            if self.sites.len() + self.objects.len() + self.modules.len() >= MOST {
                return;
            }
            self.sites.extend(text("site").map(PathBuf::from));
            self.modules.extend(text("module"));
            self.objects.extend(text("object").map(PathBuf::from));
        }
    }
}
