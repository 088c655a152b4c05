//! Which of our deliveries has the embedder's token: an index of a session's unsettled deliveries, made as far as it is
//! asked for.
//!
//! Most sessions never ask: their peers settle by delivery-id, and forget. Where we settle first (second mode,
//! transactions, locks that ran out), a scan for each token would let a peer that holds many deliveries make us walk all
//! of them for each. So what a scan passes is remembered, and no delivery is passed twice.

use alloc::collections::BTreeMap;

use super::link::outgoing::Sent;
use super::unsettled::Unsettled;

/// Entries of deliveries that are gone are not worth a clean-up below this number.
const STALE_MIN: usize = 64;

/// The index. Entries may be stale, so each is checked against the delivery.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// Delivery-ids by link slot and token.
    ids: BTreeMap<(u32, u64), u32>,
    /// Where the next scan begins; none = at the oldest delivery.
    next: Option<u32>,
}

impl Tokens {
    /// The delivery-id of a token, and how many deliveries were looked at for it.
    pub(super) fn find(
        &mut self,
        outgoing: &mut Unsettled<Sent>,
        link: u32,
        token: u64,
    ) -> (Option<u32>, usize) {
        let is_asked = |sent: &Sent| sent.link == link && sent.token == token;
        self.forget_stale(outgoing);
        if let Some(&id) = self.ids.get(&(link, token))
            && outgoing.find_mut(id).is_some_and(|sent| is_asked(sent))
        {
            return (Some(id), 1);
        }
        let mut looked_at = 0;
        for (id, sent) in outgoing.iter_from(self.next) {
            looked_at += 1;
            self.ids.insert((sent.link, sent.token), id);
            self.next = Some(id.wrapping_add(1));
            if is_asked(sent) {
                return (Some(id), looked_at);
            }
        }
        (None, looked_at)
    }

    fn forget_stale(&mut self, outgoing: &mut Unsettled<Sent>) {
        if outgoing.len() == 0 {
            *self = Self::default();
        } else if self.ids.len() > 2 * outgoing.len() + STALE_MIN {
            self.ids.retain(|(link, token), id| {
                let sent = outgoing.find_mut(*id);
                sent.is_some_and(|sent| sent.link == *link && sent.token == *token)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{STALE_MIN, Sent, Tokens, Unsettled};

    /// Two links take turns; tokens of each count from 0, ids begin shortly before they wrap.
    fn of(count: u32) -> Unsettled<Sent> {
        let mut outgoing = Unsettled::new();
        for n in 0..count {
            outgoing.push(id_of(n), Sent::new(n % 2, u64::from(n / 2)));
        }
        outgoing
    }

    fn id_of(n: u32) -> u32 {
        (u32::MAX - 5).wrapping_add(n)
    }

    #[test]
    fn no_delivery_is_passed_twice() {
        let count = 1_000;
        let mut outgoing = of(count);
        let mut tokens = Tokens::default();
        let mut looked_at = 0;
        // The newest first: a scan for each would pass half a million.
        for n in (0..count).rev() {
            let (id, looks) = tokens.find(&mut outgoing, n % 2, u64::from(n / 2));
            assert_eq!(id, Some(id_of(n)));
            looked_at += looks;
            assert!(outgoing.remove(id_of(n)).is_some());
        }
        assert!(looked_at < 2 * count as usize, "{looked_at}");
        assert_eq!(tokens.find(&mut outgoing, 0, 0), (None, 0));
        assert!(tokens.ids.is_empty() && tokens.next.is_none());
    }

    #[test]
    fn what_is_gone_or_unknown_is_not_found() {
        let mut outgoing = of(10);
        let mut tokens = Tokens::default();
        assert_eq!(tokens.find(&mut outgoing, 2, 0), (None, 10));
        assert!(outgoing.remove(id_of(4)).is_some());
        assert_eq!(tokens.find(&mut outgoing, 0, 2), (None, 0));
        // The slot and the number are taken again by a later link.
        outgoing.push(id_of(10), Sent::new(0, 2));
        assert_eq!(tokens.find(&mut outgoing, 0, 2), (Some(id_of(10)), 1));
    }

    #[test]
    fn the_index_stays_as_small_as_what_is_there() {
        let mut outgoing = of(2);
        let mut tokens = Tokens::default();
        for n in 2..10_000 {
            outgoing.push(id_of(n), Sent::new(n % 2, u64::from(n / 2)));
            let (id, looks) = tokens.find(&mut outgoing, n % 2, u64::from(n / 2));
            assert_eq!(id, Some(id_of(n)));
            assert!(looks <= 3, "{looks}");
            assert!(outgoing.remove(id_of(n)).is_some());
            assert!(tokens.ids.len() <= 2 * 3 + STALE_MIN + 1);
        }
        assert_eq!(tokens.find(&mut outgoing, 1, 0).0, Some(id_of(1)));
    }
}
