//! The model of the dynamic loader.

mod against_real;
