//! Conformance suite for AMQP 1.0 brokers: the clause list, a scripted peer with its own wire
//! codec, scripts that name the clauses they check, and beds to run them on (the broker in
//! process, the daemon over TCP, any other broker).
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the beds own sockets and clocks; scripts ask the bed for time"
)]

pub mod bed;
pub mod clauses;
pub mod coverage;
pub mod history;
pub mod kit;
pub mod report;
pub mod run;
pub mod script;
pub mod scripts;
pub mod seed;
#[cfg(feature = "node")]
pub mod sim;
pub mod target;
pub mod torture;
pub mod wire;
