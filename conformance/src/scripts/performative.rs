//! Fields of performatives: defaults, absence, wrong values (types 1.3, 1.4; transport 2.7).

use crate::kit::{Kit, known};
use crate::script::{Done, Script};
use crate::wire::{Value, message, perf, sym};
use crate::{ensure, same};

const AREA: &str = "performative";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "PE-01",
        &["1.4-c", "1.4-d", "1.4-e"],
        "a multiple field comes as one value, an array, an empty array",
        multiple,
    ),
    Script::new(
        AREA,
        "PE-03",
        &["1.4-a", "1.4-b", "1.3-b", "1.6.22-a"],
        "absent, null and default fields mean the same",
        absent_fields,
    ),
    Script::new(
        AREA,
        "PE-04",
        &[
            "1.3-a", "2.7.1-l", "2.7.2-a", "2.7.3-a", "2.7.3-b", "2.8.15-a",
        ],
        "a missing mandatory field is a clean error",
        missing_fields,
    ),
    Script::new(
        AREA,
        "PE-05",
        &["2.6.3-b", "2.6.3-e", "2.8.15-c"],
        "a receiver without a source is refused, the session lives",
        null_source,
    ),
    Script::new(
        AREA,
        "PE-06",
        &["2.7.6-b", "3.5.3-a", "3.5.3-e"],
        "a settlement without state uses the default outcome",
        default_outcome,
    ),
    Script::new(
        AREA,
        "PE-07",
        &["1.3-a", "2.8.15-a"],
        "a field of the wrong type is an error",
        wrong_types,
    ),
    Script::new(
        AREA,
        "PE-08",
        &["2.3.2-a", "2.3.2-c", "2.8.15-a"],
        "a body that is no performative closes the connection",
        unknown_performative,
    ),
    Script::new(
        AREA,
        "PE-09",
        &["2.7.1-f", "2.7.1-g", "2.5.1-d"],
        "channel-max binds both ways",
        channel_max,
    ),
    Script::new(
        AREA,
        "PE-10",
        &["1.1.3-a", "2.8.15-a"],
        "more fields than a type has are refused or ignored, never misread",
        extra_fields,
    ),
    Script::new(
        AREA,
        "PE-11",
        &["2.7.2-b", "2.7.2-c", "2.6.2-d"],
        "handle-max binds the partner",
        handle_max,
    ),
    Script::new(
        AREA,
        "PE-12",
        &["2.7.2-d", "2.5.1-b"],
        "the answer to a begin names its channel, whatever its number",
        remote_channel,
    ),
    Script::new(
        AREA,
        "PE-13",
        &["1.4-f", "1.6.20-b", "2.7.3-h", "2.7.5-h"],
        "what the broker writes by itself keeps to the rules for writers",
        clean_frames,
    ),
];

fn multiple(k: &mut Kit) -> Done {
    for open in [
        "0000002002000000005310c01309a102633140404040404040a305782d636170",
        "0000002302000000005310c01609a102633140404040404040e00801a305782d636170",
        "0000001d02000000005310c01009a102633140404040404040e00200a3",
    ] {
        let mut p = k.hello()?;
        p.hex(open);
        p.want("open")?;
        p.close()?;
    }
    Ok(())
}

fn absent_fields(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let begins = [
        "0000001a02000000005311c00d04404370000008007000000800",
        "0000001e02000001005311c0110840437000000800700000080040404040",
        "0000001f02000002005311c0120540437000000800700000080070ffffffff",
        "0000002002000003005311d00000001000000004404370000008007000000800",
    ];
    for (channel, begin) in begins.iter().enumerate() {
        p.hex(begin);
        let answer = p.want("begin")?;
        same!(
            answer.number("remote-channel"),
            Some(channel as u64),
            "remote-channel"
        );
    }
    for channel in 0..4u16 {
        let attach = p.receiver_attach(&format!("r{channel}"), 1, "q1");
        p.send(channel, attach);
        let answer = p.want_on(channel, "attach")?;
        ensure!(
            !answer.field("source").is_null(),
            "session {channel} differs: {answer:?}"
        );
    }
    p.close()
}

fn missing_fields(k: &mut Kit) -> Done {
    let allowed = &[
        "amqp:decode-error",
        "amqp:invalid-field",
        "amqp:not-allowed",
    ];
    let mut p = k.hello()?;
    p.hex("0000000c0200000000531045");
    p.refusal(allowed)?;
    let mut p = k.open()?;
    p.hex("0000001402000000005311c00704404052015201");
    p.refused(allowed)?;
    let mut p = k.session()?;
    p.hex("0000001402000000005312c00703a10273314042");
    let answer = p.want_where("end or close", |f| ["end", "close"].contains(&f.name()));
    ensure!(
        answer.is_ok() || p.count("close") == 1,
        "an attach without handle was not refused"
    );
    let mut p = k.session()?;
    p.hex("0000002402000000005312c01707a10273314342404000532845005329c00501a1027131");
    let answer = p.want("attach")?;
    if answer.field("target").is_null() {
        p.detached(
            answer.number("handle").unwrap_or(0) as u32,
            &["amqp:invalid-field", "amqp:decode-error"],
        )?;
    }
    p.sync()?;
    p.close()
}

fn null_source(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex("0000001c02000000005312c00f07a102723152014140404000532945");
    p.refused_link(
        "r1",
        true,
        &["amqp:invalid-field", "amqp:not-found", "amqp:not-allowed"],
    )?;
    p.hex(known::SND);
    let answer = p.want("attach")?;
    ensure!(
        !answer.field("target").is_null(),
        "the next link was refused: {answer:?}"
    );
    p.close()
}

fn default_outcome(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    p.publish(0, 0, &crate::wire::message::data(b"a"));
    same!(p.outcome(0)?, "accepted", "outcome");
    let source = perf("source")
        .with("address", p.addr("q1"))
        .with("default-outcome", perf("released"));
    let attach = p.receiver_attach("r1", 1, "q1").with("source", source);
    p.attach(attach)?;
    p.credit(1, 1);
    let first = p.must_get("r1")?;
    let settle = |id: u32| {
        perf("disposition")
            .with("role", true)
            .with("first", id)
            .with("settled", true)
    };
    p.send(0, settle(first.id));
    p.credit(1, 1);
    let again = p.must_get("r1")?;
    same!(
        again.text(),
        "a",
        "the message that was released by default"
    );
    same!(again.count(), 0, "delivery-count after released");
    p.send(0, settle(again.id));
    p.detach(1, true)?;
    // Without a default-outcome: the message must not stay acquired for ever. Either it is back
    // or it is gone; the queue must go on working.
    p.receiver("r2", 2, "q1")?;
    p.credit(2, 1);
    let third = p.must_get("r2")?;
    p.send(0, settle(third.id));
    p.detach(2, true)?;
    p.close()?;
    let left = k.bodies("q1")?;
    ensure!(left.len() <= 1, "{left:?} in the queue");
    Ok(())
}

fn wrong_types(k: &mut Kit) -> Done {
    let allowed = &["amqp:decode-error", "amqp:invalid-field"];
    // container-id as a uint; next-outgoing-id as a string; handle as a string.
    let mut p = k.hello()?;
    p.send(0, perf("open").with("container-id", 7u32));
    p.refusal(allowed)?;
    let mut p = k.open()?;
    let begin = perf("begin")
        .with("next-outgoing-id", "x")
        .with("incoming-window", 1u32);
    p.send(0, begin.with("outgoing-window", 1u32));
    p.refused(allowed)?;
    let mut p = k.session()?;
    let flow = p.session_flow().with("incoming-window", sym("many"));
    p.send(0, flow);
    let answer = p.want_where("end", |f| f.name() == "end");
    ensure!(
        answer.is_ok() || p.count("close") == 1,
        "a flow with a symbol for a window was taken"
    );
    Ok(())
}

fn unknown_performative(k: &mut Kit) -> Done {
    for bad in [
        "000000100200000000531fc003015201",
        "0000000d02000000c003015201",
        "000000110200000000a305783a666f6f45",
    ] {
        let mut p = k.session()?;
        p.hex(bad);
        p.refused(&[
            "amqp:decode-error",
            "amqp:not-implemented",
            "amqp:connection:framing-error",
            "amqp:not-allowed",
            "amqp:invalid-field",
        ])?;
    }
    Ok(())
}

fn channel_max(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    p.hex("0000001702000000005310c00a04a10263314040600000");
    p.want("open")?;
    p.hex(known::BEGIN);
    let begin = p.want("begin")?;
    same!(begin.channel, 0, "channel of the broker's begin");
    p.close()?;
    let mut p = k.open()?;
    let open = p.opened.clone().expect("an open");
    let limit = open.number("channel-max").unwrap_or(65_535);
    if limit == 65_535 {
        return crate::kit::unsupported("announces every channel there is");
    }
    let begin = perf("begin")
        .with("next-outgoing-id", 0u32)
        .with("incoming-window", 2048u32);
    p.send(limit as u16 + 1, begin.with("outgoing-window", 2048u32));
    p.refused(&["amqp:connection:framing-error", "amqp:not-allowed"])?;
    Ok(())
}

fn extra_fields(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    // end with two fields
    p.hex("0000001002000000005317c003024040");
    let answer = p.want_where("end", |f| f.name() == "end");
    ensure!(
        answer.is_ok() || p.count("close") == 1,
        "no answer to an end with a field too many"
    );
    Ok(())
}

fn handle_max(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    p.hex(known::BEGIN);
    let begin = p.want("begin")?;
    let limit = begin.number("handle-max").unwrap_or(u32::MAX.into());
    if limit == u64::from(u32::MAX) {
        return crate::kit::unsupported("announces every handle there is");
    }
    let attach = p.receiver_attach("r1", limit as u32 + 1, "q1");
    p.send(0, attach);
    p.refused(&["amqp:connection:framing-error", "amqp:not-allowed"])?;
    // The other way: the broker keeps within the client's handle-max.
    let mut p = k.open()?;
    let begin = perf("begin")
        .with("next-outgoing-id", 0u32)
        .with("incoming-window", 2048u32);
    p.send(
        0,
        begin
            .with("outgoing-window", 2048u32)
            .with("handle-max", 0u32),
    );
    p.want("begin")?;
    p.send(0, p.receiver_attach("r1", 0, "q1"));
    let first = p.want("attach")?;
    same!(
        first.number("handle"),
        Some(0),
        "handle of the broker's first link"
    );
    p.close()
}

fn remote_channel(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let limit = p
        .opened
        .as_ref()
        .and_then(|o| o.number("channel-max"))
        .unwrap_or(65_535);
    for channel in [0, 7, limit.min(255)] {
        let begin = perf("begin")
            .with("next-outgoing-id", 0u32)
            .with("incoming-window", 2048u32);
        p.send(channel as u16, begin.with("outgoing-window", 2048u32));
        if channel == 7 && limit < 7 {
            return p.refused(&["amqp:connection:framing-error"]).map(drop);
        }
        let answer = p.want("begin")?;
        same!(
            answer.number("remote-channel"),
            Some(channel),
            "remote-channel"
        );
    }
    p.close()
}

/// Nulls in arrays and byte order marks are found at any depth.
fn check_value(value: &Value) -> Done {
    match value {
        Value::Array(items) => {
            let has_null = items.iter().any(Value::is_null);
            ensure!(!has_null, "an array holds a null: {value:?}");
            items.iter().try_for_each(check_value)
        }
        Value::List(items) => items.iter().try_for_each(check_value),
        Value::Map(pairs) => pairs.iter().try_for_each(|(key, value)| {
            check_value(key)?;
            check_value(value)
        }),
        Value::Described(descriptor, value) => {
            check_value(descriptor)?;
            check_value(value)
        }
        Value::Str(text) => {
            ensure!(
                !text.starts_with('\u{feff}'),
                "a byte order mark: {value:?}"
            );
            Ok(())
        }
        _ => Ok(()),
    }
}

fn clean_frames(k: &mut Kit) -> Done {
    k.fill(
        "q1",
        &[message::data(&[b'x'; 3_000]), message::data(b"small")],
    )?;
    let mut p = k.hello()?;
    let open = perf("open").with("container-id", "c1");
    p.send(0, open.with("max-frame-size", 1_024u32));
    p.hex(known::BEGIN);
    let sender = p.sender_attach("s1", 0, "q1");
    p.send(0, sender);
    let receiver = p.receiver_attach("r1", 1, "q1");
    p.send(0, receiver.with("rcv-settle-mode", 0u8));
    let without_source = perf("attach").with("name", "r2").with("handle", 2u32);
    p.send(0, without_source.with("role", true));
    p.pump(300)?;
    p.credit(1, 2);
    p.pump(300)?;
    p.hex(known::END);
    p.hex(known::CLOSE);
    p.pump(300)?;
    for name in ["open", "begin", "flow", "detach", "end", "close"] {
        ensure!(p.count(name) > 0, "no {name} came to look at");
    }
    same!(p.count("attach"), 3, "attaches");
    let wanted = 3_000usize.div_ceil(1_024) + 1;
    ensure!(p.count("transfer") >= wanted, "too few transfers came");
    for frame in &p.stash {
        let fields = frame.perf.iter().flat_map(|perf| &perf.fields);
        fields.into_iter().try_for_each(check_value)?;
        match frame.name() {
            "attach" => ensure!(
                !frame.flag("incomplete-unsettled"),
                "nothing is unsettled, yet incomplete: {frame:?}"
            ),
            "transfer" => ensure!(
                frame.number("rcv-settle-mode") != Some(1),
                "the link's mode is first: {frame:?}"
            ),
            _ => {}
        }
    }
    Ok(())
}
