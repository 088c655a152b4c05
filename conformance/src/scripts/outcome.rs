//! Outcomes and delivery counts, order of what comes back (messaging 3.3, 3.4).

use crate::kit::{Kit, modified, rejected};
use crate::script::{Done, Need, Script};
use crate::wire::{Value, hex_of, message, perf, sym};
use crate::{ensure, same};

const AREA: &str = "outcomes";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "OU-01",
        &["3.4.4-a", "3.4.5-a", "3.4.5-d", "3.2.1-g"],
        "delivery-count moves on failed attempts only",
        counts,
    ),
    Script::new(
        AREA,
        "OU-02",
        &["3.4.5-b"],
        "undeliverable-here keeps the message from that link",
        undeliverable_here,
    ),
    Script::new(
        AREA,
        "OU-03",
        &["3.4.3-a", "3.4.3-b"],
        "a rejected message does not come again",
        rejected_is_gone,
    ),
    Script::new(
        AREA,
        "OU-04",
        &["3.2.1-g", "3.2.1-f"],
        "a fresh message has delivery-count 0",
        fresh_count,
    ),
    Script::new(
        AREA,
        "OU-05",
        &["3.4.2-a", "3.4-c", "3.3.1-a"],
        "an accepted message does not come again",
        accepted_is_gone,
    ),
    Script::new(
        AREA,
        "OU-06",
        &["3.4.5-c"],
        "annotations of modified are merged into the message",
        merged_annotations,
    ),
    Script::new(
        AREA,
        "OU-08",
        &["3.3-c", "3.3-a"],
        "messages of a lost consumer come back in order",
        back_in_order,
    ),
    Script::new(
        AREA,
        "OU-09",
        &["3.4.4-b", "3.3.1-a"],
        "released messages come back at their places",
        released_in_order,
    ),
    Script::new(
        AREA,
        "OU-10",
        &["3.3-b"],
        "a held message is given to nobody else",
        held,
    ),
    Script::new(
        AREA,
        "OU-11",
        &["3.4.3-a"],
        "rejected without an error is taken",
        rejected_bare,
    ),
    Script::new(
        AREA,
        "OU-12",
        &["3.4-b"],
        "a sender that lists accepted and rejected only gets no other outcome",
        listed_outcomes,
    )
    .needing(&[Need::Missing]),
    Script::new(
        AREA,
        "PO-04",
        &["3.3-c", "3.3-b"],
        "a message that comes back is not overtaken by newer ones",
        not_overtaken,
    ),
];

fn counts(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    let states = [
        (perf("released").value(), 0),
        (perf("modified").value(), 0),
        (modified(true, false), 0),
        (perf("released").value(), 1),
        (modified(true, false), 1),
        (perf("accepted").value(), 2),
    ];
    for (n, (state, count)) in states.into_iter().enumerate() {
        p.credit(1, 1);
        let got = p.must_get("r1")?;
        same!(got.count(), count, "delivery-count at delivery {}", n + 1);
        p.settle_with(got.id, state);
    }
    p.sync()?;
    p.close()
}

fn undeliverable_here(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut a = k.session_as("a")?;
    let mut b = k.session_as("b")?;
    a.receiver("ra", 0, "q1")?;
    b.receiver("rb", 0, "q1")?;
    a.credit(0, 10);
    let got = a.must_get("ra")?;
    a.settle_with(got.id, modified(false, true));
    a.sync()?;
    a.quiet("transfer", 400)?;
    b.credit(0, 1);
    let again = b.must_get("rb")?;
    same!(again.text(), "m0", "the message");
    b.settle(again.id, "accepted");
    b.sync()?;
    // Only one link is there: no hot loop with it.
    k.fill_count("q1", 1)?;
    let got = a.must_get("ra")?;
    a.settle_with(got.id, modified(false, true));
    a.sync()?;
    a.quiet("transfer", 400)?;
    a.close()?;
    b.close()
}

fn rejected_is_gone(k: &mut Kit) -> Done {
    k.fill_count("q1", 2)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 2);
    let got = p.must_get_all("r1", 2)?;
    p.hex("0000002902000000005315c01c0541434041005325c0120100531dc00c02a305783a626164a1026e6f");
    same!(got[0].id, 0, "first delivery-id");
    p.settle_with(got[1].id, rejected("amqp:not-allowed"));
    p.sync()?;
    p.credit(1, 5);
    p.quiet("transfer", 300)?;
    p.close()?;
    same!(k.bodies("q1")?, Vec::<String>::new(), "messages left");
    Ok(())
}

fn fresh_count(k: &mut Kit) -> Done {
    k.fill_count("q1", 3)?;
    let back = k.empty("q1")?;
    for payload in back {
        same!(message::delivery_count(&payload), 0, "delivery-count");
    }
    Ok(())
}

fn accepted_is_gone(k: &mut Kit) -> Done {
    k.fill_count("q1", 10)?;
    same!(k.bodies("q1")?.len(), 10, "first round");
    same!(k.bodies("q1")?.len(), 0, "second round");
    Ok(())
}

fn merged_annotations(k: &mut Kit) -> Done {
    let old = Value::Map(vec![
        (sym("x-opt-a"), Value::from("1")),
        (sym("x-opt-b"), Value::from("2")),
    ]);
    let payload = [
        message::section(message::code::MESSAGE_ANNOTATIONS, old),
        message::data(b"x"),
    ];
    k.fill("q1", &[payload.concat()])?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    let new = Value::Map(vec![
        (sym("x-opt-b"), Value::from("new")),
        (sym("x-opt-c"), Value::from("3")),
    ]);
    p.settle_with(
        got.id,
        perf("modified").with("message-annotations", new).value(),
    );
    p.credit(1, 1);
    let again = p.must_get("r1")?;
    let found = message::sections(&again.payload).map_err(|e| crate::broke!("{}", e.0))?;
    let section = found
        .iter()
        .find(|s| s.code == message::code::MESSAGE_ANNOTATIONS);
    let text = section
        .map(|s| format!("{:?}", s.value))
        .unwrap_or_default();
    for part in [":x-opt-a: \"1\"", ":x-opt-b: \"new\"", ":x-opt-c: \"3\""] {
        ensure!(text.contains(part), "{part} is missing in {text}");
    }
    same!(
        hex_of(&message::bare(&again.payload)),
        hex_of(&message::data(b"x")),
        "bare message"
    );
    p.settle(again.id, "accepted");
    p.close()
}

fn back_in_order(k: &mut Kit) -> Done {
    let wanted: Vec<_> = (0..10).map(|n| format!("m{n}")).collect();
    k.fill_count("q1", 10)?;
    for way in ["detach", "end", "close", "cut"] {
        let mut p = k.session_as(way)?;
        p.receiver("r1", 1, "q1")?;
        p.credit(1, 10);
        let got = p.must_get_all("r1", 10)?;
        let texts: Vec<_> = got.iter().map(|d| d.text()).collect();
        same!(texts, wanted, "order before {way}");
        match way {
            "detach" => p.detach(1, true).map(drop)?,
            "end" => {
                p.send(0, perf("end"));
                p.want("end")?;
            }
            "close" => p.close()?,
            _ => p.cut(),
        }
        k.wait(50);
    }
    same!(k.bodies("q1")?, wanted, "order at last");
    Ok(())
}

fn released_in_order(k: &mut Kit) -> Done {
    k.fill_count("q1", 10)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 10);
    let got = p.must_get_all("r1", 10)?;
    for delivery in got.iter().rev() {
        p.settle(delivery.id, "released");
    }
    p.sync()?;
    k.fill_count("q1", 1)?;
    p.credit(1, 11);
    let got = p.must_get_all("r1", 11)?;
    let texts: Vec<_> = got.iter().map(|d| d.text()).collect();
    let mut wanted: Vec<_> = (0..10).map(|n| format!("m{n}")).collect();
    wanted.push("m0".into());
    same!(texts, wanted, "order after releasing backwards");
    for n in [2, 5] {
        p.settle(got[n].id, "accepted");
    }
    let rest = perf("disposition")
        .with("role", true)
        .with("first", got[0].id)
        .with("last", got[10].id);
    p.send(
        0,
        rest.with("settled", true).with("state", perf("released")),
    );
    p.sync()?;
    p.close()?;
    let left = k.bodies("q1")?;
    wanted.remove(5);
    wanted.remove(2);
    same!(left, wanted, "order after releasing a range with holes");
    Ok(())
}

fn held(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut a = k.session_as("a")?;
    a.receiver("r", 0, "q1")?;
    a.credit(0, 1);
    let got = a.must_get("r")?;
    same!(
        k.bodies("q1")?,
        Vec::<String>::new(),
        "what another consumer gets"
    );
    a.settle(got.id, "released");
    a.sync()?;
    same!(
        k.bodies("q1")?,
        vec!["m0".to_string()],
        "what another consumer gets after the release"
    );
    a.close()
}

fn rejected_bare(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    p.settle(got.id, "rejected");
    p.sync()?;
    p.close()?;
    same!(k.bodies("q1")?, Vec::<String>::new(), "messages left");
    Ok(())
}

fn listed_outcomes(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let outcomes = Value::Array(vec![sym("amqp:accepted:list"), sym("amqp:rejected:list")]);
    let source = perf("source").with("outcomes", outcomes);
    let attach = p.sender_attach("s1", 0, "q1").with("source", source);
    let attach = attach.with("target", perf("target"));
    p.send(0, attach);
    let answer = p.want("attach")?;
    if answer.field("target").is_null() {
        return crate::kit::unsupported("no anonymous node");
    }
    p.credit_wait(0)?;
    let to = perf("properties")
        .with("to", p.addr("nope"))
        .value()
        .bytes();
    p.publish(0, 0, &[to, message::data(b"x")].concat());
    let state = p.outcome(0)?;
    ensure!(
        ["accepted", "rejected"].contains(&state),
        "outcome {state}, which was not listed"
    );
    p.close()
}

fn not_overtaken(k: &mut Kit) -> Done {
    let rounds = if k.is_virtual() { 100 } else { 10 };
    for round in 0..rounds {
        k.fill_count("q1", 4)?;
        let mut a = k.session_as("a")?;
        a.receiver("ra", 0, "q1")?;
        a.credit(0, 2);
        a.must_get_all("ra", 2)?;
        let mut b = k.session_as("b")?;
        b.receiver("rb", 0, "q1")?;
        a.cut();
        k.wait(20);
        b.credit(0, 1);
        let got = b.must_get("rb")?;
        same!(
            got.text(),
            "m0",
            "first message behind the cut, round {round}"
        );
        b.settle(got.id, "released");
        b.close()?;
        k.empty("q1")?;
    }
    Ok(())
}
