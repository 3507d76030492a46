//! Names in the stores of Nix and Guix: a hash, a package, its version and perhaps which part of it.

/// The length of the hash before the name and its `-`.
const HASH: usize = 32;

/// Returns a package and its version, which may be empty: `w4…8q-cudnn-9.1.0.70-lib` is `cudnn` in `9.1.0.70`.
pub fn package(entry: &str) -> Option<(&str, &str)> {
    let (hash, rest) = (entry.get(..HASH)?, entry.get(HASH..)?);
    let name = rest
        .strip_prefix('-')
        .filter(|_| hash.bytes().all(|byte| byte.is_ascii_alphanumeric()))?;
    // Recipes, patches and archives have such names as well.
    let others = [
        ".drv", ".lock", ".patch", ".tar.gz", ".tar.xz", ".deb", ".run",
    ];
    if name.is_empty() || others.iter().any(|end| name.ends_with(end)) {
        return None;
    }
    let is_version = |at: &usize| name.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit);
    let Some(at) = name.match_indices('-').map(|(at, _)| at).find(is_version) else {
        return Some((name, ""));
    };
    let version = name[at + 1..].split('-').next().unwrap_or_default();
    Some((&name[..at], version))
}
