//! What operators ask.

use std::collections::BTreeSet;

use super::harness::*;
use crate::admin::{Definitions, PublishTo, Reply, Request};
use crate::broker::{BrokerConfig, GroupSpec, Paging, QueueSpec};
use crate::route::{BindingSpec, ExchangeKind, ExchangeSpec};
use crate::schema::{Candidate, Schema, Source};
use crate::store::Op;
use crate::vocab::{Address, ConnId, Delay, Envelope, Outcome, Port, Reason, Wishes};

fn peek(rig: &mut Rig, queue: &str, from: u64, limit: usize) -> Vec<(u64, String)> {
    let queue = queue.to_owned();
    let reply = rig.manage(Request::Peek {
        queue,
        from,
        limit,
        with_held: false,
    });
    let Reply::Messages(messages) = reply else {
        panic!("{reply:?}")
    };
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    messages
        .iter()
        .map(|peeked| (peeked.position, shown(&peeked.message.payload)))
        .collect()
}

fn moved(reply: Reply) -> (u64, u64) {
    match reply {
        Reply::Moved { moved, left } => (moved, left),
        other => panic!("{other:?}"),
    }
}

fn refused(reply: Reply) -> Reason {
    match reply {
        Reply::Refused(refusal) => refusal.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_long_list_comes_in_pages_and_names_everything_once() {
    let names: Vec<String> = (0..1_234).map(|number| format!("q{number}")).collect();
    let mut rig = Rig::new(config(names.iter().map(QueueSpec::new)));
    let (mut seen, mut pages, mut next) = (BTreeSet::new(), 0, Some(0));
    while let Some(from) = next {
        let Reply::Queues(page) = rig.manage(Request::Queues { from }) else {
            panic!("no list")
        };
        assert!(page.items.len() <= 500);
        for row in &page.items {
            assert!(seen.insert(row.spec.name.clone()));
        }
        // What comes and goes meanwhile does not hide the rest.
        let name = format!("extra{pages}");
        let spec = Box::new(QueueSpec::new(name));
        rig.manage(Request::DeclareQueue { spec });
        (pages, next) = (pages + 1, page.next);
    }
    assert!(names.iter().all(|name| seen.contains(name)));
}

#[test]
fn declaring_makes_finds_or_names_the_setting_that_differs() {
    let mut rig = Rig::new(config([]));
    let mut declare = |spec: QueueSpec| {
        let spec = Box::new(spec);
        rig.manage(Request::DeclareQueue { spec })
    };
    let spec = QueueSpec {
        max_length: Some(3),
        ..QueueSpec::new("q")
    };
    let is_new = |reply: &Reply| matches!(reply, Reply::QueueDeclared { is_new: true, .. });
    assert!(is_new(&declare(spec.clone())));
    let again = declare(spec);
    assert!(matches!(again, Reply::QueueDeclared { is_new: false, .. }));
    match declare(QueueSpec::new("q")) {
        Reply::Conflict { field, .. } => assert_eq!(field, "max_length"),
        other => panic!("{other:?}"),
    }
    for name in ["", ".", "..", "a\nb", &"n".repeat(256)] {
        assert_eq!(
            refused(declare(QueueSpec::new(name))),
            Reason::Invalid,
            "{name:?}"
        );
    }
    assert_eq!(
        refused(declare(QueueSpec::new("amq.x"))),
        Reason::NotAllowed
    );
}

/// A queue and an exchange may share a name; each can be meant.
#[test]
fn an_exchange_is_published_to_also_when_a_queue_has_its_name() {
    let mut rig = Rig::new(BrokerConfig {
        bindings: vec![BindingSpec::to_queue("both", "other", "")],
        exchanges: vec![ExchangeSpec::new("both", ExchangeKind::Fanout)],
        ..config([QueueSpec::new("both"), QueueSpec::new("other")])
    });
    let mut publish = |to| {
        let message = message("m", durable());
        rig.manage(Request::Publish { to, message });
        ["both", "other"].map(|queue| peek(&mut rig, queue, 0, 10).len())
    };
    let (name, key) = ("both".to_owned(), String::new());
    let exchange = PublishTo::Exchange {
        name: name.clone(),
        key: key.clone(),
    };
    assert_eq!(publish(exchange), [0, 1]);
    assert_eq!(publish(PublishTo::Name { name, key }), [1, 1]);
}

#[test]
fn what_changes_something_is_answered_when_it_is_safe() {
    let mut rig = Rig::with_q();
    rig.is_instant = false;
    let publish = Request::Publish {
        to: PublishTo::Queue("q".into()),
        message: message("m", durable()),
    };
    rig.ask(1, publish);
    rig.ask(2, Request::Stats);
    assert_eq!(rig.answers().len(), 1, "only the question about numbers");
    rig.persist_one();
    let expected = Reply::Published { is_routed: true };
    assert_eq!(rig.answers(), [(1, expected)]);
    rig.ask(3, Request::Purge { name: "q".into() });
    assert_eq!(rig.answers(), []);
    rig.now.mono += std::time::Duration::from_secs(1);
    rig.flush();
    rig.persist_one();
    assert_eq!(rig.answers(), [(3, Reply::Purged { messages: 1 })]);
}

#[test]
fn looking_takes_nothing_and_reads_bodies_that_are_away() {
    let mut config = config([lossy("q")]);
    config.paging = Some(Paging {
        window_len: 4,
        window_bytes: 1 << 20,
        cache_bytes: 1,
    });
    let mut rig = Rig::new(config);
    rig.produce(A, P, named("q"));
    for number in 0..600 {
        rig.publish(A, P, message(&format!("m{number}"), durable()));
    }
    let shown = peek(&mut rig, "q", 0, 1_000);
    assert_eq!(shown.len(), 600);
    assert!(
        shown
            .iter()
            .enumerate()
            .all(|(at, (position, text))| { *position == at as u64 && *text == format!("m{at}") })
    );
    assert_eq!(peek(&mut rig, "q", 598, 10).len(), 2);
    assert_eq!(rig.broker.queue_counters("q").map(|q| q.waiting), Some(600));
    let missing = rig.manage(Request::Message {
        queue: "q".into(),
        position: 600,
    });
    assert_eq!(refused(missing), Reason::NotFound);
}

#[test]
fn a_move_leaves_each_message_in_one_place_by_one_batch() {
    let mut rig = Rig::new(config([lossy("from"), lossy("to")]));
    rig.produce(A, P, named("from"));
    for number in 0..5 {
        rig.publish(A, P, message(&number.to_string(), durable()));
    }
    let batches = rig.log.len();
    let request = |limit| Request::Move {
        queue: "from".into(),
        to: Some("to".into()),
        only_from: None,
        limit,
    };
    assert_eq!(moved(rig.manage(request(2))), (2, 3));
    let ops: Vec<&Op> = rig.log[batches..]
        .iter()
        .flat_map(|batch| &batch.ops)
        .collect();
    assert_eq!(rig.log.len(), batches + 1, "one batch");
    let arrivals = ops
        .iter()
        .filter(|op| matches!(op, Op::Enqueued(_)))
        .count();
    assert_eq!(arrivals, 2);
    assert_eq!(moved(rig.manage(request(u64::MAX))), (3, 0));
    let texts: Vec<String> = peek(&mut rig, "to", 0, 10)
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert_eq!(texts, ["0", "1", "2", "3", "4"]);
    let to_itself = Request::Move {
        queue: "to".into(),
        to: Some("to".into()),
        only_from: None,
        limit: 1,
    };
    assert_eq!(refused(rig.manage(to_itself)), Reason::Invalid);
}

#[test]
fn a_move_reaches_the_groups_of_the_other_queue_or_nobody() {
    let to = QueueSpec {
        groups_only: true,
        max_length: Some(2),
        ..lossy("to")
    };
    let group = |name: &str| GroupSpec {
        queue: "to".into(),
        name: name.into(),
    };
    let mut rig = Rig::new(BrokerConfig {
        groups: vec![group("g"), group("h")],
        ..config([lossy("from"), to])
    });
    rig.produce(A, P, named("from"));
    for _ in 0..3 {
        rig.publish(A, P, message("m", durable()));
    }
    let request = Request::Move {
        queue: "from".into(),
        to: Some("to".into()),
        only_from: None,
        limit: 1,
    };
    let waiting = |rig: &Rig| {
        ["from", "to", "amq.group-to.g", "amq.group-to.h"]
            .map(|name| rig.broker.queue_counters(name).map_or(0, |q| q.waiting))
    };
    assert_eq!(moved(rig.manage(request.clone())), (1, 2));
    assert_eq!(waiting(&rig), [2, 0, 1, 1]);
    // One group without room keeps it from all of them.
    let member = Address::Group {
        queue: "to".into(),
        name: "g".into(),
        may_make_queue: false,
    };
    rig.consume(B, C, consumer(member));
    rig.permit(B, C, 1);
    rig.settle(B, C, 0, 0, Outcome::Accepted);
    assert_eq!(moved(rig.manage(request.clone())), (1, 1));
    assert_eq!(refused(rig.manage(request)), Reason::LimitExceeded);
    assert_eq!(waiting(&rig), [1, 0, 1, 2]);
}

#[test]
fn a_moved_message_waits_for_the_rest_of_its_delay_and_not_again() {
    let mut rig = Rig::new(config([lossy("from"), lossy("to")]));
    rig.produce(A, P, named("from"));
    let delayed = |delay_ms| {
        let wishes = Wishes {
            delay: Some(Delay::For(delay_ms)),
            dedup_id: None,
        };
        Envelope {
            wishes: wishes.some(),
            ..durable()
        }
    };
    rig.publish(A, P, message("early", delayed(10_000)));
    rig.publish(A, P, message("due", delayed(1_000)));
    rig.sleep_ms(4_000);
    rig.run_timers();
    let request = Request::Move {
        queue: "from".into(),
        to: Some("to".into()),
        only_from: None,
        limit: 10,
    };
    assert_eq!(moved(rig.manage(request)), (2, 0));
    rig.consume(B, C, consumer(named("to")));
    rig.permit(B, C, 10);
    assert_eq!(rig.texts(B, C), ["due"]);
    rig.sleep_ms(5_999);
    rig.run_timers();
    assert!(rig.texts(B, C).is_empty());
    rig.sleep_ms(2);
    rig.run_timers();
    assert_eq!(rig.texts(B, C), ["early"]);
}

#[test]
fn dead_letters_go_back_to_where_they_died() {
    let grave = |name: &str| QueueSpec {
        dead_letter_routing_key: Some("grave".into()),
        ..QueueSpec::new(name)
    };
    let mut rig = Rig::new(config([grave("a"), grave("b"), lossy("grave")]));
    for (port, queue) in [(P, "a"), (D, "b")] {
        rig.produce(A, port, named(queue));
        rig.publish(A, port, message(queue, durable()));
    }
    for (conn, queue) in [(A, "a"), (B, "b")] {
        rig.consume(conn, C, consumer(named(queue)));
        rig.permit(conn, C, 1);
        rig.settle(conn, C, 0, 0, Outcome::Rejected { reason: None });
        rig.permit(conn, C, 1);
    }
    assert_eq!(peek(&mut rig, "grave", 0, 9).len(), 2);
    let redrive = |only: Option<&str>| Request::Move {
        queue: "grave".into(),
        to: None,
        only_from: only.map(str::to_owned),
        limit: 10,
    };
    assert_eq!(moved(rig.manage(redrive(Some("b")))), (1, 1));
    assert_eq!(peek(&mut rig, "b", 0, 9).len(), 1);
    assert_eq!(moved(rig.manage(redrive(None))), (1, 0));
    assert_eq!(peek(&mut rig, "a", 0, 9).len(), 1);
}

#[test]
fn a_move_stops_at_a_full_queue_and_says_so() {
    let full = QueueSpec {
        max_length: Some(2),
        ..lossy("to")
    };
    let mut rig = Rig::new(config([lossy("from"), full]));
    rig.produce(A, P, named("from"));
    for _ in 0..3 {
        rig.publish(A, P, message("m", durable()));
    }
    let request = Request::Move {
        queue: "from".into(),
        to: Some("to".into()),
        only_from: None,
        limit: 3,
    };
    assert_eq!(moved(rig.manage(request.clone())), (2, 1));
    assert_eq!(refused(rig.manage(request)), Reason::LimitExceeded);
}

#[test]
fn many_messages_are_purged_in_slices() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    for _ in 0..2_500 {
        rig.publish(A, P, message("m", durable()));
    }
    rig.ask(7, Request::Purge { name: "q".into() });
    assert_eq!(rig.answers(), []);
    assert_eq!(
        rig.broker.queue_counters("q").map(|q| q.waiting),
        Some(1_500)
    );
    // What comes now is not what was to be purged.
    rig.publish(A, P, message("late", durable()));
    rig.run_timers();
    assert_eq!(rig.answers(), [(7, Reply::Purged { messages: 2_500 })]);
    assert_eq!(peek(&mut rig, "q", 0, 9).len(), 1);
}

#[test]
fn a_topology_is_made_as_a_whole_or_not_at_all() {
    let mut rig = Rig::new(config([QueueSpec::new("old")]));
    let mut definitions = Definitions {
        version: 1,
        queues: vec![QueueSpec::new("new"), QueueSpec::new("old")],
        exchanges: vec![ExchangeSpec::new("e", ExchangeKind::Topic)],
        bindings: vec![BindingSpec::to_queue("e", "new", "a.#")],
        ..Definitions::default()
    };
    let import = |definitions: &Definitions| Request::Import {
        definitions: Box::new(definitions.clone()),
    };
    definitions.queues[1].durable = false;
    match rig.manage(import(&definitions)) {
        Reply::Conflict { field, .. } => assert_eq!(field, "durable"),
        other => panic!("{other:?}"),
    }
    assert!(
        rig.broker.queue_counters("new").is_none(),
        "nothing was made"
    );
    definitions.queues[1].durable = true;
    let counts = |reply: Reply| match reply {
        Reply::Imported(done) => (
            (
                done.created.queues,
                done.created.exchanges,
                done.created.bindings,
            ),
            (
                done.unchanged.queues,
                done.unchanged.exchanges,
                done.unchanged.bindings,
            ),
        ),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        counts(rig.manage(import(&definitions))),
        ((1, 1, 1), (1, 0, 0))
    );
    assert_eq!(
        counts(rig.manage(import(&definitions))),
        ((0, 0, 0), (2, 1, 1))
    );
    definitions
        .bindings
        .push(BindingSpec::to_queue("e", "nowhere", ""));
    definitions.queues.push(QueueSpec::new("third"));
    assert_eq!(refused(rig.manage(import(&definitions))), Reason::NotFound);
    assert!(rig.broker.queue_counters("third").is_none());
}

fn schema(subject: &str, text: &str) -> Candidate {
    let source = Source::Text(text.to_owned());
    Candidate {
        subject: subject.to_owned(),
        schema: Schema::compile(&source, "M").expect("a schema").into(),
        source: Some(text.to_owned()),
        compatibility: None,
        refuses_unknown_fields: None,
    }
}

/// Groups and schemas are part of it, and what of them cannot be there keeps everything out.
#[test]
fn groups_and_schemas_come_with_the_topology() {
    let mut rig = Rig::with_q();
    let group = |queue: &str, name: &str| GroupSpec {
        queue: queue.to_owned(),
        name: name.to_owned(),
    };
    let (one, other) = (
        "syntax = \"proto3\"; message M { int32 n = 1; }",
        "syntax = \"proto3\"; message M { bytes n = 1; }",
    );
    let mut definitions = Definitions {
        version: 1,
        queues: vec![QueueSpec::new("new")],
        groups: vec![group("new", "g"), group("q", "g")],
        schemas: vec![schema("new", one)],
        ..Definitions::default()
    };
    let import = |definitions: &Definitions| Request::Import {
        definitions: Box::new(definitions.clone()),
    };
    for (bad, reason) in [
        (group("nowhere", "g"), Reason::NotFound),
        (group("q", "g"), Reason::Invalid),
    ] {
        let mut wrong = definitions.clone();
        wrong.groups.push(bad);
        assert_eq!(refused(rig.manage(import(&wrong))), reason);
    }
    assert!(
        rig.broker.queue_counters("new").is_none(),
        "nothing was made"
    );
    assert!(rig.broker.schemas.version("new", 0).is_none());
    for (created, unchanged) in [(2, 0), (0, 2)] {
        let Reply::Imported(done) = rig.manage(import(&definitions)) else {
            panic!("not imported")
        };
        assert_eq!(
            (done.created.groups, done.unchanged.groups),
            (created, unchanged)
        );
        assert_eq!(
            (done.created.schemas, done.unchanged.schemas),
            (created / 2, unchanged / 2)
        );
    }
    // It holds for what is published from now on: an AMQP message of text is none.
    let publish = Request::Publish {
        to: PublishTo::Queue("new".into()),
        message: message("x", durable()),
    };
    assert_eq!(refused(rig.manage(publish)), Reason::Undecodable);
    definitions.queues.push(QueueSpec::new("third"));
    definitions.schemas[0] = schema("new", other);
    match rig.manage(import(&definitions)) {
        Reply::Conflict { field, .. } => assert_eq!(field, "schemas"),
        other => panic!("{other:?}"),
    }
    assert!(rig.broker.queue_counters("third").is_none());
    definitions.schemas = vec![schema("q", one), schema("q", one)];
    assert_eq!(refused(rig.manage(import(&definitions))), Reason::Invalid);
}

#[test]
fn counts_never_fall_when_queues_go() {
    let mut rig = Rig::with_q();
    rig.produce(A, P, named("q"));
    rig.publish(A, P, message("m", durable()));
    rig.consume(A, C, consumer(named("q")));
    rig.permit(A, C, 1);
    rig.settle(A, C, 0, 0, failed());
    rig.permit(A, C, 2);
    rig.settle(A, C, 1, 1, Outcome::Accepted);
    let totals = |rig: &mut Rig| match rig.manage(Request::Stats) {
        Reply::Stats(stats) => stats.totals,
        other => panic!("{other:?}"),
    };
    let before = totals(&mut rig);
    assert_eq!(
        (
            before.published,
            before.delivered,
            before.redelivered,
            before.nacked,
            before.acked
        ),
        (1, 2, 1, 1, 1)
    );
    let delete = Request::DeleteQueue {
        name: "q".into(),
        if_unused: false,
        if_empty: false,
    };
    assert_eq!(rig.manage(delete), Reply::QueueDeleted { messages: 0 });
    assert_eq!(totals(&mut rig), before);
}

#[test]
fn links_are_listed_of_one_connection_and_to_one_queue() {
    let mut rig = Rig::with_q();
    rig.consume(A, C, consumer(named("q")));
    rig.produce(A, P, named("q"));
    rig.consume(B, C, consumer(named("q")));
    let mut listed = |conn, node: Option<&str>| -> Vec<(ConnId, Port)> {
        let node = node.map(str::to_owned);
        match rig.manage(Request::Links {
            from: 0,
            conn,
            node,
        }) {
            Reply::Links(page) => {
                assert_eq!(page.next, None);
                page.items.iter().map(|row| (row.conn, row.port)).collect()
            }
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(listed(None, None), [(A, P), (A, C), (B, C)]);
    assert_eq!(listed(Some(B), None), [(B, C)]);
    assert_eq!(listed(Some(A), Some("q")), [(A, P), (A, C)]);
    assert_eq!(listed(Some(A), Some("x")), []);
    assert_eq!(listed(Some(ConnId(u64::MAX)), None), []);
}

#[test]
fn a_connection_is_asked_about_itself_and_shown_without_when_it_is_silent() {
    let mut rig = Rig::with_q();
    rig.consume(A, C, consumer(named("q")));
    rig.ask(4, Request::Link { conn: A, port: C });
    assert_eq!(rig.answers(), []);
    rig.now.mono += std::time::Duration::from_secs(2);
    rig.run_timers();
    match &rig.answers()[..] {
        [(4, Reply::Link(link))] => {
            assert_eq!(link.address.as_deref(), Some("q"));
            let codes: Vec<_> = link.waits.iter().map(|why| why.code).collect();
            assert_eq!(codes, ["no-message", "no-credit"]);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        refused(rig.manage(Request::Link { conn: B, port: C })),
        Reason::NotFound
    );
}
