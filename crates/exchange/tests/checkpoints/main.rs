//! Roots that are written down and taken up again, beside roots that simply went on.

mod bounded;
#[path = "../common/mod.rs"]
#[allow(dead_code)]
mod common;
mod damage;
mod flow;
mod model;
