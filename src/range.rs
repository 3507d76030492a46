//! Ranges of versions: `9.1`, `>=9.1,<10`, `~12.4`, `~=9.1.0`, `!=9.10.0`. As in Cargo, a bare version means it or a newer
//! compatible one. The crate `semver` does not read versions of four numbers, which NVIDIA's libraries have.
//! Imports nothing but versions.

use std::fmt;
use std::str::FromStr;

use crate::version::{Version, show_as_text};

/// The most comparators in one range, all of which a report shows.
const COMPARATORS: usize = 64;

/// A range of versions: every comparator must hold.
#[derive(Clone, PartialEq, Eq)]
pub struct Range(Vec<Comparator>);

/// It allows the versions from `start` on and before `end`; `!=` allows all others.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Comparator {
    sign: &'static str,
    version: Version,
    start: Version,
    end: Option<Version>,
}

/// Longer signs come first, since `>` begins `>=`. Every text begins with the last one.
const SIGNS: [&str; 11] = [">=", "<=", "!=", "~=", "==", ">", "<", "=", "^", "~", ""];

impl Range {
    /// The range of all versions.
    pub fn any() -> Range {
        Range(Vec::new())
    }

    /// The range of versions that agree with this one.
    pub fn exactly(version: Version) -> Range {
        Range(vec![Comparator::new("=", version)])
    }

    /// The range from this version on.
    pub fn at_least(version: Version) -> Range {
        Range(vec![Comparator::new(">=", version)])
    }

    /// True for `*`.
    pub fn is_any(&self) -> bool {
        self.0.is_empty()
    }

    pub fn allows(&self, version: &Version) -> bool {
        self.0.iter().all(|comparator| comparator.allows(version))
    }

    /// The oldest version that it allows from this one on.
    pub fn oldest_from(&self, least: Version) -> Option<Version> {
        // One that is allowed, and none just before it, is at an end of a comparator.
        let mut versions = vec![least];
        for comparator in &self.0 {
            versions.push(comparator.start);
            versions.extend(comparator.end);
        }
        versions.retain(|version| {
            *version >= least && self.0.iter().all(|comparator| comparator.covers(version))
        });
        versions.into_iter().min()
    }

    /// True if no version can be in it.
    pub fn is_empty(&self) -> bool {
        self.oldest_from(Version::default()).is_none()
    }

    /// The oldest version that it allows, if it has a lower bound.
    pub fn lowest(&self) -> Option<Version> {
        self.oldest_from(Version::default())
            .filter(|version| *version > Version::default())
    }

    /// True if it allows a version of this major.
    pub fn allows_some(&self, major: u32) -> bool {
        let oldest = self.oldest_from(Version::new(&[major]));
        oldest.is_some_and(|version| version.major() == major)
    }

    /// The major of every version that it allows, if there is only one.
    pub fn major(&self) -> Option<u32> {
        let major = self.lowest()?.major();
        let newer = self.oldest_from(Version::new(&[major + 1]));
        newer.is_none().then_some(major)
    }

    /// The range in the grammar of Python's packages, for pip.
    pub fn to_pip(&self) -> String {
        let mut texts = Vec::new();
        for comparator in &self.0 {
            let version = comparator.version;
            match comparator.sign {
                // NVIDIA's wheels have a fourth number, which few people write.
                "!=" if version.numbers().len() < 4 => texts.push(format!("!={version}.*")),
                "!=" => texts.push(format!("!={version}")),
                _ => {
                    if comparator.start > Version::default() {
                        texts.push(format!(">={}", comparator.start));
                    }
                    texts.extend(comparator.end.map(|end| format!("<{end}")));
                }
            }
        }
        texts.join(",")
    }
}

impl Comparator {
    fn new(sign: &'static str, version: Version) -> Comparator {
        let numbers = version.numbers();
        let count = numbers.len();
        let (start, end) = match sign {
            ">=" => (version, None),
            ">" => (after(numbers), None),
            "<" => (Version::default(), Some(version)),
            "<=" => (Version::default(), Some(after(numbers))),
            // As in PEP 440.
            "~=" => (version, Some(after(&numbers[..count - 1]))),
            "~" => (version, Some(after(&numbers[..count.min(2)]))),
            "=" | "==" | "!=" => (version, Some(after(numbers))),
            _ => {
                // Before 1.0 every minor is incompatible.
                let first = numbers.iter().position(|number| *number != 0);
                let count = first.map_or(count, |first| first + 1);
                (version, Some(after(&numbers[..count])))
            }
        };
        Comparator {
            sign,
            version,
            start,
            end,
        }
    }

    /// As `covers`, but an equal version may have fewer numbers: the contents of a file tell fewer than the name of its wheel.
    fn allows(&self, version: &Version) -> bool {
        match self.sign {
            "=" | "==" => version.agrees_with(&self.version),
            "!=" => !version.agrees_with(&self.version),
            _ => self.covers(version),
        }
    }

    fn covers(&self, version: &Version) -> bool {
        let is_between = *version >= self.start && self.end.is_none_or(|end| *version < end);
        is_between != (self.sign == "!=")
    }
}

/// The version after all those that begin with these numbers.
fn after(numbers: &[u32]) -> Version {
    let mut next = numbers.to_vec();
    if let Some(last) = next.last_mut() {
        *last += 1;
    }
    Version::new(&next)
}

impl FromStr for Comparator {
    type Err = ();

    fn from_str(text: &str) -> Result<Comparator, ()> {
        let text = text.trim();
        let (sign, rest) = SIGNS
            .into_iter()
            .find_map(|sign| Some((sign, text.strip_prefix(sign)?.trim())))
            .ok_or(())?;
        let rest = rest.strip_prefix('v').unwrap_or(rest);
        let (sign, version) = match (sign, rest.strip_suffix(".*")) {
            // `~=9` keeps no number, so PEP 440 forbids it.
            ("~=", None) if !rest.contains('.') => return Err(()),
            (_, None) => (sign, rest),
            ("!=", Some(version)) => (sign, version),
            ("" | "^" | "=" | "==", Some(version)) => ("=", version),
            _ => return Err(()),
        };
        Ok(Comparator::new(sign, version.parse()?))
    }
}

impl FromStr for Range {
    type Err = ();

    /// Comparators with commas between; `*` allows all; `9.*` is `=9`.
    fn from_str(text: &str) -> Result<Range, ()> {
        if text.trim() == "*" {
            return Ok(Range::any());
        }
        if text.split(',').nth(COMPARATORS).is_some() {
            return Err(());
        }
        text.split(',')
            .map(str::parse)
            .collect::<Result<_, ()>>()
            .map(Range)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_any() {
            return f.write_str("*");
        }
        for (index, Comparator { sign, version, .. }) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{sign}{version}")?;
        }
        Ok(())
    }
}

show_as_text!("a range of versions": Range);

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
        ("==9.1.0.70", "9.1.0.70 9.1.0", "9.1.0.71 9.1.1.70 9.1.1"),
        ("9.1.*", "9.1.0 9.1.1.17", "9.10 9.2"),
        ("!=9.10.0", "9.10.1 9.9", "9.10.0 9.10.0.56"),
        ("!=9.10.0.56", "9.10.0.57 9.10.1", "9.10.0.56 9.10.0"),
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
            for (text, is_allowed) in [(allowed, true), (denied, false)] {
                for version in text.split_whitespace() {
                    let allows = parsed.allows(&version.parse().unwrap());
                    assert_eq!(allows, is_allowed, "{range} {version}");
                }
            }
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

    fn range(text: &str) -> Range {
        text.parse().unwrap()
    }

    #[test]
    fn a_range_reports_its_ends() {
        assert!(range(">=12.4,<13").allows_some(12) && !range(">=12.4,<13").allows_some(13));
        assert!(range(">12.1,<=12.4").allows_some(12) && !range("<12").allows_some(12));
        let least: Version = "9.8".parse().unwrap();
        for (text, is_some) in [
            ("<9.10", true),
            ("<9.5", false),
            (">=10", true),
            ("!=9.8", true),
            ("=9.1", false),
            ("9.1", true),
        ] {
            assert_eq!(range(text).oldest_from(least).is_some(), is_some, "{text}");
        }
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
            ("=9.1.0", ">=9.1.0,<9.1.1"),
            ("!=9.1.0,<10", "!=9.1.0.*,<10"),
            ("!=9.1.0.70", "!=9.1.0.70"),
            (">=0", ""),
            ("<=9.1", "<9.2"),
            (">9.1", ">=9.2"),
            (">9.1.0.70", ">=9.1.0.71"),
        ] {
            assert_eq!(range(text).to_pip(), pip);
        }
    }
}
