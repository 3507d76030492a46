//! What `.cudarun.lock` holds: the set that a program has really mapped. Reading and writing it, and what it then
//! asks for; nothing in it is of one machine's directories.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::{BadLock, Fault, Place, Wrong, read};
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: i64,
    driver: Option<Spanned<String>>,
    #[serde(default)]
    gpus: BTreeSet<ComputeCapability>,
    #[serde(default)]
    family: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Row {
    name: Spanned<String>,
    version: Option<Version>,
    cuda: Option<u32>,
    #[serde(default)]
    build_ids: BTreeMap<String, String>,
}

/// Reads the lock that these bytes are. Every key must be known: a lock that is only half understood would hold only
/// half of it.
pub fn lock(bytes: &[u8], path: &Path) -> Result<Lock, Fault> {
    let text = read::text(bytes, path)?;
    let line = |at: usize| read::line(text.as_bytes(), at);
    let bad = |at, why| Fault { place: Place::file(path, line(at)), wrong: Wrong::BadLock(why) };
    let file: File = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        bad(at, BadLock::Content { message: read::first_line(error.message()) })
    })?;
    if file.format != FORMAT {
        return Err(bad(0, BadLock::OtherFormat));
    }
    // `record` writes none without a family, and every program would obey it.
    if file.family.is_empty() {
        return Err(bad(0, BadLock::NoFamily));
    }
    if file.family.len() > FAMILIES {
        return Err(bad(0, BadLock::TooManyFamilies));
    }
    let floor = |text: &str| text.strip_prefix(">=")?.parse().ok();
    let driver = file
        .driver
        .map(|text| floor(text.get_ref()).ok_or_else(|| bad(text.span().start, BadLock::DriverIsNoFloor)));
    let family = |row: Row| Family {
        line: line(row.name.span().start),
        name: row.name.into_inner(),
        version: row.version,
        cuda: row.cuda,
        build_ids: row.build_ids,
    };
    let families = file.family.into_iter().map(family).collect();
    Ok(Lock { driver: driver.transpose()?, gpus: file.gpus, families })
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
        assert_eq!(requirements.len(), 4, "a version and the build-ids of each of two families");
        assert_eq!(conditions.len(), 3, "the driver, the GPUs and the CUDA");
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
