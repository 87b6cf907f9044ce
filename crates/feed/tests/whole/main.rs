//! Feed handling: arbitration, images, listeners, captures, the ticker plant.

mod arbitration;
mod auctions;
#[path = "../common/mod.rs"]
mod common;
mod days;
mod image;
mod itch_description;
mod joining;
mod listener;
mod pcaps;
mod plant;
mod snapshots;
