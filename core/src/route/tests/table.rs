//! Declarations, bindings and deliveries, one rule per test.

use std::sync::Arc;

use crate::route::{
    BindingSpec, Datum, ExchangeKind, ExchangeSpec, Exchanges, Headers, NoHeaders, QueueRef,
    Removed, Routed, Scalar, TableLimits, predeclared,
};
use crate::vocab::{QueueId, Reason};

const NOTHING: [u64; 0] = [];

/// Properties that must not be read.
struct Unread;

impl Headers for Unread {
    fn each(&self, _each: &mut dyn FnMut(&str, Scalar<'_>)) {
        panic!("headers are read although nobody needs them");
    }
}

struct Listed(Vec<(&'static str, Datum)>);

impl Headers for Listed {
    fn each(&self, each: &mut dyn FnMut(&str, Scalar<'_>)) {
        self.0.as_slice().each(each);
    }
}

fn table() -> Exchanges {
    Exchanges::new(7, TableLimits::default())
}

fn queue(number: u64) -> QueueRef {
    QueueRef {
        id: QueueId(number),
        slot: 100 + usize::try_from(number).expect("small"),
    }
}

fn declare(table: &mut Exchanges, name: &str, kind: ExchangeKind) {
    let spec = ExchangeSpec::new(name, kind);
    assert_eq!(table.decide_declare(&spec), Ok(true));
    table.apply_declare(Arc::new(spec));
}

fn declare_auto_delete(table: &mut Exchanges, name: &str) {
    let mut spec = ExchangeSpec::new(name, ExchangeKind::Fanout);
    spec.auto_delete = true;
    table.apply_declare(Arc::new(spec));
}

fn bind(table: &mut Exchanges, spec: &BindingSpec, to: u64) -> Option<bool> {
    assert_eq!(table.decide_bind(spec), Ok(true), "{spec:?}");
    let queue = spec.queue.is_some().then_some((queue(to), true));
    table.apply_bind(Arc::new(spec.clone()), queue)
}

fn bind_queue(table: &mut Exchanges, exchange: &str, to: u64, key: &str) -> BindingSpec {
    let spec = BindingSpec::to_queue(exchange, &format!("q{to}"), key);
    assert_eq!(bind(table, &spec, to), Some(true));
    spec
}

fn bind_exchange(table: &mut Exchanges, exchange: &str, to: &str, key: &str) -> BindingSpec {
    let spec = BindingSpec::to_exchange(exchange, to, key);
    assert_eq!(bind(table, &spec, 0), Some(true));
    spec
}

fn routed(table: &mut Exchanges, exchange: &str, key: &str, headers: &dyn Headers) -> Vec<u64> {
    let id = table.find(exchange).expect(exchange);
    let mut out = vec![queue(999)];
    let what = table.route(id, key.as_bytes(), headers, &mut out);
    let expected = if out.is_empty() {
        Routed::Unroutable
    } else {
        Routed::Queues
    };
    assert_eq!(what, expected);
    let mut found: Vec<_> = out.iter().map(|queue| queue.id.0).collect();
    for found in &out {
        assert_eq!(*found, queue(found.id.0), "the slot comes back as it went");
    }
    found.sort_unstable();
    found
}

fn names(removed: &Removed) -> Vec<&str> {
    (removed.exchanges.iter())
        .map(|spec| spec.name.as_str())
        .collect()
}

#[test]
fn rt_08_every_kind_routes() {
    for (kind, name) in [
        (ExchangeKind::Direct, "direct"),
        (ExchangeKind::Topic, "topic"),
        (ExchangeKind::Fanout, "fanout"),
        (ExchangeKind::Headers, "headers"),
    ] {
        assert_eq!(ExchangeKind::parse(name), Some(kind));
        let mut table = table();
        declare(&mut table, "x", kind);
        let mut spec = BindingSpec::to_queue("x", "q1", "a.b");
        spec.arguments.insert("h".to_owned(), Datum::Int(1));
        let with = Listed(vec![("h", Datum::Int(1))]);
        assert_eq!(bind(&mut table, &spec, 1), Some(true));
        assert_eq!(routed(&mut table, "x", "a.b", &with), [1], "{name}");
        let other = routed(&mut table, "x", "a.c", &NoHeaders);
        let expected: &[u64] = if kind == ExchangeKind::Fanout {
            &[1]
        } else {
            &[]
        };
        assert_eq!(other, expected, "{name}");
    }
    assert_eq!(ExchangeKind::parse("x"), None);
}

#[test]
fn the_predeclared_exchanges_are_there_and_stay() {
    let mut table = table();
    for spec in predeclared() {
        if spec.name.is_empty() {
            let refusal = table.decide_declare(&spec).expect_err("it has no name");
            assert_eq!(refusal.reason, Reason::NotAllowed);
            assert_eq!(table.find(""), None);
        } else {
            assert_eq!(table.decide_declare(&spec), Ok(false), "{}", spec.name);
            assert!(table.find(&spec.name).is_some());
            bind_queue(&mut table, &spec.name, 1, "k");
        }
        let refusal = table.decide_delete(&spec.name, false).expect_err("stays");
        assert_eq!(refusal.reason, Reason::NotAllowed);
    }
    let refusal = table
        .decide_declare(&ExchangeSpec::new("amq.direct", ExchangeKind::Topic))
        .expect_err("another type");
    assert_eq!(refusal.reason, Reason::Invalid);
    assert!(refusal.text.contains("another type"), "{}", refusal.text);
    for name in ["amq.mine", "_mine"] {
        let refusal = table
            .decide_declare(&ExchangeSpec::new(name, ExchangeKind::Topic))
            .expect_err(name);
        assert_eq!(refusal.reason, Reason::NotAllowed);
    }
    for spec in [
        BindingSpec::to_queue("", "q1", "k"),
        BindingSpec::to_exchange("amq.direct", "", "k"),
    ] {
        let refusal = table.decide_bind(&spec).expect_err("no bindings");
        assert_eq!(refusal.reason, Reason::NotAllowed);
    }
}

#[test]
fn another_declaration_names_the_field() {
    let mut table = table();
    let spec = ExchangeSpec::new("x", ExchangeKind::Topic);
    let first = table.apply_declare(Arc::new(spec.clone()));
    assert_eq!(table.decide_declare(&spec), Ok(false));
    assert_eq!(table.apply_declare(Arc::new(spec.clone())), first);
    let mut durable = spec.clone();
    durable.durable = false;
    let mut auto_delete = spec.clone();
    auto_delete.auto_delete = true;
    let mut alternate_exchange = spec;
    alternate_exchange.alternate_exchange = Some("y".to_owned());
    for (other, field) in [
        (durable, "durable"),
        (auto_delete, "auto_delete"),
        (alternate_exchange, "alternate_exchange"),
    ] {
        let refusal = table.decide_declare(&other).expect_err(field);
        assert_eq!(refusal.reason, Reason::Invalid);
        assert!(refusal.text.ends_with(field), "{}", refusal.text);
    }
}

#[test]
fn limits_hold() {
    let limits = TableLimits {
        exchanges_max: 5,
        bindings_max: 1,
    };
    let mut table = Exchanges::new(7, limits);
    declare(&mut table, "x", ExchangeKind::Fanout);
    let refusal = table
        .decide_declare(&ExchangeSpec::new("y", ExchangeKind::Fanout))
        .expect_err("full");
    assert_eq!(refusal.reason, Reason::LimitExceeded);
    let first = bind_queue(&mut table, "x", 1, "");
    let refusal = table
        .decide_bind(&BindingSpec::to_queue("x", "q2", ""))
        .expect_err("full");
    assert_eq!(refusal.reason, Reason::LimitExceeded);
    assert_eq!(table.decide_bind(&first), Ok(false), "it is there already");
}

#[test]
fn a_binding_is_made_once_and_taken_away_once() {
    let mut table = table();
    let spec = bind_queue(&mut table, "amq.direct", 1, "k");
    assert_eq!(table.decide_bind(&spec), Ok(false));
    assert_eq!(
        table.apply_bind(Arc::new(spec.clone()), Some((queue(1), true))),
        Some(true)
    );
    let mut with_arguments = spec.clone();
    with_arguments
        .arguments
        .insert("a".to_owned(), Datum::Int(1));
    assert_eq!(bind(&mut table, &with_arguments, 1), Some(true));
    assert_eq!(table.bindings_len(), 2);
    assert_eq!(routed(&mut table, "amq.direct", "k", &Unread), [1]);
    let removed = table.apply_unbind(&spec);
    assert_eq!(removed.bindings, [(Arc::new(spec.clone()), true)]);
    assert_eq!(routed(&mut table, "amq.direct", "k", &Unread), [1]);
    assert_eq!(table.apply_unbind(&spec), Removed::default());
    assert_eq!(table.find_binding(&with_arguments), Some(true));
    table.apply_unbind(&with_arguments);
    assert_eq!(table.find_binding(&with_arguments), None);
    assert_eq!(routed(&mut table, "amq.direct", "k", &Unread), NOTHING);
}

#[test]
fn a_binding_is_durable_when_both_ends_are() {
    let mut table = table();
    let mut volatile = ExchangeSpec::new("volatile", ExchangeKind::Fanout);
    volatile.durable = false;
    table.apply_declare(Arc::new(volatile));
    let mut made = |spec: BindingSpec, is_durable: bool| {
        let queue = spec.queue.is_some().then_some((queue(1), is_durable));
        table.apply_bind(Arc::new(spec), queue)
    };
    let durable = BindingSpec::to_queue("amq.fanout", "q1", "a");
    assert_eq!(made(durable, true), Some(true));
    let to_volatile = BindingSpec::to_queue("amq.fanout", "q1", "b");
    assert_eq!(made(to_volatile, false), Some(false));
    let from_volatile = BindingSpec::to_queue("volatile", "q1", "");
    assert_eq!(made(from_volatile, true), Some(false));
    let e2e = BindingSpec::to_exchange("amq.fanout", "volatile", "");
    assert_eq!(made(e2e, true), Some(false));
    assert_eq!(made(BindingSpec::to_queue("none", "q1", ""), true), None);
    let mut bad = BindingSpec::to_queue("amq.headers", "q1", "");
    bad.arguments
        .insert("x-match".to_owned(), "sometimes".into());
    assert_eq!(made(bad.clone(), true), None);
    let refusal = table.decide_bind(&bad).expect_err("rt_06: no such mode");
    assert_eq!(refusal.reason, Reason::Invalid);
}

#[test]
fn bindings_between_exchanges_deliver_once_and_end() {
    let mut table = table();
    for name in ["a", "b", "c"] {
        declare(&mut table, name, ExchangeKind::Fanout);
    }
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "a"), ("a", "c"), ("a", "a")] {
        bind_exchange(&mut table, from, to, "");
    }
    for (exchange, to) in [("a", 1), ("b", 1), ("b", 2), ("c", 2), ("c", 3)] {
        bind_queue(&mut table, exchange, to, "");
    }
    for start in ["a", "b", "c"] {
        assert_eq!(routed(&mut table, start, "", &Unread), [1, 2, 3], "{start}");
    }
    let refusal = table
        .decide_bind(&BindingSpec::to_exchange("a", "none", ""))
        .expect_err("none");
    assert_eq!(refusal.reason, Reason::NotFound);
}

#[test]
fn the_key_and_the_headers_go_along() {
    let mut table = table();
    bind_exchange(&mut table, "amq.topic", "amq.direct", "a.#");
    bind_exchange(&mut table, "amq.topic", "amq.headers", "a.#");
    bind_queue(&mut table, "amq.direct", 1, "a.b");
    bind_queue(&mut table, "amq.direct", 2, "a.c");
    let mut spec = BindingSpec::to_queue("amq.headers", "q3", "");
    spec.arguments.insert("h".to_owned(), Datum::Int(1));
    bind(&mut table, &spec, 3);
    let with = Listed(vec![("h", Datum::Uint(1))]);
    assert_eq!(routed(&mut table, "amq.topic", "a.b", &with), [1, 3]);
    assert_eq!(routed(&mut table, "amq.topic", "a.c", &NoHeaders), [2]);
    assert_eq!(routed(&mut table, "amq.topic", "b", &Unread), NOTHING);
}

#[test]
fn what_finds_no_binding_goes_to_the_alternate_exchange() {
    let mut table = table();
    for (name, alternate) in [("x", "y"), ("y", "x"), ("lost", "nowhere")] {
        let mut spec = ExchangeSpec::new(name, ExchangeKind::Direct);
        spec.alternate_exchange = Some(alternate.to_owned());
        table.apply_declare(Arc::new(spec));
    }
    bind_queue(&mut table, "x", 1, "k");
    bind_queue(&mut table, "y", 2, "k");
    bind_queue(&mut table, "y", 3, "other");
    assert_eq!(routed(&mut table, "x", "k", &Unread), [1]);
    assert_eq!(routed(&mut table, "x", "other", &Unread), [3]);
    assert_eq!(routed(&mut table, "y", "k", &Unread), [2]);
    assert_eq!(routed(&mut table, "x", "none", &Unread), NOTHING);
    assert_eq!(routed(&mut table, "lost", "k", &Unread), NOTHING);
    declare(&mut table, "nowhere", ExchangeKind::Fanout);
    bind_queue(&mut table, "nowhere", 4, "");
    assert_eq!(routed(&mut table, "lost", "k", &Unread), [4]);
}

#[test]
fn a_deleted_queue_takes_its_bindings_along() {
    let mut table = table();
    let kinds = ["amq.direct", "amq.topic", "amq.fanout", "amq.headers"];
    for exchange in kinds {
        bind_queue(&mut table, exchange, 1, "k");
        bind_queue(&mut table, exchange, 1, "k2");
        bind_queue(&mut table, exchange, 2, "k");
    }
    assert_eq!(table.bindings_to(QueueId(1)).count(), 8);
    let removed = table.apply_queue_deleted(QueueId(1));
    assert_eq!(removed.bindings.len(), 8);
    assert_eq!(removed.exchanges, []);
    for exchange in kinds {
        assert_eq!(routed(&mut table, exchange, "k", &NoHeaders), [2]);
        assert_eq!(table.bindings_out_of(exchange, 0).count(), 1);
    }
    assert_eq!(table.bindings_to(QueueId(1)).count(), 0);
    assert_eq!(table.apply_queue_deleted(QueueId(1)), Removed::default());
}

#[test]
fn an_auto_delete_exchange_goes_with_its_last_binding() {
    let mut table = table();
    declare_auto_delete(&mut table, "x");
    let id = table.find("x").expect("not before it had one");
    let first = bind_queue(&mut table, "x", 1, "");
    bind_queue(&mut table, "x", 2, "");
    assert_eq!(table.apply_unbind(&first).exchanges, []);
    assert_eq!(names(&table.apply_queue_deleted(QueueId(2))), ["x"]);
    assert_eq!(table.find("x"), None);
    let mut out = Vec::new();
    assert_eq!(table.route(id, b"", &Unread, &mut out), Routed::Gone);
    // A new one of the same name is another one, although it takes the same place.
    declare_auto_delete(&mut table, "x");
    assert_eq!(table.route(id, b"", &Unread, &mut out), Routed::Gone);
    assert_eq!(table.spec(id), None);
}

#[test]
fn auto_deletion_runs_up_a_chain_of_exchanges() {
    let mut table = table();
    let chain: Vec<_> = (0..5_000).map(|n| format!("x{n}")).collect();
    for name in &chain {
        declare_auto_delete(&mut table, name);
    }
    for pair in chain.windows(2) {
        bind_exchange(&mut table, &pair[0], &pair[1], "");
    }
    bind_queue(&mut table, chain.last().expect("not empty"), 1, "");
    assert_eq!(routed(&mut table, "x0", "", &Unread), [1]);
    let removed = table.apply_queue_deleted(QueueId(1));
    assert_eq!(removed.exchanges.len(), 5_000);
    assert_eq!(table.bindings_len(), 0);
}

#[test]
fn deletion_takes_bindings_from_and_to_it() {
    let mut table = table();
    declare(&mut table, "x", ExchangeKind::Topic);
    bind_queue(&mut table, "x", 1, "#");
    bind_exchange(&mut table, "x", "x", "#");
    bind_exchange(&mut table, "amq.fanout", "x", "");
    bind_queue(&mut table, "amq.fanout", 2, "");
    assert_eq!(routed(&mut table, "amq.fanout", "", &Unread), [1, 2]);
    let refusal = table.decide_delete("x", true).expect_err("in use");
    assert_eq!(refusal.reason, Reason::Invalid);
    assert_eq!(table.decide_delete("x", false), Ok(()));
    let removed = table.apply_delete("x");
    assert_eq!(names(&removed), ["x"]);
    assert_eq!(removed.bindings.len(), 3);
    assert_eq!(routed(&mut table, "amq.fanout", "", &Unread), [2]);
    assert_eq!(table.bindings_len(), 1);
    let refusal = table.decide_delete("x", false).expect_err("gone");
    assert_eq!(refusal.reason, Reason::NotFound);
    assert_eq!(table.apply_delete("x"), Removed::default());
}

#[test]
fn every_change_and_nothing_else_makes_a_new_generation() {
    let mut table = table();
    let mut last = table.generation();
    let mut has_changed = |table: &Exchanges| {
        let before = std::mem::replace(&mut last, table.generation());
        before != last
    };
    declare(&mut table, "x", ExchangeKind::Fanout);
    assert!(has_changed(&table), "declared");
    let spec = bind_queue(&mut table, "x", 1, "");
    assert!(has_changed(&table), "bound");
    table.apply_bind(Arc::new(spec.clone()), Some((queue(1), true)));
    table.apply_declare(Arc::new(ExchangeSpec::new("x", ExchangeKind::Fanout)));
    routed(&mut table, "x", "", &Unread);
    assert!(!has_changed(&table), "there already, and routed");
    table.apply_unbind(&spec);
    assert!(has_changed(&table), "unbound");
    table.apply_unbind(&spec);
    table.apply_queue_deleted(QueueId(1));
    assert!(!has_changed(&table), "gone already");
    bind_queue(&mut table, "x", 1, "");
    assert!(has_changed(&table), "bound again");
    table.apply_queue_deleted(QueueId(1));
    assert!(has_changed(&table), "the queue is deleted");
    table.apply_delete("x");
    assert!(has_changed(&table), "deleted");
}
