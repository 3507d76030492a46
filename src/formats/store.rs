//! Names in stores of packages: a package, its version and perhaps which part of it. Nix and Guix write a hash of 32
//! characters before them, Spack behind them.

/// Returns a package and its version, which may be empty: `w4…8q-cudnn-9.1.0.70-lib` and `cudnn-9.1.0.70-12-w4…8q` are
/// `cudnn` in `9.1.0.70`.
pub fn package(entry: &str) -> Option<(&str, &str)> {
    let is_hash =
        |text: &str| text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let behind = entry.split_once('-').filter(|(first, _)| is_hash(first));
    let name = behind.map_or(entry, |(_, name)| name);
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
