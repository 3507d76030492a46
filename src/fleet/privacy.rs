//! Removes private data from a description: names of users, tokens, values of variables.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::catalog::catalog;
use crate::environment::Environment;
use crate::host::Host;
use crate::kept::decides;
use crate::storage;
use crate::text::{SECRET_NAME, SECRET_OPTION};
use crate::variables::reaches_libraries;

/// The home of the user in a description, and the name of any other user.
pub const HOME: &str = "/home/user";
const OTHER: &str = "someone";
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
#[derive(Debug)]
pub(super) struct Names {
    /// Each with its replacement, longest first.
    users: Vec<(String, &'static str)>,
    home: Option<String>,
    /// The parents of home directories.
    homes: Vec<String>,
}

/// Variables of libraries whose values are never private.
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
    /// Collects the name of this user, and the names of others whose home directories are in the texts.
    pub(super) fn collect(host: &Host, texts: &[String]) -> Names {
        let home = host.home().and_then(|home| Some(home.to_str()?.to_owned()));
        Names::new(home.as_deref(), &host.env, texts)
    }

    fn new(home: Option<&str>, env: &Environment, texts: &[String]) -> Names {
        let home = home
            .map(|home| home.trim_end_matches('/'))
            .filter(|home| home.len() > 1 && !is_common(home));
        let mut homes = HOMES.map(str::to_owned).to_vec();
        let mut users = BTreeMap::new();
        if let Some(home) = home {
            let (parent, name) = home.rsplit_once('/').unwrap_or(("", home));
            let parent = format!("{parent}/");
            // A shared directory is no parent of home directories.
            if parent.len() > 1 && !is_common(&parent) && !homes.contains(&parent) {
                homes.push(parent);
            }
            users.insert(name.to_owned(), "user");
        }
        for variable in ["USER", "LOGNAME"] {
            if let Some(name) = env.non_empty(variable).and_then(OsStr::to_str) {
                users.insert(name.to_owned(), "user");
            }
        }
        users.retain(|name, _| !is_common(name));
        for text in texts {
            for path in text.split(|c: char| c.is_whitespace() || ":;,=`'\"()".contains(c)) {
                for parent in &homes {
                    let name = path
                        .strip_prefix(parent.as_str())
                        .and_then(|rest| rest.split('/').next());
                    if let Some(name) = name.filter(|name| !name.is_empty() && *name != "user") {
                        users.entry(name.to_owned()).or_insert(OTHER);
                    }
                }
            }
        }
        let mut users: Vec<_> = users.into_iter().collect();
        users.sort_by_key(|(name, _)| Reverse(name.len()));
        Names {
            users,
            home: home.map(str::to_owned),
            homes,
        }
    }

    /// The text with all names replaced, and without logins in URLs.
    fn hide(&self, text: &str) -> String {
        let mut text = match &self.home {
            Some(home) => replace(text, home, HOME, is_of_name),
            None => text.to_owned(),
        };
        for (name, other) in &self.users {
            for parent in &self.homes {
                let path = format!("{parent}{name}");
                text = replace(&text, &path, &format!("{parent}{other}"), is_of_name);
            }
            // In any other place only what cannot mean something else.
            if name.len() > 2 && !is_known(name) {
                text = replace(&text, name, other, char::is_alphanumeric);
            }
        }
        for parent in &self.homes {
            text = without_others(&text, parent);
        }
        without_keys(&without_logins(&text))
    }

    /// Like [`Names::hide`], for a command line, and without values that may be secrets.
    pub(super) fn hide_line(&self, line: &str) -> String {
        let line =
            SECRET_VALUE.replace_all(line.as_bytes(), "${name}${before}…${after}".as_bytes());
        self.hide(&String::from_utf8_lossy(&line))
    }
}

fn is_common(path: &str) -> bool {
    COMMON.contains(&path.trim_matches('/'))
}

/// True for the characters of names of users and files.
fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || "_-.".contains(c)
}

/// True for a word in the names of systems, libraries and frameworks. Replaced there, it would make another machine.
fn is_known(word: &str) -> bool {
    if COMMON.contains(&word) || SYSTEM.contains(&word) {
        return true;
    }
    let mut names = Vec::new();
    for framework in &catalog().frameworks {
        names.push(&framework.name);
        names.extend(&framework.modules);
        names.extend(&framework.packages);
        names.extend(&framework.distributions);
    }
    for family in &catalog().families {
        names.push(&family.name);
        names.extend(&family.members);
    }
    let mut words = names
        .into_iter()
        .flat_map(|name| name.split(|c: char| !c.is_alphanumeric()));
    words.any(|other| other == word)
}

/// A command line as a description of this user's machine has it.
pub fn hidden(host: &Host, line: &str) -> String {
    Names::collect(host, &[]).hide_line(line)
}

/// True if a description keeps the variable: its value is neither private nor a key, and decides which libraries are used.
pub fn is_kept(name: &str, value: &str) -> bool {
    let lower = name.to_lowercase();
    let is_secret = SECRETS.iter().any(|word| lower.contains(word));
    let is_shown = SHOWN.contains(&name) || name.starts_with("NVIDIA_REQUIRE_") || decides(name);
    is_shown && !is_secret && is_plain(value) && reaches_libraries(OsStr::new(name))
}

/// True for paths, numbers and words, unlike keys.
fn is_plain(value: &str) -> bool {
    !value.contains(['\n', '\0'])
        && value
            .split([':', ';', ',', ' '])
            .all(|part| part.contains('/') || part.len() <= 64)
}

/// Replaces every occurrence that is not a part of a longer name, whose characters `is_of_name` tells.
fn replace(text: &str, name: &str, other: &str, is_of_name: fn(char) -> bool) -> String {
    let (mut out, mut copied) = (String::new(), 0);
    for (start, _) in text.match_indices(name) {
        let end = start + name.len();
        let mut before = text[..start].chars();
        let mut after = text[end..].chars();
        let is_part = before.next_back().is_some_and(is_of_name) && !name.starts_with('/')
            || after.next().is_some_and(is_of_name);
        if start >= copied && !is_part {
            out.push_str(&text[copied..start]);
            out.push_str(other);
            copied = end;
        }
    }
    out + &text[copied..]
}

/// Replaces other users with home directories in `parent`.
fn without_others(text: &str, parent: &str) -> String {
    let (mut out, mut copied) = (String::new(), 0);
    for (index, _) in text.match_indices(parent) {
        let mut before = text[..index].chars();
        if index < copied || before.next_back().is_some_and(is_of_name) {
            continue;
        }
        let start = index + parent.len();
        let rest = &text[start..];
        let name = &rest[..rest.find(|c| !is_of_name(c)).unwrap_or(rest.len())];
        out.push_str(&text[copied..start]);
        out.push_str(if name.is_empty() || name == "user" {
            name
        } else {
            OTHER
        });
        copied = start + name.len();
    }
    out + &text[copied..]
}

/// Removes user and token from `https://user:token@host/`.
fn without_logins(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((scheme, address)) = rest.split_once("://") {
        out.push_str(scheme);
        out.push_str("://");
        let end = address
            .find(|c: char| c == '/' || c.is_whitespace() || "\"'".contains(c))
            .unwrap_or(address.len());
        let host = address[..end].rfind('@').map_or(0, |index| index + 1);
        rest = &address[host..];
    }
    out + rest
}

/// Replaces words that look like keys: long ones of capitals, small letters and digits. Hashes in directories have no
/// capitals.
fn without_keys(text: &str) -> String {
    let mut out = String::new();
    for part in text.split_inclusive(|c| !is_of_word(c)) {
        let word = part.trim_end_matches(|c| !is_of_word(c));
        if is_key(word) {
            out.push_str("hidden");
            out.push_str(&storage::digest([word.as_bytes()])[..8]);
        } else {
            out.push_str(word);
        }
        out.push_str(&part[word.len()..]);
    }
    out
}

fn is_of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_key(word: &str) -> bool {
    // The names of C++ symbols are as long.
    word.len() >= KEY_LENGTH
        && !word.starts_with("_Z")
        && word.contains(|c: char| c.is_ascii_digit())
        && word.contains(|c: char| c.is_ascii_uppercase())
        && (word.contains(|c: char| c.is_ascii_lowercase()) || !word.contains('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_descriptions_name_no_user() {
        let env = [("USER", "alice-secret")].into_iter().collect();
        let texts = ["in `/home/bobby/x`, /scratch/alice-secret/y".to_owned()];
        let names = Names::new(Some("/home/alice-secret"), &env, &texts);
        assert_eq!(names.hide("/home/alice-secret/lib"), "/home/user/lib");
        assert_eq!(
            names.hide("/scratch/alice-secret/lib:/home/bobby/l:/scratch/bobby/l"),
            "/scratch/user/lib:/home/someone/l:/scratch/someone/l"
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
            "_ZN3c1010TensorImpl17set_autograd_metaE",
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
            let names = Names::new(Some(&home), &env, &[]);
            assert_eq!(names.hide(path), path);
            assert_eq!(
                names.hide(&format!("{home}/x")),
                "/home/user/x",
                "the control"
            );
        }
        for (name, value, is_kept) in [
            ("LD_LIBRARY_PATH", "/home/bob/l", true),
            ("CUDA_VISIBLE_DEVICES", "0", true),
            ("LD_LIBRARY_PATH", "two\nlines", false),
            ("NCCL_COMM_ID", "10.0.0.1:7", false),
            ("CUDA_SECRET", "y", false),
            ("HOME", "/home/bob", false),
        ] {
            assert_eq!(super::is_kept(name, value), is_kept, "{name}");
        }
    }
}
