//! A model of glibc's dynamic loader: the file that it takes for each name, at the start of a program and for later calls
//! of dlopen. Tests compare it with the real loader. It must not judge libraries.

pub mod closure;
pub mod object;
mod overlay;
mod paths;
pub mod process;
pub mod rules;
pub mod search;
