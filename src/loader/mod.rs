//! A model of glibc's dynamic loader: which file it takes for each name, of the whole start-up closure and of
//! what is opened later. Exact, and held to the real one by tests; must not decide what is good.

pub mod closure;
pub mod object;
mod overlay;
mod paths;
pub mod process;
pub mod rules;
pub mod search;
