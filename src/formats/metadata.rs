//! What Python records in text: a distribution's METADATA and RECORD, `pyvenv.cfg`, `.pth` files.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use pep440_rs::{Operator, VersionSpecifiers};

use crate::version::Version;

mod requires;

/// The header of a `METADATA` file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    pub name: String,
    pub version: String,
    pub requires: Vec<Requires>,
}

/// One `Requires-Dist`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requires {
    /// Normalised: lower case, `-` between words.
    pub name: String,
    /// The extras that it asks of that distribution, `cuda-toolkit[cublas]`.
    pub extras: Vec<String>,
    /// As it is written; empty when any version will do.
    pub versions: String,
    /// Whether it counts only when an extra of this distribution was asked for.
    pub optional: bool,
    pub extra: Option<String>,
}

impl Requires {
    /// The version that an `==` names, without a final `.*`; what upstream tested with.
    pub fn pinned(&self) -> Option<Version> {
        let specifiers = VersionSpecifiers::from_str(&self.versions).ok()?;
        let exact = |operator: &Operator| {
            matches!(operator, Operator::Equal | Operator::EqualStar | Operator::ExactEqual)
        };
        let pin = specifiers.iter().find(|specifier| exact(specifier.operator()))?;
        plain_version(pin.version())
    }

    /// The oldest version that it allows.
    pub fn lower_bound(&self) -> Option<Version> {
        let specifiers = VersionSpecifiers::from_str(&self.versions).ok()?;
        let lower =
            |operator: &Operator| matches!(operator, Operator::GreaterThanEqual | Operator::TildeEqual);
        specifiers.iter().filter(|s| lower(s.operator())).filter_map(|s| plain_version(s.version())).max()
    }
}

/// Reads the header, which ends at the first empty line; what follows is a description.
pub fn metadata(text: &str) -> Metadata {
    let mut found = Metadata::default();
    for line in text.lines().take_while(|line| !line.is_empty()) {
        let Some((field, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match field.to_ascii_lowercase().as_str() {
            "name" => value.clone_into(&mut found.name),
            "version" => value.clone_into(&mut found.version),
            "requires-dist" => found.requires.extend(requires::read(value)),
            _ => {}
        }
    }
    found
}

/// Lower case with `-` for every run of `-`, `_` and `.`, as PEP 503 has it.
pub fn normalised(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        if matches!(character, '-' | '_' | '.') {
            if !out.ends_with('-') {
                out.push('-');
            }
        } else {
            out.push(character.to_ascii_lowercase());
        }
    }
    out
}

/// The path and, where it is recorded, the size of each shared object of a `RECORD` that is wanted. Most lines of the
/// longest records name something else, and are not looked at.
pub fn record(bytes: &[u8], is_wanted: &dyn Fn(&str) -> bool) -> Vec<(String, Option<u64>)> {
    let mut found = Vec::new();
    let mut end = 0;
    for at in memchr::memmem::find_iter(bytes, b".so") {
        if at < end {
            continue;
        }
        let start = memchr::memrchr(b'\n', &bytes[..at]).map_or(0, |before| before + 1);
        end = memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
        let Ok(line) = std::str::from_utf8(&bytes[start..end]) else { continue };
        let fields = line.rsplit_once(',').and_then(|(rest, size)| Some((rest.rsplit_once(',')?.0, size)));
        let Some((path, size)) = fields else { continue };
        let path = path.trim_matches('"');
        if is_wanted(path) {
            found.push((path.to_owned(), size.trim().parse().ok()));
        }
    }
    found
}

/// The top-level modules that a `RECORD` lists: packages, source files, extensions.
pub fn top_level(record: &str) -> BTreeSet<String> {
    record
        .lines()
        .filter_map(|line| {
            let path = line.trim_start_matches('"').split([',', '"']).next()?;
            let first = path.split('/').next()?;
            let is_directory = path.len() > first.len();
            let is_module = is_directory || first.ends_with(".py") || first.ends_with(".so");
            let module = first.split('.').next()?;
            let is_name = !module.is_empty() && !first.ends_with(".dist-info") && module != "__pycache__";
            (is_module && is_name && !(is_directory && first.contains('.'))).then(|| module.to_owned())
        })
        .collect()
}

/// The `key = value` lines of a `pyvenv.cfg`, keys in lower case.
pub fn pyvenv(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect()
}

/// The directories that a `.pth` file adds; lines that are code are not run.
pub fn pth_directories(text: &str) -> Vec<&str> {
    let is_code = |line: &str| line.starts_with("import ") || line.starts_with("import\t");
    text.lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !is_code(line))
        .collect()
}

/// A version that is only numbers, of which the first four count.
fn plain_version(version: &pep440_rs::Version) -> Option<Version> {
    let numbers: Option<Vec<u32>> =
        version.release().iter().map(|number| u32::try_from(*number).ok()).collect();
    numbers.filter(|numbers| !numbers.is_empty()).map(|numbers| Version::new(&numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_level_modules_are_those_that_can_be_imported() {
        let record = "yaml/__init__.py,sha256=x,1\n_yaml.cpython-312-x86_64-linux-gnu.so,,\nsix.py,,\n\
            PyYAML-6.0.dist-info/METADATA,,\n../../bin/tool,,\n__pycache__/six.pyc,,\nnumpy.libs/libx.so,,\n\"a b/c.py\",,";
        let found: Vec<String> = top_level(record).into_iter().collect();
        assert_eq!(found, ["_yaml", "a b", "six", "yaml"]);
    }

    const TORCH: &str = "Metadata-Version: 2.1\nName: torch\nVersion: 2.5.1\n\
        Requires-Dist: filelock\n\
        Requires-Dist: nvidia-cudnn-cu12 (==9.1.0.70) ; platform_system == \"Linux\" and platform_machine == \"x86_64\"\n\
        Requires-Dist: cuda-toolkit[cublas,cudart]==13.0.2; platform_system == \"Linux\"\n\
        Requires-Dist: nvidia-cublas==13.1.0.3.*; sys_platform == 'linux' and extra == 'cublas'\n\
        Requires-Dist: nvidia-cudnn-cu12<10.0,>=9.8; sys_platform == \"linux\" and extra == \"with-cuda\"\n\
        Requires-Dist: ???\n\nRequires-Dist: not-in-the-header\n";

    #[test]
    fn reads_both_syntaxes_of_requires_dist() {
        let torch = metadata(TORCH);
        assert_eq!((torch.name.as_str(), torch.version.as_str()), ("torch", "2.5.1"));
        let names: Vec<_> = torch.requires.iter().map(|r| (r.name.as_str(), r.optional)).collect();
        assert_eq!(
            names,
            [
                ("filelock", false),
                ("nvidia-cudnn-cu12", false),
                ("cuda-toolkit", false),
                ("nvidia-cublas", true),
                ("nvidia-cudnn-cu12", true)
            ]
        );
        assert_eq!(torch.requires[1].pinned().unwrap().to_string(), "9.1.0.70");
        assert_eq!(torch.requires[2].extras, ["cublas", "cudart"]);
        assert_eq!(torch.requires[3].pinned().unwrap().to_string(), "13.1.0.3");
        assert_eq!(torch.requires[3].extra.as_deref(), Some("cublas"));
        assert_eq!(torch.requires[4].pinned(), None);
        assert_eq!(torch.requires[4].lower_bound().unwrap().to_string(), "9.8");
    }

    #[test]
    fn reads_records_environments_and_paths() {
        let text = b"a.py,,\nnvidia/cudnn/lib/libcudnn.so.9,sha256=abc,125136\n\"a,b.so\",,\n.so\nx.so/y.so,,\nz.so,,1";
        let lines = record(text, &|path| path != "z.so");
        let expected =
            [("nvidia/cudnn/lib/libcudnn.so.9", Some(125_136)), ("a,b.so", None), ("x.so/y.so", None)];
        assert_eq!(lines, expected.map(|(path, size)| (path.to_owned(), size)));
        assert!(
            record(b"z.so,,1", &|_| true) == [("z.so".to_owned(), Some(1))]
                && record(b"", &|_| true).is_empty()
        );
        let venv = pyvenv("home = /usr/bin\nInclude-System-Site-Packages = false\nversion_info = 3.12.3\n");
        assert_eq!(venv["include-system-site-packages"], "false");
        assert_eq!(pth_directories("# x\n/opt/lib\nimport os; os.system('x')\nsub\n\n"), ["/opt/lib", "sub"]);
        assert_eq!(normalised("Jax_CUDA12.-plugin"), "jax-cuda12-plugin");
    }
}
