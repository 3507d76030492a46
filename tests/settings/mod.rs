//! Layers: options, variables, files, the lock.

mod image_conditions;
mod lock_file;
mod lock_text;
mod mistakes;
pub mod project_file;
mod start_key;
