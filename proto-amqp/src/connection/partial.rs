//! Bytes of unfinished deliveries: an account for each connection, and one that all connections of a node share.
//!
//! Unfinished deliveries are the one thing that a peer can make us keep without a credit of ours for each of it. A
//! bound for each connection alone would leave the number of connections as the peer's choice.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::violation::Violation;

/// Bytes that connections may hold together. Clones share one account; hand one to the [`Config`](super::Config) of
/// every connection of a node.
#[derive(Clone, Debug)]
pub struct SharedBudget(Arc<Account>);

#[derive(Debug)]
struct Account {
    bytes_max: usize,
    used: AtomicUsize,
}

impl SharedBudget {
    /// An account of so many bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Account {
            bytes_max,
            used: AtomicUsize::new(0),
        }))
    }

    /// Bytes that are in use now.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }

    /// Bytes that may be in use at most.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.0.bytes_max
    }

    /// Takes bytes, or none of them. The count is all that is shared, so no order of memory is asked for.
    fn take(&self, bytes: usize) -> bool {
        let add = |used: usize| {
            used.checked_add(bytes)
                .filter(|sum| *sum <= self.0.bytes_max)
        };
        self.0
            .used
            .try_update(Ordering::Relaxed, Ordering::Relaxed, add)
            .is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// One connection's account. What is on it goes back to the shared one when the connection is dropped, however that
/// comes about.
#[derive(Debug)]
pub(super) struct PartialBytes {
    used: usize,
    bytes_max: usize,
    shared: Option<SharedBudget>,
}

impl PartialBytes {
    pub(super) const fn new(bytes_max: usize, shared: Option<SharedBudget>) -> Self {
        Self {
            used: 0,
            bytes_max,
            shared,
        }
    }

    /// Takes bytes, or none of them and says whose bound is reached.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Violation> {
        if self.used + bytes > self.bytes_max {
            return Err(Violation::PartialBytes);
        }
        if let Some(shared) = &self.shared
            && !shared.take(bytes)
        {
            return Err(Violation::PartialBytesOfNode);
        }
        self.used += bytes;
        Ok(())
    }

    pub(super) fn give_back(&mut self, bytes: usize) {
        self.used -= bytes;
        if let Some(shared) = &self.shared {
            shared.give_back(bytes);
        }
    }

    #[cfg(test)]
    pub(super) const fn used(&self) -> usize {
        self.used
    }
}

impl Drop for PartialBytes {
    fn drop(&mut self) {
        self.give_back(self.used);
    }
}

#[cfg(test)]
mod tests {
    use super::{PartialBytes, SharedBudget};
    use crate::connection::violation::Violation;

    #[test]
    fn the_nearer_bound_counts_and_a_refusal_takes_nothing() {
        let shared = SharedBudget::new(100);
        let mut a = PartialBytes::new(80, Some(shared.clone()));
        let mut b = PartialBytes::new(80, Some(shared.clone()));
        assert_eq!(a.take(81), Err(Violation::PartialBytes));
        assert_eq!(a.take(80), Ok(()));
        assert_eq!(b.take(21), Err(Violation::PartialBytesOfNode));
        assert_eq!(b.take(20), Ok(()));
        assert_eq!(shared.used_bytes(), 100);
        a.give_back(1);
        assert_eq!(b.take(1), Ok(()));
        drop(a);
        assert_eq!(shared.used_bytes(), 21);
        drop(b);
        assert_eq!(shared.used_bytes(), 0);
    }
}
