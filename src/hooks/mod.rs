//! The files by which other programs start theirs through cudarun: a kernel of Jupyter's, a drop-in of systemd's. Each file
//! says that it is cudarun's and how many directories were made for it; no other file is replaced or removed.

pub mod jupyter;
pub mod systemd;
pub mod unit;
