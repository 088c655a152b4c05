//! Management over AMQP: a node that takes requests and answers them (the working draft of AMQP Management; the standard
//! knows it as a node like any other).
//!
//! A broker without `$management` is passed over.

use crate::kit::Kit;
use crate::kit::manage::{NODE, entry, map, read};
use crate::script::{Done, Script};
use crate::wire::{Value, message, perf, text};
use crate::{ensure, same};

const AREA: &str = "management";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "MG-01",
        &["3.2.4-b", "3.2.11-a"],
        "a queue is made, filled, read, purged and deleted by requests, and answers tell which request they are for",
        life_of_a_queue,
    ),
    Script::new(
        AREA,
        "MG-02",
        &["2.6.7-a", "2.6.7-b"],
        "answers wait for credit, and requests that are not answered use up the sender's",
        credit,
    ),
    Script::new(
        AREA,
        "MG-07",
        &["2.6.7-c"],
        "requests beyond the credit are answered or end the link, and bring no more credit than there was",
        beyond_credit,
    ),
    Script::new(
        AREA,
        "MG-03",
        &["2.6.7-e", "2.6.7-f"],
        "a drain of the link for answers brings what waits and ends",
        drain,
    ),
    Script::new(
        AREA,
        "MG-04",
        &["3.5.3-a"],
        "answers come through a dynamic node that reply-to names",
        by_dynamic_node,
    ),
    Script::new(
        AREA,
        "MG-05",
        &["3.4.3-b", "3.2.8-a"],
        "what cannot be done is answered with 400 or 501, what cannot be answered is rejected, and the link lives on",
        what_cannot_be,
    ),
    Script::new(
        AREA,
        "MG-06",
        &["3.2.5-b"],
        "an exchange is made, bound, listed and unbound by requests, and routes meanwhile",
        exchange,
    ),
];

fn life_of_a_queue(k: &mut Kit) -> Done {
    let mut o = k.operator()?;
    let name = k.addr("made");
    let of = |operation| [("operation", operation), ("type", "queue"), ("name", &name)];
    let settings = map(&[("max_length", Value::Uint(10))]);
    same!(o.ask(&of("CREATE"), settings.clone())?.status, 201, "new");
    same!(o.ask(&of("CREATE"), settings)?.status, 200, "there");
    let conflict = o.ask(&of("CREATE"), map(&[("max_length", Value::Uint(9))]))?;
    same!(conflict.status, 409, "with another length");
    same!(
        entry(&conflict.body, "field"),
        text("max_length"),
        "field at fault"
    );
    k.fill_count("made", 3)?;
    let read = o.ask(&of("READ"), Value::Null)?;
    same!(read.status, 200, "read");
    same!(entry(&read.body, "depth"), Value::Long(3), "depth");
    let purged = o.ask(&of("PURGE"), Value::Null)?;
    same!(entry(&purged.body, "purged"), Value::Long(3), "purged");
    same!(k.bodies("made")?, Vec::<String>::new(), "after the purge");
    same!(o.ask(&of("DELETE"), Value::Null)?.status, 204, "deleted");
    same!(o.ask(&of("READ"), Value::Null)?.status, 404, "gone");
    o.peer.close()
}

fn credit(k: &mut Kit) -> Done {
    let mut o = k.operator()?;
    let types = [("operation", "GET-TYPES")];
    o.peer.credit_wait(0)?;
    let mut sent = 0;
    while o.peer.credit_left(0) > 0 && sent < 1_000 {
        o.send(&types)?;
        sent += 1;
    }
    ensure!(sent < 1_000, "requests without answers are not bounded");
    o.peer.quiet("transfer", 300)?;
    o.peer.credit(1, 2);
    for _ in 0..2 {
        same!(o.answer()?.status, 200, "answer");
    }
    o.peer.quiet("transfer", 300)?;
    o.peer.credit(1, 2_000);
    for _ in 2..sent {
        same!(o.answer()?.status, 200, "answer");
    }
    // And credit comes back.
    same!(o.ask(&types, Value::Null)?.status, 200, "one more");
    o.peer.close()
}

fn beyond_credit(k: &mut Kit) -> Done {
    let mut o = k.operator()?;
    let types = [("operation", "GET-TYPES")];
    o.peer.credit_wait(0)?;
    let first = o.peer.credit_left(0);
    let all = first + 20;
    for _ in 0..all {
        o.send(&types)?;
    }
    o.peer.credit(1, all);
    for _ in 0..all {
        let Some(got) = o.peer.delivery("answers", 500)? else {
            // It need not bear it.
            o.peer.detached(
                o.peer.remote_handle(0).unwrap_or_default(),
                &["amqp:link:transfer-limit-exceeded"],
            )?;
            return o.peer.close();
        };
        same!(read(&got.payload)?.status, 200, "status");
        o.peer.settle(got.id, "accepted");
    }
    o.peer.sync()?;
    let left = o.peer.credit_left(0);
    ensure!(left <= first, "credit {left} after {first} at first");
    o.peer.close()
}

fn drain(k: &mut Kit) -> Done {
    let mut o = k.operator()?;
    o.peer.credit_wait(0)?;
    o.send(&[("operation", "GET-TYPES")])?;
    o.peer.sync()?;
    o.peer.quiet("transfer", 200)?;
    let flow = o.peer.link_flow(1, 5).with("drain", true);
    o.peer.send(0, flow);
    same!(o.answer()?.status, 200, "the answer that waited");
    let remote = o.peer.remote_handle(1).map(u64::from);
    let end = o.peer.want_where("a flow that ends the drain", move |f| {
        f.name() == "flow" && f.number("handle") == remote && f.number("link-credit") == Some(0)
    })?;
    same!(end.number("delivery-count"), Some(5), "credit used up");
    o.peer.close()
}

fn by_dynamic_node(k: &mut Kit) -> Done {
    let mut o = k.operator()?;
    let attach = o.peer.receiver_attach("dynamic", 2, "x");
    let source = perf("source").with("dynamic", true);
    let node = o.peer.attach(attach.with("source", source))?;
    let source = crate::wire::perf_of(node.field("source"));
    let address = source.and_then(|s| s.field("address").words().map(str::to_owned));
    let address = address.ok_or_else(|| crate::broke!("no address of the dynamic node"))?;
    o.peer.credit(2, 1);
    o.peer.credit_wait(0)?;
    let id = o.request(&[("operation", "GET-TYPES")], Value::Null, &address)?;
    same!(o.peer.outcome(id)?, "accepted", "outcome");
    let got = o.peer.must_get("dynamic")?;
    same!(read(&got.payload)?.status, 200, "status");
    o.peer.settle(got.id, "accepted");
    o.peer.sync()?;
    o.peer.close()
}

fn what_cannot_be(k: &mut Kit) -> Done {
    let mut o = k.operator()?;
    for (told, status) in [
        (vec![("operation", "FROB"), ("type", "queue")], 501),
        (vec![("operation", "UPDATE"), ("type", "queue")], 501),
        (vec![("operation", "READ"), ("type", "table")], 400),
        (vec![("operation", "READ"), ("type", "queue")], 400),
        (vec![("type", "queue"), ("name", "x")], 400),
    ] {
        let answer = o.ask(&told, Value::Null)?;
        same!(answer.status, status, "{told:?}");
        let description = entry(&answer.told, "statusDescription");
        ensure!(
            description.words().is_some_and(|words| !words.is_empty()),
            "no description: {answer:?}"
        );
    }
    let reserved = [("operation", "CREATE"), ("type", "queue"), ("name", NODE)];
    same!(o.ask(&reserved, Value::Null)?.status, 403, "reserved name");
    // Without a reply-to nobody can be told.
    let told = map(&[("operation", text("GET-TYPES"))]);
    let payload = [
        message::section(message::code::APPLICATION_PROPERTIES, told),
        message::section(message::code::VALUE, Value::Null),
    ];
    let id = 1_000;
    o.peer.publish(0, id, &payload.concat());
    same!(o.peer.outcome(id)?, "rejected", "without reply-to");
    o.peer.close()
}

fn exchange(k: &mut Kit) -> Done {
    let mut o = k.operator()?;
    let (name, queue) = (k.addr("topics"), k.addr("bound"));
    let of = |operation, kind, name| [("operation", operation), ("type", kind), ("name", name)];
    let topic = map(&[("type", text("topic"))]);
    let made = o.ask(&of("CREATE", "exchange", &name), topic)?;
    same!(made.status, 201, "exchange");
    let made = o.ask(&of("CREATE", "queue", &queue), Value::Null)?;
    same!(made.status, 201, "queue");
    let binding = map(&[
        ("exchange", text(&name)),
        ("queue", text(&queue)),
        ("routing_key", text("a.#")),
    ]);
    let bind = [("operation", "BIND")];
    same!(o.ask(&bind, binding.clone())?.status, 201, "bound");
    same!(o.ask(&bind, binding.clone())?.status, 200, "bound already");
    let query = [("operation", "QUERY"), ("entityType", "binding")];
    let listed = o.ask(
        &query,
        map(&[
            ("queue", text(&queue)),
            ("attributeNames", Value::List(vec![text("routing_key")])),
        ]),
    )?;
    same!(
        entry(&listed.body, "results"),
        Value::List(vec![Value::List(vec![text("a.#")])]),
        "listed"
    );
    let mut p = k.session()?;
    let target = perf("target").with("address", format!("/exchanges/{name}/a.b"));
    let attach = p.sender_attach("s", 0, "x").with("target", target);
    p.attach(attach)?;
    p.credit_wait(0)?;
    p.publish(0, 0, &message::data(b"routed"));
    same!(p.outcome(0)?, "accepted", "while bound");
    same!(
        o.ask(&[("operation", "UNBIND")], binding)?.status,
        204,
        "unbound"
    );
    p.publish(0, 1, &message::data(b"lost"));
    same!(p.outcome(1)?, "released", "when unbound");
    p.close()?;
    same!(k.bodies("bound")?, ["routed"], "in the queue");
    for (kind, name) in [("queue", &queue), ("exchange", &name)] {
        let gone = o.ask(&of("DELETE", kind, name), Value::Null)?;
        same!(gone.status, 204, "deleted");
    }
    o.peer.close()
}
