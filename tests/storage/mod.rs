//! Our own directories: kept starts, kept proofs, views.

mod kept_proofs;
pub mod kept_starts;
mod locations;
mod other_users;
