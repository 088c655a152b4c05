//! What the server needs of the daemon around it.

use std::net::IpAddr;
use std::time::Duration;

use qq_core::admin::{Histogram, Reply, Request};
use qq_core::broker::QueueSpec;
use serde_json::Value;

/// Who a request says that it comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// It does not say.
    None,
    /// A user and a password.
    Basic {
        /// Who.
        user: String,
        /// The password.
        password: String,
    },
    /// A token.
    Bearer(String),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Basic { .. } => "Basic",
            Self::Bearer(_) => "Bearer",
        })
    }
}

/// Whether a request is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// It is.
    Granted,
    /// It is not, and is told so after this time.
    Denied(Duration),
}

/// What does not change while the daemon runs.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// Of the daemon.
    pub version: String,
    /// Its flavour.
    pub runtime: String,
    /// Where messages are kept.
    pub store: String,
    /// Wall clock, milliseconds since the Unix epoch.
    pub started_at_ms: i64,
    /// Name of this node.
    pub node_id: String,
    /// The configuration in effect by section and key, secrets masked.
    pub config: Value,
    /// The limits in effect by key.
    pub limits: Value,
    /// What queues are like where a declaration says nothing.
    pub queue_defaults: QueueSpec,
    /// Requests must say who they come from.
    pub is_login_required: bool,
}

/// A token that lets in, without the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenInfo {
    /// What it is called, where that is written.
    pub name: Option<String>,
    /// Its line in the file of tokens; none: it came with the start of the program.
    pub line: Option<usize>,
}

/// What a store with a disk did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreNumbers {
    /// Commits that made something safe, each with its sync.
    pub commits: Histogram,
    /// Reads of bodies.
    pub fetches: Histogram,
    /// Commits and reads that failed.
    pub failures: u64,
    /// Bytes of all its files now.
    pub file_bytes: u64,
    /// Bytes of its write-ahead log among them.
    pub journal_bytes: u64,
}

/// A file of the dashboard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Of the answer.
    pub status: u16,
    /// Of the answer.
    pub headers: Vec<(String, String)>,
    /// The file.
    pub body: Vec<u8>,
}

/// See the module. Called from several threads, which may wait.
pub trait Backend: Send + Sync {
    /// Asks the broker; none when it is down or too slow.
    fn ask(&self, request: Request) -> Option<Reply>;
    /// What does not change.
    fn node(&self) -> &NodeInfo;
    /// Names of users that may log in.
    fn users(&self) -> Vec<String>;
    /// Tokens that let in, in the order of their file.
    fn tokens(&self) -> Vec<TokenInfo>;
    /// Whether a request from that address is let in.
    fn admit(&self, credentials: &Credentials, peer: IpAddr) -> Entry;
    /// Bytes of memory that the process holds, and its threads.
    fn process(&self) -> (u64, u64);
    /// Connections that a limit kept out, since the start.
    fn kept_out(&self) -> u64;
    /// What the store did; none when it has no disk.
    fn store(&self) -> Option<StoreNumbers>;
    /// A file of the dashboard by its path; `known` is the tag of the one that the browser has.
    fn page(&self, path: &str, known: Option<&str>) -> Option<Page>;
}
