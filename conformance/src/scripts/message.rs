//! Message sections (messaging 3.2): what passes untouched, what is read, what is refused.

use super::codec::{both_ways, hurts_its_link_at_most, round_trip};
use crate::kit::Kit;
use crate::script::{Done, Script};
use crate::wire::{Value, hex, hex_of, message, perf, sym};
use crate::{ensure, same};

const AREA: &str = "message";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "ME-01",
        &["3.2-b", "2.8.15-a"],
        "a message without a body hurts its delivery at most",
        no_body,
    ),
    Script::new(
        AREA,
        "ME-02",
        &["3.2-c", "3.2-d", "3.2.6-a", "3.2.7-a", "3.2.8-a"],
        "every kind of body keeps its sections and bytes",
        body_kinds,
    ),
    Script::new(
        AREA,
        "ME-03",
        &["3.2-a", "3.2-e", "3.2.2-a", "3.2.9-a", "3.2-f"],
        "empty sections of every kind are taken",
        empty_sections,
    ),
    Script::new(
        AREA,
        "ME-05",
        &["3.2.10-a", "3.2.10-b", "3.2.3-c"],
        "reserved and wrong annotation keys hurt their link at most",
        reserved_keys,
    ),
    Script::new(
        AREA,
        "ME-06",
        &["3.2.3-a", "3.2.3-b", "3.2.10-c"],
        "annotations that nobody knows pass",
        unknown_annotations,
    ),
    Script::new(
        AREA,
        "ME-07",
        &["3.2.1-a", "3.2.1-c"],
        "durable and priority of the header pass",
        header_passes,
    ),
    Script::new(
        AREA,
        "ME-08",
        &["3.2.1-i"],
        "a header field of the wrong type is not read as another value",
        header_types,
    ),
    Script::new(
        AREA,
        "ME-09",
        &["3.2.4-a", "3.2.4-c", "3.2.5-a", "3.2-d"],
        "all properties pass bit for bit",
        all_properties,
    ),
    Script::new(
        AREA,
        "ME-10",
        &["2.8.11-a", "2.7.5-d"],
        "another message-format is kept",
        message_format,
    ),
    Script::new(
        AREA,
        "ME-11",
        &["3.2-a", "2.8.15-a"],
        "sections in the wrong order hurt their delivery at most",
        wrong_order,
    ),
    Script::new(
        AREA,
        "ME-12",
        &["3.2.1-d", "3.2.1-e"],
        "a message whose ttl has run out is not delivered",
        ttl,
    ),
    Script::new(
        AREA,
        "ME-13",
        &["3.2.4-d"],
        "a message past its absolute-expiry-time hurts nobody",
        expired_on_arrival,
    ),
    Script::new(
        AREA,
        "ME-14",
        &["3.2-d", "3.2.6-a"],
        "bodies of many sizes pass",
        sizes,
    ),
    Script::new(
        AREA,
        "ME-15",
        &["1.2-a", "2.8.15-a", "3.2-b"],
        "a payload that is noise hurts its delivery at most",
        noise,
    ),
    Script::new(
        AREA,
        "ME-16",
        &["3.2.1-f", "3.2.1-g"],
        "first-acquirer is true on the first delivery only, when it is sent",
        first_acquirer,
    ),
];

fn no_body(k: &mut Kit) -> Done {
    for payload in ["00537345", "0053700045", "005374c10100", ""] {
        let payload = if payload == "0053700045" {
            "005370450053 74c10100"
        } else {
            payload
        };
        hurts_its_link_at_most(k, &hex(payload))?;
    }
    k.empty("q1").map(drop)
}

fn body_kinds(k: &mut Kit) -> Done {
    let mut p = both_ways(k)?;
    let bodies = [
        "005375a0026162005375a0026364",
        "005376c003015201005376c003015202",
        "00537740",
        "005375a000",
        "005377a10568656c6c6f",
        "005376 45",
    ];
    for (id, body) in bodies.iter().enumerate() {
        let payload = hex(body);
        let got = round_trip(&mut p, id as u32, &payload)?;
        same!(
            hex_of(&message::bare(&got.payload)),
            hex_of(&payload),
            "body"
        );
    }
    p.close()
}

fn empty_sections(k: &mut Kit) -> Done {
    let payload = hex(
        "005370c00402405004005371c10100005372c10100005373c007034040a1027131005374c10100005377a10568656c6c6f005378c10100",
    );
    let mut p = both_ways(k)?;
    let got = round_trip(&mut p, 0, &payload)?;
    same!(
        hex_of(&message::bare(&got.payload)),
        hex_of(&message::bare(&payload)),
        "bare message"
    );
    p.close()
}

fn reserved_keys(k: &mut Kit) -> Done {
    for annotations in [
        "005372c10802a3026161a10176",
        "005372c106025309a10176",
        "005372c10d02a107782d6f70742d61a10176",
    ] {
        let bytes = hex(&format!("{annotations}005375a00178"));
        hurts_its_link_at_most(k, &bytes)?;
    }
    k.empty("q1").map(drop)
}

fn unknown_annotations(k: &mut Kit) -> Done {
    let map = Value::Map(vec![
        (sym("x-opt-nobody"), Value::Uint(7)),
        (sym("x-other"), Value::from("v")),
    ]);
    let payload = [
        message::section(message::code::MESSAGE_ANNOTATIONS, map.clone()),
        message::data(b"x"),
    ]
    .concat();
    let mut p = both_ways(k)?;
    let got = round_trip(&mut p, 0, &payload)?;
    let found = hex_of(&got.payload);
    for key in ["x-opt-nobody", "x-other"] {
        ensure!(
            found.contains(&hex_of(&sym(key).bytes())),
            "annotation {key} is gone: {found}"
        );
    }
    p.close()
}

fn header_passes(k: &mut Kit) -> Done {
    let mut p = both_ways(k)?;
    for (id, (durable, priority)) in [(true, 9u8), (false, 0), (true, 4)].into_iter().enumerate() {
        let header = perf("header")
            .with("durable", durable)
            .with("priority", priority);
        let payload = [header.value().bytes(), message::data(b"x")].concat();
        let got = round_trip(&mut p, id as u32, &payload)?;
        let header = message::header_of(&got.payload).unwrap_or(perf("header"));
        same!(
            *header.field("durable") == Value::Bool(true),
            durable,
            "durable"
        );
        same!(
            header.field("priority").number().unwrap_or(4),
            u64::from(priority),
            "priority"
        );
    }
    let got = round_trip(&mut p, 9, &message::data(b"x"))?;
    let header = message::header_of(&got.payload).unwrap_or(perf("header"));
    same!(
        *header.field("durable") == Value::Bool(true),
        false,
        "durable of a message without header"
    );
    same!(
        header.field("priority").number().unwrap_or(4),
        4,
        "priority of a message without header"
    );
    p.close()
}

fn header_types(k: &mut Kit) -> Done {
    for (header, is_priority) in [("005370c00402415209", true), ("005370c003015201", false)] {
        let result = hurts_its_link_at_most(k, &hex(&format!("{header}005375a00178")))?;
        if result != "accepted" {
            continue;
        }
        let back = k.empty("q1")?;
        let header = back
            .first()
            .and_then(|p| message::header_of(p))
            .unwrap_or(perf("header"));
        if is_priority {
            same!(
                header.field("priority").number(),
                Some(9),
                "priority given as a uint"
            );
        } else {
            ensure!(
                !matches!(header.field("durable"), Value::Null | Value::Bool(false)),
                "durable given as a uint became false"
            );
        }
    }
    Ok(())
}

fn all_properties(k: &mut Kit) -> Done {
    let properties = perf("properties")
        .with("message-id", "id-1")
        .with("user-id", Vec::from(*b"guest"))
        .with("to", "somewhere")
        .with("subject", "sub")
        .with("reply-to", "back")
        .with("correlation-id", 5u64)
        .with("content-type", sym("text/plain"))
        .with("content-encoding", sym("gzip"))
        .with(
            "absolute-expiry-time",
            Value::Timestamp(253_402_300_799_999),
        )
        .with("creation-time", Value::Timestamp(1_700_000_000_000))
        .with("group-id", "g")
        .with("group-sequence", u32::MAX)
        .with("reply-to-group-id", "rg");
    let map = Value::Map(vec![
        (Value::from("s"), Value::from("text")),
        (Value::from("n"), Value::Null),
        (
            Value::from("d"),
            Value::Fixed(0x82, 1.5f64.to_be_bytes().to_vec()),
        ),
        (Value::from("l"), Value::Long(-9)),
    ]);
    let payload = [
        properties.value().bytes(),
        message::section(message::code::APPLICATION_PROPERTIES, map),
        message::data(b"x"),
    ]
    .concat();
    let mut p = both_ways(k)?;
    let got = round_trip(&mut p, 0, &payload)?;
    same!(
        hex_of(&message::bare(&got.payload)),
        hex_of(&payload),
        "bare message"
    );
    p.close()
}

fn message_format(k: &mut Kit) -> Done {
    let mut p = both_ways(k)?;
    p.credit_wait(0)?;
    let transfer = p
        .transfer(0, 0)
        .with("message-format", 0x0080_0013_u32 << 8);
    p.send_with(0, transfer, &message::data(b"x"));
    let answer = p.disposition(0)?;
    if answer.state() == "rejected" {
        return p.close();
    }
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    same!(got.format, 0x8000_1300, "message-format");
    p.close()
}

fn wrong_order(k: &mut Kit) -> Done {
    let body = message::data(b"x");
    let properties = perf("properties").with("subject", "s").value().bytes();
    let header = perf("header").with("durable", true).value().bytes();
    for payload in [
        [properties.clone(), header.clone(), body.clone()].concat(),
        [body.clone(), properties.clone()].concat(),
        [header.clone(), header, body.clone()].concat(),
        [body, hex("00537740")].concat(),
    ] {
        hurts_its_link_at_most(k, &payload)?;
    }
    k.empty("q1").map(drop)
}

fn ttl(k: &mut Kit) -> Done {
    let with = |ttl: u32, body: &str| {
        [
            perf("header").with("ttl", ttl).value().bytes(),
            message::data(body.as_bytes()),
        ]
        .concat()
    };
    k.fill(
        "q1",
        &[
            with(150, "short"),
            with(600_000, "long"),
            message::data(b"none"),
        ],
    )?;
    k.wait(600);
    let back = k.empty("q1")?;
    let bodies: Vec<_> = back.iter().map(|p| crate::kit::body_text(p)).collect();
    same!(
        bodies,
        vec!["long".to_string(), "none".to_string()],
        "what is left after the ttl"
    );
    let left = message::header_of(&back[0]).and_then(|h| h.field("ttl").number());
    ensure!(
        left.is_some_and(|ttl| ttl <= 600_000),
        "ttl that goes on: {left:?}"
    );
    Ok(())
}

fn expired_on_arrival(k: &mut Kit) -> Done {
    let expired = perf("properties").with("absolute-expiry-time", Value::Timestamp(1_000));
    let payload = [expired.value().bytes(), message::data(b"old")].concat();
    hurts_its_link_at_most(k, &payload)?;
    k.empty("q1").map(drop)
}

fn sizes(k: &mut Kit) -> Done {
    let mut p = both_ways(k)?;
    let sizes = [0, 1, 2, 254, 255, 256, 257, 480, 512, 1_000, 4_090, 65_535];
    let limit = p
        .opened
        .as_ref()
        .and_then(|o| o.number("max-frame-size"))
        .unwrap_or(65_536);
    for (id, size) in sizes.into_iter().enumerate() {
        if size as u64 + 100 > limit {
            continue;
        }
        let body: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
        let got = round_trip(&mut p, id as u32, &message::data(&body))?;
        same!(
            message::data_of(&got.payload).map(|b| b == body),
            Some(true),
            "body of {size} octets"
        );
    }
    p.close()
}

fn noise(k: &mut Kit) -> Done {
    for payload in [
        "ff",
        "00",
        "005375",
        "005375a0ff00",
        "0053",
        "a10178",
        "005399a10178",
        "005375a00178ff",
    ] {
        let result = hurts_its_link_at_most(k, &hex(payload))?;
        ensure!(
            ["rejected", "detach", "accepted"].contains(&result),
            "{result}"
        );
        if result == "accepted" {
            // Then it is opaque to the broker and must come back as it was.
            let mut p = k.session_as("emptier")?;
            p.receiver("r1", 1, "q1")?;
            p.credit(1, 1);
            let got = p.must_get("r1")?;
            ensure!(
                got.payload.ends_with(&hex(payload)),
                "noise {payload} became {}",
                hex_of(&got.payload)
            );
            p.settle(got.id, "accepted");
            p.close()?;
        }
    }
    Ok(())
}

fn first_acquirer(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 1);
    let first = p.must_get("r1")?;
    if let Some(header) = message::header_of(&first.payload) {
        ensure!(
            *header.field("first-acquirer") != Value::Bool(false)
                || header.field("first-acquirer").is_null(),
            "first delivery: {header:?}"
        );
    }
    same!(first.count(), 0, "delivery-count of the first delivery");
    p.settle(first.id, "released");
    p.credit(1, 1);
    let second = p.must_get("r1")?;
    if let Some(header) = message::header_of(&second.payload) {
        ensure!(
            *header.field("first-acquirer") != Value::Bool(true),
            "second delivery: {header:?}"
        );
    }
    p.settle(second.id, "accepted");
    p.close()
}
