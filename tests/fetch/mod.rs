//! `cudarun fetch`: small wheels of real libraries, the real `pip`, and no network.

mod hostile;
mod killed;
mod places;
mod starting;
mod wheelhouse;
