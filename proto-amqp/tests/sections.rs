//! Messages made by hand against part 3, 3.2.

mod support;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use qq_proto_amqp::section::{
    Body, BodyKind, Header, Properties, SECTIONS_MAX, SectionError, Sections,
    encode_message_annotations, find_in_map,
};
use qq_proto_amqp::types::{DecodeError, Str, Symbol, Value};
use support::{any_value, encode, hex, nested_lists, sym, text};

const BODY: &str = "005375a00178";

fn scan(digits: &str) -> Result<Sections, SectionError> {
    Sections::scan(&hex(digits))
}

/// Everything that a broker checks of a message.
fn check(digits: &str) -> Result<(), SectionError> {
    let message = hex(digits);
    let sections = Sections::scan(&message)?;
    sections.header(&message)?;
    sections.properties(&message)?;
    sections.check_annotations(&message)
}

#[test]
fn me_01_a_message_without_a_body_is_an_error_of_its_own() {
    for digits in ["", "00537345", "005370c00201 41005374c10100"] {
        assert_eq!(scan(digits), Err(SectionError::NoBody), "{digits}");
    }
}

#[test]
fn me_02_every_kind_of_body_is_found_with_its_count() {
    for (digits, kind, count) in [
        ("005375a0026162005375a0026364", BodyKind::Data, 2),
        ("005376c003015201005376c003015202", BodyKind::Sequence, 2),
        ("00537740", BodyKind::Value, 1),
        ("005375a000", BodyKind::Data, 1),
        ("005375b000000000", BodyKind::Data, 1),
        ("00537645", BodyKind::Sequence, 1),
        // A described value in a value section.
        ("00537700a3017840", BodyKind::Value, 1),
    ] {
        let sections = scan(digits).expect("legal");
        assert_eq!(
            sections.body,
            Body {
                kind,
                count,
                range: 0..digits.len() / 2
            },
            "{digits}"
        );
        assert_eq!(sections.kept_from(), 0);
    }
}

#[test]
fn me_03_all_sections_may_be_there_and_empty() {
    let digits = "005370c00402405004005371c10100005372c10100005373c007034040a1027131005374c10100005377a10568656c6c6f\
                  005378c10100";
    let message = hex(digits);
    let sections = Sections::scan(&message).expect("legal");
    let start = |range: &Option<qq_proto_amqp::section::SectionRange>| {
        range.as_ref().map(|range| range.start)
    };
    assert_eq!(start(&sections.header), Some(0));
    assert_eq!(start(&sections.delivery_annotations), Some(9));
    assert_eq!(start(&sections.message_annotations), Some(15));
    assert_eq!(start(&sections.properties), Some(21));
    assert_eq!(start(&sections.application_properties), Some(33));
    assert_eq!(
        sections.body,
        Body {
            kind: BodyKind::Value,
            count: 1,
            range: 39..49
        }
    );
    assert_eq!(start(&sections.footer), Some(49));
    assert_eq!(sections.kept_from(), 15);
    let annotations = sections.message_annotations.clone().expect("there");
    assert_eq!((annotations.value.clone(), annotations.end()), (18..21, 21));
    let header = sections.header(&message).expect("legal").expect("there");
    assert_eq!(
        header,
        Header {
            priority: Some(4),
            ..Header::default()
        }
    );
    let properties = sections
        .properties(&message)
        .expect("legal")
        .expect("there");
    assert_eq!(
        properties,
        Properties {
            to: Some(text("q1")),
            ..Properties::default()
        }
    );
    assert_eq!(sections.check_annotations(&message), Ok(()));
}

#[test]
fn me_05_keys_of_annotations_follow_their_rules() {
    let with_body = |digits: &str| check(&[digits, BODY].concat());
    let reserved = with_body("005372c10802a3026161a10176").expect_err("reserved");
    assert_eq!(
        reserved,
        SectionError::ReservedKey(Symbol::from_static("aa"))
    );
    assert!(reserved.is_not_implemented());
    assert!(
        reserved.to_string().contains("aa"),
        "the text names the key"
    );
    let number = with_body("005372c106025309a10176").expect_err("reserved");
    assert_eq!(number, SectionError::ReservedNumber(9));
    assert!(number.is_not_implemented());
    let string = with_body("005372c10d02a107782d6f70742d61a10176").expect_err("a string");
    assert_eq!(string, SectionError::KeyType("message-annotations"));
    assert!(!string.is_not_implemented());
    assert_eq!(with_body("005372c10d02a307782d6f70742d61a10176"), Ok(()));
    // Delivery annotations and the footer alike.
    assert!(with_body("005371c10802a3026161a10176").is_err());
    assert!(check(&[BODY, "005378c10802a3026161a10176"].concat()).is_err());
}

#[test]
fn me_08_fields_of_the_header_have_one_type_each() {
    let header = |digits: &str| {
        let message = hex(&[digits, BODY].concat());
        Sections::scan(&message).expect("scans").header(&message)
    };
    let wrong = |field| Err(SectionError::Decode(DecodeError::FieldType(field)));
    assert_eq!(header("005370c00402415209"), wrong("priority"));
    assert_eq!(header("005370c003015201"), wrong("durable"));
    assert_eq!(
        header("005370c00402415009"),
        Ok(Some(Header {
            durable: true,
            priority: Some(9),
            ..Header::default()
        }))
    );
    assert_eq!(header("00537045"), Ok(Some(Header::default())));
    assert_eq!(header(""), Ok(None));
}

#[test]
fn co_01_and_co_02_arrays_of_nothing_pass_through_annotations_and_bodies() {
    for array in [
        "f0000000057fffffff41",
        "e0020341",
        "e0020340",
        "e0020243",
        "e0020245",
    ] {
        let length = array.len() / 2 + 9 + 1;
        let annotations = format!("005372c1{length:02x}02a307782d6f70742d7a{array}");
        assert_eq!(check(&[&annotations, BODY].concat()), Ok(()), "{array}");
        assert_eq!(check(&["005377", array].concat()), Ok(()), "{array}");
    }
}

#[test]
fn co_06_odd_application_properties_are_refused() {
    assert_eq!(
        check(&["005374c10803a10161a1016240", BODY].concat()),
        Err(SectionError::Decode(DecodeError::OddMap))
    );
    // Equal keys go on as they are.
    assert_eq!(
        check(&["005374c10b04a101615201a101615202", BODY].concat()),
        Ok(())
    );
    assert_eq!(
        check(&["005374c10702a3016ba10176", BODY].concat()),
        Err(SectionError::KeyType("application-properties"))
    );
}

#[test]
fn co_07_descriptors_of_sections_come_in_every_form() {
    for digits in [
        "005374c10702a1016ba10176",
        "00800000000000000074c10702a1016ba10176",
        "00a31f616d71703a6170706c69636174696f6e2d70726f706572746965733a6d6170c10702a1016ba10176",
    ] {
        let message = hex(&[digits, BODY].concat());
        let sections = Sections::scan(&message).expect("legal");
        let range = sections.application_properties.expect("there");
        assert_eq!(range.end(), digits.len() / 2, "{digits}");
        assert_eq!(
            find_in_map(&message, &range, "k"),
            Ok(Some(text("v"))),
            "{digits}"
        );
        assert_eq!(find_in_map(&message, &range, "v"), Ok(None), "{digits}");
    }
    // The value section's symbol ends in a star.
    let symbol: String = "amqp:amqp-value:*"
        .bytes()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        scan(&["00a311", &symbol, "40"].concat())
            .expect("legal")
            .body
            .kind,
        BodyKind::Value
    );
}

#[test]
fn co_09_ids_keep_their_type() {
    for (id, value) in [
        ("5307", Value::Ulong(7)),
        ("808000000000000001", Value::Ulong((1 << 63) + 1)),
        (
            "98000102030405060708090a0b0c0d0e0f",
            Value::Uuid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
        ),
        (
            "a0030001ff",
            Value::Binary(Bytes::from_static(&[0, 1, 255])),
        ),
    ] {
        // message-id, four nulls, correlation-id
        let content = id.len() + 4;
        let digits = format!("005373c0{:02x}06{id}40404040{id}{BODY}", content + 1);
        let message = hex(&digits);
        let properties = Sections::scan(&message)
            .expect("scans")
            .properties(&message)
            .expect("legal")
            .expect("there");
        assert_eq!(
            (&properties.message_id, &properties.correlation_id),
            (&Some(value.clone()), &Some(value))
        );
        let mut buf = BytesMut::new();
        properties.encode(&mut buf);
        assert_eq!(
            buf.freeze(),
            message.slice(..message.len() - 6),
            "written as it came"
        );
    }
    let message = hex(&["005373c0020141", BODY].concat());
    assert_eq!(
        Sections::scan(&message)
            .expect("scans")
            .properties(&message),
        Err(SectionError::Decode(DecodeError::FieldType("message-id")))
    );
}

#[test]
fn co_10_a_deep_body_is_passed_by_its_size() {
    let message: Bytes = [&[0x00, 0x53, 0x77][..], &nested_lists(5_000)]
        .concat()
        .into();
    assert!(message.len() > 40_000);
    let sections = Sections::scan(&message).expect("opaque");
    assert_eq!(
        sections.body,
        Body {
            kind: BodyKind::Value,
            count: 1,
            range: 0..message.len()
        }
    );
}

#[test]
fn co_12_extreme_expiry_times_are_read_bit_by_bit() {
    for (digits, time) in [
        ("837fffffffffffffff", i64::MAX),
        ("838000000000000000", i64::MIN),
    ] {
        let message = hex(&["005373c01b0a4040404040404040", digits, digits, BODY].concat());
        let properties = Sections::scan(&message)
            .expect("scans")
            .properties(&message)
            .expect("legal")
            .expect("there");
        assert_eq!(
            (properties.absolute_expiry_time, properties.creation_time),
            (Some(time), Some(time))
        );
    }
}

#[test]
fn order_and_multiplicity_are_checked() {
    let header = "00537045";
    let notes = "005372c10100";
    let properties = "00537345";
    let sequence = "00537645";
    let value = "00537740";
    let footer = "005378c10100";
    for (parts, error) in [
        (vec![header, header, BODY], SectionError::Repeated("header")),
        (
            vec![notes, header, BODY],
            SectionError::OutOfOrder("header"),
        ),
        (
            vec![notes, properties, notes, BODY],
            SectionError::Repeated("message-annotations"),
        ),
        (
            vec![BODY, properties],
            SectionError::OutOfOrder("properties"),
        ),
        (vec![footer, BODY], SectionError::OutOfOrder("data")),
        (vec![BODY, footer, BODY], SectionError::OutOfOrder("data")),
        (vec![BODY, footer, footer], SectionError::Repeated("footer")),
        (vec![BODY, sequence], SectionError::MixedBody),
        (vec![sequence, BODY], SectionError::MixedBody),
        (vec![value, value], SectionError::Repeated("amqp-value")),
        (vec![value, BODY], SectionError::MixedBody),
        (vec![footer], SectionError::NoBody),
        (vec![BODY, "40"], SectionError::NotASection),
        (
            vec![BODY, "00537940"],
            SectionError::UnknownSection(Some(0x79)),
        ),
        (vec![BODY, "00a3017840"], SectionError::UnknownSection(None)),
        (vec!["005375a10178"], SectionError::WrongType("data")),
        (
            vec!["005376c10100"],
            SectionError::WrongType("amqp-sequence"),
        ),
        (
            vec!["00537245", BODY],
            SectionError::WrongType("message-annotations"),
        ),
        (
            vec!["00537240", BODY],
            SectionError::WrongType("message-annotations"),
        ),
    ] {
        assert_eq!(scan(&parts.concat()), Err(error), "{parts:?}");
    }
}

#[test]
fn sections_have_a_bound() {
    let at_bound = BODY.repeat(SECTIONS_MAX as usize);
    assert_eq!(
        scan(&at_bound).expect("at the bound").body.count,
        SECTIONS_MAX
    );
    assert_eq!(
        scan(&[&at_bound, BODY].concat()),
        Err(SectionError::TooManySections)
    );
}

#[test]
fn heads_are_written_as_the_standard_says() {
    let mut buf = BytesMut::new();
    let header = Header {
        durable: true,
        priority: Some(9),
        ttl: Some(1_000),
        first_acquirer: true,
        delivery_count: 3,
    };
    header.encode(&mut buf);
    encode_message_annotations(&vec![(sym("x-a"), text("v"))], &mut buf);
    assert_eq!(
        buf.freeze(),
        hex("005370c00c0541500970000003e8415203 005372c10902a303782d61a10176")
    );
    let mut buf = BytesMut::new();
    Header::default().encode(&mut buf);
    assert_eq!(buf.freeze(), hex("00537045"));
}

proptest! {
    #[test]
    fn cuts_between_sections_are_found_where_they_were_made(
        notes in prop::collection::vec(any_value(), 0..3),
        subject in "[a-z]{0,300}",
        body in any_value(),
    ) {
        let notes = notes.into_iter().map(|value| (sym("x-n"), value)).collect();
        let mut buf = BytesMut::new();
        Header { durable: true, ..Header::default() }.encode(&mut buf);
        let notes_start = buf.len();
        encode_message_annotations(&notes, &mut buf);
        let properties_start = buf.len();
        let properties = Properties { subject: Some(Str::from(subject)), ..Properties::default() };
        properties.encode(&mut buf);
        let body_start = buf.len();
        buf.extend_from_slice(&[0x00, 0x53, 0x77]);
        body.encode(&mut buf);
        let message = buf.freeze();
        let sections = Sections::scan(&message).expect("legal");
        prop_assert_eq!(sections.kept_from(), notes_start);
        let range = sections.message_annotations.clone().expect("there");
        prop_assert_eq!((range.start, range.end()), (notes_start, properties_start));
        prop_assert_eq!(&message[range.value.clone()], &encode(&Value::Map(notes))[..]);
        prop_assert_eq!(sections.properties(&message), Ok(Some(properties)));
        prop_assert_eq!(&sections.body.range, &(body_start..message.len()));
        prop_assert_eq!(sections.check_annotations(&message), Ok(()));
        // Whatever is cut off is missed.
        for len in body_start..message.len() {
            prop_assert!(Sections::scan(&message.slice(..len)).is_err(), "cut to {}", len);
        }
    }

    #[test]
    fn no_bytes_harm(bytes in prop::collection::vec(any::<u8>(), 0..48), section in 0x70..0x79_u8) {
        let message: Bytes = [&[0x00, 0x53, section][..], &bytes].concat().into();
        if let Ok(sections) = Sections::scan(&message) {
            let _ = sections.header(&message);
            let _ = sections.properties(&message);
            let _ = sections.check_annotations(&message);
            prop_assert!(sections.body.range.end <= message.len());
        }
    }
}
