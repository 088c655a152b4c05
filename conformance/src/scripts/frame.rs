//! Frame layout, sizes, types (transport 2.3), empty frames.

use crate::kit::{Kit, known};
use crate::script::{Done, Script};
use crate::wire::{hex, message, perf};
use crate::{ensure, same};

const AREA: &str = "frame";
const FRAMING: &[&str] = &["amqp:connection:framing-error"];
const FRAMING_OR_NOT_ALLOWED: &[&str] = &["amqp:connection:framing-error", "amqp:not-allowed"];

/// Scripts of this area.
pub(super) const SCRIPTS: &[Script] = &[
    Script::new(
        AREA,
        "FR-01",
        &["2.3.1-a", "2.3.1-b", "2.8.16-a", "2.7.9-a"],
        "a size below eight is a framing error",
        size_below_header,
    ),
    Script::new(
        AREA,
        "FR-02",
        &["2.3.1-e", "2.8.16-a"],
        "a data offset past the frame's end is a framing error",
        offset_past_end,
    ),
    Script::new(
        AREA,
        "FR-03",
        &["2.3.1-c"],
        "a data offset below two is a framing error",
        offset_below_two,
    ),
    Script::new(
        AREA,
        "FR-04",
        &["2.3.1-d"],
        "an extended header is skipped",
        extended_header,
    ),
    Script::new(
        AREA,
        "FR-05",
        &["2.7.1-d", "2.3.1-a"],
        "a frame that is too large is refused from its header alone",
        size_too_large,
    ),
    Script::new(
        AREA,
        "FR-06",
        &["2.7.1-c", "2.4.1-e", "2.7.1-b", "2.6.14-a"],
        "each side's frame limit holds for the other side only",
        limits_per_direction,
    ),
    Script::new(
        AREA,
        "FR-07",
        &["2.3-a", "2.1.2-a"],
        "frames cut at every octet are understood",
        cut_anywhere,
    ),
    Script::new(
        AREA,
        "FR-08",
        &["2.7.1-e", "2.7.1-b"],
        "the open of the broker fits into 512 octets and a full 512 are taken",
        first_frames_small,
    ),
    Script::new(
        AREA,
        "FR-09",
        &["2.4.5-e", "2.3.2-b"],
        "empty frames are taken on any valid channel",
        empty_frames,
    ),
    Script::new(
        AREA,
        "FR-11",
        &["2.3.1-f", "5.3.1-a"],
        "a frame of another type closes the connection",
        other_types,
    ),
    Script::new(
        AREA,
        "FR-13",
        &["2.7.1-c"],
        "a frame exactly as large as announced is taken, one octet more is not",
        exact_limit,
    ),
];

fn size_below_header(k: &mut Kit) -> Done {
    for bad in ["0000000002000000", "0000000402000000", "0000000702000000"] {
        let mut p = k.open()?;
        p.hex(bad);
        p.refused(FRAMING)?;
        let mut p = k.hello()?;
        p.hex(bad);
        let until_end = p.refusal(FRAMING);
        until_end?;
    }
    Ok(())
}

fn offset_past_end(k: &mut Kit) -> Done {
    for bad in ["0000000c0400000000000000", "00000008ff000000"] {
        let mut p = k.open()?;
        p.hex(bad);
        p.refused(FRAMING)?;
    }
    let mut p = k.open()?;
    p.hex("0000000c04000000");
    k.wait(20);
    p.hex("00000000");
    p.refused(FRAMING)?;
    Ok(())
}

fn offset_below_two(k: &mut Kit) -> Done {
    for bad in ["0000000801000000", "0000000800000000"] {
        let mut p = k.open()?;
        p.hex(bad);
        p.refused(FRAMING)?;
    }
    Ok(())
}

fn extended_header(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    p.hex("0000001603000000deadbeef005310c00501a1026331");
    p.hex("000000260500000000112233445566778899aabb005311c00d04404370000008007000000800");
    p.want("open")?;
    let begin = p.want("begin")?;
    same!(begin.number("remote-channel"), Some(0), "remote-channel");
    p.close()
}

fn size_too_large(k: &mut Kit) -> Done {
    for bad in ["7fffffff02000000", "ffffffff02000000"] {
        let mut p = k.session()?;
        p.hex(bad);
        p.refused(FRAMING)?;
    }
    // Before the opens are exchanged the bound is 512 octets, or one the broker documents.
    let mut p = k.hello()?;
    p.hex("0010000002000000");
    p.refusal(FRAMING)?;
    Ok(())
}

fn limits_per_direction(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    p.hex("0000001802000000005310c00b03a1026331407000000200");
    let open = p.want("open")?;
    let own = open.number("max-frame-size").unwrap_or(u32::MAX.into());
    ensure!(
        own >= 4096,
        "the broker announced {own}, its peer's limit is not its own"
    );
    p.hex(known::BEGIN);
    p.want("begin")?;
    p.hex(known::SND);
    p.hex(known::RCV);
    p.credit_wait(0)?;
    let body = vec![7; 3_900];
    p.publish(0, 0, &message::data(&body));
    same!(p.outcome(0)?, "accepted", "outcome");
    p.credit(1, 1);
    let got = p.must_get("r1")?;
    same!(message::data_of(&got.payload), Some(body), "body");
    ensure!(got.frames > 7, "3900 octets in {} frames", got.frames);
    ensure!(
        p.largest <= 512,
        "a frame of {} octets came, 512 was announced",
        p.largest
    );
    p.settle(got.id, "accepted");
    p.close()
}

fn cut_anywhere(k: &mut Kit) -> Done {
    let mut bytes = hex(known::OPEN);
    bytes.extend(hex(known::BEGIN));
    let step = if k.is_virtual() { 1 } else { 7 };
    for cut in (1..bytes.len()).step_by(step) {
        let mut p = k.hello()?;
        p.raw(&bytes[..cut]);
        k.wait(1);
        p.raw(&bytes[cut..]);
        p.want("open")?;
        p.want("begin")?;
        p.close()?;
    }
    Ok(())
}

fn first_frames_small(k: &mut Kit) -> Done {
    let mut p = k.hello()?;
    let bytes = (1..512)
        .map(|len| perf("open").with("container-id", "c".repeat(len)))
        .map(|open| crate::wire::frame_bytes(0, 0, Some(&open), &[]))
        .take_while(|bytes| bytes.len() <= 512)
        .last()
        .expect("an open of 512 octets");
    same!(bytes.len(), 512, "octets of the open");
    p.raw(&bytes);
    let open = p.want("open")?;
    ensure!(
        open.size <= 512,
        "the broker's open has {} octets",
        open.size
    );
    let limit = open.number("max-frame-size").unwrap_or(u32::MAX.into());
    ensure!(limit >= 512, "max-frame-size {limit}");
    p.close()
}

fn empty_frames(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex("0000000802000000");
    p.hex("0000000802000005");
    p.sync()?;
    p.close()
}

fn other_types(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    p.hex("0000000802020000");
    p.refused(FRAMING_OR_NOT_ALLOWED)?;
    let mut p = k.session()?;
    p.hex("0000001002010000005344c003015000");
    p.refused(FRAMING_OR_NOT_ALLOWED)?;
    Ok(())
}

fn exact_limit(k: &mut Kit) -> Done {
    let mut p = k.session()?;
    let open = p.opened.clone().expect("an open");
    let limit = open.number("max-frame-size").unwrap_or(u32::MAX.into());
    if limit > 4 << 20 {
        return crate::kit::unsupported("announces no useful frame limit");
    }
    let limit = limit as usize;
    p.sender("s1", 0, "q1")?;
    p.credit_wait(0)?;
    let head = crate::wire::frame_bytes(0, 0, Some(&p.transfer(0, 0)), &message::data(&[0; 300]));
    let overhead = head.len() - 300 + if limit > 300 { 0 } else { 4 };
    p.publish(0, 0, &message::data(&vec![1; limit - overhead]));
    same!(
        p.outcome(0)?,
        "accepted",
        "outcome of a frame of exactly the limit"
    );
    p.publish(0, 1, &message::data(&vec![1; limit - overhead + 1]));
    p.refused(FRAMING)?;
    Ok(())
}
