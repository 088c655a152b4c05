//! Sources and targets (messaging 3.5): anonymous, dynamic, copy, filters, honest answers.

use crate::kit::{Kit, unsupported};
use crate::script::{Done, Need, Script};
use crate::wire::{Value, message, perf, sym};
use crate::{ensure, same};

const AREA: &str = "terminus";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "LK-11",
        &["3.5.4-b", "3.2.4-e"],
        "the anonymous node routes by the to field",
        anonymous,
    )
    .needing(&[Need::Missing]),
    Script::new(
        AREA,
        "TE-01",
        &["3.5.2-b", "3.5.2-a", "3.5.3-b"],
        "copy leaves the messages, move takes them",
        copy,
    ),
    Script::new(
        AREA,
        "TE-02",
        &["3.5.3-c", "3.5-a"],
        "a dynamic source gets a node of its own",
        dynamic_source,
    ),
    Script::new(
        AREA,
        "TE-03",
        &["3.5.4-a", "3.5-a"],
        "a dynamic target gets a node of its own",
        dynamic_target,
    ),
    Script::new(
        AREA,
        "TE-04",
        &["3.5.10-a"],
        "a dynamic node with delete-on-close goes with its link",
        delete_on_close,
    ),
    Script::new(
        AREA,
        "TE-05",
        &["3.5.1-b", "3.5.3-b", "3.5.8-a"],
        "an unknown filter is not claimed to be in effect",
        unknown_filter,
    ),
    Script::new(
        AREA,
        "TE-06",
        &["3.5.3-d"],
        "dynamic together with an address is refused or ignored",
        dynamic_with_address,
    ),
    Script::new(
        AREA,
        "TE-07",
        &["3.5.3-b", "3.5.4-c", "2.6.3-f"],
        "the answer names the terminus in effect, whole",
        terminus_in_effect,
    ),
    Script::new(
        AREA,
        "TE-08",
        &["3.5.5-a", "3.5.6-a", "3.5.4-c"],
        "durability and expiry are answered as they are kept",
        durability,
    ),
    Script::new(
        AREA,
        "TE-09",
        &["3.5.11-a", "3.5.12-a", "3.5.13-a"],
        "every lifetime policy of a dynamic node is understood or refused",
        lifetimes,
    ),
    Script::new(
        AREA,
        "TE-10",
        &["3.5.6-b", "2.6.4-a"],
        "a durable terminus that is attached again works on",
        durable_return,
    ),
    Script::new(
        AREA,
        "TE-11",
        &["2.8.15-d", "2.6.3-e"],
        "a target of an unknown kind is refused, the session lives",
        unknown_target,
    ),
];

fn to(address: Option<&str>, body: &str) -> Vec<u8> {
    let properties = match address {
        Some(address) => perf("properties").with("to", address).value().bytes(),
        None => perf("properties").with("subject", "s").value().bytes(),
    };
    [properties, message::data(body.as_bytes())].concat()
}

fn anonymous(k: &mut Kit) -> Done {
    // Queues are made by an attach, not by a message.
    k.fill("q1", &[])?;
    let mut p = k.session()?;
    p.hex("0000002102000000005312c0140aa1027331434240400053284500532945404043");
    let answer = p.want("attach")?;
    if answer.field("target").is_null() {
        return unsupported("no anonymous node");
    }
    p.credit_wait(0)?;
    let good = p.addr("q1");
    p.publish(0, 0, &to(Some(&good), "hit"));
    same!(p.outcome(0)?, "accepted", "outcome of a message to a queue");
    let missing = p.addr("nope");
    for (id, address, allowed) in [
        (1, None, &["rejected"][..]),
        (2, Some(missing.as_str()), &["rejected", "released"][..]),
        (3, Some(""), &["rejected"][..]),
    ] {
        p.credit_wait(0)?;
        p.publish(0, id, &to(address, "miss"));
        let state = p.outcome(id)?;
        ensure!(
            allowed.contains(&state),
            "message to {address:?}: {state}, wanted one of {allowed:?}"
        );
    }
    // A link to q1 does not look at the to field.
    let other = p.addr("q2");
    p.sender("s2", 2, "q1")?;
    p.credit_wait(2)?;
    p.publish(2, 4, &to(Some(&other), "by link"));
    same!(
        p.outcome(4)?,
        "accepted",
        "outcome on the link with an address"
    );
    p.close()?;
    same!(
        k.bodies("q1")?,
        ["hit", "by link"].map(String::from).to_vec(),
        "what q1 got"
    );
    Ok(())
}

fn copy(k: &mut Kit) -> Done {
    k.fill_count("q1", 3)?;
    let mut p = k.session()?;
    let source = perf("source")
        .with("address", p.addr("q1"))
        .with("distribution-mode", sym("copy"));
    let attach = p.receiver_attach("r1", 1, "q1").with("source", source);
    let answer = p.attach(attach)?;
    let source =
        crate::wire::perf_of(answer.field("source")).ok_or_else(|| crate::broke!("{answer:?}"))?;
    if source.field("distribution-mode").words() != Some("copy") {
        return unsupported("distribution-mode copy is not offered");
    }
    p.credit(1, 10);
    let got = p.must_get_all("r1", 3)?;
    for delivery in &got {
        if !delivery.settled {
            p.settle(delivery.id, "accepted");
        }
    }
    p.quiet("transfer", 200)?;
    p.close()?;
    same!(
        k.bodies("q1")?.len(),
        3,
        "messages left behind a reader in mode copy"
    );
    Ok(())
}

fn dynamic(p: &mut crate::kit::Peer, policy: Option<&str>) -> Done<Option<String>> {
    let mut source = perf("source").with("dynamic", true);
    if let Some(policy) = policy {
        let map = vec![(sym("lifetime-policy"), perf(policy).value())];
        source = source.with("dynamic-node-properties", Value::Map(map));
    }
    let attach = perf("attach")
        .with("name", "dyn")
        .with("handle", 8u32)
        .with("role", true);
    p.send(
        0,
        attach.with("source", source).with("target", perf("target")),
    );
    let answer = p.want("attach")?;
    if answer.field("source").is_null() {
        let remote = answer.number("handle").unwrap_or(0) as u32;
        p.detached(
            remote,
            &[
                "amqp:not-implemented",
                "amqp:not-allowed",
                "amqp:not-found",
                "amqp:invalid-field",
                "amqp:unauthorized-access",
            ],
        )?;
        return Ok(None);
    }
    let address = answer
        .field("source")
        .field(0)
        .words()
        .unwrap_or_default()
        .to_string();
    ensure!(
        !address.is_empty(),
        "a dynamic source without an address: {answer:?}"
    );
    Ok(Some(address))
}

/// Attaches a sender to an address as it stands and publishes one message.
fn send_to(p: &mut crate::kit::Peer, handle: u32, address: &str, id: u32) -> Done<&'static str> {
    let target = perf("target").with("address", address);
    let attach = p
        .sender_attach(&format!("to-{handle}"), handle, "q1")
        .with("target", target);
    p.attach(attach)?;
    p.credit_wait(handle)?;
    p.publish(handle, id, &message::data(b"dyn"));
    p.outcome(id)
}

fn dynamic_source(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let Some(address) = dynamic(&mut p, None)? else {
        return unsupported("no dynamic sources");
    };
    p.credit(8, 1);
    same!(
        send_to(&mut p, 2, &address, 0)?,
        "accepted",
        "outcome of a message to {address}"
    );
    same!(
        p.must_get("dyn")?.text(),
        "dyn",
        "message from the dynamic node"
    );
    let mut q = k.session_as("b")?;
    let Some(other) = dynamic(&mut q, None)? else {
        return unsupported("no second dynamic source");
    };
    ensure!(
        other != address,
        "two dynamic nodes share the address {address}"
    );
    q.close()?;
    p.close()
}

fn dynamic_target(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let attach = p
        .sender_attach("s1", 0, "q1")
        .with("target", perf("target").with("dynamic", true));
    p.send(0, attach);
    let answer = p.want("attach")?;
    if answer.field("target").is_null() {
        return unsupported("no dynamic targets");
    }
    let address = answer
        .field("target")
        .field(0)
        .words()
        .unwrap_or_default()
        .to_string();
    ensure!(
        !address.is_empty(),
        "a dynamic target without an address: {answer:?}"
    );
    p.credit_wait(0)?;
    p.publish(0, 0, &message::data(b"dyn"));
    same!(p.outcome(0)?, "accepted", "outcome");
    let attach = p
        .receiver_attach("r1", 1, "q1")
        .with("source", perf("source").with("address", address));
    p.attach(attach)?;
    p.credit(1, 1);
    same!(
        p.must_get("r1")?.text(),
        "dyn",
        "message of the dynamic node"
    );
    p.close()
}

fn delete_on_close(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let Some(address) = dynamic(&mut p, Some("delete-on-close"))? else {
        return unsupported("no dynamic sources");
    };
    p.detach(8, true)?;
    let target = perf("target").with("address", address.as_str());
    let attach = p.sender_attach("s1", 0, "q1").with("target", target);
    p.attach_refused(
        attach,
        &[
            "amqp:not-found",
            "amqp:resource-deleted",
            "amqp:not-allowed",
        ],
    )?;
    p.sync()?;
    p.close()
}

fn unknown_filter(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let filter = Value::Described(Box::new(sym("x:nobody:filter")), Box::new(Value::from("x")));
    let source = perf("source")
        .with("address", p.addr("q1"))
        .with("filter", Value::Map(vec![(sym("f"), filter)]));
    let attach = p.receiver_attach("r1", 1, "q1").with("source", source);
    p.send(0, attach);
    let answer = p.want("attach")?;
    let text = format!("{:?}", answer.field("source").field(7));
    ensure!(
        !text.contains("nobody"),
        "an unknown filter is listed as in effect: {text}"
    );
    if answer.field("source").is_null() {
        let remote = answer.number("handle").unwrap_or(0) as u32;
        p.detached(
            remote,
            &[
                "amqp:not-implemented",
                "amqp:invalid-field",
                "amqp:not-allowed",
            ],
        )?;
    }
    p.sync()?;
    p.close()
}

fn dynamic_with_address(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let source = perf("source")
        .with("address", p.addr("q1"))
        .with("dynamic", true);
    let attach = p.receiver_attach("r1", 1, "q1").with("source", source);
    p.send(0, attach);
    p.want("attach")?;
    p.sync()?;
    p.close()
}

fn terminus_in_effect(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let answer = p.receiver("r1", 1, "q1")?;
    let source = crate::wire::perf_of(answer.field("source"))
        .ok_or_else(|| crate::broke!("no source: {answer:?}"))?;
    ensure!(
        !source.fields.is_empty(),
        "the source came as an empty list"
    );
    ensure!(
        !source.field("dynamic").eq(&Value::Bool(true)),
        "dynamic was not asked for"
    );
    ensure!(
        !answer.field("target").is_null(),
        "the receiver's own target is null in the answer: {answer:?}"
    );
    let answer = p.sender("s1", 0, "q1")?;
    ensure!(
        !answer.field("source").is_null(),
        "the sender's own source is null in the answer: {answer:?}"
    );
    p.close()
}

fn durability(k: &mut Kit) -> Done {
    for durable in [0u32, 1, 2] {
        let mut p = k.session()?;
        let source = perf("source")
            .with("address", p.addr("q1"))
            .with("durable", durable)
            .with("expiry-policy", sym("never"))
            .with("timeout", 60u32);
        let attach = p.receiver_attach("r1", 1, "q1").with("source", source);
        let answer = p.attach(attach)?;
        let source = answer.field("source");
        ensure!(
            source.field(1).number().unwrap_or(0) <= u64::from(durable),
            "more durable than asked: {source:?}"
        );
        p.detach(1, true)?;
        p.close()?;
    }
    Ok(())
}

fn lifetimes(k: &mut Kit) -> Done {
    let mut is_offered = false;
    for policy in [
        "delete-on-no-links",
        "delete-on-no-messages",
        "delete-on-no-links-or-messages",
    ] {
        let mut p = k.session()?;
        if let Some(address) = dynamic(&mut p, Some(policy))? {
            is_offered = true;
            p.credit(8, 5);
            same!(
                send_to(&mut p, 2, &address, 0)?,
                "accepted",
                "outcome with {policy}"
            );
            let got = p.must_get("dyn")?;
            p.settle(got.id, "accepted");
            p.detach(2, true)?;
            p.detach(8, true)?;
            p.sync()?;
            // No links, no messages: the node is gone under every policy.
            let target = perf("target").with("address", address.as_str());
            let attach = p.sender_attach("s3", 3, "q1").with("target", target);
            p.attach_refused(
                attach,
                &[
                    "amqp:not-found",
                    "amqp:resource-deleted",
                    "amqp:not-allowed",
                ],
            )?;
        }
        p.close()?;
    }
    if is_offered {
        Ok(())
    } else {
        unsupported("no dynamic sources")
    }
}

fn durable_return(k: &mut Kit) -> Done {
    k.fill_count("q1", 2)?;
    for container in ["c9", "c9"] {
        let mut p = k.session_as(container)?;
        let source = perf("source")
            .with("address", p.addr("q1"))
            .with("durable", 2u32)
            .with("expiry-policy", sym("never"));
        let attach = p.receiver_attach("sub", 1, "q1").with("source", source);
        p.attach(attach)?;
        p.credit(1, 1);
        let got = p.must_get("sub")?;
        p.settle(got.id, "accepted");
        p.sync()?;
        p.cut();
        k.wait(50);
    }
    same!(k.bodies("q1")?, Vec::<String>::new(), "messages left");
    Ok(())
}

fn unknown_target(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let strange = Value::Described(
        Box::new(sym("x:nobody:list")),
        Box::new(Value::List(vec![])),
    );
    let attach = p.sender_attach("s1", 0, "q1").with("target", strange);
    p.attach_refused(
        attach,
        &[
            "amqp:not-implemented",
            "amqp:invalid-field",
            "amqp:decode-error",
            "amqp:not-allowed",
        ],
    )?;
    p.sync()?;
    p.close()
}
