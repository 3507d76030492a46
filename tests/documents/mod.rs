//! The documents agree with the program.

mod blocks;
mod completeness;
mod errors;
mod manual;
mod schemas;
