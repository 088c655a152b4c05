//! Link credit, drain, echo (transport 2.6.7 to 2.6.10, 2.7.4).

use crate::kit::{Kit, known};
use crate::script::{Done, Script};
use crate::wire::message;
use crate::{broke, ensure, same};

const AREA: &str = "link-flow";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "LF-01",
        &["2.6.7-a"],
        "nothing is sent before credit has come",
        no_credit,
    ),
    Script::new(
        AREA,
        "LF-02",
        &["2.6.7-b", "2.6.7-c", "2.6.9-a"],
        "never more deliveries than credit, never a stall",
        credit_exact,
    ),
    Script::new(
        AREA,
        "LF-03",
        &["2.6.7-d", "2.7.4-i"],
        "credit in a sender's flow is ignored",
        sender_credit_ignored,
    ),
    Script::new(
        AREA,
        "LF-04",
        &["2.6.7-e", "2.6.8-a", "2.6.9-a"],
        "a drain of an empty queue uses up the credit once",
        drain_empty,
    ),
    Script::new(
        AREA,
        "LF-05",
        &["2.6.7-e", "2.6.7-f"],
        "a drain amid traffic neither loses nor doubles credit",
        drain_busy,
    ),
    Script::new(
        AREA,
        "LF-06",
        &["2.6.7-h", "2.6.10-a"],
        "credit is lowered to zero without a drain",
        lower_credit,
    ),
    Script::new(
        AREA,
        "LF-07",
        &["2.7.4-d", "2.7.4-e", "2.7.4-c", "2.7.4-f"],
        "each echo gets one answer, without an echo",
        echo,
    ),
    Script::new(
        AREA,
        "LF-08",
        &["2.6.7-c", "2.6.7-h"],
        "credit is counted from the flow's delivery-count",
        credit_from_count,
    ),
    Script::new(
        AREA,
        "LF-10",
        &["2.6.7-b", "2.6.7-d", "2.6.9-a"],
        "the broker's credit for a sender comes back",
        sender_credit_returns,
    ),
    Script::new(
        AREA,
        "LF-11",
        &["2.7.4-g", "2.8.17-b"],
        "a flow for a handle without link ends the session",
        flow_without_link,
    ),
    Script::new(
        AREA,
        "LF-12",
        &["2.6.7-i", "2.6.7-j", "2.6.7-g"],
        "a sender's initial-delivery-count near 2^32 is counted from",
        count_wraps,
    ),
    Script::new(
        AREA,
        "LF-13",
        &["2.8.18-c", "2.6.7-a"],
        "a transfer without credit is taken or detaches the link",
        transfer_without_credit,
    ),
    Script::new(
        AREA,
        "LF-14",
        &["2.6.7-e", "2.6.8-a"],
        "a drain with no credit out is answered too",
        drain_without_credit,
    ),
    Script::new(
        AREA,
        "LF-15",
        &["2.6.7-k", "2.6.9-a", "2.6.10-a"],
        "a message that arrives later is sent on the credit that waits",
        later_message,
    ),
    Script::new(
        AREA,
        "LF-16",
        &["2.6.7-b", "3.3-b"],
        "two consumers never get the same message",
        competing,
    ),
];

fn no_credit(k: &mut Kit) -> Done {
    k.fill_count("q1", 5)?;
    let mut p = k.hello()?;
    p.hex(&[known::OPEN, known::BEGIN, known::RCV].concat());
    p.want("attach")?;
    p.quiet("transfer", if k.is_virtual() { 2_000 } else { 500 })?;
    let mut flow = p.link_flow(1, 0);
    flow.fields.truncate(6);
    p.send(0, flow);
    p.quiet("transfer", 300)?;
    p.close()
}

fn credit_exact(k: &mut Kit) -> Done {
    k.fill_count("q1", 300)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.receiver("r2", 2, "q1")?;
    let mut seed = 12_345_u32;
    let mut left = 300;
    while left > 0 {
        for (name, handle) in [("r1", 1), ("r2", 2)] {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let credit = 1 + (seed >> 16) % 20;
            let wanted = credit.min(left);
            p.credit(handle, credit);
            let got = p.must_get_all(name, wanted as usize)?;
            left -= wanted;
            for delivery in got {
                p.settle(delivery.id, "accepted");
            }
            p.sync()?;
            same!(
                p.count("transfer"),
                0,
                "transfers beyond a credit of {credit} on {name}"
            );
            // What is left of the credit must not serve the other link's turn.
            p.credit(handle, 0);
            p.sync()?;
        }
    }
    p.close()
}

fn sender_credit_ignored(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let flow = p.link_flow(0, 1_000_000);
    p.send(0, flow);
    p.publish(0, 0, &message::data(b"x"));
    same!(p.outcome(0)?, "accepted", "outcome");
    p.close()
}

fn drain_empty(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.pump(100)?;
    p.forget();
    let initial = p.delivery_count(1);
    let flow = p.link_flow(1, 10).with("drain", true);
    p.send(0, flow);
    p.pump(400)?;
    let flows = p.take("flow");
    same!(flows.len(), 1, "flows that answer the drain");
    same!(
        flows[0].number("delivery-count"),
        Some(u64::from(initial.wrapping_add(10))),
        "delivery-count"
    );
    same!(flows[0].number("link-credit"), Some(0), "link-credit");
    ensure!(flows[0].flag("drain"), "drain is not set in the answer");
    k.fill_count("q1", 1)?;
    p.quiet("transfer", 500)?;
    p.credit(1, 1);
    same!(
        p.must_get("r1")?.text(),
        "m0",
        "the message behind the drain"
    );
    p.close()
}

fn drain_busy(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let mut id = 0;
    let mut taken = 0;
    let rounds = if k.is_virtual() { 200 } else { 60 };
    for round in 0..rounds {
        for _ in 0..round % 12 {
            p.credit_wait(0)?;
            p.publish(0, id, &message::data(b"x"));
            id += 1;
        }
        let before = p.delivery_count(1);
        let flow = p.link_flow(1, 7).with("drain", true);
        p.send(0, flow);
        let remote = p.remote_handle(1).map(u64::from);
        let flow = p.want_where("answer to the drain", |f| {
            f.name() == "flow" && f.number("handle") == remote && f.flag("drain")
        })?;
        let transfers = p.take("transfer");
        taken += transfers.len();
        for frame in &transfers {
            p.settle(frame.number("delivery-id").unwrap_or(0) as u32, "accepted");
        }
        let after = flow.number("delivery-count").unwrap_or(0) as u32;
        same!(
            after.wrapping_sub(before),
            7,
            "credit used up in round {round}"
        );
        same!(
            flow.number("link-credit"),
            Some(0),
            "link-credit in the answer"
        );
        p.sync()?;
        same!(
            p.count("transfer"),
            0,
            "transfers behind the answer of round {round}"
        );
    }
    p.take("disposition");
    p.close()?;
    let left = k.empty("q1")?.len();
    same!(left + taken, id as usize, "messages received and left");
    Ok(())
}

fn lower_credit(k: &mut Kit) -> Done {
    k.fill_count("q1", 20)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 100);
    p.must_get_all("r1", 20)?;
    p.credit(1, 0);
    p.sync()?;
    k.fill_count("q1", 5)?;
    p.quiet("transfer", 400)?;
    // Stale counts: as if the last ten had not been seen. Credit 3 from there is below zero.
    let seen = p.delivery_count(1);
    let flow = p
        .link_flow(1, 3)
        .with("delivery-count", seen.wrapping_sub(10));
    p.send(0, flow);
    p.quiet("transfer", 400)?;
    p.credit(1, 2);
    p.must_get_all("r1", 2)?;
    p.quiet("transfer", 300)?;
    p.close()
}

fn echo(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex(known::RCV);
    p.want("attach")?;
    p.pump(100)?;
    p.forget();
    p.hex("0000002002000000005313c0130a437000000800437000000800404040404041");
    p.pump(300)?;
    let flows = p.take("flow");
    same!(flows.len(), 1, "flows that answer a session echo");
    ensure!(flows[0].field("handle").is_null(), "{:?}", flows[0]);
    ensure!(!flows[0].flag("echo"), "the answer asks for an echo");
    for field in ["delivery-count", "link-credit", "available"] {
        ensure!(
            flows[0].field(field).is_null(),
            "{field} is set without a handle: {:?}",
            flows[0]
        );
    }
    let flow = p.link_flow(1, 1).with("echo", true);
    p.send(0, flow);
    p.pump(300)?;
    let flows = p.take("flow");
    same!(flows.len(), 1, "flows that answer a link echo");
    same!(
        flows[0].number("handle"),
        p.remote_handle(1).map(u64::from),
        "handle"
    );
    ensure!(!flows[0].flag("echo"), "the answer asks for an echo");
    for field in ["delivery-count", "link-credit"] {
        ensure!(
            flows[0].number(field).is_some(),
            "{field} is missing: {:?}",
            flows[0]
        );
    }
    for _ in 0..100 {
        let flow = p.session_flow().with("echo", true);
        p.send(0, flow);
        p.want("flow")?;
    }
    p.quiet("flow", 300)?;
    p.close()
}

fn credit_from_count(k: &mut Kit) -> Done {
    k.fill_count("q1", 10)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    let initial = p.delivery_count(1);
    p.credit(1, 4);
    p.must_get_all("r1", 4)?;
    // The same flow once more grants nothing new.
    let flow = p.link_flow(1, 4).with("delivery-count", initial);
    p.send(0, flow);
    p.quiet("transfer", 300)?;
    let flow = p.link_flow(1, 6).with("delivery-count", initial);
    p.send(0, flow);
    p.must_get_all("r1", 2)?;
    p.quiet("transfer", 300)?;
    p.close()
}

fn sender_credit_returns(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    let total = 2_000;
    let mut flows = 0;
    for id in 0..total {
        while p.credit_left(0) == 0 {
            p.want_where("credit", |f| f.name() == "flow")?;
            flows += 1;
        }
        p.publish(0, id, &message::data(b"x"));
    }
    for id in 0..total {
        same!(p.outcome(id)?, "accepted", "outcome of {id}");
    }
    ensure!(
        flows <= total / 10,
        "{flows} waits for credit in {total} messages"
    );
    p.close()?;
    Ok(())
}

fn flow_without_link(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let flow = p
        .session_flow()
        .with("handle", 9u32)
        .with("delivery-count", 0u32);
    p.send(0, flow.with("link-credit", 1u32));
    let end = p.want("end")?;
    same!(
        end.condition(),
        "amqp:session:unattached-handle",
        "condition"
    );
    p.hex(known::END);
    p.close()
}

fn count_wraps(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let initial = u32::MAX - 2;
    let attach = p
        .sender_attach("s1", 0, "q1")
        .with("initial-delivery-count", initial);
    p.attach(attach)?;
    p.credit_wait(0)?;
    let credit = p.credit_left(0);
    ensure!(
        credit < 1_000_000,
        "credit of {credit} from an initial count of {initial}"
    );
    for id in 0..6 {
        p.credit_wait(0)?;
        p.publish(0, id, &message::data(b"x"));
        same!(p.outcome(id)?, "accepted", "outcome of {id}");
    }
    p.take("flow");
    let flow = p.link_flow(0, 0).with("echo", true);
    p.send(0, flow);
    let flow = p.want_where("link flow", |f| {
        f.name() == "flow" && !f.field("handle").is_null()
    })?;
    same!(
        flow.number("delivery-count"),
        Some(3),
        "delivery-count after six messages"
    );
    p.close()
}

fn transfer_without_credit(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let credit = p.credit_left(0);
    let count = credit.min(20_000) + 1_000;
    for id in 0..count {
        if !p.publish(0, id, &message::data(b"x")) {
            break;
        }
    }
    p.pump(500)?;
    if let Some(detach) = p.take("detach").first() {
        same!(
            detach.condition(),
            "amqp:link:transfer-limit-exceeded",
            "condition"
        );
        return Ok(());
    }
    ensure!(
        p.count("end") == 0 && p.count("close") == 0,
        "the overrun ended more than its link"
    );
    p.outcome(0).map(drop)?;
    p.close()
}

fn drain_without_credit(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.pump(100)?;
    p.forget();
    let flow = p.link_flow(1, 0).with("drain", true);
    p.send(0, flow);
    let flow = p
        .want("flow")
        .map_err(|_| broke!("a drain with credit 0 got no answer"))?;
    same!(flow.number("link-credit"), Some(0), "link-credit");
    p.close()
}

fn later_message(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 2);
    p.quiet("transfer", 200)?;
    k.fill_count("q1", 3)?;
    p.must_get_all("r1", 2)?;
    p.quiet("transfer", 200)?;
    p.close()
}

fn competing(k: &mut Kit) -> Done {
    let mut a = k.session_as("a")?;
    let mut b = k.session_as("b")?;
    a.receiver("r", 0, "q1")?;
    b.receiver("r", 0, "q1")?;
    a.credit(0, 100);
    b.credit(0, 100);
    k.fill_count("q1", 40)?;
    let mut seen = vec![];
    for p in [&mut a, &mut b] {
        while let Some(got) = p.delivery("r", 300)? {
            p.settle(got.id, "accepted");
            seen.push(got.text());
        }
    }
    seen.sort();
    seen.dedup();
    same!(seen.len(), 40, "different messages");
    a.close()?;
    b.close()
}
