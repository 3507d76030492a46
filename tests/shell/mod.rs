//! The shell hook, the shell of `cudarun shell`, and the files of `cudarun hook jupyter` and `cudarun hook systemd`.

mod hook;
mod jupyter;
mod subshell;
mod systemd;
mod values;
