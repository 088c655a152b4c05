//! Receivers from exchanges: whose messages they get, what outlives them and what does not.

use bytes::Bytes;

use super::exchanges::{exchange, keyed};
use super::harness::*;
use crate::broker::{BrokerConfig, Event, Limits};
use crate::route::{BINDING_KEY_LEN_MAX, BindingSpec, ExchangeKind, ExchangeSpec};
use crate::store::Op;
use crate::vocab::{
    Address, Command, ConnId, ConsumerOpened, ConsumerSpec, ExpiryPolicy, LinkKey, NodeKind,
    Notice, Port, Reason, SubscriptionSpec, TerminusDurability,
};

const KEPT: SubscriptionSpec = SubscriptionSpec {
    durability: TerminusDurability::UnsettledState,
    expiry: ExpiryPolicy::Never,
    is_shared: false,
    is_global: false,
};

fn of(container: &str, name: &str) -> Option<LinkKey> {
    Some(LinkKey {
        container: Bytes::copy_from_slice(container.as_bytes()),
        name: Bytes::copy_from_slice(name.as_bytes()),
    })
}

fn subscriber(key: Option<LinkKey>, address: Address, spec: SubscriptionSpec) -> ConsumerSpec {
    ConsumerSpec {
        key,
        subscription: spec,
        ..consumer(address)
    }
}

/// Opens a consumer and gives it permit.
fn open(
    rig: &mut Rig,
    conn: ConnId,
    port: Port,
    spec: ConsumerSpec,
) -> Result<ConsumerOpened, Reason> {
    rig.consume(conn, port, spec);
    match rig.told(conn).pop() {
        Some(Notice::ConsumerOpened { opened, .. }) => {
            rig.permit(conn, port, 100);
            Ok(*opened)
        }
        Some(Notice::Refused { refusal, .. }) => Err(refusal.reason),
        other => panic!("{other:?}"),
    }
}

/// Detaches a consumer, or closes it for good.
fn close(rig: &mut Rig, conn: ConnId, port: Port, forget: bool) {
    let lost = false;
    rig.command(conn, Command::Close { port, forget, lost });
}

/// A broker with a topic exchange `news` and a producer to it.
fn news() -> Rig {
    let mut rig = Rig::new(BrokerConfig {
        exchanges: vec![ExchangeSpec::new("news", ExchangeKind::Topic)],
        ..config([])
    });
    rig.produce(A, P, exchange("news", None));
    rig.told(A);
    rig
}

fn say(rig: &mut Rig, key: &str) {
    let mut envelope = keyed(key);
    envelope.durable = true;
    rig.publish(A, P, message(key, envelope));
    rig.told(A);
}

fn queues(rig: &Rig) -> usize {
    rig.broker.counters().queues
}

#[test]
fn every_receiver_gets_its_own_copy_of_what_its_key_takes() {
    let mut rig = news();
    let private = SubscriptionSpec::default();
    let all = subscriber(key("all"), exchange("news", None), private.clone());
    let some = subscriber(key("some"), exchange("news", Some("*.uk")), private);
    let opened = open(&mut rig, B, C, all).expect("it opens");
    assert_eq!(
        (opened.kind, &opened.name[..]),
        (NodeKind::Exchange, "news")
    );
    assert_eq!(opened.subscription.durability, TerminusDurability::None);
    open(&mut rig, B, D, some).expect("it opens");
    for key in ["a.uk", "a.fr", "b.uk"] {
        say(&mut rig, key);
    }
    let told = rig.told(B);
    let of_port = |port| {
        let texts = told.iter().filter_map(move |notice| match notice {
            Notice::Deliver { port: p, delivered } if *p == port => Some(text(delivered)),
            _ => None,
        });
        texts.collect::<Vec<_>>()
    };
    assert_eq!(of_port(C), ["a.uk", "a.fr", "b.uk"]);
    assert_eq!(of_port(D), ["a.uk", "b.uk"]);
    // They go with their links, and their bindings with them.
    close(&mut rig, B, C, false);
    close(&mut rig, B, D, true);
    assert_eq!((queues(&rig), rig.broker.bindings().count()), (0, 0));
}

#[test]
fn a_kept_subscription_collects_while_nobody_reads_and_over_a_restart() {
    let mut rig = news();
    let address = exchange("news", Some("#"));
    let spec = || subscriber(of("client", "sub"), address.clone(), KEPT);
    let opened = open(&mut rig, B, C, spec()).expect("it opens");
    let effective = &opened.subscription;
    assert_eq!(effective.durability, TerminusDurability::Configuration);
    assert_eq!(effective.expiry, ExpiryPolicy::Never);
    close(&mut rig, B, C, false);
    say(&mut rig, "1");
    let mut rig = rig.restarted(BrokerConfig::default());
    rig.produce(A, P, exchange("news", None));
    say(&mut rig, "2");
    open(&mut rig, B, C, spec()).expect("it goes on");
    assert_eq!(rig.texts(B, C), ["1", "2"]);
    // Another container's link of the same name is another subscription.
    let other = subscriber(of("other", "sub"), address.clone(), KEPT);
    open(&mut rig, B, D, other).expect("it opens");
    assert_eq!(queues(&rig), 2);
    // Closing ends it, detaching and losing the connection do not.
    close(&mut rig, B, D, true);
    assert_eq!(queues(&rig), 1);
    rig.event(Event::Disconnected { conn: B });
    assert_eq!(queues(&rig), 1);
}

/// The store would keep a binding that it was told twice when it is told once that it goes.
#[test]
fn a_subscription_that_goes_on_is_bound_once() {
    let mut rig = news();
    let spec = subscriber(of("client", "sub"), exchange("news", Some("a")), KEPT);
    for _ in 0..3 {
        open(&mut rig, B, C, spec.clone()).expect("it opens");
        close(&mut rig, B, C, false);
    }
    let ops = rig.log.iter().flat_map(|batch| &batch.ops);
    let is_bound = |op: &&Op| matches!(op, Op::Bound { .. });
    assert_eq!(ops.filter(is_bound).count(), 1);
    let binding = rig
        .broker
        .bindings()
        .next()
        .map(|spec| BindingSpec::clone(spec));
    let binding = binding.expect("it is bound");
    let now = rig.now;
    rig.broker.unbind(now, &binding, None).expect("it is there");
    rig.flush();
    let rig = rig.restarted(BrokerConfig::default());
    assert_eq!(rig.broker.bindings().count(), 0);
}

#[test]
fn asking_for_a_kept_subscription_with_another_key_begins_it_anew() {
    let mut rig = news();
    let spec = |key| subscriber(of("client", "sub"), exchange("news", Some(key)), KEPT);
    open(&mut rig, B, C, spec("a")).expect("it opens");
    close(&mut rig, B, C, false);
    say(&mut rig, "a");
    open(&mut rig, B, C, spec("b")).expect("it begins anew");
    say(&mut rig, "a");
    say(&mut rig, "b");
    assert_eq!(rig.texts(B, C), ["b"]);
    assert_eq!(queues(&rig), 1);
}

#[test]
fn what_is_not_durable_but_kept_lives_as_long_as_the_broker() {
    let mut rig = news();
    let kept = SubscriptionSpec {
        durability: TerminusDurability::None,
        ..KEPT
    };
    let spec = subscriber(of("client", "sub"), exchange("news", None), kept);
    let opened = open(&mut rig, B, C, spec.clone()).expect("it opens");
    assert_eq!(opened.subscription.durability, TerminusDurability::None);
    close(&mut rig, B, C, false);
    say(&mut rig, "1");
    open(&mut rig, B, C, spec).expect("it goes on");
    assert_eq!(rig.texts(B, C), ["1"]);
    assert_eq!(queues(&rig.restarted(BrokerConfig::default())), 0);
}

#[test]
fn links_of_a_shared_subscription_take_turns() {
    for (durability, is_kept) in [
        (TerminusDurability::None, false),
        (TerminusDurability::Configuration, true),
    ] {
        let mut rig = news();
        let shared = |is_global| SubscriptionSpec {
            durability,
            expiry: if is_kept {
                ExpiryPolicy::Never
            } else {
                ExpiryPolicy::SessionEnd
            },
            is_shared: true,
            is_global,
        };
        let address = || exchange("news", None);
        let local = |name| subscriber(of("client", name), address(), shared(false));
        open(&mut rig, B, C, local("sub|1")).expect("it opens");
        open(&mut rig, A, C, local("sub|2")).expect("it opens");
        assert_eq!(queues(&rig), 1);
        say(&mut rig, "1");
        say(&mut rig, "2");
        let waiting = rig.broker.counters();
        assert_eq!((waiting.messages, waiting.unsettled), (2, 2));
        // One for everybody is another one; one that does not share is kept out.
        let other = subscriber(of("other", "sub"), address(), shared(true));
        let opened = open(&mut rig, B, D, other).expect("it opens");
        assert!(opened.subscription.is_global);
        assert_eq!(queues(&rig), 2);
        if is_kept {
            let alone = subscriber(of("client", "sub"), address(), KEPT);
            assert_eq!(open(&mut rig, A, D, alone), Err(Reason::Locked));
        }
        // The last of its links ends it; a kept one only by closing.
        close(&mut rig, B, D, true);
        close(&mut rig, B, C, true);
        assert_eq!(queues(&rig), 1);
        close(&mut rig, A, C, false);
        assert_eq!(queues(&rig), usize::from(is_kept));
    }
}

#[test]
fn a_kept_subscription_is_found_by_its_name_and_ended() {
    let mut rig = news();
    let spec = subscriber(of("client", "sub"), exchange("news", None), KEPT);
    let look = |name| {
        subscriber(
            of("client", name),
            Address::Subscription,
            SubscriptionSpec::default(),
        )
    };
    assert_eq!(open(&mut rig, B, D, look("sub")), Err(Reason::NotFound));
    open(&mut rig, B, C, spec).expect("it opens");
    close(&mut rig, B, C, false);
    let found = open(&mut rig, B, D, look("sub")).expect("it is there");
    assert_eq!(found.name, "news");
    assert_eq!(found.subscription.expiry, ExpiryPolicy::Never);
    assert_eq!(open(&mut rig, B, C, look("none")), Err(Reason::NotFound));
    close(&mut rig, B, D, true);
    assert_eq!(queues(&rig), 0);
}

#[test]
fn what_cannot_be_subscribed_to_is_told_why() {
    let mut rig = news();
    let mut reason = |spec| open(&mut rig, B, C, spec).map(|_| ());
    let private = SubscriptionSpec::default;
    let from = |address| subscriber(key("s"), address, private());
    let direct = exchange("amq.direct", None);
    assert_eq!(reason(from(direct)), Err(Reason::Invalid));
    assert_eq!(reason(from(exchange("", Some("q")))), Err(Reason::NotFound));
    assert_eq!(reason(from(exchange("none", None))), Err(Reason::NotFound));
    assert_eq!(reason(from(named("news"))), Err(Reason::NotFound));
    let nameless = subscriber(None, exchange("news", None), KEPT);
    assert_eq!(reason(nameless), Err(Reason::Invalid));
    let long = "é".repeat(50);
    let long = subscriber(of("client", &long), exchange("news", None), KEPT);
    assert_eq!(reason(long), Err(Reason::LimitExceeded));
    assert_eq!(queues(&rig), 0);
}

#[test]
fn a_receiver_is_told_when_its_exchange_goes_and_a_kept_subscription_stays() {
    let mut rig = news();
    let spec = subscriber(of("client", "sub"), exchange("news", None), KEPT);
    open(&mut rig, B, C, spec.clone()).expect("it opens");
    close(&mut rig, B, C, false);
    say(&mut rig, "1");
    open(&mut rig, B, C, spec.clone()).expect("it goes on");
    rig.told(B);
    rig.broker
        .delete_exchange(rig.now, "news", false)
        .expect("it is there");
    rig.flush();
    assert!(matches!(
        &rig.told(B)[..],
        [Notice::Closed { port: C, refusal }] if refusal.reason == Reason::Deleted
    ));
    assert_eq!(open(&mut rig, B, C, spec.clone()), Err(Reason::NotFound));
    let again = ExchangeSpec::new("news", ExchangeKind::Topic);
    rig.broker.declare_exchange(again).expect("it is free");
    open(&mut rig, B, D, spec).expect("it goes on with the new one");
    assert_eq!(rig.texts(B, D), ["1"]);
    assert_eq!(rig.broker.bindings().count(), 1);
}

#[test]
fn a_subscription_that_changes_its_key_keeps_the_exchange_that_would_go_with_it() {
    let spec = ExchangeSpec {
        auto_delete: true,
        ..ExchangeSpec::new("brief", ExchangeKind::Topic)
    };
    let mut rig = Rig::new(BrokerConfig {
        exchanges: vec![spec],
        limits: Limits {
            bindings_max: 1,
            ..Limits::default()
        },
        ..config([])
    });
    rig.produce(A, P, exchange("brief", None));
    rig.told(A);
    let spec = |key: &str| subscriber(of("client", "sub"), exchange("brief", Some(key)), KEPT);
    open(&mut rig, B, C, spec("a.*")).expect("it opens");
    close(&mut rig, B, C, false);
    // What cannot be bound leaves the subscription as it is.
    let long = "k".repeat(BINDING_KEY_LEN_MAX + 1);
    assert_eq!(
        open(&mut rig, B, C, spec(&long)).err(),
        Some(Reason::Invalid)
    );
    say(&mut rig, "a.1");
    open(&mut rig, B, C, spec("a.*")).expect("it opens");
    assert_eq!(rig.texts(B, C), ["a.1"]);
    close(&mut rig, B, C, false);
    open(&mut rig, B, C, spec("b.*")).expect("the exchange is still there");
    say(&mut rig, "b.1");
    assert_eq!(rig.texts(B, C), ["b.1"]);
    let stored: Vec<&Op> = rig.log.iter().flat_map(|batch| &batch.ops).collect();
    let is_deleted = |op: &&&Op| matches!(op, Op::ExchangeDeleted { .. });
    assert_eq!(stored.iter().filter(is_deleted).count(), 0);
    // With its last subscription it goes.
    close(&mut rig, B, C, true);
    assert_eq!(queues(&rig), 0);
    assert!(!rig.broker.exchanges().any(|spec| spec.name == "brief"));
}
