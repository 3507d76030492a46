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
        "clues.toml" => read_clues,
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

fn read_errors(text: &str) -> Result<Value, toml::de::Error> {
    let literals = literals::of_rows(&toml::from_str(text)?);
    with_literals(text, "error", literals)
}

fn read_clues(text: &str) -> Result<Value, toml::de::Error> {
    let literals = literals::of_clues(&toml::from_str(text)?);
    with_literals(text, "clue", literals)
}

/// Adds the literals of the regexes to the rows of this name.
fn with_literals(
    text: &str,
    rows: &str,
    literals: Result<Vec<Vec<Vec<String>>>, String>,
) -> Result<Value, toml::de::Error> {
    let literals = literals.map_err(serde::de::Error::custom)?;
    let mut value: Value = toml::from_str(text)?;
    let rows = value[rows].as_array_mut().into_iter().flatten();
    for (row, literals) in rows.zip(literals) {
        row["literals"] = serde_json::json!(literals);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TORCH: &str = include_str!("../../profiles/frameworks/torch.toml");

    /// The error of a file in which `from` is replaced by `to`, in the line that begins with `start`.
    fn error(path: &str, whole: &str, [from, to, start]: [&str; 3]) -> String {
        assert!(
            checked(path, whole).is_ok() && whole.contains(from),
            "{path}: {from}"
        );
        let broken = whole.replacen(from, to, 1);
        let mut lines = broken.lines();
        let line = 1 + lines.position(|line| line.starts_with(start)).unwrap();
        let error = checked(path, &broken).unwrap_err();
        let place = format!("profiles/{path}: TOML parse error at line {line},");
        assert!(error.starts_with(&place), "{error}");
        error
    }

    #[test]
    fn a_typo_is_reported_with_its_file_its_line_and_its_field() {
        let torch = "frameworks/torch.toml";
        let typo = ["\ndistributions = ", "\ndistribution = ", "distribution = "];
        let field = error(torch, TORCH, typo);
        assert!(
            field.contains("unknown field `distribution`, expected one of `name`"),
            "{field}"
        );
        let compiled = "by = \"compiled\"";
        let typo = ["by = \"compile-version\"", compiled, compiled];
        let record = error(torch, TORCH, typo);
        assert!(record.contains("unknown variant `compiled`"), "{record}");
        let typo = ["symbol = \"", "function = \"", "[[floor.cudnn]]"];
        let nested = error(torch, TORCH, typo);
        assert!(
            nested.contains("unknown field `function`, expected `file` or `symbol`"),
            "{nested}"
        );
        let builds = include_str!("../../profiles/builds.toml");
        let range = error(
            "builds.toml",
            builds,
            ["\">=3.7,<9.0\"", "\">=x\"", "gpus = \">=x\""],
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
