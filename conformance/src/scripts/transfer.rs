//! Transfers: many frames, aborts, tags, sizes (transport 2.6.11 to 2.6.14, 2.7.5).

use super::codec::both_ways;
use crate::kit::{Kit, known};
use crate::script::{Done, Script};
use crate::wire::{message, perf};
use crate::{ensure, same};

const AREA: &str = "transfer";
const BAD_FIELD: &[&str] = &[
    "amqp:invalid-field",
    "amqp:decode-error",
    "amqp:not-allowed",
    "amqp:illegal-state",
];

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "TR-01",
        &["2.6.14-c", "2.6.14-d", "2.7.5-f", "2.6.12-e"],
        "aborted deliveries leave no trace",
        aborted,
    ),
    Script::new(
        AREA,
        "TR-02",
        &["2.7.5-b", "2.7.5-c", "2.6.14-b"],
        "frames without id and tag belong to the delivery under way",
        continuation,
    ),
    Script::new(
        AREA,
        "TR-03",
        &["2.6.12-c", "2.6.12-d", "2.6.11-a"],
        "interleaving: across links yes, within a link no",
        interleaved,
    ),
    Script::new(
        AREA,
        "TR-04",
        &["2.7.3-e", "2.7.3-c", "2.8.18-b"],
        "max-message-size is enforced while the message comes",
        too_large,
    ),
    Script::new(
        AREA,
        "TR-05",
        &["2.7.3-d", "2.7.3-c"],
        "a receiver's max-message-size is honoured",
        receiver_limit,
    ),
    Script::new(
        AREA,
        "TR-06",
        &["2.6.14-a", "2.6.14-b", "2.7.1-c"],
        "a large message goes both ways in many frames",
        large_both_ways,
    ),
    Script::new(
        AREA,
        "TR-07",
        &["2.7.5-e", "2.6.12-h"],
        "settled on a later frame settles the delivery",
        settled_later,
    ),
    Script::new(
        AREA,
        "TR-08",
        &["2.7.5-g", "2.8.7-a", "2.7.5-a"],
        "frames without payload and tags of every length",
        odd_frames,
    ),
    Script::new(
        AREA,
        "TR-09",
        &["2.7.5-j", "2.8.17-b"],
        "a transfer for a handle without link ends the session",
        no_link,
    ),
    Script::new(
        AREA,
        "TR-10",
        &["2.6.12-a", "2.6.12-b", "2.7.5-a", "2.8.7-a"],
        "the broker's deliveries have ids in a row and unique tags",
        broker_tags,
    ),
    Script::new(
        AREA,
        "TR-11",
        &["2.7.5-i"],
        "batchable changes nothing but the timing",
        batchable,
    ),
    Script::new(
        AREA,
        "TR-12",
        &["2.6.12-a"],
        "a tag may be used again once its delivery is settled",
        tag_again,
    ),
    Script::new(
        AREA,
        "TR-13",
        &["2.8.1-a", "2.7.5-j"],
        "a transfer on a receiver's handle is an error",
        wrong_direction,
    ),
    Script::new(
        AREA,
        "TR-14",
        &["2.6.14-d", "2.6.5-a"],
        "a half-sent delivery goes with its link",
        half_sent,
    ),
];

fn aborted(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex(known::SND);
    p.want("attach")?;
    p.credit_wait(0)?;
    let second = "0000002802000000005314c009064343a00141434041005375b00000001430313233343536373839";
    let first = "0000001602000000005314c009064343a00141434041";
    let abort = "0000001802000000005314c00b0a43404040404040404041";
    let abort_more = "0000001802000000005314c00b0a43404040404140404041";
    for end in [abort, abort_more] {
        p.hex(&[first, second, end].concat());
        p.hex("0000001f02000000005314c00804435201a0010143005375a00568656c6c6f");
        same!(
            p.outcome(1)?,
            "accepted",
            "outcome of the delivery behind an abort"
        );
        p.detach(0, true)?;
        p.hex(known::END);
        p.want("end")?;
        p.hex(known::BEGIN);
        p.want("begin")?;
        p.hex(known::SND);
        p.want("attach")?;
        p.credit_wait(0)?;
    }
    let rounds = if k.is_virtual() { 10_000 } else { 2_000 };
    for id in 0..rounds {
        p.credit_wait(0)?;
        let transfer = p.transfer(0, id).with("more", true);
        p.send_with(0, transfer, &message::data(b"0123456789"));
        p.send(
            0,
            perf("transfer").with("handle", 0u32).with("aborted", true),
        );
    }
    p.credit_wait(0)?;
    p.publish(0, rounds, &message::data(b"last"));
    same!(
        p.outcome(rounds)?,
        "accepted",
        "outcome of the last delivery"
    );
    for frame in p.take("disposition") {
        ensure!(
            frame.number("first") == Some(u64::from(rounds)),
            "an aborted delivery was answered: {frame:?}"
        );
    }
    p.close()?;
    same!(
        k.bodies("q1")?,
        ["hello", "hello", "last"].map(String::from).to_vec(),
        "what was stored"
    );
    Ok(())
}

fn continuation(k: &mut Kit) -> Done {
    let first = "0000001e02000000005314c009064343a00141434041005375a006616263";
    let mut p = k.session()?;
    p.hex(known::SND);
    p.want("attach")?;
    p.credit_wait(0)?;
    p.hex(first);
    p.hex("0000001202000000005314c0020143646566");
    same!(p.outcome(0)?, "accepted", "outcome of two frames");
    p.close()?;
    let mut p = k.session()?;
    p.hex(known::SND);
    p.want("attach")?;
    p.credit_wait(0)?;
    p.hex(first);
    let again = perf("transfer")
        .with("handle", 0u32)
        .with("delivery-id", 0u32);
    let same_tag = again
        .clone()
        .with("delivery-tag", vec![0x41])
        .with("message-format", 0u32);
    p.send_with(0, same_tag.with("more", false), b"def");
    same!(
        p.outcome(0)?,
        "accepted",
        "outcome when id and tag are repeated"
    );
    p.close()?;
    for wrong in [
        again.clone().with("delivery-id", 1u32),
        again.with("delivery-tag", vec![0x42]),
    ] {
        let mut p = k.session()?;
        p.hex(known::SND);
        p.want("attach")?;
        p.credit_wait(0)?;
        p.hex(first);
        p.send_with(0, wrong, b"def");
        let answer = p.want_where("detach or end", |f| ["detach", "end"].contains(&f.name()))?;
        ensure!(
            BAD_FIELD.contains(&answer.condition().as_str()),
            "{answer:?}"
        );
    }
    same!(
        k.bodies("q1")?,
        ["abcdef", "abcdef"].map(String::from).to_vec(),
        "what was stored"
    );
    Ok(())
}

fn interleaved(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.sender("s2", 2, "q1")?;
    p.credit_wait(0)?;
    p.credit_wait(2)?;
    let (a, b) = (message::data(&[b'a'; 40]), message::data(&[b'b'; 40]));
    for part in 0..4 {
        for (handle, id, body) in [(0, 0, &a), (2, 1, &b)] {
            let transfer = if part == 0 {
                p.transfer(handle, id)
            } else {
                perf("transfer").with("handle", handle)
            };
            let end = if part == 3 {
                body.len()
            } else {
                (part + 1) * 10
            };
            p.send_with(0, transfer.with("more", part < 3), &body[part * 10..end]);
        }
    }
    same!(p.outcome(0)?, "accepted", "outcome on the first link");
    same!(p.outcome(1)?, "accepted", "outcome on the second link");
    p.close()?;
    let mut bodies = k.bodies("q1")?;
    bodies.sort();
    same!(
        bodies,
        vec!["a".repeat(40), "b".repeat(40)],
        "what was stored"
    );
    let mut p = k.session()?;
    p.hex(known::SND);
    p.want("attach")?;
    p.credit_wait(0)?;
    p.hex("0000001602000000005314c009064343a001414340410000001b02000000005314c00804435201a0014243005375a00178");
    let answer = p.want_where("detach or end", |f| ["detach", "end"].contains(&f.name()))?;
    ensure!(
        BAD_FIELD.contains(&answer.condition().as_str()),
        "{answer:?}"
    );
    p.cut();
    same!(
        k.bodies("q1")?,
        Vec::<String>::new(),
        "stored from mixed frames"
    );
    Ok(())
}

fn too_large(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let attach = p
        .sender_attach("s1", 0, "q1")
        .with("max-message-size", 0u64);
    let answer = p.attach(attach)?;
    let limit = match answer.number("max-message-size") {
        None | Some(0) => return crate::kit::unsupported("announces no max-message-size"),
        Some(limit) if limit > 64 << 20 => {
            return crate::kit::unsupported("announces more than 64 MiB");
        }
        Some(limit) => limit as usize,
    };
    let frame_max = p
        .opened
        .as_ref()
        .and_then(|o| o.number("max-frame-size"))
        .unwrap_or(65_536);
    let chunk = (frame_max.min(60_000) - 200) as usize;
    p.credit_wait(0)?;
    // More than the limit, piece by piece; the broker may stop it at any time.
    let piece = vec![0; chunk];
    let mut sent = 0;
    let mut is_stopped = false;
    while sent < limit * 2 && !is_stopped {
        let transfer = if sent == 0 {
            p.transfer(0, 0)
        } else {
            perf("transfer").with("handle", 0u32)
        };
        p.send_with(0, transfer.with("more", true), &piece);
        sent += chunk;
        if sent > limit || sent % (chunk * 64) == 0 {
            p.pump(if sent > limit { 20 } else { 1 })?;
            is_stopped = p.count("detach") + p.count("end") + p.count("close") > 0;
        }
    }
    let remote = p.remote_handle(0).unwrap_or(0);
    p.detached(remote, &["amqp:link:message-size-exceeded"])?;
    p.sync()?;
    p.close()
}

fn receiver_limit(k: &mut Kit) -> Done {
    k.fill("q1", &[message::data(&[1; 5_000])])?;
    let mut p = k.session()?;
    let attach = p
        .receiver_attach("r1", 1, "q1")
        .with("max-message-size", 1_000u64);
    p.attach(attach)?;
    p.credit(1, 10);
    p.pump(500)?;
    let octets: usize = p.take("transfer").iter().map(|f| f.payload.len()).sum();
    ensure!(
        octets <= 1_000,
        "{octets} octets of a message came, 1000 were announced"
    );
    p.detach(1, true).ok();
    let attach = p
        .receiver_attach("r2", 2, "q1")
        .with("max-message-size", 0u64);
    p.attach(attach)?;
    p.close()
}

fn large_both_ways(k: &mut Kit) -> Done {
    let mut p = both_ways(k)?;
    let size = 300_000;
    let body: Vec<u8> = (0..size).map(|i| (i / 7 % 251) as u8).collect();
    let payload = message::data(&body);
    p.credit_wait(0)?;
    let count = payload.len().div_ceil(8_000);
    for (n, chunk) in payload.chunks(8_000).enumerate() {
        let transfer = if n == 0 {
            p.transfer(0, 0)
        } else {
            perf("transfer").with("handle", 0u32)
        };
        p.send_with(0, transfer.with("more", n + 1 < count), chunk);
    }
    same!(p.outcome(0)?, "accepted", "outcome");
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    same!(
        message::data_of(&got.payload).map(|b| b == body),
        Some(true),
        "body unchanged"
    );
    p.settle(got.id, "accepted");
    p.close()
}

fn settled_later(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let payload = message::data(b"abcdef");
    let transfer = p.transfer(0, 0).with("settled", false).with("more", true);
    p.send_with(0, transfer, &payload[..6]);
    p.send_with(
        0,
        perf("transfer").with("handle", 0u32).with("settled", true),
        &payload[6..],
    );
    p.sync()?;
    p.quiet("disposition", 200)?;
    p.close()?;
    same!(
        k.bodies("q1")?,
        vec!["abcdef".to_string()],
        "what was stored"
    );
    Ok(())
}

fn odd_frames(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex(known::SND);
    p.want("attach")?;
    p.credit_wait(0)?;
    let payload = message::data(b"abcdef");
    let more = || perf("transfer").with("handle", 0u32).with("more", true);
    let first = p.transfer(0, 0).with("more", true);
    p.send_with(0, first, &[]);
    p.send_with(0, more(), &payload[..5]);
    p.send_with(0, more(), &[]);
    p.send_with(0, more(), &payload[5..]);
    p.send_with(0, perf("transfer").with("handle", 0u32), &[]);
    same!(
        p.outcome(0)?,
        "accepted",
        "outcome of a delivery with empty frames"
    );
    let with_tag = |id: u32, tag: usize| {
        perf("transfer")
            .with("handle", 0u32)
            .with("delivery-id", id)
            .with("delivery-tag", vec![0x74; tag])
            .with("message-format", 0u32)
    };
    for (id, tag) in [(1, 0), (2, 32)] {
        p.credit_wait(0)?;
        p.send_with(0, with_tag(id, tag), &message::data(b"x"));
        same!(
            p.outcome(id)?,
            "accepted",
            "outcome with a tag of {tag} octets"
        );
    }
    p.close()?;
    for bad in [
        "0000003a02000000005314c027044343a02174747474747474747474747474747474747474747474747474747474747474747443005375a00178",
        "0000001802000000005314c0050443434043005375a00178",
    ] {
        let mut p = k.session()?;
        p.hex(known::SND);
        p.want("attach")?;
        p.credit_wait(0)?;
        p.hex(bad);
        let answer = p.want_where("detach or end", |f| ["detach", "end"].contains(&f.name()))?;
        ensure!(
            BAD_FIELD.contains(&answer.condition().as_str()),
            "{answer:?}"
        );
    }
    same!(k.empty("q1")?.len(), 3, "messages stored");
    Ok(())
}

fn no_link(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex("0000001f02000000005314c00804520943a0010043005375a00568656c6c6f");
    let end = p.want("end")?;
    same!(
        end.condition(),
        "amqp:session:unattached-handle",
        "condition"
    );
    p.hex(known::END);
    p.close()
}

fn broker_tags(k: &mut Kit) -> Done {
    k.fill_count("q1", 50)?;
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 50);
    let got = p.must_get_all("r1", 50)?;
    let mut tags: Vec<_> = got.iter().map(|d| d.tag.clone()).collect();
    tags.sort();
    tags.dedup();
    same!(
        tags.len(),
        50,
        "different tags among 50 unsettled deliveries"
    );
    for (n, pair) in got.windows(2).enumerate() {
        same!(pair[1].id, pair[0].id.wrapping_add(1), "delivery-id {n}");
        ensure!(
            pair[0].tag.len() <= 32,
            "tag of {} octets",
            pair[0].tag.len()
        );
    }
    let texts: Vec<_> = got.iter().map(|d| d.text()).collect();
    same!(
        texts,
        (0..50).map(|n| format!("m{n}")).collect::<Vec<_>>(),
        "order"
    );
    p.close()
}

fn batchable(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    for id in 0..5 {
        let transfer = p.transfer(0, id).with("batchable", true);
        p.send_with(0, transfer, &message::data(b"x"));
    }
    for id in 0..5 {
        same!(
            p.outcome(id)?,
            "accepted",
            "outcome of a batchable delivery"
        );
    }
    p.close()
}

fn tag_again(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    for id in 0..3 {
        p.credit_wait(0)?;
        let transfer = p.transfer(0, id).with("delivery-tag", vec![7]);
        p.send_with(0, transfer, &message::data(b"x"));
        same!(
            p.outcome(id)?,
            "accepted",
            "outcome of delivery {id} with the same tag"
        );
    }
    p.close()
}

fn wrong_direction(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    let transfer = p.transfer(1, 0);
    p.send_with(0, transfer, &message::data(b"x"));
    let answer = p.want_where("detach or end", |f| ["detach", "end"].contains(&f.name()));
    ensure!(
        answer.is_ok() || p.count("close") == 1,
        "a transfer to a receiver's handle was taken"
    );
    Ok(())
}

fn half_sent(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let transfer = p.transfer(0, 0).with("more", true);
    p.send_with(0, transfer, &message::data(b"half")[..6]);
    p.detach(0, true)?;
    p.sync()?;
    ensure!(
        p.count("disposition") == 0,
        "a half-sent delivery was answered"
    );
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    p.publish(0, 1, &message::data(b"whole"));
    same!(p.outcome(1)?, "accepted", "outcome of the next delivery");
    p.close()?;
    same!(
        k.bodies("q1")?,
        vec!["whole".to_string()],
        "what was stored"
    );
    Ok(())
}
