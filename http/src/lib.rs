//! Management over HTTP/1.1: a guard that reads requests strictly, the API on the management vocabulary of `qq-core`,
//! metrics, and a server of plain threads, so that it is the same for every runtime.
//!
//! No HTTP library stands behind the guard. The one that was looked at (tiny_http) takes lengths of any size before it
//! looks at them and starts a thread for every half-open request, so the guard would have had to read heads, bodies and
//! keep-alive itself and then write them again for a second parser, which could read them differently: that is how
//! requests are smuggled. What is left of such a library then is less than its glue.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the server owns sockets, threads and clocks so that the pure crates need none"
)]

mod admit;
mod api;
mod backend;
mod guard;
mod live;
mod metrics;
mod path;
mod problem;
mod response;
mod routes;
mod seats;
mod server;
mod target;
mod websocket;

pub use backend::{Backend, Credentials, Entry, NodeInfo, Page, StoreNumbers, TokenInfo};
pub use guard::{Guard, GuardEvent, Head, Limits};
pub use server::{Server, Settings};
pub use target::is_metrics_path;
