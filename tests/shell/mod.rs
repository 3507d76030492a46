//! The shell hook.

mod hook;
