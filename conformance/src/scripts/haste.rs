//! What comes in one read: attaches with their ends behind them, transfers that nobody gave credit for; and answers
//! that have to fit into the smallest frames.

use crate::kit::{Kit, known};
use crate::script::{Done, Script};
use crate::wire::{frame_bytes, message, perf};
use crate::{ensure, same};

const AREA: &str = "haste";
/// The least that every peer takes (2.7.1).
const FRAME_MIN: u32 = 512;

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "HA-01",
        &["2.6.3-a", "2.6.6-a", "2.6.6-b"],
        "attach and detach in one write are answered by attach and detach, the name is free",
        attach_detach,
    ),
    Script::new(
        AREA,
        "HA-02",
        &["2.6.7-a", "3.4.2-a"],
        "transfers without credit and the end of their link in one write: nothing is confirmed that is not kept",
        hasty_end,
    ),
    Script::new(
        AREA,
        "HA-03",
        &["2.7.1-c", "2.7.3-a"],
        "a peer that takes 512 octets a frame gets none larger, whatever has to be said",
        small_frames,
    ),
];

fn attach_detach(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    for round in 0..3 {
        for (name, attach, is_receiver) in [
            ("s1", p.sender_attach("s1", 0, "q1"), false),
            ("r1", p.receiver_attach("r1", 0, "q1"), true),
        ] {
            let detach = perf("detach").with("handle", 0u32).with("closed", true);
            let bytes = [
                frame_bytes(0, 0, Some(&attach), &[]),
                frame_bytes(0, 0, Some(&detach), &[]),
            ]
            .concat();
            let placed = p.place(bytes);
            p.raw(&placed);
            let answer = p.want("attach")?;
            same!(
                answer.field("name").words(),
                Some(name),
                "name in the answer, round {round}"
            );
            same!(answer.flag("role"), !is_receiver, "role in the answer");
            let detach = p.want("detach")?;
            same!(
                detach.number("handle"),
                answer.number("handle"),
                "handle of the detach"
            );
            ensure!(detach.flag("closed"), "not a closing one: {detach:?}");
        }
    }
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    p.publish(0, 0, &message::data(b"x"));
    same!(p.outcome(0)?, "accepted", "outcome");
    p.close()?;
    same!(k.bodies("q1")?, vec!["x".to_string()], "messages kept");
    Ok(())
}

/// No client does this; a broker may take or drop what it gets so, but an `accepted` binds it.
fn hasty_end(k: &mut Kit) -> Done {
    let detach = perf("detach").with("handle", 0u32).with("closed", true);
    let ends = [perf("close"), perf("end"), detach];
    for (n, end) in ends.into_iter().enumerate() {
        let queue = format!("q{n}");
        k.fill(&queue, &[message::data(b"first")])?;
        let mut p = k.session()?;
        let attach = p.sender_attach("s1", 0, &queue);
        let mut bytes = frame_bytes(0, 0, Some(&attach), &[]);
        for id in 0..3 {
            let transfer = p.transfer(0, id);
            bytes.extend(frame_bytes(0, 0, Some(&transfer), &message::data(b"hasty")));
        }
        bytes.extend(frame_bytes(0, 0, Some(&end), &[]));
        let placed = p.place(bytes);
        p.raw(&placed);
        p.want(end.name)?;
        let accepted = p
            .take("disposition")
            .iter()
            .filter(|frame| frame.state() == "accepted")
            .map(|frame| {
                let first = frame.number("first").unwrap_or(0);
                frame.number("last").unwrap_or(first) - first + 1
            })
            .sum::<u64>();
        p.cut();
        let kept = k.bodies(&queue)?;
        let hasty = kept.iter().filter(|body| *body == "hasty").count();
        ensure!(
            hasty as u64 >= accepted && hasty <= 3,
            "{accepted} were accepted, {hasty} are kept behind {}",
            end.name
        );
        ensure!(
            kept.first().is_some_and(|body| body == "first"),
            "what was there before is gone: {kept:?}"
        );
    }
    Ok(())
}

fn small_frames(k: &mut Kit) -> Done {
    k.fill(
        "q1",
        &[message::data(&[b'x'; 2_000]), message::data(b"small")],
    )?;
    // Long names and addresses come back in answers and in texts. The longest cannot be answered at all: then the
    // session may go, in a small frame.
    for len in [100, 200, 255, 400, 600] {
        let mut p = k.hello()?;
        let open = perf("open").with("container-id", "c1");
        p.send(0, open.with("max-frame-size", FRAME_MIN));
        p.want("open")?;
        p.hex(known::BEGIN);
        p.want("begin")?;
        p.receiver("r1", 1, "q1")?;
        p.credit(1, 1);
        same!(p.must_get("r1")?.text().len(), 2_000, "octets of the body");
        let long = "n".repeat(len);
        for (handle, name) in [(2, "s2"), (3, &long)] {
            let attach = p.sender_attach(name, handle, &long);
            p.send(0, attach);
        }
        p.pump(300)?;
        ensure!(
            p.largest <= FRAME_MIN as usize,
            "a frame of {} octets came, {FRAME_MIN} were announced",
            p.largest
        );
        ensure!(
            p.count("attach") + p.count("end") + p.count("close") > 0,
            "no answer to a name of {len} octets"
        );
        p.cut();
    }
    Ok(())
}
