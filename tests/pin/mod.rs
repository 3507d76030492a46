//! Pinning under the real loader.

pub mod children;
pub mod modes;
mod opened;
mod python_code;
pub mod real_loader;
mod renamed;
mod shims;
mod unreachable_programs;
