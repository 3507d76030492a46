//! Bytes to facts.

mod damage;
