//! Session windows and transfer ids (transport 2.5.6, 2.7.4).

use crate::kit::{Kit, known};
use crate::script::{Done, Script};
use crate::wire::{message, perf};
use crate::{ensure, same};

const AREA: &str = "session-flow";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "SF-01",
        &["2.5.6-a", "2.5.6-e", "2.5.6-f", "2.6.14-b"],
        "the broker opens its window again within one long message",
        window_reopens,
    ),
    Script::new(
        AREA,
        "SF-02",
        &["2.5.6-b", "2.5.6-c", "2.5.6-a"],
        "exactly as many transfers come as the window allows",
        window_exact,
    ),
    Script::new(
        AREA,
        "SF-03",
        &["2.5.6-b", "2.5.6-i"],
        "a window of zero stops transfers and nothing else",
        window_zero,
    ),
    Script::new(
        AREA,
        "SF-04",
        &["2.5.6-d", "2.7.4-b", "2.4.2-c"],
        "a flow before the broker's begin needs no next-incoming-id",
        null_next_incoming,
    ),
    Script::new(
        AREA,
        "SF-05",
        &["2.5.6-g", "2.8.10-a", "2.7.6-e", "2.6.12-b"],
        "transfer ids wrap at 2^32",
        ids_wrap,
    ),
    Script::new(
        AREA,
        "SF-06",
        &["2.5.6-j", "2.5.6-b"],
        "a window that shrank below what is on the way counts as zero",
        window_shrinks,
    ),
    Script::new(
        AREA,
        "SF-07",
        &["2.5.6-h", "2.8.17-a"],
        "transfers beyond the window are taken or end the session",
        window_overrun,
    ),
    Script::new(
        AREA,
        "SF-08",
        &["2.7.4-a", "2.7.4-b", "2.7.4-h", "2.7.4-i"],
        "the flows of the broker carry all their fields",
        flow_fields,
    ),
    Script::new(
        AREA,
        "SF-09",
        &["2.6.12-b", "2.5.6-e"],
        "delivery ids run up one by one over all links of a session",
        ids_in_a_row,
    ),
    Script::new(
        AREA,
        "SF-10",
        &["2.5.6-a", "2.6.14-a", "2.5.6-b"],
        "a message in many frames keeps to the window too",
        window_in_frames,
    ),
];

fn window_reopens(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.pump(100)?;
    let attach = p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let total = if k.is_virtual() { 5 << 20 } else { 2 << 20 };
    let limit = attach
        .number("max-message-size")
        .filter(|l| *l > 0)
        .unwrap_or(u64::MAX);
    let total = limit.min(total) as usize - 64;
    let payload = message::data(&vec![5; total]);
    // The window as the broker's flows say, counted in transfers; starts from a flow of its own.
    let flow = p.session_flow().with("echo", true);
    p.send(0, flow);
    let flow = p.want("flow")?;
    let mut limit = edge(&flow, 0);
    let mut sent = 0u32;
    let chunks: Vec<_> = payload.chunks(480).collect();
    for (n, chunk) in chunks.iter().enumerate() {
        while sent >= limit {
            let flow = p.want_where("a session flow that opens the window", |f| {
                f.name() == "flow"
            })?;
            limit = edge(&flow, limit);
        }
        let more = n + 1 < chunks.len();
        let transfer = if n == 0 {
            p.transfer(0, 0)
        } else {
            perf("transfer").with("handle", 0u32)
        };
        p.send_with(0, transfer.with("more", more), chunk);
        sent += 1;
    }
    same!(
        p.outcome(0)?,
        "accepted",
        "outcome of {total} octets in {sent} frames"
    );
    p.close()?;
    let back = k.empty("q1")?;
    same!(back.len(), 1, "messages in the queue");
    same!(
        message::data_of(&back[0]).map(|b| b.len()),
        Some(total),
        "octets of the body"
    );
    Ok(())
}

fn edge(flow: &crate::wire::Frame, before: u32) -> u32 {
    let next = flow.number("next-incoming-id").unwrap_or(0) as u32;
    let window = flow.number("incoming-window").unwrap_or(0) as u32;
    before.max(next.saturating_add(window))
}

fn window_exact(k: &mut Kit) -> Done {
    k.fill_count("q1", 100)?;
    let mut p = k.open()?;
    p.hex("0000001702000000005311c00a044043520a7000000800");
    p.want("begin")?;
    p.receiver("r1", 1, "q1")?;
    p.window = 10;
    p.credit(1, 1_000);
    for round in 0..10 {
        p.pump_for(if k.is_virtual() { 1_000 } else { 250 })?;
        same!(p.count("transfer"), 10, "transfers in window {round}");
        for frame in p.take("transfer") {
            p.settle(frame.number("delivery-id").unwrap_or(0) as u32, "accepted");
        }
        let flow = p.session_flow();
        p.send(0, flow);
    }
    p.quiet("transfer", 200)?;
    ensure!(p.count("end") == 0, "the session was ended");
    p.close()
}

fn window_zero(k: &mut Kit) -> Done {
    k.fill_count("q1", 5)?;
    let mut p = k.open()?;
    p.hex("0000001602000000005311c009044043437000000800");
    p.want("begin")?;
    p.window = 0;
    p.receiver("r1", 1, "q1")?;
    p.sender("s1", 0, "q2")?;
    p.credit(1, 5);
    p.credit_wait(0)?;
    for id in 0..3 {
        p.publish(0, id, &message::data(b"x"));
    }
    for id in 0..3 {
        same!(
            p.outcome(id)?,
            "accepted",
            "outcome while the window is zero"
        );
    }
    p.quiet("transfer", 300)?;
    p.window = 1;
    let flow = p.session_flow();
    p.send(0, flow);
    p.pump(300)?;
    same!(p.count("transfer"), 1, "transfers after a window of one");
    p.window = 100;
    let flow = p.session_flow();
    p.send(0, flow);
    p.pump(300)?;
    same!(p.count("transfer"), 5, "transfers in all");
    p.close()
}

fn null_next_incoming(k: &mut Kit) -> Done {
    k.fill_count("q1", 5)?;
    let mut p = k.hello()?;
    let flow = "0000001f02000000005313c012074070000008004370000008005201405205";
    p.hex(&[known::OPEN, known::BEGIN, known::RCV, flow].concat());
    p.want("attach")?;
    p.must_get_all("r1", 5)?;
    p.close()
}

fn ids_wrap(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    p.hex("0000001e02000000005311c011044070fffffffe70000008007000000800");
    p.want("begin")?;
    p.hex(known::SND);
    p.want("attach")?;
    p.credit_wait(0)?;
    p.hex("0000002202000000005314c00b044370fffffffea001fe43005375a00568656c6c6f");
    p.hex("0000002202000000005314c00b044370ffffffffa001ff43005375a00568656c6c6f");
    p.hex(known::XFER);
    p.hex("0000001f02000000005314c00804435201a0010143005375a00568656c6c6f");
    p.hex("0000001f02000000005314c00804435202a0010243005375a00568656c6c6f");
    for id in [u32::MAX - 1, u32::MAX, 0, 1, 2] {
        same!(p.outcome(id)?, "accepted", "outcome of delivery {id}");
    }
    p.take("flow");
    let flow = p.session_flow().with("echo", true);
    p.send(0, flow);
    let flow = p.want("flow")?;
    same!(
        flow.number("next-incoming-id"),
        Some(3),
        "next-incoming-id after five transfers"
    );
    p.close()?;
    same!(k.empty("q1")?.len(), 5, "messages in the queue");
    Ok(())
}

fn window_shrinks(k: &mut Kit) -> Done {
    k.fill_count("q1", 20)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.window = 5;
    p.credit(1, 100);
    p.pump(300)?;
    same!(p.count("transfer"), 5, "transfers");
    // As if none had arrived yet: the first id, with a window of two.
    let first = p.next_incoming_id().wrapping_sub(5);
    let flow = p
        .session_flow()
        .with("next-incoming-id", first)
        .with("incoming-window", 2u32);
    p.send(0, flow);
    p.quiet_more("transfer", 5, 300)?;
    p.window = 3;
    let flow = p.session_flow();
    p.send(0, flow);
    p.pump(300)?;
    same!(p.count("transfer"), 8, "transfers after three more");
    p.close()
}

fn window_overrun(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let mut bytes = vec![];
    let frame = |transfer: &crate::wire::Perf| crate::wire::frame_bytes(0, 0, Some(transfer), &[]);
    bytes.extend(frame(&p.transfer(0, 0).with("more", true)));
    for _ in 0..20_000 {
        bytes.extend(frame(
            &perf("transfer").with("handle", 0u32).with("more", true),
        ));
    }
    p.raw(&bytes);
    p.send_with(
        0,
        perf("transfer").with("handle", 0u32),
        &message::data(b"x"),
    );
    let answer = p.want_where("an answer", |f| {
        ["disposition", "detach", "end"].contains(&f.name())
    });
    match answer {
        Ok(frame) if frame.name() == "disposition" => p.close(),
        Ok(frame) => {
            let allowed = [
                "amqp:session:window-violation",
                "amqp:resource-limit-exceeded",
                "amqp:link:message-size-exceeded",
            ];
            ensure!(allowed.contains(&frame.condition().as_str()), "{frame:?}");
            Ok(())
        }
        Err(_) if p.count("close") == 1 || p.is_gone() => Ok(()),
        Err(e) => Err(e),
    }
}

fn flow_fields(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    p.receiver("r1", 1, "q1")?;
    let flow = p.link_flow(1, 0).with("echo", true);
    p.send(0, flow);
    let flow = p.link_flow(0, 0).with("echo", true);
    p.send(0, flow);
    p.pump(300)?;
    let flows = p.take("flow");
    ensure!(flows.len() >= 2, "{} flows", flows.len());
    for flow in flows {
        for field in [
            "next-incoming-id",
            "incoming-window",
            "next-outgoing-id",
            "outgoing-window",
        ] {
            ensure!(
                flow.number(field).is_some(),
                "{field} is missing in {flow:?}"
            );
        }
        if !flow.field("handle").is_null() {
            ensure!(
                flow.number("delivery-count").is_some(),
                "no delivery-count in {flow:?}"
            );
            ensure!(
                flow.number("link-credit").is_some(),
                "no link-credit in {flow:?}"
            );
        }
    }
    p.close()
}

fn ids_in_a_row(k: &mut Kit) -> Done {
    k.fill_count("q1", 6)?;
    k.fill_count("q2", 6)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.receiver("r2", 2, "q2")?;
    for _ in 0..3 {
        p.credit(1, 2);
        p.credit(2, 2);
        p.sync()?;
        p.pump(200)?;
    }
    let ids: Vec<_> = p
        .take("transfer")
        .iter()
        .filter_map(|f| f.number("delivery-id"))
        .collect();
    same!(ids.len(), 12, "deliveries");
    for pair in ids.windows(2) {
        same!(
            pair[1] as u32,
            (pair[0] as u32).wrapping_add(1),
            "delivery-id behind {}",
            pair[0]
        );
    }
    p.close()
}

fn window_in_frames(k: &mut Kit) -> Done {
    k.fill("q1", &[message::data(&[9; 20_000])])?;
    let mut p = k.hello()?;
    p.hex("0000001802000000005310c00b03a1026331407000000200");
    p.want("open")?;
    p.hex("0000001702000000005311c00a044043520a7000000800");
    p.want("begin")?;
    p.receiver("r1", 1, "q1")?;
    p.window = 10;
    p.credit(1, 1);
    let mut seen = 0;
    for _ in 0..10 {
        p.pump(250)?;
        let now = p.count("transfer");
        ensure!(
            now - seen <= 10,
            "{} transfers in a window of 10",
            now - seen
        );
        if now == seen {
            break;
        }
        seen = now;
        let flow = p.session_flow();
        p.send(0, flow);
    }
    let got = p.must_get("r1")?;
    same!(
        message::data_of(&got.payload).map(|b| b.len()),
        Some(20_000),
        "octets of the body"
    );
    p.close()
}
