//! The shell hook, and the shell of `cudarun shell`.

mod hook;
mod subshell;
