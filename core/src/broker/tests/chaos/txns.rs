//! Transactions of the walk: what is staged, and what the world knows when they are answered.

use super::{Chaos, Port, failed};
use crate::vocab::{Command, ConnId, DeliveryId, Outcome, TxnId};

/// A transaction that was not answered.
#[derive(Default)]
pub(super) struct Staged {
    /// Durable publishes to `q`.
    texts: Vec<String>,
    /// Deliveries of `q` and whether they end for good.
    ends: Vec<((ConnId, Port, u64), bool)>,
    /// Deliveries that are not held any more if it is done, since its discharge was asked for.
    ended: Vec<((ConnId, Port, u64), String, bool)>,
    /// It is to be rolled back.
    fails: bool,
}

impl Chaos {
    /// One of a few open transactions of a connection.
    fn some_txn(&mut self, conn: ConnId) -> TxnId {
        let of_conn = (conn, TxnId(0))..=(conn, TxnId(u64::MAX));
        let open: Vec<TxnId> = self
            .known
            .staged
            .range(of_conn)
            .map(|(key, _)| key.1)
            .collect();
        if open.len() < 2 {
            self.next_txn += 1;
            let txn = TxnId(self.next_txn);
            self.known.staged.insert((conn, txn), Staged::default());
            return txn;
        }
        open[self.random.index(open.len())]
    }

    fn staged(&mut self, conn: ConnId, txn: TxnId) -> &mut Staged {
        self.known.staged.entry((conn, txn)).or_default()
    }

    /// A publish in a transaction.
    pub(super) fn stage(&mut self, conn: ConnId) -> Command {
        let txn = self.some_txn(conn);
        let is_open = |key: &&(ConnId, Port)| key.0 == conn && !self.closed.contains(*key);
        let open = self.q_producers.iter().find(is_open).map(|key| key.1);
        // A port that is none makes the transaction fail.
        let port = match open {
            Some(port) if self.random.below(20) > 0 => port,
            _ => self.some_port(conn),
        };
        let Command::Publish {
            port,
            ticket,
            message,
            ..
        } = self.publish_by(conn, port)
        else {
            unreachable!("a publish");
        };
        // Its confirmation says no more than that it has a place.
        let text = self.known.sent.remove(&(conn, port, ticket.0));
        let late = String::from_utf8(message.payload.to_vec()).expect("a number");
        self.known.late.insert(late);
        self.staged(conn, txn).texts.extend(text);
        Command::Stage {
            port,
            ticket,
            txn,
            message,
        }
    }

    /// A settlement in a transaction: of a delivery that is held, unless another command ends it first.
    pub(super) fn stage_settle(&mut self, conn: ConnId) -> Command {
        let txn = self.some_txn(conn);
        let of_conn = |key: &&(ConnId, Port, u64)| key.0 == conn;
        let held: Vec<_> = self.known.held.keys().filter(of_conn).copied().collect();
        if held.is_empty() {
            return self.publish(conn);
        }
        let key = held[self.random.index(held.len())];
        let is_end = self.random.below(3) > 0;
        self.staged(conn, txn).ends.push((key, is_end));
        Command::StageSettle {
            port: key.1,
            first: DeliveryId(key.2),
            last: DeliveryId(key.2),
            txn,
            outcome: if is_end { Outcome::Accepted } else { failed() },
        }
    }

    pub(super) fn discharge(&mut self, conn: ConnId) -> Command {
        let txn = self.some_txn(conn);
        let fail = self.random.below(4) == 0;
        let mut staged = self.known.staged.remove(&(conn, txn)).unwrap_or_default();
        staged.fails = fail;
        if !fail {
            // As if it was done already: the messages may be with others before the answer comes.
            for (key, is_end) in std::mem::take(&mut staged.ends) {
                if let Some(text) = self.known.held.remove(&key) {
                    if is_end {
                        self.known.settled.insert(text.clone());
                    }
                    staged.ended.push((key, text, is_end));
                }
            }
        }
        self.known.discharged.insert((conn, txn), staged);
        Command::Discharge { txn, fail }
    }

    /// The answer to a discharge.
    pub(super) fn on_discharged(&mut self, conn: ConnId, txn: TxnId, is_done: bool) {
        let staged = self.known.discharged.remove(&(conn, txn));
        let staged = staged.expect("a discharge that was asked for");
        if staged.fails {
            return;
        }
        if is_done {
            self.known.done += 1;
            self.known.confirmed.extend(staged.texts);
            let ended = staged.ended.into_iter().filter(|(_, _, is_end)| *is_end);
            self.known.gone.extend(ended.map(|(_, text, _)| text));
            return;
        }
        self.known.undone += 1;
        for (key, text, is_end) in staged.ended {
            if is_end {
                self.known.settled.remove(&text);
            }
            if !self.closed.contains(&(key.0, key.1)) {
                self.known.held.insert(key, text);
            }
        }
    }
}
