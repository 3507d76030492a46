//! What must not be in a file of `doctor --save`: each test plants a word and looks for it.

use std::fs;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use super::HEALTHY;
use crate::support::machine::Machine;
use crate::support::{CUDARUN, Run, Workshop};

const WORD: &str = "LEAK";
/// A machine on which all is well, with MORE in the place of variables.
static BEGIN: LazyLock<String> = LazyLock::new(|| HEALTHY.replacen("[env]\n", "[env]\nMORE\n", 1));

fn file(path: &str, text: &str) -> String {
    format!(
        "\n[[file]]\npath = \"{path}\"\ntext = {}\n",
        serde_json::to_string(text).unwrap()
    )
}

/// The page, the same as JSON, and the file.
fn all(begin: &str, env: &str, files: &str) -> [String; 3] {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("saved.json");
    let machine = Machine::describe(&(begin.replace("MORE", env) + files));
    let said = |more: &[&str]| {
        let run = Run::on(&machine, more).any_stderr().any_stdout();
        run.in_directory("/").output().0
    };
    let (page, json) = (said(&["doctor", "-v"]), said(&["doctor", "--json"]));
    said(&["doctor", "--save", file.to_str().unwrap()]);
    [page, json, fs::read_to_string(&file).unwrap()]
}

fn saved(env: &str, files: &str) -> String {
    let [_, _, saved] = all(&BEGIN, env, files);
    assert!(!saved.contains(WORD), "{saved}");
    saved
}

#[test]
fn lines_of_start_up_files_are_named_and_not_shown() {
    let bash = r#"TOKEN="abc\"LEAK def" LD_LIBRARY_PATH=/kept/one
LD_LIBRARY_PATH=/kept/two ./run -p LEAK
LD_LIBRARY_PATH=/kept/three # LEAK
export A=LEAK LD_LIBRARY_PATH="/kept/four:$LD_LIBRARY_PATH"; export B='LEAK'
f() { LD_LIBRARY_PATH=/kept/five; }; curl -u LEAK
echo LEAK LD_LIBRARY_PATH LEAK
export PW=LEAK
"#;
    let fish = "set -gx HF_AUTH LEAK; set -gx LD_LIBRARY_PATH /kept/six\n";
    let code = r#"{"env": {"KEY": "LEAK", "LD_LIBRARY_PATH": "/kept/seven", "Z": "LEAK"}}"#;
    let files = [
        file("/home/user/.bashrc", bash),
        file("/home/user/.config/fish/config.fish", fish),
        file("/.vscode/settings.json", code),
    ];
    let kept =
        ["one", "two", "three", "four", "five", "six", "seven"].map(|name| format!("/kept/{name}"));
    let env = format!("LD_LIBRARY_PATH = \"{}\"", kept.join(":"));
    let [page, json, saved] = all(&BEGIN, &env, &files.concat());
    for said in [&page, &json, &saved] {
        assert!(!said.contains(WORD), "{said}");
        assert!(!said.contains("./run"), "{said}");
    }
    for number in [1, 2, 3, 4, 5, 6] {
        assert!(
            page.contains(&format!("~/.bashrc:{number}\n")),
            "{number}: {page}"
        );
    }
    let said = |json: &str| -> Value {
        let page: Value = serde_json::from_str(json).unwrap();
        page["elements"].clone()
    };
    let saved: Value = serde_json::from_str(&saved).unwrap();
    assert_eq!(said(&json), saved["examination"]["elements"]);
}

#[test]
fn no_line_of_a_module_file_is_saved() {
    let tcl = "#%Module\nset root /opt/cudnn\nset pw LEAK\nsetenv DB_PWD LEAK\nsetenv CUDNN_ROOT $root\n\
        prepend-path LD_LIBRARY_PATH $root/lib ;# LEAK\nputs LEAK\n";
    let lua = "local pw = \"LEAK\"\nsetenv(\"DB_PWD\", \"LEAK\")\nprepend_path(\"LD_LIBRARY_PATH\", \"/opt/nccl/lib\")\n";
    let env = "MODULEPATH = \"/modules\"\n_LMFILES_ = \"/modules/cudnn/9:/modules/nccl/2.lua\"\n\
        LD_LIBRARY_PATH = \"/opt/cudnn/lib\"";
    let kept = saved(
        env,
        &(file("/modules/cudnn/9", tcl) + &file("/modules/nccl/2.lua", lua)),
    );
    assert!(kept.contains("/modules/cudnn/9:6"), "the control: {kept}");
}

#[test]
fn values_of_variables_in_settings_are_not_kept_however_they_are_written() {
    let cases = [
        "[env]\nA = \"\"\"\nLEAK\nLEAK = 1\n\"\"\"\n",
        "[env]\nA = \"a\\\"LEAK\" # LEAK\n",
        "[program]\nfoo = { env = { B = \"LEAK\" } }\n",
        "[program]\nbar.env.C = \"LEAK\"\n",
        "\"env\".D = \"LEAK\"\n",
        "[program.z.\"env\"]\nE = \"LEAK\"\n",
        "[env]\nF = [\"LEAK\"]\n",
        "unknown = \"LEAK\"\n[other]\nx = \"LEAK\"\n",
        "locked = true # LEAK\n",
        "[env\nA = \"LEAK\"\n",
    ];
    for case in cases {
        let text = format!("{case}\n[requires]\ndriver = \">=550\"\n");
        for path in ["/.cudarun.toml", "/home/user/.config/cudarun/config.toml"] {
            let kept = saved("", &file(path, &text));
            assert!(kept.contains(&format!("\"{path}")), "the control: {kept}");
        }
    }
}

#[test]
fn only_relevant_variables_are_saved() {
    let env = "NCCL_COMM_ID = \"LEAK:1\"\nNVIDIA_AUTH = \"LEAK\"\nNCCL_X = \"LEAK\"\nLD_X = \"LEAK\"\n\
        CUDA_VISIBLE_DEVICES = \"0\"";
    let kept = saved(env, "");
    let shown = r#"{"kind":"variable","name":"CUDA_VISIBLE_DEVICES","value":"0"}"#;
    assert!(kept.contains(shown), "the control: {kept}");
    assert!(!kept.contains("NCCL_X"), "{kept}");
}

#[test]
fn comments_and_names_of_other_users_are_not_saved() {
    let nccl = "\n[[file]]\npath = \"/nfs/users/LEAK/lib/libnccl.so.2\"\nelf = { soname = \"libnccl.so.2\", \
        needed = [\"/nfs/users/LEAK/libx.so\"], constants = [\"NCCL version 2.20.5+cuda12.4\"] }\n";
    let card = "Model: \t\t NVIDIA H200\nBus Location: \t 0000:00:06.0\nDevice Minor: \t 0\nSerial: \t LEAK\n";
    let files = [
        file(
            "/etc/ld.so.conf",
            "# LEAK\n/opt/kept # LEAK\ninclude /etc/ld.so.conf.d/*.conf\n",
        ),
        file("/etc/ld.so.conf.d/x.conf", "# LEAK\n/opt/more\n"),
        file("/etc/ld.so.preload", "# LEAK\n/opt/preload.so\n"),
        file("/proc/driver/nvidia/gpus/0000:00:06.0/information", card),
        file("/nfs/users/LEAK/lib/x", ""),
        nccl.to_owned(),
    ];
    let begin = BEGIN.replace("/home/user", "/nfs/users/me");
    let [_, _, kept] = all(
        &begin,
        "LD_LIBRARY_PATH = \"/nfs/users/LEAK/lib\"",
        &files.concat(),
    );
    assert!(!kept.contains(WORD), "{kept}");
    for word in ["/nfs/users/someone/lib", "NVIDIA H200", "NCCL"] {
        assert!(kept.contains(word), "{word}: {kept}");
    }
}

#[test]
fn a_home_that_contains_all_homes_changes_no_path() {
    let begin = BEGIN.replace("HOME = \"/home/user\"", "HOME = \"/home\"");
    let [_, _, kept] = all(&begin, "LD_LIBRARY_PATH = \"/home/LEAK/lib\"", "");
    assert!(
        !kept.contains(WORD) && !kept.contains("/home/user/user"),
        "{kept}"
    );
    assert!(kept.contains("/home/someone/lib"), "the control: {kept}");
}

/// Each secret in every place that a description could take it from.
#[test]
fn no_secret_is_saved_wherever_it_is() {
    let secrets = [
        "hf_aBcDeFgHiJkLmNoPqRsTuVw1LEAK",
        "ghp_Zz0123456789Zz0123456789LEAK",
        "AKIAIOSFODNN7EXAMPLELEAK",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9LEAK",
        "https://LEAK@host.example/simple",
    ];
    for secret in secrets {
        // An address is no element of a path.
        let word = if secret.contains("://") { "x" } else { secret };
        let path = format!("/opt/{word}/lib");
        let env = format!(
            "HF_TOKEN = \"{secret}\"\nLD_LIBRARY_PATH = \"{path}\"\nNVIDIA_REQUIRE_X = \"{secret}\"\n\
             CUDA_HOME = \"{path}\"\nCUDARUN_VERIFY = \"{secret}\"\nCUDARUN_PIN = \"cudnn={secret}\""
        );
        let files = [
            file(
                "/home/user/.bashrc",
                &format!("export LD_LIBRARY_PATH={path}\nexport T={secret}\n"),
            ),
            file(
                "/.cudarun.toml",
                &format!("gpu = \"{secret}\"\n[{secret}]\n"),
            ),
            file("/etc/ld.so.preload", &format!("{path}/x.so\n")),
        ];
        let kept = saved(&env, &files.concat());
        assert!(kept.contains("LD_LIBRARY_PATH"), "the control: {kept}");
    }
}

#[test]
fn a_start_that_can_go_on_reports_no_error() {
    let findings = |env: &str, text: &str| {
        let [_, json, _] = all(&BEGIN, env, &file("/.cudarun.toml", text));
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let of_project = ["lock-fault", "not-allowed"];
        let findings = value["findings"].as_array().unwrap().iter();
        let found = findings.filter(|it| of_project.iter().any(|code| it["code"] == *code));
        found
            .map(|it| format!("{} {}", it["severity"], it["code"]).replace('"', ""))
            .collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(findings("", "locked = false\n"), none);
    assert_eq!(findings("CUDARUN_LOCKED = \"no\"", "locked = true\n"), none);
    assert_eq!(
        findings("", "locked = true\n"),
        ["error lock-fault"],
        "the control"
    );
    assert_eq!(
        findings("", "[program.foo.env]\nA = \"1\"\n"),
        ["warning not-allowed"]
    );
    assert_eq!(
        findings("", "[env]\nA = \"1\"\n"),
        ["error not-allowed"],
        "the control"
    );
}

/// Becomes a program on a file system that can neither link nor rename without replacing.
const POOR: &str = r"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int count, char **words)
{
    struct sock_filter filter[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_renameat2},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EINVAL},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_linkat},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog program = {6, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 99;
    execv(words[1], words + 1);
    return 98;
}
";

#[test]
fn a_new_file_is_written_where_nothing_can_be_linked() {
    let workshop = Workshop::new();
    let poor = workshop.compile("poor", POOR, &[]);
    let machine = Machine::describe(&BEGIN.replace("MORE", ""));
    let (file, link) = (workshop.path("saved.json"), workshop.path("link"));
    let hard_link = Command::new(&poor)
        .args(["/bin/ln", "-T"])
        .args([&poor, &link])
        .output()
        .unwrap();
    assert!(!hard_link.status.success(), "the control");
    let save = || {
        let doctor = Command::new(&poor)
            .args([
                CUDARUN.as_ref(),
                "--root".as_ref(),
                machine.root().as_os_str(),
            ])
            .args(["doctor", "--save"])
            .arg(&file)
            .env_clear()
            .output();
        String::from_utf8(doctor.unwrap().stderr).unwrap()
    };
    let said = save();
    let saved = fs::read_to_string(&file).unwrap_or_else(|_| panic!("{said}"));
    assert!(serde_json::from_str::<Value>(&saved).is_ok(), "{saved}");
    fs::write(&file, "mine").unwrap();
    let said = save();
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine", "{said}");
}

/// A user's name is hidden in texts, and in no word that cudarun reads again.
#[test]
fn names_that_are_words_of_a_description_change_none_of_them() {
    for user in [
        "node",
        "error",
        "finding",
        "note",
        "library",
        "580",
        "libraries",
    ] {
        let home = format!("/home/{user}");
        let begin = BEGIN.replace("/home/user", &home);
        let env = format!("USER = \"{user}\"\nLD_LIBRARY_PATH = \"{home}/lib:relative\"");
        let [_, json, saved] = all(&begin, &env, "");
        assert!(!saved.contains(&home), "{saved}");
        assert!(saved.contains("/home/user/lib"), "the control: {saved}");
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("saved.json");
        fs::write(&file, saved).unwrap();
        let file = file.to_str().unwrap();
        let again = Run::new(["--node", file, "doctor", "--json"]).output().0;
        let words = |json: &str| -> Vec<[Value; 3]> {
            let page: Value = serde_json::from_str(json).unwrap();
            let findings = page["findings"].as_array().unwrap().iter();
            findings
                .map(|one| ["severity", "section", "code"].map(|key| one[key].clone()))
                .collect()
        };
        assert!(words(&json).len() > 1, "{json}");
        assert_eq!(words(&json), words(&again), "{user}");
    }
}

/// A fault of settings ends with lines of the file, and a command may have lines of its own.
#[test]
fn only_the_first_line_of_a_fault_of_settings_is_saved() {
    let saved = |settings: &str, line: &str| {
        let scratch = tempfile::tempdir().unwrap();
        let machine =
            Machine::describe(&(BEGIN.replace("MORE", "") + &file("/.cudarun.toml", settings)));
        let directory = scratch.path().to_str().unwrap();
        let words = [
            "doctor",
            "--save-in",
            directory,
            "--name",
            "n",
            "--for",
            line,
        ];
        let run = Run::on(&machine, &words).any_stderr().in_directory("/");
        run.output();
        let text = fs::read_to_string(scratch.path().join("n.json")).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        value["answers"]["programs"][0].clone()
    };
    let program = saved("locked = 3 # LEAK\n", "app");
    let fault = program["faults"][0].as_str().unwrap();
    assert!(fault.starts_with("/.cudarun.toml:1: "), "{program}");
    assert!(!program.to_string().contains(WORD), "{program}");
    let code = "python3 -c 'import torch\nprint(1)'";
    assert_eq!(saved("", code)["command"], code);
}

/// The beginning of a word that is hidden must not be left of a long value.
#[test]
fn a_long_value_is_saved_whole_and_hidden() {
    let path = format!("/opt/{}/", "x".repeat(60));
    let value = format!("{path}hf_aBcDeFgHiJkLmNoPqRsTuVw1LEAK/lib");
    let kept = saved(&format!("LD_LIBRARY_PATH = \"{value}\""), "");
    assert!(kept.contains(&path) && !kept.contains("hf_"), "{kept}");
}
