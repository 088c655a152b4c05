//! Habits of the Python clients pyamqp and uamqp.

use crate::kit::{Kit, known};
use crate::script::{Done, Script};
use crate::wire::{message, perf};
use crate::{ensure, same};

const AREA: &str = "quirk";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "QU-05",
        &["2.8.18-c", "2.6.7-d"],
        "pyamqp: transfers before credit, flows with credit from a sender",
        hasty_sender,
    ),
    Script::new(
        AREA,
        "QU-06",
        &["2.7.1-c", "2.7.2-b", "2.7.3-b", "2.7.3-g"],
        "pyamqp: limits and termini are stated, never an empty list",
        stated_limits,
    ),
    Script::new(
        AREA,
        "QU-07",
        &["2.5.2-c"],
        "pyamqp: detaches behind the end are ignored",
        detach_behind_end,
    ),
    Script::new(
        AREA,
        "QU-08",
        &["2.6.2-a", "2.5.1-f"],
        "pyamqp: first channel 1, first handle 1",
        starts_at_one,
    ),
    Script::new(
        AREA,
        "QU-09",
        &["2.8.3-a", "2.7.3-f"],
        "uamqp: a sender that asks for mode second and never completes it is settled",
        second_never_completed,
    ),
    Script::new(
        AREA,
        "QU-10",
        &["2.7.9-a", "2.8.14-a"],
        "pyamqp: an error close has a condition and a description",
        whole_errors,
    ),
    Script::new(
        AREA,
        "QU-11",
        &["3.5-a"],
        "uamqp: a whole URL as address",
        url_address,
    ),
    Script::new(
        AREA,
        "QU-12",
        &["2.4.5-e"],
        "uamqp: empty frames in bursts",
        empty_bursts,
    ),
    Script::new(
        AREA,
        "QU-21",
        &["2.5.6-h"],
        "pyamqp: a window overrun by a few frames is borne",
        slight_overrun,
    ),
];

fn hasty_sender(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let attach = p.sender_attach("s1", 0, "q1");
    p.send(0, attach);
    let flow = p
        .session_flow()
        .with("handle", 0u32)
        .with("delivery-count", 0u32);
    p.send(
        0,
        flow.with("link-credit", 10_000u32).with("available", 0u32),
    );
    for id in 0..5 {
        let transfer = p.transfer(0, id);
        p.send_with(0, transfer, &message::data(b"x"));
    }
    let answer = p.want("attach")?;
    ensure!(!answer.field("target").is_null(), "{answer:?}");
    let answer = p.want_where("disposition or detach", |f| {
        ["disposition", "detach"].contains(&f.name())
    })?;
    if answer.name() == "detach" {
        same!(
            answer.condition(),
            "amqp:link:transfer-limit-exceeded",
            "condition"
        );
    }
    p.sync()?;
    p.close()
}

fn stated_limits(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let open = p.opened.clone().expect("an open");
    ensure!(
        open.number("max-frame-size").is_some(),
        "no max-frame-size in {open:?}"
    );
    p.hex(known::BEGIN);
    let begin = p.want("begin")?;
    ensure!(
        begin.number("handle-max").is_some(),
        "no handle-max in {begin:?}"
    );
    let attaches = [p.sender("s1", 0, "q1")?, p.receiver("r1", 1, "q1")?];
    for attach in attaches {
        for terminus in ["source", "target"] {
            let fields = crate::wire::perf_of(attach.field(terminus)).map(|t| t.fields.len());
            let is_own = (terminus == "target") == attach.flag("role");
            ensure!(fields.is_some(), "{terminus} is null in {attach:?}");
            ensure!(
                !is_own || fields > Some(0),
                "{terminus} is an empty list in {attach:?}"
            );
        }
    }
    p.close()
}

fn detach_behind_end(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.receiver("r1", 1, "q1")?;
    p.hex(known::END);
    p.want("end")?;
    // The end is answered: the channel is dead on both sides.
    p.hex("0000001002000000005316c003024341");
    p.hex("0000001102000000005316c00402520141");
    p.pump(300)?;
    ensure!(
        p.count("close") == 0 && !p.is_gone(),
        "detaches behind the end closed the connection"
    );
    p.close()
}

fn starts_at_one(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let begin = perf("begin")
        .with("next-outgoing-id", 0u32)
        .with("incoming-window", 65_536u32);
    p.send(
        1,
        begin
            .with("outgoing-window", 65_536u32)
            .with("handle-max", u32::MAX),
    );
    p.want("begin")?;
    let attach = p.sender_attach("s1", 1, "q1");
    p.send(1, attach);
    let answer = p.want_on(1, "attach")?;
    ensure!(!answer.field("target").is_null(), "{answer:?}");
    p.credit_wait(1)?;
    p.publish(1, 0, &message::data(b"x"));
    same!(p.outcome(0)?, "accepted", "outcome");
    p.close()
}

fn second_never_completed(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let attach = p
        .sender_attach("s1", 0, "q1")
        .with("rcv-settle-mode", 1u8)
        .with("snd-settle-mode", 0u8);
    let answer = p.attach(attach)?;
    let mode = answer.number("rcv-settle-mode").unwrap_or(0);
    p.credit_wait(0)?;
    p.publish(0, 0, &message::data(b"x"));
    let disposition = p.disposition(0)?;
    same!(disposition.state(), "accepted", "outcome");
    ensure!(
        mode == 1 || disposition.flag("settled"),
        "mode first is in force, the outcome is unsettled"
    );
    for id in 1..600 {
        p.credit_wait(0)?;
        p.publish(0, id, &message::data(b"x"));
        same!(p.disposition(id)?.state(), "accepted", "outcome of {id}");
    }
    p.close()
}

fn whole_errors(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex("0000000002000000");
    let close = p.want("close")?;
    let error = close.field("error");
    ensure!(
        error.field(0).words().is_some(),
        "no condition in {close:?}"
    );
    ensure!(
        error.field(1).words().is_some_and(|d| !d.is_empty()),
        "no description in {close:?}"
    );
    Ok(())
}

fn url_address(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let plain = p.addr("q1");
    let url = format!("amqps://some.host/{}", plain.trim_start_matches('/'));
    let target = perf("target").with("address", url);
    let attach = p.sender_attach("s1", 0, "q1").with("target", target);
    p.send(0, attach);
    let answer = p.want("attach")?;
    if answer.field("target").is_null() {
        return crate::kit::unsupported("takes no URL as address");
    }
    p.credit_wait(0)?;
    p.publish(0, 0, &message::data(b"url"));
    same!(p.outcome(0)?, "accepted", "outcome");
    p.close()?;
    let bodies = k.bodies("q1")?;
    if bodies.is_empty() {
        return crate::kit::unsupported("takes a URL as the name of a queue");
    }
    same!(
        bodies,
        vec!["url".to_string()],
        "what the queue of the URL got"
    );
    Ok(())
}

fn empty_bursts(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    for _ in 0..20 {
        p.hex_times("0000000802000000", 50);
        p.sync()?;
    }
    p.close()
}

fn slight_overrun(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    p.take("flow");
    let flow = p.session_flow().with("echo", true);
    p.send(0, flow);
    let window = p.want("flow")?.number("incoming-window").unwrap_or(0);
    if window > 20_000 {
        return crate::kit::unsupported("its window is too large to overrun here");
    }
    // Frames of 300 octets: a broker may refuse deliveries cut into crumbs.
    let frames = window as usize + 3;
    let payload = message::data(&vec![0; frames * 300 - 8]);
    let last = payload.len().div_ceil(300) - 1;
    let mut bytes = vec![];
    for (n, chunk) in payload.chunks(300).enumerate() {
        let transfer = if n == 0 {
            p.transfer(0, 0)
        } else {
            perf("transfer").with("handle", 0u32)
        };
        bytes.extend(crate::wire::frame_bytes(
            0,
            0,
            Some(&transfer.with("more", n < last)),
            chunk,
        ));
    }
    let placed = p.place(bytes);
    p.raw(&placed);
    same!(
        p.outcome(0)?,
        "accepted",
        "outcome of a message in {} frames, {window} were allowed",
        last + 1
    );
    p.close()
}
