//! Checks a file of `profiles/` by the type of its rows. The build script includes this file, so that a typo fails the
//! build with the file, the line and the field.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::fault_rows::Faults;
use super::framework_rows::Framework;
use super::literals;
use super::rows::{
    Architectures, Builds, Cudnn, Drivers, KnownBad, LibrariesTable, PackageTable, Places,
    PythonFacts, Statuses,
};
use super::wheel_rows::Wheels;
use super::wrapper_rows::WrapperTable;

/// Returns the content of a file as the binary embeds it. The error names the file, the line and the field. `path` is
/// relative to `profiles/`.
pub(super) fn checked(path: &str, text: &str) -> Result<Value, String> {
    let read = match path {
        "architectures.toml" => read::<Architectures>,
        "builds.toml" => read::<Builds>,
        "cudnn.toml" => read::<Cudnn>,
        "drivers.toml" => read::<Drivers>,
        "errors.toml" => read_errors,
        "faults.toml" => read::<Faults>,
        "known-bad.toml" => read::<KnownBad>,
        "libraries.toml" => read::<LibrariesTable>,
        "packages.toml" => read::<PackageTable>,
        "places.toml" => read::<Places>,
        "python.toml" => read::<PythonFacts>,
        "statuses.toml" => read::<Statuses>,
        "toolkits.toml" | "wheels.toml" => read::<Wheels>,
        "wrappers.toml" => read::<WrapperTable>,
        _ if path.starts_with("frameworks/") => read::<Framework>,
        _ => {
            return Err(format!(
                "profiles/{path}: src/catalog/check.rs has no type for this file"
            ));
        }
    };
    read(text).map_err(|error| format!("profiles/{path}: {error}"))
}

fn read<T: DeserializeOwned>(text: &str) -> Result<Value, toml::de::Error> {
    toml::from_str::<T>(text)?;
    toml::from_str(text)
}

/// Adds the literals of the regexes.
fn read_errors(text: &str) -> Result<Value, toml::de::Error> {
    let literals = literals::of_rows(&toml::from_str(text)?).map_err(serde::de::Error::custom)?;
    let mut value: Value = toml::from_str(text)?;
    let rows = value["error"].as_array_mut().into_iter().flatten();
    for (row, literals) in rows.zip(literals) {
        row["literals"] = serde_json::json!(literals);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TORCH: &str = include_str!("../../profiles/frameworks/torch.toml");

    #[test]
    fn a_typo_is_reported_with_its_file_its_line_and_its_field() {
        let error = |path: &str, whole: &str, (from, to): (&str, &str), at: &str| {
            assert!(
                checked(path, whole).is_ok() && whole.contains(from),
                "{path}: {from}"
            );
            let broken = whole.replacen(from, to, 1);
            let line = 1 + broken
                .lines()
                .position(|line| line.starts_with(at))
                .unwrap();
            let error = checked(path, &broken).unwrap_err();
            assert!(
                error.starts_with(&format!(
                    "profiles/{path}: TOML parse error at line {line},"
                )),
                "{error}"
            );
            error
        };
        let in_torch = |from_to, at| error("frameworks/torch.toml", TORCH, from_to, at);
        let field = in_torch(
            ("\ndistributions = ", "\ndistribution = "),
            "distribution = ",
        );
        assert!(
            field.contains("unknown field `distribution`, expected one of `name`"),
            "{field}"
        );
        let record = in_torch(
            ("by = \"compile-version\"", "by = \"compiled\""),
            "by = \"compiled\"",
        );
        assert!(record.contains("unknown variant `compiled`"), "{record}");
        let nested = in_torch(("symbol = \"", "function = \""), "[[floor.cudnn]]");
        assert!(
            nested.contains("unknown field `function`, expected `file` or `symbol`"),
            "{nested}"
        );
        let builds = include_str!("../../profiles/builds.toml");
        let range = error(
            "builds.toml",
            builds,
            ("\">=3.7,<9.0\"", "\">=x\""),
            "gpus = \">=x\"",
        );
        assert!(
            range.contains("`>=x` is not a range of versions"),
            "{range}"
        );
    }

    #[test]
    fn a_file_without_a_type_is_an_error() {
        assert!(
            checked("more.toml", "")
                .unwrap_err()
                .contains("profiles/more.toml: ")
        );
    }
}
