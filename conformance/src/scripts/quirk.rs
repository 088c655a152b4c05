//! Habits of real clients: legal or nearly so, and fatal to meet unprepared. One script a habit.

use crate::kit::{Kit, body_text, known, modified};
use crate::script::{Done, Script};
use crate::wire::{Value, hex, message, perf, sym};
use crate::{ensure, same};

const AREA: &str = "quirk";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "QU-01",
        &["2.7.3-b", "2.6.7-i"],
        "rhea: the broker's senders start at delivery-count 0, their deliveries at id 0",
        starts_at_zero,
    ),
    Script::new(
        AREA,
        "QU-02",
        &["2.7.4-b", "2.7.4-i", "2.7.4-h"],
        "rhea, pyamqp: link flows carry next-incoming-id, delivery-count, link-credit",
        whole_flows,
    ),
    Script::new(
        AREA,
        "QU-03",
        &["1.2-b", "2.7.5-b", "2.6.14-b"],
        "rhea: wide forms, empty sections, id and tag on every frame",
        wordy_sender,
    ),
    Script::new(
        AREA,
        "QU-04",
        &["2.6.1-b", "2.6.6-b"],
        "rhea: a reconnect takes its link names again at once",
        names_again,
    ),
    Script::new(
        AREA,
        "QU-13",
        &["2.7.3-c", "2.7.3-b", "2.4.3-c"],
        "proton: large maxima, zero means no limit, close without end",
        large_maxima,
    ),
    Script::new(
        AREA,
        "QU-14",
        &["3.2.10-a", "3.4.5-c"],
        "proton: annotation keys as strings, in messages and in modified",
        string_keys,
    ),
    Script::new(
        AREA,
        "QU-15",
        &["2.6.12-a"],
        "fe2o3: tags start again on each link of a session",
        tags_per_link,
    ),
    Script::new(
        AREA,
        "QU-16",
        &["2.6.3-e", "2.8.15-d"],
        "fe2o3: a coordinator without capabilities works or is refused alone",
        bare_coordinator,
    ),
    Script::new(
        AREA,
        "QU-17",
        &["2.6.7-e", "2.7.5-b"],
        "goamqp: long names, drains without credit, short continuations",
        drains_often,
    ),
    Script::new(
        AREA,
        "QU-18",
        &["2.8.10-a", "2.6.7-g", "2.5.6-g"],
        "erlang: all counters wrap within the first messages",
        wraps_at_once,
    ),
    Script::new(
        AREA,
        "QU-19",
        &["3.5.3-a"],
        "jms: the default outcome applies to what a detach leaves unsettled",
        default_on_detach,
    ),
    Script::new(
        AREA,
        "QU-20",
        &["2.7.1-j", "1.4-d"],
        "jms: capabilities on open and source, one symbol where an array might stand",
        lone_symbols,
    ),
    Script::new(
        AREA,
        "QU-22",
        &["2.6.3-e"],
        "fe2o3: the detach behind a refusal is answered twice",
        answers_twice,
    ),
    Script::new(
        AREA,
        "QU-23",
        &["2.5.2-b"],
        "erlang: an end whose error names no condition ends the session alone",
        nameless_end,
    ),
];

fn starts_at_zero(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    let attach = p.receiver("r1", 1, "q1")?;
    same!(
        attach.number("initial-delivery-count"),
        Some(0),
        "initial-delivery-count"
    );
    p.credit(1, 1);
    same!(p.must_get("r1")?.id, 0, "first delivery-id");
    p.close()
}

fn whole_flows(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    let flow = p.want("flow")?;
    for field in [
        "next-incoming-id",
        "incoming-window",
        "handle",
        "delivery-count",
        "link-credit",
    ] {
        ensure!(
            flow.number(field).is_some(),
            "{field} is missing in {flow:?}"
        );
    }
    p.close()
}

fn wordy_sender(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let payload = [
        hex("00800000000000000070d0000000040000000000 800000000000000073d00000000400000000"),
        message::data(b"wordy"),
    ]
    .concat();
    let wide = |text: &str| Value::Raw(hex(text));
    for (n, chunk) in payload.chunks(20).enumerate() {
        let more = (n + 1) * 20 < payload.len();
        let transfer = perf("transfer")
            .with("handle", wide("7000000000"))
            .with("delivery-id", wide("7000000000"))
            .with("delivery-tag", vec![b'0'])
            .with("message-format", wide("7000000000"))
            .with("settled", false)
            .with("more", more);
        p.send_with(0, transfer, chunk);
    }
    same!(p.outcome(0)?, "accepted", "outcome");
    p.close()?;
    same!(
        k.bodies("q1")?,
        vec!["wordy".to_string()],
        "what was stored"
    );
    Ok(())
}

fn names_again(k: &mut Kit) -> Done {
    for round in 0..5 {
        let mut p = k.session()?;
        p.sender("s1", 0, "q1")?;
        p.receiver("r1", 1, "q1")?;
        p.credit_wait(0)?;
        p.publish(0, 0, &message::data(b"x"));
        same!(p.outcome(0)?, "accepted", "outcome in round {round}");
        p.credit(1, 1);
        let got = p.must_get("r1")?;
        p.settle(got.id, "accepted");
        p.sync()?;
        p.cut();
    }
    // Detach answered by a close, then the same name again, all in one write.
    let mut p = k.session()?;
    p.hex(&[known::RCV, "0000001102000000005316c00402520142", known::RCV].concat());
    p.want("attach")?;
    p.want("detach")?;
    let again = p.want("attach")?;
    ensure!(!again.field("source").is_null(), "{again:?}");
    p.close()
}

fn large_maxima(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    let large = i32::MAX as u32;
    let open = perf("open")
        .with("container-id", "c1")
        .with("channel-max", 32_767u16);
    p.send(0, open.with("max-frame-size", large));
    p.want("open")?;
    let begin = perf("begin")
        .with("next-outgoing-id", 0u32)
        .with("incoming-window", large);
    p.send(
        0,
        begin
            .with("outgoing-window", large)
            .with("handle-max", large),
    );
    p.want("begin")?;
    let attach = p
        .sender_attach("s1", 0, "q1")
        .with("max-message-size", 0u64);
    p.attach(attach)?;
    let attach = p
        .receiver_attach("r1", 1, "q1")
        .with("max-message-size", 0u64);
    p.attach(attach.with("initial-delivery-count", 0u32))?;
    p.credit_wait(0)?;
    p.publish(0, 0, &message::data(&[1; 5_000]));
    same!(p.outcome(0)?, "accepted", "outcome");
    p.window = large;
    p.credit(1, 10);
    let got = p.must_get("r1")?;
    p.settle(got.id, "accepted");
    p.close()
}

fn string_keys(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    let map = Value::Map(vec![(Value::from("x-opt-s"), Value::from("v"))]);
    let state = perf("modified")
        .with("delivery-failed", true)
        .with("message-annotations", map.clone());
    p.settle_with(got.id, state.value());
    p.sync()?;
    p.close()?;
    ensure!(k.empty("q1")?.len() <= 1, "the message came twice");
    let payload = [
        message::section(message::code::MESSAGE_ANNOTATIONS, map),
        message::data(b"x"),
    ];
    super::codec::hurts_its_link_at_most(k, &payload.concat())?;
    Ok(())
}

fn tags_per_link(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    for handle in 0..3 {
        p.sender(&format!("s{handle}"), handle, "q1")?;
        p.credit_wait(handle)?;
    }
    for id in 0..3u32 {
        let transfer = p
            .transfer(id, id)
            .with("delivery-tag", vec![0, 0, 0, 0])
            .with("batchable", true);
        p.send_with(0, transfer, &message::data(b"x"));
    }
    for id in 0..3 {
        same!(p.outcome(id)?, "accepted", "outcome of delivery {id}");
    }
    p.close()
}

fn bare_coordinator(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let attach = p
        .sender_attach("txn", 0, "q1")
        .with("target", perf("coordinator"));
    p.send(0, attach);
    let answer = p.want("attach")?;
    if answer.field("target").is_null() {
        let remote = answer.number("handle").unwrap_or(0) as u32;
        p.detached(remote, &["amqp:not-implemented", "amqp:not-allowed"])?;
    }
    p.sync()?;
    p.close()
}

fn drains_often(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let begin = perf("begin")
        .with("next-outgoing-id", 0u32)
        .with("incoming-window", 5_000u32);
    p.send(
        0,
        begin
            .with("outgoing-window", 5_000u32)
            .with("handle-max", u32::MAX - 1),
    );
    p.want("begin")?;
    let name = "n".repeat(54);
    p.receiver(&name, 0, "q1")?;
    let remote = p.remote_handle(0).map(u64::from);
    for credit in [0, 0, 3, 0] {
        p.take("flow");
        let flow = p.link_flow(0, credit).with("drain", true);
        p.send(0, flow);
        let flow = p.want_where("answer to a drain", |f| {
            f.name() == "flow" && f.number("handle") == remote
        })?;
        same!(flow.number("link-credit"), Some(0), "link-credit");
    }
    p.sender("s1", 1, "q1")?;
    p.credit_wait(1)?;
    let payload = message::data(b"abcdef");
    let first = p.transfer(1, 0).with("more", true);
    p.send_with(0, first, &payload[..5]);
    p.send_with(0, perf("transfer").with("handle", 1u32), &payload[5..]);
    same!(p.outcome(0)?, "accepted", "outcome");
    p.close()
}

fn wraps_at_once(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    p.send(
        0,
        perf("open")
            .with("container-id", "c1")
            .with("idle-time-out", 0u32),
    );
    p.want("open")?;
    let begin = perf("begin")
        .with("next-outgoing-id", u32::MAX - 1)
        .with("incoming-window", 100u32);
    p.send(0, begin.with("outgoing-window", u32::MAX));
    p.want("begin")?;
    let attach = p
        .sender_attach("s1", 0, "q1")
        .with("initial-delivery-count", u32::MAX - 2);
    p.attach(attach)?;
    let header = perf("header").with("durable", true).value().bytes();
    for n in 0..6u32 {
        p.credit_wait(0)?;
        let id = u32::MAX.wrapping_add(n);
        p.publish(0, id, &[header.clone(), message::data(b"x")].concat());
        same!(p.outcome(id)?, "accepted", "outcome of delivery {id}");
    }
    p.close()?;
    same!(k.empty("q1")?.len(), 6, "messages stored");
    Ok(())
}

fn default_on_detach(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    let source = perf("source")
        .with("address", p.addr("q1"))
        .with("expiry-policy", sym("link-detach"))
        .with("default-outcome", modified(true, false))
        .with(
            "outcomes",
            Value::Array(
                ["accepted", "rejected", "released", "modified"]
                    .iter()
                    .map(|o| sym(&format!("amqp:{o}:list")))
                    .collect(),
            ),
        );
    let attach = p.receiver_attach("r1", 1, "q1").with("source", source);
    p.attach(attach)?;
    p.credit(1, 1);
    same!(
        p.must_get("r1")?.count(),
        0,
        "delivery-count of the first delivery"
    );
    p.detach(1, true)?;
    p.close()?;
    let back = k.empty("q1")?;
    same!(back.len(), 1, "messages left");
    same!(body_text(&back[0]), "m0", "the message");
    same!(
        message::delivery_count(&back[0]),
        1,
        "delivery-count behind a detach with default modified(failed)"
    );
    Ok(())
}

fn lone_symbols(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    let open = perf("open").with("container-id", "c1");
    let open = open.with(
        "desired-capabilities",
        Value::Array(vec![
            sym("sole-connection-for-container"),
            sym("DELAYED_DELIVERY"),
        ]),
    );
    p.send(0, open);
    p.want("open")?;
    p.hex(known::BEGIN);
    p.want("begin")?;
    for (handle, capability, outcomes) in [
        (1, sym("queue"), sym("amqp:accepted:list")),
        (
            2,
            Value::Array(vec![sym("queue")]),
            Value::Array(vec![sym("amqp:accepted:list")]),
        ),
    ] {
        let source = perf("source")
            .with("address", p.addr("q1"))
            .with("outcomes", outcomes);
        let attach = p
            .receiver_attach(&format!("r{handle}"), handle, "q1")
            .with("source", source.with("capabilities", capability));
        p.attach(attach)?;
    }
    p.close()
}

/// fe2o3-amqp up to 0.14 sends its detach once when it sees the refusal and once more when the link is dropped. The
/// second one names a handle without a link, which may end the session; a user of that client then loses all links for
/// one wrong address.
fn answers_twice(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    let attach = perf("attach")
        .with("name", "s1")
        .with("handle", 0u32)
        .with("role", false)
        .with("initial-delivery-count", 0u32);
    p.send(0, attach.with("source", perf("source")));
    let answer = p.want("attach")?;
    ensure!(answer.field("target").is_null(), "{answer:?}");
    p.want("detach")?;
    for _ in 0..2 {
        p.send(0, perf("detach").with("handle", 0u32).with("closed", true));
    }
    p.pump(200)?;
    if p.count("end") > 0 {
        return crate::kit::unsupported("ends the session for a second detach");
    }
    p.sync()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    p.publish(0, 0, &message::data(b"x"));
    same!(p.outcome(0)?, "accepted", "outcome on the same handle");
    p.close()
}

/// RabbitMQ's Erlang client 3.10 ends sessions with an error of which all fields are null. A broker may call the frame
/// undecodable, but then a client that wanted to end one session loses its connection.
fn nameless_end(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    // end(error(null)) and end(error()), behind each other on one channel.
    for end in [
        "0000001502000000005317c0080100531dc0020140",
        "0000001202000000005317c0050100531d45",
    ] {
        p.hex(end);
        let answer = p.want_where("end or close", |f| ["end", "close"].contains(&f.name()))?;
        if answer.name() == "close" {
            return crate::kit::unsupported("takes an end without a condition for an error");
        }
        ensure!(answer.field("error").is_null(), "{answer:?}");
        p.hex(known::BEGIN);
        p.want("begin")?;
    }
    p.close()
}
