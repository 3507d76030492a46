//! Our own directories: kept starts, kept proofs, views.

pub mod kept_starts;
mod locations;
mod other_users;
