//! Libraries that are installed.

mod other_owners;
mod package_databases;
mod problems;
mod sources;
