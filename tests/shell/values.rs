//! Values as code for shells. Real shells read it back.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use cudarun::cli::Dialect;
use cudarun::report::{self, quoted_to_show, watch};

fn shell_change(name: &str, value: Option<&[u8]>, dialect: Dialect) -> Option<String> {
    report::shell_change(OsStr::new(name), value.map(OsStr::from_bytes), dialect)
}

/// Values that break what quotes carelessly.
fn values() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = [
        "",
        "/a:/b c",
        "it's",
        "'",
        "''",
        "'''",
        "a'\n'b",
        "\n",
        "\n\n",
        "text\n",
        "$(touch code) `touch code` ${HOME} $HOME",
        "\\",
        "\\\\",
        "a\\",
        "\\'",
        "\\n\\x41",
        "\" !history * ? [a] {a,b} ~ # ; & | < > ( )",
        "%s %% \\045",
        "\r\t\x07\x1b[31m\x7f",
        "ä ß 語 🐟 \u{f6aa} \u{fdd0}",
        "-n",
        "::",
        ":/a::/b:",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    values.extend(
        [
            &b"\xff"[..],
            b"\xff\n",
            b"a\xc3",
            b"\xc3('\xfe'\\\xfd\n\xfc",
            b"/caf\xe9:/b",
        ]
        .map(<[u8]>::to_vec),
    );
    values.push((1..=255).collect());
    values
}

/// The environment of a program that a shell starts after this code.
fn environment(shell: &[&str], code: &str, locale: &str) -> Vec<Vec<u8>> {
    let all = format!("{code}\nexec env -0\n");
    let mut command = Command::new(shell[0]);
    command
        .args(&shell[1..])
        .arg(all)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("GONE", "1");
    command
        .env("LC_ALL", locale)
        .env("HOME", "/nonexistent")
        .current_dir("/");
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert!(
        output.stderr.is_empty(),
        "{shell:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
        .stdout
        .split(|byte| *byte == 0)
        .map(<[u8]>::to_vec)
        .collect()
}

#[test]
fn every_shell_reads_any_value_back() {
    let shells: [(&[&str], Dialect); 7] = [
        (&["sh", "-c"], Dialect::Sh),
        (&["dash", "-c"], Dialect::Sh),
        (&["bash", "-c"], Dialect::Sh),
        (&["bash", "-euo", "pipefail", "-c"], Dialect::Direnv),
        (&["zsh", "-f", "-c"], Dialect::Sh),
        (&["zsh", "-f", "-o", "rc_quotes", "-c"], Dialect::Sh),
        (&["fish", "--no-config", "-c"], Dialect::Fish),
    ];
    for (shell, dialect) in shells {
        if Command::new(shell[0])
            .args(["-c", "true"])
            .output()
            .is_err()
        {
            assert!(
                std::env::var_os("CUDARUN_TESTS_ALL").is_none(),
                "no {}",
                shell[0]
            );
            continue;
        }
        for locale in ["C.UTF-8", "C"] {
            let values = values();
            let mut code = String::new();
            // fish splits variables with such names at colons, and joins them again.
            for end in ["", "_PATH"] {
                for (index, value) in values.iter().enumerate() {
                    let name = format!("V{index}{end}");
                    code.push_str(&shell_change(&name, Some(value), dialect).unwrap());
                }
            }
            code.push_str(&shell_change("GONE", None, dialect).unwrap());
            let got = environment(shell, &code, locale);
            for end in ["", "_PATH"] {
                for (index, value) in values.iter().enumerate() {
                    let wanted = [format!("V{index}{end}=").as_bytes(), value].concat();
                    assert!(
                        got.contains(&wanted),
                        "{shell:?} {locale}: {}",
                        wanted.escape_ascii()
                    );
                }
            }
            assert!(
                !got.iter().any(|variable| variable.starts_with(b"GONE=")),
                "{shell:?}"
            );
        }
    }
}

/// Lua takes any byte, Tcl any text.
#[test]
fn languages_of_module_files_read_any_value_back() {
    let languages = [
        (
            "tclsh",
            Dialect::Module,
            "proc setenv {_ value} { puts -nonewline \"$value\\0\" }\nfconfigure stdout -translation binary -encoding utf-8\n",
        ),
        (
            "lua5.3",
            Dialect::Lua,
            "function setenv(_, value) io.write(value, '\\0') end\n",
        ),
    ];
    for (language, dialect, prologue) in languages {
        if crate::support::lacks(language) {
            continue;
        }
        let mut values = values();
        values.push(b"/a{b/new\\file}\nx".to_vec());
        values.retain(|value| dialect == Dialect::Lua || std::str::from_utf8(value).is_ok());
        let mut code = prologue.to_owned();
        for value in &values {
            code.push_str(&shell_change("V", Some(value), dialect).unwrap());
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("code");
        std::fs::write(&file, code).unwrap();
        let output = Command::new(language)
            .arg(&file)
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let got: Vec<&[u8]> = output.stdout.split(|byte| *byte == 0).collect();
        assert!(
            output.stderr.is_empty(),
            "{language}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        for (value, got) in values.iter().zip(got) {
            assert_eq!(
                value.escape_ascii().to_string(),
                got.escape_ascii().to_string(),
                "{language}"
            );
        }
    }
}

#[test]
fn quoted_commands_keep_their_bytes() {
    for value in values() {
        let value = OsStr::from_bytes(&value);
        let code = format!("export X={}", quoted_to_show(value));
        let wanted = [b"X=", value.as_bytes()].concat();
        assert!(
            environment(&["sh", "-c"], &code, "C.UTF-8").contains(&wanted),
            "{code}"
        );
    }
}

#[test]
fn a_name_is_never_code() {
    for name in [
        "",
        "1A",
        "A B",
        "A;touch /code",
        "A\n",
        "A$(id)",
        "Ä",
        "A.B",
        "A-B",
        "A[0]",
    ] {
        for dialect in [
            Dialect::Sh,
            Dialect::Fish,
            Dialect::Direnv,
            Dialect::Module,
            Dialect::Lua,
        ] {
            for value in [Some(&b"x"[..]), None] {
                assert_eq!(shell_change(name, value, dialect), None, "{name}");
            }
        }
    }
    let fine = shell_change("_a1", Some(b"it's $x"), Dialect::Sh);
    assert_eq!(fine.unwrap(), "export _a1='it'\\''s $x'\n");
    assert_eq!(watch(Path::new("/a b")), "watch_file '/a b'\n");
}
