//! Sessions: begin, end, channels (transport 2.5.1 to 2.5.5).

use crate::kit::{Kit, Peer, known};
use crate::script::{Done, Script};
use crate::wire::perf;
use crate::{ensure, same};

const AREA: &str = "session";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "SN-01",
        &["2.5.1-a", "2.5.1-b", "2.5.1-f", "2.7.2-a"],
        "many sessions live side by side on their channels",
        side_by_side,
    ),
    Script::new(
        AREA,
        "SN-02",
        &["2.5.2-a", "2.5.2-b", "2.5.2-d"],
        "an ended channel can be begun again",
        begun_again,
    ),
    Script::new(
        AREA,
        "SN-03",
        &["2.5.1-e"],
        "frames on a channel never begun close the connection",
        never_begun,
    ),
    Script::new(
        AREA,
        "SN-04",
        &["2.5.1-a"],
        "a second begin on a live channel is an error",
        begun_twice,
    ),
    Script::new(
        AREA,
        "SN-05",
        &["2.5.5-b", "2.5.5-a", "2.5.2-b"],
        "begin, end and begin in one write",
        pipelined_channel,
    ),
    Script::new(
        AREA,
        "SN-06",
        &["2.5.4-a", "2.5.4-c", "2.7.8-a"],
        "an error of one session leaves the other alone",
        error_stays_inside,
    ),
    Script::new(
        AREA,
        "SN-07",
        &["2.5.2-c", "2.5.2-e"],
        "nothing comes on a channel after its end",
        silent_after_end,
    ),
    Script::new(
        AREA,
        "SN-08",
        &["2.5.1-d", "2.8.15-f"],
        "a thousand sessions are refused cleanly or served",
        many_sessions,
    ),
    Script::new(
        AREA,
        "SN-09",
        &["2.5.3-a", "2.7.8-a"],
        "an end with an error is answered by an end",
        end_with_error,
    ),
    Script::new(
        AREA,
        "SN-10",
        &["2.5.1-c"],
        "a begin that names a remote-channel nobody has is refused or ignored",
        stray_remote_channel,
    ),
];

fn begin(p: &mut Peer, channel: u16) -> Done<u16> {
    let begin = perf("begin")
        .with("next-outgoing-id", 0u32)
        .with("incoming-window", 2048u32);
    p.send(channel, begin.with("outgoing-window", 2048u32));
    let answer = p.want("begin")?;
    same!(
        answer.number("remote-channel"),
        Some(channel.into()),
        "remote-channel"
    );
    for field in ["next-outgoing-id", "incoming-window", "outgoing-window"] {
        ensure!(
            answer.number(field).is_some(),
            "{field} is missing in {answer:?}"
        );
    }
    Ok(answer.channel)
}

fn side_by_side(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let mut seen = vec![];
    for channel in [3, 0, 9, 1] {
        let remote = begin(&mut p, channel)?;
        ensure!(
            !seen.contains(&remote),
            "the broker used channel {remote} twice"
        );
        seen.push(remote);
        let attach = p.receiver_attach(&format!("r{channel}"), 0, "q1");
        p.send(channel, attach);
        let answer = p.want("attach")?;
        same!(answer.channel, remote, "channel of the attach");
    }
    p.close()
}

fn begun_again(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    for _ in 0..20 {
        begin(&mut p, 0)?;
        p.hex(known::END);
        let end = p.want("end")?;
        ensure!(end.field("error").is_null(), "{end:?}");
    }
    p.close()
}

fn never_begun(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    p.hex(known::RCV);
    p.refused(&[
        "amqp:not-allowed",
        "amqp:illegal-state",
        "amqp:connection:framing-error",
        "amqp:not-found",
        "amqp:session:errant-link",
    ])?;
    let mut p = k.session()?;
    // A flow on channel 5, which nobody began.
    p.send(
        5,
        perf("flow")
            .with("incoming-window", 1u32)
            .with("next-outgoing-id", 0u32)
            .with("outgoing-window", 1u32),
    );
    p.refused(&[
        "amqp:not-allowed",
        "amqp:illegal-state",
        "amqp:connection:framing-error",
        "amqp:not-found",
    ])?;
    Ok(())
}

fn begun_twice(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex(known::BEGIN);
    let answer = p.want_where("end or close", |f| ["end", "close"].contains(&f.name()));
    ensure!(
        answer.is_ok() || p.count("close") == 1,
        "a second begin on channel 0 was taken"
    );
    Ok(())
}

fn pipelined_channel(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    p.hex(&[known::BEGIN, known::END, known::BEGIN, known::SND].concat());
    p.want("begin")?;
    p.want("end")?;
    p.want("begin")?;
    let answer = p.want("attach")?;
    ensure!(!answer.field("target").is_null(), "{answer:?}");
    p.close()
}

fn error_stays_inside(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    begin(&mut p, 1)?;
    let transfer = p.transfer(9, 0);
    p.send_with(1, transfer, &crate::wire::message::data(b"x"));
    let end = p.want("end")?;
    same!(
        end.condition(),
        "amqp:session:unattached-handle",
        "condition"
    );
    same!(Some(end.channel), p.remote_channel(1), "channel of the end");
    p.send(1, perf("end"));
    p.credit_wait(0)?;
    p.publish(0, 0, &crate::wire::message::data(b"y"));
    same!(p.outcome(0)?, "accepted", "outcome on the other session");
    p.close()
}

fn silent_after_end(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.receiver("r1", 1, "q1")?;
    p.credit(1, 100);
    p.sync()?;
    p.hex(known::END);
    p.want("end")?;
    k.fill_count("q1", 5)?;
    p.quiet("transfer", 300)?;
    p.close()?;
    same!(k.bodies("q1")?.len(), 5, "messages left in the queue");
    Ok(())
}

fn many_sessions(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let limit = p
        .opened
        .as_ref()
        .and_then(|o| o.number("channel-max"))
        .unwrap_or(65_535);
    for channel in 0..limit.min(1_000) as u16 {
        let begin = perf("begin")
            .with("next-outgoing-id", 0u32)
            .with("incoming-window", 9u32);
        p.send(channel, begin.with("outgoing-window", 9u32));
    }
    for _ in 0..limit.min(1_000) {
        let answer = p.want_where("begin or end", |f| ["begin", "end"].contains(&f.name()));
        match answer {
            Ok(_) => {}
            Err(_) if p.count("close") == 1 => {
                return p
                    .refused(&[
                        "amqp:resource-limit-exceeded",
                        "amqp:not-allowed",
                        "amqp:connection:framing-error",
                    ])
                    .map(drop);
            }
            Err(e) => return Err(e),
        }
    }
    p.close()
}

fn end_with_error(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let error = perf("error").with("condition", crate::wire::sym("amqp:internal-error"));
    p.send(0, perf("end").with("error", error));
    p.want("end")?;
    begin(&mut p, 0)?;
    p.close()
}

fn stray_remote_channel(k: &mut Kit) -> Done {
    let mut p = k.open()?;
    let begin = perf("begin")
        .with("remote-channel", 77u16)
        .with("next-outgoing-id", 0u32);
    p.send(
        0,
        begin
            .with("incoming-window", 9u32)
            .with("outgoing-window", 9u32),
    );
    let answer = p.want_where("an answer", |f| ["begin", "end"].contains(&f.name()));
    ensure!(answer.is_ok() || p.count("close") == 1, "no answer at all");
    Ok(())
}
