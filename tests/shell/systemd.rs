//! `cudarun hook systemd`: units and drop-ins as systemd reads them, and the faults. A real systemd starts such services in
//! `tests/beside.sh`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use cudarun::environment::Environment;
use cudarun::hooks::systemd::caches;
use cudarun::hooks::unit::{commands, settings, word};
use cudarun::host::Host;
use cudarun::report::{Style, drop_in_removed};

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
    // systemd takes the quotes away before it looks for prefixes.
    for quoted in ["\"-/bin/a b\" c", "-'@/bin/a b'", "/bin/a ; \"!/bin/b\""] {
        assert_eq!(commands(quoted), None, "{quoted}");
    }
    let quoted = &commands("-\"/bin/a b\" -c").unwrap()[0];
    assert_eq!(quoted.through("/c").unwrap(), "-/c \"/bin/a b\" -c");
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

/// As a systemd 252 showed them: `systemctl --user show --property=Names,DropInPaths`.
#[test]
fn drop_ins_of_every_name_count_in_the_order_of_systemd() {
    let home = Home::new();
    let drop_in = |directory: &str, name: &str, command: &str| {
        let file = format!("{directory}/{name}.conf");
        home.write(&file, &format!("[Service]\nExecStart={command}\n"));
    };
    let packaged = |name: &str| home.write(&format!("{PACKAGED}/{name}.service"), "[Service]\n");
    let link = |to: &str, name: &str| symlink(to, home.path(&format!("{name}.service"))).unwrap();
    packaged("long");
    link("long.service", &format!("{PACKAGED}/alias"));
    link("alias.service", &format!("{PACKAGED}/chain"));
    link("long.service", &format!("{PACKAGED}/p-q"));
    link("long.service", &format!("{PACKAGED}/mine"));
    home.write(&format!("{OWN}/mine.service"), "[Service]\n");
    link(
        home.path(&format!("{PACKAGED}/long.service"))
            .to_str()
            .unwrap(),
        &format!("{OWN}/enabled"),
    );
    drop_in(&format!("{PACKAGED}/alias.service.d"), "10a", "/alias");
    drop_in(&format!("{PACKAGED}/chain.service.d"), "20", "/chain");
    drop_in(&format!("{PACKAGED}/enabled.service.d"), "30", "/enabled");
    drop_in(&format!("{PACKAGED}/p-.service.d"), "40", "/prefix");
    // Another unit of this name hides the link.
    drop_in(&format!("{PACKAGED}/mine.service.d"), "50", "/mine");
    // Of one name, the unit's own in a weak directory wins over another name's.
    drop_in(&format!("{PACKAGED}/long.service.d"), "60", "/own");
    drop_in(&format!("{OWN}/alias.service.d"), "60", "/other");
    let all = ["/alias", "/chain", "/enabled", "/prefix", "/own"].map(|it| format!("CUDARUN {it}"));
    for name in ["long", "alias", "chain", "enabled"] {
        assert_eq!(home.commands(name), all, "{name}");
    }
    assert_eq!(home.commands("mine"), ["CUDARUN /mine"]);
    // A stronger directory wins over a longer name.
    packaged("a-b");
    drop_in(&format!("{PACKAGED}/a-b.service.d"), "10", "/longer");
    drop_in(&format!("{OWN}/a-.service.d"), "10", "/stronger");
    assert_eq!(home.commands("a-b"), ["CUDARUN /stronger"]);
    // The names of a template are those of its instances.
    packaged("m-x@");
    link("m-x@.service", &format!("{PACKAGED}/other@"));
    link("m-x@.service", &format!("{PACKAGED}/m-x@three"));
    drop_in(&format!("{PACKAGED}/other@.service.d"), "10", "/other");
    drop_in(&format!("{PACKAGED}/other@one.service.d"), "20", "/one");
    drop_in(&format!("{PACKAGED}/m-@.service.d"), "30", "/all");
    drop_in(&format!("{PACKAGED}/m-x@three.service.d"), "40", "/three");
    for (name, found) in [
        ("m-x@one", &["/other", "/one", "/all"][..]),
        ("other@one", &["/other", "/one", "/all"]),
        ("m-x@three", &["/other", "/all", "/three"]),
        ("m-x@", &["/other", "/all"]),
    ] {
        let found: Vec<String> = found.iter().map(|it| format!("CUDARUN {it}")).collect();
        assert_eq!(home.commands(name), found, "{name}");
    }
    home.run(&["other@one"])
        .stdout_contains(&["m-x@one.service starts with cudarun"])
        .check();
    // A file elsewhere has the name of the link to it.
    home.write("app/serve.service", "[Service]\nExecStart=/serve\n");
    link("../../../app/serve.service", &format!("{OWN}/linked"));
    home.run(&["linked"])
        .stdout_contains(&["linked.service starts with cudarun", "linked.service.d"])
        .check();
    // A circle ends.
    link("round.service", &format!("{OWN}/round"));
    home.run(&["round"])
        .stderr_contains(&["cannot be read"])
        .status(2)
        .check();
}

#[test]
fn what_is_left_of_caches_is_named() {
    let machine = tempfile::tempdir().unwrap();
    let place = |name: &str| machine.path().join("var/cache").join(name);
    let left = |unit: &str| {
        let host = Host::at(machine.path(), Environment::default(), "/".into()).unwrap();
        caches(&host, unit)
    };
    assert!(left("model.service").is_empty());
    // With DynamicUser=yes, it is a link.
    fs::create_dir_all(place("cudarun")).unwrap();
    fs::create_dir_all(place("private/cudarun/model")).unwrap();
    symlink("../private/cudarun/model", place("cudarun/model")).unwrap();
    assert_eq!(
        left("model.service"),
        ["/var/cache/cudarun", "/var/cache/private/cudarun"].map(PathBuf::from)
    );
    fs::create_dir(place("cudarun/model@one")).unwrap();
    fs::create_dir(place("cudarun/model@two")).unwrap();
    assert_eq!(
        left("model.service"),
        ["/var/cache/cudarun/model", "/var/cache/private/cudarun"].map(PathBuf::from)
    );
    let instances = [
        "/var/cache/cudarun/model@one",
        "/var/cache/cudarun/model@two",
    ];
    assert_eq!(left("model@.service"), instances.map(PathBuf::from));
    assert_eq!(left("model@two.service"), [PathBuf::from(instances[1])]);
    assert!(left("other.service").is_empty());
    // The command that is said for them.
    let said = drop_in_removed(
        "model@.service",
        "/f".as_ref(),
        &instances.map(PathBuf::from),
        false,
        Style::default(),
    );
    let end = " && rm -r /var/cache/cudarun/model@one /var/cache/cudarun/model@two\n";
    assert!(said.ends_with(end), "{said}");
    let said = drop_in_removed("model.service", "/f".as_ref(), &[], false, Style::default());
    assert!(!said.contains("rm "), "{said}");
}

#[test]
fn what_cannot_be_changed_is_refused_with_the_next_command() {
    let home = Home::new();
    let packaged = |name: &str, text: &str| home.write(&format!("{PACKAGED}/{name}.service"), text);
    packaged("empty", "");
    packaged("bare", "[Unit]\nExecStart=/no\n");
    packaged("quote", "[Service]\nExecStart=/a 'b\n");
    packaged("named", "[Service]\nExecStart=@/bin/busybox sh\n");
    packaged("quoted", "[Service]\nExecStart=\"-/opt/my app/a\" b\n");
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
        ("quoted", &["or has a prefix in it", "less "]),
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
        .stderr_contains(&[
            "were not provided:\n  <UNIT>\n",
            "cudarun hook systemd [OPTIONS] <UNIT>",
        ])
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
    Run::new(["hook", "fish", "--uninstall"])
        .stderr_contains(&["remove the line with `cudarun hook fish` from the shell's start-up"])
        .status(2)
        .check();
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
