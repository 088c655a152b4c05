//! The tests of this client. Names and meanings are those of the Python and Node clients (see README.md beside them).
use crate::Args;
use crate::link::{
    Conn, Got, Login, Msg, QUIET, R, accept, body, credit, delivery_count, drain, eq, from, left,
    send, send_all, take, take_all, unique, value, within,
};
use fe2o3_amqp::{Receiver, Sendable};
use fe2o3_amqp_types::definitions::{AmqpError, Error, SenderSettleMode};
use fe2o3_amqp_types::messaging::annotations::OwnedKey;
use fe2o3_amqp_types::messaging::{
    Body, Data, DistributionMode, Message, MessageId, Modified, Properties, Source,
};
use fe2o3_amqp_types::primitives::{OrderedMap, Symbol};
use serde_amqp::Value;
use serde_bytes::ByteBuf;
use std::future::Future;
use std::time::Duration;

async fn open(a: &Args) -> R<Conn> {
    Conn::open(a.port, Login::Anonymous).await
}

fn ints(n: i32) -> Vec<Value> {
    (0..n).map(Value::Int).collect()
}

/// A text.
pub fn word(s: &str) -> Value {
    Value::String(s.into())
}

async fn connect_plain(a: &Args) -> R {
    let mut c = Conn::open(a.port, Login::Plain(a.user.clone(), a.password.clone())).await?;
    let mut tx = c.sender(&a.queue_for("connect-plain")).await?;
    send_all(&mut tx, [word("hello")]).await?;
    c.close().await
}

async fn connect_wrong_password(a: &Args) -> R {
    match Conn::open(
        a.port,
        Login::Plain(a.user.clone(), format!("not {}", a.password)),
    )
    .await
    {
        Ok(_) => Err("logged in with a wrong password".into()),
        Err(e) if e.contains("Sasl") => Ok(()),
        Err(e) => Err(format!("not refused by SASL: {e}")),
    }
}

async fn unsettled(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("unsettled"));
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, ints(200)).await?;
    let mut rx = c.receiver(&q).await?;
    credit(&mut rx, 200).await?;
    for want in ints(200) {
        let d = take(&mut rx).await?;
        eq(body(&d), want, "bodies in order")?;
        accept(&rx, &d).await?;
    }
    within("close of the link", rx.close()).await?;
    eq(left(&mut c, &q).await?, vec![], "left on the queue")?;
    c.close().await
}

async fn presettled(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("presettled"));
    let mut tx = c
        .sender_with(Some(&q), unique("tx"), SenderSettleMode::Settled)
        .await?;
    for n in ints(200) {
        let s = Sendable {
            message: value(n),
            message_format: 0,
            settled: Some(true),
        };
        within("send", tx.send(s)).await?;
    }
    let mut rx = c
        .receiver_with(from(&q), unique("rx"), SenderSettleMode::Settled)
        .await?;
    credit(&mut rx, 200).await?;
    for want in ints(200) {
        eq(body(&take(&mut rx).await?), want, "bodies in order")?;
    }
    within("close of the link", rx.close()).await?;
    eq(left(&mut c, &q).await?, vec![], "left on the queue")?;
    c.close().await
}

/// Sends one message, lets `settle` settle its delivery, and gives what the next consumer finds.
async fn outcome(
    a: &Args,
    name: &str,
    settle: impl AsyncFn(&Receiver, &Got) -> R,
) -> R<Vec<(Value, u32)>> {
    let (mut c, q) = (open(a).await?, a.queue_for(name));
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, [word("m")]).await?;
    let mut rx = c.receiver(&q).await?;
    credit(&mut rx, 1).await?;
    let d = take(&mut rx).await?;
    eq(
        delivery_count(&d),
        0,
        "delivery-count of the first delivery",
    )?;
    settle(&rx, &d).await?;
    within("close of the link", rx.close()).await?;
    let got = left(&mut c, &q).await?;
    c.close().await?;
    Ok(got)
}

async fn outcome_accepted(a: &Args) -> R {
    let got = outcome(a, "outcome-accepted", async |rx, d| accept(rx, d).await).await?;
    eq(got, vec![], "left after accepted")
}

async fn outcome_rejected(a: &Args) -> R {
    let error = Error::new(AmqpError::DecodeError, Some("no".into()), None);
    let got = outcome(a, "outcome-rejected", async |rx, d| {
        within("reject", rx.reject(d, error.clone())).await
    })
    .await?;
    eq(got, vec![], "left after rejected")
}

async fn outcome_released(a: &Args) -> R {
    let got = outcome(a, "outcome-released", async |rx, d| {
        within("release", rx.release(d)).await
    })
    .await?;
    eq(got, vec![(word("m"), 0)], "left after released")
}

fn modified(failed: bool, annotations: Option<OrderedMap<Symbol, Value>>) -> Modified {
    Modified {
        delivery_failed: Some(failed),
        undeliverable_here: None,
        message_annotations: annotations,
    }
}

async fn outcome_modified(a: &Args) -> R {
    for (failed, count) in [(false, 0), (true, 1)] {
        let settle = async |rx: &Receiver, d: &Got| {
            within("modify", rx.modify(d, modified(failed, None))).await
        };
        let got = outcome(a, "outcome-modified", settle).await?;
        eq(
            got,
            vec![(word("m"), count)],
            &format!("left after modified(delivery-failed={failed})"),
        )?;
    }
    Ok(())
}

async fn modified_annotations(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("modified-annotations"));
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, [word("m")]).await?;
    let mut rx = c.receiver(&q).await?;
    credit(&mut rx, 1).await?;
    let d = take(&mut rx).await?;
    let why = [(Symbol("x-opt-interop-why".into()), word("because"))]
        .into_iter()
        .collect();
    within("modify", rx.modify(&d, modified(true, Some(why)))).await?;
    credit(&mut rx, 1).await?;
    let d = take(&mut rx).await?;
    eq(
        delivery_count(&d),
        1,
        "delivery-count of the second delivery",
    )?;
    let key = OwnedKey::Symbol(Symbol("x-opt-interop-why".into()));
    let all = d
        .message()
        .message_annotations
        .iter()
        .flat_map(|x| x.0.iter());
    let found: Vec<Value> = all
        .filter(|(k, _)| **k == key)
        .map(|(_, v)| v.clone())
        .collect();
    eq(
        found,
        vec![word("because")],
        "annotation of the second delivery",
    )?;
    accept(&rx, &d).await?;
    c.close().await
}

async fn large_message(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("large-message"));
    let bytes: Vec<u8> = (0..1usize << 20).map(|i| (i * 7) as u8).collect();
    let message: Msg = Message::from(Body::Data(
        [Data(ByteBuf::from(bytes.clone()))].into_iter().collect(),
    ));
    let mut tx = c.sender(&q).await?;
    eq(send(&mut tx, message).await?, "accepted", "outcome")?;
    let mut rx = c.receiver(&q).await?;
    credit(&mut rx, 1).await?;
    let d = take(&mut rx).await?;
    let got: Vec<u8> = match &d.message().body {
        Body::Data(parts) => parts.iter().flat_map(|p| p.0.iter().copied()).collect(),
        _ => vec![],
    };
    if got != bytes {
        return Err(format!("body differs ({} bytes)", got.len()));
    }
    accept(&rx, &d).await?;
    c.close().await
}

async fn credit_exact(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("credit-exact"));
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, ints(30)).await?;
    let mut other = c.sender(&a.queue_for("credit-exact-other")).await?;
    let mut rx = c.receiver(&q).await?;
    for n in [0, 10, 5, 1] {
        if n > 0 {
            credit(&mut rx, n).await?;
        }
        for _ in 0..n {
            let d = take(&mut rx).await?;
            accept(&rx, &d).await?;
        }
        send_all(&mut other, [word("round trip")]).await?;
        eq(
            take_all(&mut rx).await?.len(),
            0,
            &format!("deliveries beyond a credit of {n}"),
        )?;
    }
    c.close().await
}

async fn drained(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("drain"));
    let bodies = |all: &[Got]| all.iter().map(body).collect::<Vec<_>>();
    let mut rx = c.receiver(&q).await?;
    eq(
        drain(&mut rx, 10).await?.len(),
        0,
        "deliveries from an empty queue",
    )?;
    let mut tx = c.sender(&q).await?;
    let three = ["a", "b", "c"].map(word);
    send_all(&mut tx, three.clone()).await?;
    eq(
        bodies(&drain(&mut rx, 10).await?),
        three.to_vec(),
        "deliveries while draining",
    )?;
    send_all(&mut tx, [word("d")]).await?;
    eq(
        take_all(&mut rx).await?.len(),
        0,
        "deliveries after the drain",
    )?;
    credit(&mut rx, 1).await?;
    eq(
        body(&take(&mut rx).await?),
        word("d"),
        "delivery for new credit",
    )?;
    c.close().await
}

async fn browse(a: &Args) -> R {
    let (mut c, q) = (open(a).await?, a.queue_for("browse"));
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, ["a", "b"].map(word)).await?;
    for _ in 0..2 {
        let source = Source {
            distribution_mode: Some(DistributionMode::Copy),
            ..from(&q)
        };
        let mut rx = c
            .receiver_with(source, unique("rx"), SenderSettleMode::Mixed)
            .await?;
        let mode = rx
            .source()
            .as_ref()
            .and_then(|s| s.distribution_mode.clone());
        eq(
            mode,
            Some(DistributionMode::Copy),
            "distribution-mode in effect",
        )?;
        credit(&mut rx, 5).await?;
        for want in ["a", "b"] {
            let d = take(&mut rx).await?;
            eq(body(&d), word(want), "browsed")?;
            accept(&rx, &d).await?;
        }
        within("close of the link", rx.close()).await?;
    }
    let found: Vec<Value> = left(&mut c, &q)
        .await?
        .into_iter()
        .map(|(b, _)| b)
        .collect();
    eq(
        found,
        ["a", "b"].map(word).to_vec(),
        "on the queue after browsing",
    )?;
    c.close().await
}

fn not_found<T>(attach: R<T>) -> R {
    match attach {
        Ok(_) => Err("attached to a name that does not exist".into()),
        Err(e) if e.contains("AmqpError(NotFound)") => Ok(()),
        Err(e) => Err(format!("not amqp:not-found: {e}")),
    }
}

/// Attaches a sender to a node that is going. It may go just before or just after the new link comes to it.
async fn gone(c: &mut Conn, address: &str) -> R {
    match c.sender(address).await {
        Err(e) => not_found::<()>(Err(e)),
        Ok(mut tx) => {
            let end = async { Ok::<_, ()>(format!("{:?}", tx.on_detach().await)) };
            let end = within("end of a link to a deleted node", end).await?;
            if end.contains("ResourceDeleted") {
                Ok(())
            } else {
                Err(format!("not amqp:resource-deleted: {end}"))
            }
        }
    }
}

/// A message to an address of its own.
pub fn to(address: &str, v: Value) -> Msg {
    Message {
        properties: Some(Properties {
            to: Some(address.into()),
            ..Default::default()
        }),
        ..value(v)
    }
}

/// A dynamic node for the answers, and the anonymous terminus to send them by.
async fn request_reply(a: &Args) -> R {
    let (mut asker, mut answerer, q) =
        (open(a).await?, open(a).await?, a.queue_for("request-reply"));
    let dynamic = Source {
        dynamic: true,
        ..Default::default()
    };
    let mut answers = asker
        .receiver_with(dynamic, unique("rx"), SenderSettleMode::Mixed)
        .await?;
    let address = answers
        .source()
        .as_ref()
        .and_then(|s| s.address.clone())
        .ok_or("no address for the dynamic node")?;
    credit(&mut answers, 5).await?;
    let mut tx = asker.sender(&q).await?;
    let mut requests = answerer.receiver(&q).await?;
    credit(&mut requests, 5).await?;
    let mut relay = answerer
        .sender_with(None, unique("tx"), SenderSettleMode::Mixed)
        .await?;
    for i in 0..5 {
        let correlation_id = Some(MessageId::String(format!("r{i}")));
        let p = Properties {
            reply_to: Some(address.clone()),
            correlation_id,
            ..Default::default()
        };
        eq(
            send(
                &mut tx,
                Message {
                    properties: Some(p),
                    ..value(i)
                },
            )
            .await?,
            "accepted",
            "outcome of the request",
        )?;
        let d = take(&mut requests).await?;
        let asked = d.message().properties.clone().unwrap_or_default();
        let mut answer = to(&asked.reply_to.unwrap_or_default(), Value::Int(i * 2));
        answer.properties.get_or_insert_default().correlation_id = asked.correlation_id;
        eq(
            send(&mut relay, answer).await?,
            "accepted",
            "outcome of the answer",
        )?;
        accept(&requests, &d).await?;
        let d = take(&mut answers).await?;
        eq(body(&d), Value::Int(i * 2), "answer")?;
        let id = d
            .message()
            .properties
            .as_ref()
            .and_then(|p| p.correlation_id.clone());
        eq(
            id,
            Some(MessageId::String(format!("r{i}"))),
            "correlation-id of the answer",
        )?;
        accept(&answers, &d).await?;
    }
    asker.close().await?;
    gone(&mut answerer, &address).await?;
    answerer.close().await
}

async fn anonymous_terminus(a: &Args) -> R {
    let mut c = open(a).await?;
    let qs = [
        a.queue_for("anonymous-terminus-a"),
        a.queue_for("anonymous-terminus-b"),
    ];
    let mut tx = c
        .sender_with(None, unique("tx"), SenderSettleMode::Mixed)
        .await?;
    for q in &qs {
        eq(send(&mut tx, to(q, word(q))).await?, "accepted", "outcome")?;
    }
    for q in &qs {
        eq(left(&mut c, q).await?, vec![(word(q), 0)], "on the queue")?;
    }
    let lost = send(&mut tx, to(&a.absent(), word("lost"))).await?;
    if lost != "rejected" && lost != "released" {
        return Err(format!("a message to an unknown name was {lost}"));
    }
    eq(
        send(&mut tx, to(&qs[0], word("again"))).await?,
        "accepted",
        "outcome afterwards",
    )?;
    c.close().await
}

/// Lets the library finish with a refused link: it answers the broker's detach a second time a moment later, and a link
/// that has taken the same handle by then is lost inside the library.
async fn let_go() {
    tokio::time::sleep(QUIET).await;
}

async fn unknown_name(a: &Args) -> R {
    let mut c = open(a).await?;
    let mut tx = c.sender(&a.queue_for("unknown-name")).await?;
    send_all(&mut tx, [word("before")]).await?;
    not_found(c.sender(&a.absent()).await)?;
    let_go().await;
    not_found(c.receiver(&a.absent()).await)?;
    let_go().await;
    eq(
        c.session.is_ended(),
        false,
        "the session ended with the link",
    )?;
    send_all(&mut tx, [word("after")]).await?;
    c.close().await
}

async fn auto_create(a: &Args) -> R {
    let (mut c, q) = (Conn::open(a.auto_port, Login::Anonymous).await?, a.absent());
    let mut tx = c.sender(&q).await?;
    send_all(&mut tx, [word("made on attach")]).await?;
    eq(
        left(&mut c, &q).await?,
        vec![(word("made on attach"), 0)],
        "on the queue",
    )?;
    c.close().await
}

async fn link_stealing(a: &Args) -> R {
    let q = a.queue_for("link-stealing");
    let mut older =
        Conn::open_as(a.port, Login::Anonymous, "interop-rust-thief".into(), None).await?;
    let mut newer =
        Conn::open_as(a.port, Login::Anonymous, "interop-rust-thief".into(), None).await?;
    let mut first = older
        .receiver_with(from(&q), "the-link".into(), SenderSettleMode::Mixed)
        .await?;
    credit(&mut first, 5).await?;
    let mut second = newer
        .receiver_with(from(&q), "the-link".into(), SenderSettleMode::Mixed)
        .await?;
    credit(&mut second, 5).await?;
    match take(&mut first).await {
        Ok(_) => return Err("a delivery on the older link".into()),
        Err(e) if e.contains("Stolen") => {}
        Err(e) => return Err(format!("not amqp:link:stolen: {e}")),
    }
    let mut tx = newer.sender(&q).await?;
    send_all(&mut tx, [word("m")]).await?;
    let d = take(&mut second).await?;
    eq(body(&d), word("m"), "delivery to the newer link")?;
    accept(&second, &d).await?;
    newer.close().await
}

async fn reconnect_same_name(a: &Args) -> R {
    let q = a.queue_for("reconnect-same-name");
    for i in 0..5 {
        let mut c =
            Conn::open_as(a.port, Login::Anonymous, "interop-rust-again".into(), None).await?;
        if i == 0 {
            let mut tx = c.sender(&q).await?;
            send_all(&mut tx, [word("m")]).await?;
        }
        let mut rx = c
            .receiver_with(from(&q), "the-link".into(), SenderSettleMode::Mixed)
            .await?;
        credit(&mut rx, 1).await?;
        let d = take(&mut rx).await?;
        eq(body(&d), word("m"), "delivery")?;
        if i == 4 {
            accept(&rx, &d).await?;
            // the end of the session comes behind the settlement; a close alone may overtake it inside the library
            within("end", c.session.end()).await?;
        }
        // with its links still open
        within("close", c.connection.close()).await?;
    }
    let mut c = open(a).await?;
    eq(left(&mut c, &q).await?, vec![], "left on the queue")?;
    c.close().await
}

async fn heartbeat(a: &Args) -> R {
    // fe2o3 announces half of this and closes the connection itself when nothing comes in time.
    let mut c = Conn::open_as(a.port, Login::Anonymous, unique("interop-rust"), Some(1000)).await?;
    let mut tx = c.sender(&a.queue_for("heartbeat")).await?;
    tokio::time::sleep(Duration::from_millis(3500)).await;
    send_all(&mut tx, [word("alive")]).await?;
    c.close().await
}

/// Runs a test if it is wanted, and says how it ended.
pub async fn one(a: &Args, name: &str, test: impl Future<Output = R>) {
    if !a.only.is_empty() && !a.only.iter().any(|x| x == name) {
        return;
    }
    match test.await {
        Ok(()) => println!("PASS rust {name}"),
        Err(e) => println!(
            "FAIL rust {name}: {}",
            e.split_whitespace().collect::<Vec<_>>().join(" ")
        ),
    }
    // dropped links and connections of a failed test go in the background
    tokio::time::sleep(QUIET / 10).await;
}

/// Runs every test and prints a line for each.
pub async fn run(a: &Args) {
    one(a, "connect-plain", connect_plain(a)).await;
    one(a, "connect-wrong-password", connect_wrong_password(a)).await;
    one(a, "unsettled", unsettled(a)).await;
    one(a, "presettled", presettled(a)).await;
    one(a, "outcome-accepted", outcome_accepted(a)).await;
    one(a, "outcome-rejected", outcome_rejected(a)).await;
    one(a, "outcome-released", outcome_released(a)).await;
    one(a, "outcome-modified", outcome_modified(a)).await;
    one(a, "modified-annotations", modified_annotations(a)).await;
    one(a, "large-message", large_message(a)).await;
    one(a, "credit-exact", credit_exact(a)).await;
    one(a, "drain", drained(a)).await;
    one(a, "browse", browse(a)).await;
    one(a, "request-reply", request_reply(a)).await;
    one(a, "anonymous-terminus", anonymous_terminus(a)).await;
    one(a, "unknown-name", unknown_name(a)).await;
    one(a, "auto-create", auto_create(a)).await;
    one(a, "link-stealing", link_stealing(a)).await;
    one(a, "reconnect-same-name", reconnect_same_name(a)).await;
    one(a, "heartbeat", heartbeat(a)).await;
}
