//! Predictions of the files that a program maps, and traces of those that it did map.

mod model;
pub mod trace;
