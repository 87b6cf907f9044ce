//! Root, one edge and listeners in memory: the journey of orders and ticks, and what must not be.

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../wire/tests/mutations/faults.rs"]
mod faults;
#[path = "../../../wire/tests/mutations/ouch_messages.rs"]
mod ouch_messages;

mod bench;
mod books;
mod day;
mod deploy;
mod echoes;
mod expiry;
mod fix;
mod fix_client;
mod fix_copies;
mod fix_data;
mod fix_steady;
mod fix_world;
mod gate;
mod hostile;
mod leaving;
mod lives;
mod mutations;
mod mutations_door;
mod orders;
mod overload;
mod rates;
mod room;
mod shards;
mod spilled;
mod spread;
mod starts;
mod subscriptions;

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;
