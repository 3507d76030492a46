//! Bytes to facts: every parser is pure and answers any input with an error or a result, never a panic.
//! Must not open files.

pub mod dpkg;
pub mod elf;
pub mod fatbin;
pub mod ldcache;
pub mod metadata;
pub mod names;
pub mod python;
pub mod rpm;
pub mod sqlite;
