//! Wrong files `.cudarun.toml`, as people write them: each answer names the mistake, and a correction works.

use serde::Deserialize;

use super::project_file::Project;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mistake {
    file: String,
    line: usize,
    says: Vec<String>,
    /// The line that the answer must offer.
    write: Option<String>,
    fixed: Option<String>,
    #[serde(default)]
    remark: bool,
}

#[derive(Deserialize)]
struct Mistakes {
    mistake: Vec<Mistake>,
}

fn answer(project: &Project, file: &str) -> (String, i32) {
    project.says(file);
    let mut run = std::process::Command::new(crate::support::CUDARUN);
    let run = run
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", project.home());
    let allowed = run
        .arg("allow")
        .current_dir(project.path(""))
        .output()
        .unwrap();
    let mut run = std::process::Command::new(crate::support::CUDARUN);
    let run = run
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", project.home());
    let output = run
        .arg("true")
        .current_dir(project.path(""))
        .output()
        .unwrap();
    drop(allowed);
    (
        String::from_utf8(output.stderr).unwrap(),
        output.status.code().unwrap(),
    )
}

#[test]
fn each_mistake_in_a_file_is_named_and_its_correction_works() {
    let mistakes: Mistakes = toml::from_str(include_str!("mistakes.toml")).unwrap();
    assert!(mistakes.mistake.len() >= 60, "{}", mistakes.mistake.len());
    let project = Project::new();
    let mut faults = String::new();
    for Mistake {
        file,
        line,
        says,
        write,
        fixed,
        remark,
    } in mistakes.mistake
    {
        let (text, status) = answer(&project, &file);
        let mut fail = |why: &str| faults += &format!("--- {file}{why}\n{text}\n");
        if status != if remark { 0 } else { 125 } {
            fail(&format!("status {status}"));
        }
        let place = format!(".cudarun.toml:{line}: ");
        for part in says
            .iter()
            .chain([&place])
            .filter(|part| !text.contains(part.as_str()))
        {
            fail(&format!("lacks {part}"));
        }
        // Values of variables are not shown.
        if !remark
            && !file.starts_with("[env]")
            && !text
                .lines()
                .any(|line| line.trim_start_matches([' ', '|']) == "^")
        {
            fail("lacks a caret");
        }
        let offered = text
            .lines()
            .find_map(|line| line.strip_prefix("hint: write `")?.strip_suffix('`'));
        let fixed = match (&write, fixed) {
            (Some(write), _) => {
                if offered != Some(write.trim()) {
                    fail(&format!("does not offer {write}"));
                }
                let lines = file.split('\n').enumerate();
                let lines = lines.map(|(at, text)| {
                    if at + 1 == line {
                        offered.unwrap_or(text)
                    } else {
                        text
                    }
                });
                lines.collect::<Vec<_>>().join("\n")
            }
            (None, fixed) => fixed.expect("`write` or `fixed`"),
        };
        let (text, status) = answer(&project, &fixed);
        if status != 0 || !text.is_empty() {
            faults += &format!("--- {file}corrected as\n{fixed}status {status}\n{text}\n");
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
