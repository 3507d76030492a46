//! Rules for the source tree.

mod circles;
mod layers;
