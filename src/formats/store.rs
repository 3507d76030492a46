//! Names in the stores of Nix and Guix: a hash, a package, its version and perhaps which part of it.

/// What comes before the name: the hash and a `-`.
const HASH: usize = 32;

/// The package and its version, where there is one: `w4…8q-cudnn-9.1.0.70-lib` is `cudnn` in `9.1.0.70`.
pub fn package(entry: &str) -> Option<(&str, &str)> {
    let (hash, rest) = (entry.get(..HASH)?, entry.get(HASH..)?);
    let name = rest.strip_prefix('-').filter(|_| hash.bytes().all(|byte| byte.is_ascii_alphanumeric()))?;
    // Recipes, patches and archives have names of the same kind.
    if name.is_empty()
        || [".drv", ".lock", ".patch", ".tar.gz", ".tar.xz", ".deb", ".run"]
            .iter()
            .any(|end| name.ends_with(end))
    {
        return None;
    }
    let is_version = |at: &usize| name.as_bytes().get(at + 1).is_some_and(u8::is_ascii_digit);
    let Some(at) = name.match_indices('-').map(|(at, _)| at).find(is_version) else {
        return Some((name, ""));
    };
    let version = name[at + 1..].split('-').next().unwrap_or_default();
    Some((&name[..at], version))
}

#[cfg(test)]
mod tests {
    use super::*;

    const H: &str = "0123456789abcdfghijklmnpqrsvwxyz";

    #[test]
    fn takes_names_apart() {
        let of =
            |name: &str| package(&format!("{H}-{name}")).map(|(name, version)| format!("{name} {version}"));
        assert_eq!(of("cudnn-9.1.0.70-lib").unwrap(), "cudnn 9.1.0.70");
        assert_eq!(of("cuda12.4-cuda_cudart-12.4.127-lib").unwrap(), "cuda12.4-cuda_cudart 12.4.127");
        assert_eq!(of("nvidia-x11-550.90.07-6.6.36").unwrap(), "nvidia-x11 550.90.07");
        assert_eq!(of("cuda-merged").unwrap(), "cuda-merged ");
        assert_eq!(of("cudnn-9.1.0.70.drv"), None);
        for bad in ["", "x", "-", H, "0123456789abcdfghijklmnpqrsvwx-z-cudnn", "éééééééééééééééé-cudnn-9"]
        {
            assert_eq!(package(bad), None, "{bad}");
        }
        let whole = format!("{H}-cuda-é-9.1-");
        for end in (0..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
            package(&whole[..end]);
        }
    }
}
