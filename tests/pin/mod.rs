//! Pinning under the real loader.

mod children;
pub mod modes;
mod opened;
pub mod real_loader;
mod shims;
mod unreachable_programs;
