//! Performatives against bytes made by hand from the standard.

mod support;

use bytes::{Bytes, BytesMut};
use qq_proto_amqp::condition;
use qq_proto_amqp::performative::{
    AmqpError, Attach, Begin, Close, DeliveryState, Detach, Disposition, End, Flow, Open,
    Performative, Role, SaslInit, SaslMechanisms, SaslOutcome, SaslPerformative, Source, Target,
    TargetKind, Transfer,
};
use qq_proto_amqp::types::{DecodeError, DeliveryTag, Str, Symbol, Value};
use support::{frame_body, hex, nested_lists, text};

fn decode(digits: &str) -> Result<Performative, DecodeError> {
    let (_, body) = frame_body(digits);
    Performative::decode(&body).map(|(performative, _)| performative)
}

fn encode(performative: &Performative) -> Bytes {
    let mut buf = BytesMut::new();
    performative.encode(&mut buf);
    buf.freeze()
}

fn open_c1() -> Open {
    Open {
        container_id: Str::from_static("c1"),
        ..Open::default()
    }
}

#[test]
fn co_07_every_form_of_a_descriptor_names_the_same_type() {
    let expected = Performative::Open(Box::new(open_c1()));
    for digits in [
        "0000001202000000005310c00501a1026331",
        "000000190200000000800000000000000010c00501a1026331",
        "000000200200000000a30e616d71703a6f70656e3a6c697374c00501a1026331",
        // The symbol with a length of four bytes.
        "000000230200000000b30000000e616d71703a6f70656e3a6c697374c00501a1026331",
    ] {
        assert_eq!(decode(digits).as_ref(), Ok(&expected), "{digits}");
    }
}

#[test]
fn fr_04_an_extended_header_moves_the_body_only() {
    let (_, body) = frame_body("0000001603000000deadbeef005310c00501a1026331");
    assert_eq!(
        Performative::decode(&body),
        Ok((Performative::Open(Box::new(open_c1())), body.len()))
    );
    let (_, body) =
        frame_body("000000260500000000112233445566778899aabb005311c00d04404370000008007000000800");
    let begin = Begin {
        incoming_window: 2_048,
        outgoing_window: 2_048,
        ..Begin::default()
    };
    assert_eq!(
        Performative::decode(&body),
        Ok((Performative::Begin(Box::new(begin)), body.len()))
    );
}

#[test]
fn pe_01_one_symbol_counts_as_an_array_of_one_and_an_empty_array_as_none() {
    for (digits, count) in [
        (
            "0000002002000000005310c01309a102633140404040404040a305782d636170",
            1,
        ),
        (
            "0000002302000000005310c01609a102633140404040404040e00801a305782d636170",
            1,
        ),
        (
            "0000001d02000000005310c01009a102633140404040404040e00200a3",
            0,
        ),
    ] {
        let expected = Open {
            desired_capabilities: vec![Symbol::from_static("x-cap"); count],
            ..open_c1()
        };
        assert_eq!(
            decode(digits),
            Ok(Performative::Open(Box::new(expected))),
            "{digits}"
        );
    }
}

#[test]
fn pe_01_arrays_of_anything_but_symbols_are_refused() {
    // An array of 2^31 trues where symbols should stand.
    let body = hex("005310c01509a102633140404040404040f0000000057fffffff41");
    assert_eq!(
        Performative::decode(&body),
        Err(DecodeError::FieldType("desired-capabilities"))
    );
}

#[test]
fn pe_03_absent_null_and_default_are_alike() {
    let expected = Begin {
        incoming_window: 2_048,
        outgoing_window: 2_048,
        ..Begin::default()
    };
    assert_eq!(expected.handle_max, u32::MAX);
    for (channel, digits) in [
        (0, "0000001a02000000005311c00d04404370000008007000000800"),
        (
            1,
            "0000001e02000001005311c0110840437000000800700000080040404040",
        ),
        (
            2,
            "0000001f02000002005311c0120540437000000800700000080070ffffffff",
        ),
        (
            3,
            "0000002002000003005311d00000001000000004404370000008007000000800",
        ),
    ] {
        assert_eq!(frame_body(digits).0, channel);
        assert_eq!(
            decode(digits),
            Ok(Performative::Begin(Box::new(expected.clone()))),
            "{digits}"
        );
    }
}

#[test]
fn pe_04_missing_mandatory_fields_are_named() {
    for (digits, field) in [
        ("0000000c0200000000531045", "container-id"),
        (
            "0000001402000000005311c00704404052015201",
            "next-outgoing-id",
        ),
        ("0000001402000000005312c00703a10273314042", "handle"),
    ] {
        assert_eq!(
            decode(digits),
            Err(DecodeError::FieldMissing(field)),
            "{digits}"
        );
    }
    // Mandatory by its meaning, but not by its type: left to the link.
    let digits = "0000002402000000005312c01707a10273314342404000532845005329c00501a1027131";
    let Ok(Performative::Attach(attach)) = decode(digits) else {
        panic!("an attach")
    };
    assert_eq!(
        (attach.role, attach.initial_delivery_count),
        (Role::Sender, None)
    );
}

#[test]
fn pe_05_a_null_source_is_no_source() {
    let Ok(Performative::Attach(attach)) =
        decode("0000001c02000000005312c00f07a102723152014140404000532945")
    else {
        panic!("an attach")
    };
    let expected = Attach {
        name: Str::from_static("r1"),
        handle: 1,
        role: Role::Receiver,
        target: Some(TargetKind::Target(Target::default())),
        ..Attach::default()
    };
    assert_eq!(*attach, expected);
}

#[test]
fn pe_06_a_default_outcome_and_a_disposition_without_state_are_read() {
    let source = "005328c01009a10271314040404040404000532645";
    // attach(name r1, handle 1, receiver, source): 4 + 2 + 1 + 2 + 21 bytes of fields, and the count.
    let body = hex(&["005312c01f06a1027231520141 4040", source].concat());
    let Ok((Performative::Attach(attach), _)) = Performative::decode(&body) else {
        panic!("an attach")
    };
    let source = attach.source.expect("a source");
    assert_eq!(source.address, Some(text("q1")));
    assert_eq!(source.default_outcome, Some(DeliveryState::Released));
    assert_eq!(
        decode("0000001202000000005315c0050441434041"),
        Ok(Performative::Disposition(Disposition {
            role: Role::Receiver,
            settled: true,
            ..Disposition::default()
        }))
    );
}

#[test]
fn pe_08_what_is_no_performative_is_refused() {
    assert_eq!(
        decode("000000100200000000531fc003015201"),
        Err(DecodeError::UnknownDescriptor(Some(0x1f)))
    );
    assert_eq!(
        decode("0000000d02000000c003015201"),
        Err(DecodeError::NotDescribedList)
    );
    assert_eq!(
        decode("000000110200000000a305783a666f6f45"),
        Err(DecodeError::UnknownDescriptor(None))
    );
    // Known types that are no performatives.
    assert_eq!(
        Performative::decode(&hex("00532445")),
        Err(DecodeError::UnknownDescriptor(Some(0x24)))
    );
}

#[test]
fn pe_09_a_channel_maximum_of_zero_is_zero() {
    let expected = Open {
        channel_max: 0,
        ..open_c1()
    };
    assert_eq!(
        decode("0000001702000000005310c00a04a10263314040600000"),
        Ok(Performative::Open(Box::new(expected)))
    );
    assert_eq!(open_c1().channel_max, u16::MAX);
}

#[test]
fn co_01_and_co_10_hold_in_properties_too() {
    // open.properties = { "a": an array of 2^31 trues }
    let body = hex("005310c01d0aa10263314040404040404040 c10e02a30178 f0000000057fffffff41");
    let Ok((Performative::Open(open), _)) = Performative::decode(&body) else {
        panic!("an open")
    };
    let properties = open.properties.expect("properties");
    assert!(
        matches!(&properties[..], [(Value::Symbol(_), Value::Array(array))] if array.count() == 0x7fff_ffff)
    );
    // { "x": lists in each other }, one level of which is the open's own list and one the map's.
    for (depth, is_legal) in [(30, true), (31, false), (5_000, false)] {
        let lists = nested_lists(depth);
        let mut map = vec![0xd1];
        map.extend((4 + 3 + lists.len() as u32).to_be_bytes());
        map.extend([0, 0, 0, 2, 0xa3, 1, b'x']);
        map.extend(&lists);
        let mut body = vec![0x00, 0x53, 0x10, 0xd0];
        body.extend((4 + 4 + 8 + map.len() as u32).to_be_bytes());
        body.extend([
            0, 0, 0, 10, 0xa1, 2, b'c', b'1', 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40,
        ]);
        body.extend(map);
        let outcome = Performative::decode(&body.into());
        assert_eq!(
            outcome.as_ref().err(),
            (!is_legal).then_some(&DecodeError::TooDeep),
            "depth {depth}"
        );
    }
}

#[test]
fn transfers_are_read_and_their_payload_is_found() {
    let (_, body) = frame_body("0000001e02000000005314c007044343a0010043005375a00568656c6c6f");
    let expected = Transfer {
        delivery_id: Some(0),
        delivery_tag: DeliveryTag::new(&[0]),
        message_format: Some(0),
        ..Transfer::default()
    };
    let (performative, payload) = Performative::decode(&body).expect("legal");
    assert_eq!(performative, Performative::Transfer(expected));
    assert_eq!(body[payload..], hex("005375a00568656c6c6f")[..]);
    // A continuation (TR-02): handle and more=false... nothing else.
    let (_, body) = frame_body("0000001202000000005314c0020143646566");
    assert_eq!(
        Performative::decode(&body),
        Ok((Performative::Transfer(Transfer::default()), 7))
    );
    // An aborted one (TR-01).
    let aborted = Transfer {
        aborted: true,
        ..Transfer::default()
    };
    assert_eq!(
        decode("0000001802000000005314c00b0a43404040404040404041"),
        Ok(Performative::Transfer(aborted))
    );
}

#[test]
fn tr_08_tags_have_up_to_32_bytes() {
    let tagged = |len: usize| {
        let fields = 2 + 2 + len + 1;
        let mut body = vec![
            0x00,
            0x53,
            0x14,
            0xc0,
            fields as u8 + 1,
            4,
            0x43,
            0x43,
            0xa0,
            len as u8,
        ];
        body.extend(vec![b't'; len]);
        body.push(0x43);
        Performative::decode(&body.into())
    };
    for len in [0, 1, 31, 32] {
        let Ok((Performative::Transfer(transfer), _)) = tagged(len) else {
            panic!("a tag of {len} bytes")
        };
        assert_eq!(transfer.delivery_tag, DeliveryTag::new(&vec![b't'; len]));
    }
    assert_eq!(
        tagged(33),
        Err(DecodeError::DeliveryTagTooLong { handle: 0 })
    );
}

#[test]
fn tr_08_a_tag_of_33_bytes_names_its_link() {
    let body = hex(&["005314c028045207 43a021", &"74".repeat(33), "43"].concat());
    assert_eq!(
        Performative::decode(&body),
        Err(DecodeError::DeliveryTagTooLong { handle: 7 })
    );
}

#[test]
fn fields_of_a_wrong_type_width_or_range_are_refused() {
    for (digits, error) in [
        // handle as ulong, more as uint, settled as 0x56 02
        ("005314c003015301", DecodeError::FieldType("handle")),
        ("005314c00706434040404043", DecodeError::FieldType("more")),
        ("005314c007054340404056 02", DecodeError::NotBool),
        // snd-settle-mode 3, rcv-settle-mode 2
        (
            "005312c00904a1027331434250 03",
            DecodeError::FieldRange("snd-settle-mode"),
        ),
        (
            "005312c00a05a10273314342405002",
            DecodeError::FieldRange("rcv-settle-mode"),
        ),
        // a twelfth field
        (
            "005314c00d0c434040404040404040404040",
            DecodeError::TooManyFields,
        ),
        // an error that is none
        ("005317c0050100532445", DecodeError::FieldType("error")),
        // a map where a list should be
        ("005310c10501a1026331", DecodeError::NotDescribedList),
        // container-id as symbol
        (
            "005310c00501a3026331",
            DecodeError::FieldType("container-id"),
        ),
        // a flow whose list covers a byte more than its fields, an end with a byte behind it
        ("005313c0060440434343 40", DecodeError::CountMismatch),
        ("00531745 00", DecodeError::TrailingBytes),
    ] {
        assert_eq!(Performative::decode(&hex(digits)), Err(error), "{digits}");
    }
}

#[test]
fn what_we_write_is_what_the_standard_says() {
    let transfer = Transfer {
        delivery_id: Some(0),
        delivery_tag: DeliveryTag::new(&[0]),
        message_format: Some(0),
        ..Transfer::default()
    };
    let settle = Disposition {
        role: Role::Receiver,
        first: 1,
        last: Some(300),
        settled: true,
        state: Some(DeliveryState::Accepted),
        batchable: false,
    };
    let flow = Flow {
        next_incoming_id: Some(0),
        incoming_window: 2_048,
        outgoing_window: 2_048,
        handle: Some(1),
        delivery_count: Some(0),
        link_credit: Some(10),
        ..Flow::default()
    };
    for (performative, digits) in [
        (Performative::Transfer(transfer), "005314c007044343a0010043"),
        (
            Performative::Disposition(settle),
            "005315c00e05415201700000012c4100532445",
        ),
        (
            Performative::Flow(flow),
            "005313c01207437000000800437000000800520143520a",
        ),
        (
            Performative::Detach(Detach {
                handle: 0,
                closed: true,
                error: None,
            }),
            "005316c003024341",
        ),
        (Performative::Detach(Detach::default()), "005316c0020143"),
        (Performative::End(End::default()), "00531745"),
        (Performative::Close(Close::default()), "00531845"),
    ] {
        assert_eq!(encode(&performative), hex(digits), "{digits}");
    }
}

#[test]
fn errors_are_written_with_all_three_fields() {
    let error = AmqpError {
        condition: condition::LINK_STOLEN,
        ..AmqpError::default()
    };
    let close = Performative::Close(Close {
        error: Some(Box::new(error)),
    });
    // amqp:link:stolen has 16 letters; two nulls follow it.
    let name = "616d71703a6c696e6b3a73746f6c656e";
    let bytes = encode(&close);
    assert_eq!(
        bytes,
        hex(&["005318c01b01 00531dc01503a310", name, "4040"].concat())
    );
    assert_eq!(Performative::decode(&bytes), Ok((close, bytes.len())));
}

#[test]
fn termini_are_never_written_as_empty_lists() {
    let attach = Attach {
        source: Some(Source::default()),
        target: Some(TargetKind::Target(Target::default())),
        ..Attach::default()
    };
    let bytes = encode(&Performative::Attach(Box::new(attach.clone())));
    let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(
        has(&[0x53, 0x28, 0xc0]) && has(&[0x53, 0x29, 0xc0]),
        "{bytes:?}"
    );
    assert_eq!(
        Performative::decode(&bytes),
        Ok((Performative::Attach(Box::new(attach)), bytes.len()))
    );
}

#[test]
fn lists_change_to_the_long_form_above_a_size_byte() {
    for len in (200..270).chain([65_535, 65_536]) {
        let open = Open {
            container_id: Str::from("c".repeat(len)),
            ..Open::default()
        };
        let performative = Performative::Open(Box::new(open));
        let bytes = encode(&performative);
        assert_eq!(
            Performative::decode(&bytes),
            Ok((performative, bytes.len())),
            "length {len}"
        );
        // container-id, null, 5 of max-frame-size, 3 of channel-max
        let content = if len <= 255 { 2 + len } else { 5 + len } + 1 + 5 + 3;
        assert_eq!(
            bytes[3],
            if content < 255 { 0xc0 } else { 0xd0 },
            "length {len}"
        );
    }
}

#[test]
fn sasl_frames_are_read_and_written() {
    let (_, body) = frame_body("0000001c02010000005341c00f02a309414e4f4e594d4f5553a00161");
    let init = SaslInit {
        mechanism: Symbol::from_static("ANONYMOUS"),
        initial_response: Some(Bytes::from_static(b"a")),
        hostname: None,
    };
    assert_eq!(
        SaslPerformative::decode(&body),
        Ok((SaslPerformative::Init(init), body.len()))
    );
    let (_, body) = frame_body("0000001502010000005340c00801a305504c41494e");
    let plain = SaslMechanisms {
        sasl_server_mechanisms: vec![Symbol::from_static("PLAIN")],
    };
    assert_eq!(
        SaslPerformative::decode(&body),
        Ok((SaslPerformative::Mechanisms(plain), body.len()))
    );
    let mut buf = BytesMut::new();
    SaslPerformative::Outcome(SaslOutcome {
        code: 1,
        additional_data: None,
    })
    .encode(&mut buf);
    assert_eq!(buf.freeze(), hex("005344c003015001"));
    // An AMQP performative in the SASL layer, and a frame without mechanisms.
    assert_eq!(
        SaslPerformative::decode(&hex("00531745")),
        Err(DecodeError::UnknownDescriptor(Some(0x17)))
    );
    assert_eq!(
        SaslPerformative::decode(&hex("00534045")),
        Err(DecodeError::FieldMissing("sasl-server-mechanisms"))
    );
}

/// A body among others reads as it does alone: what stands around it is out of reach, and positions count from the
/// front of the buffer.
#[test]
fn a_body_within_a_buffer_is_read_as_one_of_its_own() {
    let bodies = [
        "005310c00501a1026331",
        "005314c007044343a0010043005375a00568656c6c6f",
        // disposition with a rejected state: the condition is a slice of the buffer
        "005315c0230541434041005325c0190100531dc01301a310616d71703a6e6f742d616c6c6f776564",
        // attach: name, handle, role
        "005312c00703a10273314341",
    ];
    for body in bodies {
        let body = hex(body);
        let alone = Performative::decode(&body);
        assert!(alone.is_ok(), "{body:02x?}: {alone:?}");
        for (before, behind) in [("", ""), ("4141", ""), ("", "4141"), ("005310", "0053")] {
            let (before, behind) = (hex(before), hex(behind));
            let buffer: Bytes = [&before[..], &body, &behind].concat().into();
            let (start, end) = (before.len(), before.len() + body.len());
            let within = Performative::decode_within(&buffer, start..end);
            assert_eq!(
                within,
                alone
                    .clone()
                    .map(|(performative, used)| (performative, start + used))
            );
            for cut in 0..body.len() {
                let short = Performative::decode(&body.slice(..cut));
                let within = Performative::decode_within(&buffer, start..start + cut);
                assert_eq!(within.is_err(), short.is_err());
            }
        }
    }
    let body = hex(bodies[0]);
    let beyond = Performative::decode_within(&body, 3..1_000);
    assert!(beyond.is_err());
    let reversed = Performative::decode_within(&body, body.len()..0);
    assert_eq!(reversed, Err(DecodeError::Truncated));
}
