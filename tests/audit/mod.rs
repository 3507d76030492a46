//! The module inside the dynamic loader, under the real one.

mod log;
mod redirects;
