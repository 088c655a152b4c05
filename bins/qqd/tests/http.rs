//! Management over HTTP, against the real daemon.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests own processes and sockets"
)]

mod common;

use std::io::Write;
use std::net::TcpStream;
use std::process::Stdio;

use common::api::{NULL, read_until, start};
use common::{Scratch, qqd};
use serde_json::json;

#[test]
fn a_queue_lives_from_its_declaration_to_its_deletion() {
    let scratch = Scratch::new("http-life");
    let (_daemon, api) = start(&scratch, "");
    for (encoded, name) in [
        ("a%2Fb", "a/b"),
        ("a%252Fb", "a%2Fb"),
        ("a+b", "a+b"),
        ("a%3Fb%23c", "a?b#c"),
        ("%25", "%"),
        ("%3Cimg%20src=x%3E", "<img src=x>"),
        ("%C3%BC%E4%B8%AD%F0%9F%98%80", "ü中😀"),
    ] {
        let path = format!("/api/v1/queues/{encoded}");
        let (status, queue) = api.json("PUT", &path, &json!({"max_length": 2}));
        assert_eq!((status, &queue["name"]), (201, &json!(name)));
        assert_eq!(api.json("PUT", &path, &json!({"max_length": 2})).0, 200);
        let (status, problem) = api.json("PUT", &path, &json!({"max_length": 3}));
        assert_eq!((status, &problem["field"]), (409, &json!("max_length")));
        let messages = format!("{path}/messages");
        let text = json!({"payload": name, "headers": {"n": 1}});
        for expected in [201, 201, 429] {
            assert_eq!(api.json("POST", &messages, &text).0, expected);
        }
        let (_, peeked) = api.json("GET", &messages, &NULL);
        assert_eq!(peeked.as_array().map(Vec::len), Some(2));
        assert_eq!(
            (&peeked[0]["headers"]["n"], &peeked[1]["position"]),
            (&json!("1"), &json!(1))
        );
        let (_, queue) = api.json("GET", &path, &NULL);
        let counts = (
            &queue["depth"],
            &queue["totals"]["published"],
            &queue["totals"]["refused"],
        );
        assert_eq!(counts, (&json!(2), &json!(2), &json!(1)));
        let refused = format!("{path}?delete=true&if_empty=true");
        assert_eq!(api.json("DELETE", &refused, &NULL).0, 409);
        assert_eq!(
            api.json("DELETE", &path, &NULL),
            (200, json!({"purged": 2}))
        );
        let delete = format!("{path}?delete=true");
        assert_eq!(api.json("DELETE", &delete, &NULL).0, 200);
        assert_eq!(api.json("DELETE", &delete, &NULL).0, 404);
        assert_eq!(api.json("GET", &path, &NULL).1["error"], "queue not found");
    }
    assert_eq!(api.json("GET", "/api/v1/queues", &NULL), (200, json!([])));
}

#[test]
fn names_that_no_interface_could_handle_are_refused() {
    let scratch = Scratch::new("http-names");
    let (_daemon, api) = start(&scratch, "");
    let long = "n".repeat(256);
    for name in ["%00", "q%0A", ".", "..", "%2E%2E", long.as_str()] {
        let (status, problem) = api.json("PUT", &format!("/api/v1/queues/{name}"), &json!({}));
        assert_eq!(status, 400, "{name}: {problem}");
    }
    assert_eq!(api.json("PUT", "/api/v1/queues/amq.x", &json!({})).0, 403);
    assert_eq!(api.json("PUT", "/api/v1/queues/%ff", &json!({})).0, 400);
}

#[test]
fn lists_are_searched_sorted_and_cut() {
    let scratch = Scratch::new("http-lists");
    let (_daemon, api) = start(&scratch, "");
    for (name, messages) in [("Beta", 2), ("alpha", 1), ("gamma", 3)] {
        api.json("PUT", &format!("/api/v1/queues/{name}"), &json!({}));
        for _ in 0..messages {
            let path = format!("/api/v1/queues/{name}/messages");
            api.json("POST", &path, &json!({"payload": "m"}));
        }
    }
    let names = |query: &str| {
        let (_, list) = api.json("GET", &format!("/api/v1/queues{query}"), &NULL);
        let list = list.as_array().cloned().unwrap_or_default();
        list.iter()
            .map(|row| row["name"].as_str().unwrap_or("?").to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["Beta", "alpha", "gamma"]);
    assert_eq!(names("?sort=-depth&limit=2"), ["gamma", "Beta"]);
    assert_eq!(names("?sort=-name&offset=1"), ["alpha", "Beta"]);
    assert_eq!(names("?search=BET"), ["Beta"]);
    for query in [
        "?serch=x",
        "?limit=0",
        "?limit=-1",
        "?sort=size",
        "?offset=99999999999999999999",
    ] {
        assert_eq!(
            api.json("GET", &format!("/api/v1/queues{query}"), &NULL).0,
            400,
            "{query}"
        );
    }
    let head = api.raw(
        format!(
            "HEAD /api/v1/queues?limit=1 HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            api.address
        )
        .as_bytes(),
    );
    assert!(
        head.contains("\r\nX-Total-Count: 3\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
}

/// What one broker exports, another one that knows nothing makes, and then exports the same.
#[test]
fn a_topology_moves_to_another_broker_with_groups_and_schemas() {
    let scratch = Scratch::new("http-moves");
    let toml = "[[queue]]\nname = \"jobs\"\ngroups = [\"billing\", \"audit\"]\n";
    let (_daemon, api) = start(&scratch, toml);
    let proto = "syntax = \"proto3\";\nmessage Job { int32 n = 1; }\n";
    let schema = json!({"message_type": "Job", "proto": proto, "compatibility": "full"});
    assert_eq!(api.json("PUT", "/api/v1/schemas/jobs", &schema).0, 201);
    let (_, exported) = api.json("GET", "/api/v1/definitions", &NULL);
    let groups = json!([{"queue": "jobs", "name": "audit"}, {"queue": "jobs", "name": "billing"}]);
    assert_eq!(exported["groups"], groups);
    let schemas = json!([{"queue": "jobs", "message_type": "Job", "proto": proto,
        "compatibility": "full", "refuse_unknown_fields": false}]);
    assert_eq!(exported["schemas"], schemas);
    let other = Scratch::new("http-moved");
    let (_daemon, api) = start(&other, "");
    for (made, kept) in [(1, 0), (0, 1)] {
        let (status, done) = api.json("POST", "/api/v1/definitions", &exported);
        assert_eq!(status, 200, "{done}");
        for (what, each) in [("queues", 1), ("groups", 2), ("schemas", 1)] {
            assert_eq!(done["created"][what], json!(made * each), "{what}");
            assert_eq!(done["unchanged"][what], json!(kept * each), "{what}");
        }
    }
    assert_eq!(api.json("GET", "/api/v1/definitions", &NULL).1, exported);
    // The schema is in effect, and both groups get what comes.
    let unfit = json!({"payload": "no message"});
    assert_eq!(
        api.json("POST", "/api/v1/queues/jobs/messages", &unfit).0,
        422
    );
    let mut wrong = exported.clone();
    wrong["schemas"][0]["message_type"] = json!("Nothing");
    assert_eq!(api.json("POST", "/api/v1/definitions", &wrong).0, 400);
    wrong["schemas"][0] = schemas[0].clone();
    wrong["schemas"][0]["compatibility"] = json!("none");
    assert_eq!(api.json("POST", "/api/v1/definitions", &wrong).0, 409);
}

#[test]
fn dead_letters_and_exchanges_are_managed() {
    let scratch = Scratch::new("http-dead");
    let (_daemon, api) = start(&scratch, "");
    api.json("PUT", "/api/v1/queues/jobs", &json!({"message_ttl_ms": 0}));
    api.json("PUT", "/api/v1/queues/other", &json!({}));
    assert_eq!(
        api.json("PUT", "/api/v1/exchanges/e", &json!({"type": "topic"}))
            .0,
        201
    );
    let binding = json!({"exchange": "e", "queue": "jobs", "routing_key": "a.*"});
    assert_eq!(api.json("POST", "/api/v1/bindings", &binding).0, 201);
    assert_eq!(api.json("POST", "/api/v1/bindings", &binding).0, 200);
    let publish = |key: &str| {
        let body = json!({"to": "e", "routing_key": key, "payload": "m"});
        api.json("POST", "/api/v1/publish", &body).1["routed"].clone()
    };
    assert_eq!((publish("a.b"), publish("b")), (json!(true), json!(false)));
    for (body, status) in [
        (
            json!({"exchange": "e", "routing_key": "b", "payload": "m"}),
            201,
        ),
        // A queue is no exchange; one of the two is meant, never both.
        (json!({"exchange": "jobs", "payload": "m"}), 404),
        (json!({"exchange": "e", "to": "e", "payload": "m"}), 400),
        (json!({"payload": "m"}), 400),
    ] {
        let answer = api.json("POST", "/api/v1/publish", &body);
        assert_eq!(answer.0, status, "{body}: {answer:?}");
    }
    let (_, dead) = api.json("GET", "/api/v1/queues/jobs/dlq", &NULL);
    assert_eq!(
        (
            &dead[0]["deaths"][0]["reason"],
            &dead[0]["deaths"][0]["queue"]
        ),
        (&json!("expired"), &json!("jobs"))
    );
    let moved = api.json(
        "POST",
        "/api/v1/queues/jobs.dlq/move",
        &json!({"to": "other"}),
    );
    assert_eq!(moved, (200, json!({"moved": 1, "left": 0})));
    assert_eq!(
        api.json("POST", "/api/v1/queues/jobs/dlq/retry", &NULL).1,
        json!({"retried": 0})
    );
    let (_, definitions) = api.json("GET", "/api/v1/definitions", &NULL);
    assert_eq!(definitions["bindings"], json!([binding]));
    let (status, done) = api.json("POST", "/api/v1/definitions", &definitions);
    assert_eq!(
        (
            status,
            &done["created"]["queues"],
            &done["unchanged"]["queues"]
        ),
        (200, &json!(0), &json!(3))
    );
    let unbind = "/api/v1/bindings?exchange=e&queue=jobs&routing_key=a.*";
    assert_eq!(api.json("DELETE", unbind, &NULL).0, 200);
    assert_eq!(api.json("DELETE", unbind, &NULL).0, 404);
    assert_eq!(
        api.json("DELETE", "/api/v1/exchanges/amq.topic", &NULL).0,
        403
    );
}

#[test]
fn who_has_no_login_gets_nothing_but_health() {
    let scratch = Scratch::new("http-login");
    let users = scratch.file("users", "ann:s3cret\n");
    let tokens = scratch.file("tokens", "# name: scraper\nt0ken\n");
    let toml = format!(
        "[auth]\nusers_file = {users:?}\ntokens_file = {tokens:?}\n[limits]\nlogin_delay_min = \"0s\"\nlogin_delay_max = \"0s\"\n"
    );
    let (_daemon, mut api) = start(&scratch, &toml);
    assert_eq!(api.call("GET", "/health/live", "").0, 200);
    for path in ["/api/v1/queues", "/metrics", "/api/v1/openapi.json"] {
        assert_eq!(api.call("GET", path, "").0, 401, "{path}");
    }
    // ann:wrong, ann:s3cret (RFC 7617: base64 of user and password).
    for (header, status) in [
        ("Basic YW5uOndyb25n", 401),
        ("Basic YW5uOnMzY3JldA==", 200),
        ("Bearer t0ken", 200),
        ("Bearer other", 401),
        ("Digest x", 400),
    ] {
        api.headers = format!("Authorization: {header}\r\n");
        assert_eq!(api.call("GET", "/api/v1/stats", "").0, status, "{header}");
    }
    api.headers = "Authorization: Bearer t0ken\r\n".to_owned();
    let (_, users) = api.json("GET", "/api/v1/users", &NULL);
    assert_eq!(users, json!([{"name": "ann"}]));
    let (_, tokens) = api.json("GET", "/api/v1/tokens", &NULL);
    assert_eq!(tokens, json!([{"name": "scraper", "line": 2}]));
}

#[test]
fn metrics_need_a_login_wherever_they_are() {
    let scratch = Scratch::new("http-metrics-path");
    let tokens = scratch.file("tokens", "t0ken\n");
    let toml = format!(
        "[auth]\ntokens_file = {tokens:?}\n[management]\nprometheus_path = \"/dashboard-metrics\"\n"
    );
    let (_daemon, mut api) = start(&scratch, &toml);
    let paths = ["/metrics", "/dashboard-metrics", "/dashboard-other"];
    for path in paths {
        assert_eq!(api.call("GET", path, "").0, 401, "{path}");
    }
    assert_eq!(api.call("GET", "/dashboard/", "").0, 200);
    api.headers = "Authorization: Bearer t0ken\r\n".to_owned();
    for (path, status) in paths.into_iter().zip([200, 200, 404]) {
        assert_eq!(api.call("GET", path, "").0, status, "{path}");
    }
}

#[test]
fn metrics_are_at_no_path_that_something_else_has() {
    for path in [
        "/health",
        "/dashboard/x",
        "/",
        "/api/v1/queues/a",
        "/api/v1/ws",
        "metrics",
        "/m?x",
    ] {
        let output = qqd()
            .env("QQ_MANAGEMENT_PROMETHEUS_PATH", path)
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{path}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("management.prometheus_path"), "{text}");
    }
}

#[test]
fn a_public_address_needs_a_login() {
    let scratch = Scratch::new("http-public");
    let config = scratch.file(
        "qqd.toml",
        "[server]\namqp_port = 0\n[management]\nbind_addr = \"0.0.0.0\"\n",
    );
    let output = qqd()
        .args(["--config", &config])
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("management.bind_addr") && text.lines().count() == 1,
        "{text}"
    );
}

#[test]
fn pages_of_other_origins_and_other_names_are_kept_out() {
    let scratch = Scratch::new("http-origin");
    let (_daemon, mut api) = start(&scratch, "");
    api.headers = "Origin: http://evil.example\r\n".to_owned();
    assert_eq!(api.call("PUT", "/api/v1/queues/q", "{}").0, 403);
    assert_eq!(api.call("GET", "/api/v1/events", "").0, 403);
    api.headers = format!("Origin: http://{}\r\n", api.address);
    assert_eq!(api.call("PUT", "/api/v1/queues/q", "{}").0, 201);
    let rebound =
        api.raw(b"GET /api/v1/queues HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(rebound.starts_with("HTTP/1.1 403 "), "{rebound}");
    let answer = api.raw(
        format!(
            "GET /api/v1/queues HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            api.address
        )
        .as_bytes(),
    );
    assert!(
        !answer.to_lowercase().contains("access-control"),
        "{answer}"
    );
    assert!(answer.contains("\r\nX-Content-Type-Options: nosniff\r\n"));
}

#[test]
fn re_04_what_follows_an_ambiguous_request_is_not_executed() {
    let scratch = Scratch::new("http-smuggle");
    let (_daemon, api) = start(&scratch, "");
    let smuggled = format!(
        "PUT /api/v1/queues/smuggled HTTP/1.1\r\nHost: {}\r\n\r\n",
        api.address
    );
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding : chunked",
        "Content-Length: 3\r\nContent-Length: 4",
        "Content-Length: +5",
    ] {
        let bytes = format!(
            "POST /api/v1/publish HTTP/1.1\r\nHost: {}\r\n{headers}\r\n\r\n{smuggled}",
            api.address
        );
        let answer = api.raw(bytes.as_bytes());
        assert!(answer.starts_with("HTTP/1.1 400 "), "{headers}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }
    assert_eq!(api.call("GET", "/api/v1/queues/smuggled", "").0, 404);
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    assert_eq!(api.call("POST", "/api/v1/publish", &deep).0, 400);
    let long = "x".repeat((1 << 20) + 1);
    assert_eq!(api.call("POST", "/api/v1/publish", &long).0, 413);
}

#[test]
fn metrics_and_live_updates_tell_what_is() {
    let scratch = Scratch::new("http-metrics");
    let (_daemon, api) = start(&scratch, "");
    api.json("PUT", "/api/v1/queues/a%22b%5Cc", &json!({}));
    api.json(
        "POST",
        "/api/v1/queues/a%22b%5Cc/messages",
        &json!({"payload": "m"}),
    );
    let (_, text) = api.call("GET", "/metrics", "");
    assert!(
        text.contains("\nqwerq_queue_depth{queue=\"a\\\"b\\\\c\"} 1\n"),
        "{text}"
    );
    assert!(text.ends_with('\n'));
    let page = include_str!("../../../docs/metrics.md");
    for line in text.lines() {
        if let Some(name) = line
            .strip_prefix("# TYPE ")
            .and_then(|line| line.split(' ').next())
        {
            assert!(
                page.contains(&format!("| `{name}` |")),
                "docs/metrics.md lacks {name}"
            );
        }
    }
    let mut socket = TcpStream::connect(api.address).expect("it listens");
    let request = format!(
        "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\n\r\n",
        api.address
    );
    socket.write_all(request.as_bytes()).expect("it reads");
    let depth = "event: queue_depth\ndata: {\"depth\":1,\"in_flight\":0,";
    read_until(&mut socket, |seen| {
        String::from_utf8_lossy(seen).contains(depth)
    });
}

#[test]
fn what_is_missing_is_named_by_the_path_that_asked() {
    let scratch = Scratch::new("http-missing");
    let (_daemon, api) = start(&scratch, "");
    api.json("PUT", "/api/v1/queues/q", &json!({}));
    for (method, path, short) in [
        ("GET", "/api/v1/queues/x", "queue not found"),
        ("DELETE", "/api/v1/queues/x", "queue not found"),
        ("GET", "/api/v1/queues/x/messages", "queue not found"),
        ("GET", "/api/v1/queues/x/messages/0", "queue not found"),
        ("GET", "/api/v1/queues/q/messages/0", "message not found"),
        ("GET", "/api/v1/queues/q/messages/z", "message not found"),
        ("POST", "/api/v1/queues/x/dlq/retry", "queue not found"),
        ("GET", "/api/v1/queues/x/consumers", "queue not found"),
        ("GET", "/api/v1/queues/x/bindings", "queue not found"),
        ("GET", "/api/v1/streams/x", "stream not found"),
        ("GET", "/api/v1/streams/q", "stream not found"),
        ("DELETE", "/api/v1/schemas/x", "schema not found"),
        ("GET", "/api/v1/exchanges/x", "not found"),
        ("GET", "/api/v1/links/1-1", "not found"),
        ("GET", "/api/v1/sessions?connection=9", "not found"),
        ("GET", "/api/v1/x", "not found"),
    ] {
        let (status, problem) = api.json(method, path, &NULL);
        assert_eq!(
            (status, &problem["error"]),
            (404, &json!(short)),
            "{method} {path}"
        );
    }
    let (status, problem) = api.json("GET", "/api/v1/sessions", &NULL);
    assert_eq!((status, &problem["field"]), (400, &json!("connection")));
}

#[test]
fn schemas_are_registered_found_held_to_their_rule_and_deleted() {
    let scratch = Scratch::new("schemas");
    let (_daemon, api) = start(&scratch, "");
    let path = "/api/v1/schemas/orders";
    assert_eq!(api.json("GET", "/api/v1/schemas", &NULL).1, json!([]));
    let (status, problem) = api.json("GET", path, &NULL);
    assert_eq!(
        (status, &problem["error"]),
        (404, &json!("schema not found"))
    );
    let text = "syntax = \"proto3\"; package shop; message Order { string id = 1; }";
    let body = json!({"message_type": "shop.Order", "proto": text});
    let (status, made) = api.json("PUT", path, &body);
    assert_eq!(
        (status, &made["version"], &made["compatibility"]),
        (201, &json!(1), &json!("backward"))
    );
    let (status, problem) = api.json(
        "PUT",
        path,
        &json!({"message_type": "shop.Order", "proto": "\nmessage M { strin a = 1; }"}),
    );
    assert_eq!(status, 400);
    assert!(
        problem["detail"]
            .as_str()
            .expect("text")
            .contains("schema.proto:2:"),
        "{problem}"
    );
    let wrong = json!({"message_type": "shop.Order", "proto": text.replace("string", "int32")});
    let (status, problem) = api.json("PUT", path, &wrong);
    assert_eq!((status, &problem["field"]), (409, &json!("shop.Order.id")));
    // What comes back can be registered again, as a set of descriptors.
    let body = json!({"message_type": "shop.Order", "descriptor": made["descriptor"], "refuse_unknown_fields": true});
    assert_eq!(api.json("PUT", path, &body).1["version"], json!(2));
    let (_, versions) = api.json("GET", &format!("{path}/versions"), &NULL);
    assert_eq!(versions.as_array().map(Vec::len), Some(2));
    let (_, first) = api.json("GET", &format!("{path}?version=1"), &NULL);
    assert_eq!(
        (&first["proto"], &first["refuse_unknown_fields"]),
        (&json!(text), &json!(false))
    );
    let (_, list) = api.json("GET", "/api/v1/schemas", &NULL);
    assert_eq!(
        list,
        json!([{"queue": "orders", "message_type": "shop.Order", "version": 2}])
    );
    assert_eq!(
        api.json("DELETE", path, &NULL),
        (200, json!({"deleted": 2}))
    );
    assert_eq!(api.json("GET", path, &NULL).0, 404);
}

#[test]
fn streams_are_managed_beside_queues() {
    let scratch = Scratch::new("http-streams");
    let (_daemon, api) = start(&scratch, "");
    let settings = json!({"max_messages": 2});
    let (status, stream) = api.json("PUT", "/api/v1/streams/log", &settings);
    assert_eq!(
        (status, &stream["type"]),
        (201, &json!("stream")),
        "{stream}"
    );
    for _ in 0..3 {
        let text = json!({"payload": "m"});
        assert_eq!(
            api.json("POST", "/api/v1/queues/log/messages", &text).0,
            201
        );
    }
    let (_, stream) = api.json("GET", "/api/v1/streams/log", &NULL);
    let offsets = (&stream["first_offset"], &stream["next_offset"]);
    assert_eq!(offsets, (&json!(1), &json!(3)));
    let (_, peeked) = api.json("GET", "/api/v1/streams/log/messages?from=2", &NULL);
    assert_eq!(peeked.as_array().map(Vec::len), Some(1));
    assert_eq!(api.json("GET", "/api/v1/queues", &NULL).1, json!([]));
    assert_eq!(api.json("PUT", "/api/v1/queues/jobs", &json!({})).0, 201);
    assert_eq!(api.json("GET", "/api/v1/streams/jobs", &NULL).0, 404);
}
