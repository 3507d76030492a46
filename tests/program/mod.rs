//! Programs: the one that will run, and its requirements.

mod brought;
mod frameworks;
mod lost_environment;
mod native;
mod openers;
mod profiles;
mod requirements;
pub mod wrappers;
