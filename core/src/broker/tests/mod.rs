//! Tests of the broker by commands, without faces: one file per topic.

mod alarms;
mod asks;
mod browse;
mod chaos;
mod damage;
mod deadletters;
mod exchanges;
mod expiry;
mod filters;
mod gate;
mod harness;
mod limits;
mod linger;
mod links;
mod model;
mod order;
mod outcomes;
mod paged_browse;
mod paged_recovery;
mod paging;
mod permits;
mod random;
mod recovery;
mod routing;
mod smoke;
mod subscriptions;
