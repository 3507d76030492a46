//! `cudarun fetch`: small wheels of real libraries, the real `pip`, and no network.

mod consent;
mod hostile;
mod killed;
mod places;
mod sockets;
mod starting;
mod stored;
mod toolkits;
pub mod wheelhouse;
mod words;
