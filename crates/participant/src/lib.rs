//! participant
