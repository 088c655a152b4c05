//! JMS selectors: Jakarta Messaging 3.1, 3.8.1.

use qq_proto_amqp::types::Value;

use super::support::{is_passed, message, order, selector, symbol, text, truth, with_properties};
use crate::filter::{MessageView, SELECTOR_DEPTH_MAX, SELECTOR_LEN_MAX};
use crate::vocab::{Envelope, Message};

const TRUE: Option<bool> = Some(true);
const FALSE: Option<bool> = Some(false);
const UNKNOWN: Option<bool> = None;

fn check(cases: &[(&str, Option<bool>)]) {
    let order = order();
    for (condition, expected) in cases {
        assert_eq!(truth(selector, condition, &order), *expected, "{condition}");
    }
}

#[test]
fn literals() {
    check(&[
        ("TRUE", TRUE),
        ("false", FALSE),
        ("'it''s' = 'it''s'", TRUE),
        ("empty = ''", TRUE),
        ("57 = 57.0", TRUE),
        ("7. = 7", TRUE),
        (".5 = 0.5", TRUE),
        ("-957 = 0 - 957", TRUE),
        ("7E3 = 7000", TRUE),
        ("-57.9E2 = -5790", TRUE),
        ("62L = 62 AND 62l = 62", TRUE),
        ("0.5f = 0.5D AND 2d = 2", TRUE),
        // Integers are written as in Java.
        ("0x1F = 31 AND 0X1fL = 31", TRUE),
        ("017 = 15", TRUE),
        ("big = 18446744073709551615", TRUE),
        ("-9223372036854775808 < 0", TRUE),
        // No double lies between these two.
        ("9007199254740993 = 9007199254740992.0", FALSE),
    ]);
}

#[test]
fn names() {
    check(&[
        ("color = 'blue'", TRUE),
        ("Color IS NULL", TRUE),
        ("\"order-status\" = 'new'", TRUE),
        ("\"it's\" = 'it''s'", TRUE),
        ("absent IS NULL AND nothing IS NULL", TRUE),
        ("color IS NOT NULL", TRUE),
        ("\"TRUE\" IS NULL", TRUE),
        (
            "not_a_word IS NULL AND inner IS NULL AND $x_1 IS NULL",
            TRUE,
        ),
    ]);
}

#[test]
fn three_truth_values() {
    check(&[
        ("absent = 1", UNKNOWN),
        ("absent <> 1", UNKNOWN),
        ("absent = absent", UNKNOWN),
        ("NOT absent = 1", UNKNOWN),
        ("absent = 1 AND FALSE", FALSE),
        ("FALSE AND absent = 1", FALSE),
        ("absent = 1 AND TRUE", UNKNOWN),
        ("absent = 1 OR TRUE", TRUE),
        ("absent = 1 OR FALSE", UNKNOWN),
        ("absent = 1 OR absent = 2", UNKNOWN),
        ("absent", UNKNOWN),
        ("paid", TRUE),
        ("NOT paid", FALSE),
        ("color", UNKNOWN),
        ("absent IN ('a')", UNKNOWN),
        ("absent NOT IN ('a')", UNKNOWN),
        ("absent LIKE '%'", UNKNOWN),
        ("absent BETWEEN 1 AND 2", UNKNOWN),
        ("weight BETWEEN absent AND 1", FALSE),
        ("weight BETWEEN absent AND 9999", UNKNOWN),
        ("absent + 1 = 1", UNKNOWN),
    ]);
}

#[test]
fn comparisons() {
    check(&[
        ("weight > 2499", TRUE),
        ("weight >= 2500 AND weight <= 2500", TRUE),
        ("weight < 2500", FALSE),
        ("count = 3 AND count <> 4", TRUE),
        ("price = 9.5 AND price > 9", TRUE),
        ("color <> 'red'", TRUE),
        ("paid = TRUE AND paid <> FALSE", TRUE),
        // Unlike kinds are never true, nor is an order of what has none.
        ("color = 1", FALSE),
        ("color <> 1", FALSE),
        ("paid = 'true'", FALSE),
        ("color > 'a'", FALSE),
        ("color < 'z'", FALSE),
        ("paid > FALSE", FALSE),
        ("(weight > 1) = TRUE", TRUE),
        ("(absent = 1) = TRUE", UNKNOWN),
    ]);
}

#[test]
fn arithmetic() {
    check(&[
        ("weight + 1 = 2501", TRUE),
        ("1 + 2 * 3 = 7", TRUE),
        ("(1 + 2) * 3 = 9", TRUE),
        ("10 - 3 - 2 = 5", TRUE),
        ("100 / 10 / 5 = 2", TRUE),
        ("7 / 2 = 3 AND -7 / 2 = -3", TRUE),
        ("7 / 2.0 = 3.5", TRUE),
        ("- - 3 = 3 AND -(1 + 2) = -3 AND +3 = 3", TRUE),
        ("2 * -3 = -6", TRUE),
        (
            "price * 2 = 19 AND price - 0.5 = 9 AND price + 0.5 = 10",
            TRUE,
        ),
        ("10 - price = 0.5 AND price / 2 = 4.75", TRUE),
        ("1 / 0 = 1", UNKNOWN),
        ("1.0 / 0 = 1", UNKNOWN),
        ("color + 1 = 2", UNKNOWN),
        ("-color = 2", UNKNOWN),
        ("+color = 'blue'", UNKNOWN),
        // Larger than every integer of the wire, and still exact.
        ("big * 2 > big AND big + 1 <> big", TRUE),
    ]);
    let huge = vec!["big"; 20].join(" * ");
    check(&[(&format!("{huge} > 0"), UNKNOWN)]);
}

#[test]
fn between_in_like() {
    check(&[
        ("weight BETWEEN 2500 AND 2500", TRUE),
        ("weight BETWEEN 2501 AND 3000", FALSE),
        ("weight NOT BETWEEN 2501 AND 3000", TRUE),
        ("weight BETWEEN 1 + 1 AND 2 * 2000 AND paid", TRUE),
        ("color IN ('red', 'blue')", TRUE),
        ("color IN ('red')", FALSE),
        ("color NOT IN ('red')", TRUE),
        ("weight IN (1, 2500.0, -3)", TRUE),
        ("color IN (1, TRUE)", FALSE),
        ("color LIKE 'bl%'", TRUE),
        ("color LIKE '%l_e'", TRUE),
        ("color LIKE 'bl'", FALSE),
        ("color NOT LIKE 'r%'", TRUE),
        ("empty LIKE '%' AND empty LIKE ''", TRUE),
        ("empty LIKE '_'", FALSE),
        ("under_score LIKE '\\_%\\%' ESCAPE '\\'", TRUE),
        ("color LIKE '\\_%' ESCAPE '\\'", FALSE),
        ("weight LIKE '25%'", UNKNOWN),
    ]);
}

#[test]
fn operators_bind_as_in_sql() {
    check(&[
        ("TRUE OR FALSE AND FALSE", TRUE),
        ("(TRUE OR FALSE) AND FALSE", FALSE),
        ("NOT FALSE AND FALSE", FALSE),
        ("NOT (FALSE AND FALSE)", TRUE),
        ("NOT NOT TRUE", TRUE),
        ("NOT weight = 1", TRUE),
        ("tRuE aNd NoT fAlSe", TRUE),
        ("weight=2500 AND(1<2)", TRUE),
    ]);
}

/// A message with every field of the properties.
fn full() -> Message {
    let properties = Value::List(vec![
        text("ID:1"),
        Value::Binary(bytes::Bytes::from_static(b"guest")),
        text("orders"),
        text("type"),
        text("answers"),
        text("corr"),
        symbol("text/plain"),
        Value::Null,
        Value::Timestamp(2_000),
        Value::Timestamp(1_000),
        text("group"),
        Value::Uint(7),
        text("back"),
    ]);
    let envelope = Envelope {
        durable: true,
        priority: 6,
        ttl_ms: Some(500),
        expires_at_ms: Some(2_000),
        to: Some("orders".into()),
        subject: Some("type".into()),
        group_id: Some("group".into()),
        ..Envelope::default()
    };
    message(envelope, &[(0x73, properties), super::support::data()])
}

#[test]
fn jms_names_mean_standard_fields() {
    let message = full();
    for condition in [
        "JMSMessageID = 'ID:1'",
        "JMSTimestamp = 1000",
        "JMSCorrelationID = 'corr'",
        "JMSReplyTo = 'answers'",
        "JMSDestination = 'orders'",
        "JMSExpiration = 2000",
        "JMSPriority = 6",
        "JMSType = 'type'",
        "JMSXUserID = 'guest'",
        "JMSXGroupID = 'group'",
        "JMSXGroupSeq = 7",
        "JMSDeliveryMode = 'PERSISTENT'",
        "NOT JMSRedelivered",
        "JMSXDeliveryCount = 1",
        "amqp.message_id = 'ID:1' AND amqp.creation_time = 1000",
        "amqp.correlation_id = 'corr' AND amqp.reply_to = 'answers'",
        "amqp.to = 'orders' AND amqp.subject = 'type'",
        "amqp.content_type = 'text/plain' AND amqp.content_encoding IS NULL",
        "amqp.absolute_expiry_time = 2000 AND amqp.user_id = 'guest'",
        "amqp.group_id = 'group' AND amqp.group_sequence = 7",
        "amqp.reply_to_group_id = 'back'",
        "amqp.durable AND amqp.priority = 6 AND amqp.ttl = 500",
        "amqp.first_acquirer AND amqp.delivery_count = 0",
        "amqp.other IS NULL AND JMSOther IS NULL",
    ] {
        assert_eq!(truth(selector, condition, &message), TRUE, "{condition}");
    }
}

#[test]
fn jms_names_know_attempts_and_defaults() {
    let message = full();
    let again = MessageView::new(&message, 0).attempted(2, false);
    for condition in [
        "JMSRedelivered",
        "JMSXDeliveryCount = 3",
        "NOT amqp.first_acquirer",
    ] {
        let filter = selector(condition).expect(condition);
        assert!(filter.is_passed(&again), "{condition}");
    }
    let plain = with_properties(&[]);
    assert_eq!(
        truth(selector, "JMSPriority = 4 AND JMSType IS NULL", &plain),
        TRUE
    );
    let volatile = Message {
        envelope: Envelope::default(),
        ..plain
    };
    assert_eq!(
        truth(selector, "JMSDeliveryMode = 'NON_PERSISTENT'", &volatile),
        TRUE
    );
}

/// Where the error is.
fn column(text: &str) -> usize {
    let error = selector(text).expect_err(text);
    assert!(!error.text.is_empty());
    error.column.expect("selectors have text")
}

#[test]
fn errors_say_where() {
    for (text, at) in [
        ("", 1),
        ("a =", 4),
        ("a = 1 b", 7),
        ("a = = 1", 5),
        ("a = 1 = 1", 7),
        ("(a = 1", 7),
        ("a = 1)", 6),
        ("a = 'x", 5),
        ("é = 'x", 5),
        ("a = \"x", 5),
        ("a = \"\"", 5),
        ("a IN ()", 7),
        ("a IN (b)", 7),
        ("a IN (-'x')", 8),
        ("a IN ('x' 'y')", 11),
        ("a BETWEEN 1", 12),
        ("a BETWEEN 1 OR 2", 13),
        ("a LIKE b", 8),
        ("a LIKE 'x' ESCAPE 'yz'", 19),
        ("a LIKE 'x!' ESCAPE '!'", 8),
        ("a NOT 1", 7),
        ("a IS 1", 6),
        ("1 IS NULL", 10),
        ("a = NULL", 5),
        ("AND", 1),
        ("a AND", 6),
        ("a = 99999999999999999999", 5),
        ("a = 08", 5),
        ("a = 1e", 5),
        ("a = 0x", 5),
        ("a != 1", 3),
        ("a % 2 = 0", 3),
        ("a ; b", 3),
        ("[a] = 1", 1),
        ("UTC() > 1", 4),
        ("a. = 1", 1),
        ("weight=2500AND 1<2", 8),
    ] {
        assert_eq!(column(text), at, "{text}");
    }
    let shown = selector("a = = 1").expect_err("wrong").to_string();
    assert!(shown.starts_with("at character 5: "), "{shown}");
}

#[test]
fn length_and_depth_are_bounded() {
    let nested = |depth: usize| format!("{}paid{}", "(".repeat(depth), ")".repeat(depth));
    assert!(is_passed(
        &selector(&nested(SELECTOR_DEPTH_MAX)).expect("just so deep"),
        &order()
    ));
    for too_deep in [
        nested(SELECTOR_DEPTH_MAX + 1),
        format!("{}paid", "NOT ".repeat(SELECTOR_DEPTH_MAX + 1)),
        format!("{}1 = 1", "- ".repeat(SELECTOR_DEPTH_MAX + 1)),
        nested(SELECTOR_LEN_MAX / 2 - 4),
    ] {
        let error = selector(&too_deep).expect_err("too deep");
        assert!(error.text.contains("nested"), "{error}");
    }
    // Long chains are not deep.
    let chain = vec!["count = 4"; SELECTOR_LEN_MAX / 13 - 1].join(" OR ");
    check(&[(chain.as_str(), FALSE)]);
    let error = selector(&" ".repeat(SELECTOR_LEN_MAX + 1)).expect_err("too long");
    assert!(error.text.contains("bytes"), "{error}");
}
