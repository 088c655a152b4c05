//! Dead letters: where a message goes that cannot be consumed, and what its annotations say of how it came there.
//!
//! The standard leaves to a broker what becomes of such a message. These scripts look for it in a queue that is called
//! after its own with `.dlq` behind it; a broker that keeps none there is passed over.

use crate::kit::{Delivery, Kit, Peer, modified, rejected, unsupported};
use crate::script::{Done, Script};
use crate::wire::{Value, message, perf};
use crate::{broke, ensure, same};

const AREA: &str = "dead-letters";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "DL-21",
        &["3.4.3-a", "3.2.3-a"],
        "a rejected message is a dead letter and tells where, why, when and how often",
        of_rejection,
    ),
    Script::new(
        AREA,
        "DL-22",
        &["3.2.1-e"],
        "an expired message is a dead letter without a time to live, and keeps what it had",
        of_expiry,
    ),
    Script::new(
        AREA,
        "DL-23",
        &["3.4.5-a"],
        "a message that fails again and again is a dead letter in the end",
        of_attempts,
    ),
    Script::new(
        AREA,
        "DL-24",
        &["3.4.3-a"],
        "a dead letter that is rejected is gone",
        rejected_again,
    ),
];

/// The next message of the dead-letter queue of `q1`.
fn letter(p: &mut Peer, handle: u32) -> Done<Delivery> {
    let attach = p.receiver_attach("dlq", handle, "q1.dlq");
    p.attach(attach)?;
    p.credit(handle, 10);
    match p.delivery("dlq", 2_000)? {
        Some(delivery) => Ok(delivery),
        None => unsupported("no dead letters in a queue of that name"),
    }
}

/// A message annotation.
fn annotation(payload: &[u8], name: &str) -> Done<Value> {
    let sections = message::sections(payload).map_err(|e| broke!("{e:?}"))?;
    let annotations = sections
        .into_iter()
        .find(|s| s.code == message::code::MESSAGE_ANNOTATIONS)
        .map(|s| s.value);
    let Some(Value::Described(_, map)) = annotations else {
        return Err(broke!("no message annotations"));
    };
    entry(&map, name)
}

/// What a map of symbols holds under a name.
fn entry(map: &Value, name: &str) -> Done<Value> {
    let Value::Map(pairs) = map else {
        return Err(broke!("no map: {map:?}"));
    };
    let found = pairs.iter().find(|(key, _)| key.words() == Some(name));
    let found = found.ok_or_else(|| broke!("{name} is missing in {map:?}"))?;
    Ok(found.1.clone())
}

/// Checks what a letter says of its only death.
fn tells(k: &Kit, got: &Delivery, reason: &str) -> Done {
    let list = annotation(&got.payload, "x-opt-deaths")?;
    let Value::List(deaths) = &list else {
        return Err(broke!("x-opt-deaths is no list: {list:?}"));
    };
    same!(deaths.len(), 1, "deaths");
    let queue = k.addr("q1");
    for (of_list, own) in [
        ("queue", "x-opt-death-queue"),
        ("reason", "x-opt-death-reason"),
        ("count", "x-opt-death-count"),
        ("time", "x-opt-death-time"),
    ] {
        let newest = annotation(&got.payload, own)?;
        same!(
            entry(&deaths[0], of_list)?,
            newest.clone(),
            "{of_list} and {own}"
        );
        match of_list {
            "queue" => ensure!(
                newest.words().is_some_and(|name| queue.ends_with(name)),
                "queue {newest:?}, not {queue}"
            ),
            "reason" => same!(newest.words(), Some(reason), "reason"),
            "count" => same!(newest.number(), Some(1), "count"),
            _ => ensure!(
                matches!(newest, Value::Timestamp(at) if at > 1_600_000_000_000),
                "time {newest:?}"
            ),
        }
    }
    Ok(())
}

fn of_rejection(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    p.settle_with(got.id, rejected("amqp:decode-error"));
    let found = letter(&mut p, 2)?;
    same!(found.text(), "m0", "its body");
    same!(
        message::bare(&found.payload),
        message::bare(&got.payload),
        "its bare message"
    );
    same!(found.count(), 0, "delivery-count begins anew");
    tells(k, &found, "rejected")?;
    p.settle(found.id, "accepted");
    p.sync()?;
    p.close()?;
    same!(k.bodies("q1")?, Vec::<String>::new(), "left in its queue");
    Ok(())
}

fn of_expiry(k: &mut Kit) -> Done {
    let header = perf("header").with("ttl", 200u32).value().bytes();
    k.fill("q1", &[[header, message::data(b"late")].concat()])?;
    k.wait(1_000);
    let mut p = k.session()?;
    let found = letter(&mut p, 2)?;
    same!(found.text(), "late", "its body");
    let header = message::header_of(&found.payload);
    ensure!(
        header.is_none_or(|header| header.field("ttl").is_null()),
        "the time to live goes on"
    );
    same!(
        annotation(&found.payload, "x-opt-death-ttl")?.number(),
        Some(200),
        "the time to live that it had"
    );
    tells(k, &found, "expired")?;
    p.settle(found.id, "accepted");
    p.sync()?;
    p.close()
}

fn of_attempts(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    for attempt in 0..100 {
        p.credit(1, 1);
        let Some(got) = p.delivery("r1", 400)? else {
            ensure!(attempt > 1, "given up after {attempt} attempts");
            let found = letter(&mut p, 2)?;
            same!(found.text(), "m0", "its body");
            tells(k, &found, "delivery-limit")?;
            p.settle(found.id, "accepted");
            p.sync()?;
            return p.close();
        };
        same!(got.count(), attempt, "delivery-count");
        p.settle_with(got.id, modified(true, false));
    }
    unsupported("tried for ever")
}

fn rejected_again(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    p.settle_with(got.id, rejected("amqp:decode-error"));
    let found = letter(&mut p, 2)?;
    p.settle_with(found.id, rejected("amqp:decode-error"));
    p.sync()?;
    ensure!(p.delivery("dlq", 400)?.is_none(), "it came again");
    p.close()?;
    for queue in ["q1", "q1.dlq", "q1.dlq.dlq"] {
        same!(k.bodies(queue)?, Vec::<String>::new(), "left in {queue}");
    }
    Ok(())
}
