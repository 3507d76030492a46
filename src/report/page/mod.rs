//! A report to look at or to paste: a page is built once, and becomes HTML or Markdown.

use std::path::Path;

mod escape;
mod html;
mod markdown;
mod model;
mod pages;
mod picture;

use crate::text::show;
pub use html::{PAGE_BEGIN, html};
pub use markdown::markdown;
pub use model::Page;
pub use pages::{diagnosed_page, examined_page, explained_page, fleet_page};

/// A line about a page that was written.
pub fn page_written(file: &Path) -> String {
    format!("{} is the page: open it in a browser", show(file))
}
