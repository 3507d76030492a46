//! Where the dynamic loader looks for a name, and what a program's start-up closure asks of NVIDIA's
//! libraries. Models the order of the search; must not decide what is good.

pub mod closure;
pub mod search;
