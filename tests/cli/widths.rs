//! No line is wider than the terminal, except one that is a single word.

use unicode_width::UnicodeWidthStr;

use crate::support::Run;

#[test]
fn help_and_first_contact_fit_the_terminal() {
    let verbs = cudarun::cli::VERBS;
    let pages = verbs
        .iter()
        .flat_map(|verb| [vec![*verb, "-h"], vec![*verb, "--help"]])
        .chain([vec!["-h"], vec!["--help"], vec![]]);
    for words in pages {
        for width in [60, 80, 120] {
            let run = Run::new(&words).env("COLUMNS", width.to_string());
            let (out, _, said) = run.streams();
            let page = out + &said;
            assert!(page.lines().count() > 4, "{words:?}: {page}");
            for line in page.lines() {
                assert!(line.width() <= width, "{words:?}, {width}: {line}");
            }
        }
    }
}
