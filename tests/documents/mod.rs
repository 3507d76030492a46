//! The documents agree with the program.

mod blocks;
mod completeness;
mod manual;
mod schemas;
