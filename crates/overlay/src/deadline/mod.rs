//! When messages are public: delays measured, reduced over all receivers, and waited for.

pub mod all_reduce;
pub mod delay;
pub mod estimator;
pub mod hold;
pub mod samples;
