//! Configuration from outside: what is accepted is shown by `--print-config`, what is not is refused with exit code 2
//! and a line that names file, line, key and the allowed form (cases CF-01 and CF-02).
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests of a process own files, sockets and clocks"
)]

mod common;

use common::{Scratch, qqd};

/// The value of a key in printed TOML, as it is written there.
fn printed(toml: &str, section: &str, key: &str) -> Option<String> {
    let body = toml.split_once(&format!("[{section}]\n"))?.1;
    let body = body.split("\n[").next()?;
    let line = body
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{key} = ")))?;
    Some(line.to_owned())
}

/// `--check-config` and a start give the same lines and code; the lines are returned.
fn refusal(scratch: &Scratch, toml: &str) -> String {
    let path = scratch.file("broker.toml", toml);
    let checked = qqd()
        .args(["--config", &path, "--check-config"])
        .output()
        .expect("qqd runs");
    let started = qqd().args(["--config", &path]).output().expect("qqd runs");
    assert_eq!(checked.status.code(), Some(2), "{toml}");
    assert_eq!(started.status.code(), Some(2), "{toml}");
    assert_eq!(checked.stderr, started.stderr, "{toml}");
    assert!(checked.stdout.is_empty());
    let lines = String::from_utf8(checked.stderr).expect("UTF-8");
    lines.replace(&path, "broker.toml")
}

#[test]
fn without_anything_the_defaults_are_valid() {
    let output = qqd().arg("--check-config").output().expect("qqd runs");
    assert_eq!(output.status.code(), Some(0));
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn what_no_start_can_serve_is_found_by_the_check() {
    let scratch = Scratch::new("unservable");
    let open = refusal(&scratch, "[management]\nbind_addr = \"0.0.0.0\"\n");
    assert!(open.contains("without a login"), "{open}");
    // The tests' environment gives the port of management, which has to say the same here.
    let path = scratch.file("broker.toml", "[server]\namqp_port = 8080\n");
    let same = qqd()
        .env("QQ_MANAGEMENT_PORT", "8080")
        .args(["--config", &path, "--check-config"])
        .output()
        .expect("qqd runs");
    assert_eq!(same.status.code(), Some(2));
    let same = String::from_utf8_lossy(&same.stderr);
    assert!(
        same.contains("management.port = 8080: server.amqp_port is the same"),
        "{same}"
    );
    let absent = scratch.path("absent");
    let tokens = refusal(&scratch, &format!("[auth]\ntokens_file = \"{absent}\"\n"));
    assert!(tokens.contains("absent"), "{tokens}");
}

#[test]
fn cf_01_unknown_and_misplaced_keys_are_refused_with_a_hint() {
    let scratch = Scratch::new("cf01");
    for (toml, line, key, hint) in [
        (
            "[server]\ntls_enabld = true\n",
            2,
            "server.tls_enabld",
            "did you mean \"tls_enabled\"?",
        ),
        (
            "[Server]\namqp_port = 1\n",
            1,
            "Server",
            "did you mean \"server\"?",
        ),
        (
            "sasl.enable = true\n",
            1,
            "sasl.enable",
            "did you mean \"enabled\"?",
        ),
        (
            "[[listeners]]\nport = 1\n",
            1,
            "listeners",
            "allowed are server, storage",
        ),
        (
            "[[server]]\namqp_port = 1\n",
            1,
            "server",
            "must be one table, written [server]",
        ),
        (
            "[server]\namqp_port = 1\namqp_port = 2\n",
            3,
            "amqp_port",
            "duplicate key",
        ),
        ("[server]\n[server]\n", 2, "server", "duplicate key"),
        (
            "[server]\nlevel = \"info\"\n",
            2,
            "server.level",
            "it belongs under [logging]",
        ),
        (
            "amqp_port = 1\n",
            1,
            "amqp_port",
            "it belongs under [server]",
        ),
        ("queue = 3\n", 1, "queue", "written [[queue]]"),
        ("[queue]\nname = \"a\"\n", 1, "queue", "written [[queue]]"),
        (
            "[[queue]]\nmax_lenght = 3\nname = \"a\"\n",
            2,
            "queue.max_lenght",
            "did you mean \"max_length\"?",
        ),
        ("[[queue]]\ndurable = true\n", 1, "queue", "needs a name"),
        ("[[queue]]\nname = \"_mine\"\n", 1, "queue.name", "reserved"),
        (
            "[[stream]]\nname = \"amq.s\"\n",
            1,
            "stream.name",
            "reserved",
        ),
        (
            "[[stream]]\nmax_age = \"1h\"\n",
            1,
            "stream",
            "needs a name",
        ),
        (
            "[[stream]]\nname = \"s\"\nmax_priority = 3\n",
            3,
            "stream.max_priority",
            "max_messages",
        ),
        (
            "[[queue]]\nname = \"s\"\ntype = \"stream\"\noverflow = \"reject\"\n",
            4,
            "queue.overflow",
            "unknown key",
        ),
        (
            "[[queue]]\nname = \"s\"\n[[stream]]\nname = \"s\"\n",
            3,
            "stream.name",
            "a queue of this name",
        ),
        (
            "[[queue]]\nname = \"a\"\n[[queue]]\nname = \"a\"\nmax_length = 3\n",
            3,
            "queue.max_length",
            "declared before with another max_length",
        ),
        (
            "[server]\namqp_port 5672\n",
            2,
            "amqp_port",
            "not valid TOML",
        ),
    ] {
        let text = refusal(&scratch, toml);
        let first = text.lines().next().expect("a line");
        assert!(
            first.starts_with(&format!("qqd: broker.toml:{line}: ")),
            "{toml}: {text}"
        );
        assert!(
            first.contains(key) && first.contains(hint),
            "{toml}: {text}"
        );
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

#[test]
fn all_problems_are_named_at_once_in_the_order_of_lines() {
    let scratch = Scratch::new("all");
    let text = refusal(
        &scratch,
        "[server]\namqp_port = 70000\n[sasl]\nenabled = 1\n[limits]\nlinks_max = 0\n",
    );
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    for (line, (number, key)) in lines.iter().zip([
        (2, "server.amqp_port"),
        (4, "sasl.enabled"),
        (6, "limits.links_max"),
    ]) {
        assert!(
            line.contains(&format!("broker.toml:{number}: {key} = ")),
            "{text}"
        );
    }
}

#[test]
fn cf_02_durations_sizes_and_ports_are_taken_as_shown_or_refused() {
    let scratch = Scratch::new("cf02");
    let cases: &[(&str, &str, Option<&str>)] = &[
        ("idle_timeout", "\"5seconds\"", Some("\"5s\"")),
        ("idle_timeout", "\"300\"", None),
        ("idle_timeout", "300", None),
        ("idle_timeout", "\"-1s\"", None),
        ("idle_timeout", "\"1.5h\"", Some("\"5400s\"")),
        ("idle_timeout", "\"99999999999s\"", None),
        ("idle_timeout", "\"0s\"", Some("\"0s\"")),
        ("idle_timeout", "\"300s\"", Some("\"300s\"")),
        ("idle_timeout", "\"1500ms\"", Some("\"1500ms\"")),
        ("idle_timeout", "\"5m\"", Some("\"300s\"")),
        ("idle_timeout", "\"999ms\"", None),
        ("max_frame_size", "0", None),
        ("max_frame_size", "511", None),
        ("max_frame_size", "512", Some("512")),
        ("max_frame_size", "\"1MiB\"", Some("\"1MiB\"")),
        ("max_frame_size", "1_048_576", Some("\"1MiB\"")),
        ("max_frame_size", "4294967296", None),
        ("max_frame_size", "-1", None),
        ("max_frame_size", "1e3", None),
        ("amqp_port", "0", Some("0")),
        ("amqp_port", "65536", None),
        ("amqp_port", "\"5672\"", None),
        ("amqp_port", "65535", Some("65535")),
        ("bind_addr", "\"::1\"", Some("\"::1\"")),
        ("bind_addr", "\"localhost\"", Some("\"127.0.0.1\"")),
        ("bind_addr", "\"nowhere\"", None),
    ];
    for (key, value, shown) in cases {
        let toml = format!("# first line\n[server]\n{key} = {value}\n");
        match shown {
            Some(shown) => {
                let path = scratch.file("good.toml", &toml);
                let output = qqd()
                    .args(["--config", &path, "--print-config"])
                    .output()
                    .expect("qqd runs");
                assert_eq!(output.status.code(), Some(0), "{toml}");
                let text = String::from_utf8(output.stdout).expect("UTF-8");
                assert_eq!(
                    printed(&text, "server", key).as_deref(),
                    Some(*shown),
                    "{toml}"
                );
            }
            None => {
                let text = refusal(&scratch, &toml);
                assert!(
                    text.starts_with(&format!("qqd: broker.toml:3: server.{key} = ")),
                    "{text}"
                );
                assert!(text.contains("allowed is a"), "{text}");
                assert_eq!(text.lines().count(), 1, "{text}");
            }
        }
    }
}

#[test]
fn variables_win_over_the_file_and_are_named_when_wrong() {
    let scratch = Scratch::new("env");
    let path = scratch.file(
        "broker.toml",
        "[server]\namqp_port = 1111\nidle_timeout = \"5m\"\n",
    );
    let output = qqd()
        .args(["--config", &path, "--print-config"])
        .env("QQ_SERVER_AMQP_PORT", "2222")
        .env("QQ_LIMITS_MESSAGE_SIZE_MAX", "1MiB")
        .env("QQ_DEFAULTS_AUTO_CREATE_QUEUES", "true")
        .env("QQ_DEFAULTS_AUTO_CREATE_EXCEPT", "tmp., cron.")
        .output()
        .expect("qqd runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(
        printed(&text, "server", "amqp_port").as_deref(),
        Some("2222")
    );
    assert_eq!(
        printed(&text, "server", "idle_timeout").as_deref(),
        Some("\"300s\"")
    );
    assert_eq!(
        printed(&text, "limits", "message_size_max").as_deref(),
        Some("\"1MiB\"")
    );
    assert_eq!(
        printed(&text, "defaults", "auto_create_queues").as_deref(),
        Some("true")
    );
    assert_eq!(
        printed(&text, "defaults", "auto_create_except").as_deref(),
        Some("[\"tmp.\", \"cron.\"]")
    );

    for (name, value) in [
        ("QQ_SERVER_AMQP_PORT", "x"),
        ("QQ_SERVER_IDLE_TIMEOUT", "5"),
        ("QQ_SASL_ENABLED", "yes"),
        ("QQ_SERVER_AMQP_PORT", ""),
    ] {
        let output = qqd()
            .arg("--check-config")
            .env(name, value)
            .output()
            .expect("qqd runs");
        assert_eq!(output.status.code(), Some(2), "{name}={value}");
        let text = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(
            text.starts_with(&format!("qqd: environment variable {name}: ")),
            "{text}"
        );
        assert!(text.contains("allowed is"), "{text}");
    }

    let output = qqd()
        .arg("--check-config")
        .env("QQ_SERVER_AMQP_PROT", "1")
        .output()
        .expect("qqd runs");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        text.contains("QQ_SERVER_AMQP_PROT") && text.contains("did you mean QQ_SERVER_AMQP_PORT?"),
        "{text}"
    );
}

#[test]
fn what_is_printed_can_be_fed_back() {
    let scratch = Scratch::new("back");
    let toml = "[server]\namqp_port = 0\nmax_frame_size = 4096\n[limits]\nmemory_max = \"64MiB\"\n\
        [[queue]]\nname = \"a \\\"b\\\" \\\\ é\"\nmax_length = 7\noverflow = \"drop-head\"\nmessage_ttl = \"1500ms\"\n\
        [[exchange]]\nname = \"e\"\ntype = \"Topic\"\n[[queue]]\nname = \"q\"\n\
        [[stream]]\nname = \"s\"\nmax_age = \"7h\"\n[[queue]]\nname = \"t\"\ntype = \"stream\"\nmax_length = 9\n\
        [[binding]]\nexchange = \"e\"\nqueue = \"q\"\nrouting_key = \"a.#\"\narguments = { x-match = \"all\", n = 3 }\n";
    let print = |path: &str| {
        let output = qqd()
            .args(["--config", path, "--print-config"])
            .output()
            .expect("qqd runs");
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let once = print(&scratch.file("once.toml", toml));
    let twice = print(&scratch.file("twice.toml", &once));
    assert_eq!(once, twice);
    assert!(once.contains("name = \"a \\\"b\\\" \\\\ é\"\n"), "{once}");
    assert!(once.contains("max_length = 7\n"), "{once}");
    let streams = "[[stream]]\nname = \"s\"\ndurable = true\n# max_messages";
    assert!(once.contains(streams), "{once}");
    assert!(once.contains("max_messages = 9\n"), "{once}");
}

/// Times are milliseconds there, and `reject-publish` is what `reject` is here.
#[test]
fn names_of_rabbitmq_are_known_in_queues_and_exchanges() {
    let scratch = Scratch::new("aliases");
    let print = |toml: &str| {
        let output = qqd()
            .args([
                "--config",
                &scratch.file("broker.toml", toml),
                "--print-config",
            ])
            .output()
            .expect("qqd runs");
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let theirs = "[[queue]]\nname = \"q\"\nx-message-ttl = 1500\nx-expires = 60000\nx-max-length = 7\n\
        x-max-length-bytes = 100\nx-overflow = \"reject-publish-dlx\"\nx-max-priority = 3\nx-delivery-limit = 2\n\
        x-dead-letter-exchange = \"amq.direct\"\nx-dead-letter-routing-key = \"k\"\n\
        x-single-active-consumer = true\n[[exchange]]\nname = \"e\"\nalternate-exchange = \"amq.fanout\"\n";
    let ours = "[[queue]]\nname = \"q\"\nmessage_ttl = \"1500ms\"\nexpires = \"60s\"\nmax_length = 7\n\
        max_bytes = 100\noverflow = \"reject-dlx\"\nmax_priority = 3\nmax_deliveries = 2\n\
        dead_letter_exchange = \"amq.direct\"\ndead_letter_routing_key = \"k\"\n\
        single_active_consumer = true\n[[exchange]]\nname = \"e\"\nalternate_exchange = \"amq.fanout\"\n";
    assert_eq!(print(theirs), print(ours));
    let both = "[[queue]]\nname = \"q\"\nmax_length = 7\nx-max-length = 8\n";
    let text = refusal(&scratch, both);
    assert!(text.contains("means the same as max_length"), "{text}");
    let unknown = "[[exchange]]\nname = \"e\"\nx-max-length = 8\n";
    let text = refusal(&scratch, unknown);
    assert!(text.contains("exchange.max_length: unknown key"), "{text}");
}

#[test]
fn exchanges_and_bindings_are_checked_as_the_broker_would() {
    let scratch = Scratch::new("routes");
    let exchange = "[[exchange]]\nname = \"e\"\ntype = \"headers\"\n";
    let queue = "[[queue]]\nname = \"q\"\n";
    for (toml, line, words) in [
        (
            format!("{exchange}{exchange}[[exchange]]\nname = \"e\"\n"),
            7,
            "another type",
        ),
        (
            "[[exchange]]\nname = \"amq.mine\"\n".to_owned(),
            1,
            "reserved",
        ),
        (
            format!("{queue}[[binding]]\nexchange = \"e\"\nqueue = \"q\"\n"),
            3,
            "no exchange 'e'",
        ),
        (
            format!("{exchange}[[binding]]\nexchange = \"e\"\nqueue = \"q\"\n"),
            4,
            "named \"q\"",
        ),
        (
            format!(
                "{exchange}{queue}[[binding]]\nexchange = \"e\"\nqueue = \"q\"\n\
                 arguments = {{ x-match = \"some\" }}\n"
            ),
            6,
            "x-match must be",
        ),
    ] {
        let path = scratch.file("broker.toml", &toml);
        let output = qqd()
            .args(["--config", &path, "--check-config"])
            .output()
            .expect("qqd runs");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(&format!("broker.toml:{line}:")), "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn keys_of_missing_features_are_accepted_and_reported_when_set() {
    let scratch = Scratch::new("later");
    let toml = "[server]\nws_bind_addr = \"127.0.0.1:15672\"\ntls_enabled = false\n\
        [storage]\nbackend = \"Memory\"\npath = \"./data\"\nsync_writes = false\ncache_size_mb = 128\n\
        [management]\nenabled = true\nport = 8080\n[cluster]\nenabled = false\nseeds = []\n\
        [[queue]]\nname = \"a\"\nsingle_active_consumer = true\nschema = \"shop.Order\"\n\
        [[exchange]]\nname = \"amq.topic\"\ntype = \"topic\"\n[[exchange]]\nname = \"events\"\n";
    let path = scratch.file("broker.toml", toml);
    let output = qqd()
        .args(["--config", &path, "--check-config"])
        .output()
        .expect("qqd runs");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stderr)
        .expect("UTF-8")
        .replace(&path, "broker.toml");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["qqd: [server]: not available in this build, without effect: ws_bind_addr",]
    );
}

#[test]
fn what_would_be_less_safe_than_asked_is_refused() {
    let scratch = Scratch::new("unsafe");
    for (toml, line, words) in [
        (
            "[server]\ntls_enabled = true\n",
            2,
            "TLS is not available in this build",
        ),
        ("[storage]\nbackend = \"none\"\n", 2, "\"memory\""),
        ("[storage]\nbackend = \"RocksDB\"\n", 2, "replaces RocksDB"),
        ("[sasl]\nenabled = true\n", 2, "users_file"),
    ] {
        let text = refusal(&scratch, toml);
        assert!(
            text.starts_with(&format!("qqd: broker.toml:{line}: ")) && text.contains(words),
            "{text}"
        );
    }
}

#[test]
fn users_are_checked_and_their_passwords_never_shown() {
    let scratch = Scratch::new("users");
    let users = scratch.file("users", "ann:s3cret-word\n");
    let path = scratch.file(
        "broker.toml",
        &format!("[sasl]\nenabled = true\n[auth]\nusers_file = \"{users}\"\n"),
    );
    let output = qqd()
        .args(["--config", &path, "--print-config"])
        .output()
        .expect("qqd runs");
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(
        text.contains(&users) && !text.contains("s3cret-word"),
        "{text}"
    );

    scratch.file("users", "ann:s3cret-word\ns3cret-word\n");
    let output = qqd()
        .args(["--config", &path, "--check-config"])
        .output()
        .expect("qqd runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        text.starts_with(&format!("qqd: {users}:2: ")) && !text.contains("s3cret-word"),
        "{text}"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let output = qqd()
        .args(["--config=/nowhere/broker.toml"])
        .output()
        .expect("qqd runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        text.starts_with("qqd: /nowhere/broker.toml: cannot be read"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1);
}

#[test]
fn version_and_help_go_to_standard_output() {
    let version = qqd().arg("--version").output().expect("qqd runs");
    assert_eq!(version.status.code(), Some(0));
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        format!("qqd {}\n", env!("CARGO_PKG_VERSION"))
    );
    let help = qqd().arg("--help").output().expect("qqd runs");
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("--check-config"));
    let wrong = qqd().arg("--confg=x").output().expect("qqd runs");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(wrong.stdout.is_empty());
}

#[test]
fn the_examples_are_valid() {
    for path in ["packaging/broker.toml", "docker/config/broker.toml"] {
        let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
        let output = qqd()
            .args(["--config", &path, "--check-config"])
            .output()
            .expect("qqd runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{text}");
        // What this build cannot do may be said, and nothing else.
        assert!(
            text.lines()
                .all(|line| line.contains("not available in this build")),
            "{text}"
        );
    }
}
