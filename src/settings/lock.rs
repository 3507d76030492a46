//! What `.cudarun.lock` holds: the set that a program has really mapped. Reading and writing it, and what it then
//! asks for; nothing in it is of one machine's directories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Fault, Place, Wrong, read};
use crate::program::{Condition, Demand, Requirement, Want};
use crate::range::Range;
use crate::version::{ComputeCapability, DriverVersion, Version};

/// There are not that many families, and few of them are mapped twice.
const FAMILIES: usize = 200;
/// Changes when the meaning of a lock changes.
const FORMAT: i64 = 1;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    /// The oldest driver that runs it.
    pub driver: Option<DriverVersion>,
    pub gpus: BTreeSet<ComputeCapability>,
    pub families: Vec<Family>,
}

/// A family as it was mapped.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Family {
    pub name: String,
    pub version: Option<Version>,
    pub cuda: Option<u32>,
    /// By SONAME.
    pub build_ids: BTreeMap<String, String>,
    /// Where it stands in the file.
    pub line: usize,
}

impl Lock {
    /// The text of the file: the same for the same set.
    pub fn text(&self) -> String {
        let mut text = format!(
            "# Written by `cudarun record`. `cudarun --locked` takes this set and no other.\nformat = {FORMAT}\n"
        );
        if let Some(driver) = self.driver {
            text.push_str(&format!("driver = \">={driver}\"\n"));
        }
        if !self.gpus.is_empty() {
            let gpus: Vec<String> = self.gpus.iter().map(|gpu| format!("\"{gpu}\"")).collect();
            text.push_str(&format!("gpus = [{}]\n", gpus.join(", ")));
        }
        let mut families: Vec<&Family> = self.families.iter().collect();
        families.sort_by(|a, b| (&a.name, a.version, &a.build_ids).cmp(&(&b.name, b.version, &b.build_ids)));
        for family in families {
            text.push_str(&format!("\n[[family]]\nname = {}\n", quoted(&family.name)));
            if let Some(version) = family.version {
                text.push_str(&format!("version = \"{version}\"\n"));
            }
            if let Some(cuda) = family.cuda {
                text.push_str(&format!("cuda = {cuda}\n"));
            }
            if !family.build_ids.is_empty() {
                text.push_str("\n[family.build-ids]\n");
                for (soname, id) in &family.build_ids {
                    text.push_str(&format!("{} = {}\n", quoted(soname), quoted(id)));
                }
            }
        }
        text
    }

    /// What it asks for, with the line of each in `path`. Where a family was mapped twice, as two SONAMEs may be, its
    /// files alone can tell them apart.
    pub fn asks(&self, path: &Path) -> (Vec<Requirement>, Vec<Condition>) {
        let mut requirements = Vec::new();
        for family in &self.families {
            let by = Place::file(path, family.line).asker();
            let is_alone = self.families.iter().filter(|other| other.name == family.name).count() == 1;
            if let Some(version) = family.version.filter(|_| is_alone) {
                let want = Want::Within(Range::exactly(version));
                requirements.push(Requirement::wished(&family.name, want, by.clone()));
            }
            if !family.build_ids.is_empty() {
                let want = Want::BuildIds(family.build_ids.clone());
                requirements.push(Requirement::wished(&family.name, want, by));
            }
        }
        let by = Place::file(path, 1).asker();
        let condition =
            |demand, only_with_gpu| Condition { demand, by: by.clone(), only_with_gpu, is_advice: false };
        let driver = self.driver.map(|driver| Demand::Driver(Range::at_least(driver.version())));
        let (first, last) = (self.gpus.first(), self.gpus.last());
        let gpus = match (first.map(ComputeCapability::version), last.map(ComputeCapability::version)) {
            (Some(first), Some(last)) if first == last => Some(Range::exactly(first)),
            // Of different ones, each that lies between has what was recorded for those around it.
            (Some(first), Some(last)) => format!(">={first},<={last}").parse().ok(),
            _ => None,
        };
        let gpus = gpus.map(Demand::Gpu);
        let of_machine = driver.into_iter().chain(gpus).map(|demand| condition(demand, true));
        let of_set = self.cuda().map(|demand| condition(demand, false));
        (requirements, of_machine.chain(of_set).collect())
    }

    /// The one CUDA that all of it is of: a version of some families, and no build-id, is the same for more than one.
    fn cuda(&self) -> Option<Demand> {
        let majors: BTreeSet<u32> = self.families.iter().filter_map(|family| family.cuda).collect();
        let only = majors.first().filter(|_| majors.len() == 1)?;
        Some(Demand::Cuda(Range::exactly(Version::new(&[*only]))))
    }
}

/// As a string of TOML.
fn quoted(text: &str) -> String {
    let escaped = |c: char| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    format!("\"{}\"", text.chars().map(escaped).collect::<String>())
}

/// Reads the lock that these bytes are.
pub fn lock(bytes: &[u8], path: &Path) -> Result<Lock, Fault> {
    let (text, table) = read::parse(bytes, path)?;
    let reader = Reader { text, path };
    reader.lock(&table)
}

type Item<'i> = Spanned<DeValue<'i>>;

struct Reader<'r> {
    text: &'r str,
    path: &'r Path,
}

impl Reader<'_> {
    fn line(&self, value: &Item<'_>) -> usize {
        read::line(self.text.as_bytes(), value.span().start)
    }

    fn bad(&self, value: &Item<'_>, what: &'static str) -> Fault {
        Fault { place: Place::file(self.path, self.line(value)), wrong: Wrong::BadLock { what } }
    }

    /// Everything is known and of its type: a lock that is only half understood would hold only half of it.
    fn lock(&self, table: &DeTable<'_>) -> Result<Lock, Fault> {
        let mut lock = Lock::default();
        let mut format = None;
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "format" => format = number(value).filter(|it| *it == FORMAT),
                "driver" => {
                    let text = value.get_ref().as_str().and_then(|text| text.strip_prefix(">="));
                    let driver = text.and_then(|text| text.parse().ok());
                    lock.driver = Some(driver.ok_or_else(|| self.bad(value, "`driver` is no floor"))?);
                }
                "gpus" => {
                    let bad = || self.bad(value, "`gpus` is no list of compute capabilities");
                    for gpu in value.get_ref().as_array().ok_or_else(bad)? {
                        let parsed = gpu.get_ref().as_str().and_then(|text| text.parse().ok());
                        lock.gpus.insert(parsed.ok_or_else(bad)?);
                    }
                }
                "family" => {
                    let bad = || self.bad(value, "`family` is no list of families");
                    let families = value.get_ref().as_array().ok_or_else(bad)?;
                    if families.len() > FAMILIES {
                        return Err(self.bad(value, "there are too many families"));
                    }
                    for family in families {
                        lock.families.push(self.family(family)?);
                    }
                }
                _ => return Err(self.bad(value, "there is a key that this cudarun does not know")),
            }
        }
        let what = match lock.families.len() {
            _ if format.is_none() => "it is of another format",
            // `record` writes none of the kind, and all that runs would obey it.
            0 => "there is no family in it",
            _ => return Ok(lock),
        };
        Err(Fault { place: Place::file(self.path, 1), wrong: Wrong::BadLock { what } })
    }

    fn family(&self, value: &Item<'_>) -> Result<Family, Fault> {
        let table = value.get_ref().as_table().ok_or_else(|| self.bad(value, "a family is no table"))?;
        let mut family = Family { line: self.line(value), ..Family::default() };
        for (key, value) in table {
            let bad = || self.bad(value, "a family says something that is not understood");
            let text = value.get_ref().as_str();
            match key.get_ref().as_ref() {
                "name" => {
                    text.ok_or_else(bad)?.clone_into(&mut family.name);
                    family.line = self.line(value);
                }
                "version" => family.version = Some(text.and_then(|it| it.parse().ok()).ok_or_else(bad)?),
                "cuda" => {
                    let cuda = number(value).and_then(|number| u32::try_from(number).ok());
                    family.cuda = Some(cuda.ok_or_else(bad)?);
                }
                "build-ids" => {
                    for (soname, id) in value.get_ref().as_table().ok_or_else(bad)? {
                        let id = id.get_ref().as_str().ok_or_else(bad)?;
                        family.build_ids.insert(soname.get_ref().to_string(), id.to_owned());
                    }
                }
                _ => return Err(bad()),
            }
        }
        if family.name.is_empty() {
            return Err(self.bad(value, "a family has no name"));
        }
        Ok(family)
    }
}

fn number(value: &Item<'_>) -> Option<i64> {
    let number = value.get_ref().as_integer()?;
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Lock {
        let family = |name: &str, version: &str| Family {
            name: name.to_owned(),
            version: version.parse().ok(),
            cuda: Some(12),
            build_ids: [(format!("lib{name}.so.9"), "0af1".to_owned())].into(),
            line: 0,
        };
        Lock {
            driver: "525.60.13".parse().ok(),
            gpus: ["9.0".parse().unwrap(), "8.0".parse().unwrap()].into(),
            families: vec![family("nccl", "2.21.5"), family("cudnn", "9.10.2.21")],
        }
    }

    #[test]
    fn a_lock_survives_writing_and_reading() {
        let text = example().text();
        let mut read = lock(text.as_bytes(), Path::new("/p/.cudarun.lock")).unwrap();
        assert_eq!(read.text(), text);
        let lines: Vec<&str> = text.lines().collect();
        for family in &mut read.families {
            assert!(lines[family.line - 1].contains(&family.name), "{text}");
            family.line = 0;
        }
        read.families.reverse();
        assert_eq!(read, example());
        let mut reversed = example();
        reversed.families.reverse();
        assert_eq!(reversed.text(), text, "the order of what was seen does not show");
    }

    #[test]
    fn a_lock_requires_the_recorded_versions() {
        let text = example().text();
        let path = Path::new("/p/.cudarun.lock");
        let (requirements, conditions) = lock(text.as_bytes(), path).unwrap().asks(path);
        assert_eq!((requirements.len(), conditions.len()), (4, 3));
        assert!(conditions.iter().any(|it| it.demand == Demand::Cuda("=12".parse().unwrap())));
        assert!(requirements.iter().all(|requirement| requirement.by.name.starts_with(".cudarun.lock:")));
        let mut twice = example();
        twice.families[0].name = "cudnn".to_owned();
        let wants = twice.asks(path).0;
        assert!(wants.iter().all(|requirement| matches!(requirement.want, Want::BuildIds(_))));
    }

    #[test]
    fn a_damaged_lock_is_none() {
        let whole = example().text();
        for (from, to) in [
            ("format = 1", "format = 2"),
            ("format = 1", ""),
            ("\">=525.60.13\"", "525"),
            ("\"8.0\"", "8.0"),
            ("name = \"cudnn\"", ""),
            ("cuda = 12", "cuda = \"12\""),
            ("cuda = 12", "more = 12"),
            ("version = \"2.21.5\"", "version = \"new\""),
            ("[family.build-ids]", "[more]"),
            ("[[family]]", "[[family]]\nname = \"nccl\"\n".repeat(FAMILIES).as_str()),
        ] {
            let text = whole.replacen(from, to, 1);
            assert_ne!(text, whole, "{from}");
            assert!(lock(text.as_bytes(), Path::new("/x")).is_err(), "{from} → {to}");
        }
        assert!(lock(b"format = 1\n", Path::new("/x")).is_err(), "nothing is recorded");
    }
}
