//! Bytes and limits, over loopback, on both front ends.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests drive real sockets, threads and clocks"
)]

mod bed;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bed::{Bed, FRONTS, Mood, TestStore};
use qq_core::store::Op;

#[test]
fn bytes_come_back_in_order_whatever_the_pieces() {
    for front in FRONTS {
        let bed = Bed::start(front, |config| {
            config.read_buffer_bytes = 512;
            config.transmit_budget_bytes = 512;
        });
        let mut client = bed.connect();
        for piece in [&b"a"[..], b"bc", b"d\nef", b"\n"] {
            client.write(piece);
        }
        assert_eq!([client.line(), client.line()], ["abcd", "ef"]);
        // A line longer than every buffer, and more output than a budget.
        let long = vec![b'y'; 100_000];
        client.write(&long);
        client.write(b"\n");
        assert_eq!(client.line().len(), long.len());
        client.write(b"big 300000\nbye\n");
        let rest = client.rest();
        assert_eq!(rest.len(), 300_000 + 4);
        assert_eq!(rest.iter().filter(|byte| **byte == b'x').count(), 300_000);
        bed.stop().expect("drained");
    }
}

#[test]
fn a_peer_that_reads_late_gets_everything() {
    for front in FRONTS {
        // Small budgets, so that input is left in the socket again and again while output waits.
        for budget in [600, 64 * 1024] {
            let bed = Bed::start(front, |config| config.transmit_budget_bytes = budget);
            let mut client = bed.connect();
            let mut writer = client.stream.get_ref().try_clone().expect("clone");
            let writing = std::thread::spawn(move || {
                for number in 0..100_000 {
                    std::io::Write::write_all(
                        &mut writer,
                        format!("line {number} of a hundred thousand\n").as_bytes(),
                    )?;
                }
                std::io::Write::write_all(&mut writer, b"bye\n")
            });
            std::thread::sleep(Duration::from_millis(300));
            for number in 0..100_000 {
                assert_eq!(
                    client.line(),
                    format!("line {number} of a hundred thousand")
                );
            }
            assert_eq!(client.line(), "bye");
            assert!(client.rest().is_empty());
            writing.join().expect("no panic").expect("written");
            bed.stop().expect("drained");
        }
    }
}

#[test]
fn many_connections_are_served_on_several_threads() {
    for front in FRONTS {
        let bed = Bed::start(front, |config| {
            config.io_threads = 3;
            config.unauthenticated_per_ip_max = 300;
        });
        let mut clients: Vec<_> = (0..300).map(|_| bed.connect()).collect();
        for (number, client) in clients.iter_mut().enumerate() {
            client.write(format!("line {number}\n").as_bytes());
        }
        for (number, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.line(), format!("line {number}"));
        }
        bed.stop().expect("drained");
    }
}

#[test]
fn td_06_the_last_word_arrives_though_the_peer_went_on_writing() {
    for front in FRONTS {
        let bed = Bed::start(front, |_| {});
        let mut client = bed.connect();
        client.write(b"bye\n");
        // Less than what is read and forgotten, so all of it is taken from the socket.
        client.write(&vec![b'z'; 200_000]);
        assert_eq!(client.line(), "bye");
        assert_eq!(client.rest(), b"");
        bed.stop().expect("drained");
    }
}

#[test]
fn a_peer_that_does_not_read_is_cut_and_others_are_served() {
    for front in FRONTS {
        let bed = Bed::start(front, |config| {
            config.slow_reader = Duration::from_millis(300)
        });
        let mut slow = bed.connect();
        slow.write(b"big 1000000000\n");
        let mut other = bed.connect();
        assert!(other.is_served());
        // It is cut without reading: reading would let it live. The end is a reset or an end long before the last byte.
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(15)
            && slow
                .stream
                .get_mut()
                .take_error()
                .expect("socket")
                .is_none()
        {
            if std::io::Write::write_all(slow.stream.get_mut(), b"x").is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut bytes = Vec::new();
        let _ = std::io::Read::read_to_end(&mut slow.stream, &mut bytes);
        assert!(bytes.len() < 1_000_000_000);
        assert!(other.is_served());
        bed.stop().expect("drained");
    }
}

#[test]
fn a_face_that_panics_costs_its_connection_only() {
    for front in FRONTS {
        let bed = Bed::start(front, |_| {});
        let mut other = bed.connect();
        assert!(other.is_served());
        let mut client = bed.connect();
        client.write(b"panic\n");
        assert_eq!(client.line(), "");
        assert!(other.is_served());
        assert!(bed.connect().is_served());
        bed.stop().expect("drained");
    }
}

#[test]
fn connections_beyond_the_limits_are_closed_and_places_come_back() {
    for front in FRONTS {
        for per_ip in [false, true] {
            let bed = Bed::start(front, |config| {
                *(if per_ip {
                    &mut config.connections_per_ip_max
                } else {
                    &mut config.connections_max
                }) = 2;
            });
            let (mut first, mut second) = (bed.connect(), bed.connect());
            assert!(first.is_served() && second.is_served());
            assert!(!bed.connect().is_served());
            first.write(b"bye\n");
            assert_eq!(first.line(), "bye");
            drop(first);
            let again = (0..200).any(|_| {
                std::thread::sleep(Duration::from_millis(10));
                bed.connect().is_served()
            });
            assert!(again, "the place of a closed connection is free again");
            assert!(second.is_served());
            bed.stop().expect("drained");
        }
    }
}

#[test]
fn op_02_the_oldest_strangers_make_room() {
    for front in FRONTS {
        for per_ip in [false, true] {
            let bed = Bed::start(front, |config| {
                *(if per_ip {
                    &mut config.unauthenticated_per_ip_max
                } else {
                    &mut config.unauthenticated_max
                }) = 2;
            });
            let mut known = bed.connect();
            assert!(known.is_served());
            let mut strangers: Vec<_> = (0..4).map(|_| bed.connect()).collect();
            // The first ones are closed without a word, the last one is still welcome, and so are real clients.
            assert_eq!(strangers[0].line(), "");
            assert!(bed.connect().is_served());
            assert!(strangers[3].is_served());
            assert!(known.is_served());
            bed.stop().expect("drained");
        }
    }
}

#[test]
fn an_idle_connection_that_ends_leaves_nothing_behind() {
    for front in FRONTS {
        let bed = Bed::start(front, |config| config.connections_max = 3);
        // Far more than there are places, one after the other.
        for _ in 0..50 {
            let served = (0..200).any(|_| {
                let served = bed.connect().is_served();
                if !served {
                    std::thread::sleep(Duration::from_millis(5));
                }
                served
            });
            assert!(served);
        }
        bed.stop().expect("drained");
    }
}

#[test]
fn messages_pass_through_broker_and_store_between_threads() {
    for front in FRONTS {
        for (is_instant, threads) in [(true, 1), (false, 1), (true, 3), (false, 3)] {
            let store = TestStore::new(is_instant, Mood::Well);
            let kept = Arc::clone(&store.kept);
            let bed = Bed::start_with(front, store, |config| config.io_threads = threads);
            let mut consumer = bed.connect();
            consumer.write(b"take\n");
            let mut producers: Vec<_> = (0..4).map(|_| bed.connect()).collect();
            for producer in &mut producers {
                producer.write(b"put\nput\n");
            }
            for producer in &mut producers {
                // Verdicts come as ranges: one word or two.
                assert_eq!(producer.line(), "confirmed");
            }
            assert_eq!(consumer.line(), "got");
            consumer.write(b"done\n");
            assert!(consumer.is_served());
            bed.stop().expect("drained");
            let kept = kept.lock().expect("no panic");
            let count = |wanted: fn(&Op) -> bool| kept.iter().filter(|op| wanted(op)).count();
            assert_eq!(count(|op| matches!(op, Op::Enqueued(_))), 8);
            assert_eq!(count(|op| matches!(op, Op::Removed { .. })), 1);
        }
    }
}
