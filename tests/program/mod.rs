//! Programs: the one that will run, and its requirements.

mod frameworks;
mod lost_environment;
mod openers;
mod profiles;
mod requirements;
pub mod wrappers;
