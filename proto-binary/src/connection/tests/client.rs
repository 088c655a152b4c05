//! The client's half, against a server machine or against written frames.

use std::collections::VecDeque;
use std::time::Duration;
use std::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::{Pair, hex, published};
use crate::connection::{
    Auth, CloseReason, Config, Connection, Delivery, Event, RequestId, Side, UsageError, Violation,
};
use crate::error::{ErrorCode, text};
use crate::frame::Layout;
use crate::message::{
    AckRequest, CallRequest, CallResponse, ConsumeRequest, ConsumerClosed, ErrorResponse,
    ExtendVisibilityRequest, PingRequest, PingResponse, PublishRequest, QueueListResponse,
};
use crate::reply::Reply;
use crate::request::Request;
use crate::stored::{self, Parts, Stored};

fn publish() -> Request {
    Request::Publish(std::boxed::Box::new(PublishRequest {
        queue: "q1".into(),
        payload: Bytes::from_static(b"hi"),
        ..PublishRequest::default()
    }))
}

fn ack() -> Request {
    Request::Ack(AckRequest {
        message_id: "m-1".into(),
        ..AckRequest::default()
    })
}

fn not_found() -> ErrorResponse {
    ErrorResponse {
        code: 4,
        message: text::MESSAGE_NOT_FOUND.into(),
    }
}

/// A client in a layout, and a way to hand it frames.
fn client(layout: Layout) -> Connection {
    let config = Config {
        layout,
        ..Config::default()
    };
    let mut client = Connection::new(Side::Client, config, Duration::ZERO);
    assert_eq!(client.poll_event(), Some(Event::Opened));
    client
}

fn feed(client: &mut Connection, text: &str) -> Vec<Event> {
    let mut input = BytesMut::from(&hex(text)[..]);
    client.handle_input(Duration::ZERO, &mut input);
    core::iter::from_fn(|| client.poll_event()).collect()
}

#[test]
fn a_request_and_its_answer_in_both_layouts() {
    for layout in [Layout::Documented, Layout::Versioned] {
        let mut pair = Pair::with_layout(layout);
        assert_eq!(pair.client_events(), [Event::Opened]);
        let id = pair.client.request(&publish(), false).expect("it is open");
        let mut requests = pair.server_requests();
        let (reply_to, request) = requests.remove(0);
        assert_eq!(request, publish());
        pair.server
            .reply(reply_to, &published("a"))
            .expect("it waits");
        let replied = Event::Replied {
            request: id,
            reply: published("a"),
        };
        assert_eq!(pair.client_events(), [replied]);
    }
}

#[test]
fn answers_find_their_requests_in_any_order() {
    let mut pair = Pair::with_layout(Layout::Documented);
    pair.client_events();
    let call = Request::Call(std::boxed::Box::new(CallRequest {
        queue: "rpc".into(),
        ..CallRequest::default()
    }));
    let first = pair.client.request(&call, false).expect("it is open");
    let second = pair.client.request(&publish(), false).expect("it is open");
    let third = pair
        .client
        .request(&Request::QueueList, false)
        .expect("it is open");
    let mut requests = pair
        .server_requests()
        .into_iter()
        .map(|(reply_to, _)| reply_to);
    let (a, b, c) = (
        requests.next().unwrap(),
        requests.next().unwrap(),
        requests.next().unwrap(),
    );
    let list = Reply::QueueList(QueueListResponse::default());
    pair.server.reply(c, &list).expect("it waits");
    pair.server
        .refuse(b, ErrorCode::Failed, text::QUEUE_FULL)
        .expect("it waits");
    let called = Reply::Called(CallResponse {
        payload: Bytes::from_static(b"pong"),
        ..CallResponse::default()
    });
    pair.server.reply(a, &called).expect("it waits");
    let error = ErrorResponse {
        code: 3,
        message: text::QUEUE_FULL.into(),
    };
    assert_eq!(
        pair.client_events(),
        [
            Event::Replied {
                request: third,
                reply: list
            },
            Event::Refused {
                request: Some(second),
                error
            },
            Event::Replied {
                request: first,
                reply: called
            },
        ]
    );
}

#[test]
fn silent_requests_are_answered_where_that_is_asked_for() {
    let mut pair = Pair::with_layout(Layout::Documented);
    pair.client_events();
    let silent = pair.client.request(&ack(), false).expect("it is open");
    let told = pair.client.request(&ack(), true).expect("it is open");
    let refused = pair.client.request(&ack(), false).expect("it is open");
    assert_ne!(silent, told);
    let mut requests = pair
        .server_requests()
        .into_iter()
        .map(|(reply_to, _)| reply_to);
    pair.server
        .reply(requests.next().unwrap(), &Reply::Done)
        .expect("it waits");
    pair.server
        .reply(requests.next().unwrap(), &Reply::Done)
        .expect("it waits");
    pair.server
        .refuse(
            requests.next().unwrap(),
            ErrorCode::NotFound,
            text::MESSAGE_NOT_FOUND,
        )
        .expect("it waits");
    assert_eq!(
        pair.client_events(),
        [
            Event::Replied {
                request: told,
                reply: Reply::Done
            },
            Event::Refused {
                request: Some(refused),
                error: not_found()
            },
        ]
    );
    let mut versioned = client(Layout::Versioned);
    assert_eq!(
        versioned.request(&ack(), true),
        Err(UsageError::NoConfirmation)
    );
    assert!(versioned.request(&ack(), false).is_ok());
}

#[test]
fn in_the_versioned_layout_not_found_is_not_about_a_publish() {
    let mut client = client(Layout::Versioned);
    client.request(&ack(), false).expect("it is open");
    let publish = client.request(&publish(), false).expect("it is open");
    let not_found_hex = "00000017 01 07 0804 1211 6d657373616765206e6f7420666f756e64";
    assert_eq!(
        feed(&mut client, not_found_hex),
        [Event::Refused {
            request: None,
            error: not_found()
        }]
    );
    assert_eq!(
        feed(&mut client, "00000005 01 02 0a0161"),
        [Event::Replied {
            request: publish,
            reply: published("a")
        }]
    );
    // An extension may well be refused so.
    let extend = Request::ExtendVisibility(ExtendVisibilityRequest::default());
    let extend = client.request(&extend, false).expect("it is open");
    assert_eq!(
        feed(&mut client, not_found_hex),
        [Event::Refused {
            request: Some(extend),
            error: not_found()
        }]
    );
    // Nobody waits: it is about an ACK.
    assert_eq!(
        feed(&mut client, not_found_hex),
        [Event::Refused {
            request: None,
            error: not_found()
        }]
    );
}

#[test]
fn deliveries_and_the_end_of_consumers_come_as_events() {
    let mut pair = Pair::with_layout(Layout::Documented);
    pair.client_events();
    let consume = Request::Consume(ConsumeRequest {
        queue: "q1".into(),
        ..ConsumeRequest::default()
    });
    pair.client.request(&consume, false).expect("it is open");
    let (reply_to, request) = pair.server_requests().remove(0);
    assert_eq!(request, consume);
    pair.server.reply(reply_to, &Reply::Done).expect("it waits");
    let parts = Parts {
        message_id: "m-1",
        payload: b"hi",
        published_at_ms: -1,
        ..Parts::default()
    };
    let record = stored::encode(&parts, core::iter::empty());
    let stored = Stored::read(&record).expect("our own record");
    let delivery = Delivery {
        stored: &stored,
        queue: "q1",
        attempt: 1,
        delivery_id: 1,
        group: "",
    };
    pair.server.deliver(&delivery).expect("it fits");
    let closed = ConsumerClosed {
        queue: "q1".into(),
        ..ConsumerClosed::default()
    };
    pair.server.close_consumer(&closed).expect("it is open");
    let events = pair.client_events();
    let Event::Delivered(message) = &events[0] else {
        panic!("not a delivery but {events:?}");
    };
    assert_eq!(
        (message.message_id.as_str(), &message.payload[..]),
        ("m-1", &b"hi"[..])
    );
    assert_eq!((message.published_at, message.delivery_id), (-1, 1));
    assert_eq!(events[1], Event::ConsumerClosed(closed));
}

#[test]
fn a_token_is_sent_first_and_opens() {
    for layout in [Layout::Documented, Layout::Versioned] {
        let client = Config {
            layout,
            token: Some("s3cret".into()),
            ..Config::default()
        };
        let server = Config {
            auth: Auth::Required,
            ..Config::default()
        };
        let mut pair = Pair::new(client, server);
        assert_eq!(
            pair.client.request(&publish(), false),
            Err(UsageError::NotOpen)
        );
        pair.settle();
        let Some(Event::Authenticate { token }) = pair.server.poll_event() else {
            panic!("no token");
        };
        assert_eq!(token.0, "s3cret");
        pair.server.auth_outcome(true).expect("it waits");
        assert_eq!(pair.client_events(), [Event::Opened]);
        assert!(pair.client.request(&publish(), false).is_ok());
    }
}

#[test]
fn a_refused_token_is_the_end() {
    let client = Config {
        token: Some("s3cret".into()),
        ..Config::default()
    };
    let server = Config {
        auth: Auth::Required,
        ..Config::default()
    };
    let mut pair = Pair::new(client.clone(), server);
    pair.settle();
    assert!(matches!(
        pair.server.poll_event(),
        Some(Event::Authenticate { .. })
    ));
    pair.server.auth_outcome(false).expect("it waits");
    let reason = CloseReason::TokenRefused(text::TOKEN_INVALID.into());
    assert_eq!(pair.client_events(), [Event::Closed { reason }]);
    assert!(pair.client.is_done());
    // A server that knows no AUTH says so with an ERROR.
    let mut pair = Pair::new(
        client,
        Config {
            auth: Auth::Absent,
            ..Config::default()
        },
    );
    let reason = CloseReason::TokenRefused("unknown opcode".into());
    assert_eq!(pair.client_events(), [Event::Closed { reason }]);
}

#[test]
fn a_client_can_ping() {
    for layout in [Layout::Documented, Layout::Versioned] {
        let mut pair = Pair::with_layout(layout);
        pair.client_events();
        let data = Bytes::from_static(b"x");
        let ping = Request::Ping(PingRequest { data: data.clone() });
        let id = pair.client.request(&ping, false).expect("it is open");
        let reply = Reply::Pong(PingResponse { data });
        assert_eq!(
            pair.client_events(),
            [Event::Replied { request: id, reply }]
        );
    }
}

#[test]
fn answers_to_nothing_end_the_connection() {
    let unexpected = [Event::Closed {
        reason: CloseReason::Violation(Violation::UnexpectedReply),
    }];
    // PUBLISH_ACK to nobody; with a number that nobody has; a request.
    assert_eq!(
        feed(&mut client(Layout::Versioned), "00000005 01 02 0a0161"),
        unexpected
    );
    assert_eq!(
        feed(&mut client(Layout::Documented), "02 00 00000003 0a0161"),
        unexpected
    );
    assert_eq!(
        feed(
            &mut client(Layout::Documented),
            "02 01 00000003 00000063 0a0161"
        ),
        unexpected
    );
    assert_eq!(
        feed(&mut client(Layout::Documented), "01 00 00000004 0a027131"),
        unexpected
    );
    // QUEUE_LIST_RESP to a PUBLISH.
    let mut documented = client(Layout::Documented);
    assert_eq!(documented.request(&publish(), false), Ok(RequestId(0)));
    assert_eq!(feed(&mut documented, "33 01 00000000 00000000"), unexpected);
    let mut versioned = client(Layout::Versioned);
    versioned.request(&publish(), false).expect("it is open");
    assert_eq!(feed(&mut versioned, "00000002 01 33"), unexpected);
    // An answer that cannot be read.
    let mut documented = client(Layout::Documented);
    documented.request(&publish(), false).expect("it is open");
    let reason = CloseReason::Violation(Violation::ReplyUndecodable);
    assert_eq!(
        feed(&mut documented, "02 01 00000002 00000000 0a05"),
        [Event::Closed { reason }]
    );
}

#[test]
fn what_a_later_server_may_say_is_passed_over() {
    let mut documented = client(Layout::Documented);
    assert_eq!(feed(&mut documented, "7f 00 00000003 010203"), []);
    assert!(documented.is_open());
}

#[test]
fn requests_in_flight_are_bounded() {
    let config = Config {
        requests_pending_max: 2,
        ..Config::default()
    };
    let mut client = Connection::new(Side::Client, config, Duration::ZERO);
    client.request(&publish(), false).expect("the first");
    client.request(&ack(), false).expect("it waits for nothing");
    client.request(&publish(), false).expect("the second");
    assert_eq!(
        client.request(&publish(), false),
        Err(UsageError::TooManyPending)
    );
    while client.poll_event().is_some() {}
    assert_eq!(feed(&mut client, "02 01 00000003 00000000 0a0161").len(), 1);
    assert!(client.request(&publish(), false).is_ok());
}

#[test]
fn commands_of_the_other_side_are_refused() {
    let mut client = client(Layout::Documented);
    let record = stored::encode(
        &Parts {
            message_id: "m",
            ..Parts::default()
        },
        core::iter::empty(),
    );
    let stored = Stored::read(&record).expect("our own record");
    let delivery = Delivery {
        stored: &stored,
        queue: "q",
        attempt: 1,
        delivery_id: 1,
        group: "",
    };
    assert_eq!(client.deliver(&delivery), Err(UsageError::WrongSide));
    let mut server = Connection::new(Side::Server, Config::default(), Duration::ZERO);
    assert_eq!(
        server.request(&publish(), false),
        Err(UsageError::WrongSide)
    );
    assert!(server.poll_event().is_none());
}

#[test]
fn close_hands_over_what_was_said() {
    let mut client = client(Layout::Documented);
    client.request(&publish(), false).expect("it is open");
    client.close();
    assert_eq!(
        client.poll_event(),
        Some(Event::Closed {
            reason: CloseReason::Local
        })
    );
    assert!(!client.is_done());
    let mut out = VecDeque::new();
    assert!(client.poll_transmit(Duration::ZERO, &mut out, usize::MAX) > 0);
    assert!(client.is_done());
    assert_eq!(client.request(&publish(), false), Err(UsageError::NotOpen));
}
