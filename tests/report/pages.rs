//! The pages of `--html` and `--markdown`. `tests/pages.py` opens them in a browser.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::elf;

const TORCH: [&str; 3] = ["python3", "-c", "import torch"];
const HOSTILE: &str = "/opt/<script>x</script>`|&\u{202e}\"'*_[a](b)";

/// torch with its wheels, and parts of two libraries in a directory that the loader searches first.
fn mixed() -> Machine {
    let torch = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/torch.toml");
    let parts = [
        elf(
            "/opt/old/lib/libcublasLt.so.12",
            "soname = 'libcublasLt.so.12'",
        ),
        elf(
            "/opt/old/lib/libcudnn_ops.so.9",
            "soname = 'libcudnn_ops.so.9'",
        ),
    ];
    Machine::describe(&(fs::read_to_string(torch).unwrap() + &parts.concat()))
}

fn markdown(machine: &Machine, words: &[&str], library_path: &str) -> String {
    Run::on(machine, words)
        .env("LD_LIBRARY_PATH", library_path)
        .any_stdout()
        .any_stderr()
        .output()
        .0
}

/// A page of HTML, and the status.
fn html(machine: &Machine, verb: &[&str], more: &[&str], library_path: &str) -> (String, i32) {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("page.html");
    let words = [verb, &["--html", file.to_str().unwrap()], more].concat();
    let run = Run::on(machine, &words)
        .env("LD_LIBRARY_PATH", library_path)
        .any_stdout()
        .any_stderr();
    let (out, status) = run.output();
    assert_eq!(out, "", "the page is in the file");
    (fs::read_to_string(&file).unwrap(), status)
}

#[test]
fn a_page_shows_what_is_mixed_without_cudarun_and_not_with_it() {
    let machine = mixed();
    let (page, status) = html(&machine, &["explain"], &TORCH, "/opt/old/lib");
    assert_eq!(status, 0);
    let (without, with) = page.split_once("<h2>With cudarun</h2>").unwrap();
    let (with, text) = with.split_once("</svg>").unwrap();
    for name in ["cuBLAS 12.", "cuDNN 9."] {
        assert!(
            without.contains(name) && without.contains(": mixed"),
            "{name}\n{without}"
        );
    }
    assert!(
        without.contains("class=\"bad\" d=\"M") && without.contains("/opt/old/lib"),
        "{without}"
    );
    assert!(
        !with.contains("class=\"bad\"") && !with.contains("/opt/old/lib"),
        "{with}"
    );
    assert_eq!(
        page.matches("<desc>").count(),
        2,
        "each picture says in words what it shows"
    );
    // The page of a terminal, with its colours.
    assert!(
        page.contains("<pre><span class=\"good\">")
            && text.contains("<span class=\"strong\">mode</span>"),
        "{page}"
    );
    assert!(text.contains("mixed:</span>"), "{text}");
    // The control: nothing is marked where nothing is in the way.
    let (page, _) = html(&machine, &["explain"], &TORCH, "");
    assert!(
        !page.contains("mixed") && !page.contains("class=\"bad\""),
        "{page}"
    );
    let page = [&["explain"], &TORCH[..]].concat();
    let page = markdown(&machine, &page, "/opt/old/lib");
    assert!(page.contains("mixed:"), "{page}");
    let text = markdown(
        &machine,
        &[&["explain", "--markdown"], &TORCH[..]].concat(),
        "/opt/old/lib",
    );
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(text, format!("```text\n{page}```\n\ncudarun {version}\n"));
}

#[test]
fn statuses_are_those_without_a_page() {
    let machine = mixed();
    let (page, status) = html(&machine, &["explain", "--require", "cudnn>=99"], &TORCH, "");
    assert!(
        status == 1
            && page.contains("does not start")
            && page.contains("<span class=\"bad\">error:</span>"),
        "{page}"
    );
    let text = "ImportError: libcudart.so.12: cannot open shared object file";
    let (page, status) = html(&machine, &["diagnose", "--text", text], &[], "");
    assert!(
        status == 0 && page.contains("libcudart.so.12: cannot open"),
        "{page}"
    );
    let (page, status) = html(&machine, &["doctor"], &[], "");
    assert!(
        status == 0 && page.contains("GPU programs can work from here"),
        "{page}"
    );
}

#[test]
fn nothing_of_a_machine_becomes_markup() {
    let machine = mixed();
    for (verb, more) in [("doctor", &[][..]), ("explain", &TORCH[..])] {
        let (page, _) = html(&machine, &[verb], more, HOSTILE);
        assert!(
            !page.contains("<script") && !page.contains('\u{202e}'),
            "{page}"
        );
        assert!(
            !page.contains("http://") && !page.contains("https://"),
            "{page}"
        );
        let text = markdown(&machine, &[&[verb, "--markdown"], more].concat(), HOSTILE);
        assert!(
            text.starts_with("```") && !text.contains('\u{202e}') && !text.contains('\u{1b}'),
            "{text}"
        );
        let fence = text.split_once("text\n").unwrap().0;
        let fences = text.lines().filter(|line| line.trim().starts_with(fence));
        assert_eq!(fences.count(), 2, "nothing of it ends the block\n{text}");
    }
    let (page, _) = html(&machine, &["doctor"], &[], HOSTILE);
    assert!(
        page.contains("&lt;script&gt;"),
        "the control: the page names it\n{page}"
    );
    let odd = [
        "doctor",
        "--markdown",
        "python3",
        "-c",
        "import torch # ``` \n# x",
    ];
    let text = markdown(&machine, &odd, "");
    let fences = text.lines().filter(|line| line.starts_with("````"));
    assert_eq!(fences.count(), 2, "a longer fence holds it\n{text}");
}

#[test]
fn a_page_is_written_whole_or_not_at_all() {
    let machine = mixed();
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("page.html");
    let words = [
        &["-q", "explain", "--html", file.to_str().unwrap()],
        &TORCH[..],
    ]
    .concat();
    Run::on(&machine, &words).check();
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.ends_with("</html>\n"));
    // An earlier page is replaced, also where a link leads to it.
    fs::write(&file, &page[..page.len() / 2]).unwrap();
    let link = scratch.path().join("link");
    symlink("page.html", &link).unwrap();
    let by_link = [
        &["-q", "explain", "--html", link.to_str().unwrap()],
        &TORCH[..],
    ]
    .concat();
    Run::on(&machine, &by_link).check();
    assert!(
        fs::symlink_metadata(&link).unwrap().is_symlink()
            && fs::read_to_string(&file).unwrap() == page
    );
    // No other file is.
    for other in ["#!/bin/sh\n", "<!DOCTYPE html>\n<html>\n"] {
        fs::write(&file, other).unwrap();
        for words in [&words, &by_link] {
            let run = Run::on(&machine, words).status(2);
            run.stderr_contains(&["does not overwrite it", "hint: name a new file"])
                .check();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), other);
    }
    fs::remove_file(&link).unwrap();
    let words = [&["explain", "--html", "-"], &TORCH[..]].concat();
    Run::on(&machine, &words).stdout(page).check();
    let absent = scratch.path().join("absent/page.html");
    let words = [&["explain", "--html", absent.to_str().unwrap()], &TORCH[..]].concat();
    Run::on(&machine, &words)
        .status(2)
        .stderr_contains(&["absent/page.html"])
        .check();
    for both in [
        &["--html", "x", "--json"][..],
        &["--markdown", "--json"],
        &["--html", "x", "--markdown"],
    ] {
        let words = [&["explain"], both, &TORCH[..]].concat();
        Run::on(&machine, &words)
            .status(2)
            .any_stdout()
            .stderr_contains(&["cannot be used with"])
            .check();
    }
    assert_eq!(
        fs::read_dir(scratch.path()).unwrap().count(),
        1,
        "no half of a page is left"
    );
}
