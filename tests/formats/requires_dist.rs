//! `Requires-Dist` lines of Python's METADATA, as PEP 508 and older tools write them.

use cudarun::formats::metadata::{Requires, requirements};

fn read(line: &str) -> Option<Requires> {
    requirements(&format!("Requires-Dist: {line}")).pop()
}

/// Name, extras, versions, `optional` and `extra` of a line that is a requirement.
fn row(line: &str) -> (String, String, String, bool, Option<String>) {
    let read = read(line).unwrap_or_else(|| panic!("`{line}` is a requirement"));
    (
        read.name,
        read.extras.join(","),
        read.versions,
        read.optional,
        read.extra,
    )
}

fn extra(marker: &str) -> (bool, Option<String>) {
    let (.., optional, extra) = row(&format!("a; {marker}"));
    (optional, extra)
}

#[test]
fn both_syntaxes_give_equal_requirements() {
    let pairs = [
        (
            "Foo_Bar[X.y, z] >=1.0, <2; extra == 'Dev_x'",
            "foo.bar[x-y,z](<2,>= 1.0);extra=='dev-x'",
        ),
        ("a", " a ( ) "),
        (
            "a ==9.1.0.*; os_name=='nt'",
            "a (==9.1.0.*) ; 'nt' == os_name",
        ),
        ("a[] ~=1.4", "a(~=1.4)"),
    ];
    for (new, old) in pairs {
        assert_eq!(row(new), row(old), "{new}");
    }
    let expected = (
        "foo-bar".into(),
        "x-y,z".into(),
        ">=1.0, <2".into(),
        true,
        Some("dev-x".into()),
    );
    assert_eq!(row(pairs[0].0), expected);
    let url = "a[b] @ https://x.example/a;b#sha=1 ; extra == 'c'";
    assert_eq!(
        row(url),
        (
            "a".into(),
            "b".into(),
            String::new(),
            true,
            Some("c".into())
        )
    );
}

#[test]
fn a_marker_names_extras() {
    let needed = |name: &str| (true, Some(name.to_owned()));
    assert_eq!(
        extra("extra == 'x' and python_version<'3' or 'X'==extra"),
        needed("x")
    );
    assert_eq!(
        extra("(os_name == 'nt' or os_name == 'posix')and(extra === \"x\")"),
        needed("x")
    );
    assert_eq!(extra("extra == 'x' or extra == 'y'"), (true, None));
    assert_eq!(
        extra("python_version not  in '2.7' or extra == 'y'"),
        needed("y")
    );
    // Nothing else in a marker is read.
    for marker in [
        "extra == 'x' or",
        "home == 'x' and (extra == 'x'",
        "\u{fc} 'x' ===extra)",
    ] {
        assert_eq!(extra(marker), needed("x"), "{marker}");
    }
    for marker in [
        "extra = 'x'",
        "extra == 'x",
        "",
        "myextra == 'x'",
        "'x' == extras",
    ] {
        assert_eq!(extra(marker), (false, None), "{marker}");
    }
    // Without a comparison by `==` it counts always.
    assert_eq!(extra("extra != 'x'"), (false, None));
    assert_eq!(
        extra("os_name == 'extra == x' and platform.version in \"1\""),
        (false, None)
    );
    assert!(!read("my-extra ==1.0").unwrap().optional);
}

/// `pep508_rs` 0.9.2, which read these before, panicked on each of the first eight, and a release build aborts.
#[test]
fn lines_that_ended_a_start_are_no_requirements() {
    let lines = [
        "l-@",
        "foo_>=2",
        "foo.; os_name == 'nt'",
        "name- @ https://x.example/a.whl",
        "a[a.",
        "a[a.]",
        "foo[bar-]>=1",
        "",
        "-a",
        "a @",
        "a @ ; os_name == 'nt'",
        "a (>=1",
        "a >=1,",
        "a [x",
        "a [x,]",
        "a b",
        "\u{fffd}a >=1",
    ];
    for line in lines {
        assert_eq!(read(line), None, "{line}");
    }
    // The lines around one still count.
    for line in lines {
        let text =
            format!("Name: n\nRequires-Dist: a >=1\nRequires-Dist: {line}\nRequires-Dist: b\n");
        let names: Vec<_> = requirements(&text)
            .into_iter()
            .map(|requires| requires.name)
            .collect();
        assert_eq!(names, ["a", "b"], "{line}");
    }
}

/// `pep508_rs` 0.9.2 overflowed the stack at 10,000 parentheses.
#[test]
fn parentheses_nest_without_a_limit() {
    let (open, close) = ("(".repeat(1_000_000), ")".repeat(1_000_000));
    assert_eq!(
        extra(&format!("{open}extra == 'x'{close}")),
        (true, Some("x".into()))
    );
    assert_eq!(extra(&open), (false, None));
}

#[test]
fn long_lines_are_read_whole() {
    let repeated = |start: &str, part: &str, by: &str| {
        read(&(start.to_owned() + &vec![part; 100_000].join(by)))
    };
    assert_eq!(repeated("a", "b", "").unwrap().name.len(), 100_001);
    assert_eq!(
        repeated("a ", ">=1", ",")
            .unwrap()
            .lower_bound()
            .unwrap()
            .to_string(),
        "1"
    );
    assert_eq!(
        repeated("a; ", "extra == 'x'", " or ")
            .unwrap()
            .extra
            .as_deref(),
        Some("x")
    );
    assert_eq!(
        repeated("a; ", "extra == 'x'", " and ")
            .unwrap()
            .extra
            .as_deref(),
        Some("x")
    );
    assert_eq!(
        repeated("a ==", "9", "")
            .unwrap_or_else(|| read("a").unwrap())
            .pinned(),
        None
    );
    assert_eq!(
        repeated("a ==", "1", ".")
            .unwrap()
            .pinned()
            .unwrap()
            .to_string(),
        "1.1.1.1.1"
    );
}

const SEEDS: [&str; 12] = [
    "nvidia-cudnn-cu12 (==9.1.0.70) ; platform_system == \"Linux\" and platform_machine == \"x86_64\"",
    "nvidia-cudnn-cu12<10.0,>=9.8; sys_platform == \"linux\" and extra == \"with-cuda\"",
    "cuda-toolkit[cublas,cudart]==13.0.2; platform_system == \"Linux\"",
    "nvidia-cublas==13.1.0.3.*; sys_platform == 'linux' and extra == 'cublas'",
    "importlib-metadata >=3.6 ; (python_version < \"3.10\") and extra == 'all'",
    "typing_extensions (>=4.0.1) ; python_full_version <= \"3.11.2\" or 'Jython' in os.name",
    "black[jupyter]!=24.1.0,~=23.1 ; extra == \"dev\" or extra == \"test\"",
    "jaxlib (<=0.4.38,>=0.4.38.dev1)",
    "triton @ https://x.example/triton-3.1.0+cu12.whl#sha256=ab ; platform_system not in 'Windows'",
    "numpy===1.26.4+local.1",
    "Pillow!=8.3.*,>=5.3.0rc1.post2",
    "pytz>=1!2020.1",
];
const PIECES: [&str; 24] = [
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    "'",
    "\"",
    " ",
    "@",
    "-",
    "_",
    ".",
    ".*",
    "==",
    "~=",
    "!",
    "and",
    " or ",
    "extra",
    "\u{fc}",
    "\u{a0}",
    "18446744073709551616",
    "+",
];

fn mutated(rounds: usize) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % (below as u64)).unwrap()
    };
    let mut requirements = 0;
    for _ in 0..rounds {
        let mut line: Vec<char> = SEEDS[random(SEEDS.len())].chars().collect();
        for _ in 0..=random(3) {
            let at = random(line.len() + 1);
            match random(4) {
                0 => line.truncate(at),
                1 => drop(line.drain(at..line.len().min(at + 1))),
                2 => drop(line.splice(at..at, PIECES[random(PIECES.len())].chars())),
                _ => {
                    let other: Vec<char> = SEEDS[random(SEEDS.len())].chars().collect();
                    line.truncate(at);
                    line.extend(&other[random(other.len() + 1)..]);
                }
            }
        }
        let line: String = line.into_iter().collect();
        let Some(read) = read(&line) else { continue };
        requirements += 1;
        let _ = (read.pinned(), read.lower_bound());
        assert!(
            !read.name.is_empty() && (read.optional || read.extra.is_none()),
            "{line}: {read:?}"
        );
    }
    assert!(
        (rounds / 10..rounds).contains(&requirements),
        "{requirements} of {rounds} lines were requirements"
    );
}

#[test]
fn mutated_lines_are_read_or_refused() {
    mutated(200_000);
}

#[test]
#[ignore = "five times the lines: cargo test -- --ignored million"]
fn a_million_mutated_lines_are_read_or_refused() {
    mutated(1_000_000);
}
