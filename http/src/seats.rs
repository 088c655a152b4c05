//! How many may do something at a time, in all and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
pub(crate) struct Seats {
    all_max: usize,
    each_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    all: usize,
    of: HashMap<IpAddr, usize>,
}

/// Why there is no seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All are taken.
    All,
    /// Those of the address are.
    Each,
}

/// One seat, free again when this is dropped.
pub(crate) struct Seat {
    seats: Arc<Seats>,
    peer: IpAddr,
}

impl Seats {
    /// So many in all, and so many for each address.
    pub(crate) fn new(all_max: usize, each_max: usize) -> Arc<Self> {
        Arc::new(Self {
            all_max,
            each_max,
            taken: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(self: &Arc<Self>, peer: IpAddr) -> Result<Seat, Full> {
        let peer = peer.to_canonical();
        let mut taken = self.lock();
        if taken.all >= self.all_max {
            return Err(Full::All);
        }
        if taken.of.get(&peer).copied().unwrap_or(0) >= self.each_max {
            return Err(Full::Each);
        }
        taken.all += 1;
        *taken.of.entry(peer).or_default() += 1;
        let seats = Arc::clone(self);
        Ok(Seat { seats, peer })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lock().all == 0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        taken.all -= 1;
        if let Some(count) = taken.of.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                taken.of.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_takes_the_seats_of_all_others() {
        let seats = Seats::new(3, 2);
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        // The same host by way of a socket for both families.
        let mapped = "::ffff:10.0.0.1".parse().expect("an address");
        let first = seats.take(one).expect("a seat");
        let _second = seats.take(mapped).expect("a seat");
        assert_eq!(seats.take(one).err(), Some(Full::Each));
        let _third = seats.take(other).expect("a seat");
        assert_eq!(seats.take(other).err(), Some(Full::All));
        drop(first);
        let _fourth = seats.take(one).expect("a seat");
    }

    #[test]
    fn nothing_is_left_of_who_is_gone() {
        let seats = Seats::new(1, 1);
        for last in 0..50 {
            assert!(seats.take(IpAddr::from([10, 0, 0, last])).is_ok());
        }
        assert!(seats.is_empty() && seats.lock().of.is_empty());
    }
}
