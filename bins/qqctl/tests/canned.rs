//! `qqctl` against servers that answer as they are told: what is asked, what is printed, which exit code scripts see.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test of a binary has sockets, threads and processes"
)]

mod common;

use std::io::Read;
use std::net::TcpListener;
use std::process::Stdio;

use common::{Server, err, out, qqctl, response, run, run_with_input};
use serde_json::json;

#[test]
fn a_message_from_standard_input_goes_out_as_it_is() {
    let server = Server::json(201, r#"{"routed":true}"#);
    for (input, expected) in [
        (
            &b"two\nlines\n"[..],
            json!({"to": "q", "payload": "two\nlines\n"}),
        ),
        (
            &[0xff, 0x00],
            json!({"to": "q", "payload": "/wA=", "encoding": "base64"}),
        ),
        (b"", json!({"to": "q", "payload": ""})),
    ] {
        let output = run_with_input(&server.url, &["queue", "publish", "q", "-m", "-"], input);
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        assert_eq!(server.asked().pop().expect("a request").body, expected);
    }
}

#[test]
fn a_message_that_nobody_wanted_is_a_failure() {
    let server = Server::json(201, r#"{"routed":false}"#);
    let output = run(&server.url, &["queue", "publish", "e", "--message", "x"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("no queue wanted"), "{}", err(&output));
    assert!(out(&output).is_empty());
}

#[test]
fn raw_output_is_the_body_byte_for_byte() {
    let body = "[ {\"name\" :\"a\\u00e9\"},\n {}]  ";
    let server = Server::json(200, body);
    assert_eq!(out(&run(&server.url, &["queue", "list", "--raw"])), body);
}

#[test]
fn peek_shows_text_and_says_when_there_is_none() {
    let body = r#"[{"position":0,"id":"m1","state":"ready","attempt":1,"payload":"SGVsbG8=","payload_bytes":5},
        {"position":1,"id":"m2","state":"held","attempt":2,"payload":"/wA=","payload_bytes":2}]"#;
    let text = out(&run(&Server::json(200, body).url, &["queue", "peek", "q"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1].ends_with("Hello") && lines[2].ends_with("(bytes)"),
        "{text}"
    );
}

#[test]
fn cl_03_what_goes_wrong_is_told_once_with_its_code() {
    let refused = {
        // A port that nobody listens on any more.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        format!("http://{}", listener.local_addr().expect("an address"))
    };
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let silent_url = format!("http://{}", silent.local_addr().expect("an address"));
    let problem = r#"{"status":404,"title":"Not found","detail":"no queue \"q\" exists","error":"queue not found"}"#;
    let html = "<html><h1>Internal\nServer Error</h1></html>";
    let server = |status, kind, body: &str| {
        let bytes = response(status, kind, body);
        Server::start(move |_| bytes.clone())
    };
    let missing = server(404, "application/problem+json", problem);
    let broken = server(500, "text/html", html);
    let cut = server(200, "application/json", "[{\"name\":");
    let short = Server::start(|_| b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n[".to_vec());
    let other = Server::start(|_| b"220 mail.example ESMTP\r\n".to_vec());
    let odd = Server::json(200, "{}");
    let login = Server::json(401, "");
    let cases = [
        (refused.as_str(), 3, "cannot reach the broker"),
        (&silent_url, 3, "no answer in time"),
        (&missing.url, 1, "no queue \"q\" exists"),
        (&broken.url, 1, "500"),
        (&cut.url, 1, "no JSON"),
        (&short.url, 1, "broke off"),
        (&other.url, 1, "HTTP"),
        (&odd.url, 1, "no list"),
        (&login.url, 1, "QQ_API_TOKEN"),
        (
            "http://no-such-host.invalid:1",
            3,
            "cannot reach the broker",
        ),
        ("ftp://x", 2, "http://localhost:8080"),
    ];
    for (url, code, words) in cases {
        let output = run(url, &["queue", "list", "-t", "1"]);
        assert_eq!(output.status.code(), Some(code), "{url}: {}", err(&output));
        assert!(out(&output).is_empty(), "{url}: {}", out(&output));
        let text = err(&output);
        assert!(
            text.contains(words) && text.lines().count() == 1,
            "{url}: {text}"
        );
    }
}

/// Bytes that are no text would reach the broker as other ones.
#[cfg(unix)]
#[test]
fn arguments_that_are_no_text_are_refused_and_never_changed() {
    use std::os::unix::ffi::OsStringExt;

    let server = Server::json(201, r#"{"routed":true}"#);
    let odd = std::ffi::OsString::from_vec(b"bad\xff".to_vec());
    for before in [
        &["queue", "publish", "q", "--message"][..],
        &["queue", "create"],
    ] {
        let output = qqctl(&server.url, before)
            .arg(&odd)
            .output()
            .expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{before:?}");
        assert!(err(&output).contains("is not UTF-8"), "{}", err(&output));
    }
    assert!(server.asked().is_empty(), "nothing was sent");
}

#[test]
fn the_name_of_an_exchange_can_be_meant_although_a_queue_has_it() {
    let server = Server::json(201, r#"{"routed":true}"#);
    for (switch, expected) in [
        (None, json!({"to": "both", "payload": "x"})),
        (
            Some("--exchange"),
            json!({"exchange": "both", "payload": "x"}),
        ),
    ] {
        let mut args = vec!["queue", "publish", "both", "-m", "x"];
        args.extend(switch);
        assert_eq!(run(&server.url, &args).status.code(), Some(0));
        assert_eq!(server.asked().pop().expect("a request").body, expected);
    }
}

/// What bounds messages in memory has nothing to do with the memory of the process.
#[test]
fn the_status_compares_the_limit_with_what_it_bounds() {
    let stats =
        r#"{"queued_bytes":111,"memory_limit_bytes":222,"memory_alloc_bytes":333,"alarms":[]}"#;
    let text = out(&run(&Server::json(200, stats).url, &["broker", "status"]));
    let line = |number: &str| {
        let found = text.lines().find(|line| line.contains(number));
        found.unwrap_or_else(|| panic!("no {number} in {text}"))
    };
    assert_eq!(line("111 B"), line("222 B"));
    assert_ne!(line("333 B"), line("222 B"));
}

#[test]
fn what_cannot_be_used_is_told_before_anything_is_sent() {
    let server = Server::json(200, "{}");
    for args in [
        &["queue"][..],
        &["queue", "get"],
        &["queue", "get", "a", "b"],
        &["queue", "list", "-o", "xml"],
        &["queue", "list", "--timeout", "0"],
        &["queue", "list", "--timeout", "soon"],
        &["queue", "publish", "q"],
        &["queue", "publish", "q", "-m", "x", "--headers", "nonsense"],
        &["queue", "publish", "q", "-m", "x", "--headers", "{1}"],
        &["queue", "create", "q", "--durable", "--transient"],
        &["queue", "create", "q", "--message-ttl", "5seconds"],
        &["queue", "create", "q", "--expires", "1"],
        &["exchange", "bind", "e", "q", "--arguments", "[1]"],
        &[
            "schema",
            "register",
            "-q",
            "q",
            "-p",
            "/no/such/file",
            "-m",
            "M",
        ],
        &["completion", "tcsh"],
        &["--verbose"],
    ] {
        let output = run(&server.url, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", err(&output));
        assert_eq!(
            err(&output).lines().count(),
            1,
            "{args:?}: {}",
            err(&output)
        );
    }
    assert!(server.asked().is_empty());
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let rows: Vec<String> = (0..20_000)
        .map(|n| format!(r#"{{"name":"queue-{n}"}}"#))
        .collect();
    let server = Server::json(200, &format!("[{}]", rows.join(",")));
    let mut command = qqctl(&server.url, &["queue", "list"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut first = [0; 10];
    let mut stdout = child.stdout.take().expect("it was asked for");
    stdout.read_exact(&mut first).expect("it writes");
    drop(stdout);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(err(&output), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn logins_come_from_the_environment_or_the_address() {
    let server = Server::json(200, "[]");
    let header = |variable: Option<(&str, &str)>, url: &str| {
        let mut command = qqctl(url, &["queue", "list"]);
        command.envs(variable);
        assert!(command.output().expect("it runs").status.success());
        let head = server.asked().pop().expect("a request").head;
        head.lines()
            .find_map(|line| line.strip_prefix("authorization: "))
            .map(str::to_owned)
    };
    assert_eq!(header(None, &server.url), None);
    // The test server shows header lines in small letters.
    let basic = Some("basic z3vlc3q6z3vlc3q=".to_owned());
    assert_eq!(
        header(Some(("QQ_API_USER", "guest:guest")), &server.url),
        basic
    );
    assert_eq!(
        header(None, &server.url.replace("://", "://guest:guest@")),
        basic
    );
    assert_eq!(
        header(Some(("QQ_API_TOKEN", "abc")), &server.url),
        Some("bearer abc".to_owned())
    );
}

#[test]
fn long_moves_go_in_steps_and_stop_at_the_limit() {
    let server = Server::start(|request| {
        let limit = request.body["limit"].as_u64().expect("a limit");
        let body = json!({"moved": limit, "left": 1_000_000}).to_string();
        response(200, "application/json", &body)
    });
    let output = run(
        &server.url,
        &["queue", "move", "a", "b", "--limit", "25000"],
    );
    assert_eq!(out(&output), "25 000 messages moved, 1 000 000 left\n");
    let asked = server.asked();
    let limits: Vec<_> = asked
        .iter()
        .map(|request| request.body["limit"].as_u64())
        .collect();
    assert_eq!(limits, [Some(10_000), Some(10_000), Some(5_000)]);
    assert!(
        asked
            .iter()
            .all(|request| request.body["to"] == "b" && request.path == "/api/v1/queues/a/move")
    );

    let server = Server::json(200, r#"{"moved":3,"left":0}"#);
    let output = run(&server.url, &["queue", "redrive", "a.dlq", "-o", "json"]);
    assert_eq!(out(&output), "{\"left\":0,\"moved\":3}\n");
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].body, json!({"limit": 10_000}));
}

#[test]
fn why_says_what_a_link_waits_for() {
    let link = r#"{"id":"7-0","name":"worker","role":"consumer","address":"orders","credit":0,"unsettled":4,
        "waits":[{"code":"no-credit","text":"the receiver has not granted any"}]}"#;
    let body = link.to_owned();
    let server = Server::start(move |request| match request.path.as_str() {
        "/api/v1/links/7-0" => response(200, "application/json", &body),
        "/api/v1/links?limit=10000" => response(200, "application/json", &format!("[{body}]")),
        _ => response(404, "application/json", r#"{"detail":"no such link"}"#),
    });
    for name in ["7-0", "worker"] {
        let text = out(&run(&server.url, &["link", "why", name]));
        assert!(
            text.contains("no-credit: the receiver has not granted any"),
            "{text}"
        );
    }
    let output = run(&server.url, &["link", "why", "nobody"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("no such link"));
}

#[test]
fn completion_knows_commands_options_values_and_names() {
    let server = Server::json(200, r#"[{"name":"orders"},{"name":"other"},{"name":""}]"#);
    let words = |words: &[&str]| -> Vec<String> {
        let args: Vec<&str> = ["__complete"].iter().chain(words).copied().collect();
        let text = out(&run(&server.url, &args));
        text.lines()
            .map(|line| line.split('\t').next().unwrap_or_default().to_owned())
            .collect()
    };
    assert!(words(&[""]).contains(&"queue".to_owned()));
    assert_eq!(words(&["qu"]), ["queue"]);
    assert_eq!(words(&["queue", "p"]), ["purge", "publish", "peek"]);
    assert_eq!(
        words(&["exchange", "create", "e", "--exchange-type", "t"]),
        ["topic"]
    );
    assert_eq!(
        words(&["queue", "list", "-o", ""]),
        ["table", "json", "yaml", "pretty"]
    );
    assert_eq!(words(&["queue", "list", "-f", "y"]), ["yaml"]);
    assert_eq!(words(&["queue", "get", "or"]), ["orders"]);
    assert_eq!(
        words(&["-o", "json", "queue", "purge", ""]),
        ["orders", "other"]
    );
    assert_eq!(words(&["queue", "purge", "orders", "--fo"]), ["--force"]);
    assert_eq!(words(&["completion", ""]), ["bash", "zsh", "fish"]);
    assert!(words(&["queue", "create", ""]).is_empty());
    // A broker that is away is no reason to complain.
    let output = run("http://127.0.0.1:1", &["__complete", "queue", "get", ""]);
    assert_eq!(
        (
            output.status.code(),
            output.stdout.len(),
            output.stderr.len()
        ),
        (Some(0), 0, 0)
    );
}
