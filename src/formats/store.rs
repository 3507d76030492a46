//! Names in stores of packages: a package, its version and perhaps which part of it. Nix and Guix write a hash of 32
//! characters before them, Spack behind them.

/// A package and its version, which may be empty: `w4…8q-cudnn-9.1.0.70-lib` and `cudnn-9.1.0.70-12-w4…8q` are
/// `cudnn` in `9.1.0.70`.
pub fn package(entry: &str) -> Option<(&str, &str)> {
    let name = match entry.split_once('-') {
        Some((hash, name))
            if hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_alphanumeric()) =>
        {
            name
        }
        _ => entry,
    };
    // Recipes, patches and archives have such names as well.
    let others = [
        ".drv", ".lock", ".patch", ".tar.gz", ".tar.xz", ".deb", ".run",
    ];
    if name.is_empty() || others.iter().any(|end| name.ends_with(end)) {
        return None;
    }
    for (end, _) in name.match_indices('-') {
        let rest = &name[end + 1..];
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            let version = rest.split('-').next().unwrap_or_default();
            return Some((&name[..end], version));
        }
    }
    Some((name, ""))
}
