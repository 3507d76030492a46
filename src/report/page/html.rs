//! A page as one HTML file: without scripts, and without anything from elsewhere.

use super::escape::escape;
use super::model::{FindingPart, Page, Part};

/// Wide words break, so that no width of a window makes the page wider.
const STYLE: &str = "
:root{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--soft:#57606a;--line:#d0d7de;--shade:#f6f8fa;
--good:#1a7f37;--warning:#9a6700;--bad:#cf222e}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--paper:#0d1117;--soft:#9198a1;--line:#3d444d;--shade:#161b22;
--good:#3fb950;--warning:#d29922;--bad:#ff7b72}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1rem 3rem;max-width:60rem;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.3;margin:.2rem 0 0}
h2{font-size:1.1rem;margin:2rem 0 .6rem;padding-bottom:.2rem;border-bottom:1px solid var(--line)}
h3{font-size:1rem;margin:1rem 0 .3rem}
.of{color:var(--soft);margin:0}
.verdict{margin:1rem 0 0;padding:.7rem 1rem;border-left:.35rem solid var(--soft);background:var(--shade)}
.verdict.good{border-color:var(--good)}.verdict.warning{border-color:var(--warning)}.verdict.bad{border-color:var(--bad)}
table{width:100%;border-collapse:collapse;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600}
td:empty::after{content:'\\2013';color:var(--soft)}
.finding{margin:.8rem 0;padding:.2rem 0 .2rem .9rem;border-left:.25rem solid var(--soft)}
.finding.good{border-color:var(--good)}.finding.warning{border-color:var(--warning)}.finding.bad{border-color:var(--bad)}
.finding p{margin:0}.finding ul{margin:.3rem 0;padding-left:1.2rem;color:var(--soft);font-size:.9rem}
.label{font-weight:700}.good .label{color:var(--good)}.warning .label{color:var(--warning)}.bad .label{color:var(--bad)}
pre{margin:.4rem 0;padding:.5rem .7rem;background:var(--shade);border:1px solid var(--line);border-radius:.3rem;
white-space:pre-wrap;overflow-wrap:anywhere;font:.9rem/1.4 ui-monospace,monospace;user-select:all}
svg{display:block;width:100%;height:auto;max-width:44rem}
svg text{font:13px ui-monospace,monospace;fill:var(--ink)}
svg rect{fill:var(--shade);stroke:var(--line)}svg rect.bad{stroke:var(--bad);stroke-width:2.5}
svg path{fill:none;stroke:var(--soft);stroke-width:1.5}svg path.bad{stroke:var(--bad);stroke-width:2.5;stroke-dasharray:7 4}
.few td{min-width:6.2rem}
@media (max-width:40rem){.few td{min-width:0}table.wide thead{display:none}table.wide,table.wide tbody,table.wide tr,table.wide td{display:block;width:100%}
table.wide td{border:0;padding:.1rem 0}table.wide tr{border-bottom:1px solid var(--line);padding:.4rem 0}
table.wide td[data-head]::before{content:attr(data-head) ': ';color:var(--soft);font-weight:600}}
@media print{body{max-width:none;padding:0}.finding,tr,svg{break-inside:avoid}}
";

/// Every page begins with it.
pub const PAGE_BEGIN: &str = "<!DOCTYPE html>\n<!-- A page of cudarun -->\n";
/// Tables of so many columns have room for each.
const FEW: usize = 5;

pub fn html(page: &Page) -> String {
    let mut pictures = 0;
    let mut body = String::new();
    for section in &page.sections {
        body.push_str(&format!("<section>\n<h2>{}</h2>\n", escape(&section.title)));
        for part in &section.parts {
            body.push_str(&self::part(part, &mut pictures));
        }
        body.push_str("</section>\n");
    }
    let (title, verdict) = (escape(&page.title), escape(&page.verdict));
    format!(
        "{PAGE_BEGIN}<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{verdict}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n\
         <p class=\"of\">cudarun {}</p>\n<h1>{title}</h1>\n<p class=\"verdict {}\">{verdict}</p>\n</header>\n\
         <main>\n{body}</main>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        page.tone.class(),
    )
}

fn part(part: &Part, pictures: &mut usize) -> String {
    match part {
        Part::Picture(picture) => {
            *pictures += 1;
            format!(
                "<h3>{}</h3>\n{}",
                escape(picture.title()),
                picture.svg(*pictures)
            )
        }
        Part::Table { head, rows } => table(head, rows),
        Part::Finding(finding) => self::finding(finding),
        Part::Commands(commands) => commands.iter().map(|command| code(command)).collect(),
        Part::Text(text) => format!("<p>{}</p>\n", escape(text)),
    }
}

fn code(command: &str) -> String {
    format!("<pre><code>{}</code></pre>\n", escape(command))
}

fn table(head: &[String], rows: &[Vec<String>]) -> String {
    let mut text = String::new();
    if head.is_empty() {
        text.push_str("<table>\n<tbody>\n");
    } else {
        let cells: String = head
            .iter()
            .map(|cell| format!("<th scope=\"col\">{}</th>", escape(cell)))
            .collect();
        let few = if head.len() <= FEW { " few" } else { "" };
        text.push_str(&format!(
            "<table class=\"wide{few}\">\n<thead><tr>{cells}</tr></thead>\n<tbody>\n"
        ));
    }
    for row in rows {
        text.push_str("<tr>");
        for (index, cell) in row.iter().enumerate() {
            let cell = escape(cell);
            text.push_str(&match head.get(index) {
                None if index == 0 => format!("<th scope=\"row\">{cell}</th>"),
                None => format!("<td>{cell}</td>"),
                Some(title) => format!("<td data-head=\"{}\">{cell}</td>", escape(title)),
            });
        }
        text.push_str("</tr>\n");
    }
    text + "</tbody>\n</table>\n"
}

fn finding(finding: &FindingPart) -> String {
    let FindingPart {
        tone,
        label,
        text,
        evidence,
        remedies,
    } = finding;
    let items: String = evidence
        .iter()
        .map(|line| format!("<li>{}</li>\n", escape(line)))
        .collect();
    let list = if items.is_empty() {
        items
    } else {
        format!("<ul>\n{items}</ul>\n")
    };
    let remedies: String = remedies.iter().map(|remedy| code(remedy)).collect();
    format!(
        "<div class=\"finding {}\">\n<p><span class=\"label\">{}</span> {}</p>\n{list}{remedies}</div>\n",
        tone.class(),
        escape(label),
        escape(text)
    )
}
