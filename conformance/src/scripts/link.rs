//! Links: names, handles, detach, close, stealing, refusal (transport 2.6.1 to 2.6.6).

use crate::kit::{Kit, known};
use crate::script::{Done, Need, Script};
use crate::wire::{message, perf, sym};
use crate::{ensure, same};

const AREA: &str = "link";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "LK-01",
        &["2.6.6-a", "2.6.4-b", "2.7.7-b", "1.6.2-a"],
        "a closing detach is answered by a closing one",
        closing_detach,
    ),
    Script::new(
        AREA,
        "LK-02",
        &["2.6.4-a", "2.6.4-b", "2.6.4-c", "3.3-c"],
        "a detached link comes back under its name",
        detach_and_return,
    ),
    Script::new(
        AREA,
        "LK-03",
        &["2.6.1-b", "2.6.1-c", "2.8.18-a", "2.6.5-a"],
        "a second attach of a name takes the link over",
        stolen,
    ),
    Script::new(
        AREA,
        "LK-04",
        &["2.6.1-a", "2.6.1-d"],
        "one name in both directions is two links",
        both_directions,
    ),
    Script::new(
        AREA,
        "LK-05",
        &["2.6.2-c", "2.8.17-c"],
        "an attach on a handle in use ends the session",
        handle_in_use,
    ),
    Script::new(
        AREA,
        "LK-06",
        &["2.6.3-b", "2.6.3-e", "2.8.15-b", "2.6.5-a"],
        "a link to a missing node is refused alone",
        missing_node,
    )
    .needing(&[Need::Missing]),
    Script::new(
        AREA,
        "LK-07",
        &["2.6.2-b", "2.6.6-b"],
        "a thousand attaches and detaches on one handle",
        churn,
    ),
    Script::new(
        AREA,
        "LK-08",
        &["2.6.1-a"],
        "another container may use the same link name",
        other_container,
    ),
    Script::new(
        AREA,
        "LK-10",
        &["2.6.3-a", "2.6.2-a", "2.8.1-a", "2.6.3-c", "2.7.3-b"],
        "the answer to an attach mirrors it",
        attach_answer,
    ),
    Script::new(
        AREA,
        "LK-12",
        &["2.7.7-a", "2.8.17-b"],
        "a detach for a handle without link ends the session",
        detach_nothing,
    ),
    Script::new(
        AREA,
        "LK-13",
        &["2.6.5-b", "2.6.6-a"],
        "a detach with an error from the peer is answered",
        detach_with_error,
    ),
    Script::new(
        AREA,
        "LK-14",
        &["2.6.2-a", "2.6.2-d"],
        "handles are free to choose, large ones too",
        odd_handles,
    ),
    Script::new(
        AREA,
        "LK-15",
        &["2.6.3-d", "2.7.3-g"],
        "a refused link's name is free at once",
        refused_then_good,
    ),
    Script::new(
        AREA,
        "LK-16",
        &["2.6.5-b"],
        "frames that cross the broker's detach are ignored",
        crossing_refusal,
    ),
];

fn closing_detach(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    for (attach, detach) in [
        (known::SND, "0000001002000000005316c003024341"),
        (known::SND, "0000001102000000005316c00402435601"),
        (known::RCV, "0000001102000000005316c00402520141"),
    ] {
        p.hex(attach);
        let handle = p.want("attach")?.number("handle");
        p.hex(detach);
        let answer = p.want("detach")?;
        same!(answer.number("handle"), handle, "handle of the answer");
        ensure!(
            answer.flag("closed"),
            "a closing detach was answered by {answer:?}"
        );
        ensure!(answer.field("error").is_null(), "{answer:?}");
    }
    p.close()
}

fn detach_and_return(k: &mut Kit) -> Done {
    k.fill_count("q1", 3)?;
    let mut p = k.session()?;
    p.hex(known::RCV);
    p.want("attach")?;
    p.credit(1, 3);
    p.must_get_all("r1", 3)?;
    p.hex("0000001102000000005316c00402520142");
    let answer = p.want("detach")?;
    ensure!(
        !answer.flag("closed"),
        "a detach was answered by a close: {answer:?}"
    );
    p.hex(known::RCV);
    let again = p.want("attach")?;
    ensure!(!again.field("source").is_null(), "{again:?}");
    p.credit(1, 10);
    let mut texts = vec![];
    while let Some(got) = p.delivery("r1", 400)? {
        p.settle(got.id, "accepted");
        texts.push(got.text());
    }
    p.close()?;
    // Redelivered on the new attach, or still mapped to the old link and lost with this connection.
    texts.extend(k.bodies("q1")?);
    texts.sort();
    same!(
        texts,
        ["m0", "m1", "m2"].map(String::from).to_vec(),
        "messages of the detached link"
    );
    Ok(())
}

fn stolen(k: &mut Kit) -> Done {
    let stolen = &["amqp:link:stolen"];
    // On the same session.
    let mut p = k.session()?;
    p.hex(known::RCV);
    let old = p.want("attach")?.number("handle").unwrap_or(0) as u32;
    p.credit(1, 5);
    p.hex("0000002502000000005312c01807a10272315205414040005328c00501a102713100532945");
    p.detached(old, stolen)?;
    let new = p.want("attach")?;
    ensure!(
        !new.field("source").is_null(),
        "the new attach was refused: {new:?}"
    );
    k.fill_count("q1", 1)?;
    p.credit(5, 1);
    let got = p.must_get("r1")?;
    p.settle(got.id, "accepted");
    // On a second session.
    let begin = perf("begin")
        .with("next-outgoing-id", 0u32)
        .with("incoming-window", 2048u32);
    p.send(1, begin.with("outgoing-window", 2048u32));
    p.want("begin")?;
    let old = new.number("handle").unwrap_or(0) as u32;
    p.send(1, p.receiver_attach("r1", 1, "q1"));
    p.detached(old, stolen)?;
    let newer = p.want_on(1, "attach")?;
    ensure!(
        !newer.field("source").is_null(),
        "refused on the second session: {newer:?}"
    );
    // From a second connection of the same container.
    let mut other = k.session()?;
    other.hex(known::RCV);
    let newest = other.want("attach")?;
    ensure!(
        !newest.field("source").is_null(),
        "refused on the second connection: {newest:?}"
    );
    p.detached(newer.number("handle").unwrap_or(0) as u32, stolen)?;
    k.fill_count("q1", 1)?;
    other.credit(1, 1);
    let got = other.must_get("r1")?;
    other.settle(got.id, "accepted");
    other.close()?;
    p.close()
}

fn both_directions(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("both", 0, "q1")?;
    p.receiver("both", 1, "q1")?;
    p.quiet("detach", 200)?;
    p.credit_wait(0)?;
    p.publish(0, 0, &message::data(b"x"));
    same!(p.outcome(0)?, "accepted", "outcome");
    p.credit(1, 1);
    let got = p.must_get("both")?;
    p.settle(got.id, "accepted");
    p.close()
}

fn handle_in_use(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    let attach = p.receiver_attach("r2", 1, "q1");
    p.send(0, attach);
    let end = p.want("end")?;
    same!(end.condition(), "amqp:session:handle-in-use", "condition");
    p.hex(known::END);
    p.close()
}

fn missing_node(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.hex("0000002702000000005312c01a07a10272325202414040005328c00701a1046e6f706500532945");
    p.refused_link("r2", true, &["amqp:not-found"])?;
    p.hex("0000002a02000000005312c01d0aa1027332520342404000532845005329c00701a1046e6f7065404043");
    p.refused_link("s2", false, &["amqp:not-found"])?;
    k.fill_count("q1", 1)?;
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    p.settle(got.id, "accepted");
    p.close()
}

fn churn(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let both = [known::SND, "0000001002000000005316c003024341"].concat();
    let rounds = if k.is_virtual() { 900 } else { 500 };
    p.hex_times(&both, rounds);
    for n in 0..rounds {
        // The target may be null: our detach was there before the broker had looked for the node.
        p.want("attach")?;
        let detach = p.want("detach")?;
        ensure!(detach.field("error").is_null(), "detach {n}: {detach:?}");
    }
    p.forget();
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    p.publish(0, 0, &message::data(b"x"));
    same!(p.outcome(0)?, "accepted", "outcome of the last publish");
    p.close()
}

fn other_container(k: &mut Kit) -> Done {
    let mut a = k.session_as("a")?;
    let mut b = k.session_as("b")?;
    a.receiver("r", 0, "q1")?;
    b.receiver("r", 0, "q1")?;
    a.quiet("detach", 200)?;
    a.close()?;
    b.close()
}

fn attach_answer(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let sender = p.sender("s1", 7, "q1")?;
    same!(sender.field("name").words(), Some("s1"), "name");
    ensure!(
        sender.flag("role"),
        "the broker's end of a sender link is a receiver"
    );
    let address = sender.field("target").field(0).words().map(String::from);
    same!(
        address,
        Some(p.addr("q1")),
        "address of the target in effect"
    );
    let receiver = p.receiver("r1", 3, "q1")?;
    ensure!(
        !receiver.flag("role"),
        "the broker's end of a receiver link is a sender"
    );
    ensure!(
        receiver.number("initial-delivery-count").is_some(),
        "no initial-delivery-count"
    );
    let address = receiver.field("source").field(0).words().map(String::from);
    same!(
        address,
        Some(p.addr("q1")),
        "address of the source in effect"
    );
    ensure!(
        receiver.number("handle") != sender.number("handle"),
        "one handle for two links"
    );
    p.close()
}

fn detach_nothing(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.send(0, perf("detach").with("handle", 9u32).with("closed", true));
    let end = p.want("end")?;
    same!(
        end.condition(),
        "amqp:session:unattached-handle",
        "condition"
    );
    p.hex(known::END);
    p.close()
}

fn detach_with_error(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    let remote = p.remote_handle(1).map(u64::from);
    let error = perf("error").with("condition", sym("amqp:internal-error"));
    p.send(
        0,
        perf("detach")
            .with("handle", 1u32)
            .with("closed", true)
            .with("error", error),
    );
    let answer = p.want("detach")?;
    same!(answer.number("handle"), remote, "handle");
    ensure!(answer.flag("closed"), "{answer:?}");
    p.receiver("r1", 1, "q1")?;
    p.close()
}

fn odd_handles(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    p.hex(known::BEGIN);
    let begin = p.want("begin")?;
    let limit = begin.number("handle-max").unwrap_or(u32::MAX.into()) as u32;
    for handle in [limit, limit / 2, 1, 0] {
        p.receiver(&format!("r{handle}"), handle, "q1")?;
    }
    p.close()
}

fn refused_then_good(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let attach = perf("attach")
        .with("name", "r1")
        .with("handle", 1u32)
        .with("role", true);
    p.attach_refused(
        attach.with("target", perf("target")),
        &["amqp:invalid-field", "amqp:not-found", "amqp:not-allowed"],
    )?;
    p.receiver("r1", 1, "q1")?;
    p.close()
}

fn crossing_refusal(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    // A refused sender that sends at once, a flow and a detach before it has read anything.
    let attach = perf("attach")
        .with("name", "s1")
        .with("handle", 0u32)
        .with("role", false);
    p.send(
        0,
        attach
            .with("source", perf("source"))
            .with("initial-delivery-count", 0u32),
    );
    let transfer = p.transfer(0, 0);
    p.send_with(0, transfer, &message::data(b"x"));
    p.send(
        0,
        p.session_flow()
            .with("handle", 0u32)
            .with("delivery-count", 1u32),
    );
    p.send(0, perf("detach").with("handle", 0u32).with("closed", true));
    let attach = p.want("attach")?;
    ensure!(attach.field("target").is_null(), "{attach:?}");
    p.want("detach")?;
    p.sync()?;
    p.close()
}
