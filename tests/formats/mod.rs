//! Bytes to facts.

mod damage;
mod gpu_code;
mod instructions;
mod ldcache;
mod modulefile;
mod names;
mod python;
mod records;
mod requires_dist;
mod toolchain;
