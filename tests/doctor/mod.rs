//! Findings of `doctor`, the descriptions that it saves, and their differences.

mod compare;
mod findings;
mod platform;
mod save;
