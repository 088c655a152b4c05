//! SQL of the AMQP filter expressions draft: what differs from JMS selectors.

use qq_proto_amqp::types::Value;

use super::support::{NOW_MS, data, message, order, sql, symbol, text, truth};
use crate::vocab::Envelope;

#[test]
fn literals_and_names_differ_from_jms() {
    let order = order();
    for (condition, expected) in [
        ("color = \"blue\"", Some(true)),
        ("[order-status] = 'new'", Some(true)),
        ("color != 'red'", Some(true)),
        ("a.color = 'blue'", Some(true)),
        ("application_properties.color = 'blue'", Some(true)),
        ("a.[it's] = 'it''s'", Some(true)),
        ("count % 2 = 1", Some(true)),
        ("count % 0 = 1", None),
        ("count % 1.2 = 1", None),
        ("010 = 10", Some(true)),
        // Texts have an order here.
        ("color > 'blu' AND color < 'c'", Some(true)),
        ("color BETWEEN 'a' AND 'c'", Some(true)),
        ("color > 1", Some(false)),
        ("color = 0x626C7565", Some(true)),
        ("color = 0x626c75", Some(false)),
        ("0x01 < 0x0100", Some(true)),
        ("header.priority = 4 AND h.durable", Some(true)),
        ("p.subject IS NULL", Some(true)),
        ("m.[x-opt-a] IS NULL AND f.x IS NULL", Some(true)),
    ] {
        assert_eq!(truth(sql, condition, &order), expected, "{condition}");
    }
}

#[test]
fn functions() {
    let order = order();
    for (condition, expected) in [
        ("EXISTS(color) AND NOT EXISTS(absent)", Some(true)),
        ("EXISTS(nothing)", Some(false)),
        ("EXISTS(p.subject)", Some(false)),
        ("exists(a.color)", Some(true)),
        (
            "UPPER(color) = 'BLUE' AND LOWER('BLUE') = color",
            Some(true),
        ),
        ("UPPER(color) = UPPER('Blue')", Some(true)),
        ("UPPER(weight) = '1'", None),
        (
            "LEFT(color, 2) = 'bl' AND RIGHT(color, 2) = 'ue'",
            Some(true),
        ),
        (
            "LEFT(color, 9) = color AND RIGHT(color, 9) = color",
            Some(true),
        ),
        ("LEFT(color, 0) = ''", Some(true)),
        ("LEFT(color, -1) = ''", None),
        ("SUBSTRING(color, 2) = 'lue'", Some(true)),
        ("SUBSTRING(color, 2, 2) = 'lu'", Some(true)),
        ("SUBSTRING(color, 9) = ''", Some(true)),
        ("SUBSTRING(color, 0) = 'x'", None),
        ("SUBSTRING(color, 1, -1) = 'x'", None),
        (
            "LEFT('é☀x', 2) = 'é☀' AND RIGHT('é☀x', 2) = '☀x'",
            Some(true),
        ),
        ("SUBSTRING('é☀x', 2, 1) = '☀'", Some(true)),
        ("LEFT(color, count) LIKE 'b_u'", Some(true)),
    ] {
        assert_eq!(truth(sql, condition, &order), expected, "{condition}");
    }
    let now = format!("UTC() = {NOW_MS} AND utc() - 3600000 < {NOW_MS}");
    assert_eq!(truth(sql, &now, &order), Some(true));
}

#[test]
fn sections() {
    let annotations = Value::Map(vec![(symbol("x-opt-a"), Value::Long(-3))]);
    let properties = Value::List(vec![
        Value::Ulong(12_345),
        Value::Binary(bytes::Bytes::from_static(b"Bob")),
        Value::Null,
        text("Order.1"),
    ]);
    let footer = Value::Map(vec![(symbol("x-sum"), Value::Uint(9))]);
    let envelope = Envelope {
        subject: Some("Order.1".into()),
        ..Envelope::default()
    };
    let message = message(
        envelope,
        &[
            (0x72, annotations),
            (0x73, properties),
            data(),
            data(),
            (0x78, footer),
        ],
    );
    for condition in [
        "properties.message_id = 12345",
        "p.[message-id] = 12345",
        "p.user_id = 0x426F62 AND p.user_id = 'Bob'",
        "p.subject LIKE 'Order%'",
        "p.correlation_id IS NULL AND p.reply_to_group_id IS NULL",
        "message_annotations.[x-opt-a] = -3 AND m.[x-opt-a] + 3 = 0",
        "footer.[x-sum] = 9",
        "color IS NULL",
    ] {
        assert_eq!(truth(sql, condition, &message), Some(true), "{condition}");
    }
}

#[test]
fn errors_say_where() {
    for (text, at) in [
        ("p.nothing = 1", 1),
        ("1 = header.nothing", 5),
        ("x.y = 1", 1),
        ("d.x = 1", 1),
        ("delivery_annotations.x = 1", 1),
        ("p. = 1", 1),
        ("[] = 1", 1),
        ("[a = 1", 1),
        ("0x1 = 1", 1),
        ("0x = 1", 1),
        ("DATE('x') = 1", 1),
        ("UTC( = 1", 6),
        ("LEFT('x') = 1", 9),
        ("LEFT('x', 1, 2) = 1", 12),
        ("EXISTS(1)", 8),
        ("[UTC]() = 1", 6),
        ("017x = 1", 1),
    ] {
        let error = sql(text).expect_err(text);
        assert_eq!(error.column, Some(at), "{text}: {error}");
    }
}
