//! Versions and ranges in a file of settings.

use semver::{Comparator, VersionReq};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::model::{ExpectedValue, FaultKind, SettingFault};
use super::read::{ARCHITECTURES, Reader};
use crate::range::Range;

impl Reader<'_> {
    /// Fails for a file for other versions of cudarun. This comes first, since this version may misread the rest.
    pub(super) fn needs_this_cudarun(&self, table: &DeTable<'_>) -> Result<(), SettingFault> {
        for (key, value) in table {
            let key = key.get_ref().as_ref();
            let (text, needed) = match key {
                "cudarun" => {
                    let text = self.string(key, value)?;
                    (text, VersionReq::parse(text))
                }
                "min-version" => {
                    let text = self.string(key, value)?;
                    let least = Comparator::parse(&format!(">={text}"));
                    (
                        text,
                        least.map(|least| VersionReq {
                            comparators: vec![least],
                        }),
                    )
                }
                _ => continue,
            };
            let own = &self.words.own;
            match needed {
                Ok(needed) if needed.matches(own) => {}
                Ok(needed) => {
                    return self.fault(
                        value,
                        FaultKind::OtherCudarun {
                            needed,
                            own: own.clone(),
                        },
                    );
                }
                Err(_) if key == "cudarun" => {
                    return self.bad(key, ExpectedValue::CudarunRange, text, value);
                }
                Err(_) => return self.bad(key, ExpectedValue::CudarunVersion, text, value),
            }
        }
        Ok(())
    }

    pub(super) fn range(
        &self,
        full: &str,
        family: &str,
        text: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Range, SettingFault> {
        match text.parse::<Range>() {
            Ok(range) if range.is_empty() => self.fault(
                value,
                FaultKind::EmptyRange {
                    key: full.to_owned(),
                    text: text.to_owned(),
                },
            ),
            // `90` is the name of an architecture.
            Ok(range)
                if family != "gpu"
                    || range.lowest().is_none_or(|low| low.major() < ARCHITECTURES) =>
            {
                Ok(range)
            }
            _ if family == "gpu" => self.bad(full, ExpectedValue::Capability, text, value),
            _ => self.bad(full, ExpectedValue::Range, text, value),
        }
    }
}
