//! `cudarun hook systemd`: units and drop-ins as systemd reads them, and the faults. A real systemd starts such services in
//! `tests/beside.sh`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use cudarun::hooks::unit::{commands, settings, word};

use crate::support::{CUDARUN, Run, copy_program};

#[test]
fn a_unit_is_read_as_systemd_does() {
    let text = "\u{feff}# ExecStart=/comment\n[Unit]\nExecStart=/unit\n[Service]\n ; ExecStart=/comment\nExecStart = /a \\\n# a comment \
                inside\n  b \\\\\nExecStart=\nType=simple\nno setting\n[Install]\nExecStart=/install\n[Service]\nUser=x \\";
    let found = settings(text, "Service");
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            ("ExecStart", "/a  b \\\\"),
            ("ExecStart", ""),
            ("Type", "simple"),
            ("User", "x")
        ]
    );
    for hostile in [
        "",
        "[Service",
        "[Service]\n=",
        "[Service]\n\\",
        "\\\n\\\n",
        "[Service]\r\nA=b\r\n",
    ] {
        settings(hostile, "Service");
    }
    assert_eq!(
        settings("[Service]\r\nA=b\r\n", "Service"),
        [("A".to_owned(), "b".to_owned())]
    );
}

/// The command, and the one through `/c`.
#[test]
fn every_form_of_a_command_is_started_through_cudarun() {
    for (before, after) in [
        ("/bin/a b", Some("/c /bin/a b")),
        ("-/bin/a", Some("-/c /bin/a")),
        ("-!/bin/a", Some("-!/c /bin/a")),
        ("!!/bin/a", Some("!!/c /bin/a")),
        ("+ /bin/a", Some("+/c /bin/a")),
        ("|/bin/a", Some("|/c /bin/a")),
        (":/bin/$a $b", Some(":/c /bin/$a $b")),
        ("/bin/$a $b", Some("/c /bin/$$a $b")),
        ("@/bin/a a b", Some("/c /bin/a b")),
        ("-@/bin/a /usr/bin/a b", Some("-/c /bin/a b")),
        ("@/bin/a other", None),
        ("@/bin/a", None),
        ("a b", Some("/c -- a b")),
        ("trace", Some("/c -- trace")),
        ("%h/bin/a", Some("/c %h/bin/a")),
        (
            "/bin/sh -c 'x; y' \\; \"a b\\\" ; c\"",
            Some("/c /bin/sh -c 'x; y' \\; \"a b\\\" ; c\""),
        ),
        ("\"/opt/my app/a\" b", Some("/c \"/opt/my app/a\" b")),
        ("-", None),
    ] {
        let found = commands(before).unwrap();
        assert_eq!(found.len(), 1, "{before}");
        assert_eq!(found[0].through("/c").as_deref(), after, "{before}");
    }
    let two = commands("/bin/a ; -/bin/b c ;").unwrap();
    assert_eq!(
        two.iter()
            .map(|it| it.through("/c").unwrap())
            .collect::<Vec<_>>(),
        ["/c /bin/a", "-/c /bin/b c"]
    );
    assert_eq!(commands("/bin/a 'b"), None);
    assert!(commands(" ; ").unwrap().is_empty());
    assert_eq!(word("/opt/50% off/c\"d"), "\"/opt/50%% off/c\\\"d\"");
}

/// A home with services of the person's own.
struct Home(tempfile::TempDir);

const PACKAGED: &str = ".local/share/systemd/user";
const OWN: &str = ".config/systemd/user";

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), text).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let words = ["hook", "systemd", "--user"].iter().chain(arguments);
        Run::new(words).env("HOME", self.0.path())
    }

    /// The commands of the drop-in for a unit.
    fn commands(&self, unit: &str) -> Vec<String> {
        let text = self.run(&["--print", unit]).any_stdout().check();
        let own = fs::canonicalize(CUDARUN).unwrap();
        let own = own.to_str().unwrap();
        let values = settings(&text, "Service")
            .into_iter()
            .filter(|(key, _)| key == "ExecStart");
        let mut values = values.map(|(_, value)| value.replace(own, "CUDARUN"));
        assert_eq!(values.next().as_deref(), Some(""), "{text}");
        values.collect()
    }
}

#[test]
fn a_drop_in_is_written_shown_and_removed() {
    let home = Home::new();
    home.write(
        &format!("{PACKAGED}/model.service"),
        "[Service]\nExecStart=-/bin/a b\nExecStart=/bin/c\n",
    );
    let own = fs::canonicalize(CUDARUN).unwrap();
    for _ in 0..2 {
        let shown = home.run(&["model"]).any_stdout().check();
        let first = format!("+ExecStart=-{} /bin/a b\n", own.display());
        for part in [
            "model.service starts with cudarun",
            "\n-ExecStart=-/bin/a b\n",
            &first,
            "/zz-cudarun.conf\n",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
        assert!(shown.ends_with(
            "\nnext: systemctl --user daemon-reload && systemctl --user restart model.service\n"
        ));
    }
    let file = home.path(&format!("{OWN}/model.service.d/zz-cudarun.conf"));
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(
        text,
        home.run(&["--print", "model.service"]).any_stdout().check()
    );
    assert_eq!(
        home.commands("model"),
        ["-CUDARUN /bin/a b", "CUDARUN /bin/c"]
    );
    assert!(
        text.contains("RestartPreventExitStatus=125\n") && !text.contains("CacheDirectory"),
        "{text}"
    );
    // The package is gone, and the drop-in can go too.
    fs::remove_dir_all(home.path(".local")).unwrap();
    home.run(&["model", "--uninstall"])
        .stdout_contains(&[
            "starts without cudarun",
            "next: systemctl --user daemon-reload",
        ])
        .check();
    assert!(!home.path(".config").exists());
    home.run(&["model", "--uninstall"])
        .stdout_contains(&["nothing to remove"])
        .status(1)
        .check();
}

#[test]
fn the_commands_are_those_that_count() {
    let home = Home::new();
    let packaged = |name: &str, text: &str| home.write(&format!("{PACKAGED}/{name}"), text);
    let own = |name: &str, text: &str| home.write(&format!("{OWN}/{name}"), text);
    packaged("a-b.service", "[Service]\nExecStart=/packaged\n");
    packaged(
        "a-b.service.d/10.conf",
        "[Service]\nExecStart=\nExecStart=/ten\n",
    );
    assert_eq!(home.commands("a-b"), ["CUDARUN /ten"]);
    // One of the same name in a stronger directory replaces it, and an empty or a linked one hides it.
    own("a-b.service.d/10.conf", "[Service]\nExecStart=/also\n");
    assert_eq!(home.commands("a-b"), ["CUDARUN /packaged", "CUDARUN /also"]);
    fs::remove_file(home.path(&format!("{OWN}/a-b.service.d/10.conf"))).unwrap();
    symlink(
        "/dev/null",
        home.path(&format!("{OWN}/a-b.service.d/10.conf")),
    )
    .unwrap();
    assert_eq!(home.commands("a-b"), ["CUDARUN /packaged"]);
    own(
        "a-.service.d/override.conf",
        "[Service]\nExecStart=\nExecStart=/prefix\n",
    );
    own("service.d/x.conf", "[Service]\nExecStart=/all\n");
    own("a-b.service.d/x.txt", "[Service]\nExecStart=/no\n");
    assert_eq!(home.commands("a-b"), ["CUDARUN /prefix", "CUDARUN /all"]);
    // A unit in a stronger directory replaces the packaged one.
    own("a-b.service", "[Service]\nExecStart=\nExecStart=/own\n");
    fs::remove_dir_all(home.path(&format!("{OWN}/a-.service.d"))).unwrap();
    assert_eq!(home.commands("a-b"), ["CUDARUN /own", "CUDARUN /all"]);
    // What `systemctl edit` writes comes before ours; nothing may come after.
    own("a-b.service.d/zzz.conf", "[Service]\nExecStart=/late\n");
    home.run(&["a-b"])
        .stderr_contains(&["zzz.conf has an ExecStart= and is read after"])
        .status(2)
        .check();
}

#[test]
fn templates_instances_and_other_names() {
    let home = Home::new();
    let packaged = |name: &str, text: &str| home.write(&format!("{PACKAGED}/{name}"), text);
    packaged("model@.service", "[Service]\nExecStart=/serve %i\n");
    packaged("model@.service.d/a.conf", "[Service]\nExecStart=/more\n");
    assert_eq!(
        home.commands("model@one"),
        ["CUDARUN /serve %i", "CUDARUN /more"]
    );
    home.run(&["-q", "model@one"]).check();
    assert!(
        home.path(&format!("{OWN}/model@one.service.d/zz-cudarun.conf"))
            .exists()
    );
    home.run(&["model@"])
        .stdout_contains(&["restart 'model@*.service'"])
        .check();
    assert!(
        home.path(&format!("{OWN}/model@.service.d/zz-cudarun.conf"))
            .exists()
    );
    home.run(&["-q", "--uninstall", "model@one"]).check();
    home.run(&["-q", "--uninstall", "model@"]).check();
    assert!(!home.path(".config").exists());
    // A link to another unit is that unit, whose name counts for drop-ins.
    symlink(
        "model@.service",
        home.path(&format!("{PACKAGED}/other@.service")),
    )
    .unwrap();
    packaged("long.service", "[Service]\nExecStart=/long\n");
    symlink(
        "long.service",
        home.path(&format!("{PACKAGED}/alias.service")),
    )
    .unwrap();
    home.run(&["alias"])
        .stdout_contains(&["long.service starts with cudarun", "long.service.d"])
        .check();
    home.run(&["alias", "--uninstall"]).any_stdout().check();
    assert!(!home.path(".config").exists());
}

#[test]
fn what_cannot_be_changed_is_refused_with_the_next_command() {
    let home = Home::new();
    let packaged = |name: &str, text: &str| home.write(&format!("{PACKAGED}/{name}.service"), text);
    packaged("empty", "");
    packaged("bare", "[Unit]\nExecStart=/no\n");
    packaged("quote", "[Service]\nExecStart=/a 'b\n");
    packaged("named", "[Service]\nExecStart=@/bin/busybox sh\n");
    packaged("root", "[Service]\nRootDirectory=/srv/root\nExecStart=/a\n");
    packaged(
        "unrooted",
        "[Service]\nRootDirectory=/srv/root\nRootDirectory=\nExecStart=/a\n",
    );
    packaged("done", "[Service]\nExecStart=-/usr/local/bin/cudarun /a\n");
    packaged(
        "half",
        "[Service]\nExecStart=/usr/bin/cudarun /a\nExecStart=/b\n",
    );
    fs::write(
        home.path(&format!("{PACKAGED}/bytes.service")),
        b"[Service]\nExecStart=/\xff\n",
    )
    .unwrap();
    symlink(
        "/dev/null",
        home.path(&format!("{PACKAGED}/masked.service")),
    )
    .unwrap();
    symlink("gone", home.path(&format!("{PACKAGED}/gone.service"))).unwrap();
    for (unit, says) in [
        (
            "missing",
            &[
                "systemd has no unit `missing.service` for your own",
                "hint: systemctl --user list-unit-files",
            ][..],
        ),
        (
            "ssh.socket",
            &[
                "`ssh.socket` is not a service",
                "hint: cudarun hook systemd ssh.service",
            ],
        ),
        ("../../etc/passwd", &["is not the name of a service"]),
        ("a b", &["`a b` is not the name of a service"]),
        ("\u{1b}[31m", &["`\\u{1b}[31m` is not the name"]),
        ("", &["is not the name of a service"]),
        (".service", &["is not the name of a service"]),
        (
            "masked",
            &["masked", "hint: systemctl unmask masked.service"],
        ),
        ("empty", &["masked"]),
        ("bare", &["has no ExecStart="]),
        ("quote", &["a quote does not end", "less "]),
        ("named", &["the program gets another name"]),
        (
            "root",
            &[
                "RootDirectory= in ",
                "hint: put cudarun into that directory",
            ],
        ),
        ("bytes", &["cannot be read"]),
        ("gone", &["cannot be read"]),
    ] {
        home.run(&[unit]).stderr_contains(says).status(2).check();
        assert!(!home.path(".config").exists(), "{unit}");
    }
    home.run(&["done"])
        .stdout_contains(&["done.service starts with cudarun already"])
        .check();
    assert!(!home.path(".config").exists());
    assert_eq!(home.commands("half"), ["/usr/bin/cudarun /a", "CUDARUN /b"]);
    assert_eq!(home.commands("unrooted"), ["CUDARUN /a"]);
    // A file of that name that is not cudarun's.
    let theirs = format!("{OWN}/half.service.d/zz-cudarun.conf");
    home.write(&theirs, "[Service]\n");
    for arguments in [&["half"][..], &["half", "--uninstall"]] {
        home.run(arguments)
            .stderr_contains(&["exists, and is not cudarun's"])
            .status(2)
            .check();
    }
    assert_eq!(
        fs::read_to_string(home.path(&theirs)).unwrap(),
        "[Service]\n"
    );
    Run::new(["hook", "systemd"])
        .stderr_contains(&["<PYTHON|UNIT>"])
        .status(2)
        .check();
    for arguments in [
        &["bash", "x"][..],
        &["fish", "--uninstall"],
        &["systemd", "x", "--name", "y"],
    ] {
        let words = ["hook"].iter().chain(arguments);
        Run::new(words)
            .stderr_contains(&["cannot be used with 'hook "])
            .status(2)
            .check();
    }
    // The test's own binary is where no service of the machine may look.
    let copy = home.path("cudarun");
    copy_program(CUDARUN, &copy);
    let run = std::process::Command::new(&copy)
        .args(["hook", "systemd", "--print", "systemd-journald"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(2), "{said}");
    assert!(
        said.contains("a service may not see cudarun")
            || said.contains("another user can replace cudarun")
            || said.contains("systemd has no unit"),
        "{said}"
    );
}
