//! Rules for the source tree.

mod banned_words;
mod circles;
mod layers;
