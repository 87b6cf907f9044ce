//! The web door: REST, WebSocket and an OpenAPI document, as one more participant of the exchange.
//!
//! Behind each account with an API key is an ordinary OUCH session at a gateway ([`account`]), so that
//! what holds for every session holds here: each request counts once, rates, limits, kill switches, one
//! session per account. Books, trades and states are those of the public feed, heard like any listener
//! does ([`market`]). Both live in one node of a [`net::Loop`] ([`node`]); HTTP runs on a thread of its
//! own ([`server`], `routes`, `socket`) and asks the node by its loop's handle. Requests are signed
//! ([`auth`]); what they ask for is read in one place ([`request`], [`command`]), and every refusal has a
//! code ([`error`]). What the venue tells of itself, and its operators' way in, is [`venue`]. The trading page, `web/`, is served beside them.

pub mod account;
pub mod auth;
pub mod command;
pub mod counters;
mod credits;
pub mod decimal;
pub mod error;
mod hub;
pub mod market;
pub mod node;
mod openapi;
mod page;
pub mod public;
pub mod request;
mod routes;
pub mod server;
mod socket;
mod stall;
mod unique;
mod uri;
pub mod venue;

pub use node::{WEB_NODE, WebNode};
pub use server::{Door, Settings, serve};
