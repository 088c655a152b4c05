//! Transactions (part 4): declare, discharge, posting and retirement under a transaction.

use crate::kit::{Kit, Peer, unsupported};
use crate::script::{Done, Need, Script};
use crate::wire::{Value, message, perf};
use crate::{ensure, same};

const AREA: &str = "transaction";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "TX-01",
        &["4.1-a", "4.2-a", "4.3-a", "4.4.1-a", "4.4.1-b"],
        "messages of a transaction are seen after its discharge and not before",
        post,
    ),
    Script::new(
        AREA,
        "TX-02",
        &["4.3-b", "4.4.1-a"],
        "messages of a transaction that fails are never seen",
        post_and_fail,
    ),
    Script::new(
        AREA,
        "TX-03",
        &["4.4.2-a", "4.4.2-b"],
        "an outcome under a transaction takes effect with it, or not at all",
        retire,
    ),
    Script::new(
        AREA,
        "TX-04",
        &["4.3-c", "4.5.8-a"],
        "the discharge of what was never declared is rejected with unknown-id",
        unknown_discharge,
    ),
    Script::new(
        AREA,
        "TX-05",
        &["4.4.1-c", "4.5.8-a"],
        "a message under an unknown transaction ends its link",
        unknown_post,
    ),
    Script::new(
        AREA,
        "TX-06",
        &["4.3-d"],
        "what is not discharged goes with its control link",
        control_link_goes,
    ),
    Script::new(
        AREA,
        "TX-07",
        &["4.2-b", "4.2-a"],
        "several transactions of a session are kept apart",
        several,
    ),
    Script::new(
        AREA,
        "TX-08",
        &["4.4.2-c", "4.3-b"],
        "a delivery that was settled under a transaction that fails comes again, one attempt older",
        retire_settled,
    ),
    Script::new(
        AREA,
        "TX-09",
        &["4.1-b", "4.1-c"],
        "a transaction takes work from links of several sessions",
        across_sessions,
    ),
    Script::new(
        AREA,
        "TX-10",
        &["4.5.8-a", "4.3-c"],
        "a transaction that nobody uses is rolled back after a while",
        idle,
    )
    .needing(&[Need::VirtualTime]),
    Script::new(
        AREA,
        "TX-11",
        &["4.3-c", "4.5.8-a"],
        "a receiver that goes takes its outcomes along, and the discharge is rejected",
        receiver_goes,
    ),
    Script::new(
        AREA,
        "TX-12",
        &["4.3-e"],
        "a control link that takes no rejected outcome ends with the error",
        no_rejected_outcome,
    ),
    Script::new(
        AREA,
        "TX-13",
        &["4.3-c"],
        "a transaction with a message that no queue takes fails as a whole",
        unroutable,
    )
    .needing(&[Need::Missing]),
];

/// A control link with handle 9, credit included; says what the coordinator can do.
fn control(p: &mut Peer) -> Done<String> {
    let attach = p
        .sender_attach("control", 9, "q1")
        .with("target", perf("coordinator"));
    p.send(0, attach);
    let answer = p.want("attach")?;
    if answer.field("target").is_null() {
        return unsupported("the broker has no coordinator");
    }
    p.credit_wait(9)?;
    Ok(format!("{:?}", answer.field("target")))
}

/// A message whose value is this type.
fn value(of: Value) -> Vec<u8> {
    let mut payload = vec![];
    Value::Described(Box::new(Value::Ulong(0x77)), Box::new(of)).encode(&mut payload);
    payload
}

/// What the broker says of the refusal of this delivery.
fn refusal(p: &mut Peer, id: u32, txn: &[u8]) -> Done<String> {
    let answer = discharge(p, id, txn, false)?;
    same!(answer.state(), "rejected", "discharge");
    let error = answer.field("state").field(0).clone();
    Ok(error.field(0).words().unwrap_or_default().to_owned())
}

/// Gives an outcome under a transaction.
fn retire_one(p: &mut Peer, id: u32, txn: &[u8], outcome: &str, settled: bool) {
    let state = perf("transactional-state")
        .with("txn-id", txn.to_vec())
        .with("outcome", perf(outcome));
    let disposition = perf("disposition")
        .with("role", true)
        .with("first", id)
        .with("last", id)
        .with("settled", settled)
        .with("state", state);
    p.send(0, disposition);
}

fn declare(p: &mut Peer, id: u32) -> Done<Vec<u8>> {
    p.publish(9, id, &value(perf("declare").value()));
    let answer = p.disposition(id)?;
    same!(answer.state(), "declared", "answer to a declare");
    match answer.field("state").field(0) {
        Value::Binary(txn) if (1..=32).contains(&txn.len()) => Ok(txn.clone()),
        other => Err(crate::broke!(
            "a transaction's id of 1 to 32 bytes, not {other:?}"
        )),
    }
}

fn discharge(p: &mut Peer, id: u32, txn: &[u8], fail: bool) -> Done<crate::wire::Frame> {
    let ask = perf("discharge")
        .with("txn-id", txn.to_vec())
        .with("fail", fail);
    p.publish(9, id, &value(ask.value()));
    p.disposition(id)
}

fn post_one(p: &mut Peer, id: u32, txn: &[u8], body: &[u8]) {
    let state = perf("transactional-state").with("txn-id", txn.to_vec());
    let transfer = p.transfer(0, id).with("state", state);
    p.send_with(0, transfer, &message::data(body));
}

fn sender_and_control(k: &mut Kit) -> Done<Peer> {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    control(&mut p)?;
    Ok(p)
}

fn post(k: &mut Kit) -> Done {
    let mut p = sender_and_control(k)?;
    let txn = declare(&mut p, 0)?;
    post_one(&mut p, 1, &txn, b"one");
    post_one(&mut p, 2, &txn, b"two");
    let answer = p.disposition(2)?;
    same!(answer.state(), "transactional-state", "state of a posting");
    same!(k.bodies("q1")?, Vec::<String>::new(), "seen too early");
    same!(
        discharge(&mut p, 3, &txn, false)?.state(),
        "accepted",
        "discharge"
    );
    p.close()?;
    same!(k.bodies("q1")?, ["one", "two"], "after the discharge");
    Ok(())
}

fn post_and_fail(k: &mut Kit) -> Done {
    let mut p = sender_and_control(k)?;
    let txn = declare(&mut p, 0)?;
    post_one(&mut p, 1, &txn, b"gone");
    p.disposition(1)?;
    same!(
        discharge(&mut p, 2, &txn, true)?.state(),
        "accepted",
        "roll-back"
    );
    p.publish(0, 3, &message::data(b"kept"));
    same!(p.outcome(3)?, "accepted", "outside of a transaction");
    p.close()?;
    same!(k.bodies("q1")?, ["kept"], "after the roll-back");
    Ok(())
}

fn retire(k: &mut Kit) -> Done {
    k.fill_count("q1", 2)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 2);
    let got = p.must_get_all("r1", 2)?;
    control(&mut p)?;
    for (step, fail) in [(0, true), (2, false)] {
        let txn = declare(&mut p, step)?;
        retire_one(&mut p, got[0].id, &txn, "accepted", false);
        let answer = discharge(&mut p, step + 1, &txn, fail)?;
        same!(answer.state(), "accepted", "discharge with fail = {fail}");
    }
    p.sync()?;
    p.close()?;
    same!(k.bodies("q1")?, ["m1"], "left after one was retired");
    Ok(())
}

fn unknown_discharge(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    control(&mut p)?;
    let answer = discharge(&mut p, 0, b"nobody's", false)?;
    same!(answer.state(), "rejected", "discharge of an unknown one");
    let text = format!("{:?}", answer.field("state"));
    ensure!(text.contains("amqp:transaction:unknown-id"), "{text}");
    p.sync()?;
    p.close()
}

fn unknown_post(k: &mut Kit) -> Done {
    let mut p = sender_and_control(k)?;
    let remote = p.remote_handle(0).unwrap_or_default();
    post_one(&mut p, 0, b"nobody's", b"lost");
    p.detached(remote, &["amqp:transaction:unknown-id"])?;
    p.sync()?;
    p.close()?;
    same!(k.bodies("q1")?, Vec::<String>::new(), "nothing was posted");
    Ok(())
}

fn control_link_goes(k: &mut Kit) -> Done {
    let mut p = sender_and_control(k)?;
    let txn = declare(&mut p, 0)?;
    post_one(&mut p, 1, &txn, b"gone");
    p.disposition(1)?;
    p.detach(9, true)?;
    p.publish(0, 2, &message::data(b"kept"));
    same!(p.outcome(2)?, "accepted", "outside of a transaction");
    p.close()?;
    same!(k.bodies("q1")?, ["kept"], "after the link went");
    Ok(())
}

fn several(k: &mut Kit) -> Done {
    let mut p = sender_and_control(k)?;
    let first = declare(&mut p, 0)?;
    let second = declare(&mut p, 1)?;
    ensure!(first != second, "two transactions have one id");
    post_one(&mut p, 2, &first, b"one");
    post_one(&mut p, 3, &second, b"two");
    same!(
        discharge(&mut p, 4, &second, false)?.state(),
        "accepted",
        "second"
    );
    same!(
        discharge(&mut p, 5, &first, true)?.state(),
        "accepted",
        "first"
    );
    p.close()?;
    same!(k.bodies("q1")?, ["two"], "after both");
    Ok(())
}

fn retire_settled(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    control(&mut p)?;
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    let txn = declare(&mut p, 0)?;
    retire_one(&mut p, got.id, &txn, "accepted", true);
    same!(
        discharge(&mut p, 1, &txn, true)?.state(),
        "accepted",
        "roll-back"
    );
    p.credit(1, 1);
    let again = p.must_get("r1")?;
    same!(again.text(), "m0", "the message");
    same!(again.count(), 1, "delivery-count");
    p.settle(again.id, "accepted");
    p.close()?;
    same!(k.bodies("q1")?, Vec::<String>::new(), "left");
    Ok(())
}

fn across_sessions(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let offered = control(&mut p)?;
    ensure!(
        !offered.contains("distributed") && !offered.contains("promotable"),
        "more is offered than there is: {offered}"
    );
    if !offered.contains("amqp:multi-ssns-per-txn") {
        return unsupported("transactions of several sessions are not offered");
    }
    let begin = perf("begin")
        .with("next-outgoing-id", 0u32)
        .with("incoming-window", 2048u32)
        .with("outgoing-window", 2048u32);
    p.send(1, begin);
    p.want("begin")?;
    let attach = p.sender_attach("s2", 0, "q1");
    p.send(1, attach);
    p.want_where("the attach of s2", |f| {
        f.name() == "attach" && f.field("name").words() == Some("s2")
    })?;
    p.want_where("its credit", |f| {
        f.name() == "flow" && !f.field("handle").is_null()
    })?;
    let txn = declare(&mut p, 0)?;
    let state = perf("transactional-state").with("txn-id", txn.clone());
    let transfer = perf("transfer")
        .with("handle", 0u32)
        .with("delivery-id", 0u32)
        .with("delivery-tag", vec![1u8])
        .with("message-format", 0u32)
        .with("state", state);
    p.send_with(1, transfer, &message::data(b"one"));
    let answer = p.disposition(0)?;
    same!(answer.state(), "transactional-state", "state of a posting");
    same!(k.bodies("q1")?, Vec::<String>::new(), "seen too early");
    same!(
        discharge(&mut p, 1, &txn, false)?.state(),
        "accepted",
        "discharge"
    );
    p.close()?;
    same!(k.bodies("q1")?, ["one"], "after the discharge");
    Ok(())
}

fn idle(k: &mut Kit) -> Done {
    let mut p = sender_and_control(k)?;
    let txn = declare(&mut p, 0)?;
    post_one(&mut p, 1, &txn, b"gone");
    p.disposition(1)?;
    for _ in 0..35 {
        k.wait(10_000);
        p.sync()?;
    }
    same!(
        refusal(&mut p, 2, &txn)?,
        "amqp:transaction:timeout",
        "condition"
    );
    same!(
        refusal(&mut p, 3, &txn)?,
        "amqp:transaction:unknown-id",
        "condition of a second discharge"
    );
    p.close()?;
    same!(k.bodies("q1")?, Vec::<String>::new(), "after the roll-back");
    Ok(())
}

fn receiver_goes(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    control(&mut p)?;
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    let txn = declare(&mut p, 0)?;
    retire_one(&mut p, got.id, &txn, "accepted", false);
    p.detach(1, true)?;
    same!(
        refusal(&mut p, 1, &txn)?,
        "amqp:transaction:rollback",
        "condition"
    );
    p.close()?;
    same!(k.bodies("q1")?, ["m0"], "left");
    Ok(())
}

fn no_rejected_outcome(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let source = perf("source").with(
        "outcomes",
        Value::Array(vec![crate::wire::sym("amqp:accepted:list")]),
    );
    let attach = p
        .sender_attach("control", 9, "q1")
        .with("source", source)
        .with("target", perf("coordinator"));
    p.attach(attach)?;
    p.credit_wait(9)?;
    let remote = p.remote_handle(9).unwrap_or_default();
    let ask = perf("discharge")
        .with("txn-id", b"nobody's".to_vec())
        .with("fail", false);
    p.publish(9, 0, &value(ask.value()));
    p.detached(remote, &["amqp:transaction:unknown-id"])?;
    p.sync()?;
    p.close()
}

fn unroutable(k: &mut Kit) -> Done {
    let mut p = sender_and_control(k)?;
    let target = perf("target").with("address", Value::Null);
    let attach = p.sender_attach("s2", 2, "q1").with("target", target);
    p.attach(attach)?;
    p.credit_wait(2)?;
    let txn = declare(&mut p, 0)?;
    post_one(&mut p, 1, &txn, b"gone");
    p.disposition(1)?;
    let mut payload = vec![];
    let to = Value::List(vec![
        Value::Null,
        Value::Null,
        Value::from(p.addr("nope").as_str()),
    ]);
    Value::Described(Box::new(Value::Ulong(0x73)), Box::new(to)).encode(&mut payload);
    payload.extend(message::data(b"lost"));
    let state = perf("transactional-state").with("txn-id", txn.clone());
    let transfer = p.transfer(2, 2).with("state", state);
    p.send_with(0, transfer, &payload);
    let answer = p.disposition(2)?;
    same!(answer.state(), "transactional-state", "state of a posting");
    let outcome = format!("{:?}", answer.field("state").field(1));
    ensure!(
        !outcome.contains("0x24"),
        "outcome of what no queue takes: {outcome}"
    );
    same!(
        refusal(&mut p, 3, &txn)?,
        "amqp:transaction:rollback",
        "condition"
    );
    p.close()?;
    same!(k.bodies("q1")?, Vec::<String>::new(), "after the roll-back");
    Ok(())
}
