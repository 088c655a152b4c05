//! The tests of this client about the management node and about when a message is delivered to whom. Names and meanings
//! are those of the Python and Node clients.
use crate::Args;
use crate::link::{
    Conn, Got, Login, Msg, R, accept, body, credit, eq, left, send, send_all, take, take_all,
    value, within,
};
use crate::tests::{one, word};
use fe2o3_amqp::{Receiver, Sender};
use fe2o3_amqp_types::messaging::annotations::OwnedKey;
use fe2o3_amqp_types::messaging::{
    AmqpValue, ApplicationProperties, Body, MessageAnnotations, MessageId, Properties,
};
use fe2o3_amqp_types::primitives::{OrderedMap, SimpleValue, Symbol, Timestamp};
use serde_amqp::Value;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

async fn open(a: &Args) -> R<Conn> {
    Conn::open(a.port, Login::Anonymous).await
}

fn map(pairs: &[(&str, Value)]) -> Value {
    let mut map = OrderedMap::new();
    for (key, value) in pairs {
        map.insert(word(key), value.clone());
    }
    Value::Map(map)
}

fn entry(value: &Value, key: &str) -> Value {
    let Value::Map(map) = value else {
        return Value::Null;
    };
    map.get(&word(key)).cloned().unwrap_or(Value::Null)
}

/// Asks the node `$management`; answers come through a queue of the test.
struct Operator {
    requests: Sender,
    answers: Receiver,
    reply_to: String,
}

/// Status and map of an answer, and the number of things in a list.
struct Told {
    status: i32,
    body: Value,
    count: Option<SimpleValue>,
}

impl Operator {
    async fn new(c: &mut Conn, reply_to: String) -> R<Self> {
        let requests = c.sender("$management").await?;
        let mut answers = c.receiver(&reply_to).await?;
        credit(&mut answers, 100).await?;
        Ok(Self {
            requests,
            answers,
            reply_to,
        })
    }

    async fn ask(&mut self, told: &[(&str, &str)], body: Value) -> R<Told> {
        let mut properties = ApplicationProperties::builder();
        for (key, value) in told {
            properties = properties.insert(*key, *value);
        }
        let message = Msg {
            properties: Some(Properties {
                message_id: Some(MessageId::Ulong(7)),
                reply_to: Some(self.reply_to.clone()),
                ..Default::default()
            }),
            application_properties: Some(properties.build()),
            ..Msg::from(Body::Value(AmqpValue(body)))
        };
        eq(
            send(&mut self.requests, message).await?,
            "accepted",
            "outcome of a request",
        )?;
        let d = take(&mut self.answers).await?;
        accept(&self.answers, &d).await?;
        let properties = d.message().properties.as_ref();
        let correlation = properties.and_then(|p| p.correlation_id.clone());
        eq(correlation, Some(MessageId::Ulong(7)), "correlation-id")?;
        let told = d.message().application_properties.as_ref();
        let told = told.ok_or("no application properties")?;
        let Some(SimpleValue::Int(status)) = told.0.get("statusCode") else {
            return Err("no statusCode".into());
        };
        Ok(Told {
            status: *status,
            body: crate::link::body(&d),
            count: told.0.get("count").cloned(),
        })
    }

    async fn status(&mut self, told: &[(&str, &str)], body: Value) -> R<i32> {
        Ok(self.ask(told, body).await?.status)
    }
}

/// A queue with these settings, made by way of the management node.
async fn made(c: &mut Conn, a: &Args, test: &str, settings: &[(&str, Value)]) -> R<String> {
    let name = a.queue_for(&format!("{test}-made"));
    let mut operator = Operator::new(c, a.queue_for(test)).await?;
    let create = [("operation", "CREATE"), ("type", "queue"), ("name", &name)];
    let told = operator.ask(&create, map(settings)).await?;
    if ![200, 201].contains(&told.status) {
        return Err(format!("{:?}", told.body));
    }
    within("close of the link", operator.answers.close()).await?;
    Ok(name)
}

async fn management(a: &Args) -> R {
    let mut c = open(a).await?;
    let mut o = Operator::new(&mut c, a.queue_for("management")).await?;
    let (q, x) = (a.queue_for("management-made"), "interop-rust-made");
    let of = |operation, kind, name| [("operation", operation), ("type", kind), ("name", name)];
    let create = of("CREATE", "queue", &q);
    let settings = map(&[
        ("max_length", Value::Int(3)),
        ("x-overflow", word("drop-head")),
    ]);
    eq(o.status(&create, settings.clone()).await?, 201, "new queue")?;
    eq(o.status(&create, settings).await?, 200, "the same again")?;
    let other = map(&[("max_length", Value::Int(4))]);
    let conflict = o.ask(&create, other).await?;
    eq(conflict.status, 409, "another one of that name")?;
    eq(
        entry(&conflict.body, "field"),
        word("max_length"),
        "the field",
    )?;
    let topic = map(&[("type", word("topic"))]);
    let status = o.status(&of("CREATE", "exchange", x), topic).await?;
    eq(status, 201, "new exchange")?;
    let binding = map(&[
        ("exchange", word(x)),
        ("queue", word(&q)),
        ("routing_key", word("a.#")),
    ]);
    let bind = [("operation", "BIND")];
    eq(o.status(&bind, binding.clone()).await?, 201, "binding")?;
    let mut tx = c.sender(&format!("/exchanges/{x}/a.b")).await?;
    send_all(&mut tx, [word("m")]).await?;
    let read = of("READ", "queue", &q);
    let told = o.ask(&read, Value::Null).await?;
    eq(entry(&told.body, "depth"), Value::Long(1), "depth")?;
    let query = [("operation", "QUERY"), ("entityType", "binding")];
    let names = Value::List(vec![word("routing_key")]);
    let wanted = map(&[("queue", word(&q)), ("attributeNames", names)]);
    let told = o.ask(&query, wanted).await?;
    let row = Value::List(vec![word("a.#")]);
    eq(
        entry(&told.body, "results"),
        Value::List(vec![row]),
        "bindings",
    )?;
    eq(told.count, Some(SimpleValue::Long(1)), "their number")?;
    let unbind = [("operation", "UNBIND")];
    eq(o.status(&unbind, binding).await?, 204, "unbound")?;
    let told = o.ask(&of("PURGE", "queue", &q), Value::Null).await?;
    eq(entry(&told.body, "purged"), Value::Long(1), "purged")?;
    for (kind, name) in [("queue", q.as_str()), ("exchange", x)] {
        let status = o.status(&of("DELETE", kind, name), Value::Null).await?;
        eq(status, 204, "deleted")?;
    }
    eq(o.status(&read, Value::Null).await?, 404, "gone")?;
    let frob = of("FROB", "queue", &q);
    eq(o.status(&frob, Value::Null).await?, 501, "no operation")?;
    let wrong = map(&[("max_lenght", Value::Int(3))]);
    eq(o.status(&create, wrong).await?, 400, "no setting")?;
    c.close().await
}

/// Held too long, a message goes back and counts the attempt. (This library cannot say that it is still at work.)
async fn lock_timeout(a: &Args) -> R {
    let mut c = open(a).await?;
    let timeout = [("lock_timeout_ms", Value::Int(1_000))];
    let q = made(&mut c, a, "lock-timeout", &timeout).await?;
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, [word("m")]).await?;
    let mut rx = c.receiver(&q).await?;
    credit(&mut rx, 1).await?;
    take(&mut rx).await?;
    eq(left(&mut c, &q).await?, vec![], "held")?;
    let mut other = c.receiver(&q).await?;
    credit(&mut other, 1).await?;
    let d = take(&mut other).await?;
    eq(crate::link::delivery_count(&d), 1, "delivery-count")?;
    accept(&other, &d).await?;
    eq(left(&mut c, &q).await?, vec![], "left on the queue")?;
    c.close().await
}

fn annotated(message: Msg, key: &str, annotation: Value) -> Msg {
    let mut annotations = MessageAnnotations::default();
    let key = OwnedKey::Symbol(Symbol(key.into()));
    annotations.0.insert(key, annotation);
    Msg {
        message_annotations: Some(annotations),
        ..message
    }
}

async fn delay(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("delay"));
    let mut tx = c.sender(&q).await?;
    let began = Instant::now();
    let wall = SystemTime::now().duration_since(UNIX_EPOCH);
    let wall = wall.map_err(|e| e.to_string())?.as_millis();
    let then = Timestamp::from_milliseconds(i64::try_from(wall).map_err(|e| e.to_string())? + 600);
    let later = value(word("later"));
    for message in [
        annotated(later, "x-opt-delivery-delay", Value::Int(900)),
        annotated(
            value(word("then")),
            "x-opt-delivery-time",
            Value::Timestamp(then),
        ),
        value(word("now")),
    ] {
        eq(send(&mut tx, message).await?, "accepted", "outcome")?;
    }
    let mut rx = c.receiver(&q).await?;
    credit(&mut rx, 3).await?;
    for (want, at) in [("now", 0), ("then", 600), ("later", 900)] {
        let d = take(&mut rx).await?;
        accept(&rx, &d).await?;
        eq(body(&d), word(want), "order")?;
        // Clocks of whole milliseconds stand between.
        if began.elapsed() + Duration::from_millis(5) < Duration::from_millis(at) {
            return Err(format!("{want} came early"));
        }
    }
    c.close().await
}

async fn deduplication(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("deduplication"));
    let mut tx = c.sender(&q).await?;
    for (n, key) in [(1, "a"), (2, "a"), (3, "b")] {
        let message = annotated(value(n), "x-opt-dedup-id", word(key));
        eq(send(&mut tx, message).await?, "accepted", "outcome")?;
    }
    send_all(&mut tx, [Value::Int(4)]).await?;
    let bodies: Vec<Value> = left(&mut c, &q).await?.into_iter().map(|m| m.0).collect();
    eq(bodies, [1, 3, 4].map(Value::Int).to_vec(), "on the queue")?;
    c.close().await
}

/// One is served; when it goes, what it held comes first to the next.
async fn single_active(a: &Args) -> R {
    let mut c = open(a).await?;
    let single = [("single_active_consumer", Value::Bool(true))];
    let q = made(&mut c, a, "single-active", &single).await?;
    let (mut first, mut second) = (c.receiver(&q).await?, c.receiver(&q).await?);
    credit(&mut first, 1).await?;
    credit(&mut second, 10).await?;
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, (0..3).map(Value::Int)).await?;
    let d = take(&mut first).await?;
    eq(body(&d), Value::Int(0), "to the active one")?;
    let early = take_all(&mut second).await?;
    eq(early.len(), 0, "deliveries to the one that stands by")?;
    within("close of the link", first.close()).await?;
    for n in 0..3 {
        let d = take(&mut second).await?;
        eq(body(&d), Value::Int(n), "after the hand-over")?;
        accept(&second, &d).await?;
    }
    c.close().await
}

fn of_key(text: &str, key: Option<&str>) -> Msg {
    Msg {
        properties: Some(Properties {
            group_id: key.map(Into::into),
            ..Default::default()
        }),
        ..value(word(text))
    }
}

/// Of one key one message is out at a time, of others as many as there is credit for.
async fn ordering_key(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("ordering-key"));
    let mut tx = c.sender(&q).await?;
    for (text, key) in [
        ("a1", Some("a")),
        ("a2", Some("a")),
        ("b1", Some("b")),
        ("none", None),
    ] {
        eq(
            send(&mut tx, of_key(text, key)).await?,
            "accepted",
            "outcome",
        )?;
    }
    let mut rx = c.receiver(&q).await?;
    credit(&mut rx, 10).await?;
    let mut got: Vec<Got> = vec![];
    for _ in 0..3 {
        got.push(take(&mut rx).await?);
    }
    got.extend(take_all(&mut rx).await?);
    let bodies: Vec<Value> = got.iter().map(body).collect();
    eq(bodies, ["a1", "b1", "none"].map(word).to_vec(), "out")?;
    within("release", rx.release(&got[0])).await?;
    for d in &got[1..] {
        accept(&rx, d).await?;
    }
    for want in ["a1", "a2"] {
        let d = take(&mut rx).await?;
        eq(body(&d), word(want), "order of the key")?;
        let more = take_all(&mut rx).await?;
        eq(more.len(), 0, "more of the key")?;
        accept(&rx, &d).await?;
    }
    c.close().await
}

/// Every group has a copy of each message, its members share it, and its progress outlives them.
async fn consumer_group(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("consumer-group"));
    let group = |name: &str| format!("/queues/{q}/groups/{name}");
    for name in ["billing", "shipping"] {
        let rx = c.receiver(&group(name)).await?;
        within("close of the link", rx.close()).await?;
    }
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, (0..4).map(Value::Int)).await?;
    let mut rx = c.receiver(&group("billing")).await?;
    credit(&mut rx, 2).await?;
    for n in 0..2 {
        let d = take(&mut rx).await?;
        eq(body(&d), Value::Int(n), "billing")?;
        accept(&rx, &d).await?;
    }
    within("close of the link", rx.close()).await?;
    for (address, from) in [
        (group("billing"), 2),
        (group("shipping"), 0),
        (q.clone(), 0),
    ] {
        let found = left(&mut c, &address).await?;
        let bodies: Vec<Value> = found.into_iter().map(|m| m.0).collect();
        eq(
            bodies,
            (from..4).map(Value::Int).collect::<Vec<_>>(),
            &address,
        )?;
    }
    c.close().await
}

/// Runs every test and prints a line for each.
pub async fn run(a: &Args) {
    one(a, "management", management(a)).await;
    one(a, "lock-timeout", lock_timeout(a)).await;
    one(a, "delay", delay(a)).await;
    one(a, "deduplication", deduplication(a)).await;
    one(a, "single-active", single_active(a)).await;
    one(a, "ordering-key", ordering_key(a)).await;
    one(a, "consumer-group", consumer_group(a)).await;
}
