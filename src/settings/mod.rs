//! Settings of people: by options, variables and files. Each value keeps its origin. Nothing here runs or loads anything,
//! or depends on the program that will run, except `resolve`.

pub mod container;
pub mod files;
pub mod invocation;
pub mod keys;
pub mod lock;
pub mod read;
pub mod resolve;
mod setting;
pub mod trust;

pub use keys::{families, family, may_demand_a_set};
pub use setting::{
    Excerpt, FaultKind, LOCK, Layers, PROJECT, Remark, Setting, SettingFault, SettingKey,
    SettingLayer, SettingPlace, TOOLKIT, Value,
};
