//! Problems of installations and files: a machine shows every problem that exists, files that lie give a
//! warning and nothing else, and earlier facts are believed only as long as nothing has changed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cudarun::host::Host;
use cudarun::inventory::{self, Inventory, ScanCache, Scope};
use serde_json::Value;

use crate::support::machine::Machine;
use crate::support::parts::{SITE, SYSTEM, cudnn, elf, library, link, machine, python, text};
use crate::support::{CUDARUN, Run};

fn listed(machine: &Machine) -> Value {
    let (output, _) = Run::on(machine, &["list", "--json"]).output();
    serde_json::from_str(&output).unwrap()
}

fn values<'v>(rows: &'v Value, key: &str) -> impl Iterator<Item = String> {
    rows.as_array()
        .unwrap()
        .iter()
        .map(move |row| row[key].as_str().unwrap().to_owned())
        .collect::<Vec<_>>()
        .into_iter()
}

/// The names in the first column of the table of docs/json.md that has this title.
fn documented(title: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/json.md");
    let text = fs::read_to_string(path).unwrap();
    let table = text
        .split(&format!("| {title} | with |\n"))
        .nth(1)
        .unwrap()
        .split("\n\n")
        .next()
        .unwrap();
    let first = table
        .lines()
        .skip(1)
        .map(|row| row.split('|').nth(1).unwrap());
    first
        .flat_map(|cell| {
            cell.split(',')
                .map(|name| name.trim().trim_matches('`').to_owned())
        })
        .collect()
}

#[test]
fn every_problem_and_every_fault_has_a_machine_that_shows_it() {
    let mut problems = BTreeSet::new();
    let mut faults = BTreeSet::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines")).unwrap()
    {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let found = listed(&Machine::load(path.file_stem().unwrap().to_str().unwrap()));
            for installation in found["installations"].as_array().unwrap() {
                problems.extend(values(&installation["problems"], "problem"));
            }
            faults.extend(values(&found["warnings"], "fault"));
        }
    }
    assert_eq!(problems, documented("problem"));
    // Nothing is unreadable for root; that one has a test of its own.
    faults.insert("unreadable".to_owned());
    assert_eq!(faults, documented("fault"));
}

#[test]
fn unreadable_directories_are_named() {
    let machine = machine(&[
        library("/opt/closed", "libcufft", "11", "11.2.1", ""),
        library("/opt/open", "libcurand", "10", "10.3.5", ""),
        library("/opt/open", "libnccl", "2", "2.21.5", ""),
    ]);
    let set = |guest: &str, mode| {
        fs::set_permissions(machine.real(guest), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("/", 0o755);
    set("/opt/closed", 0o000);
    set("/opt/open/libcurand.so.10.3.5", 0o000);
    // Root may read everything, so another user asks.
    let own = machine.real("/cudarun");
    crate::support::copy_program(CUDARUN, &own);
    let mut command = Command::new(&own);
    command.args([
        "--root".as_ref(),
        machine.root().as_os_str(),
        "list".as_ref(),
        "--json".as_ref(),
    ]);
    command
        .args(["--also", "/opt/open", "--also", "/opt/closed"])
        .env_clear()
        .current_dir("/");
    if nix::unistd::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    set("/opt/closed", 0o755);
    let found: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let why: Vec<(String, String)> = values(&found["warnings"], "path")
        .zip(values(&found["warnings"], "why"))
        .collect();
    let denied = "cannot be read: permission denied".to_owned();
    for path in ["/opt/open/libcurand.so.10", "/opt/closed"] {
        assert!(
            why.contains(&(path.to_owned(), denied.clone())),
            "{path}\n{why:?}"
        );
    }
    assert_eq!(
        found["installations"][0]["family"], "nccl",
        "what can be read is listed"
    );
}

#[test]
fn a_directory_of_32_bit_libraries_is_no_fault_and_one_among_others_is() {
    let small =
        |directory: &str, name: &str| elf(&format!("{directory}/{name}"), "is_32_bit = true");
    let machine = machine(&[
        small("/opt/lib32", "libcudart.so.12"),
        small("/opt/mixed", "libcudart.so.12"),
        library("/opt/mixed", "libnccl", "2", "2.21.5", ""),
    ]);
    let run = Run::on(
        &machine,
        &[
            "list",
            "--json",
            "--also",
            "/opt/lib32",
            "--also",
            "/opt/mixed",
        ],
    );
    let warnings = run.json()["warnings"].clone();
    assert_eq!(
        values(&warnings, "path").collect::<Vec<_>>(),
        ["/opt/mixed/libcudart.so.12"]
    );
}

#[test]
fn links_and_hard_links_to_one_file_are_one_installation() {
    let machine = machine(&[
        cudnn("/opt/real", "9.1.0.70", ""),
        link("/opt/links/libcudnn.so.9", "../real/libcudnn.so.9"),
        link("/opt/links/libcudnn.so", "libcudnn.so.9"),
        link("/opt/same", "real"),
        cudnn("/opt/other", "9.1.0.70", ""),
    ]);
    fs::create_dir(machine.real("/opt/hard")).unwrap();
    for entry in fs::read_dir(machine.real("/opt/real")).unwrap() {
        let path = entry.unwrap().path();
        fs::hard_link(
            &path,
            machine.real("/opt/hard").join(path.file_name().unwrap()),
        )
        .unwrap();
    }
    let also = [
        "/opt/links",
        "/opt/hard",
        "/opt/other",
        "/opt/same",
        "/opt/real",
    ];
    let arguments: Vec<&str> = ["list", "--json"]
        .into_iter()
        .chain(also.iter().flat_map(|d| ["--also", d]))
        .collect();
    let found = Run::on(&machine, &arguments).json();
    let installations = found["installations"].as_array().unwrap();
    let at = |directory: &str| {
        installations
            .iter()
            .find(|installation| installation["directory"] == directory)
            .unwrap()
    };
    assert_eq!(installations.len(), 3, "{installations:#?}");
    // One link to what works only as a whole: opened through it, it finds none of the others.
    assert_eq!(at("/opt/links")["problems"][0]["problem"], "missing");
    let shared = at("/opt/hard");
    let also: Vec<&str> = shared["also"]
        .as_array()
        .unwrap()
        .iter()
        .map(|path| path.as_str().unwrap())
        .collect();
    assert_eq!(
        (shared["directory"].as_str().unwrap(), also),
        ("/opt/hard", vec!["/opt/real"])
    );
}

#[test]
fn a_source_can_be_switched_off_and_a_directory_added() {
    let machine = machine(&[
        library(
            "/usr/local/cuda-12.4/lib64",
            "libcudart",
            "12",
            "12.4.127",
            "",
        ),
        library("/opt/mine", "libnccl", "2", "2.21.5", ""),
        library("/opt/toolkit/lib64", "libcufft", "11", "11.2.1", ""),
    ]);
    let families = |arguments: &[&str]| {
        let (output, _) = Run::on(&machine, &[&["list", "--json"], arguments].concat()).output();
        let found: Value = serde_json::from_str(&output).unwrap();
        values(&found["installations"], "family")
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(families(&[]), "cudart");
    assert_eq!(families(&["--without", "toolkit"]), "");
    assert_eq!(
        families(&["--also", "/opt/mine", "--also", "/opt/toolkit"]),
        "cudart cufft nccl"
    );
    assert_eq!(
        families(&["--also", "/opt/mine", "--without", "extra,toolkit"]),
        ""
    );
    Run::on(&machine, &["list", "--without", "tolkit"])
        .status(2)
        .stderr("cudarun: --without: unknown value `tolkit`\n\nhint: did you mean toolkit?\n")
        .check();
    // A variable names sources as well.
    let listed = |sources| Run::on(&machine, &["list"]).env("CUDARUN_WITHOUT", sources);
    listed("tolkit")
        .status(2)
        .stderr("cudarun: CUDARUN_WITHOUT: unknown value `tolkit`\n\nhint: did you mean toolkit?\n")
        .check();
    listed("conda").any_stdout().check();
    Run::on(&machine, &["--also", "/opt/gone", "app"])
        .status(125)
        .stderr("cudarun: the program would be started, which is not possible with --root\n\nhint: cudarun explain PROGRAM\n")
        .check();
    Run::new(["--also", "/opt/gone", "true"])
        .status(125)
        .stderr("cudarun: --also `/opt/gone`: no such directory\n")
        .check();
    // A program can gain libraries too: the new ones can be picked.
    let program = machine.real("/usr/bin/app");
    let app = crate::support::machine::elf::Elf {
        needed: vec!["libnccl.so.2".into()],
        interpreter: Some("/lib64/ld-linux-x86-64.so.2".into()),
        ..crate::support::machine::elf::Elf::default()
    };
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    fs::write(&program, app.build().unwrap()).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let explained = Run::on(
        &machine,
        &["explain", "--json", "--also", "/opt/mine", "app"],
    )
    .json();
    assert_eq!(explained["families"][0]["picked"]["directory"], "/opt/mine");
    Run::on(&machine, &["explain", "app"])
        .status(1)
        .any_stdout()
        .any_stderr()
        .check();
}

#[test]
fn an_image_of_another_kind_of_machine_is_read_like_one_of_its_own() {
    let found = listed(&Machine::load("tegra"));
    assert!(values(&found["installations"], "family").any(|family| family == "cudnn"));
    let found = listed(&Machine::load("aarch64"));
    let cudnn = found["installations"]
        .as_array()
        .unwrap()
        .iter()
        .find(|installation| installation["family"] == "cudnn")
        .unwrap();
    assert_eq!(
        cudnn["problems"][0]["stems"][0], "libcudnn_graph",
        "that one is for x86"
    );
}

/// A look at a machine, much later than its files were made.
fn look(machine: &Machine, known: &mut ScanCache) -> (Inventory, u64) {
    let env = [("LD_LIBRARY_PATH", "/opt/cuda")].into_iter().collect();
    let mut host = Host::at(machine.root(), env, "/".into()).unwrap();
    host.started += Duration::from_mins(1);
    let scope = Scope {
        machine: 62,
        code: true,
        ..Scope::default()
    };
    let inventory = inventory::scan(&host, &scope, known);
    (inventory, host.operations())
}

#[test]
fn a_second_scan_reads_only_changed_files() {
    let machine = machine(&[
        cudnn("/opt/cuda", "9.1.0.70", "code = ['sm_90']"),
        text("/usr/local/cuda-12.4/version.txt", "CUDA Version 12.4"),
    ]);
    let said = |inventory: &Inventory| cudarun::report::json::inventory(inventory, &[]);
    let mut known = ScanCache::default();
    let (first, cold) = look(&machine, &mut known);
    assert!(known.has_changed());
    let bytes = postcard::to_stdvec(&known).unwrap();
    let mut known: ScanCache = postcard::from_bytes(&bytes).unwrap();
    let (second, warm) = look(&machine, &mut known);
    assert_eq!(said(&first), said(&second));
    assert!(!known.has_changed() && warm < cold, "{warm} of {cold}");
    // Replaced, as a package manager does it: another file under the same name.
    let replace = |name: &str, elf: &crate::support::machine::elf::Elf| {
        let path = machine.real(name);
        let beside = PathBuf::from(format!("{}.new", path.display()));
        fs::write(&beside, elf.build().unwrap()).unwrap();
        fs::rename(beside, path).unwrap();
    };
    let graph = crate::support::machine::elf::Elf {
        soname: Some("libcudnn_graph.so.9".into()),
        constants: vec!["cudnn_version_9_8_0_87_".into()],
        ..crate::support::machine::elf::Elf::default()
    };
    replace("/opt/cuda/libcudnn_graph.so.9", &graph);
    let (third, _) = look(&machine, &mut known);
    let version = |inventory: &Inventory| inventory.installations[0].version.unwrap().to_string();
    assert_eq!(
        (version(&first).as_str(), version(&third).as_str()),
        ("9.1.0.70", "9.8.0.87")
    );
    fs::remove_file(machine.real("/opt/cuda/libcudnn_ops.so.9")).unwrap();
    let (fourth, _) = look(&machine, &mut known);
    assert_eq!(
        fourth.installations[0].files.len(),
        third.installations[0].files.len() - 1
    );
    // A file can change in place and keep its size.
    let path = machine.real("/opt/cuda/libcudnn_graph.so.9");
    let bytes = fs::read(&path).unwrap();
    let at = bytes
        .windows(5)
        .position(|window| window == b"9_8_0")
        .unwrap();
    let changed = [&bytes[..at], b"9_7_0", &bytes[at + 5..]].concat();
    fs::write(&path, changed).unwrap();
    assert_eq!(version(&look(&machine, &mut known).0), "9.7.0.87");
}

#[test]
fn the_scan_cache_is_private_and_survives_damage() {
    let machine = machine(&[library("/opt/mine", "libnccl", "2", "2.21.5", "")]);
    let directory = machine.real("/opt/mine");
    let cache = tempfile::tempdir().unwrap();
    let facts = cache.path().join("cudarun/facts");
    let list = || {
        let run = Run::new([
            "list".as_ref(),
            "--json".as_ref(),
            "--also".as_ref(),
            directory.as_os_str(),
        ]);
        let found = run.env("XDG_CACHE_HOME", cache.path()).json();
        let is_it =
            |installation: &&Value| installation["directory"].as_str() == directory.to_str();
        assert!(
            found["installations"]
                .as_array()
                .unwrap()
                .iter()
                .any(|installation| is_it(&installation)),
            "{found:#}"
        );
    };
    list();
    // Facts younger than a clock tick of any file system are not kept.
    std::thread::sleep(Duration::from_millis(3100));
    list();
    let kept = fs::read(&facts).unwrap();
    assert!(memchr::memmem::find(&kept, b"libnccl.so.2").is_some());
    assert_eq!(
        fs::metadata(&facts).unwrap().permissions().mode() & 0o777,
        0o600
    );
    list();
    assert_eq!(fs::read(&facts).unwrap(), kept, "nothing is new");
    for damage in [
        &kept[..kept.len() / 2],
        b"",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    ] {
        fs::write(&facts, damage).unwrap();
        list();
        assert!(
            memchr::memmem::find(&fs::read(&facts).unwrap(), b"libnccl.so.2").is_some(),
            "kept anew"
        );
    }
    // Another user may have written this.
    let lies: Vec<u8> = kept
        .iter()
        .map(|byte| if *byte == b'.' { b'-' } else { *byte })
        .collect();
    fs::write(&facts, lies).unwrap();
    fs::set_permissions(&facts, fs::Permissions::from_mode(0o666)).unwrap();
    list();
}

/// Paths of twenty thousand parts, a package that a database lists two thousand times, sections that all
/// overlap each other: each took all memory, the whole stack or an hour before it was bounded.
#[test]
fn records_that_multiply_themselves_cost_next_to_nothing() {
    let deep = "a/".repeat(20_000);
    let paragraph = "Package: libcudnn9-cuda-12\nStatus: install ok installed\nArchitecture: amd64\nVersion: 9.1.0.70-1\n\n";
    let list = "/usr/lib/x86_64-linux-gnu/libcudnn.so.9\n".repeat(20_000);
    let machine = python(&[
        text(
            &format!("{SITE}/nvidia_cudnn_cu12-9.1.0.70.dist-info/RECORD"),
            &format!("{deep}libcudnn.so.9,,1\n"),
        ),
        text("/var/lib/dpkg/status", &paragraph.repeat(2000)),
        text("/var/lib/dpkg/info/libcudnn9-cuda-12.list", &list),
        text(
            "/opt/conda/conda-meta/cudnn-9.1.1.17-cuda12_2.json",
            &format!("{{\"files\":[\"{deep}libcudnn.so.9\"]}}"),
        ),
        text(
            "/opt/conda/conda-meta/nccl-2.21.5-0.json",
            &format!("{{\"x\":\".so\",\"files\":\"{}\"}}", "A".repeat(1 << 20)),
        ),
        cudnn(SYSTEM, "9.1.0.70", ""),
    ]);
    let arguments = [
        "list",
        "--json",
        "--python",
        "/opt/venv/bin/python3",
        "--also",
        "/opt/conda",
    ];
    let found = Run::on(&machine, &arguments).json();
    assert_eq!(
        found["installations"][0]["package"],
        "libcudnn9-cuda-12 9.1.0.70-1"
    );
    let why: Vec<String> = values(&found["warnings"], "why").collect();
    assert_eq!(why.len(), 1, "{why:?}");
    assert!(
        why[0].starts_with("holds something else than it should, line 1 column"),
        "{why:?}"
    );
}

/// A kept start is good until something that it was read from has changed: all of that is watched, there or not.
#[test]
fn missing_files_that_were_looked_for_are_watched() {
    let machine = machine(&[
        library(
            "/usr/local/cuda-12.4/lib64",
            "libcudart",
            "12",
            "12.4.127",
            "",
        ),
        elf("/opt/cuda/libnvjpeg.so.12", "soname = 'libnvjpeg.so.12'"),
    ]);
    let mut known = ScanCache::default();
    let (inventory, _) = look(&machine, &mut known);
    let watched: Vec<&str> = inventory
        .watched
        .iter()
        .filter_map(|path| path.to_str())
        .collect();
    for path in [
        "/usr/local/cuda-12.4/version.json",
        "/opt/include/nvjpeg.h",
        "/usr/local/cuda-12.4",
    ] {
        assert!(watched.contains(&path), "{path}: {watched:#?}");
    }
    assert!(
        !watched.contains(&"/run") && !watched.contains(&"/"),
        "those change all the time"
    );
}

#[test]
fn a_file_that_another_family_brings_for_itself_is_of_that_one() {
    let machine = machine(&[
        library("/opt/mp", "libcufftMp", "12", "12.1.3", ""),
        library(
            "/opt/mp",
            "libcufftw",
            "12",
            "12.1.3",
            "needed = ['libcufftMp.so.12']",
        ),
        library("/opt/plain", "libcufft", "12", "12.0.0", ""),
        library(
            "/opt/plain",
            "libcufftw",
            "12",
            "12.0.0",
            "needed = ['libcufft.so.12']",
        ),
    ]);
    let found = Run::on(
        &machine,
        &[
            "list",
            "--json",
            "--also",
            "/opt/mp",
            "--also",
            "/opt/plain",
        ],
    )
    .json();
    let families: Vec<String> = values(&found["installations"], "family").collect();
    assert_eq!(families, ["cufft", "cufftmp"]);
    assert!(
        found["installations"]
            .as_array()
            .unwrap()
            .iter()
            .all(|installation| installation["files"].as_array().unwrap().len() == 2)
    );
}

const CUTENSOR: &str = "/opt/venv/lib/python3.12/site-packages/cutensor/lib";

/// NVIDIA's wheel of cuTENSOR 2.8.1, whose own function says 2.8.0. Only libcutensorMp, which few programs use, is linked against
/// NCCL.
fn cutensor(recorded: &str) -> Machine {
    let member = |stem: &str, fields: &str| {
        elf(
            &format!("{CUTENSOR}/{stem}.so.2"),
            &format!("soname = '{stem}.so.2', {fields}"),
        )
    };
    let lines = format!("cutensor/lib/libcutensor.so.2,sha256=x,{recorded}\n");
    python(&[
        member("libcutensor", "functions = { cutensorGetVersion = 20800 }"),
        member(
            "libcutensorMp",
            "needed = ['libcutensor.so.2', 'libnccl.so.2']",
        ),
        text(
            &format!("{SITE}/cutensor_cu12-2.8.1.dist-info/RECORD"),
            &lines,
        ),
    ])
}

#[test]
fn a_version_that_the_vendor_numbers_otherwise_is_no_problem() {
    let of = |machine: &Machine| {
        let listed = listed(machine);
        let installation = &listed["installations"][0];
        assert_eq!(installation["version"], "2.8.0", "{listed:#}");
        (
            installation["files"].clone(),
            installation["problems"].as_array().unwrap().len(),
        )
    };
    let (files, _) = of(&cutensor("1"));
    let size = files
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["soname"] == "libcutensor.so.2")
        .unwrap()["size"]
        .to_string();
    let whole = format!("{size}\ncutensor/lib/libcutensorMp.so.2,sha256=x,");
    let mp = files
        .as_array()
        .unwrap()
        .iter()
        .find(|file| file["soname"] == "libcutensorMp.so.2")
        .unwrap()["size"]
        .to_string();
    assert_eq!(of(&cutensor(&(whole + &mp))).1, 0);
    // Its neighbours: a file of another size, and one of unknown size.
    assert_eq!(of(&cutensor("1")).1, 2);
    assert_eq!(of(&cutensor("")).1, 1);
}

#[test]
fn a_member_that_nobody_asks_for_needs_nothing() {
    let machine = cutensor("");
    let picked = |code: &str| {
        let words = ["explain", "--json", "python3", "-c", code];
        let (text, _) = Run::on(&machine, &words).output();
        serde_json::from_str::<Value>(&text).unwrap()["decision"].clone()
    };
    let open = |name: &str| format!("import ctypes; ctypes.CDLL('{name}')");
    assert_eq!(picked(&open("libcutensor.so.2")), "plan");
    assert_ne!(
        picked(&open("libcutensorMp.so.2")),
        "plan",
        "NCCL is missing"
    );
}

#[test]
fn cupti_in_the_directories_of_triton_is_listed() {
    let backend = "triton/backends/nvidia/lib";
    let file = |below: &str, number: &str| {
        let path = format!("{backend}/{below}/libcupti.so.{number}");
        let soname = format!("soname = 'libcupti.so.{number}'");
        (
            elf(&format!("{SITE}/{path}"), &soname),
            format!("{path},sha256=x,\n"),
        )
    };
    let (old, first) = file("cupti", "12");
    let (new, second) = file("cupti-blackwell", "13");
    let record = text(
        &format!("{SITE}/triton-3.8.0.dist-info/RECORD"),
        &(first + &second),
    );
    let listed = listed(&python(&[old, new, record]));
    let directories: Vec<String> = values(&listed["installations"], "directory").collect();
    let of = |below: &str| format!("{SITE}/{backend}/{below}");
    assert_eq!(directories, [of("cupti"), of("cupti-blackwell")]);
}

#[test]
fn a_mix_by_the_search_path_is_not_called_no_problem() {
    let wheel = "/opt/venv/lib/python3.12/site-packages/nvidia/cudnn/lib";
    let said = |own: &str, other: &str| {
        let machine = python(&[cudnn(wheel, own, ""), cudnn("/opt/other", other, "")]);
        Run::on(&machine, &["list"])
            .env("LD_LIBRARY_PATH", "/opt/other")
            .output()
            .0
    };
    let mixed = said("9.10.2.21", "9.1.0.70");
    assert!(
        mixed.starts_with("2 installations; LD_LIBRARY_PATH may mix cuDNN 9.1.0"),
        "{mixed}"
    );
    // The shim of 9.1 works over newer parts, and equal versions are one set.
    for (own, other) in [("9.1.0.70", "9.10.2.21"), ("9.10.2.21", "9.10.2.21")] {
        let whole = said(own, other);
        assert!(whole.contains("no problem"), "{whole}");
    }
}

/// The loader does not look into the current directory for a bare name.
#[test]
fn a_bare_name_that_is_preloaded_is_searched_as_the_loader_does() {
    let machine = machine(&[
        library("/opt/one", "libnccl", "2", "2.21.5", ""),
        library("/opt/two", "libnccl", "2", "2.18.5", ""),
    ]);
    let preloaded = |path: &str| {
        let env = [("LD_PRELOAD", "libnccl.so.2"), ("LD_LIBRARY_PATH", path)];
        let env = env.into_iter().collect();
        let host = Host::at(machine.root(), env, "/opt/one".into()).unwrap();
        let scope = Scope {
            machine: 62,
            ..Scope::default()
        };
        let inventory = inventory::scan(&host, &scope, &mut ScanCache::default());
        inventory.search.preload[0].file
    };
    assert_eq!(preloaded("/opt/none"), None);
    assert!(preloaded("/opt/one").is_some());
    assert_ne!(preloaded("/opt/one"), preloaded("/opt/two"));
}
