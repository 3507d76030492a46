//! The heads of the files in `profiles/`: a person who adds a row reads nothing else.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::fs;
use std::path::Path;

use cudarun::catalog::{ErrorRow, FaultRow, PossibleCause};
use cudarun::catalog::{
    ToolkitRow, Wheel, WheelFile, Wrapper, catalog, error_rows, framework_rows, rows,
};
use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

/// The names of a struct's fields, as an error: a deserializer is told them before it gives any value.
#[derive(Debug)]
struct Fields(&'static [&'static str]);

impl Display for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::error::Error for Fields {}

impl serde::de::Error for Fields {
    fn custom<T: Display>(message: T) -> Fields {
        panic!("not a struct: {message}")
    }
}

struct Asked;

impl<'de> Deserializer<'de> for Asked {
    type Error = Fields;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Fields> {
        Err(Fields(fields))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fields> {
        panic!("not a struct")
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn fields<T: for<'de> Deserialize<'de>>() -> &'static [&'static str] {
    T::deserialize(Asked).err().expect("no value is given").0
}

fn text(path: &str) -> String {
    fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("profiles")
            .join(path),
    )
    .unwrap()
}

/// The names that the comment at the top of a file explains: those at the beginning of its indented lines, as `a, b` or
/// `[[a]]`, and those in backquotes.
fn explained(text: &str) -> BTreeSet<String> {
    let head: Vec<&str> = text
        .lines()
        .map_while(|line| line.strip_prefix('#'))
        .collect();
    let terms = head
        .iter()
        .filter_map(|line| line.strip_prefix("   ")?.split("  ").next());
    let terms = terms.flat_map(|term| term.split(", "));
    let terms = terms.map(|term| {
        term.trim_start_matches("[[")
            .split([']', '.'])
            .next()
            .unwrap()
    });
    let quoted = head
        .iter()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    terms.chain(quoted).map(str::to_owned).collect()
}

/// Every key of the rows, except those that are data: numbers, `any`, families, stems and causes.
fn keys(value: &toml::Value, found: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let is_data = key == "any"
                    || key.parse::<u32>().is_ok()
                    || catalog().family(key).is_some()
                    || catalog().family_of_stem(key).is_some();
                // The table of cuDNN's codes has the name of the family.
                if !is_data
                    || value.is_array()
                        && value.as_array().unwrap().iter().any(toml::Value::is_table)
                {
                    found.insert(key.clone());
                }
                keys(value, found);
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn the_head_of_each_profile_explains_every_field() {
    let all: &[(&str, &[&[&str]])] = &[
        ("architectures.toml", &[fields::<rows::GpuArchitecture>()]),
        (
            "builds.toml",
            &[
                fields::<rows::GpuBuild>(),
                fields::<rows::VendorBuild>(),
                fields::<rows::ListedDistribution>(),
                fields::<rows::Release>(),
            ],
        ),
        (
            "clues.toml",
            &[
                fields::<error_rows::ClueRow>(),
                fields::<error_rows::CauseArgument>(),
            ],
        ),
        ("cudnn.toml", &[fields::<rows::Support>()]),
        (
            "drivers.toml",
            &[fields::<rows::DriverOfCuda>(), fields::<rows::Branch>()],
        ),
        (
            "frameworks/torch.toml",
            &[
                fields::<framework_rows::Framework>(),
                fields::<framework_rows::Variable>(),
                fields::<framework_rows::FrameworkCompiler>(),
            ],
        ),
        (
            "errors.toml",
            &[fields::<ErrorRow>(), fields::<PossibleCause>()],
        ),
        ("faults.toml", &[fields::<FaultRow>()]),
        (
            "known-bad.toml",
            &[fields::<rows::BadRelease>(), fields::<rows::Combination>()],
        ),
        (
            "libraries.toml",
            &[
                fields::<rows::Family>(),
                fields::<rows::VersionHeader>(),
                fields::<rows::FamilyShim>(),
            ],
        ),
        ("packages.toml", &[fields::<rows::Packages>()]),
        (
            "places.toml",
            &[fields::<rows::Place>(), fields::<rows::PlaceLayout>()],
        ),
        ("python.toml", &[fields::<rows::PythonFacts>()]),
        (
            "statuses.toml",
            &[fields::<rows::Status>(), fields::<rows::LibraryMessage>()],
        ),
        (
            "toolkits.toml",
            &[fields::<ToolkitRow>(), fields::<WheelFile>()],
        ),
        ("wheels.toml", &[fields::<Wheel>(), fields::<WheelFile>()]),
        ("wrappers.toml", &[fields::<Wrapper>()]),
    ];
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let files = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let files = files
        .filter(|name| name.ends_with(".toml"))
        .chain(["frameworks/torch.toml".to_owned()]);
    assert_eq!(
        files.collect::<BTreeSet<_>>(),
        all.iter().map(|(file, _)| (*file).to_owned()).collect()
    );
    let mut frameworks = BTreeSet::new();
    for entry in
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles/frameworks")).unwrap()
    {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        keys(&toml::from_str(&text).unwrap(), &mut frameworks);
    }
    for (file, types) in all {
        let text = text(file);
        let explained = explained(&text);
        let mut named: BTreeSet<String> = types
            .iter()
            .flat_map(|fields| fields.iter())
            .map(|it| (*it).to_owned())
            .collect();
        keys(&toml::from_str(&text).unwrap(), &mut named);
        if file.starts_with("frameworks/") {
            named.extend(
                frameworks
                    .iter()
                    .filter(|key| catalog().family(key).is_none())
                    .cloned(),
            );
            named.retain(|key| catalog().family(key).is_none());
        }
        // These two mean the same in each file, and a file with one kind of row is about that.
        let table: toml::Table = text.parse().unwrap();
        named.retain(|key| {
            !(["source", "date"].contains(&key.as_str())
                || table.len() == 1 && table.contains_key(key))
        });
        let missing: Vec<_> = named.difference(&explained).collect();
        assert!(
            missing.is_empty(),
            "the head of profiles/{file} does not explain {missing:?}"
        );
    }
}

#[test]
fn a_name_that_only_occurs_in_a_sentence_is_not_explained() {
    let head = explained(
        "# a field\n#\n#   one, two  three\n#             four\n#   [[five.X]] `six`\n\nseven = 1\n",
    );
    assert_eq!(
        head.into_iter().collect::<Vec<_>>(),
        ["", "five", "one", "six", "two"]
    );
}
