//! What `qqctl` asks for: every command line that is documented, and the bodies of its requests.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of a binary has sockets, threads and processes"
)]

mod common;

use common::{Server, err, run};
use serde_json::{Value, json};

const QUEUE: &str = r#"{"name":"orders","depth":12,"in_flight":3,"bytes":2048,"consumer_count":1,
    "producer_count":0,"durable":true,"state":"running","purged":7,"routed":true,"closed":true}"#;

/// A command line, and the request that it makes.
type Line = (&'static [&'static str], &'static str, &'static str);

/// What the broker's documentation shows, word by word, and all the rest.
const LINES: &[Line] = &[
    (
        &["queue", "create", "orders", "--durable"],
        "PUT",
        "/api/v1/queues/orders",
    ),
    (&["queue", "get", "orders"], "GET", "/api/v1/queues/orders"),
    (
        &["queue", "delete", "orders"],
        "DELETE",
        "/api/v1/queues/orders?delete=true",
    ),
    (
        &["queue", "delete", "orders", "--force"],
        "DELETE",
        "/api/v1/queues/orders?delete=true",
    ),
    (
        &["queue", "delete", "a/b", "--if-empty"],
        "DELETE",
        "/api/v1/queues/a%2Fb?delete=true&if_empty=true",
    ),
    (
        &["queue", "purge", "orders", "--force"],
        "POST",
        "/api/v1/queues/orders/purge",
    ),
    (
        &[
            "queue",
            "publish",
            "my-exchange",
            "--message",
            "Hello",
            "--routing-key",
            "test-key",
        ],
        "POST",
        "/api/v1/publish",
    ),
    (
        &[
            "exchange",
            "create",
            "orders-ex",
            "--exchange-type",
            "direct",
            "--durable",
        ],
        "PUT",
        "/api/v1/exchanges/orders-ex",
    ),
    (
        &[
            "exchange",
            "create",
            "events",
            "--exchange-type",
            "topic",
            "--auto-delete",
        ],
        "PUT",
        "/api/v1/exchanges/events",
    ),
    (
        &["exchange", "get", "orders-ex"],
        "GET",
        "/api/v1/exchanges/orders-ex",
    ),
    (
        &["exchange", "delete", "orders-ex", "--force"],
        "DELETE",
        "/api/v1/exchanges/orders-ex",
    ),
    (
        &[
            "exchange",
            "bind",
            "orders-ex",
            "orders",
            "--routing-key",
            "orders.*",
        ],
        "POST",
        "/api/v1/bindings",
    ),
    (
        &[
            "exchange",
            "unbind",
            "orders-ex",
            "orders",
            "--routing-key",
            "orders.*",
        ],
        "DELETE",
        "/api/v1/bindings?exchange=orders-ex&queue=orders&routing_key=orders.%2A",
    ),
    (&["broker", "status"], "GET", "/api/v1/stats"),
    (&["broker", "health"], "GET", "/api/v1/health/ready"),
    (&["broker", "stats"], "GET", "/api/v1/stats"),
    (&["broker", "stats", "--raw"], "GET", "/api/v1/stats"),
    (&["broker", "config"], "GET", "/api/v1/config"),
    (&["broker", "limits"], "GET", "/api/v1/limits"),
    (&["broker", "export"], "GET", "/api/v1/definitions"),
    (
        &["broker", "health", "--live"],
        "GET",
        "/api/v1/health/live",
    ),
    (&["cluster", "status"], "GET", "/api/v1/cluster"),
    (&["connection", "get", "7"], "GET", "/api/v1/connections/7"),
    (
        &["connection", "close", "7", "--reason", "go away"],
        "DELETE",
        "/api/v1/connections/7?reason=go%20away",
    ),
    (&["link", "why", "7-0"], "GET", "/api/v1/links/7-0"),
    (&["link", "close", "7-0"], "DELETE", "/api/v1/links/7-0"),
    (
        &["message", "why", "orders", "42"],
        "GET",
        "/api/v1/queues/orders/messages/42",
    ),
    (
        &["stream", "create", "log", "--max-age", "7d"],
        "PUT",
        "/api/v1/streams/log",
    ),
    (
        &["stream", "delete", "log"],
        "DELETE",
        "/api/v1/streams/log?delete=true",
    ),
    (
        &["schema", "get", "orders"],
        "GET",
        "/api/v1/schemas/orders",
    ),
    (
        &["schema", "delete", "orders"],
        "DELETE",
        "/api/v1/schemas/orders",
    ),
];

/// The same for lists.
const LISTS: &[Line] = &[
    (&["queue", "list"], "GET", "/api/v1/queues"),
    (&["queue", "list", "-o", "json"], "GET", "/api/v1/queues"),
    (
        &[
            "queue",
            "list",
            "--search",
            "a b",
            "--sort=-depth",
            "--limit",
            "5",
            "--offset",
            "2",
        ],
        "GET",
        "/api/v1/queues?search=a%20b&sort=-depth&limit=5&offset=2",
    ),
    (
        &["queue", "peek", "orders"],
        "GET",
        "/api/v1/queues/orders/messages?limit=10",
    ),
    (
        &["queue", "peek", "orders", "--held"],
        "GET",
        "/api/v1/queues/orders/messages?limit=10&held=true",
    ),
    (
        &["queue", "bindings", "orders"],
        "GET",
        "/api/v1/queues/orders/bindings",
    ),
    (
        &["queue", "consumers", "orders"],
        "GET",
        "/api/v1/queues/orders/consumers",
    ),
    (&["exchange", "list"], "GET", "/api/v1/exchanges"),
    (
        &["exchange", "list", "-o", "yaml"],
        "GET",
        "/api/v1/exchanges",
    ),
    (
        &["exchange", "bindings", "e"],
        "GET",
        "/api/v1/exchanges/e/bindings",
    ),
    (&["stream", "list"], "GET", "/api/v1/streams"),
    (&["schema", "list"], "GET", "/api/v1/schemas"),
    (&["connection", "list"], "GET", "/api/v1/connections"),
    (
        &["link", "list", "--queue", "orders"],
        "GET",
        "/api/v1/links?queue=orders",
    ),
    (&["user", "list"], "GET", "/api/v1/users"),
    (&["user", "tokens"], "GET", "/api/v1/tokens"),
    (&["broker", "alarms"], "GET", "/api/v1/alarms"),
];

#[test]
fn every_command_asks_for_what_it_says() {
    for (lines, body) in [(LINES, QUEUE.to_owned()), (LISTS, format!("[{QUEUE}]"))] {
        let server = Server::json(200, &body);
        for (args, method, path) in lines {
            let output = run(&server.url, args);
            assert_eq!(output.status.code(), Some(0), "{args:?}: {}", err(&output));
            assert!(!output.stdout.is_empty(), "{args:?} says nothing");
            let asked = server.asked();
            let [request] = &asked[..] else {
                panic!("{args:?}: {asked:?}")
            };
            assert_eq!(
                (request.method.as_str(), request.path.as_str()),
                (*method, *path),
                "{args:?}"
            );
        }
    }
}

/// The body of the one request that a command makes.
fn body_of(server: &Server, args: &[&str]) -> Value {
    let output = run(&server.url, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", err(&output));
    server.asked().pop().expect("a request").body
}

#[test]
fn settings_go_out_as_the_api_takes_them() {
    let server = Server::json(201, QUEUE);
    assert_eq!(body_of(&server, &["queue", "create", "q"]), json!({}));
    let args = [
        "queue",
        "create",
        "q",
        "--transient",
        "--message-ttl",
        "24h",
        "--max-bytes=1MiB",
        "--overflow",
        "drop-head",
        "--max-priority",
        "4",
        "--retry-backoff",
        "1s,1m,2",
        "--single-active-consumer",
    ];
    let expected = json!({
        "durable": false, "message_ttl_ms": 86_400_000, "max_bytes": 1_048_576, "overflow": "drop-head",
        "max_priority": 4, "retry_backoff": {"min_ms": 1_000, "max_ms": 60_000, "factor": 2},
        "single_active_consumer": true,
    });
    assert_eq!(body_of(&server, &args), expected);
    let args = [
        "exchange",
        "create",
        "e",
        "--exchange-type=topic",
        "--auto-delete",
        "--alternate-exchange",
        "alt",
    ];
    let expected =
        json!({"type": "topic", "durable": true, "auto_delete": true, "alternate_exchange": "alt"});
    assert_eq!(body_of(&server, &args), expected);
}

#[test]
fn bindings_and_messages_go_out_as_the_api_takes_them() {
    let server = Server::json(201, QUEUE);
    let args = [
        "exchange",
        "bind",
        "headers-ex",
        "my-queue",
        "--routing-key",
        "ignored",
        "--arguments",
        r#"{"format":"jpeg","size":1024}"#,
    ];
    let expected = json!({
        "exchange": "headers-ex", "queue": "my-queue", "routing_key": "ignored",
        "arguments": {"format": "jpeg", "size": 1024},
    });
    assert_eq!(body_of(&server, &args), expected);
    let args = [
        "queue",
        "publish",
        "images",
        "-m",
        "Hello",
        "--headers",
        r#"{"format":"jpeg","size":1}"#,
        "--headers",
        "by=me",
        "--priority",
        "3",
        "--transient",
    ];
    let expected = json!({
        "to": "images", "payload": "Hello", "headers": {"format": "jpeg", "size": 1, "by": "me"},
        "priority": 3, "durable": false,
    });
    assert_eq!(body_of(&server, &args), expected);
}
