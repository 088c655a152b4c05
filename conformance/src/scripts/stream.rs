//! Streams: reading that does not remove, from anywhere, with offsets, and readers that go on where they stopped.
//!
//! The standard has filters and distribution modes but no streams. These scripts ask for them under `/streams/NAME` with
//! RabbitMQ's filter; a broker that has none there is passed over.

use crate::kit::{Delivery, Kit, Peer, unsupported};
use crate::script::{Done, Failure, Script};
use crate::wire::{Perf, Value, message, perf, sym};
use crate::{ensure, same};

const AREA: &str = "stream";
const SPEC: &str = "rabbitmq:stream-offset-spec";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "ST-01",
        &["3.5-a", "3.5.3-b"],
        "every reader of a stream gets all of it, whatever became of it before",
        everything,
    ),
    Script::new(
        AREA,
        "ST-02",
        &["3.5.8-a", "3.5.3-b"],
        "a reader begins where its filter says, and is told that it does",
        beginnings,
    ),
    Script::new(
        AREA,
        "ST-03",
        &["3.5.5-a", "3.5.6-b"],
        "a kept reader goes on behind what it settled",
        kept,
    ),
];

fn source(address: &str, start: Option<Value>) -> Perf {
    let source = perf("source").with("address", address);
    let Some(start) = start else {
        return source;
    };
    let filter = Value::Described(Box::new(sym(SPEC)), Box::new(start));
    source.with("filter", Value::Map(vec![(sym(SPEC), filter)]))
}

/// A stream with some messages, or none where the broker has no streams.
fn fill(p: &mut Peer, address: &str, count: u32) -> Done {
    let target = perf("target").with("address", address);
    let attach = p.sender_attach("fill", 0, "x").with("target", target);
    match p.attach(attach) {
        Ok(_) => {}
        Err(Failure::Broke(text)) if text.contains("was refused") => {
            return unsupported("no streams under these addresses");
        }
        Err(other) => return Err(other),
    }
    p.credit_wait(0)?;
    for id in 0..count {
        p.publish(0, id, &message::data(format!("m{id}").as_bytes()));
        same!(p.outcome(id)?, "accepted", "outcome of message {id}");
    }
    Ok(())
}

fn read(p: &mut Peer, name: &str, handle: u32, source: Perf, count: usize) -> Done<Vec<Delivery>> {
    let attach = p.receiver_attach(name, handle, "x").with("source", source);
    p.attach(attach)?;
    p.credit(handle, 100);
    p.sync()?;
    p.must_get_all(name, count)
}

/// The offset that a delivery carries.
fn offset_of(delivery: &Delivery) -> Option<u64> {
    let all = message::sections(&delivery.payload).ok()?;
    let annotations = all
        .iter()
        .find(|section| section.code == message::code::MESSAGE_ANNOTATIONS)?;
    let Value::Described(_, map) = &annotations.value else {
        return None;
    };
    let Value::Map(entries) = &**map else {
        return None;
    };
    let (_, offset) = entries
        .iter()
        .find(|(key, _)| key.words() == Some("x-stream-offset"))?;
    match offset {
        Value::Long(offset) => u64::try_from(*offset).ok(),
        _ => None,
    }
}

fn offsets(all: &[Delivery]) -> Vec<Option<u64>> {
    all.iter().map(offset_of).collect()
}

fn some(offsets: std::ops::Range<u64>) -> Vec<Option<u64>> {
    offsets.map(Some).collect()
}

fn everything(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let address = format!("/streams/{}", p.addr("st01").replace('/', "%2F"));
    fill(&mut p, &address, 5)?;
    for (handle, outcome) in [
        (1, "accepted"),
        (2, "rejected"),
        (3, "released"),
        (4, "accepted"),
    ] {
        let name = format!("r{handle}");
        let first = Some(sym("first"));
        let all = read(&mut p, &name, handle, source(&address, first), 5)?;
        let texts: Vec<String> = all.iter().map(Delivery::text).collect();
        same!(texts, ["m0", "m1", "m2", "m3", "m4"], "what {name} gets");
        same!(offsets(&all), some(0..5), "offsets");
        for one in &all {
            p.settle(one.id, outcome);
        }
        p.sync()?;
        let again = p.delivery(&name, 50)?;
        ensure!(again.is_none(), "{outcome} brings a message again");
        p.detach(handle, true)?;
    }
    p.close()
}

fn beginnings(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let address = format!("/streams/{}", p.addr("st02").replace('/', "%2F"));
    fill(&mut p, &address, 6)?;
    let cases = [
        (sym("first"), 0),
        (crate::wire::text("last"), 5),
        (sym("next"), 6),
        (Value::Long(4), 4),
        (Value::Timestamp(0), 0),
        (crate::wire::text("1h"), 0),
    ];
    for (handle, (start, first)) in (1u32..).zip(cases) {
        let name = format!("r{handle}");
        let source = source(&address, Some(start.clone()));
        let attach = p.receiver_attach(&name, handle, "x").with("source", source);
        let answer = p.attach(attach)?;
        let told = format!("{:?}", answer.field("source").field(7));
        ensure!(told.contains(SPEC), "the filter is not told: {told}");
        p.credit(handle, 100);
        p.sync()?;
        let all = p.must_get_all(&name, 6 - first)?;
        same!(
            offsets(&all),
            some(first as u64..6),
            "offsets from {start:?}"
        );
        let more = p.delivery(&name, 50)?;
        ensure!(more.is_none(), "more than there is from {start:?}");
    }
    // All of them wait for what comes, also the one that began behind the end.
    p.publish(0, 6, &message::data(b"m6"));
    same!(p.outcome(6)?, "accepted", "outcome of the last message");
    for handle in 1..=6 {
        let one = p.must_get(&format!("r{handle}"))?;
        same!(one.text(), "m6", "what r{handle} gets next");
    }
    let bad = source(&address, Some(crate::wire::text("soon")));
    let attach = p.receiver_attach("bad", 9, "x").with("source", bad);
    p.attach_refused(attach, &["amqp:invalid-field"])?;
    p.close()
}

fn kept(k: &mut Kit) -> Done {
    let mut p = k.session_as("st03")?;
    let address = format!("/streams/{}", p.addr("st03").replace('/', "%2F"));
    fill(&mut p, &address, 6)?;
    let source = || {
        source(&address, Some(sym("first")))
            .with("durable", 1u32)
            .with("expiry-policy", sym("never"))
    };
    let all = read(&mut p, "reader", 1, source(), 6)?;
    for one in &all[..3] {
        p.settle(one.id, "accepted");
    }
    p.sync()?;
    p.cut();
    k.wait(50);
    let mut p = k.session_as("st03")?;
    let again = read(&mut p, "reader", 1, source(), 3)?;
    same!(offsets(&again), some(3..6), "what was not settled");
    p.detach(1, true)?;
    let anew = read(&mut p, "reader", 1, source(), 6)?;
    same!(offsets(&anew), some(0..6), "after the reader was closed");
    p.close()
}
