//! Libraries that are installed.

mod claims;
mod extensions;
mod other_owners;
mod package_databases;
mod problems;
mod sources;
