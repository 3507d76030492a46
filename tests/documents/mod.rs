//! The documents agree with the program.

mod blocks;
mod completeness;
mod manual;
mod quick_start;
mod schemas;
