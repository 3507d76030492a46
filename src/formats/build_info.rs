//! What builds write down of themselves in Python source and C headers: assigned values, pairs, macros, and the GPUs that
//! a compiler was told to make code for.

use std::collections::BTreeSet;

use super::fatbin::{Architecture, Kind};

/// No file that holds such a record is larger; a bound keeps a hostile one from costing seconds.
const TEXT_LIMIT: usize = 4 << 20;

/// `name = 'text'`, or `name: type = 'text'`: what stands between the quotes.
pub fn assignment(source: &[u8], name: &str) -> Option<String> {
    assigned(source, name, quoted)
}

/// `name = value`, as the value is written, without a comment, a text between single quotes.
pub fn raw_assignment(source: &[u8], name: &str) -> Option<String> {
    let text = |value: &str| quoted(value).map(|inside| format!("'{inside}'"));
    assigned(source, name, |value| text(value).or_else(|| Some(value.split('#').next()?.trim().to_owned())))
}

/// `('name', 'text')`, `('name', True)` or `('name', ['a', 'b'])`: every value, without quotes.
pub fn pair(source: &[u8], name: &str) -> Option<Vec<String>> {
    lines(source).find_map(|line| {
        let value = [format!("'{name}'"), format!("\"{name}\"")].iter().find_map(|key| {
            let after = line.split_once(key.as_str())?.1.trim_start();
            after.strip_prefix(',').or_else(|| after.strip_prefix(':')).map(str::trim_start)
        })?;
        let inside = match value.strip_prefix('[') {
            Some(list) => list.split(']').next()?,
            None => value.split([',', ')', '}']).next()?,
        };
        let plain = |item: &str| item.trim().trim_matches(['\'', '"']).to_owned();
        Some(inside.split(',').map(plain).filter(|item| !item.is_empty()).collect())
    })
}

/// `#define NAME value`: the value, without quotes.
pub fn define(header: &[u8], name: &str) -> Option<String> {
    lines(header).find_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
        let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
        let value = rest.strip_prefix(name)?.strip_prefix([' ', '\t'])?.trim();
        quoted(value).or_else(|| value.split_whitespace().next().map(str::to_owned))
    })
}

/// The digits after a word, where word and digits stand by themselves, as a version whose major has so many of them:
/// of `2.5.1+cu124` with `cu` and 2 it is `12.4`, and of `0.4.23+cuda12.cudnn89` with `cudnn` and 1 `8.9`.
pub fn digits_after(text: &str, word: &str, major: usize) -> Option<String> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).find_map(|part| {
        let rest = part.strip_prefix(word)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, tail) = rest.split_at(end);
        // CuPy's wheels are called after all minors at once.
        if !matches!(tail, "" | "x") || digits.len() > 6 {
            return None;
        }
        let (first, second) = digits.split_at_checked(major).filter(|(first, _)| !first.is_empty())?;
        Some(if second.is_empty() { first.to_owned() } else { format!("{first}.{second}") })
    })
}

/// The GPUs of a compiler's flags, `arch=compute_80,code=sm_80` or `code=[compute_90,sm_90]`.
pub fn gencode(flags: &str) -> BTreeSet<Architecture> {
    let code = flags.split("code=").skip(1).flat_map(|rest| {
        let end = rest.find([';', ' ', '"', ']', '-']).unwrap_or(rest.len());
        rest[..end].trim_start_matches('[').split(',')
    });
    code.filter_map(|name| name.trim().parse().ok()).collect()
}

/// The GPUs of TensorFlow's list, in which `compute_90` stands for machine code and PTX.
pub fn capabilities(names: &[String]) -> BTreeSet<Architecture> {
    let mut found: BTreeSet<Architecture> = names.iter().filter_map(|name| name.parse().ok()).collect();
    let with_ptx: Vec<Architecture> = found.iter().filter(|it| it.kind == Kind::Ptx).copied().collect();
    found.extend(with_ptx.into_iter().map(|it| Architecture { kind: Kind::Sass, ..it }));
    found
}

fn assigned(source: &[u8], name: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    lines(source).find_map(|line| {
        let rest = line.strip_prefix(name)?.trim_start();
        let right = match rest.strip_prefix(':') {
            Some(typed) => typed.split_once('=')?.1,
            None => rest.strip_prefix('=')?,
        };
        value(right.trim())
    })
}

/// What stands between the quotes that a text begins with.
fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    text[1..].split_once(quote).map(|(inside, _)| inside.to_owned())
}

/// The lines that are text; one that is not does not hide the others.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &str> {
    let bytes = &bytes[..bytes.len().min(TEXT_LIMIT)];
    bytes.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_assignments_with_and_without_a_type() {
        let source = b"from typing import Optional\n# \xe9\n__version__ = '2.5.1+cu124'\ncuda: Optional[str] = '12.4'\nhip = None  # no\n";
        assert_eq!(assignment(source, "cuda").as_deref(), Some("12.4"));
        assert_eq!(assignment(source, "__version__").as_deref(), Some("2.5.1+cu124"));
        assert_eq!(assignment(source, "hip"), None);
        assert_eq!(raw_assignment(source, "hip").as_deref(), Some("None"));
        assert_eq!(raw_assignment(source, "cuda").as_deref(), Some("'12.4'"));
        assert_eq!(assignment(b"cuda = \"11.7\"", "cuda").as_deref(), Some("11.7"));
        assert_eq!(assignment(b"cuda_version     = '11.8'\r\n", "cuda_version").as_deref(), Some("11.8"));
        for bad in [&b"\xff"[..], b"cuda", b"cuda =", b"cuda = '", b"cudart = '1'", b"cuda: x"] {
            assert_eq!(assignment(bad, "cuda"), None);
        }
        let far = [vec![b'\n'; TEXT_LIMIT], b"cuda = '12.4'".to_vec()].concat();
        assert_eq!(assignment(&far, "cuda"), None, "only so much is read");
    }

    #[test]
    fn reads_pairs_and_lists() {
        let source = b"build_info = collections.OrderedDict([('cuda_compute_capabilities', ['sm_60', 'compute_90']), ('cuda_version', '12.3'), ('is_cuda_build', True)])\n";
        assert_eq!(pair(source, "cuda_version").unwrap(), ["12.3"]);
        assert_eq!(pair(source, "is_cuda_build").unwrap(), ["True"]);
        let list = pair(source, "cuda_compute_capabilities").unwrap();
        assert_eq!(list, ["sm_60", "compute_90"]);
        let names: Vec<String> = capabilities(&list).iter().map(ToString::to_string).collect();
        assert_eq!(names, ["sm_60", "sm_90", "compute_90"]);
        assert_eq!(pair(b"{\"cuda_version\": \"12.3\"}", "cuda_version").unwrap(), ["12.3"]);
        assert_eq!(pair(source, "cuda"), None);
        assert_eq!(pair(b"'cuda_version'", "cuda_version"), None);
        assert_eq!(pair(b"('cuda_version', [", "cuda_version").unwrap(), [""; 0]);
    }

    #[test]
    fn reads_macros() {
        let header = b"#define CUDNN_MAJOR 9\n# define  CUDNN_MINOR\t3 /* minor */\n#define TF_CUDA_VERSION \"12.3\"\n#define CUDNN_MAJOR_X 1\n";
        assert_eq!(define(header, "CUDNN_MAJOR").as_deref(), Some("9"));
        assert_eq!(define(header, "CUDNN_MINOR").as_deref(), Some("3"));
        assert_eq!(define(header, "TF_CUDA_VERSION").as_deref(), Some("12.3"));
        assert_eq!(define(header, "CUDNN"), None);
        assert_eq!(define(b"#define CUDNN_MAJOR", "CUDNN_MAJOR"), None);
        assert_eq!(define(b"#define CUDNN_MAJOR ", "CUDNN_MAJOR"), None);
    }

    #[test]
    fn reads_digits_in_names_and_versions() {
        let of = |text, word, major| digits_after(text, word, major);
        assert_eq!(of("2.5.1+cu124", "cu", 2).as_deref(), Some("12.4"));
        assert_eq!(of("0.29.2+cu132", "cu", 2).as_deref(), Some("13.2"));
        assert_eq!(of("jaxlib 0.4.23+cuda12.cudnn89", "cuda", 2).as_deref(), Some("12"));
        assert_eq!(of("jaxlib 0.4.23+cuda12.cudnn89", "cudnn", 1).as_deref(), Some("8.9"));
        assert_eq!(of("cupy-cuda12x", "cuda", 2).as_deref(), Some("12"));
        assert_eq!(of("mxnet-cu112", "cu", 2).as_deref(), Some("11.2"));
        for (text, word) in
            [("2.5.1+cpu", "cu"), ("+cu", "cu"), ("+cu1", "cu"), ("", "cu"), ("cu12abc", "cu")]
        {
            assert_eq!(of(text, word, 2), None, "{text}");
        }
    }

    #[test]
    fn reads_flags_of_the_compiler() {
        let names = |flags| gencode(flags).iter().map(ToString::to_string).collect::<Vec<_>>();
        let torch = "-gencode;arch=compute_75,code=sm_75;-gencode;arch=compute_90a,code=sm_90a;-gencode;arch=compute_120,code=compute_120";
        assert_eq!(names(torch), ["sm_75", "sm_90a", "compute_120"]);
        assert_eq!(names("-gencode arch=compute_80,code=[compute_80,sm_80]"), ["sm_80", "compute_80"]);
        assert!(names("code=").is_empty() && names("code=sm_x;code=[").is_empty() && names("").is_empty());
    }
}
