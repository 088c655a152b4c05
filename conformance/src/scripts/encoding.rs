//! Encodings on the wire (types 1.2, 1.6): wide forms, lying sizes, bad text, order of maps.

use super::codec::{both_ways, round_trip};
use crate::kit::{Kit, known};
use crate::script::{Done, Script};
use crate::wire::{Value, hex, hex_of, message};
use crate::{broke, ensure, same};

const AREA: &str = "codec";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "CO-15",
        &["1.6.2-a", "1.2-b", "1.6.1-a"],
        "the two-octet boolean is understood",
        wide_booleans,
    ),
    Script::new(
        AREA,
        "CO-16",
        &[
            "1.2-b", "1.6.5-a", "1.6.22-a", "1.2.1-a", "1.2.2-a", "1.6.20-a",
        ],
        "wide forms of every field are understood",
        wide_fields,
    ),
    Script::new(
        AREA,
        "CO-17",
        &["1.6.20-a", "1.6.21-a", "2.8.15-a"],
        "a string that is not UTF-8 is refused",
        bad_utf8,
    ),
    Script::new(
        AREA,
        "CO-18",
        &["1.2.3-a", "2.8.15-a"],
        "a compound whose size lies is refused",
        lying_sizes,
    ),
    Script::new(
        AREA,
        "CO-19",
        &["1.6.23-c", "3.2.5-b", "3.2.3-a"],
        "maps keep their order and their values",
        map_order,
    ),
];

fn wide_booleans(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex(known::SND);
    p.want("attach")?;
    p.hex("0000001102000000005316c00402435601");
    let detach = p.want("detach")?;
    ensure!(
        detach.flag("closed"),
        "closed came as 0x56 01 and was read as false"
    );
    p.close()
}

fn wide_fields(k: &mut Kit) -> Done {
    // attach with a list32, str32 name, 4-octet handle, two-octet booleans, 1-octet defaults.
    let mut p = k.session()?;
    let target = Value::Described(
        Box::new(Value::Raw(hex("800000000000000029"))),
        Box::new(Value::List(vec![Value::Raw({
            let address = p.addr("q1");
            let mut bytes = vec![0xb1];
            bytes.extend((address.len() as u32).to_be_bytes());
            bytes.extend(address.as_bytes());
            bytes
        })])),
    );
    let fields = Value::List(vec![
        Value::Raw(hex("b1000000027331")),
        Value::Raw(hex("7000000000")),
        Value::Raw(hex("5600")),
        Value::Raw(hex("5002")),
        Value::Raw(hex("5000")),
        Value::Raw(hex("00a310616d71703a736f757263653a6c69737445")),
        target,
        Value::Null,
        Value::Raw(hex("5600")),
        Value::Raw(hex("7000000000")),
        Value::Raw(hex("800000000000000000")),
    ]);
    let attach = Value::Described(
        Box::new(Value::Raw(hex("800000000000000012"))),
        Box::new(fields),
    );
    let body = attach.bytes();
    let mut bytes = (body.len() as u32 + 8).to_be_bytes().to_vec();
    bytes.extend(hex("02000000"));
    bytes.extend(body);
    let placed = p.place(bytes);
    p.raw(&placed);
    let answer = p.want("attach")?;
    ensure!(!answer.field("target").is_null(), "refused: {answer:?}");
    p.credit_wait(0)?;
    // transfer with wide forms: 4-octet handle and id, bin32 tag, all flags as 0x56 00.
    let transfer = hex(
        "005314d0000000280000000a7000000000 7000000000 b00000000161 7000000000 5600 5600 40 40 5600 5600",
    );
    let size = transfer.len() - 8;
    let mut transfer = transfer;
    transfer[4..8].copy_from_slice(&(size as u32).to_be_bytes());
    transfer.extend(message::data(b"wide"));
    let mut bytes = (transfer.len() as u32 + 8).to_be_bytes().to_vec();
    bytes.extend(hex("02000000"));
    bytes.extend(transfer);
    let placed = p.place(bytes);
    p.raw(&placed);
    same!(p.outcome(0)?, "accepted", "outcome");
    p.close()
}

fn bad_utf8(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    p.hex("0000001202000000005310c00501a102fffe");
    p.refusal(&[
        "amqp:decode-error",
        "amqp:invalid-field",
        "amqp:connection:framing-error",
    ])?;
    let mut p = k.session()?;
    p.hex("0000001402000000005312c00703a102ff314341");
    p.want_where("an end", |f| ["end", "close"].contains(&f.name()))
        .map(drop)
        .or_else(|e| if p.count("close") > 0 { Ok(()) } else { Err(e) })
}

fn lying_sizes(k: &mut Kit) -> Done {
    for bad in [
        // list8 of size 9 with two octets behind it; count 9 with one item; string past the end
        "0000000f02000000005311c0095201",
        "0000000f02000000005311c0020943",
        "0000001002000000005310c003a1ff63",
    ] {
        let mut bytes = hex(bad);
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_be_bytes());
        let mut p = k.open()?;
        p.raw(&bytes);
        p.refused(&[
            "amqp:decode-error",
            "amqp:connection:framing-error",
            "amqp:invalid-field",
        ])?;
    }
    Ok(())
}

fn map_order(k: &mut Kit) -> Done {
    let map = |keys: [&str; 4]| {
        Value::Map(
            keys.iter()
                .map(|key| (Value::from(*key), Value::Uint(key.len() as u32)))
                .collect(),
        )
    };
    let mut payload = message::section(
        message::code::APPLICATION_PROPERTIES,
        map(["z", "aa", "m", "b"]),
    );
    payload.extend(message::data(b"x"));
    let mut p = both_ways(k)?;
    let got = round_trip(&mut p, 0, &payload)?;
    same!(
        hex_of(&message::bare(&got.payload)),
        hex_of(&payload),
        "application-properties"
    );
    let entries =
        ["x-opt-z", "x-opt-a", "x-opt-m"].map(|key| (crate::wire::sym(key), Value::from(key)));
    let annotations = message::section(
        message::code::MESSAGE_ANNOTATIONS,
        Value::Map(entries.to_vec()),
    );
    let payload = [annotations, message::data(b"x")].concat();
    let got = round_trip(&mut p, 1, &payload)?;
    let found = message::sections(&got.payload).map_err(|e| broke!("{}", e.0))?;
    let section = found
        .iter()
        .find(|s| s.code == message::code::MESSAGE_ANNOTATIONS);
    let Some(Value::Described(_, map)) = section.map(|s| s.value.clone()) else {
        return Err(broke!("the message-annotations did not come back"));
    };
    let Value::Map(found) = *map else {
        return Err(broke!("annotations are no map"));
    };
    for entry in &entries {
        ensure!(found.contains(entry), "{entry:?} is missing in {found:?}");
    }
    p.close()
}
