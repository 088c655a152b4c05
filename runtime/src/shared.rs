//! What all tasks of a process share, and how it comes to be.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use qq_core::vocab::ConnId;

use crate::admission::{Admission, Admitted};
use crate::clock::Clock;
use crate::config::{Config, RuntimeError};
use crate::driver::Driver;
use crate::operators::Operators;
use crate::post::{Inbox, Letter, Mailbox};
use crate::recovered::Recovered;
use crate::shutdown::Shutdown;
use crate::store::StorePort;

/// What all tasks share.
pub struct Shared {
    /// Where time comes from.
    pub(crate) clock: Clock,
    /// To the broker's task.
    pub(crate) inbox: Arc<Inbox>,
    /// How long output may make no progress before a connection is cut.
    pub(crate) slow_reader: Duration,
    /// Bytes of one read.
    pub(crate) read_bytes: usize,
    /// Bytes of output that a connection holds beyond what its face holds.
    pub(crate) transmit_bytes: usize,
    admission: Mutex<Admission>,
    /// Who asks about the broker.
    pub(crate) operators: Arc<Operators>,
}

impl Shared {
    /// A new connection wants in.
    pub(crate) fn admit(&self, now: Duration, ip: IpAddr) -> Admitted {
        self.admission().admit(now, ip)
    }

    /// Evicts strangers beyond the limit of their address; true when some are still too young for that.
    pub(crate) fn thin_out(&self, now: Duration) -> bool {
        self.admission().thin_out(now)
    }

    pub(crate) fn admission(&self) -> MutexGuard<'_, Admission> {
        self.admission
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place in the books. It is given back when this is dropped, whatever ended the task; so the socket
/// must be dropped before.
pub(crate) struct Seat {
    /// The books.
    pub(crate) shared: Arc<Shared>,
    /// Its number.
    pub(crate) conn: ConnId,
    /// Where its mail comes.
    pub(crate) mailbox: Arc<Mailbox>,
    /// Its peer.
    pub(crate) ip: IpAddr,
}

impl Seat {
    /// The hand-shake is done: the broker is told.
    pub(crate) fn join(&self) {
        self.shared.admission().authenticated(self.conn);
        self.shared
            .inbox
            .push(Letter::Join(self.conn, Arc::clone(&self.mailbox)));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.shared.admission().leave(self.conn, self.ip);
        self.shared.inbox.push(Letter::Leave(self.conn));
    }
}

/// Makes what the tasks of a run share and the broker's task.
///
/// # Errors
/// When the store's thread cannot be started.
pub fn prepare(
    config: &Config,
    recovered: Recovered,
    shutdown: Shutdown,
    clock: Clock,
) -> Result<(Arc<Shared>, Driver), RuntimeError> {
    let inbox = Arc::new(Inbox::new());
    let store = StorePort::start(recovered.store, Arc::clone(&inbox), clock)?;
    let shared = Arc::new(Shared {
        clock,
        inbox,
        slow_reader: config.slow_reader,
        read_bytes: config.read_buffer_bytes.max(512),
        transmit_bytes: config.transmit_budget_bytes.max(512),
        admission: Mutex::new(Admission::new(config, files_max())),
        operators: Arc::clone(&config.operators),
    });
    config.operators.connect(Arc::clone(&shared.inbox));
    let driver = Driver::new(
        recovered.broker,
        store,
        Arc::clone(&shared),
        shutdown,
        config.drain_grace,
    );
    Ok((shared, driver))
}

/// The soft limit of open files, where the system tells.
fn files_max() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
