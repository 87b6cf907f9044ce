//! The way up and the private way down, over a network that loses, repeats and reorders.
//!
//! Every test is a pure function of its seed; failures name it.

mod details;
mod hostile;
mod lossy;
mod orders;
mod overload;
mod private;
mod sequencer;
