//! The type system on the wire (types 1.1 to 1.6): rare encodings, arrays, depth, exact bytes.

use crate::kit::{Delivery, Kit, Peer, known};
use crate::script::{Done, Script};
use crate::wire::{Value, hex, hex_of, message, perf};
use crate::{broke, ensure, same};

const AREA: &str = "codec";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "CO-01",
        &["1.6.24-b", "2.8.15-a"],
        "an array of 2^31 elements of no width costs nothing",
        huge_zero_width,
    ),
    Script::new(
        AREA,
        "CO-02",
        &["1.2.4-a", "1.6.24-a", "1.6.24-b", "3.2-d"],
        "small arrays of zero-width elements pass",
        small_zero_width,
    ),
    Script::new(
        AREA,
        "CO-04",
        &["1.6.24-c", "1.6.17-a", "3.2.8-a"],
        "an array of timestamps passes",
        timestamps,
    ),
    Script::new(
        AREA,
        "CO-05",
        &["1.6.22-b", "1.2.3-a", "2.7.3-a"],
        "names near 255 octets are echoed whole",
        long_names,
    ),
    Script::new(
        AREA,
        "CO-06",
        &["1.6.23-a", "1.6.23-b"],
        "maps with an odd count or a key twice hurt their delivery at most",
        bad_maps,
    ),
    Script::new(
        AREA,
        "CO-07",
        &["1.5-a", "1.5-b", "1.5-c", "1.6.6-a"],
        "descriptors by symbol and by wide number are known",
        descriptors,
    ),
    Script::new(
        AREA,
        "CO-09",
        &[
            "3.2.4-b", "3.2.11-a", "3.2.12-a", "3.2.13-a", "3.2.14-a", "1.6.18-a", "1.6.19-a",
        ],
        "message-id and correlation-id keep type and value",
        message_ids,
    ),
    Script::new(
        AREA,
        "CO-10",
        &["2.8.15-a", "1.2.3-a"],
        "5,000 nested lists never break the broker",
        deep_nesting,
    ),
    Script::new(
        AREA,
        "CO-12",
        &["1.6.17-a", "3.2.4-a"],
        "extreme timestamps pass bit for bit",
        extreme_times,
    ),
    Script::new(
        AREA,
        "CO-14",
        &[
            "1.6.3-a", "1.6.4-a", "1.6.7-a", "1.6.8-a", "1.6.9-a", "1.6.10-a", "1.6.11-a",
            "1.6.12-a", "1.6.13-a", "1.6.14-a", "1.6.15-a", "1.6.16-a", "3.2.8-a",
        ],
        "rare primitives pass bit for bit",
        rare_primitives,
    ),
];

/// Sends one payload and gets it back on the same session.
pub(super) fn round_trip(p: &mut Peer, id: u32, payload: &[u8]) -> Done<Delivery> {
    p.credit_wait(0)?;
    p.publish(0, id, payload);
    same!(p.outcome(id)?, "accepted", "outcome of {}", hex_of(payload));
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    p.settle(got.id, "accepted");
    Ok(got)
}

/// A session with sender `s1` (handle 0) and receiver `r1` (handle 1) on `q1`.
pub(super) fn both_ways(k: &mut Kit) -> Done<Peer> {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.receiver("r1", 1, "q1")?;
    Ok(p)
}

/// Each payload comes back with the same bare message.
fn pass_unchanged(k: &mut Kit, payloads: &[&str]) -> Done {
    let mut p = both_ways(k)?;
    for (id, payload) in payloads.iter().enumerate() {
        let payload = hex(payload);
        let got = round_trip(&mut p, id as u32, &payload)?;
        same!(
            hex_of(&message::bare(&got.payload)),
            hex_of(&message::bare(&payload)),
            "bare message"
        );
    }
    p.close()
}

/// A payload that may be refused: the delivery gets a rejection or its link goes, no more.
pub(super) fn hurts_its_link_at_most(k: &mut Kit, payload: &[u8]) -> Done<&'static str> {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    p.publish(0, 0, payload);
    let answer = p.want_where("disposition or detach", |f| {
        ["disposition", "detach"].contains(&f.name())
    })?;
    let result = if answer.name() == "detach" {
        let condition = answer.condition();
        ensure!(condition.starts_with("amqp:"), "detach with {condition:?}");
        "detach"
    } else {
        ensure!(
            ["accepted", "rejected"].contains(&answer.state()),
            "{answer:?}"
        );
        answer.state()
    };
    p.sync()?;
    p.close()?;
    Ok(result)
}

fn huge_zero_width(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex(known::SND);
    p.want("attach")?;
    p.credit_wait(0)?;
    p.hex("0000003302000000005314c007044343a0014143005372c11402a307782d6f70742d7af0000000057fffffff41005375a00178");
    let answer = p.want_where("disposition, detach or close", |f| {
        ["disposition", "detach", "close"].contains(&f.name())
    });
    match answer {
        Ok(_) => {}
        Err(_) if p.count("close") == 1 => {}
        Err(e) => return Err(e),
    }
    // The same in the properties of open, begin and attach: an answer or a refusal, at once.
    let array = Value::Raw(hex("f0000000057fffffff41"));
    let map = || Value::Map(vec![(crate::wire::sym("x"), array.clone())]);
    let mut p = k.hello()?;
    p.send(
        0,
        perf("open")
            .with("container-id", "c1")
            .with("properties", map()),
    );
    p.want_where("open or close", |f| ["open", "close"].contains(&f.name()))?;
    let mut p = k.open()?;
    let begin = perf("begin")
        .with("next-outgoing-id", 0u32)
        .with("incoming-window", 9u32);
    p.send(
        0,
        begin
            .with("outgoing-window", 9u32)
            .with("properties", map()),
    );
    p.want_where("begin", |f| f.name() == "begin")
        .or_else(|e| {
            if p.count("close") == 1 {
                Ok(p.take("close").remove(0))
            } else {
                Err(e)
            }
        })?;
    let mut p = k.session()?;
    let attach = p.receiver_attach("r1", 1, "q1").with("properties", map());
    p.send(0, attach);
    p.want_where("attach", |f| f.name() == "attach")
        .or_else(|e| {
            if p.count("close") == 1 {
                Ok(p.take("close").remove(0))
            } else {
                Err(e)
            }
        })?;
    // And as the value of a message.
    let mut p = both_ways(k)?;
    p.credit_wait(0)?;
    p.publish(0, 0, &hex("005377f0000000057fffffff41"));
    p.want_where("disposition or detach", |f| {
        ["disposition", "detach"].contains(&f.name())
    })?;
    p.close()
}

fn small_zero_width(k: &mut Kit) -> Done {
    let mut p = both_ways(k)?;
    for (id, array) in ["e0020341", "e0020340", "e0020243", "e0020245"]
        .iter()
        .enumerate()
    {
        let key = "a307782d6f70742d7a";
        let map = format!("005372c1{:02x}02{key}{array}", 1 + 9 + 4);
        let payload = hex(&format!("{map}005375a00178"));
        let got = round_trip(&mut p, id as u32, &payload)?;
        let found = hex_of(&got.payload);
        ensure!(
            found.contains(&format!("{key}{array}")),
            "array {array} came back in {found}"
        );
    }
    p.close()?;
    pass_unchanged(
        k,
        &[
            "005377e0020341",
            "005377e0020340",
            "005377e0020243",
            "005377e0020245",
            "005377f00000000d0000000270000000010000ffff",
            "005377e00602a1016101 62",
        ],
    )
}

fn timestamps(k: &mut Kit) -> Done {
    pass_unchanged(k, &["005377c11002a10165e00a01830000018bcfe56800"])
}

fn long_names(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    for (handle, len) in (200..=260)
        .step_by(if k.is_virtual() { 1 } else { 9 })
        .enumerate()
    {
        let name = "n".repeat(len);
        let answer = p.receiver(&name, handle as u32, "q1")?;
        same!(
            answer.field("name").words(),
            Some(name.as_str()),
            "name in the answer"
        );
        p.detach(handle as u32, true)?;
    }
    p.close()
}

fn bad_maps(k: &mut Kit) -> Done {
    for (payload, is_odd) in [
        ("005374c10803a10161a1016240", true),
        ("005374c10b04a101615201a101615202", false),
    ] {
        let bytes = hex(&format!("{payload}005375a00178"));
        let result = hurts_its_link_at_most(k, &bytes)?;
        ensure!(
            !(is_odd && result == "accepted"),
            "a map of three items was accepted"
        );
        if result == "accepted" {
            let back = k.empty("q1")?;
            let found = back.first().map(|p| hex_of(p)).unwrap_or_default();
            ensure!(found.contains(payload), "the map was changed to {found}");
        }
    }
    Ok(())
}

fn descriptors(k: &mut Kit) -> Done {
    for open in [
        "000000190200000000800000000000000010c00501a1026331",
        "000000200200000000a30e616d71703a6f70656e3a6c697374c00501a1026331",
    ] {
        let mut p = k.hello()?;
        p.hex(open);
        p.want("open")?;
        p.close()?;
    }
    let plain = "005374c10702a1016ba10176";
    let mut p = both_ways(k)?;
    for (id, section) in [
        "00800000000000000074c10702a1016ba10176",
        "00a31f616d71703a6170706c69636174696f6e2d70726f706572746965733a6d6170c10702a1016ba10176",
    ]
    .iter()
    .enumerate()
    {
        let got = round_trip(&mut p, id as u32, &hex(&format!("{section}005375a00178")))?;
        let found = message::sections(&got.payload).map_err(|e| broke!("{}", e.0))?;
        let section = found
            .iter()
            .find(|s| s.code == message::code::APPLICATION_PROPERTIES);
        let value = section.map(|s| s.value.clone());
        let expected = message::sections(&hex(plain)).expect("a section")[0]
            .value
            .clone();
        let (Some(Value::Described(_, got)), Value::Described(_, expected)) = (value, expected)
        else {
            return Err(broke!("no application-properties came back"));
        };
        same!(got, expected, "application-properties");
    }
    p.close()
}

fn message_ids(k: &mut Kit) -> Done {
    let mut p = both_ways(k)?;
    let ids = [
        "5307",
        "808000000000000001",
        "98000102030405060708090a0b0c0d0e0f",
        "a0030001ff",
        "a1026964",
        "44",
    ];
    for (n, id) in ids.iter().enumerate() {
        let value = Value::Raw(hex(id));
        let properties = perf("properties")
            .with("message-id", value.clone())
            .with("correlation-id", value);
        let mut payload = properties.value().bytes();
        payload.extend(message::data(b"x"));
        let got = round_trip(&mut p, n as u32, &payload)?;
        same!(
            hex_of(&message::bare(&got.payload)),
            hex_of(&payload),
            "message with id {id}"
        );
    }
    p.close()
}

/// A value of `depth` nested one-element lists around a true.
fn nested(depth: usize) -> Vec<u8> {
    let mut value = vec![0x41];
    for _ in 0..depth {
        let len = value.len();
        let mut outer = if len < 255 {
            vec![0xc0, len as u8 + 1, 1]
        } else {
            let mut wide = vec![0xd0];
            wide.extend((len as u32 + 4).to_be_bytes());
            wide.extend([0, 0, 0, 1]);
            wide
        };
        outer.extend(value);
        value = outer;
    }
    value
}

fn deep_nesting(k: &mut Kit) -> Done {
    let deep = nested(5_000);
    let mut payload = hex("005377");
    payload.extend(&deep);
    hurts_its_link_at_most(k, &payload)?;
    k.empty("q1").map(drop).or_else(|e| match e {
        // The codec of this suite gives up on such a value by itself.
        crate::script::Failure::Broke(text) if text.contains("too deep") => Ok(()),
        other => Err(other),
    })?;
    let mut p = k.hello()?;
    let map = Value::Map(vec![(crate::wire::sym("x"), Value::Raw(nested(90)))]);
    p.send(
        0,
        perf("open")
            .with("container-id", "c1")
            .with("properties", map),
    );
    p.want_where("open or close", |f| ["open", "close"].contains(&f.name()))?;
    let mut p = k.session()?;
    let map = Value::Map(vec![(crate::wire::sym("x"), Value::Raw(deep))]);
    let attach = p.receiver_attach("r9", 9, "q1").with("properties", map);
    p.send(0, attach);
    let answer = p.want_where("an answer", |f| {
        ["attach", "end", "close"].contains(&f.name())
    })?;
    if answer.name() == "attach" {
        p.close()
    } else {
        Ok(())
    }
}

fn extreme_times(k: &mut Kit) -> Done {
    let never = ["837fffffffffffffff", "830000e677d21fdbff"];
    let past = ["838000000000000000", "83ffffc77cedd32800"];
    let mut p = both_ways(k)?;
    let mut id = 0;
    let with = |field: &str, time: &str| {
        let mut payload = perf("properties")
            .with(field, Value::Raw(hex(time)))
            .value()
            .bytes();
        payload.extend(message::data(b"x"));
        payload
    };
    for (field, times) in [
        ("creation-time", [never, past].concat()),
        ("absolute-expiry-time", never.to_vec()),
    ] {
        for time in times {
            let payload = with(field, time);
            let got = round_trip(&mut p, id, &payload)?;
            same!(
                hex_of(&message::bare(&got.payload)),
                hex_of(&payload),
                "{field} {time}"
            );
            id += 1;
        }
    }
    for time in past {
        p.publish(0, id, &with("absolute-expiry-time", time));
        p.outcome(id)?;
        id += 1;
    }
    p.sync()?;
    p.close()
}

fn rare_primitives(k: &mut Kit) -> Done {
    pass_unchanged(
        k,
        &[
            "005377c03c0a74225000058422380000000000019422080000000000000000000000000007727fc0000182fff0000000000000730001f60051ff61800054fe55fd",
            "00537760ffff",
            "00537750ff",
        ],
    )
}
