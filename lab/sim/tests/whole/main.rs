//! Simulated worlds over many seeds, and the bugs that their checkers find.

mod attacks;
mod fuzz;
mod rekey;
mod replace;
mod replicas;
mod replicated;
mod strategies;
mod thousand_seeds;
mod venue;
mod world;
mod zones;
