//! Ends and closes that cross other traffic (transport 2.4.3, 2.4.4, 2.5.2 to 2.5.5).

use crate::kit::{Kit, known};
use crate::script::{Done, Script};
use crate::wire::{hex, message, perf};
use crate::{ensure, same};

const AREA: &str = "teardown";

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "TD-01",
        &["2.4.3-b", "2.5.2-b", "2.5.2-c"],
        "end and close in one write are answered in order, nothing behind them",
        end_and_close,
    ),
    Script::new(
        AREA,
        "TD-02",
        &["2.5.4-b", "2.5.5-a", "2.8.17-b", "2.5.4-c"],
        "frames in flight behind a session error are dropped",
        discarding,
    ),
    Script::new(
        AREA,
        "TD-03",
        &["2.5.2-e", "3.3-c", "2.6.14-d"],
        "a session that ends gives everything back once and in order",
        session_gone,
    ),
    Script::new(
        AREA,
        "TD-04",
        &["3.3-c", "2.6.14-d"],
        "a connection that is cut gives everything back once and in order",
        connection_gone,
    ),
    Script::new(
        AREA,
        "TD-05",
        &["2.4.4-a", "2.4.3-c"],
        "closes that cross are both answers",
        crossing_closes,
    ),
    Script::new(
        AREA,
        "TD-06",
        &["2.4.3-a", "2.4.3-d"],
        "an error close is read by a peer that goes on sending",
        close_under_load,
    ),
    Script::new(
        AREA,
        "TD-07",
        &["2.5.2-c", "2.5.2-b"],
        "frames on a channel that just ended hurt nobody",
        after_end,
    ),
    Script::new(
        AREA,
        "TD-08",
        &["2.5.3-a", "2.5.2-d"],
        "an end that crosses the broker's end closes the session",
        crossing_ends,
    ),
];

fn end_and_close(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex(known::SND);
    p.want("attach")?;
    p.hex(known::RCV);
    p.want("attach")?;
    p.pump(100)?;
    p.forget();
    p.hex("0000000c02000000005317450000000c0200000000531845");
    p.pump(500)?;
    let names: Vec<_> = p.stash.iter().map(|f| f.name()).collect();
    let end = names.iter().position(|n| *n == "end");
    same!(
        end,
        Some(names.len().saturating_sub(2)),
        "place of the end in {names:?}"
    );
    same!(
        names.last().copied(),
        Some("close"),
        "last frame of {names:?}"
    );
    p.gone()
}

fn discarding(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let begin = perf("begin")
        .with("next-outgoing-id", 0u32)
        .with("incoming-window", 2048u32);
    p.send(1, begin.with("outgoing-window", 2048u32));
    p.want("begin")?;
    let mut bytes = hex("0000001f02000000005314c00804520943a0010043005375a00568656c6c6f");
    for id in 1..50 {
        let transfer = p.transfer(0, id);
        bytes.extend(crate::wire::frame_bytes(
            0,
            0,
            Some(&transfer),
            &message::data(b"x"),
        ));
    }
    let flow = p.session_flow().with("echo", true);
    bytes.extend(crate::wire::frame_bytes(0, 0, Some(&flow), &[]));
    let attach = p.receiver_attach("late", 5, "q1");
    bytes.extend(crate::wire::frame_bytes(0, 0, Some(&attach), &[]));
    p.raw(&bytes);
    let end = p.want("end")?;
    same!(
        end.condition(),
        "amqp:session:unattached-handle",
        "condition"
    );
    p.pump(200)?;
    same!(p.count("end"), 0, "more ends");
    same!(p.count("attach"), 0, "attaches behind the end");
    same!(p.count("disposition"), 0, "dispositions behind the end");
    p.hex(known::END);
    p.hex(known::BEGIN);
    p.want("begin")?;
    p.send(1, p.receiver_attach("r1", 1, "q1"));
    p.want_on(1, "attach")?;
    p.close()
}

/// Three consumers with ten messages each, and a delivery that is half sent.
fn loaded(k: &mut Kit) -> Done<crate::kit::Peer> {
    k.fill_count("q1", 30)?;
    let mut p = k.session()?;
    for handle in 1..4 {
        p.receiver(&format!("r{handle}"), handle, "q1")?;
        p.credit(handle, 10);
        p.must_get_all(&format!("r{handle}"), 10)?;
    }
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let transfer = p.transfer(0, 0).with("more", true);
    p.send_with(0, transfer, &message::data(b"half")[..5]);
    p.sync()?;
    Ok(p)
}

fn in_order(k: &mut Kit) -> Done {
    let wanted: Vec<_> = (0..30).map(|n| format!("m{n}")).collect();
    same!(k.bodies("q1")?, wanted, "what came back");
    Ok(())
}

fn session_gone(k: &mut Kit) -> Done {
    let mut p = loaded(k)?;
    p.hex("0000000c0200000000531745");
    p.want("end")?;
    in_order(k)?;
    p.close()
}

fn connection_gone(k: &mut Kit) -> Done {
    let mut p = loaded(k)?;
    p.cut();
    k.wait(100);
    in_order(k)
}

fn crossing_closes(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    // The bad frame makes the broker close; our close is on its way at the same time.
    let bytes = [hex("0000000002000000"), hex(known::CLOSE)].concat();
    p.raw(&bytes);
    let close = p.want("close")?;
    same!(
        close.condition(),
        "amqp:connection:framing-error",
        "condition"
    );
    p.gone()
}

fn close_under_load(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let mut bytes = hex("0000000002000000");
    bytes.extend(vec![0x55; 1 << 20]);
    p.raw(&bytes);
    let close = p.want("close")?;
    same!(
        close.condition(),
        "amqp:connection:framing-error",
        "condition"
    );
    Ok(())
}

fn after_end(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.sender("s1", 0, "q1")?;
    p.receiver("r1", 1, "q1")?;
    p.pump(100)?;
    let detaches = [
        "0000001002000000005316c003024341",
        "0000001102000000005316c00402520141",
    ]
    .concat();
    p.hex(&[known::END, &detaches].concat());
    p.want("end")?;
    p.pump(200)?;
    ensure!(
        p.count("close") == 0,
        "late detaches of a peer closed its connection"
    );
    p.hex(known::BEGIN);
    p.want("begin")?;
    p.sender("s1", 0, "q1")?;
    p.close()
}

fn crossing_ends(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let bytes = [
        hex("0000001f02000000005314c00804520943a0010043005375a00568656c6c6f"),
        hex(known::END),
    ]
    .concat();
    p.raw(&bytes);
    p.want("end")?;
    p.quiet("end", 200)?;
    p.hex(known::BEGIN);
    p.want("begin")?;
    p.close()
}
