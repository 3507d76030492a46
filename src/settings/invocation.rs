//! Options and variables as settings. Values are only parsed here; no path is looked up.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::model::{
    ExpectedValue, FaultKind, Key, Layer, Layers, OF_MACHINE, Setting, SettingFault, SettingPlace,
    Value, Vocabulary, word,
};
use crate::cli::{Common, Wishes};
use crate::environment::{Change, Diff, Environment};
use crate::range::Range;
use crate::variables;

/// Returns the settings of the command line.
pub fn options(
    common: &Common,
    wishes: &Wishes,
    words: &Vocabulary,
) -> Result<Layer, SettingFault> {
    let words_of = |list: &[String]| (!list.is_empty()).then(|| Value::Words(list.to_vec()));
    let also = (!common.also.is_empty()).then(|| Value::Directories(common.also.clone()));
    let rows = [
        (Key::Uses, words_of(&wishes.uses), "--uses"),
        (Key::PinMode, wishes.pin_mode.map(Value::Mode), "--pin-mode"),
        (Key::SearchAlso, also, "--also"),
        (Key::SearchWithout, words_of(&common.without), "--without"),
        (
            Key::Locked,
            wishes.locked.then_some(Value::Flag(true)),
            "--locked",
        ),
        (
            Key::Follow,
            wishes.no_follow.then_some(Value::Flag(false)),
            "--no-follow",
        ),
    ];
    let given = |(key, value, option)| Some(setting(key, value?, &SettingPlace::Option(option)));
    let mut layer: Layer = rows.into_iter().filter_map(given).collect();
    for text in &wishes.require {
        requirements(text, &SettingPlace::Option("--require"), words, &mut layer)?;
    }
    for word in &wishes.pin {
        pinned(word, &SettingPlace::Option("--pin"), words, &mut layer)?;
    }
    Ok(layer)
}

/// Returns the settings of the variables that can be read, and the faults of the others.
pub fn good_variables(env: &Environment, words: &Vocabulary) -> (Layer, Vec<SettingFault>) {
    let (mut layer, mut faults) = (Layer::new(), Vec::new());
    for variable in env.iter() {
        match variables(&[variable].into_iter().collect(), words) {
            Ok(settings) => layer.extend(settings),
            Err(fault) => faults.push(fault),
        }
    }
    (layer, faults)
}

/// Returns the settings of the variables `CUDARUN_*`. An empty variable counts as unset.
pub fn variables(env: &Environment, words: &Vocabulary) -> Result<Layer, SettingFault> {
    let mut layer = Layer::new();
    let place = |name: &str| SettingPlace::Variable(name.to_owned());
    let text = |name: &str| {
        env.non_empty(name)
            .map(|value| value.to_string_lossy().into_owned())
    };
    if let Some(text) = text(variables::REQUIRE) {
        requirements(&text, &place(variables::REQUIRE), words, &mut layer)?;
    }
    for item in env
        .non_empty(variables::PIN)
        .map(OsStr::as_bytes)
        .into_iter()
        .flat_map(items)
    {
        pinned(
            OsStr::from_bytes(item),
            &place(variables::PIN),
            words,
            &mut layer,
        )?;
    }
    let words = |text: String| {
        let words = text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(str::to_owned);
        Value::Words(words.collect())
    };
    let flag = |name: &'static str| {
        let read = |text: String| flag(&text, &place(name)).map(Value::Flag);
        text(name).map(read).transpose()
    };
    let rows = [
        (Key::Uses, text(variables::USES).map(words), variables::USES),
        (
            Key::PinMode,
            one_of(env, variables::PIN_MODE)?.map(Value::Mode),
            variables::PIN_MODE,
        ),
        (
            Key::SearchAlso,
            env.non_empty(variables::ALSO).map(directories),
            variables::ALSO,
        ),
        (
            Key::SearchWithout,
            text(variables::WITHOUT).map(words),
            variables::WITHOUT,
        ),
        (
            Key::Verify,
            one_of(env, variables::VERIFY)?.map(Value::When),
            variables::VERIFY,
        ),
        (
            Key::VerifyLevel,
            one_of(env, variables::VERIFY_LEVEL)?.map(Value::Level),
            variables::VERIFY_LEVEL,
        ),
        (
            Key::OnFailure,
            one_of(env, variables::ON_FAILURE)?.map(Value::OnFailure),
            variables::ON_FAILURE,
        ),
        (
            Key::FetchWhen,
            one_of(env, variables::FETCH)?.map(Value::FetchWhen),
            variables::FETCH,
        ),
        (Key::Locked, flag(variables::LOCKED)?, variables::LOCKED),
        (Key::Follow, flag(variables::FOLLOW)?, variables::FOLLOW),
    ];
    let set =
        |(key, value, name): (Key, Option<Value>, &str)| Some(setting(key, value?, &place(name)));
    layer.extend(rows.into_iter().filter_map(set));
    Ok(layer)
}

/// Returns the options as variables for the processes below, joined with what the same variables say already. A relative
/// directory is in `cwd`.
pub fn for_the_tree(layers: &Layers, cwd: &Path) -> Diff {
    let is_of_option = |setting: &&Setting| matches!(setting.from, SettingPlace::Option(_));
    let is_of_file = |setting: &&Setting| matches!(setting.from, SettingPlace::File { .. });
    let mut diff = Diff::default();
    for (name, separator) in [
        (variables::PIN, ";"),
        (variables::REQUIRE, ";"),
        (variables::USES, ","),
        (variables::PIN_MODE, ""),
        (variables::ALSO, ":"),
        (variables::WITHOUT, ","),
    ] {
        let settings = || {
            layers
                .iter()
                .filter(|setting| variable_of(&setting.key) == Some(name))
        };
        if !settings().any(|setting| is_of_option(&setting)) {
            continue;
        }
        let given = settings().filter(|setting| !is_of_file(setting));
        let texts: Vec<Vec<u8>> = given.map(|setting| of_variable(setting, cwd)).collect();
        diff.0.push(Change {
            name: name.into(),
            value: Some(OsString::from_vec(texts.join(separator.as_bytes()))),
        });
    }
    diff
}

/// The variable that sets the same as an option.
fn variable_of(key: &Key) -> Option<&'static str> {
    match key {
        Key::Pin(_) => Some(variables::PIN),
        Key::Requires(_) => Some(variables::REQUIRE),
        Key::Uses => Some(variables::USES),
        Key::PinMode => Some(variables::PIN_MODE),
        Key::SearchAlso => Some(variables::ALSO),
        Key::SearchWithout => Some(variables::WITHOUT),
        _ => None,
    }
}

/// A setting as its variable spells it.
fn of_variable(setting: &Setting, cwd: &Path) -> Vec<u8> {
    let absolute = |path: &Path| cwd.join(path).into_os_string().into_vec();
    let value = match &setting.value {
        Value::Directory(directory) => absolute(directory),
        Value::Directories(directories) => {
            let directories: Vec<Vec<u8>> = directories.iter().map(|one| absolute(one)).collect();
            directories.join(&b':')
        }
        Value::Words(words) => words.join(",").into_bytes(),
        value => value.text().into_bytes(),
    };
    match &setting.key {
        Key::Pin(family) => [family.as_bytes(), b"=", &value].concat(),
        Key::Requires(name) => [name.as_bytes(), b" ", &value].concat(),
        _ => value,
    }
}

fn directories(list: &OsStr) -> Value {
    let parts = list.as_bytes().split(|byte| *byte == b':');
    let parts = parts.filter(|part| !part.is_empty());
    let directory = |part: &[u8]| PathBuf::from(OsStr::from_bytes(part));
    Value::Directories(parts.map(directory).collect())
}

/// An option is about one start; a variable is set for a shell.
fn setting(key: Key, value: Value, place: &SettingPlace) -> Setting {
    Setting {
        key,
        value,
        from: place.clone(),
        is_of_start: matches!(place, SettingPlace::Option(_)),
    }
}

/// Fails for any other text than a yes or a no, so that a typo does not disable a lock.
fn flag(text: &str, place: &SettingPlace) -> Result<bool, SettingFault> {
    if is_true(text) {
        return Ok(true);
    }
    let is_no =
        ["0", "f", "false", "n", "no", "off"].contains(&text.trim().to_ascii_lowercase().as_str());
    let known = || ["1", "0", "true", "false"].map(str::to_owned).to_vec();
    is_no
        .then_some(false)
        .ok_or_else(|| not_one_of(text, place, known()))
}

/// True if a variable means yes.
pub fn is_true(text: &str) -> bool {
    ["1", "t", "true", "y", "yes", "on"].contains(&text.trim().to_ascii_lowercase().as_str())
}

/// Returns a version, or else a directory as it is written; none for an empty text.
pub fn pin(text: &str) -> Option<Value> {
    match text.trim_start_matches('v').parse() {
        Ok(version) => Some(Value::Version(version)),
        Err(()) if text.is_empty() => None,
        Err(()) => Some(Value::Directory(text.into())),
    }
}

/// Returns the parts between `;` and line ends, without empty ones.
fn items(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| matches!(byte, b';' | b'\n'))
        .map(<[u8]>::trim_ascii)
        .filter(|item| !item.is_empty())
}

/// `cudnn>=9.1,<10; driver>=550`
fn requirements(
    text: &str,
    place: &SettingPlace,
    words: &Vocabulary,
    layer: &mut Layer,
) -> Result<(), SettingFault> {
    for item in items(text.as_bytes()) {
        let item = String::from_utf8_lossy(item);
        let at = item
            .find(['<', '>', '=', '!', '~', '^', '*'])
            .or_else(|| item.find(char::is_whitespace));
        let (name, range) = item.split_at(at.unwrap_or(item.len()));
        let name = name.trim();
        let family = words
            .requirement(name)
            .ok_or_else(|| not_known(name, place, words, &OF_MACHINE))?;
        let range: Range = if range.trim().is_empty() { "*" } else { range }
            .parse()
            .map_err(|()| {
                let (wants, text) = (ExpectedValue::NameAndRange, item.to_string());
                place.fault(FaultKind::BadValue {
                    key: String::new(),
                    wants,
                    text,
                })
            })?;
        if range.is_empty() {
            let text = item.to_string();
            return Err(place.fault(FaultKind::EmptyRange {
                key: String::new(),
                text,
            }));
        }
        let key = Key::Requires(family.to_owned());
        layer.push(setting(key, Value::Range(range), place));
    }
    Ok(())
}

/// `cudnn=9.10`, `cudnn=/opt/cudnn/lib`
fn pinned(
    word: &OsStr,
    place: &SettingPlace,
    words: &Vocabulary,
    layer: &mut Layer,
) -> Result<(), SettingFault> {
    let bad = || {
        place.fault(FaultKind::BadPin {
            word: word.to_string_lossy().into_owned(),
        })
    };
    let at = memchr::memchr(b'=', word.as_bytes()).ok_or_else(bad)?;
    let (name, which) = (&word.as_bytes()[..at], &word.as_bytes()[at + 1..]);
    let name = std::str::from_utf8(name).map_err(|_| bad())?.trim();
    let family = words
        .family(name)
        .ok_or_else(|| not_known(name, place, words, &[]))?;
    let value = match std::str::from_utf8(which) {
        Ok(text) => pin(text).ok_or_else(bad)?,
        Err(_) => Value::Directory(OsString::from(OsStr::from_bytes(which)).into()),
    };
    layer.push(setting(Key::Pin(family.to_owned()), value, place));
    Ok(())
}

fn one_of<W: ValueEnum>(env: &Environment, name: &str) -> Result<Option<W>, SettingFault> {
    let Some(text) = env.non_empty(name).map(OsStr::to_string_lossy) else {
        return Ok(None);
    };
    let known = || W::value_variants().iter().map(word).collect();
    let fault = |_| not_one_of(&text, &SettingPlace::Variable(name.to_owned()), known());
    W::from_str(text.trim(), false).map(Some).map_err(fault)
}

fn not_one_of(text: &str, place: &SettingPlace, known: Vec<String>) -> SettingFault {
    place.fault(FaultKind::NotOneOf {
        key: String::new(),
        text: text.to_owned(),
        known,
    })
}

fn not_known(
    name: &str,
    place: &SettingPlace,
    words: &Vocabulary,
    more: &[&'static str],
) -> SettingFault {
    let families = words
        .families
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !more.contains(name));
    let known = more.iter().copied().chain(families).collect();
    place.fault(FaultKind::NoFamily {
        name: name.to_owned(),
        known,
    })
}
