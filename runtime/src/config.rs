//! What the binary decides before anything is served, and why a run can end badly.

use std::fmt;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use qq_core::face::FaceFactory;
use qq_core::store::StoreError;

use crate::operators::Operators;

/// A socket that is already bound, so that a port in use is known before anything is served.
pub struct Listener {
    /// For logs.
    pub name: String,
    /// Bound and listening.
    pub socket: TcpListener,
    /// Makes the faces of its connections.
    pub factory: FaceFactory,
}

/// How to run, and the limits of what peers can make the runtime hold.
pub struct Config {
    /// Where operators' requests come from.
    pub operators: Arc<Operators>,
    /// Threads that serve connections; 0 is one less than there are cores, at least 1.
    pub io_threads: usize,
    /// Where to accept.
    pub listeners: Vec<Listener>,
    /// Connections in total; lowered to what the limit of open files leaves.
    pub connections_max: usize,
    /// Connections of one address.
    pub connections_per_ip_max: usize,
    /// Connections before their hand-shake is done; the oldest make room for new ones.
    pub unauthenticated_max: usize,
    /// The same for one address.
    pub unauthenticated_per_ip_max: usize,
    /// How long a shutdown waits for unsettled deliveries.
    pub drain_grace: Duration,
    /// How long output may make no progress before the connection is cut.
    pub slow_reader: Duration,
    /// Bytes read from a socket before others get their turn.
    pub read_buffer_bytes: usize,
    /// Bytes of output that a connection holds beyond what its face holds.
    pub transmit_budget_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            operators: Arc::default(),
            io_threads: 0,
            listeners: Vec::new(),
            connections_max: 10_000,
            connections_per_ip_max: 1_024,
            unauthenticated_max: 512,
            unauthenticated_per_ip_max: 64,
            drain_grace: Duration::from_secs(5),
            slow_reader: Duration::from_secs(30),
            read_buffer_bytes: 64 * 1024,
            transmit_budget_bytes: 256 * 1024,
        }
    }
}

impl Config {
    /// The number of IO threads to start.
    #[must_use]
    pub fn threads(&self) -> usize {
        match self.io_threads {
            0 => std::thread::available_parallelism().map_or(1, |cores| (cores.get() - 1).max(1)),
            given => given,
        }
    }
}

/// Why a run ended other than by a drain.
#[derive(Debug)]
pub enum RuntimeError {
    /// The operating system refused a thread or a socket; nothing was served.
    Io(std::io::Error),
    /// The store could not be flushed at the end.
    Store(StoreError),
    /// The broker gave up; clients were told.
    Failed(String),
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "cannot start: {error}"),
            Self::Store(error) => write!(f, "store: {}", error.text),
            Self::Failed(text) => write!(f, "stopped: {text}"),
        }
    }
}

impl std::error::Error for RuntimeError {}

impl From<std::io::Error> for RuntimeError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<StoreError> for RuntimeError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
