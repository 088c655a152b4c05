//! When a message is delivered, and to whom: locks, delays, duplicates, a single active consumer, ordering keys, groups,
//! priorities.
//!
//! The standard leaves all of it to the broker. The scripts make their queues by `$management` and pass over a broker
//! without it; what is checked of the standard is what these features may not break: counts, outcomes, flows.

use crate::kit::{Delivery, Kit, Peer};
use crate::script::{Done, Script};
use crate::wire::{Value, message, perf, sym, text};
use crate::{ensure, same};

const AREA: &str = "delivery";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "DV-01",
        &["3.2.1-g", "3.4.5-a"],
        "a message that is held for too long is settled as a failed attempt and goes to another receiver",
        lock,
    ),
    Script::new(
        AREA,
        "DV-02",
        &["3.4.1-b"],
        "a receiver that says received again and again keeps its message",
        extension,
    ),
    Script::new(
        AREA,
        "DV-03",
        &["3.2.10-c"],
        "a delayed message comes when it is due and holds up nothing",
        delay,
    ),
    Script::new(
        AREA,
        "DV-04",
        &["3.2.10-c", "3.4.2-a"],
        "of two messages with one deduplication key both are accepted and one arrives",
        duplicate,
    ),
    Script::new(
        AREA,
        "DV-05",
        &["2.6.7-b", "2.7.4-c"],
        "one receiver is served, the next one is told when it takes over and gets first what came back",
        single_active,
    ),
    Script::new(
        AREA,
        "DV-06",
        &["3.2.4-a", "3.4.4-b"],
        "of one group-id one message is out at a time, in order also after a release",
        ordering_key,
    ),
    Script::new(
        AREA,
        "DV-07",
        &["3.4.2-a"],
        "each consumer group has a copy of every message, and goes on where its last member was",
        groups,
    ),
    Script::new(
        AREA,
        "DV-08",
        &["3.2.1-h", "3.2.1-c"],
        "a receiver that grants credit late gets the higher priority first",
        priority,
    ),
];

/// A message with annotations.
fn annotated(annotations: &[(&str, Value)], body: &str) -> Vec<u8> {
    let pairs = annotations.iter();
    let map = Value::Map(
        pairs
            .map(|(key, value)| (sym(key), value.clone()))
            .collect(),
    );
    [
        message::section(message::code::MESSAGE_ANNOTATIONS, map),
        message::data(body.as_bytes()),
    ]
    .concat()
}

/// A message of an ordering key.
fn keyed(key: &str, body: &str) -> Vec<u8> {
    let properties = perf("properties").with("group-id", key);
    [properties.value().bytes(), message::data(body.as_bytes())].concat()
}

fn bodies(got: &[Delivery]) -> Vec<String> {
    got.iter().map(Delivery::text).collect()
}

/// Nothing comes on any link for a while.
fn silence(p: &mut Peer, ms: u64) -> Done {
    p.quiet("transfer", ms)
}

/// The broker's disposition that settles a delivery of its own.
fn settled_for_us(p: &mut Peer, id: u32) -> Done<&'static str> {
    let found = p.want_where("a disposition of the broker's delivery", |f| {
        f.name() == "disposition" && !f.flag("role") && f.number("first") == Some(id.into())
    })?;
    ensure!(found.flag("settled"), "not settled: {found:?}");
    Ok(found.state())
}

fn lock(k: &mut Kit) -> Done {
    k.declare("locked", &[("lock_timeout_ms", Value::Uint(400))])?;
    k.fill_count("locked", 1)?;
    let mut slow = k.session_as("slow")?;
    slow.receiver("slow", 0, "locked")?;
    slow.credit(0, 1);
    let held = slow.must_get("slow")?;
    let mut quick = k.session_as("quick")?;
    quick.receiver("quick", 0, "locked")?;
    quick.credit(0, 1);
    let got = quick.must_get("quick")?;
    same!(got.text(), "m0", "delivery");
    same!(got.count(), 1, "delivery-count");
    same!(settled_for_us(&mut slow, held.id)?, "modified", "the lock");
    // Too late: it is another's.
    slow.settle(held.id, "accepted");
    slow.sync()?;
    quick.settle(got.id, "released");
    quick.sync()?;
    quick.close()?;
    slow.close()?;
    same!(k.bodies("locked")?, ["m0"], "left");
    Ok(())
}

fn extension(k: &mut Kit) -> Done {
    k.declare("locked", &[("lock_timeout_ms", Value::Uint(900))])?;
    k.fill_count("locked", 1)?;
    let mut p = k.session()?;
    p.receiver("worker", 0, "locked")?;
    p.credit(0, 1);
    let held = p.must_get("worker")?;
    let mut other = k.session_as("other")?;
    other.receiver("other", 0, "locked")?;
    other.credit(0, 1);
    for _ in 0..4 {
        let received = perf("received")
            .with("section-number", 0u32)
            .with("section-offset", 0u64);
        let disposition = perf("disposition")
            .with("role", true)
            .with("first", held.id);
        p.send(
            0,
            disposition
                .with("settled", false)
                .with("state", received.value()),
        );
        silence(&mut other, 500)?;
    }
    p.settle(held.id, "accepted");
    p.sync()?;
    silence(&mut other, 1_200)?;
    other.close()?;
    p.close()
}

fn delay(k: &mut Kit) -> Done {
    k.declare("later", &[])?;
    let wait = ("x-opt-delivery-delay", Value::Uint(700));
    k.fill(
        "later",
        &[annotated(&[wait], "later"), message::data(b"now")],
    )?;
    let mut p = k.session()?;
    p.receiver("r", 0, "later")?;
    p.credit(0, 5);
    let began = p.now_ms();
    let first = p.must_get("r")?;
    same!(first.text(), "now", "what is not delayed");
    silence(&mut p, 200)?;
    let second = p.must_get("r")?;
    same!(second.text(), "later", "what is");
    ensure!(p.now_ms() - began < 5_000, "it came much too late");
    p.settle(first.id, "accepted");
    p.settle(second.id, "accepted");
    p.sync()?;
    p.close()
}

fn duplicate(k: &mut Kit) -> Done {
    k.declare("once", &[])?;
    let key = |key: &str| [("x-opt-dedup-id", text(key))];
    // Each of them is accepted, or the set-up fails.
    k.fill(
        "once",
        &[
            annotated(&key("a"), "1"),
            annotated(&key("a"), "2"),
            annotated(&key("b"), "3"),
        ],
    )?;
    same!(k.bodies("once")?, ["1", "3"], "in the queue");
    // Also when the first one has been consumed.
    k.fill("once", &[annotated(&key("a"), "4"), message::data(b"5")])?;
    same!(k.bodies("once")?, ["5"], "afterwards");
    Ok(())
}

/// The last that a link was told of being the active one.
fn activity(p: &mut Peer, handle: u32) -> Done<Value> {
    let remote = p.remote_handle(handle).map(u64::from);
    let flow = p.want_where("a flow with the state of the link", move |f| {
        f.name() == "flow" && f.number("handle") == remote && !f.field("properties").is_null()
    })?;
    Ok(crate::kit::manage::entry(
        flow.field("properties"),
        "rabbitmq:active",
    ))
}

fn single_active(k: &mut Kit) -> Done {
    k.declare("single", &[("single_active_consumer", Value::Bool(true))])?;
    let mut first = k.session_as("first")?;
    first.receiver("first", 0, "single")?;
    same!(activity(&mut first, 0)?, Value::Bool(true), "the first");
    let mut second = k.session_as("second")?;
    second.receiver("second", 0, "single")?;
    same!(activity(&mut second, 0)?, Value::Bool(false), "the second");
    first.credit(0, 2);
    second.credit(0, 10);
    k.fill_count("single", 4)?;
    let held = first.must_get_all("first", 2)?;
    same!(bodies(&held), ["m0", "m1"], "to the active one");
    silence(&mut second, 300)?;
    first.detach(0, true)?;
    same!(activity(&mut second, 0)?, Value::Bool(true), "its turn");
    let got = second.must_get_all("second", 4)?;
    same!(
        bodies(&got),
        ["m0", "m1", "m2", "m3"],
        "after the hand-over"
    );
    for delivery in got {
        second.settle(delivery.id, "accepted");
    }
    second.sync()?;
    second.close()?;
    first.close()
}

fn ordering_key(k: &mut Kit) -> Done {
    k.declare("keys", &[])?;
    let mut p = k.session()?;
    for (handle, name) in [(0, "one"), (1, "two")] {
        p.receiver(name, handle, "keys")?;
        p.credit(handle, 10);
    }
    k.fill(
        "keys",
        &[keyed("a", "a1"), keyed("a", "a2"), keyed("b", "b1")],
    )?;
    let mut got = vec![];
    for name in ["one", "two"] {
        while let Some(delivery) = p.delivery(name, 300)? {
            got.push(delivery);
        }
    }
    let mut out = bodies(&got);
    out.sort();
    same!(out, ["a1", "b1"], "out at a time");
    for delivery in got {
        let is_first = delivery.text() == "a1";
        p.settle(delivery.id, if is_first { "released" } else { "accepted" });
    }
    for want in ["a1", "a2"] {
        let mut got = vec![];
        for name in ["one", "two"] {
            while let Some(delivery) = p.delivery(name, 300)? {
                got.push(delivery);
            }
        }
        same!(bodies(&got), [want], "next of the key");
        p.settle(got[0].id, "accepted");
    }
    p.sync()?;
    p.close()
}

fn groups(k: &mut Kit) -> Done {
    k.declare("shared", &[])?;
    let address = |k: &Kit, group: &str| format!("/queues/{}/groups/{group}", k.addr("shared"));
    let join = |p: &mut Peer, name: &str, handle: u32, address: String| {
        let source = perf("source").with("address", address);
        let attach = p.receiver_attach(name, handle, "x").with("source", source);
        p.attach(attach).map(|_| ())
    };
    let (billing, shipping) = (address(k, "billing"), address(k, "shipping"));
    let mut p = k.session()?;
    join(&mut p, "first", 0, billing.clone())?;
    join(&mut p, "other", 1, shipping)?;
    k.fill_count("shared", 3)?;
    p.credit(0, 1);
    let got = p.must_get("first")?;
    p.settle(got.id, "accepted");
    p.detach(0, true)?;
    p.credit(1, 10);
    let other = p.must_get_all("other", 3)?;
    same!(bodies(&other), ["m0", "m1", "m2"], "the other group");
    for delivery in other {
        p.settle(delivery.id, "accepted");
    }
    join(&mut p, "second", 2, billing)?;
    p.credit(2, 10);
    let rest = p.must_get_all("second", 2)?;
    same!(bodies(&rest), ["m1", "m2"], "the next member");
    for delivery in rest {
        p.settle(delivery.id, "accepted");
    }
    silence(&mut p, 200)?;
    p.close()
}

fn priority(k: &mut Kit) -> Done {
    k.declare("urgent", &[("max_priority", Value::Uint(10))])?;
    let with = |priority: u8, body: &str| {
        let header = perf("header").with("priority", priority);
        [header.value().bytes(), message::data(body.as_bytes())].concat()
    };
    let mut p = k.session()?;
    p.receiver("r", 0, "urgent")?;
    k.fill(
        "urgent",
        &[with(1, "low"), with(9, "high"), with(5, "middle")],
    )?;
    p.credit(0, 3);
    let got = p.must_get_all("r", 3)?;
    same!(bodies(&got), ["high", "middle", "low"], "by priority");
    let header = message::header_of(&got[0].payload);
    let kept = header.and_then(|header| header.field("priority").number());
    same!(kept, Some(9), "priority of the message");
    for delivery in got {
        p.settle(delivery.id, "accepted");
    }
    p.sync()?;
    p.close()
}
