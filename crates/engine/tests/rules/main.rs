//! The engine against a naive model of its rules, and the properties that follow from the contract
//! of `Engine::apply`: one answer each, nothing lost or made, same log same result.

mod agreement;
mod cases;
mod determinism;
mod flow;
mod ledger;
mod model;
