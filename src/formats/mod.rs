//! Bytes to facts: every parser is pure and answers any input with an error or a result, never a panic.
//! Must not open files.

pub mod audit_log;
pub mod build_info;
pub mod conda;
pub mod dpkg;
pub mod elf;
pub mod fatbin;
pub mod instructions;
pub mod ldcache;
pub mod manifest;
pub mod maps;
pub mod metadata;
pub mod modulefile;
pub mod names;
pub mod numbers;
pub mod project;
pub mod pyinstaller;
pub mod python;
pub mod require;
pub mod store;
pub mod symbols;
pub mod tar;
pub mod toolchain;
