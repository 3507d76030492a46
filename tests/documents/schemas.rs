//! `docs/schema/` describes the JSON of each command, as JSON Schema. With `CUDARUN_SNAPSHOTS=overwrite` in the environment,
//! the files are written anew from what the commands print on all machines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::fetch::wheelhouse::{Wheelhouse, app, cudart, curand};
use crate::fleet::Nodes;
use crate::running::World;
use crate::support::Run;
use crate::support::machine::Machine;

/// Objects whose keys are names, not words of the schema.
const MAPS: [&str; 5] = ["environment", "code", "serves", "faults", "build-ids"];

/// All that was seen at one place.
#[derive(Default)]
struct Shape {
    types: BTreeSet<&'static str>,
    objects: usize,
    /// The number of objects that have the key, and its shape.
    keys: BTreeMap<String, (usize, Shape)>,
    items: Option<Box<Shape>>,
}

impl Shape {
    fn see(&mut self, value: &Value) {
        self.types.insert(type_of(value));
        match value {
            Value::Object(object) => {
                self.objects += 1;
                for (key, below) in object {
                    let (count, shape) = self.keys.entry(key.clone()).or_default();
                    *count += 1;
                    shape.see(below);
                }
            }
            Value::Array(values) => {
                let items = self.items.get_or_insert_default();
                for value in values {
                    items.see(value);
                }
            }
            _ => {}
        }
    }

    fn schema(&self, name: &str) -> Value {
        let mut schema = Map::new();
        // A place that was always empty may hold anything.
        if self.types.iter().any(|seen| *seen != "null") {
            let only = self.types.first().filter(|_| self.types.len() == 1);
            schema.insert(
                "type".to_owned(),
                only.map_or_else(|| json!(self.types), |only| json!(only)),
            );
        }
        if self.objects > 0 && MAPS.contains(&name) {
            let mut values = Shape::default();
            let all = self.keys.values().flat_map(|(_, shape)| &shape.types);
            values.types.extend(all);
            schema.insert("additionalProperties".to_owned(), values.schema(""));
        } else if self.objects > 0 {
            let below =
                |(key, (_, shape)): (&String, &(usize, Shape))| (key.clone(), shape.schema(key));
            schema.insert(
                "properties".to_owned(),
                self.keys.iter().map(below).collect(),
            );
            let always = self
                .keys
                .iter()
                .filter(|(_, (count, _))| *count == self.objects);
            schema.insert(
                "required".to_owned(),
                always.map(|(key, _)| key.clone()).collect(),
            );
        }
        if let Some(items) = self.items.as_ref().filter(|items| !items.types.is_empty()) {
            schema.insert("items".to_owned(), items.schema(name));
        }
        Value::Object(schema)
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The first place where a value is not as the schema says.
fn fault(value: &Value, schema: &Value, at: &str) -> Option<String> {
    let is_allowed = match &schema["type"] {
        Value::Array(types) => types.iter().any(|known| known == type_of(value)),
        Value::Null => true,
        only => only == type_of(value),
    };
    if !is_allowed {
        return Some(format!("{at} is {}", type_of(value)));
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return Some(format!("{at} is {value}"));
    }
    match value {
        Value::Object(object) => {
            let required = schema["required"].as_array().into_iter().flatten();
            let missing = required
                .filter_map(Value::as_str)
                .find(|key| !object.contains_key(*key));
            missing.map(|key| format!("{at} lacks {key}")).or_else(|| {
                object.iter().find_map(|(key, below)| {
                    let known = &schema["properties"][key];
                    let known = if known.is_null() {
                        &schema["additionalProperties"]
                    } else {
                        known
                    };
                    fault(below, known, &format!("{at}.{key}"))
                })
            })
        }
        Value::Array(values) => values
            .iter()
            .find_map(|value| fault(value, &schema["items"], &format!("{at}[]"))),
        _ => None,
    }
}

/// The outputs of each command on machines that are fine, damaged and empty.
fn outputs() -> BTreeMap<&'static str, Vec<Value>> {
    let mut all: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    let mut keep = |name: &'static str, text: &str| {
        let value: Value =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        let name = if value.get("error").is_some() {
            "error"
        } else {
            name
        };
        all.entry(name).or_default().push(value);
    };
    let mut machines: Vec<Machine> = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines")).unwrap()
    {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            machines.push(Machine::load(path.file_stem().unwrap().to_str().unwrap()));
        }
    }
    let torn = Machine::load("h200-container");
    let part = "/opt/venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn_cnn.so.9";
    fs::remove_file(torn.real(part)).unwrap();
    machines.push(torn);
    for (machine, path) in machines
        .iter()
        .zip(["", ":/usr/local/cuda/compat"].into_iter().cycle())
    {
        let mut on = |name: &'static str, words: &[&str]| {
            let run = Run::on(machine, words)
                .env("LD_LIBRARY_PATH", path)
                .any_stderr();
            keep(name, &run.output().0);
        };
        on("list", &["list", "--json", "--all"]);
        on("list", &["list", "--json", "--extensions"]);
        on("doctor", &["doctor", "--json"]);
        on("init", &["init", "--json"]);
        on(
            "diagnose",
            &[
                "diagnose",
                "--json",
                "--text",
                "libcudart.so.13: cannot open shared object file",
            ],
        );
        on(
            "diagnose",
            &[
                "diagnose",
                "--json",
                "--text",
                "CUDA driver is a stub library",
                "/opt/app/for-13",
            ],
        );
        for program in [
            &["python3", "/home/user/train.py"][..],
            &["/usr/bin/true"],
            &["/opt/app/for-13"],
            &["for-13"],
        ] {
            on("explain", &[&["explain", "--json"], program].concat());
            on(
                "explain",
                &[
                    &[
                        "explain",
                        "--json",
                        "--pin-mode=none",
                        "--require=cudnn>=9.5",
                    ],
                    program,
                ]
                .concat(),
            );
            on("export", &[&["export", "--json"], program].concat());
            on(
                "export",
                &[&["export", "--json", "--pin-mode=none"], program].concat(),
            );
            on(
                "trace-predict",
                &[&["trace", "--json", "--predict", "--as-is"], program].concat(),
            );
        }
    }
    let nodes = Nodes::new(&[]);
    nodes.write("bad.json", "no description");
    let programs = ["python3 /home/user/train.py", "/opt/app/for-13"];
    for file in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|end| end == "toml") {
            let name = path.file_stem().unwrap().to_str().unwrap();
            let mut machine = Machine::load(name);
            machine.programs = programs.map(str::to_owned).to_vec();
            nodes.save(&machine, name, &[]);
        }
    }
    let directory = nodes.path("");
    for program in programs {
        let words = [
            "fleet",
            "--json",
            "--program",
            program,
            directory.to_str().unwrap(),
        ];
        keep("fleet", &Run::new(words).output().0);
    }
    let world = World::new();
    let mixing = world.opener(&["new/libcudnn.so.9", "old/libcudnn_ops.so.9"]);
    for pid in [mixing.pid(), std::process::id().to_string()] {
        let words = ["list", "--running", &pid, "--json"];
        keep("list-running", &Run::new(words).output().0);
    }
    drop(mixing);
    keep(
        "verify",
        &Run::new(["verify", "--json", "/bin/true"])
            .any_stderr()
            .output()
            .0,
    );
    for words in [
        &[
            "--driver",
            "550.54.15",
            "--gpu",
            "9.0",
            "--torch",
            "2.10.0",
            "vllm",
        ][..],
        &["--driver", "470.82.01", "torch"],
        &["--driver", "470.82.01", "jax[cuda13]"],
        &["--machine", "aarch64", "jax", "flash-attn"],
    ] {
        keep(
            "advise",
            &Run::new([&["advise", "--json"], words].concat()).output().0,
        );
    }
    let project = tempfile::tempdir().unwrap();
    let report = project.path().join("report");
    Run::new([
        "trace",
        "--json",
        "--all",
        "-o",
        report.to_str().unwrap(),
        "/bin/true",
    ])
    .check();
    keep("trace", &fs::read_to_string(report).unwrap());
    let home = project.path().to_str().unwrap();
    let here = |words: &[&str]| {
        Run::new(words)
            .env("HOME", home)
            .in_directory(project.path())
            .output()
            .0
    };
    keep("init", &here(&["init", "--json"]));
    here(&["allow", "-q", "."]);
    keep("allow", &here(&["allow", "--list", "--json"]));
    let house = Wheelhouse::new(&[cudart(), curand()]);
    let (linked, opens) = (app("needs-both"), app("opens-cudart"));
    for words in [
        &["cudart"][..],
        &[&linked],
        &[&opens],
        &["/bin/true"],
        &["nothing-here"],
    ] {
        keep(
            "fetch",
            &house
                .run(&[&["fetch", "--json", "--dry-run"], words].concat())
                .any_stderr()
                .output()
                .0,
        );
    }
    keep(
        "explain",
        &house
            .run(&["explain", "--json", &linked])
            .any_stderr()
            .output()
            .0,
    );
    let mut list = || {
        keep(
            "fetch-list",
            &house.run(&["fetch", "list", "--json"]).output().0,
        );
    };
    list();
    house
        .fetch(&["-q", "cudart", "curand"])
        .any_stderr()
        .check();
    house.run(&[&linked]).any_stdout().check();
    list();
    let words = ["fetch", "prune", "--json"];
    keep("fetch-list", &house.run(&words).output().0);
    all
}

/// The meaning of each key of a command's object, from docs/json.md.
fn meanings(command: &str) -> BTreeMap<String, String> {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md")).unwrap();
    let section = page
        .split("\n## ")
        .find(|section| {
            section
                .lines()
                .next()
                .is_some_and(|title| title.replace(" --", "-").replace(' ', "-") == command)
        })
        .unwrap_or_default();
    let rows = section.lines().filter_map(|line| {
        line.strip_prefix("| `")?
            .strip_suffix(" |")?
            .split_once(" | ")
    });
    let each = rows.flat_map(|(keys, meaning)| {
        keys.split(", ")
            .map(move |key| (key.trim_matches('`').to_owned(), meaning.to_owned()))
    });
    each.collect()
}

#[test]
fn every_command_has_a_schema_that_its_output_follows() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema");
    let overwrites = std::env::var("CUDARUN_SNAPSHOTS").is_ok_and(|value| value == "overwrite");
    for (command, values) in outputs() {
        let mut shape = Shape::default();
        for value in &values {
            shape.see(value);
        }
        let mut schema = shape.schema("");
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        schema["title"] = match command {
            "error" => "The JSON of a question that could not be answered".to_owned(),
            "fetch-list" => "The JSON of `cudarun fetch list`".to_owned(),
            command => format!("The JSON of `cudarun {}`", command.replace('-', " --")),
        }
        .into();
        schema["properties"]["schema"] = json!({ "const": 2 });
        for (key, meaning) in meanings(command) {
            if let Some(property) = schema["properties"].get_mut(&key) {
                property["description"] = meaning.into();
            }
        }
        let file = directory.join(format!("{command}.json"));
        let text = format!("{schema:#}\n");
        if overwrites {
            fs::create_dir_all(&directory).unwrap();
            fs::write(&file, text).unwrap();
            continue;
        }
        let written = fs::read_to_string(&file).unwrap_or_default();
        let refresh = "CUDARUN_SNAPSHOTS=overwrite cargo test --locked every_command_has_a_schema";
        assert!(
            written == text,
            "docs/schema/{command}.json is not what the command prints; this writes it:\n    {refresh}"
        );
        for value in &values {
            assert_eq!(fault(value, &schema, command), None);
            // The control: an output without a required key, and one with a key of another type.
            let mut lacking = value.clone();
            lacking.as_object_mut().unwrap().remove("schema");
            assert_eq!(
                fault(&lacking, &schema, command),
                Some(format!("{command} lacks schema"))
            );
            let other = json!({ "schema": 3, "cudarun": 1 });
            assert!(fault(&other, &schema, command).is_some());
        }
    }
}
