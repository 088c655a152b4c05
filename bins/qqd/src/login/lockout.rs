//! What failed logins cost: each answer comes later than the one before, and an address has only so many a minute.
//!
//! Nothing here can grow without bound: what was used longest ago is forgotten, names are kept as hashes, and an IPv6
//! address counts as its network of 64 bits, since one host has that many.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Pairs of user and address, and addresses, that are remembered.
const KEPT_MAX: usize = 4_096;
/// After so long without another failure a pair begins anew.
const FORGET_AFTER: Duration = Duration::from_secs(5 * 60);
const MINUTE: Duration = Duration::from_secs(60);

/// How failures are answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// The wait before the first failure is told; it doubles with every further one of the same user and address.
    pub(crate) delay_min: Duration,
    /// The longest wait.
    pub(crate) delay_max: Duration,
    /// Failures of one address within a minute; beyond it passwords are not even compared.
    pub(crate) per_minute_max: usize,
}

/// The books about failed logins of one node. Times are the driver's monotonic clock.
#[derive(Debug)]
pub(crate) struct Lockout {
    rules: Rules,
    hasher: RandomState,
    pairs: Recent<(Option<IpAddr>, u64), Streak>,
    addresses: Recent<Option<IpAddr>, VecDeque<Duration>>,
}

/// Failures in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Streak {
    failures: u32,
    last: Duration,
}

impl Lockout {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            hasher: RandomState::new(),
            pairs: Recent::new(KEPT_MAX),
            addresses: Recent::new(KEPT_MAX),
        }
    }

    /// Whether an address failed so often that it is denied whatever it says: the wait before it is told so.
    pub(crate) fn is_locked(&mut self, now: Duration, ip: Option<IpAddr>) -> Option<Duration> {
        let failures = self.addresses.find(&network(ip))?;
        while failures.front().is_some_and(|at| *at + MINUTE <= now) {
            failures.pop_front();
        }
        (failures.len() >= self.rules.per_minute_max).then_some(self.rules.delay_max)
    }

    /// A login failed: the wait before it is told so.
    pub(crate) fn on_failure(
        &mut self,
        now: Duration,
        ip: Option<IpAddr>,
        user: &[u8],
    ) -> Duration {
        let ip = network(ip);
        let failures = self.addresses.entry(ip);
        // More are never asked for.
        if failures.len() >= self.rules.per_minute_max {
            failures.pop_front();
        }
        failures.push_back(now);
        let streak = self.pairs.entry((ip, self.hasher.hash_one(user)));
        if streak.last + FORGET_AFTER <= now {
            streak.failures = 0;
        }
        let factor = 1u32.checked_shl(streak.failures).unwrap_or(u32::MAX);
        streak.failures = (streak.failures + 1).min(u32::BITS);
        streak.last = now;
        self.rules
            .delay_min
            .saturating_mul(factor)
            .min(self.rules.delay_max)
    }

    /// A login succeeded: its user's failures from there are forgotten, those of the address are not, since a guesser may
    /// have a password of its own.
    pub(crate) fn on_success(&mut self, ip: Option<IpAddr>, user: &[u8]) {
        let key = (network(ip), self.hasher.hash_one(user));
        self.pairs.forget(&key);
    }
}

/// What stands for an address in the books.
fn network(ip: Option<IpAddr>) -> Option<IpAddr> {
    match ip? {
        IpAddr::V6(six) => match six.to_ipv4_mapped() {
            Some(four) => Some(IpAddr::V4(four)),
            None => {
                let [a, b, c, d, ..] = six.segments();
                Some(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
            }
        },
        four => Some(four),
    }
}

/// A map that forgets what was used longest ago.
#[derive(Debug)]
struct Recent<K, V> {
    kept_max: usize,
    uses: u64,
    values: HashMap<K, (u64, V)>,
    by_use: BTreeMap<u64, K>,
}

impl<K: Copy + Eq + Hash, V: Default> Recent<K, V> {
    fn new(kept_max: usize) -> Self {
        Self {
            kept_max,
            uses: 0,
            values: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// The value of a key, without counting as a use.
    fn find(&mut self, key: &K) -> Option<&mut V> {
        self.values.get_mut(key).map(|(_, value)| value)
    }

    /// The value of a key, made when there is none.
    fn entry(&mut self, key: K) -> &mut V {
        self.uses += 1;
        if !self.values.contains_key(&key)
            && self.by_use.len() >= self.kept_max
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.values.remove(&oldest);
        }
        let (used, value) = self.values.entry(key).or_default();
        self.by_use.remove(used);
        *used = self.uses;
        self.by_use.insert(self.uses, key);
        value
    }

    fn forget(&mut self, key: &K) {
        if let Some((used, _)) = self.values.remove(key) {
            self.by_use.remove(&used);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    const THERE: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));

    fn lockout(per_minute_max: usize) -> Lockout {
        Lockout::new(Rules {
            delay_min: seconds(1),
            delay_max: seconds(8),
            per_minute_max,
        })
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn v6(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn waits_double_for_one_user_at_one_address() {
        let mut books = lockout(100);
        let waits: Vec<u64> = (0..40)
            .map(|_| books.on_failure(seconds(1), HERE, b"ann").as_secs())
            .collect();
        assert_eq!(waits[..5], [1, 2, 4, 8, 8]);
        assert!(waits[5..].iter().all(|wait| *wait == 8));
        assert_eq!(books.on_failure(seconds(1), THERE, b"ann"), seconds(1));
        assert_eq!(books.on_failure(seconds(1), HERE, b"bob"), seconds(1));
    }

    #[test]
    fn success_and_time_end_a_streak() {
        let mut books = lockout(100);
        for _ in 0..3 {
            books.on_failure(seconds(0), HERE, b"ann");
        }
        books.on_success(HERE, b"bob");
        assert_eq!(books.on_failure(seconds(299), HERE, b"ann"), seconds(8));
        assert_eq!(books.on_failure(seconds(599), HERE, b"ann"), seconds(1));
        assert_eq!(books.on_failure(seconds(600), HERE, b"ann"), seconds(2));
        books.on_success(HERE, b"ann");
        assert_eq!(books.on_failure(seconds(601), HERE, b"ann"), seconds(1));
    }

    #[test]
    fn an_address_has_so_many_failures_within_any_minute() {
        let mut books = lockout(20);
        for number in 0..20u64 {
            assert_eq!(books.is_locked(seconds(number), HERE), None, "{number}");
            books.on_failure(seconds(number), HERE, &number.to_be_bytes());
        }
        // A success in between would not help: the password of one user is no licence to guess others'.
        books.on_success(HERE, b"mallory");
        for second in [20, 59] {
            assert_eq!(books.is_locked(seconds(second), HERE), Some(seconds(8)));
        }
        assert_eq!(books.is_locked(seconds(59), THERE), None);
        // The first failure, of second 0, is a minute old: there is room for one.
        assert_eq!(books.is_locked(seconds(60), HERE), None);
        books.on_failure(seconds(60), HERE, b"ann");
        assert_eq!(books.is_locked(seconds(60), HERE), Some(seconds(8)));
        assert_eq!(books.is_locked(seconds(200), HERE), None);
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_and_mapped_ipv4_as_itself() {
        let mut books = lockout(2);
        books.on_failure(seconds(1), v6("2001:db8::1"), b"a");
        books.on_failure(seconds(1), v6("2001:db8::ffff:2"), b"b");
        assert!(books.is_locked(seconds(1), v6("2001:db8::3")).is_some());
        assert!(books.is_locked(seconds(1), v6("2001:db8:0:1::1")).is_none());
        books.on_failure(seconds(1), v6("::ffff:10.0.0.1"), b"a");
        books.on_failure(seconds(1), HERE, b"b");
        assert!(books.is_locked(seconds(1), HERE).is_some());
        assert!(books.is_locked(seconds(1), THERE).is_none());
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_latest_stays() {
        let mut books = lockout(5);
        let ip = |number: u32| Some(IpAddr::V4(Ipv4Addr::from_bits(number)));
        for number in 0..20_000u32 {
            for _ in 0..7 {
                books.on_failure(seconds(1), ip(number), b"ann");
            }
        }
        assert_eq!(books.addresses.values.len(), KEPT_MAX);
        assert_eq!(books.addresses.by_use.len(), KEPT_MAX);
        assert_eq!(books.pairs.values.len(), KEPT_MAX);
        assert_eq!(books.pairs.by_use.len(), KEPT_MAX);
        assert!(books.addresses.values.values().all(|(_, at)| at.len() == 5));
        assert!(books.is_locked(seconds(1), ip(19_999)).is_some());
        assert!(books.is_locked(seconds(1), ip(0)).is_none());
    }
}
