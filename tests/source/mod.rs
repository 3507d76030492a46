//! Rules for the source tree.

mod layers;
