//! Layers: options, variables, files, the lock.

mod lock_file;
pub mod project_file;
