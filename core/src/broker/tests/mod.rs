//! Tests of the broker by commands, without faces: one file per topic.

mod browse;
mod chaos;
mod expiry;
mod gate;
mod harness;
mod limits;
mod links;
mod model;
mod order;
mod outcomes;
mod paging;
mod permits;
mod random;
mod recovery;
mod routing;
mod smoke;
