//! `.cudarun.lock`: the set that a program has really mapped. Reads and writes it, and turns it into requirements. A lock
//! names no directory of a machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::read;
use super::setting::{FaultKind, SettingFault, SettingPlace};
use crate::range::Range;
use crate::requirements::{
    Demand, LibraryRequirement, MachinePart, MachineRequirement, Requirement, Want,
};
use crate::text::{quoted, show};
use crate::version::{ComputeCapability, Version};

/// More families are refused: there are fewer, and few of them are mapped twice.
const MAX_FAMILIES: usize = 200;
/// The format of locks, raised when their meaning changes.
const FORMAT: i64 = 1;

/// Every lock begins with it.
pub const BEGIN: &str = "# Written by `cudarun record`";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    /// The oldest driver that runs it.
    pub driver: Option<Version>,
    pub gpus: BTreeSet<ComputeCapability>,
    pub families: Vec<LockedFamily>,
}

/// A family as it was mapped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct LockedFamily {
    pub name: String,
    pub version: Option<Version>,
    pub cuda: Option<u32>,
    /// By SONAME.
    pub build_ids: BTreeMap<String, String>,
    /// The sha256 of the wheel that brings it, where that is known.
    pub wheel: Option<String>,
    /// The line in the file, from 1 on.
    #[serde(skip)]
    pub line: usize,
}

impl Lock {
    /// Returns the text of the file: equal for equal sets.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{BEGIN} or `cudarun fleet --lock`. `cudarun --locked` takes this set and no other.\nformat = {FORMAT}\n"
        );
        if let Some(driver) = self.driver {
            text.push_str(&format!("driver = \">={driver}\"\n"));
        }
        if !self.gpus.is_empty() {
            let gpus: Vec<String> = self.gpus.iter().map(|gpu| format!("\"{gpu}\"")).collect();
            text.push_str(&format!("gpus = [{}]\n", gpus.join(", ")));
        }
        let mut families: Vec<&LockedFamily> = self.families.iter().collect();
        families.sort_by(|a, b| {
            (&a.name, a.version, &a.build_ids).cmp(&(&b.name, b.version, &b.build_ids))
        });
        for family in families {
            text.push_str(&format!("\n[[family]]\nname = {}\n", quoted(&family.name)));
            if let Some(version) = family.version {
                text.push_str(&format!("version = \"{version}\"\n"));
            }
            if let Some(cuda) = family.cuda {
                text.push_str(&format!("cuda = {cuda}\n"));
            }
            if let Some(wheel) = &family.wheel {
                text.push_str(&format!("wheel = {}\n", quoted(wheel)));
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

    /// The requirements of the lock, with their lines in `path`. A family that was mapped twice, as two SONAMEs may be, has no
    /// requirement of a version, since only its files tell the two apart.
    pub fn requirements(&self, path: &Path) -> Vec<Requirement> {
        let mut requirements = Vec::new();
        for family in &self.families {
            let by = SettingPlace::file(path, family.line).asker();
            let is_alone = self
                .families
                .iter()
                .filter(|other| other.name == family.name)
                .count()
                == 1;
            if let Some(version) = family.version.filter(|_| is_alone) {
                let want = Want::Within(Range::exactly(version));
                requirements
                    .push(LibraryRequirement::of_person(&family.name, want, by.clone()).into());
            }
            if !family.build_ids.is_empty() {
                let want = Want::BuildIds(family.build_ids.clone());
                requirements.push(LibraryRequirement::of_person(&family.name, want, by).into());
            }
        }
        let by = SettingPlace::file(path, 1).asker();
        let driver = self
            .driver
            .map(|driver| Demand::Driver(Range::at_least(driver)));
        let (first, last) = (self.gpus.first(), self.gpus.last());
        let gpus = match (
            first.map(ComputeCapability::version),
            last.map(ComputeCapability::version),
        ) {
            (Some(first), Some(last)) if first == last => Some(Range::exactly(first)),
            // A GPU between two recorded ones has the code that was recorded for those.
            (Some(first), Some(last)) => format!(">={first},<={last}").parse().ok(),
            _ => None,
        };
        let gpus = gpus.map(Demand::Gpu);
        for demand in driver.into_iter().chain(gpus).chain(self.cuda()) {
            let requirement = MachineRequirement {
                only_with_gpu: matches!(demand.part(), MachinePart::Driver | MachinePart::Gpu),
                ..MachineRequirement::of_person(demand, by.clone())
            };
            requirements.push(requirement.into());
        }
        requirements
    }

    /// Returns the CUDA major, if all families are of one: some versions exist for more than one CUDA.
    fn cuda(&self) -> Option<Demand> {
        let majors: BTreeSet<u32> = self
            .families
            .iter()
            .filter_map(|family| family.cuda)
            .collect();
        let only = majors.first().filter(|_| majors.len() == 1)?;
        Some(Demand::Cuda(Range::exactly(Version::new(&[*only]))))
    }
}

/// Read before the rest, which a lock of another format may spell in another way.
#[derive(Deserialize)]
struct Head {
    format: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LockFile {
    #[serde(rename = "format")]
    _format: i64,
    driver: Option<Spanned<String>>,
    #[serde(default)]
    gpus: BTreeSet<ComputeCapability>,
    #[serde(default)]
    family: Vec<LockRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LockRow {
    name: Spanned<String>,
    version: Option<Version>,
    cuda: Option<u32>,
    wheel: Option<String>,
    #[serde(default)]
    build_ids: BTreeMap<String, String>,
}

/// Parses `bytes`, the content of `path`. Every key must be known, since a lock that is half understood would be obeyed
/// by half.
pub fn lock(bytes: &[u8], path: &Path) -> Result<Lock, SettingFault> {
    let text = read::text(bytes, path)?;
    let line = |at: usize| read::line(text.as_bytes(), at);
    let bad = |at, why: &str| {
        SettingPlace::file(path, line(at)).fault(FaultKind::BadLock(why.to_owned()))
    };
    if toml::from_str(text).is_ok_and(|head: Head| head.format != FORMAT) {
        return Err(bad(0, "it has another format"));
    }
    let file: LockFile = toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        bad(at, &show(&read::first_line(error.message())))
    })?;
    // `record` writes no lock without a family: every program would obey it.
    if file.family.is_empty() {
        return Err(bad(0, "it has no family"));
    }
    if file.family.len() > MAX_FAMILIES {
        return Err(bad(0, "it has too many families"));
    }
    let floor = |text: &str| text.strip_prefix(">=")?.parse().ok();
    let driver = file.driver.map(|text| {
        floor(text.get_ref())
            .ok_or_else(|| bad(text.span().start, "`driver` must be `>=` and a version"))
    });
    let family = |row: LockRow| LockedFamily {
        line: line(row.name.span().start),
        name: row.name.into_inner(),
        version: row.version,
        cuda: row.cuda,
        wheel: row.wheel,
        build_ids: row.build_ids,
    };
    let families = file.family.into_iter().map(family).collect();
    Ok(Lock {
        driver: driver.transpose()?,
        gpus: file.gpus,
        families,
    })
}
