//! Options and variables as settings. Values are only parsed here; no path is looked up.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::keys::{self, ANY, KEYS, KeyRow, ValueKind};
use super::setting::{
    FaultKind, Layers, Setting, SettingFault, SettingKey, SettingLayer, SettingPlace, Value,
};
use crate::cli::{Common, LibraryOptions, SettingOption};
use crate::environment::{Diff, Environment};

/// Returns the settings of the command line.
pub fn options(
    common: &Common,
    library_options: &LibraryOptions,
) -> Result<SettingLayer, SettingFault> {
    let mut layer = SettingLayer::new();
    for SettingOption { name, values } in library_options.given().into_iter().chain(common.given())
    {
        if !values.is_empty() {
            let values: Vec<&OsStr> = values.iter().map(OsString::as_os_str).collect();
            let row = keys::row_of_option(name);
            add(row, &SettingPlace::Option(row.option), &values, &mut layer)?;
        }
    }
    Ok(layer)
}

/// Returns the settings of the variables `CUDARUN_*`, and the faults of those that cannot be read. An empty variable counts as
/// unset.
pub fn variables(env: &Environment) -> (SettingLayer, Vec<SettingFault>) {
    let (mut layer, mut faults) = (SettingLayer::new(), Vec::new());
    for row in &KEYS {
        let Some(text) = env.non_empty(row.variable) else {
            continue;
        };
        let items = match row.takes {
            ValueKind::Words(_) => parts(text, b","),
            ValueKind::Directories => parts(text, b":"),
            _ => vec![text],
        };
        let place = SettingPlace::Variable(row.variable.to_owned());
        faults.extend(add(row, &place, &items, &mut layer).err());
    }
    (layer, faults)
}

/// Returns the parts between separators, without empty ones.
fn parts<'t>(text: &'t OsStr, separators: &[u8]) -> Vec<&'t OsStr> {
    let parts = text.as_bytes().split(|byte| separators.contains(byte));
    let parts = parts
        .map(<[u8]>::trim_ascii)
        .filter(|part| !part.is_empty());
    parts.map(OsStr::from_bytes).collect()
}

/// Adds the setting of one option or variable: for families, one of each `cudnn>=9.1,<10; driver>=550`.
fn add(
    row: &KeyRow,
    place: &SettingPlace,
    items: &[&OsStr],
    layer: &mut SettingLayer,
) -> Result<(), SettingFault> {
    let mut push = |of: String, value: Value| {
        layer.push(Setting {
            key: row.key,
            of,
            value,
            from: place.clone(),
            // A variable is set for a shell.
            is_of_start: matches!(place, SettingPlace::Option(_)),
        });
    };
    if row.name != ANY {
        push(
            String::new(),
            row.read("", "", items)
                .map_err(|wrong| place.fault(wrong))?,
        );
        return Ok(());
    }
    for item in items.iter().flat_map(|item| parts(item, b";\n")) {
        let (name, which) = named(row.key, item).map_err(|wrong| place.fault(wrong))?;
        let of = row.about(&name).ok_or_else(|| {
            let known = row.names().into_iter().map(str::to_owned).collect();
            place.fault(FaultKind::unknown("", &name, "library family", known))
        })?;
        let value = row.read("", &of, &[which]).map_err(|mut wrong| {
            if let FaultKind::Invalid { text, .. } = &mut wrong {
                *text = item.to_string_lossy().into();
            }
            place.fault(wrong)
        })?;
        push(of, value);
    }
    Ok(())
}

/// Returns the family of `cudnn>=9.1`, `cudnn 9.1`, or `cudnn`, and its range; of a pin, such as `cudnn=/opt/cudnn/lib`, its
/// version or directory.
fn named(key: SettingKey, item: &OsStr) -> Result<(String, &OsStr), FaultKind> {
    let bytes = item.as_bytes();
    let (name, which) = if key == SettingKey::Pin {
        let at = memchr::memchr(b'=', bytes).ok_or_else(|| {
            let wants = "a pin such as cudnn=9.10 or cudnn=/opt/cudnn/lib";
            FaultKind::invalid("", &item.to_string_lossy(), wants)
        })?;
        (&bytes[..at], &bytes[at + 1..])
    } else {
        let sign = bytes.iter().position(|byte| b"<>=!~^*".contains(byte));
        let at = sign.or_else(|| bytes.iter().position(u8::is_ascii_whitespace));
        match at {
            // As it is written in a file: `gpu = "*"`.
            Some(at) if &bytes[at..] == b"=*" => (&bytes[..at], &b"*"[..]),
            Some(at) => bytes.split_at(at),
            None => (bytes, &b"*"[..]),
        }
    };
    let name = String::from_utf8_lossy(name).trim().to_owned();
    Ok((name, OsStr::from_bytes(which)))
}

/// Returns the options as variables for the processes below, joined with what the same variables say already. A relative
/// directory is in `cwd`.
pub fn for_the_tree(layers: &Layers, cwd: &Path) -> Diff {
    let mut diff = Diff::default();
    // Flags are about this process alone.
    let rows = KEYS
        .iter()
        .filter(|row| !row.variable.is_empty() && !matches!(row.takes, ValueKind::Flag));
    for row in rows {
        let given: Vec<&Setting> = layers
            .get(row.key)
            .filter(|setting| !setting.is_of_file())
            .collect();
        if given
            .iter()
            .any(|setting| matches!(setting.from, SettingPlace::Option(_)))
        {
            let texts: Vec<Vec<u8>> = given
                .iter()
                .map(|setting| of_variable(setting, cwd))
                .collect();
            let value = Some(OsString::from_vec(texts.join(&b';')));
            diff.0.insert(row.variable.into(), value);
        }
    }
    diff
}

/// A setting as its variable spells it.
fn of_variable(setting: &Setting, cwd: &Path) -> Vec<u8> {
    let value = match &setting.value {
        Value::Directories(directories) => {
            let absolute = directories
                .iter()
                .map(|one| cwd.join(one).into_os_string().into_vec());
            absolute.collect::<Vec<_>>().join(&b':')
        }
        Value::Words(words) => words.join(",").into_bytes(),
        value => value.text().into_bytes(),
    };
    match setting.key {
        SettingKey::Pin => [setting.of.as_bytes(), b"=", &value].concat(),
        SettingKey::Requires => [setting.of.as_bytes(), b" ", &value].concat(),
        _ => value,
    }
}
