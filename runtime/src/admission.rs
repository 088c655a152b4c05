//! Who may be connected: limits in total and per address, and the oldest strangers make room for new ones.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use qq_core::vocab::{ConnId, Refusal};

use crate::config::Config;
use crate::post::{Mail, Mailbox};

/// A stranger younger than this is not evicted: a burst of honest peers is in the middle of its hand-shakes.
const EVICT_AGE_MIN: Duration = Duration::from_secs(1);

struct Entry {
    ip: IpAddr,
    since: Duration,
    mailbox: Arc<Mailbox>,
}

#[derive(Default)]
struct Count {
    all: usize,
    strangers: usize,
}

/// The answer to a new connection.
pub(crate) enum Admitted {
    /// Its number, and where its mail goes.
    In(ConnId, Arc<Mailbox>),
    /// Ask again soon: too many strangers, and all are in the middle of their hand-shakes.
    Later,
    /// A limit forbids it.
    Refused(&'static str),
}

/// Every connection of the process, until its socket is closed.
pub(crate) struct Admission {
    connections_max: usize,
    per_ip_max: usize,
    strangers_max: usize,
    strangers_per_ip_max: usize,
    next: u64,
    /// In order of arrival. An evicted stranger is in neither map: its task is about to end.
    strangers: BTreeMap<ConnId, Entry>,
    known: BTreeMap<ConnId, Entry>,
    open: usize,
    counts: HashMap<IpAddr, Count>,
    /// Some address may have more strangers than it should.
    is_crowded: bool,
}

impl Admission {
    pub(crate) fn new(config: &Config, files_max: Option<usize>) -> Self {
        // Files that the rest of the process needs: store, log, listeners, event queues.
        const RESERVED: usize = 64;
        let files = files_max.map_or(usize::MAX, |max| max.saturating_sub(RESERVED).max(1));
        Self {
            connections_max: config.connections_max.min(files),
            per_ip_max: config.connections_per_ip_max,
            strangers_max: config.unauthenticated_max.max(1),
            strangers_per_ip_max: config.unauthenticated_per_ip_max,
            next: 0,
            strangers: BTreeMap::new(),
            known: BTreeMap::new(),
            open: 0,
            counts: HashMap::new(),
            is_crowded: false,
        }
    }

    /// Connections whose sockets are open.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Takes a connection in, if need be at the cost of the oldest stranger.
    pub(crate) fn admit(&mut self, now: Duration, ip: IpAddr) -> Admitted {
        if self.open >= self.connections_max {
            return Admitted::Refused("too many connections");
        }
        if self
            .counts
            .get(&ip)
            .is_some_and(|count| count.all >= self.per_ip_max)
        {
            return Admitted::Refused("too many connections of one address");
        }
        if self.strangers.len() >= self.strangers_max {
            match self.strangers.first_key_value() {
                Some((&oldest, entry)) if now >= entry.since + EVICT_AGE_MIN => self.evict(oldest),
                _ => return Admitted::Later,
            }
        }
        let count = self.counts.entry(ip).or_default();
        count.all += 1;
        count.strangers += 1;
        self.is_crowded |= count.strangers > self.strangers_per_ip_max;
        self.open += 1;
        let conn = ConnId(self.next);
        self.next += 1;
        let mailbox = Arc::new(Mailbox::new());
        let entry = Entry {
            ip,
            since: now,
            mailbox: Arc::clone(&mailbox),
        };
        self.strangers.insert(conn, entry);
        Admitted::In(conn, mailbox)
    }

    fn evict(&mut self, conn: ConnId) {
        if let Some(entry) = self.strangers.remove(&conn) {
            entry.mailbox.push(Mail::Evict);
            if let Some(count) = self.counts.get_mut(&entry.ip) {
                count.strangers -= 1;
            }
        }
    }

    /// The hand-shake is done.
    pub(crate) fn authenticated(&mut self, conn: ConnId) {
        if let Some(entry) = self.strangers.remove(&conn) {
            if let Some(count) = self.counts.get_mut(&entry.ip) {
                count.strangers -= 1;
            }
            self.known.insert(conn, entry);
        }
    }

    /// The socket is closed.
    pub(crate) fn leave(&mut self, conn: ConnId, ip: IpAddr) {
        let stranger = self.strangers.remove(&conn).is_some();
        self.known.remove(&conn);
        self.open -= 1;
        if let Some(count) = self.counts.get_mut(&ip) {
            count.all -= 1;
            count.strangers -= usize::from(stranger);
            if count.all == 0 {
                self.counts.remove(&ip);
            }
        }
    }

    /// Evicts the oldest strangers of addresses that have too many. True while some of them are too young for that.
    pub(crate) fn thin_out(&mut self, now: Duration) -> bool {
        if !std::mem::take(&mut self.is_crowded) {
            return false;
        }
        for conn in self.strangers.keys().copied().collect::<Vec<_>>() {
            let entry = &self.strangers[&conn];
            let count = self
                .counts
                .get(&entry.ip)
                .map_or(0, |count| count.strangers);
            if count > self.strangers_per_ip_max {
                if now >= entry.since + EVICT_AGE_MIN {
                    self.evict(conn);
                } else {
                    self.is_crowded = true;
                }
            }
        }
        self.is_crowded
    }

    /// Asks everybody to close.
    pub(crate) fn shutdown(&self, refusal: &Refusal) {
        for entry in self.strangers.values().chain(self.known.values()) {
            entry.mailbox.push(Mail::Shutdown(refusal.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

    fn admission(config: Config, files_max: Option<usize>) -> Admission {
        Admission::new(&config, files_max)
    }

    fn is_in(admission: &mut Admission, seconds: u64, ip: IpAddr) -> bool {
        matches!(
            admission.admit(Duration::from_secs(seconds), ip),
            Admitted::In(..)
        )
    }

    #[test]
    fn open_files_bound_the_connections() {
        let mut admission = admission(Config::default(), Some(64 + 3));
        let admitted = (0..10).filter(|_| is_in(&mut admission, 0, HERE)).count();
        assert_eq!((admitted, admission.open()), (3, 3));
        admission.leave(ConnId(1), HERE);
        assert!(is_in(&mut admission, 0, HERE));
        assert!(!is_in(&mut admission, 0, HERE));
    }

    #[test]
    fn the_oldest_stranger_goes_when_it_had_its_time() {
        let mut admission = admission(
            Config {
                unauthenticated_max: 2,
                ..Config::default()
            },
            None,
        );
        assert!(is_in(&mut admission, 0, HERE) && is_in(&mut admission, 0, THERE));
        assert!(matches!(
            admission.admit(Duration::ZERO, HERE),
            Admitted::Later
        ));
        assert!(is_in(&mut admission, 1, HERE));
        assert!(
            !admission.strangers.contains_key(&ConnId(0))
                && admission.strangers.contains_key(&ConnId(1))
        );
        // The evicted one still has its socket, until its task ends.
        assert_eq!(admission.open(), 3);
        admission.leave(ConnId(0), HERE);
        admission.authenticated(ConnId(1));
        assert!(is_in(&mut admission, 1, HERE));
        assert_eq!(admission.open(), 3);
        assert_eq!(admission.counts[&HERE].strangers, 2);
        assert_eq!(admission.counts[&THERE].strangers, 0);
    }

    #[test]
    fn one_address_is_thinned_out_and_others_are_left_alone() {
        let mut admission = admission(
            Config {
                unauthenticated_per_ip_max: 2,
                ..Config::default()
            },
            None,
        );
        for _ in 0..2 {
            assert!(is_in(&mut admission, 0, THERE));
        }
        for second in 0..5 {
            assert!(is_in(&mut admission, second, HERE));
        }
        assert!(!admission.thin_out(Duration::from_secs(9)));
        let left: Vec<_> = admission.strangers.keys().map(|conn| conn.0).collect();
        assert_eq!(left, [0, 1, 5, 6]);
    }
}
