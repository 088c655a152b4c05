//! The tests of this client about exchanges, dead letters and the second settle mode. Names and meanings are those of
//! the Python and Node clients.
use crate::Args;
use crate::link::{
    Conn, Got, Login, Msg, R, accept, body, credit, eq, from, left, send, send_all, take, unique,
    value, within,
};
use crate::tests::{one, word};
use fe2o3_amqp::{Receiver, Sendable, Sender};
use fe2o3_amqp_types::definitions::{Fields, ReceiverSettleMode, SenderSettleMode};
use fe2o3_amqp_types::messaging::annotations::OwnedKey;
use fe2o3_amqp_types::messaging::{
    ApplicationProperties, Message, Outcome, Properties, Source, TerminusDurability,
    TerminusExpiryPolicy,
};
use fe2o3_amqp_types::primitives::{SimpleValue, Symbol};
use serde_amqp::Value;

async fn open(a: &Args) -> R<Conn> {
    Conn::open(a.port, Login::Anonymous).await
}

fn exchange(name: &str) -> String {
    format!("/exchanges/interop-rust-{name}")
}

async fn bodies(c: &mut Conn, queue: &str) -> R<Vec<Value>> {
    let left = left(c, queue).await?;
    Ok(left.into_iter().map(|(body, _)| body).collect())
}

/// A receiver says its outcome and waits until the broker has settled the delivery: the library does the waiting when
/// its link closes, and what it has not settled comes again.
async fn second_mode(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("second-mode"));
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, (0..3).map(Value::Int)).await?;
    let builder = Receiver::builder()
        .name(unique("rx"))
        .source(q.as_str())
        .receiver_settle_mode(ReceiverSettleMode::Second)
        .auto_accept(false);
    let mut rx = within("attach of a receiver", builder.attach(&mut c.session)).await?;
    for n in 0..3 {
        let d = take(&mut rx).await?;
        eq(body(&d), Value::Int(n), "bodies in order")?;
        if n == 1 {
            within("release", rx.release(&d)).await?;
        } else {
            accept(&rx, &d).await?;
        }
    }
    within("close of the link", rx.close()).await?;
    eq(
        bodies(&mut c, &q).await?,
        vec![Value::Int(1)],
        "left on the queue",
    )?;
    c.close().await
}

fn keyed(key: &str) -> Msg {
    Message {
        properties: Some(Properties {
            subject: Some(key.into()),
            ..Default::default()
        }),
        ..value(word(key))
    }
}

async fn topic(a: &Args) -> R {
    let mut c = open(a).await?;
    let mut tx = c.sender(&exchange("topic")).await?;
    for (key, want) in [
        ("a.1", "accepted"),
        ("b.1.2", "accepted"),
        ("a.1.2", "released"),
    ] {
        eq(send(&mut tx, keyed(key)).await?, want, key)?;
    }
    let (of_a, of_b) = (a.queue_for("route-topic"), a.queue_for("route-topic-b"));
    eq(
        bodies(&mut c, &of_a).await?,
        vec![word("a.1")],
        "what a.* takes",
    )?;
    eq(
        bodies(&mut c, &of_b).await?,
        vec![word("b.1.2")],
        "what b.# takes",
    )?;
    c.close().await
}

async fn outcome(tx: &mut Sender, message: Msg) -> R<Outcome> {
    let sendable = Sendable {
        message,
        message_format: 0,
        settled: Some(false),
    };
    within("outcome", tx.send(sendable)).await
}

fn named(info: &Option<Box<Fields>>, key: &str) -> Option<Value> {
    info.as_ref()?.get(&Symbol(key.into())).cloned()
}

/// Every queue or none: one of them has room for one message.
async fn fanout(a: &Args) -> R {
    let mut c = open(a).await?;
    let (q, full) = (a.queue_for("route-fanout"), a.queue_for("route-fanout-b"));
    let mut tx = c.sender(&exchange("fanout")).await?;
    eq(send(&mut tx, value(1)).await?, "accepted", "outcome")?;
    let Outcome::Rejected(rejected) = outcome(&mut tx, value(2)).await? else {
        return Err("accepted although one queue is full".into());
    };
    let error = rejected.error.ok_or("no error")?;
    if !format!("{:?}", error.condition).contains("ResourceLimitExceeded") {
        return Err(format!("condition {:?}", error.condition));
    }
    eq(named(&error.info, "queue"), Some(word(&full)), "the queue")?;
    let exchange = Some(word("interop-rust-fanout"));
    eq(named(&error.info, "exchange"), exchange, "the exchange")?;
    for queue in [&q, &full] {
        eq(
            bodies(&mut c, queue).await?,
            vec![Value::Int(1)],
            "on the queue",
        )?;
    }
    c.close().await
}

async fn headers(a: &Args) -> R {
    let mut c = open(a).await?;
    let mut tx = c.sender(&exchange("headers")).await?;
    let with = |n: i32, size: Option<u8>| {
        let mut builder = ApplicationProperties::builder().insert("region", "eu");
        if let Some(size) = size {
            builder = builder.insert("size", SimpleValue::Ubyte(size));
        }
        Message {
            application_properties: Some(builder.build()),
            ..value(n)
        }
    };
    eq(
        send(&mut tx, with(0, Some(7))).await?,
        "accepted",
        "outcome of both",
    )?;
    eq(
        send(&mut tx, with(1, None)).await?,
        "released",
        "outcome of one",
    )?;
    let q = a.queue_for("route-headers");
    eq(
        bodies(&mut c, &q).await?,
        vec![Value::Int(0)],
        "on the queue",
    )?;
    c.close().await
}

/// Each receiver from an exchange has a copy of its own; a durable one collects while it is away.
async fn subscription(a: &Args) -> R {
    let address = exchange("topic") + "/sub";
    let container = "interop-rust-subscriber".to_owned();
    let mut c = Conn::open_as(a.port, Login::Anonymous, container.clone(), None).await?;
    let durable = || Source {
        durable: TerminusDurability::Configuration,
        expiry_policy: TerminusExpiryPolicy::Never,
        ..from(&address)
    };
    let mut mine = c.receiver(&address).await?;
    let kept = c
        .receiver_with(durable(), "kept".into(), SenderSettleMode::Mixed)
        .await?;
    within("detach", async {
        kept.detach().await.map_err(|e| format!("{e:?}"))
    })
    .await?;
    let mut tx = c.sender(&address).await?;
    send_all(&mut tx, [word("m")]).await?;
    let mut kept = c
        .receiver_with(durable(), "kept".into(), SenderSettleMode::Mixed)
        .await?;
    for rx in [&mut mine, &mut kept] {
        credit(rx, 10).await?;
        let d = take(rx).await?;
        eq(body(&d), word("m"), "delivery")?;
        accept(rx, &d).await?;
    }
    within("close of the link", kept.close()).await?;
    c.close().await
}

fn annotation(d: &Got, key: &str) -> Option<Value> {
    let annotations = d.message().message_annotations.as_ref()?;
    let key = OwnedKey::Symbol(Symbol(key.into()));
    annotations.0.get(&key).cloned()
}

async fn dead_letter(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("dead-letter"));
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, [word("m")]).await?;
    let mut rx = c.receiver(&q).await?;
    credit(&mut rx, 1).await?;
    let d = take(&mut rx).await?;
    within("reject", rx.reject(&d, None)).await?;
    let mut dead = c.receiver(&format!("{q}.dlq")).await?;
    credit(&mut dead, 1).await?;
    let d = take(&mut dead).await?;
    eq(body(&d), word("m"), "body")?;
    for (key, want) in [
        ("x-opt-death-reason", word("rejected")),
        ("x-opt-death-queue", word(&q)),
        ("x-opt-death-count", Value::Ulong(1)),
    ] {
        eq(annotation(&d, key), Some(want), key)?;
    }
    let Some(Value::List(deaths)) = annotation(&d, "x-opt-deaths") else {
        return Err("no list of deaths".into());
    };
    eq(deaths.len(), 1, "deaths")?;
    accept(&dead, &d).await?;
    c.close().await
}

/// Runs every test and prints a line for each.
pub async fn run(a: &Args) {
    one(a, "second-mode", second_mode(a)).await;
    one(a, "route-topic", topic(a)).await;
    one(a, "route-fanout", fanout(a)).await;
    one(a, "route-headers", headers(a)).await;
    one(a, "subscription", subscription(a)).await;
    one(a, "dead-letter", dead_letter(a)).await;
}
