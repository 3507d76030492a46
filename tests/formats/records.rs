//! Records of package managers, tools and container images.

use std::path::Path;

use cudarun::formats::project::PyProject;
use cudarun::formats::require::Clause;
use cudarun::formats::{conda, dpkg, project, pyinstaller, require, store};

#[test]
fn files_outside_of_a_conda_environment_do_not_count() {
    let record =
        br#"{"files": ["lib/libcudnn.so.9", "../lib/libcudnn.so.8", "/lib/libcudnn.so.7"]}"#;
    assert_eq!(
        conda::files(record, &|path| path.contains(".so")).unwrap(),
        ["lib/libcudnn.so.9"]
    );
    for bad in [
        "history",
        "a-1.json",
        "-1-2.json",
        "a--2.json",
        "a-1-.json",
        ".json",
        "",
    ] {
        assert_eq!(conda::package(bad), None, "{bad}");
    }
}

#[test]
fn versions_of_libraries_in_versions_of_packages() {
    let upstream = |text| dpkg::upstream(text).map(|version| version.to_string());
    assert_eq!(upstream("9.1.0.70-1").unwrap(), "9.1.0.70");
    assert_eq!(upstream("12.4.127-1").unwrap(), "12.4.127");
    assert_eq!(upstream("2.21.5-1+cuda12.4").unwrap(), "2.21.5");
    assert_eq!(upstream("535.261.03-1~deb12u1").unwrap(), "535.261.03");
    assert_eq!(upstream("3:550.54.15-1.el9").unwrap(), "550.54.15");
    for other in [
        "12.4-1",
        "8.7.0.84~cuda11.8",
        "11.11.3.6~11.8.0-5~deb12u1",
        "1.2.3",
        "a:1.2.3-1",
        "",
    ] {
        assert_eq!(upstream(other), None, "{other}");
    }
    let before = |text| dpkg::before_toolkit(text).map(|version| version.to_string());
    assert_eq!(before("11.11.3.6~11.8.0-5~deb12u1").unwrap(), "11.11.3.6");
    assert_eq!(
        before("11.1.1+~10.9.0.58~11.8.0-5~deb12u1").unwrap(),
        "10.9.0.58"
    );
    assert_eq!(before("11.5.117~11.5.1-1ubuntu1").unwrap(), "11.5.117");
    for other in [
        "11.8.0-5~deb12u1",
        "8.7.0.84~cuda11.8",
        "535.261.03-1~deb12u1",
        "1.2.3~rc1-2",
        "~-",
        "",
    ] {
        assert_eq!(before(other), None, "{other}");
    }
}

const H: &str = "0123456789abcdfghijklmnpqrsvwxyz";

#[test]
fn entries_of_stores_are_taken_apart() {
    let shown = |name: &str| {
        store::package(&format!("{H}-{name}")).map(|(name, version)| format!("{name} {version}"))
    };
    assert_eq!(shown("cudnn-9.1.0.70-lib").unwrap(), "cudnn 9.1.0.70");
    assert_eq!(
        shown("cuda12.4-cuda_cudart-12.4.127-lib").unwrap(),
        "cuda12.4-cuda_cudart 12.4.127"
    );
    assert_eq!(
        shown("nvidia-x11-550.90.07-6.6.36").unwrap(),
        "nvidia-x11 550.90.07"
    );
    assert_eq!(shown("cuda-merged").unwrap(), "cuda-merged ");
    assert_eq!(shown("cudnn-9.1.0.70.drv"), None);
    // Spack's have the hash behind them.
    for (entry, expected) in [
        ("cudnn-9.2.0.82-12-abcdefgh", ("cudnn", "9.2.0.82")),
        (
            "py-cuda-python-12.4.0-abcdefgh",
            ("py-cuda-python", "12.4.0"),
        ),
        ("gcc", ("gcc", "")),
        ("éééééééééééééééé-cudnn-9", ("éééééééééééééééé-cudnn", "9")),
    ] {
        assert_eq!(store::package(entry), Some(expected), "{entry}");
    }
    for bad in ["", &format!("{H}-"), "cudnn-9.1.0.70.tar.gz"] {
        assert_eq!(store::package(bad), None, "{bad}");
    }
}

fn shown(text: &str) -> Result<String, &str> {
    let one = |clause: &Clause| match clause {
        Clause::Version { property, range } => format!("{property:?} {range}"),
        Clause::Brand { name, is_not } => format!("{}{name}", if *is_not { "not " } else { "" }),
    };
    let all = |clauses: &Vec<Clause>| clauses.iter().map(one).collect::<Vec<_>>().join(" & ");
    require::parse(text)
        .map(|alternatives| alternatives.iter().map(all).collect::<Vec<_>>().join(" | "))
}

/// Values of images as NVIDIA publishes them.
#[test]
fn requirements_of_images_are_understood() {
    let asked =
        "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=535,driver<536";
    assert_eq!(
        shown(asked).unwrap(),
        "Cuda >=12.4 | tesla & Driver >=470 & Driver <471 | unknown & Driver >=535 & Driver <536"
    );
    assert_eq!(shown("cuda>=9.0").unwrap(), "Cuda >=9.0");
    let tesla = "cuda>=10.2 brand=tesla,driver>=384,driver<385";
    assert_eq!(
        shown(tesla).unwrap(),
        "Cuda >=10.2 | tesla & Driver >=384 & Driver <385"
    );
    assert_eq!(
        shown("arch>=7.0,brand!=geforce").unwrap(),
        "Arch >=7.0 & not geforce"
    );
    assert_eq!(
        shown("cuda=12.4,driver!=470.57.02").unwrap(),
        "Cuda =12.4.0 & Driver !=470.57.02"
    );
    assert_eq!(
        shown("driver<=550\n driver>580").unwrap(),
        "Driver <=550.0.0 | Driver >580.0.0"
    );
}

#[test]
fn unknown_conditions_are_skipped_and_nonsense_is_an_error() {
    assert_eq!(shown("").unwrap(), "");
    assert_eq!(shown("colour=blue").unwrap(), "");
    assert_eq!(shown("colour=blue,cuda>=12 shape>4").unwrap(), "Cuda >=12");
    for (text, part) in [
        ("cuda>=12 nonsense", "nonsense"),
        ("cuda>=", "cuda>="),
        ("cuda>=twelve", "cuda>=twelve"),
        ("driver!470", "driver!470"),
        ("brand<tesla", "brand<tesla"),
        ("cuda=>12", "cuda=>12"),
    ] {
        assert_eq!(require::parse(text), Err(part), "{text}");
    }
}

#[test]
fn a_project_is_what_it_declares() {
    let text = "[project]\nname = 'a'\n[tool.uv.workspace]\nmembers = ['packages/*', './tool']\nexclude = ['packages/old']\n";
    let project = PyProject::parse(text);
    assert!(project.is_project && !project.is_unmanaged);
    let workspace = project.workspace.unwrap();
    for (below, expected) in [
        ("packages/a", true),
        ("tool", true),
        ("packages/old", false),
        ("packages/a/b", false),
        ("x", false),
    ] {
        assert_eq!(workspace.has(Path::new(below)), expected, "{below}");
    }
    assert!(!PyProject::parse("[tool.ruff]\n").is_project);
    assert!(PyProject::parse("[tool.uv]\nmanaged = false\n").is_unmanaged);
    assert_eq!(PyProject::parse("[broken"), PyProject::default());
}

#[test]
fn scripts_with_metadata_are_told_from_others() {
    assert!(project::has_inline_metadata(
        "#!/usr/bin/env python\n# /// script\n# dependencies = []\n# ///\n"
    ));
    assert!(!project::has_inline_metadata("print('# /// script')\n"));
}

/// A program with this table, and something behind it.
fn packed(entries: &[(u8, &str)]) -> Vec<u8> {
    let mut table = Vec::new();
    for (kind, name) in entries {
        table.extend(((18 + name.len() + 1) as u32).to_be_bytes());
        table.extend([0; 13]);
        table.push(*kind);
        table.extend(name.as_bytes());
        table.push(0);
    }
    let contents = b"contents";
    let mut data = [
        b"\x7fELF and so on".as_slice(),
        contents,
        &table,
        b"MEI\x0c\x0b\x0a\x0b\x0e",
    ]
    .concat();
    let length = contents.len() + table.len() + 88;
    for number in [length, contents.len(), table.len(), 311] {
        data.extend((number as u32).to_be_bytes());
    }
    data.extend([0; 64]);
    data.extend(b"headers");
    data
}

#[test]
fn a_packed_program_lists_its_libraries() {
    let data = packed(&[
        (b'o', "pyi-contents-directory _internal"),
        (b's', "app"),
        (b'b', "nvidia/libcudnn.so.9"),
    ]);
    let archive = pyinstaller::archive(&data).unwrap();
    assert_eq!(archive.libraries, ["nvidia/libcudnn.so.9"]);
    assert_eq!(archive.directory.as_deref(), Some("_internal"));
}

#[test]
fn a_damaged_archive_gives_a_result() {
    let data = packed(&[(b'b', "libcudart.so.12"), (b's', "app")]);
    for length in 0..data.len() {
        let _ = pyinstaller::archive(&data[..length]);
    }
    for index in 0..data.len() {
        let mut bad = data.clone();
        bad[index] ^= 0xff;
        let _ = pyinstaller::archive(&bad);
    }
    assert_eq!(pyinstaller::archive(b"MEI"), None);
}
