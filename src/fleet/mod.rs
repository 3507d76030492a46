//! Descriptions of many machines: which are equal, and how batch systems write the names of many hosts. Decides nothing about
//! programs.

mod groups;
mod hosts;

pub use groups::{Described, Group, Unread, UnreadReason, find};
pub use hosts::{host_list, is_host};
