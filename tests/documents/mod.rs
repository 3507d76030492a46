//! The documents agree with the program.

mod blocks;
mod completeness;
mod errors;
mod manual;
mod quick_start;
mod schemas;
