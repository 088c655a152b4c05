//! The order of write, sync and `accepted`, seen from outside: no `accepted` may be written to a
//! socket before a sync returned that began after the message's write to the store returned.

use super::Outcome;
use super::daemon::Setup;
use super::load::Load;
use super::producer::ProducerPlan;
use super::record::MessageId;
use super::trace::{self, Call, Tracer};
use crate::wire::{HEADER_AMQP, take_frame};
use std::collections::HashMap;
use std::time::Instant;

/// What a trace showed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// Messages that were accepted, each after the sync that covers it.
    pub accepted: u64,
    /// Syncs of the store while messages came.
    pub syncs: u64,
    /// Octets written to the store's files per accepted message.
    pub octets_per_message: u64,
}

impl Order {
    /// Messages per sync.
    pub fn messages_per_sync(&self) -> u64 {
        self.accepted / self.syncs.max(1)
    }
}

fn producers(count: u64, size: usize) -> Vec<ProducerPlan> {
    let plan = |id| ProducerPlan {
        count: Some(count / 4),
        size,
        ..ProducerPlan::new(id, "order")
    };
    (0..4).map(plan).collect()
}

/// Publishes `count` messages to a traced daemon and checks the order for each.
pub fn order(setup: &Setup, count: u64, size: usize) -> Outcome<Order> {
    let mut setup = setup.clone();
    let path = setup.dir.join("trace");
    let options = ["-yy", "-xx", "-s", "4000000", "-e", trace::CHANGES];
    trace::wrap(&mut setup, &options, &path)?;
    let mut daemon = setup.start()?;
    let tracer = Tracer::of(&daemon)?;
    let load = Load::start(daemon.port, Instant::now(), &producers(count, size), &[]);
    let seen = load.join();
    daemon.kill()?;
    tracer.wait()?;
    let ports = (0..).zip(seen.produced.iter().map(|p| p.local_port));
    let ports: HashMap<u16, u32> = ports.map(|(id, port)| (port, id)).collect();
    let order = check(
        &trace::read(&path)?,
        &setup.data().display().to_string(),
        &ports,
    )?;
    if order.accepted != seen.accepted() || order.accepted != count / 4 * 4 {
        let told = seen.accepted();
        return Err(format!(
            "of {count} messages {told} were accepted, the trace has {}",
            order.accepted
        ));
    }
    Ok(order)
}

/// Counts messages per sync under load with as little tracing as possible, and the octets that the
/// process had the kernel write to disk (0 on file systems in memory).
pub fn batching(setup: &Setup, count: u64, size: usize) -> Outcome<Order> {
    let mut setup = setup.clone();
    let path = setup.dir.join("trace");
    let options = ["-yy", "-xx", "--seccomp-bpf", "-e", "trace=fdatasync,fsync"];
    trace::wrap(&mut setup, &options, &path)?;
    let mut daemon = setup.start()?;
    let tracer = Tracer::of(&daemon)?;
    let lines = || std::fs::read_to_string(&path).map_or(0, |t| t.lines().count());
    let (lines_before, octets_before) = (lines(), daemon.written());
    let load = Load::start(daemon.port, Instant::now(), &producers(count, size), &[]);
    let accepted = load.join().accepted();
    let octets = daemon.written() - octets_before;
    daemon.kill()?;
    tracer.wait()?;
    Ok(Order {
        accepted,
        syncs: (lines() - lines_before) as u64,
        octets_per_message: octets / accepted.max(1),
    })
}

/// Checks a trace. `store` is the folder of the store, `ports` maps ports of clients to producers,
/// whose messages are numbered by their delivery ids.
pub fn check(calls: &[Call], store: &str, ports: &HashMap<u16, u32>) -> Outcome<Order> {
    let accepts = accepts(calls, ports)?;
    let first_accept = accepts.iter().map(|(_, at)| *at).min().unwrap_or(0);
    let mut order = Order::default();
    // Per message the file and the return of its first write; per file the syncs.
    let mut writes: HashMap<MessageId, (&str, usize)> = HashMap::new();
    let mut syncs: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
    let mut octets = 0;
    check_name(calls, store, first_accept)?;
    for call in calls.iter().filter(|c| c.target.starts_with(store)) {
        match call.name.as_str() {
            "pwrite64" | "write" => {
                octets += u64::try_from(call.result).unwrap_or(0);
                for m in MessageId::all_in(&call.data()) {
                    writes.entry(m).or_insert((&call.target, call.returned));
                }
            }
            "fdatasync" | "fsync" if call.result == 0 => {
                order.syncs += u64::from(call.returned >= first_accept);
                let list = syncs.entry(&call.target).or_default();
                list.push((call.began, call.returned));
            }
            _ => {}
        }
    }
    for (m, told) in &accepts {
        let Some((file, written)) = writes.get(m) else {
            return Err(format!("{m:?} was accepted and never written to {store}"));
        };
        let list = syncs.get(file).map_or(&[][..], Vec::as_slice);
        let next = list.partition_point(|(began, _)| began < written);
        if list.get(next).is_none_or(|(_, returned)| returned > told) {
            return Err(format!(
                "{m:?}: written at line {written}, accepted at line {told}, next sync of {file}: {:?}",
                list.get(next)
            ));
        }
        order.accepted += 1;
    }
    order.octets_per_message = octets / order.accepted.max(1);
    Ok(order)
}

/// The journal's name must be certain before anything is accepted: its folder is to be synced after
/// the journal was last made.
fn check_name(calls: &[Call], store: &str, first_accept: usize) -> Outcome<()> {
    let made = calls
        .iter()
        .filter(|c| c.name == "openat" && c.returned < first_accept && c.opened.ends_with("-wal"));
    let Some(made) = made.map(|c| c.returned).max() else {
        return Ok(());
    };
    let mut syncs = calls.iter().filter(|c| {
        let is_sync = c.name == "fsync" || c.name == "fdatasync";
        is_sync && c.target == store && c.result == 0
    });
    match syncs.any(|c| c.began > made && c.returned < first_accept) {
        true => Ok(()),
        false => Err(format!(
            "accepted at line {first_accept}, the folder was not synced since line {made}"
        )),
    }
}

/// An answer of the broker: a disposition that settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// To a sender: a message is accepted. Else to a receiver: its settlement is confirmed.
    pub is_to_sender: bool,
    /// The delivery.
    pub id: u32,
}

/// Every accepted message with the line at which the daemon began to say so.
fn accepts(calls: &[Call], ports: &HashMap<u16, u32>) -> Outcome<Vec<(MessageId, usize)>> {
    let mut found = vec![];
    for (port, producer) in ports {
        let told = answers(calls, *port)?.into_iter();
        let told = told.filter(|(answer, _)| answer.is_to_sender);
        found.extend(told.map(|(a, at)| (MessageId::new(*producer, a.id.into()), at)));
    }
    Ok(found)
}

/// Every answer to the client at a port, with the line at which the daemon began to write it.
/// Outcomes other than accepted are no answers to a sender.
pub fn answers(calls: &[Call], port: u16) -> Outcome<Vec<(Answer, usize)>> {
    let mut bytes = vec![];
    // At which octet and line each write began.
    let mut parts = vec![];
    for call in calls {
        let is_write = ["write", "writev", "sendto", "sendmsg"].contains(&call.name.as_str());
        if is_write && peer_port(&call.target) == Some(port) {
            parts.push((bytes.len(), call.began));
            bytes.extend(call.data());
        }
    }
    if parts.is_empty() {
        return Err(format!("nothing was written to the client at port {port}"));
    }
    let total = bytes.len();
    if bytes.starts_with(&HEADER_AMQP) {
        bytes.drain(..HEADER_AMQP.len());
    }
    let mut found = vec![];
    loop {
        let at = total - bytes.len();
        let Some(frame) = take_frame(&mut bytes).map_err(|e| format!("{e:?}"))? else {
            return Ok(found);
        };
        let is_to_sender = frame.name() == "disposition" && frame.flag("role");
        let is_answer = match is_to_sender {
            true => frame.state() == "accepted",
            false => frame.name() == "disposition" && frame.flag("settled"),
        };
        if !is_answer {
            continue;
        }
        let part = parts.partition_point(|(start, _)| *start <= at) - 1;
        let first = frame.number("first").unwrap_or(0) as u32;
        let last = frame.number("last").map_or(first, |l| l as u32);
        let ids = first..=last;
        found.extend(ids.map(|id| (Answer { is_to_sender, id }, parts[part].1)));
    }
}

/// The peer's port in `TCP:[127.0.0.1:1->127.0.0.1:2]`.
fn peer_port(target: &str) -> Option<u16> {
    let (_, peer) = target.strip_prefix("TCP:[")?.split_once("->")?;
    peer.strip_suffix(']')?.rsplit_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{frame_bytes, perf};

    fn file(name: &str, began: usize, returned: usize, data: &[u8]) -> Call {
        Call {
            name: name.into(),
            target: "/store/wal".into(),
            strings: vec![data.to_vec()],
            began,
            returned,
            result: if name == "pwrite64" {
                data.len() as i64
            } else {
                0
            },
            ..Call::default()
        }
    }

    fn told(began: usize, first: u32, last: u32) -> Call {
        let disposition = perf("disposition")
            .with("role", true)
            .with("first", first)
            .with("last", last)
            .with("settled", true)
            .with("state", perf("accepted"));
        let bytes = frame_bytes(0, 0, Some(&disposition), &[]);
        Call {
            name: "sendto".into(),
            target: "TCP:[127.0.0.1:1->127.0.0.1:9]".into(),
            result: bytes.len() as i64,
            strings: vec![bytes],
            began,
            returned: began,
            ..Call::default()
        }
    }

    fn judged(calls: &[Call]) -> Outcome<Order> {
        check(calls, "/store", &HashMap::from([(9, 4)]))
    }

    #[test]
    fn accepted_after_the_covering_sync_is_well() {
        let bodies = [MessageId::new(4, 0).body(40), MessageId::new(4, 1).body(40)].concat();
        let order = judged(&[
            file("pwrite64", 0, 1, &bodies),
            file("fdatasync", 2, 3, &[]),
            told(4, 0, 1),
        ]);
        assert_eq!(order.map(|o| (o.accepted, o.syncs)), Ok((2, 0)));
    }

    #[test]
    fn accepted_before_during_or_without_a_sync_is_found() {
        let body = MessageId::new(4, 0).body(40);
        let write = file("pwrite64", 2, 3, &body);
        for sync in [(0, 1), (1, 4), (4, 7), (7, 8)] {
            let sync = file("fdatasync", sync.0, sync.1, &[]);
            assert!(judged(&[sync, write.clone(), told(6, 0, 0)]).is_err());
        }
        assert!(judged(&[write, told(6, 0, 0)]).is_err());
        let sync = file("fdatasync", 4, 5, &[]);
        assert!(judged(&[sync, told(6, 0, 0)]).is_err(), "never written");
    }

    #[test]
    fn a_journal_whose_name_is_not_certain_is_found() {
        let body = MessageId::new(4, 0).body(40);
        let made = Call {
            name: "openat".into(),
            opened: "/store/x-wal".into(),
            began: 0,
            returned: 0,
            ..Call::default()
        };
        let folder = Call {
            target: "/store".into(),
            ..file("fsync", 1, 1, &[])
        };
        let failed = Call {
            result: -1,
            ..folder.clone()
        };
        let rest = [
            file("pwrite64", 2, 2, &body),
            file("fsync", 3, 3, &[]),
            told(4, 0, 0),
        ];
        let with = |folder: Call| judged(&[&[made.clone(), folder][..], &rest[..]].concat());
        assert!(with(folder).is_ok());
        assert!(with(failed).is_err());
    }
}
