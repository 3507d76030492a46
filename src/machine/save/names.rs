//! Removes private data from a description: names of users, tokens, values of variables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::catalog::catalog;
use crate::environment::Environment;
use crate::host::Host;
use crate::storage;
use crate::text::{SECRET_NAME, SECRET_OPTION};

/// Below these, the next part of a path is a user's name.
const HOMES: [&str; 3] = ["/home/", "/Users/", "/export/home/"];
/// Words in the paths of every machine, which are kept even if a user has such a name.
const COMMON: &[&str] = &[
    "bin", "boot", "conda", "cuda", "dev", "etc", "home", "lib", "local", "nvidia", "opt", "proc",
    "root", "run", "sbin", "share", "srv", "sys", "tmp", "user", "usr", "var", "venv",
];
/// Words in the names of files that every machine has, and that cudarun looks for.
const SYSTEM: &[&str] = &[
    "aarch64",
    "amd64",
    "arm64",
    "bus",
    "cache",
    "class",
    "compat",
    "conf",
    "container",
    "debian",
    "device",
    "devices",
    "dist",
    "dpkg",
    "driver",
    "envs",
    "gnu",
    "gpus",
    "include",
    "info",
    "kernel",
    "ld",
    "lib64",
    "linux",
    "meta",
    "module",
    "modules",
    "packages",
    "pci",
    "pkgs",
    "power",
    "python",
    "python3",
    "redhat",
    "release",
    "self",
    "site",
    "status",
    "stubs",
    "targets",
    "toolkit",
    "ubuntu",
    "vendor",
    "version",
    "x86",
];
/// Parts of the names of variables with secrets.
const SECRETS: [&str; 7] = [
    "token",
    "secret",
    "passw",
    "credential",
    "api_key",
    "apikey",
    "private",
];

/// A value of a command line that may be a secret: after such a name, or a long number. Code in it keeps its statements.
static SECRET_VALUE: LazyLock<Regex> = LazyLock::new(|| {
    let value = r#"(?:'[^']*'|"[^"]*"|(?:\\.|[^\s'";)=-])(?:\\.|[^\s'";)])*)"#;
    let name = format!(r#"(?P<name>{SECRET_NAME}(?:['"\]]*\s*=|['"]:)\s*|{SECRET_OPTION}\s+)"#);
    let number = r#"(?P<before>[\s='"])[0-9a-f]{32,}(?P<after>['"\s]|$)"#;
    Regex::new(&format!("(?i-u){name}{value}|{number}")).expect("a pattern of ours")
});

/// The length of the shortest words that may be keys.
const KEY_LENGTH: usize = 20;

/// Names to replace, each by one other name everywhere.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Each with its replacement, longest first.
    users: Vec<(String, String)>,
    home: Option<(String, String)>,
    /// The parents of home directories.
    homes: Vec<String>,
}

/// Variables of libraries whose values are never private. A description keeps the names of the others.
const SHOWN: &[&str] = &[
    "CUDA_CACHE_DISABLE",
    "CUDA_CACHE_PATH",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_DISABLE_PTX_JIT",
    "CUDA_ENABLE_CRC_CHECK",
    "CUDA_FORCE_PTX_JIT",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "CUDA_VERSION",
    "LD_BIND_NOW",
    "NVIDIA_DISABLE_REQUIRE",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_VISIBLE_DEVICES",
];

impl Names {
    /// Collects the name of this user, and the names of users with home directories among the paths.
    pub(super) fn collect<'p>(
        home: Option<&Path>,
        env: &'p Environment,
        paths: impl Iterator<Item = &'p Path>,
    ) -> Names {
        let mut names = Names::default();
        let mut found: BTreeMap<String, String> = BTreeMap::new();
        let is_own = |home: &&str| {
            home.starts_with('/') && home.matches('/').count() > 1
                || !COMMON.contains(&home.trim_matches('/'))
        };
        let home = home
            .and_then(Path::to_str)
            .map(|home| home.trim_end_matches('/'));
        let home = home.filter(|home| home.len() > 1).filter(is_own);
        let homes = HOMES.map(str::to_owned).into_iter();
        let above = home
            .and_then(|home| home.rsplit_once('/'))
            .map(|(above, _)| format!("{above}/"));
        // A shared directory is no parent of home directories.
        let above = above.filter(|above| {
            above.matches('/').count() > 2
                || above.len() > 1 && !COMMON.contains(&above.trim_matches('/'))
        });
        let above = above.filter(|above| !HOMES.contains(&above.as_str()));
        names.homes = homes.chain(above).collect();
        let last = home
            .and_then(|home| home.rsplit('/').next())
            .map(str::to_owned);
        let user = ["USER", "LOGNAME"]
            .into_iter()
            .filter_map(|name| env.non_empty(name)?.to_str().map(str::to_owned));
        for own in last
            .into_iter()
            .chain(user)
            .filter(|name| !COMMON.contains(&name.as_str()))
        {
            found.insert(own, "user".to_owned());
        }
        let mut count = 1;
        let of_env = env
            .iter()
            .filter_map(|(_, value)| value.to_str())
            .flat_map(|value| value.split([':', ' ', ';']));
        for path in paths.filter_map(Path::to_str).chain(of_env) {
            for above in &names.homes {
                let Some(name) = path
                    .strip_prefix(above.as_str())
                    .and_then(|rest| rest.split('/').next())
                else {
                    continue;
                };
                if !name.is_empty() && name != "user" && !found.contains_key(name) {
                    count += 1;
                    found.insert(name.to_owned(), format!("user{count}"));
                }
            }
        }
        names.home = home.map(|home| (home.to_owned(), "/home/user".to_owned()));
        names.users = found.into_iter().collect();
        names
            .users
            .sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        names
    }

    /// Returns the text with all names replaced, and without logins in URLs.
    pub(super) fn hide(&self, text: &str) -> String {
        let mut text = match &self.home {
            Some((home, other)) => replace(text, home, other, |c| {
                c.is_alphanumeric() || "_-.".contains(c)
            }),
            None => text.to_owned(),
        };
        for (name, other) in &self.users {
            for above in &self.homes {
                let part = |c: char| c != '/' && (c.is_alphanumeric() || "_-.".contains(c));
                text = replace(
                    &text,
                    &format!("{above}{name}"),
                    &format!("{above}{other}"),
                    part,
                );
            }
            // In any other place only what cannot mean something else.
            if name.len() > 2 && !is_known(name) {
                text = replace(&text, name, other, char::is_alphanumeric);
            }
        }
        for above in &self.homes {
            text = without_others(&text, above);
        }
        without_keys(&without_logins(&text))
    }

    /// Like [`Names::hide`], for a command line, and without values that may be secrets.
    pub(super) fn hide_line(&self, line: &str) -> String {
        let hidden =
            SECRET_VALUE.replace_all(line.as_bytes(), "${name}${before}…${after}".as_bytes());
        self.hide(&String::from_utf8_lossy(&hidden))
    }

    pub(super) fn hide_path(&self, path: &Path) -> Option<String> {
        path.to_str().map(|path| self.hide(path))
    }

    /// Returns the known variables, with values that are shown and plain; `yes` for variables that are not shown.
    pub(super) fn environment(
        &self,
        env: &Environment,
        is_known: &dyn Fn(&str) -> bool,
        is_shown: &dyn Fn(&str) -> bool,
    ) -> BTreeMap<String, String> {
        let mut kept = BTreeMap::new();
        for (name, value) in env.iter() {
            let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
                continue;
            };
            if is_secret(name) || !is_known(name) {
                continue;
            }
            if is_shown(name) && is_plain(value) {
                kept.insert(name.to_owned(), self.hide(value));
            } else if !is_shown(name) {
                kept.insert(name.to_owned(), "yes".to_owned());
            }
        }
        kept
    }
}

/// True for a word in the names of systems, libraries and frameworks. Replaced there, it would make another machine.
fn is_known(word: &str) -> bool {
    let catalog = catalog();
    let of_families = catalog.families.iter();
    let mut families = of_families.flat_map(|one| one.members.iter().chain([&one.name]));
    let is_part = |name: &String| {
        name.split(|c: char| !c.is_alphanumeric())
            .any(|part| part == word)
    };
    let is_of_framework = catalog.frameworks.iter().any(|one| {
        let names = [&one.modules, &one.packages, &one.distributions];
        names.into_iter().flatten().chain([&one.name]).any(is_part)
    });
    COMMON.contains(&word) || SYSTEM.contains(&word) || is_of_framework || families.any(is_part)
}

/// Returns a command line as a description of this user's machine has it.
pub fn hidden(host: &Host, line: &str) -> String {
    Names::collect(host.home().as_deref(), &host.env, std::iter::empty()).hide_line(line)
}

/// True if a description keeps the value of the variable.
pub fn is_shown(name: &str) -> bool {
    SHOWN.contains(&name) || name.starts_with("NVIDIA_REQUIRE_")
}

pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    SECRETS.iter().any(|word| name.contains(word))
}

/// True for paths, numbers and words, unlike keys.
fn is_plain(value: &str) -> bool {
    let is_path_like = |part: &str| part.is_empty() || part.contains('/') || part.len() <= 64;
    value.split([':', ';', ',', ' ']).all(is_path_like) && !value.contains(['\n', '\0'])
}

/// Replaces every occurrence that is not a part of a longer name.
fn replace(text: &str, name: &str, by: &str, goes_on: impl Fn(char) -> bool) -> String {
    let (mut out, mut last) = (String::new(), 0);
    for (at, _) in text.match_indices(name) {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        let is_part =
            before.is_some_and(&goes_on) && !name.starts_with('/') || after.is_some_and(&goes_on);
        if at >= last && !is_part {
            out.push_str(&text[last..at]);
            out.push_str(by);
            last = at + name.len();
        }
    }
    out + &text[last..]
}

/// Replaces unknown users with home directories below `above` by `someone`.
fn without_others(text: &str, above: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    let (mut out, mut last) = (String::new(), 0);
    for (at, _) in text.match_indices(above) {
        let start = at + above.len();
        if at < last || text[..at].chars().next_back().is_some_and(is_part) {
            continue;
        }
        let end = text[start..]
            .find(|c| !is_part(c))
            .map_or(text.len(), |length| start + length);
        let number = text[start..end].strip_prefix("user");
        let is_known = number.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()));
        out.push_str(&text[last..start]);
        out.push_str(if is_known || start == end {
            &text[start..end]
        } else {
            "someone"
        });
        last = end;
    }
    out + &text[last..]
}

/// Removes user and token from `https://user:token@host/`.
fn without_logins(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        let end = after
            .find(|c: char| c == '/' || c.is_whitespace() || "\"'".contains(c))
            .unwrap_or(after.len());
        let host = after[..end].rfind('@').map_or(0, |at| at + 1);
        rest = &after[host..];
    }
    out + rest
}

/// Replaces words that look like keys: long ones of capitals, small letters and digits. Hashes in directories have no
/// capitals.
fn without_keys(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_key = |word: &str| {
        let has = |is: fn(&u8) -> bool| word.as_bytes().iter().any(is);
        word.len() >= KEY_LENGTH
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_uppercase)
            && (has(u8::is_ascii_lowercase) || !word.contains('_'))
    };
    let mut out = String::new();
    for part in text.split_inclusive(|c| !is_part(c)) {
        let word = part.trim_end_matches(|c| !is_part(c));
        if is_key(word) {
            out.push_str(&format!(
                "hidden{}",
                &storage::digest([word.as_bytes()])[..8]
            ));
        } else {
            out.push_str(word);
        }
        out.push_str(&part[word.len()..]);
    }
    out
}

/// Returns the path without `.` and `..`.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            std::path::Component::ParentDir => _ = out.pop(),
            std::path::Component::Normal(name) => out.push(name),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_descriptions_name_no_user() {
        let env = [("USER", "alice-secret")].into_iter().collect();
        let paths = [
            Path::new("/home/bob/x"),
            Path::new("/scratch/alice-secret/y"),
        ];
        let names = Names::collect(
            Some(Path::new("/home/alice-secret")),
            &env,
            paths.into_iter(),
        );
        assert_eq!(names.hide("/home/alice-secret/lib"), "/home/user/lib");
        assert_eq!(
            names.hide("/scratch/alice-secret/lib:/home/bob/l"),
            "/scratch/user/lib:/home/user2/l"
        );
        assert_eq!(
            names.hide("/home/alice-secrets"),
            "/home/someone",
            "an unknown user"
        );
        assert_eq!(names.hide("/tmp/env-alice-secret-1"), "/tmp/env-user-1");
        assert_eq!(
            names.hide("x https://me:tok3n@host.org/p"),
            "x https://host.org/p"
        );
        for key in [
            "hf_aBcDeFgHiJkLmNoPqRsTuVw1",
            "AKIAIOSFODNN7EXAMPLE",
            "ghp_Zz0123456789Zz0123456789",
        ] {
            let hidden = names.hide(&format!("/opt/{key}/lib:brand=tesla,{key}"));
            assert!(
                !hidden.contains(key) && hidden.starts_with("/opt/hidden"),
                "{hidden}"
            );
        }
        for kept in [
            "/nix/store/0123456789abcdfghijklmnpqrsvwxyz-cudnn-9.1.0/lib",
            "glibc.malloc.arena_max=1:CUDA_DEVICE_MAX_CONNECTIONS_2",
            "GPU-6d1cba10-9bd4-4b3c-8f3a-0123456789ab",
        ] {
            assert_eq!(names.hide(kept), kept);
        }
        for (name, path) in [
            ("linux", "/usr/lib/x86_64-linux-gnu"),
            ("torch", "/opt/py/site-packages/torch-2.5.1.dist-info"),
            ("debian", "/etc/debian_version"),
            ("cudnn", "/opt/libcudnn.so.9"),
        ] {
            let home = format!("/home/{name}");
            let names = Names::collect(Some(Path::new(&home)), &env, std::iter::empty());
            assert_eq!(names.hide(path), path);
            assert_eq!(
                names.hide(&format!("{home}/x")),
                "/home/user/x",
                "the control"
            );
        }
        let env: Environment = [
            ("API_TOKEN", "x"),
            ("LD_LIBRARY_PATH", "/home/bob/l"),
            ("CUDA_SECRET", "y"),
            ("OTHER", "z"),
        ]
        .into_iter()
        .collect();
        let kept = names.environment(&env, &|name| name != "OTHER", &|_| true);
        assert_eq!(
            kept.into_iter().collect::<Vec<_>>(),
            [("LD_LIBRARY_PATH".into(), "/home/user2/l".into())]
        );
    }
}
