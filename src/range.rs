//! Ranges of versions: `9.1`, `>=9.1,<10`, `~12.4`, `~=9.1.0`, `!=9.10.0`. As in Cargo, a bare version means it or a newer
//! compatible one. The crate `semver` does not read versions of four numbers, which NVIDIA's libraries have.
//! Imports nothing but versions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::version::Version;

/// The most comparators in one range, all of which a report shows.
const COMPARATORS: usize = 64;

/// A range of versions: every comparator must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range(Vec<Comparator>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Comparator {
    operator: Operator,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    /// `9.1` and `^9.1`: from this version to the next incompatible one.
    Compatible,
    /// `~9.1`: from this version to the next minor; `~9` to the next major.
    Near,
    /// `~=9.1.0`, as in PEP 440: 9.1.0 or newer, before 9.2.
    Release,
    /// `=9.1`: with any further numbers.
    Equal,
    NotEqual,
    AtLeast,
    /// `>9.1`: newer than every 9.1.
    Newer,
    AtMost,
    Older,
}

/// Longer signs come first, since `>` begins `>=`.
const OPERATORS: &[(&str, Operator)] = &[
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    ("!=", Operator::NotEqual),
    ("~=", Operator::Release),
    ("==", Operator::Equal),
    (">", Operator::Newer),
    ("<", Operator::Older),
    ("=", Operator::Equal),
    ("^", Operator::Compatible),
    ("~", Operator::Near),
];

impl Range {
    /// Returns the range of all versions.
    pub fn any() -> Range {
        Range(Vec::new())
    }

    /// Returns the range of versions that agree with this one.
    pub fn exactly(version: Version) -> Range {
        Range(vec![Comparator {
            operator: Operator::Equal,
            version,
        }])
    }

    /// Returns the range from this version on.
    pub fn at_least(version: Version) -> Range {
        Range(vec![Comparator {
            operator: Operator::AtLeast,
            version,
        }])
    }

    /// True for `*`.
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    pub fn allows(&self, version: &Version) -> bool {
        self.0.iter().all(|comparator| comparator.allows(version))
    }

    /// True if no version can be in it.
    pub fn is_empty(&self) -> bool {
        !self.is_any() && !self.allows_from(&Version::new(&[0]))
    }

    /// True if it allows this version or a newer one.
    pub fn allows_from(&self, least: &Version) -> bool {
        let ends = self.0.iter().map(|comparator| comparator.version);
        let after = ends
            .clone()
            .map(|version| next(&version, version.numbers().len()));
        let tried = ends
            .chain(after)
            .chain([*least, next(least, least.numbers().len())]);
        tried
            .filter(|version| version >= least)
            .any(|version| self.allows(&version))
    }

    /// True if it allows a version of this major.
    pub fn allows_some(&self, major: u32) -> bool {
        let of_major = |version: Version| version.major() == major;
        let ends = self
            .0
            .iter()
            .map(|comparator| comparator.version)
            .filter(|version| of_major(*version));
        let after = ends
            .clone()
            .map(|version| next(&version, version.numbers().len()));
        let first = [Version::new(&[major]), Version::new(&[major, u32::MAX])];
        ends.chain(after.filter(|version| of_major(*version)))
            .chain(first)
            .any(|version| self.allows(&version))
    }

    /// Returns the major of every version that it allows, if there is only one.
    pub fn major(&self) -> Option<u32> {
        let low = self.lowest()?;
        let next = Version::new(&[low.major() + 1]);
        let is_below_next = |comparator: &Comparator| match comparator.operator {
            Operator::Compatible | Operator::Near | Operator::Release | Operator::Equal => true,
            Operator::Older => comparator.version <= next,
            Operator::AtMost => comparator.version < next,
            _ => false,
        };
        self.0.iter().any(is_below_next).then(|| low.major())
    }

    /// Returns the oldest version that it allows, if it has a lower bound.
    pub fn lowest(&self) -> Option<Version> {
        let is_floor = |comparator: &&Comparator| {
            !matches!(
                comparator.operator,
                Operator::NotEqual | Operator::AtMost | Operator::Older
            )
        };
        self.0
            .iter()
            .filter(is_floor)
            .map(|comparator| comparator.version)
            .max()
    }

    /// Returns the range in the grammar of Python's packages, for pip.
    pub fn to_pip(&self) -> String {
        let pip = |comparator: &Comparator| {
            let version = comparator.version;
            match comparator.operator {
                Operator::Compatible | Operator::Near | Operator::Release => {
                    format!(">={version},<{}", comparator.end())
                }
                // NVIDIA's wheels have a fourth number, which few people write.
                Operator::Equal if version.numbers().len() < 4 => format!("=={version}.*"),
                Operator::Equal => format!("=={version}"),
                Operator::NotEqual if version.numbers().len() < 4 => format!("!={version}.*"),
                Operator::NotEqual => format!("!={version}"),
                Operator::AtLeast => format!(">={version}"),
                Operator::Newer if version.numbers().len() < 4 => {
                    format!(">={version},!={version}.*")
                }
                Operator::Newer => format!(">{version}"),
                Operator::AtMost => format!("<{}", next(&version, version.numbers().len())),
                Operator::Older => format!("<{version}"),
            }
        };
        self.0.iter().map(pip).collect::<Vec<_>>().join(",")
    }
}

impl Comparator {
    fn allows(&self, version: &Version) -> bool {
        let than = &self.version;
        match self.operator {
            Operator::Compatible | Operator::Near | Operator::Release => {
                version >= than && *version < self.end()
            }
            Operator::Equal => version.agrees_with(than),
            Operator::NotEqual => !version.agrees_with(than),
            Operator::AtLeast => version >= than,
            Operator::Newer => version > than && !version.agrees_with(than),
            Operator::AtMost => version <= than || version.agrees_with(than),
            Operator::Older => version < than,
        }
    }

    /// Returns the first newer version that is not near or not compatible.
    fn end(&self) -> Version {
        let numbers = self.version.numbers();
        let counts = match self.operator {
            Operator::Near => numbers.len().min(2),
            Operator::Release => numbers.len() - 1,
            // Before 1.0 every minor is incompatible.
            _ => numbers
                .iter()
                .position(|number| *number != 0)
                .map_or(numbers.len(), |first| first + 1),
        };
        next(&self.version, counts)
    }
}

/// Returns the version after all those that begin with the first `count` numbers of this one.
fn next(version: &Version, count: usize) -> Version {
    let mut numbers = version.numbers()[..count].to_vec();
    if let Some(last) = numbers.last_mut() {
        *last = last.saturating_add(1);
    }
    Version::new(&numbers)
}

impl FromStr for Range {
    type Err = ();

    /// Comparators with commas between; `*` allows all; `9.*` is `=9`.
    fn from_str(text: &str) -> Result<Range, ()> {
        let text = text.trim();
        if text == "*" {
            return Ok(Range(Vec::new()));
        }
        let comparator = |part: &str| {
            let part = part.trim();
            let known = OPERATORS
                .iter()
                .find_map(|(sign, operator)| Some((part.strip_prefix(sign)?, *operator)));
            let (rest, operator) = known.unwrap_or((part, Operator::Compatible));
            let rest = rest.trim();
            let rest = rest.strip_prefix('v').unwrap_or(rest);
            match (rest.strip_suffix(".*"), operator) {
                // `~=9` keeps no number, so PEP 440 forbids it.
                (None, Operator::Release) if !rest.contains('.') => Err(()),
                (None, _) => Ok(Comparator {
                    operator,
                    version: rest.parse()?,
                }),
                (Some(rest), Operator::NotEqual) => Ok(Comparator {
                    operator,
                    version: rest.parse()?,
                }),
                (Some(rest), Operator::Compatible | Operator::Equal) => Ok(Comparator {
                    operator: Operator::Equal,
                    version: rest.parse()?,
                }),
                (Some(_), _) => Err(()),
            }
        };
        if text.split(',').nth(COMPARATORS).is_some() {
            return Err(());
        }
        text.split(',')
            .map(comparator)
            .collect::<Result<Vec<_>, ()>>()
            .map(Range)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("*");
        }
        for (index, comparator) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            // The shortest sign: the last one in the table.
            let sign = OPERATORS
                .iter()
                .rfind(|(_, operator)| *operator == comparator.operator);
            let sign = sign.map_or("", |(sign, _)| sign.trim_start_matches('^'));
            write!(f, "{comma}{sign}{}", comparator.version)?;
        }
        Ok(())
    }
}

impl Serialize for Range {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Range, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|()| serde::de::Error::custom(format!("`{text}` is not a range of versions")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges, the versions that each allows, and those that it rejects. Each operator appears with versions of three and of
    /// four numbers.
    const TABLE: &[(&str, &str, &str)] = &[
        ("9.1", "9.1 9.1.0 9.28.0.42", "9.0.9 10 8.9.7"),
        (
            "9.1.0.70",
            "9.1.0.70 9.1.0.71 9.2.0.1",
            "9.1.0.69 9.1.0 10.0.0.1",
        ),
        ("^9.1.0", "9.1.0 9.1.0.70 9.28.0", "9.0.9.99 10.0.0"),
        ("0.6.2", "0.6.2 0.6.9", "0.7 0.6.1"),
        ("~12", "12.0 12.9", "13.0 11.8"),
        ("~9.1.0", "9.1.0 9.1.0.70 9.1.7", "9.0.9.99 9.2.0"),
        ("~9.1.0.70", "9.1.0.70 9.1.1.1", "9.1.0.69 9.2.0.0"),
        (
            "~=9.1.0",
            "9.1.0 9.1.0.70 9.1.7.29",
            "9.0.9.99 9.2.0 9.2.0.1",
        ),
        ("~=9.1.0.70", "9.1.0.70 9.1.0.71", "9.1.0.69 9.1.1 9.1.1.0"),
        ("=9.1.0", "9.1.0 9.1.0.70", "9.1.1 9.10.0"),
        ("==9.1.0.70", "9.1.0.70", "9.1.0.71 9.1.1.70"),
        ("9.1.*", "9.1.0 9.1.1.17", "9.10 9.2"),
        ("!=9.10.0", "9.10.1 9.9", "9.10.0 9.10.0.56"),
        ("!=9.10.0.56", "9.10.0.57 9.10.1", "9.10.0.56"),
        (">=8.7, <9", "8.7 8.9.7", "8.6.9 9.0"),
        (">=9.1.0.70", "9.1.0.70 9.1.1", "9.1.0.69 9.1.0"),
        (">9.1.0", "9.1.1 9.1.1.17", "9.1.0 9.1.0.70"),
        (">9.1.0.70", "9.1.0.71 9.1.1", "9.1.0.70 9.1.0.69"),
        ("<=9.1.0", "9.1.0 9.1.0.70 9.0.9", "9.1.1 9.1.1.17"),
        ("<=9.1.0.70", "9.1.0.70 9.1.0", "9.1.0.71 9.1.1"),
        ("<9.1.0.70", "9.1.0.69 9.1.0", "9.1.0.70 9.1.1"),
        ("*", "1 99.9 9.1.0.70", ""),
        ("v9.1", "9.2", "9.0"),
    ];

    #[test]
    fn each_operator_allows_and_denies() {
        for (range, allowed, denied) in TABLE {
            let parsed: Range = range.parse().unwrap();
            let versions = |text: &str| {
                text.split(' ')
                    .filter_map(|v| v.parse().ok())
                    .collect::<Vec<Version>>()
            };
            assert!(
                versions(allowed)
                    .iter()
                    .all(|version| parsed.allows(version)),
                "{range}"
            );
            assert!(
                !versions(denied)
                    .iter()
                    .any(|version| parsed.allows(version)),
                "{range}"
            );
            assert_eq!(parsed.to_string().parse(), Ok(parsed), "{range}");
        }
        for bad in [
            "",
            ",",
            "9.1,",
            ">=",
            "a",
            ">=9.*",
            "9..1",
            "> =9",
            "9 1",
            "^*",
            "1.2.3.4.5.6",
            "~=9",
            "~=9.1.*",
        ] {
            assert!(bad.parse::<Range>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_range_reports_its_ends() {
        let range = |text: &str| text.parse::<Range>().unwrap();
        assert!(range(">=12.4,<13").allows_some(12) && !range(">=12.4,<13").allows_some(13));
        assert!(range(">12.1,<=12.4").allows_some(12) && !range("<12").allows_some(12));
        let from = |text: &str, least: &str| range(text).allows_from(&least.parse().unwrap());
        assert!(from("<9.10", "9.8") && !from("<9.5", "9.8") && from(">=10", "9.8"));
        assert!(from("!=9.8", "9.8") && !from("=9.1", "9.8") && from("9.1", "9.8"));
        for (text, major) in [
            ("9.1", Some(9)),
            (">=9.1", None),
            (">=9.1,<10", Some(9)),
            (">=8,<10", None),
        ] {
            assert_eq!(range(text).major(), major, "{text}");
        }
        for (text, pip) in [
            ("~=9.1.0.70", ">=9.1.0.70,<9.1.1"),
            ("9.1", ">=9.1,<10"),
            ("=9.1.0", "==9.1.0.*"),
            ("<=9.1", "<9.2"),
            (">9.1", ">=9.1,!=9.1.*"),
            (">9.1.0.70", ">9.1.0.70"),
        ] {
            assert_eq!(range(text).to_pip(), pip);
        }
    }
}
