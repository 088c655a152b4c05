//! Links that come back with unsettled deliveries (transport 2.6.13, messaging 3.4.6).
//!
//! A broker may remember what was unsettled or say that it does not: both are right, if what it says is what it does.

use crate::kit::{Kit, Peer};
use crate::script::{Done, Script};
use crate::wire::{Frame, Perf, Value, message, perf};
use crate::{ensure, same};

const AREA: &str = "resume";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "RS-01",
        &["2.6.13-a", "2.6.13-c"],
        "a settled delivery that a sender sends again as resumed is not a new message",
        sender_returns,
    ),
    Script::new(
        AREA,
        "RS-02",
        &["2.6.13-c", "3.4.1-a", "2.6.14-d"],
        "the rest of a half-sent delivery is joined to its beginning or forgotten, never a message of its own",
        half_sent,
    ),
    Script::new(
        AREA,
        "RS-03",
        &["2.6.13-a", "2.6.13-b", "3.4.6-a", "3.3-c"],
        "what a returning receiver had is resumed if the answer says so, else delivered anew",
        receiver_returns,
    ),
];

/// An unsettled map with the tags of these deliveries of ours.
fn unsettled(entries: &[(Vec<u8>, Value)]) -> Value {
    let entry = |(tag, state): &(Vec<u8>, Value)| (Value::Binary(tag.clone()), state.clone());
    Value::Map(entries.iter().map(entry).collect())
}

fn tag_of(id: u32) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

/// The tags in the unsettled map of an answer; an absent map has none.
fn tags(answer: &Frame) -> Done<Vec<Vec<u8>>> {
    match answer.field("unsettled") {
        Value::Null => Ok(vec![]),
        Value::Map(entries) => Ok(entries
            .iter()
            .filter_map(|(key, _)| match key {
                Value::Binary(tag) => Some(tag.clone()),
                _ => None,
            })
            .collect()),
        other => Err(crate::broke!("unsettled is no map: {other:?}")),
    }
}

/// Attaches again under the name of a link that was detached.
fn come_back(p: &mut Peer, attach: Perf, map: Value) -> Done<Vec<Vec<u8>>> {
    let answer = p.attach(attach.with("unsettled", map))?;
    tags(&answer)
}

/// A resumed transfer of a delivery that the broker may not know. It is forgotten, or at most costs the link.
fn resume(p: &mut Peer, id: u32, body: &[u8]) -> Done {
    p.credit_wait(0)?;
    let transfer = p.transfer(0, id).with("resume", true);
    p.send_with(0, transfer, body);
    p.pump(300)?;
    for detach in p.take("detach") {
        ensure!(
            detach.flag("closed") && !detach.condition().is_empty(),
            "a resumed transfer ended its link without a word: {detach:?}"
        );
    }
    ensure!(
        p.count("end") + p.count("close") == 0,
        "a resumed transfer cost more than its link"
    );
    Ok(())
}

fn sender_returns(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    p.publish(0, 0, &message::data(b"first"));
    same!(p.outcome(0)?, "accepted", "outcome");
    p.detach(0, false)?;
    // To this sender the delivery is unsettled still: the disposition might have been lost.
    let attach = p.sender_attach("s1", 0, "q1");
    come_back(&mut p, attach, unsettled(&[(tag_of(0), Value::Null)]))?;
    p.forget();
    resume(&mut p, 1, &message::data(b"again"))?;
    p.close()?;
    let mut p = k.session()?;
    p.sender("s2", 0, "q1")?;
    p.credit_wait(0)?;
    p.publish(0, 0, &message::data(b"second"));
    same!(p.outcome(0)?, "accepted", "outcome of a new message");
    p.close()?;
    let expected = ["first", "second"].map(String::from).to_vec();
    same!(k.bodies("q1")?, expected, "messages kept");
    Ok(())
}

fn half_sent(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let whole = message::data(b"abcdef");
    let (head, tail) = whole.split_at(whole.len() - 3);
    let first = p.transfer(0, 0).with("more", true);
    p.send_with(0, first, head);
    p.detach(0, false)?;
    let so_far = perf("received")
        .with("section-number", 0u32)
        .with("section-offset", 3u64);
    let attach = p.sender_attach("s1", 0, "q1");
    come_back(&mut p, attach, unsettled(&[(tag_of(0), so_far.value())]))?;
    p.forget();
    resume(&mut p, 1, tail)?;
    p.close()?;
    let kept = k.bodies("q1")?;
    ensure!(
        kept.is_empty() || kept == ["abcdef"],
        "a half-sent delivery became {kept:?}"
    );
    Ok(())
}

fn receiver_returns(k: &mut Kit) -> Done {
    k.fill_count("q1", 3)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 2);
    let held = p.must_get_all("r1", 2)?;
    p.detach(1, false)?;
    // The first was processed, the second was not yet.
    let map = unsettled(&[
        (held[0].tag.clone(), perf("accepted").value()),
        (held[1].tag.clone(), Value::Null),
    ]);
    let attach = p.receiver_attach("r1", 1, "q1");
    let known = come_back(&mut p, attach, map)?;
    p.credit(1, 10);
    p.pump(400)?;
    let mut seen = vec![];
    for transfer in p.take("transfer") {
        let Value::Binary(tag) = transfer.field("delivery-tag").clone() else {
            return Err(crate::broke!("a delivery without tag: {transfer:?}"));
        };
        let is_resumed = transfer.flag("resume");
        same!(
            is_resumed,
            known.contains(&tag) && held.iter().any(|h| h.tag == tag),
            "resume of a delivery, {} tags in the answer",
            known.len()
        );
        let id = transfer.number("delivery-id").unwrap_or(0) as u32;
        p.settle(id, "accepted");
        if !is_resumed {
            seen.push(crate::kit::body_text(&transfer.payload));
        }
    }
    p.sync()?;
    p.close()?;
    if known.is_empty() {
        // Nothing is remembered: all come anew, in their order.
        let expected = ["m0", "m1", "m2"].map(String::from).to_vec();
        same!(seen, expected, "messages that came anew");
    }
    same!(k.bodies("q1")?, Vec::<String>::new(), "messages left");
    Ok(())
}
