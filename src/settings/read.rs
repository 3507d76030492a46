//! Parses the bytes of one file into settings, each with its line. Any bytes give a result or a fault; no path is looked
//! up.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use semver::VersionReq;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::files;
use super::keys::{self, KEYS, KeyRow, TOP, ValueKind};
use super::setting::{
    Excerpt, FaultKind, Remark, Setting, SettingFault, SettingLayer, SettingPlace, Value,
};

/// The settings of a file.
#[derive(Clone, Debug, Default)]
pub struct SettingsFile {
    pub layer: SettingLayer,
    /// Settings for programs of these names.
    pub programs: Vec<(String, SettingLayer)>,
    pub remarks: Vec<Remark>,
}

/// More remarks are dropped, since the file is probably not one of settings.
const MAX_REMARKS: usize = 20;

type KeyValue<'t, 'i> = (&'t Spanned<Cow<'i, str>>, &'t Spanned<DeValue<'i>>);

impl SettingsFile {
    /// Returns the settings for all programs and for single ones.
    pub fn all(&self) -> impl Iterator<Item = &Setting> {
        let of_programs = self.programs.iter().flat_map(|(_, layer)| layer);
        self.layer.iter().chain(of_programs)
    }
}

/// Parses `bytes`, the content of `path`.
pub fn file(bytes: &[u8], path: &Path) -> Result<SettingsFile, SettingFault> {
    let text = text(bytes, path)?;
    let line_ends = memchr::memchr_iter(b'\n', text.as_bytes()).collect();
    let mut reader = Reader {
        text,
        line_ends,
        path,
        file: SettingsFile::default(),
    };
    let table = DeTable::parse(text).map_err(|error| {
        let what = first_line(error.message());
        let mut fault = reader.place(0).fault(FaultKind::NotToml { what });
        if let Some(span) = error.span() {
            (fault.place, fault.excerpt) = (reader.place(span.start), excerpt(text, span.start));
        }
        fault
    })?;
    let table = table.into_inner();
    reader.needs_this_cudarun(&table)?;
    reader.file.layer = reader.settings(&table, "")?;
    Ok(reader.file)
}

/// Returns the bytes as text, without a byte order mark.
pub(super) fn text<'i>(bytes: &'i [u8], path: &Path) -> Result<&'i str, SettingFault> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        SettingPlace::file(path, line(bytes, error.valid_up_to())).fault(FaultKind::NotText)
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

pub(super) fn first_line(message: &str) -> String {
    message
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}

/// Returns the line of the byte at this offset, from 1 on.
pub(super) fn line(bytes: &[u8], at: usize) -> usize {
    1 + memchr::memchr_iter(b'\n', &bytes[..at.min(bytes.len())]).count()
}

/// True if a word of the text is `env`.
fn names_env(text: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == "env")
}

/// Returns the line of a fault; none where it may contain the value of a variable.
fn excerpt(text: &str, at: usize) -> Option<Box<Excerpt>> {
    let excerpt = Excerpt::at(text, at)?;
    let table = text[..at].rfind("\n[").unwrap_or(0);
    (!names_env(&text[table..at]) && !names_env(&excerpt.text)).then_some(excerpt)
}

/// Returns the entries in the order of the file, so that the first fault in the file is reported.
fn entries<'t, 'i>(table: &'t DeTable<'i>) -> Vec<KeyValue<'t, 'i>> {
    let mut entries: Vec<KeyValue<'t, 'i>> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

struct Reader<'r> {
    text: &'r str,
    line_ends: Vec<usize>,
    path: &'r Path,
    file: SettingsFile,
}

impl Reader<'_> {
    fn place(&self, at: usize) -> SettingPlace {
        SettingPlace::file(
            self.path,
            1 + self.line_ends.partition_point(|end| *end < at),
        )
    }

    fn fault<T>(&self, value: &Spanned<DeValue<'_>>, wrong: FaultKind) -> Result<T, SettingFault> {
        let at = value.span().start;
        let mut fault = self.place(at).fault(wrong);
        // The value of a variable may be secret.
        match &mut fault.wrong {
            FaultKind::Invalid {
                key, text, wants, ..
            } if **key == *"env"
                || key.starts_with("env.")
                || *wants == "a table" && names_env(text) =>
            {
                *text = std::mem::take(key);
            }
            _ => fault.excerpt = excerpt(self.text, at),
        }
        Err(fault)
    }

    /// The fault of a value of another type.
    fn is_not<T>(
        &self,
        wants: &'static str,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<T, SettingFault> {
        let text = self.text.get(value.span()).unwrap_or_default();
        self.fault(value, FaultKind::invalid(key, text, wants))
    }

    fn is_no_string<T>(
        &self,
        wants: &'static str,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<T, SettingFault> {
        let mut fault = self.is_not(wants, key, value);
        if let Err(SettingFault {
            wrong: FaultKind::Invalid {
                text, lacks_quotes, ..
            },
            ..
        }) = &mut fault
        {
            *lacks_quotes = key != "requires.gpu" && text.parse::<f64>().is_ok();
        }
        fault
    }

    /// Fails for a file for other versions of cudarun. This comes first, since this version may misread the rest.
    fn needs_this_cudarun(&self, table: &DeTable<'_>) -> Result<(), SettingFault> {
        let own = env!("CARGO_PKG_VERSION")
            .parse()
            .expect("Cargo reads it as well");
        for (key, value) in table {
            let key = key.get_ref().as_ref();
            let (least, wants) = match key {
                "cudarun" => ("", "a range of cudarun versions such as \">=0.2\""),
                "min-version" => (">=", "a version of cudarun such as \"0.2\""),
                _ => continue,
            };
            let text = self.string(key, value)?;
            let is_version = text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.');
            match VersionReq::parse(&format!("{least}{text}")) {
                Ok(needed) if least.is_empty() || is_version => {
                    if !needed.matches(&own) {
                        return self.fault(value, FaultKind::OtherCudarun { needed });
                    }
                }
                _ => return self.fault(value, FaultKind::invalid(key, text, wants)),
            }
        }
        Ok(())
    }

    /// Reads the top of a file, or the table of a program.
    fn settings(
        &mut self,
        table: &DeTable<'_>,
        before: &str,
    ) -> Result<SettingLayer, SettingFault> {
        let mut layer = SettingLayer::new();
        for entry in entries(table) {
            let (key, value) = entry;
            match key.get_ref().as_ref() {
                "program" if before.is_empty() => self.programs(value)?,
                name if before.is_empty() && TOP.contains(&name) => {}
                name if !name.is_empty() && KEYS.iter().any(|row| row.table == name) => {
                    for entry in entries(self.table(name, value)?) {
                        self.setting(name, &format!("{name}."), entry, &mut layer)?;
                    }
                }
                _ => self.setting("", before, entry, &mut layer)?,
            }
        }
        Ok(layer)
    }

    fn programs(&mut self, value: &Spanned<DeValue<'_>>) -> Result<(), SettingFault> {
        for (name, value) in entries(self.table("program", value)?) {
            let name = name.get_ref().to_string();
            let mut layer =
                self.settings(self.table(&format!("program.{name}"), value)?, "program.")?;
            for setting in &mut layer {
                setting.is_of_start = true;
            }
            self.file.programs.push((name, layer));
        }
        Ok(())
    }

    /// Adds a setting, or a remark about its key.
    fn setting(
        &mut self,
        table: &str,
        before: &str,
        (key, value): KeyValue<'_, '_>,
        layer: &mut SettingLayer,
    ) -> Result<(), SettingFault> {
        let name = key.get_ref().as_ref();
        let full = if table.is_empty() {
            name.to_owned()
        } else {
            format!("{table}.{name}")
        };
        if full == "search.roots" && self.path == Path::new(files::ALL_USERS) {
            // The inventory reads it, for every list and every start.
            return self.strings(&full, value).map(|_| ());
        }
        if let Some((row, of)) = keys::find(table, name) {
            let found = self.value(row, &of, &full, value)?;
            let from = self.place(value.span().start);
            layer.push(Setting {
                key: row.key,
                of,
                value: found,
                from,
                is_of_start: false,
            });
        } else if self.file.remarks.len() < MAX_REMARKS {
            let mut known: Vec<&str> = keys::names(table).collect();
            if table.is_empty() {
                known.extend(
                    KEYS.iter()
                        .map(|row| row.table)
                        .filter(|table| !table.is_empty()),
                );
                known.extend(TOP.iter().filter(|_| before.is_empty()));
            }
            self.file.remarks.push(Remark {
                place: self.place(key.span().start),
                key: format!("{before}{name}"),
                known: known.iter().map(|name| format!("{before}{name}")).collect(),
                belongs: keys::table_of(name).filter(|own| *own != table && before != "program."),
            });
        }
        Ok(())
    }

    fn value(
        &self,
        row: &KeyRow,
        of: &str,
        full: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Value, SettingFault> {
        let texts = match (row.takes, value.get_ref()) {
            (ValueKind::Flag, DeValue::Boolean(flag)) => return Ok(Value::Flag(*flag)),
            (ValueKind::Flag, _) => return self.is_not("true or false", full, value),
            (ValueKind::Variable, DeValue::Boolean(false)) => Vec::new(),
            (ValueKind::Variable, DeValue::String(text)) => vec![text.as_ref()],
            (ValueKind::Variable, _) => {
                let wants = "a string, or false to unset the variable";
                return self.is_no_string(wants, full, value);
            }
            (ValueKind::Words(_) | ValueKind::Directories, _) => self.strings(full, value)?,
            _ => vec![self.string(full, value)?],
        };
        let texts: Vec<&OsStr> = texts.into_iter().map(OsStr::new).collect();
        match row.read(full, of, &texts) {
            // A relative directory starts at the directory of the file.
            Ok(Value::Directories(directories)) => {
                let base = self.path.parent().unwrap_or(Path::new("/"));
                Ok(Value::Directories(
                    directories.iter().map(|one| base.join(one)).collect(),
                ))
            }
            Ok(value) => Ok(value),
            Err(wrong) => self.fault(value, wrong),
        }
    }

    fn table<'v, 'i>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'i>>,
    ) -> Result<&'v DeTable<'i>, SettingFault> {
        value
            .get_ref()
            .as_table()
            .map_or_else(|| self.is_not("a table", key, value), Ok)
    }

    fn string<'v>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'_>>,
    ) -> Result<&'v str, SettingFault> {
        value
            .get_ref()
            .as_str()
            .map_or_else(|| self.is_no_string("a string", key, value), Ok)
    }

    fn strings<'v>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'_>>,
    ) -> Result<Vec<&'v str>, SettingFault> {
        let Some(list) = value.get_ref().as_array() else {
            return self.is_not("a list of strings", key, value);
        };
        list.iter().map(|item| self.string(key, item)).collect()
    }
}
