//! Target for the HTTP guard: bytes as requests of one connection. However they are cut, the same requests come out and the
//! same is refused, and what comes out is bounded.

use std::time::Duration;

use qq_http::{Guard, GuardEvent, Head, Limits};

const NOW: Duration = Duration::from_secs(1);
const BODY_MAX: usize = 64;

/// What came out. Which of several faults of one head is told depends on how it was cut; that it is refused does not.
#[derive(Debug, PartialEq, Eq)]
enum Came {
    Head(Head),
    Body(Vec<u8>),
    Refused,
    Closed,
}

/// Requests one behind the other, whole and in pieces.
pub fn http(data: &[u8]) {
    let whole = read(data, data.len().max(1));
    for step in [1, 3, 7] {
        assert_eq!(read(data, step), whole, "in pieces of {step}");
    }
}

fn read(data: &[u8], step: usize) -> Vec<Came> {
    let limits = Limits {
        head_max: 512,
        headers_max: 8,
        ..Limits::default()
    };
    let mut guard = Guard::new(limits, NOW);
    let mut events = Vec::new();
    for part in data.chunks(step) {
        if !guard.wants_read() {
            break;
        }
        guard.handle_input(NOW, part);
        while let Some(event) = guard.poll_event() {
            events.push(match event {
                GuardEvent::Head(head) => {
                    assert!(head.headers.len() <= 8, "{head:?}");
                    assert!(
                        head.target.starts_with('/') || head.target == "*",
                        "{head:?}"
                    );
                    guard.admit(BODY_MAX);
                    Came::Head(head)
                }
                GuardEvent::Body(body) => {
                    assert!(body.len() <= BODY_MAX);
                    guard.done(NOW);
                    Came::Body(body)
                }
                GuardEvent::Refused { status, .. } => {
                    assert!((400..600).contains(&status));
                    Came::Refused
                }
                GuardEvent::Closed => Came::Closed,
            });
        }
    }
    events
}
