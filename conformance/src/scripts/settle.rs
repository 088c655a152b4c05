//! Settlement: dispositions, ranges, both modes (transport 2.6.12, 2.7.6, 2.8.2, 2.8.3).

use crate::kit::{Kit, Peer, known, unsupported};
use crate::script::{Done, Script};
use crate::wire::{Perf, Value, message, perf};
use crate::{ensure, same};

const AREA: &str = "settlement";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "SE-01",
        &["2.7.6-e", "2.7.6-c", "2.8.10-a"],
        "the broker's dispositions cover exactly the ids that wrap",
        wrapped_range,
    ),
    Script::new(
        AREA,
        "SE-02",
        &["2.7.6-d", "2.7.6-c", "2.7.6-e"],
        "huge and reversed ranges cost nothing",
        huge_ranges,
    ),
    Script::new(
        AREA,
        "SE-03",
        &["2.6.12-f", "2.6.12-h", "3.4-d", "2.7.6-d"],
        "what is said about a settled delivery has no effect",
        settled_twice,
    ),
    Script::new(
        AREA,
        "SE-04",
        &["2.6.12-g", "2.8.3-b", "2.7.3-f"],
        "mode second: outcome, settlement by the sender, end",
        mode_second,
    ),
    Script::new(
        AREA,
        "SE-05",
        &["2.7.6-a"],
        "ids of the two directions are kept apart",
        two_directions,
    ),
    Script::new(
        AREA,
        "SE-06",
        &["2.7.6-b", "2.7.6-c"],
        "one disposition settles a range",
        range_settles,
    ),
    Script::new(
        AREA,
        "SE-07",
        &["2.6.12-e", "2.8.2-b", "2.4.3-c"],
        "settled transfers get no disposition and are all stored",
        presettled,
    ),
    Script::new(
        AREA,
        "SE-08",
        &["2.8.2-b", "2.8.2-a", "2.7.3-f"],
        "the broker's own transfers follow the settle mode of the link",
        sender_modes,
    ),
    Script::new(
        AREA,
        "SE-09",
        &["2.7.6-f", "3.4-a", "2.8.3-a"],
        "an outcome without settled is final all the same",
        outcome_unsettled,
    ),
    Script::new(
        AREA,
        "SE-10",
        &["3.4.1-b", "3.4-a"],
        "received is no outcome",
        received,
    ),
    Script::new(
        AREA,
        "SE-11",
        &["2.8.2-c"],
        "a mixed link carries both kinds",
        mixed,
    ),
    Script::new(
        AREA,
        "SE-12",
        &["2.6.12-f", "2.7.6-d"],
        "dispositions for ids that never were are skipped",
        unknown_ids,
    ),
    Script::new(
        AREA,
        "SE-13",
        &["2.7.6-c", "2.6.12-d", "2.6.12-b"],
        "the broker's dispositions leave out a delivery that is still on its way",
        gap_in_the_middle,
    ),
];

fn disposition(first: u32, last: u32, state: &str) -> Perf {
    let d = perf("disposition")
        .with("role", true)
        .with("first", first)
        .with("last", last);
    d.with("settled", true).with("state", perf(state))
}

fn receive(k: &mut Kit, count: usize) -> Done<Peer> {
    k.fill_count("q1", count)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, count as u32);
    Ok(p)
}

fn wrapped_range(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    p.hex("0000001e02000000005311c011044070fffffffe70000008007000000800");
    p.want("begin")?;
    p.hex(known::SND);
    p.want("attach")?;
    p.credit_wait(0)?;
    let ids = [u32::MAX - 1, u32::MAX, 0, 1];
    for id in ids {
        p.publish(0, id, &message::data(b"x"));
    }
    p.sync()?;
    p.pump(200)?;
    let mut covered = vec![];
    for frame in p.take("disposition") {
        let first = frame.number("first").unwrap_or(0) as u32;
        let last = frame.number("last").map_or(first, |l| l as u32);
        let count = last.wrapping_sub(first);
        ensure!(
            count < 4,
            "a disposition from {first} to {last} covers more than was sent"
        );
        covered.extend((0..=count).map(|n| first.wrapping_add(n)));
        same!(frame.state(), "accepted", "state");
    }
    covered.sort();
    let mut wanted = ids.to_vec();
    wanted.sort();
    same!(covered, wanted, "ids covered");
    p.close()
}

fn huge_ranges(k: &mut Kit) -> Done {
    let times = if k.is_virtual() { 10_000 } else { 3_000 };
    for range in [
        "0000001a02000000005315c00d054143707ffffffe4100532445",
        "0000001802000000005315c00b0541520552044100532445",
        "0000001a02000000005315c00d05414370ffffffff4100532445",
    ] {
        let mut p = receive(k, 2)?;
        p.must_get_all("r1", 2)?;
        p.hex_times(range, times);
        let flow = p.session_flow().with("echo", true);
        p.send(0, flow);
        let answer = p.want_where("flow or end", |f| ["flow", "end"].contains(&f.name()))?;
        if answer.name() == "end" {
            same!(answer.condition(), "amqp:invalid-field", "condition");
            p.cut();
            k.empty("q1")?;
            continue;
        }
        p.close()?;
        let left = k.bodies("q1")?.len();
        if range.contains("7ffffffe") {
            same!(left, 0, "messages left behind a range that covers both");
        }
    }
    Ok(())
}

fn settled_twice(k: &mut Kit) -> Done {
    let mut p = receive(k, 1)?;
    let first = p.must_get("r1")?;
    p.settle(first.id, "accepted");
    p.settle(first.id, "rejected");
    p.settle(first.id.wrapping_add(77), "released");
    p.send(
        0,
        disposition(first.id, first.id.wrapping_add(200), "released"),
    );
    p.sync()?;
    p.credit(1, 5);
    p.quiet("transfer", 300)?;
    p.close()?;
    same!(k.bodies("q1")?, Vec::<String>::new(), "messages left");
    Ok(())
}

fn mode_second(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    p.hex("0000002602000000005312c01907a1027231520141405001005328c00501a102713100532945");
    let attach = p.want("attach")?;
    ensure!(!attach.field("source").is_null(), "refused: {attach:?}");
    let mode = attach.number("rcv-settle-mode").unwrap_or(0);
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    let state = perf("disposition")
        .with("role", true)
        .with("first", got.id)
        .with("last", got.id);
    let state = state.with("state", perf("accepted"));
    p.send(0, state.clone().with("settled", false));
    if mode == 1 {
        let answer = p.want_where("settlement by the sender", |f| {
            f.name() == "disposition" && !f.flag("role")
        })?;
        ensure!(answer.flag("settled"), "{answer:?}");
        same!(answer.number("first"), Some(u64::from(got.id)), "first");
    }
    p.send(0, state.with("settled", true));
    p.sync()?;
    p.close()?;
    same!(k.bodies("q1")?, Vec::<String>::new(), "messages left");
    Ok(())
}

fn two_directions(k: &mut Kit) -> Done {
    k.fill_count("q1", 1)?;
    let mut p = k.session()?;
    p.sender("s1", 0, "q2")?;
    p.receiver("r1", 1, "q1")?;
    p.credit_wait(0)?;
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    p.publish(0, got.id, &message::data(b"mine"));
    same!(
        p.outcome(got.id)?,
        "accepted",
        "outcome of our own delivery"
    );
    // role=sender: about our own delivery, which is settled. The broker's must stay unsettled.
    p.send(
        0,
        perf("disposition")
            .with("role", false)
            .with("first", got.id)
            .with("settled", true),
    );
    p.sync()?;
    p.settle(got.id, "released");
    p.credit(1, 1);
    same!(p.must_get("r1")?.text(), "m0", "the released message");
    p.close()?;
    same!(k.bodies("q2")?, vec!["mine".to_string()], "the other queue");
    Ok(())
}

fn range_settles(k: &mut Kit) -> Done {
    let mut p = receive(k, 10)?;
    let got = p.must_get_all("r1", 10)?;
    p.send(0, disposition(got[2].id, got[6].id, "accepted"));
    let one = perf("disposition")
        .with("role", true)
        .with("first", got[8].id)
        .with("settled", true);
    p.send(0, one.with("state", perf("accepted")));
    p.sync()?;
    p.close()?;
    let left = ["m0", "m1", "m7", "m9"].map(String::from).to_vec();
    same!(k.bodies("q1")?, left, "messages left");
    Ok(())
}

fn presettled(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex("0000002802000000005312c01b0aa1027331434250014000532845005329c00501a1027131404043");
    p.want("attach")?;
    let count = 1_000;
    for id in 0..count {
        p.credit_wait(0)?;
        let transfer = p.transfer(0, id).with("settled", true);
        p.send_with(0, transfer, &message::data(format!("m{id}").as_bytes()));
        if id % 50 == 0 {
            p.pump(1)?;
        }
    }
    p.hex(known::CLOSE);
    p.want("close")?;
    same!(
        p.count("disposition"),
        0,
        "dispositions for settled transfers"
    );
    let mut p = k.session()?;
    let attach = p
        .receiver_attach("r1", 1, "q1")
        .with("snd-settle-mode", 1u8);
    let answer = p.attach(attach)?;
    same!(
        answer.number("snd-settle-mode"),
        Some(1),
        "snd-settle-mode in force"
    );
    p.credit(1, count);
    let got = p.must_get_all("r1", count as usize)?;
    ensure!(
        got.iter().all(|d| d.settled),
        "unsettled transfers on a settled link"
    );
    let texts: Vec<_> = got.iter().map(|d| d.text()).collect();
    same!(
        texts == (0..count).map(|n| format!("m{n}")).collect::<Vec<_>>(),
        true,
        "all in order"
    );
    p.close()?;
    same!(k.bodies("q1")?.len(), 0, "messages left");
    Ok(())
}

fn sender_modes(k: &mut Kit) -> Done {
    for (mode, name) in [(0u8, "unsettled"), (1, "settled")] {
        k.fill_count("q1", 1)?;
        let mut p = k.session()?;
        let attach = p
            .receiver_attach("r1", 1, "q1")
            .with("snd-settle-mode", mode);
        let answer = p.attach(attach)?;
        let in_force = answer.number("snd-settle-mode").unwrap_or(2);
        p.credit(1, 1);
        let got = p.must_get("r1")?;
        if in_force != u64::from(mode) {
            return unsupported(&format!(
                "snd-settle-mode {name} is answered with {in_force}"
            ));
        }
        same!(
            got.settled,
            mode == 1,
            "settled flag with snd-settle-mode {name}"
        );
        if !got.settled {
            p.settle(got.id, "accepted");
        }
        p.sync()?;
        p.close()?;
    }
    Ok(())
}

fn outcome_unsettled(k: &mut Kit) -> Done {
    let mut p = receive(k, 1)?;
    let got = p.must_get("r1")?;
    let state = perf("disposition").with("role", true).with("first", got.id);
    p.send(0, state.with("state", perf("accepted")));
    p.sync()?;
    p.close()?;
    same!(
        k.bodies("q1")?,
        Vec::<String>::new(),
        "messages left behind an accepted that was not settled"
    );
    Ok(())
}

fn received(k: &mut Kit) -> Done {
    let mut p = receive(k, 1)?;
    let got = p.must_get("r1")?;
    let state = perf("received")
        .with("section-number", 0u32)
        .with("section-offset", 3u64);
    let d = perf("disposition").with("role", true).with("first", got.id);
    p.send(0, d.with("state", state));
    p.sync()?;
    p.credit(1, 1);
    p.quiet("transfer", 200)?;
    p.settle(got.id, "accepted");
    p.sync()?;
    p.close()?;
    same!(k.bodies("q1")?, Vec::<String>::new(), "messages left");
    Ok(())
}

fn mixed(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let attach = p.sender_attach("s1", 0, "q1").with("snd-settle-mode", 2u8);
    p.attach(attach)?;
    p.credit_wait(0)?;
    for id in 0..4u32 {
        let transfer = p.transfer(0, id).with("settled", id % 2 == 0);
        p.send_with(0, transfer, &message::data(b"x"));
    }
    for id in [1, 3] {
        same!(
            p.outcome(id)?,
            "accepted",
            "outcome of an unsettled transfer"
        );
    }
    p.close()?;
    same!(k.bodies("q1")?.len(), 4, "messages stored");
    Ok(())
}

fn unknown_ids(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.send(0, disposition(5, 5, "accepted"));
    let d = perf("disposition")
        .with("role", false)
        .with("first", 9u32)
        .with("settled", true);
    p.send(0, d);
    let null_state = perf("disposition")
        .with("role", true)
        .with("first", 3u32)
        .with("state", Value::Null);
    p.send(0, null_state);
    p.sync()?;
    p.close()
}

fn gap_in_the_middle(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.sender("s2", 2, "q1")?;
    p.credit_wait(0)?;
    p.credit_wait(2)?;
    let whole = message::data(b"whole");
    let mut bytes = vec![];
    for (handle, id, more) in [(0, 0, false), (2, 1, true), (0, 2, false)] {
        let transfer = p.transfer(handle, id).with("more", more);
        let end = if more { 4 } else { whole.len() };
        bytes.extend(crate::wire::frame_bytes(
            0,
            0,
            Some(&transfer),
            &whole[..end],
        ));
    }
    let placed = p.place(bytes);
    p.raw(&placed);
    same!(p.outcome(0)?, "accepted", "outcome of the first");
    same!(p.outcome(2)?, "accepted", "outcome of the third");
    p.pump(200)?;
    for frame in p.take("disposition") {
        let first = frame.number("first").unwrap_or(0);
        let last = frame.number("last").unwrap_or(first);
        ensure!(
            !(first..=last).contains(&1),
            "{frame:?} covers a delivery that is not whole"
        );
    }
    p.send_with(0, perf("transfer").with("handle", 2u32), &whole[4..]);
    same!(p.outcome(1)?, "accepted", "outcome of the second");
    p.close()
}
